//! Product code that knows its tests: what it asks, what it replaces, how it ends.
//!
//! Facts are read from the parse tree of both sides of each product file; only what the work newly has is told. A fact that
//! moved from one file to another is not new. Tests and hooks are looked at for how they end, see [`ends`].

mod ends;
mod equal;
mod go;
mod python;
mod rust;
mod script;
mod shell;
mod words;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use super::settings::Sides;
use super::units::{Unit, Units, read};
use crate::file_role::FileRole;
use ftl_code::context::Language;
use ftl_code::finding::{Finding, FindingKind, Severity};
use words::{Variable, is_for_tests, is_test_path, is_tool, names_tests, says_tests, variable};

pub(super) use ends::{ends, hook};
pub(super) use shell::without_comment;

/// Something in product code, with the words by which it is known on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    kind: FindingKind,
    line: usize,
    /// What is found again on the other side, wherever it stands there.
    key: String,
    message: String,
    blocks: bool,
}

impl Fact {
    fn block(kind: FindingKind, unit: &Unit, message: String) -> Fact {
        Fact { kind, line: unit.line, key: key_of(unit), message, blocks: true }
    }

    fn note(kind: FindingKind, unit: &Unit, message: String) -> Fact {
        Fact { blocks: false, ..Fact::block(kind, unit, message) }
    }

    fn detects(unit: &Unit, what: &str) -> Fact {
        Fact::block(
            FindingKind::TestDetected,
            unit,
            format!("product code asks whether it is being tested ({what})"),
        )
    }
}

fn key_of(unit: &Unit) -> String {
    format!("{} {}", unit.code, unit.literals.join(" "))
}

/// A product file that is looked at.
struct File<'a> {
    path: &'a str,
    text: &'a str,
    units: &'a Units,
    lines: Vec<&'a str>,
    /// The module that each name comes from, as its language says it.
    modules: BTreeMap<&'a str, &'a str>,
    /// What was asked of functions before, by the question and the function.
    asked: RefCell<BTreeMap<(&'static str, usize), Option<String>>>,
    program: OnceCell<bool>,
}

