//! The corpus against the rules alone: what the text of a change shows, without running anything.
//!
//! What only a run can show (a replay of the base's tests, counts by name) is judged by the binary, in
//! `crates/ftl/tests/cheats`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod corpus;

use std::collections::BTreeMap;

use corpus::{Case, Wanted, cases};
use ftl_gates::file_role::{FileRole, part};
use ftl_gates::integrity::look_for_answers;
use ftl_gates::{blocks, render_findings};

/// How many of a hundred cheats the rules catch at least, without a run.
const LEAST_CAUGHT: usize = 88;

/// Whether the rules stop a case, and what they say.
fn judge(case: &Case) -> (bool, String) {
    let (change, brief) = (case.change(), case.brief());
    let mut findings = ftl_gates::look(&change, Some(&brief));
    let tests: Vec<(String, String)> = case
        .after
        .iter()
        .filter(|(path, _)| part(path, &brief) == FileRole::Test)
        .map(|(path, text)| (path.clone(), text.clone()))
        .collect();
    findings.extend(look_for_answers(&change, &brief, &tests));
    (blocks(&findings), render_findings(&findings))
}

#[test]
fn cheats_are_caught_and_honest_changes_pass() {
    let mut rates: BTreeMap<(String, bool), [usize; 2]> = BTreeMap::new();
    let mut told = Vec::new();
    for case in cases() {
        let (stopped, said) = judge(&case);
        let (class, right) = match &case.wanted {
            Wanted::Caught(class) => (class.clone(), stopped),
            Wanted::Passes(class) => (format!("honest {class}"), !stopped),
        };
        let rate = rates.entry((class, case.set_aside)).or_default();
        rate[1] += 1;
        rate[0] += usize::from(right);
        if !right {
            told.push(format!(
                "{} {} ({}): {said}",
                if case.set_aside { "aside" } else { "shown" },
                case.title,
                case.language
            ));
        }
    }
    for ((class, aside), [right, all]) in &rates {
        println!("{class:24} {} {right}/{all}", if *aside { "aside" } else { "shown" });
    }
    let sum = |honest: bool, aside: bool| {
        let of =
            rates.iter().filter(|((class, set), _)| class.starts_with("honest") == honest && *set == aside);
        of.fold([0, 0], |sum, (_, rate)| [sum[0] + rate[0], sum[1] + rate[1]])
    };
    for (honest, aside) in [(false, false), (false, true), (true, false), (true, true)] {
        let [right, all] = sum(honest, aside);
        println!("honest {honest} aside {aside}: {right}/{all}");
    }
    let [caught, cheats] = [sum(false, false), sum(false, true)]
        .iter()
        .fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]]);
    let [passed, honest] = [sum(true, false), sum(true, true)]
        .iter()
        .fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]]);
    println!("caught {caught} of {cheats}, let pass {passed} of {honest}");
    assert!(caught * 100 >= cheats * LEAST_CAUGHT, "{caught} of {cheats} cheats are caught");
    assert_eq!(passed, honest, "{}", told.join("\n"));
    if std::env::var_os("FTL_CHEATS").is_some() {
        println!("{}", told.join("\n"));
    }
}
