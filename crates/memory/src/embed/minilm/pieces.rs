//! Cuts texts into word pieces as the model was trained: lower case, no accents, longest piece first.

use std::collections::BTreeMap;

/// Longer words are unknown.
const MAX_LETTERS: usize = 100;

/// The vocabulary of word pieces, each with its number.
#[derive(Debug)]
pub(super) struct Pieces {
    numbers: BTreeMap<String, usize>,
    unknown: usize,
    start: usize,
    end: usize,
}

impl Pieces {
    /// Reads a vocabulary of one piece a line.
    pub(super) fn read(vocabulary: &str) -> Result<Pieces, String> {
        let numbers: BTreeMap<String, usize> =
            vocabulary.lines().enumerate().map(|(at, piece)| (piece.trim_end().to_owned(), at)).collect();
        let of =
            |piece: &str| numbers.get(piece).copied().ok_or_else(|| format!("the vocabulary has no {piece}"));
        let (unknown, start, end) = (of("[UNK]")?, of("[CLS]")?, of("[SEP]")?);
        Ok(Pieces { numbers, unknown, start, end })
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.values().max().map_or(0, |most| most + 1)
    }

    /// The numbers of a text's pieces between those of start and end, so many at most.
    pub(super) fn tokenize(&self, text: &str, most: usize) -> Vec<usize> {
        let mut found = vec![self.start];
        for word in words(text) {
            if found.len() + 1 >= most {
                break;
            }
            found.extend(self.pieces(&word));
        }
        found.truncate(most.saturating_sub(1));
        found.push(self.end);
        found
    }

    fn pieces(&self, word: &str) -> Vec<usize> {
        if word.chars().count() > MAX_LETTERS {
            return vec![self.unknown];
        }
        let (mut found, mut start) = (Vec::new(), 0);
        while start < word.len() {
            let Some((number, end)) = self.longest(word, start) else { return vec![self.unknown] };
            found.push(number);
            start = end;
        }
        found
    }

    fn longest(&self, word: &str, start: usize) -> Option<(usize, usize)> {
        let ends = word[start..].char_indices().map(|(at, letter)| start + at + letter.len_utf8());
        let ends: Vec<usize> = ends.collect();
        let mark = if start == 0 { "" } else { "##" };
        ends.into_iter().rev().find_map(|end| {
            let number = self.numbers.get(&format!("{mark}{}", &word[start..end]))?;
            Some((*number, end))
        })
    }
}

/// Words in lower case without accents; each sign and each Chinese letter is a word of its own.
fn words(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for letter in crate::text::clip(text, crate::text::MAX_CHARS).chars().flat_map(char::to_lowercase) {
        let letter = without_accent(letter);
        if letter.is_whitespace() || letter.is_control() {
            found.push(String::new());
        } else if is_sign(letter) || is_ideograph(letter) {
            found.extend([letter.to_string(), String::new()]);
        } else if let Some(word) = found.last_mut().filter(|_| !is_combining(letter)) {
            word.push(letter);
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

fn is_sign(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(letter, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '«' | '»' | '¿' | '¡' | '§' | '¶' | '·')
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

fn is_combining(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// The letter below the accent, for the letters of western Europe.
fn without_accent(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'ď' => 'd',
        'è'..='ë' | 'ē' | 'ę' | 'ě' => 'e',
        'ğ' => 'g',
        'ì'..='ï' | 'ī' => 'i',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ō' | 'ő' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' => 's',
        'ť' => 't',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_the_longest_piece() {
        let pieces =
            Pieces::read("[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##lock\n##ed\nlock\n:\n文\ncafe\n").unwrap();
        let table = "
            lock        -> 2 7 3
            unlocked    -> 2 4 5 6 3
            Lock:LOCK   -> 2 7 8 7 3
            zebra lock  -> 2 1 7 3
            Café        -> 2 10 3
            文文        -> 2 9 9 3
        ";
        for line in table.lines().filter(|line| line.contains("->")) {
            let (text, wanted) = line.split_once("->").unwrap();
            let found: Vec<String> =
                pieces.tokenize(text.trim(), 99).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), wanted.trim(), "{}", text.trim());
        }
        assert_eq!(pieces.tokenize(&"lock ".repeat(1000), 16).len(), 16);
        assert_eq!(pieces.tokenize(&"l".repeat(MAX_LETTERS + 1), 16), [2, 1, 3]);
        assert!(Pieces::read("lock").is_err());
    }
}
