//! The settings of test runners before and after, and the targets and scripts that a verify command goes
//! through.
//!
//! What only the delta's exact name makes acceptable is noted, what runs fewer tests always blocks. A file
//! that cannot be read any more is told as changed, never as fine.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{added, keeps, narrows, requested_targets};
use ftl_code::finding::{Brief, Finding, FindingKind};

/// How many scripts or targets are followed from the one that a command asks for.
pub(super) const MAX_FOLLOWED: usize = 200;

/// One file on both sides.
pub(super) struct Sides<'a> {
    pub(super) path: &'a str,
    pub(super) before: Option<&'a str>,
    pub(super) after: Option<&'a str>,
}

impl Sides<'_> {
    pub(super) fn old(&self) -> &str {
        self.before.unwrap_or_default()
    }

    pub(super) fn now(&self) -> &str {
        self.after.unwrap_or_default()
    }

    /// The line on which a word first stands.
    pub(super) fn line_of(&self, word: &str) -> Option<usize> {
        self.now().lines().position(|line| line.contains(word)).map(|at| at + 1)
    }

    fn narrowed(&self, word: &str, message: String) -> Finding {
        Finding::block(FindingKind::RunnerNarrowed, self.path, self.line_of(word), message)
    }

    /// A change of settings: noted where the delta names exactly this file.
    pub(super) fn changed(
        &self,
        kind: FindingKind,
        brief: &Brief,
        word: Option<&str>,
        message: String,
    ) -> Finding {
        let line = word.and_then(|word| self.line_of(word));
        match brief.names(self.path) {
            true => Finding::note(kind, self.path, line, message),
            false => Finding::block(kind, self.path, line, message),
        }
    }
}

/// The settings of a runner, in whichever file they stand.
pub(super) fn look(sides: &Sides<'_>, brief: &Brief, moved: &BTreeSet<(String, String)>) -> Vec<Finding> {
    let name = sides.path.rsplit('/').next().unwrap_or(sides.path);
    match name {
        "pyproject.toml" => both(sides, brief, moved, pyproject),
        "pytest.ini" | ".pytest.ini" | "tox.ini" | "setup.cfg" => both(sides, brief, moved, ini),
        "package.json" => package(sides, brief),
        "Cargo.toml" => manifest(sides, brief),
        _ => loose(sides, brief),
    }
}

/// Settings in a language of their own: any change is told, and lines that run fewer tests block.
fn loose(sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
    let what = match (sides.before, sides.after) {
        (None, _) => "the settings of a test runner are new",
        (_, None) => "the settings of a test runner are gone",
        (Some(_), Some(_)) => "the settings of a test runner differ",
    };
    let mut findings = vec![sides.changed(FindingKind::VerifyChanged, brief, None, what.to_owned())];
    const WORDS: [&str; 20] = [
        "retry:",
        "dangerouslyIgnoreUnhandledErrors",
        "forbidOnly: false",
        "testPathIgnorePatterns",
        "testMatch",
        "testRegex",
        "modulePathIgnorePatterns",
        "testNamePattern",
        "passWithNoTests",
        "exclude",
        "testIgnore",
        "grep",
        "default-filter",
        "roots",
        "ignore:",
        "retries",
        "excludeSpecPattern",
        "<exclude",
        "--tag ~",
        "allowOnly",
    ];
    for (line, text) in added(sides.old(), sides.now()) {
        if let Some(word) = takes_elsewhere(text) {
            let message = format!("`{word}` has the runner take something else");
            findings.push(Finding::block(FindingKind::RunnerPatched, sides.path, Some(line), message));
            continue;
        }
        let word = WORDS
            .iter()
            .find(|word| text.contains(**word) && !only_other_suites(word, text))
            .map(|word| format!("`{word}` may run fewer tests"))
            .or_else(|| includes_less(sides.old(), text));
        if let Some(message) = word.or_else(|| narrows(text)) {
            findings.push(Finding::block(FindingKind::RunnerNarrowed, sides.path, Some(line), message));
        }
    }
    findings
}

