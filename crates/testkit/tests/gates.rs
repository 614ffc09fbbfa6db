//! The gates that run something, with real shells, runners and checkers. What is not installed is skipped
//! loudly.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::path::Path;
use std::time::{Duration, Instant};

use ftl_core::catalogue::build::{PreflightStatus, Syntax, VerifyOutcome};
use ftl_gates::verify::{CouldNotRun, MAX_RUNS, RepeatPolicy, VerifyMeasure, When, against, bound_to, run};
use ftl_gates::{CommandPlace, preflight};
use ftl_git::change::{Change, Content, EntryKind, FileChange};
use ftl_needs::needs;
use ftl_process::{Cancel, Guard, ProcessLimits, Supervisor, own_orphans};
use ftl_settings::environment::{CommandKind, Environment};
use ftl_store::{MemoryStore, Store as _};

struct Ground {
    folder: tempfile::TempDir,
    supervisor: Supervisor,
    store: MemoryStore,
    limits: ProcessLimits,
}

impl Ground {
    fn new() -> Ground {
        own_orphans().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
        let supervisor =
            Supervisor::new(guard, &folder.path().join("attempts"), &folder.path().join("spool")).unwrap();
        Ground { folder, supervisor, store: MemoryStore::default(), limits: ProcessLimits::default() }
    }

    fn with(files: &[(&str, &str)]) -> Ground {
        let ground = Ground::new();
        files.iter().for_each(|(path, text)| ground.write(path, text.as_bytes()));
        ground
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let file = self.folder.path().join("work").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    fn yard(&self) -> CommandPlace<'_> {
        let mut env = Environment::default().of_command(CommandKind::Verify);
        env.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        CommandPlace {
            supervisor: &self.supervisor,
            store: &self.store,
            folder: self.folder.path().join("work"),
            key: format!("test.{:016x}", ftl_folder::id::random().unwrap()),
            fence: None,
            limits: self.limits,
            env,
            sandbox: None,
        }
    }

    fn verify(&self, command: &str) -> Result<VerifyMeasure, CouldNotRun> {
        run(&self.yard(), command, "tree", RepeatPolicy::default(), &Cancel::new())
    }

    fn preflight(&self, files: &[&str]) -> Syntax {
        self.preflight_with(files, &[], &Change::default())
    }

    fn preflight_with(&self, files: &[&str], commands: &[&str], change: &Change) -> Syntax {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        preflight::check(&self.yard(), &own(files), &own(commands), change, "tree", &Cancel::new())
    }
}

const GREEN: &str = "import unittest
class T(unittest.TestCase):
    def test_a(self):
        self.assertEqual(1 + 1, 2)
    def test_b(self):
        self.assertEqual(2 + 2, 4)
";

#[needs(python3)]
#[test]
fn python_s_own_runner_is_green_red_and_empty() {
    let ground = Ground::with(&[("test_calc.py", GREEN)]);
    let green = ground.verify("python3 -m unittest").unwrap();
    assert_eq!(green.outcome, VerifyOutcome::Passed, "{}", green.summary);
    assert_eq!(green.summary, "2 tests passed (unittest)");
    assert_eq!(green.census.as_ref().unwrap().run, Some(2));
    ground.write("test_calc.py", GREEN.replace("2 + 2, 4", "2 + 2, 5").as_bytes());
    let red = ground.verify("python3 -m unittest").unwrap();
    assert_eq!((red.outcome, red.exit, red.runs), (VerifyOutcome::Failed, 1, 1));
    assert!(red.summary.starts_with("1 of 2 tests failed (unittest)\ntest_b "), "{}", red.summary);
    assert!(red.summary.contains("AssertionError: 4 != 5"), "{}", red.summary);
    let compared = against(&green, &red, &Change::default());
    assert!(!compared.red_before && compared.new_failures.len() == 1, "{compared:?}");
    ground.write("test_calc.py", b"x = 1\n");
    let none = ground.verify("python3 -m unittest").unwrap();
    assert_eq!(none.outcome, VerifyOutcome::NoTests, "{}", none.summary);
    ground.write("test_calc.py", b"import os\nos._exit(0)\n");
    let faked = ground.verify("python3 -m unittest").unwrap();
    assert_eq!(faked.outcome, VerifyOutcome::NoTests, "{}", faked.summary);
    assert!(faked.summary.contains("closing line of unittest is missing"), "{}", faked.summary);
}

