//! `ftl sandbox`: what a role may touch here, and one command run as a role would run it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session};
use ftl_engine::sandboxes::{Inhabitant, Sandboxes};
use ftl_folder::id;
use ftl_folder::scratch::{Purpose, Scratch};
use ftl_folder::state_folder::StateFolder;
use ftl_process::sandbox::{Denial, Probe, Reach, Sandbox, SandboxLevel, SandboxRules, probe};
use ftl_process::{
    Cancel, Guard, How, MARK, Mark, ProcessExit, ProcessLimits, Spec, Stdin, Stream, Supervisor, own_orphans,
};
use ftl_settings::environment::CommandKind;
use ftl_settings::sandbox::GrantKey;
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

use crate::cli::{SandboxTry, SandboxVerb};

/// The kind of command that fetches what a checkout needs.
const SETUP: &str = "setup";

/// What programs print when the sandbox has denied them something, and the key that would grant it.
const SIGNS: [(&str, GrantKey); 5] = [
    ("Read-only file system", GrantKey::Write),
    ("Permission denied", GrantKey::Write),
    ("Network is unreachable", GrantKey::Hosts),
    ("Temporary failure in name resolution", GrantKey::Hosts),
    ("Could not resolve host", GrantKey::Hosts),
];

/// How many denials are told.
const MAX_TOLD: usize = 5;

/// Does what one verb says.
pub(crate) fn run(cli: &GlobalArgs, what: &SandboxVerb, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    match what {
        SandboxVerb::Show { role } => show(&place, role, out),
        SandboxVerb::Try(asked) => try_command(&place, asked, out),
    }
}

/// The sandbox of a role for a command in the root of the repository.
fn sandbox_of(
    place: &StateFolder,
    role: &str,
    level: SandboxLevel,
    program: &OsStr,
) -> Result<(Sandbox, Vec<(OsString, OsString)>), CommandError> {
    let config = session::config(place)?;
    let kind = CommandKind::parse(role).unwrap_or(CommandKind::Agent);
    let env = config.environment().of_command(kind);
    let sandboxes = Sandboxes::at(level, config.sandbox().clone(), place);
    let sandbox = sandboxes.make(Inhabitant {
        role,
        folder: place.root(),
        writes: true,
        program,
        env: &env,
        reach: Reach::default(),
        open_network: role == SETUP,
    });
    Ok((sandbox, env))
}

fn show(place: &StateFolder, role: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    let probe = probe(&Guard::own());
    let require = session::config(place)?.sandbox().require();
    let (sandbox, _) = sandbox_of(place, role, probe.level, OsStr::new("sh"))?;
    if out.is_json() {
        out.json(&as_json(role, require, probe, &sandbox.rules))?;
    } else {
        out.text(&as_text(role, require, probe, &sandbox.rules))?;
    }
    Ok(ExitStatus::Done)
}

fn as_json(role: &str, require: SandboxLevel, probe: &Probe, rules: &SandboxRules) -> Json {
    let layers: Vec<Json> = probe
        .tries
        .iter()
        .map(|one| match &one.works {
            Ok(what) => json!({ "layer": one.layer, "works": true, "what": what }),
            Err(lack) => json!({ "layer": one.layer, "works": false, "what": lack.why, "fix": lack.fix }),
        })
        .collect();
    json!({
        "role": role,
        "require": require.word(),
        "best": probe.level.word(),
        "layers": layers,
        "network": if rules.open_network { "open" } else { "own" },
        "read": list_paths(&rules.read),
        "write": list_paths(&rules.write),
        "private": list_paths(&rules.private),
        "cache": list_paths(&rules.caches),
        "hide": list_paths(&rules.hide),
    })
}

/// Paths as text: a name that is no UTF-8 is shown with replacement characters.
fn list_paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn as_text(role: &str, require: SandboxLevel, probe: &Probe, rules: &SandboxRules) -> String {
    let mut text = format!("{} {}\n", paint(paint::STRONG, "sandbox of"), safe(role));
    text.push_str(&format!("  level      {require} is required, {} can be had here\n", probe.level));
    for one in &probe.tries {
        let said = match &one.works {
            Ok(what) => what.clone(),
            Err(lack) => format!("missing: {}; `{}` helps", lack.why, lack.fix),
        };
        text.push_str(&format!("  {:<10} {}\n", one.layer, safe(&said)));
    }
    let network =
        if rules.open_network { "that of the machine" } else { "its own, with a loopback and nothing else" };
    text.push_str(&format!("  network    {network}\n"));
    let lists = [
        ("read", &rules.read),
        ("write", &rules.write),
        ("cache", &rules.caches),
        ("private", &rules.private),
        ("hidden", &rules.hide),
    ];
    for (name, paths) in lists {
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            text.push_str(&format!("  {name:<10} {}\n", safe(&path.display().to_string())));
        }
    }
    text
}

