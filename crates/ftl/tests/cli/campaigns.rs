//! Campaigns from an objective to commits, on real repositories: agents are scripts that really edit files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::live::{Terminal, plain};
use crate::support::{CommandOutcome, Dir, until};

const BOUND: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[process]\nsilence = \"30s\"\n\
    [roles]\nbuilder = \"play\"\nplanner = \"play\"\n";

const PLANS: &str =
    "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = { approach = \"write it\" }\n";

/// A task that is done when its file says so.
pub(crate) fn task(seq: &str, slug: &str, file: &str, depends: &[&str]) -> Json {
    json!({ "seq": seq, "slug": slug, "delta": [file], "verify": format!("grep -q done {file}"),
        "budget": 5, "depends": depends })
}

/// A builder of a task: runs a command first, then writes the file.
pub(crate) fn builds(id: &str, file: &str, text: &str, command: &str) -> String {
    format!(
        "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"{id}\"\n[[scene.step]]\ncalls = [\
         {{ tool = \"bash\", command = '''{command}''' }}, \
         {{ tool = \"write\", path = \"{file}\", content = \"{text}\\n\" }}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
    )
}

pub(crate) fn replans(told: &str, tasks: &[Json]) -> String {
    let plan = json!({ "objective": "all is done", "tasks": tasks });
    format!(
        "[[scene]]\nrole = \"planner\"\ntold = '''{told}'''\n[[scene.step]]\n\
         submit = {{ text = '''Decision: PROCEED\n\n```json\n{plan}\n```\n''' }}\n"
    )
}

/// A repository with a plan and the agents that carry it out.
pub(crate) fn repository(tasks: &[Json], scenes: &[String]) -> Dir {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n").write("b.txt", "b\n").write("c.txt", "c\n").write("d.txt", "d\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let plan = json!({ "objective": "all is done", "tasks": tasks });
    dir.write("plan.json", plan.to_string()).write("ftl.toml", BOUND);
    dir.write("play.toml", format!("{PLANS}{}", scenes.concat()));
    fs::write(
        dir.path(".git/info/exclude"),
        "plan.json\nftl.toml\nplay.toml\n.out-*\n.err-*\nmeet*\n/.ftl/\n",
    )
    .unwrap();
    dir
}

pub(crate) const GO: [&str; 5] = ["campaign", "run", "all is done", "--plan", "plan.json"];

pub(crate) fn go(dir: &Dir, more: &[&str]) -> CommandOutcome {
    dir.ftl(&[&GO[..], more, &["--json"]].concat())
}

pub(crate) fn seqs(list: &Json) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["seq"].as_str().unwrap()).collect()
}

/// When instances of tasks were opened and when they ended, by the workspace that they were given.
fn spans(dir: &Dir, run: &str) -> BTreeMap<String, (u64, u64)> {
    let mut names = BTreeMap::new();
    let mut spans = BTreeMap::new();
    for entry in dir.entries(run) {
        let (who, seq) = (entry["instance"].as_u64().unwrap(), entry["seq"].as_u64().unwrap());
        if entry["fact"] == "opened" && who > 0 {
            let path = entry["inputs"]["workspace"].as_str().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default().split('_').next().unwrap_or_default();
            names.insert(who, name.to_owned());
            spans.insert(name.to_owned(), (seq, u64::MAX));
        }
        if entry["fact"] == "settled" && who > 0 {
            spans.get_mut(&names[&who]).unwrap().1 = seq;
        }
    }
    spans
}

