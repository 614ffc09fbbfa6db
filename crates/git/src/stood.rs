//! What stood in a worktree when the journal last heard of it, and at which start of the machine that was.

use serde::{Deserialize, Serialize};

use super::Oid;
use ftl_process::table::boot_id;

/// Stands for a start of the machine that is over, whichever it was.
const NO_BOOT: &str = "none";

/// What was in a worktree when the journal last heard of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stood {
    pub(super) tree: Oid,
    /// The start of the machine at which that was.
    boot: String,
}

impl Stood {
    /// What stands there at this start of the machine; nothing where that cannot be told.
    pub(super) fn now(tree: &Oid) -> Option<Stood> {
        boot().map(|boot| Stood { tree: tree.clone(), boot })
    }

    /// The same as if the machine had been started again since.
    pub(super) fn before(tree: &Oid) -> Stood {
        Stood { tree: tree.clone(), boot: NO_BOOT.to_owned() }
    }

    /// Whether the machine was started again since; no where that cannot be told.
    pub(super) fn is_from_before(&self) -> bool {
        boot().is_some_and(|boot| self.boot != boot)
    }
}

/// Which start of the machine this is; nothing where that cannot be told.
fn boot() -> Option<String> {
    boot_id().ok().filter(|boot| !boot.is_empty())
}
