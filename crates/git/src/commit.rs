//! Commits whose names depend on nothing but their arguments: time and person are given, so that a
//! commit that is made again after a crash is the same commit.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::runner::Input;
use super::{GitError, Oid, Repo};

/// Who is named in a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name, as git's `user.name`.
    pub name: String,
    /// The mail address, as git's `user.email`.
    pub email: String,
}

/// What a commit is made of.
pub(super) struct Making<'a> {
    pub(super) tree: &'a Oid,
    pub(super) parents: &'a [&'a Oid],
    pub(super) message: String,
    /// The author and commit time, in seconds since 1970.
    pub(super) when: u64,
}

impl Repo {
    /// The person who is named in commits.
    pub fn author(&self) -> &Person {
        &self.settings.person
    }

    /// Makes a commit. Nothing points to it yet.
    pub(super) fn commit(&self, making: &Making<'_>) -> Result<Oid, GitError> {
        let person = &self.settings.person;
        let name = if person.name.trim().is_empty() { "ftl" } else { person.name.trim() };
        let when = format!("@{} +0000", making.when);
        let mut call = self.about_objects().words(["commit-tree", making.tree.as_str()]);
        for parent in making.parents {
            call = call.words(["-p", parent.as_str()]);
        }
        for (name_is, email_is, date_is) in [
            ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"),
            ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE"),
        ] {
            call = call.var(name_is, name).var(email_is, person.email.trim()).var(date_is, &when);
        }
        self.gather_change(making.parents, making.tree)?;
        let message = making.message.replace('\0', " ");
        let commit = Oid::read(&self.run(call.input(Input::Bytes(message.into_bytes())))?.ok()?)?;
        self.gather(&BTreeSet::from([commit.clone()])).map(|()| commit)
    }
}

/// A message with its trailers. Trailers of the caller's own, and a sign-off, stay with them.
pub(super) fn message(text: &str, trailers: &[(&str, &str)]) -> String {
    let text = text.trim();
    let text = if text.is_empty() { "Work of ftl" } else { text };
    let is_trailer = |line: &str| ["Ftl-", "Signed-off-by: "].iter().any(|name| line.starts_with(name));
    let has_own = text.lines().last().is_some_and(is_trailer);
    let mut whole = format!("{text}{}", if has_own { "\n" } else { "\n\n" });
    for (name, value) in trailers {
        let value: Vec<&str> = value.split_whitespace().collect();
        whole.push_str(&format!("{name}: {}\n", value.join(" ")));
    }
    whole
}
