//! The words by which code names test runners, files of tests and what an environment says about both.
//!
//! They are looked for in literals and names, never in comments.

/// Modules and packages that are there to test with.
pub(super) const PYTHON_FRAMEWORKS: [&str; 10] =
    ["pytest", "_pytest", "unittest", "nose", "nose2", "mock", "hypothesis", "testtools", "ward", "robot"];

const SCRIPT_FRAMEWORKS: [&str; 22] = [
    "jest",
    "vitest",
    "mocha",
    "chai",
    "sinon",
    "ava",
    "tap",
    "tape",
    "jasmine",
    "karma",
    "nock",
    "proxyquire",
    "rewire",
    "supertest",
    "node:test",
    "bun:test",
    "uvu",
    "qunit",
    "cypress",
    "expect",
    "expect.js",
    "should",
];

const GO_FRAMEWORKS: [&str; 7] = [
    "testing",
    "github.com/stretchr/testify",
    "github.com/onsi/ginkgo",
    "github.com/onsi/gomega",
    "github.com/golang/mock",
    "go.uber.org/mock",
    "gopkg.in/check.v1",
];

/// Whether a package of JavaScript is there to test with.
pub(super) fn is_script_framework(name: &str) -> bool {
    SCRIPT_FRAMEWORKS.contains(&name)
        || ["@jest/", "@vitest/", "@playwright/test", "@testing-library/", "node:test/", "vitest/", "mocha/"]
            .iter()
            .any(|start| name.starts_with(start))
            && !name.ends_with("/config")
}

/// Whether a package of Go is there to test with.
pub(super) fn is_go_framework(name: &str) -> bool {
    GO_FRAMEWORKS.iter().any(|one| name == *one || name.starts_with(&format!("{one}/")))
        && name != "testing/fstest"
}

/// Words that name a runner wherever they stand.
const RUNNERS: [&str; 17] = [
    "pytest",
    "py.test",
    "unittest",
    "conftest",
    "nosetests",
    "vitest",
    "jest",
    "mocha",
    "jasmine",
    "nextest",
    "node:test",
    "node_test",
    "rspec",
    "phpunit",
    "junit",
    "doctest",
    "shunit",
];

/// Whether a text names a runner, or a file or function of tests.
pub(super) fn names_tests(text: &str) -> bool {
    let lower = text.to_ascii_lowercase().replace('\\', "");
    if RUNNERS.iter().any(|word| lower.contains(word)) || has_word(&lower, "bats") {
        return true;
    }
    ["test", "tests", "spec", "specs", "testcase"].iter().any(|word| is_part_of_name(&lower, word))
}

/// Whether a text names tests, or is nothing but the word.
pub(super) fn says_tests(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    names_tests(text) || ["test", "tests", "testing", "spec"].contains(&lower.trim_matches([' ', '.', '-']))
}

/// A word with something of a name on one side: `_test`, `test_`, `/tests/`, `.spec`.
fn is_part_of_name(text: &str, word: &str) -> bool {
    let joins = |letter: char| matches!(letter, '_' | '.' | '/' | '-' | '$' | '*' | ':' | '^');
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        !is_letter(before) && !is_letter(after) && (before.is_some_and(joins) || after.is_some_and(joins))
    })
}

/// A word that is no part of a longer one.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_name = |letter: Option<char>| letter.is_some_and(|one| one.is_alphanumeric() || one == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_name(text[..at].chars().next_back()) && !is_name(text[at + word.len()..].chars().next())
    })
}

/// What the name of a variable of the environment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// A runner sets it, or it says that tests run.
    Tests,
    /// Our own engine sets it.
    Engine,
    /// It says that a service of continuous integration runs this.
    Ci,
    /// Something else.
    Other,
}

/// What a variable of the environment is about.
pub(super) fn variable(name: &str) -> Variable {
    const STARTS: [&str; 9] =
        ["PYTEST_", "JEST_", "VITEST", "MOCHA_", "BATS_", "NEXTEST", "NODE_TEST_", "RUST_TEST_", "SHUNIT_"];
    const WHOLE: [&str; 12] = [
        "TEST",
        "TESTS",
        "TESTING",
        "IN_TEST",
        "IS_TEST",
        "UNDER_TEST",
        "RUNNING_TESTS",
        "TEST_MODE",
        "TEST_ENV",
        "TEST_RUN",
        "UNITTEST",
        "GO_TEST",
    ];
    const ENDS: [&str; 5] = ["_TESTING", "_TEST_MODE", "_UNDER_TEST", "_IN_TESTS", "_IN_TEST"];
    match name {
        _ if STARTS.iter().any(|start| name.starts_with(start)) || WHOLE.contains(&name) => Variable::Tests,
        _ if ENDS.iter().any(|end| name.ends_with(end)) => Variable::Tests,
        _ if name.starts_with("FTL_") => Variable::Engine,
        "CI" | "GITHUB_ACTIONS" | "GITLAB_CI" | "CIRCLECI" | "TRAVIS" | "BUILDKITE" | "TF_BUILD" => {
            Variable::Ci
        }
        _ => Variable::Other,
    }
}

