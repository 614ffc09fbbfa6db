//! The gates as actions: each looks at what is in the worktree of the instance that asks.

use ftl_core::catalogue::build::{FileRead, PreflightCheck, VerifyOutcome, VerifyReport, VerifyRun};
use ftl_core::catalogue::scalars::Seconds;
use ftl_core::machine::MachineCause;
use ftl_core::run::{Failure, FailureKind};

use super::base::Base;
use super::brief::Noted;
use super::checkout::{CheckoutOf, Ready};
use super::{Site, Sites};
use crate::executors::Job;
use crate::executors::typed::Done;
use crate::executors::workspaces::file_text;
use ftl_gates::integrity::{look_for_answers, tests_below};
use ftl_gates::red_first::{self, RedFirstNeed};
use ftl_gates::verify::{self, CouldNotRun, RepeatPolicy, VerifyMeasure, against, signature_of};
use ftl_gates::{Finding, FindingAllowance, Work, allow, preflight};
use ftl_git::Oid;
use ftl_git::change::Change;
use ftl_settings::environment::CommandKind;

/// How many files are named that a verify command has left behind.
const MAX_NAMED: usize = 5;

/// A command of a gate.
#[derive(Clone, Copy)]
pub(super) struct Command<'a> {
    pub(super) text: &'a str,
    pub(super) timeout: Option<Seconds>,
    /// The purpose, which decides the variables that it gets.
    pub(super) kind: CommandKind,
}

/// What a command showed, and the tree of the worktree afterwards.
struct Verified {
    ran: VerifyMeasure,
    after: Oid,
}

impl Sites {
    /// Performs `verify.run`.
    pub(in crate::executors) fn run_verify(&self, job: &Job, asked: &VerifyRun) -> Done<VerifyRun> {
        let (site, noted) = (self.site(job)?, self.noted(job)?);
        let kind = CommandKind::Verify;
        let command = Command { text: &asked.command, timeout: asked.timeout, kind };
        let base = self.base(job, &site, command)?;
        let tree = site.standing()?;
        let Verified { ran, after } = self.verify_in_checkout(job, &site, command, (&tree, &base))?;
        let change = site.change(&tree)?;
        let mut findings = self.look(&change, noted.as_ref());
        findings.extend(base.ran.iter().flat_map(|base| against(base, &ran, &change).findings));
        let promise = noted.as_ref().map(Noted::promise).unwrap_or_default();
        let brief = noted.as_ref().map(Noted::brief).unwrap_or_default();
        if noted.is_some() {
            findings.extend(look_for_answers(&change, &brief, &tests_below(&site.folder, &brief)));
        }
        if let (Some(base), VerifyOutcome::Passed) = (&base.ran, ran.outcome)
            && red_first::look(base, &ran, &change, &brief) == RedFirstNeed::Nothing
        {
            findings.push(red_first::tell(&[], promise.is_fix));
        }
        findings.extend(self.find_seen(job));
        self.allow(&mut findings, noted.as_ref());
        let report = ran.report(tree.as_str(), base.ran.as_ref().map(|base| (base, &promise)), &findings);
        if after != tree {
            return Ok(changed_itself(report, &site.difference(&tree, &after)?));
        }
        self.is_known(&tree, &ran, kind)?;
        Ok(report)
    }

