//! The one current campaign: its tasks, how far they are, and what can no longer be reached.
//!
//! Every change is one transaction, whatever the size of the plan. Nothing that was recorded is lost:
//! a campaign that another one replaces goes to the archive, and so does a list of tasks with progress.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ftl_core::plan::{Cascade, Seq, TaskStatus, Unreachable, parse_status};

use super::archive;
use super::campaign_state::{Campaign, progress};
use super::chunked_note::{self, Sheet, Trail};
use super::projected::{NoteForm, Projected};
use super::projection::{json_text, stamp_pending};
use super::raw;
use super::scope::RecordScope;
use super::{RecordError, Records};
use crate::plan_file::merge::{merge, read_outline, read_task};
use crate::plan_file::{self, CampaignPlan, LaxPlan, Reading};
use ftl_core::json::{Json, JsonExt as _};
use ftl_store::{Notebook as _, Notes, StoreError};
use serde::Deserialize;

pub use super::followed::Followed;

/// What a merge of a revised plan did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revised {
    /// How many tasks changed or are new.
    pub merged: usize,
    /// How many are as they were.
    pub unchanged: usize,
    /// Tasks that the revision would change although they are complete or being worked on.
    pub kept: Vec<String>,
}

pub(super) fn projected(scope: RecordScope) -> Projected {
    Projected {
        kind: scope.kind("campaign"),
        scope: Some(scope),
        key: Cow::Borrowed("current"),
        file: Cow::Borrowed("campaign.json"),
        check: |text| json_text(text, check),
        form: NoteForm::Rows("tasks"),
    }
}

fn check(json: &Json) -> Result<(), String> {
    let campaign = Campaign::read(json)?;
    campaign.progress().map(drop).map_err(|error| error.to_string())
}

impl Records {
    /// The note of the campaign that is looked at.
    pub(super) fn campaign_note(&self) -> Result<Projected, RecordError> {
        Ok(projected(self.scope()?))
    }

    /// The current campaign, whether it goes on or is complete.
    pub fn campaign(&self) -> Result<Option<Campaign>, RecordError> {
        self.read(&self.campaign_note()?)?.map(|json| understood(&json)).transpose()
    }

    /// The head of the current campaign, and how its tasks stand: for a face that shows it in a line. Of a task only
    /// its outline is read.
    pub fn outline_campaign(&self) -> Result<Option<(Campaign, Vec<TaskStatus>)>, RecordError> {
        let what = self.campaign_note()?;
        self.look_over(&what)?;
        let Some(sheet) = Sheet::now(&**self.store(), &what)? else { return Ok(None) };
        let head = understood(&chunked_note::head_of(&sheet.head(), &what)?.0)?;
        let statuses = TaskTexts(&sheet).outlines()?.into_iter().map(|(_, _, status)| status).collect();
        Ok(Some((head, statuses)))
    }

    /// The campaign as it is now, for a caller that knows what it was: only tasks that have changed are read again.
    pub fn follow_campaign(&self, before: Option<Followed>) -> Result<Option<Followed>, RecordError> {
        let what = self.campaign_note()?;
        self.look_over(&what)?;
        let book = &**self.store();
        let trail = Trail::now(book, &what)?;
        let new = before.as_ref().filter(|one| one.is_parted).and_then(|one| trail.since(one.count));
        let (Some(mut followed), Some(new)) = (before, new) else {
            let Some(sheet) = Sheet::now(book, &what)? else { return Ok(None) };
            let campaign = understood(&parsed(&sheet.body())?)?;
            return Followed::new(trail.count, sheet.is_parted(), campaign).map(Some);
        };
        for at in new {
            let now = match chunked_note::item_now(book, &what, at)? {
                Some(text) => read_task(&parsed(&text)?).map_err(damaged)?,
                // It was taken apart meanwhile; the next trail says so.
                None => return self.follow_campaign(None),
            };
            if !followed.take(at, now) {
                return self.follow_campaign(None);
            }
        }
        followed.count = trail.count;
        Ok(Some(followed))
    }

