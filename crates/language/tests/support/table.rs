//! The reader of the tables in `cases/`. It is small and strict: what it does not know fails the
//! test with file and line, and so does a refusal that the line does not expect.
//!
//! ```text
//! usual WHOM field=value …          fields of every answer of that name, unless the step says otherwise
//! let NAME = step; step             steps that a line may use as @NAME, or N*@NAME
//! name | inputs | step; step | STATES ON THE WAY | end and what it says
//! ```
//!
//! A step is an answer to the first open action of that name (`verify.run passed=false`, of a
//! particular one `Task(explorer)[mode=delta]`), a failure (`verify.run !timeout`), a word of the
//! world or of a person, or a question about what has been reached (`?meter tools 3/5`). A way that
//! begins with `…` names only its last states.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ftl_core::performer::Performer;
use ftl_core::program::Node;
use ftl_core::run::{
    Action, ActionTarget, Cause, Decision, Event, Fact, Failure, FailureKind, InstanceId, Outcome, ROOT, Run,
    Standing, Terms,
};
use ftl_core::syntax::Step;
use ftl_core::value::{Fields, Name, Value};
use ftl_language::library::Library;

use crate::support::{Stage, name_of, plain, with};
use crate::world::World;

/// A table of cases for one protocol.
pub(crate) struct Table {
    protocol: &'static str,
    usual: BTreeMap<String, Fields>,
    lets: BTreeMap<String, String>,
    cases: Vec<Case>,
}

struct Case {
    line: usize,
    name: String,
    inputs: String,
    steps: String,
    way: String,
    end: String,
}

/// What the cases of a table have taken, in all instances of its protocol.
pub(crate) struct Covered {
    library: Arc<Library>,
    protocol: &'static str,
    edges: BTreeSet<(Name, Name)>,
    holds: BTreeSet<(Name, u32)>,
    ends: BTreeSet<(Name, Name)>,
}

impl Table {
    /// Reads a table.
    pub(crate) fn read(protocol: &'static str, text: &str) -> Table {
        let mut table = Table { protocol, usual: BTreeMap::new(), lets: BTreeMap::new(), cases: Vec::new() };
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some(rest) = text.strip_prefix("usual ") {
                let (whom, fields) = rest.split_once(' ').unwrap_or((rest, ""));
                table.usual.insert(whom.to_owned(), fields_of(fields));
            } else if let Some(rest) = text.strip_prefix("let ") {
                let (name, steps) = rest.split_once(" = ").unwrap_or_else(|| table.bad(line, "no ` = `"));
                table.lets.insert(name.trim().to_owned(), steps.to_owned());
            } else {
                let cells = split(text, |letter| letter == '|');
                let [name, inputs, steps, way, end] = cells.as_slice() else {
                    table.bad(line, &format!("{} cells instead of 5", cells.len()))
                };
                let [name, inputs, steps, way, end] =
                    [name, inputs, steps, way, end].map(|cell| cell.trim().to_owned());
                table.cases.push(Case { line, name, inputs, steps, way, end });
            }
        }
        table
    }

    /// Walks every case.
    pub(crate) fn run(&self, library: &Arc<Library>) -> Covered {
        let mut covered = Covered {
            library: library.clone(),
            protocol: self.protocol,
            edges: BTreeSet::new(),
            holds: BTreeSet::new(),
            ends: BTreeSet::new(),
        };
        let (mut names, mut failed) = (BTreeSet::new(), Vec::new());
        for case in &self.cases {
            if !names.insert(&case.name) {
                self.bad(case.line, &format!("there is a case `{}` already", case.name));
            }
            let walk = AssertUnwindSafe(|| Walk::new(self, case, library).through());
            match catch_unwind(walk) {
                Ok(stage) => covered.add(&stage),
                Err(panic) => failed.push(read_panic(&*panic)),
            }
        }
        assert!(
            failed.is_empty(),
            "{} of {} cases failed:\n{}",
            failed.len(),
            self.cases.len(),
            failed.join("\n")
        );
        covered
    }

    fn bad(&self, line: usize, what: &str) -> ! {
        panic!("{}.txt:{line}: {what}", self.protocol)
    }

    /// The steps of a line with every `@NAME` written out.
    fn spelled(&self, line: usize, steps: &str) -> Vec<String> {
        let mut all = Vec::new();
        for step in split(steps, |letter| letter == ';') {
            let step = step.trim();
            let (times, name) = match step.split_once("*@") {
                Some((times, name)) => (times.parse().ok(), Some(name)),
                None => (Some(1usize), step.strip_prefix('@')),
            };
            match (times, name) {
                (Some(times), Some(name)) => {
                    let inner = self.lets.get(name);
                    let inner =
                        inner.unwrap_or_else(|| self.bad(line, &format!("nothing is called @{name}")));
                    (0..times).for_each(|_| all.extend(self.spelled(line, inner)));
                }
                (_, None) if !step.is_empty() => all.push(step.to_owned()),
                _ => {}
            }
        }
        all
    }
}

