//! Finding 1: no file outside of .ftl is removed or written by upkeep.
//!
//! Links are put at every level of `.ftl` (by git, by an agent, and by a thread that swaps folders and links while
//! commands run), and lead to a person's folder. Whatever a command says, that folder is the same afterwards: names,
//! bytes and times.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::support::{CommandOutcome, Dir, until};
use crate::tally::{Tally, seed, tries};

/// Every folder below `.ftl` that is used, from the outside in.
const FOLDERS: [&str; 28] = [
    "",
    "store",
    "store/attempts",
    "store/copies",
    "store/fences",
    "store/git",
    "store/git/chamber",
    "store/git/chamber/info",
    "store/git/chamber/objects",
    "store/git/chamber/refs",
    "store/git/index",
    "store/git/locks",
    "store/git/moving",
    "store/git/runs",
    "store/git/stood",
    "store/git/transfers",
    "store/git/trash",
    "store/git/worktrees",
    "store/owners",
    "store/scripts",
    "store/spool",
    "archive",
    "cache",
    "prompts",
    "protocols",
    "tasks",
    "workspace",
    "worktrees",
];

/// Files below `.ftl` that are read or written.
const FILES: [&str; 12] = [
    "campaign.json",
    "config.toml",
    "exploration.json",
    "ftl.log",
    "memory.json",
    "store/ftl.db",
    "store/ftl.db-wal",
    "store/ftl.db-shm",
    "store/heads",
    "store/paper.lock",
    "store/turn.lock",
    "store/write.lock",
];

/// What a person or their habits do with a repository; each looks, keeps or tidies up in its own way.
const COMMANDS: [&[&str]; 9] = [
    &["doctor"],
    &["doctor", "--deep"],
    &["status", "--all"],
    &["campaign", "create", "something else"],
    &["memory", "add-failure", "--json", r#"{"name": "n", "trigger": "t", "fix": "f", "cost": 1000}"#],
    &["salvage"],
    &["resume"],
    &["logfile", "test"],
    &["check"],
];

/// Names that are ours, and names that are a person's.
const NAMES: [&str; 9] = [
    "thesis.odt",
    "k3v9x2qa.12.0",
    "once.00c0ffee00c0ffee",
    "k3v9x2qa.toml",
    "k3v9x2qa.plan.json",
    ".tmpAb12Zz",
    "0123456789abcdef",
    "k3v9x2qa",
    "deep/inner.txt",
];

/// A person's folder, old enough that upkeep would call it left over.
struct Victim {
    folder: tempfile::TempDir,
    before: BTreeMap<PathBuf, Seen>,
}

/// What must not change of a file or folder.
type Seen = (u64, u32, i64, i64, Vec<u8>);

impl Victim {
    fn new() -> Victim {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, format!("mine: {name}")).unwrap();
            File::open(&file)
                .unwrap()
                .set_modified(SystemTime::now() - Duration::from_secs(9 * 24 * 60 * 60))
                .unwrap();
        }
        let before = stat_files(folder.path());
        Victim { folder, before }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What is different by now.
    fn harm(&self) -> Option<String> {
        let now = stat_files(self.path());
        let gone = self.before.iter().filter(|(path, seen)| now.get(*path) != Some(seen));
        let gone: Vec<String> =
            gone.map(|(path, _)| format!("{} is not what it was", path.display())).collect();
        let new = now.keys().filter(|path| !self.before.contains_key(*path));
        let new: Vec<String> = new.map(|path| format!("{} is new", path.display())).collect();
        let harm = [gone, new].concat();
        (!harm.is_empty()).then(|| harm.join(", "))
    }
}

fn stat_files(folder: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(one) = folders.pop() {
        let found = fs::symlink_metadata(&one).unwrap();
        all.insert(one.clone(), (found.ino(), found.mode(), found.mtime(), found.mtime_nsec(), Vec::new()));
        for entry in fs::read_dir(one).unwrap().map(|entry| entry.unwrap().path()) {
            let found = fs::symlink_metadata(&entry).unwrap();
            if found.is_dir() {
                folders.push(entry);
                continue;
            }
            let bytes = fs::read(&entry).unwrap_or_default();
            all.insert(entry, (found.ino(), found.mode(), found.mtime(), found.mtime_nsec(), bytes));
        }
    }
    all
}

