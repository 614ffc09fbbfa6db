//! What a person says: overrides, redos, reverts, decisions, adoption; and what an agent may not say.

use super::{
    ALL, Json, PATCH, PLAN, PLAN_BLOCKED, decision, get, has, json, next, phase, put, repository, say, task,
};

#[test]
fn an_override_goes_forward_and_says_who_and_why() {
    let dir = repository();
    for (from, to) in [
        ("planning", "plan_review"),
        ("plan_review", "codegen"),
        ("codegen", "review"),
        ("review", "test"),
        ("test", "accept"),
        ("revert", "done"),
    ] {
        task(&dir, from, from, &[("planning/planning.ai.json", PLAN)]);
        say(&dir, from, &["next", "--override", " "]).code(2);
        assert!(!has(&dir, from, "transcript.jsonl"));
        let answer = next(&dir, from, &["--override", "I answer for it"], 0, Some(to));
        assert!(answer["reason"].as_str().unwrap().contains("I answer for it"));
        let lines = get(&dir, from, "transcript.jsonl");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        let shown = say(&dir, from, &["show"]).json();
        let run = shown["run"].as_str().unwrap();
        let waived = dir.entries(run).into_iter().find(|entry| entry["fact"] == "waived").unwrap();
        assert_eq!(
            (&waived["by"], &waived["reason"], &waived["to"]),
            (&json!("Ada"), &json!("I answer for it"), &json!(to))
        );
    }
    task(&dir, "done", "done", ALL);
    next(&dir, "done", &["--override", "once more"], 5, None);
    next(&dir, "done", &[], 0, None);
    say(&dir, "planning", &["next", "--to", "nowhere"]).code(2);
    say(&dir, "planning", &["next", "--to", "planning_done"]).code(2);
    // Without a patch there is nothing to accept, also for an override.
    task(&dir, "bare", "accept", &[]);
    let answer = next(&dir, "bare", &["--override", "take it"], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("diff.patch"), "{answer:#}");
    assert!(!has(&dir, "bare", "transcript.jsonl") && !has(&dir, "bare", "accept/decision.json"));
}

#[test]
fn an_override_to_done_records_the_decision_and_applies_the_patch() {
    let dir = repository();
    task(&dir, "t", "accept", ALL);
    next(&dir, "t", &["--override", "no time"], 0, Some("done"));
    let decided: Json = serde_json::from_str(&get(&dir, "t", "accept/decision.json")).unwrap();
    assert_eq!((&decided["verdict"], &decided["decider"]), (&json!("accepted"), &json!("Ada")));
    assert_eq!(dir.read("note.txt"), "a note\n");
    assert!(dir.git(&["show", "--stat", "HEAD"]).contains("Ftl-Task: t"));
}

#[test]
fn rounds_run_out_and_hold() {
    let dir = repository();
    task(&dir, "r", "plan_review", ALL);
    // Something else each time: the same finding three times in a row would not go back a third time.
    let blocked = |round: u32| {
        let text = PLAN_BLOCKED.replace("no way back", &format!("no way back {round}"));
        assert_ne!(text, PLAN_BLOCKED);
        put(&dir, "r", "review/plan-review.json", &text);
    };
    for round in 0..5 {
        blocked(round);
        next(&dir, "r", &[], 0, Some("planning"));
        next(&dir, "r", &[], 0, Some("plan_review"));
    }
    let answer = next(&dir, "r", &[], 3, None);
    assert!(answer["reason"].as_str().unwrap().contains("held"), "{answer:#}");
    next(&dir, "r", &[], 3, None);
    next(&dir, "r", &["--to", "planning", "--override", "go"], 3, None);
    say(&dir, "r", &["redo", "planning", "--reason", "again"]).code(3);
    say(&dir, "r", &["review", "plan"]).code(3);
    let run = say(&dir, "r", &["show"]).json()["run"].as_str().unwrap().to_owned();
    dir.ftl(&["raise", &run, "rounds", "6", "--reason", "nearly there"]).code(0);
    // The raise lets it go on, and the next command finds state.json behind.
    let answer = say(&dir, "r", &["next"]).code(0).json();
    assert_eq!((&answer["from"], &answer["to"]), (&json!("planning"), &json!("plan_review")), "{answer:#}");
    assert_eq!(phase(&dir, "r"), "plan_review");
    // Forward is free, and an override forward frees what is held.
    blocked(6);
    next(&dir, "r", &[], 3, None);
    next(&dir, "r", &["--override", "enough"], 0, Some("codegen"));
}

