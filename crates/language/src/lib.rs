//! The protocol language: from Markdown documents to checked programs.
//!
//! `source` finds the program in the document, `tokens` and `parse` read it, `paste` puts
//! patterns in place, `check` proves what the language page promises, `build` makes the program that
//! the interpreter walks, and `library` does all of it for many documents together. `draw` draws
//! machines and reads drawings back.
//!
//! This crate never runs anything and never looks at the world: no clock, no disk, no network, no
//! randomness. Documents come in as texts. Of our crates it sees `ftl-core` alone.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod build;
pub mod check;
pub mod draw;
pub mod expand;
pub mod library;
pub mod parse;
pub mod problem;
pub mod source;
pub mod tokens;

pub use problem::{Problem, ProblemSeverity};
pub use source::{SourceDocument, Span};
