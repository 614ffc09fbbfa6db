//! A person saves a file at every step of a delivery and of its way back, in every way that programs save, on
//! file systems that can do much and little: what was saved is in the file afterwards, and the delivery is whole
//! or not at all.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ftl_core::catalogue::build::{Delivered, Delivery, DeliveryStatus};
use ftl_folder::NameIn;
use ftl_git::{
    Checked, Delivering, FileSystem, GitError, LocalFileSystem, MAX_RETAINED, Repo, StepHook, has_retained,
};
use ftl_process::Cancel;

use crate::support::{Stage, WHEN, blob_names, git, open, reachable};

const SAVED: &str = "saved by the person\n";

/// A file system that cannot do everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    exchanges: bool,
    renames: bool,
    links: bool,
    /// A part of the paths that are on another file system than the checkout.
    apart: Option<&'static str>,
}

pub(crate) const ABLE: Limited = Limited { exchanges: true, renames: true, links: true, apart: None };
pub(crate) const NO_EXCHANGE: Limited = Limited { exchanges: false, ..ABLE };
pub(crate) const ONLY_LINKS: Limited = Limited { renames: false, ..NO_EXCHANGE };

impl Limited {
    fn check(self, can: bool, one: &NameIn, other: &NameIn) -> io::Result<()> {
        let is_apart = |path: &Path| self.apart.is_some_and(|part| path.to_string_lossy().contains(part));
        match (can, is_apart(one.path()) == is_apart(other.path())) {
            (true, true) => Ok(()),
            (false, _) => Err(rustix::io::Errno::INVAL.into()),
            (true, false) => Err(rustix::io::Errno::XDEV.into()),
        }
    }
}

impl FileSystem for Limited {
    fn exchange(&self, one: &NameIn, other: &NameIn) -> io::Result<()> {
        self.check(self.exchanges, one, other)?;
        LocalFileSystem.exchange(one, other)
    }

    fn rename_new(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        self.check(self.renames, from, to)?;
        LocalFileSystem.rename_new(from, to)
    }

    fn link(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        self.check(self.links, from, to)?;
        LocalFileSystem.link(from, to)
    }

    fn rename(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        self.check(true, from, to)?;
        LocalFileSystem.rename(from, to)
    }
}

/// How a program saves a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It opens the file, empties it and writes.
    InPlace,
    /// It has had the file open since before the delivery.
    Held,
    /// It writes another file and renames it.
    Renamed,
    /// It removes the file and makes it anew.
    Anew,
}

const WAYS: [Way; 4] = [Way::InPlace, Way::Held, Way::Renamed, Way::Anew];

/// Saves a file before a step.
struct Saver {
    way: Way,
    file: PathBuf,
    held: Option<Mutex<File>>,
    at: usize,
    step: AtomicUsize,
}

impl Saver {
    fn new(way: Way, file: PathBuf, at: usize) -> Saver {
        let held = (way == Way::Held).then(|| File::options().write(true).open(&file).unwrap());
        Saver { way, file, held: held.map(Mutex::new), at, step: AtomicUsize::new(0) }
    }

    fn save(&self) {
        match (self.way, &self.held) {
            (Way::Held, Some(held)) => write(&mut held.lock().unwrap()),
            (Way::InPlace | Way::Held, _) => fs::write(&self.file, SAVED).unwrap(),
            (Way::Renamed, _) => {
                let beside = self.file.with_extension("swp");
                fs::write(&beside, SAVED).unwrap();
                fs::rename(beside, &self.file).unwrap();
            }
            (Way::Anew, _) => {
                let _ = fs::remove_file(&self.file);
                fs::write(&self.file, SAVED).unwrap();
            }
        }
    }
}

fn write(held: &mut File) {
    held.rewind().unwrap();
    held.set_len(0).unwrap();
    held.write_all(SAVED.as_bytes()).unwrap();
}

impl StepHook for Saver {
    /// Steps count from when the index is locked: what is saved before is seen before anything is moved.
    fn step(&self, what: &str) -> Result<(), GitError> {
        let is_begun = self.step.load(Ordering::SeqCst) > 0 || what == "lock the index";
        if is_begun && self.step.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            self.save();
        }
        Ok(())
    }
}

