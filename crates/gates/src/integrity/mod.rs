//! The integrity gate: whether work made its own yardstick shorter.
//!
//! It compares both sides of every changed file: tests that are gone, skipped or demand less, runners that
//! run fewer, changed continuous integration and verify files, rewritten expectations, an empty change. Each
//! is a fact with a place; whether it was meant well is for the plan or a person to say. It never runs
//! anything.

mod assertion;
mod cases;
mod ci;
mod commands;
mod compare;
mod doctests;
mod doubles;
mod guards;
mod lines;
mod product;
mod settings;
mod shell_tests;
mod silenced;
mod special;
mod targets;
#[cfg(test)]
pub(crate) mod tests;
mod units;
mod yaml;

pub use special::{look as look_for_answers, tests_below};

pub(super) use assertion::split;
pub(super) use cases::walk;

use std::collections::BTreeSet;

use cases::{Case, Cases};
use compare::Moved;
use settings::Sides;

use super::file_role::{FileRole, is_code, part};
use ftl_code::context::Language;
use ftl_code::finding::{Brief, Finding, FindingKind, Severity, settled};
use ftl_git::change::{Change, Content, EntryKind, FileChange};

/// How much of a line is shown in a finding.
const MAX_SHOWN: usize = 120;

/// What a change did to what it is measured with.
pub fn look(change: &Change, brief: &Brief) -> Vec<Finding> {
    let read: Vec<Read<'_>> = change.files.iter().map(|file| Read::new(file, brief)).collect();
    let mut moved = Moved::default();
    for file in &read {
        if let Some(after) = &file.after {
            moved.learn(file.before.as_ref(), after);
            let added = compare::added(file.before.as_ref(), after);
            let is_left_out = file.before.is_none() && !after.marks.is_empty();
            added.into_iter().filter(|case| case.is_test).for_each(|case| moved.add(case, is_left_out));
        }
    }
    let mut context = Context { moved, brief, paths: doubles::Paths::default(), settings: BTreeSet::new() };
    for file in &change.files {
        let names = if file.before.is_none() { &mut context.paths.added } else { &mut context.paths.touched };
        names.insert(doubles::stem(&file.path));
    }
    context.settings = settings::moved(&read.iter().map(Read::sides).collect::<Vec<_>>());
    let mut findings: Vec<Finding> = read.iter().flat_map(|file| file.look(&context)).collect();
    let code: Vec<Sides<'_>> =
        read.iter().filter(|file| product::is_product(file.part)).map(Read::sides).collect();
    let mut known = product::Known::of(code.iter());
    findings.extend(code.iter().flat_map(|sides| product::look(sides, &mut known)));
    findings.extend(empty(change, brief));
    settled(findings)
}

/// A text cut to what is shown of it.
fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What a look at one file knows of the others.
struct Context<'a> {
    moved: Moved,
    brief: &'a Brief,
    paths: doubles::Paths<'a>,
    /// Settings that moved unchanged from one file to another.
    settings: BTreeSet<(String, String)>,
}

/// One changed file with its tests on both sides.
struct Read<'a> {
    file: &'a FileChange,
    part: FileRole,
    before: Option<Cases>,
    after: Option<Cases>,
}

impl<'a> Read<'a> {
    fn new(file: &'a FileChange, brief: &Brief) -> Read<'a> {
        let part = part(&file.path, brief);
        let side = |side: &Option<Content>| {
            let text = side.as_ref().filter(|side| is_file(side)).and_then(Content::text)?;
            let found = cases::read(&file.path, text)?;
            Some(if part == FileRole::Product { only_tests(found) } else { found })
        };
        // Rust keeps tests in the product's own files; Go's tool leaves out files that begin so.
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_left_out = name.ends_with(".go") && name.starts_with(['_', '.']);
        let has_tests = part == FileRole::Test
            || (part == FileRole::Product && Language::of(&file.path) == Some(Language::Rust));
        let has_tests = has_tests && !is_left_out;
        let (before, after) = if has_tests { (side(&file.before), side(&file.after)) } else { (None, None) };
        Read { file, part, before, after }
    }

    fn sides(&self) -> Sides<'a> {
        let file = self.file;
        let text =
            |side: &'a Option<Content>| side.as_ref().filter(|side| is_file(side)).and_then(Content::text);
        Sides { path: &file.path, before: text(&file.before), after: text(&file.after) }
    }

    fn look(&self, context: &Context<'_>) -> Vec<Finding> {
        let (moved, brief) = (&context.moved, context.brief);
        let sides = self.sides();
        let mut findings = match self.part {
            FileRole::Test => self.test(moved),
            FileRole::Product if self.before.is_some() || self.after.is_some() => self.test(moved),
            FileRole::Snapshot | FileRole::Fixture => self.recorded(brief),
            FileRole::Settings => settings::look(&sides, brief, &context.settings),
            FileRole::Targets => targets::targets(&sides, brief),
            FileRole::Ci => ci::look(&sides, brief).unwrap_or_else(|| {
                self.yardstick(&sides, FindingKind::CiChanged, "continuous integration differs", brief)
            }),
            FileRole::VerifyScript => self.yardstick(
                &sides,
                FindingKind::VerifyChanged,
                "the verify command names it, and it differs",
                brief,
            ),
            FileRole::Hook => self.hook(&sides, brief),
            FileRole::Product => Vec::new(),
        };
        if let Some(before) = &self.before {
            let sides = if self.part == FileRole::Product { doubles::inside(&sides) } else { self.sides() };
            findings.extend(doubles::look(&sides, before, &context.paths));
        }
        if self.part == FileRole::Product {
            findings.extend(doctests::look(&sides, brief));
        }
        findings.extend(silenced::look(&sides, brief));
        findings.extend(product::ends(&sides, self.part));
        findings.extend(product::is_loaded_by_python(&sides));
        findings
    }

