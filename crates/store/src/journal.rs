//! The journal: facts in and out of a store.
//!
//! An entry is JSON and stays small. A field that would make it large is moved to the content store
//! as it is, and a reference to its digest stands in its place; reading puts it back. Nothing here
//! looks at what a fact means.

use std::borrow::Cow;
use std::fmt;

use ftl_core::run::Entry;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::chain::DigestError;
use crate::entry;
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
    /// The contents that the entries refer to by digest.
    pub content: Vec<(ContentDigest, Vec<u8>)>,
}

/// Writes entries as lines, and moves what is large.
pub fn encode(entries: &[Entry]) -> Result<Encoded, StoreError> {
    let mut encoded = Encoded::default();
    for entry in entries {
        let failed = |error: serde_json::Error| StoreError::Corrupt(format!("an entry is no JSON: {error}"));
        let mut body = serde_json::to_string(entry).map_err(failed)?;
        if body.len() > MAX_ENTRY_BYTES || body.contains(REFERENCE_WRITTEN) {
            body = moved(&body, &mut encoded.content).map_err(failed)?;
        }
        encoded.lines.push(NewEntry { seq: entry.seq, body });
    }
    Ok(encoded)
}

/// The fields of an entry in their order, each as its text: a large one never becomes a tree.
struct Texts<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Texts<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Texts<'de>, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Texts<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Texts<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = from.next_entry()? {
                    fields.push(field);
                }
                Ok(Texts(fields))
            }
        }
        from.deserialize_map(Object)
    }
}

/// An object out of the texts of its fields.
fn object(fields: &[(String, Cow<'_, str>)]) -> Result<String, serde_json::Error> {
    let bytes = fields.iter().map(|(name, text)| name.len() + text.len() + 4).sum::<usize>();
    let mut object = String::with_capacity(bytes + 2);
    object.push('{');
    for (at, (name, text)) in fields.iter().enumerate() {
        if at > 0 {
            object.push(',');
        }
        object.push_str(&serde_json::to_string(name)?);
        object.push(':');
        object.push_str(text);
    }
    object.push('}');
    Ok(object)
}

/// The same entry with its large fields moved to the content store. What is moved is moved whole, so
/// that a reference never stands inside of another piece of content.
fn moved(body: &str, content: &mut Vec<(ContentDigest, Vec<u8>)>) -> Result<String, serde_json::Error> {
    let Texts(fields) = serde_json::from_str(body)?;
    let fields: Vec<(String, Cow<'_, str>)> = fields
        .into_iter()
        .map(|(name, value)| {
            let written = value.get();
            if written.len() <= MAX_FIELD_BYTES && !written.contains(REFERENCE_WRITTEN) {
                return (name, Cow::Borrowed(written));
            }
            let digest = ContentDigest::of(written.as_bytes());
            let reference = serde_json::json!({ REFERENCE: digest.to_string(), "bytes": written.len() });
            content.push((digest, written.as_bytes().to_owned()));
            (name, Cow::Owned(reference.to_string()))
        })
        .collect();
    object(&fields)
}

/// Reads an entry, with what was moved put back.
pub fn decode(store: &dyn Store, run: &RunId, record: &StoredEntry) -> Result<Entry, JournalError> {
    let unreadable =
        |message: String| JournalError::Unreadable { run: run.clone(), seq: record.seq, message };
    let entry: Entry = if record.body.contains(REFERENCE_WRITTEN) {
        let whole = whole(store, &record.body)?.map_err(|error| unreadable(error.to_string()))?;
        entry::read(&whole).map_err(|error| unreadable(error.to_string()))?
    } else {
        entry::read(&record.body).map_err(|error| unreadable(error.to_string()))?
    };
    if entry.seq == record.seq {
        Ok(entry)
    } else {
        Err(unreadable(format!("it calls itself {}", entry.seq)))
    }
}

/// Why what was moved out of an entry cannot be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// The entry is no JSON.
    NotJson(String),
    /// What it refers to is no digest.
    Reference(DigestError),
    /// The content is not in the store.
    Gone(ContentDigest),
    /// The content is no JSON.
    Content {
        /// The digest of the content.
        digest: ContentDigest,
        /// The fault, in words.
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
pub fn whole(store: &dyn Store, body: &str) -> Result<Result<String, EntryError>, StoreError> {
    fill(body, |digest| store.get(digest))
}

/// The same with content from anywhere.
pub(crate) fn fill<E>(
    body: &str,
    get: impl Fn(&ContentDigest) -> Result<Option<Vec<u8>>, E>,
) -> Result<Result<String, EntryError>, E> {
    let Texts(fields) = match serde_json::from_str(body) {
        Ok(fields) => fields,
        Err(error) => return Ok(Err(EntryError::NotJson(error.to_string()))),
    };
    let mut filled = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let text = match reference(value.get()) {
            None => Cow::Borrowed(value.get()),
            Some(reference) => match reference.parse() {
                Ok(digest) => match get(&digest)?.map(|bytes| content_text(&digest, bytes)) {
                    Some(Ok(text)) => Cow::Owned(text),
                    Some(Err(error)) => return Ok(Err(error)),
                    None => return Ok(Err(EntryError::Gone(digest))),
                },
                Err(error) => return Ok(Err(EntryError::Reference(error))),
            },
        };
        filled.push((name, text));
    }
    Ok(object(&filled).map_err(|error| EntryError::NotJson(error.to_string())))
}

/// The digest that stands for a field, if it was moved.
fn reference(text: &str) -> Option<String> {
    if !text.contains(REFERENCE_WRITTEN) {
        return None;
    }
    let value: Json = serde_json::from_str(text).ok()?;
    value.get(REFERENCE)?.as_str().map(str::to_owned)
}

/// What was moved, as the text of a field.
fn content_text(digest: &ContentDigest, bytes: Vec<u8>) -> Result<String, EntryError> {
    let failed =
        |error: &dyn fmt::Display| EntryError::Content { digest: *digest, message: error.to_string() };
    let text = String::from_utf8(bytes).map_err(|error| failed(&error))?;
    serde_json::from_str::<&RawValue>(&text).map_err(|error| failed(&error))?;
    Ok(text)
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