/// One case on its way.
struct Walk<'a> {
    table: &'a Table,
    case: &'a Case,
    stage: Stage,
    world: Option<World>,
    /// What the last step decided, and why it was refused unless somebody has asked.
    last: Decision,
    refused: Option<String>,
}

impl<'a> Walk<'a> {
    fn new(table: &'a Table, case: &'a Case, library: &Arc<Library>) -> Walk<'a> {
        let (world, inputs) = match case.inputs.strip_prefix("tasks") {
            Some(tasks) => (Some(World::new(tasks)), r#"objective="o""#),
            None => (None, case.inputs.as_str()),
        };
        let inputs = json(&Value::Record(Arc::new(fields_of(inputs))));
        let stage = Stage::open_with(library.clone(), table.protocol, &inputs, Terms::default());
        Walk { table, case, stage, world, last: Decision::default(), refused: None }
    }

    fn bad(&self, what: &str) -> ! {
        let Case { name, .. } = self.case;
        self.table.bad(self.case.line, &format!("{what} ({name}: {})", self.stage.describe()))
    }

    fn through(mut self) -> Stage {
        self.turn_the_world();
        for step in self.table.spelled(self.case.line, &self.case.steps) {
            let words: Vec<String> = split(&step, char::is_whitespace);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Some(question) = words[0].strip_prefix('?') {
                self.ask(question, &words[1..], &step);
                continue;
            }
            if let Some(refused) = self.refused.take() {
                self.bad(&format!("refused before `{step}`: {refused}"));
            }
            self.last = self.act(&words, &step);
            self.refused = refusal(&self.last);
            self.turn_the_world();
            self.stage.recovers();
        }
        if let Some(refused) = &self.refused {
            self.bad(&format!("refused: {refused}"));
        }
        self.arrived();
        if let Err(divergence) = Run::verify(self.stage.run.programs().clone(), &self.stage.journal) {
            self.bad(&format!("decides otherwise the second time: {divergence:#?}"));
        }
        self.stage
    }

    fn turn_the_world(&mut self) {
        if let Some(world) = &mut self.world {
            world.turn(&mut self.stage);
        }
    }

