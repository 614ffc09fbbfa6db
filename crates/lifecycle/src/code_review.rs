//! The review of the patch: findings, each with how bad it is and what it is about.
//!
//! Any blocking finding blocks. One about the plan leads upstream, whatever else was found; one that does not
//! say what it is about is about the code. A review of another patch does not count.

use ftl_core::catalogue::lifecycle::{Category, CodeReviewEvidence, Finding, Severity, Signal};
use ftl_core::catalogue::scalars::Digest;

use super::artifact::{ArtifactFile, JsonView, Malformed};
use super::binding::Bindings;
use super::folder::{CODE_REVIEW, PATCH, TaskFolder};
use super::signals::signals;

const SEVERITIES: [(&str, Severity); 3] =
    [("blocking", Severity::Blocking), ("major", Severity::Major), ("minor", Severity::Minor)];

const CATEGORIES: [(&str, Category); 2] = [("code", Category::Code), ("plan", Category::Plan)];

#[derive(Default)]
struct Sum {
    plan_flawed: bool,
    blocked: bool,
    changes: bool,
    findings: Vec<Finding>,
}

impl Sum {
    fn add_finding(&mut self, finding: Finding) {
        if finding.severity == Severity::Blocking {
            match finding.category {
                Some(Category::Plan) => self.plan_flawed = true,
                Some(Category::Code) | None => self.blocked = true,
            }
        }
        self.findings.push(finding);
    }

    fn issue(&mut self, issue: &JsonView<'_>) -> Result<(), Malformed> {
        issue.need("severity")?;
        let severity = issue.word("severity", &SEVERITIES)?.unwrap_or(Severity::Blocking);
        let category = issue.word("category", &CATEGORIES)?;
        let text = |key: &str| issue.text(key).map(|text| text.map(str::to_owned));
        let message = issue.need_text("message")?.to_owned();
        let path = text("path")?.or(text("file")?);
        self.add_finding(Finding { id: text("id")?, severity, category, role: text("role")?, path, message });
        Ok(())
    }

    fn reviewer(&mut self, reviewer: &JsonView<'_>) -> Result<(), Malformed> {
        let role = reviewer.text("role")?.or(reviewer.text("id")?).map(str::to_owned);
        self.changes |= reviewer.flag("ok")? == Some(false);
        for message in reviewer.texts("blocking_issues")? {
            let (severity, role, message) = (Severity::Blocking, role.clone(), message.to_owned());
            self.add_finding(Finding { id: None, severity, category: None, role, path: None, message });
        }
        for issue in reviewer.objects("issues")? {
            self.issue(&issue)?;
        }
        Ok(())
    }
}

fn read(artifact: &ArtifactFile) -> Result<Sum, Malformed> {
    let root = artifact.root()?;
    let mut sum = Sum::default();
    root.need("issues")?;
    for issue in root.objects("issues")? {
        sum.issue(&issue)?;
    }
    for reviewer in root.objects("reviewers")? {
        sum.reviewer(&reviewer)?;
    }
    sum.changes |= root.flag("ok")? == Some(false);
    sum.blocked |= root.flag("blocked")? == Some(true);
    for signal in signals(&root)? {
        let plan = match signal {
            Signal::PlanMisalignment | Signal::PlanUnclear | Signal::ScopeMismatch => {
                sum.plan_flawed = true;
                true
            }
            Signal::Blocked => {
                sum.blocked = true;
                false
            }
            Signal::NeedsChanges | Signal::Regression => {
                sum.changes = true;
                false
            }
        };
        let category = Some(if plan { Category::Plan } else { Category::Code });
        let message = format!("the reviewers say {}", signal.word());
        let (severity, role) = (Severity::Major, None);
        sum.findings.push(Finding { id: None, severity, category, role, path: None, message });
    }
    Ok(sum)
}

/// What the reviews of the code show.
pub fn evidence(folder: &TaskFolder, bindings: &Bindings) -> Result<CodeReviewEvidence, Malformed> {
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    let none_yet = |missing: String| CodeReviewEvidence {
        passed: false,
        failed: false,
        summary: missing.clone(),
        tree: None,
        missing: vec![missing],
        plan_flawed: false,
        blocked: false,
        needs_changes: false,
        findings: Vec::new(),
        patch: patch.as_deref().map(Digest::new),
    };
    let Some(artifact) = folder.read(CODE_REVIEW)? else {
        return Ok(none_yet(format!("{CODE_REVIEW} is missing")));
    };
    let sum = read(&artifact)?;
    if let Some(stale) = bindings.stale(folder, CODE_REVIEW, &artifact, "diff_hash", patch.as_deref())? {
        return Ok(none_yet(format!("{CODE_REVIEW} is stale: {stale}")));
    }
    let bad = sum.plan_flawed || sum.blocked || sum.changes;
    let blocking = sum.findings.iter().filter(|one| one.severity == Severity::Blocking);
    let mut missing: Vec<String> = blocking.map(|one| format!("blocking: {}", one.message)).collect();
    if bad && missing.is_empty() {
        missing.push(String::from("the review wants changes"));
    }
    let summary =
        if bad { missing.join("; ") } else { format!("{} findings, none blocks", sum.findings.len()) };
    Ok(CodeReviewEvidence {
        passed: !bad,
        failed: bad,
        summary,
        missing,
        plan_flawed: sum.plan_flawed,
        blocked: sum.blocked,
        needs_changes: sum.changes,
        findings: sum.findings,
        ..none_yet(String::new())
    })
}
