//! Whether this machine has room: for as many agents as were asked for, and for checkouts where they usually lie.
//!
//! No run is refused: memory that is free now may not be later, and programs differ. Who asks for more than is likely
//! to fit is told how many do.

use std::path::PathBuf;

use ftl_command::{CommandError, Out};
use ftl_engine::session::Session;
use ftl_git::SlotPlace;
use ftl_settings::roster::{AgentKind, Choice};

/// What an agent that is a program of its own takes, with what it starts: a command-line agent has some 150 MB, its
/// tests have more.
const PROGRAM: u64 = 200 << 20;

/// What an agent takes that works in our own process, with the commands that it runs.
const OWN: u64 = 24 << 20;

/// Says on standard error where there is less room than one would think.
pub(super) fn look_around(session: &Session, jobs: Option<usize>, choice: &Choice, out: &Out) {
    look_at_memory(session, jobs, choice, out);
    tell_place(session, out);
}

/// Says once, before the first checkout is made, where those lie in which work is verified, if that is an unusual place.
fn tell_place(session: &Session, out: &Out) {
    let known = session.place().store().join("git").join("slots");
    if ftl_folder::names(&known).is_ok_and(|names| !names.is_empty()) {
        return;
    }
    let named = session.config().settings().worktree.slots.trim();
    let named = Some(named).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Ok(found) = SlotPlace::planned(session.place(), named)
        && let Some(why) = found.aside()
    {
        out.note(&format!("work is verified in checkouts below {}, because {why}", found.path().display()));
    }
}

/// Says when so many agents are not likely to fit.
fn look_at_memory(session: &Session, jobs: Option<usize>, choice: &Choice, out: &Out) {
    let agents = jobs.unwrap_or(session.config().width().agents);
    let roster = session.config().roster().ok().and_then(|roster| roster.with_choice(choice).ok());
    let is_program = roster.is_none_or(|roster| {
        let agent = roster.role("builder").and_then(|bound| roster.agent(&bound.agent));
        agent.is_none_or(|agent| matches!(agent.kind, AgentKind::Acp(_) | AgentKind::Cli(_)))
    });
    let each = if is_program { PROGRAM } else { OWN };
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if let Some(fit) = free(&meminfo).map(|free| free / each)
        && agents as u64 > fit
    {
        let message = format!(
            "{agents} agents at the same time are more than this machine is likely to hold: {fit} fit into its free \
             memory, at {} MB each",
            each >> 20
        );
        out.warning(&CommandError::new(message, format!("--jobs {} has room", fit.max(1))));
    }
}

/// The bytes of memory that programs can have without swapping.
fn free(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_as_the_kernel_tells_it() {
        let text =
            "MemTotal:       24000000 kB\nMemFree:  100 kB\nMemAvailable:   2097152 kB\nBuffers: 1 kB\n";
        assert_eq!(free(text), Some(2 << 30));
        assert_eq!(free(text).map(|free| free / PROGRAM), Some(10));
        for bad in ["", "MemAvailable: x kB\n", "MemAvailable: 5\n"] {
            assert_eq!(free(bad), None, "{bad:?}");
        }
        assert!(free(&std::fs::read_to_string("/proc/meminfo").unwrap()).unwrap() > 0);
    }
}
