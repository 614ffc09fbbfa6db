//! Sessions that go on: taken up where the agent offers it and knows the session, begun anew everywhere else.

use ftl_agents::acp::{Acp, AcpAgent, Habits, Loads};
use ftl_agents::contract::{MONEY, SessionOrder};
use ftl_testkit::speakers::allowance;
use serde_json::{Value as Json, json};

use crate::cast::{Scene, acp, is_done, player, submit};

/// What the player was asked before its prompt, as `method session`.
fn list_requests(scene: &Scene) -> Vec<String> {
    let word = |heard: &Json| {
        let (method, session) = (heard["method"].as_str()?, heard["params"]["sessionId"].as_str());
        session.map_or_else(|| Some(method.to_owned()), |session| Some(format!("{method} {session}")))
    };
    scene.read_heard().iter().filter_map(word).collect()
}

fn play(script: Json, earlier: Option<&str>) -> Scene {
    let scene = Scene::new(allowance(9));
    let order = SessionOrder { earlier: earlier.map(str::to_owned), ..scene.order() };
    is_done(&scene.play_with(&acp(player(scene.props.path(), &script)), order));
    scene
}

#[test]
fn a_session_that_the_agent_knows_is_taken_up() {
    let scene = play(json!({ "loads": ["s1"], "acts": [submit()] }), Some("s1"));
    assert_eq!(list_requests(&scene), ["initialize", "session/load s1", "session/prompt s1"]);
    let heard = scene.clerk.snapshot();
    assert_eq!(heard.opened, ["s1"]);
    // What it tells of the past was ruled on, shown and paid when it happened.
    assert_eq!((scene.made(), heard.text.as_str(), heard.denied.len()), (vec!["submit".to_owned()], "", 0));
    assert!(heard.total(MONEY) < 7_000_000, "{heard:?}");
    // It is told everything again, and finds the tools of its state.
    let prompt = scene.read_heard().into_iter().find(|heard| heard["method"] == "session/prompt").unwrap();
    let text = prompt["params"]["prompt"].to_string();
    assert!(text.contains("You write code.") && text.contains("Do it."), "{text}");
}

#[test]
fn a_session_that_it_does_not_know_any_more_is_begun_anew() {
    let scene = play(json!({ "loads": ["s7"], "acts": [submit()] }), Some("s6"));
    assert_eq!(list_requests(&scene), ["initialize", "session/load s6", "session/new", "session/prompt s1"]);
    assert_eq!(scene.clerk.snapshot().opened, ["s1"], "the new one can be taken up next time");
}

#[test]
fn an_agent_that_does_not_offer_it_is_not_asked() {
    let scene = play(json!({ "acts": [submit()] }), Some("s1"));
    assert_eq!(list_requests(&scene), ["initialize", "session/new", "session/prompt s1"]);
    assert!(scene.clerk.snapshot().opened.is_empty(), "nobody is told of what cannot be taken up");
    // Nor is one that is known not to do what it offers.
    let scene = Scene::new(allowance(9));
    let agent = player(scene.props.path(), &json!({ "loads": ["s1"], "acts": [submit()] }));
    let habits = Habits { loads: Loads::No, ..agent.habits.clone() };
    let order = SessionOrder { earlier: Some("s1".into()), ..scene.order() };
    is_done(&scene.play_with(&acp(AcpAgent { habits, ..agent }), order));
    assert_eq!(list_requests(&scene), ["initialize", "session/new", "session/prompt s1"]);
    assert!(scene.clerk.snapshot().opened.is_empty());
    // Nor is one that has nothing to go on in.
    let scene = play(json!({ "loads": ["s1"], "acts": [submit()] }), None);
    assert_eq!(list_requests(&scene), ["initialize", "session/new", "session/prompt s1"]);
}

#[test]
fn the_mode_is_set_in_a_session_that_is_taken_up() {
    let scene = Scene::new(allowance(9));
    let agent = player(scene.props.path(), &json!({ "loads": ["s1"], "acts": [submit()] }));
    let habits = Habits { mode: Some("careful".into()), ..agent.habits.clone() };
    let order = SessionOrder { earlier: Some("s1".into()), ..scene.order() };
    let backend: Acp = acp(AcpAgent { habits, ..agent });
    is_done(&scene.play_with(&backend, order));
    assert_eq!(list_requests(&scene)[1..3], ["session/load s1", "session/set_mode s1"]);
}
