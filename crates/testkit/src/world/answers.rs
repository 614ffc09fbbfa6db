//! What a world answers: the plainest answer of the declared type, with what the plot says on top.
//!
//! Answers are made from the state of the world and the action alone. Nothing here changes anything.

use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::plan::{Cascade, TaskStatus};
use ftl_core::run::{Action, ActionTarget};
use ftl_core::types::Type;
use ftl_core::value::{Fields, Name, Number, Value};

use super::{Done, Effect, Fate, How, State, run_of};
use crate::dice::Dice;

/// Whom an action asks, as executors are called.
pub(super) fn whom(action: &Action) -> String {
    action.wanted.performer().to_string()
}

/// What an action must answer, by the catalogue.
pub fn answer_type(action: &Action) -> Type {
    let catalogue = Catalogue::standard();
    match &action.wanted {
        ActionTarget::Action(name) => catalogue.action(name).map_or(Type::Any, |one| one.answer.clone()),
        ActionTarget::Task { role, .. } => {
            let Some(role) = catalogue.role(role) else { return Type::Any };
            let word = role.selector.and_then(|name| action.params.get(name)).and_then(Value::as_text);
            let given = action.params.keys().map(|name| &**name);
            role.pick(word, &given).map_or(Type::Any, |form| form.answer.clone())
        }
        ActionTarget::Word(_) | ActionTarget::Question => Type::Any,
    }
}

/// The plainest value of a type: everything that must be there, passed and not failed.
pub fn plain(ty: &Type) -> Value {
    match ty {
        Type::Unknown | Type::Any | Type::Text | Type::Digest => Value::text("x"),
        Type::Bool => Value::Bool(false),
        Type::Number | Type::Duration => Value::Number(Number::whole(1)),
        Type::Choice(words) => words.first().map_or(Value::None, Value::text),
        Type::List(_) => Value::list([]),
        Type::Record(record) => {
            let fields = record.fields.iter().filter(|(_, field)| field.required);
            let mut value: Fields = fields.map(|(name, field)| (name.clone(), plain(&field.ty))).collect();
            for name in ["passed", "ok"] {
                if let Some(passed @ Value::Bool(_)) = value.get_mut(name) {
                    *passed = Value::Bool(true);
                }
            }
            Value::Record(Arc::new(value))
        }
    }
}

/// The plainest value of a type, with a digest wherever one may be: of what was seen or written.
fn looked_at(ty: &Type) -> Value {
    let Type::Record(record) = ty else { return plain(ty) };
    let digests = record.fields.iter().filter(|(_, field)| field.ty == Type::Digest);
    with(&plain(ty), digests.map(|(name, _)| (name.clone(), Value::text("d1"))).collect())
}

