//! The actions on a campaign's records: created, filled, updated, analysed, archived.
//!
//! They are the same functions that the commands use. Each can be asked for again after a crash: what it has done
//! already it finds done, and answers the same. Nothing here touches git.

use ftl_core::catalogue::campaign as shapes;
use ftl_core::json::{Json, JsonExt as _};
use ftl_core::plan::TaskStatus;
use ftl_core::run::Failure;

use super::Job;
use super::typed::{Done, json_of, shaped};
use ftl_folder::clock;
use ftl_records::campaign::no_campaign;
use ftl_records::campaign_state::Campaign;
use ftl_records::followed::Look;
use ftl_records::plan_file::merge::CampaignTask;
use ftl_records::{Records, views};

/// How many tasks at work an answer lists.
const MAX_LISTED: usize = 16;

/// Performs `campaign.create`.
pub(super) fn create(
    records: &Records,
    job: &Job,
    asked: &shapes::CampaignCreate,
) -> Done<shapes::CampaignCreate> {
    let framework = asked.framework.as_deref();
    let made = records.create_campaign_once(&job.key(), &asked.objective, framework, &clock::local())?;
    let created_at = made.field("created_at").and_then(Json::as_str).map(str::to_owned);
    Ok(shapes::Opened { objective: made.objective().to_owned(), branch: None, created_at })
}

/// Performs `campaign.add_tasks`.
pub(super) fn add_tasks(
    records: &Records,
    _: &Job,
    asked: &shapes::CampaignAddTasks,
) -> Done<shapes::CampaignAddTasks> {
    let text = json_of(&asked.plan)?.line();
    records.add_tasks(&text, &clock::local())?;
    let campaign = campaign_of(records)?;
    let seqs: Vec<String> = campaign.tasks().iter().map(|one| one.task.seq.clone()).collect();
    Ok(shapes::Registered { count: seqs.len() as u64, seqs })
}

/// Performs `campaign.update_task`.
pub(super) fn update_task(
    records: &Records,
    _: &Job,
    asked: &shapes::CampaignUpdateTask,
) -> Done<shapes::CampaignUpdateTask> {
    let (status, word) = match asked.verdict {
        shapes::Verdict::Complete => (shapes::TaskStatus::Complete, "complete"),
        shapes::Verdict::Blocked | shapes::Verdict::Escalated | shapes::Verdict::Error => {
            (shapes::TaskStatus::Blocked, "blocked")
        }
    };
    records.update_task(&asked.task, word, &clock::local())?;
    Ok(shapes::Updated { seq: asked.task.clone(), status })
}

/// Performs `campaign.cascade_status`.
pub(super) fn cascade_status(
    records: &Records,
    _: &Job,
    _: &shapes::CampaignCascadeStatus,
) -> Done<shapes::CampaignCascadeStatus> {
    let mut json = views::cascade(&records.cascade()?);
    for key in ["complete", "blocked", "pending", "ready"] {
        if json.get(key).is_none() {
            json.put(key, Json::from(0));
        }
    }
    if json.get("unreachable").is_none() {
        json.put("unreachable", Json::Array(Vec::new()));
    }
    shaped(&json)
}

/// Performs `campaign.propagate_blocks`.
pub(super) fn propagate_blocks(
    records: &Records,
    _: &Job,
    _: &shapes::CampaignPropagateBlocks,
) -> Done<shapes::CampaignPropagateBlocks> {
    let blocked = records.propagate_blocks(&clock::local())?;
    Ok(shapes::Propagated { count: blocked.len() as u64, blocked })
}

/// Performs `campaign.replan_input`.
pub(super) fn replan_input(
    records: &Records,
    _: &Job,
    asked: &shapes::CampaignReplanInput,
) -> Done<shapes::CampaignReplanInput> {
    let evidence = records.evidence()?;
    let mut json = campaign_of(records)?.replan_input(&evidence);
    json.put("reason", asked.reason.clone());
    let rest = json.get("remaining_tasks").map(|rest| rest.items().to_vec()).unwrap_or_default();
    json.put("remaining_tasks", Json::Array(rest.into_iter().map(with_depends_listed).collect()));
    shaped(&json)
}

