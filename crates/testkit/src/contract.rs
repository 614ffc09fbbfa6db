//! What every store promises, as one suite of tests that any store can be put through.
//!
//! `store_contract!` makes one test of each case. A case gets an empty store and knows nothing of
//! what is behind the trait, so it must never open a file or look at a table.

use std::collections::BTreeSet;
use std::io::Read;
use std::thread;

use ftl_folder::id::RunId;
use ftl_store::{
    Append, ContentDigest, Hash, Lease, MAX_APPEND_BYTES, MAX_COMMAND_BYTES, MAX_CONTENT_BYTES,
    MAX_ENTRY_BYTES, MAX_OWNER_BYTES, MAX_SUMMARY_BYTES, Most, NewEntry, NewRun, Store, StoreError,
    StoredEntry, verify_chain,
};

/// A store that was opened for one test, with whatever must live as long as it does.
pub trait Opened {
    /// The store that was opened.
    fn store(&self) -> &dyn Store;
}

/// Makes one test of each case of the contract. The argument makes an empty store: a function without
/// arguments that returns something `Opened`.
#[macro_export]
macro_rules! store_contract {
    ($make:path) => {
        $crate::store_contract!($make:
            a_new_run_is_empty_and_owned
            a_name_is_taken_once
            a_run_that_is_not_there
            entries_keep_their_order
            an_entry_out_of_order_is_refused
            an_append_may_bring_no_entry
            summary_and_end_change_only_when_said
            an_old_lease_is_worth_nothing
            a_run_is_taken_by_one_who_saw_the_newest_epoch
            a_run_that_was_given_back_is_nobodys
            a_forged_lease_is_refused
            a_refused_append_changes_nothing
            commands_wait_in_order_and_are_answered_once
            commands_belong_to_their_run
            runs_are_found_by_the_beginning_of_their_name
            the_newest_runs_are_found_and_the_others_counted
            entries_are_read_in_pages
            content_is_kept_under_its_digest
            content_comes_with_an_append
            content_is_read_from_a_stream
            every_limit_trips_and_its_edge_does_not
            the_chain_is_whole
            strange_text_is_kept_as_it_is
            the_version_changes_with_every_write
            many_threads_write_their_own_runs
            many_threads_race_for_one_run
            many_threads_race_for_one_command
        );
    };
    ($make:path: $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                let opened = $make();
                $crate::contract::$case($crate::contract::Opened::store(&opened));
            }
        )+
    };
}

/// The name of the n-th run of a test.
pub fn name(n: u64) -> RunId {
    RunId::of(n)
}

/// Adds the n-th run of a test.
pub fn add(store: &dyn Store, n: u64) -> Lease {
    let new = NewRun { run: name(n), owner: format!("owner {n}"), at: 1000 + n, summary: "{}".to_owned() };
    store.create(&new).unwrap()
}

/// An append of entries with these numbers.
pub fn lines(numbers: impl IntoIterator<Item = u64>) -> Append {
    let lines = numbers.into_iter().map(|seq| NewEntry { seq, body: format!("{{\"n\":{seq}}}") }).collect();
    Append { lines, at: 2000, ..Append::default() }
}

fn all(store: &dyn Store, run: &RunId) -> Vec<StoredEntry> {
    store.entries(run, 0, usize::MAX).unwrap()
}

fn numbers(store: &dyn Store, run: &RunId) -> Vec<u64> {
    all(store, run).iter().map(|record| record.seq).collect()
}

fn assert_whole(store: &dyn Store, run: &RunId, entries: u64) {
    let report = verify_chain(store, run).unwrap();
    assert_eq!((report.entries, report.broken), (entries, None), "run {run}");
}

fn fenced(run: &RunId, epoch: u64) -> StoreError {
    StoreError::Fenced { run: run.clone(), epoch }
}

