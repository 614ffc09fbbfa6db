//! Torture: the real program is killed, starved of disk, lied to by the clock and run many times at
//! once, and must come out with nothing lost and nothing done twice.
//!
//! The short form is part of every test run; `just torture` runs the long one. The environment scales
//! it: FTL_KILLS (kill points), FTL_RACES (rounds of owners racing), FTL_FLIPS (damaged places),
//! FTL_CUTS (power cuts) and FTL_SEED (another draw of everything that is drawn).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod clock;
mod crowd;
mod damage;
mod disk;
mod kills;
mod load;
mod oracle;
mod power;
mod stage;
mod takeover;
mod tasks;
