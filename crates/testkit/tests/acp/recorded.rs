//! What real agents have said, played again and spoiled: no panic, no hang, and more fields change nothing.
//!
//! `tests/recorded/acp` holds one conversation of each agent, `>` to it and `<` from it, without paths of the
//! machine on which it was held. A recording answers as far as it is asked what was asked then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl_agents::acp::{AcpAgent, Habits};
use ftl_agents::contract::{
    Backend as _, MONEY, PartKind, PromptPart, SessionHost, SessionLimits, SessionOrder, TOKENS, TurnRest,
};
use ftl_agents::contract::{CommandFailure, CommandRunner, Ran};
use ftl_agents::error::AgentError;
use ftl_agents::launch::{
    AgentProgram, InputChannel, InputError, Launched, Launcher, ProgramExit, Telling, Tree, hearing,
};
use ftl_core::tool_policy::{ToolAllowance, Write};
use ftl_testkit::dice::Dice;
use ftl_testkit::speakers::{Bare, Heard, RecordingHost, allowance, host, order};
use serde_json::{Value as Json, json};

use crate::faults::hurried;

/// How often each recording is spoiled.
const SPOILED: u64 = 150;

const GOOSE: &str = include_str!("../recorded/acp/goose-1.52.0.jsonl");
const CLAUDE: &str = include_str!("../recorded/acp/claude-agent-acp-0.99.1.jsonl");
const CODEX: &str = include_str!("../recorded/acp/codex-acp-2.6.0.jsonl");
const DENIED: &str = include_str!("../recorded/acp/codex-acp-2.6.0-denied.jsonl");

/// One line of a recording.
#[derive(Clone, Debug)]
enum Line {
    Ours(Json),
    Theirs(Vec<u8>),
}

fn lines(recording: &str) -> Vec<Line> {
    let line = |line: &str| match line.split_at(2) {
        ("> ", ours) => Line::Ours(serde_json::from_str(ours).unwrap()),
        (_, theirs) => Line::Theirs(theirs.as_bytes().to_vec()),
    };
    recording.lines().map(line).collect()
}

/// Plays a recording in place of the agent; commands of its terminals are run.
#[derive(Debug)]
struct Recorded {
    lines: Vec<Line>,
    room: String,
}

impl Launcher for Recorded {
    fn launch(&self, program: &AgentProgram) -> Result<Launched, AgentError> {
        if program.program == "sh" {
            return Bare.launch(program);
        }
        let (telling, output) = hearing();
        let play = Play {
            lines: self.lines.clone(),
            at: 0,
            names: BTreeMap::from([("/ROOM".to_owned(), self.room.clone())]),
            ids: BTreeMap::new(),
            telling: Some(telling),
        };
        Ok(Launched { input: Arc::new(Prompter(Mutex::new(play))), output, tree: Box::new(Nothing) })
    }
}

struct Nothing;

impl Tree for Nothing {
    fn end(self: Box<Self>) {}
}

struct Prompter(Mutex<Play>);

impl Prompter {
    fn play(&self) -> MutexGuard<'_, Play> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InputChannel for Prompter {
    fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        self.play().hear(&serde_json::from_slice(bytes).unwrap());
        Ok(())
    }

    fn close(&self) {
        if let Some(telling) = self.play().telling.take() {
            telling.on_exit(ProgramExit::default());
        }
    }
}

struct Play {
    lines: Vec<Line>,
    at: usize,
    /// What was called otherwise then.
    names: BTreeMap<String, String>,
    ids: BTreeMap<String, Json>,
    telling: Option<Telling>,
}

impl Play {
    /// Goes on from where this was said then.
    fn hear(&mut self, heard: &Json) {
        let said = |line: &Line| match line {
            Line::Ours(ours) => ours.get("method") == heard.get("method"),
            Line::Theirs(_) => false,
        };
        let Some(found) = self.lines.iter().skip(self.at).position(said) else { return };
        let at = self.at + found;
        self.at = at + 1;
        if let Line::Ours(then) = &self.lines[at] {
            self.ids.insert(then["id"].to_string(), heard["id"].clone());
            let terminal = |line: &Json| line["result"].get("terminalId").map(Json::to_string);
            self.names.extend(terminal(then).zip(terminal(heard)));
        }
        while let Some(Line::Theirs(line)) = self.lines.get(self.at) {
            let line = self.now(line);
            self.at += 1;
            if let Some(telling) = &mut self.telling {
                telling.tell(&line).unwrap();
                telling.tell(b"\n").unwrap();
            }
        }
    }

    /// A line with the names and ids of now.
    fn now(&self, line: &[u8]) -> Vec<u8> {
        let Ok(mut text) = String::from_utf8(line.to_vec()) else { return line.to_vec() };
        for (then, now) in &self.names {
            text = text.replace(then, now);
        }
        let Ok(mut json) = serde_json::from_str::<Json>(&text) else { return text.into_bytes() };
        if let Some(id) = json.get("id").and_then(|id| self.ids.get(&id.to_string())).cloned()
            && json.get("method").is_none()
        {
            json["id"] = id;
        }
        json.to_string().into_bytes()
    }
}

