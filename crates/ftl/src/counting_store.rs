//! A store that counts what is read of journals, for tests of what a command costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftl_folder::id::RunId;
use ftl_store::{
    Append, ContentDigest, Lease, NewRun, PendingCommand, RunRow, Snapshot, SqliteStore, Store, StoreError,
    StoredEntry,
};

/// A store that counts how often a journal is read from its beginning, and how many entries are read.
pub(crate) struct CountingStore {
    inner: Arc<SqliteStore>,
    loads: AtomicUsize,
    entries: AtomicUsize,
}

impl CountingStore {
    pub(crate) fn new(inner: Arc<SqliteStore>) -> CountingStore {
        CountingStore { inner, loads: AtomicUsize::new(0), entries: AtomicUsize::new(0) }
    }

    /// How often a journal was read from its beginning.
    pub(crate) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// How many entries were read.
    pub(crate) fn entries_read(&self) -> usize {
        self.entries.load(Ordering::SeqCst)
    }

    pub(crate) fn begin_again(&self) {
        self.loads.store(0, Ordering::SeqCst);
        self.entries.store(0, Ordering::SeqCst);
    }
}

impl Store for CountingStore {
    fn writable(&self) -> Result<(), StoreError> {
        self.inner.writable()
    }

    fn create(&self, new: &NewRun) -> Result<Lease, StoreError> {
        self.inner.create(new)
    }

    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        self.inner.append(lease, append)
    }

    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        self.inner.take(run, seen, owner)
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease)
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.inner.run(run)
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        self.inner.runs(prefix)
    }

    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError> {
        self.loads.fetch_add(usize::from(after == 0), Ordering::SeqCst);
        let page = self.inner.entries(run, after, most)?;
        self.entries.fetch_add(page.len(), Ordering::SeqCst);
        Ok(page)
    }

    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError> {
        self.inner.put(bytes)
    }

    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(digest)
    }

    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError> {
        self.inner.send(run, body)
    }

    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError> {
        self.inner.pending(run)
    }

    fn reply(&self, command: u64) -> Result<Option<String>, StoreError> {
        self.inner.reply(command)
    }

    fn snapshot(&self, run: &RunId) -> Option<Snapshot> {
        self.inner.snapshot(run)
    }

    fn keep_snapshot(&self, run: &RunId, snapshot: &Snapshot) {
        self.inner.keep_snapshot(run, snapshot);
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.inner.version()
    }
}
