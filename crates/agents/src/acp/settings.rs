//! What is known about an ACP agent before it is started: how it is started, and what it surely does.
//!
//! All of this is data of the settings. Whether an agent asks before it acts stands in no message of the
//! protocol, so it is said here for each agent that was tried, and nothing is believed of any other.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::contract::{Counted, Enforced};

/// An agent, as the settings describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcpAgent {
    /// What it is called in the settings.
    pub name: String,
    /// An absolute path, or a name to be looked up in the PATH of `env`.
    pub program: OsString,
    /// The arguments that it is started with.
    pub args: Vec<OsString>,
    /// Its whole environment, keys included.
    pub env: Vec<(OsString, OsString)>,
    /// The private home that `env` names; it is made before the agent is started. Nothing where it lives in the
    /// person's own.
    pub home: Option<PathBuf>,
    /// Its habits: what it surely does, and how it is made to.
    pub habits: Habits,
}

/// What an agent surely does, and how it is made to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// The mode that is set in each session.
    pub mode: Option<String>,
    /// The options that are set in each session, after the mode.
    pub options: Vec<(String, String)>,
    /// What we offer to do for it.
    pub serves: Serves,
    /// What it asks, or lets us do, before it happens: in that mode.
    pub asks: Asks,
    /// What its count of tokens means.
    pub meter: TokenCount,
    /// Whether it tells what a session has cost.
    pub costs: bool,
    /// Whether it takes up sessions that were opened before.
    pub loads: Loads,
}

/// What we offer to do for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serves {
    /// Reading files. Gemini 0.61 cannot make a new file when this is offered.
    pub read: bool,
    /// Writing whole files, new ones too.
    pub write: bool,
    /// Running commands, as terminals.
    pub terminal: bool,
}

/// What an agent asks, or lets us do, before it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Every call, whatever it does.
    Everything,
    /// Every change of a file and every command; other calls are told when they are made.
    Effects,
    /// Every change of a file; some other calls are not even told.
    Changes,
    /// Nothing that can be relied on.
    Nothing,
}

/// Whether an agent takes up sessions that were opened before, with the tools that it is given then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loads {
    /// It does: it was tried.
    Yes,
    /// It does not, whatever it offers. Goose 1.52 leaves the servers of tools out that a session is taken up with.
    No,
    /// Nothing is known; it is believed what it offers.
    IfOffered,
}

/// What an agent's count of tokens means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCount {
    /// All that the turn used.
    Turn,
    /// All that the session has used so far.
    Session,
    /// Only a part of it, such as the last request: the rest is unknown.
    Part,
}

impl Habits {
    /// Of an agent about which nothing is known.
    pub fn unknown() -> Habits {
        let serves = Serves { read: true, write: true, terminal: true };
        let (asks, meter) = (Asks::Nothing, TokenCount::Part);
        Habits { mode: None, options: Vec::new(), serves, asks, meter, costs: false, loads: Loads::IfOffered }
    }

    /// Of the agents that were tried: `goose` 1.52, `claude` (claude-agent-acp 0.99), `codex` (codex-acp 2.6), `qwen`
    /// (Qwen Code 0.24) and `gemini` (Gemini CLI 0.61).
    pub fn of(agent: &str) -> Option<Habits> {
        let (mode, asks, meter, costs, loads) = match agent {
            "goose" => ("approve", Asks::Everything, TokenCount::Part, false, Loads::No),
            "claude" => ("default", Asks::Effects, TokenCount::Turn, true, Loads::Yes),
            // Its own default mode lets a model decide. In this one commands run in a sandbox that writes nothing.
            "codex" => ("read-only", Asks::Changes, TokenCount::Turn, false, Loads::Yes),
            // Its own default mode lets a model decide.
            "qwen" => ("default", Asks::Changes, TokenCount::Part, false, Loads::No),
            "gemini" => ("default", Asks::Changes, TokenCount::Part, false, Loads::No),
            _ => return None,
        };
        let usual = Habits::unknown();
        let serves = Serves { read: agent != "gemini", ..usual.serves };
        Some(Habits { serves, mode: Some(mode.to_owned()), asks, meter, costs, loads, ..usual })
    }

    /// What is enforced with an agent of these habits.
    pub fn enforces(&self) -> Enforced {
        Enforced {
            calls: match self.asks {
                Asks::Everything => Counted::Before,
                Asks::Effects => Counted::After,
                Asks::Changes | Asks::Nothing => Counted::Never,
            },
            paths: match self.asks {
                Asks::Everything | Asks::Effects | Asks::Changes => true,
                Asks::Nothing => false,
            },
            commands: false,
            tokens: match self.meter {
                TokenCount::Turn | TokenCount::Session => true,
                TokenCount::Part => false,
            },
            money: self.costs,
            cancel: true,
            resume: match self.loads {
                Loads::Yes => true,
                Loads::No | Loads::IfOffered => false,
            },
            structured: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enforced_follows_from_habits() {
        let table = [
            ("goose", "before", true, false, false),
            ("claude", "after", true, true, true),
            ("codex", "not at all", true, true, false),
            ("qwen", "not at all", true, false, false),
            ("gemini", "not at all", true, false, false),
        ];
        for (name, calls, paths, tokens, money) in table {
            let found = Habits::of(name).unwrap().enforces();
            assert_eq!(
                (found.calls.word(), found.paths, found.tokens, found.money),
                (calls, paths, tokens, money)
            );
            assert!(found.cancel && !found.commands && !found.structured);
            assert_eq!(found.resume, ["claude", "codex"].contains(&name), "{name}");
        }
        let nobody = Habits::unknown().enforces();
        assert_eq!((nobody.calls.word(), nobody.paths, nobody.tokens), ("not at all", false, false));
        assert!(!nobody.resume);
        assert_eq!(Habits::of("somebody"), None);
    }
}