impl<'a> File<'a> {
    fn new(language: Language, path: &'a str, text: &'a str, units: &'a Units) -> File<'a> {
        let modules = match language {
            Language::Python => python::list_modules(units),
            Language::Go => go::list_packages(units),
            Language::TypeScript | Language::Tsx | Language::JavaScript => script::list_modules(units),
            Language::Rust => BTreeMap::new(),
        };
        let lines = text.lines().collect();
        File { path, text, units, lines, modules, asked: RefCell::default(), program: OnceCell::new() }
    }

    /// The answer to a question about the function around a unit, which is looked for once for each function.
    fn ask_of_function(
        &self,
        question: &'static str,
        unit: &Unit,
        ask: fn(&Units, &Unit) -> Option<String>,
    ) -> Option<String> {
        let Some(function) = unit.function else { return ask(self.units, unit) };
        let mut asked = self.asked.borrow_mut();
        asked.entry((question, function)).or_insert_with(|| ask(self.units, unit)).clone()
    }

    /// Whether it is there for tests of its own kind, so that it may know frameworks.
    fn is_for_tests(&self) -> bool {
        is_for_tests(self.path)
    }

    /// Whether it is a program that ends itself: it is called so, or it reads its arguments.
    fn is_program(&self) -> bool {
        *self.program.get_or_init(|| self.looks_like_program())
    }

    fn looks_like_program(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        let stem = name.split('.').next().unwrap_or(name);
        const NAMES: [&str; 8] = ["main", "__main__", "cli", "cmd", "bin", "manage", "server", "app"];
        const ARGUMENTS: [&str; 14] = [
            "argparse",
            "import click",
            "import typer",
            "optparse",
            "sys.argv",
            "process.argv",
            "commander",
            "yargs",
            "parseArgs",
            "require.main === module",
            "__name__",
            "env::args",
            "clap::",
            "flag.Parse",
        ];
        NAMES.contains(&stem)
            || self.text.starts_with("#!")
            || is_tool(self.path)
            || self.path.split('/').any(|part| matches!(part, "cmd" | "cli"))
            || ARGUMENTS.iter().any(|word| self.text.contains(word))
    }
}

/// The facts of one side of a file.
pub(super) fn facts(path: &str, text: &str) -> Vec<Fact> {
    let Some(language) = Language::of(path) else {
        return if is_shell(path, text) { shell::facts(path, text) } else { Vec::new() };
    };
    let Some(units) = read(language, text) else { return Vec::new() };
    let file = File::new(language, path, text, &units);
    let mut found = Vec::new();
    for unit in &units.units {
        found.extend(match language {
            Language::Python => python::look(&file, unit),
            Language::Rust => rust::look(&file, unit),
            Language::Go => go::look(&file, unit),
            Language::TypeScript | Language::Tsx | Language::JavaScript => script::look(&file, unit),
        });
        found.extend(environment(&file, unit, language));
        found.extend(reads_tests(&file, unit));
    }
    found.extend(equal::look(language, text));
    found
}

pub(super) fn is_shell(path: &str, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    [".sh", ".bash", ".ksh", ".zsh"].iter().any(|end| path.ends_with(end))
        || (first.starts_with("#!")
            && ["sh", "bash", "dash", "ksh", "zsh"].iter().any(|name| first.trim().ends_with(name)))
}

/// What of the environment a statement asks for, and what it makes of it.
fn environment(file: &File<'_>, unit: &Unit, language: Language) -> Option<Fact> {
    let asks: &[&str] = match language {
        Language::Python => &["environ", "getenv("],
        Language::Rust => &["env::var", "env!(", "env::vars"],
        Language::Go => &["os.Getenv(", "os.LookupEnv(", "os.Environ("],
        Language::TypeScript | Language::Tsx | Language::JavaScript => {
            &["process.env", "import.meta.env", "Deno.env", "Bun.env"]
        }
    };
    if !asks.iter().any(|word| unit.code.contains(word)) {
        return None;
    }
    let names = unit.code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let all: Vec<&str> = names.chain(unit.literals.iter().map(String::as_str)).collect();
    let given = unit.code.split("environ[\"\"]=").nth(1);
    let is_set = given.is_some_and(|value| !value.starts_with('=')) || unit.code.contains(".setdefault(");
    let found = all.iter().map(|name| (*name, variable(name))).find(|(_, what)| *what != Variable::Other);
    match found {
        Some((name, Variable::Tests)) if !is_set => Some(Fact::detects(unit, &format!("`{name}`"))),
        Some((name, Variable::Engine)) if !file.text.contains(".ftl") => {
            let message = format!("product code asks for the engine that verifies it (`{name}`)");
            Some(Fact::block(FindingKind::TestDetected, unit, message))
        }
        Some((name, Variable::Ci)) => {
            let message = format!("product code asks whether it runs in continuous integration (`{name}`)");
            Some(Fact::note(FindingKind::TestDetected, unit, message))
        }
        Some(_) | None => {
            let compares = ["==", "!=", ")in", "]in", "includes(", "switch", "match"]
                .iter()
                .any(|word| unit.code.contains(word));
            let is_test =
                |text: &&String| matches!(text.to_ascii_lowercase().as_str(), "test" | "testing" | "tests");
            let word = unit
                .literals
                .iter()
                .find(is_test)
                .filter(|_| compares && !file.is_for_tests() && !is_tool(file.path));
            word.map(|word| Fact::detects(unit, &format!("a variable of the environment that is `{word}`")))
        }
    }
}

/// A statement that reads a file of tests, or what a runner loads.
fn reads_tests(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    const READS: [&str; 26] = [
        "open(",
        "Open(",
        "read",
        "Read",
        "Path(",
        "path.join",
        "path.resolve",
        "glob",
        "Glob",
        "listdir",
        "walk",
        "Walk",
        "linecache",
        "spec_from_file",
        "runpy",
        "exec(",
        "exists",
        "include_str!",
        "include!",
        "require(",
        "import(",
        "fs.",
        "File::",
        "write",
        "Write",
        "import ",
    ];
    let path = unit.literals.iter().find(|text| is_test_path(text))?;
    let is_module = unit.code.starts_with("#[path");
    if !is_module && !READS.iter().any(|word| unit.code.contains(word)) {
        return None;
    }
    let message = format!("product code goes to a file of tests (`{}`)", super::short(path));
    Some(match is_tool(file.path) || file.is_for_tests() {
        true => Fact::note(FindingKind::TestDetected, unit, message),
        false => Fact::block(FindingKind::TestDetected, unit, message),
    })
}

/// A statement that looks at how the program was called, where it or its function names tests.
fn probes(file: &File<'_>, unit: &Unit, strong: &[&str], weak: &[&str]) -> Option<Fact> {
    if file.is_for_tests() || is_tool(file.path) {
        return None;
    }
    let has =
        |words: &[&str]| words.iter().find(|word| unit.code.contains(**word)).map(|word| (*word).to_owned());
    if let Some(word) = has(strong)
        && let Some(text) = file.ask_of_function("tests", unit, |units, unit| {
            units.around(unit).iter().find(|text| says_tests(text)).map(|text| super::short(text))
        })
    {
        return Some(Fact::detects(unit, &format!("`{word}` and `{text}`")));
    }
    let word = has(weak)?;
    let text = unit.literals.iter().find(|text| names_tests(text))?;
    Some(Fact::detects(unit, &format!("`{word}` and `{}`", super::short(text))))
}

/// A name before its first dot or bracket.
fn root(code: &str) -> &str {
    let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '$');
    &code[..end.unwrap_or(code.len())]
}

