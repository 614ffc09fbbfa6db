//! What a writer is asked to do, and how it is done inside a transaction.
//!
//! Each of these looks first and writes then; what is refused has changed nothing. None of them
//! begins or ends a transaction.

use rusqlite::{Connection, OptionalExtension as _};

use super::read::{self, count, whole};
use crate::id::RunId;
use crate::store::{Append, Digest, Hash, Lease, NewRun, StoreError, limits};

/// Content is cut into pieces of this size, so that no row is larger.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Something to be written.
#[derive(Debug)]
pub(super) enum Write {
    Create(NewRun),
    Append(Lease, Append),
    Take { run: RunId, seen: u64, owner: String },
    Release(Lease),
    Put(Digest, Vec<u8>),
    Send { run: RunId, body: String },
}

/// Why something was not written.
#[derive(Debug)]
pub(super) enum Hindrance {
    /// It was refused; whoever else is in the transaction is not concerned.
    Refused(StoreError),
    /// The database failed.
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Hindrance {
    fn from(error: rusqlite::Error) -> Hindrance {
        Hindrance::Failed(error)
    }
}

impl From<StoreError> for Hindrance {
    fn from(error: StoreError) -> Hindrance {
        Hindrance::Refused(error)
    }
}

impl Write {
    /// How many bytes it brings.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Write::Create(new) => new.summary.len(),
            Write::Append(_, append) => limits::append_bytes(append),
            Write::Take { .. } | Write::Release(_) => 0,
            Write::Put(_, bytes) => bytes.len(),
            Write::Send { body, .. } => body.len(),
        }
    }

    /// Does it. The number is a new epoch, the number of a new command, or 0.
    pub(super) fn perform(&self, open: &Connection) -> Result<u64, Hindrance> {
        match self {
            Write::Create(new) => create(open, new),
            Write::Append(lease, added) => append(open, lease, added),
            Write::Take { run, seen, owner } => take(open, run, *seen, owner),
            Write::Release(lease) => release(open, lease),
            Write::Put(digest, bytes) => put(open, digest, bytes).map_err(Hindrance::from),
            Write::Send { run, body } => send(open, run, body),
        }
    }
}

/// What a writer must know of a run.
struct Standing {
    number: i64,
    head: u64,
    hash: Hash,
    epoch: u64,
    owner: Option<String>,
}

fn standing(open: &Connection, run: &RunId) -> Result<Standing, Hindrance> {
    let mut find =
        open.prepare_cached("SELECT number, head, hash, epoch, owner FROM runs WHERE name = ?1")?;
    let found = find.query_row([run.as_str()], |row| {
        Ok(Standing {
            number: row.get(0)?,
            head: count(row, 1)?,
            hash: Hash(row.get(2)?),
            epoch: count(row, 3)?,
            owner: row.get(4)?,
        })
    });
    found.optional()?.ok_or_else(|| StoreError::NoRun(run.clone()).into())
}

/// The run of a lease, if the lease still counts.
fn owned(open: &Connection, lease: &Lease) -> Result<Standing, Hindrance> {
    let found = standing(open, &lease.run)?;
    if found.epoch == lease.epoch && found.owner.as_ref() == Some(&lease.owner) {
        Ok(found)
    } else {
        Err(StoreError::Fenced { run: lease.run.clone(), epoch: found.epoch }.into())
    }
}

fn create(open: &Connection, new: &NewRun) -> Result<u64, Hindrance> {
    if read::number(open, &new.run)?.is_some() {
        return Err(StoreError::Exists(new.run.clone()).into());
    }
    let mut add = open.prepare_cached(
        "INSERT INTO runs (name, opened, changed, head, hash, epoch, owner, settled, summary)
         VALUES (?1, ?2, ?2, 0, ?3, 1, ?4, 0, ?5)",
    )?;
    let start = Hash::start(&new.run);
    add.execute((new.run.as_str(), whole(new.at), &start.0, &new.owner, &new.summary))?;
    Ok(1)
}

