//! `ftl doctor`: what it finds, what it mends, and what it leaves alone.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use ftl_needs::needs;
use serde_json::Value as Json;

use crate::runs::ASK;
use crate::support::Dir;

fn open_asking_run() -> (Dir, String) {
    let dir = Dir::repository();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    (dir, run)
}

/// What the doctor says about an area: level and text of each finding.
#[track_caller]
pub(crate) fn about(dir: &Dir, area: &str, args: &[&str]) -> Vec<(String, String)> {
    let args: Vec<&str> = ["doctor", "--json"].iter().chain(args).copied().collect();
    let json = dir.ftl(&args).json();
    let own = json["findings"].as_array().unwrap().iter().filter(|one| one["area"] == area);
    let text = |one: &Json, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    own.map(|one| (text(one, "level"), text(one, "text"))).collect()
}

#[test]
fn a_sound_state_is_all_well() {
    let (dir, _) = open_asking_run();
    for args in [&["doctor"][..], &["doctor", "--deep"]] {
        let ended = dir.ftl(args).code(0);
        let (state, work) =
            ended.out.split_once("\nall is well\n").unwrap_or_else(|| panic!("{}", ended.out));
        assert!(!state.contains("hint:"), "{}", ended.out);
        assert!(work.ends_with("to see to\n"), "no commit, no agent, no tests: {work}");
    }
    let json = dir.ftl(&["doctor", "--deep", "--json"]).code(0).json();
    assert_eq!(json["ok"], true);
    let findings = json["findings"].as_array().unwrap();
    let areas: Vec<&str> = findings.iter().filter_map(|one| one["area"].as_str()).collect();
    let all = [
        "settings",
        "variables",
        "place",
        "machine",
        "store",
        "chains",
        "journals",
        "leases",
        "attempts",
        "processes",
        "git",
        "worktrees",
        "files",
    ];
    assert_eq!(areas, all);
    assert!(
        findings.iter().all(|one| one["level"] == "fine" && one["hint"].is_null() && one["text"].is_string())
    );
}

#[test]
fn git_is_told_again_to_look_away() {
    let (dir, _) = open_asking_run();
    dir.write(".git/info/exclude", "# mine\n");
    assert_eq!(about(&dir, "place", &[])[0].0, "mended");
    assert_eq!(about(&dir, "place", &[])[0].0, "fine");
    assert!(dir.read(".git/info/exclude").starts_with("# mine\n/.ftl/*\n"));
    dir.git(&["add", "-A"]);
    assert!(!dir.git(&["status", "--porcelain"]).contains("store"));
}

