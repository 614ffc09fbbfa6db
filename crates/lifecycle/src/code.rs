//! The code: `code/diff.patch` and `code/files/`, against the files of the plan.
//!
//! A file that the plan does not name is a question about the plan. A file that the plan names and the code lacks
//! means that the work is not complete. What the coder says about its own phase stands in `code/codegen.json`.

use std::collections::{BTreeMap, BTreeSet};

use ftl_core::catalogue::lifecycle::{Category, CodeEvidence, Finding, Severity, Signal};
use ftl_core::catalogue::scalars::Digest;

use super::artifact::Malformed;
use super::folder::{CODEGEN, FILES, PATCH, PLAN, TaskFolder, path_problem, plain_path};
use super::patch::{self, Touch};
use super::plan::{FileScope, Intent, PlanArtifact};
use super::signals::signals;
use ftl_store as store;

/// What the code's artifacts show, and what a person may want to look at.
pub struct CodeFindings {
    /// What gates judge by: the patch against the plan.
    pub evidence: CodeEvidence,
    /// What is odd and does not stop the task.
    pub warnings: Vec<String>,
}

#[derive(Default)]
struct Look {
    scope_mismatch: bool,
    plan_unclear: bool,
    missing: Vec<String>,
    findings: Vec<Finding>,
    warnings: Vec<String>,
}

impl Look {
    fn add_finding(&mut self, path: Option<&str>, message: String) {
        let (severity, category) = (Severity::Blocking, Some(Category::Plan));
        let (role, path) = (Some(String::from("ftl")), path.map(str::to_owned));
        self.findings.push(Finding { id: None, severity, category, role, path, message });
    }

    fn mismatch(&mut self, path: &str) {
        self.scope_mismatch = true;
        self.add_finding(Some(path), format!("`{path}` was generated, and the plan does not name it"));
    }

    fn unclear(&mut self, message: String) {
        self.plan_unclear = true;
        self.add_finding(None, message);
    }
}

/// What the code's artifacts show.
pub fn evidence(folder: &TaskFolder) -> Result<CodeFindings, Malformed> {
    let mut look = Look::default();
    let plan = PlanArtifact::read(folder)?;
    let scope = FileScope::read(folder, plan.as_ref())?;
    match &plan {
        None => look.unclear(format!("{PLAN} is missing")),
        Some(_) if scope.files.is_empty() => look.unclear(String::from("the plan names no file")),
        Some(_) => {}
    }
    let stale = coder(folder, plan.as_ref(), &mut look)?;
    let generated = folder.generated()?;
    let whole = folder.bytes(PATCH)?;
    let is_empty = whole.as_ref().is_some_and(|bytes| bytes.iter().all(u8::is_ascii_whitespace));
    // A patch without a change is complete only where the plan says so.
    let allowed = is_empty && generated.is_empty() && plan.as_ref().is_some_and(|plan| plan.may_be_empty);
    let bytes = whole.filter(|_| !is_empty);
    let digest = bytes.as_ref().map(|bytes| Digest::new(store::ContentDigest::of(bytes).to_string()));
    let touched = match &bytes {
        None => None,
        Some(bytes) => Some(touched(folder, bytes)?),
    };
    if touched.is_none() && !allowed {
        look.missing.push(format!("{PATCH} is missing or empty"));
    }
    let touched = touched.unwrap_or_default();
    let removed: BTreeSet<&str> = touched
        .iter()
        .filter(|(_, touch)| **touch == Touch::Removes)
        .map(|(path, _)| path.as_str())
        .collect();
    if !allowed && generated.is_empty() && (removed.is_empty() || removed.len() < touched.len()) {
        look.missing.push(format!("{FILES}/ has no file"));
    }
    let all: BTreeSet<&str> = generated.iter().chain(touched.keys()).map(String::as_str).collect();
    if !scope.files.is_empty() && !allowed {
        compare(&scope, &all, &generated, &removed, &mut look);
    }
    for path in generated.iter().filter(|path| !touched.contains_key(*path) && !touched.is_empty()) {
        look.warnings.push(format!("{FILES}/{path} is not in the patch, and will not be applied"));
    }
    let files = all.iter().map(|path| (*path).to_owned()).collect();
    Ok(finish(look, stale, digest, files))
}

