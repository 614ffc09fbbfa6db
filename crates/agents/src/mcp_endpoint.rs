//! The window: how an agent's own program reaches the tools of its state.
//!
//! A program that speaks MCP is told to start `ftl mcp`, which speaks to this window over a socket in a
//! folder of our own. The window offers tools and hands calls in, one after the other; the session that holds it
//! answers them. It never makes a call itself, and never lets a program wait for a session that is gone: a window
//! that is dropped ends all its conversations.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read as _};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ftl_process::sandbox::{Reach, SocketBind};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::contract::{MAX_ANSWER_BYTES, McpEndpoint};
use crate::launch::Waker;

/// The variable that tells `ftl mcp` where its window is.
pub const VARIABLE: &str = "FTL_WINDOW";

/// How many conversations a window has at once.
pub const MAX_VISITORS: usize = 16;

/// How long one call may be, on the wire.
pub const MAX_CALL_BYTES: usize = MAX_ANSWER_BYTES + 64 * 1024;

/// How an agent is told to reach the window: an MCP server to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The path of the program to start.
    pub program: PathBuf,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: Vec<(String, String)>,
}

/// A tool as it is told through the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The tool's name.
    pub name: String,
    /// What the tool does, for the agent.
    pub about: String,
    /// The JSON schema of what it takes.
    pub takes: Json,
}

/// What comes in on the wire.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    tool: String,
    args: Json,
}

/// The answer to a call, as it goes out on the wire.
#[derive(Debug, Serialize, Deserialize)]
struct Answered {
    ok: bool,
    text: String,
}

/// A call that the agent's program made through a window.
#[derive(Debug)]
pub struct McpCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub args: Json,
    reply: Sender<Answered>,
}

/// What an agent reads of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolAnswer {
    /// The result of the call.
    Done(String),
    /// What went wrong: the tool has an error for it.
    Failed(String),
}

impl McpCall {
    /// Answers it: this goes back to the agent.
    pub fn answer(self, back: ToolAnswer) {
        let (ok, text) = match back {
            ToolAnswer::Done(text) => (true, text),
            ToolAnswer::Failed(why) => (false, why),
        };
        let _ = self.reply.send(Answered { ok, text });
    }
}

/// A window. Dropping it closes it.
#[derive(Debug)]
pub struct McpBridge {
    path: PathBuf,
    calls: Receiver<McpCall>,
    room: Arc<Room>,
    mcp_endpoint: McpEndpoint,
}

/// What the threads of a window share.
#[derive(Debug)]
struct Room {
    offers: Vec<Offer>,
    closed: AtomicBool,
    visitors: Mutex<BTreeMap<u64, UnixStream>>,
    /// Who is woken by a call.
    waker: Mutex<Option<Waker>>,
}

impl McpBridge {
    /// Opens a window with these tools, under a name that belongs to one session.
    pub fn open(mcp_endpoint: &McpEndpoint, name: &str, offers: Vec<Offer>) -> io::Result<McpBridge> {
        let path = mcp_endpoint.folder.join(name);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let (send, calls) = channel();
        let room = Arc::new(Room {
            offers,
            closed: AtomicBool::new(false),
            visitors: Mutex::default(),
            waker: Mutex::default(),
        });
        let inside = room.clone();
        std::thread::Builder::new()
            .name(String::from("window"))
            .spawn(move || receive(&listener, &inside, &send))?;
        Ok(McpBridge { path, calls, room, mcp_endpoint: mcp_endpoint.clone() })
    }

    /// How an agent is told to reach it.
    pub fn server(&self) -> Server {
        let env = vec![(VARIABLE.to_owned(), self.path.to_string_lossy().into_owned())];
        Server { program: self.mcp_endpoint.program.clone(), args: self.mcp_endpoint.args.clone(), env }
    }

    /// What a program needs to reach it from a sandbox.
    pub fn reach(&self) -> Reach {
        let socket = SocketBind { outside: self.path.clone(), inside: self.path.clone() };
        Reach { read: vec![self.mcp_endpoint.program.clone()], sockets: vec![socket], ..Reach::default() }
    }

    /// Has the session woken by each call from now on, and by those that it has not taken yet.
    pub fn wake_by_calls(&self, waker: Waker) {
        waker.wake();
        *self.room.waker() = Some(waker);
    }

