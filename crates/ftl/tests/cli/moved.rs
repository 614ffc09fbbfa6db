//! Files of campaigns that change places when another campaign becomes the current one: a process that is killed in
//! the middle of it loses nothing and leaves nothing twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ftl_testkit::faults::{Call, Fault, Faults, counted};
use serde_json::{Value as Json, json};

use crate::campaigns::{builds, repository, task};
use crate::support::{CommandOutcome, Dir, ended};

/// Everything that a campaign has, by its path below the folder of the campaign.
type Files = BTreeMap<String, String>;

/// The names that a campaign has files under.
const NAMES: [&str; 5] = ["campaign.json", "exploration.json", "phase_state.json", "cache", "workspace"];

fn files(dir: &Dir, below: &str) -> Files {
    let mut found = Files::new();
    for name in NAMES {
        collect(&dir.path(below).join(name), name, &mut found);
    }
    found
}

fn collect(path: &Path, name: &str, found: &mut Files) {
    if path.is_file() {
        found.insert(name.to_owned(), std::fs::read_to_string(path).unwrap());
        return;
    }
    for one in std::fs::read_dir(path).into_iter().flatten() {
        let file = one.unwrap().file_name().into_string().unwrap();
        collect(&path.join(&file), &format!("{name}/{file}"), found);
    }
}

fn explores(dir: &Dir, what: &str, named: &[&str]) {
    dir.fed(&[&["exploration", "write"], named].concat(), &json!({ "_meta": { "of": what } }).to_string())
        .code(0);
    let result = json!({ "mode": "delta", "status": "ok", "candidates": [{ "path": what }] });
    dir.fed(&[&["exploration", "write-result", "--mode", "delta"], named].concat(), &result.to_string())
        .code(0);
    dir.ftl(&[&["phase", "transition", "observe", "--force"], named].concat()).code(0);
}

/// A run that has ended stands in front, a campaign of commands that has ended beside it; both have every file.
fn both() -> (Dir, String) {
    let plan = [task("001", "same", "a.txt", &[])];
    let dir = repository(&plan, &[builds("001-same", "a.txt", "done", "true")]);
    dir.ftl(&["campaign", "create", "by hand"]).code(0);
    let text = json!({ "objective": "by hand", "tasks": plan }).to_string();
    dir.fed(&["campaign", "add-tasks"], &text).code(0);
    dir.write("meet-plan.json", text);
    dir.ftl(&["workspace", "create", "--plan", "meet-plan.json"]).code(0);
    explores(&dir, "by-hand", &[]);
    dir.ftl(&["campaign", "update-task", "001", "complete"]).code(0);
    dir.ftl(&["campaign", "complete"]).code(0);
    let json =
        dir.ftl(&["campaign", "run", "all is done", "--plan", "meet-plan.json", "--json"]).code(0).json();
    let run = json["run"].as_str().unwrap().to_owned();
    explores(&dir, "of-the-run", &["--campaign", &run]);
    (dir, run)
}

/// The same repository once more.
fn copy(dir: &Dir) -> Dir {
    let other = Dir::new();
    std::fs::remove_dir_all(other.path("")).unwrap();
    let mut cp = Command::new("cp");
    cp.arg("-a").arg(dir.path("")).arg(other.path(""));
    ended(cp).code(0);
    other
}

/// Opens a campaign of commands, which brings theirs to the front.
fn opens(dir: &Dir, faults: Option<Faults>) -> CommandOutcome {
    let mut command = dir.command(&["campaign", "create", "once more"]);
    if let Some(faults) = faults {
        faults.on(&mut command).unwrap();
    }
    ended(command)
}

fn faults() -> Faults {
    Faults::of(".ftl").only(&[Call::Rename, Call::Folder, Call::Unlink, Call::Sync]).raw()
}

fn without_campaign(mut files: Files) -> Files {
    files.remove("campaign.json");
    files
}

#[test]
fn killed_while_campaigns_change_places_nothing_is_lost_and_nothing_is_twice() {
    let (dir, run) = both();
    let aside = format!(".ftl/campaigns/{run}");
    let (of_run, by_hand) = (files(&dir, ".ftl"), files(&dir, ".ftl/campaigns/commands"));
    assert_eq!((of_run.len(), by_hand.len()), (5, 5), "each has all of them: {of_run:#?} {by_hand:#?}");
    let calls = {
        let dir = copy(&dir);
        opens(&dir, Some(faults().counting(&dir.path("count")))).code(0);
        counted(&dir.path("count")).unwrap()
    };
    assert!(calls > 12, "the renames of both campaigns are among them: {calls}");
    let mut halfway = 0;
    for call in 1..=calls {
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            let dir = copy(&dir);
            assert_eq!(opens(&dir, Some(faults().at(call, fault))).code, -9, "{call} {fault:?}");
            let (left, right) = (files(&dir, ".ftl"), files(&dir, &aside));
            halfway += usize::from(left != of_run && right != of_run);
            // Whoever looks at a campaign next finds it whole, wherever its files have come to.
            for (named, what) in [(run.as_str(), &of_run), ("commands", &by_hand)] {
                let read = dir.ftl(&["exploration", "read", "--campaign", named]).code(0);
                assert_eq!(read.err, "", "our own file is never taken for somebody's: {call} {fault:?}");
                assert_eq!(read.out, what["exploration.json"], "{call} {fault:?}");
                let phase = dir.ftl(&["phase", "status", "--campaign", named]).code(0);
                assert_eq!(phase.out, what["phase_state.json"], "{call} {fault:?}");
                let checked = dir.ftl(&["orchestration", "check-explorers", "--campaign", named]).code(0);
                assert_eq!(checked.json()["modes"]["delta"], "ok", "{call} {fault:?}");
                let listed = dir.ftl(&["observer", "list", "--campaign", named]).code(0).json();
                let count = |key: &str| listed[key].as_array().unwrap().len();
                assert_eq!(count("active") + count("complete"), 1, "{call} {fault:?}: {listed:#}");
            }
            let said = opens(&dir, None).code(0);
            assert!(!said.err.contains("taken over"), "{call} {fault:?}: {said:#?}");
            assert_eq!(files(&dir, &aside), of_run, "{call} {fault:?}");
            let front = files(&dir, ".ftl");
            assert_eq!(
                without_campaign(front.clone()),
                without_campaign(by_hand.clone()),
                "{call} {fault:?}"
            );
            let campaign: Json = serde_json::from_str(&front["campaign.json"]).unwrap();
            assert_eq!(campaign["objective"], "once more", "{call} {fault:?}");
            assert_eq!(
                files(&dir, ".ftl/campaigns/commands"),
                Files::new(),
                "nothing is there twice: {call}"
            );
        }
    }
    assert!(halfway > 2, "some were killed in the middle of the renames: {halfway}");
}
