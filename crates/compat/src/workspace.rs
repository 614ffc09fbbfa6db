//! `ftl workspace`: the briefs that builders get.

use std::path::Path;

use ftl_code::context::Sources;
use ftl_command::input::text_of;
use ftl_command::records::{existing, failure, open, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_folder::clock;
use ftl_records::Records;
use ftl_records::briefs::{Budgets, Ends, Recall, parse_file};
use ftl_records::campaign_state::Campaign;
use ftl_records::plan_file::{self, LaxPlan, PlanTask};
use ftl_records::workspace::{BlockReason, Workspace as Brief, read_utilized};

use crate::words::{BlockArgs, WorkspaceVerb};
use crate::{look, print, word};

pub(crate) fn run(cli: &GlobalArgs, verb: &WorkspaceVerb, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        WorkspaceVerb::Create { plan, task } => create(cli, plan, task.as_deref(), out),
        WorkspaceVerb::Complete { path, delivered, utilized } => {
            complete(cli, path, delivered, utilized.as_deref(), out)
        }
        WorkspaceVerb::Block(asked) => block(cli, asked, out),
        WorkspaceVerb::Parse { path } => print(out, &parsed(cli, path, out)?.to_json()),
    }
}

/// A workspace as it is; where there is no state, none is made.
pub(crate) fn parsed(cli: &GlobalArgs, path: &Path, out: &Out) -> Result<Brief, CommandError> {
    match look(cli)? {
        Some(records) => with(out, &records, |records| records.parse_workspace(path)),
        None => parse_file(path).map_err(|error| failure(&error)),
    }
}

fn create(cli: &GlobalArgs, plan: &Path, task: Option<&str>, out: &Out) -> Result<ExitStatus, CommandError> {
    let text = text_of(plan)?;
    let campaign =
        existing(cli)?.map(|records| with(out, &records, Records::campaign)).transpose()?.flatten();
    let objective = campaign.as_ref().map(Campaign::objective);
    let LaxPlan { plan, note: told } =
        plan_file::read_lax(&text, objective).map_err(|errors| failure(&errors.into()))?;
    if let Some(told) = told {
        out.note(&told);
    }
    if plan.tasks.is_empty() {
        out.note("the plan has no tasks: no workspace is made");
        return if out.is_json() { word(out, "") } else { Ok(ExitStatus::Done) };
    }
    let records = open(cli)?;
    let made = with(out, &records, |records| {
        let recall = crate::memory::recall(records);
        // What the plan says stands: a flow asks the settings too, this command does as the FTL plugin.
        let as_planned = |_: &PlanTask, _: bool, _: f64| None;
        let means: (Recall<'_>, Sources<'_>, Budgets<'_>) =
            (&recall, &|path| records.source(path), &as_planned);
        records.create_workspaces(&plan, task, means, &clock::local())
    })?;
    let lines: Vec<String> = made.iter().map(|path| format!("Created: {}", display_path(path))).collect();
    word(out, &lines.join("\n"))
}

fn complete(
    cli: &GlobalArgs,
    path: &Path,
    delivered: &str,
    utilized: Option<&str>,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let used = utilized.map_or_else(|| Ok(Vec::new()), read_utilized);
    let used = used.map_err(|refusal| failure(&refusal.into()))?;
    let records = open(cli)?;
    let now = clock::local();
    let (path, brief) = with(out, &records, |records| {
        records.complete_workspace(path, (delivered, &used), Ends { now: &now, run: None })
    })?;
    credit(&records, &brief, out);
    word(out, &format!("Completed: {}", display_path(&path)))
}

/// Lessons that were injected and used have helped, the others have not. The workspace is complete
/// whether or not that can be recorded.
fn credit(records: &Records, brief: &Brief, out: &Out) {
    if let Err(error) = crate::memory::credit(records, brief) {
        out.warning(&failure(&error));
    }
}

fn block(cli: &GlobalArgs, asked: &BlockArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let reason = match (&asked.reason, &asked.reason_file) {
        (Some(reason), _) if reason == "-" => text_of(Path::new("-"))?,
        (Some(reason), _) => reason.clone(),
        (None, Some(file)) => text_of(file)?,
        (None, None) => return Err(CommandError::usage("no reason is given", "say why with --reason TEXT")),
    };
    let mut why = BlockReason::read(&reason).map_err(|refusal| failure(&refusal.into()))?;
    why = why.with(asked.tried.as_deref(), asked.unknown.as_deref());
    why.escalated |= asked.escalated;
    let records = open(cli)?;
    let ends = Ends { now: &clock::local(), run: None };
    let (path, _) = with(out, &records, |records| records.block_workspace(&asked.path, &why, ends))?;
    word(out, &format!("Blocked: {}", display_path(&path)))
}

/// A path as it is shortest from where the person stands.
fn display_path(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let short = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    short.unwrap_or(path).display().to_string()
}
