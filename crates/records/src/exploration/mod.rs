//! What four explorers found, as one object: where things are, how they are done, what happened, what will change.
//!
//! Explorers are models: their answers come bare, fenced, on one line or on many, with lists where maps belong. What
//! can be understood is brought into shape; what cannot is named, never dropped in silence. An answer that reports an
//! error keeps what it found.

mod shape;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use crate::extract;
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder as folder;

/// How large one explorer's answer may be.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// How large all answers on one stream may be together.
pub const MAX_STREAM_BYTES: usize = 16 * 1024 * 1024;

/// The part of the exploration that an explorer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExplorerMode {
    /// Folders, entry points, tests and configuration.
    Structure,
    /// How things are done.
    Pattern,
    /// Lessons and campaigns that bear on the objective.
    Memory,
    /// The files that are likely to change.
    Delta,
}

impl ExplorerMode {
    /// All of them, in the order of the sections.
    pub const ALL: [ExplorerMode; 4] =
        [ExplorerMode::Structure, ExplorerMode::Pattern, ExplorerMode::Memory, ExplorerMode::Delta];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            ExplorerMode::Structure => "structure",
            ExplorerMode::Pattern => "pattern",
            ExplorerMode::Memory => "memory",
            ExplorerMode::Delta => "delta",
        }
    }

    /// Reads the word for it.
    pub fn parse(text: &str) -> Option<ExplorerMode> {
        ExplorerMode::ALL.into_iter().find(|mode| mode.word().eq_ignore_ascii_case(text.trim()))
    }

    /// The file in `.ftl/cache` that its explorer writes.
    pub fn file_name(self) -> String {
        format!("explorer_{}.json", self.word())
    }

    /// What getters answer where nothing is known.
    pub fn missing(self) -> Json {
        let empty = || Json::Array(Vec::new());
        let mut json = Json::object([("status", Json::from("missing"))]);
        match self {
            ExplorerMode::Structure => {}
            ExplorerMode::Pattern => {
                json.put("framework", "none");
                json.put("idioms", Json::object([("required", empty()), ("forbidden", empty())]));
            }
            ExplorerMode::Memory => {
                json.put("failures", empty());
                json.put("patterns", empty());
                json.put(
                    "total_in_memory",
                    Json::object([("failures", Json::from(0)), ("patterns", Json::from(0))]),
                );
                json.put("similar_campaigns", empty());
            }
            ExplorerMode::Delta => json.put("candidates", empty()),
        }
        json
    }
}

/// How well an explorer did; better ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExplorerStatus {
    /// It reports something we do not know, and counts as an error.
    Other,
    /// It reports an error.
    Error,
    /// It found some of it.
    Partial,
    /// It found what it looked for.
    Ok,
}

impl ExplorerStatus {
    fn read(text: &str) -> ExplorerStatus {
        match text.trim().to_ascii_lowercase().as_str() {
            "ok" => ExplorerStatus::Ok,
            "partial" => ExplorerStatus::Partial,
            "error" => ExplorerStatus::Error,
            _ => ExplorerStatus::Other,
        }
    }

    /// Whether there is something to work with.
    pub fn is_usable(self) -> bool {
        match self {
            ExplorerStatus::Ok | ExplorerStatus::Partial => true,
            ExplorerStatus::Error | ExplorerStatus::Other => false,
        }
    }

    /// The word for it, as it is stored.
    pub const fn word(self) -> &'static str {
        match self {
            ExplorerStatus::Ok => "ok",
            ExplorerStatus::Partial => "partial",
            ExplorerStatus::Error | ExplorerStatus::Other => "error",
        }
    }
}

/// One explorer's answer, in shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplorerAnswer {
    /// The part of the exploration that it answers.
    pub mode: ExplorerMode,
    /// How well it did.
    pub standing: ExplorerStatus,
    /// The whole answer, with fields that nothing here knows.
    pub json: Json,
}

/// When and for what an exploration was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta<'a> {
    /// The time at which it was made, as the file writes it.
    pub created_at: &'a str,
    /// The short commit; empty outside a repository, `unknown` if git could not run.
    pub git_sha: &'a str,
    /// The objective that was explored.
    pub objective: &'a str,
}

/// Why something is no answer of an explorer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplorerAnswerError {
    /// It has so many bytes, more than the limit.
    Large(usize),
    /// There is no JSON object in it.
    NoObject,
    /// It names a mode that there is not.
    UnknownMode(String),
    /// Its mode is of this kind, and no string.
    ModeKind(&'static str),
    /// It does not say of which mode it is, and neither does the caller.
    NoMode,
    /// The answer of that mode has no status.
    NoStatus(ExplorerMode),
}

