//! Exhaustive search: every run that a protocol can come to, over every outcome that matters.
//!
//! Breadth first over runs. Two runs are the same when nothing that a protocol can see tells them
//! apart: entry numbers, times, what kind of failure it was, the children that have ended, and the
//! names that nothing later in the state mentions are left out of the key.
//! Of an answer exactly those fields vary that some condition, payment or FOR EACH reads; the rest
//! is constant. It proves nothing about values that no protocol looks at.

#![allow(unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use ftl_core::performer::Performer;
use ftl_core::program::{Node as Statement, Program, StateCode};
use ftl_core::run::{
    ActionId, Cause, Decision, Entry, Event, Fact, Failure, FailureKind, Input, Instance, InstanceId, Open,
    OpenKind, Outcome, ROOT, Run, Terms, Thread, ThreadId, Usage,
};
use ftl_core::syntax::print;
use ftl_core::syntax::{Expr, ExprKind, StatementKind, Step, TemplatePart};
use ftl_core::types::Type;
use ftl_core::value::{Fields, Name, Number, Value};
use ftl_language::library::Library;

use super::support::{fields, full, plain, with};

/// What a property remembers of the way to a run; part of the key.
pub type Notes = [u8; 4];

/// One transition, as a property sees it.
pub struct Seen<'a> {
    pub before: &'a Run,
    pub decision: &'a Decision,
    pub after: &'a Run,
}

impl Seen<'_> {
    /// The answers of actions of that name that were heard and accepted.
    pub fn list_answers(&self, whom: &str) -> Vec<Value> {
        let mut answers = Vec::new();
        for entry in &self.decision.entries {
            if let Fact::Heard { action, answer: ftl_core::run::Answer::Done(value), .. } = &entry.fact
                && let Some(open) = self.before.instance(entry.instance).and_then(|one| one.open.get(action))
                && open.whom.to_string() == whom
            {
                answers.push(value.clone());
            }
        }
        answers
    }

    /// Whether the decision asks somebody to write.
    pub fn starts_writer(&self, role: &str) -> bool {
        self.decision.start.iter().any(|action| {
            super::support::name_of(action) == format!("Task({role})") && action.params.contains_key("write")
        })
    }

    /// The moves of the root: from, to, what the state was told, and why.
    pub fn moves(&self) -> impl Iterator<Item = (&Name, &Name, &Fields, &Cause)> {
        self.decision.entries.iter().filter(|entry| entry.instance == ROOT).filter_map(|entry| {
            match &entry.fact {
                Fact::Moved { from, to, params, cause, .. } => Some((from, to, params, cause)),
                _ => None,
            }
        })
    }

    /// How the root ended in this decision.
    pub fn end(&self) -> Option<ftl_core::run::End> {
        if self.before.end().is_none() { self.after.end() } else { None }
    }
}

pub type Property = fn(&mut Notes, &Seen<'_>);

/// What to search.
pub struct Search {
    pub library: Arc<Library>,
    pub protocol: &'static str,
    pub inputs: String,
    pub terms: Terms,
    pub property: Property,
    /// Whether answers with every optional field left out are tried too.
    pub sparse: bool,
    /// Whether a person goes back to every visited state.
    pub redo: bool,
    /// Whether a person takes every declared edge by a waiver.
    pub waive: bool,
    /// Whether agents and commands also die, as often as it takes.
    pub die: bool,
    /// Whether other kinds of failures than `failed` are tried only where something can tell them
    /// apart: tasks that pay, and states that read `failure.kind`.
    pub few_kinds: bool,
    /// Every how many runs the journal is replayed from the start.
    pub replay: usize,
}

/// Who sends an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// An action, an agent, the clock.
    World,
    /// A person who is waited for: a word, an answer.
    Asked,
    /// A person who is not waited for: resume, redo, waiver.
    Unasked,
}

