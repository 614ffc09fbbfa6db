//! After a loss of the journal: back to what it knows, with nothing lost, once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftl_core::catalogue::build::{Delivery, DeliveryStatus};
use ftl_folder::rewind::{JournalEnd, KnownInstance};
use ftl_git::{Checked, Delivering, ErrorKind, GitError, Landed, Oid, StepHook};
use ftl_process::Cancel;

use crate::support::{Stage, WHEN, assert_kept, files, open};

/// A journal that ends with an entry and knows these instances at work.
fn end(stage: &Stage, last: u64, instances: &[u32]) -> JournalEnd {
    let at_work = KnownInstance { has_asked: true, is_settled: false };
    let instances = instances.iter().map(|number| (*number, at_work)).collect();
    JournalEnd { run: stage.run.clone(), last, instances }
}

/// Lands a new file of an instance's own, and closes its worktree.
fn land_file(stage: &Stage, instance: u32) -> Oid {
    fs::write(stage.open(instance).path.join(format!("{instance}.txt")), format!("{instance}\n")).unwrap();
    land_and_close(stage, instance)
}

fn land_and_close(stage: &Stage, instance: u32) -> Oid {
    let Landed::Done { commit, .. } = stage.land(instance) else { panic!("{instance} did not land") };
    stage.repo.close_worktree(&stage.id(instance), "landed", WHEN).unwrap();
    commit
}

fn records(stage: &Stage, below: &str) -> BTreeSet<String> {
    let folder = stage.root().join(".ftl/store/git/runs").join(stage.run.as_str()).join(below);
    let Ok(all) = fs::read_dir(folder) else { return BTreeSet::new() };
    all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn what_the_journal_does_not_know_is_kept_and_lands_again() {
    let stage = Stage::new();
    let before = stage.persons();
    let first = land_file(&stage, 1);
    let (_, last) = (land_file(&stage, 2), land_file(&stage, 3));
    let whole = stage.repo.tree_of(&last).unwrap();
    assert_eq!(stage.repo.rewind(&end(&stage, 3, &[1, 2, 3])).unwrap(), None, "the journal knows everything");

    let rewound = stage.repo.rewind(&end(&stage, 1, &[1, 2])).unwrap().unwrap();
    assert_eq!((stage.tip(), rewound.now.as_str()), (first.clone(), first.as_str()));
    assert_eq!(stage.git(&["rev-parse", &format!("ftl/{}", stage.run)]), first.as_str());
    assert_eq!(stage.git(&["rev-parse", &format!("refs/ftl/runs/{}", stage.run)]), first.as_str());
    assert_eq!((rewound.was.as_str(), rewound.landings.len()), (last.as_str(), 2));
    let kept = rewound.kept.unwrap();
    assert_eq!(kept, format!("refs/ftl/kept/{}-lost/1", stage.run));
    assert_eq!(stage.git(&["rev-parse", &format!("{kept}^2")]), last.as_str());
    assert_eq!(records(&stage, "landed"), names(&["run.1.json"]));
    assert_eq!(records(&stage, "lost-1/landed"), names(&["run.2.json", "run.3.json"]));
    // The second instance is known at work, and the third one is not known.
    assert_eq!(rewound.restored, [stage.id(2).to_string()]);
    assert_eq!(stage.persons(), before);

    let again = stage.open(2);
    assert_eq!(read(&again.path.join("2.txt")), "2\n");
    let second = land_and_close(&stage, 2);
    assert_eq!(stage.git(&["rev-parse", &format!("{second}^")]), first.as_str());
    assert!(!stage.open(3).path.join("3.txt").exists(), "another task may have this number now");
    let third = land_file(&stage, 3);
    assert_eq!(stage.repo.tree_of(&third).unwrap(), whole, "the same end");

    // A second loss has a folder of its own.
    stage.repo.end_rewinding(&stage.run).unwrap();
    stage.repo.rewind(&end(&stage, 2, &[1, 2, 3])).unwrap().unwrap();
    assert_eq!(records(&stage, "lost-2/landed"), names(&["run.3.json"]));
    assert_eq!(records(&stage, "lost-1/landed"), names(&["run.2.json", "run.3.json"]));
}

#[test]
fn a_known_landing_on_top_of_an_unknown_one_goes_back_exactly() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("1.txt"), "1\n").unwrap();
    let tree = stage.repo.tree(&stage.id(1)).unwrap().tree;
    land_file(&stage, 9);
    land_and_close(&stage, 1);
    let rewound = stage.repo.rewind(&end(&stage, 1, &[1])).unwrap().unwrap();
    assert_eq!(stage.tip(), worktree.base);
    assert_eq!(
        rewound.keys.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(["run.1", "run.9"])
    );
    assert_eq!(stage.open(1).base, worktree.base);
    assert_eq!(stage.repo.tree(&stage.id(1)).unwrap().tree, tree, "it was verified, and is not stale");
    assert!(matches!(stage.land(1), Landed::Done { .. }));
}

