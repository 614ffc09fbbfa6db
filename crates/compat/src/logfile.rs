//! `ftl logfile`: the log file of the FTL protocol's own commands.

use ftl_command::records::{open, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};

use crate::words::Logfile;
use crate::{look, word};

pub(crate) fn run(cli: &GlobalArgs, verb: &Logfile, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        Logfile::Tail { lines } => {
            let Some(records) = look(cli)? else { return word(out, NONE) };
            let tail = with(out, &records, |records| records.log_tail(*lines))?;
            word(out, if tail.is_empty() { NONE.to_owned() } else { tail.join("\n") }.as_str())
        }
        Logfile::Clear => {
            let Some(records) = look(cli)? else { return word(out, NONE) };
            let there = with(out, &records, ftl_records::Records::clear_log)?;
            word(out, if there { "Cleared: .ftl/ftl.log" } else { NONE })
        }
        Logfile::Test => {
            let records = open(cli)?;
            for level in ["DEBUG", "INFO", "WARNING", "ERROR"] {
                with(out, &records, |records| records.log(level, "a line of this level"))?;
            }
            word(out, "Written: .ftl/ftl.log")
        }
    }
}

const NONE: &str = "No log file";
