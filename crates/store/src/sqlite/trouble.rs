//! What an error of SQLite or of the disk means for the caller.
//!
//! Only what surely did no harm is told apart from failure: a full disk, a place that may not be
//! written, a file that is no store. Everything else is `Failed`.

use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::{ErrorCode, ffi};
use rustix::io::Errno;

use crate::StoreError;

/// What an error of SQLite means.
pub(super) fn of_sqlite(file: &Path, error: &rusqlite::Error) -> StoreError {
    // The machine's own error, as long as nothing else has overwritten it.
    let system = io::Error::last_os_error();
    let told = format!("{}: {error}", file.display());
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => of_code(failure, &system, told),
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::QueryReturnedNoRows => StoreError::Corrupt(told),
        _ => StoreError::Failed(told),
    }
}

/// What an error of the file system means.
pub(super) fn of_disk(file: &Path, error: &io::Error) -> StoreError {
    let told = format!("{}: {error}{}", file.display(), remedy(error));
    match error.kind() {
        kind if is_no_room(kind) => StoreError::Full(told),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(told),
        _ => StoreError::Failed(told),
    }
}

/// What a person has to know of a limit that was met.
fn remedy(error: &io::Error) -> &'static str {
    let few = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    let is_few = error.raw_os_error().is_some_and(|code| few.contains(&code));
    if is_few { "; this process may open too few files: raise `ulimit -n`" } else { "" }
}

/// Whether another process held the database too long; nothing was written and nothing is wrong.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn of_code(failure: &ffi::Error, system: &io::Error, told: String) -> StoreError {
    match failure.code {
        ErrorCode::DiskFull => StoreError::Full(told),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly(told),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => {
            StoreError::Corrupt(told)
        }
        ErrorCode::CannotOpen => of_opening(system, format!("{told} ({system}){}", remedy(system))),
        ErrorCode::SystemIoFailure => of_io(failure.extended_code, system, format!("{told} ({system})")),
        _ => StoreError::Failed(told),
    }
}

fn of_opening(system: &io::Error, told: String) -> StoreError {
    match system.kind() {
        kind if is_no_room(kind) => StoreError::Full(told),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(told),
        _ => StoreError::Failed(told),
    }
}

/// A disk, a quota or a limit on the size of files.
fn is_no_room(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// A write that found no room did no harm. SQLite says so itself for `ENOSPC` in most places; for
/// quotas and for the shared memory file only the machine's error tells. A failed fsync is never
/// taken for a full disk: what the disk has kept is not known.
fn of_io(extended: i32, system: &io::Error, told: String) -> StoreError {
    let wrote = matches!(extended, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE);
    if wrote && is_no_room(system.kind()) {
        StoreError::Full(told)
    } else if extended == ffi::SQLITE_IOERR_CORRUPTFS {
        StoreError::Corrupt(told)
    } else {
        StoreError::Failed(told)
    }
}
