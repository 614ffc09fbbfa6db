//! Agents as settings bind them: shown, probed, asked in runs, recorded and played again.

use ftl_testkit::model_server::ModelServer;
use rustix::process::Signal;
use serde_json::json;

use crate::support::{Dir, until};

/// A protocol that asks a coder once.
const CODE: &str = "INPUT: story\nSTATE: START\n  \
    DO: work = Task(coder) feedback=\"MIND THE GAP of {story}\" write=\"code\"\n  \
    RETURN: complete summary={work.summary}\n";

const SCRIPT: &str = r#"
[[scene]]
role = "coder"
told = "MIND THE GAP"
[[scene.step]]
say = "I look. "
calls = [{ tool = "read", path = "notes.txt" }, { tool = "write", path = "notes.txt", content = "no" }]
usage = { tokens = 50, money = 70 }
[[scene.step]]
submit = { summary = "looked" }
"#;

const BOUND: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\ncoder = \"play\"\n";

fn with_script() -> Dir {
    let dir = Dir::new();
    dir.protocol("code", CODE)
        .write("play.toml", SCRIPT)
        .write("ftl.toml", BOUND)
        .write("notes.txt", "secret plan");
    dir
}

#[test]
fn with_nothing_configured_everything_says_what_to_do() {
    let dir = Dir::new();
    dir.protocol("code", CODE);
    dir.ftl(&["agents"]).code(0).says(&["no agent is configured", "ftl init", "[roles] in ftl.toml"]);
    dir.ftl(&["run", "code", "story=x"]).code(1).says(&["no agent is bound to coder", "hint: ", "ftl init"]);
    dir.ftl(&["run", "task", "objective=x"]).code(1).says(&["no agent is bound to builder, planner"]);
    dir.ftl(&["agents", "probe", "x"]).code(1).says(&["there is no agent `x`", "ftl init"]);
    let json = dir.ftl(&["agents", "--json"]).code(0).json();
    assert_eq!(json, json!({ "version": 1, "agents": [], "roles": {} }));
}

