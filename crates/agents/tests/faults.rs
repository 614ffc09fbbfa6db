//! What goes wrong between a model service and us: storms of errors, broken streams, servers that lie.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on fails by panicking"
)]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_agents::contract::{
    AgentAnswer, Backend, ConversationEnd, MONEY, PartKind, PromptPart, SessionLimits, SessionOrder, TOKENS,
    TURNS, converse,
};
use ftl_agents::error::AgentError;
use ftl_agents::model::concurrency::ConcurrencyLimit;
use ftl_agents::model::{Calls, Dialect, Model, ModelEndpoint};
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::{RealTime, RetryPolicy, Timing};
use ftl_core::tool_policy::ToolAllowance;
use ftl_core::value::Name;
use ftl_testkit::model_server::ModelServer;
use ftl_testkit::speakers::{FakeTime, KEY, RecordingHost, allowance, endpoint, host, order};
use serde_json::{Value as Json, json};

/// A server with one scenario, and what speaks to it.
struct Room {
    folder: tempfile::TempDir,
    clerk: Arc<RecordingHost>,
    server: ModelServer,
    allowance: ToolAllowance,
}

impl Room {
    fn new(steps: Json) -> Room {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        let allowance = allowance(50);
        let server = ModelServer::start(json!({ "case": { "steps": steps } })).unwrap();
        Room { folder, clerk: Arc::new(RecordingHost::new(&allowance)), server, allowance }
    }

    fn endpoint(&self, dialect: Dialect) -> ModelEndpoint {
        endpoint(dialect, &self.server.url("case"))
    }

    fn order(&self) -> SessionOrder {
        order(self.folder.path(), &self.allowance)
    }

    fn ask(&self, endpoint: ModelEndpoint, timing: Arc<dyn Timing>) -> ConversationEnd {
        let model = Model::new(endpoint, Arc::new(Secrets::new()), timing);
        converse(&model, self.order(), &[PromptPart::new(PartKind::Task, "Do it.")], &host(&self.clerk))
    }

    fn quick(&self, dialect: Dialect) -> ConversationEnd {
        self.ask(self.endpoint(dialect), Arc::new(RealTime::new()))
    }
}

fn submit() -> Json {
    json!({ "call": { "name": "submit", "args": { "summary": "done" } } })
}

fn failing(fail: Json) -> Json {
    let mut step = submit();
    step["fail"] = fail;
    step
}

fn is_done(ended: &ConversationEnd) {
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(json!({ "summary": "done" }))));
}

fn every(case: impl Fn(Dialect)) {
    Dialect::ALL.into_iter().for_each(case);
}

#[test]
fn busy_services_are_asked_again_and_then_answer() {
    for status in [408, 429, 500, 502, 503, 529] {
        every(|dialect| {
            let room = Room::new(json!([failing(json!({ "status": status, "times": 2 }))]));
            let ended = room.quick(dialect);
            is_done(&ended);
            let heard = room.clerk.snapshot();
            assert_eq!((room.server.log().len(), heard.again, heard.total(TURNS)), (3, 2, 1), "{status}");
            assert!(ended.unknown.is_empty(), "an error costs nothing");
        });
    }
}

#[test]
fn a_storm_that_does_not_end_is_an_outage() {
    every(|dialect| {
        let fail = json!({ "status": 529, "times": 99, "message": "overloaded" });
        let room = Room::new(json!([failing(fail)]));
        let ended = room.quick(dialect);
        let Err(AgentError::Outage { service, why, after, claimed: false }) = ended.outcome else {
            panic!("{ended:?}")
        };
        let told = format!("{}: 529: overloaded", room.endpoint(dialect).url);
        assert_eq!((service.as_str(), why, after), (dialect.word(), told, None));
        assert_eq!(room.server.log().len(), 3);
    });
}

