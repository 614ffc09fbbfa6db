//! What the time of each task went to: an agent, a check, a slot, a service, a person, the landing.
//!
//! A bar begins where something is asked for and ends where it is heard. Kinds that nobody else shows are kept apart
//! from work: waiting for a slot, for a file, and for a person.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::catalogue::declare::ActionKind;
use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, Entry, Fact, InstanceId, ThreadId, Time, WHOLE};
use serde::Serialize;

/// How many bars a row holds; the bars of later attempts lengthen the last one of their kind.
pub const MAX_BARS: usize = 500;

/// The kinds of bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// An agent answers a task.
    Agent,
    /// A gate looks at the work.
    Check,
    /// It waits for its turn.
    Slot,
    /// It waits for a file that another task changes.
    File,
    /// It waits for a person.
    Person,
    /// It waits for a service that does not answer.
    Service,
    /// Its work is being landed.
    Land,
    /// Any other action.
    Work,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// The time of the entry that began it.
    pub from: Time,
    /// When it ended; nothing while it goes on.
    pub to: Option<Time>,
    /// The kind of bar.
    pub kind: BarKind,
    /// Whom or what, in one word.
    pub what: String,
    /// The entry that began it.
    pub entry: u64,
}

/// The bars of all tasks.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    rows: BTreeMap<String, Arc<Vec<Bar>>>,
    open: BTreeMap<(InstanceId, Waits), (String, usize)>,
}

/// What a bar that goes on is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    Action(ActionId),
    Held(ThreadId),
}

impl Timeline {
    /// The bars by task; those of the flow itself stand under the empty name.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &[Bar])> {
        self.rows.iter().map(|(task, bars)| (task.as_str(), bars.as_slice()))
    }

    /// How long of each kind a task has taken, up to a moment.
    pub fn sums(&self, task: &str, now: Time) -> BTreeMap<BarKind, Time> {
        let mut sums = BTreeMap::new();
        for bar in self.rows.get(task).into_iter().flat_map(|bars| bars.iter()) {
            *sums.entry(bar.kind).or_default() += bar.to.unwrap_or(now).saturating_sub(bar.from);
        }
        sums
    }

    pub(super) fn see(&mut self, entry: &Entry, task: &str) {
        let (one, at) = (entry.instance, entry.at);
        match &entry.fact {
            Fact::Asked { asks, .. } => {
                for (index, ask) in (0_u32..).zip(asks) {
                    let Some(kind) = kind_of(&ask.whom) else { continue };
                    let id = Waits::Action(ActionId { entry: entry.seq, index });
                    self.begin((one, id), task, (kind, ask.whom.to_string()), entry);
                }
            }
            Fact::Heard { action, .. } if action.index == WHOLE => self.end_asked(one, action.entry, at),
            Fact::Heard { action, .. } => self.end(&(one, Waits::Action(*action)), at),
            Fact::Suspended { action, service, .. } => {
                self.end(&(one, Waits::Action(*action)), at);
                let what = (BarKind::Service, service.clone());
                self.begin((one, Waits::Action(*action)), task, what, entry);
            }
            Fact::Held { thread, failure, .. } => {
                let what = (BarKind::Person, failure.kind.word().to_owned());
                self.begin((one, Waits::Held(thread.clone())), task, what, entry);
            }
            Fact::Resumed { action, thread, .. } => {
                self.end(&(one, Waits::Held(thread.clone())), at);
                if let Some(action) = action {
                    let key = (one, Waits::Action(*action));
                    self.end(&key, at);
                    self.begin(key, task, (BarKind::Work, String::from("asked again")), entry);
                }
            }
            Fact::Moved { .. } | Fact::Settled { .. } | Fact::Adopted { .. } => self.end_all(one, at),
            Fact::Opened(_) | Fact::Set { .. } | Fact::Emitted { .. } | Fact::Paid(_) => {}
            Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => {}
            Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } => {}
        }
    }

    fn begin(&mut self, key: (InstanceId, Waits), task: &str, what: (BarKind, String), entry: &Entry) {
        let bars = Arc::make_mut(self.rows.entry(task.to_owned()).or_default());
        let place = match bars.iter().rposition(|bar| bar.kind == what.0) {
            Some(last) if bars.len() >= MAX_BARS => {
                bars[last].to = None;
                last
            }
            Some(_) | None => {
                let (kind, what) = what;
                bars.push(Bar { from: entry.at, to: None, kind, what, entry: entry.seq });
                bars.len() - 1
            }
        };
        self.open.insert(key, (task.to_owned(), place));
    }

    fn end(&mut self, key: &(InstanceId, Waits), at: Time) {
        let Some((task, place)) = self.open.remove(key) else { return };
        if let Some(bar) = self.rows.get_mut(&task).and_then(|bars| Arc::make_mut(bars).get_mut(place)) {
            bar.to = Some(at);
        }
    }

    /// Ends what one step had asked for.
    fn end_asked(&mut self, one: InstanceId, entry: u64, at: Time) {
        self.end_those(one, at, |waits| matches!(waits, Waits::Action(action) if action.entry == entry));
    }

    /// Ends whatever an instance was waiting for.
    fn end_all(&mut self, one: InstanceId, at: Time) {
        self.end_those(one, at, |_| true);
    }

    fn end_those(&mut self, one: InstanceId, at: Time, wanted: impl Fn(&Waits) -> bool) {
        let first = Waits::Action(ActionId { entry: 0, index: 0 });
        let of_it = self.open.range((one, first)..).take_while(|((whose, _), _)| *whose == one);
        let over: Vec<_> = of_it.map(|(key, _)| key.clone()).filter(|(_, waits)| wanted(waits)).collect();
        for key in over {
            self.end(&key, at);
        }
    }
}