const PLAY: &str = r#"
[[scene]]
role = "builder"
form = "plan"
[[scene.step]]
submit = { approach = "write it" }
[[scene]]
role = "builder"
form = "implement"
[[scene.step]]
calls = [{ tool = "bash", command = '''COMMAND''' }, { tool = "write", path = "a.txt", content = "done\n" }]
[[scene.step]]
submit = { summary = "written", utilized = [] }
"#;

const SETTINGS: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[process]\nsilence = \"30s\"\n\
    [roles]\nbuilder = \"play\"\n";

/// A repository whose one task runs a command of its agent's.
fn repository(command: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n").write(".gitignore", "plan.json\nftl.toml\nplay.toml\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let task = json!({ "seq": "001", "slug": "one", "delta": ["a.txt"], "verify": "grep -q done a.txt", "budget": 5 });
    let plan = json!({ "objective": "all is done", "tasks": [task] });
    dir.write("plan.json", plan.to_string()).write("ftl.toml", SETTINGS);
    dir.write("play.toml", PLAY.replace("COMMAND", command));
    dir
}

const GO: [&str; 7] = ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "ff"];

/// A repository in which everything below `.ftl` has been used once.
fn used() -> Dir {
    let dir = repository("true");
    dir.ftl(&GO).code(0);
    dir.ftl(COMMANDS[7]).code(0);
    for folder in FOLDERS {
        fs::create_dir_all(dir.path(".ftl").join(folder)).unwrap();
    }
    dir
}

/// Puts a link in the place of a part of `.ftl`; what was there lies beside it.
fn link(dir: &Dir, part: &str, to: &Path) {
    let at = dir.path(&format!(".ftl/{part}"));
    let at = PathBuf::from(at.to_str().unwrap().trim_end_matches('/'));
    let _ = fs::rename(&at, at.with_extension("aside"));
    symlink(to, at).unwrap();
}

fn unlink(dir: &Dir, part: &str) {
    let at = dir.path(&format!(".ftl/{part}"));
    let at = PathBuf::from(at.to_str().unwrap().trim_end_matches('/'));
    let _ = fs::remove_file(&at);
    let _ = fs::rename(at.with_extension("aside"), &at);
}

/// A command that was refused says why and what to do; one that was not had nothing to do there.
fn civil(ended: &CommandOutcome) -> Option<String> {
    let is_told = ended.code == 0
        || ended.err.contains("hint: ")
        || ended.out.contains("hint: ")
        || ended.out.contains("broken:");
    let is_civil = (0..=6).contains(&ended.code) && !ended.err.contains("panicked") && is_told;
    (!is_civil).then(|| format!("{ended:?}"))
}

/// How long a command may take that must not wait for anybody.
const MAX_COMMAND: &str = "20";

fn within(dir: &Dir, words: &[&str]) -> CommandOutcome {
    let inner = dir.command(words);
    let mut command = std::process::Command::new("timeout");
    command
        .arg(MAX_COMMAND)
        .arg(inner.get_program())
        .args(words)
        .current_dir(inner.get_current_dir().unwrap());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    crate::support::ended(command)
}

#[test]
fn links_in_a_clone_lead_no_command_out() {
    let mut tally =
        Tally::of("links that git checked out, at every level of .ftl: nothing outside is touched");
    // The three that finding 1 is about, and some of the others.
    let found = ["store/attempts", "store/scripts", "store/spool"];
    let others: Vec<&str> = FOLDERS.into_iter().chain(FILES).filter(|part| !found.contains(part)).collect();
    let some = others
        .iter()
        .cycle()
        .skip(seed() as usize % others.len())
        .step_by(5)
        .take(tries(5).min(others.len()));
    for (number, part) in found.iter().chain(some).enumerate() {
        let victim = Victim::new();
        let origin = Dir::repository();
        let is_file = FILES.contains(part);
        let to = if is_file { victim.path().join("thesis.odt") } else { victim.path().to_owned() };
        origin.write("a.txt", "a\n");
        fs::create_dir_all(origin.path(".ftl").join(part).parent().unwrap()).unwrap();
        link(&origin, part, &to);
        origin.git(&["add", "-f", "."]);
        origin.git(&["commit", "-qm", "a repository of somebody's"]);
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("copy");
        origin.git(&["clone", "-q", ".", copy.to_str().unwrap()]);
        let copy = Dir::at(&copy);
        // Each part meets the commands that make a store and tidy up, and one of the others.
        for words in [COMMANDS[3], COMMANDS[0], COMMANDS[number % COMMANDS.len()]] {
            let ended = within(&copy, words);
            let harm = victim.harm().or_else(|| civil(&ended));
            tally.count(harm.map(|harm| format!("`.ftl/{part}`, {words:?}: {harm}")));
        }
    }
    tally.close();
}

