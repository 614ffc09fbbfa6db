//! The actions on lessons: an error matched, a repair learned, an experience noted; and the observer's analysis.
//!
//! Which lesson fits is decided by `ftl_memory`; nothing here scores one.

use std::time::Duration;

use ftl_core::catalogue::flow;
use ftl_core::json::{Json, JsonExt as _};
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;
use ftl_gates::verify::plain;
use ftl_memory::StoredKind;

use super::Job;
use super::typed::{Done, shaped};
use super::workspaces::{display_path, words};
use ftl_process::{ProcessExit, RunError};
use ftl_records::Records;
use ftl_records::lessons::now;
use ftl_records::observer::Verifier;
use ftl_store::Store as _;

/// How long a verify command of a blocked workspace may take.
const VERIFY_LIMIT: Duration = Duration::from_secs(30);

/// Performs `lesson.learn`.
pub(super) fn learn(records: &Records, _: &Job, asked: &flow::LessonLearn) -> Done<flow::LessonLearn> {
    let failure = ftl_records::observe::repaired(&asked.trigger, &asked.fix, asked.source.as_deref());
    let learned = records.learn(|lessons| lessons.learn(StoredKind::Failure, failure.to_json(), &now()))?;
    Ok(flow::Learned { name: learned.name, result: learned.outcome.word() })
}

/// Performs `lesson.experience`.
pub(super) fn note_experience(
    records: &Records,
    _: &Job,
    asked: &flow::LessonExperience,
) -> Done<flow::LessonExperience> {
    let json = Json::object([
        ("trigger", Json::from(asked.trigger.as_str())),
        ("attempted", Json::list(asked.attempted.as_ref().map(words))),
        ("source", Json::list(asked.source.clone())),
    ]);
    let none = || Failure::new(FailureKind::Failed, "an experience needs a trigger");
    let mut failure = ftl_records::observe::experience(&json).ok_or_else(none)?;
    failure.cost = asked.cost.unwrap_or(failure.cost);
    let text = format!("{}\n", failure.to_json().pretty());
    // `experience.json` holds the newest; each block has one of its own, so that the next does not take its place.
    if let Some(own) = asked.source.as_deref().and_then(ftl_records::observe::experience_file) {
        records.write_staged(&own, &text)?;
    }
    let file = records.write_staged("experience.json", &text)?;
    Ok(flow::Experience { name: failure.name, path: display_path(records, &file) })
}

/// How long the command of a block may take.
pub(super) fn timeout(asked: &flow::ObserverAnalyze) -> Duration {
    asked.timeout.map_or(VERIFY_LIMIT, |seconds| Duration::from_secs_f64(seconds.0.clamp(1.0, 3600.0)))
}

/// Learns from what has ended, with a function that runs the commands of blocks.
pub(super) fn analyzed(
    records: &Records,
    asked: &flow::ObserverAnalyze,
    runs: &(dyn Fn(&str) -> Result<ProcessExit, RunError> + Sync),
) -> Result<flow::Analysis, Failure> {
    let by = asked.verify.unwrap_or(true).then_some(Verifier { runs });
    shaped(&records.analyze(&records.workspace_folder(), by.as_ref())?)
}

/// Performs `lesson.match`: with all that the command printed, where that is kept, so that nothing is cut before it is matched.
pub(super) fn match_error(
    records: &Records,
    _: &Job,
    asked: &flow::LessonMatching,
) -> Done<flow::LessonMatching> {
    let when = now();
    let error = whole_error(records, asked)?;
    let found = records.look_up(|lessons| lessons.for_error(&error, MAX_FITTING, &when))?;
    let mut known: Vec<_> = found.into_iter().filter(|answer| answer.lesson.has_remedy()).collect();
    // What the brief has told the builder already comes first.
    let told = |name: &str| {
        let failures = asked.among.as_ref().map(|among| among.failures.as_slice()).unwrap_or_default();
        failures.iter().any(|one| one.name == name)
    };
    known.sort_by_key(|answer| !told(answer.lesson.name()));
    let best = known.first();
    let why = match best {
        Some(answer) => Some(answer.by.word().to_owned()),
        None => {
            records.look_up(|lessons| lessons.count(StoredKind::Failure))?.gt(&0).then(|| NOTHING.to_owned())
        }
    };
    Ok(flow::LessonMatch {
        found: best.is_some(),
        flaky: best.is_some_and(|answer| answer.lesson.texts("tags").iter().any(|tag| tag == "flaky")),
        name: best.map(|answer| answer.lesson.name().to_owned()),
        fix: best.map(|answer| answer.lesson.remedy().to_owned()),
        similarity: best.map(|answer| answer.relevance),
        why,
    })
}

/// So many lessons that fit are looked at.
const MAX_FITTING: usize = 5;

/// The answer of a memory in which there are failures, and none fits.
const NOTHING: &str = "nothing fits";

/// What the summary says, and all that was printed.
fn whole_error(records: &Records, asked: &flow::LessonMatching) -> Result<String, Failure> {
    let digest = asked.output.as_ref().and_then(Value::as_text).and_then(|digest| digest.parse().ok());
    let printed = match digest {
        Some(digest) => records.store().get(&digest)?,
        None => None,
    };
    let printed = printed.map(|bytes| plain(&String::from_utf8_lossy(&bytes))).unwrap_or_default();
    Ok(format!("{}\n{printed}", asked.error))
}
