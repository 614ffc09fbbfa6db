//! `ftl status`: every run, where it stands, what it spent, and what it waits for.
//!
//! It reads the summaries that stand beside the journals and nothing else, so that it is quick however
//! long the runs are. It never makes a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::session::session_failure;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, records, session};
use ftl_core::amount::Unit;
use ftl_core::json::Json;
use ftl_core::plan::TaskStatus;
use ftl_core::run::{InstanceId, ROOT, Run as Machine, Time};
use ftl_engine::session::{RunTarget, find};
use ftl_folder::clock;
use ftl_records::campaign_state::Campaign;
use ftl_records::{Records, views};
use ftl_store::journal;
use ftl_store::{Most, Newest, Store};
use ftl_view::cause::cause;
use ftl_view::paint::{self, paint, safe};
use ftl_view::relative_time;
use ftl_view::runs;
use ftl_view::summary::Spent;
use serde::Serialize;

use super::why;
use crate::cli::StatusArgs;
use ftl_command::document::RunDocument;
use ftl_command::known::RunOverview;

/// How many runs that have ended are shown unless all are asked for.
const MAX_ENDED: usize = 10;

/// How many runs that have not ended are shown unless all are asked for.
const MAX_OPEN: usize = 100;

/// How many things that a run waits for are shown when it is one of several.
const MAX_WAITS: usize = 3;

/// How wide the column of protocol and state is at most.
const MAX_AT: usize = 26;

/// How far the second and later lines of a run are indented.
const INDENT: usize = 10;

/// `ftl status`: runs with state, standing and cost.
pub(crate) fn run(cli: &GlobalArgs, asked: &StatusArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let mut instance = None;
    let newest = match &asked.id {
        Some(id) => {
            let store = session::store_of_runs(&place)?;
            let target = find(&*store, id).map_err(|error| session_failure(&error))?;
            if target.instance != ROOT {
                instance = Some(replayed(cli, &*store, &target)?);
            }
            Newest { rows: vec![target.row], ..Newest::default() }
        }
        None => match session::store(&place)? {
            Some(store) => {
                if let Err(error) = store.check_loss() {
                    out.warning(&session::store_failure(&error));
                }
                // What is not shown is not even read.
                store.newest(most(asked, out)).map_err(|error| session::store_failure(&error))?
            }
            None => Newest::default(),
        },
    };
    let left_out = LeftOut::from(&newest);
    let mut known = newest
        .rows
        .into_iter()
        .map(|row| RunOverview::of(&place, row))
        .collect::<Result<Vec<RunOverview>, CommandError>>()?;
    if let Some((run, id)) = &instance {
        known = known.into_iter().map(|one| one.of_instance(run, *id)).collect();
    }
    if out.is_json() {
        let campaign = views::status(campaign(cli, out)?.as_ref());
        out.json(&Documents { campaign, runs: known.iter().map(RunDocument::of_overview).collect() })?;
        return Ok(ExitStatus::Done);
    }
    if asked.id.is_none()
        && let Some((head, tasks)) = outline(cli, out)?.filter(|(head, _)| head.is_active())
    {
        out.text(&format!("{}\n", campaign_line(&head, &tasks)))?;
    }
    if known.is_empty() {
        out.text("no runs\n")?;
    } else {
        let width = out::terminal().map(|(width, _)| width);
        let whole = asked.id.is_some();
        out.text(&Table::of(&known, left_out, width).text(whole))?;
    }
    Ok(ExitStatus::Done)
}

/// A run out of its journal, to look at one instance of it.
fn replayed(
    cli: &GlobalArgs,
    store: &dyn Store,
    target: &RunTarget,
) -> Result<(Machine, InstanceId), CommandError> {
    let run = &target.row.run;
    let entries = journal::load(store, run).map_err(|error| session::drive_failure(&error.into()))?;
    let machine = Machine::replay(Arc::new(LoadedProtocols::load(cli)?.library), &entries);
    if machine.instance(target.instance).is_none() {
        return Err(why::no_instance(run, target.instance, machine.instances().len()));
    }
    Ok((machine, target.instance))
}

/// The campaign in front, if there is one.
fn campaign(cli: &GlobalArgs, out: &Out) -> Result<Option<Campaign>, CommandError> {
    let Some(records) = records::existing(cli)? else { return Ok(None) };
    records::with(out, &records, Records::campaign)
}

/// The head of the campaign in front and how its tasks stand, if there is one.
fn outline(cli: &GlobalArgs, out: &Out) -> Result<Option<(Campaign, Vec<TaskStatus>)>, CommandError> {
    let Some(records) = records::existing(cli)? else { return Ok(None) };
    records::with(out, &records, Records::outline_campaign)
}

