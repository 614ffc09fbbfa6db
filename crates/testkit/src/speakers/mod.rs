//! What every backend of agents promises, as one suite of tests that any backend can be put through.
//!
//! `agent_contract!` makes one test of each case. A case says what the agent does as a list of acts and
//! knows nothing of who plays it: a [`Cast`] turns acts into a script, into the answers of a model
//! server, or into whatever makes an agent behave so.

mod after;
mod bare;
mod cases;
mod casts;
mod clerk;

use std::any::Any;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ftl_agents::contract::{Backend, SessionLimits, SessionOrder};
use ftl_agents::schema::Schema;
use ftl_agents::toolset::NAMES;
use ftl_core::tool_policy::{ToolAllowance, Write};
use ftl_core::value::Name;
use serde_json::{Value as Json, json};

pub use bare::Bare;
pub use cases::*;
pub use casts::{ModelCast, ScriptCast, endpoint};
pub use clerk::{FakeTime, Heard, RecordingHost};

/// The key that every cast gives its backend, and that must never be seen.
pub const KEY: &str = "contract-test-key";

/// One thing that an agent does.
#[derive(Clone, Debug, Default)]
pub struct Act {
    /// The text that it writes; empty for none.
    pub say: String,
    /// The tools that it calls, with their arguments.
    pub calls: Vec<(&'static str, Json)>,
    /// The tokens that it reports; nothing if it reports none.
    pub tokens: Option<u64>,
    /// The end of the act.
    pub end: End,
}

/// How an act ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum End {
    /// With the next act.
    #[default]
    GoesOn,
    /// It submits this as its work.
    Submits(Json),
    /// It only says this.
    Says(String),
    /// It asks a person this.
    Asks(String),
    /// It dies in the middle.
    Dies,
    /// It says nothing any more.
    Hangs,
    /// It does not stop talking.
    Floods,
}

impl Act {
    /// An act that ends so, and reports ten tokens.
    pub fn of(end: End) -> Act {
        Act { end, tokens: Some(10), ..Act::default() }
    }

    /// An act that calls a tool, and reports ten tokens.
    pub fn call(tool: &'static str, args: Json) -> Act {
        Act { calls: vec![(tool, args)], tokens: Some(10), ..Act::default() }
    }

    /// The same, with that many tokens.
    #[must_use]
    pub fn using(self, tokens: Option<u64>) -> Act {
        Act { tokens, ..self }
    }

    /// The same, with words.
    #[must_use]
    pub fn saying(self, words: &str) -> Act {
        Act { say: words.to_owned(), ..self }
    }
}

/// A backend that behaves as it was told, with whatever must live as long as it does.
pub struct Stage {
    /// The backend under test.
    pub backend: Box<dyn Backend>,
    /// What must not be dropped before.
    pub keep: Box<dyn Any>,
}

/// Makes a backend whose agent does as it is told.
pub trait Cast {
    /// A backend for these acts.
    fn play(&self, acts: &[Act]) -> Stage;

    /// How finely the backend sees what the agent uses.
    fn grain(&self) -> Grain {
        Grain::Act
    }
}

/// How finely a backend sees what an agent uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// After each act, before its calls are made: the loop is ours.
    Act,
    /// When a turn has ended: the loop is the agent's own.
    Turn,
}

/// The answer that the cases want: `{"summary": "…"}`.
pub fn answer() -> Schema {
    let schema = json!({ "type": "object", "required": ["summary"],
        "properties": { "summary": { "type": "string" } }, "additionalProperties": true });
    Schema::new(schema).unwrap()
}

/// What an agent of a case may do: all tools, write below `src`, so many calls.
pub fn allowance(calls: u64) -> ToolAllowance {
    ToolAllowance {
        tools: NAMES.into_iter().map(Name::from).collect(),
        write: Write::Only(["src".to_owned()].into()),
        calls: Some(calls),
        ask: BTreeSet::new(),
    }
}

/// An order in a folder.
pub fn order(folder: &Path, allowance: &ToolAllowance) -> SessionOrder {
    SessionOrder {
        folder: folder.to_owned(),
        role: "coder".into(),
        form: Some("code".into()),
        model: None,
        system: "You write code.".into(),
        allowance: allowance.clone(),
        answer: answer(),
        limits: SessionLimits {
            requests: 20,
            silence: Duration::from_millis(600),
            whole: Duration::from_secs(20),
        },
        shell: None,
        launcher: Some(Arc::new(Bare)),
        mcp_endpoint: None,
        earlier: None,
    }
}

/// A clerk that rules by an allowance, as a session host.
pub fn host(clerk: &Arc<RecordingHost>) -> Arc<dyn ftl_agents::contract::SessionHost> {
    clerk.clone()
}

/// Makes one test of each case of the contract. The argument makes a cast: a function without arguments.
#[macro_export]
macro_rules! agent_contract {
    ($make:path) => {
        $crate::agent_contract!($make:
            edits_a_file
            is_denied_outside_its_allowance
            is_denied_when_its_calls_are_used_up
            is_cut_off_at_the_budget
            is_stopped_by_the_desk
            is_cancelled_in_the_middle
            is_cancelled_before_it_began
            hangs
            dies
            floods
            answers_garbage
            asks_a_question
            is_asked_about_by_the_desk
            returns_a_schema_error_first
            says_json_instead_of_submitting
            reports_no_tokens
            speaks_of_secrets
            goes_on_without_an_end
            is_given_a_session_that_it_does_not_know
            enforces_what_it_says
        );
    };
    ($make:path: $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                $crate::speakers::$case(&$make());
            }
        )+
    };
}
