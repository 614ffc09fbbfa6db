//! `ftl status`, `why`, `log`: what people see of runs.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::runs::ASK;
use crate::support::{Dir, until};

/// Copies of a run under other names, each with a title of its own.
fn copies(dir: &Dir, count: usize) {
    let open = dir.database();
    let copy = "INSERT INTO runs (name, opened, changed, head, hash, epoch, owner, settled, summary) \
        SELECT ?1, opened, changed, head, hash, epoch, owner, settled, summary FROM runs WHERE number = 1";
    for number in 0..count {
        let letter = |at: usize| char::from(b"abcdefghjkmnpqrstuvwxyz"[number / at % 23]);
        let name: String = [1, 23].map(letter).iter().chain(&['0'; 6]).collect();
        open.execute(copy, [name]).unwrap();
    }
}

#[test]
fn no_runs_is_no_error() {
    let dir = Dir::new();
    assert_eq!(dir.ftl(&["status"]).code(0).out, "no runs\n");
    assert_eq!(
        dir.ftl(&["status", "--json"]).code(0).json(),
        serde_json::json!({ "version": 1, "runs": [], "campaign": { "status": "none" } })
    );
}

#[test]
fn status_stands_in_columns() {
    let dir = Dir::new();
    dir.protocol("ask", ASK).protocol("longer-name", ASK);
    dir.ftl(&["run", "ask", "objective=fix the parser"]).code(3);
    let (run, _) = dir.run(&["longer-name", "objective=second"]);
    dir.ftl(&["stop", &run, "--reason", "not now"]).code(0);
    let out = dir.ftl(&["status"]).code(0).out;
    let lines: Vec<&str> = out.lines().collect();
    let titles = ["second", "fix the parser"].map(|title| {
        let line = lines.iter().find(|line| line.ends_with(title)).unwrap_or_else(|| panic!("{out}"));
        line.find(title)
    });
    assert_eq!(titles[0], titles[1], "{out}");
    assert_eq!(lines[0].find("for"), titles[0], "{out}");
    assert!(lines.iter().any(|line| line.trim() == "not now"), "{out}");
    assert!(out.contains("          spent rounds 1/3\n"), "{out}");
}

#[test]
fn only_the_last_ended_runs_are_listed() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    dir.ftl(&["stop", &run]).code(0);
    copies(&dir, 29);
    dir.run(&["ask", "objective=still open"]);
    let out = dir.ftl(&["status"]).code(0).out;
    assert_eq!(out.matches("stopped ").count(), 10, "{out}");
    assert!(
        out.contains("still open") && out.ends_with("20 more have ended; `ftl status --all` shows them\n"),
        "{out}"
    );
    assert_eq!(dir.ftl(&["status", "--all"]).code(0).out.matches("stopped ").count(), 30);
    assert_eq!(dir.ftl(&["status", "--json"]).json()["runs"].as_array().unwrap().len(), 31);
    dir.ftl(&["audit", "verify"]).code(6);
}

#[test]
fn why_tells_what_is_open_and_what_to_type() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let out = dir.ftl(&["why", &run]).code(0).out;
    for line in [
        &format!("{run} ask in START: waiting\n"),
        "  asks        Good? [yes|no]\n",
        "  ways out    → the end      if reply == \"yes\" (not known yet)\n",
        "              → START        if not: reply == \"yes\" (not known yet)\n",
        &format!("  you can     ftl answer {run} VALUE\n"),
        &format!("              ftl override {run} START --reason …\n"),
        &format!("              ftl stop {run}\n"),
    ] {
        assert!(out.contains(line), "no {line:?} in\n{out}");
    }
    let json = dir.ftl(&["why", &run, "--json"]).code(0).json();
    assert_eq!((&json["run"], &json["standing"]), (&run.as_str().into(), &"waiting".into()));
    let one = &json["instances"][0];
    assert_eq!(one["questions"][0], "Good? [yes|no]");
    assert_eq!(one["ways_out"][0]["conditions"][0]["holds"], serde_json::Value::Null);
    assert_eq!(
        (&one["ways_out"][1]["open"], &one["ways_out"][1]["unless"][0]),
        (&false.into(), &"reply == \"yes\"".into())
    );
    assert_eq!(one["commands"][0], format!("ftl answer {run} VALUE"));
    dir.ftl(&["answer", &run, "yes"]).code(0);
    let out = dir.ftl(&["why", &run]).code(0).out;
    assert!(out.contains("ask in START: complete\n  said        yes\n"), "{out}");
    assert!(out.contains("it has ended; nothing leads on") && !out.contains("you can"), "{out}");
    dir.ftl(&["why", &format!("{run}/7")]).code(1).says(&["has no instance 7", "hint: it has only one"]);
}

