//! Streams of real programs, recorded once, played back as they were and mutated by dice.
//!
//! Played back they come to what really happened; mutated they come to anything but a panic or a hang.
//! `FTL_FUZZ_CASES` is how many mutations of each are tried, `FTL_SEED` another draw.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ftl_agents::cli::Adapter;
use ftl_agents::contract::{Backend as _, PartKind, PromptPart, TOKENS, TurnRest};
use ftl_agents::error::AgentError;
use ftl_agents::launch::{
    AgentProgram, InputChannel, InputError, Launched, Launcher, ProgramExit, Tree, hearing,
};
use ftl_testkit::dice::Dice;
use ftl_testkit::speakers::{Heard, RecordingHost, allowance, host, order};
use serde_json::{Value as Json, json};

use super::stage::backend;

/// Plays a stream back, whatever is said to it, and keeps what was said.
#[derive(Debug)]
struct Replay {
    bytes: Vec<u8>,
    told: Arc<Mutex<Vec<u8>>>,
}

struct Kept(Arc<Mutex<Vec<u8>>>);

impl InputChannel for Kept {
    fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn close(&self) {}
}

struct Nothing;

impl Tree for Nothing {
    fn end(self: Box<Self>) {}
}

impl Launcher for Replay {
    fn launch(&self, _: &AgentProgram) -> Result<Launched, AgentError> {
        let (mut telling, output) = hearing();
        let fine = telling.tell(&self.bytes);
        let how =
            fine.err().map_or_else(|| String::from("it ended with exit code 0"), |error| error.to_string());
        telling.on_exit(ProgramExit { code: Some(0), how, ..ProgramExit::default() });
        Ok(Launched { input: Arc::new(Kept(self.told.clone())), output, tree: Box::new(Nothing) })
    }
}

fn recorded() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/cli");
    let mut all: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

/// One turn of a stream in a folder with a file; what came of it, what was heard, what was said back.
fn play(name: &str, bytes: &dyn Fn(&str) -> Vec<u8>) -> (Result<TurnRest, AgentError>, Heard, String) {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir_all(work.join("src")).unwrap();
    let told = Arc::new(Mutex::default());
    let replay = Replay { bytes: bytes(work.to_str().unwrap()), told: told.clone() };
    let adapter = name.split('-').next().unwrap();
    let cli = backend(Adapter::built_in(adapter).unwrap(), Path::new("/bin/true"), folder.path(), &[]);
    let clerk = Arc::new(RecordingHost::new(&allowance(50)));
    let mut order = order(&work, &allowance(50));
    order.launcher = Some(Arc::new(replay));
    let mut session = cli.open(order, host(&clerk)).unwrap_or_else(|trouble| panic!("{trouble}"));
    let rest = session.turn(&[PromptPart::new(PartKind::Task, "Do it.")]);
    session.close();
    let told = String::from_utf8(told.lock().unwrap().clone()).unwrap();
    (rest, clerk.snapshot(), told)
}

