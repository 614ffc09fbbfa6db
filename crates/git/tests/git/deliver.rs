//! Delivery: the person's branch gets the work, or nothing is touched and the answer says why.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::{Arc, Mutex};

use ftl_core::catalogue::build::{Delivered, Delivery, DeliveryStatus};
use ftl_git::change::MAX_CONTENT_BYTES;
use ftl_git::{Checked, Delivering, ErrorKind, GitError, Landed, MergedTree, Oid, StepHook, Undone};
use ftl_process::Cancel;

use crate::support::{Stage, WHEN, commit, files, git};

/// Why a delivery stays, and what the person did to the checkout.
type Case = (&'static str, fn(&std::path::Path));

fn deliver_if(stage: &Stage, how: Delivery, verify: impl Fn(&MergedTree) -> Checked) -> Delivered {
    let delivering = Delivering { run: &stage.run, how, message: "Deliver it", when: WHEN };
    stage.repo.deliver(&delivering, &Cancel::new(), &mut |merged| Ok(verify(merged))).unwrap()
}

fn deliver(stage: &Stage, how: Delivery) -> Delivered {
    deliver_if(stage, how, |_| panic!("there is nothing new to verify"))
}

/// A stage whose run has landed a changed file, a new one, one that is gone, a folder that became a file
/// and a file that became a folder.
fn landed() -> (Stage, Oid) {
    let stage = Stage::with(
        |root| {
            fs::create_dir_all(root.join("folder")).unwrap();
            fs::write(root.join("folder/inner"), "inner").unwrap();
            fs::write(root.join("file"), "file").unwrap();
            fs::write(root.join("free.txt"), "free\n").unwrap();
            commit(root, "more");
        },
        |_| {},
    );
    let worktree = stage.open(1);
    let at = |name: &str| worktree.path.join(name);
    fs::write(at("src/one.txt"), "changed\n").unwrap();
    fs::write(at("new.txt"), "new\n").unwrap();
    fs::remove_file(at("src/two.txt")).unwrap();
    fs::remove_dir_all(at("folder")).unwrap();
    fs::write(at("folder"), "now a file").unwrap();
    fs::remove_file(at("file")).unwrap();
    fs::create_dir(at("file")).unwrap();
    fs::write(at("file/inner"), "now a folder").unwrap();
    let Landed::Done { commit, .. } = stage.land(1) else { panic!("not landed") };
    (stage, commit)
}

/// Asserts that nothing was delivered, and that nothing of the person's was touched.
fn assert_stays(stage: &Stage, how: Delivery, verify: fn(&MergedTree) -> Checked, why: &str) {
    let before = stage.persons();
    let delivered = deliver_if(stage, how, verify);
    assert_eq!(delivered.status, DeliveryStatus::Kept, "{}", delivered.summary);
    assert!(delivered.summary.contains(why), "{} (wanted: {why})", delivered.summary);
    assert_eq!(stage.persons(), before);
    assert_eq!(stage.git(&["rev-parse", &delivered.branch]), stage.tip().as_str());
    assert!(!stage.root().join(".git/index.lock").exists() || why.contains("index.lock"));
}

#[test]
fn forward_the_branch_the_files_and_the_index_move_together() {
    let (stage, tip) = landed();
    fs::write(stage.root().join("free.txt"), "mine, not committed\n").unwrap();
    fs::write(stage.root().join("untracked"), "mine").unwrap();
    fs::write(stage.root().join("staged"), "mine").unwrap();
    stage.git(&["add", "staged"]);
    let start = stage.git(&["rev-parse", "main"]);
    let before = files(&stage.root());
    let delivered = deliver(&stage, Delivery::FastForward);
    assert_eq!((delivered.status, delivered.commit), (DeliveryStatus::Landed, Some(tip.to_string())));
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), tip.as_str());
    let status = stage.git(&["status", "--porcelain"]);
    assert_eq!(status, " M free.txt\nA  staged\n?? untracked".trim_start_matches('\n'));
    assert_eq!(fs::read_to_string(stage.root().join("file/inner")).unwrap(), "now a folder");
    assert_eq!(fs::read_to_string(stage.root().join("folder")).unwrap(), "now a file");
    assert!(!stage.root().join("src/two.txt").exists());
    assert_eq!(deliver(&stage, Delivery::FastForward).commit, Some(tip.to_string()), "asked again");

    let undone = stage.repo.undo_delivery(&stage.run, "Ada").unwrap();
    assert_eq!((undone.commit.as_str(), &undone.was), (start.as_str(), &tip));
    assert_eq!(stage.git(&["rev-parse", "main"]), start);
    assert_eq!(files(&stage.root()), before);
    assert_eq!(stage.git(&["status", "--porcelain"]), status);
    let again = stage.repo.undo_delivery(&stage.run, "Ada").unwrap();
    assert_eq!(again, Undone { before: true, ..undone }, "asked again");
}

