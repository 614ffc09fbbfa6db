//! What agents say while they work, line by line, on standard error; and the bell for who is to be told of something.
//!
//! A word is shown when its line is complete, so that the lines of several agents do not run into each
//! other. What is shown is only for people: nothing is decided by it, and the record of it is in the store.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};

use ftl_agents::contract::Said;
use ftl_command::{Out, out};
use ftl_core::run::ActionTarget;
use ftl_engine::executors::Job;
use ftl_engine::executors::agents::Listener;
use ftl_engine::session::Session;
use ftl_view::paint::{self, paint, safe};

use crate::cli::TalkArg;

/// How long a line may become before it is shown without its end.
const MAX_LINE: usize = 400;

/// Shows what the agents of a session say, where the person asked for it.
pub(crate) fn follow(session: &Session, asked: TalkArg) {
    session.ring_with(Arc::new(ring));
    if asked.talk {
        session.listen(Arc::new(AgentFollower::new()));
    }
}

/// Rings in the terminal of this process; whether there is one.
fn ring(text: &str) -> bool {
    if out::terminal().is_some() {
        return Out::new(false).bytes(text).is_ok();
    }
    let is_terminal = std::io::stderr().is_terminal();
    if is_terminal {
        Out::new(false).beside(text);
    }
    is_terminal
}

/// Prints what agents say while they work, for `--talk`.
struct AgentFollower {
    out: Out,
    lines: Mutex<BTreeMap<String, String>>,
}

impl AgentFollower {
    fn new() -> AgentFollower {
        AgentFollower { out: Out::new(false), lines: Mutex::default() }
    }

    fn show(&self, who: &str, text: &str) {
        let text = text.trim_end();
        if !text.is_empty() {
            self.out.beside(&format!("{} {}\n", paint(paint::QUIET, format!("[{who}]")), safe(text)));
        }
    }

    /// Adds to the line of an agent; lines that are complete are shown.
    fn add(&self, key: String, who: &str, text: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(key).or_default();
        line.push_str(text);
        while let Some(at) =
            line.find('\n').or_else(|| (line.len() > MAX_LINE).then(|| line.floor_char_boundary(MAX_LINE)))
        {
            let rest = line[at..].trim_start_matches('\n').to_owned();
            self.show(who, &line[..at]);
            *line = rest;
        }
    }

    /// Shows what is left of the line of an agent.
    fn flush(&self, key: &str, who: &str) {
        let left = self.lines.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.show(who, &left.unwrap_or_default());
    }
}

impl Listener for AgentFollower {
    fn on_said(&self, job: &Job, said: Said<'_>) {
        let role = match &job.action.wanted {
            ActionTarget::Task { role, .. } => role.to_string(),
            ActionTarget::Action(_) | ActionTarget::Word(_) | ActionTarget::Question => String::from("agent"),
        };
        let (key, who) = (job.key(), format!("{} {role}", job.action.instance));
        match said {
            Said::Text(text) => self.add(key, &who, text),
            Said::Thought(_) => {}
            Said::Call(tool, about) => {
                self.flush(&key, &who);
                self.show(&who, &format!("→ {tool} {about}"));
            }
            Said::Back(tool, Some(wrong)) => {
                self.flush(&key, &who);
                let first = wrong.lines().next().unwrap_or_default();
                self.show(&who, &format!("✗ {tool}: {first}"));
            }
            Said::Back(_, None) => self.flush(&key, &who),
            Said::Again => {
                self.lines.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                self.show(&who, "(the turn is taken again)");
            }
        }
    }
}
