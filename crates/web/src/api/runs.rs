//! A run: where it stands, its tasks, its time, its money, its journal, now and at any entry.

use ftl_command::document::RunDocument;
use ftl_command::known::RunOverview;
use ftl_core::run::{Instance, OpenKind, ROOT, Time};
use ftl_engine::executors::questions;
use ftl_engine::session::Driven;
use ftl_folder::clock;
use ftl_store::{Most, RunRow, journal};
use ftl_view::actions::{Known, actions, open_questions};
use ftl_view::board::Board;
use ftl_view::lines;
use ftl_view::model::RunModel;
use ftl_view::model::tasks::{COLUMNS, plain};
use ftl_view::summary::{Questions, Summary};
use serde_json::{Value as Json, json};

use super::{Answer, ApiError, Asked};
use crate::server::Server;

/// How many runs that have ended are listed unless more are asked for.
const ENDED: usize = 50;

/// How many runs are listed at most.
const MAX_LISTED: u64 = 1000;

/// How many entries are given at most.
const MAX_ENTRIES: u64 = 500;

/// How many entries are looked through for a text.
const MAX_SEARCHED: u64 = 100_000;

/// How many instances are explained.
const MAX_EXPLAINED: usize = 50;

/// A run as the commands tell it.
pub(crate) fn document(known: &RunOverview) -> Json {
    serde_json::to_value(RunDocument::of_overview(known)).unwrap_or_default()
}

pub(crate) fn list(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let limit = asked.number("limit")?.unwrap_or(ENDED as u64).min(MAX_LISTED);
    let ended = if asked.query.contains_key("open") { 0 } else { usize::try_from(limit).unwrap_or(ENDED) };
    let open = usize::try_from(MAX_LISTED).unwrap_or(ENDED);
    let all = server.overviews(Most { open, ended })?;
    Ok(Answer::Json(200, json!({ "runs": all.iter().map(document).collect::<Vec<_>>() })))
}

/// A run and its model, now or as it stood with an entry.
pub(super) struct Moment {
    pub(super) row: RunRow,
    pub(super) model: RunModel,
    /// Whether it is looked at as it is now.
    pub(super) is_now: bool,
}

impl Moment {
    pub(super) fn of(server: &Server, asked: &Asked) -> Result<Moment, ApiError> {
        let row = asked.run(server)?;
        let at = asked.number("at")?;
        let model = server.runs.at(&row.run, at)?;
        let is_now = at.is_none_or(|at| at >= model.at() && at >= row.head);
        Ok(Moment { row, model, is_now })
    }

    /// The time that its clocks show.
    fn now(&self) -> Time {
        let last = self.model.board.times.map_or(0, |(_, last)| last);
        if self.is_now && self.model.board.end().is_none() { clock::wall().max(last) } else { last }
    }

    pub(super) fn overview(&self, server: &Server) -> Result<RunOverview, ApiError> {
        if self.is_now {
            return Ok(RunOverview::of(server.session.place(), self.row.clone())?);
        }
        let summary = Summary::of(self.model.board.machine(), &Questions::new());
        let settled = self.model.board.end().is_some();
        let row = RunRow { settled, head: self.model.at(), ..self.row.clone() };
        // Who drove it then stands in no journal.
        Ok(RunOverview { row, summary, driven: Driven::By(None), instance: 0 })
    }
}

pub(crate) fn one(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let known = moment.overview(server)?;
    let board = &moment.model.board;
    let steps: Vec<Json> = board
        .steps()
        .iter()
        .map(|step| json!({ "at": step.at, "good": step.good, "text": plain(&step.text) }))
        .collect();
    let (first, last) = board.times.unwrap_or_default();
    Ok(Answer::Json(
        200,
        json!({
            "run": document(&known),
            "at": moment.model.at(),
            "head": moment.row.head,
            "began": first,
            "last": last,
            "now": moment.now(),
            "flow": Board::is_for(board.machine().programs().as_ref(), &known.summary.protocol),
            "steps": steps,
            "actions": root_actions(&moment, &known),
            "instances": board.instances(),
        }),
    ))
}

