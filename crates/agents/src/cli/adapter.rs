//! An adapter: all that is particular about one program, as data.
//!
//! Reading one finds all its faults at once. An adapter never holds a secret: of the environment it names
//! variables and nothing more. What a program enforces stands here too, so it is as honest as its author;
//! the ones that come with `ftl` are proven by tests with the programs themselves.

use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;

use super::calls::Tools;
use super::fields::{Fields, json, whole};
use super::fill::ArgumentTemplate;
use super::gated::{GateOf, LoginOf};
use super::rules::{EventRule, MAX_RULES};
use crate::contract::{Counted, Enforced};

/// The largest adapter that is read.
pub const MAX_ADAPTER_BYTES: usize = 256 * 1024;

/// How long an adapter may let its program be silent, in seconds.
pub const MAX_SILENCE: u64 = 3600;

/// How many files an adapter may put into a home.
pub const MAX_FILES: usize = 16;

/// The adapters that come with `ftl`.
const BUILT_IN: [(&str, &str); 5] = [
    ("claude", include_str!("../../adapters/claude.toml")),
    ("codex", include_str!("../../adapters/codex.toml")),
    ("pi", include_str!("../../adapters/pi.toml")),
    ("opencode", include_str!("../../adapters/opencode.toml")),
    ("goose", include_str!("../../adapters/goose.toml")),
];

/// How a program is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    /// It is started for each turn, says lines of JSON, and ends.
    Lines,
    /// It stays, and asks before each call, as Claude Code does.
    ClaudeControl,
    /// It stays, and asks before each call, as the app server of Codex does.
    CodexAppServer,
}

impl WireProtocol {
    /// Whether it asks before a call is made.
    pub const fn asks(self) -> bool {
        match self {
            WireProtocol::Lines => false,
            WireProtocol::ClaudeControl | WireProtocol::CodexAppServer => true,
        }
    }
}

/// How a prompt reaches a program that is started for each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptPassing {
    /// As its standard input.
    Input,
    /// As its last word.
    Word,
}

/// The words with which a program is started. A group is left out where a name in it has no value.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The arguments of every start.
    pub args: Vec<ArgumentTemplate>,
    /// The arguments that choose a model.
    pub model: Vec<ArgumentTemplate>,
    /// Who the agent is and which rules hold. Without it this stands at the head of the first prompt.
    pub system: Vec<ArgumentTemplate>,
    /// The name of a session, for a program that is told one and gives none.
    pub session: Option<ArgumentTemplate>,
    /// From the second turn on, for a program that is started for each turn or was started again.
    pub resume: Vec<ArgumentTemplate>,
    /// The first turn, where that differs: naming the session, say.
    pub first: Vec<ArgumentTemplate>,
    /// Where the shape of the answer is told to the program itself.
    pub schema: Vec<ArgumentTemplate>,
    /// The arguments that come after all others.
    pub tail: Vec<ArgumentTemplate>,
    /// The way in which the prompt reaches the program.
    pub prompt: PromptPassing,
    /// What a protocol sends when it opens a conversation.
    pub params: Json,
    /// What it sends besides where something may be written, in the place of what has the same name above.
    pub writing: Json,
}

/// How the program is told of our window, and what its tools are called there.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowOf {
    /// Arguments that are added.
    pub args: Vec<ArgumentTemplate>,
    /// Variables that are added.
    pub env: Vec<(String, ArgumentTemplate)>,
    /// What the program calls a tool of the window; `*` stands for its name.
    pub tool: (String, String),
}

impl WindowOf {
    /// What the program calls a tool of the window.
    pub fn tool_name(&self, tool: &str) -> String {
        format!("{}{tool}{}", self.tool.0, self.tool.1)
    }

    /// Whether the program means one of our tools by that name.
    pub fn is_ours(&self, name: &str) -> bool {
        let inner =
            name.strip_prefix(self.tool.0.as_str()).and_then(|rest| rest.strip_suffix(self.tool.1.as_str()));
        inner.is_some_and(|inner| crate::toolset::SPEAKING.contains(&inner))
    }
}

/// What a program's trouble is, told by what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliErrorKind {
    /// It could not even be tried.
    CouldNotRun,
    /// The service does not answer.
    Outage,
    /// It broke off in the middle; another attempt may help.
    Died,
}

/// How one agent's program is started and read, as a file says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// The name by which settings choose it.
    pub name: String,
    /// What it is for, in a line.
    pub about: String,
    /// The program's name, to be looked up in PATH.
    pub program: String,
    /// The words that make it tell its version.
    pub version: Vec<String>,
    /// The protocol of its standard input and output.
    pub protocol: WireProtocol,
    /// What of a state's rules the program keeps to.
    pub enforces: Enforced,
    /// The arguments that it is started with.
    pub start: Start,
    /// Variables that it must have, by name; `A|B` is one of them.
    pub needs: Vec<String>,
    /// Variables that it may have, by name.
    pub passes: Vec<String>,
    /// Variables that are set.
    pub set: Vec<(String, ArgumentTemplate)>,
    /// The values of settings that it wants, where the person gives none.
    pub defaults: Vec<(String, String)>,
    /// Files that are put into a private home.
    pub files: Vec<(String, ArgumentTemplate)>,
    /// How its model service is reached through a gate, if it can be told.
    pub gate: Option<GateOf>,
    /// Where its login is in a person's home.
    pub login: LoginOf,
    /// How it reaches our window, if it can.
    pub window: Option<WindowOf>,
    /// The rules that make events of its lines.
    pub rules: Vec<EventRule>,
    /// The effects of its tools.
    pub tools: Tools,
    /// How long it may be silent at least, if it does not tell when a command begins.
    pub silence: Option<Duration>,
    /// What its failures are, by words in them.
    pub troubles: Vec<(String, CliErrorKind)>,
}

