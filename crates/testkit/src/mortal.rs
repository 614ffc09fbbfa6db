//! A store in a process that is killed: `SIGKILL` to ourselves at one chosen write, before or after it
//! became durable. Nothing is cleaned up, nothing is flushed, no lock or lease is given back.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use ftl_folder::id::RunId;
use ftl_store::{
    Append, ContentDigest, Lease, NewRun, PendingCommand, RunRow, Store, StoreError, StoredEntry,
};

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Before the write of that number is done.
    Before(u64),
    /// After the write of that number is durable, and before the caller hears of it.
    After(u64),
    /// Not at a write.
    Never,
}

/// A store whose process dies at one write.
pub struct Mortal<S> {
    store: S,
    death: Death,
    writes: AtomicU64,
}

impl<S: Store> Mortal<S> {
    /// The same store, and a death.
    pub fn new(store: S, death: Death) -> Mortal<S> {
        Mortal { store, death, writes: AtomicU64::new(0) }
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    fn write<T>(&self, write: impl FnOnce(&S) -> T) -> T {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.death == Death::Before(number) {
            die();
        }
        let done = write(&self.store);
        if self.death == Death::After(number) {
            die();
        }
        done
    }
}

/// Ends this process as `kill -9` does.
pub fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

impl<S: Store> Store for Mortal<S> {
    fn writable(&self) -> Result<(), StoreError> {
        self.store.writable()
    }

    fn create(&self, new: &NewRun) -> Result<Lease, StoreError> {
        self.write(|store| store.create(new))
    }

    fn append(&self, lease: &Lease, append: Append) -> Result<(), StoreError> {
        self.write(|store| store.append(lease, append))
    }

    fn take(&self, run: &RunId, seen: u64, owner: &str) -> Result<Lease, StoreError> {
        self.write(|store| store.take(run, seen, owner))
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.write(|store| store.release(lease))
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.store.run(run)
    }

    fn runs(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        self.store.runs(prefix)
    }

    fn entries(&self, run: &RunId, after: u64, most: usize) -> Result<Vec<StoredEntry>, StoreError> {
        self.store.entries(run, after, most)
    }

    fn put(&self, bytes: &[u8]) -> Result<ContentDigest, StoreError> {
        self.write(|store| store.put(bytes))
    }

    fn put_stream(&self, from: &mut dyn Read) -> Result<(ContentDigest, u64), StoreError> {
        self.write(|store| store.put_stream(from))
    }

    fn get(&self, digest: &ContentDigest) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(digest)
    }

    fn send(&self, run: &RunId, body: &str) -> Result<u64, StoreError> {
        self.write(|store| store.send(run, body))
    }

    fn pending(&self, run: &RunId) -> Result<Vec<PendingCommand>, StoreError> {
        self.store.pending(run)
    }

    fn reply(&self, command: u64) -> Result<Option<String>, StoreError> {
        self.store.reply(command)
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.store.version()
    }
}
