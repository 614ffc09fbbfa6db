//! The tests of a file before and after: what is gone, what is skipped, what demands less.
//!
//! A test that moved or got another name is the same test. Only what got weaker is told; what a test newly
//! demands is no concern of this gate.

use std::collections::{BTreeMap, BTreeSet};

use super::assertion::{Assertion, Strength};
use super::cases::{Case, Cases, Mark, What};
use ftl_code::finding::{Finding, FindingKind};

/// How many assertions of one test are compared one by one.
const MAX_COMPARED: usize = 500;

/// Tests that appeared somewhere in the change, by their own name: where a test that is gone may have moved
/// to.
#[derive(Debug, Default)]
pub(super) struct Moved {
    new: BTreeMap<String, usize>,
    bodies: BTreeSet<Vec<String>>,
}

impl Moved {
    /// Notes a test that a file did not have before.
    pub(super) fn add(&mut self, case: &Case) {
        let count = self.new.entry(own_name(&case.name).to_owned()).or_default();
        *count = case.assertions.len().max(*count);
        if !case.assertions.is_empty() {
            self.bodies.insert(texts(case));
        }
    }

    /// Whether a test that is gone stands somewhere else, under its name or with the same assertions.
    pub(super) fn has(&self, case: &Case) -> bool {
        let named = self.new.get(own_name(&case.name)).is_some_and(|count| *count >= case.assertions.len());
        named || (!case.assertions.is_empty() && self.bodies.contains(&texts(case)))
    }
}

fn own_name(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

fn texts(case: &Case) -> Vec<String> {
    case.assertions.iter().map(|one| one.text.clone()).collect()
}

/// Cases by name; a name that comes again gets a number.
fn by_name(cases: &Cases) -> BTreeMap<String, &Case> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for case in &cases.cases {
        let count = seen.entry(&case.name).or_default();
        *count += 1;
        let name = if *count == 1 { case.name.clone() } else { format!("{} ({count})", case.name) };
        found.insert(name, case);
    }
    found
}

/// The tests that only the second side has.
pub(super) fn added<'a>(before: Option<&Cases>, after: &'a Cases) -> Vec<&'a Case> {
    let old = before.map(by_name).unwrap_or_default();
    by_name(after).into_iter().filter(|(name, _)| !old.contains_key(name)).map(|(_, case)| case).collect()
}

/// What got weaker in one file.
pub(super) fn compare(path: &str, before: &Cases, after: &Cases, moved: &Moved) -> Vec<Finding> {
    let (old, new) = (by_name(before), by_name(after));
    let mut findings: Vec<Finding> = too_many_tests(path, before, after).into_iter().collect();
    let mut fresh: Vec<&Case> = added(Some(before), after).into_iter().filter(|case| case.is_test).collect();
    for (name, case) in &old {
        let same = new.get(name).copied();
        if let Some(now) = same.filter(|now| case.is_test && !now.is_test) {
            let message = format!("{name} is no test any more");
            findings.push(Finding::block(FindingKind::TestRemoved, path, Some(now.line), message));
        }
        match same.or_else(|| take_renamed(case, &mut fresh)) {
            Some(now) => findings.extend(weaker(path, name, case, now)),
            None if case.is_test && !moved.has(case) => {
                let message = format!("the test {name} is gone");
                findings.push(Finding::block(FindingKind::TestRemoved, path, Some(case.line), message));
            }
            None => {}
        }
    }
    findings.extend(fresh.iter().flat_map(|case| fresh_case(path, case)));
    findings.extend(hidden(path, before, after));
    findings.extend(marks(path, "the file", &before.marks, &after.marks, false));
    findings
}

/// A file with more tests than are looked at is never called fine.
fn too_many_tests(path: &str, before: &Cases, after: &Cases) -> Option<Finding> {
    let message = "it has more tests than are looked at, and it differs";
    let is_cut = before.is_cut || after.is_cut;
    is_cut.then(|| Finding::block(FindingKind::TestUnreadable, path, None, message))
}

/// In Python a second definition takes the place of the first, which then never runs.
fn hidden(path: &str, before: &Cases, after: &Cases) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &before.cases {
        *counts.entry(&case.name).or_default() += 1;
    }
    let mut findings = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for case in after.cases.iter().filter(|_| path.ends_with(".py")) {
        let count = seen.entry(&case.name).or_default();
        *count += 1;
        let is_new = *count > 1 && *count > counts.get(case.name.as_str()).copied().unwrap_or(0);
        if is_new && case.is_test {
            let message = format!("{} is defined again, so the one before it never runs", case.name);
            findings.push(Finding::block(FindingKind::HollowTest, path, Some(case.line), message));
        }
    }
    findings
}

/// What a file that is new brings with it.
pub(super) fn fresh(path: &str, after: &Cases) -> Vec<Finding> {
    let tests = after.cases.iter().filter(|case| case.is_test);
    let mut findings: Vec<Finding> = tests.flat_map(|case| fresh_case(path, case)).collect();
    findings.extend(marks(path, "the file", &[], &after.marks, true));
    findings
}

/// A test with another name that asserts at least half of the same things.
fn take_renamed<'a>(case: &Case, fresh: &mut Vec<&'a Case>) -> Option<&'a Case> {
    let old: BTreeSet<&str> = case.assertions.iter().map(|one| one.text.as_str()).collect();
    let fits = |one: &&Case| {
        let same = one.assertions.iter().filter(|assertion| old.contains(assertion.text.as_str())).count();
        case.is_test && same * 2 >= case.assertions.len() && same > 0
    };
    let at = fresh.iter().position(fits)?;
    Some(fresh.remove(at))
}

