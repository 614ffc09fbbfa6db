//! `ftl tui` in a real terminal: it draws, answers, and gives the terminal back.

use crate::live::{Terminal, plain};
use crate::runs::ASK;
use crate::support::{Dir, until};

/// The words that begin the other screen, and that end it.
const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";

#[test]
fn a_question_is_answered_in_the_terminal_and_the_terminal_is_given_back() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=Which?"]);
    let terminal = Terminal::typing(&dir, &["tui", "--by", "Ada"]);
    until("it shows the question", || plain(&terminal.text()).contains("Good?"));
    assert!(terminal.text().contains(ENTERS));
    terminal.send("a");
    until("it offers the choices", || plain(&terminal.text()).contains("1 yes"));
    terminal.send("1");
    until("the run has gone on", || dir.status(&run)["standing"] == "complete");
    let said = dir.entries(&run).iter().any(|entry| entry["by"] == "Ada via tui");
    assert!(said, "the journal says who spoke");
    terminal.send("?");
    until("it shows the keys", || plain(&terminal.text()).contains("declared"));
    terminal.send("xq");
    until("the terminal is as it was", || terminal.text().contains(LEAVES));
}