/// A run that was reached.
struct Reached {
    run: Run,
    notes: Notes,
    from: Option<usize>,
    entries: Vec<Entry>,
    next: Vec<(usize, Sender)>,
    bent: bool,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    pub runs: usize,
    pub transitions: usize,
    pub settled: usize,
    pub held: usize,
    pub waiting: usize,
    pub running: usize,
    pub replayed: usize,
    /// Edges taken, by protocol, without and with a waiver.
    pub taken: BTreeSet<(Name, Name)>,
    pub waived: BTreeSet<(Name, Name)>,
    /// Forbidden pairs that were asked for and refused.
    pub refused: BTreeSet<(Name, Name)>,
    pub ends: BTreeMap<&'static str, usize>,
    pub holds: BTreeSet<String>,
    pub seconds: f64,
}

impl Search {
    pub fn new(library: Arc<Library>, protocol: &'static str, inputs: &str, property: Property) -> Search {
        Search {
            library,
            protocol,
            inputs: inputs.to_owned(),
            terms: Terms::default(),
            property,
            sparse: false,
            redo: false,
            waive: false,
            die: false,
            few_kinds: false,
            replay: 1,
        }
    }

    /// Reaches every run, checks every transition, and then the graph of all runs.
    pub fn go(&self) -> Found {
        let start = Instant::now();
        let (reads, keys) = (Reads::of(&self.library), Keys::of(&self.library));
        let mut found = Found::default();
        let mut all: Vec<Reached> = Vec::new();
        let mut known: HashMap<u128, usize> = HashMap::new();
        let mut todo = VecDeque::new();
        let mut asked_for: BTreeSet<(Name, u32)> = BTreeSet::new();
        let empty = Run::new(self.library.clone());
        let open = Event::Open {
            protocol: Name::from(self.protocol),
            inputs: fields(&self.inputs),
            terms: self.terms.clone(),
            adopt: None,
        };
        let (reached, refused) = self.transition(&empty, [0; 4], &open, &mut found);
        assert!(!refused, "{} cannot be opened", self.protocol);
        known.insert(keys.key(&reached.run, reached.notes), 0);
        all.push(reached);
        todo.push_back(0);
        while let Some(at) = todo.pop_front() {
            self.rests_well(&all[at].run, &mut found);
            if at % self.replay == 0 {
                self.replays(&all, at);
                found.replayed += 1;
            }
            self.ask_for_forbidden(&all[at].run, &mut asked_for, &mut found);
            for (sender, event) in self.events(&all[at].run, &reads) {
                let (run, notes) = (all[at].run.clone(), all[at].notes);
                let step = || self.transition(&run, notes, &event, &mut found);
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step));
                let (mut reached, _) = result.unwrap_or_else(|panic| {
                    println!("the way there:\n{}then {event:?}", way(&all, at));
                    std::panic::resume_unwind(panic)
                });
                reached.from = Some(at);
                reached.bent = all[at].bent || matches!(event, Event::Waive { .. });
                found.transitions += 1;
                let key = keys.key(&reached.run, reached.notes) ^ u128::from(reached.bent);
                let next = *known.entry(key).or_insert_with(|| {
                    all.push(reached);
                    todo.push_back(all.len() - 1);
                    all.len() - 1
                });
                all[at].next.push((next, sender));
            }
        }
        found.runs = all.len();
        self.is_bounded(&all);
        self.can_end(&all);
        found.seconds = start.elapsed().as_secs_f64();
        found
    }

    /// Decides, applies, and checks what must hold for every transition.
    fn transition(&self, before: &Run, notes: Notes, event: &Event, found: &mut Found) -> (Reached, bool) {
        let input = Input { at: self.time(before, event), event: event.clone() };
        let decision = before.decide(&input);
        let mut after = before.clone();
        for entry in &decision.entries {
            after.apply(entry);
            self.declared(&after, entry, found);
        }
        for instance in after.instances() {
            for (name, meter) in instance.meters.iter() {
                assert!(meter.highest_use() <= meter.limit, "{} overspent {name}", instance.protocol);
            }
        }
        let mut notes = notes;
        (self.property)(&mut notes, &Seen { before, decision: &decision, after: &after });
        let refused = decision.refusal.is_some();
        let next = Vec::new();
        (Reached { run: after, notes, from: None, entries: decision.entries, next, bent: false }, refused)
    }

    /// Time stands still, but for the moment when the time of a PARALLEL is over.
    fn time(&self, run: &Run, event: &Event) -> u64 {
        let until =
            run.instances().iter().flat_map(|one| one.open.values()).filter_map(|open| match &open.kind {
                OpenKind::Parallel { until, .. } => *until,
                _ => None,
            });
        if matches!(event, Event::Tick) { until.max().unwrap_or(1) } else { 1 }
    }

    fn declared(&self, after: &Run, entry: &Entry, found: &mut Found) {
        let Fact::Moved { from, to, cause, .. } = &entry.fact else { return };
        let instance = after.instance(entry.instance).unwrap();
        let program = self.library.program(&instance.protocol).unwrap();
        let pair = (from.clone(), to.clone());
        match cause {
            Cause::Redo { .. } => return,
            Cause::Waiver { .. } => {
                assert!(program.edges.contains(&pair), "{}: {pair:?} by a waiver", instance.protocol);
                if entry.instance == ROOT {
                    found.waived.insert(pair);
                }
                return;
            }
            Cause::Goto { .. } | Cause::Else { .. } | Cause::Limit { .. } => {}
        }
        assert!(program.edges.contains(&pair), "{}: {pair:?} is not declared", instance.protocol);
        if entry.instance == ROOT {
            found.taken.insert(pair);
        }
    }

    /// A run rests only where it has ended, is held, or somebody is asked for something.
    fn rests_well(&self, run: &Run, found: &mut Found) {
        if let Some(end) = run.end() {
            found.settled += 1;
            *found.ends.entry(end.word()).or_default() += 1;
            let left = run.instances().iter().find(|one| !one.is_settled());
            assert!(left.is_none(), "the root has ended and a child has not");
            return;
        }
        let live: Vec<&Instance> = run.instances().iter().filter(|one| !one.is_settled()).collect();
        let open: Vec<_> =
            live.iter().flat_map(|one| one.open.values()).filter(|open| answered(&open.kind)).collect();
        let person = |kind: &OpenKind| matches!(kind, OpenKind::Words(_) | OpenKind::Question);
        for one in &live {
            for held in one.held.values() {
                found.holds.insert(format!("{}.{}: {}", one.protocol, one.state, held.failure.kind.word()));
            }
        }
        if open.is_empty() {
            assert!(live.iter().any(|one| !one.held.is_empty()), "stuck in silence: {}", describe(run));
            found.held += 1;
        } else if open.iter().all(|open| person(&open.kind)) {
            found.waiting += 1;
        } else {
            found.running += 1;
        }
    }

    /// Every pair that is not an edge is asked for once at each place where a run can rest.
    fn ask_for_forbidden(&self, run: &Run, asked: &mut BTreeSet<(Name, u32)>, found: &mut Found) {
        let root = run.instance(ROOT).unwrap();
        let program = self.library.program(self.protocol).unwrap();
        let place = root.thread(&ThreadId::Main).map_or(u32::MAX, |thread| thread.place);
        if !asked.insert((root.state.clone(), place)) {
            return;
        }
        for state in &program.states {
            let pair = (root.state.clone(), state.name.clone());
            if program.edges.contains(&pair) {
                continue;
            }
            let (by, reason) = ("ann".to_owned(), "because".to_owned());
            let waive = Event::Waive {
                instance: ROOT,
                to: state.name.clone(),
                by: by.clone(),
                reason: reason.clone(),
            };
            let options = Fields::from([(Name::from("to"), Value::text(&state.name))]);
            let say = Event::Say { instance: ROOT, word: Name::from("next"), by, reason, options };
            for event in [waive, say] {
                let decision = run.decide(&Input { at: 1, event });
                let facts: Vec<_> = decision.entries.iter().map(|entry| &entry.fact).collect();
                assert!(decision.refusal.is_some(), "{pair:?} is not refused");
                assert!(matches!(facts[..], [Fact::Refused { .. }]), "{pair:?}: {facts:?}");
            }
            found.refused.insert(pair);
        }
    }

    fn replays(&self, all: &[Reached], at: usize) {
        let mut steps = Vec::new();
        let mut one = Some(at);
        while let Some(index) = one {
            steps.push(&all[index].entries);
            one = all[index].from;
        }
        let journal = steps.into_iter().rev().flatten();
        let replayed = Run::replay(self.library.clone(), journal);
        assert!(replayed.same_state(&all[at].run), "replay differs from the live run {at}");
    }

    /// Without a person who is not waited for there is no way round: every path ends. Where words
    /// may be said for ever, a person is asked on every way round.
    fn is_bounded(&self, all: &[Reached]) {
        let words = self.library.program(self.protocol).unwrap().redo.is_some();
        let counts = |sender: Sender| sender == Sender::World || (sender == Sender::Asked && !words);
        let mut waiting = vec![0usize; all.len()];
        for (next, sender) in all.iter().flat_map(|one| &one.next) {
            waiting[*next] += usize::from(counts(*sender));
        }
        let mut ready: Vec<usize> = (0..all.len()).filter(|at| waiting[*at] == 0).collect();
        let mut done = 0;
        while let Some(at) = ready.pop() {
            done += 1;
            for (next, _) in all[at].next.iter().filter(|(_, sender)| counts(*sender)) {
                waiting[*next] -= 1;
                if waiting[*next] == 0 {
                    ready.push(*next);
                }
            }
        }
        let round = waiting.iter().position(|waiting| *waiting > 0);
        let round = round.map(|at| describe(&all[at].run)).unwrap_or_default();
        assert_eq!(done, all.len(), "{}: a way round that nobody pays for: {round}", self.protocol);
    }

    /// From everywhere some path without a waiver leads to an end or to where it is held.
    fn can_end(&self, all: &[Reached]) {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
        for (at, one) in all.iter().enumerate() {
            for (next, _) in one.next.iter().filter(|(next, _)| all[*next].bent == one.bent) {
                before[*next].push(at);
            }
        }
        let stops = |one: &Reached| {
            let open = one.run.instances().iter().flat_map(|one| one.open.values());
            one.run.end().is_some()
                || open.filter(|open| answered(&open.kind) && open.held.is_none()).count() == 0
        };
        let mut ends = vec![false; all.len()];
        let mut todo: Vec<usize> = (0..all.len()).filter(|at| stops(&all[*at])).collect();
        while let Some(at) = todo.pop() {
            if !std::mem::replace(&mut ends[at], true) {
                todo.extend(&before[at]);
            }
        }
        let lost = ends.iter().position(|ends| !ends);
        assert_eq!(lost.map(|at| describe(&all[at].run)), None, "no path leads to an end");
    }

    /// Every input that can matter in a run.
    fn events(&self, run: &Run, reads: &Reads) -> Vec<(Sender, Event)> {
        let mut events = Vec::new();
        for instance in run.instances().iter().filter(|one| !one.is_settled()) {
            let program = self.library.program(&instance.protocol).unwrap();
            for (action, open) in &instance.open {
                let node = program.state(&instance.state).unwrap().node(open.place).unwrap();
                let here =
                    Asked { instance: instance.id, action: *action, state: &instance.state, node, program };
                if open.held.is_some() {
                    // Nobody is at work on it until a person lets it be asked again.
                    continue;
                }
                match &open.kind {
                    OpenKind::Call | OpenKind::Record => self.outcomes(&here, reads, &mut events),
                    OpenKind::Words(words) => self.words(instance, words, &mut events),
                    OpenKind::Question => events.push((Sender::Asked, here.reply(run))),
                    OpenKind::Parallel { until: Some(_), .. } if open.paused.is_some() => {}
                    OpenKind::Parallel { until: Some(_), .. } => events.push((Sender::World, Event::Tick)),
                    OpenKind::Parallel { .. } | OpenKind::Child(_) => {}
                    OpenKind::Item(_) | OpenKind::Each { .. } => {}
                }
            }
            if instance.held.values().any(|held| !held.stuck) {
                events.push((Sender::Unasked, Event::Resume { instance: instance.id, by: "ann".to_owned() }));
            }
        }
        self.unasked(run, &mut events);
        events
    }

    fn unasked(&self, run: &Run, events: &mut Vec<(Sender, Event)>) {
        let root = run.instance(ROOT).unwrap();
        let program = self.library.program(self.protocol).unwrap();
        let (by, reason) = ("ann".to_owned(), "because".to_owned());
        if self.redo {
            for to in root.visited.iter().cloned() {
                let (by, reason) = (by.clone(), reason.clone());
                events.push((Sender::Unasked, Event::Redo { instance: ROOT, to, by, reason }));
            }
        }
        if self.waive && !root.is_settled() {
            for to in program.targets(&root.state).cloned() {
                let (by, reason) = (by.clone(), reason.clone());
                events.push((Sender::Unasked, Event::Waive { instance: ROOT, to, by, reason }));
            }
        }
    }

    fn words(&self, instance: &Instance, words: &[Name], events: &mut Vec<(Sender, Event)>) {
        let program = self.library.program(&instance.protocol).unwrap();
        for word in words {
            let mut all = vec![Fields::new()];
            if &**word == "next" {
                let to = program.targets(&instance.state);
                all.extend(to.map(|to| Fields::from([(Name::from("to"), Value::text(to))])));
            }
            for options in all {
                let (by, reason) = ("ann".to_owned(), "because".to_owned());
                let event = Event::Say { instance: instance.id, word: word.clone(), by, reason, options };
                events.push((Sender::Asked, event));
            }
        }
    }

    fn outcomes(&self, here: &Asked<'_>, reads: &Reads, events: &mut Vec<(Sender, Event)>) {
        for answer in reads.answers(here, self.sparse) {
            events.push((Sender::World, here.outcome(Outcome::Done(answer))));
        }
        let paying = matches!(here.node.step(), Some(Step::Do { paying: Some(_), .. }));
        let telling = paying || reads.failures.contains(&(here.program.name.clone(), here.state.clone()));
        let kinds = if self.few_kinds && !telling { &FailureKind::ALL[..1] } else { &FailureKind::ALL[..] };
        for kind in kinds.iter().copied() {
            events.push((Sender::World, here.outcome(Outcome::Failed(Failure::new(kind, "boom")))));
        }
        if self.die {
            events.push((Sender::World, here.outcome(Outcome::Died("gone".to_owned()))));
        }
        if paying {
            let (instance, action) = (here.instance, here.action);
            events.push((
                Sender::World,
                Event::Tool { instance, action, tool: Name::from("edit"), file: None },
            ));
        }
    }
}

