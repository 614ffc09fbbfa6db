//! The observer: verifies blocks by running their commands, and learns from workspaces that ended.
//!
//! A block that passes now, could not be run, was cut off or was the harness's own fault teaches nothing. Everything that is learned
//! from one look is learned in one transaction. What an agent said about its own work is never taken
//! for evidence.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftl_memory::StoredKind;
use ftl_memory::learn::LearnOutcome;

use super::briefs::Found;
use super::lessons::now;
use super::{RecordError, Records};
use crate::extract;
use crate::observe::{self, NewFailure, NewPattern, Rerun, Score, ScoreContext, Verification, is_learned};
use crate::workspace::{FileName, Workspace, WorkspaceStatus};
use ftl_core::json::{Json, JsonExt as _};
use ftl_core::machine::MachineCause;
use ftl_process::{Cut, How, ProcessExit, RunError};

/// How many verify commands run at the same time.
const MAX_PARALLEL: usize = 4;

/// How much of what a command printed is kept.
const MAX_OUTPUT_CHARS: usize = 2_000;

/// How many experiences of blocks are read.
const MAX_EXPERIENCES: usize = 1_000;

/// How much is read of what an older builder left.
const MAX_EXPERIENCE_BYTES: u64 = 4 * 1024 * 1024;

/// A blocked workspace that was looked at again.
#[derive(Clone, Debug)]
pub struct ReverifiedWorkspace {
    /// The name of its file without the ending, as the FTL plugin names it.
    pub workspace: String,
    /// The result of running its verify command again.
    pub verification: Verification,
    /// What the command printed, the end of it.
    pub output: String,
}

impl ReverifiedWorkspace {
    /// `{workspace, status, reason, output}`.
    pub fn to_json(&self) -> Json {
        let mut json = self.row();
        json.put("output", self.output.as_str());
        json
    }

    fn row(&self) -> Json {
        Json::object([
            ("workspace", Json::from(self.workspace.as_str())),
            ("status", Json::from(self.verification.standing.word())),
            ("reason", Json::from(self.verification.reason.as_str())),
        ])
    }
}

/// How blocks are verified.
pub struct Verifier<'a> {
    /// Runs a command: how it ended, or why it could not be run.
    pub runs: &'a (dyn Fn(&str) -> Result<ProcessExit, RunError> + Sync),
}

impl Records {
    /// Verifies the blocked workspaces of a folder, in the order of their names.
    pub fn verify_blocks(
        &self,
        folder: &Path,
        by: &Verifier<'_>,
    ) -> Result<Vec<ReverifiedWorkspace>, RecordError> {
        let mut found = self.workspaces_in(folder)?;
        found.retain(|(name, _)| name.status() == WorkspaceStatus::Blocked);
        Ok(verify(&found, by))
    }

    /// Whether any workspace here is blocked.
    pub fn has_blocks(&self) -> Result<bool, RecordError> {
        Ok(self
            .workspaces_in(&self.workspace_folder())?
            .iter()
            .any(|(name, _)| name.status() == WorkspaceStatus::Blocked))
    }

    /// Learns from the workspaces of a folder; blocks are verified first if there is a verifier.
    pub fn analyze(&self, folder: &Path, by: Option<&Verifier<'_>>) -> Result<Json, RecordError> {
        let found = self.workspaces_in(folder)?;
        let of = |status: WorkspaceStatus| -> Vec<Found> {
            found.iter().filter(|(name, _)| name.status() == status).cloned().collect()
        };
        let (complete, blocked, active) =
            (of(WorkspaceStatus::Complete), of(WorkspaceStatus::Blocked), of(WorkspaceStatus::Active));
        let verified = by.map(|by| verify(&blocked, by));
        let teaches = |at: usize| {
            verified.as_ref().is_none_or(|all| {
                all.get(at).is_some_and(|one: &ReverifiedWorkspace| is_learned(one.verification.standing))
            })
        };
        let output = |at: usize| verified.as_ref().and_then(|all| Some(all.get(at)?.output.as_str()));
        let is_of_work = |one: &Workspace| !observe::is_machine(one) && !observe::is_harness(one);
        let failures = blocked.iter().enumerate().filter(|(at, one)| teaches(*at) && is_of_work(&one.1));
        let failures: Vec<(&Found, Json)> =
            failures.map(|(at, one)| (one, observe::failure(&one.1, output(at)).to_json())).collect();
        let scored = self.scored(&complete, &blocked)?;
        let learned = self.learn_all(&failures, &scored)?;
        let counts = Json::object([
            ("complete", Json::from(complete.len())),
            ("blocked", Json::from(blocked.len())),
            ("active", Json::from(active.len())),
        ]);
        let rows = verified.unwrap_or_default().iter().map(ReverifiedWorkspace::row).collect();
        Ok(Json::object([
            ("workspaces", counts),
            ("verified", Json::Array(rows)),
            ("failures_extracted", Json::Array(learned.failures)),
            ("patterns_extracted", Json::Array(learned.patterns)),
            ("relationships_added", Json::from(learned.links)),
        ]))
    }

