//! Random walks over all protocols, with inputs that make sense and inputs that do not.
//!
//! After every step: the journal replays to the live run, a decision made twice is the same, every
//! entry survives its JSON, nothing is overspent, nothing that was set aside is lost, and how an
//! instance stands agrees with what it waits for. At the end the journal is verified as a whole.
//! `FTL_WALKS` says how many walks; a seed that failed once stays as a walk of its own below.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_core::run::{
    Action, ActionId, ActionTarget, Adoption, Cause, Decision, Entry, Event, Fact, Failure, FailureKind,
    Input, InstanceId, OpenKind, Outcome, Policy, ROOT, Run, Standing, Terms, Usage, WHOLE,
};
use ftl_core::types::Type;
use ftl_core::value::{Fields, Name, Number, Value};
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, proptest};
use support::{fields, full, library, plain};

const STEPS: usize = 120;

/// Numbers out of a seed; the same seed walks the same way for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % sides.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.roll(from.len())) }
    }
}

/// A walk under way.
struct Walk {
    dice: Dice,
    run: Run,
    journal: Vec<Entry>,
    clock: u64,
    /// Actions that were ever started, also those that nobody waits for any more.
    known: Vec<Action>,
}

#[derive(Clone, Copy)]
enum Money {
    /// Nothing is set aside.
    None,
    /// Agents set aside and report well within the limits.
    Plenty,
    /// There is hardly enough for one agent.
    Tight,
}

