//! `ftl run`: how it ends, what it says, and what it refuses before it begins.

use crate::support::Dir;

pub(crate) const ASK: &str = "INPUT: objective\nLIMIT: rounds = 3 ELSE HOLD\n\
    STATE: START\n  PAY: rounds\n  EMIT: \"Working on {objective}\"\n  ASK: reply = \"Good?\" choices=yes|no\n  \
    IF: reply == \"yes\" → RETURN complete said={reply}\n  GOTO: START\n";

const ENDS: &str = "INPUT: how\nSTATE: START\n  IF: how == \"complete\" → RETURN complete\n  \
    IF: how == \"blocked\" → RETURN blocked reason=\"no way on\"\n  \
    IF: how == \"escalated\" → RETURN escalated reason=\"too hard\"\n  \
    IF: how == \"error\" → RETURN error reason=\"it broke\"\n  DO: sh \"exit 7\"\n  RETURN: complete\n";

#[test]
fn the_exit_code_tells_how_it_ended() {
    let dir = Dir::new();
    dir.protocol("ends", ENDS);
    for (how, code) in [("complete", 0), ("blocked", 3), ("escalated", 3), ("error", 1), ("held", 3)] {
        let input = format!("how={how}");
        dir.ftl(&["run", "ends", &input]).code(code).says(&[&format!(" {how} in START")]);
        let json = dir.ftl(&["run", "ends", &input, "--json"]).code(code).json();
        assert_eq!((&json["standing"], &json["interrupted"]), (&how.into(), &false.into()));
    }
    dir.ftl(&["run", "ends", "how=blocked"]).says(&["blocked in START: no way on"]);
    dir.ftl(&["run", "ends", "how=held"]).says(&["held: exit code 7", "hint: `ftl why "]);
}

#[test]
fn a_run_that_waits_for_a_person_says_what_to_type() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let ended = dir.ftl(&["run", "ask", "objective=fix it"]).code(3);
    let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    assert!(ended.out.starts_with(&format!("run {run} of ask fix it\n")), "{}", ended.out);
    let ended = ended.says(&["Working on fix it", "waiting in START"]);
    assert!(ended.out.ends_with(&format!("hint: `ftl answer {run} VALUE` answers: Good? [yes|no]\n")));
    assert_eq!(ended.err, "");
}

#[test]
fn the_document_of_a_run_has_every_field() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, json) = dir.run(&["ask", "objective=fix it"]);
    assert_eq!((&json["protocol"], &json["title"]), (&"ask".into(), &"fix it".into()));
    assert_eq!((&json["state"], &json["standing"]), (&"START".into(), &"waiting".into()));
    let rounds = serde_json::json!({ "used": 1, "limit": 3, "reserved": 0, "unknown": 0 });
    assert_eq!(json["meters"]["rounds"], rounds);
    let wait = &json["waits"][0];
    assert_eq!((&wait["what"], &wait["text"]), (&"question".into(), &"Good? [yes|no]".into()));
    assert_eq!((&wait["instance"], &wait["state"]), (&0.into(), &"START".into()));
    assert!(wait["action"].is_string() && wait["until"].is_null() && json["reason"].is_null());
    assert_eq!(json["instances"], serde_json::json!([1, 0]));
    // What status says of it is the same, and more.
    let shown = dir.status(&run);
    for field in ["protocol", "title", "state", "standing", "meters", "waits", "instances", "entry", "reason"]
    {
        assert_eq!(shown[field], json[field], "{field}");
    }
    assert!(shown["owner"].is_null() && shown["epoch"].is_u64());
    assert!(shown["opened"].as_str().unwrap().ends_with('Z') && shown["changed"].is_string());
}

#[test]
fn inputs_are_text_or_json() {
    let dir = Dir::new();
    dir.protocol("echo", "INPUT: value\nSTATE: START\n  RETURN: complete value={value}\n");
    let back = |given: &str| {
        let (run, _) = dir.run(&["echo", &format!("value={given}")]);
        let settled = dir.entries(&run).pop().unwrap();
        settled["values"]["value"].clone()
    };
    assert_eq!(back("plain words"), "plain words");
    assert_eq!(back("a=b"), "a=b");
    assert_eq!(back("[1,\"two\"]"), serde_json::json!([1, "two"]));
    assert_eq!(back("true"), true);
    assert_eq!(back("\"true\""), "true");
    dir.ftl(&["run", "echo", "value={oops"]).code(2).says(&["error: the value is no JSON", "hint:"]);
}

#[test]
fn what_cannot_be_opened_leaves_nothing_behind() {
    let dir = Dir::new();
    dir.protocol("ask", ASK)
        .protocol("unsound", "STATE: A\n  GOTO: A\n")
        .write("bad.toml", "[[answer]]\nto = \"sh\"\n");
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        dir.ftl(args).code(code).says(words).says(&["error: ", "hint: "]);
        assert!(!dir.path(".ftl/store").exists(), "{args:?} made a store");
    };
    refused(&["run", "asc"], 1, &["there is no protocol `asc`", "did you mean `ask`?"]);
    refused(&["run", "unsound"], 1, &["`unsound` is not sound", "`ftl check unsound`"]);
    refused(&["run", "ask"], 2, &["must be given `objective`", "ftl run ask objective=…"]);
    refused(&["run", "ask", "objective=x", "other=y"], 2, &["has no input `other`"]);
    refused(&["run", "ask", "objective"], 2, &["`objective` is no input", "name=value"]);
    refused(&["run", "ask", "objective=x", "objective=y"], 2, &["`objective` is given twice"]);
    refused(&["run", "ask", "objective=x", "--script", "nope.toml"], 1, &["`nope.toml`"]);
    refused(
        &["run", "ask", "objective=x", "--script", "bad.toml"],
        1,
        &["answer 1 (to sh): it says nothing"],
    );
    let json = dir.ftl(&["run", "asc", "--json"]).code(1).json();
    assert_eq!(json["ok"], false);
    assert!(json["error"]["hint"].as_str().unwrap().contains("`ask`"));
}

#[test]
fn an_action_that_nobody_carries_out_holds_the_run() {
    let dir = Dir::new();
    dir.protocol("check-it", "STATE: START\n  DO: eval.run\n  RETURN: complete\n");
    dir.ftl(&["run", "check-it"]).code(3).says(&["belongs to no task"]);
}

#[test]
fn a_run_is_where_repo_says() {
    let dir = Dir::new();
    dir.write("other/.ftl/protocols/ask.md", format!("```protocol\nPROTOCOL: ask\n{ASK}```\n"));
    dir.ftl(&["--repo", "other", "run", "ask", "objective=x"]).code(3);
    assert!(dir.path("other/.ftl/store").exists() && !dir.path(".ftl").exists());
}
