//! `ftl repl`.

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::tasks::TaskArg;

/// `ftl repl`.
pub(super) fn run(_: &Cli, _: &TaskArg, _: &Out) -> Result<Exit, Failure> {
    Err(Failure::new("later", "later"))
}