#[test]
fn a_task_starts_when_its_own_parents_are_complete_and_not_before() {
    // 001 goes on only when 003 has begun, and 003 needs 002 alone: waves would wait for ever.
    let tasks = [
        task("001", "slow", "a.txt", &[]),
        task("002", "quick", "b.txt", &[]),
        task("003", "after-quick", "c.txt", &["002"]),
    ];
    let scenes = [
        builds("001-slow", "a.txt", "done", "cat ../../../meet"),
        builds("002-quick", "b.txt", "done", "true"),
        builds("003-after-quick", "c.txt", "done", "grep -q done b.txt && echo 1 > ../../../meet"),
    ];
    let dir = repository(&tasks, &scenes);
    assert!(Command::new("mkfifo").arg(dir.path("meet")).status().unwrap().success());
    let json = go(&dir, &["--land", "ff"]).code(0).json();
    assert_eq!(seqs(&json["report"]["landed"]), ["001", "002", "003"]);
    let spans = spans(&dir, json["run"].as_str().unwrap());
    assert!(spans["003"].0 > spans["002"].1, "{spans:?}");
    assert!(spans["001"].1 > spans["003"].0, "{spans:?}");
    assert_eq!((dir.read("a.txt"), dir.read("c.txt")), ("done\n".to_owned(), "done\n".to_owned()));
    assert_eq!(dir.git(&["status", "--porcelain"]), "");
}

/// A builder that asks its agent, and lands nothing.
const ASKS: &str = "# builder\n\n```protocol\nPROTOCOL: builder\nINPUT: workspace\nINPUT: mode = full | direct\n\
    INPUT: budget = 5\nSTATE: ONLY\n  \
    IF: budget == 0 AND mode == \"direct\" → RETURN escalated reason=\"no budget\" workspace={workspace}\n  \
    IF: budget == 0 → RETURN blocked reason=\"no budget\" workspace={workspace}\n  \
    CHECK: spec = workspace.parse path={workspace}\n  DO: Task(builder) step=plan spec={spec}\n  \
    RETURN: complete delivered=\"nothing\" commit=\"none\" target=\"none\" workspace={workspace}\n```\n";

#[test]
fn a_free_agent_goes_to_the_task_that_most_others_wait_for_also_when_that_one_was_ready_last() {
    let tasks = [
        task("001", "alone", "a.txt", &[]),
        task("002", "alone-too", "b.txt", &[]),
        task("003", "first", "c.txt", &[]),
        task("004", "second", "d.txt", &["003"]),
        task("005", "third", "e.txt", &["004"]),
    ];
    let dir = repository(&tasks, &[]);
    dir.write(".ftl/protocols/builder.md", ASKS);
    let json = go(&dir, &["--jobs", "1", "--land", "branch-only"]).code(0).json();
    let spans = spans(&dir, json["run"].as_str().unwrap());
    let mut order: Vec<&String> = spans.keys().collect();
    order.sort_by_key(|name| spans[*name].0);
    // For the last one of the row as much waits as for those that were ready before it.
    assert_eq!(order, ["003", "004", "001", "002", "005"], "{spans:?}");
    let ends: Vec<u64> = order.iter().map(|name| spans[*name].1).collect();
    let begins: Vec<u64> = order.iter().skip(1).map(|name| spans[*name].0).collect();
    assert!(begins.iter().zip(&ends).all(|(begin, end)| begin > end), "no brief before its turn: {spans:?}");
}

#[test]
fn tasks_that_change_the_same_files_take_turns() {
    let folder =
        json!({ "seq": "003", "slug": "folder", "delta": ["lib"], "verify": "test -d lib", "budget": 5 });
    let below = json!({ "seq": "004", "slug": "below", "delta": ["./lib/y.txt"], "verify": "test -d lib", "budget": 5 });
    let tasks = [task("001", "one", "a.txt", &[]), task("002", "two", "a.txt", &[]), folder, below];
    let scenes = [
        builds("001-one", "a.txt", "done one", "true"),
        builds("002-two", "a.txt", "done two", "grep -q one a.txt"),
        builds("003-folder", "lib/x.txt", "x", "true"),
        builds("004-below", "lib/y.txt", "y", "test -f lib/x.txt"),
    ];
    let dir = repository(&tasks, &scenes);
    let json = go(&dir, &["--land", "ff"]).code(0).json();
    let spans = spans(&dir, json["run"].as_str().unwrap());
    assert!(spans["002"].0 > spans["001"].1, "{spans:?}");
    assert!(spans["004"].0 > spans["003"].1, "{spans:?}");
    assert!(spans["003"].0 < spans["001"].1, "those that share nothing run side by side: {spans:?}");
    assert_eq!(dir.read("a.txt"), "done two\n");
}

