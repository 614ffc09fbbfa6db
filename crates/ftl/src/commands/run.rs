//! `ftl run`, `ftl resume`: driving runs in the foreground until nothing moves without a person.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ftl_agents::scripted::MAX_SCRIPT_BYTES;
use ftl_agents::scripted::rehearsal::RehearsalScript;
use ftl_command::protocol_loader::{LoadedProtocols, LoadedTarget};
use ftl_command::session::session_failure;
use ftl_command::trust::TrustScope;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, foreign, out, session, signals};
use ftl_core::program::InputCode;
use ftl_core::run::{End, Entry, Event, Input, Run as Machine, Standing, Terms};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::{DriveEnd, DriveObserver, StopSignal};
use ftl_engine::driver::{Driver, Opening, Todo};
use ftl_engine::session::{Claim, Driven, Session, driven, find};
use ftl_folder as folder;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_language::library::Library;
use ftl_settings::roster::Choice;
use ftl_store::order::Order;
use ftl_store::owner::Card;
use ftl_store::{Lease, Most, RunRow, Store};
use ftl_view::board::{Board, news};
use ftl_view::lines;
use ftl_view::paint::{self, paint, safe};
use ftl_view::runs;
use ftl_view::summary::{RunStanding, Summary};
use serde_json::{Value as Json, json};

use super::{code, flow};
use crate::agent_follower;
use crate::cli::{Resume, RunArgs};
use crate::live::Live;
use ftl_command::document::RunDocument;
use ftl_command::known::{self, RunOverview};

/// How often the end of a run that another process drives is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// How long a command waits for another process before it says what it waits for.
const MAX_QUIET: Duration = Duration::from_secs(1);

/// How many runs one process drives at the same time.
const MAX_TOGETHER: usize = 16;

/// Opens a run of a protocol and drives it.
pub(crate) fn run(cli: &GlobalArgs, asked: &RunArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    session::not_an_agent(&session::place(cli)?)?;
    let script = asked.script.as_deref().map(|file| script(file, out)).transpose()?;
    let inputs = inputs(&asked.inputs)?;
    let loaded = LoadedProtocols::load(cli)?;
    let library = can_be_opened(loaded, &asked.protocol, &inputs)?;
    // A script that answers everything asks no agent, but what is bound is bound.
    let scope = TrustScope::Runs(&[&asked.protocol], Some(&Choice::default()));
    let session = session::open_with(cli, library, scope, out)?;
    agent_follower::follow(&session, asked.talk);
    let mut terms = session.config().terms(session.library());
    foreign::narrow(&mut terms).iter().for_each(|note| out.note(note));
    let opening = Opening { protocol: Name::from(asked.protocol.as_str()), inputs, terms };
    let stop = signals::stop(out)?;
    let (driver, todo) = session.open(opening, script.as_deref()).map_err(|error| session_failure(&error))?;
    let id = driver.id().clone();
    if !out.is_json() {
        let title = format!(
            "run {} of {} {}",
            paint(paint::STRONG, &id),
            asked.protocol,
            safe(&driver.summary().title)
        );
        out.progress(&format!("{}\n", title.trim_end()))?;
    }
    let wheel = ForegroundRun::new(&session, &stop, out);
    let rest = wheel.drive_with_person(cli, driver, todo)?;
    report(&wheel, &[(id, Left::Rest(rest))])
}

/// What is wrong with a name or an input is told before a store is made for it.
pub(crate) fn can_be_opened(
    loaded: LoadedProtocols,
    name: &str,
    inputs: &Fields,
) -> Result<Arc<Library>, CommandError> {
    match loaded.find_name(name)? {
        LoadedTarget::Protocol(_) => {}
        LoadedTarget::OrphanDocument(_) => {
            let message = format!("the document of `{name}` defines no protocol");
            return Err(CommandError::new(message, "`ftl check` tells what is wrong with it"));
        }
        LoadedTarget::Unreadable(unreadable) => return Err(unreadable.failure),
    }
    let Some(program) = loaded.library.program(name) else {
        let message = format!("`{name}` is not sound, and does not run");
        return Err(CommandError::new(message, format!("`ftl check {name}` tells what is wrong with it")));
    };
    let mut takes: Vec<String> = program.inputs.iter().map(input_hint).collect();
    takes.insert(0, format!("ftl run {name}"));
    let (protocol, inputs) = (Name::from(name), inputs.clone());
    let event = Event::Open { protocol, inputs, terms: Terms::default(), adopt: None };
    let library = Arc::new(loaded.library);
    let refusal = Machine::new(library.clone()).decide(&Input { at: 0, event }).refusal;
    match refusal {
        Some(refusal) => {
            Err(CommandError::usage(refusal.message, format!("type it as `{}`", takes.join(" "))))
        }
        None => Ok(library),
    }
}