/// The facts on the way to a run, for people.
fn way(all: &[Reached], at: usize) -> String {
    let mut lines = Vec::new();
    let mut one = Some(at);
    while let Some(index) = one {
        let facts: Vec<_> = all[index].entries.iter().map(|entry| format!("  {:?}\n", entry.fact)).collect();
        lines.push(format!("{}\n", facts.concat()));
        one = all[index].from;
    }
    lines.reverse();
    lines.concat()
}

/// An action that waits for its outcome.
pub struct Asked<'a> {
    pub instance: InstanceId,
    pub action: ActionId,
    pub state: &'a Name,
    pub node: &'a Statement,
    pub program: &'a Program,
}

impl Asked<'_> {
    fn outcome(&self, outcome: Outcome) -> Event {
        let (instance, action) = (self.instance, self.action);
        Event::Outcome { instance, action, outcome, usage: Some(Usage::new()) }
    }

    /// An answer to a question: the first choice, where there are any.
    fn reply(&self, run: &Run) -> Event {
        let Some(Step::Ask { args, .. }) = self.node.step() else { panic!("no question") };
        let choices = args.iter().find(|(name, _)| &*name.name == "choices");
        let names = run.instance(self.instance).unwrap().names(&ThreadId::Main);
        let words = choices.map(|(_, arg)| ftl_core::run::eval::arg(arg, &names)).unwrap_or_default();
        let value = words.items().first().cloned().unwrap_or_else(|| Value::text("x"));
        let (instance, action) = (self.instance, Some(self.action));
        Event::Reply { instance, action, value, by: "ann".to_owned() }
    }
}

