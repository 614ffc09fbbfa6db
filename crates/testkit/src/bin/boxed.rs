//! Runs one command in a sandbox, as the engine would. It exists for the tests of sandboxes, which start it as one user
//! and as another: `ftl-boxed GUARD LEVEL REPOSITORY WORKTREE ATTEMPTS -- PROGRAM WORDS…`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a stage property of the tests: when it cannot do what it is told, it dies loudly"
)]

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ftl_engine::sandboxes::{Inhabitant, Sandboxes};
use ftl_folder::state_folder::StateFolder;
use ftl_process::sandbox::{Reach, SandboxLevel};
use ftl_process::{
    Cancel, Guard, How, MARK, Mark, ProcessLimits, Spec, Stdin, Stream, Supervisor, own_orphans,
};
use ftl_settings::sandbox::SandboxSettings;

fn main() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [guard, level, repository, worktree, attempts, _, program, rest @ ..] = words.as_slice() else {
        panic!("GUARD LEVEL REPOSITORY WORKTREE ATTEMPTS -- PROGRAM WORDS…");
    };
    own_orphans().unwrap();
    let level = SandboxLevel::parse(level.to_str().unwrap()).unwrap();
    let guard = Guard::of(Path::new(guard));
    let attempts = PathBuf::from(attempts);
    let supervisor = Supervisor::new(guard, &attempts.join("attempts"), &attempts.join("spool")).unwrap();
    let env: Vec<(OsString, OsString)> =
        ["PATH", "HOME"].iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect();
    let place = StateFolder::at(PathBuf::from(repository));
    let sandboxes = Sandboxes::at(level, SandboxSettings::default(), &place);
    let sandbox = sandboxes.around(Inhabitant {
        role: "builder",
        folder: Path::new(worktree),
        writes: true,
        program,
        env: &env,
        reach: Reach::default(),
        open_network: false,
    });
    let key = format!("boxed.{:016x}", ftl_folder::id::random().unwrap());
    let spec = Spec {
        program: program.clone(),
        args: rest.to_vec(),
        folder: PathBuf::from(worktree),
        env,
        stdin: Stdin::Null,
        limits: ProcessLimits::default(),
        lock: PathBuf::from(&key),
        fence: None,
        mark: Mark::new(MARK, &key).unwrap(),
        sandbox,
    };
    let mut hear = |stream: Stream, bytes: &[u8]| match stream {
        Stream::Out => io::stdout().write_all(bytes).unwrap(),
        Stream::Err => io::stderr().write_all(bytes).unwrap(),
    };
    let ended = supervisor.run(&spec, &Cancel::new(), &mut hear);
    io::stdout().flush().unwrap();
    match ended.map(|ended| ended.how) {
        Ok(How::Exited(code)) => std::process::exit(code),
        Ok(how) => panic!("{how}"),
        Err(error) => panic!("{error}"),
    }
}
