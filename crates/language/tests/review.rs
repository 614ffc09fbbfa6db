//! What a hostile review found once: each test pins a sentence of the language page.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::run::{
    Action, Adoption, BudgetMeter, Decision, End, Event, Fact, Failure, FailureKind, Input, Outcome, Payment,
    Policy, ROOT, Run, Standing, Terms, Usage,
};
use ftl_core::value::{Fields, Name, Value};
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};
use support::{Stage, fields, library, library_with, plain, value};

/// One agent, and nothing else.
const ONE: &str = r#"PROTOCOL: x
STATE: A
  DO: Task(observer)
  RETURN: complete
"#;

/// An agent in each of two states.
const TWO: &str = r#"PROTOCOL: x
STATE: A
  DO: Task(observer)
  GOTO: B
STATE: B
  DO: Task(observer)
  RETURN: complete
"#;

/// An agent, and then a command.
const AGENT_THEN_SHELL: &str = r#"PROTOCOL: x
STATE: A
  DO: Task(observer)
  GOTO: B
STATE: B
  DO: sh "go"
  RETURN: complete
"#;

/// A child that runs one command.
const CHILD: &str = r#"PROTOCOL: y
STATE: A
  DO: sh "go"
  RETURN: complete
"#;

/// A child first, and a command after it.
const PARENT: &str = r#"PROTOCOL: x
STATE: A
  EMIT: "first"
  DO: child = Run(y)
  DO: sh "one"
  RETURN: complete
"#;

/// An edge to C whose clause needs a tree that only a look can tell.
const NEEDS_A_TREE: &str = r#"PROTOCOL: x
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command="t"
  IF: v.failed → DO: l = work.merge tree={v.tree}, GOTO C
  IF: v.passed → GOTO B
  STAY: {v.summary}
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
"#;

/// Opens a protocol that is called `x`.
fn open(program: &str, inputs: &str) -> Stage {
    open_on(program, inputs, Terms::default())
}

/// Opens a protocol that is called `x`, on terms.
fn open_on(program: &str, inputs: &str, terms: Terms) -> Stage {
    Stage::open_with(library_with(&[("x", program)]), "x", inputs, terms)
}

/// Opens a parent `x` that has a child `y`.
fn family(parent: &str, child: &str) -> Stage {
    Stage::open_with(library_with(&[("x", parent), ("y", child)]), "x", "{}", Terms::default())
}

/// The same run under other documents, after a restart.
fn restarted(stage: &Stage, library: Arc<Library>) -> Stage {
    let mut later = Stage::new(library);
    later.journal.clone_from(&stage.journal);
    later.run = Run::replay(later.run.programs().clone(), &later.journal);
    later.send(Event::Recover);
    later
}

fn usage(amounts: &[(&str, u64)]) -> Usage {
    amounts.iter().map(|(name, amount)| (Name::from(*name), *amount)).collect()
}

fn terms(limits: &[(&str, u64)], reserve: &[(&str, u64)]) -> Terms {
    Terms { limits: usage(limits), reserve: usage(reserve), ..Terms::default() }
}

/// One policy for everything that a person would be asked.
fn policy(policy: Policy) -> Terms {
    Terms { policies: [("*".to_owned(), policy)].into(), ..Terms::default() }
}

fn purse(stage: &Stage, name: &str) -> BudgetMeter {
    stage.run.purses(ROOT).unwrap()[name].clone()
}

/// How much of a meter of the root is used.
fn used(stage: &Stage, meter: &str) -> u64 {
    stage.run.instance(ROOT).unwrap().meters[meter].highest_use()
}

/// An agent reports what it used while it works.
fn spends(stage: &mut Stage, action: &Action, tokens: u64) -> Decision {
    let usage = usage(&[("tokens", tokens)]);
    stage.send(Event::Spent { instance: action.instance, action: action.id, usage })
}

/// The last that is heard of an action.
fn ends(stage: &mut Stage, action: &Action, outcome: Outcome, usage: Option<Usage>) -> Decision {
    stage.send(Event::Outcome { instance: action.instance, action: action.id, outcome, usage })
}

