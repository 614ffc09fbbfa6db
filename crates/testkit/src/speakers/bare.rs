//! A launcher for tests of backends alone: a program in a process group of its own, without a guard.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ftl_agents::error::AgentError;
use ftl_agents::launch::{
    AgentProgram, InputChannel, InputError, Launched, Launcher, ProgramExit, Tree, hearing,
};
use rustix::process::{Pid, Signal, kill_process_group};

/// Starts programs and ends their process groups. The engine's own launcher does better.
#[derive(Debug)]
pub struct Bare;

impl Launcher for Bare {
    fn launch(&self, program: &AgentProgram) -> Result<Launched, AgentError> {
        let mut command = Command::new(&program.program);
        command.args(&program.args).current_dir(&program.folder).env_clear();
        command.envs(program.env.iter().map(|(name, value)| (name, value))).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            AgentError::CouldNotRun(format!("{} cannot be started: {error}", program.program.display()))
        })?;
        let (mut stdin, mut stdout, mut stderr) =
            (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (send, receive) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            while let Ok(bytes) = receive.recv() {
                if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
                    return;
                }
            }
        });
        let complaints = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let group = Group { pid: child.id(), reaped: Arc::default() };
        let (mut telling, output) = hearing();
        let reader = Group { pid: group.pid, reaped: group.reaped.clone() };
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            let mut too_much = None;
            while let Ok(count @ 1..) = stdout.read(&mut piece) {
                if let Err(why) = telling.tell(&piece[..count]) {
                    too_much = Some(why.to_string());
                    reader.kill();
                    break;
                }
            }
            let status = child.wait();
            reader.reaped.store(true, Ordering::Relaxed);
            let complaint = complaints.join().unwrap_or_default();
            let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
            let how = too_much.unwrap_or_else(|| match &status {
                Ok(status) => format!("it ended with {status}"),
                Err(error) => error.to_string(),
            });
            telling.on_exit(ProgramExit { code, how, complaint, ..ProgramExit::default() });
        });
        Ok(Launched { input: Arc::new(Pipe(Mutex::new(Some(send)))), output, tree: Box::new(group) })
    }
}

struct Pipe(Mutex<Option<Sender<Vec<u8>>>>);

impl InputChannel for Pipe {
    fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        let gone = || InputError(String::from("it does not read any more"));
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().ok_or_else(gone)?.send(bytes.to_vec()).map_err(|_| gone())
    }

    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

struct Group {
    pid: u32,
    reaped: Arc<AtomicBool>,
}

impl Group {
    fn kill(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| !self.reaped.load(Ordering::Relaxed)) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Tree for Group {
    fn end(self: Box<Self>) {
        drop(self);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
