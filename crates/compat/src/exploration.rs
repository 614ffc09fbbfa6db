//! `ftl exploration`, and waiting for explorers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ftl_command::input::text_of;
use ftl_command::records::{failure, open, with};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, signals};
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::clock;
use ftl_records::Records;
use ftl_records::exploration::{self, ExplorerAnswer, ExplorerMode, Meta};
use ftl_records::lessons::alike;

use crate::words::Exploration;
use crate::{look, print, word};

/// What is said where there is no exploration.
const NOTHING_TO_CLEAR: &str = "No exploration.json to clear";

/// How often the results of explorers are looked at.
const POLL: Duration = Duration::from_millis(100);

/// How much alike campaigns must be to be named, and how many are.
const SIMILAR: (f64, usize) = (0.6, 3);

pub(crate) fn run(cli: &GlobalArgs, verb: &Exploration, out: &Out) -> Result<ExitStatus, CommandError> {
    match verb {
        Exploration::Aggregate { objective } => {
            let (answers, ignored) = exploration::read_stream(&text_of(Path::new("-"))?);
            aggregate(cli, &answers, &ignored, objective.as_deref(), out)
        }
        Exploration::AggregateFiles { objective } => {
            let (answers, ignored) = staged(cli)?;
            aggregate(cli, &answers, &ignored, objective.as_deref(), out)
        }
        Exploration::Write => {
            let text = text_of(Path::new("-"))?;
            let json = Json::parse(&text).map_err(|error| {
                CommandError::new(
                    format!("the exploration is {error}"),
                    "pipe in what `ftl exploration aggregate` prints",
                )
            })?;
            let records = open(cli)?;
            let file = with(out, &records, |records| {
                records.write_exploration(&json)?;
                records.exploration_file()
            })?;
            word(out, &format!("Written: {}", from_root(&records, &file)))
        }
        Exploration::WriteResult { mode } => write_result(cli, mode, out),
        Exploration::Read => match look(cli)? {
            Some(records) => print(out, &with(out, &records, Records::exploration)?.unwrap_or_default()),
            None => print(out, &Json::Null),
        },
        Exploration::GetStructure => section(cli, ExplorerMode::Structure, out),
        Exploration::GetPattern => section(cli, ExplorerMode::Pattern, out),
        Exploration::GetMemory => section(cli, ExplorerMode::Memory, out),
        Exploration::GetDelta => section(cli, ExplorerMode::Delta, out),
        Exploration::Clear => {
            let Some(records) = look(cli)? else { return word(out, NOTHING_TO_CLEAR) };
            let (there, file) = with(out, &records, |records| {
                Ok((records.clear_exploration()?, records.exploration_file()?))
            })?;
            match there {
                true => word(out, &format!("Cleared: {}", from_root(&records, &file))),
                false => word(out, NOTHING_TO_CLEAR),
            }
        }
    }
}

fn aggregate(
    cli: &GlobalArgs,
    answers: &[ExplorerAnswer],
    ignored: &[String],
    objective: Option<&str>,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    for what in ignored {
        out.note(&format!("left out: {what}"));
    }
    let place = ftl_command::session::place(cli)?;
    let (created_at, git_sha) = (clock::local(), exploration::short_head(place.root()));
    let meta = Meta { created_at: &created_at, git_sha: &git_sha, objective: objective.unwrap_or_default() };
    print(out, &exploration::aggregate(answers, meta))
}

fn staged(cli: &GlobalArgs) -> Result<(Vec<ExplorerAnswer>, Vec<String>), CommandError> {
    Ok(exploration::read_files(&Staging::of(cli)?.folder()?))
}

/// The place where explorers stage their results.
enum Staging {
    /// Those of a campaign, wherever its files stand.
    Campaign(Box<Records>),
    /// The folder that is used where no campaign is kept here yet.
    Bare(PathBuf),
}

impl Staging {
    fn of(cli: &GlobalArgs) -> Result<Staging, CommandError> {
        Ok(match look(cli)? {
            Some(records) => Staging::Campaign(Box::new(records)),
            None => Staging::Bare(ftl_command::session::place(cli)?.state().join("cache")),
        })
    }

    /// The folder as it stands now: another campaign may have become the current one.
    fn folder(&self) -> Result<PathBuf, CommandError> {
        match self {
            Staging::Campaign(records) => records.cache_folder().map_err(|error| failure(&error)),
            Staging::Bare(folder) => Ok(folder.clone()),
        }
    }
}

/// A path as it is from the root of the repository.
fn from_root(records: &Records, file: &Path) -> String {
    file.strip_prefix(records.place().root()).unwrap_or(file).display().to_string()
}

