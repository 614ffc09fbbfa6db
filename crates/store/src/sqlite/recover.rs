//! Going on after a loss: what a person has accepted.
//!
//! The files are copied aside before anything else, and never removed by us. Then everything that is not what was
//! written is taken out, as little as possible: of a run the entries from the first unsound one on, content that is not
//! its digest, rows that belong to nothing. Where SQLite itself cannot read the database, the rows that can be
//! read go into a new one. What is beside the store and is ahead of it now is brought back by the caller, before any
//! of this is final: a process that is killed on the way finds the same damage again. The loss becomes an event of the store,
//! older leases are worth nothing, and the sums and the heads are made anew.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::copies;
use super::ends::{self, RunEnd};
use super::events::{self, Loss, LostEntries, StoreEvent};
use super::heads::{self, Found, HeadFile, Heads, RunHead, StoreHead};
use super::lock::WriteLock;
use super::read::{self, count, whole};
use super::{DATABASE, LOG, SqliteStore, cut, integrity, log, schema, seal, trouble};
use crate::journal;
use crate::order::Order;
use crate::{ContentDigest, FORMAT, Hash, StoreError};
use ftl_core::run::ROOT;
use ftl_folder::clock;
use ftl_folder::rewind::Rewound;
use ftl_folder::{self as folder, OpenMode};

/// How the folders of copies begin.
const COPIES: &str = "damaged-";

/// The files that are copied before a damaged store is changed.
const FILES: [&str; 3] = [DATABASE, LOG, heads::HEADS];

/// How many lines about what is missing an event keeps.
const MAX_LINES: usize = 200;

impl SqliteStore {
    /// Accepts what is lost of the store in a folder, so that it can be written again. `None` if nothing is.
    pub fn accept_loss(folder: &Path, by: &str, reason: &str) -> Result<Option<Loss>, StoreError> {
        SqliteStore::accept_loss_with(folder, by, reason, &mut |_| Ok(Vec::new()))
    }

    /// The same; `bring_back` is given the runs whose journals may have become shorter, and brings back what stands
    /// beside the store. Nothing of the store has changed when it is called, and nothing will if it fails.
    pub fn accept_loss_with<E: From<StoreError>>(
        folder: &Path,
        by: &str,
        reason: &str,
        bring_back: BringBack<'_, E>,
    ) -> Result<Option<Loss>, E> {
        let lock = WriteLock::open(folder).map_err(|error| trouble::of_disk(folder, &error))?;
        let _held = lock.hold().map_err(|error| trouble::of_disk(folder, &error))?;
        let recovery = Recovery { folder, by, reason };
        recovery.run(bring_back)
    }
}

/// Who brings back what is beside the store.
pub type BringBack<'a, E> = &'a mut dyn FnMut(&[RunEnd]) -> Result<Vec<Rewound>, E>;

struct Recovery<'a> {
    folder: &'a Path,
    by: &'a str,
    reason: &'a str,
}

/// What is known of the damage before anything is changed.
struct Damage {
    heads: Option<Heads>,
    lines: Vec<String>,
    runs: Vec<LostEntries>,
    /// Whether SQLite can read the database from end to end.
    is_readable: bool,
    /// Copies of notes that were moved aside.
    files: Vec<String>,
}