#[test]
fn a_block_takes_its_children_with_it_and_what_landed_stays() {
    let tasks = [
        task("001", "fails", "a.txt", &[]),
        task("002", "child", "b.txt", &["001"]),
        task("003", "alone", "c.txt", &[]),
    ];
    let scenes =
        [builds("001-fails", "a.txt", "not yet", "true"), builds("003-alone", "c.txt", "done", "true")];
    let dir = repository(&tasks, &scenes);
    let json = go(&dir, &["--land", "squash"]).code(3).json();
    assert_eq!((json["verdict"].as_str(), &json["landed"]), (Some("blocked"), &json!(false)));
    let why = json["not_landed"].as_str().unwrap();
    assert!(why.contains("1 of 3 tasks landed: what is complete stays on `ftl/"), "{why}");
    assert_eq!((dir.read("c.txt"), &json["report"]["delivered"]), ("c\n".to_owned(), &Json::Null));
    let dir = repository(&tasks, &scenes);
    dir.ftl(&[&GO[..], &["--land", "ff"]].concat()).code(3).says(&[
        "1 of 3 tasks, on the branch `ftl/",
        "your own is left alone",
        "git merge ftl/",
    ]);
    let dir = repository(&tasks, &scenes);
    let json = go(&dir, &["--land", "squash", "--land-partial"]).code(3).json();
    assert_eq!(json["landed"], true, "{json:#}");
    assert_eq!(
        (seqs(&json["report"]["landed"]), seqs(&json["report"]["blocked"])),
        (vec!["003"], vec!["001"])
    );
    assert_eq!(
        json["report"]["never_ran"],
        json!([{ "seq": "002", "slug": "child", "blocked_by": ["001"] }])
    );
    assert_eq!((json["standing"].as_str(), &json["report"]["replans"]), (Some("blocked"), &json!(0)));
    assert_eq!(dir.read("c.txt"), "done\n");
    let campaign: Json = serde_json::from_str(&dir.read(".ftl/campaign.json")).unwrap();
    let of = |at: usize| {
        (campaign["tasks"][at]["status"].as_str().unwrap(), campaign["tasks"][at]["cascade"].as_bool())
    };
    assert_eq!((of(0), of(1), of(2)), (("blocked", None), ("blocked", Some(true)), ("complete", None)));
}

fn stuck() -> [Json; 4] {
    [
        task("001", "fails", "a.txt", &[]),
        task("002", "child", "b.txt", &["001"]),
        task("003", "grandchild", "c.txt", &["002"]),
        task("004", "alone", "d.txt", &[]),
    ]
}

#[test]
fn the_planner_is_asked_again_and_its_plan_is_merged_whole() {
    let revised = [task("001", "works", "a.txt", &[])];
    let scenes = [
        replans("\"replan\"", &revised),
        builds("001-fails", "a.txt", "not yet", "true"),
        builds("001-works", "a.txt", "done", "true"),
        builds("002-child", "b.txt", "done", "grep -q done a.txt"),
        builds("003-grandchild", "c.txt", "done", "true"),
        builds("004-alone", "d.txt", "done", "true"),
    ];
    let dir = repository(&stuck(), &scenes);
    let json = go(&dir, &["--land", "ff"]).code(0).json();
    assert_eq!(seqs(&json["report"]["landed"]), ["001", "004", "002", "003"]);
    assert_eq!((&json["report"]["replans"], &json["report"]["blocked"]), (&json!(1), &json!([])));
}

