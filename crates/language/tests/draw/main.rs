//! Drawings of machines, seen from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod documents;
mod machines;
mod pictures;
mod properties;
