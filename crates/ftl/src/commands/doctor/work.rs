//! "Can I work?": git and a commit, agents that are bound and can be used, tests that are found and can be collected, and
//! with `--deep` whether they pass on the commit that work would begin from. Each with the command that mends it.
//!
//! Nothing of the person's changes: the tests run in a clone that goes away again. No model is asked.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ftl_code::commands::Commands;
use ftl_code::commands::look::{self, ProbeFolder, ProbeOutput, ProbeReport};
use ftl_command::session;
use ftl_core::catalogue::build::VerifyOutcome;
use ftl_doctor::{Area, DoctorFinding, Level};
use ftl_folder::scratch::{Purpose, Scratch};
use ftl_folder::state_folder::StateFolder;
use ftl_gates::CommandPlace;
use ftl_gates::verify::{self, RepeatPolicy};
use ftl_git::{GitError, SlotPlace};
use ftl_process::{Cancel, Guard, How, ProcessLimits, Supervisor, own_orphans, sandbox};
use ftl_settings::config::Config;
use ftl_settings::environment::CommandKind;
use ftl_settings::roster::{AgentKind, AgentSettings, Hall, Roster};
use ftl_store::MemoryStore;
use ftl_view::paint;

use crate::commands::flow::needs_git;

/// How long a server on this machine may take to answer.
const MAX_KNOCK: Duration = Duration::from_millis(500);

/// Looks whether a run could begin to work here.
pub(super) fn examine(place: &StateFolder, config: &Config, deep: bool) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    let has_git = repository(place, &mut found);
    if has_git {
        checkouts(place, config, &mut found);
    }
    agents(config, &mut found);
    layers(config, &mut found);
    let commands = config.commands().or_found(place.root());
    let workroom = Workroom::make(config).ok();
    let can_run = tests(place, config, (&commands, workroom.as_ref()), &mut found);
    if deep && has_git && can_run && session::inside_agent(place).is_none() {
        base(place, (&commands, workroom.as_ref()), &mut found);
    }
    found
}

/// Whether everything is there that work needs.
pub(super) fn is_ready(found: &[DoctorFinding]) -> bool {
    found.iter().all(|finding| matches!(finding.level, Level::Fine | Level::Mended))
}

fn fine(area: Area, text: impl Into<String>) -> DoctorFinding {
    DoctorFinding { area, level: Level::Fine, text: text.into(), hint: None }
}

fn look_at(area: Area, text: impl Into<String>, hint: impl Into<String>) -> DoctorFinding {
    DoctorFinding { area, level: Level::Look, text: text.into(), hint: Some(hint.into()) }
}

fn repository(place: &StateFolder, found: &mut Vec<DoctorFinding>) -> bool {
    match needs_git(place) {
        Ok(()) => {
            found.push(fine(Area::Repository, "git is there, and there is a commit to work from"));
            true
        }
        Err(failure) => {
            found.push(look_at(Area::Repository, failure.message, failure.hint));
            false
        }
    }
}

/// Where work is verified, and whether what it needs is found from there.
fn checkouts(place: &StateFolder, config: &Config, found: &mut Vec<DoctorFinding>) {
    let settings = &config.settings().worktree;
    let named = Some(settings.slots.trim()).filter(|path| !path.is_empty()).map(PathBuf::from);
    match SlotPlace::planned(place, named) {
        Ok(slots) => {
            let text = format!("work is verified in checkouts below {}", slots.path().display());
            let why = slots.aside().map(|why| format!(", because {why}")).unwrap_or_default();
            found.push(fine(Area::Repository, format!("{text}{why}")));
        }
        Err(error) => {
            let hint = error.hint.clone().unwrap_or_else(|| String::from("see who may write there"));
            found.push(look_at(Area::Repository, error.message, hint));
        }
    }
    if settings.setup.trim().is_empty()
        && let Some(command) = installs_modules(place.root())
    {
        let text = "`node_modules` of your checkout is not found from a checkout in which work is verified";
        let hint = format!("have each one set up: setup = \"{command}\" under [worktree] in ftl.toml");
        found.push(look_at(Area::Tests, text, hint));
    }
}

/// The command that installs the packages which lie in `node_modules` of a checkout, where there are any.
fn installs_modules(root: &Path) -> Option<&'static str> {
    let is_there = |name: &str| root.join(name).exists();
    if !is_there("package.json") || !root.join("node_modules").is_dir() {
        return None;
    }
    let locks = [
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("bun.lock", "bun install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
    ];
    let known = locks.iter().find(|(lock, _)| is_there(lock));
    Some(known.map_or("npm install", |(_, command)| command))
}

/// Whether the sandbox that the settings ask for can be had, tried layer by layer.
fn layers(config: &Config, found: &mut Vec<DoctorFinding>) {
    let require = config.sandbox().require();
    if require == sandbox::SandboxLevel::None {
        return;
    }
    let probe = sandbox::probe(&Guard::own());
    for one in &probe.tries {
        match &one.works {
            Ok(what) => found.push(fine(Area::Agents, format!("sandbox: {} works ({what})", one.layer))),
            Err(lack) => {
                let hint = format!("run `{}`, or ask for less with `require` under [sandbox]", lack.fix);
                found.push(look_at(Area::Agents, format!("sandbox: no {}: {}", one.layer, lack.why), hint));
            }
        }
    }
}

