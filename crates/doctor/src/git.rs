//! Git: whether everything is there that journals, records and refs name, and whether dead locks are in the way.
//!
//! Where no run has worked with git there is nothing to look at, and nothing is made. What exists twice and was lost
//! once is given back; locks that a killed git of ours has left are removed. Another program's lock is only reported.

use std::time::Duration;

use serde_json::Value;

use super::{Area, DoctorReport, MAX_TOLD, counted};
use ftl_folder::state_folder::StateFolder;
use ftl_git::{ErrorKind, Examined, MissingObject, Namer, Oid, Repo};
use ftl_store::{RunRow, Store};

/// A lock that has been there this long is told.
const MIN_LOCK_AGE: Duration = Duration::from_secs(60);

/// How many entries of a journal are read at once.
const ENTRIES: usize = 1_000;

/// The field of a journal's entries that says where a landing or a delivery has brought a branch.
const COMMIT: &str = "commit";

/// Looks at the repository: at all journals when it is to be deep, else at those of runs that have not ended.
pub(super) fn examine(
    place: &StateFolder,
    store: &dyn Store,
    rows: &[RunRow],
    deep: bool,
    found: &mut DoctorReport,
) {
    if !ftl_folder::is_folder(&place.store().join("git")) {
        return found.fine(Area::Git, "no run has worked with git yet");
    }
    let journals =
        rows.iter().filter(|row| deep || !row.settled).flat_map(|row| commits(store, row)).collect();
    let examined = Repo::of_person(place, Vec::new()).and_then(|repo| repo.examine(journals, deep));
    match examined {
        Ok(examined) => tell(&examined, found),
        Err(error) if error.trouble == ErrorKind::NoRepository => {
            found.look(Area::Git, error.to_string(), "runs that worked with git need their repository");
        }
        Err(error) => {
            let hint =
                error.hint.clone().unwrap_or_else(|| String::from("see with `git fsck` what is wrong"));
            found.broken(Area::Git, error.message, hint);
        }
    }
}

fn tell(examined: &Examined, found: &mut DoctorReport) {
    if examined.unlocked > 0 {
        let text = format!("{} of a killed git removed", counted(examined.unlocked, "lock file"));
        found.mended(Area::Git, text);
    }
    if examined.given_back > 0 && examined.missing.is_empty() {
        let text =
            format!("{} given back that the repository had lost", counted(examined.given_back, "object"));
        found.mended(Area::Git, text);
    }
    for lock in examined.locks.iter().filter(|lock| lock.age >= MIN_LOCK_AGE).take(MAX_TOLD) {
        let text = format!("`{}` is there since {} s", lock.path.display(), lock.age.as_secs());
        let hint = "no ref of that name can be moved; if no git is at work here, remove the file";
        found.look(Area::Git, text, hint);
    }
    if examined.left_out > 0 {
        let text = format!("{} more are named than were looked for", examined.left_out);
        found.look(Area::Git, text, "`git fsck` looks at everything");
    }
    for lost in examined.missing.iter().take(MAX_TOLD) {
        let (text, hint) = sentence(lost);
        found.broken(Area::Git, text, hint);
    }
    if examined.missing.len() > MAX_TOLD {
        let text = format!("and {} more are missing", examined.missing.len() - MAX_TOLD);
        found.broken(Area::Git, text, "`git fsck` lists them");
    }
    let text =
        format!("{} that refs, records and journals name: all there", counted(examined.looked, "object"));
    found.otherwise_fine(Area::Git, text);
}

/// What is missing, and what to do about it.
fn sentence(lost: &MissingObject) -> (String, String) {
    let what = &lost.what;
    match &lost.by {
        Namer::Ref(name) => (
            format!("ref `{name}` names {what}, which is not in the repository"),
            format!("fetch it from a clone that has it, or remove the ref: `git update-ref -d {name}`"),
        ),
        Namer::Run(run) => (
            format!("run {run} names {what}, which is not in the repository"),
            String::from("fetch it from a clone that has it; `git fsck` tells what else is missing"),
        ),
        Namer::Worktree(id) => (
            format!("worktree {id} names {what}, which is not in the repository"),
            String::from("`ftl resume` reads the files of the worktree again; they are still there"),
        ),
    }
}

/// The commits that a journal says a branch was brought to. A journal that cannot be read is told elsewhere.
fn commits(store: &dyn Store, row: &RunRow) -> Vec<(Namer, Oid)> {
    let mut found = Vec::new();
    let mut after = 0;
    while let Ok(records) = store.entries(&row.run, after, ENTRIES) {
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in &records {
            if let Ok(body) = serde_json::from_str(&record.body) {
                collect(&body, &mut found);
            }
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|oid| (Namer::Run(row.run.to_string()), oid)).collect()
}

fn collect(value: &Value, found: &mut Vec<Oid>) {
    match value {
        Value::Object(fields) => {
            let commit = fields.get(COMMIT).and_then(Value::as_str);
            found.extend(commit.and_then(|text| text.parse().ok()));
            fields.values().for_each(|inner| collect(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_found_wherever_an_entry_has_them() {
        let oid = "a".repeat(40);
        let body =
            serde_json::json!({ "commit": "none", "outcome": [{ "fields": { "commit": oid } }, 1, null] });
        let mut found = Vec::new();
        collect(&body, &mut found);
        assert_eq!(found, [oid.parse().unwrap()]);
    }
}
