//! Where gates may run commands: a folder, an environment built from nothing, limits.
//!
//! Nothing is run here but through the supervisor, under a guard, and nothing of our environment gets in that
//! the settings do not let in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::home::list_tool_homes;
use super::report::Channel;
use ftl_process::sandbox::Sandbox;
use ftl_process::{
    Cancel, Fence, MARK, Mark, ProcessExit, ProcessLimits, RunError, Spec, Stdin, Supervisor, programs,
};
use ftl_store::Store;

/// A place for commands.
#[derive(Clone)]
pub struct CommandPlace<'a> {
    /// Starts the commands under guards.
    pub supervisor: &'a Supervisor,
    /// The store that keeps long outputs.
    pub store: &'a dyn Store,
    /// The folder they start in.
    pub folder: PathBuf,
    /// The key of the job they are for: it names the attempt and marks its processes.
    pub key: String,
    /// The fence that they must not be behind.
    pub fence: Option<Fence>,
    /// How long and how much.
    pub limits: ProcessLimits,
    /// The whole environment of commands.
    pub env: Vec<(OsString, OsString)>,
    /// What is around them; nothing but a guard where nothing is said.
    pub sandbox: Option<Arc<Sandbox>>,
}

/// One command for a yard.
pub(super) struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) stdin: Stdin,
    pub(super) limits: ProcessLimits,
}

impl CommandPlace<'_> {
    /// The same for commands that may take so long at most.
    #[must_use]
    pub fn within(self, most: Duration) -> Self {
        CommandPlace { limits: ProcessLimits { hard: Some(most), ..self.limits }, ..self }
    }

    /// Runs one script in the shell.
    pub fn shell(&self, script: &str, cancel: &Cancel) -> Result<ProcessExit, RunError> {
        let args = ["-c", script, "sh"].into_iter().map(OsString::from).collect();
        let (stdin, limits) = (Stdin::Null, self.limits);
        self.run(Command { program: "sh".into(), args, stdin, limits }, cancel)
    }

    /// The same where the test runners that it starts report on a channel of their own.
    pub(super) fn shell_reporting(
        &self,
        script: &str,
        channel: &Channel,
        cancel: &Cancel,
    ) -> Result<ProcessExit, RunError> {
        let env = channel.environment(&self.env, &self.folder);
        let env =
            env.map_err(|error| RunError::Bad(format!("no home can be made for the command: {error}")))?;
        let sandbox = self.sandbox.as_ref().map(|sandbox| {
            // The temporary folder inside is another one: what the hooks need of ours is let in.
            let mut sandbox = (**sandbox).clone();
            sandbox.reach.write.push(channel.folder().to_owned());
            sandbox.reach.write.extend(list_tool_homes(&env));
            Arc::new(sandbox)
        });
        CommandPlace { env, sandbox, ..self.clone() }.shell(script, cancel)
    }

    pub(super) fn run(&self, command: Command, cancel: &Cancel) -> Result<ProcessExit, RunError> {
        let spec = Spec {
            program: command.program,
            args: command.args,
            folder: self.folder.clone(),
            env: self.env.clone(),
            stdin: command.stdin,
            limits: command.limits,
            lock: PathBuf::from(&self.key),
            fence: self.fence.clone(),
            mark: Mark::new(MARK, &self.key).map_err(|error| RunError::Bad(error.to_string()))?,
            sandbox: self.sandbox.clone(),
        };
        self.supervisor.run(&spec, cancel, &mut |_, _| {})
    }

    /// Whether a program of this name is in the PATH of the environment.
    pub(super) fn has(&self, program: &str) -> bool {
        let path = self.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
        let folders = path.into_iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute());
        programs::find(program, folders).is_some()
    }
}
