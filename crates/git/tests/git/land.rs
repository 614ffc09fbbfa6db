//! Landing: merged, verified, moved, once.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use ftl_git::{CallbackError, Checked, ErrorKind, GitError, Landed, Landing, MAX_MESSAGE_BYTES, Oid};
use ftl_process::Cancel;

use crate::support::{Stage, WHEN, assert_kept, files, key, lines};

fn done(landed: Landed) -> (Oid, Oid, u64) {
    match landed {
        Landed::Done { commit, tree, files } => (commit, tree, files),
        other => panic!("not landed: {other:?}"),
    }
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from));
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn work_lands_merged_and_verified_and_the_person_sees_nothing() {
    let stage = Stage::new();
    let before = stage.persons();
    let (one, two) = (stage.open(1), stage.open(2));
    edit(&one.path.join("src/one.txt"), "one 1\n", "ONE 1\n");
    edit(&two.path.join("src/one.txt"), "one 20\n", "ONE 20\n");
    fs::write(two.path.join("left.log"), "ignored").unwrap();
    let (first, _, count) = done(stage.land(1));
    assert_eq!((stage.tip(), count), (first.clone(), 1));
    let landed = stage.land_if(2, |merged| {
        assert!(!merged.unchanged);
        stage.looks(&merged.commit, |checkout| {
            let text = fs::read_to_string(checkout.join("src/one.txt")).unwrap();
            assert!(text.starts_with("ONE 1\n") && text.ends_with("ONE 20\n"));
            assert!(!checkout.join("left.log").exists());
            fs::write(checkout.join("result.tmp"), "made by the tests").unwrap();
        });
        Checked::Passed
    });
    let (second, tree, _) = done(landed.unwrap());
    assert_eq!(stage.git(&["rev-list", "--count", &format!("main..ftl/{}", stage.run)]), "2");
    assert_eq!(stage.git(&["rev-parse", &format!("{second}^")]), first.as_str());
    assert_eq!(stage.repo.tree_of(&second).unwrap(), tree);
    let message = stage.git(&["log", "-1", "--format=%an <%ae> %at %B", second.as_str()]);
    assert!(message.starts_with(&format!("Ada <ada@example.org> {WHEN} Do it")), "{message}");
    assert!(message.contains(&format!("Ftl-Run: {}", stage.run)) && message.contains("Ftl-Key: run.2"));
    assert_eq!(stage.persons(), before);
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 3, "the scratch worktree is gone");
}

#[test]
fn a_landing_asked_again_is_answered_again() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    let first = stage.land(1);
    // Whatever stands there now, this landing was done.
    fs::write(worktree.path.join("new"), "newer").unwrap();
    let again = stage.land_if(1, |_| panic!("it was verified before"));
    assert_eq!(again.unwrap(), first);
    assert_eq!(stage.git(&["rev-list", "--count", &format!("ftl/{}", stage.run)]), "2");
}

#[test]
fn what_fails_does_not_land() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    let nothing = stage.land(1);
    assert!(matches!(&nothing, Landed::Failed { summary } if summary.contains("nothing was changed")));
    fs::write(worktree.path.join("new"), "new").unwrap();
    let tip = stage.tip();
    let red = stage.land_if(1, |_| Checked::Failed("red".to_owned())).unwrap();
    assert_eq!((red, stage.tip()), (Landed::Failed { summary: "red".to_owned() }, tip.clone()));
    let (id, key) = (stage.id(1), key(1));
    let base = stage.repo.tree_of(&tip).unwrap();
    let landing = Landing { worktree: &id, key: &key, tree: Some(&base), message: "m", when: WHEN };
    let land = |landing: &Landing<'_>| {
        stage.repo.land(landing, &Cancel::new(), &mut |_| Err(CallbackError::new("no disk")))
    };
    assert_eq!(land(&landing).unwrap_err().trouble, ErrorKind::Stale);
    assert!(land(&Landing { tree: None, ..landing.clone() }).unwrap_err().message.contains("no disk"));
    let long = "x".repeat(MAX_MESSAGE_BYTES + 1);
    assert_eq!(land(&Landing { message: &long, ..landing.clone() }).unwrap_err().trouble, ErrorKind::TooMuch);
    let other = "other".parse().unwrap();
    assert_eq!(land(&Landing { worktree: &other, ..landing }).unwrap_err().trouble, ErrorKind::Unknown);
    assert_eq!(stage.tip(), tip);
    assert!(!stage.root().join(".ftl/worktrees").join(format!("{}-landing", stage.run)).exists());
}

