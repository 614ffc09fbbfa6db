//! The test report: complete or not, green or red, and of which patch.
//!
//! A report is green only where every suite ran, something was tested, and nothing failed; its own flag may
//! make it red and never green. One that is not complete, or tested nothing, is neither.

use ftl_core::catalogue::lifecycle::{ReportEvidence, Signal};
use ftl_core::catalogue::scalars::Digest;

use super::artifact::{ArtifactFile, JsonView, Malformed};
use super::binding::Bindings;
use super::folder::{OLDER_REPORT, PATCH, REPORT, TaskFolder};
use super::signals::signals;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Waits,
    Done,
    Failed,
    Skipped,
}

const STATUSES: [(&str, Status); 4] = [
    ("pending", Status::Waits),
    ("running", Status::Waits),
    ("completed", Status::Done),
    ("failed", Status::Failed),
];

const SUITE_STATUSES: [(&str, Status); 9] = [
    ("pending", Status::Waits),
    ("running", Status::Waits),
    ("completed", Status::Done),
    ("passed", Status::Done),
    ("ok", Status::Done),
    ("failed", Status::Failed),
    ("error", Status::Failed),
    ("errored", Status::Failed),
    ("skipped", Status::Skipped),
];

#[derive(Default)]
struct Sum {
    passed: u64,
    red: bool,
    red_suites: Vec<String>,
    /// Whether a suite is red that may fail.
    allowed: bool,
    /// The suites that are not complete.
    missing: Vec<String>,
}

impl Sum {
    /// Counts of cases; whether any of them is bad.
    fn counts(view: &JsonView<'_>) -> Result<(u64, bool), Malformed> {
        view.is_object()?;
        let count = |key: &str| view.count(key).map(|count| count.unwrap_or(0));
        count("skipped")?;
        Ok((count("passed")?, count("failed")? > 0 || count("error")? > 0))
    }

    fn suite(&mut self, suite: &JsonView<'_>, index: usize) -> Result<(), Malformed> {
        let name = suite.text("id")?.or(suite.text("name")?);
        let name = name.map_or_else(|| format!("suite {}", index + 1), str::to_owned);
        suite.need("status")?;
        let status = suite.word("status", &SUITE_STATUSES)?.unwrap_or(Status::Waits);
        let mut red = suite.flag("overall_pass")? == Some(false) && status != Status::Waits;
        match status {
            Status::Waits => self.missing.push(format!("the suite {name} has not ended")),
            Status::Skipped => {
                red = false;
                self.missing.push(format!("the suite {name} was skipped"));
            }
            Status::Failed => red = true,
            Status::Done => {}
        }
        let (mut passed, mut bad) = (0, false);
        if let Some(summary) = suite.field("summary").filter(|summary| summary.json().is_object()) {
            (passed, bad) = Sum::counts(&summary)?;
        }
        red |= bad;
        let mut listed = 0;
        for case in suite.objects("cases")? {
            match case.word("status", &SUITE_STATUSES)? {
                Some(Status::Failed) => red = true,
                Some(Status::Done) => listed += 1,
                Some(Status::Waits | Status::Skipped) | None => {}
            }
        }
        // A suite counts its cases, lists them, or both.
        self.passed += passed.max(listed);
        if red && suite.flag("allow_failure")? == Some(true) {
            self.allowed = true;
        } else if red {
            self.red = true;
            self.red_suites.push(name);
        }
        Ok(())
    }
}

fn documented(root: &JsonView<'_>) -> Result<Sum, Malformed> {
    let mut sum = Sum::default();
    root.need("status")?;
    let status = root.word("status", &STATUSES)?.unwrap_or(Status::Waits);
    root.need("overall_pass")?;
    let pass = root.flag("overall_pass")? == Some(true);
    let (passed, bad) = Sum::counts(&root.need("summary")?)?;
    root.need("suites")?;
    for (index, suite) in root.objects("suites")?.iter().enumerate() {
        sum.suite(suite, index)?;
    }
    sum.passed = sum.passed.max(passed);
    match status {
        Status::Waits => sum.missing.insert(0, String::from("the run has not ended")),
        // A run that failed itself has shown nothing about the patch.
        Status::Failed => sum.missing.insert(0, String::from("the run itself failed")),
        // What the whole counts is red by a suite that may fail, where there is one and no other is red.
        Status::Done | Status::Skipped => sum.red |= (bad || !pass) && !sum.allowed,
    }
    Ok(sum)
}

