//! What is printed while a process obeys signals: a thread of its own writes it.
//!
//! A reader that does not read keeps no process from driving a run or from stopping it. What only tells how
//! it goes waits for a moment, and is left out then, and counted. An answer never is: it waits for the
//! reader, and when a signal says that it is enough, the caller is told that it was not read. Nothing
//! here decides what is printed.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl_engine::drive::StopSignal;

/// How many lines wait for the reader before the next ones are left out.
pub(crate) const MAX_LINES: usize = 4096;

/// How much is written at a time.
const MAX_PIECE: usize = 64 * 1024;

/// How long a reader has to make room before lines are left out.
const MAX_SLOW: Duration = Duration::from_secs(1);

/// How long a reader has for an answer after a signal came.
const MAX_PATIENCE: Duration = Duration::from_millis(300);

/// How often a signal is looked for while an answer waits.
const LOOK: Duration = Duration::from_millis(20);

/// Lines and answers on their way to a stream.
pub(crate) struct Queue {
    line: Arc<Line>,
    stop: StopSignal,
}

/// The outcome of printing an answer.
pub(crate) enum AnswerOutcome {
    /// It was written, or could not be.
    Written(io::Result<()>),
    /// The reader has not read it.
    Unread,
}

#[derive(Default)]
struct Line {
    waiting: Mutex<Waiting>,
    /// Something came, or the end.
    came: Condvar,
    /// Something was taken out.
    room: Condvar,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    left_out: usize,
    /// The reader had its time: no answer waits for it until it has read everything.
    slow: bool,
    closed: bool,
}

enum Piece {
    Progress(String),
    Answer(String, Sender<io::Result<()>>),
}

