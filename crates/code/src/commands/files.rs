//! The files that a command names and surely reads.
//!
//! Only what a command surely reads is claimed: plain words with the ending of a file, given to a program that reads
//! them, before anything that could have made them or gone to another folder. Nothing is run here, and nothing is
//! refused that might work.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::programs::{is_assignment, is_plain, parts, programs};
use crate::context::verify_source;
use crate::names::bare;

/// Programs that read the files that they are given.
const READERS: [&str; 20] = [
    "ava", "bash", "bun", "cat", "deno", "grep", "jest", "mocha", "node", "php", "phpunit", "py.test",
    "pytest", "python", "python3", "rspec", "ruby", "sh", "tsx", "vitest",
];

/// Words that start the program that follows them.
const STARTERS: [&str; 12] =
    ["bunx", "bundle", "env", "exec", "npx", "nice", "pdm", "pnpm", "poetry", "run", "uv", "yarn"];

/// Words that make nothing and go nowhere, so that what follows them is still looked at.
const HARMLESS: [&str; 6] = [":", "[", "echo", "set", "test", "true"];

/// Options after which a word is a program and no file.
const INLINE: [&str; 8] = ["-c", "-e", "-p", "--eval", "--print", "--regexp", "-f", "--file"];

/// Endings of files that people name in commands.
const ENDINGS: [&str; 34] = [
    "bash", "c", "cc", "cjs", "cpp", "css", "cts", "ex", "exs", "go", "h", "html", "java", "js", "json",
    "jsx", "kt", "lua", "md", "mjs", "mts", "php", "py", "rb", "rs", "scala", "sh", "sql", "swift", "toml",
    "ts", "tsx", "txt", "yaml",
];

/// Whether a command names a file of the repository that is not there: what it starts, or what it surely reads.
pub fn names_missing_file(command: &str, folder: &Path) -> bool {
    let started = programs(command).into_iter().filter(|program| program.contains('/'));
    started.chain(named_files(command)).any(|file| !folder.join(file).exists())
}

/// The files inside the repository that a command surely reads.
pub fn named_files(command: &str) -> BTreeSet<String> {
    let (parts, has_whole) = parts(command);
    // The command before `||` may fail on purpose.
    if !has_whole {
        return BTreeSet::new();
    }
    let mut found = BTreeSet::new();
    let mut is_only = true;
    for words in &parts {
        let words: Vec<&str> =
            words.iter().map(String::as_str).skip_while(|word| is_assignment(word)).collect();
        let words: Vec<&str> = words.into_iter().skip_while(|word| STARTERS.contains(word)).collect();
        let Some(program) = words.first().filter(|word| is_plain(word)) else { return found };
        let writes = words
            .iter()
            .any(|word| word.contains('>') && !word.contains("/dev/null") && !word.ends_with("&1"));
        match (READERS.contains(program), HARMLESS.contains(program)) {
            (true, _) => found.extend(read_by(program, &words[1..])),
            (false, true) => {}
            (false, false) if is_only => {
                // Other runners: only a file that is named like a test is sure to be one.
                found.extend(verify_source(&words.join(" ")).filter(|_| *program == "cargo"));
                return found;
            }
            (false, false) => return found,
        }
        if writes {
            return found;
        }
        is_only = false;
    }
    found
}

/// The files that one of the readers is given.
fn read_by(program: &str, words: &[&str]) -> Vec<String> {
    let is_module = words.windows(2).any(|pair| pair[0] == "-m");
    let runs_tests = words.windows(2).any(|pair| pair == ["-m", "pytest"]);
    let is_python = program.starts_with("python");
    let is_inline =
        words.iter().any(|word| INLINE.contains(word)) && !runs_tests && !program.contains("test");
    if is_inline || (is_python && is_module && !runs_tests) {
        return Vec::new();
    }
    // The first word of grep is what it looks for.
    let mut skipped = usize::from(program == "grep");
    let mut files = Vec::new();
    let mut is_output = false;
    for word in words {
        let follows_output = std::mem::replace(&mut is_output, word.ends_with('>'));
        if word.starts_with('-') || follows_output {
            continue;
        }
        if skipped > 0 {
            skipped -= 1;
            continue;
        }
        files.extend(file_of(word));
    }
    files
}

/// The file that a word such as `tests/test_x.py::test_y` names, if it surely is one inside the repository.
fn file_of(word: &str) -> Option<String> {
    let path = bare(word.split("::").next().unwrap_or(word));
    let (stem, ending) = path.rsplit_once('/').map_or(path, |(_, name)| name).rsplit_once('.')?;
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let is_file = !stem.is_empty() && ENDINGS.contains(&ending) && is_plain(path) && !path.contains(':');
    (is_file && is_inside).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_command_surely_reads_is_claimed() {
        for (command, wanted) in [
            ("pytest tests/test_a.py -q", "tests/test_a.py"),
            (
                "python3 -m pytest tests/test_a.py::TestA::test_b tests/test_c.py",
                "tests/test_a.py tests/test_c.py",
            ),
            ("X=1 uv run pytest -k 'not slow' ./tests/test_a.py", "tests/test_a.py"),
            ("node --test tests/help.test.js", "tests/help.test.js"),
            ("npx vitest run src/a.test.ts", "src/a.test.ts"),
            ("sh check.sh && pytest tests/t.py", "check.sh tests/t.py"),
            ("grep -q done notes.md", "notes.md"),
            ("grep -q a.py notes.md", "notes.md"),
            ("cargo test --test login", "tests/login.rs"),
            ("cargo test", ""),
            ("cargo run --example x > out.txt && grep -q a out.txt", ""),
            ("make && sh built.sh", ""),
            ("cd sub && pytest tests/test_a.py", ""),
            ("sh make.sh > out.txt && cat out.txt", "make.sh"),
            ("sh make.sh 2>&1 && sh next.sh", "make.sh next.sh"),
            ("! grep -q x gone.md", ""),
            ("grep -q x gone.md || true", ""),
            ("python3 -c 'import a' gone.py", ""),
            ("python3 -m unittest tests.cart", ""),
            ("node -e 'x' gone.js", ""),
            ("test -f gone.py", ""),
            ("npm run test -- gone.test.js", ""),
            ("pytest $TARGET/test_a.py tests/*.py", ""),
            ("pytest /abs/test_a.py ../up/test_b.py", ""),
            ("pytest 'a b.py'", ""),
            ("true", ""),
            ("", ""),
        ] {
            let found: Vec<String> = named_files(command).into_iter().collect();
            assert_eq!(found.join(" "), wanted, "{command}");
        }
    }
}