/// The target and the value of a plain assignment.
fn assignment(code: &str) -> Option<(&str, &str)> {
    let at = code.find('=')?;
    let (left, right) = (&code[..at], &code[at + 1..]);
    let is_plain =
        !right.starts_with(['=', '>']) && !left.ends_with(['!', '<', '>', '=', '+', '-', '*', '/', ':']);
    let is_place = left
        .chars()
        .all(|one| one.is_alphanumeric() || matches!(one, '_' | '.' | '$' | '[' | ']' | '"' | ')' | '('));
    (is_plain && is_place).then_some((left, right))
}

/// Whether a text holds a word that no longer one goes on.
pub(super) fn has_word_after(text: &str, word: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|one: char| one.is_alphanumeric() || one == '_');
    text.match_indices(word).any(|(at, _)| !goes_on(&text[at + word.len()..]))
}

/// Counts of facts by their words.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<(FindingKind, String), usize>);

impl Known {
    /// The facts of the base's side of all files.
    pub(super) fn of<'a>(sides: impl Iterator<Item = &'a Sides<'a>>) -> Known {
        let mut known = Known::default();
        for side in sides {
            for fact in side.before.map(|text| facts(side.path, text)).unwrap_or_default() {
                *known.0.entry((fact.kind, fact.key)).or_default() += 1;
            }
        }
        known
    }

    fn take(&mut self, fact: &Fact) -> bool {
        match self.0.get_mut(&(fact.kind, fact.key.clone())) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            Some(_) | None => false,
        }
    }
}

/// What a product file newly has.
pub(super) fn look(sides: &Sides<'_>, known: &mut Known) -> Vec<Finding> {
    let Some(after) = sides.after.filter(|after| sides.before != Some(*after)) else { return Vec::new() };
    let mut found = Vec::new();
    for fact in facts(sides.path, after) {
        if known.take(&fact) {
            continue;
        }
        let finding = Finding::block(fact.kind, sides.path, Some(fact.line), fact.message);
        found.push(if fact.blocks { finding } else { Finding { severity: Severity::Note, ..finding } });
    }
    found
}

/// Files that Python loads before every program.
pub(super) fn is_loaded_by_python(sides: &Sides<'_>) -> Option<Finding> {
    let path = sides.path;
    let is_site = ["sitecustomize.py", "usercustomize.py", ".pth"].iter().any(|end| path.ends_with(end));
    let message = "Python loads this file before every program, the test runner too";
    (is_site && sides.after.is_some() && sides.before != sides.after)
        .then(|| Finding::block(FindingKind::RunnerPatched, path, None, message))
}

/// Whether a file of this part is looked at as product code.
pub(super) fn is_product(part: FileRole) -> bool {
    match part {
        FileRole::Product | FileRole::VerifyScript => true,
        FileRole::Test
        | FileRole::Snapshot
        | FileRole::Fixture
        | FileRole::Hook
        | FileRole::Settings
        | FileRole::Targets
        | FileRole::Ci => false,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
