//! `ftl agents`: who is configured, whether they can be reached, and what each of them enforces.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ftl_agents::contract::{
    AgentAnswer, Backend, ChargeRefusal, Counted, Enforced, PartKind, PromptPart, Said, SessionHost,
    SessionLimits, SessionOrder, TURNS, Verdict, converse,
};
use ftl_agents::schema::Schema;
use ftl_agents::toolset::SUBMIT;
use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::session::session_failure;
use ftl_command::trust::{self, TrustScope};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, records, session};
use ftl_core::amount::Unit;
use ftl_core::run::Usage;
use ftl_core::tool_policy::{Ruling, ToolAllowance, ToolCall, rule};
use ftl_core::value::Name;
use ftl_engine::executors::record::{self, RecordingError};
use ftl_engine::executors::recorded_script::script_of;
use ftl_engine::session::find;
use ftl_folder::scratch::{Purpose, Scratch};
use ftl_process::{Guard, Supervisor};
use ftl_settings::roster::UNBOUND;
use ftl_settings::roster::{AgentSettings, Hall, Pricing, Roster};
use ftl_store::Store;
use ftl_view::paint::{self, joined, paint, safe};
use serde_json::{Value as Json, json};

use crate::cli;

/// What is said to an agent that is probed: as little as possible.
const PROBE: &str =
    "This is a test of the connection. Call `submit` with {\"ok\": true} at once, and do nothing else.";

/// Shows every agent, probes one, or makes a script of a run.
pub(crate) fn run(cli: &GlobalArgs, asked: &cli::Agents, out: &Out) -> Result<ExitStatus, CommandError> {
    match &asked.what {
        None => show(cli, out),
        Some(cli::AgentsVerb::Probe { name }) => probe(cli, name, out),
        Some(cli::AgentsVerb::Record { id, out: file }) => record(cli, id, file.as_deref(), out),
    }
}

fn roster(cli: &GlobalArgs) -> Result<Roster, CommandError> {
    let config = session::config(&session::place(cli)?)?;
    config.roster().map_err(|error| CommandError::new(error.to_string(), error.hint))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What is known of an agent.
struct Row {
    name: String,
    kind: &'static str,
    model: Option<String>,
    roles: Vec<String>,
    usable: Result<(), String>,
    what: String,
    enforced: Result<Enforced, String>,
    accept: Vec<&'static str>,
    pricing: Pricing,
    origin: String,
}

impl Row {
    fn of(agent: &AgentSettings, roster: &Roster, hall: &Hall<'_>) -> Row {
        let roles = roster.roles().filter(|(_, bound)| bound.agent == agent.name);
        let (usable, what) = match hall.backend(agent) {
            Ok(backend) => {
                let probe = backend.probe();
                (probe.usable.map_err(|why| why.to_string()), probe.what)
            }
            Err(error) => (Err(error.to_string()), String::new()),
        };
        Row {
            name: agent.name.clone(),
            kind: agent.kind.word(),
            model: agent.model().map(str::to_owned),
            roles: roles.map(|(role, _)| role.to_owned()).collect(),
            usable,
            what,
            enforced: hall.enforces(agent).map_err(|error| error.to_string()),
            accept: agent.accept.iter().map(|need| need.word()).collect(),
            pricing: agent.pricing,
            origin: agent.origin.to_string(),
        }
    }

    fn json(&self) -> Json {
        let enforced = self.enforced.as_ref().ok().map(|one| {
            json!({ "calls": one.calls.word(), "paths": one.paths, "commands": one.commands, "tokens": one.tokens,
                "money": one.money, "cancel": one.cancel, "resume": one.resume, "structured": one.structured })
        });
        json!({ "name": self.name, "kind": self.kind, "model": self.model, "roles": self.roles,
            "usable": self.usable.is_ok(), "why": self.usable.as_ref().err(), "what": self.what,
            "enforced": enforced, "accept": self.accept, "price": self.pricing.word(), "origin": self.origin })
    }

    fn text(&self) -> String {
        let roles = if self.roles.is_empty() { "no role".to_owned() } else { self.roles.join(", ") };
        let model = self.model.as_ref().map(|model| format!(" {model}")).unwrap_or_default();
        let state = match &self.usable {
            Ok(()) => paint(paint::GOOD, "ready"),
            Err(_) => paint(paint::ERROR, "not usable"),
        };
        let mut text = format!(
            "{} {}{}  {state}  {}\n",
            paint(paint::STRONG, safe(&self.name)),
            self.kind,
            safe(&model),
            paint(paint::QUIET, format!("for {}", safe(&roles)))
        );
        let about = match &self.usable {
            Ok(()) => self.what.clone(),
            Err(why) => why.clone(),
        };
        if !about.is_empty() {
            text.push_str(&format!("  {}\n", safe(&about)));
        }
        match &self.enforced {
            Ok(enforced) => {
                text.push_str(&format!("{}{}", table(enforced, &self.accept), price(self.pricing)));
            }
            Err(why) if self.usable.is_ok() => text.push_str(&format!("  {}\n", safe(why))),
            Err(_) => {}
        }
        text
    }
}

/// What is charged where the person says so.
fn price(pricing: Pricing) -> &'static str {
    match pricing {
        Pricing::Reported => "",
        Pricing::Free => "  money     it costs nothing\n",
        Pricing::Subscription => "  money     a subscription pays for it\n",
        Pricing::Unknown => "  money     unknown, and not guessed: tokens and turns are the cap\n",
    }
}

