//! How a project is built, tested and linted, by what lies in its folder. The project's own word counts most:
//! a target or script called `test`. A lint is named only where the project says that it uses it. Each command
//! knows who named it. Nothing is run to find out. The same commands are written by `ftl init`, shown by `ftl doctor`, told
//! to planners and run by stories.

mod collect;
pub mod files;
pub mod look;
pub mod programs;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use ftl_core::json::{Json, JsonExt as _};

use crate::context::read_source;

/// The commands of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// What makes a new worktree ready. One that is only found is proposed, and never run.
    #[serde(default)]
    pub setup: Option<String>,
    /// The commands that test it, in order.
    pub tests: Vec<String>,
    /// The commands that check format and lints.
    pub lints: Vec<String>,
    /// The command that builds it, where it needs one.
    pub build: Option<String>,
    /// Who named each of them: a setting, or a file of the project.
    #[serde(skip)]
    pub origins: BTreeMap<String, String>,
}

impl Commands {
    /// The commands as exploration and people's JSON have them; nothing where there are none.
    pub fn to_json(&self) -> Option<Json> {
        let list = |all: &[String]| Json::Array(all.iter().map(|one| Json::from(one.as_str())).collect());
        let mut json = Json::object([("tests", list(&self.tests)), ("lints", list(&self.lints))]);
        for (key, one) in [("setup", &self.setup), ("build", &self.build)] {
            if let Some(one) = one {
                json.put(key, one.as_str());
            }
        }
        (self.all().next().is_some() || self.setup.is_some()).then_some(json)
    }

    /// All of them that are run on what was written.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.tests.iter().chain(&self.lints).chain(&self.build)
    }

    /// The setting or the file that names a command.
    pub fn origin(&self, command: &str) -> &str {
        self.origins.get(command).map_or("the story", String::as_str)
    }

    /// The same, named by a file.
    fn named_by(mut self, file: &str) -> Commands {
        self.origins = self.all().chain(&self.setup).map(|one| (one.clone(), file.to_owned())).collect();
        self
    }

    /// The same with what a folder shows where the settings say nothing.
    pub fn or_found(&self, folder: &Path) -> Commands {
        let found = detect(folder);
        let first = |set: &Vec<String>, found: Vec<String>| if set.is_empty() { found } else { set.clone() };
        let mut origins = found.origins;
        origins.extend(self.origins.clone());
        Commands {
            setup: self.setup.clone().or(found.setup),
            tests: first(&self.tests, found.tests),
            lints: first(&self.lints, found.lints),
            build: self.build.clone().or(found.build),
            origins,
        }
    }
}

/// Files in which a project names its own commands, and what runs them; of several the first.
const RUNNERS: [(&[&str], &str); 2] =
    [(&["justfile", "Justfile", ".justfile"], "just"), (&["GNUmakefile", "makefile", "Makefile"], "make")];

fn detect(folder: &Path) -> Commands {
    for (files, program) in RUNNERS {
        let file = files.iter().find(|file| is_there(folder, file));
        let text = file.map(|file| text_of(folder, file)).unwrap_or_default();
        if has_target(&text, "test") {
            let own = |target: &str| has_target(&text, target).then(|| format!("{program} {target}"));
            let all = Commands {
                setup: own("setup"),
                tests: own("test").into_iter().collect(),
                lints: own("lint").into_iter().collect(),
                build: own("build"),
                ..Commands::default()
            };
            let mut all = all.named_by(file.unwrap_or(&program));
            if all.setup.is_none()
                && let Some((command, file)) = setup(folder)
            {
                all.setup = Some(command.to_owned());
                all.origins.insert(command.to_owned(), file.to_owned());
            }
            return all;
        }
    }
    let mut all = Commands::default();
    for one in [cargo(folder), node(folder), python(folder), go(folder)] {
        all.tests.extend(one.tests);
        all.lints.extend(one.lints);
        all.build = all.build.or(one.build);
        all.origins.extend(one.origins);
    }
    if let Some((command, file)) = setup(folder) {
        all.setup = Some(command.to_owned());
        all.origins.insert(command.to_owned(), file.to_owned());
    }
    all
}

