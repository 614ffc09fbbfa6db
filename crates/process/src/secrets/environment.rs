//! Which variables of an environment hold a secret, by their name or by the look of their value.
//!
//! What is hidden vanishes from every text, so a value that also means something else is never one: a path, a
//! number, a plain word, the name of the user or the machine. A name that says `PASSWORD` is believed, one that
//! only has `KEY` or `AUTH` in it is not. Nothing here reads the environment itself.

use std::collections::BTreeSet;
use std::path::Path;

/// A value with fewer characters is no secret of an environment: it would be found everywhere.
pub const MIN_VARIABLE_CHARS: usize = 8;

/// A word of letters alone that is shorter may stand in any text.
const MIN_LETTERS: usize = 16;

/// The fewest characters of a value that is taken for a key by its look alone.
const MIN_RANDOM: usize = 20;

/// The same where the name says that it may be one.
const MIN_MIXED: usize = 16;

/// Parts of a name, between `_`, that say that the value is a secret.
const SECRETS: [&str; 8] =
    ["APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "CREDENTIAL", "CREDENTIALS", "CREDS"];

/// Parts that say that it is a password, which may be a plain word.
const PASSWORDS: [&str; 8] =
    ["PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE", "PASS", "PW", "PWD"];

/// Parts that also name plain things, such as the key that is sorted by: the value must look like a secret too.
const HINTS: [&str; 6] = ["KEY", "KEYS", "PAT", "AUTH", "COOKIE", "SALT"];

/// What makes a `KEY` that follows it a secret.
const KEYS_OF: [&str; 5] = ["API", "ACCESS", "PRIVATE", "SECRET", "MASTER"];

/// Last parts of a name that say that the value tells of a secret and is none.
const ABOUT: [&str; 24] = [
    "TYPE", "NAME", "FILE", "PATH", "DIR", "URL", "URI", "HOST", "LIMIT", "MAX", "MIN", "TTL", "EXPIRY",
    "LENGTH", "SIZE", "USER", "METHOD", "MODE", "POLICY", "HEADER", "STORE", "BACKEND", "PROVIDER", "ID",
];

/// The same at the end of a part, as in `DBPASSWORD`.
const PASSWORD_ENDINGS: [&str; 3] = ["PASSWORD", "PASSWD", "PASSPHRASE"];
const SECRET_ENDINGS: [&str; 4] = ["TOKEN", "SECRET", "APIKEY", "CREDENTIALS"];

/// Passwords that everybody has, and words of every text.
const COMMON: [&str; 6] = ["password", "changeme", "postgres", "required", "disabled", "optional"];

/// The variables that name the user and the machine.
const NAMES: [&str; 8] =
    ["USER", "LOGNAME", "USERNAME", "HOSTNAME", "HOST", "NAME", "SUDO_USER", "GIT_AUTHOR_NAME"];

/// What the name of a variable says about its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// That it is a password.
    Password,
    /// That it is another secret.
    Secret,
    /// That it may be one.
    Hint,
    /// That it is no secret.
    Nothing,
}

/// The part of a variable's value that no output may show, if there is one.
pub(super) fn secret_of<'value>(name: &str, value: &'value str) -> Option<&'value str> {
    let value = value.trim();
    let secret =
        if has_scheme(value) { password_of(value)? } else { is_secret(name, value).then_some(value)? };
    (secret.chars().count() >= MIN_VARIABLE_CHARS).then_some(secret)
}

/// Whether a name says that the value is a password or another secret.
pub(super) fn is_named_secret(name: &str) -> bool {
    match told_by(name) {
        Told::Password | Told::Secret => true,
        Told::Hint | Told::Nothing => false,
    }
}

fn is_secret(name: &str, value: &str) -> bool {
    match told_by(name) {
        Told::Password => !(is_path(value) || is_common(name, value)),
        Told::Secret => !(is_path(value) || is_number(value) || is_word(value) || is_common(name, value)),
        Told::Hint => !is_listed_path(value) && (is_mixed(value) || is_random(value)),
        Told::Nothing => !is_listed_path(value) && is_random(value),
    }
}

/// What names the user or the machine in an environment, and is never hidden.
pub(super) fn plain_names(variables: &[(String, String)]) -> BTreeSet<&str> {
    let named = variables.iter().filter(|(name, _)| NAMES.contains(&name.as_str()));
    named.map(|(_, value)| value.trim()).collect()
}

/// Whether a value is an address: a scheme stands before `://`.
fn has_scheme(value: &str) -> bool {
    let is_scheme = |text: &str| {
        text.starts_with(|one: char| one.is_ascii_alphabetic())
            && text.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one))
    };
    value.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// The password in an address such as `postgres://user:password@host/name`, or the token that stands alone
/// before the host. A name that is there alone is a user's.
fn password_of(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    match user.split_once(':') {
        // As `https://token:x-oauth-basic@host`, or with nothing behind the colon.
        Some((token, password)) if password.chars().count() < MIN_VARIABLE_CHARS => {
            has_digits_and_letters(token).then_some(token).or(Some(password))
        }
        Some((_, password)) => Some(password),
        None => has_digits_and_letters(user).then_some(user),
    }
}

