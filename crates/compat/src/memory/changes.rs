//! `ftl memory edit`, `merge`, `undo` and `effect`: what a person changes in lessons, and what lessons do.
//!
//! An agent changes no lesson: what it wrote would be given to the next one as if somebody had looked at it.

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session};
use ftl_core::json::{Object, ObjectExt as _};
use ftl_memory::StoredKind;
use ftl_memory::effect::Effect;
use ftl_memory::history::Author;
use ftl_records::lessons::now;

use super::{learn, look};
use crate::words::Edit;
use crate::{print, word};

/// Who asks; refused inside an agent's process tree.
fn author(cli: &GlobalArgs) -> Result<String, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    session::person(cli, &place)
}

pub(crate) fn edit(cli: &GlobalArgs, asked: &Edit, out: &Out) -> Result<ExitStatus, CommandError> {
    let by = author(cli)?;
    let kind = asked.kind.kind();
    let (remedy, value) = match kind {
        StoredKind::Failure => ("fix", "cost"),
        StoredKind::Pattern => ("insight", "saved"),
    };
    let mut fields = Object::new();
    let texts = [("trigger", &asked.trigger), (remedy, &asked.fix), ("match", &asked.matcher)];
    for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?))) {
        fields.set(key, text.as_str());
    }
    if let Some(tags) = &asked.tags {
        let tags = tags.iter().map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty());
        fields.set("tags", tags.collect::<Vec<_>>());
    }
    if let Some(cost) = asked.cost {
        fields.set(value, cost);
    }
    if fields.is_empty() {
        return Err(CommandError::new(
            "nothing is to be changed",
            "give --trigger, --fix, --match, --tags or --cost",
        ));
    }
    let now = now();
    let author = Author { by: &by, now: &now };
    let found = learn(cli, out, |lessons| lessons.edit(kind, &asked.name, &fields, author))?;
    word(out, if found { "updated" } else { "not_found" })
}

pub(crate) fn merge(
    cli: &GlobalArgs,
    kind: StoredKind,
    (name, into): (&str, &str),
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let by = author(cli)?;
    let now = now();
    let author = Author { by: &by, now: &now };
    let found = learn(cli, out, |lessons| lessons.merge_into(kind, name, into, author))?;
    word(out, &if found { format!("merged:{into}") } else { String::from("not_found") })
}

pub(crate) fn undo(
    cli: &GlobalArgs,
    kind: StoredKind,
    name: &str,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let by = author(cli)?;
    let now = now();
    let author = Author { by: &by, now: &now };
    let undone = learn(cli, out, |lessons| lessons.undo(kind, name, author))?;
    word(
        out,
        &undone.map_or_else(|| String::from("nothing_to_undo"), |change| format!("undone:{}", change.what)),
    )
}

pub(crate) fn effect(cli: &GlobalArgs, retire: bool, out: &Out) -> Result<ExitStatus, CommandError> {
    if retire {
        author(cli)?;
        let now = now();
        for name in learn(cli, out, |lessons| lessons.retire_useless(&now))? {
            out.note(&format!("`{name}` is retired; `ftl memory undo {name}` brings it back"));
        }
    }
    let found = look(cli, out, |lessons| lessons.effect().map(Some))?;
    let none = || Effect { all: None, arms: ftl_memory::effect::Arms::default(), lessons: Vec::new() };
    print(out, &found.unwrap_or_else(none).to_json())
}
