//! The store on disk, where it is more than the contract: files, formats, damage, groups, processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod damage;
mod files;
mod groups;
mod logs;
mod loss;
mod processes;
mod support;
