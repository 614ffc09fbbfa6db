//! Limits of the process that are too low to work under, found before they end it.
//!
//! Where memory cannot be had the standard library ends the process without a word that helps, so a command that is
//! about to drive runs looks at the limits first. A command that only reads is let through and given a stack of its
//! own.

use rustix::process::{Resource, getrlimit};

use crate::exit::ExitStatus;
use crate::failure::CommandError;

/// The least address space to drive runs in. The demonstration, six tasks side by side, ends in the middle below
/// 512 MB; each thread of ours and each arena of the allocator reserves more than it uses.
pub const MIN_ADDRESS_SPACE: u64 = 768 * 1024 * 1024;

/// The least stack to drive runs with: git and shells inherit it.
pub const MIN_STACK: u64 = 1024 * 1024;

/// The stack of a command that was given less than [`MIN_STACK`] and only reads.
const OWN_STACK: usize = 8 * 1024 * 1024;

/// Refuses to drive runs under limits that would end it in the middle.
pub fn suffice_to_drive() -> Result<(), CommandError> {
    let low = |resource, least| getrlimit(resource).current.filter(|limit| *limit < least);
    if let Some(limit) = low(Resource::As, MIN_ADDRESS_SPACE) {
        return Err(too_low("address space", "ulimit -v", limit, MIN_ADDRESS_SPACE));
    }
    match low(Resource::Stack, MIN_STACK) {
        Some(limit) => Err(too_low("stack", "ulimit -s", limit, MIN_STACK)),
        None => Ok(()),
    }
}

fn too_low(what: &str, command: &str, limit: u64, least: u64) -> CommandError {
    let message = format!(
        "the {what} is limited to {} kB; driving runs takes {} kB at least, and would end in the middle",
        limit / 1024,
        least / 1024
    );
    let hint =
        format!("raise it: `{command} {}`, or `{command} unlimited`; reading works meanwhile", least / 1024);
    CommandError::new(message, hint)
}

/// Does all work on a stack that is large enough, also where the limit of this process is low.
pub fn with_stack(work: impl FnOnce() -> ExitStatus + Send + 'static) -> ExitStatus {
    if getrlimit(Resource::Stack).current.is_none_or(|limit| limit >= MIN_STACK) {
        return work();
    }
    let thread = std::thread::Builder::new().name(String::from("main")).stack_size(OWN_STACK).spawn(work);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(exit)) => exit,
        // What a panic had to say was said already.
        Ok(Err(_)) => ExitStatus::Error,
        Err(error) => {
            use std::io::Write as _;
            let stderr = &mut std::io::stderr();
            let _ = writeln!(stderr, "error: no stack of {OWN_STACK} bytes can be had: {error}");
            let _ = writeln!(stderr, "hint: raise it: `ulimit -s unlimited`, and `ulimit -v unlimited`");
            ExitStatus::Error
        }
    }
}