#[test]
fn why_tells_of_a_failure_without_an_else() {
    let dir = Dir::new();
    dir.protocol("frail", "STATE: START\n  DO: sh \"echo the reason >&2; exit 3\"\n  GOTO: NEXT\nSTATE: NEXT\n  RETURN: complete\n");
    let (run, _) = dir.run(&["frail"]);
    dir.ftl(&["why", &run]).code(0).says(&[
        "frail in START: held",
        "held        exit code 3: the reason",
        "→ NEXT         as soon as it goes on",
        &format!("ftl resume {run}"),
        &format!("ftl override {run} NEXT --reason …"),
    ]);
    let held = dir.ftl(&["why", &run, "--json"]).code(0).json()["instances"][0]["held"][0].clone();
    assert_eq!(
        (&held["kind"], &held["can_resume"], &held["meter"]),
        (&"failed".into(), &true.into(), &serde_json::Value::Null)
    );
    dir.ftl(&["override", &run, "NEXT", "--reason", "done by hand"]).code(0).says(&["complete in NEXT"]);
}

#[test]
fn a_run_that_was_stopped_without_a_reason_leaves_no_blank_behind() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let ended = dir.ftl(&["stop", &run]).code(0);
    assert!(ended.out.ends_with(&format!("run {run} stopped in START\n")), "{ended:#?}");
    for args in [vec!["status"], vec!["status", &run], vec!["why", &run]] {
        let out = dir.ftl(&args).code(0).out;
        assert!(out.lines().all(|line| !line.trim().is_empty() && line.trim() != "reason"), "{out}");
    }
    assert!(dir.status(&run)["reason"].is_null());
}

#[test]
fn a_message_of_several_lines_is_shown_as_such() {
    let dir = Dir::new();
    dir.protocol(
        "frail",
        "STATE: START\n  DO: sh \"printf 'one\\\\ntwo\\\\n' >&2; exit 3\"\n  RETURN: complete\n",
    );
    let (run, _) = dir.run(&["frail"]);
    dir.ftl(&["why", &run]).code(0).says(&["held        exit code 3: one two\n"]);
    dir.write("script.toml", "[[scene]]\nto = \"sh\"\nvalue = = 3\n");
    let ended = dir.ftl(&["run", "frail", "--script", "script.toml"]).code(1);
    assert!(ended.err.contains("\n  3 | value = = 3\n") && !ended.err.contains('\u{fffd}'), "{ended:#?}");
    dir.protocol("silent", "STATE: START\n  DO: sh \"exit 3\"\n  RETURN: complete\n");
    dir.ftl(&["run", "silent"]).code(3).says(&["held: exit code 3\n", "held in START: exit code 3\n"]);
}