/// What is enforced, in two lines.
fn table(enforced: &Enforced, accept: &[&str]) -> String {
    let calls = match enforced.calls {
        Counted::Before => "counted before they are made",
        Counted::After => "counted when they were made",
        Counted::Never => "not counted",
    };
    let flags = [
        ("paths", enforced.paths),
        ("commands kept to paths", enforced.commands),
        ("tokens", enforced.tokens),
        ("money", enforced.money),
        ("cancel", enforced.cancel),
        ("resume", enforced.resume),
        ("shape of the answer", enforced.structured),
    ];
    let list = |wanted: bool| -> String {
        let names: Vec<&str> = flags.iter().filter(|(_, is)| *is == wanted).map(|(name, _)| *name).collect();
        if names.is_empty() { String::from("nothing") } else { names.join(", ") }
    };
    let mut text = format!("  calls     {calls}\n  enforced  {}\n  not       {}\n", list(true), list(false));
    if !accept.is_empty() {
        text.push_str(&format!("  accepted  {}\n", accept.join(", ")));
    }
    text
}

fn show(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let roster = roster(cli)?;
    let hall = Hall::new(&roster, &variable, &std::env::temp_dir());
    let rows: Vec<Row> = roster.agents().map(|agent| Row::of(agent, &roster, &hall)).collect();
    if out.is_json() {
        let roles: serde_json::Map<String, Json> = roster
            .roles()
            .map(|(role, bound)| (role.to_owned(), json!({ "agent": bound.agent, "model": bound.model })))
            .collect();
        out.json(&json!({ "agents": rows.iter().map(Row::json).collect::<Vec<_>>(), "roles": roles }))?;
        return Ok(ExitStatus::Done);
    }
    if rows.is_empty() {
        out.text(&format!("no agent is configured: {UNBOUND}\n"))?;
        return Ok(ExitStatus::Done);
    }
    let texts: Vec<String> = rows.iter().map(Row::text).collect();
    out.text(&texts.join("\n"))?;
    Ok(ExitStatus::Done)
}

fn agent<'a>(roster: &'a Roster, name: &str) -> Result<&'a AgentSettings, CommandError> {
    roster.agent(name).ok_or_else(|| {
        let names: Vec<&str> = roster.agents().map(|one| one.name.as_str()).collect();
        let hint = match names.is_empty() {
            true => UNBOUND.to_owned(),
            false => format!("there is {}", names.join(", ")),
        };
        CommandError::new(format!("there is no agent `{name}`"), hint)
    })
}

