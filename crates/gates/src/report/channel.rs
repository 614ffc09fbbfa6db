//! The channel of a report: a folder of our own with the file that runners write into, the hooks that they load, and the
//! variables that lead them there.
//!
//! A command is not read to find out which runner it starts: each runner has a door that works behind `make` and scripts
//! as well. Whatever a variable held before stands beside it as `FTL_REPORT_<NAME>`; a hook puts that back, and takes the
//! name of the file out of the environment, before anything of the project is loaded.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::home::give_home;

use super::{MAX_REPORT_BYTES, TestReport, read};
use ftl_folder as folder;
use ftl_folder::scratch::{Purpose, Scratch};

/// The variable that names the file.
const FILE: &str = "FTL_REPORT";

/// The hooks, as they lie in the folder; those that are programs.
const HOOKS: [(&str, &str, bool); 8] = [
    ("_ftl_report.py", include_str!("hooks/_ftl_report.py"), false),
    ("sitecustomize.py", include_str!("hooks/sitecustomize.py"), false),
    ("preload.cjs", include_str!("hooks/preload.cjs"), false),
    ("node_reporter.mjs", include_str!("hooks/node_reporter.mjs"), false),
    ("jest_results.cjs", include_str!("hooks/jest_results.cjs"), false),
    ("vitest_reporter.mjs", include_str!("hooks/vitest_reporter.mjs"), false),
    ("rust_runner", include_str!("hooks/rust_runner.sh"), true),
    ("go_runner", include_str!("hooks/go_runner.sh"), true),
];

/// The files in which a project may name a runner of its own for the programs that cargo makes.
const CARGO_SETTINGS: [&str; 2] = [".cargo/config.toml", ".cargo/config"];

/// The longest such file that is read.
const MAX_SETTINGS_BYTES: u64 = 1024 * 1024;

/// A channel for one run of a command. Its folder goes away with it.
pub(crate) struct Channel {
    scratch: Scratch,
    file: PathBuf,
}

impl Channel {
    /// Makes the folder, the hooks and an empty file with a name that nobody can guess.
    pub(crate) fn open() -> io::Result<Channel> {
        let scratch = Scratch::make(Purpose::Report)?;
        for (name, text, is_program) in HOOKS {
            let file = scratch.path().join(name);
            folder::write(&file, text.as_bytes())?;
            if is_program {
                let made = folder::NameIn::at(&file)?.pin()?;
                folder::set_mode(&made, 0o755)?;
            }
        }
        let file = scratch.path().join(format!("{:016x}", folder::id::random()?));
        folder::write(&file, b"")?;
        Ok(Channel { scratch, file })
    }

    /// The folder, which the command must be able to read and write.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// An environment with the doors in it, and with a home where it has none.
    pub(crate) fn environment(
        &self,
        env: &[(OsString, OsString)],
        at: &Path,
    ) -> io::Result<Vec<(OsString, OsString)>> {
        let mut doors = Doors { env: env.to_vec() };
        give_home(&mut doors.env, self.folder())?;
        let hooks = self.folder();
        let with = |before: &str, name: &str| {
            let mut value = OsString::from(before);
            value.push(hooks.join(name));
            value
        };
        doors.add("PYTHONPATH", hooks.as_os_str(), Join::Before(":"));
        doors.add("PYTEST_PLUGINS", OsStr::new("_ftl_report"), Join::Before(","));
        // These are lists of words: a folder with a space in its name would be two of them.
        let is_word = !hooks.to_string_lossy().contains(char::is_whitespace);
        if is_word {
            doors.add("NODE_OPTIONS", &with("--require=", "preload.cjs"), Join::Before(" "));
        }
        if is_word && !doors.holds("GOFLAGS", "-exec") {
            doors.add("GOFLAGS", &with("-exec=", "go_runner"), Join::Behind(" "));
        }
        if is_word && !names_cargo_runner(at) {
            for system in ["GNU", "MUSL"] {
                let target = format!("{}_UNKNOWN_LINUX_{system}", std::env::consts::ARCH.to_uppercase());
                let name = format!("CARGO_TARGET_{target}_RUNNER");
                if doors.value(&name).is_none() {
                    doors.add(&name, hooks.join("rust_runner").as_os_str(), Join::Before(" "));
                }
            }
        }
        doors.env.push((FILE.into(), self.file.clone().into()));
        Ok(doors.env)
    }

