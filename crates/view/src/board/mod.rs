//! The board of a flow: its tasks, how far each is, what was spent and learned.
//!
//! It is made out of the entries of the run's journal and of nothing else, so it shows the same to a process that
//! drives a run, resumes it or looks at it later. It never asks the store, a clock or git.
//!
//! | module | what it holds |
//! |---|---|
//! | `news` | what happens, as lines |
//! | `story` | the steps of a story |
//! | `report` | what became of it, at the end |
//! | `kept` | a board as bytes, for the next look |

mod kept;
pub mod news;
pub mod report;
mod story;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ftl_core::performer::Performer;
use ftl_core::program::{BoardCode, BoardKind, Programs};
use ftl_core::run::{
    ActionId, Answer, End, Entry, Fact, Instance, InstanceId, ROOT, Run, Standing as Stands, ThreadId, Time,
};
use ftl_core::value::{Name, Value};

use crate::paint::{one_line, safe};
use story::Story;
pub use story::StoryStep;

/// A flow as people see it. A copy is cheap: what grows is shared between copies.
#[derive(Clone)]
pub struct Board {
    run: Run,
    /// When the first entry was written, and the last.
    pub times: Option<(Time, Time)>,
    /// Whom open actions were asked of.
    asked: BTreeMap<(InstanceId, ActionId), Asked>,
    /// Which task an instance works on, by seq, and since when.
    works: BTreeMap<InstanceId, (String, Time)>,
    /// What the last instance of each task has come to.
    latest: BTreeMap<String, InstanceId>,
    /// What was heard of actions that people want to hear of.
    heard: Heard,
    /// The steps of a story.
    story: Story,
    /// Whether it only shows how things stand, and forgets what ended builds have spent.
    forgets: bool,
}

/// Whom an action was asked of.
#[derive(Clone)]
struct Asked {
    whom: Performer,
    /// The word that picks the form, for an agent.
    form: Name,
}

/// How many findings that stop nothing a report tells.
const MAX_NOTED: usize = 50;

/// Answers that the end tells of.
#[derive(Clone, Default)]
struct Heard {
    delivered: Option<Value>,
    analysis: Option<Value>,
    /// Findings that a person or a plan allowed, as gates told them.
    allowed: Vec<String>,
    /// Findings that stop nothing, as gates told them of work that passed.
    noted: Vec<String>,
    /// Names of lessons that were tried after a failure.
    tried: Vec<String>,
    /// Tasks that do not go on from the work that is kept of them: the task, and where that work is shown.
    left_out: Vec<(String, String)>,
    replans: u64,
}

/// One task of the board.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// The number of the task in its plan, such as `001`.
    pub seq: String,
    /// The slug of the task.
    pub slug: String,
    /// The tasks it waits for.
    pub depends: Vec<String>,
    /// How many tasks stand before it at least.
    pub depth: usize,
    /// How far it is.
    pub stands: TaskStage,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskStage {
    /// It waits for others, by seq; for none of them where it has not been started yet.
    Waits(Vec<String>),
    /// Others that it needs are blocked.
    Unreachable(Vec<String>),
    /// An agent or a command works on it.
    Works(TaskWork),
    /// It needs a person: why.
    Held(String),
    /// It has landed, as a commit.
    Landed(Option<String>),
    /// It ended without success: why.
    Blocked(String),
}

/// Work on a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskWork {
    /// The state of its protocol.
    pub state: String,
    /// The action, agent or command that works on it.
    pub doing: Option<Performer>,
    /// Tools that were used, and how many there are.
    pub tools: Option<(u64, u64)>,
    /// The time of the entry with which it began.
    pub since: Time,
}

impl Board {
    /// A board before the first entry of its run.
    pub fn new(programs: Arc<dyn Programs>) -> Board {
        Board {
            run: Run::new(programs),
            times: None,
            asked: BTreeMap::new(),
            works: BTreeMap::new(),
            latest: BTreeMap::new(),
            heard: Heard::default(),
            story: Story::default(),
            forgets: false,
        }
    }

    /// The board of a run without its journal: it tells of what comes from now on.
    pub fn of_run(run: Run) -> Board {
        let programs = run.programs().clone();
        Board { run, ..Board::new(programs) }
    }

    /// The same for a face that stands beside a driver: what ended builds have spent is not held twice.
    #[must_use]
    pub fn forgetting(self) -> Board {
        Board { forgets: true, ..self }
    }

    /// Whether runs of a protocol are drawn, and told as news.
    pub fn is_drawn(programs: &dyn Programs, protocol: &str) -> bool {
        programs.board(protocol).is_some()
    }

