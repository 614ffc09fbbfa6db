//! What runs have left in git that is of no use any more: branches whose work the person has, kept work that is
//! empty, of tasks that have landed, or old, and worktrees of runs that have ended.
//!
//! Nothing is lost by it at once: what a ref named is named by one below `refs/ftl/cleaned/` for as long as it can be
//! taken back, and only then by none. A worktree is closed as always: what exists only there is kept. Nothing of a run
//! that goes on is touched, and no branch that a person has moved or checked out.

use std::collections::BTreeMap;

use super::branch::RunRecord;
use super::runner::Input;
use super::{GitError, KeptWork, Oid, Repo, WorktreeId, ledger};
use ftl_folder as folder;
use ftl_folder::id::RunId;

/// How long what was cleaned can be taken back, in seconds.
pub const UNDO_SECONDS: u64 = 7 * 24 * 3600;

/// Where the refs are of what was cleaned.
const CLEANED: &str = "refs/ftl/cleaned/";

/// Why a worktree is closed whose run has ended.
const ENDED: &str = "its run has ended";

/// Why work is kept of a task that has landed.
pub const LANDED: &str = "its work has landed";

/// The conditions under which leftovers of a run may go.
pub struct Cleaning<'a> {
    /// Whether a run has ended.
    pub has_ended: &'a dyn Fn(&RunId) -> bool,
    /// Kept work is old after so many seconds.
    pub old: u64,
    /// Now, in seconds since 1970.
    pub now: u64,
}

/// Something that can go, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removable {
    /// The branch, the kept work or the worktree, as people name it.
    pub name: String,
    /// Why it is of no use any more.
    pub why: &'static str,
    /// The ref, and what it names; nothing for a worktree.
    reference: Option<(String, Oid)>,
}

/// What ended runs have left behind that is of no use any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Branches of runs that have ended.
    pub branches: Vec<Removable>,
    /// Refs with work that was kept when a worktree was closed.
    pub kept: Vec<Removable>,
    /// Worktrees of runs that have ended.
    pub worktrees: Vec<Removable>,
    /// How many bytes the kept work has that is not part of a commit of yours.
    pub bytes: u64,
    /// Refs of what was cleaned so long ago that it cannot be taken back any more.
    expired: Vec<(String, Oid)>,
}

impl Leftovers {
    /// Whether there is nothing that could go.
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty()
            && self.kept.is_empty()
            && self.worktrees.is_empty()
            && self.expired.is_empty()
    }

    /// How much was cleaned so long ago that it goes for good now.
    pub fn expired(&self) -> usize {
        self.expired.len()
    }
}

impl Repo {
    /// What can go. Nothing is changed.
    pub fn leftovers(&self, cleaning: &Cleaning<'_>) -> Result<Leftovers, GitError> {
        let mut found = Leftovers { branches: self.idle_branches(cleaning)?, ..Leftovers::default() };
        for kept in self.list_kept()? {
            let Some(why) = self.why_needless(&kept, cleaning)? else { continue };
            found.bytes += self.extent(&kept)?.map_or(0, |extent| extent.bytes);
            let (name, reference) = (kept.label(), Some((kept.name.clone(), kept.commit.clone())));
            found.kept.push(Removable { name, why, reference });
        }
        for name in folder::names(&self.place.worktrees()).unwrap_or_default() {
            let id: Option<WorktreeId> = name.to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id.filter(|id| run_of(id).is_some_and(|run| (cleaning.has_ended)(&run))) {
                let name = id.to_string();
                found.worktrees.push(Removable { name, why: ENDED, reference: None });
            }
        }
        for (name, oid) in self.named_below(CLEANED)? {
            let is_over = stamp_of(&name).is_some_and(|when| when + UNDO_SECONDS <= cleaning.now);
            if is_over {
                found.expired.push((name, oid));
            }
        }
        Ok(found)
    }

    /// Takes away what was found; where it was moved meanwhile it stays.
    pub fn clean(&self, found: &Leftovers, now: u64) -> Result<(), GitError> {
        for worktree in &found.worktrees {
            self.close_worktree(&worktree.name.parse()?, ENDED, now)?;
        }
        let held = self.hold_repository()?;
        let mut words = String::new();
        for (name, oid) in found.branches.iter().chain(&found.kept).filter_map(|one| one.reference.as_ref()) {
            let rest = name.strip_prefix("refs/ftl/").or_else(|| name.strip_prefix("refs/")).unwrap_or(name);
            words.push_str(&format!("create {CLEANED}{now}/{rest} {oid}\ndelete {name} {oid}\n"));
        }
        for (name, oid) in &found.expired {
            words.push_str(&format!("delete {name} {oid}\n"));
        }
        self.update_refs(&words)?;
        drop(held);
        self.make_durable(None)
    }

