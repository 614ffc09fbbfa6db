//! The review of the plan: what the reviewers say together, derived from what each of them says.
//!
//! Any blocking finding blocks. A summary or a flag may make it stricter and never milder: `ok` is believed
//! only where no reviewer says otherwise. A review of another plan does not count.

use ftl_core::catalogue::lifecycle::{Finding, PlanReviewEvidence, Severity, Signal};
use ftl_core::catalogue::scalars::Digest;
use ftl_core::json::Json;

use super::artifact::{ArtifactFile, JsonView, Malformed};
use super::binding::Bindings;
use super::folder::{OLDER_PLAN_REVIEW, PLAN, PLAN_REVIEW, TaskFolder};
use super::plan::PlanArtifact;
use super::signals::signals;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Accepts,
    Changes,
    Blocks,
    Defers,
}

const DECISIONS: [(&str, Said); 8] = [
    ("accept", Said::Accepts),
    ("accepted", Said::Accepts),
    ("approve", Said::Accepts),
    ("go", Said::Accepts),
    ("needs_changes", Said::Changes),
    ("blocked", Said::Blocks),
    ("defer", Said::Defers),
    ("hold", Said::Defers),
];

const SEVERITIES: [(&str, Severity); 5] = [
    ("blocking", Severity::Blocking),
    ("error", Severity::Blocking),
    ("major", Severity::Major),
    ("minor", Severity::Minor),
    ("warning", Severity::Minor),
];

/// What the reviews add up to.
#[derive(Default)]
struct Sum {
    /// Whether a reviewer says that it may go on.
    ok: bool,
    blocked: bool,
    changes: bool,
    undecided: Vec<String>,
    findings: Vec<Finding>,
    /// Whether the reviewers accept the plan together.
    accepted: bool,
}

impl Sum {
    fn add_verdict(&mut self, said: Option<Said>, ok: Option<bool>, who: &str) {
        match said {
            Some(Said::Blocks) => self.blocked = true,
            Some(Said::Changes) => self.changes = true,
            Some(Said::Defers) => self.undecided.push(format!("{who} has not decided")),
            Some(Said::Accepts) => self.ok = true,
            None => {}
        }
        match ok {
            Some(true) => self.ok = true,
            Some(false) => self.changes = true,
            None => {}
        }
    }

    fn add_finding(&mut self, severity: Severity, role: Option<&str>, message: &str) {
        self.blocked |= severity == Severity::Blocking;
        let (id, category, path) = (None, None, None);
        let role = role.map(str::to_owned);
        self.findings.push(Finding { id, severity, category, role, path, message: message.to_owned() });
    }

    /// The lists that a reviewer and the whole have in common.
    fn lists(&mut self, view: &JsonView<'_>, role: Option<&str>) -> Result<(), Malformed> {
        for (key, severity) in [("blocking_issues", Severity::Blocking), ("suggestions", Severity::Minor)] {
            for item in view.list(key)? {
                let text = if item.json().is_object() { item.need_text("message")? } else { item.as_text()? };
                self.add_finding(severity, role, text);
            }
        }
        for issue in view.objects("issues")? {
            let severity = issue.word("severity", &SEVERITIES)?.unwrap_or(Severity::Minor);
            let text = issue.text("message")?.unwrap_or("no message");
            self.add_finding(severity, role, text);
        }
        Ok(())
    }

    fn reviewer(&mut self, view: &JsonView<'_>, index: usize) -> Result<(), Malformed> {
        let id = view.text("id")?.or(view.text("name")?);
        let role = view.text("role")?.or(id);
        let who = id.or(role).map_or_else(|| format!("reviewer {}", index + 1), str::to_owned);
        if !view.has("ok") && !view.has("decision") {
            return Err(view.wrong("has neither `ok` nor `decision`"));
        }
        let ok = view.flag("ok")?;
        let decision = view.word("decision", &DECISIONS)?;
        if ok.is_none() && decision.is_none() {
            self.undecided.push(format!("{who} has not decided"));
        }
        let before = self.findings.len();
        let severity = view.word("severity", &SEVERITIES)?;
        // What is minor does not send back what the reviewers accept together.
        if self.accepted && severity == Some(Severity::Minor) && decision != Some(Said::Blocks) {
            self.add_verdict(decision.filter(|said| *said != Said::Changes), ok.filter(|ok| *ok), &who);
        } else {
            self.add_verdict(decision, ok, &who);
        }
        self.lists(view, role)?;
        for text in view.texts("reasons")?.into_iter().chain(view.texts("weaknesses")?) {
            self.add_finding(Severity::Minor, role, text);
        }
        let no = ok == Some(false) || matches!(decision, Some(Said::Blocks | Said::Changes));
        if no && severity == Some(Severity::Blocking) {
            self.blocked = true;
        }
        if no && self.findings.len() == before {
            let severity = if decision == Some(Said::Blocks) { Severity::Blocking } else { Severity::Major };
            self.add_finding(severity, role, &format!("{who} says no, and not why"));
        }
        Ok(())
    }
}

