//! Agents as hands: scripted agents work for real jobs, with a driver that rules and charges.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use ftl_agents::contract::Backend;
use ftl_agents::scripted::{Script, Scripted};
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::RealTime;
use ftl_core::run::{Action, ActionId, ActionTarget, FailureKind, ROOT, Usage};
use ftl_core::value::{Name, Value};
use ftl_engine::executors::agents::{Agents, Means, RoleAnswerer};
use ftl_engine::executors::{Executor, Job, JobEnd, JobRefusal, JobReport, Report};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_process::{Cancel, Guard, ProcessLimits, Supervisor, own_orphans};
use ftl_settings::environment::Environment;
use ftl_settings::prompts::Prompts;

/// A place with one worktree.
struct Stage {
    folder: tempfile::TempDir,
    tree: PathBuf,
}

/// What a driver said and heard.
#[derive(Default)]
struct Ruled {
    tools: Vec<String>,
    spent: Vec<Usage>,
}

impl Stage {
    fn new() -> Stage {
        own_orphans().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join(".ftl/worktrees/one");
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(tree.join("old.txt"), "old").unwrap();
        Stage { folder, tree }
    }

    fn hand(&self, script: &str) -> Agents {
        let place = StateFolder::at(self.folder.path());
        let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
        let supervisor = Supervisor::new(guard, &place.attempts(), &place.spool()).unwrap();
        let script = Script::parse(script).unwrap();
        let backend: Arc<dyn Backend> =
            Arc::new(Scripted::new("scripted", script, Arc::new(Secrets::new()), Arc::new(RealTime::new())));
        let (environment, pricing) = (Environment::default(), Default::default());
        let seat = RoleAnswerer { backend, model: None, silence: None, resume: false, environment, pricing };
        let means = Means {
            prompts: Prompts::built_in().unwrap(),
            place,
            supervisor: Arc::new(supervisor),
            commands: ProcessLimits::default(),
            programs: ProcessLimits::of_agent(),
            sandboxes: Default::default(),
        };
        Agents::new(BTreeMap::from([("coder".to_owned(), Ok(seat))]), means)
    }

    /// Performs a coder's job, with a driver that pays for so many calls.
    fn perform(&self, script: &str, write: &str, calls: usize) -> (Report, Ruled) {
        let (host, words) = channel();
        let driver = std::thread::spawn(move || {
            let mut ruled = Ruled::default();
            for told in words {
                match told {
                    JobReport::Tool(_, _, (tool, _), reply) => {
                        ruled.tools.push(tool.to_string());
                        let fine = ruled.tools.len() <= calls;
                        reply
                            .send(if fine { Ok(()) } else { Err(JobRefusal::Denied("tools spent".into())) })
                            .unwrap();
                    }
                    JobReport::Spent(_, _, usage, reply) => {
                        ruled.spent.push(usage);
                        reply.send(Ok(())).unwrap();
                    }
                    JobReport::Report(..) | JobReport::Probed(..) => {}
                }
            }
            ruled
        });
        let report = self.hand(script).perform(&job(write, host));
        (report, driver.join().unwrap())
    }
}

fn job(write: &str, host: Sender<JobReport>) -> Job {
    let params =
        [("step", "code"), ("story", "a story"), ("plan", "p"), ("feedback", "MEND IT"), ("write", write)];
    let params = params.map(|(name, text)| (Name::from(name), Value::text(text))).into();
    let wanted = ActionTarget::Task { role: Name::from("coder"), paying: Some(Name::from("tools")) };
    let action =
        Action { instance: ROOT, id: ActionId { entry: 3, index: 0 }, wanted, params, forbidden: None };
    Job::new(RunId::of(7), action, Usage::new(), Cancel::new(), host)
}

