//! What a person names with RUN[/SEQ]: a run, a task of its plan by its number, or an instance.

use std::sync::Arc;

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::session::session_failure;
use ftl_command::{CommandError, GlobalArgs};
use ftl_core::run::InstanceId;
use ftl_engine::session::find;
use ftl_store::Store;
use ftl_view::board::Board;

use crate::reader::Reader;

/// How many tasks a hint names.
const MAX_NAMED: usize = 8;

/// A run with what a person wants to see of it.
pub(crate) struct RunView {
    /// The run and its board.
    pub(crate) reader: Reader,
    /// The part of the run that is meant.
    pub(crate) part: RunPart,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunPart {
    /// The whole run.
    Whole,
    /// A task of its plan.
    Task(String),
    /// An instance of the run, by its number.
    Instance(InstanceId),
}

impl RunView {
    /// Finds what a person named. A number that a task of the plan has is that task, another one an instance.
    pub(crate) fn find(
        cli: &GlobalArgs,
        store: &Arc<dyn Store>,
        named: &str,
    ) -> Result<RunView, CommandError> {
        let (run, part) = named.split_once('/').map_or((named, None), |(run, part)| (run, Some(part)));
        let run = find(&**store, run).map_err(|error| session_failure(&error))?.row.run;
        let library = Arc::new(LoadedProtocols::load(cli)?.library);
        let reader = Reader::open(store.clone(), run, library)?;
        let part = part.map_or(Ok(RunPart::Whole), |part| RunPart::parse(&reader, part))?;
        Ok(RunView { reader, part })
    }
}

impl RunPart {
    fn parse(reader: &Reader, text: &str) -> Result<RunPart, CommandError> {
        let seqs = reader.board.seqs();
        if seqs.iter().any(|seq| seq == text) {
            return Ok(RunPart::Task(text.to_owned()));
        }
        let (run, count) = (&reader.run, reader.board.instances());
        match text.parse::<u32>() {
            Ok(number) if (number as usize) < count => Ok(RunPart::Instance(InstanceId(number))),
            Ok(_) | Err(_) => {
                if seqs.is_empty() && count <= 1 {
                    let hint = format!("it has only one; `ftl why {run}` explains it");
                    return Err(CommandError::new(format!("run {run} has no instance {text}"), hint));
                }
                let last = count.saturating_sub(1);
                let mut hint = format!("its instances are {run}/0 to {run}/{last}");
                if !seqs.is_empty() {
                    let more = if seqs.len() > MAX_NAMED { ", …" } else { "" };
                    let named = seqs[..seqs.len().min(MAX_NAMED)].join(", ");
                    hint = format!("its tasks are {named}{more}; {hint}");
                }
                Err(CommandError::new(format!("run {run} has no task and no instance `{text}`"), hint))
            }
        }
    }

    /// Whether an instance belongs to it.
    pub(crate) fn holds(&self, board: &Board, instance: InstanceId) -> bool {
        match self {
            RunPart::Whole => true,
            RunPart::Task(seq) => board.task_of(instance) == Some(seq.as_str()),
            RunPart::Instance(one) => *one == instance,
        }
    }
}
