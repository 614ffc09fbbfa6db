//! A lifecycle of one's own: phases renamed and added, an edge added, a word that nobody hears. No line of Rust knows
//! of any of them.

use super::{ALL, Json, PLAN, get, guard, json, next, phase, phases, put, repository, say, task};
use crate::support::{Dir, built_in};

/// The program of the built-in document, without its name.
fn program() -> String {
    let text = built_in("lifecycle");
    let mut program = String::new();
    for block in text.split("```protocol\n").skip(1) {
        program.push_str(block.split("```").next().unwrap());
    }
    program.replacen("PROTOCOL: lifecycle\n", "", 1)
}

/// A text in which every change is found.
#[track_caller]
fn changed(mut text: String, changes: &[(&str, &str)]) -> String {
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    text
}

/// `planning` is called `design` here, and an `audit` stands between review and test.
fn own() -> String {
    let audit = "STATE: audit with feedback\n  WAIT: said = review_code | next\n  \
        IF: said.review_code → DO: Task(reviewers) of=code feedback={feedback} write=review, STAY\n  \
        CHECK: review = artifact.code_review\n  \
        IF: review.blocked OR review.needs_changes → PAY: rounds, GOTO codegen with feedback={review.findings}\n  \
        IF: review.passed → GOTO test\n  STAY: {review.missing}\n";
    let program = changed(
        program(),
        &[
            ("STATE: planning with", "STATE: design with"),
            ("GOTO planning", "GOTO design"),
            ("decision.route == \"planning\"", "decision.route == \"design\""),
            ("IF: review.passed → GOTO test", "IF: review.passed → GOTO audit with feedback=none"),
        ],
    );
    program.replace("STATE: test\n", &format!("{audit}STATE: test\n"))
}

#[test]
fn phases_are_renamed_and_added_from_new_to_done() {
    let dir = phases::project(&phases::good());
    dir.protocol("lifecycle", &own());
    dir.ftl(&["check"]).code(0);
    let made = dir.ftl(&["new", "Add a note", "--task", "n", "--json"]).code(0).json();
    assert_eq!((&made["phase"], phase(&dir, "n").as_str()), (&json!("design"), "design"));
    let state: Json = serde_json::from_str(&get(&dir, "n", "state.json")).unwrap();
    assert_eq!(state["actors"]["audit"], json!({ "round": 0, "status": null }), "{state:#}");
    assert_eq!(state["actors"]["planning"], Json::Null);
    // The document's own names, and no others.
    next(&dir, "n", &["--to", "plan_review"], 4, None);
    say(&dir, "n", &["next", "--to", "planning"]).code(2);
    next(&dir, "n", &["--to", "audit"], 5, None);
    say(&dir, "n", &["redo", "planning", "--reason", "x"]).code(2);
    say(&dir, "n", &["review", "code"]).code(5).says(&["review and audit"]);
    say(&dir, "n", &["plan"]).code(0);
    let shown = say(&dir, "n", &["show"]).code(0).json();
    assert_eq!((&shown["open"], &shown["command"]), (&json!("plan_review"), &json!("ftl plan")), "{shown:#}");
    let answer = next(&dir, "n", &["--auto"], 0, Some("accept"));
    assert_eq!(answer["from"], "design", "{answer:#}");
    let state: Json = serde_json::from_str(&get(&dir, "n", "state.json")).unwrap();
    assert_eq!(state["actors"]["audit"], json!({ "round": 1, "status": "completed" }), "{state:#}");
    // Routes are the document's, too.
    say(&dir, "n", &["accept", "--verdict", "needs_work", "--route", "planning", "--reason", "x"]).code(2);
    say(&dir, "n", &["accept", "--verdict", "needs_work", "--route", "design", "--reason", "again"]).code(0);
    next(&dir, "n", &[], 0, Some("design"));
    let state: Json = serde_json::from_str(&get(&dir, "n", "state.json")).unwrap();
    assert_eq!(state["actors"]["accept"]["status"], "redo", "{state:#}");
    for to in ["plan_review", "codegen", "review", "audit", "test", "accept"] {
        next(&dir, "n", &[], 0, Some(to));
    }
    // A redo of the phase that was added voids what comes after it, and nothing before.
    say(&dir, "n", &["redo", "audit", "--reason", "look again"]).code(0);
    assert_eq!(phase(&dir, "n"), "audit");
    assert!(super::has(&dir, "n", "code/diff.patch") && !super::has(&dir, "n", "eval/eval-report.json"));
    next(&dir, "n", &["--auto"], 0, Some("accept"));
    say(&dir, "n", &["accept", "--reason", "good"]).code(0);
    next(&dir, "n", &[], 0, Some("done"));
    assert_eq!(dir.read("note.txt"), "a good note\n");
    let run = say(&dir, "n", &["show"]).json()["run"].as_str().unwrap().to_owned();
    assert_eq!(dir.status(&run)["standing"], "complete");
}

