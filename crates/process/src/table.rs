//! The table of processes, read from `/proc`: who is whose child, and since when.
//!
//! Parsing is pure and survives any name that a process may give itself. A process is known by its
//! number *and* its start: numbers are used again, the pair is not. Nothing here sends a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// One process, never to be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The number of the process.
    pub pid: i32,
    /// When it began, in clock ticks since the machine did.
    pub start: u64,
}

impl Identity {
    /// The process that has this number now, if there is one and it can be seen.
    pub fn of(pid: i32) -> Option<Identity> {
        entry(pid).ok().flatten().map(|entry| entry.identity())
    }

    /// The process that asks.
    pub fn own() -> Option<Identity> {
        Identity::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Whether it still runs. One that has ended and that its parent has not waited for does not; one that we
    /// cannot look at, because we are out of descriptors, may.
    pub fn is_alive(self) -> bool {
        match entry(self.pid) {
            Ok(entry) => entry.is_some_and(|entry| entry.start == self.start && entry.is_alive()),
            Err(_) => true,
        }
    }

    /// Its number in the form that system calls want.
    pub fn number(self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// The number of the process.
    pub pid: i32,
    /// The number of its parent.
    pub parent: i32,
    /// The number of its process group.
    pub group: i32,
    /// The number of its session.
    pub session: i32,
    /// The letter for what it does: `R`, `S`, `T`, `Z`, …
    pub state: u8,
    /// How many threads it has.
    pub threads: u64,
    /// When it began, in clock ticks since the machine did.
    pub start: u64,
}

impl ProcessRow {
    /// What tells it from every other process.
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, start: self.start }
    }

    /// Whether it can still do something. A process whose first thread has ended looks dead, and is
    /// not as long as it has another.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X') || self.threads > 1
    }
}

/// All processes that can be seen.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: BTreeMap<i32, ProcessRow>,
}

impl Table {
    /// The table as it stands. It is not one instant: what begins or ends meanwhile may be missing,
    /// so a caller that must be sure reads again until nothing is found. A table that cannot be read is an
    /// error, and never an empty one.
    pub fn read() -> io::Result<Table> {
        let mut entries = Vec::new();
        for folder in fs::read_dir("/proc")? {
            if let Some(pid) = folder?.file_name().to_str().and_then(|name| name.parse().ok()) {
                entries.extend(entry(pid)?);
            }
        }
        Ok(Table::of(entries))
    }

    /// The table of a process and of everything below it, found from parent to child: what it costs does not grow with
    /// what else runs here. `None` where the kernel does not tell of children. One whose parent ends meanwhile may be
    /// missing, as one that begins may in [`Table::read`].
    pub fn read_below(root: i32) -> io::Result<Option<Table>> {
        if own_children().is_none() {
            return Ok(None);
        }
        let mut found = BTreeMap::new();
        let mut open = vec![root];
        while let Some(pid) = open.pop() {
            if !found.contains_key(&pid)
                && let Some(row) = entry(pid)?
            {
                open.extend(children(pid)?);
                found.insert(pid, row);
            }
        }
        Ok(Some(Table { entries: found }))
    }

    /// A table of these rows.
    pub fn of(entries: impl IntoIterator<Item = ProcessRow>) -> Table {
        Table { entries: entries.into_iter().map(|entry| (entry.pid, entry)).collect() }
    }

    /// Every row, by number.
    pub fn entries(&self) -> impl Iterator<Item = &ProcessRow> {
        self.entries.values()
    }

    /// The row of a process.
    pub fn get(&self, pid: i32) -> Option<&ProcessRow> {
        self.entries.get(&pid)
    }

