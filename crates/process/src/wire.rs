//! What an engine and its guard say to each other: one request with three descriptors, then words one
//! way and answers the other, each a line.
//!
//! The socket is also the dead man's switch: its end means that the other side is gone. Nothing here
//! waits without the caller knowing, and no line is longer than a limit.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::lines::{Lines, MAX_LINE_BYTES};
use super::sandbox::Sandbox;
use super::table::Identity;
use super::{Fence, How, Mark};

/// How much is received at once. Every page that a guard touches is its own, a thousand times with a thousand agents.
const PIECE: usize = 4 * 1024;

/// What a guard is to start. The descriptors of its child travel beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) folder: OsString,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) lock: OsString,
    pub(super) fence: Option<Fence>,
    pub(super) mark: Mark,
    pub(super) processes: Option<u64>,
    pub(super) file_bytes: Option<u64>,
    pub(super) sandbox: Option<Sandbox>,
}

/// A message of the engine to a guard that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// Ask everything to end.
    Term,
    /// Kill everything that is left.
    Kill,
}

/// A message of a guard to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The command runs, as this process.
    Started(Identity),
    /// It does not, and never will.
    Failed { what: String, busy: bool },
    /// It has ended, and everything that it started.
    Ended { how: How, swept: usize, left: usize },
}

/// Says something in one line.
pub(super) fn say(mut socket: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    socket.write_all(&line(what, MAX_LINE_BYTES)?)
}

/// Sends a request and the three descriptors of the child.
pub(super) fn send(mut socket: &UnixStream, request: &Request, fds: &[BorrowedFd<'_>; 3]) -> io::Result<()> {
    let line = line(request, MAX_LINE_BYTES)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("three descriptors do not fit into a message"));
    }
    let send = || sendmsg(socket, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL);
    let sent = rustix::io::retry_on_intr(send)?;
    socket.write_all(&line[sent..])
}

/// Receives a request and the three descriptors of the child. `None` if the other side is gone.
pub(super) fn receive(socket: &UnixStream, lines: &mut Lines) -> io::Result<Option<(Request, [OwnedFd; 3])>> {
    let mut fds: Vec<OwnedFd> = Vec::new();
    loop {
        if let Some(line) = lines.next() {
            let three = <[OwnedFd; 3]>::try_from(fds);
            let three = three.map_err(|_| io::Error::other("a request comes with three descriptors"))?;
            return Ok(Some((serde_json::from_slice(&line)?, three)));
        }
        if !receive_piece(socket, lines, &mut fds)? {
            return Ok(None);
        }
    }
}

/// Whether there was something.
fn receive_piece(socket: &UnixStream, lines: &mut Lines, fds: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut piece = [0; PIECE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut receive =
        || recvmsg(socket, &mut [IoSliceMut::new(&mut piece)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let received = rustix::io::retry_on_intr(&mut receive)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(these) = message {
            fds.extend(these);
        }
    }
    lines.add(&piece[..received.bytes])?;
    Ok(received.bytes > 0)
}

fn line(what: &impl Serialize, most: usize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    if line.len() > most {
        return Err(io::Error::other("the words and variables of the command are too long"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStringExt as _;

    fn request(bytes: usize) -> Request {
        let odd = OsString::from_vec(vec![b'a', 0xff, b'\n']);
        Request {
            program: "sh".into(),
            args: vec![odd.clone(), OsString::from("x".repeat(bytes))],
            folder: odd,
            env: Vec::new(),
            fence: None,
            lock: "a.1".into(),
            mark: Mark::new("FTL_X", "1").unwrap(),
            processes: None,
            file_bytes: Some(1),
            sandbox: None,
        }
    }

    #[test]
    fn a_request_arrives_with_its_descriptors_whatever_its_size() {
        for bytes in [0, 100_000, 500_000] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut reader, writer) = io::pipe().unwrap();
            let sender = std::thread::spawn(move || {
                let null = File::open("/dev/null").unwrap();
                let request = request(bytes);
                send(&ours, &request, &[null.as_fd(), writer.as_fd(), null.as_fd()]).unwrap();
                say(&ours, &Word::Term).unwrap();
            });
            let mut lines = Lines::default();
            let (got, fds) = receive(&theirs, &mut lines).unwrap().unwrap();
            assert_eq!(got.args, request(bytes).args);
            assert_eq!(got.folder, request(0).folder);
            sender.join().unwrap();
            let [_, out, _] = fds;
            File::from(out).write_all(b"through").unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "through");
        }
    }

    #[test]
    fn a_request_without_descriptors_is_refused_and_an_end_is_an_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        say(&ours, &request(1)).unwrap();
        assert!(receive(&theirs, &mut Lines::default()).is_err());
        drop(ours);
        assert!(receive(&theirs, &mut Lines::default()).unwrap().is_none());
    }

    #[test]
    fn what_is_said_has_a_limit() {
        assert_eq!(line(&"1234567", 10).unwrap(), b"\"1234567\"\n");
        assert!(line(&"12345678", 10).is_err());
    }
}
