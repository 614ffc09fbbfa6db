//! The lessons over a connection: kept, indexed, read back.
//!
//! What is written here is written inside the engine's transaction. A lesson and its two indexes always
//! change together, so that a search never finds what is not there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::embed::{Embedder, Vector};
use crate::error::Error;
use crate::evidence::LessonTerms;
use crate::lesson::{Keys as _, Lesson, StoredKind};
use crate::scan::Suspicion;
use crate::vectors::Writer;
use crate::{terms, text};
use ftl_core::json::Json;

const EMBEDDER: &str = "embedder";

/// The vector of a lesson lies between its trigger and its fix or insight.
const REMEDY_SHARE: f32 = 1.0;

/// Names how lessons are indexed: the terms, and how vectors lie. A store that was indexed otherwise is indexed again.
const FORM: &str = "terms-1 signs-1";

/// The columns that [`read`] wants, in its order.
pub(crate) const COLUMNS: &str = "id, kind, quarantine, body";

/// The lessons of one store, with the embedder in use.
#[derive(Clone, Copy)]
pub struct Lessons<'c> {
    pub(crate) db: &'c Connection,
    pub(crate) embedder: &'c dyn Embedder,
    /// What was read already, while many questions are asked in a row.
    pub(crate) memo: Option<&'c Memo>,
}

/// A lesson made ready to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) kept: StoredLesson,
    pub(crate) terms: LessonTerms,
}

/// Candidates that were read already. It stands for as long as nothing is written.
#[derive(Debug, Default)]
pub(crate) struct Memo(pub(crate) RefCell<BTreeMap<i64, Rc<Candidate>>>);

/// A lesson with its number in the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredLesson {
    pub(crate) id: i64,
    pub(crate) lesson: Lesson,
    pub(crate) quarantined: bool,
}

/// A lesson that is kept away from agents.
#[derive(Clone, Debug, PartialEq)]
pub struct Quarantined {
    /// The lesson as it was stored.
    pub lesson: Lesson,
    /// The reasons for which it is kept away.
    pub reasons: Vec<String>,
}

