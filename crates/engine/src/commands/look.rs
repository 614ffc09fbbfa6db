//! A cheap look at whether commands can be run at all: their programs are there, and a runner of tests can collect what it
//! would run. It takes seconds, asks no model, and runs no test.
//!
//! Only what is surely the fault of the surroundings is told: a program or a module that is not installed. What the
//! code of the repository itself gets wrong is red, and red is what work is for.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::programs::{parts, without_program};
use crate::environment::Environment;
use crate::process::{Ended, How};

/// How long collecting may take. What takes longer is not known to be broken.
pub const MAX_LOOK: Duration = Duration::from_secs(10);

/// What a person does about it.
pub const HINT: &str = "install what is missing where PATH finds it, pass a variable on under [environment], or set worktree.setup or \
     worktree.tests in ftl.toml";

/// The exit codes by which a shell says that a program is not there or may not be run.
const NOT_RUN: [i32; 2] = [126, 127];

/// How pytest lists its tests, and leaves nothing behind.
const PYTEST: &str = "--collect-only -q -p no:cacheprovider";

/// Why commands cannot be run here, by what their programs say; nothing where nobody can tell. `run` runs one command in
/// the folder for at most [`MAX_LOOK`].
pub fn broken(
    commands: &[String],
    folder: &Path,
    env: &[(OsString, OsString)],
    run: &mut dyn FnMut(&str) -> Option<Ended>,
) -> Option<String> {
    for command in commands {
        if let Some(program) = without_program(command, folder, env) {
            return Some(format!("there is no program `{program}`, which `{command}` starts"));
        }
        let Some(collect) = collecting(command) else { continue };
        let Some(ended) = run(&collect).filter(|ended| ended.cut.is_none()) else { continue };
        let How::Exited(code) = ended.how else { continue };
        let said = format!("{}\n{}", ended.out.text(), ended.err.text());
        if let Some(why) = fault(code, &said, folder) {
            return Some(format!("`{command}` cannot collect its tests: {why}"));
        }
    }
    None
}

/// What commands see while they are only looked at.
pub fn environment(environment: &Environment) -> Vec<(OsString, OsString)> {
    environment.of_delivery()
}

/// The command that has a runner list its tests, where it is known how.
fn collecting(command: &str) -> Option<String> {
    let (parts, has_whole) = parts(command);
    let [words] = parts.as_slice() else { return None };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_plain = has_whole && !words.iter().any(|word| word.contains(['>', '<', '|', '&', ';']));
    let is_pytest = words.iter().any(|word| *word == "pytest" || *word == "py.test");
    (is_plain && is_pytest).then(|| format!("{command} {PYTEST}"))
}

/// What the surroundings lack, by how collecting ended; nothing where it is the code's own fault, or none at all.
fn fault(code: i32, said: &str, folder: &Path) -> Option<String> {
    let missing = said.lines().find_map(missing_module);
    match (code, missing) {
        (0 | 5, _) => None,
        (_, Some(module)) if !is_own(module, folder) => Some(format!("there is no module `{module}`")),
        (code, None) if NOT_RUN.contains(&code) => {
            let first = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            Some(first.to_owned())
        }
        (_, _) => None,
    }
}

/// The module that Python did not find, by its top name.
fn missing_module(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("No module named ")?;
    let name = rest.trim().trim_matches(|one: char| !(one.is_alphanumeric() || one == '_' || one == '.'));
    name.split('.').next().filter(|name| !name.is_empty())
}

/// Whether a module is the repository's own, so that its absence is a matter of the code.
fn is_own(module: &str, folder: &Path) -> bool {
    let places = ["", "src", "lib", "tests", "test"];
    places.iter().any(|place| {
        let at = folder.join(place);
        at.join(module).is_dir() || at.join(format!("{module}.py")).is_file()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_asked_to_list_only_where_it_is_known_how() {
        for (command, wanted) in [
            ("pytest -q", Some("pytest -q --collect-only -q -p no:cacheprovider")),
            ("python3 -m pytest", Some("python3 -m pytest --collect-only -q -p no:cacheprovider")),
            ("uv run pytest tests", Some("uv run pytest tests --collect-only -q -p no:cacheprovider")),
            ("pytest > out.txt", None),
            ("make && pytest", None),
            ("pytest || true", None),
            ("cargo test", None),
            ("", None),
        ] {
            assert_eq!(collecting(command).as_deref(), wanted, "{command}");
        }
    }

    #[test]
    fn only_what_is_not_installed_is_the_surroundings_fault() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.py"), "").unwrap();
        let fault = |code: i32, said: &str| fault(code, said, folder.path()).unwrap_or_default();
        let table = [
            (2, "E   ModuleNotFoundError: No module named 'freezegun'", "there is no module `freezegun`"),
            (1, "/usr/bin/python3: No module named pytest", "there is no module `pytest`"),
            (2, "E   ModuleNotFoundError: No module named 'yaml.loader'", "there is no module `yaml`"),
            (2, "E   ModuleNotFoundError: No module named 'shop.cart'", ""),
            (2, "E   SyntaxError: invalid syntax", ""),
            (127, "sh: 1: pytest: not found", "sh: 1: pytest: not found"),
            (5, "no tests ran", ""),
            (0, "No module named x", ""),
        ];
        for (code, said, wanted) in table {
            assert_eq!(fault(code, said), wanted, "{said}");
        }
    }

    #[test]
    fn a_missing_program_is_told_before_anything_is_run() {
        let env = [("PATH".into(), "/nowhere".into())];
        let mut run = |_: &str| panic!("nothing is run");
        let why = broken(&["gone --all".into()], Path::new("/nowhere"), &env, &mut run);
        assert_eq!(why.unwrap(), "there is no program `gone`, which `gone --all` starts");
    }
}