    /// Runs a command on exactly the files of a worktree, in a checkout of it: what git ignores there, and what a
    /// process of the agent's still does there, has no part in the answer.
    fn verify_in_checkout(
        &self,
        job: &Job,
        site: &Site,
        command: Command<'_>,
        (tree, base): (&Oid, &Base),
    ) -> Result<Verified, Failure> {
        let of = CheckoutOf { repo: &site.repo, commit: &site.tree.base, tree: Some(tree) };
        let mut run = |ready: Result<Ready<'_>, CouldNotRun>| -> Result<Verified, Failure> {
            let ready = ready.map_err(|why| no_answer(&why))?;
            let env = self.environment.of_command(command.kind);
            let command_place =
                self.command_place(job, ready.folder.to_owned(), ("verify", env), command.timeout);
            let ran = verify::run(
                &command_place,
                command.text,
                tree.as_str(),
                RepeatPolicy::default(),
                &job.cancel,
            );
            if let Some(failure) = self.blame(base, ready.folder, ran.as_ref()) {
                return Err(failure);
            }
            Ok(Verified { ran: ran.map_err(|why| no_answer(&why))?, after: ready.tree()? })
        };
        self.in_checkout(job, of, &mut run)?
    }

    /// What scope, integrity and secrets show. Without a brief it is not said which files may change.
    pub(super) fn look(&self, change: &Change, noted: Option<&Noted>) -> Vec<Finding> {
        let mut findings = ftl_gates::look(change, noted.map(Noted::brief).as_ref());
        self.allow(&mut findings, noted);
        findings
    }

    /// Marks what the person who opened the run allows, and what the plan does.
    pub(super) fn allow(&self, findings: &mut [Finding], noted: Option<&Noted>) {
        let plan = noted.and_then(|noted| noted.spec.allow.as_deref()).unwrap_or_default();
        let by_plan = plan.iter().filter_map(|text| FindingAllowance::parse(text, "the plan").ok());
        let all: Vec<FindingAllowance> = self.allowed.iter().cloned().chain(by_plan).collect();
        allow(findings, &all);
    }

    /// Performs `preflight.check`.
    pub(in crate::executors) fn check_syntax(
        &self,
        job: &Job,
        asked: &PreflightCheck,
    ) -> Done<PreflightCheck> {
        let (site, noted) = (self.site(job)?, self.noted(job)?);
        let tree = site.standing()?;
        let change = site.change(&tree)?;
        let commands = noted.map(|noted| noted.spec.preflight).unwrap_or_default();
        let env = self.environment.of_command(CommandKind::Preflight);
        let command_place = self.command_place(job, site.folder, ("preflight", env), None);
        Ok(preflight::check(&command_place, &asked.files, &commands, &change, tree.as_str(), &job.cancel))
    }

    /// Performs a gate that needs nothing but the work in the worktree of the instance that asks.
    pub(in crate::executors) fn look_at_work<A>(
        &self,
        job: &Job,
        gate: impl FnOnce(&Work<'_>) -> A,
    ) -> Result<A, Failure> {
        let site = self.site(job)?;
        let tree = site.standing()?;
        let change = site.change(&tree)?;
        Ok(gate(&Work { change: &change, folder: &site.folder, tree: tree.as_str() }))
    }

    /// Performs `file.read`.
    pub(in crate::executors) fn read_file(&self, job: &Job, asked: &FileRead) -> Done<FileRead> {
        let folder = if self.has_site(job)? { self.folder(job)? } else { self.place().root().to_owned() };
        file_text(&folder, &asked.path)
    }
}

/// The answer about a command that itself changes what it was to look at: the tree as it is now was not
/// verified.
fn changed_itself(report: VerifyReport, change: &Change) -> VerifyReport {
    let named: Vec<&str> = change.files.iter().take(MAX_NAMED).map(|file| file.path.as_str()).collect();
    let more = change.files.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let summary = format!(
        "the command changes files that git does not ignore: {}{more} (hint: have git ignore them)\n{}",
        named.join(", "),
        report.summary
    );
    let outcome = match report.outcome {
        VerifyOutcome::Passed | VerifyOutcome::Failed => VerifyOutcome::Failed,
        outcome @ (VerifyOutcome::Flaky | VerifyOutcome::NoTests) => outcome,
    };
    let signature = Some(signature_of(&summary));
    VerifyReport { passed: false, failed: true, summary, outcome, signature, ..report }
}

pub(super) fn no_answer(why: &CouldNotRun) -> Failure {
    let kind = match why {
        CouldNotRun::Machine(_) => FailureKind::Machine,
        // Nothing says whether the machine or the command had too little: that is no verdict about the work.
        CouldNotRun::OutOfMemory(_) => return MachineCause::Memory.failure(why.to_string()),
        CouldNotRun::NotFound(_)
        | CouldNotRun::Timeout(_)
        | CouldNotRun::Signal(_)
        | CouldNotRun::Cancelled
        | CouldNotRun::NotStarted(_) => FailureKind::CouldNotRun,
    };
    Failure::new(kind, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_git::change::FileChange;

    #[test]
    fn a_command_that_leaves_files_names_some_of_them() {
        let file = |number: usize| FileChange { path: format!("f{number}"), before: None, after: None };
        let change = Change { files: (0..MAX_NAMED + 2).map(file).collect() };
        let report = VerifyReport {
            passed: true,
            failed: false,
            signature: None,
            summary: "3 passed".to_owned(),
            tree: None,
            outcome: VerifyOutcome::Passed,
            command: None,
            exit: Some(0),
            took: None,
            output: None,
            red_before: None,
        };
        let told = changed_itself(report, &change);
        assert!(!told.passed && told.failed && told.outcome == VerifyOutcome::Failed);
        assert!(told.summary.contains("f3, f4 and 2 more") && told.summary.ends_with("3 passed"), "{told:?}");
    }
}
