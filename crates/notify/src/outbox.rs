//! Notices in the store: what is still to be sent, by which ways, and how far a journal was looked through.
//!
//! A notice and the mark of its journal are written in one change, so each notice is put in once. It goes when every way has sent
//! it, or will never.

use std::collections::BTreeMap;
use std::time::Duration;

use ftl_core::run::Time;
use ftl_store::StoreError;
use ftl_store::notebook::{Notebook, Notes};
use ftl_view::notices::Notice;
use serde::{Deserialize, Serialize};

use crate::options::Way;

/// The kind of notes that hold what is to be sent.
const KIND: &str = "notice";

/// The kind of notes that hold how far a journal was looked through.
const MARK: &str = "notice_mark";

/// How many notices wait at most; when one more comes, the oldest goes.
pub const MAX_OUTBOX: usize = 500;

/// How often a way is tried.
pub const MAX_TRIES: u32 = 8;

/// How long one that sends has it to itself.
const CLAIM: Duration = Duration::from_secs(30);

/// The first wait after a way has failed; it doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(15);

/// A notice on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) notice: Notice,
    /// The ways that have not sent it, by their words.
    left: BTreeMap<String, Attempts>,
}

/// What became of it so far by one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Attempts {
    /// How often it was tried.
    tries: u32,
    /// Nobody sends it before.
    not_before: Time,
}

/// Puts notices in, and remembers that a journal was looked through up to an entry.
pub(crate) fn put(
    notes: &dyn Notebook,
    run: &str,
    upto: u64,
    all: &[Notice],
    ways: &[Way],
) -> Result<(), StoreError> {
    notes.amend(&mut |notes| {
        for notice in all {
            let left = ways.iter().map(|way| (way.word().to_owned(), Attempts::default())).collect();
            write(notes, &Pending { notice: notice.clone(), left })?;
        }
        let keys = notes.keys(KIND)?;
        for key in keys.iter().take(keys.len().saturating_sub(MAX_OUTBOX)) {
            notes.remove(KIND, key)?;
        }
        notes.put(MARK, run, &upto.to_string())?;
        Ok(true)
    })
}

/// Up to which entry the journal of a run was looked through.
pub(crate) fn mark(notes: &dyn Notebook, run: &str) -> Result<Option<u64>, StoreError> {
    Ok(notes.note(MARK, run)?.and_then(|text| text.parse().ok()))
}

/// A run has ended and all of it is told: its mark goes.
pub(crate) fn forget(notes: &dyn Notebook, run: &str) -> Result<(), StoreError> {
    notes.amend(&mut |notes| {
        notes.remove(MARK, run)?;
        Ok(true)
    })
}

/// Whether anything is still to be sent by a way.
pub(crate) fn is_waiting(notes: &dyn Notebook, way: Way) -> Result<bool, StoreError> {
    Ok(notes
        .notes(KIND)?
        .iter()
        .any(|(_, body)| read(body).is_some_and(|one| one.left.contains_key(way.word()))))
}

/// Takes what is to be sent by a way now: nobody else sends it for a while.
pub(crate) fn claim(notes: &dyn Notebook, way: Way, now: Time) -> Result<Vec<Notice>, StoreError> {
    let mut claimed = Vec::new();
    notes.amend(&mut |notes| {
        claimed.clear();
        for (_, body) in notes.all(KIND)? {
            let Some(mut one) = read(&body) else { continue };
            let Some(left) = one.left.get_mut(way.word()).filter(|left| left.not_before <= now) else {
                continue;
            };
            left.not_before = now + millis(CLAIM);
            write(notes, &one)?;
            claimed.push(one.notice);
        }
        Ok(!claimed.is_empty())
    })?;
    Ok(claimed)
}

/// What became of what was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    /// The way has sent it, or never will.
    Over,
    /// It is tried again.
    Failed,
}

