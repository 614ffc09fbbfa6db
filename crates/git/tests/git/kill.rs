//! Killed at every step, then asked again: the same result, nothing twice, nothing lost. The kill is a real
//! one: another process does the work and ends itself with SIGKILL before its N-th step.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftl_core::catalogue::build::{Delivered, Delivery, DeliveryStatus};
use ftl_core::run::InstanceId;
use ftl_folder::id::RunId;
use ftl_git::{
    Checked, Checkout, Delivering, FileSystem, GitError, Landed, Landing, Repo, StepHook, Wanted, WorktreeId,
};
use ftl_process::Cancel;

use crate::saves::{ABLE, ONLY_LINKS};
use crate::support::{Stage, WHEN, assert_kept, commit, files, git, key, lines, open};

/// Ends this process before a step.
struct Reaper {
    left: AtomicUsize,
    /// Whether only steps count that move files of the person's.
    only_files: bool,
}

/// The steps that move files of the person's, and those around them.
const FILES: [&str; 7] = [
    "exchange file",
    "move file out",
    "place file",
    "rename file",
    "git update-ref",
    "install the index",
    "index installed",
];

impl StepHook for Reaper {
    fn step(&self, what: &str) -> Result<(), GitError> {
        if self.only_files && !FILES.contains(&what) {
            return Ok(());
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    }
}

/// What is done, by the name under which the other process is told.
fn act(repo: &Repo, deed: &str) {
    let id = |instance| WorktreeId::of(&run(), InstanceId(instance));
    match deed {
        "open" => drop(repo.open_worktree(&id(3), &run(), &mut |_| Ok(())).unwrap()),
        "keep" => drop(repo.keep(&id(1), "kept", WHEN).unwrap()),
        "close" => drop(repo.close_worktree(&id(1), "closed", WHEN).unwrap()),
        "land" => drop(land(repo, 1)),
        "conflict" => drop(land(repo, 2)),
        "deliver" => drop(deliver(repo)),
        "look" => look(repo),
        "undo" => drop(repo.undo_delivery(&run(), "Ada").unwrap()),
        other => panic!("{other} is not known"),
    }
}

fn run() -> RunId {
    RunId::of(1)
}

fn land(repo: &Repo, instance: u32) -> Landed {
    let (id, key) = (WorktreeId::of(&run(), InstanceId(instance)), key(instance));
    let landing = Landing { worktree: &id, key: &key, tree: None, message: "Do it", when: WHEN };
    repo.land(&landing, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap()
}

fn deliver(repo: &Repo) -> Delivered {
    let run = run();
    let delivering = Delivering { run: &run, how: Delivery::Squash, message: "m", when: WHEN };
    repo.deliver(&delivering, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap()
}

/// Looks at the commit that the run began from, and leaves something there.
fn look(repo: &Repo) {
    let base = repo.branch(&run()).unwrap().base;
    let mut look = |at: &Checkout<'_>| {
        assert_eq!(fs::read_to_string(at.path().join("src/one.txt")).unwrap(), lines("one", 20));
        assert!(!at.path().join("left").exists() && !at.path().join("new").exists());
        fs::write(at.path().join("left"), "").unwrap();
        fs::write(at.path().join("src/one.txt"), "changed").unwrap();
    };
    repo.check_out(Wanted::commit(&base), &Cancel::new(), &mut look).unwrap();
}

/// A file system by what it can do.
fn file_system(on: &str) -> Arc<dyn FileSystem> {
    Arc::new(match on {
        "exchange" => ABLE,
        "link" => ONLY_LINKS,
        other => panic!("{other} is not known"),
    })
}

/// The other process; it does nothing unless it is told what.
#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn other_process() {
    let told = |name: &str| std::env::var(name).ok();
    let (Some(folder), Some(deed), Some(at)) = (told("KILL_FOLDER"), told("KILL_DEED"), told("KILL_AT"))
    else {
        return;
    };
    let repo = open(Path::new(&folder), |_| {}).unwrap();
    let left = AtomicUsize::new(at.parse().unwrap());
    let (deed, limited) = deed.split_once(' ').map_or((deed.as_str(), None), |(deed, on)| (deed, Some(on)));
    let only_files = limited.is_some();
    let repo = limited.map_or(repo.clone(), |on| repo.on(file_system(on)));
    act(&repo.watched(Arc::new(Reaper { left, only_files })), deed);
}

/// Whether the other process was killed before that step; otherwise it came to its end.
fn is_killed(folder: &Path, deed: &str, at: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::other_process", "--ignored"]).env("KILL_FOLDER", folder);
    let out = command.env("KILL_DEED", deed).env("KILL_AT", at.to_string()).output().unwrap();
    if out.status.signal().is_some() {
        return true;
    }
    assert!(out.status.success(), "{deed} at {at}: {}", String::from_utf8_lossy(&out.stdout));
    false
}

/// Kills a deed before each of its steps, does it again, and has somebody look.
fn sweep(deed: &str, prepare: impl FnOnce(&Stage), check: impl Fn(&Repo, &Path)) {
    let stage = Stage::new();
    prepare(&stage);
    let (folder, template) = (stage.folder.path(), tempfile::tempdir().unwrap());
    copy(folder, template.path());
    for at in 1..500 {
        fs::remove_dir_all(stage.root()).unwrap();
        copy(template.path(), folder);
        let killed = is_killed(folder, deed, at);
        let repo = open(folder, |_| {}).unwrap();
        act(&repo, deed);
        check(&repo, &stage.root());
        assert!(!stage.root().join(".git/index.lock").exists());
        if !killed {
            assert!(at > 5, "{deed} has more steps than {at}");
            return;
        }
    }
    panic!("{deed} has no end");
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from.join("a repository")).arg(to).status().unwrap();
    assert!(done.success());
}

