//! `ftl undo` and `ftl salvage`: what `ftl` brought to a branch is taken back, and what it kept is brought
//! back. Nothing is ever removed by either.

use std::path::Path;

use ftl_command::session::{session_failure, store_failure};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out, session};
use ftl_engine::executors::worktrees::task_of;
use ftl_engine::session::find;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_git::{ErrorKind, Extent, GitError, KeptWork, Repo, Undone};
use ftl_store::sqlite::SqliteStore;
use ftl_view::paint::{self, paint, safe};
use ftl_view::relative_time;
use serde_json::{Value as Json, json};

use crate::cli::{Salvage, Undo};

/// How many are listed where not all are asked for; looking at each takes git a moment.
const MAX_LISTED: usize = 50;

/// `ftl undo [RUN]`.
pub(crate) fn undo(cli: &GlobalArgs, asked: &Undo, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let by = session::person(cli, &place)?;
    let named = match &asked.run {
        Some(id) => {
            let store = session::store_of_runs(&place)?;
            Some(find(&*store, id).map_err(|error| session_failure(&error))?.row.run)
        }
        None => None,
    };
    let Some(repo) = repository(&place)? else { return Err(nothing_to_undo()) };
    let newest = || repo.newest_delivery().map_err(|error| git_failure(&error));
    let Some(run) = named.map_or_else(newest, |run| Ok(Some(run)))? else { return Err(nothing_to_undo()) };
    let undone = repo.undo_delivery(&run, &by).map_err(|error| git_failure(&error))?;
    if out.is_json() {
        out.json(&json!({
            "run": run, "branch": undone.target, "commit": undone.commit.as_str(), "was": undone.was.as_str(),
            "kept": undone.kept, "files": undone.files, "again": undone.before, "notes": undone.notes,
        }))?;
    } else {
        out.text(&undone_text(&run, &undone))?;
    }
    Ok(ExitStatus::Done)
}

fn nothing_to_undo() -> CommandError {
    let hint = "`ftl status --all` shows the runs; one that stayed on its branch has moved nothing of yours";
    CommandError::new("there is nothing to undo: no delivery of a run stands", hint)
}

fn undone_text(run: &RunId, undone: &Undone) -> String {
    let (target, was) = (safe(&undone.target), undone.was.short());
    let hint = paint(paint::HINT, "hint:");
    let files = paint::count(undone.files, "file");
    let done = if undone.before {
        format!("the delivery of run {run} was taken back before; nothing was done\n")
    } else {
        format!(
            "took back what run {run} delivered: `{target}` is at {} again ({files})\n",
            undone.commit.short()
        )
    };
    let notes: String = undone.notes.iter().map(|note| format!("{}\n", safe(note))).collect();
    format!("{done}{notes}{hint} `git merge {was}` brings it back; `{}` keeps it\n", undone.kept)
}

/// `ftl salvage [ID]`.
pub(crate) fn salvage(cli: &GlobalArgs, asked: &Salvage, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    if asked.id.is_some() {
        session::not_an_agent(&place)?;
    }
    let Some(repo) = repository(&place)? else {
        if let Some(id) = &asked.id {
            KeptWork::find(&[], id).map_err(|error| git_failure(&error))?;
        }
        return print_rows(&[], 0, out);
    };
    let all = repo.list_kept().map_err(|error| git_failure(&error))?;
    match &asked.id {
        None => list(&place, &repo, all, asked.all, out),
        Some(id) => {
            let kept = KeptWork::find(&all, id).map_err(|error| git_failure(&error))?;
            bring_back(&repo, kept, asked, out)
        }
    }
}

fn bring_back(repo: &Repo, kept: &KeptWork, asked: &Salvage, out: &Out) -> Result<ExitStatus, CommandError> {
    let (label, commit) = (kept.label(), kept.commit.short());
    let failed = |error: GitError| git_failure(&error);
    let hint = paint(paint::HINT, "hint:");
    let mut answer = json!({ "id": label, "ref": kept.name, "commit": kept.commit.as_str() });
    let text = if let Some(folder) = &asked.into {
        repo.salvage_into(kept, folder).map_err(failed)?;
        answer["folder"] = json!(absolute(folder));
        format!("{label} is in `{}`\n{hint} it stays kept as well\n", safe(&folder.display().to_string()))
    } else {
        let usual = || format!("salvage/{}-{}", kept.id, kept.number);
        let branch = asked.branch.clone().unwrap_or_else(usual);
        repo.salvage_as_branch(kept, &branch).map_err(failed)?;
        answer["branch"] = json!(branch);
        let base = kept.base.as_ref().map_or(String::new(), |base| format!("{}..", base.short()));
        let name = safe(&branch);
        format!(
            "{label} is the branch `{name}` ({commit})\n{hint} `git diff {base}{name}` shows it; it stays kept as well\n"
        )
    };
    if out.is_json() {
        out.json(&answer)?;
    } else {
        out.text(&text)?;
    }
    Ok(ExitStatus::Done)
}

/// Something kept, as it is listed.
struct Row {
    kept: KeptWork,
    task: Option<String>,
    extent: Option<Extent>,
}

