//! What shell code of the product asks and replaces. There is no parser for it: lines without their comments are looked at,
//! and a `case` as one.

use super::words::{Variable, is_for_tests, is_test_path, is_tool, says_tests, variable};
use super::{Fact, FindingKind};
use crate::integrity::units::Unit;

/// Words of the shell and commands that tests are written with.
const COMMANDS: [&str; 21] = [
    "exit", "return", "test", "[", "[[", "diff", "cmp", "grep", "egrep", "kill", "trap", "set", "command",
    "eval", "true", "false", "expr", "source", "fail", "assert", "wait",
];

/// The facts of a shell file.
pub(super) fn facts(path: &str, text: &str) -> Vec<Fact> {
    let units = units(text);
    let mut found = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        let after = units.get(at + 1..).unwrap_or_default();
        found.extend(ends(unit, after));
        found.extend(replaces(unit));
        found.extend(environment(unit));
        if !is_for_tests(path) && !is_tool(path) {
            found.extend(caller(unit));
            found.extend(reads(unit));
        }
    }
    found
}

/// Lines without comments; lines that go on, and the arms of a `case`, belong to one.
fn units(text: &str) -> Vec<Unit> {
    let mut found: Vec<Unit> = Vec::new();
    let (mut goes_on, mut in_case) = (false, 0_usize);
    for (at, line) in text.lines().enumerate() {
        let line = without_comment(line);
        if line.trim().is_empty() {
            continue;
        }
        let starts_case = line.trim_start().starts_with("case ");
        match found.last_mut().filter(|_| goes_on || in_case > 0) {
            Some(last) => {
                last.code.push('\n');
                last.code.push_str(line);
            }
            None => found.push(Unit { line: at + 1, code: line.to_owned(), ..Unit::default() }),
        }
        in_case += usize::from(starts_case);
        in_case = in_case.saturating_sub(
            line.split(|one: char| !one.is_alphanumeric()).filter(|word| *word == "esac").count(),
        );
        goes_on = line.ends_with('\\') || line.trim_end().ends_with('|');
    }
    found
}

/// A line up to a `#` that begins a comment.
pub(in crate::integrity) fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter == '#' && before.is_whitespace() => return &line[..at],
            None => {}
        }
        before = letter;
    }
    line
}

fn ends(unit: &Unit, after: &[Unit]) -> Option<Fact> {
    let code = unit.code.trim_end();
    let traps = code.contains("trap ") && ["EXIT", " 0"].iter().any(|end| code.ends_with(end));
    let well = ["exit 0", "exit'", "exit\"", "_exit 0"].iter().any(|word| code.contains(word));
    let is_early = matches!(code, "exit" | "exit 0") && !after.is_empty();
    let kills =
        ["kill -9 $PPID", "kill $PPID", "kill -9 $$", "kill -KILL $$"].iter().any(|word| code.contains(word));
    let told = (traps && well) || is_early || kills;
    let message = format!("product code ends the process (`{}`)", super::super::short(code.trim()));
    told.then(|| Fact::block(FindingKind::ExitsEarly, unit, message))
}

/// A function or an alias with the name of a command that tests are written with.
fn replaces(unit: &Unit) -> Option<Fact> {
    let code = unit.code.trim_start();
    let words = code.strip_prefix("function ").unwrap_or(code);
    let name = words.split_once("()").map(|(name, _)| name.trim()).or_else(|| {
        let alias = code.strip_prefix("alias ")?;
        alias.split_once('=').map(|(name, _)| name.trim())
    })?;
    let message = format!("product code replaces the command `{name}`");
    COMMANDS.contains(&name).then(|| Fact::block(FindingKind::RunnerPatched, unit, message))
}

/// The variables that a line names.
fn variables(code: &str) -> impl Iterator<Item = &str> {
    code.split('$').skip(1).map(|rest| {
        let rest = rest.trim_start_matches('{').trim_start_matches('#');
        let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

fn environment(unit: &Unit) -> Option<Fact> {
    variables(&unit.code).find_map(|name| match variable(name) {
        Variable::Tests => Some(Fact::detects(unit, &format!("`${name}`"))),
        Variable::Engine => {
            let message = format!("product code asks for the engine that verifies it (`${name}`)");
            Some(Fact::block(FindingKind::TestDetected, unit, message))
        }
        Variable::Ci => {
            let message = format!("product code asks whether it runs in continuous integration (`${name}`)");
            Some(Fact::note(FindingKind::TestDetected, unit, message))
        }
        Variable::Other => None,
    })
}

/// A line that looks at who called it.
fn caller(unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let parent = ["$PPID", "${PPID", "/proc/$", "/proc/self/"].iter().any(|word| code.contains(word));
    let looks = ["grep", "case ", "if ", "=~", "[ ", "[[ "].iter().any(|word| code.contains(word));
    let own = ["$0", "${0", "BASH_SOURCE", "FUNCNAME", "$(caller", "ps -", "pgrep"]
        .iter()
        .find(|word| code.contains(**word));
    let parts =
        code.split(|one: char| one.is_whitespace() || matches!(one, '"' | '\'' | '|' | ')' | '(' | ';'));
    let named = own.is_some()
        && parts.filter(|part| !part.contains('$')).any(|part| part.len() > 4 && says_tests(part));
    match (parent && looks, named) {
        (false, false) => None,
        _ => Some(Fact::detects(unit, "who called it")),
    }
}

/// A line that reads a file of tests.
fn reads(unit: &Unit) -> Option<Fact> {
    const READS: [&str; 14] = [
        "cat ", "grep ", "sed ", "awk ", "head ", "tail ", "source ", ". ", "< ", "cut ", "find ", "ls ",
        "sort ", "printf ",
    ];
    let code = unit.code.trim_start();
    let parts = code.split(|one: char| one.is_whitespace() || matches!(one, '"' | '\'' | ')' | '(' | ';'));
    let path = parts.into_iter().find(|part| is_test_path(part))?;
    let reads = READS.iter().any(|word| {
        code.starts_with(word) || code.contains(&format!(" {word}")) || code.contains(&format!("({word}"))
    });
    let message = format!("product code goes to a file of tests (`{}`)", super::super::short(path));
    reads.then(|| Fact::block(FindingKind::TestDetected, unit, message))
}