#[needs(node)]
#[test]
fn node_s_own_runner_is_green_red_and_empty() {
    let text = "const test = require('node:test');\nconst assert = require('node:assert');\n\
        test('adds', () => { assert.strictEqual(1 + 1, 2); });\n";
    let ground = Ground::with(&[("calc.test.js", text)]);
    let green = ground.verify("node --test").unwrap();
    assert_eq!(green.outcome, VerifyOutcome::Passed, "{}", green.summary);
    assert_eq!(green.summary, "1 tests passed (node --test)");
    ground.write("calc.test.js", text.replace("1 + 1, 2", "1 + 1, 3").as_bytes());
    let red = ground.verify("node --test").unwrap();
    assert_eq!(red.outcome, VerifyOutcome::Failed, "{}", red.summary);
    assert!(red.summary.contains("adds"), "{}", red.summary);
    ground.write("calc.test.js", b"const x = 1;\n");
    let none = ground.verify("node --test").unwrap();
    assert_eq!(none.outcome, VerifyOutcome::NoTests, "{}", none.summary);
}

#[test]
fn a_command_that_nobody_knows_is_taken_at_its_exit_code() {
    let ground = Ground::new();
    let good = ground.verify("echo fine").unwrap();
    assert_eq!(good.outcome, VerifyOutcome::Passed);
    assert!(good.summary.contains("the exit code decided"), "{}", good.summary);
    let bad = ground.verify("echo 'error: no such thing' >&2; exit 3").unwrap();
    assert_eq!((bad.outcome, bad.exit), (VerifyOutcome::Failed, 3));
    assert_eq!(bad.summary, "exit code 3\nerror: no such thing");
}

#[test]
fn what_could_not_run_is_no_answer() {
    let mut ground = Ground::with(&[("plain.sh", "echo x\n")]);
    assert!(matches!(ground.verify("no-such-program-here"), Err(CouldNotRun::NotFound(_))));
    assert!(matches!(ground.verify("./plain.sh"), Err(CouldNotRun::NotFound(_))));
    assert!(matches!(ground.verify("kill -9 $$"), Err(CouldNotRun::OutOfMemory(_))));
    assert!(matches!(ground.verify("kill -15 $$"), Err(CouldNotRun::Signal(_))));
    assert!(matches!(ground.verify("sh -c 'kill -11 $$'; exit $?"), Err(CouldNotRun::Signal(_))));
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = run(&ground.yard(), "true", "tree", RepeatPolicy::default(), &cancel);
    assert!(matches!(cancelled, Err(CouldNotRun::Cancelled)), "{cancelled:?}");
    ground.limits = ProcessLimits {
        soft: Some(Duration::from_millis(300)),
        grace: Duration::from_secs(1),
        ..ground.limits
    };
    let late = ground.verify("sleep 600");
    let Err(CouldNotRun::Timeout(why)) = &late else { panic!("{late:?}") };
    assert!(why.contains("it took longer than 300 ms"), "{why}");
    assert!(late.unwrap_err().to_string().contains("hint: give it more time"));
}

