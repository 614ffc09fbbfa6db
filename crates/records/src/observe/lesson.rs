//! Lessons out of workspaces: a pattern from one that went well, a failure from one that is blocked.

use super::score::{PATTERN_SCORE, Score};
use crate::plan_file::slug_of;
use crate::workspace::{Workspace, block_reason};
use ftl_core::json::{Json, JsonExt as _};
use ftl_core::machine::MachineCause;
use ftl_core::run::REPEATED;

/// How long a trigger may be.
pub const MAX_TRIGGER_CHARS: usize = 500;

const NAME_CHARS: usize = 40;
const NAME_FROM_CHARS: usize = 50;
const OBJECTIVE_CHARS: usize = 60;
const DELIVERED_CHARS: usize = 300;
const INSIGHT_CHARS: usize = 500;
const TRIED_CHARS: usize = 200;
const FALLBACK_CHARS: usize = 100;
const UNKNOWN_ERROR: &str = "Unknown error";
const UNKNOWN_FIX: &str = "UNKNOWN";

/// What a failure costs that was mended in the same build: one conversation, about.
const REPAIRED_COST: u64 = 5_000;

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureLesson {
    /// The name of the failure, made of its trigger.
    pub name: String,
    /// The words by which the failure is recalled.
    pub trigger: String,
    /// What helped, what was attempted, or `UNKNOWN`.
    pub fix: String,
    /// A regular expression that the error matches.
    pub pattern: String,
    /// The cost of the failure, by the scale of the FTL protocol.
    pub cost: u64,
    /// The workspaces it came from.
    pub source: Vec<String>,
    /// What it is about.
    pub tags: Vec<String>,
}

/// Something that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternLesson {
    /// Its name: that of its workspace, so that each task of a campaign has its own.
    pub name: String,
    /// The situation in which the pattern applies.
    pub trigger: String,
    /// The advice of the pattern.
    pub insight: String,
    /// The saving of the pattern, by the scale of the FTL protocol.
    pub saved: u64,
    /// The workspaces it came from.
    pub source: Vec<String>,
    /// What it is about.
    pub tags: Vec<String>,
}

impl FailureLesson {
    /// `{name, trigger, fix, match, cost, source}` and `tags` where there are some.
    pub fn to_json(&self) -> Json {
        let mut json = Json::object([
            ("name", Json::from(self.name.as_str())),
            ("trigger", Json::from(self.trigger.as_str())),
            ("fix", Json::from(self.fix.as_str())),
            ("match", Json::from(self.pattern.as_str())),
            ("cost", Json::from(self.cost)),
            ("source", Json::from(self.source.as_slice())),
        ]);
        put_tags(&mut json, &self.tags);
        json
    }
}

impl PatternLesson {
    /// `{name, trigger, insight, saved, source}` and `tags` where there are some.
    pub fn to_json(&self) -> Json {
        let mut json = Json::object([
            ("name", Json::from(self.name.as_str())),
            ("trigger", Json::from(self.trigger.as_str())),
            ("insight", Json::from(self.insight.as_str())),
            ("saved", Json::from(self.saved)),
            ("source", Json::from(self.source.as_slice())),
        ]);
        put_tags(&mut json, &self.tags);
        json
    }
}

fn put_tags(json: &mut Json, tags: &[String]) {
    if !tags.is_empty() {
        json.put("tags", Json::from(tags));
    }
}

/// The failure behind a blocked workspace; `output` is what its verify command printed, where it was run.
pub fn failure(workspace: &Workspace, output: Option<&str>) -> FailureLesson {
    let trigger = trigger(workspace, output);
    let slug = slug_of(start(&trigger, NAME_FROM_CHARS), NAME_CHARS);
    let name = if slug.is_empty() { format!("failure-{}", workspace.id) } else { slug };
    FailureLesson {
        name,
        fix: fix(&workspace.delivered),
        pattern: generalise(&trigger),
        trigger,
        cost: workspace.budget.saturating_mul(1000),
        source: vec![workspace.id.clone()],
        tags: tags(workspace),
    }
}

