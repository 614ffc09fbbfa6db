//! Where the journals of runs end after a loss, for the caller, which brings back what is beside the store; and the notes that
//! a shorter journal cannot know. It changes nothing but those notes.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::Value as Json;

use super::heads::RunHead;
use super::{integrity, read};
use crate::journal;
use ftl_core::performer::Performer;
use ftl_folder::rewind::{JournalEnd, KnownInstance, Rewound};

/// A run whose journal may have lost its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The instances that the journal knows.
    pub journal: JournalEnd,
    /// The epoch below which no lease of the run is good any more.
    pub epoch: u64,
}

/// What is read of an entry.
#[derive(Deserialize)]
struct Line {
    instance: u32,
    fact: String,
    #[serde(default)]
    asks: Json,
}

/// The runs that have fewer entries than was noted of them, or of which nothing was noted, as far as git was asked
/// for them.
pub(super) fn find(
    open: &Connection,
    folder: &Path,
    noted: &BTreeMap<String, RunHead>,
) -> rusqlite::Result<Vec<RunEnd>> {
    let mut ends = Vec::new();
    for row in integrity::run_heads(open)?.into_values() {
        let is_whole = noted.get(&row.name).is_some_and(|head| head.seq == row.seq);
        let has_git = ftl_folder::is_folder(&folder.join("git").join("runs").join(&row.name));
        let Ok(run) = row.name.parse() else { continue };
        if has_git && !is_whole {
            let instances = instances(open, row.number)?;
            ends.push(RunEnd { journal: JournalEnd { run, last: row.seq, instances }, epoch: row.epoch });
        }
    }
    Ok(ends)
}

/// The instances that a journal has opened.
fn instances(open: &Connection, run: i64) -> rusqlite::Result<BTreeMap<u32, KnownInstance>> {
    let mut found: BTreeMap<u32, KnownInstance> = BTreeMap::new();
    let mut list = open.prepare_cached("SELECT body FROM entries WHERE run = ?1 ORDER BY seq")?;
    let mut rows = list.query([run])?;
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        let Ok(line) = serde_json::from_str::<Line>(&body) else { continue };
        match line.fact.as_str() {
            "opened" => drop(found.entry(line.instance).or_default()),
            "asked" if asks_agent(open, &body, &line.asks)? => {
                found.entry(line.instance).or_default().has_asked = true;
            }
            "settled" => found.entry(line.instance).or_default().is_settled = true,
            _ => {}
        }
    }
    Ok(found)
}

/// Whether an agent, which works in a worktree, is among those who are asked; a long list stands in the content.
fn asks_agent(open: &Connection, body: &str, asks: &Json) -> rusqlite::Result<bool> {
    let is_agent =
        |ask: &Json| ask["whom"].as_str().is_some_and(|whom| Performer::from(whom).role().is_some());
    if let Json::Array(asks) = asks {
        return Ok(asks.iter().any(is_agent));
    }
    for digest in journal::references(body) {
        let Some(number) = read::content(open, &digest)? else { continue };
        let moved = serde_json::from_slice::<Vec<Json>>(&read::bytes(open, number)?);
        if moved.is_ok_and(|asks| asks.iter().any(is_agent)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the notes of actions and instances that a run's journal does not know, and of landings that were taken back:
/// their numbers will be given again. They stay in the copies.
pub(super) fn drop_notes(open: &Connection, ends: &[RunEnd], rewound: &[Rewound]) -> rusqlite::Result<()> {
    for end in ends {
        let run = &end.journal.run;
        let mut list = open.prepare_cached("SELECT kind, key FROM notes WHERE substr(key, 1, ?1) = ?2")?;
        let length = run.as_str().len();
        let listed = list.query_map((read::whole(length as u64), run.as_str()), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        let keys = rewound.iter().filter(|one| one.run == *run).flat_map(|one| &one.keys);
        let keys: Vec<&String> = keys.collect();
        for (kind, key) in listed.collect::<rusqlite::Result<Vec<_>>>()? {
            if is_unknown(&end.journal, &key[length..]) || keys.contains(&&key) {
                open.execute("DELETE FROM notes WHERE kind = ?1 AND key = ?2", [kind, key])?;
            }
        }
    }
    Ok(())
}

/// Whether what is behind the name of a run in a key is an action (`.<entry>.<index>`) or an instance
/// (`-<instance>`) that the journal does not know.
fn is_unknown(end: &JournalEnd, rest: &str) -> bool {
    let number = |text: &str| text.split(['.', '-']).next().and_then(|digits| digits.parse::<u64>().ok());
    if let Some(action) = rest.strip_prefix('.') {
        return number(action).is_some_and(|entry| entry > end.last);
    }
    let instance = rest.strip_prefix('-').and_then(number).and_then(|number| u32::try_from(number).ok());
    instance.is_some_and(|instance| !end.instances.contains_key(&instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_folder::id::RunId;

    #[test]
    fn keys_beyond_the_journal_are_unknown_and_others_are_not() {
        let instances = BTreeMap::from([(0, KnownInstance::default()), (3, KnownInstance::default())]);
        let end = JournalEnd { run: RunId::of(7), last: 20, instances };
        for (rest, unknown) in [
            (".21.0", true),
            (".20.0", false),
            (".3", false),
            (".x.1", false),
            ("-4", true),
            ("-3", false),
            ("-3-tests", false),
            ("-landing", false),
            ("", false),
        ] {
            assert_eq!(is_unknown(&end, rest), unknown, "{rest:?}");
        }
    }
}
