//! What happened to a flow, and what a person can do about it, in sentences: before anything of its program is shown.
//!
//! Every command that is named here can be typed as it stands.

use ftl_core::run::{End, InstanceId, Standing as Runs};
use ftl_view::board::{Board, TaskRow, TaskStage};
use ftl_view::cause::{cause, end_word};
use ftl_view::paint::{self, count, paint, safe};
use ftl_view::runs::{command, silence, to_type};
use ftl_view::summary::{RunStanding, RunWait, WaitSubject};
use serde_json::{Value as Json, json};

use crate::target::RunPart;
use ftl_command::known::RunOverview;

/// How many tasks or waits are told one by one.
const MAX_TOLD: usize = 5;

/// The sentences of `ftl why`, and the commands that a person can type next.
pub(super) struct Sentences {
    /// What happened, a sentence each.
    what: Vec<String>,
    /// What can be typed, and what it does.
    can: Vec<(String, &'static str)>,
}

impl Sentences {
    /// What there is to say about a flow or a story, or a part of it.
    pub(super) fn of(known: &RunOverview, board: &Board, part: &RunPart) -> Sentences {
        let mut told = Sentences { what: Vec::new(), can: Vec::new() };
        let rows = board.rows();
        let row_of = |seq: &str| rows.iter().find(|row| row.seq == seq);
        match part {
            RunPart::Whole => told.whole(known, &rows),
            RunPart::Task(seq) => told.task(known, row_of(seq)),
            RunPart::Instance(instance) => match board.task_of(*instance).and_then(row_of) {
                Some(row) => told.task(known, Some(row)),
                None => told.whole(known, &rows),
            },
        }
        told.waits(known, board, part);
        told
    }

    fn whole(&mut self, known: &RunOverview, rows: &[TaskRow]) {
        let run = &known.row.run;
        let (standing, state) = (known.standing(), safe(&known.summary.state));
        let reason = known.summary.reason.as_deref().map(cause).filter(|reason| !reason.is_empty());
        let because = |what: &str| match &reason {
            Some(reason) => format!("{what}: {reason}."),
            None => format!("{what}."),
        };
        self.what.push(match standing {
            RunStanding::Known(Runs::Running) => format!("It is at work in {state}."),
            RunStanding::Interrupted => format!("Nobody drives it: it was interrupted in {state}."),
            RunStanding::Known(Runs::Suspended) => {
                format!("It waits in {state} for a service that does not answer.")
            }
            RunStanding::Known(Runs::Waiting) => format!("It waits for you in {state}."),
            RunStanding::Known(Runs::Held) => format!("It stopped in {state} and needs you."),
            RunStanding::Known(Runs::Settled(End::Complete)) => String::from("It is complete."),
            RunStanding::Known(Runs::Settled(End::Stopped)) => because("It was stopped"),
            RunStanding::Known(Runs::Settled(End::Error)) => because("It ended with an error"),
            // Which tasks are blocked, and why, is said below.
            RunStanding::Known(Runs::Settled(end)) if rows.len() > 1 => {
                format!("It ended {}.", end_word(end))
            }
            RunStanding::Known(Runs::Settled(end)) => because(&format!("It ended {}", end_word(end))),
            RunStanding::Unknown => because("It ended"),
        });
        if !rows.is_empty() {
            self.what.push(format!("{}.", counted(rows, known.row.settled)));
        }
        let blocked: Vec<&TaskRow> =
            rows.iter().filter(|row| matches!(row.stands, TaskStage::Blocked(_))).collect();
        for row in blocked.iter().take(MAX_TOLD).filter(|_| rows.len() > 1) {
            self.what.push(stands(row));
        }
        if blocked.len() > MAX_TOLD && rows.len() > 1 {
            self.what.push(format!("{} more are blocked.", blocked.len() - MAX_TOLD));
        }
        match blocked.first() {
            Some(row) if rows.len() > 1 => self.looks(&format!("{run}/{}", row.seq)),
            Some(_) | None => self.looks(run.as_str()),
        }
        if !blocked.is_empty() {
            self.can.push((String::from("ftl salvage"), "lists the work that is kept"));
            if known.row.settled {
                let again = "tries what is blocked again, from the work that is kept";
                self.can.push((format!("ftl retry {run}"), again));
            }
        }
        if standing == RunStanding::Interrupted {
            self.can.push((format!("ftl resume {run}"), "goes on where it was"));
        }
    }

    fn task(&mut self, known: &RunOverview, row: Option<&TaskRow>) {
        let Some(row) = row else {
            return self.what.push(String::from("There is no such task in its plan."));
        };
        self.what.push(stands(row));
        let task = format!("{}/{}", known.row.run, row.seq);
        match &row.stands {
            TaskStage::Waits(_) | TaskStage::Unreachable(_) => {
                self.can.push((format!("ftl why {}", known.row.run), "tells about the whole run"));
            }
            TaskStage::Works(_) | TaskStage::Held(_) | TaskStage::Landed(_) | TaskStage::Blocked(_) => {
                self.looks(&task);
            }
        }
    }