/// A new run has no entries and belongs to the process that made it.
pub fn a_new_run_is_empty_and_owned(store: &dyn Store) {
    assert_eq!(store.writable(), Ok(()));
    let lease = add(store, 1);
    assert_eq!(lease, Lease { run: name(1), epoch: 1, owner: "owner 1".to_owned() });
    let row = store.run(&name(1)).unwrap().unwrap();
    assert_eq!((row.run, row.opened, row.changed, row.head, row.epoch), (name(1), 1001, 1001, 0, 1));
    assert_eq!((row.hash, row.settled), (Hash::start(&name(1)), false));
    assert_eq!((row.owner.as_deref(), row.summary.as_str()), (Some("owner 1"), "{}"));
    assert!(all(store, &name(1)).is_empty());
    assert_whole(store, &name(1), 0);
}

/// The second run of a name is refused and leaves the first alone.
pub fn a_name_is_taken_once(store: &dyn Store) {
    add(store, 1);
    let before = store.run(&name(1)).unwrap();
    let other = NewRun { run: name(1), owner: "other".to_owned(), at: 9, summary: "other".to_owned() };
    assert_eq!(store.create(&other), Err(StoreError::Exists(name(1))));
    assert_eq!(store.run(&name(1)).unwrap(), before);
    assert_eq!(store.runs("").unwrap().len(), 1);
}

/// Asking for a run that was never made.
pub fn a_run_that_is_not_there(store: &dyn Store) {
    let nobody = Lease { run: name(1), epoch: 1, owner: "owner 1".to_owned() };
    let missing = StoreError::NoRun(name(1));
    assert_eq!(store.run(&name(1)), Ok(None));
    assert_eq!(store.entries(&name(1), 0, 10), Err(missing.clone()));
    assert_eq!(store.pending(&name(1)), Err(missing.clone()));
    assert_eq!(store.send(&name(1), "{}"), Err(missing.clone()));
    assert_eq!(store.append(&nobody, lines([1])), Err(missing.clone()));
    assert_eq!(store.take(&name(1), 0, "somebody"), Err(missing.clone()));
    assert_eq!(store.release(&nobody), Err(missing.clone()));
    assert_eq!(verify_chain(store, &name(1)), Err(missing));
    assert!(store.runs("").unwrap().is_empty());
    assert_eq!(store.reply(1), Ok(None));
    assert_eq!(store.reply(u64::MAX), Ok(None));
}

/// Entries are read as they were written, with the epoch of their lease.
pub fn entries_keep_their_order(store: &dyn Store) {
    let lease = add(store, 1);
    store.append(&lease, lines([1])).unwrap();
    store.append(&lease, lines([2, 3, 4])).unwrap();
    let later = store.take(&name(1), 1, "second").unwrap();
    store.append(&later, lines([5])).unwrap();
    let kept = all(store, &name(1));
    let told: Vec<_> = kept.iter().map(|record| (record.seq, record.epoch, record.body.as_str())).collect();
    let due = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2)];
    let bodies = ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}", "{\"n\":5}"];
    let due: Vec<_> = due.into_iter().zip(bodies).map(|((seq, epoch), body)| (seq, epoch, body)).collect();
    assert_eq!(told, due);
    let row = store.run(&name(1)).unwrap().unwrap();
    assert_eq!((row.head, row.hash, row.changed), (5, kept[4].hash, 2000));
}

/// Neither a gap, nor a number twice, nor one that went back.
pub fn an_entry_out_of_order_is_refused(store: &dyn Store) {
    let lease = add(store, 1);
    let gap = |due, came| Err(StoreError::Gap { due, came });
    assert_eq!(store.append(&lease, lines([0])), gap(1, 0));
    assert_eq!(store.append(&lease, lines([2])), gap(1, 2));
    store.append(&lease, lines([1, 2])).unwrap();
    assert_eq!(store.append(&lease, lines([2])), gap(3, 2));
    assert_eq!(store.append(&lease, lines([4])), gap(3, 4));
    assert_eq!(store.append(&lease, lines([3, 5])), gap(4, 5));
    assert_eq!(store.append(&lease, lines([3, 3])), gap(4, 3));
    assert_eq!(store.append(&lease, lines([u64::MAX])), gap(3, u64::MAX));
    assert_eq!(numbers(store, &name(1)), [1, 2]);
    store.append(&lease, lines([3])).unwrap();
    assert_whole(store, &name(1), 3);
}

