//! Faults of the machine for a program that was not built for them.
//!
//! A small library in C stands between a process and libc: it counts the calls that change files in a
//! place, and lets one of them go wrong, or every one from there on; and it moves the wall clock. Only
//! the process that is started has faults, never its children. It needs a C compiler, which the
//! bundled SQLite needs as well, and Linux. It must never be part of the product.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, io};

/// The library that is loaded between a process and libc.
const SOURCE: &str = include_str!("../faults/shim.c");

/// A call that changes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opening a file that exists, for writing.
    Open,
    /// Opening a file that is made by it.
    Create,
    /// Making a folder.
    Folder,
    /// Writing bytes.
    Write,
    /// `fsync` and `fdatasync`.
    Sync,
    /// Changing the length of a file.
    Truncate,
    /// Renaming.
    Rename,
    /// Removing a file.
    Unlink,
}

impl Call {
    /// Every call that is counted.
    pub const ALL: [Call; 8] = [
        Call::Open,
        Call::Create,
        Call::Folder,
        Call::Write,
        Call::Sync,
        Call::Truncate,
        Call::Rename,
        Call::Unlink,
    ];

    /// The calls that need room on the disk.
    pub const NEED_ROOM: [Call; 3] = [Call::Create, Call::Folder, Call::Write];

    fn letter(self) -> char {
        match self {
            Call::Open => 'o',
            Call::Create => 'c',
            Call::Folder => 'm',
            Call::Write => 'w',
            Call::Sync => 's',
            Call::Truncate => 't',
            Call::Rename => 'r',
            Call::Unlink => 'u',
        }
    }
}

/// An error of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The disk failed: `EIO`.
    Io,
    /// No room is left: `ENOSPC`.
    Full,
    /// Nothing may be written: `EROFS`.
    ReadOnly,
}

impl InjectedFault {
    fn number(self) -> i32 {
        match self {
            InjectedFault::Io => 5,
            InjectedFault::Full => 28,
            InjectedFault::ReadOnly => 30,
        }
    }
}

/// The outcome that a call is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is killed before it.
    KilledBefore,
    /// The process is killed after it, before it hears of its success.
    KilledAfter,
    /// Half of the bytes are written, then the process is killed; other calls are not made at all.
    Torn,
    /// The call fails with this error; the next ones do not.
    Once(InjectedFault),
    /// It fails, and so does every one that follows.
    FromNowOn(InjectedFault),
}

/// The faults of one process.
#[derive(Clone, Debug)]
pub struct Faults {
    path: String,
    except: Option<String>,
    calls: Vec<Call>,
    fault: Option<(u64, Fault)>,
    count: Option<PathBuf>,
    clock: Option<(i64, u64)>,
    is_raw: bool,
}

impl Faults {
    /// No faults yet, for files whose path contains a text.
    pub fn of(path: &str) -> Faults {
        let calls = Call::ALL.to_vec();
        let (except, fault, count, clock) = (None, None, None, None);
        Faults { path: path.to_owned(), except, calls, fault, count, clock, is_raw: false }
    }

    /// The same without files whose path contains this as well.
    #[must_use]
    pub fn except(self, path: &str) -> Faults {
        Faults { except: Some(path.to_owned()), ..self }
    }

    /// The same; only these calls count.
    #[must_use]
    pub fn only(self, calls: &[Call]) -> Faults {
        Faults { calls: calls.to_vec(), ..self }
    }

    /// The same; the call of that number, from 1, comes to this.
    #[must_use]
    pub fn at(self, number: u64, fault: Fault) -> Faults {
        Faults { fault: Some((number, fault)), ..self }
    }

    /// The same; the number of calls stands in that file at any time. `counted` reads it.
    #[must_use]
    pub fn counting(self, file: &Path) -> Faults {
        Faults { count: Some(file.to_owned()), ..self }
    }

    /// The same; renames, new folders and removals count also where the program makes them without libc. Its
    /// children must change no files.
    #[must_use]
    pub fn raw(self) -> Faults {
        Faults { is_raw: true, ..self }
    }

    /// The same; the wall clock is off by so many milliseconds once so many calls were made. The
    /// monotonic clock is left alone.
    #[must_use]
    pub fn clock(self, millis: i64, after: u64) -> Faults {
        Faults { clock: Some((millis, after)), ..self }
    }

    /// Gives a command these faults.
    pub fn on(&self, command: &mut Command) -> io::Result<()> {
        command.env("LD_PRELOAD", shim()?).env("FTL_FAULT_PATH", &self.path);
        command.env("FTL_FAULT_CALLS", self.calls.iter().map(|call| call.letter()).collect::<String>());
        if let Some(path) = &self.except {
            command.env("FTL_FAULT_EXCEPT", path);
        }
        if let Some((number, fault)) = self.fault {
            let (how, trouble) = match fault {
                Fault::KilledBefore => ("before", None),
                Fault::KilledAfter => ("after", None),
                Fault::Torn => ("torn", None),
                Fault::Once(trouble) => ("once", Some(trouble)),
                Fault::FromNowOn(trouble) => ("on", Some(trouble)),
            };
            command.env("FTL_FAULT_AT", number.to_string()).env("FTL_FAULT_HOW", how);
            if let Some(trouble) = trouble {
                command.env("FTL_FAULT_ERRNO", trouble.number().to_string());
            }
        }
        if self.is_raw {
            command.env("FTL_FAULT_RAW", "1");
        }
        if let Some(file) = &self.count {
            command.env("FTL_FAULT_COUNT", file);
        }
        if let Some((millis, after)) = self.clock {
            command.env("FTL_FAULT_CLOCK", millis.to_string());
            command.env("FTL_FAULT_CLOCK_AT", after.to_string());
        }
        Ok(())
    }
}

