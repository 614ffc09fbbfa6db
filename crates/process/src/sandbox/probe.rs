//! What this machine can do: looked at by doing it, never by a version number.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use super::access::{self, Access};
use super::machine::system_folders;
use super::plan::{Plan, Told};
use super::rules::{Reach, Sandbox, SandboxLevel, SandboxRules, Share};
use super::{SANDBOX_WORD, calls};
use crate::{Guard, MARK, Mark};

/// The best level that can be had here, and why none better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The best level.
    pub level: SandboxLevel,
    /// What each layer said.
    pub tries: Vec<Try>,
}

/// What came of trying one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The layer.
    pub layer: &'static str,
    /// What it says of itself where it works.
    pub works: Result<String, Lack>,
}

/// Why a layer cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What the machine said.
    pub why: String,
    /// The one command that changes it.
    pub fix: &'static str,
}

impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.why)
    }
}

impl Probe {
    /// Why there is no better level, where there is none.
    pub fn lack(&self) -> Option<&Lack> {
        self.tries.iter().find_map(|one| one.works.as_ref().err())
    }
}

/// Looks once for as long as this process lives.
pub fn probe(guard: &Guard) -> &'static Probe {
    static KNOWN: OnceLock<Probe> = OnceLock::new();
    KNOWN.get_or_init(|| look(guard))
}

fn look(guard: &Guard) -> Probe {
    let held = thread::spawn(try_on_this_thread).join();
    let (landlock, seccomp) = held.unwrap_or_else(|_| {
        let lack = || Lack { why: String::from("it cannot be tried"), fix: FIX_KERNEL };
        (Err(lack()), Err(lack()))
    });
    let namespaces = match (&landlock, &seccomp) {
        (Ok(_), Ok(_)) => try_namespaces(guard),
        _ => {
            Err(Lack { why: String::from("it was not tried: the other layers are missing"), fix: FIX_KERNEL })
        }
    };
    let has = |one: &Result<String, Lack>| one.is_ok();
    let level = match (has(&namespaces), has(&landlock) && has(&seccomp)) {
        (true, true) => SandboxLevel::Full,
        (false, true) => SandboxLevel::Partial,
        (_, false) => SandboxLevel::None,
    };
    let of = |layer, works| Try { layer, works };
    Probe {
        level,
        tries: vec![of("landlock", landlock), of("seccomp", seccomp), of("namespaces", namespaces)],
    }
}

const FIX_KERNEL: &str = "use a kernel with CONFIG_SECURITY_LANDLOCK=y and CONFIG_SECCOMP_FILTER=y, and `lsm=` that names landlock";
const FIX_LIMIT: &str = "sudo sysctl user.max_user_namespaces=15000";
const FIX_SWITCH: &str = "sudo sysctl kernel.unprivileged_userns_clone=1";
const FIX_APPARMOR: &str = "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0";
const FIX_CONTAINER: &str = "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined …";

type Both = (Result<String, Lack>, Result<String, Lack>);

/// What is restricted here is this thread alone, which ends.
fn try_on_this_thread() -> Both {
    let lack = |error: std::io::Error| Lack { why: error.to_string(), fix: FIX_KERNEL };
    let access = Access { read: vec![PathBuf::from("/")], ..Access::default() };
    let landlock = access::restrict(&access).map(|version| format!("version {version}")).map_err(lack);
    let seccomp = calls::restrict(true).map(|()| String::from("a filter of calls")).map_err(lack);
    (landlock, seccomp)
}

/// Runs a command that does nothing in namespaces of its own, as every other command will be.
fn try_namespaces(guard: &Guard) -> Result<String, Lack> {
    let lack = |why: String| Lack { fix: fix(), why };
    let mark = Mark::new(MARK, "probe").map_err(|error| lack(error.to_string()))?;
    let read = system_folders();
    let rules = SandboxRules { read, private: vec![PathBuf::from("/tmp")], ..SandboxRules::default() };
    let (reach, share) = (Reach::default(), Share::default());
    let plan = Plan {
        sandbox: Sandbox { level: SandboxLevel::Full, rules, reach, share },
        program: OsString::from("true"),
        args: Vec::new(),
        folder: OsString::from("/"),
        env: vec![("PATH".into(), "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin".into())],
        mark,
    };
    let (handed, mut telling) = plan.hand().map_err(|error| lack(error.to_string()))?;
    let mut command = Command::new(&guard.program);
    command.arg(SANDBOX_WORD).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    handed.pass(&mut command).map_err(|error| lack(error.to_string()))?;
    let mut child = command.spawn().map_err(|error| lack(error.to_string()))?;
    drop(handed);
    let told = telling.next();
    let _ = child.wait();
    match told {
        Some(Told::Started) => Ok(String::from("user, mount, process, network, ipc, uts, cgroup")),
        Some(Told::Failed(why)) => Err(lack(why)),
        Some(Told::Ended(_)) | None => Err(lack(String::from("the sandbox ended before it was closed"))),
    }
}

/// The one command that most likely helps, by what the kernel shows.
fn fix() -> &'static str {
    let is = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    let in_container = || ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists());
    match () {
        () if is("/proc/sys/user/max_user_namespaces", "0") => FIX_LIMIT,
        () if is("/proc/sys/kernel/unprivileged_userns_clone", "0") => FIX_SWITCH,
        () if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") => FIX_APPARMOR,
        () if in_container() => FIX_CONTAINER,
        () => FIX_LIMIT,
    }
}
