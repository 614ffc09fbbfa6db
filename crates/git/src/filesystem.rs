//! Moving files without replacing any: what a file system can do, tried before it is needed.
//!
//! Two files change places in one call, or a file gets a name that is free. Both are refused by some file
//! systems (NFS, 9p, some shared folders), so both are tried in a folder of ours first. Nothing here ever
//! writes over a file, and no file in the person's checkout is made for a trial.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ftl_folder::{Folder, NameIn};

/// The calls that move files. Another one than [`LocalFileSystem`] is for tests.
pub trait FileSystem: Send + Sync {
    /// Has two names change places.
    fn exchange(&self, one: &NameIn, other: &NameIn) -> io::Result<()>;

    /// Gives a file another name, if nothing has that name.
    fn rename_new(&self, from: &NameIn, to: &NameIn) -> io::Result<()>;

    /// Gives a file a second name, if nothing has that name.
    fn link(&self, from: &NameIn, to: &NameIn) -> io::Result<()>;

    /// Gives a file another name, whatever has it.
    fn rename(&self, from: &NameIn, to: &NameIn) -> io::Result<()>;
}

/// The file systems of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFileSystem;

impl FileSystem for LocalFileSystem {
    fn exchange(&self, one: &NameIn, other: &NameIn) -> io::Result<()> {
        one.exchange(other)
    }

    fn rename_new(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        from.rename_new(to)
    }

    fn link(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        from.link(to)
    }

    fn rename(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        from.rename(to)
    }
}

/// What the file system of a folder can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ability {
    /// Whether two files can change places.
    pub(super) exchanges: bool,
    /// How a file is put where nothing is.
    pub(super) placing: Placing,
}

/// How a file gets a name without replacing what has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placing {
    /// By a rename that does not replace.
    Rename,
    /// By a second name; the first one goes.
    Link,
}

impl Ability {
    /// Tries what the file system of an empty folder of ours can do; nothing where no file can be placed
    /// without replacing. What was made for the trial is gone afterwards.
    pub(super) fn of(system: &dyn FileSystem, folder: &Folder) -> io::Result<Option<Ability>> {
        let (one, two) = (&folder.spot("one")?, &folder.spot("two")?);
        let (three, four) = (&folder.spot("three")?, &folder.spot("four")?);
        let inode = |spot: &NameIn| spot.metadata().map(|found| found.ino()).ok();
        one.create(0o666)?;
        two.create(0o666)?;
        let before = (inode(one), inode(two));
        let exchanges = system.exchange(one, two).is_ok() && (inode(two), inode(one)) == before;
        let replaces = |moved: io::Result<()>| !matches!(moved, Err(error) if is_taken(&error));
        let renames = system.rename_new(one, three).is_ok() && !replaces(system.rename_new(two, three));
        let links = || system.link(two, four).is_ok() && !replaces(system.link(two, four));
        let placing = match renames {
            true => Some(Placing::Rename),
            false => links().then_some(Placing::Link),
        };
        for spot in [one, two, three, four] {
            match spot.remove() {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(placing.map(|placing| Ability { exchanges, placing }))
    }

    /// Puts a file where nothing is.
    pub(super) fn place(self, system: &dyn FileSystem, from: &NameIn, to: &NameIn) -> io::Result<()> {
        match self.placing {
            Placing::Rename => system.rename_new(from, to),
            Placing::Link => {
                let kind = from.metadata()?.file_type();
                if kind.is_dir() {
                    // A folder takes the place of an empty folder at most.
                    return system.rename(from, to);
                }
                match kind.is_symlink() {
                    true => to.make_link(&from.read_link()?)?,
                    false => system.link(from, to)?,
                }
                from.remove()
            }
        }
    }
}

/// Why files cannot be moved between a folder of ours and one of these; nothing where they can. Only names
/// that no file has are tried: the kernel looks first whether it is one mount, and whether it can be written.
pub(super) fn barrier<'a>(
    system: &dyn FileSystem,
    ours: &Folder,
    folders: &BTreeSet<&'a Path>,
    open: &dyn Fn(&Path) -> io::Result<Folder>,
) -> io::Result<Option<(&'a Path, io::Error)>> {
    let name = format!(".ftl-{:016x}", ftl_folder::id::random()?);
    let from = ours.spot(&name)?;
    let reach = |folder: &Path| -> io::Result<()> {
        let folder = open(folder)?;
        match system.rename(&from, &folder.spot(&name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => folder.check_writable(),
        }
    };
    Ok(folders.iter().find_map(|folder| Some((*folder, reach(folder).err()?))))
}

/// Whether a name could not be given because something has it.
pub(super) fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn this_file_system_can_do_what_it_says_and_nothing_is_left_of_the_trial() {
        let folder = tempfile::tempdir().unwrap();
        let able = Ability::of(&LocalFileSystem, &Folder::open(folder.path()).unwrap()).unwrap().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for placing in [Placing::Rename, Placing::Link] {
            let able = Ability { placing, ..able };
            let at = |name: &str| folder.path().join(format!("{placing:?}-{name}"));
            let spot = |name: &str| NameIn::at(&at(name)).unwrap();
            fs::write(at("file"), "bytes").unwrap();
            std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
            able.place(&LocalFileSystem, &spot("file"), &spot("file 2")).unwrap();
            able.place(&LocalFileSystem, &spot("link"), &spot("link 2")).unwrap();
            assert!(!at("file").exists() && !at("link").is_symlink());
            assert_eq!(fs::read(at("file 2")).unwrap(), b"bytes");
            assert_eq!(fs::read_link(at("link 2")).unwrap(), Path::new("nowhere"));
            for (from, to) in [("file 2", "link 2"), ("link 2", "file 2")] {
                let error = able.place(&LocalFileSystem, &spot(from), &spot(to)).unwrap_err();
                assert!(is_taken(&error), "{error}");
                assert!(fs::symlink_metadata(at(from)).is_ok());
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_reached_is_named_before_anything_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let (here, none) = (folder.path(), folder.path().join("none"));
        let ours = Folder::open(here).unwrap();
        let find = |folders: &BTreeSet<&Path>| {
            let found = barrier(&LocalFileSystem, &ours, folders, &Folder::open).unwrap();
            found.map(|(folder, _)| folder.to_owned())
        };
        assert!(find(&BTreeSet::from([here])).is_none());
        let proc = Path::new("/proc");
        let found = find(&BTreeSet::from([here, proc]));
        assert_eq!(found.as_deref(), Some(proc), "another mount");
        assert!(find(&BTreeSet::from([none.as_path()])).is_some());
    }
}