/// An append without entries still answers, and can carry a summary.
pub fn an_append_may_bring_no_entry(store: &dyn Store) {
    let lease = add(store, 1);
    store.append(&lease, lines([1])).unwrap();
    let command = store.send(&name(1), "stop").unwrap();
    let answered = Some((command, "refused".to_owned()));
    store.append(&lease, Append { answered, at: 3000, ..Append::default() }).unwrap();
    assert_eq!(store.reply(command).unwrap().as_deref(), Some("refused"));
    let row = store.run(&name(1)).unwrap().unwrap();
    assert_eq!((row.head, row.changed), (1, 3000));
    store.append(&lease, Append::default()).unwrap();
    assert_whole(store, &name(1), 1);
}

/// `None` leaves summary and end as they were.
pub fn summary_and_end_change_only_when_said(store: &dyn Store) {
    let lease = add(store, 1);
    let look = || {
        let row = store.run(&name(1)).unwrap().unwrap();
        (row.summary, row.settled)
    };
    let say = |seq, summary: Option<&str>, settled| {
        let summary = summary.map(str::to_owned);
        store.append(&lease, Append { summary, settled, ..lines([seq]) }).unwrap();
    };
    say(1, Some("one"), None);
    assert_eq!(look(), ("one".to_owned(), false));
    say(2, None, Some(true));
    assert_eq!(look(), ("one".to_owned(), true));
    say(3, Some("three"), None);
    assert_eq!(look(), ("three".to_owned(), true));
    say(4, None, Some(false));
    assert_eq!(look(), ("three".to_owned(), false));
}

/// Once another process took a run, the one before can neither add to it nor give it back.
pub fn an_old_lease_is_worth_nothing(store: &dyn Store) {
    let old = add(store, 1);
    store.append(&old, lines([1])).unwrap();
    let new = store.take(&name(1), 1, "second").unwrap();
    assert_eq!(new, Lease { run: name(1), epoch: 2, owner: "second".to_owned() });
    assert_eq!(store.append(&old, lines([2])), Err(fenced(&name(1), 2)));
    assert_eq!(store.release(&old), Err(fenced(&name(1), 2)));
    store.append(&new, lines([2])).unwrap();
    assert_eq!(store.append(&old, lines([3])), Err(fenced(&name(1), 2)));
    let row = store.run(&name(1)).unwrap().unwrap();
    assert_eq!((row.head, row.epoch, row.owner.as_deref()), (2, 2, Some("second")));
}

/// Of two who saw the same epoch one gets the run.
pub fn a_run_is_taken_by_one_who_saw_the_newest_epoch(store: &dyn Store) {
    add(store, 1);
    for stale in [0, 2, u64::MAX] {
        assert_eq!(store.take(&name(1), stale, "early"), Err(fenced(&name(1), 1)));
    }
    assert_eq!(store.take(&name(1), 1, "first").unwrap().epoch, 2);
    assert_eq!(store.take(&name(1), 1, "second"), Err(fenced(&name(1), 2)));
    assert_eq!(store.take(&name(1), 2, "first").unwrap().epoch, 3);
}

/// Giving a run back ends the lease; the next one gets a higher epoch all the same.
pub fn a_run_that_was_given_back_is_nobodys(store: &dyn Store) {
    let lease = add(store, 1);
    store.append(&lease, lines([1])).unwrap();
    store.release(&lease).unwrap();
    let row = store.run(&name(1)).unwrap().unwrap();
    assert_eq!((row.owner, row.epoch), (None, 1));
    assert_eq!(store.append(&lease, lines([2])), Err(fenced(&name(1), 1)));
    assert_eq!(store.release(&lease), Err(fenced(&name(1), 1)));
    let next = store.take(&name(1), 1, "next").unwrap();
    assert_eq!(next.epoch, 2);
    store.append(&next, lines([2])).unwrap();
}

