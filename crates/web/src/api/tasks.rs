//! One task: its brief, the path it took, what gates said of it, what was said with its agents.

use std::collections::{BTreeMap, BTreeSet};

use ftl_core::catalogue::Catalogue;
use ftl_core::catalogue::declare::ActionKind;
use ftl_core::performer::Performer;
use ftl_core::run::{ActionId, Answer as Heard, Fact, InstanceId, ROOT};
use ftl_engine::executors::transcript::{Conversation, TranscriptError, conversations};
use ftl_folder::id::RunId;
use ftl_view::lines;
use ftl_view::model::tasks::plain;
use serde_json::{Value as Json, json};

use super::runs::{Moment, instances_of};
use super::{Answer, ApiError, Asked};
use crate::serve::Server;

/// How many steps of a path are given: the last ones.
const MAX_STEPS: usize = 500;

/// How many lines of a conversation are told at once while it goes on.
const MAX_WORDS: usize = 50;

impl From<TranscriptError> for ApiError {
    fn from(error: TranscriptError) -> ApiError {
        ApiError::new(422, error.to_string(), error.hint())
    }
}

pub(crate) fn one(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let moment = Moment::of(server, asked)?;
    let seq = asked.param("seq");
    let rows = moment.model.task_rows();
    let row = rows.iter().find(|row| row[0] == seq).ok_or_else(|| {
        ApiError::new(
            404,
            format!("run {} has no task `{seq}`", moment.row.run),
            "`GET runs/R/tasks` lists them",
        )
    })?;
    let board = &moment.model.board;
    let plan = board.root().and_then(|root| root.tracked.get("plan"));
    let tasks = plan.map(|plan| plan.field("tasks").items()).unwrap_or_default();
    let brief = tasks.iter().find(|task| task.field("seq").as_text() == Some(seq));
    let mine = instances_of(&moment.model, seq);
    let steps = Steps::of(server, &moment, mine.iter().copied().collect())?;
    let instances: Vec<Json> = mine
        .iter()
        .filter_map(|id| board.machine().instance(*id))
        .map(|one| {
            json!({
                "instance": one.id.0, "protocol": one.protocol, "state": one.state,
                "standing": one.standing().word(), "visited": one.visited,
                "ended_with": one.end.as_ref().map(|(_, values)| &**values),
            })
        })
        .collect();
    let talks = listed(server, &moment.row.run, &|instance| mine.contains(&instance))?;
    Ok(Answer::Json(
        200,
        json!({
            "at": moment.model.at(), "row": row, "brief": brief, "instances": instances, "path": steps.path,
            "verdicts": steps.verdicts, "lessons": steps.lessons, "talks": talks,
            "bought": moment.model.ledger.tasks.get(seq),
        }),
    ))
}

/// What is read of the journal about some instances.
struct Steps {
    path: Vec<Json>,
    verdicts: Vec<Json>,
    lessons: Vec<Json>,
}

impl Steps {
    fn of(server: &Server, moment: &Moment, mine: BTreeSet<InstanceId>) -> Result<Steps, ApiError> {
        let mut steps = Steps { path: Vec::new(), verdicts: Vec::new(), lessons: Vec::new() };
        let mut asked: BTreeMap<ActionId, Performer> = BTreeMap::new();
        let mut visits: BTreeMap<(InstanceId, String), u64> = BTreeMap::new();
        server.runs.scan(&moment.row.run, (0, moment.model.at()), &mut |_, entry| {
            if !mine.contains(&entry.instance) {
                return;
            }
            match &entry.fact {
                Fact::Opened(opened) => {
                    visits.insert((entry.instance, opened.state.to_string()), 1);
                    steps.path.push(json!([
                        entry.seq,
                        entry.at,
                        entry.instance.0,
                        null,
                        opened.state,
                        1,
                        ""
                    ]));
                }
                Fact::Moved { from, to, .. } => {
                    let count = visits.entry((entry.instance, to.to_string())).or_default();
                    *count += 1;
                    let why = plain(&lines::what(&entry.fact));
                    steps.path.push(json!([entry.seq, entry.at, entry.instance.0, from, to, count, why]));
                }
                Fact::Asked { asks, .. } => {
                    for (index, ask) in (0_u32..).zip(asks) {
                        asked.insert(ActionId { entry: entry.seq, index }, ask.whom.clone());
                    }
                }
                Fact::Heard { action, answer: Heard::Done(value), .. } => {
                    let Some(name) = asked.get(action).and_then(Performer::action) else { return };
                    let told = json!({ "entry": entry.seq, "at": entry.at, "action": name, "value": value });
                    if name.starts_with("lesson.") || name.starts_with("memory.") {
                        steps.lessons.push(told);
                    } else if is_gate(name) {
                        steps.verdicts.push(told);
                    }
                }
                Fact::Heard { .. } | Fact::Set { .. } | Fact::Emitted { .. } | Fact::Paid(_) => {}
                Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => {}
                Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } => {}
                Fact::Suspended { .. } | Fact::Held { .. } | Fact::Resumed { .. } => {}
                Fact::Adopted { .. } | Fact::Settled { .. } => {}
            }
        })?;
        let over = steps.path.len().saturating_sub(MAX_STEPS);
        steps.path.drain(..over);
        Ok(steps)
    }
}

