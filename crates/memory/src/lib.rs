//! The lessons: what went wrong and how it was mended, what worked; recalled, learned, related, pruned.
//!
//! It works on a connection that the engine hands in and never opens, locks or migrates a file itself.
//! It has no clock and prints nothing: the time is an argument, and warnings are values. The engine runs
//! [`schema::CREATE`] in a migration, calls what writes inside its own transaction, and looks at
//! everything through [`Lessons`].

pub mod benchmark;
pub mod effect;
pub mod embed;
pub mod error;
pub mod error_match;
pub mod evidence;
mod expression;
mod fit;
pub mod history;
pub mod import_export;
pub mod learn;
pub mod lesson;
mod lessons;
mod line;
pub mod maintenance;
mod question;
mod rarity;
pub mod recall;
pub mod relate;
pub mod scan;
pub mod schema;
pub mod scoring;
mod search;
pub mod similar;
mod terms;
pub mod text;
pub mod time;
mod vectors;

pub use error::Error;
pub use fit::SearchMode;
pub use lesson::{Lesson, StoredKind};
pub use lessons::{Lessons, Quarantined};
pub use time::Now;
