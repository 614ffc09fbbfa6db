//! Every edge of the machine, walked; every other pair, refused.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    BOUND, TESTED, TRIES, bash, code, codes, content, failing_otherwise, plans, repository, run_of, says,
    scene, set, walked,
};
use crate::support::{Dir, until};

/// The edges that the program draws.
fn declared(dir: &Dir) -> BTreeSet<String> {
    let out = dir.ftl(&["draw", "coder", "--format", "edges"]).code(0).out;
    out.lines().map(str::to_owned).collect()
}

/// The first scene that fits answers: these before those that are content with everything.
fn but(scenes: &[String]) -> Vec<String> {
    scenes.iter().cloned().chain(content()).collect()
}

#[test]
fn every_edge_is_walked() {
    let mut seen = BTreeSet::new();
    let mut walk = |dir: &Dir, args: &[&str], exit: i32, last: &str| {
        let ended = dir.ftl(args).code(exit);
        let edges = walked(dir, &run_of(&ended));
        assert_eq!(edges.last().unwrap(), last, "{edges:?}\n{ended:#?}");
        seen.extend(edges);
        run_of(&ended)
    };
    let story = ["code", "a story", "--json"];
    // Nothing was asked for, and nothing can be set up.
    walk(&repository(&content()), &["run", "coder", "story=", "--json"], 1, "WAITING ERROR");
    let broken = set(&content(), &format!("{BOUND}{TESTED}setup = \"exit 3\"\n"));
    walk(&broken, &story, 1, "SETUP ERROR");
    // The architect gives up, three times.
    walk(&repository(&but(&[says("plan_review", "", "ABANDON", "no")])), &story, 1, "PLAN_REVIEW ERROR");
    walk(&repository(&but(&[says("code_review", "", "ABANDON", "no")])), &story, 1, "CODE_REVIEW ERROR");
    let never = [codes("", TRIES), says("budget_review", "", "ABANDON", "no")];
    walk(&failing_otherwise(&but(&never)), &story, 1, "BUDGET_REVIEW ERROR");
    // A claim that is not proved, then one that is.
    let evidence = |quote: &str| {
        let evidence = format!("[{{ claim = \"it is there\", path = \"a.txt\", quote = \"{quote}\" }}]");
        format!("{{ verdict = \"COMPLETE\", feedback = \"there\", evidence = {evidence} }}")
    };
    let claims = [
        plans("not yet satisfied: it is there: `a.txt` does not say", "look again"),
        scene("architect plan_review", "look again", "", &evidence("a")),
        scene("architect plan_review", "", "", &evidence("zzz")),
    ];
    let dir = repository(&but(&claims));
    let run = walk(&dir, &story, 0, "PLAN_REVIEW DONE");
    assert!(walked(&dir, &run).contains(&"PLAN_REVIEW PLANNING".to_owned()));
    dir.ftl(&["why", &run]).code(0).says(&["already satisfied: 1 of 1 pieces of evidence hold"]);
    // A coder that dies for good.
    let dies = "[[scene]]\nrole = \"coder\"\nform = \"code\"\n[[scene.step]]\ndie = \"gone\"\n".to_owned();
    walk(&repository(&but(&[dies])), &story, 1, "CODING ERROR");
    // The whole way, with everything that goes back.
    let back = [
        codes("GO ON", "echo done > a.txt"),
        codes("ONCE MORE", "echo done twice > a.txt"),
        codes("PIVOTED", "echo done > a.txt"),
        codes("", TRIES),
        plans("TURN", "PIVOTED"),
        says("plan_review", "PIVOTED", "APPROVE", "PIVOTED"),
        says("budget_review", "", "CONTINUE", "GO ON"),
        says("code_review", "twice", "APPROVE", "good"),
        says("code_review", "", "CHANGES", "ONCE MORE"),
    ];
    walk(&failing_otherwise(&but(&back)), &story, 0, "AWAIT_MERGE DONE");
    let pivot: Vec<String> = but(&back)
        .iter()
        .map(|one| one.replace("CONTINUE\", feedback = \"GO ON", "PIVOT\", feedback = \"TURN"))
        .collect();
    walk(&failing_otherwise(&pivot), &story, 0, "AWAIT_MERGE DONE");
    // What passes only where the coder stood does not pass where it is merged.
    let cached = set(
        &but(&[codes("", "echo done > a.txt; touch cache")]),
        &format!("{BOUND}[worktree]\ntests = [\"test -f cache && grep -q done a.txt\"]\n"),
    );
    walk(&cached, &story, 1, "AWAIT_MERGE ERROR");
    // Two coders that get in each other's way; the last edge.
    let dir = super::campaigns::overlapping();
    let json = dir.ftl(&super::campaigns::GO).code(0).json();
    seen.extend(walked(&dir, json["run"].as_str().unwrap()));
    let declared = declared(&dir);
    assert_eq!(declared.len(), 23);
    let missing: Vec<&String> = declared.difference(&seen).collect();
    assert_eq!(missing, Vec::<&String>::new());
    assert_eq!(seen.difference(&declared).count(), 0);
}

