//! The shelf: the documents that a command is about, read from the disk and checked together.
//!
//! Built-in ones first, then the user's, then files named on the command line. A document that
//! cannot be read is named and left out; it never hides the others.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ftl_core::catalogue::Catalogue;
use ftl_core::nearest::nearest;
use ftl_folder::{self as folder, FolderRefusal};
use ftl_language::library::{BUILT_IN, Library, Protocol, built_in_sources};
use ftl_language::source::{DocumentOrigin, MAX_DOCUMENT_BYTES, SourceDocument};

use crate::args::GlobalArgs;
use crate::failure::CommandError;
use crate::root;

/// How many documents a user's folder may hold.
const MAX_USER_DOCUMENTS: usize = 500;

/// The document or the protocol that an argument names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolArg {
    /// A protocol of the library.
    Name(String),
    /// A document by its path.
    File(PathBuf),
}

impl ProtocolArg {
    /// A path that exists, ends in `.md` or holds a slash is a file; all else is a name. A folder
    /// that happens to have a protocol's name does not get in its way.
    pub fn parse(word: &OsStr, is_protocol: impl Fn(&str) -> bool) -> ProtocolArg {
        let path = Path::new(word);
        let Some(name) = word.to_str() else { return ProtocolArg::File(path.to_owned()) };
        let looks_like_path = name.contains('/') || name.ends_with(".md");
        let exists = !name.is_empty() && path.exists() && !(path.is_dir() && is_protocol(name));
        if looks_like_path || exists {
            ProtocolArg::File(path.to_owned())
        } else {
            ProtocolArg::Name(name.to_owned())
        }
    }
}

/// A document that could not be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Its path, as messages show it.
    pub path: String,
    /// Why it could not be read, with a hint.
    pub failure: CommandError,
}

impl Unreadable {
    /// The name that the file name promises.
    pub fn stem(&self) -> &str {
        let file = self.path.rsplit('/').next().unwrap_or(&self.path);
        file.strip_suffix(".md").unwrap_or(file)
    }
}

/// The documents of a command.
pub struct LoadedProtocols {
    /// All protocols, checked together.
    pub library: Library,
    /// Documents of the user's folder that could not be read.
    pub left_out: Vec<Unreadable>,
    /// Where each source is on the disk, by its place in the library.
    paths: Vec<Option<PathBuf>>,
}

/// What a command was asked about, found.
pub enum LoadedTarget {
    /// A protocol, by its name.
    Protocol(String),
    /// A document that defines no protocol, by its place in the library.
    OrphanDocument(u32),
    /// A document that could not be read.
    Unreadable(Unreadable),
}

impl LoadedProtocols {
    /// Every protocol of the repository.
    pub fn load(cli: &GlobalArgs) -> Result<LoadedProtocols, CommandError> {
        Ok(LoadedProtocols::with(cli, &[])?.0)
    }

    /// Every protocol of the repository and what the arguments name.
    pub fn with(
        cli: &GlobalArgs,
        words: &[OsString],
    ) -> Result<(LoadedProtocols, Vec<LoadedTarget>), CommandError> {
        let mut stack = Stack::new();
        stack.user_documents(&root_of(cli)?);
        let known: Vec<String> = stack.sources.iter().map(|source| source.stem().to_owned()).collect();
        let is_protocol = |name: &str| known.iter().any(|one| one == name);
        let asked: Vec<ProtocolArg> =
            words.iter().map(|word| ProtocolArg::parse(word, is_protocol)).collect();
        let placed: Vec<Placed> = asked.into_iter().map(|one| stack.place(one)).collect();
        let library = Library::load(stack.sources, Catalogue::standard());
        let loaded = LoadedProtocols { library, left_out: stack.left_out, paths: stack.paths };
        let found = placed.into_iter().map(|one| loaded.find(one)).collect::<Result<Vec<_>, _>>()?;
        Ok((loaded, found))
    }

    /// The file that a protocol was read from; none for a built-in one.
    pub fn path(&self, protocol: &Protocol) -> Option<&Path> {
        self.paths.get(protocol.file as usize)?.as_deref()
    }

    /// The document that a protocol was read from.
    pub fn source(&self, protocol: &Protocol) -> &SourceDocument {
        &self.library.sources()[protocol.file as usize]
    }

