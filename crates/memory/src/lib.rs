//! The lessons: what went wrong and how it was mended, what worked; recalled, learned, related, pruned.
//!
//! It works on a connection that the engine hands in and never opens, locks or migrates a file itself.
//! It has no clock and prints nothing: the time is an argument, and warnings are values. The engine runs
//! [`schema::CREATE`] in a migration, calls what writes inside its own transaction, and looks at
//! everything through [`Lessons`].

pub mod carry;
pub mod embed;
mod expression;
pub mod figures;
pub mod find;
pub mod learn;
pub mod lesson;
mod lessons;
mod line;
pub mod recall;
pub mod relate;
pub mod scan;
pub mod schema;
mod search;
pub mod similar;
pub mod tend;
pub mod text;
pub mod time;
pub mod trouble;
mod vectors;
pub mod worth;

pub use lesson::{Kind, Lesson};
pub use lessons::{Lessons, Quarantined};
pub use search::Way;
pub use time::Now;
pub use trouble::Trouble;
