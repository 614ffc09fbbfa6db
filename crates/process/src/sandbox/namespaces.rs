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
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What lays the root folder and raises the loopback.
const NEEDED: [CapabilitySet; 5] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::SETPCAP,
    CapabilitySet::SYS_CHROOT,
    CapabilitySet::DAC_OVERRIDE,
];

/// How many capabilities a kernel may have.
const MAX_CAPABILITIES: u32 = 64;

/// Enters a user namespace of its own, in which the user keeps the own number, and all others with it; the one of the
/// network only where it is not shared. Children are in a process namespace of their own.
pub(super) fn enter(shares_network: bool) -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let network = if shares_network { CloneFlags::empty() } else { CloneFlags::CLONE_NEWNET };
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(flags | network)?;
    // The files of a process that must not be looked into belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    hand_down()
}

/// Lets the next program that is started keep what it needs: one that is not root's loses everything else.
fn hand_down() -> io::Result<()> {
    let needed = NEEDED.into_iter().fold(CapabilitySet::empty(), |all, one| all | one);
    let own = rustix::thread::capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: needed, ..own })?;
    for one in NEEDED {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
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
