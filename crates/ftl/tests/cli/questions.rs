//! A question makes nothing: no store, no folder, no file, also where there is a `.ftl` without a store.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Dir;

/// Commands that only ask.
const QUESTIONS: &[&str] = &[
    "status",
    "status --all --json",
    "campaign status",
    "campaign active",
    "campaign next-task",
    "campaign ready-tasks",
    "campaign cascade-status",
    "campaign cascade-analysis",
    "campaign history",
    "campaign fingerprint",
    "campaign find-similar",
    "campaign get-replan-input",
    "campaign summary",
    "memory stats",
    "memory query anything",
    "observer list",
    "exploration read",
    "exploration get-delta",
    "orchestration check-explorers",
    "phase status",
    "framework detect",
    "logfile tail",
    "query anything",
    "stats",
    "similar",
    "why none",
    "log none",
    "transcript none",
    "diff none",
    "protocols",
    "check",
    "draw task",
    "config",
    "schema",
    "agents",
    "salvage",
    "audit verify",
    "clean",
    "show",
    "next --eval",
    "doctor",
];

/// Every path below a folder but git's own, with what a file holds.
fn all(top: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path == top.join(".git") {
                continue;
            }
            let is_folder = fs::symlink_metadata(&path).unwrap().is_dir();
            found.insert(path.clone(), if is_folder { None } else { fs::read(&path).ok() });
            if is_folder {
                open.push(path);
            }
        }
    }
    found
}

/// A folder before anybody has asked, with its name.
type Prepared<'a> = (&'a str, &'a dyn Fn(&Dir));

#[test]
fn a_question_makes_nothing() {
    let nothing = |_: &Dir| {};
    let state = |dir: &Dir| fs::create_dir(dir.path(".ftl")).unwrap();
    let settings = |dir: &Dir| {
        dir.write(".ftl/config.toml", "[width]\nagents = 2\n");
    };
    let folders: [Prepared<'_>; 3] =
        [("an empty folder", &nothing), ("an empty state", &state), ("settings alone", &settings)];
    for (what, prepare) in folders {
        let dir = Dir::new();
        prepare(&dir);
        let before = all(&dir.path("."));
        for question in QUESTIONS {
            let words: Vec<&str> = question.split(' ').collect();
            let ended = dir.ftl(&words);
            assert!((0..=6).contains(&ended.code), "{what}: {question}: {ended:#?}");
            assert_eq!(all(&dir.path(".")), before, "{what}: {question}");
            assert!(!dir.cache().exists(), "{what}: {question}");
        }
    }
}
