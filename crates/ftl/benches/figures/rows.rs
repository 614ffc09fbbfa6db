//! The rows of `docs/performance.md`: what is aimed at, what was measured, whether it was reached, and how busy the machine was.
//!
//! `tools/bench/run` reads the lines that begin with `row`; people read the others.

use std::fs;

/// Prints a row; one without a goal says only what was measured.
pub(crate) fn row(name: &str, goal: &str, measured: &str, reached: Option<bool>) {
    let reached = match reached {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    println!("row\t{name}\t{goal}\t{measured}\t{reached}\t{}", load());
}

/// The load average of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
