//! Durable steps through the command line, beside a bare SQLite loop in the same run: a protocol that goes round, each
//! round an answer, a payment, a move and a question in one transaction.

use std::fs;
use std::time::Instant;

use tempfile::TempDir;

use super::flat;
use super::rows::row;

/// How many steps a long run has, and how often the two are measured.
const STEPS: u64 = 1_000;
const ROUNDS: usize = 7;

/// The same loop as in process, so many times round.
fn spin(rounds: u64) -> String {
    let program =
        super::SPIN.replace("1000000000", &rounds.to_string()).replace("spin", &format!("spin{rounds}"));
    format!("# spin{rounds}\n\n```protocol\n{program}\n```\n")
}

pub(crate) fn all() {
    let (mut shares, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let dir = TempDir::new().unwrap();
        let protocols = dir.path().join(".ftl/protocols");
        fs::create_dir_all(&protocols).unwrap();
        fs::write(dir.path().join("a"), "x".repeat(100)).unwrap();
        for rounds in [1, STEPS] {
            fs::write(protocols.join(format!("spin{rounds}.md")), spin(rounds)).unwrap();
        }
        let go = |rounds: u64| {
            let began = Instant::now();
            let cost = flat::ftl(dir.path(), &["run", &format!("spin{rounds}"), "objective=a"]);
            (began.elapsed().as_secs_f64(), cost.wrote)
        };
        let (first, short) = (go(1), go(1));
        let long = go(STEPS);
        let start = first.0.min(short.0);
        let bare = STEPS as f64 / super::bare(STEPS, 1, 1_200);
        shares.push(bare / (long.0 - start));
        bytes.push((long.1 - short.1) / STEPS as f64);
    }
    shares.sort_by(f64::total_cmp);
    bytes.sort_by(f64::total_cmp);
    let (share, wrote) = (shares[ROUNDS / 2] * 100.0, bytes[ROUNDS / 2]);
    println!(
        "steps       through the command line {share:.0} % of bare SQLite, {wrote:.1} KiB written a step"
    );
    row("durable steps, command line", "75 % of bare SQLite", &format!("{share:.0} %"), Some(share >= 75.0));
    row(
        "bytes written by a durable step",
        "fewer than 22 KiB",
        &format!("{wrote:.1} KiB"),
        Some(wrote < 22.0),
    );
}
