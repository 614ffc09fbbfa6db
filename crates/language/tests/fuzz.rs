//! Documents that nobody would write: whatever is done to the text, loading ends and says so.
//!
//! The built-in documents are changed at random and loaded in place of the built-in ones. Nothing may
//! panic or take long, every problem points into its document and renders, and loading twice says
//! the same. `FTL_FUZZ_CASES` sets how many documents are tried. What once went wrong stands below
//! as a case of its own, for ever.

#![allow(clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use ftl_core::catalogue::Catalogue;
use ftl_language::Problem;
use ftl_language::library::{BUILT_IN, Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument, Span};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof};
use proptest::test_runner::{TestCaseError, TestRunner};

/// How many documents are tried unless `FTL_FUZZ_CASES` says otherwise.
const CASES: u32 = 64;
/// How long one load of the whole library may take, without optimization and on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);

/// Pieces that mean something somewhere, so that they mean something wrong elsewhere.
#[rustfmt::skip]
const TOKENS: [&str; 60] = [
    "DO:", "CHECK:", "WAIT:", "ASK:", "PAY:", "IF:", "EMIT:", "SET:", "INCREMENT:", "REFILL:", "USE:",
    "GOTO:", "RETURN:", "STAY", "HOLD:", "PROCEED", "ELSE", "PARALLEL", "FOR EACH x IN y", "PAYING tools",
    "KEEPING 1", "PER file", "BEFORE", "AND", "OR", "NOT", "with", "none", "true", "is not empty", "failure",
    "STATE:", "PATTERN:", "PROTOCOL:", "LIMIT:", "GATE:", "TRACK:", "INPUT:", "REDO:", "→", "->", ",", "|",
    "{", "}", "(", ")", "\"", "\\", "#", "=", "==", "0.0001", "99999999999999999999", "1e9", "-5s", "```",
    "~~~", "- ", "| From | To |",
];

/// Letters that are long in bytes, wide, without width, or no letters at all.
const ODD: [char; 16] = [
    '\0', '\u{1}', '\t', '\r', '\u{b}', '\u{7f}', '\u{85}', '\u{a0}', 'ß', 'ﬁ', '中', '\u{200b}', '\u{202e}',
    '\u{2028}', '\u{feff}', '🛰',
];

