//! Landlock: which files and ports a thread and everything that it starts may touch, whatever is mounted.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus, NetPort, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

/// What Landlock is to hold.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// What can be read and run.
    pub(super) read: Vec<PathBuf>,
    /// What can be written as well.
    pub(super) write: Vec<PathBuf>,
    /// Whether every folder can be listed: there is nothing but what may be seen.
    pub(super) lists_all: bool,
    /// The ports that can be connected to; all where the network is one of its own.
    pub(super) connect: Option<Vec<u16>>,
}

/// The oldest version of Landlock that knows of ports.
const WITH_PORTS: ABI = ABI::V4;

/// The version that we ask for. A kernel that knows less gives what it has.
const ASKED: ABI = ABI::V6;

/// Holds the calling thread, and everything that it starts, to what is allowed. Which version of Landlock the kernel
/// has; an error where it has none.
pub(super) fn restrict(access: &Access) -> io::Result<i32> {
    let (all, read) = (AccessFs::from_all(ASKED), AccessFs::from_read(ASKED));
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(ASKED)))
        .map_err(io::Error::other)?;
    if access.connect.is_some() {
        rules = rules.handle_access(AccessNet::from_all(WITH_PORTS)).map_err(io::Error::other)?;
    }
    let ports = access.connect.iter().flatten().map(|port| Ok(NetPort::new(*port, AccessNet::ConnectTcp)));
    let tops: Vec<&Path> = access.lists_all.then(|| Path::new("/")).into_iter().collect();
    let status = rules
        .create()
        .and_then(|rules| rules.add_rules(path_beneath_rules(&tops, AccessFs::ReadDir)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(&access.read, read)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(&access.write, all)))
        .and_then(|rules| rules.add_rules(ports))
        .and_then(|rules| rules.restrict_self())
        .map_err(io::Error::other)?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Err(io::Error::other("the kernel has no Landlock")),
        (_, LandlockStatus::Available { effective_abi, kernel_abi }) => {
            Ok(kernel_abi.unwrap_or(effective_abi as i32))
        }
        (_, _) => Ok(0),
    }
}
