//! The figures of agents: what a turn costs beside a bare HTTP client, and what many sessions weigh.
//!
//! The model server runs in a process of its own, so that only our side is weighed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its figures")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use ftl_agents::contract::{Backend, PartKind, PromptPart, SessionLimits, SessionOrder, TurnRest, converse};
use ftl_agents::model::concurrency::ConcurrencyLimit;
use ftl_agents::model::{Dialect, Model, ModelEndpoint};
use ftl_agents::scripted::{Script, Scripted};
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::RealTime;
use ftl_testkit::model_server::ModelServer;
use ftl_testkit::speakers::{RecordingHost, allowance, endpoint, host, order};
use serde_json::json;

const TURNS: usize = 300;
const SESSIONS: usize = 200;

fn main() {
    if std::env::args().any(|word| word == "--serve") {
        return serve();
    }
    let server = Served::start();
    for dialect in Dialect::ALL {
        latency(&server.url, dialect);
    }
    crowd(&server.url);
    scripts();
}

fn serve() {
    let submit =
        json!({ "text": "Here it is.", "call": { "name": "submit", "args": { "summary": "done" } } });
    let server = ModelServer::start(json!({ "case": { "steps": vec![submit; TURNS + 9] } })).unwrap();
    println!("{}", server.url("case"));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// The model server in a process of its own.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start() -> Served {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Served { child, url: url.trim().to_owned() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn model(endpoint: ModelEndpoint) -> Model {
    Model::new(endpoint, Arc::new(Secrets::new()), Arc::new(RealTime::new()))
}

fn ordered(folder: &std::path::Path) -> SessionOrder {
    SessionOrder {
        limits: SessionLimits { requests: u32::MAX, ..SessionLimits::default() },
        ..order(folder, &allowance(9))
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The first turn of fresh sessions against the same request by a bare client.
fn latency(url: &str, dialect: Dialect) {
    let folder = tempfile::tempdir().unwrap();
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let backend = model(endpoint(dialect, url));
    let words = [PromptPart::new(PartKind::Task, "Do it.")];
    let path = match dialect {
        Dialect::Chat => "/chat/completions",
        Dialect::Responses => "/responses",
        Dialect::Anthropic => "/messages",
    };
    let body = json!({ "model": "scripted", "stream": true, "input": "Do it.", "max_tokens": 9,
        "messages": [{ "role": "user", "content": "Do it." }],
        "tools": [{ "type": "function", "name": "submit", "parameters": {}, "input_schema": {},
            "function": { "name": "submit", "parameters": {} } }] });
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let mut session = backend.open(ordered(folder.path()), host(&clerk)).unwrap();
        let began = Instant::now();
        assert!(matches!(session.turn(&words), Ok(TurnRest::Submitted(_))));
        ours.push(began.elapsed());
        session.close();
        let agent = ureq::Agent::new_with_defaults();
        let began = Instant::now();
        let mut answer = agent.post(format!("{url}{path}")).send(body.to_string()).unwrap();
        assert!(answer.body_mut().read_to_string().unwrap().contains("submit"));
        bare.push(began.elapsed());
    }
    let (ours, bare) = (median(ours), median(bare));
    println!(
        "{}: a turn {ours:?}, a bare client {bare:?}, added {:?}",
        dialect.word(),
        ours.saturating_sub(bare)
    );
}

/// How much memory this process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Many sessions at once, each with its connection open and its conversation in memory.
fn crowd(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let backend = model(ModelEndpoint { seats: ConcurrencyLimit::new(16), ..endpoint(Dialect::Chat, url) });
    let before = resident();
    let all = Barrier::new(SESSIONS + 1);
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
                    let mut session = backend.open(ordered(folder.path()), host(&clerk)).unwrap();
                    let began = Instant::now();
                    for _ in 0..5 {
                        session.turn(&[PromptPart::new(PartKind::Task, "Do it.")]).unwrap();
                    }
                    let took = began.elapsed();
                    all.wait();
                    all.wait();
                    session.close();
                    took
                })
            })
            .collect();
        all.wait();
        let held = resident().saturating_sub(before);
        println!("{SESSIONS} sessions: {} KiB each, threads included", held / SESSIONS as u64);
        all.wait();
        times.extend(running.into_iter().map(|one| one.join().unwrap()));
    });
    let slowest = times.iter().max().copied().unwrap_or_default();
    println!("five turns of each behind 16 seats: median {:?}, slowest {slowest:?}", median(times));
}

fn scripts() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[[scene]]\n[[scene.step]]\ncalls = [{ tool = \"write\", path = \"src/a\", content = \"x\" }]\n\
        [[scene.step]]\nsubmit = { summary = \"done\" }\n";
    let script = Script::parse(script).unwrap();
    let backend = Scripted::new("scripted", script, Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    let began = Instant::now();
    for _ in 0..1000 {
        let clerk = Arc::new(RecordingHost::new(&allowance(9)));
        let words = [PromptPart::new(PartKind::Task, "Do it.")];
        assert!(converse(&backend, ordered(folder.path()), &words, &host(&clerk)).outcome.is_ok());
    }
    println!("1,000 scripted sessions that write a file: {:?}", began.elapsed());
}