/// The failure behind a repair that worked, with what mended it.
pub fn repaired(error: &str, fix: &str, source: Option<&str>) -> FailureLesson {
    let trigger = start(telling(error), MAX_TRIGGER_CHARS).to_owned();
    let slug = slug_of(start(&trigger, NAME_FROM_CHARS), NAME_CHARS);
    let source = source.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    FailureLesson {
        name: if slug.is_empty() { "repaired-failure".to_owned() } else { slug },
        fix: start(fix.trim(), TRIED_CHARS).to_owned(),
        pattern: generalise(&trigger),
        trigger,
        cost: REPAIRED_COST,
        source: source.into_iter().collect(),
        tags: Vec::new(),
    }
}

/// The line of a failure by which it is known again: the first that speaks of an error, else the first one that
/// names a test, else the first.
fn telling(error: &str) -> &str {
    let lines = || error.lines().map(str::trim).filter(|line| !line.is_empty() && !is_count(line));
    let speaks = |line: &&str| {
        ["Error", "error:", "Exception", "panicked", "assert"].iter().any(|word| line.contains(word))
    };
    let first = || error.lines().map(str::trim).find(|line| !line.is_empty());
    lines().find(speaks).or_else(|| lines().next()).or_else(first).unwrap_or(UNKNOWN_ERROR)
}

/// The file of the experience of one block, by the workspace it came from; none for one without a name.
pub fn experience_file(source: &str) -> Option<String> {
    let name = source.rsplit('/').next()?.trim_end_matches(".xml");
    let name = slug_of(start(name, EXPERIENCE_CHARS), EXPERIENCE_CHARS);
    (!name.is_empty()).then(|| format!("experience-{name}.json"))
}

/// How long the name of such a file may be.
const EXPERIENCE_CHARS: usize = 120;

/// Whether a workspace was blocked by trouble of the machine, as earlier versions did it: that teaches nothing.
pub fn is_machine(workspace: &Workspace) -> bool {
    block_reason(&workspace.delivered).is_some_and(|reason| MachineCause::of_report(reason).is_some())
}

/// Whether a workspace was blocked by the harness and not by the work: no tools were left, an agent died or gave no
/// answer, a command could not be run. That teaches nothing about the code.
pub fn is_harness(workspace: &Workspace) -> bool {
    block_reason(&workspace.delivered).is_some_and(is_harness_reason)
}

/// Whether a reason speaks of the harness: its meters, its agents, its commands.
pub fn is_harness_reason(reason: &str) -> bool {
    const BEGINS: [&str; 10] = [
        "died ",
        "the last of ",
        "the command could not be run",
        "the command gave no answer",
        "the command ran out of memory",
        "the command was ended from outside",
        "the command was cancelled",
        "no agent is bound to",
        "the answer of Task(",
        "the agent asks: ",
    ];
    const HOLDS: [&str; 6] = [
        " answers in a row do not fit",
        "there is no JSON in it",
        " does not answer",
        " could not be set up: ",
        " cannot be asked: ",
        " did not submit: ",
    ];
    let first = reason.lines().next().unwrap_or_default().trim();
    // That it repeated says nothing about whose failure it is.
    let first = first.strip_prefix(REPEATED).unwrap_or(first);
    // A red verify that could not be retried says so before what failed; what failed may teach.
    let is_of_work = without_verdict(first) != first;
    let is_meter = first.contains(" spent") && first.contains(": the limit is ");
    !is_of_work
        && (is_meter
            || BEGINS.iter().any(|words| first.starts_with(words))
            || HOLDS.iter().any(|words| first.contains(words)))
}

/// Whether a line is the harness's own count of what failed: it says nothing about what went wrong.
fn is_count(line: &str) -> bool {
    let counts = line.starts_with(|letter: char| letter.is_ascii_digit()) && line.contains(" tests failed");
    counts || line.starts_with("exit code ")
}

/// A reason without the builder's own words before the error: the error alone comes again.
fn without_verdict(reason: &str) -> &str {
    const WORDS: [&str; 4] =
        ["discovery needed: ", "budget exhausted: ", "same failure after a retry: ", REPEATED];
    WORDS.iter().find_map(|words| reason.strip_prefix(words)).unwrap_or(reason)
}

