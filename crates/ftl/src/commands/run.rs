//! `ftl run`, `ftl resume`: driving runs in the foreground until nothing moves without a person.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ftl_core::run::Entry;
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::{Rest, Stop, Watch};
use ftl_engine::driver::{Driver, Opening, Todo};
use ftl_engine::hands::script::Script;
use ftl_engine::id::RunId;
use ftl_engine::order::Order;
use ftl_engine::session::{Claim, Driven, Session, driven, find};
use ftl_engine::store::RunRow;
use ftl_engine::summary::{Summary, What};
use serde_json::{Value as Json, json};

use crate::cli::{Cli, Resume, Run};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lines;
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session::{self, session_failure};
use crate::signals;

/// How often the end of a run that somebody else drives is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Opens a run of a protocol and drives it.
pub(crate) fn run(cli: &Cli, asked: &Run, out: &Out) -> Result<Exit, Failure> {
    let script = asked.script.as_deref().map(script).transpose()?;
    let inputs = inputs(&asked.inputs)?;
    let session = session::open(cli)?;
    let opening =
        Opening { protocol: Name::from(asked.protocol.as_str()), inputs, terms: session.config().terms() };
    let stop = signals::stop()?;
    let (driver, todo) = session.open(opening, script.as_deref()).map_err(|error| session_failure(&error))?;
    let id = driver.id().clone();
    if !out.is_json() {
        out.text(&format!("run {} {}\n", paint(paint::STRONG, &id), safe(&driver.summary().title)))?;
    }
    let rest = drive(&session, driver, todo, &stop, out)?;
    report(&[(id, rest)], out)
}

/// Takes runs over that nobody drives, and drives them on.
pub(crate) fn resume(cli: &Cli, asked: &Resume, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    let store = session::store_of_runs(&place)?;
    let rows = match &asked.id {
        Some(id) => vec![find(&*store, id).map_err(|error| session_failure(&error))?.row],
        None => store.runs("").map_err(|error| session::store_failure(&error))?,
    };
    let named = asked.id.is_some();
    let rows: Vec<RunRow> = rows.into_iter().filter(|row| named || goes_on(row)).collect();
    if rows.is_empty() {
        if out.is_json() {
            out.json(&json!({ "runs": [] }))?;
        } else {
            out.text("nothing to resume\n")?;
        }
        return Ok(Exit::Done);
    }
    drop(store);
    let session = session::open(cli)?;
    let stop = signals::stop()?;
    let by = if named { Some(session::person(cli, &place)?) } else { None };
    let mut rests = Vec::new();
    for row in rows {
        if stop.said() > 0 {
            break;
        }
        let rest = resume_one(&session, &row, by.as_deref(), &stop, out)?;
        rests.push((row.run, rest));
    }
    report(&rests, out)
}

/// Whether a run goes on by itself once somebody drives it.
fn goes_on(row: &RunRow) -> bool {
    let summary: Summary = serde_json::from_str(&row.summary).unwrap_or_default();
    row.head > 0 && !row.settled && !summary.rests()
}

fn resume_one(
    session: &Session,
    row: &RunRow,
    by: Option<&str>,
    stop: &Stop,
    out: &Out,
) -> Result<Rest, Failure> {
    let summary: Summary = serde_json::from_str(&row.summary).unwrap_or_default();
    if row.settled {
        return Ok(Rest::Rests(summary));
    }
    if let Some(by) = by {
        let mut held: Vec<u32> =
            summary.waits.iter().filter(|wait| wait.what == What::Held).map(|wait| wait.instance).collect();
        held.dedup();
        for instance in held {
            let order = Order::Resume { instance: ftl_core::run::InstanceId(instance), by: by.to_owned() };
            session.send(&row.run, &order).map_err(|error| session_failure(&error))?;
        }
    }
    drive_on(session, &row.run, stop, out)
}

