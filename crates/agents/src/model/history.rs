//! What was said so far, the same for every dialect, and how it is made shorter.
//!
//! When a conversation no longer fits, results of tools go first, the oldest before the newer, then
//! background, then large arguments of old calls. What was asked and every word of feedback stay: they
//! are never dropped, and a conversation that does not fit without dropping them is told so.

use std::fmt;

use serde_json::{Value as Json, json};

use crate::contract::{PartKind, PromptPart};

/// How many of the newest results are never shortened.
pub const KEPT_RESULTS: usize = 3;

/// A result or an argument shorter than this is not worth leaving out.
pub const SMALL_BYTES: usize = 400;

/// An entry of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatEntry {
    /// We said this to the model.
    Ours(Vec<PromptPart>),
    /// The model said this and called these.
    Theirs {
        /// The text of the answer.
        text: String,
        /// The calls that the answer makes.
        calls: Vec<ModelCall>,
    },
    /// The results of the calls.
    Results(Vec<CallOutcome>),
}

/// A call of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The model's name for it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub args: String,
}

/// Arguments of a call that are no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentsError(String);

impl fmt::Display for ArgumentsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the arguments are no JSON: {}", self.0)
    }
}

impl std::error::Error for ArgumentsError {}

impl ModelCall {
    /// The arguments as JSON; none at all are an empty record.
    pub fn json(&self) -> Result<Json, ArgumentsError> {
        let text = if self.args.trim().is_empty() { "{}" } else { &self.args };
        serde_json::from_str(text).map_err(|error| ArgumentsError(error.to_string()))
    }

    /// The arguments as a record, whatever the model wrote: some services take nothing else back.
    pub fn record(&self) -> Json {
        self.json().ok().filter(Json::is_object).unwrap_or_else(|| json!({}))
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// The model's name for the call.
    pub id: String,
    /// The text that the model gets back.
    pub text: String,
    /// Whether it went wrong.
    pub wrong: bool,
    /// Whether it is feedback, which is never dropped.
    pub kept: bool,
}

/// A conversation with a model, independent of the wire format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatHistory {
    /// The entries, oldest first.
    pub entries: Vec<ChatEntry>,
}

impl ChatHistory {
    /// How many bytes it is.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(weight).sum()
    }

    /// Leaves out what can be spared until it has at most so many bytes; whether it has.
    pub fn shorten(&mut self, most: usize) -> bool {
        let spared =
            [ChatHistory::spare_results, ChatHistory::spare_background, ChatHistory::spare_arguments];
        for spare in spared {
            if self.bytes() > most {
                spare(self, most);
            }
        }
        self.bytes() <= most
    }

    fn spare_results(&mut self, most: usize) {
        let mut over = self.bytes().saturating_sub(most);
        let count = self.entries.iter().map(|entry| results(entry).len()).sum::<usize>();
        let old = count.saturating_sub(KEPT_RESULTS);
        let all = self.entries.iter_mut().filter_map(|entry| match entry {
            ChatEntry::Results(results) => Some(results),
            ChatEntry::Ours(_) | ChatEntry::Theirs { .. } => None,
        });
        for result in all.flatten().take(old).filter(|result| !result.kept) {
            over = over.saturating_sub(leave_out(&mut result.text, "call the tool again if you need it"));
            if over == 0 {
                return;
            }
        }
    }

    fn spare_background(&mut self, most: usize) {
        let mut over = self.bytes().saturating_sub(most);
        for entry in &mut self.entries {
            let ChatEntry::Ours(parts) = entry else { continue };
            for part in parts.iter_mut().filter(|part| part.kind == PartKind::Background) {
                over = over.saturating_sub(leave_out(&mut part.text, "look it up if you need it"));
                if over == 0 {
                    return;
                }
            }
        }
    }

    fn spare_arguments(&mut self, most: usize) {
        let mut over = self.bytes().saturating_sub(most);
        let last = self.entries.len().saturating_sub(2);
        for entry in &mut self.entries[..last] {
            let ChatEntry::Theirs { calls, .. } = entry else { continue };
            for call in calls.iter_mut().filter(|call| call.args.len() > SMALL_BYTES) {
                let path = call.json().ok().and_then(|args| args.get("path").cloned()).unwrap_or(Json::Null);
                let short = json!({ "path": path, "left_out": call.args.len() }).to_string();
                over = over.saturating_sub(call.args.len().saturating_sub(short.len()));
                call.args = short;
                if over == 0 {
                    return;
                }
            }
        }
    }
}

