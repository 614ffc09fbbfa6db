//! `ftl decision`: what a planner decided.

use ftl_command::input::text_of;
use ftl_command::{Exit, Failure, Out};
use ftl_records::decision::{self, Kind};

use crate::print;
use crate::words::Decision;

pub(crate) fn run(asked: &Decision, out: &Out) -> Result<Exit, Failure> {
    let decision = decision::parse(&text_of(&asked.file)?);
    print(out, &decision.to_json(asked.validate))?;
    Ok(match decision.kind {
        Kind::Proceed => Exit::Done,
        Kind::Unknown => Exit::Error,
        Kind::Clarify => Exit::Usage,
        Kind::Confirm => Exit::Blocked,
    })
}
