//! Targets of a `Makefile` or `justfile`, and lines of scripts: what of them the verify command goes through.
//!
//! What a used target needs is followed by names; a variable counts where such a target names it.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{added, ends_well, keeps, narrows, requested_targets};
use super::settings::{MAX_FOLLOWED, Sides, is_in};
use ftl_code::finding::{Brief, Finding, FindingKind};

/// How many lines of one target, or outside of all of them, are compared with each other.
const MAX_COMPARED: usize = 500;

/// How many bytes of used targets are searched for the variables that they name.
const MAX_REACHED_BYTES: usize = 200_000;

/// A `Makefile` or `justfile`: the targets that the verify command asks for, and what they need.
pub(super) fn targets(sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
    let (old, new) = (blocks(sides.old()), blocks(sides.now()));
    let wanted = requested_targets(&brief.verify, &["make", "gmake", "just", "task"]);
    let is_asked = ["make", "gmake", "just", "task"]
        .iter()
        .any(|word| brief.verify.split_whitespace().any(|one| one == *word));
    let used = used_targets(&wanted, is_asked, &old, &new);
    let mut findings = Vec::new();
    let reached: String = used
        .iter()
        .flat_map(|name| [old.get(name), new.get(name)])
        .flatten()
        .map(|one| one.text.as_str())
        .collect();
    for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (old.get(name), new.get(name));
        if was.map(|one| &one.text) == is.map(|one| &one.text) {
            continue;
        }
        let line = is.map(|one| one.line);
        let texts = [was, is].map(|one| one.map_or("", |one| one.text.as_str()));
        let adds = match name.is_empty() {
            true => !outside_matters(texts, &reached),
            false => brief.names(sides.path) && recipe_keeps(texts),
        };
        if adds && is_asked {
            let what = if name.is_empty() {
                "what stands outside all targets".to_owned()
            } else {
                format!("target `{name}`")
            };
            findings.push(Finding::note(
                FindingKind::VerifyChanged,
                sides.path,
                line,
                format!("{what} differs"),
            ));
            continue;
        }
        let named = if name.is_empty() {
            "what stands outside all targets".to_owned()
        } else {
            format!("target `{name}`")
        };
        // Variables and settings outside all targets reach every one of them.
        let is_used = is_in(&used, name) || (name.is_empty() && is_asked);
        findings.push(match is_used {
            true => Finding::block(
                FindingKind::VerifyChanged,
                sides.path,
                line,
                format!("{named} differs; the verify command uses it"),
            ),
            false => Finding::note(FindingKind::VerifyChanged, sides.path, line, format!("{named} differs")),
        });
    }
    findings.extend(lines(sides));
    findings
}

/// Whether what differs outside of all targets reaches one that is used: a variable that it names, or a line that is none.
fn outside_matters([was, is]: [&str; 2], reached: &str) -> bool {
    const ALWAYS: [&str; 4] = ["SHELL", "MAKEFLAGS", ".SHELLFLAGS", "MAKEOVERRIDES"];
    let lines = |text: &str| -> BTreeSet<String> {
        text.lines().map(str::trim).filter(|line| !line.starts_with(".PHONY")).map(str::to_owned).collect()
    };
    let (old, new) = (lines(was), lines(is));
    // Where there is more than is compared, nobody knows what is reached.
    if old.len().max(new.len()) > MAX_COMPARED || reached.len() > MAX_REACHED_BYTES {
        return true;
    }
    let named = |name: &str, text: &str| {
        [
            format!("$({name})"),
            format!("${{{name}}}"),
            format!("{{{{{name}}}}}"),
            format!("{{{{ {name} }}}}"),
            format!("$${name}"),
        ]
        .iter()
        .any(|form| text.contains(form.as_str()))
    };
    old.symmetric_difference(&new).any(|line| {
        let plain = line.trim_start_matches("export ").trim_start_matches("override ");
        let Some((name, _)) = plain.split_once('=').filter(|_| !line.starts_with("include")) else {
            return true;
        };
        let name = name.trim_end_matches([':', '?', '+', '!', ' ']);
        let is_name = name.chars().all(|one| one.is_alphanumeric() || matches!(one, '_' | '.' | '-'));
        // A variable may reach a target through another one.
        let through = || old.iter().chain(&new).any(|other| other != line && named(name, other));
        !is_name || line.starts_with("export ") || ALWAYS.contains(&name) || named(name, reached) || through()
    })
}

/// Whether a target runs all that it ran before.
fn recipe_keeps([was, is]: [&str; 2]) -> bool {
    let lines = |text: &'_ str| -> Vec<String> {
        text.lines().map(|line| line.trim().trim_start_matches('@').to_owned()).collect()
    };
    let (old, new) = (lines(was), lines(is));
    let weak = |line: &String| narrows(line).or_else(|| ends_well(line)).is_some();
    !old.is_empty()
        && old.len().max(new.len()) <= MAX_COMPARED
        && !new.iter().filter(|line| !old.contains(line)).any(weak)
        && old.iter().all(|line| new.iter().any(|now| line == now || keeps(line, now)))
}

/// Added lines of a script that run fewer tests or let a failure pass.
pub(super) fn lines(sides: &Sides<'_>) -> Vec<Finding> {
    let found = added(sides.old(), sides.now()).into_iter().filter_map(|(line, text)| {
        let text = text.trim().trim_start_matches("run: ").trim_start_matches("- run: ");
        let message = narrows(text).or_else(|| ends_well(text))?;
        Some(Finding::block(FindingKind::RunnerNarrowed, sides.path, Some(line), message))
    });
    found.collect()
}

struct Block {
    line: usize,
    needs: Vec<String>,
    text: String,
}

/// The targets of a file with their recipes; what stands outside them is under the empty name.
fn blocks(text: &str) -> BTreeMap<String, Block> {
    let mut found: BTreeMap<String, Block> = BTreeMap::new();
    let mut current = String::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let is_indented = line.starts_with([' ', '\t']);
        let header = line.split_once(':').filter(|(_, rest)| !is_indented && !rest.starts_with('='));
        let mut needs = Vec::new();
        if let Some((name, rest)) = header.filter(|_| !line.starts_with(['#', '.', '['])) {
            current = name.split_whitespace().next().unwrap_or_default().to_owned();
            needs = rest.split_whitespace().take_while(|word| *word != "#").map(str::to_owned).collect();
        } else if !is_indented {
            current.clear();
        }
        if line.starts_with('#') {
            continue;
        }
        let block = found.entry(current.clone()).or_insert_with(|| Block {
            line: at + 1,
            needs: Vec::new(),
            text: String::new(),
        });
        block.needs.extend(needs);
        block.text.push_str(line.trim_end());
        block.text.push('\n');
    }
    found
}

fn used_targets(
    wanted: &[String],
    is_asked: bool,
    old: &BTreeMap<String, Block>,
    new: &BTreeMap<String, Block>,
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut left: Vec<String> = wanted.to_vec();
    if wanted.is_empty() && is_asked {
        // Without a name the first target is meant.
        let first = |blocks: &BTreeMap<String, Block>| {
            let named = blocks.iter().filter(|(name, _)| !name.is_empty());
            named.min_by_key(|(_, block)| block.line).map(|(name, _)| name.clone())
        };
        left.extend(first(old).into_iter().chain(first(new)));
    }
    while let Some(name) = left.pop() {
        if used.len() >= MAX_FOLLOWED || !used.insert(name.clone()) {
            continue;
        }
        let blocks = [old.get(&name), new.get(&name)];
        left.extend(blocks.into_iter().flatten().flat_map(|block| block.needs.iter().cloned()));
    }
    used
}