#[test]
fn links_put_into_a_store_that_was_used_lead_no_command_out() {
    let mut tally = Tally::of("links at every level of a .ftl that was used: nothing outside is touched");
    let dir = used();
    for (number, part) in FOLDERS.iter().chain(&FILES).enumerate() {
        let victim = Victim::new();
        let to =
            if FILES.contains(part) { victim.path().join("thesis.odt") } else { victim.path().to_owned() };
        link(&dir, part, &to);
        let more = COMMANDS.iter().cycle().skip(number % COMMANDS.len()).take(tries(1).min(COMMANDS.len()));
        for words in more.chain([&COMMANDS[0]]) {
            let ended = within(&dir, words);
            let refused = if FOLDERS.contains(part) && words[0] == "doctor" && ended.code == 0 {
                Some(format!("the doctor found nothing: {ended:?}"))
            } else {
                None
            };
            let harm = victim.harm().or_else(|| civil(&ended)).or(refused);
            tally.count(harm.map(|harm| format!("`.ftl/{part}`, {words:?}: {harm}")));
        }
        unlink(&dir, part);
    }
    // With all of them taken away everything is as it was.
    let ended = dir.ftl(&["audit", "verify"]);
    tally.count((ended.code != 0).then(|| format!("{ended:?}")));
    tally.close();
}

#[test]
fn links_that_lead_nowhere_or_in_a_circle_and_pipes_keep_nobody_waiting() {
    let mut tally =
        Tally::of("dangling links, loops, pipes and hard links in .ftl: a clear word, and at once");
    let dir = used();
    let victim = Victim::new();
    let kinds = ["nowhere", "circle", "pipe"];
    for (number, part) in FOLDERS.iter().skip(1).chain(&FILES).enumerate() {
        let at = dir.path(".ftl").join(part);
        for kind in kinds.into_iter().cycle().skip(number % kinds.len()).take(tries(1).min(kinds.len())) {
            if kind == "pipe" && FOLDERS.contains(part) && *part != "store/spool" {
                continue;
            }
            match kind {
                "nowhere" => link(&dir, part, &victim.path().join("nowhere")),
                "circle" => link(&dir, part, &at),
                _ => {
                    let _ = fs::rename(&at, at.with_extension("aside"));
                    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                    rustix::fs::mknodat(rustix::fs::CWD, &at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
                }
            }
            let words = COMMANDS[(part.len() + kind.len()) % COMMANDS.len()];
            let ended = within(&dir, words);
            let harm = victim.harm().or_else(|| civil(&ended));
            tally.count(harm.map(|harm| format!("{kind} in `.ftl/{part}`, {words:?}: {harm}")));
            unlink(&dir, part);
        }
    }
    for part in [
        "ftl.log",
        "store/ftl.db-wal",
        "store/ftl.db-shm",
        "store/write.lock",
        "campaign.json",
        "memory.json",
    ] {
        let at = dir.path(".ftl").join(part);
        let _ = fs::rename(&at, at.with_extension("aside"));
        fs::hard_link(victim.path().join("thesis.odt"), &at).unwrap();
        for words in [COMMANDS[4], COMMANDS[7]] {
            let ended = within(&dir, words);
            let harm = victim.harm().or_else(|| civil(&ended));
            tally.count(harm.map(|harm| format!("hard link in `.ftl/{part}`, {words:?}: {harm}")));
        }
        unlink(&dir, part);
    }
    tally.close();
}

#[test]
fn what_lies_where_only_ours_belongs_is_told_and_left() {
    let dir = used();
    let mine = [
        "store/attempts/thesis.odt",
        "store/spool/thesis.odt",
        "store/scripts/notes.txt",
        "store/owners/list",
    ];
    for name in mine {
        let file = dir.path(".ftl").join(name);
        fs::write(&file, "mine").unwrap();
        File::open(&file)
            .unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(9 * 24 * 60 * 60))
            .unwrap();
    }
    let ours = [
        "store/attempts/k3v9x2qa.12.0",
        "store/scripts/k3v9x2qa.toml",
        "store/owners/00000000deadbeef",
        ".campaign.json.0123456789abcdef.tmp",
        "store/git/index/.person.0123456789abcdef.tmp",
    ];
    for name in ours {
        let file = dir.path(".ftl").join(name);
        fs::write(&file, "{}").unwrap();
        File::open(&file)
            .unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(9 * 24 * 60 * 60))
            .unwrap();
    }
    dir.ftl(&["doctor"]).code(0).says(&["not made by ftl", "1 file of dead attempts removed"]);
    for name in mine {
        assert_eq!(dir.read(&format!(".ftl/{name}")), "mine");
    }
    assert!(ours.iter().all(|name| !dir.path(".ftl").join(name).exists()));
}

