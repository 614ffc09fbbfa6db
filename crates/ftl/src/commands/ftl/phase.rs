//! `ftl phase`: where the flow stands.

use ftl_command::records::{failure, open, tell, with};
use ftl_command::{Exit, Failure, GlobalArgs, Group, Out};
use ftl_folder::clock;
use ftl_records::phase::can_move;
use ftl_records::{RecordError, Records};

use super::{look, print, word};
use crate::cli::help;
use crate::groups::Phase;

pub(crate) fn run(cli: &GlobalArgs, asked: &Group<Phase>, out: &Out) -> Result<Exit, Failure> {
    let Some(verb) = &asked.verb else { return help(out, "phase", Exit::Done) };
    match verb {
        Phase::Status => match look(cli)? {
            Some(paper) => print(out, &with(out, &paper, Records::phase)?),
            None => print(out, &ftl_records::phase::fresh()),
        },
        Phase::Reset => match look(cli)? {
            Some(paper) => print(out, &with(out, &paper, Records::reset_phase)?),
            None => print(out, &ftl_records::phase::fresh()),
        },
        Phase::CanTransition { from, to } => word(out, if can_move(from, to) { "valid" } else { "invalid" }),
        Phase::Transition { phase, force } => {
            let paper = open(cli)?;
            match paper.move_phase(phase, *force, &clock::local()) {
                Ok(state) => {
                    tell(out, &paper);
                    print(out, &state)
                }
                // The FTL plugin says it on standard output, and scripts look there.
                Err(error @ RecordError::Refused { .. }) => {
                    word(out, &format!("Error: {error}"))?;
                    out.error(&failure(&error));
                    Ok(Exit::Error)
                }
                Err(error) => Err(failure(&error)),
            }
        }
    }
}