/// `objective=…`, in brackets where it has a default.
fn input_hint(input: &InputCode) -> String {
    if input.default.is_some() { format!("[{}=…]", input.name) } else { format!("{}=…", input.name) }
}

/// Takes over runs without a driver, and drives them on.
pub(crate) fn resume(cli: &GlobalArgs, asked: &Resume, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let by = asked.id.as_ref().map(|_| session::person(cli, &place)).transpose()?;
    let (rows, held) = match &asked.id {
        Some(id) => {
            let store = session::store_of_runs(&place)?;
            (vec![find(&*store, id).map_err(|error| session_failure(&error))?.row], Vec::new())
        }
        None => match session::store(&place)? {
            Some(store) => {
                // Runs that are gone are not taken for none.
                store.check_loss().map_err(|error| session::store_failure(&error))?;
                waiting_for_a_driver(&place, &*store)?
            }
            None => (Vec::new(), Vec::new()),
        },
    };
    if rows.is_empty() {
        if out.is_json() {
            let mut told = json!({ "runs": [] });
            if !held.is_empty() {
                told["held"] = held.iter().map(held_document).collect();
            }
            out.json(&told)?;
        } else {
            let told: String = held.iter().map(held_text).collect();
            out.text(&format!("nothing to resume\n{told}"))?;
        }
        return Ok(ExitStatus::Done);
    }
    if !out.is_json() {
        out.progress(&held.iter().map(held_text).collect::<String>())?;
    }
    let session = session::open(cli)?;
    let opened: Vec<Summary> = rows.iter().map(known::summary).collect();
    let protocols: Vec<&str> = opened.iter().map(|one| &*one.protocol).collect();
    session::require_trust(&session, TrustScope::Runs(&protocols, None), out)?;
    agent_follower::follow(&session, asked.talk);
    let stop = signals::stop(out)?;
    match rows.as_slice() {
        [row] if row.settled && session.only_plans(&row.run) => {
            let run = row.run.clone();
            drop(session);
            flow::take_on(cli, &run, asked.talk, out)
        }
        [row] => {
            let wheel = ForegroundRun::new(&session, &stop, out);
            let by = by.as_deref().filter(|_| !asked.orders_only);
            let left = match wheel.resume(row, by)? {
                Left::Rest(rest) => Left::Rest(wheel.with_person(cli, &row.run, rest)?),
                left @ Left::Theirs(..) => left,
            };
            // One that had ended before has been told already.
            if !row.settled && code::is_story(&session, &row.run)? {
                return code::resumed(&wheel, &row.run, &left);
            }
            report(&wheel, &[(row.run.clone(), left)])
        }
        several => {
            resume_all(&ForegroundRun { several: true, ..ForegroundRun::new(&session, &stop, out) }, several)
        }
    }
}

/// A run that is held, in words: why it is not taken, and what takes it.
fn held_text(known: &RunOverview) -> String {
    let (run, summary) = (&known.row.run, &known.summary);
    let why = summary.reason.as_deref().map_or(String::new(), |why| format!(": {}", safe(why)));
    let (word, state) = (runs::standing(RunStanding::Known(Standing::Held)), safe(&summary.state));
    let command = runs::command(&format!("ftl resume {run}"));
    format!("run {run} {word} in {state}{why}; only a person lets it go on: {command}\n")
}

/// The same as a document.
fn held_document(known: &RunOverview) -> Json {
    let (run, summary) = (&known.row.run, &known.summary);
    let command = format!("ftl resume {run}");
    json!({ "run": run, "state": summary.state, "why": summary.reason, "command": command })
}

