//! Who holds the other end of a TCP connection on this machine: its user and its processes.
//!
//! A server on loopback cannot tell a browser from an agent by what they send. The kernel knows which process holds the
//! socket, and the line of processes above it says whether that is an agent. Nothing here decides who may do what.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::process::getuid;

use super::lineage::{AgentLineage, Alive, ProcessView, look};
use super::procfs::ProcFs;

/// How many processes are looked through.
const MAX_PROCESSES: usize = 32_768;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user that owns the socket.
    pub user: u32,
    /// The processes that hold it, as far as they can be seen.
    pub holders: Vec<i32>,
    /// Processes of ours that do not show what they hold.
    pub hidden: Vec<i32>,
}

/// What is known of the process at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// A process of a person, or one that is not known.
    Person,
    /// Another user of this machine.
    OtherUser(u32),
    /// Something inside an agent's tree.
    Agent(AgentLineage),
    /// It cannot be told: the holder is hidden, and an agent's process hides what it holds.
    Unseen(i32),
}

/// Finds who holds the far end of a connection between `far` and `near`, as the accepting side names them. `None` if the
/// kernel lists no such connection any more.
pub fn find(far: SocketAddr, near: SocketAddr) -> io::Result<Option<Peer>> {
    let proc = ProcFs::open()?;
    let table = if far.is_ipv4() { "tcp" } else { "tcp6" };
    let text = proc.read(&format!("{}/net/{table}", proc.own_pid()?))?;
    let (far, near) = (hex(far), hex(near));
    let rows = String::from_utf8_lossy(&text);
    // Seen from the far end, its own address comes first.
    let Some((user, inode)) = rows.lines().skip(1).find_map(|row| socket_of(row, &far, &near)) else {
        return Ok(None);
    };
    let (mut holders, mut hidden) = (Vec::new(), Vec::new());
    let wanted = format!("socket:[{inode}]");
    for pid in processes()? {
        match holds(&proc, pid, &wanted) {
            Ok(true) => holders.push(pid),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => hidden.push(pid),
            // It has ended meanwhile.
            Err(_) => {}
        }
    }
    Ok(Some(Peer { user, holders, hidden }))
}

/// Whether the process at the far end is a person's, as far as it can be told.
pub fn judge(peer: &Peer, alive: Alive<'_>) -> io::Result<PeerKind> {
    if peer.user != getuid().as_raw() {
        return Ok(PeerKind::OtherUser(peer.user));
    }
    let proc = ProcFs::open()?;
    let inside = |pid: i32| ProcessView::read_of(&proc, pid).ok().and_then(|view| look(&view, alive));
    if let Some(found) = peer.holders.iter().find_map(|pid| inside(*pid)) {
        return Ok(PeerKind::Agent(found));
    }
    if peer.holders.is_empty()
        && let Some(pid) = peer.hidden.iter().find(|pid| inside(**pid).is_some())
    {
        return Ok(PeerKind::Unseen(*pid));
    }
    Ok(PeerKind::Person)
}

/// The user and the inode of a row of the kernel's table, if it is that of this connection.
fn socket_of(row: &str, local: &str, remote: &str) -> Option<(u32, u64)> {
    let mut words = row.split_ascii_whitespace();
    let (_, here, there) = (words.next()?, words.next()?, words.next()?);
    if here != local || there != remote {
        return None;
    }
    let user = words.nth(4)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some((user, inode))
}

/// An address as the kernel writes it: words of four bytes in the order of the machine, and the port.
fn hex(address: SocketAddr) -> String {
    let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    let ip = match address.ip() {
        IpAddr::V4(ip) => word(ip.octets()),
        IpAddr::V6(ip) => {
            ip.octets().chunks_exact(4).map(|four| word([four[0], four[1], four[2], four[3]])).collect()
        }
    };
    format!("{ip}:{:04X}", address.port())
}

fn processes() -> io::Result<Vec<i32>> {
    let mut all = Vec::new();
    for folder in std::fs::read_dir("/proc")?.take(MAX_PROCESSES) {
        all.extend(folder?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(all)
}

fn holds(proc: &ProcFs, pid: i32, wanted: &str) -> io::Result<bool> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let name = entry?.file_name();
        let Some(number) = name.to_str() else { continue };
        if proc.link(&format!("{pid}/fd/{number}")).is_ok_and(|link| link.as_os_str() == wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn addresses_are_written_as_the_kernel_does() {
        assert_eq!(hex("127.0.0.1:7717".parse().unwrap()), "0100007F:1E25");
        assert_eq!(hex("[::1]:80".parse().unwrap()), "00000000000000000000000001000000:0050");
    }

    #[test]
    fn a_row_is_read_only_for_its_connection() {
        let row = "   1: 0100007F:1E25 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 98765 1 0 20";
        assert_eq!(socket_of(row, "0100007F:1E25", "0100007F:C350"), Some((1000, 98765)));
        assert_eq!(socket_of(row, "0100007F:C350", "0100007F:1E25"), None);
        assert_eq!(socket_of("", "a", "b"), None);
    }

    #[test]
    fn this_process_is_found_at_the_far_end() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = server.local_addr().unwrap();
        let client = TcpStream::connect(near).unwrap();
        let peer = find(client.local_addr().unwrap(), near).unwrap().unwrap();
        assert_eq!(peer.user, getuid().as_raw());
        assert!(peer.holders.contains(&std::process::id().cast_signed()), "{peer:?}");
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(find(nobody, near).unwrap(), None);
    }
}
