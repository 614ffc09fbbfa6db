//! Findings 5 and 18: damage of the store is never taken for its end.
//!
//! A campaign is killed in the middle, with everything in its store and a log that is not in the database yet; each
//! try damages a copy of that.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ftl_testkit::faults::{Call, Fault, Faults, InjectedFault};
use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir, ended, until};
use crate::tally::{Tally, seed, tries};

/// How much the demo tells before it is killed: several tasks have landed, and others are at work.
const NEWS: usize = 22;

/// What the demo comes to.
const LANDED: [&str; 6] = ["001", "003", "004", "002", "005", "006"];

/// A campaign that was killed, as files.
struct Killed {
    place: Dir,
    run: String,
    entries: usize,
}

impl Killed {
    fn new() -> Killed {
        let place = Dir::new();
        let till = place.path("till");
        let mut demo = place.command(&["demo", "--dir", till.to_str().unwrap(), "--json"]);
        let mut demo = demo.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let news = BufReader::new(demo.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut told = 0;
        for _ in news.filter(|line| line.starts_with('{')) {
            told += 1;
            if told == 1 {
                let lesson = json!({"name": "lost-lock", "trigger": "the lock file is gone after a kill", "fix": "make it again"});
                let dir = Dir::at(&till);
                dir.ftl(&["memory", "add-failure", "--json", &lesson.to_string()]).code(0);
                std::mem::forget(dir);
            }
            if told >= NEWS {
                break;
            }
        }
        demo.kill().unwrap();
        demo.wait().unwrap();
        let killed = Killed { place, run: String::new(), entries: 0 };
        let copy = killed.copy();
        // Guards end what is left; whoever is still there could write into a copy.
        until("every agent has ended", || copy.ftl(&["doctor", "--json"]).code == 0);
        let runs = copy.ftl(&["status", "--json", "--all"]).code(0).json();
        let run = runs["runs"][0]["run"].as_str().unwrap().to_owned();
        let entries = copy.entries(&run).len();
        assert!(fs::metadata(killed.file("ftl.db-wal")).unwrap().len() > 100_000);
        Killed { run, entries, ..killed }
    }

    /// What the campaign makes of the repository where nothing is damaged.
    fn undisturbed_tree(&self) -> String {
        let dir = self.copy();
        dir.ftl(&["resume", &self.run]).code(0);
        dir.git(&["rev-parse", "HEAD^{tree}"]).trim().to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path("till/.ftl/store").join(name)
    }

    /// A copy of the whole repository, at the same kind of place.
    fn copy(&self) -> Dir {
        let dir = Dir::new();
        let copied =
            Command::new("cp").arg("-aT").arg(self.place.path("till")).arg(dir.path("")).status().unwrap();
        assert!(copied.success());
        dir
    }
}

/// What a person reads, each command with what it says.
fn readings(dir: &Dir, run: &str) -> Vec<(Vec<String>, i32, String)> {
    let words: [&[&str]; 6] = [
        &["status", "--json", "--all"],
        &["log", run, "--json"],
        &["campaign", "status"],
        &["memory", "stats"],
        &["memory", "query", "lock file"],
        &["memory", "export", "-"],
    ];
    let read = |words: &&[&str]| {
        let ended = dir.ftl(words);
        let out = volatile_removed(&ended.out);
        (words.iter().map(|word| (*word).to_owned()).collect(), ended.code, out)
    };
    words.iter().map(read).collect()
}

/// Times of now, and folders of this copy, are no part of what is kept.
fn volatile_removed(out: &str) -> String {
    let Ok(Json::Object(mut fields)) = serde_json::from_str::<Json>(out) else { return out.to_owned() };
    for key in ["exported_at", "now"] {
        fields.remove(key);
    }
    Json::Object(fields).to_string()
}

/// Whether damage is found: the command ends badly and says something.
fn is_found(dir: &Dir) -> bool {
    let finds = |ended: &CommandOutcome| {
        assert!((0..128).contains(&ended.code), "a signal: {ended:#?}");
        assert!(!ended.err.contains("panicked"), "{ended:#?}");
        ended.code != 0 && !(ended.out.is_empty() && ended.err.is_empty())
    };
    let looks: [&[&str]; 2] = [&["audit", "verify"], &["doctor", "--deep"]];
    looks.iter().any(|words| finds(&dir.ftl(words)))
}

#[test]
fn damage_in_the_log_is_not_its_end_and_a_person_can_go_on() {
    let killed = Killed::new();
    let mut tally = Tally::of("a damaged log is found, read, not written, and can be left behind (5)");
    // Zeros at the end are room for what would have come.
    let whole = fs::read(killed.file("ftl.db-wal")).unwrap();
    let size = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut dice = Dice(seed());
    let tree = killed.undisturbed_tree();
    for number in 0..tries(4) {
        let dir = killed.copy();
        let at = size / 8 + dice.below(size - size / 8 - 4096);
        let mut log = fs::read(killed.file("ftl.db-wal")).unwrap();
        let what = match number % 4 {
            0 => {
                log[at] ^= 1 << dice.below(8);
                format!("bit flipped at {at}")
            }
            1 => {
                log.truncate(at);
                format!("cut at {at}")
            }
            2 => {
                log.clear();
                "emptied".to_owned()
            }
            _ => {
                log[at..at + 4096].fill(0);
                format!("zeros at {at}")
            }
        };
        dir.write(".ftl/store/ftl.db-wal", &log);
        let problem = found_and_left_behind(&killed, &dir, &tree);
        tally.count(problem.map(|problem| format!("{what} of {size}: {problem}")));
    }
    tally.close();
}

/// What was not as it must be, from the damage to the end of the campaign.
fn found_and_left_behind(killed: &Killed, dir: &Dir, tree: &str) -> Option<String> {
    let log = dir.ftl(&["log", &killed.run, "--json"]);
    let left = if log.code == 0 { log.out.lines().count() } else { 0 };
    let audit = dir.ftl(&["audit", "verify"]);
    if left == killed.entries && audit.code == 0 {
        return None;
    }
    if audit.code != 6 {
        return Some(format!("{left} of {} entries, and the audit says {audit:?}", killed.entries));
    }
    let refused = dir.ftl(&["resume"]);
    if refused.code == 0 {
        return Some(format!("it was written: {refused:?}"));
    }
    let doctor = dir.ftl(&["doctor"]);
    if doctor.code != 1 || !doctor.out.contains("--accept-loss") || !doctor.out.contains("git still has") {
        return Some(format!("the doctor does not say what is missing: {doctor:?}"));
    }
    let accepted = dir.ftl(&["doctor", "--accept-loss", "--reason", "the disk", "--by", "Ada"]);
    if accepted.code != 0 {
        return Some(format!("the loss was not accepted: {accepted:?}"));
    }
    let audit = dir.ftl(&["audit", "verify"]);
    if audit.code != 0 || !audit.out.contains("Ada accepted a loss (the disk)") {
        return Some(format!("after it the audit says {audit:?}"));
    }
    if left > 0 {
        return ends_as_undisturbed(killed, dir, tree).map(|why| format!("{why}\nbefore: {}", accepted.out));
    }
    let gone = dir.ftl(&["resume", &killed.run]);
    let says_why = gone.code != 0 && gone.err.contains("no run");
    (!says_why).then(|| format!("a run that is gone altogether goes on: {gone:?}"))
}

/// Goes on from what is left: every task once, whatever had landed before.
fn ends_as_undisturbed(killed: &Killed, dir: &Dir, tree: &str) -> Option<String> {
    let ended = dir.ftl(&["resume", &killed.run, "--json"]);
    let report = serde_json::from_str::<Json>(&ended.out).unwrap_or_default();
    let rows = report["report"]["landed"].as_array().cloned().unwrap_or_default();
    let landed: Vec<&str> = rows.iter().filter_map(|row| row["seq"].as_str()).collect();
    if ended.code != 0 || landed != LANDED {
        return Some(format!("it ended with {landed:?}: {ended:?}"));
    }
    let subjects = dir.git(&["log", "--format=%s"]);
    let mut each: Vec<&str> = subjects.lines().collect();
    let all = each.len();
    each.sort_unstable();
    each.dedup();
    if (all, each.len()) != (7, 7) {
        return Some(format!("a task landed twice or not at all: {subjects}"));
    }
    if dir.git(&["rev-parse", "HEAD^{tree}"]).trim() != tree {
        return Some(format!("another tree than undisturbed: {}", dir.git(&["log", "--stat"])));
    }
    let audit = dir.ftl(&["audit", "verify"]);
    (audit.code != 0).then(|| format!("at the end the audit says {audit:?}"))
}

#[test]
fn a_run_that_delivered_what_its_journal_lost_delivers_nothing_again() {
    let killed = Killed::new();
    let dir = killed.copy();
    dir.ftl(&["resume", &killed.run]).code(0);
    let (head, log) = (dir.git(&["rev-parse", "HEAD"]), dir.git(&["log", "--format=%H"]));
    // The database comes back from before; git does not.
    for name in ["ftl.db", "ftl.db-wal"] {
        fs::copy(killed.file(name), dir.path(".ftl/store").join(name)).unwrap();
    }
    let _ = fs::remove_file(dir.path(".ftl/store/ftl.db-shm"));
    dir.ftl(&["resume", &killed.run]).code(6);
    let accept = ["doctor", "--accept-loss", "--reason", "a backup", "--by", "Ada"];
    dir.ftl(&accept).code(0).says(&["will be stopped", "`main` has", &head.trim()[..12]]);
    dir.ftl(&["resume", &killed.run]);
    let told = dir.ftl(&["log", &killed.run]).code(0);
    assert!(told.out.contains(head.trim()) && told.out.contains("stopped"), "{told:?}");
    assert_eq!(dir.git(&["log", "--format=%H"]), log, "nothing was delivered again");
    dir.ftl(&["audit", "verify"]).code(0);
}

#[test]
fn every_edit_of_rows_is_found() {
    let killed = Killed::new();
    let mut tally = Tally::of("edits of rows with another tool are found (5)");
    let edits = [
        ("all runs dropped", "PRAGMA foreign_keys = OFF; DELETE FROM runs"),
        ("all content dropped", "PRAGMA foreign_keys = OFF; DELETE FROM content"),
        (
            "one piece of content dropped",
            "PRAGMA foreign_keys = OFF; DELETE FROM content WHERE number = (SELECT max(number) FROM content)",
        ),
        ("lessons edited", "UPDATE lesson SET body = replace(body, 'lock', 'lick')"),
        ("lessons dropped", "DELETE FROM lesson"),
        ("notes edited", "UPDATE notes SET body = replace(body, 'till', 'tall')"),
        ("notes dropped", "DELETE FROM notes WHERE kind = (SELECT kind FROM notes LIMIT 1)"),
        ("an epoch set back", "UPDATE runs SET epoch = 0"),
        ("the owner removed", "UPDATE runs SET owner = NULL"),
        ("an order forged", "INSERT INTO commands (run, body) SELECT number, '{}' FROM runs"),
        ("the trigger gone", "DROP TRIGGER entries_are_never_changed"),
        (
            "an entry edited",
            "DROP TRIGGER entries_are_never_changed; UPDATE entries SET body = body || ' ' WHERE seq = 9",
        ),
        ("a tail cut", "DROP TRIGGER entries_are_never_removed; DELETE FROM entries WHERE seq > 100"),
    ];
    for violation in side_by_side(&edits, |(what, edit)| {
        let dir = killed.copy();
        let open = dir.tampering();
        open.execute_batch(edit).unwrap();
        drop(open);
        let audit = dir.ftl(&["audit", "verify"]);
        let silent = audit.code != 6 || !(audit.out + &audit.err).contains("broken");
        silent.then(|| (*what).to_owned())
    }) {
        tally.count(violation);
    }
    tally.close();
}

#[test]
fn random_damage_is_found_or_changes_nothing_that_is_read() {
    let killed = Killed::new();
    let sound = killed.copy();
    let before = readings(&sound, &killed.run);
    assert!(!is_found(&sound), "{:?}", sound.ftl(&["doctor", "--deep"]));
    assert_eq!(readings(&killed.copy(), &killed.run), before, "what is compared does not depend on the time");
    let mut tally = Tally::of("random damage of store files is found, or changes nothing that is read (5)");
    println!("seed {}", seed());
    let numbers: Vec<u64> = (0..tries(25) as u64).collect();
    for violation in side_by_side(&numbers, |number| {
        let dir = killed.copy();
        let what = mutate(&dir.path(".ftl/store"), &mut Dice(seed() ^ (number << 32)));
        let silent = !is_found(&dir) && readings(&dir, &killed.run) != before;
        silent.then(|| format!("try {number}: {what}"))
    }) {
        tally.count(violation);
    }
    tally.close();
}

/// Does the same to many things, some at a time: most of it is waiting for the disk.
fn side_by_side<T: Sync>(all: &[T], work: impl Fn(&T) -> Option<String> + Sync) -> Vec<Option<String>> {
    const WORKERS: usize = 4;
    let share = all.len().div_ceil(WORKERS).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = all
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Damages one of the files of a store; what was done.
fn mutate(store: &Path, dice: &mut Dice) -> String {
    let name = ["ftl.db", "ftl.db-wal", "ftl.db-wal", "heads", "ftl.db-shm"][dice.below(5)];
    let file = store.join(name);
    let mut bytes = fs::read(&file).unwrap_or_default();
    if bytes.len() < 2 {
        return format!("{name} is empty");
    }
    let at = dice.below(bytes.len());
    let block = 4096.min(bytes.len() / 2);
    let what = match dice.below(12) {
        0..=4 => {
            bytes[at] ^= 1 << dice.below(8);
            "a bit flipped"
        }
        5..=6 => {
            bytes.truncate(at);
            "cut"
        }
        7..=8 => {
            let end = (at + block).min(bytes.len());
            bytes[at..end].fill(0);
            "zeros"
        }
        9 => {
            let (one, other) =
                (dice.below(bytes.len() / block) * block, dice.below(bytes.len() / block) * block);
            let kept = bytes[one..one + block].to_vec();
            bytes.copy_within(other..other + block, one);
            bytes[other..other + block].copy_from_slice(&kept);
            "blocks swapped"
        }
        10 => {
            bytes.clear();
            "emptied"
        }
        _ => {
            fs::remove_file(&file).unwrap();
            return format!("{name}: removed");
        }
    };
    fs::write(&file, bytes).unwrap();
    format!("{name}: {what} at {at}")
}

#[test]
fn a_loss_is_accepted_by_a_person_with_a_name_and_a_reason_and_only_where_there_is_one() {
    let dir = Dir::repository();
    dir.ftl(&["campaign", "create", "count the money"]).code(0);
    let accept = ["doctor", "--accept-loss", "--reason", "because", "--by", "Ada"];
    dir.ftl(&accept).code(4).says(&["nothing of the store is lost"]);
    let before = fs::read(dir.path(".ftl/store/ftl.db")).unwrap();
    dir.ftl(&["campaign", "create", "count it again"]).code(0);
    fs::write(dir.path(".ftl/store/ftl.db"), &before).unwrap();

    dir.ftl(&["campaign", "status"]).code(0);
    dir.ftl(&["status"]).code(0).says(&["warning", "has lost what it had acknowledged"]);
    dir.ftl(&["resume"]).code(6).says(&["has lost what it had acknowledged"]);
    dir.ftl(&["campaign", "create", "a third one"])
        .code(6)
        .says(&["has lost what it had acknowledged", "ftl doctor"]);
    dir.ftl(&["doctor", "--accept-loss"]).code(2);
    dir.ftl(&["doctor", "--accept-loss", "--reason", "  "]).code(2).says(&["no reason is given"]);
    let mut inside = dir.command(&accept);
    inside.env("FTL_ATTEMPT", "k3v9x2qa.1");
    ended(inside).code(4).says(&["inside an agent's process tree"]);
    assert_eq!(fs::read(dir.path(".ftl/store/ftl.db")).unwrap(), before, "nothing was changed");

    let accepted = dir.ftl(&[&accept[..], &["--json"]].concat()).code(0).json();
    assert_eq!(
        (&accepted["accepted"]["by"], &accepted["accepted"]["reason"]),
        (&json!("Ada"), &json!("because"))
    );
    let copies = accepted["accepted"]["copies"].as_str().unwrap();
    assert_eq!(fs::read(dir.path(".ftl/store").join(copies).join("ftl.db")).unwrap(), before);
    dir.ftl(&["campaign", "create", "a third one"]).code(0);
    let audit = dir.ftl(&["audit", "verify", "--json"]).code(0).json();
    assert_eq!(audit["store"]["events"][0]["what"]["event"], "loss_accepted");
    dir.ftl(&["doctor"]).code(0).says(&["a loss was accepted by Ada: because"]);
}

#[test]
fn a_run_is_never_cut_in_the_middle_of_a_decision() {
    let mut tally = Tally::of("a run that has lost its end is shown as it is, and goes on (5)");
    let sound = Dir::new();
    sound.protocol("count", "STATE: START\n  DO: out = sh \"echo one\"\n  DO: more = sh \"echo two\"\n  RETURN: complete said={more.stdout}\n");
    let report = sound.ftl(&["run", "count", "--json"]).code(0).json();
    let run = report["run"].as_str().unwrap().to_owned();
    let entries = sound.entries(&run);
    let begins = |at: &usize| entries[*at]["first"] == true;
    // Without its first decision a run is no run.
    let second = (1..entries.len()).find(begins).unwrap();
    let inside = (second..entries.len()).filter(|at| !begins(at));
    let inside: Vec<usize> = inside.map(|at| at + 1).collect();
    assert!(!inside.is_empty(), "{entries:?}");
    for seq in inside.into_iter().rev().take(tries(4)) {
        let dir = Dir::new();
        let copied = Command::new("cp").arg("-aT").arg(sound.path("")).arg(dir.path("")).status().unwrap();
        assert!(copied.success());
        let edit = format!("UPDATE entries SET body = replace(body, '\"at\"', '\"xx\"') WHERE seq = {seq}");
        dir.database().execute_batch(&edit).unwrap();
        tally.count(goes_on_from_a_whole_decision(&dir, &run).map(|why| format!("entry {seq}: {why}")));
    }
    tally.close();
}

fn goes_on_from_a_whole_decision(dir: &Dir, run: &str) -> Option<String> {
    let accepted = dir.ftl(&["doctor", "--accept-loss", "--reason", "the disk", "--by", "Ada"]);
    if accepted.code != 0 {
        return Some(format!("it was not accepted: {accepted:?}"));
    }
    let deep = dir.ftl(&["doctor", "--deep"]);
    if deep.code != 0 {
        return Some(format!("the doctor says {deep:?}"));
    }
    let status = dir.ftl(&["status", "--json", "--all"]).json();
    if status["runs"][0]["standing"] == "complete" {
        return Some(format!("it is shown as complete: {status:#}"));
    }
    let resumed = dir.ftl(&["resume", run]);
    let ended = dir.ftl(&["status", "--json", "--all"]).json();
    let is_complete = ended["runs"][0].to_string().contains("complete");
    (resumed.code != 0 || !is_complete).then(|| format!("it does not go on: {resumed:?} {ended:#}"))
}

#[test]
fn a_store_whose_format_cannot_be_right_has_a_way_out() {
    let mut tally = Tally::of("a wrong number of the format, a missing database, heads that are no file (5)");
    type Damage = fn(&Dir);
    let fills: [(&str, Damage, bool); 5] = [
        ("format 2", |dir| dir.tampering().pragma_update(None, "user_version", 2).unwrap(), true),
        ("format 7", |dir| dir.tampering().pragma_update(None, "user_version", 7).unwrap(), true),
        (
            "only a log",
            |dir| {
                fs::remove_file(dir.path(".ftl/store/ftl.db")).unwrap();
                fs::remove_file(dir.path(".ftl/store/heads")).unwrap();
                dir.write(".ftl/store/ftl.db-wal", vec![1; 9000]);
            },
            true,
        ),
        (
            "heads that are a folder",
            |dir| {
                fs::remove_file(dir.path(".ftl/store/heads")).unwrap();
                fs::create_dir(dir.path(".ftl/store/heads")).unwrap();
            },
            false,
        ),
        (
            "heads that are a link",
            |dir| {
                fs::rename(dir.path(".ftl/store/heads"), dir.path("away")).unwrap();
                std::os::unix::fs::symlink("../../away", dir.path(".ftl/store/heads")).unwrap();
            },
            false,
        ),
    ];
    for (what, damage, is_loss) in fills {
        let dir = Dir::repository();
        dir.ftl(&["campaign", "create", "count the money"]).code(0);
        damage(&dir);
        if is_loss {
            let refused = dir.ftl(&["campaign", "create", "count it again"]);
            assert_ne!(refused.code, 0, "{what}: {refused:?}");
            dir.ftl(&["doctor", "--accept-loss", "--reason", what, "--by", "Ada"]).code(0);
        } else {
            // What stands there is no file of ours and is named; whoever moves it away gets new heads.
            let heads = dir.path(".ftl/store/heads");
            dir.ftl(&["campaign", "create", "count it again"]).code(1).says(&["store/heads", "hint: "]);
            fs::rename(&heads, dir.path("heads-away")).unwrap();
        }
        let written = dir.ftl(&["campaign", "create", "count it again"]);
        let audit = dir.ftl(&["audit", "verify"]);
        let is_well = (written.code, audit.code) == (0, 0);
        tally.count((!is_well).then(|| format!("{what}: {written:?} {audit:?}")));
    }
    tally.close();
}

#[test]
fn a_limit_on_the_size_of_files_has_a_message() {
    let dir = Dir::repository();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$0\" campaign create x"]);
    limited.arg(dir.command(&[]).get_program());
    limited.current_dir(dir.path(""));
    let ended = ended(limited);
    assert!((1..128).contains(&ended.code), "{ended:?}");
    ended.says(&["error: ", "hint: "]);
}