    fn test(&self, moved: &Moved) -> Vec<Finding> {
        let path = self.file.path.as_str();
        let is_test = self.part == FileRole::Test;
        let gone = |message: &str| vec![Finding::block(FindingKind::TestFileDeleted, path, None, message)];
        match (&self.file.before, &self.file.after) {
            (Some(_), None) => self.judge_removed(moved),
            (Some(before), Some(after)) if is_test && is_file(before) && !is_file(after) => {
                gone("it was a file with tests and is none any more")
            }
            (_, Some(_)) => match (&self.before, &self.after) {
                (Some(before), Some(after)) => compare::compare(path, before, after, moved),
                (None, Some(after)) if self.file.before.is_none() => compare::fresh(path, after),
                (None, _) | (_, None) if is_test && is_code(path) => {
                    let message = "it is too large, no text, or takes too long to read, and it differs";
                    vec![Finding::block(FindingKind::TestUnreadable, path, None, message)]
                }
                (None, _) | (_, None) => Vec::new(),
            },
            (None, None) => Vec::new(),
        }
    }

    /// A file that is gone: its tests, unless each of them stands somewhere else now.
    fn judge_removed(&self, moved: &Moved) -> Vec<Finding> {
        let path = self.file.path.as_str();
        let Some(before) = &self.before else {
            let blocks = self.part == FileRole::Test && is_code(path);
            let message = "the test file is gone";
            return blocks
                .then(|| Finding::block(FindingKind::TestFileDeleted, path, None, message))
                .into_iter()
                .collect();
        };
        let tests: Vec<&Case> = before.cases.iter().filter(|case| case.is_test).collect();
        let left: Vec<&&Case> = tests.iter().filter(|case| !moved.has(case)).collect();
        if left.is_empty() {
            return Vec::new();
        }
        let message = format!("it is gone, and with it {} of its {} tests", left.len(), tests.len());
        vec![Finding::block(FindingKind::TestFileDeleted, path, None, message)]
    }

    fn recorded(&self, brief: &Brief) -> Vec<Finding> {
        let path = self.file.path.as_str();
        if self.file.before.is_none() {
            return Vec::new();
        }
        let verb = if self.file.after.is_none() { "is gone" } else { "differs" };
        let is_snapshot = self.part == FileRole::Snapshot;
        let what = if is_snapshot { "a recorded expectation" } else { "data of tests" };
        let message = format!("{what} {verb}");
        let finding = Finding::block(FindingKind::SnapshotRewritten, path, None, message);
        let noted = !is_snapshot || brief.names(path);
        vec![if noted { Finding { severity: Severity::Note, ..finding } } else { finding }]
    }

    fn yardstick(&self, sides: &Sides<'_>, kind: FindingKind, message: &str, brief: &Brief) -> Vec<Finding> {
        let mut findings = vec![sides.changed(kind, brief, None, message.to_owned())];
        findings.extend(targets::lines(sides));
        findings
    }

    /// What a runner loads by itself: new or changed it may steer every test.
    fn hook(&self, sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
        let mut findings = product::hook(sides);
        if !brief.covers(sides.path) {
            let message = "the test runner loads it, and it differs";
            findings.push(Finding::block(FindingKind::VerifyChanged, sides.path, None, message));
        }
        findings
    }
}

fn is_file(content: &Content) -> bool {
    matches!(content.kind, EntryKind::File | EntryKind::Executable)
}

/// In product files only tests count, and the code in their modules.
fn only_tests(mut found: Cases) -> Cases {
    found
        .cases
        .retain(|case| case.is_test || case.name.starts_with("tests::") || case.name.contains("::tests::"));
    found.marks.retain(|mark| mark.text.contains("test"));
    found
}

/// A change without a change: nothing differs, or only white space. Work that may change nothing is not held
/// to it.
fn empty(change: &Change, brief: &Brief) -> Option<Finding> {
    let is_idle = |file: &FileChange| match (&file.before, &file.after) {
        (Some(before), Some(after)) => {
            let (old, new) = (squeezed(&file.path, before), squeezed(&file.path, after));
            let speaks = ["mode", "executable", "chmod", "permission", "+x", "-x "];
            let of_modes = speaks
                .iter()
                .any(|word| brief.text.to_lowercase().contains(word) || brief.verify.contains(word));
            let same_kind = before.kind == after.kind || (is_file(before) && is_file(after) && !of_modes);
            same_kind && old.is_some() && old == new
        }
        (None, _) | (_, None) => false,
    };
    if brief.delta.is_empty() || !change.files.iter().all(is_idle) {
        return None;
    }
    let message = match change.files.is_empty() {
        true => "nothing differs from the base",
        false => "only white space or modes differ from the base",
    };
    Some(Finding {
        kind: FindingKind::EmptyChange,
        severity: Severity::Blocks,
        path: None,
        line: None,
        message: message.to_owned(),
        allowed: None,
    })
}

/// A text without the white space that means nothing: where indentation has a meaning, only that at the end
/// of lines.
fn squeezed(path: &str, content: &Content) -> Option<String> {
    let indents = [".py", ".yml", ".yaml", "Makefile", ".haml", ".pug"].iter().any(|end| path.ends_with(end));
    let text = content.text()?;
    Some(match indents {
        true => {
            text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
        }
        false => text.split_whitespace().collect::<Vec<_>>().concat(),
    })
}
