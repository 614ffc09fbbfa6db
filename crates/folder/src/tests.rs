//! Tests of the folder: links at every level, odd files, limits.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// A repository with a state folder, and a victim beside it that links lead to.
struct Stage {
    outer: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir_all(outer.path().join("repository/.ftl/store/spool")).unwrap();
        fs::create_dir_all(outer.path().join("victim/store/spool")).unwrap();
        fs::write(outer.path().join("victim/store/spool/thesis"), "mine").unwrap();
        Stage { outer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outer.path().join(name)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.path("repository/.ftl").join(name)
    }

    /// Puts a link to the same place in the victim where a folder was.
    fn link(&self, part: &str) {
        let _ = fs::remove_dir_all(self.state(part));
        let at = PathBuf::from(self.state(part).to_str().unwrap().trim_end_matches('/'));
        symlink(self.path("victim").join(part), at).unwrap();
    }
}

fn refusal<T: std::fmt::Debug>(done: io::Result<T>) -> FolderRefusal {
    let error = done.unwrap_err();
    FolderRefusal::of(&error).unwrap_or_else(|| panic!("{error}")).clone()
}

#[test]
fn no_link_on_the_way_is_followed_at_any_level_or_by_any_use() {
    for part in ["", "store", "store/spool"] {
        let stage = Stage::new();
        stage.link(part);
        let (file, new) = (stage.state("store/spool/thesis"), stage.state("store/spool/new"));
        let link = PathBuf::from(stage.state(part).to_str().unwrap().trim_end_matches('/'));
        let met = |refused: FolderRefusal| assert_eq!(refused, FolderRefusal::Link(link.clone()), "{part}");
        met(refusal(read(&file, 100)));
        met(refusal(write(&file, b"x")));
        met(refusal(metadata(&file)));
        met(refusal(open(&new, OpenMode::New)));
        met(refusal(open(&new, OpenMode::Append)));
        met(refusal(replace(&file, b"x")));
        met(refusal(remove(&file)));
        met(refusal(rename(&file, &new)));
        met(refusal(remove_whole(&file)));
        met(refusal(make(&stage.state("store/spool/deeper"))));
        met(refusal(make_new(&stage.state("store/spool/deeper"))));
        met(refusal(names(&stage.state("store/spool"))));
        met(refusal(unnamed(&stage.state("store/spool"))));
        met(refusal(sync(&stage.state("store/spool"))));
        assert_eq!(fs::read_to_string(stage.path("victim/store/spool/thesis")).unwrap(), "mine");
        assert_eq!(fs::read_dir(stage.path("victim/store/spool")).unwrap().count(), 1);
    }
}

#[test]
fn a_link_at_the_end_is_no_file_and_goes_without_what_it_leads_to() {
    let stage = Stage::new();
    let (file, victim) = (stage.state("store/spool/thesis"), stage.path("victim/store/spool/thesis"));
    symlink(&victim, &file).unwrap();
    for purpose in [OpenMode::Read, OpenMode::Update, OpenMode::Append, OpenMode::New] {
        assert_eq!(refusal(open(&file, purpose)), FolderRefusal::Link(file.clone()), "{purpose:?}");
    }
    assert!(metadata(&file).unwrap().is_symlink() && !is_file(&file));
    replace(&file, b"ours").unwrap();
    assert_eq!(read(&file, 100).unwrap(), b"ours", "the link gave way");
    remove(&file).unwrap();
    symlink(stage.path("victim"), &file).unwrap();
    assert!(remove_whole(&file).unwrap() && !remove_whole(&file).unwrap());
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    // Loops and links that lead nowhere are links like others.
    symlink(&file, &file).unwrap();
    assert_eq!(refusal(open(&file, OpenMode::Append)), FolderRefusal::Link(file.clone()));
    assert_eq!(refusal(names(&file)), FolderRefusal::Link(file));
}

