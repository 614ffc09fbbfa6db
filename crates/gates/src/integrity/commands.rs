//! Lines that run tests: which of them run fewer, or let a failure pass.
//!
//! A line is judged by its words. A harmless line with such a word in it is told too; that is why a finding
//! can be allowed.

use std::collections::BTreeMap;

const RUNNERS: [&str; 21] = [
    "pytest",
    "unittest",
    "cargo test",
    "nextest",
    "go test",
    "jest",
    "vitest",
    "mocha",
    "node --test",
    "phpunit",
    "rspec",
    "ctest",
    "npm test",
    "npm run",
    "yarn ",
    "pnpm ",
    "tox",
    "make ",
    "dotnet test",
    "mvn ",
    "gradle",
];

/// Words of command lines by which a runner runs fewer tests.
const FEWER: [&str; 31] = [
    "-k",
    "--deselect",
    "--ignore",
    "--ignore-glob",
    "--lf",
    "--last-failed",
    "-run",
    "-skip",
    "-short",
    "--skip",
    "--exclude",
    "--testNamePattern",
    "--testPathIgnorePatterns",
    "--passWithNoTests",
    "--grep",
    "--invert",
    "--test-skip-pattern",
    "--test-name-pattern",
    "--exclude-group",
    "--exclude-testsuite",
    "-DskipTests",
    "-Dmaven.test.skip",
    "--no-run",
    "--collect-only",
    "--co",
    "-t",
    "--shard",
    "--onlyChanged",
    "--changed",
    "--reruns",
    "--retries",
];

/// Why a line that runs tests runs fewer of them, or lets a failure pass.
pub(super) fn narrows(line: &str) -> Option<String> {
    let line = line.trim();
    if matches!(line, "continue-on-error: true" | "allow_failure: true" | "if: false" | "if: ${{ false }}") {
        return Some(format!("`{line}` lets a failure pass"));
    }
    if line.starts_with('#') || line.starts_with("//") || !RUNNERS.iter().any(|word| line.contains(word)) {
        return None;
    }
    let squeezed: Vec<&str> =
        line.split([' ', '\t', '"', '\'', ',']).filter(|word| !word.is_empty()).collect();
    let word =
        squeezed.iter().map(|word| word.split('=').next().unwrap_or(word)).find(|word| FEWER.contains(word));
    if let Some(word) = word {
        return Some(format!("`{word}` runs fewer tests"));
    }
    let not = squeezed.windows(2).any(|pair| pair[0] == "-m" && pair[1] == "not");
    if not {
        return Some("`-m not …` runs fewer tests".to_owned());
    }
    let joined = squeezed.join(" ");
    let passes = ["|| true", "|| :", "|| exit 0", "|| echo", "; true", "; exit 0", "; :"];
    let passes =
        passes.iter().find(|words| joined.contains(**words) || joined.contains(&words.replace("; ", " ; ")));
    if let Some(words) = passes {
        return Some(format!("`{words}` lets a failure pass"));
    }
    (line.starts_with('-') && !line.starts_with("- ") && !line.starts_with("--"))
        .then(|| "`-` before a recipe lets a failure pass".to_owned())
}

/// Flags that change what is told and not what is run.
const HARMLESS: [&str; 32] = [
    "-v",
    "-vv",
    "--verbose",
    "--reporter",
    "--reporters",
    "--color",
    "--colour",
    "--colors",
    "--ci",
    "--coverage",
    "--cov",
    "--cov-report",
    "--silent",
    "--runInBand",
    "--maxWorkers",
    "-j",
    "--jobs",
    "--no-fail-fast",
    "--locked",
    "--workspace",
    "--all",
    "--all-targets",
    "--all-features",
    "-race",
    "-count",
    "--strict",
    "--tb",
    "--durations",
    "--junitxml",
    "--test-reporter",
    "-ra",
    "-rA",
];

/// Whether a command runs all that another one ran: it is the same with flags that change only what is told, or it is
/// one of several that must all succeed.
pub(super) fn keeps(old: &str, new: &str) -> bool {
    let (old, new) = (old.trim(), new.trim());
    if old == new {
        return true;
    }
    let weak = |text: &str| narrows(text).is_some() || ends_well(text).is_some();
    if (weak(new) && !weak(old))
        || ["||", ";", "|"].iter().any(|word| new.contains(word) && !old.contains(word))
    {
        return false;
    }
    let wanted: Vec<&str> = old.split(" && ").map(str::trim).collect();
    let given: Vec<&str> = new.split(" && ").map(str::trim).collect();
    wanted.iter().all(|one| given.iter().any(|other| only_adds_flags(one, other)))
}

