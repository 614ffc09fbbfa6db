//! The quality gate: the idioms of the brief, and what the code offered before.
//!
//! An idiom is looked for as structure where it is code of the file's language, as text where it is not, and
//! where it is a sentence for people, by the code that the sentence quotes. What no program can look for is
//! said to be unchecked; it is never counted as kept or violated. A forbidden idiom that the base has already
//! is not the work's.

use std::collections::BTreeMap;
use std::path::Path;

use ftl_core::catalogue::build::{Quality, QualityCheck, Violation};
use ftl_core::catalogue::scalars::Digest;
use ftl_core::catalogue::spec::Spec;

use super::Work;
use super::integrity::split;
use super::pattern::{CodePattern, has_hole};
use ftl_code::context::{Language, exports, read_source};
use ftl_git::change::{Change, Content};

/// How many violations are told.
pub const MAX_VIOLATIONS: usize = 100;

/// One file that the gate looks at, on both sides.
#[derive(Clone, Debug, Default)]
pub struct FileSides {
    /// The path of the file.
    pub path: String,
    /// What the base has; nothing where it is new, or where it cannot be read.
    pub before: Option<String>,
    /// What the work has; nothing where it is gone, or where it cannot be read.
    pub after: Option<String>,
    /// Whether the file is gone.
    pub is_gone: bool,
}

/// Looks at finished work: performs `quality.check`.
pub fn look(asked: &QualityCheck, work: &Work<'_>) -> Quality {
    check(&asked.spec, &files(&asked.spec, work.change, work.folder), work.tree)
}

/// The files of a brief: the changed ones, and those of its delta that did not change, as the worktree has
/// them.
pub fn files(spec: &Spec, change: &Change, folder: &Path) -> Vec<FileSides> {
    let text = |side: &Option<Content>| side.as_ref().and_then(Content::text).map(str::to_owned);
    let mut found: Vec<FileSides> = Vec::new();
    for file in &change.files {
        let (before, after) = (text(&file.before), text(&file.after));
        found.push(FileSides { path: file.path.clone(), before, after, is_gone: file.is_gone() });
    }
    for path in &spec.delta {
        if !found.iter().any(|file| file.path == *path) {
            let same = read_source(folder, path).and_then(|bytes| String::from_utf8(bytes).ok());
            let is_gone = false;
            found.push(FileSides { path: path.clone(), before: same.clone(), after: same, is_gone });
        }
    }
    found
}

/// Looks at the files of a brief.
pub fn check(spec: &Spec, files: &[FileSides], tree: &str) -> Quality {
    let mut violations = Vec::new();
    let mut unchecked = Vec::new();
    if let Some(idioms) = &spec.idioms {
        for rule in &idioms.required {
            match required(rule, &concerned(spec, files)) {
                Answer::Kept => {}
                Answer::Violated(found) => violations.extend(found),
                Answer::Unchecked => unchecked.push(rule.as_str()),
            }
        }
        for rule in &idioms.forbidden {
            match forbidden(rule, files) {
                Answer::Kept => {}
                Answer::Violated(found) => violations.extend(found),
                Answer::Unchecked => unchecked.push(rule.as_str()),
            }
        }
    }
    violations.extend(lost_exports(spec, files));
    let summary = summary(&violations, &unchecked);
    let failed = !violations.is_empty();
    violations.truncate(MAX_VIOLATIONS);
    Quality { passed: !failed, failed, summary, tree: Some(Digest::new(tree)), violations }
}

fn summary(violations: &[Violation], unchecked: &[&str]) -> String {
    const TOLD: usize = 5;
    let told = violations.iter().take(TOLD).map(|one| {
        let place = match (&one.path, one.line) {
            (Some(path), Some(line)) => format!("{path}:{line}: "),
            (Some(path), None) => format!("{path}: "),
            (None, _) => String::new(),
        };
        format!("{place}{}", one.message)
    });
    let mut parts: Vec<String> = told.collect();
    if violations.len() > TOLD {
        parts.push(format!("and {} more", violations.len() - TOLD));
    }
    if violations.is_empty() {
        parts.push("the idioms that can be looked for are kept, and the exports are still there".to_owned());
    }
    if !unchecked.is_empty() {
        parts.push(format!("not looked for, as it cannot be done here: {}", unchecked.join("; ")));
    }
    parts.join("; ")
}

enum Answer {
    Kept,
    Violated(Vec<Violation>),
    Unchecked,
}

