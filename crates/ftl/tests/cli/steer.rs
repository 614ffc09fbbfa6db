//! `ftl answer`, `override`, `raise`, `stop`, `resume`: what a person tells a run.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::runs::ASK;
use crate::support::{Dir, until};

const WORDS: &str = "LIMIT: rounds = 5 ELSE HOLD\nSTATE: DESK\n  WAIT: said = redo | next\n  \
    IF: said.redo → PAY: rounds, GOTO DESK\n  IF: said.next → RETURN complete by={said.by} why={said.reason}\n";

fn asking() -> (Dir, String) {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    (dir, run)
}

#[test]
fn an_answer_drives_the_run_on() {
    let (dir, run) = asking();
    let ended = dir.ftl(&["answer", &run, "no"]).code(0).says(&["START → START", "waiting in START"]);
    assert!(ended.out.ends_with(&format!("hint: `ftl answer {run} VALUE` answers: Good? [yes|no]\n")));
    let json = dir.ftl(&["answer", &run, "yes", "--json"]).code(0).json();
    assert_eq!((&json["run"], &json["standing"]), (&run.as_str().into(), &"complete".into()));
    assert_eq!(json["interrupted"], false);
    let heard = dir.entries(&run).into_iter().filter(|entry| entry["fact"] == "heard");
    assert!(heard.into_iter().all(|entry| entry["by"] == "tester"));
}

#[test]
fn an_answer_that_does_not_fit_is_refused_and_recorded() {
    let (dir, run) = asking();
    let ended = dir.ftl(&["answer", &run, "maybe"]).code(1);
    assert_eq!(ended.out, "", "an error is no answer");
    ended.says(&[
        "error: the answer: expected one of no|yes, found `maybe`",
        &format!("hint: `ftl why {run}`"),
    ]);
    let last = dir.entries(&run).pop().unwrap();
    assert_eq!((&last["fact"], &last["by"]), (&"refused".into(), &"tester".into()));
    assert_eq!(dir.status(&run)["standing"], "waiting");
    let json = dir.ftl(&["answer", &run, "maybe", "--json"]).code(1).json();
    assert_eq!(json["ok"], false);
}

/// Asks about each of a list, all at once.
const SEVERAL: &str = "INPUT: items\nSTATE: ASKING\n  DO: all = FOR EACH one IN items BY one\n    \
    ASK: reply = \"What about {one}?\" choices=yes|no\n    DO: sh \"echo {one} {reply} >> said\"\n  RETURN: complete\n";

#[test]
fn one_of_several_questions_is_answered_by_its_name() {
    let dir = Dir::new();
    dir.protocol("several", SEVERAL);
    let (run, json) = dir.run(&["several", "items=[\"a\",\"b\"]"]);
    let name = |at: usize| json["waits"][at]["action"].as_str().unwrap().to_owned();
    let (a, b) = (name(0), name(1));
    let typed = |name: &str| format!("ftl answer {run} VALUE --question {name}");
    // Whoever shows the run names both.
    for args in [vec!["status"], vec!["status", &run], vec!["why", &run]] {
        dir.ftl(&args).code(0).says(&[&typed(&a), &typed(&b)]);
    }
    let why = dir.ftl(&["why", &run, "--json"]).code(0).json()["instances"][0].clone();
    assert_eq!(why["asks"][1], serde_json::json!({ "question": b, "text": "What about b? [yes|no]" }));
    dir.ftl(&["answer", &run, "yes"])
        .code(1)
        .says(&["several questions are open", &format!("hint: name one of {a}, {b} with --question")]);
    dir.ftl(&["answer", &run, "yes", "--question", "99.0"])
        .code(5)
        .says(&["no question 99.0 is open in ASKING", &format!("hint: open here: {a}, {b}")]);
    dir.ftl(&["answer", &run, "yes", "--question", "b"]).code(2).says(&["`b` is no question", "such as 3.0"]);
    dir.ftl(&["answer", &run, "no", "--question", &b]).code(0);
    assert_eq!(dir.read("said"), "b no\n");
    // Only one is left: it needs no name any more.
    let out = dir.ftl(&["why", &run]).code(0).says(&[&format!("ftl answer {run} VALUE\n")]).out;
    assert!(!out.contains("--question"), "{out}");
    dir.ftl(&["answer", &run, "yes"]).code(0).says(&["complete"]);
    assert_eq!(dir.read("said"), "b no\na yes\n");
}