fn deliver(repo: &Repo) -> Delivered {
    let run = ftl_folder::id::RunId::of(1);
    let delivering = Delivering { run: &run, how: Delivery::FastForward, message: "m", when: WHEN };
    repo.deliver(&delivering, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap()
}

/// A stage whose run has landed a changed file, one that is gone and one that is new.
pub(crate) fn landed() -> Stage {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("src/one.txt"), "delivered\n").unwrap();
    fs::remove_file(worktree.path.join("src/two.txt")).unwrap();
    fs::create_dir(worktree.path.join("deep")).unwrap();
    fs::write(worktree.path.join("deep/new.txt"), "new\n").unwrap();
    stage.land(1);
    stage
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from.join("a repository")).arg(to).status().unwrap();
    assert!(done.success());
}

/// Every way at every step in the long form; otherwise they take turns, at every other step.
fn ways(at: usize) -> Vec<Way> {
    match std::env::var_os("FTL_TRIES") {
        Some(_) => WAYS.to_vec(),
        None => vec![WAYS[at / 2 % WAYS.len()]],
    }
}

/// Saves `path` before each step of a deed, once each; the deed comes to its end every time.
fn sweep(limited: Limited, path: &str, is_undo: bool) {
    let stage = landed();
    if is_undo {
        deliver(&stage.repo);
    }
    let (folder, template) = (stage.folder.path().to_owned(), tempfile::tempdir().unwrap());
    let (root, before) = (stage.root(), stage.git(&["rev-parse", "main"]));
    copy(&folder, template.path());
    let by = if std::env::var_os("FTL_TRIES").is_some() { 1 } else { 2 };
    for at in (1..500).step_by(by) {
        let mut is_over = true;
        for way in ways(at) {
            fs::remove_dir_all(&root).unwrap();
            copy(template.path(), &folder);
            let saver = Arc::new(Saver::new(way, root.join(path), at));
            let repo = open(&folder, |_| {}).unwrap().on(Arc::new(limited)).watched(saver.clone());
            let said = match is_undo {
                false => deliver(&repo).summary,
                true => format!("{:?}", repo.undo_delivery(&stage.run, "Ada")),
            };
            let was_saved = saver.step.load(Ordering::SeqCst) >= at;
            is_over &= !was_saved;
            if !was_saved {
                saver.save();
            }
            // As the next command does.
            repo.look_at_retained().unwrap();
            check(&root, path, &before, &format!("{path}, {way:?} at {at} ({limited:?}): {said}"));
        }
        if is_over {
            assert!(at > 12, "there are more steps than {at}");
            return;
        }
    }
    panic!("there is no end");
}

/// The save is there, and nothing else is half way.
fn check(root: &Path, path: &str, before: &str, what: &str) {
    let text = fs::read_to_string(root.join(path)).unwrap_or_default();
    assert_eq!(text, SAVED, "the save is lost: {what}\n{}", git(root, &["status", "--porcelain"]));
    assert!(!root.join(".git/index.lock").exists(), "{what}");
    let has_moved = git(root, &["rev-parse", "main"]) != before;
    // The index is where the branch is, and so is every file but the one that was saved.
    let status = git(root, &["status", "--porcelain", "--untracked-files=all"]);
    let others: Vec<&str> = status.lines().filter(|line| !line.ends_with(path)).collect();
    assert_eq!(others, [""; 0], "half way (moved: {has_moved}): {what}");
    assert_eq!(git(root, &["diff", "--cached", "--name-only"]), "", "{what}");
}

#[test]
fn a_file_that_changes_is_saved_at_any_step() {
    sweep(ABLE, "src/one.txt", false);
}

#[test]
fn a_file_that_goes_is_saved_at_any_step() {
    sweep(ABLE, "src/two.txt", false);
}

#[test]
fn a_file_that_goes_back_is_saved_at_any_step() {
    sweep(ABLE, "src/one.txt", true);
}

#[test]
fn where_files_cannot_be_exchanged_a_file_is_saved_at_any_step() {
    sweep(NO_EXCHANGE, "src/one.txt", false);
}

#[test]
fn where_files_can_only_be_linked_a_file_is_saved_at_any_step() {
    sweep(ONLY_LINKS, "src/one.txt", false);
    sweep(ONLY_LINKS, "src/one.txt", true);
}

/// What a stage's delivery says on such a file system.
fn deliver_on(stage: &Stage, limited: Limited) -> Delivered {
    deliver(&stage.repo.clone().on(Arc::new(limited)))
}

