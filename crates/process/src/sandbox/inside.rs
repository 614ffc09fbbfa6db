//! `ftl __sandbox`: the processes between a guard and the command that it runs.
//!
//! At level `full` there are two. The outer one enters namespaces of its own and waits; the inner one is the first
//! process in them, lays the root folder, gives up every privilege, holds itself to Landlock and seccomp, starts the
//! command and stays above it. At level `partial` there is one, and a thread of it is held. When the guard dies they
//! die, and with the inner one everything in its namespace, whatever it has done.
//!
//! Neither prints. What goes wrong before the command runs is told to the guard.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::process::{Signal, WaitOptions, getpid, set_parent_process_death_signal, setsid, wait};

use super::access::{self, Access};
use super::mounts::{Mount, Mounts};
use super::namespaces::User;
use super::plan::{Plan, Told, pass, take, tell};
use super::rules::{SandboxLevel, is_in};
use super::{LEVEL_VARIABLE, SANDBOX_WORD, calls, fill, namespaces};
use crate::signals::ignore_signals;
use crate::{How, relay};

/// The word of the inner process.
const INNER: &str = "inside";

/// What can be written whatever the rules say: devices.
const ALWAYS_WRITTEN: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Where processes share memory, in a root folder of our own.
const OWN_MEMORY: &str = "/dev/shm";

/// What can be read whatever the rules say: what the processes inside show of themselves.
const ALWAYS_READ: [&str; 1] = ["/proc"];

/// Does what a guard asks for, and gives the exit code. It never prints.
pub(crate) fn main() -> i32 {
    let words: Vec<String> =
        std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    let [plan, guard, rest @ ..] = words.as_slice() else { return 1 };
    let (Ok(file), Ok(guard)) = (take(plan, false), take(guard, true)) else { return 1 };
    let carried_out = Plan::read(&file).and_then(|plan| match (plan.sandbox.level, rest) {
        (SandboxLevel::Full, []) => outer(&plan, &file, &guard),
        (SandboxLevel::Full, [word, user, group]) if word == INNER => {
            let number = |text: &str| text.parse().map_err(io::Error::other);
            inner(&plan, &guard, User { user: number(user)?, group: number(group)? })
        }
        (SandboxLevel::Partial, []) => partial(&plan, &guard),
        (SandboxLevel::None | SandboxLevel::Partial | SandboxLevel::Full, _) => {
            Err(io::Error::other("no such sandbox"))
        }
    });
    match carried_out {
        Ok(code) => code,
        Err(error) => {
            tell(&guard, &Told::Failed(error.to_string()));
            1
        }
    }
}

/// Enters namespaces and starts the inner process, which is the first one in them.
fn outer(plan: &Plan, file: &File, guard: &File) -> io::Result<i32> {
    die_with_parent()?;
    ignore_signals()?;
    let own = User::own();
    // The inner process lays a root folder in the namespace of both: no path is sure any more once it runs.
    let null = open_null()?;
    namespaces::enter(plan.sandbox.rules.open_network)
        .map_err(|error| explain("namespaces of its own", &error))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ftl").arg(SANDBOX_WORD).args([pass(file)?, pass(guard)?]).arg(INNER);
    command.args([own.user.to_string(), own.group.to_string()]);
    let mut child = command.spawn()?;
    drop_streams(&null)?;
    Ok(child.wait()?.code().unwrap_or(1))
}

fn inner(plan: &Plan, guard: &File, own: User) -> io::Result<i32> {
    die_with_parent()?;
    ignore_signals()?;
    setsid()?;
    let reach = &plan.sandbox.reach;
    let rules = plan.sandbox.rules.joined(reach);
    let mounts = Mounts::of(&rules);
    if !rules.open_network {
        namespaces::raise_loopback().map_err(|error| explain("a loopback of its own", &error))?;
    }
    fill::lay(&mounts).map_err(|error| explain("a root folder of its own", &error))?;
    namespaces::turn_back(own).map_err(|error| explain("the own number", &error))?;
    namespaces::give_up().map_err(|error| explain("giving up privileges", &error))?;
    // The kernel forgets it where rights change.
    die_with_parent()?;
    access::restrict(&access_of(&mounts)).map_err(|error| explain("Landlock", &error))?;
    calls::restrict(true).map_err(|error| explain("seccomp", &error))?;
    for one in &reach.relays {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, one.port));
        listener
            .and_then(|listener| relay::start(listener, one.socket.clone()))
            .map_err(|error| explain("a relay", &error))?;
    }
    let child = command(plan, &[])?.process_group(0).spawn().map_err(|error| cannot(plan, &error))?;
    tell(guard, &Told::Started);
    drop_streams(&open_null()?)?;
    Ok(stay(&child, guard))
}

/// What Landlock holds in a root folder of our own: the same as is mounted, once more.
fn access_of(mounts: &Mounts) -> Access {
    let mut access = Access { lists_all: true, ..Access::default() };
    access.write.push(PathBuf::from(OWN_MEMORY));
    access.read.extend(ALWAYS_READ.map(PathBuf::from));
    access.write.extend(ALWAYS_WRITTEN.map(PathBuf::from));
    for (at, mount) in &mounts.0 {
        match mount {
            Mount::Link(_) | Mount::Empty => {}
            Mount::Mask { .. } | Mount::Read(_) => access.read.push(at.clone()),
            Mount::Private | Mount::Cache(_) | Mount::Write(_) => access.write.push(at.clone()),
        }
    }
    access
}

