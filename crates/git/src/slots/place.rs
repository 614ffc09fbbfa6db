//! Where the slots of a repository lie: outside of every project of the person, for a program that looks upward from
//! a checkout must not find the person's files.
//!
//! The folder of caches is taken, below it one folder of each store that only its owner may enter. Where that cannot be
//! written or lies below a project, as in a home that is a repository, it is a folder of ours in the temporary
//! directory; where that cannot be had either, one in `.ftl`. Nothing here needs a home.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use sha2::{Digest as _, Sha256};

use super::super::error::At as _;
use super::super::worktree::remove_whole;
use super::super::{ErrorKind, GitError, Settings};
use ftl_folder::Folder;
use ftl_folder::state_folder::StateFolder;

/// How the name of a slot begins.
pub(super) const PREFIX: &str = "verify-";

/// The file in a folder of slots that names the store whose they are.
const OWNER: &str = "store";

/// The longest path of a store that is read.
const MAX_OWNER_BYTES: u64 = 64 * 1024;

/// How many folders of other stores are looked at when a new one is made.
const MAX_LOOKED: usize = 200;

/// Where the slots of a repository lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPlace {
    path: PathBuf,
    aside: Option<String>,
}

/// A folder in which there may be folders of slots.
struct Candidate {
    above: PathBuf,
    device: u64,
}

impl SlotPlace {
    /// The path of the folder that holds the slots.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it is not where such folders usually are.
    pub fn aside(&self) -> Option<&str> {
        self.aside.as_deref()
    }

    /// Where the slots of a repository would lie, if the person has named that place or not. Nothing is made.
    pub fn planned(place: &StateFolder, named: Option<PathBuf>) -> Result<SlotPlace, GitError> {
        let nobody = crate::Person { name: String::new(), email: String::new() };
        let settings = Settings { slots: named, ..Settings::of(nobody) };
        let root = place.root().canonicalize().at(place.root())?;
        let store = StateFolder::at(root).store();
        let found = choose(place, &settings)?.into_iter().next();
        let (above, aside) = found.unwrap_or((place.state().join("slots"), None));
        Ok(SlotPlace { path: above.join(name_of(&store)), aside })
    }

    /// Finds the place of a repository's slots, and makes it.
    pub(super) fn make(place: &StateFolder, settings: &Settings) -> Result<SlotPlace, GitError> {
        let store = place.store();
        let store = store.canonicalize().at(&store)?;
        let name = name_of(&store);
        let mut failed = None;
        for (above, aside) in choose(place, settings)? {
            match make_below(&above, &name, &store) {
                Ok(path) => return Ok(SlotPlace { path, aside: aside.or(failed) }),
                Err(error) => failed = Some(format!("`{}`: {error}", above.display())),
            }
        }
        let message = format!("no checkout can be made: {}", failed.unwrap_or_default());
        let hint = "name a folder as `slots` under [worktree] in .ftl/config.toml";
        Err(GitError::new(ErrorKind::Unsuitable, message).hint(hint))
    }
}

/// Whether a path is that of a slot of this store: what a record says is not believed before something is removed.
pub(super) fn is_slot(path: &Path, place: &StateFolder) -> bool {
    let is_named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        name.strip_prefix(PREFIX)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|one| one.is_ascii_digit()))
    });
    let Some(above) = path.parent().filter(|_| is_named) else { return false };
    let Ok(store) = place.store().canonicalize() else { return false };
    let owner = ftl_folder::read(&above.join(OWNER), MAX_OWNER_BYTES).unwrap_or_default();
    owner == store.as_os_str().as_bytes()
        && above.file_name().is_some_and(|name| name == name_of(&store).as_str())
}

