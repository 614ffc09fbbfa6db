//! Limits with a hint (finding 16), and messages that say what really failed (finding 17).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::machine::{BUILD, bind, stage};
use crate::support::{CommandOutcome, Dir, ended};
use crate::tally::Tally;

/// Runs `ftl` under a limit of the shell.
fn limited(dir: &Dir, limit: &str, args: &[&str]) -> CommandOutcome {
    let wanted = dir.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_ftl")]).args(args);
    command
        .current_dir(dir.path(""))
        .envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ended(command)
}

#[test]
fn a_limit_that_is_too_low_is_named_before_anything_begins() {
    let dir = stage("#!/bin/sh\n");
    let mut tally = Tally::of("P13 low limits end with a hint");
    for (limit, what) in [
        ("-v 262144", "address space"),
        ("-v 524288", "address space"),
        ("-s 64", "stack"),
        ("-s 512", "stack"),
    ] {
        let ended = limited(&dir, limit, &BUILD);
        let told = ended.err.contains(what) && ended.err.contains("hint: raise it: `ulimit -");
        let good = ended.code == 1 && told;
        tally.count((!good).then(|| format!("{limit}: {ended:#?}")));
        // Whoever only looks is not disturbed.
        let looks = limited(&dir, limit, &["status", "--json"]);
        tally.count((looks.code != 0).then(|| format!("{limit}: {looks:#?}")));
    }
    assert_eq!(dir.ftl(&["status", "--json"]).code(0).json()["runs"].as_array().map(Vec::len), Some(0));
    tally.close();
}

#[test]
fn a_path_that_is_no_text_is_refused_with_that_reason() {
    let outer = Dir::new();
    let folder = outer.path("").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir_all(folder.join(".git")).unwrap();
    let inner = Dir::at(&folder);
    inner.protocol("tell", "STATE: START\n  RETURN: complete\n");
    let ended = inner.ftl(&["run", "tell"]).code(1);
    assert!(
        ended.err.contains("is not UTF-8") && ended.err.contains("hint: rename the folder"),
        "{ended:#?}"
    );
    inner.ftl(&["status"]).code(0);
}

#[test]
fn a_raise_that_raises_nothing_is_refused_as_the_table_says() {
    let dir = Dir::new();
    dir.protocol(
        "wait",
        "LIMIT: rounds = 3 ELSE HOLD\nSTATE: START\n  PAY: rounds\n  ASK: go = \"on?\"\n  RETURN: complete\n",
    );
    let (run, json) = dir.run(&["wait"]);
    assert_eq!(json["standing"], "waiting", "{json:#}");
    for limit in ["3", "2"] {
        dir.ftl(&["raise", &run, "rounds", limit, "--reason", "more"]).code(4).says(&["already 3", "hint:"]);
    }
    dir.ftl(&["raise", &run, "rounds", "4", "--reason", "more", "--no-wait"]).code(0);
}

/// Stops its own guard the first time, and answers the second time.
const STOPS: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 1; exit 0; }
root=$(dirname "$0")
cat > /dev/null
echo start >> "$root/starts"
if [ "$(wc -l < "$root/starts")" = 1 ]; then
  kill -STOP $PPID
  exec sleep 600
fi
echo '{"kind":"over","fine":true,"answer":{"summary":"done"}}'
"#;

#[test]
fn an_agent_that_stops_its_guard_is_ended_within_seconds() {
    let dir = Dir::new();
    dir.protocol(
        "code",
        "STATE: START\n  DO: work = Task(coder)\n  RETURN: complete summary={work.summary}\n",
    );
    bind(&dir, STOPS, &["coder"]);
    let began = Instant::now();
    let (run, json) = dir.run(&["code"]);
    let took = began.elapsed();
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!(dir.read("starts").lines().count(), 2);
    // It took the two minutes of a silence before.
    assert!(took < Duration::from_secs(60), "{took:?}");
    let log = dir.ftl(&["log", &run]).code(0).out;
    assert!(log.contains("its guard was killed or did not answer"), "{log}");
    let mut tally = Tally::of("P9 an agent that stops its guard is ended");
    tally.count(None);
    tally.close();
}
