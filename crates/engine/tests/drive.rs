//! Driving runs with hands that work in threads: order, limits, stops, outages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ftl_core::run::{Fact, FailureKind, Payment, STOPPED, Terms, Usage};
use ftl_core::value::Value;
use ftl_engine::drive::DriveEnd;
use ftl_engine::driver::DriveError;
use ftl_engine::executors::{ExecutorPool, Job, JobEnd, Report, ServiceProbe};
use ftl_process::Cancel;
use ftl_settings::width::Width;
use ftl_store::journal::JournalError;
use ftl_store::order::{Order, Reply};
use ftl_store::{Store, StoreError};
use support::{Fixture, With, name, says, until};

const ONE: &str = "PROTOCOL: one
STATE: A
  DO: out = sh \"true\"
  RETURN: complete said={out.stdout}";

const AGENT: &str = "PROTOCOL: agent
STATE: A
  DO: Task(observer) ELSE RETURN blocked reason={failure.message}
  RETURN: complete";

const ASKS: &str = "PROTOCOL: asks
STATE: A
  ASK: reply = \"Go on?\" choices=yes|no
  RETURN: complete reply={reply}";

const SHELL: &str = r#"{"code":0,"stdout":"hi","stderr":""}"#;

fn summary(rest: &DriveEnd) -> &ftl_store::summary::Summary {
    match rest {
        DriveEnd::Rests(summary) | DriveEnd::Stopped(summary) => summary,
    }
}

fn usage(tokens: u64) -> Usage {
    Usage::from([(name("tokens"), tokens)])
}

fn terms(limit: u64, reserve: u64) -> Terms {
    Terms { limits: usage(limit), reserve: usage(reserve), ..Terms::default() }
}

#[test]
fn a_run_goes_from_open_to_its_end() {
    let fixture = Fixture::new(ONE);
    let runner = ExecutorPool::new(Width::default()).with("sh", says(SHELL));
    let rest = fixture.open("{}", Terms::default(), &runner).unwrap();
    assert_eq!(summary(&rest).standing.word(), "complete");
    let row = fixture.store.run(&fixture.id).unwrap().unwrap();
    assert!(row.settled && row.owner.is_none(), "it is given back");
}

#[test]
fn a_job_without_a_hand_holds_and_says_so() {
    let fixture = Fixture::new(ONE);
    let rest = fixture.open("{}", Terms::default(), &ExecutorPool::new(Width::default())).unwrap();
    assert_eq!(summary(&rest).standing.word(), "held");
    assert!(summary(&rest).reason.as_ref().unwrap().contains("no hand for `sh`"), "{rest:?}");
}