/// A record with some fields changed.
pub fn with(base: &Value, changes: Fields) -> Value {
    let Value::Record(fields) = base else { return base.clone() };
    let mut fields = (**fields).clone();
    fields.extend(changes);
    Value::Record(Arc::new(fields))
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Fields {
    fields.map(|(name, value)| (Name::from(name), value)).into()
}

fn count(count: usize) -> Value {
    Value::whole(i64::try_from(count).unwrap_or(i64::MAX))
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    Value::list(texts.into_iter().map(Value::text))
}

fn red(what: &str) -> Fields {
    fields([("passed", Value::Bool(false)), ("failed", Value::Bool(true)), ("summary", Value::text(what))])
}

impl State {
    /// What follows from an action that is done now.
    pub(super) fn work(&self, key: &str, action: &Action) -> Done {
        let (changes, effect) = self.answer(key, action);
        let answer = with(&looked_at(&answer_type(action)), changes);
        Done { key: key.to_owned(), instance: action.instance.0, whom: whom(action), effect, answer }
    }

    fn answer(&self, key: &str, action: &Action) -> (Fields, Effect) {
        let whom = whom(action);
        if let Some(answer) = self.campaign(key, action, &whom) {
            return answer;
        }
        let times = self.times(key, action);
        let task = self.task_of(key, action);
        let fate = task.as_ref().map_or(Fate::Smooth, |seq| self.fate(key, seq));
        let first = times == 0;
        let given = |name: &str| action.params.get(name).and_then(Value::as_text).unwrap_or_default();
        let step = action.params.get("step").and_then(Value::as_text).unwrap_or_default();
        match (whom.as_str(), step) {
            ("workspace.parse", _) => (self.spec(given("path")), Effect::Placed(given("path").to_owned())),
            ("worktree.open", _) => (Fields::new(), Effect::Placed(given("story").to_owned())),
            ("workspace.validate", _) if fate == Fate::Unsound => {
                (red("it contradicts itself"), Effect::Nothing)
            }
            ("preflight.check", _) if fate == Fate::BrokenOnce && first => {
                let mut broken = red("a.rs:1: no");
                broken.extend(fields([("broken", texts(["a.rs"])), ("status", Value::text("fail"))]));
                (broken, Effect::Nothing)
            }
            ("verify.run" | "tests.run", _) if fate == Fate::Red || fate == Fate::RedOnce && first => {
                let outcome = fields([("outcome", Value::text("failed"))]);
                let mut report = red("1 failed");
                report.extend(outcome.into_iter().filter(|_| whom == "verify.run"));
                (report, Effect::Nothing)
            }
            ("lesson.match", _) => {
                let found = Value::Bool(fate == Fate::RedOnce);
                (
                    fields([("found", found), ("name", Value::text("l1")), ("fix", Value::text("do"))]),
                    Effect::Nothing,
                )
            }
            ("quality.check", _) if fate == Fate::Unidiomatic => (red("no unwrap"), Effect::Nothing),
            ("verify.run", _) => (fields([("outcome", Value::text("passed"))]), Effect::Nothing),
            ("preflight.check", _) => (fields([("status", Value::text("pass"))]), Effect::Nothing),
            ("Task(architect)", step) => (architect(step, fate, first), Effect::Nothing),
            ("Task(coder)", "plan") => (fields([("digest", Value::text("d1"))]), Effect::Nothing),
            ("work.land" | "work.merge", _) => landing(task, fate == Fate::ConflictOnce && first),
            _ => (Fields::new(), Effect::Nothing),
        }
    }

    /// The fate of a task; a brief for the direct mode that meets trouble is simply too large, and
    /// what was planned again does better.
    fn fate(&self, key: &str, seq: &str) -> Fate {
        if self.revived.contains(seq) {
            return Fate::Smooth;
        }
        let fate = self.plot.fate(seq);
        let run = run_of(key);
        let tried = self.places.iter().filter(|((one, _), task)| *one == run && *task == seq).count();
        let direct = self.plot.task(seq).is_some_and(|task| task.how == How::Direct);
        match (direct, tried) {
            (true, 0 | 1) if fate != Fate::Smooth => Fate::Red,
            (true, _) => Fate::Smooth,
            (false, _) => fate,
        }
    }

    fn spec(&self, path: &str) -> Fields {
        let mut dice = Dice::for_name(self.plot.seed, &format!("spec {path}"));
        let mut spec = fields([
            ("delta", texts(["a.rs"])),
            ("verify", Value::text("true")),
            ("budget", Value::whole(6)),
            ("framework_confidence", Value::Number(Number::thousandths(900))),
        ]);
        if dice.chance(50) {
            spec.insert(Name::from("verify_source"), Value::text("t.rs"));
        }
        spec
    }

    fn campaign(&self, key: &str, action: &Action, whom: &str) -> Option<(Fields, Effect)> {
        let given =
            |name: &str| action.params.get(name).and_then(Value::as_text).unwrap_or_default().to_owned();
        let nothing = |fields: Fields| Some((fields, Effect::Nothing));
        match whom {
            "decision.parse" => nothing(self.decision(self.times(key, action))),
            "plan.parse" => nothing(self.revision()),
            "campaign.merge_plan" => {
                let Value::Record(plan) = self.plot.plan() else { return None };
                Some(((*plan).clone(), Effect::Revived))
            }
            "campaign.add_tasks" => {
                let seqs = texts(self.plot.tasks.iter().map(|task| &*task.seq));
                nothing(fields([("count", count(self.plot.tasks.len())), ("seqs", seqs)]))
            }
            "campaign.tasks" => nothing(self.tasks()),
            "workspace.create" => {
                let first = self.plot.tasks.first().map(|task| task.seq.clone());
                let seq = Some(given("task")).filter(|seq| !seq.is_empty()).or(first).unwrap_or_default();
                Some((self.brief(&seq), Effect::Begun(seq)))
            }
            "campaign.update_task" => {
                let complete = given("verdict") == "complete";
                let status = if complete { TaskStatus::Complete } else { TaskStatus::Blocked };
                let told = [("seq", Value::text(given("task"))), ("status", Value::text(status.word()))];
                Some((fields(told), Effect::Ended(given("task"), complete)))
            }
            "campaign.cascade_status" => nothing(self.cascade()),
            "campaign.propagate_blocks" => {
                let blocked = self.progress.unreachable();
                let seqs = texts(blocked.iter().map(|task| &*task.seq));
                Some((fields([("count", count(blocked.len())), ("blocked", seqs)]), Effect::Propagated))
            }
            "campaign.root_causes" => {
                let all = self.progress.count(TaskStatus::Blocked) == self.plot.tasks.len();
                nothing(fields([("single", Value::Bool(all && self.progress.root_causes().len() == 1))]))
            }
            "campaign.summary" => nothing(fields([
                ("total", count(self.plot.tasks.len())),
                ("complete_count", count(self.progress.count(TaskStatus::Complete))),
                ("blocked_count", count(self.progress.count(TaskStatus::Blocked))),
                ("pending_count", count(self.progress.count(TaskStatus::Pending))),
            ])),
            _ => None,
        }
    }

    /// The planner may need an answer first, or be unclear once.
    fn decision(&self, times: u32) -> Fields {
        let kind = match Dice::for_name(self.plot.seed, "decision").below(8) {
            0 if times == 0 => "CLARIFY",
            1 if times == 0 => "CONFIRM",
            2 if times == 0 => "UNKNOWN",
            _ => "PROCEED",
        };
        fields([
            ("kind", Value::text(kind)),
            ("plan", self.plot.plan()),
            ("questions", texts(["which one?"])),
            ("selection", Value::text("this one?")),
        ])
    }

    fn revision(&self) -> Fields {
        let sound = Dice::for_name(self.plot.seed, "revision").chance(60);
        let problems = texts(["it has a cycle"].into_iter().filter(|_| !sound));
        fields([("problems", problems), ("plan", self.plot.plan())])
    }

    fn brief(&self, seq: &str) -> Fields {
        let direct = self.plot.task(seq).is_some_and(|task| task.how == How::Direct);
        fields([
            ("path", Value::text(seq)),
            ("story", Value::text(seq)),
            ("mode", Value::text(if direct { "direct" } else { "full" })),
            ("budget", Value::whole(6)),
            ("full_budget", Value::whole(6)),
        ])
    }

    fn tasks(&self) -> Fields {
        let graph = self.progress.graph();
        let ready: Vec<&Name> = self.progress.ready().map(|place| graph.seq(place)).collect();
        let running: Vec<&Name> = self.with_status(TaskStatus::InProgress).collect();
        fields([("ready", self.list(&ready, "pending")), ("running", self.list(&running, "in_progress"))])
    }

    /// Some of the tasks, as `campaign.tasks` lists them.
    fn list(&self, seqs: &[&Name], status: &str) -> Value {
        let tasks = seqs.iter().filter_map(|seq| self.plot.task(seq)).map(|task| {
            let worker = if task.how == How::Coder { "coder" } else { "builder" };
            Value::record([
                ("seq", Value::text(&task.seq)),
                ("slug", Value::text(&task.seq)),
                ("worker", Value::text(worker)),
                ("depends", texts(task.depends.iter().map(String::as_str))),
                ("status", Value::text(status)),
            ])
        });
        Value::list(tasks)
    }

    fn cascade(&self) -> Fields {
        let cascade = Cascade::of(Some(&self.progress));
        let unreachable = cascade.unreachable.iter().map(|task| {
            let by = texts(task.blocked_by.iter().map(|seq| &**seq));
            Value::record([("seq", Value::text(&task.seq)), ("blocked_by", by)])
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
}

fn architect(step: &str, fate: Fate, first: bool) -> Fields {
    let verdict = match (step, fate) {
        ("plan_review", Fate::BrokenOnce) if first => "CHANGES",
        ("plan_review", Fate::Unsound) => "ABANDON",
        ("code_review", Fate::Unidiomatic) => "ABANDON",
        ("budget_review", _) => "ABANDON",
        _ => "APPROVE",
    };
    fields([("verdict", Value::text(verdict)), ("feedback", Value::text("look again"))])
}

fn landing(task: Option<String>, conflict: bool) -> (Fields, Effect) {
    if conflict {
        let sides = Value::list([Value::record([("path", Value::text("a.rs"))])]);
        let told = [("status", Value::text("conflict")), ("sides", sides), ("files", texts(["a.rs"]))];
        return (fields(told), Effect::Nothing);
    }
    let commit = format!("commit-{}", task.as_deref().unwrap_or("none"));
    let told = [("status", Value::text("landed")), ("commit", Value::text(commit))];
    (fields(told), task.map_or(Effect::Nothing, Effect::Landed))
}
