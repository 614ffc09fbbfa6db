//! The folder of git that whoever works in a sandbox has instead of the repository's.
//!
//! It stands where the worktree's `.git` file points, inside the sandbox alone. Its commits are its own: nothing in it
//! can move a ref, run a hook or set a configuration of the repository, whose objects it only reads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ftl_folder as folder;

/// The largest file that is copied: an index of some 100,000 files.
const MAX_INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// The largest file that only says something in a line or two.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The file that says from which commit the folder was made.
const BASE: &str = "ftl-base";

/// A folder of git for a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideGit {
    /// Where it is.
    pub folder: PathBuf,
    /// Where it stands inside.
    pub at: PathBuf,
    /// The folders with objects that it reads.
    pub objects: Vec<PathBuf>,
}

/// The folder of git for a sandbox in a worktree, made in the store where it is not there or is of another commit.
/// Nothing where that is no worktree of the repository.
pub fn prepare(common: &Path, store: &Path, tree: &Path) -> io::Result<Option<InsideGit>> {
    let Some(name) = tree.file_name() else { return Ok(None) };
    let at = common.join("worktrees").join(name);
    let points = fs::read_to_string(at.join("gitdir")).unwrap_or_default();
    let is_its = Path::new(points.trim()).parent().and_then(|place| place.canonicalize().ok());
    if is_its.is_none_or(|place| place != tree) {
        return Ok(None);
    }
    let made = store.join("git").join("inside").join(name);
    let head = read_line(&at.join("HEAD"))?;
    let base = folder::read_to_string(&made.join(BASE), MAX_LINE_BYTES).unwrap_or_default();
    if base != head {
        make(&made, common, &at, &head)?;
    }
    let own = common.join("objects");
    let further = fs::read_to_string(own.join("info/alternates")).unwrap_or_default();
    let further = further.lines().map(|line| own.join(line.trim())).filter(|path| path.is_dir());
    let objects = std::iter::once(own.clone()).chain(further).collect();
    Ok(Some(InsideGit { folder: made, at, objects }))
}

fn make(made: &Path, common: &Path, at: &Path, head: &str) -> io::Result<()> {
    for name in ["refs/heads", "objects/info", "objects/pack", "info"] {
        folder::make(&made.join(name))?;
    }
    let put = |name: &str, bytes: &[u8]| ftl_folder::state_folder::replace(&made.join(name), bytes);
    put("config", config(common).as_bytes())?;
    put("objects/info/alternates", format!("{}\n", common.join("objects").display()).as_bytes())?;
    put("HEAD", head.as_bytes())?;
    let exclude = common.join("info/exclude");
    if let Ok(text) = read_line(&exclude) {
        put("info/exclude", text.as_bytes())?;
    }
    let index = at.join("index");
    if fs::metadata(&index).is_ok_and(|seen| seen.len() <= MAX_INDEX_BYTES) {
        put("index", &fs::read(index)?)?;
    }
    put(BASE, head.as_bytes())
}

/// The format of the objects is the repository's; nothing else of its configuration is.
fn config(common: &Path) -> String {
    let theirs = fs::read_to_string(common.join("config")).unwrap_or_default().to_ascii_lowercase();
    let is_long = theirs.lines().any(|line| line.replace(' ', "").trim() == "objectformat=sha256");
    let version = u8::from(is_long);
    let format = if is_long { "[extensions]\n\tobjectFormat = sha256\n" } else { "" };
    format!("[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n{format}")
}

fn read_line(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() > MAX_LINE_BYTES {
        return Err(io::Error::other(format!("{} is too long", file.display())));
    }
    fs::read_to_string(file)
}