/// What the conditions of each protocol read.
pub struct Reads {
    /// By protocol, state and name the fields, and what each is compared with.
    fields: BTreeMap<(Name, Name, Name), BTreeMap<Name, BTreeSet<Constant>>>,
    /// The states that read `failure.kind`.
    failures: BTreeSet<(Name, Name)>,
}

impl Reads {
    pub fn of(library: &Library) -> Reads {
        let mut reads = Reads { fields: BTreeMap::new(), failures: BTreeSet::new() };
        for protocol in library.protocols() {
            let program = protocol.program.as_ref().unwrap();
            for state in &program.states {
                for node in &state.nodes {
                    if print::line(&node.what).contains("failure.kind") {
                        reads.failures.insert((program.name.clone(), state.name.clone()));
                    }
                    let exprs: Vec<&Expr> = match &node.what {
                        StatementKind::If { condition, .. } => vec![condition],
                        StatementKind::Step { step: Step::Pay { per: Some((_, list)), .. }, .. } => {
                            vec![list]
                        }
                        StatementKind::Step { step: Step::ForEach { list, .. }, .. } => vec![list],
                        _ => Vec::new(),
                    };
                    for expr in exprs {
                        let mut paths = Vec::new();
                        paths_of(expr, &BTreeSet::new(), &mut paths);
                        for (path, numbers) in paths {
                            let place = (program.name.clone(), state.name.clone(), path[0].clone());
                            if let Some(field) = path.get(1) {
                                reads
                                    .fields
                                    .entry(place)
                                    .or_default()
                                    .entry(field.clone())
                                    .or_default()
                                    .extend(numbers);
                            }
                        }
                    }
                }
            }
        }
        reads
    }

