//! How runners of tests are had list what they would run, one row a runner, and what their answers say.
//!
//! A runner is known by the words of its command. What it is asked runs no test, compiles nothing and leaves no file
//! behind; where a runner cannot be asked in such a way, it is not asked. Nothing is run here.

use std::path::Path;

use super::programs::{is_assignment, is_plain, parts};
use crate::context::read_source;

/// How a runner is asked.
#[derive(Clone, Copy)]
enum Ask {
    /// With words behind its own.
    Append(&'static str),
    /// With other words in the place of those that name it.
    Instead(&'static str),
    /// By another command, made of all its words; nothing where that would tell nothing.
    Other(fn(&[&str], &Path) -> Option<String>),
}

/// How a runner says that it found no test.
#[derive(Clone, Copy)]
enum Nothing {
    /// With an exit code of its own.
    Exit(i32),
    /// With these words in its output.
    Words(&'static str),
    /// By printing nothing and succeeding.
    Silence,
    /// It says nothing of it: it succeeds, and prints as usual.
    Never,
}

/// A test runner, and how it is asked for its tests.
struct Runner {
    /// The words that name it, one after the other.
    words: &'static [&'static str],
    ask: Ask,
    nothing: &'static [Nothing],
}

const fn row(words: &'static [&'static str], ask: Ask, nothing: &'static [Nothing]) -> Runner {
    Runner { words, ask, nothing }
}

/// Every runner that is known, the longer names first.
const RUNNERS: [Runner; 17] = [
    row(&["pytest"], Ask::Append("--collect-only -q -p no:cacheprovider"), &[Nothing::Exit(5)]),
    row(&["py.test"], Ask::Append("--collect-only -q -p no:cacheprovider"), &[Nothing::Exit(5)]),
    row(&["-m", "unittest"], Ask::Other(unittest), &[Nothing::Exit(5)]),
    row(&["cargo", "nextest", "run"], Ask::Other(nextest), &[Nothing::Never]),
    row(&["cargo", "test"], Ask::Other(cargo), &[Nothing::Never]),
    row(&["go", "test"], Ask::Other(go), &[Nothing::Words("matched no packages")]),
    row(&["node", "--test"], Ask::Other(node), &[Nothing::Never]),
    row(&["jest"], Ask::Append("--listTests"), &[Nothing::Words("No tests found"), Nothing::Silence]),
    row(
        &["vitest", "run"],
        Ask::Instead("vitest list"),
        &[Nothing::Words("No test files found"), Nothing::Silence],
    ),
    row(
        &["mocha"],
        Ask::Append("--dry-run"),
        &[Nothing::Words("No test files found"), Nothing::Words("\n0 passing")],
    ),
    row(&["playwright", "test"], Ask::Append("--list"), &[Nothing::Words("No tests found")]),
    row(&["bats"], Ask::Instead("bats --count"), &[Nothing::Words("\n0\n")]),
    row(&["rspec"], Ask::Append("--dry-run"), &[Nothing::Words("\n0 examples, 0 failures\n")]),
    row(&["phpunit"], Ask::Append("--list-tests"), &[Nothing::Words("No tests")]),
    row(&["ctest"], Ask::Instead("ctest -N"), &[Nothing::Words("Total Tests: 0")]),
    row(&["prove"], Ask::Instead("prove --dry"), &[Nothing::Silence]),
    row(&["deno", "test"], Ask::Instead("deno test --no-run"), &[Nothing::Words("No test modules found")]),
];

/// Words that only start what follows them.
const STARTERS: [&str; 13] =
    ["bunx", "bundle", "env", "exec", "nice", "npx", "pdm", "php", "pnpm", "poetry", "run", "uv", "yarn"];

/// Lists the tests of unittest and runs none. What cannot be imported is printed, and ends with 2; no test at all with 5.
const UNITTEST: &str = r#"
import sys, unittest
def each(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from each(one)
        else:
            yield one
class Lists:
    def run(self, suite):
        found = list(each(suite))
        broken = [one for one in found if type(one).__name__ == "_FailedTest"]
        for one in broken:
            print(getattr(one, "_exception", one))
        sys.exit(2 if broken else 0 if found else 5)
unittest.main(module=None, argv=["unittest"] + sys.argv[1:], testRunner=Lists())
"#;

/// What a runner is asked, and how it says that there is nothing.
pub(super) struct Question {
    /// The command that asks it.
    pub(super) command: String,
    nothing: &'static [Nothing],
}

impl Question {
    /// What to ask the runner of a command in a folder; nothing where it is not known how.
    pub(super) fn of(command: &str, folder: &Path) -> Option<Question> {
        let words = plain_words(command)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (at, runner) = RUNNERS.iter().find_map(|runner| Some((place(&words, runner.words)?, runner)))?;
        let command = match runner.ask {
            Ask::Append(more) => format!("{} {more}", words.join(" ")),
            Ask::Instead(other) => {
                // A program that is named by its path stays the one that it is.
                let (program, rest) = (words[at], other.split_once(' ').map_or("", |(_, rest)| rest));
                let behind = words[at + runner.words.len()..].iter().filter(|word| **word != "--run");
                let all = words[..at].iter().copied().chain([program, rest]).chain(behind.copied());
                all.collect::<Vec<_>>().join(" ")
            }
            Ask::Other(make) => make(&words, folder)?,
        };
        Some(Question { command, nothing: runner.nothing })
    }

    /// Whether the answer says that no test was found.
    pub(super) fn found_nothing(&self, code: i32, said: &str) -> bool {
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let framed = format!("\n{}\n", lines.join("\n"));
        self.nothing.iter().any(|nothing| match nothing {
            Nothing::Exit(wanted) => code == *wanted,
            Nothing::Words(words) => framed.contains(words),
            Nothing::Silence => code == 0 && said.trim().is_empty(),
            Nothing::Never => false,
        })
    }
}

/// The words of a command that is one plain call of a program, with nothing for the shell to do.
fn plain_words(command: &str) -> Option<Vec<String>> {
    let (parts, has_whole) = parts(command);
    let [words] = parts.as_slice() else { return None };
    let is_plain = has_whole && !words.iter().any(|word| word.contains(['>', '<', '|', '&', ';', '$', '`']));
    is_plain.then(|| words.clone())
}

/// Where the words of a runner stand, with nothing before them but what starts it.
fn place(words: &[&str], named: &[&str]) -> Option<usize> {
    let last = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let fits = |at: usize| {
        let first = named.first().is_some_and(|first| last(words[at]) == *first);
        first && words[at + 1..].iter().zip(&named[1..]).all(|(word, named)| word == named)
    };
    let at = (0..=words.len().checked_sub(named.len())?).find(|at| fits(*at))?;
    let starts = |word: &&str| {
        let is_python = last(word).starts_with("python") || *word == "-m";
        is_assignment(word) || word.starts_with('-') || STARTERS.contains(word) || is_python
    };
    words[..at].iter().all(starts).then_some(at)
}

/// Everything before the words of the runner, without `-m`.
fn unittest(words: &[&str], _: &Path) -> Option<String> {
    let at = place(words, &["-m", "unittest"])?;
    let before = words[..at].join(" ");
    Some(format!("{before} -c '{UNITTEST}' {}", words[at + 2..].join(" ")).trim_end().to_owned())
}

/// Cargo is asked whether it has what the tests need; compiling them would cost more than it tells. Without a lock file
/// it would write one.
fn cargo(words: &[&str], folder: &Path) -> Option<String> {
    let elsewhere =
        words.iter().any(|word| word.starts_with("--manifest-path") || word.starts_with("--config"));
    if elsewhere || !folder.join("Cargo.lock").is_file() {
        return None;
    }
    let offline = if words.contains(&"--offline") { " --offline" } else { "" };
    Some(format!("cargo metadata --locked --format-version 1{offline} >/dev/null"))
}

fn nextest(words: &[&str], folder: &Path) -> Option<String> {
    let known = "cargo nextest --version >/dev/null";
    Some(cargo(words, folder).map_or(known.to_owned(), |more| format!("{known} && {more}")))
}

/// Go is asked for the packages that the tests import, which it may have to fetch; nothing is compiled.
fn go(words: &[&str], _: &Path) -> Option<String> {
    let is_package = |word: &&&str| word.starts_with("./") || **word == "." || word.contains("/...");
    let packages: Vec<&str> = words.iter().filter(is_package).copied().collect();
    let packages = if packages.is_empty() { ".".to_owned() } else { packages.join(" ") };
    Some(format!("go list -test -deps {packages} >/dev/null"))
}

/// Node lists nothing without running hooks; the files that are named can be parsed.
fn node(words: &[&str], _: &Path) -> Option<String> {
    let is_file = |word: &&&str| {
        is_plain(word)
            && !word.starts_with('-')
            && [".js", ".mjs", ".cjs"].iter().any(|end| word.ends_with(end))
    };
    let files: Vec<String> =
        words.iter().filter(is_file).map(|file| format!("node --check {file}")).collect();
    (!files.is_empty()).then(|| files.join(" && "))
}

/// The script of a package that a command such as `npm run test` starts, with the folders in which its programs lie.
pub(super) struct Script {
    /// The command, as `package.json` has it.
    pub(super) command: String,
    /// The folders of programs that are looked in first.
    pub(super) folders: Vec<std::path::PathBuf>,
}

/// The script that a command starts, where `package.json` has it.
pub(super) fn script(command: &str, folder: &Path) -> Option<Script> {
    let words = plain_words(command)?;
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !is_assignment(word)).collect();
    let name = match words.as_slice() {
        ["npm" | "pnpm" | "yarn", "run" | "run-script", name] => *name,
        ["npm" | "pnpm" | "yarn", "test"] | ["npm", "t"] => "test",
        _ => return None,
    };
    let package: serde_json::Value = serde_json::from_slice(&read_source(folder, "package.json")?).ok()?;
    let command = package["scripts"][name].as_str()?.to_owned();
    let folders = folder.ancestors().map(|above| above.join("node_modules/.bin")).collect();
    Some(Script { command, folders })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the command, and what its runner is asked.
    const CASES: &str = r"
        pytest -q                               | pytest -q --collect-only -q -p no:cacheprovider
        python3 -m pytest                       | python3 -m pytest --collect-only -q -p no:cacheprovider
        uv run --frozen pytest tests            | uv run --frozen pytest tests --collect-only -q -p no:cacheprovider
        .venv/bin/pytest                        | .venv/bin/pytest --collect-only -q -p no:cacheprovider
        X=1 py.test                             | X=1 py.test --collect-only -q -p no:cacheprovider
        cargo test -p shop                      | cargo metadata --locked --format-version 1 >/dev/null
        cargo test --offline                    | cargo metadata --locked --format-version 1 --offline >/dev/null
        cargo test --manifest-path x/Cargo.toml |
        cargo nextest run                       | cargo nextest --version >/dev/null && cargo metadata --locked --format-version 1 >/dev/null
        go test ./...                           | go list -test -deps ./... >/dev/null
        go test -run X -count 1 ./shop ./cart/... | go list -test -deps ./shop ./cart/... >/dev/null
        go test                                 | go list -test -deps . >/dev/null
        node --test tests/a.test.js b.mjs       | node --check tests/a.test.js && node --check b.mjs
        node --test                             |
        jest --coverage                         | jest --coverage --listTests
        npx jest                                | npx jest --listTests
        ./node_modules/.bin/jest                | ./node_modules/.bin/jest --listTests
        npx vitest run src                      | npx vitest list src
        mocha tests                             | mocha tests --dry-run
        npx playwright test                     | npx playwright test --list
        bats tests                              | bats --count tests
        bundle exec rspec                       | bundle exec rspec --dry-run
        vendor/bin/phpunit                      | vendor/bin/phpunit --list-tests
        ctest                                   | ctest -N
        prove -l t                              | prove --dry -l t
        deno test -A                            | deno test --no-run -A
        pytest > out.txt                        |
        make && pytest                          |
        pytest || true                          |
        echo pytest                             |
        docker run app pytest                   |
        pytest $FILES                           |
        sh check.sh                             |
                                                |";

    #[test]
    fn a_runner_is_asked_to_list_only_where_it_is_known_how() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Cargo.lock"), "").unwrap();
        for line in CASES.lines().filter(|line| line.contains('|')) {
            let (command, wanted) = line.rsplit_once(" |").unwrap();
            let asked = Question::of(command.trim().trim_end_matches(" |"), folder.path());
            let asked = asked.map(|question| question.command).unwrap_or_default();
            assert_eq!(asked, wanted.trim(), "{line}");
        }
    }

    #[test]
    fn cargo_is_not_asked_where_it_would_write_a_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Question::of("cargo test", folder.path()).is_none());
    }

    #[test]
    fn a_script_of_a_package_is_what_it_starts() {
        let folder = tempfile::tempdir().unwrap();
        let package = r#"{"scripts": {"test": "jest", "unit": "vitest run"}}"#;
        std::fs::write(folder.path().join("package.json"), package).unwrap();
        for (command, wanted) in [
            ("npm test", "jest"),
            ("npm run unit", "vitest run"),
            ("CI=1 yarn run test", "jest"),
            ("pnpm test", "jest"),
            ("npm run gone", ""),
            ("npm run test -- x", ""),
            ("node test", ""),
        ] {
            let found = script(command, folder.path());
            assert_eq!(found.map(|script| script.command).unwrap_or_default(), wanted, "{command}");
        }
    }
}
