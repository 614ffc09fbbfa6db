//! `ftl orchestration`: waiting for explorers, checking edges, recording states.

use ftl_command::records::{open, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::clock;
use ftl_records::phase::check_transition;

use crate::print;
use crate::words::Orchestration;

pub(crate) fn run(cli: &GlobalArgs, verb: &Orchestration, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        Orchestration::ValidateTransition { from, to } => {
            let checked = check_transition(from, to);
            let reason = match &checked {
                Ok(()) => format!("Valid transition: {from} \u{2192} {to}"),
                Err(error) => error.to_string(),
            };
            let answer = Json::object([
                ("valid", Json::from(checked.is_ok())),
                ("reason", Json::from(reason.as_str())),
            ]);
            print(out, &answer)?;
            Ok(if checked.is_ok() { ExitStatus::Done } else { ExitStatus::Error })
        }
        Orchestration::EmitState { state, meta } => {
            let records = open(cli)?;
            print(
                out,
                &with(out, &records, |records| records.emit_state(state, meta.as_deref(), &clock::local()))?,
            )
        }
        Orchestration::WaitExplorers { required, timeout } => {
            crate::exploration::wait(cli, *required, *timeout, out)
        }
        Orchestration::CheckExplorers => crate::exploration::check(cli, out),
    }
}
