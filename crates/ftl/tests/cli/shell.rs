//! `sh`: whatever a command prints and however it ends, the run survives it and says so.

use serde_json::Value as Json;

use crate::support::Dir;

/// A protocol that runs one script, and what was heard of it.
fn run_script(script: &str, args: &str) -> Json {
    let dir = Dir::new();
    let text = format!(
        "STATE: START\n  DO: out = sh \"{script}\"{args} ELSE FAILED\n  RETURN: complete\n\
         STATE: FAILED with reason\n  RETURN: blocked reason={{reason}}\n"
    );
    dir.protocol("one", &text);
    let (run, _) = dir.run(&["one"]);
    dir.ftl(&["log", &run]).code(0);
    dir.ftl(&["audit", "verify"]).code(0);
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
    dir.entries(&run).into_iter().find(|entry| entry["fact"] == "heard").unwrap()["answer"].clone()
}

#[test]
fn a_command_answers_with_what_it_printed() {
    let answer = &run_script("echo out; echo err >&2", "")["done"];
    assert_eq!(
        (&answer["code"], &answer["stdout"], &answer["stderr"]),
        (&0.into(), &"out\n".into(), &"err\n".into())
    );
}

#[test]
fn an_exit_code_is_a_failure_with_the_last_words() {
    let answer = &run_script("echo first; echo the reason >&2; exit 9", "")["failed"];
    assert_eq!((&answer["kind"], &answer["message"]), (&"failed".into(), &"exit code 9: the reason".into()));
}

#[test]
fn a_timeout_is_a_failure_of_its_own_kind() {
    let answer = &run_script("sleep 300", " timeout=0.3")["failed"];
    assert_eq!(answer["kind"], "timeout");
    assert!(answer["message"].as_str().unwrap().contains("300 ms"), "{answer}");
}

#[test]
fn a_huge_output_is_cut_and_kept() {
    let answer = &run_script("head -c 3000000 /dev/zero | tr '\\\\0' x; echo end", "")["done"];
    let shown = answer["stdout"].as_str().unwrap();
    assert!(shown.starts_with("xxx") && shown.ends_with("end\n"), "{}", &shown[shown.len() - 80..]);
    assert!(shown.len() < 200_000, "{}", shown.len());
    assert_eq!(answer["whole_stdout"].as_str().map(str::len), Some(64), "a digest");
}

#[test]
fn bytes_that_are_no_text_are_survived() {
    let answer = &run_script("printf 'a\\\\377\\\\000b\\\\033[31m'", "")["done"];
    let shown = answer["stdout"].as_str().unwrap();
    assert!(shown.starts_with('a') && shown.contains('b') && !shown.contains('\0'), "{shown:?}");
}

#[test]
fn what_a_command_prints_cannot_speak_to_the_terminal() {
    let dir = Dir::new();
    let text = "STATE: START\n  DO: out = sh \"printf '\\\\033]0;owned\\\\007\\\\033[2J'\"\n  EMIT: \"{out.stdout}\"\n  \
        DO: sh \"printf '\\\\033[31mbad\\\\033[0m' >&2; exit 1\"\n  RETURN: complete\n";
    dir.protocol("evil", text);
    let ended = dir.ftl(&["run", "evil", "--color", "never"]).code(3);
    let (run, _) = dir.run(&["evil"]);
    let views = [dir.ftl(&["log", &run]), dir.ftl(&["status"]), dir.ftl(&["why", &run]), ended];
    for view in views {
        assert!(!view.out.contains('\u{1b}') && !view.out.contains('\u{7}'), "{:?}", view.out);
    }
}

#[test]
fn values_are_arguments_and_no_code() {
    let dir = Dir::new();
    dir.protocol("echo", "INPUT: value\nSTATE: START\n  DO: out = sh \"printf %s {value}\"\n  RETURN: complete out={out.stdout}\n");
    for value in ["; touch owned", "$(touch owned)", "`touch owned`", "\" ; touch owned ; \"", "a b\tc\nd"] {
        let (run, _) = dir.run(&["echo", &format!("value={}", serde_json::to_string(value).unwrap())]);
        assert_eq!(dir.entries(&run).pop().unwrap()["values"]["out"], value);
    }
    assert!(!dir.path("owned").exists());
}

#[test]
fn no_secret_of_ours_reaches_a_command() {
    let dir = Dir::new();
    dir.protocol("env", "STATE: START\n  DO: out = sh \"env\"\n  RETURN: complete out={out.stdout}\n");
    let mut command = dir.command(&["run", "env", "--json"]);
    command.env("SECRET_TOKEN", "hunter2");
    let json = crate::support::ended(command).code(0).json();
    let settled = dir.entries(json["run"].as_str().unwrap()).pop().unwrap();
    let seen = settled["values"]["out"].as_str().unwrap();
    assert!(seen.contains("PATH=") && !seen.contains("hunter2"), "{seen}");
}

#[test]
fn the_line_of_an_answer_has_no_new_line() {
    let dir = Dir::new();
    dir.protocol(
        "tag",
        "STATE: A\n  DO: out = sh \"echo '  v0.1.1 '; echo more\"\n  DO: again = sh \"echo [{out.line}]\"\n  \
         RETURN: complete line={again.line} empty={out.stderr}\n",
    );
    let (run, json) = dir.run(&["tag"]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    let ended = dir.entries(&run).pop().unwrap();
    assert!(ended.to_string().contains("[v0.1.1]"), "{ended:#}");
}
