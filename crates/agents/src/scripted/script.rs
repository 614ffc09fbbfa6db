//! Scripts of agents: TOML, read and checked before anything is played.
//!
//! ```toml
//! [[scene]]
//! role = "coder"            # whom it plays; left out: every role
//! form = "code"             # in which form; left out: any
//! told = "exit code 1"      # only if the prompt holds this; a list: only if it holds all of them
//!
//! [[scene.step]]
//! say = "I write the file."
//! calls = [{ tool = "write", path = "a.txt", content = "hello" }]
//! usage = { tokens = 1200, money = 3000 }
//!
//! [[scene.step]]
//! submit = { summary = "written" }
//! ```
//!
//! A step may wait (`delay`, milliseconds; `until`, a file that must be there), speak, call tools, use something, and end a turn in one way:
//! `submit`, `reply`, `ask`, `die`, `hang`, `flood`, `outage`. `silent` names meters that it does not
//! report. TOML says all of this; there is no second form, and rehearsals speak the same language.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ftl_core::amount::Unit;
use ftl_core::run::Usage;
use ftl_core::value::Name;
use serde::Deserialize;
use serde_json::Value as Json;

use super::Called;
use super::rehearsal::{WrittenAnswer, duration};
use crate::contract::{MONEY, TOKENS};

/// The largest script that is read.
pub const MAX_SCRIPT_BYTES: u64 = 4 * 1024 * 1024;

/// The answers of agents, written down: scenes, each for one kind of session.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub(super) scenes: Arc<[Scene]>,
}

/// What one kind of session is like.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub(super) role: Option<String>,
    pub(super) form: Option<String>,
    pub(super) told: Vec<String>,
    pub(super) steps: Arc<[Step]>,
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) delay: Duration,
    /// A file that it waits for, from the folder in which the agent works.
    pub(super) until: Option<PathBuf>,
    pub(super) say: Option<String>,
    pub(super) calls: Vec<Called>,
    pub(super) usage: Usage,
    pub(super) silent: Vec<Name>,
    pub(super) end: Option<End>,
}

/// How a step ends a turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Submit(Json),
    Reply(String),
    Ask(String),
    Die(String),
    Hang,
    Flood,
    Outage(String, Option<Duration>),
}

/// A script as it is written, for an agent or for a rehearsal.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) scene: Vec<WrittenScene>,
    #[serde(default)]
    pub(super) answer: Vec<WrittenAnswer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenScene {
    pub(super) to: Option<String>,
    pub(super) role: Option<String>,
    pub(super) form: Option<String>,
    pub(super) told: Option<Told>,
    pub(super) when: toml::Table,
    pub(super) times: Option<u64>,
    pub(super) step: Vec<WrittenStep>,
}

/// The texts that a prompt must hold.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Told {
    One(String),
    All(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenStep {
    pub(super) delay: Option<toml::Value>,
    pub(super) until: Option<PathBuf>,
    pub(super) say: Option<String>,
    pub(super) calls: Vec<toml::Table>,
    pub(super) usage: BTreeMap<String, toml::Value>,
    pub(super) silent: Vec<String>,
    pub(super) submit: Option<toml::Value>,
    pub(super) reply: Option<String>,
    pub(super) ask: Option<String>,
    pub(super) fail: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) die: Option<String>,
    pub(super) hang: bool,
    pub(super) flood: bool,
    pub(super) outage: Option<String>,
    pub(super) after: Option<toml::Value>,
    pub(super) command: Option<String>,
}

/// What is wrong with a script or a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptError {
    /// It has so many bytes, more than the limit.
    Large(usize),
    /// It is not written as a script is.
    NotToml(String),
    /// The script has no scene.
    NoScene,
    /// It has scenes, and the answers of an earlier version.
    Mixed,
    /// A scene is wrong.
    Scene {
        /// Which one, from 1.
        number: usize,
        /// What is wrong with it.
        message: String,
    },
    /// An answer of an earlier version is wrong.
    Answer {
        /// Which one, from 1.
        number: usize,
        /// The action or the role that it answers.
        to: String,
        /// What is wrong with it.
        message: String,
    },
}

