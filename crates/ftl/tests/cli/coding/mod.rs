//! Stories by coders and architects, on real repositories: agents are scripts that really edit files.

mod campaigns;
mod edges;
mod kills;
mod pulls;
mod reviews;
mod setups;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value as Json;

use crate::live::{Terminal, plain};
use crate::support::{CommandOutcome, Dir, until};

/// Two agents, so that author and reviewer are different ones, and how a story is tested here.
pub(super) const BOUND: &str = "[agents.hand]\nkind = \"scripted\"\nscript = \"play.toml\"\n\
    [agents.mind]\nkind = \"scripted\"\nscript = \"play.toml\"\n[process]\nsilence = \"30s\"\n\
    [roles]\ncoder = \"hand\"\narchitect = \"mind\"\n";

/// How a story is tested, unless a test says otherwise.
pub(super) const TESTED: &str = "[worktree]\ntests = [\"grep -q done a.txt\"]\n";

/// A scene: who answers, in which form, when told what, with which calls, and what is submitted.
pub(super) fn scene(who: &str, told: &str, calls: &str, submit: &str) -> String {
    let (role, form) = who.split_once(' ').unwrap();
    let told = if told.is_empty() { String::new() } else { format!("told = '''{told}'''\n") };
    let calls = if calls.is_empty() { String::new() } else { format!("[[scene.step]]\ncalls = [{calls}]\n") };
    format!(
        "[[scene]]\nrole = \"{role}\"\nform = \"{form}\"\n{told}{calls}[[scene.step]]\nsubmit = {submit}\n"
    )
}

pub(super) fn bash(command: &str) -> String {
    format!("{{ tool = \"bash\", command = '''{command}''' }}")
}

/// A coder that runs a command when it is told something.
pub(super) fn codes(told: &str, command: &str) -> String {
    scene("coder code", told, &bash(command), "{ summary = \"coded\" }")
}

pub(super) fn plans(told: &str, text: &str) -> String {
    scene("coder plan", told, "", &format!("{{ text = \"{text}\", digest = \"0000\" }}"))
}

/// An architect that says this about what it is told.
pub(super) fn says(step: &str, told: &str, verdict: &str, feedback: &str) -> String {
    let submit = format!("{{ verdict = \"{verdict}\", feedback = \"{feedback}\" }}");
    scene(&format!("architect {step}"), told, "", &submit)
}

/// Everybody is content with the first thing.
pub(super) fn content() -> Vec<String> {
    vec![
        plans("", "write it down"),
        says("plan_review", "", "APPROVE", "good"),
        codes("", "echo done > a.txt"),
        says("code_review", "", "APPROVE", "good"),
    ]
}

/// A repository with agents that play these scenes.
pub(super) fn repository(scenes: &[String]) -> Dir {
    set(scenes, &format!("{BOUND}{TESTED}"))
}

/// What a coder does who gets nowhere: nothing that git would see.
pub(super) const TRIES: &str = "echo x >> cache";

/// The same, where the tests fail in another way after each try of [`TRIES`]: equal failures would end the story.
pub(super) fn failing_otherwise(scenes: &[String]) -> Dir {
    set(scenes, &format!("{BOUND}[worktree]\ntests = [\"wc -l cache; grep -q done a.txt\"]\n"))
}

pub(super) fn set(scenes: &[String], settings: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n").write("b.txt", "b\n").write(".gitignore", "cache\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    dir.write("ftl.toml", settings).write("play.toml", scenes.concat());
    let ours = "ftl.toml\nplay.toml\nplan.json\nspec.md\n.out-*\n.err-*\nmeet*\n/.ftl/\n/settings/\n";
    fs::write(dir.path(".git/info/exclude"), ours).unwrap();
    dir
}

pub(super) const STORY: &str = "Have a.txt say that it is done";

pub(super) fn code(dir: &Dir, more: &[&str]) -> CommandOutcome {
    dir.ftl(&[&["code", STORY, "--json"], more].concat())
}

pub(super) fn run_of(ended: &CommandOutcome) -> String {
    ended.json()["run"].as_str().unwrap_or_else(|| panic!("{ended:#?}")).to_owned()
}

/// The edges that instances of the coder have taken, as `FROM TO`, in order.
pub(super) fn walked(dir: &Dir, run: &str) -> Vec<String> {
    let mut states = std::collections::BTreeMap::new();
    let mut edges = Vec::new();
    for entry in dir.entries(run) {
        let who = entry["instance"].as_u64().unwrap();
        if entry["fact"] == "opened" && entry["protocol"] == "coder" {
            states.insert(who, String::from("WAITING"));
        }
        if let (Some(state), "moved") = (states.get_mut(&who), entry["fact"].as_str().unwrap()) {
            let to = entry["to"].as_str().unwrap().to_owned();
            edges.push(format!("{state} {to}"));
            *state = to;
        }
    }
    edges
}

