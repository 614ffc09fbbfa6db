//! `ftl observer` and the shortcut `observe`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ftl_command::records::{open, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session, signals};
use ftl_core::json::Json;
use ftl_engine::executors::shell::ScriptRunner;
use ftl_process::{Cancel, Guard, Supervisor, own_orphans};
use ftl_records::Records;
use ftl_records::observe;
use ftl_records::observer::{ReverifiedWorkspace, Verifier};

use crate::words::{Analyze, Observer};
use crate::{look, print};

pub(crate) fn run(cli: &GlobalArgs, verb: &Observer, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        Observer::Analyze(asked) => observe(cli, asked, out),
        Observer::VerifyBlocks { workspace_dir, timeout } => {
            let records = open(cli)?;
            let folder = folder(&records, workspace_dir.as_deref());
            let rows = verifying(cli, &records, *timeout, out, |by| {
                with(out, &records, |records| records.verify_blocks(&folder, by))
            })?;
            print(out, &Json::Array(rows.iter().map(ReverifiedWorkspace::to_json).collect()))
        }
        Observer::List { workspace_dir } => {
            let found = match (look(cli)?, workspace_dir) {
                (Some(records), named) => {
                    let folder = folder(&records, named.as_deref());
                    with(out, &records, |records| records.list_workspaces(&folder))?
                }
                (None, Some(folder)) => with(out, &open(cli)?, |records| records.list_workspaces(folder))?,
                (None, None) => Vec::new(),
            };
            let names: Vec<String> = found.iter().map(ToString::to_string).collect();
            print(out, &observe::list(names.iter().map(String::as_str)))
        }
        Observer::Score { path } => print(out, &with(out, &open(cli)?, |records| records.score(path))?),
        Observer::ExtractFailure { path } => {
            let workspace = crate::workspace::parsed(cli, path, out)?;
            print(out, &observe::failure(&workspace, None).to_json())
        }
    }
}

/// `ftl observer analyze`, also called `ftl observe`.
pub(crate) fn observe(cli: &GlobalArgs, asked: &Analyze, out: &Out) -> Result<ExitStatus, CommandError> {
    let records = open(cli)?;
    let folder = folder(&records, asked.workspace_dir.as_deref());
    if asked.no_verify {
        return print(out, &with(out, &records, |records| records.analyze(&folder, None))?);
    }
    let analysis = verifying(cli, &records, asked.timeout, out, |by| {
        with(out, &records, |records| records.analyze(&folder, Some(by)))
    })?;
    print(out, &analysis)
}

fn folder(records: &Records, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| records.workspace_folder(), Path::to_owned)
}

/// Runs commands of workspaces: each in a process tree of its own, all of them ended by a signal.
fn verifying<T>(
    cli: &GlobalArgs,
    records: &Records,
    timeout: u64,
    out: &Out,
    work: impl FnOnce(&Verifier<'_>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let place = session::place(cli)?;
    let config = session::config(&place)?;
    let cannot = |error: std::io::Error| {
        CommandError::new(format!("no command can be run: {error}"), "run `ftl doctor`")
    };
    own_orphans().map_err(cannot)?;
    let supervisor = Supervisor::new(Guard::own(), &place.attempts(), &place.spool()).map_err(cannot)?;
    let supervisor = supervisor.hiding(ftl_engine::session::secrets(&config, place.root()));
    let limits = config.command_limits();
    let shell = ScriptRunner::new(Arc::new(supervisor), records.store().clone(), &place, limits, limits);
    let shell = shell.in_environment(config.environment());
    let cancel = Cancel::new();
    let stop = signals::stop(out)?;
    let done = std::thread::scope(|scope| {
        let (finished, ended) = std::sync::mpsc::channel::<()>();
        let (stop, cancel) = (&stop, &cancel);
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_millis(50))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                if stop.times_said() > 0 {
                    cancel.cancel();
                }
            }
        });
        let timeout = Duration::from_secs(timeout.max(1));
        let done = work(&Verifier { runs: &|command| shell.once(command, timeout, cancel) });
        drop(finished);
        done
    })?;
    if stop.times_said() > 0 {
        return Err(CommandError {
            exit: ExitStatus::Interrupted,
            ..CommandError::new("interrupted", "nothing was learned")
        });
    }
    Ok(done)
}
