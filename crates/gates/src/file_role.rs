//! What work is measured with: test files, recorded expectations, the settings of runners, continuous
//! integration.
//!
//! A file's part is told by its path alone, by the conventions of its language, and by the brief; nothing
//! here reads a file. A path that no convention knows is product.

use std::path::Path;

use ftl_code::context::Language;
use ftl_code::finding::Brief;

/// The part that a file plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileRole {
    /// A file with tests.
    Test,
    /// A recorded expectation: a snapshot, a golden file.
    Snapshot,
    /// Data that tests read: `fixtures/`, `testdata/`.
    Fixture,
    /// What a test runner loads before the tests: `conftest.py`, `sitecustomize.py`.
    Hook,
    /// Settings of a test runner, alone or among others.
    Settings,
    /// Targets that a command may run: `Makefile`, `justfile`.
    Targets,
    /// Settings of continuous integration.
    Ci,
    /// The script that the verify command runs.
    VerifyScript,
    /// A file of the product.
    Product,
}

/// The part that a file plays for a brief.
pub fn part(path: &str, brief: &Brief) -> FileRole {
    let name = path.rsplit('/').next().unwrap_or(path);
    let by_name = by_name(path, name);
    if by_name != FileRole::Product {
        return by_name;
    }
    if brief.verify_source.as_deref() == Some(path) {
        return FileRole::Test;
    }
    if is_test(path, name) {
        return FileRole::Test;
    }
    if is_run_by(&brief.verify, path) {
        return FileRole::VerifyScript;
    }
    let below_tests =
        path.split('/').rev().skip(1).any(|folder| TEST_FOLDERS.contains(&folder) || folder == "testdata");
    if below_tests { FileRole::Fixture } else { FileRole::Product }
}

const TEST_FOLDERS: [&str; 9] =
    ["tests", "test", "__tests__", "spec", "specs", "e2e", "cypress", "fixtures", "testing"];

fn by_name(path: &str, name: &str) -> FileRole {
    let lower = name.to_ascii_lowercase();
    let folders: Vec<&str> = path.split('/').rev().skip(1).collect();
    let is_snapshot =
        folders.iter().any(|folder| matches!(*folder, "__snapshots__" | "snapshots" | "golden" | "goldens"))
            || [".snap", ".ambr", ".golden", ".approved"].iter().any(|ending| lower.ends_with(ending))
            || lower.contains(".approved.");
    let starts = |words: &[&str]| words.iter().any(|word| lower.starts_with(word));
    match lower.as_str() {
        _ if is_ci(path) => FileRole::Ci,
        _ if is_snapshot => FileRole::Snapshot,
        "conftest.py" | "sitecustomize.py" | "usercustomize.py" => FileRole::Hook,
        _ if lower.ends_with(".pth") => FileRole::Hook,
        _ if starts(&["jest.setup.", "vitest.setup.", "setuptests.", "setup-tests.", "test-setup."]) => {
            FileRole::Hook
        }
        "makefile" | "gnumakefile" | "justfile" | ".justfile" | "taskfile.yml" | "taskfile.yaml" => {
            FileRole::Targets
        }
        "pytest.ini" | ".pytest.ini" | "tox.ini" | "setup.cfg" | "pyproject.toml" | "noxfile.py"
        | ".coveragerc" | "package.json" | "cargo.toml" | "nextest.toml" | ".rspec" | "phpunit.xml"
        | "phpunit.xml.dist" | "karma.conf.js" => FileRole::Settings,
        _ if starts(&[
            "jest.config.",
            "vitest.config.",
            "vitest.workspace.",
            ".mocharc",
            "playwright.config.",
            "cypress.config.",
        ]) =>
        {
            FileRole::Settings
        }
        "config.toml" if folders.first() == Some(&".cargo") => FileRole::Settings,
        _ => FileRole::Product,
    }
}