#[test]
fn every_way_of_moving_files_delivers_the_same() {
    for limited in [ABLE, NO_EXCHANGE, ONLY_LINKS, Limited { apart: Some(".ftl/store"), ..ABLE }] {
        let stage = landed();
        fs::write(stage.root().join("mine"), "mine").unwrap();
        let delivered = deliver_on(&stage, limited);
        assert_eq!(delivered.status, DeliveryStatus::Landed, "{limited:?}: {}", delivered.summary);
        assert_eq!(stage.git(&["status", "--porcelain"]), "?? mine", "{limited:?}");
        assert_eq!(stage.git(&["diff-index", "HEAD"]), "", "the index knows the files: {limited:?}");
        assert_eq!(fs::read_to_string(stage.root().join("deep/new.txt")).unwrap(), "new\n");
        let repo = stage.repo.clone().on(Arc::new(limited));
        repo.undo_delivery(&stage.run, "Ada").unwrap();
        assert_eq!(stage.git(&["status", "--porcelain"]), "?? mine", "{limited:?}");
        assert_eq!(stage.git(&["diff-index", "HEAD"]), "", "{limited:?}");
        assert!(!stage.root().join("deep").exists(), "a folder that is empty goes");
        assert_eq!(stage.root().join(".git/ftl-transfers").exists(), limited.apart.is_some());
    }
}

#[test]
fn where_a_save_could_be_lost_nothing_is_touched() {
    let nothing = Limited { links: false, ..ONLY_LINKS };
    let elsewhere = Limited { apart: Some("a repository/src"), ..ABLE };
    for (limited, why) in [(nothing, "without replacing another"), (elsewhere, "cannot be moved to")] {
        let stage = landed();
        let before = stage.persons();
        let delivered = deliver_on(&stage, limited);
        assert_eq!(delivered.status, DeliveryStatus::Kept);
        assert!(delivered.summary.contains(why), "{}", delivered.summary);
        assert!(delivered.summary.contains("git merge"), "{}", delivered.summary);
        assert_eq!(stage.persons(), before);
        assert!(!stage.root().join(".git/index.lock").exists());
        let left = fs::read_dir(stage.root().join(".ftl/store/git/transfers")).map_or(0, Iterator::count);
        assert_eq!(left, 0);
    }
}

/// Saves a file through a descriptor and then by a rename, once the files have moved.
struct Twice {
    held: Mutex<File>,
    file: PathBuf,
}

impl StepHook for Twice {
    fn step(&self, what: &str) -> Result<(), GitError> {
        if what == "install the index" {
            write(&mut self.held.lock().unwrap());
            fs::write(self.file.with_extension("swp"), "a newer save\n").unwrap();
            fs::rename(self.file.with_extension("swp"), &self.file).unwrap();
        }
        Ok(())
    }
}

#[test]
fn of_two_saves_the_newer_is_in_the_file_and_the_other_under_a_ref_that_is_named() {
    for limited in [ABLE, NO_EXCHANGE] {
        let stage = landed();
        let file = stage.root().join("src/one.txt");
        let held = Mutex::new(File::options().write(true).open(&file).unwrap());
        let twice = Arc::new(Twice { held, file: file.clone() });
        let delivered = deliver(&stage.repo.clone().on(Arc::new(limited)).watched(twice));
        assert_eq!(delivered.status, DeliveryStatus::Landed);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a newer save\n");
        let kept = stage.repo.list_kept().unwrap();
        assert_eq!(kept.len(), 1, "{}", delivered.summary);
        assert!(delivered.summary.contains(&kept[0].name), "{}", delivered.summary);
        let saved = blob_names(&stage.root(), [&SAVED.as_bytes().to_vec()]);
        assert!(reachable(&stage.root()).contains(&saved[0]));
        assert_eq!(stage.git(&["show", &format!("{}:src/one.txt", kept[0].name)]), SAVED.trim());
        assert_eq!(stage.repo.look_at_retained().unwrap(), Vec::<String>::new(), "it is said once");
        assert_eq!(stage.repo.list_kept().unwrap().len(), 1);
    }
}