/// A worktree with work of several kinds in it.
fn work(stage: &Stage) {
    let worktree = stage.open(1);
    fs::write(worktree.path.join("src/one.txt"), "work on one").unwrap();
    fs::write(worktree.path.join("new"), "new work").unwrap();
    fs::create_dir(worktree.path.join("nested")).unwrap();
    git(&worktree.path.join("nested"), &["init", "-q"]);
    fs::write(worktree.path.join("nested/inner"), "inner work").unwrap();
}

#[test]
fn opening() {
    let is_open = |repo: &Repo, root: &Path| {
        let id = WorktreeId::of(&run(), InstanceId(3));
        assert_eq!(files(&repo.path_of(&id)), files(root));
        assert_eq!(fs::read_dir(root.join(".ftl/worktrees")).unwrap().count(), 1);
        assert_eq!(git(root, &["worktree", "list"]).lines().count(), 2);
        assert_eq!(git(&repo.path_of(&id), &["status", "--porcelain"]), "");
    };
    sweep("open", |_| {}, is_open);
    let resting = |stage: &Stage| {
        work(stage);
        stage.repo.close_worktree(&stage.id(1), "closed", WHEN).unwrap();
        assert_eq!(stage.repo.slots().unwrap().len(), 1);
    };
    sweep("open", resting, is_open);
}

#[test]
fn looking() {
    let nothing_is_left = |repo: &Repo, root: &Path| {
        assert_eq!(git(root, &["worktree", "list"]).lines().count(), 1);
        look(repo);
    };
    sweep("look", |_| {}, nothing_is_left);
    let switched = |stage: &Stage| {
        fs::write(stage.root().join("new"), "later").unwrap();
        fs::write(stage.root().join("src/one.txt"), "later").unwrap();
        commit(&stage.root(), "later");
        stage.looks(&stage.git(&["rev-parse", "HEAD"]).parse().unwrap(), |_| {});
    };
    sweep("look", switched, nothing_is_left);
}

#[test]
fn keeping() {
    sweep("keep", work, |repo, root| {
        let id = WorktreeId::of(&run(), InstanceId(1));
        assert_kept(root, &files(&repo.path_of(&id)), "keep");
        assert_eq!(repo.list_kept().unwrap().len(), 1);
    });
}

