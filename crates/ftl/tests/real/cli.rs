//! Agents over their own protocols, as the adapters that come with `ftl` describe them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ftl_agents::cli::{Adapter, Binding, CliBackend, Home};
use ftl_agents::contract::{
    AgentAnswer, Backend, ConversationEnd, MONEY, PartKind, PromptPart, SessionLimits, SessionOrder, TOKENS,
    TURNS, converse,
};
use ftl_agents::error::AgentError;
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::RealTime;
use ftl_core::tool_policy::{Deed, ResolvedPath, ToolAllowance};
use ftl_needs::needs;
use ftl_testkit::speakers::{Heard, RecordingHost, allowance, answer, host};
use serde_json::{Value as Json, json};

use super::rooms::{KEY, Room};

/// An agent and what it is told of the model server.
struct Agent {
    name: &'static str,
    model: &'static str,
    /// Whether it can reach the window of its session.
    submits: bool,
    /// Whether it asks before each call.
    asks: bool,
}

const CLAUDE: Agent = Agent { name: "claude", model: "scripted", submits: true, asks: true };
// Codex offers its tool for patches only to a model whose name it knows.
const CODEX: Agent = Agent { name: "codex", model: "gpt-5.5", submits: true, asks: true };
const PI: Agent = Agent { name: "pi", model: "scripted", submits: false, asks: false };
const OPENCODE: Agent = Agent { name: "opencode", model: "scripted", submits: true, asks: false };
const GOOSE: Agent = Agent { name: "goose", model: "scripted", submits: true, asks: false };

impl Agent {
    /// The backend, as the settings of a person would bind it; its model answers by a scenario.
    fn bound(&self, room: &Room, scenario: &str) -> CliBackend {
        let (url, host) = (room.model.url(scenario), format!("http://{}", room.model.address()));
        let env: &[(&str, String)] = match self.name {
            "claude" => {
                &[("ANTHROPIC_BASE_URL", format!("{host}/s/{scenario}")), ("ANTHROPIC_API_KEY", KEY.into())]
            }
            "goose" => &[
                ("OPENAI_HOST", host),
                ("OPENAI_BASE_PATH", format!("s/{scenario}/v1/chat/completions")),
                ("OPENAI_API_KEY", KEY.into()),
            ],
            _ => &[("OPENAI_API_KEY", KEY.into())],
        };
        let own = room.env().into_iter().map(|(name, value)| (name.into_string().unwrap(), value));
        let own = own.filter(|(name, _)| name == "PATH");
        let named = env.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        let binding = Binding {
            name: self.name.into(),
            adapter: Arc::new(Adapter::built_in(self.name).unwrap()),
            program: None,
            home: Home::Private,
            model: Some(self.model.into()),
            env: own.chain(named).collect(),
            values: [("url".to_owned(), url), ("retries".to_owned(), "1".into())].into(),
            rooms: room.rooms(),
        };
        let mut secrets = Secrets::new();
        secrets.hide(KEY);
        CliBackend::new(binding, Arc::new(secrets), Arc::new(RealTime::new()))
    }

    fn order(&self, room: &Room, allowance: &ToolAllowance) -> SessionOrder {
        SessionOrder {
            folder: room.work(),
            role: "coder".into(),
            form: Some("code".into()),
            model: None,
            system: "You write code for a test.".into(),
            allowance: allowance.clone(),
            answer: answer(),
            limits: SessionLimits {
                requests: 20,
                silence: Duration::from_secs(30),
                whole: Duration::from_secs(60),
            },
            shell: None,
            launcher: Some(room.launcher()),
            mcp_endpoint: Some(room.mcp_endpoint()),
            earlier: None,
        }
    }

    /// One conversation; nothing of it is alive afterwards, and no room of it is left.
    fn talk(
        &self,
        room: &Room,
        scenario: &str,
        clerk: &Arc<RecordingHost>,
        allowance: &ToolAllowance,
    ) -> ConversationEnd {
        let words = [PromptPart::new(PartKind::Task, "Do what you are told.")];
        let cli = self.bound(room, scenario);
        let ended = converse(&cli, self.order(room, allowance), &words, &host(clerk));
        assert_eq!(room.alive(), Vec::<String>::new(), "something of {} is alive", self.name);
        assert_eq!(std::fs::read_dir(room.rooms()).unwrap().count(), 0, "a room is left");
        ended
    }

    /// The step with which it hands in its answer.
    fn submit(&self, answer: &Json) -> Json {
        match self.submits {
            true => json!({ "call": { "name": "*submit", "args": answer } }),
            false => json!({ "text": answer.to_string() }),
        }
    }
}

fn write(path: &str) -> Json {
    let args = json!({ "path": format!("{{{{cwd}}}}/{path}"), "rel": path, "content": "hello\n" });
    json!({ "name": "@write", "args": args })
}

fn shell(command: &str) -> Json {
    json!({ "name": "@shell", "args": { "cmd": command } })
}

fn done() -> Json {
    json!({ "summary": "done" })
}

