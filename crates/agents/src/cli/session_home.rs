//! The room of one session: a folder of our own with a home, the files of the adapter, and the program's
//! words and environment.
//!
//! The environment is what was named and nothing else. A person's own home is never written to. The room
//! is gone when the session is.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::adapter::Adapter;
use super::fill::{ArgumentTemplate, ArgumentValues, SETTING, TemplateError};
use super::{Binding, Home};
use ftl_core::machine::MachineCause;
use ftl_process::sandbox::{GATE_PORT, Reach, Relay, SOCKETS, SocketBind};

use crate::contract::SessionOrder;
use crate::error::AgentError;
use crate::gate::{GatePlace, ModelGate};
use crate::launch::AgentProgram;
use crate::mcp_endpoint::{McpBridge, Server};

/// A folder that is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    folder: PathBuf,
    home: PathBuf,
    env: Vec<(OsString, OsString)>,
    reach: Reach,
    filling: ArgumentValues,
    /// Open for as long as the room is.
    gate: Option<ModelGate>,
}

impl Room {
    /// The same with the gate that its program is told of.
    pub(super) fn behind(mut self, gate: Option<ModelGate>) -> Room {
        match gate.as_ref().map(ModelGate::place) {
            Some(GatePlace::Port(port)) => self.reach.connect.push(*port),
            Some(GatePlace::Socket(path)) => {
                let inside = Path::new(SOCKETS).join("gate.sock");
                self.reach.sockets.push(SocketBind { outside: path.clone(), inside: inside.clone() });
                self.reach.relays.push(Relay { port: GATE_PORT, socket: inside });
            }
            None => {}
        }
        self.gate = gate;
        self
    }

    /// A room in the folder for rooms.
    pub(super) fn new(
        binding: &Binding,
        order: &SessionOrder,
        window: Option<&McpBridge>,
    ) -> Result<Room, AgentError> {
        let server = window.map(McpBridge::server);
        let server = server.as_ref();
        let made = make(&binding.rooms).map_err(|error| {
            AgentError::of_io(format_args!("no room for an agent in {}", binding.rooms.display()), &error)
        })?;
        let home = match (binding.home, binding.env.iter().find(|(name, _)| name == "HOME")) {
            (Home::Private, _) => made.join("home"),
            (Home::Own, Some((_, home))) => PathBuf::from(home),
            (Home::Own, None) => {
                return Err(lost_home(&made, String::from("HOME is not set, and `home` is `own`")));
            }
        };
        let filling = filling(binding, order, server, &made, &home);
        let mut reach = window.map(McpBridge::reach).unwrap_or_default();
        reach.write.push(made.clone());
        let mut room = Room { folder: made, home, env: Vec::new(), reach, filling, gate: None };
        room.furnish(binding, order, server).map_err(|why| match MachineCause::of_words(&why) {
            Some(cause) => AgentError::Machine(cause.failure(why).message),
            None => AgentError::CouldNotRun(why),
        })?;
        Ok(room)
    }