impl<'c> Lessons<'c> {
    /// Looks at the lessons of a connection whose tables are there already.
    pub fn new(db: &'c Connection, embedder: &'c dyn Embedder) -> Lessons<'c> {
        Lessons { db, embedder, memo: None }
    }

    /// How many lessons of a kind there are, quarantine included.
    pub fn count(&self, kind: StoredKind) -> Result<u64, Error> {
        let mut select = self.db.prepare_cached("SELECT count(*) FROM lesson WHERE kind = ?1")?;
        let count: i64 = select.query_row([kind.number()], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The lesson of that name.
    pub fn find(&self, kind: StoredKind, name: &str) -> Result<Option<Lesson>, Error> {
        Ok(self.find_by_name(kind, name)?.map(|kept| kept.lesson))
    }

    /// What is in quarantine, in the order in which it came, with the reasons.
    pub fn quarantined(&self) -> Result<Vec<Quarantined>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM lesson WHERE quarantine IS NOT NULL ORDER BY id");
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let reasons: String = row.get(2)?;
            let reasons = reasons.lines().map(str::to_owned).collect();
            found.push(Quarantined { lesson: read(row)?.lesson, reasons });
        }
        Ok(found)
    }

    /// Lets a lesson out of quarantine, because a person looked at it. `false` if there is none.
    pub fn release(&self, kind: StoredKind, name: &str) -> Result<bool, Error> {
        let Some(kept) = self.find_by_name(kind, name)?.filter(|kept| kept.quarantined) else {
            return Ok(false);
        };
        self.db.prepare_cached("UPDATE lesson SET quarantine = NULL WHERE id = ?1")?.execute([kept.id])?;
        self.index(kept.id, &kept.lesson)?;
        Ok(true)
    }

    /// Of which embedder the stored vectors are; `None` as long as there are none.
    pub fn embedded_by(&self) -> Result<Option<String>, Error> {
        let stored = self.stored_form()?;
        Ok(stored.map(|form| form.strip_suffix(FORM).map_or(form.clone(), |id| id.trim_end().to_owned())))
    }

    /// Whether the index is of the embedder in use and of this version, so that meaning can be searched.
    pub fn has_meaning(&self) -> Result<bool, Error> {
        Ok(self.stored_form()?.is_some_and(|form| form == self.form()))
    }

    fn stored_form(&self) -> Result<Option<String>, Error> {
        let mut select = self.db.prepare_cached("SELECT value FROM lesson_setting WHERE key = ?1")?;
        Ok(select.query_row([EMBEDDER], |row| row.get(0)).optional()?)
    }

    /// Indexes every lesson again, words and vectors, if it was done by another embedder or by an earlier version. `progress` is told
    /// how many of how many are done. The number of lessons indexed.
    pub fn embed_again(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, Error> {
        if self.has_meaning()? {
            return Ok(0);
        }
        self.db.execute_batch(
            "DELETE FROM lesson_vectors; INSERT INTO lesson_words (lesson_words) VALUES ('delete-all');",
        )?;
        self.set_embedder()?;
        let sql = "SELECT count(*) FROM lesson WHERE quarantine IS NULL";
        let total: i64 = self.db.query_row(sql, [], |row| row.get(0))?;
        let total = u64::try_from(total).unwrap_or(0);
        let sql = format!("SELECT {COLUMNS} FROM lesson WHERE quarantine IS NULL ORDER BY id");
        let mut select = self.db.prepare(&sql)?;
        let mut rows = select.query([])?;
        let mut writer = Writer::new(self.db, self.embedder.dims());
        let mut done = 0;
        while let Some(row) = rows.next()? {
            let kept = read(row)?;
            self.index_words(kept.id, &kept.lesson)?;
            writer.put(kept.id, kept.lesson.kind(), &self.vector_of(&kept.lesson))?;
            done += 1;
            progress(done, total);
        }
        writer.finish()?;
        Ok(done)
    }

    /// Every lesson of a kind, in the order in which they came.
    pub(crate) fn all(&self, kind: StoredKind) -> Result<Vec<StoredLesson>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM lesson WHERE kind = ?1 ORDER BY id");
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query([kind.number()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    pub(crate) fn find_by_name(&self, kind: StoredKind, name: &str) -> Result<Option<StoredLesson>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM lesson WHERE kind = ?1 AND name = ?2");
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query(params![kind.number(), name])?;
        rows.next()?.map(read).transpose()
    }

    pub(crate) fn by_id(&self, id: i64) -> Result<Option<StoredLesson>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM lesson WHERE id = ?1");
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query([id])?;
        rows.next()?.map(read).transpose()
    }

    /// Lessons of a kind whose normalised trigger has this fingerprint.
    pub(crate) fn with_fingerprint(
        &self,
        kind: StoredKind,
        fingerprint: i64,
    ) -> Result<Vec<StoredLesson>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM lesson WHERE kind = ?1 AND fingerprint = ?2 ORDER BY id LIMIT 64");
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query([kind.number(), fingerprint])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// The name itself, or with the first of `-2`, `-3` … that no lesson has.
    pub(crate) fn free_name(&self, kind: StoredKind, name: &str) -> Result<String, Error> {
        let mut select = self.db.prepare_cached("SELECT 1 FROM lesson WHERE kind = ?1 AND name = ?2")?;
        if !select.exists(params![kind.number(), name])? {
            return Ok(name.to_owned());
        }
        // Doubling first keeps a thousand namesakes from asking a thousand times.
        let mut taken = 1_u64;
        while select.exists(params![kind.number(), format!("{name}-{}", taken * 2)])? {
            taken *= 2;
        }
        let mut number = taken + 1;
        while number < taken * 2 && select.exists(params![kind.number(), format!("{name}-{number}")])? {
            number += 1;
        }
        Ok(format!("{name}-{number}"))
    }

    /// Stores a new lesson whose name is free, with both indexes unless it is suspicious.
    pub(crate) fn insert(
        &self,
        lesson: &Lesson,
        why: &[Suspicion],
        writer: &mut Writer<'_>,
    ) -> Result<i64, Error> {
        let reasons: Vec<String> = why.iter().map(ToString::to_string).collect();
        let quarantine = (!reasons.is_empty()).then(|| reasons.join("\n"));
        let sql = "INSERT INTO lesson (kind, name, fingerprint, value, wordless, quarantine, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.db.prepare_cached(sql)?.execute(params![
            lesson.kind().number(),
            lesson.name(),
            text::fingerprint(&text::normalise(lesson.trigger())),
            lesson.value(),
            is_wordless(lesson),
            quarantine,
            Json::Object(lesson.body().clone()).to_string(),
        ])?;
        let id = self.db.last_insert_rowid();
        if quarantine.is_none() {
            self.index_words(id, lesson)?;
            writer.put(id, lesson.kind(), &self.vector_of(lesson))?;
        }
        Ok(id)
    }

    /// Writes a lesson whose name and trigger are as they were.
    pub(crate) fn update(&self, kept: &StoredLesson) -> Result<(), Error> {
        let sql = "UPDATE lesson SET value = ?2, wordless = ?3, body = ?4 WHERE id = ?1";
        let body = Json::Object(kept.lesson.body().clone()).to_string();
        let values = params![kept.id, kept.lesson.value(), is_wordless(&kept.lesson), body];
        self.db.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Brings both indexes up to date, after the fix, the tags or the match of a lesson have changed.
    pub(crate) fn update_index(&self, kept: &StoredLesson) -> Result<(), Error> {
        if kept.quarantined {
            return Ok(());
        }
        self.db.prepare_cached("DELETE FROM lesson_words WHERE rowid = ?1")?.execute([kept.id])?;
        self.index(kept.id, &kept.lesson)
    }

    /// Writes a lesson whose trigger or fix may have changed, with both indexes; its name is as it was.
    pub(crate) fn rewrite(&self, kept: &StoredLesson) -> Result<(), Error> {
        let fingerprint = text::fingerprint(&text::normalise(kept.lesson.trigger()));
        let sql = "UPDATE lesson SET fingerprint = ?2 WHERE id = ?1";
        self.db.prepare_cached(sql)?.execute(params![kept.id, fingerprint])?;
        self.update(kept)?;
        self.update_index(kept)
    }

    /// Where a lesson points: to its trigger, leaning to what to do about it.
    fn vector_of(&self, lesson: &Lesson) -> Vector {
        let trigger = self.embedder.embed(lesson.trigger());
        if lesson.has_remedy() {
            trigger.leaning(&self.embedder.embed(lesson.remedy()), REMEDY_SHARE)
        } else {
            trigger
        }
    }

    /// Takes lessons out of the store and of both indexes.
    pub(crate) fn remove(&self, ids: &[i64]) -> Result<(), Error> {
        let mut writer = Writer::new(self.db, self.embedder.dims());
        let has_meaning = self.has_meaning()?;
        for id in ids {
            self.db.prepare_cached("DELETE FROM lesson_words WHERE rowid = ?1")?.execute([id])?;
            self.db.prepare_cached("DELETE FROM lesson WHERE id = ?1")?.execute([id])?;
            if has_meaning {
                writer.clear(*id)?;
            }
        }
        writer.finish()
    }

    /// A writer of vectors, if the stored ones are of the embedder in use or there are none yet.
    pub(crate) fn vectors(&self) -> Result<Writer<'c>, Error> {
        match self.stored_form()? {
            Some(stored) if stored != self.form() => {
                Err(Error::OtherEmbedder { stored, current: self.form() })
            }
            Some(_) => Ok(Writer::new(self.db, self.embedder.dims())),
            None => {
                self.set_embedder()?;
                Ok(Writer::new(self.db, self.embedder.dims()))
            }
        }
    }

    fn index(&self, id: i64, lesson: &Lesson) -> Result<(), Error> {
        self.index_words(id, lesson)?;
        let mut writer = self.vectors()?;
        writer.put(id, lesson.kind(), &self.vector_of(lesson))?;
        writer.finish()
    }

    fn index_words(&self, id: i64, lesson: &Lesson) -> Result<(), Error> {
        let sql = "INSERT INTO lesson_words (rowid, happens, rest) VALUES (?1, ?2, ?3)";
        let happens = terms::of_lesson(lesson.trigger()).join(" ");
        // Tags stand there as they are too, so that they are found as phrases.
        let rest = terms::of_lesson(&lesson.rest()).join(" ")
            + " "
            + &text::indexed(&lesson.texts("tags").join(" , "));
        self.db.prepare_cached(sql)?.execute(params![id, happens, rest])?;
        Ok(())
    }

    fn set_embedder(&self) -> Result<(), Error> {
        let sql = "INSERT OR REPLACE INTO lesson_setting (key, value) VALUES (?1, ?2)";
        self.db.prepare_cached(sql)?.execute([EMBEDDER, &self.form()])?;
        Ok(())
    }

    /// What the index says of itself when it is made now.
    fn form(&self) -> String {
        format!("{} {FORM}", self.embedder.id())
    }
}

/// Reads a row of the columns in [`COLUMNS`].
pub(crate) fn read(row: &Row<'_>) -> Result<StoredLesson, Error> {
    let id = row.get(0)?;
    let kind = match row.get::<_, i64>(1)? {
        1 => StoredKind::Failure,
        2 => StoredKind::Pattern,
        other => return Err(Error::Damaged { id, what: format!("no kind {other}") }),
    };
    let quarantined = !matches!(row.get_ref(2)?, rusqlite::types::ValueRef::Null);
    let body = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
    Ok(StoredLesson { id, lesson: Lesson::stored(kind, id, body)?, quarantined })
}

/// Whether it has a regular expression without a whole word, so that the index cannot find it.
fn is_wordless(lesson: &Lesson) -> bool {
    let matcher = lesson.matcher();
    !matcher.is_empty() && !crate::expression::has_word(matcher)
}