#[derive(Debug)]
struct Sign;

impl CommandRunner for Sign {
    fn run(&self, _: &str, _: &Path, _: Duration, _: &dyn SessionHost) -> Result<Ran, CommandFailure> {
        Err(CommandFailure(String::from("a terminal is no shell")))
    }
}

/// What came of one turn.
struct Came {
    rest: Result<TurnRest, AgentError>,
    heard: Heard,
    folder: tempfile::TempDir,
}

impl Came {
    fn made(&self) -> Vec<&str> {
        self.heard.made.iter().map(|call| &*call.tool).collect()
    }
}

/// How a recording is played.
#[derive(Clone, Copy)]
struct Pace {
    /// How long it may be silent.
    silence: Duration,
    /// How many times as fast as ours its clock runs.
    times: u32,
    /// Whether commands may be run.
    runs: bool,
}

/// Plays one turn of a recording.
fn played(agent: &str, lines: Vec<Line>, write: Write, pace: Pace) -> Came {
    let folder = tempfile::tempdir().unwrap();
    let allowance = ToolAllowance { write, ..allowance(9) };
    let clerk = Arc::new(RecordingHost::new(&allowance));
    let room = folder.path().to_str().unwrap().to_owned();
    let whole = Duration::from_secs(10) * pace.times;
    let limits = SessionLimits { requests: 9, silence: pace.silence * pace.times, whole };
    let shell: Option<Arc<dyn CommandRunner>> = if pace.runs { Some(Arc::new(Sign)) } else { None };
    let launcher: Arc<dyn Launcher> = Arc::new(Recorded { lines, room });
    let order = SessionOrder { launcher: Some(launcher), shell, limits, ..order(folder.path(), &allowance) };
    let agent = AcpAgent {
        name: agent.into(),
        program: agent.into(),
        args: Vec::new(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        home: None,
        habits: Habits::of(agent).unwrap(),
    };
    let rest = hurried(agent, pace.times).open(order, host(&clerk)).and_then(|mut session| {
        let rest = session.turn(&[PromptPart::new(PartKind::Task, "Create hello.py")]);
        session.close();
        rest
    });
    Came { rest, heard: clerk.snapshot(), folder }
}

const PATIENT: Pace = Pace { silence: Duration::from_secs(5), times: 1, runs: true };
const BRIEF: Pace = Pace { silence: Duration::from_millis(300), ..PATIENT };
// What is spoiled runs no command: nobody knows which one it would be.
const HASTY: Pace = Pace { silence: Duration::from_millis(60), times: 200, runs: false };

fn done() -> Result<TurnRest, AgentError> {
    Ok(TurnRest::Said(String::from("Done.")))
}

#[test]
fn goose_is_ruled_and_served() {
    let came = played("goose", lines(GOOSE), Write::Anything, PATIENT);
    assert_eq!((&came.rest, came.made()), (&done(), vec!["write", "bash"]));
    assert_eq!(std::fs::read_to_string(came.folder.path().join("src/hello.py")).unwrap(), "print('hi')\n");
    assert_eq!(std::fs::read_to_string(came.folder.path().join("src/ran.txt")).unwrap(), "ran\n");
    assert_eq!((came.heard.total(TOKENS), came.heard.denied.len()), (5106, 0));
    let output = |(tool, text): &(String, String)| tool == "bash" && text.contains("print('hi')");
    assert!(came.heard.results.iter().any(output), "{:?}", came.heard.results);
}

#[test]
fn claude_is_ruled_and_charged() {
    let came = played("claude", lines(CLAUDE), Write::Anything, PATIENT);
    assert_eq!((&came.rest, came.made()), (&done(), vec!["write", "bash"]));
    assert_eq!((came.heard.total(TOKENS), came.heard.total(MONEY)), (49_520, 198_960));
    let denied: Vec<&str> = came.heard.denied.iter().map(|(call, _)| &*call.tool).collect();
    assert_eq!(denied, ["ToolSearch"], "it does not ask about it, and it does nothing");
    let written = |(_, text): &(String, String)| text.starts_with("File created successfully");
    assert!(came.heard.results.iter().any(written), "{:?}", came.heard.results);
    let command = |(_, args): &(String, Json)| args["command"] == "echo ran > src/ran.txt; cat src/hello.py";
    assert!(came.heard.own_calls.iter().any(command), "{:?}", came.heard.own_calls);
}

#[test]
fn codex_is_ruled_and_charged() {
    let came = played("codex", lines(CODEX), Write::Anything, PATIENT);
    assert_eq!((&came.rest, came.made(), came.heard.total(TOKENS)), (&done(), vec!["write"], 45_718));
}

#[test]
fn codex_that_is_denied_is_prompted_again() {
    let came = played("codex", lines(DENIED), Write::Nothing, BRIEF);
    assert!(matches!(&came.rest, Err(AgentError::TimedOut(_))), "the recording has no more: {:?}", came.rest);
    assert_eq!((came.heard.denied.len(), came.made().len(), came.heard.total(TOKENS)), (1, 0, 120));
}

#[test]
fn more_fields_change_nothing() {
    for (agent, recording) in [("goose", GOOSE), ("claude", CLAUDE), ("codex", CODEX)] {
        let more = lines(recording).into_iter().map(|line| match line {
            Line::Theirs(line) => {
                let mut json: Json = serde_json::from_slice(&line).unwrap();
                json.as_object_mut().unwrap().values_mut().for_each(add_fields);
                Line::Theirs(json.to_string().into_bytes())
            }
            ours @ Line::Ours(_) => ours,
        });
        let plain = played(agent, lines(recording), Write::Anything, PATIENT);
        let came = played(agent, more.collect(), Write::Anything, PATIENT);
        assert_eq!((&came.rest, came.made()), (&plain.rest, plain.made()), "{agent}");
        assert_eq!(came.heard.charged, plain.heard.charged, "{agent}");
    }
}

fn add_fields(json: &mut Json) {
    match json {
        Json::Object(fields) => {
            fields.values_mut().for_each(add_fields);
            fields.insert("from the future".into(), json!({ "x": [1, null] }));
        }
        Json::Array(items) => items.iter_mut().for_each(add_fields),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Spoils what the agent said, in one to four places.
fn spoil(lines: &mut Vec<Line>, dice: &mut Dice) {
    for _ in 0..dice.between(1, 4) {
        let theirs: Vec<usize> =
            (0..lines.len()).filter(|at| matches!(lines[*at], Line::Theirs(_))).collect();
        let Some(at) = dice.pick(&theirs).copied() else { return };
        let Line::Theirs(line) = lines[at].clone() else { return };
        match dice.below(7) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, Line::Theirs(line)),
            2 => {
                let to = *dice.pick(&theirs).unwrap();
                lines.swap(at, to);
            }
            3 => {
                let to = usize::try_from(dice.below(line.len() as u64)).unwrap();
                lines[at] = Line::Theirs(line[..to].to_vec());
            }
            4 => {
                let mut line = line;
                let to = usize::try_from(dice.below(line.len() as u64)).unwrap();
                // Not into two lines: that is what cutting one does.
                line[to] = u8::try_from(dice.below(256)).unwrap().max(b'\n' + 1);
                lines[at] = Line::Theirs(line);
            }
            _ => {
                if let Ok(mut json) = serde_json::from_slice::<Json>(&line) {
                    spoil_field(&mut json, dice);
                    lines[at] = Line::Theirs(json.to_string().into_bytes());
                }
            }
        }
    }
}

/// Takes a field out, or puts something else in its place, at some depth.
fn spoil_field(json: &mut Json, dice: &mut Dice) {
    let odd =
        [json!(null), json!(u64::MAX), json!(-1), json!(""), json!("x".repeat(5000)), json!([]), json!({})];
    match json {
        Json::Object(fields) if !fields.is_empty() => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = dice.pick(&keys).unwrap();
            match dice.below(4) {
                0 => drop(fields.remove(key)),
                1 => drop(fields.insert(key.clone(), dice.pick(&odd).unwrap().clone())),
                _ => spoil_field(&mut fields[key], dice),
            }
        }
        Json::Array(items) if !items.is_empty() => {
            let at = usize::try_from(dice.below(items.len() as u64)).unwrap();
            spoil_field(&mut items[at], dice);
        }
        other => *other = dice.pick(&odd).unwrap().clone(),
    }
}

/// Every seed plays the same; one that fails is told.
fn survives(agent: &str, recording: &str) {
    for seed in 0..SPOILED {
        let mut dice = Dice::for_name(seed, agent);
        let mut lines = lines(recording);
        spoil(&mut lines, &mut dice);
        let began = Instant::now();
        let agent = agent.to_owned();
        let write = Write::Only([String::from("src")].into());
        let played = std::thread::spawn(move || played(&agent, lines, write, HASTY)).join();
        let Ok(came) = played else { panic!("seed {seed} panics") };
        assert!(began.elapsed() < Duration::from_secs(8), "seed {seed} hangs");
        let outside = std::fs::read_dir(came.folder.path()).unwrap().filter_map(Result::ok);
        let outside: Vec<_> = outside.map(|one| one.file_name()).filter(|name| name != "src").collect();
        assert!(outside.is_empty(), "seed {seed} wrote {outside:?}");
    }
}

#[test]
fn a_spoiled_goose_does_no_harm() {
    survives("goose", GOOSE);
}

#[test]
fn a_spoiled_claude_does_no_harm() {
    survives("claude", CLAUDE);
}

#[test]
fn a_spoiled_codex_does_no_harm() {
    survives("codex", CODEX);
}
