//! Whether the programs are there that commands start, before an agent is asked for anything.
//!
//! Looked for is what a command surely starts: the first word of each part that is joined by `&&`, `;` or `|`.
//! Where the shell decides what is started (a variable, an alternative, a condition, another `PATH`) nothing is
//! claimed from there on. Nothing is run here, and nothing is refused that might work.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ftl_process::programs;

use super::Commands;

/// How many missing programs are told.
const MAX_TOLD: usize = 5;

/// Words that the shell itself carries out. They start nothing that could be missing.
const BUILT_IN: &[&str] = &[
    ":", "break", "cd", "command", "continue", "echo", "exec", "exit", "false", "getopts", "kill", "local",
    "printf", "pwd", "read", "readonly", "return", "set", "shift", "test", "times", "trap", "true", "type",
    "ulimit", "umask", "unset", "wait",
];

/// Words after which it is the shell's business what a name means.
const OPAQUE: &[&str] = &[
    ".", "alias", "case", "do", "done", "elif", "else", "esac", "eval", "export", "fi", "for", "function",
    "hash", "if", "select", "source", "then", "until", "while",
];

/// What is missing and what a person can do, in words; empty where nothing is.
pub fn missing(commands: &Commands, folder: &Path, env: &[(OsString, OsString)]) -> String {
    let Some((_, path)) = env.iter().find(|(name, _)| name == "PATH") else { return String::new() };
    let mut told: Vec<String> = Vec::new();
    for command in commands.all() {
        let origin = commands.origin(command);
        // A story of its own may be about the very script that tests it.
        let is_own = !commands.origins.contains_key(command);
        let gone = programs(command).into_iter().filter(|program| !(is_own && program.contains('/')));
        let gone = gone.into_iter().find(|program| !is_there(program, folder, path));
        told.extend(gone.map(|program| {
            let hint = match origin {
                "worktree.lints" => "worktree.lints",
                "worktree.build" => "worktree.build",
                _ if commands.lints.contains(command) => "worktree.lints",
                _ if commands.build.as_ref() == Some(command) => "worktree.build",
                _ => "worktree.tests",
            };
            format!(
                "there is no program `{program}`, which `{command}` starts; {origin} names that command \
                 (hint: install {program} where PATH finds it, or set {hint} in ftl.toml)"
            )
        }));
    }
    let more = told.len().saturating_sub(MAX_TOLD);
    told.truncate(MAX_TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told.join("; ")
}

/// The first program that a command surely starts and that is not there. A file of the repository is not looked for: the
/// work may be about it.
pub(super) fn without_program(command: &str, folder: &Path, env: &[(OsString, OsString)]) -> Option<String> {
    let (_, path) = env.iter().find(|(name, _)| name == "PATH")?;
    let named = programs(command).into_iter().filter(|program| !program.contains('/'));
    named.into_iter().find(|program| !is_there(program, folder, path))
}

/// The programs that a command surely starts.
pub(super) fn programs(command: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (parts, has_whole) = parts(command);
    let mut is_first = true;
    for part in parts {
        let word = part.iter().find(|word| !is_assignment(word));
        let sets_path =
            part.iter().take_while(|word| is_assignment(word)).any(|word| word.starts_with("PATH="));
        let Some(word) = word.filter(|word| !sets_path && is_plain(word)) else { return found };
        if OPAQUE.contains(&word.as_str()) {
            return found;
        }
        // A file of the project may be made by what comes before it, and lie elsewhere after a `cd`.
        if !BUILT_IN.contains(&word.as_str()) && (is_first || !word.contains('/')) {
            found.push(word.clone());
        }
        is_first = false;
    }
    if !has_whole {
        // The program before `||` may be missing on purpose.
        found.pop();
    }
    found
}

/// The words of each part of a command as they are written; whether all of it was read, up to an `||`.
pub(super) fn parts(command: &str) -> (Vec<Vec<String>>, bool) {
    let (mut parts, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let mut letters = command.chars().peekable();
    let mut quote: Option<char> = None;
    while let Some(letter) = letters.next() {
        let is_bare = quote.is_none();
        match letter {
            '\\' if quote != Some('\'') => {
                word.push(letter);
                word.extend(letters.next());
            }
            '\'' | '"' if quote == Some(letter) => (quote, _) = (None, word.push(letter)),
            '\'' | '"' if is_bare => (quote, _) = (Some(letter), word.push(letter)),
            '#' if is_bare && word.is_empty() => while letters.next_if(|next| *next != '\n').is_some() {},
            '&' if is_bare && word.ends_with(['<', '>']) => word.push(letter),
            '|' if is_bare && letters.peek() == Some(&'|') => {
                words.extend(Some(word).filter(|word| !word.is_empty()));
                parts.extend(Some(words).filter(|words| !words.is_empty()));
                return (parts, false);
            }
            '&' | ';' | '|' | '\n' if is_bare => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                parts.extend(Some(std::mem::take(&mut words)).filter(|words| !words.is_empty()));
            }
            letter if is_bare && letter.is_whitespace() => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            letter => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    parts.extend(Some(words).filter(|words| !words.is_empty()));
    (parts, true)
}

/// Whether a word means itself, whatever the shell makes of others.
pub(super) fn is_plain(word: &str) -> bool {
    word.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/' | '+' | ':'))
}

pub(super) fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    let is_name = |name: &str| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        name.chars().all(fits) && name.starts_with(|first: char| !first.is_ascii_digit())
    };
    name.is_some_and(is_name)
}

fn is_there(program: &str, folder: &Path, path: &OsStr) -> bool {
    if program.contains('/') {
        return programs::is_program(&folder.join(program));
    }
    programs::find(program, std::env::split_paths(path).map(|place| folder.join(place))).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_a_command_surely_starts_is_known() {
        let table: [(&str, &str); 22] = [
            ("cargo test", "cargo"),
            ("  RUST_LOG=x cargo test && cargo clippy", "cargo cargo"),
            ("cd sub && npm run test", "npm"),
            ("make 2>&1 | tee log", "make tee"),
            ("make >out & wait", "make"),
            ("./check.sh --all", "./check.sh"),
            ("make && ./a.out", "make"),
            ("true; pytest\nruff check", "pytest ruff"),
            ("grep -q 'a && b' x # and more", "grep"),
            ("echo \"a; b\" | jq .", "jq"),
            ("a || b", ""),
            ("make && a || b", "make"),
            ("if true; then a; fi", ""),
            ("$TOOL test", ""),
            ("make; $TOOL && other", "make"),
            ("(cd x && make)", ""),
            ("PATH=x:$PATH tool", ""),
            ("make; export PATH=x; tool", "make"),
            ("'my tool' x", ""),
            ("my\\ tool x", ""),
            ("", ""),
            ("# nothing", ""),
        ];
        for (command, wanted) in table {
            assert_eq!(programs(command).join(" "), wanted, "{command}");
        }
    }

    #[test]
    fn programs_are_looked_for_where_commands_find_them() {
        let (folder, bin) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |file: std::path::PathBuf, mode: u32| {
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        put(bin.path().join("tool"), 0o755);
        put(bin.path().join("text"), 0o644);
        put(folder.path().join("own"), 0o755);
        let there = |program: &str| is_there(program, folder.path(), bin.path().as_os_str());
        assert!(there("tool") && there("./own") && there("/bin/sh"));
        assert!(!there("text") && !there("own") && !there("./tool") && !there("gone"));
    }

    #[test]
    fn a_story_may_make_the_script_that_tests_it() {
        let tests = vec![String::from("./new.sh"), String::from("gone")];
        let mut commands = Commands { tests, ..Commands::default() };
        let told = |commands: &Commands| {
            missing(commands, Path::new("/nowhere"), &[("PATH".into(), "/nowhere".into())])
        };
        assert!(
            told(&commands).starts_with("there is no program `gone`, which `gone` starts; the story names")
        );
        commands.origins = [("./new.sh".to_owned(), "worktree.tests".to_owned())].into();
        assert!(told(&commands).starts_with("there is no program `./new.sh`"));
    }

    #[test]
    fn only_some_of_many_are_told() {
        let gone = |count: usize| {
            let tests = (0..count).map(|number| format!("gone-{number} x")).collect();
            let commands = Commands { tests, ..Commands::default() };
            missing(&commands, Path::new("."), &[("PATH".into(), "".into())])
        };
        assert_eq!(gone(0), "");
        assert_eq!(gone(MAX_TOLD).matches("there is no program").count(), MAX_TOLD);
        let many = gone(MAX_TOLD + 2);
        assert_eq!(many.matches("there is no program").count(), MAX_TOLD);
        assert!(many.ends_with("; and 2 more"), "{many}");
    }
}
