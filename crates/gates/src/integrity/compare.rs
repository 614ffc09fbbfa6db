//! The tests of a file before and after: what is gone, what is skipped, what demands less.
//!
//! A test that moved or got another name is the same test. Only what got weaker is told; what a test newly
//! demands is no concern of this gate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::assertion::{Assertion, Strength, literals};
use super::cases::{Case, Cases, Mark, Row, What};
use ftl_code::finding::{Finding, FindingKind};

/// How many assertions of one test are compared one by one.
const MAX_COMPARED: usize = 500;

/// Tests that appeared somewhere in the change, by their own name: where a test that is gone may have moved
/// to.
#[derive(Debug, Default)]
pub(super) struct Moved {
    new: BTreeMap<String, usize>,
    bodies: BTreeSet<Vec<String>>,
    /// Names of new tests that are skipped or stand under a condition.
    marked: BTreeSet<String>,
    /// Assertions of new tests, by their texts.
    texts: BTreeSet<String>,
    /// What the tests of the work ask for, each with the literals of one row or assertion and what it calls.
    asked: Vec<Asked>,
}

/// One row of a table, or one assertion, with the texts of the assertions around it.
#[derive(Debug)]
struct Asked {
    literals: BTreeSet<String>,
    strength: Strength,
    around: Arc<str>,
    /// Whether the base has it nowhere in this file.
    is_new: bool,
}

impl Moved {
    /// Notes a test that a file did not have before.
    pub(super) fn add(&mut self, case: &Case, is_left_out: bool) {
        // A test that moved into a skip is gone, unless it was skipped where it came from.
        if is_left_out || !case.marks.is_empty() {
            self.marked.insert(own_name(&case.name).to_owned());
            return;
        }
        let count = self.new.entry(own_name(&case.name).to_owned()).or_default();
        *count = case.assertions.len().max(*count);
        if !case.assertions.is_empty() {
            self.bodies.insert(texts(case));
        }
    }

    /// Notes what the tests of a file ask for: where a test that is gone may have become a row.
    pub(super) fn learn(&mut self, before: Option<&Cases>, after: &Cases) {
        // What a new file leaves out as a whole asks for nothing.
        if before.is_none() && !after.marks.is_empty() {
            return;
        }
        let runs = |case: &&Case| case.marks.is_empty() && !case.is_empty && case.returns.is_none();
        let is_reached = |one: &&Assertion| one.guards == 0;
        for case in added(before, after).into_iter().filter(|case| case.is_test).filter(runs) {
            self.texts.extend(case.assertions.iter().filter(is_reached).map(|one| one.text.clone()));
        }
        let live: Vec<&Case> = after.cases.iter().filter(runs).collect();
        let words = |case: &&Case| -> Arc<str> {
            let texts = case.assertions.iter().filter(is_reached).map(|one| one.text.as_str());
            texts.chain(case.calls.iter().map(String::as_str)).collect::<Vec<_>>().join(" ").into()
        };
        let all: Arc<str> = live.iter().map(words).collect::<Vec<_>>().join(" ").into();
        let of_file = after.rows.iter().map(|row| (row, Arc::clone(&all)));
        let of_cases = live.iter().flat_map(|case| {
            let around = words(case);
            case.rows.iter().map(move |row| (row, Arc::clone(&around)))
        });
        let old: BTreeSet<&Row> = before
            .iter()
            .flat_map(|one| one.rows.iter().chain(one.cases.iter().flat_map(|case| &case.rows)))
            .collect();
        let rows = of_file.chain(of_cases).map(|(row, around)| Asked {
            literals: literals(&row.0),
            strength: Strength::Exact,
            around,
            is_new: !old.contains(row),
        });
        let known: BTreeSet<&str> = before
            .iter()
            .flat_map(|one| &one.cases)
            .flat_map(|case| &case.assertions)
            .map(|one| one.text.as_str())
            .collect();
        let new = live.iter().flat_map(|case| &case.assertions).filter(is_reached);
        let new = new.filter(|one| !known.contains(one.text.as_str())).map(|one| Asked {
            literals: one.literals(),
            strength: one.strength,
            around: one.text.as_str().into(),
            is_new: true,
        });
        let room = MAX_ASKED.saturating_sub(self.asked.len());
        self.asked.extend(rows.chain(new).filter(|one| !one.literals.is_empty()).take(room));
    }

    /// Whether a test that is gone stands somewhere else, under its name or with the same assertions.
    pub(super) fn has(&self, case: &Case) -> bool {
        let named = self.new.get(own_name(&case.name)).is_some_and(|count| *count >= case.assertions.len());
        let stays_marked = !case.marks.is_empty() && self.marked.contains(own_name(&case.name));
        named
            || stays_marked
            || (!case.assertions.is_empty() && self.bodies.contains(&texts(case)))
            || self.asks_the_same(case)
    }

