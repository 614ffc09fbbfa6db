//! PARALLEL and FOR EACH: asking for several things at once.
//!
//! Branches and items are heard one by one; the step as a whole is heard when its rule says so,
//! and then its line of work goes on.

use std::collections::BTreeSet;

use super::draft::{Draft, Work};
use super::eval::{self, eval, texts};
use super::fact::{ActionId, Answer, Ask, Fact, Failure, FailureKind, Fan, InstanceId, ThreadId};
use super::instance::OpenKind;
use super::walk::{Flow, Here};
use crate::performer::Performer;
use crate::syntax::{Args, Expr, Ident, StatementKind, Step};
use crate::value::{Fields, Name, Value};

impl Draft<'_> {
    pub(super) fn ask_parallel(&mut self, here: &Here<'_>) -> Flow {
        let StatementKind::Step { step: Step::Parallel { args, .. }, .. } = &here.node.what else {
            return Flow::Rest;
        };
        let mut asks = Vec::new();
        let mut all = Vec::new();
        for code in &here.node.calls {
            let params = self.params(here, code);
            asks.push(self.ask_of(code, params.as_ref().unwrap_or(&Fields::new())));
            all.push(params);
        }
        for code in &here.node.calls {
            if let Some(flow) = self.cannot_afford(here, &code.whom) {
                return flow;
            }
        }
        let fan = Some(self.parallel_rule(here, args, asks.len()));
        let entry =
            self.put(here.id, Fact::Asked { thread: here.thread.clone(), place: here.place, asks, fan });
        let mut failed = Vec::new();
        for (index, (code, params)) in (0u32..).zip(here.node.calls.iter().zip(all)) {
            let id = ActionId { entry, index };
            match params {
                Ok(_) if self.cannot_reserve(here.id, code) => {
                    let message = "not enough is left for another agent";
                    failed.push((id, Failure::new(FailureKind::Exhausted, message)));
                }
                Ok(params) => self.begin(here, code, id, params),
                Err(failure) => failed.push((id, failure)),
            }
        }
        for (id, failure) in failed {
            self.answer(here.id, id, Err(failure));
        }
        Flow::Rest
    }

    fn cannot_reserve(&self, id: InstanceId, code: &crate::program::CallCode) -> bool {
        matches!(code.whom, Performer::Task(_)) && self.short_of(id, &self.terms.reserve).is_some()
    }

    fn parallel_rule(&self, here: &Here<'_>, args: &Args, branches: usize) -> Fan {
        let given = self.fields(here, args);
        let quorum = given
            .get("quorum")
            .and_then(Value::as_number)
            .map_or(branches as u64, |number| number.as_count());
        let critical = match given.get("critical") {
            Some(Value::Text(one)) => vec![one.clone()],
            Some(list) => list.items().iter().map(|one| Name::from(one.to_string())).collect(),
            None => Vec::new(),
        };
        let until = given
            .get("timeout")
            .and_then(Value::as_number)
            .map(|seconds| self.at.saturating_add(seconds.in_thousandths().max(0).unsigned_abs()));
        Fan::Parallel { quorum: u32::try_from(quorum).unwrap_or(u32::MAX), critical, until }
    }

    /// Sees whether a PARALLEL has its answer: all branches heard, or the time over.
    pub(super) fn parallel_answer(&mut self, id: InstanceId, whole: ActionId) {
        let Some(open) = self.get(id).and_then(|one| one.open.get(&whole)).cloned() else { return };
        let OpenKind::Parallel { quorum, critical, branches, heard, .. } = &open.kind else { return };
        let over = open.due().is_some_and(|until| self.at >= until);
        if heard.len() < branches.len() && !over {
            return;
        }
        let children = self.run_branches(id, open.place);
        let done = |index: u32| match heard.get(&index) {
            Some(Ok(value)) => {
                !children.contains(&index) || value.field("verdict").as_text() == Some("complete")
            }
            Some(Err(_)) | None => false,
        };
        let (completed, missing): (Vec<_>, Vec<_>) =
            (0u32..).zip(branches).partition(|(index, _)| done(*index));
        let have = |name: &Name| completed.iter().any(|(_, branch)| *branch == name);
        let enough =
            completed.len() >= *quorum as usize || (!critical.is_empty() && critical.iter().all(have));
        let status = if !enough {
            "quorum_failure"
        } else if heard.len() < branches.len() {
            "timeout"
        } else if missing.is_empty() {
            "all_complete"
        } else {
            "quorum_met"
        };
        let answer = Value::record([
            ("status", Value::text(status)),
            ("completed", texts(completed.iter().map(|(_, name)| name))),
            ("missing", texts(missing.iter().map(|(_, name)| name))),
            ("results", Value::list(heard.values().filter_map(|result| result.as_ref().ok()).cloned())),
        ]);
        for index in (0..branches.len() as u32).filter(|index| !heard.contains_key(index)) {
            self.drop_action(id, ActionId { entry: whole.entry, index });
        }
        self.answer(id, whole, Ok(answer));
    }

    /// The branches that are children: only `complete` is a success of theirs.
    fn run_branches(&self, id: InstanceId, place: u32) -> Vec<u32> {
        let calls = || {
            let program = self.program(id)?;
            let node = program.state(&self.get(id)?.state)?.node(place)?.clone();
            Some(node.calls)
        };
        let calls = calls().unwrap_or_default();
        (0u32..)
            .zip(&calls)
            .filter(|(_, code)| matches!(code.whom, Performer::Run(_)))
            .map(|(index, _)| index)
            .collect()
    }

    pub(super) fn ask_each(&mut self, here: &Here<'_>) -> Flow {
        let StatementKind::Step { step: Step::ForEach { item, list, by, any, .. }, .. } = &here.node.what
        else {
            return Flow::Rest;
        };
        let (asks, items) = self.new_items(here, item, list, by.as_ref());
        let keys: Vec<Name> = asks.iter().map(|ask| ask.branch.clone()).collect();
        let fan = Some(Fan::Each { any: *any, item: item.name.clone(), items });
        self.put(here.id, Fact::Asked { thread: here.thread.clone(), place: here.place, asks, fan });
        for key in keys {
            let thread = ThreadId::Item { each: here.place, key };
            self.later(here.id, thread, here.node.body);
        }
        self.work.push_back(Work::Each(here.id));
        Flow::Rest
    }

    /// The items whose key does not run already, each key once.
    fn new_items(
        &self,
        here: &Here<'_>,
        item: &Ident,
        list: &Expr,
        by: Option<&Expr>,
    ) -> (Vec<Ask>, Vec<Value>) {
        let mut seen = BTreeSet::new();
        if let Some(instance) = self.get(here.id) {
            seen.extend(instance.running(here.place).cloned());
            seen.extend(instance.ended_items(here.place).map(|(_, one)| one.key.clone()));
        }
        let (mut asks, mut items) = (Vec::new(), Vec::new());
        for value in self.value(here, |names| eval(list, names)).items() {
            let key = match (by, self.get(here.id)) {
                (Some(by), Some(instance)) => {
                    let names = WithItem { name: &item.name, value, rest: &instance.names(here.thread) };
                    eval(by, &names)
                }
                (Some(_), None) | (None, _) => value.clone(),
            };
            let key = Name::from(key.to_string());
            if seen.insert(key.clone()) {
                let digest = self.digest(&Fields::from([(item.name.clone(), value.clone())]));
                asks.push(Ask { whom: Performer::Item, branch: key, digest });
                items.push(value.clone());
            }
        }
        (asks, items)
    }

    /// An item has come to its end.
    pub(super) fn item_ended(&mut self, id: InstanceId, thread: &ThreadId, failure: Option<Failure>) {
        let Some(action) = self.get(id).and_then(|one| one.thread(thread)?.item) else { return };
        let answer = failure.map_or(Answer::Done(Value::None), Answer::Failed);
        self.put(id, Fact::Heard { action, answer, bind: None, by: None, cut: false, failing: None });
        self.work.push_back(Work::Each(id));
    }

    /// Sees whether a FOR EACH has its answer: none runs any more, or one has ended and that is
    /// enough.
    pub(super) fn each_answer(&mut self, id: InstanceId) {
        let Some(instance) = self.get(id) else { return };
        let Some(whole) = instance.each else { return };
        let Some(open) = instance.open.get(&whole) else { return };
        let OpenKind::Each { any } = open.kind else { return };
        let place = open.place;
        let idle = instance.running(place).next().is_none();
        if !(idle || (any && instance.ended_items(place).next().is_some())) {
            return;
        }
        let ended: Vec<_> = instance.ended_items(place).map(|(_, one)| one.clone()).collect();
        let failed = ended.iter().filter_map(|one| {
            let failure = one.failure.as_ref()?;
            Some(Value::record([("key", Value::text(&one.key)), ("reason", Value::text(&failure.message))]))
        });
        let answer = Value::record([
            ("settled", texts(ended.iter().filter(|one| one.failure.is_none()).map(|one| &one.key))),
            ("failed", Value::list(failed)),
            ("running", texts(instance.running(place))),
        ]);
        self.answer(id, whole, Ok(answer));
    }
}

/// The names of a line of work, and the item.
struct WithItem<'a> {
    name: &'a Name,
    value: &'a Value,
    rest: &'a dyn eval::Names,
}

impl eval::Names for WithItem<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        if name == &**self.name { Some(self.value.clone()) } else { self.rest.name(name) }
    }
}
