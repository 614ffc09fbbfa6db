//! Secrets: what must never be seen, and the one place where it is taken out of a text.
//!
//! Two things are removed at every sink: the values that were named to us, and whatever looks like a
//! key. Every sink goes through here: what processes print, what hands report, what agents say, what people type. A secret is never printed, not even by `Debug`, and never leaves this type but through
//! `Key::expose`, which the one request that needs it calls.

mod environment;

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use regex_lite::Regex;

/// The text that is put in the place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// A value shorter than this would be found everywhere; it is no secret.
pub const MIN_SECRET_BYTES: usize = 6;

pub use environment::MIN_VARIABLE_CHARS;

/// The largest file that holds a key.
pub const MAX_KEY_BYTES: u64 = 16 * 1024;

/// How much of a stream is held back until it is known that no secret goes on in it.
pub const MAX_HELD_BYTES: usize = 8 * 1024;

/// The least of a secret that is hidden where a text was cut in the middle of it.
const MIN_PART_BYTES: usize = 4;

/// What keys look like, by the services that give them out; and what each of them has in it, in small letters: most
/// texts have none of that, and looking for it takes a small part of the time.
const PATTERNS: [(&str, &str); 8] = [
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        "private key-----",
    ),
    (r"\bsk-[A-Za-z0-9_-]{16,}", "sk-"),
    (r"\bgh[pousr]_[A-Za-z0-9]{20,}", "gh"),
    (r"\bgithub_pat_[A-Za-z0-9_]{20,}", "github_pat_"),
    (r"\bxox[abprs]-[A-Za-z0-9-]{10,}", "xox"),
    (r"\bAKIA[0-9A-Z]{16}\b", "akia"),
    (r"\bAIza[0-9A-Za-z_-]{30,}", "aiza"),
    (r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}", "bearer"),
];

/// Whether a variable holds a secret, by its name or by the look of its value.
pub fn is_secret_variable(name: &str, value: &str) -> bool {
    environment::secret_of(name, value).is_some()
}

/// Whether the name alone says that a variable holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    environment::is_named_secret(name)
}

/// A key: where it came from, and its value.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey {
    from: String,
    value: String,
}

impl SecretKey {
    /// A key out of a variable of the environment, which the caller has looked up.
    pub fn of_variable(name: &str, value: Option<String>) -> Result<SecretKey, KeyError> {
        let value = value.ok_or_else(|| KeyError::NotSet(name.to_owned()))?;
        SecretKey::of(format!("the variable {name}"), &value)
    }

    /// A key out of a file.
    pub fn of_file(path: &Path) -> Result<SecretKey, KeyError> {
        let from = path.display().to_string();
        let found = std::fs::metadata(path)
            .map_err(|error| KeyError::NoFile { path: from.clone(), message: error.to_string() })?;
        if !found.is_file() || found.len() > MAX_KEY_BYTES {
            return Err(KeyError::Large(from));
        }
        let value = std::fs::read_to_string(path)
            .map_err(|error| KeyError::Unreadable { path: from.clone(), message: error.to_string() })?;
        SecretKey::of(from, &value)
    }

    fn of(from: String, value: &str) -> Result<SecretKey, KeyError> {
        let value = value.trim().to_owned();
        let fits = value.len() >= MIN_SECRET_BYTES && value.chars().all(|one| one.is_ascii_graphic());
        if !fits {
            return Err(KeyError::Malformed(from));
        }
        Ok(SecretKey { from, value })
    }

    /// The value, for the one request that needs it.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

/// Why there is no key. It names where a key was looked for, never a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The variable that holds the key is not set.
    NotSet(String),
    /// The file that holds the key cannot be looked at.
    NoFile {
        /// The path of the file.
        path: String,
        /// What the system says.
        message: String,
    },
    /// It is no file, or too large for one with a key.
    Large(String),
    /// The file cannot be read.
    Unreadable {
        /// The path of the file.
        path: String,
        /// What the system says.
        message: String,
    },
    /// What was found there is too short for a key, or not in visible letters.
    Malformed(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::NotSet(name) => write!(out, "the variable {name}, which holds the key, is not set"),
            KeyError::NoFile { path, message } => write!(out, "{path}, which holds the key: {message}"),
            KeyError::Large(path) => {
                write!(out, "{path} is no file with a key of at most {MAX_KEY_BYTES} bytes")
            }
            KeyError::Unreadable { path, message } => write!(out, "{path}: {message}"),
            KeyError::Malformed(from) => {
                write!(out, "{from} holds no key: at least {MIN_SECRET_BYTES} visible letters in one line")
            }
        }
    }
}

impl std::error::Error for KeyError {}

impl fmt::Debug for SecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Key(from {})", self.from)
    }
}

/// Everything that must never be seen.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
    /// Those that only an environment gave, by the variable's name: a guess, which may be wrong.
    guessed: Vec<(String, String)>,
}

