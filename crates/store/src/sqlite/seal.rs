//! The seal: one sum for each group of tables that no chain covers, kept in the store itself.
//!
//! The rows of a group are hashed one by one and the hashes are added up, so that a change costs the rows it
//! touches and nothing else: what was is taken away, what is is added. The sums and the number of the transaction are
//! one row, written in the same transaction. A row that is edited, added or removed by another program leaves a sum
//! that no longer fits, and goes on not fitting whatever is written later. The sums are no secret: a program that can
//! write the store and knows how can compute them again; only a head that was noted elsewhere tells then.
//!
//! Triggers of the connection that writes report the rows. They are temporary: no other connection to the database
//! has them, and nothing of them is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use super::heads::RunHead;

/// How many groups there are.
const GROUPS: usize = 7;

/// The length of the sums as they are kept.
const SUM_BYTES: usize = GROUPS * 32;

/// The rows that a sum is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Runs,
    Orders,
    Content,
    Notes,
    Lessons,
    Words,
    Events,
}

impl Group {
    const ALL: [Group; GROUPS] = [
        Group::Runs,
        Group::Orders,
        Group::Content,
        Group::Notes,
        Group::Lessons,
        Group::Words,
        Group::Events,
    ];

    const fn index(self) -> usize {
        match self {
            Group::Runs => 0,
            Group::Orders => 1,
            Group::Content => 2,
            Group::Notes => 3,
            Group::Lessons => 4,
            Group::Words => 5,
            Group::Events => 6,
        }
    }

    /// The name of those rows in messages.
    const fn word(self) -> &'static str {
        match self {
            Group::Runs => "runs (names, owners, epochs, summaries)",
            Group::Orders => "orders",
            Group::Content => "content",
            Group::Notes => "notes (campaign, phase, archive)",
            Group::Lessons => "lessons",
            Group::Words => "index of lessons by words",
            Group::Events => "events of the store",
        }
    }
}

/// A table under the seal, with the columns that count. Content has its bytes under its digest already.
struct Table {
    name: &'static str,
    columns: &'static [&'static str],
    group: Group,
}

/// The tables. The index of words is part of it: a damaged one would find other lessons. It is summed as a whole
/// after a transaction that changed lessons: SQLite writes its tables in a way in which triggers must not take part.
const TABLES: [Table; 12] = [
    Table {
        name: "runs",
        columns: &[
            "number", "name", "head", "hash", "epoch", "opened", "changed", "owner", "settled", "summary",
        ],
        group: Group::Runs,
    },
    Table { name: "commands", columns: &["id", "run", "body", "reply"], group: Group::Orders },
    Table { name: "content", columns: &["number", "digest", "size"], group: Group::Content },
    Table { name: "notes", columns: &["kind", "key", "body"], group: Group::Notes },
    Table {
        name: "lesson",
        columns: &["id", "kind", "name", "fingerprint", "value", "wordless", "quarantine", "body"],
        group: Group::Lessons,
    },
    Table { name: "lesson_vectors", columns: &["chunk", "body"], group: Group::Lessons },
    Table { name: "lesson_setting", columns: &["key", "value"], group: Group::Lessons },
    Table { name: "lesson_words_data", columns: &["id", "block"], group: Group::Words },
    Table { name: "lesson_words_idx", columns: &["segid", "term", "pgno"], group: Group::Words },
    Table { name: "lesson_words_docsize", columns: &["id", "sz", "origin"], group: Group::Words },
    Table { name: "lesson_words_config", columns: &["k", "v"], group: Group::Words },
    Table { name: "events", columns: &["number", "at", "body", "hash"], group: Group::Events },
];

/// The first table is the one of the runs: their heads are read from its rows.
const RUNS: usize = 0;

/// The sums of all groups, each four numbers that wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums([[u64; 4]; GROUPS]);

/// What is in the row of the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    /// How many transactions the store has seen.
    pub(super) serial: u64,
    /// The sums after the last one.
    pub(super) sums: Sums,
}

impl Sums {
    fn add(&mut self, group: Group, row: [u64; 4]) {
        for (sum, part) in self.0[group.index()].iter_mut().zip(row) {
            *sum = sum.wrapping_add(part);
        }
    }

    fn take(&mut self, group: Group, row: [u64; 4]) {
        for (sum, part) in self.0[group.index()].iter_mut().zip(row) {
            *sum = sum.wrapping_sub(part);
        }
    }

    fn plus(mut self, other: &Sums) -> Sums {
        for group in Group::ALL {
            self.add(group, other.0[group.index()]);
        }
        self
    }