/// An epoch that was never given, or the right one under another name.
pub fn a_forged_lease_is_refused(store: &dyn Store) {
    let lease = add(store, 1);
    for epoch in [0, 2, u64::MAX] {
        let forged = Lease { epoch, ..lease.clone() };
        assert_eq!(store.append(&forged, lines([1])), Err(fenced(&name(1), 1)));
    }
    let forged = Lease { owner: "somebody".to_owned(), ..lease };
    assert_eq!(store.append(&forged, lines([1])), Err(fenced(&name(1), 1)));
    assert_eq!(store.release(&forged), Err(fenced(&name(1), 1)));
}

/// Whatever the reason: no entry, no content, no summary, no reply.
pub fn a_refused_append_changes_nothing(store: &dyn Store) {
    let old = add(store, 1);
    let lease = store.take(&name(1), 1, "second").unwrap();
    store.append(&lease, lines([1])).unwrap();
    let open = store.send(&name(1), "open").unwrap();
    let closed = store.send(&name(1), "closed").unwrap();
    let answered = Some((closed, "done".to_owned()));
    store.append(&lease, Append { answered, at: 2000, ..Append::default() }).unwrap();
    let before = (store.run(&name(1)).unwrap(), all(store, &name(1)), store.pending(&name(1)).unwrap());

    let content = b"never kept".to_vec();
    let digest = ContentDigest::of(&content);
    let full = |numbers: &[u64], command| Append {
        content: vec![(digest, content.clone())],
        summary: Some("never seen".to_owned()),
        settled: Some(true),
        answered: Some((command, "never told".to_owned())),
        at: 9999,
        ..lines(numbers.iter().copied())
    };
    let mut large = full(&[2], open);
    large.lines[0].body = "x".repeat(MAX_ENTRY_BYTES + 1);
    let mut lying = full(&[2], open);
    lying.content = vec![(ContentDigest::of(b"something else"), content.clone())];

    assert_eq!(store.append(&old, full(&[2], open)), Err(fenced(&name(1), 2)));
    assert_eq!(store.append(&lease, full(&[2, 4], open)), Err(StoreError::Gap { due: 3, came: 4 }));
    assert_eq!(store.append(&lease, full(&[2], closed)), Err(StoreError::Answered(closed)));
    assert_eq!(store.append(&lease, full(&[2], 999)), Err(StoreError::NoCommand(999)));
    assert!(matches!(store.append(&lease, large), Err(StoreError::TooLarge { .. })));
    assert!(matches!(store.append(&lease, lying), Err(StoreError::Corrupt(_))));

    let after = (store.run(&name(1)).unwrap(), all(store, &name(1)), store.pending(&name(1)).unwrap());
    assert_eq!(after, before);
    assert_eq!(store.get(&digest), Ok(None));
    assert_eq!((store.reply(open), store.reply(closed)), (Ok(None), Ok(Some("done".to_owned()))));
    store.append(&lease, full(&[2], open)).unwrap();
    assert_eq!(store.get(&digest), Ok(Some(content)));
}

/// Commands come in the order in which they were sent, and each has one reply.
pub fn commands_wait_in_order_and_are_answered_once(store: &dyn Store) {
    let lease = add(store, 1);
    let sent: Vec<u64> =
        ["a", "b", "c"].into_iter().map(|body| store.send(&name(1), body).unwrap()).collect();
    assert!(sent.is_sorted_by(|one, next| one < next), "{sent:?}");
    let waiting = || {
        let waiting = store.pending(&name(1)).unwrap();
        waiting.into_iter().map(|command| (command.id, command.body)).collect::<Vec<_>>()
    };
    let due = |of: &[usize]| -> Vec<(u64, String)> {
        of.iter().map(|at| (sent[*at], ["a", "b", "c"][*at].to_owned())).collect()
    };
    assert_eq!(waiting(), due(&[0, 1, 2]));
    let answer = |at: usize, seq, reply: &str| {
        let answered = Some((sent[at], reply.to_owned()));
        store.append(&lease, Append { answered, ..lines([seq]) })
    };
    answer(1, 1, "yes").unwrap();
    assert_eq!(waiting(), due(&[0, 2]));
    assert_eq!(store.reply(sent[1]).unwrap().as_deref(), Some("yes"));
    assert_eq!(store.reply(sent[0]), Ok(None));
    assert_eq!(answer(1, 2, "no"), Err(StoreError::Answered(sent[1])));
    assert_eq!(store.reply(sent[1]).unwrap().as_deref(), Some("yes"));
    answer(0, 2, "").unwrap();
    assert_eq!(store.reply(sent[0]).unwrap().as_deref(), Some(""), "an empty reply is one");
    assert_eq!(waiting(), due(&[2]));
}