pub(super) fn states(edges: &[String]) -> Vec<&str> {
    edges.iter().map(|edge| edge.split_once(' ').unwrap().1).collect()
}

/// What was sent to agents of a run, in order: role, form, agent, prompt.
pub(super) fn sent(dir: &Dir, run: &str) -> Vec<(String, String, String, String)> {
    let open = dir.database();
    let mut rows = open.prepare("SELECT key, body FROM notes WHERE kind = 'talk'").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut all = Vec::new();
    for (key, body) in rows.map(Result::unwrap).filter(|(key, _)| key.starts_with(&format!("{run}."))) {
        let entry: u64 = key.split('.').nth(1).unwrap().parse().unwrap();
        let talks: Vec<Json> = serde_json::from_str(&body).unwrap();
        for talk in talks {
            let text = |name: &str| talk[name].as_str().unwrap_or_default().to_owned();
            all.push((entry, (text("role"), text("form"), text("agent"), content_of(dir, &text("prompt")))));
        }
    }
    all.sort();
    all.into_iter().map(|(_, one)| one).collect()
}

/// The prompts of one role in one form.
pub(super) fn prompts(dir: &Dir, run: &str, role: &str, form: &str) -> Vec<String> {
    let all = sent(dir, run).into_iter().filter(|one| (one.0.as_str(), one.1.as_str()) == (role, form));
    all.map(|one| one.3).collect()
}