fn append(open: &Connection, lease: &Lease, append: &Append) -> Result<u64, Hindrance> {
    let found = owned(open, lease)?;
    check_order(&found, append)?;
    if let Some((command, _)) = &append.answered {
        check_unanswered(open, found.number, *command)?;
    }
    for (digest, bytes) in &append.content {
        put(open, digest, bytes)?;
    }
    let hash = add_lines(open, &found, append)?;
    let mut note = open.prepare_cached(
        "UPDATE runs SET head = ?2, hash = ?3, changed = ?4,
         summary = coalesce(?5, summary), settled = coalesce(?6, settled) WHERE number = ?1",
    )?;
    let head = whole(found.head + append.lines.len() as u64);
    note.execute((found.number, head, &hash.0, whole(append.at), &append.summary, append.settled))?;
    if let Some((command, reply)) = &append.answered {
        let mut answer = open.prepare_cached("UPDATE commands SET reply = ?2 WHERE id = ?1")?;
        answer.execute((whole(*command), reply))?;
    }
    Ok(0)
}

fn check_order(found: &Standing, append: &Append) -> Result<(), StoreError> {
    for (due, line) in (found.head + 1..).zip(&append.lines) {
        if line.seq != due {
            return Err(StoreError::Gap { due, came: line.seq });
        }
    }
    Ok(())
}

fn check_unanswered(open: &Connection, run: i64, command: u64) -> Result<(), Hindrance> {
    let mut find =
        open.prepare_cached("SELECT reply IS NOT NULL FROM commands WHERE id = ?1 AND run = ?2")?;
    match find.query_row((whole(command), run), |row| row.get(0)).optional()? {
        Some(false) => Ok(()),
        Some(true) => Err(StoreError::Answered(command).into()),
        None => Err(StoreError::NoCommand(command).into()),
    }
}

/// Adds entries to the chain; the hash of the last one.
fn add_lines(open: &Connection, found: &Standing, append: &Append) -> rusqlite::Result<Hash> {
    let mut add =
        open.prepare_cached("INSERT INTO entries (run, seq, epoch, body, hash) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut hash = found.hash;
    for line in &append.lines {
        hash = hash.then(line.seq, found.epoch, &line.body);
        add.execute((found.number, whole(line.seq), whole(found.epoch), &line.body, &hash.0))?;
    }
    Ok(hash)
}

fn take(open: &Connection, run: &RunId, seen: u64, owner: &str) -> Result<u64, Hindrance> {
    let found = standing(open, run)?;
    if found.epoch != seen {
        return Err(StoreError::Fenced { run: run.clone(), epoch: found.epoch }.into());
    }
    let epoch = found.epoch + 1;
    let mut note = open.prepare_cached("UPDATE runs SET epoch = ?2, owner = ?3 WHERE number = ?1")?;
    note.execute((found.number, whole(epoch), owner))?;
    Ok(epoch)
}

fn release(open: &Connection, lease: &Lease) -> Result<u64, Hindrance> {
    let found = owned(open, lease)?;
    open.prepare_cached("UPDATE runs SET owner = NULL WHERE number = ?1")?.execute([found.number])?;
    Ok(0)
}

fn put(open: &Connection, digest: &Digest, bytes: &[u8]) -> rusqlite::Result<u64> {
    if read::content(open, digest)?.is_some() {
        return Ok(0);
    }
    let (first, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES));
    let mut add = open.prepare_cached("INSERT INTO content (digest, size, bytes) VALUES (?1, ?2, ?3)")?;
    let content = add.insert((&digest.0, whole(bytes.len() as u64), first))?;
    let mut add = open.prepare_cached("INSERT INTO chunks (content, part, bytes) VALUES (?1, ?2, ?3)")?;
    for (part, chunk) in (1_i64..).zip(rest.chunks(CHUNK_BYTES)) {
        add.execute((content, part, chunk))?;
    }
    Ok(0)
}

fn send(open: &Connection, run: &RunId, body: &str) -> Result<u64, Hindrance> {
    let found = read::number(open, run)?.ok_or_else(|| StoreError::NoRun(run.clone()))?;
    let mut add = open.prepare_cached("INSERT INTO commands (run, body) VALUES (?1, ?2)")?;
    let id = add.insert((found, body))?;
    u64::try_from(id).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, id).into())
}
