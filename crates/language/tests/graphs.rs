//! Campaigns over every small graph of tasks, every order of settling and every outcome.
//!
//! The protocol is the real one; its workers are stubs of one step. The world keeps the plan with
//! `ftl_core::plan` and answers honestly: it never says that something is done that is not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use ftl_core::plan::{Cascade, Graph, PlanProgress, TaskStatus};
use ftl_core::run::{
    Action, ActionTarget, End, Event, Failure, FailureKind, Input, OpenKind, Outcome, ROOT, Run, Terms, Usage,
};
use ftl_core::value::{Fields, Name, Value};
use ftl_language::library::Library;
use support::{STUB_BUILDER, STUB_CODER, fields, full, library_with, name_of, with};

/// What a planner says when it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Replan {
    /// Nothing that is a plan.
    Nothing,
    /// The same plan once more: what was blocked is to be tried again.
    Same,
}

/// How a worker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Complete,
    Blocked,
    Escalated,
    Error,
}

const EVERY_WORK: [Work; 4] = [Work::Complete, Work::Blocked, Work::Escalated, Work::Error];

/// The world of a campaign.
#[derive(Clone)]
struct World {
    plan: Value,
    progress: PlanProgress,
    /// How often each task was started, and how often the plan was merged.
    started: BTreeMap<String, usize>,
    merged: usize,
    planned: usize,
    delivered: bool,
    /// Tasks whose brief says `direct`.
    direct: BTreeSet<String>,
}

impl World {
    fn new(depends: &[Vec<usize>]) -> World {
        let seq = |at: usize| format!("{:03}", at + 1);
        let named: Vec<(String, Vec<String>)> = depends
            .iter()
            .enumerate()
            .map(|(at, on)| (seq(at), on.iter().map(|one| seq(*one)).collect()))
            .collect();
        let tasks = named.iter().map(|(seq, depends)| {
            Value::record([
                ("seq", Value::text(seq)),
                ("slug", Value::text("slug")),
                ("delta", Value::list([])),
                ("verify", Value::text("true")),
                ("depends", Value::list(depends.iter().map(Value::text))),
            ])
        });
        let plan = Value::record([("objective", Value::text("o")), ("tasks", Value::list(tasks))]);
        let progress = PlanProgress::new(Arc::new(Graph::build(&named).unwrap()));
        let direct = BTreeSet::from([seq(0)]);
        World { plan, progress, started: BTreeMap::new(), merged: 0, planned: 0, delivered: false, direct }
    }

    fn count(&self, status: TaskStatus) -> usize {
        self.progress.count(status)
    }

    fn task(&self, place: ftl_core::plan::TaskIndex) -> Value {
        let graph = self.progress.graph();
        Value::record([
            ("seq", Value::text(graph.seq(place))),
            ("slug", Value::text("slug")),
            ("worker", Value::text("builder")),
            ("depends", Value::list(graph.depends(place).iter().map(|on| Value::text(graph.seq(*on))))),
            ("status", Value::text(self.progress.status(place).word())),
        ])
    }

    /// A task starts when its brief is written, and only after all that it depends on.
    fn start(&mut self, seq: &str) {
        let graph = self.progress.graph().clone();
        let place = graph.find(seq).unwrap();
        for parent in graph.depends(place) {
            assert_eq!(
                self.progress.status(*parent),
                TaskStatus::Complete,
                "{seq} before {}",
                graph.seq(*parent)
            );
        }
        assert_eq!(self.progress.status(place), TaskStatus::Pending, "{seq} is started and does not wait");
        let count = self.started.entry(seq.to_owned()).or_default();
        *count += 1;
        assert!(*count <= 1 + self.merged, "{seq} is started twice");
        self.progress.settle_at(place, TaskStatus::InProgress);
    }