/// A setting by which a module or a program is taken from another place. An alias of a sign for a folder is none.
fn takes_elsewhere(text: &str) -> Option<&'static str> {
    const WORDS: [&str; 8] = [
        "moduleNameMapper",
        "alias:",
        "resolver:",
        "testRunner:",
        "runner:",
        "modulePaths",
        "snapshotResolver",
        "automock: true",
    ];
    let word = WORDS.iter().find(|word| text.contains(**word))?;
    let keys = text.split(['"', '\'']).skip(1).step_by(2);
    let first = keys.into_iter().next();
    let is_sign = first.is_none_or(|key| {
        key.trim_start_matches('^').starts_with(['@', '~', '#', '$']) || key.contains("\\.")
    });
    (!is_sign || word.ends_with("true") || word.starts_with("testRunner")).then_some(*word)
}

/// Whether a list of what is left out names only folders that a runner of its own looks into, or that hold no tests.
fn only_other_suites(word: &str, text: &str) -> bool {
    const OTHERS: [&str; 20] = [
        "node_modules",
        "dist",
        "build",
        "coverage",
        "e2e",
        "cypress",
        "playwright",
        "target",
        "vendor",
        ".venv",
        "venv",
        "docs",
        "examples",
        ".git",
        ".next",
        ".nuxt",
        "out",
        "browser",
        "storybook",
        "benchmarks",
    ];
    let mut names = text.split(['"', '\'', '`']).skip(1).step_by(2).peekable();
    let is_list = matches!(
        word,
        "exclude" | "testPathIgnorePatterns" | "modulePathIgnorePatterns" | "testIgnore" | "ignore:"
    );
    is_list
        && names.peek().is_some()
        && names.all(|name| {
            let plain = name
                .trim_matches(['*', '/', '.', '<', '>'])
                .trim_start_matches("rootDir>")
                .trim_matches(['*', '/']);
            OTHERS.contains(&plain) || OTHERS.contains(&plain.split('/').next().unwrap_or(plain))
        })
}

/// A list of what is run that names less than before.
fn includes_less(before: &str, text: &str) -> Option<String> {
    let is_list = |line: &str| line.trim_start().starts_with("include") && line.contains(':');
    let names = |line: &str| -> BTreeSet<String> {
        line.split(['"', '\'', '`']).skip(1).step_by(2).map(str::to_owned).collect()
    };
    let old = before.lines().find(|line| is_list(line)).map(names);
    let less = is_list(text) && old.is_none_or(|old| !old.is_subset(&names(text)));
    less.then(|| "`include` may run fewer tests".to_owned())
}

/// One flat list of settings: `section.key` and its text.
type Flat = BTreeMap<String, String>;

const FEWER_KEYS: [&str; 8] = [
    "testpaths",
    "python_files",
    "python_functions",
    "python_classes",
    "norecursedirs",
    "collect_ignore",
    "collect_ignore_glob",
    "ignore",
];

/// Keys that differ between two lists: what runs fewer, and what just differs.
fn differing(sides: &Sides<'_>, brief: &Brief, before: &Flat, after: &Flat) -> Vec<Finding> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut findings = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        if old == new {
            continue;
        }
        let last = key.rsplit('.').next().unwrap_or(key);
        let (old, new) = (old.map_or("", String::as_str), new.map_or("", String::as_str));
        let fewer = match last {
            _ if FEWER_KEYS.contains(&last) => !is_wider(last, old, new),
            "addopts" => fewer_options(old, new),
            _ => new.lines().any(|line| !old.contains(line.trim()) && narrows(line).is_some()),
        };
        if let Some((kind, why)) = redirects(last, old, new) {
            let message = format!("`{key}` was {old:?} and is {new:?}: {why}");
            findings.push(Finding::block(kind, sides.path, sides.line_of(last), message));
            continue;
        }
        findings.push(match fewer {
            true => sides.narrowed(last, format!("`{key}` was {old:?} and is {new:?}: fewer tests may run")),
            false => {
                let message = format!("`{key}` was {old:?} and is {new:?}");
                sides.changed(FindingKind::VerifyChanged, brief, Some(last), message)
            }
        });
    }
    findings
}

