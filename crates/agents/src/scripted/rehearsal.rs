//! Scripts of rehearsals: scenes that answer a whole action or task at once, without a session.
//!
//! ```toml
//! [[scene]]
//! role = "coder"            # or to = "verify.run", an action; or to = "*"
//! form = "code"             # left out: any
//! when = { story = "a" }    # parameters that it must have; `spec.id` looks inside
//! times = 2                 # how often it answers; left out: always
//!
//! [[scene.step]]
//! delay = "300ms"
//! calls = [{ tool = "read" }]                          # each is ruled on and counted, and none is carried out
//! usage = { tokens = 1200, money = "0.02", turns = 1 }
//! submit = { summary = "done {story}" }                # or fail (with kind), die, outage (with after), command
//! ```
//!
//! The steps of a scene are one answer. Files of earlier versions have `[[answer]]`s; they are read as scenes.

use std::collections::BTreeSet;
use std::time::Duration;

use ftl_core::amount::Unit;
use ftl_core::catalogue::Catalogue;
use ftl_core::performer::Performer;
use ftl_core::run::{FailureKind, Usage};
use ftl_core::value::{Name, Value};
use serde::Deserialize;

use super::script::{File, ScriptError, WrittenScene, WrittenStep, amount, parse_file};
use crate::contract::{MONEY, TOKENS, TURNS};

/// The name in `to` that stands for every action and role.
const EVERYBODY: &str = "*";

/// A rehearsal: rules, the first that fits answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RehearsalScript {
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// Whether the file is of an earlier version.
    pub is_old: bool,
}

/// What is answered to which job, how often, and after how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Whom it answers; every action and role where none is named.
    pub to: Option<Performer>,
    /// The parameters that the job must have, by their paths.
    pub when: Vec<(String, Value)>,
    /// How often it answers.
    pub times: Option<u64>,
    /// How long it waits.
    pub delay: Duration,
    /// The tools that it calls.
    pub tools: Vec<String>,
    /// What it uses, as it reports it.
    pub usage: Usage,
    /// What an agent uses beside; the use of a meter that is in neither is unknown.
    pub assumed: Usage,
    /// The answer, or how it fails.
    pub says: Says,
}

/// The answer of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// The value of the answer.
    Value(Value),
    /// It fails, with a kind and a message.
    Fail(FailureKind, String),
    /// The agent dies with this message.
    Die(String),
    /// A service does not answer, and asks for so long.
    Outage(String, Option<Duration>),
    /// The answer is the output of this command.
    Command(String),
}

/// A rule of an earlier version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAnswer {
    to: String,
    #[serde(default)]
    when: toml::Table,
    times: Option<u64>,
    delay: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    spend: toml::Table,
    value: Option<toml::Value>,
    fail: Option<String>,
    kind: Option<String>,
    die: Option<String>,
    outage: Option<String>,
    after: Option<String>,
    command: Option<String>,
}

impl RehearsalScript {
    /// Reads a rehearsal. Whatever is wrong is told with its place.
    pub fn parse(text: &str) -> Result<RehearsalScript, ScriptError> {
        let File { scene, answer } = parse_file(text)?;
        if !scene.is_empty() && !answer.is_empty() {
            return Err(ScriptError::Mixed);
        }
        let is_old = !answer.is_empty();
        let scenes = scene.into_iter().enumerate().map(|(at, scene)| {
            scene.into_rule(false).map_err(|message| ScriptError::Scene { number: at + 1, message })
        });
        let answers = answer.into_iter().enumerate().map(|(at, answer)| {
            let (number, to) = (at + 1, answer.to.clone());
            let rule = answer.into_scene().into_rule(true);
            rule.map_err(|message| ScriptError::Answer { number, to, message })
        });
        Ok(RehearsalScript { rules: scenes.chain(answers).collect::<Result<_, ScriptError>>()?, is_old })
    }

    /// The performers that it answers by name.
    pub fn performers(&self) -> BTreeSet<&Performer> {
        self.rules.iter().filter_map(|rule| rule.to.as_ref()).collect()
    }

    /// Whether some rule answers every action and role.
    pub fn answers_all(&self) -> bool {
        self.rules.iter().any(|rule| rule.to.is_none())
    }

    /// Whether it answers in a role.
    pub fn answers_role(&self, role: &str) -> bool {
        self.answers_all() || self.performers().iter().any(|one| one.role() == Some(role))
    }
}

impl WrittenAnswer {
    /// The same as a scene of one step.
    fn into_scene(self) -> WrittenScene {
        let call = |tool: String| toml::Table::from_iter([(String::from("tool"), toml::Value::String(tool))]);
        // A number was read as people write it: money in whole units, not in millionths.
        let spelled = |(meter, value): (String, toml::Value)| {
            let text = match value {
                toml::Value::Integer(number) => toml::Value::String(number.to_string()),
                other => other,
            };
            (meter, text)
        };
        let step = WrittenStep {
            delay: self.delay.map(toml::Value::String),
            calls: self.tools.into_iter().map(call).collect(),
            usage: self.spend.into_iter().map(spelled).collect(),
            submit: self.value,
            fail: self.fail,
            kind: self.kind,
            die: self.die,
            outage: self.outage,
            after: self.after.map(toml::Value::String),
            command: self.command,
            ..WrittenStep::default()
        };
        WrittenScene {
            to: Some(self.to),
            when: self.when,
            times: self.times,
            step: vec![step],
            ..WrittenScene::default()
        }
    }
}