#[test]
fn a_plan_that_does_not_fit_is_not_merged_and_two_replans_are_the_most() {
    // One that depends on what is not there is no plan; nothing of it is taken over.
    let wrong = [task("001", "works", "a.txt", &[]), task("005", "new", "a.txt", &["009"])];
    let fails = builds("001-fails", "a.txt", "not yet", "true");
    let alone = builds("004-alone", "d.txt", "done", "true");
    let dir = repository(&stuck(), &[replans("\"replan\"", &wrong), fails.clone(), alone.clone()]);
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    assert_eq!(seqs(&json["report"]["landed"]), ["004"]);
    let campaign = dir.read(".ftl/campaign.json");
    assert!(!campaign.contains("\"005\"") && !campaign.contains("works"), "{campaign}");
    // A plan that fits and fails again is asked for twice.
    let again = [task("001", "fails", "a.txt", &[])];
    let dir = repository(&stuck(), &[replans("\"replan\"", &again), fails, alone]);
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    assert_eq!(json["report"]["replans"], 2);
    let run = json["run"].as_str().unwrap();
    let builds = dir.entries(run).iter().filter(|one| one["fact"] == "opened").count();
    assert_eq!(builds, 1 + 4, "the campaign, 001 three times, 004 once");
}

#[test]
fn failures_of_siblings_reach_tasks_that_start_later() {
    // The second shares a file with the first, so it starts when the first is blocked.
    let later = json!({ "seq": "002", "slug": "later", "delta": ["a.txt", "b.txt"], "verify": "grep -q done b.txt",
        "budget": 5 });
    let scenes = [
        builds("001-fails", "a.txt", "not yet", "true"),
        // Without the failure of 001 in its prompt it has nothing to say.
        builds("sibling-001_fails", "b.txt", "done", "true"),
    ];
    let dir = repository(&[task("001", "fails", "a.txt", &[]), later], &scenes);
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    assert_eq!(seqs(&json["report"]["landed"]), ["002"], "{json:#}");
}

