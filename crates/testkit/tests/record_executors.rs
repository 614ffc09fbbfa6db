//! The executors of the FTL protocol's own actions, each asked twice under the same key, as after a crash.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ftl_core::json::JsonExt as _;
use ftl_core::run::{Action, ActionId, ActionTarget, ROOT, Usage};
use ftl_core::value::{Name, Value};
use ftl_engine::executors::shell::ScriptRunner;
use ftl_engine::executors::table::{ExecutorOptions, RecordAccess, Resources};
use ftl_engine::executors::worktrees::Sites;
use ftl_engine::executors::{ActionRunner as _, ExecutorPool, Job, JobEnd, JobReport};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_lifecycle::phases::Routes;
use ftl_process::{Cancel, Guard, Supervisor};
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

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let place = StateFolder::at(folder.path().to_owned());
        place.prepare().unwrap();
        let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
        let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
        let supervisor = Arc::new(Supervisor::new(guard, &place.attempts(), &place.spool()).unwrap());
        let width = Width { agents: 64, ..Width::default() };
        let (workshop, config) = (ExecutorPool::new(width), Config::default());
        let limits = config.command_limits();
        let shell = Arc::new(ScriptRunner::new(supervisor.clone(), store.clone(), &place, limits, limits));
        let records = Arc::new(Records::new(place, store));
        let sites = Arc::new(Sites::new(records.clone(), supervisor, &config));
        let (admission, given) = (workshop.admission().clone(), ExecutorOptions::default());
        let secrets = Arc::default();
        let records = RecordAccess { records, routes: Routes::default() };
        let resources = Resources { records, sites, shell, secrets, agents: None, given, admission };
        let workshop = workshop.with_executors(&Arc::new(resources));
        Fixture { folder, workshop, entry: 0 }
    }

    fn once(&self, name: &str, params: &Json) -> JobEnd {
        let Value::Record(params) = Value::of(params).unwrap() else { panic!("{params} is no object") };
        let id = ActionId { entry: self.entry, index: 0 };
        let wanted = ActionTarget::Action(Name::from(name));
        let action = Action { instance: ROOT, id, wanted, params: (*params).clone(), forbidden: None };
        let (host, told) = channel();
        self.workshop.start(Job::new(RunId::of(7), action, Usage::new(), Cancel::new(), host));
        // A task begins when the admission lets it, which is asked whenever the driver rests.
        let deadline = Instant::now() + Duration::from_secs(60);
        let report = loop {
            self.workshop.rest();
            match told.recv_timeout(Duration::from_millis(20)) {
                Ok(JobReport::Report(_, _, report)) => break report,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                other => panic!("{name}: {other:?}"),
            }
        };
        self.workshop.on_heard(ROOT, id);
        report.ended
    }

    /// Asks, and asks again as an engine does that died before it had kept the answer.
    fn ask(&mut self, name: &str, params: Json) -> Json {
        self.entry += 1;
        let first = self.once(name, &params);
        let JobEnd::Done(value) = &first else { panic!("{name}: {first:?}") };
        let accepted = ftl_core::catalogue::Catalogue::standard().action(name).unwrap().answer.accept(value);
        assert_eq!(accepted, Ok(()), "{name} answers what it declares");
        let JobEnd::Done(again) = self.once(name, &params) else {
            panic!("{name} fails when it is asked again")
        };
        if !matches!(name, "campaign.propagate_blocks" | "observer.analyze" | "exploration.clear") {
            assert_eq!(without_time(&again), without_time(value), "{name} answers the same");
        }
        serde_json::to_value(value).unwrap()
    }

    fn fails(&mut self, name: &str, params: Json) -> String {
        self.entry += 1;
        match self.once(name, &params) {
            JobEnd::Failed(failure) => failure.message,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn workspaces(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join(".ftl/workspace")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// An answer without the times in it.
fn without_time(value: &Value) -> Json {
    fn strip(json: &mut Json) {
        match json {
            Json::Object(fields) => {
                fields.retain(|key, _| !key.ends_with("_at"));
                fields.values_mut().for_each(strip);
            }
            Json::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut json = serde_json::to_value(value).unwrap();
    strip(&mut json);
    json
}

fn plan() -> Json {
    json!({ "objective": "add login", "framework": null, "tasks": [
        { "seq": "001", "slug": "models", "type": "BUILD", "delta": ["models.py"], "verify": "true", "depends": "none" },
        { "seq": "002", "slug": "routes", "delta": ["routes.py"], "verify": "exit 1", "depends": ["001"] },
        { "seq": "003", "slug": "docs", "delta": ["docs.md"], "verify": "true", "depends": ["002"] },
    ] })
}

#[test]
fn a_campaign_goes_from_its_plan_to_its_archive() {
    let mut fixture = Fixture::new();
    fixture.ask("campaign.create", json!({ "objective": "add login" }));
    assert!(!fixture.folder.path().join(".ftl/archive").exists(), "asked twice, opened once");
    let taken = fixture.ask("campaign.add_tasks", json!({ "plan": plan() }));
    assert_eq!(taken["seqs"], json!(["001", "002", "003"]));
    let tasks = fixture.ask("campaign.tasks", json!({}));
    assert_eq!((tasks["ready"][0]["seq"].clone(), tasks["waiting_count"].clone()), (json!("001"), json!(2)));

    let brief = fixture.ask("workspace.create", json!({ "plan": plan(), "task": "001" }));
    assert_eq!(brief["path"], ".ftl/workspace/001_models_active.xml");
    let spec = fixture.ask("workspace.parse", json!({ "path": brief["path"] }));
    assert_eq!(fixture.ask("workspace.validate", json!({ "spec": spec }))["passed"], true);
    let ended = json!({ "path": brief["path"], "delivered": "models", "utilized": [] });
    assert_eq!(fixture.ask("workspace.complete", ended)["path"], ".ftl/workspace/001_models_complete.xml");
    fixture
        .ask("campaign.update_task", json!({ "task": "001", "verdict": "complete", "delivered": "models" }));

    let brief = fixture.ask("workspace.create", json!({ "plan": plan(), "task": "002" }));
    let spec = fixture.ask("workspace.parse", json!({ "path": brief["path"] }));
    assert_eq!(spec["lineage"]["parents"][0]["prior_delivery"], "models");
    let why = "ImportError: cannot import name routes";
    fixture.ask("workspace.block", json!({ "path": brief["path"], "reason": why, "tried": ["a", "b"] }));
    fixture.ask("campaign.update_task", json!({ "task": "002", "verdict": "escalated", "reason": why }));
    assert_eq!(fixture.workspaces(), ["001_models_complete.xml", "002_routes_blocked.xml"]);

    let cascade = fixture.ask("campaign.cascade_status", json!({}));
    assert_eq!(
        (cascade["state"].clone(), cascade["unreachable"][0]["seq"].clone()),
        (json!("stuck"), json!("003"))
    );
    let input = fixture.ask("campaign.replan_input", json!({ "reason": "stuck" }));
    assert_eq!(input["blocked_tasks"][0]["reason"], format!("{why}\nTried: a; b"));
    assert_eq!(fixture.ask("campaign.propagate_blocks", json!({}))["blocked"], json!(["003"]));
    let roots = fixture.ask("campaign.root_causes", json!({}));
    assert_eq!(
        (roots["single"].clone(), roots["causes"][0]["affected"].clone()),
        (json!(false), json!(["003"]))
    );

    let revised = json!({ "objective": "add login", "tasks": [
        { "seq": "002", "slug": "routes", "delta": ["routes.py"], "verify": "true", "depends": ["001"] } ] });
    let merged = fixture.ask("campaign.merge_plan", json!({ "revised": revised }));
    assert_eq!(merged["tasks"].as_array().unwrap().len(), 3);
    let tasks = fixture.ask("campaign.tasks", json!({}));
    assert_eq!(tasks["ready"][0]["seq"], "002", "it gets a new try");

    let analysis = fixture.ask("observer.analyze", json!({ "timeout": 20 }));
    assert_eq!(
        (analysis["verified"][0]["status"].clone(), analysis["workspaces"]["complete"].clone()),
        (json!("CONFIRMED"), json!(1))
    );
    assert_eq!(analysis["failures_extracted"].as_array().unwrap().len(), 1);
    fixture.ask("campaign.complete", json!({}));
    assert_eq!(
        std::fs::read_dir(fixture.folder.path().join(".ftl/archive")).unwrap().count(),
        1,
        "kept once"
    );
}

#[test]
fn a_lesson_with_a_fix_matches_an_error() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask("lesson.match", json!({ "error": "boom" }))["found"], false);
    let place = StateFolder::at(fixture.folder.path().to_owned());
    let records = Records::new(place.clone(), Arc::new(SqliteStore::open(&place.store()).unwrap()));
    let lesson = r#"{"name":"cycle","trigger":"ImportError: circular import of models","fix":"import inside the function","cost":900,"tags":["flaky"]}"#;
    let lesson = Json::parse(lesson).unwrap();
    records
        .learn(|lessons| lessons.learn(ftl_memory::StoredKind::Failure, lesson, &ftl_records::lessons::now()))
        .unwrap();
    let found = fixture
        .ask("lesson.match", json!({ "error": "E   ImportError: circular import of models (app.py:3)" }));
    assert_eq!(
        (found["found"].clone(), found["name"].clone(), found["flaky"].clone()),
        (json!(true), json!("cycle"), json!(true))
    );
    let noted = fixture.ask(
        "lesson.experience",
        json!({ "trigger": "the port is taken", "attempted": "another port", "source": "001-x" }),
    );
    assert_eq!(noted["path"], ".ftl/cache/experience.json");
}

#[test]
fn explorations_and_decisions_are_read() {
    let mut fixture = Fixture::new();
    let parts = json!([
        { "mode": "structure", "status": "ok", "directories": { "src": true } },
        { "mode": "delta", "status": "partial", "candidates": [{ "path": "a.py", "relevance": "high" }] },
        "no answer at all",
    ]);
    let found = fixture.ask("exploration.aggregate", json!({ "objective": "x", "parts": parts }));
    assert_eq!(found["delta"]["candidates"][0]["path"], "a.py");
    fixture.ask("exploration.write", json!({ "exploration": found }));
    assert!(fixture.folder.path().join(".ftl/exploration.json").exists());
    assert_eq!(fixture.ask("exploration.clear", json!({}))["cleared"], true);

    let text = format!("### Confidence: PROCEED\n\n```json\n{}\n```\n", plan());
    let decision = fixture.ask("decision.parse", json!({ "text": text }));
    assert_eq!((decision["kind"].clone(), decision["problems"].clone()), (json!("PROCEED"), json!([])));
    let broken = fixture.ask("plan.parse", json!({ "text": "{\"objective\": \"x\", \"tasks\": []}" }));
    assert_eq!(broken["problems"].as_array().unwrap().len(), 1);
    std::fs::write(fixture.folder.path().join("a.txt"), "words").unwrap();
    assert_eq!(fixture.ask("file.read", json!({ "path": "a.txt" }))["text"], "words");
    for path in ["../a.txt", "/etc/passwd", "missing"] {
        assert!(fixture.fails("file.read", json!({ "path": path })).contains("cannot be read"), "{path}");
    }
}

#[test]
fn what_cannot_be_done_is_a_failure_and_changes_nothing() {
    let mut fixture = Fixture::new();
    assert!(fixture.fails("campaign.tasks", json!({})).contains("No active campaign"));
    fixture.ask("campaign.create", json!({ "objective": "x" }));
    assert!(
        fixture
            .fails("campaign.update_task", json!({ "task": "9", "verdict": "complete" }))
            .contains("Unknown task")
    );
    assert!(
        fixture.fails("workspace.create", json!({ "plan": plan(), "task": "9" })).contains("no such task")
    );
    assert!(
        fixture
            .fails("workspace.complete", json!({ "path": "nowhere", "delivered": "x" }))
            .contains("no workspace")
    );
    assert!(fixture.fails("campaign.create", json!({ "objective": " " })).contains("empty"));
    assert!(fixture.fails("campaign.create", json!({})).contains("do not fit"));
}

#[test]
fn of_many_tasks_at_work_some_are_listed() {
    const MAX_LISTED: usize = 16;
    let mut fixture = Fixture::new();
    let task = |at: usize| {
        json!({ "seq": format!("{at:03}"), "slug": format!("t{at}"), "delta": [format!("f{at}.py")], "verify": "true",
            "depends": "none" })
    };
    let plan = json!({ "objective": "many", "tasks": (1..=MAX_LISTED + 1).map(task).collect::<Vec<_>>() });
    fixture.ask("campaign.create", json!({ "objective": "many" }));
    fixture.ask("campaign.add_tasks", json!({ "plan": plan }));
    for at in 1..=MAX_LISTED + 1 {
        fixture.ask("workspace.create", json!({ "plan": plan, "task": format!("{at:03}") }));
    }
    let tasks = fixture.ask("campaign.tasks", json!({}));
    assert_eq!((tasks["ready"].clone(), tasks["waiting_count"].clone()), (json!([]), json!(0)));
    assert_eq!(tasks["running"].as_array().unwrap().len(), MAX_LISTED);
}
