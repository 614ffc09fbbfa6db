//! Agents over the Agent Client Protocol: goose, Qwen Code and Gemini CLI themselves, Claude Code and Codex through their
//! adapters.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_agents::acp::{Acp, AcpAgent, Habits};
use ftl_agents::contract::{
    AgentAnswer, Backend as _, ConversationEnd, MONEY, PartKind, PromptPart, SessionHost, SessionLimits,
    SessionOrder, TOKENS, TURNS, converse,
};
use ftl_agents::contract::{CommandFailure, CommandRunner, Ran};
use ftl_agents::error::AgentError;
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::RealTime;
use ftl_core::tool_policy::ResolvedPath;
use ftl_core::value::Name;
use ftl_needs::needs;
use ftl_testkit::speakers::{Heard, RecordingHost, allowance, answer, host};
use serde_json::{Value as Json, json};

use super::rooms::{KEY, Room, installed};

/// The agents: the name of their habits, and of their program.
const GOOSE: (&str, &str) = ("goose", "goose");
const CLAUDE: (&str, &str) = ("claude", "claude-acp");
const CODEX: (&str, &str) = ("codex", "codex-acp");
const QWEN: (&str, &str) = ("qwen", "qwen");
const GEMINI: (&str, &str) = ("gemini", "gemini");

/// A sign that commands may be run: terminals go through the launcher.
#[derive(Debug)]
struct Sign;

impl CommandRunner for Sign {
    fn run(&self, _: &str, _: &Path, _: Duration, _: &dyn SessionHost) -> Result<Ran, CommandFailure> {
        Err(CommandFailure(String::from("a terminal is no shell")))
    }
}

/// An agent in a room, bound as the settings of a person would bind it.
fn bound((habits, program): (&str, &str), room: &Room, scenario: &str) -> Acp {
    let program = installed(program);
    let host = format!("http://{}", room.model.address());
    let (args, own): (&[&str], Vec<(&str, String)>) = match habits {
        "goose" => (
            &["acp"],
            vec![
                ("GOOSE_PROVIDER", "openai".into()),
                ("GOOSE_MODEL", "scripted".into()),
                ("GOOSE_DISABLE_KEYRING", "1".into()),
                ("OPENAI_HOST", host),
                ("OPENAI_BASE_PATH", format!("s/{scenario}/v1/chat/completions")),
                ("OPENAI_API_KEY", KEY.into()),
            ],
        ),
        "claude" => (
            &[],
            vec![
                ("ANTHROPIC_BASE_URL", format!("{host}/s/{scenario}")),
                ("ANTHROPIC_API_KEY", KEY.into()),
                ("ANTHROPIC_MODEL", "scripted".into()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
                ("CLAUDE_CODE_MAX_RETRIES", "1".into()),
            ],
        ),
        "qwen" => (
            &["--acp", "--auth-type", "openai"],
            vec![
                ("OPENAI_BASE_URL", room.model.url(scenario)),
                ("OPENAI_API_KEY", KEY.into()),
                ("OPENAI_MODEL", "scripted".into()),
            ],
        ),
        "gemini" => (
            &["--acp"],
            vec![
                ("GOOGLE_GEMINI_BASE_URL", format!("{host}/s/{scenario}")),
                ("GEMINI_API_KEY", KEY.into()),
                ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
            ],
        ),
        _ => {
            codex_settings(room, scenario);
            (&[], vec![("SCRIPTED_KEY", KEY.into())])
        }
    };
    let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
    let agent = AcpAgent {
        name: habits.into(),
        program: program.into(),
        args: args.iter().map(|arg| (*arg).into()).collect(),
        env: room.env().into_iter().chain(own).collect(),
        home: None,
        habits: Habits::of(habits).unwrap(),
    };
    let mut secrets = Secrets::new();
    secrets.hide(KEY);
    Acp::new(agent, Arc::new(secrets), Arc::new(RealTime::new()))
}

fn codex_settings(room: &Room, scenario: &str) {
    let folder = room.home().join(".codex");
    std::fs::create_dir_all(&folder).unwrap();
    // Codex offers its tool for patches only to a model whose name it knows.
    let settings = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\
         approvals_reviewer = \"user\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\n\
         env_key = \"SCRIPTED_KEY\"\nwire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n\
         [analytics]\nenabled = false\n",
        room.model.url(scenario)
    );
    std::fs::write(folder.join("config.toml"), settings).unwrap();
}

