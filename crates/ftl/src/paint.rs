//! Colours and the shape of text for people.
//!
//! Everything here returns text; nothing prints. Text that comes from a document passes through
//! [`safe`], so that a document cannot speak to the terminal.

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};

pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const PLACE: Style = AnsiColor::Blue.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// A text in a style.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A text without what a terminal would obey: control characters and marks that turn the writing
/// direction. Tabs stay.
pub(crate) fn safe(text: &str) -> String {
    let obeyed = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (c.is_control() && c != '\t')
    };
    text.chars().map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// How many columns a text takes, colours aside.
pub(crate) fn columns(text: &str) -> usize {
    strip_str(text).map(|part| part.chars().count()).sum()
}

/// A text with spaces behind it, up to a width.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// What stands between the entries of a row.
pub(crate) const DOT: &str = " · ";

/// A text whose lines are at most `width` wide, each but the first indented. A word that is wider
/// stays whole, and no line begins with a dot.
pub(crate) fn wrapped(text: &str, first: usize, indent: usize, width: usize) -> String {
    let glued = text.replace(DOT, "\u{a0}· ");
    let mut out = String::new();
    let mut at = first;
    for (index, word) in glued.split(' ').enumerate() {
        let wide = columns(word);
        if index > 0 && at + 1 + wide > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            at = indent;
        } else if index > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += wide;
    }
    out.replace('\u{a0}', " ")
}

/// `1 error`, `2 errors`.
pub(crate) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_cannot_speak_to_the_terminal() {
        assert_eq!(safe("a\u{1b}[31mb\tc\u{202e}d"), "a\u{fffd}[31mb\tc\u{fffd}d");
        assert_eq!(safe("A → B"), "A → B");
    }

    #[test]
    fn lines_break_between_words_and_colours_take_no_room() {
        let red = paint(ERROR, "dd");
        let text = wrapped(&format!("aa bb {red} eeeeeeeeee f"), 2, 2, 8);
        assert_eq!(strip_str(&text).to_string(), "aa bb\n  dd\n  eeeeeeeeee\n  f");
        assert_eq!(wrapped("aaaa · bbbb", 0, 0, 6), "aaaa ·\nbbbb");
        assert_eq!(padded(&red, 4).len(), red.len() + 2);
    }

    #[test]
    fn counts_agree() {
        assert_eq!((count(1, "edge"), count(0, "edge")), ("1 edge".into(), "0 edges".into()));
    }
}
