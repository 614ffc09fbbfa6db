//! The journal's form: what is large is moved and comes back, what is damaged is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use ftl_core::run::{ActionId, Answer, Entry, Fact, ROOT};
use ftl_core::value::Value;
use ftl_folder::id::RunId;
use ftl_store::journal::{decode, encode, load};
use ftl_store::{Append, Hash, MAX_ENTRY_BYTES, MemoryStore, NewRun, Store, StoredEntry};

fn make_entry(seq: u64, value: Value) -> Entry {
    let action = ActionId { entry: 1, index: 0 };
    let fact =
        Fact::Heard { action, answer: Answer::Done(value), bind: None, by: None, cut: false, failing: None };
    Entry { seq, at: 5, instance: ROOT, first: true, fact }
}

/// Writes and reads an entry; how many bytes its line has and how much content was moved.
fn round_trip(value: Value) -> (usize, usize) {
    let (store, run) = (MemoryStore::new(), RunId::of(1));
    let new = NewRun { run: run.clone(), owner: "a".into(), at: 1, summary: "{}".into() };
    let lease = store.create(&new).unwrap();
    let entry = make_entry(1, value);
    let encoded = encode(std::slice::from_ref(&entry)).unwrap();
    let (bytes, moved) = (encoded.lines[0].body.len(), encoded.content.len());
    let append = Append { lines: encoded.lines, content: encoded.content, at: 2, ..Append::default() };
    store.append(&lease, append).unwrap();
    assert_eq!(load(&store, &run).unwrap(), [entry]);
    (bytes, moved)
}

#[test]
fn small_entries_stay_whole() {
    let (bytes, moved) = round_trip(Value::text("hello"));
    assert!(bytes < 200 && moved == 0);
}

#[test]
fn whatever_is_large_is_moved_and_comes_back() {
    let deep = (0..40).fold(Value::text("x".repeat(500)), |inner, _| Value::record([("in", inner)]));
    let many = Value::list((0..20_000).map(Value::whole));
    let texts = Value::record((0..50).map(|index| (format!("f{index}"), Value::text("y".repeat(900)))));
    for value in [Value::text("z".repeat(1_000_000)), deep, many, texts] {
        let large = value.to_string().len() > MAX_ENTRY_BYTES;
        let (bytes, moved) = round_trip(value);
        assert!(bytes <= MAX_ENTRY_BYTES, "{bytes}");
        assert_eq!(moved > 0, large);
    }
}

#[test]
fn a_value_that_looks_like_a_reference_is_only_a_value() {
    let looks = Value::record([("$content", Value::text("00")), ("bytes", Value::whole(3))]);
    assert_eq!(round_trip(looks.clone()).1, 1, "it is moved whole, so that it cannot be mistaken");
    assert_eq!(round_trip(Value::record([("a", Value::list([looks]))])).1, 1);
    assert_eq!(round_trip(Value::text("{\"$content\":\"00\"}")).1, 0, "text is never a reference");
}

#[test]
fn entries_that_make_no_sense_are_refused_by_number() {
    let (store, run) = (MemoryStore::new(), RunId::of(2));
    let record =
        |seq: u64, body: &str| StoredEntry { seq, epoch: 1, body: body.to_owned(), hash: Hash::start(&run) };
    for body in ["", "{}", "[]", "{\"seq\":3", "{\"seq\":3,\"at\":1,\"instance\":0,\"fact\":\"nonsense\"}"] {
        let error = decode(&store, &run, &record(3, body)).unwrap_err();
        assert!(error.to_string().contains("entry 3"), "{error}");
    }
    let good = serde_json::to_string(&make_entry(4, Value::None)).unwrap();
    assert!(decode(&store, &run, &record(4, &good)).is_ok());
    assert!(decode(&store, &run, &record(5, &good)).unwrap_err().to_string().contains("calls itself 4"));
    let gone = good.replace("{\"done\":null}", "{\"$content\":\"00ff\"}");
    assert!(decode(&store, &run, &record(4, &gone)).is_err());
    let digest = "0".repeat(64);
    let gone = good.replace("{\"done\":null}", &format!("{{\"$content\":\"{digest}\"}}"));
    assert!(decode(&store, &run, &record(4, &gone)).unwrap_err().to_string().contains("is gone"));
}
