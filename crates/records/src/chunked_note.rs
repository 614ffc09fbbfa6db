//! A long note in parts: the head of an object, and every item of its list as a small note of its own.
//!
//! A change of one task of a thousand writes one small note, not all of them. Parts stand under the kind of
//! their head, so that one look sees all as they were at the same moment. Parts are read and written here and
//! nowhere else: what is seen is always whole. A note that an earlier version kept whole (it did so with every list of more
//! than two thousand items) is read as it is, and becomes parts with its next change.

use std::collections::BTreeSet;

use super::projected::{NoteForm, Projected};
use super::raw::{self, Split};
use ftl_core::json::{self, Json, JsonExt as _};
use ftl_store::{Notebook, Notes, StoreError};
use serde::ser::{Error as _, Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

/// How many changes are remembered.
pub(super) const MAX_TRAIL: usize = 64;

/// The kind of notes that say what was changed last, by the kind that it is about.
const TRAIL: &str = "trail";

/// An object with a long list, and the texts of its items without white space.
#[derive(Debug)]
pub(super) struct Sheet {
    before: String,
    items: Vec<String>,
    after: String,
    /// Whether it is kept in parts.
    is_parted: bool,
}

impl Sheet {
    /// The sheet as it is in the middle of a change.
    pub(super) fn fetch(notes: &mut dyn Notes, what: &Projected) -> Result<Option<Sheet>, StoreError> {
        Sheet::of(what, notes.all(&what.kind)?)
    }

    /// The sheet as it is now.
    pub(super) fn now(book: &dyn Notebook, what: &Projected) -> Result<Option<Sheet>, StoreError> {
        Sheet::of(what, book.notes(&what.kind)?)
    }

    /// Puts the notes of a kind together.
    fn of(what: &Projected, notes: Vec<(String, String)>) -> Result<Option<Sheet>, StoreError> {
        let (mut head, mut items) = (None, Vec::new());
        for (key, body) in notes {
            if key == *what.key {
                head = Some(body);
            } else if key == part(what, items.len()) {
                items.push(body);
            } else {
                return Err(StoreError::Corrupt(format!("the note {} {key} has no place", what.kind)));
            }
        }
        let Some(head) = head else { return Ok(None) };
        let mut sheet = Sheet::read(&head, what)?;
        if sheet.is_parted {
            sheet.items = items;
        }
        Ok(Some(sheet))
    }

    /// Takes a whole body apart, or the head of a parted one. An object without the list has no items.
    fn read(body: &str, what: &Projected) -> Result<Sheet, StoreError> {
        if let Some(Split { before, items, after }) = raw::split(body, list(what)) {
            let is_parted = items.is_empty();
            let items = items.into_iter().map(str::to_owned).collect();
            return Ok(Sheet { before: before.to_owned(), items, after: after.to_owned(), is_parted });
        }
        match parsed(body)?.get(list(what)) {
            None | Some(Json::Null) => {
                let (before, after) = (body.to_owned(), String::new());
                Ok(Sheet { before, items: Vec::new(), after, is_parted: false })
            }
            Some(_) => Err(StoreError::Corrupt(format!("the {} of a note are no list", list(what)))),
        }
    }

    /// The texts of its items.
    pub(super) fn items(&self) -> &[String] {
        &self.items
    }

    /// Puts a text in the place of an item's.
    pub(super) fn set(&mut self, at: usize, text: String) {
        if let Some(item) = self.items.get_mut(at) {
            *item = text;
        }
    }

    /// Whether it is kept in parts.
    pub(super) fn is_parted(&self) -> bool {
        self.is_parted
    }

    /// The object without its items.
    pub(super) fn head(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    /// All of it, without white space.
    pub(super) fn body(&self) -> String {
        let bytes = self.items.iter().map(|item| item.len() + 1).sum::<usize>();
        let mut body = String::with_capacity(self.before.len() + bytes + self.after.len());
        body.push_str(&self.before);
        for (at, item) in self.items.iter().enumerate() {
            if at > 0 {
                body.push(',');
            }
            body.push_str(item);
        }
        body.push_str(&self.after);
        body
    }

    /// All of it, laid out for people.
    pub(super) fn pretty(&self, what: &Projected) -> Result<String, StoreError> {
        let whole = Whole { head: parsed(&self.head())?, list: list(what), items: &self.items };
        json::pretty(&whole)
            .map_err(|error| StoreError::Corrupt(format!("a note is not valid JSON: {error}")))
    }

    /// Whether it has a list that is kept in parts, however long that is: the cost of a change is that of its item.
    fn can_part(&self) -> bool {
        !self.after.is_empty()
    }

    /// Keeps it, where only these items were set since it was fetched.
    pub(super) fn keep(
        &self,
        notes: &mut dyn Notes,
        what: &Projected,
        set: &[usize],
    ) -> Result<(), StoreError> {
        if !self.is_parted || !self.can_part() {
            return self.keep_all(notes, what);
        }
        set.iter().try_for_each(|at| match self.items.get(*at) {
            Some(item) => notes.put(&what.kind, &part(what, *at), item),
            None => Ok(()),
        })?;
        leave_trail(notes, what, &set.iter().map(|at| Some(*at)).collect::<Vec<_>>())
    }

    /// Keeps all of it. A part that is kept already is not written again, and what is left over goes.
    fn keep_all(&self, notes: &mut dyn Notes, what: &Projected) -> Result<(), StoreError> {
        let (head, items) = match self.can_part() {
            true => (self.head(), self.items.as_slice()),
            false => (self.body(), &[][..]),
        };
        let mut old = notes.all(&what.kind)?.into_iter().peekable();
        let mut place = |notes: &mut dyn Notes, key: &str, body: &str| {
            let is_there = match old.next_if(|(found, _)| found == key) {
                Some((_, found)) => found == body,
                None => false,
            };
            if is_there { Ok(()) } else { notes.put(&what.kind, key, body) }
        };
        place(notes, &what.key, &head)?;
        for (at, item) in items.iter().enumerate() {
            place(notes, &part(what, at), item)?;
        }
        old.try_for_each(|(key, _)| notes.remove(&what.kind, &key))?;
        leave_trail(notes, what, &[None])
    }
}

/// A sheet as one object, of whose items only one at a time becomes a tree.
struct Whole<'a> {
    head: Json,
    list: &'a str,
    items: &'a [String],
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (name, value) in self.head.fields() {
            match name == self.list && value.is_array() {
                true => map.serialize_entry(name, &Items(self.items))?,
                false => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// The texts of items, as what they say.
struct Items<'a>(&'a [String]);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        for item in self.0 {
            list.serialize_element(&Json::parse(item).map_err(S::Error::custom)?)?;
        }
        list.end()
    }
}

/// The body of a note, however it is kept, in the middle of a change.
pub(super) fn fetch(notes: &mut dyn Notes, what: &Projected) -> Result<Option<String>, StoreError> {
    match what.form {
        NoteForm::Text | NoteForm::Json => notes.get(&what.kind, &what.key),
        NoteForm::Rows(_) => Ok(Sheet::fetch(notes, what)?.map(|sheet| sheet.body())),
    }
}

/// The body of a note, however it is kept, as it is now.
pub(super) fn fetch_now(book: &dyn Notebook, what: &Projected) -> Result<Option<String>, StoreError> {
    match what.form {
        NoteForm::Text | NoteForm::Json => book.note(&what.kind, &what.key),
        NoteForm::Rows(_) => Ok(Sheet::now(book, what)?.map(|sheet| sheet.body())),
    }
}

/// Keeps the body of a note, in parts where it has some.
pub(super) fn stow(notes: &mut dyn Notes, what: &Projected, body: &str) -> Result<(), StoreError> {
    match what.form {
        NoteForm::Text | NoteForm::Json => notes.put(&what.kind, &what.key, body),
        NoteForm::Rows(_) => Sheet::read(body, what)?.keep_all(notes, what),
    }
}

/// Removes a note with all of its parts; whether it was there.
pub(super) fn drop_note(notes: &mut dyn Notes, what: &Projected) -> Result<bool, StoreError> {
    let is_there = notes.get(&what.kind, &what.key)?.is_some();
    let keys = match what.form {
        NoteForm::Text | NoteForm::Json => vec![what.key.to_string()],
        NoteForm::Rows(_) => notes.keys(&what.kind)?,
    };
    keys.iter().try_for_each(|key| notes.remove(&what.kind, key))?;
    if let (NoteForm::Rows(_), true) = (what.form, is_there) {
        leave_trail(notes, what, &[None])?;
    }
    Ok(is_there)
}

/// The object without its items, and whether it is kept in parts.
pub(super) fn head_of(body: &str, what: &Projected) -> Result<(Json, bool), StoreError> {
    match raw::split(body, list(what)) {
        Some(found) => Ok((parsed(&format!("{}{}", found.before, found.after))?, found.items.is_empty())),
        None => Ok((parsed(body)?, false)),
    }
}

/// One item of a note that is kept in parts.
pub(super) fn item(notes: &mut dyn Notes, what: &Projected, at: usize) -> Result<Option<String>, StoreError> {
    notes.get(&what.kind, &part(what, at))
}

/// Puts a text in the place of one item of a note that is kept in parts.
pub(super) fn put_item(
    notes: &mut dyn Notes,
    what: &Projected,
    (at, text): (usize, &str),
) -> Result<(), StoreError> {
    notes.put(&what.kind, &part(what, at), text)?;
    leave_trail(notes, what, &[Some(at)])
}

/// One item of a note that is kept in parts, as it is now.
pub(super) fn item_now(
    book: &dyn Notebook,
    what: &Projected,
    at: usize,
) -> Result<Option<String>, StoreError> {
    book.note(&what.kind, &part(what, at))
}

/// What was changed last: for those who look again and again and need not read all of it each time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    /// How often anything was changed.
    pub(super) count: u64,
    /// The newest changes, the last one at the end: one item, or more than that.
    last: Vec<Option<usize>>,
}

