//! A stage for protocols: answers actions by name, and checks after every step that the journal
//! replays to the same run.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod plays;

use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::run::{
    Action, ActionId, ActionTarget, Decision, End, Entry, Event, Fact, Failure, FailureKind, Input,
    InstanceId, OpenKind, Outcome, Payment, ROOT, Run, Standing, Terms, Usage,
};
use ftl_core::types::Type;
use ftl_core::value::{Fields, Name, Number, Value};
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};

/// The built-in protocols, loaded once per process.
pub fn library() -> Arc<Library> {
    static LIBRARY: std::sync::OnceLock<Arc<Library>> = std::sync::OnceLock::new();
    LIBRARY.get_or_init(|| Arc::new(Library::built_in())).clone()
}

/// The built-in protocols with some replaced or added; the texts are programs without a fence.
pub fn library_with(programs: &[(&str, &str)]) -> Arc<Library> {
    let mut sources = built_in_sources();
    for (name, program) in programs {
        let text = format!("# {name}\n\n```protocol\n{program}\n```\n");
        sources.push(SourceDocument::new(format!(".ftl/protocols/{name}.md"), DocumentOrigin::User, text));
    }
    let library = Library::load(sources, Catalogue::standard());
    for (name, _) in programs {
        let protocol = library.get(name).unwrap_or_else(|| panic!("no protocol {name}"));
        let problems: Vec<String> =
            protocol.findings.problems.iter().map(|problem| problem.render(library.sources())).collect();
        assert!(protocol.program.is_some(), "{name} is not sound:\n{}", problems.join("\n"));
    }
    Arc::new(library)
}

/// The built-in protocols with some lines of their documents changed, as a user would do it: the
/// changed documents replace the built-in ones.
pub fn library_edited(edits: &[(&str, &str, &str)], programs: &[(&str, &str)]) -> Arc<Library> {
    let mut texts: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for (name, from, to) in edits {
        let text = texts.entry(name).or_insert_with(|| {
            let built_in = ftl_language::library::BUILT_IN.iter().find(|(one, _)| one == name);
            built_in.unwrap_or_else(|| panic!("no protocol {name}")).1.to_owned()
        });
        assert_eq!(text.matches(from).count(), 1, "{name} has `{from}` once");
        *text = text.replace(from, to);
    }
    let mut sources = built_in_sources();
    for (name, text) in texts {
        sources.push(SourceDocument::new(format!(".ftl/protocols/{name}.md"), DocumentOrigin::User, text));
    }
    for (name, program) in programs {
        let text = format!("# {name}\n\n```protocol\n{program}\n```\n");
        sources.push(SourceDocument::new(format!(".ftl/protocols/{name}.md"), DocumentOrigin::User, text));
    }
    let library = Library::load(sources, Catalogue::standard());
    for protocol in library.protocols() {
        let problems: Vec<String> =
            protocol.findings.problems.iter().map(|problem| problem.render(library.sources())).collect();
        assert!(protocol.program.is_some(), "{} is not sound:\n{}", protocol.name, problems.join("\n"));
    }
    Arc::new(library)
}

/// A builder of one step, for whoever looks at its parents: landed is complete, a conflict is
/// escalated, not landed is blocked, and a failure of the step is an error.
pub const STUB_BUILDER: &str = "PROTOCOL: builder
INPUT: workspace
INPUT: mode = full | direct
INPUT: budget = 5
STATE: WORK
  DO: landing = work.land verify=\"{mode} {budget}\" ELSE RETURN error reason={failure.message} workspace={workspace}
  IF: landing.status == \"landed\" → RETURN complete delivered={landing.summary} commit={landing.commit} target={landing.target} workspace={workspace}
  IF: landing.status == \"conflict\" → RETURN escalated reason={landing.summary} workspace={workspace}
  RETURN: blocked reason={landing.summary} workspace={workspace}";

/// A coder of one step, in the same way; it never escalates.
pub const STUB_CODER: &str = "PROTOCOL: coder
INPUT: story
STATE: WORK
  DO: landing = work.merge tree={story} ELSE RETURN error reason={failure.message}
  IF: landing.status == \"landed\" → RETURN complete delivered={landing.summary} commit={landing.commit}
  RETURN: error reason={landing.summary}";

/// Reads JSON as a value.
pub fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Named values out of a JSON object.
pub fn fields(json: &str) -> Fields {
    match value(json) {
        Value::Record(fields) => (*fields).clone(),
        other => panic!("{other} is no object"),
    }
}