#[test]
fn a_failure_that_looks_flaky_is_run_again_and_another_is_not() {
    // The first run leaves a file behind, the second one finds it.
    let flaky = "if [ -e ran ]; then exit 0; fi; touch ran; echo 'connection refused'; exit 1";
    let found = Ground::new().verify(flaky).unwrap();
    assert_eq!((found.outcome, found.runs), (VerifyOutcome::Flaky, 2));
    assert!(found.summary.starts_with("flaky: it failed 1 of 2 times on the same tree"), "{}", found.summary);
    assert!(found.summary.contains("connection refused"));
    let report = found.report("tree", None, &[]);
    assert!(!report.passed && report.failed);
    let plain = flaky.replace("connection refused", "1 is not 2");
    let found = Ground::new().verify(&plain).unwrap();
    assert_eq!((found.outcome, found.runs), (VerifyOutcome::Failed, 1));
    let always = RepeatPolicy { when: When::Always, ..RepeatPolicy::default() };
    let ground = Ground::new();
    let found = run(&ground.yard(), &plain, "tree", always, &Cancel::new()).unwrap();
    assert_eq!((found.outcome, found.runs), (VerifyOutcome::Flaky, 2));
    let ground = Ground::new();
    let confirm = RepeatPolicy { confirm: 1, ..RepeatPolicy::default() };
    let once = "if [ -e ran ]; then exit 1; fi; touch ran";
    let found = run(&ground.yard(), once, "tree", confirm, &Cancel::new()).unwrap();
    assert_eq!((found.outcome, found.runs), (VerifyOutcome::Flaky, 2));
}

#[test]
fn the_environment_is_built_from_nothing_and_the_whole_output_is_kept() {
    let ground = Ground::new();
    let found = ground.verify("env; seq 1 100000").unwrap();
    let kept = found.output.as_ref().unwrap().parse().unwrap();
    let whole = String::from_utf8(ground.store.get(&kept).unwrap().unwrap()).unwrap();
    assert!(whole.ends_with("99999\n100000\n") && whole.contains("\n50000\n"));
    let names: Vec<&str> =
        whole.lines().take_while(|line| *line != "1").filter_map(|line| line.split('=').next()).collect();
    for name in &names {
        let known = [
            "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM", "PWD", "OLDPWD",
            "SHLVL", "_",
        ];
        let ours = name.starts_with("FTL_") || *name == "PYTHONDONTWRITEBYTECODE";
        // The doors of the report, and what lies below a home that is not handed on.
        let doors = ["PYTHONPATH", "PYTEST_PLUGINS", "NODE_OPTIONS", "GOFLAGS", "MAVEN_OPTS"];
        let ours = ours || doors.contains(name) || name.starts_with("CARGO_TARGET_");
        let ours = ours || ftl_settings::home::TOOLS.iter().any(|(tool, _)| tool == name);
        let by_default = ftl_agents::variables::defaults().any(|one| one == *name);
        assert!(known.contains(name) || ours || by_default, "{name} came in");
    }
    assert_eq!(found.bound_to, bound_to("tree", "env; seq 1 100000", &ground.yard().env));
}