fn agents(config: &Config, found: &mut Vec<DoctorFinding>) {
    let Ok(roster) = config.roster() else { return };
    let variable = |name: &str| std::env::var(name).ok();
    let hall = Hall::new(&roster, &variable, &std::env::temp_dir());
    let missing: Vec<&str> = ["planner", "builder", "coder", "architect"]
        .into_iter()
        .filter(|role| roster.role(role).is_none())
        .collect();
    if missing.len() == 4 {
        let hint =
            "`ftl init` finds agents; or name one: default = \"NAME\" under [roles] in .ftl/config.toml";
        found.push(look_at(Area::Agents, "no role is bound to an agent", hint));
        return;
    }
    let mut used: Vec<&AgentSettings> =
        roster.roles().filter_map(|(_, bound)| roster.agent(&bound.agent)).collect();
    used.dedup_by(|one, other| one.name == other.name);
    used.sort_by(|one, other| one.name.cmp(&other.name));
    used.dedup_by(|one, other| one.name == other.name);
    for agent in used {
        found.push(reached(agent, &roster, &hall));
    }
    if !missing.is_empty() {
        let text = format!("nobody is bound to {}", missing.join(", "));
        found.push(look_at(
            Area::Agents,
            text,
            "name an agent for each, or default, under [roles] in .ftl/config.toml",
        ));
    }
}

/// Whether an agent can be used, as far as that can be told without asking it.
fn reached(agent: &AgentSettings, roster: &Roster, hall: &Hall<'_>) -> DoctorFinding {
    let name = &agent.name;
    let roles: Vec<&str> =
        roster.roles().filter(|(_, bound)| bound.agent == *name).map(|(role, _)| role).collect();
    if let Some(program) = hall.missing_program(agent) {
        let hint = format!("install it, or say where it is: program = \"/…\" under [agents.{name}]");
        return look_at(
            Area::Agents,
            format!("there is no program `{program}`, which the agent `{name}` starts"),
            hint,
        );
    }
    let usable = answers(agent)
        .and_then(|()| hall.backend(agent).map_err(|error| error.to_string()))
        .and_then(|backend| backend.probe().usable.map_err(|why| why.to_string()));
    if let Err(why) = usable {
        return look_at(
            Area::Agents,
            format!("`{name}` cannot be used: {why}"),
            format!("`ftl agents probe {name}` tries it again"),
        );
    }
    fine(
        Area::Agents,
        format!("`{name}` is there, for {}; `ftl agents probe {name}` asks it", roles.join(", ")),
    )
}

/// Whether a server of models on this machine listens. One that is elsewhere is not tried.
fn answers(agent: &AgentSettings) -> Result<(), String> {
    let AgentKind::Model(service) = &agent.kind else { return Ok(()) };
    let Some(rest) = service.url.strip_prefix("http://") else { return Ok(()) };
    let host = rest.split('/').next().unwrap_or(rest);
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = host.to_socket_addrs().ok().and_then(|mut all| all.next());
    let Some(address) = address.filter(|address| address.ip().is_loopback()) else { return Ok(()) };
    TcpStream::connect_timeout(&address, MAX_KNOCK)
        .map(|_| ())
        .map_err(|error| format!("nothing listens at {}: {error}", service.url))
}

fn tests(
    place: &StateFolder,
    config: &Config,
    (commands, workroom): (&Commands, Option<&Workroom>),
    found: &mut Vec<DoctorFinding>,
) -> bool {
    if commands.tests.is_empty() {
        let hint = "say how it is tested: tests = [\"…\"] under [worktree] in ftl.toml; `ftl init` writes what it finds";
        found.push(look_at(Area::Tests, "nothing here says how to test it", hint));
        return false;
    }
    let env = config.environment().of_delivery();
    let mut run = |command: &str| {
        let ended = workroom.and_then(|room| room.run(place.root(), command, &env));
        ended.and_then(|ended| ProbeOutput::of(&ended))
    };
    let at = ProbeFolder { folder: place.root(), made: &[], env: &env };
    let more_told = match look::look(&commands.tests, at, &mut run) {
        ProbeReport::Broken(why) => {
            found.push(look_at(Area::Tests, why, look::HINT));
            return false;
        }
        ProbeReport::NoTests(why) => format!("; {why} yet"),
        ProbeReport::Fine => String::new(),
    };
    let named = |one: &String| format!("`{one}` ({})", commands.origin(one));
    let mut text = format!("tested by {}", commands.tests.iter().map(named).collect::<Vec<_>>().join(", "));
    let more = [("set up", &commands.setup), ("built", &commands.build)];
    for (what, command) in more.iter().filter_map(|(what, one)| one.as_ref().map(|one| (what, one))) {
        text.push_str(&format!("; {what} by {}", named(command)));
    }
    if !commands.lints.is_empty() {
        text.push_str(&format!(
            "; linted by {}",
            commands.lints.iter().map(named).collect::<Vec<_>>().join(", ")
        ));
    }
    text.push_str(&more_told);
    found.push(fine(Area::Tests, text));
    true
}

