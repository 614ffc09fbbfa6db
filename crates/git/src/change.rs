//! What a piece of work changed, file by file, with both sides: what gates look at.
//!
//! It is plain data: it was read out of git's objects once, and nothing here looks at a disk again.

/// What differs between a base and a piece of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The files that differ, in the order of their paths.
    pub files: Vec<FileChange>,
}

/// One file that differs. A file that was renamed is one that is gone and one that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The path from the root of the repository, with forward slashes. A name that is no UTF-8 is shown
    /// with replacement characters: such a file is inside no delta.
    pub path: String,
    /// The file in the base; `None` where it is new.
    pub before: Option<Content>,
    /// The file in the work; `None` where it is gone.
    pub after: Option<Content>,
}

/// A file of a tree: its kind and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The kind of entry.
    pub kind: EntryKind,
    /// The bytes of a file, the target of a link, the name of a submodule's commit; nothing where it is
    /// larger than [`MAX_CONTENT_BYTES`].
    pub bytes: Option<Vec<u8>>,
}

/// The largest file whose bytes are looked at.
pub const MAX_CONTENT_BYTES: u64 = 8 * 1024 * 1024;

/// The kinds of things that git keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file that cannot be run.
    File,
    /// A file that can be run.
    Executable,
    /// A symbolic link; its content is its target.
    Link,
    /// A commit of another repository.
    Submodule,
}

impl Content {
    /// What it says, where it is text.
    pub fn text(&self) -> Option<&str> {
        self.bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

impl FileChange {
    /// Whether there was nothing at that path before.
    pub fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Whether there is nothing at that path any more.
    pub fn is_gone(&self) -> bool {
        self.after.is_none()
    }
}