#[test]
fn the_same_finding_three_times_in_a_row_does_not_go_back_again() {
    let dir = repository();
    task(&dir, "r", "plan_review", ALL);
    put(&dir, "r", "review/plan-review.json", PLAN_BLOCKED);
    for _ in 0..2 {
        next(&dir, "r", &[], 0, Some("planning"));
        next(&dir, "r", &[], 0, Some("plan_review"));
    }
    for _ in 0..2 {
        let answer = next(&dir, "r", &[], 4, None);
        let reason = answer["reason"].as_str().unwrap();
        assert_eq!(reason, "the same failure three times in a row: the review blocks the plan: no way back");
    }
    // A person who says why goes back all the same.
    say(&dir, "r", &["redo", "planning", "--reason", "there is one now"]).code(0);
    assert_eq!(phase(&dir, "r"), "planning");
}

#[test]
fn a_redo_goes_back_and_keeps_everything() {
    let dir = repository();
    task(&dir, "t", "test", ALL);
    say(&dir, "t", &["redo", "accept", "--reason", "x"]).code(5);
    say(&dir, "t", &["redo", "done", "--reason", "x"]).code(5);
    say(&dir, "t", &["redo", "nowhere", "--reason", "x"]).code(2);
    say(&dir, "t", &["redo", "codegen", "--reason", " "]).code(2);
    dir.ftl(&["redo", "codegen", "--task", "t"]).code(2);
    let answer = say(&dir, "t", &["redo", "codegen", "--reason", "the names are wrong"]).code(0).json();
    assert_eq!(
        (&answer["from"], &answer["to"], &answer["moved"]),
        (&json!("test"), &json!("codegen"), &json!(true))
    );
    assert_eq!(phase(&dir, "t"), "codegen");
    for name in ["code/diff.patch", "code/files/note.txt", "review/code-review.json", "eval/eval-report.json"]
    {
        assert!(!has(&dir, "t", name), "{name}");
        assert!(has(&dir, "t", &format!("versions/0001/{name}")), "{name}");
    }
    assert!(has(&dir, "t", "planning/planning.ai.json") && has(&dir, "t", "review/plan-review.json"));
    next(&dir, "t", &[], 4, None);
    let state: Json = serde_json::from_str(&get(&dir, "t", "state.json")).unwrap();
    assert_eq!(state["actors"]["codegen"]["round"], 1);
    // The same phase again, and nothing is lost.
    for (name, text) in ALL {
        put(&dir, "t", name, text);
    }
    say(&dir, "t", &["redo", "codegen", "--reason", "again"]).code(0);
    assert!(has(&dir, "t", "versions/0002/code/diff.patch"));
    let state: Json = serde_json::from_str(&get(&dir, "t", "state.json")).unwrap();
    assert_eq!(state["actors"]["codegen"]["round"], 2);
    // Done is opened again by nothing else.
    task(&dir, "d", "done", ALL);
    say(&dir, "d", &["redo", "revert", "--reason", "x"]).code(5);
    say(&dir, "d", &["redo", "review", "--reason", "look again"]).code(0);
    assert_eq!(phase(&dir, "d"), "review");
}