/// What can be done about the run as a whole.
fn root_actions(moment: &Moment, known: &RunOverview) -> Json {
    let run = moment.model.board.machine();
    let Some(root) = run.instance(ROOT).filter(|_| moment.is_now) else { return json!([]) };
    let known_of = Known { questions: open_questions(root, &known.summary), ..Known::default() };
    json!(actions(run, moment.row.run.as_str(), root, &known_of))
}

pub(crate) fn why(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let known = moment.overview(server)?;
    let run = moment.model.board.machine();
    let shown: Vec<&Instance> = match run.end() {
        Some(_) => run.instance(ROOT).into_iter().collect(),
        None => run.live().take(MAX_EXPLAINED).collect(),
    };
    let notes = &**server.session.records().store();
    let explained: Vec<Json> = shown
        .into_iter()
        .map(|one| {
            let asks = || questions::open_in(notes, &moment.row.run, one.id).ok().flatten();
            let asked = if moment.is_now && !one.held.is_empty() { asks() } else { None };
            explain(&moment, &known, one, asked)
        })
        .collect();
    let standing = known.standing();
    Ok(Answer::Json(
        200,
        json!({ "run": moment.row.run, "at": moment.model.at(), "standing": standing, "instances": explained }),
    ))
}

fn explain(moment: &Moment, known: &RunOverview, one: &Instance, asked: Option<String>) -> Json {
    let run = moment.model.board.machine();
    let (questions, ways) = (open_questions(one, &known.summary), run.options(one.id));
    let known = Known { questions, asked, ways };
    let all = if moment.is_now { actions(run, moment.row.run.as_str(), one, &known) } else { Vec::new() };
    let task = moment.model.board.task_of(one.id).and_then(|seq| moment.model.board.task_label(seq));
    let waits: Vec<String> = one
        .open
        .values()
        .filter(|open| matches!(open.kind, OpenKind::Call | OpenKind::Child(_) | OpenKind::Words(_)))
        .map(|open| open.whom.to_string())
        .collect();
    json!({
        "instance": one.id.0,
        "task": task,
        "protocol": one.protocol,
        "state": one.state,
        "standing": one.standing().word(),
        "held": one.held.values().map(|held| json!({
            "kind": held.failure.kind.word(), "reason": held.failure.message, "can_resume": !held.stuck,
        })).collect::<Vec<_>>(),
        "waits": waits,
        "asks": known.questions.iter().map(|(action, text)| json!({ "question": action, "text": text }))
            .collect::<Vec<_>>(),
        "asked": known.asked,
        "ways_out": known.ways,
        "meters": one.meters.iter().map(|(name, meter)| (name.to_string(), json!({
            "used": meter.highest_use(), "left": meter.left(), "limit": meter.limit,
        }))).collect::<serde_json::Map<_, _>>(),
        "ended_with": one.end.as_ref().map(|(_, values)| &**values),
        "actions": all,
    })
}

pub(crate) fn tasks(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let rows = moment.model.task_rows();
    Ok(Answer::Json(
        200,
        json!({ "at": moment.model.at(), "now": moment.now(), "columns": COLUMNS, "rows": rows }),
    ))
}

pub(crate) fn graph(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let folded = asked.query.get("fold").map(String::as_str).unwrap_or_default();
    let folded = folded.split(',').filter_map(|depth| depth.parse().ok()).collect();
    Ok(Answer::Json(200, json!(moment.model.places(&folded))))
}

pub(crate) fn timeline(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let rows: Vec<Json> = moment
        .model
        .bars(moment.now())
        .iter()
        .map(|(task, bars)| {
            let label = moment.model.board.task_label(task);
            let bars: Vec<Json> =
                bars.iter().map(|bar| json!([bar.from, bar.to, bar.kind, bar.what, bar.entry])).collect();
            json!({ "task": task, "label": label, "bars": bars })
        })
        .collect();
    let began = moment.model.board.times.map_or(0, |(first, _)| first);
    Ok(Answer::Json(
        200,
        json!({ "began": began, "now": moment.now(), "rows": rows, "critical": moment.model.critical() }),
    ))
}