#[test]
fn many_files_are_delivered_and_named_in_short() {
    let stage = Stage::with(
        |root| {
            (0..300).for_each(|number| fs::write(root.join(format!("many-{number}")), "old\n").unwrap());
            crate::support::commit(root, "many");
        },
        |_| {},
    );
    let worktree = stage.open(1);
    (0..300).for_each(|number| fs::write(worktree.path.join(format!("many-{number}")), "new\n").unwrap());
    stage.land(1);
    let names = (0..300).map(|number| stage.root().join(format!("many-{number}")));
    let mut held: Vec<File> = names.map(|name| File::options().write(true).open(name).unwrap()).collect();
    let delivered = deliver(&stage.repo);
    assert_eq!(delivered.status, DeliveryStatus::Landed, "{}", delivered.summary);
    assert_eq!(stage.git(&["diff-index", "HEAD"]), "", "the index knows all of them");
    held.iter_mut().for_each(write);
    let said = stage.repo.look_at_retained().unwrap();
    assert!(
        said.len() == 1 && said[0].contains("`many-101`") && said[0].contains("and 295 more"),
        "{said:?}"
    );
    assert!(
        (0..300).all(|number| {
            fs::read_to_string(stage.root().join(format!("many-{number}"))).unwrap() == SAVED
        })
    );
}

/// A file system on which somebody saves a file whenever it changes places with another one, before and after.
struct Restless {
    file: PathBuf,
    saves: AtomicUsize,
}

impl Restless {
    fn save(&self) {
        let number = self.saves.fetch_add(1, Ordering::SeqCst) + 1;
        fs::write(self.file.with_extension("swp"), format!("save {number}\n")).unwrap();
        fs::rename(self.file.with_extension("swp"), &self.file).unwrap();
    }
}

impl FileSystem for Restless {
    fn exchange(&self, one: &NameIn, other: &NameIn) -> io::Result<()> {
        if other.path() != self.file {
            return LocalFileSystem.exchange(one, other);
        }
        self.save();
        LocalFileSystem.exchange(one, other)?;
        self.save();
        Ok(())
    }

    fn rename_new(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        LocalFileSystem.rename_new(from, to)
    }

    fn link(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        LocalFileSystem.link(from, to)
    }

    fn rename(&self, from: &NameIn, to: &NameIn) -> io::Result<()> {
        LocalFileSystem.rename(from, to)
    }
}

