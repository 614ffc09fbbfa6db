//! The actions that read what a planner and explorers said: decisions, plans, explorations.
//!
//! Reading never repairs: what is wrong with a plan is listed for its author.

use std::path::Path;

use ftl_core::catalogue::flow;
use ftl_core::json::{Json, JsonExt as _};

use super::Job;
use super::table::Resources;
use super::typed::{Done, json_of, shaped};
use super::workspaces::display_path;
use ftl_folder::clock;
use ftl_records::Records;
use ftl_records::decision;
use ftl_records::exploration::{self, Meta};
use ftl_records::plan_file::missing_files;

/// Performs `decision.parse`.
pub(super) fn parse_decision(
    records: &Records,
    _: &Job,
    asked: &flow::DecisionParse,
) -> Done<flow::DecisionParse> {
    Ok(decided(asked, records.place().root()))
}

/// Performs `plan.parse`.
pub(super) fn parse_plan(_: &Records, _: &Job, asked: &flow::PlanParse) -> Done<flow::PlanParse> {
    let none = |problems| flow::ParsedPlan { problems, plan: None };
    Ok(match decision::parse(&asked.text).plan {
        Some(Ok(plan)) => flow::ParsedPlan { problems: Vec::new(), plan: Some(plan.to_shape()) },
        Some(Err(errors)) => none(errors.iter().map(ToString::to_string).collect()),
        None => none(vec![String::from("no plan found in the text")]),
    })
}

/// Performs `exploration.clear`.
pub(super) fn clear_exploration(
    records: &Records,
    _: &Job,
    _: &flow::ExplorationClear,
) -> Done<flow::ExplorationClear> {
    records.explore_apart()?;
    Ok(flow::Cleared { cleared: records.clear_exploration()? })
}

/// Performs `exploration.aggregate`.
pub(super) fn aggregate_exploration(
    with: &Resources,
    _: &Job,
    asked: &flow::ExplorationAggregate,
) -> Done<flow::ExplorationAggregate> {
    let answers: Vec<exploration::ExplorerAnswer> = pieces(&json_of(&asked.parts)?);
    let created_at = clock::local();
    let git_sha = match &with.agents {
        Some(agents) => agents.explorer.take_head(),
        None => exploration::short_head(with.records.records.place().root()),
    };
    let meta = Meta { created_at: &created_at, git_sha: &git_sha, objective: &asked.objective };
    shaped(&exploration::aggregate(&answers, meta))
}

/// Performs `exploration.write`.
pub(super) fn write_exploration(
    records: &Records,
    _: &Job,
    asked: &flow::ExplorationWrite,
) -> Done<flow::ExplorationWrite> {
    records.write_exploration(&json_of(&asked.exploration)?)?;
    Ok(flow::Written { path: display_path(records, &records.exploration_file()?), digest: None })
}

/// What a planner decided. A verify command that names a file which is not there and no task makes would be found out
/// after the work was paid for, so it is a problem of the plan.
fn decided(asked: &flow::DecisionParse, root: &Path) -> flow::Decision {
    let found = decision::parse(&asked.text);
    let mut problems = found.problems();
    if let Some(Ok(plan)) = &found.plan {
        problems.extend(missing_files(plan, root).iter().map(ToString::to_string));
    }
    let plan = match (&found.plan, asked.most) {
        (Some(Ok(plan)), Some(most)) if plan.tasks.len() as u64 > most => {
            problems.push(decision::too_many(plan.tasks.len(), most));
            None
        }
        (Some(Ok(plan)), _) => Some(plan.to_shape()),
        (Some(Err(_)) | None, _) => None,
    };
    // A question without a question mark is one, too.
    let mut questions = found.questions.clone();
    if questions.is_empty()
        && matches!(found.kind, decision::DecisionKind::Clarify | decision::DecisionKind::Confirm)
    {
        questions.push(decision::prose(&asked.text));
    }
    flow::Decision {
        kind: found.kind,
        problems,
        plan,
        selection: questions.first().cloned(),
        questions,
        markers_found: Some(found.markers.iter().map(|mark| (*mark).to_owned()).collect()),
    }
}

/// The explorers' answers: a list of them, or one under each mode. What is none is left out.
fn pieces(parts: &Json) -> Vec<exploration::ExplorerAnswer> {
    let named = parts.fields().map(|(mode, part)| (exploration::ExplorerMode::parse(mode), part));
    let listed = parts.items().iter().map(|part| (None, part));
    named
        .chain(listed)
        .filter_map(|(mode, part)| {
            let said = part.get("answer").or_else(|| part.get("value")).unwrap_or(part);
            match said {
                Json::String(text) => exploration::read_answer(text, mode).ok(),
                other => exploration::answer(other.clone(), mode).ok(),
            }
        })
        .collect()
}