/// The reasons for which a file is no adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterError {
    /// None of that name comes with `ftl`.
    Unknown(String),
    /// The file is larger than an adapter may be.
    Large,
    /// The file is no TOML.
    NotToml(String),
    /// All that is wrong with its fields.
    Faults(Vec<String>),
}

impl fmt::Display for AdapterError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdapterError::Unknown(name) => {
                let known: Vec<&str> = Adapter::names().collect();
                write!(out, "there is no adapter `{name}`; there is {}", known.join(", "))
            }
            AdapterError::Large => write!(out, "an adapter has {MAX_ADAPTER_BYTES} bytes at most"),
            AdapterError::NotToml(message) => write!(out, "this is no TOML: {message}"),
            AdapterError::Faults(faults) => out.write_str(&faults.join("\n")),
        }
    }
}

impl std::error::Error for AdapterError {}

impl Adapter {
    /// The names of the adapters that come with `ftl`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// An adapter that comes with `ftl`.
    pub fn built_in(name: &str) -> Result<Adapter, AdapterError> {
        let found = BUILT_IN.iter().find(|(one, _)| *one == name);
        let (_, text) = found.ok_or_else(|| AdapterError::Unknown(name.to_owned()))?;
        Adapter::parse(text)
    }

    /// Reads an adapter; an error tells all its faults, a line each.
    pub fn parse(text: &str) -> Result<Adapter, AdapterError> {
        if text.len() > MAX_ADAPTER_BYTES {
            return Err(AdapterError::Large);
        }
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| AdapterError::NotToml(error.to_string()))?;
        let mut faults = Vec::new();
        let adapter = whole(&table, "", &mut faults, read);
        if faults.is_empty() { Ok(adapter) } else { Err(AdapterError::Faults(faults)) }
    }

    /// The names of all variables that it wants of the person's environment.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.needs.iter().chain(&self.passes).flat_map(|names| names.split('|'))
    }

    /// The names of the settings that it wants.
    pub fn settings(&self) -> Vec<String> {
        let start = &self.start;
        let groups = [
            &start.args,
            &start.model,
            &start.system,
            &start.resume,
            &start.first,
            &start.schema,
            &start.tail,
        ];
        let windows = self.window.iter().flat_map(|window| &window.args);
        let pairs = self
            .set
            .iter()
            .chain(&self.files)
            .chain(self.window.iter().flat_map(|window| &window.env))
            .map(|(_, template)| template);
        let all = groups.into_iter().flatten().chain(windows).chain(pairs);
        let places = all.flat_map(ArgumentTemplate::places);
        let mut names: Vec<String> =
            places.filter_map(|place| place.strip_prefix(super::fill::SETTING)).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }
}

fn read(fields: &mut Fields<'_>) -> Adapter {
    const PROTOCOLS: [(&str, WireProtocol); 3] = [
        ("lines", WireProtocol::Lines),
        ("claude-control", WireProtocol::ClaudeControl),
        ("codex-app-server", WireProtocol::CodexAppServer),
    ];
    let protocol = fields.word("protocol", &PROTOCOLS).unwrap_or(WireProtocol::Lines);
    let named = |env: &mut Fields<'_>| (env.texts("needs"), env.texts("passes"), env.pairs("set"));
    let (needs, passes, set) = fields.below("env", named).unwrap_or_default();
    let adapter = Adapter {
        name: fields.must("name"),
        about: fields.must("about"),
        program: fields.must("program"),
        version: fields.texts("version"),
        protocol,
        enforces: fields.below("enforces", enforced).unwrap_or(NOTHING),
        start: fields.below("start", start).unwrap_or_else(nothing_to_start),
        needs,
        passes,
        set,
        defaults: defaults(fields),
        files: files(fields),
        gate: fields.below("gate", GateOf::read),
        login: fields.below("login", LoginOf::read).unwrap_or_default(),
        window: fields.below("window", window),
        rules: rules(fields),
        tools: fields.below("tools", Tools::read).unwrap_or_default(),
        silence: fields.seconds("silence", MAX_SILENCE),
        troubles: troubles(fields),
    };
    check(fields, &adapter);
    adapter
}

/// Nothing at all is enforced by a program that does not say so.
const NOTHING: Enforced = Enforced {
    calls: Counted::Never,
    paths: false,
    commands: false,
    tokens: false,
    money: false,
    cancel: true,
    resume: false,
    structured: false,
};

