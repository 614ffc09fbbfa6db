//! What a gate found: a kind, a place, a sentence, and whether it blocks.
//!
//! A finding is never dropped because it was allowed: it stays, and says who allowed it.

use std::fmt;

pub use ftl_core::catalogue::finding::FindingKind;
use ftl_core::catalogue::spec::Spec;
use serde::{Deserialize, Serialize};

use crate::names::bare;

/// How many findings one gate tells; the last one then says that there are more.
pub const MAX_FINDINGS: usize = 200;

/// What a piece of work was asked to do, as far as gates look at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// The files and folders that may change.
    pub delta: Vec<String>,
    /// The command that shows whether it is done.
    pub verify: String,
    /// The test file behind that command, where the plan names it.
    pub verify_source: Option<String>,
    /// What it is about, as far as somebody wrote it down: its name and what the whole plan is to reach.
    pub text: String,
}

impl Brief {
    /// The brief that a workspace gives.
    pub fn of(spec: &Spec) -> Brief {
        let named = spec.verify_source.clone().filter(|path| !path.is_empty());
        Brief {
            delta: spec.delta.clone(),
            verify: spec.verify.clone(),
            verify_source: named.or_else(|| crate::context::verify_source(&spec.verify)),
            text: format!("{} {}", spec.id.replace('-', " "), spec.objective.as_deref().unwrap_or_default()),
        }
    }

    /// Whether the delta names exactly this file.
    pub fn names(&self, path: &str) -> bool {
        self.delta.iter().any(|entry| bare(entry) == path)
    }

    /// Whether the delta names this file or a folder above it.
    pub fn covers(&self, path: &str) -> bool {
        self.delta.iter().any(|entry| is_at_or_below(path, entry))
    }
}

/// Whether a path is this entry or lies below it.
pub fn is_at_or_below(path: &str, entry: &str) -> bool {
    let entry = bare(entry);
    let rest = path.strip_prefix(entry);
    !entry.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a finding stops the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It does, unless it is allowed.
    Blocks,
    /// It is worth knowing.
    Note,
}

/// One thing that a gate found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// Whether it stops the work.
    pub severity: Severity,
    /// The file, where it is about one.
    pub path: Option<String>,
    /// The line, counted from one: of the work, or of the base where the work has none.
    pub line: Option<usize>,
    /// What is so, in one sentence.
    pub message: String,
    /// The plan or the person that allowed it, if one did.
    pub allowed: Option<String>,
}

impl Finding {
    /// Something that stops the work.
    pub fn block(kind: FindingKind, path: &str, line: Option<usize>, message: impl Into<String>) -> Finding {
        let (path, message) = (Some(path.to_owned()), message.into());
        Finding { kind, severity: Severity::Blocks, path, line, message, allowed: None }
    }

    /// A finding that does not stop the work.
    pub fn note(kind: FindingKind, path: &str, line: Option<usize>, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Note, ..Finding::block(kind, path, line, message) }
    }

    /// Whether it stops the work: it blocks by its nature, and no plan or person allowed it.
    pub fn stops(&self) -> bool {
        self.severity == Severity::Blocks && self.allowed.is_none()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => write!(out, "{path}:{line}: ")?,
            (Some(path), None) => write!(out, "{path}: ")?,
            (None, _) => {}
        }
        write!(out, "{}: {}", self.kind, self.message)?;
        match (&self.allowed, self.severity) {
            (Some(by), Severity::Blocks) => write!(out, " (allowed by {by})"),
            (Some(_) | None, Severity::Note) => write!(out, " (noted)"),
            (None, Severity::Blocks) => Ok(()),
        }
    }
}

/// A permission from a plan or a person: a kind of finding, everywhere or at and below one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingAllowance {
    /// The kind of finding that is allowed.
    #[serde(with = "kind_word")]
    pub kind: FindingKind,
    /// The file or folder; everywhere without one.
    pub path: Option<String>,
    /// Who gave it, for the verdict.
    pub by: String,
}

impl FindingAllowance {
    /// Reads `KIND` or `KIND PATH`, as plans and people write it.
    pub fn parse(text: &str, by: &str) -> Result<FindingAllowance, AllowanceError> {
        let text = text.trim();
        let (word, path) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let kind = FindingKind::parse(word).ok_or_else(|| AllowanceError(word.to_owned()))?;
        let path = Some(bare(path.trim()).to_owned()).filter(|path| !path.is_empty());
        Ok(FindingAllowance { kind, path, by: by.to_owned() })
    }

    /// Whether it is about this finding.
    pub fn fits(&self, finding: &Finding) -> bool {
        let place = match (&self.path, &finding.path) {
            (None, _) => true,
            // A count has no place: who allows what it counts in one file allows the count.
            (Some(_), None) => matches!(finding.kind, FindingKind::TestSkipped | FindingKind::FewerTests),
            (Some(allowed), Some(path)) => is_at_or_below(path, allowed),
        };
        let counts = matches!(self.kind, FindingKind::TestRemoved | FindingKind::TestFileDeleted);
        let is_count = finding.path.is_none() && finding.kind == FindingKind::FewerTests && counts;
        (self.kind == finding.kind || is_count) && place
    }
}

/// A word in the place of a kind of finding that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowanceError(String);

impl fmt::Display for AllowanceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.word()).collect();
        write!(out, "`{}` is no kind of finding; hint: one of {}", self.0, words.join(", "))
    }
}