    /// Whether each assertion of a test that is gone stands in new tests, or all its literals in one row of a table or
    /// one new assertion about the same function.
    fn asks_the_same(&self, case: &Case) -> bool {
        // Where each stands, and whether that is new: a test is not folded into what was there before.
        let asked = |old: &Assertion| -> Option<bool> {
            if self.texts.contains(&old.text) {
                return Some(true);
            }
            let wanted = old.literals();
            let callee = callee(&old.subject);
            let enough = wanted.len() > 1 || (wanted.len() == 1 && callee.is_some());
            let fits = |one: &&Asked| {
                let same = callee.is_none_or(|name| one.around.contains(name));
                enough && one.strength >= old.strength && wanted.is_subset(&one.literals) && same
            };
            let found: Vec<&Asked> = self.asked.iter().filter(fits).collect();
            (!found.is_empty()).then(|| found.iter().any(|one| one.is_new))
        };
        let found: Option<Vec<bool>> = case.assertions.iter().map(asked).collect();
        found.is_some_and(|found| found.contains(&true))
    }
}

/// How many rows and assertions of the work are remembered.
const MAX_ASKED: usize = 2_000;

/// The function that a subject calls first.
pub(super) fn callee(subject: &str) -> Option<&str> {
    let open = subject.find('(')?;
    let head = &subject[..open];
    let name = head.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    (!name.is_empty()).then_some(name)
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
    let (helpers, fresh): (Vec<&Case>, Vec<&Case>) =
        added(Some(before), after).into_iter().partition(|case| !case.is_test);
    let mut fresh = fresh;
    let counts = [Helpers::of(before), Helpers::of(after)];
    for (name, case) in &old {
        let same = new.get(name).copied();
        if let Some(now) = same.filter(|now| case.is_test && !now.is_test) {
            let message = format!("{name} is no test any more");
            findings.push(Finding::block(FindingKind::TestRemoved, path, Some(now.line), message));
        }
        let is_kept = same.is_none() && moved.asks_the_same(case);
        match same.or_else(|| if is_kept { None } else { take_renamed(case, &mut fresh) }) {
            Some(now) => findings.extend(weaker(path, name, (case, now), &counts, moved)),
            None if case.is_test && !is_kept && !moved.has(case) => {
                let message = format!("the test {name} is gone");
                findings.push(Finding::block(FindingKind::TestRemoved, path, Some(case.line), message));
            }
            None => {}
        }
    }
    findings.extend(fresh.iter().flat_map(|case| fresh_case(path, case)));
    // What a new helper skips, an old test may skip by it.
    findings.extend(helpers.iter().flat_map(|case| marks(path, &case.name, &[], &case.marks, false)));
    findings.extend(rows(path, "the file", (&before.rows, &after.rows), moved));
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

/// How often the functions of a file assert that are no tests, by their last names.
struct Helpers<'a> {
    counts: BTreeMap<&'a str, usize>,
    /// How often the subtests of a test assert, by the test's name.
    below: BTreeMap<&'a str, usize>,
}

