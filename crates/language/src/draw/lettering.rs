//! How wide letters are, and how labels break into lines.
//!
//! The widths are guesses on the wide side, for fonts we do not carry along: a picture may have a
//! little air, but text never leaves its box.

/// The size of labels.
pub(super) const LABEL_SIZE: f64 = 11.5;
/// The size of names.
pub(super) const NAME_SIZE: f64 = 13.0;
/// Labels break after about this many letters.
const LINE: usize = 20;
/// Labels have at most this many lines; the whole text is in the tooltip.
const LINES: usize = 3;
/// Names are cut after this many letters; the whole name is in the tooltip.
const NAME: usize = 40;

/// How wide a name is, in a font whose letters are all the same width.
pub(super) fn name_width(name: &str) -> f64 {
    let wide = |c: char| if c.is_ascii() { 0.62 } else { 1.05 };
    name.chars().map(wide).sum::<f64>() * NAME_SIZE
}

/// How wide a line of a label is.
pub(super) fn label_width(line: &str) -> f64 {
    line.chars().map(letter).sum::<f64>() * LABEL_SIZE
}

/// A name, cut when it is very long.
pub(super) fn short_name(name: &str) -> String {
    shorten(name, NAME)
}

/// The lines of a label.
pub(super) fn lines(label: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split_whitespace() {
        let word = shorten(word, LINE + 6);
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < LINE => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(_) | None => lines.push(word),
        }
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        if let Some(line) = lines.last_mut() {
            line.push('…');
        }
    }
    lines
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// The width of a letter in a usual sans serif, as a part of the size.
fn letter(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.34,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.98,
        'A'..='Z' | '_' | '=' | '<' | '>' | '+' | '&' | '#' | '~' => 0.76,
        c if c.is_ascii() => 0.62,
        _ => 1.05,
    }
}

#[cfg(test)]
mod tests {
    use super::{lines, short_name};

    #[test]
    fn labels_break_between_words() {
        assert_eq!(lines("tests fail (back to fix it)"), ["tests fail (back to", "fix it)"]);
        assert_eq!(lines(""), Vec::<String>::new());
    }

    #[test]
    fn long_labels_and_names_are_cut() {
        let label = lines(&"several words ".repeat(20));
        assert_eq!(label.len(), 3);
        assert!(label[2].ends_with('…'));
        assert_eq!(short_name(&"x".repeat(400)).chars().count(), 40);
    }
}
