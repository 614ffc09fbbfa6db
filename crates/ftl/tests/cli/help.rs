//! Help, version and misuse.

use crate::support::{Dir, snapshot};

#[test]
fn help_is_as_recorded() {
    let dir = Dir::new();
    snapshot("help", &dir.ftl(&["--help"]).code(0).out);
    snapshot("help-all", &dir.ftl(&["help", "--all"]).code(0).out);
    let mut all = listed(&dir.ftl(&["help", "--all"]).out);
    all.retain(|name| name != "help");
    assert!(all.len() > 50, "{all:?}");
    for command in &all {
        snapshot(&format!("help-{command}"), &whole(&dir, &[command]));
    }
    let mut recorded: Vec<String> =
        snapshots().filter_map(|name| Some(name.strip_prefix("help-")?.into())).collect();
    recorded.retain(|name| name != "all" && !all.contains(name));
    assert!(recorded.is_empty(), "these commands are gone: {recorded:?}");
    assert_eq!(dir.ftl(&["help", "check"]).code(0).out, dir.ftl(&["check", "--help"]).out);
}

/// The commands or verbs that a help lists: two spaces, a name, what it is about.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.ends_with(':') || line.starts_with("Usage"));
    let lines = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !name.starts_with(['-', '<', '['])).map(str::to_owned).collect()
}

/// The help of a command, and of each of its verbs.
fn whole(dir: &Dir, command: &[&str]) -> String {
    let mut text = dir.ftl(&[command, &["--help"]].concat()).code(0).out;
    let verbs =
        text.split_once("\nCommands:\n").map(|(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    for verb in verbs.map(|verbs| listed(&format!("Commands:\n{verbs}"))).unwrap_or_default() {
        let words = [command, &[verb.as_str()]].concat();
        if verb != "help" {
            text.push_str(&format!("\n$ ftl {} --help\n\n{}", words.join(" "), whole(dir, &words)));
        }
    }
    text
}

/// The names of all texts on record.
fn snapshots() -> impl Iterator<Item = String> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots")).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.strip_suffix(".txt")?.to_owned()))
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
