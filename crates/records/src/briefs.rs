//! The workspaces of a repository: made from a plan, completed, blocked, read.
//!
//! A workspace is kept in the store under the name of its file; the file in `.ftl/workspace/` is its
//! copy. A file somewhere else is worked on where it is, whole or not at all. Completing or blocking a
//! workspace also tells the campaign that it belongs to, so that the two cannot drift apart.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::campaign::settle_in;
use super::campaign_state::overlap;
use super::projected::{NoteForm, Projected};
use super::projection::{drop_text, keep_text};
use super::scope::{RecordScope, WORKSPACES};
use super::{RecordError, Records};
use crate::build_budget::Budget;
use crate::exploration;
use crate::plan_file::{CampaignPlan, PlanTask};
use crate::workspace::{
    self, BlockReason, ClosedWorkspace, FileName, KnownFailure, KnownPattern, MAX_WORKSPACE_BYTES, OnDisk,
    UsedLesson, Workspace, WorkspaceContext, WorkspaceRefusal, WorkspaceStatus,
};
use ftl_code::context::{self, Sources};
use ftl_core::plan::TaskStatus;
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::replace;
use ftl_store::{Notebook as _, Notes};

const KIND: &str = "workspace";

/// Where older texts go that a new one takes the place of.
const REPLACED: &str = "workspace_replaced";

/// The kind of notes that name the workspaces that were blocked, so that they need not be looked for among all.
const BLOCKED: &str = "workspace_blocked";

/// How many blocked siblings a brief tells of, the last ones by name: one that told of all of them would make a campaign
/// in which much fails cost the square of its tasks.
pub const MAX_SIBLINGS: usize = 64;

/// How many files of a folder are looked at.
const MAX_FILES: usize = 1_000_000;

/// What is recalled from memory for a task.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// Failures that recall found for the objective of the plan.
    pub failures: Vec<KnownFailure>,
    /// Patterns that recall found for the objective of the plan.
    pub patterns: Vec<KnownPattern>,
    /// The same as the memory gave it.
    pub given: ftl_memory::recall::ContextLessons,
}

/// Recalls what is known for a plan and some of its tasks, in their order.
pub type Recall<'a> = &'a dyn Fn(&CampaignPlan, &[&PlanTask]) -> Result<Vec<Recalled>, RecordError>;

/// What the build of a task may take, where that is not what the plan says; the task, whether failures are known,
/// and how sure the framework is.
pub type Budgets<'a> = &'a dyn Fn(&PlanTask, bool, f64) -> Option<Budget>;

/// What is kept in the same transaction as new workspaces; what it refuses leaves no trace of them.
pub(super) type Along<'a> = &'a mut dyn FnMut(&mut dyn Notes) -> Result<(), RecordError>;

