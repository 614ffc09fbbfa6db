//! The place of a repository's state: the folder `.ftl/`, and where each file of it is.
//!
//! Everything that the engine trusts is under `.ftl/store`; agents write under `.ftl/worktrees` and
//! nowhere else. The user's own files are never edited: git is told to look away in the repository's
//! private exclude file. Git itself is never run here.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{self as folder, FileKind, Folder, FolderRefusal, tracked};
pub use crate::{Beside, mark, replace};

/// The settings that a repository shares, in its root.
pub const SHARED: &str = "ftl.toml";

/// What git is told to look away from, relative to the folder that holds `.ftl`.
const EXCLUDED: [&str; 2] = ["/.ftl/*", "!/.ftl/protocols/"];

/// Every folder below `.ftl` that is written, read or looked through. None of them may be a link.
const FOLDERS: [&str; 32] = [
    "store",
    "store/attempts",
    "store/copies",
    "store/fences",
    "store/git",
    "store/git/chamber",
    "store/git/chamber/info",
    "store/git/chamber/objects",
    "store/git/chamber/refs",
    "store/git/index",
    "store/git/locks",
    "store/git/moving",
    "store/git/runs",
    "store/git/stood",
    "store/git/transfers",
    "store/git/trash",
    "store/git/worktrees",
    "store/owners",
    "store/scripts",
    "store/snapshots",
    "store/spool",
    "store/talks",
    "store/tasks",
    "archive",
    "benchmark",
    "cache",
    "campaigns",
    "prompts",
    "protocols",
    "tasks",
    "workspace",
    "worktrees",
];

/// Files of the store: other programs' code opens them by their path, all but the last.
const FILES: [&str; 5] =
    [DATABASE, "store/ftl.db-wal", "store/ftl.db-shm", "store/ftl.db-journal", "store/heads"];

/// The file of the store's database.
const DATABASE: &str = "store/ftl.db";

/// The longest private exclude file that is read.
const MAX_EXCLUDE_BYTES: u64 = 4 * 1024 * 1024;

/// The state of a repository on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder {
    root: PathBuf,
}

impl StateFolder {
    /// The place of the repository in that folder. Nothing is made.
    pub fn at(root: impl Into<PathBuf>) -> StateFolder {
        StateFolder { root: root.into() }
    }

    /// The folder of the repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder `.ftl`.
    pub fn state(&self) -> PathBuf {
        self.root.join(".ftl")
    }

    /// Where the store is: what the engine trusts.
    pub fn store(&self) -> PathBuf {
        self.state().join("store")
    }

    /// The file that the store is in.
    pub fn database(&self) -> PathBuf {
        self.state().join(DATABASE)
    }

    /// Where processes that own runs keep their locks.
    pub fn owners(&self) -> PathBuf {
        self.store().join("owners")
    }

    /// The folder in which attempts keep their locks.
    pub fn attempts(&self) -> PathBuf {
        self.store().join("attempts")
    }

    /// Where the fences of runs are that were taken over.
    pub fn fences(&self) -> PathBuf {
        self.store().join("fences")
    }

    /// Where output is kept until it is in the store.
    pub fn spool(&self) -> PathBuf {
        self.store().join("spool")
    }

    /// The folder of worktrees, where agents may write.
    pub fn worktrees(&self) -> PathBuf {
        self.state().join("worktrees")
    }

    /// The settings that come with the repository.
    pub fn shared_config(&self) -> PathBuf {
        self.root().join(SHARED)
    }

    /// Prompts of the repository's own, in place of the built-in ones.
    pub fn prompts(&self) -> PathBuf {
        self.state().join("prompts")
    }

    /// The settings of this copy of the repository alone.
    pub fn config(&self) -> PathBuf {
        self.state().join("config.toml")
    }

