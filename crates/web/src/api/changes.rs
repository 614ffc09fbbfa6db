//! What changed: landed, kept and at work, as hunks, with what gates found in each file.

use std::collections::BTreeMap;

use ftl_core::catalogue::finding::FindingKind;
use ftl_core::run::{Answer as Heard, Fact};
use serde_json::{Value as Json, json};

use super::{Answer, ApiError, Asked};
use crate::server::Server;
use ftl_store::RunRow;
use ftl_view::board::TaskStage;

/// The kept work of how many blocked tasks is shown beside what has landed.
const MAX_KEPT: usize = 20;

/// How many lines of one file are given with the list; the rest is asked for by its path.
const MAX_LINES: usize = 4000;

pub(crate) fn changes(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = asked.run(server)?;
    let target = match asked.query.get("task") {
        Some(task) => format!("{}/{task}", row.run),
        None => row.run.to_string(),
    };
    let mut document = server.documents.document(&["diff", &target])?;
    if !asked.query.contains_key("task") {
        add_kept(server, &row, &mut document)?;
    }
    let mut findings: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    server.runs.scan(&row.run, (0, row.head), &mut |_, entry| {
        let Fact::Heard { answer: Heard::Done(value), .. } = &entry.fact else { return };
        let Some(summary) = value.field("summary").as_text() else { return };
        for line in summary.lines() {
            if let Some((path, kind, text)) = finding(line) {
                let (path, line) = at_line(path);
                let (text, allowed) = allowed(text);
                let found = json!({
                    "kind": kind, "text": text, "entry": entry.seq, "instance": entry.instance.0, "line": line,
                    "allowed": allowed,
                });
                let all = findings.entry(path.to_owned()).or_default();
                let is_told = |one: &Json| (&one["kind"], &one["text"], &one["line"]) == (&found["kind"], &found["text"], &found["line"]);
                // Each round looks anew; the last one counts.
                all.retain(|one| !is_told(one));
                all.push(found);
            }
        }
    })?;
    for part in document["parts"].as_array_mut().into_iter().flatten() {
        let patch = part["patch"].take();
        let hunks = parse(patch.as_str().unwrap_or_default());
        for file in part["files"].as_array_mut().into_iter().flatten() {
            let path = file["path"].as_str().unwrap_or_default().to_owned();
            let (lines, is_cut) = hunks.get(&path).cloned().unwrap_or_default();
            (file["hunks"], file["cut"]) = (json!(lines), json!(is_cut));
            file["findings"] = json!(findings.get(&path));
            file["is_test"] = json!(is_test(&path));
        }
        part.as_object_mut().map(|part| part.remove("patch"));
    }
    document.as_object_mut().map(|document| document.remove("version"));
    Ok(Answer::Json(200, document))
}

/// Adds the kept work of blocked tasks to what has landed of a run.
fn add_kept(server: &Server, row: &RunRow, document: &mut Json) -> Result<(), ApiError> {
    let has_landed =
        document["parts"].as_array().is_some_and(|parts| parts.iter().any(|part| part["what"] == "landed"));
    if !has_landed {
        return Ok(());
    }
    let rows = server.runs.at(&row.run, None)?.board.rows();
    let blocked = rows.iter().filter(|row| matches!(row.stands, TaskStage::Blocked(_)));
    for task in blocked.take(MAX_KEPT) {
        let kept = server.documents.document(&["diff", &format!("{}/{}", row.run, task.seq)])?;
        if let (Some(parts), Some(more)) = (document["parts"].as_array_mut(), kept["parts"].as_array()) {
            parts.extend(more.iter().cloned());
        }
    }
    Ok(())
}

/// The line at the end of a path, where one stands there: `a/b.rs:12`, `a/b.rs:12:4`.
fn at_line(path: &str) -> (&str, Option<u64>) {
    let number = |text: &str| text.parse::<u64>().ok().filter(|line| *line > 0);
    let Some((before, last)) = path.rsplit_once(':') else { return (path, None) };
    match (number(last), before.rsplit_once(':').and_then(|(file, line)| Some((file, number(line)?)))) {
        (Some(_), Some((file, line))) => (file, Some(line)),
        (Some(line), None) => (before, Some(line)),
        (None, _) => (path, None),
    }
}

/// Who allowed a finding, where its words say that somebody has.
fn allowed(text: &str) -> (&str, Option<&str>) {
    let found = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (allowed by "));
    found.map_or((text, None), |(text, by)| (text, Some(by)))
}

/// Whether a file looks like one of the tests: those stand in a group of their own.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with("test") || part.contains("_test") || part.contains(".test."))
}

/// The file, the kind and the words of a line that tells a finding: `path: kind: words`.
fn finding(line: &str) -> Option<(&str, &str, &str)> {
    let (path, rest) = line.trim().split_once(": ")?;
    let (kind, text) = rest.split_once(": ").unwrap_or((rest, ""));
    FindingKind::parse(kind)?;
    Some((path, kind, text))
}