/// A run sees and answers only what was sent to it.
pub fn commands_belong_to_their_run(store: &dyn Store) {
    let (first, second) = (add(store, 1), add(store, 2));
    let command = store.send(&name(1), "for the first").unwrap();
    assert!(store.pending(&name(2)).unwrap().is_empty());
    let answered = Some((command, "not mine".to_owned()));
    let answer = Append { answered, at: 1, ..Append::default() };
    assert_eq!(store.append(&second, answer.clone()), Err(StoreError::NoCommand(command)));
    let unknown = Append { answered: Some((0, String::new())), ..Append::default() };
    assert_eq!(store.append(&first, unknown), Err(StoreError::NoCommand(0)));
    store.append(&first, answer).unwrap();
    assert_eq!(store.reply(command).unwrap().as_deref(), Some("not mine"));
}

/// The one added last comes first; a prefix that fits nothing finds nothing.
pub fn runs_are_found_by_the_beginning_of_their_name(store: &dyn Store) {
    let ids = ["aaaaaaaa", "zzzzzzzz", "aabbbbbb", "abcccccc", "aaaaaaab", "99999999", "a9999999"];
    for (at, id) in (0..).zip(ids) {
        let run = id.parse().unwrap();
        store.create(&NewRun { run, owner: String::new(), at, summary: String::new() }).unwrap();
    }
    let found = |prefix: &str| -> Vec<String> {
        store.runs(prefix).unwrap().iter().map(|row| row.run.to_string()).collect()
    };
    let mut newest_first = ids.to_vec();
    newest_first.reverse();
    assert_eq!(found(""), newest_first);
    assert_eq!(found("a"), ["a9999999", "aaaaaaab", "abcccccc", "aabbbbbb", "aaaaaaaa"]);
    assert_eq!(found("aa"), ["aaaaaaab", "aabbbbbb", "aaaaaaaa"]);
    assert_eq!(found("zz"), ["zzzzzzzz"]);
    assert_eq!(found("99999999"), ["99999999"]);
    for nothing in ["b", "A", "aaaaaaaaa", "%", "a%", "_", "*", "é", "\u{10ffff}", "\0", "a\u{7f}"] {
        assert!(found(nothing).is_empty(), "{nothing:?}");
    }
}

/// Of each kind the newest ones come, and all are counted; a run without entries is none.
pub fn the_newest_runs_are_found_and_the_others_counted(store: &dyn Store) {
    for n in 0..12 {
        let lease = add(store, n);
        if n != 11 {
            let settled = Some(n % 3 == 0);
            store.append(&lease, Append { settled, ..lines([1]) }).unwrap();
        }
    }
    let found = |open, ended| {
        let newest = store.newest(Most { open, ended }).unwrap();
        let names: Vec<RunId> = newest.rows.iter().map(|row| row.run.clone()).collect();
        (names, newest.open, newest.ended)
    };
    let names = |numbers: &[u64]| numbers.iter().map(|n| name(*n)).collect::<Vec<RunId>>();
    assert_eq!(found(2, 3), (names(&[10, 9, 8, 6, 3]), 7, 4));
    assert_eq!(found(0, 0), (Vec::new(), 7, 4));
    assert_eq!(found(9, 0), (names(&[10, 8, 7, 5, 4, 2, 1]), 7, 4));
    let all = store.newest(Most::ALL).unwrap();
    let mut rows = store.runs("").unwrap();
    rows.retain(|row| row.head > 0);
    assert_eq!((all.rows, all.open, all.ended), (rows, 7, 4));
}