#[test]
fn what_is_no_file_keeps_nobody_waiting() {
    let stage = Stage::new();
    let file = stage.state("store/spool/pipe");
    rustix::fs::mkfifoat(CWD, &file, Mode::from(0o600)).unwrap();
    for purpose in [OpenMode::Read, OpenMode::Update, OpenMode::Append] {
        assert_eq!(refusal(open(&file, purpose)), FolderRefusal::NotAFile(file.clone()), "{purpose:?}");
    }
    let folder = stage.state("store/spool");
    assert_eq!(refusal(open(&folder, OpenMode::Update)), FolderRefusal::NotAFile(folder.clone()));
    assert_eq!(refusal(open(&folder, OpenMode::Read)), FolderRefusal::NotAFile(folder));
    fs::write(stage.state("plain"), "").unwrap();
    assert_eq!(refusal(read(&stage.state("plain/x"), 1)), FolderRefusal::NotAFolder(stage.state("plain")));
    assert_eq!(read(&stage.state("none/x"), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_file_with_another_name_elsewhere_is_not_written_into() {
    let stage = Stage::new();
    let (file, victim) = (stage.state("ftl.log"), stage.path("victim/store/spool/thesis"));
    fs::hard_link(&victim, &file).unwrap();
    for purpose in [OpenMode::Update, OpenMode::Append] {
        assert_eq!(refusal(open(&file, purpose)), FolderRefusal::HasOtherNames(file.clone()));
    }
    assert_eq!(refusal(write(&file, b"")), FolderRefusal::HasOtherNames(file.clone()));
    replace(&file, b"ours").unwrap();
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
}

#[test]
fn what_was_opened_is_what_is_used() {
    let stage = Stage::new();
    fs::write(stage.state("store/spool/thesis"), "ours").unwrap();
    let folder = Folder::open(&stage.state("store/spool")).unwrap();
    let beside = Beside::write(&stage.state("store/spool/thesis"), b"newer").unwrap();
    fs::rename(stage.state("store/spool"), stage.state("store/moved")).unwrap();
    stage.link("store/spool");
    beside.install().unwrap();
    assert_eq!(fs::read_to_string(stage.state("store/moved/thesis")).unwrap(), "newer");
    folder.remove(OsStr::new("thesis")).unwrap();
    assert!(folder.names().unwrap().is_empty());
    assert_eq!(fs::read_to_string(stage.path("victim/store/spool/thesis")).unwrap(), "mine");
}

#[test]
fn limits_are_kept() {
    let stage = Stage::new();
    let file = stage.state("store/spool/x");
    fs::write(&file, "12345").unwrap();
    assert_eq!(read(&file, 5).unwrap(), b"12345");
    assert_eq!(refusal(read(&file, 4)), FolderRefusal::TooLarge { path: file, most: 4 });
    fs::write(stage.state("store/spool/y"), "").unwrap();
    let folder = Folder::open(&stage.state("store/spool")).unwrap();
    assert_eq!(folder.names_up_to(2).unwrap().len(), 2);
    assert_eq!(refusal(folder.names_up_to(1)), FolderRefusal::TooMany(stage.state("store/spool")));
    assert_eq!(folder.first_names(1).unwrap().len(), 1);
    // One folder too deep: nothing but the deepest could go.
    let mut deep = stage.state("deep");
    fs::create_dir(&deep).unwrap();
    for _ in 0..MAX_DEPTH {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    remove_whole(&stage.state("deep")).unwrap_err();
    fs::remove_dir(&deep).unwrap();
    assert!(remove_whole(&stage.state("deep")).unwrap());
}

#[test]
fn folders_that_may_not_be_written_go_as_well() {
    let stage = Stage::new();
    let inner = stage.state("whole/inner");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("file"), "x").unwrap();
    symlink(stage.path("victim"), inner.join("link")).unwrap();
    for (path, mode) in [(&inner, 0o000), (&stage.state("whole"), 0o500)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    assert!(remove_whole(&stage.state("whole")).unwrap());
    assert!(stage.path("victim/store/spool/thesis").is_file());
}

#[test]
fn folders_are_made_below_the_state_folder_only() {
    let stage = Stage::new();
    make(&stage.state("a/b/c")).unwrap();
    make(&stage.state("a/b/c")).unwrap();
    assert!(is_folder(&stage.state("a/b/c")));
    assert!(make(&stage.path("missing/.ftl/store")).is_err());
    assert_eq!(make_new(&stage.state("a")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(matches!(refusal(read(&stage.state("../x"), 1)), FolderRefusal::NotAFile(_)));
    unnamed(&stage.state("a")).unwrap();
    assert!(names(&stage.state("a")).unwrap().len() == 1 && names(&stage.state("none")).unwrap().is_empty());
}
