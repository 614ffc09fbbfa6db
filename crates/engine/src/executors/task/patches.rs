//! What a person's word sets off without any agent: suites run, a patch applied, a commit undone.
//!
//! The report, the commit and the record are written after what they tell has happened, and before the journal
//! hears of it; a job that comes again after a crash finds it done and writes the same again.

use ftl_core::catalogue::lifecycle as shapes;
use ftl_core::catalogue::scalars::Digest;
use ftl_core::json::{Json, JsonExt as _};
use ftl_core::run::{Failure, FailureKind};

use super::{disk, folder};
use crate::executors::Job;
use crate::executors::table::Resources;
use crate::executors::typed::Done;
use crate::executors::worktrees::task::Suite;
use ftl_folder::clock;
use ftl_git::patch::Saying;
use ftl_lifecycle::folder::{COMMIT, PATCH, RECORD, REPORT};
use ftl_lifecycle::phases::StepWork;
use ftl_lifecycle::plan::PlanArtifact;
use ftl_lifecycle::write::now;
use ftl_lifecycle::{TaskFolder, patch, registry};
use ftl_store as store;

/// The longest subject of a commit.
const MAX_SUBJECT_LETTERS: usize = 72;

/// How many failing cases of a suite a report lists.
const MAX_CASES: usize = 50;

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Failed, message)
}

/// The patch of a task, which must be there.
fn patch_of(folder: &TaskFolder) -> Result<(Vec<u8>, String), Failure> {
    let bytes = folder.bytes(PATCH)?.ok_or_else(|| failed(format!("{PATCH} is missing")))?;
    let digest = store::ContentDigest::of(&bytes).to_string();
    Ok((bytes, digest))
}

/// Performs `eval.run`.
pub(in crate::executors) fn evaluate(
    with: &Resources,
    job: &Job,
    _: &shapes::EvalRun,
) -> Done<shapes::EvalRun> {
    let folder = folder(&with.records.records, job)?;
    let (bytes, digest) = patch_of(&folder)?;
    let began = now();
    let (tree, suites) = with.sites.suites(job, &bytes)?;
    let mut total = shapes::CaseCounts { passed: 0, failed: 0, skipped: 0, error: 0 };
    let told: Vec<Json> =
        suites.iter().enumerate().map(|(index, suite)| suite_json(suite, index, &mut total)).collect();
    let overall_pass = suites.iter().all(Suite::passed);
    let report = Json::object([
        ("task_id", Json::from(folder.id().as_str())),
        ("status", Json::from("completed")),
        ("overall_pass", Json::from(overall_pass)),
        ("summary", counts(&total)),
        ("suites", Json::Array(told)),
        ("signals", Json::Array(Vec::new())),
        (
            "meta",
            Json::object([
                ("diff_hash", Json::from(digest.as_str())),
                ("tree", Json::from(tree.as_str())),
                ("started_at", Json::from(began)),
                ("finished_at", Json::from(now())),
            ]),
        ),
    ]);
    folder.archive(StepWork::Report.artifacts()).map_err(|error| disk(&error))?;
    folder.put_json(REPORT, &report).map_err(|error| disk(&error))?;
    let (path, patch) = (folder.display_path(REPORT), Some(Digest::new(digest)));
    Ok(shapes::EvalResult { overall_pass, counts: total, path, patch })
}

fn counts(counts: &shapes::CaseCounts) -> Json {
    Json::object([
        ("passed", Json::from(counts.passed)),
        ("failed", Json::from(counts.failed)),
        ("skipped", Json::from(counts.skipped)),
        ("error", Json::from(counts.error)),
    ])
}