    fn to_bytes(self) -> Vec<u8> {
        self.0.iter().flatten().flat_map(|part| part.to_be_bytes()).collect()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Sums> {
        let mut sums = Sums::default();
        let parts = sums.0.iter_mut().flatten();
        let (words, rest) = bytes.as_chunks::<8>();
        if bytes.len() != SUM_BYTES || !rest.is_empty() {
            return None;
        }
        for (part, word) in parts.zip(words) {
            *part = u64::from_be_bytes(*word);
        }
        Some(sums)
    }

    /// One hash of all of them, for the head.
    pub(super) fn digest(self) -> [u8; 32] {
        Sha256::digest(self.to_bytes()).into()
    }

    /// The groups in which two differ, as people call them.
    pub(super) fn differing(&self, other: &Sums) -> Vec<&'static str> {
        let differ = |group: &Group| self.0[group.index()] != other.0[group.index()];
        Group::ALL.into_iter().filter(differ).map(Group::word).collect()
    }
}

/// What a transaction has changed so far.
#[derive(Debug, Default)]
struct Delta {
    sums: Sums,
    touched: BTreeMap<i64, RunHead>,
    /// Whether any row was.
    is_changed: bool,
    /// Whether rows of lessons were changed.
    has_lessons: bool,
    /// The sum of the index of words, if it was computed again.
    words: Option<[u64; 4]>,
}

/// The seal of one connection that writes.
#[derive(Debug)]
pub(super) struct Seal {
    delta: Arc<Mutex<Delta>>,
}

impl Seal {
    /// Has a connection report what it changes.
    pub(super) fn install(open: &Connection) -> rusqlite::Result<Seal> {
        let delta = Arc::new(Mutex::new(Delta::default()));
        let flags = FunctionFlags::SQLITE_UTF8;
        let noted = Arc::clone(&delta);
        open.create_scalar_function("ftl_seal_row", -1, flags, move |row| note_row(row, &noted))?;
        let summed = Arc::clone(&delta);
        open.create_scalar_function("ftl_seal_sums", 1, flags, move |row| {
            let before = row.get_raw(0).as_blob().ok().and_then(Sums::of_bytes).ok_or_else(no_sums)?;
            let delta = summed.lock().unwrap_or_else(PoisonError::into_inner);
            let mut sums = before.plus(&delta.sums);
            if let Some(words) = delta.words {
                sums.0[Group::Words.index()] = words;
            }
            Ok(sums.to_bytes())
        })?;
        // A row that is replaced is reported as removed only so.
        open.pragma_update(None, "recursive_triggers", true)?;
        open.execute_batch(&triggers())?;
        Ok(Seal { delta })
    }

    /// Forgets what was reported: the next transaction begins.
    pub(super) fn begin(&self) {
        *self.delta.lock().unwrap_or_else(PoisonError::into_inner) = Delta::default();
    }

    /// Writes the row of the seal at the end of a transaction; what it is now, and the heads of the runs that
    /// were changed. A transaction that has changed nothing is left so: it costs no sync.
    pub(super) fn close(&self, open: &Connection) -> rusqlite::Result<Option<(Sealed, Vec<RunHead>)>> {
        let (is_changed, has_lessons) = {
            let delta = self.delta.lock().unwrap_or_else(PoisonError::into_inner);
            (delta.is_changed, delta.has_lessons)
        };
        if !is_changed {
            return Ok(None);
        }
        if has_lessons {
            let words = sum_words(open)?;
            self.delta.lock().unwrap_or_else(PoisonError::into_inner).words = Some(words);
        }
        let mut update = open.prepare_cached(
            "UPDATE seal SET serial = serial + 1, sums = ftl_seal_sums(sums) WHERE id = 1 RETURNING serial, sums",
        )?;
        let sealed = update.query_row([], sealed_row)?;
        let delta = std::mem::take(&mut *self.delta.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Some((sealed, delta.touched.into_values().collect())))
    }
}

/// The row of the seal, if there is one that makes sense.
pub(super) fn read(open: &Connection) -> rusqlite::Result<Option<Sealed>> {
    let mut find = open.prepare_cached("SELECT serial, sums FROM seal WHERE id = 1")?;
    let found = find.query_row([], |row| Ok(sealed_row(row).ok())).optional()?;
    Ok(found.flatten())
}

/// Computes the sums from the rows as they are, and writes them with that number.
pub(super) fn write(open: &Connection, serial: u64) -> rusqlite::Result<Sealed> {
    let sums = compute(open)?;
    let mut put = open.prepare(
        "INSERT INTO seal (id, serial, sums) VALUES (1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET serial = ?1, sums = ?2",
    )?;
    put.execute((super::read::whole(serial), sums.to_bytes()))?;
    Ok(Sealed { serial, sums })
}

