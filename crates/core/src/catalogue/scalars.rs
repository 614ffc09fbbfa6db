//! Plain values that have a type of their own in the language: digests, durations, dependencies.
//!
//! They read and write as ordinary JSON. None of them computes anything: a digest is made where
//! the thing was seen, a duration where the clock is.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::types::{Type, Typed};
use crate::value::Value;

/// The digest of something that was seen: a tree, a patch, a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// A digest as it was computed or read.
    pub fn new(text: impl Into<String>) -> Digest {
        Digest(text.into())
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Typed for Digest {
    fn ty() -> Type {
        Type::Digest
    }
}

/// A number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl Typed for Seconds {
    fn ty() -> Type {
        Type::Duration
    }
}

/// The tasks that another one waits for, by seq.
///
/// Plans spell it in four ways (`"none"`, one seq, a list, nothing at all); all are read, and a
/// list is written, so that no reader below handles the other spellings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Depends(pub Vec<String>);

impl<'de> Deserialize<'de> for Depends {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Depends, D::Error> {
        let found = Value::deserialize(from)?;
        match &found {
            Value::None => Ok(Depends::default()),
            Value::Text(_) | Value::Number(_) => Ok(Depends(seq_of(&found).into_iter().collect())),
            Value::List(items) => Ok(Depends(items.iter().filter_map(seq_of).collect())),
            Value::Bool(_) | Value::Record(_) => {
                Err(serde::de::Error::custom("depends: expected \"none\", a seq or a list of seqs"))
            }
        }
    }
}

impl Typed for Depends {
    fn ty() -> Type {
        Type::list(Type::Text)
    }
}

fn seq_of(value: &Value) -> Option<String> {
    let text = value.to_string();
    (!value.is_empty() && text != "none").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_depends_reads_as_a_list() {
        let cases = [
            (r#""none""#, r"[]"),
            ("null", r"[]"),
            (r#""""#, r"[]"),
            (r#""001""#, r#"["001"]"#),
            ("7", r#"["7"]"#),
            (r#"["001","none",null,"003"]"#, r#"["001","003"]"#),
        ];
        for (read, written) in cases {
            let depends: Depends = serde_json::from_str(read).unwrap();
            assert_eq!(serde_json::to_string(&depends).unwrap(), written, "{read}");
        }
        assert!(serde_json::from_str::<Depends>("{}").is_err());
    }

    #[test]
    fn digests_and_seconds_are_plain_json() {
        assert_eq!(serde_json::to_string(&Digest::new("9c1f")).unwrap(), r#""9c1f""#);
        assert_eq!(Value::whole(30).to::<Seconds>().unwrap(), Seconds(30.0));
        assert_eq!((Digest::ty(), Seconds::ty()), (Type::Digest, Type::Duration));
    }
}
