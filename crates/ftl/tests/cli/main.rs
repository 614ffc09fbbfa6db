//! The binary as people and scripts see it: run for real, in folders of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its folder fails by panicking"
)]

mod check;
mod colour;
mod draw;
mod files;
mod help;
mod listing;
mod roots;
mod support;
