//! What a person says: orders that are left in the store, and flows that are started in processes of their own.
//!
//! Nothing is driven here. A run without a driver gets one that lives on when this server ends.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ftl_command::orders::{self, MAX_TYPED};
use ftl_engine::session::Driven;
use ftl_folder::id::RunId;
use ftl_store::{Most, RunRow};
use ftl_view::paint::one_line;
use serde_json::{Value as Json, json};

use super::{Answer, ApiError, Asked};
use crate::server::Server;

/// How long a flow that is started may take until its run is there.
const MAX_OPENING: Duration = Duration::from_secs(30);

/// How often its run is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How much is kept of what a command says that ended before its run was there.
const MAX_SAID: u64 = 64 * 1024;

pub(crate) fn order(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = may_speak(server, asked)?;
    if let Some(number) = asked.key.as_deref().and_then(|key| server.known_key(key)) {
        return Ok(Answer::Json(202, json!({ "order": number, "again": true })));
    }
    let name = asked.body["name"].as_str().unwrap_or_default();
    let number = orders::leave(&server.session, &row, (asked.body["order"].clone(), name), server.speaker())?;
    if let (Some(key), Some(number)) = (&asked.key, number) {
        server.keep_key(key.clone(), number);
    }
    if number.is_none() {
        // What is put away or begun anew is no entry of its run: nobody else would tell of it.
        super::tell_needs(server, 0, server.session.store().version().unwrap_or(0));
    }
    Ok(Answer::Json(202, json!({ "order": number })))
}

/// The run that a person speaks to, where this server takes orders.
fn may_speak(server: &Server, asked: &Asked) -> Result<RunRow, ApiError> {
    if server.look {
        return Err(ApiError::new(403, "this page only looks", "start `ftl serve` without --look"));
    }
    asked.run(server)
}

pub(crate) fn reply(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let number = asked.param("order").parse::<u64>();
    let number =
        number.map_err(|_| ApiError::new(400, "an order is a number", "the one that was answered"))?;
    let reply = server.session.reply(number)?;
    Ok(Answer::Json(200, json!({ "order": number, "taken": reply.is_some(), "reply": reply })))
}

pub(crate) fn undo(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = may_speak(server, asked)?;
    let text = |name: &str| asked.body[name].as_str().unwrap_or_default();
    orders::bends(text("reason"), text("name"), server.speaker())?;
    let by = server.speaker().label();
    let mut document = server.documents.document(&["undo", row.run.as_str(), "--by", &by])?;
    document.as_object_mut().map(|document| document.remove("version"));
    Ok(Answer::Json(200, document))
}

/// The options of a flow that a page may set, and the flag of each.
const FLAGS: [(&str, &str); 6] = [
    ("agent", "--agent"),
    ("model", "--model"),
    ("max_cost", "--max-cost"),
    ("max_tokens", "--max-tokens"),
    ("tools", "--tools"),
    ("land", "--land"),
];

pub(crate) fn start(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    if server.look {
        return Err(ApiError::new(403, "this page only looks", "start `ftl serve` without --look"));
    }
    let words = words_of(&asked.body)?;
    let mut child = orders::detached(&server.session, &words, Stdio::piped(), server.speaker())?;
    let said = drain(&mut child);
    let pid = child.id();
    let until = Instant::now() + MAX_OPENING;
    while Instant::now() < until {
        let found = opened_by(server, pid)?;
        let ended = child.try_wait().ok().flatten();
        if let Some(run) = found {
            orders::wait_beside(child);
            return Ok(Answer::Json(202, json!({ "run": run })));
        }
        if ended.is_some() {
            return ended_early(&said);
        }
        std::thread::sleep(LOOK);
    }
    orders::wait_beside(child);
    Err(ApiError::new(504, "the run is not there yet", "`GET runs` lists it as soon as it is"))
}

/// The command line of what is to be started.
fn words_of(body: &Json) -> Result<Vec<String>, ApiError> {
    let text = |name: &str| body[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let (planned, objective) =
        (text("from_dry_run"), text("objective").filter(|text| text.len() <= MAX_TYPED));
    if planned.is_none() && objective.is_none() {
        return Err(ApiError::new(400, "an objective is missing", "say what is to be reached"));
    }
    let mut words: Vec<String> = match text("flow") {
        Some("task") => vec!["task".into(), "run".into()],
        Some("campaign") => vec!["campaign".into(), "run".into()],
        Some("code") => vec!["code".into()],
        Some(_) | None => return Err(ApiError::new(400, "there is no such flow", "task, campaign or code")),
    };
    for (name, flag) in FLAGS {
        if let Some(value) = text(name) {
            // A value that begins with a dash is a value all the same.
            words.push(format!("{flag}={value}"));
        }
    }
    words.extend((body["dry_run"] == true).then(|| String::from("--dry-run")));
    words.extend(planned.map(|run| format!("--from-dry-run={run}")));
    words.push(String::from("--json"));
    words.push(String::from("--"));
    // What was planned has its objective.
    words.extend(objective.filter(|_| planned.is_none()).map(str::to_owned));
    Ok(words)
}

/// The run that a process has opened, as soon as it has.
fn opened_by(server: &Server, pid: u32) -> Result<Option<RunId>, ApiError> {
    let newest = server.overviews(Most { open: 20, ended: 5 })?;
    let by = |driven: &Driven| matches!(driven, Driven::By(Some(card)) if card.pid == pid);
    Ok(newest.into_iter().find(|one| by(&one.driven)).map(|one| one.row.run))
}

/// Reads what a process prints to its end, and keeps the beginning.
fn drain(child: &mut Child) -> Receiver<Vec<u8>> {
    let (tell, told) = channel();
    if let Some(mut out) = child.stdout.take() {
        let _ = std::thread::Builder::new().name(String::from("said")).spawn(move || {
            let mut kept = Vec::new();
            let _ = out.by_ref().take(MAX_SAID).read_to_end(&mut kept);
            let _ = tell.send(kept);
            let _ = std::io::copy(&mut out, &mut std::io::sink());
        });
    }
    told
}

/// What a command said that ended before its run was seen in the store.
fn ended_early(said: &Receiver<Vec<u8>>) -> Result<Answer, ApiError> {
    let said = said.recv_timeout(LOOK * 20).unwrap_or_default();
    let document: Json = serde_json::from_slice(&said).unwrap_or_default();
    if let Some(run) = document["run"].as_str() {
        return Ok(Answer::Json(202, json!({ "run": run })));
    }
    let text = |name: &str, otherwise: &str| one_line(document["error"][name].as_str().unwrap_or(otherwise));
    Err(ApiError::new(
        422,
        text("message", "it ended before its run was there"),
        text("hint", "type the same command in a terminal"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_started_by_the_words_of_a_command() {
        let body = json!({ "flow": "campaign", "objective": "--help", "max_cost": "2.50", "dry_run": true });
        let words = words_of(&body).unwrap();
        assert_eq!(words, ["campaign", "run", "--max-cost=2.50", "--dry-run", "--json", "--", "--help"]);
        let planned = json!({ "flow": "campaign", "objective": "x", "from_dry_run": "abcdefgh" });
        let words = ["campaign", "run", "--from-dry-run=abcdefgh", "--json", "--"];
        assert_eq!(words_of(&planned).unwrap(), words);
        assert_eq!(words_of(&json!({ "flow": "task" })).unwrap_err().status, 400);
        assert_eq!(words_of(&json!({ "flow": "rm", "objective": "x" })).unwrap_err().status, 400);
    }
}