    /// The fields of an answer that matter: those read in its state, or anywhere if it is tracked.
    fn fields(&self, here: &Asked<'_>) -> BTreeMap<Name, BTreeSet<Constant>> {
        let mut fields: BTreeMap<Name, BTreeSet<Constant>> = BTreeMap::new();
        let Some(bind) = here.node.bind() else { return fields };
        for ((protocol, state, name), read) in &self.fields {
            let seen = state == here.state || here.program.tracks(bind);
            if *protocol == here.program.name && name == bind && seen {
                for (field, numbers) in read {
                    fields.entry(field.clone()).or_default().extend(numbers.iter().cloned());
                }
            }
        }
        fields
    }

    /// Every answer that can make a difference.
    pub fn answers(&self, here: &Asked<'_>, sparse: bool) -> Vec<Value> {
        let Some(code) = here.node.calls.get(here.action.index as usize) else {
            return vec![Value::text("x")];
        };
        let Type::Record(record) = &code.answer else { return vec![full(&code.answer)] };
        let mut answers = vec![full(&code.answer)];
        if sparse {
            answers.push(plain(&code.answer));
            answers.dedup();
        }
        if here.action.index == 0 && code.whom == Performer::Action(Name::from("campaign.tasks")) {
            return tasks(&code.answer);
        }
        for (field, numbers) in self.fields(here) {
            let declared = record.fields.get(&field).unwrap_or_else(|| panic!("no field {field}"));
            let mut values = domain(&declared.ty, &numbers);
            if !declared.required {
                values.retain(|value| !value.is_empty());
                values.push(Value::None);
            }
            let each = |answer: &Value| -> Vec<Value> {
                let change = |value: &Value| with(answer, &Fields::from([(field.clone(), value.clone())]));
                values.iter().map(change).collect()
            };
            answers = answers.iter().flat_map(each).collect();
        }
        answers
    }
}

