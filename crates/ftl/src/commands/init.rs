//! `ftl init`: finds out how the repository is tested and what agents there are on this machine, and writes two commented
//! files of settings: `ftl.toml`, which belongs to the repository, and `.ftl/config.toml`, which git does not see.
//!
//! It starts nothing, reads no key's value, and never replaces a file.

mod found;

use std::path::{Path, PathBuf};

use ftl_code::commands::Commands;
use ftl_folder as folder;
use ftl_folder::state_folder::StateFolder;
use ftl_settings::config::Config;
use serde_json::{Value as Json, json};

pub(super) use found::on_path;
use found::{Found, INSTALLS};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, session, trust};

use crate::cli::Init;

/// Budgets of a build that fit the agents of today, with the reason.
const BUDGETS: &str = "# What one build may do. The protocol's own numbers (5 tools, 3 in DIRECT, no repair) are for scripts; an agent reads before\n\
    # it edits, and uses 15 to 60 calls for a small change.\n[builder]\n\
    tools = 40               # files read or written, and commands\n\
    repairs = 2              # how often a red verify goes back to its author\n\
    plan_reads = 12          # files that it may read while it plans\n\
    direct = \"never\"         # three tools are too few for who reads first: DIRECT would only cost a second attempt\n\n";

/// Writes the files of settings that are not there.
pub(crate) fn run(cli: &GlobalArgs, asked: &Init, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let found = found::detect_agents();
    let commands = Commands::default().or_found(place.root());
    let (shared, own) = (shared_text(&commands), own_text(&found));
    if asked.print {
        return print(&shared, &own, out);
    }
    session::not_root_elsewhere(&place)?;
    let files = [(place.shared_config(), shared), (place.config(), own)];
    let wanted: Vec<&(PathBuf, String)> =
        files.iter().filter(|(file, _)| file.symlink_metadata().is_err()).collect();
    if wanted.is_empty() || (wanted.len() == 1 && binds_roles(&place)) {
        let message = format!("there is {} already", place.shared_config().display());
        return Err(CommandError::new(
            message,
            "`ftl init --print` shows what would be written; `ftl config` what holds",
        ));
    }
    for (file, text) in &wanted {
        put(&place, file, text)?;
    }
    let written: Vec<&Path> = wanted.iter().map(|(file, _)| file.as_path()).collect();
    let has_own = written.contains(&place.config().as_path());
    let bound = found.iter().find(|one| one.ready && has_own).map(|one| one.name.as_str());
    if out.is_json() {
        out.json(&as_json(&place, &written, (&found, &commands), bound))?;
    } else {
        out.text(&render_summary(&written, &found, &commands, bound))?;
    }
    Ok(ExitStatus::Done)
}

/// Whether the settings that are there bind roles already: another file would change what they mean.
fn binds_roles(place: &StateFolder) -> bool {
    let roster = Config::load(&[place.shared_config(), place.config()]).and_then(|config| config.roster());
    roster.is_ok_and(|roster| !roster.is_empty())
}

fn put(place: &StateFolder, file: &Path, text: &str) -> Result<(), CommandError> {
    let cannot = |error: std::io::Error| {
        CommandError::new(format!("{} cannot be written: {error}", file.display()), "see who may write there")
    };
    if file.starts_with(place.state()) {
        folder::make(&place.state()).map_err(cannot)?;
        place.exclude().map_err(cannot)?;
    }
    ftl_folder::replace_own(file, text.as_bytes()).map_err(cannot)?;
    // What is written here is trusted, also once it is committed.
    match file == place.shared_config() {
        true => trust::record_written(&Config::default(), file, text.as_bytes()),
        false => Ok(()),
    }
}

fn print(shared: &str, own: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    if out.is_json() {
        out.json(&json!({ "ftl.toml": shared, ".ftl/config.toml": own }))?;
    } else {
        out.bytes(&format!("# ftl.toml\n\n{shared}\n# .ftl/config.toml\n\n{own}"))?;
    }
    Ok(ExitStatus::Done)
}

fn as_json(
    place: &StateFolder,
    written: &[&Path],
    (found, commands): (&[Found], &Commands),
    bound: Option<&str>,
) -> Json {
    let row = |one: &Found| json!({ "name": one.name, "how": one.how, "ready": one.ready });
    let rows: Vec<Json> = found.iter().map(row).collect();
    let known: Vec<Json> =
        INSTALLS.iter().map(|(name, install)| json!({ "name": name, "install": install })).collect();
    json!({
        "file": place.shared_config(), "files": written, "found": rows, "bound": bound, "known": known,
        "commands": { "setup": commands.setup, "build": commands.build, "tests": commands.tests, "lints": commands.lints },
    })
}