impl WrittenScene {
    /// The scene as one rule. Of an answer of an earlier version nothing is known that it does not say.
    fn into_rule(self, is_old: bool) -> Result<Rule, String> {
        if self.told.is_some() {
            return Err(String::from("`told` needs a prompt, and a rehearsal has none"));
        }
        let to = match (self.to, &self.role) {
            (Some(_), Some(_)) => return Err(String::from("`to` and `role` both say whom it plays")),
            (Some(to), None) => Some(to).filter(|to| to != EVERYBODY).map(|to| Performer::from(&*to)),
            (None, Some(role)) => Some(Performer::Task(Name::from(role.as_str()))),
            (None, None) => None,
        };
        let mut when = Vec::new();
        if let Some(form) = self.form {
            let role = self.role.as_deref().and_then(|role| Catalogue::standard().role(role));
            let selector = role.and_then(|role| role.selector).ok_or("`form` needs a role that has forms")?;
            when.push((selector.to_owned(), Value::text(form)));
        }
        for (path, value) in &self.when {
            when.push((path.clone(), plain(value)?));
        }
        let mut rule = Rule {
            to,
            when,
            times: self.times,
            delay: Duration::ZERO,
            tools: Vec::new(),
            usage: Usage::new(),
            assumed: Usage::new(),
            says: Says::Die(String::new()),
        };
        let (mut says, mut silent) = (None, Vec::new());
        let steps = self.step.len() as u64;
        for (at, step) in self.step.into_iter().enumerate() {
            let place = |why: String| if is_old { why } else { format!("step {}: {why}", at + 1) };
            if says.is_some() {
                return Err(place(String::from("it comes after the end of its scene")));
            }
            silent.extend(step.silent.iter().cloned());
            says = step.play(&mut rule).map_err(place)?;
        }
        let nothing = "it says nothing: give it a value (submit), fail, die, outage or command";
        rule.says = says.ok_or(nothing)?;
        if let Some(both) = silent.iter().find(|name| rule.usage.contains_key(&***name)) {
            return Err(format!("it reports `{both}` and is silent about it"));
        }
        let known = [(TOKENS, 0), (MONEY, 0), (TURNS, steps)].into_iter().filter(|_| !is_old);
        let unsaid = known.filter(|(name, _)| !silent.iter().any(|one| one == name));
        rule.assumed = unsaid.map(|(name, amount)| (Name::from(name), amount)).collect();
        Ok(rule)
    }
}

impl WrittenStep {
    /// Adds what the step does to a rule; how it ends, if it does.
    fn play(self, rule: &mut Rule) -> Result<Option<Says>, String> {
        let is_talk = [
            ("until", self.until.is_some()),
            ("reply", self.reply.is_some()),
            ("ask", self.ask.is_some()),
            ("hang", self.hang),
            ("flood", self.flood),
        ];
        if let Some((word, _)) = is_talk.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!("`{word}` needs a conversation, and a rehearsal has none"));
        }
        rule.delay += self.delay.as_ref().map(duration).transpose()?.unwrap_or_default();
        for call in &self.calls {
            rule.tools.push(
                call.get("tool").and_then(toml::Value::as_str).ok_or("a call has no `tool`")?.to_owned(),
            );
        }
        for (meter, value) in &self.usage {
            *rule.usage.entry(Name::from(meter.as_str())).or_default() += amount(meter, value)?;
        }
        self.says()
    }

    fn says(self) -> Result<Option<Says>, String> {
        let kind = match &self.kind {
            None => FailureKind::Failed,
            Some(word) => FailureKind::ALL
                .into_iter()
                .find(|kind| kind.word() == word)
                .ok_or_else(|| format!("`{word}` is no kind of failure"))?,
        };
        let after = self.after.as_ref().map(duration).transpose()?;
        let mut said = Vec::new();
        said.extend(self.submit.as_ref().map(plain).transpose()?.map(Says::Value));
        said.extend(self.fail.map(|message| Says::Fail(kind, message)));
        said.extend(self.die.map(Says::Die));
        said.extend(self.outage.map(|service| Says::Outage(service, after)));
        said.extend(self.command.map(Says::Command));
        match said.len() {
            0 | 1 => Ok(said.pop()),
            _ => Err(String::from("it says more than one thing: value (submit), fail, die, outage, command")),
        }
    }
}

/// A time as scenes write it: milliseconds, or an amount such as `2s`.
pub(super) fn duration(value: &toml::Value) -> Result<Duration, String> {
    let millis = match value {
        toml::Value::Integer(number) => {
            u64::try_from(*number).map_err(|_| format!("`{number}` is no time"))?
        }
        toml::Value::String(text) => Unit::Time.parse(text).map_err(|error| error.to_string())?,
        other => return Err(format!("`{other}` is no time")),
    };
    Ok(Duration::from_millis(millis))
}

