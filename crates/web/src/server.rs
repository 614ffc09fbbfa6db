//! What all answers are made of: the session of the server, the runs that it follows, who follows it.
//!
//! Nothing is asked or answered here.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use ftl_command::documents::Documents;
use ftl_command::follow::Runs;
use ftl_command::known::RunOverview;
use ftl_command::orders::Speaker;
use ftl_command::{CommandError, GlobalArgs, inbox};
use ftl_engine::session::Session;
use ftl_store::Most;
use serde_json::Value as Json;

use crate::stream::Hub;
use crate::tickets::Tickets;

/// How many open runs, and how many ended ones, changes are looked for in.
pub(crate) const WATCHED: Most = Most { open: 200, ended: 100 };

/// How many orders are remembered by the key that their sender gave.
pub(crate) const MAX_KEYS: usize = 256;

/// What all answers are made of.
pub(crate) struct Server {
    pub(crate) cli: GlobalArgs,
    pub(crate) session: Session,
    pub(crate) documents: Box<dyn Documents>,
    pub(crate) runs: Runs,
    pub(crate) hub: Hub,
    pub(crate) tickets: Tickets,
    pub(crate) by: String,
    pub(crate) look: bool,
    pub(crate) port: u16,
    /// The table of what may be asked, as a document.
    pub(crate) openapi: Json,
    pub(crate) keys: Mutex<VecDeque<(String, u64)>>,
}

impl Server {
    pub(crate) fn of(
        cli: &GlobalArgs,
        session: Session,
        documents: Box<dyn Documents>,
        (by, look, port): (String, bool, u16),
        openapi: Json,
    ) -> Server {
        let runs = Runs::new(session.store().clone(), session.library().clone());
        let (hub, tickets, keys) = (Hub::default(), Tickets::default(), Mutex::default());
        Server { cli: cli.clone(), session, documents, runs, hub, tickets, by, look, port, openapi, keys }
    }

    /// What a session may do.
    pub(crate) fn may(&self) -> Vec<&'static str> {
        if self.look { vec!["look"] } else { vec!["look", "speak"] }
    }

    /// The person for whom the server speaks.
    pub(crate) fn speaker(&self) -> Speaker<'_> {
        Speaker { name: &self.by, face: "web" }
    }

    /// The newest runs as this machine knows them.
    pub(crate) fn overviews(&self, most: Most) -> Result<Vec<RunOverview>, CommandError> {
        inbox::overviews(&self.session, most)
    }

    /// The order that was left under a key before.
    pub(crate) fn known_key(&self, key: &str) -> Option<u64> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().find(|(known, _)| known == key).map(|(_, order)| *order)
    }

    /// Remembers the order that was left under a key.
    pub(crate) fn keep_key(&self, key: String, order: u64) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_KEYS {
            keys.pop_front();
        }
        keys.push_back((key, order));
    }
}
