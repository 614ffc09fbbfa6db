//! The archive: campaigns that have ended, and how much a new one is like them.
//!
//! A campaign goes into the archive once and is never changed there. Files that the FTL plugin (docs/origins.md)
//! left in `.ftl/archive/` are taken over with the first look.

use std::borrow::Cow;
use std::path::Path;

use super::campaign_state::{Campaign, PREVIEW_CHARS};
use super::projected::{NoteForm, Projected};
use super::projection::{json_text, keep};
use super::{RecordError, Records};
use ftl_core::json::{Json, JsonExt as _, Object};
use ftl_folder as folder;
use ftl_folder::state_folder::replace;
use ftl_store::{Notebook as _, Notes};

/// How many files of the FTL plugin's archive are taken over.
const MAX_ARCHIVES: usize = 100_000;

const KIND: &str = "archive";

/// Tells how much two texts are alike, from 0 to 1; the first is what is looked for.
pub type Alike<'a> = &'a dyn Fn(&str, &str) -> f64;

fn projected(name: &str) -> Projected {
    Projected {
        kind: Cow::Borrowed(KIND),
        scope: None,
        key: Cow::Owned(name.to_owned()),
        file: Cow::Owned(format!("archive/{name}.json")),
        check: |text| json_text(text, |json| Campaign::read(json).map(drop)),
        form: NoteForm::Json,
    }
}

/// Keeps a campaign in the archive; its name there.
pub(super) fn put(campaign: &Campaign, notes: &mut dyn Notes, now: &str) -> Result<String, RecordError> {
    let stamp = now.replace([':', '.'], "-");
    let mut name = stamp.clone();
    let mut next = 2;
    while notes.get(KIND, &name)?.is_some() {
        name = format!("{stamp}-{next}");
        next += 1;
    }
    keep(notes, &projected(&name), Some(&campaign.to_json()))?;
    Ok(name)
}

impl Records {
    pub(super) fn project_archive(&self, name: &str) -> Result<(), RecordError> {
        self.project(&projected(name))
    }

    /// Every campaign in the archive with its name, the newest first.
    pub fn archives(&self) -> Result<Vec<(String, Campaign)>, RecordError> {
        self.take_over_archives()?;
        let mut all = Vec::new();
        for (name, body) in self.store().notes(KIND)? {
            let json = Json::parse(&body).map_err(|error| damaged(&name, &error.to_string()))?;
            all.push((name.clone(), Campaign::read(&json).map_err(|error| damaged(&name, &error))?));
        }
        all.sort_by(|left, right| end_of(&right.1).cmp(end_of(&left.1)).then_with(|| right.0.cmp(&left.0)));
        Ok(all)
    }

    fn take_over_archives(&self) -> Result<(), RecordError> {
        let above = self.place().state().join("archive");
        let names = folder::names(&above).map_err(|error| RecordError::disk(&above, &error))?;
        for name in names.into_iter().take(MAX_ARCHIVES) {
            let name = name.to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix(".json").filter(|name| !name.starts_with('.')) else {
                continue;
            };
            if self.store().note(KIND, name)?.is_none() {
                self.read(&projected(name))?;
            }
        }
        Ok(())
    }

    /// `{archives: [{objective, completed_at, summary}]}`, the newest first.
    pub fn history(&self) -> Result<Json, RecordError> {
        let row = |(_, campaign): &(String, Campaign)| {
            let field = |key: &str| campaign.field(key).cloned().unwrap_or_default();
            Json::object([
                ("objective", field("objective")),
                ("completed_at", field("completed_at")),
                ("summary", field("summary")),
            ])
        };
        let rows: Vec<Json> = self.archives()?.iter().map(row).collect();
        Ok(Json::object([("archives", Json::Array(rows))]))
    }

    /// `{campaigns: […]}` of those that ended between two days, both included; also written to a file.
    pub fn export(&self, file: &Path, start: Option<&str>, end: Option<&str>) -> Result<Json, RecordError> {
        for day in [start, end].into_iter().flatten() {
            if !is_day(day) {
                let message = format!("`{day}` is no day");
                return Err(RecordError::refuse(message, "a day is written like 2026-11-16"));
            }
        }
        let within = |campaign: &Campaign| {
            let day: String = end_of(campaign).chars().take(10).collect();
            start.is_none_or(|start| day.as_str() >= start) && end.is_none_or(|end| day.as_str() <= end)
        };
        let all = self.archives()?;
        let chosen: Vec<Json> =
            all.iter().rev().filter(|(_, one)| within(one)).map(|(_, one)| one.to_json()).collect();
        let json = Json::object([("campaigns", Json::Array(chosen))]);
        let written = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map_or(Ok(()), folder::make_anywhere)
            .and_then(|()| replace(file, format!("{}\n", json.pretty()).as_bytes()));
        written.map_err(|error| RecordError::disk(file, &error))?;
        Ok(json)
    }

    /// The fingerprint of the current campaign; `{}` when there is none.
    pub fn fingerprint(&self) -> Result<Json, RecordError> {
        let files = self.explored_files()?;
        let none = Json::Object(Object::new());
        Ok(self.campaign()?.map_or(none, |campaign| campaign.fingerprint(&files)))
    }

