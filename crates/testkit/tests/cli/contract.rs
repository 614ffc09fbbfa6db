//! The contract suite, played by a program that asks before each call, and by one that tells afterwards.

use std::path::Path;

use ftl_agents::cli::Adapter;
use ftl_testkit::speakers::{Act, Cast, Stage};

use super::stage::{backend, plain, script};

/// Plays acts by the player.
struct PlayerCast {
    speech: &'static str,
}

impl Cast for PlayerCast {
    fn play(&self, acts: &[Act]) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("acts.json");
        std::fs::write(&file, script(acts).to_string()).unwrap();
        let adapter = match self.speech {
            "control" => Adapter::built_in("claude").unwrap(),
            _ => plain(),
        };
        let env = [("PLAYER_ACTS", file.to_str().unwrap()), ("PLAYER_SPEECH", self.speech)];
        let player = Path::new(env!("CARGO_BIN_EXE_cli-player"));
        let backend = backend(adapter, player, folder.path(), &env);
        Stage { backend: Box::new(backend), keep: Box::new(folder) }
    }
}

mod asks_before {
    use super::PlayerCast;

    fn cast() -> PlayerCast {
        PlayerCast { speech: "control" }
    }

    ftl_testkit::agent_contract!(cast);
}

mod tells_after {
    use super::PlayerCast;

    fn cast() -> PlayerCast {
        PlayerCast { speech: "lines" }
    }

    ftl_testkit::agent_contract!(cast);
}
