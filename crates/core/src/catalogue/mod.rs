//! The catalogue: every action, role and word that a protocol may name, with types.
//!
//! The catalogue declares; it never performs. Engine and agents implement what is declared here, and
//! the checker refuses what does not.

pub mod artifacts;
pub mod build;
pub mod campaign;
pub mod code;
pub mod declare;
pub mod finding;
pub mod flow;
mod forms;
pub mod lifecycle;
pub mod plan;
pub mod roles;
pub mod rules;
pub mod scalars;
mod schema;
pub mod shell;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod words;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub use declare::{ActionDecl, ActionKind, Declaration};
pub use rules::{CallLimit, RoleRule, Sight, ToolSets};
pub use scalars::{Depends, Digest, Seconds};
pub use schema::schema;

use crate::types::{Field, Type};
use crate::value::Name;

/// A role: who answers a `Task`, and in which forms it may be asked.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its name in protocols, such as `builder`.
    pub name: Name,
    /// What it is for.
    pub about: &'static str,
    /// The parameter whose word picks the form: `step`, `of` or `mode`.
    pub selector: Option<&'static str>,
    /// The forms in which it may be asked.
    pub forms: Vec<RoleForm>,
    /// What it looks at where it may write nothing.
    pub sight: Sight,
    /// What `ftl` does around it in every form.
    pub rules: &'static [RoleRule],
}

impl Role {
    /// Whether a rule holds for every form of the role.
    pub fn has(&self, rule: RoleRule) -> bool {
        self.rules.contains(&rule)
    }

    /// The form in which the role is asked: by the selector's word, else by what it is given.
    pub fn pick<'a>(
        &self,
        word: Option<&str>,
        given: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Option<&RoleForm> {
        let forms = self.forms.iter().filter(|form| form.word == word);
        let knows = |form: &&RoleForm| {
            given.clone().all(|name| form.params.contains_key(name) || self.selector == Some(name))
        };
        forms.clone().find(knows).or_else(|| forms.clone().next())
    }
}

/// One form of asking a role: what it takes and what it must answer.
#[derive(Clone, Debug)]
pub struct RoleForm {
    /// The selector's word; `None` for a role asked without one.
    pub word: Option<&'static str>,
    /// What the role is asked to do.
    pub about: &'static str,
    /// What it takes, without the selector.
    pub params: BTreeMap<Name, Field>,
    /// What it must answer.
    pub answer: Type,
    /// The tools that it has.
    pub tools: ToolSets,
    /// What limits its calls.
    pub calls: CallLimit,
    /// What `ftl` does around it.
    pub rules: &'static [RoleRule],
}

impl RoleForm {
    /// Whether a rule holds for this form.
    pub fn has(&self, rule: RoleRule) -> bool {
        self.rules.contains(&rule)
    }
}

/// A word that a person may say at a WAIT, with the options of its command.
#[derive(Clone, Debug)]
pub struct Word {
    /// The word.
    pub name: Name,
    /// The options that come with it, beside `by` and `reason`.
    pub options: BTreeMap<Name, Field>,
}

/// Everything that a protocol may name.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    actions: BTreeMap<Name, Declaration>,
    roles: BTreeMap<Name, Role>,
    words: BTreeMap<Name, Word>,
}

impl Catalogue {
    /// A catalogue of the given declarations; a later one of the same name replaces an earlier one.
    pub fn new(actions: Vec<Declaration>, roles: Vec<Role>, words: Vec<Word>) -> Catalogue {
        Catalogue {
            actions: actions.into_iter().map(|one| (one.name.clone(), one)).collect(),
            roles: roles.into_iter().map(|one| (one.name.clone(), one)).collect(),
            words: words.into_iter().map(|one| (one.name.clone(), one)).collect(),
        }
    }

    /// The catalogue of this program.
    pub fn standard() -> &'static Catalogue {
        static STANDARD: OnceLock<Catalogue> = OnceLock::new();
        STANDARD.get_or_init(|| Catalogue::new(standard_actions(), forms::roles(), words::words()))
    }

    /// The action of that name.
    pub fn action(&self, name: &str) -> Option<&Declaration> {
        self.actions.get(name)
    }

    /// The role of that name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// The word of that name.
    pub fn word(&self, name: &str) -> Option<&Word> {
        self.words.get(name)
    }

    /// All actions, by name.
    pub fn actions(&self) -> impl Iterator<Item = &Declaration> {
        self.actions.values()
    }

    /// All roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }
}

fn standard_actions() -> Vec<Declaration> {
    let groups = [
        flow::declarations(),
        campaign::declarations(),
        build::declarations(),
        code::declarations(),
        lifecycle::declarations(),
        shell::declarations(),
    ];
    groups.into_iter().flatten().collect()
}