#[test]
fn whoever_saves_without_an_end_finds_the_newest_save_in_the_file() {
    let stage = landed();
    let file = stage.root().canonicalize().unwrap().join("src/one.txt");
    let restless = Arc::new(Restless { file: file.clone(), saves: AtomicUsize::new(0) });
    let repo = stage.repo.clone().on(restless.clone());
    let check = |said: &str, least: usize| {
        let saves = restless.saves.load(Ordering::SeqCst);
        assert!(saves >= least, "{saves}: {said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("save {saves}\n"), "{said}");
        let kept = stage.repo.list_kept().unwrap();
        assert!(!kept.is_empty() && said.contains(&kept[kept.len() - 1].name), "{said}");
        assert!(!stage.root().join(".git/index.lock").exists());
    };
    let delivered = deliver(&repo);
    assert_eq!(delivered.status, DeliveryStatus::Kept, "{}", delivered.summary);
    check(&delivered.summary, 2);
    // A late save through a descriptor is to go in, and meets a newer one each time.
    stage.git(&["checkout", "src/one.txt"]);
    let mut held = File::options().write(true).open(&file).unwrap();
    assert_eq!(deliver(&stage.repo).status, DeliveryStatus::Landed);
    write(&mut held);
    let said = repo.look_at_retained().unwrap().join(" ");
    check(&said, 2 + 2 * 16);
}

#[test]
fn what_came_out_is_retained_for_an_hour_and_removed_only_unchanged() {
    let stage = landed();
    let file = stage.root().join("src/one.txt");
    let mut held = File::options().write(true).open(&file).unwrap();
    assert!(!has_retained(stage.repo.place()));
    assert_eq!(deliver(&stage.repo).status, DeliveryStatus::Landed);
    let transfers = stage.root().join(".ftl/store/git/transfers");
    let record = fs::read_dir(&transfers).unwrap().next().unwrap().unwrap().path().join("transfer.json");
    let age = |seconds: u64| {
        let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        json["began"] = (now - seconds).into();
        fs::write(&record, json.to_string()).unwrap();
    };
    let hour = MAX_RETAINED.as_secs();
    // Once it was looked at well after it came out, nothing but the disk is asked.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while has_retained(stage.repo.place()) {
        assert!(std::time::Instant::now() < deadline, "it is never settled");
        assert_eq!(stage.repo.look_at_retained().unwrap(), Vec::<String>::new());
    }
    age(hour - 60);
    stage.repo.look_at_retained().unwrap();
    assert!(record.exists(), "the hour is not over");
    // Whoever still has it open saves it after the hour: it comes back first.
    age(hour + 1);
    write(&mut held);
    assert!(has_retained(stage.repo.place()));
    let said = stage.repo.look_at_retained().unwrap();
    assert!(said.len() == 1 && said[0].contains("`src/one.txt` was saved meanwhile"), "{said:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), SAVED);
    assert!(record.exists());
    assert_eq!(stage.repo.look_at_retained().unwrap(), Vec::<String>::new());
    assert!(!transfers.exists() && !has_retained(stage.repo.place()));
    assert_eq!(stage.git(&["status", "--porcelain"]), " M src/one.txt".trim_start_matches('\n'));
}

#[test]
fn a_folder_that_somebody_makes_meanwhile_is_not_salvaged_over() {
    struct Maker(PathBuf);
    impl StepHook for Maker {
        fn step(&self, what: &str) -> Result<(), GitError> {
            if what == "name the folder" {
                fs::create_dir(&self.0).unwrap();
                fs::write(self.0.join("mine"), "mine").unwrap();
            }
            Ok(())
        }
    }
    for limited in [ABLE, ONLY_LINKS, Limited { apart: Some("trash"), ..ABLE }] {
        let stage = Stage::new();
        let worktree = stage.open(1);
        fs::write(worktree.path.join("new"), "new").unwrap();
        stage.repo.close_worktree(&worktree.id, "closed", 1).unwrap();
        let kept = stage.repo.list_kept().unwrap().remove(0);
        let folder = stage.folder.path().join("back");
        let repo = stage.repo.clone().on(Arc::new(limited));
        let error = repo.clone().watched(Arc::new(Maker(folder.clone()))).salvage_into(&kept, &folder);
        assert!(error.unwrap_err().message.contains("is there already"), "{limited:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(folder.join("mine")).unwrap(), "mine");
        let other = stage.folder.path().join("other");
        repo.salvage_into(&kept, &other).unwrap();
        assert_eq!(fs::read_to_string(other.join("new")).unwrap(), "new");
        let names = fs::read_dir(stage.folder.path()).unwrap().count();
        assert_eq!(names, 4, "the repository, a home, and the two folders: {limited:?}");
        assert_eq!(fs::read_dir(stage.root().join(".ftl/store/git/trash")).unwrap().count(), 0);
    }
}

/// The record of the only delivery that retains something.
fn only_record(stage: &Stage) -> std::path::PathBuf {
    let transfers = stage.root().join(".ftl/store/git/transfers");
    fs::read_dir(transfers).unwrap().next().unwrap().unwrap().path().join("transfer.json")
}

/// Looks until what came out is known by its marks alone.
fn settle(stage: &Stage) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while has_retained(stage.repo.place()) {
        assert!(std::time::Instant::now() < deadline, "it is never settled");
        assert_eq!(stage.repo.look_at_retained().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_stops_no_delivery() {
    let stage = landed();
    assert_eq!(deliver(&stage.repo).status, DeliveryStatus::Landed);
    let record = only_record(&stage);
    fs::write(&record, "{").unwrap();
    for _ in 0..2 {
        let said = stage.repo.look_at_retained().unwrap();
        assert!(said.len() == 1 && said[0].contains("cannot be looked at"), "{said:?}");
    }
    assert!(record.exists(), "nothing of it is removed");
    stage.repo.undo_delivery(&stage.run, "Ada").unwrap();
}

#[test]
fn bytes_are_compared_before_anything_that_was_retained_goes() {
    let stage = landed();
    let file = stage.root().join("src/one.txt");
    assert_eq!(deliver(&stage.repo).status, DeliveryStatus::Landed);
    settle(&stage);
    let record = only_record(&stage);
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let files = record.parent().unwrap().join("files");
    // Whoever writes through a mapping may change no time: here the marks are made to fit.
    for (name, known) in json["marks"].as_object_mut().unwrap() {
        let old = files.join(name);
        fs::write(&old, SAVED).unwrap();
        let found = fs::symlink_metadata(&old).unwrap();
        let (seconds, nanos) = (found.ctime(), found.ctime_nsec());
        *known = format!("{}:{seconds}.{nanos:09}", ftl_folder::state_folder::mark(&found)).into();
    }
    json["began"] = 1.into();
    fs::write(&record, json.to_string()).unwrap();
    let said = stage.repo.look_at_retained().unwrap();
    assert!(said.len() == 1 && said[0].contains("was saved meanwhile"), "{said:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), SAVED);
}