    /// Every folder below `.ftl` that is written, whether it is there or not, and `.ftl` itself.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let state = self.state();
        std::iter::once(state.clone()).chain(FOLDERS.iter().map(move |part| state.join(part)))
    }

    /// Makes the folders, and has git look away from them. A state folder that is a link is refused:
    /// it may lead to where an agent writes.
    pub fn prepare(&self) -> io::Result<()> {
        self.check()?;
        self.is_ours()?;
        for folder in [self.owners(), self.attempts(), self.fences(), self.spool()] {
            folder::make(&folder)?;
        }
        keep_private(&self.store())?;
        self.exclude().map(|_| ())
    }

    /// Looks whether the files below `.ftl` may be used at all: no part of the way is a link, and git tracks nothing
    /// that only `ftl` writes. It is for a clear word before anything is done; whatever is opened later is opened
    /// without following a link all the same. Nothing is made.
    pub fn check(&self) -> io::Result<()> {
        let state = match Folder::open(&self.state()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            state => state?,
        };
        for part in FOLDERS {
            match state.glance(part)? {
                None | Some(FileKind::Folder) => {}
                Some(FileKind::Link) => return Err(FolderRefusal::Link(self.state().join(part)).into()),
                Some(FileKind::File { .. } | FileKind::Other) => {
                    return Err(FolderRefusal::NotAFolder(self.state().join(part)).into());
                }
            }
        }
        for part in FILES {
            let path = || self.state().join(part);
            match state.glance(part)? {
                // A log is written over where it stands, whatever it holds.
                Some(FileKind::File { has_other_names: true }) if part != DATABASE => {
                    return Err(FolderRefusal::HasOtherNames(path()).into());
                }
                None | Some(FileKind::File { .. }) => {}
                Some(FileKind::Link) => return Err(FolderRefusal::Link(path()).into()),
                Some(FileKind::Folder | FileKind::Other) => {
                    return Err(FolderRefusal::NotAFile(path()).into());
                }
            }
        }
        self.check_tracked()
    }

    /// Looks whether the settings of this copy are the person's who asks: a file of their own, and no link to another
    /// one. That git does not track them is a part of `check`.
    pub fn check_config(&self) -> io::Result<()> {
        let path = self.config();
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if found.is_symlink() {
            return Err(FolderRefusal::Link(path).into());
        }
        let user = found.uid();
        if user != rustix::process::geteuid().as_raw() {
            return Err(FolderRefusal::Foreign { path, user }.into());
        }
        Ok(())
    }

    /// Git must not track what only `ftl` writes. A list of git's that cannot be read here tells nothing, and git
    /// itself will say what is wrong with it.
    fn check_tracked(&self) -> io::Result<()> {
        let Some((git, prefix)) = own_git_folder(&self.root)? else { return Ok(()) };
        match tracked::find(&git, &prefix) {
            Ok(Some(found)) => Err(FolderRefusal::Tracked(found).into()),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// What is written here is its owner's alone, also for root: what root makes, its owner cannot change.
    fn is_ours(&self) -> io::Result<()> {
        match self.stranger() {
            Some(owner) => Err(io::Error::new(io::ErrorKind::PermissionDenied, owner.to_string())),
            None => Ok(()),
        }
    }

    /// The user that the state belongs to, where that is another one. Where there is no store yet, root does
    /// not make one in a repository of another user.
    pub fn stranger(&self) -> Option<Stranger> {
        let us = rustix::process::geteuid();
        let owner = |path: PathBuf| Some((fs::symlink_metadata(&path).ok()?.uid(), path));
        let elsewhere = || owner(self.root.join(".git")).or_else(|| owner(self.root.clone()));
        let made = || owner(self.state()).or_else(elsewhere).filter(|_| us.is_root());
        let (user, path) = owner(self.store()).or_else(made)?;
        let owns_root = owner(self.root.clone()).is_some_and(|(user, _)| user == us.as_raw());
        (user != us.as_raw()).then(|| Stranger { path, user, asker: us.as_raw(), owns_root })
    }

    /// Has git look away from the state; whether anything had to be written.
    pub fn exclude(&self) -> io::Result<bool> {
        let Some((git, prefix)) = git_folder(&self.root)? else { return Ok(false) };
        let wanted = EXCLUDED.map(|line| match line.strip_prefix('!') {
            Some(rest) => format!("!{prefix}{rest}"),
            None => format!("{prefix}{line}"),
        });
        let file = git.join("info").join("exclude");
        let before = match fs::metadata(&file) {
            Ok(found) if found.len() > MAX_EXCLUDE_BYTES => return Ok(false),
            Ok(_) => fs::read(&file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let has = |line: &String| before.split(|byte| *byte == b'\n').any(|one| one == line.as_bytes());
        if wanted.iter().all(has) {
            return Ok(false);
        }
        let mut after = before.clone();
        if !after.is_empty() && !after.ends_with(b"\n") {
            after.push(b'\n');
        }
        for line in wanted.iter().filter(|line| !has(line)) {
            after.extend_from_slice(line.as_bytes());
            after.push(b'\n');
        }
        fs::create_dir_all(git.join("info"))?;
        replace(&file, &after)?;
        Ok(true)
    }

    /// Whether git looks away from the state, or need not because there is no git.
    pub fn is_excluded(&self) -> io::Result<bool> {
        let Some((git, prefix)) = git_folder(&self.root)? else { return Ok(true) };
        let text = fs::read(git.join("info").join("exclude")).unwrap_or_default();
        let line = format!("{prefix}{}", EXCLUDED[0]);
        Ok(text.split(|byte| *byte == b'\n').any(|one| one == line.as_bytes()))
    }
}

/// A state that belongs to another user than the one who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// The path that belongs to them.
    pub path: PathBuf,
    /// The number of the user.
    pub user: u32,
    /// The number of the user who asks.
    pub asker: u32,
    /// Whether the folder around it belongs to the one who asks.
    pub owns_root: bool,
}

impl Stranger {
    /// What the user who asked can do.
    pub fn hint(&self) -> String {
        let number = self.user;
        if self.asker == 0 {
            let name = user_name(number).unwrap_or_else(|| format!("'#{number}'"));
            return format!(
                "say `sudo -u {name} ftl …`, or in a container start it with `--user {number}`; looking works \
                 as root too"
            );
        }
        if self.owns_root {
            let name = user_name(self.asker).unwrap_or_else(|| self.asker.to_string());
            return format!(
                "only its owner may write it; `sudo chown -R {name} .ftl .git` gives it back to you"
            );
        }
        String::from("only its owner may write it; use a repository of your own")
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` belongs to another user (number {})", self.path.display(), self.user)
    }
}

/// The name of a user of this machine, if its list says so.
fn user_name(number: u32) -> Option<String> {
    let list = fs::read_to_string("/etc/passwd").ok()?;
    let named = |line: &str| {
        let mut fields = line.split(':');
        let (name, user) = (fields.next()?, fields.nth(1)?);
        (user.parse() == Ok(number)).then(|| name.to_owned())
    };
    list.lines().find_map(named)
}

/// Only the owner looks into the store.
fn keep_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::open(path)?;
    if folder.own_metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    folder.set_mode(0o700)
}

/// The git folder whose exclude file counts for a folder, and the path from git's top to the folder,
/// with a slash before each part.
fn git_folder(root: &Path) -> io::Result<Option<(PathBuf, String)>> {
    let Some((own, prefix)) = own_git_folder(root)? else { return Ok(None) };
    // A worktree names the folder that it shares with others.
    let shared = match fs::read_to_string(own.join("commondir")) {
        Ok(common) => own.join(common.trim()),
        Err(_) => own,
    };
    Ok(shared.is_dir().then_some((shared, prefix)))
}

/// The git folder of a folder's own checkout, and the path from git's top to the folder.
fn own_git_folder(root: &Path) -> io::Result<Option<(PathBuf, String)>> {
    let root = root.canonicalize()?;
    for folder in root.ancestors() {
        let git = folder.join(".git");
        let Ok(found) = fs::metadata(&git) else { continue };
        let below = root.strip_prefix(folder).unwrap_or(Path::new(""));
        let prefix: String = below.iter().map(|part| format!("/{}", part.to_string_lossy())).collect();
        if found.is_dir() {
            return Ok(Some((git.canonicalize()?, prefix)));
        }
        // A worktree or a submodule: the file names the folder.
        let text = fs::read_to_string(&git)?;
        let Some(named) = text.trim().strip_prefix("gitdir: ") else { return Ok(None) };
        let own = folder.join(named);
        return Ok(own.is_dir().then_some((own, prefix)));
    }
    Ok(None)
}