/// How a rule is looked for in one language.
enum Needle {
    Structure(Vec<CodePattern>),
    Text(Vec<String>),
    /// It is a sentence for people that quotes no code.
    Prose,
}

/// A rule as something to look for.
fn needle(rule: &str, language: Option<Language>) -> Needle {
    let quoted = quoted_code(rule);
    if !quoted.is_empty() {
        let patterns: Option<Vec<CodePattern>> =
            quoted.iter().map(|code| CodePattern::read(language?, code)).collect();
        return patterns.map_or(Needle::Text(quoted), Needle::Structure);
    }
    if let Some(pattern) = language.and_then(|language| CodePattern::read(language, rule)) {
        return Needle::Structure(vec![pattern]);
    }
    match is_prose(rule) || has_hole(rule) {
        true => Needle::Prose,
        false => Needle::Text(vec![rule.trim().to_owned()]),
    }
}

/// The code that a sentence quotes: between back-quotes, or a word that begins with `@`.
fn quoted_code(rule: &str) -> Vec<String> {
    let ticks: Vec<&str> =
        rule.split('`').skip(1).step_by(2).map(str::trim).filter(|code| !code.is_empty()).collect();
    if !ticks.is_empty() {
        return ticks.into_iter().map(str::to_owned).collect();
    }
    if !is_prose(rule) {
        return Vec::new();
    }
    let words = rule.split_whitespace().map(|word| word.trim_matches([',', ';', '.', ':', '(', ')']));
    words.filter(|word| word.len() > 1 && word.starts_with('@')).map(str::to_owned).collect()
}

/// Whether a rule is a sentence: several words, and next to nothing that code has.
fn is_prose(rule: &str) -> bool {
    let words: Vec<&str> = rule.split_whitespace().collect();
    let plain = |word: &&&str| {
        let word = word.trim_matches([',', ';', '.', ':', '(', ')', '…', '"', '\'']);
        word.chars().all(|letter| letter.is_alphabetic() || letter == '-' || letter == '\'')
    };
    let code = ["=", "{", "}", "[", "]", "::", "->", "=>", "()", ";", "<", "$"]
        .iter()
        .any(|word| rule.contains(word));
    const KEYWORDS: [&str; 22] = [
        "import", "from", "def", "async", "class", "fn", "pub", "use", "let", "const", "var", "function",
        "export", "func", "type", "return", "raise", "throw", "except", "lambda", "unsafe", "global",
    ];
    let starts_as_code = words.first().is_some_and(|word| KEYWORDS.contains(word));
    words.len() > 1 && !code && !starts_as_code && words.iter().filter(plain).count() * 2 > words.len()
}

/// The files that a required idiom is about: those that use the framework, and did so without being new or having been
/// let off before. A helper beside them needs no route. Where no framework is named, all are.
fn concerned<'a>(spec: &Spec, files: &'a [FileSides]) -> Vec<&'a FileSides> {
    let named = spec.framework.as_deref().filter(|name| !matches!(*name, "" | "none"));
    let Some(name) = named.map(str::to_lowercase) else { return files.iter().collect() };
    let name = name.split([' ', '-', '/']).next().unwrap_or_default().to_owned();
    let uses = |file: &&FileSides| {
        let text = file.after.as_deref().unwrap_or_default().to_lowercase();
        text.lines().any(|line| {
            let imports =
                ["import", "use ", "from ", "require(", "#include"].iter().any(|word| line.contains(word));
            imports && line.contains(&name)
        })
    };
    files.iter().filter(uses).collect()
}

fn required(rule: &str, files: &[&FileSides]) -> Answer {
    let (mut looked, mut unknown) = (0, false);
    for file in files.iter().filter(|file| super::file_role::is_code(&file.path)) {
        let Some(text) = &file.after else { continue };
        match needle(rule, Language::of(&file.path)) {
            Needle::Prose => return Answer::Unchecked,
            Needle::Text(words) => {
                looked += 1;
                if words.iter().any(|word| text.contains(word.as_str())) {
                    return Answer::Kept;
                }
            }
            Needle::Structure(patterns) => {
                let found: Vec<Option<bool>> = patterns
                    .iter()
                    .map(|pattern| pattern.find(text).map(|places| !places.is_empty()))
                    .collect();
                // A call is written with brackets where it is used: `@app.get` also stands for
                // `@app.get("/")`.
                let begins = quoted_code(rule)
                    .iter()
                    .any(|code| code.starts_with('@') && text.contains(code.as_str()));
                if begins || found.contains(&Some(true)) {
                    return Answer::Kept;
                }
                unknown |= found.contains(&None);
                looked += 1;
            }
        }
    }
    match (looked, unknown) {
        (0, _) => return Answer::Kept,
        (_, true) => return Answer::Unchecked,
        (_, false) => {}
    }
    let message = format!("no file of the work uses `{rule}`, which is required");
    Answer::Violated(vec![Violation { rule: rule.to_owned(), path: None, line: None, message }])
}

