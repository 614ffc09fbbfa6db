//! The checker, case by case: a small protocol, and the complete list of what is wrong with it.
//!
//! The cases stand in `cases/problems.txt`. A case begins with `=== what it shows`, then comes the
//! program (or a whole document, if it has a fence of its own), then `---`, then one line for each
//! problem: `code@line: text`, where the line counts from the first line of the case and every
//! piece of the text between ` … ` occurs in the message or its hint, in that order. A case
//! without such lines is sound. Nothing else may be found: the lists are complete.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use ftl_core::catalogue::Catalogue;
use ftl_core::program::{BoardCode, BoardKind};
use ftl_core::value::Name;
use ftl_language::library::{Library, built_in_sources};
use ftl_language::problem::Problem;
use ftl_language::source::{DocumentOrigin, MAX_DOCUMENT_BYTES, SourceDocument};

const CASES: &str = include_str!("cases/problems.txt");
const OPENING: &str = "```protocol\n";

/// Codes that need more than one document, or a very large one; the tests below show them.
const ELSEWHERE: [&str; 1] = ["name"];

struct Case {
    title: &'static str,
    line: usize,
    program: String,
    expected: Vec<Expected>,
}

struct Expected {
    code: &'static str,
    line: usize,
    pieces: Vec<&'static str>,
}

#[test]
fn every_case_has_exactly_its_problems() {
    let cases = cases();
    let mut report = String::new();
    for case in &cases {
        let found = problems(&case.program);
        let fits = found.len() == case.expected.len()
            && found.iter().zip(&case.expected).all(|(found, expected)| expected.fits(found));
        if !fits {
            let _ = writeln!(report, "problems.txt:{}: {}", case.line, case.title);
            for one in &found {
                let _ = writeln!(report, "    {}@{}: {}", one.code, one.line, one.text);
            }
        }
    }
    assert!(report.is_empty(), "\n{report}\nthe lists above are what the checker says now\n");
    assert!(cases.len() > 150, "{} cases were read", cases.len());
}

#[test]
fn every_code_has_a_case_that_fails() {
    let cases = cases();
    let shown: BTreeSet<&str> =
        cases.iter().flat_map(|case| &case.expected).map(|expected| expected.code).chain(ELSEWHERE).collect();
    let silent: Vec<String> = codes().into_iter().filter(|code| !shown.contains(code.as_str())).collect();
    assert!(silent.is_empty(), "no case shows {}", silent.join(", "));
}

#[test]
fn every_message_renders_with_its_line() {
    for case in cases() {
        let (library, problems) = load(&case.program);
        for problem in problems {
            let text = problem.render(library.sources());
            assert!(text.contains(problem.code) && text.contains("--> "), "{}: {text}", case.title);
            assert!(text.lines().any(|line| line.trim_end().ends_with('^')), "{}: {text}", case.title);
        }
    }
}

#[test]
fn a_file_carries_the_name_of_its_protocol() {
    let user = SourceDocument::new(".ftl/protocols/one.md", DocumentOrigin::User, fenced("PROTOCOL: two\n"));
    let library = Library::load(vec![user], Catalogue::standard());
    let codes: Vec<&str> = library.get("two").unwrap().findings.problems.iter().map(|one| one.code).collect();
    assert_eq!(codes, ["name", "no-state"]);
}

#[test]
fn a_user_replaces_a_protocol_and_nobody_defines_it_twice() {
    let text = fenced("PROTOCOL: task\nSTATE: A\n  RETURN: complete\n");
    let mut sources = built_in_sources();
    sources.push(SourceDocument::new("task.md", DocumentOrigin::User, &text));
    let library = Library::load(sources.clone(), Catalogue::standard());
    assert_eq!(library.get("task").unwrap().origin, DocumentOrigin::User);
    let campaign: BTreeSet<&str> =
        library.get("campaign").unwrap().findings.problems.iter().map(|one| one.code).collect();
    assert!(campaign.contains("unknown-pattern"), "campaign lost the patterns of task: {campaign:?}");

    sources.push(SourceDocument::new("other/task.md", DocumentOrigin::User, &text));
    let library = Library::load(sources, Catalogue::standard());
    let strays: Vec<&str> = library.strays().iter().flat_map(|(_, all)| all).map(|one| one.code).collect();
    assert_eq!(strays, ["double-name"]);
}