/// The plainest value of a type: everything that must be there, passed and not failed.
pub fn plain(ty: &Type) -> Value {
    match ty {
        Type::Unknown | Type::Any | Type::Text | Type::Digest => Value::text("x"),
        Type::Bool => Value::Bool(false),
        Type::Number | Type::Duration => Value::Number(Number::whole(1)),
        Type::Choice(words) => Value::text(&words[0]),
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

/// A value of a type with nothing left out: every text is `x`, every list is empty.
pub fn full(ty: &Type) -> Value {
    match ty {
        Type::Record(record) => {
            Value::record(record.fields.iter().map(|(name, field)| (name, full(&field.ty))))
        }
        _ => plain(ty),
    }
}

/// A record with some fields changed.
pub fn with(base: &Value, changes: &Fields) -> Value {
    let Value::Record(fields) = base else { return base.clone() };
    let mut fields = (**fields).clone();
    fields.extend(changes.clone());
    Value::Record(Arc::new(fields))
}

/// What a run says of its instances at work and of what is due is what all its instances say, and a
/// tick does something from then on and not before.
pub fn indexed(run: &Run, now: u64) {
    let live = || run.instances().iter().filter(|one| !one.is_settled());
    assert!(run.live().map(|one| one.id).eq(live().map(|one| one.id)), "not those that are at work");
    let mut waits = Vec::new();
    for (one, (action, open)) in live().flat_map(|one| one.open.iter().map(move |open| (one, open))) {
        if let Some((service, until)) = &open.suspended {
            waits.push((one.id, *action, service.as_str(), *until));
        }
    }
    let mut suspended: Vec<_> = run.suspended().collect();
    suspended.sort_unstable();
    assert_eq!(suspended, waits);
    let tick = |at: u64| !run.decide(&Input { at, event: Event::Tick }).entries.is_empty();
    match run.next_due() {
        Some(due) => assert!(tick(due) && (due == 0 || !tick(due - 1)), "not when it is due"),
        None => assert!(!tick(now) && !tick(u64::MAX), "something is due"),
    }
}

/// A run on a stage.
#[derive(Clone)]
pub struct Stage {
    pub run: Run,
    pub journal: Vec<Entry>,
    pub waiting: Vec<Action>,
    pub clock: u64,
    /// Whether every step is replayed from the beginning; slow for long runs.
    pub careful: bool,
}

impl Stage {
    pub fn new(library: Arc<Library>) -> Stage {
        Stage {
            run: Run::new(library),
            journal: Vec::new(),
            waiting: Vec::new(),
            clock: 1_000,
            careful: true,
        }
    }

    /// Opens a protocol with inputs given as JSON.
    pub fn open(protocol: &str, inputs: &str) -> Stage {
        Stage::open_with(library(), protocol, inputs, Terms::default())
    }

    pub fn open_with(library: Arc<Library>, protocol: &str, inputs: &str, terms: Terms) -> Stage {
        let mut stage = Stage::new(library);
        let event =
            Event::Open { protocol: Name::from(protocol), inputs: fields(inputs), terms, adopt: None };
        let decision = stage.send(event);
        assert_eq!(decision.refusal, None);
        stage
    }

    /// Sends an input: decides, keeps, applies, and checks what must always be true.
    pub fn send(&mut self, event: Event) -> Decision {
        self.clock += 1;
        let input = Input { at: self.clock, event };
        let decision = self.run.decide(&input);
        assert_eq!(decision, self.run.decide(&input), "a decision is not deterministic");
        for entry in &decision.entries {
            self.run.apply(entry);
            self.journal.push(entry.clone());
        }
        self.waiting.retain(|action| !decision.cancel.contains(&(action.instance, action.id)));
        for action in &decision.start {
            if !self.waiting.iter().any(|one| one.id == action.id) {
                self.waiting.push(action.clone());
            }
        }
        self.waiting.retain(|action| {
            self.run.instance(action.instance).is_some_and(|one| one.open.contains_key(&action.id))
        });
        self.check(&decision);
        decision
    }

    fn check(&self, decision: &Decision) {
        for entry in &decision.entries {
            let text = serde_json::to_string(entry).unwrap();
            let back: Entry = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(&back, entry, "an entry does not survive its JSON");
            if let Fact::Moved { from, to, cause, .. } = &entry.fact {
                let protocol = &self.run.instance(entry.instance).unwrap().protocol;
                let program = self.run.programs().program(protocol).unwrap();
                let declared = program.edges.contains(&(from.clone(), to.clone()));
                let redo = matches!(cause, ftl_core::run::Cause::Redo { .. });
                assert!(declared || redo, "{protocol}: {from} → {to} is not declared");
            }
        }
        for instance in self.run.instances() {
            for (name, meter) in instance.meters.iter() {
                assert!(meter.highest_use() <= meter.limit, "{} overspent {name}", instance.protocol);
            }
        }
        if self.careful {
            let replayed = Run::replay(self.run.programs().clone(), &self.journal);
            assert!(replayed.same_state(&self.run), "replay is not equal to the live run");
            indexed(&self.run, self.clock);
        }
    }

    /// Whether an engine that comes back here asks for everything that is open, under the same ids
    /// and with the same parameters. Nothing else changes, except that agents which were at work have
    /// used up what was set aside for them and get as much again.
    pub fn recovers(&self) {
        let mut copy = Stage { careful: false, ..self.clone() };
        let mut asked = copy.send(Event::Recover).start;
        let mut waiting = self.waiting.clone();
        asked.sort_by_key(|action| (action.instance, action.id));
        waiting.sort_by_key(|action| (action.instance, action.id));
        assert_eq!(asked, waiting, "not everything is asked again: {}", self.describe());
        for entry in &copy.journal[self.journal.len()..] {
            let paid = match &entry.fact {
                Fact::Paid(Payment::Budget { guessed, .. }) => !guessed.is_empty(),
                Fact::Reserved { .. } | Fact::Paid(Payment::Back { .. }) => true,
                _ => false,
            };
            assert!(paid, "recovery left {:?}: {}", entry.fact, self.describe());
        }
    }

    /// The open actions by name, such as `verify.run` or `Task(builder)`.
    pub fn asks(&self) -> Vec<String> {
        self.waiting.iter().map(name_of).collect()
    }

    /// The first open action of that name.
    pub fn find(&self, whom: &str) -> Action {
        let found = self.waiting.iter().find(|action| name_of(action) == whom);
        found.cloned().unwrap_or_else(|| {
            panic!("{whom} is not asked for; open: {:?}, {}", self.asks(), self.describe())
        })
    }

    /// The declared answer of an open action.
    pub fn answer_type(&self, action: &Action) -> Type {
        let instance = self.run.instance(action.instance).unwrap();
        let place = instance.open[&action.id].place;
        if instance.open[&action.id].kind == OpenKind::Record {
            return self.run.programs().catalogue().action(&name_of(action)).unwrap().answer.clone();
        }
        let library = self.run.programs();
        let program = library.program_of(&instance.protocol, &instance.state, &instance.code).unwrap();
        let node = program.state(&instance.state).unwrap().node(place).unwrap();
        node.calls.get(action.id.index as usize).map_or(Type::Any, |code| code.answer.clone())
    }

    /// Answers an action with its plainest answer, changed by a JSON object.
    pub fn done(&mut self, whom: &str, changes: &str) -> Decision {
        let action = self.find(whom);
        let base = plain(&self.answer_type(&action));
        self.outcome(&action, Outcome::Done(with(&base, &fields(changes))))
    }

    pub fn fail(&mut self, whom: &str, kind: FailureKind) -> Decision {
        let action = self.find(whom);
        self.outcome(&action, Outcome::Failed(Failure::new(kind, "boom")))
    }

    pub fn outcome(&mut self, action: &Action, outcome: Outcome) -> Decision {
        let (instance, action) = (action.instance, action.id);
        self.send(Event::Outcome { instance, action, outcome, usage: Some(Usage::new()) })
    }

    pub fn say(&mut self, word: &str, options: &str) -> Decision {
        let (by, reason) = ("ann".to_owned(), "because".to_owned());
        self.send(Event::Say { instance: ROOT, word: Name::from(word), by, reason, options: fields(options) })
    }

    pub fn reply(&mut self, json: &str) -> Decision {
        let action = self
            .waiting
            .iter()
            .find(|action| action.wanted == ActionTarget::Question)
            .expect("no question")
            .clone();
        let (instance, action) = (action.instance, Some(action.id));
        self.send(Event::Reply { instance, action, value: value(json), by: "ann".to_owned() })
    }

    pub fn waive(&mut self, to: &str) -> Decision {
        let (by, reason) = ("ann".to_owned(), "I know better".to_owned());
        self.send(Event::Waive { instance: ROOT, to: Name::from(to), by, reason })
    }

    pub fn redo(&mut self, to: &str) -> Decision {
        let (by, reason) = ("ann".to_owned(), "once more".to_owned());
        self.send(Event::Redo { instance: ROOT, to: Name::from(to), by, reason })
    }

    pub fn raise(&mut self, meter: &str, limit: u64) -> Decision {
        let (by, reason) = ("ann".to_owned(), "it is worth it".to_owned());
        self.send(Event::Raise { instance: ROOT, meter: Name::from(meter), limit, by, reason })
    }

    pub fn state(&self) -> Name {
        self.run.instance(ROOT).unwrap().state.clone()
    }

    pub fn standing(&self) -> Standing {
        self.run.instance(ROOT).unwrap().standing()
    }

    pub fn end(&self) -> Option<End> {
        self.run.end()
    }

    /// The states that an instance has been through, the first included.
    pub fn path(&self, id: InstanceId) -> Vec<Name> {
        let mut path = Vec::new();
        for entry in self.journal.iter().filter(|entry| entry.instance == id) {
            match &entry.fact {
                Fact::Opened(opened) => path.push(opened.state.clone()),
                Fact::Moved { to, .. } => path.push(to.clone()),
                _ => {}
            }
        }
        path
    }

    pub fn describe(&self) -> String {
        let root = self.run.instance(ROOT).unwrap();
        format!(
            "{} in {} ({:?}) held {:?} end {:?}",
            root.protocol,
            root.state,
            root.standing(),
            root.held,
            root.end
        )
    }
}

/// How tests call an action.
pub fn name_of(action: &Action) -> String {
    match &action.wanted {
        ActionTarget::Action(name) => name.to_string(),
        ActionTarget::Task { role, .. } => format!("Task({role})"),
        ActionTarget::Word(_) => "word".to_owned(),
        ActionTarget::Question => "question".to_owned(),
    }
}

/// An id out of its text.
pub fn id(text: &str) -> ActionId {
    ActionId::try_from(text.to_owned()).unwrap()
}
