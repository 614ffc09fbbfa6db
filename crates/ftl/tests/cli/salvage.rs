//! `ftl undo` and `ftl salvage` on a real repository: what was delivered goes back, what was kept comes back,
//! and no byte of anybody's is lost on the way.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir};

const DELIVERS: &str = "INPUT: how = ff | squash | branch-only\nSTATE: START\n  \
    DO: build = Run(builder) workspace=\".ftl/workspace/001_greet_active.xml\" mode=full budget=6\n  \
    DO: done = branch.deliver how={how}\n  RETURN: complete status={done.status} summary={done.summary}\n";

const SETTINGS: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nbuilder = \"play\"\n\
    [worktree]\ncopy = [\".env\"]\n";

/// A builder that runs this in its worktree, having written the file of its task.
fn builder(command: &str) -> String {
    let calls = r#"{ tool = "write", path = "greet.txt", content = "hello\n" }, { tool = "bash", command = "COMMAND" }"#
        .replace("COMMAND", command);
    format!(
        "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = {{ approach = \"write it\" }}\n\
         [[scene]]\nrole = \"builder\"\nform = \"implement\"\n[[scene.step]]\ncalls = [{calls}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
    )
}

/// A repository with a brief to greet, and a builder that does so and more.
fn repository(command: &str, verify: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("greet.txt", "good day\n").write("other.txt", "other\n").write("test.sh", "exit 0\n");
    dir.write(".gitignore", ".env\n*.log\nftl.toml\nplay.toml\nplan.json\n").write(".env", "word\n");
    dir.protocol("delivers", DELIVERS);
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let task = json!({ "seq": "001", "slug": "greet", "delta": ["greet.txt"], "verify": verify, "budget": 6,
        "depends": "none" });
    let plan = json!({ "objective": "greet people", "tasks": [task] });
    dir.write("plan.json", plan.to_string()).write("ftl.toml", SETTINGS).write("play.toml", builder(command));
    dir.ftl(&["campaign", "create", "greet people"]).code(0);
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    dir
}

/// A repository to which a run has delivered; the run, and where the person's branch was.
fn delivered(how: &str) -> (Dir, String, String) {
    let dir = repository("true", "grep -q hello greet.txt");
    let before = head(&dir);
    let (run, json) = dir.run(&["delivers", &format!("how={how}")]);
    assert_eq!(json["standing"], "complete", "{json:#}\n{:#?}", dir.entries(&run).pop());
    assert_ne!(head(&dir), before, "{how}");
    assert_eq!(dir.read("greet.txt"), "hello\n");
    (dir, run, before)
}

fn head(dir: &Dir) -> String {
    dir.git(&["rev-parse", "HEAD"]).trim().to_owned()
}

/// Everything that is the person's: commit, index, stash, status, and the files of it.
fn person(dir: &Dir) -> [String; 6] {
    [
        head(dir),
        dir.git(&["ls-files", "-s"]),
        dir.git(&["stash", "list"]),
        dir.git(&["status", "--porcelain"]),
        dir.read("greet.txt"),
        dir.read("other.txt"),
    ]
}

#[test]
fn a_delivery_is_taken_back_and_can_be_had_again() {
    for how in ["ff", "squash"] {
        let (dir, run, before) = delivered(how);
        let was = head(&dir);
        // What the person has changed elsewhere stays, staged or not, tracked or not.
        dir.write("other.txt", "mine\n").write("new.txt", "mine too\n").write("staged.txt", "staged\n");
        dir.git(&["add", "staged.txt"]);
        let said = dir.ftl(&["undo"]).code(0);
        let said = said.says(&[&format!("took back what run {run} delivered: `"), "is at ", "(1 file)"]);
        assert_eq!((head(&dir).as_str(), dir.read("greet.txt").as_str()), (before.as_str(), "good day\n"));
        assert_eq!(dir.git(&["status", "--porcelain"]), " M other.txt\nA  staged.txt\n?? new.txt\n");
        assert_eq!((dir.read("other.txt"), dir.read("new.txt")), ("mine\n".into(), "mine too\n".into()));
        let kept = format!("refs/ftl/delivered/{run}/1");
        assert_eq!(dir.git(&["rev-parse", &kept]).trim(), was, "what was delivered is still there");
        // It can be asked again, and says so; what the hint says brings it back.
        let again = dir.ftl(&["undo", &run, "--json"]).code(0).json();
        assert_eq!(
            (&again["again"], &again["kept"], &again["was"]),
            (&json!(true), &json!(kept), &json!(was))
        );
        dir.ftl(&["undo"]).code(1).says(&["there is nothing to undo", "hint:"]);
        dir.ftl(&["undo", &run]).code(0).says(&["was taken back before; nothing was done"]);
        let hint = said.out.split('`').find(|words| words.starts_with("git merge ")).unwrap();
        let words: Vec<&str> = hint.split(' ').skip(1).collect();
        dir.git(&words);
        assert_eq!((head(&dir), dir.read("greet.txt").as_str()), (was, "hello\n"), "{hint}");
    }
}