impl std::error::Error for AllowanceError {}

impl fmt::Display for FindingAllowance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.path.as_ref().map_or(String::new(), |path| format!(" {path}"));
        write!(out, "{}{at}, allowed by {}", self.kind, self.by)
    }
}

/// Kinds of findings by their words.
mod kind_word {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::FindingKind;

    pub(super) fn serialize<S: Serializer>(kind: &FindingKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.word())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FindingKind, D::Error> {
        let word = String::deserialize(from)?;
        FindingKind::parse(&word).ok_or_else(|| D::Error::custom(format!("`{word}` is no kind of finding")))
    }
}

/// Marks the findings that a plan or a person allows.
pub fn allow(findings: &mut [Finding], allowances: &[FindingAllowance]) {
    for finding in findings {
        let allowance = allowances.iter().find(|allowance| allowance.fits(finding));
        finding.allowed = allowance.map(|allowance| allowance.by.clone());
    }
}

/// Whether some finding stops the work.
pub fn blocks(findings: &[Finding]) -> bool {
    findings.iter().any(Finding::stops)
}

/// All findings for people, one a line, what blocks first.
pub fn render_findings(findings: &[Finding]) -> String {
    let (first, rest): (Vec<&Finding>, Vec<&Finding>) = findings.iter().partition(|one| one.stops());
    let lines: Vec<String> = first.into_iter().chain(rest).map(ToString::to_string).collect();
    lines.join("\n")
}

/// In the order of paths and lines, each once, and not too many.
pub fn settled(mut findings: Vec<Finding>) -> Vec<Finding> {
    let by = |one: &Finding| (one.path.clone(), one.line, one.kind, one.message.clone());
    findings.sort_by_cached_key(by);
    findings.dedup();
    // What blocks is never left out in favour of what is noted.
    findings.sort_by_key(|one| one.severity == Severity::Note);
    if findings.len() > MAX_FINDINGS {
        let left = findings.len() - (MAX_FINDINGS - 1);
        let blocks = findings[MAX_FINDINGS - 1..].iter().any(|one| one.severity == Severity::Blocks);
        findings.truncate(MAX_FINDINGS - 1);
        findings.push(Finding {
            kind: FindingKind::MoreFindings,
            severity: if blocks { Severity::Blocks } else { Severity::Note },
            path: None,
            line: None,
            message: format!("{left} more findings are not told one by one"),
            allowed: None,
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: an allowance, a finding as `kind path`, whether it fits.
    const FITS: &str = "
        test_skipped                    | test_skipped tests/a.py    | yes
        test_skipped tests/a.py         | test_skipped tests/a.py    | yes
        test_skipped ./tests/           | test_skipped tests/a.py    | yes
        test_skipped tests              | test_skipped tests2/a.py   | no
        test_skipped tests/a.py         | test_removed tests/a.py    | no
        test_skipped tests/b.py         | test_skipped tests/a.py    | no";

    #[test]
    fn an_allowance_is_for_one_kind_at_or_below_one_path() {
        for line in FITS.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let allowance = FindingAllowance::parse(cells[0], "the plan").unwrap();
            let (word, path) = cells[1].split_once(' ').unwrap();
            let finding = Finding::block(FindingKind::parse(word).unwrap(), path, Some(3), "x");
            assert_eq!(allowance.fits(&finding), cells[2] == "yes", "{line}");
            let mut findings = [finding];
            allow(&mut findings, &[allowance]);
            assert_eq!(blocks(&findings), cells[2] == "no", "{line}");
        }
    }

    #[test]
    fn a_word_that_is_no_kind_is_refused_with_the_words_that_are() {
        let error = FindingAllowance::parse("skip_all tests", "Ada").unwrap_err().to_string();
        assert!(error.contains("`skip_all` is no kind of finding") && error.contains("test_skipped"));
    }

    #[test]
    fn too_many_findings_are_counted_and_still_block() {
        let note = |line| Finding::note(FindingKind::TestDetected, "a.py", Some(line), "x");
        let few: Vec<Finding> = (0..MAX_FINDINGS).map(note).collect();
        assert_eq!(settled(few).len(), MAX_FINDINGS);
        let mut many: Vec<Finding> = (0..=MAX_FINDINGS).map(note).collect();
        assert!(!blocks(&settled(many.clone())));
        many.push(Finding::block(FindingKind::TestRemoved, "z.py", None, "x"));
        let told = settled(many);
        assert!(blocks(&told) && told.len() == MAX_FINDINGS);
        assert_eq!(told.last().unwrap().message, "3 more findings are not told one by one");
    }

    #[test]
    fn a_finding_is_told_with_its_place_and_what_blocks_comes_first() {
        let noted = Finding::note(FindingKind::TestDetected, "a.py", Some(2), "it asks for CI");
        let gone = Finding::block(FindingKind::TestFileDeleted, "t.py", None, "it is gone");
        let mut allowed = Finding::block(FindingKind::CiChanged, "ci.yml", None, "it differs");
        allowed.allowed = Some("the plan".to_owned());
        assert_eq!(
            render_findings(&[noted, allowed, gone]),
            "t.py: test_file_deleted: it is gone\na.py:2: test_detected: it asks for CI (noted)\n\
             ci.yml: ci_changed: it differs (allowed by the plan)"
        );
    }
}
