//! A stage for commands that misbehave: each has a folder and a mark of its own, and at the end nothing
//! that carries the mark may be alive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ftl_process::table::Table;
use ftl_process::{
    Cancel, Guard, MARK, Mark, ProcessExit, ProcessLimits, RunError, Spec, Stdin, Supervisor, own_orphans,
};
use tempfile::TempDir;

/// How long what an attempt started may be alive after it has ended. This is a promise of the product.
pub(crate) const NOTHING_LEFT_WITHIN: Duration = Duration::from_secs(2);

/// How long a test waits for something that surely comes, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) supervisor: Supervisor,
    pub(crate) mark: Mark,
    pub(crate) cancel: Cancel,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        own_orphans().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (attempts, spool) = (folder.path().join("attempts"), folder.path().join("spool"));
        let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
        let supervisor = Supervisor::new(guard, &attempts, &spool).unwrap();
        let mark = Mark::new(MARK, &format!("test-{:016x}", ftl_folder::id::random().unwrap())).unwrap();
        Stage { folder, supervisor, mark, cancel: Cancel::new() }
    }

    pub(crate) fn attempts(&self) -> PathBuf {
        self.folder.path().join("attempts")
    }

    /// What runs a rogue with these words.
    pub(crate) fn spec(&self, words: &[&str]) -> Spec {
        Spec {
            program: env!("CARGO_BIN_EXE_ftl-rogue").into(),
            args: words.iter().map(OsString::from).collect(),
            folder: self.folder.path().to_owned(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            stdin: Stdin::Null,
            limits: patient(),
            lock: "run.1".into(),
            fence: None,
            mark: self.mark.clone(),
            sandbox: None,
        }
    }

    pub(crate) fn run_spec(&self, spec: &Spec) -> Result<ProcessExit, RunError> {
        self.supervisor.run(spec, &self.cancel, &mut |_, _| {})
    }

    /// Runs a rogue and looks that nothing is left of it.
    pub(crate) fn run(&self, words: &[&str], limits: ProcessLimits) -> ProcessExit {
        let ended = self.run_spec(&Spec { limits, ..self.spec(words) }).unwrap();
        self.assert_nothing_left();
        ended
    }

    /// Runs a rogue and cancels it as soon as it has printed something.
    pub(crate) fn run_until_heard(
        &self,
        words: &[&str],
        limits: ProcessLimits,
        stop: fn(&Cancel),
    ) -> ProcessExit {
        let spec = Spec { limits, ..self.spec(words) };
        let ended = self.supervisor.run(&spec, &self.cancel, &mut |_, _| stop(&self.cancel)).unwrap();
        self.assert_nothing_left();
        ended
    }

    /// Every live process of this stage: by its mark or, if it has thrown that away, by its folder.
    pub(crate) fn alive(&self) -> Vec<i32> {
        let folder = self.folder.path().canonicalize().unwrap();
        let here = |pid: i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder);
        let table = Table::read().unwrap();
        let alive = table.entries().filter(|entry| entry.is_alive()).map(|entry| entry.pid);
        alive.filter(|pid| self.mark.is_in_environment_of(*pid) || here(*pid)).collect()
    }

    pub(crate) fn assert_nothing_left(&self) {
        let gone = wait_until(NOTHING_LEFT_WITHIN, || self.alive().is_empty());
        assert!(gone, "still alive after two seconds: {:?}", self.alive());
        let files = std::fs::read_dir(self.attempts()).unwrap().count();
        assert_eq!(files, 0, "the attempt's file is removed");
    }
}

/// No limit that a slow machine could reach.
pub(crate) fn patient() -> ProcessLimits {
    ProcessLimits { grace: PATIENCE, ..ProcessLimits::default() }
}

/// Looks until something holds. Whether it did in time.
pub(crate) fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