    /// Everything below these processes, without them.
    pub fn below(&self, roots: impl IntoIterator<Item = i32>) -> Vec<ProcessRow> {
        let mut children: BTreeMap<i32, Vec<ProcessRow>> = BTreeMap::new();
        for entry in self.entries.values() {
            children.entry(entry.parent).or_default().push(*entry);
        }
        let mut open: Vec<i32> = roots.into_iter().collect();
        let mut seen: BTreeSet<i32> = open.iter().copied().collect();
        let mut found = Vec::new();
        while let Some(pid) = open.pop() {
            for child in children.get(&pid).into_iter().flatten().filter(|child| seen.insert(child.pid)) {
                open.push(child.pid);
                found.push(*child);
            }
        }
        found
    }

    /// A process and all above it, itself first. A loop, which only a torn reading can show, ends it.
    pub fn above(&self, pid: i32) -> Vec<ProcessRow> {
        let mut found: Vec<ProcessRow> = Vec::new();
        let mut next = self.get(pid);
        while let Some(entry) = next.filter(|entry| found.iter().all(|known| known.pid != entry.pid)) {
            found.push(*entry);
            next = self.get(entry.parent);
        }
        found
    }
}

/// The row of one process, if there is one. An error says that we cannot know.
pub fn entry(pid: i32) -> io::Result<Option<ProcessRow>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(line) => Ok(parse(&line)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error means that the process ended before or while we looked at it, or is hidden from us.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::NOENT, Errno::SRCH, Errno::ACCESS, Errno::PERM];
    gone.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Reads a line of `/proc/PID/stat`. The name stands in parentheses and may hold anything, further