/// Everything that was made, as `tool deed path`.
fn made(heard: &Heard) -> Vec<String> {
    let spot = |spot: &Option<ResolvedPath>| match spot {
        Some(ResolvedPath::Inside(path) | ResolvedPath::Outside(path)) => format!(" {path}"),
        None => String::new(),
    };
    heard.made.iter().map(|call| format!("{}{}", call.tool, spot(&call.spot))).collect()
}

/// It writes a file and runs a command in the repository; all of it is counted, and so are its tokens. Its
/// first answer does not fit and goes back to it.
fn works(agent: &Agent) {
    let steps = json!([
        { "text": "I write it. ", "call": write("src/a.txt") },
        { "call": shell("test -s src/a.txt") },
        agent.submit(&json!({ "summary": 7 })),
        { "text": "Is it fine?" },
        agent.submit(&done()),
        { "text": "Done." },
    ]);
    let steps = match agent.submits {
        true => steps,
        false => json!([steps[0], steps[1], steps[2], steps[4]]),
    };
    let room = Room::new(json!({ "works": { "steps": steps } }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let ended = agent.talk(&room, "works", &clerk, &allowance(9));
    let heard = clerk.snapshot();
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:#?} {:#?}", room.model.log());
    assert_eq!(room.text("src/a.txt").as_deref(), Some("hello\n"));
    let tools = made(&heard);
    let wrote = tools.iter().any(|one| one == "write src/a.txt" || one == "edit src/a.txt");
    assert!(wrote && tools.iter().any(|one| one == "bash"), "{tools:?}");
    assert_eq!(
        heard.made.iter().filter(|call| call.deed == Deed::Speak).count(),
        if agent.submits { 2 } else { 0 }
    );
    assert!(heard.total(TOKENS) > 1000 && heard.total(TURNS) >= 1, "{:?}", heard.charged);
    assert!(!ended.unknown.contains(TOKENS), "{:?}", ended.unknown);
    assert_eq!(ended.unknown.contains(MONEY), heard.total(MONEY) == 0, "unknown, and never zero");
    assert!(heard.text.contains("I write it."), "{}", heard.text);
}

/// Its model service gets the real key; what it starts sees neither the key nor the address of the service.
fn has_only_a_dummy(agent: &Agent) {
    let steps = json!([{ "call": shell("env > src/env.txt") }, agent.submit(&done()), { "text": "Done." }]);
    let room = Room::new(json!({ "dummy": { "steps": steps } }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let ended = agent.talk(&room, "dummy", &clerk, &allowance(9));
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{:#?}", room.model.log());
    let seen = room.text("src/env.txt").unwrap();
    assert!(!seen.contains(KEY) && !seen.contains(&room.model.address().to_string()), "{seen}");
    // Codex keeps what looks like a key from its commands by itself.
    assert!(agent.name == "codex" || seen.contains("ftl-gate-"), "{seen}");
    assert!(room.model.log().iter().all(|one| one["key"] == KEY), "{:#?}", room.model.log());
}

/// It wants to write outside of its delta. One that asks is told so and goes on, and nothing was written; one
/// that does not is ended as soon as it tells of it.
fn is_denied(agent: &Agent) {
    let steps = json!([{ "call": write("other.txt") }, agent.submit(&done()), { "text": "Done." }]);
    let room = Room::new(json!({ "denied": { "steps": steps } }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let ended = agent.talk(&room, "denied", &clerk, &allowance(9));
    let heard = clerk.snapshot();
    let denied: Vec<&str> = heard.denied.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(denied, ["other.txt may not be written here; what may is src"], "{ended:?}");
    match agent.asks {
        true => {
            assert_eq!((ended.outcome, room.text("other.txt")), (Ok(AgentAnswer::Done(done())), None));
        }
        false => {
            assert!(
                matches!(&ended.outcome, Err(AgentError::Forbidden(why)) if why.contains("other.txt")),
                "{ended:?}"
            );
        }
    }
}

/// Its key is wrong: that is told as what it is, whatever it exits with.
fn has_a_wrong_key(agent: &Agent) {
    let wrong = json!({ "steps": [{ "fail": { "status": 401, "times": 99, "message": "invalid key" } }] });
    let room = Room::new(json!({ "wrong": wrong }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let ended = agent.talk(&room, "wrong", &clerk, &allowance(9));
    assert!(
        matches!(&ended.outcome, Err(AgentError::CouldNotRun(why)) if why.contains("invalid key")),
        "{ended:?}"
    );
    assert_eq!(clerk.snapshot().total(TOKENS), 0);
}

/// The stream of its model breaks off, again and again: that is no answer, whatever it exits with.
fn is_cut_off(agent: &Agent) {
    let cut =
        json!({ "steps": [{ "text": "{\"summary\": \"this stream is cut in the middle\"}", "cut": true }] });
    let room = Room::new(json!({ "cut": cut }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let ended = agent.talk(&room, "cut", &clerk, &allowance(9));
    assert!(matches!(&ended.outcome, Err(AgentError::Died(_) | AgentError::Bad(_))), "{ended:?}");
}

/// Nobody wants its answer any more while a command of it runs: nothing of both is alive soon after.
fn is_killed_with_its_command(agent: &Agent) {
    let command = shell("perl -e 'sleep 300'; touch survived");
    let steps = json!([{ "call": command }, agent.submit(&done())]);
    let room = Room::new(json!({ "long": { "steps": steps } }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let (ended, after) = std::thread::scope(|scope| {
        let talking = scope.spawn(|| agent.talk(&room, "long", &clerk, &allowance(9)));
        room.wait_until("the command", |room| room.alive().iter().any(|one| one.contains("[\"perl\"")));
        clerk.cancel();
        let cancelled = Instant::now();
        (talking.join().unwrap(), cancelled.elapsed())
    });
    assert_eq!((ended.outcome, room.text("survived")), (Err(AgentError::Cancelled), None));
    assert!(after < Duration::from_secs(10), "{after:?}");
}

/// Its budget ends before its first call: what a request read is known before its calls are made. What it wrote
/// may be told only while they are made already.
#[needs(claude)]
#[test]
fn claude_is_cut_off_at_its_budget() {
    let steps =
        json!([{ "call": write("src/a.txt"), "usage": { "in": 700, "out": 50 } }, CLAUDE.submit(&done())]);
    let room = Room::new(json!({ "budget": { "steps": steps } }));
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    clerk.budget.store(600, Ordering::Relaxed);
    let ended = CLAUDE.talk(&room, "budget", &clerk, &allowance(9));
    assert_eq!(ended.outcome, Err(AgentError::Stopped("700 tokens are more than 600".into())));
    assert_eq!(room.text("src/a.txt"), None);
}

/// It refuses an edit by itself that would not work, of a file outside its delta, and asks nobody: nothing was done, and
/// the session goes on. One that would work is asked about and denied.
#[needs(claude)]
#[test]
fn claude_refuses_an_edit_by_itself_and_goes_on() {
    let edit = |old: &str| {
        let args = json!({ "file_path": "{{cwd}}/other.txt", "old_string": old, "new_string": "new" });
        json!({ "call": { "name": "Edit", "args": args } })
    };
    let steps = json!([edit("nowhere"), edit("nowhere"), CLAUDE.submit(&done())]);
    let room = Room::new(json!({ "edits": { "steps": steps } }));
    std::fs::write(room.work().join("other.txt"), "other\n").unwrap();
    let clerk = Arc::new(RecordingHost::new(&allowance(9)));
    let ended = CLAUDE.talk(&room, "edits", &clerk, &allowance(9));
    let heard = clerk.snapshot();
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())), "{heard:#?}");
    assert!(
        heard.denied.iter().any(|(_, why)| why.starts_with("other.txt may not be written here")),
        "{heard:#?}"
    );
    assert_eq!(room.text("other.txt").as_deref(), Some("other\n"));
}

/// What is installed is what is pinned, and says so.
fn is_pinned(agent: &Agent) {
    let pins = include_str!("../../../../tools/agents/pins");
    let room = Room::new(json!({}));
    let mut lines = pins.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let pin = lines.find(|words| words.first() == Some(&agent.name)).unwrap()[2];
    let version = pin.rsplit_once('@').unwrap().1.trim_end_matches("-linux-x64");
    let cli = agent.bound(&room, "none");
    assert_eq!(cli.probe().usable, Ok(()));
    let told = cli.version(&*room.launcher(), &room.work()).unwrap();
    assert!(told.contains(version), "{}: {told}", agent.name);
}

macro_rules! for_agents {
    ($($test:ident: $($agent:ident $need:ident $name:ident)+;)+) => {
        $($(
            #[needs($need)]
            #[test]
            fn $name() {
                $test(&$agent);
            }
        )+)+
    };
}

for_agents! {
    works: CLAUDE claude claude_works CODEX codex codex_works PI pi pi_works OPENCODE opencode opencode_works
        GOOSE goose goose_works;
    has_only_a_dummy: CLAUDE claude claude_has_only_a_dummy CODEX codex codex_has_only_a_dummy PI pi pi_has_only_a_dummy
        OPENCODE opencode opencode_has_only_a_dummy GOOSE goose goose_has_only_a_dummy;
    is_denied: CLAUDE claude claude_is_denied CODEX codex codex_is_denied PI pi pi_is_denied
        OPENCODE opencode opencode_is_denied GOOSE goose goose_is_denied;
    has_a_wrong_key: CLAUDE claude claude_has_a_wrong_key CODEX codex codex_has_a_wrong_key
        PI pi pi_has_a_wrong_key GOOSE goose goose_has_a_wrong_key;
    is_cut_off: CODEX codex codex_is_cut_off GOOSE goose goose_is_cut_off;
    is_killed_with_its_command: CLAUDE claude claude_is_killed CODEX codex codex_is_killed PI pi pi_is_killed
        OPENCODE opencode opencode_is_killed GOOSE goose goose_is_killed;
    is_pinned: CLAUDE claude claude_is_pinned CODEX codex codex_is_pinned PI pi pi_is_pinned
        OPENCODE opencode opencode_is_pinned GOOSE goose goose_is_pinned;
}