fn try_command(place: &StateFolder, asked: &SandboxTry, out: &Out) -> Result<ExitStatus, CommandError> {
    let probe = probe(&Guard::own());
    let level = asked.level.unwrap_or(probe.level);
    if level > probe.level {
        let lack = probe.lack();
        let why = lack.map_or_else(String::new, |lack| lack.why.clone());
        let hint = lack.map_or_else(String::new, |lack| format!("run `{}`", lack.fix));
        return Err(CommandError {
            exit: ExitStatus::Refused,
            ..CommandError::new(format!("level {level} cannot be had here: {why}"), hint)
        });
    }
    let Some((program, words)) = asked.command.split_first() else {
        return Err(CommandError::usage("no command is given", "write it behind --"));
    };
    let (sandbox, env) = sandbox_of(place, &asked.role, level, program)?;
    let failed = |error: std::io::Error| {
        CommandError::new(format!("no command can be run: {error}"), "run `ftl doctor`")
    };
    own_orphans().map_err(failed)?;
    let scratch = Scratch::make(Purpose::Probe).map_err(failed)?;
    let at = |name: &str| scratch.path().join(name);
    let supervisor = Supervisor::new(Guard::own(), &at("attempts"), &at("spool")).map_err(failed)?;
    let key = format!("try.{:016x}", id::random().map_err(failed)?);
    let spec = Spec {
        program: program.clone(),
        args: words.to_vec(),
        folder: place.root().to_owned(),
        env,
        stdin: Stdin::Null,
        limits: ProcessLimits::default(),
        lock: PathBuf::from(&key),
        fence: None,
        mark: Mark::new(MARK, &key)
            .map_err(|error| CommandError::new(error.to_string(), "please report this"))?,
        sandbox: Some(std::sync::Arc::new(sandbox)),
    };
    let ended = supervisor.run(&spec, &Cancel::new(), &mut |stream, bytes| {
        // What cannot be written to a reader that is gone is nobody's any more.
        if !out.is_json() {
            let text = String::from_utf8_lossy(bytes);
            let _ = match stream {
                Stream::Out => out.text(&text),
                Stream::Err => {
                    out.beside(&text);
                    Ok(())
                }
            };
        }
    });
    let ended = ended.map_err(|error| CommandError::new(error.to_string(), error.hint().unwrap_or("")))?;
    tell(level, &ended, out)
}

/// What was denied, as far as the output of a program shows it.
pub(crate) fn denials(text: &str) -> Vec<Denial> {
    let line = |line: &str| {
        let (_, key) = SIGNS.iter().find(|(sign, _)| line.contains(sign))?;
        Some(Denial { what: line.trim().to_owned(), key: key.word() })
    };
    text.lines().filter_map(line).take(MAX_TOLD).collect()
}

fn tell(level: SandboxLevel, ended: &ProcessExit, out: &Out) -> Result<ExitStatus, CommandError> {
    let denied = if level == SandboxLevel::None { Vec::new() } else { denials(&ended.err.text()) };
    let code = match ended.how {
        How::Exited(code) => Some(code),
        How::Signalled(_) | How::Unknown => None,
    };
    if out.is_json() {
        let denied: Vec<String> = denied.iter().map(Denial::to_string).collect();
        out.json(&json!({
            "level": level.word(),
            "layers": level.layers(),
            "code": code,
            "how": ended.sentence(),
            "stdout": ended.out.text(),
            "stderr": ended.err.text(),
            "denied": denied,
        }))?;
    } else {
        for one in denied {
            out.note(&one.to_string());
        }
        out.note(&format!("level {level}; {}", ended.sentence()));
    }
    Ok(if code == Some(0) { ExitStatus::Done } else { ExitStatus::Error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_the_key_that_grants_it() {
        let text = "ok\ntouch: cannot touch '/etc/x': Read-only file system\ncurl: (6) Could not resolve host: a.org\n";
        let told: Vec<String> = denials(text).iter().map(Denial::to_string).collect();
        let wanted = [
            "denied: touch: cannot touch '/etc/x': Read-only file system (grant: [sandbox] write)",
            "denied: curl: (6) Could not resolve host: a.org (grant: [sandbox] hosts)",
        ];
        assert_eq!(told, wanted);
        assert_eq!(denials(&"x: Permission denied\n".repeat(9)).len(), MAX_TOLD);
    }
}
