//! A scripted model server: a stand-in *model*, never a stand-in agent, on loopback.
//!
//! It speaks OpenAI chat completions, OpenAI responses, Anthropic messages and Gemini's `generateContent`, streaming or not. Which
//! step of a scenario answers is found from the request alone, so sessions side by side, sessions that
//! are resumed and requests that are repeated never disturb one another; the only thing that is counted
//! is how often a step was asked for. Paths may begin with `/s/NAME` to choose a scenario; a marker
//! `[[scenario:NAME]]` in what the user says does the same and wins. A scenario with `pick: [[WORDS, NAME], …]` hands over to the first
//! whose words stand in the conversation.
//!
//! A step may say `text`, `think`, `json`, `call` or `calls` (`@write`, `@shell`, `@read`, `*suffix`,
//! `!name` for a tool that is not on offer, or a plain name), `usage {in, out, cached}`, `stop`, `delay`, `chunk_delay`, `fail {status, times,
//! retry_after, message}`, `cut`, `hang`, `raw_args`; and, beyond the reference, `kind` (another content
//! type), `cut` with a number (only so many times), `flood` (bytes of text without an end), `dribble` (bytes one by one, never an event) and
//! `no_usage`. Where a client makes the model choose a tool by a schema, `call` names the choice, and `fills` an answer that goes on until
//! the schema or `max_tokens` ends it. Times are seconds.

mod gemini;
mod http;
mod plan;
mod request;
mod speak;

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};

use http::Request;

/// The server; it stops when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stopped: AtomicBool,
    open: AtomicUsize,
    most_open: AtomicUsize,
    cwd: String,
}

struct State {
    scenarios: BTreeMap<String, Json>,
    log: Vec<Json>,
    fails: BTreeMap<(String, usize), u64>,
    count: u64,
    /// Streams that wait in a hang or a dribble.
    stalled: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, entry: Json) {
        self.lock().log.push(entry);
        self.changed.notify_all();
    }

    /// Waits for a time, or until the server stops; whether it goes on.
    fn wait(&self, seconds: f64) -> bool {
        let end = std::time::Instant::now() + Duration::from_secs_f64(seconds.max(0.0));
        let mut state = self.lock();
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if self.stopped.load(Ordering::Relaxed) || left.is_zero() {
                return !self.stopped.load(Ordering::Relaxed);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Tells those who wait for it that a stream stands still, or goes on.
    fn stall(&self, more: bool) {
        let mut state = self.lock();
        state.stalled = if more { state.stalled + 1 } else { state.stalled.saturating_sub(1) };
        drop(state);
        self.changed.notify_all();
    }
}

impl ModelServer {
    /// Starts a server on a free port with these scenarios, each `{"steps": […]}`.
    pub fn start(scenarios: Json) -> io::Result<ModelServer> {
        ModelServer::in_folder(scenarios, ".")
    }

    /// The same, with what `{{cwd}}` stands for where a prompt does not say it.
    pub fn in_folder(scenarios: Json, cwd: &str) -> io::Result<ModelServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let mut all = BTreeMap::from([("default".to_owned(), plan::default_scenario())]);
        all.insert("text".to_owned(), json!({ "steps": [{ "text": "plain answer" }] }));
        if let Json::Object(given) = scenarios {
            all.extend(given);
        }
        let state = State { scenarios: all, log: Vec::new(), fails: BTreeMap::new(), count: 0, stalled: 0 };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            cwd: cwd.to_owned(),
        });
        let accepting = shared.clone();
        std::thread::Builder::new()
            .name("model server".into())
            .spawn(move || accept(&listener, &accepting))?;
        Ok(ModelServer { address, shared })
    }

    /// The base of its addresses up to `/v1`, for a scenario.
    pub fn url(&self, scenario: &str) -> String {
        format!("http://{}/s/{scenario}/v1", self.address)
    }

    /// The address and the port where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, as the reference server logs it.
    pub fn log(&self) -> Vec<Json> {
        self.shared.lock().log.clone()
    }

    /// The most requests that were open at the same time.
    pub fn most_open(&self) -> usize {
        self.shared.most_open.load(Ordering::Relaxed)
    }

    /// Waits until a stream stands still: it hangs or dribbles. Panics after ten seconds.
    pub fn wait_until_stalled(&self) {
        let mut state = self.shared.lock();
        for _ in 0..100 {
            if state.stalled > 0 {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        panic!("no stream of the model server stands still");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        // Wakes the thread that accepts, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        let serve = move || drop(serve(&stream, &shared));
        let _ = std::thread::Builder::new().stack_size(256 * 1024).spawn(serve);
    }
}

/// Serves one connection until it is closed.
fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader)? {
        let open = shared.open.fetch_add(1, Ordering::Relaxed) + 1;
        shared.most_open.fetch_max(open, Ordering::Relaxed);
        let goes_on = answer(stream, &request, shared);
        shared.open.fetch_sub(1, Ordering::Relaxed);
        if !goes_on? {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
    Ok(())
}

/// Answers a request; whether the connection stays open.
fn answer(stream: &TcpStream, request: &Request, shared: &Shared) -> io::Result<bool> {
    let (scenario, path) = request.route();
    match (request.method.as_str(), path.as_str()) {
        ("HEAD", _) => http::send(stream, 200, "text/plain", &[], b""),
        ("GET", "/__log") => http::send_json(stream, 200, &[], &Json::from(shared.lock().log.clone())),
        ("GET", "/__health") => {
            let count = shared.lock().count;
            http::send_json(stream, 200, &[], &json!({ "ok": true, "requests": count }))
        }
        ("GET", path) if path.ends_with("/models") => http::send_json(stream, 200, &[], &models()),
        ("POST", "/__reset") => {
            let mut state = shared.lock();
            state.log.clear();
            state.fails.clear();
            drop(state);
            http::send_json(stream, 200, &[], &json!({ "ok": true }))
        }
        ("PUT", "/__scenarios") => {
            let given: Json = serde_json::from_slice(&request.body)?;
            shared.lock().scenarios.extend(given.as_object().cloned().unwrap_or_default());
            http::send_json(stream, 200, &[], &json!({ "ok": true }))
        }
        ("POST", path) => return speak::post(stream, request, &scenario, path, shared),
        _ => http::send_json(stream, 404, &[], &json!({ "error": { "message": "not found" } })),
    }?;
    Ok(true)
}

fn models() -> Json {
    let one = |id: &str| json!({ "id": id, "object": "model", "type": "model", "display_name": id, "owned_by": "scripted", "created": 1 });
    json!({ "object": "list", "has_more": false, "data": [one("scripted"), one("scripted-mini")] })
}
