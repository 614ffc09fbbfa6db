//! The builder protocol on a real repository, with real tests: agents are scripts that really edit files.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::support::{Dir, until};

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
    briefed(script, &[task("001", "add-mul", &["calc.py"], "python3 -m unittest")])
}

fn task(seq: &str, slug: &str, delta: &[&str], verify: &str) -> Json {
    json!({ "seq": seq, "slug": slug, "delta": delta, "verify": verify, "budget": 6, "depends": "none" })
}

fn briefed(script: &str, tasks: &[Json]) -> Dir {
    let dir = Dir::repository();
    dir.write("calc.py", CALC).write("test_calc.py", TESTS).write(".gitignore", "__pycache__/\n.env\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    brief(&dir, script, tasks);
    dir
}

fn brief(dir: &Dir, script: &str, tasks: &[Json]) {
    let plan = json!({ "objective": "multiply numbers", "tasks": tasks });
    dir.write("plan.json", plan.to_string()).write("ftl.toml", BOUND).write("play.toml", script);
    dir.ftl(&["campaign", "create", "multiply numbers"]).code(0);
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
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
    assert_eq!(end["values"]["target"], json!("master"));
    assert_eq!(dir.git(&["diff", "--name-only", "HEAD", &branch]), "calc.py\n");
    let message = dir.git(&["log", "-1", "--format=%B", &branch]);
    assert!(
        message
            .starts_with("Add mul\n\nmultiply numbers\n\nFtl-Agent: play\nFtl-Task: 001-add-mul\nFtl-Run: "),
        "{message}"
    );
    assert_eq!(dir.git(&["log", "-1", "--format=%an", &branch]), "Ada\n");
    assert_eq!(person(&dir), before);
    assert_eq!(worktrees(&dir), [""; 0]);
    assert!(dir.path(".ftl/workspace/001_add-mul_complete.xml").exists());
}

/// The verdict and the reason with which a run ended.
fn verdict(dir: &Dir, run: &str) -> (String, String) {
    let end = last(dir, run);
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    (text(&end["end"]), text(&end["values"]["reason"]))
}

/// The refs under which work is kept.
fn kept(dir: &Dir) -> Vec<String> {
    let out = dir.git(&["for-each-ref", "--format=%(refname)", "refs/ftl/kept"]);
    out.lines().map(str::to_owned).collect()
}

#[test]
fn a_write_outside_the_delta_is_denied_and_the_work_goes_on() {
    if !has_python() {
        return;
    }
    let bad = r#"{ tool = "write", path = "test_calc.py", content = "" }, { tool = "write", path = "../../../calc.py", content = "" }"#;
    let dir = repository(&implements(&format!("{bad}, {GOOD}")));
    let before = person(&dir);
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!(dir.git(&["diff", "--name-only", "HEAD", &format!("ftl/{run}")]), "calc.py\n");
    assert_eq!(person(&dir), before);
}

/// One line a case: what the agent runs besides, what the delta names besides, what the reason says.
const CHEATS: &str = r#"
    rm test_calc.py                                              |              | test_calc.py: test_file_deleted
    sed -i 's/def test_mul/def xtest_mul/' test_calc.py          | test_calc.py | test_removed: the test Calc::test_mul
    sed -i 's/    def test_mul/    @unittest.skip("later")\n    def test_mul/' test_calc.py | test_calc.py | test_skipped
    sed -i 's/self.assertEqual(calc.mul(2, 3), 6)/calc.mul/' test_calc.py | test_calc.py | assertion_removed
    echo x > notes.txt                                           |              | notes.txt: outside_delta
    printf 'def add(a, b):\n    return a + b\n' > calc.py        |              | test_mul"#;

#[test]
fn a_cheat_is_caught_by_the_gates_and_its_work_is_kept() {
    if !has_python() {
        return;
    }
    for line in CHEATS.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let bash = format!("{{ tool = \"bash\", command = '''{}''' }}", cells[0]);
        let delta: Vec<&str> = ["calc.py", cells[1]].into_iter().filter(|path| !path.is_empty()).collect();
        let tasks = [task("001", "add-mul", &delta, "python3 -m unittest")];
        let dir = briefed(&implements(&format!("{GOOD}, {bash}")), &tasks);
        let (before, head) = (person(&dir), dir.git(&["rev-parse", "HEAD"]));
        let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
        let (ended, reason) = verdict(&dir, &run);
        assert_eq!(ended, "blocked", "{line}\n{reason}");
        assert!(reason.contains(cells[2]), "{line}\n{reason}");
        assert_eq!(dir.git(&["rev-parse", &format!("ftl/{run}")]), head, "{line}");
        assert_eq!((worktrees(&dir).len(), person(&dir)), (0, before), "{line}");
        let kept = kept(&dir);
        if cells[0].starts_with("printf") {
            assert!(kept.is_empty(), "nothing was changed");
        } else {
            assert_eq!(kept.len(), 1, "{line}");
            assert!(!dir.git(&["diff", "--stat", "HEAD", &kept[0]]).is_empty(), "{line}");
        }
        assert!(dir.path(".ftl/workspace/001_add-mul_blocked.xml").exists());
    }
}

