//! The count of tries and violations of one promise, and how often to try.

use std::fs::OpenOptions;
use std::io::Write as _;

/// How often to try: the small number of every test run, or as many times more as `FTL_TRIES` says.
pub(crate) fn tries(small: usize) -> usize {
    let factor = std::env::var("FTL_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    small * factor
}

/// The seed of what is drawn; `FTL_SEED` replaces it.
pub(crate) fn seed() -> u64 {
    std::env::var("FTL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_118)
}

/// Tries and violations of one promise. It fails the test in the end if there was a violation.
pub(crate) struct Tally {
    promise: &'static str,
    tries: usize,
    violations: Vec<String>,
}

impl Tally {
    pub(crate) fn of(promise: &'static str) -> Tally {
        Tally { promise, tries: 0, violations: Vec::new() }
    }

    /// Counts a try, and what it violated.
    pub(crate) fn count(&mut self, violation: Option<String>) {
        self.tries += 1;
        self.violations.extend(violation);
    }

    /// Prints the row of the table and fails if anything was violated.
    #[track_caller]
    pub(crate) fn close(self) {
        let row = format!("| {} | {} | {} |", self.promise, self.tries, self.violations.len());
        println!("{row}");
        if let Some(file) = std::env::var_os("FTL_TALLY") {
            let mut open = OpenOptions::new().append(true).create(true).open(file).unwrap();
            writeln!(open, "{row}").unwrap();
        }
        assert!(self.tries > 0, "nothing was tried: {row}");
        assert!(self.violations.is_empty(), "{row} (seed {})\n{}", seed(), self.violations.join("\n"));
    }
}
