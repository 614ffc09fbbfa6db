//! The phase: where the flow of the original stands, by its own small machine.
//!
//! The original's document moved the phase only at the very end, and was refused there. Here a move is
//! also taken when the campaign itself shows that the flow has come that far; what lies between is
//! recorded with it. A move that neither the machine nor the campaign allows is refused.

use std::borrow::Cow;

use ftl_core::plan::Status;

use super::projection::{Form, Projected, json_text};
use super::{Paper, PaperError};
use crate::store::Notebook as _;
use ftl_core::json::Json;

/// The phases in the order of a flow.
pub const PHASES: [&str; 6] = ["none", "explore", "plan", "build", "observe", "complete"];

/// The moves of the phase machine.
const MOVES: [(&str, &[&str]); 6] = [
    ("none", &["explore"]),
    ("explore", &["plan"]),
    ("plan", &["build", "explore"]),
    ("build", &["observe", "build"]),
    ("observe", &["complete"]),
    ("complete", &["none"]),
];

/// The moves of `orchestration validate-transition`.
const STATES: [(&str, &[&str]); 6] = [
    ("INIT", &["EXPLORE"]),
    ("EXPLORE", &["PLAN"]),
    ("PLAN", &["BUILD", "EXPLORE"]),
    ("BUILD", &["OBSERVE", "BUILD"]),
    ("OBSERVE", &["COMPLETE"]),
    ("COMPLETE", &["INIT"]),
];

/// Whether the phase machine has a move.
pub fn can_move(from: &str, to: &str) -> bool {
    moves(&MOVES, from).is_some_and(|all| all.contains(&to))
}

/// Whether the states of the task flow have an edge; why not, if not.
pub fn check_transition(from: &str, to: &str) -> Result<String, String> {
    let Some(all) = moves(&STATES, from) else {
        let known: Vec<&str> = STATES.iter().map(|(state, _)| *state).collect();
        return Err(format!("Unknown state: {from} (one of {})", known.join(", ")));
    };
    if all.contains(&to) {
        return Ok(format!("Valid transition: {from} \u{2192} {to}"));
    }
    Err(format!("Invalid transition: {from} \u{2192} {to} (from {from} it goes to {})", all.join(", ")))
}

fn moves(table: &[(&str, &'static [&'static str])], from: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(one, _)| *one == from).map(|(_, all)| *all)
}

fn projected() -> Projected {
    Projected {
        kind: Cow::Borrowed("phase"),
        scope: None,
        key: Cow::Borrowed("current"),
        file: Cow::Borrowed("phase_state.json"),
        check: |text| json_text(text, check),
        form: Form::Json,
    }
}

fn check(json: &Json) -> Result<(), String> {
    let phase = json.get("phase").and_then(Json::as_str).unwrap_or_default();
    if PHASES.contains(&phase) { Ok(()) } else { Err(format!("`{phase}` is no phase")) }
}

/// The phase before anything was done.
pub fn fresh() -> Json {
    Json::object([
        ("phase", Json::from("none")),
        ("started_at", Json::Null),
        ("transitions", Json::List(Vec::new())),
    ])
}

impl Paper {
    /// `{phase, started_at, transitions}`. What the original left and cannot be read is a fresh state, as
    /// it was there; it is told. Where the store knows the phase, a broken copy is refused like any other.
    pub fn phase(&self) -> Result<Json, PaperError> {
        let what = projected();
        match self.read(&what) {
            Ok(found) => Ok(found.unwrap_or_else(fresh)),
            Err(error @ PaperError::Malformed { .. })
                if self.store().note(&what.kind, &what.key)?.is_none() =>
            {
                self.notice(format!("{error}: the phase begins anew"));
                Ok(fresh())
            }
            Err(error) => Err(error),
        }
    }

    /// Begins anew.
    pub fn reset_phase(&self) -> Result<Json, PaperError> {
        self.forget_broken(&projected())?;
        self.change(&projected(), |_, _| Ok((None, fresh())))
    }

    /// Moves to a phase. With `force` every phase can be moved to.
    pub fn move_phase(&self, to: &str, force: bool, now: &str) -> Result<Json, PaperError> {
        if !PHASES.contains(&to) {
            let message = format!("Unknown phase: {to}");
            return Err(PaperError::refused(message, format!("a phase is one of {}", PHASES.join(", "))));
        }
        let shown = self.shown_phase()?;
        self.phase()?;
        self.forget_broken(&projected())?;
        self.change(&projected(), |before, _| {
            let mut state = before.unwrap_or_else(fresh);
            let from = state.get("phase").and_then(Json::as_str).unwrap_or("none").to_owned();
            if force || can_move(&from, to) {
                step(&mut state, to, now);
            } else if shown == to || can_move(shown, to) {
                for between in between(&from, to) {
                    step(&mut state, between, now);
                }
            } else {
                let message = format!("Invalid transition: {from} \u{2192} {to}");
                let next = moves(&MOVES, &from).unwrap_or_default().join(", ");
                return Err(PaperError::refused(message, format!("from {from} it goes to {next}")));
            }
            Ok((Some(state.clone()), state))
        })
    }

    /// The phase that the campaign itself shows.
    fn shown_phase(&self) -> Result<&'static str, PaperError> {
        let Some(campaign) = self.campaign()? else { return Ok("none") };
        let open =
            campaign.tasks().iter().any(|one| matches!(one.status, Status::Pending | Status::InProgress));
        Ok(match () {
            () if !campaign.is_active() => "complete",
            () if campaign.tasks().is_empty() => "plan",
            () if open => "build",
            () => "observe",
        })
    }
}

fn step(state: &mut Json, to: &str, now: &str) {
    let from = state.get("phase").cloned().unwrap_or_else(|| Json::from("none"));
    let mut all = state.get("transitions").map(|all| all.items().to_vec()).unwrap_or_default();
    all.push(Json::object([("from", from.clone()), ("to", Json::from(to)), ("at", Json::from(now))]));
    if from.as_str() == Some("none") {
        state.put("started_at", now);
    }
    state.put("phase", to);
    state.put("transitions", Json::List(all));
}

/// The phases after one up to another, in the order of a flow.
fn between(from: &str, to: &str) -> Vec<&'static str> {
    let place = |phase: &str| PHASES.iter().position(|one| *one == phase).unwrap_or(0);
    let (from, to) = (place(from), place(to));
    if from < to { PHASES[from + 1..=to].to_vec() } else { vec![PHASES[to]] }
}