impl Recovery<'_> {
    fn run<E: From<StoreError>>(&self, bring_back: BringBack<'_, E>) -> Result<Option<Loss>, E> {
        let damage = self.examine()?;
        if damage.lines.is_empty() {
            return Ok(None);
        }
        let copies = self.copy_aside().map_err(|error| self.on_disk(&error))?;
        if !damage.is_readable {
            self.rebuild(&copies)?;
        }
        let open = schema::open_to_write(&self.database())?;
        let format = schema::format(&self.database(), &open)?;
        schema::bring_up_to_date(self.folder, &open, format)?;
        let loss = self.repair(&open, damage, &copies, bring_back)?;
        // The log as it was must not be read again: what is left of it goes into the database.
        let emptied = open.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        if emptied.map_err(|error| self.on_error(&error))? != 0 {
            let busy = "another process reads the store; end it, and say this again".to_owned();
            return Err(StoreError::InUse(busy).into());
        }
        self.renew_heads(&open)?;
        open.close().map_err(|(_, error)| self.on_error(&error))?;
        Ok(Some(loss))
    }

    fn database(&self) -> PathBuf {
        self.folder.join(DATABASE)
    }

    fn on_disk(&self, error: &io::Error) -> StoreError {
        trouble::of_disk(self.folder, error)
    }

    fn on_error(&self, error: &rusqlite::Error) -> StoreError {
        trouble::of_sqlite(&self.database(), error)
    }

    /// Looks at everything that can be wrong.
    fn examine(&self) -> Result<Damage, StoreError> {
        let found = heads::read(self.folder).map_err(|error| self.on_disk(&error))?;
        let heads = if let Found::Heads(heads) = found { Some(heads) } else { None };
        let mut damage =
            Damage { heads, lines: Vec::new(), runs: Vec::new(), is_readable: true, files: Vec::new() };
        if is_file(&self.folder.join(LOG)).map_err(|error| self.on_disk(&error))? == Some(false) {
            damage.lines.push(format!("{LOG} is no file"));
        } else {
            let log = log::find_damage(self.folder, 0).map_err(|error| self.on_disk(&error))?;
            damage.lines.extend(log.map(integrity::describe_log));
        }
        match self.read() {
            Ok(Some(open)) => {
                if let Err(error) = examine_rows(&open, &mut damage) {
                    damage.lines.push(format!("the database cannot be read to its end: {error}"));
                    damage.is_readable = false;
                }
            }
            Ok(None) if heads::exist(self.folder) || schema::log_bytes(self.folder) > 0 => {
                damage.lines.push(format!("{DATABASE} is gone"));
                damage.is_readable = false;
            }
            Ok(None) => {}
            Err(error @ (StoreError::Corrupt(_) | StoreError::Failed(_))) => {
                damage.lines.push(error.to_string());
                damage.is_readable = false;
            }
            Err(error) => return Err(error),
        }
        if let (false, Some(heads)) = (damage.is_readable, &damage.heads) {
            damage.runs =
                heads.runs.iter().filter_map(|head| integrity::lost_entries(head, 0, None)).collect();
        }
        Ok(damage)
    }

    /// The database for reading, if there is one.
    fn read(&self) -> Result<Option<Connection>, StoreError> {
        let database = self.database();
        match is_file(&database).map_err(|error| self.on_disk(&error))? {
            None => return Ok(None),
            Some(false) => return Err(StoreError::Corrupt(format!("{} is no file", database.display()))),
            Some(true) => {}
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | schema::NO_LINKS;
        let open = Connection::open_with_flags(schema::without_links(&database), flags);
        let open = open.map_err(|error| self.on_error(&error))?;
        match schema::format(&database, &open)? {
            ..=FORMAT => Ok(Some(open)),
            // The tables of a newer format are other ones: here the number is what is wrong.
            _ if schema::is_current(&open).map_err(|error| self.on_error(&error))? => Ok(Some(open)),
            found => Err(StoreError::Newer { found, known: FORMAT }),
        }
    }

    /// Copies the files as they are into a folder of their own, to the disk.
    fn copy_aside(&self) -> io::Result<PathBuf> {
        let copies = self.folder.join(format!("{COPIES}{}", clock::wall()));
        folder::make_new_as(&copies, 0o700)?;
        for name in FILES {
            match is_file(&self.folder.join(name))? {
                Some(true) => {
                    folder::copy(&self.folder.join(name), &copies.join(name))?;
                    folder::open(&copies.join(name), OpenMode::Read)?.sync_all()?;
                }
                // Nothing can be made of it, and it is in the way.
                Some(false) => folder::rename(&self.folder.join(name), &copies.join(name))?,
                None => {}
            }
        }
        folder::sync(&copies)?;
        folder::sync(self.folder)?;
        Ok(copies)
    }

    /// Makes a new database out of the rows that can be read in the copy of the damaged one.
    fn rebuild(&self, copies: &Path) -> Result<(), StoreError> {
        let made = schema::make_unfinished(self.folder)?;
        let source = scratch(copies).map_err(|error| self.on_disk(&error))?;
        if source.path().join(DATABASE).exists() {
            let open = schema::open_to_write(&made)?;
            salvage(&open, &source.path().join(DATABASE)).map_err(|error| self.on_error(&error))?;
            let emptied = open.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            emptied.map_err(|error| self.on_error(&error))?;
            open.close().map_err(|(_, error)| self.on_error(&error))?;
        }
        let replaced = || -> io::Result<()> {
            folder::open(&made, OpenMode::Read)?.sync_all()?;
            for name in [LOG, "ftl.db-shm"] {
                schema::remove(&self.folder.join(name))?;
            }
            folder::rename(&made, &self.database())?;
            folder::sync(self.folder)
        };
        replaced().map_err(|error| self.on_disk(&error))
    }

    /// Takes out what is not sound, and writes down what is lost, in one transaction.
    fn repair<E: From<StoreError>>(
        &self,
        open: &Connection,
        mut damage: Damage,
        copies: &Path,
        bring_back: BringBack<'_, E>,
    ) -> Result<Loss, E> {
        let on_error = |error: rusqlite::Error| self.on_error(&error);
        open.pragma_update(None, "foreign_keys", false).map_err(on_error)?;
        let change = open.unchecked_transaction().map_err(on_error)?;
        let noted = noted_heads(&damage);
        let ends = self.take_out(&change, &noted, &mut damage).map_err(on_error)?;
        let rewound = if ends.is_empty() { Vec::new() } else { bring_back(&ends)? };
        let moved = copies::move_unknown(&change, self.folder, copies).map_err(on_error)?;
        damage.files = moved.map_err(|error| self.on_disk(&error))?;
        let written = || -> rusqlite::Result<Loss> {
            ends::drop_notes(&change, &ends, &rewound)?;
            self.end_delivered(&change, &rewound)?;
            let loss = self.write_down(&change, damage, rewound, copies)?;
            change.commit()?;
            Ok(loss)
        };
        Ok(written().map_err(on_error)?)
    }

    /// Takes out what is not sound; the runs whose journals may have become shorter.
    fn take_out(
        &self,
        change: &Connection,
        noted: &BTreeMap<String, RunHead>,
        damage: &mut Damage,
    ) -> rusqlite::Result<Vec<RunEnd>> {
        take_out_unsound(change)?;
        damage.runs = lost_runs(change, noted)?;
        fence(change, noted)?;
        schema::renew_triggers(change)?;
        ends::find(change, self.folder, noted)
    }

    /// A run whose work is on the person's branch without its journal knowing must not deliver again: it is told to
    /// stop, which comes before anything else that it does.
    fn end_delivered(&self, change: &Connection, rewound: &[Rewound]) -> rusqlite::Result<()> {
        for one in rewound {
            let Some(delivered) = &one.delivered else { continue };
            let (target, commit) = (&delivered.target, &delivered.commit);
            let reason = format!(
                "`{target}` has {commit} of this run, which its journal has lost ({}); its work stays on `{}`",
                self.reason, one.branch
            );
            let order = Order::Stop { instance: ROOT, by: self.by.to_owned(), reason };
            let failed = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
            let body = serde_json::to_string(&order).map_err(failed)?;
            let add = "INSERT INTO commands (run, body) SELECT number, ?2 FROM runs WHERE name = ?1";
            change.execute(add, (one.run.as_str(), body))?;
        }
        Ok(())
    }

    /// Makes the loss an event of the store.
    fn write_down(
        &self,
        change: &Connection,
        damage: Damage,
        git: Vec<Rewound>,
        copies: &Path,
    ) -> rusqlite::Result<Loss> {
        let name = copies.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut missing = damage.lines;
        missing.truncate(MAX_LINES);
        let (by, reason) = (self.by.to_owned(), self.reason.to_owned());
        let files = damage.files;
        let loss = Loss { by, reason, missing, runs: damage.runs, copies: name, git, files };
        drop_unsound_events(change)?;
        events::add(change, &StoreEvent::LossAccepted(loss.clone()))?;
        let before = seal::read(change).ok().flatten().map_or(0, |sealed| sealed.serial);
        let noted = damage.heads.map_or(0, |heads| heads.store.serial);
        seal::write(change, before.max(noted) + 1)?;
        Ok(loss)
    }

    fn renew_heads(&self, open: &Connection) -> Result<(), StoreError> {
        let read = || -> rusqlite::Result<(StoreHead, Vec<RunHead>)> {
            let sealed = seal::read(open)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let name = read::store_name(open)?;
            let runs = integrity::run_heads(open)?.into_values().collect();
            Ok((StoreHead { name, serial: sealed.serial, sums: sealed.sums.digest() }, runs))
        };
        let (store, runs) = read().map_err(|error| self.on_error(&error))?;
        let written = || {
            let file = HeadFile::open(self.folder, &Arc::default())?;
            file.write_anew(&store, &runs)?;
            file.sync()
        };
        written().map_err(|error| self.on_disk(&error))
    }
}

