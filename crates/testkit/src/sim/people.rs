//! People of the simulation: what they tell a run, sensible or not.
//!
//! Everything they say goes through the store, as orders do. A person who helps says only what moves the
//! run on; a person who meddles says anything.

use ftl_core::run::{Instance, InstanceId, OpenKind, ROOT, Run};
use ftl_core::types::Type;
use ftl_core::value::{Fields, Name, Value};
use ftl_store::order::Order;

use super::case::People;
use crate::dice::Dice;
use crate::world::plain;

/// How many rounds of help a step that fails for no meter is tried again.
const PATIENCE: u64 = 4;

/// Something that a person meant to say: the body of an order, and the name in it.
pub(super) struct Said {
    pub(super) body: String,
    pub(super) by: String,
}

fn encode_order(order: &Order, by: &str) -> Said {
    Said { body: serde_json::to_string(order).unwrap_or_default(), by: by.to_owned() }
}

/// What moves a run on that rests: an answer to everything it waits for.
pub(super) fn help(run: &Run, round: u64) -> Vec<Said> {
    let mut all = Vec::new();
    for instance in run.live() {
        let id = instance.id;
        for (number, held) in instance.held.values().enumerate() {
            let by = format!("helper-{round}-{id}-{number}");
            let order = match (&held.meter, held.stuck) {
                (_, true) => stop(id, &by),
                (Some((owner, meter)), false) => {
                    let limit = more(run, *owner, meter);
                    let (by, reason, meter) = (by.clone(), String::from("go on"), meter.clone());
                    Order::Raise { instance: *owner, meter, limit, by, reason }
                }
                // What failed so often fails for a reason, such as a policy.
                (None, false) if round > PATIENCE => stop(id, &by),
                (None, false) => Order::Resume { instance: id, by: by.clone() },
            };
            all.push(encode_order(&order, &by));
        }
        for (action, open) in instance.open.iter() {
            let by = format!("helper-{round}-{id}-{action}");
            match &open.kind {
                OpenKind::Question => {
                    let value = plain(&answer_type(run, instance, open.place));
                    let order = Order::Answer { instance: id, action: Some(*action), value, by: by.clone() };
                    all.push(encode_order(&order, &by));
                }
                OpenKind::Words(words) => {
                    let next = words.iter().find(|word| &***word == "next").or(words.first());
                    all.extend(next.map(|word| encode_order(&say(id, word.clone(), &by), &by)));
                }
                OpenKind::Call | OpenKind::Child(_) | OpenKind::Record => {}
                OpenKind::Item(_) | OpenKind::Each { .. } | OpenKind::Parallel { .. } => {}
            }
        }
    }
    all
}

/// The end of the whole run, when nothing else helps.
pub(super) fn give_up(round: u64) -> Said {
    let by = format!("helper-{round}");
    encode_order(&stop(ROOT, &by), &by)
}

/// Anything that a person might say while there is trouble.
pub(super) fn meddle(run: &Run, people: People, number: u64, dice: &mut Dice) -> Said {
    let by = format!("ann-{number}");
    let live: Vec<&Instance> = run.live().collect();
    let one = dice.pick(&live).copied().or_else(|| run.instance(ROOT));
    let Some(instance) = one else { return Said { body: String::from("{}"), by: String::new() } };
    let kinds = match people {
        People::Patient => 2,
        People::Busy => 6,
        People::Wild => 12,
    };
    let order = match dice.below(kinds) {
        0 | 1 => return answer(run, instance, &by, dice),
        2 | 3 => raise(run, instance, &by, dice),
        4 => Order::Resume { instance: instance.id, by: by.clone() },
        5 => return Said { body: String::from("{\"order\":\"dance\"}"), by: String::new() },
        6..=8 => bend(run, instance, &by, false, dice),
        9 | 10 => bend(run, instance, &by, true, dice),
        _ if dice.chance(30) => stop(instance.id, &by),
        _ => {
            let nobody = InstanceId(u32::try_from(run.instances().len()).unwrap_or(0) + 3);
            Order::Resume { instance: nobody, by: by.clone() }
        }
    };
    encode_order(&order, &by)
}