/// The sum of the index of words, which keeps rows back until something asks for them; a savepoint does.
fn sum_words(open: &Connection) -> rusqlite::Result<[u64; 4]> {
    open.execute_batch("SAVEPOINT summed; RELEASE summed")?;
    Ok(compute_of(open, |group| group == Group::Words)?.0[Group::Words.index()])
}

/// The sums of the rows as they are.
pub(super) fn compute(open: &Connection) -> rusqlite::Result<Sums> {
    compute_of(open, |_| true)
}

fn compute_of(open: &Connection, wanted: impl Fn(Group) -> bool) -> rusqlite::Result<Sums> {
    let mut sums = Sums::default();
    for (index, table) in TABLES.iter().enumerate().filter(|(_, table)| wanted(table.group)) {
        let mut all = open.prepare(&format!("SELECT {} FROM {}", table.columns.join(", "), table.name))?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let mut hash = begin_row(index);
            for column in 0..table.columns.len() {
                add_value(&mut hash, row.get_ref(column)?);
            }
            sums.add(table.group, end_row(hash));
        }
    }
    Ok(sums)
}

fn sealed_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Sealed> {
    let serial = super::read::count(row, 0)?;
    let sums = Sums::of_bytes(row.get_ref(1)?.as_blob()?).ok_or_else(no_sums)?;
    Ok(Sealed { serial, sums })
}

fn no_sums() -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Blob, "the seal has no sums".into())
}

/// The triggers of a connection: each change of a row calls the function with the table, the sign and the row.
fn triggers() -> String {
    let mut text = String::new();
    let tables = TABLES.iter().enumerate().filter(|(_, table)| table.group != Group::Words);
    for (index, Table { name, columns, .. }) in tables {
        let row =
            |which: &str| columns.iter().map(|column| format!(", {which}.{column}")).collect::<String>();
        let (old, new) = (format!("ftl_seal_row({index}, -1{})", row("OLD")), row("NEW"));
        let new = format!("ftl_seal_row({index}, 1{new})");
        for (event, calls) in [("INSERT", &new), ("DELETE", &old), ("UPDATE", &format!("{old}, {new}"))] {
            let _ = write!(
                text,
                "CREATE TEMP TRIGGER seal_{name}_{event} AFTER {event} ON main.{name} BEGIN SELECT {calls}; END;"
            );
        }
    }
    text
}

/// Takes a row into account: the table, whether it is there or gone, and its columns.
fn note_row(row: &Context<'_>, delta: &Mutex<Delta>) -> rusqlite::Result<bool> {
    let table = usize::from(row.get::<u16>(0)?);
    let sign: i64 = row.get(1)?;
    let group = TABLES.get(table).ok_or_else(no_sums)?.group;
    let mut hash = begin_row(table);
    for column in 2..row.len() {
        add_value(&mut hash, row.get_raw(column));
    }
    let mut delta = delta.lock().unwrap_or_else(PoisonError::into_inner);
    if sign > 0 {
        delta.sums.add(group, end_row(hash));
    } else {
        delta.sums.take(group, end_row(hash));
    }
    delta.is_changed = true;
    delta.has_lessons |= group == Group::Lessons;
    if table == RUNS && sign > 0 {
        let head = run_head(row)?;
        delta.touched.insert(head.number, head);
    }
    Ok(true)
}

/// The head of a run out of the first columns of its row.
fn run_head(row: &Context<'_>) -> rusqlite::Result<RunHead> {
    let count = |column: usize| -> rusqlite::Result<u64> {
        let number: i64 = row.get(column)?;
        u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
    };
    Ok(RunHead {
        number: row.get(2)?,
        name: row.get(3)?,
        seq: count(4)?,
        hash: row.get(5)?,
        epoch: count(6)?,
    })
}

fn begin_row(table: usize) -> Sha256 {
    let mut hash = Sha256::new();
    hash.update(b"ftl row 1\n");
    hash.update([u8::try_from(table).unwrap_or(u8::MAX)]);
    hash
}

fn add_value(hash: &mut Sha256, value: ValueRef<'_>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        hash.update([tag]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    match value {
        ValueRef::Null => put(0, &[]),
        ValueRef::Integer(number) => put(1, &number.to_be_bytes()),
        ValueRef::Real(number) => put(2, &number.to_bits().to_be_bytes()),
        ValueRef::Text(text) => put(3, text),
        ValueRef::Blob(bytes) => put(4, bytes),
    }
}

fn end_row(hash: Sha256) -> [u64; 4] {
    let bytes: [u8; 32] = hash.finalize().into();
    let mut parts = [0; 4];
    for (part, word) in parts.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *part = u64::from_be_bytes(*word);
    }
    parts
}
