//! A cheap look at whether commands can be run at all: their programs are there, and a runner of tests can collect what it
//! would run. It takes seconds, asks no model, and runs no test.
//!
//! Only what is surely the fault of the surroundings is told: a program, a module or a package that is not installed, or
//! a service that packages are fetched from. What the code of the repository itself gets wrong, or what the work is to
//! make, is red, and red is what work is for.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::collect::{self, Question};
pub use super::files::names_missing_file;
use super::programs::without_program;
use crate::context::read_source;
use ftl_process::{How, ProcessExit};

/// How long collecting may take. What takes longer is not known to be broken.
pub const MAX_LOOK: Duration = Duration::from_secs(10);

/// What a person does about it.
pub const HINT: &str = "install what is missing where PATH finds it, pass a variable on under [environment], or set worktree.setup or \
     worktree.tests in ftl.toml";

/// How long a cause may be.
const MAX_CAUSE_LETTERS: usize = 200;

/// The exit codes by which a shell says that a program is not there or may not be run.
const NOT_RUN: [i32; 2] = [126, 127];

/// Words, in small letters, by which tools say that they cannot get what they need.
const UNREACHABLE: [&str; 14] = [
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "no such host",
    "getaddrinfo enotfound",
    "dial tcp",
    "network is unreachable",
    "failed to download",
    "unable to update registry",
    "failed to fetch",
    "error sending request for url",
    "but --offline was specified",
    "module lookup disabled by goproxy=off",
    "could not find gem",
];

/// Words, in small letters, by which tools say that something is not installed.
const NOT_INSTALLED: [&str; 5] = [
    "error: no such command: `",
    "' is not installed",
    "error: linker `",
    "bundler: command not found",
    "in locally installed gems",
];

/// A folder in which commands would be run.
#[derive(Clone, Copy)]
pub struct ProbeFolder<'a> {
    /// The path of the folder.
    pub folder: &'a Path,
    /// The files that the work is to make: what lacks them is no fault of the surroundings.
    pub made: &'a [String],
    /// The whole environment of commands.
    pub env: &'a [(OsString, OsString)],
}

/// What a command that was run has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutput {
    /// The exit code of the command.
    pub code: i32,
    /// What it printed, on both streams.
    pub said: String,
}

impl ProbeOutput {
    /// The answer of a command that came to its end; one that was cut short, or ended by a signal, gave none.
    pub fn of(ended: &ProcessExit) -> Option<ProbeOutput> {
        let How::Exited(code) = ended.how else { return None };
        let said = format!("{}\n{}", ended.out.text(), ended.err.text());
        ended.cut.is_none().then_some(ProbeOutput { code, said })
    }
}

/// The outcome of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeReport {
    /// Nothing that would keep the commands from running.
    Fine,
    /// A runner finds no test; that is reported, and stops no run.
    NoTests(String),
    /// Why a command cannot be run here.
    Broken(String),
}

/// Looks whether commands can be run, by what their programs say. `run` runs one command in the folder for at most
/// [`MAX_LOOK`].
pub fn look(
    commands: &[String],
    at: ProbeFolder<'_>,
    run: &mut dyn FnMut(&str) -> Option<ProbeOutput>,
) -> ProbeReport {
    let mut looked = ProbeReport::Fine;
    for command in commands {
        if let Some(why) = missing_program(command, at) {
            return ProbeReport::Broken(why);
        }
        match collected(command, at, run) {
            ProbeReport::Fine => {}
            nothing @ ProbeReport::NoTests(_) => looked = nothing,
            broken @ ProbeReport::Broken(_) => return broken,
        }
    }
    looked
}

/// Whether there is a program that can be asked about a command.
pub fn is_known(command: &str, folder: &Path) -> bool {
    let script = collect::script(command, folder);
    script.is_some() || Question::of(command, folder).is_some()
}

