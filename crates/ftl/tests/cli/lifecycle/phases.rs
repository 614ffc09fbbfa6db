//! The phases with agents out of a script: unattended from a brief to a commit, and the ways back.

use super::{Json, get, has, json, next, phase, put, say};
use crate::support::Dir;

/// A project whose only test looks for the note.
pub(crate) fn project(scenes: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("Makefile", "test:\n\t@sh test.sh\n").write("README.md", "# Notes\n");
    dir.write("test.sh", "grep -q 'a good note' note.txt && echo 'running 1 test' && echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'\n");
    let settings = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n\
        [roles]\nplanner = \"play\"\nreviewers = \"play\"\ncoder = \"play\"\n";
    dir.write("ftl.toml", settings).write("play.toml", scenes);
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    dir
}

fn scene(role: &str, told: &str, steps: &str) -> String {
    let told = if told.is_empty() { String::new() } else { format!("told = '''{told}'''\n") };
    let (role, form) = role.split_once(' ').unwrap_or((role, ""));
    let form = if form.is_empty() { String::new() } else { format!("form = \"{form}\"\n") };
    format!("[[scene]]\nrole = \"{role}\"\n{form}{told}{steps}\n")
}

fn submit(answer: &str) -> String {
    format!("[[scene.step]]\nsubmit = {answer}\n")
}

const PLANNED: &str = "{ title = \"Add a note\", summary = \"One file\", in_scope = [\"a note\"], acceptance_criteria = [\"there is a note\"], \
    file_plan = [{ path = \"note.txt\", intent = \"create\", summary = \"the note\" }] }";

const REVIEWED: &str =
    "{ summary = \"fine\", reviewers = [{ id = \"me\", ok = true, decision = \"accept\" }] }";

const CLEAN: &str = "{ summary = \"fine\", issues = [] }";

fn coded(text: &str) -> String {
    format!(
        "[[scene.step]]\ncalls = [{{ tool = \"write\", path = \"note.txt\", content = \"{text}\" }}]\n{}",
        submit("{ summary = \"written\" }")
    )
}

/// Everything goes well.
pub(crate) fn good() -> String {
    [
        scene("planner", "", &submit(PLANNED)),
        scene("reviewers plan", "", &submit(REVIEWED)),
        scene("reviewers code", "+a good note", &submit(CLEAN)),
        scene("coder", "", &coded("a good note\\n")),
    ]
    .concat()
}

#[test]
fn the_prompts_of_the_repository_name_who_reviews() {
    let law = scene("reviewers plan", "law: May we?", &submit(REVIEWED));
    let cost = scene("reviewers plan", "cost", &submit(REVIEWED));
    let dir = project(&format!("{law}{cost}{}", good().replace("reviewers", "nobody")));
    let prompt = "<!-- part: task -->\n{{inputs}} {{answer}}\n<!-- part: feedback -->\n{{feedback}}\n";
    let concerns = "<!-- concern: law -->\nMay we?\n<!-- concern: cost -->\n";
    dir.write(".ftl/prompts/reviewers.md", format!("{concerns}{prompt}"));
    let id = dir.ftl(&["new", "Add a note", "--json"]).code(0).json()["task"].as_str().unwrap().to_owned();
    say(&dir, &id, &["plan"]).code(0);
    next(&dir, &id, &[], 0, Some("plan_review"));
    say(&dir, &id, &["review", "plan"]).code(0);
    let review: Json = serde_json::from_str(&get(&dir, &id, "review/plan-review.json")).unwrap();
    let roles: Vec<&Json> = review["reviewers"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, [&json!("law"), &json!("cost")]);
}

#[test]
fn a_whole_lifecycle_unattended() {
    let dir = project(&good());
    let id = dir.ftl(&["new", "Add a note", "--json"]).code(0).json()["task"].as_str().unwrap().to_owned();
    let answer = next(&dir, &id, &["--auto"], 0, Some("accept"));
    assert!(answer["reason"].as_str().unwrap().contains("a person decides"), "{answer:#}");
    let review: Json = serde_json::from_str(&get(&dir, &id, "review/plan-review.json")).unwrap();
    let roles: Vec<&str> =
        review["reviewers"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["product", "design", "senior developer", "test", "risk"]);
    assert_eq!(get(&dir, &id, "code/files/note.txt"), "a good note\n");
    assert!(!dir.path("note.txt").exists(), "the person's tree is untouched");
    let report: Json = serde_json::from_str(&get(&dir, &id, "eval/eval-report.json")).unwrap();
    assert_eq!(
        (&report["overall_pass"], &report["summary"]["passed"]),
        (&json!(true), &json!(1)),
        "{report:#}"
    );
    say(&dir, &id, &["accept", "--reason", "good"]).code(0);
    next(&dir, &id, &["--auto"], 0, Some("done"));
    assert_eq!(dir.read("note.txt"), "a good note\n");
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
    // Each phase was said once, and what each one was told is on record.
    let run = say(&dir, &id, &["show"]).json()["run"].as_str().unwrap().to_owned();
    let asked = dir
        .entries(&run)
        .iter()
        .filter(|entry| entry["fact"] == "asked" && entry.to_string().contains("Task("))
        .count();
    assert_eq!(asked, 4);
    assert_eq!(dir.status(&run)["standing"], "complete");
}

