//! The builder protocol on a real repository, with real tests: agents are scripts that really edit files.

use std::fs;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::Dir;

const CALC: &str = "def add(a, b):\n    return a + b\n";

const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    \
    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n    \
    def test_mul(self):\n        self.assertEqual(calc.mul(2, 3), 6)\n";

const BOUND: &str =
    "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nbuilder = \"play\"\n";

const PLANS: &str =
    "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = { approach = \"write it\" }\n";

/// What is written in the first step of an implementation, then submitted.
fn implements(calls: &str) -> String {
    format!(
        "{PLANS}[[scene]]\nrole = \"builder\"\nform = \"implement\"\n[[scene.step]]\ncalls = [{calls}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
    )
}

const GOOD: &str = r#"{ tool = "write", path = "calc.py", content = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a * b\n" }"#;

/// A repository with a program that has a test too many, and a brief to make it pass.
fn repository(script: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("calc.py", CALC).write("test_calc.py", TESTS).write(".gitignore", "__pycache__/\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let plan = json!({ "objective": "multiply numbers", "tasks": [
        { "seq": "001", "slug": "add-mul", "delta": ["calc.py"], "verify": "python3 -m unittest",
          "verify_source": "test_calc.py", "budget": 6, "depends": "none" } ] });
    dir.write("plan.json", plan.to_string()).write("ftl.toml", BOUND).write("play.toml", script);
    dir.ftl(&["campaign", "create", "multiply numbers"]).code(0);
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    dir
}

const BRIEF: &str = "workspace=.ftl/workspace/001_add-mul_active.xml";

/// Whether tests of Python can be run here.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("SKIPPED: python3 is not installed, so no test of it can be run");
    }
    found
}

/// What the person has: their checkout, index, branch and stash.
fn person(dir: &Dir) -> [String; 4] {
    [
        dir.git(&["status", "--porcelain"]),
        dir.git(&["rev-parse", "HEAD"]),
        dir.git(&["stash", "list"]),
        dir.git(&["ls-files", "-s", "--debug"]),
    ]
}

fn last(dir: &Dir, run: &str) -> Json {
    dir.entries(run).pop().unwrap()
}

fn worktrees(dir: &Dir) -> Vec<String> {
    let Ok(all) = fs::read_dir(dir.path(".ftl/worktrees")) else { return Vec::new() };
    all.map(|one| one.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_brief_becomes_a_verified_commit_and_the_person_s_checkout_is_not_touched() {
    if !has_python() {
        return;
    }
    let dir = repository(&implements(GOOD));
    let before = person(&dir);
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{json:#}\n{:#?}", dir.entries(&run));
    let branch = format!("ftl/{run}");
    let end = last(&dir, &run);
    let commit = dir.git(&["rev-parse", &branch]).trim().to_owned();
    assert_eq!(end["values"]["commit"], json!(commit), "{end:#}");
    assert_eq!(end["values"]["target"], json!(branch));
    assert_eq!(dir.git(&["diff", "--name-only", "HEAD", &branch]), "calc.py\n");
    let message = dir.git(&["log", "-1", "--format=%B", &branch]);
    assert!(
        message.starts_with("Add mul\n\nmultiply numbers\n\nFtl-Task: 001-add-mul\nFtl-Run: "),
        "{message}"
    );
    assert_eq!(dir.git(&["log", "-1", "--format=%an", &branch]), "Ada\n");
    assert_eq!(person(&dir), before);
    assert_eq!(worktrees(&dir), [""; 0]);
    assert!(dir.path(".ftl/workspace/001_add-mul_complete.xml").exists());
}
