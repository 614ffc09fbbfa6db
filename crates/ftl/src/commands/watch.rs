//! `ftl watch`: runs, live.

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

pub(crate) fn run(_: &Cli, _: Option<&str>, _: &Out) -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
