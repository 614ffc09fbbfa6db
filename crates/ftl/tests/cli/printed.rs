//! Every protocol that README and the documentation print is run: real actions, scripted agents.
//!
//! That a document is sound says nothing about whether it works: types of inputs are not known before a run.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::support::{CommandOutcome, Dir};

/// How one printed protocol is run, and how that ends.
struct Case {
    name: &'static str,
    inputs: &'static [&'static str],
    /// Prepares the repository beyond what all of them have.
    prepare: fn(&Dir),
    /// What a person says afterwards, in order.
    answers: &'static [&'static str],
}

const NOTHING: fn(&Dir) = |_| {};

const CASES: &[Case] = &[
    Case { name: "tidy", inputs: &["story=Have a.txt say that it is done"], prepare: NOTHING, answers: &[] },
    Case { name: "mend", inputs: &[], prepare: red, answers: &[] },
    Case { name: "greet", inputs: &["whom=Ada Lovelace"], prepare: NOTHING, answers: &[] },
    Case { name: "ship", inputs: &["errors=it is bad", "command=make test"], prepare: red, answers: &[] },
    Case {
        name: "polish",
        inputs: &["story=Have a.txt say that it is done"],
        prepare: NOTHING,
        answers: &["branch-only"],
    },
    Case { name: "essay", inputs: &["brief=an essay"], prepare: NOTHING, answers: &["draft", "next"] },
    Case { name: "site", inputs: &["folder=."], prepare: NOTHING, answers: &[] },
    Case { name: "survey", inputs: &["objective=look"], prepare: NOTHING, answers: &[] },
    Case { name: "look_around", inputs: &["objective=look"], prepare: NOTHING, answers: &[] },
    Case { name: "rounds", inputs: &[], prepare: campaign, answers: &[] },
    Case { name: "proof", inputs: &["command=make test"], prepare: NOTHING, answers: &[] },
    Case { name: "patient", inputs: &["story=a story"], prepare: NOTHING, answers: &[] },
    Case { name: "desk", inputs: &[], prepare: NOTHING, answers: &["plan", "next"] },
    Case { name: "landing", inputs: &[], prepare: NOTHING, answers: &["branch-only"] },
    Case { name: "spelling", inputs: &["files=[\"good.py\"]"], prepare: NOTHING, answers: &[] },
    Case {
        name: "frugal",
        inputs: &["workspace=.ftl/workspace/001_first_active.xml"],
        prepare: workspace,
        answers: &[],
    },
    Case { name: "verdicts", inputs: &["story=a story"], prepare: NOTHING, answers: &[] },
    Case { name: "chatty", inputs: &[], prepare: NOTHING, answers: &[] },
    Case { name: "tally", inputs: &[], prepare: NOTHING, answers: &[] },
    Case { name: "extensions", inputs: &[], prepare: settled, answers: &[] },
    Case { name: "lenient", inputs: &[], prepare: NOTHING, answers: &[] },
    Case { name: "relay", inputs: &[], prepare: NOTHING, answers: &[] },
    Case { name: "cautious", inputs: &[], prepare: blocked, answers: &[] },
    Case { name: "twice", inputs: &[], prepare: NOTHING, answers: &[] },
    Case { name: "values", inputs: &[], prepare: campaign, answers: &[] },
    Case { name: "draft", inputs: &["story=a story"], prepare: NOTHING, answers: &[] },
    Case { name: "careful", inputs: &[], prepare: NOTHING, answers: &[] },
    Case { name: "modes", inputs: &[], prepare: NOTHING, answers: &[] },
    Case {
        name: "delegate",
        inputs: &["workspace=.ftl/workspace/001_first_active.xml"],
        prepare: workspace,
        answers: &[],
    },
];

/// The agents of every case: each role answers in the shape that it is asked for.
const PLAY: &str = r#"
[[scene]]
role = "coder"
form = "plan"
[[scene.step]]
submit = { text = "write it down", digest = "0000" }
[[scene]]
role = "coder"
form = "code"
[[scene.step]]
calls = [{ tool = "bash", command = "echo done > a.txt" }]
[[scene.step]]
submit = { summary = "coded" }
[[scene]]
role = "architect"
[[scene.step]]
submit = { verdict = "APPROVE", feedback = "good" }
[[scene]]
role = "builder"
form = "plan"
[[scene.step]]
submit = { approach = "write one word" }
[[scene]]
role = "builder"
form = "implement"
[[scene.step]]
calls = [{ tool = "bash", command = "echo done > a.txt" }]
[[scene.step]]
submit = { summary = "done", utilized = [] }
[[scene]]
role = "builder"
form = "fix_syntax"
[[scene.step]]
calls = [{ tool = "write", path = "src/state", content = "good\n" }]
[[scene.step]]
submit = { summary = "mended" }
"#;

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    [root.join("README.md")].into_iter().chain(docs).collect()
}

