//! Checkouts that are looked at: exactly the wanted files, whatever the look before has left there.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::mpsc::channel;

use ftl_git::{Oid, Wanted};
use ftl_process::Cancel;

use crate::support::{Stage, commit, files, git};

/// Something that is done to a checkout, with its name.
type Deed<'a> = (&'a str, &'a dyn Fn(&Path));

/// The commit that the person's branch is at.
fn head(stage: &Stage) -> Oid {
    stage.git(&["rev-parse", "HEAD"]).parse().unwrap()
}

/// A stage with two commits that differ in files, folders, links, modes and a file that becomes a folder.
fn two() -> (Stage, [Oid; 2]) {
    let stage = Stage::with(
        |root| {
            fs::write(root.join("both"), "same").unwrap();
            fs::write(root.join("turns"), "a file").unwrap();
            fs::write(root.join("run.sh"), "exit 0").unwrap();
            fs::create_dir_all(root.join("old/deep")).unwrap();
            fs::write(root.join("old/deep/gone"), "gone").unwrap();
            symlink("both", root.join("link")).unwrap();
            commit(root, "first");
        },
        |settings| settings.warm = vec!["warm".to_owned()],
    );
    let first = head(&stage);
    let root = stage.root();
    fs::remove_file(root.join("turns")).unwrap();
    fs::create_dir(root.join("turns")).unwrap();
    fs::write(root.join("turns/inner"), "a folder now").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(root.join("old")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("run.sh", root.join("link")).unwrap();
    fs::write(root.join("src/one.txt"), "rewritten").unwrap();
    commit(&root, "second");
    let second = head(&stage);
    (stage, [first, second])
}

/// What a commit holds, by the person's own git.
fn wanted(stage: &Stage, commit: &Oid) -> PathBuf {
    let path = stage.folder.path().join(format!("plain-{}", commit.short()));
    if !path.exists() {
        let to = path.to_str().unwrap();
        stage.git(&["clone", "-q", "--no-hardlinks", ".", to]);
        git(&path, &["checkout", "-q", "--detach", commit.as_str()]);
    }
    path
}

/// Every path with its kind, and whether its owner may run it.
fn kinds(top: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            if name == Path::new(".git") {
                continue;
            }
            let mode = fs::symlink_metadata(&path).unwrap().mode();
            if mode & 0o170_000 == 0o040_000 {
                open.push(path);
            }
            found.push((name, mode));
        }
    }
    found.sort();
    found
}

/// Looks at a commit, and that exactly its files are there.
fn assert_exact(stage: &Stage, commit: &Oid, after: &str, leave: impl FnOnce(&Path)) {
    let plain = wanted(stage, commit);
    let mut leave = Some(leave);
    stage.looks(commit, |at| {
        assert_eq!(files(at), files(&plain), "{after}");
        assert_eq!(kinds(at), kinds(&plain), "{after}");
        assert_eq!(git(at, &["status", "--porcelain", "--ignored"]), "", "git sees a difference: {after}");
        assert_eq!(git(at, &["rev-parse", "HEAD"]), commit.as_str());
        leave.take().unwrap()(at);
    });
}

#[test]
fn a_slot_is_switched_from_tree_to_tree_and_stays_where_it_is() {
    let (stage, [first, second]) = two();
    let mut places = Vec::new();
    for commit in [&first, &second, &first, &first, &second] {
        assert_exact(&stage, commit, "", |at| {
            let both = at.join("both");
            places.push((at.to_owned(), both.exists().then(|| fs::metadata(&both).unwrap().ino())));
        });
    }
    places.dedup();
    assert_eq!(places.len(), 1, "a file that does not differ is not written again: {places:?}");
    assert!(!places[0].0.starts_with(stage.root()) && places[0].0.starts_with(stage.folder.path()));
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 1, "git knows it while it is looked at");
}

fn change(at: &Path, file: &str, text: &str) {
    fs::write(at.join(file), text).unwrap();
}