/// What the heads say of runs; where there are none, what the store itself noted.
fn noted_heads(damage: &Damage) -> BTreeMap<String, RunHead> {
    let heads = damage.heads.iter().flat_map(|heads| &heads.runs);
    heads.map(|head| (head.name.clone(), head.clone())).collect()
}

/// Everything that is wrong in the rows; an error where they cannot be read.
fn examine_rows(open: &Connection, damage: &mut Damage) -> rusqlite::Result<()> {
    damage.lines.extend(schema::misnumbered(open)?);
    if let Some(heads) = &damage.heads {
        let differences = integrity::compare(open, heads)?;
        damage.lines.extend(differences.lines);
        damage.runs.extend(differences.runs);
    }
    let mut pages = super::pages_problems(open, true)?;
    let orphans = |line: &String| line.starts_with("a row of ");
    damage.is_readable = pages.iter().all(orphans);
    damage.lines.append(&mut pages);
    if schema::format_of(open, schema::format_number(open)?)? >= FORMAT {
        damage.lines.extend(integrity::of_store(open)?);
    }
    for head in integrity::run_heads(open)?.into_values() {
        let sound = sound_entries(open, &head)?;
        if sound.0 != head.seq {
            damage.lines.push(format!("run {}: entries from {} on are not sound", head.name, sound.0 + 1));
        } else if sound.1 != head.hash {
            damage.lines.push(format!("run {} does not end in the hash that it noted", head.name));
        }
    }
    damage.lines.extend(super::content_problems(open)?);
    // The same thing may have been seen twice.
    damage.lines.dedup();
    Ok(())
}

