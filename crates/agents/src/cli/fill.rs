//! Templates of an adapter: `{{name}}` is filled in with what a session knows.
//!
//! A name without a value is an error when the adapter is read, not when an agent is started. In a file
//! the values are written as JSON and TOML write text, so that none of them can end the text it stands in.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;

/// What is filled in, by its name.
pub type ArgumentValues = BTreeMap<String, String>;

/// What a session always knows, or knows in the groups of words where it is named.
pub(super) const NAMES: [&str; 15] = [
    "model",
    "system",
    "folder",
    "home",
    "scratch",
    "session",
    "schema",
    "schema_file",
    "mcp_file",
    "mcp_program",
    "mcp_args",
    "mcp_command",
    "mcp_window",
    "mcp_line",
    "room",
];

/// What begins the name of something out of the settings.
pub(super) const SETTING: &str = "setting.";

/// A text with places to be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentTemplate(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place(String),
}

impl ArgumentTemplate {
    /// Reads a template; a name that there is not is an error.
    pub fn parse(text: &str) -> Result<ArgumentTemplate, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, behind) =
                after.split_once("}}").ok_or_else(|| TemplateError::Open(text.to_owned()))?;
            let name = name.trim();
            if !NAMES.contains(&name) && name.strip_prefix(SETTING).is_none_or(str::is_empty) {
                return Err(TemplateError::UnknownName(name.to_owned()));
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Place(name.to_owned()));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(ArgumentTemplate(pieces))
    }

    /// The names of its places.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Place(name) => Some(name.as_str()),
        })
    }

    /// The text with all places filled in as they are; an error names what is missing.
    pub fn filled(&self, filling: &ArgumentValues) -> Result<String, TemplateError> {
        self.with(filling, str::to_owned)
    }

    /// The same, with values as they stand inside of a quoted text.
    pub fn filled_quoted(&self, filling: &ArgumentValues) -> Result<String, TemplateError> {
        let quoted = |value: &str| {
            let text = Json::from(value).to_string();
            text.get(1..text.len() - 1).unwrap_or_default().to_owned()
        };
        self.with(filling, quoted)
    }

    fn with(&self, filling: &ArgumentValues, put: impl Fn(&str) -> String) -> Result<String, TemplateError> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                // Lists are JSON already.
                Piece::Place(name) if ["mcp_args", "mcp_command", "schema"].contains(&name.as_str()) => {
                    text.push_str(filling.get(name).ok_or_else(|| missing(name))?);
                }
                Piece::Place(name) => text.push_str(&put(filling.get(name).ok_or_else(|| missing(name))?)),
            }
        }
        Ok(text)
    }
}

fn missing(name: &str) -> TemplateError {
    TemplateError::Missing(name.to_owned())
}

/// What is wrong with a template, or with what fills it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A place in this text is never closed.
    Open(String),
    /// Nothing is called that.
    UnknownName(String),
    /// This is not known where it is filled in.
    Missing(String),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::Open(text) => write!(out, "`{text}`: a `{{{{` is never closed"),
            TemplateError::UnknownName(name) => {
                let known = NAMES.join(", ");
                write!(out, "nothing is called `{name}` here; there is {known}, and {SETTING}NAME")
            }
            TemplateError::Missing(name) => match name.strip_prefix(SETTING) {
                Some(setting) => write!(out, "the adapter wants a setting `{setting}`, and there is none"),
                None if name == "model" => out.write_str("the adapter wants a model; set `model`"),
                None => write!(out, "`{name}` is not known here"),
            },
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in_and_none_can_end_the_text() {
        let filling =
            ArgumentValues::from([("model".into(), "a\"b\n".into()), ("setting.url".into(), "u".into())]);
        let template = ArgumentTemplate::parse("x = \"{{model}}\", {{ setting.url }}{").unwrap();
        assert_eq!(template.filled(&filling).unwrap(), "x = \"a\"b\n\", u{");
        assert_eq!(template.filled_quoted(&filling).unwrap(), "x = \"a\\\"b\\n\", u{");
        assert_eq!(template.places().collect::<Vec<_>>(), ["model", "setting.url"]);
    }

    #[test]
    fn a_name_that_nobody_knows_is_an_error() {
        for (text, wanted) in [
            ("{{modell}}", "nothing is called `modell`"),
            ("{{setting.}}", "nothing is called `setting.`"),
            ("{{model", "never closed"),
        ] {
            assert!(ArgumentTemplate::parse(text).unwrap_err().to_string().contains(wanted), "{text}");
        }
        let template = ArgumentTemplate::parse("{{setting.url}}").unwrap();
        assert!(template.filled(&ArgumentValues::new()).unwrap_err().to_string().contains("a setting `url`"));
    }
}
