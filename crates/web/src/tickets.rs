//! Tickets and tokens: a ticket is printed on the terminal that started the server and opens one session, whose token the
//! page sends with everything it asks. Both live in memory alone, and no cookie carries either.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a ticket is good.
pub(crate) const TICKET_LIFE: Duration = Duration::from_secs(120);

/// How many wrong tickets close the one that is open.
pub(crate) const MAX_WRONG: u32 = 5;

/// How many sessions there are; when one more is opened the oldest ends.
pub(crate) const MAX_SESSIONS: usize = 16;

/// The tickets and the tokens that let a page in.
#[derive(Default)]
pub(crate) struct Tickets {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    ticket: Option<(String, Instant)>,
    wrong: u32,
    tokens: Vec<String>,
}

impl Tickets {
    /// A new ticket; an older one is worth nothing any more.
    pub(crate) fn issue(&self) -> io::Result<String> {
        let ticket = random()?;
        let mut kept = self.lock();
        kept.ticket = Some((ticket.clone(), Instant::now()));
        kept.wrong = 0;
        Ok(ticket)
    }

    /// The token for a ticket. Each ticket is good once, and for a short time.
    pub(crate) fn redeem(&self, ticket: &str) -> io::Result<Option<String>> {
        self.redeem_at(ticket, Instant::now())
    }

    fn redeem_at(&self, ticket: &str, now: Instant) -> io::Result<Option<String>> {
        let token = random()?;
        let mut kept = self.lock();
        let fits = kept.ticket.as_ref().is_some_and(|(known, since)| {
            now.saturating_duration_since(*since) < TICKET_LIFE && is_same(known, ticket)
        });
        if !fits {
            kept.wrong += 1;
            if kept.wrong >= MAX_WRONG {
                kept.ticket = None;
            }
            return Ok(None);
        }
        kept.ticket = None;
        if kept.tokens.len() >= MAX_SESSIONS {
            kept.tokens.remove(0);
        }
        kept.tokens.push(token.clone());
        Ok(Some(token))
    }

    /// Whether a token belongs to a session.
    pub(crate) fn knows(&self, token: &str) -> bool {
        self.lock().tokens.iter().fold(false, |found, known| found | is_same(known, token))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn is_same(left: &str, right: &str) -> bool {
    let differs = left.bytes().zip(right.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    left.len() == right.len() && differs == 0
}

/// 256 random bits, as hex.
fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_one_session() {
        let tickets = Tickets::default();
        let ticket = tickets.issue().unwrap();
        let token = tickets.redeem(&ticket).unwrap().unwrap();
        assert!(tickets.knows(&token) && !tickets.knows(&ticket) && !tickets.knows(""));
        assert_eq!(tickets.redeem(&ticket).unwrap(), None, "it is good once");
    }

    #[test]
    fn a_ticket_is_good_for_a_short_time() {
        let tickets = Tickets::default();
        let ticket = tickets.issue().unwrap();
        assert_eq!(tickets.redeem_at(&ticket, Instant::now() + TICKET_LIFE).unwrap(), None);
        let newer = tickets.issue().unwrap();
        assert_eq!(tickets.redeem(&ticket).unwrap(), None, "an older one is worth nothing");
        assert!(tickets.redeem(&newer).unwrap().is_some());
    }

    #[test]
    fn wrong_tickets_close_the_one_that_is_open() {
        let tickets = Tickets::default();
        let ticket = tickets.issue().unwrap();
        for _ in 0..MAX_WRONG {
            assert_eq!(tickets.redeem("guess").unwrap(), None);
        }
        assert_eq!(tickets.redeem(&ticket).unwrap(), None);
    }

    #[test]
    fn so_many_sessions_are_open() {
        let tickets = Tickets::default();
        let open = || tickets.redeem(&tickets.issue().unwrap()).unwrap().unwrap();
        let first = open();
        for _ in 1..MAX_SESSIONS {
            open();
        }
        assert!(tickets.knows(&first));
        open();
        assert!(!tickets.knows(&first));
    }
}
