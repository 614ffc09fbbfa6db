//! Every limit of the git layer is tripped once.

use std::fs;

use ftl_engine::git::{Landed, MAX_COPIED_BYTES, MAX_COPIED_FILES, MAX_SIDE_BYTES, MAX_SIDES, Trouble};

use crate::support::Stage;

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
        assert_eq!(error.trouble, Trouble::TooMuch);
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
