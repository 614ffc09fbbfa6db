//! What a hostile review found once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::redundant_clone,
    clippy::no_effect_replace,
    unused
)]
mod support;
use ftl_core::catalogue::Catalogue;
use ftl_core::language::source::{Origin, Source};
use ftl_core::library::{Library, built_in_sources};
use ftl_core::run::*;
use ftl_core::value::*;
use std::sync::Arc;
use support::*;

fn open(p: &str, inputs: &str) -> Stage {
    open_t(p, inputs, Terms::default())
}
fn open_t(p: &str, inputs: &str, t: Terms) -> Stage {
    Stage::open_with(library_with(&[("x", p)]), "x", inputs, t)
}
fn usage(p: &[(&str, u64)]) -> Usage {
    p.iter().map(|(n, a)| (Name::from(*n), *a)).collect()
}
fn terms(limits: &[(&str, u64)], reserve: &[(&str, u64)]) -> Terms {
    Terms { limits: usage(limits), reserve: usage(reserve), policies: Default::default() }
}
fn problems(p: &str) -> Vec<String> {
    let mut sources = built_in_sources();
    sources.push(Source::new(".ftl/protocols/x.md", Origin::User, format!("# x\n\n```protocol\n{p}\n```\n")));
    let l = Library::load(sources, Catalogue::standard());
    l.get("x").unwrap().findings.problems.iter().map(|p| p.render(l.sources())).collect()
}
#[allow(non_snake_case)]
fn FIT() -> Value {
    value(
        r#"{"passed":true,"summary":"x","status":"x","code":0,"exit":0,"output":"","ok":true,"text":"x","stdout":"","stderr":""}"#,
    )
}
fn purse(s: &Stage, n: &str) -> Purse {
    s.run.purses(ROOT).unwrap()[n].clone()
}
fn out(s: &mut Stage, whom: &str, o: Outcome, u: Option<Usage>) -> Decision {
    let a = s.find(whom);
    s.send(Event::Outcome { instance: a.instance, action: a.id, outcome: o, usage: u })
}
fn policy(v: Policy) -> Terms {
    Terms { policies: [("*".to_owned(), v)].into(), ..Default::default() }
}

const ONE: &str = "PROTOCOL: x
STATE: A
  DO: Task(observer)
  RETURN: complete
";

#[test]
fn recover_hangs_when_params_changed() {
    let mut s = open(
        "PROTOCOL: x
LIMIT: tools = 5 ELSE HOLD
STATE: A
  DO: Task(planner) input={tools.left} exploration=none PAYING tools
  RETURN: complete
",
        "{}",
    );
    let a = s.find("Task(planner)");
    s.send(Event::Tool { instance: ROOT, action: a.id, tool: "read".into() });
    let d = s.send(Event::Recover);
    assert!(
        !d.start.is_empty() || s.standing() == Standing::Held,
        "neither asked again nor held: {:?}",
        s.standing()
    );
}

#[test]
fn recover_hangs_items_after_same_state() {
    let mut s = open(
        "PROTOCOL: x
INPUT: list
LIMIT: rounds = 5 ELSE HOLD
STATE: A with feedback
  PAY: rounds
  DO: b = FOR EACH t IN list UNTIL ANY
    DO: Task(coder) feedback={feedback} write=code
  IF: b.running is empty → RETURN complete
  GOTO: A with feedback={b.settled}
",
        r#"{"list":["p","q"]}"#,
    );
    s.done("Task(coder)", "{}");
    let open = s.run.instance(ROOT).unwrap().open.values().filter(|o| o.kind == OpenKind::Call).count();
    let d = s.send(Event::Recover);
    assert_eq!(d.start.len(), open, "some open actions are not asked again");
}

