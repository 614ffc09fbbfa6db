//! What a repository is beside its objects (refs, the branch that is checked out, hooks, configuration), looked at before
//! and after an agent's turn.
//!
//! A person works in the same repository. So what differs is told and left alone, unless the log of a ref proves that a
//! process of the attempt itself moved it: its commands carry a committer of their own. Before a ref is put back, and of
//! whatever differs, the old and the new value are kept under `refs/ftl/seen/`.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::At as _;
use super::runner::Input;
use super::{GitError, Oid, Repo};

/// Where values are kept.
const SEEN: &str = "refs/ftl/seen";

/// The largest hook or configuration that is compared by its bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// How many hooks are looked at, and how many differences of one turn are kept.
const MAX_SEEN: usize = 200;

/// How much of the log of a ref is read.
const MAX_LOG_BYTES: u64 = 4 * 1024 * 1024;

/// What is ours and moves while an agent works.
const OURS: [&str; 2] = ["refs/ftl/", "refs/heads/ftl/"];

/// A repository beside its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryState {
    refs: BTreeMap<String, String>,
    /// Hooks, the configuration, and the branch that is checked out, by their names in git's folder.
    files: BTreeMap<String, Vec<u8>>,
}

/// One thing that differs after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryChange {
    /// The ref, or the file in git's folder.
    pub name: String,
    /// Whether it was put back: the attempt itself had moved it.
    pub is_put_back: bool,
}

impl Repo {
    /// Looks at the repository.
    pub fn state(&self) -> Result<RepositoryState, GitError> {
        let mut state = RepositoryState::default();
        let out = self.ask(["for-each-ref", "--format=%(objectname) %(refname)"])?.ok()?;
        for line in String::from_utf8_lossy(&out).lines() {
            if let Some((oid, name)) = line.split_once(' ')
                && !OURS.iter().any(|ours| name.starts_with(ours))
            {
                state.refs.insert(name.to_owned(), oid.to_owned());
            }
        }
        let hooks = self.common.join("hooks");
        let mut names = vec![String::from("HEAD"), String::from("config")];
        if ftl_folder::is_folder(&hooks) {
            let listed = ftl_folder::names(&hooks).at(&hooks)?;
            let listed = listed.into_iter().filter_map(|name| name.into_string().ok());
            names.extend(
                listed
                    .filter(|name| !name.ends_with(".sample"))
                    .take(MAX_SEEN)
                    .map(|name| format!("hooks/{name}")),
            );
        }
        for name in names {
            if let Ok(bytes) = ftl_folder::read(&self.common.join(&name), MAX_FILE_BYTES) {
                state.files.insert(name, bytes);
            }
        }
        Ok(state)
    }

    /// Compares two looks, keeps what differs, and puts back what a process with this committer has moved.
    pub fn note_seen(
        &self,
        key: &str,
        (before, after): (&RepositoryState, &RepositoryState),
        committer: &str,
    ) -> Result<Vec<RepositoryChange>, GitError> {
        let mut changes = Vec::new();
        for (name, old, new) in differing(&before.refs, &after.refs).into_iter().take(MAX_SEEN) {
            let prefix = format!("{SEEN}/{key}/{}", changes.len());
            for (side, value) in [("old", old), ("new", new)] {
                if let Some(oid) = value {
                    self.ask(["update-ref", &format!("{prefix}/{side}"), oid])?.ok()?;
                }
            }
            let is_put_back = match new {
                Some(new) if self.was_moved_by(name, (old, new), committer) => {
                    self.put_ref_back(name, old, new)?
                }
                Some(_) | None => false,
            };
            changes.push(RepositoryChange { name: name.clone(), is_put_back });
        }
        for (name, old, new) in differing(&before.files, &after.files).into_iter().take(MAX_SEEN) {
            let prefix = format!("{SEEN}/{key}/{}", changes.len());
            for (side, value) in [("old", old), ("new", new)] {
                if let Some(bytes) = value {
                    let call = self.at_home(&self.common).words(["hash-object", "-w", "--stdin"]);
                    let oid = Oid::read(&self.run(call.input(Input::Bytes(bytes.clone())))?.ok()?)?;
                    self.ask(["update-ref", &format!("{prefix}/{side}"), oid.as_str()])?.ok()?;
                }
            }
            changes.push(RepositoryChange { name: name.clone(), is_put_back: false });
        }
        Ok(changes)
    }

    /// Whether the log of a ref says that all moves from the old value to the new one were this committer's.
    fn was_moved_by(&self, name: &str, (old, new): (Option<&String>, &str), committer: &str) -> bool {
        let file = self.common.join("logs").join(Path::new(name));
        let Ok(bytes) = ftl_folder::read(&file, MAX_LOG_BYTES) else { return false };
        let text = String::from_utf8_lossy(&bytes);
        let mut wanted = new.to_owned();
        for line in text.lines().rev() {
            let (head, _) = line.split_once('\t').unwrap_or((line, ""));
            let mut words = head.split(' ');
            let (Some(from), Some(to)) = (words.next(), words.next()) else { return false };
            if to != wanted || !head.contains(&format!("<{committer}>")) {
                return false;
            }
            let is_first = from.bytes().all(|digit| digit == b'0');
            if old.map_or(is_first, |old| from == old) {
                return true;
            }
            wanted = from.to_owned();
        }
        false
    }

    /// Moves a ref back from where it was seen; whether it still stood there.
    fn put_ref_back(&self, name: &str, old: Option<&String>, new: &str) -> Result<bool, GitError> {
        let said = match old {
            Some(old) => self.ask(["update-ref", "--no-deref", "-m", "ftl: put back", name, old, new])?,
            None => self.ask(["update-ref", "--no-deref", "-d", name, new])?,
        };
        Ok(said.code == 0)
    }
}

/// The names whose values differ, with both values.
fn differing<'a, T: PartialEq>(
    before: &'a BTreeMap<String, T>,
    after: &'a BTreeMap<String, T>,
) -> Vec<(&'a String, Option<&'a T>, Option<&'a T>)> {
    let new = after.keys().filter(|name| !before.contains_key(*name));
    let names = before.keys().chain(new);
    names.map(|name| (name, before.get(name), after.get(name))).filter(|(_, old, new)| old != new).collect()
}
