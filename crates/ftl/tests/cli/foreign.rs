//! Agents that somebody else started: what they type is no person's word, and what they open may do less.

use std::fs;
use std::process::Command;

use ftl_needs::needs;
use ftl_process::foreign::VARIABLES;

use crate::live::Terminal;
use crate::support::{CommandOutcome, Dir, ended, until};

const FTL: &str = env!("CARGO_BIN_EXE_ftl");

const ASK: &str = "INPUT: objective\nSTATE: START\n  ASK: reply = \"Good?\" choices=yes|no\n  RETURN: complete said={reply}\n";

/// A person's words about a run.
const WORDS: &[&str] = &[
    "answer RUN yes",
    "override RUN START --reason x",
    "raise RUN turns 9000 --reason x",
    "stop RUN",
    "resume RUN",
    "undo",
    "trust --yes",
    "accept",
    "redo planning --reason x",
    "adopt",
    "next --override x",
    "memory quarantine --release x",
];

fn stage() -> (Dir, String) {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n").protocol("ask", ASK);
    dir.git(&["add", "a.txt"]);
    dir.git(&["commit", "-qm", "begin"]);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    (dir, run)
}

/// The command with an environment from nothing, in a session without a terminal.
fn detached(dir: &Dir, words: &str, env: &[(&str, &str)]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--wait", FTL]).args(words.split(' ')).current_dir(dir.path("")).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", dir.settings()).env("FTL_BY", "Ada");
    command.env("XDG_CONFIG_HOME", dir.settings()).env("XDG_CACHE_HOME", dir.cache());
    command.envs(env.iter().copied()).stdin(std::process::Stdio::null());
    command
}

/// What a command comes to that an agent's program types, in a process-id namespace of its own.
fn typed_by(dir: &Dir, agent: &str, words: &str) -> CommandOutcome {
    let program = dir.path(agent);
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy("/bin/sh", &program).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]).arg(&program).arg("-c");
    // The shell stays: it is the agent.
    command.arg(format!("{FTL} {words}; exit $?")).current_dir(dir.path("")).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", dir.settings()).env("FTL_BY", "Ada");
    command.env("XDG_CONFIG_HOME", dir.settings()).env("XDG_CACHE_HOME", dir.cache());
    ended(command)
}

#[needs(root)]
#[test]
fn a_person_s_word_below_an_agent_s_program_is_refused() {
    let (dir, run) = stage();
    let before = dir.status(&run);
    for word in WORDS {
        let said = typed_by(&dir, "bin/claude", &word.replace("RUN", &run));
        said.code(4).says(&["Claude Code (process ", "only a person may say it", "terminal of your own"]);
    }
    for (program, agent) in
        [("bin/codex", "Codex"), ("bin/gemini", "Gemini CLI"), ("bin/opencode", "opencode")]
    {
        typed_by(&dir, program, &format!("answer {run} yes")).code(4).says(&[agent]);
    }
    assert_eq!(dir.status(&run), before);
    // A program that only sounds like one is none.
    typed_by(&dir, "bin/claudette", &format!("answer {run} yes")).code(0);
}

#[test]
fn a_variable_alone_asks_and_without_a_terminal_refuses() {
    let (dir, run) = stage();
    let before = dir.status(&run);
    for (name, agent) in VARIABLES {
        let said = ended(detached(&dir, &format!("answer {run} yes"), &[(name, "1")]));
        said.code(4).says(&[agent, &format!("unset {name}")]);
    }
    assert_eq!(dir.status(&run), before);
    let mut command = dir.command(&["answer", &run, "yes"]);
    command.env("CLAUDECODE", "1").env("FTL_BY", "Ada");
    for (typed, code) in [("y", 4), ("no", 4), ("yes", 0)] {
        let terminal = Terminal::controlling(&command);
        until("it asks", || terminal.text().contains("are you a person? type yes:"));
        terminal.enter(typed);
        let (ended, text) = terminal.ended();
        assert_eq!(ended, code, "{typed}: {text}");
    }
    // An empty one is none.
    let (dir, run) = stage();
    ended(detached(&dir, &format!("answer {run} yes"), &[("CLAUDECODE", "")])).code(0);
}

#[test]
fn looking_is_free_and_a_run_that_an_agent_opens_may_do_less() {
    let (dir, run) = stage();
    let agent: &[(&str, &str)] = &[("CODEX_THREAD_ID", "t")];
    for words in ["status", "check", &format!("why {run}"), "config"] {
        ended(detached(&dir, words, agent)).code(0);
    }
    dir.write(".ftl/config.toml", "[limits]\ntokens = \"3M\"\nmoney = 1\n[policies]\nask = \"yes\"\n");
    let opened = ended(detached(&dir, "run ask objective=y --json", agent)).code(3);
    assert!(opened.err.contains("opened by Codex (CODEX_THREAD_ID is set)"), "{opened:#?}");
    let json = opened.json();
    assert_eq!(json["standing"], "waiting", "nobody answers in a person's place: {json:#}");
    assert_eq!(json["meters"]["tokens"]["limit"], 1_000_000, "{json:#}");
    assert_eq!(json["meters"]["money"]["limit"], 1_000_000, "what is smaller already stays: {json:#}");
    let first = &dir.entries(json["run"].as_str().unwrap())[0];
    assert!(first.to_string().contains("opened by an agent: Codex"), "{first:#}");
    // A person's run beside it is as it was.
    let (_, mine) = dir.run(&["ask", "objective=z"]);
    assert_eq!(
        (&mine["standing"], &mine["meters"]["tokens"]["limit"]),
        (&"complete".into(), &3_000_000.into())
    );
}