/// The first line of the reason, else a line of the output that tells of an error, else how the delivery begins.
fn trigger(workspace: &Workspace, output: Option<&str>) -> String {
    let reason = block_reason(&workspace.delivered);
    let lines = || {
        let lines = reason.unwrap_or_default().lines().map(str::trim);
        let said = lines.take_while(|line| !line.starts_with("Tried:") && !line.starts_with("Unknown:"));
        said.map(without_verdict)
    };
    let reason = lines().find(|line| !line.is_empty() && !is_count(line)).or_else(|| lines().next());
    let tells = |line: &&str| {
        let line = line.to_uppercase();
        ["ERROR", "FAIL", "EXCEPTION"].iter().any(|word| line.contains(word))
    };
    let printed = || output.unwrap_or_default().lines().map(str::trim).find(tells);
    let delivered = || Some(start(workspace.delivered.trim(), FALLBACK_CHARS));
    let real = |text: &&str| !text.is_empty() && *text != "BLOCKED:";
    let found = reason.filter(real).or_else(printed).or_else(|| delivered().filter(real));
    start(found.unwrap_or(UNKNOWN_ERROR), MAX_TRIGGER_CHARS).to_owned()
}

/// What is between `Tried:` and `Unknown:`.
fn fix(delivered: &str) -> String {
    let tried =
        delivered.split_once("Tried:").map(|(_, rest)| rest.split("Unknown:").next().unwrap_or(rest).trim());
    match tried.filter(|tried| !tried.is_empty()) {
        Some(tried) => format!("Attempted: {}", start(tried, TRIED_CHARS)),
        None => UNKNOWN_FIX.to_owned(),
    }
}

/// Memory filters by the framework in small letters; without a tag nothing would ever be found there.
fn tags(workspace: &Workspace) -> Vec<String> {
    workspace.framework.iter().map(|name| name.to_lowercase()).filter(|name| name != "none").collect()
}

/// A regular expression for an error: digits, addresses and quoted text may differ, everything else is literal.
pub fn generalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    let mut before = ' ';
    while let Some(letter) = rest.chars().next() {
        let (piece, length) = match letter {
            '\'' | '"' | '`' => match quoted_length(rest, before) {
                Some(length) => (format!("{letter}.*{letter}"), length),
                None => (letter.to_string(), letter.len_utf8()),
            },
            '0'..='9' => number(rest),
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' | '#'
            | '&' | '-' | '~' => (format!("\\{letter}"), 1),
            other => (other.to_string(), other.len_utf8()),
        };
        out.push_str(&piece);
        before = rest[..length].chars().next_back().unwrap_or(letter);
        rest = &rest[length..];
    }
    out
}

/// How long a quoted text is, quotes included. An apostrophe inside a word opens and closes nothing.
fn quoted_length(text: &str, before: char) -> Option<usize> {
    let quote = text.chars().next().filter(|_| !before.is_alphanumeric())?;
    let inner = &text[1..];
    let ends = |at: &usize| !inner[at + 1..].starts_with(char::is_alphanumeric);
    let close = inner.match_indices(quote).map(|(at, _)| at).find(ends)?;
    Some(close + 2)
}

/// A run of digits, or an address in hexadecimal.
fn number(text: &str) -> (String, usize) {
    let run = |from: &str, is: fn(&u8) -> bool| from.bytes().take_while(is).count();
    let hex =
        text.strip_prefix("0x").map(|digits| run(digits, u8::is_ascii_hexdigit)).filter(|length| *length > 0);
    match hex {
        Some(length) => ("0x[0-9a-fA-F]+".to_owned(), length + 2),
        None => (r"\d+".to_owned(), run(text, u8::is_ascii_digit)),
    }
}

/// The pattern behind a complete workspace, where its score is high enough and there is more to say than that it
/// worked: "Recovered from a block. 1 file changed" takes room in prompts and does not help an agent.
pub fn pattern(workspace: &Workspace, score: &Score) -> Option<PatternLesson> {
    if score.total < PATTERN_SCORE {
        return None;
    }
    Some(PatternLesson {
        name: workspace.id.clone(),
        trigger: pattern_trigger(workspace),
        insight: insight(workspace, score)?,
        saved: workspace.budget.saturating_mul(500),
        source: vec![workspace.id.clone()],
        tags: tags(workspace),
    })
}

