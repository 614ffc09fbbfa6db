//! Continuous integration by its meaning: what a changed file runs no more, runs only sometimes, or lets fail.
//!
//! Both sides are read as documents. What only adds is noted where the delta names the file; what is gone, stands under a
//! condition, or runs for fewer branches and versions blocks there too. A file that cannot be read is compared by its lines.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{ends_well, keeps, narrows};
use super::settings::Sides;
use super::yaml::{Value, read};
use ftl_code::finding::{Brief, Finding, FindingKind};

/// How many commands or conditions of a document are compared.
const MAX_COMPARED: usize = 1_000;

/// Keys whose texts are commands.
const COMMANDS: [&str; 9] =
    ["run", "script", "before_script", "after_script", "command", "commands", "bash", "pwsh", "entry"];

/// Keys by which something is done only sometimes, or may fail.
const CONDITIONS: [&str; 13] = [
    "if",
    "when",
    "only",
    "except",
    "rules",
    "allow_failure",
    "continue-on-error",
    "branches-ignore",
    "paths-ignore",
    "tags-ignore",
    "stages",
    "exclude",
    "condition",
];

/// What a condition says that takes nothing away.
const ALWAYS: [&str; 8] = [
    "",
    "false",
    "always()",
    "success()",
    "true()",
    "${{ always() }}",
    "!cancelled()",
    "${{ !cancelled() }}",
];

/// What a file of continuous integration newly leaves out. `None` where a side cannot be read as a document.
pub(super) fn look(sides: &Sides<'_>, brief: &Brief) -> Option<Vec<Finding>> {
    let changed = |message: &str| sides.changed(FindingKind::CiChanged, brief, None, message.to_owned());
    let is_document = [".yml", ".yaml"].iter().any(|end| sides.path.ends_with(end));
    if !is_document {
        return None;
    }
    let (before, after) = match (sides.before, sides.after) {
        (Some(before), Some(after)) => (read(before)?, read(after)?),
        (None, Some(_)) => return Some(vec![changed("a file of continuous integration is new")]),
        (_, None) => {
            let message = "a file of continuous integration is gone";
            return Some(vec![Finding::block(FindingKind::CiChanged, sides.path, None, message)]);
        }
    };
    let (old, new) = (Facts::of(&before), Facts::of(&after));
    if old.is_large() || new.is_large() {
        let message = "it has more commands or conditions than are compared, and it differs";
        return Some(vec![Finding::block(FindingKind::CiChanged, sides.path, None, message)]);
    }
    let mut findings = vec![changed("continuous integration differs")];
    let told = new.missing(&old);
    findings.extend(told.into_iter().map(|(kind, word, message)| {
        let line = sides.line_of(&word);
        Finding::block(kind, sides.path, line, message)
    }));
    Some(findings)
}

/// What a document says that matters.
#[derive(Debug, Default)]
struct Facts {
    commands: Vec<String>,
    /// What other programs it uses: actions and hooks.
    uses: BTreeSet<String>,
    /// Conditions: what they are about, which one, what it says.
    conditions: Vec<(String, String, String)>,
    /// The jobs and steps that there are.
    places: BTreeSet<String>,
    /// Events, each with its filters.
    events: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Lists of matrices with how many values they have.
    matrices: BTreeMap<String, usize>,
}

impl Facts {
    fn of(document: &Value) -> Facts {
        let mut facts = Facts::default();
        if let Some(on) = document.get("on").or_else(|| document.get("true")) {
            facts.events(on);
        }
        facts.walk(document, "", 0);
        facts
    }

    fn events(&mut self, on: &Value) {
        match on {
            Value::Text(name) => drop(self.events.insert(name.clone(), BTreeMap::new())),
            Value::List(names) => {
                self.events.extend(names.iter().map(|name| (name.plain(), BTreeMap::new())));
            }
            Value::Map(map) => {
                for (name, filters) in map {
                    let filters = match filters {
                        Value::Map(filters) => {
                            filters.iter().map(|(key, value)| (key.clone(), words(value))).collect()
                        }
                        Value::Text(_) | Value::List(_) => BTreeMap::new(),
                    };
                    self.events.insert(name.clone(), filters);
                }
            }
        }
    }

