//! The phase: where the flow of the FTL plugin (docs/origins.md) stands, by its own small machine.
//!
//! Each campaign has its own. That of a run is what its journal tells, until a command moves it.
//!
//! The plugin's document moved the phase only at the very end, and was refused there. Here a move is
//! also taken when the campaign itself shows that the flow has come that far; what lies between is
//! recorded with it. A move that neither the machine nor the campaign allows is refused.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ftl_core::catalogue::Catalogue;
use ftl_core::plan::TaskStatus;
use ftl_core::program::Program;
use ftl_core::run::{Fact, ROOT};
use ftl_language::library::{Library, built_in_sources};

use super::projected::{NoteForm, Projected};
use super::projection::json_text;
use super::scope::RecordScope;
use super::{RecordError, Records};
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::clock;
use ftl_store::journal::{self, JournalError};
use ftl_store::{Notebook as _, StoreError};

/// The phases in the order of a flow.
pub const PHASES: [&str; 6] = ["none", "explore", "plan", "build", "observe", "complete"];

/// The states of the task flow that the scripts know, each beside its phase.
const STATES: [&str; 6] = ["INIT", "EXPLORE", "PLAN", "BUILD", "OBSERVE", "COMPLETE"];

/// Moves of the FTL plugin's scripts that the document of the task flow does not have: back to exploring, another build
/// after a build, and a new flow after the last one.
const OF_SCRIPTS: [(&str, &str); 3] = [("PLAN", "EXPLORE"), ("BUILD", "BUILD"), ("COMPLETE", "INIT")];

/// The moves of the phase machine, by state: the edges of the task document between the states that the scripts know,
/// and what the scripts have beside them.
fn moves_of(from: &str) -> Option<Vec<&'static str>> {
    let place = STATES.iter().position(|state| *state == from)?;
    let leads = |to: &&str| {
        let known = program().is_some_and(|program| program.leads(from, to));
        (known && *to != from) || OF_SCRIPTS.contains(&(from, *to))
    };
    // What comes next in the flow is told first.
    let (before, after) = STATES.split_at(place + 1);
    Some(after.iter().chain(before).copied().filter(leads).collect())
}

/// The document of the task flow that comes with the program; the scripts know no other.
fn program() -> Option<&'static Arc<Program>> {
    static PROGRAM: OnceLock<Option<Arc<Program>>> = OnceLock::new();
    let load = || Library::load(built_in_sources(), Catalogue::standard()).program("task").cloned();
    PROGRAM.get_or_init(load).as_ref()
}

/// The state beside a phase.
fn state_of(phase: &str) -> Option<&'static str> {
    PHASES.iter().position(|one| *one == phase).and_then(|place| STATES.get(place)).copied()
}

/// Where the phase machine goes from a phase.
fn next_phases(from: &str) -> Vec<&'static str> {
    let states = state_of(from).and_then(moves_of).unwrap_or_default();
    let place = |state: &&str| STATES.iter().position(|one| one == state);
    states.iter().filter_map(place).filter_map(|place| PHASES.get(place)).copied().collect()
}

/// Whether the phase machine has a move.
pub fn can_move(from: &str, to: &str) -> bool {
    next_phases(from).contains(&to)
}

/// Why the states of the task flow do not have an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransitionError {
    /// There is no state of that name.
    UnknownState(String),
    /// The state has other edges, and not that one.
    NoEdge {
        /// The phase that it would leave.
        from: String,
        /// The phase that it would enter.
        to: String,
        /// Where the edges of the state lead.
        others: Vec<&'static str>,
    },
}

impl fmt::Display for TransitionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransitionError::UnknownState(state) => {
                write!(out, "Unknown state: {state} (one of {})", STATES.join(", "))
            }
            TransitionError::NoEdge { from, to, others } => {
                let others = others.join(", ");
                write!(out, "Invalid transition: {from} \u{2192} {to} (from {from} it goes to {others})")
            }
        }
    }
}

impl std::error::Error for TransitionError {}

/// Whether the states of the task flow have an edge.
pub fn check_transition(from: &str, to: &str) -> Result<(), TransitionError> {
    let all = moves_of(from).ok_or_else(|| TransitionError::UnknownState(from.to_owned()))?;
    if all.contains(&to) {
        return Ok(());
    }
    Err(TransitionError::NoEdge { from: from.to_owned(), to: to.to_owned(), others: all.to_vec() })
}

