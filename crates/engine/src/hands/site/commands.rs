//! How a project is built, tested and linted, by what lies in its folder. The project's own word counts most:
//! a target or script called `test`. A lint is named only where the project says that it uses it. Nothing is
//! run to find out.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::context::read_source;

/// The commands of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Commands {
    /// What tests it.
    pub(super) tests: Vec<String>,
    /// What checks format and lints.
    pub(super) lints: Vec<String>,
    /// What builds it.
    pub(super) build: Option<String>,
}

impl Commands {
    /// What the settings say.
    pub(super) fn set(config: &Config) -> Commands {
        let build = config.text("worktree.build").trim();
        Commands {
            tests: config.texts("worktree.tests"),
            lints: config.texts("worktree.lints"),
            build: (!build.is_empty()).then(|| build.to_owned()),
        }
    }

    /// The same with what a folder shows where the settings say nothing.
    pub(super) fn or_found(&self, folder: &Path) -> Commands {
        let found = found(folder);
        let first = |set: &Vec<String>, found: Vec<String>| if set.is_empty() { found } else { set.clone() };
        Commands {
            tests: first(&self.tests, found.tests),
            lints: first(&self.lints, found.lints),
            build: self.build.clone().or(found.build),
        }
    }
}

/// Files in which a project names its own commands, and what runs them; of several the first.
const RUNNERS: [(&[&str], &str); 2] =
    [(&["justfile", "Justfile", ".justfile"], "just"), (&["GNUmakefile", "makefile", "Makefile"], "make")];

fn found(folder: &Path) -> Commands {
    for (files, program) in RUNNERS {
        let file = files.iter().find(|file| is_there(folder, file));
        let text = file.map(|file| text_of(folder, file)).unwrap_or_default();
        if has_target(&text, "test") {
            let own = |target: &str| has_target(&text, target).then(|| format!("{program} {target}"));
            return Commands {
                tests: own("test").into_iter().collect(),
                lints: own("lint").into_iter().collect(),
                build: own("build"),
            };
        }
    }
    let mut all = Commands::default();
    for one in [cargo(folder), node(folder), python(folder), go(folder)] {
        all.tests.extend(one.tests);
        all.lints.extend(one.lints);
        all.build = all.build.or(one.build);
    }
    all
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
    }
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
    }
}

fn python(folder: &Path) -> Commands {
    let project = text_of(folder, "pyproject.toml");
    let is_test = |name: &str| name.starts_with("test_") && name.ends_with(".py");
    let has_tests = |folder: &Path| {
        let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
        all.into_iter().any(|entry| is_test(&entry.file_name().to_string_lossy()))
    };
    let says = |file: &str, word: &str| text_of(folder, file).contains(word);
    let uses_pytest = is_there(folder, "pytest.ini")
        || says("setup.cfg", "[tool:pytest]")
        || says("tox.ini", "[pytest]")
        || is_there(folder, "conftest.py")
        || is_there(folder, "tests/conftest.py")
        || project.contains("[tool.pytest");
    let tests = match () {
        () if uses_pytest => Some("python3 -m pytest"),
        () if has_tests(folder) => Some("python3 -m unittest"),
        () if has_tests(&folder.join("tests")) => Some("python3 -m unittest discover tests"),
        () => None,
    };
    let uses_ruff = is_there(folder, "ruff.toml") || project.contains("[tool.ruff");
    Commands {
        tests: tests.map(str::to_owned).into_iter().collect(),
        lints: uses_ruff.then(|| String::from("ruff check")).into_iter().collect(),
        build: None,
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
    }
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
            assert_eq!(found.build.unwrap_or_default(), cells[3], "{line}");
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