/// Pages follow each other without a hole.
pub fn entries_are_read_in_pages(store: &dyn Store) {
    let lease = add(store, 1);
    add(store, 2);
    store.append(&lease, lines(1..=10)).unwrap();
    let page = |after, most| -> Vec<u64> {
        store.entries(&name(1), after, most).unwrap().iter().map(|record| record.seq).collect()
    };
    assert_eq!(page(0, 4), [1, 2, 3, 4]);
    assert_eq!(page(4, 4), [5, 6, 7, 8]);
    assert_eq!(page(8, 4), [9, 10]);
    assert!(page(10, 4).is_empty());
    assert!(page(u64::MAX, 4).is_empty());
    assert!(page(0, 0).is_empty());
    assert_eq!(page(9, usize::MAX), [10]);
    assert!(store.entries(&name(2), 0, 4).unwrap().is_empty());
}

/// Empty, small, on the edge of a chunk, and in several.
pub fn content_is_kept_under_its_digest(store: &dyn Store) {
    assert_eq!(store.get(&ContentDigest::of(b"nothing")), Ok(None));
    let mebi = 1024 * 1024;
    for size in [0, 1, 5000, mebi - 1, mebi, mebi + 1, 3 * mebi + 7] {
        let bytes: Vec<u8> = (0..size).map(|at: usize| (at * 31 + at / 997) as u8).collect();
        let digest = store.put(&bytes).unwrap();
        assert_eq!(digest, ContentDigest::of(&bytes));
        assert_eq!(store.put(&bytes), Ok(digest), "twice is once");
        assert_eq!(store.get(&digest).unwrap().as_deref(), Some(&bytes[..]), "{size} bytes");
    }
}

/// Content that entries name is there when they are, also when it was there before.
pub fn content_comes_with_an_append(store: &dyn Store) {
    let lease = add(store, 1);
    let pieces: [&[u8]; 3] = [b"one", b"two", b"\0\xff"];
    store.put(pieces[1]).unwrap();
    let content =
        pieces.iter().chain(&pieces).map(|bytes| (ContentDigest::of(bytes), bytes.to_vec())).collect();
    store.append(&lease, Append { content, ..lines([1]) }).unwrap();
    for bytes in pieces {
        assert_eq!(store.get(&ContentDigest::of(bytes)).unwrap().as_deref(), Some(bytes));
    }
}

/// A stream is kept whole or not at all.
pub fn content_is_read_from_a_stream(store: &dyn Store) {
    let bytes = vec![7; 100_000];
    let (digest, size) = store.put_stream(&mut &bytes[..]).unwrap();
    assert_eq!((digest, size), (ContentDigest::of(&bytes), 100_000));
    assert_eq!(store.get(&digest).unwrap(), Some(bytes));
    let endless = store.put_stream(&mut std::io::repeat(1));
    let (bytes, most) = (MAX_CONTENT_BYTES + 1, MAX_CONTENT_BYTES);
    assert_eq!(endless, Err(StoreError::TooLarge { what: "the content", bytes, most }));
    let broken = store.put_stream(&mut Broken);
    assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
    assert_eq!(store.writable(), Ok(()), "a stream that breaks is not the store's fault");
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("broken"))
    }
}