impl<'a> Helpers<'a> {
    fn of(cases: &'a Cases) -> Helpers<'a> {
        let helpers = cases.cases.iter().filter(|case| !case.is_test && !case.assertions.is_empty());
        let counts = helpers.map(|case| (own_name(&case.name), case.assertions.len())).collect();
        let mut below: BTreeMap<&str, usize> = BTreeMap::new();
        for case in &cases.cases {
            if let Some((above, _)) = case.name.split_once('/').filter(|_| case.is_test) {
                *below.entry(above).or_default() += case.assertions.len();
            }
        }
        Helpers { counts, below }
    }

    /// How often a test asserts, with the helpers of its file that it calls.
    fn count(&self, case: &Case) -> usize {
        let calls = case.calls.iter().filter(|name| own_name(&case.name) != name.as_str());
        case.assertions.len() + calls.filter_map(|name| self.counts.get(name.as_str())).sum::<usize>()
    }

    /// The same with the subtests into which its assertions may have moved.
    fn count_below(&self, case: &Case) -> usize {
        self.count(case) + self.below.get(case.name.as_str()).copied().unwrap_or(0)
    }
}

/// Rows of tables that are gone and that nothing else asks for.
fn rows(path: &str, name: &str, (before, after): (&[Row], &[Row]), moved: &Moved) -> Option<Finding> {
    if after.len() >= before.len() {
        return None;
    }
    let is_gone = |row: &&Row| {
        let wanted = literals(&row.0);
        !after.contains(row)
            && !moved.asked.iter().any(|one| !wanted.is_empty() && wanted.is_subset(&one.literals))
    };
    let gone = before.iter().find(is_gone)?;
    let message = format!(
        "{name} runs over {} rows, {} before (`{}` is gone)",
        after.len(),
        before.len(),
        super::short(&gone.0)
    );
    Some(Finding::block(FindingKind::AssertionRemoved, path, None, message))
}

/// Assertions that were there and now stand below a condition, a handler or a function of their own, or that nobody
/// waits for any more.
fn covered(path: &str, name: &str, before: &Case, after: &Case) -> Vec<Finding> {
    let mut old: BTreeMap<&str, Vec<&Assertion>> = BTreeMap::new();
    for one in &before.assertions {
        old.entry(&one.text).or_default().push(one);
    }
    let mut findings = Vec::new();
    for now in &after.assertions {
        let Some(was) = old.get_mut(now.text.as_str()).and_then(Vec::pop) else { continue };
        let shown = super::short(&now.text);
        if now.guards > was.guards {
            let message = format!(
                "`{shown}` of {name} stands below a condition, a handler or a function of its own now"
            );
            findings.push(Finding::block(FindingKind::AssertionSwallowed, path, Some(now.line), message));
        }
        let is_promise = [".resolves.", ".rejects."].iter().any(|word| now.text.contains(word));
        if is_promise && was.is_awaited && !now.is_awaited {
            let message = format!("{name} does not wait for `{shown}` any more");
            findings.push(Finding::block(FindingKind::AssertionSwallowed, path, Some(now.line), message));
        }
    }
    findings
}

fn weaker(
    path: &str,
    name: &str,
    (before, after): (&Case, &Case),
    helpers: &[Helpers<'_>; 2],
    moved: &Moved,
) -> Vec<Finding> {
    let mut findings = marks(path, name, &before.marks, &after.marks, false);
    if !findings.iter().any(|one| one.kind == FindingKind::AssertionSwallowed) {
        findings.extend(covered(path, name, before, after));
    }
    if after.is_constant && !before.is_constant && !before.is_test && !before.is_empty && !after.is_empty {
        let message = format!("{name} gives back the same whatever it is asked");
        findings.push(Finding::block(FindingKind::AssertionWeakened, path, Some(after.line), message));
    }
    if before.is_test {
        findings.extend(rows(path, name, (&before.rows, &after.rows), moved));
    }
    if after.is_empty && !before.is_empty {
        let message = format!("{name} has an empty body, and had none before");
        findings.push(Finding::block(FindingKind::HollowTest, path, Some(after.line), message));
        return findings;
    }
    if let (Some(line), None) = (after.returns, before.returns) {
        let message = format!("{name} returns before the rest of its body");
        findings.push(Finding::block(FindingKind::HollowTest, path, Some(line), message));
    }
    let (was, is) = (helpers[0].count(before), helpers[1].count_below(after));
    let weight: usize = after.assertions.iter().map(Assertion::weight).sum();
    if is < was && weight + is - after.assertions.len() < was {
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
    let mut left: BTreeMap<(What, &str), usize> = BTreeMap::new();
    for mark in before {
        *left.entry((mark.what, &mark.text)).or_default() += 1;
    }
    let mut findings = Vec::new();
    for mark in after {
        if let Some(count) = left.get_mut(&(mark.what, mark.text.as_str())).filter(|count| **count > 0) {
            *count -= 1;
            continue;
        }
        let (kind, what) = match mark.what {
            What::Skip => (FindingKind::TestSkipped, "is skipped or expected to fail"),
            What::Focus => (FindingKind::TestFocused, "is marked as the only one to run"),
            What::Condition => (FindingKind::RunnerNarrowed, "exists only under a condition of the build"),
            What::Panic => (FindingKind::AssertionWeakened, "passes when the code fails"),
            What::Swallow => (FindingKind::AssertionSwallowed, "drops the failure of an assertion"),
            What::Retry => (FindingKind::RunnerNarrowed, "is run again until it passes"),
        };
        let message = format!("{name} {what} (`{}`)", mark.text);
        // The base loses nothing by a new test that is not run everywhere.
        if is_new && matches!(mark.what, What::Skip | What::Condition | What::Retry) {
            findings.push(Finding::note(kind, path, Some(mark.line), message));
            continue;
        }
        // A new test may say that the code is to panic; an old one that now says so was turned round.
        if mark.what == What::Panic && is_new {
            continue;
        }
        findings.push(Finding::block(kind, path, Some(mark.line), message));
    }
    findings
}
