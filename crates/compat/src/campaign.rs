//! `ftl campaign`: the one current campaign, its tasks and its archive.

use std::path::Path;

use ftl_command::input::text_of;
use ftl_command::records::{failure, open, tell, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_core::json::{Json, JsonExt as _, Object};
use ftl_folder::clock;
use ftl_records::campaign::no_campaign;
use ftl_records::lessons::alike;
use ftl_records::{RecordError, Records, views};

use crate::words::{CampaignVerb, Similar};
use crate::{look, print, word};

/// Does what a verb says about the current campaign, or the one that was named.
pub fn run(cli: &GlobalArgs, verb: &CampaignVerb, out: &Out) -> Result<ExitStatus, CommandError> {
    let now = clock::local();
    match verb {
        CampaignVerb::Create { objective, framework } => {
            let made = with(out, &open(cli)?, |records| {
                records.create_campaign(objective, framework.as_deref(), &now)
            })?;
            print(out, &made.to_json())
        }
        CampaignVerb::AddTasks => {
            let text = text_of(Path::new("-"))?;
            with(out, &existing(cli)?, |records| records.add_tasks_lax(&text, &now))?;
            word(out, "Tasks added")
        }
        CampaignVerb::UpdateTask { seq, status } => {
            with(out, &existing(cli)?, |records| records.update_task(seq, status, &now))?;
            word(out, &format!("Task {seq} \u{2192} {status}"))
        }
        CampaignVerb::PropagateBlocks => {
            let Some(records) = look(cli)? else { return word(out, NOTHING_BLOCKED) };
            match with(out, &records, |records| records.propagate_blocks(&now))?.as_slice() {
                [] => word(out, NOTHING_BLOCKED),
                seqs => word(out, &format!("Propagated blocks to: {}", seqs.join(", "))),
            }
        }
        CampaignVerb::Complete { summary } => {
            let closed = with(out, &existing(cli)?, |records| {
                records.complete_campaign(summary.as_deref(), &[], &now)
            })?;
            print(out, &closed.to_json())
        }
        CampaignVerb::MergeRevisedPlan { file } => merge(cli, file, &now, out),
        CampaignVerb::Export { file, start, end } => {
            let records = open(cli)?;
            print(
                out,
                &with(out, &records, |records| records.export(file, start.as_deref(), end.as_deref()))?,
            )
        }
        CampaignVerb::NextTask
        | CampaignVerb::ReadyTasks
        | CampaignVerb::CascadeStatus
        | CampaignVerb::Status
        | CampaignVerb::Active
        | CampaignVerb::History
        | CampaignVerb::Fingerprint
        | CampaignVerb::FindSimilar(_)
        | CampaignVerb::GetReplanInput
        | CampaignVerb::Summary
        | CampaignVerb::CascadeAnalysis => show(cli, verb, out),
    }
}

const NOTHING_BLOCKED: &str = "No blocks to propagate";

/// The records of a campaign that must be there: where there is no state, none is made.
fn existing(cli: &GlobalArgs) -> Result<Records, CommandError> {
    look(cli)?.ok_or_else(|| failure(&no_campaign()))
}

fn show(cli: &GlobalArgs, verb: &CampaignVerb, out: &Out) -> Result<ExitStatus, CommandError> {
    let Some(records) = look(cli)? else { return print(out, &nothing(verb)) };
    print(out, &with(out, &records, |records| print_verb(records, verb))?)
}

/// What a verb that only looks prints.
fn print_verb(records: &Records, verb: &CampaignVerb) -> Result<Json, RecordError> {
    match verb {
        CampaignVerb::History => return records.history(),
        CampaignVerb::Fingerprint => return records.fingerprint(),
        CampaignVerb::FindSimilar(asked) => {
            return records.find_similar(asked.threshold, asked.max, &alike);
        }
        CampaignVerb::CascadeStatus => return Ok(views::cascade(&records.cascade()?)),
        _ => {}
    }
    let Some(campaign) = records.campaign()? else { return Ok(nothing(verb)) };
    Ok(match verb {
        CampaignVerb::NextTask => campaign.ready()?.first().map_or(Json::Null, |one| one.to_json()),
        CampaignVerb::ReadyTasks => Json::Array(campaign.ready()?.iter().map(|one| one.to_json()).collect()),
        CampaignVerb::Active if !campaign.is_active() => Json::Null,
        CampaignVerb::GetReplanInput => campaign.replan_input(&records.evidence()?),
        CampaignVerb::Summary => campaign.summary(&records.evidence()?),
        CampaignVerb::CascadeAnalysis => campaign.cascade_analysis(&records.evidence()?)?,
        _ => campaign.to_json(),
    })
}

/// What a verb that only looks prints where there is no campaign.
fn nothing(verb: &CampaignVerb) -> Json {
    let empty = || Json::Object(Object::new());
    match verb {
        CampaignVerb::ReadyTasks | CampaignVerb::FindSimilar(_) => Json::Array(Vec::new()),
        CampaignVerb::CascadeStatus | CampaignVerb::CascadeAnalysis => {
            Json::object([("state", Json::from("none"))])
        }
        CampaignVerb::Status | CampaignVerb::Summary => views::status(None),
        CampaignVerb::History => Json::object([("archives", Json::Array(Vec::new()))]),
        CampaignVerb::Fingerprint | CampaignVerb::GetReplanInput => empty(),
        _ => Json::Null,
    }
}

/// A revision that is refused changes nothing and says why in the answer, as its scripts expect.
fn merge(cli: &GlobalArgs, file: &Path, now: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    let records = existing(cli)?;
    let refused = |message: &str| {
        Json::object([
            ("error", Json::from(message)),
            ("merged", Json::from(0)),
            ("unchanged", Json::from(0)),
        ])
    };
    if with(out, &records, Records::campaign)?.is_none() {
        return Err(failure(&no_campaign()));
    }
    let text = match text_of(file) {
        Ok(text) => text,
        Err(error) => {
            out.error(&error);
            return print(out, &refused(&error.message));
        }
    };
    match records.merge_plan(&text, now) {
        Ok(done) => {
            tell(out, &records);
            for seq in &done.kept {
                out.note(&format!("task {seq} is complete or being worked on and stays as it is"));
            }
            print(
                out,
                &Json::object([
                    ("merged", Json::from(done.merged)),
                    ("unchanged", Json::from(done.unchanged)),
                ]),
            )
        }
        Err(RecordError::Plan(errors)) => {
            let said = failure(&RecordError::Plan(errors.clone()));
            out.error(&said);
            let mut answer = refused(&said.message);
            answer.put(
                "errors",
                Json::Array(errors.iter().map(ftl_records::plan_file::PlanError::to_json).collect()),
            );
            print(out, &answer)
        }
        Err(error) => Err(failure(&error)),
    }
}

/// `ftl similar`.
pub(crate) fn similar(cli: &GlobalArgs, asked: &Similar, out: &Out) -> Result<ExitStatus, CommandError> {
    show(cli, &CampaignVerb::FindSimilar(*asked), out)
}