impl fmt::Display for ExplorerAnswerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplorerAnswerError::Large(bytes) => {
                write!(out, "an answer of {bytes} bytes; the limit is {MAX_ANSWER_BYTES}")
            }
            ExplorerAnswerError::NoObject => out.write_str("no JSON object in the answer"),
            ExplorerAnswerError::UnknownMode(word) => write!(out, "unknown mode {word:?}"),
            ExplorerAnswerError::ModeKind(kind) => write!(out, "mode is {kind}, not a string"),
            ExplorerAnswerError::NoMode => out.write_str("an answer without a mode"),
            ExplorerAnswerError::NoStatus(mode) => write!(out, "{}: no status", mode.word()),
        }
    }
}

impl std::error::Error for ExplorerAnswerError {}

/// Reads one answer out of a text. `expected` is the mode of the file it stands in, for answers that do not say.
pub fn read_answer(
    text: &str,
    expected: Option<ExplorerMode>,
) -> Result<ExplorerAnswer, ExplorerAnswerError> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(ExplorerAnswerError::Large(text.len()));
    }
    let json = extract::object(text).ok_or(ExplorerAnswerError::NoObject)?;
    answer(json, expected)
}

/// Takes an object as an answer: it must have one of the four modes and a status.
pub fn answer(mut json: Json, expected: Option<ExplorerMode>) -> Result<ExplorerAnswer, ExplorerAnswerError> {
    let named = match json.get("mode") {
        None | Some(Json::Null) => None,
        Some(Json::String(word)) => {
            Some(ExplorerMode::parse(word).ok_or_else(|| ExplorerAnswerError::UnknownMode(word.clone()))?)
        }
        Some(other) => return Err(ExplorerAnswerError::ModeKind(other.kind())),
    };
    let mode = named.or(expected).ok_or(ExplorerAnswerError::NoMode)?;
    let status = json.get("status").and_then(Json::as_str).ok_or(ExplorerAnswerError::NoStatus(mode))?;
    let standing = ExplorerStatus::read(status);
    let status = status.to_owned();
    json.put("mode", mode.word());
    json.put("status", standing.word());
    shape::mend(mode, &mut json);
    if !standing.is_usable() {
        let said = json.get("error").or(json.get("_error")).and_then(Json::as_str).map(str::to_owned);
        json.put("_error", said.unwrap_or_else(|| format!("status {status}")));
    }
    Ok(ExplorerAnswer { mode, standing, json })
}

/// All answers of a stream, one a line or spread over many lines; beside them what was no answer.
pub fn read_stream(text: &str) -> (Vec<ExplorerAnswer>, Vec<String>) {
    let mut answers = Vec::new();
    let mut ignored = Vec::new();
    if text.len() > MAX_STREAM_BYTES {
        ignored.push(format!("input of {} bytes; the limit is {MAX_STREAM_BYTES}", text.len()));
        return (answers, ignored);
    }
    for json in pieces(text) {
        match answer(json, None) {
            Ok(answer) => answers.push(answer),
            Err(error) => ignored.push(error.to_string()),
        }
    }
    (answers, ignored)
}

/// The objects of a stream. A line that is a whole answer stands by itself, so that one that was cut off does not take
/// the next with it; everything between such lines is looked at together.
fn pieces(text: &str) -> Vec<Json> {
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let whole = line.trim_start().starts_with('{').then(|| Json::parse(line.trim()).ok()).flatten();
        if let Some(json) = whole.filter(|json| json.get("mode").is_some()) {
            found.extend(extract::objects(&text[from..at]));
            found.push(json);
            from = at + line.len();
        }
        at += line.len();
    }
    found.extend(extract::objects(&text[from..]));
    found
}

/// The answers in a cache folder, by their file names; beside them what could not be read. A file that is not there
/// is no complaint.
pub fn read_files(cache: &Path) -> (Vec<ExplorerAnswer>, Vec<String>) {
    let mut answers = Vec::new();
    let mut ignored = Vec::new();
    for mode in ExplorerMode::ALL {
        let path = cache.join(mode.file_name());
        let Some(text) = read(&path) else { continue };
        match text.and_then(|text| read_answer(&text, Some(mode)).map_err(|error| error.to_string())) {
            Ok(answer) => answers.push(answer),
            Err(why) => ignored.push(format!("{}: {why}", path.display())),
        }
    }
    (answers, ignored)
}

