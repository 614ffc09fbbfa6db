//! A key is nowhere: whoever prints it, it stands in no byte of the state, and on no screen.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{CommandOutcome, Dir, ended};

/// A key out of a variable, one out of a file, and one that only looks like one.
const NAMED: &str = "Zq7-variable-Tz91";
const FILED: &str = "Xw4+file/Yk28";
const LIKELY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123";

const SETTINGS: &str = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n\
    [agents.one]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nkey = \"MY_KEY\"\n\
    [agents.two]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nkey_file = \"filed.txt\"\n\
    [roles]\nbuilder = \"play\"\ncoder = \"play\"\n[worktree]\nsetup = \"PRINTS 1>&2\"\n";

/// A folder whose commands know a variable that holds a key, and everything that they have said.
struct Stage {
    dir: Dir,
    said: RefCell<String>,
}

impl Stage {
    fn new() -> Stage {
        let dir = Dir::repository();
        let root = dir.path("").display().to_string();
        // Commands have no variable of ours: they find the keys in files.
        let prints = format!("cat '{root}/filed.txt' '{root}/named.txt' '{root}/likely.txt'");
        dir.write(".gitignore", "*.txt\n*.toml\n*.json\n").write("greet.md", "good day\n");
        dir.git(&["add", "-A"]);
        dir.git(&["commit", "-qm", "begin"]);
        dir.write("filed.txt", format!("{FILED}\n")).write("named.txt", format!("{NAMED}\n"));
        dir.write("likely.txt", format!("{LIKELY}\n")).write("ftl.toml", SETTINGS.replace("PRINTS", &prints));
        dir.write("prints.sh.txt", &prints);
        Stage { dir, said: RefCell::default() }
    }

    /// The command that prints all keys.
    fn prints(&self) -> String {
        format!("sh '{}'", self.dir.path("prints.sh.txt").display())
    }

    fn ftl(&self, args: &[&str]) -> CommandOutcome {
        let mut command = self.dir.command(args);
        command.env("MY_KEY", NAMED);
        let ended = ended(command);
        self.said.borrow_mut().push_str(&format!("{args:?}\n{}{}", ended.out, ended.err));
        ended
    }

    /// Asserts that no key is in any byte of the state, nor in anything that was said.
    fn assert_clean(&self) {
        let mut found = Vec::new();
        let mut files = 0;
        every_file(&self.dir.path(".ftl"), &mut |path| {
            files += 1;
            let bytes = fs::read(path).unwrap_or_default();
            found.extend(key_in(&bytes).map(|key| format!("{key} in {}", path.display())));
        });
        assert!(files > 3, "there is a state to look at");
        assert_eq!(found, Vec::<String>::new());
        let said = self.said.borrow();
        // What was typed is what the test itself wrote down.
        let shown: String = said.lines().filter(|line| !line.starts_with('[')).collect();
        assert_eq!(key_in(shown.as_bytes()), None, "{said}");
    }
}

fn key_in(bytes: &[u8]) -> Option<&'static str> {
    let has = |key: &str| bytes.windows(key.len()).any(|part| part == key.as_bytes());
    [NAMED, FILED, LIKELY].into_iter().find(|key| has(key))
}

fn every_file(folder: &Path, look: &mut dyn FnMut(&PathBuf)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() { every_file(&path, look) } else { look(&path) }
    }
}

/// Looks at a run in every way that shows something.
fn look_around(stage: &Stage, run: &str) {
    for args in
        [&["log", run][..], &["log", run, "--json"], &["status", "--json"], &["why", run], &["agents"]]
    {
        stage.ftl(args).code(0);
    }
    stage.ftl(&["agents", "record", run]);
    stage.ftl(&["doctor", "--deep"]);
}

