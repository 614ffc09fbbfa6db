//! What needs a person, over all runs: one card for each thing that waits, how much waits for it, what can be done.
//!
//! Cards are ranked by what waits behind them, not by their age: the answer that sets most free comes first.

use ftl_core::run::{End, Instance, InstanceId, Run, Time};
use serde::Serialize;

use crate::actions::{Known, PersonAction, actions, open_questions};
use crate::board::{TaskRow, TaskStage};
use crate::cause::cause;
use crate::model::RunModel;
use crate::model::tasks::plain;
use crate::summary::{RunStanding, Spent, Summary, WaitSubject};

/// From which share of a limit on a card says so, in percent.
pub const NEAR: u64 = 80;

/// How many cards one run has; what else waits in it stands on its own page.
pub const MAX_NEEDS: usize = 50;

/// How many blocked tasks a card tells of.
const MAX_TOLD: usize = 4;

/// One thing that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Need {
    /// A name that stays the same while it waits.
    pub id: String,
    /// The name of the run.
    pub run: String,
    /// The objective of the run.
    pub title: String,
    /// The instance that waits.
    pub instance: u32,
    /// The task that it works on, as `seq slug`.
    pub task: Option<String>,
    /// What kind of thing it is.
    pub kind: NeedKind,
    /// The state it waits in.
    pub state: String,
    /// The words: the question, or why it is held.
    pub text: String,
    /// The values that a question takes.
    pub choices: Vec<String>,
    /// The time since when it waits.
    pub since: Time,
    /// How much waits for it in turn.
    pub behind: Behind,
    /// The actions that a person can take.
    pub actions: Vec<PersonAction>,
}

/// The kinds of things that wait for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedKind {
    /// A question of a protocol or of an agent.
    Question,
    /// A word at a WAIT.
    Word,
    /// It stopped in place.
    Held,
    /// No process drives the run.
    Interrupted,
    /// A task ended without success, and its work is kept.
    Blocked,
    /// What was built is not on the person's branch.
    Landing,
    /// A limit is nearly reached.
    Limit,
}

/// How much waits for something that waits for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Behind {
    /// How many tasks cannot begin or go on before.
    pub tasks: usize,
    /// Money a minute that the run has spent so far, in millionths.
    pub money_per_minute: u64,
}

/// The cards of one run. `asked` tells what an agent asked before its instance was held.
pub fn needs(
    name: &str,
    model: &RunModel,
    summary: &Summary,
    standing: RunStanding,
    asked: &dyn Fn(InstanceId) -> Option<String>,
) -> Vec<Need> {
    let run = model.board.machine();
    let blank = Card { name, model, summary };
    let mut cards = Vec::new();
    if run.end().is_some() {
        return cards;
    }
    if standing == RunStanding::Interrupted {
        cards.push(blank.interrupted());
    }
    for wait in &summary.waits {
        if cards.len() >= MAX_NEEDS {
            break;
        }
        let kind = match wait.what {
            WaitSubject::Held => NeedKind::Held,
            WaitSubject::Question => NeedKind::Question,
            WaitSubject::Word => NeedKind::Word,
            WaitSubject::Service | WaitSubject::Work => continue,
        };
        let Some(instance) = run.instance(InstanceId(wait.instance)) else { continue };
        let asked = (kind == NeedKind::Held).then(|| asked(instance.id)).flatten();
        cards.push(blank.waiting(kind, instance, wait.action.as_deref(), (&wait.text, asked)));
    }
    cards.extend(summary.meters.iter().filter_map(|(meter, spent)| blank.limit(run, meter, spent)));
    cards
}

/// What waits comes before what has ended, and that before a limit.
fn order_of(kind: NeedKind) -> u8 {
    match kind {
        NeedKind::Question | NeedKind::Word | NeedKind::Held | NeedKind::Interrupted => 2,
        NeedKind::Blocked | NeedKind::Landing => 1,
        NeedKind::Limit => 0,
    }
}

/// What a run that has ended has left for the person: blocked tasks whose work is kept, or work that is not on their branch.
/// `is_merged` says that the person has taken it over by themselves.
pub fn left_over(name: &str, model: &RunModel, summary: &Summary, is_merged: bool) -> Option<Need> {
    let end = model.board.machine().end()?;
    // Whoever stopped it knows of it.
    if matches!(end, End::Stopped | End::Cancelled) || is_merged {
        return None;
    }
    let rows = model.board.rows();
    let is_blocked = |row: &&TaskRow| matches!(row.stands, TaskStage::Blocked(_));
    let blocked: Vec<&TaskRow> = rows.iter().filter(is_blocked).collect();
    let landed = rows.iter().filter(|row| matches!(row.stands, TaskStage::Landed(_))).count();
    let landing = model.board.landing(&name);
    let card = Card { name, model, summary };
    match (blocked.as_slice(), landing.not_landed()) {
        ([], Some(why)) if landed > 0 => Some(card.landing(why)),
        ([], Some(_) | None) => None,
        (blocked, _) => Some(card.blocked(blocked, rows.len())),
    }
}