/// How many entries of a run are sound from the first on, and the hash of the last of them.
fn sound_entries(open: &Connection, head: &RunHead) -> rusqlite::Result<(u64, [u8; 32])> {
    let Ok(run) = head.name.parse() else { return Ok((0, [0; 32])) };
    let mut hash = Hash::start(&run);
    let mut sound = 0;
    let mut list =
        open.prepare_cached("SELECT seq, epoch, body, hash FROM entries WHERE run = ?1 ORDER BY seq")?;
    let mut rows = list.query([head.number])?;
    while let Some(row) = rows.next()? {
        let (Ok(seq), Ok(epoch), Ok(body)) = (count(row, 0), count(row, 1), row.get::<_, String>(2)) else {
            break;
        };
        let next = hash.then(seq, epoch, &body);
        if seq != sound + 1 || row.get::<_, [u8; 32]>(3).ok() != Some(next.0) || !has_content(open, &body)? {
            break;
        }
        (sound, hash) = (seq, next);
    }
    Ok((sound, hash.0))
}

fn has_content(open: &Connection, body: &str) -> rusqlite::Result<bool> {
    for digest in journal::references(body) {
        match read::content(open, &digest)? {
            Some(number) if ContentDigest::of(&read::bytes(open, number)?) == digest => {}
            Some(_) | None => return Ok(false),
        }
    }
    Ok(true)
}

/// Removes what is not sound: content first, since entries name it.
fn take_out_unsound(open: &Connection) -> rusqlite::Result<()> {
    open.execute_batch(
        "DROP TRIGGER IF EXISTS entries_are_never_removed; DROP TRIGGER IF EXISTS events_are_never_removed;",
    )?;
    let listed = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, [u8; 32]>(1)?));
    let all: Vec<(i64, [u8; 32])> = open
        .prepare("SELECT number, digest FROM content")?
        .query_map([], listed)?
        .collect::<Result<_, _>>()?;
    for (number, digest) in all {
        if ContentDigest::of(&read::bytes(open, number)?).0 != digest {
            open.execute("DELETE FROM content WHERE number = ?1", [number])?;
        }
    }
    open.execute_batch(
        "DELETE FROM chunks WHERE content NOT IN (SELECT number FROM content);
         DELETE FROM entries WHERE run NOT IN (SELECT number FROM runs);
         DELETE FROM commands WHERE run NOT IN (SELECT number FROM runs);",
    )?;
    for head in integrity::run_heads(open)?.into_values() {
        let (sound, hash) = sound_entries(open, &head)?;
        if (sound, hash) == (head.seq, head.hash) {
            continue;
        }
        let (sound, hash) = cut::before_broken_decision(open, &head, (sound, hash))?;
        open.execute("DELETE FROM entries WHERE run = ?1 AND seq > ?2", (head.number, whole(sound)))?;
        open.execute("DELETE FROM entries WHERE run = ?1 AND seq < 1", [head.number])?;
        let cut = "UPDATE runs SET head = ?2, hash = ?3, settled = 0 WHERE number = ?1";
        open.execute(cut, (head.number, whole(sound), hash))?;
        cut::renew_summary(open, head.number)?;
    }
    open.pragma_update(None, "user_version", FORMAT)
}

/// The store's own journal goes on after its last sound entry.
fn drop_unsound_events(open: &Connection) -> rusqlite::Result<()> {
    let mut sound = 0;
    while events::is_sound_up_to(open, sound + 1)? {
        sound += 1;
    }
    open.execute_batch("DROP TRIGGER IF EXISTS events_are_never_removed")?;
    open.execute("DELETE FROM events WHERE number > ?1 OR number < 1", [whole(sound)])?;
    schema::renew_triggers(open)
}