    /// The name of the campaign that goes on, if it has one. Its tasks are not looked at.
    pub fn active_campaign(&self) -> Result<Option<String>, RecordError> {
        let what = self.campaign_note()?;
        self.look_over(&what)?;
        let Some(body) = self.store().note(&what.kind, &what.key)? else { return Ok(None) };
        let head = understood(&chunked_note::head_of(&body, &what)?.0)?;
        Ok(head.id().filter(|_| head.is_active()).map(str::to_owned))
    }

    /// Opens a campaign. One that still goes on is kept in the archive first.
    pub fn create_campaign(
        &self,
        objective: &str,
        framework: Option<&str>,
        now: &str,
    ) -> Result<Campaign, RecordError> {
        check_objective(objective)?;
        let id = ftl_folder::id::random().map_err(|error| RecordError::disk("/dev/urandom", &error))?;
        self.open_plain()?.create_campaign_once(&format!("{id:016x}"), objective, framework, now)
    }

    /// Opens a campaign under a name of its own. One that has it already is the same campaign.
    pub fn create_campaign_once(
        &self,
        id: &str,
        objective: &str,
        framework: Option<&str>,
        now: &str,
    ) -> Result<Campaign, RecordError> {
        check_objective(objective)?;
        self.open_apart()?;
        if let Some(same) = self.campaign()?.filter(|campaign| campaign.id() == Some(id)) {
            return Ok(same);
        }
        let new = Campaign::new(objective, framework, id, now);
        let archived = self.change(&self.campaign_note()?, |before, notes| {
            let before = before.map(|json| understood(&json)).transpose()?;
            let archived = match before.filter(Campaign::is_active) {
                Some(old) => Some(archive_replaced(&old, notes, now)?),
                None => None,
            };
            Ok((Some(new.to_json()), archived))
        })?;
        if let Some(name) = archived {
            self.project_archive(&name)?;
            self.notice(format!(
                "the campaign before was still active and is kept in .ftl/archive/{name}.json"
            ));
        }
        Ok(new)
    }

    /// Gives the campaign its tasks. Tasks that are there already keep how far they are; what they
    /// replace is kept in the archive if anything of it had begun.
    pub fn add_tasks(&self, text: &str, now: &str) -> Result<usize, RecordError> {
        self.take_tasks(now, &|objective| {
            let how = Reading { objective: Some(objective), ..Reading::default() };
            Ok(plan_file::read_as(text, how)?)
        })
    }

    /// The same for a plan as scripts of the FTL plugin may write it. One without tasks changes nothing.
    pub fn add_tasks_lax(&self, text: &str, now: &str) -> Result<(), RecordError> {
        let campaign = self.campaign()?.ok_or_else(no_campaign)?;
        let LaxPlan { plan, note } = plan_file::read_lax(text, Some(campaign.objective()))?;
        if let Some(note) = note {
            self.notice(note);
        }
        if plan.tasks.is_empty() {
            self.notice("the plan has no tasks: the tasks of the campaign stay as they are");
            return Ok(());
        }
        self.take_tasks(now, &|_| Ok(plan.clone())).map(drop)
    }

    fn take_tasks(
        &self,
        now: &str,
        read: &dyn Fn(&str) -> Result<CampaignPlan, RecordError>,
    ) -> Result<usize, RecordError> {
        let archived = self.edit(|campaign, notes| {
            if !campaign.is_active() {
                return Err(RecordError::refuse(
                    "the campaign is complete: it takes no tasks any more",
                    "open the next one with `ftl campaign create \"<objective>\"`",
                ));
            }
            let plan = read(campaign.objective())?;
            let begun = campaign.tasks.iter().any(|one| one.status != TaskStatus::Pending);
            let archived = if begun { Some(archive_replaced(campaign, notes, now)?) } else { None };
            campaign.take_plan(plan);
            Ok((archived, campaign.tasks.len()))
        })?;
        if let Some(name) = &archived.0 {
            self.project_archive(name)?;
            self.notice(format!(
                "the tasks before had begun: equal ones keep their status, all are kept in .ftl/archive/{name}.json"
            ));
        }
        Ok(archived.1)
    }