/// What brings a run into a state, and keeps it there: whom the state asks first.
const STANDS: [(&str, &str); 11] = [
    ("WAITING", "story.assigned"),
    ("SETUP", "worktree.open"),
    ("PLANNING", "Task(coder)\"\nwhen = { step = \"plan\" }\n#"),
    ("PLAN_REVIEW", "Task(architect)\"\nwhen = { step = \"plan_review\" }\n#"),
    ("CODING", "Task(coder)\"\nwhen = { step = \"code\" }\n#"),
    ("TESTING", "tests.run"),
    ("BUDGET_REVIEW", "worktree.progress"),
    ("CODE_REVIEW", "Task(architect)\"\nwhen = { step = \"code_review\" }\n#"),
    ("AWAIT_MERGE", "work.merge"),
    ("DONE", "worktree.close"),
    ("ERROR", "worktree.keep"),
];

/// A script that leads into a state and stays there.
fn stays_in(state: &str, whom: &str) -> String {
    let silent = "silent = [\"tokens\", \"money\", \"turns\"]";
    let step = format!("[[scene.step]]\n{silent}\n");
    let mut answers = format!("[[scene]]\nto = \"{whom}\"\n{step}delay = \"1h\"\nsubmit = {{}}\n");
    let mut answer = |to: &str, value: &str| {
        answers.push_str(&format!("[[scene]]\nto = {to}\n{step}submit = {value}\n"));
    };
    let plan_verdict = if state == "ERROR" { "ABANDON" } else { "APPROVE" };
    let passed = state != "BUDGET_REVIEW";
    answer("\"story.assigned\"", "{ id = \"s\" }");
    answer("\"worktree.open\"", "{ path = \"w\", branch = \"b\", base = \"c\" }");
    answer("\"Task(coder)\"\nwhen = { step = \"plan\" }", "{ digest = \"00\", text = \"p\" }");
    answer("\"Task(coder)\"\nwhen = { step = \"code\" }", "{ summary = \"c\" }");
    let review = format!("{{ verdict = \"{plan_verdict}\", feedback = \"f\" }}");
    answer("\"Task(architect)\"\nwhen = { step = \"plan_review\" }", &review);
    answer(
        "\"Task(architect)\"\nwhen = { step = \"code_review\" }",
        "{ verdict = \"APPROVE\", feedback = \"f\" }",
    );
    // Each time another failure: the same one three times in a row would hold the story before its budget is spent.
    for round in 1..=9 {
        let tests = format!(
            "{{ passed = {passed}, failed = {}, summary = \"s {round}\", tree = \"00\", checks = [] }}",
            !passed
        );
        answer("\"tests.run\"\ntimes = 1", &tests);
    }
    answer(
        "\"work.merge\"",
        "{ status = \"landed\", summary = \"s\", commit = \"c\", target = \"t\", sides = [], files = [] }",
    );
    answer("\"*\"", "{}");
    answers
}

#[test]
fn every_other_pair_is_refused() {
    let edges = declared(&Dir::new());
    let mut refused = BTreeMap::new();
    for (from, whom) in STANDS {
        let dir = repository(&content());
        dir.write("script.toml", stays_in(from, whom));
        let started = dir.start(&["run", "coder", "story=a story", "--script", "script.toml", "--json"]);
        let stands = || {
            let out = dir.ftl(&["status", "--json"]).out;
            let json: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
            let one = json["runs"][0].clone();
            (one["state"] == from).then(|| one["run"].as_str().unwrap().to_owned())
        };
        until(&format!("it stands in {from}: {}", started.err()), || stands().is_some());
        let run = stands().unwrap();
        let before = dir.entries(&run).len();
        for (to, _) in STANDS {
            if edges.contains(&format!("{from} {to}")) {
                continue;
            }
            dir.ftl(&["override", &run, to, "--reason", "I want to", "--by", "Ada"]).code(5);
            *refused.entry(from).or_insert(0) += 1;
        }
        assert_eq!(stands(), Some(run.clone()), "{from}");
        let entries = dir.entries(&run);
        assert!(entries[before..].iter().all(|one| one["fact"] == "refused"), "{from}");
        drop(started);
    }
    assert_eq!(refused.values().sum::<i32>(), 121 - 23, "{refused:?}");
}

#[test]
fn a_plan_may_only_be_looked_at_and_code_only_be_written_in_the_worktree() {
    let outside = r#"{ tool = "write", path = "../../../b.txt", content = "x" }, { tool = "write", path = "a.txt", content = "done\n" }"#;
    let scenes = [
        scene(
            "coder plan",
            "",
            &format!("{}, {{ tool = \"write\", path = \"a.txt\", content = \"x\" }}", bash("echo x > a.txt")),
            "{ text = \"p\" }",
        ),
        scene("coder code", "", outside, "{ summary = \"s\" }"),
    ];
    let dir = repository(&but(&scenes));
    let run = run_of(&code(&dir, &[]).code(0));
    assert_eq!(dir.read("b.txt"), "b\n");
    assert_eq!(dir.git(&["diff", "--name-only", "HEAD", &format!("ftl/{run}")]), "a.txt\n");
}