fn mode(at: &Path, path: &str, mode: u32) {
    fs::set_permissions(at.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

/// Does each of these at both commits, and looks again.
fn assert_gone(deeds: &[Deed<'_>]) {
    let (stage, both) = two();
    for (what, deed) in deeds {
        for commit in &both {
            assert_exact(&stage, commit, what, deed);
            assert_exact(&stage, commit, what, |_| {});
        }
    }
}

#[test]
fn whatever_a_look_leaves_is_gone_at_the_next_one() {
    let deeds: [Deed<'_>; 9] = [
        ("a new file", &|at| change(at, "new", "x")),
        ("an ignored file", &|at| change(at, "x.log", "x")),
        ("a new folder", &|at| fs::create_dir_all(at.join("a/b/c")).unwrap()),
        ("an ignored folder", &|at| {
            fs::create_dir_all(at.join("target/x")).unwrap();
            change(at, "target/x/y", "z");
        }),
        ("another text", &|at| change(at, "both", "else")),
        ("as many bytes", &|at| change(at, "both", "SAME")),
        ("as many bytes and the old times", &|at| {
            let times = fs::metadata(at.join("both")).unwrap().modified().unwrap();
            change(at, "both", "SAME");
            fs::File::options().write(true).open(at.join("both")).unwrap().set_modified(times).unwrap();
        }),
        ("a file that is gone", &|at| fs::remove_file(at.join("both")).unwrap()),
        ("a folder that is gone", &|at| fs::remove_dir_all(at.join("src")).unwrap()),
    ];
    assert_gone(&deeds);
}

#[test]
fn whatever_a_look_puts_in_the_place_of_something_is_gone_at_the_next_one() {
    let deeds: [Deed<'_>; 13] = [
        ("a link in place of a file", &|at| {
            fs::remove_file(at.join("both")).unwrap();
            symlink("/etc/passwd", at.join("both")).unwrap();
        }),
        ("a link in place of a folder", &|at| {
            fs::rename(at.join("src"), at.join("moved")).unwrap();
            symlink("moved", at.join("src")).unwrap();
        }),
        ("a folder in place of a file", &|at| {
            fs::remove_file(at.join("both")).unwrap();
            fs::create_dir(at.join("both")).unwrap();
            change(at, "both/x", "x");
        }),
        ("a file in place of a folder", &|at| {
            fs::remove_dir_all(at.join("src")).unwrap();
            change(at, "src", "x");
        }),
        ("a repository inside", &|at| {
            fs::create_dir(at.join("inner")).unwrap();
            git(&at.join("inner"), &["init", "-q"]);
        }),
        ("a repository in a folder of ours", &|at| {
            git(&at.join("src"), &["init", "-q"]);
        }),
        ("a git folder of its own", &|at| {
            fs::remove_file(at.join(".git")).unwrap();
            git(at, &["init", "-q"]);
        }),
        ("a file that may be run", &|at| mode(at, "both", 0o777)),
        ("a file that may not be read", &|at| mode(at, "both", 0)),
        ("a folder that may not be entered", &|at| mode(at, "src", 0)),
        ("a top that may not be written", &|at| mode(at, "", 0o500)),
        ("other rules for git", &|at| {
            change(at, ".gitignore", "*\n");
            change(at, ".gitattributes", "* text eol=crlf\n");
        }),
        ("a commit", &|at| {
            change(at, "new", "x");
            git(at, &["add", "-A"]);
            git(at, &["commit", "-q", "-m", "of the look"]);
        }),
    ];
    assert_gone(&deeds);
}

#[test]
fn what_a_link_leads_to_is_not_touched() {
    let (stage, [first, second]) = two();
    let away = tempfile::tempdir().unwrap();
    fs::write(away.path().join("one.txt"), "precious").unwrap();
    assert_exact(&stage, &first, "", |at| {
        fs::remove_dir_all(at.join("src")).unwrap();
        symlink(away.path(), at.join("src")).unwrap();
        symlink(away.path(), at.join("other")).unwrap();
    });
    assert_exact(&stage, &second, "", |_| {});
    assert_eq!(fs::read_to_string(away.path().join("one.txt")).unwrap(), "precious");
    assert_eq!(fs::read_dir(away.path()).unwrap().count(), 1);
}

#[test]
fn only_what_the_settings_name_stays_warm() {
    let (stage, [first, second]) = two();
    stage.looks(&first, |at| {
        for folder in ["warm", "src/warm", "cold"] {
            fs::create_dir(at.join(folder)).unwrap();
            fs::write(at.join(folder).join("build"), "made").unwrap();
        }
        fs::write(at.join("old/warm"), "a file is no build").unwrap();
    });
    stage.looks(&second, |at| {
        assert!(at.join("warm/build").exists() && at.join("src/warm/build").exists());
        assert!(!at.join("cold").exists() && !at.join("old").exists());
    });
    // What an agent builds in its worktree is never seen here.
    let worktree = stage.open(1);
    fs::create_dir_all(worktree.path.join("warm")).unwrap();
    fs::write(worktree.path.join("warm/poison"), "").unwrap();
    stage.repo.close_worktree(&worktree.id, "done", 1).unwrap();
    stage.looks(&first, |at| assert!(!at.join("warm/poison").exists()));
}

#[test]
fn two_looks_at_the_same_time_have_a_slot_each_and_both_stay() {
    let (stage, [first, second]) = two();
    let (meet, (tell, told)) = (Barrier::new(2), channel());
    std::thread::scope(|scope| {
        for commit in [&first, &second] {
            let (stage, meet, tell) = (&stage, &meet, tell.clone());
            scope.spawn(move || {
                assert_exact(stage, commit, "", |at| {
                    tell.send(at.to_owned()).unwrap();
                    meet.wait();
                });
            });
        }
    });
    let both = [told.recv().unwrap(), told.recv().unwrap()];
    assert_ne!(both[0], both[1]);
    assert_eq!(stage.repo.slots().unwrap().len(), 2);
    assert!(stage.repo.slots().unwrap().iter().all(|slot| slot.bytes > 0));
    // One that is in use is left alone.
    stage.looks(&first, |_| assert_eq!(stage.repo.remove_slots().unwrap(), 1));
    assert_eq!(stage.repo.remove_slots().unwrap(), 1);
    assert!(stage.repo.slots().unwrap().is_empty() && !both[0].exists() && !both[1].exists());
}

#[test]
fn a_checkout_has_other_files_than_its_commit_where_they_are_wanted() {
    let (stage, [first, second]) = two();
    let tree = stage.repo.tree_of(&first).unwrap();
    let wanted = Wanted { commit: &second, tree: Some(&tree) };
    let look = &mut |at: &ftl_git::Checkout<'_>| {
        assert_eq!(fs::read_to_string(at.path().join("turns")).unwrap(), "a file");
        assert_eq!(git(at.path(), &["rev-parse", "HEAD"]), second.as_str());
        assert_eq!(at.tree().unwrap(), tree);
        fs::write(at.path().join("x.log"), "ignored").unwrap();
        assert_eq!(at.tree().unwrap(), tree);
        fs::write(at.path().join("both"), "changed").unwrap();
        assert_ne!(at.tree().unwrap(), tree);
    };
    stage.repo.check_out(wanted, &Cancel::new(), look).unwrap();
    assert_exact(&stage, &first, "", |_| {});
}

#[test]
fn a_slot_that_is_not_as_it_was_left_is_laid_again() {
    let (stage, [first, second]) = two();
    let home = stage.root().join(".ftl/store/git");
    let deeds: [Deed<'_>; 6] = [
        ("no index", &|_| fs::remove_file(home.join("index/verify-1")).unwrap()),
        ("a broken index", &|_| fs::write(home.join("index/verify-1"), "DIRC").unwrap()),
        ("an index under a lock", &|_| fs::write(home.join("index/verify-1.lock"), "").unwrap()),
        ("no record", &|_| fs::remove_file(home.join("slots/1.json")).unwrap()),
        ("no folder", &|at| fs::remove_dir_all(at).unwrap()),
        ("a record of another start of the machine", &|at| {
            let text = fs::read_to_string(home.join("slots/1.json")).unwrap();
            let boot = ftl_process::table::boot_id().unwrap();
            fs::write(home.join("slots/1.json"), text.replace(&boot, "before")).unwrap();
            // What a power cut does: the size and the times are right, and the bytes are not there.
            assert!(at.join("both").exists());
        }),
    ];
    for (what, deed) in deeds {
        let mut place = PathBuf::new();
        assert_exact(&stage, &first, "", |at| place = at.to_owned());
        deed(&place);
        assert_exact(&stage, &second, what, |_| {});
    }
}

#[test]
fn submodules_stay_empty_and_what_is_put_there_goes() {
    let stage = Stage::with(
        |root| {
            let inner = root.parent().unwrap().join("inner");
            fs::create_dir(&inner).unwrap();
            git(&inner, &["init", "-q"]);
            fs::write(inner.join("file"), "x").unwrap();
            commit(&inner, "inner");
            git(root, &["submodule", "--quiet", "add", inner.to_str().unwrap(), "module"]);
            commit(root, "with a module");
        },
        |_| {},
    );
    let head = head(&stage);
    for _ in 0..2 {
        stage.looks(&head, |at| {
            assert_eq!(fs::read_dir(at.join("module")).unwrap().count(), 0);
            fs::write(at.join("module/left"), "x").unwrap();
        });
    }
}

#[test]
fn a_worktree_is_made_of_one_that_rests_and_nothing_of_it_is_left() {
    let (stage, [first, _]) = two();
    let plain = wanted(&stage, &first);
    let whole = |at: &Path| {
        assert_eq!(files(at), files(&plain), "exactly what the run began from");
        assert_eq!(kinds(at), kinds(&plain));
        assert_eq!(git(at, &["status", "--porcelain", "--ignored"]), "");
    };
    let one = stage.open(1);
    whole(&one.path);
    let inode = fs::metadata(one.path.join("both")).unwrap().ino();
    fs::write(one.path.join("src/one.txt"), "work").unwrap();
    fs::write(one.path.join("x.log"), "ignored").unwrap();
    fs::create_dir_all(one.path.join("warm/deep")).unwrap();
    fs::create_dir_all(one.path.join("target")).unwrap();
    fs::remove_file(one.path.join("run.sh")).unwrap();
    fs::set_permissions(one.path.join("src"), fs::Permissions::from_mode(0o700)).unwrap();
    git(&one.path.join("old/deep"), &["init", "-q"]);
    let closed = stage.repo.close_worktree(&one.id, "done", 1).unwrap();
    assert!(closed.kept.is_some() && !one.path.exists(), "what existed only there is kept");
    let kept = stage.git(&["show", &format!("{}:src/one.txt", closed.kept.unwrap())]);
    assert_eq!(kept, "work");
    let two = stage.open(2);
    assert_eq!(fs::metadata(two.path.join("both")).unwrap().ino(), inode, "it is the same file");
    assert!(two.path.join("warm/deep").exists() && !two.path.join("target").exists());
    fs::remove_dir_all(two.path.join("warm")).unwrap();
    whole(&two.path);
    assert_eq!(stage.repo.tree(&two.id).unwrap().tree, stage.repo.tree_of(&two.base).unwrap());
    // Where work is verified nothing of it is ever seen.
    stage.looks(&first, |at| assert!(!at.join("warm").exists()));
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 2);
}

#[test]
fn only_so_many_worktrees_rest_and_those_of_another_start_of_the_machine_are_not_believed() {
    let (stage, _) = two();
    let most = u32::try_from(ftl_git::MAX_RESTING).unwrap() + 2;
    let all: Vec<_> = (1..=most).map(|number| stage.open(number)).collect();
    for worktree in &all {
        stage.repo.close_worktree(&worktree.id, "done", 1).unwrap();
    }
    let home = stage.root().join(".ftl/store/git/resting");
    assert_eq!(stage.repo.slots().unwrap().len(), ftl_git::MAX_RESTING);
    for entry in fs::read_dir(&home).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace(&ftl_process::table::boot_id().unwrap(), "before")).unwrap();
        }
    }
    let inodes = |at: &Path| fs::metadata(at.join("both")).unwrap().ino();
    let old: Vec<u64> = fs::read_dir(&home)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| inodes(&path))
        .collect();
    let next = stage.open(most + 1);
    assert_eq!((old.len(), fs::read_dir(&home).unwrap().count()), (ftl_git::MAX_RESTING, 0));
    assert_eq!(fs::read_to_string(next.path.join("both")).unwrap(), "same");
    stage.repo.close_worktree(&next.id, "done", 1).unwrap();
    assert_eq!(stage.repo.remove_slots().unwrap(), 1);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}