impl Secrets {
    /// No values yet; what looks like a key is hidden all the same.
    pub fn new() -> Secrets {
        Secrets::default()
    }

    /// Hides the value of a key from now on.
    pub fn add(&mut self, key: &SecretKey) {
        self.hide(key.expose());
    }

    /// Hides the secrets of an environment from now on: values of variables that are named like one, values
    /// that look like a key, and passwords in addresses.
    pub fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let variables: Vec<(String, String)> = variables.into_iter().collect();
        let names = environment::plain_names(&variables);
        for (name, value) in &variables {
            let Some(secret) = environment::secret_of(name, value).filter(|one| !names.contains(one)) else {
                continue;
            };
            if !self.values.iter().any(|known| known == secret) {
                self.guessed.push((name.clone(), secret.to_owned()));
                self.hide(secret);
            }
        }
    }

    /// Stops hiding what an environment gave and that means something else as well, such as a part of the
    /// repository's path: it would be missing where it is used.
    pub fn spare(&mut self, is_plain: impl Fn(&str) -> bool) {
        let (plain, guessed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.guessed).into_iter().partition(|(_, value)| is_plain(value));
        self.guessed = guessed;
        for (_, value) in plain {
            let forms = forms(&value);
            self.values.retain(|known| !forms.contains(known));
        }
    }

    /// The variable of an environment whose secret stands in a text.
    pub fn variable_in(&self, text: &str) -> Option<&str> {
        let stands = |(_, value): &&(String, String)| forms(value).iter().any(|form| text.contains(form));
        self.guessed.iter().find(stands).map(|(name, _)| name.as_str())
    }

    /// Hides a value from now on, also where JSON or a URL writes it otherwise.
    pub fn hide(&mut self, value: &str) {
        for form in forms(value) {
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
        for (pattern, (_, part)) in patterns().iter().zip(PATTERNS) {
            if has(&text, part) && pattern.is_match(&text) {
                text = pattern.replace_all(&text, HIDDEN).into_owned();
            }
        }
        text
    }

    /// Whether nothing of a text is hidden.
    pub fn is_clean(&self, text: &str) -> bool {
        let is_secret =
            |(pattern, (_, part)): (&Regex, &(&str, &str))| has(text, part) && pattern.is_match(text);
        !self.values.iter().any(|value| text.contains(value.as_str()))
            && !patterns().iter().zip(PATTERNS.iter()).any(is_secret)
    }

    /// The bytes without secrets; what is no text stays as it is.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            out.extend_from_slice(self.redact(chunk.valid()).as_bytes());
            out.extend_from_slice(chunk.invalid());
        }
        out
    }

    /// The same for bytes after which something was cut off: a secret may have begun there.
    pub fn redact_head(&self, bytes: &[u8]) -> Vec<u8> {
        let mut clean = self.redact_bytes(bytes);
        let begun = |value: &String| {
            (MIN_PART_BYTES..value.len()).rev().find(|length| clean.ends_with(&value.as_bytes()[..*length]))
        };
        if let Some(length) = self.values.iter().filter_map(begun).max() {
            clean.truncate(clean.len() - length);
            clean.extend_from_slice(HIDDEN.as_bytes());
        }
        clean
    }

    /// The same for bytes before which something was cut off: a secret may have ended there.
    pub fn redact_tail(&self, bytes: &[u8]) -> Vec<u8> {
        let clean = self.redact_bytes(bytes);
        let ended = |value: &String| {
            let rest = |length: &usize| &value.as_bytes()[value.len() - length..];
            (MIN_PART_BYTES..value.len()).rev().find(|length| clean.starts_with(rest(length)))
        };
        match self.values.iter().filter_map(ended).max() {
            Some(length) => [HIDDEN.as_bytes(), &clean[length..]].concat(),
            None => clean,
        }
    }

    /// The text without secrets, and without its middle where it is longer than so many bytes; a quarter of them stands
    /// at the end. It costs no more than what is left.
    pub fn excerpt(&self, text: &str, most: usize) -> String {
        if text.len() <= most {
            return self.redact(text);
        }
        let head = text.floor_char_boundary(most - most / 4);
        let tail = text.ceil_char_boundary(text.len() - most / 4);
        let (first, last) = (&text.as_bytes()[..head], &text.as_bytes()[tail..]);
        let (first, last) = (self.redact_head(first), self.redact_tail(last));
        let seen = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}\n[… {} bytes left out …]\n{}", seen(&first), tail - head, seen(&last))
    }

    /// Where bytes can be cut, at a place or before it, so that no value goes on behind the cut.
    pub fn cut_before(&self, bytes: &[u8], at: usize) -> usize {
        let straddles = |value: &String, at: usize| {
            let first = (at + 1).saturating_sub(value.len());
            (first..at).find(|from| bytes[*from..].starts_with(value.as_bytes()))
        };
        let mut at = at.min(bytes.len());
        while let Some(from) = self.values.iter().find_map(|value| straddles(value, at)) {
            at = from;
        }
        at
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
    COMPILED.get_or_init(|| PATTERNS.iter().filter_map(|(one, _)| Regex::new(one).ok()).collect())
}

