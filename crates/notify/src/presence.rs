//! Whether a person looks at a face right now: then no message is sent.

use std::time::Duration;

use ftl_core::run::Time;
use ftl_store::StoreError;
use ftl_store::notebook::Notebook;

/// The kind and the key of the note.
const NOTE: (&str, &str) = ("looks", "person");

/// How long a look counts. Faces say again that somebody looks before it is over.
pub const LOOKS: Duration = Duration::from_secs(90);

/// How often a face says it.
pub const AGAIN: Duration = Duration::from_secs(45);

/// A person looks at a face.
pub fn look(notes: &dyn Notebook, now: Time) -> Result<(), StoreError> {
    notes.amend(&mut |notes| {
        notes.put(NOTE.0, NOTE.1, &now.to_string())?;
        Ok(true)
    })
}

/// Whether a person has looked at a face just now.
pub(crate) fn looks(notes: &dyn Notebook, now: Time) -> bool {
    let last = notes.note(NOTE.0, NOTE.1).ok().flatten().and_then(|text| text.parse::<Time>().ok());
    let since = u128::from(now.saturating_sub(last.unwrap_or(0)));
    last.is_some() && since < LOOKS.as_millis()
}

#[cfg(test)]
mod tests {
    use ftl_store::MemoryStore;

    use super::*;

    #[test]
    fn a_look_counts_for_a_while() {
        let notes = MemoryStore::default();
        assert!(!looks(&notes, 1_000_000), "nobody has looked yet");
        look(&notes, 1_000_000).unwrap();
        assert!(looks(&notes, 1_000_000) && looks(&notes, 1_089_999));
        assert!(!looks(&notes, 1_090_000));
    }
}