/// What really happened, one line a recording: the end, what was made, what was denied.
const TABLE: &str = "
    claude-denied      | said Denied then.   |                     | write other.txt
    claude-edit        | said Done.          | write src/a.txt, read src/a.txt |
    claude-says        | said {\"summary\": 1} |                   |
    claude-wrong-key   | could not run 401   |                     |
    codex-cut-off      | died                |                     |
    codex-denied       | said Denied then.   |                     | edit other.txt
    codex-edit         | said Done.          | edit src/a.txt, read src/a.txt |
    codex-two-turns    | said {\"summary\": 1} |                   |
    codex-wrong-key    | could not run 401   |                     |
    goose-edit         | said Done.          | write src/a.txt, read src/a.txt |
    goose-outside      | stopped             |                     | write other.txt
    goose-says         | said {\"summary\": 1} |                   |
    goose-wrong-key    | could not run       |                     |
    opencode-edit      | said Done.          | write src/a.txt, read src/a.txt |
    opencode-outside   | stopped             |                     | write other.txt
    opencode-says      | said {\"summary\": 1} |                   |
    opencode-wrong-key | could not run 401   |                     |
    pi-edit            | said Done.          | write src/a.txt, read src/a.txt |
    pi-outside         | stopped             |                     | write other.txt
    pi-says            | said {\"summary\": 1} |                   |
    pi-wrong-key       | could not run 401   |                     |
";

fn listed<'a>(calls: impl Iterator<Item = &'a ftl_core::tool_policy::ToolCall>) -> String {
    use ftl_core::tool_policy::ResolvedPath;
    let one = |call: &ftl_core::tool_policy::ToolCall| match &call.spot {
        Some(ResolvedPath::Inside(path) | ResolvedPath::Outside(path)) => format!("{} {path}", call.tool),
        None => call.tool.to_string(),
    };
    calls.map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_was_recorded_comes_to_what_happened() {
    let all = recorded();
    let table: Vec<&str> = TABLE.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(table.len(), all.len());
    for (line, (name, text)) in table.iter().zip(&all) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[0], name);
        let (rest, heard, told) = play(name, &|work| text.replace("/scratch/tree", work).into_bytes());
        let ended = match &rest {
            Ok(TurnRest::Said(text)) => format!("said {text}"),
            Ok(other) => format!("{other:?}"),
            Err(AgentError::CouldNotRun(why)) if why.contains("401") => String::from("could not run 401"),
            Err(AgentError::CouldNotRun(_)) => String::from("could not run"),
            Err(AgentError::Died(_)) => String::from("died"),
            Err(AgentError::Stopped(_) | AgentError::Forbidden(_)) => String::from("stopped"),
            Err(other) => format!("{other:?}"),
        };
        let found = (ended, listed(heard.made.iter()), listed(heard.denied.iter().map(|(call, _)| call)));
        assert_eq!(found, (cells[1].to_owned(), cells[2].to_owned(), cells[3].to_owned()), "{name} {rest:?}");
        if name.ends_with("-edit") {
            // What the command printed, and what it was called with, can be read afterwards.
            let printed = |(tool, text): &(String, String)| tool == "bash" && text.trim() == "hello";
            assert!(heard.results.iter().any(printed), "{name}: {:?}", heard.results);
            let read = |(_, args): &(String, Json)| args.to_string().contains("cat ");
            assert!(heard.own_calls.iter().any(read), "{name}: {:?}", heard.own_calls);
        }
        if found.0.starts_with("said") {
            assert!(heard.total(TOKENS) > 1000, "{name}: {:?}", heard.charged);
        }
        assert_eq!(
            told.contains("deny") || told.contains("decline"),
            name.ends_with("denied"),
            "{name}: {told}"
        );
    }
}

/// One line, changed by dice in one way.
fn mutated(line: &str, dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 => Vec::new(),
        1 => format!("{line}\n{line}").into_bytes(),
        2 => {
            let mut bytes = line.as_bytes().to_vec();
            let at = dice.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = dice.below(256) as u8;
            }
            bytes
        }
        3 => line.as_bytes()[..dice.below(line.len() as u64) as usize].to_vec(),
        4 => format!("{}{line}", "[".repeat(dice.between(1, 300) as usize)).into_bytes(),
        _ => match serde_json::from_str::<Json>(line) {
            Ok(mut json) => {
                twist(&mut json, dice);
                json.to_string().into_bytes()
            }
            Err(_) => line.as_bytes().to_vec(),
        },
    }
}

/// Changes one place of an event: takes a field away, adds one that nobody knows, or puts another kind there.
fn twist(json: &mut Json, dice: &mut Dice) {
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e308),
        json!("x"),
        json!([]),
        json!({ "type": "tool_use" }),
    ];
    match json {
        Json::Object(fields) if !fields.is_empty() && dice.chance(85) => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = dice.pick(&keys).cloned().unwrap_or_default();
            match dice.below(8) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert("nobody_knows".into(), json!({ "deep": [1, { "er": key }] }))),
                _ => twist(fields.entry(key).or_insert(Json::Null), dice),
            }
        }
        Json::Array(items) if !items.is_empty() && dice.chance(85) => {
            let at = dice.below(items.len() as u64) as usize;
            twist(&mut items[at], dice);
        }
        place => *place = dice.pick(&odd).cloned().unwrap_or_default(),
    }
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn mutated_streams_neither_panic_nor_hang() {
    let (cases, seed) = (from_environment("FTL_FUZZ_CASES", 12), from_environment("FTL_SEED", 1));
    for (name, text) in recorded() {
        for case in 0..cases {
            let mut dice = Dice::for_name(seed.wrapping_add(case), &name);
            let lines: Vec<&str> = text.lines().collect();
            let rate = dice.between(1, 40);
            let mut bytes = Vec::new();
            for line in lines {
                match dice.chance(rate) {
                    true => bytes.extend(mutated(line, &mut dice)),
                    false => bytes.extend_from_slice(line.as_bytes()),
                }
                bytes.push(b'\n');
            }
            let began = Instant::now();
            let _ = play(&name, &|_| bytes.clone());
            assert!(began.elapsed() < Duration::from_secs(15), "{name}, case {case} of seed {seed} hangs");
        }
    }
}

#[test]
fn fields_that_nobody_knows_change_nothing() {
    for (name, text) in recorded() {
        let more = |work: &str| {
            let mut bytes = Vec::new();
            for line in text.replace("/scratch/tree", work).lines() {
                let mut event: Json = serde_json::from_str(line).unwrap();
                event["nobody_knows"] = json!({ "type": "result", "deep": [1, 2, { "er": null }] });
                bytes.extend(
                    format!("{event}\n{{\"type\":\"nobody_knows\",\"method\":\"nobody/knows\"}}\n")
                        .into_bytes(),
                );
            }
            bytes
        };
        let (plain, heard, _) = play(&name, &|work| text.replace("/scratch/tree", work).into_bytes());
        let (twisted, other, _) = play(&name, &more);
        assert_eq!(
            (plain.is_ok(), heard.made.len(), heard.text),
            (twisted.is_ok(), other.made.len(), other.text),
            "{name}"
        );
    }
}
