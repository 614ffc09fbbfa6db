//! Finding 2: what a person saves while work is delivered survives.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ftl_testkit::dice::Dice;
use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir, PATIENCE};
use crate::tally::{Tally, seed, tries};

const SETTINGS: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[process]\nsilence = \"30s\"\n\
    [roles]\nbuilder = \"play\"\n";

const PLANS: &str =
    "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = { approach = \"write it\" }\n";

/// The files that a task changes. Each is saved in another way.
const FILES: [&str; 4] = ["a.txt", "b.txt", "c.txt", "d.txt"];

/// How programs save: in place, in place through a descriptor that was open before, by a rename, and in place
/// with a watcher that formats what was saved.
const WAYS: [&str; 4] = ["place", "held", "rename", "watched"];

/// The longest that a save comes after the delivery has locked the index, in microseconds.
const WINDOW: u64 = 30_000;

/// What the command line asks for that has a task done and landed.
pub(crate) const GO: [&str; 8] =
    ["task", "run", "all is done", "--plan", "plan.json", "--land", "ff", "--json"];

/// A repository with a plan of one task that changes all the files, and a builder that runs a command first.
pub(crate) fn repository(command: &str) -> Dir {
    let dir = Dir::repository();
    dir.git(&["checkout", "-q", "-b", "main"]);
    for file in FILES {
        dir.write(file, "begun\n");
    }
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    prepare(&dir, command);
    dir
}

/// Gives a repository the plan and the builder.
pub(crate) fn prepare(dir: &Dir, command: &str) {
    let task = json!({ "seq": "001", "slug": "all", "delta": FILES, "verify": "grep -q done a.txt", "budget": 9,
        "depends": [] });
    let plan = json!({ "objective": "all is done", "tasks": [task] });
    let writes =
        FILES.map(|file| format!("{{ tool = \"write\", path = \"{file}\", content = \"done\\n\" }}"));
    let play = format!(
        "{PLANS}[[scene]]\nrole = \"builder\"\nform = \"implement\"\n[[scene.step]]\ncalls = [\
         {{ tool = \"bash\", command = '''{command}''' }}, {}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n",
        writes.join(", ")
    );
    dir.write("plan.json", plan.to_string()).write("ftl.toml", SETTINGS).write("play.toml", play);
    dir.write(
        ".git/info/exclude",
        "plan.json\nftl.toml\nplay.toml\n.out-*\n.err-*\nmeet*\nsettings\n/.ftl/\n",
    );
}

/// Processes of a person who saves the files of a repository while somebody works there.
struct Savers<'a> {
    dir: &'a Dir,
    all: Vec<Child>,
    texts: Vec<String>,
}

impl<'a> Savers<'a> {
    /// Starts them; each saves a text of its own some time after the index is locked.
    fn start(dir: &'a Dir, dice: &mut Dice) -> Savers<'a> {
        let (mut all, mut texts) = (Vec::new(), Vec::new());
        for (file, way) in FILES.iter().zip(WAYS) {
            let text = format!("save {:016x} of {file}", dice.throw());
            let delay = dice.below(WINDOW);
            all.push(process(dir, way, file, &text, delay));
            if way == "watched" {
                all.push(process(dir, "watcher", file, &text, 0));
            }
            texts.push(text);
        }
        for file in FILES {
            let ready = dir.path(&format!("meet-{file}"));
            crate::support::until("a saver is ready", || ready.exists());
        }
        Savers { dir, all, texts }
    }

    /// Waits until everything is saved; what was saved.
    fn ended(mut self) -> Vec<String> {
        self.dir.write("meet-stop", "");
        for child in &mut self.all {
            let status = child.wait().unwrap();
            assert!(status.success(), "a saver has failed: {status}");
        }
        std::mem::take(&mut self.texts)
    }
}

impl Drop for Savers<'_> {
    fn drop(&mut self) {
        for child in &mut self.all {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn process(dir: &Dir, way: &str, file: &str, text: &str, delay: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "delivery::saver", "--ignored", "--nocapture"]).env("SAVER_WAY", way);
    command.env("SAVER_TOP", dir.path("")).env("SAVER_FILE", file).env("SAVER_TEXT", text);
    command.env("SAVER_DELAY", delay.to_string()).stdout(Stdio::null()).spawn().unwrap()
}

/// A process that saves, or that formats what was saved; it does nothing unless it is told what.
#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn saver() {
    let told = |name: &str| std::env::var(name).ok();
    let (Some(way), Some(top), Some(name)) = (told("SAVER_WAY"), told("SAVER_TOP"), told("SAVER_FILE"))
    else {
        return;
    };
    let (top, text) = (PathBuf::from(top), format!("{}\n", told("SAVER_TEXT").unwrap()));
    let file = top.join(&name);
    if way == "watcher" {
        return format_on_save(&file, &text, &top.join("meet-stop"));
    }
    let delay = Duration::from_micros(told("SAVER_DELAY").unwrap().parse().unwrap());
    let held = (way == "held").then(|| File::options().write(true).open(&file).unwrap());
    fs::write(top.join(format!("meet-{name}")), "").unwrap();
    let (lock, stop) = (top.join(".git/index.lock"), top.join("meet-stop"));
    wait(|| lock.exists() || stop.exists());
    std::thread::sleep(delay);
    match (way.as_str(), held) {
        ("held", Some(mut held)) => {
            held.rewind().unwrap();
            held.set_len(0).unwrap();
            held.write_all(text.as_bytes()).unwrap();
        }
        ("rename", _) => {
            fs::write(file.with_extension("swp"), text).unwrap();
            fs::rename(file.with_extension("swp"), &file).unwrap();
        }
        _ => fs::write(&file, text).unwrap(),
    }
}

