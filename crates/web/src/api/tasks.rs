//! One task: its brief, the path it took, what gates said of it, what was said with its agents.

use std::collections::BTreeMap;

use ftl_command::task_steps::{TaskSteps, instances_of};
use ftl_core::run::{InstanceId, ROOT};
use ftl_engine::executors::transcript::{Conversation, TranscriptError, conversations};
use ftl_folder::id::RunId;
use ftl_language::draw::shapes;
use serde_json::{Value as Json, json};

use super::runs::Moment;
use super::{Answer, ApiError, Asked};
use crate::server::Server;

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
    let all = mine.iter().copied().collect();
    let steps = TaskSteps::read(&server.runs, &moment.row.run, moment.model.at(), &all)?;
    let instances: Vec<Json> = mine
        .iter()
        .filter_map(|id| board.machine().instance(*id))
        .map(|one| {
            json!({
                "instance": one.id.0, "protocol": one.protocol, "state": one.state,
                "standing": one.standing().word(), "visited": one.visited, "end": one.end.as_ref().map(|(end, _)| end.word()),
                "ended_with": one.end.as_ref().map(|(_, values)| &**values),
            })
        })
        .collect();
    let talks = listed(server, &moment.row.run, &|instance| mine.contains(&instance))?;
    let rulings = Rulings::of(server, &moment.row.run, &mine)?.document();
    let last = mine.last().and_then(|id| board.machine().instance(*id));
    let machine = last.and_then(|one| server.session.library().machine(&one.protocol));
    let shapes = machine.as_ref().and_then(shapes);
    Ok(Answer::Json(
        200,
        json!({
            "at": moment.model.at(), "row": row, "brief": brief, "instances": instances, "path": steps.path,
            "verdicts": steps.verdicts, "lessons": steps.lessons, "talks": talks,
            "bought": moment.model.ledger.tasks.get(seq), "shapes": shapes, "alike": alike(&rows, row),
            "rulings": rulings,
        }),
    ))
}

/// The other tasks that failed with the same words: one cause, most likely.
fn alike(rows: &[Json], row: &Json) -> Vec<Json> {
    let (Some(why), true) = (row[8].as_str().filter(|why| !why.is_empty()), row[3] == "blocked") else {
        return Vec::new();
    };
    let is_alike = |one: &&Json| one[0] != row[0] && one[3] == "blocked" && one[8].as_str() == Some(why);
    rows.iter().filter(is_alike).map(|one| json!([one[0], one[1]])).collect()
}

/// How many calls of agents were ruled on before they ran, out of their conversations.
#[derive(Default)]
struct Rulings {
    calls: u64,
    ruled: u64,
    denied: u64,
}

impl Rulings {
    fn of(server: &Server, run: &RunId, mine: &[InstanceId]) -> Result<Rulings, ApiError> {
        let records = server.session.records();
        let mut found = Rulings::default();
        for one in
            conversations(records, run)?.iter().filter(|one| mine.contains(&one.instance.unwrap_or(ROOT)))
        {
            for line in one.read(records, 0)?.lines {
                let line = line.to_json();
                match line["kind"].as_str() {
                    Some("call") => found.calls += 1,
                    Some("ruling") => {
                        found.ruled += 1;
                        found.denied += u64::from(line["ruling"] != "allow");
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    fn document(&self) -> Json {
        json!({ "calls": self.calls, "ruled": self.ruled, "denied": self.denied })
    }
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
