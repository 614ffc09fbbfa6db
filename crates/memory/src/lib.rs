//! The lessons: what went wrong and how it was mended, what worked; recalled, learned, related, pruned.
//!
//! It works on a connection that the engine hands in and never opens, locks or migrates a file itself.
//! It has no clock and prints nothing: the time is an argument, and warnings are values. This is its
//! pure half: texts, vectors, nearness and worth.

pub mod embed;
pub mod json;
pub mod similar;
pub mod text;
pub mod time;
pub mod worth;

pub use json::Json;
pub use time::Now;
