//! Coders and architects of stories: what they are told beside what the protocol says, and what becomes of a
//! plan.
//!
//! A plan is kept by its digest, which is made here of the text that was submitted: no agent names one, and
//! an agent that is told a plan is told the text that the digest stands for. A reviewer of code is shown exactly the
//! tree that was tested; where the worktree holds another one by then, before or after, there is no verdict.

use std::sync::Arc;

use ftl_core::catalogue::roles::StoryPlan;
use ftl_core::run::{ActionTarget, Failure, FailureKind};
use ftl_core::value::{Name, Value};

use super::table::Resources;
use super::worktrees::Sites;
use super::{Executor, Job, JobEnd, Report};
use ftl_records::Records;
use ftl_store::{ContentDigest, Store as _};

/// How much of a change a reviewer is shown; the rest stands in the worktree.
pub const MAX_CHANGE_BYTES: usize = 64 * 1024;

/// How many bytes a document may have of which stories are made.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

/// An agent that is told what its story needs.
struct Stories {
    records: Arc<Records>,
    sites: Arc<Sites>,
    document: Option<String>,
    /// The rules for an agent that makes stories of the document.
    rules: String,
    inner: Arc<dyn Executor>,
}

impl Executor for Stories {
    fn perform(&self, job: &Job) -> Report {
        self.tell_and_perform(job).unwrap_or_else(|failure| Report::failed(job, failure))
    }
}

impl Stories {
    fn tell_and_perform(&self, job: &Job) -> Result<Report, Failure> {
        let role = match &job.action.wanted {
            ActionTarget::Task { role, .. } => &**role,
            ActionTarget::Action(_) | ActionTarget::Word(_) | ActionTarget::Question => "",
        };
        let step = job.action.params.get("step").and_then(Value::as_text);
        match (role, step) {
            ("planner", _) if self.document.is_none() => Ok(self.inner.perform(job)),
            ("planner", _) => Ok(self.ask(job, &[("rules", Value::text(&self.rules))])),
            ("coder", Some("plan")) => self.plan(job),
            ("coder", Some("code")) | ("architect", Some("plan_review")) => {
                Ok(self.ask(job, &[("plan", self.plan_of(job)?)]))
            }
            ("architect", Some("code_review")) => self.review(job),
            (_, _) => Ok(self.ask(job, &[])),
        }
    }

    /// Asks the agent with more than the protocol gave it.
    fn ask(&self, job: &Job, more: &[(&str, Value)]) -> Report {
        let mut asked = job.clone();
        let document = self.document.as_ref().map(|text| ("document", Value::text(text)));
        for (name, value) in more.iter().cloned().chain(document) {
            asked.action.params.insert(Name::from(name), value);
        }
        job.mark_asked();
        self.inner.perform(&asked)
    }

    /// A coder's plan, kept; its digest is that of what was kept.
    fn plan(&self, job: &Job) -> Result<Report, Failure> {
        let mut report = self.ask(job, &[]);
        if let JobEnd::Done(value) = &report.ended {
            let mut plan: StoryPlan = value.to().map_err(|error| unfit(&error))?;
            let digest = self.records.store().put(text_of(&plan).as_bytes())?;
            plan.digest = Some(ftl_core::catalogue::scalars::Digest::new(digest.to_string()));
            report.ended = JobEnd::Done(Value::of(&plan).map_err(|error| unfit(&error))?);
        }
        Ok(report)
    }

    /// The text of the plan that a job names by its digest.
    fn plan_of(&self, job: &Job) -> Result<Value, Failure> {
        let named = job.action.params.get("plan").and_then(Value::as_text).unwrap_or_default();
        let lost = |what: &str| {
            let message = format!("the plan {named} cannot be shown: {what}");
            Failure::new(FailureKind::CouldNotRun, message)
        };
        let digest: ContentDigest = named.parse().map_err(|_| lost("it is no digest"))?;
        let bytes = self.records.store().get(&digest)?.ok_or_else(|| lost("it is not in the store"))?;
        let text = String::from_utf8(bytes).map_err(|_| lost("it is no text"))?;
        Ok(Value::text(text))
    }

    /// A review of exactly the tree that was tested.
    fn review(&self, job: &Job) -> Result<Report, Failure> {
        let tree = job.action.params.get("tree").and_then(Value::as_text).unwrap_or_default().to_owned();
        let change = self.sites.change_of(job, &tree)?;
        let more = [("plan", self.plan_of(job)?), ("change", Value::text(render_patch(&change)))];
        let mut report = self.ask(job, &more);
        if let (JobEnd::Done(_), Err(moved)) = (&report.ended, self.sites.change_of(job, &tree)) {
            report.ended = JobEnd::Failed(moved);
        }
        Ok(report)
    }
}

/// A plan as it is kept and read.
fn text_of(plan: &StoryPlan) -> String {
    let todos = plan.todos.as_deref().unwrap_or_default();
    let todos: String = todos.iter().map(|todo| format!("\n- {}", todo.trim())).collect();
    let todos = if todos.is_empty() { todos } else { format!("\n\nTo do:\n{todos}") };
    format!("{}{todos}\n", plan.text.trim_end())
}

/// A patch as a reviewer reads it.
pub(super) fn render_patch(patch: &[u8]) -> String {
    let text = String::from_utf8_lossy(patch);
    let kept = &text[..text.floor_char_boundary(MAX_CHANGE_BYTES)];
    match text.len() - kept.len() {
        0 if kept.is_empty() => String::from("nothing was changed"),
        0 => kept.to_owned(),
        more => format!("{kept}\n[{more} bytes more; read the files]\n"),
    }
}

fn unfit(error: &serde_json::Error) -> Failure {
    Failure::new(FailureKind::Failed, format!("the plan cannot be kept: {error}"))
}

/// Has coders and architects told what their stories need; a planner only where the stories are made of a document.
pub(super) fn tell(with: &Arc<Resources>, inner: Arc<dyn Executor>) -> Arc<dyn Executor> {
    let (records, sites) = (with.records.records.clone(), with.sites.clone());
    let rules = with.agents.as_ref().map(|with| with.agents.prompts().story_rules().to_owned());
    let (document, rules) = (with.given.document.clone(), rules.unwrap_or_default());
    Arc::new(Stories { records, sites, document, rules, inner })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_kept_with_its_todos() {
        let mut plan = StoryPlan { digest: None, text: "first\n".to_owned(), todos: None, confidence: None };
        assert_eq!(text_of(&plan), "first\n");
        plan.todos = Some(vec!["a".to_owned(), " b ".to_owned()]);
        assert_eq!(text_of(&plan), "first\n\nTo do:\n\n- a\n- b\n");
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        assert_eq!(render_patch(b""), "nothing was changed");
        assert_eq!(render_patch(&b"x".repeat(MAX_CHANGE_BYTES)).len(), MAX_CHANGE_BYTES);
        let long = render_patch("ä".repeat(MAX_CHANGE_BYTES).as_bytes());
        assert!(
            long.ends_with(&format!("[{MAX_CHANGE_BYTES} bytes more; read the files]\n")),
            "{}",
            &long[long.len() - 60..]
        );
    }
}