/// Whether the tests pass on the commit that work would begin from.
fn base(
    place: &StateFolder,
    (commands, workroom): (&Commands, Option<&Workroom>),
    found: &mut Vec<DoctorFinding>,
) {
    let Some(room) = workroom else { return };
    match room.base(place, commands) {
        Ok(summary) => found.push(fine(Area::Base, format!("the tests pass on HEAD: {summary}"))),
        Err(why) => {
            let hint =
                "mend them or commit what is missing; work on a red base is compared with it, and goes on";
            found.push(look_at(
                Area::Base,
                format!("the tests do not pass on a clean checkout of HEAD: {why}"),
                hint,
            ));
        }
    }
}

/// A folder for a clone, and who runs commands in it.
struct Workroom {
    folder: Scratch,
    supervisor: Arc<Supervisor>,
    store: MemoryStore,
    config: Config,
}

impl Workroom {
    fn make(config: &Config) -> std::io::Result<Workroom> {
        own_orphans()?;
        let folder = Scratch::make(Purpose::Probe)?;
        let at = |name: &str| folder.path().join(name);
        let supervisor = Arc::new(Supervisor::new(Guard::own(), &at("attempts"), &at("spool"))?);
        Ok(Workroom { folder, supervisor, store: MemoryStore::new(), config: config.clone() })
    }

    fn command_place(
        &self,
        folder: PathBuf,
        what: &str,
        limits: ProcessLimits,
        env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    ) -> CommandPlace<'_> {
        let key = format!("doctor.{what}");
        let (fence, sandbox) = (None, None);
        CommandPlace {
            supervisor: &self.supervisor,
            store: &self.store,
            folder,
            key,
            fence,
            limits,
            env,
            sandbox,
        }
    }

    /// Runs one command that only looks.
    fn run(
        &self,
        folder: &Path,
        command: &str,
        env: &[(std::ffi::OsString, std::ffi::OsString)],
    ) -> Option<ftl_process::ProcessExit> {
        let limits = ProcessLimits { hard: Some(look::MAX_LOOK), ..self.config.command_limits() };
        self.command_place(folder.to_owned(), "look", limits, env.to_vec())
            .shell(command, &Cancel::new())
            .ok()
    }

    /// What the tests say on a clean clone of HEAD.
    fn base(&self, place: &StateFolder, commands: &Commands) -> Result<String, String> {
        let top = printed(ftl_git::ask(place.root(), &["rev-parse", "--show-toplevel"]))?;
        let prefix = printed(ftl_git::ask(place.root(), &["rev-parse", "--show-prefix"]))?;
        let clone = self.folder.path().join("clone");
        printed(ftl_git::clone_shared(Path::new(&top), &clone))?;
        let folder = clone.join(prefix);
        let setup = self.config.settings().worktree.setup.trim().to_owned();
        if !setup.is_empty() {
            let env = self.config.environment().of_command(CommandKind::Setup);
            let command_place =
                self.command_place(folder.clone(), "setup", self.config.command_limits(), env);
            let ended = command_place.shell(&setup, &Cancel::new()).map_err(|error| error.to_string())?;
            if ended.cut.is_some() || ended.how != How::Exited(0) {
                return Err(format!("`{setup}`: {}", ended.sentence()));
            }
        }
        let mut said = Vec::new();
        for command in &commands.tests {
            let env = self.config.environment().of_command(CommandKind::Tests);
            let command_place = self.command_place(folder.clone(), "base", self.config.command_limits(), env);
            let ran = verify::run(&command_place, command, "HEAD", RepeatPolicy::default(), &Cancel::new())
                .map_err(|why| format!("`{command}`: {why}"))?;
            let first = ran.summary.lines().next().unwrap_or_default().to_owned();
            match ran.outcome {
                VerifyOutcome::Passed => said.push(first),
                VerifyOutcome::Failed | VerifyOutcome::Flaky | VerifyOutcome::NoTests => {
                    return Err(format!("`{command}`: {first}"));
                }
            }
        }
        Ok(said.join("; "))
    }
}

/// What git printed, or the first line of why it did not succeed.
fn printed(answer: Result<ftl_git::GitAnswer, GitError>) -> Result<String, String> {
    let answer = answer.map_err(|error| format!("git cannot be run: {error}"))?;
    let why = || answer.said.lines().next().unwrap_or("git failed").to_owned();
    answer.text().ok_or_else(why)
}

/// Whether one can work, in the last line.
pub(super) fn verdict(found: &[DoctorFinding]) -> String {
    let missing =
        found.iter().filter(|finding| finding.level == Level::Look || finding.level == Level::Broken).count();
    match missing {
        0 => paint::paint(paint::GOOD, "ready to work"),
        _ => paint::paint(
            paint::WARNING,
            format!("not ready to work: {} to see to", paint::count(missing, "thing")),
        ),
    }
}
