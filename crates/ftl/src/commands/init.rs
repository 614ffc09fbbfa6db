//! `ftl init`: looks what agents there are on this machine, and writes a commented file of settings.
//!
//! It looks at names of programs and variables and at ports of this machine; it starts nothing, reads no
//! key's value, and never replaces a file.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use ftl_agents::cli::Adapter;
use ftl_agents::contract::Counted;
use serde_json::{Value as Json, json};

use crate::cli::{Cli, Init};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::session;
use crate::write;

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

/// An agent that could be bound.
struct Found {
    name: String,
    /// How it was found.
    how: String,
    /// Its lines in the file.
    lines: String,
    /// Whether it can be bound as it stands here: nothing is left to be said, and it counts calls before
    /// they are made.
    ready: bool,
}

/// Writes `ftl.toml`.
pub(crate) fn run(cli: &Cli, asked: &Init, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let file = place.shared_config();
    let found = found();
    let text = text(&found);
    if asked.print {
        out.bytes(&text)?;
        return Ok(Exit::Done);
    }
    session::not_root_elsewhere(&place)?;
    if file.symlink_metadata().is_ok() {
        let message = format!("there is {} already", file.display());
        return Err(Failure::new(
            message,
            "`ftl init --print` shows what would be written; `ftl config` what holds",
        ));
    }
    write::replace(&file, &text).map_err(|error| {
        Failure::new(format!("{} cannot be written: {error}", file.display()), "see who may write there")
    })?;
    let bound = found.iter().find(|one| one.ready).map(|one| one.name.as_str());
    if out.is_json() {
        let row = |one: &Found| json!({ "name": one.name, "how": one.how, "ready": one.ready });
        let rows: Vec<Json> = found.iter().map(row).collect();
        out.json(&json!({ "file": file, "found": rows, "bound": bound }))?;
        return Ok(Exit::Done);
    }
    let mut said: String = found.iter().map(|one| format!("found {}: {}\n", one.name, one.how)).collect();
    if found.is_empty() {
        said.push_str("found no agent, no key and no server of models\n");
    }
    said.push_str(&format!("wrote {}\n", file.display()));
    said.push_str(&match bound {
        Some(name) => format!("every role is bound to {name}; `ftl agents probe {name}` tries it\n"),
        None => String::from("no role is bound yet: describe an agent there and name it under [roles]\n"),
    });
    out.text(&said)?;
    Ok(Exit::Done)
}

fn found() -> Vec<Found> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut all: Vec<Found> = Adapter::names().filter_map(|name| program(name, &has)).collect();
    // Those who are asked before every call come first: nothing has to be accepted.
    all.sort_by_key(|one| !one.ready);
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

pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
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

fn text(found: &[Found]) -> String {
    let mut text = String::from(
        "# Settings of ftl for this repository. `ftl config` shows every value and where it comes from.\n\
         # Your own come before these ($XDG_CONFIG_HOME/ftl/config.toml); .ftl/config.toml, which git does not see, wins.\n\n\
         # Who answers which role: builder, planner, explorer, observer, coder, architect, reviewers.\n[roles]\n",
    );
    match found.iter().find(|one| one.ready) {
        Some(one) => text.push_str(&format!(
            "default = \"{}\"\n# planner = {{ agent = \"{}\", model = \"…\" }}\n",
            one.name, one.name
        )),
        None => text.push_str("# default = \"NAME\"         # an agent that is described below\n"),
    }
    text.push_str(
        "\n# The agents. `ftl agents` shows what each enforces; `ftl agents probe NAME` asks one.\n",
    );
    for one in found {
        let commented = one.lines.contains('…');
        let lines = format!("[agents.{}]\n{}", one.name, one.lines);
        let shown: String = match commented {
            // What is not complete would be refused.
            true => lines.lines().map(|line| format!("# {}\n", line.trim_start_matches("# "))).collect(),
            false => lines,
        };
        text.push_str(&format!("# {}\n{shown}\n", one.how));
    }
    if found.is_empty() {
        text.push_str(
            "# [agents.local]\n# kind = \"model\"\n# dialect = \"chat\"             # chat, responses or anthropic\n\
             # url = \"http://127.0.0.1:11434/v1\"\n# model = \"…\"\n\n",
        );
    }
    text.push_str(
        "# What one run may use. A cap is a cap: an agent that would go beyond it is ended.\n[limits]\n\
         # tokens = \"5M\"\n# money = 20\n# time = \"8h\"\n# turns = 2000\n",
    );
    text
}