    /// The commands that show more, in the order in which they help.
    fn looks(&mut self, id: &str) {
        self.can.push((format!("ftl diff {id}"), "shows the work"));
        self.can.push((format!("ftl transcript {id}"), "shows what the agents said and did"));
        let run = id.split('/').next().unwrap_or_default();
        self.can.push((format!("ftl log {run}"), "shows how it came to this"));
    }

    /// What is waited for, in the part that is asked about.
    fn waits(&mut self, known: &RunOverview, board: &Board, part: &RunPart) {
        let waits = &known.summary.waits;
        let mine = |wait: &&RunWait| {
            wait.what != WaitSubject::Work
                && part.holds(board, InstanceId(wait.instance))
                && !known.row.settled
        };
        for wait in waits.iter().filter(mine).take(MAX_TOLD) {
            let whose = board.task_of(InstanceId(wait.instance)).and_then(|seq| board.task_label(seq));
            let whose = whose.map_or_else(String::new, |name| format!("{}: ", safe(&name)));
            let text = match wait.what {
                WaitSubject::Held => cause(&wait.text),
                WaitSubject::Question | WaitSubject::Word | WaitSubject::Work => paint::one_line(&wait.text),
                WaitSubject::Service => {
                    format!("{}; it is asked again by itself", silence(&paint::one_line(&wait.text)))
                }
            };
            self.what.push(format!("{whose}{text}"));
            if let (Some(typed), WaitSubject::Question | WaitSubject::Word) =
                (to_type(&known.row.run, wait, waits), wait.what)
            {
                self.can.insert(0, (typed, "answers it"));
            }
        }
    }

    /// The sentences, and the commands with what they do.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (index, sentence) in self.what.iter().enumerate() {
            let lead = if index == 0 { "" } else { "  " };
            text.push_str(&format!("{lead}{sentence}\n"));
        }
        let width = self.can.iter().map(|(words, _)| paint::columns(words)).max().unwrap_or(0);
        for (words, does) in &self.can {
            text.push_str(&format!(
                "  {}  {}\n",
                paint::padded(&command(words), width),
                paint(paint::QUIET, does)
            ));
        }
        text
    }

    pub(super) fn json(&self) -> (Json, Json) {
        let plain = |text: &String| anstream::adapter::strip_str(text).to_string();
        let what: Vec<String> = self.what.iter().map(plain).collect();
        let can: Vec<Json> =
            self.can.iter().map(|(words, does)| json!({ "command": words, "does": does })).collect();
        (json!(what), json!(can))
    }
}

/// How far a task is, in one sentence.
fn stands(row: &TaskRow) -> String {
    let name = paint(paint::STRONG, format!("{} {}", safe(&row.seq), safe(&row.slug)));
    let others = |seqs: &[String]| safe(&seqs.join(", "));
    match &row.stands {
        TaskStage::Waits(on) if on.is_empty() => format!("{name} has not begun."),
        TaskStage::Waits(on) => format!("{name} has not begun: it waits for {}.", others(on)),
        TaskStage::Unreachable(by) => {
            format!("{name} never ran: it needs {}, which did not land.", others(by))
        }
        TaskStage::Works(work) => format!("{name} is at work in {}.", safe(&work.state)),
        TaskStage::Held(why) => format!("{name} needs you: {}", cause(why)),
        TaskStage::Landed(commit) => {
            let commit: String = commit.as_deref().unwrap_or_default().chars().take(12).collect();
            format!("{name} landed as {commit}.")
        }
        TaskStage::Blocked(why) => format!("{name} is blocked: {}", cause(why)),
    }
}

/// How many tasks stand how.
fn counted(rows: &[TaskRow], is_over: bool) -> String {
    let of = |wanted: fn(&TaskStage) -> bool| rows.iter().filter(|row| wanted(&row.stands)).count();
    let not_begun = if is_over { "never ran" } else { "not begun" };
    let parts = [
        (of(|one| matches!(one, TaskStage::Blocked(_))), "blocked"),
        (of(|one| matches!(one, TaskStage::Held(_))), "held"),
        (of(|one| matches!(one, TaskStage::Works(_))), "at work"),
        (of(|one| matches!(one, TaskStage::Waits(_) | TaskStage::Unreachable(_))), not_begun),
    ];
    let landed = of(|one| matches!(one, TaskStage::Landed(_)));
    let mut words = vec![format!("{landed} of {} landed", count(rows.len(), "task"))];
    words.extend(
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")),
    );
    words.join(", ")
}
