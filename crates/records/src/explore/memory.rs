//! What happened before: lessons that bear on the objective, and campaigns that are like it.
//!
//! Looking counts nothing: that a lesson was given out is counted where a brief gives it to a builder.

use ftl_memory::StoredKind;
use ftl_memory::recall::ContextRequest;

use crate::lessons::{alike, now};
use crate::{RecordError, Records};
use ftl_core::json::{Json, JsonExt as _};

/// How much alike a campaign must be, from 0 to 1.
pub const SIMILAR: f64 = 0.5;

/// How many campaigns are named.
pub const MAX_SIMILAR: usize = 3;

/// What is told of a campaign.
const TOLD: [&str; 4] = ["objective", "similarity", "outcome", "patterns_from"];

pub(super) fn look(records: Option<&Records>, objective: &str) -> Result<Json, RecordError> {
    let Some(records) = records else {
        return Ok(memory_document(Json::Array(Vec::new()), &Json::Null, (0, 0)));
    };
    let (asked, now) =
        (ContextRequest { objective: Some(objective.to_owned()), ..ContextRequest::default() }, now());
    let (given, totals) = records.look_up(|lessons| {
        let totals = (lessons.count(StoredKind::Failure)?, lessons.count(StoredKind::Pattern)?);
        let mut given = lessons.context(&asked, &now)?;
        // A failure without a remedy takes room in the planner's prompt and does not help it.
        given.failures.retain(|entry| entry.lesson.has_remedy());
        Ok((given, totals))
    })?;
    let similar = records.campaigns_like(objective, SIMILAR, MAX_SIMILAR, &alike)?;
    let told =
        |row: &Json| Json::object(TOLD.into_iter().filter_map(|key| Some((key, row.get(key)?.clone()))));
    let similar = Json::Array(similar.items().iter().map(told).collect());
    Ok(memory_document(similar, &given.to_json(false), totals))
}

fn memory_document(similar: Json, given: &Json, (failures, patterns): (u64, u64)) -> Json {
    let empty = |key| (key, Json::Array(Vec::new()));
    let mut json = Json::object([empty("failures"), empty("patterns")]);
    for (key, value) in given.fields() {
        json.put(key, value.clone());
    }
    json.put("similar_campaigns", similar);
    let totals = [("failures", Json::from(failures)), ("patterns", Json::from(patterns))];
    json.put("total_in_memory", Json::object(totals));
    json
}
