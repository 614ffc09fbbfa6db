//! The server: what it holds, its threads, how it begins and how it ends.
//!
//! One thread answers HTTP with a small runtime of its own, a few threads compute what is asked for, one looks at the
//! store, and one waits for Enter on the terminal, which prints a new address. None of them drives a run.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead as _, IsTerminal as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ftl_command::documents::Documents;
use ftl_command::known::RunOverview;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session, signals};
use ftl_engine::drive::StopSignal;
use ftl_folder::id::RunId;
use ftl_store::RunRow;
use ftl_view::paint::{self, paint, safe};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use crate::api::{Answer, ApiError, Asked};
use crate::gate::{self, Envelope, Folders, Refusal};
use crate::http::{
    Body, BodyFault, Clock, MAX_ARRIVAL, MAX_CONNECTIONS, MAX_HEADER_BYTES, MAX_HEADERS, Wire, collect,
};
use crate::server::{Server, WATCHED};
use crate::stream::LOOK;
use crate::{assets, openapi, routes};

/// How many threads compute answers at most.
const MAX_THREADS: usize = 16;

/// How often the drivers of runs are looked at: that one has died stands in no store.
const DRIVERS: Duration = Duration::from_secs(1);

/// How long the watcher sleeps while there is no follower.
const IDLE: Duration = Duration::from_secs(1);

/// The options of `ftl serve`.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// The port on loopback; 0 is any that is free.
    pub port: u16,
    /// Whether a browser is opened.
    pub open: bool,
    /// Whether orders are refused.
    pub look: bool,
}

/// Serves until a person ends it.
pub fn serve(
    cli: &GlobalArgs,
    options: ServeOptions,
    documents: Box<dyn Documents>,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let by = session::person(cli, &place)?;
    let session = session::open(cli)?;
    let listeners = listen(options.port)?;
    let port = listeners.first().and_then(|one| one.local_addr().ok()).map_or(0, |near| near.port());
    let server = Arc::new(Server::of(cli, session, documents, (by, options.look, port), openapi::document()));
    let stop = signals::stop(out)?;
    let address = new_address(&server)?;
    tell(&server, &address, out)?;
    if options.open {
        open_browser(&address);
    }
    let watching = server.clone();
    spawn("watch", move || watch(&watching))?;
    let asking = server.clone();
    spawn("addresses", move || offer_addresses(&asking))?;
    answer_all(&server, listeners, &stop)?;
    Ok(ExitStatus::Done)
}

/// The page with one run in it as a file: the name of the run as it is kept, and the text.
pub fn export(
    cli: &GlobalArgs,
    named: &str,
    documents: Box<dyn Documents>,
) -> Result<(RunId, String), CommandError> {
    let session = session::open(cli)?;
    let target = ftl_engine::session::find(&**session.store(), named);
    let run = target.map_err(|error| session::session_failure(&error))?.row.run;
    let by = cli.by.clone().unwrap_or_default();
    let server = Server::of(cli, session, documents, (by, true, 0), openapi::document());
    let text = crate::export::html(&server, &run).map_err(CommandError::from)?;
    Ok((run, text))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), CommandError> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| machine(&error))
}

fn machine(error: &std::io::Error) -> CommandError {
    CommandError::new(format!("the page cannot be served: {error}"), "run `ftl doctor`")
}

/// Both loopbacks on one port; the second is left out where the machine has none.
fn listen(port: u16) -> Result<Vec<TcpListener>, CommandError> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        let hint = "another `ftl serve` may be there already; `--port 0` takes any port that is free";
        CommandError::new(format!("port {port} of 127.0.0.1 cannot be had: {error}"), hint)
    })?;
    let port = first.local_addr().map_err(|error| machine(&error))?.port();
    let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).ok();
    let all: Vec<TcpListener> = std::iter::once(first).chain(second).collect();
    all.iter().try_for_each(|one| one.set_nonblocking(true)).map_err(|error| machine(&error))?;
    Ok(all)
}

/// An address that opens one session.
fn new_address(server: &Server) -> Result<String, CommandError> {
    let ticket = server.tickets.issue().map_err(|error| machine(&error))?;
    Ok(format!("http://127.0.0.1:{}/#ticket={ticket}", server.port))
}

