//! A stream without secrets: bytes are let through as soon as no secret can go on in what follows. What has
//! none in it comes out as it went in.

use std::io::{self, Read};
use std::sync::Arc;

use crate::secrets::Secrets;

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// How long a line, or a private key, may be and still be looked at whole.
const MAX_HELD: usize = 1024 * 1024;

/// How a private key begins and ends.
const BEGIN: &[u8] = b"-----BEGIN";
const END: &[u8] = b"-----END";

/// A reader whose bytes have no secrets in them.
pub(super) struct Hiding<R> {
    from: R,
    secrets: Arc<Secrets>,
    held: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> Hiding<R> {
    pub(super) fn new(from: R, secrets: Arc<Secrets>) -> Hiding<R> {
        Hiding { from, secrets, held: Vec::new(), ready: Vec::new(), at: 0, ended: false }
    }

    /// Reads one piece more, and lets through what may be seen.
    fn fill(&mut self) -> io::Result<()> {
        let before = self.held.len();
        self.held.resize(before + PIECE, 0);
        let read = self.from.read(&mut self.held[before..]);
        self.held.truncate(before + *read.as_ref().unwrap_or(&0));
        self.at = 0;
        if read? == 0 {
            self.ended = true;
            self.ready = self.secrets.redact_head(&std::mem::take(&mut self.held));
            return Ok(());
        }
        let cut = self.secrets.cut_before(&self.held, safe_end(&self.held));
        let rest = self.held.split_off(cut);
        self.ready = self.secrets.redact_bytes(&std::mem::replace(&mut self.held, rest));
        Ok(())
    }
}

impl<R: Read> Read for Hiding<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() && !self.ended {
            self.fill()?;
        }
        let count = into.len().min(self.ready.len() - self.at);
        into[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Where a line ends, and no private key goes on; all of it where that would be too long to wait for.
fn safe_end(held: &[u8]) -> usize {
    if held.len() > MAX_HELD {
        return held.len();
    }
    let line = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let last = |word: &[u8]| held[..line].windows(word.len()).rposition(|part| part == word);
    match (last(BEGIN), last(END)) {
        (Some(begin), end) if end.is_none_or(|end| end < begin) => begin,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of a size.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn hidden(bytes: &[u8], step: usize) -> Vec<u8> {
        let mut secrets = Secrets::new();
        secrets.hide("test-key-1");
        let mut out = Vec::new();
        Hiding::new(Slow(bytes, step), Arc::new(secrets)).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn however_it_comes_no_secret_goes_out_and_nothing_else_changes() {
        let text = b"one test-key-1\n\xff\0two\r\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\ntest-key-1";
        let wanted = b"one [hidden]\n\xff\0two\r\n[hidden]\n[hidden]";
        for step in 1..text.len() + 1 {
            assert_eq!(hidden(text, step), wanted, "{step}");
        }
        assert_eq!(hidden(b"", 1), b"");
    }

    #[test]
    fn a_line_without_an_end_is_let_through_and_hides_what_is_named() {
        let mut long = vec![b'a'; MAX_HELD - 4];
        long.extend(b"test-key-1");
        long.extend(vec![b'b'; PIECE]);
        let out = hidden(&long, PIECE);
        assert!(!out.windows(10).any(|part| part == b"test-key-1"));
        assert_eq!(out.len(), long.len() - 10 + 8);
    }
}