fn suite_json(suite: &Suite, index: usize, total: &mut shapes::CaseCounts) -> Json {
    let (ran, passed) = (&suite.ran, suite.passed());
    let (mut own, mut cases) =
        (shapes::CaseCounts { passed: 0, failed: 0, skipped: 0, error: 0 }, Vec::new());
    match &ran.census {
        Some(census) => {
            own.failed = census.failed;
            own.skipped = census.skipped;
            own.passed = census.run.unwrap_or(0).saturating_sub(census.failed);
            for failure in census.failures.iter().take(MAX_CASES) {
                cases.push(case(&failure.name, "failed", &failure.message));
            }
        }
        None if passed => own.passed = u64::from(suite.kind == "test"),
        None => {}
    }
    if !passed && own.failed == 0 {
        own.failed = 1;
        cases.push(case(&ran.command, "failed", &ran.summary));
    }
    total.passed += own.passed;
    total.failed += own.failed;
    total.skipped += own.skipped;
    Json::object([
        ("id", Json::from(format!("{}-{}", suite.kind, index + 1))),
        ("name", Json::from(ran.command.as_str())),
        ("kind", Json::from(suite.kind)),
        ("command", Json::from(ran.command.as_str())),
        ("status", Json::from(if passed { "completed" } else { "failed" })),
        ("overall_pass", Json::from(passed)),
        ("summary", counts(&own)),
        ("cases", Json::Array(cases)),
    ])
}

fn case(name: &str, status: &str, details: &str) -> Json {
    Json::object([
        ("id", Json::from(name)),
        ("name", Json::from(name)),
        ("status", Json::from(status)),
        ("details", Json::from(details)),
    ])
}

/// The subject and the rest of a commit, out of what the task is about.
fn message_of(folder: &TaskFolder) -> String {
    let title = PlanArtifact::read(folder)
        .ok()
        .flatten()
        .map(|plan| plan.title)
        .filter(|title| !title.trim().is_empty());
    let brief = registry::brief(folder);
    let text = title.unwrap_or_else(|| brief.clone());
    let subject: String = text.lines().next().unwrap_or_default().chars().take(MAX_SUBJECT_LETTERS).collect();
    if subject == brief { subject } else { format!("{subject}\n\n{brief}") }
}

/// Performs `patch.apply`.
pub(in crate::executors) fn apply(
    with: &Resources,
    job: &Job,
    asked: &shapes::PatchApply,
) -> Done<shapes::PatchApply> {
    let folder = folder(&with.records.records, job)?;
    let (bytes, digest) = patch_of(&folder)?;
    if digest != asked.patch.as_str() {
        return Err(Failure::new(FailureKind::Stale, format!("{PATCH} has changed since it was accepted")));
    }
    let files: Vec<String> = patch::files(&bytes).unwrap_or_default().into_keys().collect();
    let trailers = [("Ftl-Task", folder.id().as_str()), ("Ftl-Patch", digest.as_str())];
    let message = message_of(&folder);
    let saying = Saying { message: &message, trailers: &trailers, when: clock::wall() / 1000 };
    let made = with.sites.commit_patch(job, &bytes, saying)?;
    let commit = Json::object([
        ("commit", Json::from(made.commit.as_str())),
        ("parent", Json::from(made.parent.as_str())),
        ("branch", Json::from(made.branch.as_str())),
        ("files", Json::from(files.clone())),
        ("timestamp", Json::from(now())),
        ("meta", Json::object([("diff_hash", Json::from(digest.as_str()))])),
    ]);
    let same = folder.read(COMMIT).ok().flatten();
    let same = same.is_some_and(|old| old.json().get("commit").and_then(Json::as_str) == Some(&made.commit));
    if !same {
        folder.archive(&[COMMIT]).map_err(|error| disk(&error))?;
        folder.put_json(COMMIT, &commit).map_err(|error| disk(&error))?;
    }
    Ok(shapes::Applied { commit: made.commit, files, path: Some(folder.display_path(COMMIT)) })
}