/// Writes what was saved again, with a line more, as soon as it sees it. Where the save is not in the file at the end,
/// there is nothing to format.
fn format_on_save(file: &Path, text: &str, stop: &Path) {
    let is_saved = || fs::read_to_string(file).is_ok_and(|found| found == text);
    wait(|| is_saved() || stop.exists());
    if is_saved() {
        fs::write(file, format!("{text}formatted\n")).unwrap();
    }
}

fn wait(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What is lost or half way after a command and the next one.
fn violation(dir: &Dir, texts: &[String], said: &str) -> Option<String> {
    let refs = dir.git(&["for-each-ref", "--format=%(refname)"]);
    for text in texts {
        let has =
            |file: &&str| fs::read_to_string(dir.path(file)).is_ok_and(|found| found.contains(text.as_str()));
        if FILES.iter().any(has) {
            continue;
        }
        let holds = |name: &&str| {
            let mut grep = Command::new("git");
            grep.args(["grep", "-qF", text, name]).current_dir(dir.path(""));
            grep.output().unwrap().status.success()
        };
        match refs.lines().find(holds) {
            None => return Some(format!("`{text}` is lost: {said}")),
            Some(name) if !said.contains(name) => {
                return Some(format!("`{text}` is in {name}, and nobody said so: {said}"));
            }
            Some(_) => {}
        }
    }
    let staged = dir.git(&["diff", "--cached", "--name-only"]);
    let is_locked = dir.path(".git/index.lock").exists();
    // A file that was not saved is where the branch is, as all of them are saved: their own text or that of a commit.
    (is_locked || !staged.is_empty())
        .then(|| format!("half way (staged {staged:?}, locked {is_locked}): {said}"))
}

/// The next command, and all that was said.
fn next(dir: &Dir, ended: &CommandOutcome) -> String {
    let next = dir.ftl(&["status"]).code(0);
    format!("{} {} {} {}", ended.out, ended.err, next.out, next.err)
}

#[test]
fn a_save_during_a_delivery_is_found_afterwards() {
    let mut dice = Dice::for_name(seed(), "delivery");
    let mut tally = Tally::of("a save during a delivery is found afterwards");
    for _ in 0..tries(12).div_ceil(FILES.len()) {
        let dir = repository("true");
        let before = dir.git(&["rev-parse", "main"]);
        let savers = Savers::start(&dir, &mut dice);
        let ended = dir.ftl(&GO);
        let texts = savers.ended();
        let said = next(&dir, &ended);
        let report: Json = ended.json()["report"]["delivered"].clone();
        let landed = report["status"] == "landed";
        let moved = dir.git(&["rev-parse", "main"]) != before;
        let mut found = violation(&dir, &texts, &said);
        if landed != moved || ended.code != if landed { 0 } else { 3 } {
            found = Some(format!("landed {landed}, moved {moved}, exit {}: {said}", ended.code));
        }
        tally.count(found);
        (1..texts.len()).for_each(|_| tally.count(None));
    }
    tally.close();
}

#[test]
fn a_save_during_an_undo_is_found_afterwards() {
    let mut dice = Dice::for_name(seed(), "undo");
    let mut tally = Tally::of("a save during an undo is found afterwards");
    let template = repository("true");
    template.ftl(&GO).code(0);
    for number in 0..tries(4).div_ceil(FILES.len()) {
        let copy = template.path(&format!("../undo-{}-{number}", std::process::id()));
        let status = Command::new("cp").arg("-a").args([template.path(""), copy.clone()]).status().unwrap();
        assert!(status.success());
        let dir = Dir::at(&copy);
        let savers = Savers::start(&dir, &mut dice);
        let ended = dir.ftl(&["undo", "--by", "Ada"]);
        let texts = savers.ended();
        let said = next(&dir, &ended);
        let mut found = violation(&dir, &texts, &said);
        if !matches!(ended.code, 0 | 4) {
            found = Some(format!("exit {}: {said}", ended.code));
        }
        tally.count(found);
        (1..texts.len()).for_each(|_| tally.count(None));
    }
    tally.close();
}

#[test]
fn a_save_after_a_delivery_through_a_descriptor_comes_back_with_the_next_command() {
    let dir = repository("true");
    let mut held = File::options().write(true).open(dir.path("a.txt")).unwrap();
    dir.ftl(&GO).code(0);
    assert_eq!(dir.read("a.txt"), "done\n");
    held.set_len(0).unwrap();
    held.write_all(b"saved\n").unwrap();
    // Nothing changes what a command prints for programs.
    let said = dir.ftl(&["status", "--json"]).code(0);
    said.json();
    assert!(said.err.contains("note: `a.txt` was saved meanwhile, and has what was saved"), "{said:#?}");
    assert_eq!(dir.read("a.txt"), "saved\n");
    assert_eq!(dir.git(&["status", "--porcelain"]), " M a.txt\n");
    // What the descriptor writes now is in the file at once, and is nobody's business.
    held.write_all(b"more\n").unwrap();
    assert_eq!(dir.read("a.txt"), "saved\nmore\n");
    assert_eq!(dir.ftl(&["status"]).code(0).err, "");
    // One that was saved otherwise since stays, and the late one is kept.
    let dir = repository("true");
    let mut held = File::options().write(true).open(dir.path("a.txt")).unwrap();
    dir.ftl(&GO).code(0);
    dir.write("a.txt", "newer\n");
    held.set_len(0).unwrap();
    held.write_all(b"late\n").unwrap();
    let said = dir.ftl(&["status"]).code(0).err;
    let kept =
        said.split('`').find(|word| word.starts_with("refs/ftl/kept/")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(dir.git(&["show", &format!("{kept}:a.txt")]), "late\n");
    assert_eq!(dir.read("a.txt"), "newer\n");
    dir.ftl(&["salvage"]).code(0).says(&["`a.txt` saved while `main` was moved"]);
    let folder = dir.path("meet-back");
    dir.ftl(&["salvage", kept, "--into", folder.to_str().unwrap()]).code(0);
    assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "late\n");
}

/// A delivery that found the index locked, and what somebody did to the checkout before the lock went.
fn delivered_after(dir: &Dir, act: impl FnOnce()) -> CommandOutcome {
    let lock = dir.path(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let started = dir.start(&GO);
    wait(|| dir.path(".git/ftl-index.lock").exists());
    act();
    fs::remove_file(&lock).unwrap();
    started.ended()
}

#[test]
fn a_branch_that_was_checked_out_while_the_index_was_locked_gets_nothing() {
    let mut tally = Tally::of("a delivery never lands in the checkout of another branch");
    let dir = repository("true");
    dir.git(&["branch", "other"]);
    let before = dir.git(&["rev-parse", "main"]);
    // As `git checkout other` ends.
    let ended = delivered_after(&dir, || {
        dir.write(".git/HEAD", "ref: refs/heads/other\n");
    });
    let dirty = dir.git(&["status", "--porcelain"]);
    let is_bad = ended.code != 3 || !dirty.is_empty() || dir.git(&["rev-parse", "main"]) != before;
    tally.count(is_bad.then(|| format!("{dirty:?} {ended:#?}")));
    assert!(ended.out.contains("`main` is not checked out any more"), "{ended:#?}");
    // The same wait, and nobody has done anything.
    let dir = repository("true");
    let ended = delivered_after(&dir, || {});
    tally.count((ended.code != 0).then(|| format!("{ended:#?}")));
    tally.close();
}

#[test]
fn an_index_that_cannot_be_moved_leaves_the_work_on_its_branch() {
    let mut tally = Tally::of("an odd index is answered, and nothing is touched");
    for (what, said) in [("split", "is split"), ("none", "has no index")] {
        let dir = repository("true");
        let before = dir.git(&["rev-parse", "main"]);
        if what == "split" {
            dir.git(&["update-index", "--split-index"]);
        } else {
            fs::remove_file(dir.path(".git/index")).unwrap();
        }
        let ended = dir.ftl(&GO);
        let is_answer = ended.code == 3 && ended.json()["report"]["delivered"]["status"] != "landed";
        let is_whole = dir.git(&["rev-parse", "main"]) == before && dir.read("a.txt") == "begun\n";
        let is_good = is_answer && is_whole && ended.out.contains(said);
        tally.count((!is_good).then(|| format!("{what}: {ended:#?}")));
    }
    tally.close();
}
