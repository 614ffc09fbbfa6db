//! Authors that go on in their earlier session: over ACP, with an agent that is a program of its own.

use std::fs;
use std::process::Command;

use ftl_needs::needs;
use rustix::process::Signal;

use crate::support::{Dir, until};

/// An agent that remembers sessions as files, writes down what it is asked, and answers every prompt with
/// an answer that fits coders and planners. While there is a gate it waits at it, for ever.
const AGENT: &str = r#"
import json, os, sys
root = sys.argv[1]
def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
def note(text):
    with open(os.path.join(root, "asked.txt"), "a") as file:
        file.write(text + "\n")
for line in sys.stdin:
    heard = json.loads(line)
    method, params, number = heard.get("method"), heard.get("params") or {}, heard.get("id")
    session = params.get("sessionId")
    result = {}
    if method == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    elif method == "session/new":
        session = "s%d" % (1 + len([name for name in os.listdir(root) if name.startswith("session-")]))
        open(os.path.join(root, "session-" + session), "w").close()
        note("new " + session)
        result = {"sessionId": session}
    elif method == "session/load" and not os.path.exists(os.path.join(root, "session-" + session)):
        note("lost " + session)
        say({"jsonrpc": "2.0", "id": number, "error": {"code": -32002, "message": "no such session"}})
        continue
    elif method == "session/load":
        note("load " + session)
    elif method == "session/prompt":
        note("prompt " + session)
        gate = os.path.join(root, "gate")
        if os.path.exists(gate):
            open(gate).read()
        text = json.dumps({"summary": "done", "reviewers": [], "text": "a plan"})
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        say({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
        result = {"stopReason": "end_turn"}
    if number is not None and method is not None:
        say({"jsonrpc": "2.0", "id": number, "result": result})
"#;

const TWICE: &str = "STATE: START\n  DO: one = Task(coder) feedback=\"begin\"\n  DO: two = Task(coder) feedback=\"mend it\"\n  \
    DO: seen = Task(reviewers) of=plan feedback=\"look\"\n  DO: again = Task(reviewers) of=plan feedback=\"look again\"\n  \
    DO: three = Task(coder) feedback=\"once more\"\n  RETURN: complete\n";

/// A folder with that agent in all roles.
fn stage(resume: &str) -> Dir {
    let dir = Dir::new();
    let settings = format!(
        "[agents.old]\nkind = \"acp\"\nprogram = \"python3\"\nargs = [\"{}\", \"{}\"]\naccept = [\"calls\", \"paths\"]\n{resume}\n\
         [roles]\ndefault = \"old\"\n",
        dir.path("agent.py").display(),
        dir.path("").display(),
    );
    dir.write("agent.py", AGENT).write("ftl.toml", settings).protocol("twice", TWICE);
    dir
}

fn list_requests(dir: &Dir) -> Vec<String> {
    fs::read_to_string(dir.path("asked.txt")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[needs(python3)]
#[test]
fn an_author_that_is_told_what_is_wrong_goes_on_and_a_reviewer_is_always_fresh() {
    let dir = stage("resume = true");
    let (run, json) = dir.run(&["twice"]);
    assert_eq!(json["standing"], "complete", "{json:#}\n{:#?}", dir.entries(&run).pop());
    let wanted =
        "new s1, prompt s1, load s1, prompt s1, new s2, prompt s2, new s3, prompt s3, load s1, prompt s1";
    assert_eq!(list_requests(&dir).join(", "), wanted);
    // Another run is another author.
    fs::remove_file(dir.path("asked.txt")).unwrap();
    dir.run(&["twice"]);
    assert_eq!(list_requests(&dir)[..2], ["new s4", "prompt s4"]);
}

#[needs(python3)]
#[test]
fn without_the_setting_every_session_is_new() {
    let dir = stage("");
    let (_, json) = dir.run(&["twice"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    assert_eq!(list_requests(&dir).iter().filter(|line| line.starts_with("new ")).count(), 5);
    assert!(!list_requests(&dir).iter().any(|line| line.starts_with("load ")));
    // Who cannot go on is not told to.
    dir.write("ftl.toml", "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\nresume = true\n");
    dir.ftl(&["agents"]).code(1).says(&["resume", "nobody knows this key"]);
}

#[needs(python3)]
#[test]
fn after_a_crash_the_session_is_taken_up_and_one_that_is_gone_is_begun_anew() {
    let dir = stage("resume = true");
    assert!(Command::new("mkfifo").arg(dir.path("gate")).status().unwrap().success());
    for (count, wanted) in [(1, "load s1, prompt s1"), (2, "lost s1, new s1, prompt s1")] {
        let _ = fs::remove_file(dir.path("asked.txt"));
        let driving = dir.start(&["run", "twice"]);
        until("the agent waits", || list_requests(&dir).iter().any(|line| line.starts_with("prompt ")));
        driving.signal(Signal::KILL);
        driving.ended().code(-9);
        let before = list_requests(&dir).len();
        if count == 2 {
            // The agent has forgotten.
            for entry in fs::read_dir(dir.path("")).unwrap() {
                let path = entry.unwrap().path();
                if path.file_name().unwrap().to_string_lossy().starts_with("session-") {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        fs::remove_file(dir.path("gate")).unwrap();
        dir.ftl(&["resume"]).code(0);
        let after = list_requests(&dir)[before..].join(", ");
        let session = list_requests(&dir)[0].replace("new ", "");
        let wanted = wanted.replace("lost s1", &format!("lost {session}"));
        let wanted = if count == 1 { wanted.replace("s1", &session) } else { wanted };
        assert!(after.starts_with(&wanted), "{after}");
        assert!(Command::new("mkfifo").arg(dir.path("gate")).status().unwrap().success());
    }
}