fn projected(scope: RecordScope) -> Projected {
    Projected {
        kind: scope.kind("phase"),
        scope: Some(scope),
        key: Cow::Borrowed("current"),
        file: Cow::Borrowed("phase_state.json"),
        check: |text| json_text(text, check),
        form: NoteForm::Json,
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
        ("transitions", Json::Array(Vec::new())),
    ])
}

impl Records {
    /// `{phase, started_at, transitions}`. What the FTL plugin left and cannot be read is a fresh state, as
    /// it was there; it is told. Where the store knows the phase, a broken copy is refused like any other.
    pub fn phase(&self) -> Result<Json, RecordError> {
        let scope = self.scope()?;
        let what = projected(scope.clone());
        match self.read(&what) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => self.phase_of_run(&scope),
            Err(error @ RecordError::Malformed { .. })
                if self.store().note(&what.kind, &what.key)?.is_none() =>
            {
                self.notice(format!("{error}: the phase begins anew"));
                Ok(fresh())
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the phase back to none and forgets its history.
    pub fn reset_phase(&self) -> Result<Json, RecordError> {
        self.begin_plain()?;
        let what = projected(self.scope()?);
        self.forget_broken(&what)?;
        self.change(&what, |_, _| Ok((None, fresh())))
    }

    /// Moves to a phase. With `force` every phase can be moved to.
    pub fn move_phase(&self, to: &str, force: bool, now: &str) -> Result<Json, RecordError> {
        if !PHASES.contains(&to) {
            let message = format!("Unknown phase: {to}");
            return Err(RecordError::refuse(message, format!("a phase is one of {}", PHASES.join(", "))));
        }
        self.begin_plain()?;
        let shown = self.shown_phase()?;
        let known = self.phase()?;
        let what = projected(self.scope()?);
        self.forget_broken(&what)?;
        self.change(&what, |before, _| {
            let mut state = before.unwrap_or_else(|| known.clone());
            let from = state.get("phase").and_then(Json::as_str).unwrap_or("none").to_owned();
            if force || can_move(&from, to) {
                step(&mut state, to, now);
            } else if shown == to || can_move(shown, to) {
                for between in between(&from, to) {
                    step(&mut state, between, now);
                }
            } else {
                let message = format!("Invalid transition: {from} \u{2192} {to}");
                let next = next_phases(&from).join(", ");
                return Err(RecordError::refuse(message, format!("from {from} it goes to {next}")));
            }
            Ok((Some(state.clone()), state))
        })
    }

    /// The phase as the journal of a run tells it; the beginning where it is no run's.
    fn phase_of_run(&self, scope: &RecordScope) -> Result<Json, RecordError> {
        let mut state = fresh();
        let Some(run) = Records::run_of(scope) else { return Ok(state) };
        let unreadable = |error: JournalError| StoreError::Corrupt(error.to_string());
        for entry in journal::load(&**self.store(), &run).map_err(unreadable)? {
            let Fact::Moved { to, .. } = &entry.fact else { continue };
            let Some(to) = phase_of(to).filter(|_| entry.instance == ROOT) else { continue };
            if state.get("phase").and_then(Json::as_str) != Some(to) {
                step(&mut state, to, &clock::local_at(Duration::from_millis(entry.at)));
            }
        }
        Ok(state)
    }

    /// The phase that the campaign itself shows.
    fn shown_phase(&self) -> Result<&'static str, RecordError> {
        let Some(campaign) = self.campaign()? else { return Ok("none") };
        let open = campaign
            .tasks()
            .iter()
            .any(|one| matches!(one.status, TaskStatus::Pending | TaskStatus::InProgress));
        Ok(match () {
            () if !campaign.is_active() => "complete",
            () if campaign.tasks().is_empty() => "plan",
            () if open => "build",
            () => "observe",
        })
    }
}

/// The phase of a state of the flows; none where a flow stays in the phase that it came from.
fn phase_of(state: &str) -> Option<&'static str> {
    match state {
        "INIT" => Some("none"),
        "EXPLORE" => Some("explore"),
        "PLAN" => Some("plan"),
        "BUILD" | "REGISTER" | "EXECUTE" | "CASCADE" => Some("build"),
        "OBSERVE" => Some("observe"),
        "COMPLETE" => Some("complete"),
        _ => None,
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
    state.put("transitions", Json::Array(all));
}

/// The phases after one up to another, in the order of a flow.
fn between(from: &str, to: &str) -> Vec<&'static str> {
    let place = |phase: &str| PHASES.iter().position(|one| *one == phase).unwrap_or(0);
    let (from, to) = (place(from), place(to));
    if from < to { PHASES[from + 1..=to].to_vec() } else { vec![PHASES[to]] }
}
