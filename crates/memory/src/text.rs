//! Texts made comparable: normalised, cut into words, prepared for the index.
//!
//! Words are split at everything that is no letter or digit and at the humps of `camelCase`. All work
//! is bounded by [`MAX_CHARS`]; letters beyond are not compared.

/// So much of a text is looked at.
pub const MAX_CHARS: usize = 4_000;

/// Words that say nothing by themselves.
const STOP: &[&str] = &[
    "a", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because", "been", "before",
    "being", "but", "by", "can", "cannot", "could", "did", "do", "does", "for", "from", "had", "has", "have",
    "i", "if", "in", "into", "is", "it", "its", "may", "must", "no", "not", "of", "on", "or", "our", "out",
    "so", "such", "t", "than", "that", "the", "their", "then", "there", "they", "this", "to", "up", "was",
    "we", "were", "when", "which", "while", "will", "with", "without", "you", "your",
];

/// Words that stand in most lessons.
pub(crate) const USUAL: &[&str] = &[
    "call",
    "called",
    "code",
    "err",
    "error",
    "exception",
    "fail",
    "failed",
    "fails",
    "failure",
    "file",
    "line",
    "run",
    "test",
    "tests",
    "type",
    "use",
    "used",
    "using",
    "value",
    "warning",
];

/// Lower case, white space and outer punctuation made uniform: equal for texts that say the same.
pub fn normalise(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    words.join(" ").trim_matches(|letter: char| ".:;,!? ".contains(letter)).to_owned()
}

/// A number for a normalised text, the same in every process.
pub fn fingerprint(text: &str) -> i64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    i64::from_le_bytes(hash.to_le_bytes())
}

/// The first so many characters.
pub fn clip(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(at, _)| &text[..at])
}

/// Every word in lower case; a word with humps is followed by its parts.
pub fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for run in runs(text) {
        let parts = humps(run);
        found.push(run.to_lowercase());
        if parts.len() > 1 {
            found.extend(parts.into_iter().map(str::to_lowercase));
        }
    }
    found
}

/// Every word in lower case, a word with humps by its parts only; this is what is embedded.
pub fn plain_words(text: &str) -> impl Iterator<Item = String> + '_ {
    runs(text).flat_map(humps).map(str::to_lowercase)
}

/// What the full text index gets: the text, and the parts of its words with humps.
pub fn indexed(text: &str) -> String {
    let mut out = text.to_owned();
    for part in runs(text).map(humps).filter(|parts| parts.len() > 1).flatten() {
        out.push(' ');
        out.push_str(part);
    }
    out
}

/// Whether the word says nothing by itself.
pub fn is_stop(word: &str) -> bool {
    STOP.binary_search(&word).is_ok()
}

/// How much a shared word says: nothing, little, usual, or much for codes and numbers with letters.
pub fn word_weight(word: &str) -> f64 {
    let is_code = word.bytes().any(|byte| byte.is_ascii_digit()) && word.len() > 2;
    match word {
        _ if is_stop(word) => 0.0,
        _ if USUAL.binary_search(&word).is_ok() => 0.4,
        _ if is_code => 1.5,
        _ => 1.0,
    }
}

/// The word without its usual English endings. Only ever compared with other stems.
pub fn stem(word: &str) -> &str {
    for ending in ["ing", "ies", "ed", "es", "s", "e"] {
        if let Some(left) = word.strip_suffix(ending)
            && left.len() >= 3
            && left.is_ascii()
        {
            return left;
        }
    }
    word
}

fn runs(text: &str) -> impl Iterator<Item = &str> {
    clip(text, MAX_CHARS).split(|letter: char| !letter.is_alphanumeric()).filter(|run| !run.is_empty())
}

/// `ModuleNotFound` is three parts, `HTTPServer` two, `ECONNREFUSED` one.
pub(crate) fn humps(run: &str) -> Vec<&str> {
    let letters: Vec<(usize, char)> = run.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for (n, pair) in letters.windows(2).enumerate() {
        let ((_, before), (at, here)) = (pair[0], pair[1]);
        let next_is_small = letters.get(n + 2).is_some_and(|(_, next)| next.is_lowercase());
        let rises = before.is_lowercase() && here.is_uppercase();
        let falls = before.is_uppercase() && here.is_uppercase() && next_is_small;
        if rises || falls {
            parts.push(&run[start..at]);
            start = at;
        }
    }
    parts.push(&run[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_signs_and_humps() {
        let table = "
            ModuleNotFoundError: yaml -> modulenotfounderror module not found error yaml
            connect ECONNREFUSED 127.0.0.1 -> connect econnrefused 127 0 0 1
            crate::store::open_file -> crate store open file
            HTTPServer getJSON v2 -> httpserver http server getjson get json v2
            naïve Ärger -> naïve ärger
        ";
        for line in table.lines().filter(|line| line.contains("->")) {
            let (text, wanted) = line.split_once("->").unwrap();
            assert_eq!(words(text).join(" "), wanted.trim());
        }
    }

    #[test]
    fn normal_texts_are_equal_when_they_say_the_same() {
        assert_eq!(normalise("  Build\tFAILED:\n no disk. "), "build failed: no disk");
        assert_ne!(fingerprint("build failed"), fingerprint("build faile"));
        assert_eq!(normalise(" .:; "), "");
    }

    #[test]
    fn lists_are_sorted_for_the_search_in_them() {
        assert!(STOP.is_sorted() && USUAL.is_sorted());
    }

    #[test]
    fn long_texts_are_cut() {
        let text = "word ".repeat(MAX_CHARS);
        assert_eq!(words(&text).len(), MAX_CHARS / 5);
        assert_eq!(clip("äöü", 2), "äö");
    }
}
