//! Landing: the work of a worktree onto the run's branch, one at a time.
//!
//! What is in the worktree becomes a commit on its base; merged onto the tip it is checked out clean
//! and verified there; then the branch moves, from where it was seen and nowhere else, and what was done
//! is synced and written down. The same landing asked for again is answered again. A conflict brings the
//! worktree onto the tip, with both sides marked in its files, after its earlier files were kept.

use std::path::Path;

use ftl_core::catalogue::build::Side;
use serde::{Deserialize, Serialize};

use super::branch::{Intent, RunRecord};
use super::commit::{Making, message};
use super::entry::WorktreeEntry;
use super::error::At as _;
use super::error::CallbackError;
use super::lock::Held;
use super::merge::Merge;
use super::probe::{Seen, below, look};
use super::tree::{Differing, unlock};
use super::unstorable::Odds;
use super::worktree::WorktreeRecord;
use super::{ErrorKind, GitError, IdempotencyKey, Oid, Repo, WorktreeId, ledger};
use crate::change::MAX_CONTENT_BYTES;
use ftl_folder::id::RunId;
use ftl_process::Cancel;

/// The longest message of a commit.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// A landing that is asked for.
#[derive(Clone, Debug)]
pub struct Landing<'a> {
    /// The worktree whose work lands.
    pub worktree: &'a WorktreeId,
    /// The key under which the same landing comes again.
    pub key: &'a IdempotencyKey,
    /// The tree that was verified; another one is stale. With none, the worktree lands as it is.
    pub tree: Option<&'a Oid>,
    /// The message of the commit.
    pub message: &'a str,
    /// When, in seconds since 1970.
    pub when: u64,
}

/// What is looked at before it lands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedTree {
    /// The merged tree, as it would be on the branch.
    pub tree: Oid,
    /// The commit that it would become.
    pub commit: Oid,
    /// The commit that it would follow.
    pub onto: Oid,
    /// Whether it is exactly what was in the worktree.
    pub unchanged: bool,
}

/// What looking at it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every look at the merged tree passed.
    Passed,
    /// It may not; this is why.
    Failed(String),
}

/// The outcome of a landing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landed {
    /// The branch has it.
    Done {
        /// The commit on the branch of the run.
        commit: Oid,
        /// The tree that was verified.
        tree: Oid,
        /// How many files it changes.
        files: u64,
    },
    /// The branch has other changes of the same lines. The worktree is on the newest commit now, with both sides
    /// marked.
    Conflict {
        /// The files; a name that is no UTF-8 is shown with replacement characters.
        files: Vec<String>,
        /// Both sides of each, as far as they are shown.
        sides: Vec<Side>,
        /// Under which ref the work is as it was.
        kept: Option<String>,
    },
    /// It does not land; this is why.
    Failed {
        /// The reason, in sentences for people and agents.
        summary: String,
    },
}

/// A conflict, as it is written down: what the worktree is to become.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rebase {
    /// The tree of the worktree before the conflict.
    from: Oid,
    /// What is to stand there.
    to: Oid,
    /// The tip of the run's branch, which the worktree is put on.
    onto: Oid,
    answer: Landed,
    done: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Landed(LandedRecord),
    Conflict(Rebase),
}

/// A landing, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LandedRecord {
    #[serde(flatten)]
    landed: Landed,
    /// Nothing in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
}

/// What was in a worktree before its landing: with this it can be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) worktree: WorktreeId,
    /// What the work was compared with.
    pub(super) base: Oid,
    /// The tree that was there.
    pub(super) work: Oid,
}