/// The runs that go on by themselves once a process drives them, and that none drives; and those that are held, which
/// go on when a person names them.
fn waiting_for_a_driver(
    place: &StateFolder,
    store: &dyn Store,
) -> Result<(Vec<RunRow>, Vec<RunOverview>), CommandError> {
    let (mut rows, mut held) = (Vec::new(), Vec::new());
    let open = Most { ended: 0, ..Most::ALL };
    for row in store.newest(open).map_err(|error| session::store_failure(&error))?.rows {
        let known = RunOverview::of(place, row)?;
        if known.row.settled || known.driven != Driven::ByNobody {
            continue;
        }
        let orders = store.pending(&known.row.run).map_err(|error| session::store_failure(&error))?;
        if !known.summary.rests() || !orders.is_empty() {
            rows.push(known.row);
        } else if known.summary.standing == RunStanding::Known(Standing::Held) {
            held.push(known);
        }
    }
    Ok((rows, held))
}

/// Drives several runs side by side, so many at a time: one that waits for a service keeps no other
/// from going on.
fn resume_all(wheel: &ForegroundRun<'_>, rows: &[RunRow]) -> Result<ExitStatus, CommandError> {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::new());
    let work = || {
        while let Some(row) =
            rows.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| wheel.stop.times_said() == 0)
        {
            let left = wheel.resume(row, None);
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((row.run.clone(), left));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..rows.len().min(MAX_TOGETHER) {
            scope.spawn(work);
        }
        work();
    });
    let mut ends = Vec::new();
    let mut failure = None;
    for (run, left) in ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match left {
            Ok(left) => ends.push((run, left)),
            Err(error) => {
                let error = CommandError { message: format!("run {run}: {}", error.message), ..error };
                wheel.out.error(&error);
                failure = Some(error.exit);
            }
        }
    }
    let exit = report(wheel, &ends)?;
    for (run, left) in &ends {
        if code::is_story(wheel.session, run)? {
            code::resumed_among(wheel, run, left)?;
        }
    }
    Ok(failure.unwrap_or(exit))
}

/// Driving runs in the foreground.
pub(crate) struct ForegroundRun<'a> {
    pub(super) session: &'a Session,
    pub(super) stop: &'a StopSignal,
    pub(super) out: &'a Out,
    /// Whether lines say which run they are about, because there are several.
    several: bool,
}