fn list(
    place: &StateFolder,
    repo: &Repo,
    mut all: Vec<KeptWork>,
    whole: bool,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let count = all.len();
    all.sort_by(|one, other| (other.when, &other.id, other.number).cmp(&(one.when, &one.id, one.number)));
    if !whole {
        all.truncate(MAX_LISTED);
    }
    let notes = SqliteStore::open_existing(&place.store()).map_err(|error| store_failure(&error))?;
    let row = |kept: KeptWork| {
        let task = notes.as_ref().map_or(Ok(None), |notes| task_of(notes, &kept.id));
        let task = task.map_err(|error| store_failure(&error))?;
        let extent = match repo.extent(&kept) {
            // One whose objects are gone is listed all the same.
            Err(error) if error.trouble == ErrorKind::Missing => None,
            extent => extent.map_err(|error| git_failure(&error))?,
        };
        Ok(Row { kept, task, extent })
    };
    let rows = all.into_iter().map(row).collect::<Result<Vec<Row>, CommandError>>()?;
    print_rows(&rows, count, out)
}

fn print_rows(rows: &[Row], count: usize, out: &Out) -> Result<ExitStatus, CommandError> {
    if out.is_json() {
        let kept: Vec<Json> = rows.iter().map(as_json).collect();
        out.json(&json!({ "count": count, "kept": kept }))?;
        return Ok(ExitStatus::Done);
    }
    if rows.is_empty() {
        out.text("nothing is kept\n")?;
        return Ok(ExitStatus::Done);
    }
    let now = clock::wall();
    let labels = rows.iter().map(|row| row.kept.label().len()).max().unwrap_or(0);
    let mut text: String = rows.iter().map(|row| line(row, labels, now)).collect();
    if count > rows.len() {
        text.push_str(&paint(paint::QUIET, format!("and {} more; --all lists them\n", count - rows.len())));
    }
    let hint = paint(paint::HINT, "hint:");
    text.push_str(&format!(
        "{hint} `ftl salvage ID` brings one back as a branch, with --into DIR as files\n"
    ));
    out.text(&text)?;
    Ok(ExitStatus::Done)
}

fn line(row: &Row, labels: usize, now: u64) -> String {
    let label = paint(paint::STRONG, format!("{:<labels$}", row.kept.label()));
    let much = row.extent.map_or(String::from("unknown"), |extent| {
        format!("{}, {}", paint::count(extent.files, "file"), size(extent.bytes))
    });
    let mut words = vec![relative_time::ago(row.kept.when * 1000, now), much];
    words.extend(row.task.as_deref().map(safe));
    words.push(safe(&row.kept.why));
    let words = words.join(paint::DOT);
    format!("{label}  {}\n", paint::wrapped(&words, labels + 2, labels + 2, out::width()))
}

fn as_json(row: &Row) -> Json {
    let run = row.kept.id.as_str().split_once('-').map(|(run, _)| run);
    json!({
        "id": row.kept.label(),
        "run": run,
        "instance": row.kept.id.instance().map(|(_, instance)| instance),
        "task": row.task,
        "when": relative_time::stamp(row.kept.when * 1000),
        "why": row.kept.why,
        "files": row.extent.map(|extent| extent.files),
        "bytes": row.extent.map(|extent| extent.bytes),
        "ref": row.kept.name,
        "commit": row.kept.commit.as_str(),
        "base": row.kept.base.as_ref().map(|base| base.as_str()),
    })
}

/// A size in bytes, kB or MB, for people.
fn size(bytes: u64) -> String {
    let tenths = |unit: u64| bytes * 10 / unit;
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{}.{} kB", tenths(1000) / 10, tenths(1000) % 10),
        _ => format!("{}.{} MB", tenths(1_000_000) / 10, tenths(1_000_000) % 10),
    }
}

fn absolute(folder: &Path) -> String {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).display().to_string()
}

/// The repository, where `ftl` has done something in it: looking makes nothing.
pub(super) fn repository(place: &StateFolder) -> Result<Option<Repo>, CommandError> {
    if !ftl_folder::is_folder(&place.store().join("git")) {
        return Ok(None);
    }
    let config = session::config(place)?;
    Repo::of_person(place, config.settings().worktree.copy.clone())
        .map(Some)
        .map_err(|error| git_failure(&error))
}

pub(super) fn git_failure(error: &GitError) -> CommandError {
    let exit = match error.trouble {
        ErrorKind::Stale | ErrorKind::Replaced => ExitStatus::Refused,
        ErrorKind::NoRepository
        | ErrorKind::Unsuitable
        | ErrorKind::Unknown
        | ErrorKind::BadName
        | ErrorKind::Cancelled
        | ErrorKind::TooMuch
        | ErrorKind::TimedOut
        | ErrorKind::Git
        | ErrorKind::Unreachable
        | ErrorKind::Missing
        | ErrorKind::Machine
        | ErrorKind::Disk => ExitStatus::Error,
    };
    let hint = error
        .hint
        .clone()
        .unwrap_or_else(|| String::from("nothing was changed; `ftl doctor` looks at the state"));
    CommandError { exit, ..CommandError::new(&error.message, hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [0, 999, 1000, 1250, 999_999, 1_000_000, 2_360_000].map(size),
            ["0 B", "999 B", "1.0 kB", "1.2 kB", "999.9 kB", "1.0 MB", "2.3 MB"]
        );
    }
}
