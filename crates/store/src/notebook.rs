//! The notebook: texts under a kind and a key, changed many at once or not at all.
//!
//! What the FTL protocol's own commands keep stands here: the campaign, its archive, the exploration,
//! the phase, the workspaces. A notebook understands nothing of it. A command that changes notes reads
//! inside of the change what it builds upon, so that no other process's update is ever lost.

use super::StoreError;

/// How large one note may be.
pub const MAX_NOTE_BYTES: usize = 64 * 1024 * 1024;

/// How long a kind or a key may be.
pub const MAX_NOTE_NAME_BYTES: usize = 1024;

/// A place that keeps notes. Like every store it acknowledges nothing that a power cut could take
/// away, and no request fails because another process is writing.
pub trait Notebook: Send + Sync {
    /// The note of a kind and a key.
    fn note(&self, kind: &str, key: &str) -> Result<Option<String>, StoreError>;

    /// All notes of a kind with their keys, in the order of the keys.
    fn notes(&self, kind: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// The keys of a kind, in order.
    fn keys(&self, kind: &str) -> Result<Vec<String>, StoreError>;

    /// The keys of a kind that begin so, in order.
    fn keys_from(&self, kind: &str, prefix: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.keys(kind)?.into_iter().filter(|key| key.starts_with(prefix)).collect())
    }

    /// Changes notes. No other thread or process changes any between what the work reads and what it writes. What it
    /// wrote is kept if it says so, and dropped if it does not or fails. It must be quick, and must not
    /// ask the notebook in any other way than through what it is given.
    fn amend(&self, work: &mut NoteChange<'_>) -> Result<(), StoreError>;
}

/// The work on the notes while no other thread or process changes them; whether it is to be kept.
pub type NoteChange<'a> = dyn FnMut(&mut dyn Notes) -> Result<bool, StoreError> + 'a;

/// The notes while they are being changed.
pub trait Notes {
    /// The note of a kind and a key, as it is in the middle of the change.
    fn get(&mut self, kind: &str, key: &str) -> Result<Option<String>, StoreError>;

    /// All notes of a kind with their keys, in the order of the keys.
    fn all(&mut self, kind: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// The keys of a kind, in order.
    fn keys(&mut self, kind: &str) -> Result<Vec<String>, StoreError>;

    /// Puts a note in the place of the one before.
    fn put(&mut self, kind: &str, key: &str, body: &str) -> Result<(), StoreError>;

    /// Removes a note, if it is there.
    fn remove(&mut self, kind: &str, key: &str) -> Result<(), StoreError>;
}

/// Whether a note may be kept.
pub(super) fn check(kind: &str, key: &str, body: &str) -> Result<(), StoreError> {
    let name = kind.len().max(key.len());
    if name > MAX_NOTE_NAME_BYTES {
        let (what, most) = ("the name of the note", MAX_NOTE_NAME_BYTES);
        return Err(StoreError::TooLarge { what, bytes: name, most });
    }
    if body.len() > MAX_NOTE_BYTES {
        return Err(StoreError::TooLarge { what: "the note", bytes: body.len(), most: MAX_NOTE_BYTES });
    }
    Ok(())
}