fn is_gate(name: &str) -> bool {
    Catalogue::standard().action(name).is_some_and(|action| action.kind == ActionKind::Gate)
}

pub(crate) fn talks(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = asked.run(server)?;
    Ok(Answer::Json(200, json!({ "talks": listed(server, &row.run, &|_| true)? })))
}

/// The conversations of some instances.
fn listed(server: &Server, run: &RunId, wanted: &dyn Fn(InstanceId) -> bool) -> Result<Vec<Json>, ApiError> {
    let all = conversations(server.session.records(), run)?;
    let mine = all.iter().filter(|one| wanted(one.instance.unwrap_or(ROOT)));
    Ok(mine.map(talk_head).collect())
}

fn talk_head(one: &Conversation) -> Json {
    json!({
        "action": one.action, "number": one.number, "instance": one.instance.map(|one| one.0), "role": one.role,
        "form": one.form, "agent": one.agent, "model": one.model, "at": one.at, "over": one.is_over(),
        "cut": one.is_cut,
    })
}

pub(crate) fn talk(server: &Server, asked: &Asked) -> Result<Answer, ApiError> {
    let row = asked.run(server)?;
    let (action, number) = (asked.param("action"), asked.param("number"));
    let from = usize::try_from(asked.number("from")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let records = server.session.records();
    let all = conversations(records, &row.run)?;
    let one = all.iter().find(|one| one.action.to_string() == action && one.number.to_string() == number);
    let one = one.ok_or_else(|| {
        ApiError::new(
            404,
            format!("there is no conversation {action}/{number}"),
            "`GET runs/R/talks` lists them",
        )
    })?;
    let read = one.read(records, from)?;
    let prompt = if from == 0 { Some(one.prompt(records)?) } else { None };
    let lines: Vec<Json> = read.lines.iter().map(|line| line.to_json()).collect();
    Ok(Answer::Json(
        200,
        json!({ "talk": talk_head(one), "prompt": prompt, "lines": lines, "next": read.next }),
    ))
}

/// Tells the followers of a run what its agents say now. What was said before there was a follower is not told again.
pub(crate) fn tell_words(
    server: &Server,
    run: &RunId,
    read: &mut BTreeMap<(RunId, String), usize>,
    version: u64,
) {
    let records = server.session.records();
    let Ok(all) = conversations(records, run) else { return };
    for one in all.iter().filter(|one| !one.is_over()) {
        let key = (run.clone(), format!("{}/{}", one.action, one.number));
        let from = read.get(&key).copied();
        let Ok(new) = one.read(records, from.unwrap_or(0)) else { continue };
        read.insert(key.clone(), new.next);
        if new.lines.is_empty() {
            continue;
        }
        let last = new.lines.len().saturating_sub(MAX_WORDS);
        let lines: Vec<Json> = new.lines[last..].iter().map(|line| line.to_json()).collect();
        let told = json!({ "run": run, "talk": talk_head(one), "lines": lines, "next": new.next });
        server.hub.tell(Some(run), "live", version, &told);
    }
}
