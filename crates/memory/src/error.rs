//! What can go wrong with a memory, said so that a person knows what to do.

use std::fmt;

/// Why something was not done. Nothing is half-written: the engine's transaction is rolled back.
#[derive(Debug)]
pub enum Error {
    /// The database did not do what it should.
    Database(rusqlite::Error),
    /// Something that came in is not what it must be.
    Refused {
        /// Where in the JSON that came in, such as `failures[3].cost`; empty for the whole.
        path: String,
        /// The mistake, in words.
        what: String,
        /// How the person who wrote it can correct it.
        hint: &'static str,
    },
    /// The stored vectors are of another embedder.
    OtherEmbedder {
        /// Of which the vectors are.
        stored: String,
        /// The embedder in use.
        current: String,
    },
    /// A stored lesson cannot be read.
    Damaged {
        /// The number of its row.
        id: i64,
        /// The reason, in words.
        what: String,
    },
}

impl Error {
    pub(crate) fn refuse(path: impl Into<String>, what: impl Into<String>, hint: &'static str) -> Error {
        Error::Refused { path: path.into(), what: what.into(), hint }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Error::Database(_) => "run \"ftl doctor\" to look at the store",
            Error::Refused { hint, .. } => hint,
            Error::OtherEmbedder { .. } => "embed the memory again with the embedder in use",
            Error::Damaged { .. } => "run \"ftl doctor --deep\"; an export leaves nothing out silently",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Database(error) => write!(out, "the memory's database: {error}"),
            Error::Refused { path, what, .. } if path.is_empty() => out.write_str(what),
            Error::Refused { path, what, .. } => write!(out, "{path}: {what}"),
            Error::OtherEmbedder { stored, current } => {
                write!(out, "the memory was embedded by {stored}, and {current} is in use")
            }
            Error::Damaged { id, what } => write!(out, "lesson {id} cannot be read: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Database(error) => Some(error),
            Error::Refused { .. } | Error::OtherEmbedder { .. } | Error::Damaged { .. } => None,
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Database(error)
    }
}
