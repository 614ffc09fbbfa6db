//! A tiny world for campaigns: it explores, plans as it was told, keeps the graph of the tasks and
//! answers what the protocol asks about it. What builders, coders and people do is left to the case.

use std::sync::Arc;

use ftl_core::plan::{Cascade, Graph, PlanProgress, TaskStatus};
use ftl_core::run::{Action, Decision, Outcome, ROOT};
use ftl_core::value::{Fields, Name, Value};

use crate::support::{Stage, name_of, plain, with};

/// The tasks of a campaign and how far they have come.
pub(crate) struct World {
    progress: PlanProgress,
    tasks: Vec<Task>,
}

/// A task as a case writes it: `003<001,002:coder`, the last word being who does it, or `direct`.
#[derive(Clone)]
struct Task {
    seq: String,
    depends: Vec<String>,
    how: String,
}

impl World {
    /// A world with a plan.
    pub(crate) fn new(tasks: &str) -> World {
        let tasks: Vec<Task> = tasks.split_whitespace().map(Task::read).collect();
        World { progress: PlanProgress::new(graph(&tasks)), tasks }
    }

    /// Answers everything that is asked of the world until only others are asked.
    pub(crate) fn turn(&mut self, stage: &mut Stage) {
        while let Some((action, answer)) = self.next(stage) {
            let answer = with(&plain(&stage.answer_type(&action)), &answer);
            stage.outcome(&action, Outcome::Done(answer));
        }
    }

    /// A planner answers with more or other tasks, which are merged: known ones keep their status.
    pub(crate) fn revise(&mut self, stage: &mut Stage, tasks: &str) -> Decision {
        stage.done("Task(planner)", "{}");
        let revised: Vec<Task> = tasks.split_whitespace().map(Task::read).collect();
        let problems = ("problems", Value::list([]));
        self.reply(stage, "plan.parse", &fields([problems, ("plan", plan(&revised))]));
        let old =
            std::mem::replace(self, World { progress: PlanProgress::new(graph(&revised)), tasks: revised });
        for task in &self.tasks {
            if let Some(place) = old.progress.graph().find(&task.seq)
                && old.progress.status(place) == TaskStatus::Complete
            {
                settle(&mut self.progress, &task.seq, TaskStatus::Complete);
            }
        }
        let Value::Record(merged) = plan(&self.tasks) else { unreachable!() };
        self.reply(stage, "campaign.merge_plan", &merged)
    }

    fn reply(&self, stage: &mut Stage, whom: &str, changes: &Fields) -> Decision {
        let action = stage.find(whom);
        let answer = with(&plain(&stage.answer_type(&action)), changes);
        stage.outcome(&action, Outcome::Done(answer))
    }

    fn next(&mut self, stage: &Stage) -> Option<(Action, Fields)> {
        let planning = &*stage.run.instance(ROOT)?.state == "PLAN";
        let waiting = stage.waiting.clone();
        waiting.into_iter().find_map(|action| {
            let answer = self.answer(&action, planning)?;
            Some((action, answer))
        })
    }

