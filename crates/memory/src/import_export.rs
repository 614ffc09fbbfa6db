//! Carries a whole memory in and out: the `memory.json` of the FTL plugin (docs/origins.md).
//!
//! Nothing is lost on the way: unknown keys stay, in entries and around them. A file that is not what it
//! must be is refused as a whole, with the path to the first thing that is wrong.

use rusqlite::OptionalExtension as _;

use crate::error::Error;
use crate::learn::{Warning, merge};
use crate::lesson::{Keys as _, Lesson, StoredKind};
use crate::lessons::Lessons;
use crate::scan;
use crate::text;
use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};

/// The version of the file that this reads and writes.
pub const VERSION: &str = "1.0";

const VERSION_KEY: &str = "_schema_version";
const AROUND: &str = "around";
const HINT: &str = "correct the file, or take it away to start with what the store holds";

/// Whether a file adds to the memory or takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    /// The lessons of the store stay; an entry with a known name and the same trigger is united with its lesson.
    Add,
    /// The lessons of the store go, but for those in quarantine.
    Replace,
}

/// What an import has brought, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// How many failures are new.
    pub failures: usize,
    /// How many patterns are new.
    pub patterns: usize,
    /// Entries that were there already, united with theirs.
    pub united: usize,
    /// Names that were taken, and entries in quarantine.
    pub warnings: Vec<Warning>,
}

impl Lessons<'_> {
    /// Reads a `memory.json`. All of it comes in, or nothing.
    pub fn import(&self, file: &str, mode: ImportMode) -> Result<Imported, Error> {
        let (lessons, around) = read(file)?;
        let trusted = match mode {
            ImportMode::Add => Vec::new(),
            ImportMode::Replace => self.clear()?,
        };
        let mut writer = self.vectors()?;
        self.set_around(&around)?;
        let mut report = Imported::default();
        for mut lesson in lessons {
            name(&mut lesson);
            let known = trusted.binary_search(&text::fingerprint(&lesson.readable())).is_ok();
            let why = if known { Vec::new() } else { scan::scan(&lesson.readable()) };
            if (mode == ImportMode::Add || !why.is_empty()) && self.united(&lesson)? {
                report.united += 1;
                continue;
            }
            report.warnings.extend(self.rename(&mut lesson)?);
            if !why.is_empty() {
                report.warnings.push(Warning::Quarantined(why.iter().map(ToString::to_string).collect()));
            }
            self.insert(&lesson, &why, &mut writer)?;
            *(match lesson.kind() {
                StoredKind::Failure => &mut report.failures,
                StoredKind::Pattern => &mut report.patterns,
            }) += 1;
        }
        writer.finish()?;
        Ok(report)
    }

    /// The whole memory as the FTL plugin writes it. What is in quarantine is part of it only if asked for,
    /// because agents may read the file.
    pub fn export(&self, with_quarantine: bool) -> Result<Json, Error> {
        let list = |kind: StoredKind| -> Result<Json, Error> {
            let kept = self.all(kind)?.into_iter().filter(|kept| with_quarantine || !kept.quarantined);
            Ok(Json::Array(kept.map(|kept| kept.lesson.into_json()).collect()))
        };
        let mut file = Object::new();
        for kind in StoredKind::ALL {
            file.set(kind.list(), list(kind)?);
        }
        file.set(VERSION_KEY, VERSION);
        self.around()?.iter().for_each(|(key, value)| file.set(key, value.clone()));
        Ok(file.into())
    }

    /// Takes every lesson away but those in quarantine, which no file shows. Fingerprints of those that were not in quarantine, sorted.
    fn clear(&self) -> Result<Vec<i64>, Error> {
        let mut trusted = Vec::new();
        for kind in StoredKind::ALL {
            let honest = self.all(kind)?.into_iter().filter(|kept| !kept.quarantined);
            trusted.extend(honest.map(|kept| text::fingerprint(&kept.lesson.readable())));
        }
        self.db.execute_batch(
            "DELETE FROM lesson WHERE quarantine IS NULL; DELETE FROM lesson_vectors;
             DELETE FROM lesson_setting WHERE key IN ('embedder', 'around');
             INSERT INTO lesson_words (lesson_words) VALUES ('delete-all');",
        )?;
        trusted.sort_unstable();
        Ok(trusted)
    }

    /// Unites an entry with the one of its name and trigger, if there is one.
    fn united(&self, lesson: &Lesson) -> Result<bool, Error> {
        let Some(mut known) = self.find_by_name(lesson.kind(), lesson.name())? else { return Ok(false) };
        if text::normalise(known.lesson.trigger()) != text::normalise(lesson.trigger()) {
            return Ok(false);
        }
        let suspicious = !scan::scan(&lesson.readable()).is_empty();
        if suspicious != known.quarantined {
            return Ok(false);
        }
        merge(&mut known.lesson, lesson);
        for (key, value) in lesson.body().iter() {
            if known.lesson.body().get(key).is_none() {
                known.lesson.set(key, value.clone());
            }
        }
        for key in ["access_count", "times_helped", "times_failed"] {
            if lesson.count(key) > known.lesson.count(key) {
                known.lesson.set(key, lesson.count(key));
            }
        }
        self.update(&known)?;
        self.update_index(&known)?;
        Ok(true)
    }

    fn around(&self) -> Result<Object, Error> {
        let mut select = self.db.prepare_cached("SELECT value FROM lesson_setting WHERE key = ?1")?;
        let text: Option<String> = select.query_row([AROUND], |row| row.get(0)).optional()?;
        let around = text.and_then(|text| Json::parse(&text).ok());
        Ok(around.as_ref().and_then(Json::as_object).cloned().unwrap_or_default())
    }

    fn set_around(&self, around: &Object) -> Result<(), Error> {
        if around.is_empty() {
            return Ok(());
        }
        let mut all = self.around()?;
        around.iter().for_each(|(key, value)| all.set(key, value.clone()));
        let sql = "INSERT OR REPLACE INTO lesson_setting (key, value) VALUES (?1, ?2)";
        self.db.prepare_cached(sql)?.execute([AROUND, &Json::Object(all).to_string()])?;
        Ok(())
    }
}

