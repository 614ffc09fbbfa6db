//! Tokens of one line of program.
//!
//! Every byte of a line becomes a token, white space, or a problem; no line can make this loop
//! or panic. Text in quotes is kept raw here and taken apart by the parser.

use crate::problem::Problem;
use crate::source::{SourceLine, Span};
use ftl_core::value::Number;

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A verb, a name or a bare word.
    Word(String),
    /// A number.
    Number(Number),
    /// A number with a unit of time, in seconds.
    Duration(Number),
    /// Text in quotes: the raw bytes between them.
    Text(String),
    /// A sign.
    Sign(Punctuation),
}

/// The signs of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Punctuation {
    Arrow,
    Colon,
    Comma,
    Dash,
    Dot,
    Equal,
    Same,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Pipe,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
}

impl Punctuation {
    /// How the sign is written.
    pub const fn text(self) -> &'static str {
        match self {
            Punctuation::Arrow => "→",
            Punctuation::Colon => ":",
            Punctuation::Comma => ",",
            Punctuation::Dash => "-",
            Punctuation::Dot => ".",
            Punctuation::Equal => "=",
            Punctuation::Same => "==",
            Punctuation::Different => "!=",
            Punctuation::Less => "<",
            Punctuation::AtMost => "<=",
            Punctuation::Greater => ">",
            Punctuation::AtLeast => ">=",
            Punctuation::Pipe => "|",
            Punctuation::OpenBrace => "{",
            Punctuation::CloseBrace => "}",
            Punctuation::OpenParen => "(",
            Punctuation::CloseParen => ")",
        }
    }
}

/// Longer signs first, so that `==` is not read as two `=`.
const SIGNS: &[(&str, Punctuation)] = &[
    ("→", Punctuation::Arrow),
    ("->", Punctuation::Arrow),
    ("==", Punctuation::Same),
    ("!=", Punctuation::Different),
    ("<=", Punctuation::AtMost),
    (">=", Punctuation::AtLeast),
    ("<", Punctuation::Less),
    (">", Punctuation::Greater),
    ("=", Punctuation::Equal),
    (":", Punctuation::Colon),
    (",", Punctuation::Comma),
    (".", Punctuation::Dot),
    ("|", Punctuation::Pipe),
    ("{", Punctuation::OpenBrace),
    ("}", Punctuation::CloseBrace),
    ("(", Punctuation::OpenParen),
    (")", Punctuation::CloseParen),
    ("-", Punctuation::Dash),
];

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The token.
    pub token: Token,
    /// The bytes of the token in its source.
    pub span: Span,
}

/// Reads the tokens of a piece of text that begins at a byte of a source.
pub fn read(file: u32, line: SourceLine<'_>, problems: &mut Vec<Problem>) -> Vec<Placed> {
    let mut reader = Reader { file, line, at: 0 };
    let mut tokens = Vec::new();
    while let Some(one) = reader.rest().chars().next() {
        if one == '#' {
            break;
        }
        if one.is_whitespace() {
            reader.at += one.len_utf8();
            continue;
        }
        let start = reader.at;
        match reader.token(one) {
            Ok(token) => tokens.push(token),
            Err(problem) => {
                problems.push(problem);
                reader.at = reader.at.max(start + one.len_utf8());
            }
        }
    }
    tokens
}

