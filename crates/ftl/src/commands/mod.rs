//! The commands, one file each. A command asks, shapes the answer and says how it ended.

pub(crate) mod agents;
pub(crate) mod ask;
pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod code;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod draw;
pub(crate) mod flow;
pub(crate) mod ftl;
pub(crate) mod init;
pub(crate) mod lifecycle;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod protocols;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod schema;
pub(crate) mod setup;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod transcript;
pub(crate) mod watch;
pub(crate) mod why;
