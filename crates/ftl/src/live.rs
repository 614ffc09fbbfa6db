//! The board on a terminal: drawn again in place whenever something has changed, and once a second for its
//! clocks. It never takes the whole screen, and what it leaves behind is its last picture.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstream::adapter::strip_str;
use ftl_command::{Out, out};
use ftl_core::amount::UNPRICED;
use ftl_core::performer::Performer;
use ftl_core::run::{Entry, Time};
use ftl_folder::clock;
use ftl_view::board::{Board, StoryStep, TaskRow, TaskStage, TaskWork};
use ftl_view::cause::{cause, reason};
use ftl_view::paint::{self, count, paint, safe};
use ftl_view::relative_time::lasted;
use ftl_view::runs;
use ftl_view::summary::{RunWait, Spent, Summary, WaitSubject};

/// How often it is drawn at most.
const PACE: Duration = Duration::from_millis(80);

/// How often it is drawn when nothing happens: clocks are in it.
const TICK: Duration = Duration::from_secs(1);

/// How many levels of the graph are shown by how far a line is from the edge.
const MAX_LEVELS: usize = 6;

/// How many things that wait for a person are shown.
const MAX_ASKED: usize = 3;

/// How many lines one step of a story has at most.
const MAX_STEP_LINES: usize = 3;

/// Where the words of a step begin.
const STEP_INDENT: usize = 11;

/// How wide the bar of a budget is.
const BAR: usize = 7;

/// No cursor and no wrapping while it is drawn; both again afterwards.
const BEGIN: &str = "\u{1b}[?25l\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?25h";

/// A board that is drawn.
pub(crate) struct Live {
    shown: Mutex<Shown>,
    news: Condvar,
}

struct Shown {
    board: Board,
    summary: Summary,
    title: String,
    is_new: bool,
    is_over: bool,
    /// The lines that are on the screen.
    last: Vec<String>,
}

impl Live {
    /// A board under a title.
    pub(crate) fn new(board: Board, title: &str) -> Live {
        let title = title.to_owned();
        let shown = Shown {
            board,
            summary: Summary::default(),
            title,
            is_new: true,
            is_over: false,
            last: Vec::new(),
        };
        Live { shown: Mutex::new(shown), news: Condvar::new() }
    }