#[test]
fn a_document_keeps_the_board_and_the_delivery_of_the_one_it_replaces() {
    let whole = built_in_sources().into_iter().find(|one| one.stem() == "campaign").unwrap().text;
    let own = |text: &str| {
        let sources = [
            built_in_sources(),
            vec![
                SourceDocument::new(".ftl/protocols/campaign.md", DocumentOrigin::User, text),
                SourceDocument::new("campaign.md", DocumentOrigin::File, text),
            ],
        ];
        let library = Library::load(sources.concat(), Catalogue::standard());
        let own = library.get("campaign").unwrap();
        assert_eq!(own.origin, DocumentOrigin::File);
        (own.board.clone(), own.delivery.clone())
    };
    let named = |states: &[&str]| states.iter().map(|one| Name::from(*one)).collect::<Vec<_>>();
    let board =
        BoardCode { kind: BoardKind::Tasks, quiet: named(&["REGISTER", "EXECUTE", "CASCADE"]), rounds: None };
    let bare: String = whole
        .lines()
        .filter(|line| !line.starts_with("BOARD:") && !line.starts_with("DELIVERY:"))
        .fold(String::new(), |text, line| text + line + "\n");
    assert_ne!(bare, *whole);
    assert_eq!(own(&bare), (Some(board.clone()), Some(Name::from("COMPLETE"))));
    // Only what it has: a state that went away is neither quiet nor where anything lands.
    let renamed = bare.replace("REGISTER", "ENTER").replace("COMPLETE", "LAST");
    let fewer = BoardCode { quiet: named(&["EXECUTE", "CASCADE"]), ..board };
    assert_eq!(own(&renamed), (Some(fewer), None));
    // What it says itself counts, also that there is none.
    let other = bare.replace("PROTOCOL: campaign\n", "PROTOCOL: campaign\nBOARD: none\n");
    assert_eq!(own(&other), (None, Some(Name::from("COMPLETE"))));
}

#[test]
fn a_document_has_a_largest_size() {
    let text = format!("{}{}", fenced("PROTOCOL: x\n"), "x".repeat(MAX_DOCUMENT_BYTES));
    let library =
        Library::load(vec![SourceDocument::new("x.md", DocumentOrigin::File, text)], Catalogue::standard());
    let strays: Vec<&str> = library.strays().iter().flat_map(|(_, all)| all).map(|one| one.code).collect();
    assert_eq!(strays, ["too-large"]);
    assert!(!library.is_sound());
}

/// A problem as the cases spell it.
struct Found {
    code: &'static str,
    line: usize,
    text: String,
}

impl Expected {
    fn fits(&self, found: &Found) -> bool {
        let mut rest = found.text.as_str();
        let all = self.pieces.iter().all(|piece| match rest.find(piece) {
            Some(at) => {
                rest = &rest[at + piece.len()..];
                true
            }
            None => false,
        });
        all && found.code == self.code && found.line == self.line
    }
}

fn problems(program: &str) -> Vec<Found> {
    let own_fence = program.contains("```");
    let (library, problems) = load(program);
    let last = library.sources().len() - 1;
    let line = |problem: &Problem| {
        let source = &library.sources()[problem.span.file as usize];
        assert_eq!(problem.span.file as usize, last, "{}: {}", problem.code, problem.message);
        source.locate(problem.span.start).line - usize::from(!own_fence)
    };
    problems
        .iter()
        .map(|problem| Found {
            code: problem.code,
            line: line(problem),
            text: format!("{} … {}", problem.message, problem.hint.as_deref().unwrap_or_default()),
        })
        .collect()
}

/// The case as the last document of a library; the built-in ones come along where it names them.
fn load(program: &str) -> (Library, Vec<Problem>) {
    let text = if program.contains("```") { program.to_owned() } else { fenced(program) };
    let mut sources = Vec::new();
    if ["Run(", "USE: task.", "USE: builder."].iter().any(|mark| program.contains(mark)) {
        sources = built_in_sources();
    }
    let file = sources.len() as u32;
    sources.push(SourceDocument::new("case.md", DocumentOrigin::File, text));
    let library = Library::load(sources, Catalogue::standard());
    let own = library.protocols().find(|protocol| protocol.file == file);
    let strays = library.strays().iter().find(|(stray, _)| *stray == file);
    let problems = match (own, strays) {
        (Some(own), _) => own.findings.problems.clone(),
        (None, Some((_, problems))) => problems.clone(),
        (None, None) => Vec::new(),
    };
    (library, problems)
}

fn fenced(program: &str) -> String {
    format!("{OPENING}{program}```\n")
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut in_list = true;
    for (at, line) in CASES.lines().enumerate() {
        if let Some(title) = line.strip_prefix("=== ") {
            cases.push(Case { title, line: at + 1, program: String::new(), expected: Vec::new() });
            in_list = false;
        } else if line == "---" {
            in_list = true;
        } else if let Some(case) = cases.last_mut() {
            if !in_list {
                case.program.push_str(line);
                case.program.push('\n');
            } else if !line.trim().is_empty() {
                case.expected.push(expected(line));
            }
        }
    }
    cases
}

fn expected(line: &'static str) -> Expected {
    let read = || {
        let (place, text) = line.split_once(": ")?;
        let (code, number) = place.split_once('@')?;
        Some(Expected { code, line: number.parse().ok()?, pieces: text.split(" … ").collect() })
    };
    read().unwrap_or_else(|| panic!("not `code@line: text`: {line}"))
}

/// Every code that the sources of the language use.
fn codes() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![src];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| codes_in(&text)).collect()
}

/// What stands in quotes right after `Problem::error(` and `Problem::warning(`.
fn codes_in(text: &str) -> Vec<String> {
    let calls = ["Problem::error(", "Problem::warning("];
    let after = calls.iter().flat_map(|call| text.split(call).skip(1));
    let quoted = after.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    quoted.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}