/// A campaign in one line.
fn campaign_line(campaign: &Campaign, tasks: &[TaskStatus]) -> String {
    let count = |status: TaskStatus| tasks.iter().filter(|one| **one == status).count();
    let mut words = vec![format!("{} of {} tasks complete", count(TaskStatus::Complete), tasks.len())];
    for (status, word) in [(TaskStatus::InProgress, "at work"), (TaskStatus::Blocked, "blocked")] {
        if count(status) > 0 {
            words.push(format!("{} {word}", count(status)));
        }
    }
    let name = paint(paint::STRONG, "campaign");
    format!("{name}  {}: {}", safe(campaign.objective()), words.join(", "))
}

/// How many runs are shown.
fn most(asked: &StatusArgs, out: &Out) -> Most {
    if out.is_json() || asked.all { Most::ALL } else { Most { open: MAX_OPEN, ended: MAX_ENDED } }
}

/// What `ftl status --json` prints.
#[derive(Serialize)]
struct Documents<'a> {
    campaign: Json,
    runs: Vec<RunDocument<'a>>,
}

/// How many runs are not shown.
#[derive(Clone, Copy, Default)]
struct LeftOut {
    open: usize,
    ended: usize,
}

impl LeftOut {
    fn from(newest: &Newest) -> LeftOut {
        let ended = newest.rows.iter().filter(|row| row.settled).count();
        let open = newest.rows.len() - ended;
        LeftOut { open: newest.open.saturating_sub(open), ended: newest.ended.saturating_sub(ended) }
    }

    fn words(self) -> Option<String> {
        match (self.open, self.ended) {
            (0, 0) => None,
            (0, ended) => Some(format!("{ended} more have ended")),
            (open, 0) => Some(format!("{open} more have not ended")),
            (open, ended) => Some(format!("{open} more have not ended, {ended} have")),
        }
    }
}

/// The list of runs, laid out in columns.
struct Table<'a> {
    shown: &'a [RunOverview],
    left_out: LeftOut,
    at: usize,
    width: Option<usize>,
    now: Time,
}

impl<'a> Table<'a> {
    fn of(shown: &'a [RunOverview], left_out: LeftOut, width: Option<usize>) -> Table<'a> {
        let at = shown.iter().map(|one| paint::columns(&one.at())).max().unwrap_or(0).min(MAX_AT);
        Table { left_out, shown, at, width, now: clock::wall() }
    }

    fn text(&self, whole: bool) -> String {
        let mut text = String::new();
        if !whole {
            let at = paint::padded("where", self.at);
            let head = format!("run       standing     {at}  changed   for");
            text.push_str(&format!("{}\n", paint(paint::QUIET, paint::fitted(&head, self.width))));
        }
        for one in self.shown {
            for line in self.lines(one, if whole { usize::MAX } else { MAX_WAITS }) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        if let Some(words) = self.left_out.words() {
            text.push_str(&paint(paint::QUIET, format!("{words}; `ftl status --all` shows them\n")));
        }
        text
    }

    /// A run in one line, and a line for each thing that there is to know about it.
    fn lines(&self, known: &RunOverview, most: usize) -> Vec<String> {
        let summary = &known.summary;
        let head = format!(
            "{}  {}  {}  {}  {}",
            paint(paint::STRONG, runs::instance_label(&known.row.run, known.instance)),
            paint::padded(&runs::standing(known.standing()), 11),
            paint::padded(&paint::fitted(&known.at(), Some(self.at)), self.at),
            paint::padded(&paint(paint::QUIET, relative_time::ago(known.row.changed, self.now)), 8),
            safe(&summary.title),
        );
        let mut lines = vec![paint::fitted(head.trim_end(), self.width)];
        let room = self.width.map(|width| width.saturating_sub(INDENT));
        let mut more = Vec::new();
        if known.row.settled {
            more.extend(runs::reason(summary).map(cause));
        } else {
            more.extend(known.driver());
            more.extend(known.waits(most, self.now, room));
        }
        let spent = runs::render_spent(&summary.meters);
        if !spent.is_empty() {
            more.push(paint(paint::QUIET, format!("spent {spent}")));
        }
        if most > MAX_WAITS {
            more.extend(aside(&summary.meters));
        }
        let (opened, ended) = summary.instances;
        if opened > 1 && !known.row.settled {
            more.push(paint(paint::QUIET, format!("{ended} of {opened} instances have ended")));
        }
        let indent = " ".repeat(INDENT);
        lines.extend(more.into_iter().map(|line| format!("{indent}{}", paint::fitted(&line, room))));
        lines
    }
}

/// What is set aside for agents at work.
fn aside(meters: &BTreeMap<String, Spent>) -> Option<String> {
    let words: Vec<String> = meters
        .iter()
        .filter(|(_, spent)| spent.reserved > 0)
        .map(|(name, spent)| format!("{name} {}", Unit::of_meter(name).show(spent.reserved)))
        .collect();
    (!words.is_empty()).then(|| paint(paint::QUIET, format!("set aside {}", words.join(paint::DOT))))
}
