//! Every protocol over all outcomes: each reached run and each transition keeps what is promised.
//!
//! Where a limit is lowered to keep the space small the edges stay the same, and the line that is
//! printed says so: the builder's preflight attempts (3 to 1, with its own 3 for the small budget),
//! the lifecycle's rounds under redo and waivers, the coder's iterations where agents die, and the
//! campaign's rounds, replans and clarifications. Workers of task and campaign are stubs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "support/search.rs"]
mod search;
mod support;

use std::collections::BTreeSet;

use ftl_core::run::{Cause, End, Fact, Payment, Policy, ROOT, Terms, ThreadId};
use ftl_core::value::Name;
use search::{Found, Notes, Search, Seen};
use support::{STUB_BUILDER, STUB_CODER, library, library_edited};

const BUILDER: &str = "READ PLAN, READ BLOCK, PLAN READ_TESTS, PLAN IMPLEMENT, PLAN BLOCK, READ_TESTS IMPLEMENT,
    IMPLEMENT PREFLIGHT, IMPLEMENT BLOCK, PREFLIGHT PREFLIGHT, PREFLIGHT VERIFY, PREFLIGHT BLOCK, VERIFY QUALITY,
    VERIFY RETRY, VERIFY BLOCK, RETRY VERIFY, RETRY BLOCK, QUALITY COMPLETE, QUALITY BLOCK";

const CODER: &str = "WAITING SETUP, WAITING ERROR, SETUP PLANNING, SETUP ERROR, PLANNING PLAN_REVIEW,
    PLAN_REVIEW CODING, PLAN_REVIEW PLANNING, PLAN_REVIEW ERROR, PLAN_REVIEW DONE, CODING TESTING,
    CODING BUDGET_REVIEW, CODING ERROR, TESTING CODE_REVIEW, TESTING CODING, BUDGET_REVIEW CODING,
    BUDGET_REVIEW PLANNING, BUDGET_REVIEW ERROR, CODE_REVIEW AWAIT_MERGE, CODE_REVIEW CODING, CODE_REVIEW ERROR,
    AWAIT_MERGE DONE, AWAIT_MERGE CODING, AWAIT_MERGE ERROR";

const LIFECYCLE: &str = "planning planning, planning plan_review, plan_review planning, plan_review codegen,
    codegen codegen, codegen planning, codegen plan_review, codegen review, review planning, review codegen,
    review test, test accept, test codegen, accept revert, accept planning, accept codegen, accept review,
    accept done, revert done";

const TASK: &str = "INIT EXPLORE, EXPLORE PLAN, EXPLORE ERROR, PLAN PLAN, PLAN BUILD, BUILD OBSERVE,
    OBSERVE COMPLETE, ERROR PLAN";

const CAMPAIGN: &str =
    "INIT EXPLORE, EXPLORE PLAN, EXPLORE ERROR, PLAN PLAN, PLAN REGISTER, REGISTER EXECUTE,
    EXECUTE EXECUTE, EXECUTE CASCADE, CASCADE EXECUTE, CASCADE OBSERVE, OBSERVE COMPLETE, ERROR PLAN";