/// What installs what a project needs into its folder, by the file that lists it exactly.
const INSTALLERS: [(&str, &str); 6] = [
    ("package-lock.json", "npm ci"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn install --frozen-lockfile"),
    ("uv.lock", "uv sync"),
    ("poetry.lock", "poetry install"),
    ("Gemfile.lock", "bundle install"),
];

/// What a new worktree needs before anything can be run in it. A package without dependencies needs nothing.
fn setup(folder: &Path) -> Option<(&'static str, &'static str)> {
    let (file, command) = INSTALLERS.into_iter().find(|(file, _)| is_there(folder, file))?;
    let package: serde_json::Value =
        serde_json::from_str(&text_of(folder, "package.json")).unwrap_or_default();
    let needs = |key: &str| package[key].as_object().is_some_and(|all| !all.is_empty());
    let is_node = file == "package-lock.json" || file == "pnpm-lock.yaml" || file == "yarn.lock";
    (!is_node || needs("dependencies") || needs("devDependencies")).then_some((command, file))
}

fn text_of(folder: &Path, file: &str) -> String {
    read_source(folder, file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn is_there(folder: &Path, file: &str) -> bool {
    folder.join(file).is_file()
}

/// Whether a line begins a target of that name.
fn has_target(text: &str, target: &str) -> bool {
    text.lines().any(|line| {
        let rest = line.strip_prefix(target).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
    })
}

fn cargo(folder: &Path) -> Commands {
    if !is_there(folder, "Cargo.toml") {
        return Commands::default();
    }
    let uses = |files: [&str; 2]| files.iter().any(|file| is_there(folder, file));
    let format = uses(["rustfmt.toml", ".rustfmt.toml"]).then(|| String::from("cargo fmt --all --check"));
    let lints = uses(["clippy.toml", ".clippy.toml"]);
    let lints = lints.then(|| String::from("cargo clippy --all-targets -- -D warnings"));
    Commands {
        tests: vec![String::from("cargo test")],
        lints: format.into_iter().chain(lints).collect(),
        build: Some(String::from("cargo build")),
        ..Commands::default()
    }
    .named_by("Cargo.toml")
}

fn node(folder: &Path) -> Commands {
    let package: serde_json::Value =
        serde_json::from_str(&text_of(folder, "package.json")).unwrap_or_default();
    let program = match () {
        () if is_there(folder, "pnpm-lock.yaml") => "pnpm",
        () if is_there(folder, "yarn.lock") => "yarn",
        () => "npm",
    };
    let script = |name: &str| {
        let script = package["scripts"][name].as_str()?;
        // What `npm init` writes is no test.
        (!script.contains("no test specified")).then(|| format!("{program} run {name}"))
    };
    Commands {
        tests: script("test").into_iter().collect(),
        lints: script("lint").into_iter().collect(),
        build: script("build"),
        ..Commands::default()
    }
    .named_by("package.json")
}

fn python(folder: &Path) -> Commands {
    let project = text_of(folder, "pyproject.toml");
    let is_test = |name: &str| name.starts_with("test_") && name.ends_with(".py");
    let has_tests = |folder: &Path| {
        let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
        all.into_iter().any(|entry| is_test(&entry.file_name().to_string_lossy()))
    };
    let says = |file: &str, word: &str| text_of(folder, file).contains(word);
    let pytest = [
        ("pytest.ini", is_there(folder, "pytest.ini")),
        ("setup.cfg", says("setup.cfg", "[tool:pytest]")),
        ("tox.ini", says("tox.ini", "[pytest]")),
        ("conftest.py", is_there(folder, "conftest.py")),
        ("tests/conftest.py", is_there(folder, "tests/conftest.py")),
        ("pyproject.toml", project.contains("[tool.pytest")),
    ];
    let pytest = pytest.into_iter().find(|(_, uses)| *uses).map(|(file, _)| file);
    let tests = match pytest {
        Some(file) => Some(("python3 -m pytest", file)),
        None if has_tests(folder) => Some(("python3 -m unittest", "test_*.py")),
        None if has_tests(&folder.join("tests")) => {
            Some(("python3 -m unittest discover tests", "tests/test_*.py"))
        }
        None => None,
    };
    let ruff =
        [("ruff.toml", is_there(folder, "ruff.toml")), ("pyproject.toml", project.contains("[tool.ruff"))];
    let ruff = ruff.into_iter().find(|(_, uses)| *uses).map(|(file, _)| ("ruff check", file));
    let only = |one: Option<(&str, &str)>| -> Vec<String> {
        one.into_iter().map(|(command, _)| command.to_owned()).collect()
    };
    Commands {
        setup: None,
        tests: only(tests),
        lints: only(ruff),
        build: None,
        origins: [tests, ruff].into_iter().flatten().map(|(one, file)| (one.into(), file.into())).collect(),
    }
}

fn go(folder: &Path) -> Commands {
    if !is_there(folder, "go.mod") {
        return Commands::default();
    }
    Commands {
        tests: vec![String::from("go test ./...")],
        lints: vec![String::from("go vet ./...")],
        build: Some(String::from("go build ./...")),
        ..Commands::default()
    }
    .named_by("go.mod")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the files with what they say, the tests, the lints, what builds.
    const CASES: &str = r#"
        Cargo.toml=[package]                            | cargo test | | cargo build
        Cargo.toml=[package] rustfmt.toml=x             | cargo test | cargo fmt --all --check | cargo build
        justfile=test:                                  | just test  | |
        Justfile=test: Cargo.toml=x                     | just test  | |
        .justfile=test:                                 | just test  | |
        makefile=test:                                  | make test  | |
        GNUmakefile=test: Makefile=build:               | make test  | |
        justfile=build: Makefile=test:                  | make test  | |
        justfile=test:x\nlint:y\nbuild:z                 | just test  | just lint | just build
        Cargo.toml=[package] clippy.toml=x              | cargo test | cargo clippy --all-targets -- -D warnings | cargo build
        package.json={"scripts":{"test":"jest","lint":"eslint"}} yarn.lock=x | yarn run test | yarn run lint |
        setup.cfg=[tool:pytest]                         | python3 -m pytest | |
        tox.ini=[pytest]                                | python3 -m pytest | |
        pytest.ini=x test_a.py=x                        | python3 -m pytest | |
        pyproject.toml=[tool.pytest.ini_options]        | python3 -m pytest | |
        go.mod=module                                   | go test ./... | go vet ./... | go build ./...
        justfile=build: Cargo.toml=[package]            | cargo test | | cargo build
        Makefile=test:all Cargo.toml=x                  | make test  | |
        Makefile=test:=1                                |            | |
        package.json={"scripts":{"test":"jest","build":"tsc"}}                | npm run test  | | npm run build
        package.json={"scripts":{"test":"jest"}} pnpm-lock.yaml=x             | pnpm run test | |
        package.json={"scripts":{"test":"echo_no_test_specified"}}            |               | |
        package.json={                                  |            | |
        test_a.py=x                                     | python3 -m unittest | |
        tests/test_a.py=x                               | python3 -m unittest discover tests | |
        tests/test_a.py=x tests/conftest.py=x           | python3 -m pytest | |
        pyproject.toml=[tool.ruff] test_a.py=x          | python3 -m unittest | ruff check |
        go.mod=module Cargo.toml=x                      | cargo test, go test ./... | go vet ./... | cargo build
        README=x                                        |            | |"#;

    #[test]
    fn commands_are_found_by_what_lies_there() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in cells[0].split(' ').filter_map(|one| one.split_once('=')) {
                let file = folder.path().join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                let text = text.replace('_', if name == "package.json" { " " } else { "_" });
                std::fs::write(file, text.replace("\\n", "\n")).unwrap();
            }
            let found = Commands::default().or_found(folder.path());
            assert_eq!(found.tests.join(", "), cells[1], "{line}");
            assert_eq!(found.lints.join(", "), cells[2], "{line}");
            assert_eq!(found.build.clone().unwrap_or_default(), cells[3], "{line}");
            let files: Vec<&str> = cells[0].split(' ').filter_map(|one| one.split('=').next()).collect();
            for command in found.all() {
                let origin = found.origin(command);
                let is_one = files.contains(&origin) || origin.ends_with("test_*.py");
                assert!(is_one, "{line}: `{command}` is named by {origin}");
            }
        }
    }

    #[test]
    fn what_a_worktree_needs_is_found_by_the_file_that_lists_it() {
        for (files, wanted) in [
            (&[("uv.lock", "x")][..], Some("uv sync")),
            (
                &[("package-lock.json", "{}"), ("package.json", "{\"dependencies\":{\"a\":\"1\"}}")],
                Some("npm ci"),
            ),
            (&[("package-lock.json", "{}"), ("package.json", "{}")], None),
            (&[("justfile", "test:\nsetup:\n"), ("uv.lock", "x")], Some("just setup")),
            (&[("Makefile", "test:\n"), ("uv.lock", "x")], Some("uv sync")),
            (&[("Cargo.toml", "")], None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            let found = Commands::default().or_found(folder.path());
            assert_eq!(found.setup.as_deref(), wanted, "{files:?}");
            let is_told = found.to_json().is_some_and(|json| json.get("setup").is_some());
            assert_eq!(is_told, wanted.is_some());
        }
    }

    #[test]
    fn what_is_set_counts_more_than_what_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("go.mod"), "module x").unwrap();
        let set = Commands { tests: vec!["./check".to_owned()], ..Commands::default() };
        let found = set.or_found(folder.path());
        assert_eq!((found.tests, found.lints), (vec!["./check".to_owned()], vec!["go vet ./...".to_owned()]));
    }
}
