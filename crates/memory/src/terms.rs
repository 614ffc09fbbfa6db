//! The terms of a text: what the index of words holds, and what questions are looked up by.
//!
//! A term is a stem in lower case. Identifiers and codes are kept whole beside their parts (`bad_alloc` is `badalloc`, `bad` and
//! `alloc`), so that the same name in another spelling is the same term. Numbers alone say nothing in a log and are left out there;
//! addresses and hashes are always left out.

use std::collections::BTreeMap;

use crate::text;

/// So much of a lesson is indexed.
const MAX_LESSON_CHARS: usize = 8_000;

/// A run of hexadecimal digits from this length on is a hash or an address.
const MIN_HASH: usize = 8;

/// A longer run is no word.
const MAX_TERM: usize = 64;

/// A question of at most so many terms may ask for a number.
const FEW: usize = 12;

/// The terms of a lesson's text, in their order.
pub(crate) fn of_lesson(of: &str) -> Vec<String> {
    let mut terms = Vec::new();
    push_terms(text::clip(of, MAX_LESSON_CHARS), true, &mut terms);
    without_stops(terms)
}

/// The terms of one line of a question.
pub(crate) fn of_line(line: &str, numbers: bool) -> Vec<String> {
    let mut terms = Vec::new();
    push_terms(line, numbers, &mut terms);
    without_stops(terms)
}

/// Whether a question is so short that a number in it is asked for.
pub(crate) fn asks_for_numbers(asked: &str) -> bool {
    asked.split_whitespace().nth(FEW).is_none()
}

/// How often each term stands in a list.
pub(crate) fn counted(terms: Vec<String>) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    terms.into_iter().for_each(|term| *counts.entry(term).or_default() += 1.0);
    counts
}

/// Whether a term is the code of an error, such as `e0382`, `ts2345` or `p2021`: a few letters and at least three digits.
pub(crate) fn is_code(term: &str) -> bool {
    let digits = term.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    let letters = term.len() - digits.len();
    (1..=4).contains(&letters) && digits.len() > 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a term is the stem of a word that stands in most lessons.
pub(crate) fn is_usual(term: &str) -> bool {
    text::USUAL.iter().any(|word| stem(word) == term)
}

/// Stop words are kept only where there is nothing else.
fn without_stops(mut terms: Vec<String>) -> Vec<String> {
    if !terms.iter().all(|term| text::is_stop(term)) {
        terms.retain(|term| !text::is_stop(term));
    }
    terms
}

/// Words are joined by these into one name.
fn joins(letter: char) -> bool {
    matches!(letter, '_' | '-')
}

fn push_terms(of: &str, numbers: bool, terms: &mut Vec<String>) {
    for chunk in of.split(|letter: char| !letter.is_alphanumeric() && !joins(letter)) {
        push_chunk(chunk, numbers, terms);
    }
}

/// The runs of a chunk, and the name that they make together. What dots, colons and slashes join are places: their parts alone count.
fn push_chunk(chunk: &str, numbers: bool, terms: &mut Vec<String>) {
    let runs = || chunk.split(joins).filter(|run| !run.is_empty());
    runs().for_each(|run| push_run(run, numbers, terms));
    let named = runs().filter(|run| run.chars().any(char::is_alphabetic)).count();
    let whole: String = runs().flat_map(str::chars).flat_map(char::to_lowercase).collect();
    if named > 1 && whole.len() <= MAX_TERM {
        terms.push(stem(&whole));
    }
}

fn push_run(run: &str, numbers: bool, terms: &mut Vec<String>) {
    if run.len() > MAX_TERM || is_hash(run) {
        return;
    }
    if run.bytes().all(|byte| byte.is_ascii_digit()) {
        if numbers && run.len() > 1 {
            terms.push(run.to_owned());
        }
        return;
    }
    terms.push(stem(&run.to_lowercase()));
    let humps = text::humps(run);
    if humps.len() > 1 {
        terms.extend(humps.into_iter().filter(|hump| hump.len() > 1).map(|hump| stem(&hump.to_lowercase())));
    }
}

/// An address or a hash: hexadecimal, and long or with the mark.
fn is_hash(run: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = run.bytes().filter(u8::is_ascii_digit).count();
    (run.starts_with("0x") && hex(&run[2..])) || (run.len() >= MIN_HASH && digits > 1 && hex(run))
}

/// The word without its usual English endings. Only ever compared with other stems; codes stay as they are.
pub(crate) fn stem(word: &str) -> String {
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) || word.len() < 4 {
        return word.to_owned();
    }
    for (ending, least, instead) in ENDINGS {
        if let Some(left) = word.strip_suffix(ending)
            && left.len() >= *least
        {
            let left = if *instead == DOUBLED { single(left) } else { left };
            let instead = if *instead == DOUBLED { "" } else { instead };
            return format!("{left}{instead}");
        }
    }
    word.to_owned()
}

/// Ending, how many letters must be left, what stands instead.
const ENDINGS: &[(&str, usize, &str)] = &[
    ("ies", 2, "i"),
    ("ied", 2, "i"),
    ("ness", 4, ""),
    ("sses", 2, "ss"),
    ("ss", 2, "ss"),
    ("us", 2, "us"),
    ("is", 2, "is"),
    ("ing", 4, DOUBLED),
    ("ed", 3, DOUBLED),
    ("es", 3, ""),
    ("s", 3, ""),
    ("y", 3, "i"),
    ("e", 3, ""),
];

/// A doubled letter before the ending is one.
const DOUBLED: &str = "2";

fn single(left: &str) -> &str {
    let bytes = left.as_bytes();
    let doubled = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    if doubled && !matches!(bytes[bytes.len() - 1], b'l' | b's' | b'z') {
        &left[..left.len() - 1]
    } else {
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_kept_whole_beside_their_parts() {
        let table = "
            terminate: std::bad_alloc -> terminat std bad alloc badalloc
            react-hooks/exhaustive-deps -> react hook reacthook exhaustiv dep exhaustivedep
            error[E0382] at src/main.rs:12:5 -> error e0382 src main rs
            ModuleNotFoundError: yaml -> modulenotfounderror modul found error yaml
            commit 9f8e7d6c5b4a at 0x7ffd12 -> commit
            ERR_OSSL_EVP -> err ossl evp errosslevp
            naïve Ärger -> naïve ärger
            status=404 -> status
        ";
        for line in table.lines().filter(|line| line.contains("->")) {
            let (of, wanted) = line.rsplit_once("->").unwrap();
            let wanted = wanted.trim();
            let found = of_line(of.trim(), false);
            assert_eq!(found.join(" "), wanted, "{of}");
        }
        assert_eq!(of_line("port 5432", true), ["port", "5432"]);
        assert_eq!(of_line("the of", false), ["the", "of"]);
    }

    #[test]
    fn codes_of_errors() {
        for (term, wanted) in
            [("e0382", true), ("ts2345", true), ("utf8", false), ("5432", false), ("sha512x", false)]
        {
            assert_eq!(is_code(term), wanted, "{term}");
        }
    }

    #[test]
    fn stems_of_one_word_are_equal() {
        let table = "compile compiled compiling compiles | library libraries | stop stopped stopping stops | \
                     process processes | class classes | cache caches cached caching | miss missed";
        for words in table.split('|') {
            let stems: Vec<String> = words.split_whitespace().map(stem).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{stems:?}");
        }
        assert_ne!(stem("string"), stem("str"));
    }
}
