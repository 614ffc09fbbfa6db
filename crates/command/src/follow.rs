//! Runs that a face shows: each folded once, brought up to date when its journal grows, and known as it was at any
//! entry.
//!
//! A run is read page by page and never twice. Checkpoints stand at even distances, so an earlier moment costs one short
//! replay. When too many runs are kept, the one that was not asked for longest goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl_core::program::Programs;
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_store::journal::{self, JournalError};
use ftl_store::{Store, StoredEntry};
use ftl_view::model::RunModel;

/// How many entries are read at a time.
const PAGE: usize = 1000;

/// How far apart checkpoints are at first.
const SPACING: u64 = 2000;

/// How many checkpoints a run has; when one more comes, every other one goes and they stand twice as far apart.
pub const MAX_CHECKPOINTS: usize = 64;

/// How many runs are kept.
pub const MAX_KEPT: usize = 24;

/// How long an answer of git is good that may become another.
const ASK_GIT: Duration = Duration::from_secs(15);

/// The runs that are followed.
pub struct Runs {
    store: Arc<dyn Store>,
    library: Arc<Library>,
    kept: Mutex<Kept>,
    /// Which runs the person has taken over, as git said, and when it was asked.
    taken: Mutex<BTreeMap<RunId, (Instant, bool)>>,
}

#[derive(Default)]
struct Kept {
    runs: BTreeMap<RunId, (u64, Arc<Mutex<Followed>>)>,
    asked: u64,
}

/// A run as far as it was read.
struct Followed {
    model: RunModel,
    checkpoints: Vec<RunModel>,
    spacing: u64,
}

impl Runs {
    /// Nothing is read before it is asked for.
    pub fn new(store: Arc<dyn Store>, library: Arc<Library>) -> Runs {
        Runs { store, library, kept: Mutex::default(), taken: Mutex::default() }
    }

    /// A run as it is now, or as it was with an entry.
    pub fn at(&self, run: &RunId, entry: Option<u64>) -> Result<RunModel, JournalError> {
        let followed = self.followed(run);
        let mut followed = lock(&followed);
        self.read_on(run, &mut followed)?;
        let Some(entry) = entry.filter(|entry| *entry < followed.model.at()) else {
            return Ok(followed.model.clone());
        };
        let before = followed.checkpoints.iter().rev().find(|one| one.at() <= entry);
        let mut model = before.cloned().unwrap_or_else(|| self.blank());
        self.fold(run, entry, &mut |_, next| model.see(next), model_at(before))?;
        Ok(model)
    }

    /// Shows every entry of a run after one, up to another.
    pub fn scan(
        &self,
        run: &RunId,
        (after, last): (u64, u64),
        see: &mut dyn FnMut(&StoredEntry, &ftl_core::run::Entry),
    ) -> Result<(), JournalError> {
        self.fold(run, last, see, after)
    }

    /// Whether the person has taken a run's work over. Git is asked once in a while: a process for each look would be dear.
    pub(crate) fn is_taken_over(&self, run: &RunId, ask: impl FnOnce() -> bool) -> bool {
        let mut taken = lock(&self.taken);
        if let Some((when, is_taken)) = taken.get(run)
            && (*is_taken || when.elapsed() < ASK_GIT)
        {
            return *is_taken;
        }
        let is_taken = ask();
        taken.insert(run.clone(), (Instant::now(), is_taken));
        is_taken
    }

    fn followed(&self, run: &RunId) -> Arc<Mutex<Followed>> {
        let mut kept = lock(&self.kept);
        kept.asked += 1;
        let now = kept.asked;
        if let Some((asked, followed)) = kept.runs.get_mut(run) {
            *asked = now;
            return followed.clone();
        }
        if kept.runs.len() >= MAX_KEPT {
            let oldest = kept.runs.iter().min_by_key(|(_, (asked, _))| *asked).map(|(run, _)| run.clone());
            oldest.map(|oldest| kept.runs.remove(&oldest));
        }
        let blank = Followed { model: self.blank(), checkpoints: Vec::new(), spacing: SPACING };
        let followed = Arc::new(Mutex::new(blank));
        kept.runs.insert(run.clone(), (now, followed.clone()));
        followed
    }

    fn blank(&self) -> RunModel {
        RunModel::new(self.library.clone() as Arc<dyn Programs>)
    }

    /// Takes in what is new.
    fn read_on(&self, run: &RunId, followed: &mut Followed) -> Result<(), JournalError> {
        let after = followed.model.at();
        let mut see = |_: &StoredEntry, entry: &ftl_core::run::Entry| {
            followed.model.see(entry);
            if followed.model.at().is_multiple_of(followed.spacing) {
                followed.mark();
            }
        };
        self.fold(run, u64::MAX, &mut see, after)
    }

    /// Shows the entries of a run after one, up to another.
    fn fold(
        &self,
        run: &RunId,
        last: u64,
        see: &mut dyn FnMut(&StoredEntry, &ftl_core::run::Entry),
        mut after: u64,
    ) -> Result<(), JournalError> {
        loop {
            let page = self.store.entries(run, after, PAGE)?;
            for record in &page {
                if record.seq > last {
                    return Ok(());
                }
                see(record, &journal::decode(&*self.store, run, record)?);
                after = record.seq;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }
}

fn model_at(model: Option<&RunModel>) -> u64 {
    model.map_or(0, RunModel::at)
}

impl Followed {
    /// Keeps the run as it is now as a checkpoint, where one is due.
    fn mark(&mut self) {
        if self.checkpoints.len() >= MAX_CHECKPOINTS {
            self.spacing *= 2;
            let spacing = self.spacing;
            self.checkpoints.retain(|one| one.at().is_multiple_of(spacing));
            if !self.model.at().is_multiple_of(spacing) {
                return;
            }
        }
        self.checkpoints.push(self.model.clone());
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
