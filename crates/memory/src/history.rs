//! What people did to lessons: edited, merged, retired; kept so that each of it can be shown and undone.
//!
//! A change keeps the lessons as they were before it. Feedback and counts are no changes: they are not undone, and an undo keeps those of today.

use rusqlite::params;

use crate::error::Error;
use crate::learn::merge;
use crate::lesson::{Lesson, StoredKind};
use crate::lessons::{Lessons, StoredLesson};
use crate::relate;
use crate::scan;
use crate::time::Now;
use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};

/// So many changes of a lesson are kept, the newest.
pub const MAX_CHANGES: usize = 100;

/// The fields of a lesson that a person may set.
const EDITABLE: [&str; 7] = ["trigger", "fix", "insight", "match", "tags", "cost", "saved"];

/// What an undo leaves as it is.
const COUNTS: [&str; 5] = ["access_count", "last_accessed", "times_helped", "times_failed", "credited"];

/// What was done to a lesson.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonChange {
    /// The number of the change, counted from 1.
    pub number: u64,
    /// `edit`, `merge`, `retire`, `restore` or `undo`.
    pub what: String,
    /// Who did it.
    pub by: String,
    /// When, in local time.
    pub at: String,
    /// Whether it was undone.
    pub undone: bool,
    /// The lessons as they were before, the lesson itself first.
    pub before: Vec<Json>,
}

impl LessonChange {
    /// `{number, what, by, at, undone, before}`.
    pub fn to_json(&self) -> Json {
        let row = Object::new().with("number", self.number).with("what", self.what.as_str());
        let row = row.with("by", self.by.as_str()).with("at", self.at.as_str());
        row.with("undone", self.undone).with("before", Json::Array(self.before.clone())).into()
    }

    fn read(number: u64, text: &str) -> Option<LessonChange> {
        let json = Json::parse(text).ok()?;
        let said = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Some(LessonChange {
            number,
            what: said("what"),
            by: said("by"),
            at: said("at"),
            undone: json.get("undone").and_then(Json::as_bool).unwrap_or(false),
            before: json.get("before").map(Json::items).unwrap_or_default().to_vec(),
        })
    }
}

/// Who changes a lesson, and when.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// Their name.
    pub by: &'a str,
    /// The time.
    pub now: &'a Now,
}