fn is_ci(path: &str) -> bool {
    const FOLDERS: [&str; 5] =
        [".github/workflows/", ".github/actions/", ".ci/", ".circleci/", ".buildkite/"];
    const FILES: [&str; 12] = [
        ".pre-commit-config.yaml",
        ".pre-commit-config.yml",
        ".gitlab-ci.yml",
        "azure-pipelines.yml",
        "Jenkinsfile",
        ".travis.yml",
        "bitbucket-pipelines.yml",
        ".drone.yml",
        "appveyor.yml",
        ".appveyor.yml",
        "codecov.yml",
        ".woodpecker.yml",
    ];
    FOLDERS.iter().any(|folder| path.starts_with(folder)) || FILES.contains(&path)
}

/// Whether the conventions of a file's language call it a test.
fn is_test(path: &str, name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(ending).map_or(name, |stem| stem.trim_end_matches('.'));
    let below = |folders: &[&str]| path.split('/').rev().skip(1).any(|folder| folders.contains(&folder));
    match ending {
        "py" | "pyi" => {
            stem.starts_with("test_")
                || stem.ends_with("_test")
                || stem == "tests"
                || below(&["tests", "test"])
        }
        "rs" => {
            stem.ends_with("_test")
                || stem.ends_with("_tests")
                || stem == "tests"
                || stem == "test"
                || below(&["tests"])
        }
        "go" => stem.ends_with("_test"),
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue" | "svelte" => {
            let marked = stem.ends_with(".test")
                || stem.ends_with(".spec")
                || stem.ends_with("-test")
                || stem == "test";
            marked
                || stem.ends_with(".cy")
                || below(&["__tests__", "tests", "test", "e2e", "cypress", "spec"])
        }
        "java" | "kt" | "scala" | "groovy" | "cs" | "swift" | "php" | "fs" => {
            let marked = ["Test", "Tests", "IT", "Spec"].iter().any(|word| stem.ends_with(word));
            marked
                || stem.strip_prefix("Test").is_some_and(|rest| rest.starts_with(char::is_uppercase))
                || below(&["test", "tests", "Tests"])
        }
        "rb" => stem.ends_with("_spec") || stem.ends_with("_test") || below(&["spec", "test"]),
        "exs" => stem.ends_with("_test"),
        "bats" => true,
        "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" | "sh" => {
            stem.starts_with("test_") || stem.ends_with("_test") || below(&["tests", "test"])
        }
        _ => false,
    }
}

/// Whether a command runs this file: it is the program, or the file that an interpreter is given. What a linter or a
/// runner is asked to look at is not run. Below `cd` a word is looked for at the end of paths.
fn is_run_by(command: &str, path: &str) -> bool {
    let moves = command.contains("cd ") || command.contains("-C ");
    let is_it = |word: &str| {
        let word = word.strip_prefix("./").unwrap_or(word);
        !word.is_empty() && (word == path || (moves && word.len() > 2 && path.ends_with(&format!("/{word}"))))
    };
    command.split([';', '&', '|', '(', ')', '\n']).any(|part| {
        let words: Vec<&str> = part.split([' ', '\t', '"', '\'']).filter(|word| !word.is_empty()).collect();
        let is_before =
            |word: &&&str| word.contains('=') || matches!(**word, "env" | "time" | "exec" | "sudo" | "nice");
        let at = words.iter().take_while(is_before).count();
        let Some(program) = words.get(at) else { return false };
        let file = || {
            let rest = words[at + 1..].iter();
            // What an interpreter is told to check, to run as a module or as words of the line is no file that it runs.
            let given: Vec<&str> = rest.copied().take_while(|word| word.starts_with('-')).collect();
            let only_looks =
                given.iter().any(|word| matches!(*word, "-n" | "-m" | "-c" | "--check" | "-e" | "--test"));
            words.get(at + 1 + given.len()).filter(|_| !only_looks).copied()
        };
        is_it(program) || (is_interpreter(program) && file().is_some_and(is_it))
    })
}