fn order(room: &Room) -> SessionOrder {
    SessionOrder {
        folder: room.work(),
        role: "coder".into(),
        form: Some("code".into()),
        model: None,
        system: "You write code for a test.".into(),
        allowance: allowance(9),
        answer: answer(),
        limits: SessionLimits {
            requests: 20,
            silence: Duration::from_secs(30),
            whole: Duration::from_secs(60),
        },
        shell: Some(Arc::new(Sign)),
        launcher: Some(room.launcher()),
        mcp_endpoint: Some(room.mcp_endpoint()),
        earlier: None,
    }
}

/// One conversation by these steps; nothing of it is alive afterwards.
fn talk(agent: (&str, &str), steps: Json) -> (ConversationEnd, Heard, Room) {
    let room = Room::new(json!({ "play": { "steps": steps } }));
    let backend = bound(agent, &room, "play");
    assert_eq!(backend.probe().usable, Ok(()));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let words = [PromptPart::new(PartKind::Task, "Do what you are told.")];
    let ended = converse(&backend, order(&room), &words, &host(&clerk));
    assert_eq!(room.alive(), Vec::<String>::new(), "something of {} is alive", agent.0);
    (ended, clerk.snapshot(), room)
}

fn write(path: &str) -> Json {
    let args = json!({ "path": format!("{{{{cwd}}}}/{path}"), "rel": path, "content": "hello\n" });
    json!({ "call": { "name": "@write", "args": args } })
}

fn shell(command: &str) -> Json {
    json!({ "call": { "name": "@shell", "args": { "cmd": command } } })
}

fn submit(answer: &Json) -> Json {
    json!({ "call": { "name": "*submit", "args": answer } })
}

fn done() -> Json {
    json!({ "summary": "done" })
}

/// Everything that was made, as `tool path`.
fn made(heard: &Heard) -> Vec<String> {
    let spot = |spot: &Option<ResolvedPath>| match spot {
        Some(ResolvedPath::Inside(path) | ResolvedPath::Outside(path)) => format!(" {path}"),
        None => String::new(),
    };
    heard.made.iter().map(|call| format!("{}{}", call.tool, spot(&call.spot))).collect()
}

/// It writes a file and runs a command; each is counted once, and its tokens are charged. Its first answer
/// does not fit and goes back to it.
fn works(agent: (&str, &str)) -> (ConversationEnd, Heard, Room) {
    works_after(agent, &json!({ "summary": 7 }))
}

/// The same with that answer first.
fn works_after(agent: (&str, &str), wrong: &Json) -> (ConversationEnd, Heard, Room) {
    let mut first = write("src/a.txt");
    first["text"] = json!("I write it. ");
    let steps = json!([
        first,
        shell("cat src/a.txt"),
        submit(wrong),
        { "text": "Is it fine?" },
        submit(&done()),
        { "text": "Done." },
    ]);
    let (ended, heard, room) = talk(agent, steps);
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:#?} {:#?}", room.model.log());
    assert_eq!(room.text("src/a.txt").as_deref(), Some("hello\n"));
    assert!(heard.text.contains("I write it."), "{heard:?}");
    assert_eq!(heard.total(TURNS), 2);
    // Qwen Code tells nothing of its tokens.
    assert_eq!(heard.total(TOKENS) > 0, agent != QWEN, "{heard:?}");
    (ended, heard, room)
}

#[needs(goose)]
#[test]
fn goose_works() {
    let (ended, heard, _room) = works(GOOSE);
    assert_eq!(made(&heard), ["write src/a.txt", "bash", "submit", "submit"]);
    assert_eq!(
        ended.unknown,
        [Name::from(MONEY), Name::from(TOKENS)].into(),
        "it tells of its last request only"
    );
}

#[needs(claude_acp)]
#[test]
fn claude_works() {
    let (ended, heard, _room) = works(CLAUDE);
    assert_eq!(made(&heard), ["write src/a.txt", "bash", "submit", "submit"]);
    assert!(ended.unknown.is_empty() && heard.total(MONEY) > 0, "{ended:?}");
}

#[needs(codex_acp)]
#[test]
fn codex_works() {
    let (ended, heard, _room) = works(CODEX);
    // It tells of a command that only looks as what it looks at.
    assert_eq!(made(&heard), ["write src/a.txt", "read src/a.txt", "submit", "submit"]);
    assert_eq!(ended.unknown, [Name::from(MONEY)].into());
}

#[needs(qwen)]
#[test]
fn qwen_works() {
    // It makes a text of a number by itself, and calls nothing of which an argument is missing.
    let (ended, heard, _room) = works_after(QWEN, &json!({ "nothing": 1 }));
    assert_eq!(made(&heard), ["write src/a.txt", "bash", "submit"]);
    assert_eq!(ended.unknown, [Name::from(MONEY), Name::from(TOKENS)].into());
}