/// One change of a document. Places are shares of the text, so that they fit any text.
#[derive(Clone, Debug)]
enum Edit {
    Delete(u16),
    Duplicate(u16),
    Swap(u16, u16),
    Indent(u16, u8),
    Insert(u16, u16, &'static str),
    Letter(u16, u16, char),
    Long(u16, u16, &'static str),
    Deep(u16, u8),
    Bytes(u16, Vec<u8>),
    Cut(u16),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<u16>;
    let token = || prop::sample::select(TOKENS.as_slice());
    let edit = prop_oneof![
        3 => at().prop_map(Edit::Delete),
        2 => at().prop_map(Edit::Duplicate),
        2 => (at(), at()).prop_map(|(one, two)| Edit::Swap(one, two)),
        2 => (at(), 0..40u8).prop_map(|(line, spaces)| Edit::Indent(line, spaces)),
        6 => (at(), at(), token()).prop_map(|(line, column, token)| Edit::Insert(line, column, token)),
        3 => (at(), at(), prop::sample::select(ODD.as_slice()))
            .prop_map(|(line, column, letter)| Edit::Letter(line, column, letter)),
        1 => (at(), 1..2000u16, token()).prop_map(|(line, times, token)| Edit::Long(line, times, token)),
        1 => (at(), 1..60u8).prop_map(|(line, depth)| Edit::Deep(line, depth)),
        2 => (at(), prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(line, bytes)| Edit::Bytes(line, bytes)),
        1 => at().prop_map(Edit::Cut),
    ];
    prop_oneof![
        1 => Just(Vec::new()),
        12 => prop::collection::vec(edit.clone(), 1..5),
        4 => prop::collection::vec(edit, 5..30),
    ]
}

#[test]
fn changed_documents_load() {
    let cases = std::env::var("FTL_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let strategy = (0..BUILT_IN.len(), edits());
    let outcome = TestRunner::new(config).run(&strategy, |(which, edits)| {
        let (name, original) = BUILT_IN[which];
        let text = edits.iter().fold(original.to_owned(), |text, edit| edit.apply(&text));
        let mut sources = built_in_sources();
        sources[which] = SourceDocument::new(format!("protocols/{name}.md"), DocumentOrigin::BuiltIn, text);
        prove(&sources).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn any_text_loads() {
    let cases = std::env::var("FTL_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let config = ProptestConfig { cases: cases * 4, failure_persistence: None, ..ProptestConfig::default() };
    let piece = prop_oneof![
        6 => prop::sample::select(TOKENS.as_slice()).prop_map(str::to_owned),
        4 => prop::sample::select(["x", "A", "task", "a.b", "said.next", "5", "300s", "\"{x}\"", "Run(x)"].as_slice())
            .prop_map(str::to_owned),
        3 => Just(" ".to_owned()),
        4 => (0..6usize).prop_map(|depth| format!("\n{}", "  ".repeat(depth))),
        1 => any::<String>(),
    ];
    let strategy = prop::collection::vec(piece, 0..80);
    let outcome = TestRunner::new(config).run(&strategy, |pieces| {
        let text = format!("```protocol\nPROTOCOL: x\nSTATE: A\n  {}\n```\n", pieces.join(" "));
        prove(&[SourceDocument::new("x.md", DocumentOrigin::File, text)]).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// What made loading overflow its stack, or take minutes or gigabytes, before it had a limit.
#[test]
fn documents_made_to_exhaust_load() {
    let each = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let doubling = |pattern: &dyn Fn(usize) -> String, last: &str| {
        format!("{}PATTERN: P6 with a\n  {last}\nSTATE: A\n  USE: P0 with a={{b}}\n", each(6, pattern))
    };
    let programs = [
        format!("INPUT: a = true\nSTATE: A\n  {}RETURN blocked", "IF: a → ".repeat(300)),
        format!("STATE: A\n  {}PROCEED", "DO: sh \"x\" ELSE ".repeat(200)),
        format!("STATE: A\n  IF: {}a{} → STAY", "(".repeat(1500), ")".repeat(1500)),
        format!("STATE: A\n  IF: {}a → STAY", "NOT ".repeat(1000)),
        each(5000, &|at| format!("STATE: S{at}\n  GOTO: S{}\n", at + 1)),
        each(250, &|at| format!("STATE: S{at}\n  GOTO: S{}\n", (at + 1) % 250)),
        doubling(
            &|at| format!("PATTERN: P{at} with a\n  USE: P{} with a=\"{}\"\n", at + 1, "{a}".repeat(200)),
            "EMIT: \"{a}\"",
        ),
        doubling(
            &|at| format!("PATTERN: P{at} with a\n  USE: P{} with a={{{}a}}\n", at + 1, "a AND ".repeat(120)),
            "IF: a → EMIT: \"x\"",
        ),
        format!(
            "{}STATE: A\n{}",
            each(40, &|at| format!("INPUT: a{at} = true\n")),
            each(40, &|at| format!("  DO: b{at} = sh \"x\"\n  IF: a{at} → EMIT: \"x\"\n")),
        ),
        format!(
            "INPUT: a = 1\nSTATE: A\n  IF: a == 0{} → STAY",
            each(200, &|at| format!(" OR a == {at} AND a > 1"))
        ),
        format!("STATE: A\n  DO: c = Run(x)\n  RETURN: complete{}", each(300, &|at| format!(" f{at}={{c}}"))),
        format!("STATE: A\n  EMIT: X{}", each(5000, &|at| format!(" a{at}=1"))),
        format!("{}STATE: A\n  RETURN: complete", each(5000, &|at| format!("LIMIT: m{at} = 1 ELSE HOLD\n"))),
        format!("STATE: A with p{}\n  RETURN: complete", each(5000, &|at| format!(", p{at}"))),
        format!("STATE: A\n{}", "  EMIT: \"{nothing}\"\n".repeat(10_001)),
        format!("STATE: A\n  RETURN: complete\n```\n\n{}\n\n```text", ">".repeat(50_000)),
        format!("STATE: A\n  RETURN: complete\n```\n\n|From|To|\n|-|-|\n{}\n```text", "|A|A|\n".repeat(5000)),
    ];
    for (at, program) in programs.iter().enumerate() {
        let text = format!("```protocol\nPROTOCOL: x\n{program}\n```\n");
        let outcome = prove(&[SourceDocument::new("x.md", DocumentOrigin::File, text)]);
        assert_eq!(outcome, Ok(()), "the program {at}");
    }
}

/// What once made loading panic.
#[test]
fn documents_that_once_failed_load() {
    for program in [
        "INPUT: a = 5x中",
        "  INCREMENT: 1o𐵅]",
        "INPUT: a = 1.2345ß",
        "STATE: A\n  DO: sh \"5x中\" timeout=5x中",
    ] {
        let text = format!("```protocol\nPROTOCOL: x\n{program}\n```\n");
        let outcome = prove(&[SourceDocument::new("x.md", DocumentOrigin::File, text)]);
        assert_eq!(outcome, Ok(()), "{program}");
    }
}

impl Edit {
    fn apply(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let count = lines.len();
        let line = |at: &u16| usize::from(*at) % count;
        match self {
            Edit::Delete(at) => drop(lines.remove(line(at))),
            Edit::Duplicate(at) => lines.insert(line(at), lines[line(at)].clone()),
            Edit::Swap(one, two) => lines.swap(line(one), line(two)),
            Edit::Indent(at, spaces) => {
                let at = line(at);
                lines[at] = format!("{}{}", " ".repeat(usize::from(*spaces)), lines[at].trim_start());
            }
            Edit::Insert(at, column, token) => insert(&mut lines[line(at)], *column, token),
            Edit::Letter(at, column, letter) => {
                insert(&mut lines[line(at)], *column, &letter.to_string());
            }
            Edit::Long(at, times, token) => {
                lines[line(at)].push_str(&format!(" {token}").repeat(usize::from(*times)));
            }
            Edit::Deep(at, depth) => {
                let deeper =
                    (0..usize::from(*depth)).map(|depth| format!("{}IF: true →", "  ".repeat(depth + 1)));
                let at = line(at);
                lines.splice(at..at, deeper);
            }
            Edit::Bytes(at, bytes) => lines.insert(line(at), String::from_utf8_lossy(bytes).into_owned()),
            Edit::Cut(at) => lines.truncate(line(at)),
        }
        lines.join("\n")
    }
}

fn insert(line: &mut String, column: u16, what: &str) {
    let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
    line.insert_str(places[usize::from(column) % places.len()], what);
}

/// Loads documents twice and looks at everything that is said about them.
fn prove(sources: &[SourceDocument]) -> Result<(), String> {
    let start = Instant::now();
    let library = Library::load(sources.to_vec(), Catalogue::standard());
    let said = all(&library);
    let took = start.elapsed();
    if took > LONGEST {
        return Err(format!("loading took {took:?}"));
    }
    for problem in &said {
        for span in [Some(problem.span), problem.pasted].into_iter().flatten() {
            inside(span, &library).map_err(|why| format!("{why}: {problem:?}"))?;
        }
        let text = problem.render(library.sources());
        if !text.contains(problem.code) || !text.contains("-->") {
            return Err(format!("does not render: {problem:?}"));
        }
    }
    for protocol in library.protocols() {
        if protocol.findings.is_sound() != protocol.program.is_some() {
            return Err(format!("{}: a sound protocol has a program, no other has", protocol.name));
        }
    }
    if all(&Library::load(sources.to_vec(), Catalogue::standard())) != said {
        return Err("loading twice says two things".to_owned());
    }
    Ok(())
}

fn all(library: &Library) -> Vec<Problem> {
    let own = library.protocols().flat_map(|protocol| &protocol.findings.problems);
    let strays = library.strays().iter().flat_map(|(_, problems)| problems);
    own.chain(strays).cloned().collect()
}

fn inside(span: Span, library: &Library) -> Result<(), String> {
    let source = library.sources().get(span.file as usize).ok_or("points to no document")?;
    let (start, end) = (span.start as usize, span.end as usize);
    if start > end || end > source.text.len() {
        return Err(format!("points outside of {} bytes", source.text.len()));
    }
    if !source.text.is_char_boundary(start) || !source.text.is_char_boundary(end) {
        return Err("points into the middle of a letter".to_owned());
    }
    Ok(())
}