fn enforced(fields: &mut Fields<'_>) -> Enforced {
    const CALLS: [(&str, Counted); 3] =
        [("never", Counted::Never), ("after", Counted::After), ("before", Counted::Before)];
    Enforced {
        calls: fields.word("calls", &CALLS).unwrap_or(Counted::Never),
        paths: fields.flag("paths"),
        tokens: fields.flag("tokens"),
        money: fields.flag("money"),
        structured: fields.flag("structured"),
        ..NOTHING
    }
}

fn nothing_to_start() -> Start {
    Start {
        args: Vec::new(),
        model: Vec::new(),
        system: Vec::new(),
        session: None,
        resume: Vec::new(),
        first: Vec::new(),
        schema: Vec::new(),
        tail: Vec::new(),
        prompt: PromptPassing::Input,
        params: Json::Null,
        writing: Json::Null,
    }
}

fn start(fields: &mut Fields<'_>) -> Start {
    Start {
        args: fields.templates("args"),
        model: fields.templates("model"),
        system: fields.templates("system"),
        session: fields.templates("session").pop(),
        resume: fields.templates("resume"),
        first: fields.templates("first"),
        schema: fields.templates("schema"),
        tail: fields.templates("tail"),
        prompt: fields
            .word("prompt", &[("input", PromptPassing::Input), ("word", PromptPassing::Word)])
            .unwrap_or(PromptPassing::Input),
        params: object(fields, "params"),
        writing: object(fields, "writing"),
    }
}

fn object(fields: &mut Fields<'_>, name: &'static str) -> Json {
    fields.table(name).and_then(|table| json(&toml::Value::Table(table.clone()))).unwrap_or_default()
}

fn defaults(fields: &mut Fields<'_>) -> Vec<(String, String)> {
    let mut defaults = Vec::new();
    for (name, value) in fields.table("settings").into_iter().flatten() {
        match value.as_str() {
            Some(text) => defaults.push((name.clone(), text.to_owned())),
            None => fields.fault("settings", &format!("`{name}` must be a text")),
        }
    }
    defaults
}

fn files(fields: &mut Fields<'_>) -> Vec<(String, ArgumentTemplate)> {
    let files = fields.pairs("files");
    if files.len() > MAX_FILES {
        fields.fault("files", &format!("{MAX_FILES} is the most"));
    }
    for (path, _) in &files {
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !path.split('/').all(plain) {
            fields.fault("files", &format!("`{path}` is no path below a home"));
        }
    }
    files
}

fn window(fields: &mut Fields<'_>) -> WindowOf {
    let (args, env, tool) = (fields.templates("args"), fields.pairs("env"), fields.must("tool"));
    let tool = tool.split_once('*').map(|(before, after)| (before.to_owned(), after.to_owned()));
    if tool.is_none() {
        fields.fault("tool", "a `*` must stand where the tool's own name does");
    }
    WindowOf { args, env, tool: tool.unwrap_or_default() }
}

fn rules(fields: &mut Fields<'_>) -> Vec<EventRule> {
    let tables = fields.tables("event");
    if tables.len() > MAX_RULES {
        fields.fault("event", &format!("{MAX_RULES} is the most"));
    }
    let mut rules = Vec::new();
    for (number, table) in tables.into_iter().enumerate() {
        rules.push(fields.inside(table, &format!("event {}", number + 1), EventRule::read));
    }
    rules
}

fn troubles(fields: &mut Fields<'_>) -> Vec<(String, CliErrorKind)> {
    let read = |fields: &mut Fields<'_>| {
        let kinds = [
            ("could_not_run", CliErrorKind::CouldNotRun),
            ("outage", CliErrorKind::Outage),
            ("died", CliErrorKind::Died),
        ];
        let found =
            kinds.map(|(key, kind)| fields.texts(key).into_iter().map(move |text| (text, kind)).collect());
        found.into_iter().flat_map(|some: Vec<_>| some).collect()
    };
    fields.below("troubles", read).unwrap_or_default()
}

/// What cannot be right whatever the program is.
fn check(fields: &mut Fields<'_>, adapter: &Adapter) {
    let enforces = &adapter.enforces;
    if enforces.calls == Counted::Before && !adapter.protocol.asks() {
        fields.fault(
            "enforces.calls",
            "`lines` only tells what was done: `after` is the most that can be said",
        );
    }
    if enforces.paths && enforces.calls != Counted::Before {
        fields.fault("enforces.paths", "a path can be refused only where calls are counted before");
    }
    if !adapter.rules.iter().any(EventRule::is_end) {
        fields.fault("event", "no event says that a turn has ended");
    }
    if enforces.tokens && !adapter.rules.iter().any(EventRule::has_tokens) {
        fields.fault("enforces.tokens", "no event says how many tokens were used");
    }
    if enforces.money && !adapter.rules.iter().any(EventRule::has_money) {
        fields.fault("enforces.money", "no event says how much money was used");
    }
    if enforces.calls != Counted::Never && !adapter.rules.iter().any(EventRule::is_call) {
        fields.fault("enforces.calls", "no event is a call of a tool");
    }
}
