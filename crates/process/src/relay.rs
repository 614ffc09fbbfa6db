//! The relay: what connects to a port of the sandbox's own loopback is carried to a socket of the host.
//!
//! It understands nothing of what it carries and keeps nothing of it. Each direction ends when its sender has; a
//! connection beyond the most that are open is closed at once. It runs beside a command, and ends with its process.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many connections are carried at the same time.
pub const MAX_RELAYED: usize = 64;

/// How long is waited where the process has no descriptor for one more connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Carries every connection of a listener to a socket, in threads of its own, for as long as the process lives.
pub fn start(listener: TcpListener, socket: PathBuf) -> io::Result<()> {
    let serve = move || receive(&listener, &Arc::from(socket));
    std::thread::Builder::new().name(String::from("relay")).spawn(serve).map(drop)
}

fn receive(listener: &TcpListener, socket: &Arc<Path>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // A client that went away again, or too many open files: the next one may fare better.
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        // One too many finds its end closed.
        if open.load(Ordering::Acquire) < MAX_RELAYED {
            open.fetch_add(1, Ordering::AcqRel);
            let (socket, counted) = (socket.clone(), Carried(open.clone()));
            let carry = move || {
                let _counted = counted;
                let _ = carry(&client, &socket);
            };
            let _ = std::thread::Builder::new().name(String::from("carry")).spawn(carry);
        }
    }
}

/// One connection that is carried, for as long as this lives.
struct Carried(Arc<AtomicUsize>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Carries both directions until both senders have ended, or one of them is gone.
fn carry(client: &TcpStream, socket: &Path) -> io::Result<()> {
    let host = UnixStream::connect(socket)?;
    let _ = client.set_nodelay(true);
    let (mut from_client, mut to_host) = (client.try_clone()?, host.try_clone()?);
    let (mut from_host, mut to_client) = (host, client.try_clone()?);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sent = io::copy(&mut from_client, &mut to_host);
            // Whoever cannot be written to any more need not be read from either.
            let _ = to_host.shutdown(if sent.is_ok() { Shutdown::Write } else { Shutdown::Both });
        });
        let sent = io::copy(&mut from_host, &mut to_client);
        let _ = to_client.shutdown(if sent.is_ok() { Shutdown::Write } else { Shutdown::Both });
        if sent.is_err() {
            let _ = from_host.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A relay to a socket, and the listener behind it.
    fn relay() -> (tempfile::TempDir, SocketAddr, UnixListener) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let behind = UnixListener::bind(&socket).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        start(listener, socket).unwrap();
        (folder, address, behind)
    }

    #[test]
    fn both_directions_are_carried_to_their_ends() {
        let (_folder, address, behind) = relay();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (mut host, _) = behind.accept().unwrap();
        let mut heard = String::new();
        host.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "question");
        let answer = vec![b'a'; 1 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                host.write_all(&answer).unwrap();
                host.shutdown(Shutdown::Both).unwrap();
            });
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).unwrap();
            assert_eq!(heard, answer);
        });
    }

    #[test]
    fn a_socket_that_is_gone_closes_the_connection() {
        let (folder, address, behind) = relay();
        drop(behind);
        std::fs::remove_file(folder.path().join("s")).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
    }

    #[test]
    fn one_connection_too_many_is_closed() {
        let (_folder, address, behind) = relay();
        let mut kept = Vec::new();
        for _ in 0..MAX_RELAYED {
            kept.push((TcpStream::connect(address).unwrap(), behind.accept().unwrap()));
        }
        let mut late = TcpStream::connect(address).unwrap();
        assert!(matches!(late.read(&mut [0; 1]), Ok(0) | Err(_)));
        // Whoever leaves makes room for the next.
        drop(kept.pop());
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        behind.set_nonblocking(true).unwrap();
        loop {
            let next = TcpStream::connect(address).unwrap();
            next.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            if matches!((&next).read(&mut [0; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                assert!(behind.accept().is_ok());
                return;
            }
            assert!(std::time::Instant::now() < deadline, "nobody is let in");
        }
    }
}
