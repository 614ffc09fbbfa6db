//! A store in memory, for tests and for the simulator. It survives nothing.
//!
//! It is the plain telling of what a store does: one lock, maps, and every check before the first
//! change. It must never take what the store on disk refuses, nor refuse what that one takes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::notebook::{self, NoteChange, Notebook, Notes};
use super::{
    Append, ContentDigest, Hash, Lease, NewRun, PendingCommand, RunRow, Store, StoreError, StoredEntry,
    limits,
};
use ftl_folder::id::RunId;

/// A store that is gone with its process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
}

/// How a store in memory is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// As if the disk were full, until it is told otherwise.
    Full,
    /// As if it might not be written, until it is told otherwise.
    ReadOnly,
    /// As if the disk failed: from the first write that meets it, until the store is opened again.
    Failed,
}

/// An append that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The run that was appended to.
    pub run: RunId,
    /// The epoch of the lease.
    pub epoch: u64,
    /// The number of the run's last entry after it.
    pub head: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Makes later writes fail, or ends it. A failure of the disk that was met stays.
    pub fn set_fault(&self, fault: Option<StoreFault>) {
        self.lock_kept().fault = fault;
    }

    /// As if the process had ended and another had opened the store.
    pub fn reopen(&self) {
        self.lock_kept().failed = false;
    }

    /// Every append that was acknowledged, in order.
    pub fn acknowledged(&self) -> Vec<Acknowledged> {
        self.lock_kept().acknowledged.clone()
    }

    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut Kept) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut kept = self.lock_kept();
        kept.check_fault()?;
        let told = change(&mut kept)?;
        kept.version += 1;
        Ok(told)
    }
}

impl Notebook for MemoryStore {
    fn note(&self, kind: &str, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.lock_kept().notes.get(&(kind.to_owned(), key.to_owned())).cloned())
    }

    fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, StoreError> {
        let kept = self.lock_kept();
        let notes = kept.notes.iter().filter(|((one, _), _)| one == kind);
        Ok(notes.map(|((_, key), body)| (key.clone(), body.clone())).collect())
    }

    fn keys(&self, kind: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.lock_kept().notes.keys().filter(|(one, _)| one == kind).map(|(_, key)| key.clone()).collect())
    }

    fn amend(&self, work: &mut NoteChange<'_>) -> Result<(), StoreError> {
        self.write(|kept| {
            let mut page = Page(kept.notes.clone());
            if work(&mut page)? {
                kept.notes = page.0;
            }
            Ok(())
        })
    }
}

/// Notes by kind and key.
type Pages = BTreeMap<(String, String), String>;

/// The notes in the middle of a change.
struct Page(Pages);

