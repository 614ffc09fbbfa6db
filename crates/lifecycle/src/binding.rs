//! What evidence is bound to: the digest of what it saw.
//!
//! Evidence that carries a digest is bound by it. Evidence without one is bound to what lies beside it when
//! `ftl` first sees it, and that is remembered; a file that was written again is seen anew. Evidence whose
//! plan or patch has changed since is stale and does not count.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::artifact::{ArtifactFile, Malformed};
use super::folder::{
    CODE_REVIEW, DECISION, OLDER_PLAN_REVIEW, OLDER_REPORT, PATCH, PLAN, PLAN_REVIEW, RECORD, REPORT,
    TaskFolder,
};

/// The digest that is noted for a plan or a patch that is not there.
const ABSENT: &str = "none";

/// The digest that is noted for evidence that was carried out and counts no more.
const SPENT: &str = "spent";

/// The evidence that a task may have: its file, the digest that it may carry, what that is the digest of.
const EVIDENCE: [(&str, &str, &str); 7] = [
    (PLAN_REVIEW, "plan_hash", PLAN),
    (OLDER_PLAN_REVIEW, "plan_hash", PLAN),
    (CODE_REVIEW, "diff_hash", PATCH),
    (REPORT, "diff_hash", PATCH),
    (OLDER_REPORT, "diff_hash", PATCH),
    (DECISION, "diff_hash", PATCH),
    (RECORD, "diff_hash", PATCH),
];

/// What one piece of evidence is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bound {
    /// The evidence: its digest, and when it was written.
    evidence: String,
    /// The digest of what lay beside it.
    beside: String,
}

/// What the evidence of one task is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    bound: RefCell<BTreeMap<String, Bound>>,
}

impl Bindings {
    /// Bindings as they were kept.
    pub fn parse(text: &str) -> Bindings {
        // What cannot be read binds nothing: everything is seen anew.
        Bindings { bound: RefCell::new(serde_json::from_str(text).unwrap_or_default()) }
    }

    /// Bindings as they are kept.
    pub fn text(&self) -> String {
        serde_json::to_string(&*self.bound.borrow()).unwrap_or_default()
    }

    /// Binds everything that carries no digest and was not seen before.
    pub fn see_all(&self, folder: &TaskFolder) {
        for (name, key, beside) in EVIDENCE {
            // A file that cannot be read is reported by the gate that needs it.
            if let Ok(Some(artifact)) = folder.read(name)
                && let Ok(beside) = folder.digest(beside)
            {
                let beside = beside.map(|digest| digest.to_string());
                let _ = self.stale(folder, name, &artifact, key, beside.as_deref());
            }
        }
        self.bound.borrow_mut().retain(|name, _| folder.has(name));
    }

    /// Has a piece of evidence count no more, because what it says was carried out.
    pub fn spend(&self, folder: &TaskFolder, name: &str) {
        if let Ok(Some(artifact)) = folder.read(name) {
            let evidence = format!("{} {}", artifact.digest(), folder.stamp(name));
            let spent = Bound { evidence, beside: SPENT.to_owned() };
            self.bound.borrow_mut().insert(name.to_owned(), spent);
        }
    }

    /// Why a piece of evidence does not count for what lies beside it now; `None` when it does.
    pub(super) fn stale(
        &self,
        folder: &TaskFolder,
        name: &str,
        artifact: &ArtifactFile,
        key: &str,
        beside: Option<&str>,
    ) -> Result<Option<String>, Malformed> {
        let what = if key == "plan_hash" { "the plan" } else { "the patch" };
        let root = artifact.root()?;
        let evidence = format!("{} {}", artifact.digest(), folder.stamp(name));
        if self
            .bound
            .borrow()
            .get(name)
            .is_some_and(|bound| bound.evidence == evidence && bound.beside == SPENT)
        {
            return Ok(Some(String::from("it was carried out already")));
        }
        let meta = root.field("meta");
        if let Some(meta) = &meta {
            meta.is_object()?;
        }
        let carried = meta.as_ref().map(|meta| meta.text(key)).transpose()?.flatten();
        if let Some(carried) = carried {
            let carried = carried.strip_prefix("sha256:").unwrap_or(carried);
            let same = beside.is_some_and(|beside| beside.eq_ignore_ascii_case(carried));
            let is = if beside.is_some() { "has changed" } else { "is not there" };
            return Ok((!same).then(|| format!("it saw another digest, and {what} {is}")));
        }
        let beside = beside.unwrap_or(ABSENT);
        let mut bound = self.bound.borrow_mut();
        match bound.get(name).filter(|bound| bound.evidence == evidence) {
            Some(bound) => Ok((bound.beside != beside).then(|| format!("{what} has changed since"))),
            None => {
                bound.insert(name.to_owned(), Bound { evidence, beside: beside.to_owned() });
                Ok(None)
            }
        }
    }
}
