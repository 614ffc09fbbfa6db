//! Every limit of the git layer is tripped once.

use std::fs;

use ftl_git::{
    ErrorKind, Landed, MAX_CHANGED_FILES, MAX_COPIED_BYTES, MAX_COPIED_FILES, MAX_KEPT_REFS, MAX_SIDE_BYTES,
    MAX_SIDES, Oid,
};

use crate::support::{Stage, command};

#[test]
fn too_many_or_too_large_ignored_files_are_not_copied() {
    let many = Stage::with(
        |root| {
            for number in 0..=MAX_COPIED_FILES {
                fs::create_dir_all(root.join(format!("d{number}"))).unwrap();
                fs::write(root.join(format!("d{number}/.env")), "x").unwrap();
            }
        },
        |settings| settings.copied = vec!["**/.env".to_owned()],
    );
    let large = Stage::with(
        |root| {
            let file = fs::File::create(root.join(".env")).unwrap();
            file.set_len(MAX_COPIED_BYTES + 1).unwrap();
        },
        |settings| settings.copied = vec![".env".to_owned()],
    );
    for stage in [many, large] {
        let error = stage.repo.open_worktree(&stage.id(1), &stage.run, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.trouble, ErrorKind::TooMuch);
    }
}

#[test]
fn sides_are_bounded() {
    let stage = Stage::with(
        |root| {
            for number in 0..MAX_SIDES + 5 {
                fs::write(root.join(format!("f{number:03}")), "base\n").unwrap();
            }
            crate::support::commit(root, "many");
        },
        |_| {},
    );
    for (instance, word) in [(1, "one"), (2, "two")] {
        let worktree = stage.open(instance);
        for number in 0..MAX_SIDES + 5 {
            fs::write(worktree.path.join(format!("f{number:03}")), format!("{word}\n")).unwrap();
        }
        let long = word.repeat(MAX_SIDE_BYTES);
        fs::write(worktree.path.join("f000"), long).unwrap();
        fs::write(worktree.path.join("f001"), [word.as_bytes(), &[0]].concat()).unwrap();
    }
    stage.land(1);
    let Landed::Conflict { files, sides, .. } = stage.land(2) else { panic!("no conflict") };
    assert_eq!((files.len(), sides.len()), (MAX_SIDES + 5, MAX_SIDES));
    let ours = sides[0].ours.as_ref().unwrap();
    assert!(ours.len() < MAX_SIDE_BYTES + 100 && ours.contains("bytes more"));
    assert_eq!(sides[1].ours.as_deref(), Some("(no text: 4 bytes)"));
}

#[test]
fn too_many_files_that_differ_are_said_to_be() {
    let stage = Stage::new();
    let lines = stage.root().join("lines");
    let tree_of = |count: usize| -> Oid {
        let blob = stage.git(&["rev-parse", "HEAD:.gitignore"]);
        let text: String = (0..count).map(|at| format!("100644 blob {blob}\tf{at:06}\n")).collect();
        fs::write(&lines, text).unwrap();
        let mut command = command(&stage.root(), &["mktree"]);
        let out = command.stdin(fs::File::open(&lines).unwrap()).output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().parse().unwrap()
    };
    let (none, few) = (tree_of(0), tree_of(3));
    assert_eq!(stage.repo.change(&none, &few).unwrap().files.len(), 3);
    let error = stage.repo.change(&few, &tree_of(MAX_CHANGED_FILES + 4)).unwrap_err();
    assert_eq!(error.trouble, ErrorKind::TooMuch);
}

#[test]
fn files_that_are_too_large_are_said_to_be() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    let size = ftl_git::change::MAX_CONTENT_BYTES + 1;
    fs::File::create(worktree.path.join("large")).unwrap().set_len(size).unwrap();
    fs::write(worktree.path.join("small"), "small").unwrap();
    let tree = stage.repo.tree(&worktree.id).unwrap().tree;
    let change = stage.repo.change(&worktree.base, &tree).unwrap();
    let bytes = |number: usize| change.files[number].after.as_ref().unwrap().bytes.as_deref();
    assert_eq!((bytes(0), bytes(1)), (None, Some(&b"small"[..])));

    let log = stage.root().join(".git/worktrees").join(worktree.id.as_str()).join("logs/HEAD");
    let whole = fs::read(&log).unwrap();
    fs::File::options().write(true).open(&log).unwrap().set_len(16 * 1024 * 1024 + 1).unwrap();
    assert_eq!(stage.repo.keep(&worktree.id, "why", 1).unwrap_err().trouble, ErrorKind::TooMuch);
    fs::write(&log, whole).unwrap();

    let last = format!("refs/ftl/kept/{}/{MAX_KEPT_REFS}", worktree.id);
    stage.git(&["update-ref", &last, "main"]);
    assert_eq!(stage.repo.keep(&worktree.id, "why", 1).unwrap_err().trouble, ErrorKind::TooMuch);
    assert!(worktree.path.join("small").exists());

    let record = stage.root().join(format!(".ftl/store/git/runs/{}/run.json", stage.run));
    fs::File::options().write(true).open(&record).unwrap().set_len(16 * 1024 * 1024 + 1).unwrap();
    assert_eq!(stage.repo.branch(&stage.run).unwrap_err().trouble, ErrorKind::TooMuch);
    fs::write(&record, "junk").unwrap();
    assert_eq!(stage.repo.branch(&stage.run).unwrap_err().trouble, ErrorKind::Machine, "no fresh start");
    let exclude = fs::File::create(stage.root().join(".git/info/exclude")).unwrap();
    exclude.set_len(4 * 1024 * 1024 + 1).unwrap();
    let error = crate::support::open(stage.folder.path(), |_| {}).err().unwrap();
    assert_eq!(error.trouble, ErrorKind::TooMuch);
}

#[test]
fn a_lock_that_a_killed_git_left_on_our_index_is_no_obstacle() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    let index = stage.root().join(".ftl/store/git/index");
    for name in [worktree.id.to_string(), format!("{}.keep", worktree.id), "person".to_owned()] {
        fs::write(index.join(format!("{name}.lock")), "").unwrap();
    }
    fs::write(worktree.path.join("new"), "new").unwrap();
    stage.repo.tree(&worktree.id).unwrap();
    stage.repo.keep(&worktree.id, "why", 1).unwrap().unwrap();
    assert!(matches!(stage.land(1), Landed::Done { .. }));
}

#[test]
fn many_may_look_at_one_worktree() {
    let stage = std::sync::Arc::new(Stage::new());
    let worktree = stage.open(1);
    fs::write(worktree.path.join("new"), "new").unwrap();
    let look = |_| {
        let (stage, id) = (stage.clone(), worktree.id.clone());
        std::thread::spawn(move || stage.repo.tree(&id).unwrap().tree)
    };
    let trees: Vec<_> =
        (0..8).map(look).collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap()).collect();
    assert!(trees.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn a_worktree_of_the_persons_that_has_our_name_is_not_touched() {
    let stage = Stage::new();
    let theirs = stage.folder.path().join(stage.id(1).as_str());
    stage.git(&["worktree", "add", "-q", "--detach", theirs.to_str().unwrap()]);
    let error = stage.repo.open_worktree(&stage.id(1), &stage.run, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.trouble, ErrorKind::Unsuitable);
    assert_eq!(crate::support::git(&theirs, &["status", "--porcelain"]), "");
}