/// How a workspace is ended.
type End<'a> = &'a dyn Fn(OnDisk<'_>) -> Result<ClosedWorkspace, WorkspaceRefusal>;

/// A workspace that was found in a file.
pub type Found = (FileName, Workspace);

fn projected(scope: &RecordScope, name: &FileName) -> Projected {
    Projected {
        kind: scope.kind(KIND),
        scope: Some(scope.clone()),
        key: Cow::Owned(name.stem()),
        file: Cow::Owned(format!("workspace/{name}")),
        check: |text| {
            workspace::parse(text).map_err(|refusal| refusal.message)?;
            Ok(text.to_owned())
        },
        form: NoteForm::Text,
    }
}

impl Records {
    /// The folder of the run's workspaces, below `.ftl`.
    pub fn workspace_folder(&self) -> PathBuf {
        // Where the store cannot be read, the next step reports it.
        self.scope_folder(&self.scope().unwrap_or_default()).join(WORKSPACES)
    }

    /// Every workspace, by name. A file that makes no sense is told and left out.
    pub fn workspaces(&self) -> Result<Vec<Found>, RecordError> {
        self.workspaces_of(&|_| true)
    }

    /// The workspaces whose names are wanted; nothing is read of the others.
    fn workspaces_of(&self, is_wanted: &dyn Fn(&FileName) -> bool) -> Result<Vec<Found>, RecordError> {
        let scope = self.scope()?;
        let kind = scope.kind(KIND);
        let names = names(&self.scope_folder(&scope).join(WORKSPACES))?;
        for name in names.iter().filter(|name| is_wanted(name)) {
            self.look_over_or_tell(&projected(&scope, name))?;
        }
        let mut all = Vec::new();
        for stem in self.store().keys(&kind)? {
            let Some(name) = FileName::parse(&format!("{stem}.xml")) else { continue };
            if !is_wanted(&name) {
                continue;
            }
            // Another process may have ended it since.
            let Some(text) = self.store().note(&kind, &stem)? else { continue };
            if names.binary_search(&name).is_err() {
                self.mend(&projected(&scope, &name));
            }
            all.push((name, workspace::parse(&text)?));
        }
        Ok(all)
    }

    /// Every workspace in a folder; what makes no sense is told and left out.
    pub fn workspaces_in(&self, folder: &Path) -> Result<Vec<Found>, RecordError> {
        self.workspaces_among(folder, &|_| true)
    }

    /// The names of the workspaces in a folder, sorted; also of files that hold only `<workspace/>`.
    pub fn list_workspaces(&self, folder: &Path) -> Result<Vec<FileName>, RecordError> {
        let is_empty = |name: &FileName| {
            read_file(&folder.join(name.to_string())).is_ok_and(|text| workspace::is_empty(&text))
        };
        let mut listed: Vec<FileName> = names(folder)?.into_iter().filter(is_empty).collect();
        let others = self.workspaces_among(folder, &|name| listed.binary_search(name).is_err())?;
        listed.extend(others.into_iter().map(|(name, _)| name));
        listed.sort();
        Ok(listed)
    }

    /// The workspaces of a folder whose names are wanted.
    fn workspaces_among(
        &self,
        folder: &Path,
        is_wanted: &dyn Fn(&FileName) -> bool,
    ) -> Result<Vec<Found>, RecordError> {
        if is_same(folder, &self.workspace_folder()) {
            return self.workspaces_of(is_wanted);
        }
        let mut all = Vec::new();
        for name in names(folder)?.into_iter().filter(|name| is_wanted(name)) {
            match read_file(&folder.join(name.to_string())).and_then(|text| Ok(workspace::parse(&text)?)) {
                Ok(found) => all.push((name, found)),
                Err(error) => {
                    self.notice(format!("left out: {}: {error}", folder.join(name.to_string()).display()));
                }
            }
        }
        Ok(all)
    }

    /// A file of the repository as it stands in the checkout; nothing where there is no ordinary one.
    pub fn source(&self, path: &str) -> Option<Vec<u8>> {
        context::read_source(self.place().root(), path)
    }

    /// Makes the workspaces of a plan, or of one of its tasks; where each is.
    pub fn create_workspaces(
        &self,
        plan: &CampaignPlan,
        task: Option<&str>,
        means: (Recall<'_>, Sources<'_>, Budgets<'_>),
        now: &str,
    ) -> Result<Vec<PathBuf>, RecordError> {
        self.create_workspaces_along(plan, task, means, (now, &mut |_| Ok(())))
    }

    /// The same, and something else in the same transaction.
    pub(super) fn create_workspaces_along(
        &self,
        plan: &CampaignPlan,
        task: Option<&str>,
        (recall, sources, budgets): (Recall<'_>, Sources<'_>, Budgets<'_>),
        (now, along): (&str, Along<'_>),
    ) -> Result<Vec<PathBuf>, RecordError> {
        let tasks: Vec<&PlanTask> = match task {
            None => plan.tasks.iter().collect(),
            Some(seq) => vec![plan.find(seq).ok_or_else(|| {
                let known: Vec<&str> = plan.tasks.iter().take(10).map(|task| task.seq.as_str()).collect();
                RecordError::refuse(
                    format!("Unknown task: {seq}"),
                    format!("the plan has {}", known.join(", ")),
                )
            })?],
        };
        let campaign = self.active_campaign()?;
        let campaign = campaign.as_deref();
        let before = self.known_around(plan, &tasks)?;
        let confidence = self.explored_confidence()?;
        let (mut made, mut all_given) = (Vec::new(), Vec::new());
        for (task, recalled) in tasks.iter().zip(recall(plan, &tasks)?) {
            let Recalled { failures, patterns, given } = recalled;
            all_given.push(given);
            let siblings = workspace::sibling_failures(&before, campaign);
            let known = !failures.is_empty() || !siblings.is_empty();
            let sure = plan.framework_confidence.or(confidence).unwrap_or(workspace::DEFAULT_CONFIDENCE);
            let around = WorkspaceContext {
                now,
                campaign,
                explored_confidence: confidence,
                contexts: workspace::gather_contexts(sources, task),
                failures,
                patterns,
                siblings,
                parents: workspace::parents(task, &before, campaign),
                budget: budgets(task, known, sure.clamp(0.0, 1.0)),
            };
            made.push(workspace::create(plan, task, &around)?);
        }
        let scope = self.scope()?;
        let mut told = Ok(());
        self.store().amend(&mut |notes: &mut dyn Notes| {
            for one in &made {
                replaced(notes, &scope, &one.file_name, now)?;
                keep_text(notes, &projected(&scope, &one.file_name), &one.text)?;
            }
            told = along(notes);
            Ok(told.is_ok())
        })?;
        told?;
        self.project_all(&made.iter().map(|one| projected(&scope, &one.file_name)).collect::<Vec<_>>())?;
        self.given_out(&all_given)?;
        Ok(made.iter().map(|one| self.workspace_folder().join(one.file_name.to_string())).collect())
    }

    /// Takes over a change by hand; one that makes no sense is told and left out.
    fn look_over_or_tell(&self, what: &Projected) -> Result<(), RecordError> {
        match self.look_over(what) {
            Err(error @ RecordError::Malformed { .. }) => {
                self.notice(format!("left out: {error}"));
                Ok(())
            }
            looked => looked,
        }
    }

    /// What tasks that begin are told of others: what their parents delivered, and failures of siblings. A campaign of a
    /// hundred thousand has many more workspaces, and a run that is driven looks only for those; commands, whose files
    /// other programs may write, look through the folder.
    fn known_around(&self, plan: &CampaignPlan, tasks: &[&PlanTask]) -> Result<Vec<Found>, RecordError> {
        let parents: BTreeSet<&str> =
            tasks.iter().flat_map(|task| &task.depends).map(String::as_str).collect();
        if !self.lag.is_allowed() {
            let parents: BTreeSet<&str> = parents.iter().map(|seq| seq.trim_start_matches('0')).collect();
            return self.workspaces_of(&|name| match name.status() {
                WorkspaceStatus::Blocked => true,
                WorkspaceStatus::Complete => parents.contains(name.seq().trim_start_matches('0')),
                WorkspaceStatus::Active => false,
            });
        }
        let scope = self.scope()?;
        let mut stems: BTreeSet<String> = self.blocked_stems(&scope)?;
        for seq in parents {
            let spelled = plan.find(seq).map_or(seq, |task| task.seq.as_str());
            let found = self.store().keys_from(&scope.kind(KIND), &format!("{spelled}_"))?;
            let name = |stem: &String| FileName::parse(&format!("{stem}.xml"));
            let is_complete = |stem: &String| {
                name(stem).is_some_and(|name| name.status() == WorkspaceStatus::Complete && name.is_of(seq))
            };
            stems.extend(found.into_iter().filter(is_complete));
        }
        let mut all = Vec::new();
        for stem in stems {
            let Some(name) = FileName::parse(&format!("{stem}.xml")) else { continue };
            let what = projected(&scope, &name);
            self.look_over_or_tell(&what)?;
            // Another process may have ended it in another way since.
            let Some(text) = self.store().note(&what.kind, &stem)? else { continue };
            all.push((name, workspace::parse(&text)?));
        }
        Ok(all)
    }

    /// The last blocked workspaces, by name. What was blocked before this process, and by versions that noted nothing, is
    /// looked for once.
    fn blocked_stems(&self, scope: &RecordScope) -> Result<BTreeSet<String>, RecordError> {
        let mut known = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(of, _)| of != scope) {
            let is_blocked = |stem: &String| {
                FileName::parse(&format!("{stem}.xml"))
                    .is_some_and(|name| name.status() == WorkspaceStatus::Blocked)
            };
            let all = self.store().keys(&scope.kind(KIND))?.into_iter().filter(is_blocked).collect();
            *known = Some((scope.clone(), all));
        }
        let mut stems = known.as_ref().map(|(_, stems)| stems.clone()).unwrap_or_default();
        stems.extend(self.store().keys(&scope.kind(BLOCKED))?);
        while stems.len() > MAX_SIBLINGS {
            stems.pop_first();
        }
        Ok(stems)
    }

    /// Ends a workspace as complete; where it is now.
    pub fn complete_workspace(
        &self,
        path: &Path,
        (delivered, used): (&str, &[UsedLesson]),
        ends: Ends<'_>,
    ) -> Result<(PathBuf, Workspace), RecordError> {
        let Ends { now, .. } = ends;
        self.close(path, ends, &|file| workspace::complete(file, delivered, used, now))
    }

    /// Ends a workspace as blocked; where it is now.
    pub fn block_workspace(
        &self,
        path: &Path,
        why: &BlockReason,
        ends: Ends<'_>,
    ) -> Result<(PathBuf, Workspace), RecordError> {
        let Ends { now, .. } = ends;
        self.close(path, ends, &|file| workspace::block(file, why, now))
    }

    /// Reads a workspace from its file, checked; the error names the path.
    pub fn parse_workspace(&self, path: &Path) -> Result<Workspace, RecordError> {
        let text = match self.own(path) {
            Some((scope, name)) => {
                self.read_text(&projected(&scope, &name))?.map_or_else(|| read_file(path), Ok)?
            }
            None => return parse_file(path),
        };
        workspace::parse(&text).map_err(|refusal| malformed(path, &refusal))
    }

    /// A workspace of ours that has ended with that status already, where it is: the store knows it, whatever
    /// became of the files. They are brought up to date on the way.
    pub fn find_ended(
        &self,
        path: &Path,
        status: WorkspaceStatus,
    ) -> Result<Option<(PathBuf, Workspace)>, RecordError> {
        let Some((scope, name)) = self.own(path) else { return Ok(None) };
        let kind = scope.kind(KIND);
        if self.store().note(&kind, &name.stem())?.is_some() {
            return Ok(None);
        }
        let Ok(over) = FileName::new(name.seq(), name.slug(), status) else { return Ok(None) };
        let Some(text) = self.store().note(&kind, &over.stem())? else { return Ok(None) };
        self.project(&projected(&scope, &over))?;
        self.project(&projected(&scope, &name))?;
        Ok(Some((path.with_file_name(over.to_string()), workspace::parse(&text)?)))
    }

    fn close(&self, path: &Path, ends: Ends<'_>, end: End<'_>) -> Result<(PathBuf, Workspace), RecordError> {
        let Ends { now, .. } = ends;
        let Some((scope, name)) = self.own(path) else { return close_elsewhere(path, end) };
        let kind = scope.kind(KIND);
        self.take_over(&projected(&scope, &name))?;
        // The campaign is told in the same change, so its copy must be in order before.
        self.take_over_campaign(&scope)?;
        let mut told: Option<Result<(ClosedWorkspace, bool), RecordError>> = None;
        self.store().amend(&mut |notes: &mut dyn Notes| {
            let ended = match notes.get(&kind, &name.stem())? {
                Some(text) => end(OnDisk { name: &name.to_string(), text: &text }).map_err(RecordError::from),
                None => Err(missing(path)),
            };
            let ended = ended.and_then(|closed| {
                replaced(notes, &scope, &closed.file_name, now)?;
                keep_text(notes, &projected(&scope, &closed.file_name), &closed.text)?;
                drop_text(notes, &projected(&scope, &name))?;
                if closed.file_name.status() == WorkspaceStatus::Blocked {
                    notes.put(&scope.kind(BLOCKED), &closed.file_name.stem(), "")?;
                }
                let is_told = tell_campaign(notes, &scope, &closed, ends)?;
                Ok((closed, is_told))
            });
            let kept = ended.is_ok();
            told = Some(ended);
            Ok(kept)
        })?;
        let (closed, is_told) = told.unwrap_or_else(|| Err(missing(path)))?;
        // The new file first: a reader in between sees two of them, never none.
        self.project(&projected(&scope, &closed.file_name))?;
        self.project(&projected(&scope, &name))?;
        if is_told {
            self.project_campaign(&scope)?;
        }
        Ok((path.with_file_name(closed.file_name.to_string()), closed.workspace))
    }

    /// The name of a workspace that lies where workspaces are, and whose it is.
    fn own(&self, path: &Path) -> Option<(RecordScope, FileName)> {
        let name = FileName::parse(path.file_name()?.to_str()?)?;
        let scope = self.scope_of_folder(path.parent()?)?;
        let is_there = |scope: &RecordScope| {
            let all = WorkspaceStatus::ALL.iter();
            all.filter_map(|status| FileName::new(name.seq(), name.slug(), *status).ok())
                .any(|one| matches!(self.store().note(&scope.kind(KIND), &one.stem()), Ok(Some(_))))
        };
        // It stood in front when an agent was told its path.
        let plain = RecordScope::default();
        let scope = if !is_there(&scope) && is_there(&plain) { plain } else { scope };
        Some((scope, name))
    }

    /// The files that are being changed in other runs too, each with the run: what they have in common with a delta.
    pub fn overlaps(&self, delta: &[String]) -> Result<Vec<(String, String)>, RecordError> {
        let mut found = Vec::new();
        for scope in self.live_others()? {
            for (stem, text) in self.store().notes(&scope.kind(KIND))? {
                let is_active = FileName::parse(&format!("{stem}.xml"))
                    .is_some_and(|name| name.status() == WorkspaceStatus::Active);
                let Some(other) = is_active.then(|| workspace::parse(&text).ok()).flatten() else { continue };
                let both = delta.iter().filter(|path| overlap(path, &other.delta));
                found.extend(both.map(|path| (path.clone(), scope.name().to_owned())));
            }
        }
        Ok(found)
    }

    fn explored_confidence(&self) -> Result<Option<f64>, RecordError> {
        Ok(exploration::framework_confidence(&self.exploration()?.unwrap_or_default()))
    }
}

/// When a workspace ends, and in which run.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The time, as the files write it.
    pub now: &'a str,
    /// The run whose builder ends it; none where a person does.
    pub run: Option<&'a RunId>,
}

/// The campaign's task ends with its workspace; whether there is such a task. A campaign that is driven by the
/// same run is not told: it hears of the end from its builder, when everything about it is over.
fn tell_campaign(
    notes: &mut dyn Notes,
    scope: &RecordScope,
    closed: &ClosedWorkspace,
    ends: Ends<'_>,
) -> Result<bool, RecordError> {
    let Some(id) = closed.workspace.campaign.as_deref() else { return Ok(false) };
    if ends.run.is_some_and(|run| id.split_once('.').is_some_and(|(opened_by, _)| opened_by == run.as_str()))
    {
        return Ok(false);
    }
    let status = match closed.file_name.status() {
        WorkspaceStatus::Active => return Ok(false),
        WorkspaceStatus::Complete => TaskStatus::Complete,
        WorkspaceStatus::Blocked => TaskStatus::Blocked,
    };
    settle_in(notes, scope, (id, closed.file_name.seq()), (status, ends.now))
}

/// Keeps what is about to be replaced.
fn replaced(
    notes: &mut dyn Notes,
    scope: &RecordScope,
    name: &FileName,
    now: &str,
) -> Result<(), ftl_store::StoreError> {
    match notes.get(&scope.kind(KIND), &name.stem())? {
        Some(old) => notes.put(&scope.kind(REPLACED), &format!("{}@{now}", name.stem()), &old),
        None => Ok(()),
    }
}

/// Ends a workspace that lies somewhere else: the new file is whole before the old one goes.
fn close_elsewhere(path: &Path, end: End<'_>) -> Result<(PathBuf, Workspace), RecordError> {
    let text = read_file(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let closed = end(OnDisk { name: &name, text: &text })?;
    let target = path.with_file_name(closed.file_name.to_string());
    replace(&target, closed.text.as_bytes()).map_err(|error| RecordError::disk(&target, &error))?;
    folder::remove(path).map_err(|error| RecordError::disk(path, &error))?;
    Ok((target, closed.workspace))
}

/// Reads a workspace where there is no state.
pub fn parse_file(path: &Path) -> Result<Workspace, RecordError> {
    workspace::parse(&read_file(path)?).map_err(|refusal| malformed(path, &refusal))
}

/// The names of workspaces in a folder, sorted; none where there is no folder.
fn names(above: &Path) -> Result<Vec<FileName>, RecordError> {
    let all = folder::names(above).map_err(|error| RecordError::disk(above, &error))?;
    let name = |name: OsString| FileName::parse(name.to_str()?);
    let mut names: Vec<FileName> = all.into_iter().take(MAX_FILES).filter_map(name).collect();
    names.sort();
    Ok(names)
}

fn read_file(path: &Path) -> Result<String, RecordError> {
    let bytes = match folder::read_named(path, MAX_WORKSPACE_BYTES as u64) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(path)),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(unsuited(path, "it is too large"));
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Err(unsuited(path, "it is no file"));
        }
        Err(error) => {
            return Err(match folder::FolderRefusal::of(&error) {
                Some(folder::FolderRefusal::NotAFile(_)) => unsuited(path, "it is no file"),
                Some(_) | None => RecordError::disk(path, &error),
            });
        }
        Ok(bytes) => bytes,
    };
    String::from_utf8(bytes).map_err(|error| {
        let (message, hint) = (format!("it is not UTF-8: {error}"), "name a workspace".to_owned());
        malformed(path, &WorkspaceRefusal { message, hint })
    })
}

fn unsuited(path: &Path, message: &str) -> RecordError {
    malformed(path, &WorkspaceRefusal { message: message.to_owned(), hint: "name a workspace".to_owned() })
}

fn missing(path: &Path) -> RecordError {
    RecordError::refuse(format!("there is no workspace {}", path.display()), "`ls .ftl/workspace` shows them")
}

fn malformed(path: &Path, refusal: &WorkspaceRefusal) -> RecordError {
    let (message, hint) = (refusal.message.clone(), refusal.hint.clone());
    RecordError::Malformed { path: path.to_owned(), message, hint }
}

fn is_same(left: &Path, right: &Path) -> bool {
    if left == right {
        return true;
    }
    match (left.canonicalize(), right.canonicalize()) {
        (Ok(left), Ok(right)) => left == right,
        (Ok(_) | Err(_), _) => false,
    }
}
