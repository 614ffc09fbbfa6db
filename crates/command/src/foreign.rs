//! What an agent that somebody else started may do here: look, and start runs within smaller limits. A person's word it
//! may not say.
//!
//! Its program in the line of parents is enough to refuse. A variable alone is not: a terminal multiplexer carries it
//! into windows in which a person sits, so the person is asked at the controlling terminal, which no agent types on.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};

use ftl_core::run::{Policy, Terms};
use ftl_core::value::Name;
use ftl_process::foreign::{ForeignSign, look};
use ftl_view::paint::safe;

use crate::exit::ExitStatus;
use crate::failure::CommandError;

/// What a run may use at most that an agent has opened: tokens, money in millionths, time in milliseconds, turns.
pub const FOREIGN_LIMITS: [(&str, u64); 4] =
    [("tokens", 1_000_000), ("money", 5_000_000), ("time", 2 * 3_600_000), ("turns", 400)];

/// The longest answer that is read from the terminal.
const MAX_ANSWER_BYTES: usize = 64;

/// Refuses a person's word that an agent has typed.
pub fn not_typed_by_agent() -> Result<(), CommandError> {
    let Some(sign) = look() else { return Ok(()) };
    let is_person = matches!(sign, ForeignSign::Variable { .. }) && confirm(&sign);
    if is_person { Ok(()) } else { Err(refusal(&sign)) }
}

fn refusal(sign: &ForeignSign) -> CommandError {
    let message = format!("this comes from {sign}, and only a person may say it");
    let hint = match sign {
        ForeignSign::Program { .. } => String::from(
            "say it in a terminal of your own; from here runs can be started and looked at: `ftl \"<task>\"`, `ftl status`, `ftl watch`",
        ),
        ForeignSign::Variable { name, .. } => format!(
            "at a terminal you are asked whether it is you; where {name} is only left over, `unset {name}` in that window"
        ),
    };
    CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, hint) }
}

/// Has the person say at the controlling terminal that it is them; without one nobody does.
fn confirm(sign: &ForeignSign) -> bool {
    let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else { return false };
    let asked = format!(
        "{} was started around this terminal once. are you a person? type yes: ",
        safe(&sign.to_string())
    );
    terminal.write_all(asked.as_bytes()).is_ok() && line_of(&mut terminal).trim() == "yes"
}

fn line_of(terminal: &mut File) -> String {
    let mut line = String::new();
    // A byte at a time: what is typed behind the line is not ours to read.
    let mut byte = [0];
    while line.len() < MAX_ANSWER_BYTES
        && terminal.read(&mut byte).is_ok_and(|count| count == 1)
        && byte != *b"\n"
    {
        line.push(char::from(byte[0]));
    }
    line
}

/// Narrows what a run may do that an agent opens: smaller limits, nobody answers in a person's place, and the record says
/// who opened it. What was narrowed, in a sentence; nothing where a person opens it.
pub fn narrow(terms: &mut Terms) -> Option<String> {
    let sign = look()?;
    narrow_for(&sign, terms);
    Some(format!("opened by {sign}: it has smaller limits, and waits for a person where it asks"))
}

fn narrow_for(sign: &ForeignSign, terms: &mut Terms) {
    for (meter, most) in FOREIGN_LIMITS {
        let limit = terms.limits.entry(Name::from(meter)).or_insert(most);
        *limit = most.min(*limit);
        if let Some(aside) = terms.reserve.get_mut(meter) {
            *aside = most.min(*aside);
        }
    }
    terms.policies = [(String::from("*"), Policy::Hold)].into();
    terms.accepted.push(format!("opened by an agent: {sign}"));
}

#[cfg(test)]
mod tests {
    use ftl_core::value::Value;

    use super::*;

    #[test]
    fn a_run_of_an_agent_s_may_use_less_and_waits_for_a_person() {
        let sign = ForeignSign::Program { pid: 7, agent: "Codex" };
        let mut terms = Terms {
            limits: [(Name::from("tokens"), 9_000_000), (Name::from("money"), 1_000)].into(),
            reserve: [(Name::from("tokens"), 2_000_000)].into(),
            policies: [(String::from("task.COMPLETE"), Policy::Answer(Value::text("ff")))].into(),
            ..Terms::default()
        };
        narrow_for(&sign, &mut terms);
        let limit = |meter: &str| terms.limits.get(meter).copied();
        // None is raised, and what had no limit has one.
        assert_eq!(
            (limit("tokens"), limit("money"), limit("turns")),
            (Some(1_000_000), Some(1_000), Some(400))
        );
        assert_eq!(terms.reserve.get("tokens"), Some(&1_000_000));
        assert_eq!(terms.policies, [(String::from("*"), Policy::Hold)].into());
        assert_eq!(terms.accepted, ["opened by an agent: Codex (process 7)"]);
    }
}
