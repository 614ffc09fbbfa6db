//! Notices to people: a bell, the desktop, a command, a webhook, ntfy.
//!
//! A thread beside a driver follows the journal of its run, puts what people want to hear of into an outbox in the store, and sends
//! from there. It is never on the way of a run: nobody waits for it but, for a moment, the end of the process. What could not be sent
//! stays in the outbox, and the next driver of the repository sends it: at least once, and each notice carries a key that stays the
//! same. It never answers for a person, and takes nothing in.
//!
//! | module | what it holds |
//! |---|---|
//! | `options` | what a person has chosen: which ways, which events, when |
//! | `outbox` | notices in the store, and what is still to be sent |
//! | `presence` | whether a person looks right now |
//! | `message` | the words that are sent, and their signature |
//! | `ways` | how each way sends |
//! | `courier` | the thread |

mod courier;
mod message;
mod options;
mod outbox;
mod presence;
mod ways;

pub use courier::{Courier, Following, MAX_GOODBYE};
pub use ftl_view::notices::{Notice, NoticeKind};
pub use message::{MAX_LINES, Message, hmac_sha256};
pub use options::{NotifyOptions, QuietHours, Way};
pub use outbox::{MAX_OUTBOX, MAX_TRIES};
pub use presence::{AGAIN, LOOKS, look};
pub use ways::{LocalSender, SendError, Ways};