/// Why a setting has a runner load or take something else, or look away.
fn redirects(key: &str, old: &str, new: &str) -> Option<(FindingKind, &'static str)> {
    let words = |text: &str| -> BTreeSet<String> {
        let parts = text.split([' ', '\n', ',', '"', '[', ']', '\'']).filter(|word| !word.is_empty());
        parts.map(str::to_owned).collect()
    };
    let (was, is) = (words(old), words(new));
    let added: Vec<&String> = is.difference(&was).collect();
    let has_plugin = |text: &str| {
        let all: Vec<&str> = text.split_whitespace().collect();
        all.windows(2).any(|pair| pair[0] == "-p" && !pair[1].starts_with("no:cacheprovider"))
            || all.iter().any(|word| {
                word.starts_with("-p") && word.len() > 2 && !word.starts_with("-pno:cacheprovider")
            })
    };
    const LOOKS_AWAY: [&str; 5] =
        ["-W", "--disable-warnings", "--disable-pytest-warnings", "--no-cov", "--override-ini"];
    match key {
        "pythonpath" | "python_paths"
            if added.iter().any(|path| !["src", ".", "lib", "python"].contains(&path.as_str())) =>
        {
            Some((FindingKind::RunnerPatched, "modules are taken from another place"))
        }
        "addopts" if has_plugin(new) && !has_plugin(old) => {
            Some((FindingKind::RunnerPatched, "the runner loads or leaves out a plugin"))
        }
        "addopts"
            if added.iter().any(|word| {
                ["-c", "--rootdir", "--confcutdir", "--import-mode"].contains(&word.as_str())
            }) =>
        {
            Some((FindingKind::RunnerPatched, "settings and modules are taken from another place"))
        }
        "addopts"
            if added.iter().any(|word| LOOKS_AWAY.iter().any(|look| word.starts_with(look)))
                && !new.contains("-W error") =>
        {
            Some((FindingKind::CheckSilenced, "warnings or coverage count less"))
        }
        "filterwarnings"
            if old.contains("error") && !new.contains("error")
                || added.iter().any(|word| word.starts_with("ignore")) && old.contains("error") =>
        {
            Some((FindingKind::CheckSilenced, "warnings count less"))
        }
        "xfail_strict" if new != "true" && old == "true" => {
            Some((FindingKind::CheckSilenced, "a test that passes against its mark counts less"))
        }
        "reruns" | "retries" | "flaky_max_runs" => {
            Some((FindingKind::RunnerNarrowed, "tests are run again until they pass"))
        }
        _ => None,
    }
}

/// Whether a list of what to run, or of what not to run, lets run all that it let run before.
fn is_wider(key: &str, old: &str, new: &str) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        let parts = text.split([' ', '\n', ',', '"', '[', ']']).filter(|word| !word.is_empty());
        parts.map(str::to_owned).collect()
    };
    let (old, new) = (words(old), words(new));
    match key {
        "norecursedirs" | "collect_ignore" | "collect_ignore_glob" | "ignore" => new.is_subset(&old),
        // Without a list everything is run.
        _ => new.is_empty() || (!old.is_empty() && old.is_subset(&new)),
    }
}

/// Whether options gained one that runs fewer tests.
fn fewer_options(old: &str, new: &str) -> bool {
    let (was, is) = (narrows(&format!("pytest {old}")), narrows(&format!("pytest {new}")));
    is.is_some() && (was.is_none() || old != new)
}

fn pyproject(text: &str) -> Option<Flat> {
    let table: toml::Table = toml::from_str(text).ok()?;
    let mut flat = Flat::new();
    let tool = table.get("tool").and_then(|tool| tool.as_table());
    for name in ["pytest", "tox", "nox"] {
        if let Some(value) = tool.and_then(|tool| tool.get(name)) {
            flatten(&format!("tool.{name}"), value, &mut flat);
        }
    }
    Some(flat)
}

