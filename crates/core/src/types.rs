//! Types: what the checker knows about a value before anything runs.
//!
//! Types are few and structural. Every value may also be `none`; that is a fact of a run, not of
//! a type, and a step that needs a value and finds `none` fails there. Nothing here evaluates.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::value::{MAX_DEPTH, Name, Value};

/// What kind of value something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Nothing is known yet, or only `none` was seen: fits everywhere.
    Unknown,
    /// Anything at all; has no fields that the checker knows.
    Any,
    /// Yes or no.
    Bool,
    /// A number with at most three decimals.
    Number,
    /// A number of seconds.
    Duration,
    /// Text.
    Text,
    /// The digest of something that was seen: a tree, a patch, a plan.
    Digest,
    /// One word of a closed set.
    Choice(Arc<Vec<Name>>),
    /// Values of one type in order.
    List(Arc<Type>),
    /// Named fields.
    Record(Arc<RecordType>),
}

/// The fields of a record type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordType {
    /// What people call it, for messages.
    pub name: Name,
    /// The fields, in the order of their names.
    pub fields: BTreeMap<Name, Field>,
    /// Whether values may carry fields that the type does not know.
    pub open: bool,
}

/// One field of a record type, or one parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The type of its value.
    pub ty: Type,
    /// Whether it must be there.
    pub required: bool,
    /// The meaning, in a sentence for people.
    pub about: &'static str,
}

impl Type {
    /// A closed set of words.
    pub fn choice<N: AsRef<str>>(words: impl IntoIterator<Item = N>) -> Type {
        let mut words: Vec<Name> = words.into_iter().map(|word| Name::from(word.as_ref())).collect();
        words.sort();
        words.dedup();
        Type::Choice(Arc::new(words))
    }

