//! What keeps the programs that we start away from what the person's shell gave us.
//!
//! A descriptor that a shell left open passes to every program that is started, and so to agents. And a
//! process of the same user may read another one's environment and memory, keys and all, unless that is
//! marked as not to be looked at. Both are done first of all, before anything is started or opened.

use std::fs;
use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd, RawFd};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    DumpableBehavior, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open, set_dumpable_behavior,
};

/// The flag of a descriptor that no program inherits, as `/proc` shows it.
const CLOSED_ON_EXEC: u32 = 0o2_000_000;

/// Keeps descriptors above 2 from everything that is started, and this process from being looked into. What
/// cannot be done is left: a command must not fail for it.
pub(crate) fn raise() {
    let _ = keep_descriptors();
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Every descriptor that was inherited stays open for us, as `<(…)` in a shell needs it, and for no child of ours.
fn keep_descriptors() -> io::Result<()> {
    let mut inherited: Vec<RawFd> = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let number: Option<RawFd> = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        inherited.extend(number.filter(|number| *number > 2));
    }
    inherited.into_iter().filter(|number| is_inherited(*number)).try_for_each(keep)
}

/// Nothing of ours is open yet but what is closed on exec.
fn is_inherited(number: RawFd) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else { return false };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & CLOSED_ON_EXEC == 0)
}

/// Puts a copy that is closed on exec in the place of a descriptor. One that cannot be copied is closed.
fn keep(number: RawFd) -> io::Result<()> {
    let copy = copied(number);
    nix::unistd::close(number)?;
    if let Ok(copy) = copy {
        // The lowest number that is free from there on is the one that was just closed.
        let _ = fcntl_dupfd_cloexec(&copy, number)?.into_raw_fd();
    }
    Ok(())
}

/// Another descriptor of the same open file; of the same pipe or file where the kernel forbids that.
fn copied(number: RawFd) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    match pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) {
        Ok(copy) => Ok(copy),
        Err(_) => Ok(fs::File::open(format!("/proc/self/fd/{number}"))?.into()),
    }
}