#[test]
fn worktrees_that_the_journal_cannot_know_are_kept_and_closed_and_others_stay() {
    let stage = Stage::new();
    let (known, unknown) = (stage.open(1), stage.open(2));
    fs::write(known.path.join("known"), "known").unwrap();
    fs::write(unknown.path.join("unknown"), "unknown").unwrap();
    land_file(&stage, 5);
    let later = stage.open(3);
    fs::write(later.path.join("later"), "later").unwrap();
    let (two, three) = (files(&unknown.path), files(&later.path));
    let rewound = stage.repo.rewind(&end(&stage, 4, &[1, 3])).unwrap().unwrap();
    let closed: Vec<&str> = rewound.closed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(closed, [stage.id(2).as_str(), stage.id(3).as_str()]);
    assert!(rewound.closed.iter().all(|one| one.kept.is_some()));
    assert_kept(&stage.root(), &two, "of nobody that the journal knows");
    assert_kept(&stage.root(), &three, "begun from what the journal does not know");
    assert_eq!(read(&stage.open(1).path.join("known")), "known");
    assert!(!stage.open(3).path.join("later").exists());
}

#[test]
fn a_tree_that_landed_and_is_not_on_the_branch_any_more_is_kept_when_its_worktree_goes() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("1.txt"), "only here\n").unwrap();
    assert!(matches!(stage.land(1), Landed::Done { .. }));
    let stood = files(&worktree.path);
    let rewound = stage.repo.rewind(&end(&stage, 0, &[1])).unwrap().unwrap();
    stage.git(&["update-ref", "-d", rewound.kept.as_deref().unwrap()]);
    let closed = stage.repo.close_worktree(&stage.id(1), "a test", WHEN).unwrap();
    assert!(closed.kept.is_some());
    assert_kept(&stage.root(), &stood, "it landed once");
}

#[test]
fn a_conflict_with_what_the_journal_does_not_know_is_undone() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("same.txt"), "mine\n").unwrap();
    let tree = stage.repo.tree(&stage.id(1)).unwrap().tree;
    fs::write(stage.open(9).path.join("same.txt"), "theirs\n").unwrap();
    land_and_close(&stage, 9);
    assert!(matches!(stage.land(1), Landed::Conflict { .. }));
    assert!(read(&worktree.path.join("same.txt")).contains("<<<<<<<"));
    for _ in 0..2 {
        stage.repo.rewind(&end(&stage, 1, &[1])).unwrap().unwrap();
        assert_eq!(records(&stage, "landed"), BTreeSet::new());
        assert_eq!(stage.open(1).base, worktree.base);
        assert_eq!(stage.repo.tree(&stage.id(1)).unwrap().tree, tree);
    }
    assert!(matches!(stage.land(1), Landed::Done { .. }));
}