    /// A list of one type.
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(of))
    }

    /// A closed record, every field optional.
    pub fn record<N: AsRef<str>>(name: &str, fields: impl IntoIterator<Item = (N, Type)>) -> Type {
        let fields = fields
            .into_iter()
            .map(|(name, ty)| (Name::from(name.as_ref()), Field { ty, required: false, about: "" }))
            .collect();
        Type::Record(Arc::new(RecordType { name: Name::from(name), fields, open: false }))
    }

    /// A closed record, every field always there.
    pub fn full_record<N: AsRef<str>>(name: &str, fields: impl IntoIterator<Item = (N, Type)>) -> Type {
        fields.into_iter().fold(Type::record(name, [("", Type::Any); 0]), |record, (name, ty)| {
            record.with(name.as_ref(), ty)
        })
    }

    /// A record with one more field that is always there; everything else stays as it is.
    #[must_use]
    pub fn with(self, name: &str, ty: Type) -> Type {
        let Type::Record(record) = self else { return self };
        let mut record = (*record).clone();
        record.fields.insert(Name::from(name), Field { ty, required: true, about: "" });
        Type::Record(Arc::new(record))
    }

    /// Whether every value of this type has the field.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Type::Record(record) => record.fields.get(name).is_some_and(|field| field.required),
            Type::Unknown | Type::Any | Type::Bool | Type::Number | Type::Duration => false,
            Type::Text | Type::Digest | Type::Choice(_) | Type::List(_) => false,
        }
    }

    /// The type of a field; `None` when a value of this type has no such field.
    pub fn field(&self, name: &str) -> Option<Type> {
        match self {
            Type::Unknown => Some(Type::Unknown),
            Type::Any => Some(Type::Any),
            Type::Record(record) => match record.fields.get(name) {
                Some(field) => Some(field.ty.clone()),
                None if record.open => Some(Type::Any),
                None => None,
            },
            Type::Bool | Type::Number | Type::Duration | Type::Text | Type::Digest => None,
            Type::Choice(_) | Type::List(_) => None,
        }
    }

    /// The names of the fields that the type knows.
    pub fn field_names(&self) -> Vec<Name> {
        match self {
            Type::Record(record) => record.fields.keys().cloned().collect(),
            Type::Unknown | Type::Any | Type::Bool | Type::Number | Type::Duration => Vec::new(),
            Type::Text | Type::Digest | Type::Choice(_) | Type::List(_) => Vec::new(),
        }
    }

    /// The smallest type that holds the values of both.
    pub fn join(&self, other: &Type) -> Type {
        match (self, other) {
            (Type::Unknown, ty) | (ty, Type::Unknown) => ty.clone(),
            (one, two) if one == two => one.clone(),
            (Type::Choice(one), Type::Choice(two)) => Type::choice(one.iter().chain(two.iter())),
            (Type::Choice(_), Type::Text) | (Type::Text, Type::Choice(_)) => Type::Text,
            (Type::Digest, Type::Text) | (Type::Text, Type::Digest) => Type::Text,
            (Type::List(one), Type::List(two)) => Type::list(one.join(two)),
            (Type::Record(one), Type::Record(two)) => Type::Record(Arc::new(join_records(one, two))),
            (Type::Number, Type::Duration) | (Type::Duration, Type::Number) => Type::Number,
            _ => Type::Any,
        }
    }

    /// Whether a value of this type may stand where `wanted` is asked for.
    pub fn fits(&self, wanted: &Type) -> bool {
        match (self, wanted) {
            (Type::Unknown, _) | (_, Type::Any | Type::Unknown) => true,
            (one, two) if one == two => true,
            (Type::Choice(have), Type::Choice(want)) => have.iter().all(|word| want.contains(word)),
            (Type::Choice(_), Type::Text) => true,
            (Type::Number, Type::Duration) | (Type::Duration, Type::Number) => true,
            (Type::List(have), Type::List(want)) => have.fits(want),
            (Type::Record(have), Type::Record(want)) => record_fits(have, want),
            _ => false,
        }
    }

    /// Checks a value that came from outside; the error names the place and what is wrong.
    pub fn accept(&self, value: &Value) -> Result<(), TypeError> {
        if !value.is_shallow() {
            return Err(TypeError::Deep);
        }
        self.accept_at(value).map_err(|Misfit { path, message }| TypeError::Misfit { path, message })
    }

    fn accept_at(&self, value: &Value) -> Result<(), Misfit> {
        match (self, value) {
            (Type::Unknown | Type::Any, _) => Ok(()),
            (Type::Bool, Value::Bool(_)) => Ok(()),
            (Type::Number | Type::Duration, Value::Number(_)) => Ok(()),
            (Type::Text | Type::Digest, Value::Text(_)) => Ok(()),
            (Type::Choice(words), Value::Text(word)) if words.contains(word) => Ok(()),
            (Type::List(of), Value::List(items)) => {
                let mut places = items.iter().enumerate();
                places
                    .try_for_each(|(index, item)| of.accept_at(item).map_err(|misfit| misfit.at_index(index)))
            }
            (Type::Record(record), Value::Record(_)) => accept_record(record, value),
            (Type::Bool | Type::Number | Type::Duration | Type::Text | Type::Digest, _)
            | (Type::Choice(_) | Type::List(_) | Type::Record(_), _) => {
                Err(Misfit::new(format!("expected {self}, found {}", brief(value))))
            }
        }
    }
}

/// Why a value is not of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeError {
    /// It is nested too deep to be looked at.
    Deep,
    /// A part of it does not fit.
    Misfit {
        /// Where the part stands; empty for the value itself.
        path: String,
        /// What was expected, and what was found.
        message: String,
    },
}

impl fmt::Display for TypeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeError::Deep => write!(out, "nested more than {MAX_DEPTH} deep"),
            TypeError::Misfit { path, message } if path.is_empty() => write!(out, "the answer: {message}"),
            TypeError::Misfit { path, message } => write!(out, "{path}: {message}"),
        }
    }
}

impl std::error::Error for TypeError {}

/// What does not fit, and where; the path is put together only when something is wrong.
struct Misfit {
    path: String,
    message: String,
}

impl Misfit {
    fn new(message: String) -> Misfit {
        Misfit { path: String::new(), message }
    }

    fn at_index(mut self, index: usize) -> Misfit {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }

    fn at_field(mut self, name: &str) -> Misfit {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }
}