#[test]
fn a_red_report_goes_back_with_what_failed_and_a_phase_replaces_its_own_artifacts() {
    let scenes = [
        scene("planner", "", &submit(PLANNED)),
        scene("reviewers plan", "", &submit(REVIEWED)),
        scene("reviewers code", "+bad note", &submit(CLEAN)),
        scene("reviewers code", "+a good note", &submit(CLEAN)),
        scene("coder", "the report is red", &coded("a good note\\n")),
        scene("coder", "", &coded("bad note\\n")),
    ];
    let dir = project(&scenes.concat());
    dir.ftl(&["new", "Add a note", "--task", "n"]).code(0);
    for (word, to) in [
        (&["plan"][..], "plan_review"),
        (&["review", "plan"], "codegen"),
        (&["codegen"], "review"),
        (&["review", "code"], "test"),
    ] {
        let before = phase(&dir, "n");
        say(&dir, "n", word).code(0);
        assert_eq!(phase(&dir, "n"), before, "a word never moves");
        next(&dir, "n", &[], 0, Some(to));
    }
    let answer = say(&dir, "n", &["test"]).code(0).json();
    assert_eq!(answer["open"], "codegen", "{answer:#}");
    say(&dir, "n", &["test"]).code(0);
    assert!(has(&dir, "n", "versions/0001/eval/eval-report.json"), "the report before is kept");
    next(&dir, "n", &[], 0, Some("codegen"));
    // The coder is told what failed: its scene is chosen by that.
    say(&dir, "n", &["codegen"]).code(0);
    assert_eq!(get(&dir, "n", "code/files/note.txt"), "a good note\n");
    assert_eq!(get(&dir, "n", "versions/0002/code/files/note.txt"), "bad note\n");
    next(&dir, "n", &[], 0, Some("review"));
    let answer = next(&dir, "n", &[], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("stale"), "{answer:#}");
    next(&dir, "n", &["--auto"], 0, Some("accept"));
}

#[test]
fn after_done_the_code_is_written_again_on_what_was_accepted() {
    let more = scene("coder", "say more", &coded("a good note, and more\\n"));
    let dir = project(&format!("{more}{}", good()));
    dir.ftl(&["new", "Add a note", "--task", "n"]).code(0);
    next(&dir, "n", &["--auto"], 0, Some("accept"));
    say(&dir, "n", &["accept", "--reason", "good"]).code(0);
    next(&dir, "n", &[], 0, Some("done"));
    // Somebody else's work lies between.
    dir.write("README.md", "# Notes\n\nSome.\n");
    dir.git(&["commit", "-qam", "between"]);
    say(&dir, "n", &["redo", "codegen", "--reason", "say more"]).code(0);
    next(&dir, "n", &["--auto"], 0, Some("accept"));
    let patch = get(&dir, "n", "code/diff.patch");
    assert!(patch.contains("-a good note\n") && patch.contains("+a good note, and more\n"), "{patch}");
    say(&dir, "n", &["accept", "--reason", "better"]).code(0);
    next(&dir, "n", &[], 0, Some("done"));
    assert_eq!(dir.read("note.txt"), "a good note, and more\n");
    assert_eq!(dir.git(&["rev-list", "--count", "HEAD"]).trim(), "4");
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
}

#[test]
fn reviewers_block_and_the_planner_hears_of_it() {
    let blocked = "{ summary = \"no\", reviewers = [{ id = \"me\", ok = false, decision = \"blocked\", blocking_issues = [\"no way back\"] }] }";
    let scenes = [
        scene("planner", "no way back", &submit(&PLANNED.replace("One file", "One file, with a way back"))),
        scene("planner", "", &submit(PLANNED)),
        scene("reviewers plan", "with a way back", &submit(REVIEWED)),
        scene("reviewers plan", "", &submit(blocked)),
        scene("coder", "", &coded("a good note\\n")),
    ];
    let dir = project(&scenes.concat());
    dir.ftl(&["new", "Add a note", "--task", "n"]).code(0);
    say(&dir, "n", &["plan"]).code(0);
    next(&dir, "n", &[], 0, Some("plan_review"));
    say(&dir, "n", &["review", "plan"]).code(0);
    next(&dir, "n", &[], 0, Some("planning"));
    say(&dir, "n", &["plan"]).code(0);
    assert!(get(&dir, "n", "planning/planning.ai.json").contains("with a way back"));
    assert!(has(&dir, "n", "versions/0001/planning/planning.ai.json"));
    next(&dir, "n", &[], 0, Some("plan_review"));
    let answer = next(&dir, "n", &[], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("stale"), "{answer:#}");
    next(&dir, "n", &["--auto"], 4, Some("review"));
}

#[test]
fn an_open_question_needs_a_person() {
    let asking = PLANNED.replace(
        "file_plan =",
        "open_questions = [{ question = \"Which colour?\", blocking = true }], file_plan =",
    );
    let dir = project(&scene("planner", "", &submit(&asking)));
    dir.ftl(&["new", "Add a note", "--task", "n"]).code(0);
    let answer = next(&dir, "n", &["--auto"], 4, None);
    assert!(answer["reason"].as_str().unwrap().contains("Which colour?"), "{answer:#}");
    let plan = get(&dir, "n", "planning/planning.ai.json");
    let plan = plan
        .replace("\"state\": \"open\"", "\"state\": \"answered\"")
        .replace("\"answer\": null", "\"answer\": \"red\"");
    put(&dir, "n", "planning/planning.ai.json", &plan);
    next(&dir, "n", &[], 0, Some("plan_review"));
}
