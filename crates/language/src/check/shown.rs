//! Checks of BOARD and DELIVERY: how runs of a protocol are shown, and where they ask how their work is delivered.
//!
//! Neither changes what a run does. A document that replaces another one and leaves a header out keeps that of the
//! document it replaces, as far as it fits.

use super::headers::{single_meter, unknown_state};
use super::tables::Pasted;
use crate::problem::Problem;
use ftl_core::catalogue::build::Delivery;
use ftl_core::program::{BoardCode, BoardKind};
use ftl_core::syntax::{Arg, Args, Block, BoardLine, Document, Ident, StatementKind, Step};
use ftl_core::value::Name;

/// The tracked variable whose tasks are on a board.
const PLAN: &str = "plan";

/// What BOARD takes beside its kind.
const ARGS: [&str; 2] = ["quiet", "rounds"];

/// The variable that the board of a document reads.
pub fn read_variable(document: &Document) -> Option<&'static str> {
    let kind = document.board.as_ref().and_then(|board| kind(&board.kind));
    (kind == Some(BoardKind::Tasks)).then_some(PLAN)
}

/// Checks both headers of a document.
pub fn check(pasted: &Pasted) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(board) = &pasted.document.board {
        check_board(pasted, board, &mut problems);
    }
    if let Some(delivery) = &pasted.document.delivery {
        check_delivery(pasted, delivery, &mut problems);
    }
    problems
}

/// How runs of a document are drawn, by its own header or by that of the document it replaces.
pub fn board_of(pasted: &Pasted, replaced: Option<&Document>) -> Option<BoardCode> {
    let line = pasted.document.board.as_ref().or_else(|| replaced?.board.as_ref())?;
    let kind = kind(&line.kind).filter(|kind| *kind != BoardKind::None)?;
    let is_meter = |name: &Name| pasted.document.limits.iter().any(|limit| limit.meter.name == *name);
    let quiet = words(&line.args, "quiet").map(|word| word.name.clone());
    Some(BoardCode {
        kind,
        quiet: quiet.filter(|state| pasted.state(state).is_some()).collect(),
        rounds: words(&line.args, "rounds").map(|word| word.name.clone()).find(is_meter),
    })
}

/// The state in which runs of a document ask how their work is delivered.
pub fn delivery_of(pasted: &Pasted, replaced: Option<&Document>) -> Option<Name> {
    let delivery = pasted.document.delivery.as_ref().or_else(|| replaced?.delivery.as_ref())?;
    Some(delivery.name.clone()).filter(|state| pasted.state(state).is_some())
}

fn kind(word: &Ident) -> Option<BoardKind> {
    let kinds = [BoardKind::Tasks, BoardKind::Steps, BoardKind::None];
    kinds.into_iter().find(|kind| kind.word() == &*word.name)
}

/// The words of an argument.
fn words<'a>(args: &'a Args, name: &'a str) -> impl Iterator<Item = &'a Ident> {
    let given = args.iter().filter(move |(one, _)| &*one.name == name);
    given.flat_map(|(_, arg)| match arg {
        Arg::Words(words) => words.as_slice(),
        Arg::Number(..) | Arg::Duration(..) | Arg::Text(_) | Arg::None(_) | Arg::Brace(..) => &[],
    })
}

fn check_board(pasted: &Pasted, board: &BoardLine, problems: &mut Vec<Problem>) {
    let word = &board.kind;
    if kind(word).is_none() {
        let message = format!("there is no board of `{}`", word.name);
        problems.push(Problem::error("unknown-word", word.span, message).among(
            &word.name,
            BoardKind::WORDS,
            "a board is one of",
        ));
    }
    let is_tracked = pasted.document.tracks.iter().any(|track| &*track.name.name == PLAN);
    if read_variable(&pasted.document).is_some() && !is_tracked {
        let message = format!("the board shows the tasks of `{PLAN}`, which is not tracked");
        let problem = Problem::error("unknown-variable", word.span, message);
        problems.push(problem.hint(format!("add `TRACK: {PLAN}`")));
    }
    for (name, arg) in &board.args {
        if !ARGS.contains(&&*name.name) {
            let message = format!("BOARD takes no `{}`", name.name);
            problems.push(
                Problem::error("unknown-parameter", name.span, message).among(&name.name, &ARGS, "it takes"),
            );
        } else if !matches!(arg, Arg::Words(_)) {
            let message = format!("`{}` of BOARD is not made of bare words", name.name);
            problems.push(Problem::error("type", arg.span(), message));
        }
    }
    words(&board.args, "quiet").for_each(|state| unknown_state(pasted, state, problems));
    words(&board.args, "rounds").for_each(|meter| single_meter(pasted, meter, "count rounds", problems));
}

/// The settings answer with any way of delivery, so the state must ask for one of all of them.
fn check_delivery(pasted: &Pasted, delivery: &Ident, problems: &mut Vec<Problem>) {
    let Some(state) = pasted.state(&delivery.name) else {
        return unknown_state(pasted, delivery, problems);
    };
    if !asks_how(&state.body) {
        let choices = Delivery::WORDS.join("|");
        let message = format!("`{}` does not ask how the work is delivered", delivery.name);
        problems.push(
            Problem::error("no-delivery", delivery.span, message)
                .hint(format!("ask there, `ASK: how = \"…\" choices={choices}`, and deliver by the answer")),
        );
    }
}

fn asks_how(block: &Block) -> bool {
    let offers_all = |args: &Args| {
        Delivery::WORDS.iter().all(|way| words(args, "choices").any(|word| &*word.name == *way))
    };
    block.iter().any(|statement| match &statement.what {
        StatementKind::Step { step, otherwise } => {
            let here = match step {
                Step::Ask { args, .. } => offers_all(args),
                Step::ForEach { body, .. } => asks_how(body),
                Step::Do { .. } | Step::Parallel { .. } | Step::Check { .. } | Step::Pay { .. } => false,
                Step::WaitFor { .. } | Step::WaitWords { .. } => false,
            };
            here || otherwise.as_ref().is_some_and(asks_how)
        }
        StatementKind::If { body, .. } => asks_how(body),
        StatementKind::Emit(_)
        | StatementKind::Set(..)
        | StatementKind::Increment(_)
        | StatementKind::Refill(..) => false,
        StatementKind::Use(_) | StatementKind::Exit(_) | StatementKind::Proceed | StatementKind::Broken => {
            false
        }
    })
}
