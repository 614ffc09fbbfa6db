//! Finding 15: temporary folders of the dead are removed.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use crate::support::{Dir, Started, ended, until};
use crate::tally::{Tally, tries};

/// A run that is at work until a file is there. It could ask an agent at any time, so it has a temporary folder.
const ASKS: &str = "STATE: START\n  DO: sh \"until test -f go; do sleep 0.05; done\"\n  RETURN: complete\n";

/// A repository, and a folder in which temporary folders are made for it alone.
struct Stage {
    dir: Dir,
    temporary: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        let dir = Dir::new();
        dir.protocol("asks", ASKS);
        let temporary = dir.path("temporary");
        fs::create_dir(&temporary).unwrap();
        Stage { dir, temporary }
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.dir.command(words);
        command.env("TMPDIR", &self.temporary).env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// The temporary folders that are there.
    fn left(&self) -> Vec<String> {
        let all = fs::read_dir(&self.temporary).unwrap();
        let mut names: Vec<String> = all.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Starts a run and waits until it has its folder and works.
    fn start(&self, words: &[&str]) -> Started {
        let before = self.left();
        let started = self.dir.start_command(self.command(words));
        until("it has a temporary folder", || {
            self.left()
                .iter()
                .any(|name| !before.contains(name) && self.temporary.join(name).join("owner.lock").is_file())
        });
        started
    }
}

#[test]
fn the_folder_of_a_killed_one_goes_with_the_next_command() {
    let mut tally =
        Tally::of("a killed ftl leaves a temporary folder: the next command or the doctor removes it");
    for number in 0..tries(4) {
        let stage = Stage::new();
        let started = stage.start(&["run", "asks"]);
        started.signal(Signal::KILL);
        started.ended();
        assert_eq!(stage.left().len(), 1, "a killed process removes nothing itself");
        // One that lives beside it keeps its own.
        let beside = Stage { dir: Stage::new().dir, temporary: stage.temporary.clone() };
        let living = (number % 2 == 0).then(|| beside.start(&["run", "asks"]));
        let words: &[&str] = if number % 4 < 2 { &["doctor"] } else { &["resume"] };
        stage.dir.write("go", "");
        let done = ended(stage.command(words));
        assert!((0..=6).contains(&done.code), "{done:?}");
        let mut left = stage.left();
        if let Some(living) = living {
            assert_eq!(
                left.len(),
                1,
                "{words:?} removed what somebody lives in, or left what nobody does: {left:?}"
            );
            beside.dir.write("go", "");
            living.ended().code(0);
            left = stage.left();
        }
        tally.count((!left.is_empty()).then(|| format!("{words:?} left {left:?}")));
    }
    tally.close();
}

#[test]
fn only_what_is_surely_left_by_the_dead_is_removed() {
    let stage = Stage::new();
    stage.dir.write("go", "");
    let make = |name: &str, file: Option<&str>| {
        let path = stage.temporary.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        if let Some(file) = file {
            fs::write(path.join(file), "mine").unwrap();
        }
        let old = SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60);
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
    };
    // Of an earlier version, deserted; of one, with work in it; a person's own; and one of another name.
    make("ftl-bbbbbbbb", None);
    make("ftl-cccccccc", Some("work.txt"));
    make("ftl-thesis", Some("owner.lock"));
    make("thesis", Some("owner.lock"));
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("owner.lock"), "mine").unwrap();
    std::os::unix::fs::symlink(outside.path(), stage.temporary.join("ftl-dddddddd")).unwrap();
    ended(stage.command(&["run", "asks"])).code(0);
    assert_eq!(stage.left(), ["ftl-cccccccc", "ftl-dddddddd", "ftl-thesis", "thesis"]);
    assert_eq!(fs::read_to_string(outside.path().join("owner.lock")).unwrap(), "mine");
}