#[test]
fn why_explains_every_instance_that_goes_on() {
    let dir = Dir::new();
    dir.protocol("child", ASK);
    dir.protocol(
        "parent",
        "STATE: START\n  DO: it = Run(child) objective=\"x\"\n  RETURN: complete was={it.verdict}\n",
    );
    let (run, json) = dir.run(&["parent"]);
    assert_eq!((&json["waits"][0]["instance"], &json["instances"]), (&1.into(), &serde_json::json!([2, 0])));
    let out = dir.ftl(&["why", &run]).code(0).says(&["waits for   instance 1, Run(child)"]).out;
    assert!(out.contains(&format!("{run}/1 child in START: waiting")), "{out}");
    assert!(out.contains(&format!("ftl answer {run}/1 VALUE")), "{out}");
    let one = dir.ftl(&["why", &format!("{run}/1")]).code(0).out;
    assert!(!one.contains("parent"), "{one}");
    dir.ftl(&["status"]).code(0).says(&[&format!("ftl answer {run}/1 VALUE"), "0 of 2 instances have ended"]);
    // There is only one question in the whole run: the run is enough of a name.
    dir.ftl(&["answer", &run, "yes"]).code(0).says(&["complete in START"]);
    let lines = dir.ftl(&["log", &run]).code(0).out;
    assert!(lines.contains("[1] ") && lines.contains("opened child"), "{lines}");
    let own = dir.ftl(&["log", &format!("{run}/1"), "--all"]).code(0).out;
    assert!(own.lines().all(|line| line.contains("[1] ")), "{own}");
}

#[test]
fn the_log_is_lines_for_people_and_for_programs() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let entries = dir.entries(&run);
    let numbers: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
    for entry in &entries {
        assert_eq!((&entry["run"], &entry["epoch"]), (&run.as_str().into(), &1.into()));
        assert_eq!(entry["hash"].as_str().unwrap().len(), 64);
        assert!(entry["time"].as_str().unwrap().ends_with('Z'));
    }
    let out = dir.ftl(&["log", &run, "--all"]).code(0).out;
    assert_eq!(out.lines().count(), entries.len());
    assert!(out.lines().all(|line| line == line.trim_end()), "{out:?}");
    let after = dir.ftl(&["log", &run, "--all", "--after", "2"]).code(0).out;
    assert_eq!(after.lines().count(), entries.len() - 2);
}

/// How many entries a line says were passed over before it.
fn hidden(line: &str) -> Option<usize> {
    line.split_whitespace().nth(2)?.strip_prefix('+')?.parse().ok()
}

#[test]
fn the_log_of_people_is_folded_and_nothing_is_lost_in_the_count() {
    let dir = Dir::new();
    let text = "LIMIT: turns_left = 3 ELSE HOLD\nSTATE: START\n  PAY: turns_left\n  DO: out = sh \"echo hi\"\n  \
        DO: sh \"exit 7\" ELSE LATER\n  RETURN: complete\nSTATE: LATER\n  \
        ASK: reply = \"Go on?\" choices=yes|no\n  EMIT: \"it said {reply}\"\n  RETURN: complete\n";
    dir.protocol("fold", text);
    let (run, json) = dir.run(&["fold"]);
    assert_eq!(json["standing"], "waiting", "{json:#}");
    dir.ftl(&["answer", &run, "yes", "--by", "Ada"]).code(0);
    let entries = dir.entries(&run);
    let out = dir.ftl(&["log", &run]).code(0).out;
    for shown in
        ["opened fold", "START → LATER", "sh: failed exit code 7", "from Ada", "it said yes", "complete"]
    {
        assert!(out.contains(shown), "{shown}: {out}");
    }
    for bookkeeping in ["paid", "asked", "set ", "reserved"] {
        assert!(!out.contains(bookkeeping), "{bookkeeping}: {out}");
    }
    let counted: usize = out.lines().filter_map(hidden).sum();
    let shown = out.lines().count() - 1;
    assert_eq!(shown + counted, entries.len(), "the last entry is shown: {out}");
    assert!(
        counted > 0 && out.ends_with(&format!("{counted} more entries are not shown; --all shows them\n")),
        "{out}"
    );
    assert_eq!(dir.ftl(&["log", &run, "--all"]).code(0).out.lines().count(), entries.len());
}