    fn find(&self, placed: Placed) -> Result<LoadedTarget, CommandError> {
        match placed {
            Placed::Nowhere(unreadable) => Ok(LoadedTarget::Unreadable(unreadable)),
            Placed::At(file) => {
                let own = self.library.names().find(|(_, one)| *one == file);
                Ok(own.map_or(LoadedTarget::OrphanDocument(file), |(name, _)| {
                    LoadedTarget::Protocol(name.to_string())
                }))
            }
            Placed::Called(name) => self.find_name(&name),
        }
    }

    /// A user's document speaks for its name even when it cannot be read or defines nothing: the
    /// built-in one it was meant to replace is not what was asked for.
    pub fn find_name(&self, name: &str) -> Result<LoadedTarget, CommandError> {
        if let Some(unreadable) = self.left_out.iter().find(|one| one.stem() == name) {
            return Ok(LoadedTarget::Unreadable(unreadable.clone()));
        }
        let stem = |file: u32| self.library.sources()[file as usize].stem();
        if let Some((file, _)) = self.library.strays().iter().find(|(file, _)| stem(*file) == name) {
            return Ok(LoadedTarget::OrphanDocument(*file));
        }
        match self.library.names().any(|(known, _)| &**known == name) {
            true => Ok(LoadedTarget::Protocol(name.to_owned())),
            false => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> CommandError {
        let names: Vec<&str> = self.library.names().map(|(name, _)| &**name).collect();
        let list = format!("the protocols are {}", names.join(", "));
        let hint = match nearest(name, &names) {
            Some(near) => format!("did you mean `{near}`? {list}"),
            None => format!("{list}; a file is named by its path, such as `./{name}.md`"),
        };
        CommandError::new(format!("there is no protocol `{name}`"), hint)
    }
}

/// Whether a built-in protocol has that name.
pub fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(built_in, _)| *built_in == name)
}

/// An argument, once its file is read.
enum Placed {
    Called(String),
    At(u32),
    Nowhere(Unreadable),
}

/// Documents on their way into a library.
struct Stack {
    sources: Vec<SourceDocument>,
    paths: Vec<Option<PathBuf>>,
    left_out: Vec<Unreadable>,
}

impl Stack {
    fn new() -> Stack {
        let sources = built_in_sources();
        Stack { paths: vec![None; sources.len()], sources, left_out: Vec::new() }
    }

    fn push(&mut self, path: &Path, origin: DocumentOrigin) -> Result<u32, Unreadable> {
        let shown = display_path(path);
        let text = read(path, origin).map_err(|failure| Unreadable { path: shown.clone(), failure })?;
        self.sources.push(SourceDocument::new(shown, origin, text));
        self.paths.push(Some(path.to_owned()));
        Ok((self.sources.len() - 1) as u32)
    }

    fn place(&mut self, asked: ProtocolArg) -> Placed {
        match asked {
            ProtocolArg::Name(name) => Placed::Called(name),
            ProtocolArg::File(path) => self.push_once(&path).map_or_else(Placed::Nowhere, Placed::At),
        }
    }

    /// A file that is named twice, or that stands in the user's folder, is one document.
    fn push_once(&mut self, path: &Path) -> Result<u32, Unreadable> {
        let real = path.canonicalize().ok();
        let is_same = |known: &Option<PathBuf>| {
            real.is_some() && known.as_ref().and_then(|known| known.canonicalize().ok()) == real
        };
        match self.paths.iter().position(is_same) {
            Some(file) => Ok(file as u32),
            None => self.push(path, DocumentOrigin::File),
        }
    }

    fn user_documents(&mut self, root: &Path) {
        let folder = root.join(root::STATE_FOLDER).join("protocols");
        let paths = match list(&folder) {
            Ok(paths) => paths,
            Err(failure) => {
                self.left_out.push(Unreadable { path: display_path(&folder), failure });
                return;
            }
        };
        for path in paths {
            if let Err(unreadable) = self.push(&path, DocumentOrigin::User) {
                self.left_out.push(unreadable);
            }
        }
    }
}

/// The folder that a command is about.
pub fn root_of(cli: &GlobalArgs) -> Result<PathBuf, CommandError> {
    let current = std::env::current_dir().map_err(|error| {
        CommandError::new(format!("the current folder cannot be read: {error}"), "go to a folder that exists")
    })?;
    root::find(cli.repo.as_deref(), &current)
}