/// The hunks of each file of a patch, and whether some lines were left out.
fn parse(patch: &str) -> BTreeMap<String, (Vec<Json>, bool)> {
    let mut files: BTreeMap<String, (Vec<Json>, bool)> = BTreeMap::new();
    let mut file: Option<String> = None;
    let mut hunk: Option<Hunk> = None;
    let mut count = 0;
    let mut close = |file: &Option<String>, hunk: &mut Option<Hunk>, is_cut: bool| {
        if let (Some(file), Some(hunk)) = (file, hunk.take()) {
            let (hunks, cut) = files.entry(file.clone()).or_default();
            hunks.push(json!({ "old": hunk.old, "new": hunk.new, "lines": hunk.lines }));
            *cut |= is_cut;
        }
    };
    for line in patch.lines() {
        let inside = hunk.as_ref().is_some_and(|hunk| hunk.left_old > 0 || hunk.left_new > 0);
        if inside && let Some(hunk) = &mut hunk {
            count += 1;
            hunk.take(line, count <= MAX_LINES);
        } else if line.starts_with("diff --git ") {
            close(&file, &mut hunk, count > MAX_LINES);
            (file, count) = (None, 0);
        } else if let Some(path) = line.strip_prefix("+++ ").or_else(|| line.strip_prefix("--- ")) {
            let named = path.strip_prefix("b/").or_else(|| path.strip_prefix("a/"));
            file = named.map(str::to_owned).or(file);
        } else if let Some(begun) = Hunk::begin(line) {
            close(&file, &mut hunk, count > MAX_LINES);
            hunk = Some(begun);
        }
    }
    close(&file, &mut hunk, count > MAX_LINES);
    files
}

/// A piece of a file that differs.
struct Hunk {
    old: u64,
    new: u64,
    left_old: u64,
    left_new: u64,
    lines: Vec<Json>,
}

impl Hunk {
    /// `@@ -1,4 +1,6 @@`
    fn begin(line: &str) -> Option<Hunk> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let side = |text: &str| -> Option<(u64, u64)> {
            let (at, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((at.parse().ok()?, count.parse().ok()?))
        };
        let ((old, left_old), (new, left_new)) = (side(old)?, side(new)?);
        Some(Hunk { old, new, left_old, left_new, lines: Vec::new() })
    }

    fn take(&mut self, line: &str, is_kept: bool) {
        let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        match kind {
            "+" => self.left_new = self.left_new.saturating_sub(1),
            "-" => self.left_old = self.left_old.saturating_sub(1),
            "\\" => {}
            _ => {
                self.left_old = self.left_old.saturating_sub(1);
                self.left_new = self.left_new.saturating_sub(1);
            }
        }
        if is_kept {
            self.lines.push(json!([kind, text]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n-two\n\
        +2\n+three\n@@ -9 +10 @@\n--- old\n+++ new\n\\ No newline at end of file\ndiff --git a/gone b/gone\n\
        --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";

    #[test]
    fn a_patch_is_read_hunk_by_hunk() {
        let files = parse(PATCH);
        let (hunks, cut) = &files["a.txt"];
        assert_eq!((hunks.len(), *cut), (2, false));
        assert_eq!(
            hunks[0],
            json!({ "old": 1, "new": 1,
            "lines": [[" ", "one"], ["-", "two"], ["+", "2"], ["+", "three"]] })
        );
        assert_eq!(hunks[1]["lines"], json!([["-", "-- old"], ["+", "++ new"]]), "no header of a file");
        assert_eq!(files["gone"].0[0]["lines"], json!([["-", "x"]]));
    }

    #[test]
    fn a_long_file_is_cut_and_says_so() {
        let lines = "+x\n".repeat(MAX_LINES + 5);
        let patch =
            format!("diff --git a/l b/l\n--- /dev/null\n+++ b/l\n@@ -0,0 +1,{} @@\n{lines}", MAX_LINES + 5);
        let files = parse(&patch);
        assert_eq!(files["l"].0[0]["lines"].as_array().unwrap().len(), MAX_LINES);
        assert!(files["l"].1);
    }

    #[test]
    fn findings_are_read_from_summaries() {
        assert_eq!(
            finding("a/b.txt: outside_delta: it is new"),
            Some(("a/b.txt", "outside_delta", "it is new"))
        );
        assert_eq!(finding("error: something: else"), None);
        assert_eq!(at_line("a/b.rs:12:4"), ("a/b.rs", Some(12)));
        assert_eq!(at_line("a/b.rs:12"), ("a/b.rs", Some(12)));
        assert_eq!(at_line("a/b.rs"), ("a/b.rs", None));
        assert_eq!(at_line("c:x"), ("c:x", None));
        assert_eq!(allowed("it is new (allowed by the plan)"), ("it is new", Some("the plan")));
    }
}