/// The tasks of a campaign in every way that its protocol tells apart: none, one, two to start
/// with either worker, and whether somebody is at work.
fn tasks(ty: &Type) -> Vec<Value> {
    let one = |seq: &str, worker: &str| {
        Value::record([
            ("seq", Value::text(seq)),
            ("slug", Value::text("s")),
            ("worker", Value::text(worker)),
            ("depends", Value::list([])),
            ("status", Value::text("pending")),
        ])
    };
    let ready = [vec![], vec![one("1", "builder")], vec![one("1", "builder"), one("2", "coder")]];
    let mut answers = Vec::new();
    for ready in ready {
        for running in [vec![], vec![one("9", "builder")]] {
            let lists = [("ready", Value::list(ready.clone())), ("running", Value::list(running))];
            let lists = lists.map(|(name, list)| (Name::from(name), list));
            answers.push(with(&full(ty), &lists.into()));
        }
    }
    answers
}

/// The values of a type that a condition can tell apart.
fn domain(ty: &Type, compared: &BTreeSet<Constant>) -> Vec<Value> {
    let numbers: BTreeSet<Number> = compared.iter().filter_map(Constant::number).collect();
    let words: Vec<&str> = compared.iter().filter_map(Constant::word).collect();
    match ty {
        Type::Bool => vec![Value::Bool(true), Value::Bool(false)],
        Type::Choice(words) => words.iter().map(Value::text).collect(),
        Type::Number | Type::Duration => {
            let below = |number: &Number| Number::thousandths(number.in_thousandths() - 1);
            let mut all: BTreeSet<Number> = numbers.iter().flat_map(|one| [*one, below(one)]).collect();
            all.extend(
                [Number::whole(0), Number::whole(1)]
                    .iter()
                    .filter(|_| numbers.iter().all(|one| *one == Number::whole(0))),
            );
            all.into_iter().map(Value::Number).collect()
        }
        Type::List(of) => {
            let item = |name: &str| match &**of {
                Type::Text => Value::text(name),
                other => full(other),
            };
            vec![Value::list([]), Value::list([item("a")]), Value::list([item("a"), item("b")])]
        }
        // A text is compared with words, or only looked at whether it is empty.
        Type::Text if !words.is_empty() => words.into_iter().chain(["x"]).map(Value::text).collect(),
        Type::Text | Type::Digest | Type::Any | Type::Unknown => vec![Value::text(""), Value::text("x")],
        Type::Record(_) => vec![full(ty)],
    }
}