impl Notes for Page {
    fn get(&mut self, kind: &str, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.0.get(&(kind.to_owned(), key.to_owned())).cloned())
    }

    fn all(&mut self, kind: &str) -> Result<Vec<(String, String)>, StoreError> {
        let notes = self.0.iter().filter(|((one, _), _)| one == kind);
        Ok(notes.map(|((_, key), body)| (key.clone(), body.clone())).collect())
    }

    fn keys(&mut self, kind: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.0.keys().filter(|(one, _)| one == kind).map(|(_, key)| key.clone()).collect())
    }

    fn put(&mut self, kind: &str, key: &str, body: &str) -> Result<(), StoreError> {
        notebook::check(kind, key, body)?;
        self.0.insert((kind.to_owned(), key.to_owned()), body.to_owned());
        Ok(())
    }

    fn remove(&mut self, kind: &str, key: &str) -> Result<(), StoreError> {
        self.0.remove(&(kind.to_owned(), key.to_owned()));
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Kept {
    runs: BTreeMap<RunId, Run>,
    content: BTreeMap<ContentDigest, Vec<u8>>,
    notes: Pages,
    /// The command with number 1 comes first.
    commands: Vec<Sent>,
    version: u64,
    fault: Option<StoreFault>,
    failed: bool,
    acknowledged: Vec<Acknowledged>,
}

#[derive(Debug)]
struct Run {
    /// How many runs were added before it.
    place: usize,
    row: RunRow,
    records: Vec<StoredEntry>,
}

#[derive(Debug)]
struct Sent {
    run: RunId,
    body: String,
    reply: Option<String>,
}

impl Kept {
    fn check_fault(&mut self) -> Result<(), StoreError> {
        let told = "as the test wants it".to_owned();
        self.failed |= self.fault == Some(StoreFault::Failed);
        if self.failed {
            return Err(StoreError::Failed(told));
        }
        match self.fault {
            None | Some(StoreFault::Failed) => Ok(()),
            Some(StoreFault::Full) => Err(StoreError::Full(told)),
            Some(StoreFault::ReadOnly) => Err(StoreError::ReadOnly(told)),
        }
    }

    fn run(&self, run: &RunId) -> Result<&Run, StoreError> {
        self.runs.get(run).ok_or_else(|| StoreError::NoRun(run.clone()))
    }

    fn run_mut(&mut self, run: &RunId) -> Result<&mut Run, StoreError> {
        self.runs.get_mut(run).ok_or_else(|| StoreError::NoRun(run.clone()))
    }

    /// The run of a lease, if the lease still counts.
    fn owned(&mut self, lease: &Lease) -> Result<&mut Run, StoreError> {
        let run = self.run_mut(&lease.run)?;
        if run.row.epoch == lease.epoch && run.row.owner.as_ref() == Some(&lease.owner) {
            Ok(run)
        } else {
            Err(StoreError::Fenced { run: lease.run.clone(), epoch: run.row.epoch })
        }
    }

    fn find_sent(&mut self, command: u64) -> Option<&mut Sent> {
        self.commands.get_mut(usize::try_from(command.checked_sub(1)?).ok()?)
    }

    fn create(&mut self, new: &NewRun) -> Result<Lease, StoreError> {
        if self.runs.contains_key(&new.run) {
            return Err(StoreError::Exists(new.run.clone()));
        }
        let row = RunRow {
            run: new.run.clone(),
            opened: new.at,
            changed: new.at,
            head: 0,
            hash: Hash::start(&new.run),
            epoch: 1,
            owner: Some(new.owner.clone()),
            settled: false,
            summary: new.summary.clone(),
        };
        let place = self.runs.len();
        self.runs.insert(new.run.clone(), Run { place, row, records: Vec::new() });
        Ok(Lease { run: new.run.clone(), epoch: 1, owner: new.owner.clone() })
    }

    fn append(&mut self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        let head = self.owned(lease)?.row.head;
        check_order(head, &append)?;
        if let Some((command, _)) = &append.answered {
            self.check_unanswered(&lease.run, *command)?;
        }
        self.content.extend(append.content);
        if let Some((command, reply)) = append.answered
            && let Some(sent) = self.find_sent(command)
        {
            sent.reply = Some(reply);
        }
        let run = self.owned(lease)?;
        for line in append.lines {
            let hash = run.row.hash.then(line.seq, lease.epoch, &line.body);
            run.records.push(StoredEntry { seq: line.seq, epoch: lease.epoch, body: line.body, hash });
            (run.row.head, run.row.hash) = (line.seq, hash);
        }
        run.row.changed = append.at;
        run.row.summary = append.summary.unwrap_or_else(|| run.row.summary.clone());
        run.row.settled = append.settled.unwrap_or(run.row.settled);
        let head = run.row.head;
        self.acknowledged.push(Acknowledged { run: lease.run.clone(), epoch: lease.epoch, head });
        Ok(())
    }

    fn check_unanswered(&mut self, run: &RunId, command: u64) -> Result<(), StoreError> {
        match self.find_sent(command).filter(|sent| sent.run == *run) {
            None => Err(StoreError::NoCommand(command)),
            Some(Sent { reply: Some(_), .. }) => Err(StoreError::Answered(command)),
            Some(Sent { reply: None, .. }) => Ok(()),
        }
    }

    fn take(&mut self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        let row = &mut self.run_mut(run)?.row;
        if row.epoch != seen {
            return Err(StoreError::Fenced { run: run.clone(), epoch: row.epoch });
        }
        row.epoch += 1;
        row.owner = Some(owner.to_owned());
        Ok(Lease { run: run.clone(), epoch: row.epoch, owner: owner.to_owned() })
    }
}

fn check_order(head: u64, append: &Append) -> Result<(), StoreError> {
    for (due, line) in (head + 1..).zip(&append.lines) {
        if line.seq != due {
            return Err(StoreError::Gap { due, came: line.seq });
        }
    }
    Ok(())
}

impl Store for MemoryStore {
    fn writable(&self) -> Result<(), StoreError> {
        let mut kept = self.lock_kept();
        let failed = kept.failed;
        let told = kept.check_fault();
        // Asking is not writing: a disk that will fail has not failed yet.
        kept.failed = failed;
        told
    }

    fn create(&self, new: &NewRun) -> Result<Lease, StoreError> {
        limits::check_new(new)?;
        self.write(|kept| kept.create(new))
    }

    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        limits::check_append(&append)?;
        self.write(|kept| kept.append(lease, append))
    }

    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        limits::check_owner(owner)?;
        self.write(|kept| kept.take(run, seen, owner))
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.write(|kept| {
            kept.owned(lease)?.row.owner = None;
            Ok(())
        })
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.lock_kept().runs.get(run).map(|run| run.row.clone()))
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        let kept = self.lock_kept();
        let mut found: Vec<&Run> =
            kept.runs.values().filter(|run| run.row.run.as_str().starts_with(prefix)).collect();
        found.sort_by_key(|run| std::cmp::Reverse(run.place));
        Ok(found.into_iter().map(|run| run.row.clone()).collect())
    }

    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError> {
        let kept = self.lock_kept();
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(kept.run(run)?.records.iter().skip(after).take(most).cloned().collect())
    }

    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError> {
        limits::check_content(bytes)?;
        let digest = ContentDigest::of(bytes);
        self.write(|kept| {
            kept.content.entry(digest).or_insert_with(|| bytes.to_owned());
            Ok(digest)
        })
    }

    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock_kept().content.get(digest).cloned())
    }

    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError> {
        limits::check_command(body)?;
        self.write(|kept| {
            kept.run(run)?;
            kept.commands.push(Sent { run: run.clone(), body: body.to_owned(), reply: None });
            Ok(kept.commands.len() as u64)
        })
    }

    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError> {
        let kept = self.lock_kept();
        kept.run(run)?;
        let sent = kept.commands.iter().zip(1..);
        let waiting = sent.filter(|(sent, _)| sent.run == *run && sent.reply.is_none());
        Ok(waiting.map(|(sent, id)| PendingCommand { id, body: sent.body.clone() }).collect())
    }

    fn reply(&self, command: u64) -> Result<Option<String>, StoreError> {
        Ok(self.lock_kept().find_sent(command).and_then(|sent| sent.reply.clone()))
    }

    fn version(&self) -> Result<u64, StoreError> {
        Ok(self.lock_kept().version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_end_when_they_are_told_to_but_a_failed_disk_only_with_a_new_start() {
        let store = MemoryStore::new();
        let new = NewRun { run: RunId::of(1), owner: "a".to_owned(), at: 1, summary: String::new() };
        let lease = store.create(&new).unwrap();
        let append = || store.append(&lease, Append::default());
        store.set_fault(Some(StoreFault::Full));
        assert!(matches!(append(), Err(StoreError::Full(_))));
        store.set_fault(Some(StoreFault::ReadOnly));
        assert!(matches!(append(), Err(StoreError::ReadOnly(_))));
        store.set_fault(None);
        append().unwrap();

        store.set_fault(Some(StoreFault::Failed));
        assert!(matches!(store.writable(), Err(StoreError::Failed(_))));
        store.set_fault(None);
        append().unwrap();
        store.set_fault(Some(StoreFault::Failed));
        assert!(matches!(append(), Err(StoreError::Failed(_))));
        store.set_fault(None);
        assert!(matches!(append(), Err(StoreError::Failed(_))), "it was met");
        assert!(store.run(&RunId::of(1)).unwrap().is_some(), "reading goes on");
        store.reopen();
        append().unwrap();
        let seen = Acknowledged { run: RunId::of(1), epoch: 1, head: 0 };
        assert_eq!(store.acknowledged(), vec![seen; 3], "what failed is not among them");
    }
}