    /// Gives a task a status. Nothing else of the campaign is taken apart or written for it, however long it is; in
    /// a run, its copy comes a little later.
    pub fn update_task(&self, seq: &str, status: &str, now: &str) -> Result<(), RecordError> {
        let status = parse_status(status).map_err(|error| {
            RecordError::refuse(error.to_string(), "a task is pending, in_progress, complete or blocked")
        })?;
        let what = self.campaign_note()?;
        if self.lag.is_allowed() {
            return self.settle_later(&what, seq, (status, now));
        }
        self.change_items(&what, |sheet| {
            let tasks = TaskTexts(sheet.ok_or_else(no_campaign)?);
            let Some(at) = tasks.place(seq)? else { return Err(tasks.unknown(seq)?) };
            Ok((BTreeMap::from([(at, settled(&tasks.0.items()[at], status, now)?)]), ()))
        })
    }

    /// Gives a task a status, and lets the copy of the campaign lag.
    fn settle_later(
        &self,
        what: &Projected,
        seq: &str,
        (status, now): (TaskStatus, &str),
    ) -> Result<(), RecordError> {
        self.take_over(what)?;
        let mut told = Ok(());
        self.store().amend(&mut |notes| {
            told = settle_known(notes, what, seq, (status, now));
            Ok(told.is_ok())
        })?;
        told?;
        self.project_later(what)
    }

    /// How the campaign stands, and what can no longer be reached.
    pub fn cascade(&self) -> Result<Cascade, RecordError> {
        let progress = self.campaign()?.map(|campaign| campaign.progress()).transpose()?;
        Ok(Cascade::of(progress.as_ref()))
    }

    /// Blocks every task that can never run; their seqs. Of a task only that is read and written which has to do
    /// with it: a campaign of ten thousand takes long to take apart and to put together again.
    pub fn propagate_blocks(&self, now: &str) -> Result<Vec<String>, RecordError> {
        self.change_items(&self.campaign_note()?, |sheet| {
            let Some(sheet) = sheet else { return Ok((BTreeMap::new(), Vec::new())) };
            let blocked = progress(&TaskTexts(sheet).outlines()?)?.propagate();
            let mut items = BTreeMap::new();
            for task in &blocked {
                let at = task.place.index();
                let text = raw::put(&sheet.items()[at], &block(task, now));
                items.insert(at, text.ok_or_else(|| damaged(format!("no task: {}", task.seq)))?);
            }
            Ok((items, blocked.iter().map(|task| task.seq.to_string()).collect()))
        })
    }

    /// Closes the campaign and keeps a copy of it in the archive. One that is complete stays as it is.
    pub fn complete_campaign(
        &self,
        summary: Option<&str>,
        patterns: &[String],
        now: &str,
    ) -> Result<Campaign, RecordError> {
        let files = self.explored_files()?;
        let (name, campaign) = self.edit(|campaign, notes| {
            if !campaign.is_active() {
                return Ok((None, campaign.clone()));
            }
            let summary = summary.map_or_else(|| campaign.counts(), Json::from);
            let fingerprint = campaign.fingerprint(&files);
            campaign.head.put("status", "complete");
            campaign.head.put("completed_at", now);
            campaign.head.put("summary", summary);
            campaign.head.put("fingerprint", fingerprint);
            if !patterns.is_empty() {
                campaign.head.put("patterns_extracted", Json::from(patterns));
            }
            Ok((Some(archive::put(campaign, notes, now)?), campaign.clone()))
        })?;
        match name {
            Some(name) => {
                self.project_archive(&name)?;
                self.leave_front()?;
            }
            None => self.notice("the campaign was complete already: nothing was changed"),
        }
        Ok(campaign)
    }

    /// Merges a revised plan into the campaign, whole or not at all.
    pub fn merge_plan(&self, text: &str, now: &str) -> Result<Revised, RecordError> {
        self.edit(|campaign, _| {
            let how =
                Reading { objective: Some(campaign.objective()), is_revision: true, ..Reading::default() };
            let revised = plan_file::read_as(text, how)?;
            let merged = merge(&campaign.tasks, &revised, now)?;
            let done =
                Revised { merged: merged.changed.len(), unchanged: merged.unchanged, kept: merged.kept };
            campaign.tasks = merged.tasks;
            Ok(done)
        })
    }