#[test]
fn a_log_that_is_followed_ends_with_its_run() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let following = [
        dir.start(&["log", &run, "--follow", "--all"]),
        dir.start(&["log", &run, "-f", "--json"]),
        dir.start(&["watch", &run]),
        dir.start(&["watch", &run, "--json"]),
    ];
    dir.ftl(&["answer", &run, "no"]).code(0);
    dir.ftl(&["answer", &run, "yes"]).code(0);
    let entries = dir.entries(&run).len();
    for (index, one) in following.into_iter().enumerate() {
        let ended = one.ended().code(0);
        assert_eq!(ended.out.lines().count(), entries, "{index}: {}", ended.out);
        if index % 2 == 1 {
            assert!(ended.out.lines().all(|line| line.starts_with('{')), "{}", ended.out);
        }
    }
}

#[test]
fn watching_without_a_terminal_prints_every_entry_of_every_run() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (old, _) = dir.run(&["ask", "objective=old"]);
    dir.ftl(&["stop", &old]).code(0);
    let (one, _) = dir.run(&["ask", "objective=one"]);
    let watching = dir.start(&["watch"]);
    until("it watches", || watching.out().contains(&one));
    let (two, _) = dir.run(&["ask", "objective=two"]);
    dir.ftl(&["answer", &one, "yes"]).code(0);
    let all = dir.entries(&one).len() + dir.entries(&two).len();
    until("everything was printed", || watching.out().lines().count() >= all);
    watching.signal(rustix::process::Signal::INT);
    let out = watching.ended().code(130).out;
    assert!(out.lines().all(|line| line.starts_with(&one) || line.starts_with(&two)), "{out}");
    assert_eq!(out.lines().count(), all, "{out}");
}

#[test]
fn watching_waits_for_the_first_run() {
    let dir = Dir::new();
    let watching = dir.start(&["watch"]);
    until("it says that it waits", || watching.err().contains("no runs yet"));
    assert!(!dir.path(".ftl").exists());
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    until("the run is seen", || watching.out().contains(&run));
    watching.signal(rustix::process::Signal::TERM);
    watching.ended().code(130);
}

/// A reader that takes one line and goes, as `head -1` does: whoever prints ends, although the run goes
/// on waiting and nothing more is ever printed.
#[test]
fn a_stream_ends_with_its_reader() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    for args in
        [&["log", &run, "--follow"][..], &["log", &run, "--follow", "--json"], &["watch"], &["watch", &run]]
    {
        let mut child = dir.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("opened"), "{line}");
        let mut ended = None;
        until("it has ended", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0), "{args:?}");
    }
}

#[test]
fn status_of_an_instance_shows_that_instance() {
    let dir = Dir::new();
    dir.protocol("parent", "STATE: ROOM\n  DO: Run(child) word=one\n  RETURN: complete\n");
    dir.protocol("child", "INPUT: word\nSTATE: DESK\n  ASK: how = \"How, {word}?\" choices=so|thus\n  RETURN: blocked reason={how}\n");
    let (run, _) = dir.run(&["parent"]);
    let shown = dir.status(&format!("{run}/1"));
    assert_eq!(
        (&shown["instance"], &shown["protocol"], &shown["state"]),
        (&1.into(), &"child".into(), &"DESK".into())
    );
    assert_eq!((&shown["standing"], &shown["instances"]), (&"waiting".into(), &serde_json::json!([1, 0])));
    assert!(shown["waits"][0]["text"].as_str().unwrap().starts_with("How, one?"), "{shown:#}");
    dir.ftl(&["status", &format!("{run}/1")]).code(0).says(&[&format!("{run}/1"), "child DESK", "How, one?"]);
    dir.ftl(&["status", &format!("{run}/7")]).code(1).says(&["has no instance 7"]);
    assert_eq!(dir.status(&run)["instance"], serde_json::Value::Null);
    dir.ftl(&["answer", &run, "so"]).says(&["complete"]);
    let ended = dir.status(&format!("{run}/1"));
    assert_eq!((&ended["standing"], &ended["reason"]), (&"blocked".into(), &"so".into()));
}