impl Repo {
    /// Lands the work of a worktree. `verify` looks at what would land; an error of it is an error of the landing, and
    /// nothing has moved.
    pub fn land(
        &self,
        landing: &Landing<'_>,
        cancel: &Cancel,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Landed, GitError> {
        if landing.message.len() > MAX_MESSAGE_BYTES {
            let message = format!("the message of a commit has more than {MAX_MESSAGE_BYTES} bytes");
            return Err(GitError::new(ErrorKind::TooMuch, message));
        }
        let run = match ledger::read::<WorktreeRecord>(&self.worktree_file(landing.worktree))? {
            Some(record) => record.run,
            None => return Err(self.worktree_record(landing.worktree).err().unwrap_or_else(lost_tree)),
        };
        let held = self.hold(run.as_str(), cancel)?;
        self.drop_checkouts_of_earlier_versions(&run)?;
        self.reading_again(landing.worktree, &mut || self.land_held(landing, &run, &held, verify))
    }

    /// Lands under the lock of the run, from the start.
    fn land_held(
        &self,
        landing: &Landing<'_>,
        run: &RunId,
        held: &Held,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Landed, GitError> {
        let record = self.put_right(self.record(run)?, held)?;
        match ledger::read::<Outcome>(&self.landed_file(run, landing.key))? {
            Some(Outcome::Landed(record)) => return Ok(record.landed),
            Some(Outcome::Conflict(rebase)) => return self.rebase(landing, &record, rebase),
            None => {}
        }
        let worktree = self.worktree_record(landing.worktree)?;
        let standing = self.tree(landing.worktree)?;
        if let Some(given) = landing.tree.filter(|given| **given != standing.tree) {
            let message = format!(
                "tree {} was verified, but {} stands there now",
                given.short(),
                standing.tree.short()
            );
            return Err(GitError::new(ErrorKind::Stale, message).hint("verify what is there now"));
        }
        if let Some(why) = self.unfit(&worktree, &standing)? {
            return Ok(Landed::Failed { summary: why });
        }
        match self.merge_work(landing, &record, &worktree, &standing.tree)? {
            Merge::Clean(tree) => {
                let made = Made { record, worktree, tree, work: standing.tree };
                self.verify_and_move(landing, made, held, verify)
            }
            Merge::Conflict { tree, files, sides } => {
                let files = files.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
                let answer = Landed::Conflict { files, sides, kept: None };
                let (from, onto) = (standing.tree, record.tip.clone());
                let rebase = Rebase { from, to: tree, onto, answer, done: false };
                self.rebase(landing, &record, rebase)
            }
        }
    }

    /// Why a tree cannot land whatever it is merged with.
    fn unfit(&self, worktree: &WorktreeRecord, standing: &WorktreeEntry) -> Result<Option<String>, GitError> {
        let changes = self.differing(&worktree.base, &standing.tree)?;
        if changes.is_empty() {
            return Ok(Some(String::from("nothing was changed")));
        }
        let Some(tip) = &worktree.conflict else { return Ok(None) };
        let marked = self.marked(tip, &changes)?;
        let all = marked.join(", ");
        Ok((!marked.is_empty()).then(|| format!("marks of the conflict are left in {all}")))
    }

    /// The files in which lines are left that name the commit of a conflict.
    fn marked(&self, tip: &Oid, changes: &[Differing]) -> Result<Vec<String>, GitError> {
        let there: Vec<&Differing> = changes.iter().filter(|change| change.after.is_there()).collect();
        let there: Vec<&Differing> =
            there.into_iter().filter(|change| change.after.mode & 0o170_000 == 0o100_000).collect();
        let blobs: Vec<&Oid> = there.iter().map(|change| &change.after.oid).collect();
        let contents = self.contents(&blobs, MAX_CONTENT_BYTES, 1 << 30)?;
        let mark = format!("<<<<<<< {tip}").into_bytes();
        let is_marked =
            |bytes: &Vec<u8>| bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(&mark));
        let found = there.iter().zip(contents).filter(|(_, bytes)| bytes.as_ref().is_some_and(is_marked));
        Ok(found.map(|(change, _)| String::from_utf8_lossy(&change.path).into_owned()).collect())
    }

    fn land_message(&self, landing: &Landing<'_>, worktree: &WorktreeRecord) -> String {
        message(landing.message, &[("Ftl-Run", worktree.run.as_str()), ("Ftl-Key", landing.key.as_str())])
    }

    /// What is in the worktree, as a commit on its base, merged onto the tip.
    fn merge_work(
        &self,
        landing: &Landing<'_>,
        record: &RunRecord,
        worktree: &WorktreeRecord,
        tree: &Oid,
    ) -> Result<Merge, GitError> {
        if record.tip == worktree.base {
            return Ok(Merge::Clean(tree.clone()));
        }
        let message = self.land_message(landing, worktree);
        let making = Making { tree, parents: &[&worktree.base], message, when: landing.when };
        self.merge(&record.tip, &self.commit(&making)?)
    }

    fn verify_and_move(
        &self,
        landing: &Landing<'_>,
        made: Made,
        held: &Held,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Landed, GitError> {
        let Made { mut record, worktree, tree, work } = made;
        let files = self.differing(&record.tip, &tree)?.len() as u64;
        if files == 0 {
            return Ok(Landed::Failed { summary: String::from("the branch has all of it already") });
        }
        let message = self.land_message(landing, &worktree);
        let making = Making { tree: &tree, parents: &[&record.tip], message, when: landing.when };
        let commit = self.commit(&making)?;
        let onto = record.tip.clone();
        let unchanged = tree == work;
        let checked = self.checked(Looking { tree: &tree, commit: &commit, onto, unchanged }, verify)?;
        if let Checked::Failed(summary) = checked {
            return Ok(Landed::Failed { summary });
        }
        let (key, worktree) = (landing.key.clone(), landing.worktree.clone());
        let intent = Intent { key, worktree, commit: commit.clone(), tree, work, files };
        record.intent = Some(intent.clone());
        self.write(&self.run_file(&record.run), &record)?;
        let old = record.tip.clone();
        let guard = self.resolve(&record.guard())?;
        self.move_refs(&[(record.head(), &commit, Some(old)), (record.guard(), &commit, guard)], held)?;
        record.intent = None;
        self.finish(record, &intent)?;
        Ok(Landed::Done { commit, tree: intent.tree, files })
    }

    /// Brings a landing to its end whose ref has moved: synced, then written down.
    pub(super) fn finish(&self, record: RunRecord, intent: &Intent) -> Result<RunRecord, GitError> {
        self.make_durable(None)?;
        let (commit, tree) = (intent.commit.clone(), intent.tree.clone());
        let landed = Landed::Done { commit: commit.clone(), tree, files: intent.files };
        let worktree = ledger::read::<WorktreeRecord>(&self.worktree_file(&intent.worktree))?;
        let origin = worktree.as_ref().map(|worktree| Origin {
            worktree: worktree.id.clone(),
            base: worktree.base.clone(),
            work: intent.work.clone(),
        });
        let outcome = Outcome::Landed(LandedRecord { landed, origin });
        self.write(&self.landed_file(&record.run, &intent.key), &outcome)?;
        if let Some(mut worktree) = worktree {
            worktree.has_landed = true;
            // After a merge the branch does not hold every byte that was in the worktree.
            if intent.tree == intent.work && !worktree.landed.contains(&intent.work) {
                worktree.landed.push(intent.work.clone());
            }
            self.write_lightly(&self.worktree_file(&intent.worktree), &worktree)?;
        }
        let record = RunRecord { tip: commit, intent: None, ..record };
        // The one before has the intent: a driver that finds it comes here again.
        self.write_lightly(&self.run_file(&record.run), &record)?;
        Ok(record)
    }

    /// Calls `verify` with what would be on a branch. [`Repo::check_out`] gives a checkout of it.
    pub(super) fn checked(
        &self,
        looking: Looking<'_>,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Checked, GitError> {
        let merged = MergedTree {
            tree: looking.tree.clone(),
            commit: looking.commit.clone(),
            onto: looking.onto,
            unchanged: looking.unchanged,
        };
        verify(&merged).map_err(|why| {
            GitError::new(ErrorKind::Unsuitable, format!("what would land could not be verified: {why}"))
        })
    }

    /// Brings a worktree onto the tip after a conflict, once, and answers.
    fn rebase(
        &self,
        landing: &Landing<'_>,
        record: &RunRecord,
        mut rebase: Rebase,
    ) -> Result<Landed, GitError> {
        if rebase.done {
            return Ok(rebase.answer);
        }
        let (id, file) = (landing.worktree, self.landed_file(&record.run, landing.key));
        if let Landed::Conflict { kept, .. } = &mut rebase.answer
            && kept.is_none()
        {
            *kept = self.keep(id, "it conflicted with what landed before", landing.when)?;
            self.write(&file, &Outcome::Conflict(rebase.clone()))?;
        }
        let (index, folder) = (self.index_file(id), self.path_of(id));
        let changes = self.differing(&rebase.from, &rebase.to)?;
        self.clear_way(id, &folder, &changes)?;
        self.lay(&index, &folder, &changes)?;
        self.show_tip(id, &rebase.onto)?;
        let worktree = self.worktree_record(id)?;
        let (base, conflict) = (rebase.onto.clone(), Some(rebase.onto.clone()));
        self.write(&self.worktree_file(id), &WorktreeRecord { base, conflict, ..worktree })?;
        self.note_stood(id, &rebase.to)?;
        rebase.done = true;
        self.write(&file, &Outcome::Conflict(rebase.clone()))?;
        Ok(rebase.answer)
    }

    /// Keeps what is ignored in a worktree, and so was not kept with the rest, where files come that would
    /// be written over it.
    fn clear_way(&self, id: &WorktreeId, folder: &Path, changes: &[Differing]) -> Result<(), GitError> {
        let mut odds = Odds::of(folder);
        for change in changes.iter().filter(|change| !change.before.is_there()) {
            let path = &change.path;
            match look(folder, path).at(&below(folder, path))? {
                Seen::Nothing { blocked: false } => {}
                // What goes makes room; a link that is left was kept, and so were files on the way.
                Seen::Nothing { blocked: true } | Seen::Special => {}
                // It was laid before a crash.
                Seen::Folder | Seen::File(_) | Seen::Link if self.is_as(folder, path, &change.after)? => {}
                Seen::Folder | Seen::File(_) | Seen::Link => odds.add(folder, path, path)?,
            }
        }
        if odds.is_empty() { Ok(()) } else { self.keep_odds(id, &odds, folder) }
    }

    /// Shows the agent's own git that the worktree is on the tip now.
    fn show_tip(&self, id: &WorktreeId, tip: &Oid) -> Result<(), GitError> {
        self.check_identity()?;
        let admin = self.admin(id);
        if !admin.join("HEAD").is_file() {
            return Ok(());
        }
        // No agent works in the worktree now: a lock there was left by a git that is gone.
        unlock(&admin.join("HEAD"))?;
        let words = ["update-ref", "--no-deref", "-m", "ftl: onto the newest commit", "HEAD", tip.as_str()];
        self.run(self.at_home(&admin).words(words))?.ok()?;
        self.read_tree(&admin.join("index"), tip)
    }
}

/// A merge that is clean, on its way.
struct Made {
    record: RunRecord,
    worktree: WorktreeRecord,
    tree: Oid,
    work: Oid,
}

/// A commit that is to be verified before it is on a branch.
pub(super) struct Looking<'a> {
    pub(super) tree: &'a Oid,
    pub(super) commit: &'a Oid,
    pub(super) onto: Oid,
    pub(super) unchanged: bool,
}

/// What a landing came to, as its record says.
pub(super) fn answer_in(file: &Path) -> Result<Option<Landed>, GitError> {
    Ok(ledger::read::<Outcome>(file)?.map(|outcome| match outcome {
        Outcome::Landed(record) => record.landed,
        Outcome::Conflict(rebase) => rebase.answer,
    }))
}

/// What a record of a landing says about the branch and about the worktree that the work was in.
#[derive(Clone, Debug)]
pub(super) enum Past {
    /// Its work is on the branch.
    Landed { commit: Oid, tree: Oid, origin: Option<Origin> },
    /// It conflicted with the branch as it was at a commit.
    Conflicted {
        onto: Oid,
        /// The tree that stood in the worktree before.
        from: Oid,
        /// The ref under which that is kept.
        kept: Option<String>,
    },
    /// Nothing came of it.
    Nothing,
}

/// What a record says of the past.
pub(super) fn past_in(file: &Path) -> Result<Option<Past>, GitError> {
    Ok(ledger::read::<Outcome>(file)?.map(|outcome| match outcome {
        Outcome::Landed(LandedRecord { landed: Landed::Done { commit, tree, .. }, origin }) => {
            Past::Landed { commit, tree, origin }
        }
        Outcome::Landed(LandedRecord { landed: Landed::Conflict { .. } | Landed::Failed { .. }, .. }) => {
            Past::Nothing
        }
        Outcome::Conflict(Rebase { onto, from, answer, .. }) => {
            let kept = if let Landed::Conflict { kept, .. } = answer { kept } else { None };
            Past::Conflicted { onto, from, kept }
        }
    }))
}

fn lost_tree() -> GitError {
    GitError::new(ErrorKind::Unknown, "there is no such worktree")
}
