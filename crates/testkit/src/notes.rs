//! What every notebook promises, as one suite of tests that any notebook can be put through.
//!
//! `notebook_contract!` makes one test of each case, like `store_contract!` for stores. A case knows
//! nothing of what is behind the trait.

use std::thread;

use ftl_store::{MAX_NOTE_BYTES, MAX_NOTE_NAME_BYTES, Notebook, StoreError};

/// Makes one test of each case of the contract. The argument makes an empty notebook and calls the
/// case with it.
#[macro_export]
macro_rules! notebook_contract {
    ($with:path) => {
        $crate::notebook_contract!($with:
            notes_are_kept_replaced_and_removed
            a_change_is_kept_whole_or_not_at_all
            a_change_sees_its_own_writes
            no_update_is_lost
            every_limit_of_a_note_trips
        );
    };
    ($with:path: $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                $with(&$crate::notes::$case);
            }
        )+
    };
}

fn put(book: &dyn Notebook, kind: &str, key: &str, body: &str) -> Result<(), StoreError> {
    book.amend(&mut |notes| notes.put(kind, key, body).map(|()| true))
}

fn note(book: &dyn Notebook, key: &str) -> Option<String> {
    book.note("a", key).unwrap()
}

/// A note is the last text that was put under its kind and key, whatever the text.
pub fn notes_are_kept_replaced_and_removed(book: &dyn Notebook) {
    assert_eq!(book.note("a", "x").unwrap(), None);
    let strange = "\u{0}\n\u{feff}ß\u{10ffff}' \" {}";
    for (key, body) in [("x", "one"), ("b/ß \u{0}", strange), ("", ""), ("x", "two")] {
        put(book, "a", key, body).unwrap();
    }
    put(book, "b", "x", "other").unwrap();
    assert_eq!(note(book, "x").as_deref(), Some("two"));
    assert_eq!(note(book, "b/ß \u{0}").as_deref(), Some(strange));
    let all = book.notes("a").unwrap();
    let keys: Vec<&str> = all.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["", "b/ß \u{0}", "x"], "in the order of their keys");
    book.amend(&mut |notes| {
        notes.remove("a", "x")?;
        notes.remove("a", "never there")?;
        Ok(true)
    })
    .unwrap();
    assert_eq!((note(book, "x"), book.note("b", "x").unwrap().as_deref()), (None, Some("other")));
}

/// What the work does not want kept, or fails in, leaves no trace.
pub fn a_change_is_kept_whole_or_not_at_all(book: &dyn Notebook) {
    put(book, "a", "x", "one").unwrap();
    book.amend(&mut |notes| {
        notes.put("a", "x", "two")?;
        notes.put("a", "y", "new")?;
        Ok(false)
    })
    .unwrap();
    let failed = book.amend(&mut |notes| {
        notes.remove("a", "x")?;
        Err(StoreError::Answered(7))
    });
    assert_eq!(failed, Err(StoreError::Answered(7)));
    assert_eq!((note(book, "x").as_deref(), note(book, "y")), (Some("one"), None));
}

/// Inside of a change the notes are as the change has made them.
pub fn a_change_sees_its_own_writes(book: &dyn Notebook) {
    put(book, "a", "x", "one").unwrap();
    book.amend(&mut |notes| {
        assert_eq!(notes.get("a", "x")?.as_deref(), Some("one"));
        notes.put("a", "z", "new")?;
        notes.put("a", "x", "two")?;
        assert_eq!(notes.get("a", "x")?.as_deref(), Some("two"));
        assert_eq!(notes.keys("a")?, ["x", "z"]);
        assert_eq!(
            notes.all("a")?,
            [("x", "two"), ("z", "new")].map(|(key, body)| (key.into(), body.into()))
        );
        notes.remove("a", "x")?;
        assert_eq!((notes.get("a", "x")?, notes.keys("a")?), (None, vec!["z".to_owned()]));
        Ok(true)
    })
    .unwrap();
    assert_eq!((note(book, "x"), note(book, "z").as_deref()), (None, Some("new")));
}

/// Many who count at once count to the sum.
pub fn no_update_is_lost(book: &dyn Notebook) {
    const THREADS: u64 = 4;
    const EACH: u64 = 25;
    let count = |text: Option<String>| text.map_or(0, |text| text.parse::<u64>().unwrap());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    book.amend(&mut |notes| {
                        let next = count(notes.get("a", "x")?) + 1;
                        notes.put("a", "x", &next.to_string()).map(|()| true)
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(count(note(book, "x")), THREADS * EACH);
}

/// What is too large is refused with its limit, and what is not is taken.
pub fn every_limit_of_a_note_trips(book: &dyn Notebook) {
    let name = "n".repeat(MAX_NOTE_NAME_BYTES);
    put(book, &name, &name, "").unwrap();
    let long = format!("{name}n");
    for (kind, key) in [(long.as_str(), "x"), ("a", long.as_str())] {
        let refused = put(book, kind, key, "");
        assert!(
            matches!(refused, Err(StoreError::TooLarge { most: MAX_NOTE_NAME_BYTES, .. })),
            "{refused:?}"
        );
    }
    let mut body = "b".repeat(MAX_NOTE_BYTES);
    put(book, "a", "x", &body).unwrap();
    body.push('b');
    let refused = put(book, "a", "x", &body);
    assert!(matches!(refused, Err(StoreError::TooLarge { most: MAX_NOTE_BYTES, .. })), "{refused:?}");
    assert_eq!(note(book, "x").map(|body| body.len()), Some(MAX_NOTE_BYTES));
}