fn read(path: &Path) -> Option<Result<String, String>> {
    let is_file = folder::metadata(path).ok()?.is_file();
    let mut bytes = Vec::new();
    let limit = MAX_ANSWER_BYTES as u64 + 1;
    let done =
        folder::open(path, folder::OpenMode::Read).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    Some(match (is_file, done) {
        (false, _) => Err("not a file".to_owned()),
        (true, Err(error)) => Err(error.to_string()),
        (true, Ok(_)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    })
}

/// Merges answers into one exploration: of two for one mode the better one stands, of two equal ones the first.
pub fn aggregate(answers: &[ExplorerAnswer], meta: Meta<'_>) -> Json {
    let mut json = Json::object([(
        "_meta",
        Json::object([
            ("version", Json::from("1.0")),
            ("created_at", Json::from(meta.created_at)),
            ("git_sha", Json::from(meta.git_sha)),
            ("objective", Json::from(meta.objective)),
        ]),
    )]);
    for mode in ExplorerMode::ALL {
        let mut best: Option<&ExplorerAnswer> = None;
        for answer in answers.iter().filter(|answer| answer.mode == mode) {
            if best.is_none_or(|best| answer.standing > best.standing) {
                best = Some(answer);
            }
        }
        if let Some(best) = best {
            json.put(mode.word(), best.json.clone());
        }
    }
    json
}

/// The short commit of a repository; nothing outside of one, `unknown` if git cannot run.
pub fn short_head(root: &Path) -> String {
    match ftl_git::ask(root, &["rev-parse", "--short", "HEAD"]) {
        Ok(answer) => answer.text().unwrap_or_default(),
        Err(_) => String::from("unknown"),
    }
}

/// One section of an exploration, or the placeholder for a missing one.
pub fn section(exploration: Option<&Json>, mode: ExplorerMode) -> Json {
    let found = exploration.and_then(|json| json.get(mode.word())).filter(|section| section.is_object());
    found.cloned().unwrap_or_else(|| mode.missing())
}

/// The confidence in the framework that the pattern explorer stated.
pub fn framework_confidence(exploration: &Json) -> Option<f64> {
    let stated = exploration.get("pattern")?.get("confidence")?.as_f64()?;
    (0.0..=1.0).contains(&stated).then_some(stated)
}

/// The files that the delta explorer named, under either of the words that are in use.
pub fn candidate_paths(exploration: &Json) -> Vec<String> {
    let candidates = exploration.get("delta").and_then(|delta| delta.get("candidates")).map(Json::items);
    let path = |one: &Json| one.get("path").or(one.get("file")).unwrap_or(one).as_str().map(str::to_owned);
    candidates.unwrap_or_default().iter().filter_map(path).collect()
}

/// Which rule said that there is enough to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorumRule {
    /// All four explorers answered.
    All,
    /// Structure and delta have something to work with.
    CriticalPair,
    /// As many as were asked for have something to work with.
    Count,
}

impl QuorumRule {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            QuorumRule::All => "all",
            QuorumRule::CriticalPair => "structure+delta",
            QuorumRule::Count => "count",
        }
    }
}

/// Whether there is enough to go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The modes that answered.
    pub completed: Vec<ExplorerMode>,
    /// The modes that did not.
    pub missing: Vec<ExplorerMode>,
    /// Which rule fired; none when there is not enough.
    pub rule: Option<QuorumRule>,
}

impl Quorum {
    /// The status word of `wait-explorers`. While there is time, `None` means: wait on.
    pub fn status(&self, time_is_over: bool) -> Option<&'static str> {
        match (self.rule, time_is_over) {
            (Some(QuorumRule::All), _) => Some("all_complete"),
            (Some(QuorumRule::CriticalPair | QuorumRule::Count), false) => Some("quorum_met"),
            (Some(QuorumRule::CriticalPair | QuorumRule::Count), true) => Some("timeout"),
            (None, true) => Some("quorum_failure"),
            (None, false) => None,
        }
    }
}

/// Judges answers: all four, or the critical pair, or the count. Errors count as answered, but not as something to
/// work with; four errors are not enough.
pub fn judge(answers: &[(ExplorerMode, ExplorerStatus)], required: usize) -> Quorum {
    let answered = |mode: ExplorerMode| answers.iter().any(|(one, _)| *one == mode);
    let usable =
        |mode: ExplorerMode| answers.iter().any(|(one, standing)| *one == mode && standing.is_usable());
    let (completed, missing): (Vec<ExplorerMode>, Vec<ExplorerMode>) =
        ExplorerMode::ALL.into_iter().partition(|mode| answered(*mode));
    let count = ExplorerMode::ALL.into_iter().filter(|mode| usable(*mode)).count();
    let rule = if missing.is_empty() && count > 0 {
        Some(QuorumRule::All)
    } else if usable(ExplorerMode::Structure) && usable(ExplorerMode::Delta) {
        Some(QuorumRule::CriticalPair)
    } else if count > 0 && count >= required {
        Some(QuorumRule::Count)
    } else {
        None
    };
    Quorum { completed, missing, rule }
}
