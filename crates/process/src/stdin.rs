//! What a process is given to read: a queue that any thread may fill and only the watching thread empties.
//!
//! Writing never waits, so that a caller that answers a process from within its output cannot lock both up.
//! The queue has a limit instead.

use std::collections::VecDeque;
use std::io::{self, PipeWriter, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// How many bytes may wait to be read by the process.
pub const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Gives a process something to read. All clones are one.
#[derive(Clone, Debug)]
pub struct StdinWriter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: OwnedFd,
}

#[derive(Debug)]
struct Queue {
    bytes: VecDeque<u8>,
    closed: bool,
}

impl StdinWriter {
    pub(super) fn new(bytes: Vec<u8>, closed: bool) -> io::Result<StdinWriter> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let queue = Mutex::new(Queue { bytes: bytes.into(), closed });
        Ok(StdinWriter(Arc::new(Shared { queue, wake })))
    }

    /// Gives it these bytes, after all that it was given before. Fails when the process does not read
    /// any more, when the input was closed, or when too much is waiting.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if queue.bytes.len() + bytes.len() > MAX_WAITING_BYTES {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the process does not read its input"));
        }
        queue.bytes.extend(bytes);
        self.wake();
        Ok(())
    }

    /// The process finds the end after what it was given. Saying it again changes nothing.
    pub fn close(&self) {
        self.queue().closed = true;
        self.wake();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }
}

/// The end that the watching thread has.
#[derive(Debug)]
pub(super) struct Feed {
    writer: StdinWriter,
    pipe: Option<PipeWriter>,
}

impl Feed {
    pub(super) fn new(writer: StdinWriter, pipe: Option<PipeWriter>) -> io::Result<Feed> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Feed { writer, pipe })
    }

    pub(super) fn writer(&self) -> StdinWriter {
        self.writer.clone()
    }

    /// What becomes writable, if there is something to write or to close.
    pub(super) fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        let queue = self.writer.queue();
        let wanted = !queue.bytes.is_empty() || queue.closed;
        self.pipe.as_ref().filter(|_| wanted).map(|pipe| pipe.as_fd())
    }

    /// What becomes readable when there is something new to write.
    pub(super) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(|_| self.writer.0.wake.as_fd())
    }

    /// Writes what the pipe takes, and closes it when all is said or the process does not read.
    pub(super) fn pump(&mut self) {
        let _ = rustix::io::read(&self.writer.0.wake, &mut [0; 8]);
        let Some(pipe) = &mut self.pipe else { return };
        let mut queue = self.writer.queue();
        while !queue.bytes.is_empty() {
            match pipe.write(queue.bytes.as_slices().0) {
                Ok(count) => drop(queue.bytes.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    queue.closed = true;
                    queue.bytes.clear();
                }
            }
        }
        if queue.closed {
            drop(queue);
            self.pipe = None;
        }
    }

    /// The process does not read any more.
    pub(super) fn end(&mut self) {
        let mut queue = self.writer.queue();
        queue.closed = true;
        queue.bytes = VecDeque::new();
        drop(queue);
        self.pipe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn bytes_arrive_in_order_and_then_the_end() {
        let (mut reader, pipe) = io::pipe().unwrap();
        let mut feed = Feed::new(StdinWriter::new(b"one ".to_vec(), false).unwrap(), Some(pipe)).unwrap();
        let writer = feed.writer();
        writer.write(b"two").unwrap();
        writer.close();
        writer.close();
        assert!(writer.write(b"three").is_err());
        feed.pump();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        assert!(feed.ready_fd().is_none() && feed.wake_fd().is_none());
    }

    #[test]
    fn a_reader_that_went_away_is_told_to_the_writer() {
        let (reader, pipe) = io::pipe().unwrap();
        let mut feed = Feed::new(StdinWriter::new(Vec::new(), false).unwrap(), Some(pipe)).unwrap();
        assert!(feed.ready_fd().is_none());
        drop(reader);
        feed.writer().write(b"x").unwrap();
        assert!(feed.ready_fd().is_some());
        feed.pump();
        assert_eq!(feed.writer().write(b"y").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_queue_has_a_limit() {
        let writer = StdinWriter::new(vec![0; MAX_WAITING_BYTES - 1], false).unwrap();
        writer.write(b"x").unwrap();
        assert_eq!(writer.write(b"y").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