    /// What runners have said.
    pub(crate) fn read(&self, at: &Path) -> Option<TestReport> {
        let bytes = folder::read(&self.file, MAX_REPORT_BYTES).ok()?;
        read(&String::from_utf8_lossy(&bytes), at)
    }
}

/// How a value is joined with the one that is there.
#[derive(Clone, Copy)]
enum Join {
    Before(&'static str),
    Behind(&'static str),
}

struct Doors {
    env: Vec<(OsString, OsString)>,
}

impl Doors {
    fn value(&self, name: &str) -> Option<&OsString> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn holds(&self, name: &str, part: &str) -> bool {
        self.value(name).is_some_and(|value| value.to_string_lossy().contains(part))
    }

    fn add(&mut self, name: &str, ours: &OsStr, join: Join) {
        let before = self.value(name).cloned().unwrap_or_default();
        self.env.retain(|(known, _)| known != name);
        let mut value = OsString::new();
        let parts = match join {
            Join::Before(apart) => [ours, OsStr::new(apart), &before],
            Join::Behind(apart) => [&before, OsStr::new(apart), ours],
        };
        match before.is_empty() {
            true => value.push(ours),
            false => parts.into_iter().for_each(|part| value.push(part)),
        }
        self.env.push((name.into(), value));
        self.env.push((format!("{FILE}_{name}").into(), before));
    }
}

/// Whether the project's own settings of cargo name a runner, which ours would take the place of.
fn names_cargo_runner(at: &Path) -> bool {
    CARGO_SETTINGS.iter().any(|name| {
        let text = folder::read_named_text(&at.join(name), MAX_SETTINGS_BYTES);
        text.is_ok_and(|text| text.contains("runner"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_keep_what_was_there_and_say_it_to_the_hooks() {
        let (channel, at) = (Channel::open().unwrap(), tempfile::tempdir().unwrap());
        let env = [("PYTHONPATH", "/a"), ("GOFLAGS", "-mod=mod"), ("X", "y")];
        let env: Vec<_> = env.map(|(name, value)| (name.into(), value.into())).into();
        let found = channel.environment(&env, at.path()).unwrap();
        let value = |name: &str| {
            found
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let hooks = channel.folder().display();
        assert_eq!(value("PYTHONPATH"), Some(format!("{hooks}:/a")));
        assert_eq!(value("FTL_REPORT_PYTHONPATH"), Some("/a".to_owned()));
        assert_eq!(value("GOFLAGS"), Some(format!("-mod=mod -exec={hooks}/go_runner")));
        assert_eq!(value("NODE_OPTIONS"), Some(format!("--require={hooks}/preload.cjs")));
        assert_eq!(
            (value("FTL_REPORT_NODE_OPTIONS"), value("X")),
            (Some(String::new()), Some("y".to_owned()))
        );
        assert!(found.iter().any(|(name, _)| name.to_string_lossy().starts_with("CARGO_TARGET_")));
    }

    #[test]
    fn a_runner_that_the_project_names_is_left_alone() {
        let (channel, at) = (Channel::open().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(at.path().join(".cargo")).unwrap();
        std::fs::write(at.path().join(".cargo/config.toml"), "[target.x]\nrunner = \"qemu\"\n").unwrap();
        let found = channel.environment(&[("GOFLAGS".into(), "-exec=x".into())], at.path()).unwrap();
        assert!(!found.iter().any(|(name, _)| name.to_string_lossy().starts_with("CARGO_TARGET_")));
        assert!(!found.iter().any(|(name, _)| name == "FTL_REPORT_GOFLAGS"));
    }
}