/// parentheses and line breaks too; so the last one that closes counts.
pub fn parse(line: &[u8]) -> Option<ProcessRow> {
    let opens = line.iter().position(|byte| *byte == b'(')?;
    let closes = line.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&line[..opens]).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(line.get(closes + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The state is the third field of the line and the first one here.
    let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
    Some(ProcessRow {
        pid,
        parent: i32::try_from(number(4)?).ok()?,
        group: i32::try_from(number(5)?).ok()?,
        session: i32::try_from(number(6)?).ok()?,
        state: *fields.first()?.as_bytes().first()?,
        threads: u64::try_from(number(20)?).ok()?,
        start: fields.get(22 - 3)?.parse().ok()?,
    })
}

/// The children of the thread that asks; quick, because it looks at nothing else. `None` where the
/// kernel does not tell.
pub fn own_children() -> Option<Vec<i32>> {
    let text = fs::read_to_string("/proc/thread-self/children").ok()?;
    Some(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// The children of all threads of a process; none of one that has ended.
fn children(pid: i32) -> io::Result<Vec<i32>> {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        threads => threads?,
    };
    let mut all = Vec::new();
    for thread in threads.flatten() {
        let thread = thread.file_name();
        let text = match fs::read(format!("/proc/{pid}/task/{}/children", thread.display())) {
            Err(error) if is_gone(&error) => continue,
            text => text?,
        };
        let text = String::from_utf8_lossy(&text);
        all.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    Ok(all)
}

/// What names this start of the machine; process numbers mean nothing in another one.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The environment that a process was started with, if we may look.
pub fn environment(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// The words of the command line that a process was started with.
pub fn words(pid: i32) -> Option<Vec<OsString>> {
    Some(split_words(&fs::read(format!("/proc/{pid}/cmdline")).ok()?))
}

/// The words of a command line as the kernel writes it: each ended by a NUL.
pub(super) fn split_words(text: &[u8]) -> Vec<OsString> {
    let words = text.strip_suffix(b"\0").unwrap_or(text).split(|byte| *byte == 0);
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// The program that a process runs, if we may look.
pub fn program(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The value of a variable in a block of `NAME=value` texts, each ended by a NUL.
pub fn variable<'block>(block: &'block [u8], name: &str) -> Option<&'block [u8]> {
    let value = |line: &'block [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    block.split(|byte| *byte == 0).find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, parent: i32) -> ProcessRow {
        ProcessRow { pid, parent, group: pid, session: 1, state: b'S', threads: 1, start: 7 }
    }

    fn line(name: &str) -> Vec<u8> {
        let after = "S 3 42 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 5 0 12345 1 1 18446744073709551615";
        format!("42 ({name}) {after}\n").into_bytes()
    }

    #[test]
    fn a_line_is_read_whatever_the_name() {
        for name in ["sh", "a b", "a) S 1 1 1", "((", ")", "", "x\ny", "evil) R 1 2 3 4 5 6 (7"] {
            let entry = parse(&line(name)).unwrap();
            let wanted = ProcessRow {
                pid: 42,
                parent: 3,
                group: 42,
                session: 9,
                state: b'S',
                threads: 5,
                start: 12345,
            };
            assert_eq!(entry, wanted, "{name:?}");
        }
        let mut bytes = line("x");
        bytes[4] = 0xff;
        assert_eq!(parse(&bytes).map(|entry| entry.pid), Some(42));
    }

    #[test]
    fn a_torn_line_is_no_process() {
        let whole = line("sh");
        for torn in [&b""[..], b"42", b"42 (sh", b"42 (sh)", b"(sh) S 1", &whole[..40]] {
            assert_eq!(parse(torn), None, "{:?}", String::from_utf8_lossy(torn));
        }
    }

    #[test]
    fn a_process_whose_first_thread_ended_is_alive() {
        let zombie = ProcessRow { state: b'Z', ..row(2, 1) };
        assert!(!zombie.is_alive());
        assert!(ProcessRow { threads: 2, ..zombie }.is_alive());
        assert!(ProcessRow { state: b'T', ..zombie }.is_alive());
    }

    #[test]
    fn trees_are_walked_down_and_up() {
        let table = Table::of([row(1, 0), row(2, 1), row(3, 2), row(4, 3), row(5, 1), row(6, 6)]);
        let pids = |entries: Vec<ProcessRow>| entries.iter().map(|entry| entry.pid).collect::<BTreeSet<_>>();
        assert_eq!(pids(table.below([2])), BTreeSet::from([3, 4]));
        assert_eq!(pids(table.below([2, 5])), BTreeSet::from([3, 4]));
        assert_eq!(pids(table.below([99])), BTreeSet::new());
        let up: Vec<i32> = table.above(4).iter().map(|entry| entry.pid).collect();
        assert_eq!(up, [4, 3, 2, 1]);
        assert_eq!(table.above(6).len(), 1, "a loop ends");
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let block = b"AB=1\0A=2\0C=\0=x\0";
        assert_eq!(variable(block, "A"), Some(&b"2"[..]));
        assert_eq!(variable(block, "C"), Some(&b""[..]));
        assert_eq!(variable(block, "B"), None);
    }

    #[test]
    fn a_tree_is_read_without_the_rest_of_the_table() {
        let Some(before) = Table::read_below(1).unwrap() else { return };
        assert!(before.get(1).is_some());
        let script = "sleep 600 & (sleep 600 & wait) & wait";
        let mut shell = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let top = i32::try_from(shell.id()).unwrap();
        let whole = || Table::read().unwrap().below([top]).len();
        while whole() < 3 {
            std::thread::yield_now();
        }
        let tree = Table::read_below(top).unwrap().unwrap();
        assert_eq!(tree.entries().count(), 4, "the shell and the three below it, and nothing else: {tree:?}");
        let below: BTreeSet<i32> = tree.below([top]).iter().map(|row| row.pid).collect();
        let wanted: BTreeSet<i32> = Table::read().unwrap().below([top]).iter().map(|row| row.pid).collect();
        assert_eq!(below, wanted);
        for pid in wanted.into_iter().chain([top]) {
            let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL);
        }
        shell.wait().unwrap();
        assert_eq!(Table::read_below(i32::MAX).unwrap().unwrap().entries().count(), 0);
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start: own.start + 1, ..own }.is_alive());
        let table = Table::read().unwrap();
        assert_eq!(table.get(own.pid).map(ProcessRow::identity), Some(own));
        assert_eq!(entry(i32::MAX).unwrap(), None);
        assert!(boot_id().unwrap().len() > 30);
    }
}
