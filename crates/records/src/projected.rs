//! Notes that have a copy in `.ftl/`: what each is called, whose it is, and how it is kept.

use std::borrow::Cow;

use super::scope::RecordScope;

/// A note that has a copy.
#[derive(Clone, Debug)]
pub struct Projected {
    /// The kind of the note.
    pub kind: Cow<'static, str>,
    /// The key of the note.
    pub key: Cow<'static, str>,
    /// The file, from the folder of its scope; from `.ftl/` where it belongs to no campaign.
    pub file: Cow<'static, str>,
    /// Whose it is; nothing where it belongs to no campaign.
    pub scope: Option<RecordScope>,
    /// Whether a text can be taken over, and as which; what is wrong with it if not.
    pub(super) check: fn(&str) -> Result<String, String>,
    /// The form in which the note is kept.
    pub form: NoteForm,
}

impl Projected {
    /// Under which name it is remembered what its copy was last, wherever that stands now.
    pub(super) fn copy_name(&self) -> String {
        self.scope.as_ref().map_or_else(|| self.file.to_string(), |scope| scope.copy_name(&self.file))
    }
}

/// How a note is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteForm {
    /// As the copy is, to the byte.
    Text,
    /// As JSON without white space; the copy is laid out for people.
    Json,
    /// The same, with each item of this list in a note of its own. The copy may lag while a run is driven.
    Rows(&'static str),
}
