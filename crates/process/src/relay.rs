//! Ports of a sandbox's own loopback that lead to a socket of the machine.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many connections one relay carries at once; the next one is closed at once.
pub const MAX_CONNECTIONS: usize = 64;

/// Carries every connection of a listener to a socket, in threads of its own.
pub fn start(listener: TcpListener, socket: PathBuf) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name(String::from("relay")).spawn(move || {
        for client in listener.incoming().flatten() {
            let open = Open::new(&open);
            if let Some(open) = open {
                let socket = socket.clone();
                let _ = thread::Builder::new().spawn(move || carry(&client, &socket, &open));
            }
        }
    })?;
    Ok(())
}

/// One connection that is counted while it lives.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Option<Open> {
        let one = Open(count.clone());
        (count.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS).then_some(one)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn carry(client: &TcpStream, socket: &Path, _: &Open) {
    let Ok(server) = UnixStream::connect(socket) else { return };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &*client, &mut &server);
            let _ = server.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut &server, &mut &*client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}
