//! The three ways in which model services speak, behind one small face.
//!
//! A dialect writes requests and reads streams. It holds no connection, no key and no clock, and keeps
//! nothing from one request to the next. A stream that ends before the model said that it is done is
//! broken, however good its text looks.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::history::{ChatHistory, ModelCall};
use super::price::Tokens;
use super::sse::ServerEvent;
use super::{anthropic, chat, responses};
use crate::contract::MAX_TURN_BYTES;
use crate::schema::Schema;
use crate::secrets::SecretKey;
use crate::toolset::{MAX_CALLS_IN_A_TURN, Tool};

/// A way of speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI chat completions, which most servers speak.
    Chat,
    /// The responses API of OpenAI.
    Responses,
    /// The messages API of Anthropic.
    Anthropic,
}

impl Dialect {
    /// All dialects, in the order of declaration.
    pub const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

    /// The word in settings.
    pub const fn word(self) -> &'static str {
        match self {
            Dialect::Chat => "chat",
            Dialect::Responses => "responses",
            Dialect::Anthropic => "anthropic",
        }
    }

    /// The dialect of a word.
    pub fn parse(word: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|one| one.word() == word)
    }

    /// Where requests go, from the base that ends in `/v1`.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Dialect::Chat => "/chat/completions",
            Dialect::Responses => "/responses",
            Dialect::Anthropic => "/messages",
        }
    }

    pub(super) fn headers(self, key: Option<&SecretKey>) -> Vec<(&'static str, String)> {
        let mut headers = vec![("accept", String::from("text/event-stream"))];
        match self {
            Dialect::Chat | Dialect::Responses => {
                headers.extend(key.map(|key| ("authorization", format!("Bearer {}", key.expose()))));
            }
            Dialect::Anthropic => {
                headers.push(("anthropic-version", String::from("2023-06-01")));
                headers.extend(key.map(|key| ("x-api-key", key.expose().to_owned())));
            }
        }
        headers
    }

    pub(super) fn body(self, ask: &Ask<'_>) -> Json {
        match self {
            Dialect::Chat => chat::body(ask),
            Dialect::Responses => responses::body(ask),
            Dialect::Anthropic => anthropic::body(ask),
        }
    }

    pub(super) fn reader(self) -> Box<dyn Reader> {
        match self {
            Dialect::Chat => Box::new(chat::Chat::default()),
            Dialect::Responses => Box::new(responses::Responses::default()),
            Dialect::Anthropic => Box::new(anthropic::Anthropic::default()),
        }
    }
}

/// A request to a model.
pub(super) struct Ask<'a> {
    pub(super) model: &'a str,
    pub(super) system: &'a str,
    pub(super) talk: &'a ChatHistory,
    pub(super) tools: &'a [Tool],
    /// The shape of the answer, where the model has nothing to do but to answer.
    pub(super) answer_only: Option<&'a Schema>,
    pub(super) max_output: Option<u64>,
}

/// The schema as services take it.
pub(super) fn plain(schema: &Schema) -> Json {
    let mut json = schema.json().clone();
    if let Some(words) = json.as_object_mut() {
        words.remove("$schema");
        words.entry("type").or_insert_with(|| json!("object"));
        if words.get("type") == Some(&json!("object")) {
            words.entry("properties").or_insert_with(|| json!({}));
        }
    }
    json
}

/// The reason for which a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Done,
    Length,
    Refused,
}

/// One answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) calls: Vec<ModelCall>,
    pub(super) stop: Stop,
    /// Unknown where the service does not say.
    pub(super) tokens: Option<Tokens>,
}

/// The reasons for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The service is busy or broken: ask again, later.
    Busy { why: String, after: Option<Duration> },
    /// The stream broke in the middle: ask again.
    Broken(String),
    /// The conversation is too long for the model.
    TooLong(String),
    /// What came is no answer, and would be none again.
    Bad(String),
    /// The service refuses what is asked.
    Refused(String),
}

