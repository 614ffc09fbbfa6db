//! What a guard and the sandbox that it starts say to each other: one plan in memory, then a line for each thing that
//! happens.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use super::rules::Sandbox;
use crate::lines::Lines;
use crate::{How, Mark};

/// How much a plan may be.
const MAX_PLAN_BYTES: u64 = 32 * 1024 * 1024;

/// Everything that is run in a sandbox, and the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) sandbox: Sandbox,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) folder: OsString,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) mark: Mark,
}

/// What a sandbox tells its guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// The command runs.
    Started,
    /// It does not, and why.
    Failed(String),
    /// It has ended; what it has left may still run.
    Ended(How),
}

/// The descriptors of a plan, for the program that carries it out: it inherits both.
#[derive(Debug)]
pub(crate) struct Handed {
    plan: OwnedFd,
    tell: OwnedFd,
}

/// What a sandbox tells, as it comes.
#[derive(Debug)]
pub(crate) struct Telling {
    pipe: PipeReader,
    lines: Lines,
}

impl Plan {
    /// Puts the plan where the next program finds it, with a pipe to tell by.
    pub(crate) fn hand(&self) -> io::Result<(Handed, Telling)> {
        let plan = memfd_create("ftl", MemfdFlags::CLOEXEC)?;
        File::from(plan.try_clone()?).write_all(&serde_json::to_vec(self)?)?;
        let (pipe, tell) = io::pipe()?;
        Ok((Handed { plan, tell: tell.into() }, Telling { pipe, lines: Lines::default() }))
    }

    /// Reads a plan.
    pub(super) fn read(file: &File) -> io::Result<Plan> {
        let mut text = Vec::new();
        file.take(MAX_PLAN_BYTES).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

impl Handed {
    /// Has a program inherit the descriptors, and names their numbers to it.
    pub(crate) fn pass(&self, command: &mut Command) -> io::Result<()> {
        for fd in [&self.plan, &self.tell] {
            fcntl_setfd(fd, FdFlags::empty())?;
            command.arg(fd.as_raw_fd().to_string());
        }
        Ok(())
    }
}

impl Telling {
    /// What to wait for.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// The next thing that was told, waiting for it; nothing when nobody can tell any more.
    pub(crate) fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(line) = self.lines.next() {
                return serde_json::from_slice(&line).ok();
            }
            let mut piece = [0; 4096];
            let count = self.pipe.read(&mut piece).ok().filter(|count| *count > 0)?;
            self.lines.add(&piece[..count]).ok()?;
        }
    }
}

/// Takes what an inherited number stands for, so that no program that is started has it too.
pub(super) fn take(number: &str, to_write: bool) -> io::Result<File> {
    let raw: i32 = number.parse().map_err(io::Error::other)?;
    if raw <= 2 {
        return Err(io::Error::other("a sandbox is started by ftl alone"));
    }
    let path = Path::new("/proc/self/fd").join(number);
    let file = File::options().read(!to_write).write(to_write).open(path)?;
    nix::unistd::close(raw)?;
    Ok(file)
}

/// Names a file to the next program, which inherits it.
pub(super) fn pass(file: &File) -> io::Result<String> {
    fcntl_setfd(file, FdFlags::empty())?;
    Ok(file.as_raw_fd().to_string())
}

/// Tells a guard something; one that is gone hears nothing.
pub(super) fn tell(mut to: &File, what: &Told) {
    if let Ok(mut line) = serde_json::to_vec(what) {
        line.push(b'\n');
        let _ = to.write_all(&line);
    }
}
