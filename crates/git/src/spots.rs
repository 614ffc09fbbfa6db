//! Where files are moved, made and removed: in the checkout, in git's own folder and in the state, and below each of
//! them without following a link.
//!
//! A link that is put on the way meanwhile is met, not followed. Nothing here looks at what is in a file.

use std::io;
use std::path::Path;

use super::error::At as _;
use super::{GitError, Repo};
use ftl_folder::{self as folder, Folder, NameIn};

impl Repo {
    /// A name in the checkout, in git's own folder or in the state: below each of them no link is followed.
    pub(super) fn spot(&self, path: &Path) -> io::Result<NameIn> {
        match self.root_of(path) {
            Some((root, rest)) => NameIn::below(root, rest),
            None => NameIn::at(path),
        }
    }

    /// A folder below one of these, opened; elsewhere at its path.
    pub(super) fn folder(&self, path: &Path) -> io::Result<Folder> {
        match self.root_of(path) {
            Some((root, rest)) => Folder::below(root, rest),
            None => Folder::open(path),
        }
    }

    /// Makes a folder there, with those above it.
    pub(super) fn make_folder(&self, path: &Path) -> io::Result<()> {
        match self.root_of(path) {
            Some((root, rest)) => folder::make_below(root, rest),
            None => folder::make(path),
        }
    }

    /// Removes a folder there, with all that is in it.
    pub(super) fn remove_moved(&self, path: &Path) -> Result<(), GitError> {
        let removed = match self.root_of(path) {
            Some((root, rest)) => folder::remove_whole_below(root, rest),
            None => folder::remove_whole(path),
        };
        removed.at(path).map(drop)
    }

    /// The folder that a path is below, where that is git's own or the checkout.
    fn root_of<'a>(&'a self, path: &'a Path) -> Option<(&'a Path, &'a Path)> {
        if path.starts_with(self.private_dir.home()) {
            return None;
        }
        [&self.own, &self.common, &self.top]
            .into_iter()
            .find_map(|root| Some((root.as_path(), path.strip_prefix(root).ok()?)))
    }
}
