//! Meters that trip, policies in place of people, services that are out.

use crate::support::{Dir, until};

const DRAFTS: &str = "INPUT: objective\nLIMIT: rounds = 9 ELSE HOLD\nTRACK: done\n\
    STATE: START\n  GOTO: DRAFT with feedback=none\n\
    STATE: DRAFT with feedback\n  PAY: rounds\n  \
    DO: draft = Task(planner) input={objective} exploration=none answers={feedback}\n  \
    DO: out = sh \"echo {draft.text} >> drafts; wc -l < drafts\"\n  SET: done = out.stdout\n  \
    CHECK: decision = decision.parse text={draft.text}\n  \
    IF: rounds.used >= 4 → RETURN complete done={done} kind={decision.kind}\n  \
    GOTO: DRAFT with feedback={decision.kind}\n";

const SCRIPT: &str = "[[scene]]\nrole = \"planner\"\n[[scene.step]]\nsubmit = { text = \"hi\" }\n\
    usage = { tokens = 1200, money = 0.02 }\n\
    [[scene]]\nto = \"decision.parse\"\n[[scene.step]]\n\
    submit = { kind = \"CLARIFY\", questions = [], problems = [] }\n";

fn drafts(config: &str) -> Dir {
    let dir = Dir::new();
    dir.protocol("drafts", DRAFTS).write("script.toml", SCRIPT).write(".ftl/config.toml", config);
    dir
}

/// The same as earlier versions wrote it.
const OLD_SCRIPT: &str = "[[answer]]\nto = \"Task(planner)\"\nvalue = { text = \"hi\" }\n\
    spend = { tokens = 1200, money = 0.02, turns = 1 }\n\
    [[answer]]\nto = \"decision.parse\"\nvalue = { kind = \"CLARIFY\", questions = [], problems = [] }\n";

#[test]
fn a_script_of_an_earlier_version_plays_the_same_with_a_note() {
    let dir = drafts("");
    dir.write("old.toml", OLD_SCRIPT);
    let meters = |script: &str| {
        let ended = dir.ftl(&["run", "drafts", "objective=x", "--script", script]).code(0);
        let shown = dir.ftl(&["status", "--json", "--all"]).json()["runs"].as_array().unwrap().clone();
        let meters = |run: &serde_json::Value| run["meters"]["tokens"].clone();
        (ended.err.contains("`old.toml` has [[answer]]s"), shown.iter().map(meters).collect::<Vec<_>>())
    };
    assert!(!meters("script.toml").0);
    let (noted, tokens) = meters("old.toml");
    assert!(noted && tokens.len() == 2 && tokens[0] == tokens[1], "{tokens:?}");
}

#[test]
fn the_same_failure_three_times_in_a_row_holds_a_protocol_of_ones_own() {
    let dir = Dir::new();
    let makes = "LIMIT: rounds = 9 ELSE HOLD\nSTATE: MAKE\n  DO: sh \"echo x >> tries; cat why >&2; test -f go\" ELSE CLEAN\n  \
        RETURN: complete\nSTATE: CLEAN\n  PAY: rounds\n  DO: sh \"echo x >> cleaned; echo {rounds.used} >> other\"\n  GOTO: MAKE\n";
    dir.protocol("makes", makes).write("why", "no rule to make the target\n");
    let ended = dir.ftl(&["run", "makes"]).code(3);
    ended.says(&["held in MAKE", "no rule to make the target"]);
    let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    let count = |name: &str| dir.read(name).lines().count();
    assert_eq!((count("tries"), count("cleaned")), (3, 2));
    dir.ftl(&["why", &run]).code(0).says(&["three times in a row", "no rule to make the target"]);
    // Whoever resumes has that step tried again, and nothing else.
    dir.ftl(&["resume", &run]).code(3).says(&["held in MAKE"]);
    assert_eq!((count("tries"), count("cleaned")), (4, 2));
    dir.write("go", "");
    dir.ftl(&["resume", &run]).code(0).says(&["complete"]);
    // What fails in another way each time goes on until the meter is spent.
    dir.protocol("makes", &makes.replace("cat why", "cat other")).write("other", "");
    std::fs::remove_file(dir.path("go")).unwrap();
    dir.ftl(&["run", "makes"]).code(3).says(&["rounds spent"]);
    assert_eq!(count("cleaned"), 2 + 9);
}

