//! The rules for what ends up in a path: seqs, slugs and files of a delta.
//!
//! Each rule answers with what is wrong and what to do. None of them mends anything, and none asks the disk.

/// How long a path of a plan may be.
pub const MAX_PATH_BYTES: usize = 1024;

/// How long one part of a path may be: what file systems take.
const MAX_PART_BYTES: usize = 255;

/// How long a slug may be, so that seq, slug and status fit in one file name.
pub const MAX_SLUG_BYTES: usize = 100;

/// How many digits a seq has, at least and at most.
const SEQ_DIGITS: std::ops::RangeInclusive<usize> = 3..=18;

/// Endings of files whose names may have brackets: routes of web frameworks, such as `[id].tsx`.
const ROUTE_ENDINGS: [&str; 9] = ["ts", "tsx", "js", "jsx", "vue", "svelte", "astro", "md", "mdx"];

/// What is wrong with a text, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong, to be read after the name of the field.
    pub what: String,
    /// A sentence that says how to mend it.
    pub hint: String,
}

impl Wrong {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Wrong {
        Wrong { what: what.into(), hint: hint.into() }
    }
}

/// Whether a text is a seq: three digits or more.
pub fn check_seq(seq: &str) -> Result<(), Wrong> {
    let digits = seq.bytes().all(|byte| byte.is_ascii_digit());
    if digits && SEQ_DIGITS.contains(&seq.len()) {
        return Ok(());
    }
    let hint = match seq.trim().parse::<u64>() {
        Ok(number) if number < 1_000_000 => format!("write \"{number:03}\""),
        Ok(_) | Err(_) => "number the tasks \"001\", \"002\", …".to_owned(),
    };
    Err(Wrong::new("must be 3-digit string (three digits or more)", hint))
}

/// Whether a text is a slug in kebab case.
pub fn check_slug(slug: &str) -> Result<(), Wrong> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_kebab = slug.split('-').all(|word| !word.is_empty() && word.bytes().all(is_letter));
    if is_kebab && slug.len() <= MAX_SLUG_BYTES {
        return Ok(());
    }
    let meant = slug_of(&slug.replace(['_', '/', '.'], " "), 40);
    let hint = match meant.is_empty() {
        true => "use small letters and digits with single dashes between, such as \"add-login\"".to_owned(),
        false => format!("use small letters and digits with single dashes between, such as \"{meant}\""),
    };
    let what = match is_kebab {
        true => format!("is longer than {MAX_SLUG_BYTES} letters"),
        false => format!("must be in kebab case: {}", quote_name(slug)),
    };
    Err(Wrong::new(what, hint))
}

/// Whether a text is the path of one file inside the repository.
pub fn check_path(path: &str) -> Result<(), Wrong> {
    let relative = "name the file by its path from the root of the repository, such as \"src/login.py\"";
    let says = |what: &str| format!("{what}: {}", quote_name(path));
    if path.trim().is_empty() {
        return Err(Wrong::new("is an empty path", relative));
    }
    if path.len() > MAX_PATH_BYTES || path.split('/').any(|part| part.len() > MAX_PART_BYTES) {
        return Err(Wrong::new(says("is a path that is too long"), relative));
    }
    if path.chars().any(|letter| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}')) {
        return Err(Wrong::new(says("has a control character in a path"), "take it out of the path"));
    }
    if path.contains('\\') {
        return Err(Wrong::new(says("has a backslash in a path"), "write \"/\" between folders"));
    }
    if is_absolute(path) {
        return Err(Wrong::new(says("is an absolute path"), relative));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(Wrong::new(says("has \"..\" in a path"), relative));
    }
    if path.split('/').any(is_pattern) {
        return Err(Wrong::new(says("is a glob"), "name each file by itself; a plan has no patterns"));
    }
    if path.ends_with('/') || path.ends_with("/.") || path == "." {
        return Err(Wrong::new(says("names a folder"), "name the files in it"));
    }
    if is_private(path) {
        return Err(Wrong::new(says("names the state of git or ftl"), "name files of the project"));
    }
    Ok(())
}

/// A path without `./` before it and `/` behind it.
pub fn bare(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path).trim_end_matches('/')
}

/// A slug out of any text: small letters, digits and single dashes, everything else left out, cut to a length. Empty
/// where nothing is left.
pub fn slug_of(text: &str, longest: usize) -> String {
    let is_open = |slug: &str| !slug.is_empty() && !slug.ends_with('-');
    let mut slug = String::new();
    for letter in text.chars().flat_map(char::to_lowercase) {
        match letter {
            'a'..='z' | '0'..='9' => slug.push(letter),
            '-' if is_open(&slug) => slug.push('-'),
            gap if gap.is_whitespace() && is_open(&slug) => slug.push('-'),
            _ => {}
        }
        if slug.len() >= longest {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

fn is_absolute(path: &str) -> bool {
    let drive = path.as_bytes().get(1) == Some(&b':')
        && path.starts_with(|letter: char| letter.is_ascii_alphabetic());
    path.starts_with('/') || path.starts_with('~') || drive
}

fn is_pattern(part: &str) -> bool {
    let braces = part.find('{').is_some_and(|open| {
        part[open..].split('}').next().is_some_and(|inner| inner.contains(',') || inner.contains(".."))
    });
    part.contains(['*', '?']) || braces || (part.contains(['[', ']']) && !is_route(part))
}

/// `[id]`, `[...all]`, `[[...all]]` and files named so are literal names in web frameworks.
fn is_route(part: &str) -> bool {
    let (name, ending) = match part.rsplit_once("].") {
        Some((name, ending)) => (format!("{name}]"), Some(ending)),
        None => (part.to_owned(), None),
    };
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
    let inner = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(inner);
    let inner = inner.strip_prefix("...").unwrap_or(inner);
    let is_name = inner.len() > 1 && inner.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    is_name && ending.is_none_or(|ending| ROUTE_ENDINGS.contains(&ending))
}

fn is_private(path: &str) -> bool {
    let mut parts =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_ascii_lowercase);
    let below_git = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    let below_ftl = parts.next().as_deref() == Some(".ftl") && parts.next().as_deref() != Some("protocols");
    below_git || below_ftl
}

/// A text as a message shows it: quoted, escaped and not too long.
pub fn quote_name(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
