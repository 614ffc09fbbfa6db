//! Templates of commit messages: what they may name.

use std::fmt;

/// What a template may name in braces.
pub const PLACEHOLDERS: [&str; 7] = ["subject", "body", "objective", "task", "run", "agent", "model"];

/// A template of commit messages that names only what is filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageTemplate(String);

/// A name in braces that is none of `PLACEHOLDERS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlaceholder(String);

impl fmt::Display for UnknownPlaceholder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "nobody fills in `{{{}}}`", self.0)
    }
}

impl std::error::Error for UnknownPlaceholder {}

impl MessageTemplate {
    /// Reads a template; an empty one is no template.
    pub fn parse(text: &str) -> Result<MessageTemplate, UnknownPlaceholder> {
        let mut named = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
        match named.find(|(name, _)| !PLACEHOLDERS.contains(name)) {
            Some((name, _)) => Err(UnknownPlaceholder(name.to_owned())),
            None => Ok(MessageTemplate(text.to_owned())),
        }
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_fills_in_is_unknown() {
        assert_eq!(MessageTemplate::parse("{subject} {x} {run}"), Err(UnknownPlaceholder(String::from("x"))));
        assert_eq!(MessageTemplate::parse("{subject} {run}").unwrap().as_str(), "{subject} {run}");
    }
}
