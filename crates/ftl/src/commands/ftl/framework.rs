//! `ftl framework`: what is known of frameworks.

use ftl_code::framework;
use ftl_command::{Exit, Failure, Group, Out};

use super::{print, word};
use crate::groups::Framework;

pub(crate) fn run(asked: &Group<Framework>, out: &Out) -> Result<Exit, Failure> {
    // The FTL plugin says it on standard error, and answered nothing.
    let Some(verb) = &asked.verb else {
        out.beside(&crate::cli::help_text("framework"));
        return Ok(Exit::Error);
    };
    match verb {
        Framework::Detect { path } if !path.is_dir() => {
            Err(Failure::new(format!("`{}` is no folder", path.display()), "name a project's folder"))
        }
        Framework::Detect { path } => print(out, &framework::detect(path).to_json()),
        Framework::Idioms { name } => print(out, &framework::idioms(name).to_json()),
        Framework::Weight { name } => word(out, &framework::weight(name).to_string()),
        Framework::List => print(out, &framework::list()),
    }
}