/// Every printed protocol: its name and its program. A block without PROTOCOL is a part of a document.
fn printed() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("```protocol\n").skip(1) {
            let program = block.split("```").next().unwrap();
            let name = program.lines().find_map(|line| line.strip_prefix("PROTOCOL: "));
            let name = name.unwrap_or_else(|| panic!("{}: a block that names no protocol", path.display()));
            all.push((name.to_owned(), program.to_owned()));
        }
    }
    all
}

fn repository(program: &(String, String)) -> Dir {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n").write("good.py", "x = 1\n").write("src/state", "good\n");
    dir.write(
        "Makefile",
        "all:\n\t@true\ntest:\n\t@grep -q good src/state && echo ok\nhtml:\n\t@echo built\n",
    );
    for program in ["say-hello", "do-task", "deploy", "clean-up"] {
        dir.write(
            &format!("bin/{program}"),
            "#!/bin/sh\necho \"$0\" \"$@\" >> \"$(dirname \"$0\")/../said\"\n",
        );
        fs::set_permissions(dir.path(&format!("bin/{program}")), fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir.write(".gitignore", "said\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let settings = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[agents.judge]\nkind = \"scripted\"\nscript = \"play.toml\"\n\
        [roles]\ndefault = \"play\"\narchitect = \"judge\"\n[worktree]\ntests = [\"grep -q done a.txt\"]\n";
    dir.write("ftl.toml", settings).write("play.toml", PLAY);
    fs::write(dir.path(".git/info/exclude"), "ftl.toml\nplay.toml\nplan.json\n/.ftl/\n/settings/\n").unwrap();
    dir.write(&format!(".ftl/protocols/{}.md", program.0), format!("```protocol\n{}```\n", program.1));
    dir
}

/// The tests are red until somebody repairs the source.
fn red(dir: &Dir) {
    dir.write("src/state", "bad\n");
    dir.git(&["commit", "-qam", "break it"]);
}

const PLAN: &str = r#"{"objective": "a campaign", "tasks": [
    {"seq": "001", "slug": "first", "delta": ["a.txt"], "verify": "grep -q done a.txt", "budget": 9}]}"#;

fn campaign(dir: &Dir) {
    dir.ftl(&["campaign", "create", "a campaign"]).code(0);
    dir.fed(&["campaign", "add-tasks"], PLAN).code(0);
}

fn settled(dir: &Dir) {
    campaign(dir);
    dir.ftl(&["campaign", "update-task", "001", "complete"]).code(0);
}

fn blocked(dir: &Dir) {
    campaign(dir);
    dir.ftl(&["campaign", "update-task", "001", "blocked"]).code(0);
}

fn workspace(dir: &Dir) {
    dir.fed(&["workspace", "create", "--plan", "-"], PLAN).code(0);
}

fn play(dir: &Dir, args: &[&str]) -> CommandOutcome {
    let mut command = dir.command(args);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", dir.path("bin").display()));
    crate::support::ended(command)
}

#[test]
fn every_protocol_that_is_printed_runs() {
    let printed = printed();
    let names: BTreeSet<&str> = printed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, CASES.iter().map(|case| case.name).collect(), "each one has a case, and no other has");
    let mut wrong = Vec::new();
    for case in CASES {
        let program = printed.iter().find(|(name, _)| name == case.name).unwrap();
        let dir = repository(program);
        (case.prepare)(&dir);
        let words: Vec<&str> = ["run", case.name].iter().chain(case.inputs).copied().collect();
        let ended = play(&dir, &[&words[..], &["--json"]].concat());
        let Some(run) = serde_json::from_str::<Json>(&ended.out)
            .ok()
            .and_then(|json| Some(json["run"].as_str()?.to_owned()))
        else {
            wrong.push(format!("{}: {ended:#?}", case.name));
            continue;
        };
        for answer in case.answers {
            let said = play(&dir, &["answer", &run, answer]);
            if said.code != 0 {
                wrong.push(format!("{}: {said:#?}", case.name));
            }
        }
        let stands = dir.status(&run);
        let refused = dir.entries(&run).iter().any(|entry| entry["fact"] == "refused");
        if stands["standing"] != "complete" || refused {
            let log = dir.ftl(&["log", &run]).out;
            wrong.push(format!("{}: {} {}\n{log}", case.name, stands["standing"], stands["reason"]));
        }
        if case.name == "tidy" && dir.git(&["show", "HEAD:a.txt"]) != "done\n" {
            wrong.push(format!("tidy leaves no commit: {}", dir.git(&["log", "--all", "--stat"])));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