    fn act(&mut self, words: &[&str], step: &str) -> Decision {
        match words {
            ["say", word, options @ ..] => {
                let options = Value::Record(Arc::new(fields_of(&options.join(" "))));
                self.stage.say(word, &json(&options))
            }
            ["answer", answer] => self.stage.reply(&json(&literal(answer))),
            ["waive", to] => self.stage.waive(to),
            ["waive", to, reason] => self.waive_because(to, &literal(reason).to_string()),
            ["redo", to] => self.stage.redo(to),
            ["raise", meter, limit] => {
                let limit = limit.parse().unwrap_or_else(|_| self.bad(&format!("`{limit}` is no number")));
                self.stage.raise(meter, limit)
            }
            ["resume"] => self.stage.send(Event::Resume { instance: ROOT, by: "ann".to_owned() }),
            ["recover"] => self.stage.send(Event::Recover),
            ["stop"] => self.stop(ROOT),
            ["stop", child] => match child.parse() {
                Ok(child) => self.stop(InstanceId(child)),
                Err(_) => self.bad(&format!("`{child}` is no instance")),
            },
            ["tick", later] => {
                let seconds = later.strip_prefix('+').and_then(|later| later.strip_suffix('s'));
                let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
                let seconds = seconds.unwrap_or_else(|| self.bad(&format!("`{later}` is no time")));
                self.stage.clock += seconds * 1000;
                self.stage.send(Event::Tick)
            }
            ["tool"] => self.tool(),
            ["revise", tasks @ ..] => self.revise(tasks),
            [whom, rest @ ..] if whom.contains('.') || whom.starts_with("Task(") => self.answer(whom, rest),
            _ => self.bad(&format!("unknown step `{step}`")),
        }
    }

    fn waive_because(&mut self, to: &str, reason: &str) -> Decision {
        let (to, by, reason) = (Name::from(to), "ann".to_owned(), reason.to_owned());
        self.stage.send(Event::Waive { instance: ROOT, to, by, reason })
    }

    fn stop(&mut self, instance: InstanceId) -> Decision {
        let (by, reason) = ("ann".to_owned(), "enough".to_owned());
        self.stage.send(Event::Stop { instance, by, reason })
    }

    fn tool(&mut self) -> Decision {
        let pays = |action: &&Action| matches!(action.wanted, ActionTarget::Task { paying: Some(_), .. });
        let Some(agent) = self.stage.waiting.iter().find(pays).cloned() else {
            self.bad("no agent pays for its tools")
        };
        let (instance, action, tool) = (agent.instance, agent.id, Name::from("edit"));
        self.stage.send(Event::Tool { instance, action, tool, file: None })
    }

    /// A planner revises the plan, and the world takes the revision in.
    fn revise(&mut self, tasks: &[&str]) -> Decision {
        let Some(world) = &mut self.world else { self.bad("`revise` needs a world") };
        world.revise(&mut self.stage, &tasks.join(" "))
    }

    fn answer(&mut self, whom: &str, rest: &[&str]) -> Decision {
        let action = self.find(whom);
        if let [kind] = rest
            && let Some(kind) = kind.strip_prefix('!')
        {
            let found = FailureKind::ALL.into_iter().find(|one| one.word() == kind);
            let kind = found.unwrap_or_else(|| self.bad(&format!("`{kind}` is no failure")));
            return self.stage.outcome(&action, Outcome::Failed(Failure::new(kind, "boom")));
        }
        let mut fields = self.table.usual.get(&name_of(&action)).cloned().unwrap_or_default();
        let named = self.table.usual.get(whom).cloned().unwrap_or_default();
        fields.extend(named);
        fields.extend(fields_of(&rest.join(" ")));
        let answer = with(&plain(&self.stage.answer_type(&action)), &fields);
        self.stage.outcome(&action, Outcome::Done(answer))
    }

    /// The first open action of that name, and with those parameters where some are named.
    fn find(&self, whom: &str) -> Action {
        let (name, params) = match whom.split_once('[') {
            Some((name, params)) => (name, fields_of(params.trim_end_matches(']'))),
            None => (whom, Fields::new()),
        };
        let fits = |action: &&Action| {
            name_of(action) == name
                && params.iter().all(|(name, value)| action.params.get(name) == Some(value))
        };
        let found = self.stage.waiting.iter().find(fits).cloned();
        found.unwrap_or_else(|| self.bad(&format!("{whom} is not open; open is {:?}", self.stage.asks())))
    }

