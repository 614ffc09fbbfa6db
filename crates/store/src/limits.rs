//! Limits of what a store takes, looked at before anything is written.
//!
//! Both stores ask here, so that none of them takes what the other refuses.

use std::io::{ErrorKind, Read};

use super::{Append, ContentDigest, NewRun, StoreError};

/// How large the body of an entry may be; what is larger goes into the content store.
pub const MAX_ENTRY_BYTES: usize = 16 * 1024;

/// How large one piece of content may be.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024 * 1024;

/// How large the body or the reply of a command may be.
pub const MAX_COMMAND_BYTES: usize = 1024 * 1024;

/// How large the summary of a run may be.
pub const MAX_SUMMARY_BYTES: usize = 256 * 1024;

/// How long the name of an owner may be.
pub const MAX_OWNER_BYTES: usize = 1024;

/// How large an append may be with all its entries and content.
pub const MAX_APPEND_BYTES: usize = 128 * 1024 * 1024;

pub(super) fn check_new(new: &NewRun) -> Result<(), StoreError> {
    check_owner(&new.owner)?;
    check("the summary", new.summary.len(), MAX_SUMMARY_BYTES)
}

pub(super) fn check_owner(owner: &str) -> Result<(), StoreError> {
    check("the owner's name", owner.len(), MAX_OWNER_BYTES)
}

pub(super) fn check_content(bytes: &[u8]) -> Result<(), StoreError> {
    check("the content", bytes.len(), MAX_CONTENT_BYTES)
}

pub(super) fn check_command(body: &str) -> Result<(), StoreError> {
    check("the command", body.len(), MAX_COMMAND_BYTES)
}

/// Sizes first: they cost nothing, digests do.
pub(super) fn check_append(append: &Append) -> Result<(), StoreError> {
    for line in &append.lines {
        check("the entry", line.body.len(), MAX_ENTRY_BYTES)?;
    }
    for (_, bytes) in &append.content {
        check_content(bytes)?;
    }
    check("the append", append_bytes(append), MAX_APPEND_BYTES)?;
    check("the summary", append.summary.as_ref().map_or(0, String::len), MAX_SUMMARY_BYTES)?;
    check("the reply", append.answered.as_ref().map_or(0, |(_, reply)| reply.len()), MAX_COMMAND_BYTES)?;
    append.content.iter().try_for_each(|(digest, bytes)| check_digest(digest, bytes))
}

/// The size of an append in bytes.
pub(super) fn append_bytes(append: &Append) -> usize {
    let lines = append.lines.iter().map(|line| line.body.len());
    let content = append.content.iter().map(|(_, bytes)| bytes.len());
    lines.chain(content).fold(0, usize::saturating_add)
}

/// Reads as much as a piece of content may have.
pub(super) fn read_all(from: &mut dyn Read) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let most = MAX_CONTENT_BYTES as u64 + 1;
    match from.take(most).read_to_end(&mut bytes) {
        Ok(_) => check_content(&bytes).map(|()| bytes),
        Err(error) if error.kind() == ErrorKind::StorageFull => Err(StoreError::Full(error.to_string())),
        Err(error) => Err(StoreError::Failed(format!("cannot read what is to be kept: {error}"))),
    }
}

fn check_digest(digest: &ContentDigest, bytes: &[u8]) -> Result<(), StoreError> {
    if ContentDigest::of(bytes) == *digest {
        Ok(())
    } else {
        Err(StoreError::Corrupt(format!("what came as content {digest} has another digest")))
    }
}

fn check(what: &'static str, bytes: usize, most: usize) -> Result<(), StoreError> {
    if bytes > most { Err(StoreError::TooLarge { what, bytes, most }) } else { Ok(()) }
}
