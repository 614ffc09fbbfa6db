//! Finding 13: two users of one repository.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use ftl_needs::needs;

use crate::support::{CommandOutcome, Dir, ended};
use crate::tally::{Tally, tries};

/// The user that owns the repository, and one that has nothing to do with it.
const OWNER: u32 = 65_534;
const OTHER: u32 = 61_234;

const ASK: &str = "INPUT: objective\nSTATE: START\n  ASK: reply = \"Good?\" choices=yes|no\n  RETURN: complete said={reply}\n";

/// A repository of an ordinary user.
fn repository() -> Dir {
    let dir = Dir::repository();
    dir.protocol("ask", ASK).write("a.txt", "a\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    give(&dir.path(""), OWNER);
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), user));
    }
}

fn as_user(dir: &Dir, user: u32, args: &[&str]) -> CommandOutcome {
    let mut command = dir.command(args);
    command.uid(user).gid(user).env("HOME", dir.path(""));
    ended(command)
}

/// How many files of a repository belong to root.
fn of_root(path: &Path) -> Vec<String> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut all = if found.uid() == 0 { vec![path.display().to_string()] } else { Vec::new() };
    if found.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| all.extend(of_root(&entry.unwrap().path())));
    }
    all
}

#[needs(root)]
#[test]
fn root_writes_nothing_in_a_repository_of_somebody_else() {
    let mut tally =
        Tally::of("what root does in an owner's repository is refused, with the command that works");
    for _ in 0..tries(1) {
        let dir = repository();
        // There is no state yet: root does not make one, and says whose it would be.
        let first = dir.ftl(&["run", "ask", "objective=x", "--by", "R"]);
        tally.count((first.code != 1 || !first.err.contains("sudo -u")).then(|| format!("{first:?}")));
        tally.count(dir.path(".ftl/store").exists().then(|| String::from("root has made a store")));
        let ran = as_user(&dir, OWNER, &["run", "ask", "objective=x", "--json", "--by", "O"]);
        let run = ran.json()["run"].as_str().unwrap_or_else(|| panic!("{ran:#?}")).to_owned();
        as_user(&dir, OWNER, &["campaign", "create", "x"]).code(0);
        let task =
            r#"{"objective":"x","tasks":[{"seq":"001","slug":"a","delta":["a.txt"],"verify":"true"}]}"#;
        dir.write("plan.json", task);
        give(&dir.path("plan.json"), OWNER);
        let mut add = dir.command(&["campaign", "add-tasks"]);
        add.uid(OWNER).gid(OWNER).stdin(fs::File::open(dir.path("plan.json")).unwrap());
        ended(add).code(0);
        let lesson = r#"{"name":"jam","trigger":"the frobnicator is jammed again","fix":"unjam it"}"#;
        let update = ["campaign", "update-task", "001", "complete"];
        for args in [
            &["resume", &run, "--by", "R"][..],
            &["answer", &run, "yes", "--by", "R"],
            &["run", "ask", "objective=y", "--by", "R"],
            &["stop", &run, "--by", "R"],
            &["doctor"],
            &["init"],
            &["campaign", "create", "y"],
            &update,
            &["memory", "add-failure", "--json", lesson],
        ] {
            let ended = dir.ftl(args);
            let told =
                ended.err.contains("belongs to another user (number 65534)") && ended.err.contains("sudo -u");
            tally.count((ended.code == 0 || !told).then(|| format!("{args:?}: {ended:?}")));
        }
        // Looking works, and leaves nothing of root's behind.
        for args in
            [&["status", "--json"][..], &["log", &run, "--json"], &["why", &run], &["campaign", "status"]]
        {
            let ended = dir.ftl(args);
            tally.count((ended.code != 0).then(|| format!("{args:?}: {ended:?}")));
        }
        let left = of_root(&dir.path(""));
        tally.count((!left.is_empty()).then(|| format!("these are root's: {left:?}")));
        let answer = as_user(&dir, OWNER, &["answer", &run, "yes", "--by", "O"]);
        tally.count((answer.code != 0).then(|| format!("the owner: {answer:?}")));
    }
    tally.close();
}

#[needs(root)]
#[test]
fn an_owner_whose_state_is_roots_is_told_how_to_get_it_back() {
    let dir = repository();
    as_user(&dir, OWNER, &["run", "ask", "objective=x", "--by", "O"]).code(3);
    give(&dir.path(".ftl"), 0);
    let refused = as_user(&dir, OWNER, &["run", "ask", "objective=y", "--by", "O"]).code(1);
    refused.says(&["belongs to another user (number 0)", "only its owner may write it", "sudo chown -R"]);
    give(&dir.path(".ftl"), OWNER);
    as_user(&dir, OWNER, &["run", "ask", "objective=y", "--by", "O"]).code(3);
}

#[needs(root)]
#[test]
fn another_user_is_told_that_it_is_reading_that_failed() {
    let dir = repository();
    as_user(&dir, OWNER, &["run", "ask", "objective=x", "--by", "O"]).code(3);
    for args in [&["status"][..], &["campaign", "status"]] {
        let told = as_user(&dir, OTHER, args).code(1);
        assert!(!told.err.contains("reading works") && !told.err.contains("writable"), "{told:#?}");
        told.says(&[
            "cannot be read",
            "belongs to another user (number 65534)",
            "only its owner may look at it",
        ]);
    }
    // The owner whose own permissions are in the way is told that, too.
    fs::set_permissions(dir.path(".ftl/store"), fs::Permissions::from_mode(0o000)).unwrap();
    as_user(&dir, OWNER, &["status"]).code(1).says(&["make .ftl/store readable"]);
}