    /// Looks at what has been reached.
    fn ask(&mut self, question: &str, words: &[&str], step: &str) {
        let root = self.stage.run.instance(ROOT).unwrap();
        match (question, words) {
            ("refused", [text]) => {
                let text = literal(text).to_string();
                let found = self.refused.take().into_iter().chain(refusals(&self.last)).collect::<Vec<_>>();
                if !found.iter().any(|one| one.contains(&text)) {
                    self.bad(&format!("`{step}`: {found:?}"));
                }
            }
            ("in", [state]) if *root.state == **state => {}
            ("asks", whom) if self.stage.asks() == whom => {}
            ("meter", [name, amounts]) => {
                let meter = root.meters.get(*name).unwrap_or_else(|| self.bad(&format!("no meter {name}")));
                let found = format!("{}/{}", meter.highest_use(), meter.limit);
                if found != *amounts {
                    self.bad(&format!("`{step}`: {found}"));
                }
            }
            ("told", [whom, params @ ..]) => {
                let action = self.find(whom);
                for (name, value) in fields_of(&params.join(" ")) {
                    let found = action.params.get(&name).cloned().unwrap_or_default();
                    if found != value {
                        self.bad(&format!("`{step}`: {name} is {found}"));
                    }
                }
            }
            ("param", params) => {
                for (name, value) in fields_of(&params.join(" ")) {
                    let found = root.params.get(&name).cloned().unwrap_or_default();
                    if found != value {
                        self.bad(&format!("`{step}`: {name} is {found}"));
                    }
                }
            }
            ("emitted", [text]) => {
                let text = literal(text).to_string();
                let says = |fact: &Fact| match fact {
                    Fact::Emitted { event, fields } => {
                        event.as_deref() == Some(&*text)
                            || fields
                                .get("text")
                                .and_then(Value::as_text)
                                .is_some_and(|line| line.contains(&text))
                    }
                    _ => false,
                };
                if !self.stage.journal.iter().any(|entry| says(&entry.fact)) {
                    self.bad(&format!("`{step}`: never"));
                }
            }
            ("waived", [unmet]) => {
                let unmet = literal(unmet).to_string();
                if !root.waivers.iter().any(|waiver| waiver.unmet.iter().any(|one| one.contains(&unmet))) {
                    self.bad(&format!("`{step}`: {:?}", root.waivers));
                }
            }
            ("in" | "asks", _) => self.bad(&format!("`{step}`; open is {:?}", self.stage.asks())),
            _ => self.bad(&format!("unknown question `{step}`")),
        }
    }

    /// Whether the way and the end are those of the line.
    fn arrived(&self) {
        let way: Vec<String> = self.stage.path(ROOT).iter().map(ToString::to_string).collect();
        let way = way.join(" ");
        let fits = match self.case.way.strip_prefix('…') {
            Some(last) => format!(" {way}").ends_with(&format!(" {}", last.trim())),
            None => way == self.case.way,
        };
        if !fits {
            self.bad(&format!("went {way}"));
        }
        let root = self.stage.run.instance(ROOT).unwrap();
        let (standing, says) = match root.standing() {
            Standing::Settled(end) => (
                end.word(),
                root.end.iter().map(|(_, values)| json(&Value::Record(values.clone()))).collect(),
            ),
            Standing::Held => ("held", root.held.values().map(|held| held.failure.message.clone()).collect()),
            Standing::Waiting => ("waiting", self.stage.asks()),
            Standing::Suspended => ("suspended", self.stage.asks()),
            Standing::Running => ("running", self.stage.asks()),
        };
        let (wanted, text) = self.case.end.split_once(' ').unwrap_or((&self.case.end, ""));
        let says: Vec<String> = says;
        if wanted != standing || !says.join(" ").contains(text.trim()) {
            self.bad(&format!("stands {standing} {says:?}"));
        }
    }
}

