//! Keys, tokens and passwords in a text, by their shape.
//!
//! Known shapes are told by their prefix and length; others by a name such as `password` with a value
//! that looks drawn by lot. A placeholder (`<token>`, `${TOKEN}`, `xxxx`) is no secret.

/// Prefix, how many letters of a token must follow at least, and what it is.
const SHAPES: [(&str, usize, &str); 22] = [
    ("AKIA", 16, "cloud access key"),
    ("ASIA", 16, "cloud access key"),
    ("ghp_", 30, "code host token"),
    ("gho_", 30, "code host token"),
    ("ghu_", 30, "code host token"),
    ("ghs_", 30, "code host token"),
    ("ghr_", 30, "code host token"),
    ("github_pat_", 30, "code host token"),
    ("glpat-", 18, "code host token"),
    ("sk-", 20, "model provider key"),
    ("sk_live_", 16, "payment key"),
    ("rk_live_", 16, "payment key"),
    ("xoxb-", 20, "chat token"),
    ("xoxp-", 20, "chat token"),
    ("xoxa-", 20, "chat token"),
    ("AIza", 33, "cloud access key"),
    ("ya29.", 20, "cloud access key"),
    ("npm_", 30, "package registry token"),
    ("pypi-", 40, "package registry token"),
    ("hf_", 30, "model hub token"),
    ("SG.", 40, "mail service key"),
    ("dop_v1_", 40, "cloud access key"),
];

/// Names whose value is a secret, without signs and in lower case.
const NAMES: [&str; 14] = [
    "password",
    "passwd",
    "pwd",
    "secret",
    "secretkey",
    "apikey",
    "token",
    "accesstoken",
    "authtoken",
    "privatekey",
    "clientsecret",
    "accesskey",
    "credential",
    "passphrase",
];

/// Under a name a value of this length is looked at.
const MIN_VALUE: usize = 8;

/// Bits a letter from which a value looks drawn by lot.
const MIN_ENTROPY: f64 = 3.0;

/// What was found, by what it is.
pub(super) fn find(text: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    found.extend(
        SHAPES.iter().filter(|(prefix, least, _)| has_shape(text, prefix, *least)).map(|(_, _, what)| *what),
    );
    if text.contains("-----BEGIN") && text.contains("PRIVATE KEY") {
        found.push("private key");
    }
    if words(text).any(is_signed_token) {
        found.push("signed token");
    }
    if has_login_in_url(text) {
        found.push("login in an address");
    }
    if text.lines().any(has_assignment) {
        found.push("value of a secret name");
    }
    if has_bearer(text) {
        found.push("authorization header");
    }
    found
}

fn is_token_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

/// Whether the prefix stands at the start of a word and enough mixed letters follow it.
fn has_shape(text: &str, prefix: &str, least: usize) -> bool {
    text.match_indices(prefix).any(|(at, _)| {
        let inside = text[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric());
        let rest = &text[at + prefix.len()..];
        let body: &str = rest.split(|letter| !is_token_letter(letter)).next().unwrap_or_default();
        !inside && body.len() >= least && looks_random(body)
    })
}

/// Digits and letters mixed, and no letter too often.
fn looks_random(body: &str) -> bool {
    let digits = body.bytes().filter(u8::is_ascii_digit).count();
    let letters = body.bytes().filter(u8::is_ascii_alphabetic).count();
    digits >= 2 && letters >= 2 && entropy(body) > MIN_ENTROPY
}

/// The entropy of a text, in bits a letter.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_token_letter(letter))
}

/// Three parts of base64 joined by dots, the first two of which are JSON.
fn is_signed_token(word: &str) -> bool {
    let mut parts = word.split('.');
    let (head, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    head.starts_with("eyJ") && body.starts_with("eyJ") && word.len() > 40
}

/// Whether a text has a URL with a password: `scheme://name:password@host`.
fn has_login_in_url(text: &str) -> bool {
    text.match_indices("://").any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let authority =
            rest.split(|c: char| c.is_whitespace() || "/?#\"'`<>)".contains(c)).next().unwrap_or_default();
        let Some((login, _)) = authority.rsplit_once('@') else { return false };
        let password = login.split_once(':').map_or(login, |(_, password)| password);
        let token = login.split_once(':').is_none() && password.len() < 20;
        !token && password.len() >= 3 && !is_placeholder(password)
    })
}

/// A name of a secret, `=` or `:`, and a value that looks drawn by lot.
fn has_assignment(line: &str) -> bool {
    line.match_indices(['=', ':']).any(|(at, _)| {
        let before = line[..at].trim_end_matches([' ', '"', '\'', '`']);
        let name = before
            .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .next()
            .unwrap_or_default();
        let name: String =
            name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        let after = line[at + 1..].trim_start_matches([' ', '"', '\'', '`', '=']);
        let value =
            after.split(|c: char| c.is_whitespace() || "\"'`,;)".contains(c)).next().unwrap_or_default();
        NAMES.iter().any(|known| name.ends_with(known)) && is_secret_value(value)
    })
}

fn is_secret_value(value: &str) -> bool {
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_path = value.contains('/') && !value.contains(['+', '=']);
    let is_code = value.contains(['(', ')', '[', '{', '<', ':']);
    let mixed = has_digit && has_letter;
    value.len() >= MIN_VALUE
        && mixed
        && !is_path
        && !is_code
        && !is_placeholder(value)
        && entropy(value) > 2.7
}

/// `Authorization: Bearer …` with a real token.
fn has_bearer(text: &str) -> bool {
    text.match_indices("earer ").any(|(at, mark)| {
        let token = text[at + mark.len()..].split(|c: char| !is_token_letter(c)).next().unwrap_or_default();
        token.len() >= 20 && looks_random(token)
    })
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let hints = [
        "example",
        "placeholder",
        "changeme",
        "redacted",
        "your",
        "xxxx",
        "***",
        "...",
        "dummy",
        "password",
        "secret",
    ];
    value.starts_with(['<', '$', '{', '%']) || hints.iter().any(|hint| lower.contains(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_drawn_by_lot_have_more_bits() {
        assert!(entropy("aaaaaaaa") < 0.01);
        assert!((entropy("abcdefgh") - 3.0).abs() < 1e-9);
        assert_eq!(entropy(""), 0.0);
    }

    #[test]
    fn shapes_need_their_length() {
        assert!(!has_shape("AKIA12", "AKIA", 16));
        assert!(!has_shape("xAKIAIOSFODNN7EXAM3PQ", "AKIA", 16));
        assert!(has_shape("key AKIAIOSFODNN7EXAM3PQ.", "AKIA", 16));
    }
}
