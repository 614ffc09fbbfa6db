//! Printing: the one place that writes to the terminal.
//!
//! A command hands over a whole text, coloured; whether the colours are kept is decided here
//! and nowhere else. A reader that went away (`ftl check | head`) is not an error: the rest is
//! dropped, and the exit code stays what it would have been. A command that obeys signals prints
//! through a queue, so that a reader that does not read keeps it from nothing.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};

use anstream::ColorChoice;
use ftl_engine::drive::StopSignal;
use ftl_view::paint::{self, paint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::json;

use crate::exit::ExitStatus;
use crate::failure::CommandError;
use crate::queue::{self, AnswerOutcome, Queue};

/// How wide a text is at most, whatever the terminal.
const MAX_WIDTH: usize = 100;

/// How narrow a text is at least.
const MIN_WIDTH: usize = 40;

/// The version of the documents of `--json`: it grows when a field goes or means something else, not when one comes.
/// Their fields stand in `json.txt`.
const VERSION: u32 = 1;

/// A document with its version first.
#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    document: &'a T,
}

/// Standard output and standard error, with what `--json` says about them.
pub struct Out {
    json: bool,
    gone: AtomicBool,
    behind: OnceLock<Behind>,
    respell: OnceLock<fn(&str) -> String>,
    /// What was printed, for a face in this process; nothing where it goes to the terminal.
    kept: Option<Mutex<Vec<u8>>>,
}

/// How a command prints that obeys signals.
struct Behind {
    queue: Queue,
    stop: StopSignal,
    /// Whether an answer was given up: standard output is not read.
    unread: AtomicBool,
}

impl Out {
    /// For a command that answers in words, or in one JSON document.
    pub fn new(json: bool) -> Out {
        let (behind, respell) = (OnceLock::new(), OnceLock::new());
        Out { json, gone: AtomicBool::new(false), behind, respell, kept: None }
    }

    /// For a face in this process that wants the document of a command: nothing reaches the terminal.
    pub fn captured() -> Out {
        Out { kept: Some(Mutex::default()), ..Out::new(true) }
    }

    /// What was printed so far, where it is captured.
    pub fn take_captured(&self) -> Vec<u8> {
        let kept = self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
    }

    /// From now on people read commands as they are typed here, not as they are typed in a shell.
    pub fn respell_with(&self, respell: fn(&str) -> String) {
        let _ = self.respell.set(respell);
    }

    fn respelled(&self, text: &str) -> String {
        self.respell.get().map_or_else(|| text.to_owned(), |respell| respell(text))
    }

    /// From now on a thread prints, and a signal ends the waiting for the reader.
    pub fn obey(&self, stop: &StopSignal) -> io::Result<()> {
        let queue = Queue::start(stop.clone(), write_out)?;
        let _ = self.behind.set(Behind { queue, stop: stop.clone(), unread: AtomicBool::new(false) });
        Ok(())
    }

    /// Whether the answer is to be one JSON document.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether the reader of the answer has gone away: a stream ends then.
    pub fn is_unread(&self) -> bool {
        self.gone.load(Ordering::Relaxed) || has_no_reader()
    }

    /// Prints a text for people, or what a person asked to have as text.
    pub fn text(&self, text: &str) -> Result<(), CommandError> {
        let text = &self.respelled(text);
        if anstream::stdout().current_choice() == ColorChoice::Never {
            return self.bytes(&anstream::adapter::strip_str(text).to_string());
        }
        self.bytes(text)
    }

    /// Prints how it goes: lines that may be left out where standard output is not read.
    pub fn progress(&self, text: &str) -> Result<(), CommandError> {
        let Some(behind) = self.behind.get() else { return self.text(text) };
        if anstream::stdout().current_choice() == ColorChoice::Never {
            behind.queue.progress(&anstream::adapter::strip_str(text).to_string());
        } else {
            behind.queue.progress(text);
        }
        Ok(())
    }

    /// Prints bytes as they are, without looking for colours in them.
    pub fn bytes(&self, text: &str) -> Result<(), CommandError> {
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let written = match self.behind.get() {
            None => write_out(text),
            Some(behind) if behind.unread.load(Ordering::Relaxed) => return Err(unread()),
            Some(behind) => match behind.queue.answer(text) {
                AnswerOutcome::Written(written) => written,
                AnswerOutcome::Unread => {
                    behind.unread.store(true, Ordering::Relaxed);
                    self.beside(text);
                    return Err(unread());
                }
            },
        };
        self.judge(written)
    }