fn section(cli: &GlobalArgs, mode: ExplorerMode, out: &Out) -> Result<ExitStatus, CommandError> {
    let Some(records) = look(cli)? else { return print(out, &mode.missing()) };
    let found = with(out, &records, Records::exploration)?;
    let mut section = exploration::section(found.as_ref(), mode);
    let lacks = section.get("similar_campaigns").is_none_or(|list| list.items().is_empty());
    if mode == ExplorerMode::Memory && lacks {
        let similar = with(out, &records, |records| records.find_similar(SIMILAR.0, SIMILAR.1, &alike))?;
        section.put("similar_campaigns", similar);
    }
    print(out, &section)
}

fn write_result(cli: &GlobalArgs, mode: &str, out: &Out) -> Result<ExitStatus, CommandError> {
    let Some(mode) = ExplorerMode::parse(mode) else {
        return Err(CommandError::usage(
            format!("`{mode}` is no mode"),
            "--mode structure, pattern, memory or delta",
        ));
    };
    let answer = exploration::read_answer(&text_of(Path::new("-"))?, Some(mode))
        .map_err(|error| CommandError::new(error.to_string(), "give one JSON object with mode and status"))?;
    if answer.mode != mode {
        let message = format!("the result is of {}, not of {}", answer.mode.word(), mode.word());
        return Err(CommandError::new(message, "name the mode that it is of"));
    }
    let records = open(cli)?;
    let text = format!("{}\n", answer.json.pretty());
    let file = with(out, &records, |records| records.write_staged(&mode.file_name(), &text))?;
    word(out, &format!("Written: {}", from_root(&records, &file)))
}

/// `ftl orchestration wait-explorers`.
pub(crate) fn wait(
    cli: &GlobalArgs,
    required: usize,
    timeout: f64,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    if !(timeout.is_finite() && (0.0..=86_400.0).contains(&timeout)) {
        return Err(CommandError::usage("--timeout is no number of seconds", "give 0 to 86400 seconds"));
    }
    let stop = signals::stop(out)?;
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(timeout));
    let staging = Staging::of(cli)?;
    loop {
        let (answers, ignored) = exploration::read_files(&staging.folder()?);
        let standings: Vec<_> = answers.iter().map(|answer| (answer.mode, answer.standing)).collect();
        let quorum = exploration::judge(&standings, required);
        let over = began.elapsed() >= limit;
        let partial = answers.iter().any(|answer| answer.standing.is_usable());
        let status = match quorum.status(over) {
            Some("quorum_failure") if partial => Some("timeout"),
            status => status,
        };
        if stop.times_said() > 0 {
            return Ok(ExitStatus::Interrupted);
        }
        if let Some(status) = status {
            for what in &ignored {
                out.note(&format!("left out: {what}"));
            }
            print(out, &waited(&staging.folder()?, status, &quorum, began.elapsed()))?;
            return Ok(if status == "quorum_failure" { ExitStatus::Error } else { ExitStatus::Done });
        }
        std::thread::sleep(POLL.min(limit.saturating_sub(began.elapsed())));
    }
}

fn waited(cache: &Path, status: &str, quorum: &exploration::Quorum, elapsed: Duration) -> Json {
    let words = |modes: &[ExplorerMode]| Json::list(modes.iter().map(|mode| mode.word()));
    let files = quorum
        .completed
        .iter()
        .map(|mode| (mode.word(), Json::from(cache.join(mode.file_name()).display().to_string())));
    Json::object([
        ("status", Json::from(status)),
        ("completed", words(&quorum.completed)),
        ("missing", words(&quorum.missing)),
        ("elapsed", Json::from((elapsed.as_secs_f64() * 10.0).round() / 10.0)),
        ("exploration_files", Json::object(files)),
        ("rule", quorum.rule.map_or(Json::Null, |rule| Json::from(rule.word()))),
    ])
}

/// `ftl orchestration check-explorers`.
pub(crate) fn check(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let (answers, ignored) = staged(cli)?;
    let status = |mode: ExplorerMode| {
        let broken = ignored.iter().any(|what| what.contains(&mode.file_name()));
        match answers.iter().find(|answer| answer.mode == mode) {
            Some(answer) => answer.standing.word(),
            None if broken => "error",
            None => "pending",
        }
    };
    let modes = ExplorerMode::ALL.map(|mode| (mode.word(), Json::from(status(mode))));
    print(
        out,
        &Json::object([
            ("total", Json::from(ExplorerMode::ALL.len())),
            ("completed", Json::from(answers.len())),
            ("modes", Json::object(modes)),
        ]),
    )
}
