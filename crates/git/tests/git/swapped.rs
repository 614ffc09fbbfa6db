//! A folder of the checkout becomes a link to a person's folder before every move of a delivery and of its way back:
//! nothing is written, moved or removed there, and once the folder is back nothing of the checkout is missing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftl_core::catalogue::build::Delivery;
use ftl_git::{Checked, Delivering, GitError, Repo, StepHook};
use ftl_process::Cancel;

use crate::saves::{ABLE, Limited, NO_EXCHANGE, ONLY_LINKS, copy, landed};
use crate::support::{WHEN, open};

/// The steps that move a file, between a look at it and the move.
const MOVES: [&str; 4] = ["exchange file", "move file out", "place file", "rename file"];

/// Every step in the long form, otherwise those that move.
fn is_counted(what: &str) -> bool {
    std::env::var_os("FTL_TRIES").is_some() || MOVES.contains(&what)
}

/// Puts a link in the place of a folder before a step.
struct Swapper {
    folder: PathBuf,
    to: PathBuf,
    at: usize,
    step: AtomicUsize,
}

impl Swapper {
    fn aside(&self) -> PathBuf {
        self.folder.with_extension("aside")
    }

    /// What a person does who wonders where the folder is.
    fn put_back(&self) {
        if !self.folder.is_symlink() {
            return;
        }
        fs::remove_file(&self.folder).unwrap();
        fs::rename(self.aside(), &self.folder).unwrap();
    }
}

impl StepHook for Swapper {
    fn step(&self, what: &str) -> Result<(), GitError> {
        if is_counted(what) && self.step.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            // Where the delivery has removed the folder already, the link is new.
            let _ = fs::rename(&self.folder, self.aside());
            fs::create_dir_all(self.aside()).unwrap();
            symlink(&self.to, &self.folder).unwrap();
        }
        Ok(())
    }
}

fn deliver(repo: &Repo) -> Result<(), GitError> {
    let run = ftl_folder::id::RunId::of(1);
    let delivering = Delivering { run: &run, how: Delivery::FastForward, message: "m", when: WHEN };
    repo.deliver(&delivering, &Cancel::new(), &mut |_| Ok(Checked::Passed)).map(drop)
}

/// Every file in a folder: which one, since when, and what is in it.
fn stat_files(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let look = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        (path, (found.ino(), found.mtime(), found.mtime_nsec(), bytes))
    };
    files.map(look).collect()
}

fn sweep(limited: Limited, is_undo: bool) {
    let stage = landed();
    let begun = fs::read_to_string(stage.root().join("src/one.txt")).unwrap();
    if is_undo {
        deliver(&stage.repo).unwrap();
    }
    let (folder, template) = (stage.folder.path().to_owned(), tempfile::tempdir().unwrap());
    let (root, victim) = (stage.root(), tempfile::tempdir().unwrap());
    for name in ["one.txt", "two.txt", "new.txt"] {
        fs::write(victim.path().join(name), format!("mine: {name}\n")).unwrap();
    }
    let before = stat_files(victim.path());
    copy(&folder, template.path());
    for at in 1..500 {
        fs::remove_dir_all(&root).unwrap();
        copy(template.path(), &folder);
        let to = victim.path().to_owned();
        let swapper = Arc::new(Swapper { folder: root.join("src"), to, at, step: AtomicUsize::new(0) });
        let plain = open(&folder, |_| {}).unwrap().on(Arc::new(limited));
        let repo = plain.clone().watched(swapper.clone());
        let said = match is_undo {
            false => format!("{:?}", deliver(&repo)),
            true => format!("{:?}", repo.undo_delivery(&stage.run, "Ada")),
        };
        let what = format!("at {at} ({limited:?}, undo: {is_undo}): {said}");
        assert_eq!(stat_files(victim.path()), before, "the delivery was led out of the checkout {what}");
        let _ = plain.look_at_retained();
        assert_eq!(stat_files(victim.path()), before, "the look was led out of the checkout {what}");
        swapper.put_back();
        plain.look_at_retained().unwrap_or_else(|error| panic!("{what}: {error}"));
        let text = fs::read_to_string(root.join("src/one.txt")).unwrap_or_default();
        let kept = repo.list_kept().unwrap();
        assert!(["delivered\n", &begun].contains(&&*text) || !kept.is_empty(), "{text:?} {what}");
        if swapper.step.load(Ordering::SeqCst) < at {
            assert!(at > 2, "there are more steps than {at}");
            return;
        }
    }
    panic!("there is no end");
}

#[test]
fn a_link_in_the_place_of_a_folder_leads_no_delivery_out_of_the_checkout() {
    for limited in [ABLE, NO_EXCHANGE, ONLY_LINKS] {
        sweep(limited, false);
    }
}

#[test]
fn nor_the_way_back() {
    for limited in [ABLE, ONLY_LINKS] {
        sweep(limited, true);
    }
}
