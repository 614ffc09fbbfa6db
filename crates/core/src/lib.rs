//! The rules of `ftl`: what a program means, and what it decides next.
//!
//! Values and types, the catalogue of all that a protocol may name, the syntax tree and the program, the
//! interpreter with its meters, the graph of a plan, and the rule for one call of a tool.
//!
//! This crate never looks at the world. It has no clock, no disk, no network, no randomness,
//! no threads and no hash-map order; time and outcomes come in as arguments, and what is to be
//! done comes out as data. It never sees a document: programs come in as [`program::Programs`],
//! which `ftl-language` makes. It sees no other crate of ours.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod amount;
pub mod catalogue;
pub mod json;
pub mod machine;
pub mod nearest;
pub mod performer;
pub mod plan;
pub mod program;
pub mod run;
pub mod signature;
pub mod syntax;
pub mod tool_policy;
pub mod types;
pub mod value;