fn read(artifact: &ArtifactFile, is_older: bool) -> Result<Sum, Malformed> {
    let root = artifact.root()?;
    let mut sum = Sum::default();
    let (ok, reviewers) = (root.flag("ok")?, root.objects("reviewers")?);
    let aggregate = root.field("aggregate");
    if ok.is_none() && aggregate.is_none() && reviewers.is_empty() {
        return Err(root.wrong("says nothing: it has no `ok`, no `aggregate` and no `reviewers`"));
    }
    if !is_older && reviewers.is_empty() {
        return Err(root.wrong("has no `reviewers`: nobody has read the plan"));
    }
    let together = aggregate.as_ref().and_then(|one| one.json().get("ok").cloned());
    if !is_older && ok.is_none() && together.is_none() {
        return Err(root.wrong("has neither `ok` nor `aggregate.ok`"));
    }
    sum.accepted = together == Some(Json::Bool(true));
    sum.add_verdict(None, ok, "the review");
    sum.blocked |= root.flag("blocked")?.unwrap_or(false);
    if let Some(aggregate) = &aggregate {
        aggregate.is_object()?;
        if !aggregate.has("ok") && !aggregate.has("decision") {
            return Err(aggregate.wrong("has neither `ok` nor `decision`"));
        }
        sum.add_verdict(aggregate.word("decision", &DECISIONS)?, aggregate.flag("ok")?, "the aggregate");
        sum.lists(aggregate, None)?;
    }
    for (index, reviewer) in reviewers.iter().enumerate() {
        sum.reviewer(reviewer, index)?;
    }
    sum.lists(&root, None)?;
    for text in root.texts("reasons")? {
        sum.add_finding(Severity::Minor, None, text);
    }
    for signal in signals(&root)? {
        match signal {
            Signal::Blocked => sum.blocked = true,
            Signal::NeedsChanges | Signal::PlanUnclear | Signal::ScopeMismatch => sum.changes = true,
            Signal::PlanMisalignment | Signal::Regression => sum.changes = true,
        }
        sum.findings.push(Finding {
            id: None,
            severity: Severity::Major,
            category: None,
            role: None,
            path: None,
            message: format!("the reviewers say {}", signal.word()),
        });
    }
    Ok(sum)
}

/// A review that does not count, or not yet.
fn none_yet(missing: String, plan: Option<Digest>) -> PlanReviewEvidence {
    PlanReviewEvidence {
        passed: false,
        failed: false,
        summary: missing.clone(),
        tree: None,
        missing: vec![missing],
        blocked: false,
        needs_changes: false,
        findings: Vec::new(),
        plan,
    }
}

/// A plan that cannot be reviewed: the flaw is the finding.
fn flawed(message: String) -> PlanReviewEvidence {
    let finding = Finding {
        id: None,
        severity: Severity::Blocking,
        category: None,
        role: Some(String::from("ftl")),
        path: Some(PLAN.to_owned()),
        message: message.clone(),
    };
    PlanReviewEvidence { failed: true, blocked: true, findings: vec![finding], ..none_yet(message, None) }
}

/// The file that holds the review of the plan: the older place counts where there is no other.
pub fn file(folder: &TaskFolder) -> &'static str {
    if !folder.has(PLAN_REVIEW) && folder.has(OLDER_PLAN_REVIEW) { OLDER_PLAN_REVIEW } else { PLAN_REVIEW }
}

/// What the reviews of the plan show.
pub fn evidence(folder: &TaskFolder, bindings: &Bindings) -> Result<PlanReviewEvidence, Malformed> {
    let plan = match PlanArtifact::read(folder) {
        Ok(Some(plan)) => plan,
        Ok(None) => return Ok(flawed(format!("{PLAN} is missing"))),
        Err(error) => return Ok(flawed(format!("the plan cannot be read: {error}"))),
    };
    let digest = Some(Digest::new(&plan.digest));
    let name = file(folder);
    let Some(artifact) = folder.read(name)? else {
        return Ok(none_yet(format!("{name} is missing"), digest));
    };
    let sum = read(&artifact, name == OLDER_PLAN_REVIEW)?;
    if let Some(stale) = bindings.stale(folder, name, &artifact, "plan_hash", Some(&plan.digest))? {
        return Ok(none_yet(format!("{name} is stale: {stale}"), digest));
    }
    let bad = sum.blocked || sum.changes;
    let mut missing = Vec::new();
    match (sum.blocked, sum.changes) {
        (true, _) => missing.push(String::from("the review blocks the plan")),
        (false, true) => missing.push(String::from("the review wants changes")),
        (false, false) => missing.extend(sum.undecided.iter().cloned()),
    }
    if !bad && !sum.ok && missing.is_empty() {
        missing.push(format!("{name} does not say that the plan is ok"));
    }
    let passed = missing.is_empty();
    let summary = if passed { String::from("the reviewers accept the plan") } else { missing.join("; ") };
    Ok(PlanReviewEvidence {
        passed,
        failed: bad,
        summary,
        tree: None,
        missing,
        blocked: sum.blocked,
        needs_changes: sum.changes,
        findings: sum.findings,
        plan: digest,
    })
}
