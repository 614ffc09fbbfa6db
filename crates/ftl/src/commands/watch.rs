//! `ftl watch`: runs, live.
//!
//! On a terminal it draws a view again whenever something has changed, and once a second for the
//! clocks in it. Elsewhere it prints every entry of every run as it comes. It only reads: no driver
//! of a run is disturbed, and no store is made. It looks at a counter of the store a few times a
//! second, never in a loop without a pause.

mod follow;
mod view;

use std::sync::Arc;
use std::time::Duration;

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::session::{session_failure, store_failure};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session, signals};
use ftl_engine::drive::StopSignal;
use ftl_engine::session::find;
use ftl_folder::state_folder::StateFolder;
use ftl_language::library::Library;
use ftl_store::{RunRow, Store};

/// How often it is looked whether something has changed.
const LOOK: Duration = Duration::from_millis(150);

/// Watches one run until it ends, or all of them until it is interrupted.
pub(crate) fn run(cli: &GlobalArgs, id: Option<&str>, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let library = Arc::new(LoadedProtocols::load(cli)?.library);
    let stop = signals::stop(out)?;
    let watched = match id {
        Some(id) => {
            let store = session::store_of_runs(&place)?;
            let run = find(&*store, id).map_err(|error| session_failure(&error))?.row.run;
            Watched { place, store, only: Some(run), library }
        }
        None => match first_store(&place, &stop, out)? {
            Some(store) => Watched { place, store, only: None, library },
            None => return Ok(ExitStatus::Interrupted),
        },
    };
    if out.is_json() || !out::is_drawable() {
        follow::run(&watched, &stop, out)
    } else {
        view::run(&watched, &stop, out)
    }
}

/// The store, as soon as there is one; `None` if a signal ended the wait.
fn first_store(
    place: &StateFolder,
    stop: &StopSignal,
    out: &Out,
) -> Result<Option<Arc<dyn Store>>, CommandError> {
    let mut told = false;
    while stop.times_said() == 0 {
        if let Some(store) = session::store(place)? {
            return Ok(Some(store));
        }
        if !told {
            out.beside("no runs yet; waiting for the first one\n");
            told = true;
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

struct Watched {
    place: StateFolder,
    store: Arc<dyn Store>,
    only: Option<ftl_folder::id::RunId>,
    library: Arc<Library>,
}

impl Watched {
    /// The runs that are watched, the oldest first.
    fn rows(&self) -> Result<Vec<RunRow>, CommandError> {
        let prefix = self.only.as_ref().map_or("", |run| run.as_str());
        let mut rows = self.store.runs(prefix).map_err(|error| store_failure(&error))?;
        rows.retain(|row| row.head > 0);
        rows.reverse();
        Ok(rows)
    }

    /// A number that differs when something may have changed.
    fn version(&self) -> Result<u64, CommandError> {
        self.store.version().map_err(|error| store_failure(&error))
    }
}