pub(crate) fn money(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let known = moment.overview(server)?;
    let (ledger, now) = (&moment.model.ledger, moment.now());
    let began = moment.model.board.times.map_or(0, |(first, _)| first);
    let bought = |name: &str| matches!(name, "tokens" | "money" | "time" | "turns");
    let meters: serde_json::Map<String, Json> = known
        .summary
        .meters
        .iter()
        .filter(|(name, _)| bought(name))
        .map(|(name, spent)| {
            let hit = spent.limit.and_then(|limit| ledger.forecast(began, now, spent.used, limit));
            let hit = hit.filter(|_| moment.model.board.end().is_none());
            let text = ftl_view::runs::spent_and_aside(name, spent);
            let mut json = json!(spent);
            (json["forecast"], json["text"]) = (json!(hit), json!(text));
            (name.clone(), json)
        })
        .collect();
    let roles = ledger.roles.iter().map(|(role, bought)| json!({ "name": role, "bought": bought }));
    let tasks = ledger.tasks.iter().map(
        |(seq, bought)| json!({ "name": moment.model.board.task_label(seq), "seq": seq, "bought": bought }),
    );
    Ok(Answer::Json(
        200,
        json!({
            "began": began, "now": now, "all": ledger.all, "meters": meters,
            "roles": roles.collect::<Vec<_>>(), "tasks": tasks.collect::<Vec<_>>(), "points": ledger.points,
        }),
    ))
}

pub(crate) fn report(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let known = moment.overview(server)?;
    let board = &moment.model.board;
    let run = moment.row.run.as_str();
    let text = match board.is_story() {
        true => board.story_told(&run, &known.summary.meters, board.commit_of(ROOT)),
        false => board.render_report(&run, &known.summary.meters),
    };
    Ok(Answer::Json(200, json!({ "report": board.document(), "text": plain(&text) })))
}

pub(crate) fn entries(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = asked.run(server)?;
    let after = asked.number("after")?.unwrap_or(0);
    let limit = asked.number("limit")?.unwrap_or(200).min(MAX_ENTRIES);
    let most = usize::try_from(limit).unwrap_or(0);
    let (text, fact) = (asked.query.get("q"), asked.query.get("fact"));
    let is_filtered = text.is_some() || fact.is_some();
    let last = if is_filtered { after.saturating_add(MAX_SEARCHED) } else { after.saturating_add(limit) };
    let (mut rows, mut searched) = (Vec::new(), after);
    server.runs.scan(&row.run, (after, last), &mut |record, entry| {
        if rows.len() >= most {
            return;
        }
        searched = record.seq;
        let kind = serde_json::to_value(&entry.fact).unwrap_or_default()["fact"].clone();
        let line = plain(&lines::what(&entry.fact));
        let fits = fact.is_none_or(|fact| kind.as_str() == Some(fact))
            && text.is_none_or(|text| line.to_lowercase().contains(&text.to_lowercase()));
        if fits {
            rows.push(json!([record.seq, entry.at, entry.instance.0, kind, line]));
        }
    })?;
    Ok(Answer::Json(
        200,
        json!({ "head": row.head, "searched": searched, "columns": ["seq", "at", "instance", "fact", "line"], "rows": rows }),
    ))
}

pub(crate) fn entry(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = asked.run(server)?;
    let seq: u64 = asked.param("seq").parse().unwrap_or(0);
    let record = server.session.store().entries(&row.run, seq.saturating_sub(1), 1)?.into_iter().next();
    let record = record.filter(|record| record.seq == seq);
    let record = record.ok_or_else(|| {
        ApiError::new(
            404,
            format!("run {} has no entry {seq}", row.run),
            format!("its last one is {}", row.head),
        )
    })?;
    let entry = journal::decode(&**server.session.store(), &row.run, &record)?;
    Ok(Answer::Json(
        200,
        json!({
            "entry": entry, "epoch": record.epoch, "hash": record.hash.to_string(), "run": row.run,
            "line": plain(&lines::line(&entry)),
        }),
    ))
}
