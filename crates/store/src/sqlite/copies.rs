//! Copies of notes beside the store (`.ftl/campaign.json`, workspaces and the like) that are ahead of it after a loss.
//!
//! A copy that we wrote ourselves, and that the store does not know any more, would be taken for a change by hand, and
//! bring half of what is lost back. It is moved to where the damaged files are; the store writes its own again. What a
//! person has changed by hand is not what we wrote, and stays.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _};

use crate::{ContentDigest, MAX_CONTENT_BYTES};
use ftl_folder as folder;

/// Where it is remembered which copy was written last: a file for each, with `%` for `/` in its name.
const WRITTEN: &str = "copies";

/// The kind of the notes that know the digests of copies.
const STAMPS: &str = "projected";

/// The most that is read of what was remembered of a copy.
const MAX_WRITTEN_BYTES: u64 = 64 * 1024;

/// Moves the copies aside that a store cannot know; their names from `.ftl/`.
pub(super) fn move_unknown(
    open: &Connection,
    store: &Path,
    aside: &Path,
) -> rusqlite::Result<io::Result<Vec<String>>> {
    let state = store.parent().unwrap_or(store);
    let written = match folder::names(&store.join(WRITTEN)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Vec::new())),
        Err(error) => return Ok(Err(error)),
        Ok(written) => written,
    };
    let mut moved = Vec::new();
    for name in written.iter().filter_map(|name| name.to_str()) {
        let file = name.replace('%', "/");
        let written = store.join(WRITTEN).join(name);
        let found = places(state, &file).into_iter().find_map(|copy| Some((ours(&written, &copy)?, copy)));
        let Some((digest, copy)) = found else { continue };
        if is_known(open, &file, &digest)? {
            continue;
        }
        let to = aside.join(WRITTEN);
        match folder::make(&to).and_then(|()| folder::rename(&copy, &to.join(name))) {
            Err(error) => return Ok(Err(error)),
            Ok(()) => moved.push(file),
        }
    }
    Ok(Ok(moved))
}

/// Where a copy may stand: that of a campaign also at the paths of the one in front.
fn places(state: &Path, file: &str) -> Vec<PathBuf> {
    let own = file.strip_prefix("campaigns/").and_then(|rest| rest.split_once('/'));
    [Some(file), own.map(|(_, file)| file)].into_iter().flatten().map(|file| state.join(file)).collect()
}

/// The digest of a copy, if it is the one that we wrote last.
fn ours(written: &Path, copy: &Path) -> Option<String> {
    let remembered = folder::read_to_string(written, MAX_WRITTEN_BYTES).ok()?;
    let bytes = folder::read(copy, MAX_CONTENT_BYTES as u64).ok()?;
    let found = ContentDigest::of(&bytes).to_string();
    (remembered.lines().next() == Some(found.as_str())).then_some(found)
}

fn is_known(open: &Connection, file: &str, digest: &str) -> rusqlite::Result<bool> {
    let mut find = open.prepare_cached("SELECT body FROM notes WHERE kind = ?1 AND key = ?2")?;
    let known: Option<String> = find.query_row([STAMPS, file], |row| row.get(0)).optional()?;
    Ok(known.is_some_and(|known| known.lines().any(|line| line == digest)))
}
