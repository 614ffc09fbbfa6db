//! What git tracks below `.ftl`, read from git's own list, the index.
//!
//! A `.ftl/store` that git tracks comes with a clone, so the author of the repository chose its content. Git is
//! not started for this: the list is sorted by name, so that only its beginning up to `.ftl` is read. A list in a form
//! that is not known here is an error; nothing else is ever looked at in its place.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The longest name that is read; git's own limit is that of the system.
const MAX_NAME_BYTES: usize = 1024 * 1024;

/// The parts of `.ftl` that no repository may bring: what only `ftl` writes, and the settings of one person.
const OURS: [&str; 3] = ["config.toml", "store", "worktrees"];

/// Something that only `ftl` writes and that git tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Its path below the top of git's files.
    pub path: String,
    /// Whether the list stands in two files, of which the older one keeps names that were taken out.
    pub is_split: bool,
}

impl Tracked {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        let then = if self.is_split { " && git update-index --no-split-index" } else { "" };
        format!("`git rm -r --cached {}{then}` takes it out of git and leaves the files", self.path)
    }
}

impl fmt::Display for Tracked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.path.ends_with("/config.toml") {
            true => "holds the settings of one person",
            false => "only ftl may write",
        };
        write!(out, "git tracks `{}`, which {whose}: it came with the repository", self.path)
    }
}

/// What of ours git tracks, by the index in its folder; `prefix` leads from git's top to the folder that holds
/// `.ftl`, with a slash before each part. Nothing where there is no index.
pub fn find(git: &Path, prefix: &str) -> io::Result<Option<Tracked>> {
    let below = format!("{prefix}/{}", super::STATE);
    let below = below.trim_start_matches('/');
    // Where most names stand in a second file, that is called after its digest.
    let names = super::names(git)?;
    let shared = names.iter().find_map(|name| name.to_str()?.strip_prefix("sharedindex."));
    let digest = shared.map(|name| name.len() / 2);
    let found = match in_file(&git.join("index"), below, digest)? {
        None | Some(Found::Nothing) => return Ok(None),
        Some(Found::Name(path)) => return Ok(Some(Tracked { path, is_split: false })),
        Some(Found::Elsewhere(base)) => in_file(&git.join(format!("sharedindex.{base}")), below, None)?,
    };
    Ok(match found {
        Some(Found::Name(path)) => Some(Tracked { path, is_split: true }),
        Some(Found::Nothing | Found::Elsewhere(_)) | None => None,
    })
}

/// What one file of the list says.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It names something of ours.
    Name(String),
    /// It names nothing of ours.
    Nothing,
    /// It names nothing of ours, and most names stand in another file.
    Elsewhere(String),
}

/// Looks at one file. Where the list may be split, it is read to its end, and how long digests are is known.
fn in_file(file: &Path, below: &str, split: Option<usize>) -> io::Result<Option<Found>> {
    let open = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        open => open?,
    };
    let length = open.metadata()?.len();
    let wrong = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", file.display()));
    let mut list = List::begin(BufReader::with_capacity(16 * 1024, open)).map_err(wrong)?;
    list.is_split = split.is_some();
    list.digest = split.unwrap_or(list.digest);
    list.search(below, length).map(Some).map_err(wrong)
}

/// The list while it is read.
struct List<R> {
    from: R,
    at: u64,
    version: u32,
    left: u32,
    digest: usize,
    is_split: bool,
    name: Vec<u8>,
}

impl<R: BufRead> List<R> {
    fn begin(mut from: R) -> io::Result<List<R>> {
        let mut head = [0; 12];
        from.read_exact(&mut head)?;
        let version = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        if &head[..4] != b"DIRC" || !(2..=4).contains(&version) {
            return Err(unknown("it is no list of git's that is known here"));
        }
        let left = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        Ok(List { from, at: 12, version, left, digest: 20, is_split: false, name: Vec::new() })
    }

    fn search(&mut self, below: &str, length: u64) -> io::Result<Found> {
        let mut is_first = !self.is_split;
        while self.left > 0 {
            self.left -= 1;
            self.next_name(is_first)?;
            is_first = false;
            if is_ours(&self.name, below) {
                return Ok(Found::Name(String::from_utf8_lossy(&self.name).into_owned()));
            }
            // Sorted by bytes: nothing of ours comes after this.
            if !self.is_split && is_past(&self.name, below) {
                return Ok(Found::Nothing);
            }
        }
        if self.is_split { self.extension(length) } else { Ok(Found::Nothing) }
    }