const HALF: &str = r#"{ tool = "write", path = "calc.py", content = "def add(a, b):\n    return b + a\n" }"#;

#[test]
fn what_was_red_before_is_told_as_red_before() {
    if !has_python() {
        return;
    }
    let dir = repository(&implements(HALF));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!(ended, "blocked");
    assert!(reason.contains("it failed before the work too") && reason.contains("test_mul"), "{reason}");
}

#[test]
fn a_direct_build_that_fails_leaves_the_brief_and_no_worktree() {
    if !has_python() {
        return;
    }
    let dir = repository(&implements(HALF));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=direct"]);
    assert_eq!(verdict(&dir, &run).0, "escalated");
    assert_eq!(worktrees(&dir), [""; 0]);
    assert_eq!(kept(&dir).len(), 1);
    assert!(dir.path(".ftl/workspace/001_add-mul_active.xml").exists());
}

#[test]
fn a_command_that_cannot_run_or_changes_files_is_not_taken_for_an_answer() {
    if !has_python() {
        return;
    }
    let cases = [
        ("no-such-program --all", "not found"),
        ("python3 -m unittest; echo >> left.txt", "changes files that git does not ignore: left.txt"),
    ];
    for (verify, wanted) in cases {
        let dir = briefed(&implements(GOOD), &[task("001", "add-mul", &["calc.py"], verify)]);
        let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
        let (ended, reason) = verdict(&dir, &run);
        assert_eq!(ended, "blocked", "{verify}: {reason}");
        assert!(reason.contains(wanted), "{verify}: {reason}");
        assert_eq!(worktrees(&dir), [""; 0]);
    }
}

#[test]
fn without_a_repository_a_builder_says_what_to_do() {
    let dir = Dir::new();
    dir.write("calc.py", CALC);
    brief(&dir, &implements(GOOD), &[task("001", "add-mul", &["calc.py"], "true")]);
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full"]);
    let (_, reason) = verdict(&dir, &run);
    assert!(reason.contains("is in no git repository") && reason.contains("git init"), "{reason}");
}

#[test]
fn every_checkout_is_set_up_and_gets_the_ignored_files_that_are_listed() {
    if !has_python() {
        return;
    }
    let verify = "test \"$(cat .env)\" = word && python3 -m unittest";
    let dir = briefed(&implements(GOOD), &[task("001", "add-mul", &["calc.py"], verify)]);
    let setups = dir.path("setups").display().to_string();
    let setup = format!("[worktree]\nsetup = \"echo x >> '{setups}'\"\ncopy = [\".env\"]\n");
    dir.write("ftl.toml", format!("{BOUND}{setup}")).write(".env", "word");
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    assert_eq!(dir.read("setups"), "x\nx\nx\n", "the worktree, the base, the landing");
    // A worktree that cannot be set up is none.
    let dir = briefed(&implements(GOOD), &[task("001", "add-mul", &["calc.py"], verify)]);
    dir.write("ftl.toml", format!("{BOUND}[worktree]\nsetup = \"echo no room >&2; exit 3\"\n"));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    let (_, reason) = verdict(&dir, &run);
    assert!(reason.contains("could not be set up") && reason.contains("no room"), "{reason}");
}

