//! The rules of `ftl`: what a protocol is, what it means, and what it decides next.
//!
//! This crate never looks at the world. It has no clock, no disk, no network, no randomness,
//! no threads and no hash-map order; time and outcomes come in as arguments, and what is to be
//! done comes out as data.

pub mod catalogue;
pub mod desk;
pub mod draw;
pub mod json;
pub mod language;
pub mod library;
pub mod machine;
pub mod plan;
pub mod program;
pub mod run;
pub mod signature;
pub mod types;
pub mod value;
