//! Casts of the player: acts as its script.

use std::path::Path;
use std::sync::Arc;

use ftl_agents::acp::{Acp, AcpAgent, Asks, Habits, TokenCount};
use ftl_agents::contract::McpEndpoint;
use ftl_agents::contract::{AgentAnswer, ConversationEnd, PartKind, PromptPart, SessionOrder, converse};
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::RealTime;
use ftl_core::tool_policy::ToolAllowance;
use ftl_testkit::speakers::{Act, Cast, End, Grain, KEY, RecordingHost, Stage, host, order};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// Plays acts by the player.
pub(crate) struct PlayerCast {
    /// Whether it asks before each call; else it leaves its effects to us.
    pub(crate) asks: bool,
}

impl Cast for PlayerCast {
    fn play(&self, acts: &[Act]) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let acts: Vec<Json> = acts.iter().map(act).collect();
        let backend = acp(player(folder.path(), &json!({ "asks": self.asks, "acts": acts })));
        Stage { backend: Box::new(backend), keep: Box::new(folder) }
    }

    fn grain(&self) -> Grain {
        Grain::Turn
    }
}

fn act(act: &Act) -> Json {
    let end = match &act.end {
        End::GoesOn => Json::Null,
        End::Submits(answer) => json!({ "submits": answer }),
        End::Says(text) => json!({ "says": text }),
        End::Asks(question) => json!({ "asks": question }),
        End::Dies => json!("dies"),
        End::Hangs => json!("hangs"),
        End::Floods => json!("floods"),
    };
    json!({ "say": act.say, "calls": act.calls, "tokens": act.tokens, "end": end })
}

/// An agent that plays a script.
pub(crate) fn player(folder: &Path, script: &Json) -> AcpAgent {
    let mut script = script.clone();
    script["heard"] = json!(folder.join("heard"));
    let path = folder.join("script");
    std::fs::write(&path, script.to_string()).unwrap();
    let habits = Habits { asks: Asks::Everything, meter: TokenCount::Turn, costs: true, ..Habits::unknown() };
    AcpAgent {
        name: "player".into(),
        program: env!("CARGO_BIN_EXE_ftl-player").into(),
        args: vec![path.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        home: None,
        habits,
    }
}

/// A backend of an agent; the suite's key is a secret.
pub(crate) fn acp(agent: AcpAgent) -> Acp {
    let mut secrets = Secrets::new();
    secrets.hide(KEY);
    Acp::new(agent, Arc::new(secrets), Arc::new(RealTime::new()))
}

/// A folder to work in, a lobby, and a desk.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) props: TempDir,
    pub(crate) clerk: Arc<RecordingHost>,
    allowance: ToolAllowance,
}

impl Scene {
    /// A scene with that allowance.
    pub(crate) fn new(allowance: ToolAllowance) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/old.rs"), "fn old() {}\n").unwrap();
        let props = tempfile::tempdir().unwrap();
        Scene { folder, props, clerk: Arc::new(RecordingHost::new(&allowance)), allowance }
    }

    /// An order with a window.
    pub(crate) fn order(&self) -> SessionOrder {
        let folder = self.props.path().to_owned();
        let mcp_endpoint = McpEndpoint { folder, program: "ftl".into(), args: vec!["mcp".into()] };
        SessionOrder { mcp_endpoint: Some(mcp_endpoint), ..order(self.folder.path(), &self.allowance) }
    }

    /// Plays a script.
    pub(crate) fn play(&self, script: &Json) -> ConversationEnd {
        self.play_with(&acp(player(self.props.path(), script)), self.order())
    }

    /// Lets an agent take an order.
    pub(crate) fn play_with(&self, backend: &Acp, order: SessionOrder) -> ConversationEnd {
        converse(backend, order, &[PromptPart::new(PartKind::Task, "Do it.")], &host(&self.clerk))
    }

    /// What the player heard, line by line.
    pub(crate) fn read_heard(&self) -> Vec<Json> {
        let text = std::fs::read_to_string(self.props.path().join("heard")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a file holds.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(path)).ok()
    }

    /// The tools of the calls that were made.
    pub(crate) fn made(&self) -> Vec<String> {
        self.clerk.snapshot().made.iter().map(|call| call.tool.to_string()).collect()
    }
}

/// An act that submits.
pub(crate) fn submit() -> Json {
    json!({ "tokens": 1, "end": { "submits": { "summary": "done" } } })
}

/// An act of calls.
pub(crate) fn calls(calls: Json) -> Json {
    json!({ "tokens": 1, "calls": calls })
}

/// It came to its answer.
pub(crate) fn is_done(ended: &ConversationEnd) {
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(json!({ "summary": "done" }))));
}