    fn walk(&mut self, value: &Value, place: &str, depth: usize) {
        if depth > super::yaml::MAX_DEPTH {
            return;
        }
        match value {
            Value::Text(_) => {}
            Value::List(list) => list.iter().for_each(|one| self.walk(one, place, depth + 1)),
            Value::Map(map) => {
                let name =
                    ["run", "uses", "id", "script"].iter().find_map(|key| value.get(key)).map(Value::plain);
                let name = name.as_deref().map(called);
                let place = name.map_or(place.to_owned(), |name| format!("{place}/{name}"));
                self.places.insert(place.clone());
                for (key, inner) in map {
                    self.entry(key, inner, &place, depth);
                }
            }
        }
    }

    fn entry(&mut self, key: &str, value: &Value, place: &str, depth: usize) {
        if COMMANDS.contains(&key) {
            let text = match value {
                Value::List(list) => list.iter().map(Value::plain).collect::<Vec<_>>().join("\n"),
                other @ (Value::Text(_) | Value::Map(_)) => other.plain(),
            };
            self.commands.extend(lines(&text));
        }
        if matches!(key, "uses" | "id") {
            let name = value.plain();
            self.uses.insert(name.split('@').next().unwrap_or(&name).to_owned());
        }
        if CONDITIONS.contains(&key) && !place.is_empty() {
            self.conditions.push((place.to_owned(), key.to_owned(), value.plain()));
        }
        let inner = format!("{place}.{key}");
        if key == "matrix"
            && let Value::Map(map) = value
        {
            for (name, list) in map {
                if let Value::List(list) = list {
                    self.matrices.insert(format!("{inner}.{name}"), list.len());
                }
            }
        }
        self.walk(value, &inner, depth + 1);
    }

    /// Whether there is more than is compared with each other.
    fn is_large(&self) -> bool {
        self.commands.len().max(self.conditions.len()) > MAX_COMPARED
    }

    /// What the older facts had and these have not: its kind, a word of its line, a sentence.
    fn missing(&self, old: &Facts) -> Vec<(FindingKind, String, String)> {
        let mut found = Vec::new();
        let mut tell = |kind, word: &str, message: String| found.push((kind, word.to_owned(), message));
        for command in &old.commands {
            if !self.commands.iter().any(|now| keeps(command, now)) {
                tell(
                    FindingKind::CiChanged,
                    command,
                    format!("`{}` is not run any more", super::short(command)),
                );
            }
        }
        for command in self.commands.iter().filter(|command| !old.commands.contains(command)) {
            if let Some(why) = narrows(command).or_else(|| ends_well(command)) {
                tell(FindingKind::RunnerNarrowed, command, why);
            }
        }
        for name in old.uses.difference(&self.uses).filter(|name| !name.starts_with("actions/")) {
            tell(FindingKind::CiChanged, name, format!("`{name}` is not used any more"));
        }
        for (place, key, text) in &self.conditions {
            let is_known = old.conditions.iter().any(|one| (&one.0, &one.1, &one.2) == (place, key, text));
            let is_new_place = !old.places.contains(place);
            if !is_known && !is_new_place && !is_always(key, text) {
                let kind = if key.contains("fail") || key.contains("error") {
                    FindingKind::RunnerNarrowed
                } else {
                    FindingKind::CiChanged
                };
                tell(
                    kind,
                    key,
                    format!("`{key}: {}` is new: it runs only sometimes, or may fail", super::short(text)),
                );
            }
        }
        for (name, was) in &old.matrices {
            let is = self.matrices.get(name).copied().unwrap_or(0);
            let key = name.rsplit('.').next().unwrap_or(name);
            if is < *was {
                tell(
                    FindingKind::CiChanged,
                    key,
                    format!("the matrix has {is} values for `{key}`, {was} before"),
                );
            }
        }
        found.extend(self.missing_events(old));
        found
    }