/// The runs that had more entries than they have now.
fn lost_runs(open: &Connection, noted: &BTreeMap<String, RunHead>) -> rusqlite::Result<Vec<LostEntries>> {
    let now = integrity::run_heads(open)?;
    let mut lost = Vec::new();
    for head in noted.values() {
        let left = now.values().find(|row| row.name == head.name);
        let (seq, hash) = left.map_or((0, None), |row| (row.seq, Some(row.hash)));
        if seq < head.seq {
            lost.extend(integrity::lost_entries(head, seq, hash));
        }
    }
    Ok(lost)
}

/// No process that held a lease before the loss may write after it.
fn fence(open: &Connection, noted: &BTreeMap<String, RunHead>) -> rusqlite::Result<()> {
    for row in integrity::run_heads(open)?.into_values() {
        let epoch = noted.get(&row.name).map_or(row.epoch, |head| head.epoch.max(row.epoch)) + 1;
        let fenced = "UPDATE runs SET epoch = ?2, owner = NULL WHERE number = ?1 AND settled = 0";
        open.execute(fenced, (row.number, whole(epoch)))?;
    }
    Ok(())
}

/// Whether a plain file is there; nothing where nothing does.
fn is_file(path: &Path) -> io::Result<Option<bool>> {
    match folder::metadata(path) {
        Ok(found) => Ok(Some(found.is_file())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A copy of the copies that SQLite may write beside: the first ones stay as they are.
fn scratch(copies: &Path) -> io::Result<tempfile::TempDir> {
    let scratch = tempfile::tempdir_in(copies)?;
    for name in [DATABASE, LOG] {
        if is_file(&copies.join(name))? == Some(true) {
            folder::copy(&copies.join(name), &scratch.path().join(name))?;
        }
    }
    Ok(scratch)
}

/// The tables whose rows are taken over, in the order in which they refer to each other.
const SALVAGED: [(&str, &str); 8] = [
    ("meta", "key"),
    ("runs", "number"),
    ("entries", "run, seq"),
    ("content", "number"),
    ("chunks", "content, part"),
    ("commands", "id"),
    ("notes", "kind, key"),
    ("events", "number"),
];

/// Lessons are taken over all or not at all: their index must be theirs.
const LESSONS: [&str; 7] = [
    "lesson",
    "lesson_vectors",
    "lesson_setting",
    "lesson_words_data",
    "lesson_words_idx",
    "lesson_words_docsize",
    "lesson_words_config",
];

/// Takes over the rows of a damaged database that can be read, from both ends of each table.
fn salvage(open: &Connection, damaged: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | schema::NO_LINKS;
    let damaged = schema::without_links(damaged);
    let Ok(source) = Connection::open_with_flags(damaged, flags) else { return Ok(()) };
    open.pragma_update(None, "foreign_keys", false)?;
    let change = open.unchecked_transaction()?;
    for (table, key) in SALVAGED {
        let descending = key.split(", ").map(|part| format!("{part} DESC")).collect::<Vec<_>>().join(", ");
        for order in [key, &descending] {
            copy_rows(&change, &source, table, &format!("ORDER BY {order}"))?;
        }
    }
    change.commit()?;
    let lessons = open.unchecked_transaction()?;
    let mut is_whole = true;
    for table in LESSONS {
        lessons.execute_batch(&format!("DELETE FROM {table}"))?;
        is_whole = is_whole && copy_rows(&lessons, &source, table, "")?;
    }
    is_whole =
        is_whole && lessons.prepare("SELECT count(*) FROM lesson_words WHERE lesson_words MATCH 'a'").is_ok();
    if is_whole { lessons.commit() } else { lessons.rollback() }
}

/// Copies rows until the source cannot be read any more; whether that was its end.
fn copy_rows(to: &Connection, from: &Connection, table: &str, order: &str) -> rusqlite::Result<bool> {
    let Ok(mut all) = from.prepare(&format!("SELECT * FROM {table} {order}")) else { return Ok(false) };
    let width = all.column_count();
    let marks = vec!["?"; width].join(", ");
    let mut add = to.prepare(&format!("INSERT OR REPLACE INTO {table} VALUES ({marks})"))?;
    let Ok(mut rows) = all.query([]) else { return Ok(false) };
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let values: Result<Vec<rusqlite::types::Value>, _> =
                    (0..width).map(|at| row.get(at)).collect();
                // A row that this table cannot hold is not one of ours.
                let Ok(values) = values else { continue };
                if add.execute(rusqlite::params_from_iter(values)).is_err() {
                    continue;
                }
            }
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}
