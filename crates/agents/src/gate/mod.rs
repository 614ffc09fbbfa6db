//! The model gate: the only way out of a sandbox that an agent's program has, one for each conversation.
//!
//! It listens on the host. A program sends it what it would send its model service, with a dummy in the place of each
//! key. The gate lets through what the bound dialect asks of the one address, puts the real key in, follows nothing
//! that leads elsewhere, takes the key out of what comes back, and counts the bytes. It never keeps a request, and it
//! answers nobody who does not send the dummy.

mod head;
mod peer;
pub mod proxy;
mod redact;
mod route;

use std::fmt;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

pub use head::{
    HeadError, IncomingRequest, MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, MAX_REQUEST_TIME, RequestReader,
    TimedRead,
};
pub use peer::GatePlace;
use peer::{Listener, Peer};
use redact::Redaction;
pub use route::{AddressError, GateDialect, GateRoute, RouteRefusal};

use crate::contract::SessionLimits;
use crate::model::wire::{NoAnswer, Watch, Wire};
use crate::secrets::SecretKey;
use crate::timing::Timing;

/// How many requests a gate carries at the same time.
pub const MAX_REQUESTS: usize = 32;

/// How many bytes may go through a gate in one conversation, both ways.
pub const MAX_GATE_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Headers that are about one connection, that carry a key, or that say where else to go: they are never passed on.
const DROPPED: [&str; 20] = [
    "accept-encoding",
    "alt-svc",
    "api-key",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "location",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
];

/// Headers in which programs send a key.
const KEYED: [&str; 4] = ["api-key", "authorization", "x-api-key", "x-goog-api-key"];

/// A key, and what stands for it inside.
#[derive(Clone, Debug)]
pub struct GateKey {
    /// What the program has.
    pub dummy: String,
    /// What the service gets.
    pub real: SecretKey,
}

/// What went through a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateTraffic {
    /// Requests that were let through.
    pub requests: u64,
    /// Requests that were not.
    pub refused: u64,
    /// Bytes of bodies that went out.
    pub sent: u64,
    /// Bytes of bodies that came back.
    pub received: u64,
}

/// What is behind a gate.
#[derive(Debug)]
pub struct GateTarget {
    /// The address, and what may be asked there.
    pub route: GateRoute,
    /// The keys that it puts in.
    pub keys: Vec<GateKey>,
    /// How long the service may take and be silent.
    pub limits: SessionLimits,
}

/// A gate. Dropping it closes it, and ends what is on its way.
#[derive(Debug)]
pub struct ModelGate {
    place: GatePlace,
    hall: Arc<GateHall>,
}

/// What the threads of a gate share.
struct GateHall {
    target: GateTarget,
    timing: Arc<dyn Timing>,
    is_closed: Arc<AtomicBool>,
    open: AtomicUsize,
    requests: AtomicU64,
    refused: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl fmt::Debug for GateHall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("GateHall")
    }
}

impl ModelGate {
    /// A gate at a socket that is bound into a sandbox.
    pub fn at_socket(path: &Path, target: GateTarget, timing: Arc<dyn Timing>) -> io::Result<ModelGate> {
        ModelGate::at(Listener::at_socket(path)?, target, timing)
    }

    /// A gate at a port of this machine, where a program has no network of its own.
    pub fn at_port(target: GateTarget, timing: Arc<dyn Timing>) -> io::Result<ModelGate> {
        ModelGate::at(Listener::at_port()?, target, timing)
    }

    fn at(
        (listener, place): (Listener, GatePlace),
        target: GateTarget,
        timing: Arc<dyn Timing>,
    ) -> io::Result<ModelGate> {
        let count = AtomicU64::default;
        let (is_closed, open) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let (requests, refused, sent, received) = (count(), count(), count(), count());
        let hall = Arc::new(GateHall { target, timing, is_closed, open, requests, refused, sent, received });
        let inside = hall.clone();
        let thread = std::thread::Builder::new().name(String::from("gate"));
        thread.spawn(move || receive(&listener, &inside))?;
        Ok(ModelGate { place, hall })
    }

    /// Where it listens.
    pub fn place(&self) -> &GatePlace {
        &self.place
    }

