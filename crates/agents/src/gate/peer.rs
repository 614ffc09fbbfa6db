//! Who comes to a gate or a proxy: over a socket of ours, or over this machine's own loopback.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::head::TimedRead;

/// How long a peer may take to read what it is sent.
const MAX_WRITE_TIME: Duration = Duration::from_secs(60);

/// Where a gate listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatePlace {
    /// At a socket that is bound into a sandbox.
    Socket(PathBuf),
    /// At a port of this machine's loopback.
    Port(u16),
}

/// What listens for peers.
#[derive(Debug)]
pub(super) enum Listener {
    Socket(UnixListener),
    Port(TcpListener),
}

impl Listener {
    /// Listens at a socket that only our user can open.
    pub(super) fn at_socket(path: &Path) -> io::Result<(Listener, GatePlace)> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok((Listener::Socket(listener), GatePlace::Socket(path.to_owned())))
    }

    /// Listens at a free port of the loopback.
    pub(super) fn at_port() -> io::Result<(Listener, GatePlace)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        Ok((Listener::Port(listener), GatePlace::Port(port)))
    }

    pub(super) fn accept(&self) -> io::Result<Peer> {
        match self {
            Listener::Socket(listener) => listener.accept().map(|(stream, _)| Peer::Socket(stream)),
            Listener::Port(listener) => listener.accept().map(|(stream, _)| Peer::Port(stream)),
        }
    }
}

impl GatePlace {
    /// Wakes whoever listens there, so that it sees that it need not any more, and takes the socket away.
    pub(super) fn close(&self) {
        match self {
            GatePlace::Socket(path) => {
                let _ = UnixStream::connect(path);
                let _ = std::fs::remove_file(path);
            }
            GatePlace::Port(port) => drop(TcpStream::connect(("127.0.0.1", *port))),
        }
    }
}

/// A peer.
#[derive(Debug)]
pub(super) enum Peer {
    Socket(UnixStream),
    Port(TcpStream),
}

impl Peer {
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Peer::Socket(stream) => stream.set_write_timeout(Some(MAX_WRITE_TIME)),
            Peer::Port(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(MAX_WRITE_TIME))
            }
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Peer> {
        match self {
            Peer::Socket(stream) => stream.try_clone().map(Peer::Socket),
            Peer::Port(stream) => stream.try_clone().map(Peer::Port),
        }
    }

    pub(super) fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Peer::Socket(stream) => stream.shutdown(how),
            Peer::Port(stream) => stream.shutdown(how),
        };
    }

    pub(super) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Peer::Socket(stream) => stream.set_read_timeout(limit),
            Peer::Port(stream) => stream.set_read_timeout(limit),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Peer::Socket(stream) => stream.read(into),
            Peer::Port(stream) => stream.read(into),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Peer::Socket(stream) => stream.write(bytes),
            Peer::Port(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TimedRead for Peer {
    fn wait_at_most(&mut self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit.max(Duration::from_millis(1))))
    }
}