    /// The answer to an action; what it changes is changed.
    fn answer(&mut self, action: &Action, base: &Value) -> Value {
        let number = |count: usize| Value::whole(count as i64);
        let changes: Vec<(&str, Value)> = match &*name_of(action) {
            "decision.parse" => vec![
                ("kind", Value::text("PROCEED")),
                ("problems", Value::list([])),
                ("plan", self.plan.clone()),
            ],
            "Task(planner)" => {
                self.planned += 1;
                Vec::new()
            }
            "campaign.tasks" => {
                let graph = self.progress.graph();
                let at_work = |place: &ftl_core::plan::TaskIndex| {
                    self.progress.status(*place) == TaskStatus::InProgress
                };
                let running = graph.places().filter(at_work).map(|place| self.task(place));
                vec![
                    ("ready", Value::list(self.progress.ready().map(|place| self.task(place)))),
                    ("running", Value::list(running)),
                ]
            }
            "workspace.create" => {
                let seq = action.params["task"].as_text().unwrap().to_owned();
                self.start(&seq);
                let mode = if self.direct.contains(&seq) { "direct" } else { "full" };
                vec![("mode", Value::text(mode)), ("path", Value::text(&seq))]
            }
            "campaign.update_task" => {
                let complete = action.params["verdict"].as_text() == Some("complete");
                let status = if complete { TaskStatus::Complete } else { TaskStatus::Blocked };
                let seq = action.params["task"].as_text().unwrap();
                let place = self.progress.graph().find(seq).unwrap();
                assert_eq!(
                    self.progress.settle_at(place, status),
                    TaskStatus::InProgress,
                    "{seq} settles twice"
                );
                vec![("seq", Value::text(seq)), ("status", Value::text(status.word()))]
            }
            "campaign.cascade_status" => {
                let cascade = Cascade::of(Some(&self.progress));
                let unreachable = cascade.unreachable.iter().map(|one| {
                    let by = Value::list(one.blocked_by.iter().map(Value::text));
                    Value::record([("seq", Value::text(&one.seq)), ("blocked_by", by)])
                });
                vec![("state", Value::text(cascade.state.word())), ("unreachable", Value::list(unreachable))]
            }
            "campaign.propagate_blocks" => {
                self.progress.propagate();
                Vec::new()
            }
            "campaign.merge_plan" => return self.merge(),
            "campaign.summary" => vec![
                ("total", number(self.progress.graph().len())),
                ("complete_count", number(self.count(TaskStatus::Complete))),
                ("blocked_count", number(self.count(TaskStatus::Blocked))),
                ("pending_count", number(self.count(TaskStatus::Pending))),
            ],
            "branch.deliver" => {
                self.delivered = true;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let changes: Fields = changes.into_iter().map(|(name, value)| (Name::from(name), value)).collect();
        with(base, &changes)
    }

    /// The same plan again: what was blocked waits once more.
    fn merge(&mut self) -> Value {
        self.merged += 1;
        let graph = self.progress.graph().clone();
        for place in graph
            .places()
            .filter(|place| self.progress.status(*place) == TaskStatus::Blocked)
            .collect::<Vec<_>>()
        {
            self.progress.settle_at(place, TaskStatus::Pending);
        }
        self.plan.clone()
    }
}

/// A campaign under way.
#[derive(Clone)]
struct Campaign {
    run: Run,
    world: World,
    waiting: Vec<Action>,
    /// Whether any worker ended otherwise than complete.
    failed: bool,
    rounds: u64,
}

impl Campaign {
    fn open(library: &Arc<Library>, world: World) -> Campaign {
        let run = Run::new(library.clone());
        let mut campaign = Campaign { run, world, waiting: Vec::new(), failed: false, rounds: 0 };
        let (inputs, terms) = (fields(r#"{"objective":"o"}"#), Terms::default());
        campaign.send(Event::Open { protocol: Name::from("campaign"), inputs, terms, adopt: None });
        campaign
    }

    fn send(&mut self, event: Event) {
        let decision = self.run.step(&Input { at: 1, event });
        assert_eq!(decision.refusal, None);
        for entry in &decision.entries {
            if let ftl_core::run::Fact::Paid(ftl_core::run::Payment::Meter { meter, .. }) = &entry.fact {
                self.rounds += u64::from(&**meter == "rounds");
            }
        }
        self.waiting.extend(decision.start);
        let run = &self.run;
        self.waiting
            .retain(|one| run.instance(one.instance).is_some_and(|owner| owner.open.contains_key(&one.id)));
        let root = self.run.instance(ROOT).unwrap();
        let rounds = &root.meters["rounds"];
        assert!(rounds.highest_use() <= rounds.limit, "too many rounds");
        assert!(root.meters["replans"].highest_use() <= 2, "too many replans");
    }

    fn base(&self, action: &Action) -> Value {
        let instance = self.run.instance(action.instance).unwrap();
        let place = instance.open[&action.id].place;
        let program = self.run.programs().program(&instance.protocol).unwrap();
        let node = program.state(&instance.state).unwrap().node(place).unwrap();
        full(&node.calls[action.id.index as usize].answer)
    }

    fn done(&mut self, action: &Action) {
        if action.wanted == ActionTarget::Question {
            let (instance, action) = (action.instance, Some(action.id));
            return self.send(Event::Reply {
                instance,
                action,
                value: Value::text("ff"),
                by: "ann".to_owned(),
            });
        }
        let base = self.base(action);
        let answer = self.world.answer(action, &base);
        self.outcome(action, Outcome::Done(answer));
    }

    fn outcome(&mut self, action: &Action, outcome: Outcome) {
        let (instance, action) = (action.instance, action.id);
        self.send(Event::Outcome { instance, action, outcome, usage: Some(Usage::new()) });
    }

    fn work(&mut self, action: &Action, work: Work) {
        self.failed |= work != Work::Complete;
        let status = match work {
            Work::Complete => "landed",
            Work::Blocked => "failed",
            Work::Escalated => "conflict",
            Work::Error => {
                return self.outcome(action, Outcome::Failed(Failure::new(FailureKind::Failed, "boom")));
            }
        };
        let status = Fields::from([(Name::from("status"), Value::text(status))]);
        let answer = with(&self.base(action), &status);
        self.outcome(action, Outcome::Done(answer));
    }

    fn replan(&mut self, action: &Action, replan: Replan) {
        let (plan, problems) = match replan {
            Replan::Nothing => (Value::None, Value::list([Value::text("no plan")])),
            Replan::Same => (self.world.plan.clone(), Value::list([])),
        };
        let changes = [(Name::from("plan"), plan), (Name::from("problems"), problems)];
        let answer = with(&self.base(action), &changes.into());
        self.outcome(action, Outcome::Done(answer));
    }

    /// Everything that can come next. Either any open action in any order, or first everything
    /// but the work of workers, in the order of asking.
    fn next(&self, any_order: bool, works: &[Work], replans: &[Replan]) -> Vec<Campaign> {
        let is_work = |action: &&Action| name_of(action) == "work.land";
        let prompt = self.waiting.iter().find(|action| !is_work(action));
        let actions: Vec<&Action> = match prompt {
            Some(prompt) if !any_order => vec![prompt],
            Some(_) | None => self.waiting.iter().collect(),
        };
        let mut next = Vec::new();
        for action in actions {
            let mut step = |act: &dyn Fn(&mut Campaign)| {
                let mut campaign = self.clone();
                act(&mut campaign);
                next.push(campaign);
            };
            match &*name_of(action) {
                "work.land" => works.iter().for_each(|work| step(&|one| one.work(action, *work))),
                "plan.parse" => replans.iter().for_each(|replan| step(&|one| one.replan(action, *replan))),
                _ => step(&|one| one.done(action)),
            }
        }
        next
    }

    /// What can still make a difference.
    fn key(&self) -> String {
        let root = self.run.instance(ROOT).unwrap();
        let mut text =
            format!("{} {} {} {}", root.state, self.failed, self.world.merged, self.world.delivered);
        write!(text, " {} {:?}", self.rounds, self.world.started).unwrap();
        for place in self.world.progress.graph().places() {
            write!(text, " {}", self.world.progress.status(place)).unwrap();
        }
        for meter in root.meters.values() {
            write!(text, " {}", meter.highest_use()).unwrap();
        }
        for (id, thread) in &root.threads {
            write!(text, " {id:?} {} {:?}", thread.place, thread.locals.get("build")).unwrap();
        }
        for open in root.open.values() {
            write!(text, " {}", open.branch).unwrap();
            if let OpenKind::Child(Some(child)) = &open.kind {
                write!(text, "{:?}", self.run.instance(*child).unwrap().inputs).unwrap();
            }
        }
        for ended in root.ended.values() {
            write!(text, " {}", ended.key).unwrap();
        }
        text
    }

    /// What holds at every end.
    fn ended_well(&self, end: End) {
        let (world, total) = (&self.world, self.world.progress.graph().len());
        assert!(world.count(TaskStatus::InProgress) == 0, "somebody is still at work");
        assert_eq!(world.progress.ready().count(), 0, "a task could run and never did");
        assert_eq!(world.count(TaskStatus::Pending), 0, "what cannot run is not blocked");
        let graph = world.progress.graph();
        for place in graph.places().filter(|place| world.progress.status(*place) == TaskStatus::Blocked) {
            for child in graph.dependents(place) {
                assert_eq!(world.progress.status(*child), TaskStatus::Blocked, "a block does not propagate");
            }
        }
        let complete = world.count(TaskStatus::Complete) == total;
        assert_eq!(end == End::Complete, complete, "complete iff every task is");
        assert!(end == End::Complete || end == End::Blocked, "{end:?}");
        assert!(complete || self.failed, "nobody failed and it is not complete");
        assert_eq!(world.delivered, complete && total > 0, "nothing lands unless every task is complete");
        let root = self.run.instance(ROOT).unwrap();
        assert_eq!(root.meters["rounds"].limit, 20.max(total as u64));
        let starts: usize = world.started.values().sum();
        assert!(self.rounds as usize <= starts, "{} rounds for {starts} starts", self.rounds);
    }
}

fn library() -> Arc<Library> {
    library_with(&[("builder", STUB_BUILDER), ("coder", STUB_CODER)])
}

/// Every graph of so many tasks whose arrows go from earlier to later tasks.
fn graphs(count: usize) -> Vec<Vec<Vec<usize>>> {
    let pairs: Vec<(usize, usize)> = (0..count).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    let graph = |bits: u32| {
        let mut depends = vec![Vec::new(); count];
        for (bit, (from, to)) in pairs.iter().enumerate() {
            if bits & (1 << bit) != 0 {
                depends[*to].push(*from);
            }
        }
        depends
    };
    (0..1u32 << pairs.len()).map(graph).collect()
}

/// Reaches every campaign of a graph; answers how many runs, transitions and ends there were.
fn explore(library: &Arc<Library>, graph: &[Vec<usize>], any_order: bool, works: &[Work]) -> [usize; 3] {
    let mut todo = vec![Campaign::open(library, World::new(graph))];
    let mut known = BTreeSet::new();
    let mut counts = [0; 3];
    while let Some(campaign) = todo.pop() {
        counts[0] += 1;
        if let Some(end) = campaign.run.end() {
            counts[2] += 1;
            campaign.ended_well(end);
            continue;
        }
        assert!(
            !campaign.waiting.is_empty(),
            "stuck in silence: {graph:?} {:?}",
            campaign.run.instance(ROOT).unwrap().held
        );
        for next in campaign.next(any_order, works, &[Replan::Nothing, Replan::Same]) {
            counts[1] += 1;
            if known.insert(next.key()) {
                todo.push(next);
            }
        }
    }
    counts
}

#[test]
fn every_graph_in_every_order_with_every_outcome() {
    let library = library();
    for count in 0..=4 {
        let graphs = graphs(count);
        let mut sum = [0; 3];
        for graph in &graphs {
            let counts = explore(&library, graph, false, &EVERY_WORK);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [runs, transitions, ends] = sum;
        println!(
            "{count} tasks: {} graphs, {runs} runs, {transitions} transitions, {ends} ends",
            graphs.len()
        );
    }
}

/// Workers end, statuses are written and the plan is looked at in any order.
#[test]
fn every_small_graph_in_any_order_of_everything() {
    let library = library();
    for count in 1..=3 {
        let mut sum = [0; 3];
        for graph in graphs(count) {
            let counts = explore(&library, &graph, true, &[Work::Complete, Work::Blocked]);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        println!("{count} tasks in any order: {sum:?} runs, transitions, ends");
    }
}

/// Goes on in one way until the end.
fn straight(mut campaign: Campaign, mut work: impl FnMut(&Campaign) -> Work, replan: Replan) -> Campaign {
    while campaign.run.end().is_none() {
        let is_work = |action: &&Action| name_of(action) == "work.land";
        let prompt = campaign.waiting.iter().find(|action| !is_work(action));
        let action = prompt.or(campaign.waiting.first()).expect("nobody is asked").clone();
        match &*name_of(&action) {
            "work.land" => {
                let work = work(&campaign);
                campaign.work(&action, work);
            }
            "plan.parse" => campaign.replan(&action, replan),
            _ => campaign.done(&action),
        }
    }
    campaign.ended_well(campaign.run.end().unwrap());
    campaign
}

#[test]
fn a_chain_of_twelve_completes() {
    let chain: Vec<Vec<usize>> = (0..12).map(|at: usize| at.checked_sub(1).into_iter().collect()).collect();
    let campaign = Campaign::open(&library(), World::new(&chain));
    let campaign = straight(campaign, |_| Work::Complete, Replan::Nothing);
    assert_eq!((campaign.run.end(), campaign.rounds), (Some(End::Complete), 12));
}

#[test]
fn two_hundred_tasks_complete_and_rounds_grow_with_the_plan() {
    let campaign = Campaign::open(&library(), World::new(&vec![Vec::new(); 200]));
    let campaign = straight(campaign, |_| Work::Complete, Replan::Nothing);
    let limit = campaign.run.instance(ROOT).unwrap().meters["rounds"].limit;
    assert_eq!((campaign.run.end(), campaign.rounds, limit), (Some(End::Complete), 200, 200));
}

#[test]
fn replanning_stops_after_two() {
    let chain = [vec![], vec![0], vec![1], vec![2]];
    for (replan, merged) in [(Replan::Same, 2), (Replan::Nothing, 0)] {
        let campaign = Campaign::open(&library(), World::new(&chain));
        let campaign = straight(campaign, |_| Work::Blocked, replan);
        let asked_again = campaign.world.planned - 1;
        assert_eq!(campaign.run.end(), Some(End::Blocked));
        assert_eq!((campaign.world.merged, asked_again), (merged, 2.min(asked_again)), "{replan:?}");
    }
}

/// Whatever a planner says instead of a plan costs a clarification; the sixth time is the last.
#[test]
fn a_planner_that_is_never_clear_stops_after_five_clarifications() {
    for protocol in ["task", "campaign"] {
        for kind in ["CLARIFY", "CONFIRM", "PROCEED", "UNKNOWN"] {
            let mut stage = support::Stage::open(protocol, r#"{"objective":"o"}"#);
            stage.done("exploration.clear", "{}");
            (0..4).for_each(|_| drop(stage.done("Task(explorer)", "{}")));
            stage.done("exploration.aggregate", "{}");
            stage.done("exploration.write", "{}");
            let mut asked = 0;
            while stage.end().is_none() {
                if stage.asks().contains(&"question".to_owned()) {
                    stage.reply(r#""whatever you think""#);
                    continue;
                }
                asked += 1;
                stage.done("Task(planner)", "{}");
                let problems = if kind == "PROCEED" { r#"["m"]"# } else { "[]" };
                stage.done("decision.parse", &format!(r#"{{"kind":"{kind}","problems":{problems}}}"#));
                assert!(asked <= 6, "{protocol} goes on and on");
            }
            assert_eq!((stage.end(), asked), (Some(End::Blocked), 6), "{protocol} {kind}");
        }
    }
}