impl<'a> ForegroundRun<'a> {
    /// Drives runs for a command, and shows the progress of one.
    pub(crate) fn new(session: &'a Session, stop: &'a StopSignal, out: &'a Out) -> ForegroundRun<'a> {
        ForegroundRun { session, stop, out, several: false }
    }

    /// Resumes a run; where a person says so, also what is held in it.
    fn resume(&self, row: &RunRow, by: Option<&str>) -> Result<Left, CommandError> {
        if row.settled {
            return Ok(Left::Rest(DriveEnd::Rests(known::summary(row))));
        }
        if let Some(by) = by {
            self.let_go_on(&row.run, by)?;
        }
        self.drive_on(&row.run)
    }

    /// Leaves an order for everything that is held and can be asked again.
    fn let_go_on(&self, run: &RunId, by: &str) -> Result<(), CommandError> {
        let machine = self.session.look(run).map_err(|error| session_failure(&error))?;
        for instance in machine.live().filter(|one| !one.held.is_empty()) {
            let order = Order::Resume { instance: instance.id, by: by.to_owned() };
            self.session.send(run, &order).map_err(|error| session_failure(&error))?;
        }
        Ok(())
    }

    /// Drives a run on, or watches the process that does until it rests.
    fn drive_on(&self, run: &RunId) -> Result<Left, CommandError> {
        self.tell_driver(run, "watching it until it rests")?;
        loop {
            let mut enough = || self.stop.times_said() > 0 || self.rests(run);
            let claim = self.session.claim(run, &mut enough).map_err(|error| session_failure(&error))?;
            let card = match claim {
                Claim::Ours(lease) => return self.drive_claimed(&lease).map(Left::Rest),
                Claim::Theirs(card) => card,
            };
            let row = self.session.store().run(run).map_err(|error| session::store_failure(&error))?;
            let summary = row.as_ref().map(known::summary).unwrap_or_default();
            if row.is_none_or(|row| row.settled) {
                return Ok(Left::Rest(DriveEnd::Rests(summary)));
            }
            if self.stop.times_said() > 0 {
                return Ok(Left::Theirs(summary, card));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes a run over as soon as no other process drives it, and drives it on. `None` when another process drives
    /// it and it is enough: what was waited for is there, or a signal came.
    pub(crate) fn take_over(
        &self,
        run: &RunId,
        doing: &str,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<Option<DriveEnd>, CommandError> {
        let lease = self.claim_when_free(run, doing, enough)?;
        lease.map(|lease| self.drive_claimed(&lease)).transpose()
    }

    /// Claims a run as soon as no other process drives it. `None` when one does and it is enough.
    pub(crate) fn claim_when_free(
        &self,
        run: &RunId,
        doing: &str,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Lease>, CommandError> {
        let mut tell = Some(Instant::now() + MAX_QUIET);
        let mut look = || {
            if tell.is_some_and(|at| Instant::now() >= at) {
                tell = None;
                // Who it is only helps; whether it lives is looked at anyway.
                let _ = self.tell_driver(run, doing);
            }
            self.stop.times_said() > 0 || self.is_free(run) || enough()
        };
        match self.session.claim(run, &mut look).map_err(|error| session_failure(&error))? {
            Claim::Ours(lease) => Ok(Some(lease)),
            Claim::Theirs(_) => Ok(None),
        }
    }

    /// Drives the run of a task that is ours, shows what happens, and remembers what was written.
    pub(crate) fn drive_task(
        &self,
        (driver, todo): (Driver, Todo),
        answers: BTreeMap<Name, Result<Value, ftl_core::run::Failure>>,
        seen: &mut Vec<Entry>,
    ) -> Result<DriveEnd, CommandError> {
        let mut follow = Remember { follow: Follow { out: self.out, before: String::from(" ") }, seen };
        let rest = self.session.drive_task(driver, todo, self.stop, &mut follow, answers);
        rest.map_err(|error| session_failure(&error))
    }

    /// Says who drives a run, if a process does, and what this process does meanwhile.
    fn tell_driver(&self, run: &RunId, doing: &str) -> Result<(), CommandError> {
        let row = self.session.store().run(run).map_err(|error| session::store_failure(&error))?;
        let Some(row) = row else { return Ok(()) };
        match driven(self.session.place(), &row).map_err(|error| session_failure(&error))? {
            Driven::ByNobody => {}
            Driven::By(card) => {
                let who = known::driver(card.as_ref());
                self.out.beside(&format!("run {run} is driven by {who}; {doing}\n"));
            }
        }
        Ok(())
    }

    fn rests(&self, run: &RunId) -> bool {
        let row = self.session.store().run(run).ok().flatten();
        row.is_none_or(|row| row.settled || row.owner.is_none())
    }

    /// Whether a run has no owner: its last one has given it back.
    fn is_free(&self, run: &RunId) -> bool {
        let row = self.session.store().run(run).ok().flatten();
        row.is_none_or(|row| row.owner.is_none())
    }

    /// Brings a run that was claimed back to where it was, and drives it.
    fn drive_claimed(&self, lease: &Lease) -> Result<DriveEnd, CommandError> {
        let (driver, todo) = self.session.recover(lease).map_err(|error| session_failure(&error))?;
        self.drive(driver, todo)
    }

    /// Drives a run that is ours, and shows what happens.
    pub(crate) fn drive(&self, driver: Driver, todo: Todo) -> Result<DriveEnd, CommandError> {
        let before = if self.several { paint(paint::QUIET, driver.id()) } else { String::from(" ") };
        if Board::is_drawn(&**self.session.library(), &driver.summary().protocol) {
            return self.drive_flow(driver, todo, &before);
        }
        let mut follow = Follow { out: self.out, before };
        self.session.drive(driver, todo, self.stop, &mut follow).map_err(|error| session_failure(&error))
    }

    /// Drives a flow: its board is drawn where there is a terminal, its news are told elsewhere.
    fn drive_flow(&self, driver: Driver, todo: Todo, before: &str) -> Result<DriveEnd, CommandError> {
        let board = self.board(driver.id())?.forgetting();
        let is_drawn = !self.several && !self.session.is_heard() && !self.out.is_json() && out::is_drawable();
        if !is_drawn {
            let mut told = News { out: self.out, run: driver.id().clone(), before: before.to_owned(), board };
            let rest = self.session.drive(driver, todo, self.stop, &mut told);
            return rest.map_err(|error| session_failure(&error));
        }
        let live = Live::new(board, &driver.summary().title);
        let rest = std::thread::scope(|scope| {
            scope.spawn(|| live.draw(self.out));
            let rest = self.session.drive(driver, todo, self.stop, &mut Drawn(&live));
            live.over();
            rest
        });
        rest.map_err(|error| session_failure(&error))
    }

    /// The board of a run as its journal makes it.
    pub(crate) fn board(&self, run: &RunId) -> Result<Board, CommandError> {
        board_of(self.session, run)
    }
}

/// The board of a run as its journal makes it.
pub(crate) fn board_of(session: &Session, run: &RunId) -> Result<Board, CommandError> {
    session.board(run).map_err(|error| session_failure(&error))
}

/// How a command leaves a run.
pub(crate) enum Left {
    /// It came to rest, or was stopped, in this process.
    Rest(DriveEnd),
    /// Another process drives it on; this command only looks no longer.
    Theirs(Summary, Option<Card>),
}

/// Shows what happens in a run while it is driven.
struct Follow<'a> {
    out: &'a Out,
    before: String,
}

impl DriveObserver for Follow<'_> {
    fn see(&mut self, entries: &[Entry], _: &Summary) {
        if self.out.is_json() {
            return;
        }
        let news = entries.iter().filter(|entry| lines::is_news(entry));
        let text: String = news.map(|entry| format!("{} {}\n", self.before, lines::line(entry))).collect();
        if !text.is_empty() {
            let _ = self.out.progress(&text);
        }
    }
}

/// Shows what happens, and remembers it for the command that drove the run.
struct Remember<'a> {
    follow: Follow<'a>,
    seen: &'a mut Vec<Entry>,
}

impl DriveObserver for Remember<'_> {
    fn see(&mut self, entries: &[Entry], summary: &Summary) {
        self.follow.see(entries, summary);
        self.seen.extend(entries.iter().cloned());
    }
}

/// Draws a flow while it is driven.
struct Drawn<'a>(&'a Live);

impl DriveObserver for Drawn<'_> {
    fn see(&mut self, entries: &[Entry], summary: &Summary) {
        self.0.see(entries, summary);
    }
}

