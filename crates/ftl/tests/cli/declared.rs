//! What documents and the catalogue declare, and no line of Rust knows: protocols of a person's own that have a board, land,
//! are tried again and need only the agents that their plans name; and what `ftl schema` tells of roles.

use serde_json::{Value as Json, json};

use crate::campaigns::{builds, replans, repository, seqs, task};
use crate::coding;
use crate::live::{Terminal, plain};
use crate::support::{CommandOutcome, Dir, built_in, until};

/// A built-in document under another name, with other words in place of some of its own.
fn renamed(base: &str, name: &str, words: &[(&str, &str)]) -> String {
    let text = built_in(base).replace(&format!("PROTOCOL: {base}\n"), &format!("PROTOCOL: {name}\n"));
    words.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{base} has no {from}");
        text.replace(from, to)
    })
}

/// A campaign that is called otherwise, as its states are, and that must be told for whom it is.
fn night() -> String {
    renamed(
        "campaign",
        "night",
        &[
            ("REGISTER", "ENTER"),
            ("EXECUTE", "WORK"),
            ("COMPLETE", "LAST"),
            ("INPUT: objective\n", "INPUT: objective\nINPUT: whom\n"),
            ("EMIT: \"Campaign complete.", "EMIT: \"For {whom}."),
        ],
    )
}

fn without(text: &str, headers: &[&str]) -> String {
    let is_kept = |line: &&str| !headers.iter().any(|header| line.starts_with(header));
    text.lines().filter(is_kept).fold(String::new(), |text, line| text + line + "\n")
}

const GO: [&str; 5] = ["run", "night", "objective=all is done", "whom=Ada", "--json"];

/// A repository with that campaign, a planner of these tasks, builders, and settings that say how work lands. Nobody is bound
/// to `coder` and `architect`.
fn at_night(document: &str, tasks: &[Json], scenes: &[String]) -> Dir {
    let dir = repository(tasks, scenes);
    let settings = dir.read("ftl.toml");
    let play = dir.read("play.toml");
    dir.write("ftl.toml", format!("{settings}[landing]\nhow = \"ff\"\n"));
    dir.write("play.toml", format!("{play}{}", replans("", tasks)));
    dir.write(".ftl/protocols/night.md", document);
    dir
}

