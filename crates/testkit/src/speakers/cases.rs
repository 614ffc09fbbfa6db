//! The cases of the contract. Each knows what the agent does and what must come of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ftl_agents::contract::McpEndpoint;
use ftl_agents::contract::{
    AgentAnswer, ConversationEnd, Counted, MAX_CORRECTIONS, MAX_TURN_BYTES, MONEY, PartKind, PromptPart,
    SessionOrder, TOKENS, TURNS, converse,
};
use ftl_agents::error::AgentError;
use ftl_core::tool_policy::ToolAllowance;
use ftl_core::value::Name;
use serde_json::{Value as Json, json};

use super::{Act, Cast, End, Grain, KEY, RecordingHost, after, allowance, host, order};

/// One conversation in a folder of its own.
pub(super) struct Scene {
    folder: tempfile::TempDir,
    mcp_endpoint: tempfile::TempDir,
    pub(super) clerk: Arc<RecordingHost>,
    allowance: ToolAllowance,
}

impl Scene {
    pub(super) fn new(allowance: ToolAllowance) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/old.rs"), "fn old() {}\n").unwrap();
        let mcp_endpoint = tempfile::tempdir().unwrap();
        Scene { folder, mcp_endpoint, clerk: Arc::new(RecordingHost::new(&allowance)), allowance }
    }

    /// An order with a window, through which an agent with a program of its own submits.
    fn order(&self) -> SessionOrder {
        let mcp_endpoint = McpEndpoint {
            folder: self.mcp_endpoint.path().to_owned(),
            program: "ftl".into(),
            args: vec!["mcp".into()],
        };
        SessionOrder { mcp_endpoint: Some(mcp_endpoint), ..order(self.folder.path(), &self.allowance) }
    }

    pub(super) fn play(&self, cast: &dyn Cast, acts: &[Act]) -> ConversationEnd {
        let stage = cast.play(acts);
        let words = [PromptPart::new(PartKind::Task, "Do it.")];
        converse(&*stage.backend, self.order(), &words, &host(&self.clerk))
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(path)).ok()
    }
}

fn done() -> Json {
    json!({ "summary": "done" })
}

pub(super) fn write(path: &str) -> Act {
    Act::call("write", json!({ "path": path, "content": "text" }))
}

pub(super) fn submit() -> Act {
    Act::of(End::Submits(done()))
}

fn is_done(ended: &ConversationEnd) {
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(done())));
}

/// It writes and edits, and the files are there; every call and every token is counted.
pub fn edits_a_file(cast: &dyn Cast) {
    let scene = Scene::new(allowance(5));
    let edit = json!({ "path": "src/old.rs", "old": "old", "new": "new" });
    let ended =
        scene.play(cast, &[write("src/a/b.txt").saying("I write. "), Act::call("edit", edit), submit()]);
    is_done(&ended);
    assert_eq!(scene.text("src/a/b.txt").as_deref(), Some("text"));
    assert_eq!(scene.text("src/old.rs").as_deref(), Some("fn new() {}\n"));
    let heard = scene.clerk.snapshot();
    let mut tools: Vec<&str> = heard.made.iter().map(|call| &*call.tool).collect();
    if after::tells_after(cast) {
        // What is told afterwards and what is handed in come by different ways.
        tools.sort_by_key(|tool| *tool == "submit");
    }
    assert_eq!(tools, ["write", "edit", "submit"]);
    let turns = match cast.grain() {
        Grain::Act => 3,
        Grain::Turn => 1,
    };
    assert_eq!((heard.total(TOKENS), heard.total(MONEY), heard.total(TURNS)), (30, 30, turns));
    assert!(ended.unknown.is_empty() && heard.text.contains("I write."), "{heard:?}");
}

/// It tries to write elsewhere, also through links, and nothing is written; it goes on.
pub fn is_denied_outside_its_allowance(cast: &dyn Cast) {
    if after::tells_after(cast) {
        return after::is_denied_outside_its_allowance(cast);
    }
    let scene = Scene::new(allowance(9));
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), scene.folder.path().join("src/link")).unwrap();
    let outside = elsewhere.path().join("x");
    let paths =
        ["other.txt", "../x.txt", "src/../other.txt", "src/link/x", outside.to_str().unwrap(), "src/.git/x"];
    let acts: Vec<Act> = paths.iter().map(|path| write(path)).chain([submit()]).collect();
    is_done(&scene.play(cast, &acts));
    let heard = scene.clerk.snapshot();
    assert_eq!((heard.denied.len(), heard.made.len()), (paths.len(), 1), "{heard:?}");
    assert_eq!(scene.text("other.txt"), None);
    assert!(std::fs::read_dir(elsewhere.path()).unwrap().next().is_none());
    assert!(!Path::new(&scene.folder.path().join("../x.txt")).exists());
}