    /// Whether runs of a protocol have a board of tasks, and a report at the end.
    pub fn is_for(programs: &dyn Programs, protocol: &str) -> bool {
        programs.board(protocol).is_some_and(|board| board.kind == BoardKind::Tasks)
    }

    /// How runs of a protocol are drawn.
    fn code_of(&self, protocol: &str) -> Option<&BoardCode> {
        self.run.programs().board(protocol)
    }

    /// The `BOARD` of the run's protocol.
    pub fn code(&self) -> Option<&BoardCode> {
        self.code_of(&self.root()?.protocol)
    }

    /// Whether it is a board of steps.
    pub fn is_story(&self) -> bool {
        self.code().is_some_and(|code| code.kind == BoardKind::Steps)
    }

    /// The state in which the run asks how its work is delivered, as policies name it.
    fn delivery_state(&self) -> Option<String> {
        let root = self.root()?;
        let state = self.run.programs().delivery(&root.protocol)?;
        Some(format!("{}.{state}", root.protocol))
    }

    /// Whether an entry is not on the board yet.
    pub fn is_new(&self, entry: &Entry) -> bool {
        entry.seq >= self.run.next_seq()
    }

    /// Takes in an entry; one that it has taken in before changes nothing.
    pub fn see(&mut self, entry: &Entry) {
        if !self.is_new(entry) {
            return;
        }
        let first = self.times.map_or(entry.at, |(first, _)| first);
        self.times = Some((first, entry.at));
        match &entry.fact {
            Fact::Asked { asks, .. } => {
                for (index, ask) in (0_u32..).zip(asks) {
                    let id = ActionId { entry: entry.seq, index };
                    let asked = Asked { whom: ask.whom.clone(), form: ask.branch.clone() };
                    self.asked.insert((entry.instance, id), asked);
                }
            }
            Fact::Heard { action, answer, .. } => {
                if let Some(asked) = self.asked.remove(&(entry.instance, *action)) {
                    if self.is_story()
                        && let Some((good, text)) = story::describe_answer(&asked, answer)
                    {
                        self.story.push(StoryStep { at: entry.at, good, text });
                    }
                    if let Answer::Done(value) = answer {
                        self.heard.note(&asked.whom, value);
                    }
                }
            }
            Fact::Emitted { event: Some(event), .. } if &**event == "CASCADE_REPLAN" => {
                self.heard.replans += 1;
            }
            Fact::Opened(opened) => {
                if let Some((parent, action)) = opened.parent {
                    let seq = self.seq_of(parent, action).unwrap_or_default();
                    self.works.insert(entry.instance, (seq.clone(), entry.at));
                    self.latest.insert(seq, entry.instance);
                }
            }
            Fact::Set { .. } | Fact::Moved { .. } | Fact::Emitted { .. } | Fact::Paid(_) => {}
            Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } | Fact::Waived { .. } => {}
            Fact::Raised { .. } | Fact::Refused { .. } | Fact::Suspended { .. } | Fact::Held { .. } => {}
            Fact::Resumed { .. } | Fact::Adopted { .. } | Fact::Settled { .. } => {}
        }
        self.run.apply(entry);
        if self.forgets && matches!(entry.fact, Fact::Settled { .. }) {
            self.run.forget_spent(entry.instance);
        }
    }

    /// The run, without what the board knows beside it.
    pub fn into_machine(self) -> Run {
        self.run
    }

    /// The task that a child is opened for: that of the item it belongs to, or of the only one.
    fn seq_of(&self, parent: InstanceId, action: ActionId) -> Option<String> {
        if let Some((seq, _)) = self.works.get(&parent) {
            return Some(seq.clone());
        }
        match &self.run.instance(parent)?.open.get(&action)?.thread {
            ThreadId::Item { key, .. } => Some(key.to_string()),
            ThreadId::Main => self.plan().first().map(|task| text(task, "seq")),
        }
    }

    /// The instance of the flow itself.
    pub fn root(&self) -> Option<&Instance> {
        self.run.instance(ROOT)
    }

    /// The steps of a story so far.
    pub fn steps(&self) -> &VecDeque<StoryStep> {
        &self.story.steps
    }

    /// The state of the flow.
    pub fn state(&self) -> &str {
        self.root().map_or("", |root| &root.state)
    }

    fn plan(&self) -> &[Value] {
        let plan = self.root().and_then(|root| root.tracked.get("plan"));
        plan.map(|plan| plan.field("tasks").items()).unwrap_or_default()
    }

    /// The task that an entry is about, as `seq slug`.
    fn name_of(&self, entry: &Entry) -> Option<String> {
        if let Fact::Opened(opened) = &entry.fact {
            let (parent, action) = opened.parent?;
            return self.task_label(&self.seq_of(parent, action)?);
        }
        self.task_label(&self.works.get(&entry.instance)?.0)
    }

    /// The number of the task that an instance works on, where it works on one.
    pub fn task_of(&self, instance: InstanceId) -> Option<&str> {
        self.works.get(&instance).map(|(seq, _)| seq.as_str()).filter(|seq| !seq.is_empty())
    }

    /// The numbers of the tasks in the plan.
    pub fn seqs(&self) -> Vec<String> {
        self.plan().iter().map(|task| text(task, "seq")).collect()
    }

    /// The commit that the work of an instance has landed as.
    pub fn commit_of(&self, instance: InstanceId) -> Option<&str> {
        let (end, values) = self.run.instance(instance)?.end.as_ref()?;
        let commit = values.get("commit").and_then(Value::as_text);
        commit.filter(|commit| *end == End::Complete && !commit.is_empty())
    }

    /// The run as its journal has made it.
    pub fn machine(&self) -> &Run {
        &self.run
    }

    /// The last instance that worked on a task.
    pub fn last_of(&self, seq: &str) -> Option<InstanceId> {
        self.latest.get(seq).copied()
    }

    /// How many instances there are.
    pub fn instances(&self) -> usize {
        self.run.instances().len()
    }

    /// A task of the plan as `seq slug`.
    pub fn task_label(&self, seq: &str) -> Option<String> {
        let plan = self.plan();
        let is_wanted = |task: &&Value| task.field("seq").as_text() == Some(seq);
        // Most plans count their tasks from one, or from nought: every line of news asks, and a search would cost the
        // square of the tasks.
        let number: Option<usize> = seq.parse().ok();
        let places = [number.and_then(|number| number.checked_sub(1)), number];
        let guessed = places.into_iter().flatten().filter_map(|at| plan.get(at)).find(is_wanted);
        let task = guessed.or_else(|| plan.iter().find(is_wanted))?;
        Some(format!("{seq} {}", text(task, "slug")))
    }

    /// The tasks, those with fewer before them first.
    pub fn rows(&self) -> Vec<TaskRow> {
        let plan = self.plan();
        let place: BTreeMap<String, usize> =
            plan.iter().enumerate().map(|(at, task)| (text(task, "seq"), at)).collect();
        let depends: Vec<Vec<String>> = plan.iter().map(needs).collect();
        let mut rows: Vec<TaskRow> = Vec::new();
        for (task, depends) in plan.iter().zip(&depends) {
            let seq = text(task, "seq");
            let stands = self.stands(&seq);
            rows.push(TaskRow { slug: text(task, "slug"), depends: depends.clone(), depth: 0, stands, seq });
        }
        let above: Vec<Vec<usize>> = depends
            .iter()
            .map(|all| all.iter().filter_map(|seq| place.get(seq).copied()).collect())
            .collect();
        deepen(&mut rows, &above);
        wait(&mut rows, &above);
        rows.sort_by(|left, right| (left.depth, &left.seq).cmp(&(right.depth, &right.seq)));
        rows
    }

    fn stands(&self, seq: &str) -> TaskStage {
        let Some(instance) = self.latest.get(seq).and_then(|id| self.run.instance(*id)) else {
            return TaskStage::Waits(Vec::new());
        };
        let since = self.works.get(&instance.id).map_or(0, |(_, since)| *since);
        if let Some((end, values)) = &instance.end {
            let value = |name: &str| values.get(name).and_then(Value::as_text).map(str::to_owned);
            return match end {
                End::Complete => TaskStage::Landed(value("commit")),
                End::Blocked | End::Escalated | End::Error | End::Stopped | End::Cancelled => {
                    TaskStage::Blocked(value("reason").unwrap_or_else(|| end.word().to_owned()))
                }
            };
        }
        match instance.standing() {
            Stands::Held => {
                let held = instance.held.values().next();
                TaskStage::Held(held.map_or_else(String::new, |held| held.failure.message.clone()))
            }
            Stands::Waiting => TaskStage::Held(String::from("it asks a question")),
            Stands::Running | Stands::Suspended | Stands::Settled(_) => {
                let doing = instance.open.values().next().map(|open| open.whom.clone());
                let tools = instance.meters.get("tools").map(|meter| (meter.highest_use(), meter.limit));
                TaskStage::Works(TaskWork { state: instance.state.to_string(), doing, tools, since })
            }
        }
    }
}