#[test]
fn a_folder_that_cannot_be_synced_acknowledges_nothing() {
    let mut tally = Tally::of("a failing sync of the store's folder is no yes (18)");
    for fault in [Fault::Once(InjectedFault::Io), Fault::FromNowOn(InjectedFault::Io)] {
        let dir = Dir::repository();
        dir.ftl(&["campaign", "create", "count the money"]).code(0);
        // The folder itself, and none of its files.
        let faults = Faults::of("/.ftl/store").except("/.ftl/store/").only(&[Call::Sync]).at(1, fault);
        let mut command = dir.command(&["campaign", "create", "count it again"]);
        faults.on(&mut command).unwrap();
        let ended = ended(command);
        let violated = ended.code == 0 || !ended.err.contains("the store failed");
        tally.count(violated.then(|| format!("{fault:?}: {ended:?}")));
        dir.ftl(&["audit", "verify"]).code(0);
        dir.ftl(&["campaign", "create", "count it again"]).code(0);
    }
    tally.close();
}

#[test]
fn a_store_of_a_newer_program_is_read_although_its_copies_were_edited() {
    let dir = Dir::repository();
    dir.ftl(&["campaign", "create", "count the money"]).code(0);
    let lesson = json!({"name": "lost-lock", "trigger": "the lock file is gone", "fix": "make it again"});
    dir.ftl(&["memory", "add-failure", "--json", &lesson.to_string()]).code(0);
    dir.database().pragma_update(None, "user_version", 99).unwrap();
    for file in [".ftl/campaign.json", ".ftl/memory.json"] {
        let text = dir.read(file).replace("money", "coins").replace("gone", "lost");
        dir.write(file, text);
    }
    dir.ftl(&["status"]).code(0);
    let status = dir.ftl(&["campaign", "status"]).code(0);
    assert_eq!(status.json()["objective"], "count the money", "the store counts");
    status.says(&["changed by hand and is not taken over", "format 99"]);
    dir.ftl(&["memory", "query", "lock file"]).code(0);
    let before = File::open(dir.path(".ftl/store/ftl.db")).unwrap().metadata().unwrap().modified().unwrap();
    dir.ftl(&["campaign", "create", "another"]).code(1).says(&["format 99"]);
    let after = File::open(dir.path(".ftl/store/ftl.db")).unwrap().metadata().unwrap().modified().unwrap();
    assert_eq!(before, after);
}

/// Random numbers with a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}
