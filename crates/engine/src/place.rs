//! The place of a repository's state: the folder `.ftl/` and what stands where in it.
//!
//! Everything that the engine trusts is under `.ftl/store`; agents write under `.ftl/worktrees` and
//! nowhere else. The user's own files are never edited: git is told to look away in the repository's
//! private exclude file. Git itself is never run here.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What git is told to look away from, relative to the folder that holds `.ftl`.
const EXCLUDED: [&str; 2] = ["/.ftl/*", "!/.ftl/protocols/"];

/// The longest private exclude file that is read.
const MAX_EXCLUDE_BYTES: u64 = 4 * 1024 * 1024;

/// The state of a repository on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// The place of the repository in that folder. Nothing is made.
    pub fn at(root: impl Into<PathBuf>) -> Place {
        Place { root: root.into() }
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

    /// Where processes that own runs keep their locks.
    pub fn owners(&self) -> PathBuf {
        self.store().join("owners")
    }

    /// Where attempts keep their locks.
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

    /// Where agents may write.
    pub fn worktrees(&self) -> PathBuf {
        self.state().join("worktrees")
    }

    /// The settings that come with the repository.
    pub fn shared_config(&self) -> PathBuf {
        self.root().join(crate::config::SHARED)
    }

    /// Prompts of the repository's own, in place of the built-in ones.
    pub fn prompts(&self) -> PathBuf {
        self.state().join("prompts")
    }

    /// The settings of this copy of the repository alone.
    pub fn config(&self) -> PathBuf {
        self.state().join("config.toml")
    }

    /// Makes the folders, and has git look away from them. A state folder that is a link is refused:
    /// it may lead to where an agent writes.
    pub fn prepare(&self) -> io::Result<()> {
        for folder in [self.state(), self.store()] {
            if folder.is_symlink() {
                let message = format!("`{}` is a link, not a folder", folder.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        self.is_ours()?;
        for folder in [self.owners(), self.attempts(), self.fences(), self.spool()] {
            fs::create_dir_all(folder)?;
        }
        keep_private(&self.store())?;
        self.exclude().map(|_| ())
    }

    /// A store is its owner's alone; root may look after everybody's.
    fn is_ours(&self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        let (store, us) = (self.store(), rustix::process::geteuid());
        let Ok(found) = fs::symlink_metadata(&store) else { return Ok(()) };
        if us.is_root() || found.uid() == us.as_raw() {
            return Ok(());
        }
        let message = format!("`{}` belongs to another user (number {})", store.display(), found.uid());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
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

/// Only the owner looks into the store.
fn keep_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let now = fs::metadata(folder)?.permissions();
    if now.mode() & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// The git folder whose exclude file counts for a folder, and the path from git's top to the folder,
/// with a slash before each part.
fn git_folder(root: &Path) -> io::Result<Option<(PathBuf, String)>> {
    let root = root.canonicalize()?;
    for folder in root.ancestors() {
        let git = folder.join(".git");
        let Ok(found) = fs::metadata(&git) else { continue };
        let below = root.strip_prefix(folder).unwrap_or(Path::new(""));
        let prefix: String = below.iter().map(|part| format!("/{}", part.to_string_lossy())).collect();
        if found.is_dir() {
            return Ok(Some((git, prefix)));
        }
        // A worktree or a submodule: the file names the folder, and that names the shared one.
        let text = fs::read_to_string(&git)?;
        let Some(named) = text.trim().strip_prefix("gitdir: ") else { return Ok(None) };
        let own = folder.join(named);
        let shared = match fs::read_to_string(own.join("commondir")) {
            Ok(common) => own.join(common.trim()),
            Err(_) => own,
        };
        return Ok(shared.is_dir().then_some((shared, prefix)));
    }
    Ok(None)
}

/// Puts bytes in the place of a file: the old one or the new one, never half of each.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    Beside::write(file, bytes)?.install().map(drop)
}

/// A file that lies on the disk beside the one that it is to replace. It goes away if it does not.
#[derive(Debug)]
pub struct Beside {
    path: PathBuf,
    file: PathBuf,
    mark: String,
    installed: bool,
}

impl Beside {
    /// Writes bytes beside a file, to the disk.
    pub fn write(file: &Path, bytes: &[u8]) -> io::Result<Beside> {
        Beside::made(file, bytes, false)
    }

    /// The same, so that nobody can change it without changing its mark: whoever writes into it later gives it a
    /// later time, also within the same tick of the clock.
    pub fn marked(file: &Path, bytes: &[u8]) -> io::Result<Beside> {
        Beside::made(file, bytes, true)
    }

    fn made(file: &Path, bytes: &[u8], backdated: bool) -> io::Result<Beside> {
        let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
        // A name that nobody else has taken, also no process with our number that was killed.
        let own = crate::id::random()?;
        let path = file.with_file_name(format!(".{name}.{own:016x}.tmp"));
        let mut new = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        let mut beside = Beside { path, file: file.to_owned(), mark: String::new(), installed: false };
        new.write_all(bytes)?;
        if let Ok(before) = fs::metadata(file) {
            new.set_permissions(before.permissions())?;
        }
        if backdated {
            new.set_modified(SystemTime::now() - BACKDATED)?;
        }
        new.sync_all()?;
        beside.mark = mark(&new.metadata()?);
        Ok(beside)
    }

    /// Puts it in the place of the file; what it is known by as long as nobody touches it.
    pub fn install(mut self) -> io::Result<String> {
        fs::rename(&self.path, &self.file)?;
        self.installed = true;
        Ok(std::mem::take(&mut self.mark))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.installed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How far back the time of a file is set that is marked.
const BACKDATED: Duration = Duration::from_secs(1);

/// What a file is known by without reading it: which one it is, how long, and since when.
pub fn mark(found: &fs::Metadata) -> String {
    let time = (found.mtime(), found.mtime_nsec());
    format!("{}:{}:{}:{}.{:09}", found.dev(), found.ino(), found.len(), time.0, time.1)
}