#[test]
fn a_conflict_shows_both_sides_and_can_be_resolved() {
    let stage = Stage::new();
    let (one, two) = (stage.open(1), stage.open(2));
    edit(&one.path.join("src/one.txt"), "one 5\n", "one five\n");
    edit(&two.path.join("src/one.txt"), "one 5\n", "one V\n");
    fs::write(two.path.join("mine.txt"), "mine").unwrap();
    fs::write(one.path.join("theirs.txt"), "theirs").unwrap();
    let (tip, ..) = done(stage.land(1));
    let before = files(&two.path);
    let conflict = stage.land_if(2, |_| panic!("there is nothing to verify")).unwrap();
    let Landed::Conflict { files: names, sides, kept } = &conflict else { panic!("{conflict:?}") };
    assert_eq!(names, &["src/one.txt"]);
    let wanted = |word: &str| Some(lines("one", 20).replacen("one 5\n", word, 1));
    assert_eq!((&sides[0].base, &sides[0].theirs), (&wanted("one 5\n"), &wanted("one five\n")));
    assert_eq!(sides[0].ours, wanted("one V\n"));
    assert!(kept.is_some());
    assert_kept(&stage.root(), &before, "conflict");
    assert_eq!(stage.land(2), conflict, "asked again it is answered again");
    // The worktree is on the tip now.
    assert!(two.path.join("theirs.txt").exists() && two.path.join("mine.txt").exists());
    assert_eq!(stage.repo.worktree(&two.id).unwrap().base, tip);
    let status = crate::support::git(&two.path, &["status", "--porcelain"]);
    assert_eq!(status, " M src/one.txt\n?? mine.txt");
    let land = |number| {
        let key = key(number);
        let landing = Landing { worktree: &two.id, key: &key, tree: None, message: "m", when: WHEN };
        stage.repo.land(&landing, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap()
    };
    let left = land(21);
    assert!(matches!(&left, Landed::Failed { summary } if summary.contains("src/one.txt")), "{left:?}");
    fs::write(two.path.join("src/one.txt"), wanted("one five V\n").unwrap()).unwrap();
    let (landed, ..) = done(land(22));
    let text = stage.git(&["show", &format!("{landed}:src/one.txt")]);
    assert!(text.contains("one five V") && !text.contains("<<<<"));
}

#[test]
fn an_ignored_file_in_the_way_of_what_landed_is_kept() {
    let stage = Stage::new();
    let (one, two) = (stage.open(1), stage.open(2));
    fs::write(one.path.join(".gitignore"), "target/\n").unwrap();
    fs::write(one.path.join("build.log"), "theirs").unwrap();
    fs::write(one.path.join("src/one.txt"), "theirs").unwrap();
    fs::create_dir(two.path.join("target")).unwrap();
    fs::write(two.path.join("build.log"), "ignored, and only here").unwrap();
    fs::write(two.path.join("src/one.txt"), "ours").unwrap();
    let before = files(&two.path);
    done(stage.land(1));
    assert!(matches!(stage.land(2), Landed::Conflict { .. }));
    assert_eq!(fs::read(two.path.join("build.log")).unwrap(), b"theirs");
    assert_kept(&stage.root(), &before, "an ignored file");
}

#[test]
fn of_two_landings_at_once_each_follows_the_other() {
    let stage = Arc::new(Stage::new());
    let start = Arc::new(Barrier::new(4));
    let working = Arc::new(AtomicUsize::new(0));
    for instance in 1..=4 {
        let worktree = stage.open(instance);
        fs::write(worktree.path.join(format!("new {instance}")), "new").unwrap();
    }
    let land = |instance: u32| {
        let (stage, start, working) = (stage.clone(), start.clone(), working.clone());
        std::thread::spawn(move || {
            start.wait();
            let (id, key) = (stage.id(instance), key(instance));
            let landing = Landing { worktree: &id, key: &key, tree: None, message: "m", when: WHEN };
            let mut verify = |_: &ftl_git::MergedTree| {
                assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                working.fetch_sub(1, Ordering::SeqCst);
                Ok(Checked::Passed)
            };
            stage.repo.land(&landing, &Cancel::new(), &mut verify).unwrap()
        })
    };
    let threads: Vec<_> = (1..=4).map(land).collect();
    threads.into_iter().for_each(|thread| drop(done(thread.join().unwrap())));
    let tip = stage.tip();
    assert_eq!(stage.git(&["rev-list", "--count", &format!("main..{tip}")]), "4");
    assert_eq!(stage.git(&["ls-tree", "--name-only", tip.as_str()]).matches("new ").count(), 4);
}

#[test]
fn a_landing_that_nobody_wants_any_more_does_not_wait() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    let cancel = Cancel::new();
    let (id, first, second) = (stage.id(1), key(1), key(2));
    let landing = |key| Landing { worktree: &id, key, tree: None, message: "m", when: WHEN };
    let mut inner: Option<Result<Landed, GitError>> = None;
    cancel.cancel();
    let mut verify = |_: &ftl_git::MergedTree| {
        inner = Some(stage.repo.land(&landing(&second), &cancel, &mut |_| Ok(Checked::Passed)));
        Ok(Checked::Passed)
    };
    done(stage.repo.land(&landing(&first), &Cancel::new(), &mut verify).unwrap());
    assert_eq!(inner.unwrap().unwrap_err().trouble, ErrorKind::Cancelled);
}