/// Holds a thread to what is allowed, and starts the command from it: so what is to be cleared away afterwards can be.
fn partial(plan: &Plan, guard: &File) -> io::Result<i32> {
    die_with_parent()?;
    ignore_signals()?;
    let (rules, reach) = (plan.sandbox.rules.joined(&plan.sandbox.reach), &plan.sandbox.reach);
    let room = Room::make()?;
    let real = |path: &PathBuf| fs::canonicalize(path).ok();
    let mut access = Access { connect: Some(reach.connect.clone()), ..Access::default() };
    access.read.extend(ALWAYS_READ.map(PathBuf::from));
    access.read.extend(rules.read.iter().chain(&rules.caches).filter_map(real));
    access.write.extend(ALWAYS_WRITTEN.map(PathBuf::from));
    access.write.extend(rules.write.iter().filter_map(real));
    access.write.push(room.0.clone());
    for bind in rules.binds.iter().filter(|bind| bind.from == bind.to) {
        let list = if bind.writable { &mut access.write } else { &mut access.read };
        list.extend(real(&bind.from));
    }
    let env = room.env(plan);
    let held = || {
        namespaces::give_up().map_err(|error| explain("giving up privileges", &error))?;
        access::restrict(&access).map_err(|error| explain("Landlock", &error))?;
        calls::restrict(false).map_err(|error| explain("seccomp", &error))?;
        command(plan, &env)?.spawn().map_err(|error| cannot(plan, &error))
    };
    let held = std::thread::scope(|scope| scope.spawn(held).join());
    let mut child: Child = held.map_err(|_| io::Error::other("the sandbox could not be closed"))??;
    tell(guard, &Told::Started);
    drop_streams(&open_null()?)?;
    let status = child.wait()?;
    drop(room);
    tell(guard, &Told::Ended(how(status)));
    Ok(0)
}

/// A home and a place for temporary files, gone when the command has ended.
struct Room(PathBuf);

impl Room {
    fn make() -> io::Result<Room> {
        let name = format!("ftl-sandbox-{}-{:016x}", getpid().as_raw_nonzero(), ftl_folder::id::random()?);
        let folder = fs::canonicalize(std::env::temp_dir())?.join(name);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let room = Room(folder);
        for name in ["home", "tmp"] {
            fs::create_dir(room.0.join(name))?;
        }
        Ok(room)
    }

    /// What says where they are. A home that can be written is left as it is. Tools that look for their own folders
    /// in the home are told where those are.
    fn env(&self, plan: &Plan) -> Vec<(OsString, OsString)> {
        let find = |name: &str| {
            plan.env.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value))
        };
        let mut env = vec![(OsString::from("TMPDIR"), self.0.join("tmp").into())];
        let written = plan.sandbox.rules.joined(&plan.sandbox.reach).write;
        if let Some(home) = find("HOME").filter(|home| !is_in(home, &written)) {
            env.push(("HOME".into(), self.0.join("home").into()));
            for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
                let there = home.join(folder);
                if find(name).is_none() && there.is_dir() {
                    env.push((name.into(), there.into()));
                }
            }
        }
        env
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command, with nothing of ours but the mark and the level.
fn command(plan: &Plan, more: &[(OsString, OsString)]) -> io::Result<Command> {
    let folder = Path::new(&plan.folder);
    if !folder.is_dir() {
        let program = Path::new(&plan.program).display();
        return Err(io::Error::other(format!(
            "`{program}` cannot be started: {} is no folder",
            folder.display()
        )));
    }
    let mut command = Command::new(&plan.program);
    command.args(&plan.args).current_dir(folder).env_clear();
    command.envs(plan.env.iter().chain(more).map(|(name, value)| (name, value)));
    for (name, value) in &plan.sandbox.reach.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env(LEVEL_VARIABLE, plan.sandbox.level.word());
    command.env(plan.mark.name(), plan.mark.value());
    Ok(command)
}

fn cannot(plan: &Plan, error: &io::Error) -> io::Error {
    io::Error::other(format!("`{}` cannot be started: {error}", Path::new(&plan.program).display()))
}

/// What of a sandbox this machine refuses.
fn explain(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("the sandbox cannot be closed: {what}: {error}"))
}

/// Waits for the command and for all that comes to the first process of a namespace.
fn stay(child: &Child, guard: &File) -> i32 {
    let mut ended: Option<How> = None;
    let mut has_told = false;
    loop {
        let options = if ended.is_some() && !has_told { WaitOptions::NOHANG } else { WaitOptions::empty() };
        match wait(options) {
            Ok(Some((pid, status))) => {
                if u32::try_from(pid.as_raw_nonzero().get()).is_ok_and(|pid| pid == child.id()) {
                    ended = Some(how(ExitStatus::from_raw(status.as_raw())));
                }
            }
            Ok(None) => {
                // What is left has a moment to end: the guard sees to it, also when it has no parent any more.
                let _ = set_parent_process_death_signal(None);
                tell_end(guard, ended, &mut has_told);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                tell_end(guard, ended, &mut has_told);
                return 0;
            }
        }
    }
}

fn tell_end(guard: &File, ended: Option<How>, has_told: &mut bool) {
    if let Some(how) = ended.filter(|_| !*has_told) {
        tell(guard, &Told::Ended(how));
        *has_told = true;
    }
}

fn how(status: ExitStatus) -> How {
    let by_signal = status.signal().map(How::Signalled);
    status.code().map(How::Exited).or(by_signal).unwrap_or(How::Unknown)
}

fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Lets go of the command's streams, so that they end when it lets go of them.
fn drop_streams(null: &File) -> io::Result<()> {
    dup2_stdin(null)?;
    dup2_stdout(null)?;
    dup2_stderr(null)?;
    Ok(())
}

fn open_null() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}
