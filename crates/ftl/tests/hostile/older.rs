//! Stores, runs and worktrees of earlier versions open, resume and finish.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::Dir;
use crate::tally::Tally;

/// The versions of which there are fixtures.
const VERSIONS: [&str; 1] = ["9a819a5"];

/// A repository that an earlier version left, in a folder of its own.
struct Older {
    dir: Dir,
    _outer: tempfile::TempDir,
}

impl Older {
    fn unpack(version: &str, name: &str) -> Older {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(version)
            .join(format!("{name}.tar.gz"));
        let outer = tempfile::tempdir().unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).args(["--no-same-owner", "-C"]).arg(outer.path());
        assert!(tar.status().unwrap().success(), "{} cannot be unpacked", archive.display());
        let root = outer.path().canonicalize().unwrap().join("repository");
        Older { dir: Dir::at(&root), _outer: outer }
    }

    /// The one run with this standing.
    #[track_caller]
    fn run(&self, standing: &str) -> String {
        let all = self.dir.ftl(&["status", "--all", "--json"]).code(0).json();
        let mut fitting = all["runs"].as_array().unwrap().iter().filter(|run| run["standing"] == standing);
        let run = fitting.next().unwrap_or_else(|| panic!("no run is {standing}: {all:#}"));
        assert!(fitting.next().is_none(), "several runs are {standing}: {all:#}");
        run["run"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn is_whole(&self) {
        self.dir.ftl(&["audit", "verify"]).code(0).says(&["whole"]);
        self.dir.ftl(&["doctor", "--deep"]).code(0);
    }

    /// The names of the lessons on a topic.
    fn lessons(&self, topic: &str) -> Vec<String> {
        let found = self.dir.ftl(&["memory", "query", topic, "--json"]).code(0).json();
        let all = found.as_array().or_else(|| found["results"].as_array()).unwrap();
        all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }

    fn subjects(&self) -> Vec<String> {
        self.dir.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect()
    }
}

/// Tries something with every version's fixture of one kind.
fn each(promise: &'static str, name: &str, goes_on: impl Fn(&Older)) {
    let mut tally = Tally::of(promise);
    for version in VERSIONS {
        goes_on(&Older::unpack(version, name));
        tally.count(None);
    }
    tally.close();
}

#[test]
fn a_finished_store_keeps_its_campaign_lessons_and_deliveries() {
    each("an older store that is finished opens, and is written on", "finished", |older| {
        older.is_whole();
        let runs = older.dir.ftl(&["status", "--all", "--json"]).code(0).json();
        let standings: Vec<&Json> =
            runs["runs"].as_array().unwrap().iter().map(|run| &run["standing"]).collect();
        assert_eq!(standings, [&json!("complete"), &json!("complete")], "{runs:#}");
        assert!(older.lessons("octal").contains(&"octal-in-shell".to_owned()));
        assert!(older.lessons("many files").contains(&"one-file-a-task".to_owned()));
        let archives = older.dir.ftl(&["campaign", "history"]).code(0).json();
        assert_eq!(archives["archives"][0]["summary"]["complete"], 2, "{archives:#}");
        // A new lesson, a new run, and the old delivery taken back.
        let lesson = r#"{"name": "newer", "trigger": "a newer version", "fix": "go on", "cost": 3000}"#;
        older.dir.ftl(&["memory", "add-failure", "--json", lesson]).code(0);
        assert!(older.lessons("newer").contains(&"newer".to_owned()));
        assert!(older.lessons("octal").contains(&"octal-in-shell".to_owned()));
        let (run, _) = older.dir.run(&["ask"]);
        older.dir.ftl(&["answer", &run, "yes"]).code(0).says(&["complete"]);
        assert_eq!(older.subjects(), ["Two", "One", "begin"]);
        older.dir.ftl(&["undo"]).code(0).says(&["took back what run"]);
        assert_eq!((older.subjects(), older.dir.read("b.txt")), (vec!["begin".to_owned()], "b\n".to_owned()));
        older.is_whole();
    });
}

#[test]
fn held_and_waiting_runs_go_on_when_they_are_asked_again_and_answered() {
    each("an older run that is held or waits goes on", "held", |older| {
        older.is_whole();
        let (held, waiting) = (older.run("held"), older.run("waiting"));
        older.dir.ftl(&["resume", &held]).code(3).says(&["held"]);
        older.dir.write("go", "");
        older.dir.ftl(&["resume", &held]).code(0).says(&["complete"]);
        assert_eq!(older.dir.read("done"), "once\n");
        older.dir.ftl(&["answer", &waiting, "yes"]).code(0).says(&["complete"]);
        assert_eq!(older.dir.read("said"), "yes\n");
        older.is_whole();
    });
}

#[test]
fn an_interrupted_campaign_is_resumed_and_delivered() {
    each("an older campaign that was killed is resumed and lands everything once", "interrupted", |older| {
        older.dir.ftl(&["audit", "verify"]).code(0).says(&["whole"]);
        let run = older.run("interrupted");
        assert!(older.dir.path(".ftl/worktrees").join(format!("{run}-2")).is_dir());
        let before = older.dir.entries(&run).len();
        older.dir.write("go", "");
        let json = older.dir.ftl(&["resume", "--json"]).code(0).json();
        assert_eq!((&json["run"], &json["standing"]), (&json!(run), &json!("complete")), "{json:#}");
        let landed = json["report"]["landed"].as_array().unwrap();
        let seqs: Vec<&str> = landed.iter().map(|one| one["seq"].as_str().unwrap()).collect();
        assert_eq!(seqs, ["001", "002", "003"]);
        assert_eq!(older.subjects(), ["Three", "Two", "One", "begin"]);
        for file in ["a.txt", "b.txt", "c.txt"] {
            assert_eq!(older.dir.read(file), "done\n", "{file}");
        }
        assert!(older.dir.entries(&run).len() > before, "nothing of the journal is gone");
        assert_eq!(older.dir.git(&["status", "--porcelain"]), "");
        assert_eq!(fs::read_dir(older.dir.path(".ftl/worktrees")).unwrap().count(), 0);
        older.is_whole();
    });
}

#[test]
fn kept_work_is_brought_back_and_a_held_builder_lands_what_stood_in_its_worktree() {
    each("older work that was kept comes back, and a worktree that stood is gone on with", "kept", |older| {
        older.dir.ftl(&["audit", "verify"]).code(0).says(&["whole"]);
        let (held, blocked) = (older.run("held"), older.run("blocked"));
        let work = older.dir.path(".ftl/worktrees").join(format!("{held}-0"));
        assert_eq!(fs::read_to_string(work.join("b.txt")).unwrap(), "done\n");
        let list = older.dir.ftl(&["salvage", "--json"]).code(0).json();
        assert_eq!(list["count"], 1, "{list:#}");
        older.dir.ftl(&["salvage", &blocked, "--into", "back"]).code(0);
        assert_eq!(
            (older.dir.read("back/a.txt"), older.dir.read("back/deep/new.txt")),
            ("nearly\n".to_owned(), "new\n".to_owned())
        );
        assert_eq!(fs::read_link(older.dir.path("back/link")).unwrap(), Path::new("deep"));
        fs::remove_dir_all(older.dir.path("back")).unwrap();
        older.dir.ftl(&["raise", &held, "turns", "50", "--reason", "go on"]).code(0).says(&["complete"]);
        let branch = format!("ftl/{held}");
        assert_eq!(older.dir.git(&["show", &format!("{branch}:b.txt")]), "done\n");
        assert_eq!(older.dir.git(&["log", "--format=%s", &branch]), "Held\nbegin\n");
        older.is_whole();
    });
}

/// The states whose texts have changed since a version, and what a run that was killed there must still do.
const KILLED: [&str; 9] = [
    "builder_READ",
    "builder_PLAN",
    "builder_VERIFY",
    "builder_RETRY",
    "builder_COMPLETE",
    "task_PLAN",
    "task_OBSERVE",
    "campaign_PLAN",
    "campaign_COMPLETE",
];

#[test]
fn a_run_that_was_killed_in_a_state_whose_text_has_changed_goes_on_from_there() {
    for name in KILLED {
        each("an older run that was killed in a state with another text today finishes it", name, |older| {
            older.dir.ftl(&["audit", "verify"]).code(0).says(&["whole"]);
            let run = older.run("interrupted");
            let before = older.dir.entries(&run);
            // Three folders above where its command ran then, and where it runs now.
            older.dir.write("go", "");
            fs::create_dir_all(older.dir.cache()).unwrap();
            fs::write(older.dir.cache().join("go"), "").unwrap();
            older.dir.ftl(&["resume", &run]).code(0).says(&["complete"]);
            let after = older.dir.entries(&run);
            assert!(after.len() > before.len() && after[0] == before[0], "{name}: the journal goes on");
            let held = after.iter().filter(|entry| entry["fact"] == "held").count();
            assert_eq!(held, 0, "{name}: nobody is needed");
            // The work is verified and landed once, by its own branch or the person's.
            let heard = |whom: &str| after.iter().filter(|one| asks(one, whom)).count();
            assert!(heard("verify.run") >= 1, "{name}: no gate is left out");
            let landed = format!("ftl/{run}");
            let branch = if name.starts_with("builder") { landed.as_str() } else { "main" };
            assert_eq!(older.dir.git(&["show", &format!("{branch}:a.txt")]), "done\n", "{name}");
            assert_eq!(older.dir.git(&["log", "--format=%s", branch]), "One\nbegin\n", "{name}");
            older.is_whole();
        });
    }
}

/// Whether an entry asks for an action.
fn asks(entry: &Json, whom: &str) -> bool {
    entry["asks"].as_array().is_some_and(|asks| asks.iter().any(|ask| ask["whom"] == whom))
}
