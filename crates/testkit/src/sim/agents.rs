//! Agents and actions of the simulation: what each job will say, and when.
//!
//! A job gets a script when it is started. It may do as asked, fail, die, stall, answer twice, answer
//! after it was cancelled, lie about its answer or about what it used. In an exact case it never uses
//! more than is set aside between two reports. Scripts are made from the dice alone.

use std::collections::VecDeque;

use ftl_core::run::{Action, ActionId, ActionTarget, FailureKind, InstanceId, OpenKind, Usage};
use ftl_core::value::{Name, Value};
use ftl_engine::executors::{JobEnd, Report};
use ftl_process::Cancel;

use super::case::Case;
use crate::dice::Dice;
use crate::world::{answer_type, plain};

/// How many milliseconds a job may take before its executor ends it.
pub(super) const HARD_LIMIT: u64 = 3_600_000;

/// A job at work.
pub(super) struct Doing {
    /// The job's key over all attempts.
    pub(super) key: String,
    pub(super) action: Action,
    pub(super) cancel: Cancel,
    /// Whether it has seen that it was cancelled.
    pub(super) noticed: bool,
    /// What is still to be said, each after so many milliseconds.
    pub(super) script: VecDeque<(u64, Saying)>,
    /// What it has used and not yet said.
    pub(super) unsaid: Usage,
    /// Whether it has said anything about what it uses.
    pub(super) spoke: bool,
    /// The answer, once the work is done.
    pub(super) answer: Option<Value>,
    /// Whether its process tree was ended from outside, so that it uses nothing any more.
    pub(super) ended: bool,
}

/// One thing that a job does or says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Saying {
    /// Uses so many of a hundred parts of what is left for it.
    Burn(u64),
    /// Says what it has used.
    Spent,
    /// Asks for a tool.
    Tool,
    /// Does the work that its action asks for.
    Perform,
    /// Says something of another job, long over.
    Ghost,
    /// Reports how it ended.
    End(Ending),
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// The answer that its type declares.
    Right,
    /// The answer with a very long text in it.
    Large,
    /// Another answer than declared.
    Lie,
    /// It could not be done.
    Fail(FailureKind),
    /// The agent or command died.
    Die,
    /// It says that it was cancelled.
    Cancelled,
    /// A service does not answer.
    Outage(String, Option<u64>),
}

impl Doing {
    /// The instance and the action that it is for.
    pub(super) fn who(&self) -> (InstanceId, ActionId) {
        (self.action.instance, self.action.id)
    }

    /// Whether the work would land something: done once, it always says so.
    pub(super) fn lands(&self) -> bool {
        matches!(&self.action.wanted, ActionTarget::Action(name) if matches!(&**name, "work.land" | "work.merge"))
    }

    /// The report of an ending.
    pub(super) fn report(
        &mut self,
        ending: &Ending,
        exact: bool,
        reserve: &Usage,
        dice: &mut Dice,
    ) -> Report {
        let ended = match ending {
            Ending::Right => {
                JobEnd::Done(self.answer.clone().unwrap_or_else(|| plain(&answer_type(&self.action))))
            }
            Ending::Large => JobEnd::Done(enlarged(&plain(&answer_type(&self.action)))),
            Ending::Lie => JobEnd::Done(lie(dice)),
            Ending::Fail(kind) => JobEnd::failed(*kind, "it went wrong"),
            Ending::Die => JobEnd::Died(String::from("killed by signal 9")),
            Ending::Cancelled => JobEnd::Cancelled,
            Ending::Outage(service, after) => JobEnd::Outage {
                service: service.clone(),
                after: after.map(std::time::Duration::from_millis),
            },
        };
        let outage = matches!(ending, Ending::Outage(..));
        let usage =
            if exact { self.true_usage(outage, reserve, dice) } else { self.wild_usage(reserve, dice) };
        Report { ended, usage }
    }

    /// All that it has used and not said; or nothing at all, if it never said anything.
    fn true_usage(&mut self, outage: bool, reserve: &Usage, dice: &mut Dice) -> Usage {
        if !self.is_agent() {
            return Usage::new();
        }
        // Work that waits for a service is not charged by guess: it must say what it knows.
        if self.spoke || outage || dice.chance(70) {
            let mut usage: Usage = reserve.keys().map(|name| (name.clone(), 0)).collect();
            usage.extend(std::mem::take(&mut self.unsaid));
            return usage;
        }
        self.unsaid.clear();
        Usage::new()
    }

    fn wild_usage(&mut self, reserve: &Usage, dice: &mut Dice) -> Usage {
        self.unsaid.clear();
        let mut usage = Usage::new();
        for (name, amount) in reserve {
            match dice.below(6) {
                0 => {}
                1 => drop(usage.insert(name.clone(), 0)),
                2 => drop(usage.insert(name.clone(), amount * 3)),
                3 if dice.chance(10) => drop(usage.insert(name.clone(), u64::MAX)),
                _ => drop(usage.insert(name.clone(), dice.below(amount + 1))),
            }
        }
        if dice.chance(20) {
            usage.insert(Name::from("turns"), dice.below(4));
        }
        if dice.chance(3) {
            usage.insert(Name::from("bananas"), dice.below(4));
        }
        usage
    }

