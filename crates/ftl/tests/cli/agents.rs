//! What a person may say, an agent may not: not from its process tree, however it hides.

use crate::runs::ASK;
use crate::support::Dir;

/// Every order that is a person's, and a run of its own, said by a child of an agent; the exit codes are its answer.
const EVERY: &str = "$F answer $R yes --by M; echo $?; $F override $R START --reason x --by M; echo $?; \
    $F raise $R rounds 9 --reason x --by M; echo $?; $F stop $R --by M; echo $?; $F resume $R --by M; echo $?; $F run ask objective=x; echo $?; \
    $F undo --by M; echo $?; $F salvage $R; echo $?";

/// Runs a script inside `sh` of a run, beside a run that waits; what it printed, and the waiting run.
fn from_inside(script: &str) {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let text = format!(
        "INPUT: ftl\nINPUT: run\nSTATE: START\n  DO: out = sh \"F={{ftl}}; R={{run}}; export F R; {script}\" timeout=120\n  \
         RETURN: complete out={{out.stdout}} err={{out.stderr}}\n"
    );
    dir.protocol("agent", &text);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let before = dir.status(&run);
    let program = format!("ftl={}", env!("CARGO_BIN_EXE_ftl"));
    let (agent, json) = dir.run(&["agent", &program, &format!("run={run}")]);
    assert_eq!(json["standing"], "complete", "{json:#}");
    let said = dir.entries(&agent).pop().unwrap()["values"].clone();
    assert_eq!(said["out"], "4\n".repeat(8), "{said:#}");
    assert!(said["err"].as_str().unwrap().contains("inside an agent's process tree"), "{said:#}");
    assert_eq!(dir.status(&run), before, "nothing has changed");
}

#[test]
fn from_the_agents_own_shell() {
    from_inside(EVERY);
}

#[test]
fn from_a_session_of_its_own() {
    from_inside(&format!("setsid -w sh -c '{EVERY}'"));
}

#[test]
fn with_a_clean_environment() {
    from_inside(&format!("env -i F=$F R=$R PATH=$PATH setsid -w sh -c '{EVERY}'"));
}

#[test]
fn from_an_orphan() {
    // Its parent is gone, its session is its own, its environment is clean.
    let orphan =
        format!("env -i F=$F R=$R PATH=$PATH setsid sh -c '({EVERY}) > said 2> wrong; mv said done'");
    from_inside(&format!("({orphan} &) ; until [ -e done ]; do sleep 0.05; done; cat done; cat wrong >&2"));
}

#[test]
fn looking_is_allowed() {
    let dir = Dir::new();
    let text = "INPUT: ftl\nSTATE: START\n  DO: out = sh \"{ftl} status --json; {ftl} doctor\"\n  RETURN: complete\n";
    dir.protocol("look", text);
    let (_, json) = dir.run(&["look", &format!("ftl={}", env!("CARGO_BIN_EXE_ftl"))]);
    assert_eq!(json["standing"], "complete", "{json:#}");
}
