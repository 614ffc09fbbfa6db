//! Reads what a planner decided out of its text: go on, ask, have something confirmed, or nothing of these.
//!
//! Marks count only outside fenced blocks, and asking wins over confirming, confirming over going on. The plan is
//! always looked for, and always validated; an unclear text is UNKNOWN, never a guess.

use crate::extract::{self, fences};
use crate::plan_file::{self, PlanErrors, Reading};
pub use ftl_core::catalogue::flow::DecisionKind;
use ftl_core::json::{Json, JsonExt as _};

/// How many questions are taken from one text.
pub const MAX_QUESTIONS: usize = 100;

/// The decision in a planner's text.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannerDecision {
    /// The planner's decision: go on, ask, or unclear.
    pub kind: DecisionKind,
    /// The marks it was read from, as regular expressions.
    pub markers: Vec<&'static str>,
    /// The questions of the text.
    pub questions: Vec<String>,
    /// The plan as it stands in the text, valid or not.
    pub plan_json: Option<Json>,
    /// The plan read, or everything that is wrong with it.
    pub plan: Option<Result<plan_file::CampaignPlan, PlanErrors>>,
}

/// One way of saying a decision.
struct Mark {
    kind: DecisionKind,
    /// As it is listed among the marks that were found.
    shown: &'static str,
    says: fn(&Line<'_>) -> bool,
}

/// A line without its markup: small letters, no stars or back ticks.
struct Line<'a> {
    /// How many `#` it begins with.
    level: usize,
    text: &'a str,
}

const MARKS: [Mark; 13] = [
    Mark {
        kind: DecisionKind::Clarify,
        shown: r"^###\s*CLARIFY",
        says: |line| line.level > 1 && starts(line, "clarify"),
    },
    Mark {
        kind: DecisionKind::Clarify,
        shown: r"^##\s*Blocking Questions",
        says: |line| line.level > 1 && starts(line, "blocking questions"),
    },
    Mark {
        kind: DecisionKind::Clarify,
        shown: r"^###\s*Confidence:\s*CLARIFY",
        says: |line| line.level > 0 && field(line, "confidence", &["clarify"]),
    },
    Mark {
        kind: DecisionKind::Clarify,
        shown: r"^Confidence:\s*CLARIFY",
        says: |line| line.level == 0 && field(line, "confidence", &["clarify"]),
    },
    Mark {
        kind: DecisionKind::Clarify,
        shown: r"^Decision:\s*CLARIFY",
        says: |line| field(line, "decision", &["clarify"]),
    },
    Mark { kind: DecisionKind::Clarify, shown: r"CLARIFY.*need.*clarification", says: needs_clarification },
    Mark {
        kind: DecisionKind::Confirm,
        shown: r"^###\s*Confidence:\s*CONFIRM",
        says: |line| line.level > 0 && field(line, "confidence", &["confirm", "verify"]),
    },
    Mark {
        kind: DecisionKind::Confirm,
        shown: r"^Confidence:\s*CONFIRM",
        says: |line| line.level == 0 && field(line, "confidence", &["confirm", "verify"]),
    },
    Mark {
        kind: DecisionKind::Confirm,
        shown: r"^Decision:\s*CONFIRM",
        says: |line| field(line, "decision", &["confirm", "verify"]),
    },
    Mark {
        kind: DecisionKind::Proceed,
        shown: r"^###\s*Confidence:\s*PROCEED",
        says: |line| line.level > 0 && field(line, "confidence", &["proceed"]),
    },
    Mark {
        kind: DecisionKind::Proceed,
        shown: r"^Confidence:\s*PROCEED",
        says: |line| line.level == 0 && field(line, "confidence", &["proceed"]),
    },
    Mark {
        kind: DecisionKind::Proceed,
        shown: r"^Decision:\s*PROCEED",
        says: |line| field(line, "decision", &["proceed"]),
    },
    Mark {
        kind: DecisionKind::Proceed,
        shown: r"^###\s*PROCEED",
        says: |line| line.level > 1 && starts(line, "proceed"),
    },
];

/// A fence and an opening brace on one line.
const FENCED_BRACE: &str = r"```(?:json)?\s*\{";

fn starts(line: &Line<'_>, word: &str) -> bool {
    let rest = line.text.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
}

/// `name: word`, with nothing but punctuation, or a remark after a dash or bracket, behind it.
fn field(line: &Line<'_>, name: &str, words: &[&str]) -> bool {
    let value = line.text.strip_prefix(name).and_then(|rest| rest.trim_start().strip_prefix(':'));
    let value = value.map(str::trim_start).unwrap_or_default();
    words.iter().any(|word| {
        let rest = value.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
    })
}