#[needs(gemini)]
#[test]
fn gemini_works() {
    let (ended, heard, _room) = works(GEMINI);
    // It calls nothing whose arguments do not fit.
    assert_eq!(made(&heard), ["write src/a.txt", "bash", "submit"]);
    assert_eq!(ended.unknown, [Name::from(MONEY), Name::from(TOKENS)].into());
}

/// In the mode in which it is put, commands write nothing that nobody was asked about.
#[needs(codex_acp)]
#[test]
fn codex_runs_commands_that_write_nothing() {
    let steps =
        json!([shell("echo x > src/x.txt; echo x > other.txt"), submit(&done()), { "text": "Done." }]);
    let (ended, heard, room) = talk(CODEX, steps);
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:#?}");
    assert_eq!((room.text("src/x.txt"), room.text("other.txt")), (None, None));
}

/// It is denied what is outside its delta, and what is in `.git`, and goes on to submit.
fn is_denied(agent: (&str, &str)) {
    is_denied_with(agent, "is in .git");
}

/// The same where the second denial is told so.
fn is_denied_with(agent: (&str, &str), words: &str) {
    let steps = json!([write("other.txt"), write("src/.git/x"), submit(&done()), { "text": "Done." }]);
    let (ended, heard, room) = talk(agent, steps);
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:#?} {:#?}", room.model.log());
    assert_eq!((room.text("other.txt"), room.text("src/.git/x")), (None, None));
    let denied: Vec<&str> = heard.denied.iter().map(|(_, why)| why.as_str()).collect();
    assert!(denied.iter().any(|why| why.starts_with("other.txt may not be written here")), "{denied:?}");
    assert!(denied.iter().any(|why| why.contains(words)), "{denied:?}");
    assert_eq!(made(&heard), ["submit"]);
}

#[needs(goose)]
#[test]
fn goose_is_denied_outside_its_delta() {
    is_denied(GOOSE);
}

#[needs(claude_acp)]
#[test]
fn claude_is_denied_outside_its_delta() {
    is_denied(CLAUDE);
}

#[needs(codex_acp)]
#[test]
fn codex_is_denied_outside_its_delta() {
    is_denied(CODEX);
}

#[needs(qwen)]
#[test]
fn qwen_is_denied_outside_its_delta() {
    is_denied(QWEN);
}

#[needs(gemini)]
#[test]
fn gemini_is_denied_outside_its_delta() {
    // It names only the last part of a path that its own tools would not find.
    is_denied_with(GEMINI, "a file that the agent does not name");
}

/// A command of it runs, and nobody wants its answer any more: all of it is gone at once.
fn is_cancelled(agent: (&str, &str)) {
    let room = Room::new(
        json!({ "play": { "steps": [shell("perl -e 'sleep 41'; touch src/survived"), { "text": "slept" }] } }),
    );
    let backend = bound(agent, &room, "play");
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let words = [PromptPart::new(PartKind::Task, "Do what you are told.")];
    let order = order(&room);
    std::thread::scope(|scope| {
        let host = host(&clerk);
        let talking = scope.spawn(move || (converse(&backend, order, &words, &host), Instant::now()));
        room.wait_until("its command", |room| room.alive().iter().any(|words| words.contains("sleep 41")));
        clerk.cancel();
        let cancelled = Instant::now();
        let (ended, at) = talking.join().unwrap();
        assert_eq!(ended.outcome, Err(AgentError::Cancelled));
        assert!(at.duration_since(cancelled) < Duration::from_secs(10));
    });
    assert_eq!(room.alive(), Vec::<String>::new());
    assert_eq!(room.text("src/survived"), None);
}

#[needs(goose)]
#[test]
fn goose_is_cancelled_and_leaves_nothing() {
    is_cancelled(GOOSE);
}

#[needs(claude_acp)]
#[test]
fn claude_is_cancelled_and_leaves_nothing() {
    is_cancelled(CLAUDE);
}

#[needs(codex_acp)]
#[test]
fn codex_is_cancelled_and_leaves_nothing() {
    is_cancelled(CODEX);
}

#[needs(qwen)]
#[test]
fn qwen_is_cancelled_and_leaves_nothing() {
    is_cancelled(QWEN);
}

#[needs(gemini)]
#[test]
fn gemini_is_cancelled_and_leaves_nothing() {
    is_cancelled(GEMINI);
}

/// Its model fails: whatever it says about that and however it ends, there is no answer.
fn is_not_believed(agent: (&str, &str)) {
    let steps = json!([{ "fail": { "status": 401, "times": 99, "message": "invalid key" } }]);
    let (ended, heard, _room) = talk(agent, steps);
    assert!(ended.outcome.is_err(), "{ended:?}");
    assert!(heard.made.is_empty(), "{heard:?}");
}