/// A piece of an answer on its way.
pub(super) enum Bit<'a> {
    Text(&'a str),
    Thought(&'a str),
}

/// Makes an answer out of the events of one stream.
pub(super) trait Reader {
    /// Takes an event; whether the answer is complete.
    fn event(&mut self, event: &ServerEvent, bits: &mut dyn FnMut(Bit<'_>)) -> Result<bool, Miss>;
    /// The answer, once the stream is over.
    fn reply(&mut self) -> Result<Reply, Miss>;
}

/// The data of an event as JSON.
pub(super) fn json_of(event: &ServerEvent) -> Result<Json, Miss> {
    serde_json::from_str(&event.data)
        .map_err(|error| Miss::Bad(format!("an event of the stream is no JSON: {error}")))
}

/// Adds to a text that has a largest size.
pub(super) fn add(text: &mut String, more: &str) -> Result<(), Miss> {
    text.push_str(more);
    if text.len() > MAX_TURN_BYTES {
        return Err(Miss::Bad(format!("the model said more than {MAX_TURN_BYTES} bytes in one turn")));
    }
    Ok(())
}

/// Refuses more calls than one turn may hold.
pub(super) fn room_for_calls(count: usize) -> Result<(), Miss> {
    if count > MAX_CALLS_IN_A_TURN {
        return Err(Miss::Bad(format!("the model made more than {MAX_CALLS_IN_A_TURN} calls in one turn")));
    }
    Ok(())
}

/// What an error of a service means, by its status where it has one, its kind and its message.
pub(super) fn miss_of(status: Option<u16>, kind: &str, message: &str, after: Option<Duration>) -> Miss {
    let said = match status {
        Some(status) => format!("{status}: {message}"),
        None => format!("{kind}: {message}"),
    };
    let busy_kinds =
        ["rate_limit", "overloaded", "server_error", "api_error", "timeout", "unavailable", "internal_error"];
    let is_busy = match status {
        Some(status) => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
        None => busy_kinds.iter().any(|busy| kind.contains(busy)),
    };
    let lower = message.to_ascii_lowercase();
    let long =
        ["context length", "context window", "context_length", "too long", "maximum context", "context size"];
    // A quota that is used up does not come back by waiting a little.
    if kind.contains("insufficient_quota") {
        return Miss::Refused(said);
    }
    if is_busy {
        return Miss::Busy { why: said, after };
    }
    if matches!(status, None | Some(400 | 413 | 422))
        && (status == Some(413) || long.iter().any(|one| lower.contains(one)))
    {
        return Miss::TooLong(said);
    }
    Miss::Refused(said)
}

/// The kind and the message in the body of an error, from the service or a proxy before it.
pub(super) fn error_of(body: &Json) -> Option<(String, String)> {
    let error = body.get("error")?;
    if let Some(text) = error.as_str() {
        return Some((String::new(), text.to_owned()));
    }
    let text = |key: &str| error.get(key).and_then(Json::as_str).unwrap_or_default();
    let code = error.get("code").map(|code| code.as_str().map_or_else(|| code.to_string(), str::to_owned));
    Some((
        format!("{} {}", text("type"), code.unwrap_or_default()).trim().to_owned(),
        text("message").to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_a_table() {
        let table: [(Option<u16>, &str, &str, &str); 16] = [
            (Some(429), "rate_limit_error", "slow down", "busy"),
            (Some(429), "insufficient_quota", "pay", "refused"),
            (Some(529), "overloaded_error", "later", "busy"),
            (Some(500), "", "", "busy"),
            (Some(503), "", "loading model", "busy"),
            (Some(408), "", "", "busy"),
            (Some(400), "invalid_request_error", "wrong field", "refused"),
            (Some(400), "", "This model's maximum context length is 8192 tokens", "long"),
            (Some(400), "", "prompt is too long: 9 > 8", "long"),
            (Some(400), "", "the request exceeds the available context size", "long"),
            (Some(413), "", "", "long"),
            (Some(401), "", "prompt is too long to be a key", "refused"),
            (Some(404), "", "no such model", "refused"),
            (None, "overloaded_error", "later", "busy"),
            (None, "server_error", "", "busy"),
            (None, "invalid_request_error", "", "refused"),
        ];
        for (status, kind, message, wanted) in table {
            let found = match miss_of(status, kind, message, None) {
                Miss::Busy { .. } => "busy",
                Miss::TooLong(_) => "long",
                Miss::Refused(_) => "refused",
                Miss::Bad(_) | Miss::Broken(_) => "other",
            };
            assert_eq!(found, wanted, "{status:?} {kind} {message}");
        }
    }

    #[test]
    fn errors_are_found_in_every_body() {
        let of = |text: &str| error_of(&serde_json::from_str(text).unwrap());
        let pair = |kind: &str, message: &str| Some((kind.to_owned(), message.to_owned()));
        assert_eq!(of(r#"{"error":{"type":"a","message":"b"}}"#), pair("a", "b"));
        assert_eq!(of(r#"{"type":"error","error":{"type":"a","message":"b"}}"#), pair("a", "b"));
        assert_eq!(of(r#"{"error":{"message":"b","code":503}}"#), pair("503", "b"));
        assert_eq!(of(r#"{"error":"model not found"}"#), pair("", "model not found"));
        assert_eq!(of(r#"{"detail":"x"}"#), None);
    }

    #[test]
    fn words_of_dialects() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::parse(dialect.word()), Some(dialect));
        }
        assert_eq!(Dialect::parse("gemini"), None);
    }
}
