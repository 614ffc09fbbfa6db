//! `/proc`, opened so that no process inside it can lie: the file system itself at its top, and nothing mounted
//! over what is read.
//!
//! In a user namespace of its own a process may mount what it likes over `/proc` or over a file in it. Who
//! must know where it stands reads through here; an error means that nothing is known. Nothing here decides
//! what follows from it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::fs::{
    CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat, openat2, readlinkat,
};
use serde::{Deserialize, Serialize};

use super::table::{self, Identity, ProcessRow};

/// The number of the top folder of every procfs.
const TOP: u64 = 1;

/// How much is read of one file.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The namespaces that tell where a process stands: numbers and times mean nothing outside of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// That of its process number, as the kernel names it: `pid:[4026531836]`.
    pub pid: String,
    /// That of its start, where the kernel has such.
    #[serde(default)]
    pub time: Option<String>,
}

impl Namespaces {
    /// The namespaces of this process.
    pub fn own() -> io::Result<Namespaces> {
        let proc = ProcFs::open()?;
        proc.namespaces(proc.own_pid()?)
    }
}

/// The file system of processes.
#[derive(Debug)]
pub struct ProcFs {
    top: OwnedFd,
}

impl ProcFs {
    /// Opens what is at `/proc`. Whatever is no procfs is refused.
    pub fn open() -> io::Result<ProcFs> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(CWD, "/proc", flags, Mode::empty())?;
        if fstatfs(&top)?.f_type != PROC_SUPER_MAGIC || fstat(&top)?.st_ino != TOP {
            return Err(io::Error::other("what stands at /proc is not the file system of processes"));
        }
        Ok(ProcFs { top })
    }

    /// The number of this process as this file system shows it, which is not the one that the process knows
    /// itself by where the file system belongs to another namespace.
    pub fn own_pid(&self) -> io::Result<i32> {
        let link = self.link("self")?;
        let number = link.to_str().and_then(|text| text.parse().ok());
        number.ok_or_else(|| io::Error::other("/proc does not show this process"))
    }

    /// The row of a process, if it is there and can be seen.
    pub fn entry(&self, pid: i32) -> io::Result<Option<ProcessRow>> {
        match self.read(&format!("{pid}/stat")) {
            Ok(line) => Ok(table::parse(&line)),
            Err(error) if table::is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The namespaces of a process, if we may look.
    pub fn namespaces(&self, pid: i32) -> io::Result<Namespaces> {
        let name = |kind: &str| Ok(self.link(&format!("{pid}/ns/{kind}"))?.to_string_lossy().into_owned());
        let time = match name("time") {
            Ok(time) => Some(time),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Namespaces { pid: name("pid")?, time })
    }

    /// The numbers of a process: the one that this file system shows first, the one that it knows itself by
    /// last. One alone says that both are of the same namespace.
    pub fn numbers(&self, pid: i32) -> io::Result<Vec<i32>> {
        let status = self.read(&format!("{pid}/status"))?;
        let text = String::from_utf8_lossy(&status);
        let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let line = line.ok_or_else(|| io::Error::other("/proc does not tell of namespaces"))?;
        Ok(line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Whether a process of a namespace below ours can be seen, by the number that it knows itself by and its
    /// start.
    pub fn shows_below(&self, who: Identity) -> io::Result<bool> {
        for folder in std::fs::read_dir("/proc")? {
            let Some(pid) = folder?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let begun = self.entry(pid)?.is_some_and(|entry| entry.start == who.start && entry.is_alive());
            if begun && self.numbers(pid).is_ok_and(|all| all.len() > 1 && all.last() == Some(&who.pid)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A file below the top, whole.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let file = File::from(self.open_below(path, OFlags::RDONLY)?);
        file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Where a link below the top leads.
    pub fn link(&self, path: &str) -> io::Result<PathBuf> {
        let link = self.open_below(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let text = readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(text.into_bytes())))
    }

    /// Opens a path without leaving the file system. A kernel that cannot promise that opens it as it is.
    fn open_below(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let (mode, resolve) = (Mode::empty(), ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS);
        match openat2(&self.top, path, flags, mode, resolve) {
            Err(rustix::io::Errno::NOSYS) => Ok(openat(&self.top, path, flags, mode)?),
            opened => Ok(opened?),
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_shown_once_and_where_it_stands() {
        let proc = ProcFs::open().unwrap();
        let own = proc.own_pid().unwrap();
        assert_eq!(u32::try_from(own).unwrap(), std::process::id());
        assert_eq!(proc.numbers(own).unwrap(), [own]);
        assert_eq!(proc.entry(own).unwrap().map(|entry| entry.identity()), Identity::own());
        assert_eq!(proc.entry(i32::MAX).unwrap(), None);
        let seen = Namespaces::own().unwrap();
        assert_eq!(seen.pid, std::fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy());
        assert!(!proc.shows_below(Identity::own().unwrap()).unwrap(), "we are not below ourselves");
    }
}