/// The cards of all runs, what sets most free first; of two equal ones the older.
pub fn rank(cards: &mut [Need]) {
    cards.sort_by(|left, right| {
        let weight = |need: &Need| (order_of(need.kind), need.behind.tasks, need.behind.money_per_minute);
        weight(right).cmp(&weight(left)).then(left.since.cmp(&right.since)).then(left.id.cmp(&right.id))
    });
}

/// An order without anything to fill in.
fn plain_action(order: &'static str, label: &str, command: String) -> PersonAction {
    PersonAction {
        order,
        label: label.to_owned(),
        command,
        body: serde_json::json!({ "order": order }),
        needs_reason: false,
        takes: None,
        choices: Vec::new(),
    }
}

/// A mark of the inbox, which changes nothing of the run.
fn put_away(run: &str) -> PersonAction {
    plain_action("put_away", "Put it away", format!("ftl why {run}"))
}

/// What all cards of a run have in common.
struct Card<'a> {
    name: &'a str,
    model: &'a RunModel,
    summary: &'a Summary,
}

impl Card<'_> {
    fn blank(&self, kind: NeedKind, instance: u32, what: &str) -> Need {
        let run = self.name.to_owned();
        Need {
            id: format!("{run}/{instance}/{what}"),
            run,
            title: self.summary.title.clone(),
            instance,
            task: None,
            kind,
            state: self.summary.state.clone(),
            text: String::new(),
            choices: Vec::new(),
            since: self.model.board.times.map_or(0, |(_, last)| last),
            behind: Behind { tasks: 0, money_per_minute: self.pace() },
            actions: Vec::new(),
        }
    }

    fn interrupted(&self) -> Need {
        let run = self.name;
        let resume = PersonAction {
            order: "drive",
            label: String::from("Go on"),
            command: format!("ftl resume {run}"),
            body: serde_json::json!({ "order": "drive" }),
            needs_reason: false,
            takes: None,
            choices: Vec::new(),
        };
        let mut card = self.blank(NeedKind::Interrupted, 0, "interrupted");
        card.text = String::from("nobody drives it: it was interrupted");
        card.behind.tasks = self.to_come();
        card.actions = vec![resume];
        card
    }

    fn waiting(
        &self,
        kind: NeedKind,
        instance: &Instance,
        action: Option<&str>,
        (text, asked): (&str, Option<String>),
    ) -> Need {
        let run = self.model.board.machine();
        let (questions, ways) = (open_questions(instance, self.summary), run.options(instance.id));
        let known = Known { questions, asked: asked.clone(), ways };
        let all = actions(run, self.name, instance, &known);
        let mine = |one: &PersonAction| {
            let named = one.body.get("action").and_then(serde_json::Value::as_str);
            one.order != "answer" || named.is_none() || named == action
        };
        let mut card = self.blank(kind, instance.id.0, &format!("{kind:?}{}", action.unwrap_or_default()));
        let seq = self.model.board.task_of(instance.id);
        card.task = seq.and_then(|seq| self.model.board.task_label(seq));
        card.state = instance.state.to_string();
        card.text = match (kind, asked) {
            (NeedKind::Held, Some(question)) => question,
            (NeedKind::Held, None) => plain(&cause(text)),
            (_, _) => text.to_owned(),
        };
        card.choices = crate::actions::choices(&card.text);
        card.behind.tasks = seq.map_or_else(|| self.to_come(), |seq| self.waiting_for(seq));
        card.actions = all.into_iter().filter(mine).collect();
        card
    }

    fn limit(&self, run: &Run, meter: &str, spent: &Spent) -> Option<Need> {
        let limit = spent.limit.filter(|limit| *limit > 0)?;
        let is_bought = matches!(meter, "tokens" | "money" | "time" | "turns");
        let near = u128::from(spent.used) * 100 >= u128::from(limit) * u128::from(NEAR);
        if !is_bought || !near || run.purses(InstanceId(0))?.get(meter).is_none() {
            return None;
        }
        let unit = ftl_core::amount::Unit::of_meter(meter);
        let mut card = self.blank(NeedKind::Limit, 0, meter);
        card.text = format!("{meter}: {} of {} are used", unit.show(spent.used), unit.show(limit));
        card.behind.tasks = self.to_come();
        let more = limit.saturating_mul(2);
        let body = serde_json::json!(
            { "order": "raise", "instance": 0, "meter": meter, "limit": more, "reason": null });
        card.actions = vec![PersonAction {
            order: "raise",
            label: format!("Raise {meter} to {}", unit.show(more)),
            command: format!("ftl raise {} {meter} {} --reason …", self.name, unit.show(more)),
            body,
            needs_reason: true,
            takes: Some("limit"),
            choices: Vec::new(),
        }];
        Some(card)
    }

    fn blocked(&self, blocked: &[&TaskRow], all: usize) -> Need {
        let run = self.name;
        let told = blocked.iter().take(MAX_TOLD).map(|row| {
            let why =
                if let TaskStage::Blocked(why) = &row.stands { plain(&cause(why)) } else { String::new() };
            format!("{} {}: {why}", row.seq, row.slug)
        });
        let told: Vec<String> = told.collect();
        let more = blocked.len().saturating_sub(MAX_TOLD);
        let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
        let mut card = self.blank(NeedKind::Blocked, 0, "left_over");
        card.text = format!(
            "{} of {all} tasks are blocked; their work is kept\n{}{more}",
            blocked.len(),
            told.join("\n")
        );
        card.behind.tasks = self
            .model
            .board
            .rows()
            .iter()
            .filter(|row| matches!(row.stands, TaskStage::Unreachable(_)))
            .count();
        card.behind.money_per_minute = 0;
        let retry = format!("ftl retry {run}");
        card.actions = vec![plain_action("retry", "Try them again", retry), put_away(run)];
        card
    }

    fn landing(&self, why: &str) -> Need {
        let mut card = self.blank(NeedKind::Landing, 0, "left_over");
        card.text = plain(why);
        card.behind.money_per_minute = 0;
        // It is the person's own branch: they merge it themselves.
        let merge = format!("git merge ftl/{}", self.name);
        card.actions = vec![plain_action("type", "Take it over", merge), put_away(self.name)];
        card
    }

    /// Money a minute over the whole run so far.
    fn pace(&self) -> u64 {
        let took = self.model.board.times.map_or(0, |(first, last)| last.saturating_sub(first));
        if took == 0 {
            return 0;
        }
        let pace = u128::from(self.model.ledger.all.money) * 60_000 / u128::from(took);
        u64::try_from(pace).unwrap_or(u64::MAX)
    }

    /// How many tasks have not ended.
    fn to_come(&self) -> usize {
        let rows = self.model.board.rows();
        let is_open = |stage: &TaskStage| match stage {
            TaskStage::Waits(_) | TaskStage::Works(_) | TaskStage::Held(_) => true,
            TaskStage::Unreachable(_) | TaskStage::Landed(_) | TaskStage::Blocked(_) => false,
        };
        rows.iter().filter(|row| is_open(&row.stands)).count()
    }

    /// How many tasks wait for one, over all steps between.
    fn waiting_for(&self, seq: &str) -> usize {
        let rows = self.model.board.rows();
        let mut behind: std::collections::BTreeSet<&str> = [seq].into();
        // Rows stand by depth, so those before a task have been looked at.
        for row in &rows {
            if row.depends.iter().any(|on| behind.contains(on.as_str())) {
                behind.insert(&row.seq);
            }
        }
        behind.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(id: &str, kind: NeedKind, tasks: usize, since: Time) -> Need {
        Need {
            id: id.to_owned(),
            run: String::new(),
            title: String::new(),
            instance: 0,
            task: None,
            kind,
            state: String::new(),
            text: String::new(),
            choices: Vec::new(),
            since,
            behind: Behind { tasks, money_per_minute: 0 },
            actions: Vec::new(),
        }
    }

    #[test]
    fn what_sets_most_free_comes_first_and_a_limit_last() {
        let mut cards = vec![
            card("old", NeedKind::Held, 1, 1),
            card("wide", NeedKind::Question, 9, 5),
            card("limit", NeedKind::Limit, 30, 0),
            card("older", NeedKind::Held, 1, 0),
        ];
        rank(&mut cards);
        let order: Vec<&str> = cards.iter().map(|card| card.id.as_str()).collect();
        assert_eq!(order, ["wide", "older", "old", "limit"]);
    }
}
