//! Workspaces: the XML brief that a builder gets, and what became of it.
//!
//! Everything here is pure: texts and values in, texts and values or a refusal out; files are the caller's. A
//! workspace that is not active is never changed, and no name out of a plan or a file becomes a path unchecked.

mod close;
mod create;
mod parse;
#[cfg(test)]
mod tests;
mod xml;

use std::fmt;

pub use ftl_core::catalogue::spec::{LessonKind, WorkspaceStatus};
use ftl_core::plan::Seq;

pub use close::{BlockReason, ClosedWorkspace, MAX_DELIVERED_BYTES, OnDisk, block, complete, read_utilized};
pub use create::{
    Created, MAX_CODE_BYTES, WorkspaceContext, create, gather_contexts, parents, sibling_failures,
};
pub use parse::{is_empty, parse};
pub use xml::{MAX_ATTRIBUTES, MAX_DEPTH, MAX_NODES, MAX_WORKSPACE_BYTES};

use crate::plan_file::{TaskType, check_seq, check_slug};
use ftl_code::context::CodeContext;
use ftl_code::framework::Rules;

/// The confidence in a framework for which none is stated.
pub const DEFAULT_CONFIDENCE: f64 = 0.5;

/// Why something was not done: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRefusal {
    /// What went wrong with what.
    pub message: String,
    /// What to do next.
    pub hint: String,
}

impl WorkspaceRefusal {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> WorkspaceRefusal {
        WorkspaceRefusal { message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for WorkspaceRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for WorkspaceRefusal {}

/// The name of a workspace file: `SEQ_slug_status.xml`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    seq: String,
    slug: String,
    status: WorkspaceStatus,
}

impl FileName {
    /// The name of a new file. Seq and slug are checked, so that they cannot leave the folder.
    pub fn new(seq: &str, slug: &str, status: WorkspaceStatus) -> Result<FileName, WorkspaceRefusal> {
        check_seq(seq).map_err(|wrong| WorkspaceRefusal::new(format!("seq {}", wrong.what), wrong.hint))?;
        check_slug(slug)
            .map_err(|wrong| WorkspaceRefusal::new(format!("slug {}", wrong.what), wrong.hint))?;
        Ok(FileName { seq: seq.to_owned(), slug: slug.to_owned(), status })
    }

    /// Reads the name of a file that is there; older files may have other letters in their slugs.
    pub fn parse(name: &str) -> Option<FileName> {
        let stem = name.strip_suffix(".xml")?;
        let (seq, rest) = stem.split_once('_')?;
        let (slug, status) = rest.rsplit_once('_')?;
        let is_seq = !seq.is_empty() && seq.len() <= 18 && seq.bytes().all(|byte| byte.is_ascii_digit());
        let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let is_slug = !slug.is_empty() && slug.chars().all(is_letter) && !slug.starts_with('.');
        let status = WorkspaceStatus::parse(status)?;
        (is_seq && is_slug).then(|| FileName { seq: seq.to_owned(), slug: slug.to_owned(), status })
    }

    /// The seq as it is spelled.
    pub fn seq(&self) -> &str {
        &self.seq
    }

    /// The slug of the task, from the name of the file.
    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// The status, from the name of the file.
    pub fn status(&self) -> WorkspaceStatus {
        self.status
    }

    /// The same file with another status.
    pub fn with_status(&self, status: WorkspaceStatus) -> FileName {
        FileName { status, ..self.clone() }
    }

    /// The name without its ending.
    pub fn stem(&self) -> String {
        format!("{}_{}_{}", self.seq, self.slug, self.status.word())
    }

    /// Whether it belongs to the task of a seq, in any spelling.
    pub fn is_of(&self, seq: &str) -> bool {
        Seq::read(seq).is_some_and(|wanted| Seq::read(&self.seq) == Some(wanted))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.xml", self.stem())
    }
}

/// A workspace that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    /// The name of the workspace, `<seq>-<slug>`.
    pub id: String,
    /// How far it has come.
    pub status: WorkspaceStatus,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it was completed.
    pub completed_at: Option<String>,
    /// When it was blocked.
    pub blocked_at: Option<String>,
    /// The campaign it belongs to, by id.
    pub campaign: Option<String>,
    /// What sort of work it is; old files do not say.
    pub kind: Option<TaskType>,
    /// Whether it was blocked because it was too much for its mode, or its brief was unusable.
    pub escalated: bool,
    /// What the plan as a whole is to reach.
    pub objective: String,
    /// The files that may change.
    pub delta: Vec<String>,
    /// The command that shows whether it is done.
    pub verify: String,
    /// The test file behind that command; empty when there is none.
    pub verify_source: String,
    /// How many tools it may take.
    pub budget: u64,
    /// How often a red verify goes back to its author, where it says so.
    pub repairs: Option<u64>,
    /// How many files its builder may read while it plans, where it says so.
    pub plan_reads: Option<u64>,
    /// Commands that must succeed before the verify command is worth running.
    pub preflight: Vec<String>,
    /// Findings of gates that the plan allows, each `KIND` or `KIND PATH`.
    pub allow: Vec<String>,
    /// What was delivered, or why it is blocked.
    pub delivered: String,
    /// The files of the delta as they were.
    pub contexts: Vec<CodeContext>,
    /// The framework, as the plan spells it.
    pub framework: Option<String>,
    /// How sure that is; old files may not say.
    pub framework_confidence: Option<f64>,
    /// What its code must and must not look like.
    pub idioms: Option<Rules>,
    /// Failures to avoid; `None` together with patterns where the file has no such part.
    pub prior_knowledge: Option<PriorKnowledge>,
    /// The lessons that were used.
    pub utilized: Option<Vec<UsedLesson>>,
    /// What the tasks before it delivered.
    pub parents: Vec<Parent>,
    /// A pattern to apply, in old files.
    pub pattern: Option<String>,
}

/// Lessons that a workspace carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorKnowledge {
    /// Failures of earlier work, with what helped.
    pub failures: Vec<KnownFailure>,
    /// Patterns that went well in earlier work.
    pub patterns: Vec<KnownPattern>,
}

/// A failure that a workspace carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFailure {
    /// The name of the lesson.
    pub name: String,
    /// The cost of the failure.
    pub cost: u64,
    /// The words by which the failure is recalled.
    pub trigger: String,
    /// What helped, or `UNKNOWN`.
    pub fix: String,
    /// A regular expression that the error matches; empty when there is none.
    pub pattern: String,
    /// Whether it came from memory.
    pub injected: bool,
}

/// A pattern that a workspace carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPattern {
    /// The name of the lesson.
    pub name: String,
    /// The saving of the pattern.
    pub saved: u64,
    /// The situation in which the pattern applies.
    pub trigger: String,
    /// The advice of the pattern.
    pub insight: String,
    /// Whether it came from memory.
    pub injected: bool,
}

/// A task before this one, and what it delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parent {
    /// Its seq; old files do not say.
    pub seq: Option<String>,
    /// The name of its workspace file, without the ending.
    pub workspace: String,
    /// The summary of what the parent task delivered.
    pub prior_delivery: String,
}

/// A lesson that was applied or heeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedLesson {
    /// The framework's name.
    pub name: String,
    /// Whether it is a failure or a pattern.
    pub kind: LessonKind,
}

/// Why a workspace is blocked: what is after the first `BLOCKED:` of what was delivered.
pub fn block_reason(delivered: &str) -> Option<&str> {
    delivered.split_once("BLOCKED:").map(|(_, reason)| reason.trim())
}