/// Its calls are used up: it is denied more, and may still submit.
pub fn is_denied_when_its_calls_are_used_up(cast: &dyn Cast) {
    if after::tells_after(cast) {
        return after::is_denied_when_its_calls_are_used_up(cast);
    }
    let scene = Scene::new(allowance(1));
    is_done(&scene.play(cast, &[write("src/one"), write("src/two"), submit()]));
    assert_eq!((scene.text("src/one").is_some(), scene.text("src/two").is_some()), (true, false));
    assert_eq!(scene.clerk.snapshot().denied[0].1, "all 1 calls are used up: submit what you have");
}

/// It has spent its tokens: nothing that it wanted in the act that overspent is done, where acts are seen.
pub fn is_cut_off_at_the_budget(cast: &dyn Cast) {
    if after::tells_after(cast) {
        return after::is_cut_off_at_the_budget(cast);
    }
    let scene = Scene::new(allowance(9));
    scene.clerk.budget.store(100, Ordering::Relaxed);
    let acts = [write("src/one").using(Some(80)), write("src/two").using(Some(80)), submit()];
    let ended = scene.play(cast, &acts);
    let used = match cast.grain() {
        Grain::Act => 160,
        Grain::Turn => 170,
    };
    assert_eq!(ended.outcome, Err(AgentError::Stopped(format!("{used} tokens are more than 100"))));
    let is_seen_late = cast.grain() == Grain::Turn;
    assert_eq!((scene.text("src/one").is_some(), scene.text("src/two").is_some()), (true, is_seen_late));
    assert_eq!(scene.clerk.snapshot().total(TOKENS), used);
}

/// The session host ends it at a call.
pub fn is_stopped_by_the_desk(cast: &dyn Cast) {
    if after::tells_after(cast) {
        return after::is_stopped_by_the_desk(cast);
    }
    let scene = Scene::new(allowance(9));
    scene.clerk.stops.store(true, Ordering::Relaxed);
    let ended = scene.play(cast, &[write("src/one"), submit()]);
    assert_eq!(ended.outcome, Err(AgentError::Stopped("tools spent".into())));
    assert_eq!(scene.text("src/one"), None);
}

/// The engine cancels the session while it hangs: it ends at once, and long before it would by itself.
pub fn is_cancelled_in_the_middle(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let stage = cast.play(&[write("src/one"), Act::of(End::Hangs)]);
    let mut order = scene.order();
    order.limits.silence = Duration::from_secs(60);
    let words = [PromptPart::new(PartKind::Task, "Do it.")];
    let ended = std::thread::scope(|scope| {
        let backend = &*stage.backend;
        let host = host(&scene.clerk);
        let talking = scope.spawn(move || (converse(backend, order, &words, &host), Instant::now()));
        scene.clerk.wait_until(|heard| heard.made.len() == 1);
        scene.clerk.cancel();
        let cancelled = Instant::now();
        let (ended, at) = talking.join().unwrap();
        assert!(at.duration_since(cancelled) < Duration::from_secs(5));
        ended
    });
    assert_eq!(ended.outcome, Err(AgentError::Cancelled));
}

/// The engine has cancelled it before it began.
pub fn is_cancelled_before_it_began(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    scene.clerk.cancel();
    let ended = scene.play(cast, &[write("src/one"), submit()]);
    assert_eq!((ended.outcome, scene.text("src/one")), (Err(AgentError::Cancelled), None));
}

/// It says nothing any more.
pub fn hangs(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let ended = scene.play(cast, &[write("src/one"), Act::of(End::Hangs)]);
    assert!(matches!(&ended.outcome, Err(AgentError::TimedOut(why)) if why.contains("600ms")), "{ended:?}");
    assert_eq!(scene.text("src/one").as_deref(), Some("text"), "what it did before is there");
}

/// It dies in the middle of a turn.
pub fn dies(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let ended = scene.play(cast, &[Act::of(End::Dies)]);
    assert!(matches!(&ended.outcome, Err(AgentError::Died(_))), "{ended:?}");
}

/// It does not stop talking: it is ended, and what it said is bounded.
pub fn floods(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let ended = scene.play(cast, &[Act::of(End::Floods)]);
    assert!(matches!(&ended.outcome, Err(AgentError::Bad(_))), "{ended:?}");
    assert!(scene.clerk.snapshot().bytes <= 2 * MAX_TURN_BYTES);
}

