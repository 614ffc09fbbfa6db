//! Stories in campaigns: coders side by side, documents that become stories.

use serde_json::{Value as Json, json};

use super::{BOUND, TESTED, codes, content, plans, prompts, run_of, says, scene, sent, set, walked};
use crate::support::Dir;

pub(super) const GO: [&str; 8] =
    ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "ff", "--json"];

fn story(seq: &str, slug: &str, file: &str, verify: &str) -> Json {
    json!({ "seq": seq, "slug": slug, "delta": [file], "verify": verify, "depends": [], "worker": "coder" })
}

fn write_plan(dir: &Dir, tasks: &[Json]) {
    dir.write("plan.json", json!({ "objective": "all is done", "tasks": tasks }).to_string());
}

/// Two coders that both change the same line of a file that only one of them has named; each waits until the
/// other one works too.
pub(super) fn overlapping() -> Dir {
    let meets = |own: &str, other: &str| {
        format!("touch ../../../meet-{own}; while ! test -e ../../../meet-{other}; do sleep 0.05; done")
    };
    let resolve = "sed -i -e '/^<<<<<<</d' -e '/^=======/d' -e '/^>>>>>>>/d' -e '/^|||||||/d' a.txt";
    let scenes = [
        codes("\"path\": \"a.txt\"", resolve),
        codes("First thing", &format!("{}; echo first done > a.txt", meets("one", "two"))),
        codes(
            "Second thing",
            &format!("{}; echo second done > a.txt; echo done > b.txt", meets("two", "one")),
        ),
        plans("", "write it"),
        says("plan_review", "", "APPROVE", "good"),
        says("code_review", "", "APPROVE", "good"),
    ];
    let dir = set(&scenes, BOUND);
    write_plan(
        &dir,
        &[
            story("001", "first-thing", "a.txt", "grep -q done a.txt"),
            story("002", "second-thing", "b.txt", "grep -q done b.txt"),
        ],
    );
    dir
}

#[test]
fn two_coders_on_overlapping_stories_both_land() {
    let dir = overlapping();
    let ended = dir.ftl(&GO).code(0);
    let (run, json) = (run_of(&ended), ended.json());
    assert_eq!(json["report"]["landed"].as_array().unwrap().len(), 2, "{json:#}");
    let edges = walked(&dir, &run);
    assert_eq!(edges.iter().filter(|edge| *edge == "AWAIT_MERGE CODING").count(), 1, "{edges:?}");
    let text = dir.read("a.txt");
    assert!(text.contains("first done") && text.contains("second done") && !text.contains("<<<"), "{text}");
    assert_eq!(dir.read("b.txt"), "done\n");
    // Both sides stood in the prompt after the conflict.
    let told = prompts(&dir, &run, "coder", "code")
        .into_iter()
        .find(|one| one.contains("\"path\": \"a.txt\""))
        .unwrap();
    assert!(told.contains("first done") && told.contains("second done"), "{told}");
    // Each story has coders and architects of its own, each told its own story only.
    for (role, form, agent, prompt) in sent(&dir, &run) {
        let both = prompt.contains("First thing") && prompt.contains("Second thing");
        assert!(!both, "{role} {form} {agent}: {prompt}");
    }
    assert_eq!(dir.git(&["rev-list", "--count", "HEAD"]).trim(), "3");
}

#[test]
fn the_settings_say_who_works_where_a_plan_does_not() {
    let dir = set(&content(), &format!("{BOUND}{TESTED}[campaign]\nworker = \"coder\"\n"));
    let mut task = story("001", "thing", "a.txt", "grep -q done a.txt");
    task.as_object_mut().unwrap().remove("worker");
    write_plan(&dir, &[task]);
    let run = run_of(&dir.ftl(&GO).code(0));
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
    // A coder that gives up blocks its task.
    let abandons = [&[says("plan_review", "", "ABANDON", "no use")][..], &content()].concat();
    let dir = set(&abandons, BOUND);
    write_plan(&dir, &[story("001", "thing", "a.txt", "true")]);
    let json = dir.ftl(&GO).code(3).json();
    assert_eq!(json["report"]["blocked"][0]["reason"], "no use", "{json:#}");
}

/// An architect that makes these stories of a document.
fn makes(tasks: &Json) -> String {
    let plan = json!({ "objective": "all is done", "tasks": tasks });
    format!(
        "[[scene]]\nrole = \"planner\"\ntold = \"Both files say done\"\n[[scene.step]]\n\
         submit = {{ text = '''Decision: PROCEED\n\n```json\n{plan}\n```\n''' }}\n"
    )
}

#[test]
fn a_document_becomes_stories_and_stories_become_commits() {
    let tasks = json!([
        { "seq": "001", "slug": "first-thing", "delta": ["a.txt"], "verify": "grep -q done a.txt", "depends": "none",
          "story": "WHAT THE FIRST IS ABOUT" },
        { "seq": "002", "slug": "second-thing", "delta": ["b.txt"], "verify": "grep -q done b.txt", "depends": ["001"],
          "worker": "builder" },
        { "seq": "003", "slug": "there-already", "delta": ["c.txt"], "verify": "grep -q done a.txt", "depends": ["002"] },
    ]);
    let proved = "{ verdict = \"COMPLETE\", feedback = \"there\", evidence = [{ claim = \"said\", test = \"grep -q done a.txt\" }] }";
    let scenes = [
        makes(&tasks),
        scene("architect plan_review", "There already", "", proved),
        codes("First thing", "echo done > a.txt"),
        codes("Second thing", "grep -q done a.txt && echo done > b.txt"),
    ];
    let scenes = [&scenes[..], &content()].concat();
    let dir = set(&scenes, BOUND);
    dir.write("spec.md", "# The files\n\nBoth files say done.\n");
    // Nothing is coded where only stories are wanted.
    let json = dir.ftl(&["code", "--from", "spec.md", "--dry-run", "--json"]).code(0).json();
    assert_eq!(json["plan"]["tasks"][1]["worker"], "coder", "{json:#}");
    assert_eq!(dir.git(&["branch", "--list", "ftl/*"]), "");
    let dry = dir.ftl(&["code", "--from", "spec.md", "--dry-run"]).code(0);
    assert!(
        dry.out.contains("001 first-thing BUILD (depth 1, by a coder)") || dry.out.contains("by a coder"),
        "{dry:#?}"
    );
    let ended = dir.ftl(&["code", "--from", "spec.md", "--coders", "2", "--land", "ff", "--json"]).code(0);
    let run = run_of(&ended);
    assert_eq!((dir.read("a.txt"), dir.read("b.txt")), ("done\n".to_owned(), "done\n".to_owned()));
    assert_eq!(ended.json()["report"]["landed"].as_array().unwrap().len(), 3, "{:#}", ended.json());
    assert_eq!(
        dir.git(&["rev-list", "--count", "HEAD"]).trim(),
        "3",
        "what was there already made no commit"
    );
    let all = sent(&dir, &run);
    let planner = all.iter().find(|one| one.0 == "planner").unwrap();
    assert_eq!(planner.2, "mind", "the architect's agent makes the stories");
    assert!(
        planner.3.contains("Both files say done.") && planner.3.contains("One story, unless several"),
        "{}",
        planner.3
    );
    let first = prompts(&dir, &run, "coder", "plan").remove(0);
    assert!(
        first.contains("WHAT THE FIRST IS ABOUT") && first.contains("This must pass: grep -q done a.txt"),
        "{first}"
    );
    assert!(!all.iter().any(|one| one.0 == "builder"));
}