/// The program that a command, or the script of a package that it starts, surely needs and that is not there.
pub fn missing_program(command: &str, at: ProbeFolder<'_>) -> Option<String> {
    if let Some(program) = without_program(command, at.folder, at.env) {
        return Some(format!("there is no program `{program}`, which `{command}` starts"));
    }
    let script = collect::script(command, at.folder)?;
    let env = with_folders(at.env, &script.folders);
    let program = without_program(&script.command, at.folder, &env)?;
    Some(format!("there is no program `{program}`, which `{command}` starts by package.json"))
}

/// What a runner says when it is asked to collect its tests.
fn collected(
    command: &str,
    at: ProbeFolder<'_>,
    run: &mut dyn FnMut(&str) -> Option<ProbeOutput>,
) -> ProbeReport {
    let script = collect::script(command, at.folder);
    let started = script.as_ref().map_or(command, |script| &script.command);
    let Some(question) = Question::of(started, at.folder) else { return ProbeReport::Fine };
    let asked = match &script {
        Some(script) => {
            let folders: Vec<String> =
                script.folders.iter().map(|folder| quote_word(&folder.to_string_lossy())).collect();
            format!("PATH={}:\"$PATH\"; export PATH; {}", folders.join(":"), question.command)
        }
        None => question.command.clone(),
    };
    let Some(ProbeOutput { code, said }) = run(&asked) else { return ProbeReport::Fine };
    match fault(code, &said, at) {
        Some(why) => ProbeReport::Broken(format!("`{command}` cannot collect its tests: {why}")),
        None if question.found_nothing(code, &said) => {
            ProbeReport::NoTests(format!("`{command}` finds no test"))
        }
        None => ProbeReport::Fine,
    }
}

/// What the surroundings lack, by how a command ended that runs no test; nothing where it is the code's own fault, or none
/// at all.
pub fn fault(code: i32, said: &str, at: ProbeFolder<'_>) -> Option<String> {
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        UNREACHABLE.iter().chain(&NOT_INSTALLED).any(|words| line.contains(words))
    };
    let line = || said.lines().find(tells).filter(|_| code != 0).map(shorten_line);
    missing_dependency(code, said, at).or_else(line)
}

/// The module, package or program that is not installed, by how a command ended. Tests may have run: what else they
/// printed is their own business.
pub fn missing_dependency(code: i32, said: &str, at: ProbeFolder<'_>) -> Option<String> {
    if code == 0 {
        return None;
    }
    if let Some(module) = said.lines().find_map(missing_module).filter(|module| !is_own(module, at)) {
        return Some(format!("there is no module `{module}`"));
    }
    if let Some(package) = said.lines().find_map(|line| missing_package(line, at.folder)) {
        return Some(format!("there is no package `{package}`, which package.json names"));
    }
    if NOT_RUN.contains(&code) { not_found(said) } else { None }
}

/// The program that a shell did not find. One that is named by a path is the repository's own.
pub fn not_found(said: &str) -> Option<String> {
    let program = said.lines().flat_map(|line| line.split("; ")).find_map(|line| {
        let line = line.trim();
        let shell = line.strip_suffix(": not found").or_else(|| line.strip_suffix(": command not found"));
        let name = shell.and_then(|line| line.rsplit(": ").next());
        let python = || line.strip_prefix("command not found: ");
        let name = name.or_else(python)?.trim_matches(['\'', '`', '"']);
        (!name.is_empty() && super::programs::is_plain(name)).then_some(name)
    })?;
    (!program.contains('/')).then(|| format!("there is no program `{program}`"))
}

/// The module that Python did not find, by its top name.
fn missing_module(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("No module named ")?;
    let name = rest.trim().trim_matches(|one: char| !(one.is_alphanumeric() || one == '_' || one == '.'));
    name.split('.').next().filter(|name| !name.is_empty())
}