fn needs_clarification(line: &Line<'_>) -> bool {
    let after = |text: &'_ str, word: &str| text.find(word).map(|at| at + word.len());
    let Some(first) = after(line.text, "clarify") else { return false };
    let Some(second) = after(&line.text[first..], "need") else { return false };
    line.text[first + second..].contains("clarification")
}

/// Reads a planner's text.
pub fn parse(text: &str) -> PlannerDecision {
    let mut found = [false; MARKS.len()];
    let mut fenced_brace = false;
    for_lines(text, |line, is_fence| {
        fenced_brace |= is_fence && line.text.contains('{');
        for (found, mark) in found.iter_mut().zip(&MARKS) {
            *found |= !is_fence && (mark.says)(line);
        }
    });
    let (plan_json, plan) = find_plan(text);
    let kinds = [DecisionKind::Clarify, DecisionKind::Confirm, DecisionKind::Proceed];
    let marks =
        |kind: DecisionKind| MARKS.iter().zip(found).filter(move |(mark, found)| *found && mark.kind == kind);
    let kind = kinds.into_iter().find(|kind| marks(*kind).next().is_some());
    let kind = kind
        .or((fenced_brace || plan_json.is_some()).then_some(DecisionKind::Proceed))
        .unwrap_or(DecisionKind::Unknown);
    let mut markers: Vec<&'static str> = marks(kind).map(|(mark, _)| mark.shown).collect();
    if kind == DecisionKind::Proceed && fenced_brace {
        markers.push(FENCED_BRACE);
    }
    PlannerDecision { kind, markers, questions: questions(text), plan_json, plan }
}

/// How long the prose of a planner may be that is put to a person.
pub const MAX_PROSE_CHARS: usize = 2_000;

/// What a planner says in prose, without marks, headings and fenced blocks: what a person is asked where no
/// line of it is a question.
pub fn prose(text: &str) -> String {
    let mut all = String::new();
    let mut is_fenced = false;
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        is_fenced ^= is_fence;
        let plain = unmarked(line);
        let is_mark = MARKS.iter().any(|mark| (mark.says)(&Line { level: 0, text: &plain }));
        if !is_fenced && !is_fence && !is_mark && !plain.starts_with('#') && !line.is_empty() {
            all.push_str(if all.is_empty() { "" } else { " " });
            all.push_str(line);
        }
    }
    let cut: String = all.chars().take(MAX_PROSE_CHARS).collect();
    if cut.is_empty() { String::from("The planner asks, and does not say what.") } else { cut }
}

/// What is wrong with a plan that has more tasks than its flow takes.
pub fn too_many(tasks: usize, most: u64) -> String {
    format!("the plan has {tasks} tasks, and this flow takes {most}: use `ftl campaign run`")
}

/// A line in small letters, without stars, back ticks and quotation marks of Markdown.
fn unmarked(line: &str) -> String {
    let plain: String = line.chars().filter(|letter| !matches!(letter, '*' | '`')).collect();
    plain.trim().trim_start_matches(['>', ' ']).to_lowercase()
}

/// Calls for each line outside fenced blocks, and for each line that opens one.
fn for_lines(text: &str, mut call: impl FnMut(&Line<'_>, bool)) {
    let mut fence: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let ticks: String = trimmed.chars().take_while(|letter| matches!(letter, '`' | '~')).collect();
        match &fence {
            Some(open) if ticks.len() >= open.len() && trimmed.len() == ticks.len() => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => {
                call(&Line { level: 0, text: trimmed }, true);
                fence = Some(ticks);
            }
            None => {
                let plain = unmarked(trimmed);
                let level = plain.bytes().take_while(|byte| *byte == b'#').count();
                call(&Line { level, text: plain[level..].trim() }, false);
            }
        }
    }
}

/// The plan of a text and what validation says. An object with tasks is a plan; so is one that holds such an object
/// under `plan` or `plan_json`, and the only fenced object where no other has tasks.
fn find_plan(text: &str) -> (Option<Json>, Option<Result<plan_file::CampaignPlan, PlanErrors>>) {
    let looks_so = |json: &Json| json.get("tasks").is_some();
    let wrapped = |json: &Json| ["plan", "plan_json"].iter().any(|key| json.get(key).is_some_and(looks_so));
    let found =
        extract::object_where(text, |json| looks_so(json) || wrapped(json)).or_else(|| fenced_object(text));
    let Some(json) = found else { return (None, broken_plan(text).map(Err)) };
    let inner =
        ["plan", "plan_json"].iter().find_map(|key| json.get(key).filter(|inner| looks_so(inner)).cloned());
    let json = if looks_so(&json) { json } else { inner.unwrap_or(json) };
    let plan = plan_file::check(&json, Reading::default());
    (Some(json), Some(plan))
}

