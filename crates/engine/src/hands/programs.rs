//! An agent's own program, in a process tree that we own: what the `acp` and `cli` backends speak to.
//!
//! A thread watches each program and holds it to its limits; it never waits for a listener. When the
//! listener goes away, or the program says more than anybody can read, all of the tree is ended.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use ftl_agents::launch::{Exit, Input, Launched, Launcher, Program, Telling, Tree, hearing};
use ftl_agents::trouble::Trouble;

use ftl_process::{
    Cancel, Cut, Ended, Fence, How, Limits, MARK, Mark, RunError, Running, Spec, Stdin, StdinWriter, Stream,
    Supervisor, printable,
};
use ftl_store::machine;

/// Starts the programs of one job's agent.
pub struct Programs {
    supervisor: Arc<Supervisor>,
    limits: Limits,
    key: String,
    fence: Option<Fence>,
    count: AtomicU64,
}

impl Programs {
    /// Starts programs under keys that begin with that one.
    pub fn new(supervisor: Arc<Supervisor>, limits: Limits, key: String, fence: Option<Fence>) -> Programs {
        Programs { supervisor, limits, key, fence, count: AtomicU64::new(0) }
    }
}

impl fmt::Debug for Programs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Programs({})", self.key)
    }
}

impl Launcher for Programs {
    fn launch(&self, program: &Program) -> Result<Launched, Trouble> {
        let key = format!("{}.p{}", self.key, self.count.fetch_add(1, Ordering::Relaxed));
        let spec = Spec {
            program: program.program.clone(),
            args: program.args.clone(),
            folder: program.folder.clone(),
            env: program.env.clone(),
            stdin: Stdin::Open,
            limits: self.limits,
            lock: PathBuf::from(&key),
            fence: self.fence.clone(),
            mark: Mark::new(MARK, &key).map_err(Trouble::CouldNotRun)?,
        };
        let running = self.supervisor.start(&spec).map_err(|error| trouble(&error))?;
        let input = Arc::new(Writing(running.stdin()));
        let (telling, output) = hearing();
        let cancel = Cancel::new();
        let seen = cancel.clone();
        let thread = std::thread::Builder::new().name(String::from("agent"));
        let thread = thread.spawn(move || watch(running, &seen, telling));
        let thread = thread.map_err(|error| Trouble::of_io("no thread could be started", &error))?;
        Ok(Launched { input, output, tree: Box::new(Watched { cancel, thread: Some(thread) }) })
    }
}

/// What cannot be started is a matter of the machine or the settings, not of the agent.
fn trouble(error: &RunError) -> Trouble {
    if let Some(cause) = machine::cause_of_run(error) {
        return Trouble::Machine(cause.failure(error.to_string()).message);
    }
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    Trouble::CouldNotRun(format!("{error}{hint}"))
}

fn watch(running: Running, cancel: &Cancel, mut telling: Telling) {
    let mut too_much = None;
    let ended = running.wait(cancel, &mut |stream, bytes| {
        if stream == Stream::Out && too_much.is_none() {
            too_much = telling.tell(bytes).err();
            if too_much.is_some() {
                cancel.cancel_now();
            }
        }
    });
    let mut exit = match ended {
        Ok(ended) => exit(&ended),
        Err(error) => match machine::cause_of_run(&error) {
            Some(cause) => {
                Exit { how: cause.failure(error.to_string()).message, machine: true, ..Exit::default() }
            }
            None => Exit { how: error.to_string(), ..Exit::default() },
        },
    };
    if let Some(why) = too_much {
        exit.how = why;
    }
    telling.ended(exit);
}

fn exit(ended: &Ended) -> Exit {
    let code = match ended.how {
        How::Exited(code) if ended.cut.is_none() => Some(code),
        How::Exited(_) | How::Signalled(_) | How::Unknown => None,
    };
    let timed_out = match ended.cut {
        Some(Cut::Startup | Cut::Silence | Cut::Soft | Cut::Hard) => true,
        Some(Cut::Cancelled | Cut::GuardLost) | None => false,
    };
    let complaint = if ended.err.tail.is_empty() { &ended.err.head } else { &ended.err.tail };
    // An end of a line that has two letters is an end of a line.
    let complaint = printable(complaint).replace("\\r\n", "\n").trim().to_owned();
    Exit { code, how: ended.sentence(), complaint, timed_out, machine: false }
}

struct Writing(StdinWriter);

impl Input for Writing {
    fn write(&self, bytes: &[u8]) -> Result<(), String> {
        self.0.write(bytes).map_err(|error| format!("it does not read any more: {error}"))
    }

    fn close(&self) {
        self.0.close();
    }
}

struct Watched {
    cancel: Cancel,
    thread: Option<JoinHandle<()>>,
}

impl Tree for Watched {
    fn end(self: Box<Self>) {
        drop(self);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.cancel.cancel_now();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
