//! `ftl framework`: what is known of frameworks.

use ftl_code::framework;
use ftl_command::{CommandError, ExitStatus, Out};

use crate::words::Framework;
use crate::{print, word};

pub(crate) fn run(verb: &Framework, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        Framework::Detect { path } if !path.is_dir() => {
            Err(CommandError::new(format!("`{}` is no folder", path.display()), "name a project's folder"))
        }
        Framework::Detect { path } => print(out, &framework::detect(path).to_json()),
        Framework::Idioms { name } => print(out, &framework::idioms(name).to_json()),
        Framework::Weight { name } => word(out, &framework::weight(name).to_string()),
        Framework::List => print(out, &framework::list()),
    }
}