/// Whether a text has a word in it, which is in small letters, in whatever letters.
fn has(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// A value as it is, as JSON writes it and as a URL does.
fn forms(value: &str) -> [String; 3] {
    [value.to_owned(), escaped(value), percent(value)]
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
    fn an_excerpt_has_neither_a_secret_nor_a_part_of_one() {
        let mut secrets = Secrets::new();
        secrets.hide("correct-horse-battery");
        assert_eq!(secrets.excerpt("a correct-horse-battery", 100), format!("a {HIDDEN}"));
        for before in 40..110 {
            let text = format!("{}correct-horse-battery{}", "x".repeat(before), "y".repeat(200 - before));
            let excerpt = secrets.excerpt(&text, 100);
            assert!(excerpt.contains("bytes left out") && excerpt.len() < 160, "{excerpt}");
            let parts = ["corr", "tery", "horse"];
            assert!(parts.iter().all(|part| !excerpt.contains(part)), "{before}: {excerpt}");
        }
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
    fn what_only_an_environment_gave_is_spared_where_it_means_something_else() {
        let mut secrets = secrets(&["named-build/cache"]);
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        secrets.add_environment([
            variable("X_TOKEN", "build/cache-1"),
            variable("Y_TOKEN", "other-value-1"),
            variable("Z_TOKEN", "named-build/cache"),
        ]);
        assert_eq!(secrets.variable_in("see other-value-1"), Some("Y_TOKEN"));
        assert_eq!(secrets.variable_in("see nothing"), None);
        secrets.spare(|value| "/srv/named-build/cache-1/x".contains(value));
        let text = "build/cache-1 build%2Fcache-1 other-value-1 named-build/cache";
        assert_eq!(secrets.redact(text), "build/cache-1 build%2Fcache-1 [hidden] [hidden]");
    }

    #[test]
    fn bytes_and_values_are_redacted_like_texts() {
        let secrets = secrets(&["test-key-1"]);
        assert_eq!(secrets.redact_bytes(b"\xfftest-key-1\xfe test-key-1"), b"\xff[hidden]\xfe [hidden]");
    }

    #[test]
    fn no_part_of_a_secret_is_left_where_a_text_was_cut() {
        let secrets = secrets(&["test-key-1", "key-12345"]);
        for (head, wanted) in [
            ("it is test-key-", "it is [hidden]"),
            ("it is test", "it is [hidden]"),
            ("it is tes", "it is tes"),
            ("test-key-1 is test-key-1", "[hidden] is [hidden]"),
        ] {
            assert_eq!(secrets.redact_head(head.as_bytes()), wanted.as_bytes(), "{head}");
        }
        for (tail, wanted) in
            [("-key-1 is it", "[hidden] is it"), ("y-1 is it", "y-1 is it"), ("2345 x", "[hidden] x")]
        {
            assert_eq!(secrets.redact_tail(tail.as_bytes()), wanted.as_bytes(), "{tail}");
        }
        let text = b"so test-key-12345 it is";
        for at in 0..=text.len() {
            let cut = secrets.cut_before(text, at);
            let parts = [secrets.redact_bytes(&text[..cut]), secrets.redact_bytes(&text[cut..])].concat();
            assert!(!String::from_utf8_lossy(&parts).contains("test-key-1"), "{at} {cut}");
            assert!(cut <= at && at - cut < 16, "{at} {cut}");
        }
    }

    #[test]
    fn debug_says_nothing() {
        let key = SecretKey::of_variable("K", Some(" test-key-1\n".into())).unwrap();
        let mut secrets = Secrets::new();
        secrets.add(&key);
        let shown = format!("{key:?} {secrets:?}");
        assert!(!shown.contains("test-key-1") && shown.contains("the variable K"), "{shown}");
        assert_eq!(key.expose(), "test-key-1");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for value in ["", "abc", "two words here", "line\nbreak"] {
            assert!(SecretKey::of_variable("K", Some(value.into())).is_err(), "{value:?}");
        }
        assert!(SecretKey::of_variable("K", None).unwrap_err().to_string().contains("K"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "test-key-2\n").unwrap();
        assert_eq!(SecretKey::of_file(&file).unwrap().expose(), "test-key-2");
        std::fs::write(&file, "k".repeat(16 * 1024 + 1)).unwrap();
        assert!(SecretKey::of_file(&file).is_err());
        assert!(SecretKey::of_file(folder.path()).is_err());
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
