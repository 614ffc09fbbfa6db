//! What changed, for followers: one thread looks at the store, and every follower gets the deltas of what it follows.
//!
//! A follower that does not read has a queue of a fixed length. When it is full, everything else is left out until there is
//! room again, and then it is told to read anew: nothing is left out in silence.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use ftl_folder::id::RunId;

/// How many deltas wait for a follower that does not read.
pub(crate) const MAX_QUEUED: usize = 256;

/// How many follow at the same time.
pub(crate) const MAX_FOLLOWERS: usize = 48;

/// How often the store is looked at while there is a follower.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// How often a stream says that it lives.
pub(crate) const BEAT: Duration = Duration::from_secs(15);

/// The followers of the server's event streams.
#[derive(Default)]
pub(crate) struct Hub {
    followers: Mutex<Vec<Follower>>,
    came: Condvar,
}

struct Follower {
    run: Option<RunId>,
    queue: Sender<Bytes>,
    /// Whether something was left out since it was last told.
    missed: bool,
    beat: Instant,
    /// The rows of its run as it was last sent, by seq.
    rows: BTreeMap<String, Json>,
    /// Whether it was sent the rows of its run.
    is_told: bool,
}

impl Hub {
    /// A new follower of everything, or of one run too; nothing when there are too many.
    pub(crate) fn follow(&self, run: Option<RunId>) -> Option<Receiver<Bytes>> {
        let mut followers = self.lock();
        followers.retain(|one| !one.queue.is_closed());
        if followers.len() >= MAX_FOLLOWERS {
            return None;
        }
        let (queue, pieces) = channel(MAX_QUEUED);
        let hello = Bytes::from_static(b"retry: 1000\n\n");
        let _ = queue.try_send(hello);
        let (rows, beat) = (BTreeMap::new(), Instant::now());
        followers.push(Follower { run, queue, missed: false, beat, rows, is_told: false });
        self.came.notify_all();
        Some(pieces)
    }

    /// Waits until there is a follower, or for a while.
    pub(crate) fn await_follower(&self, most: Duration) -> bool {
        let mut followers = self.lock();
        followers.retain(|one| !one.queue.is_closed());
        if followers.is_empty() {
            followers = match self.came.wait_timeout(followers, most) {
                Ok((followers, _)) => followers,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        !followers.is_empty()
    }

    /// The runs that have followers.
    pub(crate) fn followed(&self) -> Vec<RunId> {
        let mut runs: Vec<RunId> = self.lock().iter().filter_map(|one| one.run.clone()).collect();
        runs.sort();
        runs.dedup();
        runs
    }

    /// Whether all who follow a run have been told its rows.
    pub(crate) fn is_told(&self, run: &RunId) -> bool {
        self.lock().iter().filter(|one| one.run.as_ref() == Some(run)).all(|one| one.is_told)
    }

    /// Tells all followers, or those of a run.
    pub(crate) fn tell(&self, run: Option<&RunId>, event: &str, version: u64, data: &Json) {
        let text = message(event, version, data);
        for one in self.lock().iter_mut().filter(|one| run.is_none() || one.run.as_ref() == run) {
            one.send(text.clone(), version);
        }
    }

    /// Tells those who follow a run which of its tasks differ from what each was sent last.
    pub(crate) fn tell_rows(&self, run: &RunId, at: u64, version: u64, rows: &[Json]) {
        for one in self.lock().iter_mut().filter(|one| one.run.as_ref() == Some(run)) {
            let seq = |row: &Json| row[0].as_str().unwrap_or_default().to_owned();
            let differs = |row: &&Json| one.rows.get(&seq(row)) != Some(*row);
            let changed: Vec<Json> = rows.iter().filter(differs).cloned().collect();
            one.is_told = true;
            if changed.is_empty() {
                continue;
            }
            one.rows.extend(changed.iter().map(|row| (seq(row), row.clone())));
            one.send(message("tasks", version, &json!({ "run": run, "at": at, "rows": changed })), version);
        }
    }

    /// Lets streams live on that have said nothing for a while.
    pub(crate) fn beat(&self) {
        for one in self.lock().iter_mut().filter(|one| one.beat.elapsed() >= BEAT) {
            one.beat = Instant::now();
            let _ = one.queue.try_send(Bytes::from_static(b": beat\n\n"));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    fn send(&mut self, text: Bytes, version: u64) {
        if self.missed {
            let again = message("resync", version, &json!({}));
            // Half of the queue is free again: it reads.
            if self.queue.capacity() < MAX_QUEUED / 2 || self.queue.try_send(again).is_err() {
                return;
            }
            self.missed = false;
            self.rows.clear();
        }
        match self.queue.try_send(text) {
            Ok(()) => self.beat = Instant::now(),
            Err(TrySendError::Full(_)) => self.missed = true,
            Err(TrySendError::Closed(_)) => {}
        }
    }
}

fn message(event: &str, version: u64, data: &Json) -> Bytes {
    Bytes::from(format!("event: {event}\nid: {version}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &mut Receiver<Bytes>) -> String {
        let mut all = String::new();
        while let Ok(piece) = pieces.try_recv() {
            all.push_str(&String::from_utf8_lossy(&piece));
        }
        all
    }

    #[test]
    fn a_follower_that_does_not_read_is_told_to_read_anew() {
        let hub = Hub::default();
        let mut slow = hub.follow(None).unwrap();
        for version in 0..MAX_QUEUED as u64 + 10 {
            hub.tell(None, "summary", version, &json!({ "n": version }));
        }
        let text = read(&mut slow);
        assert!(text.contains("\"n\":200") && !text.contains("resync"), "the queue holds so many");
        hub.tell(None, "summary", 999, &json!({ "n": "late" }));
        let text = read(&mut slow);
        let (again, late) = (text.find("event: resync"), text.find("late"));
        assert!(again.is_some() && again < late, "{text}");
    }

    #[test]
    fn only_rows_that_changed_are_sent() {
        let hub = Hub::default();
        let run = RunId::of(7);
        let mut mine = hub.follow(Some(run.clone())).unwrap();
        let mut other = hub.follow(Some(RunId::of(8))).unwrap();
        hub.tell_rows(&run, 1, 1, &[json!(["001", "a"]), json!(["002", "b"])]);
        assert!(read(&mut mine).contains("002"));
        hub.tell_rows(&run, 2, 2, &[json!(["001", "c"]), json!(["002", "b"])]);
        let text = read(&mut mine);
        assert!(text.contains("\"c\"") && !text.contains("002"), "{text}");
        hub.tell_rows(&run, 3, 3, &[json!(["001", "c"]), json!(["002", "b"])]);
        assert_eq!(read(&mut mine), "");
        assert!(!read(&mut other).contains("tasks"));
    }

    #[test]
    fn so_many_follow() {
        let hub = Hub::default();
        let all: Vec<_> = (0..MAX_FOLLOWERS).map(|_| hub.follow(None).unwrap()).collect();
        assert!(hub.follow(None).is_none());
        drop(all);
        assert!(hub.follow(None).is_some(), "those who went leave room");
    }
}
