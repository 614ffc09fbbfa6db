//! The concerns that reviewers speak for, as the file of reviewers names them.

use std::fmt;

use serde::Serialize;

/// How many concerns may be reviewed, each by a session of its own.
pub const MAX_CONCERNS: usize = 16;

/// How long the name of a concern may be.
const MAX_CONCERN_LETTERS: usize = 64;

/// A concern: what one reviewer of a task speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Concern {
    /// Its name, such as `risk`.
    pub name: String,
    /// What the reviewer asks itself; empty where the file does not say.
    pub about: String,
}

/// What is wrong with a concern, by the line that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConcernError {
    /// Its name is missing, long, or holds more than words.
    Name(usize, String),
    /// Another one has the same name in artifacts.
    Twice(usize, String),
    /// There are too many.
    TooMany(usize, String),
}

impl fmt::Display for ConcernError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ConcernError::Name(line, name)
        | ConcernError::Twice(line, name)
        | ConcernError::TooMany(line, name)) = self;
        write!(out, "line {line}: the concern `{name}` ")?;
        match self {
            ConcernError::Name(..) => out.write_str("is not called by a few plain words"),
            ConcernError::Twice(..) => out.write_str("is there twice"),
            ConcernError::TooMany(..) => write!(out, "is one too many: {MAX_CONCERNS} is the most"),
        }
    }
}

impl std::error::Error for ConcernError {}

/// The concerns of a file, each behind a line `<!-- concern: NAME -->` with what it asks below, and the rest of the text.
/// Their lines are left empty there, so that the others keep their numbers.
pub(super) fn concerns(text: &str) -> Result<(Vec<Concern>, String), ConcernError> {
    let (mut found, mut rest): (Vec<Concern>, String) = (Vec::new(), String::new());
    let mut is_concern = false;
    for (at, line) in text.lines().enumerate() {
        if let Some(name) = mark(line, "concern") {
            let (line, own) = (at + 1, name.to_owned());
            let is_plain = |one: char| one.is_alphanumeric() || " -_".contains(one);
            if name.is_empty() || name.len() > MAX_CONCERN_LETTERS || !name.chars().all(is_plain) {
                return Err(ConcernError::Name(line, own));
            }
            if found.iter().any(|one| id_of(&one.name) == id_of(name)) {
                return Err(ConcernError::Twice(line, own));
            }
            if found.len() == MAX_CONCERNS {
                return Err(ConcernError::TooMany(line, own));
            }
            found.push(Concern { name: own, about: String::new() });
            is_concern = true;
        } else if mark(line, "part").is_some() {
            is_concern = false;
        }
        match found.last_mut().filter(|_| is_concern) {
            None => rest.push_str(line),
            Some(concern) if mark(line, "concern").is_none() && !line.trim().is_empty() => {
                let between = if concern.about.is_empty() { "" } else { " " };
                concern.about.push_str(&format!("{between}{}", line.trim()));
            }
            Some(_) => {}
        }
        rest.push('\n');
    }
    Ok((found, rest))
}

/// The name by which an artifact tells reviewers apart.
fn id_of(name: &str) -> String {
    name.replace(' ', "-")
}

/// What a line `<!-- WORD: … -->` says.
pub(super) fn mark<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let inner = line.trim().strip_prefix("<!-- ")?.strip_prefix(word)?.strip_prefix(':')?;
    inner.strip_suffix("-->").map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompts::{Prompts, REVIEWERS};

    #[test]
    fn concerns_are_named_in_the_file_of_reviewers() {
        const REST: &str =
            "<!-- part: task -->\n{{inputs}} {{answer}}\n<!-- part: feedback -->\n{{feedback}}\n";
        let with = |text: String| Prompts::with([(String::from(REVIEWERS), text)]);
        let names = |prompts: &Prompts| {
            prompts.concerns().iter().map(|one| format!("{}: {}", one.name, one.about)).collect::<Vec<_>>()
        };
        let built_in = names(&Prompts::built_in().unwrap());
        assert_eq!(built_in.len(), 5);
        assert_eq!(names(&with(REST.to_owned()).unwrap()), built_in, "a file without any leaves them");
        let own =
            with(format!("<!-- concern: cost -->\nIs it cheap?\n And how?\n\n<!-- concern: law -->\n{REST}"));
        assert_eq!(names(&own.unwrap()), ["cost: Is it cheap? And how?", "law: "]);
        let many = |count: usize| {
            (0..count).fold(String::new(), |text, one| text + &format!("<!-- concern: c{one} -->\n")) + REST
        };
        assert_eq!(with(many(MAX_CONCERNS)).unwrap().concerns().len(), MAX_CONCERNS);
        let table = [
            (many(MAX_CONCERNS + 1), "line 17: the concern `c16` is one too many: 16 is the most"),
            (
                "<!-- concern: a b -->\n<!-- concern: a-b -->\n".to_owned(),
                "line 2: the concern `a-b` is there twice",
            ),
            ("<!-- concern: -->\n".to_owned(), "line 1: the concern `` is not called by a few plain words"),
            (
                "<!-- concern: a/b -->\n".to_owned(),
                "line 1: the concern `a/b` is not called by a few plain words",
            ),
            (
                format!("<!-- concern: {} -->\n", "x".repeat(MAX_CONCERN_LETTERS + 1)),
                "is not called by a few plain words",
            ),
            (format!("<!-- concern: a -->\n\n<!-- part: tsk -->\n{REST}"), "line 3: there is no part `tsk`"),
        ];
        for (text, wanted) in table {
            let found = with(text).unwrap_err().to_string();
            assert!(found.starts_with("prompt reviewers.md: ") && found.contains(wanted), "{found}");
        }
        let elsewhere = Prompts::with([(String::from("coder"), format!("<!-- concern: a -->\n{REST}"))]);
        assert_eq!(elsewhere.unwrap_err().to_string(), "prompt coder.md: line 1: text before the first part");
    }
}
