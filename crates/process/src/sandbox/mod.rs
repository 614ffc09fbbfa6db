//! Sandboxes: what is around a command so that it reaches nothing but what its role needs.
//!
//! Three layers, each of which covers holes of the others: namespaces (what is not mounted is not there, no process
//! but its own, no network but its own), Landlock (files, signals, ports) and seccomp (calls of the kernel). The
//! chain is supervisor, guard, `ftl __sandbox`, command.
//!
//! What is absent: no unsafe code, no privilege that is needed or kept, no shell, no list of what is forbidden where
//! a list of what is allowed can stand. It knows no role and no setting: whoever starts a command says what it may
//! touch.

mod access;
mod calls;
mod fill;
mod inside;
mod machine;
mod mounts;
mod namespaces;
mod plan;
mod probe;
mod program;
mod rules;

pub(crate) use inside::main;
pub use machine::{MachineFacts, cache_folders, system_folders, tool_folders};
pub(crate) use plan::{Plan, Telling, Told};
pub use probe::{Lack, Probe, Try, probe};
pub use program::files_of;
pub use rules::{
    BindMount, Denial, Reach, Relay, Sandbox, SandboxLevel, SandboxRules, Share, SocketBind, describe,
};

/// The word that makes a program of ours a sandbox.
pub const SANDBOX_WORD: &str = "__sandbox";

/// The variable that tells what is inside a sandbox which one it is.
pub const LEVEL_VARIABLE: &str = "FTL_SANDBOX";

/// The folder for sockets that lead out, which is there in every sandbox.
pub const SOCKETS: &str = "/run/ftl";

/// The port of the loopback inside that leads to the gate of a model.
pub const GATE_PORT: u16 = 7777;

/// The port of the loopback inside that leads to the proxy for hosts on a list.
pub const PROXY_PORT: u16 = 7778;