/// Tells the news of a flow while it is driven: as lines of the answer, or, where the answer is one document,
/// as JSON lines beside it.
struct News<'a> {
    out: &'a Out,
    run: RunId,
    before: String,
    board: Board,
}

impl DriveObserver for News<'_> {
    fn see(&mut self, entries: &[Entry], _: &Summary) {
        let mut text = String::new();
        for entry in entries {
            if !self.board.is_new(entry) {
                continue;
            }
            let line = if self.out.is_json() {
                news::document(&self.board, entry).map(|mut event| {
                    event["run"] = json!(self.run);
                    event.to_string()
                })
            } else {
                news::line(&self.board, entry).map(|line| format!("{} {line}", self.before))
            };
            if let Some(line) = line {
                text.push_str(&line);
                text.push('\n');
            }
            self.board.see(entry);
        }
        if text.is_empty() {
            return;
        }
        if self.out.is_json() {
            self.out.beside(&text);
        } else {
            let _ = self.out.progress(&text);
        }
    }
}

/// What became of runs: a line each, what a person can do, and the exit code of the worst.
pub(crate) fn report(wheel: &ForegroundRun<'_>, ends: &[(RunId, Left)]) -> Result<ExitStatus, CommandError> {
    report_landing(wheel, ends, false)
}