impl Trail {
    /// The trail as it is now. A reader of items too reads this first: what is newer than it stands in the next one.
    pub(super) fn now(book: &dyn Notebook, what: &Projected) -> Result<Trail, StoreError> {
        Ok(Trail::read(book.note(TRAIL, &what.kind)?.as_deref().unwrap_or_default()))
    }

    /// What was written down; what cannot be read is the trail of nothing.
    fn read(text: &str) -> Trail {
        let mut words = text.split(' ');
        let Some(Ok(count)) = words.next().map(str::parse) else { return Trail::default() };
        Trail { count, last: words.map(|word| word.parse().ok()).collect() }
    }

    /// The items that were changed since there were so many changes; nothing where that cannot be told.
    pub(super) fn since(&self, count: u64) -> Option<BTreeSet<usize>> {
        let new = usize::try_from(self.count.checked_sub(count)?).ok()?;
        let first = self.last.len().checked_sub(new)?;
        self.last[first..].iter().copied().collect()
    }
}

/// Writes down what was changed, in the same change.
fn leave_trail(notes: &mut dyn Notes, what: &Projected, changed: &[Option<usize>]) -> Result<(), StoreError> {
    let before = notes.get(TRAIL, &what.kind)?;
    let Trail { count, mut last } = Trail::read(before.as_deref().unwrap_or_default());
    last.extend_from_slice(changed);
    let last = &last[last.len().saturating_sub(MAX_TRAIL)..];
    let mut text = (count + changed.len() as u64).to_string();
    for one in last {
        text.push(' ');
        text.push_str(&one.map_or("*".to_owned(), |at| at.to_string()));
    }
    notes.put(TRAIL, &what.kind, &text)
}

/// The key of an item: in the order of keys, items stand behind their head in the order of the list. Six digits are
/// enough for `MAX_TASKS` of the plan's graph.
fn part(what: &Projected, at: usize) -> String {
    format!("{}.{at:06}", what.key)
}

fn list(what: &Projected) -> &'static str {
    match what.form {
        NoteForm::Text | NoteForm::Json => "",
        NoteForm::Rows(list) => list,
    }
}

fn parsed(body: &str) -> Result<Json, StoreError> {
    Json::parse(body).map_err(|error| StoreError::Corrupt(format!("a note is {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_tells_what_is_new_and_no_more_than_it_knows() {
        let trail = Trail::read("7 4 * 2 2");
        let since = |count| trail.since(count).map(Vec::from_iter);
        assert_eq!((since(7), since(6), since(5)), (Some(vec![]), Some(vec![2]), Some(vec![2])));
        assert_eq!(
            (since(4), since(3), since(2)),
            (None, None, None),
            "more than one item, and further back"
        );
        assert_eq!(since(8), None, "another trail");
        for bad in ["", "x", "-1 2"] {
            assert_eq!(Trail::read(bad), Trail::default(), "{bad}");
        }
    }
}
