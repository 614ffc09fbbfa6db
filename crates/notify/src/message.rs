//! The words that are sent: one message for all that is to be told now, and its signature.

use ftl_view::notices::{Notice, NoticeKind};
use ftl_view::paint::{one_line, safe};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

/// How many notices a message tells in words; how many more there are it tells as a number.
pub const MAX_LINES: usize = 12;

/// How long a line is at most, in letters.
const MAX_LETTERS: usize = 240;

/// How long a block of SHA-256 is.
const BLOCK: usize = 64;

/// What is told at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its first words.
    pub title: String,
    /// A line for each notice.
    pub body: String,
    /// Where it leads; empty where no page is named.
    pub link: String,
    /// Whether something waits for the person.
    pub is_urgent: bool,
    /// The same as a document.
    pub document: Json,
}

impl Message {
    /// One message of several notices. `repo` is the name of the repository, `page` what links begin with.
    pub fn of(notices: &[Notice], repo: &str, page: &str, with_words: bool) -> Message {
        let is_urgent = notices.iter().any(|notice| notice.kind == NoticeKind::NeedsYou);
        let lines: Vec<String> =
            notices.iter().take(MAX_LINES).map(|notice| line(notice, with_words)).collect();
        let mut body = lines.join("\n");
        if notices.len() > MAX_LINES {
            body.push_str(&format!("\nand {} more", notices.len() - MAX_LINES));
        }
        let title = match notices {
            [one] => format!("ftl · {repo}: {}", word(one.kind)),
            several => format!("ftl · {repo}: {} notices", several.len()),
        };
        let link = match (page.trim_end_matches('/'), notices.first()) {
            ("", _) | (_, None) => String::new(),
            (page, Some(_)) if is_urgent => format!("{page}/#/"),
            (page, Some(first)) => format!("{page}/#/runs/{}/graph", first.run),
        };
        let told = |notice: &Notice| {
            let mut told = json!({
                "key": notice.key(), "kind": notice.kind, "run": notice.run, "instance": notice.instance,
                "entry": notice.entry, "at": notice.at, "text": notice.text, "command": notice.command,
            });
            if let Some(words) = notice.words.as_ref().filter(|_| with_words) {
                told["words"] = json!(words);
            }
            told
        };
        let all: Vec<Json> = notices.iter().map(told).collect();
        let document = json!({ "version": 1, "repo": repo, "link": link, "notices": all });
        Message { title: safe(&title), body, link, is_urgent, document }
    }

    /// A name that the same message has whenever it is sent again.
    pub fn key(&self) -> String {
        let digest = Sha256::digest(self.document["notices"].to_string().as_bytes());
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes that make a terminal ring, and show a message where it can: OSC 9 and OSC 777.
    pub fn for_terminal(&self) -> String {
        let plain = |text: &str| text.replace(|letter: char| letter.is_control() || letter == ';', " ");
        let (title, body) = (plain(&self.title), plain(&self.body));
        format!("\u{1b}]9;{title}: {body}\u{7}\u{1b}]777;notify;{title};{body}\u{7}\u{7}")
    }
}

fn line(notice: &Notice, with_words: bool) -> String {
    let words =
        notice.words.as_ref().filter(|_| with_words).map_or_else(String::new, |words| format!(": {words}"));
    let text = safe(&one_line(&format!("{}{words}", notice.text)));
    let cut: String = text.chars().take(MAX_LETTERS).collect();
    format!("{cut} ({})", notice.command)
}

fn word(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::NeedsYou => "needs you",
        NoticeKind::Blocked => "a task is blocked",
        NoticeKind::Limit => "a limit is near",
        NoticeKind::Landed => "landed",
        NoticeKind::Ended => "ended",
    }
}

/// The HMAC of some bytes with SHA-256 (RFC 2104), in hexadecimal.
pub fn hmac_sha256(key: &[u8], bytes: &[u8]) -> String {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(bytes).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn notice(kind: NoticeKind, entry: u64, text: &str) -> Notice {
        Notice {
            kind,
            run: String::from("abcdefgh"),
            instance: 0,
            entry,
            at: 7,
            text: text.to_owned(),
            words: Some(String::from("Land it?")),
            command: String::from("ftl why abcdefgh"),
            waits: None,
        }
    }

    #[test]
    fn signatures_are_those_of_rfc_4231() {
        let cases: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, bytes, wanted) in cases {
            assert_eq!(hmac_sha256(key, bytes), wanted);
        }
    }

    #[test]
    fn words_of_others_are_sent_only_where_they_are_asked_for() {
        let notices = [notice(NoticeKind::NeedsYou, 3, "run abcdefgh asks in DELIVER")];
        let message = Message::of(&notices, "till", "http://localhost:7717/", false);
        assert!(!message.body.contains("Land it?") && !message.document.to_string().contains("Land it?"));
        assert_eq!(message.link, "http://localhost:7717/#/");
        assert!(message.is_urgent);
        let message = Message::of(&notices, "till", "", true);
        assert!(message.body.contains("Land it?") && message.link.is_empty());
        assert_eq!(message.document["notices"][0]["words"], "Land it?");
    }

    #[test]
    fn a_message_tells_so_many_and_counts_the_rest() {
        let notices: Vec<Notice> =
            (0..MAX_LINES as u64 + 3).map(|entry| notice(NoticeKind::Landed, entry, "task landed")).collect();
        let message = Message::of(&notices, "till", "", false);
        assert_eq!(message.body.lines().count(), MAX_LINES + 1);
        assert!(message.body.ends_with("and 3 more"), "{}", message.body);
        assert_eq!(message.document["notices"].as_array().unwrap().len(), MAX_LINES + 3);
    }

    #[test]
    fn no_text_ends_the_message_of_a_terminal() {
        let hostile = notice(NoticeKind::Blocked, 1, "x\u{7}\u{1b}]0;owned\u{7};y");
        let text = Message::of(&[hostile], "till", "", false).for_terminal();
        assert_eq!(text.matches('\u{1b}').count(), 2, "{text:?}");
        assert_eq!(text.matches('\u{7}').count(), 3, "{text:?}");
    }
}
