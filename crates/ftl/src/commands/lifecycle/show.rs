//! `ftl show`: a task as it stands, without touching it.

use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_core::json::{Json, JsonExt as _};
use ftl_lifecycle::edges::{EdgeView, Outlook};
use ftl_lifecycle::folder::{PATCH, PLAN_TEXT};
use ftl_lifecycle::state::StateFile;
use ftl_lifecycle::{Malformed, Phase, TaskFolder, registry};
use ftl_view::paint::{self, paint, safe};

use super::next::work_hint;
use super::task_session;
use super::view::{Seen, View};
use crate::tasks::TaskArg;

/// How many lines of the plan and of the patch are shown.
const MAX_LINES: usize = 40;

/// `ftl show`.
pub(super) fn run(cli: &GlobalArgs, asked: &TaskArg, out: &Out) -> Result<ExitStatus, CommandError> {
    let view = View::new(cli, asked)?;
    let seen = view.stands()?;
    let (folder, phases, phase) = (&view.folder, &view.phases, &seen.phase);
    let state = StateFile::read(folder, phases).map_err(|error| task_session::malformed_failure(&error))?;
    let looked = view.outlook(&seen);
    if !out.is_json() {
        return tell(&view, &seen, &looked, out);
    }
    let (guards, missing, open, malformed) = match &looked {
        Ok(outlook) => {
            let forward = phases.forward(phase).and_then(|to| outlook.edge(&to).cloned());
            let missing = forward.map(|edge| edge.missing).unwrap_or_default();
            (guard_list(outlook), Json::from(missing), outlook.open(), Json::Null)
        }
        Err(error) => (Json::Array(Vec::new()), Json::Array(Vec::new()), None, Json::from(error.to_string())),
    };
    let artifacts = registry::digests(folder);
    let artifacts = Json::object(artifacts.iter().map(|(name, digest)| (*name, Json::from(digest.as_str()))));
    let text = |word: Option<&str>| word.map_or(Json::Null, Json::from);
    let mut json = Json::object([
        ("task", Json::from(folder.id().as_str())),
        ("phase", Json::from(phase.word())),
        ("brief", Json::from(registry::brief(folder))),
        ("run", text(seen.run.as_deref())),
        ("known", Json::from(seen.run.is_some())),
        ("journal", text(seen.journal.as_ref().map(Phase::word))),
        ("actors", state.map_or(Json::Null, |(state, _)| state.actors())),
        ("artifacts", artifacts),
        ("guards", guards),
        ("missing", missing),
        ("open", text(open.map(Phase::word))),
        ("malformed", malformed),
    ]);
    json.put("command", text(phases.command(phase).as_deref()));
    out.json(&json)?;
    Ok(ExitStatus::Done)
}

fn guard_list(outlook: &Outlook) -> Json {
    let one = |edge: &EdgeView| {
        Json::object([
            ("edge", Json::from(edge.name())),
            ("holds", Json::from(edge.holds)),
            ("missing", Json::from(edge.missing.clone())),
        ])
    };
    Json::Array(outlook.edges.iter().map(one).collect())
}

fn tell(
    view: &View,
    seen: &Seen,
    looked: &Result<Outlook, Malformed>,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let (folder, phase) = (&view.folder, &seen.phase);
    let name = paint(paint::STRONG, folder.id().as_str());
    let mut text =
        format!("task {name} in {}: {}\n", paint(paint::GOOD, phase), safe(&registry::brief(folder)));
    if let Some(journal) = &seen.journal {
        let word = paint(paint::WARNING, "warning:");
        let id = folder.id();
        text.push_str(&format!(
            "{word} the journal says {journal}; `ftl adopt --task {id}` takes the folder\n"
        ));
    }
    text.push_str(&artifacts(folder));
    match looked {
        Ok(outlook) => text.push_str(&guards(outlook)),
        Err(error) => {
            text.push_str(&format!("{} {}\n", paint(paint::ERROR, "malformed:"), safe(&error.to_string())));
        }
    }
    text.push_str(&format!("{} {}\n", paint(paint::HINT, "hint:"), work_hint(&view.phases, phase)));
    out.text(&text)?;
    Ok(ExitStatus::Done)
}

/// The artifacts that are there, each with its path; of the plan and the patch the first lines.
fn artifacts(folder: &TaskFolder) -> String {
    let mut text = String::new();
    for name in registry::digests(folder).keys() {
        text.push_str(&format!(
            "  {} {}\n",
            paint(paint::STRONG, "wrote "),
            safe(&folder.display_path(name))
        ));
        if ![PLAN_TEXT, PATCH].contains(name) {
            continue;
        }
        let bytes = folder.bytes(name).ok().flatten().unwrap_or_default();
        let whole = String::from_utf8_lossy(&bytes);
        for line in whole.lines().take(MAX_LINES) {
            text.push_str(&format!("           {}\n", safe(line)));
        }
        let more = whole.lines().count().saturating_sub(MAX_LINES);
        if more > 0 {
            text.push_str(&format!("           … {}\n", paint::count(more, "more line")));
        }
    }
    text
}

/// Every edge with what it needs, a line each.
pub(super) fn guards(outlook: &Outlook) -> String {
    let mut text = String::new();
    for edge in &outlook.edges {
        let word = if edge.holds { paint(paint::GOOD, "open  ") } else { paint(paint::QUIET, "closed") };
        text.push_str(&format!("  {word} {} → {}", edge.from, edge.to));
        if !edge.missing.is_empty() {
            text.push_str(&format!(": {}", safe(&edge.missing.join("; "))));
        }
        text.push('\n');
    }
    for warning in &outlook.warnings {
        text.push_str(&format!("  {} {}\n", paint(paint::WARNING, "warning:"), safe(warning)));
    }
    text
}
