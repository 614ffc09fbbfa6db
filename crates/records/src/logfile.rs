//! The log file `.ftl/ftl.log`: what was said to people, for those who look later.
//!
//! It is turned over at a fixed size and three older ones are kept. It is no record: the journal and
//! the store are. That it cannot be written is no reason to fail.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use super::{RecordError, Records};
use ftl_folder::clock;
use ftl_folder::{self as folder, OpenMode};

/// How large the file may become.
pub const MAX_LOG_BYTES: u64 = 1_000_000;

/// How many older files are kept.
pub const MAX_OLDER: usize = 3;

/// How much of the end is read for its last lines.
const MAX_TAIL_BYTES: u64 = 1_000_000;

impl Records {
    /// The path of the log file.
    pub fn log_file(&self) -> PathBuf {
        self.place().state().join("ftl.log")
    }

    /// Adds a line with time and level to the log file of the script commands.
    pub fn log(&self, level: &str, text: &str) -> Result<(), RecordError> {
        let path = self.log_file();
        let on_disk = |error: io::Error| RecordError::disk(&path, &error);
        let _held = self.hold().map_err(on_disk)?;
        let line = format!("{} {level} {}\n", clock::local(), text.replace('\n', "\\n"));
        if folder::metadata(&path).is_ok_and(|found| found.len() + line.len() as u64 > MAX_LOG_BYTES) {
            self.turn_over().map_err(on_disk)?;
        }
        let mut file = folder::open_as(&path, OpenMode::Append, 0o666).map_err(on_disk)?;
        file.write_all(line.as_bytes()).map_err(on_disk)
    }

    fn older(&self, number: usize) -> PathBuf {
        self.place().state().join(format!("ftl.log.{number}"))
    }

    fn turn_over(&self) -> io::Result<()> {
        for number in (1..MAX_OLDER).rev() {
            let (from, to) = (self.older(number), self.older(number + 1));
            if folder::is_file(&from) {
                folder::rename(&from, &to)?;
            }
        }
        folder::rename(&self.log_file(), &self.older(1))
    }

    /// Reads the last lines of the log file.
    pub fn log_tail(&self, lines: usize) -> Result<Vec<String>, RecordError> {
        let path = self.log_file();
        let read = || -> io::Result<String> {
            let mut file = folder::open(&path, OpenMode::Read)?;
            let end = file.seek(SeekFrom::End(0))?;
            file.seek(SeekFrom::Start(end.saturating_sub(MAX_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        match read() {
            Ok(text) => {
                let all: Vec<&str> = text.lines().collect();
                Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(RecordError::disk(&path, &error)),
        }
    }

    /// Removes it and the older ones; whether there was one.
    pub fn clear_log(&self) -> Result<bool, RecordError> {
        let mut there = false;
        for path in std::iter::once(self.log_file()).chain((1..=MAX_OLDER).map(|number| self.older(number))) {
            match folder::remove(&path) {
                Ok(()) => there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(RecordError::disk(&path, &error)),
            }
        }
        Ok(there)
    }
}