#[test]
fn a_hand_that_panics_has_died_and_is_asked_again_a_few_times() {
    let fixture = Fixture::new(ONE);
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let hand = With(move |_: &Job| {
        if count.fetch_add(1, Ordering::SeqCst) < 2 {
            panic!("on purpose");
        }
        Report::free(JobEnd::Done(serde_json::from_str(SHELL).unwrap()))
    });
    let rest =
        fixture.open("{}", Terms::default(), &ExecutorPool::new(Width::default()).with("sh", Arc::new(hand)));
    assert_eq!(summary(&rest.unwrap()).standing.word(), "complete");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[test]
fn a_store_that_fails_stops_everything_and_nothing_is_acknowledged() {
    let fixture = Fixture::new(ONE);
    let store = fixture.store.clone();
    let hand = With(move |_: &Job| {
        store.set_fault(Some(ftl_store::memory::StoreFault::Full));
        Report::free(JobEnd::Done(serde_json::from_str(SHELL).unwrap()))
    });
    let runner = ExecutorPool::new(Width::default()).with("sh", Arc::new(hand));
    let error = fixture.open("{}", Terms::default(), &runner).unwrap_err();
    assert!(matches!(error, DriveError::Journal(JournalError::Store(StoreError::Full(_)))), "{error}");
    fixture.store.set_fault(None);
    let asked = fixture.entries().len();
    let rest = fixture.resume(&ExecutorPool::new(Width::default()).with("sh", says(SHELL))).unwrap();
    assert_eq!(summary(&rest).standing.word(), "complete");
    assert!(fixture.entries().len() > asked);
}

#[test]
fn a_stop_interrupts_without_burning_anything_and_resume_goes_on() {
    let fixture = Fixture::new(AGENT);
    let stop = fixture.stop.clone();
    let hand = With(move |job: &Job| {
        stop.say();
        until("the job is cancelled", || job.cancel.is_cancelled());
        Report { ended: JobEnd::Cancelled, usage: usage(3) }
    });
    let runner = ExecutorPool::new(Width::default()).with("Task(observer)", Arc::new(hand));
    let began = Instant::now();
    let rest = fixture.open("{}", terms(1000, 100), &runner).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(matches!(rest, DriveEnd::Stopped(_)), "{rest:?}");
    let suspended = fixture
        .entries()
        .iter()
        .any(|entry| matches!(&entry.fact, Fact::Suspended { service, .. } if service == STOPPED));
    assert!(suspended);
    assert_eq!(summary(&rest).meters["tokens"].used, 3, "what it said it used, and no more");

    let fresh = Fixture { stop: ftl_engine::drive::StopSignal::default(), ..fixture };
    let hand = With(|_: &Job| Report {
        ended: JobEnd::Done(Value::record([("text", Value::text("x"))])),
        usage: usage(5),
    });
    let rest =
        fresh.resume(&ExecutorPool::new(Width::default()).with("Task(observer)", Arc::new(hand))).unwrap();
    assert_eq!(summary(&rest).meters["tokens"].used, 8);
    let attempts =
        fresh.entries().iter().any(|entry| matches!(entry.fact, Fact::Paid(Payment::Attempts { .. })));
    assert!(!attempts, "an interruption is no attempt");
}

#[test]
fn a_hand_that_does_not_hear_the_stop_is_written_down_as_unknown() {
    let fixture = Fixture::new(AGENT);
    let stop = fixture.stop.clone();
    let hand = With(move |job: &Job| {
        stop.say();
        until("the job is ended at once", || job.cancel.is_now());
        std::thread::sleep(Duration::from_millis(50));
        Report::free(JobEnd::Cancelled)
    });
    let runner = ExecutorPool::new(Width::default()).with("Task(observer)", Arc::new(hand));
    let began = Instant::now();
    let rest = fixture.open("{}", terms(1000, 100), &runner).unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let tokens = &summary(&rest).meters["tokens"];
    assert_eq!((tokens.used, tokens.unknown), (100, 1), "the worst case, marked as unknown");
}

#[test]
fn an_outage_suspends_probes_once_and_goes_on() {
    struct Down(AtomicUsize);
    impl ServiceProbe for Down {
        fn answers(&self, service: &str, _: &Cancel) -> bool {
            assert_eq!(service, "model");
            self.0.fetch_add(1, Ordering::SeqCst) >= 1
        }
    }
    let fixture = Fixture::new(AGENT);
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let hand = With(move |_: &Job| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Report { ended: JobEnd::Outage { service: "model".into(), after: None }, usage: usage(2) },
        _ => Report { ended: JobEnd::Done(Value::record([("text", Value::text("x"))])), usage: usage(5) },
    });
    let down = Arc::new(Down(AtomicUsize::new(0)));
    let runner =
        ExecutorPool::new(Width::default()).with("Task(observer)", Arc::new(hand)).probing(down.clone());
    let rest = fixture.open("{}", terms(1000, 100), &runner).unwrap();
    assert_eq!(summary(&rest).meters["tokens"].used, 7, "a probe that fails uses nothing");
    assert_eq!((tries.load(Ordering::SeqCst), down.0.load(Ordering::SeqCst)), (2, 2));
    assert_eq!(fixture.facts()["suspended"], 2, "once by the agent, once by the probe");
}

#[test]
fn orders_are_taken_once_with_their_reply() {
    let fixture = Fixture::new(ASKS);
    let runner = ExecutorPool::new(Width::default());
    let rest = fixture.open("{}", Terms::default(), &runner).unwrap();
    assert_eq!(summary(&rest).standing.word(), "waiting");
    assert_eq!(summary(&rest).waits[0].text, "Go on? [yes|no]");
    let order = |value: &str| {
        let order = Order::Answer {
            instance: ftl_core::run::ROOT,
            action: None,
            value: Value::text(value),
            by: "ann".into(),
        };
        fixture.store.send(&fixture.id, &serde_json::to_string(&order).unwrap()).unwrap()
    };
    let (wrong, first, second) = (order("maybe"), order("yes"), order("no"));
    let rubbish = fixture.store.send(&fixture.id, "what?").unwrap();
    let rest = fixture.resume(&runner).unwrap();
    assert_eq!(summary(&rest).standing.word(), "complete");
    let reply = |number: u64| -> Reply {
        serde_json::from_str(&fixture.store.reply(number).unwrap().unwrap()).unwrap()
    };
    assert!(
        reply(wrong).refused.is_some() && reply(second).refused.is_some() && reply(rubbish).refused.is_some()
    );
    assert!(reply(first).refused.is_none() && reply(first).entry.is_some());
}

#[test]
fn a_tool_beyond_its_meter_is_denied_and_ends_the_task() {
    let fixture = Fixture::new(
        "PROTOCOL: tooled
LIMIT: tools = 2 ELSE END
STATE: A
  DO: Task(observer) PAYING tools ELSE END
  RETURN: complete
STATE: END
  RETURN: blocked reason=\"tools\"",
    );
    let allowed = Arc::new(AtomicUsize::new(0));
    let count = allowed.clone();
    let hand = With(move |job: &Job| {
        while job.tool("edit", None).is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Report::free(JobEnd::Cancelled)
    });
    let runner = ExecutorPool::new(Width::default()).with("Task(observer)", Arc::new(hand));
    let rest = fixture.open("{}", Terms::default(), &runner).unwrap();
    assert_eq!((summary(&rest).standing.word(), allowed.load(Ordering::SeqCst)), ("blocked", 2));
}

