//! Agents that somebody else started: whether one of them has typed a command, and not the person.
//!
//! A program in the line of parents is a sign that nobody takes away by clearing an environment. A variable is a weak one:
//! a terminal multiplexer that was once started by an agent carries it into every window. Nothing here decides what
//! follows from a sign.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use super::lineage::{Ancestor, ProcessView};
use super::procfs::ProcFs;

/// Variables that agents set for what they start, each with who sets it.
pub const VARIABLES: [(&str, &str); 7] = [
    ("CLAUDECODE", "Claude Code"),
    ("AI_AGENT", "an agent"),
    ("CODEX_SANDBOX", "Codex"),
    ("CODEX_THREAD_ID", "Codex"),
    ("GEMINI_CLI", "Gemini CLI"),
    ("CURSOR_AGENT", "Cursor"),
    ("OPENCODE", "opencode"),
];

/// Programs of agents, by their file names, each with its own name.
const PROGRAMS: [(&str, &str); 17] = [
    ("claude", "Claude Code"),
    ("codex", "Codex"),
    ("gemini", "Gemini CLI"),
    ("cursor-agent", "Cursor"),
    ("opencode", "opencode"),
    ("goose", "goose"),
    ("qwen", "Qwen Code"),
    ("copilot", "Copilot CLI"),
    ("aider", "Aider"),
    ("amp", "Amp"),
    ("auggie", "Auggie"),
    ("droid", "Droid"),
    ("crush", "Crush"),
    ("kimi", "Kimi Code"),
    ("kilo", "Kilo"),
    ("cline", "Cline"),
    ("openhands", "OpenHands"),
];

/// Packages of agents that an interpreter runs, by a part of the path of their script.
const PACKAGES: [(&str, &str); 6] = [
    ("@anthropic-ai/claude-code/", "Claude Code"),
    ("@openai/codex/", "Codex"),
    ("@google/gemini-cli/", "Gemini CLI"),
    ("@qwen-code/qwen-code/", "Qwen Code"),
    ("@github/copilot/", "Copilot CLI"),
    ("opencode-ai/", "opencode"),
];

/// Programs that run a script, which is their first word that is no option.
const INTERPRETERS: [&str; 8] = ["node", "nodejs", "bun", "deno", "python", "python3", "sh", "bash"];

/// What shows that an agent which is not ours has typed a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignSign {
    /// Its program is in the line of parents.
    Program {
        /// Which process.
        pid: i32,
        /// What it is.
        agent: &'static str,
    },
    /// A variable that it sets is there, and its program is not.
    Variable {
        /// Which variable.
        name: &'static str,
        /// Who sets it.
        agent: &'static str,
    },
}

impl ForeignSign {
    /// The agent.
    pub const fn agent(&self) -> &'static str {
        match self {
            ForeignSign::Program { agent, .. } | ForeignSign::Variable { agent, .. } => agent,
        }
    }
}

impl fmt::Display for ForeignSign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignSign::Program { pid, agent } => write!(out, "{agent} (process {pid})"),
            ForeignSign::Variable { name, agent } => write!(out, "{agent} ({name} is set)"),
        }
    }
}

/// The sign of an agent above a process, the line of which begins with the process itself; `is_set` tells whether a
/// variable is there.
pub fn find(line: &[Ancestor], is_set: &dyn Fn(&str) -> bool) -> Option<ForeignSign> {
    let program = line
        .iter()
        .skip(1)
        .find_map(|one| Some(ForeignSign::Program { pid: one.who.pid, agent: agent_of(one)? }));
    let variable = || {
        let (name, agent) = VARIABLES.into_iter().find(|(name, _)| is_set(name))?;
        Some(ForeignSign::Variable { name, agent })
    };
    program.or_else(variable)
}