    /// Prints bytes that need not be text, such as a patch.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), CommandError> {
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            return Ok(());
        }
        let mut stream = io::stdout().lock();
        self.judge(stream.write_all(bytes).and_then(|()| stream.flush()))
    }

    /// Prints the one JSON document of a command, an object, with its version.
    pub fn json(&self, document: &impl Serialize) -> Result<(), CommandError> {
        self.foreign_json(&Versioned { version: VERSION, document })
    }

    /// Prints a JSON document whose form is not ours, such as a JSON schema.
    pub fn foreign_json(&self, document: &impl Serialize) -> Result<(), CommandError> {
        let mut text = serde_json::to_string_pretty(document).map_err(|error| {
            CommandError::new(format!("the answer cannot be written as JSON: {error}"), "please report this")
        })?;
        text.push('\n');
        self.bytes(&text)
    }

    fn judge(&self, written: io::Result<()>) -> Result<(), CommandError> {
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.gone.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(CommandError::new(
                format!("the answer cannot be written: {error}"),
                "see where standard output goes, and whether there is room",
            )),
        }
    }

    /// Prints text that belongs beside the answer: on standard error.
    pub fn beside(&self, text: &str) {
        if self.kept.is_some() {
            return;
        }
        let text = text.to_owned();
        // No reader is left to tell when this fails.
        let write = move || anstream::stderr().lock().write_all(text.as_bytes());
        let Some(behind) = self.behind.get() else {
            let _ = write();
            return;
        };
        let (tell, told) = channel();
        if std::thread::Builder::new().spawn(move || tell.send(write())).is_ok() {
            let _ = queue::wait(&told, &behind.stop);
        }
    }

    /// Says something beside the answer, as a note.
    pub fn note(&self, text: &str) {
        self.beside(&format!("{} {}\n", paint(paint::HINT, "note:"), paint::safe(text)));
    }

    /// Says what failed, on standard error.
    pub fn error(&self, failure: &CommandError) {
        self.complain(&paint(paint::ERROR, "error:"), failure);
    }

    /// Says what a person should look at, on standard error.
    pub fn warning(&self, failure: &CommandError) {
        self.complain(&paint(paint::WARNING, "warning:"), failure);
    }

    fn complain(&self, word: &str, failure: &CommandError) {
        let hint = paint(paint::HINT, "hint:");
        let message = failure.lines.as_ref().unwrap_or(&failure.message);
        let (message, advice) = (paint::lines(message), paint::lines(&self.respelled(&failure.hint)));
        self.beside(&format!("{word} {message}\n{hint} {advice}\n"));
    }

    /// Ends a command that failed. With `--json` the answer is still one document.
    pub fn failed(&self, failure: &CommandError) -> ExitStatus {
        self.error(failure);
        if self.json {
            let error = json!({ "message": failure.message, "hint": failure.hint });
            let _ = self.json(&json!({ "ok": false, "error": error }));
        }
        failure.exit
    }
}

/// Writes to standard output, in one piece.
fn write_out(text: &str) -> io::Result<()> {
    let mut stream = io::stdout().lock();
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
}

/// Whether standard output is a pipe whose reader is gone, or a terminal that was closed.
fn has_no_reader() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok() && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

fn unread() -> CommandError {
    let message = "nobody reads standard output";
    let hint = "what was to be printed there stands on standard error; `ftl status` shows it again";
    CommandError { exit: ExitStatus::Interrupted, ..CommandError::new(message, hint) }
}

/// Takes `--color` from the command line before anything else is understood, so that help and
/// usage errors follow it as well.
pub fn choose_colour(args: impl Iterator<Item = OsString>) {
    let mut choice = None;
    let mut words = args.skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next().filter(|word| word != "--") {
        match word.strip_prefix("--color") {
            Some("") => choice = words.next(),
            Some(rest) => choice = rest.strip_prefix('=').map(str::to_owned),
            None => {}
        }
    }
    match choice.as_deref() {
        Some("always") => ColorChoice::Always.write_global(),
        Some("never") => ColorChoice::Never.write_global(),
        Some(_) | None => {}
    }
}

/// How wide a text for people may be: as the terminal, within reason.
pub fn width() -> usize {
    let seen = terminal_size::terminal_size_of(std::io::stdout());
    seen.map_or(MAX_WIDTH, |(width, _)| usize::from(width.0)).clamp(MIN_WIDTH, MAX_WIDTH)
}

/// Whether standard output is a terminal that can be drawn on.
pub fn is_drawable() -> bool {
    terminal().is_some() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How wide and how high the terminal is that standard output goes to; `None` if it goes elsewhere.
pub fn terminal() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some((usize::from(width.0), usize::from(height.0)))
}

/// Whether colours are wanted on standard output.
pub fn has_colour() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}