#[needs(goose)]
#[test]
fn goose_is_not_believed() {
    is_not_believed(GOOSE);
}

#[needs(claude_acp)]
#[test]
fn claude_is_not_believed() {
    is_not_believed(CLAUDE);
}

#[needs(codex_acp)]
#[test]
fn codex_is_not_believed() {
    is_not_believed(CODEX);
}

#[needs(qwen)]
#[test]
fn qwen_is_not_believed() {
    is_not_believed(QWEN);
}

#[needs(gemini)]
#[test]
fn gemini_is_not_believed() {
    is_not_believed(GEMINI);
}

/// It says its answer instead of submitting it.
fn says_its_answer(agent: (&str, &str)) {
    let steps =
        json!([write("src/a.txt"), { "text": "Here it is:\n```json\n{\"summary\": \"done\"}\n```\n" }]);
    let (ended, heard, _room) = talk(agent, steps);
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:?}");
}

#[needs(goose)]
#[test]
fn goose_says_its_answer() {
    says_its_answer(GOOSE);
}

#[needs(claude_acp)]
#[test]
fn claude_says_its_answer() {
    says_its_answer(CLAUDE);
}

#[needs(codex_acp)]
#[test]
fn codex_says_its_answer() {
    says_its_answer(CODEX);
}

#[needs(qwen)]
#[test]
fn qwen_says_its_answer() {
    says_its_answer(QWEN);
}

#[needs(gemini)]
#[test]
fn gemini_says_its_answer() {
    says_its_answer(GEMINI);
}

/// It goes on in a session of a process that has ended: its model is asked with what was said before. In a
/// new session the model would begin with its first step again.
fn goes_on(agent: (&str, &str)) {
    let again = json!({ "summary": "again" });
    let end = json!({ "text": "Done." });
    let steps = json!([write("src/a.txt"), submit(&done()), end, submit(&again), end]);
    let room = Room::new(json!({ "play": { "steps": steps } }));
    let backend = bound(agent, &room, "play");
    assert!(backend.enforces().resume);
    let talk = |earlier: Option<String>| {
        let clerk = Arc::new(RecordingHost::new(&allowance(9)));
        let words = [PromptPart::new(PartKind::Task, "Do what you are told.")];
        let ended = converse(&backend, SessionOrder { earlier, ..order(&room) }, &words, &host(&clerk));
        assert_eq!(room.alive(), Vec::<String>::new(), "something of {} is alive", agent.0);
        (ended.outcome, clerk.snapshot())
    };
    let (first, heard) = talk(None);
    assert_eq!(first, Ok(AgentAnswer::Done(done())), "{heard:#?} {:#?}", room.model.log());
    let session = heard.opened.first().cloned().unwrap();
    let (second, heard) = talk(Some(session.clone()));
    assert_eq!(second, Ok(AgentAnswer::Done(again)), "{heard:#?} {:#?}", room.model.log());
    assert_eq!(heard.opened, [session], "it is the same session");
    assert_eq!(made(&heard), ["submit"], "what was done before is not counted again");
    // One that nobody knows is a new one.
    let (third, heard) = talk(Some(String::from("00000000-0000-4000-8000-000000000000")));
    assert_eq!(third, Ok(AgentAnswer::Done(done())), "{heard:#?} {:#?}", room.model.log());
}

/// It offers to take a session up, and leaves out the tools that it is given for it: it is always fresh.
#[needs(goose)]
#[test]
fn goose_begins_anew() {
    let room = Room::new(json!({ "play": { "steps": [submit(&done()), { "text": "Done." }] } }));
    let backend = bound(GOOSE, &room, "play");
    assert!(!backend.enforces().resume);
    for _ in 0..2 {
        let clerk = Arc::new(RecordingHost::new(&allowance(9)));
        let words = [PromptPart::new(PartKind::Task, "Do what you are told.")];
        let order = SessionOrder { earlier: Some(String::from("20261116_1")), ..order(&room) };
        let ended = converse(&backend, order, &words, &host(&clerk));
        let heard = clerk.snapshot();
        assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:#?} {:#?}", room.model.log());
        assert!(heard.opened.is_empty(), "{heard:#?}");
    }
}

#[needs(claude_acp)]
#[test]
fn claude_goes_on() {
    goes_on(CLAUDE);
}

#[needs(codex_acp)]
#[test]
fn codex_goes_on() {
    goes_on(CODEX);
}