#[test]
fn what_the_person_did_since_is_never_undone() {
    let (dir, run, before) = delivered("ff");
    let to = head(&dir);
    // A change of theirs in a file that would go back.
    dir.write("greet.txt", "hello to all\n");
    let mine = person(&dir);
    dir.ftl(&["undo"]).code(4).says(&["cannot be taken back", "`greet.txt`", "nothing was changed"]);
    assert_eq!(person(&dir), mine);
    // A commit of theirs on top.
    dir.git(&["commit", "-qam", "greet all"]);
    dir.write("other.txt", "not committed\n");
    let mine = person(&dir);
    let refused = dir.ftl(&["undo", &run]).code(4);
    assert_eq!(person(&dir), mine);
    let revert = format!("`git revert {}..{}`", &before[..12], &to[..12]);
    refused.says(&["is not where it was any more", &revert, "leaves yours"]);
    let json = dir.ftl(&["undo", "--json"]).code(4).json();
    assert_eq!(json["ok"], false, "{json:#}");
    // Once they have taken their own back, it goes.
    dir.git(&["checkout", "-q", "other.txt"]);
    dir.git(&["reset", "-q", "--hard", &to]);
    let json = dir.ftl(&["undo", "--json"]).code(0).json();
    assert_eq!((&json["run"], &json["commit"], &json["files"]), (&json!(run), &json!(before), &json!(1)));
    assert_eq!(head(&dir), before);
}

/// Asks for another task with the same agent; the run.
fn deliver_again(dir: &Dir, file: &str) -> String {
    let task = json!({ "seq": "001", "slug": "greet", "delta": [file], "verify": "true", "budget": 6, "depends": "none" });
    let plan = json!({ "objective": "greet more", "tasks": [task] });
    let script = builder("true").replace("greet.txt", file);
    dir.write("plan.json", plan.to_string()).write("play.toml", script);
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    let (run, json) = dir.run(&["delivers", "how=squash"]);
    assert_eq!(json["standing"], "complete", "{json:#}\n{:#?}", dir.entries(&run).pop());
    run
}

#[test]
fn deliveries_are_taken_back_the_newest_first() {
    let (dir, first, before) = delivered("ff");
    let between = head(&dir);
    let second = deliver_again(&dir, "other.txt");
    assert_ne!(head(&dir), between);
    let hint = format!("`ftl undo {second}` takes back what was delivered after it");
    dir.ftl(&["undo", &first]).code(4).says(&[&hint]);
    assert_eq!(dir.ftl(&["undo", "--json"]).code(0).json()["run"], json!(second));
    assert_eq!(head(&dir), between);
    assert_eq!(dir.ftl(&["undo", "--json"]).code(0).json()["run"], json!(first));
    assert_eq!(head(&dir), before);
}

#[test]
fn with_nothing_delivered_there_is_nothing_to_undo() {
    let dir = Dir::repository();
    dir.ftl(&["undo"]).code(1).says(&["there is nothing to undo", "hint:"]);
    dir.ftl(&["undo", "k3v9"]).code(1).says(&["there are no runs in", "hint:"]);
    dir.ftl(&["salvage"]).code(0).says(&["nothing is kept"]);
    assert_eq!(
        dir.ftl(&["salvage", "--json"]).code(0).json(),
        json!({ "version": 1, "count": 0, "kept": [] })
    );
    dir.ftl(&["salvage", "k3v9"]).code(1).says(&["nothing is kept under `k3v9`", "`ftl salvage` lists"]);
    assert!(!dir.path(".ftl").exists(), "looking makes nothing");
    // A run that stayed on its branch has moved nothing.
    let dir = repository("true", "true");
    let (run, _) = dir.run(&["delivers", "how=branch-only"]);
    dir.ftl(&["undo"]).code(1).says(&["there is nothing to undo"]);
    dir.ftl(&["undo", &run]).code(1).says(&[&format!("run {run} has delivered nothing")]);
    dir.ftl(&["undo", "zz"]).code(1).says(&["there is no run `zz`", "`ftl status`"]);
    dir.ftl(&["salvage", "--branch", "x"]).code(2);
    dir.ftl(&["salvage", "x", "--branch", "y", "--into", "z"]).code(2);
}

/// Odd bytes: no text, no end of line, a zero in the middle.
const ODD: &[u8] = b"\xff\xfe\0odd\r\nbytes";