    /// How much each complete workspace can teach, against what is known before.
    fn scored<'a>(
        &self,
        complete: &'a [Found],
        blocked: &[Found],
    ) -> Result<Vec<(&'a Found, Score)>, RecordError> {
        let before: Vec<(FileName, Option<String>)> =
            blocked.iter().map(|(name, one)| (name.clone(), one.campaign.clone())).collect();
        complete
            .iter()
            .map(|one| {
                let was_blocked = observe::was_blocked(&one.0, one.1.campaign.as_deref(), &before);
                let likeness = self.likeness(&one.1)?;
                Ok((one, observe::score(&one.1, ScoreContext { was_blocked, likeness, tools_used: None })))
            })
            .collect()
    }

    fn likeness(&self, workspace: &Workspace) -> Result<f64, RecordError> {
        let now = now();
        let best = self.look_up(|lessons| lessons.query(&workspace.objective, 1, &now))?;
        Ok(best.first().map_or(0.0, |row| row.relevance))
    }

    /// How much one complete workspace can teach.
    pub fn score(&self, path: &Path) -> Result<Json, RecordError> {
        let workspace = self.parse_workspace(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().and_then(|name| FileName::parse(name.to_str()?));
        let blocked: Vec<(FileName, Option<String>)> = self
            .workspaces_in(folder)?
            .into_iter()
            .filter(|(name, _)| name.status() == WorkspaceStatus::Blocked)
            .map(|(name, one)| (name, one.campaign))
            .collect();
        let was_blocked =
            name.is_some_and(|name| observe::was_blocked(&name, workspace.campaign.as_deref(), &blocked));
        let seen = ScoreContext { was_blocked, likeness: self.likeness(&workspace)?, tools_used: None };
        Ok(observe::score(&workspace, seen).to_json(&workspace, &path.display().to_string()))
    }

    fn learn_all(
        &self,
        failures: &[(&Found, Json)],
        scored: &[(&Found, Score)],
    ) -> Result<Learned, RecordError> {
        let now = now();
        let experience = self.experience();
        self.learn(|lessons| {
            let mut learned = Learned::default();
            let (mut new_failures, mut new_patterns) = (Vec::new(), Vec::new());
            for (found, json) in failures {
                let told = lessons.learn(StoredKind::Failure, json.clone(), &now)?;
                learned.failures.push(row(&told.name, told.outcome.word(), []));
                if told.outcome == LearnOutcome::Added {
                    let (file, campaign) = (found.0.clone(), found.1.campaign.clone());
                    new_failures.push(NewFailure { name: told.name, file, campaign });
                }
            }
            for json in &experience {
                let told = lessons.learn(StoredKind::Failure, json.clone(), &now)?;
                learned.failures.push(row(&told.name, told.outcome.word(), []));
            }
            for (found, score) in scored {
                let Some(pattern) = observe::pattern(&found.1, score) else { continue };
                let told = lessons.learn(StoredKind::Pattern, pattern.to_json(), &now)?;
                let more = [("score", Json::from(score.total)), ("breakdown", score.breakdown_json())];
                learned.patterns.push(row(&told.name, told.outcome.word(), more));
                if told.outcome == LearnOutcome::Added {
                    let (file, campaign) = (found.0.clone(), found.1.campaign.clone());
                    let recovered = score.has("blocked_then_fixed");
                    new_patterns.push(NewPattern { name: told.name, file, campaign, recovered });
                }
            }
            let links = observe::links(&new_failures, &new_patterns);
            for (failure, pattern) in &links.solves {
                learned.links +=
                    usize::from(lessons.relate_cross(failure, pattern, "solves")?.word() == "added");
            }
            for (left, right) in &links.co_occurs {
                let told = lessons.relate(StoredKind::Failure, left, right, "co_occurs")?;
                learned.links += usize::from(told.word() == "added");
            }
            Ok(learned)
        })
    }

    /// What an older builder left in its cache for the observer to learn from.
    fn experience(&self) -> Vec<Json> {
        let Ok(cache) = self.cache_folder() else { return Vec::new() };
        let mut files: Vec<String> = ftl_folder::names(&cache)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with("experience-") && name.ends_with(".json"))
            .take(MAX_EXPERIENCES)
            .collect();
        files.sort();
        files.push(String::from("experience.json"));
        let mut found = Vec::new();
        for file in files {
            let text =
                ftl_folder::read_to_string(&cache.join(file), MAX_EXPERIENCE_BYTES).unwrap_or_default();
            found.extend(extract::objects(&text).iter().filter_map(observe::experience));
        }
        // The newest stands in two files.
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|one| seen.insert((one.trigger.clone(), one.source.clone())));
        let is_of_work = |trigger: &str| {
            MachineCause::of_report(trigger).is_none() && !observe::is_harness_reason(trigger)
        };
        let found = found.iter().filter(|one| is_of_work(&one.trigger));
        found.map(observe::FailureLesson::to_json).collect()
    }
}