#[test]
fn accept_records_and_next_carries_out() {
    let dir = repository();
    task(&dir, "t", "accept", ALL);
    dir.write("README.md", "# Mine, and not committed\n").write("mine.txt", "mine\n");
    say(&dir, "t", &["accept", "--verdict", "perhaps"]).code(2);
    say(&dir, "t", &["accept", "--route", "codegen"]).code(2);
    let answer = say(&dir, "t", &["accept", "--verdict", "deferred", "--reason", "later"]).code(0).json();
    assert_eq!(answer["verdict"], "deferred");
    next(&dir, "t", &[], 4, None);
    say(&dir, "t", &["accept", "--reason", "good"]).code(0);
    assert!(has(&dir, "t", "versions/0001/accept/decision.json"));
    let before = dir.git(&["rev-parse", "HEAD"]);
    next(&dir, "t", &[], 0, Some("done"));
    let commit: Json = serde_json::from_str(&get(&dir, "t", "accept/commit.json")).unwrap();
    assert_eq!(commit["commit"].as_str().unwrap(), dir.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(commit["parent"].as_str().unwrap(), before.trim());
    assert_eq!(commit["files"], json!(["note.txt"]));
    assert_eq!(
        dir.git(&["show", "--name-only", "--format=%an", "HEAD"]).split_whitespace().collect::<Vec<_>>(),
        ["Ada", "note.txt"]
    );
    assert_eq!(dir.read("note.txt"), "a note\n");
    assert_eq!(dir.read("README.md"), "# Mine, and not committed\n");
    assert_eq!(dir.git(&["status", "--porcelain"]), " M README.md\n?? mine.txt\n");
    next(&dir, "t", &[], 0, None);
    // Undone after others have committed: redo accept, revert, and only that commit goes.
    dir.write("later.txt", "later\n");
    dir.git(&["add", "later.txt"]);
    dir.git(&["commit", "-qm", "later"]);
    say(&dir, "t", &["redo", "accept", "--reason", "it broke the export"]).code(0);
    say(&dir, "t", &["revert"]).code(2);
    let answer = say(&dir, "t", &["revert", "--reason", "it broke the export"]).code(0).json();
    assert_eq!((&answer["to"], &answer["moved"]), (&json!("revert"), &json!(true)), "{answer:#}");
    next(&dir, "t", &[], 4, None);
    say(&dir, "t", &["revert"]).code(0);
    let record: Json = serde_json::from_str(&get(&dir, "t", "revert/record.json")).unwrap();
    assert_eq!((&record["target"], &record["reason"]), (&commit["commit"], &json!("it broke the export")));
    assert!(!dir.path("note.txt").exists());
    assert_eq!(dir.read("later.txt"), "later\n");
    assert_eq!(dir.git(&["status", "--porcelain"]), " M README.md\n?? mine.txt\n");
    next(&dir, "t", &[], 0, Some("done"));
}

#[test]
fn what_is_in_the_way_keeps_the_patch_out() {
    let dir = repository();
    task(&dir, "t", "accept", ALL);
    put(&dir, "t", "accept/decision.json", &decision("accepted", None, &[]));
    dir.write("note.txt", "mine\n");
    let head = dir.git(&["rev-parse", "HEAD"]);
    let answer = next(&dir, "t", &[], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("note.txt"), "{answer:#}");
    assert_eq!((dir.git(&["rev-parse", "HEAD"]), dir.read("note.txt")), (head, "mine\n".to_owned()));
    assert!(!has(&dir, "t", "accept/commit.json"));
    std::fs::remove_file(dir.path("note.txt")).unwrap();
    next(&dir, "t", &[], 0, Some("done"));
    // A revert that cannot be done says so, and touches nothing.
    dir.write("note.txt", "another note\n");
    dir.git(&["commit", "-qam", "more"]);
    let head = dir.git(&["rev-parse", "HEAD"]);
    say(&dir, "t", &["redo", "accept", "--reason", "wrong"]).code(0);
    say(&dir, "t", &["revert", "--reason", "wrong"]).code(0);
    let answer = say(&dir, "t", &["revert"]).code(4).json();
    assert!(answer["reason"].as_str().unwrap().contains("cannot be undone"), "{answer:#}");
    assert_eq!(dir.git(&["rev-parse", "HEAD"]), head);
    // A revert before anything was applied has nothing to undo, and says so.
    task(&dir, "early", "accept", ALL);
    say(&dir, "early", &["revert", "--reason", "no"]).code(0);
    say(&dir, "early", &["revert"]).code(0);
    assert!(get(&dir, "early", "revert/record.json").contains("nothing was applied"));
    next(&dir, "early", &[], 0, Some("done"));
}

#[test]
fn a_decision_that_was_carried_out_counts_no_more() {
    let dir = repository();
    task(&dir, "t", "accept", ALL);
    say(&dir, "t", &["accept", "--verdict", "needs_work", "--route", "review", "--reason", "look again"])
        .code(0);
    for to in ["review", "test", "accept"] {
        next(&dir, "t", &[], 0, Some(to));
    }
    let answer = next(&dir, "t", &[], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("carried out already"), "{answer:#}");
}

#[test]
fn words_belong_to_their_phases() {
    let dir = repository();
    let words: &[(&[&str], &[&str])] = &[
        (&["plan"], &["planning"]),
        (&["review", "plan"], &["plan_review"]),
        (&["codegen"], &["codegen"]),
        (&["review", "code"], &["review"]),
        (&["test"], &["test"]),
        (&["accept"], &["accept"]),
        (&["revert", "--reason", "x"], &["accept", "revert"]),
    ];
    for phase in ["planning", "plan_review", "codegen", "review", "test", "accept", "revert", "done"] {
        task(&dir, phase, phase, &[]);
        for (word, phases) in words.iter().filter(|(_, phases)| !phases.contains(&phase)) {
            let answer = say(&dir, phase, word).code(5).json();
            assert!(answer["reason"].as_str().unwrap().contains(phases[0]), "{answer:#}");
        }
    }
    // Nobody is bound to any role: the word is refused, and nothing is written.
    let answer = say(&dir, "planning", &["plan"]).code(4).json();
    assert!(answer["reason"].as_str().unwrap().contains("no agent is bound"), "{answer:#}");
}

#[test]
fn folders_are_adopted_and_foreign_changes_refused() {
    let dir = repository();
    dir.ftl(&["show"]).code(1);
    let answer = dir.ftl(&["new", "Add a note", "--json"]).code(0).json();
    let id = answer["task"].as_str().unwrap().to_owned();
    assert_eq!((&answer["phase"], phase(&dir, &id).as_str()), (&json!("planning"), "planning"));
    dir.ftl(&["new", " "]).code(2);
    dir.ftl(&["new", &"x".repeat(16 * 1024 + 1)]).code(2).says(&["16384 is the most"]);
    dir.ftl(&["new", "again", "--task", &id]).code(1);
    dir.ftl(&["new", "again", "--task", "a/b"]).code(2);
    // The new one is the current one.
    put(&dir, &id, "planning/planning.ai.json", PLAN);
    assert_eq!(dir.ftl(&["next", "--json"]).code(0).json()["to"], "plan_review");
    // Somebody changes the phase behind the journal's back.
    let state = get(&dir, &id, "state.json").replace("\"plan_review\",", "\"test\",");
    put(&dir, &id, "state.json", &state);
    for words in [
        &["next"][..],
        &["next", "--eval"],
        &["next", "--override", "x"],
        &["redo", "planning", "--reason", "x"],
        &["plan"],
    ] {
        let ended = say(&dir, &id, words).code(4);
        assert!(ended.err.contains("ftl adopt"), "{ended:#?}");
    }
    assert_eq!(get(&dir, &id, "state.json"), state);
    let answer = say(&dir, &id, &["adopt"]).code(0).json();
    assert_eq!((&answer["phase"], &answer["adopted"]), (&json!("test"), &json!(true)));
    assert_eq!(get(&dir, &id, "state.json"), state, "an adoption writes no state");
    assert_eq!(say(&dir, &id, &["adopt"]).json()["adopted"], false);
    let adopted = dir.entries(answer["run"].as_str().unwrap());
    let fact = adopted.iter().find(|entry| entry["fact"] == "adopted").unwrap();
    assert_eq!((&fact["by"], &fact["state"]), (&json!("Ada"), &json!("test")));
    say(&dir, &id, &["redo", "review", "--reason", "any phase up to here"]).code(0);
    // A folder from elsewhere, without a state, is at its beginning; two of them need a name.
    put(&dir, "other", "code/diff.patch", PATCH);
    assert_eq!(say(&dir, "other", &["next"]).code(4).json()["from"], "planning");
    dir.ftl(&["show", "--task", "nobody"]).code(1);
}

#[test]
fn an_agent_moves_nothing() {
    let dir = repository();
    task(&dir, "t", "planning", ALL);
    let before = get(&dir, "t", "state.json");
    let words = [
        "next --override because",
        "next",
        "redo planning --reason x",
        "adopt",
        "accept",
        "revert --reason x",
        "new x",
        "plan",
    ];
    let script: String =
        words.iter().map(|word| format!("$F {word} --by M > null 2>> err; echo $?; ")).collect();
    let text = format!(
        "INPUT: ftl\nSTATE: START\n  DO: out = sh \"F={{ftl}}; {script}$F next --eval > null; echo $?; cat err >&2\" timeout=120\n  \
         RETURN: complete out={{out.stdout}} err={{out.stderr}}\n"
    );
    dir.protocol("agent", &text);
    let (run, _) = dir.run(&["agent", &format!("ftl={}", env!("CARGO_BIN_EXE_ftl"))]);
    let said = dir.entries(&run).pop().unwrap()["values"].clone();
    assert_eq!(said["out"], "4\n".repeat(words.len()) + "0\n", "{said:#}");
    assert!(said["err"].as_str().unwrap().contains("inside an agent's process tree"), "{said:#}");
    assert_eq!(get(&dir, "t", "state.json"), before);
    assert!(!has(&dir, "t", "transcript.jsonl"));
}

#[test]
fn two_at_once_take_turns() {
    let dir = repository();
    task(&dir, "t", "planning", ALL);
    let ask = || dir.start(&["next", "--task", "t", "--json"]);
    let both = [ask(), ask()].map(|one| one.ended().code(0).json());
    let mut moves: Vec<&str> = both.iter().map(|answer| answer["to"].as_str().unwrap()).collect();
    moves.sort_unstable();
    assert_eq!(moves, ["codegen", "plan_review"], "each of them made one transition");
    assert_eq!(phase(&dir, "t"), "codegen");
}

#[test]
fn keys_stay_out_of_what_people_write() {
    let dir = repository();
    let key = format!("sk-ant-{}", "a1B2".repeat(12));
    dir.ftl(&["new", &format!("Use {key}"), "--task", "t"]).code(0);
    let reason = format!("the key is {key}");
    next(&dir, "t", &["--override", &reason], 0, Some("plan_review"));
    say(&dir, "t", &["redo", "planning", "--reason", &reason]).code(0);
    for name in ["planning/planning.transcript.jsonl", "transcript.jsonl"] {
        let text = get(&dir, "t", name);
        assert!(text.contains("key") || text.contains("Use"), "{text}");
        assert!(!text.contains(&key), "{name}: {text}");
    }
}

#[test]
fn a_task_that_another_command_has_is_waited_for_and_not_for_ever() {
    let dir = repository();
    task(&dir, "t", "planning", ALL);
    say(&dir, "t", &["adopt"]).code(0);
    let lock = std::fs::File::open(dir.path(".ftl/store/tasks/t")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let before = super::get(&dir, "t", "state.json");
    dir.ftl(&["next", "--task", "t"]).code(1).says(&["another ftl works on task t"]);
    assert_eq!(super::get(&dir, "t", "state.json"), before);
    drop(lock);
    super::next(&dir, "t", &[], 0, Some("plan_review"));
}

#[test]
fn two_kills_in_a_row_are_not_taken_for_a_change_of_somebody() {
    let dir = repository();
    task(&dir, "t", "codegen", ALL);
    say(&dir, "t", &["adopt"]).code(0);
    let note = || -> String {
        let find = "SELECT body FROM notes WHERE kind = 'lifecycle.task' AND key = 't'";
        dir.database().query_row(find, [], |row| row.get(0)).unwrap()
    };
    let set = |body: &str| {
        let update = "UPDATE notes SET body = ?1 WHERE kind = 'lifecycle.task' AND key = 't'";
        assert_eq!(dir.database().execute(update, [body]).unwrap(), 1);
    };
    // Killed once after the file was written: what is remembered is older than the file.
    let mut older: Json = serde_json::from_str(&note()).unwrap();
    older["state"] = json!("00");
    set(&older.to_string());
    let (file, patch) = (get(&dir, "t", "state.json"), get(&dir, "t", "code/diff.patch"));
    super::remove(&dir, "t", "code/diff.patch");
    next(&dir, "t", &[], 4, None);
    let remembered = note();
    put(&dir, "t", "code/diff.patch", &patch);
    next(&dir, "t", &[], 0, Some("review"));
    // Killed again before the file was written: both are as they were, and only the journal has moved.
    put(&dir, "t", "state.json", &file);
    set(&remembered);
    let answer = say(&dir, "t", &["next"]).code(0).json();
    assert_eq!((&answer["from"], &answer["to"]), (&json!("review"), &json!("test")), "{answer:#}");
}

#[test]
fn show_prints_plan_and_patch_and_where_they_lie() {
    let dir = repository();
    task(&dir, "t", "review", ALL);
    let long: String = (0..50).map(|number| format!("step {number}\n")).collect();
    put(&dir, "t", "planning/plan.md", &long);
    let out = dir.ftl(&["show", "--task", "t"]).code(0).out;
    for words in [
        ".ftl/tasks/t/planning/plan.md\n",
        "step 39\n",
        "… 10 more lines\n",
        ".ftl/tasks/t/code/diff.patch\n",
        "+a note\n",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(!out.contains("step 40"), "{out}");
}

#[test]
fn a_task_that_is_done_says_how_its_commit_is_undone() {
    let dir = repository();
    task(&dir, "t", "done", ALL);
    let said = dir.ftl(&["revert", "--task", "t", "--reason", "x"]).code(5);
    assert!(said.err.contains("`ftl redo accept --reason R` opens it again, then `ftl revert"), "{said:#?}");
    // A hint that names the journal names whose.
    task(&dir, "u", "planning", &[]);
    let said = dir.ftl(&["plan", "--task", "u"]);
    assert!(!said.err.contains("`ftl log`"), "{said:#?}");
}
