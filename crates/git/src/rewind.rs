//! After a loss of the journal: a run's branch, records and worktrees go back to what the journal still knows.
//!
//! A journal that was cut is behind git: its entry numbers are given again, so that the record of a landing that it does
//! not know could answer another one, and work that is on the branch would be done once more. So the branch goes back
//! to the last landing that was asked for in the journal as it is, with none before it that was not; what landed later
//! is kept under a ref, its records are moved aside, and its worktrees are made again with their files of then.
//! Nothing is removed that is not kept, and the person's branch is never touched: where it has what the journal does
//! not know, nothing moves at all. Doing it twice is doing it once.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::branch::{RunRecord, short};
use super::commit::{Making, message};
use super::deliver::Stage;
use super::error::At as _;
use super::land::{self, Origin, Past};
use super::lock::Held;
use super::worktree::WorktreeRecord;
use super::{GitError, IdempotencyKey, Oid, Repo, WorktreeId, ledger};
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_folder::rewind::{ClosedWorktree, JournalEnd, KnownInstance, Rewound, UnknownDelivery};
use ftl_process::Cancel;

/// How the folders begin into which records are moved.
const ASIDE: &str = "lost-";

/// Where it is written down what was done.
const RECORD: &str = "rewound.json";

/// The reason that is noted with kept work.
const WHY: &str = "the journal has lost what came to this";

/// A run of which nothing was brought back yet.
fn untouched(record: &RunRecord) -> Rewound {
    let tip = record.tip.to_string();
    Rewound {
        run: record.run.clone(),
        branch: record.branch().name,
        was: tip.clone(),
        now: tip,
        kept: None,
        landings: Vec::new(),
        folder: None,
        keys: Vec::new(),
        closed: Vec::new(),
        restored: Vec::new(),
        delivered: None,
    }
}

/// What is written down while it is done; it is done again from there until the loss is in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rewinding {
    is_over: bool,
    rewound: Rewound,
}

/// The branch of a run as its journal knows it.
struct History {
    /// The commits that stay, the oldest first, without the base.
    known: Vec<Oid>,
    /// The commits that go, the oldest first.
    lost: Vec<Oid>,
    /// The commit that the branch belongs at.
    tip: Oid,
}

/// The record of a landing.
struct Landing {
    key: IdempotencyKey,
    file: PathBuf,
    past: Past,
}

impl Repo {
    /// Brings a run's git back to what its journal knows; nothing where git knows no more than that.
    pub fn rewind(&self, end: &JournalEnd) -> Result<Option<Rewound>, GitError> {
        let held = self.hold(end.run.as_str(), &Cancel::new())?;
        let Some(record) = ledger::read::<RunRecord>(&self.run_file(&end.run))? else { return Ok(None) };
        let record = self.put_right(record, &held)?;
        let landings = self.landings(&self.landed_folder(&end.run))?;
        let history = self.history(&record, &landings, end)?;
        if let Some(delivered) = self.unknown_delivery(&record, &history)? {
            return Ok(Some(Rewound { delivered: Some(delivered), ..untouched(&record) }));
        }
        let (lost, known): (Vec<Landing>, Vec<Landing>) =
            landings.into_iter().partition(|one| history.is_lost(one, &record, end));
        let step = Step { repo: self, end, record: &record, history: &history };
        let conflicted = step.conflicted(&lost)?;
        let open = self.unfinished_rewinding(&end.run)?;
        let has_stray = step.stray_worktrees(&conflicted)?.next().is_some();
        if open.is_none() && history.lost.is_empty() && lost.is_empty() && !has_stray {
            return Ok(None);
        }
        let (folder, mut rewound) = match open {
            Some(open) => open,
            None => (self.next_aside(&end.run)?, untouched(&record)),
        };
        rewound.now = history.tip.to_string();
        step.move_aside(&folder, &lost, &mut rewound)?;
        step.move_branch(&folder, &held, &mut rewound)?;
        step.forget_landed(&known)?;
        // What the worktrees are to be again is read from the records that were moved, also by an earlier try.
        let moved = self.landings(&folder.join("landed"))?;
        let conflicted = step.conflicted(&moved)?;
        step.close_worktrees(&conflicted, &mut rewound)?;
        step.restore_worktrees(&moved, &mut rewound)?;
        self.write(&folder.join(RECORD), &Rewinding { is_over: false, rewound: rewound.clone() })?;
        Ok(Some(rewound))
    }

