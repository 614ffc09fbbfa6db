//! `ftl phase`: where the flow stands.

use ftl_command::records::{failure, open, tell, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_folder::clock;
use ftl_records::phase::can_move;
use ftl_records::{RecordError, Records};

use crate::words::PhaseVerb;
use crate::{look, print, word};

pub(crate) fn run(cli: &GlobalArgs, verb: &PhaseVerb, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        PhaseVerb::Status => match look(cli)? {
            Some(records) => print(out, &with(out, &records, Records::phase)?),
            None => print(out, &ftl_records::phase::fresh()),
        },
        PhaseVerb::Reset => match look(cli)? {
            Some(records) => print(out, &with(out, &records, Records::reset_phase)?),
            None => print(out, &ftl_records::phase::fresh()),
        },
        PhaseVerb::CanTransition { from, to } => {
            word(out, if can_move(from, to) { "valid" } else { "invalid" })
        }
        PhaseVerb::Transition { phase, force } => {
            let records = open(cli)?;
            match records.move_phase(phase, *force, &clock::local()) {
                Ok(state) => {
                    tell(out, &records);
                    print(out, &state)
                }
                // The FTL plugin says it on standard output, and scripts look there.
                Err(error @ RecordError::Refused { .. }) => {
                    word(out, &format!("Error: {error}"))?;
                    out.error(&failure(&error));
                    Ok(ExitStatus::Error)
                }
                Err(error) => Err(failure(&error)),
            }
        }
    }
}
