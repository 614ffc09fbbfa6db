//! What a process printed: its head and its tail in memory, the whole on disk up to a cap, all counted.
//!
//! Bytes are bytes until a caller looks at them: nothing here splits lines or expects UTF-8, so a line of any
//! length and any bytes at all are fine. Memory never grows with the output. A disk that is full costs
//! the rest of the whole text, never the run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::secrets::Secrets;

use super::hide::Hiding;

/// How much of one stream is kept, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the beginning in memory.
    pub head: usize,
    /// Bytes of the end in memory.
    pub tail: usize,
    /// Bytes of the whole on disk, from the beginning.
    pub keep: u64,
}

/// A stream while it is read.
#[derive(Debug)]
pub(super) struct Capture {
    room: Room,
    folder: PathBuf,
    total: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    spool: Spool,
}

/// The file with the whole text. It is made when the head is full: most commands never need one.
#[derive(Debug)]
enum Spool {
    None,
    Open { file: File, length: u64 },
    Full { file: File, length: u64 },
    Failed { file: Option<File>, length: u64, error: String },
}

/// The output of one stream.
#[derive(Debug)]
pub struct Captured {
    /// How many bytes the stream had, kept or not.
    pub total: u64,
    /// The first bytes, up to a limit.
    pub head: Vec<u8>,
    /// The end of what follows the beginning.
    pub tail: Vec<u8>,
    /// Why the whole text stops early, if the disk is to blame.
    pub spool_error: Option<String>,
    kept: u64,
    left_out: u64,
    spooled: u64,
    file: Option<File>,
    hidden: Option<Arc<Secrets>>,
}

impl Capture {
    pub(super) fn new(room: Room, folder: &Path) -> Capture {
        let (head, tail) = (Vec::new(), VecDeque::new());
        Capture { room, folder: folder.to_owned(), total: 0, head, tail, spool: Spool::None }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.room.head - self.head.len()));
        self.head.extend_from_slice(first);
        if !rest.is_empty() {
            self.add_to_tail(rest);
            self.add_to_spool(rest);
        }
    }

    pub(super) fn finish(self) -> Captured {
        let (file, spooled, spool_error) = match self.spool {
            Spool::None => (None, 0, None),
            Spool::Open { file, length } | Spool::Full { file, length } => (Some(file), length, None),
            Spool::Failed { file, length, error } => (file, length, Some(error)),
        };
        let (total, head, tail) = (self.total, self.head, Vec::from(self.tail));
        let (had, ends) = (head.len() as u64, tail.len() as u64);
        let (kept, left_out) = (spooled.max(had), total - had - ends);
        Captured { total, head, tail, spool_error, kept, left_out, spooled, file, hidden: None }
    }

    fn add_to_tail(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.room.tail)..];
        let over = (self.tail.len() + bytes.len()).saturating_sub(self.room.tail);
        self.tail.drain(..over);
        self.tail.extend(bytes);
    }

    fn add_to_spool(&mut self, bytes: &[u8]) {
        if let Spool::None = self.spool {
            self.spool = self.open_spool();
        }
        let Spool::Open { file, length } = &mut self.spool else { return };
        let room = usize::try_from(self.room.keep - *length).unwrap_or(usize::MAX);
        let written = write_some(file, &bytes[..bytes.len().min(room)]);
        *length += written.0;
        let (length, full) = (*length, *length == self.room.keep);
        match (written.1, std::mem::replace(&mut self.spool, Spool::None)) {
            (None, Spool::Open { file, .. }) if full => self.spool = Spool::Full { file, length },
            (Some(error), Spool::Open { file, .. }) => {
                self.spool = Spool::Failed { file: Some(file), length, error: error.to_string() };
            }
            (_, spool) => self.spool = spool,
        }
    }

    /// A file without a name: no other process can open it, and it is gone with its last descriptor.
    fn open_spool(&self) -> Spool {
        let keep = usize::try_from(self.room.keep).unwrap_or(usize::MAX);
        let opened = ftl_folder::unnamed(&self.folder);
        match opened.map(|mut file| (write_some(&mut file, &self.head[..self.head.len().min(keep)]), file)) {
            Err(error) => Spool::Failed { file: None, length: 0, error: error.to_string() },
            Ok(((length, Some(error)), file)) => {
                Spool::Failed { file: Some(file), length, error: error.to_string() }
            }
            Ok(((length, None), file)) if length == self.room.keep => Spool::Full { file, length },
            Ok(((length, None), file)) => Spool::Open { file, length },
        }
    }
}

impl Captured {
    /// How many bytes, from the first one on without a gap, [`Captured::whole`] gives.
    pub fn kept_bytes(&self) -> u64 {
        self.kept
    }

    /// How many bytes were read and not kept; with `Captured::kept` this is all there were.
    pub fn dropped(&self) -> u64 {
        self.total - self.kept_bytes()
    }