#[test]
fn five_hundred_agents_overstep_a_cap_by_at_most_one_reservation() {
    let fixture = Fixture::new(
        "PROTOCOL: wide
INPUT: items
STATE: A
  DO: all = FOR EACH item IN items BY item
    DO: Task(observer)
  RETURN: complete",
    );
    let items: Vec<String> = (0..500).map(|index| format!("\"i{index}\"")).collect();
    let (limit, reserve) = (10_000, 100);
    // Every agent uses something else, none more than was set aside for it.
    let hand = With(move |job: &Job| {
        let seed = job.action.id.entry * 31 + u64::from(job.action.id.index) * 17;
        for _ in 0..seed % 3 {
            if job.report_usage(usage(seed % 100)).is_err() {
                return Report { ended: JobEnd::Cancelled, usage: usage(0) };
            }
        }
        Report { ended: JobEnd::Done(Value::record([("text", Value::text("x"))])), usage: usage(seed % 101) }
    });
    let runner =
        ExecutorPool::new(Width { agents: 16, builds: 4, actions: 4 }).with("Task(observer)", Arc::new(hand));
    let rest = fixture
        .open(&format!("{{\"items\":[{}]}}", items.join(",")), terms(limit, reserve), &runner)
        .unwrap();
    let tokens = &summary(&rest).meters["tokens"];
    assert_eq!(summary(&rest).standing.word(), "held", "{rest:?}");
    assert!(tokens.used > limit - reserve && tokens.used <= limit + reserve, "{tokens:?}");
    let raise = Order::Raise {
        instance: ftl_core::run::ROOT,
        meter: name("tokens"),
        limit: 1_000_000,
        by: "ann".into(),
        reason: "worth it".into(),
    };
    fixture.store.send(&fixture.id, &serde_json::to_string(&raise).unwrap()).unwrap();
    let done_before = fixture.facts()["heard"];
    let rest = fixture.resume(&runner).unwrap();
    assert_eq!(summary(&rest).standing.word(), "complete");
    assert!(fixture.facts()["heard"] > done_before, "what was done before is kept");
}

#[test]
fn a_stale_owner_is_refused_and_lets_go() {
    let fixture = Fixture::new(AGENT);
    let (store, id) = (fixture.store.clone(), fixture.id.clone());
    let hand = With(move |job: &Job| {
        let row = store.run(&id).unwrap().unwrap();
        store.take(&id, row.epoch, "thief").unwrap();
        assert!(job.report_usage(usage(1)).is_err(), "its report is not taken");
        until("it is let go", || job.cancel.is_now());
        Report::free(JobEnd::failed(FailureKind::Failed, "too late"))
    });
    let runner = ExecutorPool::new(Width::default()).with("Task(observer)", Arc::new(hand));
    let error = fixture.open("{}", terms(1000, 100), &runner).unwrap_err();
    assert!(matches!(error, DriveError::Journal(JournalError::Store(StoreError::Fenced { .. }))), "{error}");
}

#[test]
fn an_answer_that_is_too_large_is_none() {
    let fixture = Fixture::new(ONE);
    let output = "x".repeat(ftl_engine::drive::MAX_ANSWER_BYTES);
    let large = format!(r#"{{"code":0,"stdout":"{output}","stderr":""}}"#);
    let runner = ExecutorPool::new(Width::default()).with("sh", says(&large));
    let rest = fixture.open("{}", Terms::default(), &runner).unwrap();
    assert_eq!(summary(&rest).standing.word(), "held");
    let why = serde_json::to_string(summary(&rest)).unwrap();
    assert!(why.contains("is the most"), "{why}");
}

const TWO: &str = "PROTOCOL: two
STATE: A
  DO: found = PARALLEL quorum=2
    - Task(explorer) mode=structure
    - Task(explorer) mode=memory objective=o
  RETURN: complete";

#[test]
fn what_waited_in_the_queue_of_a_stale_owner_is_not_done() {
    let fixture = Fixture::new(TWO);
    let (store, id) = (fixture.store.clone(), fixture.id.clone());
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let hand = With(move |_: &Job| {
        count.fetch_add(1, Ordering::SeqCst);
        let row = store.run(&id).unwrap().unwrap();
        store.take(&id, row.epoch, "thief").unwrap();
        Report { ended: JobEnd::Done(Value::record([("text", Value::text("x"))])), usage: usage(5) }
    });
    let width = Width { agents: 1, builds: 1, actions: 1 };
    let runner = ExecutorPool::new(width).otherwise(Arc::new(hand));
    let error = fixture.open("{}", terms(1000, 100), &runner).unwrap_err();
    assert!(matches!(error, DriveError::Journal(JournalError::Store(StoreError::Fenced { .. }))), "{error}");
    drop(runner);
    assert_eq!(done.load(Ordering::SeqCst), 1, "the second one never began");
}