    /// Draws until it is over.
    pub(crate) fn draw(&self, out: &Out) {
        let _ = out.bytes(BEGIN);
        let mut shown = lock(&self.shown);
        loop {
            shown.is_new = false;
            let is_over = shown.is_over;
            shown.draw(out);
            if is_over {
                break;
            }
            // Not more often than people can see, and at once when it is over.
            let wait = |shown, limit, enough: fn(&mut Shown) -> bool| {
                let waited = self.news.wait_timeout_while(shown, limit, enough);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
            shown = wait(shown, PACE, |shown| !shown.is_over);
            shown = wait(shown, TICK, |shown| !shown.is_new && !shown.is_over);
        }
        let _ = out.bytes(END);
    }

    /// Takes in what has happened.
    pub(crate) fn see(&self, entries: &[Entry], summary: &Summary) {
        let mut shown = lock(&self.shown);
        for entry in entries {
            shown.board.see(entry);
        }
        shown.summary = summary.clone();
        shown.is_new = true;
        self.news.notify_all();
    }

    /// Draws for the last time.
    pub(crate) fn over(&self) {
        lock(&self.shown).is_over = true;
        self.news.notify_all();
    }
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shown {
    /// Writes the picture over the last one, in one go.
    fn draw(&mut self, out: &Out) {
        let (width, height) = out::terminal().unwrap_or((80, 24));
        let picture = picture(&self.board, &self.summary, &self.title, clock::wall(), (width, height));
        let picture = fit(picture, width.saturating_sub(1));
        if picture == self.last {
            return;
        }
        let mut text = String::from("\u{1b}[?2026h");
        if !self.last.is_empty() {
            text.push_str(&format!("\u{1b}[{}A\r", self.last.len()));
        }
        for line in &picture {
            text.push_str(line);
            text.push_str("\u{1b}[K\r\n");
        }
        text.push_str("\u{1b}[J\u{1b}[?2026l");
        if out.bytes(&text).is_ok() {
            self.last = picture;
        }
    }
}

/// Lines no wider than the terminal, without colours where none are wanted.
pub(crate) fn fit(lines: Vec<String>, width: usize) -> Vec<String> {
    let colour = out::has_colour();
    let fitted = |line: String| {
        let line = paint::fitted(&line, Some(width));
        if colour { line } else { strip_str(&line).to_string() }
    };
    lines.into_iter().map(fitted).collect()
}

/// The board as lines, no more than the terminal is high.
pub(crate) fn picture(
    board: &Board,
    summary: &Summary,
    title: &str,
    now: Time,
    (width, height): (usize, usize),
) -> Vec<String> {
    if board.is_story() {
        return story(board, summary, title, now, (width, height));
    }
    let rows = board.rows();
    let head = head(board, title, now);
    let foot = foot(&rows, summary, width);
    let waits = waits(summary);
    let room = height.saturating_sub(2 + foot.len() + waits.len()).max(1);
    let mut lines = vec![head];
    lines.extend(fitting(&rows, room).into_iter().map(|shown| match shown {
        Fit::Row(row) => row_line(row, now, width),
        Fit::Left(text) => format!("  {}", paint(paint::QUIET, text)),
    }));
    lines.extend(foot.into_iter().map(|line| format!("  {line}")));
    lines.extend(waits);
    lines
}

/// A story: its last steps, and what is being done.
fn story(
    board: &Board,
    summary: &Summary,
    title: &str,
    now: Time,
    (width, height): (usize, usize),
) -> Vec<String> {
    let began = board.times.map_or(now, |(first, _)| first);
    let (head, waits) = (head(board, title, now), waits(summary));
    // The head, what is being done and what is spent stand beside the steps.
    let room = height.saturating_sub(4 + waits.len()).max(1);
    let mut lines = vec![head];
    lines.extend(step_lines(board.steps(), began, room, width));
    if board.end().is_none()
        && let Some(root) = board.root()
    {
        let doing = root.open.values().next().map(|open| doing(&open.whom)).unwrap_or_default();
        let rounds = board.code().and_then(|code| code.rounds.as_ref());
        let round = rounds.and_then(|meter| root.meters.get(meter)).filter(|meter| meter.highest_use() > 0);
        let round = round
            .map_or_else(String::new, |meter| format!("round {} of {}  ", meter.highest_use(), meter.limit));
        lines.push(format!(
            "  {} {}  {round}{doing}",
            paint(paint::STRONG, "▸"),
            paint(paint::STRONG, board.state())
        ));
    }
    lines.push(format!("  {}", runs::render_spent(&bought(summary))));
    lines.extend(waits);
    lines
}

/// The steps that there is room for: all of them whole, else only the last one whole, and the first ones left out.
fn step_lines(steps: &VecDeque<StoryStep>, began: Time, room: usize, width: usize) -> Vec<String> {
    let whole: Vec<Vec<String>> = steps.iter().map(|step| step_whole(step, began, width)).collect();
    if whole.iter().map(Vec::len).sum::<usize>() <= room {
        return whole.concat();
    }
    let last = whole.last().filter(|last| last.len() + 1 < room).cloned();
    let mut lines: Vec<String> = steps.iter().map(|step| step_line(step, began, width)).collect();
    if let Some(last) = last {
        lines.pop();
        lines.extend(last);
    }
    let left = lines.len().saturating_sub(room);
    if left > 0 {
        let before = format!("  {}", paint(paint::QUIET, format!("… {} before", count(left + 1, "step"))));
        lines.splice(..=left, [before]);
    }
    lines
}

/// A step in one line.
fn step_line(step: &StoryStep, began: Time, width: usize) -> String {
    let line = format!("{}{}", step_mark(step, began), safe(&step.text));
    paint::fitted(&line, Some(width.saturating_sub(1)))
}

/// A step in as many lines as its words need, up to a few.
fn step_whole(step: &StoryStep, began: Time, width: usize) -> Vec<String> {
    let words = paint::wrapped(&safe(&step.text), STEP_INDENT, STEP_INDENT, width.saturating_sub(1));
    let mut lines: Vec<String> = words.lines().take(MAX_STEP_LINES).map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|_| words.lines().count() > MAX_STEP_LINES) {
        last.push('…');
    }
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, &step_mark(step, began));
    }
    lines
}

/// The mark and the time of a step.
fn step_mark(step: &StoryStep, began: Time) -> String {
    let mark = match step.good {
        Some(true) => paint(paint::GOOD, "✓"),
        Some(false) => paint(paint::WARNING, "✗"),
        None => paint(paint::QUIET, "·"),
    };
    let at = paint(paint::QUIET, format!("{:>5}", lasted(step.at.saturating_sub(began))));
    format!("  {mark} {at}  ")
}

