//! What a person says through a face: an order is left in the store, and a run without a driver gets one that lives
//! on when the face ends. Nothing is driven here.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use ftl_engine::executors::questions;
use ftl_engine::session::{Driven, Session, driven};
use ftl_store::RunRow;
use ftl_store::order::Order;
use serde_json::{Value as Json, json};

use crate::session::{session_failure, store_failure};
use crate::{CommandError, inbox};

/// How long a typed text is at most.
pub const MAX_TYPED: usize = 64 * 1024;

/// A person who speaks, and the face that they use.
#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    /// The name of the person.
    pub name: &'a str,
    /// The face, as the journal names it: `web`, `tui`.
    pub face: &'a str,
}

impl Speaker<'_> {
    /// As the journal names them.
    pub fn label(self) -> String {
        format!("{} via {}", self.name, self.face)
    }
}

/// Leaves an order, written as `PersonAction::body`; its number, where there is one. What bends a rule needs a reason in
/// it, and the person's name typed: a key or a click alone is not meant.
pub fn leave(
    session: &Session,
    row: &RunRow,
    (mut order, typed): (Json, &str),
    by: Speaker<'_>,
) -> Result<Option<u64>, CommandError> {
    let usage = |message: String| CommandError::usage(message, "docs/api.md lists the orders");
    if !order.is_object() {
        return Err(usage(String::from("an order is missing")));
    }
    let kind = order["order"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "drive" => return drive(session, row, by).map(|()| None),
        "put_away" => return inbox::put_away(session, &row.run).map(|()| None),
        "retry" => return retry(session, row, by).map(|()| None),
        _ => {}
    }
    if matches!(kind.as_str(), "override" | "raise" | "redo" | "stop") {
        bends(order["reason"].as_str().unwrap_or_default(), typed, by)?;
    }
    order["by"] = json!(by.label());
    let order: Order =
        serde_json::from_value(order).map_err(|error| usage(format!("this is no order: {error}")))?;
    let order = answers_agent(session, row, order)?;
    let number = session.send(&row.run, &order).map_err(|error| session_failure(&error))?;
    drive(session, row, by)?;
    Ok(Some(number))
}

/// Whether a reason was given, and the typed name is the person's.
pub fn bends(reason: &str, typed: &str, by: Speaker<'_>) -> Result<(), CommandError> {
    if reason.trim().is_empty() {
        return Err(CommandError::usage("a reason is missing", "say why; it stands in the journal"));
    }
    if typed.trim() != by.name {
        return Err(CommandError::usage("the typed name is not yours", format!("type `{}`", by.name)));
    }
    Ok(())
}

/// An answer to what an agent asked before its instance was held is kept, and the instance goes on with it.
fn answers_agent(session: &Session, row: &RunRow, order: Order) -> Result<Order, CommandError> {
    let Order::Answer { instance, action: None, value, by } = &order else { return Ok(order) };
    let records = session.records();
    if questions::open(records, &row.run, *instance).map_err(|error| store_failure(&error))?.is_none() {
        return Ok(order);
    }
    let text = value.as_text().map_or_else(|| value.to_string(), str::to_owned);
    if text.len() > MAX_TYPED {
        return Err(CommandError::usage("the answer is too long", "64 KiB is the most"));
    }
    let text = session.secrets().redact(text.trim());
    questions::answer(records, &row.run, *instance, &text, by).map_err(|error| store_failure(&error))?;
    Ok(Order::Resume { instance: *instance, by: by.clone() })
}

/// Starts a driver for a run that has none.
fn drive(session: &Session, row: &RunRow, by: Speaker<'_>) -> Result<(), CommandError> {
    let driven = driven(session.place(), row).map_err(|error| session_failure(&error))?;
    if row.settled || driven != Driven::ByNobody {
        return Ok(());
    }
    let words = ["resume", row.run.as_str(), "--orders-only", "--json"].map(String::from);
    let child = detached(session, &words, Stdio::null(), by)?;
    wait_beside(child);
    Ok(())
}

/// Begins the blocked tasks of a run that has ended again, as a new run in a process of its own.
fn retry(session: &Session, row: &RunRow, by: Speaker<'_>) -> Result<(), CommandError> {
    if !row.settled {
        let hint = format!("`ftl resume {}` goes on with it", row.run);
        return Err(CommandError::new(format!("run {} has not ended", row.run), hint));
    }
    let words = ["retry", row.run.as_str(), "--json"].map(String::from);
    wait_beside(detached(session, &words, Stdio::null(), by)?);
    inbox::put_away(session, &row.run)
}

/// A command of ours in a process that neither Ctrl-C nor the end of this one reaches.
pub fn detached(
    session: &Session,
    words: &[String],
    out: Stdio,
    by: Speaker<'_>,
) -> Result<Child, CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("a process for it cannot be started: {error}"), "run `ftl doctor`")
    };
    let program = std::env::current_exe().map_err(failed)?;
    let root = session.place().root();
    let mut command = Command::new(program);
    // The flags that say who and where stand before the words that are no flags.
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    command.args(&words[..at]).arg("--repo").arg(root).arg("--by").arg(by.label());
    command.args(&words[at..]).current_dir(root);
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).process_group(0);
    command.spawn().map_err(failed)
}

/// Takes the end of a process in, so that nothing of it is left.
pub fn wait_beside(mut child: Child) {
    let _ = std::thread::Builder::new().name(String::from("child")).spawn(move || child.wait());
}