/// The package that Node did not find, where `package.json` names it: a name that it does not have may be anything.
fn missing_package(line: &str, folder: &Path) -> Option<String> {
    let words = ["Cannot find package '", "Cannot find module '", "Preset "];
    let rest = words.iter().find_map(|words| line.split_once(words)).map(|(_, rest)| rest)?;
    let name = rest.split(['\'', ' ']).next().filter(|name| !name.starts_with(['.', '/', '#']))?;
    let parts = if name.starts_with('@') { 2 } else { 1 };
    let name = name.split('/').take(parts).collect::<Vec<_>>().join("/");
    let package: serde_json::Value = serde_json::from_slice(&read_source(folder, "package.json")?).ok()?;
    let lists = ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"];
    lists.iter().any(|list| package[*list][&name].is_string()).then_some(name)
}

/// Whether a module is the repository's own, or is to be made, so that its absence is a matter of the code.
fn is_own(module: &str, at: ProbeFolder<'_>) -> bool {
    let places = ["", "src/", "lib/", "tests/", "test/"];
    places.iter().any(|place| {
        let (folder, file) = (format!("{place}{module}"), format!("{place}{module}.py"));
        let is_made = |path: &String| {
            let path = path.strip_prefix("./").unwrap_or(path);
            path == file || path.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/'))
        };
        at.folder.join(&folder).is_dir() || at.folder.join(&file).is_file() || at.made.iter().any(is_made)
    })
}

/// An environment whose PATH begins with some folders.
fn with_folders(env: &[(OsString, OsString)], folders: &[std::path::PathBuf]) -> Vec<(OsString, OsString)> {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone()).unwrap_or_default();
    let all = folders.iter().cloned().chain(std::env::split_paths(&path));
    let joined = std::env::join_paths(all).unwrap_or(path);
    let others = env.iter().filter(|(name, _)| name != "PATH").cloned();
    others.chain([(OsString::from("PATH"), joined)]).collect()
}