    /// Brings back what was cleaned last; the names of the refs. One that is there again already is left as it is.
    pub fn undo_clean(&self) -> Result<Vec<String>, GitError> {
        let _held = self.hold_repository()?;
        let all = self.named_below(CLEANED)?;
        let Some(newest) = all.keys().filter_map(|name| stamp_of(name)).max() else { return Ok(Vec::new()) };
        let (mut words, mut back) = (String::new(), Vec::new());
        for (name, oid) in all.iter().filter(|(name, _)| stamp_of(name) == Some(newest)) {
            let Some((_, rest)) = name[CLEANED.len()..].split_once('/') else { continue };
            let old =
                if rest.starts_with("heads/") { format!("refs/{rest}") } else { format!("refs/ftl/{rest}") };
            if self.resolve(&old)?.is_none() {
                words.push_str(&format!("create {old} {oid}\n"));
                back.push(old);
            }
            words.push_str(&format!("delete {name} {oid}\n"));
        }
        self.update_refs(&words)?;
        self.make_durable(None)?;
        Ok(back)
    }

    /// Branches of runs that have ended, whose work the person has, or on which nothing has landed.
    fn idle_branches(&self, cleaning: &Cleaning<'_>) -> Result<Vec<Removable>, GitError> {
        let format = "--format=%(objectname) %(refname) %(worktreepath)";
        let out = self.ask(["for-each-ref", format, "refs/heads/ftl/"])?.ok()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let mut found = Vec::new();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(oid), Some(name), checked_out) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let run =
                name.strip_prefix("refs/heads/ftl/").and_then(|run| RunId::try_from(run.to_owned()).ok());
            let Some(run) = run.filter(|run| (cleaning.has_ended)(run)) else { continue };
            let Some(record) = ledger::read::<RunRecord>(&self.run_file(&run))? else { continue };
            // What is removed is what the ref that guards the run names too.
            let is_ours =
                record.tip.as_str() == oid && self.resolve(&record.guard())?.as_ref() == Some(&record.tip);
            if !is_ours || checked_out.is_some_and(|path| !path.is_empty()) {
                continue;
            }
            let why = match () {
                () if record.tip == record.base => "nothing has landed on it",
                () if self.is_delivered(&record)? => "you have its work",
                () => continue,
            };
            let reference = Some((name.to_owned(), record.tip));
            found.push(Removable { name: format!("ftl/{run}"), why, reference });
        }
        Ok(found)
    }

    /// Why kept work is of no use any more.
    fn why_needless(
        &self,
        kept: &KeptWork,
        cleaning: &Cleaning<'_>,
    ) -> Result<Option<&'static str>, GitError> {
        let Some(run) = run_of(&kept.id).filter(|run| (cleaning.has_ended)(run)) else { return Ok(None) };
        let is_task = kept.id.instance().is_some_and(|(of, _)| of == run.as_str());
        if is_task && kept.why == LANDED {
            return Ok(Some("its work has landed, and this is what stood beside it"));
        }
        if kept.when > 0 && kept.when + cleaning.old <= cleaning.now {
            return Ok(Some("it is old"));
        }
        let is_empty = self.extent(kept)?.is_some_and(|extent| extent.files == 0);
        Ok((is_task && is_empty).then_some("it is empty"))
    }

    /// The refs below a prefix, with what they name.
    fn named_below(&self, prefix: &str) -> Result<BTreeMap<String, Oid>, GitError> {
        let out = self.ask(["for-each-ref", "--format=%(objectname) %(refname)", prefix])?.ok()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let line = |line: &str| {
            let (oid, name) = line.split_once(' ')?;
            Some((name.to_owned(), oid.parse().ok()?))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    /// Changes refs, all of them or none.
    fn update_refs(&self, words: &str) -> Result<(), GitError> {
        if words.is_empty() {
            return Ok(());
        }
        self.check_identity()?;
        self.runner.step("clean refs")?;
        let call = self.at_home(&self.common).words(["update-ref", "--no-deref", "--stdin"]);
        self.run(call.input(Input::Bytes(words.as_bytes().to_vec())))?.ok().map(drop)
    }
}

/// The run that a worktree, or what is kept of it, belongs to.
fn run_of(id: &WorktreeId) -> Option<RunId> {
    let (run, _) = id.as_str().split_once('-')?;
    RunId::try_from(run.to_owned()).ok()
}

/// When something was cleaned, by the name of its ref.
fn stamp_of(name: &str) -> Option<u64> {
    name.strip_prefix(CLEANED)?.split_once('/')?.0.parse().ok()
}