#[test]
fn a_store_that_git_tracks_is_refused_with_the_way_out() {
    let dir = used();
    dir.git(&["add", "-f", ".ftl/store/scripts", ".ftl/store/paper.lock"]);
    for words in [COMMANDS[2], COMMANDS[3], COMMANDS[4], &GO[..]] {
        let ended = dir.ftl(words).code(1);
        ended.says(&["git tracks `.ftl/store/", "hint: `git rm -r --cached .ftl/store/"]);
    }
    dir.ftl(&["doctor"]).code(1).says(&["broken:", "git tracks `.ftl/store/"]);
    dir.git(&["rm", "-rq", "--cached", ".ftl/store"]);
    dir.ftl(COMMANDS[2]).code(0);
    // What people do track is no trouble.
    dir.protocol("mine", "STATE: A\n  RETURN: complete\n");
    dir.git(&["add", "-f", ".ftl/protocols"]);
    dir.ftl(COMMANDS[2]).code(0);
}

#[test]
fn links_that_an_agent_makes_lead_nothing_out() {
    let mut tally = Tally::of("links that an agent makes during its run: nothing outside is touched");
    let parts: Vec<&str> = FOLDERS.iter().chain(&FILES).copied().filter(|part| !part.is_empty()).collect();
    let count = tries(4).min(parts.len());
    for part in
        parts.iter().skip(usize::try_from(seed()).unwrap_or(0) % 7).step_by(parts.len().div_ceil(count))
    {
        let victim = Victim::new();
        let to =
            if FILES.contains(part) { victim.path().join("thesis.odt") } else { victim.path().to_owned() };
        let state = "../../../.ftl";
        let command = format!(
            "mv {state}/{part} {state}/{part}.aside; mkdir -p $(dirname {state}/{part}); ln -s {} {state}/{part}; true",
            to.display()
        );
        let dir = repository(&command);
        let ended = within(&dir, &GO);
        let code = ended.code;
        tally.count(victim.harm().map(|harm| format!("`.ftl/{part}`, the run ended with {code}: {harm}")));
        for words in [&["resume"][..], &["doctor"], &["status", "--all"]] {
            let _ = within(&dir, words);
            tally.count(victim.harm().map(|harm| format!("`.ftl/{part}`, {words:?}: {harm}")));
        }
    }
    tally.close();
}

/// Swaps a folder and a link as fast as it can until it is told to stop, and counts how often.
fn swap(at: &Path, to: &Path, (count, stop): (&AtomicUsize, &AtomicBool)) {
    let other = at.with_extension("link");
    symlink(to, &other).unwrap();
    while !stop.load(Ordering::Relaxed) {
        exchange(at, &other);
        count.fetch_add(1, Ordering::Relaxed);
    }
    if at.is_symlink() {
        exchange(at, &other);
    }
    fs::remove_file(other).unwrap();
}

/// The same with pauses, in which something can be done: a link for a moment, the folder for longer.
fn swap_slowly(at: &Path, to: &Path, (count, stop): (&AtomicUsize, &AtomicBool)) {
    let other = at.with_extension("link");
    symlink(to, &other).unwrap();
    while !stop.load(Ordering::Relaxed) {
        exchange(at, &other);
        count.fetch_add(1, Ordering::Relaxed);
        let pause = if at.is_symlink() { Duration::from_micros(200) } else { Duration::from_millis(5) };
        std::thread::sleep(pause);
    }
    if at.is_symlink() {
        exchange(at, &other);
    }
    fs::remove_file(other).unwrap();
}