/// What a condition compares a field with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constant {
    Number(Number),
    Word(String),
}

impl Constant {
    fn of(expr: &Expr) -> Option<Constant> {
        match &*expr.kind {
            ExprKind::Number(number) | ExprKind::Duration(number) => Some(Constant::Number(*number)),
            ExprKind::Text(template) => match template.parts.as_slice() {
                [TemplatePart::Text(text)] => Some(Constant::Word(text.to_string())),
                _ => None,
            },
            _ => None,
        }
    }

    fn number(&self) -> Option<Number> {
        match self {
            Constant::Number(number) => Some(*number),
            Constant::Word(_) => None,
        }
    }

    fn word(&self) -> Option<&str> {
        match self {
            Constant::Word(word) => Some(word),
            Constant::Number(_) => None,
        }
    }
}

type Path = (Vec<Name>, BTreeSet<Constant>);

fn paths_of(expr: &Expr, compared: &BTreeSet<Constant>, out: &mut Vec<Path>) {
    match &*expr.kind {
        ExprKind::Or(parts) | ExprKind::And(parts) | ExprKind::Function(_, parts) => {
            parts.iter().for_each(|part| paths_of(part, compared, out));
        }
        ExprKind::Not(inner) | ExprKind::Empty(inner, _) => paths_of(inner, compared, out),
        ExprKind::Compare(_, one, two) => {
            let compared: BTreeSet<Constant> = [one, two].into_iter().filter_map(Constant::of).collect();
            paths_of(one, &compared, out);
            paths_of(two, &compared, out);
        }
        ExprKind::Path(path) => {
            out.push((path.iter().map(|part| part.name.clone()).collect(), compared.clone()));
        }
        ExprKind::Text(template) => {
            for part in &template.parts {
                if let TemplatePart::Hole(inner) = part {
                    paths_of(inner, compared, out);
                }
            }
        }
        ExprKind::Number(_) | ExprKind::Duration(_) | ExprKind::Bool(_) | ExprKind::None => {}
    }
}

/// Whether somebody outside answers it.
fn answered(kind: &OpenKind) -> bool {
    match kind {
        OpenKind::Call | OpenKind::Record | OpenKind::Words(_) | OpenKind::Question => true,
        OpenKind::Child(_) | OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => false,
    }
}

/// What later statements mention: by protocol and state, the statements as they are written.
struct Keys(BTreeMap<(Name, Name), Vec<String>>);

impl Keys {
    fn of(library: &Library) -> Keys {
        let programs = library.protocols().filter_map(|protocol| protocol.program.as_ref());
        let states =
            programs.flat_map(|program| program.states.iter().map(|state| (program.name.clone(), state)));
        let lines = |state: &StateCode| state.nodes.iter().map(|node| print::line(&node.what)).collect();
        Keys(states.map(|(name, state)| ((name, state.name.clone()), lines(state))).collect())
    }