/// What the store holds under a digest.
pub(super) fn content_of(dir: &Dir, digest: &str) -> String {
    let open = dir.database();
    let (number, bytes): (i64, Vec<u8>) = open
        .query_row("SELECT number, bytes FROM content WHERE lower(hex(digest)) = ?1", [digest], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(!bytes.is_empty(), "content {number} is in parts");
    String::from_utf8(bytes).unwrap()
}

pub(super) fn worktrees(dir: &Dir) -> usize {
    fs::read_dir(dir.path(".ftl/worktrees")).map_or(0, Iterator::count)
}

#[test]
fn a_story_goes_from_words_to_a_merge_unattended() {
    let mut scenes = vec![
        plans("NAME THE FILE", "write it into a.txt"),
        says("plan_review", "write it into a.txt", "APPROVE", "MIND THE NEWLINE"),
        says("plan_review", "somewhere", "CHANGES", "NAME THE FILE"),
        codes("grep -q done", "echo done > a.txt"),
        codes("SAY IT TWICE", "echo done done > a.txt"),
        codes("MIND THE NEWLINE", "echo almost > a.txt"),
        says("code_review", "+done done", "APPROVE", "good"),
        says("code_review", "+done", "CHANGES", "SAY IT TWICE"),
    ];
    scenes.push(plans("", "write it somewhere"));
    let dir = repository(&scenes);
    let ended = code(&dir, &["--land", "ff"]).code(0);
    let (run, json) = (run_of(&ended), ended.json());
    let edges = walked(&dir, &run);
    assert_eq!(
        states(&edges).join(" "),
        "SETUP PLANNING PLAN_REVIEW PLANNING PLAN_REVIEW CODING TESTING CODING TESTING CODE_REVIEW CODING TESTING \
         CODE_REVIEW AWAIT_MERGE DONE"
    );
    assert_eq!((dir.read("a.txt"), worktrees(&dir)), ("done done\n".to_owned(), 0));
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
    assert!(json["report"]["delivered"].as_str().unwrap().contains("`master` is at"), "{json:#}");
    assert_eq!(dir.git(&["log", "-1", "--format=%s"]).trim(), STORY);
    // What was said on the way back stands in the prompt that was really sent.
    let coder = prompts(&dir, &run, "coder", "code");
    assert!(
        coder[0].contains("MIND THE NEWLINE") && coder[0].contains("write it into a.txt"),
        "{}",
        coder[0]
    );
    assert!(coder[1].contains("`grep -q done a.txt`"), "{}", coder[1]);
    assert!(coder[2].contains("SAY IT TWICE"), "{}", coder[2]);
    assert!(prompts(&dir, &run, "coder", "plan")[1].contains("NAME THE FILE"));
    // The architect saw the plan's own text, and the change of the tree that was tested.
    let architect = prompts(&dir, &run, "architect", "code_review");
    assert!(
        architect[0].contains("write it into a.txt") && architect[0].contains("+done\n"),
        "{}",
        architect[0]
    );
    // Author and reviewer are different agents.
    let who: BTreeSet<(String, String)> = sent(&dir, &run).into_iter().map(|one| (one.0, one.2)).collect();
    let both =
        [("architect", "mind"), ("coder", "hand")].map(|(role, agent)| (role.to_owned(), agent.to_owned()));
    assert_eq!(who, both.into());
    dir.ftl(&["undo"]).code(0);
    assert_eq!(dir.read("a.txt"), "a\n");
}

#[test]
fn the_digest_of_a_plan_is_that_of_what_was_submitted() {
    let dir = repository(&content());
    let run = run_of(&code(&dir, &[]).code(0));
    let entries = dir.entries(&run);
    let plan = entries.iter().find(|one| one["answer"]["done"]["text"] == "write it down");
    let digest = plan.unwrap_or_else(|| panic!("{entries:#?}"))["answer"]["done"]["digest"].as_str().unwrap();
    assert_eq!(content_of(&dir, digest), "write it down\n", "and not the 0000 that the agent named");
}

#[test]
fn nobody_is_asked_and_the_last_line_says_where_the_work_is() {
    let dir = repository(&content());
    let ended = dir
        .ftl(&["code", STORY])
        .code(0)
        .says(&["landed     Have a.txt say that it is done: 1 file changed"]);
    let last = ended.out.trim_end().lines().last().unwrap();
    assert!(last.contains("nobody was asked how to land it: the work is on the branch ftl/"), "{ended:#?}");
    assert_eq!(dir.read("a.txt"), "a\n");
    let dir = set(&content(), &format!("{BOUND}{TESTED}[landing]\nhow = \"squash\"\n"));
    code(&dir, &[]).code(0);
    assert_eq!(dir.read("a.txt"), "done\n");
}

#[test]
fn a_person_at_the_terminal_is_asked_how_it_lands_and_can_take_it_back() {
    let dir = repository(&content());
    let terminal = Terminal::typing(&dir, &["code", STORY]);
    until("it asks", || plain(&terminal.text()).contains("on your branch?"));
    terminal.enter("squash");
    let (code, seen) = terminal.ended();
    assert_eq!(code, 0, "{seen}");
    assert!(plain(&seen).contains("delivered  `master` is at"), "{seen}");
    assert_eq!(
        (dir.read("a.txt"), dir.git(&["status", "--porcelain"])),
        ("done\n".to_owned(), String::new())
    );
    dir.ftl(&["undo"]).code(0);
    assert_eq!(dir.read("a.txt"), "a\n");
}

/// A story that is held because its architect is gone, and by now could go on.
fn held(more: &[&str]) -> (Dir, String) {
    let gone = "[[scene]]\nrole = \"architect\"\nform = \"code_review\"\n[[scene.step]]\ndie = \"gone\"\n";
    let dir = repository(&[&[gone.to_owned()], &content()[..]].concat());
    let run = run_of(&code(&dir, more).code(3));
    dir.write("play.toml", content().concat());
    (dir, run)
}

#[test]
fn after_a_resume_a_person_is_asked_how_it_lands_as_after_the_first_command() {
    let (dir, run) = held(&[]);
    let terminal = Terminal::typing(&dir, &["resume", &run]);
    until("it asks", || plain(&terminal.text()).contains(&format!("Land ftl/{run} on your branch?")));
    terminal.enter("ff");
    let (code, seen) = terminal.ended();
    assert_eq!(code, 0, "{seen}");
    assert!(plain(&seen).contains("delivered  `master` is at"), "{seen}");
    assert_eq!(dir.read("a.txt"), "done\n");
    // Nobody is asked again about what has ended.
    dir.ftl(&["resume", &run]).code(0);
    // Without a terminal it stays where it is, and the last line says so.
    let (dir, run) = held(&[]);
    let ended = dir.ftl(&["resume", &run]).code(0);
    let last = ended.out.trim_end().lines().last().unwrap();
    assert!(last.contains("nobody was asked how to land it: the work is on the branch ftl/"), "{ended:#?}");
    assert_eq!(dir.read("a.txt"), "a\n");
    // What was said before counts; the report is the one of `ftl code`.
    let (dir, run) = held(&["--land", "squash"]);
    let json = dir.ftl(&["resume", &run, "--json"]).code(0).json();
    assert!(json["report"]["delivered"].as_str().unwrap().contains("`master` is at"), "{json:#}");
    assert_eq!(dir.read("a.txt"), "done\n");
}

#[test]
fn each_of_several_stories_that_end_together_is_told() {
    let (dir, first) = held(&[]);
    let gone = "[[scene]]\nrole = \"architect\"\nform = \"code_review\"\n[[scene.step]]\ndie = \"gone\"\n";
    dir.write("play.toml", [&[gone.to_owned()], &content()[..]].concat().concat());
    let second = run_of(&code(&dir, &[]).code(3));
    dir.write("play.toml", content().concat());
    // An order waits for each, and one command drives them both.
    for run in [&first, &second] {
        dir.ftl(&["override", run, "AWAIT_MERGE", "--reason", "I looked", "--by", "Ada", "--no-wait"])
            .code(0);
    }
    let ended = dir.ftl(&["resume"]).code(0);
    for run in [&first, &second] {
        let line = format!("nobody was asked how to land it: the work is on the branch ftl/{run}");
        assert!(ended.out.contains(&line), "{ended:#?}");
    }
    // An order that brings a story to its end tells it too.
    let (dir, run) = held(&[]);
    let words = ["override", &run, "AWAIT_MERGE", "--reason", "I looked", "--by", "Ada"];
    dir.ftl(&words).code(0).says(&[&format!("the work is on the branch ftl/{run}")]);
}

#[test]
fn a_question_about_the_plan_waits_for_a_person_and_none_is_asked_while_coding() {
    let asks = |form: &str| {
        format!("[[scene]]\nrole = \"coder\"\nform = \"{form}\"\n[[scene.step]]\nask = \"Which file?\"\n")
    };
    let scenes = [&[plans("answers: the first one", "the first one"), asks("plan")][..], &content()].concat();
    let dir = repository(&scenes);
    let run = run_of(&code(&dir, &[]).code(3));
    assert_eq!(dir.status(&run)["state"], "PLANNING");
    dir.ftl(&["answer", &run, "the first one", "--by", "Ada"]).code(0);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
    let coder = sent(&dir, &run).into_iter().find(|one| one.1 == "code").unwrap().3;
    assert!(coder.contains("submit") && !coder.contains("`ask`"), "{coder}");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_opened() {
    let dir = repository(&content());
    dir.ftl(&["code", " "]).code(2).says(&["the objective is empty"]);
    dir.ftl(&["code"]).code(2);
    dir.ftl(&["code", STORY, "--from", "spec.md"]).code(2);
    dir.ftl(&["code", STORY, "--coders", "2"]).code(2);
    dir.ftl(&["code", "--from", "spec.md"]).code(1).says(&["spec.md"]);
    dir.write("spec.md", "\n");
    dir.ftl(&["code", "--from", "spec.md"]).code(2).says(&["`spec.md` is empty"]);
    dir.write("spec.md", "x".repeat(64 * 1024 + 1));
    dir.ftl(&["code", "--from", "spec.md"]).code(2).says(&["65536 is the most"]);
    dir.write("ftl.toml", BOUND.replace("architect = \"mind\"\n", ""));
    dir.ftl(&["code", STORY]).code(1).says(&["no agent is bound to architect"]);
    dir.write("spec.md", "# A list\n");
    dir.ftl(&["code", "--from", "spec.md"]).code(1).says(&["no agent is bound to architect"]);
    assert!(dir.ftl(&["status", "--json"]).code(0).json()["runs"].as_array().unwrap().is_empty());
}

#[test]
fn on_a_terminal_a_story_is_drawn_with_the_words_of_those_who_look() {
    let scenes = [
        plans("", "write it down"),
        says("plan_review", "", "APPROVE", "good"),
        // The third round lasts until it was seen: the board draws at its own pace.
        codes("say please", "until [ -e ../../../seen ]; do sleep 0.02; done; echo done, please > a.txt"),
        codes("exit code", "echo done > a.txt"),
        codes("", "echo half > a.txt"),
        says("code_review", "please", "APPROVE", "good"),
        says("code_review", "", "CHANGES", "say please"),
    ];
    let dir = repository(&scenes);
    let terminal = Terminal::typing(&dir, &["code", STORY, "--land", "branch-only"]);
    until("the third round is drawn", || plain(&terminal.text()).contains("round 3 of 8"));
    dir.write("seen", "");
    let (code, drawn) = terminal.ended();
    let text = plain(&drawn);
    assert_eq!(code, 0, "{text}");
    for wanted in [
        "✓",
        "the architect on the plan: APPROVE: good",
        "✗",
        "tests failed: ",
        "the architect on the code: CHANGES: say please",
        "spent      0:",
        "3 rounds",
        "next       `ftl diff ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let run = text.split_whitespace().skip_while(|word| *word != "run").nth(1).unwrap().to_owned();
    dir.ftl(&["diff", &run]).code(0).says(&["+done, please"]);
    // Without a terminal the same words are lines.
    let piped = repository(&scenes);
    piped.write("seen", "");
    piped.ftl(&["code", STORY]).code(0).says(&[
        "the architect on the code: CHANGES: say please",
        "tests failed: ",
        "TESTING → ",
        "CODING",
        "spent  ",
    ]);
}