/// A repository whose one task takes a test away.
fn cheating(allow: &Json) -> Dir {
    let one = json!({ "seq": "001", "slug": "tidy", "delta": ["a.txt", "tests/test_old.py"],
        "verify": "grep -q done a.txt", "budget": 5, "allow": allow });
    let scene = builds("001-tidy", "a.txt", "done", "rm tests/test_old.py");
    let dir = repository(&[one], &[scene]);
    dir.write("tests/test_old.py", "def test_old():\n    assert 1 == 1\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "a test"]);
    dir
}

#[test]
fn a_finding_blocks_unless_the_plan_or_a_person_allows_it() {
    let dir = cheating(&json!([]));
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    let reason = json["report"]["blocked"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("tests/test_old.py: test_file_deleted"), "{reason}");
    // One for another place or another kind does not help.
    for allow in ["test_file_deleted other", "test_skipped"] {
        let dir = cheating(&json!([allow]));
        assert_eq!(seqs(&go(&dir, &[]).code(3).json()["report"]["blocked"]), ["001"], "{allow}");
    }
    let dir = cheating(&json!(["test_file_deleted tests"]));
    let json = go(&dir, &["--land", "ff"]).code(0).json();
    let waived = json["report"]["waived"].to_string();
    assert!(waived.contains("test_file_deleted") && waived.contains("allowed by the plan"), "{waived}");
    assert!(!dir.path("tests/test_old.py").exists());
    let dir = cheating(&json!([]));
    let json = go(&dir, &["--land", "ff", "--allow", "test_file_deleted tests/test_old.py", "--by", "Ada"])
        .code(0)
        .json();
    let waived = json["report"]["waived"].to_string();
    assert!(waived.contains("test_file_deleted tests/test_old.py, allowed by Ada"), "{waived}");
    let opened = &dir.entries(json["run"].as_str().unwrap())[0];
    assert!(opened["terms"]["accepted"].to_string().contains("allowed by Ada"), "{opened:#}");
    // What is no kind of finding is said before anything is opened.
    let dir = cheating(&json!(["skip_all"]));
    go(&dir, &[]).code(6).says(&["`skip_all` is no kind of finding"]);
    assert!(!dir.path(".ftl/store").exists());
    let dir = cheating(&json!([]));
    go(&dir, &["--allow", "nothing"]).code(2).says(&["`nothing` is no kind of finding"]);
    assert!(!dir.path(".ftl/store").exists());
}

#[test]
fn work_lands_as_it_was_asked_for_and_nothing_of_the_person_s_is_lost() {
    let tasks = [task("001", "one", "a.txt", &[]), task("002", "two", "b.txt", &[])];
    let scenes = [builds("001-one", "a.txt", "done", "true"), builds("002-two", "b.txt", "done", "true")];
    let count = |dir: &Dir| dir.git(&["rev-list", "--count", "HEAD"]).trim().parse::<u32>().unwrap();
    // Nobody can be asked: it stays on its branch, and the last line says so.
    let dir = repository(&tasks, &scenes);
    let ended = dir.ftl(&GO).code(0).says(&["landed", "2 of 2 tasks", "git merge ftl/"]);
    assert!(
        ended.out.trim_end().lines().last().unwrap().contains("the work is on the branch ftl/"),
        "{ended:#?}"
    );
    assert_eq!((count(&dir), dir.read("a.txt")), (1, "a\n".to_owned()));
    let dir = repository(&tasks, &scenes);
    go(&dir, &["--land", "ff"]).code(0);
    assert_eq!(count(&dir), 3);
    let dir = repository(&tasks, &scenes);
    go(&dir, &["--land", "squash"]).code(0);
    assert_eq!((count(&dir), dir.read("b.txt")), (2, "done\n".to_owned()));
    // What the person has changed and not committed stands in the way of nothing else.
    let dir = repository(&tasks, &scenes);
    dir.write("a.txt", "mine\n").write("c.txt", "mine too\n");
    // A landing that a flag asked for and that could not be done is no success for a script.
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    assert_eq!(json["report"]["delivered"]["status"], "kept", "{json:#}");
    assert_eq!((json["verdict"].as_str(), &json["landed"]), (Some("complete"), &json!(false)));
    assert!(json["not_landed"].as_str().unwrap().contains("the work stays on `ftl/"), "{json:#}");
    // From the settings it is one, and the last line says why.
    dir.write(".ftl/config.toml", "[landing]\nhow = \"ff\"\n");
    let ended = dir.ftl(&GO).code(0);
    let last = ended.out.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("not landed: the work stays on `ftl/"), "{ended:#?}");
    assert_eq!(
        (dir.read("a.txt"), dir.read("c.txt"), count(&dir)),
        ("mine\n".to_owned(), "mine too\n".to_owned(), 1)
    );
    let dir = repository(&tasks, &scenes);
    dir.write("c.txt", "mine too\n");
    let json = go(&dir, &["--land", "ff"]).code(0).json();
    assert_eq!(json["report"]["delivered"]["status"], "landed", "{json:#}");
    assert_eq!((dir.read("a.txt"), dir.read("c.txt")), ("done\n".to_owned(), "mine too\n".to_owned()));
}