#[test]
fn what_a_step_prints_hides_keys_in_short_and_in_long() {
    let stage = Stage::new();
    let prints = stage.prints();
    // Short, long enough for the store, and cut in the middle of a key, at the end of what is at hand.
    let pad = |bytes: usize| format!("head -c {bytes} /dev/zero | tr '\\\\\\\\0' 'x'");
    let long = format!("{}; {prints}; {}", pad(100_000), pad(100_000));
    let cut = format!("{}; {prints}; {}", pad(32 * 1024 - 7), pad(200_000));
    for (name, script) in [("short", &prints), ("long", &long), ("cut", &cut)] {
        let text = format!(
            "STATE: START\n  DO: out = sh \"{script}; ({script}) >&2\"\n  \
             DO: bad = sh \"{prints} >&2; exit 3\" ELSE END with text={{out.stdout}}\n  RETURN: error reason=\"no\"\n\
             STATE: END with text, reason\n  EMIT: \"{{text}}\"\n  RETURN: complete text={{text}} why={{reason}}\n"
        );
        stage.dir.protocol(name, &text);
        let json = stage.ftl(&["run", name, "--json"]).code(0).json();
        let run = json["run"].as_str().unwrap().to_owned();
        look_around(&stage, &run);
        let all = stage.dir.ftl(&["log", &run, "--json"]).code(0).out;
        assert!(all.contains("[hidden]"), "{name}: {json:#}");
        stage.assert_clean();
    }
}

/// A builder that says a key, submits one and has a command print all.
fn script(prints: &str) -> String {
    let prints = json!(prints);
    format!(
        "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsay = \"with {NAMED}\"\n\
         submit = {{ approach = \"use {FILED} and {LIKELY}\" }}\n\
         [[scene]]\nrole = \"builder\"\nform = \"implement\"\n[[scene.step]]\nsay = \"I print {FILED}.\"\n\
         calls = [{{ tool = \"bash\", command = {prints} }}, {{ tool = \"write\", path = \"greet.md\", content = \"hello\\n\" }}]\n\
         [[scene.step]]\nsubmit = {{ summary = \"{NAMED} {FILED}\", utilized = [] }}\n\
         [[scene]]\nrole = \"coder\"\n[[scene.step]]\nask = \"is it {NAMED}?\"\n"
    )
}

#[test]
fn what_verifies_and_agents_print_hides_keys() {
    let stage = Stage::new();
    let prints = stage.prints();
    for (number, verify) in
        [format!("{prints}; {prints} >&2; false"), format!("{prints}; grep -q hello greet.md")]
            .into_iter()
            .enumerate()
    {
        let task = json!({ "seq": "001", "slug": "greet", "delta": ["greet.md"], "verify": verify, "budget": 6, "depends": "none" });
        let plan = json!({ "objective": "greet people", "tasks": [task] });
        stage.dir.write("plan.json", plan.to_string()).write("play.toml", script(&prints));
        let _ = fs::remove_dir_all(stage.dir.path(".ftl/workspace"));
        stage.ftl(&["campaign", "create", &format!("greet people {number}")]).code(0);
        stage.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
        let brief = "workspace=.ftl/workspace/001_greet_active.xml";
        let ended = stage.ftl(&["run", "builder", brief, "mode=full", "budget=6", "--talk"]);
        assert_eq!(ended.code, if number == 0 { 3 } else { 0 }, "{ended:#?}");
        assert!(ended.err.contains("[hidden]"), "what agents say is shown: {ended:#?}");
        let runs = stage.ftl(&["status", "--all", "--json"]).code(0).json();
        let run = runs["runs"][0]["run"].as_str().unwrap().to_owned();
        look_around(&stage, &run);
        stage.ftl(&["observe", "--json"]);
        stage.ftl(&["observer", "verify-blocks"]);
        stage.ftl(&["query", "greet people", "--json"]);
        stage.ftl(&["salvage", "--json"]);
        stage.assert_clean();
    }
}

#[test]
fn what_people_type_hides_keys() {
    let stage = Stage::new();
    stage.dir.write("play.toml", script("true"));
    let text = "INPUT: word\nSTATE: START\n  ASK: answer = \"What?\"\n  DO: work = Task(coder) feedback=\"{answer}\"\n  \
        RETURN: complete text={answer} word={word}\n";
    stage.dir.protocol("asks", text);
    let json = stage.ftl(&["run", "asks", &format!("word=it is {NAMED}"), "--json"]).code(3).json();
    let run = json["run"].as_str().unwrap().to_owned();
    stage.ftl(&["answer", &run, &format!("take {FILED} or {LIKELY}")]).code(0);
    // The agent asks back, and is answered with a key.
    stage.ftl(&["why", &run]).code(0);
    stage.ftl(&["answer", &run, &format!("no, {NAMED}")]);
    stage.ftl(&["raise", &run, "tokens", "9M", "--reason", FILED]);
    stage.ftl(&["stop", &run, "--reason", NAMED]).code(0);
    look_around(&stage, &run);
    stage.assert_clean();
}
