//! The binary as people and scripts see it: run for real, in folders of its own.

mod check;
mod colour;
mod draw;
mod files;
mod help;
mod listing;
mod roots;
mod support;
