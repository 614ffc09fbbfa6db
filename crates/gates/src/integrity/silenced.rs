//! Linters, type checkers, coverage and warnings that are told to look away: a ratchet.
//!
//! Each new mark in a file, each new entry of a list of exceptions and each lower threshold is told. It blocks where the
//! verify command runs such a tool or the brief speaks of it, and is noted otherwise. What stood there before may stay.

use std::collections::BTreeMap;

use super::settings::Sides;
use ftl_code::context::Language;
use ftl_code::finding::{Brief, Finding, FindingKind, Severity};

/// What is told to look away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tool {
    Lint,
    Types,
    Coverage,
    Warnings,
}

impl Tool {
    /// Words of a command or a brief that are about it.
    fn words(self) -> &'static [&'static str] {
        match self {
            Tool::Lint => &[
                "lint",
                "ruff",
                "flake8",
                "pylint",
                "pycodestyle",
                "bandit",
                "clippy",
                "biome",
                "golangci",
                "staticcheck",
                "go vet",
                "shellcheck",
                "unused",
                "code style",
                "pre-commit",
            ],
            Tool::Types => &[
                "mypy",
                "pyright",
                "pyre",
                "pytype",
                "tsc",
                "typecheck",
                "type-check",
                "type check",
                "type error",
                "typing",
                "types",
                "typed",
                "npm run check",
                "npm run build",
                "vue-tsc",
            ],
            Tool::Coverage => &["cov", "nyc", "c8", "istanbul", "tarpaulin", "llvm-cov"],
            Tool::Warnings => &["warning", "-werror", "-d warnings", "-w error", "clippy", "deprecat"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Lint => "a linter",
            Tool::Types => "a type checker",
            Tool::Coverage => "the measure of coverage",
            Tool::Warnings => "warnings",
        }
    }

    /// Whether the verify command runs it, or the brief speaks of it.
    fn is_asked(self, brief: &Brief) -> bool {
        let all = format!("{} {}", brief.verify, brief.text).to_lowercase();
        let whole = [
            "make check",
            "make lint",
            "just check",
            "just ci",
            "make ci",
            "npm run ci",
            "npm run validate",
            "tox",
            "nox",
        ];
        self.words().iter().any(|word| all.contains(word))
            || whole.iter().any(|word| brief.verify.contains(word))
    }
}

/// Marks in source text, by the words that they hold, for which files.
const MARKS: [(&str, Tool, &str); 34] = [
    ("noqa", Tool::Lint, "py"),
    ("ruff: noqa", Tool::Lint, "py"),
    ("pylint: disable", Tool::Lint, "py"),
    ("nosec", Tool::Lint, "py go"),
    ("flake8: noqa", Tool::Lint, "py"),
    ("type: ignore", Tool::Types, "py"),
    ("pyright: ignore", Tool::Types, "py"),
    ("mypy: ignore-errors", Tool::Types, "py"),
    ("pyright: basic", Tool::Types, "py"),
    ("no_type_check", Tool::Types, "py"),
    ("pragma: no cover", Tool::Coverage, "py"),
    ("pragma: no branch", Tool::Coverage, "py"),
    ("filterwarnings(\"ignore", Tool::Warnings, "py"),
    ("simplefilter(\"ignore", Tool::Warnings, "py"),
    ("filterwarnings('ignore", Tool::Warnings, "py"),
    ("simplefilter('ignore", Tool::Warnings, "py"),
    ("eslint-disable", Tool::Lint, "js"),
    ("biome-ignore", Tool::Lint, "js"),
    ("tslint:disable", Tool::Lint, "js"),
    ("oxlint-disable", Tool::Lint, "js"),
    ("@ts-ignore", Tool::Types, "js"),
    ("@ts-expect-error", Tool::Types, "js"),
    ("@ts-nocheck", Tool::Types, "js"),
    ("istanbul ignore", Tool::Coverage, "js"),
    ("c8 ignore", Tool::Coverage, "js"),
    ("v8 ignore", Tool::Coverage, "js"),
    ("nolint", Tool::Lint, "go"),
    ("lint:ignore", Tool::Lint, "go"),
    ("coverage:ignore", Tool::Coverage, "go"),
    ("#[allow(", Tool::Lint, "rs"),
    ("#![allow(", Tool::Lint, "rs"),
    ("#[expect(", Tool::Lint, "rs"),
    ("coverage(off)", Tool::Coverage, "rs"),
    ("shellcheck disable", Tool::Lint, "sh"),
];

