//! Runs git, and nothing that a repository names.
//!
//! An agent can write what git reads: configuration, attributes, hooks. So git gets an environment made
//! from nothing, settings that win over every file, a limit on time and on output, and paths as bytes.
//! It never asks a person anything, never pages, never fetches, and never starts a hook, a filter, a
//! monitor or a driver. It is ended when it does not end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{ErrorKind, GitError};
use ftl_process::{gits, programs};

/// How long one git command may take.
pub const MAX_GIT_TIME: Duration = Duration::from_secs(300);

/// How much one git command may print.
pub const MAX_GIT_OUTPUT: u64 = 512 * 1024 * 1024;

/// How much of what git says about an error is kept.
pub(super) const MAX_SAID: u64 = 16 * 1024;

/// How much a pipe holds for sure, so that a writer of that much does not wait for git to read.
const MAX_AT_ONCE: usize = 4096;

/// How long a pipe is listened to after git has ended.
const MAX_AFTERWARDS: Duration = Duration::from_secs(2);

/// The oldest git that can do what we ask of it.
pub const OLDEST_GIT: (u32, u32) = (2, 38);

/// Settings that win over those of a repository. Each names something that git would start, or that
/// would make it do more than it was asked for.
const SETTINGS: [&str; 27] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=false",
    "core.quotePath=false",
    // An object that a power cut left empty would be taken for written when the work is done again.
    "core.fsync=loose-object,pack,reference",
    "core.fsyncMethod=fsync",
    "credential.helper=",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "log.showSignature=false",
    "diff.external=",
    "diff.renames=false",
    "merge.directoryRenames=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
];

/// The whole environment, besides what a call adds.
const ENVIRONMENT: [(&str, &str); 17] = [
    ("LC_ALL", "C"),
    ("TZ", "UTC"),
    ("TERM", "dumb"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ADVICE", "0"),
];

/// What says where a person's own settings are, and where git stops to look for a repository.
const PERSONAL: [&str; 6] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
];

/// Looks at each step before it is taken: each call of git, and each change of ours on the disk. An
/// error stops the work there, as a power cut would; the work is then asked for again.
pub trait StepHook: Send + Sync {
    /// A step is about to be taken.
    fn step(&self, what: &str) -> Result<(), GitError>;
}

/// Writes what git is to read.
type Writing<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'a>;

/// What git gets on its standard input.
pub(super) enum Input<'a> {
    /// Nothing: its standard input is at its end.
    Nothing,
    /// These bytes, and then the end.
    Bytes(Vec<u8>),
    /// The bytes that a function writes.
    Written(Writing<'a>),
}

/// One call of git.
pub(super) struct Call<'a> {
    words: Vec<OsString>,
    vars: Vec<(&'static str, OsString)>,
    folder: PathBuf,
    input: Input<'a>,
    held: Option<&'a File>,
    most: u64,
    is_cut: bool,
    is_personal: bool,
}

impl<'a> Call<'a> {
    /// A call in a folder.
    pub(super) fn new(folder: &Path) -> Call<'a> {
        let folder = folder.to_owned();
        let (input, most) = (Input::Nothing, MAX_GIT_OUTPUT);
        let (words, vars) = (Vec::new(), Vec::new());
        Call { words, vars, folder, input, held: None, most, is_cut: false, is_personal: false }
    }

    /// The folders that git is given by their paths.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        let named = self.vars.iter().filter_map(|(name, value)| match *name {
            "GIT_INDEX_FILE" => Path::new(value).parent(),
            "GIT_DIR" | "GIT_OBJECT_DIRECTORY" => Some(Path::new(value)),
            _ => None,
        });
        named.chain([self.folder.as_path()])
    }

    /// The same with these words more.
    pub(super) fn words<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Call<'a> {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// The same with a variable.
    pub(super) fn var(mut self, name: &'static str, value: impl Into<OsString>) -> Call<'a> {
        self.vars.push((name, value.into()));
        self
    }

    /// The same with something to read.
    pub(super) fn input(self, input: Input<'a>) -> Call<'a> {
        Call { input, ..self }
    }

    /// The same, printing so much at most.
    pub(super) fn most(self, most: u64) -> Call<'a> {
        Call { most, ..self }
    }

    /// The same, of whose output so much is kept.
    pub(super) fn cut_at(self, most: u64) -> Call<'a> {
        Call { most, is_cut: true, ..self }
    }

    /// The same with the settings of the person and of the machine, where our environment says that they are.
    pub(super) fn by_person(self) -> Call<'a> {
        Call { is_personal: true, ..self }
    }

    /// The same under a lock, for a git that reads nothing. It has the lock open too: when we are killed,
    /// the lock is free only when the git that worked under it has ended.
    pub(super) fn under(self, lock: &'a File) -> Call<'a> {
        Call { held: Some(lock), ..self }
    }
}

