//! The write-ahead log as bytes: whether it goes on behind the place where SQLite takes it to end.
//!
//! SQLite reads a log up to the first frame whose checksum does not fit and takes that for its end. That is right
//! after a power cut, and wrong when a frame in the middle is damaged. What is known of a log in which nothing is
//! damaged, with a sync after `MAX_UNSYNCED` commits and one more, one writer at a time, and a log of the dead synced before it is
//! built upon:
//!
//! - Every transaction is on the disk whole, but for the last one and at most `MAX_UNSYNCED` before it. Of these any
//!   sectors may be missing, in any order; each has one commit frame, its last.
//! - Frames of an earlier round of the log have another salt, and what is room for later frames has none.
//! - Behind the end there may be frames of this round that a transaction left which no reader saw: it was rolled
//!   back, or its process was killed before it could say that it had committed. The next transaction was written over
//!   its beginning. What is left of it is a piece of one transaction, so it has at most one commit frame, with
//!   nothing behind it that follows from it.
//!
//! The checksum of a frame is computed from the one that stands in the frame before, so that two neighbours can be
//! checked without what was before them. A commit frame that fits its neighbour, with a frame behind it that fits it,
//! shows two transactions that followed each other. Behind a frame that does not fit, this happens `MAX_UNSYNCED` times at
//! most, unless something acknowledged was damaged. Damage in the last `MAX_UNSYNCED` and two transactions cannot be told from a
//! power cut by the log alone; the heads tell.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::LOG;
use super::pen::MAX_UNSYNCED;
use ftl_folder::OpenMode;

pub(super) const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The length of a frame with a page of every store.
pub(super) const FRAME_BYTES: u64 = (FRAME_HEADER + PAGE) as u64;

/// The two numbers a log begins with; the last bit is the order of bytes of its checksums.
const MAGIC: u32 = 0x377f_0682;

/// Damage of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogDamage {
    /// The first frame that is not what was written, from 1; 0 is the log's own header.
    pub(super) first_bad: u64,
    /// The last frame behind it that surely was written.
    pub(super) last_sound: u64,
    /// The salt of the round it was found in.
    pub(super) round: [u8; 8],
}

/// Looks whether a log holds more behind the frame at which SQLite ends it. A log that is written meanwhile may be
/// found damaged and is not: look twice. Most logs have nothing of their own round there, and then little is read.
pub(super) fn find_damage(folder: &Path, frames: u64) -> io::Result<Option<LogDamage>> {
    let look = || {
        let Some(log) = Log::open(folder)? else { return Ok(None) };
        if log.header.is_none() || log.has_own_frames_behind(frames)? { log.scan() } else { Ok(None) }
    };
    match look() {
        // It was cut back in this very moment.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        looked => looked,
    }
}

/// A pair of checksums, as SQLite computes them.
type Sum = (u32, u32);

struct Header {
    salt: [u8; 8],
    sum: Sum,
    is_big: bool,
}

struct Frame {
    head: [u8; FRAME_HEADER],
    page: Vec<u8>,
}

impl Frame {
    fn salt(&self) -> &[u8] {
        &self.head[8..16]
    }

    fn is_commit(&self) -> bool {
        word(&self.head, 4) != 0
    }

    /// The checksum that stands in it.
    fn noted(&self) -> Sum {
        (word(&self.head, 16), word(&self.head, 20))
    }

    /// Whether it fits behind a frame, or a header, with that checksum.
    fn fits(&self, before: Sum, is_big: bool) -> bool {
        let sum = checksum(before, &self.head[..8], is_big);
        checksum(sum, &self.page, is_big) == self.noted()
    }
}

struct Log {
    file: File,
    frames: u64,
    page: usize,
    /// `None` if the header is not what SQLite wrote.
    header: Option<Header>,
}

impl Log {
    /// Opens the log of a folder; `None` if it has none, or one with no frame in it.
    fn open(folder: &Path) -> io::Result<Option<Log>> {
        let file = match ftl_folder::open(&folder.join(LOG), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let mut bytes = [0; HEADER];
        if length < HEADER as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut bytes, 0)?;
        let (header, page) = parse_header(&bytes);
        let frames = (length - HEADER as u64) / (FRAME_HEADER + page) as u64;
        Ok((frames > 0).then_some(Log { file, frames, page, header }))
    }