    /// Changes the campaign that must be there.
    fn edit<T>(
        &self,
        mut work: impl FnMut(&mut Campaign, &mut dyn Notes) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        self.change(&self.campaign_note()?, |before, notes| {
            let Some(json) = before else { return Err(no_campaign()) };
            let mut campaign = understood(&json)?;
            // What was read makes room for what is written.
            drop(json);
            let done = work(&mut campaign, notes)?;
            Ok((Some(campaign.to_json()), done))
        })
    }
}

/// The head of a campaign, without its tasks, as it is kept.
pub(super) fn head_at(records: &Records, scope: &RecordScope) -> Result<Option<Campaign>, StoreError> {
    let what = projected(scope.clone());
    let Some(body) = records.store().note(&what.kind, &what.key)? else { return Ok(None) };
    let head = chunked_note::head_of(&body, &what)?.0;
    Campaign::read(&head).map(Some).map_err(StoreError::Corrupt)
}

/// Tells the campaign of that name, in the middle of another change, how a task of it ended; whether
/// there is such a task.
pub(super) fn settle_in(
    notes: &mut dyn Notes,
    scope: &RecordScope,
    (id, seq): (&str, &str),
    (status, now): (TaskStatus, &str),
) -> Result<bool, RecordError> {
    let what = projected(scope.clone());
    let Some(body) = notes.get(&what.kind, &what.key)? else { return Ok(false) };
    let head = understood(&chunked_note::head_of(&body, &what)?.0)?;
    if !head.is_active() || head.id() != Some(id) {
        return Ok(false);
    }
    settle_row(notes, &what, seq, (status, now))
}

/// Gives a task of the campaign a status, which must have it.
pub(super) fn settle_known(
    notes: &mut dyn Notes,
    what: &Projected,
    seq: &str,
    settled: (TaskStatus, &str),
) -> Result<(), RecordError> {
    if settle_row(notes, what, seq, settled)? {
        return Ok(());
    }
    let sheet = Sheet::fetch(notes, what)?.ok_or_else(no_campaign)?;
    Err(TaskTexts(&sheet).unknown(seq)?)
}

/// Gives a task of the campaign a status and writes nothing else of it; whether there is such a task. Its copy lags
/// until a command or the driver writes it.
fn settle_row(
    notes: &mut dyn Notes,
    what: &Projected,
    seq: &str,
    (status, now): (TaskStatus, &str),
) -> Result<bool, RecordError> {
    let Some(body) = notes.get(&what.kind, &what.key)? else { return Err(no_campaign()) };
    let is_parted = chunked_note::head_of(&body, what)?.1;
    drop(body);
    let guess = if is_parted { guessed(notes, what, seq)? } else { None };
    match guess {
        Some((at, old)) => chunked_note::put_item(notes, what, (at, &settled(&old, status, now)?))?,
        None => {
            let Some(mut sheet) = Sheet::fetch(notes, what)? else { return Ok(false) };
            let Some(at) = TaskTexts(&sheet).place(seq)? else { return Ok(false) };
            sheet.set(at, settled(&sheet.items()[at], status, now)?);
            sheet.keep(notes, what, &[at])?;
        }
    }
    stamp_pending(notes, what)?;
    Ok(true)
}

/// A task where its seq lets expect it: most plans count their tasks from one, or from nought.
fn guessed(
    notes: &mut dyn Notes,
    what: &Projected,
    seq: &str,
) -> Result<Option<(usize, String)>, RecordError> {
    let Some(wanted @ Seq::Number(number)) = Seq::read(seq) else { return Ok(None) };
    let Ok(number) = usize::try_from(number) else { return Ok(None) };
    for at in [number.checked_sub(1), Some(number)].into_iter().flatten() {
        if let Some(text) = chunked_note::item(notes, what, at)?
            && Seq::read(&outline(&text)?.0) == Some(wanted)
        {
            return Ok(Some((at, text)));
        }
    }
    Ok(None)
}

/// The text of a task with another status.
fn settled(text: &str, status: TaskStatus, now: &str) -> Result<String, RecordError> {
    let mut one = read_task(&parsed(text)?).map_err(damaged)?;
    one.settle(status, now);
    Ok(one.to_json().to_string())
}