/// A setting by its last name and its value without the marks of one form of file.
fn as_moved(key: &str, value: &str) -> (String, String) {
    let words = value.split(|one: char| one.is_whitespace() || matches!(one, '"' | '[' | ']' | ',' | '\''));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    (key.rsplit('.').next().unwrap_or(key).to_owned(), words.join(" "))
}

/// Settings that are gone from one file and stand unchanged in another one.
pub(super) fn moved(files: &[Sides<'_>]) -> BTreeSet<(String, String)> {
    let (mut gone, mut came) = (BTreeSet::new(), BTreeSet::new());
    for sides in files {
        let read: fn(&str) -> Option<Flat> = match sides.path.rsplit('/').next().unwrap_or(sides.path) {
            "pyproject.toml" => pyproject,
            "pytest.ini" | ".pytest.ini" | "tox.ini" | "setup.cfg" => ini,
            _ => continue,
        };
        let (Some(before), Some(after)) = (read(sides.old()), read(sides.now())) else { continue };
        let values = |flat: &Flat| -> BTreeSet<(String, String)> {
            flat.iter().map(|(key, value)| as_moved(key, value)).collect()
        };
        let (before, after) = (values(&before), values(&after));
        gone.extend(before.difference(&after).cloned());
        came.extend(after.difference(&before).cloned());
    }
    gone.intersection(&came).cloned().collect()
}

/// Compares both sides as flat lists; a side that cannot be read is told.
fn both(
    sides: &Sides<'_>,
    brief: &Brief,
    moved: &BTreeSet<(String, String)>,
    read: fn(&str) -> Option<Flat>,
) -> Vec<Finding> {
    let stays = |flat: Flat| -> Flat {
        flat.into_iter().filter(|(key, value)| !moved.contains(&as_moved(key, value))).collect()
    };
    match (read(sides.old()), read(sides.now())) {
        (Some(before), Some(after)) => differing(sides, brief, &stays(before), &stays(after)),
        (None, _) | (_, None) => {
            let message = "the settings of a test runner cannot be read and compared".to_owned();
            vec![sides.changed(FindingKind::VerifyChanged, brief, None, message)]
        }
    }
}

fn flatten(name: &str, value: &toml::Value, flat: &mut Flat) {
    match value {
        // Tables of settings are a few deep; TOML's own parser bounds how deep they can be.
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, flat));
        }
        toml::Value::String(text) => {
            flat.insert(name.to_owned(), text.clone());
        }
        other => {
            flat.insert(name.to_owned(), other.to_string());
        }
    }
}

/// `pytest.ini`, `tox.ini`, `setup.cfg`: sections, keys, values that go on in indented lines.
fn ini(text: &str) -> Option<Flat> {
    let mut flat = Flat::new();
    let (mut section, mut key) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        let inner = line.trim();
        if inner.starts_with('[') {
            section = inner.trim_matches(['[', ']']).to_owned();
            key.clear();
        } else if line.starts_with(char::is_whitespace) && !key.is_empty() {
            let value: &mut String = flat.entry(key.clone()).or_default();
            value.push_str(if value.is_empty() { "" } else { "\n" });
            value.push_str(inner);
        } else if let Some((name, value)) = inner.split_once(['=', ':']) {
            key = format!("{section}.{}", name.trim());
            let runs =
                ["pytest", "tool:pytest"].contains(&section.as_str()) || section.starts_with("testenv");
            match runs {
                true => drop(flat.insert(key.clone(), value.trim().to_owned())),
                false => key.clear(),
            }
        }
    }
    Some(flat)
}