impl Queue {
    /// Starts the thread; everything goes through `write`.
    pub(crate) fn start(
        stop: StopSignal,
        write: impl Fn(&str) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Queue> {
        let line = Arc::new(Line::default());
        let own = line.clone();
        let work = move || {
            while let Some(piece) = own.next() {
                match piece {
                    // An error in writing progress is dropped; the one that matters comes with the answer.
                    Piece::Progress(text) => drop(write(&text)),
                    Piece::Answer(text, told) => drop(told.send(write(&text))),
                }
            }
        };
        std::thread::Builder::new().name("printer".to_owned()).spawn(work)?;
        Ok(Queue { line, stop })
    }

    /// Prints lines. Where there is no room for them, the reader has a moment; then they are left out.
    pub(crate) fn progress(&self, text: &str) {
        let enough = Instant::now() + MAX_SLOW;
        let mut waiting = self.line.lock();
        for line in text.split_inclusive('\n') {
            while waiting.is_full() && !waiting.slow {
                self.line.came.notify_one();
                let room = self.line.room.wait_timeout(waiting, LOOK);
                waiting = room.unwrap_or_else(PoisonError::into_inner).0;
                waiting.slow = waiting.is_full() && (Instant::now() >= enough || self.stop.times_said() > 0);
            }
            waiting.push_line(line);
        }
        self.line.came.notify_one();
    }

    /// Prints an answer, and waits until it is written. After a signal the lines before it are left out,
    /// and it has only a moment.
    pub(crate) fn answer(&self, text: &str) -> AnswerOutcome {
        let (tell, told) = channel();
        {
            let mut waiting = self.line.lock();
            if self.stop.times_said() > 0 {
                waiting.leave_out_progress();
            }
            waiting.tell_left_out();
            waiting.pieces.push_back(Piece::Answer(text.to_owned(), tell));
        }
        self.line.came.notify_one();
        wait(&told, &self.stop)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.line.lock().closed = true;
        self.line.came.notify_one();
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Piece> {
        let mut waiting = self.lock();
        loop {
            if let Some(piece) = waiting.next() {
                self.room.notify_all();
                return Some(piece);
            }
            if waiting.closed {
                return None;
            }
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.pieces.len() >= MAX_LINES
    }

    fn push_line(&mut self, line: &str) {
        if self.is_full() || self.slow {
            self.left_out += 1;
            return;
        }
        self.tell_left_out();
        self.pieces.push_back(Piece::Progress(line.to_owned()));
    }

    /// What is written next: an answer, or as many lines as are there.
    fn next(&mut self) -> Option<Piece> {
        let mut lines = String::new();
        while let Some(Piece::Progress(line)) = self.pieces.front().filter(|_| lines.len() < MAX_PIECE) {
            lines.push_str(line);
            self.pieces.pop_front();
        }
        self.slow &= !self.pieces.is_empty();
        if lines.is_empty() { self.pieces.pop_front() } else { Some(Piece::Progress(lines)) }
    }

    /// Says how many lines are missing, where they are.
    fn tell_left_out(&mut self) {
        let count = std::mem::take(&mut self.left_out);
        let words = match count {
            0 => return,
            1 => String::from("… 1 line left out: nobody read it\n"),
            several => format!("… {several} lines left out: nobody read them\n"),
        };
        self.pieces.push_back(Piece::Progress(words));
    }

    fn leave_out_progress(&mut self) {
        let before = self.pieces.len();
        self.pieces.retain(|piece| matches!(piece, Piece::Answer(..)));
        self.left_out += before - self.pieces.len();
    }
}

/// Waits until something is written; for a moment only once a signal came.
pub(crate) fn wait(told: &Receiver<io::Result<()>>, stop: &StopSignal) -> AnswerOutcome {
    let mut enough: Option<Instant> = None;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(written) => return AnswerOutcome::Written(written),
            Err(RecvTimeoutError::Disconnected) => return AnswerOutcome::Unread,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.times_said() > 0
            && Instant::now() >= *enough.get_or_insert_with(|| Instant::now() + MAX_PATIENCE)
        {
            return AnswerOutcome::Unread;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that reads only when it is told to.
    fn slow(stop: &StopSignal) -> (Queue, Sender<()>, Receiver<String>) {
        let (read, wait) = channel::<()>();
        let (seen, texts) = channel();
        let write = move |text: &str| {
            let _ = wait.recv();
            seen.send(text.to_owned()).map_err(io::Error::other)
        };
        (Queue::start(stop.clone(), write).unwrap(), read, texts)
    }

    #[test]
    fn what_nobody_reads_is_left_out_and_counted_and_the_answer_is_not() {
        let stop = StopSignal::default();
        let (queue, read, texts) = slow(&stop);
        // Some are with the reader already, as many again wait, and the rest finds no room.
        let (count, line) = (3 * MAX_LINES, "word ".repeat(20));
        for number in 0..count {
            queue.progress(&format!("{number} {line}\n"));
        }
        drop(read);
        assert!(matches!(queue.answer("the end\n"), AnswerOutcome::Written(Ok(()))));
        let text: String = texts.try_iter().collect();
        let lines: Vec<&str> = text.lines().collect();
        let told = lines[lines.len() - 2];
        let missing: usize = told.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(told.ends_with("lines left out: nobody read them"), "{told}");
        assert_eq!(lines.len() - 2 + missing, count);
        assert!(missing >= count - MAX_LINES - MAX_PIECE / line.len(), "{missing}");
        assert!(lines[0].starts_with("0 ") && lines.ends_with(&["the end"]));
    }

    #[test]
    fn a_reader_that_reads_misses_nothing_however_much_comes_at_once() {
        let stop = StopSignal::default();
        let (queue, read, texts) = slow(&stop);
        drop(read);
        let text: String = (0..5 * MAX_LINES).map(|number| format!("{number}\n")).collect();
        queue.progress(&text);
        assert!(matches!(queue.answer("the end\n"), AnswerOutcome::Written(Ok(()))));
        assert_eq!(texts.try_iter().collect::<String>(), format!("{text}the end\n"));
    }

    #[test]
    fn after_a_signal_an_answer_has_only_a_moment() {
        let stop = StopSignal::default();
        let (queue, _read, texts) = slow(&stop);
        queue.progress("one\ntwo\n");
        stop.say();
        assert!(matches!(queue.answer("the end\n"), AnswerOutcome::Unread));
        assert!(texts.try_recv().is_err());
    }
}
