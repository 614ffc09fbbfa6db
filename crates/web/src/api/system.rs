//! What is not about one run: lessons, protocols with what runs have gone through, agents, settings.

use std::collections::BTreeMap;

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_core::run::{Cause, Fact, InstanceId, Payment};
use ftl_language::draw::{shapes, svg};
use ftl_store::{Most, journal};
use serde_json::{Value as Json, json};

use super::{Answer, ApiError, Asked};
use crate::server::Server;

/// How many runs the heat of a protocol is taken from: the newest.
const MAX_RUNS: usize = 40;

/// How many runs an edge names.
const MAX_NAMED: usize = 8;

/// How many entries are read at a time.
const PAGE: usize = 1000;

fn command(server: &Server, words: &[&str]) -> Result<Answer, ApiError> {
    let mut document = server.documents.document(words)?;
    document.as_object_mut().map(|document| document.remove("version"));
    Ok(Answer::Json(200, document))
}

pub(crate) fn lessons(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    match asked.query.get("q").map(|text| text.trim()).filter(|text| !text.is_empty()) {
        Some(text) => command(server, &["memory", "query", "--", text]),
        None => {
            let told = |words: &[&str]| server.documents.document(words);
            let all = told(&["memory", "export"])?;
            let (stats, quarantine) = (told(&["memory", "stats"])?, told(&["memory", "quarantine"])?);
            let document = json!({
                "failures": all["failures"], "patterns": all["patterns"], "stats": stats, "quarantine": quarantine,
            });
            Ok(Answer::Json(200, document))
        }
    }
}

pub(crate) fn protocols(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    command(server, &["protocols"])
}

pub(crate) fn agents(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    command(server, &["agents"])
}

pub(crate) fn config(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    command(server, &["config"])
}

pub(crate) fn doctor(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    command(server, &["doctor"])
}

pub(crate) fn salvage(server: &Server, _: &Asked) -> Result<Answer, ApiError> {
    command(server, &["salvage"])
}

/// Brings kept work back as a branch. It stays kept, and nobody's checkout is touched.
pub(crate) fn bring_back(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    if server.look {
        return Err(ApiError::new(403, "this page only looks", "start `ftl serve` without --look"));
    }
    let id = asked.body["id"].as_str().unwrap_or_default();
    // What is named begins with the name of a run: no word of it is a flag.
    if id.is_empty() || id.starts_with('-') {
        return Err(ApiError::new(400, "nothing is named", "`GET salvage` lists what is kept"));
    }
    command(server, &["salvage", id])
}

/// What is linked to a lesson.
pub(crate) fn lesson(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let name = asked.param("name");
    let related = server.documents.document(&["memory", "related", "--", name]);
    let solutions = server.documents.document(&["memory", "get-solutions", "--", name]);
    // One that is no failure has no solutions, and one that is alone no neighbours.
    let or_none = |found: Result<Json, _>| found.unwrap_or_else(|_: ftl_command::CommandError| json!([]));
    Ok(Answer::Json(
        200,
        json!({ "name": name, "related": or_none(related), "solutions": or_none(solutions) }),
    ))
}

pub(crate) fn protocol(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let name = asked.param("name");
    let loaded = LoadedProtocols::load(&server.cli)?;
    let found = loaded.library.machine(name);
    let found = found.ok_or_else(|| {
        ApiError::new(404, format!("there is no protocol `{name}`"), "`GET protocols` lists them")
    })?;
    let (edges, states, runs) = heat(server, name)?;
    Ok(Answer::Json(
        200,
        json!({
            "name": name, "svg": svg(&found), "shapes": shapes(&found), "runs": runs, "edges": edges, "states": states,
        }),
    ))
}

/// How often an edge was taken, by whom last, and how often because something failed.
#[derive(Default)]
struct Taken {
    count: u64,
    failures: u64,
    runs: Vec<String>,
}

/// What a state has cost.
#[derive(Default)]
struct Visited {
    visits: u64,
    time: u64,
    money: u64,
    tokens: u64,
    failures: u64,
}

/// What the newest runs of a protocol have gone through: edges, states with their time, and how many runs that are.
fn heat(server: &Server, protocol: &str) -> Result<(Vec<Json>, Vec<Json>, usize), ApiError> {
    let store = server.session.store();
    let mut edges: BTreeMap<(String, String), Taken> = BTreeMap::new();
    let mut states: BTreeMap<String, Visited> = BTreeMap::new();
    let mut count = 0;
    for row in store.newest(Most { open: MAX_RUNS, ended: MAX_RUNS })?.rows.into_iter().take(MAX_RUNS) {
        let mut at: BTreeMap<InstanceId, (String, u64)> = BTreeMap::new();
        let (mut after, mut is_one) = (0, false);
        loop {
            let page = store.entries(&row.run, after, PAGE)?;
            for record in &page {
                after = record.seq;
                // A run of a newer program adds nothing.
                let Ok(entry) = journal::decode(&**store, &row.run, record) else { continue };
                match &entry.fact {
                    Fact::Opened(opened) if &*opened.protocol == protocol => {
                        is_one = true;
                        at.insert(entry.instance, (opened.state.to_string(), entry.at));
                        states.entry(opened.state.to_string()).or_default().visits += 1;
                    }
                    Fact::Moved { from, to, cause, .. }
                        if let Some((state, since)) = at.get_mut(&entry.instance) =>
                    {
                        states.entry(from.to_string()).or_default().time += entry.at.saturating_sub(*since);
                        states.entry(to.to_string()).or_default().visits += 1;
                        (*state, *since) = (to.to_string(), entry.at);
                        let taken = edges.entry((from.to_string(), to.to_string())).or_default();
                        taken.count += 1;
                        let is_failure = matches!(cause, Cause::Else { .. } | Cause::Limit { .. });
                        taken.failures += u64::from(is_failure);
                        states.entry(from.to_string()).or_default().failures += u64::from(is_failure);
                        let run = row.run.to_string();
                        if taken.runs.len() < MAX_NAMED && taken.runs.last() != Some(&run) {
                            taken.runs.push(run);
                        }
                    }
                    Fact::Settled { .. } => {
                        if let Some((state, since)) = at.remove(&entry.instance) {
                            states.entry(state).or_default().time += entry.at.saturating_sub(since);
                        }
                    }
                    Fact::Paid(Payment::Budget { usage, .. }) => {
                        if let Some((state, _)) = at.get(&entry.instance) {
                            let of = |name: &str| usage.get(name).copied().unwrap_or(0);
                            let visited = states.entry(state.clone()).or_default();
                            visited.money += of("money");
                            visited.tokens += of("tokens");
                        }
                    }
                    _ => {}
                }
            }
            if page.len() < PAGE {
                break;
            }
        }
        count += usize::from(is_one);
    }
    let edge = |((from, to), taken): ((String, String), Taken)| json!({ "from": from, "to": to, "count": taken.count, "failures": taken.failures, "runs": taken.runs });
    let state = |(name, one): (String, Visited)| {
        json!({
            "state": name, "visits": one.visits, "time": one.time, "money": one.money, "tokens": one.tokens,
            "failures": one.failures,
        })
    };
    Ok((edges.into_iter().map(edge).collect(), states.into_iter().map(state).collect(), count))
}