fn results(entry: &ChatEntry) -> &[CallOutcome] {
    match entry {
        ChatEntry::Results(results) => results,
        ChatEntry::Ours(_) | ChatEntry::Theirs { .. } => &[],
    }
}

fn weight(entry: &ChatEntry) -> usize {
    match entry {
        ChatEntry::Ours(parts) => parts.iter().map(|part| part.text.len()).sum(),
        ChatEntry::Theirs { text, calls } => {
            text.len() + calls.iter().map(|call| call.name.len() + call.args.len()).sum::<usize>()
        }
        ChatEntry::Results(results) => results.iter().map(|result| result.text.len()).sum(),
    }
}

/// Leaves a text out, and tells how many bytes that saves.
fn leave_out(text: &mut String, hint: &str) -> usize {
    let before = text.len();
    if before > SMALL_BYTES {
        *text = format!("[{before} bytes left out; {hint}]");
    }
    before.saturating_sub(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(id: &str, bytes: usize, kept: bool) -> CallOutcome {
        CallOutcome { id: id.into(), text: "r".repeat(bytes), wrong: false, kept }
    }

    fn talk() -> ChatHistory {
        let part = |kind, letter: &str| PromptPart::new(kind, letter.repeat(1000));
        let call = |id: &str| ModelCall {
            id: id.into(),
            name: "write".into(),
            args: json!({ "path": "a.rs", "content": "c".repeat(2000) }).to_string(),
        };
        let theirs = |id: &str| ChatEntry::Theirs { text: "t".repeat(50), calls: vec![call(id)] };
        ChatHistory {
            entries: vec![
                ChatEntry::Ours(vec![
                    part(PartKind::Task, "T"),
                    part(PartKind::Feedback, "F"),
                    part(PartKind::Background, "B"),
                ]),
                theirs("1"),
                ChatEntry::Results(vec![result("1", 3000, false)]),
                theirs("2"),
                ChatEntry::Results(vec![result("2", 3000, true)]),
                ChatEntry::Ours(vec![part(PartKind::Feedback, "f")]),
                theirs("3"),
                ChatEntry::Results(vec![result("3", 3000, false), result("3b", 3000, false)]),
                theirs("4"),
                ChatEntry::Results(vec![result("4", 3000, false)]),
            ],
        }
    }

    fn text(talk: &ChatHistory) -> String {
        format!("{talk:?}")
    }

    #[test]
    fn what_can_be_spared_goes_and_nothing_else() {
        let whole = talk();
        let all = whole.bytes();
        let mut talk = whole.clone();
        assert!(talk.shorten(all));
        assert_eq!(talk, whole, "nothing is left out while there is room");

        assert!(talk.shorten(all - 1));
        assert!(text(&talk).contains("[3000 bytes left out; call the tool again"));
        assert!(text(&talk).contains(&"B".repeat(1000)), "one result is enough");

        assert!(talk.shorten(all - 3100));
        assert!(text(&talk).contains("[1000 bytes left out; look it up"));

        let mut talk = whole;
        assert!(!talk.shorten(100), "what must stay does not fit");
        let left = text(&talk);
        for kept in ["T", "F", "f"] {
            assert!(left.contains(&kept.repeat(1000)), "{kept}");
        }
        assert_eq!(left.matches(&"r".repeat(3000)).count(), 4, "three newest and the feedback");
        assert_eq!(left.matches("left_out").count(), 3, "the newest call keeps its arguments");
    }

    #[test]
    fn arguments_are_read_with_care() {
        let call = |args: &str| ModelCall { id: "1".into(), name: "read".into(), args: args.into() };
        assert_eq!(call(" ").json(), Ok(json!({})));
        assert_eq!(call("{\"a\":1}").json(), Ok(json!({ "a": 1 })));
        assert!(call("{\"a\":").json().unwrap_err().to_string().contains("no JSON"));
        assert_eq!((call("[1]").record(), call("{").record()), (json!({}), json!({})));
    }
}
