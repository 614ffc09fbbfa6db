//! `ftl decision`: what a planner decided.

use ftl_command::input::text_of;
use ftl_command::{CommandError, ExitStatus, Out};
use ftl_records::decision::{self, DecisionKind};

use crate::print;
use crate::words::DecisionArgs;

pub(crate) fn run(asked: &DecisionArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let decision = decision::parse(&text_of(&asked.file)?);
    print(out, &decision.to_json(asked.validate))?;
    Ok(match decision.kind {
        DecisionKind::Proceed => ExitStatus::Done,
        DecisionKind::Unknown => ExitStatus::Error,
        DecisionKind::Clarify => ExitStatus::Usage,
        DecisionKind::Confirm => ExitStatus::Blocked,
    })
}
