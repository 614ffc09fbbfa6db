//! The audit of a journal: whether its chain is whole, and if not, where it breaks.
//!
//! It reads and never writes, through the trait, so that it works for every store.

use super::{Hash, RunRow, Store, StoreError, StoredEntry};
use crate::journal;
use ftl_folder::id::RunId;

/// How many entries are read at a time.
const PAGE: usize = 1000;

/// What an audit of one run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// How many entries are sound.
    pub entries: u64,
    /// The first thing that is wrong.
    pub broken: Option<Broken>,
}

/// Where a journal is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The number of the first entry that is not what it should be.
    pub seq: u64,
    /// The fault, in words.
    pub what: String,
}

/// Reads the whole journal of a run and computes its chain again.
///
/// The run may grow meanwhile: its head is looked at before and after.
pub fn verify_chain(store: &dyn Store, run: &RunId) -> Result<ChainReport, StoreError> {
    let before = row(store, run)?;
    let mut link = Link { seq: 0, hash: Hash::start(run) };
    loop {
        let page = store.entries(run, link.seq, PAGE)?;
        if page.is_empty() {
            let after = row(store, run)?;
            return Ok(link.report(tail_problem(&link, &before, &after)));
        }
        for record in &page {
            let mut problem = link.problem(record).or_else(|| head_problem(record, &before));
            if problem.is_none() {
                problem = content_problem(store, record)?;
            }
            if let Some(what) = problem {
                return Ok(link.report(Some(Broken { seq: link.due(), what })));
            }
            link = Link { seq: record.seq, hash: record.hash };
        }
    }
}

/// The last entry that is sound.
struct Link {
    seq: u64,
    hash: Hash,
}

impl Link {
    fn due(&self) -> u64 {
        self.seq + 1
    }

    fn report(&self, broken: Option<Broken>) -> ChainReport {
        let entries = broken.as_ref().map_or(self.seq, |broken| broken.seq - 1);
        ChainReport { entries, broken }
    }

    fn problem(&self, record: &StoredEntry) -> Option<String> {
        if record.seq != self.due() {
            return Some(format!("entry {} is missing; entry {} follows", self.due(), record.seq));
        }
        let due = self.hash.then(record.seq, record.epoch, &record.body);
        (record.hash != due).then(|| {
            format!("entry {} is not what was written: it was edited, or it stood elsewhere", record.seq)
        })
    }
}

/// A chain that was computed anew from some entry on does not end in the head that was noted.
fn head_problem(record: &StoredEntry, before: &RunRow) -> Option<String> {
    (record.seq == before.head && record.hash != before.hash).then(|| {
        format!("entry {} is the last one and does not have the hash that the run noted", record.seq)
    })
}

/// Content that an entry names must be there.
fn content_problem(store: &dyn Store, record: &StoredEntry) -> Result<Option<String>, StoreError> {
    for digest in journal::references(&record.body) {
        if !store.has(&digest)? {
            return Ok(Some(format!("entry {} names content {digest}, which is gone", record.seq)));
        }
    }
    Ok(None)
}

fn tail_problem(last: &Link, before: &RunRow, after: &RunRow) -> Option<Broken> {
    if last.seq < before.head {
        let what = format!("entries {} to {} are missing at the end", last.due(), before.head);
        Some(Broken { seq: last.due(), what })
    } else if last.seq > after.head {
        let what = format!("the run noted {} as its last entry; there are more", after.head);
        Some(Broken { seq: after.head + 1, what })
    } else if before.head == 0 && before.hash != Hash::start(&before.run) {
        let what = "the run has no entry and does not have the hash of its beginning".to_owned();
        Some(Broken { seq: 1, what })
    } else {
        None
    }
}

fn row(store: &dyn Store, run: &RunId) -> Result<RunRow, StoreError> {
    store.run(run)?.ok_or_else(|| StoreError::NoRun(run.clone()))
}
