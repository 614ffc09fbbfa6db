//! The REPL: in a real terminal, and from a script on standard input.

use super::{ALL, Json, get, phase, repository, task};
use crate::live::Terminal;
use crate::support::until;

#[test]
fn a_script_on_standard_input() {
    let dir = repository();
    task(&dir, "t", "planning", ALL);
    let script = "# a script\n/status\n/next\nremember the milk\n/next --to done\n/redo planning the scope is wrong\n/nonsense\n/quit\n/next\n";
    let ended = dir.fed(&["repl", "--task", "t"], script).code(2);
    assert!(
        ended.out.contains("planning → plan_review") && ended.out.contains("plan_review → planning again"),
        "{ended:#?}"
    );
    assert!(ended.err.contains("no edge plan_review → done") && ended.err.contains("nonsense"), "{ended:#?}");
    assert_eq!(phase(&dir, "t"), "planning");
    let lines = get(&dir, "t", "transcript.jsonl");
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["note", "redo"], "{lines}");
    dir.fed(&["repl"], "/next --eval\n").code(0);
    dir.fed(&["repl", "--task", "nobody"], "/next\n").code(1);
    let json = dir.fed(&["repl", "--json"], "/next --eval\n").code(0).json();
    assert_eq!(json["from"], "planning");
}

#[test]
fn hints_name_commands_as_they_are_typed_here() {
    let dir = repository();
    task(&dir, "t", "planning", &[]);
    let ended = dir.fed(&["repl"], "/next\n/status\n/revert --reason x\n");
    let all = format!("{}{}", ended.out, ended.err);
    assert!(all.contains("`/plan` does the work of planning; `/next --eval`"), "{all}");
    assert!(!all.contains("`ftl plan`") && !all.contains("`ftl next"), "{all}");
}

#[test]
fn somebody_at_a_terminal() {
    let dir = repository();
    task(&dir, "t", "planning", ALL);
    let terminal = Terminal::typing(&dir, &["repl"]);
    until("the prompt", || terminal.text().contains("t planning> "));
    assert!(terminal.text().contains("/help lists the commands"));
    // Tab completes the command; the line can be edited before it is sent.
    terminal.send("/ne\tx\u{7f}\r");
    until("it moved", || terminal.text().contains("t plan_review> "));
    assert_eq!(phase(&dir, "t"), "plan_review");
    terminal.send("/help\r");
    until("the list", || terminal.text().contains("/review code"));
    // The line before the last one, out of the history.
    terminal.send("\u{1b}[A\u{1b}[A\r");
    until("it moved again", || terminal.text().contains("t codegen> "));
    terminal.send("\u{3}");
    until("it says how to end", || terminal.text().contains("Ctrl-D ends it"));
    terminal.send("\u{4}");
    let (code, _) = terminal.ended();
    assert_eq!(code, 0);
    assert_eq!(phase(&dir, "t"), "codegen");
}
