//! The words of an objective, and how near a name is to them.

use std::collections::BTreeSet;

/// How many words of an objective are searched for.
pub const MAX_TERMS: usize = 20;

/// Words shorter than this say too little.
const SHORTEST: usize = 3;

/// Words that stand in objectives and say nothing about files.
const EMPTY: [&str; 47] = [
    "the",
    "and",
    "for",
    "with",
    "from",
    "into",
    "that",
    "this",
    "then",
    "than",
    "when",
    "should",
    "must",
    "not",
    "but",
    "all",
    "any",
    "are",
    "has",
    "have",
    "its",
    "was",
    "will",
    "can",
    "use",
    "using",
    "via",
    "add",
    "fix",
    "make",
    "create",
    "implement",
    "change",
    "update",
    "remove",
    "delete",
    "improve",
    "write",
    "bug",
    "issue",
    "feature",
    "support",
    "new",
    "also",
    "does",
    "who",
    "which",
];

/// Endings that a word may lose, the longest first.
const ENDINGS: [&str; 8] = ["ations", "ation", "ings", "ing", "ies", "ed", "es", "s"];

/// A word that is searched for.
pub(super) struct Term {
    /// As the objective spells it, in small letters.
    pub(super) word: String,
    /// The word without its ending, so that `tests` and `testing` meet.
    pub(super) stem: String,
}

/// The words that are searched for, in the order of the objective.
pub(super) fn terms(objective: &str) -> Vec<Term> {
    let mut found: Vec<Term> = Vec::new();
    for word in parts(objective) {
        let stem = stem(&word).to_owned();
        let is_new = found.iter().all(|term| term.stem != stem);
        if word.len() >= SHORTEST && !EMPTY.contains(&word.as_str()) && is_new && found.len() < MAX_TERMS {
            found.push(Term { word, stem });
        }
    }
    found
}

/// A text in its words, in small letters: `parseHTTPRequest` and `parse_http_request` are three each.
pub(super) fn parts(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
            continue;
        }
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || (before.is_uppercase() && after.is_some_and(|one| one.is_lowercase()))
            });
        if begins {
            words.push(std::mem::take(&mut word));
        }
        word.extend(letter.to_lowercase());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// A word without its ending, as long as enough is left of it: `image`, `images` and `imaging` are one.
pub(super) fn stem(word: &str) -> &str {
    let cut = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    let cut = cut.strip_suffix('e').unwrap_or(cut);
    if cut.chars().count() > SHORTEST { cut } else { word }
}

/// Which of the terms a name has among its words.
pub(super) fn hits<'a>(name: &str, terms: &'a [Term]) -> BTreeSet<&'a str> {
    let words = parts(name);
    let has = |term: &&Term| words.iter().any(|word| stem(word) == term.stem || *word == term.word);
    terms.iter().filter(has).map(|term| term.word.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_objectives() {
        let cases = [
            ("", ""),
            ("fix it", ""),
            ("Add a login page to the users API", "login page users api"),
            ("parsing of parseHTTPRequest in http_client.py", "parsing http request client"),
            ("validation, validations; VALIDATION", "validation"),
            ("Größe der Bilder ändern", "größe der bilder ändern"),
            ("retry failed uploads", "retry failed uploads"),
        ];
        for (objective, wanted) in cases {
            let found: Vec<String> = terms(objective).into_iter().map(|term| term.word).collect();
            assert_eq!(found.join(" "), wanted, "{objective}");
        }
        let many: String = (0..MAX_TERMS + 9).map(|at| format!("word{at} ")).collect();
        assert_eq!(terms(&many).len(), MAX_TERMS);
    }

    #[test]
    fn names_have_words() {
        let terms = terms("upload of user images");
        for (name, wanted) in [
            ("upload_image", "images upload"),
            ("ImageUploader", "images"),
            ("uploads", "upload"),
            ("superuser", ""),
            ("src/users/images.py", "images user"),
        ] {
            let found: Vec<&str> = hits(name, &terms).into_iter().collect();
            assert_eq!(found.join(" "), wanted, "{name}");
        }
    }
}