/// The lessons of a file, and what else stands in it.
fn read(file: &str) -> Result<(Vec<Lesson>, Object), Error> {
    let json = Json::parse(file).map_err(|what| Error::refuse("", what.to_string(), HINT))?;
    let what = json.kind();
    let Json::Object(mut around) = json else {
        return Err(Error::refuse("", format!("expected an object, found {what}"), HINT));
    };
    match around.shift_remove(VERSION_KEY) {
        None => {}
        Some(version) if version.as_str() == Some(VERSION) => {}
        Some(version) => {
            let what = format!("expected \"{VERSION}\", found {version}");
            return Err(Error::refuse(VERSION_KEY, what, HINT));
        }
    }
    let mut lessons = Vec::new();
    for kind in StoredKind::ALL {
        let list = match around.shift_remove(kind.list()) {
            Some(Json::Array(list)) => list,
            Some(other) => {
                let what = format!("expected a list, found {}", other.kind());
                return Err(Error::refuse(kind.list(), what, HINT));
            }
            None => Vec::new(),
        };
        for (at, entry) in list.into_iter().enumerate() {
            lessons.push(Lesson::read(kind, entry, &format!("{}[{at}]", kind.list()))?);
        }
    }
    Ok((lessons, around))
}

/// An entry without a name gets the one that it would have had.
fn name(lesson: &mut Lesson) {
    if lesson.name().is_empty() {
        let slug = crate::lesson::slug(lesson.trigger());
        lesson.set("name", if slug.is_empty() { "lesson".to_owned() } else { slug });
    }
}