/// What the time of an action goes to; children and items take their time themselves.
fn kind_of(whom: &Performer) -> Option<BarKind> {
    match whom {
        Performer::Task(_) => Some(BarKind::Agent),
        Performer::Question | Performer::Word => Some(BarKind::Person),
        Performer::Run(_) | Performer::Item | Performer::All => None,
        Performer::Shell => Some(BarKind::Work),
        Performer::Action(name) => Some(match &**name {
            // A brief is written when the task gets its turn.
            "workspace.create" => BarKind::Slot,
            "work.land" | "work.merge" | "branch.deliver" | "pull.merge" => BarKind::Land,
            name if is_gate(name) => BarKind::Check,
            _ => BarKind::Work,
        }),
    }
}

fn is_gate(name: &str) -> bool {
    Catalogue::standard().action(name).is_some_and(|action| action.kind == ActionKind::Gate)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn see(timeline: &mut Timeline, seq: u64, fact: &Json) {
        let mut entry = json!({ "seq": seq, "at": seq * 10, "instance": 1 });
        entry.as_object_mut().unwrap().extend(fact.as_object().unwrap().clone());
        timeline.see(&serde_json::from_value(entry).unwrap(), "001");
    }

    fn ask(whom: &str) -> Json {
        json!({ "fact": "asked", "place": 0, "asks": [{ "whom": whom, "branch": "b", "digest": "d" }] })
    }

    fn answer_to(action: u64) -> Json {
        json!({ "fact": "heard", "action": format!("{action}.0"), "answer": { "done": null } })
    }

    fn bars(timeline: &Timeline) -> Vec<(BarKind, Time, Option<Time>)> {
        timeline.rows().flat_map(|(_, bars)| bars.iter().map(|bar| (bar.kind, bar.from, bar.to))).collect()
    }

    #[test]
    fn time_goes_to_what_is_open() {
        let mut timeline = Timeline::default();
        see(&mut timeline, 1, &ask("Task(builder)"));
        see(&mut timeline, 2, &answer_to(1));
        see(&mut timeline, 3, &ask("verify.run"));
        see(&mut timeline, 4, &json!({ "fact": "suspended", "action": "3.0", "service": "s", "until": 9 }));
        see(&mut timeline, 5, &json!({ "fact": "resumed", "action": "3.0" }));
        see(&mut timeline, 6, &answer_to(3));
        see(
            &mut timeline,
            7,
            &json!({ "fact": "held", "place": 0, "failure": { "kind": "failed", "message": "m" } }),
        );
        let wanted = [
            (BarKind::Agent, 10, Some(20)),
            (BarKind::Check, 30, Some(40)),
            (BarKind::Service, 40, Some(50)),
            (BarKind::Work, 50, Some(60)),
            (BarKind::Person, 70, None),
        ];
        assert_eq!(bars(&timeline), wanted);
        assert_eq!(timeline.sums("001", 100)[&BarKind::Person], 30, "it still waits");
        see(&mut timeline, 8, &json!({ "fact": "settled", "end": "stopped", "values": {} }));
        assert_eq!(bars(&timeline).last(), Some(&(BarKind::Person, 70, Some(80))));
    }

    #[test]
    fn a_row_holds_so_many_bars_and_the_last_one_goes_on() {
        let mut timeline = Timeline::default();
        let rounds = MAX_BARS as u64 + 5;
        for round in 0..rounds {
            see(&mut timeline, 2 * round + 1, &ask("verify.run"));
            see(&mut timeline, 2 * round + 2, &answer_to(2 * round + 1));
        }
        let all = bars(&timeline);
        assert_eq!(all.len(), MAX_BARS);
        assert_eq!(all.last().and_then(|(_, _, to)| *to), Some(rounds * 20));
    }
}