    /// The loss is in the store: whatever comes later is another one.
    pub fn end_rewinding(&self, run: &RunId) -> Result<(), GitError> {
        let _held = self.hold(run.as_str(), &Cancel::new())?;
        match self.unfinished_rewinding(run)? {
            None => Ok(()),
            Some((folder, rewound)) => {
                self.write(&folder.join(RECORD), &Rewinding { is_over: true, rewound })
            }
        }
    }

    /// What an earlier try has left, with its folder.
    fn unfinished_rewinding(&self, run: &RunId) -> Result<Option<(PathBuf, Rewound)>, GitError> {
        for number in self.asides(run)?.into_iter().rev() {
            let folder = self.run_folder(run).join(format!("{ASIDE}{number}"));
            if let Some(found) = ledger::read::<Rewinding>(&folder.join(RECORD))? {
                return Ok((!found.is_over).then_some((folder, found.rewound)));
            }
        }
        Ok(None)
    }

    fn next_aside(&self, run: &RunId) -> Result<PathBuf, GitError> {
        let last = self.asides(run)?.last().copied().unwrap_or(1);
        let folder = self.run_folder(run).join(format!("{ASIDE}{last}"));
        // It is written down first what will be moved: without that a folder is empty.
        let is_taken = folder::is_file(&folder.join(RECORD));
        Ok(if is_taken { self.run_folder(run).join(format!("{ASIDE}{}", last + 1)) } else { folder })
    }

    /// The numbers of the folders with records that were moved aside, in order.
    fn asides(&self, run: &RunId) -> Result<BTreeSet<u64>, GitError> {
        let names = names_in(&self.run_folder(run))?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(ASIDE)?.parse().ok()).collect())
    }

    /// The records of landings in a folder, by the entries that asked for them.
    fn landings(&self, folder: &Path) -> Result<Vec<Landing>, GitError> {
        let mut found = Vec::new();
        for name in names_in(folder)? {
            // One that was moved aside under a key that was there already has a number behind it.
            let Some((stem, _)) = name.split_once(".json") else { continue };
            let (Ok(key), file) = (stem.parse::<IdempotencyKey>(), folder.join(&name)) else { continue };
            found.extend(land::past_in(&file)?.map(|past| Landing { key, file, past }));
        }
        found.sort_by_key(|one| entry_of(&one.key));
        Ok(found)
    }

    /// What of a run's branch its journal knows: everything up to the first landing that it does not.
    fn history(
        &self,
        record: &RunRecord,
        landings: &[Landing],
        end: &JournalEnd,
    ) -> Result<History, GitError> {
        let mut known: Vec<Oid> = Vec::new();
        let mut lost = Vec::new();
        for (commit, written) in self.landed_commits(record)? {
            let of_record =
                landings.iter().find(|one| one.past.commit() == Some(&commit)).map(|one| &one.key);
            let key = of_record.or(written.as_ref());
            if lost.is_empty() && key.is_none_or(|key| is_known(end, key)) {
                known.push(commit);
            } else {
                lost.push(commit);
            }
        }
        let tip = known.last().unwrap_or(&record.base).clone();
        Ok(History { known, lost, tip })
    }

    /// The commits of a run's branch, the oldest first, with the keys that they name.
    fn landed_commits(&self, record: &RunRecord) -> Result<Vec<(Oid, Option<IdempotencyKey>)>, GitError> {
        if record.tip == record.base {
            return Ok(Vec::new());
        }
        let format = "--format=%(trailers:key=Ftl-Key,valueonly,separator=%x20)";
        let range = format!("{}..{}", record.base, record.tip);
        let words = ["rev-list", "--first-parent", "--reverse", format, &range];
        let out = self.run(self.about_objects().words(words))?.ok()?;
        let mut found: Vec<(Oid, Option<IdempotencyKey>)> = Vec::new();
        for line in String::from_utf8_lossy(&out).lines() {
            match (line.strip_prefix("commit "), found.last_mut()) {
                (Some(commit), _) => found.push((commit.parse()?, None)),
                // The last one is ours: a message may have said something like it before.
                (None, Some(last)) => {
                    let ours = line.split_whitespace().rev().filter_map(|word| word.parse().ok());
                    last.1 = last.1.take().or(ours.into_iter().next());
                }
                (None, None) => {}
            }
        }
        Ok(found)
    }

    /// A delivery of what the journal does not know, where it stands.
    fn unknown_delivery(
        &self,
        record: &RunRecord,
        history: &History,
    ) -> Result<Option<UnknownDelivery>, GitError> {
        for one in self.deliveries(&record.run)?.into_iter().rev() {
            let stands = match one.state {
                Stage::Done | Stage::Undoing => true,
                Stage::Begun => self.resolve(&one.target)?.as_ref() == Some(&one.to),
                Stage::Undone => false,
            };
            if stands && history.lost.contains(&one.tip) {
                let (target, commit) = (short(&one.target).to_owned(), one.to.to_string());
                return Ok(Some(UnknownDelivery { target, commit }));
            }
        }
        Ok(None)
    }
}

