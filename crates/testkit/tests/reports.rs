//! What test runners report on a channel of their own, with the real runners: names and outcomes, an end that is
//! missing, and a product that finds nothing of it in its environment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use ftl_core::catalogue::build::VerifyOutcome;
use ftl_gates::CommandPlace;
use ftl_gates::report::{TestOutcome, TestReport};
use ftl_gates::verify::{RepeatPolicy, VerifyMeasure, run};
use ftl_needs::needs;
use ftl_process::{Cancel, Guard, ProcessLimits, Supervisor, own_orphans};
use ftl_settings::environment::{CommandKind, Environment};
use ftl_store::MemoryStore;

/// Runs a command in a folder with these files.
fn verify(files: &[(&str, &str)], command: &str) -> VerifyMeasure {
    own_orphans().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    for (path, text) in files {
        let file = work.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
    let supervisor =
        Supervisor::new(guard, &folder.path().join("attempts"), &folder.path().join("spool")).unwrap();
    let store = MemoryStore::default();
    let yard = CommandPlace {
        supervisor: &supervisor,
        store: &store,
        folder: work,
        key: format!("test.{:016x}", ftl_folder::id::random().unwrap()),
        fence: None,
        limits: ProcessLimits::default(),
        env: Environment::default().of_command(CommandKind::Verify),
        sandbox: None,
    };
    run(&yard, command, "tree", RepeatPolicy::default(), &Cancel::new()).unwrap()
}

fn report(measure: &VerifyMeasure) -> &TestReport {
    measure.report.as_ref().unwrap_or_else(|| panic!("no report: {}", measure.summary))
}

fn names(measure: &VerifyMeasure, outcome: TestOutcome) -> Vec<&str> {
    report(measure).ended(outcome).map(|(name, _)| name).collect()
}

/// The variables that lead to the channel must not be seen by the product.
const PYTHON_PRODUCT: &str = "import os
SEEN = [name for name in os.environ if name.startswith('FTL_REPORT') or name in ('PYTHONPATH', 'NODE_OPTIONS')]
";

const PYTHON: &str = "import unittest
import calc
class T(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(calc.SEEN, [])
    def test_fails(self):
        self.assertEqual(1, 2)
    @unittest.skip('later')
    def test_skipped(self):
        pass
";

#[needs(python3)]
#[test]
fn unittest_reports_its_tests_by_name() {
    let ran = verify(&[("calc.py", PYTHON_PRODUCT), ("test_calc.py", PYTHON)], "python3 -m unittest -q");
    assert_eq!(names(&ran, TestOutcome::Passed), ["test_calc.T.test_adds"], "{}", ran.summary);
    assert_eq!(names(&ran, TestOutcome::Failed), ["test_calc.T.test_fails"]);
    assert_eq!(names(&ran, TestOutcome::Skipped), ["test_calc.T.test_skipped"]);
    assert!(report(&ran).is_whole() && report(&ran).tests["test_calc.T.test_adds"].file == "test_calc.py");
}

/// One case a line: how a process of tests ends itself; each would be green by its exit code or its closing line.
const ENDS: [&str; 3] = [
    "import os\nclass A(unittest.TestCase):\n    def test_a(self): os._exit(0)\n",
    "import atexit, os\natexit.register(lambda: os._exit(0))\nclass A(unittest.TestCase):\n    def test_a(self): self.fail()\n",
    "import os\nclass A(unittest.TestCase):\n    def test_a(self):\n        os.write(1, b'Ran 3 tests in 0.1s\\n\\nOK\\n')\n        os._exit(0)\n",
];

#[needs(python3)]
#[test]
fn a_runner_that_is_cut_short_or_contradicted_is_not_believed() {
    for end in ENDS {
        let text = format!("import unittest\n{end}");
        let ran = verify(&[("test_calc.py", &text)], "python3 -m unittest");
        assert_eq!((ran.outcome, ran.exit), (VerifyOutcome::Failed, 0), "{end}\n{}", ran.summary);
        assert!(ran.summary.contains("not believed"), "{}", ran.summary);
    }
}

#[needs(pytest)]
#[test]
fn pytest_reports_its_tests_by_name_and_with_quiet_settings_too() {
    let text = "import pytest, calc\ndef test_adds(): assert calc.SEEN == []\n\
        @pytest.mark.parametrize('x', [1, 2])\ndef test_each(x): assert x == 1\n\
        @pytest.mark.skip\ndef test_later(): pass\n";
    let files = [
        ("calc.py", PYTHON_PRODUCT),
        ("tests/test_a.py", text),
        ("pytest.ini", "[pytest]\naddopts = -qq\npythonpath = .\n"),
    ];
    let ran = verify(&files, "python3 -m pytest");
    assert_eq!(
        names(&ran, TestOutcome::Passed),
        ["tests/test_a.py::test_adds", "tests/test_a.py::test_each[1]"]
    );
    assert_eq!(names(&ran, TestOutcome::Failed), ["tests/test_a.py::test_each[2]"]);
    assert_eq!(names(&ran, TestOutcome::Skipped), ["tests/test_a.py::test_later"]);
    let files = [("tests/test_a.py", "import os\ndef test_a(): os._exit(0)\n")];
    let ran = verify(&files, "python3 -m pytest -q");
    assert_eq!(ran.outcome, VerifyOutcome::Failed, "{}", ran.summary);
}

#[needs(node)]
#[test]
fn node_reports_its_tests_by_name_from_the_runner_s_parent() {
    let product = "module.exports = Object.keys(process.env).filter((name) => /^FTL_REPORT|^NODE_OPTIONS/.test(name));\n";
    let text = "const { test, describe } = require('node:test');\nconst assert = require('node:assert');\n\
        describe('calc', () => {\n  test('adds', () => assert.deepStrictEqual(require('./calc.js'), []));\n\
          test('fails', () => assert.fail());\n  test.skip('later', () => {});\n});\n";
    let ran = verify(&[("calc.js", product), ("calc.test.js", text)], "node --test calc.test.js");
    assert_eq!(names(&ran, TestOutcome::Passed), ["calc.test.js > calc > adds"], "{}", ran.summary);
    assert_eq!(names(&ran, TestOutcome::Failed), ["calc.test.js > calc > fails"]);
    assert_eq!(names(&ran, TestOutcome::Skipped), ["calc.test.js > calc > later"]);
    assert!(report(&ran).is_whole());
}

#[test]
fn cargo_reports_its_tests_by_name_from_the_runner_s_parent() {
    let manifest = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let text = "pub fn add(a: u8, b: u8) -> u8 { a + b }\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n\
        assert!(!std::env::vars().any(|(name, _)| name.starts_with(\"FTL_REPORT\")));\n    }\n\
        #[test]\n    fn fails() { panic!() }\n    #[test]\n    #[ignore]\n    fn later() {}\n}\n";
    let ran = verify(&[("Cargo.toml", manifest), ("src/lib.rs", text)], "cargo test -q --offline --lib");
    assert_eq!(names(&ran, TestOutcome::Passed), ["calc::tests::adds"], "{}", ran.summary);
    assert_eq!(names(&ran, TestOutcome::Failed), ["calc::tests::fails"]);
    assert_eq!(names(&ran, TestOutcome::Skipped), ["calc::tests::later"]);
    let early = text.replace("panic!()", "std::process::exit(0)");
    let ran = verify(&[("Cargo.toml", manifest), ("src/lib.rs", &early)], "cargo test -q --offline --lib");
    assert_eq!((ran.outcome, ran.exit), (VerifyOutcome::Failed, 0), "{}", ran.summary);
    assert!(ran.summary.contains("cargo test collected 3 tests"), "{}", ran.summary);
}

#[needs(go)]
#[test]
fn go_reports_its_tests_by_name_from_the_runner_s_parent() {
    let text = "package calc\nimport \"testing\"\nfunc TestAdds(t *testing.T) {}\n\
        func TestFails(t *testing.T) { t.Run(\"part\", func(t *testing.T) { t.Fail() }) }\n\
        func TestLater(t *testing.T) { t.Skip() }\n";
    let ran = verify(&[("go.mod", "module calc\n\ngo 1.20\n"), ("calc_test.go", text)], "go test ./...");
    assert_eq!(names(&ran, TestOutcome::Passed), [".::TestAdds"], "{}", ran.summary);
    assert_eq!(names(&ran, TestOutcome::Failed), [".::TestFails", ".::TestFails/part"]);
    assert_eq!(names(&ran, TestOutcome::Skipped), [".::TestLater"]);
}

#[test]
fn what_speaks_tap_is_known_by_name_from_what_it_prints() {
    let ran =
        verify(&[("t.sh", "echo 1..2\necho 'ok 1 - adds'\necho 'not ok 2 - fails'\nexit 1\n")], "sh t.sh");
    assert_eq!(names(&ran, TestOutcome::Passed), ["adds"], "{}", ran.summary);
    assert_eq!(names(&ran, TestOutcome::Failed), ["fails"]);
}

#[test]
fn a_command_without_a_known_runner_has_no_report() {
    let ran = verify(&[("t.sh", "exit 0\n")], "sh t.sh");
    assert_eq!((ran.outcome, ran.report), (VerifyOutcome::Passed, None));
}

#[test]
fn a_project_whose_toolchain_and_cached_packages_lie_below_the_home_verifies_offline() {
    let manifest = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ncfg-if = \"1\"\n";
    let text = "cfg_if::cfg_if! { if #[cfg(unix)] { pub fn one() -> u8 { 1 } } else { pub fn one() -> u8 { 2 } } }\n\
        #[test]\nfn one_is_one() {\n    assert_eq!(one(), 1);\n\
        let home = std::env::var(\"HOME\").unwrap();\n    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);\n\
        let cargo = std::path::PathBuf::from(std::env::var(\"CARGO_HOME\").unwrap());\n\
        assert!(cargo.join(\"registry\").exists() && !cargo.join(\"credentials.toml\").exists());\n}\n";
    let ran = verify(&[("Cargo.toml", manifest), ("src/lib.rs", text)], "cargo test -q --offline --lib");
    assert_eq!(ran.outcome, VerifyOutcome::Passed, "{}", ran.summary);
    assert_eq!(names(&ran, TestOutcome::Passed), ["calc::one_is_one"]);
}