/// The same; `by_flag` says that a flag of this command asked for the landing, whatever the settings say.
pub(super) fn report_landing(
    wheel: &ForegroundRun<'_>,
    ends: &[(RunId, Left)],
    by_flag: bool,
) -> Result<ExitStatus, CommandError> {
    let out = wheel.out;
    let set = wheel.session.config().terms(wheel.session.library()).policies;
    let mut exits = Vec::new();
    let mut note = |board: Option<&Board>, left: &Left| {
        let is_missed = board.is_some_and(|board| board.has_missed_landing(&set, by_flag));
        exits.push(match exit_of(left) {
            ExitStatus::Done if is_missed => ExitStatus::Blocked,
            exit => exit,
        });
    };
    if out.is_json() {
        let mut runs: Vec<Json> = Vec::new();
        for (id, left) in ends {
            let mut json = json!(document(id, left));
            let board = ended_flow(wheel, id, left)?;
            if let Some(board) = &board {
                json["report"] = board.document();
                let landing = board.landing(id);
                json["verdict"] = json["standing"].clone();
                json["landed"] = json!(landing.not_landed().is_none());
                json["not_landed"] = json!(landing.not_landed());
            }
            note(board.as_ref(), left);
            runs.push(json);
        }
        match runs.as_slice() {
            [one] => out.json(one)?,
            _ => out.json(&json!({ "runs": runs }))?,
        }
    } else {
        let mut text = String::new();
        for (id, left) in ends {
            let board = ended_flow(wheel, id, left)?;
            if let Some(board) = &board {
                text.push_str(&board.render_report(id, &summary_of(left).meters));
            }
            note(board.as_ref(), left);
            text.push_str(&left_text(id, left));
            if let Some(why) = board.as_ref().and_then(Board::missed_landing) {
                text.push_str(&format!("not landed: {}\n", safe(&why)));
            }
        }
        out.text(&text)?;
    }
    Ok(exits.into_iter().max_by_key(|exit| rank(*exit)).unwrap_or(ExitStatus::Done))
}

/// The board of a flow that has come to its end.
fn ended_flow(wheel: &ForegroundRun<'_>, run: &RunId, left: &Left) -> Result<Option<Board>, CommandError> {
    if !Board::is_for(&**wheel.session.library(), &summary_of(left).protocol) {
        return Ok(None);
    }
    let board = wheel.board(run)?;
    Ok(board.end().is_some().then_some(board))
}

pub(crate) fn summary_of(left: &Left) -> &Summary {
    match left {
        Left::Rest(DriveEnd::Rests(summary) | DriveEnd::Stopped(summary)) | Left::Theirs(summary, _) => {
            summary
        }
    }
}

/// How a run was left, as a document.
pub(crate) fn document<'a>(id: &'a RunId, left: &'a Left) -> RunDocument<'a> {
    match left {
        Left::Rest(DriveEnd::Rests(summary)) => RunDocument::of_left_run(id, summary, false),
        Left::Rest(DriveEnd::Stopped(summary)) => RunDocument::of_left_run(id, summary, true),
        Left::Theirs(summary, card) => RunDocument::of_left_run(id, summary, true).driven_by(card.as_ref()),
    }
}

/// How a run was left, in words.
pub(crate) fn left_text(id: &RunId, left: &Left) -> String {
    let hint = paint(paint::HINT, "hint:");
    match left {
        Left::Rest(DriveEnd::Rests(summary)) => runs::at_rest(id, summary),
        Left::Rest(DriveEnd::Stopped(summary)) => {
            let word = runs::standing(RunStanding::Interrupted);
            format!("run {id} {word} in {}\n{hint} `ftl resume {id}` goes on\n", safe(&summary.state))
        }
        Left::Theirs(summary, card) => {
            let (word, state) = (runs::standing(summary.standing), safe(&summary.state));
            let who = known::driver(card.as_ref());
            format!(
                "run {id} {word} in {state}, driven by {who}\n{hint} it goes on without this command; `ftl watch {id}` looks again\n"
            )
        }
    }
}

/// How a command ends that left a run so.
pub(crate) fn exit_of(left: &Left) -> ExitStatus {
    match left {
        Left::Rest(DriveEnd::Stopped(_)) | Left::Theirs(..) => ExitStatus::Interrupted,
        Left::Rest(DriveEnd::Rests(summary)) => match summary.standing.end() {
            Some(End::Complete) => ExitStatus::Done,
            Some(End::Error) => ExitStatus::Error,
            Some(End::Blocked | End::Escalated | End::Stopped | End::Cancelled) | None => ExitStatus::Blocked,
        },
    }
}