fn family(path: &str, text: &str) -> Option<&'static str> {
    Some(match Language::of(path) {
        Some(Language::Python) => "py",
        Some(Language::Rust) => "rs",
        Some(Language::Go) => "go",
        Some(Language::TypeScript | Language::Tsx | Language::JavaScript) => "js",
        None if super::product::is_shell(path, text) || path.ends_with(".bats") => "sh",
        None => return None,
    })
}

/// What a changed file newly tells tools to leave alone.
pub(super) fn look(sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
    let Some(after) = sides.after.filter(|after| sides.before != Some(*after)) else { return Vec::new() };
    let before = sides.before.unwrap_or_default();
    let name = sides.path.rsplit('/').next().unwrap_or(sides.path);
    let mut found = match family(sides.path, after) {
        Some(family) => marks(family, before, after),
        None => Vec::new(),
    };
    if let Some(tool) = tool_of(name) {
        // A file that is new makes a tool look less only where it says so.
        found.extend(settings(tool, name, before, after));
    }
    let findings = found.into_iter().map(|(tool, line, message)| {
        let message = format!("{} is told to look away: {message}", tool.name());
        let finding = Finding::block(FindingKind::CheckSilenced, sides.path, line, message);
        if tool.is_asked(brief) { finding } else { Finding { severity: Severity::Note, ..finding } }
    });
    findings.collect()
}

type Told = (Tool, Option<usize>, String);

/// Marks that a file has more often than before.
fn marks(family: &str, before: &str, after: &str) -> Vec<Told> {
    let mut known: BTreeMap<(&str, Tool), usize> = BTreeMap::new();
    let mut found = Vec::new();
    let of = |line: &str| {
        // A comment is looked at behind its sign; a mark in a text or a name is none.
        let shown = match family {
            "rs" => line.trim(),
            "py" => line.find('#').map_or(line, |at| {
                if line.contains("filter(") || line.contains("warnings(") { line } else { &line[at..] }
            }),
            "sh" => line.find('#').map_or("", |at| &line[at..]),
            _ => line.find("//").or_else(|| line.find("/*")).map_or("", |at| &line[at..]),
        };
        let is_marked = |(word, _, files): &&(&'static str, Tool, &str)| {
            files.split(' ').any(|one| one == family) && shown.contains(word)
        };
        MARKS.iter().find(is_marked).map(|(word, tool, _)| (*word, *tool)).or_else(|| any_type(family, line))
    };
    for line in before.lines() {
        if let Some(mark) = of(line) {
            *known.entry(mark).or_default() += 1;
        }
    }
    for (at, line) in after.lines().enumerate() {
        let Some(mark) = of(line) else { continue };
        let count = known.entry(mark).or_default();
        if *count > 0 {
            *count -= 1;
        } else {
            found.push((mark.1, Some(at + 1), format!("`{}`", super::short(line.trim()))));
        }
    }
    found
}

/// A type that takes everything.
fn any_type(family: &str, line: &str) -> Option<(&'static str, Tool)> {
    let code = line.split("//").next().unwrap_or(line);
    let squeezed: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let has = |words: &[&str]| words.iter().any(|word| super::product::has_word_after(&squeezed, word));
    match family {
        "js" if has(&["as any", ": any", "as unknown as", "<any>", "any[]"]) => Some(("any", Tool::Types)),
        "py" if has(&["-> Any", ": Any", "cast(Any", "typing.Any"]) && !squeezed.starts_with('#') => {
            Some(("Any", Tool::Types))
        }
        _ => None,
    }
}

/// The tool whose settings a file holds.
fn tool_of(name: &str) -> Option<Tool> {
    let starts = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    Some(match name {
        _ if starts(&["tsconfig", "pyrightconfig"]) || matches!(name, "mypy.ini" | ".mypy.ini") => {
            Tool::Types
        }
        ".coveragerc" | "codecov.yml" | ".codecov.yml" => Tool::Coverage,
        _ if starts(&[".nycrc", ".c8rc"]) => Tool::Coverage,
        "pyproject.toml" | "setup.cfg" | "tox.ini" | "package.json" | "Cargo.toml" => Tool::Lint,
        _ if starts(&["jest.config.", "vitest.config."]) => Tool::Coverage,
        _ if starts(&[
            ".eslintrc",
            "eslint.config.",
            ".eslintignore",
            ".flake8",
            "ruff.toml",
            ".ruff.toml",
            ".pylintrc",
            "pylintrc",
            ".golangci",
            ".shellcheckrc",
            "biome.json",
            "clippy.toml",
            ".clippy.toml",
        ]) =>
        {
            Tool::Lint
        }
        _ => return None,
    })
}

