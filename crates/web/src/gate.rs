//! Who may ask, before anything is routed: the host that was asked for, where a page came from, the form of what is sent,
//! the token, and the process at the far end of the connection.
//!
//! Each row of the table of threats in `docs/serve.md` is a function here, and each is tried by hand in the tests.

use std::net::SocketAddr;
use std::path::PathBuf;

use ftl_process::lineage::{Alive, guards_in};
use ftl_process::peer::{self, PeerKind};
use ftl_store::owner;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN, TRANSFER_ENCODING};

use crate::tickets::Tickets;

/// Why something is refused, as a status and words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

/// What is sent with a request and decides whether it is answered.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    /// The headers, as they came.
    pub(crate) headers: &'a HeaderMap,
    /// Whether it changes something.
    pub(crate) writes: bool,
    /// The port of the server.
    pub(crate) port: u16,
}

fn refuse(status: u16, message: impl Into<String>, hint: &'static str) -> Refusal {
    Refusal { status, message: message.into(), hint }
}

/// The names under which this server may be asked: all of them are this machine.
fn hosts(port: u16) -> [String; 3] {
    ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"))
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The host must be ours, exactly. A page that has its own name point at this machine asks for its own name.
pub(crate) fn host(envelope: Envelope<'_>) -> Result<(), Refusal> {
    let mut all = envelope.headers.get_all(HOST).iter();
    let (one, more) = (all.next(), all.next());
    match (one.and_then(|host| host.to_str().ok()), more) {
        (Some(host), None) if hosts(envelope.port).iter().any(|ours| ours == host) => Ok(()),
        (Some(_), None) => Err(refuse(
            421,
            "this server answers to this machine's own names only",
            "open the printed address",
        )),
        (None, _) | (Some(_), Some(_)) => {
            Err(refuse(400, "a request names one host", "open the printed address"))
        }
    }
}

/// What changes something must come from our own page, as JSON, whole.
pub(crate) fn write(envelope: Envelope<'_>) -> Result<(), Refusal> {
    let text = |name: &HeaderName| envelope.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    // A person who opens an address comes from nowhere, and changes nothing by it.
    let is_ours = |site: &str| site == "same-origin" || (site == "none" && !envelope.writes);
    if !text(&SEC_FETCH_SITE).is_none_or(is_ours) {
        return Err(refuse(403, "another page asks", "use the page that this server serves"));
    }
    if !envelope.writes {
        return Ok(());
    }
    let ours = |origin: &str| hosts(envelope.port).iter().any(|host| origin == format!("http://{host}"));
    if !text(&ORIGIN).is_some_and(ours) {
        return Err(refuse(
            403,
            "it does not say that our own page asks",
            "use the page, or the command line",
        ));
    }
    if text(&TRANSFER_ENCODING).is_some() {
        return Err(refuse(411, "a body says how long it is", "send it whole, with Content-Length"));
    }
    let is_json = |kind: &str| kind.split(';').next().unwrap_or_default().trim() == "application/json";
    if !text(&CONTENT_TYPE).is_some_and(is_json) {
        return Err(refuse(415, "only application/json is taken", "send JSON"));
    }
    Ok(())
}

/// Everything of the API but the opening of a session carries the token of one.
pub(crate) fn token(headers: &HeaderMap, tickets: &Tickets) -> Result<(), Refusal> {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match sent.and_then(|text| text.strip_prefix("Bearer ")) {
        Some(token) if tickets.knows(token) => Ok(()),
        Some(_) | None => Err(refuse(
            401,
            "no session",
            "press Enter in the terminal where `ftl serve` runs, and open the new address",
        )),
    }
}

/// The folders in which live guards and drivers are named.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    pub(crate) attempts: PathBuf,
    pub(crate) owners: PathBuf,
}

/// Whether the process at the far end of a connection may ask anything at all.
pub(crate) fn far_end(far: SocketAddr, near: SocketAddr, folders: &Folders) -> Result<(), Refusal> {
    let (guards, drivers) = (guards_in(&folders.attempts), owner::living(&folders.owners));
    let alive = Alive { guards: &guards, drivers: &drivers };
    let hint = "only a person may look here, with a browser of their own";
    let unknown = |what: String| refuse(403, format!("it cannot be told who asks: {what}"), hint);
    let found = peer::find(far, near).map_err(|error| unknown(error.to_string()))?;
    let Some(found) = found else { return Err(unknown(String::from("the connection is not listed"))) };
    match peer::judge(&found, alive).map_err(|error| unknown(error.to_string()))? {
        PeerKind::Person => Ok(()),
        PeerKind::OtherUser(user) => Err(refuse(403, format!("user {user} is somebody else"), hint)),
        PeerKind::Agent(agent) => {
            let text = format!("this comes from inside an agent's process tree (process {})", agent.pid);
            Err(refuse(403, text, hint))
        }
        PeerKind::Unseen(pid) => {
            Err(unknown(format!("process {pid} is inside an agent and hides what it holds")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        map
    }

    fn status(check: Result<(), Refusal>) -> u16 {
        check.map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn only_our_own_names_are_answered_to() {
        let cases: [(&[(&str, &str)], u16); 9] = [
            (&[("host", "127.0.0.1:7717")], 200),
            (&[("host", "localhost:7717")], 200),
            (&[("host", "[::1]:7717")], 200),
            (&[("host", "localhost:7718")], 421),
            (&[("host", "localhost")], 421),
            (&[("host", "127.0.0.1.evil.example:7717")], 421),
            (&[("host", "evil.example:7717")], 421),
            (&[], 400),
            (&[("host", "localhost:7717"), ("host", "evil.example")], 400),
        ];
        for (sent, wanted) in cases {
            let sent = headers(sent);
            assert_eq!(
                status(host(Envelope { headers: &sent, writes: false, port: 7717 })),
                wanted,
                "{sent:?}"
            );
        }
    }

    #[test]
    fn what_writes_is_json_from_our_own_page() {
        let own = ("origin", "http://localhost:7717");
        let json = ("content-type", "application/json");
        type Header<'a> = (&'a str, &'a str);
        let cases: [(&[Header<'_>], bool, u16); 13] = [
            (&[own, json], true, 200),
            (&[own, ("content-type", "application/json; charset=utf-8")], true, 200),
            (&[json], true, 403),
            (&[("origin", "null"), json], true, 403),
            (&[("origin", "http://localhost:8000"), json], true, 403),
            (&[("origin", "https://localhost:7717"), json], true, 403),
            (&[own, ("content-type", "text/plain")], true, 415),
            (&[own], true, 415),
            (&[own, json, ("transfer-encoding", "chunked")], true, 411),
            (&[own, json, ("sec-fetch-site", "same-site")], true, 403),
            (&[own, json, ("sec-fetch-site", "none")], true, 403),
            (&[("sec-fetch-site", "none")], false, 200),
            (&[("sec-fetch-site", "cross-site")], false, 403),
        ];
        for (sent, writes, wanted) in cases {
            let sent = headers(sent);
            assert_eq!(status(write(Envelope { headers: &sent, writes, port: 7717 })), wanted, "{sent:?}");
        }
    }
}