/// The words of the news that a run has told, without those of its tasks.
fn news(ended: &CommandOutcome) -> Vec<String> {
    let all = ended.err.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let own = all.filter(|one| one["task"].is_null());
    own.filter_map(|one| one["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_campaign_of_ones_own_has_a_board_and_lands() {
    let dir = at_night(
        &night(),
        &[task("001", "one", "a.txt", &[])],
        &[builds("001-one", "a.txt", "done", "true")],
    );
    let ended = dir.ftl(&GO).code(0);
    let json = ended.json();
    assert_eq!((json["landed"].as_bool(), seqs(&json["report"]["landed"])), (Some(true), vec!["001"]));
    assert_eq!(dir.read("a.txt"), "done\n", "the settings say how it lands, and nobody is asked");
    let news = news(&ended);
    for wanted in ["planned: 1 task", "OBSERVE", "LAST", "For Ada. 1 complete, 0 blocked."] {
        assert!(news.iter().any(|one| one == wanted), "{wanted}: {news:?}");
    }
    for quiet in ["ENTER", "WORK", "CASCADE"] {
        assert!(!news.iter().any(|one| one == quiet), "{quiet}: {news:?}");
    }
    let run = json["run"].as_str().unwrap();
    let why = dir.ftl(&["why", run, "--json"]).code(0).json();
    assert_eq!(why["what"][1], "1 of 1 task landed.", "{why:#}");

    let all = dir.ftl(&["protocols", "--json"]).code(0).json();
    let of = |name: &str| {
        let all = all["protocols"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    let board = json!({ "kind": "tasks", "quiet": ["ENTER", "WORK", "CASCADE"], "rounds": null });
    assert_eq!((&of("night")["board"], &of("night")["delivery"]), (&board, &json!("LAST")));
    assert_eq!((of("builder").get("board"), of("lifecycle").get("delivery")), (None, None));
    let table = dir.ftl(&["protocols"]).code(0).out;
    let row = table.lines().find(|line| line.starts_with("night")).unwrap();
    assert!(row.contains(" tasks  LAST "), "{table}");
}

#[test]
fn without_the_headers_it_has_no_board_and_a_person_is_asked() {
    let bare = without(&night(), &["BOARD:", "DELIVERY:"]);
    let dir =
        at_night(&bare, &[task("001", "one", "a.txt", &[])], &[builds("001-one", "a.txt", "done", "true")]);
    let json = dir.ftl(&GO).code(3).json();
    assert_eq!((json["standing"].as_str(), json["state"].as_str()), (Some("waiting"), Some("LAST")));
    let run = json["run"].as_str().unwrap();
    assert_eq!(dir.ftl(&["why", run, "--json"]).code(0).json().get("what"), None);
    dir.ftl(&["answer", run, "ff", "--by", "Ada"]).code(0);
    assert_eq!(dir.read("a.txt"), "done\n");
    dir.ftl(&["retry", run]).code(5).says(&["has no plan whose tasks could be tried again"]);
}

#[test]
fn a_blocked_campaign_of_ones_own_is_tried_again_as_what_it_is() {
    let tasks = [task("001", "fails", "a.txt", &[])];
    let dir = at_night(&night(), &tasks, &[builds("001-fails", "a.txt", "not yet", "true")]);
    let json = dir.ftl(&GO).code(3).json();
    assert_eq!((json["verdict"].as_str(), &json["landed"]), (Some("blocked"), &json!(false)));
    let play = dir.read("play.toml").replace("not yet", "done");
    dir.write("play.toml", play);
    let json = dir.ftl(&["retry", json["run"].as_str().unwrap(), "--json"]).code(0).json();
    assert_eq!((json["landed"].as_bool(), seqs(&json["report"]["landed"])), (Some(true), vec!["001"]));
    let opened = &dir.entries(json["run"].as_str().unwrap())[0];
    assert_eq!((&opened["protocol"], &opened["inputs"]["whom"]), (&json!("night"), &json!("Ada")));
    assert_eq!(dir.read("a.txt"), "done\n");
}

#[test]
fn a_worker_that_no_plan_names_needs_no_agent_and_one_that_is_asked_needs_one() {
    let tasks = [task("001", "one", "a.txt", &[])];
    let dir = at_night(&night(), &tasks, &[builds("001-one", "a.txt", "done", "true")]);
    let settings = dir.read("ftl.toml").replace("builder = \"play\"\n", "");
    dir.write("ftl.toml", &settings);
    dir.ftl(&GO).code(1).says(&["no agent is bound to builder"]);
    dir.write("ftl.toml", format!("{settings}[campaign]\nworker = \"coder\"\n"));
    dir.ftl(&GO).code(1).says(&["no agent is bound to architect, coder"]);
}

#[test]
fn a_campaign_that_replaces_the_built_in_one_without_headers_is_shown_and_lands_as_it_does() {
    let tasks = [task("001", "one", "a.txt", &[])];
    let dir = at_night(&night(), &tasks, &[builds("001-one", "a.txt", "done", "true")]);
    let own = without(&built_in("campaign"), &["BOARD:", "DELIVERY:"]);
    assert!(!own.contains("BOARD:") && !own.contains("DELIVERY:"));
    dir.write(".ftl/protocols/campaign.md", own);
    let ended = dir.ftl(&["campaign", "run", "all is done", "--plan", "plan.json", "--json"]).code(0);
    assert_eq!(seqs(&ended.json()["report"]["landed"]), ["001"]);
    let news = news(&ended);
    let has = |state: &str| news.iter().any(|one| one == state);
    assert!(has("COMPLETE") && !has("EXECUTE") && !has("CASCADE"), "{news:?}");
    assert_eq!(dir.read("a.txt"), "done\n");
}

#[test]
fn a_wrong_header_is_told_with_what_was_meant() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/night.md", night().replace("DELIVERY: LAST", "DELIVERY: LATS"));
    dir.ftl(&["check", "night"])
        .code(1)
        .says(&["error[unknown-state]: there is no state `LATS`", "did you mean `LAST`?"]);
    dir.write(".ftl/protocols/night.md", night().replace("BOARD: tasks", "BOARD: taks"));
    dir.ftl(&["check", "night"]).code(1).says(&["error[unknown-word]", "did you mean `tasks`?"]);
}

#[test]
fn a_story_of_ones_own_is_shown_step_by_step() {
    let scribe = renamed(
        "coder",
        "scribe",
        &[
            ("PLAN_REVIEW", "READ_PLAN"),
            ("CODE_REVIEW", "READ_CODE"),
            ("PLANNING", "DRAFT"),
            ("coding_iterations", "tries"),
        ],
    );
    let gone = "[[scene]]\nrole = \"architect\"\nform = \"code_review\"\n[[scene.step]]\ndie = \"gone\"\n";
    let dir = coding::repository(&[&[gone.to_owned()], &coding::content()[..]].concat());
    dir.write(".ftl/protocols/scribe.md", scribe);
    let ended = dir.ftl(&["run", "scribe", "story=Have a.txt say that it is done"]).code(3);
    let told = format!("{}{}", ended.out, ended.err);
    let steps = ["planned", "the architect on the plan: APPROVE: good", "coded: coded", "tests passed"];
    let mut rest = told.as_str();
    for step in steps {
        rest = rest.split_once(step).unwrap_or_else(|| panic!("{step}: {told}")).1;
    }
    let terminal = Terminal::typing(&dir, &["watch"]);
    until("the board is drawn", || plain(&terminal.text()).contains("round 1 of 8"));
    assert!(plain(&terminal.text()).contains("READ_CODE"));
}

#[test]
fn a_role_is_shown_with_its_tools_limits_and_rules() {
    let dir = Dir::new();
    let of = |name: &str| dir.ftl(&["schema", name]).code(0).json();
    let (builder, coder) = (of("builder"), of("coder"));
    let form = |role: &Json, word: &str| {
        let forms = role["forms"].as_array().unwrap();
        forms.iter().find(|form| form["word"] == word).unwrap().clone()
    };
    let plan = form(&builder, "plan");
    assert_eq!(plan["tools"]["worktree"], json!(["read", "search", "submit"]));
    assert_eq!(plan["calls"], json!({ "brief": "plan_reads" }));
    assert_eq!(of("explorer")["forms"][0]["calls"], json!({ "setting": "explorer.tools" }));
    let has = |tools: &Json, tool: &str| tools.as_array().unwrap().contains(&json!(tool));
    let code = form(&coder, "code")["tools"].clone();
    assert!(has(&code["worktree"], "bash") && !has(&code["worktree"], "ask"), "{code:#}");
    assert!(!has(&code["nothing"], "write") && has(&code["files"], "write"), "{code:#}");
    let rules = |json: &Json| -> Vec<String> {
        let all = json["rules"].as_array().unwrap().iter();
        all.map(|rule| rule["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(rules(&builder), ["files_count_once", "resumes"]);
    assert_eq!(rules(&form(&builder, "implement")), ["writes_path", "is_author"]);
    assert_eq!((&builder["looks_at"], &coder["looks_at"]), (&json!("brief"), &json!("story")));
    assert!(of("planner")["story_rules"].as_str().unwrap().starts_with("The objective is this document."));
    let names = |dir: &Dir| -> Vec<String> {
        let all = dir.ftl(&["schema", "reviewers"]).code(0).json()["concerns"].clone();
        all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&dir), ["product", "design", "senior developer", "test", "risk"]);
    let prompt = "<!-- part: task -->\n{{inputs}} {{answer}}\n<!-- part: feedback -->\n{{feedback}}\n";
    dir.write(".ftl/prompts/reviewers.md", format!("<!-- concern: law -->\nMay we?\n{prompt}"));
    assert_eq!(names(&dir), ["law"]);
    dir.write(".ftl/prompts/reviewers.md", format!("<!-- concern: a/b -->\n{prompt}"));
    dir.ftl(&["schema", "reviewers"]).code(1).says(&["line 1: the concern `a/b`", "docs/agents.md"]);
}
