//! Scripts out of what was recorded: a session of any backend as a scene that can be played again.
//!
//! A scene is chosen by what an agent is told. Sessions of one role in one form are told apart by their task, and
//! those of one task by a line that only one of them was told; sessions that were told the same are one scene, the
//! last of them. No scene is chosen by what is another the next time: a time stamp, the name of a run, a commit.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use ftl_agents::scripted::{Script, ScriptError};

/// A session as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedSession {
    /// The role that was asked.
    pub role: String,
    /// The form in which it was asked; `None` for a role with one form.
    pub form: Option<String>,
    /// The prompt of the first turn.
    pub prompt: String,
    /// What it did, turn by turn.
    pub steps: Vec<RecordedStep>,
}

/// One answer of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedStep {
    /// The text that it wrote.
    pub say: String,
    /// The tools that it called, with their arguments.
    pub calls: Vec<(String, Json)>,
    /// What it reported; nothing where it reported nothing.
    pub usage: BTreeMap<String, u64>,
    /// The answer that it submitted.
    pub submit: Option<Json>,
    /// The question that it asked a person.
    pub ask: Option<String>,
    /// What it said instead of submitting.
    pub reply: Option<String>,
    /// The message with which it died.
    pub die: Option<String>,
}

/// The meters that a step reports or is silent about.
const METERS: [&str; 2] = [ftl_agents::contract::TOKENS, ftl_agents::contract::MONEY];

/// A script of sessions, ready to be played.
pub fn script_of(sessions: &[RecordedSession]) -> Result<String, ScriptError> {
    let mut scenes: Vec<(Vec<&str>, &RecordedSession)> = Vec::new();
    for (at, one) in sessions.iter().enumerate() {
        let alike = |other: &&RecordedSession| other.role == one.role && other.form == one.form;
        let others: Vec<&RecordedSession> = sessions
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, other)| other)
            .filter(alike)
            .collect();
        let later = &sessions[at + 1..];
        if later.iter().filter(alike).any(|other| other.prompt == one.prompt) {
            continue;
        }
        scenes.push((distinguishing_texts(one, &others), one));
    }
    // The first scene that fits is played: one that fits every prompt comes last.
    scenes.sort_by_key(|(told, _)| std::cmp::Reverse(told.len()));
    let scenes: Vec<Json> = scenes.into_iter().map(|(told, one)| scene(one, &told)).collect();
    let text = toml::to_string(&json!({ "scene": scenes }))
        .map_err(|error| ScriptError::NotToml(error.to_string()))?;
    Script::parse(&text)?;
    Ok(text)
}

/// What tells a session apart from others of its role and form: the task, and where others had the same task the
/// longest line that only this one was told, for it says most.
fn distinguishing_texts<'a>(one: &'a RecordedSession, others: &[&RecordedSession]) -> Vec<&'a str> {
    let others: Vec<&&RecordedSession> = others.iter().filter(|other| other.prompt != one.prompt).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let lines = || one.prompt.lines().map(str::trim).filter(|line| !line.is_empty());
    let task = lines().find(|line| line.starts_with(TASK));
    let is_alike = |other: &&&&RecordedSession| task.is_none_or(|task| other.prompt.contains(task));
    let alike: Vec<&&&RecordedSession> = others.iter().filter(is_alike).collect();
    let only = lines()
        .filter(|line| is_lasting(line) && !alike.iter().any(|other| other.prompt.contains(line)))
        .max_by_key(|line| line.len());
    task.into_iter().chain(only.filter(|_| !alike.is_empty())).collect()
}

/// How the line of a brief begins that names its task.
const TASK: &str = "\"id\": ";

/// The least letters of a digest or a commit, as they are shown.
const MIN_DIGEST_LETTERS: usize = 7;

/// How long the name of a run is.
const RUN_LETTERS: usize = 8;

/// Whether a line is the same the next time: it holds no time, no duration, no digest and no name of a run.
fn is_lasting(line: &str) -> bool {
    let words: Vec<&str> = line.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let has = |word: &str, is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_date =
        words.windows(3).any(|part| part[0].len() == 4 && part[..2].iter().all(|one| is_number(one)));
    let changes = |word: &&str| {
        let is_hex = word.len() >= MIN_DIGEST_LETTERS && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_run = word.len() == RUN_LETTERS && has(word, u8::is_ascii_lowercase);
        let is_time = word.strip_suffix("ms").or(word.strip_suffix('s')).is_some_and(is_number);
        (is_hex || is_run || is_time) && has(word, u8::is_ascii_digit)
    };
    !is_date && !words.iter().any(changes)
}

fn scene(one: &RecordedSession, told: &[&str]) -> Json {
    let mut scene = Map::new();
    scene.insert("role".into(), json!(one.role));
    if let Some(form) = &one.form {
        scene.insert("form".into(), json!(form));
    }
    match told {
        [] => {}
        [one] => drop(scene.insert("told".into(), json!(one))),
        several => drop(scene.insert("told".into(), json!(several))),
    }
    scene.insert("step".into(), one.steps.iter().map(step).collect());
    Json::Object(scene)
}

