//! Names of states as Mermaid takes them.
//!
//! Mermaid's identifiers are words, and some words are its own. A name that it would not take is
//! written as `alias_` and the name's bytes in hexadecimal, so that reading it back gives exactly
//! the name. This module never loses or merges names.

const MARK: &str = "alias_";

/// Words that open a statement of a state diagram, or would be taken for one.
const OWN_WORDS: [&str; 16] = [
    "state",
    "note",
    "end",
    "direction",
    "class",
    "classdef",
    "style",
    "click",
    "hide",
    "scale",
    "title",
    "acctitle",
    "accdescr",
    "as",
    "default",
    "statediagram",
];

/// The identifier that stands for `name` in a Mermaid text.
pub(super) fn identifier(name: &str) -> String {
    if is_plain(name) {
        return name.to_owned();
    }
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{MARK}{digits}")
}

/// The name that an identifier of a Mermaid text stands for.
pub(super) fn name(identifier: &str) -> String {
    identifier.strip_prefix(MARK).and_then(unhex).unwrap_or_else(|| identifier.to_owned())
}

/// Whether Mermaid takes the name as it is.
pub(super) fn is_plain(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && name.chars().all(word)
        && !name.starts_with(MARK)
        && !OWN_WORDS.contains(&name.to_ascii_lowercase().as_str())
}

fn unhex(digits: &str) -> Option<String> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::{identifier, is_plain, name};

    #[test]
    fn plain_names_stay() {
        assert_eq!(identifier("PLAN_REVIEW"), "PLAN_REVIEW");
        assert_eq!(name("PLAN_REVIEW"), "PLAN_REVIEW");
    }

    #[test]
    fn other_names_come_back() {
        for odd in ["a-b", "", "end", "End", "ü", "alias_61", "x y", "[*]", "a:b"] {
            assert!(!is_plain(odd));
            assert_eq!(name(&identifier(odd)), odd, "{odd:?}");
        }
    }

    #[test]
    fn broken_aliases_are_names() {
        assert_eq!(name("alias_6"), "alias_6");
        assert_eq!(name("alias_ff"), "alias_ff");
    }
}
