//! The contract of stores, for each store that there is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ftl_store::{MemoryStore, Notebook, SqliteStore, Store};
use ftl_testkit::contract::Opened;
use tempfile::TempDir;

struct InMemory(MemoryStore);

impl Opened for InMemory {
    fn store(&self) -> &dyn Store {
        &self.0
    }
}

struct OnDisk {
    store: SqliteStore,
    _folder: TempDir,
}

impl Opened for OnDisk {
    fn store(&self) -> &dyn Store {
        &self.store
    }
}

fn in_memory() -> InMemory {
    InMemory(MemoryStore::new())
}

fn on_disk() -> OnDisk {
    let folder = tempfile::tempdir().unwrap();
    OnDisk { store: SqliteStore::open(&folder.path().join(".ftl/store")).unwrap(), _folder: folder }
}

fn with_memory(case: &dyn Fn(&dyn Notebook)) {
    case(&in_memory().0);
}

fn with_disk(case: &dyn Fn(&dyn Notebook)) {
    case(&on_disk().store);
}

mod memory {
    ftl_testkit::store_contract!(super::in_memory);
    ftl_testkit::notebook_contract!(super::with_memory);
}

mod sqlite {
    ftl_testkit::store_contract!(super::on_disk);
    ftl_testkit::notebook_contract!(super::with_disk);
}
