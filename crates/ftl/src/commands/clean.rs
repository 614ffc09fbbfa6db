//! `ftl clean`: what ended runs have left in git and is of no use any more, listed first and taken away when told.
//!
//! What is taken away can be brought back for seven days. Nothing of a run that goes on is ever listed.

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session};
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_git::{Cleaning, GitError, Leftovers, Removable, Repo, SlotInfo, UNDO_SECONDS};
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

use crate::cli::Clean;

/// How many of a kind are listed for people.
const MAX_LISTED: usize = 20;

/// A day in seconds.
const DAY: u64 = 24 * 3600;

/// Lists, takes away, or brings back.
pub(crate) fn clean(cli: &GlobalArgs, asked: &Clean, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let store = session::store_of_runs(&place)?;
    let repo = Repo::of_person(&place, Vec::new()).map_err(|error| git_failure(&error))?;
    if asked.undo {
        return undo(&repo, out);
    }
    let has_ended = |run: &RunId| store.run(run).ok().flatten().is_some_and(|row| row.settled);
    let now = clock::wall() / 1000;
    let cleaning = Cleaning { has_ended: &has_ended, old: u64::from(asked.older_than) * DAY, now };
    let found = repo.leftovers(&cleaning).map_err(|error| git_failure(&error))?;
    let slots = repo.slots().map_err(|error| git_failure(&error))?;
    if asked.yes {
        repo.clean(&found, now).map_err(|error| git_failure(&error))?;
        repo.remove_slots().map_err(|error| git_failure(&error))?;
    }
    if out.is_json() {
        out.json(&document(&found, &slots, asked.yes))?;
    } else {
        out.text(&format!("{}{}", text(&found, asked.yes), checkouts(&slots, asked.yes)))?;
    }
    Ok(ExitStatus::Done)
}

fn undo(repo: &Repo, out: &Out) -> Result<ExitStatus, CommandError> {
    let back = repo.undo_clean().map_err(|error| git_failure(&error))?;
    if out.is_json() {
        out.json(&json!({ "back": back }))?;
    } else if back.is_empty() {
        out.text("there is nothing to bring back\n")?;
    } else {
        let named: String = back.iter().map(|name| format!("  {}\n", safe(name))).collect();
        out.text(&format!("{} back:\n{named}", paint::count(back.len(), "ref")))?;
    }
    Ok(ExitStatus::Done)
}

/// The checkouts to verify in, which are no leftovers: they lie ready, and are made again.
fn checkouts(slots: &[SlotInfo], done: bool) -> String {
    let Some(folder) = slots.first().and_then(|slot| slot.path.parent()) else { return String::new() };
    let (count, bytes) = (paint::count(slots.len(), "checkout"), slots.iter().map(|slot| slot.bytes).sum());
    let folder = paint::safe(&folder.to_string_lossy());
    let word = if done { "removed, unless they are in use" } else { "lie ready to verify in" };
    format!("{count} {word}: {} in {folder}\n", size(bytes))
}

fn document(found: &Leftovers, slots: &[SlotInfo], done: bool) -> Json {
    let list = |all: &[Removable]| -> Vec<Json> {
        all.iter().map(|one| json!({ "name": one.name, "why": one.why })).collect()
    };
    json!({
        "branches": list(&found.branches), "kept": list(&found.kept), "worktrees": list(&found.worktrees),
        "bytes": found.bytes, "expired": found.expired(), "done": done,
        "checkouts": slots.iter().map(|one| json!({ "path": one.path, "bytes": one.bytes })).collect::<Vec<_>>(),
        "undo": done.then_some("ftl clean --undo"), "undo_days": UNDO_SECONDS / DAY,
    })
}

fn text(found: &Leftovers, done: bool) -> String {
    if found.is_empty() {
        return String::from("nothing to clean\n");
    }
    let mut text = String::new();
    let kinds = [("branch", &found.branches), ("kept", &found.kept), ("worktree", &found.worktrees)];
    for (kind, all) in kinds {
        for one in all.iter().take(MAX_LISTED) {
            let name = paint(paint::STRONG, safe(&one.name));
            text.push_str(&format!("{}  {name}: {}\n", paint::padded(kind, 8), one.why));
        }
        if all.len() > MAX_LISTED {
            text.push_str(&format!("{}  and {} more\n", paint::padded(kind, 8), all.len() - MAX_LISTED));
        }
    }
    let word = if done { "cleaned" } else { "could be cleaned" };
    text.push_str(&format!(
        "{word}: {}, {} ({} of kept work), {}; {} cleaned before {} for good\n",
        branches(found.branches.len()),
        paint::count(found.kept.len(), "kept ref"),
        size(found.bytes),
        paint::count(found.worktrees.len(), "worktree"),
        paint::count(found.expired(), "ref"),
        if done { "went" } else { "would go" },
    ));
    let hint = paint(paint::HINT, "hint:");
    let days = UNDO_SECONDS / DAY;
    text.push_str(&match done {
        true => format!("{hint} `ftl clean --undo` brings it back, for {days} days\n"),
        false => {
            format!("{hint} `ftl clean --yes` does it; for {days} days `ftl clean --undo` brings it back\n")
        }
    });
    text
}

fn branches(count: usize) -> String {
    if count == 1 { String::from("1 branch") } else { format!("{count} branches") }
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

fn git_failure(error: &GitError) -> CommandError {
    let hint = error.hint.clone().unwrap_or_else(|| String::from("`ftl doctor` looks at the state"));
    CommandError::new(error.message.clone(), hint)
}
