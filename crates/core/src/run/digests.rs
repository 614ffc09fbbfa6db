//! Digests of parameters: how an entry names what was asked without saying it again.
//!
//! A digest is that of the parameters' JSON, and of nothing else. Every task of a campaign is asked with the whole
//! plan; what the last large value has come to is remembered, so that a thousand tasks do not read it a thousand
//! times. It must never change what a digest is.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::value::{Fields, Name, Value};

/// A value of fewer bytes is read again as quickly as it is remembered.
const LARGE_BYTES: usize = 16 * 1024;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Makes digests, and remembers the last large value.
#[derive(Debug, Default)]
pub(super) struct Digests(Mutex<Option<Large>>);

/// A large value that came first: the bytes before it, and how far the digest is behind it. The value is held, so
/// that no other can take its place in memory.
#[derive(Debug)]
struct Large {
    before: Vec<u8>,
    value: Value,
    hash: Sha256,
}

impl Clone for Digests {
    /// Nothing depends on what is remembered.
    fn clone(&self) -> Digests {
        Digests::default()
    }
}

impl Digests {
    /// The digest of parameters, as short as is safe.
    pub(super) fn of(&self, params: &Fields) -> Name {
        short(&self.hashed(params).unwrap_or_else(|_| Sha256::new()).finalize())
    }

    fn hashed(&self, params: &Fields) -> serde_json::Result<Sha256> {
        let (mut hash, mut text, mut is_begun) = (Sha256::new(), Vec::with_capacity(256), false);
        text.push(b'{');
        for (at, (name, value)) in params.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, name)?;
            text.push(b':');
            if is_begun {
                serde_json::to_writer(&mut text, value)?;
            } else if let Some(known) = self.look_up(&text, value) {
                (hash, is_begun) = (known, true);
                text.clear();
            } else {
                let from = text.len();
                serde_json::to_writer(&mut text, value)?;
                if text.len() - from >= LARGE_BYTES {
                    hash.update(&text);
                    self.remember(&text[..from], value, &hash);
                    is_begun = true;
                    text.clear();
                }
            }
        }
        text.push(b'}');
        hash.update(&text);
        Ok(hash)
    }

    fn look_up(&self, before: &[u8], value: &Value) -> Option<Sha256> {
        let large = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let large = large.as_ref()?;
        (is_same(&large.value, value) && large.before == before).then(|| large.hash.clone())
    }

    fn remember(&self, before: &[u8], value: &Value, hash: &Sha256) {
        let large = Large { before: before.to_vec(), value: value.clone(), hash: hash.clone() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(large);
    }
}

/// Whether two values are one and the same in memory.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Arc::ptr_eq(left, right),
        (Value::List(left), Value::List(right)) => Arc::ptr_eq(left, right),
        (Value::Record(left), Value::Record(right)) => Arc::ptr_eq(left, right),
        (
            Value::None
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Record(_),
            _,
        ) => false,
    }
}

fn short(hash: &[u8]) -> Name {
    let mut hex = [0u8; 32];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(hash) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    Name::from(std::str::from_utf8(&hex).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest as it is defined.
    fn plain(params: &Fields) -> Name {
        short(&Sha256::digest(serde_json::to_vec(params).unwrap()))
    }

    #[test]
    fn a_digest_is_that_of_the_json_whatever_is_remembered() {
        let large = |letter: &str| Value::text(letter.repeat(LARGE_BYTES).as_str());
        let list = |value: &Value| Value::List(Arc::new(vec![value.clone(), Value::None]));
        let record =
            |value: &Value| Value::Record(Arc::new(Fields::from([(Name::from("é\""), value.clone())])));
        let (a, b) = (large("a"), large("b"));
        let (lists, records) = ([list(&a), list(&b)], [record(&a), record(&b)]);
        let small =
            [Value::None, Value::Bool(true), Value::text("\u{1f600} \"x\"\n"), Value::List(Arc::default())];
        let all: Vec<&Value> = [&a, &b].into_iter().chain(&lists).chain(&records).chain(&small).collect();
        let digests = Digests::default();
        for names in [["plan", "task", "zero"], ["a", "plan", "task"], ["a\"", "b", "\u{e9}"]] {
            for first in &all {
                for second in &all {
                    let values = [(*first).clone(), (*second).clone(), Value::text("001")];
                    let params: Fields = names.map(Name::from).into_iter().zip(values).collect();
                    for _ in 0..2 {
                        assert_eq!(digests.of(&params), plain(&params));
                    }
                }
            }
        }
        assert_eq!(digests.of(&Fields::new()), plain(&Fields::new()));
        // An equal value elsewhere in memory is equal, and another one is not.
        let with = |value: &Value| Fields::from([(Name::from("plan"), value.clone())]);
        assert_eq!(digests.of(&with(&large("a"))), digests.of(&with(&a)));
        assert_ne!(digests.of(&with(&b)), digests.of(&with(&a)));
        assert!(digests.look_up(b"{\"plan\":", &a).is_some() && digests.look_up(b"{\"plan\":", &b).is_none());
    }
}