#[test]
fn waits_obey_retry_after_and_nobody_sleeps_in_this_test() {
    let room = Room::new(json!([failing(json!({ "status": 429, "times": 3, "retry_after": 7 }))]));
    let timing = Arc::new(FakeTime::new(3));
    let retry = RetryPolicy { attempts: 5, first: Duration::from_millis(500), most: Duration::from_secs(30) };
    let endpoint = ModelEndpoint { retry, ..room.endpoint(Dialect::Chat) };
    is_done(&room.ask(endpoint, timing.clone()));
    let waits: Vec<u128> = timing.waits().iter().map(Duration::as_millis).collect();
    assert_eq!(waits, [7003, 7003, 7003]);

    let room = Room::new(json!([failing(json!({ "status": 429, "times": 9, "retry_after": 3600 }))]));
    let timing = Arc::new(FakeTime::new(3));
    let ended = room.ask(ModelEndpoint { retry, ..room.endpoint(Dialect::Chat) }, timing.clone());
    let hour = Some(Duration::from_secs(3600));
    assert!(matches!(&ended.outcome, Err(AgentError::Outage { after, .. }) if *after == hour), "{ended:?}");
    assert!(timing.waits().is_empty(), "an hour is not waited for here");

    let room = Room::new(json!([failing(json!({ "status": 500, "times": 4 }))]));
    let timing = Arc::new(FakeTime::new(0));
    is_done(&room.ask(ModelEndpoint { retry, ..room.endpoint(Dialect::Chat) }, timing.clone()));
    let waits: Vec<u128> = timing.waits().iter().map(Duration::as_millis).collect();
    assert_eq!(waits, [250, 500, 1000, 2000]);
}

#[test]
fn a_stream_that_breaks_off_is_asked_for_again_and_its_tokens_are_unknown() {
    every(|dialect| {
        let text = "long enough to be cut in the middle of the stream";
        let room = Room::new(json!([{ "text": text, "cut": true }]));
        let ended = room.quick(dialect);
        assert!(matches!(&ended.outcome, Err(AgentError::Died(why)) if why.contains("3 times")), "{ended:?}");
        assert_eq!(ended.unknown, BTreeSet::from([Name::from(MONEY), Name::from(TOKENS)]));
        assert_eq!(room.clerk.snapshot().again, 2);
        assert_eq!(room.clerk.snapshot().total(TURNS), 0, "half an answer is none");

        let mut once = submit();
        (once["cut"], once["text"]) = (json!(1), json!(text));
        let room = Room::new(json!([once]));
        let ended = room.quick(dialect);
        is_done(&ended);
        let heard = room.clerk.snapshot();
        assert_eq!((heard.again, heard.text.as_str()), (1, text), "nothing is glued together");
        assert!(ended.unknown.contains(TOKENS), "the broken one was paid for, nobody knows how much");
    });
}

