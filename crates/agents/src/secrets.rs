//! Secrets: what must never be seen, and the one place where it is taken out of a text.
//!
//! Two things are removed at every sink: the values that were named to us, and whatever looks like a
//! key. A secret is never printed, not even by `Debug`, and never leaves this type but through
//! [`Key::expose`], which the one request that needs it calls.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use regex_lite::Regex;

/// What stands where a secret stood.
pub const HIDDEN: &str = "[hidden]";

/// A value shorter than this would be found everywhere; it is no secret.
pub const MIN_SECRET_BYTES: usize = 6;

/// The largest file that holds a key.
pub const MAX_KEY_BYTES: u64 = 16 * 1024;

/// How much of a stream is held back until it is known that no secret goes on in it.
pub const MAX_HELD_BYTES: usize = 8 * 1024;

/// What keys look like, whoever gave them out.
const PATTERNS: [&str; 8] = [
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"\bsk-[A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\bAKIA[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}",
];

/// A key: where it came from, and its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    from: String,
    value: String,
}

impl Key {
    /// A key out of a variable of the environment, which the caller has looked up.
    pub fn of_variable(name: &str, value: Option<String>) -> Result<Key, String> {
        let value = value.ok_or_else(|| format!("the variable {name}, which holds the key, is not set"))?;
        Key::of(format!("the variable {name}"), &value)
    }

    /// A key out of a file.
    pub fn of_file(path: &Path) -> Result<Key, String> {
        let from = path.display().to_string();
        let found =
            std::fs::metadata(path).map_err(|error| format!("{from}, which holds the key: {error}"))?;
        if !found.is_file() || found.len() > MAX_KEY_BYTES {
            return Err(format!("{from} is no file with a key of at most {MAX_KEY_BYTES} bytes"));
        }
        let value = std::fs::read_to_string(path).map_err(|error| format!("{from}: {error}"))?;
        Key::of(from, &value)
    }

    fn of(from: String, value: &str) -> Result<Key, String> {
        let value = value.trim().to_owned();
        let fits = value.len() >= MIN_SECRET_BYTES && value.chars().all(|one| one.is_ascii_graphic());
        if !fits {
            return Err(format!(
                "{from} holds no key: at least {MIN_SECRET_BYTES} visible letters in one line"
            ));
        }
        Ok(Key { from, value })
    }

    /// The value, for the one request that needs it.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Key(from {})", self.from)
    }
}

/// Everything that must never be seen.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    /// No values yet; what looks like a key is hidden all the same.
    pub fn new() -> Secrets {
        Secrets::default()
    }

    /// Hides the value of a key from now on.
    pub fn add(&mut self, key: &Key) {
        self.hide(key.expose());
    }

    /// Hides a value from now on, also where JSON or a URL writes it otherwise.
    pub fn hide(&mut self, value: &str) {
        for form in [value.to_owned(), escaped(value), percent(value)] {
            if form.len() >= MIN_SECRET_BYTES && !self.values.contains(&form) {
                self.values.push(form);
            }
        }
        // The longest first: a secret can begin like another one.
        self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// The text without secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), HIDDEN);
            }
        }
        for pattern in patterns() {
            if pattern.is_match(&text) {
                text = pattern.replace_all(&text, HIDDEN).into_owned();
            }
        }
        text
    }

    /// Where a text can be cut so that no secret goes on behind the cut: no key that is given out has
    /// white space in it, but for `Bearer` and private keys, which come in a block.
    fn safe_end(&self, text: &str) -> Option<usize> {
        let in_words = !self.values.iter().any(|value| value.contains(char::is_whitespace));
        let ends = |one: char| if in_words { one.is_ascii_whitespace() } else { one == '\n' };
        let at = text.rfind(ends)? + 1;
        let last = text[..at].split_whitespace().next_back().unwrap_or_default();
        if !last.to_ascii_lowercase().ends_with("bearer") {
            return Some(at);
        }
        text[..at].rfind(last).filter(|at| *at > 0)
    }

    /// The JSON without secrets, in keys and values.
    pub fn redact_json(&self, json: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value as Json;
        match json {
            Json::String(text) => Json::String(self.redact(text)),
            Json::Array(items) => items.iter().map(|item| self.redact_json(item)).collect(),
            Json::Object(fields) => {
                let pairs = fields.iter().map(|(key, value)| (self.redact(key), self.redact_json(value)));
                Json::Object(pairs.collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => json.clone(),
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secrets({} values)", self.values.len())
    }
}

/// A text that comes in pieces, let through as soon as no secret can go on in what follows.
#[derive(Debug, Default)]
pub struct Pieces {
    held: String,
}

impl Pieces {
    /// Takes a piece and returns what may be seen.
    pub fn push(&mut self, secrets: &Secrets, piece: &str) -> String {
        self.held.push_str(piece);
        if self.held.len() > MAX_HELD_BYTES {
            return self.finish(secrets);
        }
        if self.held.contains("-----BEGIN") && !self.held.contains("-----END") {
            return String::new();
        }
        let Some(at) = secrets.safe_end(&self.held) else { return String::new() };
        let rest = self.held.split_off(at);
        secrets.redact(&std::mem::replace(&mut self.held, rest))
    }

    /// Whatever is still held back.
    pub fn finish(&mut self, secrets: &Secrets) -> String {
        secrets.redact(&std::mem::take(&mut self.held))
    }
}

fn patterns() -> &'static [Regex] {
    static COMPILED: OnceLock<Vec<Regex>> = OnceLock::new();
    COMPILED.get_or_init(|| PATTERNS.iter().filter_map(|one| Regex::new(one).ok()).collect())
}

/// The value as it stands inside a JSON string.
fn escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.trim_matches('"').to_owned()
}