#[test]
fn commits_say_what_was_done_and_why_in_the_words_of_whoever_did_it() {
    let tasks = [task("001", "one", "a.txt", &[]), task("002", "two", "b.txt", &[])];
    let scenes = [builds("001-one", "a.txt", "done", "true"), builds("002-two", "b.txt", "done", "true")];
    let said = scenes[0].replace("written", "Added the word that was missing. It is tested.");
    let scenes = [said, scenes[1].clone()];
    let dir = repository(&tasks, &scenes);
    dir.write(
        "ftl.toml",
        BOUND.replace("builder = \"play\"", "builder = { agent = \"play\", model = \"m1\" }"),
    );
    go(&dir, &["--land", "ff"]).code(0);
    let log = dir.git(&["log", "--format=%B"]);
    let first = "Add the word that was missing\n\nAdded the word that was missing. It is tested.\n\nall is done\n\n\
        Ftl-Agent: play\nFtl-Model: m1\nFtl-Task: 001-one\nFtl-Run: ";
    assert!(log.contains(first), "{log}");
    assert!(
        log.contains("Two\n\nall is done\n\nFtl-Agent: play\nFtl-Model: m1\nFtl-Task: 002-two\n"),
        "{log}"
    );
    // One commit for all names the objective, lists the tasks, and is signed off where the settings say so.
    let dir = repository(&tasks, &scenes);
    dir.write(".ftl/config.toml", "[commit]\nsign_off = true\ntemplate = \"work: {subject}\\n\\n{body}\"\n");
    go(&dir, &["--land", "squash"]).code(0);
    let message = dir.git(&["log", "-1", "--format=%B"]);
    let wanted = "work: all is done\n\n- Add the word that was missing (001-one)\n- Two (002-two)\n\n\
        Ftl-Agent: play\nFtl-Task: 001-one\nFtl-Task: 002-two\nSigned-off-by: Ada <ada@example.org>\nFtl-Run: ";
    assert!(message.starts_with(wanted), "{message}");
    dir.write(".ftl/config.toml", "[commit]\ntemplate = \"{subjct}\"\n");
    let refused = dir.ftl(&GO).code(1);
    assert!(refused.err.contains("nobody fills in `{subjct}`"), "{refused:#?}");
}

fn demo_is_done(place: &Dir, json: &Json) {
    assert_eq!(seqs(&json["report"]["landed"]), ["001", "003", "004", "002", "005", "006"]);
    let subjects = place.git(&["log", "--format=%s"]);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects.len(), 7, "{subjects:?}");
    assert_eq!(subjects.iter().collect::<BTreeSet<_>>().len(), 7, "no task twice: {subjects:?}");
    assert_eq!(place.git(&["status", "--porcelain"]), "");
    assert_eq!(place.git(&["rev-parse", "HEAD^{tree}"]).trim(), DEMO_TREE);
    let worktrees = fs::read_dir(place.path(".ftl/worktrees")).map_or(0, Iterator::count);
    assert_eq!(worktrees, 0);
}

#[test]
fn a_small_task_starts_direct_and_gets_a_full_attempt_when_that_fails() {
    // A plan that gives it more tools than DIRECT has would make it FULL.
    let mut small = task("001", "one", "a.txt", &[]);
    small.as_object_mut().unwrap().remove("budget");
    let dir = repository(&[small], &[]);
    // The full attempt is told the same brief, and goes on from what the direct one wrote.
    let scenes = "[[scene]]\nrole = \"builder\"\nform = \"implement\"\n[[scene.step]]\ncalls = [\
        { tool = \"bash\", command = \"if test -f ../../../meet-1; then echo done > a.txt; else echo no > a.txt; fi; touch ../../../meet-1\" }]\n\
        [[scene.step]]\nsubmit = { summary = \"written\", utilized = [] }\n";
    dir.write("play.toml", format!("{PLANS}{scenes}"));
    let words = ["task", "run", "all is done", "--plan", "plan.json", "--land", "ff", "--json"];
    let json = dir.ftl(&words).code(0).json();
    let modes: Vec<Json> = dir
        .entries(json["run"].as_str().unwrap())
        .iter()
        .filter(|one| one["fact"] == "opened")
        .map(|one| one["inputs"]["mode"].clone())
        .collect();
    assert_eq!(modes, [Json::Null, json!("direct"), json!("full")]);
    assert_eq!(dir.read("a.txt"), "done\n");
}

/// The tree that the demo comes to, however often it was killed on the way.
const DEMO_TREE: &str = "bdd80c83591e1c0b2e878b14741e117e05b313f0";