#[test]
fn a_service_that_is_not_there_is_an_outage() {
    let room = Room::new(json!([submit()]));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/v1");
    let ended = room.ask(endpoint(Dialect::Chat, &url), Arc::new(RealTime::new()));
    assert!(
        matches!(&ended.outcome, Err(AgentError::Outage { why, .. }) if why.contains("refused")),
        "{ended:?}"
    );
    assert!(ended.unknown.is_empty(), "nothing was heard, nothing was used");
    let model =
        Model::new(endpoint(Dialect::Chat, &url), Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    assert!(model.probe().usable.unwrap_err().0.contains("cannot be reached"));
}

#[test]
fn an_address_that_makes_no_sense_is_told_at_once() {
    let room = Room::new(json!([submit()]));
    for url in ["nonsense", "http://", "http://[::1/v1"] {
        let ended = room.ask(endpoint(Dialect::Chat, url), Arc::new(RealTime::new()));
        assert!(
            matches!(&ended.outcome, Err(AgentError::CouldNotRun(_) | AgentError::Outage { .. })),
            "{url}: {ended:?}"
        );
    }
}

#[test]
fn bytes_that_never_become_an_event_do_not_hold_us() {
    every(|dialect| {
        let room = Room::new(json!([{ "dribble": 60 }]));
        let began = Instant::now();
        let ended = room.quick(dialect);
        assert!(
            matches!(&ended.outcome, Err(AgentError::TimedOut(why)) if why.contains("nothing for 600ms")),
            "{ended:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn an_answer_that_takes_too_long_in_all_is_ended() {
    let room = Room::new(json!([{ "text": "slow ".repeat(200), "chunk_delay": 0.05 }]));
    let limits =
        SessionLimits { silence: Duration::from_secs(5), whole: Duration::from_millis(400), requests: 9 };
    let model = Model::new(room.endpoint(Dialect::Chat), Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    let order = SessionOrder { limits, ..room.order() };
    let ended = converse(&model, order, &[PromptPart::new(PartKind::Task, "x")], &host(&room.clerk));
    assert!(
        matches!(&ended.outcome, Err(AgentError::TimedOut(why)) if why.contains("longer than 400ms")),
        "{ended:?}"
    );
}

#[test]
fn a_page_instead_of_a_stream_is_refused_with_what_it_is() {
    every(|dialect| {
        for kind in ["text/html", "application/json"] {
            let room = Room::new(json!([{ "text": "x", "kind": kind }]));
            let ended = room.quick(dialect);
            let Err(AgentError::CouldNotRun(why)) = &ended.outcome else { panic!("{ended:?}") };
            assert!(why.contains(kind), "{why}");
            assert_eq!(room.server.log().len(), 1, "it is not asked again");
        }
    });
}

#[test]
fn a_wrong_key_is_told_once_and_never_shown() {
    every(|dialect| {
        let message = format!("invalid key {KEY}, and sk-abcdefghijklmnop1234 too");
        let room = Room::new(json!([failing(json!({ "status": 401, "times": 99, "message": message }))]));
        let mut secrets = Secrets::new();
        secrets.hide(KEY);
        let model = Model::new(room.endpoint(dialect), Arc::new(secrets), Arc::new(RealTime::new()));
        let ended =
            converse(&model, room.order(), &[PromptPart::new(PartKind::Task, "x")], &host(&room.clerk));
        let wanted = format!("{} refuses: 401: invalid key [hidden], and [hidden] too", dialect.word());
        assert_eq!(ended.outcome, Err(AgentError::CouldNotRun(wanted)));
        assert_eq!(room.server.log().len(), 1);
        let header = if dialect == Dialect::Anthropic { "x-api-key" } else { "authorization" };
        assert_eq!(room.server.log()[0]["auth_header"], header);
    });
}

#[test]
fn a_cancelled_stream_ends_while_the_server_hangs() {
    every(|dialect| {
        let room = Room::new(json!([{ "hang": 60 }]));
        let model = Model::new(room.endpoint(dialect), Arc::new(Secrets::new()), Arc::new(RealTime::new()));
        let order = SessionOrder { limits: SessionLimits::default(), ..room.order() };
        std::thread::scope(|scope| {
            let host = host(&room.clerk);
            let model = &model;
            let talking =
                scope.spawn(move || converse(model, order, &[PromptPart::new(PartKind::Task, "x")], &host));
            room.server.wait_until_stalled();
            room.clerk.cancel();
            let cancelled = Instant::now();
            assert_eq!(talking.join().unwrap().outcome, Err(AgentError::Cancelled));
            assert!(cancelled.elapsed() < Duration::from_secs(2), "{:?}", cancelled.elapsed());
        });
    });
}

#[test]
fn arguments_that_are_no_json_go_back_to_the_model() {
    every(|dialect| {
        let broken = json!({ "call": { "name": "read", "args": {} }, "raw_args": "{\"path\": \"unterm" });
        let room = Room::new(json!([broken, submit()]));
        is_done(&room.quick(dialect));
        assert!(room.server.log()[1]["last_tool"].as_str().unwrap().contains("no JSON"));
        assert_eq!(room.clerk.snapshot().made.len(), 1, "only the submission was made");
    });
}

#[test]
fn faults_of_an_answer_go_back_as_the_result_of_its_call() {
    every(|dialect| {
        let wrong = json!({ "call": { "name": "submit", "args": { "summary": 7 } } });
        let room = Room::new(json!([wrong, submit()]));
        is_done(&room.quick(dialect));
        let told = room.server.log()[1]["last_tool"].as_str().unwrap().to_owned();
        assert!(told.contains("answer.summary: is number, not string"), "{told}");
    });
}

#[test]
fn an_answer_that_is_cut_off_is_asked_for_again_and_a_refusal_is_not() {
    every(|dialect| {
        let room = Room::new(json!([{ "text": "half an answ", "stop": "max_tokens" }, submit()]));
        is_done(&room.quick(dialect));
        assert_eq!(room.clerk.snapshot().total(TURNS), 2);
    });
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        let room = Room::new(json!([{ "text": "no", "stop": "refusal" }, submit()]));
        assert_eq!(room.quick(dialect).outcome, Err(AgentError::Bad("the model refuses to answer".into())));
    }
}

#[test]
fn a_model_whose_answers_are_always_cut_off_is_ended() {
    every(|dialect| {
        let room = Room::new(Json::from(vec![json!({ "text": "and again", "stop": "max_tokens" }); 9]));
        let endpoint = ModelEndpoint { max_output: Some(7), ..room.endpoint(dialect) };
        let ended = room.ask(endpoint, Arc::new(RealTime::new()));
        let why = "3 answers in a row were cut off at max_output = 7";
        assert_eq!(ended.outcome, Err(AgentError::Bad(why.into())), "{dialect:?}");
        assert_eq!(room.clerk.snapshot().total(TURNS), 3);
    });
}

/// A small model fills every list until it is stopped. Where it is held to a schema the lists that need not be there
/// are not offered, and all others have an end.
#[test]
fn a_small_model_that_fills_lists_comes_to_an_answer() {
    let room = Room::new(json!([{ "fills": true }, { "fills": true }]));
    let list = json!({ "type": ["array", "null"], "items": { "type": "string" } });
    let shape = json!({ "type": "object", "required": ["approach"], "properties": {
        "approach": { "type": "string" }, "steps": list, "idioms": list, "avoid": list } });
    let answer = ftl_agents::schema::Schema::new(shape).unwrap();
    let allowance = ToolAllowance { tools: [Name::from("submit")].into(), ..room.allowance.clone() };
    let order = SessionOrder { answer, allowance, ..room.order() };
    let endpoint =
        ModelEndpoint { calls: Calls::Schema, max_output: Some(200), ..room.endpoint(Dialect::Chat) };
    let model = Model::new(endpoint, Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    let ended = converse(&model, order, &[PromptPart::new(PartKind::Task, "Plan.")], &host(&room.clerk));
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(json!({ "approach": "again and again" }))));
    assert_eq!(room.clerk.snapshot().total(TURNS), 1);
}

#[test]
fn a_state_without_tools_gets_its_answer_from_the_service() {
    every(|dialect| {
        let mut steps = json!([{ "json": { "summary": "done" } }]);
        if dialect == Dialect::Anthropic {
            steps = json!([submit()]);
        }
        let mut room = Room::new(steps);
        room.allowance.tools = [Name::from("submit")].into();
        is_done(&room.quick(dialect));
        let log = room.server.log();
        assert_eq!(log[0]["schema"], dialect != Dialect::Anthropic);
        assert_eq!(log[0]["body"]["tool_choice"]["name"] == "submit", dialect == Dialect::Anthropic);
    });
}

#[test]
fn a_long_conversation_is_shortened_and_keeps_what_it_must() {
    every(|dialect| {
        let read = json!({ "call": { "name": "read", "args": { "path": "src/big" } }, "no_usage": true });
        let mut steps = vec![read; 12];
        steps.push(submit());
        let room = Room::new(Json::from(steps));
        std::fs::write(room.folder.path().join("src/big"), "big text\n".repeat(1000)).unwrap();
        let endpoint = ModelEndpoint { context: 20_000, max_output: Some(2000), ..room.endpoint(dialect) };
        let model = Model::new(endpoint, Arc::new(Secrets::new()), Arc::new(RealTime::new()));
        let words = [
            PromptPart::new(PartKind::Task, "THE TASK"),
            PromptPart::new(PartKind::Feedback, "THE FEEDBACK"),
        ];
        is_done(&converse(&model, room.order(), &words, &host(&room.clerk)));
        let log = room.server.log();
        assert_eq!(log.len(), 13);
        let sizes: Vec<usize> = log.iter().map(|entry| entry["body"].to_string().len()).collect();
        assert!(sizes.iter().all(|size| *size < 70_000), "{sizes:?}");
        let last = log[12]["body"].to_string();
        for kept in ["THE TASK", "THE FEEDBACK", "bytes left out", "big text"] {
            assert!(last.contains(kept), "{kept}");
        }
    });
}

#[test]
fn a_service_that_says_it_is_too_long_gets_less() {
    let mut second = json!({ "call": { "name": "read", "args": { "path": "src/big" } } });
    let mut third = submit();
    third["fail"] =
        json!({ "status": 400, "times": 1, "message": "prompt is too long: 9 tokens > 8 maximum" });
    second["text"] = json!("again");
    let room = Room::new(json!([second.clone(), second.clone(), second.clone(), second, third]));
    std::fs::write(room.folder.path().join("src/big"), "big text\n".repeat(1000)).unwrap();
    is_done(&room.quick(Dialect::Chat));
    let log = room.server.log();
    let size = |at: usize| log[at]["body"].to_string().len();
    assert!(log.len() == 6 && size(5) < size(4), "{} {}", size(4), size(5));

    let mut never = submit();
    never["fail"] = json!({ "status": 413, "times": 99 });
    let room = Room::new(json!([never]));
    let ended = room.quick(Dialect::Chat);
    assert!(
        matches!(&ended.outcome, Err(AgentError::CouldNotRun(why)) if why.contains("does not fit")),
        "{ended:?}"
    );
}

#[test]
fn an_endpoint_gets_only_so_many_requests_at_a_time() {
    let room =
        Room::new(json!([{ "call": { "name": "submit", "args": { "summary": "done" } }, "delay": 0.05 }]));
    let endpoint = ModelEndpoint { seats: ConcurrencyLimit::new(2), ..room.endpoint(Dialect::Chat) };
    let model = Model::new(endpoint, Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let ended = converse(
                    &model,
                    room.order(),
                    &[PromptPart::new(PartKind::Task, "x")],
                    &host(&room.clerk),
                );
                is_done(&ended);
            });
        }
    });
    assert_eq!((room.server.most_open(), room.server.log().len()), (2, 8));
}