fn accept_record(record: &RecordType, value: &Value) -> Result<(), Misfit> {
    for (name, field) in &record.fields {
        let found = value.field(name);
        if !found.is_none() {
            field.ty.accept_at(found).map_err(|misfit| misfit.at_field(name))?;
        } else if field.required {
            return Err(Misfit::new("missing".to_owned()).at_field(name));
        }
    }
    Ok(())
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("`{short}…`") } else { format!("`{short}`") }
}

fn join_records(one: &RecordType, two: &RecordType) -> RecordType {
    let mut fields = one.fields.clone();
    for (name, field) in &two.fields {
        let joined = match fields.get(name) {
            Some(mine) => Field {
                ty: mine.ty.join(&field.ty),
                required: mine.required && field.required,
                about: mine.about,
            },
            None => Field { required: false, ..field.clone() },
        };
        fields.insert(name.clone(), joined);
    }
    let mut names: Vec<&str> = one.name.split(" or ").chain(two.name.split(" or ")).collect();
    names.sort_unstable();
    names.dedup();
    let name = Name::from(names.join(" or "));
    for (name, field) in fields.iter_mut() {
        field.required &= one.fields.contains_key(name) && two.fields.contains_key(name);
    }
    RecordType { name, fields, open: one.open || two.open }
}

fn record_fits(have: &RecordType, want: &RecordType) -> bool {
    want.fields.iter().all(|(name, field)| match have.fields.get(name) {
        Some(mine) => mine.ty.fits(&field.ty),
        None => have.open || !field.required,
    })
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Unknown => out.write_str("nothing yet"),
            Type::Any => out.write_str("anything"),
            Type::Bool => out.write_str("yes or no"),
            Type::Number => out.write_str("a number"),
            Type::Duration => out.write_str("a duration"),
            Type::Text => out.write_str("text"),
            Type::Digest => out.write_str("a digest"),
            Type::Choice(words) => write!(out, "one of {}", words.join("|")),
            Type::List(of) => write!(out, "a list of {of}"),
            Type::Record(record) => write!(out, "a record {}", record.name),
        }
    }
}

/// A Rust type that the language knows.
pub trait Typed {
    /// Its type in the language.
    fn ty() -> Type;
    /// Whether a field of this type must be there.
    fn required() -> bool {
        true
    }
}

macro_rules! plain {
    ($($rust:ty => $ty:expr),* $(,)?) => {
        $(impl Typed for $rust { fn ty() -> Type { $ty } })*
    };
}

plain! {
    bool => Type::Bool,
    u64 => Type::Number,
    i64 => Type::Number,
    f64 => Type::Number,
    String => Type::Text,
    Value => Type::Any,
}

impl<T: Typed> Typed for Option<T> {
    fn ty() -> Type {
        T::ty()
    }
    fn required() -> bool {
        false
    }
}

impl<T: Typed> Typed for Vec<T> {
    fn ty() -> Type {
        Type::list(T::ty())
    }
}

impl<T: Typed> Typed for Box<T> {
    fn ty() -> Type {
        T::ty()
    }
    fn required() -> bool {
        T::required()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_and_fit() {
        let approve = Type::choice(["APPROVE"]);
        let both = Type::choice(["APPROVE", "CHANGES"]);
        assert_eq!(approve.join(&Type::choice(["CHANGES"])), both);
        assert!(approve.fits(&both) && !both.fits(&approve));
        assert!(both.fits(&Type::Text) && !Type::Text.fits(&both));
        assert_eq!(Type::Text.join(&Type::list(Type::Text)), Type::Any);
        assert!(!Type::Text.fits(&Type::Digest));
        assert_eq!(Type::Unknown.join(&Type::Bool), Type::Bool);
    }

    #[test]
    fn an_answer_that_does_not_fit_says_where() {
        let ty = Type::record("Review", [("verdict", Type::choice(["APPROVE", "CHANGES"]))]);
        let answer = Value::record([("verdict", Value::text("MAYBE"))]);
        assert_eq!(
            ty.accept(&answer).unwrap_err().to_string(),
            "verdict: expected one of APPROVE|CHANGES, found `MAYBE`"
        );
        assert!(ty.accept(&Value::list([answer])).unwrap_err().to_string().contains("a record Review"));
    }
}