/// The files of a patch, which all lie inside of the repository.
fn touched(folder: &TaskFolder, bytes: &[u8]) -> Result<BTreeMap<String, Touch>, Malformed> {
    let files = patch::files(bytes).ok_or_else(|| folder.wrong(PATCH, "is no patch: it names no file"))?;
    let files: BTreeMap<String, Touch> =
        files.into_iter().map(|(path, touch)| (plain_path(&path), touch)).collect();
    match files.keys().find_map(|path| path_problem(path).map(|problem| (path, problem))) {
        Some((path, problem)) => Err(folder.wrong(PATCH, format!("names `{path}`, which {problem}"))),
        None => Ok(files),
    }
}

/// What the coder says; why its work does not count for the plan as it is now.
fn coder(
    folder: &TaskFolder,
    plan: Option<&PlanArtifact>,
    look: &mut Look,
) -> Result<Option<String>, Malformed> {
    let Some(artifact) = folder.read(CODEGEN)? else { return Ok(None) };
    let root = artifact.root()?;
    for signal in signals(&root)? {
        let says = format!("the coder says {}", signal.word());
        match signal {
            Signal::ScopeMismatch | Signal::PlanMisalignment => {
                look.scope_mismatch = true;
                look.add_finding(None, says);
            }
            Signal::PlanUnclear => look.unclear(says),
            Signal::NeedsChanges | Signal::Blocked | Signal::Regression => look.missing.push(says),
        }
    }
    if let Some(summary) = root.text("summary")?
        && let Some(last) = look.findings.last_mut()
    {
        last.message = format!("{}: {summary}", last.message);
    }
    let Some(meta) = root.field("meta") else { return Ok(None) };
    meta.is_object()?;
    let saw = meta.text("plan_hash")?;
    let now = plan.map(|plan| plan.digest.as_str());
    let differs = saw.is_some_and(|saw| now.is_none_or(|now| !now.eq_ignore_ascii_case(saw)));
    Ok(differs.then(|| format!("{PATCH} is stale: it was made for another plan")))
}

/// Compares what was made with what was planned.
fn compare(
    scope: &FileScope,
    all: &BTreeSet<&str>,
    generated: &[String],
    removed: &BTreeSet<&str>,
    look: &mut Look,
) {
    for path in all {
        if !scope.files.iter().any(|(planned, _)| planned == path) {
            look.mismatch(path);
        }
    }
    for (path, intent) in &scope.files {
        let (made, gone) = (generated.contains(path), removed.contains(path.as_str()));
        match intent {
            Intent::Write if !made && !gone => {
                look.missing.push(format!("`{path}` is planned, and {FILES}/ does not have it"));
            }
            Intent::Delete if !gone => {
                look.missing.push(format!("`{path}` is to be deleted, and the patch does not"));
            }
            Intent::Write | Intent::Delete => {}
        }
    }
}

fn finish(look: Look, stale: Option<String>, patch: Option<Digest>, files: Vec<String>) -> CodeFindings {
    let Look { mut scope_mismatch, mut plan_unclear, mut missing, mut findings, warnings } = look;
    // What was made for another plan says nothing about this one.
    if let Some(stale) = stale {
        (scope_mismatch, plan_unclear) = (false, false);
        findings.clear();
        missing.insert(0, stale);
    }
    let back = scope_mismatch || plan_unclear;
    let passed = missing.is_empty() && !back;
    let summary = match () {
        () if back => findings.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join("; "),
        () if passed && files.len() == 1 => String::from("patch and files are complete: 1 file"),
        () if passed => format!("patch and files are complete: {} files", files.len()),
        () => missing.join("; "),
    };
    if back {
        missing.extend(findings.iter().map(|one| one.message.clone()));
    }
    let evidence = CodeEvidence {
        passed,
        failed: back,
        summary,
        tree: None,
        missing,
        scope_mismatch,
        plan_unclear,
        findings,
        patch,
        files,
    };
    CodeFindings { evidence, warnings }
}
