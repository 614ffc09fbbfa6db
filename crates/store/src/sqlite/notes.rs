//! Notes in the tables of the store.
//!
//! A change runs on the thread of the caller, under the same kernel lock as the writer's groups and
//! in a transaction of its own. Lessons are changed in the same way by the crate that knows their
//! tables.

use rusqlite::{Connection, OptionalExtension as _};

use super::{SqliteStore, trouble};
use crate::StoreError;
use crate::notebook::{self, NoteChange, Notebook, Notes};

/// The first format with notes and lessons.
pub(super) const FORMAT_WITH_NOTES: u32 = 2;

impl Notebook for SqliteStore {
    fn note(&self, kind: &str, key: &str) -> Result<Option<String>, StoreError> {
        if !self.has_notes() {
            return Ok(None);
        }
        self.read(|open| get(open, kind, key))
    }

    fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, StoreError> {
        if !self.has_notes() {
            return Ok(Vec::new());
        }
        self.read(|open| all(open, kind))
    }

    fn keys(&self, kind: &str) -> Result<Vec<String>, StoreError> {
        if !self.has_notes() {
            return Ok(Vec::new());
        }
        self.read(|open| keys(open, kind))
    }

    fn keys_from(&self, kind: &str, prefix: &str) -> Result<Vec<String>, StoreError> {
        if !self.has_notes() {
            return Ok(Vec::new());
        }
        self.read(|open| keys_from(open, kind, prefix))
    }

    fn amend(&self, work: &mut NoteChange<'_>) -> Result<(), StoreError> {
        let kept = self.change(|open| {
            let mut page = Page { open, database: self.database() };
            match work(&mut page) {
                Ok(true) => Ok(Ok(())),
                Ok(false) => Ok(Err(None)),
                Err(error) => Ok(Err(Some(error))),
            }
        })?;
        match kept {
            Ok(()) | Err(None) => Ok(()),
            Err(Some(error)) => Err(error),
        }
    }
}

impl SqliteStore {
    /// A store of the first format that could not be brought up to date has none.
    pub fn has_notes(&self) -> bool {
        self.format >= FORMAT_WITH_NOTES
    }
}

/// The notes inside of one transaction.
struct Page<'a> {
    open: &'a Connection,
    database: std::path::PathBuf,
}

impl Page<'_> {
    fn map_error<T>(&self, told: rusqlite::Result<T>) -> Result<T, StoreError> {
        told.map_err(|error| trouble::of_sqlite(&self.database, &error))
    }
}

impl Notes for Page<'_> {
    fn get(&mut self, kind: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.map_error(get(self.open, kind, key))
    }

    fn all(&mut self, kind: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.map_error(all(self.open, kind))
    }

    fn keys(&mut self, kind: &str) -> Result<Vec<String>, StoreError> {
        self.map_error(keys(self.open, kind))
    }

    fn put(&mut self, kind: &str, key: &str, body: &str) -> Result<(), StoreError> {
        notebook::check(kind, key, body)?;
        self.map_error(put(self.open, kind, key, body))
    }

    fn remove(&mut self, kind: &str, key: &str) -> Result<(), StoreError> {
        self.map_error(remove(self.open, kind, key))
    }
}

fn get(open: &Connection, kind: &str, key: &str) -> rusqlite::Result<Option<String>> {
    let mut find = open.prepare_cached("SELECT body FROM notes WHERE kind = ?1 AND key = ?2")?;
    find.query_row([kind, key], |row| row.get(0)).optional()
}

fn all(open: &Connection, kind: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut find = open.prepare_cached("SELECT key, body FROM notes WHERE kind = ?1 ORDER BY key")?;
    find.query_map([kind], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn keys(open: &Connection, kind: &str) -> rusqlite::Result<Vec<String>> {
    let mut find = open.prepare_cached("SELECT key FROM notes WHERE kind = ?1 ORDER BY key")?;
    find.query_map([kind], |row| row.get(0))?.collect()
}

/// Keys are compared as bytes, so that those with a prefix stand together; nothing of the others is read.
fn keys_from(open: &Connection, kind: &str, prefix: &str) -> rusqlite::Result<Vec<String>> {
    let mut find = open.prepare_cached("SELECT key FROM notes WHERE kind = ?1 AND key >= ?2 ORDER BY key")?;
    let mut rows = find.query([kind, prefix])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        if !key.starts_with(prefix) {
            break;
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Most notes that are put are there already, and to change one takes fewer steps than to add it in vain.
fn put(open: &Connection, kind: &str, key: &str, body: &str) -> rusqlite::Result<()> {
    let mut change = open.prepare_cached("UPDATE notes SET body = ?3 WHERE kind = ?1 AND key = ?2")?;
    if change.execute([kind, key, body])? > 0 {
        return Ok(());
    }
    let mut add = open.prepare_cached("INSERT INTO notes (kind, key, body) VALUES (?1, ?2, ?3)")?;
    add.execute([kind, key, body]).map(drop)
}

fn remove(open: &Connection, kind: &str, key: &str) -> rusqlite::Result<()> {
    open.prepare_cached("DELETE FROM notes WHERE kind = ?1 AND key = ?2")?.execute([kind, key]).map(drop)
}
