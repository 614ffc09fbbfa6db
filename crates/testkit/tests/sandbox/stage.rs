//! A person's home, a repository with two worktrees, and a process of the same user that must be left alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A user who owns nothing of the system.
pub(crate) const NOBODY: u32 = 65_534;

/// How long a stage may take to stand.
const PATIENCE: Duration = Duration::from_secs(30);

const PYTHON: &str = "/usr/bin/python3";

/// Files of the stage, each with what it holds.
const FILES: [(&str, &str); 8] = [
    ("home/.ssh/id", "SECRET-OF-ssh"),
    ("home/.aws/credentials", "SECRET-OF-aws"),
    ("home/.cargo/credentials.toml", "SECRET-OF-cargo"),
    ("home/.bashrc", "alias x=y"),
    ("home/removable", "x"),
    ("repo/file.txt", "SECRET-OF-checkout"),
    ("repo/.ftl/store/ftl.db", "SECRET-OF-store"),
    ("repo/.ftl/config.toml", ""),
];

/// What stands before an attack, and is looked at after it.
pub(crate) struct Stage {
    folder: TempDir,
    user: u32,
}

/// A process that is ended when it is dropped.
pub(crate) struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// A stage that belongs to a user.
    pub(crate) fn new(user: u32) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Stage { folder, user };
        git(&stage.at(""), &["init", "-q", "-b", "main", "repo"]);
        for (path, text) in FILES {
            fs::create_dir_all(stage.at(path).parent().unwrap()).unwrap();
            fs::write(stage.at(path), text).unwrap();
        }
        fs::set_permissions(stage.at("home/.ssh/id"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir_all(stage.at("home/attempts")).unwrap();
        let repo = stage.at("repo");
        git(&repo, &["add", "file.txt"]);
        git(&repo, &["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x"]);
        for name in ["a", "b"] {
            git(&repo, &["worktree", "add", "-q", "--detach", &format!(".ftl/worktrees/{name}")]);
        }
        for (from, to) in [("attacks/attacks.py", "attacks.py"), ("attacks/victim.py", "victim.py")] {
            fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(from), stage.at(to)).unwrap();
        }
        for (program, to) in
            [(env!("CARGO_BIN_EXE_ftl-boxed"), "boxed"), (env!("CARGO_BIN_EXE_ftl-guard"), "guard")]
        {
            fs::copy(program, stage.at(to)).unwrap();
        }
        stage.give(&stage.at(""));
        stage
    }

    /// A path of the stage.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The worktree of whoever is held.
    pub(crate) fn work(&self) -> PathBuf {
        self.at("repo/.ftl/worktrees/a")
    }

    /// Gives everything below a path to the user of the stage.
    pub(crate) fn give(&self, path: &Path) {
        if self.user == 0 {
            return;
        }
        chown(path, Some(self.user), Some(self.user)).unwrap();
        if fs::symlink_metadata(path).unwrap().is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| self.give(&entry.unwrap().path()));
        }
    }

    /// A command of the user of the stage.
    fn command(&self, program: &Path) -> Command {
        let mut command = match self.user {
            0 => Command::new(program),
            user => {
                let mut command = Command::new("setpriv");
                let user = user.to_string();
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(program);
                command
            }
        };
        command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", self.at("home"));
        command
    }

    /// Starts who must be left alone, and what he tells of himself.
    pub(crate) fn victim(&self) -> (Victim, String) {
        let mut command = self.command(Path::new(PYTHON));
        command.arg(self.at("victim.py")).arg(self.at("")).env("KEY", "SECRET-OF-environment");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let victim = Victim(command.spawn().unwrap());
        let began = Instant::now();
        loop {
            if let Ok(told) = fs::read_to_string(self.at("victim.json")) {
                return (victim, told);
            }
            assert!(began.elapsed() < PATIENCE, "the victim does not stand");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a command in a sandbox of a level, in the worktree.
    pub(crate) fn boxed(&self, level: &str, program: &str, words: &[&str]) -> Output {
        self.command_in(level, program, words).output().unwrap()
    }

    /// What runs a command in a sandbox of a level, in the worktree.
    pub(crate) fn command_in(&self, level: &str, program: &str, words: &[&str]) -> Command {
        let mut command = self.command(&self.at("boxed"));
        command.arg(self.at("guard")).arg(level).arg(self.at("repo")).arg(self.work());
        command.arg(self.at("home/attempts")).arg("--").arg(program).args(words);
        command
    }

    /// Runs a script in a sandbox of a level, and hands on what it printed when it ended well.
    pub(crate) fn script(&self, level: &str, script: &str) -> String {
        let ended = self.boxed(level, "sh", &["-ec", script]);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{level}: {script}\n{said}");
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Runs every attack at a level: what each got, or why it got nothing.
    pub(crate) fn attack(&self, level: &str) -> BTreeMap<String, Result<String, String>> {
        let (_victim, told) = self.victim();
        let script = self.work().join("attacks.py");
        fs::copy(self.at("attacks.py"), &script).unwrap();
        self.give(&script);
        let stage = self.at("").display().to_string();
        let ended =
            self.boxed(level, PYTHON, &[&script.display().to_string(), stage.trim_end_matches('/'), &told]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{level}: {said}");
        let line = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| line[key].as_str().map(str::to_owned);
            let got = text("got").ok_or_else(|| text("why").unwrap_or_default());
            (text("attack").unwrap(), got)
        };
        String::from_utf8(ended.stdout).unwrap().lines().map(line).collect()
    }

    /// Everything outside of the worktree that an attack could have changed: content, mode, time.
    pub(crate) fn world(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64)> {
        let mut all = BTreeMap::new();
        for folder in ["home", "repo/.git", "repo/.ftl/store", "repo/.ftl/worktrees/b"] {
            walk(&self.at(folder), &mut all);
        }
        for file in ["repo/file.txt", "repo/.ftl/config.toml", "repo/.ftl/worktrees/a/.git"] {
            walk(&self.at(file), &mut all);
        }
        let ours = [self.at("home/attempts"), self.at("repo/.ftl/store/git")];
        all.retain(|path, _| !ours.iter().any(|ours| path.starts_with(ours)));
        all
    }

    /// Who came to the victim.
    pub(crate) fn visitors(&self) -> String {
        fs::read_to_string(self.at("came.txt")).unwrap_or_default()
    }
}

fn walk(path: &Path, all: &mut BTreeMap<PathBuf, (Vec<u8>, u32, i64)>) {
    let Ok(seen) = fs::symlink_metadata(path) else { return };
    if seen.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), all));
        return;
    }
    all.insert(path.to_owned(), (fs::read(path).unwrap_or_default(), seen.mode(), seen.mtime()));
}

fn git(folder: &Path, words: &[&str]) {
    let ended = Command::new("git").current_dir(folder).args(words).output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
}
