//! Printing: the one place that writes to the terminal.
//!
//! Whoever prints hands over a whole text, coloured; whether the colours are kept is decided here
//! and nowhere else. A reader that went away (`ftl check | head`) is not an error: the rest is
//! dropped, and the exit code stays what it would have been.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::ColorChoice;
use serde::Serialize;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::paint::{self, paint};

/// How wide a text is at most, whatever the terminal.
const MAX_WIDTH: usize = 100;

/// How narrow a text is at least.
const MIN_WIDTH: usize = 40;

/// Standard output and standard error, with what `--json` says about them.
pub(crate) struct Out {
    json: bool,
    gone: AtomicBool,
}

impl Out {
    pub(crate) fn new(json: bool) -> Out {
        Out { json, gone: AtomicBool::new(false) }
    }

    /// Whether the answer is to be one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether whoever read the answer has gone away: a stream ends then.
    pub(crate) fn is_unread(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Prints a text for people, or what a person asked to have as text.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let stream = anstream::stdout();
        if stream.current_choice() == ColorChoice::Never {
            // In one piece: a stream that takes colours out writes every line by itself.
            let plain = anstream::adapter::strip_str(text).to_string();
            return self.deliver(std::io::stdout().lock(), &plain);
        }
        self.deliver(stream.lock(), text)
    }

    /// Prints bytes as they are, without looking for colours in them.
    pub(crate) fn bytes(&self, text: &str) -> Result<(), Failure> {
        self.deliver(std::io::stdout().lock(), text)
    }

    /// Prints the one JSON document of a command.
    pub(crate) fn json(&self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document).map_err(|error| {
            Failure::new(format!("the answer cannot be written as JSON: {error}"), "please report this")
        })?;
        self.bytes(&format!("{text}\n"))
    }

    fn deliver(&self, mut stream: impl Write, text: &str) -> Result<(), Failure> {
        match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.gone.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Failure::new(
                format!("the answer cannot be written: {error}"),
                "see where standard output goes, and whether there is room",
            )),
        }
    }

    /// Prints text that belongs beside the answer: on standard error.
    pub(crate) fn beside(&self, text: &str) {
        // There is nobody left to tell when this fails.
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    }

    /// Says what failed, on standard error.
    pub(crate) fn error(&self, failure: &Failure) {
        self.complain(&paint(paint::ERROR, "error:"), failure);
    }

    /// Says what a person should look at, on standard error.
    pub(crate) fn warning(&self, failure: &Failure) {
        self.complain(&paint(paint::WARNING, "warning:"), failure);
    }

    fn complain(&self, word: &str, failure: &Failure) {
        let hint = paint(paint::HINT, "hint:");
        let (message, advice) = (paint::safe(&failure.message), paint::safe(&failure.hint));
        self.beside(&format!("{word} {message}\n{hint} {advice}\n"));
    }

    /// Ends a command that failed. With `--json` the answer is still one document.
    pub(crate) fn failed(&self, failure: &Failure) -> Exit {
        self.error(failure);
        if self.json {
            let error = json!({ "message": failure.message, "hint": failure.hint });
            let _ = self.json(&json!({ "ok": false, "error": error }));
        }
        failure.exit
    }
}

/// Takes `--color` from the command line before anything else is understood, so that help and
/// usage errors follow it as well.
pub(crate) fn choose_colour(args: impl Iterator<Item = OsString>) {
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
pub(crate) fn width() -> usize {
    let seen = terminal_size::terminal_size_of(std::io::stdout());
    seen.map_or(MAX_WIDTH, |(width, _)| usize::from(width.0)).clamp(MIN_WIDTH, MAX_WIDTH)
}

/// How wide and how high the terminal is that standard output goes to; `None` if it goes elsewhere.
pub(crate) fn terminal() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some((usize::from(width.0), usize::from(height.0)))
}

/// Whether colours are wanted on standard output.
pub(crate) fn has_colour() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}