#[test]
fn seats_are_taken_in_the_order_of_asking() {
    let seats = ConcurrencyLimit::new(1);
    let clerk = RecordingHost::new(&allowance(1));
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let first = seats.take(&clerk).unwrap();
        for number in 0..5 {
            let (seats, clerk, order) = (&seats, &clerk, &order);
            scope.spawn(move || {
                let _seat = seats.take(clerk).unwrap();
                order.lock().unwrap().push(number);
            });
            while seats.waiting() <= number {
                std::thread::yield_now();
            }
        }
        drop(first);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4]);
    let _seat = seats.take(&clerk).unwrap();
    clerk.cancel();
    assert!(matches!(seats.take(&clerk), Err(AgentError::Cancelled)));
    assert_eq!(seats.waiting(), 0);
}

#[test]
fn a_model_without_a_price_has_no_known_cost() {
    let room = Room::new(json!([submit()]));
    let model = Model::new(room.endpoint(Dialect::Chat), Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    let order = SessionOrder { model: Some("other".into()), ..room.order() };
    let ended = converse(&model, order, &[PromptPart::new(PartKind::Task, "x")], &host(&room.clerk));
    is_done(&ended);
    assert_eq!(ended.unknown, BTreeSet::from([Name::from(MONEY)]));
    assert_eq!(room.server.log()[0]["model"], "other");
}

#[test]
fn a_model_that_never_submits_is_ended() {
    let read = json!({ "call": { "name": "read", "args": { "path": "." } } });
    let room = Room::new(Json::from(vec![read; 40]));
    let ended = room.quick(Dialect::Responses);
    assert!(
        matches!(&ended.outcome, Err(AgentError::Bad(why)) if why.contains("asked 20 times")),
        "{ended:?}"
    );
}

#[test]
fn an_error_is_read_so_far_and_no_further() {
    // Two messages of the same beginning: the second is longer than anybody reads, and is no JSON any more.
    for (length, told) in [(1000, true), (80 * 1024, false)] {
        let message = format!("because {}", "x".repeat(length));
        let fail = json!({ "status": 400, "times": 99, "message": message });
        let ended = Room::new(json!([failing(fail)])).quick(Dialect::Chat);
        let Err(AgentError::CouldNotRun(why)) = &ended.outcome else { panic!("{ended:?}") };
        assert_eq!(why.contains("refuses: 400: because xxx"), told, "{}", &why[..why.len().min(200)]);
        assert!(why.len() < 2000, "{} bytes", why.len());
    }
}