/// At once, or in three steps where the file system cannot.
fn exchange(one: &Path, other: &Path) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        // A folder that is empty goes, and comes again when it is needed.
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(_) => {
            let aside = one.with_extension("third");
            for (from, to) in [(one, aside.as_path()), (other, one), (&aside, other)] {
                fs::rename(from, to).unwrap();
            }
        }
    }
}

#[test]
fn a_link_that_comes_between_look_and_use_leads_nothing_out() {
    let mut tally = Tally::of("folders and links swapped while commands run: nothing outside is touched");
    let dir = used();
    let raced = [
        "store/attempts",
        "store/scripts",
        "store/spool",
        "store/owners",
        "store/copies",
        "workspace",
        "archive",
        "store",
    ];
    let commands = [COMMANDS[0], COMMANDS[3], COMMANDS[4], COMMANDS[2], COMMANDS[7]];
    for number in 0..tries(24) {
        let part = raced[number % raced.len()];
        let at = dir.path(".ftl").join(part);
        let victim = Victim::new();
        // Something old of ours is there to be removed, also in the person's folder.
        fs::create_dir_all(dir.path(".ftl/store/scripts")).unwrap();
        for name in ["store/scripts/k3v9x2qa.toml", "store/attempts/k3v9x2qa.12.0"] {
            let file = dir.path(".ftl").join(name);
            fs::write(&file, "{}").unwrap();
            File::open(&file)
                .unwrap()
                .set_modified(SystemTime::now() - Duration::from_secs(9 * 24 * 60 * 60))
                .unwrap();
        }
        let (count, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| swap(&at, victim.path(), (&count, &stop)));
            until("it was swapped", || count.load(Ordering::Relaxed) > 0);
            let words = commands[(number / raced.len() + number) % commands.len()];
            let ended = within(&dir, words);
            stop.store(true, Ordering::Relaxed);
            let is_civil = (0..=6).contains(&ended.code) && !ended.err.contains("panicked");
            let harm = victim.harm().or_else(|| (!is_civil).then(|| format!("{ended:?}")));
            tally.count(harm.map(|harm| format!("`.ftl/{part}`, {words:?}: {harm}")));
        });
    }
    until("the store is whole", || dir.ftl(&["audit", "verify"]).code == 0);
    tally.close();
}

/// What only we write in the folder of git: git itself opens the others by their paths.
const WRITTEN_BY_US: [&str; 8] = [
    "store/git/moving",
    "store/git/runs",
    "store/git/locks",
    "store/git/stood",
    "store/git/transfers",
    "store/git/worktrees",
    "store/attempts",
    "store/spool",
];

#[test]
fn a_link_that_comes_while_a_run_works_with_git_leads_nothing_out() {
    let mut tally =
        Tally::of("folders and links swapped while a run works with git: nothing outside is touched");
    for number in 0..tries(4) {
        // Each part in turn, wherever the draw begins.
        let part = WRITTEN_BY_US[(number + usize::try_from(seed()).unwrap_or(0)) % WRITTEN_BY_US.len()];
        let (dir, victim) = (repository("true"), Victim::new());
        let at = dir.path(".ftl").join(part);
        fs::create_dir_all(&at).unwrap();
        let (count, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| swap_slowly(&at, victim.path(), (&count, &stop)));
            until("it was swapped", || count.load(Ordering::Relaxed) > 0);
            for words in [&GO[..], &["resume"]] {
                let ended = within(&dir, words);
                let is_civil = (0..=6).contains(&ended.code) && !ended.err.contains("panicked");
                let harm = victim.harm().or_else(|| (!is_civil).then(|| format!("{ended:?}")));
                tally.count(harm.map(|harm| format!("`.ftl/{part}`, {words:?}: {harm}")));
            }
            stop.store(true, Ordering::Relaxed);
        });
        // With the link gone, whatever was held goes on to its end.
        let runs = dir.ftl(&["status", "--all", "--json"]).code(0).json();
        for run in runs["runs"].as_array().into_iter().flatten().filter_map(|run| run["run"].as_str()) {
            let ended = dir.ftl(&["resume", run]);
            let harm = victim.harm().or_else(|| (ended.code == 1).then(|| format!("{ended:?}")));
            tally.count(harm.map(|harm| format!("`.ftl/{part}` afterwards: {harm}")));
        }
        tally.count((dir.ftl(&["audit", "verify"]).code != 0).then(|| format!("`.ftl/{part}`: the store")));
    }
    tally.close();
}
