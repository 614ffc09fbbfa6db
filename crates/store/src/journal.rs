//! The journal: facts in and out of a store.
//!
//! An entry is JSON and stays small. A field that would make it large is moved to the content store
//! as it is, and a reference to its digest stands in its place; reading puts it back. Nothing here
//! looks at what a fact means.

use std::fmt;

use ftl_core::run::Entry;
use serde_json::Value as Json;

use crate::chain::DigestError;
use crate::{ContentDigest, Hash, MAX_ENTRY_BYTES, NewEntry, Store, StoreError, StoredEntry};
use ftl_folder::id::RunId;

/// The field that stands for something in the content store.
const REFERENCE: &str = "$content";

/// The same as it is written: a text that only a real field of that name can contain.
const REFERENCE_WRITTEN: &str = "\"$content\":";

/// In an entry that is too large, a field above this size is moved.
const MAX_FIELD_BYTES: usize = 1024;

/// How many entries are read at a time.
const PAGE: usize = 4096;

/// Why a journal could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The store did not do it.
    Store(StoreError),
    /// An entry is not what this program understands.
    Unreadable {
        /// The run whose journal cannot be read.
        run: RunId,
        /// The number of the first entry that cannot be read.
        seq: u64,
        /// What is wrong with that entry.
        message: String,
    },
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> JournalError {
        JournalError::Store(error)
    }
}

impl JournalError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            JournalError::Store(error) => error.hint(),
            JournalError::Unreadable { .. } => "run `ftl audit verify`; nothing was changed",
        }
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Store(error) => error.fmt(out),
            JournalError::Unreadable { run, seq, message } => {
                write!(out, "entry {seq} of run {run} cannot be read: {message}")
            }
        }
    }
}

impl std::error::Error for JournalError {}

/// Entries in the form in which a store keeps them.
#[derive(Debug, Default)]
pub struct Encoded {
    /// One line of JSON for each entry, in order.
    pub lines: Vec<NewEntry>,
    /// What they refer to.
    pub content: Vec<(ContentDigest, Vec<u8>)>,
}

/// Writes entries as lines, and moves what is large.
pub fn encode(entries: &[Entry]) -> Result<Encoded, StoreError> {
    let mut encoded = Encoded::default();
    for entry in entries {
        let failed = |error: serde_json::Error| StoreError::Corrupt(format!("an entry is no JSON: {error}"));
        let mut body = serde_json::to_string(entry).map_err(failed)?;
        if body.len() > MAX_ENTRY_BYTES || body.contains(REFERENCE_WRITTEN) {
            let whole = serde_json::to_value(entry).map_err(failed)?;
            body = serde_json::to_string(&moved(whole, &mut encoded.content)).map_err(failed)?;
        }
        encoded.lines.push(NewEntry { seq: entry.seq, body });
    }
    Ok(encoded)
}

/// The same entry with its large fields moved to the content store. What is moved is moved whole, so
/// that a reference never stands inside of another piece of content.
fn moved(entry: Json, content: &mut Vec<(ContentDigest, Vec<u8>)>) -> Json {
    let Json::Object(fields) = entry else { return entry };
    let moved = fields.into_iter().map(|(name, value)| {
        let written = value.to_string();
        if written.len() <= MAX_FIELD_BYTES && !written.contains(REFERENCE_WRITTEN) {
            return (name, value);
        }
        let digest = ContentDigest::of(written.as_bytes());
        let reference = serde_json::json!({ REFERENCE: digest.to_string(), "bytes": written.len() });
        content.push((digest, written.into_bytes()));
        (name, reference)
    });
    Json::Object(moved.collect())
}

/// Reads an entry, with what was moved put back.
pub fn decode(store: &dyn Store, run: &RunId, record: &StoredEntry) -> Result<Entry, JournalError> {
    let unreadable =
        |message: String| JournalError::Unreadable { run: run.clone(), seq: record.seq, message };
    let entry: Entry = if record.body.contains(REFERENCE_WRITTEN) {
        let whole = whole(store, &record.body)?.map_err(|error| unreadable(error.to_string()))?;
        serde_json::from_str(&whole).map_err(|error| unreadable(error.to_string()))?
    } else {
        serde_json::from_str(&record.body).map_err(|error| unreadable(error.to_string()))?
    };
    if entry.seq == record.seq {
        Ok(entry)
    } else {
        Err(unreadable(format!("it calls itself {}", entry.seq)))
    }
}

/// Why what was moved out of an entry cannot be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryError {
    /// The entry is no JSON.
    NotJson(String),
    /// What it refers to is no digest.
    Reference(DigestError),
    /// The content is not in the store.
    Gone(ContentDigest),
    /// The content is no JSON.
    Content {
        /// Its digest.
        digest: ContentDigest,
        /// What is wrong with it.
        message: String,
    },
}

impl fmt::Display for EntryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::NotJson(message) => out.write_str(message),
            EntryError::Reference(error) => error.fmt(out),
            EntryError::Gone(digest) => write!(out, "its content {digest} is gone"),
            EntryError::Content { digest, message } => write!(out, "its content {digest}: {message}"),
        }
    }
}

/// The text of an entry with what was moved put back; the inner error is about the text.
fn whole(store: &dyn Store, body: &str) -> Result<Result<String, EntryError>, StoreError> {
    fill(body, |digest| store.get(digest))
}

/// The same with content from anywhere.
pub(crate) fn fill<E>(
    body: &str,
    get: impl Fn(&ContentDigest) -> Result<Option<Vec<u8>>, E>,
) -> Result<Result<String, EntryError>, E> {
    let mut entry: Json = match serde_json::from_str(body) {
        Ok(entry) => entry,
        Err(error) => return Ok(Err(EntryError::NotJson(error.to_string()))),
    };
    for value in entry.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let Some(reference) = value.get(REFERENCE).and_then(Json::as_str) else { continue };
        let digest: ContentDigest = match reference.parse() {
            Ok(digest) => digest,
            Err(error) => return Ok(Err(EntryError::Reference(error))),
        };
        let Some(bytes) = get(&digest)? else {
            return Ok(Err(EntryError::Gone(digest)));
        };
        match serde_json::from_slice(&bytes) {
            Ok(back) => *value = back,
            Err(error) => return Ok(Err(EntryError::Content { digest, message: error.to_string() })),
        }
    }
    Ok(Ok(entry.to_string()))
}

/// The digests of the content that an entry as it is kept refers to.
pub fn references(body: &str) -> Vec<ContentDigest> {
    if !body.contains(REFERENCE_WRITTEN) {
        return Vec::new();
    }
    let entry: Json = serde_json::from_str(body).unwrap_or_default();
    let fields = entry.as_object().into_iter().flat_map(serde_json::Map::values);
    fields.filter_map(|value| value.get(REFERENCE)?.as_str()?.parse().ok()).collect()
}

/// All entries of a run, in order, and only if their chain is whole.
pub fn load(store: &dyn Store, run: &RunId) -> Result<Vec<Entry>, JournalError> {
    let mut entries = Vec::new();
    let mut hash = Hash::start(run);
    loop {
        let page = store.entries(run, entries.len() as u64, PAGE)?;
        for record in &page {
            let due = entries.len() as u64 + 1;
            hash = hash.then(record.seq, record.epoch, &record.body);
            if record.seq != due || record.hash != hash {
                let what = format!("the chain of run {run} breaks at entry {due}");
                return Err(JournalError::Store(StoreError::Corrupt(what)));
            }
            entries.push(decode(store, run, record)?);
        }
        if page.len() < PAGE {
            return Ok(entries);
        }
    }
}
