//! What a writer is asked to do, and how it is done inside a transaction.
//!
//! Everything is done in two steps: `look` may refuse and changes nothing, what it returns is then
//! carried out and cannot refuse any more. So a request that is refused leaves no trace in a transaction that
//! others share. None of them begins or ends a transaction.

use rusqlite::{Connection, OptionalExtension as _};

use super::read::{self, count, whole};
use crate::{Append, ContentDigest, Hash, Lease, NewRun, StoreError, limits};
use ftl_folder::id::RunId;

/// Content is cut into pieces of this size, so that no row is larger.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Something to be written.
#[derive(Debug)]
pub(super) enum Write {
    Create(NewRun),
    Append(Lease, Append),
    /// The new epoch is `least` at least.
    Take {
        run: RunId,
        seen: u64,
        owner: String,
        least: u64,
    },
    Release(Lease),
    Put(ContentDigest, Vec<u8>),
    Send {
        run: RunId,
        body: String,
    },
}

/// Something that was looked at and can be carried out.
#[derive(Debug)]
pub(super) enum Ready<'a> {
    Create(&'a NewRun),
    Append(Standing, &'a Append),
    Take { run: i64, epoch: u64, owner: &'a str },
    Release { run: i64 },
    Put(&'a ContentDigest, &'a [u8]),
    Send { run: i64, body: &'a str },
}

/// Refused, or ready to be carried out.
type Looked<'a> = Result<Ready<'a>, StoreError>;

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

    /// Whether a run changes hands by it.
    pub(super) fn changes_lease(&self) -> bool {
        match self {
            Write::Create(_) | Write::Take { .. } | Write::Release(_) => true,
            Write::Append(..) | Write::Put(..) | Write::Send { .. } => false,
        }
    }

    /// Looks whether it may be done. The outer error is the database's.
    pub(super) fn look(&self, open: &Connection) -> rusqlite::Result<Looked<'_>> {
        match self {
            Write::Create(new) => look_create(open, new),
            Write::Append(lease, append) => look_append(open, lease, append),
            Write::Take { run, seen, owner, least } => {
                let next = |epoch: u64| (epoch + 1).max(*least);
                Ok(look_take(open, run, *seen)?.map(|found| Ready::Take {
                    run: found.number,
                    epoch: next(found.epoch),
                    owner,
                }))
            }
            Write::Release(lease) => {
                let found = owned(open, lease)?;
                Ok(found.map(|found| Ready::Release { run: found.number }))
            }
            Write::Put(digest, bytes) => Ok(Ok(Ready::Put(digest, bytes))),
            Write::Send { run, body } => {
                let found = read::number(open, run)?.ok_or_else(|| StoreError::NoRun(run.clone()));
                Ok(found.map(|run| Ready::Send { run, body }))
            }
        }
    }
}

impl Ready<'_> {
    /// Does it. The number is a new epoch, the number of a new command, or 0.
    pub(super) fn carry_out(&self, open: &Connection) -> rusqlite::Result<u64> {
        match self {
            Ready::Create(new) => create(open, new),
            Ready::Append(found, added) => append(open, found, added),
            Ready::Take { run, epoch, owner } => take(open, *run, *epoch, owner),
            Ready::Release { run } => release(open, *run),
            Ready::Put(digest, bytes) => put(open, digest, bytes),
            Ready::Send { run, body } => send(open, *run, body),
        }
    }
}

/// What a writer must know of a run.
#[derive(Debug)]
pub(super) struct Standing {
    number: i64,
    head: u64,
    hash: Hash,
    epoch: u64,
    owner: Option<String>,
}

fn standing(open: &Connection, run: &RunId) -> rusqlite::Result<Result<Standing, StoreError>> {
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
    Ok(found.optional()?.ok_or_else(|| StoreError::NoRun(run.clone())))
}

/// The run of a lease, if the lease still counts.
fn owned(open: &Connection, lease: &Lease) -> rusqlite::Result<Result<Standing, StoreError>> {
    let counts = |found: &Standing| found.epoch == lease.epoch && found.owner.as_ref() == Some(&lease.owner);
    Ok(standing(open, &lease.run)?.and_then(|found| {
        let fenced = StoreError::Fenced { run: lease.run.clone(), epoch: found.epoch };
        if counts(&found) { Ok(found) } else { Err(fenced) }
    }))
}

