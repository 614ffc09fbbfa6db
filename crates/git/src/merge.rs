//! Merging two commits without a checkout, and both sides of what does not merge.

use std::collections::BTreeMap;

use super::error::unreadable;
use super::probe::zeroed;
use super::{GitError, Oid, Repo};
use ftl_core::catalogue::build::Side;

/// The most conflicting files whose sides are shown.
pub const MAX_SIDES: usize = 100;

/// The most bytes of one side that are shown.
pub const MAX_SIDE_BYTES: usize = 32 * 1024;

/// The largest file whose beginning is shown.
const MAX_READ_BYTES: u64 = 8 * 1024 * 1024;

/// The most bytes that are read to show sides.
const MAX_SIDES_BYTES: u64 = 64 * 1024 * 1024;

/// The outcome of a merge.
pub(super) enum Merge {
    /// A tree without conflicts.
    Clean(Oid),
    /// A tree with marks in it where both sides changed the same.
    Conflict {
        /// The tree with conflict marks in it.
        tree: Oid,
        /// The files, as bytes of paths.
        files: Vec<Vec<u8>>,
        /// Both sides of each.
        sides: Vec<Side>,
    },
}

impl AsRef<Oid> for Merge {
    fn as_ref(&self) -> &Oid {
        match self {
            Merge::Clean(tree) | Merge::Conflict { tree, .. } => tree,
        }
    }
}

impl Repo {
    /// Merges `ours` onto `theirs`, three ways. What comes of it is among our own objects.
    pub(super) fn merge(&self, theirs: &Oid, ours: &Oid) -> Result<Merge, GitError> {
        self.make_gathered(&[theirs, ours], &|| self.merge_trees(theirs, ours))
    }

    fn merge_trees(&self, theirs: &Oid, ours: &Oid) -> Result<Merge, GitError> {
        let words = ["merge-tree", "--write-tree", "-z", "--no-messages"];
        let call = self.about_objects().words(words).words([theirs.as_str(), ours.as_str()]);
        let said = self.run(call)?;
        let mut parts = zeroed(&said.out);
        let tree = || -> Result<Oid, GitError> { Oid::read(zeroed(&said.out).next().unwrap_or_default()) };
        match said.code {
            0 => Ok(Merge::Clean(tree()?)),
            1 => {
                let (tree, _) = (tree()?, parts.next());
                let stages = stages(parts)?;
                let files = stages.keys().cloned().collect();
                Ok(Merge::Conflict { tree, files, sides: self.sides(&stages)? })
            }
            _ => Err(said.error()),
        }
    }

    fn sides(&self, stages: &BTreeMap<Vec<u8>, Stages>) -> Result<Vec<Side>, GitError> {
        let shown: Vec<(&Vec<u8>, &Stages)> = stages.iter().take(MAX_SIDES).collect();
        let blobs: Vec<&Oid> = shown.iter().flat_map(|(_, stages)| stages.iter().flatten()).collect();
        let mut contents = self.contents(&blobs, MAX_READ_BYTES, MAX_SIDES_BYTES)?.into_iter();
        let mut side = |oid: &Option<Oid>| oid.as_ref().map(|_| text(contents.next().flatten()));
        let sides = shown.iter().map(|(path, [base, theirs, ours])| Side {
            path: String::from_utf8_lossy(path).into_owned(),
            base: side(base),
            theirs: side(theirs),
            ours: side(ours),
        });
        Ok(sides.collect())
    }
}

/// The base, theirs and ours of one path.
type Stages = [Option<Oid>; 3];

/// Lines of the form `mode oid stage<tab>path`. A submodule has no content to show.
fn stages<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<BTreeMap<Vec<u8>, Stages>, GitError> {
    let mut found: BTreeMap<Vec<u8>, Stages> = BTreeMap::new();
    for line in lines {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { return Err(unreadable(line)) };
        let head = String::from_utf8_lossy(&line[..tab]).into_owned();
        let words: Vec<&str> = head.split(' ').collect();
        let [mode, oid, stage] = words[..] else { return Err(unreadable(line)) };
        let stages = found.entry(line[tab + 1..].to_vec()).or_default();
        let stage: usize = stage.parse().map_err(|_| unreadable(line))?;
        let place = stage.checked_sub(1).and_then(|stage| stages.get_mut(stage));
        let place = place.ok_or_else(|| unreadable(line))?;
        *place = if mode == "160000" { None } else { Some(oid.parse()?) };
    }
    Ok(found)
}

/// A side as it is shown: text, its beginning, or what it is instead.
fn text(bytes: Option<Vec<u8>>) -> String {
    let Some(bytes) = bytes else { return String::from("(too large to be shown)") };
    if bytes.contains(&0) {
        return format!("(no text: {} bytes)", bytes.len());
    }
    let mut shown = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SIDE_BYTES)]).into_owned();
    if bytes.len() > MAX_SIDE_BYTES {
        shown.push_str(&format!("\n({} bytes more)\n", bytes.len() - MAX_SIDE_BYTES));
    }
    shown
}
