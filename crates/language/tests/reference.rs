//! The users' reference keeps step with the language: its examples are sound, and it names every
//! verb, header word, error code and limit that the sources know.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ftl_core::catalogue::Catalogue;
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Lists of words in the parser, by the names of their constants.
const WORD_LISTS: [&str; 3] = ["const HEADERS", "const VERBS", "const RESERVED"];
/// Words that only stand inside of a line.
const INNER_WORDS: [&str; 12] =
    ["FOR EACH", "UNTIL ANY", "BY", "IN", "TO", "OR", "PAYING", "KEEPING", "len", "max", "min", "critical"];

#[test]
fn every_example_is_sound() {
    let examples = examples(&reference());
    assert!(examples.len() >= 25, "{} examples were found", examples.len());
    let mut report = String::new();
    for (line, program) in &examples {
        let mut sources = built_in_sources();
        let file = sources.len() as u32;
        sources.push(SourceDocument::new(
            "example.md",
            DocumentOrigin::File,
            format!("```protocol\n{program}```\n"),
        ));
        let library = Library::load(sources, Catalogue::standard());
        let own = library.protocols().filter(|protocol| protocol.file == file);
        let own = own.flat_map(|protocol| &protocol.findings.problems);
        let strays = library.strays().iter().flat_map(|(_, problems)| problems);
        for problem in own.chain(strays) {
            let _ = writeln!(report, "the example at line {line}:\n{}", problem.render(library.sources()));
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn every_example_is_a_whole_document() {
    let names: Vec<String> = examples(&reference())
        .iter()
        .map(|(line, program)| {
            let first = program.lines().next().unwrap_or_default();
            let name = first.strip_prefix("PROTOCOL: ");
            name.unwrap_or_else(|| panic!("the example at line {line} begins with {first:?}")).to_owned()
        })
        .collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "two examples have one name");
}

#[test]
fn every_word_of_the_language_is_explained() {
    let reference = reference();
    let parser: String = sources().iter().map(|file| read(file)).collect();
    let mut words: Vec<String> = INNER_WORDS.map(str::to_owned).to_vec();
    for list in WORD_LISTS {
        let found = quoted_list(&parser, list);
        assert!(found.len() >= 8, "{list} was not found in the parser");
        words.extend(found);
    }
    missing(words.iter().filter(|word| !has_word(&reference, word)), "does not explain");
}

#[test]
fn every_verb_has_an_example() {
    let examples: String = examples(&reference()).into_iter().map(|(_, program)| program).collect();
    let parser: String = sources().iter().map(|file| read(file)).collect();
    let verbs = ["const HEADERS", "const VERBS"].iter().flat_map(|list| quoted_list(&parser, list));
    let inner = ["PARALLEL", "FOR EACH", "UNTIL ANY", "PAYING", "KEEPING", "PER", "DO: |", "REFILL", "TO"];
    let wanted: Vec<String> = verbs.chain(inner.map(str::to_owned)).collect();
    missing(wanted.iter().filter(|word| !has_word(&examples, word)), "has no example of");
}

#[test]
fn every_code_is_listed() {
    let reference = reference();
    let codes: BTreeSet<String> = sources().iter().flat_map(|file| codes_in(&read(file))).collect();
    assert!(codes.len() > 40, "{} codes were found", codes.len());
    missing(codes.iter().filter(|code| !reference.contains(&format!("| `{code}` |"))), "does not list");

    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let listed = rows.map(|(code, _)| code).filter(|code| code.contains('-') && !code.contains(' '));
    let gone: Vec<&str> = listed.filter(|code| !codes.contains(*code)).collect();
    assert!(gone.is_empty(), "the reference lists codes that nothing uses: {gone:?}");
}

#[test]
fn every_limit_is_listed_with_its_name() {
    let reference = reference();
    let mut limits = BTreeSet::new();
    for file in sources().into_iter().chain([core().join("value.rs")]) {
        let text = read(&file);
        let names = text.split("const MAX_").skip(1).filter_map(|rest| rest.split(':').next());
        limits.extend(names.map(|name| format!("`MAX_{name}`")));
    }
    assert!(limits.len() >= 9, "{limits:?}");
    missing(limits.iter().filter(|limit| !reference.contains(limit.as_str())), "does not list");
}

fn missing<'a>(words: impl Iterator<Item = &'a String>, what: &str) {
    let words: BTreeSet<&String> = words.collect();
    assert!(words.is_empty(), "docs/protocol-language.md {what} {words:?}");
}

/// The `protocol` blocks of a document with the numbers of their lines.
fn examples(text: &str) -> Vec<(usize, String)> {
    let mut examples = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(word))) if &*word == "protocol" => {
                open = Some((text[..range.start].matches('\n').count() + 1, String::new()));
            }
            Event::Text(part) => open.iter_mut().for_each(|(_, program)| program.push_str(&part)),
            Event::End(TagEnd::CodeBlock) => examples.extend(open.take()),
            _ => {}
        }
    }
    examples
}

/// The words in quotes of the list that a constant holds.
fn quoted_list(text: &str, constant: &str) -> Vec<String> {
    let list = text.split(constant).nth(1).and_then(|rest| rest.split("];").next()).unwrap_or_default();
    let list = list.split_once('=').map_or("", |(_, words)| words);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What stands in quotes right after `Problem::error(` and `Problem::warning(`.
fn codes_in(text: &str) -> Vec<String> {
    let calls = ["Problem::error(", "Problem::warning("];
    let after = calls.iter().flat_map(|call| text.split(call).skip(1));
    let quoted = after.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    quoted.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter))
}

fn core() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src")
}

/// Every file of the language but its drawings, and the syntax tree.
fn sources() -> Vec<PathBuf> {
    let language = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![core().join("syntax.rs")];
    let mut folders = vec![language.clone(), core().join("syntax")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path == language.join("draw") {
                continue;
            }
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

fn reference() -> String {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol-language.md"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