fn plain(value: &toml::Value) -> Result<Value, String> {
    let json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    serde_json::from_value(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_answer_is_the_scene_that_says_the_same() {
        let old = "[[answer]]\nto = \"Task(coder)\"\nwhen = { step = \"code\" }\ntimes = 2\ndelay = \"2s\"\n\
            tools = [\"read\", \"edit\"]\nspend = { tokens = \"12k\", money = 3 }\nvalue = { summary = \"s\" }\n\
            [[answer]]\nto = \"sh\"\nfail = \"no\"\nkind = \"timeout\"\n\
            [[answer]]\nto = \"*\"\noutage = \"model\"\nafter = \"1m\"\n";
        let new = "[[scene]]\nrole = \"coder\"\nform = \"code\"\ntimes = 2\n\
            [[scene.step]]\ndelay = 1500\ncalls = [{ tool = \"read\" }]\nusage = { tokens = \"10k\" }\n\
            [[scene.step]]\ndelay = \"500ms\"\ncalls = [{ tool = \"edit\" }]\nsilent = [\"turns\"]\n\
            usage = { tokens = 2000, money = 3000000 }\nsubmit = { summary = \"s\" }\n\
            [[scene]]\nto = \"sh\"\n[[scene.step]]\nfail = \"no\"\nkind = \"timeout\"\nsilent = [\"tokens\", \"money\", \"turns\"]\n\
            [[scene]]\n[[scene.step]]\noutage = \"model\"\nafter = \"1m\"\nsilent = [\"tokens\", \"money\", \"turns\"]\n";
        let (old, new) = (RehearsalScript::parse(old).unwrap(), RehearsalScript::parse(new).unwrap());
        assert_eq!((old.is_old, new.is_old), (true, false));
        let usage: Vec<Usage> = new.rules.iter().map(|rule| rule.assumed.clone()).collect();
        assert_eq!(
            usage,
            [Usage::from([("tokens".into(), 0), ("money".into(), 0)]), Usage::new(), Usage::new()]
        );
        let known = new.rules.into_iter().map(|rule| Rule { assumed: Usage::new(), ..rule });
        assert_eq!(old.rules, known.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let scene = |step: &str| format!("[[scene]]\nto = 'a'\n[[scene.step]]\n{step}\n");
        let table = [
            ("[[scene]]\n".to_owned(), "scene 1, it says nothing"),
            ("[[answer]]\nto = 'sh'\n".to_owned(), "answer 1 (to sh): it says nothing"),
            (
                "[[answer]]\nto = 'sh'\nvalue = 1\ndie = 'x'\n".to_owned(),
                "answer 1 (to sh): it says more than one",
            ),
            (scene("submit = 1\ndie = 'x'"), "scene 1, step 1: it says more than one thing"),
            (scene("die = 'x'\n[[scene.step]]\n"), "scene 1, step 2: it comes after the end"),
            (scene("hang = true"), "scene 1, step 1: `hang` needs a conversation"),
            (scene("reply = 'x'"), "scene 1, step 1: `reply` needs a conversation"),
            (scene("fail = 'x'\nkind = 'y'"), "scene 1, step 1: `y` is no kind of failure"),
            (scene("usage = { money = 'x' }"), "scene 1, step 1: `x` is not money"),
            (scene("delay = -1"), "scene 1, step 1: `-1` is no time"),
            ("[[scene]]\ntold = 'x'\n".to_owned(), "scene 1, `told` needs a prompt"),
            ("[[scene]]\nto = 'x'\nrole = 'y'\n".to_owned(), "scene 1, `to` and `role` both"),
            ("[[scene]]\nto = 'x'\nform = 'y'\n".to_owned(), "scene 1, `form` needs a role"),
            ("[[scene]]\n[[answer]]\nto = 'x'\n".to_owned(), "it has [[scene]]s and the older [[answer]]s"),
        ];
        for (text, wanted) in table {
            let why = RehearsalScript::parse(&text).unwrap_err().to_string();
            assert!(why.starts_with(wanted), "{text}: {why}");
        }
        assert_eq!(RehearsalScript::parse(""), Ok(RehearsalScript::default()));
    }

    #[test]
    fn the_example_of_the_documentation_is_a_rehearsal() {
        let docs = include_str!("rehearsal.rs").lines().skip_while(|line| *line != "//! ```toml").skip(1);
        let text: Vec<&str> = docs
            .take_while(|line| *line != "//! ```")
            .map(|line| line.trim_start_matches("//! ").trim_start_matches("//!"))
            .collect();
        let rule = &RehearsalScript::parse(&text.join("\n")).unwrap().rules[0];
        assert_eq!(
            (rule.to.clone(), rule.times, rule.tools.len()),
            (Some(Performer::from("Task(coder)")), Some(2), 1)
        );
        assert_eq!(rule.usage.get("money"), Some(&20_000));
    }
}
