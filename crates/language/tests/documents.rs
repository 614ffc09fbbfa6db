//! What the repository's own documents promise: the edges of the specification (docs/origins.md), the
//! parts of each protocol page, the pictures, and the example of the page on writing protocols.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ftl_core::catalogue::Catalogue;
use ftl_language::draw;
use ftl_language::library::{BUILT_IN, Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_protocol_is_sound_and_has_the_edges_of_the_specification() {
    let library = Library::built_in();
    let cases = text("crates/language/tests/cases/edges.txt");
    let mut seen = 0;
    for line in cases.lines().filter(|line| !line.starts_with('#')) {
        let (head, edges) = line.split_once(": ").unwrap();
        let (name, states) = head.split_once(' ').unwrap();
        let protocol = library.get(name).unwrap();
        let wanted: BTreeSet<(String, String)> = edges
            .split(' ')
            .map(|pair| pair.split_once('>').unwrap())
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .collect();
        let found =
            protocol.findings.edges.iter().map(|edge| (edge.from.to_string(), edge.to.to_string())).collect();
        assert_eq!(wanted, found, "{name}");
        assert_eq!(protocol.states.len().to_string(), states, "{name}");
        assert!(protocol.findings.problems.is_empty(), "{name}: {:?}", protocol.findings.problems);
        seen += 1;
    }
    assert_eq!(seen, BUILT_IN.len());
}

#[test]
fn every_protocol_page_has_its_parts() {
    for (name, page) in BUILT_IN {
        for part in [
            "## Diagram",
            "## States",
            "## Allowed transitions",
            "## Limits and defaults",
            "## Program",
            "## Amendments",
        ] {
            assert!(page.lines().any(|line| line == part), "protocols/{name}.md has no `{part}`");
        }
        let kinds: Vec<_> = draw::read(page).iter().map(|drawing| drawing.kind).collect();
        assert!(kinds.contains(&draw::DrawingKind::Mermaid), "{name} has no diagram");
        assert!(kinds.len() >= 2, "{name} has no transition table: {kinds:?}");
    }
}

#[test]
fn the_pictures_are_what_ftl_draws() {
    let library = Library::built_in();
    for (name, _) in BUILT_IN {
        let path = format!("docs/pictures/{name}.svg");
        let drawn = draw::svg(&library.machine(name).unwrap());
        assert!(text(&path) == drawn, "{path} is out of date; `just draw` makes it again");
    }
}

#[test]
fn the_example_of_the_first_page_is_sound_and_needs_its_payment() {
    let whole = text("docs/writing-protocols.md");
    let page = whole.split("````markdown\n").nth(1).unwrap().split("\n````").next().unwrap();
    assert_eq!(problems(page), Vec::<String>::new());
    let unpaid = page.replace("  PAY: tries\n", "");
    let said = problems(&unpaid);
    assert!(said.iter().any(|one| one == "this loop pays no meter: WRITE → TEST, TEST → WRITE"), "{said:?}");
}

#[test]
fn the_example_of_the_first_page_is_the_one_that_can_be_run() {
    let program =
        |page: &str| page.split("```protocol\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let example = text("examples/tidy/tidy.md");
    assert_eq!(program(&text("docs/writing-protocols.md")), program(&example));
}

fn problems(page: &str) -> Vec<String> {
    let mut sources = built_in_sources();
    sources.push(SourceDocument::new("tidy.md", DocumentOrigin::User, page));
    let library = Library::load(sources, Catalogue::standard());
    let found = &library.get("tidy").expect("no protocol").findings.problems;
    found.iter().map(|problem| problem.message.clone()).collect()
}