#[test]
fn a_limit_holds_keeps_the_work_and_goes_on_after_a_raise() {
    let dir = drafts("[limits]\ntokens = 3000\n[reserve]\ntokens = 1000\n");
    let ended = dir.ftl(&["run", "drafts", "objective=x", "--script", "script.toml"]).code(3);
    ended.says(&["held in DRAFT", "tokens"]);
    let shown = dir.ftl(&["status", "--json"]).json()["runs"][0].clone();
    let run = shown["run"].as_str().unwrap();
    let tokens = serde_json::json!({ "used": 2400, "limit": 3000, "reserved": 0, "unknown": 0 });
    assert_eq!(shown["meters"]["tokens"], tokens);
    assert_eq!((&shown["standing"], dir.read("drafts").lines().count()), (&"held".into(), 2));
    dir.ftl(&["status"]).code(0).says(&["tokens 2400/3000", "money 0.04/20.00", &format!("ftl why {run}")]);
    dir.ftl(&["why", run]).code(0).says(&[&format!("ftl raise {run} tokens 6000 --reason …")]);
    // Asking again does not help, and costs nothing.
    dir.ftl(&["resume", run]).code(3).says(&["held in DRAFT"]);
    assert_eq!(dir.status(run)["meters"]["tokens"]["used"], 2400);
    dir.ftl(&["raise", run, "tokens", "10k", "--reason", "worth it"]).code(0).says(&["complete in DRAFT"]);
    assert_eq!(dir.read("drafts").lines().count(), 4, "nothing was done twice, nothing was lost");
    let raised = dir.entries(run).into_iter().find(|entry| entry["fact"] == "raised").unwrap();
    assert_eq!((&raised["limit"], &raised["reason"]), (&10_000.into(), &"worth it".into()));
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
}

#[test]
fn what_nobody_reports_is_charged_in_full_and_shown_as_unknown() {
    let dir = drafts("[reserve]\ntokens = 700\n");
    dir.write(
        "script.toml",
        SCRIPT.replace("usage = { tokens = 1200, ", "silent = [\"tokens\"]\nusage = { "),
    );
    dir.ftl(&["run", "drafts", "objective=x", "--script", "script.toml"]).code(0);
    let shown = dir.ftl(&["status", "--json"]).json()["runs"][0].clone();
    let tokens = serde_json::json!({ "used": 2800, "limit": 5_000_000, "reserved": 0, "unknown": 4 });
    assert_eq!(shown["meters"]["tokens"], tokens);
    dir.ftl(&["status"]).code(0).says(&["tokens 2800?/5M"]);
}

const ASK: &str = "STATE: START\n  ASK: reply = \"Go?\" choices=yes|no ELSE RETURN blocked reason={failure.message}\n  \
    RETURN: complete said={reply}\n";

#[test]
fn a_policy_stands_in_for_a_person_and_nothing_waits_in_silence() {
    let cases = [
        ("", 3, "waiting", None),
        ("[policies]\nask = \"hold\"\n", 3, "waiting", None),
        ("[policies]\nask = \"deny\"\n", 3, "blocked", None),
        ("[policies]\nask = \"no\"\n", 0, "complete", Some("no")),
        ("[policies]\nask.START = { answer = \"yes\" }\nask = \"deny\"\n", 1, "", None),
        ("[policies]\n\"*\" = \"deny\"\n\"ask.START\" = { answer = \"yes\" }\n", 0, "complete", Some("yes")),
        ("[policies]\n\"*\" = \"perhaps\"\n", 3, "blocked", None),
    ];
    for (config, code, standing, said) in cases {
        let dir = Dir::new();
        dir.protocol("ask", ASK).write(".ftl/config.toml", config);
        let json = dir.ftl(&["run", "ask", "--json"]).code(code).json();
        if code == 1 {
            assert_eq!(json["ok"], false, "a key cannot be a table and a word");
            continue;
        }
        assert_eq!(json["standing"], standing, "{config}");
        let last = dir.entries(json["run"].as_str().unwrap()).pop().unwrap();
        assert_eq!(last["values"]["said"].as_str(), said, "{config}");
    }
}

#[test]
fn a_service_that_is_out_suspends_and_costs_no_attempt() {
    let dir = Dir::new();
    let text = "STATE: START\n  DO: draft = Task(planner) input=\"x\" exploration=none answers=none\n  RETURN: complete text={draft.text}\n";
    // The service stays away until somebody says that it is back.
    dir.protocol("out", text).write(".ftl/config.toml", "[probes]\nmodel = \"test -e back\"\n");
    let scene = "[[scene]]\nrole = \"planner\"\n";
    let step = "[[scene.step]]\nsilent = [\"tokens\", \"money\", \"turns\"]\n";
    dir.write(
        "script.toml",
        format!("{scene}times = 1\n{step}outage = \"model\"\n{scene}{step}submit = {{ text = \"hi\" }}\n"),
    );
    let driving = dir.start(&["run", "out", "--script", "script.toml"]);
    let mut shown = serde_json::Value::Null;
    until("the run is suspended", || {
        shown = dir.ftl(&["status", "--json"]).code(0).json()["runs"][0].clone();
        shown["standing"] == "suspended"
    });
    let wait = &shown["waits"][0];
    assert_eq!((&wait["what"], &wait["text"]), (&"service".into(), &"model".into()));
    assert!(wait["until"].as_str().unwrap().ends_with('Z'), "{wait}");
    let run = shown["run"].as_str().unwrap();
    dir.ftl(&["status"]).code(0).says(&["suspended in START: model does not answer, asked again "]);
    dir.ftl(&["why", run]).code(0).says(&["model to answer, for Task(planner); asked again "]);
    dir.write("back", "");
    driving.ended().code(0).says(&["complete in START"]);
    let entries = dir.entries(run);
    assert!(!entries.iter().any(|entry| entry["from"] == "attempts"), "{entries:#?}");
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
}