fn forbidden(rule: &str, files: &[FileSides]) -> Answer {
    let (mut violations, mut unknown) = (Vec::new(), false);
    for file in files.iter().filter(|file| super::file_role::is_code(&file.path)) {
        let Some(after) = &file.after else { continue };
        let before = file.before.as_deref().unwrap_or_default();
        let needle = needle(rule, Language::of(&file.path));
        let places = |text: &str| match &needle {
            Needle::Prose => Vec::new(),
            Needle::Text(words) => words.iter().flat_map(|word| lines_with(text, word)).collect(),
            Needle::Structure(patterns) => structure(patterns, text),
        };
        match &needle {
            Needle::Prose => return Answer::Unchecked,
            Needle::Structure(patterns) => unknown |= patterns.iter().any(|one| one.find(after).is_none()),
            Needle::Text(_) => {}
        }
        for (line, _) in new_places(&places(before), places(after)) {
            violations.push(Violation {
                rule: rule.to_owned(),
                path: Some(file.path.clone()),
                line: u64::try_from(line).ok(),
                message: format!("it uses `{rule}`, which is forbidden"),
            });
        }
    }
    match (violations.is_empty(), unknown) {
        (false, _) => Answer::Violated(violations),
        (true, true) => Answer::Unchecked,
        (true, false) => Answer::Kept,
    }
}

fn lines_with(text: &str, word: &str) -> Vec<(usize, String)> {
    let found = text.lines().enumerate().filter(|(_, line)| line.contains(word));
    found.map(|(at, line)| (at + 1, line.trim().to_owned())).collect()
}

fn structure(patterns: &[CodePattern], text: &str) -> Vec<(usize, String)> {
    let places = patterns.iter().flat_map(|pattern| pattern.find(text).unwrap_or_default());
    places
        .map(|place| (place.line, text.get(place.start..place.end).unwrap_or_default().to_owned()))
        .collect()
}

/// What only the work has, by its words.
fn new_places(before: &[(usize, String)], after: Vec<(usize, String)>) -> Vec<(usize, String)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, words) in before {
        *counts.entry(words).or_default() += 1;
    }
    let is_new = |(_, words): &(usize, String)| match counts.get_mut(words.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        Some(_) | None => true,
    };
    after.into_iter().filter(is_new).collect()
}

/// Exports that the code context named and that are gone or cannot be used as before.
fn lost_exports(spec: &Spec, files: &[FileSides]) -> Vec<Violation> {
    let several = spec.code_contexts.iter().flatten();
    let contexts: Vec<_> = several.chain(&spec.code_context).collect();
    let mut violations: Vec<Violation> = Vec::new();
    for context in contexts {
        let Some(named) = context.exports.as_deref().filter(|named| !named.trim().is_empty()) else {
            continue;
        };
        let Some(file) = files.iter().find(|file| file.path == context.path) else { continue };
        if file.after.is_none() && !file.is_gone {
            continue;
        }
        let offered =
            file.after.as_deref().map(|text| exports(&context.path, text.as_bytes())).unwrap_or_default();
        for export in split(named, ',').into_iter().map(str::trim).filter(|export| !export.is_empty()) {
            let Some(message) = lost_export(export, &offered, Language::of(&context.path)) else { continue };
            let line = file.after.as_deref().and_then(|text| line_of(text, name_of(export)));
            let violation =
                Violation { rule: export.to_owned(), path: Some(context.path.clone()), line, message };
            if !violations.contains(&violation) {
                violations.push(violation);
            }
        }
    }
    violations
}

fn line_of(text: &str, name: &str) -> Option<u64> {
    let last = name.rsplit([':', ' ', '.']).next().unwrap_or(name);
    let at = text.lines().position(|line| line.contains(last))?;
    u64::try_from(at + 1).ok()
}