#[test]
fn squashed_it_is_one_commit() {
    let (stage, tip) = landed();
    let second = stage.open(2);
    fs::write(second.path.join("more.txt"), "more").unwrap();
    stage.land(2);
    let delivered = deliver(&stage, Delivery::Squash);
    assert_eq!(delivered.status, DeliveryStatus::Landed);
    assert_eq!(stage.git(&["rev-list", "--count", "main"]), "3");
    assert_eq!(
        stage.git(&["rev-parse", "main^{tree}"]),
        stage.git(&["rev-parse", &format!("{}^{{tree}}", stage.tip())])
    );
    assert!(stage.git(&["log", "-1", "--format=%B", "main"]).starts_with("Deliver it"));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_ne!(tip, stage.tip());
    let undone = stage.repo.undo_delivery(&stage.run, "Ada").unwrap();
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let guards = stage.git(&["for-each-ref", "--format=%(objectname)", "refs/ftl/delivered"]);
    assert_eq!(guards, undone.was.as_str(), "what was delivered can still be found");
}

#[test]
fn a_delivery_is_not_taken_back_when_the_branch_has_moved_on() {
    let (stage, _) = landed();
    deliver(&stage, Delivery::FastForward);
    fs::write(stage.root().join("later"), "later").unwrap();
    commit(&stage.root(), "later");
    let before = stage.persons();
    assert_eq!(stage.repo.undo_delivery(&stage.run, "Ada").unwrap_err().trouble, ErrorKind::Stale);
    assert_eq!(stage.persons(), before);
    let none = Stage::new();
    assert_eq!(none.repo.undo_delivery(&none.run, "Ada").unwrap_err().trouble, ErrorKind::Unknown);
}

