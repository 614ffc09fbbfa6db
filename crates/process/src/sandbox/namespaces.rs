//! Namespaces of our own: entered without a privilege, used to lay a root folder, and then nothing is left that could
//! change them.
//!
//! Everything here changes the calling process, which must have one thread and no work but this.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use nix::sched::{CloneFlags, unshare};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::process::{DumpableBehavior, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};

/// How many capabilities a kernel may have.
const MAX_CAPABILITIES: u32 = 64;

/// Who somebody is outside of a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl User {
    /// Who this process is.
    pub(super) fn own() -> User {
        User { user: getuid().as_raw(), group: getgid().as_raw() }
    }
}

/// Enters a user namespace of its own and all others with it; the one of the network only where it is not shared. The
/// user is called root there, without whom no terminals can be mounted. Children are in a process namespace of their own.
pub(super) fn enter(shares_network: bool) -> io::Result<()> {
    let own = User::own();
    let network = if shares_network { CloneFlags::empty() } else { CloneFlags::CLONE_NEWNET };
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(flags | network)?;
    call((own.user, 0), (own.group, 0))
}

/// Enters one more user namespace, in which the user has the own number again. What was mounted cannot be changed from
/// there.
pub(super) fn turn_back(own: User) -> io::Result<()> {
    if own.user == 0 && own.group == 0 {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER)?;
    call((0, own.user), (0, own.group))
}

/// Says what the own numbers, as they are outside, are called inside.
fn call((user, user_inside): (u32, u32), (group, group_inside): (u32, u32)) -> io::Result<()> {
    // The files of a process that must not be looked into belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user_inside} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group_inside} {group} 1"))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Gives up every capability, now and for whatever is started.
pub(super) fn give_up() -> io::Result<()> {
    for number in 0..MAX_CAPABILITIES {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // The kernel has no more, or we have none to give up.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => break,
            removed => removed?,
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Raises the loopback of a network of its own.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &raise_message(), SendFlags::empty())?;
    read_answer(&socket)
}

/// RTM_NEWLINK of the first interface, with the flag IFF_UP: a header of 16 bytes and a body of 16.
fn raise_message() -> [u8; 32] {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ANSWER: u16 = 1 | 4;
    const UP: u32 = 1;
    const LOOPBACK: i32 = 1;
    let mut message = [0; 32];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &32_u32.to_ne_bytes());
    put(4, &NEW_LINK.to_ne_bytes());
    put(6, &REQUEST_AND_ANSWER.to_ne_bytes());
    put(8, &1_u32.to_ne_bytes());
    put(20, &LOOPBACK.to_ne_bytes());
    put(24, &UP.to_ne_bytes());
    put(28, &UP.to_ne_bytes());
    message
}

/// The kernel answers with an error number behind a header; zero is yes.
fn read_answer(socket: &OwnedFd) -> io::Result<()> {
    let mut answer = [0; 512];
    let (count, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    let code = answer.get(16..20).filter(|_| count >= 20).and_then(|bytes| bytes.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel does not say whether the loopback is up")),
    }
}
