//! What every command of `ftl` stands on: its flags, what it opens, what it prints, how it fails and ends.
//!
//! A face that is a program of its own needs the same. It decides nothing, performs no command, and knows none by name.
//!
//! | module | what it holds |
//! |---|---|
//! | `args`, `page` | the flags of every command; what a help says beside options |
//! | `root`, `session` | the folder that is meant; its state, store, settings and person |
//! | `protocol_loader`, `records` | the protocol documents; campaigns, workspaces and lessons |
//! | `foreign` | what an agent may do that somebody else started |
//! | `trust` | which files of the repository a person trusts; asking, and recording |
//! | `input`, `out`, `queue` | what is read and printed; lines that wait for a slow reader |
//! | `known`, `document` | a run as this machine knows it; the same as a JSON document |
//! | `documents` | the documents of commands, for faces in this process |
//! | `follow`, `inbox` | runs that somebody looks at, each folded once and known at any entry; what waits for a person |
//! | `task_steps` | what happened to one task, out of the journal |
//! | `orders` | what a person says through a face |
//! | `failure`, `exit`, `limits`, `signals` | how a command fails and ends; what would end it in the middle |

mod args;
pub mod document;
pub mod documents;
mod exit;
mod failure;
pub mod follow;
pub mod foreign;
pub mod inbox;
pub mod input;
pub mod known;
pub mod limits;
pub mod orders;
pub mod out;
mod page;
pub mod protocol_loader;
mod queue;
pub mod records;
pub mod root;
pub mod session;
pub mod signals;
pub mod task_steps;
pub mod trust;

pub use args::{Fill, GlobalArgs, Group};
pub use exit::ExitStatus;
pub use failure::CommandError;
pub use out::Out;
pub use page::Page;