/// What it is about, where it stands, and how long it has taken.
fn head(board: &Board, title: &str, now: Time) -> String {
    let began = board.times.map_or(now, |(first, _)| first);
    let since = lasted(now.saturating_sub(began));
    format!(
        "{}  {}",
        paint(paint::STRONG, safe(title)),
        paint(paint::QUIET, format!("{} · {since}", board.state()))
    )
}

/// The lines about what waits for a person.
fn waits(summary: &Summary) -> Vec<String> {
    summary.waits.iter().filter(|wait| is_for_a_person(wait)).take(MAX_ASKED).map(describe_wait).collect()
}

enum Fit<'a> {
    Row(&'a TaskRow),
    Left(String),
}

/// The rows that there is room for: what is at work or needs a person first, then what comes next.
fn fitting(rows: &[TaskRow], room: usize) -> Vec<Fit<'_>> {
    if rows.len() <= room {
        return rows.iter().map(Fit::Row).collect();
    }
    let urgent = |row: &TaskRow| match row.stands {
        TaskStage::Held(_) => 0,
        TaskStage::Works(_) => 1,
        TaskStage::Blocked(_) => 2,
        TaskStage::Waits(_) => 3,
        TaskStage::Unreachable(_) => 4,
        TaskStage::Landed(_) => 5,
    };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| urgent(&rows[*at]));
    let mut kept: Vec<usize> = order.into_iter().take(room.saturating_sub(1)).collect();
    kept.sort_unstable();
    let left = rows.len() - kept.len();
    let mut shown: Vec<Fit<'_>> = kept.into_iter().map(|at| Fit::Row(&rows[at])).collect();
    shown.push(Fit::Left(format!("… and {}", count(left, "task"))));
    shown
}

fn row_line(row: &TaskRow, now: Time, width: usize) -> String {
    let indent = "  ".repeat(row.depth.min(MAX_LEVELS));
    let names = (width / 3).clamp(20, 44);
    let name = format!("{indent}{} {}", safe(&row.seq), safe(&row.slug));
    let name = paint::padded(&paint::fitted(&name, Some(names)), names);
    let (mark, text) = match &row.stands {
        TaskStage::Waits(on) if on.is_empty() => (paint(paint::QUIET, "·"), paint(paint::QUIET, "next")),
        TaskStage::Waits(on) => {
            (paint(paint::QUIET, "·"), paint(paint::QUIET, format!("waits for {}", safe(&on.join(" ")))))
        }
        TaskStage::Unreachable(by) => {
            (paint(paint::WARNING, "·"), paint(paint::WARNING, format!("behind {}", safe(&by.join(" ")))))
        }
        TaskStage::Works(work) => (paint(paint::STRONG, "▸"), working(work, now)),
        TaskStage::Held(why) => (paint(paint::ERROR, "?"), format!("needs you: {}", reason(why))),
        TaskStage::Landed(commit) => {
            let commit: String = commit.as_deref().unwrap_or_default().chars().take(8).collect();
            (paint(paint::GOOD, "✓"), format!("landed {}", paint(paint::QUIET, commit)))
        }
        TaskStage::Blocked(why) => (paint(paint::WARNING, "✗"), cause(why)),
    };
    format!("  {mark} {name}  {text}")
}

fn working(work: &TaskWork, now: Time) -> String {
    let tools = work.tools.map_or(String::new(), |(used, limit)| {
        format!("{} {used}/{limit} tools", paint::bar(used, 0, limit, BAR))
    });
    let doing = work.doing.as_ref().map(doing).unwrap_or_default();
    let took = lasted(now.saturating_sub(work.since));
    let state = paint::padded(&paint(paint::STRONG, &work.state), 10);
    let mut words = vec![state, tools, paint(paint::QUIET, took), paint(paint::QUIET, doing)];
    words.retain(|word| !word.is_empty());
    words.join("  ")
}

/// What is being done, as people say it.
fn doing(whom: &Performer) -> String {
    match whom.role() {
        Some(role) => format!("the {role} works"),
        None => whom.to_string(),
    }
}

