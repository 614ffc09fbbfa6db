//! What a person can do about where an instance stands: the order, the words on the button, the command that it equals.
//!
//! Commands print the command, pages and terminals send the order; both are made here, so that no face offers more than
//! another. Nothing here decides whether an order is carried out: the run does.

use std::collections::BTreeSet;

use ftl_core::amount::Unit;
use ftl_core::run::{HeldAt, Instance, InstanceId, OpenKind, Run, ThreadId, WayOut};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::runs::{answer, instance_label};
use crate::summary::{Summary, WaitSubject};

/// Something that a person can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PersonAction {
    /// The kind of the order: `answer`, `say`, `raise`, `resume`, `override`, `stop`.
    pub order: &'static str,
    /// The words on the button.
    pub label: String,
    /// The command that it equals, with what is still to be filled in as a capital word or `…`.
    pub command: String,
    /// The order as it is sent, without its `by`.
    pub body: Json,
    /// Whether a rule is bent, so that a reason is asked for.
    pub needs_reason: bool,
    /// Which field of the order is still to be filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<&'static str>,
    /// The values that may be filled in; none where any may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// What is known of an instance beside its journal.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its open questions, each under its name.
    pub questions: Vec<(String, String)>,
    /// What an agent asked before it was held.
    pub asked: Option<String>,
    /// Its ways out, open or with what they need.
    pub ways: Vec<WayOut>,
}

/// Everything that a person can do about an instance of a run, what helps most first.
pub fn actions(run: &Run, name: &str, instance: &Instance, known: &Known) -> Vec<PersonAction> {
    if instance.is_settled() {
        return Vec::new();
    }
    let (at, id) = (instance_label(name, instance.id.0), instance.id.0);
    let plain = |order, label: &str, command: String, body: Json| PersonAction {
        order,
        label: label.to_owned(),
        command,
        body,
        needs_reason: false,
        takes: None,
        choices: Vec::new(),
    };
    let several = known.questions.len() > 1;
    let mut all: Vec<PersonAction> = Vec::new();
    for (action, text) in &known.questions {
        let command = answer(&at, several.then_some(action.as_str()));
        let body = json!({ "order": "answer", "instance": id, "action": action, "value": null });
        let one = plain("answer", "Answer", command, body);
        all.push(PersonAction { takes: Some("value"), choices: choices(text), ..one });
    }
    if known.asked.is_some() {
        let body = json!({ "order": "answer", "instance": id, "value": null });
        all.push(PersonAction { takes: Some("value"), ..plain("answer", "Answer", answer(&at, None), body) });
    }
    let stuck = is_stuck(instance);
    for open in instance.open.values().filter(|_| !stuck) {
        let OpenKind::Words(words) = &open.kind else { continue };
        all.extend(words.iter().map(|word| {
            let body = json!({ "order": "say", "instance": id, "word": word, "reason": "", "options": {} });
            plain("say", word, format!("ftl answer {at} {word}"), body)
        }));
    }
    all.extend(
        instance.held.values().filter_map(|held| limit_of(run, held)).map(|spent| raise(name, &spent)),
    );
    if instance.held.values().any(|held| held.meter.is_none() && !held.stuck) {
        let body = json!({ "order": "resume", "instance": id });
        all.push(plain("resume", "Try again", format!("ftl resume {name}"), body));
    }
    for to in known.ways.iter().filter(|way| is_goto(way)).filter_map(|way| way.to.as_deref()) {
        let body = json!({ "order": "override", "instance": id, "to": to, "reason": null });
        let command = format!("ftl override {at} {to} --reason …");
        let one = plain("override", &format!("Override to {to}"), command, body);
        all.push(PersonAction { needs_reason: true, ..one });
    }
    let body = json!({ "order": "stop", "instance": id, "reason": "" });
    let stop = plain("stop", "Stop", format!("ftl stop {at}"), body);
    all.push(PersonAction { needs_reason: true, ..stop });
    once(all)
}

/// The raise of a limit to twice what it is.
fn raise(name: &str, (owner, meter, limit): &(InstanceId, String, u64)) -> PersonAction {
    let unit = Unit::of_meter(meter);
    let (whose, more) = (instance_label(name, owner.0), limit.saturating_mul(2));
    PersonAction {
        order: "raise",
        label: format!("Raise {meter} to {}", unit.show(more)),
        command: format!("ftl raise {whose} {meter} {} --reason …", unit.show(more)),
        body: json!({ "order": "raise", "instance": owner, "meter": meter, "limit": more, "reason": null }),
        needs_reason: true,
        takes: Some("limit"),
        choices: Vec::new(),
    }
}

/// Each command once, where it first stood.
fn once(mut all: Vec<PersonAction>) -> Vec<PersonAction> {
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.command.clone()));
    all
}

/// The choices of a question, as its words carry them: `Which one? [a|b]`.
pub fn choices(question: &str) -> Vec<String> {
    let inside = question.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once('['));
    inside.map(|(_, all)| all.split('|').map(str::to_owned).collect()).unwrap_or_default()
}

/// Where only a waiver or a stop leads on, no answer does.
pub fn is_stuck(instance: &Instance) -> bool {
    instance.held.get(&ThreadId::Main).is_some_and(|held| held.stuck)
}

/// Whether a way out is a GOTO: only those can be waived.
pub fn is_goto(way: &WayOut) -> bool {
    way.to.is_some() && way.by.starts_with("GOTO")
}

/// The limit that holds an instance, and whose it is.
fn limit_of(run: &Run, held: &HeldAt) -> Option<(InstanceId, String, u64)> {
    let (owner, meter) = held.meter.as_ref()?;
    let own = run.instance(*owner).and_then(|one| one.meters.get(meter)).map(|meter| meter.limit);
    let budget_meter =
        run.purses(*owner).and_then(|purses| purses.get(meter)).and_then(|budget_meter| budget_meter.limit);
    Some((*owner, meter.to_string(), own.or(budget_meter)?))
}

/// The open questions of an instance, each under its name, in the words of the summary.
pub fn open_questions(instance: &Instance, summary: &Summary) -> Vec<(String, String)> {
    if is_stuck(instance) {
        return Vec::new();
    }
    let open = instance.open.iter().filter(|(_, open)| open.kind == OpenKind::Question);
    let text = |action: &str| {
        let wait = summary
            .waits
            .iter()
            .find(|wait| wait.what == WaitSubject::Question && wait.action.as_deref() == Some(action));
        wait.map_or_else(|| String::from("a question"), |wait| wait.text.clone())
    };
    open.map(|(action, _)| action.to_string()).map(|action| (action.clone(), text(&action))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stand_behind_the_question() {
        assert_eq!(choices("Land it? [ff|squash|no]"), ["ff", "squash", "no"]);
        assert_eq!(choices("What [x] is it?"), Vec::<String>::new());
        assert_eq!(choices("Why?"), Vec::<String>::new());
    }
}