#[test]
fn a_branch_that_somebody_moved_or_removed_is_put_back_and_nothing_of_it_is_lost() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    let (landed, ..) = done(stage.land(1));
    let name = format!("refs/heads/ftl/{}", stage.run);
    let foreign = stage.git(&["commit-tree", "-p", "main", "-m", "forged", "main^{tree}"]);
    stage.git(&["update-ref", &name, &foreign]);
    let second = stage.open(2);
    fs::write(second.path.join("newer"), "newer").unwrap();
    let (next, ..) = done(stage.land(2));
    assert_eq!(stage.git(&["rev-parse", &format!("{next}^")]), landed.as_str());
    let kept = stage.repo.list_kept().unwrap();
    let mine = kept.iter().find(|kept| kept.id.as_str().ends_with("-branch")).unwrap();
    assert!(stage.git(&["rev-list", mine.commit.as_str()]).contains(&foreign));
    stage.git(&["update-ref", "-d", &name]);
    assert_eq!(stage.repo.begin(&stage.run).unwrap().tip, next);
    assert_eq!(stage.git(&["rev-parse", &name]), next.as_str());
}

#[test]
fn a_forged_ref_does_not_count_as_landed() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    for name in ["refs/ftl/landed/run.1", "refs/ftl/kept/junk", "refs/ftl/kept/BAD/1"] {
        stage.git(&["update-ref", name, "main"]);
    }
    let mut verified = 0;
    let (id, key) = (stage.id(1), key(1));
    let landing = Landing { worktree: &id, key: &key, tree: None, message: "m", when: WHEN };
    let mut verify = |_: &ftl_git::MergedTree| {
        verified += 1;
        Ok(Checked::Passed)
    };
    done(stage.repo.land(&landing, &Cancel::new(), &mut verify).unwrap());
    assert_eq!(verified, 1);
}