    /// The next call, within a time.
    pub fn next(&self, limit: Duration) -> Option<McpCall> {
        self.calls.recv_timeout(limit).ok()
    }
}

impl Drop for McpBridge {
    fn drop(&mut self) {
        self.room.closed.store(true, Ordering::Release);
        for visitor in self.room.visitors().values() {
            let _ = visitor.shutdown(Shutdown::Both);
        }
        // A last visitor wakes the thread that accepts visitors; then none can come any more.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Room {
    fn visitors(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn receive(listener: &UnixListener, room: &Arc<Room>, calls: &Sender<McpCall>) {
    let mut number = 0;
    while let Ok((stream, _)) = listener.accept() {
        if room.closed.load(Ordering::Acquire) {
            return;
        }
        number += 1;
        // One too many is shown out: its end of the socket is closed with ours.
        if room.visitors().len() < MAX_VISITORS {
            let _ = let_in(number, stream, room, calls);
        }
    }
}

fn let_in(number: u64, stream: UnixStream, room: &Arc<Room>, calls: &Sender<McpCall>) -> io::Result<()> {
    room.visitors().insert(number, stream.try_clone()?);
    let (inside, calls) = (room.clone(), calls.clone());
    let visitor = move || {
        let _ = converse(&stream, &inside, &calls);
        let _ = stream.shutdown(Shutdown::Both);
        inside.visitors().remove(&number);
    };
    let thread = std::thread::Builder::new().name(String::from("visitor")).spawn(visitor);
    if thread.is_err() {
        room.visitors().remove(&number);
    }
    thread.map(drop)
}

fn converse(stream: &UnixStream, room: &Room, calls: &Sender<McpCall>) -> io::Result<()> {
    let mut out = stream;
    write_line(&mut out, &room.offers)?;
    let mut lines = BufReader::new(stream);
    while let Some(line) = read_line(&mut lines)? {
        let answered = match serde_json::from_slice::<Asked>(&line) {
            Ok(asked) => handed_in(asked, room, calls),
            Err(error) => Answered { ok: false, text: format!("this is no call: {error}") },
        };
        write_line(&mut out, &answered)?;
    }
    Ok(())
}

fn handed_in(asked: Asked, room: &Room, calls: &Sender<McpCall>) -> Answered {
    let (reply, answer) = channel();
    let gone = || Answered { ok: false, text: String::from("the session is over") };
    if calls.send(McpCall { tool: asked.tool, args: asked.args, reply }).is_err() {
        return gone();
    }
    room.waker().iter().for_each(Waker::wake);
    answer.recv().unwrap_or_else(|_| gone())
}

fn write_line(out: &mut impl io::Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

fn read_line(lines: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = lines.take(MAX_CALL_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
    if count > MAX_CALL_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
    }
    Ok((count > 0).then_some(line))
}

/// The other side of a window: what `ftl mcp` holds.
#[derive(Debug)]
pub struct Visit {
    offers: Vec<Offer>,
    stream: BufReader<UnixStream>,
}

impl Visit {
    /// Comes to a window.
    pub fn at(path: &Path) -> io::Result<Visit> {
        let mut stream = BufReader::new(UnixStream::connect(path)?);
        let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "the session is over");
        let line = read_line(&mut stream)?.ok_or_else(gone)?;
        Ok(Visit { offers: serde_json::from_slice(&line)?, stream })
    }

    /// The tools that the window offers.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// Makes a call and waits for what comes back.
    pub fn call(&mut self, tool: &str, args: Json) -> ToolAnswer {
        let asked = Asked { tool: tool.to_owned(), args };
        match self.exchange(&asked) {
            Ok(Some(answered)) if answered.ok => ToolAnswer::Done(answered.text),
            Ok(Some(answered)) => ToolAnswer::Failed(answered.text),
            Ok(None) => ToolAnswer::Failed(String::from("the session is over")),
            Err(error) => ToolAnswer::Failed(format!("the session is over: {error}")),
        }
    }

    /// What is answered; nothing where the other end has closed.
    fn exchange(&mut self, asked: &Asked) -> io::Result<Option<Answered>> {
        write_line(self.stream.get_mut(), asked)?;
        let Some(line) = read_line(&mut self.stream)? else { return Ok(None) };
        Ok(Some(serde_json::from_slice(&line)?))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn mcp_endpoint() -> (tempfile::TempDir, McpEndpoint) {
        let folder = tempfile::tempdir().unwrap();
        let mcp_endpoint =
            McpEndpoint { folder: folder.path().to_owned(), program: "ftl".into(), args: vec!["mcp".into()] };
        (folder, mcp_endpoint)
    }

    fn offer() -> Vec<Offer> {
        vec![Offer { name: "submit".into(), about: "Submits.".into(), takes: json!({ "type": "object" }) }]
    }

    #[test]
    fn a_call_goes_in_and_its_answer_comes_out() {
        let (_folder, mcp_endpoint) = mcp_endpoint();
        let window = McpBridge::open(&mcp_endpoint, "one", offer()).unwrap();
        let server = window.server();
        assert_eq!(
            (server.args.as_slice(), server.env[0].0.as_str()),
            (["mcp".to_owned()].as_slice(), VARIABLE)
        );
        let path = PathBuf::from(&server.env[0].1);
        let visitor = std::thread::spawn(move || {
            let mut visit = Visit::at(&path).unwrap();
            let names: Vec<String> = visit.offers().iter().map(|offer| offer.name.clone()).collect();
            (names, visit.call("submit", json!({ "a": 1 })), visit.call("nonsense", json!(null)))
        });
        let knock = window.next(SOON).unwrap();
        assert_eq!((knock.tool.as_str(), &knock.args), ("submit", &json!({ "a": 1 })));
        knock.answer(ToolAnswer::Done("taken".into()));
        window.next(SOON).unwrap().answer(ToolAnswer::Failed("there is no such tool".into()));
        let (names, first, second) = visitor.join().unwrap();
        assert_eq!(names, ["submit"]);
        assert_eq!(
            (first, second),
            (ToolAnswer::Done("taken".into()), ToolAnswer::Failed("there is no such tool".into()))
        );
    }

    #[test]
    fn a_window_that_is_closed_keeps_nobody_waiting() {
        let (_folder, mcp_endpoint) = mcp_endpoint();
        let window = McpBridge::open(&mcp_endpoint, "one", offer()).unwrap();
        let path = PathBuf::from(&window.server().env[0].1);
        let at = path.clone();
        let visitor = std::thread::spawn(move || Visit::at(&at).unwrap().call("submit", json!({})));
        let knock = window.next(SOON).unwrap();
        drop(window);
        let answer = visitor.join().unwrap();
        assert!(
            matches!(&answer, ToolAnswer::Failed(why) if why.contains("the session is over")),
            "{answer:?}"
        );
        drop(knock);
        assert!(Visit::at(&path).is_err(), "nobody comes any more");
    }

    #[test]
    fn garbage_is_told_and_a_line_has_a_limit() {
        let (_folder, mcp_endpoint) = mcp_endpoint();
        let window = McpBridge::open(&mcp_endpoint, "one", offer()).unwrap();
        let path = PathBuf::from(&window.server().env[0].1);
        let mut visit = Visit::at(&path).unwrap();
        visit.stream.get_mut().write_all(b"{ nonsense\n").unwrap();
        let line = read_line(&mut visit.stream).unwrap().unwrap();
        assert!(String::from_utf8(line).unwrap().contains("this is no call"));
        let flood = vec![b'x'; MAX_CALL_BYTES + 1];
        let _ = visit.stream.get_mut().write_all(&flood);
        assert!(!matches!(read_line(&mut visit.stream), Ok(Some(_))), "it was shown out");
        assert!(window.next(Duration::ZERO).is_none());
    }

    #[test]
    fn a_window_has_room_for_so_many() {
        let (_folder, mcp_endpoint) = mcp_endpoint();
        let window = McpBridge::open(&mcp_endpoint, "one", offer()).unwrap();
        let path = PathBuf::from(&window.server().env[0].1);
        let visits: Vec<Visit> = (0..MAX_VISITORS).map(|_| Visit::at(&path).unwrap()).collect();
        assert!(Visit::at(&path).is_err());
        assert_eq!(visits.len(), MAX_VISITORS);
    }
}
