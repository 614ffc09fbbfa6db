//! Looks whether everything is there that refs, records and journals name, and gives back what is still here.
//!
//! One git answers about all names at once. What is missing is told with who names it; one broken ref stops nothing.
//! What this may change by itself: objects of ours that the repository has lost are given to it again, and locks of
//! dead movers of ours are removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::branch::RunRecord;
use super::deliver::DeliveryRecord;
use super::error::At as _;
use super::runner::Input;
pub use super::stale::LockFile;
use super::worktree::WorktreeRecord;
use super::{ErrorKind, GitError, Landed, Oid, Repo, land, ledger, recovery};
use ftl_folder as folder;

/// The most names that are looked for.
pub const MAX_NAMED_OBJECTS: usize = 200_000;

/// The ref or the record that names an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namer {
    /// A ref, by its whole name.
    Ref(String),
    /// The record of a run, or its journal.
    Run(String),
    /// The record of a worktree: its files can be read again.
    Worktree(String),
}

/// An object that is named and is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingObject {
    /// The ref or record that names the object.
    pub by: Namer,
    /// Its name; where git found it itself, what it said.
    pub what: String,
}

/// The result of looking for every object that refs, records and journals name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// How many names were looked for.
    pub looked: usize,
    /// How many were too many to be looked for.
    pub left_out: usize,
    /// How many objects were given back to the repository that it had lost.
    pub given_back: usize,
    /// How many locks of dead movers of ours were removed.
    pub unlocked: usize,
    /// Objects that are named and were not found.
    pub missing: Vec<MissingObject>,
    /// Lock files that another program has left or holds.
    pub locks: Vec<LockFile>,
}

/// Names of objects with who names them.
type Names = Vec<(Namer, Oid)>;

impl Repo {
    /// Looks for everything that refs and records name, and for what the caller found in journals. Where it is to be
    /// deep, everything is looked for that belongs to what runs have landed and what is kept.
    pub fn examine(&self, journals: Names, deep: bool) -> Result<Examined, GitError> {
        let unlocked = self.clear_dead_locks()?;
        let refs = self.refs_of_ours()?;
        let mut names: Names =
            refs.iter().map(|(name, oid)| (Namer::Ref(name.clone()), oid.clone())).collect();
        names.extend(self.named_by_runs()?);
        names.extend(self.named_by_worktrees()?);
        names.extend(journals);
        let left_out = names.len().saturating_sub(MAX_NAMED_OBJECTS);
        names.truncate(MAX_NAMED_OBJECTS);
        let given_back = if self.lacks(&names)?.is_empty() { 0 } else { self.give_all_objects()? };
        let mut missing: Vec<MissingObject> = self
            .lacks(&names)?
            .into_iter()
            .map(|(by, oid)| MissingObject { by, what: oid.to_string() })
            .collect();
        if deep && missing.is_empty() {
            missing.extend(self.incomplete(&refs)?);
        }
        let (looked, locks) = (names.len(), self.lock_files()?);
        Ok(Examined { looked, left_out, given_back, unlocked, missing, locks })
    }

    /// The refs of runs and of kept work, also broken ones.
    fn refs_of_ours(&self) -> Result<BTreeMap<String, Oid>, GitError> {
        let format = "--format=%(objectname) %(refname)";
        let out = self.ask(["for-each-ref", format, "refs/ftl/", "refs/heads/ftl/"])?.ok()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let line = |line: &str| {
            let (oid, name) = line.split_once(' ')?;
            Some((name.to_owned(), oid.parse().ok()?))
        };
        Ok(text.lines().filter_map(line).collect())
    }

    fn named_by_runs(&self) -> Result<Names, GitError> {
        let mut names = Names::new();
        for folder in
            paths(&self.private_dir.home().join("runs"))?.iter().filter(|path| folder::is_folder(path))
        {
            let Some(record) = ledger::read::<RunRecord>(&folder.join("run.json"))? else { continue };
            let by = Namer::Run(record.run.to_string());
            names.push((by.clone(), record.base));
            names.push((by.clone(), record.tip));
            for file in files(&folder.join("landed"))? {
                if let Some(Landed::Done { commit, tree, .. }) = land::answer_in(&file)? {
                    names.extend([(by.clone(), commit), (by.clone(), tree)]);
                }
            }
            let delivered = ledger::read::<Vec<DeliveryRecord>>(&folder.join("delivered.json"))?;
            names.extend(delivered.unwrap_or_default().into_iter().map(|one| (by.clone(), one.to)));
        }
        Ok(names)
    }

    fn named_by_worktrees(&self) -> Result<Names, GitError> {
        let mut names = Names::new();
        for file in files(&self.private_dir.home().join("worktrees"))? {
            let Some(record) = ledger::read::<WorktreeRecord>(&file)? else { continue };
            let by = Namer::Worktree(record.id.to_string());
            let noted = recovery::tree_in(&self.stood_file(&record.id))?;
            let stood = noted.or_else(|| record.stood.map(|stood| stood.tree));
            let all = [Some(record.base), record.conflict, stood].into_iter().flatten();
            names.extend(all.map(|oid| (by.clone(), oid)));
        }
        Ok(names)
    }

    /// Those of the names that the repository has no object of.
    fn lacks(&self, names: &Names) -> Result<Names, GitError> {
        self.check_identity()?;
        let asked: Vec<String> = names.iter().map(|(_, oid)| oid.to_string()).collect();
        let found = self.refs.info(&self.runner, &|| self.at_home(&self.common), &asked)?;
        let lost = names.iter().zip(found).filter(|(_, info)| info.is_none());
        Ok(lost.map(|(name, _)| name.clone()).collect())
    }

    /// What git misses when it walks through everything that our refs have beyond the person's own. Objects of ours are
    /// given back first, and git is asked once more.
    fn incomplete(&self, refs: &BTreeMap<String, Oid>) -> Result<Option<MissingObject>, GitError> {
        let mut first = None;
        for _ in 0..2 {
            let wanted: String = refs.values().map(|oid| format!("{oid}\n")).collect();
            let words = ["rev-list", "--objects", "--quiet", "--stdin", "--not", "--branches", "--tags"];
            let call = self.at_home(&self.common).words(words);
            let said = self.run(call.input(Input::Bytes(wanted.into_bytes())))?;
            if said.code == 0 {
                return Ok(None);
            }
            first = Some(said.error());
            self.give_all_objects()?;
        }
        match first {
            Some(error) if error.trouble != ErrorKind::Missing => Err(error),
            error => Ok(error.map(|error| MissingObject {
                by: Namer::Ref(String::from("refs/ftl")),
                what: error.message,
            })),
        }
    }
}

/// What is in a folder; nothing where it is not there.
fn paths(folder: &Path) -> Result<Vec<PathBuf>, GitError> {
    Ok(folder::names(folder).at(folder)?.into_iter().map(|name| folder.join(name)).collect())
}

/// The records in a folder; none where it is not there.
fn files(folder: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut all = paths(folder)?;
    all.retain(|path| path.extension().is_some_and(|end| end == "json"));
    Ok(all)
}