/// What is exactly as large as it may be is taken; a byte more is not.
pub fn every_limit_trips_and_its_edge_does_not(store: &dyn Store) {
    let lease = add(store, 1);
    let text = |size: usize| "x".repeat(size);
    let line = |seq, size| Append { lines: vec![NewEntry { seq, body: text(size) }], ..Append::default() };
    let too_large = |what, most: usize| StoreError::TooLarge { what, bytes: most + 1, most };

    store.append(&lease, line(1, MAX_ENTRY_BYTES)).unwrap();
    assert_eq!(
        store.append(&lease, line(2, MAX_ENTRY_BYTES + 1)),
        Err(too_large("the entry", MAX_ENTRY_BYTES))
    );

    let summary = |size| Append { summary: Some(text(size)), ..Append::default() };
    store.append(&lease, summary(MAX_SUMMARY_BYTES)).unwrap();
    let refused = Err(too_large("the summary", MAX_SUMMARY_BYTES));
    assert_eq!(store.append(&lease, summary(MAX_SUMMARY_BYTES + 1)), refused);
    let new = |owner, summary| NewRun { run: name(2), owner: text(owner), at: 0, summary: text(summary) };
    let refused = Err(too_large("the summary", MAX_SUMMARY_BYTES));
    assert_eq!(store.create(&new(1, MAX_SUMMARY_BYTES + 1)), refused);

    let refused = Err(too_large("the owner's name", MAX_OWNER_BYTES));
    assert_eq!(store.create(&new(MAX_OWNER_BYTES + 1, 1)), refused);
    assert_eq!(store.take(&name(1), 1, &text(MAX_OWNER_BYTES + 1)), refused);
    store.create(&new(MAX_OWNER_BYTES, MAX_SUMMARY_BYTES)).unwrap();

    let command = store.send(&name(1), &text(MAX_COMMAND_BYTES)).unwrap();
    let refused = Err(too_large("the command", MAX_COMMAND_BYTES));
    assert_eq!(store.send(&name(1), &text(MAX_COMMAND_BYTES + 1)), refused);
    let reply = |size| Append { answered: Some((command, text(size))), ..Append::default() };
    let refused = Err(too_large("the reply", MAX_COMMAND_BYTES));
    assert_eq!(store.append(&lease, reply(MAX_COMMAND_BYTES + 1)), refused);
    store.append(&lease, reply(MAX_COMMAND_BYTES)).unwrap();

    let large = vec![0; MAX_CONTENT_BYTES + 1];
    assert_eq!(store.put(&large), Err(too_large("the content", MAX_CONTENT_BYTES)));
    let most = &large[..MAX_CONTENT_BYTES];
    let digest = store.put(most).unwrap();
    assert_eq!(store.get(&digest).unwrap().as_deref(), Some(most));
    let twice = vec![(digest, most.to_vec()), (digest, most.to_vec())];
    let heavy = Append { content: twice, ..line(2, 1) };
    assert_eq!(store.append(&lease, heavy), Err(too_large("the append", MAX_APPEND_BYTES)));
    assert_eq!(numbers(store, &name(1)), [1]);
}

/// Each hash follows from the one before, whichever owner wrote.
pub fn the_chain_is_whole(store: &dyn Store) {
    let mut lease = add(store, 1);
    for seq in 1..=50 {
        store.append(&lease, lines([seq])).unwrap();
        if seq % 7 == 0 {
            lease = store.take(&name(1), lease.epoch, "next").unwrap();
        }
    }
    let mut hash = Hash::start(&name(1));
    for record in all(store, &name(1)) {
        hash = hash.then(record.seq, record.epoch, &record.body);
        assert_eq!(record.hash, hash, "entry {}", record.seq);
    }
    assert_eq!(store.run(&name(1)).unwrap().unwrap().hash, hash);
    assert_whole(store, &name(1), 50);
}

/// Zeros, quotes, text of any script: bytes in, the same bytes out.
pub fn strange_text_is_kept_as_it_is(store: &dyn Store) {
    let strange = "\0'; DROP TABLE runs; -- \u{202e}\u{feff}\u{10ffff}日本\r\n\t\"\\";
    let new = NewRun { run: name(1), owner: strange.into(), at: u64::MAX, summary: strange.into() };
    let lease = store.create(&new).unwrap();
    let line = NewEntry { seq: 1, body: strange.to_owned() };
    store.append(&lease, Append { lines: vec![line], at: 7, ..Append::default() }).unwrap();
    let command = store.send(&name(1), strange).unwrap();
    assert_eq!(store.pending(&name(1)).unwrap()[0].body, strange);
    let answered = Some((command, strange.to_owned()));
    store.append(&lease, Append { answered, ..Append::default() }).unwrap();
    assert_eq!(store.reply(command).unwrap().as_deref(), Some(strange));
    let row = store.run(&name(1)).unwrap().unwrap();
    assert_eq!((row.owner.as_deref(), row.summary.as_str()), (Some(strange), strange));
    assert_eq!(all(store, &name(1))[0].body, strange);
    assert_whole(store, &name(1), 1);
}