/// Performs `patch.revert`.
pub(in crate::executors) fn revert(
    with: &Resources,
    job: &Job,
    asked: &shapes::PatchRevert,
) -> Done<shapes::PatchRevert> {
    let folder = folder(&with.records.records, job)?;
    if let Some(done) = recorded(&folder, job)? {
        folder.archive(&[COMMIT]).map_err(|error| disk(&error))?;
        return Ok(done);
    }
    let applied = folder.read(COMMIT)?;
    let applied = match &applied {
        Some(commit) => Some(commit.root()?.need_text("commit")?.to_owned()),
        None => None,
    };
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    let undone = match &applied {
        Some(commit) => {
            let subject = format!("Revert \"{}\"", message_of(&folder).lines().next().unwrap_or_default());
            let message = format!("{subject}\n\nThis undoes {commit}: {}", asked.reason);
            let trailers = [("Ftl-Task", folder.id().as_str()), ("Ftl-Reverts", commit.as_str())];
            let saying = Saying { message: &message, trailers: &trailers, when: clock::wall() / 1000 };
            Some(with.sites.undo_commit(job, commit, saying)?)
        }
        None => None,
    };
    let target = applied.unwrap_or_else(|| String::from("nothing was applied"));
    let text = |value: Option<&String>| Json::from(value.cloned());
    let record = Json::object([
        ("reason", Json::from(asked.reason.as_str())),
        ("timestamp", Json::from(now())),
        ("target", Json::from(target.as_str())),
        ("commit", text(undone.as_ref().map(|undone| &undone.commit))),
        ("branch", text(undone.as_ref().map(|undone| &undone.branch))),
        ("partial", Json::from(false)),
        ("signals", Json::Array(Vec::new())),
        ("meta", Json::object([("diff_hash", text(patch.as_ref())), ("key", Json::from(job.key()))])),
    ]);
    folder.archive(&[RECORD]).map_err(|error| disk(&error))?;
    folder.put_json(RECORD, &record).map_err(|error| disk(&error))?;
    // What was undone is no longer applied: a second revert must not undo the undoing.
    folder.archive(&[COMMIT]).map_err(|error| disk(&error))?;
    Ok(shapes::Reverted {
        target,
        commit: undone.map(|undone| undone.commit),
        path: Some(folder.display_path(RECORD)),
    })
}

/// What this very job has recorded, when it comes again after a crash.
fn recorded(folder: &TaskFolder, job: &Job) -> Result<Option<shapes::Reverted>, Failure> {
    let Some(record) = folder.read(RECORD)? else { return Ok(None) };
    let root = record.root()?;
    let key = root.field("meta").and_then(|meta| meta.json().get("key")?.as_str().map(str::to_owned));
    if key.as_deref() != Some(job.key().as_str()) {
        return Ok(None);
    }
    let target = root.need_text("target")?.to_owned();
    let commit = root.text("commit")?.map(str::to_owned);
    Ok(Some(shapes::Reverted { target, commit, path: Some(folder.display_path(RECORD)) }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ftl_core::catalogue::build::VerifyOutcome;

    use super::*;
    use ftl_folder::state_folder::StateFolder;
    use ftl_gates::verify::{Census, FailedTest as Failing, VerifyMeasure};
    use ftl_lifecycle::folder::PLAN;

    #[test]
    fn a_report_lists_the_first_of_many_cases() {
        let failing = |at: usize| Failing { name: format!("t{at}"), message: String::new() };
        let failures: Vec<Failing> = (0..=MAX_CASES).map(failing).collect();
        let failed = failures.len() as u64;
        let census = Census { run: Some(failed), failed, failures, ..Census::default() };
        let ran = VerifyMeasure {
            outcome: VerifyOutcome::Failed,
            summary: String::new(),
            command: String::from("make test"),
            exit: 1,
            took: Duration::ZERO,
            runs: 1,
            census: Some(census),
            output: None,
            bound_to: String::new(),
            report: None,
        };
        let mut total = shapes::CaseCounts { passed: 0, failed: 0, skipped: 0, error: 0 };
        let json = suite_json(&Suite { kind: "test", ran }, 0, &mut total);
        assert_eq!(json.get("cases").unwrap().items().len(), MAX_CASES);
        assert_eq!(total.failed, failed, "all of them count");
    }

    #[test]
    fn a_commit_has_a_short_subject() {
        let root = tempfile::tempdir().unwrap();
        let folder = TaskFolder::of(&StateFolder::at(root.path()), &"t1".parse().unwrap());
        let title = "x".repeat(MAX_SUBJECT_LETTERS + 1);
        let plan = Json::object([
            ("id", Json::from("t1")),
            ("title", Json::from(title.as_str())),
            ("brief", Json::from("Do it")),
        ]);
        folder.put_json(PLAN, &plan).unwrap();
        assert_eq!(message_of(&folder), format!("{}\n\nDo it", &title[1..]));
    }
}