    /// What went through so far.
    pub fn traffic(&self) -> GateTraffic {
        let hall = &self.hall;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        GateTraffic {
            requests: read(&hall.requests),
            refused: read(&hall.refused),
            sent: read(&hall.sent),
            received: read(&hall.received),
        }
    }
}

impl Drop for ModelGate {
    fn drop(&mut self) {
        self.hall.is_closed.store(true, Ordering::Release);
        self.place.close();
    }
}

fn receive(listener: &Listener, hall: &Arc<GateHall>) {
    while !hall.is_closed.load(Ordering::Acquire) {
        let Ok(peer) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        if hall.is_closed.load(Ordering::Acquire) {
            return;
        }
        if hall.open.fetch_add(1, Ordering::AcqRel) >= MAX_REQUESTS {
            hall.open.fetch_sub(1, Ordering::AcqRel);
            hall.refuse(&peer, 503, "too many requests at once");
            continue;
        }
        let inside = hall.clone();
        let serve = move || {
            inside.serve(peer);
            inside.open.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name(String::from("gate request")).spawn(serve).is_err() {
            hall.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Why a request was not carried.
enum Refusal {
    Head(HeadError),
    Route(RouteRefusal),
    /// No key that the gate knows.
    Key,
    /// More bytes than one conversation may have.
    Bytes,
    /// The service leads elsewhere.
    Redirect(u16),
    /// The service was not reached.
    Unreached(String),
}

impl Refusal {
    fn status(&self) -> Option<u16> {
        match self {
            Refusal::Head(error) => error.status(),
            Refusal::Route(refusal) => Some(refusal.status()),
            Refusal::Key => Some(401),
            Refusal::Bytes => Some(429),
            Refusal::Redirect(_) => Some(502),
            Refusal::Unreached(_) => Some(503),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Head(error) => error.fmt(out),
            Refusal::Route(refusal) => refusal.fmt(out),
            Refusal::Key => out.write_str("the gate knows no such key"),
            Refusal::Bytes => write!(out, "more than {MAX_GATE_BYTES} bytes went through the gate"),
            Refusal::Redirect(status) => {
                write!(out, "the service answered {status}: the gate follows no redirect")
            }
            Refusal::Unreached(why) => write!(out, "the service is not reached: {why}"),
        }
    }
}

impl GateHall {
    fn serve(&self, mut peer: Peer) {
        if peer.prepare().is_err() {
            return;
        }
        if let Err(refusal) = self.carry(&mut peer)
            && let Some(status) = refusal.status()
        {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.refuse(&peer, status, &self.redaction().text(&refusal.to_string()));
        }
        peer.shutdown(Shutdown::Both);
    }

    /// Carries one request and its answer.
    fn carry(&self, peer: &mut Peer) -> Result<(), Refusal> {
        let mut reader = RequestReader::new(peer, MAX_REQUEST_TIME);
        let mut request = reader.head().map_err(Refusal::Head)?;
        // Who has no key is not listened to any further.
        let url = self.target.route.target(&request.method, &request.target).map_err(Refusal::Route)?;
        let keys = self.keys_of(&request).ok_or(Refusal::Key)?;
        if request.header("expect").is_some() {
            self.answer_continue(&mut reader)?;
        }
        reader.body(&mut request).map_err(Refusal::Head)?;
        self.count(&self.sent, request.body.len())?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (answer, watch) = self.ask(&url, keys, request)?;
        self.give_back(peer, answer, &watch)
    }

    fn answer_continue(&self, reader: &mut RequestReader<'_, Peer>) -> Result<(), Refusal> {
        let written = reader.peer().write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
        written.map_err(|_| Refusal::Head(HeadError::Gone))
    }

    /// The headers with the real keys, or nothing where no dummy was sent.
    fn keys_of(&self, request: &IncomingRequest) -> Option<Vec<(String, String)>> {
        let mut found = Vec::new();
        for (name, value) in request.headers.iter().filter(|(name, _)| KEYED.contains(&name.as_str())) {
            let word = value.rsplit(' ').next().unwrap_or_default();
            if let Some(key) = self.target.keys.iter().find(|key| same(&key.dummy, word)) {
                let before = &value[..value.len() - word.len()];
                found.push((name.clone(), format!("{before}{}", key.real.expose())));
            }
        }
        (!found.is_empty()).then_some(found)
    }

    fn ask(
        &self,
        url: &str,
        keys: Vec<(String, String)>,
        request: IncomingRequest,
    ) -> Result<(ureq::http::Response<ureq::Body>, Arc<Watch>), Refusal> {
        let wrong = |error: String| Refusal::Unreached(error);
        let mut out = ureq::http::Request::builder().method(request.method.as_str()).uri(url);
        let kept = |(name, _): &(String, String)| {
            !DROPPED.contains(&name.as_str())
                && !KEYED.contains(&name.as_str())
                && !name.starts_with("x-forwarded")
        };
        for (name, value) in request.headers.into_iter().filter(kept).chain(keys) {
            out = out.header(name, value);
        }
        let out = out.body(request.body).map_err(|error| wrong(error.to_string()))?;
        let is_closed = self.is_closed.clone();
        let is_over = Box::new(move || is_closed.load(Ordering::Acquire));
        let watch = Arc::new(Watch::until(is_over, self.timing.clone(), self.target.limits));
        let answer = Wire::new(watch.clone()).forward(out).map_err(|error| match error {
            NoAnswer::Aborted(_) => wrong(String::from("it was not waited for any longer")),
            NoAnswer::Unreached(why) | NoAnswer::Wrong(why) => wrong(why),
        })?;
        let status = answer.status().as_u16();
        if (300..400).contains(&status) {
            return Err(Refusal::Redirect(status));
        }
        Ok((answer, watch))
    }

    /// Gives an answer to the program piece by piece, without keys. A stream that breaks is broken for the program too.
    fn give_back(
        &self,
        peer: &mut Peer,
        answer: ureq::http::Response<ureq::Body>,
        watch: &Watch,
    ) -> Result<(), Refusal> {
        let gone = |_: io::Error| Refusal::Head(HeadError::Gone);
        let mut redaction = self.redaction();
        let mut head = format!("HTTP/1.1 {} -\r\n", answer.status().as_u16());
        for (name, value) in answer.headers() {
            if let (false, Ok(value)) = (DROPPED.contains(&name.as_str()), value.to_str()) {
                head.push_str(&format!("{name}: {}\r\n", redaction.text(value)));
            }
        }
        head.push_str("connection: close\r\ntransfer-encoding: chunked\r\n\r\n");
        peer.write_all(head.as_bytes()).map_err(gone)?;
        let mut body = answer.into_body().into_reader();
        let mut piece = [0; 16 * 1024];
        loop {
            let read = io::Read::read(&mut body, &mut piece).map_err(gone)?;
            watch.hear();
            self.count(&self.received, read).map_err(|_| Refusal::Head(HeadError::Gone))?;
            let clean = if read == 0 { redaction.end() } else { redaction.piece(&piece[..read]) };
            if !clean.is_empty() {
                write_chunk(peer, &clean).map_err(gone)?;
            }
            if read == 0 {
                return peer.write_all(b"0\r\n\r\n").map_err(gone);
            }
        }
    }

    fn redaction(&self) -> Redaction {
        Redaction::new(self.target.keys.iter().map(|key| key.real.expose().as_bytes().to_vec()))
    }

    fn count(&self, of: &AtomicU64, bytes: usize) -> Result<(), Refusal> {
        of.fetch_add(bytes as u64, Ordering::Relaxed);
        let all = self.sent.load(Ordering::Relaxed) + self.received.load(Ordering::Relaxed);
        if all > MAX_GATE_BYTES { Err(Refusal::Bytes) } else { Ok(()) }
    }

    fn refuse(&self, peer: &Peer, status: u16, why: &str) {
        let body = serde_json::json!({ "error": { "type": "ftl_gate", "message": why } }).to_string();
        let head = format!(
            "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        if let Ok(mut out) = peer.try_clone() {
            let _ = out.write_all(head.as_bytes()).and_then(|()| out.write_all(body.as_bytes()));
        }
    }
}

fn write_chunk(peer: &mut Peer, bytes: &[u8]) -> io::Result<()> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    peer.write_all(&framed)
}

/// Whether two words are the same, in a time that does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
