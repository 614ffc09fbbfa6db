//! Regular expressions of lessons as texts: escapes taken out, and the whole words that an index can find them by.

/// Takes away the escapes of letters that need none, such as `\ ` and `\#` of Python's `re.escape`.
pub(crate) fn unescape(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len());
    let mut letters = expression.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some(next) if next.is_alphanumeric() || r"\.+*?()|[]{}^$-".contains(next) => {
                out.extend(['\\', next]);
            }
            Some(next) => out.push(next),
            None => out.push('\\'),
        }
    }
    out
}

/// The whole words that every match must hold, so that an index can find the expression by them.
pub(crate) fn literals(expression: &str) -> String {
    let mut out = String::new();
    let mut letters = unescape(expression).chars().collect::<Vec<_>>().into_iter().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                // A boundary ends a word; every other class of letters may go on with it.
                Some('b' | 's' | 'n' | 't') => out.push(' '),
                Some(next) if next.is_alphanumeric() => out.push(PART),
                Some(next) => out.push(next),
                None => {}
            },
            '[' => in_class = true,
            ']' if in_class => {
                in_class = false;
                out.push(PART);
            }
            _ if in_class => {}
            '.' | '*' | '+' | '?' | '{' | '}' => out.push(PART),
            '(' | ')' | '|' | '^' | '$' => out.push(' '),
            other => out.push(other),
        }
    }
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == PART;
    let words = out.split(|letter: char| !is_letter(letter));
    words.filter(|word| word.chars().count() > 2 && !word.contains(PART)).collect::<Vec<_>>().join(" ")
}

/// Stands for letters that are not known.
const PART: char = '\u{1}';

/// Whether every alternative of an expression has a whole word.
pub(crate) fn has_word(expression: &str) -> bool {
    expression.split('|').all(|part| !literals(part).is_empty())
}
