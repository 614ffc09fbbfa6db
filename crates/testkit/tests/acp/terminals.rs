//! Terminals that we serve: real commands, looked at, waited for, killed and bounded.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ftl_agents::acp::{MAX_TERMINALS, MAX_VARIABLES};
use ftl_agents::contract::{CommandFailure, CommandRunner, Ran};
use ftl_agents::contract::{SessionHost, SessionLimits, SessionOrder};
use ftl_agents::toolset::MAX_COMMAND_TIME;
use ftl_testkit::speakers::allowance;
use serde_json::{Value as Json, json};

use crate::cast::{Scene, acp, calls, is_done, player, submit};
use crate::faults::hurried;

/// A sign that commands may be run here; terminals go through the launcher.
#[derive(Debug)]
struct Sign;

impl CommandRunner for Sign {
    fn run(&self, _: &str, _: &Path, _: Duration, _: &dyn SessionHost) -> Result<Ran, CommandFailure> {
        Err(CommandFailure(String::from("a terminal is no shell")))
    }
}

fn order(scene: &Scene) -> SessionOrder {
    let limits = SessionLimits { silence: Duration::from_secs(20), ..scene.order().limits };
    SessionOrder { shell: Some(Arc::new(Sign)), limits, ..scene.order() }
}

/// What the player saw of its terminals, and how often it was refused.
fn play_calls(acts: Json) -> (String, usize, Scene) {
    let scene = Scene::new(allowance(99));
    let backend = acp(player(scene.props.path(), &json!({ "acts": [calls(acts), submit()] })));
    is_done(&scene.play_with(&backend, order(&scene)));
    let refused = scene.read_heard().iter().filter(|line| line["error"]["code"] == -32602).count();
    // Thoughts come in pieces, and as `Debug` shows them.
    let shown = scene.clerk.snapshot().shown.replace("\")\nThought(\"", "");
    (shown.replace("\\\"", "'").replace("\\\\", "\\"), refused, scene)
}

#[test]
fn a_command_is_run_with_both_its_streams() {
    let (shown, refused, scene) =
        play_calls(json!([["bash", { "command": "echo out; echo err >&2; exit 3" }]]));
    assert!(shown.contains("'exitCode':3") && shown.contains("'output':'out\\nerr\\n'"), "{shown}");
    assert_eq!((refused, scene.made()), (0, vec!["bash".to_owned(), "submit".to_owned()]));
}

#[test]
fn words_are_not_shell_and_the_folder_is_the_one_named() {
    let (shown, refused, _scene) = play_calls(json!([
        ["bash", { "command": "printf", "args": ["%s|", "a b", "$HOME", "c;d"] }],
        ["bash", { "command": "basename $(pwd)", "cwd": "src" }],
        ["bash", { "command": "pwd", "cwd": ".." }],
        ["bash", { "command": "" }],
    ]));
    assert!(shown.contains("a b|$HOME|c;d|") && shown.contains("'output':'src\\n'"), "{shown}");
    assert_eq!(refused, 2);
}

#[test]
fn a_command_gets_what_it_is_given_and_no_key() {
    let many: Vec<Json> =
        (0..=MAX_VARIABLES).map(|at| json!({ "name": format!("V{at}"), "value": "x" })).collect();
    let given = json!([{ "name": "GIVEN", "value": "yes" }, { "name": "", "value": "no" }, { "name": 7 }]);
    let (shown, _, _scene) = play_calls(json!([
        ["bash", { "command": "echo $GIVEN; env | wc -l", "env": given }],
        ["bash", { "command": "env | grep -c ^V", "env": many }],
    ]));
    assert!(shown.contains("'yes\\n"), "{shown}");
    assert!(shown.contains(&format!("'{MAX_VARIABLES}\\n'")), "{shown}");
}

#[test]
fn what_runs_is_seen_and_can_be_killed() {
    let (shown, refused, _scene) =
        play_calls(json!([["bash", { "command": "echo ready; sleep 60", "kill": true }]]));
    assert!(shown.contains("ready") && shown.contains("'exitCode':null"), "{shown}");
    assert_eq!(refused, 0);
}

#[test]
fn output_is_kept_from_its_end() {
    let command = "seq 1 100000; printf 'ä%.0s' 1 2 3";
    let (shown, _, _scene) = play_calls(json!([["bash", { "command": command, "outputByteLimit": 6 }]]));
    assert!(shown.contains("'output':'ää\\n'") && shown.contains("'truncated':true"), "{shown}");
}

#[test]
fn there_are_so_many_terminals() {
    let ask = json!(["trick ask", { "method": "terminal/create", "params": { "command": "sleep 60" } }]);
    let (_, refused, scene) = play_calls(json!(vec![ask; MAX_TERMINALS + 1]));
    assert_eq!(refused, 1);
    assert_eq!(scene.made().len(), MAX_TERMINALS + 2, "the one too many was ruled on too");
}

#[test]
fn a_command_has_its_time() {
    let scene = Scene::new(allowance(9));
    let script = json!({ "acts": [calls(json!([["bash", { "command": "sleep 60" }]])), submit()] });
    let backend = hurried(player(scene.props.path(), &script), 1000);
    let limits = SessionLimits {
        silence: MAX_COMMAND_TIME * 100,
        whole: MAX_COMMAND_TIME * 100,
        ..order(&scene).limits
    };
    is_done(&scene.play_with(&backend, SessionOrder { limits, ..order(&scene) }));
    assert!(scene.clerk.snapshot().shown.contains("ended"), "{}", scene.clerk.snapshot().shown);
}

#[test]
fn without_a_shell_there_is_no_terminal() {
    let scene = Scene::new(allowance(9));
    is_done(
        &scene.play(&json!({ "acts": [calls(json!([["bash", { "command": "touch src/x" }]])), submit()] })),
    );
    assert_eq!(scene.text("src/x"), None);
    let why = scene.read_heard().iter().find_map(|line| line["error"]["message"].as_str().map(str::to_owned));
    assert_eq!(why.as_deref(), Some("there is no shell here"));
}
