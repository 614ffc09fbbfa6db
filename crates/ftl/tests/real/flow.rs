//! `ftl "<task>"` with real agents as builders: from an objective to a commit on the person's branch.

use std::process::Command;

use ftl_needs::needs;
use serde_json::{Value as Json, json};

use super::rooms::{KEY, Room};

/// What the model says to a builder, in PLAN and in IMPLEMENT alike: it changes the file and hands in. In PLAN
/// there are no tools, so the change is denied and the plan handed in.
fn scenario() -> Json {
    let answer = json!({ "approach": "write the word", "summary": "the word is written", "utilized": [] });
    json!({ "build": { "steps": [
        { "call": { "name": "@shell", "args": { "cmd": "echo done > src/old.txt" } } },
        { "call": { "name": "*submit", "args": answer } },
        { "text": "It is handed in." },
    ] } })
}

const PLAN: &str = r#"{"objective":"say that it is done","tasks":[{"seq":"001","slug":"say-done","delta":["src/old.txt"],
    "verify":"grep -q done src/old.txt","budget":6,"depends":"none"}]}"#;

/// The settings of a person who has an agent that speaks ACP: the agent, and nothing else.
fn acp_settings(room: &Room, name: &str) -> String {
    let (url, host) = (room.model.url("build"), format!("http://{}", room.model.address()));
    let (args, set) = match name {
        "qwen" => (
            r#"["--acp", "--auth-type", "openai"]"#,
            format!("OPENAI_BASE_URL = \"{url}\", OPENAI_API_KEY = \"{KEY}\", OPENAI_MODEL = \"scripted\""),
        ),
        _ => (
            r#"["--acp"]"#,
            format!(
                "GOOGLE_GEMINI_BASE_URL = \"{host}/s/build\", GEMINI_API_KEY = \"{KEY}\", GEMINI_CLI_TRUST_WORKSPACE = \"true\""
            ),
        ),
    };
    format!(
        "[agents.real]\nkind = \"acp\"\nprogram = \"{name}\"\nargs = {args}\nlike = \"{name}\"\naccept = [\"calls\"]\n\
         set = {{ {set} }}\n[roles]\nbuilder = \"real\"\n"
    )
}

/// The settings of a person: the agent, and nothing else.
fn settings(room: &Room, name: &str, model: &str) -> String {
    if ["qwen", "gemini"].contains(&name) {
        return acp_settings(room, name);
    }
    let (url, host) = (room.model.url("build"), format!("http://{}", room.model.address()));
    let set = match name {
        "claude" => format!("ANTHROPIC_BASE_URL = \"{host}/s/build\", ANTHROPIC_API_KEY = \"{KEY}\""),
        _ => format!("OPENAI_API_KEY = \"{KEY}\""),
    };
    let settings = match name {
        "claude" => String::from("settings = { retries = \"1\" }\n"),
        _ => format!("settings = {{ url = \"{url}\", retries = \"1\" }}\n"),
    };
    format!(
        "[agents.real]\nkind = \"cli\"\nadapter = \"{name}\"\nmodel = \"{model}\"\naccept = [\"calls\", \"paths\"]\n\
         {settings}set = {{ {set} }}\n[roles]\nbuilder = \"real\"\n"
    )
}

fn lands(name: &str, model: &str) {
    let room = Room::new(scenario());
    let work = room.work();
    std::fs::create_dir_all(work.join(".ftl")).unwrap();
    std::fs::write(work.join(".ftl/config.toml"), settings(&room, name, model)).unwrap();
    let plan = room.home().join("plan.json");
    std::fs::write(&plan, PLAN).unwrap();
    let mut ftl = Command::new(env!("CARGO_BIN_EXE_ftl"));
    ftl.env_clear().envs(room.env()).current_dir(&work).args(["say that it is done", "--plan"]).arg(&plan);
    let ended = ftl.args(["--land", "ff", "--by", "Ada", "--json"]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{out}\n{err}\n{:#?}", room.model.log());
    let json: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(json["report"]["landed"][0]["seq"], "001", "{json:#}");
    assert_eq!(json["report"]["delivered"]["status"], "landed", "{json:#}");
    assert_eq!(room.text("src/old.txt").as_deref(), Some("done\n"));
    assert!(json["meters"]["tokens"]["used"].as_u64().unwrap() > 0, "{json:#}");
    let log = Command::new("git").arg("-C").arg(&work).args(["log", "--format=%s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "Say done\nBegin\n");
}

#[needs(claude)]
#[test]
fn claude_takes_a_task_to_a_commit() {
    lands("claude", "scripted");
}

#[needs(codex)]
#[test]
fn codex_takes_a_task_to_a_commit() {
    lands("codex", "gpt-5.5");
}

#[needs(qwen)]
#[test]
fn qwen_takes_a_task_to_a_commit() {
    lands("qwen", "scripted");
}

#[needs(gemini)]
#[test]
fn gemini_takes_a_task_to_a_commit() {
    lands("gemini", "scripted");
}
