//! Work is judged by the tests that it broke and those that it promised to mend, and the base's own tests are replayed
//! on the product that would land.

use ftl_needs::needs;
use serde_json::Value as Json;

use crate::support::Dir;

/// A product with a mistake, the test that shows it, and a test of something else that has always failed.
const CALC: &str = "def neg(x):\n    return x\n";
const TESTS: &str = "import unittest, calc\n\n\nclass T(unittest.TestCase):\n    def test_neg(self):\n        self.assertEqual(calc.neg(2), -2)\n\n    def test_zero(self):\n        self.assertEqual(calc.neg(0), 0)\n";
const LEGACY: &str = "import unittest\n\n\nclass L(unittest.TestCase):\n    def test_legacy(self):\n        self.assertEqual(1, 2)\n";

/// A repository with these files, a plan for one task over them, and a builder that writes some of them anew.
fn repository(files: &[(&str, &str)], slug: &str, writes: &[(&str, &str)]) -> Dir {
    let dir = Dir::repository();
    for (path, text) in files {
        dir.write(path, *text);
    }
    dir.write(".gitignore", "plan.json\n__pycache__/\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    let delta: Vec<&str> = writes.iter().map(|(path, _)| *path).collect();
    let plan = serde_json::json!({"objective": slug.replace('-', " "), "tasks": [{
        "seq": "001", "slug": slug, "type": "BUILD", "delta": delta, "verify": "python3 -m unittest",
        "budget": 9, "depends": "none"}]});
    let write = |(path, text): &(&str, &str)| {
        let call = serde_json::json!(text).to_string();
        format!("[[scene.step]]\ncalls = [{{ tool = \"write\", path = \"{path}\", content = {call} }}]\n")
    };
    let steps: String = writes.iter().map(write).collect();
    let scenes = format!(
        "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = {{ approach = \"write it\" }}\n\
         [[scene]]\nrole = \"builder\"\nform = \"implement\"\n{steps}[[scene.step]]\nsubmit = {{ summary = \"Done\", utilized = [] }}\n\
         [[scene]]\nrole = \"observer\"\n[[scene.step]]\nsubmit = {{ summary = \"nothing\" }}\n"
    );
    let agent = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\ndefault = \"play\"\n";
    dir.write("plan.json", plan.to_string()).write(".ftl/config.toml", agent).write(".ftl/play.toml", scenes);
    dir
}

/// Runs the plan; the answer, and whether it is complete.
fn build(dir: &Dir) -> (Json, bool) {
    let ended = dir.ftl(&["do it", "--plan", "plan.json", "--land", "ff", "--json"]);
    let json = ended.json();
    let is_complete = json["verdict"] == "complete";
    (json, is_complete)
}

#[needs(python3)]
#[test]
fn a_proof_that_lies_in_the_tests_does_not_land() {
    let bent = TESTS.replace("-2)", "2)");
    let product = format!("{CALC}\n\nX = 1\n");
    let files = [("calc.py", CALC), ("test_calc.py", TESTS)];
    let dir = repository(&files, "mend-neg", &[("calc.py", &product), ("test_calc.py", &bent)]);
    let (json, is_complete) = build(&dir);
    assert!(!is_complete, "{json}");
    assert!(json.to_string().contains("the proof lies in the tests"), "{json}");
    assert_eq!(dir.read("calc.py"), CALC);
}

#[needs(python3)]
#[test]
fn honest_work_with_new_tests_lands_and_says_what_was_replayed() {
    let more =
        format!("{TESTS}\n    def test_twice(self):\n        self.assertEqual(calc.neg(calc.neg(3)), 3)\n");
    let files = [("calc.py", CALC), ("test_calc.py", TESTS)];
    let mended = CALC.replace("return x", "return -x");
    let dir = repository(&files, "mend-neg", &[("calc.py", &mended), ("test_calc.py", &more)]);
    let (json, is_complete) = build(&dir);
    assert!(is_complete, "{json}");
    let told = dir.ftl(&["log", json["run"].as_str().unwrap(), "--all", "--json"]).out;
    assert!(told.contains("replay: 2 of the base's 2 tests pass on the new product"), "{told}");
    assert_eq!(dir.read("calc.py"), mended);
}

#[needs(python3)]
#[test]
fn an_old_failure_blocks_nobody_and_a_new_one_does() {
    let files =
        [("calc.py", "def one():\n    return 1\n"), ("test_legacy.py", LEGACY), ("test_calc.py", ONE)];
    let dir = repository(
        &files,
        "add-two",
        &[("calc.py", "def one():\n    return 1\n\n\ndef two():\n    return 2\n")],
    );
    let (json, is_complete) = build(&dir);
    assert!(is_complete, "{json}");
    let told = dir.ftl(&["log", json["run"].as_str().unwrap(), "--all", "--json"]).out;
    assert!(
        told.contains("failed before the work too, not held against it: test_legacy.L.test_legacy"),
        "{told}"
    );
    let dir = repository(&files, "add-two", &[("calc.py", "def one():\n    return 2\n")]);
    let (json, is_complete) = build(&dir);
    assert!(!is_complete && json.to_string().contains("broken by the work: test_calc.T.test_one"), "{json}");
}

const ONE: &str = "import unittest, calc\n\n\nclass T(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n";

#[needs(python3)]
#[test]
fn a_held_out_verify_decides_and_tells_no_agent_what_it_looked_at() {
    let files = [("calc.py", CALC), ("test_calc.py", TESTS)];
    let mended = CALC.replace("return x", "return -x");
    for (held_out, lands) in
        [("echo s3cret-check; grep -q nothing calc.py", false), ("grep -q -- -x calc.py", true)]
    {
        let dir = repository(&files, "mend-neg", &[("calc.py", &mended)]);
        let settings = format!("{}[verify]\nheld_out = \"{held_out}\"\n", dir.read(".ftl/config.toml"));
        dir.write(".ftl/config.toml", settings);
        let (json, is_complete) = build(&dir);
        assert_eq!(is_complete, lands, "{json}");
        assert_eq!(json.to_string().contains("the held-out verify of the settings fails"), !lands, "{json}");
        assert!(!json.to_string().contains("s3cret-check"), "{json}");
    }
}

#[needs(python3)]
#[test]
fn a_task_that_mends_needs_a_test_that_failed_before() {
    let files = [("calc.py", "def one():\n    return 1\n"), ("test_calc.py", ONE)];
    let product = "def one():\n    return int(1)\n";
    let idle = format!("{ONE}\n    def test_again(self):\n        self.assertEqual(calc.one(), 1)\n");
    let dir = repository(&files, "fix-one", &[("calc.py", product), ("test_calc.py", &idle)]);
    let (json, is_complete) = build(&dir);
    assert!(!is_complete && json.to_string().contains("new and green on the base too"), "{json}");
    let dir = repository(&files, "fix-one", &[("calc.py", product)]);
    let (json, is_complete) = build(&dir);
    assert!(!is_complete && json.to_string().contains("no test failed on the base and passes now"), "{json}");
    let red = format!("{ONE}\n    def test_text(self):\n        self.assertEqual(calc.text(), '1')\n");
    let text = format!("{product}\n\ndef text():\n    return '1'\n");
    let dir = repository(&files, "fix-one", &[("calc.py", &text), ("test_calc.py", &red)]);
    let (json, is_complete) = build(&dir);
    assert!(is_complete, "{json}");
}