#[test]
fn closing() {
    let bytes = std::cell::RefCell::default();
    let prepare = |stage: &Stage| {
        work(stage);
        *bytes.borrow_mut() = files(&stage.repo.path_of(&stage.id(1)));
    };
    sweep("close", prepare, |repo, root| {
        assert_kept(root, &bytes.borrow(), "close");
        assert_eq!(repo.list_kept().unwrap().len(), 1);
        assert_eq!(repo.worktrees().unwrap(), []);
        assert_eq!(fs::read_dir(root.join(".ftl/worktrees")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(root.join(".ftl/store/git/trash")).unwrap().count(), 0);
        assert_eq!(git(root, &["worktree", "list"]).lines().count(), 1);
    });
}

#[test]
fn landing() {
    let first = std::cell::OnceCell::new();
    let prepare = |stage: &Stage| {
        work(stage);
        let other = stage.open(2);
        fs::write(other.path.join("other"), "other").unwrap();
        stage.land(2);
    };
    sweep("land", prepare, |repo, root| {
        let Landed::Done { commit, .. } = land(repo, 1) else { panic!("not landed") };
        assert_eq!(first.get_or_init(|| commit.clone()), &commit, "a redo is the same commit");
        assert_eq!(git(root, &["rev-list", "--count", &format!("main..ftl/{}", run())]), "2");
        assert_eq!(repo.branch(&run()).unwrap().tip, commit);
        assert_eq!(git(root, &["rev-parse", &format!("ftl/{}", run())]), commit.as_str());
        assert_eq!(repo.list_kept().unwrap(), []);
        assert_eq!(git(root, &["worktree", "list"]).lines().count(), 3);
    });
}

#[test]
fn conflicting() {
    let bytes = std::cell::RefCell::default();
    let prepare = |stage: &Stage| {
        work(stage);
        let other = stage.open(2);
        fs::write(other.path.join("src/one.txt"), "otherwise on one").unwrap();
        fs::write(other.path.join("mine"), "mine").unwrap();
        *bytes.borrow_mut() = files(&other.path);
        stage.land(1);
    };
    sweep("conflict", prepare, |repo, root| {
        let Landed::Conflict { files: names, .. } = land(repo, 2) else { panic!("no conflict") };
        assert_eq!(names, ["src/one.txt"]);
        let worktree = repo.worktree(&WorktreeId::of(&run(), InstanceId(2))).unwrap();
        assert_eq!(worktree.base, repo.branch(&run()).unwrap().tip);
        assert_kept(root, &bytes.borrow(), "conflict");
        assert_eq!(repo.list_kept().unwrap().len(), 1);
        assert!(fs::read_to_string(worktree.path.join("src/one.txt")).unwrap().contains("<<<<<<<"));
        assert!(worktree.path.join("new").exists() && worktree.path.join("mine").exists());
    });
}

/// The person has work of their own in the checkout, beside what is delivered.
fn landed(stage: &Stage) {
    work(stage);
    fs::remove_file(stage.repo.path_of(&stage.id(1)).join("src/two.txt")).unwrap();
    stage.land(1);
    fs::write(stage.root().join("mine"), "not committed").unwrap();
    fs::write(stage.root().join(".gitignore"), "*.log\n").unwrap();
}

#[test]
fn delivering() {
    let first = std::cell::OnceCell::new();
    sweep("deliver", landed, |repo, root| {
        let delivered = deliver(repo);
        assert_eq!(delivered.status, DeliveryStatus::Landed, "{}", delivered.summary);
        assert_eq!(first.get_or_init(|| delivered.commit.clone()), &delivered.commit);
        assert_eq!(Some(git(root, &["rev-parse", "main"])), delivered.commit);
        assert_eq!(git(root, &["rev-list", "--count", "main"]), "2");
        assert_eq!(git(root, &["status", "--porcelain"]), " M .gitignore\n?? mine");
        assert!(!root.join("src/two.txt").exists() && root.join("new").exists());
    });
}

#[test]
fn undoing() {
    let prepare = |stage: &Stage| {
        landed(stage);
        deliver(&stage.repo);
    };
    sweep("undo", prepare, |_, root| {
        assert_eq!(git(root, &["rev-list", "--count", "main"]), "1");
        assert_eq!(git(root, &["status", "--porcelain"]), " M .gitignore\n?? mine");
        assert!(root.join("src/two.txt").exists() && !root.join("new").exists());
    });
}

/// Killed while files are moved, the next command, whatever it is, leaves the checkout whole: all of the delivery is
/// there or none of it, and git works again.
fn left_whole(deed: &str, on: &str) {
    let stage = Stage::new();
    landed(&stage);
    if deed == "undo" {
        deliver(&stage.repo);
    }
    let (folder, template) = (stage.folder.path(), tempfile::tempdir().unwrap());
    copy(folder, template.path());
    for at in 1..100 {
        fs::remove_dir_all(stage.root()).unwrap();
        copy(template.path(), folder);
        let killed = is_killed(folder, &format!("{deed} {on}"), at);
        let (root, repo) = (stage.root(), open(folder, |_| {}).unwrap().on(file_system(on)));
        repo.look_at_retained().unwrap();
        assert!(!root.join(".git/index.lock").exists(), "{deed} on {on} at {at}");
        let status = git(&root, &["status", "--porcelain"]);
        assert_eq!(status, " M .gitignore\n?? mine", "{deed} on {on} at {at}");
        assert_eq!(git(&root, &["diff-index", "HEAD", "--", "src", "new"]), "", "{deed} on {on} at {at}");
        act(&repo, deed);
        let count = if deed == "undo" { "1" } else { "2" };
        assert_eq!(git(&root, &["rev-list", "--count", "main"]), count);
        assert_eq!(
            git(&root, &["status", "--porcelain"]),
            " M .gitignore\n?? mine",
            "{deed} on {on} at {at}"
        );
        if !killed {
            assert!(at > 4, "{deed} on {on} has more steps than {at}");
            return;
        }
    }
    panic!("{deed} on {on} has no end");
}

#[test]
fn moving_files() {
    left_whole("deliver", "exchange");
    left_whole("undo", "link");
}
