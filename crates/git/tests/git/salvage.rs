//! Bringing kept work back.

use std::fs;

use ftl_git::ErrorKind;

use crate::support::{Stage, files};

#[test]
fn kept_work_comes_back_as_a_branch_or_as_files() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("src/one.txt"), "changed").unwrap();
    fs::write(worktree.path.join("new\nname"), "new").unwrap();
    let wanted = files(&worktree.path);
    let before = stage.persons();
    let closed = stage.repo.close_worktree(&worktree.id, "it was\ngiven up", 77).unwrap();
    let all = stage.repo.list_kept().unwrap();
    let kept = &all[0];
    assert_eq!((all.len(), Some(&kept.name)), (1, closed.kept.as_ref()));
    assert_eq!((&kept.id, kept.number, kept.when), (&worktree.id, 1, 77));
    assert_eq!((kept.why.as_str(), &kept.base), ("it was given up", &Some(worktree.base)));
    let changed = stage.repo.change(kept.base.as_ref().unwrap(), &kept.commit).unwrap();
    assert_eq!(changed.files.len(), 2);

    let folder = stage.folder.path().join("brought back");
    stage.repo.salvage_into(kept, &folder).unwrap();
    assert_eq!(files(&folder), wanted);
    assert!(stage.repo.salvage_into(kept, &folder).is_err(), "nothing is written over");
    stage.repo.salvage_as_branch(kept, "rescue/one").unwrap();
    stage.repo.salvage_as_branch(kept, "rescue/one").unwrap();
    assert_eq!(stage.git(&["rev-parse", "rescue/one"]), kept.commit.as_str());
    for bad in ["main", "-x", "a..b", "@{-1}", ""] {
        let error = stage.repo.salvage_as_branch(kept, bad).unwrap_err();
        assert_eq!(error.trouble, ErrorKind::BadName, "{bad:?}");
    }
    stage.git(&["branch", "-D", "rescue/one"]);
    assert_eq!(stage.persons(), before);
}

#[test]
fn what_is_kept_twice_unchanged_is_kept_once() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    let first = stage.repo.keep(&worktree.id, "first", 1).unwrap().unwrap();
    assert_eq!(stage.repo.keep(&worktree.id, "second", 2).unwrap().unwrap(), first);
    fs::write(worktree.path.join("new"), "newer").unwrap();
    let second = stage.repo.keep(&worktree.id, "third", 3).unwrap().unwrap();
    assert_ne!(second, first);
    assert_eq!(fs::read(worktree.path.join("new")).unwrap(), b"newer");
    assert_eq!(stage.repo.close_worktree(&worktree.id, "end", 4).unwrap().kept, Some(second));
    assert_eq!(stage.repo.list_kept().unwrap().len(), 2);
}

#[test]
fn what_landed_as_it_stood_need_not_be_kept() {
    let stage = Stage::new();
    let (one, two) = (stage.open(1), stage.open(2));
    fs::write(one.path.join("src/one.txt"), "one").unwrap();
    fs::write(two.path.join("src/two.txt"), "two").unwrap();
    stage.land(1);
    stage.land(2);
    assert_eq!(stage.repo.close_worktree(&one.id, "landed", 1).unwrap().kept, None);
    let merged = stage.repo.close_worktree(&two.id, "landed", 1).unwrap();
    assert!(merged.kept.is_some(), "merged with another's, the branch does not hold it as it stood");
}