#[test]
fn what_the_person_has_got_is_not_taken_back() {
    let stage = Stage::new();
    let (_, last) = (land_file(&stage, 1), land_file(&stage, 2));
    let delivering =
        Delivering { run: &stage.run, how: Delivery::FastForward, message: "All of it", when: WHEN };
    let delivered = stage.repo.deliver(&delivering, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap();
    assert_eq!(delivered.status, DeliveryStatus::Landed);
    let before = stage.persons();
    assert_eq!(stage.repo.rewind(&end(&stage, 2, &[1, 2])).unwrap(), None, "it will be answered as before");
    let rewound = stage.repo.rewind(&end(&stage, 1, &[1, 2])).unwrap().unwrap();
    let delivery = rewound.delivered.unwrap();
    assert_eq!((delivery.target.as_str(), delivery.commit.as_str()), ("main", last.as_str()));
    assert_eq!((stage.tip(), stage.persons()), (last, before));
    assert_eq!(records(&stage, "landed").len(), 2, "nothing has moved");
    // What the person has taken back is no reason any more.
    stage.repo.undo_delivery(&stage.run, "Ada").unwrap();
    assert_eq!(stage.repo.rewind(&end(&stage, 1, &[1, 2])).unwrap().unwrap().landings.len(), 1);
}

/// How many steps lie between two tries: each of them makes a repository of its own.
const STRIDE: usize = 7;

/// Fails at a step, as if the process ended there.
struct EndsAt {
    left: AtomicUsize,
}

impl StepHook for EndsAt {
    fn step(&self, what: &str) -> Result<(), GitError> {
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(GitError::new(ErrorKind::Cancelled, format!("ended at `{what}`"))),
        }
    }
}

#[test]
fn whoever_is_ended_on_the_way_says_it_again() {
    let mut steps = 0;
    loop {
        let stage = Stage::new();
        let first = land_file(&stage, 1);
        let (_, last) = (land_file(&stage, 2), land_file(&stage, 3));
        fs::write(stage.open(4).path.join("only-here"), "only here").unwrap();
        let stood = files(&stage.open(4).path);
        let end = end(&stage, 1, &[1, 2]);
        let watch = Arc::new(EndsAt { left: AtomicUsize::new(steps) });
        let ended = open(stage.folder.path(), |_| {}).unwrap().watched(watch).rewind(&end);
        // Whoever comes next is another process.
        let next = open(stage.folder.path(), |_| {}).unwrap();
        let rewound = next.rewind(&end).unwrap().unwrap();
        assert_eq!((stage.tip(), rewound.was.as_str()), (first, last.as_str()), "{steps}: {ended:?}");
        assert_eq!((rewound.landings.len(), rewound.keys.len()), (2, 2), "{steps}: {ended:?}");
        let kept = stage.git(&["rev-parse", &format!("{}^2", rewound.kept.as_deref().unwrap())]);
        assert_eq!(kept, last.as_str(), "{steps}: {ended:?}");
        assert_eq!(records(&stage, "landed"), names(&["run.1.json"]), "{steps}: {ended:?}");
        assert_eq!(records(&stage, "lost-1/landed").len(), 2, "{steps}: {ended:?}");
        assert!(
            !stage.root().join(".ftl/worktrees").join(stage.id(4).as_str()).exists(),
            "{steps}: {ended:?}"
        );
        assert_kept(&stage.root(), &stood, &format!("{steps}: {ended:?}"));
        let again = next.open_worktree(&stage.id(2), &stage.run, &mut |_| Ok(())).unwrap();
        assert_eq!(read(&again.path.join("2.txt")), "2\n", "{steps}: {ended:?}");
        next.end_rewinding(&stage.run).unwrap();
        if ended.is_ok() {
            break;
        }
        steps += STRIDE;
    }
    assert!(steps > 3 * STRIDE, "{steps} steps");
}

#[test]
fn a_run_that_git_does_not_know_has_nothing_to_bring_back() {
    let stage = Stage::new();
    let run = ftl_folder::id::RunId::of(99);
    assert_eq!(stage.repo.rewind(&JournalEnd { run, last: 1, instances: BTreeMap::new() }).unwrap(), None);
}