/// Keys by which more is left alone, the longer their list is.
const EXCEPTIONS: [&str; 18] = [
    "ignore",
    "extend-ignore",
    "extend_ignore",
    "per-file-ignores",
    "per_file_ignores",
    "exclude",
    "extend-exclude",
    "disable",
    "omit",
    "exclude_lines",
    "exclude_also",
    "ignorePatterns",
    "coveragePathIgnorePatterns",
    "skips",
    "disabled",
    "ignores",
    "report.exclude",
    "exclude-files",
];

/// Keys by which less is looked for, the shorter their list is.
const SELECTIONS: [&str; 6] = ["select", "extend-select", "enable", "include", "extends", "source"];

/// Switches that are strict when they are on, and those that are lax when they are on.
const STRICT: [&str; 24] = [
    "strict",
    "noImplicitAny",
    "strictNullChecks",
    "noUnusedLocals",
    "noUnusedParameters",
    "noImplicitReturns",
    "noFallthroughCasesInSwitch",
    "checkJs",
    "strictFunctionTypes",
    "strictPropertyInitialization",
    "useUnknownInCatchVariables",
    "noUncheckedIndexedAccess",
    "exactOptionalPropertyTypes",
    "alwaysStrict",
    "disallow_untyped_defs",
    "disallow_any_generics",
    "check_untyped_defs",
    "warn_return_any",
    "no_implicit_optional",
    "warn_unused_ignores",
    "strict_optional",
    "branch",
    "disallow_incomplete_defs",
    "strict_equality",
];
const LAX: [&str; 7] = [
    "ignore_errors",
    "ignore_missing_imports",
    "skipLibCheck",
    "allowJs",
    "implicit_optional",
    "follow_imports_skip",
    "skip_empty",
];

/// Numbers that must not fall, and those that must not rise.
const AT_LEAST: [&str; 9] = [
    "fail_under",
    "lines",
    "branches",
    "functions",
    "statements",
    "target",
    "threshold",
    "--cov-fail-under",
    "fail-under",
];
const AT_MOST: [&str; 6] = [
    "max-warnings",
    "max-complexity",
    "max_complexity",
    "too-many-arguments-threshold",
    "max-line-length",
    "cognitive-complexity-threshold",
];

/// What settings of a tool let go that they held before.
fn settings(tool: Tool, name: &str, before: &str, after: &str) -> Vec<Told> {
    let (Some(old), Some(new)) = (flat(name, before), flat(name, after)) else { return Vec::new() };
    let mut found = Vec::new();
    for key in old.keys().chain(new.keys()).collect::<std::collections::BTreeSet<_>>() {
        let (was, is) = (old.get(key).map_or("", String::as_str), new.get(key).map_or("", String::as_str));
        if was == is {
            continue;
        }
        let tool = match key {
            _ if key.contains("mypy") || key.contains("pyright") || key.contains("compilerOptions") => {
                Tool::Types
            }
            _ if ["coverage", "threshold", "nyc", "c8", "fail_under"]
                .iter()
                .any(|word| key.to_lowercase().contains(word)) =>
            {
                Tool::Coverage
            }
            _ => tool,
        };
        let last = key.rsplit('.').next().unwrap_or(key);
        let of_tool = [
            "ruff",
            "flake8",
            "pylint",
            "mypy",
            "pyright",
            "coverage",
            "lints",
            "eslintConfig",
            "nyc",
            "c8",
            "jest",
            "isort",
            "bandit",
        ];
        let is_shared =
            matches!(name, "pyproject.toml" | "setup.cfg" | "tox.ini" | "package.json" | "Cargo.toml");
        if is_shared && !of_tool.iter().any(|word| key.contains(word)) {
            continue;
        }
        if let Some(message) = let_go(key, last, was, is) {
            let line = after.lines().position(|line| line.contains(last)).map(|at| at + 1);
            found.push((tool, line, message));
        }
    }
    found
}