fn fenced_object(text: &str) -> Option<Json> {
    if text.len() > extract::MAX_TEXT_BYTES {
        return None;
    }
    let objects = fences(text).into_iter().filter(|fence| matches!(fence.label, "" | "json" | "JSON"));
    objects
        .filter_map(|fence| Json::parse(fence.body.trim()).ok())
        .find(|json| json.get("objective").is_some())
}

/// A fenced block that was meant to be a plan and is not JSON: what is wrong with it.
fn broken_plan(text: &str) -> Option<PlanErrors> {
    if text.len() > extract::MAX_TEXT_BYTES {
        return None;
    }
    let meant = fences(text)
        .into_iter()
        .find(|fence| fence.body.trim_start().starts_with('{') && fence.body.contains("\"tasks\""))?;
    plan_file::read(meant.body).err()
}

/// Numbered lines that end in a question mark, then listed ones of the questions section; each once, in that order.
fn questions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut listed: Vec<String> = Vec::new();
    let mut in_section = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("##") {
            in_section = line.to_lowercase().contains("question");
        }
        let is_question = line.trim_end_matches(['*', '_']).ends_with('?');
        match (numbered(line), bullet(line)) {
            (Some(question), _) if is_question => found.push(plain(question)),
            (None, Some(question)) if is_question && in_section => listed.push(plain(question)),
            (Some(_) | None, _) => {}
        }
    }
    let mut unique: Vec<String> = Vec::new();
    for question in found.into_iter().chain(listed).take(MAX_QUESTIONS) {
        if !unique.contains(&question) {
            unique.push(question);
        }
    }
    unique
}

fn numbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let rest = (rest.len() < line.len()).then(|| rest.strip_prefix(['.', ')'])).flatten()?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

