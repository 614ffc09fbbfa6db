//! The board of a run out of the store: brought up to date with the entries that have come since.
//!
//! It only reads. An entry that this program does not understand ends the reading, as it does for a driver.

use std::sync::Arc;

use ftl_command::CommandError;
use ftl_command::session::{drive_failure, store_failure};
use ftl_core::run::{Entry, InstanceId};
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_store::Store;
use ftl_store::journal;
use ftl_store::snapshot;
use ftl_view::board::Board;

/// How many entries are read at a time.
const PAGE: usize = 500;

/// A board that follows a journal.
pub(crate) struct Reader {
    /// The run that is read.
    pub(crate) run: RunId,
    /// What its journal has made so far.
    pub(crate) board: Board,
    store: Arc<dyn Store>,
    after: u64,
}

impl Reader {
    /// The board of a run as it is now.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        run: RunId,
        library: Arc<Library>,
    ) -> Result<Reader, CommandError> {
        let loaded = snapshot::load(&*store, &run, library).map_err(|error| drive_failure(&error.into()))?;
        let board = loaded.board;
        let after = board.machine().next_seq() - 1;
        Ok(Reader { run, board, store, after })
    }

    /// Takes in what is new; each entry is shown with the board as it was before.
    pub(crate) fn refresh(&mut self, see: &mut dyn FnMut(&Board, &Entry)) -> Result<(), CommandError> {
        loop {
            let page = self.store.entries(&self.run, self.after, PAGE);
            let page = page.map_err(|error| store_failure(&error))?;
            for record in &page {
                let entry = journal::decode(&*self.store, &self.run, record);
                let entry = entry.map_err(|error| drive_failure(&error.into()))?;
                see(&self.board, &entry);
                self.board.see(&entry);
                self.after = record.seq;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Whose action was asked for by an entry.
    pub(crate) fn owner(&self, entry: u64) -> Option<InstanceId> {
        let found = self.store.entries(&self.run, entry.checked_sub(1)?, 1).ok()?;
        let record = found.first().filter(|record| record.seq == entry)?;
        journal::decode(&*self.store, &self.run, record).ok().map(|entry| entry.instance)
    }
}