impl Lessons<'_> {
    /// Sets fields of a lesson. `false` if there is none of that name.
    pub fn edit(
        &self,
        kind: StoredKind,
        name: &str,
        fields: &Object,
        author: Author<'_>,
    ) -> Result<bool, Error> {
        let Some(kept) = self.editable(kind, name)? else { return Ok(false) };
        let mut body = kept.lesson.body().clone();
        for (key, value) in fields.iter() {
            if !EDITABLE.contains(&key.as_ref()) {
                return Err(Error::refuse(
                    key.as_ref() as &str,
                    "cannot be set",
                    "set trigger, fix, match, tags or cost",
                ));
            }
            body.set(key, value.clone());
        }
        let edited = Lesson::read(kind, Json::Object(body), "")?;
        if let Some(why) = scan::scan(&edited.readable()).first() {
            return Err(Error::refuse(
                "",
                why.to_string(),
                "a lesson is given to agents; say it without that",
            ));
        }
        self.note(&kept, "edit", author, Vec::new())?;
        self.rewrite(&StoredLesson { lesson: edited, ..kept })?;
        Ok(true)
    }

    /// Unites a lesson with another, which stays: sources, tags and counts are joined, and a fix that is missing is taken over. `false` if one
    /// of them is not there.
    pub fn merge_into(
        &self,
        kind: StoredKind,
        name: &str,
        into: &str,
        author: Author<'_>,
    ) -> Result<bool, Error> {
        if name == into {
            return Err(Error::refuse("", "a lesson cannot be merged into itself", "name two lessons"));
        }
        let (Some(gone), Some(mut kept)) = (self.editable(kind, name)?, self.editable(kind, into)?) else {
            return Ok(false);
        };
        self.note(&kept, "merge", author, vec![gone.lesson.clone().into_json()])?;
        merge(&mut kept.lesson, &gone.lesson);
        for key in ["access_count", "times_helped", "times_failed"] {
            kept.lesson.set(key, kept.lesson.count(key).saturating_add(gone.lesson.count(key)));
        }
        self.rewrite(&kept)?;
        self.remove(&[gone.id])?;
        let mut names = [Vec::new(), Vec::new()];
        names[usize::from(kind == StoredKind::Pattern)].push(name.to_owned());
        let names = names.map(|names| names.into_iter().collect());
        for kind in StoredKind::ALL {
            for mut other in self.all(kind)? {
                if relate::forget(&mut other.lesson, &names) {
                    self.update(&other)?;
                }
            }
        }
        Ok(true)
    }

    /// The changes of a lesson, the oldest first.
    pub fn history(&self, kind: StoredKind, name: &str) -> Result<Vec<LessonChange>, Error> {
        let first = key(kind, name, 0);
        let last = key(kind, name, u64::MAX);
        let sql = "SELECT key, value FROM lesson_setting WHERE key >= ?1 AND key <= ?2 ORDER BY key";
        let mut select = self.db.prepare_cached(sql)?;
        let mut rows = select.query(params![first, last])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, text): (String, String) = (row.get(0)?, row.get(1)?);
            let number = key.rsplit(PART).next().and_then(|number| number.parse().ok()).unwrap_or(0);
            found.extend(LessonChange::read(number, &text));
        }
        Ok(found)
    }

    /// Takes the newest change back that was not undone yet; the change. `None` if there is none.
    pub fn undo(
        &self,
        kind: StoredKind,
        name: &str,
        author: Author<'_>,
    ) -> Result<Option<LessonChange>, Error> {
        let changes = self.history(kind, name)?;
        let Some(change) = changes.into_iter().rev().find(|one| !one.undone && one.what != "undo") else {
            return Ok(None);
        };
        let Some(kept) = self.editable(kind, name)? else { return Ok(None) };
        let mut before = change.before.iter();
        let Some(Json::Object(mut body)) = before.next().cloned() else { return Ok(None) };
        for key in COUNTS {
            if let Some(count) = kept.lesson.body().get(key) {
                body.set(key, count.clone());
            }
        }
        let lesson = Lesson::read(kind, Json::Object(body), "")?;
        self.note(&kept, "undo", author, Vec::new())?;
        self.mark_undone(kind, name, &change)?;
        self.rewrite(&StoredLesson { lesson, ..kept })?;
        let mut writer = self.vectors()?;
        for gone in before {
            let mut gone = Lesson::read(kind, gone.clone(), "")?;
            self.rename(&mut gone)?;
            self.insert(&gone, &[], &mut writer)?;
        }
        writer.finish()?;
        Ok(Some(change))
    }

    /// Takes a lesson out of what is given to agents, or lets it back in. `false` if it is so already, or not there.
    pub fn retire(
        &self,
        kind: StoredKind,
        name: &str,
        why: Option<&str>,
        author: Author<'_>,
    ) -> Result<bool, Error> {
        let Some(mut kept) = self.editable(kind, name)? else { return Ok(false) };
        if kept.lesson.is_retired() == why.is_some() {
            return Ok(false);
        }
        self.note(&kept, if why.is_some() { "retire" } else { "restore" }, author, Vec::new())?;
        kept.lesson.set(crate::lesson::RETIRED, why.map_or(Json::Null, Json::from));
        self.update(&kept)?;
        Ok(true)
    }

    /// A lesson that is not in quarantine: what is there must be looked at and released first.
    fn editable(&self, kind: StoredKind, name: &str) -> Result<Option<StoredLesson>, Error> {
        match self.find_by_name(kind, name)? {
            Some(kept) if kept.quarantined => Err(Error::refuse(
                "",
                format!("`{name}` is in quarantine"),
                "look at it with \"ftl memory quarantine\", and release it first",
            )),
            found => Ok(found),
        }
    }

    fn note(
        &self,
        kept: &StoredLesson,
        what: &str,
        author: Author<'_>,
        also: Vec<Json>,
    ) -> Result<(), Error> {
        let (kind, name) = (kept.lesson.kind(), kept.lesson.name());
        let changes = self.history(kind, name)?;
        let number = changes.last().map_or(1, |newest| newest.number + 1);
        let mut before = vec![kept.lesson.clone().into_json()];
        before.extend(also);
        let change = LessonChange {
            number,
            what: what.to_owned(),
            by: author.by.to_owned(),
            at: author.now.local.clone(),
            undone: false,
            before,
        };
        self.keep(kind, name, &change)?;
        for old in changes.iter().take((changes.len() + 1).saturating_sub(MAX_CHANGES)) {
            let sql = "DELETE FROM lesson_setting WHERE key = ?1";
            self.db.prepare_cached(sql)?.execute([key(kind, name, old.number)])?;
        }
        Ok(())
    }

    fn mark_undone(&self, kind: StoredKind, name: &str, change: &LessonChange) -> Result<(), Error> {
        self.keep(kind, name, &LessonChange { undone: true, ..change.clone() })
    }

    fn keep(&self, kind: StoredKind, name: &str, change: &LessonChange) -> Result<(), Error> {
        let sql = "INSERT OR REPLACE INTO lesson_setting (key, value) VALUES (?1, ?2)";
        let text = change.to_json().to_string();
        self.db.prepare_cached(sql)?.execute(params![key(kind, name, change.number), text])?;
        Ok(())
    }
}

/// Separates the parts of a key; no name holds it.
const PART: char = '\u{1f}';

fn key(kind: StoredKind, name: &str, number: u64) -> String {
    format!("history{PART}{}{PART}{name}{PART}{number:020}", kind.word())
}