impl Walk {
    fn open(seed: u64) -> Walk {
        let mut dice = Dice(seed);
        let all = [
            ("task", r#"{"objective":"o"}"#),
            ("campaign", r#"{"objective":"o"}"#),
            ("builder", r#"{"workspace":"w.xml"}"#),
            ("builder", r#"{"workspace":"w.xml","mode":"direct"}"#),
            ("coder", r#"{"story":"s"}"#),
            ("lifecycle", r#"{"brief":"b"}"#),
        ];
        let (protocol, inputs) = all[dice.roll(all.len())];
        let terms = terms(&mut dice);
        let mut walk =
            Walk { dice, run: Run::new(library()), journal: Vec::new(), clock: 1000, known: Vec::new() };
        let adopt = walk.adoption(protocol);
        let inputs = fields(inputs);
        walk.send(Event::Open { protocol: Name::from(protocol), inputs, terms, adopt });
        walk
    }

    fn adoption(&mut self, protocol: &str) -> Option<Adoption> {
        if protocol != "lifecycle" || !self.dice.chance(20) {
            return None;
        }
        let library = library();
        let states = &library.program(protocol).unwrap().states;
        let at = self.dice.roll(states.len());
        let visited = states[..at].iter().map(|state| state.name.clone()).collect();
        Some(Adoption {
            state: states[at].name.clone(),
            visited,
            params: Fields::new(),
            by: "ann".to_owned(),
        })
    }

    fn send(&mut self, event: Event) -> Decision {
        let input = Input { at: self.clock, event };
        let decision = self.run.decide(&input);
        assert_eq!(decision, self.run.decide(&input), "a decision is not deterministic");
        let before = self.run.clone();
        for entry in &decision.entries {
            self.run.apply(entry);
            self.journal.push(entry.clone());
        }
        self.known.extend(decision.start.iter().cloned());
        self.facts(&before, &decision);
        self.spending();
        self.standing();
        let replayed = Run::replay(library(), &self.journal);
        assert!(replayed.same_state(&self.run), "replay is not equal to the live run after {input:?}");
        support::indexed(&self.run, self.clock);
        decision
    }

    /// Every entry reads back, stands in its row, and moves only along declared edges.
    fn facts(&self, before: &Run, decision: &Decision) {
        for (index, entry) in decision.entries.iter().enumerate() {
            assert_eq!(entry.seq, before.next_seq() + index as u64);
            assert_eq!(entry.first, index == 0);
            let text = serde_json::to_string(entry).unwrap();
            let back: Entry = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(&back, entry, "an entry does not survive its JSON: {text}");
            if let Fact::Moved { from, to, cause, .. } = &entry.fact {
                let protocol = &self.run.instance(entry.instance).unwrap().protocol;
                let program = self.run.programs().program(protocol).unwrap();
                let declared = program.edges.contains(&(from.clone(), to.clone()));
                assert!(declared || matches!(cause, Cause::Redo { .. }), "{protocol}: {from} → {to}");
            }
        }
        for action in &decision.start {
            let open = self.run.instance(action.instance).and_then(|one| one.open.get(&action.id));
            assert!(open.is_some(), "started and not open: {action:?}");
        }
        for (instance, action) in &decision.cancel {
            let open = self.run.instance(*instance).and_then(|one| one.open.get(action));
            assert!(open.is_none(), "cancelled and open: {action}");
        }
    }

    /// No meter is overspent, and what is set aside is exactly what open actions have set aside.
    fn spending(&self) {
        let mut aside: BTreeMap<(InstanceId, Name), u64> = BTreeMap::new();
        for instance in self.run.instances() {
            for (name, meter) in instance.meters.iter() {
                assert!(meter.highest_use() <= meter.limit, "{} overspent {name}", instance.protocol);
            }
            let accounts = instance.open.values().chain(instance.owed.values());
            for (name, amount) in accounts.flat_map(|open| &open.reserved) {
                let mut at = Some(instance.id);
                while let Some(id) = at {
                    *aside.entry((id, name.clone())).or_default() += amount;
                    at = self.run.instance(id).unwrap().parent.map(|(parent, _)| parent);
                }
            }
        }
        for instance in self.run.instances() {
            for (name, purse) in self.run.purses(instance.id).unwrap() {
                let open = aside.get(&(instance.id, name.clone())).copied().unwrap_or(0);
                assert_eq!(purse.reserved, open, "{name} of {} leaks", instance.id);
            }
        }
    }

    /// How each instance stands agrees with what it waits for.
    fn standing(&self) {
        for one in self.run.instances() {
            let parent_gone = one.parent.is_some_and(|(parent, action)| {
                !self.run.instance(parent).unwrap().open.contains_key(&action)
            });
            if one.is_settled() {
                assert!(one.open.is_empty() && one.held.is_empty() && one.threads.is_empty());
                assert!(matches!(one.standing(), Standing::Settled(_)));
                continue;
            }
            assert!(!parent_gone, "instance {} lives and nobody waits for it", one.id);
            let answered = one.open.values().any(|open| {
                !matches!(open.kind, OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. })
            });
            assert!(
                answered || !one.held.is_empty(),
                "instance {} is stuck in silence in {}",
                one.id,
                one.state
            );
            if let Standing::Running = one.standing() {
                assert!(answered, "instance {} runs and asks nobody", one.id);
            }
            for (action, open) in &one.open {
                let whole = ActionId { entry: action.entry, index: WHOLE };
                let item = matches!(open.kind, OpenKind::Item(_));
                assert!(
                    item || open.thread != ftl_core::run::ThreadId::Main
                        || one.open.keys().all(|other| {
                            other.entry == action.entry
                                || one.open[other].thread != open.thread
                                || matches!(one.open[other].kind, OpenKind::Item(_))
                        }),
                    "two steps of one line of work are open: {action} {whole}"
                );
            }
            self.run.options(one.id);
        }
    }

    fn step(&mut self) {
        self.clock += self.dice.roll(3) as u64;
        let event = match self.dice.roll(100) {
            0..72 => self.sensible(),
            72..78 => Some(self.tool_or_report()),
            78..82 => {
                if self.dice.chance(20) {
                    self.clock += 400_000;
                }
                Some(Event::Tick)
            }
            82..84 => Some(Event::Recover),
            84..94 => Some(self.person()),
            _ => Some(self.nonsense()),
        };
        if let Some(event) = event {
            self.send(event);
        }
    }

    /// Something that is waited for.
    fn sensible(&mut self) -> Option<Event> {
        let mut open = Vec::new();
        for one in self.run.instances() {
            open.extend(one.open.iter().map(|(action, open)| (one.id, *action, open.clone())));
        }
        let (instance, action, open) = self.dice.pick(&open)?.clone();
        match &open.kind {
            OpenKind::Call | OpenKind::Record => {
                let outcome = self.outcome(instance, action);
                Some(Event::Outcome { instance, action, outcome, usage: self.usage() })
            }
            OpenKind::Words(words) => {
                let word = self.dice.pick(words)?.clone();
                let options = self.options(instance);
                Some(Event::Say { instance, word, by: self.name(), reason: "because".to_owned(), options })
            }
            OpenKind::Question => {
                let value = self.reply();
                let action = Some(action).filter(|_| self.dice.chance(50));
                Some(Event::Reply { instance, action, value, by: self.name() })
            }
            OpenKind::Child(_) | OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => {
                None
            }
        }
    }

    fn reply(&mut self) -> Value {
        let replies =
            [Value::text("ff"), Value::text("squash"), Value::text("yes"), Value::None, self.garbage()];
        self.dice.pick(&replies).unwrap().clone()
    }

    fn options(&mut self, instance: InstanceId) -> Fields {
        let mut options = Fields::new();
        if self.dice.chance(30) {
            let to = self.state(instance);
            options.insert(Name::from("to"), Value::text(to));
        }
        if self.dice.chance(20) {
            let route = ["codegen", "planning", "nowhere"][self.dice.roll(3)];
            options.insert(Name::from("route"), Value::text(route));
        }
        if self.dice.chance(5) {
            let value = self.garbage();
            options.insert(Name::from("next"), value);
        }
        options
    }

    fn outcome(&mut self, instance: InstanceId, action: ActionId) -> Outcome {
        match self.dice.roll(100) {
            0..80 => Outcome::Done(self.answer(instance, action)),
            80..87 => Outcome::Failed(self.failure()),
            87..91 => Outcome::Died("gone".to_owned()),
            91..93 => Outcome::Interrupted,
            93..94 => Outcome::Cancelled,
            94..95 => Outcome::Forbidden("a call".to_owned()),
            95..97 => Outcome::Outage { service: "model".to_owned(), until: self.clock + 2 },
            _ => Outcome::Done(self.garbage()),
        }
    }

    fn failure(&mut self) -> Failure {
        Failure::new(FailureKind::ALL[self.dice.roll(FailureKind::ALL.len())], "boom")
    }

    /// An answer of the declared type, with every field at random.
    fn answer(&mut self, instance: InstanceId, action: ActionId) -> Value {
        let one = self.run.instance(instance).unwrap();
        let place = one.open[&action].place;
        let program = self.run.programs().program(&one.protocol).unwrap().clone();
        let node = program.state(&one.state).unwrap().node(place).unwrap();
        match node.calls.get(action.index as usize) {
            Some(code) => self.value(&code.answer, 0),
            None => Value::text("x"),
        }
    }

    fn value(&mut self, ty: &Type, depth: usize) -> Value {
        match ty {
            Type::Bool => Value::Bool(self.dice.chance(60)),
            Type::Number | Type::Duration => {
                let all = [0, 600, 1000, 2000, 5000, 12_345];
                Value::Number(Number::thousandths(all[self.dice.roll(all.len())]))
            }
            Type::Choice(words) => Value::text(self.dice.pick(words).unwrap()),
            Type::List(of) => {
                let count = if depth > 3 { 0 } else { self.dice.roll(3) };
                Value::list((0..count).map(|_| self.value(of, depth + 1)).collect::<Vec<_>>())
            }
            Type::Record(record) => {
                let mut all = Fields::new();
                for (name, field) in &record.fields {
                    if field.required || self.dice.chance(60) {
                        let value = self.value(&field.ty, depth + 1);
                        all.insert(name.clone(), value);
                    }
                }
                if depth == 0 && self.dice.chance(50) {
                    let sure = if self.dice.chance(50) { full(ty) } else { plain(ty) };
                    return sure;
                }
                Value::Record(Arc::new(all))
            }
            Type::Unknown | Type::Any | Type::Text | Type::Digest => {
                Value::text(["", "x", "a.rs", "0", "none"][self.dice.roll(5)])
            }
        }
    }

    fn garbage(&mut self) -> Value {
        let deep = (0..80).fold(Value::None, |inner, _| Value::list([inner]));
        let all = [
            Value::None,
            Value::Bool(true),
            Value::text("\u{0}\u{2028} \"quoted\" {brace}"),
            Value::list([Value::None]),
            Value::record([("passed", Value::text("yes")), ("verdict", Value::text("MAYBE"))]),
            Value::record([("passed", Value::Bool(true))]),
            Value::whole(i64::MAX),
            Value::whole(i64::MIN),
            Value::Number(Number::thousandths(i64::MAX)),
            Value::Number(Number::thousandths(9_007_199_254_740_993)),
            deep,
        ];
        let choices = if self.dice.chance(10) { all.len() } else { 6 };
        all[self.dice.roll(choices)].clone()
    }

    fn usage(&mut self) -> Option<Usage> {
        let amount = |dice: &mut Dice| [0, 1, 5, 10, 30][dice.roll(5)];
        match self.dice.roll(5) {
            0 => None,
            1 => Some(Usage::new()),
            2 => Some(Usage::from([(Name::from("tokens"), amount(&mut self.dice))])),
            3 => Some(Usage::from([(Name::from("money"), amount(&mut self.dice))])),
            _ => {
                let both = ["tokens", "money"].map(|name| (Name::from(name), amount(&mut self.dice)));
                Some(both.into())
            }
        }
    }

    fn tool_or_report(&mut self) -> Event {
        let tasks: Vec<(InstanceId, ActionId)> = self.tasks();
        let (instance, action) =
            self.dice.pick(&tasks).copied().unwrap_or((ROOT, ActionId { entry: 1, index: 0 }));
        if self.dice.chance(50) {
            return Event::Tool { instance, action, tool: Name::from("edit"), file: None };
        }
        Event::Spent { instance, action, usage: self.usage().unwrap_or_default() }
    }

    fn tasks(&self) -> Vec<(InstanceId, ActionId)> {
        let tasks = self.known.iter().filter(|action| matches!(action.wanted, ActionTarget::Task { .. }));
        let open = |action: &&Action| {
            self.run.instance(action.instance).is_some_and(|one| one.open.contains_key(&action.id))
        };
        tasks.filter(open).map(|action| (action.instance, action.id)).collect()
    }

    fn instance(&mut self) -> InstanceId {
        InstanceId(self.dice.roll(self.run.instances().len()) as u32)
    }

    fn name(&mut self) -> String {
        ["ann", "bob", "policy", "", "  "][[0, 0, 0, 0, 1, 1, 2, 3, 4][self.dice.roll(9)]].to_owned()
    }

    fn reason(&mut self) -> String {
        ["because", "I know better", ""][[0, 0, 0, 1, 2][self.dice.roll(5)]].to_owned()
    }

    /// A state of an instance: one that an edge leads to, or any.
    fn state(&mut self, instance: InstanceId) -> Name {
        let one = self.run.instance(instance).unwrap();
        let program = self.run.programs().program(&one.protocol).unwrap().clone();
        let near: Vec<Name> = program.targets(&one.state).cloned().collect();
        if self.dice.chance(80) && !near.is_empty() {
            return self.dice.pick(&near).unwrap().clone();
        }
        self.dice.pick(&program.states).unwrap().name.clone()
    }

    /// A person who was not asked.
    fn person(&mut self) -> Event {
        let instance = self.instance();
        let (by, reason) = (self.name(), self.reason());
        match self.dice.roll(20) {
            0..7 => Event::Waive { instance, to: self.state(instance), by, reason },
            7..11 => self.raise(instance, by, reason),
            11..15 => Event::Redo { instance, to: self.state(instance), by, reason },
            15..19 => Event::Resume { instance, by },
            _ if self.dice.chance(30) => Event::Stop { instance, by, reason },
            _ => Event::Resume { instance, by },
        }
    }

    fn raise(&mut self, instance: InstanceId, by: String, reason: String) -> Event {
        let one = self.run.instance(instance).unwrap();
        let mut meters: Vec<(Name, u64)> =
            one.meters.iter().map(|(name, meter)| (name.clone(), meter.limit)).collect();
        let purses = self.run.purses(instance).unwrap();
        meters.extend(purses.iter().map(|(name, purse)| (name.clone(), purse.limit.unwrap_or(0))));
        meters.push((Name::from("luck"), 0));
        let (mut meter, mut limit) = self.dice.pick(&meters).unwrap().clone();
        let mut instance = instance;
        let held: Vec<_> = self.run.instances().iter().flat_map(|one| one.held.values()).cloned().collect();
        if let Some((owner, spent)) = self.dice.pick(&held).and_then(|held| held.meter.clone()) {
            let own = self.run.instance(owner).unwrap().meters.get(&spent).map(|meter| meter.limit);
            let purse = self.run.purses(owner).unwrap().get(&spent).and_then(|purse| purse.limit);
            (instance, meter, limit) = (owner, spent, own.or(purse).unwrap_or(0));
        }
        let more = [0, 1, 3, 50][self.dice.roll(4)];
        let limit = if self.dice.chance(3) { u64::MAX } else { limit.saturating_add(more) };
        Event::Raise { instance, meter, limit, by, reason }
    }

    /// Something that nobody waits for.
    fn nonsense(&mut self) -> Event {
        let instance = match self.dice.roll(3) {
            0 => InstanceId(77),
            _ => self.instance(),
        };
        let entry = self.dice.roll(self.journal.len() + 3) as u64;
        let index = [0, 1, 5, WHOLE][self.dice.roll(4)];
        let mut action = ActionId { entry, index };
        if self.dice.chance(60)
            && let Some(known) = self.dice.pick(&self.known)
        {
            action = known.id;
        }
        let (by, reason) = (self.name(), self.reason());
        match self.dice.roll(8) {
            0 | 1 => {
                let outcome = if self.dice.chance(50) {
                    Outcome::Done(self.garbage())
                } else {
                    Outcome::Failed(self.failure())
                };
                Event::Outcome { instance, action, outcome, usage: self.usage() }
            }
            2 => Event::Tool { instance, action, tool: Name::from("bash"), file: None },
            3 => Event::Spent { instance, action, usage: self.usage().unwrap_or_default() },
            4 => {
                let word = ["sing", "next", "plan", "accept"][self.dice.roll(4)];
                let options = Fields::from([(Name::from("to"), self.garbage())]);
                Event::Say { instance, word: Name::from(word), by, reason, options }
            }
            5 => Event::Reply { instance, action: Some(action), value: self.garbage(), by },
            6 => Event::Waive { instance, to: Name::from("NOWHERE"), by, reason },
            _ => {
                let (protocol, inputs, terms) = (Name::from("task"), Fields::new(), Terms::default());
                Event::Open { protocol, inputs, terms, adopt: None }
            }
        }
    }

    /// The end: the whole journal is what today's protocols decide, and nothing stays set aside.
    fn finish(mut self) -> Journal {
        let verified = Run::verify(library(), &self.journal);
        let verified = verified.unwrap_or_else(|divergence| panic!("{}", self.diverged(&divergence)));
        assert_eq!(verified.entries, self.journal.len());
        if self.run.end().is_none() {
            let (by, reason) = ("ann".to_owned(), "enough".to_owned());
            self.send(Event::Stop { instance: ROOT, by, reason });
        }
        for one in self.run.instances() {
            assert!(one.is_settled(), "the root has ended and instance {} has not", one.id);
        }
        let owed: Vec<_> = self
            .run
            .instances()
            .iter()
            .flat_map(|one| one.owed.keys().map(|action| (one.id, *action)))
            .collect();
        for (instance, action) in owed {
            let outcome = Outcome::Interrupted;
            self.send(Event::Outcome { instance, action, outcome, usage: None });
        }
        for one in self.run.instances() {
            for (name, purse) in self.run.purses(one.id).unwrap() {
                assert_eq!(purse.reserved, 0, "{name} of {} stays set aside after the last reports", one.id);
            }
        }
        Journal { entries: self.journal.len(), decided: verified.decided, taken: verified.taken }
    }

    fn diverged(&self, divergence: &ftl_core::run::Divergence) -> String {
        let from = self.journal.iter().rposition(|entry| entry.first && entry.seq <= divergence.seq).unwrap();
        let batch =
            self.journal[from..].iter().enumerate().take_while(|(at, entry)| *at == 0 || !entry.first);
        let lines: Vec<String> = batch.map(|(_, entry)| format!("  {entry:?}")).collect();
        format!("{divergence:#?}\nthe decision:\n{}", lines.join("\n"))
    }
}

struct Journal {
    entries: usize,
    decided: usize,
    taken: usize,
}

fn terms(dice: &mut Dice) -> Terms {
    let money = [Money::None, Money::Plenty, Money::Tight][dice.roll(3)];
    let both =
        |tokens: u64, money: u64| Usage::from([(Name::from("tokens"), tokens), (Name::from("money"), money)]);
    let (limits, reserve) = match money {
        Money::None => (Usage::new(), Usage::new()),
        Money::Plenty => (both(100_000, 100_000), both(10, 5)),
        Money::Tight => (both(45, 60), both(10, 5)),
    };
    let mut policies = BTreeMap::new();
    match dice.roll(6) {
        0 => drop(policies.insert("*".to_owned(), Policy::Deny)),
        1 => {
            let words = Value::list([Value::text("plan"), Value::text("next")]);
            policies.insert("lifecycle".to_owned(), Policy::Answer(words));
            policies.insert("task.PLAN".to_owned(), Policy::Answer(Value::text("yes")));
            policies.insert("campaign.COMPLETE".to_owned(), Policy::Answer(Value::text("ff")));
        }
        _ => {}
    }
    Terms { limits, reserve, policies, ..Terms::default() }
}

fn walk(seed: u64) -> Journal {
    let mut walk = Walk::open(seed);
    for _ in 0..STEPS {
        walk.step();
        if walk.run.end().is_some() && walk.dice.chance(15) {
            break;
        }
    }
    walk.finish()
}

fn cases() -> u32 {
    std::env::var("FTL_WALKS").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_keeps_what_is_promised(seed in any::<u64>()) {
        let journal = walk(seed);
        prop_assert!(journal.entries >= journal.decided + journal.taken);
    }
}

#[test]
fn the_first_walks_keep_what_is_promised() {
    for seed in 0..40 {
        let result = std::panic::catch_unwind(|| walk(seed));
        assert!(result.is_ok(), "the walk of seed {seed}");
    }
}

/// The words and the kinds that the walks use are those of the protocols.
#[test]
fn walks_go_far() {
    let journals: Vec<Journal> = (1000..1040).map(walk).collect();
    let entries: usize = journals.iter().map(|journal| journal.entries).sum();
    let decided: usize = journals.iter().map(|journal| journal.decided).sum();
    let taken: usize = journals.iter().map(|journal| journal.taken).sum();
    println!(
        "{} walks: {entries} entries, {decided} decisions verified, {taken} taken as they are",
        journals.len()
    );
    assert!(entries > 40 * 50, "walks stand still");
}

/// A branch of a PARALLEL whose purse is empty ends as a branch does; it does not hold the step
/// under which its siblings are still at work.
#[test]
fn a_branch_that_overspends_does_not_start_its_siblings_twice() {
    let usage = |tokens: u64| Usage::from([(Name::from("tokens"), tokens)]);
    let terms = Terms { limits: usage(45), reserve: usage(10), ..Terms::default() };
    let mut stage = support::Stage::open_with(library(), "task", r#"{"objective":"o"}"#, terms);
    stage.done("exploration.clear", "{}");
    let explorers: Vec<Action> = stage.waiting.clone();
    assert_eq!(explorers.len(), 4);
    let (instance, action) = (ROOT, explorers[0].id);
    stage.send(Event::Spent { instance, action, usage: usage(10) });
    stage.raise("tokens", 1000);
    assert_eq!(stage.asks().len(), 3, "{:?}", stage.asks());
    for _ in 0..3 {
        stage.done("Task(explorer)", "{}");
    }
    assert_eq!(stage.asks(), ["exploration.aggregate"], "{}", stage.describe());
}

fn tokens(amount: u64) -> Usage {
    Usage::from([(Name::from("tokens"), amount)])
}

/// A builder whose planner is at work, with something set aside for it.
fn paid_builder(limits: Usage, reserve: Usage) -> (support::Stage, Action) {
    let terms = Terms { limits, reserve, ..Terms::default() };
    let mut stage = support::Stage::open_with(library(), "builder", r#"{"workspace":"w.xml"}"#, terms);
    stage.done("workspace.parse", "{}");
    stage.done("workspace.validate", "{}");
    let agent = stage.find("Task(builder)");
    (stage, agent)
}

fn verifies(stage: &support::Stage) {
    let verified = Run::verify(library(), &stage.journal);
    assert!(verified.is_ok(), "{:#?}", verified.err());
}

/// What is reported and what is guessed beside it are told apart when a decision is made again.
#[test]
fn a_report_of_one_meter_beside_a_guess_of_another_verifies() {
    let both = Usage::from([(Name::from("tokens"), 10), (Name::from("money"), 10)]);
    let (mut stage, agent) = paid_builder(Usage::new(), both);
    let (instance, action, answer) = (ROOT, agent.id, full(&stage.answer_type(&agent)));
    stage.send(Event::Outcome { instance, action, outcome: Outcome::Done(answer), usage: Some(tokens(5)) });
    let purses = stage.run.purses(ROOT).unwrap();
    assert_eq!((purses["tokens"].used, purses["money"].used), (5, 10));
    verifies(&stage);
}

/// A use of nothing is a report, not silence.
#[test]
fn a_report_of_nothing_used_verifies() {
    let (mut stage, agent) = paid_builder(Usage::new(), tokens(10));
    let (instance, action, answer) = (ROOT, agent.id, full(&stage.answer_type(&agent)));
    stage.send(Event::Outcome { instance, action, outcome: Outcome::Done(answer), usage: Some(tokens(0)) });
    assert_eq!(stage.run.purses(ROOT).unwrap()["tokens"].used, 0);
    verifies(&stage);
}

/// An agent that is stopped for its purse holds its step, also when the decision is made again.
#[test]
fn an_agent_stopped_for_its_purse_verifies() {
    let (mut stage, agent) = paid_builder(tokens(15), tokens(10));
    stage.send(Event::Spent { instance: ROOT, action: agent.id, usage: tokens(10) });
    assert_eq!(stage.standing(), Standing::Held);
    verifies(&stage);
}

/// A number beyond the range is refused where it comes in; what is inside can be read back.
#[test]
fn every_number_that_gets_in_gets_out() {
    let numbers =
        [i64::MAX, i64::MIN, 9_007_199_254_740_993, 1_000_000_000_000_001, 999_999_999_999_999, 600, -1];
    for number in numbers {
        let value = Value::Number(Number::thousandths(number));
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value), "{text}");
    }
    for text in ["9223372036854775807", "18446744073709551615", "-9223372036854775808", "1e300", "9e15"] {
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            let back = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&back).ok(), Some(value), "{text} became {back}");
        }
    }
}

/// What nests deeper than anything is read again does not get in, also where any value would do.
#[test]
fn every_answer_that_gets_in_gets_out() {
    let deep = |levels: usize| (0..levels).fold(Value::None, |inner, _| Value::list([inner]));
    for levels in [10, 64, 100, 200] {
        let mut stage = support::Stage::open("task", r#"{"objective":"o"}"#);
        stage.done("exploration.clear", "{}");
        (0..4).for_each(|_| drop(stage.done("Task(explorer)", "{}")));
        let action = stage.find("exploration.aggregate");
        let found = support::with(
            &support::plain(&stage.answer_type(&action)),
            &[(Name::from("structure"), deep(levels))].into(),
        );
        stage.outcome(&action, Outcome::Done(found));
        let state = if levels + 1 > 64 { "ERROR" } else { "EXPLORE" };
        assert_eq!(&*stage.state(), state, "{levels} deep: {}", stage.describe());
    }
}

/// A waiver on top of a waiver goes back to where the first began: what was passed by on the way
/// of the first is not behind the instance.
#[test]
fn a_refused_second_waiver_does_not_open_the_gate() {
    let mut stage = support::Stage::new(library());
    let visited = ["planning", "plan_review", "codegen", "review", "test"].map(Name::from).to_vec();
    let adopt =
        Some(Adoption { state: Name::from("accept"), visited, params: Fields::new(), by: "ann".to_owned() });
    let (protocol, inputs, terms) = (Name::from("lifecycle"), fields(r#"{"brief":"b"}"#), Terms::default());
    stage.send(Event::Open { protocol, inputs, terms, adopt });
    stage.waive("done");
    stage.done("decision.record", "{}");
    stage.done("artifact.decision", r#"{"passed":false,"failed":true,"patch":"p"}"#);
    assert_eq!(stage.asks(), ["patch.apply"]);
    let second = stage.waive("done").refusal.expect("a waiver in a waiver");
    assert!(second.message.contains("is being carried out"), "{second:?}");
    stage.fail("patch.apply", FailureKind::Failed);
    assert_eq!(stage.asks(), ["word"], "back at the WAIT: {}", stage.describe());
    assert_eq!(stage.end(), None);
}

/// After a restart somebody is asked again, or the instance is held: also when what the action is
/// told has changed since it was asked.
#[test]
fn what_is_open_is_asked_again_or_held() {
    let program = "PROTOCOL: meterful
INPUT: workspace
LIMIT: tools = 5 ELSE HOLD
STATE: WORK
  DO: work = Task(builder) step=fix_syntax errors=\"{tools.used} used\" write={workspace} PAYING tools
  RETURN: complete delivered={workspace}";
    let library = support::library_with(&[("meterful", program)]);
    let inputs = r#"{"workspace":["a.rs"]}"#;
    let mut stage = support::Stage::open_with(library, "meterful", inputs, Terms::default());
    let (instance, action) = (ROOT, stage.find("Task(builder)").id);
    stage.send(Event::Tool { instance, action, tool: Name::from("edit"), file: None });
    let decision = stage.send(Event::Recover);
    let held = stage.standing() == Standing::Held;
    assert!(!decision.start.is_empty() || held, "nobody is at work and nobody knows");
}

/// Seeds that once failed run for ever.
#[test]
fn walks_that_once_failed_keep_what_is_promised() {
    for seed in [
        7_932_443_741_130_044_831,
        12_064_605_059_600_986_357,
        12_798_718_556_315_028_618,
        5_089_118_818_476_529_487,
    ] {
        assert!(walk(seed).entries > 0);
    }
}
