//! What SETUP looks at before a model is asked: the programs of the commands that a story is tested with.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use super::{BOUND, STORY, TESTED, content, run_of, sent, set, walked, worktrees};
use crate::support::{CommandOutcome, Dir, ended};

/// Codes a story where nothing is in the PATH but a few programs of this machine.
fn code(dir: &Dir) -> CommandOutcome {
    let bin = Dir::new();
    for program in ["git", "sh", "grep"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
        symlink(String::from_utf8(found.stdout).unwrap().trim(), bin.path(program)).unwrap();
    }
    let mut command = dir.command(&["code", STORY, "--json"]);
    command.env("PATH", bin.path("."));
    ended(command)
}

#[test]
fn a_program_that_is_missing_is_said_before_anybody_is_asked() {
    let justfile = ("justfile", "test:\n\tgrep -q done a.txt\n");
    let table = [
        // What is named, what lies there, the program, the command, who named it.
        (BOUND.to_owned(), Some(justfile), "just", "just test", "justfile"),
        (BOUND.to_owned(), Some(("Cargo.toml", "[package]\n")), "cargo", "cargo test", "Cargo.toml"),
        (
            format!("{BOUND}[worktree]\ntests = [\"true && absent-tool --all\"]\n"),
            None,
            "absent-tool",
            "true && absent-tool --all",
            "worktree.tests",
        ),
        (
            format!("{BOUND}{TESTED}lints = [\"./check.sh\"]\n"),
            Some(("check.sh", "exit 0\n")),
            "./check.sh",
            "./check.sh",
            "worktree.lints",
        ),
    ];
    for (settings, file, program, command, origin) in table {
        let dir = set(&content(), &settings);
        if let Some((name, text)) = file {
            dir.write(name, text);
            dir.git(&["add", "-A"]);
            dir.git(&["commit", "-qm", "more"]);
        }
        let done = code(&dir).code(1);
        let run = run_of(&done);
        assert_eq!(walked(&dir, &run), ["WAITING SETUP", "SETUP ERROR"], "{command}");
        let reason = done.json()["report"]["reason"].as_str().unwrap().to_owned();
        let wanted = format!(
            "there is no program `{program}`, which `{command}` starts; {origin} names that command (hint: install \
             {program} where PATH finds it, or set worktree."
        );
        assert!(reason.contains(&wanted), "{reason}");
        assert!(sent(&dir, &run).is_empty(), "{command}: nobody was asked for anything");
        assert_eq!(worktrees(&dir), 0, "{command}: no worktree is left");
    }
}

#[test]
fn what_was_missing_can_be_mended_and_what_nobody_can_tell_is_not_refused() {
    // The same script, once it can be run.
    let dir = set(&content(), &format!("{BOUND}{TESTED}lints = [\"./check.sh\"]\n"));
    dir.write("check.sh", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(dir.path("check.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "more"]);
    let run = run_of(&code(&dir).code(0));
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
    // An alternative is the shell's to choose.
    let tests = "[worktree]\ntests = [\"absent-tool 2>/dev/null || grep -q done a.txt\"]\n";
    let dir = set(&content(), &format!("{BOUND}{tests}"));
    code(&dir).code(0);
}