fn look_create<'a>(open: &Connection, new: &'a NewRun) -> rusqlite::Result<Looked<'a>> {
    let taken = read::number(open, &new.run)?.is_some();
    Ok(if taken { Err(StoreError::Exists(new.run.clone())) } else { Ok(Ready::Create(new)) })
}

fn look_append<'a>(open: &Connection, lease: &Lease, append: &'a Append) -> rusqlite::Result<Looked<'a>> {
    let found = match owned(open, lease)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let ordered = check_order(&found, append);
    let answerable = match &append.answered {
        Some((command, _)) => check_unanswered(open, found.number, *command)?,
        None => Ok(()),
    };
    Ok(ordered.and(answerable).map(|()| Ready::Append(found, append)))
}

fn check_order(found: &Standing, append: &Append) -> Result<(), StoreError> {
    for (due, line) in (found.head + 1..).zip(&append.lines) {
        if line.seq != due {
            return Err(StoreError::Gap { due, came: line.seq });
        }
    }
    Ok(())
}

fn check_unanswered(open: &Connection, run: i64, command: u64) -> rusqlite::Result<Result<(), StoreError>> {
    let mut find =
        open.prepare_cached("SELECT reply IS NOT NULL FROM commands WHERE id = ?1 AND run = ?2")?;
    Ok(match find.query_row((whole(command), run), |row| row.get(0)).optional()? {
        Some(false) => Ok(()),
        Some(true) => Err(StoreError::Answered(command)),
        None => Err(StoreError::NoCommand(command)),
    })
}

/// The run, if its epoch is the one that was seen.
fn look_take(open: &Connection, run: &RunId, seen: u64) -> rusqlite::Result<Result<Standing, StoreError>> {
    Ok(standing(open, run)?.and_then(|found| match found.epoch {
        epoch if epoch == seen => Ok(found),
        epoch => Err(StoreError::Fenced { run: run.clone(), epoch }),
    }))
}

fn create(open: &Connection, new: &NewRun) -> rusqlite::Result<u64> {
    let mut add = open.prepare_cached(
        "INSERT INTO runs (name, opened, changed, head, hash, epoch, owner, settled, summary)
         VALUES (?1, ?2, ?2, 0, ?3, 1, ?4, 0, ?5)",
    )?;
    let start = Hash::start(&new.run);
    add.execute((new.run.as_str(), whole(new.at), &start.0, &new.owner, &new.summary))?;
    Ok(1)
}

fn append(open: &Connection, found: &Standing, append: &Append) -> rusqlite::Result<u64> {
    for (digest, bytes) in &append.content {
        put(open, digest, bytes)?;
    }
    let hash = add_lines(open, found, append)?;
    let head = whole(found.head + append.lines.len() as u64);
    let mut note = open.prepare_cached(
        "UPDATE runs SET head = ?2, hash = ?3, changed = ?4,
         summary = coalesce(?5, summary), settled = coalesce(?6, settled) WHERE number = ?1",
    )?;
    note.execute((found.number, head, &hash.0, whole(append.at), &append.summary, append.settled))?;
    if let Some((command, reply)) = &append.answered {
        let mut answer = open.prepare_cached("UPDATE commands SET reply = ?2 WHERE id = ?1")?;
        answer.execute((whole(*command), reply))?;
    }
    Ok(0)
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

fn take(open: &Connection, run: i64, epoch: u64, owner: &str) -> rusqlite::Result<u64> {
    let mut note = open.prepare_cached("UPDATE runs SET epoch = ?2, owner = ?3 WHERE number = ?1")?;
    note.execute((run, whole(epoch), owner))?;
    Ok(epoch)
}

fn release(open: &Connection, run: i64) -> rusqlite::Result<u64> {
    open.prepare_cached("UPDATE runs SET owner = NULL WHERE number = ?1")?.execute([run])?;
    Ok(0)
}

fn put(open: &Connection, digest: &ContentDigest, bytes: &[u8]) -> rusqlite::Result<u64> {
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

fn send(open: &Connection, run: i64, body: &str) -> rusqlite::Result<u64> {
    let mut add = open.prepare_cached("INSERT INTO commands (run, body) VALUES (?1, ?2)")?;
    let id = add.insert((run, body))?;
    u64::try_from(id).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, id))
}
