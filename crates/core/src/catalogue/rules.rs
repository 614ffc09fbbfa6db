//! What an agent gets in a role and in each form of it: its tools, what limits its calls, and what `ftl` does around it.
//!
//! Declared here and shown by `ftl schema ROLE`. The engine carries it out and names no role.

use serde::Serialize;

use crate::tool_policy::Write;

/// The tools of a form, by what it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ToolSets {
    /// Where it may write nothing.
    pub nothing: &'static [&'static str],
    /// Where it may write listed files.
    pub files: &'static [&'static str],
    /// Where it may write a whole worktree.
    pub worktree: &'static [&'static str],
}

impl ToolSets {
    /// The same tools whatever may be written.
    pub const fn always(tools: &'static [&'static str]) -> ToolSets {
        ToolSets { nothing: tools, files: tools, worktree: tools }
    }

    /// The tools where so much may be written.
    pub const fn with(&self, write: &Write) -> &'static [&'static str] {
        match write {
            Write::Nothing => self.nothing,
            Write::Only(_) => self.files,
            Write::Anything => self.worktree,
        }
    }
}

/// What limits the counted calls of a form, beside the meters of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CallLimit {
    /// Nothing.
    Meters,
    /// A setting.
    Setting(&'static str),
    /// A field of its brief. Where that is nothing, the form has no tool whose calls are counted.
    Brief(&'static str),
}

crate::choices! {
    /// What a role looks at where it may write nothing.
    Sight {
        /// The repository as the person has it.
        Repository = "repository",
        /// The worktree of its brief, with what an earlier attempt left there.
        Brief = "brief",
        /// The worktree of its story, where one is open.
        Story = "story",
    }

    /// What `ftl` does around an agent in a role, or in one form of it.
    RoleRule {
        /// A file counts as one call, however often it is read or written.
        FilesCountOnce = "files_count_once",
        /// It goes on in its earlier session when it is told what is wrong with its work.
        Resumes = "resumes",
        /// Its feedback may not be empty.
        Explains = "explains",
        /// Code does its work where no agent is bound to it.
        CodeStandsIn = "code_stands_in",
        /// No agent answers it that is not bound to it by name.
        ByNameAlone = "by_name_alone",
        /// `write` may name one path of its own worktree.
        WritesPath = "writes_path",
        /// A commit names it as the author.
        IsAuthor = "is_author",
        /// It is about work that is there already.
        Mends = "mends",
        /// It is shown what a command printed and what was changed so far.
        SeesFailure = "sees_failure",
        /// It is asked once for each concern of its prompts.
        HasConcerns = "has_concerns",
        /// It makes stories of a document, and is told what they keep to.
        MakesStories = "makes_stories",
    }
}

impl RoleRule {
    /// What it means, as `ftl schema` prints it.
    pub const fn about(self) -> &'static str {
        match self {
            RoleRule::FilesCountOnce => "A file counts as one call, however often it is read or written.",
            RoleRule::Resumes => {
                "It goes on in its earlier session when it is told what is wrong with its work."
            }
            RoleRule::Explains => "Its feedback may not be empty: whoever is sent back is told why.",
            RoleRule::CodeStandsIn => "Where no agent is bound to it, code does its work as well as it can.",
            RoleRule::ByNameAlone => {
                "An agent answers it only where it is bound by name; `default` is not asked."
            }
            RoleRule::WritesPath => "`write` may name one path of the worktree of its own instance.",
            RoleRule::IsAuthor => "A commit of the work names it as the author, with its summary.",
            RoleRule::Mends => "It is about work that is there already.",
            RoleRule::HasConcerns => {
                "In a task it is asked once for each concern, each time in a session of its own."
            }
            RoleRule::MakesStories => "Where stories are made of a document, it is told what they keep to.",
            RoleRule::SeesFailure => {
                "It is shown the end of what the command printed and what was changed so far."
            }
        }
    }
}
