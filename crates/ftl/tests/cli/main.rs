//! The binary as people and scripts see it: run for real, in folders of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot prepare its folder fails by panicking, and one that is left out says so"
)]

mod again;
mod agents;
mod audit;
mod bases;
mod building;
mod campaign;
mod campaigns;
mod causes;
mod check;
mod cleaning;
mod coding;
mod colour;
mod config;
mod contract;
mod counted;
mod declared;
mod diffs;
mod doctor;
mod draw;
mod examples;
mod faces;
mod files;
mod flat;
mod flows;
mod foreign;
mod git;
mod help;
mod known;
mod leftovers;
mod lessons;
mod lifecycle;
mod limits;
mod listing;
mod live;
mod mcp;
mod moved;
mod notices;
mod observing;
mod phases;
mod printed;
mod projections;
mod questions;
mod ready;
mod replayed;
mod resumed;
mod roots;
mod runs;
mod salvage;
mod secrets;
mod serving;
mod shell;
mod side_by_side;
mod signals;
mod speakers;
mod steer;
mod support;
mod surroundings;
mod together;
mod transcripts;
mod trusting;
mod views;
mod workspace;
