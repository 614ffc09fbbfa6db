//! The answers: what each row of the table says.
//!
//! An answer is read from the model of a run, or is the document of a command. Nothing is computed here that another face
//! would have to compute again.
//!
//! | module | what it holds |
//! |---|---|
//! | `runs` | a run, its tasks, time, money, journal |
//! | `tasks` | one task; conversations |
//! | `changes` | what changed, as hunks |
//! | `orders` | what a person says |
//! | `system` | lessons, protocols, agents, settings |

pub(crate) mod changes;
pub(crate) mod orders;
pub(crate) mod runs;
pub(crate) mod system;
pub(crate) mod tasks;

use std::collections::BTreeMap;

use bytes::Bytes;
use ftl_command::session::{drive_failure, session_failure, store_failure};
use ftl_command::{CommandError, ExitStatus, inbox};
use ftl_engine::session::SessionError;
use ftl_folder::id::RunId;
use ftl_store::journal::JournalError;
use ftl_store::{RunRow, StoreError};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::Receiver;

use crate::gate::Refusal;
use crate::server::{Server, WATCHED};

/// A request, with its parameters parsed.
pub(crate) struct Asked {
    pub(crate) params: BTreeMap<&'static str, String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Json,
    pub(crate) key: Option<String>,
}

/// An answer that is no error.
pub(crate) enum Answer {
    /// A document with its status.
    Json(u16, Json),
    /// A piece of the page, with its kind.
    Page(&'static str, &'static [u8]),
    /// A stream of events, which stays open.
    Stream(Receiver<Bytes>),
}

/// Why nothing else is answered, in the words of the command line.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) hint: String,
    exit: ExitStatus,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>, hint: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), hint: hint.into(), exit: ExitStatus::Error }
    }

    pub(crate) fn unknown(message: impl Into<String>) -> ApiError {
        ApiError::new(404, message, "`/api/v1/openapi.json` lists what may be asked")
    }

    pub(crate) fn json(&self) -> Json {
        json!({ "error": { "message": self.message, "hint": self.hint, "exit": self.exit as u8 } })
    }
}

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> CommandError {
        CommandError { exit: error.exit, ..CommandError::new(error.message, error.hint) }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        ApiError { exit: ExitStatus::Refused, ..ApiError::new(refusal.status, refusal.message, refusal.hint) }
    }
}

impl From<CommandError> for ApiError {
    fn from(failure: CommandError) -> ApiError {
        let status = match failure.exit {
            ExitStatus::Usage => 400,
            ExitStatus::Refused | ExitStatus::NotAllowed | ExitStatus::Blocked => 409,
            ExitStatus::Malformed => 500,
            ExitStatus::Error | ExitStatus::Interrupted | ExitStatus::Done => 422,
        };
        ApiError { exit: failure.exit, ..ApiError::new(status, failure.message, failure.hint) }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> ApiError {
        let status = if let SessionError::Unknown { .. } = error { Some(404) } else { None };
        let error = ApiError::from(session_failure(&error));
        ApiError { status: status.unwrap_or(error.status), ..error }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        ApiError::from(store_failure(&error))
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> ApiError {
        ApiError::from(drive_failure(&error.into()))
    }
}

impl Asked {
    /// The run that is asked about.
    pub(crate) fn run(&self, server: &Server) -> Result<RunRow, ApiError> {
        let named = self.params.get("run").map(String::as_str).unwrap_or_default();
        let run: Result<RunId, _> = named.parse();
        let run = run.map_err(|error| ApiError::new(404, error.to_string(), "`GET runs` lists them"))?;
        let row = server.session.store().run(&run)?;
        row.filter(|row| row.head > 0)
            .ok_or_else(|| ApiError::new(404, format!("there is no run `{run}`"), "`GET runs` lists them"))
    }

    /// A number of the query; `None` where it is left out.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            ApiError::new(400, format!("`{name}` is no number: `{text}`"), "a whole number from 0")
        })?;
        Ok(Some(number))
    }

    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map(String::as_str).unwrap_or_default()
    }
}

pub(crate) fn session(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let ticket = asked.body["ticket"].as_str().unwrap_or_default();
    let failed = |error: std::io::Error| ApiError::new(500, error.to_string(), "run `ftl doctor`");
    let token = server.tickets.redeem(ticket).map_err(failed)?.ok_or_else(|| {
        ApiError::new(
            401,
            "this ticket is worth nothing: it was used, or is too old",
            "press Enter in the terminal where `ftl serve` runs, and open the new address",
        )
    })?;
    let root = server.session.place().root().display().to_string();
    Ok(Answer::Json(
        200,
        json!({
            "token": token, "by": server.by, "may": server.may(), "repo": root,
            "version": env!("CARGO_PKG_VERSION"),
        }),
    ))
}

#[allow(clippy::unnecessary_wraps, reason = "every row of the table has this form")]
pub(crate) fn openapi(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    Ok(Answer::Json(200, server.openapi.clone()))
}

pub(crate) fn looks(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    ftl_notify::look(&**server.session.records().store(), ftl_folder::clock::wall())?;
    Ok(Answer::Json(200, json!({})))
}

pub(crate) fn events(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let run = asked.query.get("run").map(|run| run.parse::<RunId>()).transpose();
    let run = run.map_err(|error| ApiError::new(404, error.to_string(), "`GET runs` lists them"))?;
    let pieces = server.hub.follow(run);
    let pieces = pieces.ok_or_else(|| ApiError::new(503, "too many follow", "close some pages"))?;
    Ok(Answer::Stream(pieces))
}

pub(crate) fn needs(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    Ok(Answer::Json(200, json!({ "needs": inbox::needs(&server.session, &server.runs, WATCHED.open)? })))
}

/// Tells all followers how much waits for a person; how much that is.
pub(crate) fn tell_needs(server: &Server, before: usize, version: u64) -> usize {
    let Ok(all) = inbox::needs(&server.session, &server.runs, WATCHED.open) else { return before };
    server.hub.tell(None, "needs", version, &json!({ "needs": all }));
    all.len()
}
