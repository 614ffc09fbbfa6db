//! The builder protocol on a real repository, with real tests: agents are scripts that really edit files.

use std::fs;
use std::process::Command;

use ftl_needs::needs;
use ftl_testkit::model_server::ModelServer;
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

#[needs(python3)]
#[test]
fn a_brief_becomes_a_verified_commit_and_the_person_s_checkout_is_not_touched() {
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
fn list_kept(dir: &Dir) -> Vec<String> {
    let out = dir.git(&["for-each-ref", "--format=%(refname)", "refs/ftl/kept"]);
    out.lines().map(str::to_owned).collect()
}

#[needs(python3)]
#[test]
fn a_write_outside_the_delta_is_denied_and_the_work_goes_on() {
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

#[needs(python3)]
#[test]
fn a_cheat_is_caught_by_the_gates_and_its_work_is_kept() {
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
        let kept = list_kept(&dir);
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

#[needs(python3)]
#[test]
fn what_was_red_before_is_told_as_red_before() {
    let dir = repository(&implements(HALF));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!(ended, "blocked");
    assert!(reason.contains("it failed before the work too") && reason.contains("test_mul"), "{reason}");
}

#[needs(python3)]
#[test]
fn a_direct_build_that_fails_leaves_the_brief_and_no_worktree() {
    let dir = repository(&implements(HALF));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=direct"]);
    assert_eq!(verdict(&dir, &run).0, "escalated");
    assert_eq!(worktrees(&dir), [""; 0]);
    assert_eq!(list_kept(&dir).len(), 1);
    assert!(dir.path(".ftl/workspace/001_add-mul_active.xml").exists());
}

#[needs(python3)]
#[test]
fn a_command_that_cannot_run_or_changes_files_is_not_taken_for_an_answer() {
    // What is not installed is no matter of the work: nobody is asked, and the step is held.
    let dir = briefed(&implements(GOOD), &[task("001", "add-mul", &["calc.py"], "no-such-program --all")]);
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "held", "{json:#}");
    let entries = dir.entries(&run).iter().map(ToString::to_string).collect::<String>();
    assert!(entries.contains("there is no program `no-such-program`"), "{entries}");
    let verify = "python3 -m unittest; echo >> left.txt";
    let dir = briefed(&implements(GOOD), &[task("001", "add-mul", &["calc.py"], verify)]);
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!(ended, "blocked", "{reason}");
    assert!(reason.contains("changes files that git does not ignore: left.txt"), "{reason}");
    assert_eq!(worktrees(&dir), [""; 0]);
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

#[needs(python3)]
#[test]
fn every_checkout_is_set_up_and_gets_the_ignored_files_that_are_listed() {
    let verify = "test \"$(cat .env)\" = word && python3 -m unittest";
    let dir = briefed(&implements(GOOD), &[task("001", "add-mul", &["calc.py"], verify)]);
    let setups = dir.path("setups").display().to_string();
    let setup = format!("[worktree]\nsetup = \"echo x >> '{setups}'\"\ncopy = [\".env\"]\n");
    dir.write("ftl.toml", format!("{BOUND}{setup}")).write(".env", "word");
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    assert_eq!(dir.read("setups"), "x\nx\nx\n", "the worktree, the base, the verify");
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

#[needs(python3)]
#[test]
fn a_conflict_between_two_builders_is_resolved_and_both_land() {
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

#[needs(python3)]
#[test]
fn a_conflict_that_nobody_resolves_blocks_with_its_work_kept() {
    let (dir, run) = two("[[scene.step]]\nsubmit = { summary = \"left as it is\" }\n");
    let branch = format!("ftl/{run}");
    assert_eq!(dir.git(&["rev-list", "--count", &format!("HEAD..{branch}")]), "1\n");
    let told = both(&dir, &run).to_string();
    assert!(told.contains("marks of the conflict are left in calc.py"), "{told}");
    let landed = dir.git(&["show", &format!("{branch}:calc.py")]);
    let mine = if landed.contains("def mul") { "def sub" } else { "def mul" };
    let show = |name: &String| dir.git(&["show", &format!("{name}:calc.py")]);
    let all: Vec<String> = list_kept(&dir).iter().map(show).collect();
    assert!(all.iter().any(|text| text.contains(mine) && !text.contains("<<<<")), "{all:?}");
    assert_eq!(worktrees(&dir), [""; 0]);
}

#[needs(python3)]
#[test]
fn killed_anywhere_and_resumed_it_lands_once() {
    // In the base run, in verify.run: the command waits in one of its runs, for ever. The landing takes what
    // verify.run has shown of the same tree, and `torture` kills landings of other trees.
    for at in 1..=2 {
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

#[needs(python3)]
#[test]
fn finished_work_is_delivered_as_asked() {
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
    assert_eq!((worktrees(&dir).len(), list_kept(&dir).len()), (0, 1), "nobody landed it, so it is kept");
}

#[needs(python3)]
#[test]
fn a_project_in_a_folder_of_its_repository_is_built_there() {
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

#[needs(python3)]
#[test]
fn a_story_is_coded_tested_and_merged_in_its_worktree() {
    let (dir, run) = coded(GOOD, "");
    let end = last(&dir, &run);
    assert_eq!((&end["end"], &end["values"]["status"]), (&json!("complete"), &json!("landed")), "{end:#}");
    assert_eq!(end["values"]["files"], json!(["calc.py"]));
    assert_eq!(end["values"]["last"], "all passed");
    let message = dir.git(&["log", "-1", "--format=%B", &format!("ftl/{run}")]);
    assert!(message.starts_with("Teach it to multiply\n\nFtl-Agent: play\nFtl-Run: "), "{message}");
    assert_eq!((worktrees(&dir).len(), list_kept(&dir).len()), (0, 0));
}

#[needs(python3)]
#[test]
fn a_story_whose_tests_are_red_or_missing_is_not_merged_and_is_kept() {
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

#[needs(python3)]
#[test]
fn a_known_failure_is_mended_by_its_lesson_and_verified_again() {
    let script = implements(HALF) + &repairs("apply_fix", "define mul in calc", GOOD);
    let dir = repository(&script);
    let lesson = json!({ "name": "no-mul", "trigger": "AttributeError: module 'calc' has no attribute 'mul'",
        "fix": "define mul in calc", "cost": 900 });
    dir.ftl(&["memory", "add-failure", "--json", &lesson.to_string()]).code(0);
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=7"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    assert!(dir.git(&["show", &format!("ftl/{run}:calc.py")]).contains("def mul"));
}

#[needs(python3)]
#[test]
fn broken_syntax_is_found_before_a_verify_is_paid_and_mended() {
    let broken = r#"{ tool = "write", path = "calc.py", content = "def add(a, b)\n    return a + b\n" }"#;
    let dir = repository(&(implements(broken) + &repairs("fix_syntax", "calc.py", GOOD)));
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    // Nobody mends it: the attempts are spent, and nothing was verified.
    let dir = repository(&(implements(broken) + &repairs("fix_syntax", "calc.py", broken)));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!((ended.as_str(), list_kept(&dir).len()), ("blocked", 1), "{reason}");
}

#[needs(python3)]
#[test]
fn an_idiom_blocks_where_the_framework_is_sure_and_is_noted_where_it_is_not() {
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

/// A model that writes calls as text, and fills an answer until it is cut off.
fn with_small_model(steps: &Json) -> (Dir, ModelServer) {
    let dir = repository("");
    let server = ModelServer::start(json!({ "small": { "steps": steps } })).unwrap();
    dir.write("ftl.toml", "[roles]\nbuilder = \"local\"\n").write(
        ".ftl/config.toml",
        format!(
            "[agents.local]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"{}\"\nmodel = \"local\"\ncalls = \"schema\"\n\
             context = 8192\nmax_output = 600\nprice = 0\n",
            server.url("small")
        ),
    );
    (dir, server)
}

fn good_write() -> Json {
    let content = format!("{CALC}\n\ndef mul(a, b):\n    return a * b\n");
    json!({ "name": "write", "args": { "path": "calc.py", "content": content } })
}

#[needs(python3)]
#[test]
fn a_small_local_model_takes_a_task_to_its_end() {
    let done = json!({ "name": "submit", "args": { "summary": "written", "utilized": [] } });
    // In PLAN there is no tool to write with: it fills its answer until that ends.
    let (dir, server) = with_small_model(&json!([{ "call": good_write(), "fills": true }, { "call": done }]));
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{json:#}\n{:#?}", server.log());
    assert_eq!(server.log().len(), 3, "one request for the plan, two for the work");
    let meters = dir.status(&run)["meters"].clone();
    assert_eq!((&meters["money"]["used"], &meters["money"]["unknown"]), (&json!(0), &json!(0)), "{meters:#}");
}

#[needs(python3)]
#[test]
fn a_plan_that_cannot_be_had_does_not_end_the_task() {
    let never = "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n".to_owned()
        + &"[[scene.step]]\nreply = \"I would write it.\"\n".repeat(3);
    let dir = repository(&implements(GOOD).replace(PLANS, &never));
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    let told = Json::from(dir.entries(&run)).to_string();
    assert!(told.contains("There is no plan (3 answers in a row do not fit"), "{told}");
}

/// Reads a file, and a file again, before it writes and edits it.
const READS_FIRST: &str = r#"{ tool = "read", path = "calc.py" }, { tool = "read", path = "./calc.py" }, { tool = "write", path = "calc.py", content = "def add(a, b):\n    return a + b\n" }, { tool = "edit", path = "calc.py", old = "    return a + b\n", new = "    return a + b\n\n\ndef mul(a, b):\n    return a * b\n" }"#;

#[needs(python3)]
#[test]
fn a_file_is_paid_for_once_and_a_command_each_time() {
    // One for READ, one for the file, one for VERIFY.
    let dir = repository(&implements(READS_FIRST));
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=3"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    let paid: Vec<Json> = dir.entries(&run).into_iter().filter(|entry| entry["file"] == "calc.py").collect();
    assert_eq!(paid.len(), 1, "{paid:#?}");
    // Two equal commands are two.
    let twice = r#"{ tool = "bash", command = "true" }, { tool = "bash", command = "true" }"#;
    let dir = repository(&implements(&format!("{READS_FIRST}, {twice}")));
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=4"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!((ended.as_str(), reason.as_str()), ("escalated", "tools spent: the limit is 4"));
}

#[needs(python3)]
#[test]
fn reading_the_brief_is_free_in_direct() {
    // One for each of the two files, one for VERIFY.
    let dir =
        repository(&implements(&format!(r#"{{ tool = "read", path = "test_calc.py" }}, {READS_FIRST}"#)));
    let (run, json) = dir.run(&["builder", BRIEF, "mode=direct"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
}

#[needs(python3)]
#[test]
fn a_builder_looks_around_while_it_plans_as_far_as_its_brief_lets_it() {
    let looks = "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\ncalls = [{ tool = \"read\", path = \
        \"calc.py\" }, { tool = \"read\", path = \"calc.py\" }, { tool = \"read\", path = \"test_calc.py\" }]\n\
        [[scene.step]]\nsubmit = { approach = \"write it\" }\n";
    let script = implements(GOOD).replace(PLANS, looks);
    for (reads, denied) in [(0, "there is no tool `read` here"), (1, "all 1 calls are used up"), (2, "")] {
        let mut one = task("001", "add-mul", &["calc.py"], "python3 -m unittest");
        one["plan_reads"] = json!(reads);
        let dir = briefed(&script, &[one]);
        let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=6"]);
        assert_eq!(json["standing"], "complete", "{reads}: {:?}", verdict(&dir, &run));
        let told = dir.ftl(&["transcript", &run, "--all"]).code(0).out;
        let denials =
            told.lines().filter(|line| line.contains("there is no tool") || line.contains("used up"));
        let denials: Vec<&str> = denials.collect();
        assert_eq!(denials.is_empty(), denied.is_empty(), "{reads}: {denials:?}");
        assert!(denials.iter().all(|line| line.contains(denied)), "{reads}: {denials:?}");
    }
}

/// A plan of one task for the task flow; fields are added to the task.
fn flow_plan(dir: &Dir, fields: &Json) {
    let mut one =
        json!({ "seq": "001", "slug": "add-mul", "delta": ["calc.py"], "verify": "python3 -m unittest" });
    for (key, value) in fields.as_object().unwrap() {
        one[key] = value.clone();
    }
    dir.write("plan.json", json!({ "objective": "multiply numbers", "tasks": [one] }).to_string());
}

/// Settings | fields of the task | words of the command line → how the first build begins.
const BUDGETS: &str = r#"
                                                      | {}                          |            → builder direct, 3 tools
                                                      | {"budget": 9}               |            → builder full, 9 tools
                                                      | {"direct": "never"}         |            → builder full, 5 tools
    [builder]\ntools = 40\ndirect = "never"           | {}                          |            → builder full, 40 tools
    [builder]\ntools_factor = 3                       | {"budget": 4}               |            → builder full, 15 tools
                                                      | {"budget": 9}               | --tools 25 → builder full, 25 tools
    [builder]\ntools = 40                             | {}                          | --tools 12 → builder full, 12 tools"#;

#[needs(python3)]
#[test]
fn the_budget_of_a_build_comes_from_command_line_plan_and_settings() {
    for line in BUDGETS.lines().filter(|line| !line.trim().is_empty()) {
        let (given, wanted) = line.split_once('→').unwrap();
        let cells: Vec<&str> = given.split('|').map(str::trim).collect();
        let dir = Dir::repository();
        dir.write("calc.py", CALC).write("test_calc.py", TESTS).write(".gitignore", "__pycache__/\n");
        dir.git(&["add", "-A"]);
        dir.git(&["commit", "-qm", "begin"]);
        flow_plan(&dir, &serde_json::from_str(cells[1]).unwrap());
        let settings = cells[0].replace("\\n", "\n");
        dir.write("ftl.toml", format!("{BOUND}{settings}\n")).write("play.toml", implements(GOOD));
        let mut words = vec!["task", "run", "multiply numbers", "--plan", "plan.json"];
        words.extend(cells[2].split_whitespace());
        let ended = dir.ftl(&words).code(0);
        assert!(ended.out.contains(&format!("begins ({})", wanted.trim())), "{line}\n{}", ended.out);
        // The brief says what the full build may take.
        let brief = dir.read(".ftl/workspace/001_add-mul_complete.xml");
        let tools = wanted.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap();
        let tools = if tools == 3 { 5 } else { tools };
        assert!(brief.contains(&format!("<budget>{tools}</budget>")), "{line}\n{brief}");
    }
}

#[test]
fn settings_of_builders_are_shown_and_a_number_of_tools_has_a_limit() {
    let dir = Dir::repository();
    let own = "builder = { agent = \"play\", repairs = 2, plan_reads = 12 }";
    dir.write("ftl.toml", BOUND.replace("builder = \"play\"", own)).write("play.toml", implements(GOOD));
    let shown = dir.ftl(&["config", "--json"]).code(0).json();
    let value = |key: &str| {
        let all = shown.as_array().or_else(|| shown["settings"].as_array()).unwrap();
        all.iter().find(|one| one["key"] == key).map(|one| one["value"].clone())
    };
    for (key, wanted) in [
        ("builder.tools", "none"),
        ("builder.tools_factor", "1"),
        ("builder.direct", "auto"),
        ("builder.repairs", "2"),
        ("builder.plan_reads", "12"),
        ("explorer.tools", "4"),
    ] {
        assert_eq!(value(key), Some(json!(wanted)), "{key}");
    }
    for tools in ["0", "1001", "many"] {
        dir.ftl(&["task", "run", "multiply numbers", "--tools", tools]).code(2);
    }
}

/// A scene of a builder in a form: what its prompt must hold, its calls, what it submits.
fn build_scene(form: &str, told: &str, calls: &str, submit: &str) -> String {
    let told = if told.is_empty() { String::new() } else { format!("told = '''{told}'''\n") };
    format!(
        "[[scene]]\nrole = \"builder\"\nform = \"{form}\"\n{told}[[scene.step]]\ncalls = [{calls}]\n[[scene.step]]\n\
         submit = {submit}\n"
    )
}

const WRITTEN: &str = "{ summary = \"written\", utilized = [] }";

/// How many conversations builders had in a run.
fn conversations(dir: &Dir, run: &str) -> usize {
    let asked = |entry: &&Json| entry["fact"] == "asked" && entry.to_string().contains("Task(builder)");
    dir.entries(run).iter().filter(asked).count()
}

fn lessons(dir: &Dir) -> Json {
    let file: Json = serde_json::from_str(&dir.read(".ftl/memory.json")).unwrap();
    file["failures"].clone()
}

#[needs(python3)]
#[test]
fn a_red_verify_goes_back_to_its_author_and_what_helped_is_learned() {
    // The failing test and the change so far stand in the prompt.
    let repairs = [
        build_scene("repair", "+    return b + a", GOOD, "{ summary = \"Define mul beside add\" }"),
        build_scene("repair", "", "", "{ summary = \"it was not told\" }"),
    ];
    let script = format!("{}{}", implements(HALF), repairs.concat());
    let mut one = task("001", "add-mul", &["calc.py"], "python3 -m unittest");
    one["repairs"] = json!(2);
    let dir = briefed(&script, &[one]);
    let (run, json) = dir.run(&["builder", BRIEF, "mode=full", "budget=9"]);
    assert_eq!(json["standing"], "complete", "{:?}", verdict(&dir, &run));
    assert_eq!(conversations(&dir, &run), 3, "plan, implement, repair");
    let told = dir.ftl(&["transcript", &run, "--all"]).code(0).out;
    assert!(told.contains("has no attribute 'mul'"), "{told}");
    let learned = lessons(&dir);
    let learned = learned.as_array().unwrap();
    assert_eq!(learned.len(), 1, "{learned:#?}");
    assert_eq!(learned[0]["fix"], "Define mul beside add");
    assert!(learned[0]["trigger"].as_str().unwrap().contains("mul"), "{learned:#?}");
}

#[needs(python3)]
#[test]
fn the_same_failure_after_a_repair_is_the_end() {
    let script =
        format!("{}{}", implements(HALF), build_scene("repair", "", HALF, "{ summary = \"tried\" }"));
    let mut one = task("001", "add-mul", &["calc.py"], "python3 -m unittest");
    one["repairs"] = json!(5);
    let dir = briefed(&script, &[one]);
    let (run, _) = dir.run(&["builder", BRIEF, "mode=full", "budget=30"]);
    let (ended, reason) = verdict(&dir, &run);
    assert_eq!(ended, "blocked");
    assert!(reason.starts_with("same failure after a retry: ") && reason.contains("test_mul"), "{reason}");
    assert_eq!(conversations(&dir, &run), 3, "plan, implement, one repair");
}

#[needs(python3)]
#[test]
fn a_flow_repairs_as_its_settings_say_and_direct_s_work_is_gone_on_with() {
    // The full build edits what only the direct one has written, and is wrong; its repair is not.
    let (old, new) = ("    return b + a\\n", "    return b + a\\n\\n\\ndef mul(a, b):\\n    return a + b\\n");
    let goes_on = format!(r#"{{ tool = "edit", path = "calc.py", old = "{old}", new = "{new}" }}"#);
    let mends = r#"{ tool = "edit", path = "calc.py", old = "return a + b", new = "return a * b" }"#;
    let scenes = [
        PLANS.to_owned(),
        build_scene("implement", "An earlier attempt at this task", &goes_on, WRITTEN),
        build_scene("implement", "", HALF, WRITTEN),
        build_scene("repair", "AssertionError: 5 != 6", mends, "{ summary = \"Multiply\" }"),
    ];
    let dir = Dir::repository();
    dir.write("calc.py", CALC).write("test_calc.py", TESTS).write(".gitignore", "__pycache__/\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    flow_plan(&dir, &json!({}));
    dir.write("ftl.toml", format!("{BOUND}[builder]\nrepairs = 2\ntools = 20\n"))
        .write("play.toml", scenes.concat());
    let ended = dir.ftl(&["task", "run", "multiply numbers", "--plan", "plan.json", "--land", "ff"]);
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    for line in
        ["begins (builder direct, 3 tools)", "begins (builder full, 20 tools)", "landed     1 of 1 task"]
    {
        assert!(ended.out.contains(line), "{line}\n{}", ended.out);
    }
    assert_eq!(
        dir.read("calc.py"),
        "def add(a, b):\n    return b + a\n\n\ndef mul(a, b):\n    return a * b\n"
    );
    assert_eq!(dir.git(&["status", "--porcelain", "--untracked-files=no"]), "");
}
