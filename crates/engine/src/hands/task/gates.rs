//! The gates of artifacts, and the record of a decision.

use std::sync::Arc;

use ftl_core::catalogue::lifecycle as shapes;
use ftl_core::catalogue::scalars::Digest;
use ftl_core::run::Failure;

use super::folder;
use crate::hands::{Job, Workshop};
use crate::lifecycle::binding::Bindings;
use crate::lifecycle::folder::{DECISION, PATCH};
use crate::lifecycle::{
    Folder, Malformed, code, code_review, decision, desk, plan, plan_review, record, report, write,
};
use crate::paper::Paper;

/// Looks at the artifacts of a job's task, with what its evidence is bound to.
fn look<T>(
    paper: &Paper,
    job: &Job,
    evidence: impl FnOnce(&Folder, &Bindings) -> Result<T, Malformed>,
) -> Result<T, Failure> {
    let folder = folder(paper, job)?;
    let bindings = desk::see_all(&**paper.store(), &folder)?;
    Ok(evidence(&folder, &bindings)?)
}

pub(super) fn hands(workshop: Workshop, paper: &Arc<Paper>) -> Workshop {
    let shared = || paper.clone();
    let (plans, plan_reviews, codes, code_reviews) = (shared(), shared(), shared(), shared());
    let (reports, decisions, records, writes) = (shared(), shared(), shared(), shared());
    workshop
        .doing(move |job, _: shapes::ArtifactPlan| look(&plans, job, |folder, _| plan::evidence(folder)))
        .doing(move |job, _: shapes::ArtifactPlanReview| look(&plan_reviews, job, plan_review::evidence))
        .doing(move |job, _: shapes::ArtifactCode| {
            look(&codes, job, |folder, _| code::evidence(folder).map(|looked| looked.evidence))
        })
        .doing(move |job, _: shapes::ArtifactCodeReview| look(&code_reviews, job, code_review::evidence))
        .doing(move |job, _: shapes::ArtifactReport| look(&reports, job, report::evidence))
        .doing(move |job, _: shapes::ArtifactDecision| look(&decisions, job, decision::evidence))
        .doing(move |job, _: shapes::ArtifactRevert| look(&records, job, record::evidence))
        .doing(move |job, asked: shapes::DecisionRecord| {
            let folder = folder(&writes, job)?;
            let reason = asked.reason.as_deref().filter(|reason| !reason.trim().is_empty());
            let made = write::Decision { choice: asked.choice, route: asked.route, by: &asked.by, reason };
            write::decision(&folder, &made)?;
            let patch = folder.digest(PATCH)?.map(|digest| Digest::new(digest.to_string()));
            Ok(shapes::Recorded { path: folder.shown(DECISION), patch })
        })
}
