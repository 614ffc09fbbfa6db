//! The hands of `ftl`: the journal, the driver, processes, and what carries actions out.
//!
//! Order is everything here: append and sync, apply, act. Nothing in this crate decides what comes
//! next; `ftl-core` does. Nothing in this crate prints.

pub mod build_budget;
pub mod config;
pub mod decision;
pub mod doctor;
pub mod drive;
pub mod driver;
pub mod embedder;
pub mod environment;
pub mod exploration;
pub mod explore;
pub mod extract;
pub mod forge;
pub mod hands;
pub mod lifecycle;
pub mod loss;
pub mod observe;
pub mod paper;
pub mod plan_file;
pub mod roster;
pub mod services;
pub mod session;
pub mod workspace;