impl Covered {
    fn add(&mut self, stage: &Stage) {
        let mut states: BTreeMap<u32, Name> = BTreeMap::new();
        for entry in &stage.journal {
            let protocol = &stage.run.instance(entry.instance).unwrap().protocol;
            if **protocol != *self.protocol {
                continue;
            }
            let state = states.entry(entry.instance.0).or_default();
            match &entry.fact {
                Fact::Opened(opened) => *state = opened.state.clone(),
                Fact::Moved { from, to, cause, .. } => {
                    *state = to.clone();
                    if !matches!(cause, Cause::Redo { .. } | Cause::Waiver { .. }) {
                        self.edges.insert((from.clone(), to.clone()));
                    }
                }
                Fact::Held { place, .. } => {
                    self.holds.insert((state.clone(), *place));
                }
                Fact::Asked { place, asks, .. }
                    if asks.iter().any(|ask| matches!(ask.whom, Performer::Word | Performer::Question)) =>
                {
                    self.holds.insert((state.clone(), *place));
                }
                Fact::Settled { end, .. } => {
                    self.ends.insert((Name::from(end.word()), state.clone()));
                }
                _ => {}
            }
        }
    }

    /// Every declared edge was taken, every place that can hold held, every verdict given by every
    /// state that gives it.
    pub(crate) fn covers_everything(&self) {
        let protocol = self.library.get(self.protocol).unwrap();
        let program = protocol.program.as_ref().unwrap();
        let edges = &program.edges;
        let mut missing: Vec<String> =
            edges.difference(&self.edges).map(|(from, to)| format!("{from} → {to} is never taken")).collect();
        for (state, facts) in &protocol.findings.states {
            let code = program.state(state).unwrap();
            let never = facts.holds.iter().filter(|hold| {
                !self.holds.contains(&(state.clone(), hold.place)) && !fans_out(code.node(hold.place))
            });
            missing.extend(never.map(|hold| format!("{state} never holds at {}: {}", hold.place, hold.why)));
        }
        for (verdict, states) in &protocol.findings.verdicts {
            let never =
                states.iter().filter(|state| !self.ends.contains(&(verdict.clone(), (*state).clone())));
            missing.extend(never.map(|state| format!("{state} never returns {verdict}")));
        }
        assert!(missing.is_empty(), "{}:\n{}", self.protocol, missing.join("\n"));
    }
}

/// What a panic said.
fn read_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// A PARALLEL or FOR EACH is held for an empty purse only, and tables have no purse.
fn fans_out(node: Option<&Node>) -> bool {
    matches!(node.and_then(Node::step), Some(Step::Parallel { .. } | Step::ForEach { .. }))
}

/// Why a person or an agent was told no.
fn refusal(decision: &Decision) -> Option<String> {
    if let Some(refusal) = &decision.refusal {
        return Some(refusal.message.clone());
    }
    decision.entries.iter().find_map(|entry| match &entry.fact {
        Fact::Refused { failure, by: Some(_), .. } => Some(failure.message.clone()),
        _ => None,
    })
}

fn refusals(decision: &Decision) -> Vec<String> {
    let facts = decision.entries.iter().filter_map(|entry| match &entry.fact {
        Fact::Refused { failure, .. } => Some(failure.message.clone()),
        _ => None,
    });
    facts
        .chain(decision.refusal.iter().map(|refusal| format!("{:?} {}", refusal.kind, refusal.message)))
        .collect()
}

/// Fields written as `name=value name=value`; a value is JSON, or text as it stands.
fn fields_of(text: &str) -> Fields {
    let words = split(text, char::is_whitespace);
    let fields = words.iter().map(|word| {
        let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("`{word}` is no field"));
        (Name::from(name), literal(value))
    });
    fields.collect()
}

fn literal(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::text(text))
}

fn json(value: &Value) -> String {
    serde_json::to_string(value).unwrap()
}

/// The parts between separators that stand outside quotes and brackets.
fn split(text: &str, separates: impl Fn(char) -> bool) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut quoted) = (0i32, false);
    for letter in text.chars() {
        quoted ^= letter == '"';
        if !quoted {
            depth += i32::from(matches!(letter, '[' | '{')) - i32::from(matches!(letter, ']' | '}'));
        }
        if !quoted && depth == 0 && separates(letter) {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}