/// Performs `campaign.merge_plan`.
pub(super) fn merge_plan(
    records: &Records,
    _: &Job,
    asked: &shapes::CampaignMergePlan,
) -> Done<shapes::CampaignMergePlan> {
    let text = json_of(&asked.revised)?.line();
    records.merge_plan(&text, &clock::local())?;
    shaped(&plan_of(&campaign_of(records)?))
}

/// Performs `campaign.root_causes`.
pub(super) fn find_root_causes(
    records: &Records,
    _: &Job,
    _: &shapes::CampaignRootCauses,
) -> Done<shapes::CampaignRootCauses> {
    let campaign = campaign_of(records)?;
    let analysis = campaign.cascade_analysis(&records.evidence()?)?;
    root_causes(&campaign, &analysis)
}

/// Performs `campaign.complete`.
pub(super) fn complete(
    records: &Records,
    _: &Job,
    asked: &shapes::CampaignComplete,
) -> Done<shapes::CampaignComplete> {
    let patterns = asked.patterns.clone().unwrap_or_default();
    records.complete_campaign(asked.summary.as_deref(), &patterns, &clock::local())?;
    let archives = records.archives()?;
    let archive = archives.first().map(|(name, _)| format!(".ftl/archive/{name}.json"));
    Ok(shapes::Closed { archive, summary: asked.summary.clone() })
}

/// How the tasks of a campaign stand, as one look has found them.
pub(super) fn tasks_of(look: &Look<'_>) -> Result<shapes::Tasks, Failure> {
    let shaped_all = |all: &[&CampaignTask]| -> Result<Vec<shapes::Task>, Failure> {
        all.iter().map(|one| shaped(&task_json(one))).collect()
    };
    // At most MAX_LISTED: a journal that lists all of them in every round grows with the square of their number.
    let listed = &look.running[..look.running.len().min(MAX_LISTED)];
    Ok(shapes::Tasks {
        ready: shaped_all(&look.startable)?,
        running: shaped_all(listed)?,
        waiting_count: Some(look.pending.saturating_sub(look.startable.len()) as u64),
    })
}

fn campaign_of(records: &Records) -> Result<Campaign, Failure> {
    records.campaign()?.ok_or_else(|| Failure::from(no_campaign()))
}

/// A task with its dependencies as a list, which plans may also say as a word.
fn task_json(one: &CampaignTask) -> Json {
    let mut json = one.to_json();
    json.put("depends", Json::from(one.task.depends.as_slice()));
    json
}

fn with_depends_listed(mut task: Json) -> Json {
    let depends = match task.get("depends") {
        Some(Json::Array(list)) => Json::Array(list.clone()),
        Some(Json::String(word)) if word != "none" && !word.is_empty() => Json::list([word.as_str()]),
        Some(_) | None => Json::Array(Vec::new()),
    };
    task.put("depends", depends);
    task
}

/// The tasks of a campaign as a plan.
fn plan_of(campaign: &Campaign) -> Json {
    let field = |key: &str| campaign.field(key).cloned().unwrap_or_default();
    Json::object([
        ("objective", field("objective")),
        ("framework", field("framework")),
        ("tasks", Json::Array(campaign.tasks().iter().map(|one| one.task.to_json()).collect())),
    ])
}

fn root_causes(campaign: &Campaign, analysis: &Json) -> Result<shapes::RootCauses, Failure> {
    let text = |json: &Json, key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let causes: Vec<shapes::RootCause> = analysis
        .get("root_blocks")
        .map(Json::items)
        .unwrap_or_default()
        .iter()
        .map(|root| {
            let seq = text(root, "seq");
            let below = campaign.tasks().iter().filter(|one| one.root_causes.contains(&seq));
            let mut affected: Vec<String> = below.map(|one| one.task.seq.clone()).collect();
            let waiting = root.get("unreachable").map(Json::items).unwrap_or_default();
            affected.extend(waiting.iter().filter_map(Json::as_str).map(str::to_owned));
            affected.sort();
            affected.dedup();
            shapes::RootCause { seq, reason: text(root, "reason"), affected }
        })
        .collect();
    let all =
        !campaign.tasks().is_empty() && campaign.tasks().iter().all(|one| one.status == TaskStatus::Blocked);
    Ok(shapes::RootCauses { single: all && causes.len() == 1, causes })
}
