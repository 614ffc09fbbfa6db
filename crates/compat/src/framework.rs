//! `ftl framework`: what is known of frameworks.

use ftl_code::framework;
use ftl_command::{CommandError, ExitStatus, Out};

use crate::words::FrameworkVerb;
use crate::{print, word};

pub(crate) fn run(verb: &FrameworkVerb, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        FrameworkVerb::Detect { path } if !path.is_dir() => {
            Err(CommandError::new(format!("`{}` is no folder", path.display()), "name a project's folder"))
        }
        FrameworkVerb::Detect { path } => print(out, &framework::detect(path).to_json()),
        FrameworkVerb::Idioms { name } => print(out, &framework::idioms(name).to_json()),
        FrameworkVerb::Weight { name } => word(out, &framework::weight(name).to_string()),
        FrameworkVerb::List => print(out, &framework::list()),
    }
}
