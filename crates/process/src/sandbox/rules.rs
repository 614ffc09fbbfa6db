//! What one sandbox is, as data: what may be read and written in it, and what leads out of it.
//!
//! Rules can be printed, compared and sent to another process. Nothing here looks at the machine.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How much holds a command back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Nothing but the guard.
    None,
    /// Landlock and seccomp, in the namespaces of the machine.
    Partial,
    /// Namespaces, Landlock and seccomp.
    Full,
}

impl SandboxLevel {
    /// Every level, the weakest first.
    pub const ALL: [SandboxLevel; 3] = [SandboxLevel::None, SandboxLevel::Partial, SandboxLevel::Full];

    /// The word in settings and reports.
    pub const fn word(self) -> &'static str {
        match self {
            SandboxLevel::None => "none",
            SandboxLevel::Partial => "partial",
            SandboxLevel::Full => "full",
        }
    }

    /// The level of a word.
    pub fn parse(word: &str) -> Option<SandboxLevel> {
        SandboxLevel::ALL.into_iter().find(|level| level.word() == word)
    }

    /// The layers that it stands on, as reports name them.
    pub const fn layers(self) -> &'static [&'static str] {
        match self {
            SandboxLevel::None => &[],
            SandboxLevel::Partial => &["landlock", "seccomp"],
            SandboxLevel::Full => &["namespaces", "landlock", "seccomp"],
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// What is around a command: a level and the rules that hold at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// How much holds it back.
    pub level: SandboxLevel,
    /// What its role may touch.
    pub rules: SandboxRules,
    /// What this one program needs beside.
    pub reach: Reach,
    /// How much of the machine it may take.
    pub share: Share,
}

impl Sandbox {
    /// The level as reports name it: a login that is visible inside is said.
    pub fn describe(&self) -> String {
        describe(self.level, self.reach.login)
    }
}

/// A level as reports name it.
pub fn describe(level: SandboxLevel, login: bool) -> String {
    if login && level == SandboxLevel::Full { format!("{level}, login visible") } else { level.to_string() }
}

/// What a role may touch. A path stands where it stands outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRules {
    /// Files and folders that can be read and run.
    #[serde(with = "paths")]
    pub read: Vec<PathBuf>,
    /// Files and folders that can be written.
    #[serde(with = "paths")]
    pub write: Vec<PathBuf>,
    /// Folders of this place that are there, empty and private, and gone afterwards.
    #[serde(with = "paths")]
    pub private: Vec<PathBuf>,
    /// Folders that can be read, and written for as long as the command runs.
    #[serde(with = "paths")]
    pub caches: Vec<PathBuf>,
    /// Folders that are empty although a folder above can be read.
    #[serde(with = "paths")]
    pub hide: Vec<PathBuf>,
    /// Files and folders that stand at another place inside.
    pub binds: Vec<BindMount>,
    /// Whether it shares the machine's network.
    pub open_network: bool,
}

/// What one program needs beside the rules of its role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Files and folders that can be read; those that are not there are left out.
    #[serde(with = "paths")]
    pub read: Vec<PathBuf>,
    /// Files and folders that can be written; those that are not there are left out.
    #[serde(with = "paths")]
    pub write: Vec<PathBuf>,
    /// Files and folders that stand at another place inside, such as the files of a login.
    pub binds: Vec<BindMount>,
    /// Sockets of the machine that are there inside.
    pub sockets: Vec<SocketBind>,
    /// Ports of the own loopback that lead to a socket.
    pub relays: Vec<Relay>,
    /// Ports of the machine's loopback that may be connected to where there is no network of its own.
    pub connect: Vec<u16>,
    /// Variables that are set, or taken away.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Whether the files of a login are visible.
    pub login: bool,
}

/// Something that stands at another place inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindMount {
    /// What it is outside.
    #[serde(with = "path")]
    pub from: PathBuf,
    /// Where it stands inside.
    #[serde(with = "path")]
    pub to: PathBuf,
    /// Whether it can be written.
    pub writable: bool,
}

/// A socket of the machine that is there inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketBind {
    /// Where it is.
    #[serde(with = "path")]
    pub outside: PathBuf,
    /// Where it stands inside.
    #[serde(with = "path")]
    pub inside: PathBuf,
}

/// A port of the loopback inside that leads to a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// The port of 127.0.0.1.
    pub port: u16,
    /// The socket, as it is called inside.
    #[serde(with = "path")]
    pub socket: PathBuf,
}

/// How much of the machine an attempt may take; nothing where it is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Bytes of memory of all its processes together.
    pub memory: Option<u64>,
    /// How many processes and threads.
    pub processes: Option<u64>,
}

impl SandboxRules {
    /// The rules and what one program needs beside, as one.
    pub fn joined(&self, reach: &Reach) -> SandboxRules {
        let mut all = self.clone();
        all.read.extend(reach.read.iter().cloned());
        all.write.extend(reach.write.iter().cloned());
        all.binds.extend(reach.binds.iter().cloned());
        let sockets = reach.sockets.iter();
        all.binds.extend(sockets.map(|one| BindMount {
            from: one.outside.clone(),
            to: one.inside.clone(),
            writable: true,
        }));
        all
    }
}

/// Something that was denied, with the setting that would grant it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What was tried.
    pub what: String,
    /// The key of the settings.
    pub key: &'static str,
}

impl fmt::Display for Denial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "denied: {} (grant: [sandbox] {})", self.what, self.key)
    }
}

/// Whether a path lies in one of these folders or is one of them.
pub(super) fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// Paths as the bytes that they are: serde's own form of them refuses what is no UTF-8.
mod path {
    use super::{OsString, Path, PathBuf};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(PathBuf::from(OsString::deserialize(from)?))
    }
}

/// The same for many.
mod paths {
    use super::{OsString, PathBuf};
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| path.as_os_str()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<OsString>::deserialize(from)?.into_iter().map(PathBuf::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn rules_go_over_a_wire_whatever_the_bytes_of_their_paths() {
        let odd = PathBuf::from(OsString::from_vec(vec![b'/', 0xff, b'\n']));
        let bind = BindMount { from: odd.clone(), to: "/x".into(), writable: true };
        let rules = SandboxRules { read: vec![odd.clone()], binds: vec![bind], ..SandboxRules::default() };
        let (reach, share) = (Reach { write: vec![odd], ..Reach::default() }, Share::default());
        let sandbox = Sandbox { level: SandboxLevel::Full, rules, reach, share };
        let text = serde_json::to_string(&sandbox).unwrap();
        assert_eq!(serde_json::from_str::<Sandbox>(&text).unwrap(), sandbox);
    }

    #[test]
    fn a_visible_login_is_said() {
        assert_eq!(describe(SandboxLevel::Full, true), "full, login visible");
        assert_eq!(describe(SandboxLevel::Full, false), "full");
        assert_eq!(describe(SandboxLevel::Partial, true), "partial");
        assert!(SandboxLevel::ALL.iter().all(|level| SandboxLevel::parse(level.word()) == Some(*level)));
        assert_eq!(SandboxLevel::parse("fully"), None);
    }
}
