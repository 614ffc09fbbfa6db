//! What of a library is read and checked: only what is asked for, and the same whatever was asked for before.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ftl_core::catalogue::Catalogue;
use ftl_core::performer::Performer;
use ftl_language::library::{BUILT_IN, Library, built_in_sources};
use ftl_language::parse::parse;
use ftl_language::source::{DocumentOrigin, SourceDocument};

/// The built-in documents with those of a user.
fn with(users: &[(&str, &str)]) -> Library {
    let mut sources = built_in_sources();
    for (name, text) in users {
        sources.push(SourceDocument::new(format!(".ftl/protocols/{name}.md"), DocumentOrigin::User, text));
    }
    Library::load(sources, Catalogue::standard())
}

fn text(name: &str) -> &'static str {
    BUILT_IN.iter().find(|(one, _)| *one == name).unwrap().1
}

/// The text of an embedded document with a piece of it changed.
fn changed(name: &str, from: &str, to: &str) -> String {
    assert_eq!(text(name).matches(from).count(), 1, "{name} has `{from}` once");
    text(name).replace(from, to)
}

/// A user's own builder that has the inputs of the built-in one, and answers nothing that its parents read.
const BUILDER: &str = "```protocol
PROTOCOL: builder
INPUT: workspace
INPUT: mode = full | direct
INPUT: budget = 5
STATE: WORK
  RETURN: blocked reason=\"{workspace} {mode} {budget}\"
```
";

#[test]
fn an_embedded_document_defines_the_protocol_of_its_name() {
    for (at, source) in built_in_sources().iter().enumerate() {
        let (document, problems) = parse(at as u32, source);
        assert_eq!(document.name.map(|name| name.name.to_string()).as_deref(), Some(source.stem()));
        assert!(problems.is_empty(), "{problems:?}");
    }
}

#[test]
fn a_task_reads_two_embedded_documents_and_checks_none() {
    let library = with(&[]);
    let mut open = vec![String::from("task")];
    while let Some(name) = open.pop() {
        let program = library.program(&name).unwrap();
        let calls = program.states.iter().flat_map(|state| &state.nodes).flat_map(|node| &node.calls);
        open.extend(calls.filter_map(|call| match &call.whom {
            Performer::Run(child) => Some(child.to_string()),
            _ => None,
        }));
    }
    assert_eq!(library.looked_at(), (vec!["builder", "task"], vec![]));
    assert!(library.states("task").unwrap().iter().any(|state| &**state == "BUILD"));
    assert!(library.states("nobody").is_none() && library.program("nobody").is_none());
    assert_eq!(library.looked_at(), (vec!["builder", "task"], vec![]));
    assert_eq!(library.names().count(), BUILT_IN.len());
    assert!(library.get("task").unwrap().findings.is_sound());
    assert_eq!(library.looked_at(), (vec!["builder", "task"], vec!["builder", "task"]));
}

#[test]
fn what_is_not_checked_is_what_the_check_lets_pass() {
    let (checked, unchecked) = (with(&[]), with(&[]));
    assert!(checked.is_sound());
    for (name, _) in BUILT_IN {
        let (one, two) = (checked.program(name).unwrap(), unchecked.program(name).unwrap());
        assert!(
            format!("{one:?}") == format!("{two:?}"),
            "{name} is another program where it is not checked"
        );
        let states: Vec<_> = one.states.iter().map(|state| state.name.clone()).collect();
        assert_eq!(
            (checked.states(name).unwrap(), unchecked.states(name).unwrap()),
            (states.clone(), states)
        );
    }
    assert_eq!(unchecked.looked_at().1, Vec::<&str>::new());
}

#[test]
fn beside_a_document_that_replaces_an_embedded_one_everything_is_checked_that_is_asked_for() {
    let library = with(&[("builder", &format!("{}\n", text("builder")))]);
    assert_eq!(library.looked_at(), (vec!["builder"], vec![]));
    assert!(library.program("task").is_some());
    assert_eq!(library.looked_at(), (vec!["builder", "task"], vec!["builder", "task"]));
    // The campaign takes patterns out of `task` and runs both builders; nobody has asked for the lifecycle.
    assert!(library.program("campaign").is_some());
    let all = vec!["builder", "campaign", "coder", "task"];
    assert_eq!(library.looked_at(), (all.clone(), all));
}

#[test]
fn a_parent_of_a_document_that_does_not_fit_is_not_sound() {
    let library = with(&[("builder", BUILDER)]);
    assert!(library.program("builder").is_some() && library.program("lifecycle").is_some());
    assert!(library.program("task").is_none() && library.program("campaign").is_none());
    let codes: Vec<&str> =
        library.get("task").unwrap().findings.problems.iter().map(|problem| problem.code).collect();
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == "unknown-field"), "{codes:?}");
    // A document that runs nothing of a broken one is as sound as it was.
    let broken = with(&[("coder", "```protocol\nPROTOCOL: coder\nSTATE: A\n  GOTO: B\n```\n")]);
    assert!(broken.program("coder").is_none() && broken.program("campaign").is_none());
    assert!(broken.program("task").is_some() && broken.program("builder").is_some());
    assert!(!broken.is_sound());
}

#[test]
fn the_drawings_of_a_user_are_compared_before_a_program_is_made() {
    let wrong =
        changed("builder", "## Diagram\n", "## Diagram\n\n| From | To |\n|---|---|\n| VERIFY | NOWHERE |\n");
    let library = with(&[("builder", &wrong)]);
    assert!(library.program("builder").is_none());
    let problems = &library.get("builder").unwrap().findings.problems;
    assert!(problems.iter().any(|problem| problem.code == "drawing"), "{problems:?}");
    // Another text is nobody's proof, wherever it says that it comes from.
    let mut sources = built_in_sources();
    let at = sources.iter().position(|source| source.stem() == "builder").unwrap();
    sources[at] = SourceDocument::new("protocols/builder.md", DocumentOrigin::BuiltIn, &wrong);
    let library = Library::load(sources, Catalogue::standard());
    assert!(library.program("builder").is_none());
}

#[test]
fn what_is_found_does_not_depend_on_what_was_asked_for_before() {
    let odd = changed("task", "PROTOCOL: task\n", "PROTOCOL: task\nINPUT: nothing = 1\n");
    let runs = "```protocol\nPROTOCOL: own\nINPUT: x\nSTATE: A\n  DO: a = Run(tusk) objective={x}\n  DO: b = Run(coder) story={a.none}\n  RETURN: complete b={b.verdict}\n```\n";
    for users in [vec![], vec![("builder", BUILDER)], vec![("task", &*odd), ("own", runs)]] {
        let all = with(&users);
        let together: Vec<String> = all.protocols().map(|protocol| format!("{protocol:?}")).collect();
        for (at, (name, _)) in all.names().enumerate() {
            let alone = with(&users);
            assert!(format!("{:?}", alone.get(name).unwrap()) == together[at], "{name} alone");
            // And again where the others come after it.
            let after: Vec<String> = alone.protocols().map(|protocol| format!("{protocol:?}")).collect();
            assert!(after == together, "the others after {name}");
        }
    }
}