/// A repository with a blocked task whose worktree had everything: changed, new, in folders, binary, an
/// executable, a link, and an ignored file that is listed.
fn blocked() -> (Dir, Json) {
    let work = "printf '\\\\377\\\\376\\\\000odd\\\\r\\\\nbytes' > odd.bin; mkdir -p deep/er; echo new > deep/er/new.txt; \
        echo changed > other.txt; echo secret-word > .env; echo '#!/bin/sh' > run.sh; chmod +x run.sh; \
        ln -s deep/er link; rm test.sh; echo noise > build.log";
    let dir = repository(work, "false");
    let (_, json) = dir.run(&["delivers", "how=ff"]);
    assert_ne!(json["standing"], "running", "{json:#}");
    let list = dir.ftl(&["salvage", "--json"]).code(0).json();
    assert_eq!(list["count"], 1, "{list:#}");
    (dir, list["kept"][0].clone())
}

/// Asserts that a folder holds the work, byte for byte.
fn assert_whole(folder: &Path) {
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let wanted: [(&str, &[u8]); 6] = [
        ("greet.txt", b"hello\n"),
        ("other.txt", b"changed\n"),
        ("odd.bin", ODD),
        ("deep/er/new.txt", b"new\n"),
        (".env", b"secret-word\n"),
        ("run.sh", b"#!/bin/sh\n"),
    ];
    for (name, bytes) in wanted {
        assert_eq!(read(name), bytes, "{name}");
    }
    use std::os::unix::fs::PermissionsExt as _;
    assert_ne!(fs::metadata(folder.join("run.sh")).unwrap().permissions().mode() & 0o100, 0);
    assert_eq!(fs::read_link(folder.join("link")).unwrap(), Path::new("deep/er"));
    assert!(!folder.join("test.sh").exists() && !folder.join("build.log").exists());
}

#[test]
fn kept_work_is_listed_and_comes_back_as_files() {
    let (dir, kept) = blocked();
    let mine = person(&dir);
    let id = kept["id"].as_str().unwrap();
    assert_eq!((&kept["task"], &kept["files"]), (&json!("001-greet"), &json!(8)), "{kept:#}");
    assert_eq!(kept["bytes"], json!(6 + 8 + ODD.len() + 4 + 12 + 10 + 7), "{kept:#}");
    assert!(id.starts_with(kept["run"].as_str().unwrap()) && kept["why"].as_str().is_some(), "{kept:#}");
    dir.ftl(&["salvage"]).code(0).says(&[id, "001-greet", "8 files, 60 B", "hint: `ftl salvage ID`"]);
    dir.ftl(&["salvage", id, "--into", "back"]).code(0).says(&[id, "is in `back`"]);
    assert_whole(&dir.path("back"));
    assert!(!dir.path("back/.git").exists());
    // Nothing is written over, and nothing half-made is left.
    dir.write("back/greet.txt", "mine");
    dir.ftl(&["salvage", id, "--into", "back"])
        .code(1)
        .says(&["`back` is there already", "name a new folder"]);
    assert_eq!(dir.read("back/greet.txt"), "mine");
    dir.ftl(&["salvage", id, "--into", "none/back"]).code(1).says(&["has no folder above it"]);
    fs::remove_dir_all(dir.path("back")).unwrap();
    assert_eq!(person(&dir), mine);
}

#[test]
fn kept_work_comes_back_as_a_branch() {
    let (dir, kept) = blocked();
    let mine = person(&dir);
    let (id, run) = (kept["id"].as_str().unwrap(), kept["run"].as_str().unwrap());
    let worktree = id.split('/').next().unwrap();
    // However it is named; asked again it is the same.
    let usual = format!("salvage/{worktree}-1");
    let by_instance = format!("{run}/{}", kept["instance"]);
    for named in [id, worktree, run, &run[..4], &by_instance, kept["ref"].as_str().unwrap()] {
        let json = dir.ftl(&["salvage", named, "--json"]).code(0).json();
        assert_eq!((&json["branch"], &json["commit"]), (&json!(usual), &kept["commit"]), "{named}");
    }
    dir.ftl(&["salvage", id, "--branch", "rescue"]).code(0).says(&["is the branch `rescue`", "`git diff "]);
    assert_eq!(json!(dir.git(&["rev-parse", "rescue"]).trim()), kept["commit"]);
    assert_eq!(person(&dir), mine);
    dir.git(&["worktree", "add", "-q", "back-of-branch", "rescue"]);
    let there = dir.path("back-of-branch");
    assert_whole(&there);
    fs::remove_dir_all(there).unwrap();
    // A branch that is there already is left alone.
    dir.git(&["branch", "taken"]);
    dir.ftl(&["salvage", id, "--branch", "taken"]).code(1).says(&["there is a branch `taken` already"]);
    dir.ftl(&["salvage", id, "--branch", "-x"]).code(2);
    dir.ftl(&["salvage", id, "--branch", "a..b"]).code(1).says(&["is no name of a branch", "hint:"]);
    for (named, says) in
        [("zz", "nothing is kept under `zz`"), (&format!("{worktree}/9"), "nothing is kept under")]
    {
        let ended: CommandOutcome = dir.ftl(&["salvage", named]).code(1);
        ended.says(&[says, "hint: `ftl salvage` lists what is kept"]);
    }
}
