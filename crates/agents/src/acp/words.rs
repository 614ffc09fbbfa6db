//! What an agent says, as it is let through: without secrets, and never more than fits into a turn.

use serde_json::Value as Json;

use crate::contract::{MAX_TURN_BYTES, Said, SessionHost};
use crate::error::AgentError;
use crate::secrets::{Pieces, Secrets};

/// What an agent has said in a turn.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: Pieces,
    thought: Pieces,
    /// The last message: what was said since the last call.
    last: String,
    message: Option<String>,
    bytes: usize,
}

impl Words {
    /// Takes in a piece of text.
    pub(super) fn text(
        &mut self,
        update: &Json,
        secrets: &Secrets,
        host: &dyn SessionHost,
    ) -> Result<(), AgentError> {
        let message = update.get("messageId").and_then(Json::as_str);
        if message.is_some() && message != self.message.as_deref() {
            self.message = message.map(str::to_owned);
            self.last.clear();
        }
        let Some(piece) = self.counted(update)? else { return Ok(()) };
        self.last.push_str(piece);
        let shown = self.text.push(secrets, piece);
        show(&shown, Said::Text, host);
        Ok(())
    }

    /// Takes in a piece of a thought.
    pub(super) fn thought(
        &mut self,
        update: &Json,
        secrets: &Secrets,
        host: &dyn SessionHost,
    ) -> Result<(), AgentError> {
        let Some(piece) = self.counted(update)? else { return Ok(()) };
        let shown = self.thought.push(secrets, piece);
        show(&shown, Said::Thought, host);
        Ok(())
    }

    fn counted<'a>(&mut self, update: &'a Json) -> Result<Option<&'a str>, AgentError> {
        let piece = update.pointer("/content/text").and_then(Json::as_str);
        self.bytes += piece.map_or(0, str::len);
        if self.bytes > MAX_TURN_BYTES {
            return Err(AgentError::Bad(format!(
                "the agent said more than {MAX_TURN_BYTES} bytes in one turn"
            )));
        }
        Ok(piece)
    }

    /// Lets everything through that was held back.
    pub(super) fn flush(&mut self, secrets: &Secrets, host: &dyn SessionHost) {
        show(&self.thought.finish(secrets), Said::Thought, host);
        show(&self.text.finish(secrets), Said::Text, host);
    }

    /// A call begins: what was said before it is not the last message.
    pub(super) fn call(&mut self, secrets: &Secrets, host: &dyn SessionHost) {
        self.flush(secrets, host);
        self.last.clear();
    }

    /// The last message of the agent, without secrets.
    pub(super) fn last(&self, secrets: &Secrets) -> String {
        secrets.redact(&self.last)
    }
}

fn show<'a>(text: &'a str, said: impl Fn(&'a str) -> Said<'a>, host: &dyn SessionHost) {
    if !text.is_empty() {
        host.say(said(text));
    }
}