fn manifest(sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
    let read = |text: &str| toml::from_str::<toml::Table>(text).ok();
    let (Some(before), Some(after)) = (read(sides.old()), read(sides.now())) else {
        let message = "the manifest cannot be read and compared".to_owned();
        return vec![sides.changed(FindingKind::VerifyChanged, brief, None, message)];
    };
    let mut findings = Vec::new();
    let tests = |table: &toml::Table| -> BTreeSet<String> {
        let list = table.get("test").and_then(|list| list.as_array()).into_iter().flatten();
        list.filter_map(|one| Some(one.get("name")?.as_str()?.to_owned())).collect()
    };
    for name in tests(&before).difference(&tests(&after)) {
        findings.push(sides.narrowed("[[test]]", format!("the test target `{name}` is gone")));
    }
    let off = |table: &toml::Table| switched_off(table);
    for switch in off(&after).difference(&off(&before)) {
        findings.push(sides.narrowed("false", format!("{switch}: its tests are not run")));
    }
    for key in ["members", "default-members"] {
        let (old, new) = (workspace_list(&before, key), workspace_list(&after, key));
        let narrower = key == "default-members" && old.is_empty() && !new.is_empty();
        let gone: Vec<&String> = old.difference(&new).collect();
        if narrower || (!gone.is_empty() && !new.is_empty()) || (key == "members" && !gone.is_empty()) {
            findings.push(sides.narrowed(key, format!("`workspace.{key}` names fewer: {gone:?} gone")));
        }
    }
    for name in workspace_list(&after, "exclude").difference(&workspace_list(&before, "exclude")) {
        findings.push(sides.narrowed("exclude", format!("`workspace.exclude` now names {name}")));
    }
    findings
}

fn workspace_list(table: &toml::Table, key: &str) -> BTreeSet<String> {
    let list = table.get("workspace").and_then(|one| one.get(key)).and_then(|one| one.as_array());
    list.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Every switch of a manifest by which tests are not built or not run.
fn switched_off(table: &toml::Table) -> BTreeSet<String> {
    let is_off = |value: Option<&toml::Value>| value.and_then(toml::Value::as_bool) == Some(false);
    let mut found = BTreeSet::new();
    if table.get("package").is_some_and(|package| is_off(package.get("autotests"))) {
        found.insert("`autotests = false`".to_owned());
    }
    for section in ["lib", "bin", "test", "example"] {
        let value = table.get(section);
        let one = value.filter(|value| value.is_table()).into_iter();
        let many = value.and_then(|value| value.as_array()).into_iter().flatten();
        for target in one.chain(many) {
            let name = target.get("name").and_then(|name| name.as_str()).unwrap_or(section);
            for key in ["test", "harness", "doctest"] {
                if is_off(target.get(key)) {
                    found.insert(format!("`{key} = false` of {name}"));
                }
            }
        }
    }
    found
}

/// `package.json`: the scripts that the verify command asks for, and the settings of runners inside.
fn package(sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
    let read = |text: &str| {
        serde_json::from_str::<serde_json::Value>(if text.is_empty() { "{}" } else { text }).ok()
    };
    let (Some(before), Some(after)) = (read(sides.old()), read(sides.now())) else {
        let message = "the scripts cannot be read and compared".to_owned();
        return vec![sides.changed(FindingKind::VerifyChanged, brief, None, message)];
    };
    let mut findings = Vec::new();
    let scripts = |value: &serde_json::Value| -> BTreeMap<String, String> {
        let list = value.get("scripts").and_then(|list| list.as_object()).into_iter().flatten();
        list.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect()
    };
    let (old, new) = (scripts(&before), scripts(&after));
    let used = used_scripts(&brief.verify, &old, &new);
    for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (old.get(name).map_or("", String::as_str), new.get(name).map_or("", String::as_str));
        if was == is {
            continue;
        }
        let line = sides.line_of(&format!("\"{name}\""));
        // A new member of a workspace takes nothing away from the others.
        let is_member = sides.before.is_none() && sides.path.contains('/');
        if is_member || (!was.is_empty() && keeps(was, is) && brief.names(sides.path)) {
            let message = format!("script `{name}` was {was:?} and is {is:?}");
            findings.push(Finding::note(FindingKind::VerifyChanged, sides.path, line, message));
            continue;
        }
        if let Some(why) = narrows(is).filter(|_| narrows(was).is_none()) {
            findings.push(Finding::block(
                FindingKind::RunnerNarrowed,
                sides.path,
                line,
                format!("script `{name}`: {why}"),
            ));
        }
        let message = format!("script `{name}` was {was:?} and is {is:?}");
        findings.push(match is_in(&used, name) {
            true => Finding::block(
                FindingKind::VerifyChanged,
                sides.path,
                line,
                format!("{message}; the verify command uses it"),
            ),
            false => Finding::note(FindingKind::VerifyChanged, sides.path, line, message),
        });
    }
    for key in ["jest", "mocha", "vitest", "ava", "tap", "c8", "nyc"] {
        findings.extend(runner_key(sides, brief, key, before.get(key), after.get(key)));
    }
    findings
}