fn bullet(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*'])?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

/// Without the markup that makes a question bold.
fn plain(text: &str) -> String {
    text.replace("**", "").trim().to_owned()
}

impl PlannerDecision {
    /// What is wrong with the plan, one message each; empty when nothing is.
    pub fn problems(&self) -> Vec<String> {
        match &self.plan {
            Some(Err(errors)) => errors.iter().map(ToString::to_string).collect(),
            Some(Ok(_)) => Vec::new(),
            None if self.kind == DecisionKind::Proceed => {
                vec!["no plan found in the planner's text".to_owned()]
            }
            None => Vec::new(),
        }
    }

    /// The decision as `decision FILE` prints it, with `validation` on request.
    pub fn to_json(&self, with_validation: bool) -> Json {
        let mut json = Json::object([
            ("decision", Json::from(self.kind.word())),
            ("markers_found", Json::list(self.markers.iter().copied())),
        ]);
        if !self.questions.is_empty() || self.kind == DecisionKind::Clarify {
            json.put("questions", Json::from(self.questions.as_slice()));
        }
        if let Some(plan) = &self.plan_json {
            json.put("plan_json", plan.clone());
        }
        if with_validation {
            json.put("validation", self.validation());
        }
        json
    }

    fn validation(&self) -> Json {
        let messages: Vec<String> = match &self.plan {
            Some(Err(errors)) => errors.iter().map(|error| error.message.clone()).collect(),
            Some(Ok(_)) => Vec::new(),
            None => vec!["No plan found".to_owned()],
        };
        let mut json = Json::object([
            ("valid", Json::Bool(messages.is_empty())),
            ("errors", Json::from(messages.as_slice())),
        ]);
        if let Some(Err(errors)) = &self.plan {
            json.put("details", Json::Array(errors.iter().map(plan_file::PlanError::to_json).collect()));
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_without_a_question_is_still_asked() {
        let cases = [
            (
                "### CLARIFY\nTell me the **port**.\n```json\n{}\n```\n# Head\nAnd the host.",
                "Tell me the **port**. And the host.",
            ),
            ("Decision: CONFIRM\n", "The planner asks, and does not say what."),
        ];
        for (text, wanted) in cases {
            assert_eq!(prose(text), wanted);
        }
        assert_eq!(prose(&"x".repeat(MAX_PROSE_CHARS + 9)).len(), MAX_PROSE_CHARS);
    }

    const PLAN: &str = r#"{"idioms": {"required": ["{"], "forbidden": []}, "objective": "a } b", "tasks": [{"seq": "001", "slug": "a", "delta": ["a.py"], "verify": "echo \"}\""}]}"#;

    #[test]
    fn decisions_by_their_marks() {
        let cases = [
            ("### CLARIFY\n1. Which one?", "CLARIFY"),
            ("## Blocking Questions\n- Which?", "CLARIFY"),
            ("### Confidence: CLARIFY", "CLARIFY"),
            ("Confidence: CLARIFY", "CLARIFY"),
            ("**Confidence:** clarify", "CLARIFY"),
            ("decision: clarify", "CLARIFY"),
            ("I CLARIFY that we need more clarification", "CLARIFY"),
            ("Clarify nothing", "UNKNOWN"),
            ("### Clarifying words", "UNKNOWN"),
            ("### Confidence: CONFIRM", "CONFIRM"),
            ("### Confidence: VERIFY", "CONFIRM"),
            ("Decision: CONFIRM", "CONFIRM"),
            ("Confidence: PROCEED", "PROCEED"),
            ("### Confidence: PROCEED", "PROCEED"),
            ("Decision: PROCEED (high)", "PROCEED"),
            ("```json {", "PROCEED"),
            ("Confidence: PROCEED\nConfidence: CLARIFY", "CLARIFY"),
            ("Confidence: PROCEED\nConfidence: CONFIRM", "CONFIRM"),
            ("Confidence: PROCEEDING", "UNKNOWN"),
            ("```\n### CLARIFY\n```\nDecision: PROCEED", "PROCEED"),
            ("My confidence: CLARIFY is low", "UNKNOWN"),
            ("", "UNKNOWN"),
            ("{\"a\": 1}", "UNKNOWN"),
        ];
        for (text, expected) in cases {
            let found = parse(text);
            assert_eq!(found.kind.word(), expected, "{text}");
            assert_eq!(found.markers.is_empty(), expected == "UNKNOWN", "{text}");
        }
        assert_eq!(parse(PLAN).kind, DecisionKind::Proceed);
    }

    #[test]
    fn plans_are_found_wherever_they_stand() {
        let texts = [
            PLAN.to_owned(),
            format!("### Confidence: PROCEED\n\nprose {{x}}\n\n```json\n{PLAN}\n```\n"),
            format!("### Confidence: PROCEED\n```json\n{{\"example\": 1}}\n```\n```\n{PLAN}\n```"),
            format!("Here it is: {PLAN} and that's it"),
            format!("{{\"plan\": {PLAN}}}"),
            format!("Decision: CLARIFY\n{PLAN}"),
        ];
        for text in texts {
            let found = parse(&text);
            assert_eq!(
                found.plan_json.as_ref().and_then(|json| json.get("objective")?.as_str()),
                Some("a } b"),
                "{text}"
            );
            assert!(matches!(found.plan, Some(Ok(_))), "{text}");
        }
    }

    #[test]
    fn a_wrong_plan_says_what_is_wrong() {
        let found = parse("### Confidence: PROCEED\n```json\n{\"objective\": \"x\", \"tasks\": []}\n```");
        assert_eq!(found.kind, DecisionKind::Proceed);
        assert_eq!(found.problems(), ["tasks: tasks list is empty"]);
        let shown = found.to_json(true);
        assert_eq!(
            shown.get("validation").unwrap().get("errors").unwrap().line(),
            r#"["tasks list is empty"]"#
        );
        let keys: Vec<&str> = shown.fields().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["decision", "markers_found", "plan_json", "validation"]);

        let broken = parse("Decision: PROCEED\n```json\n{\"objective\": \"x\",\n \"tasks\": [,]}\n```");
        assert!(broken.problems()[0].contains("not valid JSON at line 2"), "{:?}", broken.problems());
        assert_eq!(parse("Decision: PROCEED").problems(), ["no plan found in the planner's text"]);
        assert_eq!(
            parse("Decision: PROCEED").to_json(false).line(),
            r#"{"decision": "PROCEED", "markers_found": ["^Decision:\\s*PROCEED"]}"#
        );
    }

    #[test]
    fn questions_are_taken_once_and_in_order() {
        let text = "### CLARIFY\n1. First?\n2) **Second?**\n3. Not a question\n- Outside?\n\n## Blocking Questions\n- Listed?\n* Other?\n- First?\n- Statement\n\n## Options\n- Not this?\n";
        assert_eq!(parse(text).questions, ["First?", "Second?", "Listed?", "Other?"]);
        let many: String = (0..MAX_QUESTIONS + 9).map(|at| format!("{at}. Question {at}?\n")).collect();
        assert_eq!(parse(&many).questions.len(), MAX_QUESTIONS);
    }

    #[test]
    fn mutated_texts_never_panic() {
        let whole = format!(
            "### Confidence: PROCEED\n1. Why é?\n```json\n{PLAN}\n```\n## Blocking Questions\n- What?\n"
        );
        let mut state = 9_u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        for _ in 0..2_000 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..1 + below(6) {
                let at = below(bytes.len());
                bytes[at] = b"#*`{}\"\\\n:?-1 \xc3\x00"[below(15)];
            }
            let found = parse(&String::from_utf8_lossy(&bytes));
            drop(found.to_json(true).pretty());
        }
    }
}