/// Two builders of one run. Both are in the middle of their work before either goes on.
const TWO: &str = "STATE: START\n  DO: both = PARALLEL\n    \
    - Run(builder) workspace=\".ftl/workspace/001_add-mul_active.xml\" mode=full budget=6\n    \
    - Run(builder) workspace=\".ftl/workspace/002_add-sub_active.xml\" mode=full budget=6\n  \
    RETURN: complete both={both}\n";

fn two(resolve: &str) -> (Dir, String) {
    let implement = |slug: &str, name: &str, sign: &str, meet: &str| {
        format!(
            "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"{slug}\"\n[[scene.step]]\ncalls = [\
             {{ tool = \"write\", path = \"calc.py\", content = \"def add(a, b):\\n    return a + b\\n\\n\\n\
             def {name}(a, b):\\n    return a {sign} b\\n\" }}, {{ tool = \"bash\", command = \"{meet}\" }}]\n\
             [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
        )
    };
    let script = format!(
        "{PLANS}{}{}[[scene]]\nrole = \"builder\"\nform = \"resolve\"\n{resolve}",
        implement("001-add-mul", "mul", "*", "echo 1 > ../../../one; cat ../../../other"),
        implement("002-add-sub", "sub", "-", "cat ../../../one; echo 1 > ../../../other"),
    );
    let verify = |test: &str| format!("python3 -m unittest {test}");
    let tasks = [
        task("001", "add-mul", &["calc.py"], &verify("test_calc")),
        task("002", "add-sub", &["calc.py"], &verify("test_sub")),
    ];
    let dir = Dir::repository();
    let sub = "import unittest\n\nimport calc\n\n\nclass Sub(unittest.TestCase):\n    \
        def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n";
    dir.write("calc.py", CALC).write("test_calc.py", TESTS).write("test_sub.py", sub);
    dir.write(".gitignore", "__pycache__/\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    brief(&dir, &script, &tasks);
    // One that waits for another one that is gone is ended, and the test with it.
    dir.write("ftl.toml", format!("{BOUND}[process]\nsilence = \"30s\"\n")).protocol("two", TWO);
    for name in ["one", "other"] {
        assert!(Command::new("mkfifo").arg(dir.path(name)).status().unwrap().success());
    }
    let (run, json) = dir.run(&["two"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    (dir, run)
}

/// What became of the two.
fn both(dir: &Dir, run: &str) -> Json {
    last(dir, run)["values"]["both"].clone()
}

#[test]
fn a_conflict_between_two_builders_is_resolved_and_both_land() {
    if !has_python() {
        return;
    }
    let all = "[[scene.step]]\ncalls = [{ tool = \"write\", path = \"calc.py\", content = \"def add(a, b):\\n    return a + b\\n\\n\\n\
        def mul(a, b):\\n    return a * b\\n\\n\\ndef sub(a, b):\\n    return a - b\\n\" }]\n\
        [[scene.step]]\nsubmit = { summary = \"both\" }\n";
    let (dir, run) = two(all);
    let branch = format!("ftl/{run}");
    let subjects = dir.git(&["log", "--format=%s", &format!("HEAD..{branch}")]);
    let mut subjects: Vec<&str> = subjects.lines().collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["Add mul", "Add sub"], "{:#?}", both(&dir, &run));
    let calc = dir.git(&["show", &format!("{branch}:calc.py")]);
    assert!(calc.contains("def mul") && calc.contains("def sub") && !calc.contains("<<<<"), "{calc}");
    assert_eq!(worktrees(&dir), [""; 0]);
}

#[test]
fn a_conflict_that_nobody_resolves_blocks_with_its_work_kept() {
    if !has_python() {
        return;
    }
    let (dir, run) = two("[[scene.step]]\nsubmit = { summary = \"left as it is\" }\n");
    let branch = format!("ftl/{run}");
    assert_eq!(dir.git(&["rev-list", "--count", &format!("HEAD..{branch}")]), "1\n");
    let told = both(&dir, &run).to_string();
    assert!(told.contains("marks of the conflict are left in calc.py"), "{told}");
    let landed = dir.git(&["show", &format!("{branch}:calc.py")]);
    let mine = if landed.contains("def mul") { "def sub" } else { "def mul" };
    let show = |name: &String| dir.git(&["show", &format!("{name}:calc.py")]);
    let all: Vec<String> = kept(&dir).iter().map(show).collect();
    assert!(all.iter().any(|text| text.contains(mine) && !text.contains("<<<<")), "{all:?}");
    assert_eq!(worktrees(&dir), [""; 0]);
}

#[test]
fn killed_anywhere_and_resumed_it_lands_once() {
    if !has_python() {
        return;
    }
    // In the base run, in verify.run, in the landing: the command waits in one of its runs, for ever.
    for at in 1..=3 {
        let dir = repository("");
        let (count, gate) = (dir.path("count").display().to_string(), dir.path("gate").display().to_string());
        let wait = format!(
            "echo x >> '{count}'; if [ $(wc -l < '{count}') -eq {at} ]; then cat '{gate}'; fi; python3 -m unittest"
        );
        fs::remove_dir_all(dir.path(".ftl")).unwrap();
        brief(&dir, &implements(GOOD), &[task("001", "add-mul", &["calc.py"], &wait)]);
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let before = person(&dir);
        let driving = dir.start(&["run", "builder", BRIEF, "mode=full", "budget=6"]);
        let lines = || fs::read_to_string(&count).unwrap_or_default().lines().count();
        until("the command waits", || lines() == at);
        driving.signal(Signal::KILL);
        driving.ended().code(-9);
        let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
        dir.ftl(&["resume", &run]).code(0);
        assert_eq!(dir.status(&run)["standing"], "complete", "{:?}", verdict(&dir, &run));
        let branch = format!("ftl/{run}");
        assert_eq!(dir.git(&["rev-list", "--count", &format!("HEAD..{branch}")]), "1\n", "run {at}");
        assert!(dir.git(&["show", &format!("{branch}:calc.py")]).contains("def mul"));
        assert_eq!(person(&dir)[1..], before[1..], "run {at}");
        assert_eq!(worktrees(&dir), [""; 0], "run {at}");
    }
}

const DELIVERS: &str = "INPUT: how = ff | squash | branch-only\nSTATE: START\n  \
    DO: build = Run(builder) workspace=\".ftl/workspace/001_add-mul_active.xml\" mode=full budget=6\n  \
    DO: done = branch.deliver how={how}\n  RETURN: complete status={done.status} summary={done.summary}\n";

#[test]
fn finished_work_is_delivered_as_asked() {
    if !has_python() {
        return;
    }
    let cases = [("ff", "landed", true), ("squash", "landed", true), ("branch-only", "kept", false)];
    for (how, status, moved) in cases {
        let dir = repository(&implements(GOOD));
        dir.protocol("delivers", DELIVERS);
        let head = dir.git(&["rev-parse", "HEAD"]);
        let (run, json) = dir.run(&["delivers", &format!("how={how}")]);
        assert_eq!(json["standing"], "complete", "{json:#}");
        assert_eq!(last(&dir, &run)["values"]["status"], status, "{how}");
        assert_eq!(dir.git(&["rev-parse", "HEAD"]) != head, moved, "{how}");
        assert_eq!(dir.read("calc.py").contains("def mul"), moved, "{how}");
        assert_eq!(dir.git(&["diff", "HEAD", "--name-only"]), "", "{how}");
    }
}

const READS: &str = "STATE: START\n  \
    CHECK: spec = workspace.parse path=\".ftl/workspace/001_add-mul_active.xml\"\n  \
    DO: work = Task(builder) step=implement spec={spec} approach=\"x\" write={spec.delta}\n  \
    CHECK: own = file.read path=\"calc.py\"\n  \
    CHECK: out = file.read path=\"link\" ELSE END with text={own.text}\n  \
    RETURN: error reason={out.text}\n\
    STATE: END with text\n  RETURN: complete text={text}\n";

#[test]
fn a_file_is_read_where_the_instance_works_and_no_link_leads_out() {
    let link = r#"{ tool = "bash", command = "ln -s ../../../secret link" }"#;
    let dir = repository(&implements(&format!("{GOOD}, {link}")));
    dir.protocol("reads", READS).write("secret", "word");
    let (run, json) = dir.run(&["reads"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    let text = last(&dir, &run)["values"]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("def mul"), "{text}");
    assert_eq!((worktrees(&dir).len(), kept(&dir).len()), (0, 1), "nobody landed it, so it is kept");
}

#[test]
fn a_project_in_a_folder_of_its_repository_is_built_there() {
    if !has_python() {
        return;
    }
    let stray = r#"{ tool = "bash", command = "echo x > ../stray.txt" }"#;
    for (calls, wanted) in [(GOOD.to_owned(), "complete"), (format!("{GOOD}, {stray}"), "blocked")] {
        let dir = Dir::repository();
        dir.write("part/calc.py", CALC)
            .write("part/test_calc.py", TESTS)
            .write(".gitignore", "__pycache__/\n");
        dir.git(&["add", "-A"]);
        dir.git(&["commit", "-qm", "begin"]);
        let tasks = [task("001", "add-mul", &["calc.py"], "python3 -m unittest")];
        let plan = json!({ "objective": "multiply numbers", "tasks": tasks });
        dir.write("plan.json", plan.to_string()).write("part/ftl.toml", BOUND);
        dir.write("part/play.toml", implements(&calls));
        dir.ftl(&["--repo", "part", "campaign", "create", "multiply numbers"]).code(0);
        dir.ftl(&["--repo", "part", "workspace", "create", "--plan", "plan.json"]).code(0);
        let said = dir.ftl(&["--repo", "part", "run", "builder", BRIEF, "mode=full", "budget=6", "--json"]);
        let json = said.json();
        assert_eq!(json["standing"], wanted, "{json:#}");
        let branch = format!("ftl/{}", json["run"].as_str().unwrap());
        let landed = dir.git(&["diff", "--name-only", "HEAD", &branch]);
        assert_eq!(landed, if wanted == "complete" { "part/calc.py\n" } else { "" });
        assert_eq!(said.out.contains("../stray.txt: outside_delta"), wanted == "blocked", "{said:#?}");
    }
}

const STORY: &str = "INPUT: story\nSTATE: START\n  DO: site = worktree.open story={story}\n  \
    DO: work = Task(coder) feedback=\"go\" write={site.path}\n  \
    CHECK: tests = tests.run site={site}\n  CHECK: progress = worktree.progress site={site}\n  \
    IF: NOT tests.passed → GOTO FAILED with site={site} why={tests.summary}\n  \
    DO: merge = work.merge tree={tests.tree}\n  DO: closed = worktree.close site={site}\n  \
    RETURN: complete summary={merge.summary} status={merge.status} files={progress.files} last={progress.last_tests}\n\
    STATE: FAILED with site, why\n  DO: kept = worktree.keep site={site}\n  \
    RETURN: error reason={why} kept={kept.kept}\n";

fn coded(calls: &str, settings: &str) -> (Dir, String) {
    let dir = Dir::repository();
    dir.write("calc.py", CALC).write("test_calc.py", TESTS).write(".gitignore", "__pycache__/\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let bound = BOUND.replace("builder", "coder");
    dir.protocol("story", STORY).write("ftl.toml", format!("{bound}{settings}"));
    dir.write(
        "play.toml",
        format!(
            "[[scene]]\n[[scene.step]]\ncalls = [{calls}]\n[[scene.step]]\nsubmit = {{ summary = \"x\" }}\n"
        ),
    );
    let (run, _) = dir.run(&["story", "story=Teach it to multiply"]);
    (dir, run)
}

#[test]
fn a_story_is_coded_tested_and_merged_in_its_worktree() {
    if !has_python() {
        return;
    }
    let (dir, run) = coded(GOOD, "");
    let end = last(&dir, &run);
    assert_eq!((&end["end"], &end["values"]["status"]), (&json!("complete"), &json!("landed")), "{end:#}");
    assert_eq!(end["values"]["files"], json!(["calc.py"]));
    assert_eq!(end["values"]["last"], "all passed");
    let message = dir.git(&["log", "-1", "--format=%B", &format!("ftl/{run}")]);
    assert!(message.starts_with("Teach it to multiply\n\nFtl-Agent: play\nFtl-Run: "), "{message}");
    assert_eq!((worktrees(&dir).len(), kept(&dir).len()), (0, 0));
}

#[test]
fn a_story_whose_tests_are_red_or_missing_is_not_merged_and_is_kept() {
    if !has_python() {
        return;
    }
    let (dir, run) = coded(HALF, "");
    let end = last(&dir, &run);
    assert_eq!(end["end"], "error", "{end:#}");
    assert!(end["values"]["reason"].as_str().unwrap().contains("test_mul"), "{end:#}");
    let name = end["values"]["kept"].as_str().unwrap();
    assert!(dir.git(&["show", &format!("{name}:calc.py")]).contains("return b + a"));
    assert_eq!(worktrees(&dir), [""; 0]);
    // A lint that fails is told as such, and so is a test that was taken away.
    let (dir, run) = coded(GOOD, "[worktree]\nlints = [\"echo untidy; exit 1\"]\n");
    assert!(verdict(&dir, &run).1.contains("untidy"), "{:?}", verdict(&dir, &run));
    let cheat = r#"{ tool = "bash", command = "sed -i '/test_mul/,$d' test_calc.py" }"#;
    let (dir, run) = coded(cheat, "");
    assert!(verdict(&dir, &run).1.contains("test_removed"), "{:?}", verdict(&dir, &run));
}

/// A scene in which a builder writes a file once and submits a repair.
fn repairs(form: &str, told: &str, call: &str) -> String {
    format!(
        "[[scene]]\nrole = \"builder\"\nform = \"{form}\"\ntold = \"{told}\"\n[[scene.step]]\ncalls = [{call}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"mended\" }}\n"
    )
}

#[test]
fn a_known_failure_is_mended_by_its_lesson_and_verified_again() {
    if !has_python() {
        return;
    }
    let script = implements(HALF) + &repairs("apply_fix", "define mul in calc", GOOD);
    let dir = repository(&script);
    let lesson = json!({ "name": "no-mul", "trigger": "AttributeError: module 'calc' has no attribute 'mul'",
        "fix": "define mul in calc", "cost": 900 });
    dir.ftl(&["memory", "add-failure", "--json", &lesson.to_string()]).code(0);
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=7"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    assert!(dir.git(&["show", &format!("ftl/{run}:calc.py")]).contains("def mul"));
}

#[test]
fn broken_syntax_is_found_before_a_verify_is_paid_and_mended() {
    if !has_python() {
        return;
    }
    let broken = r#"{ tool = "write", path = "calc.py", content = "def add(a, b)\n    return a + b\n" }"#;
    let dir = repository(&(implements(broken) + &repairs("fix_syntax", "calc.py", GOOD)));
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    // Nobody mends it: the attempts are spent, and nothing was verified.
    let dir = repository(&(implements(broken) + &repairs("fix_syntax", "calc.py", broken)));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!((ended.as_str(), kept(&dir).len()), ("blocked", 1), "{reason}");
}

#[test]
fn an_idiom_blocks_where_the_framework_is_sure_and_is_noted_where_it_is_not() {
    if !has_python() {
        return;
    }
    let loud = GOOD.replace("return a * b", "print(a)\\n    return a * b");
    assert!(loud.contains("print"));
    for (confidence, wanted) in [(0.9, "blocked"), (0.3, "complete")] {
        let dir = repository(&implements(&loud));
        fs::remove_dir_all(dir.path(".ftl")).unwrap();
        let plan = json!({ "objective": "multiply numbers", "framework": "Plain", "framework_confidence": confidence,
            "idioms": { "required": [], "forbidden": ["print($$$)"] },
            "tasks": [task("001", "add-mul", &["calc.py"], "python3 -m unittest")] });
        dir.write("plan.json", plan.to_string());
        dir.ftl(&["campaign", "create", "multiply numbers"]).code(0);
        dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
        let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
        assert_eq!(json["standing"], wanted, "{:?}", verdict(&dir, &run));
        if wanted == "blocked" {
            assert!(verdict(&dir, &run).1.contains("idiom violation"), "{:?}", verdict(&dir, &run));
        }
    }
}