/// It answers with what is no answer, and is told so a few times and no more.
pub fn answers_garbage(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let garbage = Act::of(End::Says("I am done, trust me.".into()));
    let ended = scene.play(cast, &vec![garbage; 9]);
    assert!(matches!(&ended.outcome, Err(AgentError::Bad(why)) if why.contains("no JSON")), "{ended:?}");
    assert_eq!(scene.clerk.snapshot().total(TURNS), u64::from(MAX_CORRECTIONS) + 1);
}

/// It asks a person.
pub fn asks_a_question(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let ended = scene.play(cast, &[Act::of(End::Asks("Which one?".into())), submit()]);
    assert_eq!(ended.outcome, Ok(AgentAnswer::Asked("Which one?".into())));
}

/// It calls a tool about which the session host asks a person.
pub fn is_asked_about_by_the_desk(cast: &dyn Cast) {
    if after::tells_after(cast) {
        return after::is_asked_about_by_the_desk(cast);
    }
    let asking = ToolAllowance { ask: [Name::from("write")].into(), ..allowance(9) };
    let scene = Scene::new(asking);
    let ended = scene.play(cast, &[write("src/one"), submit()]);
    assert_eq!(ended.outcome, Ok(AgentAnswer::Asked("May it call write on src/one?".into())));
    assert_eq!(scene.text("src/one"), None);
}

/// Its first answer does not fit its schema, the second does.
pub fn returns_a_schema_error_first(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let wrong = Act::of(End::Submits(json!({ "summary": 7 })));
    is_done(&scene.play(cast, &[wrong, submit()]));
    assert_eq!(scene.clerk.snapshot().total(TURNS), 2);
}

/// It says its answer in a block of JSON and does not submit.
pub fn says_json_instead_of_submitting(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let text = "Here it is:\n```json\n{\"summary\": \"done\"}\n```\n";
    is_done(&scene.play(cast, &[Act::of(End::Says(text.into()))]));
}

/// It does not report what it used: that is unknown, and not zero.
pub fn reports_no_tokens(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let ended = scene.play(cast, &[write("src/one"), submit().using(None)]);
    is_done(&ended);
    assert_eq!(ended.unknown, [Name::from(MONEY), Name::from(TOKENS)].into());
    let told = match cast.grain() {
        Grain::Act => 10,
        Grain::Turn => 0,
    };
    assert_eq!(scene.clerk.snapshot().total(TOKENS), told);
}

/// It reads a secret and speaks of it: the secret is hidden in every sink.
pub fn speaks_of_secrets(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    std::fs::write(scene.folder.path().join("src/key"), KEY).unwrap();
    let words = format!("The key is {KEY} you see. ");
    let read = Act::call("read", json!({ "path": "src/key" })).saying(&words);
    let ask = Act::call("read", json!({ "path": format!("src/{KEY}") }));
    let ended = scene.play(cast, &[read, ask, Act::of(End::Submits(json!({ "summary": words })))]);
    let heard = scene.clerk.snapshot();
    assert!(heard.text.contains("The key is [hidden] you see."), "{heard:?}");
    let all = format!("{:?} {} {}", ended.outcome, heard.text, heard.shown);
    assert!(all.contains("[hidden]") && !all.contains(KEY), "{all}");
}

/// It has nothing more to say and has not submitted.
pub fn goes_on_without_an_end(cast: &dyn Cast) {
    let scene = Scene::new(allowance(99));
    let ended = scene.play(cast, &vec![write("src/one"); 30]);
    assert!(matches!(&ended.outcome, Err(AgentError::Bad(_) | AgentError::Died(_))), "{ended:?}");
    assert!(scene.clerk.snapshot().made.len() <= 30);
}

/// It is to go on in a session that it does not know: it begins a new one, and works as ever.
pub fn is_given_a_session_that_it_does_not_know(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let stage = cast.play(&[submit()]);
    let order = SessionOrder { earlier: Some(String::from("nobody-knows-it")), ..scene.order() };
    let words = [PromptPart::new(PartKind::Task, "Do it.")];
    let ended = converse(&*stage.backend, order, &words, &host(&scene.clerk));
    assert_eq!(ended.outcome, Ok(AgentAnswer::Done(json!({ "summary": "done" }))), "{ended:?}");
    assert!(!scene.clerk.snapshot().opened.contains(&String::from("nobody-knows-it")));
}

/// What it says about itself is what the other cases prove.
pub fn enforces_what_it_says(cast: &dyn Cast) {
    if after::tells_after(cast) {
        return after::enforces_what_it_says(cast);
    }
    let stage = cast.play(&[submit()]);
    let enforced = stage.backend.enforces();
    assert_eq!(enforced.calls, Counted::Before);
    assert!(enforced.paths && enforced.tokens && enforced.money && enforced.cancel);
    assert!(!enforced.resume && !enforced.commands);
    assert_eq!(stage.backend.probe().usable, Ok(()));
}
