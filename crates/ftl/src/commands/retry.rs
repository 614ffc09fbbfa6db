//! `ftl retry RUN [SEQ…]`: the blocked tasks of a run that has ended, and what waited for them, as a new run.
//!
//! The new run goes on from the branch of the earlier one where the person has not got its work, tells each task why it
//! was blocked, and begins from the work that is kept unless it is to begin anew. The earlier run stays as it is.

use std::collections::BTreeSet;

use ftl_command::session::session_failure;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, inbox, session};
use ftl_engine::executors::worktrees::retry::Retried;
use ftl_engine::session::{RunOptions, Session, find};
use ftl_folder::id::RunId;
use ftl_records::plan_file::CampaignPlan;
use ftl_view::board::{TaskRow, TaskStage};

use super::flow::{Course, carry_out, course_of, planned};
use super::run::board_of;
use crate::cli::RetryArgs;

/// Tries blocked tasks again.
pub(crate) fn retry(cli: &GlobalArgs, asked: &RetryArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let store = session::store_of_runs(&place)?;
    let row = find(&*store, &asked.run).map_err(|error| session_failure(&error))?.row;
    drop(store);
    if !row.settled {
        let message = format!("run {} has not ended", row.run);
        let hint =
            format!("`ftl resume {}` goes on with it; `ftl why {}` tells where it stands", row.run, row.run);
        return Err(CommandError { exit: ExitStatus::NotAllowed, ..CommandError::new(message, hint) });
    }
    let session = session::open(cli)?;
    let course = course(&session, &row.run, asked)?;
    inbox::put_away(&session, &row.run)?;
    drop(session);
    carry_out(cli, course, &asked.options, out)
}

/// What is to be done again of a run.
fn course(session: &Session, run: &RunId, asked: &RetryArgs) -> Result<Course, CommandError> {
    let (Some(course), Some(plan)) = (course_of(session, run)?, planned(session, run)?) else {
        let message = format!("run {run} has no plan whose tasks could be tried again");
        return Err(not_allowed(message, "`ftl retry` is for tasks and campaigns that came to a plan"));
    };
    let rows = board_of(session, run)?.rows();
    let again = choose_tasks(&rows, &asked.tasks, run)?;
    let plan = part_of(plan, &rows, &again);
    let retried = retried(session, run, (&plan, &rows), asked.fresh)?;
    let options = RunOptions { plan: Some(plan), after: Some(run.clone()), retried, ..RunOptions::default() };
    Ok(Course { options, ..course })
}

/// Whether a task began and has not landed.
fn is_blocked(row: &TaskRow) -> bool {
    match row.stands {
        TaskStage::Blocked(_) | TaskStage::Held(_) | TaskStage::Works(_) => true,
        TaskStage::Waits(_) | TaskStage::Unreachable(_) | TaskStage::Landed(_) => false,
    }
}

/// The blocked tasks that were named, or all of them.
fn choose_tasks(rows: &[TaskRow], named: &[String], run: &RunId) -> Result<BTreeSet<String>, CommandError> {
    let blocked: Vec<&TaskRow> = rows.iter().filter(|row| is_blocked(row)).collect();
    if blocked.is_empty() {
        let message = format!("no task of run {run} is blocked");
        return Err(not_allowed(message, &format!("`ftl why {run}` tells how it has ended")));
    }
    let known = || blocked.iter().map(|row| row.seq.clone()).collect::<Vec<_>>();
    if named.is_empty() {
        return Ok(known().into_iter().collect());
    }
    let plain = |seq: &str| seq.trim_start_matches('0').to_owned();
    let mut again = BTreeSet::new();
    for name in named {
        match blocked.iter().find(|row| plain(&row.seq) == plain(name)) {
            Some(row) => drop(again.insert(row.seq.clone())),
            None => {
                let message = format!("run {run} has no blocked task `{name}`");
                return Err(CommandError::new(
                    message,
                    format!("its blocked tasks are {}", known().join(", ")),
                ));
            }
        }
    }
    Ok(again)
}

/// The part of a plan that is done again: these tasks, and whatever needs nothing but them and what has landed.
fn part_of(mut plan: CampaignPlan, rows: &[TaskRow], again: &BTreeSet<String>) -> CampaignPlan {
    let landed: BTreeSet<&str> = rows
        .iter()
        .filter(|row| matches!(row.stands, TaskStage::Landed(_)))
        .map(|row| row.seq.as_str())
        .collect();
    let never_ran: Vec<&TaskRow> = rows
        .iter()
        .filter(|row| matches!(row.stands, TaskStage::Waits(_) | TaskStage::Unreachable(_)))
        .collect();
    let mut part = again.clone();
    // Each round takes those up whose parents are there; a plan has no more rounds than tasks.
    for _ in 0..never_ran.len() {
        for row in &never_ran {
            let is_there = |seq: &String| landed.contains(seq.as_str()) || part.contains(seq);
            if row.depends.iter().all(is_there) {
                part.insert(row.seq.clone());
            }
        }
    }
    plan.tasks.retain(|task| part.contains(&task.seq));
    for task in &mut plan.tasks {
        task.depends.retain(|seq| part.contains(seq));
    }
    plan
}

/// Why each task was blocked, and what is kept of its work.
fn retried(
    session: &Session,
    run: &RunId,
    (plan, rows): (&CampaignPlan, &[TaskRow]),
    fresh: bool,
) -> Result<Vec<Retried>, CommandError> {
    let mut all = Vec::new();
    for task in &plan.tasks {
        let Some(row) = rows.iter().find(|row| row.seq == task.seq && is_blocked(row)) else { continue };
        let reason = match &row.stands {
            TaskStage::Blocked(why) | TaskStage::Held(why) => why.clone(),
            TaskStage::Works(_) | TaskStage::Waits(_) | TaskStage::Unreachable(_) | TaskStage::Landed(_) => {
                String::from("it was stopped before it came to its end")
            }
        };
        let kept = match fresh {
            true => None,
            false => session.kept_of_task(run, &task.id()).map_err(|error| session_failure(&error))?,
        };
        all.push(Retried { task: task.id(), reason, kept });
    }
    Ok(all)
}

fn not_allowed(message: String, hint: &str) -> CommandError {
    CommandError { exit: ExitStatus::NotAllowed, ..CommandError::new(message, hint) }
}