#[test]
fn builder() {
    let mut all = Found::default();
    let fewer = ("builder", "LIMIT: preflight_attempts = 3 ", "LIMIT: preflight_attempts = 1 ");
    let reduced = library_edited(&[fewer], &[]);
    let full = |budget: u64| ("full", budget, reduced.clone(), ", 1 preflight attempt");
    let own = |mode: &'static str, budget: u64| (mode, budget, library(), "");
    let searches = [full(5), full(4), full(3), full(2), own("full", 2), full(1), full(0), own("direct", 5)];
    for (mode, budget, library, note) in searches {
        let inputs = format!(r#"{{"workspace":"w.xml","mode":"{mode}","budget":{budget}}}"#);
        let found = Search::new(library, "builder", &inputs, builder_keeps).go();
        print(&format!("builder {mode} {budget}{note}"), &found);
        all.taken.extend(found.taken);
        all.refused.extend(found.refused);
    }
    edges("builder", BUILDER, 10, 18, &all);
}

/// COMPLETE comes from QUALITY, after a verify that passed with nobody writing in between; what
/// agents pay for stays in the budget; a second retry is for a flaky lesson only.
fn builder_keeps(notes: &mut Notes, seen: &Seen<'_>) {
    let [verified, tools, retries, flaky] = notes;
    for answer in seen.list_answers("verify.run") {
        *verified = u8::from(answer.field("passed").holds());
    }
    for answer in seen.list_answers("lesson.match") {
        *flaky = u8::from(answer.field("flaky").holds());
    }
    for entry in &seen.decision.entries {
        if let Fact::Paid(Payment::Back { meter, count, .. }) = &entry.fact
            && &**meter == "tools"
        {
            *tools -= u8::try_from(*count).unwrap();
        }
        let Fact::Paid(Payment::Meter { meter, .. }) = &entry.fact else { continue };
        *tools += u8::from(&**meter == "tools");
        if &**meter == "retries" {
            *retries += 1;
            assert!(*retries <= 1 || *flaky == 1, "a second retry without a flaky lesson");
        }
    }
    let root = seen.after.instance(ROOT).unwrap();
    let budget = root.meters["tools"].limit;
    assert!(
        u64::from(*tools) <= budget && u64::from(*retries) <= 2,
        "{tools} of {budget} tools, {retries} retries"
    );
    if seen.moves().any(|(_, to, ..)| &**to == "VERIFY") {
        *flaky = 0;
    }
    for (from, to, params, _) in seen.moves().filter(|(_, to, ..)| &***to == "COMPLETE") {
        assert_eq!(&**from, "QUALITY", "to {to}");
        assert_eq!(*verified, 1, "COMPLETE without a verify that passed");
        assert!(!params["tree"].is_none(), "COMPLETE without the tree that was verified");
    }
    if seen.starts_writer("builder") {
        let landing = &*root.state == "COMPLETE";
        *verified &= u8::from(landing);
    }
    if seen.end() == Some(End::Complete) {
        assert_eq!((&*root.state, *verified), ("COMPLETE", 1), "complete without its gate");
    }
}

#[test]
fn coder() {
    let mut search = Search::new(library(), "coder", r#"{"story":"s"}"#, coder_keeps);
    let found = search.go();
    print("coder", &found);
    edges("coder", CODER, 11, 23, &found);
    let fewer = ("coder", "LIMIT: coding_iterations = 8 ", "LIMIT: coding_iterations = 2 ");
    search.library = library_edited(&[fewer], &[]);
    search.die = true;
    print("coder, agents die, 2 coding iterations", &search.go());
}

/// AWAIT_MERGE only after tests that passed since anybody wrote; DONE without a commit only with
/// proof that the story is satisfied.
fn coder_keeps(notes: &mut Notes, seen: &Seen<'_>) {
    let [tested, proved, merged, _] = notes;
    for answer in seen.list_answers("tests.run") {
        *tested = u8::from(answer.field("passed").holds());
    }
    for answer in seen.list_answers("story.satisfied") {
        *proved = u8::from(answer.field("passed").holds());
    }
    for answer in seen.list_answers("work.merge").into_iter().chain(seen.list_answers("pull.merge")) {
        *merged = u8::from(answer.field("status").as_text() == Some("landed"));
    }
    for (from, to, params, _) in seen.moves() {
        match &**to {
            "AWAIT_MERGE" => assert_eq!((&**from, *tested), ("CODE_REVIEW", 1), "merged without tests"),
            "DONE" if params["commit"].is_none() => {
                assert_eq!((&**from, *proved), ("PLAN_REVIEW", 1), "done without a commit and without proof");
            }
            "DONE" => assert_eq!((&**from, *tested, *merged), ("AWAIT_MERGE", 1, 1), "done without a merge"),
            "PLANNING" => *proved = 0,
            _ => {}
        }
    }
    if seen.starts_writer("coder") {
        (*tested, *merged) = (0, 0);
    }
    if seen.end() == Some(End::Complete) {
        assert!(*proved == 1 || (*tested == 1 && *merged == 1), "complete without its gate");
    }
}

#[test]
fn lifecycle() {
    let mut search = Search::new(library(), "lifecycle", r#"{"brief":"b"}"#, lifecycle_keeps);
    let found = search.go();
    print("lifecycle", &found);
    edges("lifecycle", LIFECYCLE, 8, 19, &found);
    search.library = library_edited(&[("lifecycle", "LIMIT: rounds = 5 ", "LIMIT: rounds = 2 ")], &[]);
    search.redo = true;
    search.sparse = true;
    print("lifecycle, redo, 2 rounds", &search.go());
}

/// A waiver is tried at every rest, also while another one is being carried out.
#[test]
fn lifecycle_with_waivers() {
    let fewer = ("lifecycle", "LIMIT: rounds = 5 ", "LIMIT: rounds = 1 ");
    let library = library_edited(&[fewer], &[]);
    let mut search = Search::new(library, "lifecycle", r#"{"brief":"b"}"#, lifecycle_keeps);
    search.waive = true;
    search.few_kinds = true;
    search.replay = 5;
    let found = search.go();
    print("lifecycle, waivers, 1 round", &found);
    let waived: BTreeSet<(Name, Name)> = found.waived;
    assert_eq!(waived, pairs(LIFECYCLE), "every edge can be waived");
}

/// `done` only with a decision or a revert that is recorded, or by a waiver.
fn lifecycle_keeps(notes: &mut Notes, seen: &Seen<'_>) {
    let [decided, reverted, done, _] = notes;
    let waiving = seen.before.instance(ROOT).and_then(|root| root.thread(&ThreadId::Main)?.waiving.as_ref());
    for answer in seen.list_answers("artifact.decision").into_iter().filter(|_| waiving.is_none()) {
        *decided = u8::from(answer.field("passed").holds());
    }
    for answer in seen.list_answers("artifact.revert") {
        *reverted = u8::from(answer.field("passed").holds());
    }
    for (from, to, _, cause) in seen.moves() {
        if &**to == "done" {
            let proved = (&**from == "accept" && *decided == 1) || (&**from == "revert" && *reverted == 1);
            let person = matches!(cause, Cause::Waiver { .. }) || (&**from == "done" && *done == 1);
            assert!(proved || person, "{from} → done without a decision, a revert or a waiver");
        }
        *done = u8::from(&**to == "done");
        (*decided, *reverted) = (0, 0);
    }
    if seen.end().is_some() {
        assert_eq!((seen.end(), *done), (Some(End::Complete), 1), "ends only in done");
    }
}

#[test]
fn task() {
    let library = library_edited(&[], &[("builder", STUB_BUILDER)]);
    let mut search = Search::new(library, "task", r#"{"objective":"o"}"#, task_keeps);
    let found = search.go();
    print("task", &found);
    edges("task", TASK, 7, 8, &found);
    search.terms = denied();
    print("task, nobody answers", &search.go());
}

/// `complete` only when the builder was, and delivered.
fn task_keeps(notes: &mut Notes, seen: &Seen<'_>) {
    let [delivered, ..] = notes;
    if !seen.list_answers("branch.deliver").is_empty() {
        *delivered = 1;
    }
    if seen.end() == Some(End::Complete) {
        let build = &seen.after.instance(ROOT).unwrap().tracked["build"];
        assert_eq!(
            (build.field("verdict").as_text(), *delivered),
            (Some("complete"), 1),
            "complete without its gate"
        );
    }
}

#[test]
fn campaign() {
    let edits = [
        ("task", "LIMIT: clarifications = 5 ", "LIMIT: clarifications = 1 "),
        ("campaign", "LIMIT: clarifications = 5 ", "LIMIT: clarifications = 1 "),
        ("campaign", "LIMIT: rounds = 20 ", "LIMIT: rounds = 2 "),
        ("campaign", "LIMIT: replans = 2 ", "LIMIT: replans = 1 "),
    ];
    let library = library_edited(&edits, &[("builder", STUB_BUILDER), ("coder", STUB_CODER)]);
    let mut search = Search::new(library, "campaign", r#"{"objective":"o"}"#, campaign_keeps);
    search.replay = 25;
    search.few_kinds = true;
    let found = search.go();
    print("campaign, 1 clarification, 2 rounds, 1 replan", &found);
    edges("campaign", CAMPAIGN, 9, 12, &found);
}

/// `complete` only when every task is.
fn campaign_keeps(notes: &mut Notes, seen: &Seen<'_>) {
    let [all, ..] = notes;
    for answer in seen.list_answers("campaign.summary") {
        let count = |name: &str| answer.field(name).as_number().unwrap();
        *all = u8::from(count("complete_count") >= count("total"));
    }
    if seen.end() == Some(End::Complete) {
        assert_eq!(*all, 1, "complete without its gate");
    }
}

fn denied() -> Terms {
    Terms { policies: [("*".to_owned(), Policy::Deny)].into(), ..Terms::default() }
}

fn pairs(text: &str) -> BTreeSet<(Name, Name)> {
    let pair = |line: &str| {
        let (from, to) = line.trim().split_once(' ').unwrap();
        (Name::from(from), Name::from(to))
    };
    text.split(',').map(pair).collect()
}

/// Every declared edge was taken, every other pair was asked for and refused, and none was taken.
fn edges(protocol: &str, declared: &str, states: usize, count: usize, found: &Found) {
    let declared = pairs(declared);
    assert_eq!(declared.len(), count);
    let library = library();
    let program = library.program(protocol).unwrap();
    assert_eq!(program.states.len(), states);
    let dead: Vec<_> = declared.difference(&found.taken).collect();
    assert!(dead.is_empty(), "{protocol}: never taken: {dead:?}");
    let mut forbidden = BTreeSet::new();
    for from in &program.states {
        forbidden.extend(program.states.iter().map(|to| (from.name.clone(), to.name.clone())));
    }
    forbidden.retain(|pair| !declared.contains(pair));
    assert_eq!(forbidden.len(), states * states - count);
    let taken: Vec<_> = forbidden.intersection(&found.taken).collect();
    assert!(taken.is_empty(), "{protocol}: forbidden and taken: {taken:?}");
    let unasked: Vec<_> = forbidden.difference(&found.refused).collect();
    assert!(unasked.is_empty(), "{protocol}: never asked for: {unasked:?}");
    println!("{protocol}: {count} edges, all taken; {} forbidden pairs, all refused", forbidden.len());
}

fn print(what: &str, found: &Found) {
    println!(
        "{what}: {} runs, {} transitions, {} settled {:?}, {} held, {} waiting, {} running, {} replayed, {:.1} s",
        found.runs,
        found.transitions,
        found.settled,
        found.ends,
        found.held,
        found.waiting,
        found.running,
        found.replayed,
        found.seconds
    );
    for hold in &found.holds {
        println!("  held {hold}");
    }
}