fn has_digits_and_letters(value: &str) -> bool {
    value.chars().any(|one| one.is_ascii_digit()) && value.chars().any(char::is_alphabetic)
}

fn told_by(name: &str) -> Told {
    let name = name.to_ascii_uppercase();
    let parts: Vec<&str> = name.split(|one: char| !one.is_ascii_alphanumeric()).collect();
    let has = |all: &[&str]| parts.iter().any(|part| all.contains(part));
    let ends = |all: &[&str]| parts.iter().any(|part| all.iter().any(|ending| part.ends_with(ending)));
    let is_key = parts.windows(2).any(|pair| KEYS_OF.contains(&pair[0]) && pair[1].starts_with("KEY"));
    let is_password = has(&PASSWORDS) || ends(&PASSWORD_ENDINGS);
    let is_secret = is_key || has(&SECRETS) || ends(&SECRET_ENDINGS);
    let is_about = parts.len() > 1 && parts.last().is_some_and(|last| ABOUT.contains(last));
    match (is_password, is_secret) {
        (true, _) | (_, true) if is_about => Told::Hint,
        (true, _) => Told::Password,
        (false, true) => Told::Secret,
        (false, false) if has(&HINTS) => Told::Hint,
        (false, false) => Told::Nothing,
    }
}

/// Whether a value of which nothing but its look is known is a path or a list of paths.
fn is_listed_path(value: &str) -> bool {
    value.starts_with(['/', '~', '.', ':']) || value.contains(":/") || value.contains("=/")
}

/// Whether a value is a path although its name says that it is a secret: it is there, or has several parts that
/// are words, not drawn by lot. A list of paths has only such.
fn is_path(value: &str) -> bool {
    let is_one = |path: &str| {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let begins = path.starts_with(['/', '~', '.']) && path.contains('/');
        begins
            && (parts.len() > 1 && parts.iter().all(|part| is_plain_part(part)) || Path::new(path).exists())
    };
    let mut all = value.split(':').filter(|path| !path.is_empty()).peekable();
    all.peek().is_some() && all.all(is_one)
}

/// Whether a part of a path is a name that a person gave.
fn is_plain_part(part: &str) -> bool {
    let is_name = part.chars().all(|one| one.is_alphanumeric() || "._-~@ ".contains(one));
    is_name && changes(part) * 4 < part.chars().count().max(4)
}

fn is_number(value: &str) -> bool {
    value.chars().all(|one| one.is_ascii_digit() || ".,:-+ ".contains(one))
}

fn is_word(value: &str) -> bool {
    value.chars().all(char::is_alphabetic) && value.chars().count() < MIN_LETTERS
}

/// Whether a value is one that everybody has, or that the name itself says.
fn is_common(name: &str, value: &str) -> bool {
    let mut parts = name.split(|one: char| !one.is_ascii_alphanumeric());
    COMMON.iter().any(|word| value.eq_ignore_ascii_case(word))
        || parts.any(|part| part.eq_ignore_ascii_case(value))
}

/// Whether letters and digits change places too often for a name that a person gave; digests count.
fn is_mixed(value: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || "_-+=/.".contains(one);
    let has_digits = value.chars().filter(char::is_ascii_digit).count() >= 2;
    value.len() >= MIN_MIXED && has_digits && value.chars().all(is_part) && changes(value) * 4 >= value.len()
}

/// How often a value changes between large letters, small letters and digits, within its words.
fn changes(value: &str) -> usize {
    let classes: Vec<Option<u8>> = value.chars().map(class).collect();
    let changes = |pair: &&[Option<u8>]| pair[0].is_some() && pair[1].is_some() && pair[0] != pair[1];
    classes.windows(2).filter(changes).count()
}

fn class(one: char) -> Option<u8> {
    match one {
        'A'..='Z' => Some(0),
        'a'..='z' => Some(1),
        '0'..='9' => Some(2),
        _ => None,
    }
}