#[test]
fn the_demo_shows_a_retry_a_block_a_cheat_and_a_replan() {
    let place = Dir::new();
    let folder = place.path("till");
    let ended = place.ftl(&["demo", "--dir", folder.to_str().unwrap(), "--json"]).code(0);
    let (json, place) = (ended.json(), Dir::at(&folder));
    demo_is_done(&place, &json);
    // The answer is one document; what happened on the way came beside it, line by line.
    let news: Vec<Json> = ended.err.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let landed = news.iter().filter(|one| one["text"].as_str().unwrap().starts_with("landed "));
    assert_eq!(
        landed.filter(|one| one["task"].is_string() && one["run"] == json["run"]).count(),
        6,
        "{news:?}"
    );
    assert!(news.is_sorted_by_key(|one| one["entry"].as_u64()), "in the order of the journal");
    let report = &json["report"];
    assert_eq!(
        (&report["replans"], &report["lessons_tried"]),
        (&json!(1), &json!(["shell-reads-08-as-octal"]))
    );
    let run = json["run"].as_str().unwrap();
    let log = place.ftl(&["log", run, "--all"]).code(0).out;
    assert!(log.contains("outside_delta"), "the gate that caught the cheat");
    assert_eq!(log.matches(" blocked reason=").count(), 2, "{log}");
    let mut tests = Command::new(place.path("tests/run"));
    let tests = tests.current_dir(&folder).output().unwrap();
    assert!(tests.status.success(), "{tests:?}");
    // It is left alone when it is run again.
    let again = Dir::new();
    again.ftl(&["demo", "--dir", folder.to_str().unwrap()]).code(2).says(&["is not empty"]);
}

#[test]
fn the_demo_tells_its_news_and_what_became_of_it() {
    let place = Dir::new();
    let folder = place.path("till");
    place.ftl(&["demo", "--dir", folder.to_str().unwrap()]).code(0).says(&[
        "0 of 18 tests pass",
        "001 count-money           begins (builder full, 7 tools)",
        "001 count-money           tries the fix of the lesson shell-reads-08-as-octal",
        "004 charge-tax            not verified: tests/tax_test.sh: outside_delta",
        "planning again: 2 tasks cannot be reached any more",
        "006 open-the-till         landed Open the till",
        "landed     6 of 6 tasks; `main` is at",
        "1 replan",
        "18 of 18 tests pass now",
    ]);
}

#[test]
fn on_a_terminal_the_board_is_drawn() {
    let place = Dir::new();
    let folder = place.path("till");
    let (code, seen) = Terminal::typing(&place, &["demo", "--dir", folder.to_str().unwrap()]).ended();
    assert_eq!(code, 0, "{seen}");
    let seen = plain(&seen);
    for wanted in ["✓ 001 count-money", "waits for", "/7 tools", "6 landed"] {
        assert!(seen.contains(wanted), "{wanted}\n{seen}");
    }
}

#[test]
fn killed_anywhere_a_campaign_comes_to_the_same_tree_and_does_nothing_twice() {
    // `just torture` kills more often.
    let kills = std::env::var("FTL_CAMPAIGN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    for entries in (0..kills).map(|kill| 20 + kill * 540 / kills) {
        let place = Dir::new();
        let folder = place.path("till");
        let started = place.start(&["demo", "--dir", folder.to_str().unwrap(), "--json"]);
        let till = Dir::at(&folder);
        until("the run has come so far, or to its end", || {
            till.count("SELECT count(*) FROM entries") >= entries || started.out().contains("\"report\"")
        });
        started.signal(Signal::KILL);
        let ended = started.ended();
        if ended.code != 0 {
            till.ftl(&["resume", "--json"]).code(0);
        }
        // Also one that was over when it was killed, and had not told so, is told by its name.
        let run = till.ftl(&["status", "--all", "--json"]).code(0).json()["runs"][0]["run"].clone();
        demo_is_done(&till, &till.ftl(&["resume", run.as_str().unwrap(), "--json"]).code(0).json());
    }
}

