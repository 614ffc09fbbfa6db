//! What agents, keys and servers of models there are on this machine. It looks at names of programs and variables and at
//! ports of this machine; it starts nothing and reads no key's value.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use ftl_agents::cli::Adapter;
use ftl_agents::contract::Counted;
use ftl_process::programs;
use serde_json::{Value as Json, json};

/// How long a server on this machine may take to say that it is there.
const MAX_KNOCK: Duration = Duration::from_millis(300);

/// How much of its answer is read.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;

/// Servers of models that people run on their own machines, by the ports that they take by themselves.
const SERVERS: [(&str, u16); 4] = [("ollama", 11434), ("llamacpp", 8080), ("vllm", 8000), ("lmstudio", 1234)];

/// Services by the variable that holds their key: name, dialect and address.
const SERVICES: [(&str, &str, &str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic", "anthropic", "https://api.anthropic.com/v1"),
    ("OPENAI_API_KEY", "openai", "responses", "https://api.openai.com/v1"),
    ("OPENROUTER_API_KEY", "openrouter", "chat", "https://openrouter.ai/api/v1"),
];

/// Agents that are spoken to by the Agent Client Protocol: name, which is the program, and what it is.
const SPOKEN: [(&str, &str); 2] = [("qwen", "Qwen Code"), ("gemini", "Gemini CLI")];

/// How people get the agents that are known, by name.
pub(super) const INSTALLS: [(&str, &str); 7] = [
    ("claude", "npm install -g @anthropic-ai/claude-code"),
    ("codex", "npm install -g @openai/codex"),
    ("pi", "npm install -g @earendil-works/pi-coding-agent"),
    ("opencode", "npm install -g opencode-ai"),
    ("goose", "brew install block-goose-cli"),
    ("qwen", "npm install -g @qwen-code/qwen-code"),
    ("gemini", "npm install -g @google/gemini-cli"),
];

/// An agent that could be bound.
pub(super) struct Found {
    pub(super) name: String,
    /// How it was found.
    pub(super) how: String,
    /// Its lines in the file.
    pub(super) lines: String,
    /// Whether it can be bound as it stands here: nothing is left to be said, and it counts calls before
    /// they are made.
    pub(super) ready: bool,
}

/// All that there is, the ones that can be bound as they are first.
pub(super) fn detect_agents() -> Vec<Found> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut all: Vec<Found> = Adapter::names().filter_map(|name| program(name, &has)).collect();
    // Those who are asked before every call come first: nothing has to be accepted.
    all.sort_by_key(|one| !one.ready);
    all.extend(SPOKEN.iter().filter_map(|(name, about)| spoken(name, about)));
    all.extend(SERVICES.iter().filter(|(key, ..)| has(key)).map(service));
    all.extend(SERVERS.iter().filter_map(|(name, port)| server(name, *port)));
    all
}

fn program(name: &str, has: &dyn Fn(&str) -> bool) -> Option<Found> {
    let adapter = Adapter::built_in(name).ok()?;
    let path = on_path(&adapter.program)?;
    let keys = adapter.needs.iter().all(|names| names.split('|').any(has));
    let mut lines = format!("kind = \"cli\"\nadapter = \"{name}\"\n");
    lines.push_str(match keys {
        true => "# home = \"own\"           # your own home and logins; else a fresh home, with the key that is named\n",
        false => "home = \"own\"             # your own home and logins: no key is in the environment\n",
    });
    let before = adapter.enforces.calls == Counted::Before && adapter.enforces.paths;
    if !before {
        lines.push_str(
            "# it tells what it did and asks nobody: states that need more refuse it, unless you\n",
        );
        lines.push_str("# accept = [\"calls\", \"paths\"]\n");
    }
    let how = format!("{} ({})", adapter.about, path.display());
    Some(Found { name: name.to_owned(), how, lines, ready: before })
}

/// Where a program is, in the PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    programs::find(program, std::env::split_paths(&std::env::var_os("PATH")?))
}

fn spoken(name: &str, about: &str) -> Option<Found> {
    let path = on_path(name)?;
    let lines = format!(
        "kind = \"acp\"\nprogram = \"{name}\"\nargs = [\"--acp\"]\nhome = \"own\"             # your own home and login\n\
         # it asks nobody before a call: states that need more refuse it, unless you\n# accept = [\"calls\", \"paths\"]\n"
    );
    let how = format!("{about}, by the Agent Client Protocol ({})", path.display());
    Some(Found { name: name.to_owned(), how, lines, ready: false })
}

fn service((key, name, dialect, url): &(&str, &str, &str, &str)) -> Found {
    let lines = format!(
        "kind = \"model\"\ndialect = \"{dialect}\"\nurl = \"{url}\"\nkey = \"{key}\"    # the variable; the key itself never stands here\n\
         model = \"…\"              # which model\n# price = {{ input = 3, cached = 0.3, stored = 3.75, output = 15 }}    # for a million tokens\n"
    );
    Found { name: (*name).to_owned(), how: format!("the variable {key} is set"), lines, ready: false }
}

fn server(name: &str, port: u16) -> Option<Found> {
    let model = models(port)?;
    let lines = format!(
        "kind = \"model\"\ndialect = \"chat\"\nurl = \"http://127.0.0.1:{port}/v1\"\nmodel = {}\n\
         # calls = \"schema\"       # for small models that write calls as text\n",
        json!(model)
    );
    let how = format!("a server of models at port {port}, with {model}");
    Some(Found { name: name.to_owned(), how, lines, ready: true })
}

/// The first model of a server on this machine, if one answers there.
fn models(port: u16) -> Option<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, MAX_KNOCK).ok()?;
    stream.set_read_timeout(Some(MAX_KNOCK)).ok()?;
    stream
        .write_all(b"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n")
        .ok()?;
    let mut answer = Vec::new();
    // A server that keeps the connection open has said all by then.
    let _ = stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    let body = &text[text.find('{')?..=text.rfind('}')?];
    let listed: Json = serde_json::from_str(body).ok()?;
    listed.pointer("/data/0/id")?.as_str().map(str::to_owned)
}