impl Records {
    /// Takes over a copy of the campaign that was changed by hand.
    pub(super) fn take_over_campaign(&self, scope: &RecordScope) -> Result<(), RecordError> {
        self.take_over(&projected(scope.clone()))
    }

    /// Writes the copy of the campaign as it is now, or a little later where it may lag.
    pub(super) fn project_campaign(&self, scope: &RecordScope) -> Result<(), RecordError> {
        self.project_later(&projected(scope.clone()))
    }

    /// Writes the copy of the campaign if it lags. Where that fails, the next reader writes it.
    pub(super) fn catch_up_campaign(&self) {
        let _ = self.campaign_note().and_then(|what| self.catch_up(&what));
    }
}

/// What a task becomes that is blocked, with what blocks it.
fn block(cause: &Unreachable, now: &str) -> [(&'static str, Json); 5] {
    [
        ("status", Json::from(TaskStatus::Blocked.word())),
        ("updated_at", Json::from(now)),
        ("blocked_by", Json::list(cause.blocked_by.iter().map(ToString::to_string))),
        ("cascade", Json::from(true)),
        ("root_causes", Json::list(cause.root_causes.iter().map(ToString::to_string))),
    ]
}

/// What is read of each task of a long campaign: the rest of it becomes no tree.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Outline {
    seq: Json,
    depends: Json,
    status: Json,
}

/// Of a task its seq, what it depends on and how far it is.
fn outline(text: &str) -> Result<(String, Vec<String>, TaskStatus), RecordError> {
    let Outline { seq, depends, status } =
        serde_json::from_str(text).map_err(|_| damaged(format!("no task: {text:.80}")))?;
    let wanted = [("seq", seq), ("depends", depends), ("status", status)];
    read_outline(&Json::object(wanted)).map_err(damaged)
}

/// The texts of a campaign's tasks.
struct TaskTexts<'a>(&'a Sheet);

impl TaskTexts<'_> {
    fn outlines(&self) -> Result<Vec<(String, Vec<String>, TaskStatus)>, RecordError> {
        self.0.items().iter().map(|text| outline(text)).collect()
    }

    /// Which task a seq names, in any spelling.
    fn place(&self, seq: &str) -> Result<Option<usize>, RecordError> {
        let Some(wanted) = Seq::read(seq) else { return Ok(None) };
        let all = self.outlines()?;
        Ok(all.iter().position(|(seq, _, _)| Seq::read(seq) == Some(wanted)))
    }

    fn unknown(&self, seq: &str) -> Result<RecordError, RecordError> {
        let known: Vec<String> = self.outlines()?.into_iter().take(10).map(|(seq, _, _)| seq).collect();
        let hint = format!("the campaign has {} tasks: {}", self.0.items().len(), known.join(", "));
        Ok(RecordError::refuse(format!("Unknown task: {seq}"), hint))
    }
}

fn parsed(text: &str) -> Result<Json, RecordError> {
    Json::parse(text).map_err(|error| damaged(error.to_string()))
}

fn check_objective(objective: &str) -> Result<(), RecordError> {
    if objective.trim().is_empty() {
        return Err(RecordError::refuse("the objective is empty", "say what the campaign is to reach"));
    }
    Ok(())
}

/// The error of everything that needs a campaign.
pub fn no_campaign() -> RecordError {
    RecordError::refuse("No active campaign", "open one with `ftl campaign create \"<objective>\"`")
}

fn damaged(message: String) -> RecordError {
    RecordError::Store(ftl_store::StoreError::Corrupt(message))
}

fn understood(json: &Json) -> Result<Campaign, RecordError> {
    Campaign::read(json).map_err(|message| RecordError::Store(StoreError::Corrupt(message)))
}

/// Keeps a campaign that is being replaced; the name in the archive.
fn archive_replaced(old: &Campaign, notes: &mut dyn Notes, now: &str) -> Result<String, RecordError> {
    let mut kept = old.clone();
    let counts = old.counts();
    kept.head.put("completed_at", now);
    kept.head.put("replaced", true);
    kept.head.put("summary", counts);
    archive::put(&kept, notes, now)
}