/// The documents of a user's folder, by name. Names that begin with a dot are an editor's business.
fn list(above: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let mut paths = Vec::new();
    for name in folder::names(above).map_err(|error| cannot_read(above, &error))? {
        let shown = name.to_string_lossy();
        if shown.ends_with(".md") && !shown.starts_with('.') {
            paths.push(above.join(&name));
        }
    }
    if paths.len() > MAX_USER_DOCUMENTS {
        let message = format!("`{}` holds {} documents", display_path(above), paths.len());
        return Err(CommandError::new(message, format!("{MAX_USER_DOCUMENTS} is the most that are read")));
    }
    paths.sort();
    Ok(paths)
}

/// The text of a document. A user's document must be an ordinary file; one that is named on the
/// command line may also be a pipe.
fn read(path: &Path, origin: DocumentOrigin) -> Result<String, CommandError> {
    let most = MAX_DOCUMENT_BYTES as u64;
    let read = match origin {
        DocumentOrigin::User => folder::read(path, most),
        DocumentOrigin::BuiltIn | DocumentOrigin::File => folder::read_named(path, most),
    };
    let bytes = read.map_err(|error| cannot_read(path, &error))?;
    String::from_utf8(bytes).map_err(|error| not_text(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> CommandError {
    if let Some(refusal) = FolderRefusal::of(error) {
        return explain_refusal(path, refusal);
    }
    let shown = display_path(path);
    match error.kind() {
        ErrorKind::IsADirectory => is_folder(path),
        ErrorKind::NotFound if path.is_symlink() => CommandError::new(
            format!("`{shown}` is a link that leads nowhere"),
            "mend the link, or remove it",
        ),
        ErrorKind::NotFound => CommandError::new(
            format!("there is no file `{shown}`"),
            "a file is named by its path from here; `ftl protocols` lists the names that work everywhere",
        ),
        ErrorKind::PermissionDenied => CommandError::new(
            format!("`{shown}` may not be read"),
            "change its permissions, or run as somebody who may",
        ),
        _ => CommandError::new(format!("`{shown}` cannot be read: {error}"), "see what stands there"),
    }
}

/// What is below `.ftl` and is not read, or is too large to be.
fn explain_refusal(path: &Path, refusal: &FolderRefusal) -> CommandError {
    match refusal {
        FolderRefusal::NotAFile(_) if path.is_dir() => is_folder(path),
        FolderRefusal::NotAFile(_) => {
            let message = format!("`{}` is not an ordinary file", display_path(path));
            CommandError::new(message, "put a Markdown document there")
        }
        FolderRefusal::Link(link) => {
            let message = format!("`{}` is a link, and is not followed", display_path(link));
            CommandError::new(message, "nothing below .ftl may be a link: put the document itself there")
        }
        FolderRefusal::TooLarge { .. } => {
            let message = format!("`{}` has more than {} KiB", display_path(path), MAX_DOCUMENT_BYTES / 1024);
            CommandError::new(message, "a protocol is a document that people read; make it smaller")
        }
        FolderRefusal::NotAFolder(_)
        | FolderRefusal::HasOtherNames(_)
        | FolderRefusal::TooMany(_)
        | FolderRefusal::Foreign { .. }
        | FolderRefusal::Tracked(_) => {
            CommandError::new(format!("`{}` cannot be read: {refusal}", display_path(path)), refusal.hint())
        }
    }
}

fn is_folder(path: &Path) -> CommandError {
    let shown = display_path(path);
    let shown = shown.trim_end_matches('/');
    CommandError::new(
        format!("`{shown}` is a folder, not a document"),
        format!("name the documents in it, such as `{shown}/*.md`"),
    )
}

fn not_text(path: &Path, error: &std::string::FromUtf8Error) -> CommandError {
    let at = error.utf8_error().valid_up_to();
    let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = format!("`{}` is not UTF-8 text: line {line}, byte {at}", display_path(path));
    CommandError::new(message, "save it as UTF-8")
}

/// A path as people see it: from the current folder where it is below it.
fn display_path(path: &Path) -> String {
    let current = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&current).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_name_or_a_file() {
        let asked = |word: &str| ProtocolArg::parse(OsStr::new(word), |name| name == "src");
        let name = |word: &str| ProtocolArg::Name(word.into());
        let file = |word: &str| ProtocolArg::File(word.into());
        assert_eq!(asked("builder"), name("builder"));
        assert_eq!(asked("builder.md"), file("builder.md"));
        assert_eq!(asked("x/builder"), file("x/builder"));
        assert_eq!(asked("Cargo.toml"), file("Cargo.toml"));
        assert_eq!(asked("src"), name("src"));
        assert_eq!(asked(""), name(""));
    }
}