    fn furnish(
        &mut self,
        binding: &Binding,
        order: &SessionOrder,
        server: Option<&Server>,
    ) -> Result<(), String> {
        let adapter = &binding.adapter;
        self.write("schema.json", &order.answer.json().to_string())?;
        if let Some(server) = server {
            self.write("mcp.json", &servers(server))?;
        }
        if binding.home == Home::Private {
            for (path, template) in &adapter.files {
                let text = template.filled_quoted(&self.filling).map_err(|error| error.to_string())?;
                self.write(&format!("home/{path}"), &text)?;
            }
        }
        self.env = environment(binding, &self.home, &self.folder, &self.filling, server.is_some())?;
        Ok(())
    }

    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(path);
        let write = || -> io::Result<()> {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path.parent().unwrap_or(&self.folder))?;
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            io::Write::write_all(&mut file, text.as_bytes())
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The program for one start: the first one, or one that takes a session up again.
    pub(super) fn program(
        &self,
        binding: &Binding,
        order: &SessionOrder,
        resumed: Option<&str>,
        windowed: bool,
    ) -> Result<AgentProgram, AgentError> {
        let start = &binding.adapter.start;
        let mut filling = self.filling.clone();
        filling.extend(resumed.map(|session| ("session".to_owned(), session.to_owned())));
        if let Some(name) = start.session.as_ref() {
            filling.insert(
                String::from("session"),
                name.filled(&self.filling).map_err(|error| AgentError::CouldNotRun(error.to_string()))?,
            );
        }
        let none = Vec::new();
        let window =
            binding.adapter.window.as_ref().filter(|_| windowed).map_or(&none, |window| &window.args);
        let groups = [
            (&start.args, true),
            (&start.model, filling.contains_key("model")),
            (&start.system, !order.system.is_empty()),
            (window, true),
            (&start.schema, !windowed),
            (&start.resume, resumed.is_some()),
            (&start.first, resumed.is_none()),
            (&start.tail, true),
        ];
        let words = groups.into_iter().filter(|(_, wanted)| *wanted).flat_map(|(group, _)| group);
        let args: Result<Vec<OsString>, TemplateError> =
            words.map(|word: &ArgumentTemplate| word.filled(&filling).map(OsString::from)).collect();
        let program = binding.program.clone().unwrap_or_else(|| (&binding.adapter.program).into());
        let args = args.map_err(|error| AgentError::CouldNotRun(error.to_string()))?;
        Ok(AgentProgram {
            program: program.into(),
            args,
            folder: order.folder.clone(),
            env: self.env.clone(),
            reach: self.reach.clone(),
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A folder with a new name, which only we can enter.
fn make(rooms: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(rooms)?;
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = rooms.join(format!("cli-{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {
                for name in ["home", "tmp"] {
                    fs::DirBuilder::new().mode(0o700).create(folder.join(name))?;
                }
                return folder.canonicalize();
            }
            // A process with our number had it once, and died in it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn lost_home(room: &Path, why: String) -> AgentError {
    let _ = fs::remove_dir_all(room);
    AgentError::CouldNotRun(why)
}

fn filling(
    binding: &Binding,
    order: &SessionOrder,
    server: Option<&Server>,
    room: &Path,
    home: &Path,
) -> ArgumentValues {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let mut filling = ArgumentValues::from([
        ("system".to_owned(), order.system.clone()),
        ("folder".to_owned(), path(&order.folder)),
        ("home".to_owned(), path(home)),
        ("scratch".to_owned(), path(room)),
        ("schema".to_owned(), order.answer.json().to_string()),
        ("schema_file".to_owned(), path(&room.join("schema.json"))),
    ]);
    filling
        .insert(String::from("room"), room.file_name().map(|name| path(Path::new(name))).unwrap_or_default());
    let model = order.model.as_ref().or(binding.model.as_ref());
    filling.extend(model.map(|model| ("model".to_owned(), model.clone())));
    let settings = binding.adapter.defaults.iter().map(|(name, value)| (name, value)).chain(&binding.values);
    filling.extend(settings.map(|(name, value)| (format!("{SETTING}{name}"), value.clone())));
    if let Some(server) = server {
        let window = server.env.first().map(|(_, path)| path.clone()).unwrap_or_default();
        filling.extend([
            ("mcp_file".to_owned(), path(&room.join("mcp.json"))),
            ("mcp_program".to_owned(), path(&server.program)),
            ("mcp_args".to_owned(), json!(server.args).to_string()),
            ("mcp_command".to_owned(), command(server)),
            ("mcp_window".to_owned(), window),
            ("mcp_line".to_owned(), line(server)),
        ]);
    }
    filling
}

/// The server in the form that most programs read.
fn servers(server: &Server) -> String {
    let env: serde_json::Map<_, _> =
        server.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let ours = json!({ "type": "stdio", "command": server.program, "args": server.args, "env": env });
    json!({ "mcpServers": { "ftl": ours } }).to_string()
}

/// The program and its words as a list of JSON.
fn command(server: &Server) -> String {
    let program = server.program.to_string_lossy().into_owned();
    json!(std::iter::once(&program).chain(&server.args).collect::<Vec<_>>()).to_string()
}

/// The server as one line: variables, program, words.
fn line(server: &Server) -> String {
    let env = server.env.iter().map(|(name, value)| format!("{name}={}", quote_word(value)));
    let words =
        std::iter::once(server.program.to_string_lossy().into_owned()).chain(server.args.iter().cloned());
    env.chain(words.map(|word| quote_word(&word))).collect::<Vec<_>>().join(" ")
}

fn quote_word(word: &str) -> String {
    let plain = |one: char| one.is_ascii_alphanumeric() || "/._-".contains(one);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// All that the program has of an environment.
fn environment(
    binding: &Binding,
    home: &Path,
    room: &Path,
    filling: &ArgumentValues,
    windowed: bool,
) -> Result<Vec<(OsString, OsString)>, String> {
    let adapter: &Adapter = &binding.adapter;
    let has = |names: &str| names.split('|').any(|name| binding.env.iter().any(|(one, _)| one == name));
    if let Some(name) = adapter.needs.iter().find(|name| !has(name)).filter(|_| binding.home == Home::Private)
    {
        return Err(format!(
            "{} needs the variable {}, which is not set; set it, or let it use the login in your home with \
             `home = \"own\"`",
            binding.name,
            name.replace('|', " or ")
        ));
    }
    let mut env: Vec<(OsString, OsString)> = vec![
        ("TERM".into(), "dumb".into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TMPDIR".into(), room.join("tmp").into()),
    ];
    env.extend(binding.env.iter().map(|(name, value)| (OsString::from(name), value.clone())));
    let windows = adapter.window.iter().filter(|_| windowed).flat_map(|window| &window.env);
    for (name, template) in adapter.set.iter().chain(windows) {
        env.push((name.into(), template.filled(filling).map_err(|error| error.to_string())?.into()));
    }
    env.push(("HOME".into(), home.into()));
    // The last one of a name is the one that counts.
    let mut seen = std::collections::BTreeSet::new();
    env.reverse();
    env.retain(|(name, _)| seen.insert(name.clone()));
    env.reverse();
    Ok(env)
}
