//! A room for one agent: a home of its own, a repository, a model server, and an environment from nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ftl_agents::contract::McpEndpoint;
use ftl_agents::launch::Launcher;
use ftl_engine::executors::programs::ProgramStarter;
use ftl_process::table::{self, Table};
use ftl_process::{Guard, MARK, ProcessLimits, Supervisor, own_orphans};
use ftl_testkit::model_server::ModelServer;
use serde_json::Value as Json;

/// The key that every agent gets. It opens nothing.
pub const KEY: &str = "test-key";

/// The program under test, which is also the guard of every agent.
const FTL: &str = env!("CARGO_BIN_EXE_ftl");

/// Where one agent works and lives.
pub struct Room {
    folder: tempfile::TempDir,
    key: String,
    /// The model that it asks.
    pub model: ModelServer,
}

impl Room {
    /// A room whose model answers by these scenarios.
    pub fn new(scenarios: Json) -> Room {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        own_orphans().unwrap();
        let folder = tempfile::Builder::new().prefix("ftl").tempdir().unwrap();
        for name in ["home", "work/src", "attempts", "spool", "lobby", "rooms"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let work = folder.path().join("work");
        std::fs::write(work.join("src/old.txt"), "old\n").unwrap();
        git(&work, &["init", "-q", "-b", "main"]);
        git(&work, &["add", "."]);
        let author = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
        git(&work, &[&author[..], &["commit", "-q", "-m", "Begin"]].concat());
        let model = ModelServer::in_folder(scenarios, work.to_str().unwrap()).unwrap();
        let key = format!("real-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Room { folder, key, model }
    }

    /// The repository.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A home in which nobody is logged in.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Where backends make rooms of their own.
    pub fn rooms(&self) -> PathBuf {
        self.folder.path().join("rooms")
    }

    /// What a file of the repository holds.
    pub fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.work().join(path)).ok()
    }

    /// The environment that an agent starts with: nothing of ours but a path, and a home.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let path = format!("{}:/usr/bin:/bin", bin().display());
        let pairs = [
            ("PATH", OsString::from(path)),
            ("HOME", self.home().into()),
            ("TMPDIR", self.folder.path().into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
        ];
        pairs.into_iter().map(|(name, value)| (OsString::from(name), value)).collect()
    }

    /// The engine's own launcher, with `ftl __guard` over every program.
    pub fn launcher(&self) -> Arc<dyn Launcher> {
        let guard = Guard::of(Path::new(FTL));
        let (attempts, spool) = (self.folder.path().join("attempts"), self.folder.path().join("spool"));
        let supervisor = Supervisor::new(guard, &attempts, &spool).unwrap();
        Arc::new(ProgramStarter::new(Arc::new(supervisor), ProcessLimits::of_agent(), self.key.clone(), None))
    }

    /// Where windows for the agent's program are made; `ftl mcp` serves them.
    pub fn mcp_endpoint(&self) -> McpEndpoint {
        McpEndpoint {
            folder: self.folder.path().join("lobby"),
            program: FTL.into(),
            args: vec!["mcp".into()],
        }
    }

    /// The processes that carry the mark of this room, with their words.
    pub fn alive(&self) -> Vec<String> {
        let table = Table::read().unwrap();
        let marked = |pid: i32| {
            let block = table::environment(pid).unwrap_or_default();
            let value =
                table::variable(&block, MARK).map(|value| String::from_utf8_lossy(value).into_owned());
            value.is_some_and(|value| value.starts_with(&self.key))
        };
        let alive = table.entries().filter(|entry| entry.is_alive() && marked(entry.pid));
        alive.map(|entry| format!("{} {:?}", entry.pid, table::words(entry.pid))).collect()
    }

    /// Waits until something of the agent's own doing is seen. Panics when it does not come.
    pub fn wait_until(&self, what: &str, seen: impl Fn(&Room) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !seen(self) {
            assert!(Instant::now() < end, "{what} did not come: {:?}", self.alive());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn git(folder: &Path, args: &[&str]) {
    let ran = Command::new("git").arg("-C").arg(folder).args(args).output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Where `tools/agents/install` puts agents.
pub fn bin() -> PathBuf {
    let told = std::env::var_os("FTL_AGENTS_DIR").map(PathBuf::from);
    let folder = told.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agents"));
    folder.canonicalize().unwrap_or(folder).join("bin")
}

/// An agent that is installed, as the attribute of the test promises.
pub fn installed(name: &str) -> PathBuf {
    let program = bin().join(name);
    assert!(program.exists(), "{} is gone: touch crates/needs/build.rs", program.display());
    program
}

#[test]
fn a_room_sees_what_is_alive_in_it_and_nothing_stays() {
    let room = Room::new(serde_json::json!({}));
    let program = ftl_agents::launch::AgentProgram {
        program: "sh".into(),
        args: ["-c", "setsid sleep 600 & touch began; wait"].map(OsString::from).into(),
        folder: room.work(),
        env: room.env(),
        reach: Default::default(),
    };
    let launched = room.launcher().launch(&program).unwrap();
    room.wait_until("the program", |room| room.text("began").is_some() && room.alive().len() >= 2);
    launched.tree.end();
    assert_eq!(room.alive(), Vec::<String>::new());
    let mcp_endpoint = room.mcp_endpoint();
    assert!(mcp_endpoint.folder.is_dir() && mcp_endpoint.program.is_file());
    assert!(room.env().iter().all(|(_, value)| value != KEY), "no key but where one is named");
}