/// A reader that looks at the version misses nothing.
pub fn the_version_changes_with_every_write(store: &dyn Store) {
    let mut seen = store.version().unwrap();
    let mut changed = || {
        let now = store.version().unwrap();
        let changed = now != seen;
        seen = now;
        changed
    };
    let lease = add(store, 1);
    assert!(changed());
    assert!(!changed(), "nothing happened");
    store.append(&lease, lines([1])).unwrap();
    assert!(changed());
    store.send(&name(1), "{}").unwrap();
    assert!(changed());
    store.put(b"content").unwrap();
    assert!(changed());
    store.release(&lease).unwrap();
    assert!(changed());
    store.take(&name(1), 1, "next").unwrap();
    assert!(changed());
    store.run(&name(1)).unwrap();
    store.entries(&name(1), 0, 10).unwrap();
    assert!(!changed(), "reading is no change");
}

/// Threads that have nothing to do with each other do not disturb each other.
pub fn many_threads_write_their_own_runs(store: &dyn Store) {
    let leases: Vec<Lease> = (0..16).map(|n| add(store, n)).collect();
    thread::scope(|scope| {
        for lease in &leases {
            scope.spawn(move || {
                for seq in 1..=20 {
                    store.append(lease, lines([seq])).unwrap();
                    assert_eq!(store.run(&lease.run).unwrap().unwrap().head, seq, "what is written is seen");
                }
            });
        }
    });
    for lease in &leases {
        assert_whole(store, &lease.run, 20);
    }
}

/// Threads take one run from each other; each entry is written once and no refused one is there.
pub fn many_threads_race_for_one_run(store: &dyn Store) {
    add(store, 1);
    let written: Vec<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || race(store, n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all_written: Vec<u64> = written.into_iter().flatten().collect();
    all_written.sort_unstable();
    let head = store.run(&name(1)).unwrap().unwrap().head;
    assert_eq!(all_written, (1..=head).collect::<Vec<_>>(), "each number was acknowledged once");
    assert!(head >= 8, "everybody got a turn");
    let epochs: Vec<u64> = all(store, &name(1)).iter().map(|record| record.epoch).collect();
    assert!(epochs.is_sorted(), "an old lease wrote after a newer one: {epochs:?}");
    assert_whole(store, &name(1), head);
}

/// Takes the run until three appends went through; the numbers of its entries.
fn race(store: &dyn Store, n: u64) -> Vec<u64> {
    let mut written = Vec::new();
    while written.len() < 3 {
        let seen = store.run(&name(1)).unwrap().unwrap();
        let lease = match store.take(&name(1), seen.epoch, &format!("racer {n}")) {
            Ok(lease) => lease,
            Err(StoreError::Fenced { .. }) => continue,
            Err(error) => panic!("racer {n}: {error}"),
        };
        // Only a head that was read under the lease is sure to be the last one.
        let due = store.run(&name(1)).unwrap().unwrap().head + 1;
        match store.append(&lease, lines([due])) {
            Ok(()) => written.push(due),
            Err(StoreError::Fenced { .. }) => {}
            Err(error) => panic!("racer {n}: {error}"),
        }
    }
    written
}

/// Many who hold the same lease answer one command: one of them does.
pub fn many_threads_race_for_one_command(store: &dyn Store) {
    let lease = add(store, 1);
    let commands: Vec<u64> = (0..5).map(|n| store.send(&name(1), &n.to_string()).unwrap()).collect();
    for command in commands {
        let told: Vec<_> = thread::scope(|scope| {
            let answer = |n: u64| {
                let answered = Some((command, n.to_string()));
                store.append(&lease, Append { answered, ..Append::default() }).map(|()| n)
            };
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || answer(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: BTreeSet<u64> = told.iter().filter_map(|told| told.as_ref().ok().copied()).collect();
        assert_eq!(winners.len(), 1, "{told:?}");
        let refused = told.iter().filter(|told| **told == Err(StoreError::Answered(command)));
        assert_eq!(refused.count(), 7);
        assert_eq!(store.reply(command).unwrap(), winners.first().map(u64::to_string));
    }
    assert!(store.pending(&name(1)).unwrap().is_empty());
}
