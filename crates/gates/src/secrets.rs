//! The secrets gate: private keys, keys of clouds and tokens that a change brings along.
//!
//! A line is looked at by the forms that services give their keys, and by how much chance there is in a text that a name
//! calls a secret. What is found is told with its line and its first letters only. What stood there before is not the work's.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use ftl_code::finding::{Finding, FindingKind, Severity, settled};
use ftl_git::change::{Change, Content};
use regex::Regex;

/// How long a line may be to be looked at; longer ones are data.
const MAX_LINE_BYTES: usize = 4_000;

/// How many bytes of one file are looked at.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// How many letters of a secret are shown.
const SHOWN: usize = 4;

/// The least chance in each letter of a text that a name calls a secret, in bits.
const MIN_ENTROPY: f64 = 3.5;

/// What keys look like: what each is called, and its form. A form without a word that nobody writes by chance is none.
const FORMS: [(&str, &str); 19] = [
    ("a key of AWS", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("a token of GitHub", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("a token of GitHub", r"\bgithub_pat_[A-Za-z0-9_]{40,}\b"),
    ("a token of GitLab", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("a token of Slack", r"\bxox[abprs]-[0-9]{6,}-[A-Za-z0-9-]{10,}"),
    ("an address of Slack", r"hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{20,}"),
    ("a key of Google", r"\bAIza[0-9A-Za-z_-]{35}\b"),
    ("a key of Stripe", r"\b[sr]k_live_[0-9A-Za-z]{20,}"),
    ("a key of Anthropic", r"\bsk-ant-[A-Za-z0-9_-]{30,}"),
    (
        "a key of OpenAI",
        r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{30,}|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    ),
    ("a token of npm", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a token of PyPI", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{40,}"),
    ("a token of crates.io", r"\bcio[A-Za-z0-9]{32}\b"),
    ("a key of SendGrid", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a token of Telegram", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    ("a token of Docker", r"\bdckr_pat_[A-Za-z0-9_-]{20,}"),
    ("a token of Hugging Face", r"\bhf_[A-Za-z]{34}\b"),
    ("a key of Azure", r"AccountKey=[A-Za-z0-9+/]{80,}={0,2}"),
    (
        "a password of a database",
        r"\b(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|redis|amqps?)://[^\s:/@]+:([^\s:/@'\x22<>{}$]{8,})@[^\s/'\x22]+",
    ),
];

/// A name that calls what follows it a secret, and the text.
const NAMED: &str = r#"(?i)\b[a-z0-9_.-]*(?:api_?key|apikey|secret|token|passwd|password|private_?key|access_?key|auth_?key|client_?secret)[a-z0-9_]*["']?\s*(?::|=|=>|:=)\s*["'`]([A-Za-z0-9+/_=.~-]{20,})["'`]"#;

/// The same as variables of the environment are written in files.
const VARIABLE: &str =
    r"^(?:export )?[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)[A-Z0-9_]*=([A-Za-z0-9+/_=.~-]{20,})\s*$";

/// Words by which a text says that it is no real secret.
const PLACEHOLDERS: [&str; 27] = [
    "example",
    "sample",
    "dummy",
    "fake",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "xxxx",
    "test",
    "mock",
    "todo",
    "redacted",
    "insert",
    "replace",
    "default",
    "secret",
    "password",
    "0000",
    "1234567",
    "abcdef",
    "foobar",
    "localhost",
    "deadbeef",
    "hidden",
    "none",
];

/// A secret, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The line, counted from one.
    line: usize,
    /// What it is.
    what: &'static str,
    /// Its text. It is shown nowhere.
    text: String,
}

/// What a change brings along that must stay secret.
pub fn look(change: &Change) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &change.files {
        let text = |side: &'_ Option<Content>| -> Option<String> {
            let bytes = side.as_ref()?.bytes.as_ref().filter(|bytes| bytes.len() <= MAX_FILE_BYTES)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let Some(after) = text(&file.after) else { continue };
        let before: BTreeSet<String> = text(&file.before)
            .map(|text| scan(&text))
            .unwrap_or_default()
            .into_iter()
            .map(|one| one.text)
            .collect();
        for one in scan(&after).into_iter().filter(|one| !before.contains(&one.text)) {
            let start: String = one.text.chars().take(SHOWN).collect();
            let message =
                format!("{} stands there (`{start}…`, {} letters)", one.what, one.text.chars().count());
            // A key that tests are to read is often made for them, and nobody can tell.
            let is_made = is_for_tests(&file.path) && one.what == PRIVATE_KEY;
            let finding = Finding::block(FindingKind::SecretFound, &file.path, Some(one.line), message);
            findings.push(if is_made { Finding { severity: Severity::Note, ..finding } } else { finding });
        }
    }
    settled(findings)
}

const PRIVATE_KEY: &str = "a private key";

fn is_for_tests(path: &str) -> bool {
    const PARTS: [&str; 11] = [
        "test",
        "tests",
        "testdata",
        "fixtures",
        "fixture",
        "examples",
        "example",
        "spec",
        "__tests__",
        "mocks",
        "testing",
    ];
    path.split('/').any(|part| PARTS.contains(&part) || part.starts_with("test_") || part.contains("_test."))
}

fn forms() -> &'static Vec<(&'static str, Regex)> {
    static COMPILED: OnceLock<Vec<(&'static str, Regex)>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        FORMS.iter().filter_map(|(what, form)| Some((*what, Regex::new(form).ok()?))).collect()
    })
}