    /// Whether an agent is at work, and not an action of `ftl` itself.
    pub(super) fn is_agent(&self) -> bool {
        matches!(self.action.wanted, ActionTarget::Task { .. })
    }
}

/// The script of a job that does as it is asked.
pub(super) fn honest(action: &Action, dice: &mut Dice) -> VecDeque<(u64, Saying)> {
    let mut script = VecDeque::new();
    if let ActionTarget::Task { paying, .. } = &action.wanted {
        for _ in 0..dice.below(3) {
            script.push_back((dice.below(4_000), Saying::Burn(dice.below(101))));
            if dice.chance(50) {
                script.push_back((dice.below(50), Saying::Spent));
            }
            if paying.is_some() || dice.chance(5) {
                script.push_back((dice.below(50), Saying::Tool));
            }
        }
    }
    script.push_back((dice.below(3_000), Saying::Perform));
    script.push_back((dice.below(20), Saying::End(Ending::Right)));
    script
}

/// The script of a job that may do anything.
pub(super) fn mischievous(case: &Case, action: &Action, dice: &mut Dice) -> VecDeque<(u64, Saying)> {
    let mut script = honest(action, dice);
    let last = script.pop_back();
    let end = |script: &mut VecDeque<(u64, Saying)>, ending: Ending, dice: &mut Dice| {
        script.push_back((dice.below(5_000), Saying::End(ending)));
    };
    match dice.below(11) {
        0 => {
            script.retain(|(_, saying)| *saying != Saying::Perform);
            let kind = *dice.pick(&FailureKind::ALL).unwrap_or(&FailureKind::Failed);
            end(&mut script, Ending::Fail(kind), dice);
        }
        1 | 2 => {
            if dice.chance(50) {
                script.retain(|(_, saying)| *saying != Saying::Perform);
            }
            end(&mut script, Ending::Die, dice);
        }
        // It stalls until it is cancelled or its time is over.
        3 => script = [(HARD_LIMIT, Saying::End(Ending::Fail(FailureKind::Timeout)))].into(),
        4 => {
            script.extend(last);
            end(&mut script, Ending::Right, dice);
        }
        5 if !case.exact => {
            // The first attempt dies, and still answers later.
            end(&mut script, Ending::Die, dice);
            end(&mut script, Ending::Right, dice);
        }
        6 => end(&mut script, Ending::Lie, dice),
        7 => {
            script.retain(|(_, saying)| *saying != Saying::Perform);
            let service = *dice.pick(&["model", "forge"]).unwrap_or(&"model");
            let after = dice.chance(30).then(|| dice.below(100_000));
            end(&mut script, Ending::Outage(service.to_owned(), after), dice);
        }
        8 => end(&mut script, Ending::Large, dice),
        9 => {
            script.push_back((dice.below(100), Saying::Ghost));
            script.extend(last);
        }
        _ => {
            // It does right, and takes its time over it.
            script.push_back((dice.below(400_000), Saying::End(Ending::Right)));
        }
    }
    script
}

/// What a job says when it sees that it was cancelled.
pub(super) fn cancelled(case: &Case, calm: bool, dice: &mut Dice) -> VecDeque<(u64, Saying)> {
    let soon = dice.below(2_500);
    let ending = match dice.below(10) {
        // The answer was on its way already.
        0 | 1 if !calm => {
            return [(soon, Saying::Perform), (dice.below(50), Saying::End(Ending::Right))].into();
        }
        2 if !calm => Ending::Die,
        3 if !calm && !case.exact => {
            return [(soon, Saying::End(Ending::Cancelled)), (900, Saying::End(Ending::Right))].into();
        }
        _ => Ending::Cancelled,
    };
    [(soon, Saying::End(ending))].into()
}

/// Whether the run still waits for an outcome; the time of a PARALLEL may be over.
pub(super) fn is_waited_for(
    run: &ftl_core::run::Run,
    (instance, action): (InstanceId, ActionId),
    now: u64,
) -> bool {
    let Some(one) = run.instance(instance) else { return false };
    let whole = ActionId { entry: action.entry, index: ftl_core::run::WHOLE };
    let over = one.open.get(&whole).is_some_and(
        |open| matches!(&open.kind, OpenKind::Parallel { until: Some(until), .. } if *until <= now),
    );
    !over && one.open.get(&action).is_some_and(|open| matches!(open.kind, OpenKind::Call | OpenKind::Record))
}

fn lie(dice: &mut Dice) -> Value {
    match dice.below(4) {
        0 => Value::None,
        1 => Value::whole(-1),
        2 => Value::text("APPROVED"),
        _ => Value::record([("verdict", Value::text("maybe")), ("passed", Value::text("yes"))]),
    }
}

/// The same answer with a text so long that its entry cannot hold it.
fn enlarged(value: &Value) -> Value {
    let Value::Record(fields) = value else { return value.clone() };
    let mut fields = (**fields).clone();
    for name in ["summary", "text", "approach"] {
        if let Some(text @ Value::Text(_)) = fields.get_mut(name) {
            *text = Value::text("long ".repeat(8_000));
            break;
        }
    }
    Value::Record(std::sync::Arc::new(fields))
}