/// Drives a run on, or watches whoever does until it rests.
pub(crate) fn drive_on(session: &Session, run: &RunId, stop: &Stop, out: &Out) -> Result<Rest, Failure> {
    let mut told = false;
    loop {
        let mut enough = || stop.said() > 0 || rests(session, run);
        match session.claim(run, &mut enough).map_err(|error| session_failure(&error))? {
            Claim::Ours(lease) => {
                let (driver, todo) = session.recover(lease).map_err(|error| session_failure(&error))?;
                return drive(session, driver, todo, stop, out);
            }
            Claim::Theirs(card) => {
                let row = session.store().run(run).map_err(|error| session::store_failure(&error))?;
                let summary: Summary =
                    row.as_ref().and_then(|row| serde_json::from_str(&row.summary).ok()).unwrap_or_default();
                if stop.said() > 0 {
                    return Ok(Rest::Stopped(summary));
                }
                if summary.rests() && row.is_some_and(|row| row.settled) {
                    return Ok(Rest::Rests(summary));
                }
                if let (false, Some(card)) = (told, card) {
                    out.beside(&format!(
                        "run {run} is driven by process {} ({})\n",
                        card.pid,
                        safe(&card.command)
                    ));
                    told = true;
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

fn rests(session: &Session, run: &RunId) -> bool {
    let row = session.store().run(run).ok().flatten();
    row.is_none_or(|row| row.settled || row.owner.is_none())
}

/// Drives a run that is ours, and shows what happens.
fn drive(session: &Session, driver: Driver, todo: Todo, stop: &Stop, out: &Out) -> Result<Rest, Failure> {
    let mut follow = Follow { out, last: String::new() };
    session.drive(driver, todo, stop, &mut follow).map_err(|error| session_failure(&error))
}

/// Shows what happens in a run while it is driven.
struct Follow<'a> {
    out: &'a Out,
    last: String,
}

impl Watch for Follow<'_> {
    fn see(&mut self, entries: &[Entry], summary: &Summary) {
        if self.out.is_json() {
            return;
        }
        let news = entries.iter().filter(|entry| lines::is_news(entry));
        let text: String = news.map(|entry| format!("  {}\n", lines::line(entry))).collect();
        if !text.is_empty() {
            let _ = self.out.text(&text);
        }
        self.last.clone_from(&summary.standing);
    }
}

/// What became of runs: a line each, what a person can do, and the exit code of the worst.
pub(crate) fn report(rests: &[(RunId, Rest)], out: &Out) -> Result<Exit, Failure> {
    if out.is_json() {
        let runs: Vec<Json> = rests.iter().map(|(id, rest)| rest_json(id, rest)).collect();
        match runs.as_slice() {
            [one] => out.json(one)?,
            _ => out.json(&json!({ "runs": runs }))?,
        }
    } else {
        for (id, rest) in rests {
            out.text(&rest_text(id, rest))?;
        }
    }
    Ok(rests.iter().map(|(_, rest)| exit_of(rest)).max_by_key(|exit| rank(*exit)).unwrap_or(Exit::Done))
}

/// A run that rests, as JSON.
pub(crate) fn rest_json(id: &RunId, rest: &Rest) -> Json {
    let (summary, stopped) = match rest {
        Rest::Rests(summary) => (summary, false),
        Rest::Stopped(summary) => (summary, true),
    };
    let mut document = serde_json::to_value(summary).unwrap_or_default();
    document["run"] = json!(id);
    document["interrupted"] = json!(stopped);
    document
}

fn rest_text(id: &RunId, rest: &Rest) -> String {
    let (summary, stopped) = match rest {
        Rest::Rests(summary) => (summary, false),
        Rest::Stopped(summary) => (summary, true),
    };
    if stopped {
        let hint = paint(paint::HINT, "hint:");
        return format!("run {id} interrupted in {}\n{hint} `ftl resume {id}` goes on\n", summary.state);
    }
    let reason = summary.reason.as_deref().map_or(String::new(), |reason| format!(": {}", safe(reason)));
    let mut text = format!("run {id} {}{reason}\n", standing(&summary.standing));
    for (what, wait) in summary.waits.iter().map(|wait| (wait.what, wait)) {
        let at = if wait.instance == 0 { id.to_string() } else { format!("{id}/{}", wait.instance) };
        let hint = match what {
            What::Held => format!("`ftl why {at}` shows what it needs"),
            What::Question => format!("`ftl answer {at} VALUE` answers: {}", safe(&wait.text)),
            What::Word => format!("`ftl answer {at} WORD` says one of: {}", safe(&wait.text)),
            What::Service | What::Work => continue,
        };
        text.push_str(&format!("{} {hint}\n", paint(paint::HINT, "hint:")));
    }
    text
}

/// The word for how a run stands, in its colour.
pub(crate) fn standing(word: &str) -> String {
    let style = match word {
        "complete" => paint::GOOD,
        "running" => paint::STRONG,
        "held" | "error" => paint::ERROR,
        _ => paint::WARNING,
    };
    paint(style, word)
}

/// How a command ends whose run came to rest.
pub(crate) fn exit_of(rest: &Rest) -> Exit {
    match rest {
        Rest::Stopped(_) => Exit::Interrupted,
        Rest::Rests(summary) => match summary.standing.as_str() {
            "complete" => Exit::Done,
            "error" => Exit::Error,
            _ => Exit::Blocked,
        },
    }
}

/// Of several exits the one that a script must hear of.
fn rank(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Blocked => 1,
        Exit::Error | Exit::Usage | Exit::Refused | Exit::NotAllowed | Exit::Malformed => 2,
        Exit::Interrupted => 3,
    }
}

fn script(path: &Path) -> Result<String, Failure> {
    let wrong = |message: String| {
        Failure::new(
            format!("`{}`: {message}", path.display()),
            "a script is TOML with one [[answer]] for each rule",
        )
    };
    Script::load(path).map_err(wrong)?;
    std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}

/// `name=value` words as inputs: JSON where it is JSON, text otherwise.
fn inputs(words: &[String]) -> Result<Fields, Failure> {
    let mut fields: BTreeMap<Name, Value> = BTreeMap::new();
    for word in words {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            let message = format!("`{word}` is no input");
            return Err(Failure::usage(message, "an input is name=value, such as objective=\"fix the bug\""));
        };
        if fields.insert(Name::from(name), value_of(value)?).is_some() {
            return Err(Failure::usage(format!("`{name}` is given twice"), "give each input once"));
        }
    }
    Ok(fields)
}

/// A value as a person types it: JSON where it begins like JSON, text otherwise.
pub(crate) fn value_of(text: &str) -> Result<Value, Failure> {
    if !text.starts_with(['{', '[', '"']) {
        return Ok(serde_json::from_str(text).ok().filter(is_plain).unwrap_or_else(|| Value::text(text)));
    }
    serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("the value is no JSON: {error}"), "quote it so that the shell leaves it alone")
    })
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_))
}

/// Whether somebody drives a run now.
pub(crate) fn is_driven(session: &Session, run: &RunId) -> Result<bool, Failure> {
    let row = session.store().run(run).map_err(|error| session::store_failure(&error))?;
    let Some(row) = row else { return Ok(false) };
    Ok(driven(session.place(), &row).map_err(|error| session_failure(&error))? != Driven::ByNobody)
}