#[test]
fn the_question_of_a_child_is_found_by_its_name_and_named_in_the_hint() {
    let dir = Dir::new();
    dir.protocol("ask", ASK).protocol(
        "parent",
        "INPUT: items\nSTATE: ALL\n  DO: all = FOR EACH one IN items BY one\n    DO: Run(ask) objective={one}\n  RETURN: complete\n",
    );
    // More than a summary names.
    let items: Vec<String> = (0..25).map(|number| format!("{number:02}")).collect();
    let (run, _) = dir.run(&["parent", &format!("items={}", serde_json::json!(items))]);
    dir.ftl(&["answer", &run, "yes"]).code(5).says(&[
        "no question is open in ALL",
        "hint: instance 1 asks ",
        "; instance 5 asks ",
    ]);
    let asked = dir.entries(&run).into_iter().rev().find(|entry| entry["instance"] == 25).unwrap();
    assert_eq!(asked["fact"], "asked");
    let name = format!("{}.0", asked["seq"]);
    dir.ftl(&["answer", &run, "yes", "--question", &name]).code(0);
    let heard =
        dir.entries(&run).into_iter().find(|entry| entry["fact"] == "heard" && entry["by"] == "tester");
    assert_eq!(heard.unwrap()["instance"], 25);
}

#[test]
fn an_answer_comes_from_standard_input() {
    let (dir, run) = asking();
    let mut command = dir.command(&["answer", &run, "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"yes\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(dir.status(&run)["standing"], "complete");
}

#[test]
fn a_word_is_said_with_its_reason() {
    let dir = Dir::new();
    dir.protocol("desk", WORDS);
    let (run, json) = dir.run(&["desk"]);
    assert_eq!((&json["standing"], &json["waits"][0]["what"]), (&"waiting".into(), &"word".into()));
    dir.ftl(&["answer", &run, "plan"])
        .code(5)
        .says(&["`plan` is not taken in DESK", "hint: it waits for redo, next"]);
    dir.ftl(&["answer", &run, "redo"]).code(0).says(&["DESK → DESK", "says one of: redo | next"]);
    dir.ftl(&["answer", &run, "next", "--reason", "done", "--by", "Grace"]).code(0);
    let settled = dir.entries(&run).pop().unwrap();
    assert_eq!((&settled["values"]["by"], &settled["values"]["why"]), (&"Grace".into(), &"done".into()));
}

#[test]
fn an_override_takes_a_declared_edge_and_no_other() {
    let (dir, run) = asking();
    dir.ftl(&["override", &run, "NOWHERE", "--reason", "x"])
        .code(5)
        .says(&["there is no edge START → NOWHERE", "hint: from here it goes to START"]);
    dir.ftl(&["override", &run, "START", "--reason", " "]).code(1).says(&["the reason is blank"]);
    dir.ftl(&["override", &run, "START"]).code(2).says(&["--reason"]);
    dir.ftl(&["override", &run, "START", "--reason", "seen by hand"])
        .code(0)
        .says(&["override to START by tester: seen by hand"]);
    let waived = dir.entries(&run).into_iter().find(|entry| entry["fact"] == "waived").unwrap();
    assert_eq!((&waived["by"], &waived["reason"]), (&"tester".into(), &"seen by hand".into()));
    let json = dir.ftl(&["override", &run, "START", "--reason", "again", "--json"]).code(0).json();
    assert_eq!(json["standing"], "waiting");
}

#[test]
fn a_limit_is_raised_and_what_it_held_goes_on() {
    let (dir, run) = asking();
    for _ in 0..3 {
        dir.ftl(&["answer", &run, "no"]).code(0);
    }
    assert_eq!(dir.status(&run)["standing"], "held");
    dir.ftl(&["why", &run])
        .code(0)
        .says(&["held        rounds spent: the limit is 3", &format!("ftl raise {run} rounds 6 --reason …")]);
    dir.ftl(&["raise", &run, "rounds", "3", "--reason", "x"]).code(4).says(&["already 3"]);
    dir.ftl(&["raise", &run, "round", "9", "--reason", "x"])
        .code(1)
        .says(&["has no limit `round`", "hint: its limits: rounds, money, time, tokens, turns"]);
    dir.ftl(&["raise", &run, "rounds", "many", "--reason", "x"]).code(2).says(&["`many` is not a number"]);
    assert_eq!(dir.status(&run)["standing"], "held");
    let json = dir.ftl(&["raise", &run, "rounds", "4", "--reason", "nearly", "--json"]).code(0).json();
    assert_eq!((&json["standing"], &json["meters"]["rounds"]["limit"]), (&"waiting".into(), &4.into()));
    dir.ftl(&["answer", &run, "yes"]).code(0).says(&["complete in START"]);
}

#[test]
fn a_run_that_has_ended_takes_no_orders() {
    let (dir, run) = asking();
    dir.ftl(&["stop", &run, "--reason", "wrong branch"]).code(0).says(&["stopped in START: wrong branch"]);
    let before = dir.status(&run)["entry"].clone();
    for args in
        [vec!["answer", &run, "yes"], vec!["override", &run, "START", "--reason", "x"], vec!["stop", &run]]
    {
        dir.ftl(&args).code(5).says(&["instance 0 has ended: stopped", "hint: "]);
    }
    // The run keeps the refusals, and nothing else has changed.
    assert_eq!(dir.status(&run)["standing"], "stopped");
    assert!(dir.status(&run)["entry"].as_u64() >= before.as_u64());
    dir.ftl(&["resume", &run]).code(3).says(&["stopped in START"]);
}

#[test]
fn a_run_that_is_held_is_asked_again_by_resume() {
    let dir = Dir::new();
    dir.protocol("flaky", "STATE: START\n  DO: sh \"test -e mended\"\n  RETURN: complete\n");
    let (run, json) = dir.run(&["flaky"]);
    assert_eq!(json["standing"], "held");
    dir.ftl(&["resume"]).code(0).says(&["nothing to resume"]);
    // It is not taken, and it is told why, and what takes it.
    let command = format!("ftl resume {run}");
    dir.ftl(&["resume"]).code(0).says(&[&command, "held", "exit code 1"]);
    let held =
        serde_json::json!([{ "run": run, "state": "START", "why": "exit code 1", "command": command }]);
    let told = dir.ftl(&["resume", "--json"]).code(0).json();
    assert_eq!(told, serde_json::json!({ "version": 1, "runs": [], "held": held }));
    dir.ftl(&["resume", &run]).code(3).says(&["held in START"]);
    dir.write("mended", "");
    let json = dir.ftl(&["resume", &run, "--json"]).code(0).json();
    assert_eq!(json["standing"], "complete");
    dir.ftl(&["answer", &run, "x"]).code(5);
}

/// A child for each of a list.
const PARENT: &str = "INPUT: items\nSTATE: ALL\n  DO: all = FOR EACH one IN items BY one\n    \
    DO: Run(flaky) one={one}\n  RETURN: complete\n";

fn items(count: usize) -> String {
    let items: Vec<String> = (0..count).map(|number| format!("{number:02}")).collect();
    format!("items={}", serde_json::json!(items))
}

/// A parent with so many children, all held; more than a summary names.
fn held_children(count: usize) -> (Dir, String) {
    let dir = Dir::new();
    dir.protocol(
        "flaky",
        "INPUT: one\nSTATE: START\n  DO: sh \"test -e mended && echo {one} >> done\"\n  RETURN: complete\n",
    );
    dir.protocol("parent", PARENT);
    let (run, json) = dir.run(&["parent", &items(count)]);
    assert_eq!((&json["standing"], json["waits"].as_array().unwrap().len()), (&"held".into(), 20));
    (dir, run)
}

#[test]
fn a_hint_never_ends_in_nothing() {
    let dir = Dir::new();
    dir.write(
        ".ftl/config.toml",
        "[limits]\ntokens = \"none\"\nmoney = \"none\"\ntime = \"none\"\nturns = \"none\"\n",
    );
    dir.protocol("one", "STATE: START\n  ASK: go = \"Go?\"\n  RETURN: complete go={go}\n");
    let (run, _) = dir.run(&["one"]);
    dir.ftl(&["raise", &run, "rounds", "3", "--reason", "x"]).code(1).says(&["hint: nothing limits it\n"]);
    dir.ftl(&["override", &run, "END", "--reason", "x"])
        .code(5)
        .says(&["there is no edge START → END", "hint: no edge leads on from here"]);
    dir.ftl(&["stop", &run]).code(0);
    let ended = dir.ftl(&["stop", &run]).code(5).says(&["hint: what has ended takes no orders"]);
    assert!(!ended.err.contains("redo"), "there is no such command: {}", ended.err);
}

#[test]
fn however_many_are_held_resume_asks_all_of_them_again() {
    let (dir, run) = held_children(27);
    dir.write("mended", "");
    dir.ftl(&["resume", &run]).code(0).says(&["complete in ALL"]);
    assert_eq!(dir.read("done").lines().count(), 27);
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
}

/// How a run stands is told over all of it, however little of it a summary names: the one child that works
/// comes after twenty-six that are held.
#[test]
fn however_many_are_held_the_standing_is_that_of_the_whole_run() {
    let dir = Dir::new();
    let child = "INPUT: one\nSTATE: START\n  \
        DO: sh \"[ {one} = 26 ] || exit 1; touch began; until [ -e go ]; do sleep 0.05; done\"\n  RETURN: complete\n";
    dir.protocol("child", child).protocol("parent", &PARENT.replace("flaky", "child"));
    let driving = dir.start(&["run", "parent", &items(27)]);
    until("the last one works", || dir.path("began").exists());
    let shown = || dir.ftl(&["status", "--json"]).code(0).json()["runs"][0].clone();
    let is_held = |wait: &serde_json::Value| wait["what"] == "held";
    until("the others are held", || {
        let waits = shown()["waits"].as_array().unwrap().clone();
        waits.len() == 20 && waits.iter().all(is_held)
    });
    assert_eq!(shown()["standing"], "running");
    driving.signal(Signal::KILL);
    driving.ended().code(-9);
    assert_eq!(shown()["standing"], "interrupted");
    dir.ftl(&["status"]).code(0).says(&["interrupted", "nobody drives it", "and 17 more;"]);
    dir.write("go", "");
    dir.ftl(&["resume"]).code(3).says(&["held in ALL"]);
    assert_eq!((&shown()["standing"], &shown()["instances"]), (&"held".into(), &serde_json::json!([28, 1])));
}

#[test]
fn an_order_can_be_left_for_later() {
    let (dir, run) = asking();
    dir.ftl(&["answer", &run, "yes", "--no-wait"]).code(0).says(&[&format!("`ftl resume {run}` goes on")]);
    assert_eq!(dir.status(&run)["standing"], "waiting");
    dir.ftl(&["resume"]).code(0).says(&["complete in START"]);
    let (run, _) = dir.run(&["ask", "objective=y"]);
    let json = dir.ftl(&["answer", &run, "yes", "--no-wait", "--json"]).code(0).json();
    assert_eq!((&json["kept"], &json["run"]), (&true.into(), &run.as_str().into()));
}

#[test]
fn several_runs_are_resumed_side_by_side() {
    let dir = Dir::new();
    // Each waits until the other has begun: one after the other would never end.
    let text = "INPUT: me\nINPUT: other\nSTATE: START\n  ASK: go = \"Go?\" choices=yes\n  \
        DO: sh \"touch {me}; until [ -e {other} ]; do sleep 0.05; done\" timeout=60\n  RETURN: complete go={go}\n";
    dir.protocol("pair", text);
    let (one, _) = dir.run(&["pair", "me=a", "other=b"]);
    let (two, _) = dir.run(&["pair", "me=b", "other=a"]);
    for run in [&one, &two] {
        dir.ftl(&["answer", run, "yes", "--no-wait"]).code(0);
    }
    let json = dir.ftl(&["resume", "--json"]).code(0).json();
    let standings: Vec<&str> =
        json["runs"].as_array().unwrap().iter().filter_map(|run| run["standing"].as_str()).collect();
    assert_eq!(standings, ["complete", "complete"]);
}

#[test]
fn an_order_reaches_the_process_that_drives_the_run() {
    let dir = Dir::new();
    dir.protocol("slow", "STATE: START\n  DO: sh \"touch began; sleep 300\"\n  RETURN: complete\n");
    let driving = dir.start(&["run", "slow"]);
    until("the command runs", || dir.path("began").exists());
    let run = dir.ftl(&["status", "--json"]).json()["runs"][0].clone();
    assert_eq!((&run["standing"], &run["owner"]["pid"]), (&"running".into(), &driving.pid().into()));
    assert_eq!(run["owner"]["command"], "ftl run slow");
    let name = run["run"].as_str().unwrap();
    // Its owner takes the order; this command only waits for the reply.
    dir.ftl(&["stop", name, "--reason", "enough"]).code(0).says(&["stopped in START: enough"]);
    driving.ended().code(3).says(&["stopped in START: enough"]);
}

#[test]
fn resuming_a_run_that_is_driven_says_by_whom_and_leaves_it_alone() {
    let dir = Dir::new();
    dir.protocol(
        "slow",
        "STATE: START\n  DO: sh \"touch began; until [ -e go ]; do sleep 0.05; done\"\n  RETURN: complete\n",
    );
    let driving = dir.start(&["run", "slow"]);
    until("the command runs", || dir.path("began").exists());
    let shown = dir.ftl(&["status", "--json"]).json()["runs"][0].clone();
    let (run, since) = (shown["run"].as_str().unwrap(), shown["owner"]["since"].as_str().unwrap());
    let host = shown["owner"]["host"].as_str().unwrap();
    let who = format!("process {} on {host} since {} (ftl run slow)", driving.pid(), &since[11..]);
    let said = format!("run {run} is driven by {who}; watching it until it rests\n");
    let watching = dir.start(&["resume", run]);
    until("it says who drives the run", || watching.err() == said);
    watching.signal(Signal::INT);
    let hint = format!("hint: it goes on without this command; `ftl watch {run}` looks again\n");
    let ended = watching.ended().code(130);
    assert_eq!(ended.out, format!("run {run} running in START, driven by {who}\n{hint}"));
    let watching = dir.start(&["resume", run, "--json"]);
    until("it says who drives the run", || watching.err() == said);
    watching.signal(Signal::INT);
    let json = watching.ended().code(130).json();
    assert_eq!((&json["standing"], &json["interrupted"]), (&"running".into(), &true.into()));
    assert_eq!(json["owner"], shown["owner"]);
    // Whoever keeps watching sees its end.
    let watching = dir.start(&["resume", run]);
    until("it says who drives the run", || watching.err() == said);
    dir.write("go", "");
    driving.ended().code(0);
    watching.ended().code(0).says(&["complete in START"]);
}

#[test]
fn names_may_be_shortened_and_say_what_is_wrong_with_them() {
    let (dir, run) = asking();
    dir.ftl(&["answer", &run[..3], "no"]).code(0);
    dir.ftl(&["answer", &format!("{run}/0"), "no"]).code(0);
    dir.ftl(&["answer", &format!("{}/9", &run[..4]), "no"]).code(1).says(&["9"]);
    dir.ftl(&["answer", &format!("{run}/x"), "no"])
        .code(1)
        .says(&["`x` is no number of an instance", "hint:"]);
    dir.ftl(&["answer", "1l", "no"]).code(1).says(&["there is no run `1l`", "hint: `ftl status`"]);
    dir.ftl(&["answer", "", "no"]).code(1).says(&["no run is named"]);
    // Another run whose name begins the same.
    let twin = format!("{}{}", &run[..7], if run.ends_with('a') { 'b' } else { 'a' });
    let copy = "INSERT INTO runs (name, opened, changed, head, hash, epoch, owner, settled, summary) \
        SELECT ?1, opened, changed, head, hash, epoch, owner, settled, summary FROM runs";
    dir.database().execute(copy, [&twin]).unwrap();
    dir.ftl(&["answer", &run[..2], "no"]).code(1).says(&[
        "fits 2 runs",
        &run,
        &twin,
        "hint: type more letters",
    ]);
    dir.ftl(&["why", &run[..7]]).code(1).says(&["fits 2 runs"]);
    dir.ftl(&["why", &run]).code(0);
}

#[test]
fn whoever_speaks_has_a_name() {
    let dir = Dir::repository();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let by = |dir: &Dir| {
        dir.entries(&run).into_iter().rev().find_map(|entry| Some(entry["by"].as_str()?.to_owned()))
    };
    dir.ftl(&["answer", &run, "no"]).code(0);
    assert_eq!(by(&dir).as_deref(), Some("Ada"), "git's name");
    let mut command = dir.command(&["answer", &run, "maybe"]);
    command.env("FTL_BY", "Grace");
    assert_eq!(crate::support::ended(command).code, 1);
    assert_eq!(by(&dir).as_deref(), Some("Grace"), "the variable before git");
    let mut command = dir.command(&["answer", &run, "maybe", "--by", "Edsger"]);
    command.env("FTL_BY", "Grace");
    assert_eq!(crate::support::ended(command).code, 1);
    assert_eq!(by(&dir).as_deref(), Some("Edsger"), "the option before the variable");
    dir.ftl(&["answer", &run, "yes", "--by", "policy"]).code(1).says(&["policy"]);
    dir.git(&["config", "--unset", "user.name"]);
    let mut command = dir.command(&["answer", &run, "yes"]);
    command.env_remove("USER");
    crate::support::ended(command).code(2).says(&["nobody is named", "hint: say who you are with --by NAME"]);
    assert_eq!(dir.status(&run)["standing"], "waiting");
}

#[test]
fn a_state_whose_text_has_changed_takes_no_answer_until_it_is_back() {
    let (dir, run) = asking();
    let before = dir.status(&run)["entry"].clone();
    dir.protocol("ask", &ASK.replace("Good?", "Better?"));
    for _ in 0..2 {
        dir.ftl(&["answer", &run, "yes"]).code(5).says(&[
            "error: the text of `START` has changed since it was entered",
            "hint: bring the protocol back as it was",
        ]);
    }
    let shown = dir.status(&run);
    assert_eq!((&shown["standing"], shown["waits"].as_array().unwrap().len()), (&"held".into(), 1));
    let out = dir.ftl(&["why", &run]).code(0).says(&["put back what it was, and ftl resume"]).out;
    assert!(out.contains(&format!("ftl override {run} START")) && !out.contains("ftl answer"), "{out}");
    dir.protocol("ask", ASK);
    dir.ftl(&["resume", &run]).code(3).says(&["waiting in START"]);
    dir.ftl(&["answer", &run, "yes"]).code(0).says(&["complete in START"]);
    assert!(dir.status(&run)["entry"].as_u64() > before.as_u64());
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
}

#[test]
fn an_answer_that_ends_its_run_ends_as_the_run_does() {
    let dir = Dir::new();
    let ask = "STATE: A\n  ASK: how = \"How?\" choices=good|bad|again\n  IF: how == \"good\" → RETURN complete\n  \
        IF: how == \"bad\" → RETURN blocked reason=\"it is bad\"\n  ASK: more = \"And?\"\n  RETURN: error reason={more}\n";
    dir.protocol("choose", ask);
    for (word, code) in [("good", 0), ("bad", 3), ("again", 0)] {
        let (run, _) = dir.run(&["choose"]);
        dir.ftl(&["answer", &run, word]).code(code);
        if word == "again" {
            dir.ftl(&["answer", &run, "broken"]).code(1);
        }
    }
}

#[test]
fn a_wrong_input_is_a_wrong_command_line() {
    let dir = Dir::new();
    dir.protocol(
        "pick",
        "INPUT: mode = fast | slow\nINPUT: what\nSTATE: A\n  RETURN: complete mode={mode} what={what}\n",
    );
    for args in [&["what=x", "mode=never"][..], &["mode=fast"], &["what=x", "other=1"], &["what"]] {
        dir.ftl(&[&["run", "pick"], args].concat()).code(2);
    }
    dir.ftl(&["run", "pick", "what=x"]).code(0);
}