    /// The whole text, from the first byte to the cap.
    pub fn whole(&self) -> io::Result<Box<dyn Read + '_>> {
        match &self.file {
            Some(file) if self.spooled == self.kept => {
                let mut reader = file;
                reader.seek(SeekFrom::Start(0))?;
                let reader = reader.take(self.spooled);
                Ok(match &self.hidden {
                    Some(secrets) => Box::new(Hiding::new(reader, secrets.clone())),
                    None => Box::new(reader),
                })
            }
            Some(_) | None => Ok(Box::new(&self.head[..])),
        }
    }

    /// How many bytes stand between the head and the tail.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The same without secrets: from here on none can be seen. Numbers of bytes are those that were produced.
    #[must_use]
    pub(super) fn hiding(mut self, secrets: &Arc<Secrets>) -> Captured {
        if self.left_out == 0 {
            // What is whole is looked at whole.
            self.head.append(&mut self.tail);
            self.head = secrets.redact_bytes(&self.head);
        } else {
            (self.head, self.tail) = (secrets.redact_head(&self.head), secrets.redact_tail(&self.tail));
        }
        self.hidden = Some(secrets.clone());
        self
    }

    /// Head and tail for people: whatever a terminal would act on is shown as an escape. It is for
    /// looking at, not for reading back.
    pub fn text(&self) -> String {
        match self.left_out() {
            0 => printable(&[&self.head[..], &self.tail[..]].concat()),
            bytes => {
                format!("{}\n… {bytes} bytes left out …\n{}", printable(&self.head), printable(&self.tail))
            }
        }
    }
}

/// Bytes as text that is safe to show: invalid UTF-8 and control characters become escapes, so do
/// the marks that reverse the direction of what follows. Tabs and ends of lines stay.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            push_letter(&mut text, letter);
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn push_letter(text: &mut String, letter: char) {
    match letter {
        '\n' | '\t' => text.push(letter),
        '\r' => text.push_str("\\r"),
        '\0'..='\x1f' | '\x7f' => text.push_str(&format!("\\x{:02x}", u32::from(letter))),
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {
            text.push_str(&format!("\\u{{{:x}}}", u32::from(letter)));
        }
        letter => text.push(letter),
    }
}

/// Writes until it is done or fails, and tells how far it came.
fn write_some(file: &mut File, mut bytes: &[u8]) -> (u64, Option<io::Error>) {
    let mut written = 0;
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => {
                written += count as u64;
                bytes = &bytes[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(room: Room, pieces: &[&[u8]]) -> Captured {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(room, folder.path());
        pieces.iter().for_each(|piece| capture.add(piece));
        capture.finish()
    }

    fn whole(captured: &Captured) -> Vec<u8> {
        let mut bytes = Vec::new();
        captured.whole().unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn every_cut_of_the_same_bytes_gives_the_same() {
        let text: Vec<u8> = (b'a'..=b'z').collect();
        for (head, tail, keep) in [(4, 4, 100), (4, 4, 10), (0, 3, 5), (4, 0, 2), (30, 30, 0), (26, 1, 26)] {
            for step in 1..=text.len() {
                let pieces: Vec<&[u8]> = text.chunks(step).collect();
                let captured = captured(Room { head, tail, keep }, &pieces);
                let case = format!("head {head}, tail {tail}, keep {keep}, step {step}");
                assert_eq!(captured.total, 26, "{case}");
                assert_eq!(captured.kept_bytes() + captured.dropped(), 26, "{case}");
                assert_eq!(captured.head, &text[..head.min(26)], "{case}");
                let after = &text[head.min(26)..];
                assert_eq!(captured.tail, &after[after.len().saturating_sub(tail)..], "{case}");
                let kept = (keep as usize).max(head).min(26);
                assert_eq!(whole(&captured), &text[..kept], "{case}");
                assert_eq!(whole(&captured), &text[..kept], "{case}: a second reading");
            }
        }
    }

    #[test]
    fn text_shows_the_gap_and_nothing_that_a_terminal_acts_on() {
        let room = Room { head: 3, tail: 3, keep: 0 };
        assert_eq!(captured(room, &[b"abcdef"]).text(), "abcdef");
        assert_eq!(captured(room, &[b"abc", b"def", b"ghi"]).text(), "abc\n… 3 bytes left out …\nghi");
        let odd = b"\x1b[31mred\xff\xfe\0 caf\xc3\xa9\r\n\ttab \xc2\x9b \xe2\x80\xae";
        let shown = r"\x1b[31mred\xff\xfe\x00 café\r";
        assert_eq!(printable(odd), format!("{shown}\n\ttab \\u{{9b}} \\u{{202e}}"));
    }

    #[test]
    fn no_secret_is_seen_wherever_an_output_is_cut() {
        let mut secrets = Secrets::new();
        secrets.hide("test-key-1");
        let secrets = Arc::new(secrets);
        let text = b"one test-key-1 two \xff test-key-1";
        for head in 0..=text.len() {
            for tail in [0, 5, 12, 40] {
                let room = Room { head, tail, keep: 100 };
                let captured = captured(room, &[text]).hiding(&secrets);
                let shown = captured.text();
                assert!(!shown.contains("test-key-") && !shown.contains("-key-1"), "{head} {tail}: {shown}");
                let kept = String::from_utf8_lossy(&whole(&captured)).into_owned();
                assert!(!kept.contains("test-key-"), "{head} {tail}: {kept}");
                assert_eq!((captured.total, captured.kept_bytes()), (31, 31), "{head} {tail}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_the_whole_text_only() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room { head: 2, tail: 2, keep: 100 };
        let mut capture = Capture::new(room, &folder.path().join("missing"));
        capture.add(b"abcdef");
        let captured = capture.finish();
        assert!(captured.spool_error.is_some());
        assert_eq!((captured.total, captured.kept_bytes(), captured.dropped()), (6, 2, 4));
        assert_eq!((&captured.head[..], &captured.tail[..]), (&b"ab"[..], &b"ef"[..]));
    }
}
