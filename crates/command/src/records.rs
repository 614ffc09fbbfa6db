//! The records of the repository, opened for a command.

use std::sync::Arc;

use ftl_records::{RecordError, Records};
use ftl_store::StoreError;
use ftl_store::sqlite::SqliteStore;

use crate::args::GlobalArgs;
use crate::exit::ExitStatus;
use crate::failure::CommandError;
use crate::out::Out;
use crate::{session, trust};

/// The records of the repository, to change it.
pub fn open(cli: &GlobalArgs) -> Result<Records, CommandError> {
    let place = session::place(cli)?;
    session::prepare(&place)?;
    let store = SqliteStore::open(&place.store()).map_err(|error| session::store_failure(&error))?;
    let config = trust::without_untrusted_embedder(session::config(&place)?);
    named_campaign(cli, Records::with(place, Arc::new(store), config.records()))
}

/// The records of the campaign that was named, or of the current one.
fn named_campaign(cli: &GlobalArgs, records: Records) -> Result<Records, CommandError> {
    records.finish_interrupted_move().map_err(|error| failure(&error))?;
    match &cli.campaign {
        Some(id) => records.for_campaign(id).map_err(|error| failure(&error)),
        None => Ok(records),
    }
}

/// The records of a store that is there. Nothing is made.
pub fn existing(cli: &GlobalArgs) -> Result<Option<Records>, CommandError> {
    let place = session::place(cli)?;
    let found = session::existing(&place)?;
    match found {
        Some(store) => {
            let config = trust::without_untrusted_embedder(session::config(&place)?);
            named_campaign(cli, Records::with(place, Arc::new(store), config.records())).map(Some)
        }
        None => Ok(None),
    }
}

/// What the engine did not do, as a failure of a command.
pub fn failure(error: &RecordError) -> CommandError {
    match error {
        // Scripts tell these two by their exit code in every command; of the rest the FTL plugin knows one code.
        RecordError::Store(error @ (StoreError::Lost(_) | StoreError::InUse(_))) => {
            session::store_failure(error)
        }
        RecordError::Store(error) => {
            CommandError { exit: ExitStatus::Error, ..session::store_failure(error) }
        }
        RecordError::Plan(errors) => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            CommandError::new(lines.join("\n"), error.hint().unwrap_or_default())
        }
        error => CommandError::new(
            error.to_string(),
            error.hint().unwrap_or_else(|| "run `ftl doctor`".to_owned()),
        ),
    }
}

/// Says what a person should also hear, beside the answer.
pub fn tell(out: &Out, records: &Records) {
    for notice in records.notices() {
        out.note(&notice);
    }
}

/// Does something with the records, and says what there is to say of it.
pub fn with<T>(
    out: &Out,
    records: &Records,
    work: impl FnOnce(&Records) -> Result<T, RecordError>,
) -> Result<T, CommandError> {
    let done = work(records);
    tell(out, records);
    done.map_err(|error| failure(&error))
}