/// All tasks of a campaign share its objective, so the task comes first and the objective is cut: otherwise they would
/// all be one pattern.
fn pattern_trigger(workspace: &Workspace) -> String {
    let task = workspace.id.trim_start_matches(|letter: char| letter.is_ascii_digit()).replace('-', " ");
    let files: Vec<&str> =
        workspace.delta.iter().take(3).filter_map(|path| path.rsplit('/').next()).collect();
    let place = if files.is_empty() { String::new() } else { format!(" in {}", files.join(", ")) };
    let objective = start(workspace.objective.trim(), OBJECTIVE_CHARS);
    match (task.trim(), objective) {
        ("", "") => workspace.id.replace('-', " "),
        ("", objective) => objective.to_owned(),
        (task, "") => format!("{task}{place}"),
        (task, objective) => format!("{task}{place}: {objective}"),
    }
}

/// What can be learned: the labels, the idioms and what was delivered; nothing where only labels are left.
fn insight(workspace: &Workspace, score: &Score) -> Option<String> {
    let idioms = workspace.idioms.as_ref().filter(|_| score.has("framework_idioms"));
    let said = what_was_done(workspace);
    if idioms.is_none() && said.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    if score.has("blocked_then_fixed") {
        parts.push("Recovered from a block.".to_owned());
    } else if score.has("first_try_success") {
        parts.push("Worked at the first try.".to_owned());
    }
    parts.extend(idioms.map(|idioms| format!("Idioms: {}.", idioms.required.join("; "))));
    parts.push(start(said, DELIVERED_CHARS).to_owned());
    Some(start(parts.join(" ").trim(), INSIGHT_CHARS).to_owned())
}

/// What a delivery says beyond the counts of its landing and the name of its task.
fn what_was_done(workspace: &Workspace) -> &str {
    let delivered = workspace.delivered.trim();
    let said = match delivered.rsplit_once(": ") {
        Some((said, counts)) if is_landing(counts) => said.trim(),
        Some(_) | None if is_landing(delivered) => "",
        Some(_) | None => delivered,
    };
    let task =
        workspace.id.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start_matches('-');
    if slug_of(said, NAME_CHARS) == slug_of(task, NAME_CHARS) { "" } else { said }
}

/// Whether a text is what `ftl` says of a landing: `2 files changed, 6f9165d66ffc on ftl/run`.
fn is_landing(text: &str) -> bool {
    let Some((count, rest)) = text.split_once(' ') else { return false };
    let is_count = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    is_count && (rest.starts_with("file changed, ") || rest.starts_with("files changed, "))
}

/// A failure out of an older builder's `experience.json`; nothing where it names no trigger.
pub fn experience(json: &Json) -> Option<FailureLesson> {
    let text =
        |key: &str| json.get(key).and_then(Json::as_str).map(str::trim).filter(|text| !text.is_empty());
    let texts = |key: &str| -> Vec<String> {
        let items = json.get(key).map(Json::items).unwrap_or_default();
        items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    let trigger = start(without_verdict(text("trigger")?), MAX_TRIGGER_CHARS).to_owned();
    let attempted = texts("attempted").join("; ");
    let tried = (!attempted.is_empty()).then(|| format!("Attempted: {}", start(&attempted, TRIED_CHARS)));
    let known = text("fix").filter(|fix| *fix != UNKNOWN_FIX).map(str::to_owned);
    let name = slug_of(text("name").unwrap_or(start(&trigger, NAME_FROM_CHARS)), NAME_CHARS);
    let cost = json.get("cost").and_then(Json::as_whole).and_then(|cost| u64::try_from(cost).ok());
    Some(FailureLesson {
        name: if name.is_empty() { "failure".to_owned() } else { name },
        pattern: generalise(&trigger),
        trigger,
        fix: known.or(tried).unwrap_or_else(|| UNKNOWN_FIX.to_owned()),
        cost: cost.unwrap_or_default(),
        source: texts("source"),
        tags: Vec::new(),
    })
}

/// The first letters of a text.
fn start(text: &str, letters: usize) -> &str {
    text.char_indices().nth(letters).map_or(text, |(end, _)| text[..end].trim_end())
}