fn is_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let plain = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    const NAMES: [&str; 15] = [
        "sh", "bash", "dash", "zsh", "ksh", "python", "node", "ruby", "perl", "php", "deno", "bun", "tsx",
        "source", "Rscript",
    ];
    NAMES.contains(&plain)
}

/// Whether a file is code of a language that we parse, or looks like code.
pub(super) fn is_code(path: &str) -> bool {
    const OTHERS: [&str; 18] = [
        "java", "kt", "scala", "cs", "fs", "swift", "php", "rb", "ex", "exs", "c", "cc", "cpp", "cxx", "h",
        "hpp", "sh", "vue",
    ];
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    Language::of(path).is_some() || OTHERS.contains(&ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the verify command, the path, its part.
    const PARTS: &str = "
        pytest                | tests/test_a.py                | Test
        pytest                | pkg/a_test.py                  | Test
        pytest                | src/contest.py                 | Product
        pytest                | src/latest.py                  | Product
        pytest                | src/app/testing_tools.py       | Product
        pytest                | tests/helpers.py               | Test
        pytest                | tests/data/in.json             | Fixture
        pytest                | tests/conftest.py              | Hook
        pytest                | sitecustomize.py               | Hook
        pytest                | pyproject.toml                 | Settings
        pytest                | tox.ini                        | Settings
        cargo test            | tests/cli.rs                   | Test
        cargo test            | src/lib.rs                     | Product
        cargo test            | src/plan/tests.rs              | Test
        cargo test            | crates/a/Cargo.toml            | Settings
        cargo test            | tests/snapshots/cli__a.snap    | Snapshot
        npm test              | src/a.test.ts                  | Test
        npm test              | src/__tests__/a.js             | Test
        npm test              | src/__snapshots__/a.test.js.snap | Snapshot
        npm test              | jest.config.js                 | Settings
        npm test              | src/testimony.ts               | Product
        go test ./...         | calc_test.go                   | Test
        go test ./...         | testdata/in.golden             | Snapshot
        go test ./...         | testdata/in.txt                | Fixture
        mvn test              | src/test/java/ATest.java       | Test
        mvn test              | src/main/java/Tester.java      | Product
        rspec                 | spec/a_spec.rb                 | Test
        bats .                | run.bats                       | Test
        make test             | Makefile                       | Targets
        just test             | justfile                       | Targets
        make test             | .github/workflows/ci.yml       | Ci
        make test             | .gitlab-ci.yml                 | Ci
        make test             | .ci/run.sh                     | Ci
        ./check.sh --fast     | check.sh                       | VerifyScript
        bash scripts/t.sh     | scripts/t.sh                   | VerifyScript
        cd web && sh t.sh     | web/t.sh                       | VerifyScript
        sh t.sh               | web/t.sh                       | Product
        ruff check src/a.py   | src/a.py                       | Product
        python3 -m py_compile src/a.py && pytest | src/a.py    | Product
        sh -n check.sh        | check.sh                       | Product
        X=1 python3 run.py -v | run.py                         | VerifyScript
        pytest                | jest.setup.js                  | Hook
        pytest                | .pre-commit-config.yaml        | Ci
        python -m x           | README.md                      | Product";

    #[test]
    fn a_path_says_what_part_a_file_plays() {
        for line in PARTS.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let brief = Brief { verify: cells[0].to_owned(), ..Brief::default() };
            assert_eq!(format!("{:?}", part(cells[1], &brief)), cells[2], "{line}");
        }
    }

    #[test]
    fn the_file_behind_the_verify_command_is_a_test() {
        let brief = Brief { verify_source: Some("checks/all.py".to_owned()), ..Brief::default() };
        assert_eq!(part("checks/all.py", &brief), FileRole::Test);
        assert_eq!(part("checks/other.py", &brief), FileRole::Product);
    }
}
