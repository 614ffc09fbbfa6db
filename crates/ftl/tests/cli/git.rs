//! Git never sees the state, and no file of the user's is edited for that.

use std::fs;

use crate::runs::ASK;
use crate::support::{Dir, ended};

#[test]
fn git_sees_protocols_and_no_state() {
    let dir = Dir::repository();
    dir.protocol("ask", ASK).write(".gitignore", "target\n").write(".git/info/exclude", "# mine\n*.swp");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    dir.run(&["ask", "objective=x"]);
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
    assert_eq!(dir.read(".gitignore"), "target\n");
    let exclude = dir.read(".git/info/exclude");
    assert!(exclude.starts_with("# mine\n*.swp\n/.ftl/*\n"), "{exclude}");
    // A new protocol is the user's work: git sees it.
    dir.protocol("new", ASK);
    assert_eq!(dir.git(&["status", "--porcelain"]), "?? .ftl/protocols/new.md\n");
    dir.run(&["ask", "objective=y"]);
    assert_eq!(dir.read(".git/info/exclude"), exclude, "said once");
}

#[test]
fn git_sees_no_state_in_a_folder_below() {
    let dir = Dir::repository();
    dir.write("part/.ftl/protocols/ask.md", format!("```protocol\nPROTOCOL: ask\n{ASK}```\n"));
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let mut command = dir.command(&["run", "ask", "objective=x"]);
    command.current_dir(dir.path("part"));
    ended(command).code(3);
    assert!(dir.path("part/.ftl/store").is_dir());
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
}

#[test]
fn git_sees_no_state_in_a_linked_worktree() {
    let dir = Dir::repository();
    dir.protocol("ask", ASK);
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    dir.git(&["worktree", "add", "-q", "linked"]);
    let mut command = dir.command(&["run", "ask", "objective=x"]);
    command.current_dir(dir.path("linked"));
    ended(command).code(3);
    assert!(dir.path("linked/.ftl/store").is_dir() && !dir.path(".ftl/store").exists());
    assert_eq!(dir.git(&["-C", "linked", "status", "--porcelain"]), "");
    assert!(dir.path("linked/.git").is_file());
}

#[test]
fn looking_makes_nothing() {
    let dir = Dir::repository();
    let looks: [&[&str]; 9] = [
        &["status"],
        &["status", "--json"],
        &["audit", "verify"],
        &["config"],
        &["doctor"],
        &["doctor", "--deep"],
        &["resume"],
        &["protocols"],
        &["check"],
    ];
    for args in looks {
        dir.ftl(args).code(0);
    }
    let named: [&[&str]; 9] = [
        &["status", "k3"],
        &["why", "k3"],
        &["log", "k3"],
        &["log", "k3", "--follow"],
        &["watch", "k3"],
        &["audit", "verify", "k3"],
        &["answer", "k3", "yes"],
        &["stop", "k3"],
        &["resume", "k3"],
    ];
    for args in named {
        dir.ftl(args).code(1).says(&["error: there are no runs in ", "hint: `ftl run NAME` starts one"]);
    }
    assert!(!dir.path(".ftl").exists());
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
    let names: Vec<_> = fs::read_dir(dir.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".git"]);
}

#[test]
fn a_state_folder_that_is_a_link_is_refused() {
    let dir = Dir::new();
    dir.write("elsewhere/protocols/ask.md", format!("```protocol\nPROTOCOL: ask\n{ASK}```\n"));
    std::os::unix::fs::symlink("elsewhere", dir.path(".ftl")).unwrap();
    dir.ftl(&["run", "ask", "objective=x"]).code(1).says(&["is a link, not a folder", "hint:"]);
    assert!(!dir.path("elsewhere/store").exists());
    dir.ftl(&["doctor"]).code(1).says(&["broken:", "is no folder"]);
}