/// A text as one word of the shell.
fn quote_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// One line that is not too long.
fn shorten_line(line: &str) -> String {
    line.trim().chars().take(MAX_CAUSE_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn at<'a>(folder: &'a Path, made: &'a [String], env: &'a [(OsString, OsString)]) -> ProbeFolder<'a> {
        ProbeFolder { folder, made, env }
    }

    #[test]
    fn only_what_is_not_installed_is_the_surroundings_fault() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.py"), "").unwrap();
        std::fs::write(
            folder.path().join("package.json"),
            r#"{"devDependencies": {"chai": "5", "@a/b": "1"}}"#,
        )
        .unwrap();
        let made = ["./src/cart/till.py".to_owned(), "bill.py".to_owned()];
        let fault =
            |code: i32, said: &str| fault(code, said, at(folder.path(), &made, &[])).unwrap_or_default();
        let table = [
            (2, "E   ModuleNotFoundError: No module named 'freezegun'", "there is no module `freezegun`"),
            (1, "/usr/bin/python3: No module named pytest", "there is no module `pytest`"),
            (2, "E   ModuleNotFoundError: No module named 'yaml.loader'", "there is no module `yaml`"),
            (2, "E   ModuleNotFoundError: No module named 'shop.cart'", ""),
            (2, "E   ModuleNotFoundError: No module named 'cart'", ""),
            (2, "E   ModuleNotFoundError: No module named 'bill'", ""),
            (2, "E   SyntaxError: invalid syntax", ""),
            (127, "sh: 1: pytest: not found", "there is no program `pytest`"),
            (127, "check.sh: line 3: jq: command not found", "there is no program `jq`"),
            (127, "check.sh: 3: ./tool.sh: not found", ""),
            (126, "sh: 1: ./x: Permission denied", ""),
            (5, "no tests ran", ""),
            (0, "No module named x", ""),
            (
                1,
                "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'chai' imported from /x",
                "there is no package `chai`, which package.json names",
            ),
            (1, "Error: Cannot find module '@a/b/c'", "there is no package `@a/b`, which package.json names"),
            (1, "Error: Cannot find module './own.cjs'", ""),
            (1, "Error: Cannot find module 'utils'", ""),
            (101, "error: failed to download `serde v1.0.0`", "error: failed to download `serde v1.0.0`"),
            (101, "error: no such command: `nextest`", "error: no such command: `nextest`"),
            (
                1,
                "go: x: dial tcp: lookup proxy.golang.org: no such host",
                "go: x: dial tcp: lookup proxy.golang.org: no such host",
            ),
            (101, "error[E0432]: unresolved import `shop::cart`", ""),
            (1, "shop.go:3:8: package shop/cart is not in std", ""),
        ];
        for (code, said, wanted) in table {
            assert_eq!(fault(code, said), wanted, "{said}");
        }
    }

    /// A runner that is not here, as it behaves: what it must be asked with, its exit code, and what it says.
    fn stand_in(bin: &Path, name: &str, asked: &str, code: i32, said: &str) {
        // Go prints its packages on one stream and what is wrong on the other.
        let stream = if name == "go" { " >&2" } else { "" };
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *'{asked}'*) ;; *) echo \"ran a test: $*\"; exit 99 ;; esac\nprintf '%b' '{said}'{stream}\nexit {code}\n"
        );
        let file = bin.join(name);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The runners, each with how it is asked, how it ends, what it prints, and what that shows.
    const RUNNERS: [(&str, &str, i32, &str, &str); 24] = [
        ("pytest", "--collect-only", 0, "tests/t.py::a\\n", "fine"),
        ("pytest", "--collect-only", 5, "no tests collected\\n", "nothing"),
        (
            "pytest",
            "--collect-only",
            2,
            "ModuleNotFoundError: No module named freezegun\\n",
            "no module `freezegun`",
        ),
        ("pytest", "--collect-only", 2, "SyntaxError: bad\\n", "fine"),
        ("go test ./...", "list -test -deps ./...", 0, "", "fine"),
        (
            "go test ./...",
            "list -test -deps ./...",
            0,
            "go: warning: \"./...\" matched no packages\\n",
            "nothing",
        ),
        ("go test ./...", "list -test -deps ./...", 1, "go: a@v1: dial tcp: no such host\\n", "dial tcp"),
        ("go test ./...", "list -test -deps ./...", 1, "x.go:1:8: package shop/x is not in std\\n", "fine"),
        ("jest", "--listTests", 0, "/x/a.test.js\\n", "fine"),
        ("jest", "--listTests", 0, "", "nothing"),
        ("jest", "--listTests", 1, "Preset ts-jest not found.\\n", "no package `ts-jest`"),
        ("vitest run", "list", 0, "a.test.ts > adds\\n", "fine"),
        ("vitest run", "list", 1, "No test files found, exiting with code 1\\n", "nothing"),
        ("vitest run", "list", 1, "Error: Cannot find package 'vite' imported from x\\n", "fine"),
        ("mocha", "--dry-run", 0, "  2 passing (3ms)\\n", "fine"),
        ("mocha", "--dry-run", 0, "  0 passing (3ms)\\n", "nothing"),
        ("bats tests", "--count tests", 0, "3\\n", "fine"),
        ("bats tests", "--count tests", 0, "0\\n", "nothing"),
        ("rspec", "--dry-run", 0, "0 examples, 0 failures\\n", "nothing"),
        (
            "rspec",
            "--dry-run",
            1,
            "Could not find rake-13 in locally installed gems\\n",
            "locally installed gems",
        ),
        ("phpunit", "--list-tests", 0, "Available tests:\\n - A::b\\n", "fine"),
        ("ctest", "-N", 0, "Total Tests: 0\\n", "nothing"),
        ("playwright test", "--list", 1, "Error: No tests found\\n", "nothing"),
        ("deno test", "--no-run", 1, "error: error sending request for url (x)\\n", "error sending request"),
    ];

    /// Asks a real process, as the product's own runner does.
    fn ask(folder: &Path, path: &std::ffi::OsStr, command: &str) -> Option<ProbeOutput> {
        let out = std::process::Command::new("sh")
            .args(["-c", command])
            .current_dir(folder)
            .env("PATH", path)
            .output();
        let out = out.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(ProbeOutput {
            code: out.status.code().unwrap(),
            said: format!("{}\n{}", text(&out.stdout), text(&out.stderr)),
        })
    }

    fn show(looked: ProbeReport) -> String {
        match looked {
            ProbeReport::Fine => "fine".to_owned(),
            ProbeReport::NoTests(_) => "nothing".to_owned(),
            ProbeReport::Broken(why) => why,
        }
    }

    #[test]
    fn every_runner_is_asked_in_its_own_way_and_runs_no_test() {
        for (command, asked, code, said, wanted) in RUNNERS {
            let (folder, bin) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            std::fs::write(folder.path().join("package.json"), r#"{"devDependencies": {"ts-jest": "1"}}"#)
                .unwrap();
            let program = command.split(' ').next().unwrap();
            stand_in(bin.path(), program, asked, code, &said.replace('\'', "'\\''"));
            let path = std::env::join_paths([bin.path(), Path::new("/bin"), Path::new("/usr/bin")]).unwrap();
            let env = [(OsString::from("PATH"), path.clone())];
            let mut run = |command: &str| ask(folder.path(), &path, command);
            let shown = show(look(&[command.to_owned()], at(folder.path(), &[], &env), &mut run));
            assert!(shown.contains(wanted), "{command}: {said}: {shown}");
        }
    }

    #[test]
    fn unittest_lists_its_tests_and_runs_none() {
        let path = std::env::var_os("PATH").unwrap();
        let env = [(OsString::from("PATH"), path.clone())];
        for (files, command, wanted) in [
            (
                &[(
                    "test_a.py",
                    "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        open('ran', 'w')\n",
                )][..],
                "python3 -m unittest",
                "fine",
            ),
            (&[("test_a.py", "import gone_module\n")], "python3 -m unittest", "no module `gone_module`"),
            (&[("test_a.py", "import shop.gone\n"), ("shop/__init__.py", "")], "python3 -m unittest", "fine"),
            (&[("tests/test_a.py", "")], "python3 -m unittest discover tests", "nothing"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let file = folder.path().join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            let mut run = |command: &str| ask(folder.path(), &path, command);
            let shown = show(look(&[command.to_owned()], at(folder.path(), &[], &env), &mut run));
            assert!(shown.contains(wanted), "{files:?}: {shown}");
            assert!(!folder.path().join("ran").exists(), "no test is run");
        }
    }

    #[test]
    fn a_script_of_a_package_needs_its_programs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("package.json"), r#"{"scripts": {"test": "jest"}}"#).unwrap();
        let bin = tempfile::tempdir().unwrap();
        stand_in(bin.path(), "npm", "never", 0, "");
        let path = std::env::join_paths([bin.path(), Path::new("/bin"), Path::new("/usr/bin")]).unwrap();
        let env = [(OsString::from("PATH"), path.clone())];
        let mut run = |command: &str| ask(folder.path(), &path, command);
        let commands = ["npm run test".to_owned()];
        let shown = show(look(&commands, at(folder.path(), &[], &env), &mut run));
        assert_eq!(shown, "there is no program `jest`, which `npm run test` starts by package.json");
        let own = folder.path().join("node_modules/.bin");
        std::fs::create_dir_all(&own).unwrap();
        stand_in(&own, "jest", "--listTests", 0, "");
        assert_eq!(show(look(&commands, at(folder.path(), &[], &env), &mut run)), "nothing");
        stand_in(&own, "jest", "--listTests", 0, "/a.test.js\\n");
        assert_eq!(show(look(&commands, at(folder.path(), &[], &env), &mut run)), "fine");
    }
}