fn fresh_case(path: &str, case: &Case) -> Vec<Finding> {
    let mut findings = marks(path, &case.name, &[], &case.marks, true);
    let hollow = case.is_empty || (!case.assertions.is_empty() && case.assertions.iter().all(is_nothing));
    if hollow && findings.is_empty() {
        let message = format!("the new test {} checks nothing", case.name);
        findings.push(Finding::note(FindingKind::HollowTest, path, Some(case.line), message));
    }
    findings
}

fn is_nothing(assertion: &Assertion) -> bool {
    assertion.strength == Strength::Nothing
}

fn weaker(path: &str, name: &str, before: &Case, after: &Case) -> Vec<Finding> {
    let mut findings = marks(path, name, &before.marks, &after.marks, false);
    if after.is_empty && !before.is_empty {
        let message = format!("{name} has an empty body, and had none before");
        findings.push(Finding::block(FindingKind::HollowTest, path, Some(after.line), message));
        return findings;
    }
    if let (Some(line), None) = (after.returns, before.returns) {
        let message = format!("{name} returns before the rest of its body");
        findings.push(Finding::block(FindingKind::HollowTest, path, Some(line), message));
    }
    let (was, is) = (before.assertions.len(), after.assertions.len());
    if is < was {
        let message = format!("{name} asserts {is} times, {was} times before");
        findings.push(Finding::block(FindingKind::AssertionRemoved, path, Some(after.line), message));
    }
    if without(&before.assertions, &after.assertions).len() > MAX_COMPARED {
        let message = format!("more than {MAX_COMPARED} assertions of {name} differ, too many to compare");
        findings.push(Finding::block(FindingKind::TestUnreadable, path, Some(after.line), message));
    }
    findings.extend(pairs(before, after).into_iter().filter_map(|(old, new)| changed(path, name, old, new)));
    findings
}

/// The assertions that differ, each old one with the new one that took its place.
fn pairs<'a>(before: &'a Case, after: &'a Case) -> Vec<(&'a Assertion, &'a Assertion)> {
    let mut gone = without(&before.assertions, &after.assertions);
    let mut new = without(&after.assertions, &before.assertions);
    gone.truncate(MAX_COMPARED);
    new.truncate(MAX_COMPARED);
    let mut pairs = Vec::new();
    gone.retain(|old| match new.iter().position(|one| one.subject == old.subject) {
        Some(at) => {
            pairs.push((*old, new.remove(at)));
            false
        }
        None => true,
    });
    pairs.extend(gone.into_iter().zip(new));
    pairs
}

/// What one list has more often than the other.
fn without<'a>(these: &'a [Assertion], those: &[Assertion]) -> Vec<&'a Assertion> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in those {
        *counts.entry(one.text.as_str()).or_default() += 1;
    }
    let is_left = |one: &&Assertion| match counts.get_mut(one.text.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        Some(_) | None => true,
    };
    these.iter().filter(is_left).collect()
}

fn changed(path: &str, name: &str, old: &Assertion, new: &Assertion) -> Option<Finding> {
    let line = Some(new.line);
    let block = |message: String| Some(Finding::block(FindingKind::AssertionWeakened, path, line, message));
    let (was, is) = (super::short(&old.text), super::short(&new.text));
    if new.strength < old.strength {
        let message = format!(
            "{name} demanded {} (`{was}`) and now {} (`{is}`)",
            old.strength.words(),
            new.strength.words()
        );
        return block(message);
    }
    if let (Some(before), Some(after)) = (old.tolerance, new.tolerance)
        && after > before * 1.000_001
    {
        return block(format!("{name} lets a number be off by {after}, {before} before (`{is}`)"));
    }
    let expects = old.strength == Strength::Exact && old.subject == new.subject;
    let message = format!("{name} expected `{was}` and now `{is}`");
    expects.then(|| Finding::note(FindingKind::ExpectationChanged, path, line, message))
}

/// Marks that were not there before.
fn marks(path: &str, name: &str, before: &[Mark], after: &[Mark], is_new: bool) -> Vec<Finding> {
    let mut left: Vec<&Mark> = before.iter().collect();
    let mut findings = Vec::new();
    for mark in after {
        if let Some(at) = left.iter().position(|old| old.what == mark.what && old.text == mark.text) {
            left.remove(at);
            continue;
        }
        let (kind, what) = match mark.what {
            What::Skip => (FindingKind::TestSkipped, "is skipped or expected to fail"),
            What::Focus => (FindingKind::TestFocused, "is marked as the only one to run"),
            What::Condition => (FindingKind::RunnerNarrowed, "exists only under a condition of the build"),
            What::Panic => (FindingKind::AssertionWeakened, "passes when the code fails"),
            What::Swallow => (FindingKind::AssertionSwallowed, "drops the failure of an assertion"),
        };
        // A new test may say that the code is to panic; an old one that now says so was turned round.
        if mark.what == What::Panic && is_new {
            continue;
        }
        let message = format!("{name} {what} (`{}`)", mark.text);
        findings.push(Finding::block(kind, path, Some(mark.line), message));
    }
    findings
}
