//! Runs of earlier versions: an instance that rests in a state of an earlier built-in document finishes that state by it
//! and enters the next one by today's, and no gate, payment or edge is lost on the way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::run::{Event, Fact, Run, Terms};
use ftl_language::library::{BUILT_IN, EARLIER, Library};
use ftl_language::problem::{Problem, ProblemSeverity};
use ftl_language::source::{DocumentOrigin, SourceDocument};
use support::{Stage, library, library_edited};

type Texts = BTreeMap<&'static str, String>;

fn today() -> Texts {
    BUILT_IN.iter().map(|(name, text)| (*name, (*text).to_owned())).collect()
}

/// The documents of each earlier version, with its name.
fn versions() -> Vec<(&'static str, Texts)> {
    let mut texts = today();
    let versions = EARLIER.iter().map(|(version, changed)| {
        texts.extend(changed.iter().map(|(name, text)| (*name, (*text).to_owned())));
        (*version, texts.clone())
    });
    versions.collect()
}

fn load(texts: &Texts) -> Library {
    let sources = texts.iter().map(|(name, text)| {
        SourceDocument::new(format!("protocols/{name}.md"), DocumentOrigin::BuiltIn, text)
    });
    Library::load(sources.collect(), Catalogue::standard())
}

fn problems(library: &Library) -> String {
    let all = library.protocols().flat_map(|protocol| &protocol.findings.problems);
    all.map(|problem| problem.render(library.sources())).collect::<Vec<_>>().join("\n")
}

/// The states of a version whose texts are no longer today's.
fn changed_states(library: &Library) -> Vec<(String, String)> {
    let now = support::library();
    let mut changed = Vec::new();
    for protocol in library.protocols() {
        for state in &protocol.program.as_ref().unwrap().states {
            let same = now.program(&protocol.name).unwrap().state(&state.name);
            if same.is_none_or(|same| same.code != state.code) {
                changed.push((protocol.name.to_string(), state.name.to_string()));
            }
        }
    }
    changed
}

/// The lines of a STATE or a PATTERN of a document, from its own line to the next one or the end of the block.
fn section(text: &str, head: &str) -> std::ops::Range<usize> {
    let begins = |line: &str| line == head || line.starts_with(&format!("{head} "));
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let ends = bare.starts_with("STATE: ") || bare.starts_with("PATTERN: ") || bare == "```";
        match start {
            Some(start) if ends => return start..at,
            None if begins(bare) => start = Some(at),
            Some(_) | None => {}
        }
        at += line.len();
    }
    panic!("no {head}");
}

/// Replaces the statements of a section by those of another document. Its own line stays: today's states say what they
/// tell it, and an earlier text that needs anything else would not be sound.
fn replace(texts: &mut Texts, name: &str, head: &str, by: &Texts) {
    let text = texts.get_mut(name).unwrap();
    let other = &by[name];
    let body = |text: &str| {
        let whole = section(text, head);
        whole.start + text[whole.clone()].find('\n').unwrap()..whole.end
    };
    text.replace_range(body(text), &other[body(other)]);
}

/// Today's documents with one state of a version, and with the patterns that it uses.
fn with_state(earlier: &Texts, protocol: &str, state: &str) -> Texts {
    let mut texts = today();
    let head = format!("STATE: {state}");
    replace(&mut texts, protocol, &head, earlier);
    let body = &earlier[protocol][section(&earlier[protocol], &head)];
    for line in body.lines().filter_map(|line| line.split("USE: ").nth(1)) {
        let name = line.split_whitespace().next().unwrap();
        let (document, pattern) = name.split_once('.').unwrap_or((protocol, name));
        replace(&mut texts, document, &format!("PATTERN: {pattern}"), earlier);
    }
    texts
}

#[test]
fn every_state_of_an_earlier_version_has_its_program() {
    let now = library();
    for (version, texts) in versions() {
        let earlier = load(&texts);
        assert!(earlier.is_sound(), "{version}: {}", problems(&earlier));
        assert!(!changed_states(&earlier).is_empty(), "{version} need not be kept");
        for protocol in earlier.protocols() {
            for state in &protocol.program.as_ref().unwrap().states {
                let found = now.program_of(&protocol.name, &state.name, &state.code).unwrap();
                let found = found.state(&state.name).unwrap();
                assert_eq!(found.code, state.code, "{version}: {} {}", protocol.name, state.name);
                for to in &state.targets {
                    let program = now.program(&protocol.name).unwrap();
                    let edge = (state.name.clone(), to.clone());
                    assert!(program.edges.contains(&edge), "{version}: {} {edge:?}", protocol.name);
                }
            }
        }
    }
}