struct Reader<'a> {
    file: u32,
    line: SourceLine<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.line.text[self.at..]
    }

    fn span(&self, start: usize, end: usize) -> Span {
        let base = self.line.start;
        Span { file: self.file, start: (base + start) as u32, end: (base + end) as u32 }
    }

    fn token(&mut self, first: char) -> Result<Placed, Problem> {
        let start = self.at;
        let token = if first == '"' {
            self.text()?
        } else if first.is_ascii_digit() || (first == '-' && self.digit_at(1)) {
            self.number()?
        } else if first.is_alphabetic() || first == '_' {
            self.word()
        } else {
            self.sign(first)?
        };
        Ok(Placed { token, span: self.span(start, self.at) })
    }

    fn digit_at(&self, offset: usize) -> bool {
        self.rest().as_bytes().get(offset).is_some_and(u8::is_ascii_digit)
    }

    /// A dash belongs to a word only between two of its letters, so that `a->b` is an arrow.
    fn word(&mut self) -> Token {
        let rest = self.rest();
        let mut end = 0;
        for (index, one) in rest.char_indices() {
            let joins = one == '-' && rest[index + 1..].starts_with(|next: char| next.is_alphanumeric());
            if !(one.is_alphanumeric() || one == '_' || joins) {
                break;
            }
            end = index + one.len_utf8();
        }
        self.at += end;
        Token::Word(rest[..end].to_owned())
    }

    fn number(&mut self) -> Result<Token, Problem> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with('-'));
        let mut end = sign + rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let bytes = rest.as_bytes();
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end += 1 + rest[end + 1..].bytes().take_while(u8::is_ascii_digit).count();
        }
        let unit_end = end + rest[end..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (digits, unit) = (&rest[..end], &rest[end..unit_end]);
        let span = self.span(self.at, self.at + unit_end);
        self.at += unit_end;
        let number = Number::parse(digits).ok_or_else(|| {
            Problem::error("bad-number", span, format!("`{digits}` is not a number that can be kept"))
                .hint("a number has at most three decimals")
        })?;
        let per_unit = match unit {
            "" => return Ok(Token::Number(number)),
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            other => {
                return Err(Problem::error("bad-number", span, format!("`{other}` is no unit of time"))
                    .hint("durations are written 500ms, 300s, 5m, 2h or 1d"));
            }
        };
        let seconds = i128::from(number.in_thousandths()) * per_unit / 1000;
        let seconds = i64::try_from(seconds)
            .map_err(|_| Problem::error("bad-number", span, "this duration is too long to be kept"))?;
        Ok(Token::Duration(Number::thousandths(seconds)))
    }

    fn text(&mut self) -> Result<Token, Problem> {
        let rest = self.rest();
        let mut escaped = false;
        for (index, one) in rest.char_indices().skip(1) {
            if one == '"' && !escaped {
                self.at += index + 1;
                return Ok(Token::Text(rest[1..index].to_owned()));
            }
            escaped = one == '\\' && !escaped;
        }
        let span = self.span(self.at, self.line.text.len());
        self.at = self.line.text.len();
        Err(Problem::error("open-text", span, "this text is not closed")
            .hint("end it with `\"` on the same line"))
    }

    fn sign(&mut self, first: char) -> Result<Token, Problem> {
        for (text, sign) in SIGNS {
            if self.rest().starts_with(text) {
                self.at += text.len();
                return Ok(Token::Sign(*sign));
            }
        }
        let span = self.span(self.at, self.at + first.len_utf8());
        let problem =
            Problem::error("bad-character", span, format!("`{}` means nothing here", first.escape_debug()));
        Err(if first == '\'' { problem.hint("text stands in double quotes") } else { problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> (Vec<Token>, usize) {
        let mut problems = Vec::new();
        let tokens = read(0, SourceLine { start: 0, text }, &mut problems);
        (tokens.into_iter().map(|placed| placed.token).collect(), problems.len())
    }

    #[test]
    fn signs_words_and_numbers() {
        let (tokens, problems) = words("IF: a.b >= 0.6 -> GOTO branch-only # rest");
        assert_eq!(problems, 0);
        assert_eq!(tokens.len(), 10);
        assert_eq!(tokens[6], Token::Number(Number::thousandths(600)));
        assert_eq!(tokens[7], Token::Sign(Punctuation::Arrow));
        assert_eq!(tokens[9], Token::Word("branch-only".into()));
        assert_eq!(words("5m 300s").0, vec![Token::Duration(Number::whole(300)); 2]);
        assert_eq!(words("a->b").0.len(), 3);
    }

    #[test]
    fn what_means_nothing_is_said_once() {
        assert_eq!(words("\"open"), (vec![], 1));
        assert_eq!(words("a ; b").1, 1);
        assert_eq!(words("5x 1.2345 'a'").1, 4);
        assert_eq!(words("\"a \\\" # b\"").0, vec![Token::Text("a \\\" # b".into())]);
    }
}
