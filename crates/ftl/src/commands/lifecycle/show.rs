//! `ftl show`: a task as it stands, without touching it.

use ftl_core::json::Json;
use ftl_engine::lifecycle::desk::{self, Standing};
use ftl_engine::lifecycle::judge::{Judgement, judge};
use ftl_engine::lifecycle::state::State;
use ftl_engine::lifecycle::{Folder, Phase};

use super::bench;
use super::next::{self, work_hint};
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session;
use crate::tasks::TaskArg;

/// `ftl show`.
pub(super) fn run(cli: &Cli, asked: &TaskArg, out: &Out) -> Result<Exit, Failure> {
    let (id, store) = super::named(cli, asked)?;
    let folder = Folder::of(&session::place(cli)?, &id);
    let standing = next::standing(cli, &folder, store.as_ref())?;
    let (phase, run, known, disagrees) = match &standing {
        Standing::Unknown { phase } => (*phase, None, false, None),
        Standing::Agrees { run, phase, .. } => (*phase, Some(run.to_string()), true, None),
        Standing::Disagrees { run, file, journal } => (*file, Some(run.to_string()), true, Some(*journal)),
    };
    let state = State::read(&folder).map_err(|error| bench::malformed_failure(&error))?;
    let bindings = match &store {
        Some(store) => desk::bindings(store, &id).map_err(|error| session::store_failure(&error))?,
        None => desk::Bindings::default(),
    };
    let judged = judge(&folder, phase, &bindings);
    if !out.is_json() {
        return tell(&folder, phase, &judged, disagrees, out);
    }
    let (guards, missing, open, malformed) = match &judged {
        Ok(judgement) => {
            let forward = phase.forward().and_then(|to| judgement.edge(to));
            let missing = forward.map(|edge| edge.missing.clone()).unwrap_or_default();
            (guard_list(judgement), Json::from(missing), judgement.open(), Json::Null)
        }
        Err(error) => (Json::List(Vec::new()), Json::List(Vec::new()), None, Json::from(error.to_string())),
    };
    let artifacts = desk::digests(&folder);
    let artifacts = Json::object(artifacts.iter().map(|(name, digest)| (*name, Json::from(digest))));
    let text = |word: Option<&str>| word.map_or(Json::Null, Json::from);
    let mut json = Json::object([
        ("task", Json::from(id.as_str())),
        ("phase", Json::from(phase.word())),
        ("brief", Json::from(desk::brief(&folder))),
        ("run", text(run.as_deref())),
        ("known", Json::from(known)),
        ("journal", text(disagrees.map(Phase::word))),
        ("actors", state.map_or(Json::Null, |(state, _)| state.actors())),
        ("artifacts", artifacts),
        ("guards", guards),
        ("missing", missing),
        ("open", text(open.map(Phase::word))),
        ("malformed", malformed),
    ]);
    json.put("command", text(phase.command()));
    out.bytes(&format!("{}\n", json.pretty()))?;
    Ok(Exit::Done)
}

fn guard_list(judgement: &Judgement) -> Json {
    let one = |edge: &ftl_engine::lifecycle::judge::Edge| {
        Json::object([
            ("edge", Json::from(edge.name())),
            ("holds", Json::from(edge.holds)),
            ("missing", Json::from(edge.missing.clone())),
        ])
    };
    Json::List(judgement.edges.iter().map(one).collect())
}

fn tell(
    folder: &Folder,
    phase: Phase,
    judged: &Result<Judgement, ftl_engine::lifecycle::Malformed>,
    disagrees: Option<Phase>,
    out: &Out,
) -> Result<Exit, Failure> {
    let name = paint(paint::STRONG, folder.id().as_str());
    let mut text = format!("task {name} in {}: {}\n", paint(paint::GOOD, phase), safe(&desk::brief(folder)));
    if let Some(journal) = disagrees {
        let word = paint(paint::WARNING, "warning:");
        let id = folder.id();
        text.push_str(&format!(
            "{word} the journal says {journal}; `ftl adopt --task {id}` takes the folder\n"
        ));
    }
    match judged {
        Ok(judgement) => text.push_str(&guards(judgement)),
        Err(error) => {
            text.push_str(&format!("{} {}\n", paint(paint::ERROR, "malformed:"), safe(&error.to_string())));
        }
    }
    text.push_str(&format!("{} {}\n", paint(paint::HINT, "hint:"), work_hint(phase)));
    out.text(&text)?;
    Ok(Exit::Done)
}

/// Every edge with what it needs, a line each.
pub(super) fn guards(judgement: &Judgement) -> String {
    let mut text = String::new();
    for edge in &judgement.edges {
        let word = if edge.holds { paint(paint::GOOD, "open  ") } else { paint(paint::QUIET, "closed") };
        text.push_str(&format!("  {word} {} → {}", edge.from, edge.to));
        if !edge.missing.is_empty() {
            text.push_str(&format!(": {}", safe(&edge.missing.join("; "))));
        }
        text.push('\n');
    }
    for warning in &judgement.warnings {
        text.push_str(&format!("  {} {}\n", paint(paint::WARNING, "warning:"), safe(warning)));
    }
    text
}
