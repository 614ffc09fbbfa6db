//! Colours and the shape of text for people.
//!
//! Everything here returns text; nothing prints. Text that comes from a document passes through
//! [`safe`], so that a document cannot speak to the terminal.

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};

/// The subject of a line.
pub const STRONG: Style = Style::new().bold();
/// Details, and whatever is not the point of a line.
pub const QUIET: Style = Style::new().dimmed();
/// Errors, and what is held.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Warnings, and what ended without success.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// What has succeeded.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Places in a document.
pub const PLACE: Style = AnsiColor::Blue.on_default().bold();
/// Hints, and what a person can type.
pub const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// A text in a style.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A text without what a terminal would obey: control characters and marks that turn the writing
/// direction. Tabs stay, and the end of a line becomes a space.
pub fn safe(text: &str) -> String {
    let obeyed = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (c.is_control() && c != '\t')
    };
    if is_plain(text) {
        return text.to_owned();
    }
    let shown = |c: char| match c {
        '\n' => ' ',
        c if obeyed(c) => '\u{fffd}',
        c => c,
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// The same, line by line. Later lines are indented: none of them can pass for a line of our own.
pub fn lines(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(safe).collect();
    lines.join("\n  ")
}

/// The same, in one line: where a line ends, a space stands.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    safe(&lines.join(" "))
}

/// The same, in one line, with a mark where a line ended: for reasons, which often have several.
pub fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    safe(&lines.join(DOT))
}

/// Whether every letter is one byte that a terminal shows as one column: most texts are, and need no
/// second look.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// How many columns a text takes, colours aside.
pub fn columns(text: &str) -> usize {
    if is_plain(text) {
        return text.len();
    }
    strip_str(text).flat_map(str::chars).map(wide).sum()
}

/// How many columns a character takes on a terminal: marks that sit on another none, the letters of
/// East Asia and pictures two.
fn wide(letter: char) -> usize {
    match letter {
        '\u{0300}'..='\u{036f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{20d0}'..='\u{20ff}' => 0,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{a4cf}' => 2,
        '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' => 2,
        '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' => 2,
        '\u{1f300}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6ff}' | '\u{1f900}'..='\u{1f9ff}' => 2,
        '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// A line that is no wider than a terminal: what does not fit is cut, colours end where it is cut.
/// Without a width nothing is cut.
pub fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| columns(text) > *width) else { return text.to_owned() };
    let mut out = String::new();
    let mut at = 1;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(letter);
        if letter == '\u{1b}' {
            // Only our own colours are in here: they end with an m.
            out.extend(letters.by_ref().take_while(|one| *one != 'm'));
            out.push('m');
            continue;
        }
        at += wide(letter);
        if at > width {
            out.pop();
            break;
        }
    }
    format!("{}…\u{1b}[0m", out.trim_end())
}

/// A line of a text that may be cut and of an end that must be whole.
pub fn fitted_before(text: &str, end: &str, width: Option<usize>) -> String {
    let room = width.map(|width| width.saturating_sub(columns(end) + 2).max(10));
    format!("{}  {end}", fitted(text, room))
}

/// A bar of so many columns: what is full of the whole, and what is set aside of it.
pub fn bar(full: u64, aside: u64, whole: u64, width: usize) -> String {
    let cells = |amount: u64| {
        let share = u128::from(amount.min(whole)) * width as u128 / u128::from(whole.max(1));
        // Something is never shown as nothing.
        usize::try_from(share).unwrap_or(width).max(usize::from(amount > 0)).min(width)
    };
    let full = cells(full);
    let aside = cells(aside).min(width - full);
    let rest = width - full - aside;
    format!("{}{}{}", "█".repeat(full), paint(QUIET, "▒".repeat(aside)), paint(QUIET, "░".repeat(rest)))
}

/// A text with spaces behind it, up to a width.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// What is between the entries of a row.
pub const DOT: &str = " · ";

/// A text whose lines are at most `width` wide, each but the first indented. A word that is wider
/// stays whole, and no line begins with a dot.
pub fn wrapped(text: &str, first: usize, indent: usize, width: usize) -> String {
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
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_cannot_speak_to_the_terminal() {
        assert_eq!(lines("one\n  |\n\u{1b}two\n"), "one\n    |\n  \u{fffd}two");
        assert_eq!(one_line(" one\n\n\ttwo\u{1b}\r\n"), "one two\u{fffd}");
        assert_eq!(safe("a\u{1b}[31mb\tc\u{202e}d"), "a\u{fffd}[31mb\tc\u{fffd}d");
        assert_eq!(safe("A → B"), "A → B");
        assert_eq!(safe("one\r\ntwo\nthree\rx"), "one two three\u{fffd}x");
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
    fn lines_are_cut_to_the_terminal() {
        assert_eq!(fitted("abcdef", None), "abcdef");
        assert_eq!(fitted("abcdef", Some(6)), "abcdef");
        assert_eq!(strip_str(&fitted("abcdef", Some(5))).to_string(), "abcd…");
        let painted = format!("ab{}", paint(ERROR, "cdef"));
        let cut = fitted(&painted, Some(4));
        assert_eq!(strip_str(&cut).to_string(), "abc…");
        assert!(cut.ends_with("\u{1b}[0m"), "{cut:?}");
        assert_eq!(strip_str(&fitted("日本語日本語", Some(6))).to_string(), "日本…");
        assert_eq!(
            strip_str(&fitted_before("a long text", "(tail)", Some(18))).to_string(),
            "a long te…  (tail)"
        );
        for width in 1..9 {
            assert!(columns(&fitted("x日y本z語", Some(width))) <= width.max(1), "{width}");
        }
    }

    #[test]
    fn bars_show_shares() {
        let plain = |full, aside, whole| strip_str(&bar(full, aside, whole, 8)).to_string();
        assert_eq!(plain(0, 0, 10), "░░░░░░░░");
        assert_eq!(plain(1, 0, 1000), "█░░░░░░░");
        assert_eq!(plain(5, 5, 10), "████▒▒▒▒");
        assert_eq!(plain(99, 99, 10), "████████");
        assert_eq!(plain(1, 0, 0), "█░░░░░░░");
    }

    #[test]
    fn counts_agree() {
        assert_eq!((count(1, "edge"), count(0, "edge")), ("1 edge".into(), "0 edges".into()));
    }
}