    fn answer(&mut self, action: &Action, planning: bool) -> Option<Fields> {
        let count = |count: usize| Value::whole(count as i64);
        let given =
            |name: &str| action.params.get(name).and_then(Value::as_text).unwrap_or_default().to_owned();
        Some(match &*name_of(action) {
            "exploration.clear" | "exploration.aggregate" | "exploration.write" => Fields::new(),
            "Task(explorer)" | "campaign.create" | "campaign.add_tasks" | "campaign.complete" => {
                Fields::new()
            }
            "observer.analyze" | "Task(observer)" | "campaign.replan_input" => Fields::new(),
            "Task(planner)" if planning => Fields::new(),
            "decision.parse" => fields([("kind", Value::text("PROCEED")), ("plan", plan(&self.tasks))]),
            "campaign.tasks" => {
                let running = |seq: &str| self.status(seq) == TaskStatus::InProgress;
                let ready: Vec<Name> =
                    self.progress.ready().map(|place| self.progress.graph().seq(place).clone()).collect();
                fields([
                    ("ready", self.list(|seq| ready.iter().any(|one| **one == *seq))),
                    ("running", self.list(running)),
                ])
            }
            "workspace.create" => {
                let seq = given("task");
                settle(&mut self.progress, &seq, TaskStatus::InProgress);
                let direct = self.tasks.iter().any(|task| task.seq == seq && task.how == "direct");
                fields([
                    ("path", Value::text(&seq)),
                    ("story", Value::text(&seq)),
                    ("mode", Value::text(if direct { "direct" } else { "full" })),
                ])
            }
            "campaign.update_task" => {
                let complete = given("verdict") == "complete";
                let status = if complete { TaskStatus::Complete } else { TaskStatus::Blocked };
                settle(&mut self.progress, &given("task"), status);
                fields([("seq", Value::text(given("task"))), ("status", Value::text(status.word()))])
            }
            "campaign.cascade_status" => {
                let cascade = Cascade::of(Some(&self.progress));
                let unreachable = cascade.unreachable.iter().map(|task| {
                    let by = task.blocked_by.iter().map(Value::text);
                    Value::record([("seq", Value::text(&task.seq)), ("blocked_by", Value::list(by))])
                });
                fields([
                    ("state", Value::text(cascade.state.word())),
                    ("complete", count(cascade.complete)),
                    ("blocked", count(cascade.blocked)),
                    ("pending", count(cascade.pending)),
                    ("ready", count(cascade.ready)),
                    ("unreachable", Value::list(unreachable)),
                ])
            }
            "campaign.propagate_blocks" => {
                let blocked = self.progress.propagate();
                fields([
                    ("count", count(blocked.len())),
                    ("blocked", Value::list(blocked.iter().map(|task| Value::text(&task.seq)))),
                ])
            }
            "campaign.root_causes" => {
                let all = self.progress.count(TaskStatus::Blocked) == self.tasks.len();
                fields([("single", Value::Bool(all && self.progress.root_causes().len() == 1))])
            }
            "campaign.summary" => fields([
                ("total", count(self.tasks.len())),
                ("complete_count", count(self.progress.count(TaskStatus::Complete))),
                ("blocked_count", count(self.progress.count(TaskStatus::Blocked))),
                ("pending_count", count(self.progress.count(TaskStatus::Pending))),
            ]),
            _ => return None,
        })
    }

    fn status(&self, seq: &str) -> TaskStatus {
        self.progress.status(self.progress.graph().find(seq).unwrap())
    }

    /// Some of the tasks, as `campaign.tasks` lists them.
    fn list(&self, wanted: impl Fn(&str) -> bool) -> Value {
        let tasks = self.tasks.iter().filter(|task| wanted(&task.seq)).map(|task| {
            let worker = if task.how == "coder" { "coder" } else { "builder" };
            Value::record([
                ("seq", Value::text(&task.seq)),
                ("slug", Value::text(&task.seq)),
                ("worker", Value::text(worker)),
                ("depends", Value::list(task.depends.iter().map(Value::text))),
                ("status", Value::text(self.status(&task.seq).word())),
            ])
        });
        Value::list(tasks)
    }
}

impl Task {
    fn read(text: &str) -> Task {
        let (text, how) = text.split_once(':').unwrap_or((text, "builder"));
        let (seq, depends) = text.split_once('<').unwrap_or((text, ""));
        let depends = depends.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        Task { seq: seq.to_owned(), depends, how: how.to_owned() }
    }
}

fn graph(tasks: &[Task]) -> Arc<Graph> {
    let tasks: Vec<(&str, &[String])> = tasks.iter().map(|task| (&*task.seq, &*task.depends)).collect();
    Arc::new(Graph::build(&tasks).unwrap_or_else(|problems| panic!("{problems:?}")))
}

fn plan(tasks: &[Task]) -> Value {
    let tasks = tasks.iter().map(|task| {
        Value::record([
            ("seq", Value::text(&task.seq)),
            ("slug", Value::text(&task.seq)),
            ("delta", Value::list([Value::text("a.rs")])),
            ("verify", Value::text("true")),
        ])
    });
    Value::record([("objective", Value::text("o")), ("tasks", Value::list(tasks))])
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Fields {
    fields.map(|(name, value)| (Name::from(name), value)).into()
}

fn settle(progress: &mut PlanProgress, seq: &str, status: TaskStatus) {
    let place = progress.graph().find(seq).unwrap();
    progress.settle_at(place, status);
}
