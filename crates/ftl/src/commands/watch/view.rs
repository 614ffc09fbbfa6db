//! The live view: a block for each run, drawn again in place. The block of a flow or a story is its board, the same
//! that its driver shows.
//!
//! It draws on the terminal's other screen and leaves the last picture behind when it ends. A picture
//! is written in one go, line over line, so that nothing flickers. Lines are cut to the width and
//! blocks to the height of the terminal, which is asked each time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use ftl_command::session::store_failure;
use ftl_command::{CommandError, ExitStatus, Out, out};
use ftl_core::run::{Entry, Fact, Standing, Time, WHOLE};
use ftl_engine::drive::StopSignal;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_store::Store;
use ftl_store::journal;
use ftl_view::board::Board;
use ftl_view::cause::cause;
use ftl_view::lines;
use ftl_view::paint::{self, paint, safe};
use ftl_view::relative_time;
use ftl_view::runs;
use ftl_view::summary::RunStanding;

use super::{LOOK, Watched};
use crate::live::{fit, picture};
use crate::reader::Reader;
use ftl_command::known::{self, RunOverview};

/// How long a picture stays when nothing changes: clocks and countdowns are in it.
const REFRESH: Duration = Duration::from_secs(1);

/// How many entries of a run stand under it.
const LAST: usize = 4;

/// How far back the entries of a run are read when it is first seen.
const MAX_BACK: u64 = 5_000;

/// How high the picture is that is left behind.
const MAX_LEFT: usize = 1000;

/// How many entries are read at a time.
const PAGE: usize = 500;

/// How many things that a run waits for are shown.
const MAX_WAITS: usize = 4;

/// How high a board is at least, where several are drawn.
const MIN_BOARD: usize = 6;

/// How wide a bar is at most.
const MAX_BAR: usize = 30;

/// The other screen, no cursor, no wrapping of long lines.
const BEGIN: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";

/// Draws until the one run that is watched has ended, or the person interrupts.
pub(super) fn run(watched: &Watched, stop: &StopSignal, out: &Out) -> Result<ExitStatus, CommandError> {
    let mut view = View {
        watched,
        followed: BTreeMap::new(),
        readers: BTreeMap::new(),
        ended: BTreeSet::new(),
        first: true,
    };
    out.bytes(BEGIN)?;
    let ended = view.turn(stop, out);
    out.bytes(END)?;
    let exit = ended?;
    let (width, _) = out::terminal().unwrap_or((80, 24));
    let mut last: String = view.picture(width, MAX_LEFT)?.iter().map(|line| format!("{line}\n")).collect();
    last.push_str(&view.report());
    out.text(&last)?;
    Ok(exit)
}

struct View<'a> {
    watched: &'a Watched,
    followed: BTreeMap<RunId, Followed>,
    /// The boards of flows and stories.
    readers: BTreeMap<RunId, Reader>,
    /// Runs that had ended when the command began.
    ended: BTreeSet<RunId>,
    first: bool,
}

