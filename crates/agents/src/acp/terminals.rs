//! Terminals: commands that an agent lets us run, and looks at while they run.
//!
//! Each is a program of the session's launcher, in a tree that ends with the session. What is kept of its
//! output, how many there are and how long one may run is limited. Nothing here rules on a command: the
//! session has asked its host before it opens a terminal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use ftl_process::sandbox::Reach;

use super::wire::Reply;
use crate::error::AgentError;
use crate::launch::{AgentProgram, Heard, Hearing, Launcher, ProgramExit, Tree};
use crate::toolset::MAX_COMMAND_TIME;
use crate::variables::defaults;

/// How many terminals an agent has at once.
pub const MAX_TERMINALS: usize = 16;

/// How much of a terminal's output is kept: its end.
pub const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// How many variables an agent may give to a command.
pub const MAX_VARIABLES: usize = 256;

/// What of an agent's environment its commands get beside the defaults; its keys are not among them.
const PASSED: [&str; 7] = ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER"];

/// What an agent wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// A line for `sh`, or a program when there are words.
    pub(super) command: String,
    /// The arguments of the program; none for a line of `sh`.
    pub(super) args: Vec<String>,
    /// The folder, as the agent names it.
    pub(super) folder: Option<String>,
    env: Vec<(OsString, OsString)>,
    keep: usize,
}

impl Wanted {
    /// Reads a request; nothing if it names no command.
    pub(super) fn of(params: &Json) -> Option<Wanted> {
        let text = |one: &Json, key: &str| one.get(key).and_then(Json::as_str).map(str::to_owned);
        let list = |key: &str| params.get(key).and_then(Json::as_array).into_iter().flatten();
        let env = list("env").take(MAX_VARIABLES);
        let env = env.filter_map(|one| Some((text(one, "name")?.into(), text(one, "value")?.into())));
        let keep = params.get("outputByteLimit").and_then(Json::as_u64);
        let keep = keep.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(MAX_OUTPUT_BYTES);
        Some(Wanted {
            command: text(params, "command").filter(|command| !command.is_empty())?,
            args: list("args").filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
            folder: text(params, "cwd"),
            env: env.collect(),
            keep: keep.min(MAX_OUTPUT_BYTES),
        })
    }

    /// The program: both streams are one, as in a terminal. goose puts a whole line of shell into `command`.
    fn program(&self, folder: PathBuf, env: &[(OsString, OsString)]) -> AgentProgram {
        let is_passed = |name: &OsString| PASSED.iter().copied().chain(defaults()).any(|one| name == one);
        let passed = env.iter().filter(|(name, _)| is_passed(name));
        let mut all: BTreeMap<OsString, OsString> = passed.cloned().collect();
        all.extend(self.env.iter().filter(|(name, _)| !name.is_empty()).cloned());
        let args: Vec<OsString> = if self.args.is_empty() {
            vec!["-c".into(), format!("exec 2>&1\n{}", self.command).into()]
        } else {
            let words = ["-c", "exec \"$@\" 2>&1", "sh", &self.command].into_iter();
            words.chain(self.args.iter().map(String::as_str)).map(OsString::from).collect()
        };
        AgentProgram {
            program: "sh".into(),
            args,
            folder,
            env: all.into_iter().collect(),
            reach: Reach::default(),
        }
    }
}

/// The terminals of a session.
pub(super) struct Terminals {
    launcher: Arc<dyn Launcher>,
    env: Vec<(OsString, OsString)>,
    open: BTreeMap<String, Terminal>,
    count: u64,
}

struct Terminal {
    output: Hearing,
    tree: Option<Box<dyn Tree>>,
    text: Vec<u8>,
    keep: usize,
    is_cut: bool,
    exit: Option<ProgramExit>,
    until: Duration,
    waiting: Vec<Reply>,
}

impl Terminals {
    /// None yet; commands get a part of this environment.
    pub(super) fn new(launcher: Arc<dyn Launcher>, env: Vec<(OsString, OsString)>) -> Terminals {
        Terminals { launcher, env, open: BTreeMap::new(), count: 0 }
    }