/// Writes down what became of what was taken by a way.
pub(crate) fn settle(
    notes: &dyn Notebook,
    way: Way,
    all: &[Notice],
    became: Became,
    now: Time,
) -> Result<(), StoreError> {
    notes.amend(&mut |notes| {
        for notice in all {
            let Some(mut one) = notes.get(KIND, &notice.key())?.and_then(|body| read(&body)) else {
                continue;
            };
            let left = one.left.get_mut(way.word()).filter(|_| became == Became::Failed);
            let is_over = left.is_none_or(|left| {
                left.tries += 1;
                left.not_before = now + millis(FIRST_WAIT) * (1 << left.tries.min(8));
                left.tries >= MAX_TRIES
            });
            if is_over {
                one.left.remove(way.word());
            }
            if one.left.is_empty() {
                notes.remove(KIND, &notice.key())?;
            } else {
                write(notes, &one)?;
            }
        }
        Ok(true)
    })
}

fn write(notes: &mut dyn Notes, one: &Pending) -> Result<(), StoreError> {
    let body = serde_json::to_string(one).unwrap_or_default();
    notes.put(KIND, &one.notice.key(), &body)
}

/// A note of a newer program tells this one nothing.
fn read(body: &str) -> Option<Pending> {
    serde_json::from_str(body).ok()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use ftl_store::MemoryStore;
    use ftl_view::notices::NoticeKind;

    use super::*;
    use crate::message::tests::notice;

    fn landed(entry: u64) -> Notice {
        notice(NoticeKind::Landed, entry, "task 001 landed")
    }

    #[test]
    fn a_notice_goes_when_every_way_has_sent_it() {
        let notes = MemoryStore::default();
        put(&notes, "r", 9, &[landed(3)], &[Way::Command, Way::Ntfy]).unwrap();
        assert_eq!(mark(&notes, "r").unwrap(), Some(9));
        let taken = claim(&notes, Way::Command, 100).unwrap();
        assert_eq!(taken, [landed(3)]);
        assert_eq!(claim(&notes, Way::Command, 101).unwrap(), [], "somebody sends it already");
        settle(&notes, Way::Command, &taken, Became::Over, 102).unwrap();
        assert!(!is_waiting(&notes, Way::Command).unwrap() && is_waiting(&notes, Way::Ntfy).unwrap());
        let taken = claim(&notes, Way::Ntfy, 103).unwrap();
        settle(&notes, Way::Ntfy, &taken, Became::Over, 104).unwrap();
        assert_eq!(notes.keys(KIND).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn one_that_died_while_it_sent_keeps_nobody_from_sending_for_long() {
        let notes = MemoryStore::default();
        put(&notes, "r", 9, &[landed(3)], &[Way::Ntfy]).unwrap();
        assert_eq!(claim(&notes, Way::Ntfy, 100).unwrap().len(), 1);
        assert_eq!(claim(&notes, Way::Ntfy, 100 + millis(CLAIM)).unwrap().len(), 1);
    }

    #[test]
    fn what_fails_is_tried_later_and_so_often() {
        let notes = MemoryStore::default();
        put(&notes, "r", 9, &[landed(3)], &[Way::Ntfy]).unwrap();
        let mut now = 0;
        for _ in 0..MAX_TRIES {
            let taken = claim(&notes, Way::Ntfy, now).unwrap();
            assert_eq!(taken.len(), 1, "at {now}");
            settle(&notes, Way::Ntfy, &taken, Became::Failed, now).unwrap();
            assert_eq!(claim(&notes, Way::Ntfy, now + 1).unwrap(), [], "not at once");
            now += millis(FIRST_WAIT) * 512;
        }
        assert!(!is_waiting(&notes, Way::Ntfy).unwrap());
    }

    #[test]
    fn so_many_wait_and_the_oldest_goes() {
        let notes = MemoryStore::default();
        let all: Vec<Notice> = (0..MAX_OUTBOX as u64 + 7).map(landed).collect();
        put(&notes, "r", 9, &all, &[Way::Ntfy]).unwrap();
        let taken = claim(&notes, Way::Ntfy, 1).unwrap();
        assert_eq!((taken.len(), taken[0].entry), (MAX_OUTBOX, 7));
    }
}