impl fmt::Display for ScriptError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptError::Large(bytes) => write!(out, "it has {bytes} bytes; {MAX_SCRIPT_BYTES} is the most"),
            ScriptError::NotToml(message) => out.write_str(message),
            ScriptError::NoScene => out.write_str("it has no [[scene]]"),
            ScriptError::Mixed => {
                out.write_str("it has [[scene]]s and the older [[answer]]s: write them all as scenes")
            }
            ScriptError::Scene { number, message } => write!(out, "scene {number}, {message}"),
            ScriptError::Answer { number, to, message } => {
                write!(out, "answer {number} (to {to}): {message}")
            }
        }
    }
}

impl std::error::Error for ScriptError {}

/// Reads a script as it is written.
pub(super) fn parse_file(text: &str) -> Result<File, ScriptError> {
    if text.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(ScriptError::Large(text.len()));
    }
    toml::from_str(text).map_err(|error| ScriptError::NotToml(error.to_string().trim().to_owned()))
}

/// An amount of a meter: a number in the smallest unit, or an amount as people write it.
pub(super) fn amount(meter: &str, value: &toml::Value) -> Result<u64, String> {
    let unit = Unit::of_meter(meter);
    match value {
        toml::Value::Integer(number) => {
            u64::try_from(*number).map_err(|_| format!("`{number}` is no amount of `{meter}`"))
        }
        toml::Value::Float(number) => unit.parse(&number.to_string()).map_err(|error| error.to_string()),
        toml::Value::String(text) => unit.parse(text).map_err(|error| error.to_string()),
        other => Err(format!("`{other}` is no amount of `{meter}`")),
    }
}

impl Script {
    /// Reads a script. Whatever is wrong is told with the number of its scene and step.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let file = parse_file(text)?;
        if file.scene.is_empty() {
            return Err(ScriptError::NoScene);
        }
        let numbered = file.scene.into_iter().enumerate();
        let scenes: Result<Vec<Scene>, ScriptError> = numbered
            .map(|(at, scene)| scene.read().map_err(|message| ScriptError::Scene { number: at + 1, message }))
            .collect();
        Ok(Script { scenes: scenes?.into() })
    }
}

impl WrittenScene {
    fn read(self) -> Result<Scene, String> {
        let of_rehearsals =
            [("to", self.to.is_some()), ("when", !self.when.is_empty()), ("times", self.times.is_some())];
        if let Some((word, _)) = of_rehearsals.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!("`{word}` is for rehearsals: an agent counts nothing and sees its prompt"));
        }
        if self.step.is_empty() {
            return Err(String::from("it has no step"));
        }
        let numbered = self.step.into_iter().enumerate();
        let steps: Result<Vec<Step>, String> =
            numbered.map(|(at, step)| step.read().map_err(|why| format!("step {}: {why}", at + 1))).collect();
        let told = match self.told {
            None => Vec::new(),
            Some(Told::One(text)) => vec![text],
            Some(Told::All(texts)) => texts,
        };
        Ok(Scene { role: self.role, form: self.form, told, steps: steps?.into() })
    }
}

impl WrittenStep {
    fn read(self) -> Result<Step, String> {
        let calls = self.calls.iter().map(parse_call).collect::<Result<_, _>>()?;
        let known = |name: &str| [TOKENS, MONEY].contains(&name);
        if let Some(name) = self.usage.keys().chain(&self.silent).find(|name| !known(name)) {
            return Err(format!("`{name}` is no meter that an agent reports; there are tokens and money"));
        }
        let amounts =
            self.usage.iter().map(|(name, value)| Ok((Name::from(name.as_str()), amount(name, value)?)));
        let mut usage: Usage = amounts.collect::<Result<_, String>>()?;
        let silent: Vec<Name> = self.silent.iter().map(|name| Name::from(name.as_str())).collect();
        if let Some(both) = silent.iter().find(|name| usage.contains_key(*name)) {
            return Err(format!("it reports `{both}` and is silent about it"));
        }
        for name in [TOKENS, MONEY].into_iter().filter(|name| !silent.iter().any(|one| &**one == *name)) {
            usage.entry(Name::from(name)).or_insert(0);
        }
        let delay = self.delay.as_ref().map(duration).transpose()?.unwrap_or_default();
        let until = self.until.clone();
        let say = self.say.clone();
        Ok(Step { delay, until, say, calls, usage, silent, end: self.end()? })
    }