/// Whether the action of a key was asked for in the journal; a key of another form is none of a run's actions.
fn is_known(end: &JournalEnd, key: &IdempotencyKey) -> bool {
    entry_of(key).is_none_or(|entry| entry <= end.last)
}

impl History {
    /// Whether the record of a landing says what the journal cannot know.
    fn is_lost(&self, landing: &Landing, record: &RunRecord, end: &JournalEnd) -> bool {
        let stays = |commit: &Oid| *commit == record.base || self.known.contains(commit);
        let fits = match &landing.past {
            Past::Landed { commit, .. } => stays(commit),
            Past::Conflicted { onto, .. } => stays(onto),
            Past::Nothing => true,
        };
        !(fits && is_known(end, &landing.key))
    }
}

impl Past {
    fn commit(&self) -> Option<&Oid> {
        match self {
            Past::Landed { commit, .. } => Some(commit),
            Past::Conflicted { .. } | Past::Nothing => None,
        }
    }
}

/// What is known while a run's git is brought back.
struct Step<'a> {
    repo: &'a Repo,
    end: &'a JournalEnd,
    record: &'a RunRecord,
    history: &'a History,
}

impl Step<'_> {
    /// Moves records aside. One of the same key that was moved before stays.
    fn move_aside(&self, folder: &Path, lost: &[Landing], rewound: &mut Rewound) -> Result<(), GitError> {
        let aside = folder.join("landed");
        folder::make(&aside).at(&aside)?;
        let commits = self.history.lost.iter().map(ToString::to_string);
        let new: Vec<String> = commits.filter(|commit| !rewound.landings.contains(commit)).collect();
        rewound.landings.extend(new);
        let keys = lost.iter().map(|one| one.key.to_string());
        let new: Vec<String> = keys.filter(|key| !rewound.keys.contains(key)).collect();
        rewound.keys.extend(new);
        if !rewound.keys.is_empty() {
            let below = folder.strip_prefix(self.repo.place.store()).unwrap_or(folder);
            rewound.folder = Some(below.to_string_lossy().into_owned());
        }
        self.note(folder, rewound)?;
        for one in lost {
            self.repo.runner.step("move a record aside")?;
            let to = free_name(&aside, &one.key);
            folder::rename(&one.file, &to).at(&one.file)?;
        }
        folder::sync(&aside).at(&aside)?;
        let landed = self.repo.landed_folder(&self.end.run);
        if folder::is_folder(&landed) { folder::sync(&landed).at(&landed) } else { Ok(()) }
    }

    fn note(&self, folder: &Path, rewound: &Rewound) -> Result<(), GitError> {
        let rewinding = Rewinding { is_over: false, rewound: rewound.clone() };
        self.repo.write(&folder.join(RECORD), &rewinding)
    }

    /// Moves the branch back, after what it had is kept.
    fn move_branch(&self, folder: &Path, held: &Held, rewound: &mut Rewound) -> Result<(), GitError> {
        let (repo, record, to) = (self.repo, self.record, &self.history.tip);
        if record.tip == *to {
            return Ok(());
        }
        rewound.kept = Some(self.keep_tip()?);
        self.note(folder, rewound)?;
        let (found, guard) = (repo.resolve(&record.head())?, repo.resolve(&record.guard())?);
        let back = RunRecord { tip: to.clone(), intent: None, ..record.clone() };
        repo.write(&repo.run_file(&back.run), &back)?;
        repo.move_refs(&[(back.head(), to, found), (back.guard(), to, guard)], held)?;
        repo.make_durable(None)
    }

    /// Keeps what the branch had.
    fn keep_tip(&self) -> Result<String, GitError> {
        let (repo, tip, to) = (self.repo, &self.record.tip, &self.history.tip);
        let held = repo.hold_repository()?;
        let id: WorktreeId = format!("{}-lost", self.end.run).parse()?;
        let tree = repo.tree_of(tip)?;
        let trailers = [("Ftl-Kept", id.as_str()), ("Ftl-Base", to.as_str())];
        let message = message(&format!("Kept {id}: {WHY}"), &trailers);
        let when = ftl_folder::clock::wall() / 1000;
        repo.enter_kept(&id, &Making { tree: &tree, parents: &[to, tip], message, when }, &held)
    }

    /// Worktrees remember which of their trees are on the branch: those that are not any more exist only there.
    fn forget_landed(&self, known: &[Landing]) -> Result<(), GitError> {
        let trees: BTreeSet<&Oid> = known
            .iter()
            .filter_map(|one| match &one.past {
                Past::Landed { tree, .. } => Some(tree),
                Past::Conflicted { .. } | Past::Nothing => None,
            })
            .collect();
        for mut record in self.worktrees()? {
            let before = record.landed.len();
            record.landed.retain(|tree| trees.contains(tree));
            if record.landed.len() != before {
                self.repo.write(&self.repo.worktree_file(&record.id), &record)?;
            }
        }
        Ok(())
    }

    /// The records of the run's worktrees.
    fn worktrees(&self) -> Result<Vec<WorktreeRecord>, GitError> {
        let all = self.repo.worktrees()?.into_iter().filter(|one| one.run == self.end.run);
        all.map(|one| self.repo.worktree_record(&one.id)).collect()
    }

    fn instance(&self, id: &WorktreeId) -> Option<KnownInstance> {
        let (_, number) = id.instance()?;
        self.end.instances.get(&number).copied()
    }

    /// Whether a worktree may begin from a commit.
    fn stays(&self, base: &Oid) -> Result<bool, GitError> {
        self.repo.is_ancestor(base, &self.history.tip)
    }

    /// Worktrees that a conflict has changed which the journal does not know, with the work as it was before.
    fn conflicted(&self, lost: &[Landing]) -> Result<Vec<Origin>, GitError> {
        let mut found: Vec<Origin> = Vec::new();
        for one in lost {
            if let Past::Conflicted { from, kept: Some(kept), .. } = &one.past {
                found.extend(self.before_conflict(from, kept)?);
            }
        }
        Ok(found)
    }

    fn before_conflict(&self, from: &Oid, kept: &str) -> Result<Option<Origin>, GitError> {
        let all = self.repo.kept_under(kept)?;
        let Some(kept) = all.into_iter().find(|one| one.name == kept) else { return Ok(None) };
        let Some(base) = kept.base else { return Ok(None) };
        Ok(Some(Origin { worktree: kept.id, base, work: from.clone() }))
    }

    /// Worktrees that the journal cannot know as they are.
    fn stray_worktrees(&self, conflicted: &[Origin]) -> Result<std::vec::IntoIter<WorktreeRecord>, GitError> {
        let mut stray = Vec::new();
        for record in self.worktrees()? {
            let is_changed = conflicted.iter().any(|one| one.worktree == record.id)
                && !conflicted.iter().any(|one| one.base == record.base && record.conflict.is_none());
            if self.instance(&record.id).is_none() || is_changed || !self.stays(&record.base)? {
                stray.push(record);
            }
        }
        Ok(stray.into_iter())
    }

    fn close_worktrees(&self, conflicted: &[Origin], rewound: &mut Rewound) -> Result<(), GitError> {
        for record in self.stray_worktrees(conflicted)? {
            let closed = self.repo.close_worktree(&record.id, WHY, ftl_folder::clock::wall() / 1000)?;
            rewound.closed.retain(|one| one.id != record.id.as_str());
            rewound.closed.push(ClosedWorktree { id: record.id.to_string(), kept: closed.kept });
        }
        Ok(())
    }

    /// Has worktrees made again whose instances the journal knows at work, with the work as it was before it landed.
    fn restore_worktrees(&self, moved: &[Landing], rewound: &mut Rewound) -> Result<(), GitError> {
        let mut seen = BTreeSet::new();
        for one in moved {
            let origin = match &one.past {
                Past::Landed { origin, .. } => origin.clone(),
                Past::Conflicted { from, kept: Some(kept), .. } => self.before_conflict(from, kept)?,
                Past::Conflicted { kept: None, .. } | Past::Nothing => None,
            };
            // The earliest is the closest to what the journal knows.
            let Some(origin) = origin.filter(|origin| seen.insert(origin.worktree.clone())) else { continue };
            if self.is_needed(&origin)? {
                self.restore(&origin)?;
                rewound.restored.push(origin.worktree.to_string());
            }
        }
        Ok(())
    }

    /// Whether the journal knows of work that stood in a worktree which is not there.
    fn is_needed(&self, origin: &Origin) -> Result<bool, GitError> {
        let is_at_work = |one: KnownInstance| one.has_asked && !one.is_settled;
        if !self.instance(&origin.worktree).is_some_and(is_at_work) || !self.stays(&origin.base)? {
            return Ok(false);
        }
        if ledger::read::<WorktreeRecord>(&self.repo.worktree_file(&origin.worktree))?.is_some() {
            return Ok(false);
        }
        let names = [origin.base.to_string(), origin.work.to_string()];
        Ok(self.repo.object_infos(&names)?.iter().all(Option::is_some))
    }

    fn restore(&self, origin: &Origin) -> Result<(), GitError> {
        let (id, run, base) = (origin.worktree.clone(), self.end.run.clone(), origin.base.clone());
        // In this order: a record without the tree would be an empty worktree.
        self.repo.note_stood_before(&id, &origin.work)?;
        let record = WorktreeRecord {
            id,
            run,
            base,
            ready: true,
            landed: Vec::new(),
            conflict: None,
            has_landed: false,
            stood: None,
        };
        self.repo.write(&self.repo.worktree_file(&record.id), &record)
    }
}

/// The entry that asked for what a key stands for: `<run>.<entry>.<index>`.
fn entry_of(key: &IdempotencyKey) -> Option<u64> {
    key.as_str().split('.').nth(1)?.parse().ok()
}

/// A name for a record that nothing has.
fn free_name(folder: &Path, key: &IdempotencyKey) -> PathBuf {
    let plain = folder.join(format!("{key}.json"));
    let numbered = (2u64..).map(|number| folder.join(format!("{key}.json.{number}")));
    let mut all = std::iter::once(plain.clone()).chain(numbered);
    all.find(|path| folder::metadata(path).is_err()).unwrap_or(plain)
}

/// The names in a folder; none where it is not there.
fn names_in(folder: &Path) -> Result<Vec<String>, GitError> {
    let names = match folder::names(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.at(folder)?,
    };
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}
