//! What code can find out about a repository before any model is asked: where things are, how things are
//! done, what happened before, what is likely to change.
//!
//! Each mode is a plain function over a folder, in the shape that `exploration.json` has for it. Its status
//! is always `partial`: code finds, it does not understand. Nothing here changes anything, starts anything
//! but git, or goes beyond its limits.

mod delta;
mod memory;
mod pattern;
mod structure;
mod survey;
#[cfg(test)]
mod tests;
mod words;

pub use delta::{MAX_CANDIDATES, MAX_FUNCTIONS};
pub use memory::{MAX_SIMILAR, SIMILAR};
pub use pattern::{MAX_SECTIONS, MAX_SIMILAR_FILES};
pub use structure::{MAX_DIRECTORIES, MAX_NAMED};
pub use survey::{
    Listed, MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_LIST_BYTES, MAX_READS, MAX_TIME, Survey, SurveyLimits,
    SurveyedFile,
};
pub use words::MAX_TERMS;

use crate::exploration::ExplorerMode;
use crate::{RecordError, Records};
use ftl_core::json::{Json, JsonExt as _};

/// What code finds in one mode. Only the memory needs records; without any it remembers nothing.
pub fn look(
    mode: ExplorerMode,
    objective: &str,
    survey: &Survey<'_>,
    records: Option<&Records>,
) -> Result<Json, RecordError> {
    let mut json = Json::object([("mode", Json::from(mode.word())), ("status", Json::from("partial"))]);
    let found = match mode {
        ExplorerMode::Structure => structure::look(survey),
        ExplorerMode::Pattern => pattern::look(survey, objective),
        ExplorerMode::Memory => memory::look(records, objective)?,
        ExplorerMode::Delta => delta::look(survey, objective),
    };
    for (key, value) in found.into_fields() {
        json.put(&key, value);
    }
    if mode == ExplorerMode::Structure
        && let Some(commands) = commands(survey, records)
    {
        json.put("commands", commands);
    }
    if let Some(why) = survey.left_out() {
        json.put("left_out", why);
    }
    Ok(json)
}

/// How the repository is set up, built, tested and linted: what planners build their verify commands of.
fn commands(survey: &Survey<'_>, records: Option<&Records>) -> Option<Json> {
    let named = records.map(|records| records.options().commands.clone()).unwrap_or_default();
    named.or_found(survey.root()).to_json()
}

/// An agent's answer with what it left out filled in from what code found. What the agent says stands.
pub fn united(said: &Json, found: &Json) -> Json {
    let mut all = said.clone();
    for (key, value) in found.fields() {
        let is_said =
            said.get(key).is_some_and(|one| !one.is_null() && !one.as_array().is_some_and(Vec::is_empty));
        if !is_said {
            all.put(key, value.clone());
        }
    }
    all
}

/// What code found, with the reason why no agent has looked beyond it.
pub fn alone(mut found: Json, why: &str) -> Json {
    found.put("error", why);
    found
}
