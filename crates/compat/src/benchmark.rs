//! `ftl benchmark`: figures of the memory, on a memory of its own.

use std::path::Path;
use std::time::Instant;

use ftl_command::input::text_of;
use ftl_command::records::{failure, open};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out};
use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};
use ftl_memory::benchmark::{self, Measurement};
use ftl_memory::{Error, Now};
use ftl_records::lessons::{built_in, now};

use crate::words::Benchmark;
use crate::{look, print, word};

/// How often recall is measured at each size.
const ROUNDS: usize = 100;

const RESULTS: &str = "benchmark/results.json";

pub(crate) fn run(cli: &GlobalArgs, verb: &Benchmark, out: &Out) -> Result<ExitStatus, CommandError> {
    let now = now();
    match verb {
        Benchmark::Retrieval => print(out, &rows(&retrieval(&now)?)),
        Benchmark::Matching => print(out, &rows(&matching(&now)?)),
        Benchmark::Learning { campaigns, tasks } => {
            print(out, &rows(&benchmark::learning_records(*campaigns, *tasks, &now)))
        }
        Benchmark::Pruning => print(out, &rows(&pruning(&now)?)),
        Benchmark::Generate { failures, patterns } => {
            let most = benchmark::MAX_GENERATED;
            if *failures > most || *patterns > most {
                return Err(CommandError::usage(format!("{most} is the most of each"), "ask for fewer"));
            }
            print(out, &benchmark::generate(*failures, *patterns, benchmark::SEED, &now))
        }
        Benchmark::Run => {
            let records = open(cli)?;
            let all =
                [retrieval(&now)?, matching(&now)?, benchmark::learning_records(10, 5, &now), pruning(&now)?];
            let meta = Object::new()
                .with("timestamp", now.local.as_str())
                .with("version", env!("CARGO_PKG_VERSION"))
                .with("note", "learning is a simulation; its rate of learning is assumed");
            let results =
                Json::from(Object::new().with("metadata", meta).with("results", rows(&all.concat())));
            let file = records.place().state().join(RESULTS);
            let written = ftl_folder::make(file.parent().unwrap_or(Path::new("."))).and_then(|()| {
                ftl_folder::state_folder::replace(&file, format!("{}\n", results.pretty()).as_bytes())
            });
            written.map_err(|error| failure(&ftl_records::RecordError::disk(&file, &error)))?;
            print(out, &results)
        }
        Benchmark::Report { input } => report(cli, input.as_deref(), out),
    }
}

fn rows(records: &[Measurement]) -> Json {
    Json::Array(records.iter().map(Measurement::to_json).collect())
}

fn report_trouble<T>(done: Result<T, Error>) -> Result<T, CommandError> {
    done.map_err(|trouble| failure(&trouble.into()))
}

/// Milliseconds that something takes.
fn watch(work: &mut dyn FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64() * 1000.0)
}

fn retrieval(now: &Now) -> Result<Vec<Measurement>, CommandError> {
    let table = built_in().map_err(|error| failure(&error))?;
    report_trouble(benchmark::retrieval(&table, &mut watch, ROUNDS, now))
}

fn matching(now: &Now) -> Result<Vec<Measurement>, CommandError> {
    Ok(benchmark::matching(&built_in().map_err(|error| failure(&error))?, now))
}

fn pruning(now: &Now) -> Result<Vec<Measurement>, CommandError> {
    let table = built_in().map_err(|error| failure(&error))?;
    report_trouble(benchmark::pruning(&table, &mut watch, now))
}

fn report(cli: &GlobalArgs, input: Option<&Path>, out: &Out) -> Result<ExitStatus, CommandError> {
    let text = match input {
        Some(file) => text_of(file)?,
        None => {
            let kept = look(cli)?.map(|records| records.place().state().join(RESULTS));
            let kept = kept.filter(|file| file.is_file()).ok_or_else(|| {
                CommandError::new(
                    "there are no results",
                    "run `ftl benchmark run`, or give some with --input FILE",
                )
            })?;
            text_of(&kept)?
        }
    };
    let json = Json::parse(&text).map_err(|error| {
        CommandError::new(format!("the results are no JSON: {error}"), "see `ftl benchmark run`")
    })?;
    let found = records(&json).ok_or_else(|| {
        CommandError::new(
            "the results are neither a list of records nor an object of such lists",
            "see `ftl benchmark run`",
        )
    })?;
    let measured = json.get("metadata").and_then(|meta| meta.get("timestamp")).and_then(Json::as_str);
    let mut lines = vec!["FTL MEMORY BENCHMARK REPORT".to_owned(), "=".repeat(27)];
    lines.push(match measured {
        Some(time) => format!("FTL benchmark report of {time}"),
        None => "FTL benchmark report".to_owned(),
    });
    lines.extend(found.into_iter().map(line));
    word(out, &lines.join("\n"))
}

/// The records of a list, or of every list in an object: the FTL plugin sorts them into sections. What is no
/// list, such as the metadata, has none.
fn records(json: &Json) -> Option<Vec<&Json>> {
    match json {
        Json::Array(rows) => Some(rows.iter().collect()),
        Json::Object(_) => {
            let lists: Vec<&Vec<Json>> = json.fields().filter_map(|(_, part)| part.as_array()).collect();
            (!lists.is_empty()).then(|| lists.into_iter().flatten().collect())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

fn line(row: &Json) -> String {
    let field = |key: &str| row.as_object().and_then(|row| row.get(key));
    let text = |key: &str| field(key).and_then(Json::as_str).unwrap_or("?").to_owned();
    let number = |key: &str| field(key).and_then(Json::as_f64);
    if let (Some(value), "%") = (number("value"), text("unit").as_str()) {
        let name = text("name");
        return format!("{name}: {} {value:.1}%", name.replace('_', " "));
    }
    let mut line = format!(
        "{}: {} {} ({})",
        text("name"),
        number("value").unwrap_or(f64::NAN),
        text("unit"),
        text("metric")
    );
    if let (Some(baseline), Some(improvement)) = (number("baseline"), number("improvement")) {
        line.push_str(&format!(", baseline {baseline}, improvement {improvement}%"));
    }
    line
}
