//! The commands, one file each. A command asks, shapes the answer and says how it ended.

pub(crate) mod check;
pub(crate) mod draw;
pub(crate) mod protocols;
pub(crate) mod schema;
pub(crate) mod setup;