/// The end of a call, with its output.
pub(super) struct Output {
    /// The exit code of git.
    pub(super) code: i32,
    /// Its standard output, up to the limit of the call.
    pub(super) out: Vec<u8>,
    /// Whether it printed more than was to be kept.
    pub(super) is_cut: bool,
    /// Its standard error, as text.
    pub(super) said: String,
    what: String,
}

impl Output {
    /// What it printed, if it succeeded.
    pub(super) fn ok(self) -> Result<Vec<u8>, GitError> {
        if self.code == 0 { Ok(self.out) } else { Err(self.error()) }
    }

    /// The error of a call that did not succeed.
    pub(super) fn error(&self) -> GitError {
        let said = self.said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said: Vec<&str> = said.take(5).collect();
        let said = if said.is_empty() { format!("exit code {}", self.code) } else { said.join("; ") };
        GitError::of_git(format!("`git {}` failed: {said}", self.what), &self.said)
    }
}

/// The git of this machine.
#[derive(Clone)]
pub(super) struct Runner {
    program: PathBuf,
    path: OsString,
    limit: Duration,
    watch: Option<Arc<dyn StepHook>>,
}

impl Runner {
    /// The git that is found in the search path, outside the folder where agents may write.
    pub(super) fn find(apart_from: &Path) -> Result<Runner, GitError> {
        let Some(program) = program(apart_from) else {
            let error = GitError::new(ErrorKind::Unsuitable, "git is not installed");
            return Err(error.hint("install git 2.38 or newer"));
        };
        let own = program.parent().unwrap_or(Path::new("/usr/bin")).to_owned();
        let folders = [own, PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
        let path = std::env::join_paths(folders).unwrap_or_else(|_| "/usr/bin:/bin".into());
        Ok(Runner { program, path, limit: MAX_GIT_TIME, watch: None })
    }

    /// The same, ended after so long.
    pub(super) fn limit(self, limit: Duration) -> Runner {
        Runner { limit, ..self }
    }

    /// How long one git may take.
    pub(super) fn longest(&self) -> Duration {
        self.limit
    }

    /// The error of a git that took longer.
    pub(super) fn too_slow(&self, what: &str) -> GitError {
        let message = format!("`git {what}` did not end within {} s and was ended", self.limit.as_secs());
        GitError::new(ErrorKind::TimedOut, message)
    }

    /// The same runner; `watch` sees every step before it is taken.
    pub(super) fn watched(self, watch: Arc<dyn StepHook>) -> Runner {
        Runner { watch: Some(watch), ..self }
    }

    /// Says that a step is about to be taken.
    pub(super) fn step(&self, what: &str) -> Result<(), GitError> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.step(what))
    }

    /// Refuses a git that is too old.
    pub(super) fn check_version(&self, folder: &Path) -> Result<(), GitError> {
        let said = self.run(Call::new(folder).words(["version"]))?.ok()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut numbers =
            said.split_whitespace().nth(2).unwrap_or_default().split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST_GIT => Ok(()),
            _ => {
                let message = format!("this git cannot be used: {}", said.trim());
                Err(GitError::new(ErrorKind::Unsuitable, message).hint("install git 2.38 or newer"))
            }
        }
    }

    /// Runs git to its end, or ends it.
    pub(super) fn run(&self, call: Call<'_>) -> Result<Output, GitError> {
        let verb = call.words.iter().map(|word| word.to_string_lossy()).find(|word| !word.starts_with('-'));
        let what = verb.map(std::borrow::Cow::into_owned).unwrap_or_default();
        self.step(&format!("git {what}"))?;
        let stdin = match (&call.input, call.held) {
            (Input::Nothing, None) => Stdio::null(),
            (Input::Nothing, Some(lock)) => Stdio::from(lock.try_clone()?),
            (Input::Bytes(_) | Input::Written(_), _) => Stdio::piped(),
        };
        let child = self.spawn(&call, stdin)?;
        let is_cut = call.is_cut;
        let output = self.attend(child, call.input, call.most, what)?;
        if output.is_cut && !is_cut {
            let (what, most) = (&output.what, call.most);
            let message = format!("`git {what}` printed more than {most} bytes");
            return Err(GitError::new(ErrorKind::TooMuch, message));
        }
        Ok(output)
    }

    /// Starts a git that is talked to line by line, and stays until it is ended. It leads a process group of its own.
    pub(super) fn start(&self, call: &Call<'_>) -> Result<Child, GitError> {
        self.spawn(call, Stdio::piped())
    }

    fn spawn(&self, call: &Call<'_>, stdin: Stdio) -> Result<Child, GitError> {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", &self.path).envs(ENVIRONMENT).env("HOME", "/dev/null");
        for name in PERSONAL.iter().filter(|_| call.is_personal) {
            match std::env::var_os(name) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(call.vars.iter().map(|(name, value)| (name, value)));
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(&call.words);
        command.current_dir(&call.folder).process_group(0);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        // It ends with us, however we end.
        let marked = gits::mark().map(|mark| command.envs(mark));
        marked.and_then(Command::spawn).map_err(|error| {
            let (program, folder) = (self.program.display(), call.folder.display());
            let message = format!("`{program}` could not be started in `{folder}`: {error}");
            GitError::of_start(message, &call.folder, &error)
        })
    }

    /// Feeds a git, listens to it, and waits for its end.
    fn attend(
        &self,
        mut child: Child,
        input: Input<'_>,
        most: u64,
        what: String,
    ) -> Result<Output, GitError> {
        let (to, from, aside) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut ears = [Ear::of(from.map(OwnedFd::from), most), Ear::of(aside.map(OwnedFd::from), MAX_SAID)];
        let is_short = match &input {
            Input::Nothing => true,
            Input::Bytes(bytes) => bytes.len() <= MAX_AT_ONCE,
            Input::Written(_) => false,
        };
        let (status, fed) = if is_short {
            // A pipe holds it, whether or not it is read.
            let fed = feed(to, input);
            (listen(&mut child, &mut ears, self.limit), Ok(fed))
        } else {
            std::thread::scope(|scope| {
                let fed = scope.spawn(move || feed(to, input));
                (listen(&mut child, &mut ears, self.limit), fed.join())
            })
        };
        let lost = || GitError::new(ErrorKind::Git, format!("`git {what}` was lost"));
        let Some(status) = status? else {
            return Err(self.too_slow(&what));
        };
        let [out, said] = ears;
        let said = String::from_utf8_lossy(&said.heard).into_owned();
        let code = status.code().unwrap_or(-1);
        let fed = fed.map_err(|_| lost())?;
        if let (0, false, Err(error)) = (code, out.cut, fed) {
            return Err(GitError::of_io(format!("`git {what}` was not fed: {error}"), &error));
        }
        Ok(Output { code, out: out.heard, is_cut: out.cut, said, what })
    }
}