#[test]
fn the_store_is_made_private_again() {
    let (dir, _) = open_asking_run();
    let store = dir.path(".ftl/store");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
    dir.ftl(&["doctor"]).code(0).says(&["+ place", "mended:", "1 mended"]);
    assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn locks_of_dead_owners_are_removed() {
    let (dir, _) = open_asking_run();
    dir.write(".ftl/store/owners/00000000deadbeef", "{}");
    assert_eq!(about(&dir, "leases", &[]), [("mended".into(), "1 lock of dead owners removed".into())]);
    assert!(!dir.path(".ftl/store/owners/00000000deadbeef").exists());
    assert_eq!(about(&dir, "leases", &[])[0].0, "fine");
}

#[test]
fn a_worktree_that_an_ended_run_has_left_is_told() {
    let (dir, run) = open_asking_run();
    dir.ftl(&["answer", &run, "yes", "--by", "Ada"]).code(0);
    dir.write(&format!(".ftl/worktrees/{run}-4/work"), "precious");
    let told = format!("`.ftl/worktrees/{run}-4` is left of a run that has ended");
    assert_eq!(about(&dir, "worktrees", &[]), [("look".into(), told)]);
}

#[test]
fn work_is_never_deleted_and_scripts_only_when_they_are_old() {
    let (dir, run) = open_asking_run();
    dir.write(".ftl/worktrees/stray/work", "precious");
    dir.write(&format!(".ftl/worktrees/{run}-4/work"), "precious");
    dir.write(".ftl/store/scripts/aaaaaaaa.toml", "").write(".ftl/store/scripts/bbbbbbbb.toml", "");
    dir.write(&format!(".ftl/store/scripts/{run}.toml"), "");
    let long_ago = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    for name in ["aaaaaaaa", &run] {
        let file =
            File::options().write(true).open(dir.path(&format!(".ftl/store/scripts/{name}.toml"))).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let found = about(&dir, "worktrees", &[]);
    assert_eq!(found, [("look".into(), "`.ftl/worktrees/stray` belongs to no run".into())]);
    assert!(dir.path(".ftl/worktrees/stray/work").exists());
    dir.ftl(&["doctor"]).code(0).says(&["! worktrees", "1 thing to look at"]);
    let exists = |name: &str| dir.path(&format!(".ftl/store/scripts/{name}.toml")).exists();
    assert_eq!((exists("aaaaaaaa"), exists("bbbbbbbb"), exists(&run)), (false, true, true));
}

#[test]
fn a_summary_that_is_not_what_the_journal_says_is_broken() {
    let (dir, run) = open_asking_run();
    let forge =
        "UPDATE runs SET summary = replace(summary, '\"standing\":\"waiting\"', '\"standing\":\"complete\"')";
    dir.database().execute(forge, []).unwrap();
    dir.ftl(&["doctor"]).code(1).says(&["✗ store", "not what was written"]);
    let found = about(&dir, "journals", &["--deep"]);
    assert_eq!(found, [("broken".into(), format!("run {run} is not shown as its journal says: standing"))]);
    dir.ftl(&["doctor", "--deep"]).code(1).says(&["✗ journals", "hint: the journal counts"]);
}

#[test]
fn a_protocol_that_was_edited_is_something_to_look_at() {
    let (dir, run) = open_asking_run();
    dir.ftl(&["answer", &run, "no"]).code(0);
    dir.protocol("ask", &ASK.replace("  GOTO: START\n", "  GOTO: OTHER\nSTATE: OTHER\n  RETURN: complete\n"));
    let found = about(&dir, "journals", &["--deep"]);
    assert_eq!(found.len(), 1);
    assert!(found[0].0 == "look" && found[0].1.contains("decides otherwise"), "{found:?}");
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["1 thing to look at"]);
}

#[test]
fn damaged_content_is_found_by_looking_deep() {
    let dir = Dir::new();
    dir.protocol("big", "STATE: START\n  DO: out = sh \"head -c 30000 /dev/zero | tr '\\\\0' x\"\n  RETURN: complete n={out.stdout}\n");
    dir.ftl(&["run", "big"]).code(0);
    let open = dir.tampering();
    open.execute("UPDATE content SET bytes = CAST(replace(bytes, 'xx', 'yy') AS BLOB)", []).unwrap();
    drop(open);
    dir.ftl(&["doctor"]).code(0);
    dir.ftl(&["doctor", "--deep"]).code(1).says(&["✗ store", "broken: content "]);
    let found = about(&dir, "store", &["--deep"]);
    assert!(
        found.iter().all(|(level, text)| level == "broken" && text.ends_with("is not what was written")),
        "{found:?}"
    );
}

#[test]
fn a_store_that_cannot_be_written_is_read() {
    let (dir, run) = open_asking_run();
    let store = dir.path(".ftl/store");
    let set = |mode: u32, file: u32| {
        fs::set_permissions(store.join("ftl.db"), fs::Permissions::from_mode(file)).unwrap();
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o500, 0o400);
    let (doctor, status) = (dir.ftl(&["doctor", "--deep"]), dir.ftl(&["status", &run]));
    let answer = (!rustix::process::geteuid().is_root()).then(|| dir.ftl(&["answer", &run, "yes"]));
    set(0o700, 0o600);
    doctor.code(0).says(&["store"]);
    status.code(0).says(&["waiting"]);
    // Nothing is forbidden to root, so for root there is nothing to refuse.
    if let Some(answer) = answer {
        answer.code(1).says(&["error: ", "hint: "]);
    }
    assert_eq!(dir.status(&run)["standing"], "waiting");
}

#[test]
fn a_torn_database_is_reported_and_nothing_panics() {
    let (dir, _) = open_asking_run();
    let file = dir.path(".ftl/store/ftl.db");
    // Everything into the one file first.
    dir.database().pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    let whole = fs::read(&file).unwrap();
    let before = dir.ftl(&["status", "--json"]).code(0).out;
    let mut found = 0;
    for at in [0, 100, 5_000, whole.len() / 2] {
        let mut torn = whole.clone();
        torn.iter_mut().skip(at).take(600).for_each(|byte| *byte = 0xa5);
        fs::write(&file, &torn).unwrap();
        let doctor = dir.ftl(&["doctor", "--deep"]);
        let status = dir.ftl(&["status", "--json"]);
        assert!(!doctor.err.contains("panicked") && !status.err.contains("panicked"), "{at}: {doctor:#?}");
        // Damage is found, or it is where nothing is read from.
        match doctor.code {
            1 => found += 1,
            code => assert_eq!((code, status.code, &status.out), (0, 0, &before), "{at}: {doctor:#?}"),
        }
    }
    assert!(found >= 2, "a header and a schema that are torn are found");
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    dir.ftl(&["doctor", "--deep"]).code(1).says(&["broken:", "keep a copy"]);
}

/// Whoever looks must not be kept by what somebody has put there.
#[test]
fn a_pipe_among_the_attempts_keeps_nobody_waiting() {
    let (dir, run) = open_asking_run();
    let pipe = dir.path(&format!(".ftl/store/attempts/{run}.1.0"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for args in [&["doctor"][..], &["doctor", "--deep"], &["status"], &["answer", &run, "yes"]] {
        let looking = dir.start(args);
        looking.ended().code(0);
    }
    assert_eq!(dir.status(&run)["standing"], "complete");
}

/// Needs root, who alone can be two users. For anybody else there is no second one to be.
#[needs(root)]
#[test]
fn the_store_of_another_user_is_theirs() {
    use std::os::unix::process::CommandExt as _;
    let (dir, run) = open_asking_run();
    let store = dir.path(".ftl/store");
    for mode in [0o755, 0o700] {
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = dir.command(&["run", "ask", "objective=x", "--by", "nobody"]);
        command.uid(65534).gid(65534);
        let ended = crate::support::ended(command).code(1);
        ended.says(&["belongs to another user (number 0)", "hint: only its owner may write it"]);
        assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, mode);
    }
    assert_eq!(dir.ftl(&["status", "--json"]).json()["runs"].as_array().unwrap().len(), 1);
    assert_eq!(dir.status(&run)["standing"], "waiting");
}
