//! Entries of trees: their modes, and the tree that a folder would be.

use super::Oid;

/// The modes of git.
pub(super) const MODE_NONE: u32 = 0;
pub(super) const MODE_FILE: u32 = 0o100_644;
pub(super) const MODE_EXECUTABLE: u32 = 0o100_755;
pub(super) const MODE_LINK: u32 = 0o120_000;
pub(super) const MODE_TREE: u32 = 0o040_000;
pub(super) const MODE_SUBMODULE: u32 = 0o160_000;

/// The content of a folder, as a tree and what is left out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeEntry {
    /// The tree of everything in the folder that git does not ignore.
    pub tree: Oid,
    /// What is left out of it, as bytes of paths: repositories inside, pipes, sockets, devices, and names
    /// that no repository may hold.
    pub left_out: Vec<Vec<u8>>,
}