/// What is read from one pipe.
struct Ear {
    /// The pipe, until its end.
    from: Option<File>,
    heard: Vec<u8>,
    most: u64,
    /// Whether there was more than that.
    cut: bool,
}

impl Ear {
    fn of(from: Option<OwnedFd>, most: u64) -> Ear {
        Ear { from: from.map(File::from), heard: Vec::new(), most, cut: false }
    }

    /// Takes what the pipe holds; bytes beyond the limit are read and thrown away, so that git does not wait for us.
    fn take(&mut self) -> io::Result<()> {
        let Some(from) = &mut self.from else { return Ok(()) };
        let mut some = [0; 32 * 1024];
        let count = from.read(&mut some)?;
        if count == 0 {
            self.from = None;
            return Ok(());
        }
        let room = usize::try_from(self.most - self.heard.len() as u64).unwrap_or(usize::MAX);
        self.cut |= count > room;
        self.heard.extend_from_slice(&some[..count.min(room)]);
        Ok(())
    }
}

/// Listens to a child, which leads a process group of its own, until it has ended and everything is heard; whatever
/// is left of the group is ended before the child is reaped, while no other process can have its number. `None` when
/// it took too long.
fn listen(child: &mut Child, ears: &mut [Ear; 2], limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut status = None;
    let heard = hear_out(child, ears, limit, &mut status);
    if status.is_none() {
        end(child)?;
    }
    heard.map(|()| status)
}

/// Ends a child that was not reaped yet, with its group.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}