#[test]
fn an_agent_that_is_bound_is_asked_and_what_it_was_told_is_kept() {
    let dir = with_script();
    let (run, json) = dir.run(&["code", "story=sharpen the saw"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!(dir.entries(&run).pop().unwrap()["values"]["summary"], "looked");
    assert_eq!(dir.read("notes.txt"), "secret plan", "a task without a worktree writes nothing");
    let script = dir.ftl(&["agents", "record", &run]).code(0).out;
    assert!(script.contains("tokens = 50") && script.contains("tool = \"read\""), "{script}");
    // What was recorded plays: nobody asks the first script any more.
    dir.ftl(&["agents", "record", &run, "--out", "again.toml"]).code(0).says(&["1 session in again.toml"]);
    dir.write("ftl.toml", BOUND.replace("play.toml", "again.toml"));
    let (again, json) = dir.run(&["code", "story=sharpen the saw"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!(dir.entries(&again).pop().unwrap()["values"]["summary"], "looked");
    let replayed = dir.ftl(&["agents", "record", &again]).code(0).out;
    assert_eq!(replayed, script, "a script of a script is the script");
    dir.ftl(&["agents", "record", "zzzz"]).code(1).says(&["there is no run `zzzz`"]);
}

#[test]
fn agents_are_shown_with_what_they_enforce() {
    let dir = with_script();
    dir.write(
        ".ftl/config.toml",
        "[agents.far]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nkey = \"NO_SUCH_KEY\"\n",
    );
    dir.ftl(&["agents"]).code(0).says(&[
        "play scripted",
        "ready",
        "for coder",
        "a script of 1 scenes",
        "counted before they are made",
        "far model m",
        "not usable",
        "the variable NO_SUCH_KEY, which holds the key, is not set",
    ]);
    let json = dir.ftl(&["agents", "--json"]).code(0).json();
    let far = &json["agents"][0];
    assert_eq!(
        (&far["name"], &far["usable"], &far["enforced"]["calls"]),
        (&"far".into(), &false.into(), &"before".into())
    );
    assert_eq!(json["roles"]["coder"]["agent"], "play");
    let shown = dir.ftl(&["config"]).code(0).out;
    assert!(shown.contains("agents.far.key") && shown.contains("roles.coder"), "{shown}");
}

/// The same script, by an agent that does not say what it costs, with that price in the person's own settings.
fn unpriced(price: &str) -> (serde_json::Value, String) {
    let dir = with_script();
    dir.write(
        "play.toml",
        SCRIPT.replace("tokens = 50, money = 70 }", "tokens = 50 }\nsilent = [\"money\"]"),
    );
    dir.write(".ftl/config.toml", format!("[agents.play]\n{price}\n"));
    let (run, json) = dir.run(&["code", "story=x"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    (dir.status(&run)["meters"].clone(), dir.ftl(&["status", &run]).code(0).out)
}

#[test]
fn what_an_agent_costs_is_as_the_person_says() {
    let (meters, shown) = unpriced("");
    assert_eq!(
        (&meters["money"]["used"], &meters["money"]["unknown"]),
        (&json!(500_000), &json!(1)),
        "{meters:#}"
    );
    assert!(shown.contains("money 0.50?"), "{shown}");
    for price in ["price = 0", "price = \"subscription\""] {
        let (meters, shown) = unpriced(price);
        assert_eq!(
            (&meters["money"]["used"], &meters["money"]["unknown"]),
            (&json!(0), &json!(0)),
            "{meters:#}"
        );
        assert!(!shown.contains("money") && meters["unpriced"].is_null(), "{shown}");
    }
    let (meters, shown) = unpriced("price = \"unknown\"");
    assert_eq!((&meters["money"]["used"], &meters["money"]["unknown"]), (&json!(0), &json!(0)), "{meters:#}");
    assert_eq!(
        (&meters["unpriced"]["used"], &meters["tokens"]["used"]),
        (&json!(1), &json!(50)),
        "{meters:#}"
    );
    assert!(shown.contains("money unknown") && !shown.contains("0.50"), "{shown}");
}

/// Tokens are a cap whatever money is: what is set aside for the next conversation must be left.
#[test]
fn an_agent_that_was_lost_is_charged_the_worst_case_and_no_money_where_none_is_paid() {
    for (price, money) in
        [("", 500_000), ("price = 0", 0), ("price = \"subscription\"", 0), ("price = \"unknown\"", 0)]
    {
        let dir = with_script();
        let waits = "[[scene]]\nrole = \"coder\"\n[[scene.step]]\nsay = \"I wait\\n\"\n[[scene.step]]\nuntil = \"go\"\n\
                     usage = { tokens = 50, money = 0 }\nsubmit = { summary = \"done\" }\n";
        dir.write("play.toml", waits).write(".ftl/config.toml", format!("[agents.play]\n{price}\n"));
        let driving = dir.start(&["run", "code", "story=wait"]);
        let mut run = String::new();
        until("the agent is at work", || {
            let runs = dir.ftl(&["status", "--json"]).json();
            run = runs["runs"][0]["run"].as_str().unwrap_or_default().to_owned();
            !run.is_empty() && dir.ftl(&["transcript", &run]).out.contains("I wait")
        });
        driving.signal(Signal::KILL);
        driving.ended();
        dir.write("go", "");
        dir.ftl(&["resume", &run]).code(0);
        let meters = dir.status(&run)["meters"].clone();
        assert_eq!(meters["money"]["used"], json!(money), "{price}: {meters:#}");
        assert_eq!(meters["money"]["unknown"], json!(u64::from(money > 0)), "{price}: {meters:#}");
        assert_eq!(meters["tokens"]["used"], json!(100_050), "{price}: {meters:#}");
    }
}

#[test]
fn an_agent_without_a_price_is_capped_by_tokens() {
    let dir = with_script();
    let twice = "INPUT: story\nSTATE: START\n  DO: Task(coder) feedback=\"MIND THE GAP\"\n  \
        DO: Task(coder) feedback=\"MIND THE GAP\"\n  RETURN: complete summary=\"twice\"\n";
    dir.protocol("twice", twice);
    dir.write(
        ".ftl/config.toml",
        "[agents.play]\nprice = \"unknown\"\n[limits]\ntokens = 120\n[reserve]\ntokens = 100\n",
    );
    let (run, json) = dir.run(&["twice", "story=x"]);
    assert_eq!(json["standing"], "held", "{json:#}");
    dir.ftl(&["status", &run]).code(0).says(&["tokens spent"]);
}

/// A reviewer is to judge a tree that nobody knows: no agent is asked, and nothing is charged.
#[test]
fn what_fails_before_an_agent_is_asked_costs_nothing() {
    let dir = Dir::repository();
    let review = "INPUT: story\nSTATE: START\n  \
        DO: review = Task(architect) step=code_review story={story} plan={story} tree={story} ELSE GIVE_UP\n  \
        RETURN: complete summary=\"reviewed\"\nSTATE: GIVE_UP\n  RETURN: blocked reason=\"no review\"\n";
    dir.protocol("review", review).write("play.toml", SCRIPT);
    dir.write("ftl.toml", BOUND.replace("coder", "architect"));
    let (run, json) = dir.run(&["review", "story=x"]);
    assert_eq!(json["standing"], "blocked", "{json:#}");
    let meters = dir.status(&run)["meters"].clone();
    for meter in ["tokens", "money", "turns"] {
        let spent = &meters[meter];
        assert_eq!((&spent["used"], &spent["unknown"]), (&json!(0), &json!(0)), "{meter}: {meters:#}");
    }
}

#[test]
fn a_probe_is_one_turn_to_the_end() {
    let dir = Dir::new();
    let server = ModelServer::start(json!({
        "yes": { "steps": [{ "calls": [{ "name": "submit", "args": { "ok": true } }], "usage": { "in": 9, "out": 1 } }] },
        "no": { "steps": [{ "fail": { "status": 401, "times": 99, "message": "invalid key test-key-0123" } }] },
    }))
    .unwrap();
    let agent = |name: &str| {
        format!(
            "[agents.{name}]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"{}\"\nmodel = \"scripted\"\nkey_file = \"key\"\n",
            server.url(name)
        )
    };
    dir.write("ftl.toml", format!("{}{}", agent("yes"), agent("no"))).write("key", "test-key-0123\n");
    let json = dir.ftl(&["agents", "probe", "yes", "--json"]).code(0).json();
    assert_eq!(
        (&json["ok"], &json["used"]["tokens"], &json["used"]["turns"]),
        (&true.into(), &10.into(), &1.into())
    );
    assert_eq!(json["unknown"], json!(["money"]), "nobody has said what it costs");
    dir.ftl(&["agents", "probe", "yes"]).code(0).says(&["`yes` submitted in", "10 tokens; money unknown"]);
    let failed = dir.ftl(&["agents", "probe", "no"]).code(1);
    let all = format!("{}{}", failed.out, failed.err);
    assert!(all.contains("did not submit") && !all.contains("test-key-0123"), "{all}");
}

#[test]
fn settings_of_agents_that_make_no_sense_are_refused() {
    let dir = Dir::new();
    dir.write("ftl.toml", "[agents.x]\nkind = \"modle\"\n");
    for args in [&["agents"][..], &["config"], &["run", "task", "objective=x"]] {
        dir.ftl(args).code(1).says(&["ftl.toml", "`modle` is unknown", "did you mean `model`?"]);
    }
    dir.write("ftl.toml", BOUND);
    dir.ftl(&["agents"]).code(0).says(&["not usable", "No such file"]);
}

#[test]
fn a_question_of_an_agent_waits_for_a_person_and_the_answer_reaches_the_next_prompt() {
    let script = "[[scene]]\nrole = \"coder\"\ntold = \"answers: the blue one\"\n[[scene.step]]\nsubmit = { summary = \"blue\" }\n\
        [[scene]]\nrole = \"coder\"\n[[scene.step]]\nask = \"Which one?\"\n";
    let dir = with_script();
    dir.write("play.toml", script);
    let (run, json) = dir.run(&["code", "story=paint"]);
    assert_eq!(json["standing"], "held", "{json:#}");
    let words = format!("ftl answer {run} VALUE");
    dir.ftl(&["why", &run]).code(0).says(&["the agent asks: Which one?", &words]);
    let json = dir.ftl(&["why", &run, "--json"]).code(0).json();
    assert_eq!(
        (&json["instances"][0]["questions"], &json["instances"][0]["commands"][0]),
        (&json!(["Which one?"]), &json!(words))
    );
    dir.ftl(&["answer", &run, "the blue one", "--by", "Ada"]).code(0);
    let last = dir.entries(&run).pop().unwrap();
    assert_eq!(last["values"]["summary"], "blue", "{last:#}");
    // The answer is no answer to anything else.
    dir.ftl(&["answer", &run, "again", "--by", "Ada"]).code(5);
}

/// A folder with a program of that name that must never be started.
fn with_program(dir: &Dir, name: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;

    dir.write(&format!("bin/{name}"), "#!/bin/sh\ntouch started\n");
    std::fs::set_permissions(dir.path(&format!("bin/{name}")), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    dir.path("bin")
}

#[test]
fn init_writes_what_it_found_and_never_replaces_a_file() {
    let dir = Dir::new();
    let bin = with_program(&dir, "claude");
    with_program(&dir, "pi");
    let init = |args: &[&str]| {
        let mut command = dir.command(args);
        command.env("PATH", &bin).env("OPENAI_API_KEY", "test-key-0123").env_remove("ANTHROPIC_API_KEY");
        crate::support::ended(command)
    };
    let printed = init(&["init", "--print"]).code(0).out;
    assert!(!dir.path("ftl.toml").exists());
    init(&["init"]).code(0).says(&[
        "found claude",
        "found pi",
        "found openai",
        "not here, but known: codex, opencode, goose, qwen, gemini",
        "every role but explorer is bound to claude",
    ]);
    let (shared, text) = (dir.read("ftl.toml"), dir.read(".ftl/config.toml"));
    assert_eq!(printed, format!("# ftl.toml\n\n{shared}\n# .ftl/config.toml\n\n{text}"));
    let here = dir.path("").display().to_string();
    assert!(
        !shared.contains(&here) && !shared.contains("agents."),
        "no machine in the shared file: {shared}"
    );
    assert!(text.contains("default = \"claude\"") && text.contains("home = \"own\""), "{text}");
    assert!(!text.contains("test-key") && !dir.path("started").exists(), "{text}");
    let shown = init(&["agents", "--json"]).code(0).json();
    assert_eq!(shown["roles"]["default"]["agent"], "claude");
    assert_eq!(shown["agents"][0]["usable"], true, "{shown:#}");
    init(&["init"]).code(1).says(&["there is", "ftl.toml already", "ftl init --print"]);
    assert_eq!((dir.read("ftl.toml"), dir.read(".ftl/config.toml")), (shared, text));
    // A file that came with the repository says how it is tested; the agents of this machine are added.
    std::fs::remove_file(dir.path(".ftl/config.toml")).unwrap();
    let mine = "[worktree]\ntests = [\"true\"]\n";
    dir.write("ftl.toml", mine);
    init(&["init"]).code(0).says(&["every role but explorer is bound to claude"]);
    assert_eq!(dir.read("ftl.toml"), mine);
}

#[test]
fn init_with_nothing_at_all_says_what_to_do() {
    let dir = Dir::new();
    let mut command = dir.command(&["init", "--json"]);
    command.env_clear().env("XDG_CONFIG_HOME", dir.settings()).env("PATH", "/nonexistent");
    let json = crate::support::ended(command).code(0).json();
    assert_eq!((&json["bound"], dir.path("ftl.toml").exists()), (&serde_json::Value::Null, true));
    assert_eq!(json["known"].as_array().map(Vec::len), Some(7), "{json:#}");
    dir.ftl(&["config"]).code(0);
    dir.ftl(&["run", "task", "objective=x"]).code(1).says(&["no agent is bound"]);
}

#[test]
fn a_state_that_needs_more_than_its_agent_enforces_is_refused_unless_that_is_accepted() {
    let dir = Dir::new();
    let bin = with_program(&dir, "pi");
    let run = |accept: &str| {
        dir.write(
            "ftl.toml",
            format!("[agents.pi]\nkind = \"cli\"\nadapter = \"pi\"\n{accept}\n[roles]\ndefault = \"pi\"\n"),
        );
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = dir.command(&["run", "task", "objective=x", "--json"]);
        command.env("PATH", path).env("OPENAI_API_KEY", "test-key-0123");
        crate::support::ended(command)
    };
    run("").code(1).says(&["needs a builder that", "`pi` does not", "accept = ["]);
    assert!(
        dir.ftl(&["status", "--json"]).code(0).json()["runs"].as_array().unwrap().is_empty(),
        "nothing was opened"
    );
    let both = "accept = [\\\"calls\\\", \\\"paths\\\"] under [agents.pi]";
    run("").code(1).says(&["counts calls before they are made", "is kept to the files", both]);
    run("accept = [\"calls\"]").code(1).says(&["is kept to the files", both]);
    run("accept = [\"paths\"]").code(1).says(&["counts calls before they are made"]);
    let ended = run("accept = [\"calls\", \"paths\"]");
    let run = ended.json()["run"].as_str().unwrap().to_owned();
    let opened = dir.entries(&run)[0].clone();
    let accepted = opened["terms"]["accepted"].to_string();
    assert!(accepted.contains("builder.IMPLEMENT needs a builder that counts calls"), "{opened:#}");
}

#[test]
fn whoever_wants_to_hears_what_agents_say() {
    let dir = with_script();
    let ended = dir.ftl(&["run", "code", "story=x", "--talk", "--json"]).code(0);
    let lines: Vec<&str> = ended.err.lines().map(str::trim_end).collect();
    let expected = [
        "[0 coder] I look.",
        "[0 coder] → read notes.txt",
        "[0 coder] → write notes.txt",
        "[0 coder] ✗ write: denied: there is no tool `write` here",
        "[0 coder] → submit",
    ];
    assert!(
        lines.len() == expected.len()
            && lines.iter().zip(expected).all(|(line, with)| line.starts_with(with)),
        "{lines:#?}"
    );
    assert_eq!(ended.json()["standing"], "complete");
    assert!(!dir.ftl(&["run", "code", "story=y"]).code(0).err.contains("I look"));
}

#[test]
fn a_program_that_is_not_there_is_told_before_what_it_does_not_enforce() {
    let dir = Dir::new();
    let told = |settings: &str| {
        dir.write(".ftl/config.toml", format!("[agents.gone]\n{settings}\n[roles]\ndefault = \"gone\"\n"));
        dir.ftl(&["run", "task", "objective=x"]).code(1)
    };
    let said = told("kind = \"cli\"\nadapter = \"pi\"\nprogram = \"/nowhere/pi\"");
    said.says(&[
        "there is no program `/nowhere/pi`, which the agent `gone` of builder starts",
        "[agents.gone]",
    ]);
    let said = told("kind = \"acp\"\nprogram = \"no-such-agent\"");
    let said = said.says(&["there is no program `no-such-agent`"]);
    assert!(!said.err.contains("accept"), "{said:#?}");
}

#[test]
fn a_model_that_does_not_answer_is_told_with_its_address_and_how() {
    let dir = Dir::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let model = format!(
        "[agents.far]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"http://{free}/v1\"\nmodel = \"m\"\n"
    );
    dir.protocol("code", CODE).write("ftl.toml", format!("{model}[roles]\ncoder = \"far\"\n"));
    let run = dir.start(&["run", "code", "story=x"]);
    let wanted = format!("far (http://{free}/v1: ");
    crate::support::until("it is suspended", || {
        dir.ftl(&["status"]).out.contains("suspended") || run.out().contains("suspended")
    });
    let said = dir.ftl(&["status"]).code(0).says(&[&wanted, "does not answer"]);
    assert!(said.out.to_lowercase().contains("refused"), "{said:#?}");
}