/// What was found and written, and what to do next.
fn render_summary(written: &[&Path], found: &[Found], commands: &Commands, bound: Option<&str>) -> String {
    let mut said: String = found.iter().map(|one| format!("found {}: {}\n", one.name, one.how)).collect();
    if found.is_empty() {
        said.push_str("found no agent, no key and no server of models\n");
    }
    let missing = INSTALLS.iter().filter(|(name, _)| found.iter().all(|one| one.name != *name));
    match found.iter().any(|one| INSTALLS.iter().any(|(name, _)| one.name == *name)) {
        true => {
            let names: Vec<&str> = missing.map(|(name, _)| *name).collect();
            if !names.is_empty() {
                said.push_str(&format!("not here, but known: {}\n", names.join(", ")));
            }
        }
        false => missing.for_each(|(name, install)| said.push_str(&format!("to get {name}: {install}\n"))),
    }
    match commands.tests.as_slice() {
        [] => said.push_str("found no tests: set tests under [worktree] in ftl.toml\n"),
        tests => {
            let named = |one: &String| format!("{one} ({})", commands.origin(one));
            let tests: Vec<String> = tests.iter().map(named).collect();
            said.push_str(&format!("found tests: {}\n", tests.join(", ")));
        }
    }
    for file in written {
        said.push_str(&format!("wrote {}\n", file.display()));
    }
    said.push_str(&match bound {
        Some(name) => {
            format!("every role but explorer is bound to {name}; `ftl agents probe {name}` tries it\n")
        }
        None if written.iter().any(|file| file.ends_with(".ftl/config.toml")) => String::from(
            "no role is bound yet: describe an agent in .ftl/config.toml and name it under [roles]\n",
        ),
        None => String::new(),
    });
    said.push_str("`ftl doctor` says whether you can work\n");
    said
}

/// The file that belongs to the repository.
fn shared_text(commands: &Commands) -> String {
    let mut text = String::from(
        "# Settings of ftl that belong to this repository; commit this file. `ftl config` shows every value and where it\n\
         # comes from. Agents and paths of your machine stand in .ftl/config.toml, which git does not see and which wins.\n\n\
         # How this repository is set up, built, tested and linted: for stories, planners and `ftl doctor`.\n[worktree]\n",
    );
    let one = |key: &str, command: &Option<String>, empty: &str| match command {
        Some(command) => format!("{key} = {}    # found in {}\n", json!(command), commands.origin(command)),
        None => format!("# {key} = \"…\"    # {empty}\n"),
    };
    let many = |key: &str, all: &[String], empty: &str| match all {
        [] => format!("# {key} = [\"…\"]    # {empty}\n"),
        all => format!("{key} = {}    # found in {}\n", json!(all), commands.origin(&all[0])),
    };
    text.push_str(&one(
        "setup",
        &commands.setup,
        "makes a new worktree ready, run once in each; nothing was found",
    ));
    text.push_str(&one("build", &commands.build, "builds it; nothing was found"));
    text.push_str(&many("tests", &commands.tests, "test it; nothing here says how, and ftl needs to know"));
    text.push_str(&many("lints", &commands.lints, "check format and lints; nothing was found"));
    text.push_str(
        "\n# Variables that commands get beside toolchain homes, proxies, locale and CI; secrets only in .ftl/config.toml.\n\
         [environment]\n# pass = [\"DATABASE_HOST\"]\n# set = { RUST_BACKTRACE = \"1\" }\n",
    );
    text
}

/// The file of this machine.
fn own_text(found: &[Found]) -> String {
    let mut text = String::from(
        "# Settings of ftl for this copy of the repository: agents and what belongs to this machine. Git does not see this\n\
         # file, and it wins over ftl.toml. `ftl config` shows every value and where it comes from.\n\n\
         # Who answers which role: builder, planner, observer, coder, architect, reviewers. Code explores without an agent;\n\
         # explorer = \"NAME\" has four conversations more look around before each plan.\n[roles]\n",
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
    text.push_str(BUDGETS);
    text.push_str(
        "# What one run may use. A cap is a cap: an agent that would go beyond it is ended.\n[limits]\n\
         # tokens = \"5M\"\n# money = 20\n# time = \"8h\"\n# turns = 2000\n",
    );
    text
}
