//! Every backend is put through the contract suite of the testkit.

use ftl_agents::model::Dialect;
use ftl_testkit::speakers::{ModelCast, ScriptCast};

mod scripted {
    use super::ScriptCast;

    fn cast() -> ScriptCast {
        ScriptCast
    }

    ftl_testkit::agent_contract!(cast);
}

mod chat {
    use super::{Dialect, ModelCast};

    fn cast() -> ModelCast {
        ModelCast(Dialect::Chat)
    }

    ftl_testkit::agent_contract!(cast);
}

mod responses {
    use super::{Dialect, ModelCast};

    fn cast() -> ModelCast {
        ModelCast(Dialect::Responses)
    }

    ftl_testkit::agent_contract!(cast);
}

mod anthropic {
    use super::{Dialect, ModelCast};

    fn cast() -> ModelCast {
        ModelCast(Dialect::Anthropic)
    }

    ftl_testkit::agent_contract!(cast);
}

/// A model that cannot call tools is made to choose one by a schema, and works like any other.
#[test]
fn a_model_without_calls_works_by_a_schema() {
    use std::sync::Arc;

    use ftl_agents::contract::{AgentAnswer, PartKind, PromptPart, TURNS, converse};
    use ftl_agents::model::{Calls, Model};
    use ftl_agents::secrets::Secrets;
    use ftl_agents::timing::RealTime;
    use ftl_testkit::model_server::ModelServer;
    use ftl_testkit::speakers::{RecordingHost, allowance, endpoint, host, order};
    use serde_json::json;

    let call = |tool: &str, args: serde_json::Value| json!({ "json": { "tool": tool, "arguments": args }, "usage": { "in": 5, "out": 5 } });
    let steps = [
        call("write", json!({ "path": "other.txt", "content": "no" })),
        call("write", json!({ "path": "src/new.txt", "content": "text" })),
        call("submit", json!({ "summary": 3 })),
        call("submit", json!({ "summary": "done" })),
    ];
    let server = ModelServer::start(json!({ "case": { "steps": steps } })).unwrap();
    let mut endpoint = endpoint(Dialect::Chat, &server.url("case"));
    endpoint.calls = Calls::Schema;
    let backend = Model::new(endpoint, Arc::new(Secrets::new()), Arc::new(RealTime::new()));
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let allowed = allowance(9);
    let clerk = Arc::new(RecordingHost::new(&allowed));
    let words = [PromptPart::new(PartKind::Task, "Do it.")];
    let ended = converse(&backend, order(folder.path(), &allowed), &words, &host(&clerk));
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(json!({ "summary": "done" }))));
    assert_eq!(std::fs::read_to_string(folder.path().join("src/new.txt")).unwrap(), "text");
    assert!(!folder.path().join("other.txt").exists(), "it is denied like any other");
    let heard = clerk.snapshot();
    assert_eq!((heard.denied.len(), heard.total(TURNS)), (1, 4), "{heard:?}");
}
