//! An agent's own program, in a process tree that we own: what the `acp` and `cli` backends speak to.
//!
//! A thread watches each program and holds it to its limits; it never waits for a listener. When the
//! listener goes away, or the program says more than a session can read, all of the tree is ended.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use ftl_agents::error::AgentError;
use ftl_agents::launch::{
    AgentProgram, InputChannel, InputError, Launched, Launcher, ProgramExit, Telling, Tree, hearing,
};

use ftl_process::{
    Cancel, Cut, Fence, How, MARK, Mark, ProcessExit, ProcessLimits, RunError, Running, Spec, Stdin,
    StdinWriter, Stream, Supervisor, printable,
};
use ftl_store::machine;

use crate::sandboxes::RoleSandbox;

/// Starts the programs of one job's agent.
pub struct ProgramStarter {
    supervisor: Arc<Supervisor>,
    limits: ProcessLimits,
    key: String,
    fence: Option<Fence>,
    around: RoleSandbox,
    count: AtomicU64,
}

impl ProgramStarter {
    /// Starts programs under keys that begin with that one.
    pub fn new(
        supervisor: Arc<Supervisor>,
        limits: ProcessLimits,
        key: String,
        fence: Option<Fence>,
    ) -> ProgramStarter {
        let around = RoleSandbox::default();
        ProgramStarter { supervisor, limits, key, fence, around, count: AtomicU64::new(0) }
    }

    /// The same where programs run in the sandbox of a role.
    #[must_use]
    pub fn inside(self, around: RoleSandbox) -> ProgramStarter {
        ProgramStarter { around, ..self }
    }
}

impl fmt::Debug for ProgramStarter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Programs({})", self.key)
    }
}

impl Launcher for ProgramStarter {
    fn launch(&self, program: &AgentProgram) -> Result<Launched, AgentError> {
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
            mark: Mark::new(MARK, &key).map_err(|error| AgentError::CouldNotRun(error.to_string()))?,
            sandbox: self.around.of_program(program),
        };
        let running = self.supervisor.start(&spec).map_err(|error| trouble(&error))?;
        let input = Arc::new(Writing(running.stdin()));
        let (telling, output) = hearing();
        let cancel = Cancel::new();
        let seen = cancel.clone();
        let thread = std::thread::Builder::new().name(String::from("agent"));
        let thread = thread.spawn(move || watch(running, &seen, telling));
        let thread = thread.map_err(|error| AgentError::of_io("no thread could be started", &error))?;
        Ok(Launched { input, output, tree: Box::new(Watched { cancel, thread: Some(thread) }) })
    }
}

/// What cannot be started is a matter of the machine or the settings, not of the agent.
fn trouble(error: &RunError) -> AgentError {
    if let Some(cause) = machine::cause_of_run(error) {
        return AgentError::Machine(cause.failure(error.to_string()).message);
    }
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    AgentError::CouldNotRun(format!("{error}{hint}"))
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
            Some(cause) => ProgramExit {
                how: cause.failure(error.to_string()).message,
                machine: true,
                ..ProgramExit::default()
            },
            None => ProgramExit { how: error.to_string(), ..ProgramExit::default() },
        },
    };
    if let Some(why) = too_much {
        exit.how = why.to_string();
    }
    telling.on_exit(exit);
}

fn exit(ended: &ProcessExit) -> ProgramExit {
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
    ProgramExit { code, how: ended.sentence(), complaint, timed_out, machine: false }
}

struct Writing(StdinWriter);

impl InputChannel for Writing {
    fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        self.0.write(bytes).map_err(|error| InputError(format!("it does not read any more: {error}")))
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
