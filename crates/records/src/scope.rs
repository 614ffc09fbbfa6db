//! Whose records are looked at: the campaign, its workspaces, its exploration and its phase belong to the run that
//! opened them.
//!
//! Notes of a run stand under kinds of their own, so that equal numbers and names of two runs never meet. One of all
//! stands in front: the one opened last that is not complete. Its files stand directly in `.ftl/`, those of
//! every other below `.ftl/campaigns/<run>/`. When another one comes to the front the files are moved, in two steps that
//! are written down, so that the next process after a crash finishes them before anything else is read or written. What
//! commands open themselves, and what versions before this one kept, has no run: its notes stand under the plain kinds.

use std::borrow::Cow;

use ftl_folder::id::RunId;

/// Where the files of campaigns are that do not stand in front.
pub const CAMPAIGNS: &str = "campaigns";

/// The name of what commands have opened.
pub const COMMANDS: &str = "commands";

/// The folder of what explorers and builders leave for their successors.
pub(super) const CACHE: &str = "cache";

/// The folder of workspaces.
pub(super) const WORKSPACES: &str = "workspace";

/// Whose records they are: a run's, or those of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordScope(pub(super) Option<String>);

impl RecordScope {
    pub(super) fn read(name: &str) -> RecordScope {
        RecordScope((!name.is_empty() && name != COMMANDS).then(|| name.to_owned()))
    }

    /// The name of its folder, and under which it is known.
    pub fn name(&self) -> &str {
        self.0.as_deref().unwrap_or(COMMANDS)
    }

    /// The kind of its notes.
    pub(super) fn kind(&self, plain: &'static str) -> Cow<'static, str> {
        match &self.0 {
            None => Cow::Borrowed(plain),
            Some(run) => Cow::Owned(format!("{plain}@{run}")),
        }
    }

    /// Under which name it is remembered what a copy was last, wherever the file stands now.
    pub(super) fn copy_name(&self, file: &str) -> String {
        match &self.0 {
            None => file.to_owned(),
            Some(run) => format!("{CAMPAIGNS}/{run}/{file}"),
        }
    }
}

/// Which records a command or a run works with.
#[derive(Clone, Debug, Default)]
pub(super) enum View {
    /// The records that stand in front.
    #[default]
    Front,
    /// Those of a run, once it has opened some.
    Run(RunId),
    /// The records that a person named.
    Named(RecordScope),
}
