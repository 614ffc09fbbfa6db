//! A worktree that nobody has touched is not looked at twice, and none that somebody has touched is taken for
//! untouched.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ftl_git::{GitError, Repo, StepHook};

use crate::states::DEEDS;
use crate::support::{Stage, git, open};

/// How often a worktree is looked at until what stands there is known: files that were written in this very tick
/// of the clock are not believed.
const MAX_LOOKS: usize = 10_000;

/// Counts the calls of git.
#[derive(Default)]
struct Counter(AtomicUsize, Mutex<Vec<String>>);

impl StepHook for Counter {
    fn step(&self, what: &str) -> Result<(), GitError> {
        if what.starts_with("git ") && what != "git cat-file" {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.1.lock().unwrap().push(what.to_owned());
        }
        Ok(())
    }
}

/// A stage whose repository is watched.
fn watched() -> (Stage, Arc<Counter>) {
    let stage = Stage::new();
    let counter = Arc::new(Counter::default());
    let repo = stage.repo.clone().watched(counter.clone());
    (Stage { repo, ..stage }, counter)
}

/// What stands in a worktree, once git need not be asked for it.
fn settle(stage: &Stage, counter: &Counter) -> String {
    for _ in 0..MAX_LOOKS {
        let before = counter.0.load(Ordering::SeqCst);
        let standing = stage.repo.tree(&stage.id(1)).unwrap();
        if counter.0.load(Ordering::SeqCst) == before {
            return standing.tree.to_string();
        }
    }
    panic!("git is asked each time: {:?}", counter.1.lock().unwrap().last());
}

fn standing(repo: &Repo, stage: &Stage) -> Option<ftl_git::WorktreeEntry> {
    repo.tree(&stage.id(1)).ok()
}

#[test]
fn nothing_that_is_done_in_a_worktree_is_overlooked() {
    for (name, deed) in DEEDS {
        let (stage, counter) = watched();
        let worktree = stage.open(1);
        settle(&stage, &counter);
        deed(&worktree.path);
        let seen = standing(&stage.repo, &stage);
        // Somebody who remembers nothing; their own index is made from what stands there.
        let fresh = open(stage.folder.path(), |_| {}).unwrap();
        let wanted = standing(&fresh, &stage);
        assert_eq!(seen.as_ref().map(|one| &one.tree), wanted.as_ref().map(|one| &one.tree), "{name}");
    }
}

#[test]
fn the_same_size_at_the_same_time_is_another_file_all_the_same() {
    let (stage, counter) = watched();
    let file = stage.open(1).path.join("src/one.txt");
    let before = settle(&stage, &counter);
    let found = fs::metadata(&file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("one 3", "one X")).unwrap();
    let open = fs::File::options().write(true).open(&file).unwrap();
    open.set_modified(found.modified().unwrap()).unwrap();
    let now = fs::metadata(&file).unwrap();
    assert_eq!((now.len(), now.modified().unwrap()), (found.len(), found.modified().unwrap()));
    assert_ne!(stage.repo.tree(&stage.id(1)).unwrap().tree.to_string(), before);
}

#[test]
fn what_is_known_is_kept_and_closed_without_git() {
    let (stage, counter) = watched();
    let worktree = stage.open(1);
    settle(&stage, &counter);
    let before = counter.0.load(Ordering::SeqCst);
    assert_eq!(stage.repo.keep(&stage.id(1), "kept", 1).unwrap(), None, "nothing exists only there");
    assert_eq!(counter.0.load(Ordering::SeqCst), before, "{:?}", counter.1.lock().unwrap());
    // What is ignored may be hidden work: that is asked.
    fs::write(worktree.path.join("a.log"), "ignored").unwrap();
    settle(&stage, &counter);
    let before = counter.0.load(Ordering::SeqCst);
    assert_eq!(stage.repo.keep(&stage.id(1), "kept", 1).unwrap(), None);
    assert!(counter.0.load(Ordering::SeqCst) > before);
}

#[test]
fn work_beside_a_submodule_is_not_hidden_by_it() {
    let stage = Stage::with(
        |root| {
            let oid = git(root, &["rev-parse", "HEAD"]);
            git(root, &["update-index", "--add", "--cacheinfo", &format!("160000,{oid},module")]);
            git(root, &["commit", "-q", "-m", "module"]);
        },
        |_| {},
    );
    let counter = Arc::new(Counter::default());
    let repo = stage.repo.clone().watched(counter.clone());
    let stage = Stage { repo, ..stage };
    let worktree = stage.open(1);
    fs::write(worktree.path.join(".gitignore"), "secret\n").unwrap();
    fs::write(worktree.path.join("secret"), "work").unwrap();
    settle(&stage, &counter);
    let kept = stage.repo.close_worktree(&stage.id(1), "closed", 1).unwrap().kept.unwrap();
    assert_eq!(stage.git(&["show", &format!("{kept}:secret")]), "work");
}

#[test]
fn what_a_repository_inside_has_checked_out_is_asked_each_time() {
    let (stage, counter) = watched();
    let inner = stage.open(1).path.join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    for _ in 0..5 {
        let before = counter.0.load(Ordering::SeqCst);
        stage.repo.tree(&stage.id(1)).unwrap();
        assert!(counter.0.load(Ordering::SeqCst) > before);
    }
}

#[test]
fn a_folder_of_many_things_is_left_to_git() {
    let (stage, counter) = watched();
    let worktree = stage.open(1);
    settle(&stage, &counter);
    let many = worktree.path.join("target");
    fs::create_dir(&many).unwrap();
    let fill = |folder: &Path, count: usize| {
        (0..count).for_each(|at| fs::write(folder.join(at.to_string()), "").unwrap());
    };
    fill(&many, 2_000);
    let before = counter.0.load(Ordering::SeqCst);
    for _ in 0..5 {
        stage.repo.tree(&stage.id(1)).unwrap();
    }
    assert!(counter.0.load(Ordering::SeqCst) >= before + 5);
    fs::remove_dir_all(&many).unwrap();
    settle(&stage, &counter);
}