fn percent(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let written = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::new();
        values.iter().for_each(|value| secrets.hide(value));
        secrets
    }

    #[test]
    fn every_pattern_compiles_and_hides() {
        assert_eq!(patterns().len(), PATTERNS.len());
        let keys = [
            "-----BEGIN RSA PRIVATE KEY-----\nMIIabc+/=\n-----END RSA PRIVATE KEY-----",
            "sk-ant-api03-abcdefghijklmnop",
            "ghp_abcdefghijklmnopqrstuvwxyz",
            "github_pat_abcdefghijklmnopqrstuv",
            "xoxb-1234567890-abc",
            "AKIAABCDEFGHIJKLMNOP",
            "AIzaabcdefghijklmnopqrstuvwxyz0123456",
            "Authorization: Bearer abcdefghijklmnop1234",
        ];
        for key in keys {
            let found = Secrets::new().redact(&format!("see {key} there"));
            assert!(found.contains(HIDDEN) && found.ends_with(" there"), "{found}");
        }
        let plain = "the task-list of sk-learn, a bearer of news, ghp_x";
        assert_eq!(Secrets::new().redact(plain), plain);
    }

    #[test]
    fn named_values_are_hidden_in_every_spelling() {
        let secrets = secrets(&["pass\"word/1", "pass\"word/12"]);
        assert_eq!(secrets.redact("a pass\"word/12 b pass\"word/1"), "a [hidden] b [hidden]");
        assert_eq!(secrets.redact(r#"{"k":"pass\"word/1"}"#), r#"{"k":"[hidden]"}"#);
        assert_eq!(secrets.redact("?k=pass%22word%2F1&x"), "?k=[hidden]&x");
        let json = serde_json::json!({ "pass\"word/1": ["pass\"word/1", 1] });
        assert_eq!(secrets.redact_json(&json), serde_json::json!({ "[hidden]": ["[hidden]", 1] }));
    }

    #[test]
    fn debug_says_nothing() {
        let key = Key::of_variable("K", Some(" test-key-1\n".into())).unwrap();
        let mut secrets = Secrets::new();
        secrets.add(&key);
        let shown = format!("{key:?} {secrets:?}");
        assert!(!shown.contains("test-key-1") && shown.contains("the variable K"), "{shown}");
        assert_eq!(key.expose(), "test-key-1");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for value in ["", "abc", "two words here", "line\nbreak"] {
            assert!(Key::of_variable("K", Some(value.into())).is_err(), "{value:?}");
        }
        assert!(Key::of_variable("K", None).unwrap_err().contains("K"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "test-key-2\n").unwrap();
        assert_eq!(Key::of_file(&file).unwrap().expose(), "test-key-2");
        std::fs::write(&file, "k".repeat(16 * 1024 + 1)).unwrap();
        assert!(Key::of_file(&file).is_err());
        assert!(Key::of_file(folder.path()).is_err());
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_hidden_too() {
        let secrets = secrets(&["test-key-1"]);
        for cut in 0..30 {
            let text = "first\nthe test-key-1 is here\n";
            let (left, right) = text.split_at(cut.min(text.len()));
            let mut pieces = Pieces::default();
            let seen = [pieces.push(&secrets, left), pieces.push(&secrets, right), pieces.finish(&secrets)];
            assert_eq!(seen.concat(), "first\nthe [hidden] is here\n");
        }
        let text = "so: Bearer abcdefghijklmnop1234 and on ";
        for cut in 0..text.len() {
            let mut pieces = Pieces::default();
            let seen = pieces.push(&secrets, &text[..cut]) + &pieces.push(&secrets, &text[cut..]);
            assert_eq!(seen + &pieces.finish(&secrets), "so: [hidden] and on ", "{cut}");
        }
        let mut pieces = Pieces::default();
        let key = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n";
        let seen: String = key.split_inclusive('\n').map(|line| pieces.push(&secrets, line)).collect();
        assert_eq!(seen + &pieces.finish(&secrets), format!("{HIDDEN}\n"));
        let mut pieces = Pieces::default();
        assert!(!pieces.push(&secrets, &"a".repeat(MAX_HELD_BYTES + 1)).is_empty(), "the limit trips");
    }
}