/// How many tasks stand how, and what was spent: on one line where it is wide enough, else on two.
fn foot(rows: &[TaskRow], summary: &Summary, width: usize) -> Vec<String> {
    let counted = |wanted: fn(&TaskStage) -> bool, word: &str| {
        let number = rows.iter().filter(|row| wanted(&row.stands)).count();
        if number == 0 { String::new() } else { format!("{number} {word}") }
    };
    let mut words = vec![
        counted(|one| matches!(one, TaskStage::Landed(_)), "landed"),
        counted(|one| matches!(one, TaskStage::Works(_)), "at work"),
        counted(|one| matches!(one, TaskStage::Held(_)), "held"),
        counted(|one| matches!(one, TaskStage::Blocked(_)), "blocked"),
        counted(|one| matches!(one, TaskStage::Waits(_)), "to come"),
        counted(|one| matches!(one, TaskStage::Unreachable(_)), "behind a block"),
    ];
    words.retain(|word| !word.is_empty());
    let mut lines = vec![words.join(paint::DOT), runs::render_spent(&bought(summary))];
    lines.retain(|line| !line.is_empty());
    let whole = lines.join(paint::DOT);
    if paint::columns(&whole) + 3 > width { lines } else { vec![whole] }
}

/// What costs something: the budget of the run, without the meters of its loops.
fn bought(summary: &Summary) -> BTreeMap<String, Spent> {
    let costs = |name: &str| matches!(name, "tokens" | "money" | "turns" | UNPRICED);
    let meters = summary.meters.iter().filter(|(name, _)| costs(name));
    meters.map(|(name, spent)| (name.clone(), spent.clone())).collect()
}

fn is_for_a_person(wait: &RunWait) -> bool {
    matches!(wait.what, WaitSubject::Held | WaitSubject::Question)
}

fn describe_wait(wait: &RunWait) -> String {
    format!("  {} {}", paint(paint::WARNING, "?"), reason(&wait.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<TaskRow> {
        let stands = |at: usize| match at % 3 {
            0 => TaskStage::Landed(None),
            1 => TaskStage::Works(TaskWork {
                state: "VERIFY".into(),
                doing: None,
                tools: Some((2, 5)),
                since: 0,
            }),
            _ => TaskStage::Waits(vec!["001".into()]),
        };
        let row = |at: usize| TaskRow {
            seq: format!("{at:03}"),
            slug: "x".into(),
            depends: Vec::new(),
            depth: at,
            stands: stands(at),
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn what_is_at_work_is_shown_first_where_there_is_little_room() {
        for count in 0..30 {
            for room in 1..20 {
                let rows = rows(count);
                let shown = fitting(&rows, room);
                assert!(shown.len() <= room.max(1), "{count} {room}");
                let whole = shown.iter().all(|one| matches!(one, Fit::Row(_)));
                assert_eq!(whole, count <= room, "{count} {room}");
            }
        }
        let rows = rows(9);
        let shown = fitting(&rows, 4);
        let works =
            shown.iter().filter(|one| matches!(one, Fit::Row(TaskRow { stands: TaskStage::Works(_), .. })));
        assert_eq!(works.count(), 3);
    }

    #[test]
    fn the_last_step_is_whole_where_there_is_room() {
        let step = |text: &str| StoryStep { at: 0, good: Some(false), text: text.to_owned() };
        let words = "the architect on the code: CHANGES: name the variable better";
        let steps: VecDeque<StoryStep> = (0..5).map(|_| step(words)).collect();
        let plain = |room, width| -> Vec<String> {
            let lines = step_lines(&steps, 0, room, width);
            lines.iter().map(|line| strip_str(line).to_string()).collect()
        };
        assert_eq!(plain(5, 100).len(), 5);
        let whole = plain(10, 50);
        assert_eq!((whole.len(), whole[1].as_str()), (10, "           name the variable better"));
        let some = plain(6, 50);
        assert_eq!(some.len(), 6);
        assert_eq!(some[0], "  ✗  0:00  the architect on the code: CHANGES: n…");
        assert_eq!(some[5], "           name the variable better");
        let few = plain(4, 50);
        assert_eq!((few.len(), few[0].as_str(), &few[3]), (4, "  … 3 steps before", &some[5]));
        for room in 1..12 {
            assert!(plain(room, 30).len() <= room, "{room}");
        }
    }

    #[test]
    fn a_row_says_what_is_done_and_how_long() {
        let line = strip_str(&row_line(&rows(2)[1], 61_000, 100)).to_string();
        assert!(
            line.contains("▸   001 x") && line.contains("VERIFY") && line.contains("2/5 tools"),
            "{line}"
        );
        assert!(line.contains("1:01"), "{line}");
    }
}