fn names() -> &'static Vec<Regex> {
    static COMPILED: OnceLock<Vec<Regex>> = OnceLock::new();
    COMPILED.get_or_init(|| [NAMED, VARIABLE].iter().filter_map(|form| Regex::new(form).ok()).collect())
}

/// The secrets of a text.
pub(crate) fn scan(text: &str) -> Vec<Found> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.len() <= MAX_LINE_BYTES) {
        if line.contains("PRIVATE KEY") {
            found.extend(private_key(&lines[at..]).map(|text| Found {
                line: at + 1,
                what: PRIVATE_KEY,
                text,
            }));
        }
        for (what, form) in forms() {
            let matched = form.captures(line).and_then(|one| one.get(one.len() - 1).or_else(|| one.get(0)));
            let text = matched
                .map(|one| one.as_str())
                .filter(|text| !is_placeholder(text) && !line.contains("EXAMPLE"));
            found.extend(text.map(|text| Found { line: at + 1, what, text: text.to_owned() }));
        }
        let named = names().iter().find_map(|form| form.captures(line)).and_then(|one| one.get(1));
        let text = named.map(|one| one.as_str()).filter(|text| is_chance(text) && !is_placeholder(text));
        let is_told = found.last().is_some_and(|one| one.line == at + 1);
        found.extend(text.filter(|_| !is_told).map(|text| Found {
            line: at + 1,
            what: "a text that its name calls a secret",
            text: text.to_owned(),
        }));
    }
    found
}

/// The body of a private key that begins on the first line; a text that only speaks of one has none.
fn private_key(lines: &[&str]) -> Option<String> {
    let first = lines.first()?;
    let from = first.find("-----BEGIN ")?;
    let rest = first[from..]
        .split("PRIVATE KEY-----")
        .nth(1)
        .or_else(|| first[from..].split("PRIVATE KEY BLOCK-----").nth(1))?;
    let on_one = rest.replace("\\n", "\n");
    let body = on_one.lines().chain(lines.iter().skip(1).take(8).copied());
    let is_base64 = |line: &str| {
        line.len() >= 40
            && line.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '+' | '/' | '='))
    };
    let strip = |line: &'_ str| {
        line.trim().trim_matches(['"', '\'', '+', '\\', ',', '#', '*', '|']).trim().to_owned()
    };
    body.map(strip).find(|line| is_base64(line) && entropy(line) > MIN_ENTROPY)
}