/// The name of an export: the text before its brackets. A method of Go keeps its receiver's type.
fn name_of(export: &str) -> &str {
    let from = if export.starts_with('(') { export.find(')').unwrap_or(0) } else { 0 };
    let end = export[from..].find(['(', '<', '[']).filter(|at| from + at > 0 && *at > 0 || from == 0);
    match end {
        Some(at) if from + at > 0 => export[..from + at].trim(),
        Some(_) | None => export,
    }
}

/// Why an export is lost, if it is.
fn lost_export(export: &str, offered: &[String], language: Option<Language>) -> Option<String> {
    // A long entry was cut when the brief was written; only its name can be compared.
    let is_cut = export.ends_with('…');
    let name = name_of(export);
    let same: Vec<&String> = offered.iter().filter(|one| name_of(one) == name).collect();
    if same.is_empty() {
        return Some(format!("the export {name} is gone"));
    }
    if is_cut || same.iter().any(|one| *one == export || is_compatible(export, one, language)) {
        return None;
    }
    Some(format!("the export was `{export}` and is `{}`: callers cannot use it as before", same[0]))
}

/// Whether who could call one signature can call the other.
fn is_compatible(before: &str, after: &str, language: Option<Language>) -> bool {
    let (Some(old), Some(new)) = (parameters(before), parameters(after)) else {
        // One of them is no function: a class or a constant is known by its name alone.
        return parameters(before).is_none() == parameters(after).is_none();
    };
    match language {
        Some(Language::Python) => python_fits(&old, &new),
        Some(Language::TypeScript | Language::Tsx | Language::JavaScript) => {
            let added = new.iter().skip(old.len());
            new.len() >= old.len()
                && added
                    .into_iter()
                    .all(|one| one.contains('?') || one.contains('=') || one.starts_with("..."))
        }
        Some(Language::Rust) => {
            let kind = |one: &&str| one.split_once(':').map_or(*one, |(_, kind)| kind).trim().to_owned();
            old.iter().map(kind).eq(new.iter().map(kind)) && result(before) == result(after)
        }
        Some(Language::Go) => {
            let kind = |one: &&str| one.rsplit(' ').next().unwrap_or(one).to_owned();
            old.iter().map(kind).eq(new.iter().map(kind)) && result(before) == result(after)
        }
        None => true,
    }
}

fn python_fits(old: &[&str], new: &[&str]) -> bool {
    let name = |one: &str| one.split([':', '=']).next().unwrap_or(one).trim().to_owned();
    let takes_all = new.iter().any(|one| one.starts_with("**"))
        && new.iter().any(|one| one.starts_with('*') && !one.starts_with("**"));
    let names: Vec<String> = new.iter().map(|one| name(one)).collect();
    let kept = old.iter().all(|one| names.contains(&name(one)));
    // Who calls by position needs the old ones in the old order.
    let order: Vec<&String> = names.iter().filter(|one| old.iter().any(|old| name(old) == **one)).collect();
    let in_order = order.iter().zip(old).all(|(new, old)| **new == name(old));
    let is_old = |one: &&str| old.iter().any(|old| name(old) == name(one));
    let added = new.iter().filter(|one| !is_old(one));
    let optional = added.into_iter().all(|one| one.contains('=') || one.starts_with('*') || *one == "/");
    let once_optional = old.iter().filter(|one| one.contains('='));
    let still = once_optional
        .into_iter()
        .all(|one| new.iter().any(|new| name(new) == name(one) && new.contains('=')));
    (takes_all || (kept && in_order && still)) && optional
}

/// The text between the brackets after the name.
fn parameters(export: &str) -> Option<Vec<&str>> {
    let rest = export[name_of(export).len()..].trim_start();
    let open = rest.find('(')?;
    let inner = split(&rest[open + 1..], ')').into_iter().next()?;
    let parts = split(inner, ',').into_iter().map(str::trim).filter(|part| !part.is_empty());
    Some(parts.collect())
}

/// The text behind the brackets.
fn result(export: &str) -> &str {
    let rest = &export[name_of(export).len()..];
    let Some(open) = rest.find('(') else { return "" };
    let inner = split(&rest[open + 1..], ')').into_iter().next().unwrap_or_default().len();
    rest.get(open + 1 + inner + 1..).unwrap_or_default().trim()
}

#[cfg(test)]
#[path = "quality_tests.rs"]
mod tests;
