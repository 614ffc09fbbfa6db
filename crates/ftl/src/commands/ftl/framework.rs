//! `ftl framework`: what is known of frameworks.

use ftl_code::framework;

use super::{print, word};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::groups::{Framework, Group};
use crate::out::Out;

pub(crate) fn run(asked: &Group<Framework>, out: &Out) -> Result<Exit, Failure> {
    // The FTL plugin says it on standard error, and answered nothing.
    let Some(verb) = &asked.verb else {
        out.beside(&super::help_text("framework"));
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