/// The report of older work: steps with a status each.
fn older(root: &JsonView<'_>) -> Result<Sum, Malformed> {
    let mut sum = Sum::default();
    for result in root.objects("results")? {
        let name = result.need_text("step")?.to_owned();
        result.need("status")?;
        match result.word("status", &SUITE_STATUSES)?.unwrap_or(Status::Waits) {
            Status::Done => sum.passed += 1,
            Status::Failed => {
                sum.red = true;
                sum.red_suites.push(name);
            }
            Status::Waits => sum.missing.push(format!("the step {name} has not ended")),
            Status::Skipped => {}
        }
    }
    Ok(sum)
}

fn read(artifact: &ArtifactFile) -> Result<Sum, Malformed> {
    let root = artifact.root()?;
    let is_older = !root.has("suites") && !root.has("overall_pass") && root.has("results");
    let mut sum = if is_older { older(&root)? } else { documented(&root)? };
    for signal in signals(&root)? {
        match signal {
            Signal::Regression | Signal::NeedsChanges => sum.red = true,
            Signal::Blocked | Signal::PlanUnclear | Signal::ScopeMismatch | Signal::PlanMisalignment => {
                sum.missing.push(format!("the report says {}", signal.word()));
            }
        }
    }
    Ok(sum)
}

/// The file that holds the report: the older place counts where there is no other.
pub fn file(folder: &TaskFolder) -> &'static str {
    if !folder.has(REPORT) && folder.has(OLDER_REPORT) { OLDER_REPORT } else { REPORT }
}

/// What the test report shows.
pub fn evidence(folder: &TaskFolder, bindings: &Bindings) -> Result<ReportEvidence, Malformed> {
    let patch = folder.digest(PATCH)?.map(|digest| digest.to_string());
    let none_yet = |missing: Vec<String>| ReportEvidence {
        passed: false,
        failed: false,
        summary: missing.join("; "),
        tree: None,
        missing,
        patch: patch.as_deref().map(Digest::new),
        red_suites: Vec::new(),
    };
    let name = file(folder);
    let Some(artifact) = folder.read(name)? else {
        return Ok(none_yet(vec![format!("{name} is missing")]));
    };
    let mut sum = read(&artifact)?;
    if let Some(stale) = bindings.stale(folder, name, &artifact, "diff_hash", patch.as_deref())? {
        return Ok(none_yet(vec![format!("{name} is stale: {stale}")]));
    }
    // A suite that is still to run may not make green what is red already.
    let waits =
        sum.missing.iter().any(|one| one.ends_with("has not ended") || one == "the run itself failed");
    if sum.red && !waits {
        let suites = if sum.red_suites.is_empty() {
            String::new()
        } else {
            format!(": {}", sum.red_suites.join(", "))
        };
        let said = root_summary(&artifact).map(|text| format!("\n{text}")).unwrap_or_default();
        let summary = format!("the report is red{suites}{said}");
        let missing = vec![format!("the report is red{suites}")];
        return Ok(ReportEvidence { failed: true, summary, red_suites: sum.red_suites, ..none_yet(missing) });
    }
    if sum.passed == 0 && sum.missing.is_empty() {
        sum.missing.push(String::from("no test ran"));
    }
    if !sum.missing.is_empty() {
        return Ok(none_yet(sum.missing));
    }
    let summary = format!("{} passed, nothing failed", sum.passed);
    Ok(ReportEvidence { passed: true, summary, ..none_yet(Vec::new()) })
}

/// What failed, as far as the report says it.
fn root_summary(artifact: &ArtifactFile) -> Option<String> {
    let root = artifact.root().ok()?;
    let mut told = Vec::new();
    for suite in root.objects("suites").ok()? {
        for case in suite.objects("cases").ok()? {
            let failed = matches!(case.word("status", &SUITE_STATUSES), Ok(Some(Status::Failed)));
            if let (true, Ok(Some(details))) = (failed, case.text("details")) {
                let name = case.text("name").ok().flatten().unwrap_or_default();
                told.push(format!("{name}: {details}"));
            }
        }
    }
    (!told.is_empty()).then(|| told.join("\n"))
}