fn answer(run: &Run, instance: &Instance, by: &str, dice: &mut Dice) -> Said {
    let id = instance.id;
    let asked = run.live().find_map(|one| {
        one.open
            .iter()
            .find(|(_, open)| open.kind == OpenKind::Question)
            .map(|(action, open)| (one, *action, open.place))
    });
    if let Some((one, action, place)) = asked.filter(|_| dice.chance(80)) {
        let good = plain(&answer_type(run, one, place));
        let value = if dice.chance(80) { good } else { Value::text("whatever") };
        let action = Some(action).filter(|_| dice.chance(60));
        return encode_order(&Order::Answer { instance: one.id, action, value, by: by.to_owned() }, by);
    }
    let words = ["plan", "next", "redo", "review_plan", "codegen", "test", "accept", "revert"];
    let open = instance.open.values().find_map(|open| match &open.kind {
        OpenKind::Words(words) => Some(words.clone()),
        _ => None,
    });
    let word = match open {
        Some(words) if dice.chance(80) => dice.pick(&words).cloned(),
        Some(_) | None => dice.pick(&words).map(|word| Name::from(*word)),
    };
    encode_order(&say(id, word.unwrap_or_default(), by), by)
}

fn raise(run: &Run, instance: &Instance, by: &str, dice: &mut Dice) -> Order {
    let held = instance.held.values().find_map(|held| held.meter.clone());
    let own: Vec<Name> = instance.meters.keys().cloned().collect();
    let meter = dice.pick(&own).cloned().unwrap_or_else(|| Name::from("tokens"));
    let (owner, meter) = match held {
        Some(spent) if dice.chance(80) => spent,
        Some(_) | None if dice.chance(50) => (ROOT, Name::from("tokens")),
        Some(_) | None => (instance.id, meter),
    };
    let limit = limit(run, owner, &meter).saturating_add(dice.below(40));
    Order::Raise { instance: owner, meter, limit, by: by.to_owned(), reason: String::from("more") }
}

/// An override or a redo, to any state of the protocol or to none.
fn bend(run: &Run, instance: &Instance, by: &str, redo: bool, dice: &mut Dice) -> Order {
    let program = run.programs().program(&instance.protocol);
    let states: Vec<Name> =
        program.into_iter().flat_map(|program| &program.states).map(|state| state.name.clone()).collect();
    let to = match dice.below(10) {
        0 => Name::from("NOWHERE"),
        _ => dice.pick(&states).cloned().unwrap_or_default(),
    };
    let reason = if dice.chance(90) { String::from("I know better") } else { String::new() };
    let (instance, by) = (instance.id, by.to_owned());
    if redo { Order::Redo { instance, to, by, reason } } else { Order::Override { instance, to, by, reason } }
}

fn say(instance: InstanceId, word: Name, by: &str) -> Order {
    let reason = String::from("it is time");
    Order::Say { instance, word, by: by.to_owned(), reason, options: Fields::new() }
}

fn stop(instance: InstanceId, by: &str) -> Order {
    Order::Stop { instance, by: by.to_owned(), reason: String::from("enough") }
}

/// Enough of a meter to go on: a little more of the protocol's own, a lot of the built-in ones.
fn more(run: &Run, owner: InstanceId, meter: &Name) -> u64 {
    let own = run.instance(owner).is_some_and(|one| one.meters.contains_key(meter));
    let old = limit(run, owner, meter);
    if own { old.saturating_add(2) } else { old.saturating_mul(2).saturating_add(1_000) }
}

fn limit(run: &Run, owner: InstanceId, meter: &Name) -> u64 {
    let own = run.instance(owner).and_then(|one| one.meters.get(meter)).map(|meter| meter.limit);
    let budget_meter = || {
        run.purses(owner)?
            .get(meter)
            .and_then(|budget_meter| budget_meter.limit.map(|limit| limit.max(budget_meter.used)))
    };
    own.or_else(budget_meter).unwrap_or(10)
}

/// The declared answer of a question.
fn answer_type(run: &Run, instance: &Instance, place: u32) -> Type {
    let found = || {
        let program = run.programs().program(&instance.protocol)?;
        let node = program.state(&instance.state)?.node(place)?;
        node.calls.first().map(|code| code.answer.clone())
    };
    found().unwrap_or(Type::Any)
}