const WORKS: &str = r#"
[[scene]]
role = "coder"
form = "code"
told = "MEND IT"
[[scene.step]]
calls = [
    { tool = "write", path = "src/a.txt", content = "hello" },
    { tool = "bash", command = "cat src/a.txt > copy.txt; echo $FTL_ATTEMPT >> copy.txt" },
    { tool = "write", path = "../../../outside.txt", content = "no" },
]
usage = { tokens = 5, money = 7 }
[[scene.step]]
submit = { summary = "done" }
"#;

#[test]
fn an_agent_works_in_its_worktree_and_every_call_is_paid() {
    let stage = Stage::new();
    let (report, ruled) = stage.perform(WORKS, stage.tree.to_str().unwrap(), 9);
    assert_eq!(report.ended, JobEnd::Done(Value::record([("summary", Value::text("done"))])));
    assert_eq!(ruled.tools, ["write", "bash"], "what is denied and what is free is not paid");
    let spent: u64 = ruled.spent.iter().filter_map(|usage| usage.get("tokens")).sum();
    assert_eq!((spent, ruled.spent.len()), (5, 2));
    let names = ["money", "tokens", "turns"].map(|name| (Name::from(name), 0));
    assert_eq!(report.usage, Usage::from(names), "all of it was charged on the way");
    let copy = std::fs::read_to_string(stage.tree.join("copy.txt")).unwrap();
    assert!(copy.starts_with("hello") && copy.contains(".3.0.0"), "the command ran under a mark: {copy}");
    assert!(!stage.folder.path().join("outside.txt").exists());
}

#[test]
fn a_call_that_the_driver_denies_ends_the_task() {
    let stage = Stage::new();
    let (report, ruled) = stage.perform(WORKS, stage.tree.to_str().unwrap(), 1);
    assert_eq!(report.ended, JobEnd::Cancelled);
    assert_eq!(ruled.tools, ["write", "bash"]);
    assert!(!stage.tree.join("copy.txt").exists());
}

#[test]
fn an_agent_without_a_worktree_of_ours_writes_nothing() {
    let stage = Stage::new();
    let root = stage.folder.path().to_str().unwrap().to_owned();
    let above = stage.folder.path().join(".ftl/worktrees");
    let link = stage.folder.path().join(".ftl/worktrees/link");
    std::os::unix::fs::symlink(stage.folder.path(), &link).unwrap();
    for write in [&root, above.to_str().unwrap(), link.to_str().unwrap(), "src", "", "/nowhere"] {
        let (report, ruled) = stage.perform(WORKS, write, 9);
        assert_eq!(report.ended, JobEnd::Done(Value::record([("summary", Value::text("done"))])), "{write}");
        assert!(ruled.tools.is_empty(), "{write}: {:?}", ruled.tools);
        assert!(!stage.folder.path().join("src").exists(), "{write}");
    }
}

#[test]
fn what_is_not_reported_is_missing_and_what_cannot_be_asked_is_told() {
    let stage = Stage::new();
    let silent = "[[scene]]\n[[scene.step]]\nsilent = [\"tokens\"]\nsubmit = { summary = \"x\" }\n";
    let (report, _) = stage.perform(silent, "", 9);
    assert_eq!(report.usage.get("tokens"), None);
    assert_eq!(report.usage.get("money"), Some(&0));

    let asks = "[[scene]]\n[[scene.step]]\nask = \"Which?\"\n";
    let (report, _) = stage.perform(asks, "", 9);
    assert_eq!(report.ended, JobEnd::failed(FailureKind::Asked, "the agent asks: Which?"));

    let out = "[[scene]]\n[[scene.step]]\noutage = \"model\"\n";
    let (report, _) = stage.perform(out, "", 9);
    assert_eq!(report.ended, JobEnd::Outage { service: "model (the script says so)".into(), after: None });

    let other = "[[scene]]\nrole = \"planner\"\n[[scene.step]]\nreply = \"x\"\n";
    let (report, _) = stage.perform(other, "", 9);
    let wanted = JobEnd::failed(FailureKind::CouldNotRun, "the script has no scene for the coder");
    assert_eq!(report.ended, wanted);
}