    fn end(self) -> Result<Option<End>, String> {
        if self.fail.is_some() || self.kind.is_some() || self.command.is_some() {
            return Err(String::from("`fail`, `kind` and `command` are for rehearsals"));
        }
        let after = self.after.as_ref().map(duration).transpose()?;
        let mut ends = Vec::new();
        ends.extend(self.submit.as_ref().map(json).transpose()?.map(End::Submit));
        ends.extend(self.reply.map(End::Reply));
        ends.extend(self.ask.map(End::Ask));
        ends.extend(self.die.map(End::Die));
        ends.extend(self.hang.then_some(End::Hang));
        ends.extend(self.flood.then_some(End::Flood));
        let is_outage = self.outage.is_some();
        ends.extend(self.outage.map(|service| End::Outage(service, after)));
        if after.is_some() && !is_outage {
            return Err(String::from("`after` belongs to an `outage`"));
        }
        match ends.len() {
            0 | 1 => Ok(ends.pop()),
            _ => Err(String::from(
                "it ends in more than one way: submit, reply, ask, die, hang, flood, outage",
            )),
        }
    }
}

/// A call as it is written: its tool beside its arguments.
fn parse_call(table: &toml::Table) -> Result<Called, String> {
    let tool = table.get("tool").and_then(toml::Value::as_str).ok_or("a call has no `tool`")?;
    let args: Result<serde_json::Map<_, _>, String> = table
        .iter()
        .filter(|(name, _)| *name != "tool")
        .map(|(name, value)| Ok((name.clone(), json(value)?)))
        .collect();
    Ok((tool.to_owned(), Json::Object(args?)))
}

fn json(value: &toml::Value) -> Result<Json, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let table = [
            ("", "it has no [[scene]]"),
            ("[[scene]]\n", "scene 1, it has no step"),
            (
                "[[scene]]\n[[scene.step]]\nreply = 'a'\nhang = true\n",
                "scene 1, step 1: it ends in more than one way: submit, reply, ask, die, hang, flood, outage",
            ),
            (
                "[[scene]]\n[[scene.step]]\n[[scene.step]]\ncalls = [{}]\n",
                "scene 1, step 2: a call has no `tool`",
            ),
            (
                "[[scene]]\n[[scene.step]]\nusage = { tools = 1 }\n",
                "scene 1, step 1: `tools` is no meter that an agent reports; there are tokens and money",
            ),
            (
                "[[scene]]\n[[scene.step]]\nusage = { tokens = 1 }\nsilent = ['tokens']\n",
                "scene 1, step 1: it reports `tokens` and is silent about it",
            ),
            ("[[scene]]\n[[scene.step]]\nafter = 1\n", "scene 1, step 1: `after` belongs to an `outage`"),
        ];
        for (text, wanted) in table {
            assert_eq!(Script::parse(text).unwrap_err().to_string(), wanted, "{text}");
        }
        assert!(Script::parse("[[scene]]\nrolle = 'x'\n").unwrap_err().to_string().contains("rolle"));
        let large = "#".repeat(usize::try_from(MAX_SCRIPT_BYTES).unwrap() + 1);
        assert!(Script::parse(&large).unwrap_err().to_string().contains("is the most"));
    }

    #[test]
    fn the_example_of_the_documentation_is_a_script() {
        let docs = include_str!("script.rs").lines().skip_while(|line| *line != "//! ```toml").skip(1);
        let text: Vec<&str> = docs
            .take_while(|line| *line != "//! ```")
            .map(|line| line.trim_start_matches("//! ").trim_start_matches("//!"))
            .collect();
        let script = Script::parse(&text.join("\n")).unwrap();
        let steps = &script.scenes[0].steps;
        assert_eq!(steps[0].calls[0].0, "write");
        assert_eq!(steps[0].usage.get("money"), Some(&3000));
        assert_eq!(steps[1].end, Some(End::Submit(serde_json::json!({ "summary": "written" }))));
    }
}