    /// Events that are gone, or that run it for fewer changes.
    fn missing_events(&self, old: &Facts) -> Vec<(FindingKind, String, String)> {
        let mut found = Vec::new();
        let mut tell =
            |word: &str, message: String| found.push((FindingKind::CiChanged, word.to_owned(), message));
        for (name, was) in &old.events {
            let Some(is) = self.events.get(name) else {
                tell("on", format!("it does not run on `{name}` any more"));
                continue;
            };
            for (key, values) in is {
                let before = was.get(key);
                let fewer = match key.as_str() {
                    "branches" | "paths" | "types" | "tags" => {
                        before.is_none_or(|before| !before.is_subset(values))
                    }
                    _ => key.ends_with("-ignore") && before != Some(values),
                };
                let matters = before.is_some() || key != "types";
                if fewer && matters {
                    tell(key, format!("`{name}` runs it for fewer changes (`{key}`)"));
                }
            }
        }
        found
    }
}

/// Whether a condition takes nothing away.
fn is_always(key: &str, text: &str) -> bool {
    let never = matches!(key, "if" | "when" | "condition") && text == "false";
    ALWAYS.contains(&text) && !never
}

fn words(value: &Value) -> BTreeSet<String> {
    match value {
        Value::List(list) => list.iter().map(Value::plain).collect(),
        other @ (Value::Text(_) | Value::Map(_)) => BTreeSet::from([other.plain()]),
    }
}

/// What a step is called by: the first words of its command before flags, or what it uses without a version.
fn called(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().split('@').next().unwrap_or_default();
    let words = line.split_whitespace().take_while(|word| !word.starts_with('-')).take(3);
    words.collect::<Vec<_>>().join(" ")
}

/// The commands of a text, one each.
fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    let joined = text.replace("\\\n", " ");
    let found: Vec<String> = joined
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("echo "))
        .collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "on:\n  push:\n    branches: [main]\n  pull_request:\njobs:\n  test:\n    strategy:\n      matrix:\n        \
        v: [1, 2]\n    steps:\n      - uses: actions/checkout@v3\n      - uses: a/lint@v1\n      - run: pip install x\n      - run: pytest\n";

    /// One line a case: what is replaced, what takes its place, what is told besides that it differs.
    const CASES: &str = r"
        - run: pytest => - run: pytest -v => -
        - run: pytest => - run: ruff check . && pytest => -
        actions/checkout@v3 => actions/checkout@v4 => -
        v: [1, 2] => v: [1, 2, 3] => -
        v: [1, 2] => v: [2, 3] => -
        [main] => [main, next] => -
        pull_request: => pull_request:\n  merge_group: => -
        - run: pytest => - run: pytest\n      - run: mypy . => -
        - run: pytest => - run: pytest -k fast => ci_changed, runner_narrowed
        - run: pytest => - run: true => ci_changed
        - run: pytest => - run: pytest\n        if: false => ci_changed
        - run: pytest => - run: pytest\n        if: always() => -
        - run: pytest => - run: pytest\n        continue-on-error: true => runner_narrowed
        - uses: a/lint@v1 => - run: echo ok => ci_changed
        v: [1, 2] => v: [2] => ci_changed
        branches: [main] => branches: [release] => ci_changed
        pull_request: => workflow_dispatch: => ci_changed
        branches: [main] => paths-ignore: [src/**] => ci_changed";

    #[test]
    fn what_is_gone_or_conditional_blocks_and_what_adds_does_not() {
        let brief = Brief { delta: vec!["ci.yml".to_owned()], ..Brief::default() };
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<String> =
                line.trim().split("=>").map(|cell| cell.trim().replace("\\n", "\n")).collect();
            assert!(BASE.contains(&cells[0]), "{line}");
            let after = BASE.replacen(&cells[0], &cells[1], 1);
            let sides = Sides { path: "ci.yml", before: Some(BASE), after: Some(&after) };
            let found = look(&sides, &brief).unwrap_or_else(|| panic!("{line}"));
            let mut told: Vec<&str> =
                found.iter().filter(|one| one.stops()).map(|one| one.kind.word()).collect();
            told.sort_unstable();
            told.dedup();
            let told = if told.is_empty() { "-".to_owned() } else { told.join(", ") };
            assert_eq!(told, cells[2], "{line}\n{found:?}");
        }
    }
}