/// A session host that lets an agent submit and nothing else, and adds up what it used.
struct Bell {
    allowance: ToolAllowance,
    used: Mutex<Usage>,
    cancelled: AtomicBool,
    /// Whether its sessions can be taken up again.
    resumes: AtomicBool,
}

impl SessionHost for Bell {
    fn rule(&self, call: &ToolCall) -> Verdict {
        match rule(&self.allowance, 0, call) {
            Ruling::Allow => Verdict::Allow,
            Ruling::Deny(why) | Ruling::Ask(why) => Verdict::Deny(why),
        }
    }

    fn charge(&self, usage: &Usage) -> Result<(), ChargeRefusal> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (meter, amount) in usage {
            *used.entry(meter.clone()).or_default() += amount;
        }
        Ok(())
    }

    fn say(&self, _: Said<'_>) {}

    fn on_session_opened(&self, _: &str) {
        self.resumes.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

fn probe(cli: &GlobalArgs, name: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let roster = roster(cli)?;
    let agent = agent(&roster, name)?;
    let (config, library) = (session::config(&place)?, LoadedProtocols::load(cli)?.library);
    trust::require(
        &trust::Orders { place: &place, config: &config, library: &library },
        TrustScope::Agent(name),
        out,
    )?;
    let cannot = |why: &str| {
        CommandError::new(format!("`{name}` cannot be asked: {why}"), "`ftl agents` shows all of them")
    };
    let room = Room::make(cli).map_err(|error| cannot(&error))?;
    let hall = Hall::new(&roster, &variable, room.folder.path());
    let backend = hall.backend(agent).map_err(|error| cannot(&error.to_string()))?;
    let began = Instant::now();
    let (ended, used, resumes) = room.ask(&*backend).map_err(|why| cannot(&why))?;
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (fine, why) = match &ended.outcome {
        Ok(AgentAnswer::Done(_)) => (true, None),
        Ok(AgentAnswer::Asked(question)) => (false, Some(format!("it asks: {question}"))),
        Err(trouble) => (false, Some(trouble.to_string())),
    };
    let unknown: Vec<&str> = ended.unknown.iter().map(|meter| &**meter).collect();
    if out.is_json() {
        let used: serde_json::Map<String, Json> =
            used.iter().map(|(meter, amount)| (meter.to_string(), json!(amount))).collect();
        out.json(&json!({ "agent": name, "ok": fine, "why": why, "millis": millis, "used": used, "unknown": unknown,
            "resume": resumes }))?;
    } else {
        let amounts: Vec<String> = used
            .iter()
            .filter(|(meter, _)| &***meter != TURNS)
            .map(|(meter, amount)| format!("{} {meter}", Unit::of_meter(meter).show(*amount)))
            .collect();
        let missing =
            if unknown.is_empty() { String::new() } else { format!("; {} unknown", unknown.join(", ")) };
        let offers = if resumes { "; it offers to resume" } else { "" };
        let text = match &why {
            None => format!("`{name}` submitted in {millis} ms, {}{missing}{offers}\n", amounts.join(", ")),
            Some(why) => format!("`{name}` did not submit: {}\n", joined(why)),
        };
        out.text(&text)?;
    }
    Ok(if fine { ExitStatus::Done } else { ExitStatus::Error })
}

/// A folder in which an agent is probed, and what its program needs.
struct Room {
    folder: Scratch,
    supervisor: Arc<Supervisor>,
    limits: ftl_process::ProcessLimits,
}

impl Room {
    fn make(cli: &GlobalArgs) -> Result<Room, String> {
        let place = session::place(cli).map_err(|failure| failure.message)?;
        let config = session::config(&place).map_err(|failure| failure.message)?;
        let folder = Scratch::make(Purpose::Probe).map_err(|error| error.to_string())?;
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("work")).map_err(|error| error.to_string())?;
        let supervisor = Supervisor::new(Guard::own(), &at("attempts"), &at("spool"));
        let supervisor = Arc::new(supervisor.map_err(|error| error.to_string())?);
        Ok(Room { folder, supervisor, limits: config.agent_limits() })
    }

    fn ask(
        &self,
        backend: &dyn Backend,
    ) -> Result<(ftl_agents::contract::ConversationEnd, Usage, bool), String> {
        ftl_process::own_orphans().map_err(|error| error.to_string())?;
        let tools: BTreeSet<Name> = [Name::from(SUBMIT)].into();
        let allowance = ToolAllowance { tools, ..ToolAllowance::default() };
        let shape =
            json!({ "type": "object", "required": ["ok"], "properties": { "ok": { "type": "boolean" } } });
        let launcher = ftl_engine::executors::programs::ProgramStarter::new(
            self.supervisor.clone(),
            self.limits,
            String::from("probe"),
            None,
        );
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mcp_endpoint = ftl_agents::contract::McpEndpoint {
            folder: self.folder.path().to_owned(),
            program,
            args: vec![String::from("mcp")],
        };
        let order = SessionOrder {
            folder: self.folder.path().join("work"),
            role: String::from("probe"),
            form: None,
            model: None,
            system: String::from("You are asked whether you can be reached."),
            allowance: allowance.clone(),
            answer: Schema::new(shape).map_err(|error| error.to_string())?,
            limits: SessionLimits { requests: 3, ..SessionLimits::default() },
            shell: None,
            launcher: Some(Arc::new(launcher)),
            mcp_endpoint: Some(mcp_endpoint),
            earlier: None,
        };
        let (used, cancelled, resumes) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
        let bell = Arc::new(Bell { allowance, used, cancelled, resumes });
        let host: Arc<dyn SessionHost> = bell.clone();
        let ended = converse(backend, order, &[PromptPart::new(PartKind::Task, PROBE)], &host);
        let used = bell.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok((ended, used, bell.resumes.load(Ordering::Relaxed)))
    }
}

/// Makes a script of the conversations of a run.
fn record(
    cli: &GlobalArgs,
    id: &str,
    file: Option<&std::path::Path>,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let records = records::existing(cli)?;
    let none = || CommandError::new(format!("there is no run `{id}`"), "`ftl status` lists the runs");
    let records = records.ok_or_else(none)?;
    let store: Arc<dyn Store> = records.store().clone();
    let run = find(&*store, id).map_err(|error| session_failure(&error))?.row.run;
    let damaged = |why: String| {
        CommandError::new(format!("run {run} cannot be recorded: {why}"), "run `ftl doctor --deep`")
    };
    let talks = record::talks(&records, &run).map_err(|error| damaged(error.to_string()))?;
    if talks.is_empty() {
        let message = format!("no agent was asked in run {run}");
        return Err(CommandError::new(message, "a run with agents, of any kind, can be recorded"));
    }
    let sessions = talks.iter().map(|(_, talk)| record::recorded(&records, talk));
    let sessions: Vec<_> =
        sessions.collect::<Result<_, RecordingError>>().map_err(|error| damaged(error.to_string()))?;
    let text = script_of(&sessions).map_err(|error| damaged(error.to_string()))?;
    match file {
        Some(file) => {
            ftl_folder::replace_own(file, text.as_bytes()).map_err(|error| {
                CommandError::new(
                    format!("{} cannot be written: {error}", file.display()),
                    "name another file",
                )
            })?;
            if out.is_json() {
                out.json(&json!({ "run": run.to_string(), "script": file, "sessions": sessions.len() }))?;
            } else {
                let hint = "play it: kind = \"scripted\", script = \"…\" under [agents.NAME]";
                out.text(&format!(
                    "{} in {}; {hint}\n",
                    paint::count(sessions.len(), "session"),
                    file.display()
                ))?;
            }
        }
        None if out.is_json() => out.json(&json!({ "run": run.to_string(), "script": text }))?,
        None => out.bytes(&text)?,
    }
    Ok(ExitStatus::Done)
}