/// Listens until there is no time left, or until everything is heard and the child has ended, with its status then.
fn hear_out(
    child: &mut Child,
    ears: &mut [Ear; 2],
    limit: Duration,
    status: &mut Option<ExitStatus>,
) -> io::Result<()> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut deadline = Instant::now() + limit;
    loop {
        let open: Vec<usize> = (0..ears.len()).filter(|at| ears[*at].from.is_some()).collect();
        if status.is_some() && open.is_empty() {
            return Ok(());
        }
        let timeout = Timespec::try_from(deadline.saturating_duration_since(Instant::now()));
        let timeout = timeout.map_err(io::Error::other)?;
        let mut asked: Vec<PollFd<'_>> = open
            .iter()
            .filter_map(|at| ears[*at].from.as_ref())
            .map(|from| PollFd::new(from, PollFlags::IN))
            .collect();
        if status.is_none() {
            asked.push(PollFd::new(&pidfd, PollFlags::IN));
        }
        let ready = match poll(&mut asked, Some(&timeout)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let said: Vec<bool> = asked.iter().map(|one| !one.revents().is_empty()).collect();
        for (at, _) in open.iter().zip(&said).filter(|(_, said)| **said) {
            ears[*at].take()?;
        }
        if ready == 0 {
            return Ok(());
        }
        if status.is_none() && said.last() == Some(&true) {
            *status = Some(end(child)?);
            // A process that has left the group may still have a pipe open; what git itself has said is in there.
            deadline = Instant::now() + MAX_AFTERWARDS.min(limit);
        }
    }
}

/// The git that is found in the search path, outside of a folder where agents may write. By its whole name it is
/// started without a copy of our memory.
pub fn program(apart_from: &Path) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let is_ours = |folder: &PathBuf| folder.is_absolute() && !folder.starts_with(apart_from);
    programs::find("git", std::env::split_paths(&search).filter(is_ours))
}

fn feed(to: Option<impl Write>, input: Input<'_>) -> io::Result<()> {
    let Some(mut to) = to else { return Ok(()) };
    match input {
        Input::Nothing => Ok(()),
        Input::Bytes(bytes) => to.write_all(&bytes),
        Input::Written(write) => {
            let mut buffered = io::BufWriter::with_capacity(64 * 1024, to);
            write(&mut buffered)?;
            buffered.flush()
        }
    }
}

/// Reads to the end; what is beyond the limit is read and thrown away, so that git does not wait for us.
pub(super) fn hear(from: Option<impl Read>, most: u64) -> io::Result<(Vec<u8>, bool)> {
    let Some(mut from) = from else { return Ok((Vec::new(), false)) };
    let mut out = Vec::new();
    from.by_ref().take(most).read_to_end(&mut out)?;
    let rest = io::copy(&mut from, &mut io::sink())?;
    Ok((out, rest > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_time_are_bounded_and_the_environment_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let runner = Runner::find(Path::new("/nowhere")).unwrap();
        runner.check_version(folder.path()).unwrap();
        let few = runner.run(Call::new(folder.path()).words(["version"]).most(3)).err().unwrap();
        assert_eq!(few.trouble, ErrorKind::TooMuch);
        let slow = runner.clone().limit(Duration::from_millis(50));
        let never = Input::Written(Box::new(|to| {
            // Git reads until we end it, and then no process reads any more.
            while to.write_all(b"blob\ndata 1\nx\n").and_then(|()| to.flush()).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }));
        git(&runner, folder.path(), &["init", "-q", "--bare"]);
        let call = Call::new(folder.path()).words(["fast-import", "--quiet"]).input(never);
        assert_eq!(slow.run(call).err().unwrap().trouble, ErrorKind::TimedOut);
        let seen = git(&runner, folder.path(), &["config", "--list", "--show-scope"]);
        assert!(seen.lines().all(|line| line.starts_with("local") || line.starts_with("command")), "{seen}");
        assert!(seen.contains("core.hookspath=/dev/null"));
    }

    #[test]
    fn a_pipe_that_somebody_keeps_open_is_not_listened_to_for_long() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("git");
        // It leaves a process behind that has left its group and holds its pipes.
        let script = "#!/bin/sh\nmkfifo left\nsetsid sh -c 'echo $$; echo > left; exec sleep 60' &\n\
            read -r _ < left\necho said\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let limit = Duration::from_secs(30);
        let runner = Runner { program, limit, ..Runner::find(Path::new("/nowhere")).unwrap() };
        let began = Instant::now();
        let out = runner.run(Call::new(folder.path()).words(["any"])).unwrap().ok().unwrap();
        let took = began.elapsed();
        let said = String::from_utf8_lossy(&out).into_owned();
        let left = said.lines().find_map(|line| line.parse().ok()).and_then(Pid::from_raw);
        if let Some(left) = left {
            rustix::process::kill_process(left, Signal::KILL).unwrap();
        }
        assert!(said.contains("said"), "{said}");
        assert!(took >= MAX_AFTERWARDS && took < limit, "{took:?}");
    }

    fn git(runner: &Runner, folder: &Path, words: &[&str]) -> String {
        let out = runner.run(Call::new(folder).words(words)).unwrap().ok().unwrap();
        String::from_utf8_lossy(&out).into_owned()
    }
}
