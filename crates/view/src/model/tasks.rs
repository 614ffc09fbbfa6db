//! The tasks as rows of plain columns, so that a face can compare two pictures and send only what differs.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::RunModel;
use super::graph::{GraphNode, Places, places_folded};
use super::timeline::BarKind;
use crate::board::{TaskRow, TaskStage};
use crate::cause::cause;

/// The names of the columns.
pub const COLUMNS: [&str; 11] =
    ["seq", "slug", "depth", "stands", "state", "since", "tools", "commit", "why", "depends", "instance"];

impl RunModel {
    /// The tasks, a row each, those with fewer before them first.
    pub fn task_rows(&self) -> Vec<Json> {
        self.board.rows().iter().map(|row| self.task_row(row)).collect()
    }

    fn task_row(&self, row: &TaskRow) -> Json {
        let (mut state, mut since, mut tools, mut commit, mut why) =
            (Json::Null, Json::Null, Json::Null, Json::Null, Json::Null);
        match &row.stands {
            TaskStage::Works(work) => {
                (state, since) = (json!(work.state), json!(work.since));
                tools = work.tools.map_or(Json::Null, |(used, limit)| json!([used, limit]));
                why = work.doing.as_ref().map_or(Json::Null, |doing| json!(doing.to_string()));
            }
            TaskStage::Landed(landed) => commit = json!(landed),
            TaskStage::Blocked(reason) | TaskStage::Held(reason) => why = json!(plain(&cause(reason))),
            TaskStage::Waits(on) | TaskStage::Unreachable(on) => why = json!(on.join(" ")),
        }
        let instance = self.board.last_of(&row.seq).map(|one| one.0);
        let word = stage_word(&row.stands);
        json!([row.seq, row.slug, row.depth, word, state, since, tools, commit, why, row.depends, instance])
    }

    /// Where the tasks stand in a drawing, in the order of `task_rows`; those of some depths may be folded.
    pub fn places(&self, folded: &BTreeSet<usize>) -> Places {
        let rows = self.board.rows();
        let now = self.board.times.map_or(0, |(_, last)| last);
        let is_work = |kind: &BarKind| !matches!(kind, BarKind::Slot | BarKind::File | BarKind::Person);
        let weight = |seq: &str| {
            let sums = self.timeline.sums(seq, now).into_iter();
            sums.filter(|(kind, _)| is_work(kind)).map(|(_, took)| took).sum()
        };
        let nodes: Vec<GraphNode<'_>> = rows
            .iter()
            .map(|row| GraphNode { seq: &row.seq, depends: &row.depends, weight: weight(&row.seq) })
            .collect();
        places_folded(&nodes, folded)
    }

    /// The tasks of the critical path, from its first to its last.
    pub fn critical(&self) -> Vec<String> {
        let rows = self.board.rows();
        let seq = |at: &u32| rows.get(usize::try_from(*at).ok()?).map(|row| row.seq.clone());
        self.places(&BTreeSet::new()).critical.iter().filter_map(seq).collect()
    }
}

/// How far a task is, in one word that every face uses.
pub fn stage_word(stage: &TaskStage) -> &'static str {
    match stage {
        TaskStage::Waits(on) if on.is_empty() => "next",
        TaskStage::Waits(_) => "waits",
        TaskStage::Unreachable(_) => "unreachable",
        TaskStage::Works(_) => "works",
        TaskStage::Held(_) => "held",
        TaskStage::Landed(_) => "landed",
        TaskStage::Blocked(_) => "blocked",
    }
}

/// A text without the styles of a terminal.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