    /// Reads the next name. How long digests are is seen from the first entry: its flags must fit its name.
    fn next_name(&mut self, is_first: bool) -> io::Result<()> {
        let mut fixed = vec![0; 40 + self.digest + 2];
        self.take(&mut fixed)?;
        if is_first && !self.fits(&fixed)? {
            self.digest = 32;
            let mut rest = [0; 12];
            self.take(&mut rest)?;
            fixed.extend_from_slice(&rest);
        }
        let flags = u16::from_be_bytes([fixed[40 + self.digest], fixed[41 + self.digest]]);
        let mut fixed = fixed.len();
        if self.version >= 3 && flags & 0x4000 != 0 {
            self.take(&mut [0; 2])?;
            fixed += 2;
        }
        if self.version == 4 {
            let strip = self.varint()?;
            let keep =
                self.name.len().checked_sub(strip).ok_or_else(|| unknown("a name is cut too short"))?;
            self.name.truncate(keep);
        } else {
            self.name.clear();
        }
        let read = self.until_nul()?;
        if self.version < 4 {
            // Padded with zeros to eight bytes, at least one of them.
            let padding = 7 - (fixed + read) % 8;
            self.take(&mut [0; 7][..padding])?;
        }
        Ok(())
    }

    /// Whether digests have 20 bytes: the flags that would stand there tell the length of the name that follows.
    fn fits(&mut self, fixed: &[u8]) -> io::Result<bool> {
        let flags = u16::from_be_bytes([fixed[60], fixed[61]]);
        let length = usize::from(flags & 0x0fff);
        let extended = if self.version >= 3 && flags & 0x4000 != 0 { 2 } else { 0 };
        let ahead = self.from.fill_buf()?;
        if self.version == 4 {
            // The first name strips nothing.
            return Ok(ahead.get(extended) == Some(&0)
                && ahead.get(extended + 1 + length) == Some(&0)
                && !ahead[extended + 1..extended + 1 + length].contains(&0));
        }
        let name = ahead.get(extended..extended + length).unwrap_or_default();
        let is_whole = length < 0x0fff && length > 0 && ahead.get(extended + length) == Some(&0);
        Ok(is_whole && name.len() == length && !name.contains(&0))
    }

    fn take(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.from.read_exact(bytes)
    }

    fn varint(&mut self) -> io::Result<usize> {
        let mut byte = [0];
        self.take(&mut byte)?;
        let mut value = usize::from(byte[0] & 0x7f);
        while byte[0] & 0x80 != 0 {
            self.take(&mut byte)?;
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_mul(128))
                .filter(|value| *value < MAX_NAME_BYTES)
                .ok_or_else(|| unknown("a name is too long"))?
                + usize::from(byte[0] & 0x7f);
        }
        Ok(value)
    }

    /// Adds what comes before the next zero to the name; how many bytes that were.
    fn until_nul(&mut self) -> io::Result<usize> {
        let before = self.name.len();
        let read = (&mut self.from).take(MAX_NAME_BYTES as u64).read_until(0, &mut self.name)?;
        self.at += read as u64;
        if self.name.pop() != Some(0) {
            return Err(unknown("a name has no end"));
        }
        Ok(self.name.len() - before)
    }

    /// Looks for the extension that names the other file, at the end of the list.
    fn extension(&mut self, length: u64) -> io::Result<Found> {
        let end = length.saturating_sub(self.digest as u64);
        while self.at + 8 <= end {
            let mut head = [0; 8];
            self.take(&mut head)?;
            let size = u64::from(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
            if &head[..4] == b"link" && size >= self.digest as u64 {
                let mut digest = vec![0; self.digest];
                self.take(&mut digest)?;
                let is_none = digest.iter().all(|byte| *byte == 0);
                let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                return Ok(if is_none { Found::Nothing } else { Found::Elsewhere(name) });
            }
            self.at += size;
            let skipped = io::copy(&mut (&mut self.from).take(size), &mut io::sink())?;
            if skipped < size {
                return Err(unknown("an extension has no end"));
            }
        }
        Ok(Found::Nothing)
    }
}

fn unknown(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Whether a name is `.ftl` itself, as a link or a repository of its own, or lies in a part that only `ftl` writes.
fn is_ours(name: &[u8], below: &str) -> bool {
    if name == below.as_bytes() {
        return true;
    }
    let Some(rest) = name.strip_prefix(below.as_bytes()).and_then(|rest| rest.strip_prefix(b"/")) else {
        return false;
    };
    let first = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
    OURS.iter().any(|part| first == part.as_bytes())
}

/// Whether a name comes after everything below `.ftl`.
fn is_past(name: &[u8], below: &str) -> bool {
    name > [below.as_bytes(), b"0"].concat().as_slice()
}

#[cfg(test)]
mod tests;