#[test]
fn a_branch_that_has_moved_is_merged_with_when_that_is_clean_and_verified() {
    for how in [Delivery::FastForward, Delivery::Squash] {
        let (stage, tip) = landed();
        fs::write(stage.root().join("later"), "later").unwrap();
        commit(&stage.root(), "later");
        let start = stage.git(&["rev-parse", "main"]);
        assert_stays(&stage, how, |_| Checked::Failed("red".to_owned()), "red");
        let delivered = deliver_if(&stage, how, |merged| {
            stage.looks(&merged.commit, |checkout| {
                assert!(checkout.join("later").exists() && checkout.join("new.txt").exists());
            });
            Checked::Passed
        });
        assert_eq!(delivered.status, DeliveryStatus::Landed, "{}", delivered.summary);
        let parents = stage.git(&["log", "-1", "--format=%P", "main"]);
        let wanted = if how == Delivery::Squash { start.clone() } else { format!("{start} {tip}") };
        assert_eq!(parents, wanted);
        assert_eq!(stage.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn what_conflicts_stays_on_its_branch() {
    let (stage, _) = landed();
    fs::write(stage.root().join("src/one.txt"), "otherwise\n").unwrap();
    commit(&stage.root(), "otherwise");
    let verify = |_: &MergedTree| panic!("there is nothing to verify");
    assert_stays(&stage, Delivery::FastForward, verify, "1 file conflicts");
}

#[test]
fn what_is_in_the_way_is_not_touched() {
    let passed = |_: &MergedTree| Checked::Passed;
    let cases: [Case; 11] = [
        ("src/one.txt", |root| fs::write(root.join("src/one.txt"), "mine").unwrap()),
        // Their git was told not to look.
        ("src/one.txt", |root| {
            git(root, &["update-index", "--assume-unchanged", "src/one.txt"]);
            fs::write(root.join("src/one.txt"), "mine").unwrap();
        }),
        ("src/one.txt", |root| {
            fs::set_permissions(root.join("src/one.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("src/two.txt", |root| fs::write(root.join("src/two.txt"), "mine").unwrap()),
        ("src/one.txt", |root| fs::remove_file(root.join("src/one.txt")).unwrap()),
        ("new.txt", |root| fs::write(root.join("new.txt"), "mine").unwrap()),
        ("new.txt", |root| {
            fs::write(root.join(".git/info/exclude"), "new.txt\n").unwrap();
            fs::write(root.join("new.txt"), "mine").unwrap();
        }),
        ("new.txt", |root| {
            fs::create_dir(root.join("new.txt")).unwrap();
            fs::write(root.join("new.txt/mine"), "mine").unwrap();
        }),
        ("folder", |root| fs::write(root.join("folder/mine"), "mine").unwrap()),
        ("src/one.txt", |root| {
            fs::write(root.join("src/one.txt"), "mine").unwrap();
            git(root, &["add", "-A"]);
            git(root, &["show", "HEAD:src/one.txt"]);
            fs::write(root.join("src/one.txt"), crate::support::lines("one", 20)).unwrap();
        }),
        ("src/one.txt", |root| {
            fs::remove_file(root.join("src/one.txt")).unwrap();
            std::os::unix::fs::symlink("two.txt", root.join("src/one.txt")).unwrap();
        }),
    ];
    for (path, disturb) in cases {
        let (stage, _) = landed();
        disturb(&stage.root());
        assert_stays(&stage, Delivery::FastForward, passed, &format!("`{path}`"));
    }
}

#[test]
fn a_file_that_is_too_large_to_be_compared_here_is_compared_by_git() {
    let large = |first: u8| {
        let mut bytes = vec![b'x'; usize::try_from(MAX_CONTENT_BYTES).unwrap() + 1];
        bytes[0] = first;
        bytes
    };
    let begin = || {
        let stage = Stage::with(
            |root| {
                fs::write(root.join("large"), large(b'a')).unwrap();
                commit(root, "large");
            },
            |_| {},
        );
        fs::write(stage.open(1).path.join("large"), large(b'b')).unwrap();
        assert!(matches!(stage.land(1), Landed::Done { .. }));
        stage
    };
    let stage = begin();
    fs::write(stage.root().join("large"), large(b'c')).unwrap();
    assert_stays(&stage, Delivery::FastForward, |_| Checked::Passed, "`large`");
    let stage = begin();
    assert_eq!(deliver(&stage, Delivery::FastForward).status, DeliveryStatus::Landed);
    assert_eq!(fs::read(stage.root().join("large")).unwrap(), large(b'b'));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_change_within_the_second_in_which_git_looked_last_is_seen() {
    let (stage, _) = landed();
    let (file, index) = (stage.root().join("src/one.txt"), stage.root().join(".git/index"));
    let second = |path: &std::path::Path| fs::metadata(path).unwrap().ctime();
    let old = fs::read_to_string(&file).unwrap();
    // A machine that is busy needs more than one try to do three things within a second.
    for _ in 0..100 {
        fs::write(&file, &old).unwrap();
        stage.git(&["add", "src/one.txt"]);
        let looked = (second(&file), second(&index));
        fs::write(&file, old.to_uppercase()).unwrap();
        if looked == (second(&file), second(&file)) {
            let now =
                || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            while now() <= u64::try_from(second(&file)).unwrap() {
                std::thread::yield_now();
            }
            return assert_stays(&stage, Delivery::FastForward, |_| Checked::Passed, "`src/one.txt`");
        }
    }
    panic!("the machine is too slow");
}

#[test]
fn a_file_that_differs_in_its_ends_of_lines_alone_is_nobody_s_work() {
    let stage = Stage::with(
        |root| {
            fs::write(root.join(".gitattributes"), "* text=auto\n").unwrap();
            fs::write(root.join("dos.txt"), "a\r\nb\r\n").unwrap();
            let file = fs::File::options().write(true).open(root.join("dos.txt")).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(WHEN))
                .unwrap();
            commit(root, "dos");
            assert_eq!(git(root, &["cat-file", "-s", "HEAD:dos.txt"]), "4");
        },
        |_| {},
    );
    fs::write(stage.open(1).path.join("dos.txt"), "c\n").unwrap();
    assert!(matches!(stage.land(1), Landed::Done { .. }));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let delivered = deliver(&stage, Delivery::FastForward);
    assert_eq!(delivered.status, DeliveryStatus::Landed, "{}", delivered.summary);
    assert_eq!(fs::read(stage.root().join("dos.txt")).unwrap(), b"c\n");
}

#[test]
fn where_there_is_no_checkout_only_the_branch_moves() {
    let stage = Stage::with(
        |root| {
            git(root, &["clone", "-q", "--bare", ".", ".bare"]);
            fs::remove_dir_all(root.join(".git")).unwrap();
            fs::write(root.join(".git"), "gitdir: ./.bare\n").unwrap();
        },
        |_| {},
    );
    fs::write(stage.open(1).path.join("new.txt"), "new").unwrap();
    assert!(matches!(stage.land(1), Landed::Done { .. }));
    let delivered = deliver(&stage, Delivery::FastForward);
    assert_eq!(delivered.status, DeliveryStatus::Landed, "{}", delivered.summary);
    assert_eq!(git(&stage.root().join(".bare"), &["rev-parse", "main"]), stage.tip().as_str());
    assert!(!stage.root().join(".bare/index.lock").exists() && !stage.root().join("new.txt").exists());
}

#[test]
fn a_checkout_in_another_state_is_left_alone() {
    let passed = |_: &MergedTree| Checked::Passed;
    let cases: [Case; 8] = [
        ("a merge is in progress", |root| {
            fs::copy(root.join(".git/refs/heads/main"), root.join(".git/MERGE_HEAD")).unwrap();
        }),
        ("is being rebased", |root| {
            git(root, &["checkout", "-q", "--detach"]);
            fs::create_dir(root.join(".git/rebase-merge")).unwrap();
            fs::write(root.join(".git/rebase-merge/head-name"), "refs/heads/main\n").unwrap();
        }),
        ("is checked out in", |root| {
            git(root, &["checkout", "-q", "--detach"]);
            git(root, &["worktree", "add", "-q", "../other place", "main"]);
        }),
        ("index.lock", |root| fs::write(root.join(".git/index.lock"), "").unwrap()),
        ("attribute `filter`", |root| {
            fs::write(root.join(".git/info/attributes"), "*.txt filter=lfs\n").unwrap();
        }),
        ("ends of lines", |root| drop(git(root, &["config", "core.autocrlf", "true"]))),
        ("sparse", |root| drop(git(root, &["config", "core.sparseCheckout", "true"]))),
        ("not there any more", |root| {
            git(root, &["checkout", "-q", "--detach"]);
            git(root, &["branch", "-D", "main"]);
        }),
    ];
    for (why, disturb) in cases {
        let (stage, _) = landed();
        disturb(&stage.root());
        assert_stays(&stage, Delivery::FastForward, passed, why);
    }
}

/// Remembers what is done, in order.
#[derive(Default)]
struct Steps(Mutex<Vec<String>>);

impl StepHook for Steps {
    fn step(&self, what: &str) -> Result<(), GitError> {
        self.0.lock().unwrap().push(what.to_owned());
        Ok(())
    }
}

#[test]
fn few_small_files_are_written_without_git_and_look_the_same() {
    // Whether they are few and small, and what is in the file that is not.
    let large = "x".repeat(1 + (1 << 20));
    for (is_small, other) in [(true, "small"), (false, large.as_str())] {
        let stage = Stage::new();
        let steps = Arc::new(Steps::default());
        let stage = Stage { repo: stage.repo.clone().watched(steps.clone()), ..stage };
        let at = |name: &str| stage.open(1).path.join(name);
        fs::create_dir_all(at("deep/er")).unwrap();
        fs::write(at("deep/er/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("deep/er/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at("src/one.txt"), "\r\n\0changed").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("other"), other).unwrap();
        stage.land(1);
        steps.0.lock().unwrap().clear();
        assert_eq!(deliver(&stage, Delivery::FastForward).status, DeliveryStatus::Landed);
        let root = stage.root();
        assert_eq!(fs::read(root.join("src/one.txt")).unwrap(), b"\r\n\0changed");
        assert_eq!(fs::read(root.join("other")).unwrap(), other.as_bytes());
        // What git checks out here itself says which modes are right.
        git(&root, &["worktree", "add", "-q", "--detach", "../by git"]);
        for name in ["deep/er/run.sh", "src/one.txt", "empty", "other"] {
            let mode =
                |folder: &str| fs::metadata(root.join(folder).join(name)).unwrap().permissions().mode();
            assert_eq!(mode("."), mode("../by git"), "{name}");
        }
        assert_eq!(git(&root, &["status", "--porcelain"]), "");
        let steps = steps.0.lock().unwrap();
        let count = |step: &str| steps.iter().filter(|one| *one == step).count();
        let wanted = if is_small { (4, 0) } else { (0, 1) };
        assert_eq!((count("write file"), count("git checkout-index")), wanted, "{steps:?}");
    }
}

#[test]
fn what_was_asked_to_stay_stays() {
    let (stage, _) = landed();
    assert_stays(&stage, Delivery::BranchOnly, |_| Checked::Passed, "`branch-only` keeps it there");
    let empty = Stage::new();
    assert_stays(&empty, Delivery::FastForward, |_| Checked::Passed, "nothing has landed");
    let detached = Stage::with(|root| drop(git(root, &["checkout", "-q", "--detach"])), |_| {});
    let worktree = detached.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    detached.land(1);
    assert_stays(&detached, Delivery::FastForward, |_| Checked::Passed, "no branch was checked out");
}

#[test]
fn rules_about_files_are_for_the_persons_own_git_to_bring() {
    let (stage, _) = landed();
    let worktree = stage.open(2);
    fs::create_dir(worktree.path.join("sub")).unwrap();
    fs::write(worktree.path.join("sub/.gitattributes"), "* filter=x\n").unwrap();
    stage.land(2);
    assert_stays(&stage, Delivery::FastForward, |_| Checked::Passed, "`sub/.gitattributes` would change");
}

#[test]
fn a_branch_that_is_checked_out_nowhere_moves_alone() {
    let (stage, tip) = landed();
    stage.git(&["checkout", "-q", "-b", "elsewhere"]);
    let before = files(&stage.root());
    assert_eq!(deliver(&stage, Delivery::FastForward).status, DeliveryStatus::Landed);
    assert_eq!(stage.git(&["rev-parse", "main"]), tip.as_str());
    assert_eq!(files(&stage.root()), before);
    assert_eq!(stage.git(&["status", "--porcelain", "-b"]), "## elsewhere");
}