impl View<'_> {
    fn turn(&mut self, stop: &StopSignal, out: &Out) -> Result<ExitStatus, CommandError> {
        let mut seen = None;
        let mut drawn: Option<(Instant, Vec<String>)> = None;
        loop {
            if stop.times_said() > 0 {
                return Ok(ExitStatus::Interrupted);
            }
            let size = out::terminal().unwrap_or((80, 24));
            let now = (self.watched.version()?, size);
            let is_old = drawn.as_ref().is_none_or(|(when, _)| when.elapsed() >= REFRESH);
            if seen != Some(now) || is_old {
                let resized = seen.is_none_or(|(_, before)| before != size);
                seen = Some(now);
                // The last column stays free: clearing the rest of a full line would take its last letter.
                let picture = self.picture(size.0.saturating_sub(1), size.1)?;
                if resized || drawn.as_ref().is_none_or(|(_, before)| *before != picture) {
                    draw(&picture, out)?;
                }
                drawn = Some((Instant::now(), picture));
                if self.watched.only.is_some() && self.watched.rows()?.iter().all(|row| row.settled) {
                    return Ok(ExitStatus::Done);
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What became of the one run that was watched, as its driver was told.
    fn report(&self) -> String {
        let told = |(run, reader): (&RunId, &Reader)| {
            let row = self.watched.store.run(run).ok().flatten()?;
            let summary = known::summary(&row);
            let is_over = row.settled && Board::is_for(&*self.watched.library, &summary.protocol);
            is_over.then(|| reader.board.render_report(run, &summary.meters))
        };
        let Some(_) = &self.watched.only else { return String::new() };
        self.readers.iter().filter_map(told).collect()
    }

    /// All runs as lines that fit the terminal.
    fn picture(&mut self, width: usize, height: usize) -> Result<Vec<String>, CommandError> {
        let now = clock::wall();
        let mut all = Vec::new();
        for row in self.watched.rows()? {
            if row.settled && self.first && self.watched.only.is_none() {
                self.ended.insert(row.run.clone());
            }
            if self.ended.contains(&row.run) {
                continue;
            }
            let known = RunOverview::of(&self.watched.place, row)?;
            if !self.has_board(&known) {
                let followed = self.followed.entry(known.row.run.clone()).or_default();
                followed.read(&*self.watched.store, &known.row.run, known.row.head)?;
            }
            all.push(known);
        }
        self.first = false;
        all.sort_by_key(order);
        let blocks = self.blocks(&all, (now, width), height);
        let head = format!(
            "{} {}",
            paint(paint::STRONG, safe(&self.watched.place.root().display().to_string())),
            paint(
                paint::QUIET,
                format!("{} · {}", paint::count(blocks.len(), "run"), relative_time::clock(now))
            ),
        );
        Ok(fit(arranged(head, blocks, height), width))
    }
}

impl View<'_> {
    /// Brings the board of a run up to date, where it has one. A journal that this program does not understand has
    /// none.
    fn has_board(&mut self, known: &RunOverview) -> bool {
        if !Board::is_drawn(&*self.watched.library, &known.summary.protocol) {
            return false;
        }
        let run = &known.row.run;
        if let Some(reader) = self.readers.get_mut(run) {
            return reader.refresh(&mut |_, _| {}).is_ok();
        }
        let opened = Reader::open(self.watched.store.clone(), run.clone(), self.watched.library.clone());
        opened.is_ok_and(|reader| self.readers.insert(run.clone(), reader).is_none())
    }

    /// The blocks in as much detail as the terminal has room for.
    fn blocks(&self, all: &[RunOverview], room: (Time, usize), height: usize) -> Vec<Vec<String>> {
        let mut blocks = Vec::new();
        for detail in [Detail::Entries, Detail::Bars, Detail::Waits] {
            let share = ((height.saturating_sub(1)) / all.len().max(1)).saturating_sub(1).max(MIN_BOARD);
            let one = |known: &RunOverview| match self.readers.get(&known.row.run) {
                Some(reader) => Some(drawn(known, reader, room, share)),
                None => Some(block(known, self.followed.get(&known.row.run)?, detail, room)),
            };
            blocks = all.iter().filter_map(one).collect();
            if blocks.iter().map(|block| block.len() + 1).sum::<usize>() < height {
                break;
            }
        }
        blocks
    }
}

/// As many blocks as fit, whole if they can be; the others are counted.
fn arranged(head: String, blocks: Vec<Vec<String>>, height: usize) -> Vec<String> {
    let mut picture = vec![head];
    let count = blocks.len();
    for (index, block) in blocks.into_iter().enumerate() {
        // A line stays free for the number of those that do not fit.
        let room = height.saturating_sub(picture.len() + usize::from(index + 1 < count));
        if room < 2 {
            let more = format!("… and {}", paint::count(count - index, "run"));
            picture.push(paint(paint::QUIET, more));
            break;
        }
        picture.push(String::new());
        picture.extend(block.into_iter().take(room - 1));
    }
    picture.truncate(height.max(1));
    picture
}

/// Writes a picture over the last one, in one go.
fn draw(picture: &[String], out: &Out) -> Result<(), CommandError> {
    // Terminals that know the first and last of these show nothing in between.
    let mut text = String::from("\u{1b}[?2026h\u{1b}[H");
    text.push_str(&picture.join("\u{1b}[K\r\n"));
    text.push_str("\u{1b}[K\u{1b}[J\u{1b}[?2026l");
    out.bytes(&text)
}

/// How much of a run is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Where it stands and what it waits for.
    Waits,
    /// Also what is spent.
    Bars,
    /// Also its last entries.
    Entries,
}

/// Who moves is drawn first, who has ended last.
fn order(known: &RunOverview) -> u8 {
    match known.standing() {
        RunStanding::Known(Standing::Running | Standing::Suspended) => 0,
        RunStanding::Known(Standing::Waiting | Standing::Held) => 1,
        RunStanding::Interrupted => 2,
        RunStanding::Known(Standing::Settled(_)) | RunStanding::Unknown => 3,
    }
}

/// The board of a run, no higher than its share of the terminal.
fn drawn(known: &RunOverview, reader: &Reader, (now, width): (Time, usize), share: usize) -> Vec<String> {
    let summary = &known.summary;
    // The clock of a run that has ended stands still.
    let last = reader.board.times.map_or(now, |(_, last)| last);
    let now = if known.row.settled { last } else { now };
    let driver = known.driver().filter(|_| known.standing() == RunStanding::Interrupted);
    let height = share.saturating_sub(usize::from(driver.is_some()));
    let mut lines = picture(&reader.board, summary, &summary.title, now, (width, height));
    if let Some(head) = lines.first_mut() {
        *head =
            format!("{}  {}  {head}", paint(paint::STRONG, &known.row.run), runs::standing(known.standing()));
    }
    lines.extend(driver.map(|line| format!("  {line}")));
    lines
}

fn block(
    known: &RunOverview,
    followed: &Followed,
    detail: Detail,
    (now, width): (Time, usize),
) -> Vec<String> {
    let summary = &known.summary;
    let mut words = vec![
        paint(paint::STRONG, &known.row.run),
        runs::standing(known.standing()),
        known.at(),
        paint(paint::QUIET, relative_time::ago(known.row.changed, now)),
        safe(&summary.title),
    ];
    words.retain(|word| !word.is_empty());
    let mut block = vec![words.join("  ")];
    if known.row.settled {
        block.extend(summary.reason.as_deref().map(cause));
    } else {
        block.extend(known.driver());
        block.extend(known.waits(MAX_WAITS, now, Some(width.saturating_sub(2))));
        if detail > Detail::Waits {
            block.extend(bars(known, followed, width));
        }
    }
    if detail > Detail::Bars {
        block.extend(followed.last.iter().cloned());
    }
    let indented = |(index, line): (usize, String)| if index == 0 { line } else { format!("  {line}") };
    block.into_iter().enumerate().map(indented).collect()
}

/// Bars: what is spent of what, what has ended of what was opened.
fn bars(known: &RunOverview, followed: &Followed, width: usize) -> Vec<String> {
    let (opened, ended) = known.summary.instances;
    let (items, heard) = followed.items();
    let mut rows: Vec<(String, (u64, u64, u64), String)> = Vec::new();
    for (name, spent) in &known.summary.meters {
        if let Some(limit) = spent.limit.filter(|_| runs::is_worth_telling(name, spent)) {
            rows.push((safe(name), (spent.used, spent.reserved, limit), runs::spent_and_aside(name, spent)));
        }
    }
    if items > 1 {
        rows.push((String::from("items"), (heard, 0, items), format!("{heard}/{items}")));
    }
    if opened > 1 {
        rows.push((String::from("instances"), (ended, 0, opened), format!("{ended}/{opened}")));
    }
    let names = rows.iter().map(|(name, ..)| paint::columns(name)).max().unwrap_or(0);
    let cells = (width / 3).clamp(5, MAX_BAR);
    let line = |(name, (full, aside, whole), text): (String, (u64, u64, u64), String)| {
        format!("{}  {}  {text}", paint::padded(&name, names), paint::bar(full, aside, whole, cells))
    };
    rows.into_iter().map(line).collect()
}

/// What was read of a run's journal.
#[derive(Default)]
struct Followed {
    after: u64,
    last: VecDeque<String>,
    /// Steps that asked for several things: how many, and how many of them have ended.
    fans: BTreeMap<(u32, u64), (u64, u64)>,
}

impl Followed {
    /// Reads what is new.
    fn read(&mut self, store: &dyn Store, run: &RunId, head: u64) -> Result<(), CommandError> {
        self.after = self.after.max(head.saturating_sub(MAX_BACK));
        while self.after < head {
            let page = store.entries(run, self.after, PAGE).map_err(|error| store_failure(&error))?;
            let Some(last) = page.last() else { return Ok(()) };
            self.after = last.seq;
            for record in &page {
                // An entry that this program does not understand is not shown here.
                if let Ok(entry) = journal::decode(store, run, record) {
                    self.see(&entry);
                }
            }
        }
        Ok(())
    }

    fn see(&mut self, entry: &Entry) {
        let whose = entry.instance.0;
        match &entry.fact {
            Fact::Asked { asks, fan: Some(_), .. } if asks.len() > 1 => {
                self.fans.insert((whose, entry.seq), (asks.len() as u64, 0));
            }
            Fact::Heard { action, .. } if action.index == WHOLE => {
                self.fans.remove(&(whose, action.entry));
            }
            Fact::Heard { action, .. } => {
                if let Some((_, heard)) = self.fans.get_mut(&(whose, action.entry)) {
                    *heard += 1;
                }
            }
            Fact::Moved { .. } | Fact::Settled { .. } => self.fans.retain(|(owner, _), _| *owner != whose),
            Fact::Opened(_) | Fact::Asked { .. } | Fact::Set { .. } | Fact::Emitted { .. } => {}
            Fact::Paid(_) | Fact::Refilled { .. } | Fact::Reserved { .. } | Fact::Released { .. } => {}
            Fact::Waived { .. } | Fact::Raised { .. } | Fact::Refused { .. } | Fact::Suspended { .. } => {}
            Fact::Held { .. } | Fact::Resumed { .. } | Fact::Adopted { .. } => {}
        }
        let time = paint(paint::QUIET, relative_time::clock(entry.at));
        self.last.push_back(format!("{time} {}", lines::line(entry)));
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }

    /// How many things were asked for at once and are not all heard, and how many are.
    fn items(&self) -> (u64, u64) {
        self.fans.values().fold((0, 0), |(all, done), (items, heard)| (all + items, done + heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(lines: usize) -> Vec<String> {
        (0..lines).map(|line| line.to_string()).collect()
    }

    #[test]
    fn a_picture_is_never_higher_than_the_terminal() {
        for height in 1..40 {
            for count in 0..9 {
                let picture = arranged("head".into(), vec![block(4); count], height);
                assert!(picture.len() <= height, "{height} {count}: {picture:?}");
                let whole = 5 * count < height;
                let cut = picture.iter().any(|line| line.contains("… and"));
                assert!(!(whole && cut), "{height} {count}: {picture:?}");
            }
        }
    }
}
