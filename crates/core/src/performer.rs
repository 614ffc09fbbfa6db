//! Who performs what a step asks for, and how journals, scripts and messages write it.
//!
//! The text is read here and nowhere else; who is behind a performer is the engine's matter.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::Name;

/// Who performs what a step asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Performer {
    /// The code of an action of the catalogue: `verify.run`.
    Action(Name),
    /// An agent in a role: `Task(builder)`.
    Task(Name),
    /// A child of a protocol: `Run(builder)`.
    Run(Name),
    /// A shell command: `sh`.
    Shell,
    /// A person, by a word: `word`.
    Word,
    /// A person, by an answer: `question`.
    Question,
    /// An item of FOR EACH: `item`.
    Item,
    /// All items or branches together: `all`.
    All,
}

impl Performer {
    /// The name in the catalogue, where it is no agent, no child and no person.
    pub fn action(&self) -> Option<&str> {
        match self {
            Performer::Action(name) => Some(name),
            Performer::Shell => Some("sh"),
            Performer::Task(_) | Performer::Run(_) => None,
            Performer::Word | Performer::Question | Performer::Item | Performer::All => None,
        }
    }

    /// The role, where it is an agent.
    pub fn role(&self) -> Option<&str> {
        match self {
            Performer::Task(role) => Some(role),
            Performer::Action(_) | Performer::Run(_) | Performer::Shell => None,
            Performer::Word | Performer::Question | Performer::Item | Performer::All => None,
        }
    }
}

impl From<&str> for Performer {
    fn from(text: &str) -> Performer {
        let inside =
            |head: &str| text.strip_prefix(head).and_then(|rest| rest.strip_suffix(')')).map(Name::from);
        match text {
            "sh" => Performer::Shell,
            "word" => Performer::Word,
            "question" => Performer::Question,
            "item" => Performer::Item,
            "all" => Performer::All,
            _ => inside("Task(")
                .map(Performer::Task)
                .or_else(|| inside("Run(").map(Performer::Run))
                .unwrap_or_else(|| Performer::Action(Name::from(text))),
        }
    }
}

impl fmt::Display for Performer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Performer::Action(name) => out.write_str(name),
            Performer::Task(role) => write!(out, "Task({role})"),
            Performer::Run(protocol) => write!(out, "Run({protocol})"),
            Performer::Shell => out.write_str("sh"),
            Performer::Word => out.write_str("word"),
            Performer::Question => out.write_str("question"),
            Performer::Item => out.write_str("item"),
            Performer::All => out.write_str("all"),
        }
    }
}

impl Serialize for Performer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Performer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Performer, D::Error> {
        String::deserialize(deserializer).map(|text| Performer::from(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_written_as_it_was_read() {
        let table = [
            ("verify.run", Performer::Action(Name::from("verify.run"))),
            ("Task(builder)", Performer::Task(Name::from("builder"))),
            ("Run(builder)", Performer::Run(Name::from("builder"))),
            ("sh", Performer::Shell),
            ("word", Performer::Word),
            ("question", Performer::Question),
            ("item", Performer::Item),
            ("all", Performer::All),
            ("Task(half", Performer::Action(Name::from("Task(half"))),
            ("", Performer::Action(Name::from(""))),
        ];
        for (text, performer) in table {
            assert_eq!(Performer::from(text), performer);
            assert_eq!(serde_json::to_value(&performer).unwrap(), text);
            assert_eq!(serde_json::from_value::<Performer>(text.into()).unwrap(), performer);
        }
    }
}
