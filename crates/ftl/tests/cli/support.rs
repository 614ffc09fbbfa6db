//! What the tests stand on: folders that go away, runs of the binary, and snapshots.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use serde_json::Value as Json;

/// A sound document with a diagram and a table.
pub(crate) const MINE: &str = include_str!("documents/mine.md");

/// The documents of this project, by name.
pub(crate) fn built_in(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../protocols/{name}.md"));
    fs::read_to_string(path).unwrap()
}

/// A folder that goes away by itself, with a git root at its top.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("ftl-cli-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join(".git")).unwrap();
        Dir(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Dir {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs `ftl` in this folder.
    pub(crate) fn ftl(&self, args: &[&str]) -> Ended {
        ended(self.command(args))
    }

    /// The command that `ftl` would be run with.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftl"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FTL_BY"] {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The same, once its exit code is as wanted.
    #[track_caller]
    pub(crate) fn code(self, wanted: i32) -> Ended {
        assert_eq!(self.code, wanted, "{self:#?}");
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Both streams must have said these words, one or the other.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

pub(crate) fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares a text with the one on record; `UPDATE_SNAPSHOTS=1` records it anew.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == text,
        "{} differs; UPDATE_SNAPSHOTS=1 records it anew\n--- recorded\n{recorded}\n--- now\n{text}",
        path.display()
    );
}