/// Whether a literal is the path of a test, of its data, or of what a runner loads.
pub(super) fn is_test_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase().replace('\\', "");
    if lower.len() > 200 || lower.contains(char::is_whitespace) && !lower.contains('/') {
        return false;
    }
    let parts: Vec<&str> = lower.split('/').collect();
    let folders = ["tests", "test", "__tests__", "__snapshots__", "testdata", "spec"];
    let below = parts.len() > 1 && parts.iter().any(|part| folders.contains(part));
    let name = parts.last().copied().unwrap_or_default();
    let endings =
        [".py", ".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".go", ".rs", ".sh", ".bats", ".snap"];
    let is_file = endings.iter().any(|end| name.ends_with(end));
    let marked = [".test.", ".spec.", "_test.", "-test."].iter().any(|word| name.contains(word))
        || name.starts_with("test_")
        || name.ends_with(".bats");
    below || (is_file && marked) || ["conftest.py", "sitecustomize.py", "usercustomize.py"].contains(&name)
}

/// Whether a file is there for tests of this or other programs, by its path: `testutil/`, `app/testing.py`.
pub(super) fn is_for_tests(path: &str) -> bool {
    path.split(['/', '.', '_', '-']).any(|part| {
        let lower = part.to_ascii_lowercase();
        lower.contains("test") && lower != "latest" && lower != "contest" && lower != "attest"
            || lower == "conftest"
    })
}

/// Whether a file is a tool of the project: what builds, packs or checks it.
pub(super) fn is_tool(path: &str) -> bool {
    const FOLDERS: [&str; 9] = ["scripts", "script", "tools", "tool", "dev", "bin", "xtask", "hack", "build"];
    const NAMES: [&str; 11] = [
        "setup.py",
        "noxfile.py",
        "tasks.py",
        "manage.py",
        "build.rs",
        "fabfile.py",
        "gulpfile.js",
        "gruntfile.js",
        "dodo.py",
        "magefile.go",
        "rakefile",
    ];
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    let folders = lower.split('/').rev().skip(1);
    NAMES.contains(&name)
        || name.contains(".config.")
        || folders.into_iter().any(|part| FOLDERS.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: a text, whether it names tests.
    const NAMES: &str = r"
        test_            | yes
        /tests/          | yes
        .test.js         | yes
        \.test\.js       | yes
        _test.go         | yes
        test.v           | yes
        pytest           | yes
        unittest.case    | yes
        tests/*          | yes
        test             | no
        latest           | no
        contest_winner   | no
        protest          | no
        testing purposes | no
        spectrum         | no";

    #[test]
    fn a_text_names_tests() {
        for line in NAMES.lines().filter(|line| !line.trim().is_empty()) {
            let (text, wanted) = line.split_once('|').unwrap();
            assert_eq!(names_tests(text.trim()), wanted.trim() == "yes", "{line}");
        }
    }

    /// One line a case: a path, whether it is one of tests.
    const PATHS: &str = "
        tests/run.sh        | yes
        /shop.test.js       | yes
        test_shop.py        | yes
        ../testdata/in.json | yes
        conftest.py         | yes
        test                | no
        data/in.json        | no
        latest.py           | no
        contest/a.py        | no
        a test/of words     | no";

    #[test]
    fn a_path_is_one_of_tests() {
        for line in PATHS.lines().filter(|line| !line.trim().is_empty()) {
            let (text, wanted) = line.split_once('|').unwrap();
            assert_eq!(is_test_path(text.trim()), wanted.trim() == "yes", "{line}");
        }
    }

    #[test]
    fn a_variable_says_what_it_is_about() {
        for name in
            ["PYTEST_CURRENT_TEST", "JEST_WORKER_ID", "TESTING", "APP_UNDER_TEST", "NODE_TEST_CONTEXT"]
        {
            assert_eq!(variable(name), Variable::Tests, "{name}");
        }
        for name in ["TEST_DATABASE_URL", "LATEST", "HOME", "NODE_ENV"] {
            assert_eq!(variable(name), Variable::Other, "{name}");
        }
        assert_eq!((variable("FTL_RUN"), variable("CI")), (Variable::Engine, Variable::Ci));
    }

    #[test]
    fn a_path_says_what_a_file_is_there_for() {
        for path in ["shoptest/shoptest.go", "app/testing.py", "src/test_utils.py", "testutil/a.go"] {
            assert!(is_for_tests(path), "{path}");
        }
        for path in ["src/shop.py", "src/latest.py", "src/contest/a.py"] {
            assert!(!is_for_tests(path), "{path}");
        }
        assert!(is_tool("scripts/run.py") && is_tool("vite.config.ts") && !is_tool("src/a.py"));
    }
}