/// How many calls a process made whose faults count into that file.
pub fn counted(file: &Path) -> io::Result<u64> {
    let bytes = fs::read(file)?;
    let count =
        bytes.try_into().map_err(|_| io::Error::other("the file of the count has not eight bytes"))?;
    Ok(u64::from_ne_bytes(count))
}

/// The library, compiled once. It lies beside the program that asks and is called by the digest of its
/// source, so that the next process finds it ready.
fn shim() -> io::Result<&'static Path> {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(ready) = SHIM.get() {
        return Ok(ready);
    }
    let mut digest = DefaultHasher::new();
    SOURCE.hash(&mut digest);
    let program = env::current_exe()?;
    let folder = program.parent().ok_or_else(|| io::Error::other("this program lies nowhere"))?;
    let library = folder.join(format!("ftl-faults-{:016x}.so", digest.finish()));
    if !library.exists() {
        compile(folder, &library)?;
    }
    Ok(SHIM.get_or_init(|| library))
}

fn compile(folder: &Path, library: &Path) -> io::Result<()> {
    let work = tempfile::tempdir_in(folder)?;
    let (source, made) = (work.path().join("shim.c"), work.path().join("shim.so"));
    fs::write(&source, SOURCE)?;
    let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&made).arg(&source);
    let output = cc.output().map_err(|error| {
        let message = format!("the C compiler {cc:?} cannot be started, and faults need one: {error}");
        io::Error::new(error.kind(), message)
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("the faults do not compile: {said}")));
    }
    // A test that was faster made the same.
    fs::rename(made, library)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    /// A shell that writes three lines to a file in a marked folder.
    fn writer(folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("for i in 1 2 3; do echo line $i || exit 7; done >marked/file; cat marked/file");
        fs::create_dir_all(folder.join("marked")).unwrap();
        command.current_dir(folder);
        command
    }

    fn lines(folder: &Path) -> usize {
        fs::read_to_string(folder.join("marked/file")).unwrap().lines().count()
    }

    #[test]
    fn calls_are_counted_and_children_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let faults = Faults::of("marked/").counting(&count);
        let mut command = writer(folder.path());
        faults.on(&mut command).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(counted(&count).unwrap(), 4, "one open that creates, three writes");
        let mut shell = Command::new("sh");
        shell.args(["-c", "env | grep -c -e LD_PRELOAD -e FTL_FAULT"]);
        Faults::of("x").on(&mut shell).unwrap();
        assert_eq!(String::from_utf8(shell.output().unwrap().stdout).unwrap(), "0\n");
    }

    #[test]
    fn a_call_is_killed_before_or_after_or_in_the_middle() {
        for (fault, lines_left, bytes) in
            [(Fault::KilledBefore, 1, 7), (Fault::KilledAfter, 2, 14), (Fault::Torn, 2, 10)]
        {
            let folder = tempfile::tempdir().unwrap();
            let mut command = writer(folder.path());
            Faults::of("marked/").only(&[Call::Write]).at(2, fault).on(&mut command).unwrap();
            assert_eq!(command.output().unwrap().status.signal(), Some(9), "{fault:?}");
            assert_eq!(lines(folder.path()), lines_left, "{fault:?}");
            assert_eq!(fs::read(folder.path().join("marked/file")).unwrap().len(), bytes, "{fault:?}");
        }
    }

    #[test]
    fn a_call_fails_once_or_from_then_on() {
        for (fault, told) in [
            (Fault::Once(InjectedFault::Full), "No space left on device"),
            (Fault::FromNowOn(InjectedFault::Io), "Input/output error"),
            (Fault::FromNowOn(InjectedFault::ReadOnly), "Read-only file system"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("marked");
            let mut command = Command::new("dd");
            command.args(["if=/dev/zero", "bs=4", "count=3"]).arg(format!("of={}", file.display()));
            Faults::of("marked").only(&[Call::Write]).at(2, fault).on(&mut command).unwrap();
            let output = command.env("LC_ALL", "C").output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && said.contains(told), "{said}");
            assert_eq!(fs::read(&file).unwrap().len(), 4);
        }
    }

    #[test]
    fn the_wall_is_moved() {
        let year = |faults: Option<Faults>| {
            let mut date = Command::new("date");
            date.args(["-u", "+%s"]);
            faults.map(|faults| faults.on(&mut date)).transpose().unwrap();
            let text = String::from_utf8(date.output().unwrap().stdout).unwrap();
            text.trim().parse::<i64>().unwrap()
        };
        let now = year(None);
        for days in [-1, 3650] {
            let moved = year(Some(Faults::of("x").clock(days * 86_400_000 + 500, 0)));
            assert!((moved - now - days * 86_400).abs() < 60, "{moved} {now}");
        }
        assert!((year(Some(Faults::of("x").clock(-86_400_000, 9))) - now).abs() < 60, "not yet");
    }
}
