//! Names of runs: short, random, and never mistaken for anything else.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters and digits that people do not confuse when they read them aloud.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

/// How long a run's name is.
pub const RUN_ID_LETTERS: usize = 8;

/// The name of a run: eight letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// A name out of random bytes.
    pub fn of(random: u64) -> RunId {
        let letter = |index: usize| LETTERS[(random >> (index * 5) & 31) as usize] as char;
        RunId((0..RUN_ID_LETTERS).map(letter).collect())
    }

    /// A new name, out of random bytes of the kernel.
    pub fn random() -> io::Result<RunId> {
        Ok(RunId::of(random()?))
    }

    /// The letters of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A text that is no name of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdError(String);

impl fmt::Display for RunIdError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is no name of a run", self.0)
    }
}

impl std::error::Error for RunIdError {}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<RunId, RunIdError> {
        let known = |byte: u8| LETTERS.contains(&byte);
        if text.len() == RUN_ID_LETTERS && text.bytes().all(known) {
            Ok(RunId(text.to_owned()))
        } else {
            Err(RunIdError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;

    fn try_from(text: String) -> Result<RunId, RunIdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}

/// Random bytes from the machine.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_eight_letters_and_read_back() {
        for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let id = RunId::of(random);
            assert_eq!(id.as_str().len(), RUN_ID_LETTERS);
            assert_eq!(id.as_str().parse(), Ok(id.clone()));
        }
        assert_ne!(RunId::random().ok(), RunId::random().ok());
        for text in ["", "abc", "ABCDEFGH", "abcdefgh1", "../../..", "abcdefgl"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
