//! What is wrong with a plan file: every error with its path, its message and what to do.
//!
//! The list is never empty and never without end: beyond a limit the rest is counted.

use std::fmt;

use ftl_core::json::{Json, JsonExt as _};

/// How many errors of one plan are told one by one.
pub const MAX_ERRORS: usize = 1000;

/// One thing that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Where it stands, such as `tasks[3].delta[0]`; empty for the whole file.
    pub path: String,
    /// The sentence for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl PlanError {
    /// `{path, message, hint}`.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("path", Json::from(self.path.as_str())),
            ("message", Json::from(self.message.as_str())),
            ("hint", Json::from(self.hint.as_str())),
        ])
    }
}

impl PlanError {
    /// It for people, in one line that names its place once: the message names the task a second time.
    pub fn line(&self) -> String {
        let message = match self.message.split_once(": ") {
            Some((task, message)) if task.starts_with("Task ") && !self.path.is_empty() => message,
            Some(_) | None => &self.message,
        };
        if self.path.is_empty() { message.to_owned() } else { format!("{}: {message}", self.path) }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => write!(out, "{}", self.message),
            false => write!(out, "{}: {}", self.path, self.message),
        }
    }
}

/// Everything that is wrong with a plan, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanErrors(Vec<PlanError>);

impl PlanErrors {
    pub(super) fn one(path: &str, message: impl Into<String>, hint: &str) -> PlanErrors {
        PlanErrors(vec![PlanError { path: path.to_owned(), message: message.into(), hint: hint.to_owned() }])
    }

    /// Every error, in the order of the plan.
    pub fn iter(&self) -> std::slice::Iter<'_, PlanError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a PlanErrors {
    type Item = &'a PlanError;
    type IntoIter = std::slice::Iter<'a, PlanError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for PlanErrors {
    /// One error a line, each with its hint.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            write!(out, "{gap}{error} (hint: {})", error.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}

/// Gathers errors while a plan is read.
#[derive(Debug, Default)]
pub(super) struct Found {
    errors: Vec<PlanError>,
    left_out: usize,
}

impl Found {
    pub(super) fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.is_full() {
            self.left_out += 1;
        } else {
            self.errors.push(PlanError { path: path.into(), message: message.into(), hint: hint.into() });
        }
    }

    /// Whether further errors are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// The value, unless something was wrong.
    pub(super) fn or<T>(mut self, value: T) -> Result<T, PlanErrors> {
        if self.left_out > 0 {
            let message = format!("{} more errors are not shown", self.left_out);
            self.errors.push(PlanError {
                path: String::new(),
                message,
                hint: "correct the first ones".to_owned(),
            });
        }
        if self.errors.is_empty() { Ok(value) } else { Err(PlanErrors(self.errors)) }
    }
}
