//! The read model: journal entries folded into what faces show.
//!
//! The summary of a run, the board of a flow with its news and its report, entries as lines, causes in plain words.
//! Everything is made of entries, summaries and times that the caller hands in: this crate sees the core alone, and it
//! never prints, opens a file, or asks a clock. Texts carry their styles as terminals write them; a face without colours
//! strips them.
//!
//! | module | what it holds |
//! |---|---|
//! | `summary` | what a run looks like from outside: kept beside its journal |
//! | `runs` | that summary in words, and what a person can type |
//! | `model` | a run as every face shows it: tasks, time, money, places in a drawing |
//! | `needs`, `actions` | what waits for a person over all runs; what can be done about it |
//! | `notices` | what a person is told of when nobody looks |
//! | `board` | a flow or a story: tasks, steps, news, the report at the end |
//! | `keys` | the one table of keys |
//! | `fold`, `lines` | the entries that a person reads; an entry as one line |
//! | `cause` | why something ended or stands still, in plain words |
//! | `snapshot` | a board as bytes, to be read back |
//! | `paint`, `relative_time` | styles and the shape of text; times as people read them |

pub mod actions;
pub mod board;
pub mod cause;
pub mod fold;
pub mod keys;
pub mod lines;
pub mod model;
pub mod needs;
pub mod notices;
pub mod paint;
pub mod relative_time;
pub mod runs;
mod snapshot;
pub mod summary;
