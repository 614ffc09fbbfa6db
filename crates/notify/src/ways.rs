//! How each way sends. What needs a process or a terminal is done by whoever starts the courier: this crate starts nothing.

use std::fmt;
use std::time::Duration;

use crate::message::{Message, hmac_sha256};
use crate::options::{NotifyOptions, Way};

/// How long an address may take to answer.
const MAX_ANSWER: Duration = Duration::from_secs(10);

/// What shows a message on the desktop: its two words are arguments.
const SHOW: &str = "exec notify-send --app-name=ftl --urgency=\"$3\" -- \"$1\" \"$2\"";

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// It may be sent later: nobody answered, or not now.
    Later(String),
    /// It will never be taken.
    Never(String),
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Later(why) | SendError::Never(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for SendError {}

/// What this crate does not do itself.
pub trait LocalSender: Send {
    /// Runs a script of the shell with words and something to read.
    fn run(&self, script: &str, words: &[String], input: &str) -> Result<(), SendError>;

    /// Writes to the terminal of the driver; whether there is one.
    fn ring(&self, text: &str) -> bool;
}

/// The ways of a person.
pub struct Ways {
    options: NotifyOptions,
    hands: Box<dyn LocalSender>,
    agent: ureq::Agent,
}

impl Ways {
    /// The ways that the options name.
    pub fn new(options: NotifyOptions, hands: Box<dyn LocalSender>) -> Ways {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(MAX_ANSWER))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Ways { options, hands, agent: ureq::Agent::new_with_config(config) }
    }

    /// What the person has chosen.
    pub fn options(&self) -> &NotifyOptions {
        &self.options
    }

    /// Sends a message by one way.
    pub fn send(&self, way: Way, message: &Message) -> Result<(), SendError> {
        match way {
            // A driver without a terminal has nobody who would hear it.
            Way::Terminal => {
                self.hands.ring(&message.for_terminal());
                Ok(())
            }
            Way::Desktop => {
                let urgency = if message.is_urgent { "critical" } else { "normal" };
                let words = [message.title.clone(), message.body.clone(), urgency.to_owned()];
                self.hands.run(SHOW, &words, "")
            }
            Way::Command => self.hands.run(&self.options.command, &[], &format!("{}\n", message.document)),
            Way::Webhook => self.webhook(message),
            Way::Ntfy => self.ntfy(message),
        }
    }

    fn webhook(&self, message: &Message) -> Result<(), SendError> {
        let body = message.document.to_string();
        let mut headers =
            vec![("content-type", String::from("application/json")), ("ftl-delivery", message.key())];
        if let Some(key) = &self.options.webhook_key {
            let signature = hmac_sha256(key.as_bytes(), body.as_bytes());
            headers.push(("ftl-signature-256", format!("sha256={signature}")));
        }
        self.post(&self.options.webhook, &headers, &body)
    }

    fn ntfy(&self, message: &Message) -> Result<(), SendError> {
        // Headers hold ASCII alone.
        let mut headers = vec![
            ("title", ascii(&message.title)),
            ("priority", String::from(if message.is_urgent { "4" } else { "3" })),
            ("tags", String::from(if message.is_urgent { "raising_hand" } else { "information_source" })),
        ];
        if !message.link.is_empty() {
            headers.push(("click", ascii(&message.link)));
        }
        if let Some(token) = &self.options.ntfy_token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        self.post(&self.options.ntfy, &headers, &message.body)
    }

    fn post(&self, url: &str, headers: &[(&str, String)], body: &str) -> Result<(), SendError> {
        let mut request = self.agent.post(url.trim()).header("user-agent", "ftl");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answered = request.send(body.as_bytes()).map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => SendError::Never(format!("no address: {error}")),
            error => SendError::Later(error.to_string()),
        })?;
        match answered.status().as_u16() {
            200..=299 => Ok(()),
            status @ (408 | 425 | 429 | 500..) => Err(SendError::Later(format!("it answers {status}"))),
            status => Err(SendError::Never(format!("it answers {status}"))),
        }
    }
}

/// A text of letters that a header may hold.
fn ascii(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '-' }).collect()
}