#[derive(Default)]
struct Learned {
    failures: Vec<Json>,
    patterns: Vec<Json>,
    links: usize,
}

fn row<const N: usize>(name: &str, result: String, more: [(&str, Json); N]) -> Json {
    let mut row = Json::object([("name", Json::from(name))]);
    for (key, value) in more {
        row.put(key, value);
    }
    row.put("result", result);
    row
}

/// Runs the commands of blocked workspaces, a few at a time; in the order in which they came.
fn verify(blocked: &[Found], by: &Verifier<'_>) -> Vec<ReverifiedWorkspace> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, ReverifiedWorkspace)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..MAX_PARALLEL.min(blocked.len()) {
            scope.spawn(|| {
                while let Some((at, one)) = {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    blocked.get(at).map(|one| (at, one))
                } {
                    let verified = verify_one(one, by);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, verified));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, one)| one).collect()
}

fn verify_one((name, workspace): &Found, by: &Verifier<'_>) -> ReverifiedWorkspace {
    let (rerun, output) = rerun(&workspace.verify, by);
    ReverifiedWorkspace { workspace: name.stem(), verification: observe::judge(&rerun), output }
}

fn rerun(command: &str, by: &Verifier<'_>) -> (Rerun, String) {
    if command.trim().is_empty() {
        return (Rerun::NoCommand, String::new());
    }
    let ended = match (by.runs)(command) {
        Ok(ended) => ended,
        Err(error) => return (Rerun::CouldNotRun(error.to_string()), String::new()),
    };
    let output = tail(&format!("{}{}", ended.out.text(), ended.err.text()));
    let rerun = match (ended.cut, ended.how) {
        (Some(Cut::Startup | Cut::Silence | Cut::Soft | Cut::Hard), _) => Rerun::TimedOut,
        (Some(Cut::Cancelled | Cut::GuardLost), _) => Rerun::CouldNotRun(ended.sentence()),
        (None, How::Exited(code)) => Rerun::Exited(code),
        (None, How::Signalled(signal)) => Rerun::Killed(signal),
        (None, How::Unknown) => Rerun::CouldNotRun(ended.sentence()),
    };
    (rerun, output)
}

fn tail(text: &str) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(MAX_OUTPUT_CHARS)).collect()
}