/// The name of the folder with a store's slots.
fn name_of(store: &Path) -> String {
    let digest = Sha256::digest(store.as_os_str().as_bytes());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the folder of a store's slots.
fn make_below(above: &Path, name: &str, store: &Path) -> io::Result<PathBuf> {
    make_private(above)?;
    let path = above.join(name);
    if !ftl_folder::is_folder(&path) {
        remove_orphans(above);
    }
    make_private(&path)?;
    let (owner, store) = (path.join(OWNER), store.as_os_str().as_bytes());
    if ftl_folder::read(&owner, MAX_OWNER_BYTES).ok().as_deref() != Some(store) {
        ftl_folder::write(&owner, store)?;
    }
    Ok(path)
}

/// A folder for folders of slots, and why it is not the usual one.
type Choice = (PathBuf, Option<String>);

/// The folders that may be taken, the best first.
fn choose(place: &StateFolder, settings: &Settings) -> Result<Vec<Choice>, GitError> {
    if let Some(named) = &settings.slots {
        return match candidate(named) {
            Ok(found) => Ok(vec![(found.above, None)]),
            Err(why) => {
                let message = format!("checkouts cannot be made in `{}`: it {why}", named.display());
                let hint = "name another folder as `slots` under [worktree], or leave it out";
                Err(GitError::new(ErrorKind::Unsuitable, message).hint(hint))
            }
        };
    }
    let usual = match &settings.cache {
        Some(cache) => candidate(&cache.join("ftl")).map_err(|why| format!("`{}` {why}", cache.display())),
        None => Err(String::from("there is no folder of caches (neither HOME nor XDG_CACHE_HOME is set)")),
    };
    let temporary = settings.temporary.join(format!("ftl-slots-{}", rustix::process::geteuid().as_raw()));
    let temporary = candidate(&temporary).ok();
    let device = ftl_folder::metadata(place.root()).map_or(0, |found| found.dev());
    let mut all = Vec::new();
    let why = match usual {
        // Two checkouts share what they can only on one file system.
        Ok(usual) if usual.device == device || temporary.as_ref().is_none_or(|one| one.device != device) => {
            all.push((usual.above, None));
            None
        }
        Ok(_) => None,
        Err(why) => Some(why),
    };
    all.extend(temporary.map(|one| (one.above, why.clone())));
    all.push((place.state().join("slots"), why));
    Ok(all)
}

/// Whether a folder may be used or made, and on which file system it is; why not, as the end of a sentence.
fn candidate(above: &Path) -> Result<Candidate, String> {
    if !above.is_absolute() {
        return Err(String::from("is no absolute path"));
    }
    if above.is_symlink() {
        return Err(String::from("is a link"));
    }
    let there = above.ancestors().find(|one| one.exists()).unwrap_or(Path::new("/"));
    let there = there.canonicalize().map_err(|error| format!("cannot be looked at: {error}"))?;
    let is_project = |folder: &&Path| [".git", ".ftl"].iter().any(|name| folder.join(name).exists());
    if let Some(project) = there.ancestors().find(is_project) {
        return Err(format!("lies below a project, `{}`", project.display()));
    }
    access(&there, Access::WRITE_OK | Access::EXEC_OK).map_err(|_| String::from("cannot be written"))?;
    let found = std::fs::metadata(&there).map_err(|error| format!("cannot be looked at: {error}"))?;
    if !found.is_dir() {
        return Err(String::from("is no folder"));
    }
    if there == above && !is_private(&found) && !is_empty(above) {
        return Err(String::from("is open to others, and not empty"));
    }
    Ok(Candidate { above: above.to_owned(), device: found.dev() })
}

/// Makes a folder that only its owner may enter, and takes no other: what is in it will be run.
fn make_private(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    match ftl_folder::make_new_as(path, 0o700) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let folder = Folder::open(path)?;
    let found = folder.own_metadata()?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to somebody else"));
    }
    if is_private(&found) { Ok(()) } else { folder.set_mode(0o700) }
}

fn is_private(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0
}

fn is_empty(path: &Path) -> bool {
    ftl_folder::names(path).is_ok_and(|names| names.is_empty())
}

