//! `ftl diff`: the work of a run, of one of its tasks or of an instance: what has landed, what is kept, what is in a
//! worktree.
//!
//! It only reads, and git starts nothing for it that a repository names. Off a terminal a patch is given byte for byte,
//! as `git apply` takes it; on one it is coloured, made harmless, and shown through a pager where it is long.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session};
use ftl_core::run::InstanceId;
use ftl_git::{FileLines, KeptWork, Oid, Repo, WorktreeId};
use ftl_view::paint::{self, count, paint, safe};
use serde_json::{Value as Json, json};

use super::salvage::{git_failure, repository};
use crate::cli::Diff;
use crate::target::{RunPart, RunView};

/// How wide the bar of a file is at most.
const MAX_BAR: u64 = 30;

/// `ftl diff`: what has landed, stands in a worktree, or is kept.
pub(crate) fn run(cli: &GlobalArgs, asked: &Diff, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let store = session::store_of_runs(&place)?;
    let target = RunView::find(cli, &store, &asked.id)?;
    let parts = match repository(&place)? {
        Some(repo) => Work { target: &target, repo: &repo }.parts(!asked.stat)?,
        None => Vec::new(),
    };
    if out.is_json() {
        let run = target.reader.run.as_str();
        let parts: Vec<Json> = parts.iter().map(Shown::json).collect();
        out.json(&json!({ "run": run, "parts": parts }))?;
        return Ok(ExitStatus::Done);
    }
    if parts.is_empty() {
        out.beside(&format!("nothing of {} has landed, and nothing is kept\n", safe(&asked.id)));
        return Ok(ExitStatus::Done);
    }
    if asked.stat {
        let text: String = parts.iter().map(Shown::stat).collect();
        out.text(&text)?;
    } else if out::terminal().is_none() {
        for part in &parts {
            out.raw(&part.patch)?;
        }
    } else {
        let text: String = parts.iter().map(Shown::text).collect();
        page(&text, out)?;
    }
    Ok(ExitStatus::Done)
}

/// The places in which work is looked for.
struct Work<'a> {
    target: &'a RunView,
    repo: &'a Repo,
}

/// A piece of work.
struct Shown {
    what: What,
    /// The task that it was done for, as `seq slug`.
    task: Option<String>,
    /// The name under which it is kept.
    id: Option<String>,
    base: Oid,
    tree: Oid,
    why: Option<String>,
    files: Vec<FileLines>,
    patch: Vec<u8>,
}

/// Where a piece of work is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Landed,
    AtWork,
    Kept,
}

impl What {
    const fn word(self) -> &'static str {
        match self {
            What::Landed => "landed",
            What::AtWork => "at_work",
            What::Kept => "kept",
        }
    }
}

impl Work<'_> {
    fn parts(&self, patches: bool) -> Result<Vec<Shown>, CommandError> {
        let board = &self.target.reader.board;
        let all = (0..u32::try_from(board.instances()).unwrap_or(u32::MAX)).map(InstanceId);
        let mut found = Vec::new();
        match &self.target.part {
            RunPart::Whole => match self.landed()? {
                Some(landed) => found.push(landed),
                None => self.of_instances(all, &mut found)?,
            },
            RunPart::Task(_) | RunPart::Instance(_) => {
                let mine: Vec<InstanceId> = all.filter(|one| self.target.part.holds(board, *one)).collect();
                // Of several that worked on a task the last one with work counts.
                for instance in mine.into_iter().rev() {
                    if found.is_empty() {
                        self.of_instances([instance].into_iter(), &mut found)?;
                    }
                }
            }
        }
        for part in &mut found {
            part.files =
                self.repo.lines_between(&part.base, &part.tree).map_err(|error| git_failure(&error))?;
            if patches {
                let patch = self.repo.patch_for_people(&part.base, &part.tree);
                part.patch = patch.map_err(|error| git_failure(&error))?;
            }
        }
        Ok(found)
    }

    /// What has landed on the run's branch.
    fn landed(&self) -> Result<Option<Shown>, CommandError> {
        // A run that never began a branch has none.
        let Ok(branch) = self.repo.branch(&self.target.reader.run) else { return Ok(None) };
        Ok((branch.base != branch.tip).then(|| Shown::of(What::Landed, branch.base, branch.tip)))
    }

    fn of_instances(
        &self,
        instances: impl Iterator<Item = InstanceId>,
        found: &mut Vec<Shown>,
    ) -> Result<(), CommandError> {
        let kept = self.repo.list_kept().map_err(|error| git_failure(&error))?;
        for instance in instances {
            if let Some(mut shown) = self.of_instance(instance, &kept)? {
                let board = &self.target.reader.board;
                shown.task = board.task_of(instance).and_then(|seq| board.task_label(seq));
                found.push(shown);
            }
        }
        Ok(())
    }

    fn of_instance(&self, instance: InstanceId, kept: &[KeptWork]) -> Result<Option<Shown>, CommandError> {
        let failed = |error| git_failure(&error);
        if let Some(commit) = self.target.reader.board.commit_of(instance) {
            let commit: Oid = commit.parse().map_err(failed)?;
            let base = self.repo.parent_of(&commit).map_err(failed)?;
            return Ok(Some(Shown::of(What::Landed, base, commit)));
        }
        let id = WorktreeId::of(&self.target.reader.run, instance);
        if let Some((base, tree)) = self.repo.work_in(&id).map_err(failed)? {
            return Ok(Some(Shown::of(What::AtWork, base, tree)));
        }
        let last = kept.iter().filter(|one| one.id == id).max_by_key(|one| one.number);
        Ok(last.and_then(|one| {
            let shown = Shown::of(What::Kept, one.base.clone()?, one.commit.clone());
            Some(Shown { why: Some(one.why.clone()), id: Some(one.label()), ..shown })
        }))
    }
}

