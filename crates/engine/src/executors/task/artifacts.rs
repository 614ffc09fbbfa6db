//! The gates of artifacts, and the record of a decision.

use ftl_core::catalogue::lifecycle as shapes;
use ftl_core::catalogue::scalars::Digest;
use ftl_core::run::{Failure, FailureKind};

use super::folder;
use crate::executors::Job;
use crate::executors::table::RecordAccess;
use crate::executors::typed::Done;
use ftl_lifecycle::binding::Bindings;
use ftl_lifecycle::folder::{DECISION, PATCH, REPORT};
use ftl_lifecycle::{
    Malformed, TaskFolder, code, code_review, decision, plan, plan_review, record, registry, report, write,
};
use ftl_records::Records;

/// Looks at the artifacts of a job's task, with what its evidence is bound to.
fn look<T>(
    records: &Records,
    job: &Job,
    evidence: impl FnOnce(&TaskFolder, &Bindings) -> Result<T, Malformed>,
) -> Result<T, Failure> {
    let folder = folder(records, job)?;
    let bindings = registry::see_all(&**records.store(), &folder)?;
    Ok(evidence(&folder, &bindings)?)
}

/// Performs `artifact.plan`.
pub(in crate::executors) fn read_plan(
    records: &Records,
    job: &Job,
    _: &shapes::ArtifactPlan,
) -> Done<shapes::ArtifactPlan> {
    look(records, job, |folder, _| plan::evidence(folder))
}

/// Performs `artifact.plan_review`.
pub(in crate::executors) fn read_plan_review(
    records: &Records,
    job: &Job,
    _: &shapes::ArtifactPlanReview,
) -> Done<shapes::ArtifactPlanReview> {
    look(records, job, plan_review::evidence)
}

/// Performs `artifact.code`.
pub(in crate::executors) fn read_code(
    records: &Records,
    job: &Job,
    _: &shapes::ArtifactCode,
) -> Done<shapes::ArtifactCode> {
    look(records, job, |folder, _| code::evidence(folder).map(|looked| looked.evidence))
}

/// Performs `artifact.code_review`.
pub(in crate::executors) fn read_code_review(
    records: &Records,
    job: &Job,
    _: &shapes::ArtifactCodeReview,
) -> Done<shapes::ArtifactCodeReview> {
    look(records, job, code_review::evidence)
}

/// Performs `artifact.report`.
pub(in crate::executors) fn read_report(
    records: &Records,
    job: &Job,
    _: &shapes::ArtifactReport,
) -> Done<shapes::ArtifactReport> {
    look(records, job, report::evidence)
}

/// Performs `artifact.decision`.
pub(in crate::executors) fn read_decision(
    with: &RecordAccess,
    job: &Job,
    _: &shapes::ArtifactDecision,
) -> Done<shapes::ArtifactDecision> {
    look(&with.records, job, |folder, bindings| decision::evidence(folder, bindings, &with.routes))
}

/// Performs `artifact.revert`.
pub(in crate::executors) fn read_revert(
    records: &Records,
    job: &Job,
    _: &shapes::ArtifactRevert,
) -> Done<shapes::ArtifactRevert> {
    look(records, job, record::evidence)
}

/// Performs `decision.record`.
pub(in crate::executors) fn record_decision(
    records: &Records,
    job: &Job,
    asked: &shapes::DecisionRecord,
) -> Done<shapes::DecisionRecord> {
    let folder = folder(records, job)?;
    let bindings = registry::see_all(&**records.store(), &folder)?;
    let (reason, without) = reason_of(&folder, &bindings, asked)?;
    let (choice, route, by) = (asked.choice, asked.route.as_deref(), asked.by.as_str());
    let made = write::DecisionRecord { choice, route, by, reason: &reason, without };
    write::decision(&folder, &made)?;
    let patch = folder.digest(PATCH)?.map(|digest| Digest::new(digest.to_string()));
    Ok(shapes::Recorded { path: folder.display_path(DECISION), patch })
}

/// Why something was decided, and which evidence it was decided without. An acceptance on a green report speaks for
/// itself; one over a red or missing report needs a reason.
fn reason_of(
    folder: &TaskFolder,
    bindings: &Bindings,
    asked: &shapes::DecisionRecord,
) -> Result<(String, &'static [&'static str]), Failure> {
    let given = asked.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if asked.choice != shapes::Choice::Accepted {
        return Ok((given.unwrap_or_default().to_owned(), &[]));
    }
    match (decision::report_lacks(folder, bindings), given) {
        (None, Some(reason)) => Ok((reason.to_owned(), &[])),
        (None, None) => Ok((format!("accepted by {} on a green report", asked.by), &[])),
        (Some(_), Some(reason)) => Ok((reason.to_owned(), &[REPORT])),
        (Some(why), None) => {
            let message = format!("{why}: say why it is accepted all the same, with --reason");
            Err(Failure::new(FailureKind::Failed, message))
        }
    }
}