fn is_placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// Whether a text looks drawn and not written: letters and digits mixed, with much chance in each.
fn is_chance(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let lower = text.chars().filter(char::is_ascii_lowercase).count();
    let upper = text.chars().filter(char::is_ascii_uppercase).count();
    let is_mixed = digits >= 3 && lower >= 3 && (upper >= 3 || text.len() >= 32);
    // Words that are joined are names, and a version or a path is none either.
    let joins = text.chars().filter(|one| matches!(one, '-' | '_' | '.' | '/')).count();
    is_mixed && joins * 6 <= text.len() && entropy(text) > MIN_ENTROPY
}

/// How much chance there is in each letter, in bits.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let of = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    of.map(|part| -part * part.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: what is found or `-`, and a line. `~` stands between the halves of what must not stand here whole.
    const LINES: &str = r#"
        a key of AWS              | key = "AKIA~Q3EGVJX5WLZC7NPT"
        -                         | key = "AKIA~IOSFODNN7EXAMPLE"
        a token of GitHub         | "ghp_~x9K2mQ7vB4nL8wR3tY6uI1oP5aS0dF2gH4jZ"
        -                         | "ghp_~xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        a token of Slack          | xoxb-~263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1
        a key of Stripe           | sk_live_~4eC39HqLyjWDarjtT1zdp7dc
        -                         | sk_test_~4eC39HqLyjWDarjtT1zdp7dc
        a password of a database  | postgres://shop:hR7~kq2Lz@db.shop.io/shop
        -                         | postgres://user:password@localhost/shop
        -                         | postgres://user:${PASSWORD}@db/shop
        a text that its name calls a secret | api_token = "q8ZrT2vLx5NwKj7Y~bM3cHd9FgS4aPe6U"
        a text that its name calls a secret | "clientSecret": "Zx81kQp0~vTn4LsWd77Rb"
        a text that its name calls a secret | export DEPLOY_TOKEN=q8ZrT2vLx5NwKj7Y~bM3cHd9FgS4aPe6U
        -                         | api_token = os.environ["API_TOKEN"]
        -                         | api_token = "your-api-token-goes-here-123"
        -                         | token_url = "https://shop.io/oauth2/token/v2/path"
        -                         | password_reset_template = "mail/password_reset_v2.html"
        -                         | integrity = "sha512-oRkIJhb0pPkVmkNE0lzYlM4cV5hBJj0fwhTNCYUQzZCf=="
        -                         | id = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
        -                         | -----BEGIN PRIVATE KEY----- begins a key"#;

    #[test]
    fn a_line_says_whether_it_holds_a_secret() {
        for line in LINES.lines().filter(|line| !line.trim().is_empty()) {
            let (wanted, text) = line.split_once('|').unwrap();
            let found = scan(&text.trim().replace('~', ""));
            let told: Vec<&str> = found.iter().map(|one| one.what).collect();
            let told = if told.is_empty() { "-".to_owned() } else { told.join(", ") };
            assert_eq!(told, wanted.trim(), "{line}");
        }
    }

    fn key() -> String {
        let body = "MIIEpAIBAAKCAQEAy8Dbv8prpJ/0kKhlGeJYozo2t60EG8L0561g13R29LvMR5hy";
        format!("-----BEGIN RSA PRIVATE {}-----\n{body}\n-----END RSA PRIVATE {}-----\n", "KEY", "KEY")
    }

    #[test]
    fn only_what_is_new_is_told_and_never_whole() {
        let side = |text: String| {
            Some(Content { kind: ftl_git::change::EntryKind::File, bytes: Some(text.into_bytes()) })
        };
        let file = |path: &str, before: String| ftl_git::change::FileChange {
            path: path.to_owned(),
            before: side(before),
            after: side(format!("# a\n{}", key())),
        };
        let told = |path: &str, before: String| look(&Change { files: vec![file(path, before)] });
        assert!(told("deploy.pem", key()).is_empty());
        let new = told("deploy.pem", String::new());
        assert_eq!(
            new[0].to_string(),
            "deploy.pem:2: secret_found: a private key stands there (`MIIE…`, 64 letters)"
        );
        assert!(new[0].stops() && !told("tests/key.pem", String::new())[0].stops());
    }
}