fn let_go(key: &str, last: &str, was: &str, is: &str) -> Option<String> {
    let list = |text: &str| -> std::collections::BTreeSet<String> {
        let parts = text.split([' ', '\n', ',', '"', '[', ']', '\'']).filter(|word| !word.is_empty());
        parts.map(str::to_owned).collect()
    };
    let (old, new) = (list(was), list(is));
    let told = || Some(format!("`{key}` was {:?} and is {:?}", super::short(was), super::short(is)));
    let number = |text: &str| text.trim().trim_end_matches('%').parse::<f64>().ok();
    let level = |text: &str| {
        let text = text.split(',').next().unwrap_or(text).trim_matches(['"', '[', ']', ' ', '{', '}', '\'']);
        let text = text.rsplit('=').next().unwrap_or(text).trim_matches([' ', '"']);
        match text {
            "off" | "allow" | "0" => Some(0),
            "warn" | "1" => Some(1),
            "error" | "deny" | "2" => Some(2),
            "forbid" => Some(3),
            _ => None,
        }
    };
    let is_rule = key.contains("lints.") || key.contains("rules.");
    match () {
        () if EXCEPTIONS.contains(&last) && !new.is_subset(&old) => told(),
        () if SELECTIONS.contains(&last) && !old.is_subset(&new) => told(),
        () if STRICT.contains(&last) && was != is && (is == "false" || (is.is_empty() && was == "true")) => {
            told()
        }
        () if LAX.contains(&last) && matches!(is, "true" | "True") => told(),
        () if AT_LEAST.contains(&last) => {
            number(was).filter(|was| number(is).is_none_or(|is| is < *was)).and_then(|_| told())
        }
        () if AT_MOST.contains(&last) => {
            number(was).filter(|was| number(is).is_none_or(|is| is > *was)).and_then(|_| told())
        }
        () if is_rule => match (level(was), level(is)) {
            (Some(was), Some(is)) if is < was => told(),
            (Some(_), None) if is.is_empty() => told(),
            (None, Some(0)) => told(),
            _ => None,
        },
        () => None,
    }
}

/// The settings of a file as one list of keys and values.
fn flat(name: &str, text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    if name.ends_with(".toml") {
        let table: toml::Table = toml::from_str(text).ok()?;
        of_toml("", &toml::Value::Table(table), &mut found);
        return Some(found);
    }
    if name.ends_with(".json") || matches!(name, ".eslintrc" | ".nycrc" | ".c8rc") {
        let plain = without_comments(text);
        let read =
            serde_json::from_str::<serde_json::Value>(if plain.trim().is_empty() { "{}" } else { &plain })
                .ok()?;
        of_json("", &read, &mut found);
        return Some(found);
    }
    if name.ends_with(".yml") || name.ends_with(".yaml") {
        of_yaml("", &super::yaml::read(text)?, &mut found);
        return Some(found);
    }
    let mut section = String::new();
    let mut key = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';', '/', '*'])) {
        let inner = line.trim();
        if inner.starts_with('[') && inner.ends_with(']') {
            section = inner.trim_matches(['[', ']']).to_owned();
        } else if line.starts_with(char::is_whitespace) && !key.is_empty() && !inner.contains([':', '=']) {
            let value: &mut String = found.entry(key.clone()).or_default();
            value.push(' ');
            value.push_str(inner.trim_end_matches(','));
        } else if let Some((name, value)) = inner.split_once(['=', ':']) {
            let name = name.trim().trim_matches(['"', '\'']);
            let rule = if value.contains("off") || value.contains("warn") || value.contains("error") {
                "rules."
            } else {
                ""
            };
            key = format!("{section}.{rule}{name}");
            found
                .insert(key.clone(), value.trim().trim_end_matches(',').trim_matches(['"', '\'']).to_owned());
        } else if !inner.is_empty() && name == ".eslintignore" {
            let value: &mut String = found.entry(format!("{section}.ignore")).or_default();
            value.push(' ');
            value.push_str(inner);
        }
    }
    Some(found)
}

fn of_toml(name: &str, value: &toml::Value, found: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| of_toml(&format!("{name}.{key}"), value, found));
        }
        toml::Value::String(text) => drop(found.insert(name.to_owned(), text.clone())),
        other => drop(found.insert(name.to_owned(), other.to_string())),
    }
}

fn of_json(name: &str, value: &serde_json::Value, found: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(map) => {
            map.iter().for_each(|(key, value)| of_json(&format!("{name}.{key}"), value, found));
        }
        serde_json::Value::String(text) => drop(found.insert(name.to_owned(), text.clone())),
        other => drop(found.insert(name.to_owned(), other.to_string())),
    }
}

fn of_yaml(name: &str, value: &super::yaml::Value, found: &mut BTreeMap<String, String>) {
    match value {
        super::yaml::Value::Map(map) => {
            map.iter().for_each(|(key, value)| of_yaml(&format!("{name}.{key}"), value, found));
        }
        other => drop(found.insert(name.to_owned(), other.plain())),
    }
}

