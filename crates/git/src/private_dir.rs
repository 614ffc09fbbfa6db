//! The chamber: a git folder of our own that sees a repository's objects and nothing else of it.
//!
//! What is written here goes to objects of our own, which a person's `git gc` knows nothing of. Git runs filters, drivers and monitors because a configuration names them. Here there is one, ours,
//! and it names none. Attributes are switched off by a file that wins over all others, so bytes go into
//! objects and come out of them as they are.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::error::At as _;
use super::runner::Call;
use super::{ErrorKind, GitError};

/// What every path is: bytes, whatever an attributes file says.
const ATTRIBUTES: &[u8] =
    b"* -text !eol -filter -ident !working-tree-encoding !diff !merge -export-subst !whitespace\n";

/// The variable that says where objects are that are read and not written.
const THEIRS: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";

/// The longest exclude file of a person that is taken over.
const MAX_EXCLUDE_BYTES: u64 = 4 * 1024 * 1024;

/// What is ignored besides what the files of a worktree say.
pub(super) struct Rules {
    /// From the top of the checkout to the folder that holds `.ftl`.
    pub(super) prefix: PathBuf,
    /// What the person has git ignore everywhere.
    pub(super) ignored: Option<PathBuf>,
}

/// The git folder of our own.
#[derive(Clone, Debug)]
pub(super) struct Chamber {
    home: PathBuf,
    folder: PathBuf,
    /// The repository's objects, as git is told of them.
    theirs: OsString,
    shallow: Option<PathBuf>,
    digits: usize,
}

impl Chamber {
    /// Makes what is missing.
    pub(super) fn prepare(
        home: &Path,
        common: &Path,
        format: &str,
        rules: &Rules,
    ) -> Result<Chamber, GitError> {
        let folder = home.join("chamber");
        for name in ["info", "refs", "objects"] {
            let one = folder.join(name);
            ftl_folder::make(&one).at(&one)?;
        }
        let config = format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = {format}\n"
        );
        put(&folder.join("config"), config.as_bytes())?;
        put(&folder.join("HEAD"), b"ref: refs/heads/none\n")?;
        put(&folder.join("info/attributes"), ATTRIBUTES)?;
        put(&folder.join("info/exclude"), &excluded(common, rules)?)?;
        let shallow = Some(common.join("shallow")).filter(|file| file.is_file());
        let theirs = quote_path(&common.join("objects"));
        let digits = if format == "sha256" { 64 } else { 40 };
        Ok(Chamber { home: home.to_owned(), folder, theirs, shallow, digits })
    }

    /// Where everything of the git layer is that the engine trusts.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The git folder itself.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of our objects.
    pub(super) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// What git calls an object that is not there.
    pub(super) fn nothing(&self) -> String {
        "0".repeat(self.digits)
    }

    /// A call of git that reads and writes objects of the private git folder.
    pub(super) fn call<'a>(&self, folder: &Path) -> Call<'a> {
        let call = Call::new(folder)
            .var("GIT_DIR", &self.folder)
            .var("GIT_OBJECT_DIRECTORY", self.objects())
            .var(THEIRS, &self.theirs)
            .var("GIT_CEILING_DIRECTORIES", "/");
        match &self.shallow {
            Some(file) => call.var("GIT_SHALLOW_FILE", file),
            None => call,
        }
    }
}

/// The same call where only our own objects are seen: what it writes is written, also where the repository has it
/// already. It may have it from an agent, under no ref, and lose it.
pub(super) fn apart(call: Call<'_>) -> Call<'_> {
    call.var(THEIRS, "")
}

/// A folder as git reads it among several: a colon would end it, so such a one is put in quotes.
fn quote_path(folder: &Path) -> OsString {
    let bytes = folder.as_os_str().as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b':' | b'"' | b'\n')) {
        return folder.as_os_str().to_owned();
    }
    let mut text = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            other => text.push(*other),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// What the person has git ignore everywhere and here, and our state.
fn excluded(common: &Path, rules: &Rules) -> Result<Vec<u8>, GitError> {
    let mut lines = match &rules.ignored {
        Some(file) => lines_of(file)?,
        None => Vec::new(),
    };
    lines.extend_from_slice(&lines_of(&common.join("info/exclude"))?);
    let prefix: String = rules.prefix.iter().map(|part| format!("/{}", part.to_string_lossy())).collect();
    lines.extend_from_slice(format!("{prefix}/.ftl/*\n!{prefix}/.ftl/protocols/\n").as_bytes());
    Ok(lines)
}

/// The lines of a file; none where it is not there.
fn lines_of(file: &Path) -> Result<Vec<u8>, GitError> {
    match fs::metadata(file) {
        Ok(found) if found.len() > MAX_EXCLUDE_BYTES => {
            let message = format!("`{}` is larger than {MAX_EXCLUDE_BYTES} bytes", file.display());
            Err(GitError::new(ErrorKind::TooMuch, message))
        }
        Ok(found) if found.is_file() => {
            let mut lines = fs::read(file).at(file)?;
            lines.push(b'\n');
            Ok(lines)
        }
        Ok(_) | Err(_) => Ok(Vec::new()),
    }
}

/// Has a file say something. What a power cut takes away is written again when the repository is opened next, so
/// the caller does not wait for the disk.
fn put(file: &Path, bytes: &[u8]) -> Result<(), GitError> {
    let most = bytes.len() as u64;
    if ftl_folder::read(file, most).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    ftl_folder::replace_soon(file, bytes).at(file)
}
