//! The record of a revert: what was undone, and why.
//!
//! It is about one commit of one patch. A record that saw another patch, or that names another commit than the
//! one that stands applied, is stale: it never shows that this work was undone.

use ftl_core::catalogue::lifecycle::RevertEvidence;

use super::artifact::Malformed;
use super::binding::Bindings;
use super::folder::{COMMIT, PATCH, RECORD, TaskFolder};
use super::signals::signals;

/// The fewest letters that a commit is named by.
const MIN_SHORT: usize = 7;

/// What the record of a revert shows.
pub fn evidence(folder: &TaskFolder, bindings: &Bindings) -> Result<RevertEvidence, Malformed> {
    let none_yet = |missing: String| RevertEvidence {
        passed: false,
        failed: false,
        summary: missing.clone(),
        tree: None,
        missing: vec![missing],
        target: None,
    };
    let Some(artifact) = folder.read(RECORD)? else {
        return Ok(none_yet(format!("{RECORD} is missing")));
    };
    let root = artifact.root()?;
    let field = root.need("reason")?;
    if field.as_text()?.trim().is_empty() {
        return Err(field.wrong("does not say why"));
    }
    root.text("timestamp")?;
    let target = match root.field("target") {
        Some(target) if target.json().is_object() => target.text("commit")?.map(str::to_owned),
        Some(target) => Some(target.as_text()?.to_owned()),
        None => None,
    };
    let explained = root.text("explanation")?.is_some_and(|text| !text.trim().is_empty());
    let partial = root.flag("partial")?.unwrap_or(false) && !explained;
    signals(&root)?;
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    if let Some(stale) = bindings.stale(folder, RECORD, &artifact, "diff_hash", patch.as_deref())? {
        return Ok(none_yet(format!("{RECORD} is stale: {stale}")));
    }
    if let (Some(target), Some(applied)) = (&target, applied(folder)?)
        && !names(target, &applied)
    {
        let stale = format!("it undid `{target}`, and {COMMIT} says that {applied} is applied");
        return Ok(none_yet(format!("{RECORD} is stale: {stale}")));
    }
    if partial {
        let missing = format!("{RECORD} says that only a part was undone, and has no `explanation`");
        return Ok(RevertEvidence { target, failed: true, ..none_yet(missing) });
    }
    let summary = format!("undone: {}", target.as_deref().unwrap_or("nothing was applied"));
    Ok(RevertEvidence { passed: true, summary, missing: Vec::new(), target, ..none_yet(String::new()) })
}

/// The commit of this task that stands applied, as far as its folder tells. What `ftl` has undone is told no more.
fn applied(folder: &TaskFolder) -> Result<Option<String>, Malformed> {
    let Some(commit) = folder.read(COMMIT)? else { return Ok(None) };
    Ok(Some(commit.root()?.need_text("commit")?.to_owned()))
}

/// Whether a target is a commit, perhaps in short.
fn names(target: &str, commit: &str) -> bool {
    let target = target.trim().to_ascii_lowercase();
    target.len() >= MIN_SHORT && commit.to_ascii_lowercase().starts_with(&target)
}