fn step(one: &RecordedStep) -> Json {
    let mut step = Map::new();
    if !one.say.is_empty() {
        step.insert("say".into(), json!(one.say));
    }
    if !one.calls.is_empty() {
        let call = |(tool, args): &(String, Json)| {
            let mut call = args.as_object().cloned().unwrap_or_default();
            // TOML has no word for nothing.
            call.retain(|_, value| !value.is_null());
            call.insert("tool".into(), json!(tool));
            Json::Object(call)
        };
        step.insert("calls".into(), one.calls.iter().map(call).collect());
    }
    let usage: Map<String, Json> = one
        .usage
        .iter()
        .filter(|(name, _)| METERS.contains(&name.as_str()))
        .map(|(name, used)| (name.clone(), json!(used)))
        .collect();
    let silent: Vec<&str> = METERS.into_iter().filter(|name| !one.usage.contains_key(*name)).collect();
    if !usage.is_empty() {
        step.insert("usage".into(), Json::Object(usage));
    }
    if !silent.is_empty() {
        step.insert("silent".into(), json!(silent));
    }
    let ends = [
        ("submit", one.submit.as_ref().map(without_nothing)),
        ("ask", one.ask.as_ref().map(|text| json!(text))),
        ("reply", one.reply.as_ref().map(|text| json!(text))),
        ("die", one.die.as_ref().map(|text| json!(text))),
    ];
    if let Some((name, value)) = ends.into_iter().find_map(|(name, value)| Some((name, value?))) {
        step.insert(name.into(), value);
    }
    Json::Object(step)
}

/// A value without its nulls: TOML has none, and in an answer a field that is null is a field left out.
fn without_nothing(value: &Json) -> Json {
    match value {
        Json::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nothing(value)))
            .collect(),
        Json::Array(items) => items.iter().filter(|item| !item.is_null()).map(without_nothing).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(prompt: &str, summary: &str) -> RecordedSession {
        let work = RecordedStep {
            say: "I write.".into(),
            calls: vec![("write".into(), json!({ "path": "a", "content": "x\ny", "mode": null }))],
            usage: [("tokens".to_owned(), 7), ("turns".to_owned(), 1)].into(),
            ..RecordedStep::default()
        };
        let end = RecordedStep {
            submit: Some(json!({ "summary": summary, "notes": null, "list": [1, null] })),
            ..RecordedStep::default()
        };
        RecordedSession {
            role: "coder".into(),
            form: Some("code".into()),
            prompt: prompt.into(),
            steps: vec![work, end],
        }
    }

    /// By what each scene of a script is chosen.
    fn read_told(text: &str) -> Vec<Vec<String>> {
        let table: toml::Table = text.parse().unwrap();
        let one = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let of = |scene: &toml::Value| match scene.get("told") {
            None => Vec::new(),
            Some(toml::Value::Array(all)) => all.iter().map(one).collect(),
            Some(value) => vec![one(value)],
        };
        table["scene"].as_array().unwrap().iter().map(of).collect()
    }

    #[test]
    fn sessions_are_told_apart_by_what_they_were_told() {
        let text = script_of(&[session("same\nstory one", "1"), session("same\nstory two", "2")]).unwrap();
        assert!(text.contains("told = \"story one\"") && text.contains("told = \"story two\""), "{text}");
        assert!(text.contains("silent = [\"money\"]") && text.contains("tokens = 7"), "{text}");
        assert_eq!(text.matches("[[scene]]").count(), 2, "{text}");
    }

    #[test]
    fn who_was_told_the_same_is_one_scene() {
        let text = script_of(&[session("same", "1"), session("same", "2")]).unwrap();
        assert_eq!((text.matches("[[scene]]").count(), text.contains("told")), (1, false), "{text}");
        assert!(text.contains("summary = \"2\""));
    }

    #[test]
    fn one_that_was_told_less_comes_to_its_own_scene_too() {
        // Everything that the first was told, the second was told as well.
        let text = script_of(&[session("same", "1"), session("same\nmore", "2")]).unwrap();
        let told = read_told(&text);
        assert_eq!(told, [vec!["more".to_owned()], vec![]], "{text}");
    }

    #[test]
    fn no_scene_is_chosen_by_what_is_another_the_next_time() {
        let brief = |task: &str, time: &str, more: &str| {
            format!("\"created_at\": \"2026-11-18T02:25:{time}\",\n\"id\": \"{task}\",\n{more}")
        };
        let text = script_of(&[
            session(&brief("001-one", "38.401151", ""), "1"),
            session(
                &brief(
                    "001-one",
                    "39.401151",
                    "test_a failed in 0.031s, bb099b3c3550 on ftl/yct8bnrr\nmind the gap",
                ),
                "2",
            ),
            session(&brief("002-two", "40.401151", "\"prior\": \"001-one\""), "3"),
        ])
        .unwrap();
        let told = read_told(&text);
        let (one, two) = ("\"id\": \"001-one\",".to_owned(), "\"id\": \"002-two\",".to_owned());
        assert_eq!(told, [vec![one.clone(), "mind the gap".to_owned()], vec![one], vec![two]], "{text}");
        for line in ["at 2026-11-18", "it took 12ms", "in 0.031s", "bb099b3c3550 landed", "run yct8bnrr"] {
            assert!(!is_lasting(line), "{line}");
        }
        assert!(is_lasting("\"id\": \"001-one\",") && is_lasting("2 of 3 tests failed"));
    }
}
