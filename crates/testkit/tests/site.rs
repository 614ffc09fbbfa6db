//! The hands of worktrees, each asked twice under the same key, as after a crash, on a real repository.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ftl_core::run::{Action, ActionId, ActionTarget, FailureKind, ROOT, Usage};
use ftl_core::value::{Name, Value};
use ftl_engine::executors::shell::ScriptRunner;
use ftl_engine::executors::table::{ExecutorOptions, RecordAccess, Resources};
use ftl_engine::executors::worktrees::Sites;
use ftl_engine::executors::{ActionRunner as _, ExecutorPool, Job, JobEnd, JobReport};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_lifecycle::phases::Routes;
use ftl_process::{Cancel, Guard, Supervisor, own_orphans};
use ftl_records::Records;
use ftl_settings::config::Config;
use ftl_settings::width::Width;
use ftl_store::SqliteStore;
use serde_json::{Value as Json, json};

struct Fixture {
    folder: tempfile::TempDir,
    workshop: ExecutorPool,
    entry: u64,
}

const BRIEF: &str = ".ftl/workspace/001_change_active.xml";

impl Fixture {
    /// A repository with two files, and a brief for an instance that has parsed it.
    fn new() -> Fixture {
        own_orphans().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("a.txt"), "one\n").unwrap();
        fs::write(root.join("b.json"), "{}\n").unwrap();
        git(root, &["init", "-q", "."]);
        git(root, &["add", "-A"]);
        git(root, &["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "begin"]);
        let place = StateFolder::at(root.to_owned());
        place.prepare().unwrap();
        let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
        let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
        let supervisor = Arc::new(Supervisor::new(guard, &place.attempts(), &place.spool()).unwrap());
        let config = Config::default();
        let limits = config.command_limits();
        let shell = Arc::new(ScriptRunner::new(supervisor.clone(), store.clone(), &place, limits, limits));
        let records = Arc::new(Records::new(place, store));
        let sites = Arc::new(Sites::new(records.clone(), supervisor, &config));
        let workshop = ExecutorPool::new(Width::default());
        let (admission, given) = (workshop.admission().clone(), ExecutorOptions::default());
        let secrets = Arc::default();
        let records = RecordAccess { records, routes: Routes::default() };
        let resources = Resources { records, sites, shell, secrets, agents: None, given, admission };
        let workshop = workshop.with_executors(&Arc::new(resources));
        let mut fixture = Fixture { folder, workshop, entry: 0 };
        let task = json!({ "seq": "001", "slug": "change", "delta": ["a.txt", "b.json"], "verify": "grep -q two a.txt",
            "depends": "none" });
        let plan = json!({ "objective": "change it", "tasks": [task] });
        fixture.ask("workspace.create", json!({ "plan": plan }));
        fixture.ask("workspace.parse", json!({ "path": BRIEF }));
        fixture
    }

    fn begin(&self, name: &str, params: &Json, cancel: &Cancel) -> Receiver<JobReport> {
        let Value::Record(params) = Value::of(params).unwrap() else { panic!("{params} is no object") };
        let id = ActionId { entry: self.entry, index: 0 };
        let wanted = ActionTarget::Action(Name::from(name));
        let action = Action { instance: ROOT, id, wanted, params: (*params).clone(), forbidden: None };
        let (host, told) = channel();
        self.workshop.start(Job::new(RunId::of(7), action, Usage::new(), cancel.clone(), host));
        told
    }

    fn once(&self, name: &str, params: &Json) -> JobEnd {
        ended(&self.begin(name, params, &Cancel::new()))
    }

    /// Asks, and asks again as an engine does that died before it had kept the answer.
    fn ask(&mut self, name: &str, params: Json) -> Json {
        self.entry += 1;
        let first = self.once(name, &params);
        let JobEnd::Done(value) = &first else { panic!("{name}: {first:?}") };
        let accepted = ftl_core::catalogue::Catalogue::standard().action(name).unwrap().answer.accept(value);
        accepted.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let JobEnd::Done(again) = self.once(name, &params) else { panic!("{name}: it does not go again") };
        let mut answers = [value, &again].map(|value| serde_json::to_value(value).unwrap());
        for answer in &mut answers {
            // How long it took and where its output is kept may differ.
            answer.as_object_mut().unwrap().remove("took");
        }
        let [first, again] = answers;
        assert_eq!(first, again, "{name}");
        first
    }

    fn fails(&mut self, name: &str, params: Json) -> (FailureKind, String) {
        self.entry += 1;
        match self.once(name, &params) {
            JobEnd::Failed(failure) => (failure.kind, failure.message),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join(format!(".ftl/worktrees/{}-{ROOT}", RunId::of(7)))
    }

    fn git(&self, words: &[&str]) -> String {
        git(self.folder.path(), words)
    }
}

fn ended(told: &Receiver<JobReport>) -> JobEnd {
    match told.recv().unwrap() {
        JobReport::Report(_, _, report) => report.ended,
        other => panic!("{other:?}"),
    }
}

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let said = command.output().unwrap();
    assert!(said.status.success(), "{words:?}: {said:?}");
    String::from_utf8(said.stdout).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn work_is_looked_at_and_lands_once() {
    let mut fixture = Fixture::new();
    assert!(!fixture.tree().exists(), "nobody has worked yet");
    assert_eq!(fixture.ask("file.read", json!({ "path": "a.txt" }))["text"], "one\n");
    let tree = fixture.tree();
    fs::write(tree.join("a.txt"), "two\n").unwrap();
    assert_eq!(
        fixture.ask("file.read", json!({ "path": "a.txt" }))["text"],
        "two\n",
        "its own, not the person's"
    );

    fs::write(tree.join("b.json"), "{").unwrap();
    let syntax = fixture.ask("preflight.check", json!({ "files": ["a.txt", "b.json"] }));
    assert_eq!((&syntax["failed"], &syntax["broken"]), (&json!(true), &json!(["b.json"])));
    fs::write(tree.join("b.json"), "{}\n").unwrap();
    assert_eq!(fixture.ask("preflight.check", json!({ "files": ["b.json"] }))["passed"], true);

    let report = fixture.ask("verify.run", json!({ "command": "grep -q two a.txt" }));
    assert_eq!((&report["passed"], &report["red_before"]), (&json!(true), &json!(true)), "{report:#}");
    let spec = fixture.ask("workspace.parse", json!({ "path": BRIEF }));
    assert_eq!(fixture.ask("quality.check", json!({ "spec": spec }))["passed"], true);

    let verify = "grep -q two a.txt";
    let other = "0".repeat(40);
    let (kind, why) = fixture.fails("work.land", json!({ "tree": other, "verify": verify }));
    assert!(kind == FailureKind::Stale && why.contains("stands there now"), "{why}");
    let red = fixture.ask("work.land", json!({ "tree": report["tree"], "verify": "grep -q three a.txt" }));
    assert_eq!(red["status"], "failed", "{red:#}");
    let landed = fixture.ask("work.land", json!({ "tree": report["tree"], "verify": verify }));
    assert_eq!((&landed["status"], &landed["tree"]), (&json!("landed"), &report["tree"]), "{landed:#}");
    let branch = format!("ftl/{}", RunId::of(7));
    assert_eq!((landed["target"].as_str().unwrap(), tree.exists()), ("master", false));
    assert_eq!(fixture.git(&["rev-list", "--count", &format!("HEAD..{branch}")]), "1\n");
    assert_eq!(fixture.git(&["for-each-ref", "refs/ftl/kept"]), "", "the branch has all of it");

    let delivered = fixture.ask("branch.deliver", json!({ "how": "ff" }));
    assert_eq!(delivered["status"], "landed", "{delivered:#}");
    assert_eq!(fs::read_to_string(fixture.folder.path().join("a.txt")).unwrap(), "two\n");
}

#[test]
fn a_brief_that_is_changed_later_changes_nothing_for_the_gates() {
    let mut fixture = Fixture::new();
    fixture.ask("file.read", json!({ "path": "a.txt" }));
    fs::write(fixture.tree().join("c.txt"), "new\n").unwrap();
    fs::write(fixture.tree().join("a.txt"), "two\n").unwrap();
    let file = fixture.folder.path().join(BRIEF);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("a.txt"));
    fs::write(&file, text.replace("b.json", "c.txt")).unwrap();
    let report = fixture.ask("verify.run", json!({ "command": "grep -q two a.txt" }));
    assert_eq!(report["passed"], false);
    assert!(report["summary"].as_str().unwrap().contains("c.txt: outside_delta"), "{report:#}");
}

#[test]
fn a_blocked_workspace_closes_its_worktree_and_its_work_is_kept() {
    let mut fixture = Fixture::new();
    fixture.ask("file.read", json!({ "path": "a.txt" }));
    fs::write(fixture.tree().join("a.txt"), "half\n").unwrap();
    fixture.ask("workspace.block", json!({ "path": BRIEF, "reason": "it is too hard" }));
    assert!(!fixture.tree().exists());
    let kept = fixture.git(&["for-each-ref", "--format=%(refname)", "refs/ftl/kept"]);
    assert_eq!(fixture.git(&["show", &format!("{}:a.txt", kept.trim())]), "half\n");
}

#[test]
fn work_that_is_called_off_ends_and_leaves_no_checkout() {
    let mut fixture = Fixture::new();
    fixture.ask("file.read", json!({ "path": "a.txt" }));
    let (here, gate) = (fixture.folder.path().join("here"), fixture.folder.path().join("gate"));
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let command = format!("touch '{}'; cat '{}'", here.display(), gate.display());
    fixture.entry += 1;
    let cancel = Cancel::new();
    let told = fixture.begin("verify.run", &json!({ "command": command }), &cancel);
    until("the command runs", || here.exists());
    cancel.cancel();
    assert_eq!(ended(&told), JobEnd::Cancelled);
    let left: Vec<_> = fs::read_dir(fixture.folder.path().join(".ftl/worktrees")).unwrap().collect();
    assert_eq!(left.len(), 1, "its own worktree alone: {left:?}");
}

#[test]
fn a_site_of_another_run_is_refused() {
    let mut fixture = Fixture::new();
    let site = fixture.ask("worktree.open", json!({ "story": "a story" }));
    for path in
        ["/etc", "", "../..", &fixture.folder.path().join(".ftl/worktrees/other-1").display().to_string()]
    {
        let mut other = site.clone();
        other["path"] = json!(path);
        for action in ["worktree.close", "worktree.keep", "worktree.progress", "tests.run"] {
            let (_, why) = fixture.fails(action, json!({ "site": other }));
            assert!(why.contains("no worktree of this run"), "{action} {path}: {why}");
        }
    }
    let (kind, why) = fixture.fails("tests.run", json!({ "site": site }));
    assert!(kind == FailureKind::CouldNotRun && why.contains("worktree.tests"), "{why}");
    assert_eq!(fixture.ask("worktree.progress", json!({ "site": site }))["files"], json!([]));
    fixture.ask("worktree.close", json!({ "site": site }));
    assert!(!fixture.tree().exists());
}