/// The sign of an agent above this very process. Where the line cannot be read, variables alone tell.
pub fn look() -> Option<ForeignSign> {
    let line =
        ProcFs::open().and_then(|proc| ProcessView::read_of(&proc, proc.own_pid()?)).map(|view| view.line);
    find(&line.unwrap_or_default(), &|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Which agent a process is, by its program, the name it was called by, or the script that it runs.
fn agent_of(one: &Ancestor) -> Option<&'static str> {
    let by_name = |path: &Path| {
        let name = path.file_name().and_then(OsStr::to_str)?;
        PROGRAMS.into_iter().find(|(program, _)| *program == name).map(|(_, agent)| agent)
    };
    let by_package =
        |path: &str| PACKAGES.into_iter().find(|(part, _)| path.contains(part)).map(|(_, agent)| agent);
    let program = one.program.as_deref();
    let called = one.words.first().map(Path::new);
    let found = program.and_then(by_name).or_else(|| called.and_then(by_name));
    if found.is_some() {
        return found;
    }
    if let Some(agent) = program.and_then(Path::to_str).and_then(by_package) {
        return Some(agent);
    }
    let name = program.or(called)?.file_name()?.to_str()?;
    let is_interpreter = INTERPRETERS.iter().any(|one| {
        name.strip_prefix(one)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    });
    let mut words = one.words.iter().skip(1).filter_map(|word| word.to_str());
    let script = words.find(|word| !word.starts_with('-')).filter(|_| is_interpreter)?;
    let plain =
        [".js", ".mjs", ".cjs", ".py"].iter().find_map(|end| script.strip_suffix(end)).unwrap_or(script);
    by_name(Path::new(plain)).or_else(|| by_package(script))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::*;
    use crate::table::Identity;

    fn one(pid: i32, program: &str, words: &str) -> Ancestor {
        Ancestor {
            who: Identity { pid, start: 7 },
            words: words.split(' ').map(OsString::from).collect(),
            program: (!program.is_empty()).then(|| PathBuf::from(program)),
            environment: Vec::new(),
        }
    }

    #[test]
    fn programs_in_the_line_are_a_table() {
        for (program, words, wanted) in [
            ("/usr/local/bin/claude", "claude -p x", Some("Claude Code")),
            ("/srv/a/.local/share/claude/versions/2.1.325", "claude", Some("Claude Code")),
            ("/opt/x/codex", "/opt/x/codex exec", Some("Codex")),
            ("/usr/bin/node", "node /usr/bin/gemini --yolo", Some("Gemini CLI")),
            (
                "/usr/bin/node",
                "node --no-warnings /usr/lib/node_modules/@google/gemini-cli/dist/index.js",
                Some("Gemini CLI"),
            ),
            ("/usr/bin/python3.12", "python3 /srv/a/venv/bin/aider x", Some("Aider")),
            ("/usr/bin/python3.12", "python3 /x/aider.py", Some("Aider")),
            ("/x/node_modules/opencode-ai/bin/run", "run", Some("opencode")),
            ("", "goose run", Some("goose")),
            ("/bin/bash", "bash -c codex", Some("Codex")),
            ("/bin/bash", "bash", None),
            ("/usr/bin/vim", "vim claude", None),
            ("/usr/bin/tmux", "tmux new -s claude", None),
            ("/usr/bin/cursor", "cursor .", None),
            ("/usr/bin/claude-notes", "claude-notes", None),
            ("/usr/bin/node", "node /srv/app/server.js", None),
        ] {
            let found = agent_of(&one(5, program, words));
            assert_eq!(found, wanted, "{program} {words}");
        }
    }

    #[test]
    fn a_program_above_counts_more_than_a_variable_and_the_command_itself_is_none() {
        let (ftl, shell, claude) =
            (one(9, "/bin/ftl", "ftl"), one(8, "/bin/sh", "sh"), one(7, "/bin/claude", "claude"));
        let line = [ftl.clone(), shell.clone(), claude.clone()];
        let (none, marked) = (|_: &str| false, |name: &str| name == "GEMINI_CLI");
        let program = Some(ForeignSign::Program { pid: 7, agent: "Claude Code" });
        assert_eq!(find(&line, &none), program);
        assert_eq!(find(&line, &marked), program);
        let variable = Some(ForeignSign::Variable { name: "GEMINI_CLI", agent: "Gemini CLI" });
        assert_eq!(find(&line[..2], &marked), variable);
        assert_eq!(find(&line[..2], &none), None);
        assert_eq!(find(&[claude], &none), None);
        for (name, agent) in VARIABLES {
            let found = find(&[ftl.clone(), shell.clone()], &|one| one == name);
            assert_eq!(found, Some(ForeignSign::Variable { name, agent }));
        }
    }
}
