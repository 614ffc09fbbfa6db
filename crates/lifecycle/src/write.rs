//! Artifacts that `ftl` itself writes, always in the newest shape and bound by digest.

use std::time::Duration;

use ftl_core::catalogue::lifecycle::Choice;
use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};

use super::folder::{DECISION, PATCH, PLAN_TRANSCRIPT, TRANSCRIPT, TaskFolder};
use super::phases::Phase;
use super::registry;
use ftl_folder::clock;

/// Now, as artifacts say it: UTC with milliseconds.
pub fn now() -> String {
    clock::utc(Duration::from_millis(clock::wall()), "%Y-%m-%dT%H:%M:%S.%3fZ")
}

/// A decision of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRecord<'a> {
    /// Accepted, deferred, or more work.
    pub choice: Choice,
    /// Where the work goes, when it was not accepted.
    pub route: Option<&'a str>,
    /// The person who decided.
    pub by: &'a str,
    /// The reason that the person gave; may be empty.
    pub reason: &'a str,
    /// Evidence that is missing and was decided without.
    pub without: &'a [&'a str],
}

/// Writes a decision; the one before is kept below `versions/`.
pub fn decision(folder: &TaskFolder, decision: &DecisionRecord<'_>) -> Result<(), registry::RegistryError> {
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    let mut json = Object::new().with("verdict", decision.choice.word());
    if let Some(route) = decision.route {
        json.set("route", route);
    }
    let reasons: Vec<&str> = Some(decision.reason).filter(|text| !text.is_empty()).into_iter().collect();
    json.set("reasons", Json::Array(reasons.into_iter().map(Json::from).collect()));
    if !decision.without.is_empty() {
        json.set(
            "missing_evidence",
            Json::Array(decision.without.iter().map(|name| Json::from(*name)).collect()),
        );
    }
    let seen = registry::digests(folder);
    json.set(
        "artifacts",
        Json::object(seen.iter().map(|(name, digest)| (*name, Json::from(digest.as_str())))),
    );
    json.set("timestamp", now());
    json.set("decider", decision.by);
    json.set("signals", Json::Array(Vec::new()));
    if let Some(patch) = patch {
        json.set("meta", Json::object([("diff_hash", Json::from(patch))]));
    }
    folder.archive(&[DECISION])?;
    folder.put_json(DECISION, &Json::from(json))?;
    Ok(())
}

/// What a person forced, or took back to where it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced<'a> {
    /// `override` or `redo`.
    pub kind: &'static str,
    /// The person who forced it.
    pub by: &'a str,
    /// The reason that the person gave.
    pub reason: &'a str,
    /// The phase that is left.
    pub from: &'a Phase,
    /// The phase that is entered.
    pub to: &'a Phase,
    /// The conditions that did not hold.
    pub guards: Vec<String>,
}

/// Writes into the transcript what is about to be forced. A line that is the last one already, because
/// a process was killed before it moved, is not written again.
pub fn forced(folder: &TaskFolder, forced: &Forced<'_>) -> std::io::Result<()> {
    let line = Json::object([
        ("ts", Json::from(now())),
        ("kind", Json::from(forced.kind)),
        ("by", Json::from(forced.by)),
        ("reason", Json::from(forced.reason)),
        ("from", Json::from(forced.from.word())),
        ("to", Json::from(forced.to.word())),
        ("guards", Json::from(forced.guards.clone())),
    ]);
    let same = |last: &Json| {
        let text = |json: &Json, key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
        ["kind", "by", "reason", "from", "to"].iter().all(|key| text(last, key) == text(&line, key))
    };
    if forced.kind == "override" && folder.last_line(TRANSCRIPT).as_ref().is_some_and(same) && unmoved(folder)
    {
        return Ok(());
    }
    folder.add_line(TRANSCRIPT, &line)
}

/// Whether `state.json` is older than the transcript: nothing moved since its last line.
fn unmoved(folder: &TaskFolder) -> bool {
    let written =
        |name: &str| ftl_folder::metadata(&folder.file(name)).and_then(|found| found.modified()).ok();
    written(super::folder::STATE) <= written(TRANSCRIPT)
}

/// Writes what a task is about into its planning transcript.
pub fn brief(folder: &TaskFolder, brief: &str) -> std::io::Result<()> {
    let line = Json::object([
        ("ts", Json::from(now())),
        ("role", Json::from("user")),
        ("kind", Json::from("brief")),
        ("text", Json::from(brief)),
    ]);
    folder.add_line(PLAN_TRANSCRIPT, &line)
}