    /// Campaigns of the archive that are like the current one, the most alike first.
    pub fn find_similar(&self, threshold: f64, most: usize, alike: Alike<'_>) -> Result<Json, RecordError> {
        let Some(current) = self.campaign()? else { return Ok(Json::Array(Vec::new())) };
        let print = current.fingerprint(&self.explored_files()?);
        self.similar_to(&print, threshold, most, &|print, other| similarity(print, other, alike))
    }

    /// Campaigns of the archive whose objective is like this one, the most alike first: before anything is
    /// planned there are no files and no tasks to compare.
    pub fn campaigns_like(
        &self,
        objective: &str,
        threshold: f64,
        most: usize,
        alike: Alike<'_>,
    ) -> Result<Json, RecordError> {
        let preview: String = objective.chars().take(PREVIEW_CHARS).collect();
        let print = Json::object([("objective_preview", Json::from(preview))]);
        self.similar_to(&print, threshold, most, &|print, other| {
            Some(alike(&preview_of(print), &preview_of(other)))
        })
    }

    fn similar_to(
        &self,
        print: &Json,
        threshold: f64,
        most: usize,
        similarity: &dyn Fn(&Json, &Json) -> Option<f64>,
    ) -> Result<Json, RecordError> {
        let mut rows: Vec<(f64, Json)> = Vec::new();
        for (name, campaign) in self.archives()? {
            let other = match campaign.field("fingerprint") {
                Some(print) if print.is_object() => print.clone(),
                Some(_) | None => campaign.fingerprint(&[]),
            };
            let Some(similarity) = similarity(print, &other).filter(|found| *found >= threshold) else {
                continue;
            };
            rows.push((similarity, row(&name, similarity, &campaign, other)));
        }
        rows.sort_by(|left, right| right.0.total_cmp(&left.0));
        Ok(Json::Array(rows.into_iter().take(most).map(|(_, row)| row).collect()))
    }
}

fn preview_of(print: &Json) -> String {
    print.get("objective_preview").and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn row(name: &str, similarity: f64, campaign: &Campaign, print: Json) -> Json {
    let field = |key: &str| campaign.field(key).cloned().unwrap_or_default();
    let patterns = match campaign.field("patterns_extracted") {
        Some(Json::Array(names)) => Json::Array(names.clone()),
        Some(_) | None => Json::Array(Vec::new()),
    };
    Json::object([
        ("archive", Json::from(format!("{name}.json"))),
        ("similarity", Json::from(rounded(similarity))),
        ("fingerprint", print),
        ("outcome", Json::from(outcome(campaign))),
        ("objective", field("objective")),
        ("patterns_from", patterns),
    ])
}

/// `complete` if the campaign has a summary in words or every task is complete, else `partial`.
fn outcome(campaign: &Campaign) -> &'static str {
    let summary = campaign.field("summary");
    let count = |key: &str| summary.and_then(|summary| summary.get(key)).and_then(Json::as_whole);
    let said = summary.is_some_and(|summary| summary.as_str().is_some());
    let whole = count("total").is_some() && count("total") == count("complete");
    let replaced = campaign.field("replaced").is_some();
    if (said || whole) && !replaced { "complete" } else { "partial" }
}

/// `0.6·objective + 0.3·files + 0.1·size`; `None` where the frameworks differ.
fn similarity(current: &Json, other: &Json, alike: Alike<'_>) -> Option<f64> {
    let framework = |print: &Json| {
        let name = print.get("framework").and_then(Json::as_str).unwrap_or("none").to_lowercase();
        if name.is_empty() { "none".to_owned() } else { name }
    };
    let (wanted, found) = (framework(current), framework(other));
    if wanted != "none" && wanted != found {
        return None;
    }
    let files = |print: &Json| -> Vec<String> {
        let files = print.get("delta_files").map(Json::items).unwrap_or_default();
        files.iter().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let tasks = |print: &Json| print.get("task_count").and_then(Json::as_f64).unwrap_or(0.0);
    let mut similarity = 0.6 * alike(&preview_of(current), &preview_of(other));
    let (left, right) = (files(current), files(other));
    if !left.is_empty() && !right.is_empty() {
        let both = left.iter().filter(|file| right.contains(file)).count() as f64;
        similarity += 0.3 * both / (left.len() as f64 + right.len() as f64 - both);
    }
    let (left, right) = (tasks(current), tasks(other));
    if left > 0.0 && right > 0.0 {
        similarity += 0.1 * (1.0 - (left - right).abs() / left.max(right));
    }
    Some(similarity)
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn end_of(campaign: &Campaign) -> &str {
    campaign.field("completed_at").and_then(Json::as_str).unwrap_or_default()
}

fn is_day(text: &str) -> bool {
    let shape =
        |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(shape)
}

fn damaged(name: &str, message: &str) -> RecordError {
    RecordError::Store(ftl_store::StoreError::Corrupt(format!("archive {name}: {message}")))
}