    /// Whether a frame behind the end has the salt of this round.
    fn has_own_frames_behind(&self, end: u64) -> io::Result<bool> {
        let Some(header) = &self.header else { return Ok(true) };
        let mut salt = [0; 8];
        for number in end + 1..=self.frames {
            self.file.read_exact_at(&mut salt, self.place(number) + 8)?;
            if salt == header.salt {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn scan(&self) -> io::Result<Option<LogDamage>> {
        match &self.header {
            Some(header) => {
                let first_bad = self.first_bad(header)?;
                let sound = self.last_proof(first_bad, Some(&header.salt), header.is_big)?;
                Ok(sound.map(|last_sound| LogDamage { first_bad, last_sound, round: header.salt }))
            }
            None => {
                // The order of bytes went with the header.
                let sound = match self.last_proof(0, None, false)? {
                    Some(sound) => Some(sound),
                    None => self.last_proof(0, None, true)?,
                };
                Ok(sound.map(|last_sound| LogDamage { first_bad: 0, last_sound, round: [0; 8] }))
            }
        }
    }

    /// The first frame that does not fit the one before it, as SQLite looks for the end.
    fn first_bad(&self, header: &Header) -> io::Result<u64> {
        let mut sum = header.sum;
        for number in 1..=self.frames {
            let frame = self.frame(number)?;
            if frame.salt() != header.salt || !frame.fits(sum, header.is_big) {
                return Ok(number);
            }
            sum = frame.noted();
        }
        Ok(self.frames + 1)
    }

    /// The last frame behind the first bad one that follows a commit and fits it, as that fits the one before, if there
    /// are more of these than a power cut can leave.
    fn last_proof(&self, first_bad: u64, salt: Option<&[u8; 8]>, is_big: bool) -> io::Result<Option<u64>> {
        let (mut proof, mut follow) = (None, 0);
        let mut before: Option<Frame> = None;
        let mut follows_commit = false;
        for number in first_bad.max(1)..=self.frames {
            let frame = self.frame(number)?;
            let fits = before.as_ref().is_some_and(|before| {
                let same_round = salt.map_or(before.salt(), |salt| salt.as_slice()) == frame.salt();
                same_round && before.salt() == frame.salt() && frame.fits(before.noted(), is_big)
            });
            if fits && follows_commit {
                follow += 1;
                proof = (follow > MAX_UNSYNCED).then_some(number);
            }
            follows_commit = fits && frame.is_commit();
            before = Some(frame);
        }
        Ok(proof)
    }

    fn place(&self, number: u64) -> u64 {
        HEADER as u64 + (number - 1) * (FRAME_HEADER + self.page) as u64
    }

    fn frame(&self, number: u64) -> io::Result<Frame> {
        let mut frame = Frame { head: [0; FRAME_HEADER], page: vec![0; self.page] };
        self.file.read_exact_at(&mut frame.head, self.place(number))?;
        self.file.read_exact_at(&mut frame.page, self.place(number) + FRAME_HEADER as u64)?;
        Ok(frame)
    }
}

/// The page size that stores have.
const PAGE: usize = 4096;

/// The header if it is sound, and the size of pages; without a header that of every store.
fn parse_header(bytes: &[u8; HEADER]) -> (Option<Header>, usize) {
    let (magic, page) = (word(bytes, 0), word(bytes, 8) as usize);
    let is_big = magic & 1 == 1;
    let sum = checksum((0, 0), &bytes[..24], is_big);
    let is_page = page.is_power_of_two() && (512..=65_536).contains(&page);
    if magic & !1 != MAGIC || !is_page || sum != (word(bytes, 24), word(bytes, 28)) {
        return (None, PAGE);
    }
    let mut salt = [0; 8];
    salt.copy_from_slice(&bytes[16..24]);
    (Some(Header { salt, sum, is_big }), page)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// SQLite's own sum over pairs of words, which goes on from another.
fn checksum(from: Sum, bytes: &[u8], is_big: bool) -> Sum {
    let read = |four: &[u8; 4]| if is_big { u32::from_be_bytes(*four) } else { u32::from_le_bytes(*four) };
    let (mut first, mut second) = from;
    for pair in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
        first = first.wrapping_add(read(&pair[0])).wrapping_add(second);
        second = second.wrapping_add(read(&pair[1])).wrapping_add(first);
    }
    (first, second)
}