#[test]
fn an_edge_that_is_added_to_the_document_is_taken() {
    let dir = repository();
    let edge = "  IF: plan.passed AND len(plan.files) == 1 → GOTO codegen with feedback=none\n";
    let before = "  IF: plan.passed → GOTO plan_review with feedback=none\n";
    dir.protocol("lifecycle", &changed(program(), &[(before, &format!("{edge}{before}"))]));
    task(&dir, "one", "planning", ALL);
    let answer = say(&dir, "one", &["next", "--eval"]).code(0).json();
    assert_eq!(answer["to"], "codegen", "{answer:#}");
    assert_eq!(guard(&answer, "planning codegen")["holds"], true);
    let other = guard(&answer, "planning plan_review");
    assert_eq!(other["missing"], json!(["the way to codegen comes first"]), "{answer:#}");
    next(&dir, "one", &[], 0, Some("codegen"));
    let files = r#"{"files":["note.txt","other.txt"]}"#;
    task(
        &dir,
        "two",
        "planning",
        &[("planning/planning.ai.json", PLAN), ("planning/plan.files.json", files)],
    );
    let answer = next(&dir, "two", &["--to", "codegen"], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("len(plan.files) == 1"), "{answer:#}");
    next(&dir, "two", &["--to", "codegen", "--override", "small enough"], 0, Some("codegen"));
}

#[test]
fn a_word_that_no_phase_hears_is_not_taken() {
    let dir = repository();
    let (wait, work) = (
        "WAIT: said = test | next\n  IF: said.test → DO: eval.run write=eval, STAY\n",
        "WAIT: said = next\n",
    );
    dir.protocol("lifecycle", &changed(program(), &[(wait, work)]));
    task(&dir, "t", "test", ALL);
    let answer = say(&dir, "t", &["test"]).code(5).json();
    assert!(
        answer["reason"].as_str().unwrap().contains("no phase of the document takes `test`"),
        "{answer:#}"
    );
    next(&dir, "t", &[], 0, Some("accept"));
}

#[test]
fn a_document_that_is_not_sound_moves_no_task() {
    let dir = repository();
    task(&dir, "t", "planning", ALL);
    dir.protocol("lifecycle", "STATE: planning\n  GOTO: nowhere\n");
    for words in [&["next"][..], &["show"], &["next", "--eval"], &["plan"]] {
        say(&dir, "t", words).code(1).says(&["`lifecycle` is not sound", "ftl check lifecycle"]);
    }
    assert_eq!(phase(&dir, "t"), "planning");
}

/// How often a file is opened while a command runs.
fn opened(dir: &Dir, name: &str, run: impl FnOnce()) -> usize {
    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    // Equal events in a row are told as one; with the closing between them no two openings are.
    let flags = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&watch, dir.path(name), flags).unwrap();
    run();
    let mut space = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(&watch, &mut space);
    let mut count = 0;
    while let Ok(event) = events.next() {
        count += usize::from(event.events().contains(inotify::ReadFlags::OPEN));
    }
    count
}

#[test]
fn each_gate_is_looked_through_once() {
    let dir = repository();
    let plan = ".ftl/tasks/t/planning/planning.ai.json";
    task(&dir, "t", "planning", &[("planning/planning.ai.json", PLAN)]);
    say(&dir, "t", &["adopt"]).code(0);
    let looked = opened(&dir, plan, || drop(next(&dir, "t", &["--eval"], 0, None)));
    assert!(looked > 0);
    let moved = opened(&dir, plan, || drop(next(&dir, "t", &[], 0, Some("plan_review"))));
    assert_eq!(moved, looked, "what was looked at is what moved it");
}

#[test]
fn next_needs_nothing_of_what_agents_need() {
    let dir = repository();
    dir.write(
        "ftl.toml",
        "[agents.gone]\nkind = \"scripted\"\nscript = \"nowhere.toml\"\n[roles]\nplanner = \"gone\"\n",
    );
    dir.write(".ftl/prompts/planner.md", "{{ nothing closes this");
    task(&dir, "t", "planning", ALL);
    let mut command = dir.command(&["next", "--task", "t", "--json"]);
    command.env("TMPDIR", dir.path("no-such-folder"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(phase(&dir, "t"), "plan_review");
    // Who is asked for work needs them, and says so.
    put(&dir, "u", "state.json", "{\"phase\":\"planning\"}");
    say(&dir, "u", &["plan"]).code(4);
}