    /// Everything that a protocol can tell apart, as a number of 128 bits.
    fn key(&self, run: &Run, notes: Notes) -> u128 {
        let mut text = String::new();
        write!(text, "{notes:?}").unwrap();
        self.instance(run, ROOT, &mut text);
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &text).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        (hash(1) << 64) | hash(2)
    }

    fn instance(&self, run: &Run, id: InstanceId, text: &mut String) {
        let one = run.instance(id).unwrap();
        write!(text, "\n{}.{}", one.protocol, one.state).unwrap();
        if let Some((end, _)) = &one.end {
            write!(text, " {}", end.word()).unwrap();
        }
        if run.programs().program(&one.protocol).is_some_and(|program| program.redo.is_some()) {
            write!(text, "{:?}", one.visited).unwrap();
        }
        for values in [&one.inputs, &one.tracked, &one.params] {
            write_fields(values, text);
        }
        for (name, meter) in one.meters.iter() {
            write!(text, " {name}{:?}/{}", meter.used, meter.limit).unwrap();
        }
        for (id, thread) in &one.threads {
            self.thread(one, id, thread, text);
        }
        for open in one.open.values() {
            let Open { whom, branch, place, thread, died, held, .. } = &**open;
            let held = held.is_some();
            write!(text, "\n {whom} {branch} {place} {thread:?} {died} {held}").unwrap();
            match &open.kind {
                OpenKind::Child(Some(child)) => self.instance(run, *child, text),
                OpenKind::Parallel { heard, .. } => {
                    let heard: Vec<_> = heard.iter().map(|(index, result)| (index, result.is_ok())).collect();
                    write!(text, "{heard:?}").unwrap();
                }
                other => write!(text, "{other:?}").unwrap(),
            }
        }
        for ended in one.ended.values() {
            write!(text, " {}{}", ended.key, ended.failure.is_some()).unwrap();
        }
        for (thread, held) in &one.held {
            let (place, meter, stuck) = (held.place, held.meter.as_ref().map(|(_, meter)| meter), held.stuck);
            write!(text, "\n held {thread:?} {place} {meter:?} {stuck}").unwrap();
        }
    }

    /// A line of work with the names that later statements mention. At a WAIT that opens its state
    /// none of them counts: every name is bound again before it is read.
    fn thread(&self, one: &Instance, id: &ThreadId, thread: &Thread, text: &mut String) {
        let lines = &self.0[&(one.protocol.clone(), one.state.clone())];
        let (place, waited) = (thread.place as usize, thread.waited);
        write!(text, "\n {id:?} {place} {waited:?} {}", thread.spoken).unwrap();
        if let Some(waiving) = &thread.waiving {
            let (to, goto, held) = (&waiving.to, waiving.goto, waiving.held.is_some());
            write!(text, "{to} {goto} {held} {}", waiving.rested).unwrap();
        }
        let at_wait =
            one.open.values().any(|open| open.place == 0 && matches!(open.kind, OpenKind::Words(_)));
        if at_wait || one.is_settled() {
            return;
        }
        let later = &lines[place..];
        for (name, value) in
            thread.locals.iter().filter(|(name, _)| later.iter().any(|line| line.contains(&***name)))
        {
            write!(text, " {name}={}", serde_json::to_string(value).unwrap()).unwrap();
        }
        if later.iter().any(|line| line.contains(": |")) {
            text.push_str(&serde_json::to_string(&thread.last).unwrap());
        }
        write!(text, "{:?}", thread.wanted).unwrap();
    }
}

fn write_fields(fields: &Fields, text: &mut String) {
    text.push_str(&serde_json::to_string(fields).unwrap());
}

/// Where a run stands, for people.
pub fn describe(run: &Run) -> String {
    let mut text = String::new();
    for one in run.instances().iter().filter(|one| !one.is_settled()) {
        let open: Vec<String> = one.open.values().map(|open| open.whom.to_string()).collect();
        let held: Vec<_> = one.held.values().map(|held| &held.failure.message).collect();
        write!(text, "{} in {} open {open:?} held {held:?}; ", one.protocol, one.state).unwrap();
    }
    text
}