    /// Starts a command in a folder; its name.
    pub(super) fn open(
        &mut self,
        wanted: &Wanted,
        folder: PathBuf,
        now: Duration,
    ) -> Result<String, AgentError> {
        if self.open.len() >= MAX_TERMINALS {
            return Err(AgentError::Bad(format!("{MAX_TERMINALS} terminals is the most: release one")));
        }
        let launched = self.launcher.launch(&wanted.program(folder, &self.env))?;
        launched.input.close();
        self.count += 1;
        let name = format!("t{}", self.count);
        let terminal = Terminal {
            output: launched.output,
            tree: Some(launched.tree),
            text: Vec::new(),
            keep: wanted.keep,
            is_cut: false,
            exit: None,
            until: now + MAX_COMMAND_TIME,
            waiting: Vec::new(),
        };
        self.open.insert(name.clone(), terminal);
        Ok(name)
    }

    /// Hears what the commands say, ends those that take too long, and answers who waits for an end.
    pub(super) fn tend(&mut self, now: Duration) {
        for terminal in self.open.values_mut() {
            terminal.hear();
            if terminal.exit.is_none() && now >= terminal.until {
                terminal.end();
            }
            if let Some(exit) = &terminal.exit {
                let status = status(exit);
                terminal.waiting.drain(..).for_each(|reply| reply.with(status.clone()));
            }
        }
    }

    /// Whether a command runs: what it prints is looked at again and again.
    pub(super) fn are_open(&self) -> bool {
        self.open.values().any(|terminal| terminal.exit.is_none())
    }

    /// Whether a command runs for whose end the agent waits: it is not silent then.
    pub(super) fn is_awaited(&self) -> bool {
        self.open.values().any(|terminal| !terminal.waiting.is_empty())
    }

    /// Answers a request about a terminal. Nothing that is not there is made.
    pub(super) fn answer(&mut self, method: &str, name: &str, reply: Reply) {
        let Some(terminal) = self.open.get_mut(name) else {
            return reply.missing(&format!("there is no terminal `{name}`"));
        };
        terminal.hear();
        match method {
            "terminal/output" => reply.with(terminal.to_output()),
            "terminal/wait_for_exit" => terminal.waiting.push(reply),
            "terminal/kill" => {
                terminal.end();
                reply.with(json!({}));
            }
            "terminal/release" => {
                self.open.remove(name);
                reply.with(json!({}));
            }
            _ => reply.unknown(),
        }
    }

    /// What a command has printed so far, as much of it as is kept.
    pub(super) fn output(&mut self, name: &str) -> Option<String> {
        let terminal = self.open.get_mut(name)?;
        terminal.hear();
        Some(String::from_utf8_lossy(&terminal.text).into_owned())
    }

    /// Ends all of them.
    pub(super) fn end(&mut self) {
        self.open.clear();
    }
}

impl Terminal {
    fn hear(&mut self) {
        while self.exit.is_none() {
            match self.output.next(Duration::ZERO) {
                None => return,
                Some(Heard::Line(line)) => {
                    self.text.extend_from_slice(&line);
                    self.text.push(b'\n');
                    self.shorten();
                }
                Some(Heard::Ended(exit)) => self.exit = Some(exit),
            }
        }
    }

    /// Twice as much as is kept may stand there, so that not every line moves all of it.
    fn shorten(&mut self) {
        if self.text.len() > 2 * self.keep {
            self.text.drain(..self.text.len() - self.keep);
            self.is_cut = true;
        }
    }

    fn end(&mut self) {
        if let Some(tree) = self.tree.take() {
            tree.end();
            self.hear();
            let how = String::from("it was ended");
            self.exit.get_or_insert_with(|| ProgramExit { how, ..ProgramExit::default() });
        }
    }

    fn to_output(&self) -> Json {
        let from = self.text.len().saturating_sub(self.keep);
        let is_cut = self.is_cut || from > 0;
        let text = String::from_utf8_lossy(&self.text[from..]);
        // The first character may have been cut in two.
        let text = text.trim_start_matches(|one| is_cut && one == char::REPLACEMENT_CHARACTER);
        json!({ "output": text, "truncated": is_cut, "exitStatus": self.exit.as_ref().map(status) })
    }
}

fn status(exit: &ProgramExit) -> Json {
    match exit.code {
        Some(code) => json!({ "exitCode": code, "signal": null }),
        None => json!({ "exitCode": null, "signal": exit.how }),
    }
}