fn tell(server: &Server, address: &str, out: &Out) -> Result<(), CommandError> {
    if out.is_json() {
        return out.json(&json!({ "address": address, "port": server.port, "may": server.may() }));
    }
    let root = safe(&server.session.place().root().display().to_string());
    out.text(&format!(
        "{root}\n{}\n{}\n",
        paint(paint::HINT, address),
        paint(paint::QUIET, "opens one session, within two minutes; Enter prints another, Ctrl-C ends it"),
    ))
}

/// Each line on the terminal is a wish for another address.
fn offer_addresses(server: &Server) {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return;
    }
    let out = Out::new(false);
    for line in input.lock().lines() {
        let Ok(_) = line else { return };
        match new_address(server) {
            Ok(address) => out.beside(&format!("{}\n", paint(paint::HINT, address))),
            Err(failure) => out.error(&failure),
        }
    }
}

/// Opens the person's browser. Where there is none, the address stands on the terminal.
fn open_browser(address: &str) {
    use std::process::{Command, Stdio};
    let mut open = Command::new("xdg-open");
    open.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = open.spawn() {
        let _ = std::thread::Builder::new().spawn(move || child.wait());
    }
}

/// Looks what has changed, and tells all followers.
fn watch(server: &Server) {
    let mut seen: BTreeMap<RunId, (u64, &'static str)> = BTreeMap::new();
    let (mut version, mut drivers) = (None, Instant::now());
    let mut talks: BTreeMap<(RunId, String), usize> = BTreeMap::new();
    let mut needs = 0;
    loop {
        if !server.hub.await_follower(IDLE) {
            (version, needs) = (None, 0);
            seen.clear();
            talks.clear();
            continue;
        }
        server.hub.beat();
        let now = server.session.store().version().ok();
        let is_late = drivers.elapsed() >= DRIVERS;
        if now != version || is_late {
            drivers = if is_late { Instant::now() } else { drivers };
            version = now;
            if let Ok(all) = server.overviews(WATCHED) {
                let changed = changes(server, &all, &mut seen, now.unwrap_or(0));
                if changed {
                    needs = crate::api::tell_needs(server, needs, now.unwrap_or(0));
                }
            }
        }
        for run in server.hub.followed() {
            crate::api::tasks::tell_words(server, &run, &mut talks, version.unwrap_or(0));
        }
        std::thread::sleep(LOOK);
    }
}

/// Tells of runs that grew or stand otherwise; whether there are any.
fn changes(
    server: &Server,
    all: &[RunOverview],
    seen: &mut BTreeMap<RunId, (u64, &'static str)>,
    version: u64,
) -> bool {
    let mut any = false;
    let followed = server.hub.followed();
    for known in all {
        let RunRow { run, head, .. } = &known.row;
        let now = (*head, known.standing().word());
        let is_new_follower = followed.contains(run) && !server.hub.is_told(run);
        if seen.insert(run.clone(), now) == Some(now) && !is_new_follower {
            continue;
        }
        any = true;
        server.hub.tell(None, "summary", version, &crate::api::runs::document(known));
        if followed.contains(run)
            && let Ok(model) = server.runs.at(run, None)
        {
            server.hub.tell_rows(run, model.at(), version, &model.task_rows());
            server.hub.tell(Some(run), "entries", version, &json!({ "run": run, "head": model.at() }));
        }
    }
    any
}

fn answer_all(
    server: &Arc<Server>,
    listeners: Vec<TcpListener>,
    stop: &StopSignal,
) -> Result<(), CommandError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(MAX_THREADS).build();
    let runtime = runtime.map_err(|error| machine(&error))?;
    let accepted = runtime.block_on(async {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(accept(server.clone(), listener, room.clone()));
        }
        while stop.times_said() == 0 {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    });
    // Streams and answers that go on do not keep the process from ending.
    runtime.shutdown_background();
    accepted.map_err(|error: std::io::Error| machine(&error))
}

async fn accept(server: Arc<Server>, listener: tokio::net::TcpListener, room: Arc<Semaphore>) {
    loop {
        let Ok((stream, far)) = listener.accept().await else {
            tokio::time::sleep(LOOK).await;
            continue;
        };
        // One connection too many is closed at once.
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let server = server.clone();
        tokio::spawn(async move {
            let _permit = permit;
            connection(server, stream, far).await;
        });
    }
}

async fn connection(server: Arc<Server>, stream: tokio::net::TcpStream, far: SocketAddr) {
    let Ok(near) = stream.local_addr() else { return };
    let place = server.session.place();
    let folders = Folders { attempts: place.attempts(), owners: place.owners() };
    let looked = tokio::task::spawn_blocking(move || gate::far_end(far, near, &folders)).await;
    let Ok(verdict) = looked else { return };
    let service = service_fn(move |request| {
        let (server, verdict) = (server.clone(), verdict.clone());
        async move { Ok::<_, Infallible>(respond(server, verdict, request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(Clock).header_read_timeout(MAX_ARRIVAL);
    builder.max_buf_size(MAX_HEADER_BYTES).max_headers(MAX_HEADERS);
    // A client that goes away in the middle has seen enough.
    let _ = builder.serve_connection(Wire(stream), service).await;
}

/// The answer to a request, whatever becomes of it.
async fn respond(
    server: Arc<Server>,
    verdict: Result<(), Refusal>,
    request: Request<Incoming>,
) -> Response<Body> {
    let answer = match verdict {
        Err(refusal) => Err(ApiError::from(refusal)),
        Ok(()) => route(server, request).await,
    };
    let (status, kind, body) = match answer {
        Ok(Answer::Json(status, json)) => (status, "application/json", whole(json.to_string())),
        Ok(Answer::Page(kind, bytes)) => (200, kind, Body::Whole(Some(Bytes::from_static(bytes)))),
        Ok(Answer::Stream(pieces)) => (200, "text/event-stream", Body::Stream(pieces)),
        Err(error) => (error.status, "application/json", whole(error.json().to_string())),
    };
    let mut response = Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// The headers of every answer.
const HEADERS: [(&str, &str); 7] = [
    ("cache-control", "no-store"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

fn whole(text: String) -> Body {
    Body::Whole(Some(Bytes::from(text)))
}

async fn route(server: Arc<Server>, request: Request<Incoming>) -> Result<Answer, ApiError> {
    let (head, body) = request.into_parts();
    let writes = head.method != hyper::Method::GET;
    let envelope = Envelope { headers: &head.headers, writes, port: server.port };
    gate::host(envelope)?;
    let Some(path) = head.uri.path().strip_prefix("/api/v1/") else {
        // The page itself tells nothing: a link may lead to it from anywhere.
        return match assets::find(head.uri.path()).filter(|_| !writes) {
            Some((kind, bytes)) => Ok(Answer::Page(kind, bytes)),
            None => Err(ApiError::unknown("there is no such page")),
        };
    };
    gate::write(envelope)?;
    if path != "session" {
        gate::token(&head.headers, &server.tickets)?;
    }
    let (route, params) = routes::find(head.method.as_str(), path).map_err(|is_other| match is_other {
        true => ApiError::new(405, "this cannot be asked so", "GET looks, POST leaves an order"),
        false => ApiError::unknown("there is no such thing to ask for"),
    })?;
    let body = if writes { read_body(body).await? } else { Json::Null };
    let key = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let asked = Asked { params, query: routes::query(head.uri.query().unwrap_or_default()), body, key };
    let answer = tokio::task::spawn_blocking(move || (route.handler)(&server, &asked)).await;
    answer.unwrap_or_else(|_| Err(ApiError::new(500, "the answer failed", "run `ftl doctor`")))
}

async fn read_body(body: Incoming) -> Result<Json, ApiError> {
    let arrived = tokio::time::timeout(MAX_ARRIVAL, collect(body)).await;
    let bytes = match arrived {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(BodyFault::TooLarge)) => {
            return Err(ApiError::new(413, "the body is too large", "one MiB is the most"));
        }
        Ok(Err(BodyFault::Cut)) | Err(_) => {
            return Err(ApiError::new(408, "the body did not arrive", "send it whole"));
        }
    };
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::new(400, format!("the body is no JSON: {error}"), "send JSON"))
}