impl Heard {
    fn note(&mut self, whom: &Performer, value: &Value) {
        match whom.action().unwrap_or_default() {
            "branch.deliver" => self.delivered = Some(value.clone()),
            "observer.analyze" => self.analysis = Some(value.clone()),
            "workspace.create" => {
                let kept = text(value, "left_out");
                if !kept.is_empty() {
                    self.left_out.push((text(value, "id"), kept));
                }
            }
            "lesson.match" if value.field("found").holds() => self.tried.push(text(value, "name")),
            "verify.run" => {
                let summary = text(value, "summary");
                let lines = summary.lines().filter(|line| line.contains(" (allowed by "));
                self.allowed.extend(lines.map(one_line));
                let noted = summary
                    .lines()
                    .filter(|line| line.ends_with(" (noted)") && value.field("passed").holds());
                for line in noted.map(one_line) {
                    if self.noted.len() < MAX_NOTED && !self.noted.contains(&line) {
                        self.noted.push(line);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Why a task does not go on from the work that is kept of it, and what shows that work.
fn conflicts(kept: &str) -> String {
    let kept = safe(kept);
    format!("its kept work conflicts with what has landed since; `ftl diff {kept}` shows it")
}

/// How many tasks stand before each: parents may come after their children in a plan. Each task and each of its
/// parents is looked at once.
fn deepen(rows: &mut [TaskRow], above: &[Vec<usize>]) {
    for (row, depth) in rows.iter_mut().zip(depths(above)) {
        row.depth = depth;
    }
}

/// How many tasks stand before each at least, by the parents of each. A plan has no cycles; a task in a cycle of a
/// broken plan, or behind it, gets no depth.
pub(crate) fn depths(above: &[Vec<usize>]) -> Vec<usize> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); above.len()];
    let mut missing: Vec<usize> = Vec::with_capacity(above.len());
    for (at, parents) in above.iter().enumerate() {
        missing.push(parents.len());
        for parent in parents {
            below[*parent].push(at);
        }
    }
    let mut depths = vec![0; above.len()];
    let mut ready: VecDeque<usize> = (0..above.len()).filter(|at| missing[*at] == 0).collect();
    while let Some(at) = ready.pop_front() {
        for child in &below[at] {
            depths[*child] = depths[*child].max(depths[at] + 1);
            missing[*child] -= 1;
            if missing[*child] == 0 {
                ready.push_back(*child);
            }
        }
    }
    depths
}

/// Says which tasks those wait for that have not been started.
fn wait(rows: &mut [TaskRow], above: &[Vec<usize>]) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| rows[*at].depth);
    for at in order {
        if rows[at].stands != TaskStage::Waits(Vec::new()) {
            continue;
        }
        let is_over = |row: &TaskRow| matches!(row.stands, TaskStage::Blocked(_) | TaskStage::Unreachable(_));
        let (mut blocked, mut open) = (Vec::new(), Vec::new());
        for parent in above[at].iter().map(|parent| &rows[*parent]) {
            if is_over(parent) {
                blocked.push(parent.seq.clone());
            } else if !matches!(parent.stands, TaskStage::Landed(_)) {
                open.push(parent.seq.clone());
            }
        }
        rows[at].stands =
            if blocked.is_empty() { TaskStage::Waits(open) } else { TaskStage::Unreachable(blocked) };
    }
}

fn needs(task: &Value) -> Vec<String> {
    let depends = task.field("depends");
    match depends.as_text() {
        Some("none" | "") => Vec::new(),
        Some(one) => vec![one.to_owned()],
        None => depends.items().iter().filter_map(Value::as_text).map(str::to_owned).collect(),
    }
}

fn text(value: &Value, name: &str) -> String {
    value.field(name).as_text().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_those_of_the_longest_row_before() {
        let chain: Vec<Vec<usize>> = (0..5).map(|at| if at < 4 { vec![at + 1] } else { vec![] }).collect();
        assert_eq!(depths(&chain), [4, 3, 2, 1, 0], "parents may come after their children");
        assert_eq!(depths(&[vec![], vec![0], vec![0, 1], vec![]]), [0, 1, 2, 0]);
        assert_eq!(depths(&[vec![1], vec![0], vec![]]), [0, 0, 0], "a broken plan ends all the same");
    }

    #[test]
    fn a_long_row_listed_backwards_is_walked_once() {
        const TASKS: usize = 200_000;
        let chain: Vec<Vec<usize>> =
            (0..TASKS).map(|at| if at + 1 < TASKS { vec![at + 1] } else { vec![] }).collect();
        assert_eq!(depths(&chain)[0], TASKS - 1);
    }
}