/// Removes slots of stores that are gone.
fn remove_orphans(above: &Path) {
    let names = Folder::open(above).and_then(|folder| folder.first_names(MAX_LOOKED)).unwrap_or_default();
    for name in names {
        let folder = above.join(name);
        let Ok(owner) = ftl_folder::read(&folder.join(OWNER), MAX_OWNER_BYTES) else { continue };
        let store = Path::new(std::ffi::OsStr::from_bytes(&owner));
        let is_gone =
            std::fs::symlink_metadata(store).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if store.is_absolute() && is_gone {
            let _ = remove_whole(&folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Person;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    struct Stage {
        folder: tempfile::TempDir,
        place: StateFolder,
        settings: Settings,
    }

    impl Stage {
        fn new() -> Stage {
            let folder = tempfile::tempdir().unwrap();
            let place = StateFolder::at(folder.path().join("project"));
            fs::create_dir_all(place.store()).unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir_all(at("tmp")).unwrap();
            let mut settings = Settings::of(Person { name: String::new(), email: String::new() });
            (settings.cache, settings.temporary) = (Some(at("home/.cache")), at("tmp"));
            Stage { place, settings, folder }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        fn make(&self) -> SlotPlace {
            SlotPlace::make(&self.place, &self.settings).unwrap()
        }
    }

    #[test]
    fn slots_lie_in_the_folder_of_caches_and_only_their_owner_enters() {
        let stage = Stage::new();
        let place = stage.make();
        let planned = SlotPlace::planned(&stage.place, Some(stage.at("home/.cache/ftl"))).unwrap();
        assert_eq!(planned, place, "and nothing had to be made to know that");
        assert_eq!(place.path().parent(), Some(&*stage.at("home/.cache/ftl")));
        assert_eq!(place.aside(), None);
        assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(stage.make(), place, "the same again");
        assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_home_that_is_a_project_is_left_alone() {
        for mark in [".git", ".ftl"] {
            let stage = Stage::new();
            fs::create_dir_all(stage.at("home").join(mark)).unwrap();
            let place = stage.make();
            assert!(place.path().starts_with(stage.at("tmp")), "{}", place.path().display());
            assert!(place.aside().unwrap().contains("lies below a project"), "{:?}", place.aside());
            assert!(!stage.at("home/.cache").exists());
        }
    }

    #[test]
    fn without_a_home_there_is_a_place_and_without_any_place_it_is_inside() {
        let mut stage = Stage::new();
        stage.settings.cache = None;
        let place = stage.make();
        assert!(place.path().starts_with(stage.at("tmp")) && place.aside().unwrap().contains("HOME"));
        fs::write(stage.at("tmp/.git"), "").unwrap();
        assert_eq!(stage.make().path().parent(), Some(&*stage.place.state().join("slots")));
    }

    #[test]
    fn a_folder_that_is_named_counts_or_is_refused() {
        let mut stage = Stage::new();
        stage.settings.slots = Some(stage.at("elsewhere/deep"));
        assert!(stage.make().path().starts_with(stage.at("elsewhere/deep")));
        for bad in [stage.at("project/x"), PathBuf::from("relative")] {
            stage.settings.slots = Some(bad.clone());
            let error = SlotPlace::make(&stage.place, &stage.settings).unwrap_err();
            assert!(error.hint.is_some(), "{}: {error}", bad.display());
        }
    }

    #[test]
    fn what_others_could_enter_or_lead_elsewhere_is_not_used() {
        let stage = Stage::new();
        fs::create_dir_all(stage.at("home/.cache/ftl")).unwrap();
        fs::write(stage.at("home/.cache/ftl/theirs"), "").unwrap();
        fs::set_permissions(stage.at("home/.cache/ftl"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(stage.make().path().starts_with(stage.at("tmp")));
        let stage = Stage::new();
        fs::create_dir_all(stage.at("home/.cache")).unwrap();
        fs::create_dir_all(stage.at("away")).unwrap();
        std::os::unix::fs::symlink(stage.at("away"), stage.at("home/.cache/ftl")).unwrap();
        assert!(stage.make().path().starts_with(stage.at("tmp")));
        assert_eq!(fs::read_dir(stage.at("away")).unwrap().count(), 0);
    }

    #[test]
    fn only_what_lies_where_slots_of_this_store_do_is_one() {
        let stage = Stage::new();
        let slots = stage.make();
        assert!(is_slot(&slots.path().join("verify-7"), &stage.place));
        let others =
            [slots.path().join("verify-"), slots.path().join("verify-x"), slots.path().join("store")];
        let elsewhere =
            [stage.at("home/verify-1"), stage.at("home"), PathBuf::from("/"), PathBuf::from("verify-1")];
        for path in others.iter().chain(&elsewhere) {
            assert!(!is_slot(path, &stage.place), "{}", path.display());
        }
        let other = StateFolder::at(stage.at("other"));
        fs::create_dir_all(other.store()).unwrap();
        assert!(!is_slot(&slots.path().join("verify-7"), &other), "another store's");
    }

    #[test]
    fn slots_of_a_store_that_is_gone_go_with_the_next_new_one() {
        let stage = Stage::new();
        let old = stage.make();
        fs::create_dir_all(old.path().join("verify-1/src")).unwrap();
        let other = StateFolder::at(stage.at("other"));
        fs::create_dir_all(other.store()).unwrap();
        SlotPlace::make(&other, &stage.settings).unwrap();
        assert!(old.path().exists(), "its store is there");
        fs::remove_dir_all(stage.place.root()).unwrap();
        let third = StateFolder::at(stage.at("third"));
        fs::create_dir_all(third.store()).unwrap();
        SlotPlace::make(&third, &stage.settings).unwrap();
        assert!(!old.path().exists());
    }
}
