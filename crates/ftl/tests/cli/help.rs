//! Help, version and misuse.

use crate::support::{Dir, snapshot};

#[test]
fn help_is_as_recorded() {
    let dir = Dir::new();
    snapshot("help", &dir.ftl(&["--help"]).code(0).out);
    snapshot("help-all", &dir.ftl(&["help", "--all"]).code(0).out);
    for command in [
        "task",
        "run",
        "resume",
        "retry",
        "clean",
        "stop",
        "status",
        "why",
        "log",
        "transcript",
        "diff",
        "watch",
        "answer",
        "override",
        "raise",
        "undo",
        "salvage",
        "audit",
        "config",
        "doctor",
        "check",
        "draw",
        "protocols",
        "schema",
        "completions",
        "man",
    ] {
        snapshot(&format!("help-{command}"), &dir.ftl(&[command, "--help"]).code(0).out);
    }
    assert_eq!(dir.ftl(&["help", "check"]).code(0).out, dir.ftl(&["check", "--help"]).out);
}

#[test]
fn the_short_help_fits_a_screen_and_the_long_one_lists_every_command() {
    let dir = Dir::new();
    let (short, all) = (dir.ftl(&["--help"]).code(0).out, dir.ftl(&["help", "--all"]).code(0).out);
    assert!(short.lines().count() <= 50, "{short}");
    assert!(short.contains("`ftl help --all` lists every command"), "{short}");
    assert_eq!(dir.ftl(&["--help", "--all"]).code(0).out, all);
    let listed = |text: &str, name: &str| text.lines().any(|line| line.starts_with(&format!("  {name} ")));
    for name in ["task", "salvage", "audit", "orchestration", "completions", "repl"] {
        assert!(listed(&all, name), "{name}: {all}");
    }
    assert!(listed(&short, "why") && !listed(&short, "orchestration"), "{short}");
}

#[test]
fn no_words_at_all_is_misuse_with_help() {
    let dir = Dir::new();
    let ended = dir.ftl(&[]).code(2);
    assert_eq!((ended.out.as_str(), ended.err), ("", dir.ftl(&["-h"]).out));
}

#[test]
fn version_is_one_line() {
    let wanted = format!("ftl {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Dir::new().ftl(&["--version"]).code(0).out, wanted);
}

#[test]
fn misuse_exits_with_two_and_says_what_is_wrong() {
    let dir = Dir::new();
    dir.ftl(&["chek"]).code(2).says(&["error:", "'chek'", "'check'"]);
    dir.ftl(&["check", "--nope"]).code(2).says(&["--nope"]);
    dir.ftl(&["draw"]).code(2).says(&["<NAME|FILE>"]);
    dir.ftl(&["draw", "coder", "--format", "png"]).code(2).says(&["png", "mermaid", "svg"]);
    dir.ftl(&["draw", "coder", "--write", "--output", "x"]).code(2).says(&["--output"]);
    dir.ftl(&["draw", "coder", "--write", "--format", "svg"]).code(2).says(&["error:", "hint:"]);
    dir.ftl(&["--color", "pink", "check"]).code(2).says(&["pink"]);
    dir.ftl(&["completions", "csh"]).code(2).says(&["csh"]);
}

#[test]
fn help_needs_no_folder() {
    let dir = Dir::new();
    dir.ftl(&["--repo", "no/such/folder", "--version"]).code(0);
    dir.ftl(&["--repo", "no/such/folder", "--help"]).code(0);
}

#[test]
fn completions_and_manual_are_made_for_every_shell_and_command() {
    let dir = Dir::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        dir.ftl(&["completions", shell]).code(0).says(&["protocols", "schema"]);
    }
    dir.ftl(&["man"]).code(0).says(&[".TH ftl 1", "Exit codes"]);
    let page = dir.ftl(&["man", "draw"]).code(0).says(&[".TH ftl-draw 1", "Examples:"]);
    assert!(!page.out.contains('\u{1b}'));
    dir.ftl(&["man", "nope"]).code(1).says(&["error: there is no command `nope`", "hint:", "check"]);
    assert!(dir.ftl(&["man", "--json"]).code(0).json()["text"].is_string());
    assert_eq!(dir.ftl(&["completions", "fish", "--json"]).code(0).json()["shell"], "fish");
}
