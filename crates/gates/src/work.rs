//! The finished work that a gate looks at: what was changed, and where it stands.
//!
//! A gate that needs nothing else is a function over a [`Work`]; the engine's table of executors names that function and
//! nothing has to be written between the two.

use std::path::Path;

use ftl_git::change::Change;

/// The work in one worktree.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What it changes since its base.
    pub change: &'a Change,
    /// The folder that paths of a brief begin at.
    pub folder: &'a Path,
    /// The tree that the worktree holds; a gate binds its answer to it.
    pub tree: &'a str,
}