impl Shown {
    fn of(what: What, base: Oid, tree: Oid) -> Shown {
        Shown { what, task: None, id: None, base, tree, why: None, files: Vec::new(), patch: Vec::new() }
    }

    fn json(&self) -> Json {
        let file = |one: &FileLines| {
            json!({ "path": one.path, "was": one.was, "added": one.lines.map(|lines| lines.0),
                "removed": one.lines.map(|lines| lines.1) })
        };
        let patch = (!self.patch.is_empty()).then(|| String::from_utf8_lossy(&self.patch));
        json!({
            "what": self.what.word(), "task": self.task, "id": self.id, "base": self.base.as_str(), "tree": self.tree.as_str(),
            "why": self.why, "files": self.files.iter().map(file).collect::<Vec<_>>(), "patch": patch,
        })
    }

    /// Which work it is, in one line.
    fn head(&self) -> String {
        let what = match self.what {
            What::Landed => "landed",
            What::AtWork => "not landed yet, as it stands in its worktree",
            What::Kept => "not landed, kept",
        };
        let mut words: Vec<String> = self.task.iter().map(|task| safe(task)).collect();
        words.push(what.to_owned());
        words.extend(self.why.iter().map(|why| paint::one_line(why)));
        let range = format!("{}..{}", self.base.short(), self.tree.short());
        format!("{}  {}\n", paint(paint::STRONG, words.join(paint::DOT)), paint(paint::QUIET, range))
    }

    /// How many lines of which files.
    fn stat(&self) -> String {
        let names = self.files.iter().map(|one| paint::columns(&file_label(one))).max().unwrap_or(0);
        let most =
            self.files.iter().filter_map(|one| one.lines).map(|(more, less)| more + less).max().unwrap_or(0);
        let mut text = self.head();
        for one in &self.files {
            let much = one.lines.map_or_else(|| String::from("no text"), |lines| bar(lines, most));
            text.push_str(&format!(" {} | {much}\n", paint::padded(&file_label(one), names)));
        }
        let sum = |side: fn((u64, u64)) -> u64| {
            self.files.iter().filter_map(|one| one.lines).map(side).sum::<u64>()
        };
        let (more, less) = (sum(|lines| lines.0), sum(|lines| lines.1));
        text.push_str(&format!(
            " {} changed, {more} added, {less} removed\n",
            count(self.files.len(), "file")
        ));
        text
    }

    /// The patch for a terminal.
    fn text(&self) -> String {
        let mut text = self.head();
        for line in String::from_utf8_lossy(&self.patch).lines() {
            let style = match line {
                _ if [
                    "diff ",
                    "index ",
                    "--- ",
                    "+++ ",
                    "new file",
                    "deleted file",
                    "rename",
                    "similarity",
                ]
                .iter()
                .any(|word| line.starts_with(word)) =>
                {
                    paint::STRONG
                }
                _ if line.starts_with("@@") => paint::HINT,
                _ if line.starts_with('+') => paint::GOOD.dimmed(),
                _ if line.starts_with('-') => paint::ERROR.dimmed(),
                _ => anstyle::Style::new(),
            };
            text.push_str(&format!("{}\n", paint(style, safe(line))));
        }
        text
    }
}

fn file_label(file: &FileLines) -> String {
    match &file.was {
        Some(was) => format!("{} → {}", safe(was), safe(&file.path)),
        None => safe(&file.path),
    }
}

/// The bar of a file: `12 ++++++---`, shortened where a file has more lines than fit.
fn bar((more, less): (u64, u64), most: u64) -> String {
    let cells = |lines: u64| {
        let cells = if most <= MAX_BAR { lines } else { (lines * MAX_BAR).div_ceil(most) };
        usize::try_from(cells).unwrap_or(0)
    };
    let (plus, minus) = ("+".repeat(cells(more)), "-".repeat(cells(less)));
    format!("{:>4} {}{}", more + less, paint(paint::GOOD, plus), paint(paint::ERROR, minus))
}

/// Shows a text that may be longer than the terminal is high.
fn page(text: &str, out: &Out) -> Result<(), CommandError> {
    let height = out::terminal().map_or(0, |(_, height)| height);
    let is_long = text.lines().count() > height;
    if is_long && std::io::stdin().is_terminal() && has_paged(text) {
        return Ok(());
    }
    out.text(text)
}

/// Gives a text to the person's pager; whether there is one.
fn has_paged(text: &str) -> bool {
    let named = std::env::var("PAGER").unwrap_or_else(|_| String::from("less"));
    if named.trim().is_empty() || named.trim() == "cat" {
        return false;
    }
    let text =
        if out::has_colour() { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() };
    let mut pager = Command::new("sh");
    pager.args(["-c", &named]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        pager.env("LESS", "FRX");
    }
    let Ok(mut child) = pager.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // Who leaves the pager early has seen enough.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.code() != Some(127))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_and_show_both_sides() {
        let plain = |lines, most| anstream::adapter::strip_str(&bar(lines, most)).to_string();
        assert_eq!(plain((2, 1), 3), "   3 ++-");
        assert_eq!(plain((1, 0), 1000), "   1 +");
        assert!(plain((900, 100), 1000).len() <= 5 + 31, "{}", plain((900, 100), 1000));
    }
}
