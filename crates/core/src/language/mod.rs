//! The protocol language: from a Markdown document to a checked program.
//!
//! `source` finds the program in the document, `tokens` and `parse` read it, `paste` puts
//! patterns in place, `check` proves what the language page promises. Nothing here runs anything.

pub mod check;
pub mod parse;
pub mod paste;
pub mod print;
pub mod problem;
pub mod source;
pub mod syntax;
pub mod tokens;

pub use problem::{Problem, Severity};
pub use source::{Source, Span};