/// Of several exits the one that a script must hear of.
fn rank(exit: ExitStatus) -> u8 {
    match exit {
        ExitStatus::Done => 0,
        ExitStatus::Blocked => 1,
        ExitStatus::Error
        | ExitStatus::Usage
        | ExitStatus::Refused
        | ExitStatus::NotAllowed
        | ExitStatus::Malformed => 2,
        ExitStatus::Interrupted => 3,
    }
}

/// The text of a rehearsal, which can be played.
fn script(path: &Path, out: &Out) -> Result<String, CommandError> {
    let wrong = |message: String| {
        CommandError::new(
            format!("`{}`: {message}", path.display()),
            "a script is TOML with one [[scene]] for each answer",
        )
    };
    let text = folder::read_named_text(path, MAX_SCRIPT_BYTES).map_err(|error| wrong(error.to_string()))?;
    if RehearsalScript::parse(&text).map_err(|error| wrong(error.to_string()))?.is_old {
        let path = path.display();
        out.note(&format!(
            "`{path}` has [[answer]]s, as earlier versions wrote them: it is read as [[scene]]s"
        ));
    }
    Ok(text)
}

/// `name=value` words as inputs: JSON where it is JSON, text otherwise.
fn inputs(words: &[String]) -> Result<Fields, CommandError> {
    let mut fields: BTreeMap<Name, Value> = BTreeMap::new();
    for word in words {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            let message = format!("`{word}` is no input");
            return Err(CommandError::usage(
                message,
                "an input is name=value, such as objective=\"fix the bug\"",
            ));
        };
        if fields.insert(Name::from(name), value_of(value)?).is_some() {
            return Err(CommandError::usage(format!("`{name}` is given twice"), "give each input once"));
        }
    }
    Ok(fields)
}

/// A value as a person types it: JSON where it begins like JSON, text otherwise.
pub(crate) fn value_of(text: &str) -> Result<Value, CommandError> {
    if !text.starts_with(['{', '[', '"']) {
        return Ok(serde_json::from_str(text).ok().filter(is_plain).unwrap_or_else(|| Value::text(text)));
    }
    serde_json::from_str(text).map_err(|error| {
        CommandError::usage(
            format!("the value is no JSON: {error}"),
            "quote it so that the shell leaves it alone",
        )
    })
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::FromArgMatches as _;
    use ftl_language::library::BUILT_IN;
    use ftl_settings::roster::needs::needed;

    use super::*;

    /// How much is read and checked is counted here; how long it takes is measured elsewhere.
    #[test]
    fn a_task_starts_with_the_two_documents_that_it_needs() {
        let root = tempfile::tempdir().unwrap();
        let words =
            [OsStr::new("ftl"), OsStr::new("--repo"), root.path().as_os_str(), OsStr::new("protocols")];
        let cli =
            crate::cli::Cli::from_arg_matches(&crate::cli::command().try_get_matches_from(words).unwrap())
                .unwrap();
        let inputs = Fields::from([(Name::from("objective"), Value::text("o"))]);
        let opened = |name: &str| {
            let loaded =
                LoadedProtocols::load(&cli.global).unwrap_or_else(|failure| panic!("{}", failure.message));
            let library = can_be_opened(loaded, name, &inputs).map_err(|failure| failure.message)?;
            needed(&library, name);
            Ok::<_, String>(library)
        };
        assert_eq!(opened("task").unwrap().looked_at(), (vec!["builder", "task"], vec![]));
        // One that replaces an embedded one is checked, and so are the documents beside it.
        let folder = root.path().join(".ftl/protocols");
        std::fs::create_dir_all(&folder).unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let builder = BUILT_IN.iter().find(|(name, _)| *name == "builder").unwrap().1;
        put("builder.md", &format!("{builder}\n"));
        let checked = vec!["builder", "task"];
        assert_eq!(opened("task").unwrap().looked_at(), (checked.clone(), checked));
        put("builder.md", "```protocol\nPROTOCOL: builder\nSTATE: A\n  GOTO: B\n```\n");
        assert!(opened("task").unwrap_err().contains("not sound"));
    }
}