/// One line a case: the checker that must be there, the path, the text, the line of the error or `-`.
const CHECKED: &str = r#"
    python3 | a.py   | x = 1\n                                    | -
    python3 | a.py   | return 1\n                                 | 1
    python3 | a.py   | x = 1\ny = (\n                             | 2
    python3 | a.py   | raise SystemExit(1)\n                      | -
    node    | a.js   | const a = 1;\n                             | -
    node    | a.js   | let a = 1;\nlet a = 2;\n                   | 2
    node    | a.js   | import a from 'a';\nexport default a;\n    | -
    node    | a.mjs  | const a = await b;\n                       | -
    node    | a.cjs  | const a = ;\n                              | 1
    node    | a.js   | const a = <b>x</b>;\n                      | -
    rustfmt | a.rs   | fn f() { let x = 1; }\n                    | -
    rustfmt | a.rs   | mod x;\nfn f() {}\n                        | -
    rustfmt | a.rs   | fn f() {\n    let x = ;\n}\n               | 2
    bash    | a.sh   | if true; then echo x; fi\n                 | -
    bash    | a.sh   | echo x\nif true; fi\n                      | 2
    gofmt   | a.go   | package a\n                                | -
    gofmt   | a.go   | package a\nfunc f( {\n                     | 2
    ruby    | a.rb   | puts 1\n                                   | -
    ruby    | a.rb   | def f(\n                                   | 1
    php     | a.php  | <?php echo 1;\n                            | -
    php     | a.php  | <?php\necho ;\n                            | 2"#;

macro_rules! checkers {
    ($($program:ident $name:ident)+) => {
        $(
            #[needs($program)]
            #[test]
            fn $name() {
                has_the_last_word(stringify!($program));
            }
        )+
    };
}

checkers! {
    python3 python3_has_the_last_word
    node node_has_the_last_word
    rustfmt rustfmt_has_the_last_word
    bash bash_has_the_last_word
    gofmt gofmt_has_the_last_word
    ruby ruby_has_the_last_word
    php php_has_the_last_word
}

fn has_the_last_word(checker: &str) {
    let lines = CHECKED.lines().filter(|line| line.trim().starts_with(checker));
    assert!(lines.clone().count() > 1, "{checker}");
    for line in lines {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let ground = Ground::with(&[(cells[1], &cells[2].replace("\\n", "\n"))]);
        let answer = ground.preflight(&[cells[1]]);
        let found = answer.summary.split(':').nth(1).filter(|_| answer.failed).unwrap_or("-");
        assert_eq!(found, cells[3], "{line}: {}", answer.summary);
        let left: Vec<_> = std::fs::read_dir(ground.folder.path().join("work")).unwrap().collect();
        assert_eq!(left.len(), 1, "a checker leaves nothing behind: {left:?}");
    }
}

#[test]
fn nothing_of_a_file_is_run_while_it_is_checked() {
    let text = "open('was_run', 'w').close()\n";
    let ground = Ground::with(&[
        ("a.py", text),
        ("sitecustomize.py", text),
        ("b.sh", "touch was_run\n"),
        ("c.js", "require('fs').writeFileSync('was_run', '')\n"),
    ]);
    let answer = ground.preflight(&["a.py", "b.sh", "c.js"]);
    assert_eq!(answer.status, PreflightStatus::Pass, "{}", answer.summary);
    assert!(!ground.folder.path().join("work/was_run").exists());
}

#[test]
fn missing_files_folders_and_unknown_kinds_are_skipped() {
    let ground = Ground::with(&[("docs/a.md", "words"), ("a.py", "x = 1\n")]);
    std::os::unix::fs::symlink("/etc/passwd", ground.folder.path().join("work/out.py")).unwrap();
    let answer = ground.preflight(&["gone.py", "docs", "docs/a.md", "out.py", "../attempts", "a.py"]);
    assert_eq!((answer.status, answer.passed), (PreflightStatus::Pass, true));
    assert_eq!(answer.skipped.unwrap(), ["gone.py", "docs", "docs/a.md", "out.py", "../attempts"]);
    assert!(answer.summary.contains("gone.py was skipped: it is not there"), "{}", answer.summary);
    let answer = ground.preflight(&["docs/a.md"]);
    assert_eq!((answer.status, answer.passed, answer.failed), (PreflightStatus::Skip, true, false));
    ground.write("b.py", &[b'x', b'\n', 0xff]);
    let answer = ground.preflight(&["b.py"]);
    assert_eq!(answer.summary, "b.py:2:1: it is not UTF-8");
}

#[test]
fn the_brief_s_own_commands_take_the_place_of_checkers() {
    let ground = Ground::with(&[("a.py", "return 1\n"), ("b.py", "x = 1\n")]);
    let none = Change::default();
    let answer = ground.preflight_with(&["a.py", "b.py"], &["true"], &none);
    assert_eq!(answer.status, PreflightStatus::Pass, "only the grammar looked: {}", answer.summary);
    let answer = ground.preflight_with(&["a.py", "b.py"], &["echo 'b.py:7: bad' >&2; exit 1"], &none);
    assert_eq!(answer.broken, ["b.py"]);
    assert!(answer.summary.starts_with("b.py:7:1: `echo"), "{}", answer.summary);
    let answer = ground.preflight_with(&["a.py", "b.py", "gone.py"], &["exit 1"], &none);
    assert_eq!(answer.broken, ["a.py", "b.py"], "a command that names no file is about all of them");
    let answer = ground.preflight_with(&["a.py"], &["no-such-program-here"], &none);
    assert_eq!(answer.status, PreflightStatus::Pass, "what cannot be run says nothing about a file");
    assert!(answer.summary.contains("`no-such-program-here` could not be run"), "{}", answer.summary);
}

#[test]
fn a_file_that_a_grammar_never_understood_is_not_held_against_the_work() {
    // No checker of its own: the grammar alone looks at TypeScript.
    let text = "const a: = 1;\n";
    let ground = Ground::with(&[("a.ts", text)]);
    let before = Content { kind: EntryKind::File, bytes: Some(b"const b: = 2;\n".to_vec()) };
    let after = Content { kind: EntryKind::File, bytes: Some(text.as_bytes().to_vec()) };
    let file = FileChange { path: "a.ts".to_owned(), before: Some(before), after: Some(after) };
    assert_eq!(ground.preflight(&["a.ts"]).status, PreflightStatus::Fail);
    let answer = ground.preflight_with(&["a.ts"], &[], &Change { files: vec![file] });
    assert_eq!(answer.status, PreflightStatus::Skip, "{}", answer.summary);
}

#[test]
fn a_checker_that_takes_too_long_says_nothing() {
    let mut ground = Ground::with(&[("a.sh", "if true; fi\n"), ("../bin/bash", "#!/bin/sh\nsleep 600\n")]);
    let bin = ground.folder.path().join("bin");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("bash"), mode).unwrap();
    ground.limits = ProcessLimits {
        soft: Some(Duration::from_millis(300)),
        grace: Duration::from_secs(1),
        ..ground.limits
    };
    let mut yard = ground.yard();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).unwrap();
    yard.env.iter_mut().filter(|(name, _)| name == "PATH").for_each(|pair| pair.1.clone_from(&path));
    let started = Instant::now();
    let answer =
        preflight::check(&yard, &["a.sh".to_owned()], &[], &Change::default(), "tree", &Cancel::new());
    assert_eq!(answer.status, PreflightStatus::Skip, "{}", answer.summary);
    assert!(started.elapsed() < preflight::CHECK_LIMIT, "{:?}", started.elapsed());
}

#[test]
fn a_command_is_run_so_often_at_most_and_only_so_much_of_its_output_is_read() {
    let ground = Ground::new();
    let often = RepeatPolicy { reruns: 1_000, when: When::Always, confirm: 0 };
    let found = run(&ground.yard(), "exit 1", "tree", often, &Cancel::new()).unwrap();
    assert_eq!((found.outcome, found.runs), (VerifyOutcome::Failed, MAX_RUNS));
    let script =
        "echo '1 failed, 1 passed in 0.1s'; yes 0123456789 | head -c 9000000; echo; echo '3 passed in 0.1s'";
    let found = ground.verify(script).unwrap();
    assert_eq!(found.census.as_ref().unwrap().run, Some(3), "the end is read too: {}", found.summary);
    assert_eq!(found.outcome, VerifyOutcome::Passed);
}

#[needs(bash)]
#[test]
fn only_so_many_files_get_a_checker() {
    let ground = Ground::new();
    let names: Vec<String> = (0..=preflight::MAX_CHECKED).map(|at| format!("s/{at}.sh")).collect();
    names.iter().for_each(|name| ground.write(name, b"if true; fi\n"));
    let files: Vec<&str> = names.iter().map(String::as_str).collect();
    let started = Instant::now();
    let answer = ground.preflight(&files);
    assert_eq!(answer.broken.len(), preflight::MAX_CHECKED);
    assert_eq!(answer.skipped.unwrap().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(300));
}