/// Whether a value looks drawn by lot: letters of both kinds and digits, which change places all the time. The
/// name of a machine or a version does not; a digest or a UUID, which has letters of one kind, is no key.
fn is_random(value: &str) -> bool {
    let is_part = |one: char| class(one).is_some() || "_-+=".contains(one);
    if value.len() < MIN_RANDOM || !value.chars().all(is_part) {
        return false;
    }
    let has_all = (0..3).all(|wanted| value.chars().any(|one| class(one) == Some(wanted)));
    // What changes from one word to the next says nothing.
    has_all && changes(value) * 5 >= value.len() * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_name_or_its_look() {
        for (name, value, wanted) in [
            ("SECRET_FIXED", "planted-value-1", Some("planted-value-1")),
            ("GITHUB_TOKEN", " 0123456789abcdef ", Some("0123456789abcdef")),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPx", Some("wJalrXUtnFEMI/K7MDENG/bPx")),
            ("DBPASSWORD", "correct horse battery", Some("correct horse battery")),
            ("db_pass", "hunter2!", Some("hunter2!")),
            ("PASSPHRASE", "correcthorsebatterystaple", Some("correcthorsebatterystaple")),
            ("DATABASE_URL", "postgres://ada:s3cret-pass@db/x", Some("s3cret-pass")),
            ("WHATEVER", "Zx81kQ0pLm72RtVw93Yb", Some("Zx81kQ0pLm72RtVw93Yb")),
            ("AWS_SECRET_ACCESS_KEY", "/K7MDENGbPxRfiCYzEXAMPLE", Some("/K7MDENGbPxRfiCYzEXAMPLE")),
            ("AWS_SECRET_ACCESS_KEY", "/K7MDENG/bPxRfiCYz12", Some("/K7MDENG/bPxRfiCYz12")),
            ("PIP_INDEX_URL", "https://tok3nvalue123456@host/simple", Some("tok3nvalue123456")),
            ("PIP_INDEX_URL", "https://tok3nvalue123456:@host/simple", Some("tok3nvalue123456")),
            ("REMOTE", "ssh://deployer@host/x", None),
            ("X_PASSWORD", "ab:/cd-ef", Some("ab:/cd-ef")),
            ("X_PASSWORD", "a b://cd-ef", Some("a b://cd-ef")),
            ("DB_PASSWORD", "hunterhunter", Some("hunterhunter")),
            ("DB_PASSWORD", "20261118", Some("20261118")),
            ("STRIPE_KEY", "0f3a9b7c1d5e8f2a6b4c0d9e", Some("0f3a9b7c1d5e8f2a6b4c0d9e")),
            ("DB_PASS", "hunter2", None),
            ("POSTGRES_PASSWORD", "postgres", None),
            ("TOKEN_URL", "https://example.org/token", None),
            ("API_KEY_FILE", "/run/secrets/api-key", None),
            ("TOKEN_LIMIT", "1000000000", None),
        ] {
            assert_eq!(secret_of(name, value), wanted, "{name}");
        }
        let short = "x".repeat(MIN_VARIABLE_CHARS - 1) + "1";
        assert_eq!(secret_of("TOKEN", &short), Some(short.as_str()));
        assert_eq!(secret_of("TOKEN", &short[1..]), None, "one letter less");
    }

    #[test]
    fn a_desktop_has_no_secrets() {
        for (name, value) in [
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
            ("XDG_DATA_DIRS", "/usr/local/share/:/usr/share/"),
            ("XDG_CURRENT_DESKTOP", "ubuntu:GNOME"),
            (
                "DBUS_SESSION_BUS_ADDRESS",
                "unix:path=/run/user/1000/bus,guid=0123456789abcdef0123456789abcdef",
            ),
            ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
            ("GNOME_KEYRING_CONTROL", "/run/user/1000/keyring"),
            ("GPG_TTY", "/dev/pts/0"),
            ("SESSION_MANAGER", "local/box:@/tmp/.ICE-unix/2212,unix/box:/tmp/.ICE-unix/2212"),
            ("INVOCATION_ID", "0cdfb7a5f3f94a1b8d7b2f0a4f3d2c1b"),
            ("GITHUB_SHA", "9a819a5c0ffee9a819a5c0ffee9a819a5c0ffee9a"),
            ("KEYBOARD_LAYOUT", "english-intl"),
            ("XKB_DEFAULT_LAYOUT", "de-nodeadkeys"),
            ("TOKENIZERS_PARALLELISM", "disabled-by-default"),
            ("HOSTNAME", "Adas-MacBook-Pro-2-local"),
            ("TERM_PROGRAM_VERSION", "Version-20261118-x86-Linux"),
            ("LS_COLORS", "rs=0:di=01;34:ln=01;36:*.7z=01;31"),
            ("PWD", "/srv/ada/work"),
            ("KEYMAP", "german-phonetic"),
            ("SORT_KEY", "created_at"),
            ("PARTITION_KEY", "tenant_id"),
            ("AUTH_USER", "svc-deploy"),
            ("AUTH_TYPE", "client_credentials"),
            ("CACHE_KEY", "node_modules"),
            ("CACHE_KEY", "build_cache"),
            ("S3_KEY", "greet.txt"),
            ("S3_KEY", "releases/2026-11-18/ftl-x86_64.tar.gz"),
            ("SSH_KEY", "id_ed25519"),
            ("COOKIE_NAME", "session-cookie"),
            ("TOKEN_TYPE", "bearer-token"),
            ("SECRET_NAME", "prod/database"),
            ("PASSWORD_FILE", "secrets.d/db-password"),
            ("DB_PASSWORD_PATHS", "/run/secrets/db:/etc/secrets/db"),
            ("MYSQL_PASSWORD", "changeme"),
            ("XMODIFIERS", "@im=ibus"),
        ] {
            assert_eq!(secret_of(name, value), None, "{name}={value}");
        }
    }
}