/// JSON without comments and without commas before a closing bracket, as `tsconfig.json` may have them.
fn without_comments(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars().peekable();
    let (mut in_text, mut escaped) = (false, false);
    while let Some(letter) = letters.next() {
        if in_text {
            plain.push(letter);
            in_text = letter != '"' || escaped;
            escaped = letter == '\\' && !escaped;
            continue;
        }
        match (letter, letters.peek()) {
            ('/', Some('/')) => {
                while letters.peek().is_some_and(|one| *one != '\n') {
                    letters.next();
                }
            }
            ('/', Some('*')) => {
                let mut before = ' ';
                for one in letters.by_ref() {
                    if before == '*' && one == '/' {
                        break;
                    }
                    before = one;
                }
            }
            ('}' | ']', _) => {
                let kept = plain.trim_end().trim_end_matches(',').len();
                plain.truncate(kept);
                plain.push(letter);
            }
            _ => {
                in_text = letter == '"';
                plain.push(letter);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the path, before, after, whether it is told.
    const CASES: &str = r##"
        a.py    | x = 1             | x = 1  # noqa: F401            | yes
        a.py    | x = 1  # noqa     | y = 1  # noqa                  | no
        a.py    | x = 1             | x = "# of a noqa"              | yes
        a.py    | x = 1             | x = 1  # type: ignore          | yes
        a.py    | def f(x: int):    | def f(x: Any):                 | yes
        a.py    | x = 1             | # any: Company                 | no
        a.ts    | let x: number;    | let x: any;                    | yes
        a.ts    | let x: number;    | let company: Many;             | no
        a.js    | x();              | x(); // eslint-disable-line    | yes
        a.go    | x()               | x() //nolint                   | yes
        a.rs    | fn f() {}         | #[allow(dead_code)]            | yes
        a.sh    | x                 | # shellcheck disable=SC2086    | yes
        pyproject.toml | [tool.coverage.report]\nfail_under = 90 | [tool.coverage.report]\nfail_under = 80 | yes
        pyproject.toml | [tool.coverage.report]\nfail_under = 90 | [tool.coverage.report]\nfail_under = 95 | no
        pyproject.toml | [tool.ruff]\nignore = ["A"] | [tool.ruff]\nignore = ["A", "B"] | yes
        pyproject.toml | [tool.ruff]\nselect = ["A"] | [tool.ruff]\nselect = ["A", "B"] | no
        pyproject.toml | [project]\nignore = ["A"] | [project]\nignore = ["A", "B"] | no
        Cargo.toml | [lints.clippy]\nall = "deny" | [lints.clippy]\nall = "warn" | yes
        Cargo.toml | [dependencies]\na = "1"     | [dependencies]\na = "0"     | no
        tsconfig.json | { "compilerOptions": { "strict": true, } } | { "compilerOptions": { "strict": false } } | yes
        tsconfig.json | { "compilerOptions": { "strict": true } } | { "compilerOptions": { "strict": true, "noUnusedLocals": true } } | no
        mypy.ini | [mypy]\nstrict = true | [mypy]\nstrict = true\nignore_errors = True | yes
        .eslintrc.json | { "rules": { "a": "error" } } | { "rules": { "a": "off" } } | yes
        .flake8 | [flake8]\nignore = E1 | [flake8]\nignore = E1,E2 | yes"##;

    #[test]
    fn what_is_newly_silenced_is_told() {
        let brief = Brief { verify: "make lint".to_owned(), ..Brief::default() };
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<String> = line.split(" | ").map(|cell| cell.trim().replace("\\n", "\n")).collect();
            let sides = Sides { path: &cells[0], before: Some(&cells[1]), after: Some(&cells[2]) };
            let found = look(&sides, &brief);
            assert_eq!(!found.is_empty(), cells[3] == "yes", "{line}\n{found:?}");
            assert!(found.iter().all(Finding::stops), "{line}");
        }
    }

    #[test]
    fn it_blocks_where_the_tool_is_run_or_spoken_of() {
        let sides = Sides { path: "a.py", before: Some("x = 1"), after: Some("x = 1  # noqa") };
        let stops = |verify: &str, text: &str| {
            let brief = Brief { verify: verify.to_owned(), text: text.to_owned(), ..Brief::default() };
            look(&sides, &brief).iter().any(Finding::stops)
        };
        assert!(stops("ruff check . && pytest", "") && stops("pytest", "fix the lint errors"));
        assert!(!stops("pytest", "add a discount"));
    }
}
