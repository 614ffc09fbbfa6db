//! Verdicts: what counts as one, what it is bound to, and what happens where there is none.

use std::fs;

use super::{
    BOUND, TESTED, TRIES, code, codes, content, failing_otherwise, plans, prompts, repository, run_of, says,
    scene, set, states, walked, worktrees,
};
use crate::support::{Dir, until};

fn but(scenes: &[String]) -> Vec<String> {
    scenes.iter().cloned().chain(content()).collect()
}

/// The state in which a run is held.
fn held(dir: &Dir, run: &str) -> String {
    let status = dir.status(run);
    assert_eq!(status["standing"], "held", "{status:#}");
    status["state"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_no_verdict_is_not_approved() {
    let submits = |form: &str, submit: &str| scene(&format!("architect {form}"), "", "", submit);
    let ends = |form: &str, how: &str| {
        format!("[[scene]]\nrole = \"architect\"\nform = \"{form}\"\n[[scene.step]]\n{how}\n")
    };
    let table = [
        ("PLAN_REVIEW", submits("plan_review", "{ verdict = \"YES\", feedback = \"fine\" }")),
        ("PLAN_REVIEW", submits("plan_review", "{ feedback = \"fine\" }")),
        ("PLAN_REVIEW", submits("plan_review", "{ verdict = \"CHANGES\", feedback = \"\" }")),
        ("PLAN_REVIEW", ends("plan_review", "die = \"gone\"")),
        ("CODE_REVIEW", submits("code_review", "{ verdict = \"COMPLETE\", feedback = \"fine\" }")),
        ("CODE_REVIEW", ends("code_review", "die = \"gone\"")),
        ("CODE_REVIEW", ends("code_review", "reply = \"I approve\"")),
    ];
    for (state, scene) in table {
        let dir = repository(&but(std::slice::from_ref(&scene)));
        let run = run_of(&code(&dir, &[]).code(3));
        assert_eq!(held(&dir, &run), state, "{scene}");
        // A person is told what they can do, and a working architect goes on from this very step.
        dir.ftl(&["why", &run]).code(0).says(&[
            "held",
            &format!("ftl resume {run}"),
            &format!("ftl stop {run}"),
        ]);
        dir.write("play.toml", content().concat());
        dir.ftl(&["resume", &run]).code(0);
        assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
    }
}

#[test]
fn an_architect_that_waits_for_what_never_comes_is_not_waited_for() {
    let waits = "[[scene]]\nrole = \"architect\"\n[[scene.step]]\nuntil = \"../never\"\nreply = \"x\"\n";
    let settings = format!("{BOUND}{TESTED}").replace("[agents.mind]\n", "[agents.mind]\nsilence = \"1s\"\n");
    let dir = set(&but(&[waits.to_owned()]), &settings);
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(held(&dir, &run), "PLAN_REVIEW");
    dir.ftl(&["why", &run]).code(0).says(&["there was no `", "../never` for 1s"]);
}

#[test]
fn a_verdict_is_void_when_the_tree_is_another_one() {
    // While the architect looks, somebody writes into the worktree.
    let waits = "[[scene]]\nrole = \"architect\"\nform = \"code_review\"\n[[scene.step]]\n\
        until = \"../../../meet-written\"\nsubmit = { verdict = \"APPROVE\", feedback = \"good\" }\n";
    let dir = repository(&but(&[waits.to_owned()]));
    let started = dir.start(&["code", "a story", "--json"]);
    let file = || {
        let all = fs::read_dir(dir.path(".ftl/worktrees")).ok()?;
        all.flatten().map(|one| one.path().join("a.txt")).find(|file| file.exists())
    };
    until("the architect is asked", || {
        dir.count("SELECT count(*) FROM notes WHERE kind = 'talk' AND body LIKE '%code_review%'") > 0
    });
    let file = file().unwrap();
    fs::write(&file, "done, and more\n").unwrap();
    dir.write("meet-written", "");
    let ended = started.ended().code(3);
    let run = run_of(&ended);
    assert_eq!(held(&dir, &run), "CODE_REVIEW");
    dir.ftl(&["why", &run]).code(0).says(&["was tested, but", "stands there now"]);
    // A person may take the edge all the same; the merge takes the tree that was reviewed, or nothing.
    dir.ftl(&["override", &run, "AWAIT_MERGE", "--reason", "I looked", "--by", "Ada"]);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE ERROR");
    assert_eq!(dir.git(&["diff", "--stat", "HEAD", &format!("ftl/{run}")]), "", "nothing has landed");
    assert_eq!(dir.git(&["for-each-ref", "refs/ftl/kept"]).lines().count(), 1, "and nothing is lost");
}

#[test]
fn a_claim_without_proof_is_no_completion() {
    let claim =
        |evidence: &str| format!("{{ verdict = \"COMPLETE\", feedback = \"there\", evidence = {evidence} }}");
    let many = "{ claim = \"x\", path = \"a.txt\", quote = \"a\" }, ".repeat(33);
    let table = [
        ("[]".to_owned(), "no evidence was named"),
        ("[{ claim = \"trust me\" }]".to_owned(), "trust me: it names neither a file nor a test"),
        ("[{ claim = \"x\", path = \"zzz\", quote = \"a\" }]".to_owned(), "there is no file `zzz`"),
        ("[{ claim = \"x\", path = \"a.txt\" }]".to_owned(), "nothing is quoted from `a.txt`"),
        ("[{ claim = \"x\", test = \"true\" }]".to_owned(), "`true` is no test of this story"),
        (
            "[{ claim = \"x\", test = \"grep -q done a.txt\" }]".to_owned(),
            "`grep -q done a.txt`: exit code 1",
        ),
        (format!("[{many}]"), "33 pieces of evidence; 32 is the most"),
    ];
    for (evidence, why) in table {
        let scenes = [
            plans("not yet satisfied", "do it"),
            says("plan_review", "do it", "APPROVE", "good"),
            scene("architect plan_review", "", "", &claim(&evidence)),
            plans("", "look"),
        ];
        let dir = repository(&but(&scenes));
        let run = run_of(&code(&dir, &[]).code(0));
        assert_eq!(states(&walked(&dir, &run))[3], "PLANNING", "{evidence}");
        let told = prompts(&dir, &run, "coder", "plan").remove(1);
        assert!(
            told.contains(&format!("not yet satisfied: {}", why)) || told.contains(why),
            "{evidence}: {told}"
        );
    }
}

#[test]
fn plans_that_nobody_approves_are_held_after_five() {
    // Each time another plan, and something else that is wrong with it.
    let rounds = (1..=5).flat_map(|round| {
        let (plan, wrong) = (format!("way {}", round + 1), format!("NOT {round} LIKE THIS"));
        [plans(&wrong, &plan), says("plan_review", &format!("way {round}"), "CHANGES", &wrong)]
    });
    let scenes: Vec<String> = rounds.chain([plans("", "way 1")]).collect();
    let dir = repository(&but(&scenes));
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(held(&dir, &run), "PLANNING");
    assert_eq!(prompts(&dir, &run, "coder", "plan").len(), 5);
    dir.ftl(&["why", &run]).code(0).says(&[&format!("ftl raise {run} planning_iterations 10 --reason")]);
    dir.write("play.toml", content().concat());
    dir.ftl(&["raise", &run, "planning_iterations", "6", "--reason", "once more", "--by", "Ada"]).code(0);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
}

#[test]
fn equal_failures_three_times_in_a_row_hold_the_story_and_resuming_tests_again() {
    let dir = set(&content(), BOUND);
    let mended = dir.path("mended");
    let tests = format!("echo no module frozen; test -f '{}' && grep -q done a.txt", mended.display());
    dir.write("ftl.toml", format!("{BOUND}[worktree]\ntests = [\"{tests}\"]\n"));
    fs::write(dir.path(".git/info/exclude"), "ftl.toml\nplay.toml\nmended\n/.ftl/\n").unwrap();
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(held(&dir, &run), "TESTING");
    assert_eq!(prompts(&dir, &run, "coder", "code").len(), 3);
    let told = ["the same failure three times in a row: ", "no module frozen"];
    dir.ftl(&["log", &run, "--all"]).code(0).says(&told);
    dir.ftl(&["resume", &run]).code(3);
    assert_eq!(prompts(&dir, &run, "coder", "code").len(), 3, "nobody is asked while nothing has changed");
    dir.write("mended", "");
    dir.ftl(&["resume", &run]).code(0);
    assert_eq!(prompts(&dir, &run, "coder", "code").len(), 3);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
}

#[test]
fn a_reviewer_that_says_the_same_three_times_holds_the_story() {
    let dir = repository(&but(&[says("plan_review", "", "CHANGES", "NOT LIKE THIS")]));
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(held(&dir, &run), "PLAN_REVIEW");
    assert_eq!(prompts(&dir, &run, "coder", "plan").len(), 3);
    dir.ftl(&["log", &run, "--all"]).code(0).says(&["the same failure three times in a row: NOT LIKE THIS"]);
}

#[test]
fn the_budget_is_reviewed_and_three_extensions_are_the_most() {
    let scenes = but(&[codes("", TRIES), says("budget_review", "", "CONTINUE", "TRY HARDER")]);
    let dir = failing_otherwise(&scenes);
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(held(&dir, &run), "BUDGET_REVIEW");
    let edges = walked(&dir, &run);
    let count = |wanted: &str| edges.iter().filter(|edge| *edge == wanted).count();
    assert_eq!((count("CODING TESTING"), count("BUDGET_REVIEW CODING")), (32, 3));
    let seen = prompts(&dir, &run, "architect", "budget_review").remove(0);
    assert!(seen.contains("coding_iterations") && seen.contains("0 files changed"), "{seen}");
    assert!(prompts(&dir, &run, "coder", "code")[8].contains("TRY HARDER"));
    dir.ftl(&["why", &run]).code(0).says(&[&format!("ftl raise {run} extensions 6 --reason")]);
}

#[test]
fn a_pivot_and_another_plan_are_reviewed_again() {
    for verdict in ["PIVOT", "REPLAN"] {
        let scenes = [
            codes("THE OTHER WAY", "echo done > a.txt"),
            codes("", TRIES),
            plans("TURN ROUND", "THE OTHER WAY"),
            says("budget_review", "", verdict, "TURN ROUND"),
        ];
        let dir = failing_otherwise(&but(&scenes));
        let run = run_of(&code(&dir, &[]).code(0));
        let edges = walked(&dir, &run);
        let at = edges.iter().position(|edge| edge == "BUDGET_REVIEW PLANNING").unwrap();
        assert_eq!(edges[at + 1], "PLANNING PLAN_REVIEW", "{verdict}");
        assert!(prompts(&dir, &run, "coder", "plan")[1].contains("TURN ROUND"), "{verdict}");
    }
}

#[test]
fn where_nothing_says_how_to_test_a_person_is_asked_and_settings_mend_it() {
    let dir = set(&content(), BOUND);
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(held(&dir, &run), "TESTING");
    dir.ftl(&["why", &run])
        .code(0)
        .says(&["nothing here says how to test it (hint: set worktree.tests in ftl.toml)"]);
    dir.write("ftl.toml", format!("{BOUND}{TESTED}"));
    dir.ftl(&["resume", &run]).code(0);
    assert_eq!((walked(&dir, &run).last().unwrap().as_str(), worktrees(&dir)), ("AWAIT_MERGE DONE", 0));
}

#[test]
fn a_coder_that_reviews_itself_is_told_at_the_start() {
    let alone = "[agents.hand]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\ncoder = \"hand\"\narchitect = \"hand\"\n";
    let dir = super::set(&super::content(), &format!("{alone}{}", super::TESTED));
    super::code(&dir, &[])
        .code(0)
        .says(&["note: `hand` answers both coder and architect", "reviews its own work"]);
    let two = super::code(&super::repository(&super::content()), &[]).code(0);
    assert!(!two.err.contains("answers both"), "{two:#?}");
}