#[test]
fn a_stopped_task_and_what_stands_behind_it_are_counted_once_and_alike() {
    let tasks = [
        task("001", "stopped", "a.txt", &[]),
        task("002", "behind", "b.txt", &["001"]),
        task("003", "apart", "c.txt", &[]),
    ];
    let scenes = [
        builds("001-stopped", "a.txt", "done", "cat ../../../meet"),
        builds("003-apart", "c.txt", "done", "true"),
    ];
    let dir = repository(&tasks, &scenes);
    assert!(Command::new("mkfifo").arg(dir.path("meet")).status().unwrap().success());
    let going = dir.start(&[&GO[..], &["--json"]].concat());
    let mut at = None;
    until("only the first task is at work", || {
        let landed = dir.ftl(&["campaign", "status"]).json()["tasks"][2]["status"] == "complete";
        let runs = dir.ftl(&["status", "--json"]).json()["runs"].clone();
        let works = |one: &Json| one["what"] == "work" && one["state"] == "IMPLEMENT";
        at = runs[0]["waits"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| works(one))
            .map(|one| format!("{}/{}", runs[0]["run"].as_str().unwrap(), one["instance"]));
        at.is_some() && landed
    });
    dir.ftl(&["stop", &at.unwrap()]).code(0);
    let json = going.ended().code(3).json();
    let report = &json["report"];
    assert_eq!(
        (seqs(&report["landed"]), seqs(&report["blocked"]), seqs(&report["never_ran"])),
        (vec!["003"], vec!["001"], vec!["002"])
    );
    assert_eq!(json["reason"], "1 blocked, 1 never ran", "{json:#}");
}

/// A builder that asks once, and writes when it is told the answer.
fn asks(id: &str, file: &str) -> String {
    let scene = |told: &str, step: &str| {
        format!(
            "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = [\"{id}\"{told}]\n[[scene.step]]\n{step}\n"
        )
    };
    let write = format!(
        "calls = [{{ tool = \"write\", path = \"{file}\", content = \"done\\n\" }}]\n[[scene.step]]\n\
         submit = {{ summary = \"written\", utilized = [] }}"
    );
    format!("{}{}", scene(", \"the second one\"", &write), scene("", "ask = \"Which one?\""))
}

#[test]
fn a_question_of_a_builder_reaches_the_person_and_blocks_nothing() {
    let tasks = [task("001", "unsure", "a.txt", &[]), task("002", "sure", "b.txt", &[])];
    let dir = repository(&tasks, &[asks("001-unsure", "a.txt"), builds("002-sure", "b.txt", "done", "true")]);
    let json = go(&dir, &["--land", "ff"]).code(3).json();
    let run = json["run"].as_str().unwrap();
    assert_eq!(json["standing"], "held", "{json:#}");
    dir.ftl(&["why", run]).code(0).says(&["the agent asks: Which one?", "ftl answer"]);
    assert_eq!(
        dir.ftl(&["campaign", "status"]).json()["tasks"][1]["status"],
        "complete",
        "the other one went on"
    );
    let ended = dir.ftl(&["answer", run, "the second one", "--json"]).code(0).json();
    assert_eq!(ended["standing"], "complete", "{ended:#}");
    assert_eq!((dir.read("a.txt"), dir.read("b.txt")), ("done\n".to_owned(), "done\n".to_owned()));
    let lessons = dir.ftl(&["memory", "query", "the agent asks which one"]).code(0).out;
    assert!(!lessons.contains("Which one?"), "{lessons}");
}

#[test]
fn a_campaign_that_was_recorded_plays_again() {
    let tasks = [task("001", "first", "a.txt", &[]), task("002", "second", "b.txt", &["001"])];
    let scenes =
        [builds("001-first", "a.txt", "done", "true"), builds("002-second", "b.txt", "done", "true")];
    let dir = repository(&tasks, &scenes);
    let json = go(&dir, &[]).code(0).json();
    dir.ftl(&["agents", "record", json["run"].as_str().unwrap(), "--out", "play.toml"]).code(0);
    let script = dir.read("play.toml");
    assert!(script.contains("001-first") && !script.contains("created_at"), "{script}");
    let again = repository(&tasks, &[]);
    again.write("play.toml", script);
    let json = go(&again, &["--land", "ff"]).code(0).json();
    assert_eq!(seqs(&json["report"]["landed"]), ["001", "002"], "{json:#}");
}