fn runner_key(
    sides: &Sides<'_>,
    brief: &Brief,
    key: &str,
    before: Option<&serde_json::Value>,
    after: Option<&serde_json::Value>,
) -> Vec<Finding> {
    const FEWER: [&str; 12] = [
        "testPathIgnorePatterns",
        "testMatch",
        "testRegex",
        "roots",
        "modulePathIgnorePatterns",
        "passWithNoTests",
        "testNamePattern",
        "spec",
        "ignore",
        "grep",
        "files",
        "exclude",
    ];
    let empty = serde_json::Map::new();
    let fields = |value: Option<&'_ serde_json::Value>| value.and_then(|value| value.as_object()).cloned();
    let (old, new) = (fields(before).unwrap_or(empty.clone()), fields(after).unwrap_or(empty));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    const ELSEWHERE: [&str; 7] = [
        "moduleNameMapper",
        "resolver",
        "runner",
        "testRunner",
        "modulePaths",
        "automock",
        "snapshotResolver",
    ];
    let (elsewhere, differs): (Vec<&String>, Vec<&String>) =
        differs.partition(|name| ELSEWHERE.contains(&name.as_str()) && !is_of_signs(new.get(*name)));
    let mut found: Vec<Finding> = elsewhere
        .into_iter()
        .map(|name| {
            let message = format!("`{key}.{name}` has the runner take something else");
            Finding::block(FindingKind::RunnerPatched, sides.path, sides.line_of(name), message)
        })
        .collect();
    let told = differs.into_iter().map(|name| match FEWER.contains(&name.as_str()) {
        true => sides.narrowed(name, format!("`{key}.{name}` differs: fewer tests may run")),
        false => {
            sides.changed(FindingKind::VerifyChanged, brief, Some(name), format!("`{key}.{name}` differs"))
        }
    });
    found.extend(told);
    found
}

/// Whether a map of modules only gives folders a sign: `^@/(.*)$`, or files of style an empty module.
fn is_of_signs(value: Option<&serde_json::Value>) -> bool {
    let map = value.and_then(serde_json::Value::as_object);
    map.is_some_and(|map| {
        map.keys().all(|key| {
            key.trim_start_matches('^').starts_with(['@', '~', '#'])
                || key.contains("css")
                || key.contains("svg")
        })
    })
}

/// Whether a name was reached. Where too many were to be followed, every name may have been.
pub(super) fn is_in(used: &BTreeSet<String>, name: &str) -> bool {
    used.contains(name) || used.len() >= MAX_FOLLOWED
}

/// The scripts that a verify command goes through: those it asks for, those before and after them, and so on.
fn used_scripts(
    verify: &str,
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut left = vec![verify.to_owned()];
    while let Some(command) = left.pop() {
        for name in requested_targets(&command, &["npm", "yarn", "pnpm", "bun", "npx", "run-s", "run-p"]) {
            for name in [name.clone(), format!("pre{name}"), format!("post{name}")] {
                if used.len() < MAX_FOLLOWED
                    && (old.contains_key(&name) || new.contains_key(&name))
                    && used.insert(name.clone())
                {
                    left.extend(old.get(&name).into_iter().chain(new.get(&name)).cloned());
                }
            }
        }
    }
    used
}
