//! Lines out of pieces, as they come over a socket or a pipe. No line is longer than a limit.

use std::io;

/// How long a line may be. The kernel takes some two megabytes of words and variables; a byte of them
/// is up to four letters on the wire.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Lines out of pieces.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// How far the buffer is known to have no end of a line.
    searched: usize,
}

impl Lines {
    /// Adds a piece. Refused when a line would become too long.
    pub(crate) fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.buffer.len() + piece.len() > MAX_LINE_BYTES {
            return Err(io::Error::other("a line between the engine and its guard is too long"));
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// The next whole line, without its end.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let fresh = &self.buffer[self.searched..];
        let Some(end) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = std::mem::take(&mut self.searched) + end;
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.truncate(end);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_limit() {
        let mut lines = Lines::default();
        lines.add(b"one\ntw").unwrap();
        lines.add(b"o\n").unwrap();
        assert_eq!(lines.next().as_deref(), Some(&b"one"[..]));
        assert_eq!(lines.next().as_deref(), Some(&b"two"[..]));
        assert_eq!(lines.next(), None);
        assert!(lines.add(&vec![0; MAX_LINE_BYTES + 1]).is_err());
    }
}