fn only_adds_flags(old: &str, new: &str) -> bool {
    let mut left = old.split_whitespace().peekable();
    let mut after_flag = false;
    for word in new.split_whitespace() {
        if left.peek() == Some(&word) {
            left.next();
            after_flag = false;
            continue;
        }
        let name = word.split('=').next().unwrap_or(word);
        let is_value = after_flag && !word.starts_with('-');
        if !HARMLESS.contains(&name) && !is_value {
            return false;
        }
        after_flag = HARMLESS.contains(&name) && !word.contains('=') && !is_value;
    }
    left.peek().is_none()
}

/// Lines of a whole script by which it ends well whatever happened before.
pub(super) fn ends_well(line: &str) -> Option<String> {
    let line = line.trim();
    matches!(line, "exit 0" | "set +e" | "exit 0;" | "trap 'exit 0' EXIT")
        .then(|| format!("`{line}` lets a failure pass"))
}

/// The lines that only the second text has, with their numbers.
pub(super) fn added<'a>(before: &str, after: &'a str) -> Vec<(usize, &'a str)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in before.lines() {
        *counts.entry(line.trim()).or_default() += 1;
    }
    let is_new = |(_, line): &(usize, &str)| match counts.get_mut(line.trim()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        Some(_) | None => !line.trim().is_empty(),
    };
    after.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(is_new).collect()
}

/// The names that a command asks one of these programs for: `make -j test lint` asks make for `test` and
/// `lint`.
pub(super) fn requested_targets(command: &str, programs: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for part in command.split(['\n', ';', '&', '|', '(', ')']) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| programs.contains(word)) else { continue };
        let mut skip = false;
        for word in &words[at + 1..] {
            let takes_next = matches!(*word, "-C" | "-f" | "-j" | "--directory" | "--justfile");
            if !skip && !word.starts_with('-') && !word.contains('=') {
                names.push((*word).to_owned());
            }
            skip = takes_next && *word != "-j";
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: a line, and why it runs fewer or lets a failure pass; nothing where it does neither.
    const LINES: &str = r#"
        pytest                              => -
        pytest -x -vv tests                 => -
        pytest -k 'not slow'                => `-k` runs fewer tests
        pytest --deselect=tests/a.py::b     => `--deselect` runs fewer tests
        pytest -m "not slow"                => `-m not …` runs fewer tests
        python -m pytest --ignore tests/a   => `--ignore` runs fewer tests
        python -m unittest -k add           => `-k` runs fewer tests
        go test ./...                       => -
        go test -run TestAdd ./...          => `-run` runs fewer tests
        go test -short ./...                => `-short` runs fewer tests
        cargo test --workspace              => -
        cargo test -- --skip slow           => `--skip` runs fewer tests
        cargo test --workspace --exclude a  => `--exclude` runs fewer tests
        npx jest --passWithNoTests          => `--passWithNoTests` runs fewer tests
        mocha --grep add                    => `--grep` runs fewer tests
        mvn verify -DskipTests              => `-DskipTests` runs fewer tests
        npm test || true                    => `|| true` lets a failure pass
        pytest; exit 0                      => `; exit 0` lets a failure pass
        -pytest                             => `-` before a recipe lets a failure pass
        - pytest                            => -
        continue-on-error: true             => `continue-on-error: true` lets a failure pass
        # pytest -k a                       => -
        rm -f x || true                     => -
        grep -k x                           => -"#;

    #[test]
    fn a_line_says_whether_it_runs_fewer() {
        for line in LINES.lines().filter(|line| !line.trim().is_empty()) {
            let (text, wanted) = line.split_once(" => ").unwrap();
            assert_eq!(narrows(text).as_deref().unwrap_or("-"), wanted.trim(), "{line}");
        }
    }

    /// One line a case: a command, another one, whether that runs all of the first.
    const KEPT: &str = "
        jest                  ; jest --verbose              ; yes
        jest                  ; jest --reporter spec        ; yes
        pytest                ; ruff check . && pytest -ra  ; yes
        jest                  ; jest -t half                ; no
        jest                  ; jest; exit 0                ; no
        jest                  ; jest || true                ; no
        pytest                ; pytest tests/unit           ; no
        tsc && vitest run     ; vitest run                  ; no
        pytest                ; echo pytest                 ; no";

    #[test]
    fn a_command_says_whether_it_runs_all_of_another() {
        for line in KEPT.lines().filter(|line| !line.trim().is_empty()) {
            let (first, wanted) = line.trim().rsplit_once(" ; ").unwrap();
            let (old, new) = first.split_once(" ; ").unwrap();
            assert_eq!(keeps(old, new.trim()), wanted == "yes", "{line}");
        }
    }

    #[test]
    fn a_command_says_what_it_asks_for() {
        assert_eq!(
            requested_targets("cd x && make -C sub -j4 V=1 test lint; echo make", &["make"]),
            ["test", "lint"]
        );
        assert_eq!(requested_targets("npm run check -- --fast", &["npm"]), ["run", "check"]);
        assert!(requested_targets("pytest", &["make"]).is_empty());
    }
}