/// Whether deciding again gives the same facts.
fn confirmed(stage: &Stage) {
    Run::verify(stage.run.programs().clone(), &stage.journal).unwrap();
}

// Answers

#[test]
fn nothing_is_no_answer_of_a_gate() {
    let mut stage = Stage::open("coder", r#"{"story":"s"}"#);
    stage.done("story.assigned", "{}");
    stage.done("worktree.open", "{}");
    stage.done("Task(coder)", r#"{"digest":"d"}"#);
    stage.done("Task(architect)", r#"{"verdict":"APPROVE"}"#);
    stage.done("Task(coder)", "{}");
    let gate = stage.find("tests.run");
    stage.outcome(&gate, Outcome::Done(Value::None));
    assert_eq!(stage.standing(), Standing::Held, "{}", stage.describe());
}

#[test]
fn nothing_is_no_answer_of_an_agent() {
    let mut stage = Stage::open("coder", r#"{"story":"s"}"#);
    stage.done("story.assigned", "{}");
    stage.done("worktree.open", "{}");
    stage.done("Task(coder)", r#"{"digest":"d"}"#);
    let agent = stage.find("Task(architect)");
    stage.outcome(&agent, Outcome::Done(Value::None));
    assert!(stage.describe().contains("does not fit"), "{}", stage.describe());
}

#[test]
fn an_answer_of_a_person_is_text_or_one_of_the_choices() {
    let free = r#"PROTOCOL: x
STATE: A
  ASK: r = "why?"
  RETURN: complete r={r}
"#;
    let closed = r#"PROTOCOL: x
STATE: A
  ASK: r = "ok?" choices=yes
  IF: r == "yes" → RETURN complete
"#;
    for (program, wrong) in [(free, "7"), (free, "null"), (closed, r#"{"a":1}"#), (closed, r#""no""#)] {
        let mut stage = open(program, "{}");
        assert!(stage.reply(wrong).refusal.is_some(), "{wrong}: {}", stage.describe());
        assert_eq!(stage.asks(), ["question"]);
        stage.reply(r#""yes""#);
        assert_eq!(stage.end(), Some(End::Complete));
    }
}

#[test]
fn an_answer_tells_who_gave_it() {
    let program = r#"PROTOCOL: x
STATE: A
  ASK: r = "ok?"
  RETURN: complete r={r}
"#;
    let mut stage = open(program, "{}");
    stage.reply(r#""yes""#);
    let by_ann = |fact: &Fact| matches!(fact, Fact::Heard { by: Some(by), .. } if by == "ann");
    assert!(stage.journal.iter().any(|entry| by_ann(&entry.fact)));
}

#[test]
fn every_number_survives_json() {
    let nanoseconds = value("1753700000000000000");
    let text = serde_json::to_string(&nanoseconds).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), nanoseconds);
    assert_eq!(text, "9000000000000000", "it stops at the largest number");
}

#[test]
fn an_input_has_the_type_of_its_default() {
    let mut stage = Stage::new(library());
    let decision = stage.send(Event::Open {
        protocol: Name::from("builder"),
        inputs: fields(r#"{"workspace":"w","budget":"7"}"#),
        terms: Terms::default(),
        adopt: None,
    });
    assert!(decision.refusal.is_some(), "a text for a number");
}

#[test]
fn a_name_may_be_bound_again_inside_for_each() {
    let program = r#"PROTOCOL: x
INPUT: list
INPUT: one
STATE: A
  CHECK: a = file.read path={one}
  DO: b = FOR EACH t IN list
    CHECK: a = file.read path={t}
  RETURN: complete
"#;
    let library = library_with(&[("x", program)]);
    assert_eq!(library.get("x").unwrap().findings.problems, []);
}

// `next --to`

#[test]
fn a_chosen_way_is_paid() {
    let program = r#"PROTOCOL: x
LIMIT: m = 1 ELSE HOLD
STATE: A
  WAIT: said = next
  IF: said.next → PAY: m ELSE RETURN blocked
  GOTO: A
"#;
    let mut stage = open(program, "{}");
    for _ in 0..5 {
        stage.say("next", r#"{"to":"A"}"#);
    }
    assert!(stage.path(ROOT).len() <= 2, "{:?} with a limit of 1", stage.path(ROOT));
}

#[test]
fn a_chosen_way_that_is_not_open_leads_nowhere_else() {
    let program = r#"PROTOCOL: x
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command="t"
  IF: v.passed → GOTO B
  GOTO: C
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
"#;
    let mut stage = open(program, "{}");
    stage.say("next", r#"{"to":"B"}"#);
    stage.done("verify.run", r#"{"passed":false}"#);
    assert_eq!((&*stage.state(), stage.asks()), ("A", vec!["word".to_owned()]));
}

#[test]
fn a_chosen_way_is_not_forgotten_after_a_failure() {
    let program = r#"PROTOCOL: x
TRACK: t
STATE: A
  WAIT: said = next
  CHECK: f = file.read path={t} ELSE PROCEED
  CHECK: v = verify.run command="t"
  IF: NOT v.failed → GOTO B
  GOTO: C
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
"#;
    let mut stage = open(program, "{}");
    stage.say("next", r#"{"to":"C"}"#);
    stage.done("verify.run", "{}");
    assert_eq!(&*stage.state(), "C");
}

#[test]
fn a_word_that_takes_no_way_does_its_own_work() {
    let mut stage = Stage::open("lifecycle", r#"{"brief":"b"}"#);
    let decision = stage.say("plan", r#"{"to":"plan_review"}"#);
    assert!(decision.refusal.is_some() || stage.asks() == ["Task(planner)"], "{:?}", stage.asks());
}

// Waivers

#[test]
fn what_a_waiver_finds_paid_is_not_paid_again() {
    let program = r#"PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  CHECK: v = verify.run command="t"
  IF: v.passed →
    PAY: m
    DO: sh "go"
    IF: v.summary == "ok" → RETURN complete
    GOTO: B
  RETURN: blocked
STATE: B
  RETURN: complete
"#;
    let mut stage = open(program, "{}");
    stage.done("verify.run", "{}");
    stage.fail("sh", FailureKind::Failed);
    stage.waive("B");
    assert_eq!(used(&stage, "m"), 1);
}

/// Also when a statement with an ELSE of its own stands before the step that needs the value.
#[test]
fn a_waiver_is_checked_past_a_step_with_an_else() {
    let program = r#"PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command="t"
  IF: v.passed →
    PAY: m
    DO: sh "notify" ELSE PROCEED
    DO: l = work.merge tree={v.tree}
    GOTO: B
  STAY: {v.summary}
STATE: B
  RETURN: complete
"#;
    let mut stage = open(program, "{}");
    stage.waive("B");
    stage.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!((&*stage.state(), used(&stage, "m")), ("A", 0));
    assert_eq!(stage.asks(), ["word"]);
}

#[test]
fn a_waiver_that_is_refused_has_paid_nothing() {
    let program = r#"PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command="t"
  IF: v.passed → PAY: m, DO: l = work.merge tree={v.tree}, GOTO B
  STAY: {v.summary}
STATE: B
  RETURN: complete
"#;
    let mut stage = open(program, "{}");
    stage.waive("B");
    stage.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!((&*stage.state(), used(&stage, "m")), ("A", 0));
}

#[test]
fn a_step_of_a_waiver_whose_else_proceeds_may_fail() {
    let program = r#"PROTOCOL: x
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command="t"
  IF: v.passed →
    DO: sh "notify" ELSE PROCEED
    GOTO: B
  STAY: {v.summary}
STATE: B
  RETURN: complete
"#;
    let mut stage = open(program, "{}");
    stage.waive("B");
    stage.done("verify.run", r#"{"passed":false}"#);
    stage.fail("sh", FailureKind::Failed);
    assert_eq!(stage.end(), Some(End::Complete), "{}", stage.describe());
}

#[test]
fn a_waiver_in_a_waiver_is_refused_and_the_wait_stays() {
    let mut stage = open(NEEDS_A_TREE, "{}");
    assert!(stage.waive("C").refusal.is_none());
    assert!(stage.waive("C").refusal.is_some());
    stage.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!((stage.standing(), stage.asks()), (Standing::Waiting, vec!["word".to_owned()]));
}

#[test]
fn a_waiver_in_a_waiver_is_refused_and_the_hold_stays() {
    let program = r#"PROTOCOL: x
TRACK: said
STATE: A
  IF: said is empty → HOLD: "never alone"
  CHECK: v = verify.run command="t"
  IF: v.failed → DO: l = work.merge tree={v.tree}, GOTO C
  GOTO: B
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
"#;
    let mut stage = open(program, "{}");
    assert_eq!(stage.standing(), Standing::Held);
    stage.waive("C");
    assert!(stage.waive("C").refusal.is_some());
    stage.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!(stage.standing(), Standing::Held, "{}", stage.describe());
}

#[test]
fn a_waiver_that_is_refused_starts_no_item_twice() {
    let program = r#"PROTOCOL: x
INPUT: list
STATE: A
  DO: b = FOR EACH t IN list
    DO: Task(coder) feedback={t} write=code
  CHECK: v = verify.run command="t"
  IF: v.failed → DO: l = work.merge tree={v.tree}, GOTO C
  RETURN: complete
STATE: C
  RETURN: blocked
"#;
    let mut stage = open(program, r#"{"list":["p","q"]}"#);
    stage.done("Task(coder)", "{}");
    stage.waive("C");
    stage.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!(stage.asks(), ["Task(coder)"], "only q still runs");
}

#[test]
fn a_waiver_pays_once_over_restarts() {
    let program = r#"PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command="t"
  IF: v.passed → PAY: m, DO: sh "go", GOTO B
  STAY: {v.summary}
STATE: B
  RETURN: complete
"#;
    let mut stage = open(program, "{}");
    stage.waive("B");
    stage.send(Event::Recover);
    stage.done("verify.run", r#"{"passed":false}"#);
    stage.send(Event::Recover);
    stage.done("sh", "{}");
    assert_eq!((used(&stage, "m"), stage.end()), (1, Some(End::Complete)));
    confirmed(&stage);
}

#[test]
fn a_waiver_past_an_agent_is_confirmed() {
    let mut stage = open_on(AGENT_THEN_SHELL, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    stage.waive("B");
    confirmed(&stage);
}

#[test]
fn a_waiver_out_of_a_revert_accepts_nothing() {
    let mut stage = Stage::open("lifecycle", r#"{"brief":"b"}"#);
    for whom in
        ["artifact.plan", "artifact.plan_review", "artifact.code", "artifact.code_review", "artifact.report"]
    {
        stage.say("next", "{}");
        stage.done(whom, "{}");
    }
    stage.say("revert", "{}");
    assert_eq!(&*stage.state(), "revert");
    stage.waive("done");
    assert_eq!(stage.find("decision.record").params["choice"], Value::text("rejected"));
}

// Policies

#[test]
fn after_a_refusal_no_policy_speaks() {
    let words = policy(Policy::Answer(value(r#"["plan","next"]"#)));
    let mut stage = Stage::open_with(library(), "lifecycle", r#"{"brief":"b"}"#, words);
    stage.fail("Task(planner)", FailureKind::Failed);
    assert_eq!(stage.asks(), ["word"]);
}

#[test]
fn a_wait_that_a_policy_denies_goes_by_its_else() {
    let program = r#"PROTOCOL: x
STATE: A
  WAIT: said = next ELSE RETURN blocked reason={failure.kind}
  RETURN: complete
"#;
    let stage = open_on(program, "{}", policy(Policy::Deny));
    assert_eq!(stage.end(), Some(End::Blocked));
}

// FOR EACH and PARALLEL

#[test]
fn an_item_does_not_go_on_in_another_state() {
    let program = r#"PROTOCOL: x
INPUT: list
STATE: A
  DO: b = FOR EACH t IN list UNTIL ANY
    IF: t == "q" →
      ASK: r1 = "one"
      ASK: r2 = "two"
      ASK: r3 = "three"
  GOTO: B
STATE: B
  DO: sh "b0"
  DO: sh "b1"
  DO: sh "b2"
  DO: sh "b3"
  DO: sh "b4"
  RETURN: complete
"#;
    let stage = open_on(program, r#"{"list":["p","q"]}"#, policy(Policy::Answer(Value::text("y"))));
    assert_eq!((&*stage.state(), stage.asks()), ("B", vec!["sh".to_owned()]));
}

#[test]
fn an_item_that_fails_leaves_its_siblings_alone() {
    let mut stage = Stage::open("campaign", r#"{"objective":"o"}"#);
    stage.done("exploration.clear", "{}");
    for _ in 0..4 {
        stage.done("Task(explorer)", "{}");
    }
    for whom in ["exploration.aggregate", "exploration.write", "Task(planner)"] {
        stage.done(whom, "{}");
    }
    stage.done("decision.parse", r#"{"kind":"PROCEED","plan":{"objective":"o","tasks":[]}}"#);
    stage.done("campaign.create", "{}");
    stage.done("campaign.add_tasks", "{}");
    let ready = ["1", "2"].map(|seq| {
        format!(r#"{{"seq":"{seq}","worker":"builder","slug":"s{seq}","status":"pending","depends":[]}}"#)
    });
    stage.done("campaign.tasks", &format!(r#"{{"ready":[{}],"running":[]}}"#, ready.join(",")));
    stage.done("workspace.create", r#"{"mode":"direct"}"#);
    stage.fail("workspace.create", FailureKind::Failed);
    assert_eq!(&*stage.state(), "EXECUTE");
    assert!(stage.run.instances().iter().all(|one| one.end.is_none()), "a running builder was cancelled");
}

#[test]
fn a_child_that_is_not_complete_is_no_success() {
    let parent = r#"PROTOCOL: x
STATE: A
  DO: f = PARALLEL quorum=2
    - Run(y)
    - Run(y)
  RETURN: complete status={f.status}
"#;
    let child = r#"PROTOCOL: y
STATE: A
  RETURN: error reason="no"
"#;
    let stage = family(parent, child);
    assert!(stage.describe().contains("quorum_failure"), "{}", stage.describe());
}

#[test]
fn a_second_branch_of_one_name_is_numbered() {
    let program = r#"PROTOCOL: x
STATE: A
  DO: f = PARALLEL
    - Task(observer)
    - Task(observer)
  RETURN: complete status={f.status} completed={f.completed} missing={f.missing}
"#;
    let mut stage = open(program, "{}");
    stage.done("Task(observer)", "{}");
    stage.fail("Task(observer)", FailureKind::Failed);
    let values = &stage.run.instance(ROOT).unwrap().end.as_ref().unwrap().1;
    assert_eq!(values["completed"], value(r#"["observer"]"#));
    assert_eq!(values["missing"], value(r#"["observer-2"]"#));
    assert_eq!(values["status"], Value::text("quorum_failure"), "without a quorum all must succeed");
}

#[test]
fn a_branch_that_answers_after_the_time_is_late() {
    let program = r#"PROTOCOL: x
STATE: A
  DO: f = PARALLEL quorum=1 timeout=1s
    - Task(explorer) mode=structure
    - Task(observer)
  RETURN: complete status={f.status} done={f.completed}
"#;
    let mut stage = open(program, "{}");
    stage.clock += 60_000;
    stage.done("Task(observer)", "{}");
    assert!(stage.describe().contains("quorum_failure"), "{}", stage.describe());
}

// REDO, failure and changed documents

#[test]
fn a_redo_of_the_same_state_cancels_its_items() {
    let program = r#"PROTOCOL: x
INPUT: list
LIMIT: rounds = 5 ELSE HOLD
REDO: rounds
STATE: A
  DO: b = FOR EACH t IN list
    DO: Task(coder) feedback={t} write=code
  RETURN: complete
"#;
    let mut stage = open(program, r#"{"list":["p"]}"#);
    let agent = stage.find("Task(coder)");
    assert_eq!(stage.redo("A").cancel, [(ROOT, agent.id)]);
}

#[test]
fn a_redo_forgets_the_items_that_ended() {
    let program = r#"PROTOCOL: x
INPUT: list
LIMIT: rounds = 5 ELSE HOLD
REDO: rounds
STATE: A
  CHECK: v = verify.run command="t"
  DO: b = FOR EACH t IN list UNTIL ANY
    DO: Task(coder) feedback={v.summary} write=code
  IF: v.passed → PAY: rounds, GOTO A
  RETURN: complete settled={b.settled}
"#;
    let ended = |stage: &Stage| stage.run.instance(ROOT).unwrap().ended.len();
    let mut stage = open(program, r#"{"list":["p","q"]}"#);
    stage.done("verify.run", "{}");
    stage.done("Task(coder)", "{}");
    stage.done("Task(coder)", "{}");
    assert_eq!(ended(&stage), 1, "q ended while the next round looks");
    stage.redo("A");
    assert_eq!(ended(&stage), 0);
}

#[test]
fn a_failure_is_that_of_the_nearest_else_around() {
    let program = r#"PROTOCOL: x
PATTERN: CLEAN
  DO: sh "clean" ELSE PROCEED
  RETURN: error reason={failure.message}
STATE: A
  DO: sh "work" ELSE USE CLEAN
  RETURN: complete
"#;
    let mut stage = open(program, "{}");
    for message in ["outer", "inner"] {
        let command = stage.find("sh");
        stage.outcome(&command, Outcome::Failed(Failure::new(FailureKind::Failed, message)));
    }
    let values = &stage.run.instance(ROOT).unwrap().end.as_ref().unwrap().1;
    assert_eq!(values["reason"], Value::text("outer"));
}

#[test]
fn work_that_is_taken_over_has_the_defaults_of_its_state() {
    let program = r#"PROTOCOL: x
STATE: A
  GOTO: B
STATE: B with how="quick"
  EMIT: "{how}"
  RETURN: complete how={how}
"#;
    let mut stage = Stage::new(library_with(&[("x", program)]));
    let adopt = Adoption {
        state: Name::from("B"),
        visited: vec![Name::from("A")],
        params: Fields::new(),
        by: "ann".to_owned(),
    };
    let (protocol, inputs, terms) = (Name::from("x"), Fields::new(), Terms::default());
    stage.send(Event::Open { protocol, inputs, terms, adopt: Some(adopt) });
    let values = &stage.run.instance(ROOT).unwrap().end.as_ref().unwrap().1;
    assert_eq!(values["how"], Value::text("quick"));
}

#[test]
fn the_end_of_a_child_moves_no_changed_state() {
    let changed = PARENT.replace("one", "two");
    let mut stage = restarted(&family(PARENT, CHILD), library_with(&[("x", &changed), ("y", CHILD)]));
    stage.done("sh", "{}");
    assert_eq!(stage.asks(), [""; 0], "held, and yet it asks");
}

#[test]
fn the_end_of_a_child_is_kept_until_the_text_is_back() {
    let changed = r#"PROTOCOL: x
STATE: A
  DO: sh "two"
  RETURN: complete
"#;
    let mut stage = restarted(&family(PARENT, CHILD), library_with(&[("x", changed), ("y", CHILD)]));
    stage.done("sh", "{}");
    let stage = restarted(&stage, library_with(&[("x", PARENT), ("y", CHILD)]));
    assert_eq!(stage.asks(), ["sh"], "{}", stage.describe());
}

#[test]
fn an_outcome_for_a_protocol_that_is_gone_is_not_lost() {
    let stage = open(ONE, "{}");
    let agent = stage.find("Task(observer)");
    let outcome = Outcome::Done(plain(&stage.answer_type(&agent)));
    let event = Event::Outcome { instance: ROOT, action: agent.id, outcome, usage: None };
    let decision = Run::replay(library(), &stage.journal).decide(&Input { at: 5000, event });
    assert!(!decision.entries.is_empty() || decision.refusal.is_some(), "{decision:?}");
}

#[test]
fn other_prose_decides_the_same() {
    let stage = open(ONE, "{}");
    let text = format!("# x\n\nOne more word.\n\n```protocol\n{ONE}\n```\n");
    let mut sources = built_in_sources();
    sources.push(SourceDocument::new(".ftl/protocols/x.md", DocumentOrigin::User, text));
    Run::verify(Arc::new(Library::load(sources, Catalogue::standard())), &stage.journal).unwrap();
}

// Built-in meters

#[test]
fn what_is_set_aside_for_a_cancelled_agent_stays_until_its_last_report() {
    let mut stage = open_on(TWO, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    let agent = stage.find("Task(observer)");
    stage.waive("B");
    assert_eq!((purse(&stage, "tokens").reserved, stage.standing()), (100, Standing::Held));
    ends(&mut stage, &agent, Outcome::Interrupted, None);
    let purse = purse(&stage, "tokens");
    assert_eq!((purse.used, purse.guessed, purse.reserved), (100, 1, 0), "unknown use is the worst case");
    assert_eq!(stage.standing(), Standing::Held);
}

#[test]
fn a_restart_asks_for_the_last_report_of_a_cancelled_agent() {
    let mut stage = open_on(TWO, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    let agent = stage.find("Task(observer)");
    stage.waive("B");
    assert_eq!(stage.send(Event::Recover).cancel, [(ROOT, agent.id)], "{}", stage.describe());
}

#[test]
fn every_report_of_a_cancelled_agent_is_charged() {
    let mut stage = open_on(AGENT_THEN_SHELL, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let agent = stage.find("Task(observer)");
    stage.waive("B");
    spends(&mut stage, &agent, 90);
    ends(&mut stage, &agent, Outcome::Interrupted, Some(usage(&[("tokens", 5)])));
    assert_eq!(purse(&stage, "tokens").used, 95);
}

#[test]
fn an_agent_that_may_call_no_more_tools_is_charged_once() {
    let program = r#"PROTOCOL: x
LIMIT: tools = 0 ELSE HOLD
STATE: A
  DO: Task(observer) PAYING tools
  RETURN: complete
"#;
    let mut stage = open_on(program, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let agent = stage.find("Task(observer)");
    stage.send(Event::Tool { instance: ROOT, action: agent.id, tool: Name::from("read"), file: None });
    ends(&mut stage, &agent, Outcome::Interrupted, Some(usage(&[("tokens", 60)])));
    assert_eq!((purse(&stage, "tokens").used, purse(&stage, "tokens").reserved), (60, 0));
}

#[test]
fn an_interrupted_agent_is_not_free() {
    let mut stage = open_on(ONE, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let agent = stage.find("Task(observer)");
    let answer = plain(&stage.answer_type(&agent));
    ends(&mut stage, &agent, Outcome::Interrupted, None);
    stage.send(Event::Recover);
    ends(&mut stage, &agent, Outcome::Done(answer), Some(usage(&[("tokens", 5)])));
    assert_eq!((purse(&stage, "tokens").used, purse(&stage, "tokens").guessed), (105, 1));
}

#[test]
fn nothing_stays_aside_for_an_agent_that_died_and_cannot_be_asked_again() {
    let terms = terms(&[("tokens", 100), ("money", 100)], &[("tokens", 100), ("money", 10)]);
    let mut stage = open_on(ONE, "{}", terms);
    let agent = stage.find("Task(observer)");
    let report = Some(usage(&[("tokens", 100), ("money", 1)]));
    ends(&mut stage, &agent, Outcome::Died("gone".to_owned()), report);
    assert_eq!((purse(&stage, "money").used, purse(&stage, "money").reserved), (1, 0));
}

#[test]
fn the_last_death_is_an_attempt_as_well() {
    let mut stage = open(ONE, "{}");
    let agent = stage.find("Task(observer)");
    for _ in 0..3 {
        ends(&mut stage, &agent, Outcome::Died("gone".to_owned()), Some(Usage::new()));
    }
    let attempt = |fact: &Fact| matches!(fact, Fact::Paid(Payment::Attempts { .. }));
    let attempts = stage.journal.iter().filter(|entry| attempt(&entry.fact)).count();
    assert_eq!((attempts, stage.standing()), (3, Standing::Held));
}