#[test]
fn an_earlier_state_between_todays_is_sound() {
    for (version, texts) in versions() {
        for (protocol, state) in changed_states(&load(&texts)) {
            let mixed = load(&with_state(&texts, &protocol, &state));
            // Today's states may tell it more than it reads.
            let is_wrong =
                |one: &&Problem| one.severity == ProblemSeverity::Error && one.code != "unused-parameter";
            let found = mixed.protocols().flat_map(|one| &one.findings.problems).filter(is_wrong).count();
            assert_eq!(found, 0, "{version}: {protocol} {state}:\n{}", problems(&mixed));
        }
    }
}

#[test]
fn what_todays_states_rely_on_was_seen_before_they_are_entered() {
    for (version, texts) in versions() {
        let now = library();
        for (name, text) in &today() {
            let gates = text.lines().filter(|line| line.starts_with("GATE: "));
            for gate in gates.map(|line| line.split(" BEFORE ").next().unwrap().to_owned()) {
                for state in now.get(name).unwrap().states.iter().skip(1) {
                    let is_proved = |texts: &Texts| {
                        let mut texts = texts.clone();
                        let text = texts.get_mut(name).unwrap();
                        *text = text.replacen(&gate, &format!("{gate} BEFORE {state}\n{gate}"), 1);
                        load(&texts).get(name).unwrap().findings.is_sound()
                    };
                    assert!(
                        !is_proved(&today()) || is_proved(&texts),
                        "{version}: {gate} is not proved before {name} {state}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_state_that_a_person_changed_is_todays() {
    let mine = library_edited(
        &[("builder", "  PAY: tools\n  CHECK: report", "  EMIT: \"mine\"\n  PAY: tools\n  CHECK: report")],
        &[],
    );
    let (_, texts) = versions().pop().unwrap();
    let earlier = load(&texts);
    let code = &earlier.program("builder").unwrap().state("VERIFY").unwrap().code;
    let found = mine.program_of("builder", "VERIFY", code).unwrap();
    assert_ne!(found.state("VERIFY").unwrap().code, *code);
    let code = &earlier.program("builder").unwrap().state("RETRY").unwrap().code;
    let found = mine.program_of("builder", "RETRY", code).unwrap();
    assert_eq!(found.state("RETRY").unwrap().code, *code);
}

/// What a builder hears on its way through every state that works, with a repairable failure.
const HEARS: [(&str, &str); 11] = [
    ("workspace.parse", r#"{"verify": "t"}"#),
    ("workspace.validate", "{}"),
    ("Task(builder)", r#"{"approach": "a"}"#),
    ("Task(builder)", r#"{"summary": "s", "utilized": []}"#),
    ("preflight.check", "{}"),
    ("verify.run", r#"{"passed": false, "failed": true, "summary": "boom"}"#),
    ("lesson.match", r#"{"found": true, "name": "n", "fix": "f", "flaky": false}"#),
    ("Task(builder)", "{}"),
    ("verify.run", "{}"),
    ("quality.check", "{}"),
    ("work.land", r#"{"status": "landed", "summary": "s", "commit": "c", "target": "main"}"#),
];

#[test]
fn a_builder_of_an_earlier_version_goes_on_from_every_state() {
    let inputs = r#"{"workspace": "w.xml", "mode": "full", "budget": 9}"#;
    for (version, texts) in versions() {
        let earlier = Arc::new(load(&texts));
        for rests in 0..HEARS.len() {
            let mut before = Stage::open_with(earlier.clone(), "builder", inputs, Terms::default());
            before.careful = false;
            for (whom, answer) in &HEARS[..rests] {
                before.done(whom, answer);
            }
            let mut after = Stage::new(library());
            after.careful = false;
            after.run = Run::replay(library(), &before.journal);
            after.journal = before.journal;
            after.clock = before.clock;
            after.send(Event::Recover);
            assert_eq!(after.asks(), [HEARS[rests].0], "{version}: {}", after.describe());
            for (whom, answer) in &HEARS[rests..] {
                after.done(whom, answer);
            }
            after.done("workspace.complete", "{}");
            assert_eq!(
                after.run.end(),
                Some(ftl_core::run::End::Complete),
                "{version}: {}",
                after.describe()
            );
            let tools = &after.run.instances()[0].meters["tools"];
            assert_eq!(
                tools.highest_use(),
                3,
                "{version}, rested at {}: every payment is made once",
                HEARS[rests].0
            );
            let held = after.journal.iter().any(|entry| matches!(entry.fact, Fact::Held { .. }));
            assert!(!held, "{version}");
        }
    }
}
