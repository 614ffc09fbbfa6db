//! Looks at text that enters the memory, because it quotes code and logs that are not trusted.
//!
//! Two things are looked for: secrets, and words that would steer an agent that reads them. What is
//! suspicious is told, never changed and never thrown away. Honest error messages must pass; the tables
//! in `tests/cases` hold both sides.

mod secrets;
mod steering;

use std::fmt;

/// So much of a text is looked at; a longer one is suspicious by its length.
pub const MAX_CHARS: usize = 100_000;

/// Why a text is kept away from agents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// A key, token or password.
    Secret(&'static str),
    /// Something said to the agent rather than about the work.
    Steering(&'static str),
    /// Letters that a person does not see.
    Invisible,
    /// It is longer than what is looked at.
    TooLong,
    /// It came from inside an agent's process tree, and no person or gate has looked at it.
    FromAgent,
}

impl fmt::Display for Suspicion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suspicion::Secret(what) => write!(out, "secret: {what}"),
            Suspicion::Steering(what) => write!(out, "steering: {what}"),
            Suspicion::Invisible => out.write_str("invisible characters"),
            Suspicion::TooLong => write!(out, "longer than {MAX_CHARS} characters"),
            Suspicion::FromAgent => out.write_str("from inside an agent's process tree"),
        }
    }
}

/// Everything that is suspicious about a text; empty for an honest one. It never quotes the text.
pub fn scan(text: &str) -> Vec<Suspicion> {
    let clipped = crate::text::clip(text, MAX_CHARS);
    let mut found = Vec::new();
    found.extend(secrets::find(clipped).into_iter().map(Suspicion::Secret));
    found.extend(steering::find(clipped).into_iter().map(Suspicion::Steering));
    if clipped.chars().any(is_invisible) {
        found.push(Suspicion::Invisible);
    }
    if clipped.len() < text.len() {
        found.push(Suspicion::TooLong);
    }
    found.sort();
    found.dedup();
    found
}

/// Zero width, direction and tag characters, and controls beyond white space and the escape of colours.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}'
        | '\u{feff}' | '\u{00ad}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}' | '\u{fff9}'..='\u{fffb}')
        || (letter.is_control() && !"\n\r\t\u{c}\u{1b}".contains(letter))
}