#[test]
fn null_answer_of_gate() {
    let mut s = Stage::open("coder", r#"{"story":"s"}"#);
    s.done("story.assigned", "{}");
    s.done("worktree.open", "{}");
    s.done("Task(coder)", r#"{"digest":"d"}"#);
    s.done("Task(architect)", r#"{"verdict":"APPROVE"}"#);
    s.done("Task(coder)", "{}");
    let a = s.find("tests.run");
    s.outcome(&a, Outcome::Done(Value::None));
    assert_eq!(s.standing(), Standing::Held, "{}", s.describe());
}

#[test]
fn null_answer_of_task() {
    let mut s = Stage::open("coder", r#"{"story":"s"}"#);
    s.done("story.assigned", "{}");
    s.done("worktree.open", "{}");
    s.done("Task(coder)", r#"{"digest":"d"}"#);
    let a = s.find("Task(architect)");
    s.outcome(&a, Outcome::Done(Value::None));
    assert!(s.describe().contains("does not fit"), "{}", s.describe());
}

#[test]
fn next_to_bypasses_pay() {
    let p = "PROTOCOL: x
LIMIT: m = 1 ELSE HOLD
STATE: A
  WAIT: said = next
  IF: said.next → PAY: m ELSE RETURN blocked
  GOTO: A
";
    let mut s = open(p, "{}");
    for _ in 0..5 {
        s.say("next", r#"{"to":"A"}"#);
    }
    assert!(s.path(ROOT).len() <= 2, "loop taken {} times with a limit of 1", s.path(ROOT).len() - 1);
}

#[test]
fn next_to_goes_elsewhere() {
    let p = "PROTOCOL: x
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command=\"t\"
  IF: v.passed → GOTO B
  GOTO: C
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
";
    let mut s = open(p, "{}");
    s.say("next", r#"{"to":"B"}"#);
    s.done("verify.run", r#"{"passed":false}"#);
    assert!(s.end().is_none(), "a person asked for B and it went to {}", s.state());
}

#[test]
fn waiver_pays_twice() {
    let p = "PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  CHECK: v = verify.run command=\"t\"
  IF: v.passed →
    PAY: m
    DO: sh \"go\"
    IF: v.summary == \"ok\" → RETURN complete
    GOTO: B
  RETURN: blocked
STATE: B
  RETURN: complete
";
    let mut s = open(p, "{}");
    s.done("verify.run", "{}");
    s.fail("sh", FailureKind::Failed);
    s.waive("B");
    let m = s.run.instance(ROOT).unwrap().meters["m"].clone();
    assert_eq!(m.used(), 1, "paid {} times", m.used());
}

#[test]
fn refused_waiver_has_paid() {
    let p = "PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command=\"t\"
  IF: v.passed → PAY: m, DO: l = work.merge tree={v.tree}, GOTO B
  STAY: {v.summary}
STATE: B
  RETURN: complete
";
    let mut s = open(p, "{}");
    s.waive("B");
    s.fail("verify.run", FailureKind::CouldNotRun);
    let m = s.run.instance(ROOT).unwrap().meters["m"].clone();
    assert_eq!(s.state().as_ref(), "A");
    assert_eq!(m.used(), 0, "a refused waiver has paid {}", m.used());
}

#[test]
fn waiver_step_else_proceed() {
    let p = "PROTOCOL: x
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command=\"t\"
  IF: v.passed →
    DO: sh \"notify\" ELSE PROCEED
    GOTO: B
  STAY: {v.summary}
STATE: B
  RETURN: complete
";
    let mut s = open(p, "{}");
    s.waive("B");
    s.done("verify.run", r#"{"passed":false}"#);
    s.fail("sh", FailureKind::Failed);
    assert_eq!(s.end(), Some(End::Complete), "{}", s.describe());
}

#[test]
fn second_waiver_loses_the_wait() {
    let p = "PROTOCOL: x
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command=\"t\"
  IF: v.failed → DO: l = work.merge tree={v.tree}, GOTO C
  IF: v.passed → GOTO B
  STAY: {v.summary}
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
";
    let mut s = open(p, "{}");
    s.waive("C");
    s.waive("C");
    s.fail("verify.run", FailureKind::CouldNotRun); // waiver 2 refused: tree is none
    assert_eq!(s.standing(), Standing::Waiting, "it waits no more for the person: {:?}", s.asks());
}

#[test]
fn second_waiver_loses_the_hold() {
    let p = "PROTOCOL: x
STATE: A
  IF: said is empty → HOLD: \"never alone\"
  CHECK: v = verify.run command=\"t\"
  IF: v.failed → DO: l = work.merge tree={v.tree}, GOTO C
  GOTO: B
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
"
    .replace("STATE: A", "TRACK: said\nSTATE: A")
    .as_str()
    .to_owned();
    let mut s = open(&p, "{}");
    assert_eq!(s.standing(), Standing::Held);
    s.waive("C");
    s.waive("C");
    s.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!(s.standing(), Standing::Held, "{}", s.describe());
}

#[test]
fn refused_waiver_starts_ended_items_again() {
    let p = "PROTOCOL: x
INPUT: list
STATE: A
  DO: b = FOR EACH t IN list
    DO: Task(coder) feedback={t} write=code
  CHECK: v = verify.run command=\"t\"
  IF: v.failed → DO: l = work.merge tree={v.tree}, GOTO C
  RETURN: complete
STATE: C
  RETURN: blocked
";
    let mut s = open(p, r#"{"list":["p","q"]}"#);
    s.done("Task(coder)", "{}"); // p has ended
    s.waive("C");
    s.fail("verify.run", FailureKind::CouldNotRun);
    assert_eq!(s.asks().iter().filter(|a| *a == "Task(coder)").count(), 1, "p is done twice");
}

#[test]
fn stop_for_in_parallel() {
    let p = "PROTOCOL: x
STATE: A
  DO: f = PARALLEL quorum=1
    - Task(explorer) mode=structure
    - Task(observer)
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 20)], &[("tokens", 10)]));
    let (a, b) = (s.find("Task(explorer)"), s.find("Task(observer)"));
    s.done("Task(explorer)", "{}");
    s.send(Event::Spent { instance: ROOT, action: b.id, usage: usage(&[("tokens", 15)]) });
    let before = s.journal.len();
    let d = s.raise("tokens", 100);
    assert!(
        s.standing() != Standing::Held && !s.asks().contains(&"Task(explorer)".to_owned()),
        "the branch that was done is asked again"
    );
}

#[test]
fn stop_for_in_parallel_holds() {
    let p = "PROTOCOL: x
STATE: A
  DO: f = PARALLEL quorum=1
    - Task(explorer) mode=structure
    - Task(observer)
  DO: sh \"go\"
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 20)], &[("tokens", 10)]));
    let (a, b) = (s.find("Task(explorer)"), s.find("Task(observer)"));
    s.send(Event::Spent { instance: ROOT, action: b.id, usage: usage(&[("tokens", 15)]) });
    s.done("Task(explorer)", "{}");
    let mut t = s.clone();
    let d = t.raise("tokens", 100);
    assert!(
        s.run.instance(ROOT).unwrap().held.is_empty(),
        "went on and held at once; after a raise it asks {:?}",
        t.asks()
    );
}

#[test]
fn cancelled_agent_costs_nothing() {
    let p = "PROTOCOL: x
STATE: A
  DO: Task(observer)
  GOTO: B
STATE: B
  DO: Task(observer)
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    let a = s.find("Task(observer)");
    s.waive("B");
    s.send(Event::Outcome { instance: ROOT, action: a.id, outcome: Outcome::Interrupted, usage: None });
    let p = purse(&s, "tokens");
    let started = s.asks();
    assert!(p.used + p.guessed > 0, "unknown became zero: {p:?} {started:?}");
}

#[test]
fn unknown_rest_is_zero() {
    let mut s = open_t(ONE, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let a = s.find("Task(observer)");
    s.send(Event::Spent { instance: ROOT, action: a.id, usage: usage(&[("tokens", 1)]) });
    out(&mut s, "Task(observer)", Outcome::Done(FIT()), None);
    assert!(purse(&s, "tokens").guessed > 0, "{:?}", purse(&s, "tokens"));
}

#[test]
fn duplicate_outcome_charged_twice() {
    let p = "PROTOCOL: x
STATE: A
  DO: Task(observer)
  DO: sh \"go\"
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let a = s.find("Task(observer)");
    for _ in 0..2 {
        s.send(Event::Outcome {
            instance: ROOT,
            action: a.id,
            outcome: Outcome::Done(FIT()),
            usage: Some(usage(&[("tokens", 60)])),
        });
    }
    assert_eq!(purse(&s, "tokens").used, 60);
}

#[test]
fn exhausted_then_late_usage() {
    let p = "PROTOCOL: x
LIMIT: tools = 0 ELSE HOLD
STATE: A
  DO: Task(observer) PAYING tools
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let a = s.find("Task(observer)");
    s.send(Event::Tool { instance: ROOT, action: a.id, tool: "read".into() });
    s.send(Event::Outcome {
        instance: ROOT,
        action: a.id,
        outcome: Outcome::Interrupted,
        usage: Some(usage(&[("tokens", 60)])),
    });
    assert!(purse(&s, "tokens").used <= 100, "{:?}", purse(&s, "tokens"));
}

#[test]
fn parallel_children_blocked_are_success() {
    let lib = library_with(&[
        (
            "x",
            "PROTOCOL: x
STATE: A
  DO: f = PARALLEL quorum=2
    - Run(y)
    - Run(y)
  RETURN: complete status={f.status}
",
        ),
        (
            "y",
            "PROTOCOL: y
STATE: A
  RETURN: error reason=\"no\"
",
        ),
    ]);
    let s = Stage::open_with(lib, "x", "{}", Terms::default());
    assert!(s.describe().contains("quorum_failure"), "{}", s.describe());
}

#[test]
fn stale_work_in_wrong_state() {
    let p = "PROTOCOL: x
INPUT: list
STATE: A
  DO: b = FOR EACH t IN list UNTIL ANY
    IF: t == \"q\" →
      ASK: r1 = \"one\"
      ASK: r2 = \"two\"
      ASK: r3 = \"three\"
      ASK: r4 = \"four\"
  GOTO: B
STATE: B
  DO: sh \"b0\"
  DO: sh \"b1\"
  DO: sh \"b2\"
  DO: sh \"b3\"
  DO: sh \"b4\"
  DO: sh \"b5\"
  RETURN: complete
";
    let s = open_t(p, r#"{"list":["p","q"]}"#, policy(Policy::Answer(Value::text("y"))));
    for e in &s.journal {
        println!("{}", serde_json::to_string(e).unwrap());
    }
    assert_eq!(s.asks().len(), 1, "an item of A goes on inside B: {:?}", s.waiting);
}

#[test]
fn verify_partial_guess() {
    let mut s = open_t(ONE, "{}", terms(&[], &[("tokens", 100), ("money", 7)]));
    out(&mut s, "Task(observer)", Outcome::Done(FIT()), Some(usage(&[("tokens", 60)])));
    Run::verify(s.run.library().clone(), &s.journal).unwrap();
}
#[test]
fn verify_zero_usage() {
    let mut s = open_t(ONE, "{}", terms(&[], &[("tokens", 100)]));
    out(&mut s, "Task(observer)", Outcome::Done(FIT()), Some(usage(&[("tokens", 0)])));
    Run::verify(s.run.library().clone(), &s.journal).unwrap();
}
#[test]
fn verify_stop_for() {
    let mut s = open_t(ONE, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    let a = s.find("Task(observer)");
    s.send(Event::Spent { instance: ROOT, action: a.id, usage: usage(&[("tokens", 100)]) });
    Run::verify(s.run.library().clone(), &s.journal).unwrap();
}
#[test]
fn verify_prose_change() {
    let s = open(ONE, "{}");
    let mut sources = built_in_sources();
    sources.push(Source::new(
        ".ftl/protocols/x.md",
        Origin::User,
        format!("# x\n\nOne more word.\n\n```protocol\n{ONE}\n```\n"),
    ));
    let l = Arc::new(Library::load(sources, Catalogue::standard()));
    Run::verify(l, &s.journal).unwrap();
}

#[test]
fn big_number_unreadable() {
    let v = value("1753700000000000000"); // nanoseconds
    let text = serde_json::to_string(&v).unwrap();
    serde_json::from_str::<Value>(&text).unwrap();
}
#[test]
fn big_number_journal() {
    let mut s = open(
        "PROTOCOL: x
STATE: A
  ASK: r = \"when?\"
  RETURN: complete r={r}
",
        "{}",
    );
    s.reply("1753700000000000000");
}
#[test]
fn deep_value_journal() {
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let v: Value = serde_json::from_str(&deep).unwrap();
    let mut s = open(
        "PROTOCOL: x
STATE: A
  DO: s = worktree.open story=\"q\"
  RETURN: complete
",
        "{}",
    );
    let a = s.find("worktree.open");
    let base = plain(&s.answer_type(&a));
    let d = s.outcome(&a, Outcome::Done(with(&base, &Fields::from([(Name::from("extra"), v)]))));
}

#[test]
fn changed_hold_goes_on() {
    let child = ("y", "PROTOCOL: y\nSTATE: A\n  DO: sh \"go\"\n  RETURN: complete\n");
    let p1 = "PROTOCOL: x\nSTATE: A\n  DO: r = Run(y)\n  DO: sh \"one\"\n  RETURN: complete\n";
    let p2 = "PROTOCOL: x\nSTATE: A\n  DO: r = Run(y)\n  DO: sh \"two\"\n  RETURN: complete\n";
    let s = Stage::open_with(library_with(&[("x", p1), child]), "x", "{}", Terms::default());
    let mut t = Stage::new(library_with(&[("x", p2), child]));
    t.journal = s.journal.clone();
    t.run = Run::replay(t.run.library().clone(), &t.journal);
    let d = t.send(Event::Recover);
    t.done("sh", "{}");
    assert!(t.waiting.is_empty(), "held, and yet it asks {:?}", t.waiting);
}
#[test]
fn changed_hold_standing() {
    let s = open(ONE, "{}");
    let mut t = Stage::new(library_with(&[(
        "x",
        &ONE.replace("DO: Task(observer)", "DO: Task(observer)\n  EMIT: \"x\""),
    )]));
    t.journal = s.journal.clone();
    t.run = Run::replay(t.run.library().clone(), &t.journal);
    t.send(Event::Recover);
    assert_eq!(t.standing(), Standing::Held, "{}", t.describe());
}

#[test]
fn redo_same_state_keeps_items() {
    let p = "PROTOCOL: x
INPUT: list
LIMIT: rounds = 5 ELSE HOLD
REDO: rounds
STATE: A
  DO: b = FOR EACH t IN list
    DO: Task(coder) feedback={t} write=code
  RETURN: complete
";
    let mut s = open(p, r#"{"list":["p"]}"#);
    let a = s.find("Task(coder)");
    let d = s.redo("A");
    assert!(d.cancel.contains(&(ROOT, a.id)), "what the state had started is not void: {:?}", d.cancel);
}

#[test]
fn else_in_else_failure() {
    let p = "PROTOCOL: x
PATTERN: CLEAN
  DO: sh \"clean\" ELSE PROCEED
  RETURN: error reason={failure.message}
STATE: A
  DO: sh \"work\" ELSE USE CLEAN
  RETURN: complete
";
    let mut s = open(p, "{}");
    let a = s.find("sh");
    s.outcome(&a, Outcome::Failed(Failure::new(FailureKind::Failed, "outer")));
    let a = s.find("sh");
    s.outcome(&a, Outcome::Failed(Failure::new(FailureKind::Failed, "inner")));
    assert!(s.describe().contains("outer"), "{}", s.describe());
}

#[test]
fn policy_goes_on_after_refusal() {
    let mut s = Stage::open_with(
        library(),
        "lifecycle",
        r#"{"brief":"b"}"#,
        policy(Policy::Answer(value(r#"["plan","next"]"#))),
    );
    s.fail("Task(planner)", FailureKind::Failed);
    assert_eq!(s.asks(), ["word"], "a refusal holds, but the policy said the next word");
}

#[test]
fn reply_forgets_who() {
    let mut s = open(
        "PROTOCOL: x
STATE: A
  ASK: r = \"ok?\"
  RETURN: complete r={r}
",
        "{}",
    );
    s.reply("\"yes\"");
    assert!(s.journal.iter().any(|e| serde_json::to_string(e).unwrap().contains("ann")));
}
#[test]
fn reply_any_type() {
    let mut s = open(
        "PROTOCOL: x
STATE: A
  ASK: r = \"ok?\" choices=yes
  IF: r == \"yes\" → RETURN complete
",
        "{}",
    );
    let a = s.waiting[0].clone();
    let d =
        s.send(Event::Reply { instance: ROOT, action: None, value: value("{\"a\":1}"), by: "ann".into() });
    assert!(d.refusal.is_some(), "{}", s.describe());
}
#[test]
fn policy_name_spoof() {
    let p = "PROTOCOL: x
STATE: A
  WAIT: said = plan | next
  IF: said.plan → STAY
  RETURN: complete
";
    let mut s = open_t(p, "{}", policy(Policy::Answer(value(r#"["zzz","next"]"#))));
    s.send(Event::Say {
        instance: ROOT,
        word: "plan".into(),
        by: "policy".into(),
        reason: "".into(),
        options: Fields::new(),
    });
    assert!(s.end().is_none(), "a person called `policy` moved the policy on");
}
#[test]
fn wanted_lost_by_failure() {
    let p = "PROTOCOL: x
TRACK: t
STATE: A
  WAIT: said = next
  CHECK: f = file.read path={t} ELSE PROCEED
  IF: said.next → GOTO B
  GOTO: C
STATE: B
  RETURN: complete
STATE: C
  RETURN: blocked
"
    .replace(
        "IF: said.next → GOTO B\n  GOTO: C",
        "CHECK: v = verify.run command=\"t\"\n  IF: NOT v.failed → GOTO B\n  GOTO: C",
    );
    let p = p.replace(
        "  CHECK: f = file.read path={t} ELSE PROCEED\n",
        "  CHECK: f = file.read path={t} ELSE PROCEED\n",
    );
    let mut s = open(&p, "{}");
    s.say("next", r#"{"to":"C"}"#);
    s.done("verify.run", "{}");
    assert_eq!(s.state().as_ref(), "C");
}
#[test]
fn any_item() {
    let p = "PROTOCOL: x
INPUT: list
INPUT: one
STATE: A
  CHECK: a = file.read path={one}
  DO: b = FOR EACH t IN list
    CHECK: a = file.read path={t}
  RETURN: complete
";
    assert_eq!(problems(p), Vec::<String>::new());
}
#[test]
fn waive_revert_records_accepted() {
    let mut s = Stage::open("lifecycle", r#"{"brief":"b"}"#);
    for a in
        ["artifact.plan", "artifact.plan_review", "artifact.code", "artifact.code_review", "artifact.report"]
    {
        s.say("next", "{}");
        s.done(a, "{}");
    }
    s.say("revert", "{}");
    assert_eq!(&*s.state(), "revert");
    s.waive("done");
    assert!(!format!("{:?}", s.waiting).contains("accepted"));
}
#[test]
fn protocol_gone_loses_outcome() {
    let s = open(ONE, "{}");
    let mut t = Stage::new(library());
    t.journal = s.journal.clone();
    t.run = Run::replay(t.run.library().clone(), &t.journal);
    let a = s.find("Task(observer)");
    let d = t.run.decide(&Input {
        at: 5000,
        event: Event::Outcome { instance: ROOT, action: a.id, outcome: Outcome::Done(FIT()), usage: None },
    });
    assert!(!d.entries.is_empty() || d.refusal.is_some(), "{d:?}");
}
#[test]
fn late_branch_counts() {
    let p = "PROTOCOL: x
STATE: A
  DO: f = PARALLEL quorum=1 timeout=1s
    - Task(explorer) mode=structure
    - Task(observer)
  RETURN: complete status={f.status} done={f.completed}
";
    let mut s = open(p, "{}");
    s.clock += 60_000;
    s.done("Task(observer)", "{}");
    assert!(s.describe().contains("quorum_failure"), "{}", s.describe());
}
#[test]
fn redo_counts_old_ends() {
    let p = "PROTOCOL: x
INPUT: list
LIMIT: rounds = 5 ELSE HOLD
REDO: rounds
STATE: A
  CHECK: v = verify.run command=\"t\"
  DO: b = FOR EACH t IN list UNTIL ANY
    DO: Task(coder) feedback={v.summary} write=code
  IF: v.passed → PAY: rounds, GOTO A
  RETURN: complete settled={b.settled}
";
    let mut s = open(p, r#"{"list":["p","q"]}"#);
    s.done("verify.run", "{}");
    s.done("Task(coder)", "{}"); // p -> GOTO A, q runs on
    s.done("Task(coder)", "{}"); // q ends while A looks elsewhere
    let before = s.run.instance(ROOT).unwrap().ended.len();
    s.redo("A");
    assert_eq!((before, s.run.instance(ROOT).unwrap().ended.len()), (1, 0), "void ends are still counted");
}
#[test]
fn blank_names() {
    let p = "PROTOCOL: x
STATE: A
  DO: sh \"go\"
  WAIT: said = next
  RETURN: complete
";
    let mut s = open(p, "{}");
    s.fail("sh", FailureKind::Failed);
    let d = s.send(Event::Resume { instance: ROOT, by: " ".into() });
    assert!(d.refusal.is_some(), "resumed by nobody");
}
#[test]
fn blank_word() {
    let p = "PROTOCOL: x
STATE: A
  WAIT: said = next
  RETURN: complete
";
    let mut s = open(p, "{}");
    let d = s.send(Event::Say {
        instance: ROOT,
        word: "next".into(),
        by: "".into(),
        reason: "".into(),
        options: Fields::new(),
    });
    assert!(d.refusal.is_some(), "said by nobody");
}
#[test]
fn adopt_default() {
    let p = "PROTOCOL: x
STATE: A
  GOTO: B
STATE: B with how=\"quick\"
  EMIT: \"{how}\"
  RETURN: complete how={how}
";
    let lib = library_with(&[("x", p)]);
    let mut s = Stage::new(lib);
    s.send(Event::Open {
        protocol: "x".into(),
        inputs: Fields::new(),
        terms: Terms::default(),
        adopt: Some(Adoption {
            state: "B".into(),
            visited: vec!["A".into()],
            by: "ann".into(),
            params: Default::default(),
        }),
    });
    assert!(s.describe().contains("quick"), "{}", s.describe());
}
#[test]
fn input_type() {
    let mut s = Stage::new(library());
    let d = s.send(Event::Open {
        protocol: "builder".into(),
        inputs: fields(r#"{"workspace":"w","budget":"7"}"#),
        terms: Terms::default(),
        adopt: None,
    });
    assert!(d.refusal.is_some(), "{}", s.describe());
}
#[test]
fn interrupted_changes_params() {
    let mut s = open(
        "PROTOCOL: x
LIMIT: tools = 5 ELSE HOLD
STATE: A
  DO: Task(planner) input={tools.left} exploration=none PAYING tools
  RETURN: complete
",
        "{}",
    );
    let a = s.find("Task(planner)");
    s.send(Event::Tool { instance: ROOT, action: a.id, tool: "read".into() });
    let d = out(&mut s, "Task(planner)", Outcome::Interrupted, None);
    assert_eq!(d.start[0].params, a.params, "one id, two orders");
}
#[test]
fn changed_then_restored_hangs() {
    let child = ("y", "PROTOCOL: y\nSTATE: A\n  DO: sh \"go\"\n  RETURN: complete\n");
    let p1 = "PROTOCOL: x\nSTATE: A\n  EMIT: \"a\"\n  EMIT: \"b\"\n  DO: r = Run(y)\n  DO: sh \"one\"\n  RETURN: complete\n";
    let p2 = "PROTOCOL: x\nSTATE: A\n  DO: sh \"two\"\n  RETURN: complete\n";
    let s = Stage::open_with(library_with(&[("x", p1), child]), "x", "{}", Terms::default());
    let mut t = Stage::new(library_with(&[("x", p2), child]));
    t.journal = s.journal.clone();
    t.run = Run::replay(t.run.library().clone(), &t.journal);
    t.send(Event::Recover);
    t.done("sh", "{}");
    let mut u = Stage::new(library_with(&[("x", p1), child]));
    u.journal = t.journal.clone();
    u.run = Run::replay(u.run.library().clone(), &u.journal);
    u.send(Event::Recover);
    assert!(
        !u.asks().is_empty(),
        "the document is back, the child has ended, and nothing ever happens: {}",
        u.describe()
    );
}

#[test]
fn plan_with_to_moves() {
    let mut s = Stage::open("lifecycle", r#"{"brief":"b"}"#);
    let d = s.say("plan", r#"{"to":"plan_review"}"#);
    assert!(
        d.refusal.is_some() || s.asks() == ["Task(planner)"],
        "`plan` did not run the phase: {:?}",
        s.asks()
    );
}
#[test]
fn campaign_one_failure_cancels_siblings() {
    let mut s = Stage::open("campaign", r#"{"objective":"o"}"#);
    s.done("exploration.clear", "{}");
    for _ in 0..4 {
        s.done("Task(explorer)", "{}");
    }
    s.done("exploration.aggregate", "{}");
    s.done("exploration.write", "{}");
    s.done("Task(planner)", "{}");
    s.done("decision.parse", r#"{"kind":"PROCEED","plan":{"objective":"o","tasks":[]}}"#);
    s.done("campaign.create", "{}");
    s.done("campaign.add_tasks", "{}");
    s.done("campaign.tasks", r#"{"ready":[{"seq":"1","worker":"builder","slug":"a","status":"pending","depends":[]},{"seq":"2","worker":"builder","slug":"b","status":"pending","depends":[]}],"running":[]}"#);
    s.done("workspace.create", r#"{"mode":"direct"}"#);
    s.fail("workspace.create", FailureKind::Failed);
    println!(
        "{} {:?} {:?}",
        s.describe(),
        s.asks(),
        s.run.instances().iter().map(|i| i.end.clone()).collect::<Vec<_>>()
    );
    assert_eq!(&*s.state(), "EXECUTE", "one failed brief cancelled the running builder");
}
#[test]
fn cancelled_item_purse() {
    // two agents, one died with unknown usage: what is the second charge?
    let mut s = open_t(ONE, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    out(&mut s, "Task(observer)", Outcome::Interrupted, None);
    s.send(Event::Recover);
    out(&mut s, "Task(observer)", Outcome::Done(FIT()), Some(usage(&[("tokens", 5)])));
    let p = purse(&s, "tokens");
    assert!(p.guessed > 0, "the interrupted attempt cost nothing: {p:?}");
}
#[test]
fn ok_waiver_recover() {
    let p = "PROTOCOL: x
LIMIT: m = 5 ELSE HOLD
STATE: A
  WAIT: said = next
  CHECK: v = verify.run command=\"t\"
  IF: v.passed → PAY: m, DO: sh \"go\", GOTO B
  STAY: {v.summary}
STATE: B
  RETURN: complete
";
    let mut s = open(p, "{}");
    s.waive("B");
    s.send(Event::Recover);
    s.done("verify.run", r#"{"passed":false}"#);
    s.send(Event::Recover);
    s.done("sh", "{}");
    assert_eq!(s.run.instance(ROOT).unwrap().meters["m"].used(), 1);
    assert_eq!(s.end(), Some(End::Complete));
    Run::verify(s.run.library().clone(), &s.journal).unwrap();
}
#[test]
fn ok_raise_ancestor() {
    let lib = library_with(&[
        ("x", "PROTOCOL: x\nSTATE: A\n  DO: r = Run(y)\n  RETURN: complete\n"),
        ("y", "PROTOCOL: y\nSTATE: A\n  DO: Task(observer)\n  RETURN: complete\n"),
    ]);
    let mut s = Stage::open_with(lib, "x", "{}", terms(&[("tokens", 5)], &[("tokens", 10)]));
    assert_eq!(s.run.instance(InstanceId(1)).unwrap().standing(), Standing::Held);
    s.raise("tokens", 10);
    s.done("Task(observer)", "{}");
    assert_eq!(s.end(), Some(End::Complete));
}
#[test]
fn ok_deny() {
    let p = "PROTOCOL: x
STATE: A
  WAIT: said = next ELSE RETURN blocked reason={failure.kind}
  RETURN: complete
";
    let s = open_t(p, "{}", policy(Policy::Deny));
    assert_eq!(s.end(), Some(End::Blocked));
    let s = open_t(&p.replace(" ELSE RETURN blocked reason={failure.kind}", ""), "{}", policy(Policy::Deny));
    assert_eq!(s.standing(), Standing::Held);
}
#[test]
fn verify_waive_running_task_reserved() {
    let p = "PROTOCOL: x
STATE: A
  DO: Task(observer)
  GOTO: B
STATE: B
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    s.waive("B");
    assert_eq!(Run::verify(s.run.library().clone(), &s.journal).unwrap().taken, 0);
}
#[test]
fn died_in_cycle_of_three_is_one_fact_short() {
    let mut s = open(ONE, "{}");
    for _ in 0..3 {
        out(&mut s, "Task(observer)", Outcome::Died("x".into()), Some(Usage::new()));
    }
    let paid = s.journal.iter().filter(|e| matches!(e.fact, Fact::Paid(Payment::Attempts { .. }))).count();
    assert_eq!((paid, s.standing()), (3, Standing::Held));
}

#[test]
fn n2_owed_leaks_after_restart() {
    let p = "PROTOCOL: x
STATE: A
  DO: Task(observer)
  GOTO: B
STATE: B
  DO: Task(observer)
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 100)], &[("tokens", 100)]));
    s.waive("B");
    // the engine dies here; the agent is gone and reports nothing
    let d = s.send(Event::Recover);
    assert!(
        !d.cancel.is_empty() || purse(&s, "tokens").reserved == 0,
        "set aside for ever: {:?} {}",
        purse(&s, "tokens"),
        s.describe()
    );
}
#[test]
fn n3_spent_after_cancel_is_lost() {
    let p = "PROTOCOL: x
STATE: A
  DO: Task(observer)
  GOTO: B
STATE: B
  DO: sh \"go\"
  RETURN: complete
";
    let mut s = open_t(p, "{}", terms(&[("tokens", 1000)], &[("tokens", 100)]));
    let a = s.find("Task(observer)");
    s.waive("B");
    s.send(Event::Spent { instance: ROOT, action: a.id, usage: usage(&[("tokens", 90)]) });
    s.send(Event::Outcome {
        instance: ROOT,
        action: a.id,
        outcome: Outcome::Interrupted,
        usage: Some(usage(&[("tokens", 5)])),
    });
    assert_eq!(purse(&s, "tokens").used, 95);
}
#[test]
fn n4_died_and_owed() {
    let mut s =
        open_t(ONE, "{}", terms(&[("tokens", 100), ("money", 100)], &[("tokens", 100), ("money", 10)]));
    out(&mut s, "Task(observer)", Outcome::Died("x".into()), Some(usage(&[("tokens", 100), ("money", 1)])));
    assert_eq!(purse(&s, "money").reserved, 0, "{:?}", purse(&s, "money"));
}
