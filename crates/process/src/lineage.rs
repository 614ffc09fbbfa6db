//! Whether we run inside an agent: what a person may say, a process below a guard may not.
//!
//! The strong sign is the line of ancestors: everything that an agent starts stays below its guard, or
//! below the driver once the guard is gone, however it detaches. Where the line cannot be followed, in a
//! PID namespace of its own, the namespace of the process that drives a run now is the measure. The mark in the
//! environment is the weak sign; it also holds where ancestors cannot be seen. Any one sign is enough, and
//! nothing here clears a process of one.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::procfs::{Namespaces, ProcFs};
use super::sandbox::SANDBOX_WORD;
use super::table::{self, Identity, ProcessRow};
use super::{GUARD_WORD, MARK, lock};

/// How often the line of ancestors is read again because it changed under our eyes.
const MAX_READINGS: usize = 100;

/// That we are inside, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLineage {
    /// The process that shows it: ourselves, one above us, or the one that we cannot see.
    pub pid: i32,
    /// The sign that shows it.
    pub by: LineageSign,
}

/// What shows that a process is inside an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineageSign {
    /// It, or one above it, was started with the mark.
    Mark,
    /// One above it is a guard by its command line and its program.
    Guard,
    /// One above it holds the lock of an attempt.
    Attempt,
    /// One above it drives a run: it was left there by a guard that is gone.
    Driver,
    /// It is in another PID namespace than a living driver, and does not see it.
    Namespace,
    /// Something is mounted over the locks of drivers or attempts, so they tell nothing.
    Covered,
    /// A process that it does not see has the store open, and the lock of a run's owner is gone.
    Open,
    /// The line of ancestors cannot be read, so nothing shows that it is not.
    Unseen,
}

impl LineageSign {
    /// What a person who is refused by it can do.
    pub fn hint(self) -> &'static str {
        match self {
            LineageSign::Mark | LineageSign::Guard | LineageSign::Attempt | LineageSign::Driver => {
                "only a person may do this, from a terminal of their own"
            }
            LineageSign::Namespace => {
                "say it where that process can be seen: in its own container (`docker exec` is enough) or on the \
                 host of it; or end that process first"
            }
            LineageSign::Covered => {
                "say it where .ftl/store is as it is on the disk, or unmount what lies over it"
            }
            LineageSign::Open => {
                "say it where all processes that use the store can be seen, such as on the host, or end them first"
            }
            LineageSign::Unseen => "only a person may do this, where /proc shows all of their processes",
        }
    }
}

/// A living process that drives a run or guards an attempt, as its own file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which one, in its own namespace.
    pub who: Identity,
    /// That namespace; nothing where an older program wrote the file.
    pub namespaces: Option<Namespaces>,
}

/// A process and what is to be seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its number and its start.
    pub who: Identity,
    /// The words of its command line.
    pub words: Vec<OsString>,
    /// Its program; `None` if we may not look.
    pub program: Option<PathBuf>,
    /// Its environment; empty if we may not look.
    pub environment: Vec<u8>,
}

/// Who is known to be alive and at work on a store.
#[derive(Clone, Copy, Debug)]
pub struct Alive<'a> {
    /// The guards of attempts.
    pub guards: &'a [Witness],
    /// The drivers of runs.
    pub drivers: &'a [Witness],
}

/// What a process sees of itself.
#[derive(Clone, Debug)]
pub struct ProcessView {
    /// The processes above it, itself first.
    pub line: Vec<Ancestor>,
    /// The number of the first one above that is there and hidden; nothing where the line is whole.
    pub hidden: Option<i32>,
    /// The namespaces that it is in.
    pub namespaces: Namespaces,
    /// The program that asks.
    pub ours: Option<PathBuf>,
}

/// Whether the calling process is inside an agent's tree. The folder of attempts, if it is known, tells
/// guards apart that are another program than ours; the drivers are those of the same store.
pub fn inside_agent(attempts: Option<&Path>, drivers: &[Witness]) -> Option<AgentLineage> {
    let guards = attempts.map(guards_in).unwrap_or_default();
    let alive = Alive { guards: &guards, drivers };
    let unseen = |_: io::Error| Some(AgentLineage { pid: own_pid(), by: LineageSign::Unseen });
    let seen = ProcFs::open().and_then(|proc| Ok((ProcessView::read(&proc)?, proc)));
    let (view, proc) = match seen {
        Ok(seen) => seen,
        Err(error) => return unseen(error),
    };
    look(&view, alive).or_else(|| elsewhere(&proc, &view, alive).unwrap_or_else(unseen))
}

/// The rule over the line of processes, the one that asks first.
pub fn look(view: &ProcessView, alive: Alive<'_>) -> Option<AgentLineage> {
    let is = |one: &Witness, who: Identity| {
        let same = one.namespaces.as_ref().is_some_and(|theirs| theirs.pid == view.namespaces.pid);
        one.who == who || (same && one.who.pid == who.pid)
    };
    let known = |who: Identity| {
        let found = |all: &[Witness]| all.iter().any(|one| is(one, who));
        let driver = || found(alive.drivers).then_some(LineageSign::Driver);
        found(alive.guards).then_some(LineageSign::Attempt).or_else(driver)
    };
    let sign = |above: usize, one: &Ancestor| {
        if table::variable(&one.environment, MARK).is_some() {
            return Some(LineageSign::Mark);
        }
        if above > 0 && is_guard(one, view.ours.as_deref()) {
            return Some(LineageSign::Guard);
        }
        if above > 0 { known(one.who) } else { None }
    };
    let inside =
        |(above, one): (usize, &Ancestor)| Some(AgentLineage { pid: one.who.pid, by: sign(above, one)? });
    // A guard or driver is hidden where /proc shows users only their own processes.
    let hidden = || {
        let pid = view.hidden?;
        Some(AgentLineage { pid, by: known(Identity { pid, start: 0 })? })
    };
    view.line.iter().enumerate().find_map(inside).or_else(hidden)
}

/// The rule over namespaces: while a process drives a run or guards an attempt, only its own namespace, and
/// one that sees it from above, are a person's. Each of them is asked, for any process can make a file that clears
/// itself. Where none does, every namespace is.
fn elsewhere(proc: &ProcFs, view: &ProcessView, alive: Alive<'_>) -> io::Result<Option<AgentLineage>> {
    let all = alive.drivers.iter().chain(alive.guards);
    for (who, theirs) in all.filter_map(|one| Some((one.who, one.namespaces.as_ref()?))) {
        if theirs.pid != view.namespaces.pid && !sees(proc, view, who, theirs)? {
            return Ok(Some(AgentLineage { pid: who.pid, by: LineageSign::Namespace }));
        }
    }
    Ok(None)
}

/// Whether our own `/proc` shows a process of a namespace below ours. One of another namespace than ours
/// shows what we are not above of; and starts cannot be compared where time is counted differently.
fn sees(proc: &ProcFs, view: &ProcessView, who: Identity, theirs: &Namespaces) -> io::Result<bool> {
    let is_ours = proc.numbers(proc.own_pid()?)? == [own_pid()];
    Ok(is_ours && theirs.time == view.namespaces.time && proc.shows_below(who)?)
}

/// A guard hides what it runs from other users' eyes and its own children's, so a program that we may
/// not look at counts as ours.
fn is_guard(one: &Ancestor, ours: Option<&Path>) -> bool {
    let named = one.words.get(1).is_some_and(|word| word == GUARD_WORD || word == SANDBOX_WORD);
    named && one.program.as_deref().is_none_or(|program| Some(program) == ours)
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The guards of the attempts that live in a folder.
pub fn guards_in(attempts: &Path) -> Vec<Witness> {
    let files = lock::attempts(attempts).unwrap_or_default();
    let records = files.into_iter().filter(|file| file.alive).filter_map(|file| file.record);
    records.map(|record| Witness { who: record.guard, namespaces: record.namespaces }).collect()
}

impl ProcessView {
    /// What this process sees of itself.
    fn read(proc: &ProcFs) -> io::Result<ProcessView> {
        let mut view = ProcessView::read_of(proc, proc.own_pid()?)?;
        // A process that may not be looked into may not read this file of itself either.
        if let (Some(us), Some(mark)) = (view.line.first_mut(), std::env::var_os(MARK)) {
            us.environment = [MARK.as_bytes(), b"=", mark.as_encoded_bytes()].concat();
        }
        Ok(view)
    }

    /// Reads the line above a process until it stays as it is: a process that ends while it is read gives its
    /// children away.
    pub fn read_of(proc: &ProcFs, own: i32) -> io::Result<ProcessView> {
        for _ in 0..MAX_READINGS {
            let (line, hidden) = entries_above(proc, own)?;
            let seen: Vec<Ancestor> =
                line.iter().map(|entry| read_ancestor(proc, entry.identity())).collect::<io::Result<_>>()?;
            if entries_above(proc, own)? == (line, hidden) {
                let ours = proc.link(&format!("{}/exe", proc.own_pid()?)).ok();
                let namespaces = proc.namespaces(own).or_else(|_| proc.namespaces(proc.own_pid()?))?;
                return Ok(ProcessView { line: seen, hidden, namespaces, ours });
            }
        }
        Err(io::Error::other("the processes above this one change faster than they can be read"))
    }
}

/// A process and all above it, itself first, and the number of one above that is hidden.
fn entries_above(proc: &ProcFs, own: i32) -> io::Result<(Vec<ProcessRow>, Option<i32>)> {
    let mut line: Vec<ProcessRow> = Vec::new();
    let mut next = own;
    while next != 0 {
        // What runs and counts time differs from one reading to the next; who it is does not.
        match proc.entry(next)?.map(|entry| ProcessRow { state: 0, threads: 0, ..entry }) {
            Some(entry) if line.iter().all(|known| known.pid != entry.pid) => {
                line.push(entry);
                next = entry.parent;
            }
            Some(_) | None if line.is_empty() => return Err(io::ErrorKind::NotFound.into()),
            Some(_) | None => return Ok((line, Some(next))),
        }
    }
    Ok((line, None))
}

/// What may be looked at of a process. What is forbidden or gone is empty; a file that is mounted over
/// one of these is an error.
fn read_ancestor(proc: &ProcFs, who: Identity) -> io::Result<Ancestor> {
    let allowed = |read: io::Result<Vec<u8>>| match read {
        Err(error) if table::is_gone(&error) => Ok(Vec::new()),
        read => read,
    };
    let program = match proc.link(&format!("{}/exe", who.pid)) {
        Ok(program) => Some(program),
        Err(error) if table::is_gone(&error) => None,
        Err(error) => return Err(error),
    };
    let words = table::split_words(&allowed(proc.read(&format!("{}/cmdline", who.pid)))?);
    Ok(Ancestor { who, words, program, environment: allowed(proc.read(&format!("{}/environ", who.pid)))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: i32, words: &[&str], program: Option<&str>, environment: &str) -> Ancestor {
        Ancestor {
            who: Identity { pid, start: 7 },
            words: words.iter().map(OsString::from).collect(),
            program: program.map(PathBuf::from),
            environment: environment.replace(' ', "\0").into_bytes(),
        }
    }

    fn shell(pid: i32) -> Ancestor {
        one(pid, &["sh", "-c", "x"], Some("/bin/sh"), "A=1 PATH=/bin")
    }

    fn ftl(pid: i32, word: &str, program: Option<&str>) -> Ancestor {
        one(pid, &["ftl", word], program, "")
    }

    fn view(line: &[Ancestor]) -> ProcessView {
        let namespaces = Namespaces { pid: String::from("pid:[1]"), time: None };
        ProcessView { line: line.to_vec(), hidden: None, namespaces, ours: Some(PathBuf::from("/bin/ftl")) }
    }

    fn witness(pid: i32, namespace: Option<&str>) -> Witness {
        let namespaces = namespace.map(|pid| Namespaces { pid: pid.to_owned(), time: None });
        Witness { who: Identity { pid, start: 7 }, namespaces }
    }

    const NOBODY: Alive<'_> = Alive { guards: &[], drivers: &[] };

    #[test]
    fn one_sign_anywhere_in_the_line_is_enough() {
        let (us, init) = (ftl(9, "status", Some("/bin/ftl")), one(1, &["init"], None, ""));
        let (below, above) = ([us, shell(8)], [init]);
        let seen = |middle: &[Ancestor]| view(&[&below, middle, &above].concat());
        let guards = [witness(5, None)];
        let held = Alive { guards: &guards, drivers: &[] };
        let inside = |pid, by| Some(AgentLineage { pid, by });

        assert_eq!(look(&seen(&[shell(5), ftl(4, "run", Some("/bin/ftl"))]), NOBODY), None);
        let guard = ftl(5, GUARD_WORD, Some("/bin/ftl"));
        assert_eq!(look(&seen(&[guard]), NOBODY), inside(5, LineageSign::Guard));
        let hidden = ftl(5, GUARD_WORD, None);
        assert_eq!(look(&seen(&[hidden]), NOBODY), inside(5, LineageSign::Guard));
        let other = ftl(5, GUARD_WORD, Some("/bin/other"));
        assert_eq!(look(&seen(std::slice::from_ref(&other)), NOBODY), None);
        assert_eq!(look(&seen(&[other]), held), inside(5, LineageSign::Attempt));
        let later = one(5, &["x"], None, "");
        let later = Ancestor { who: Identity { pid: 5, start: 8 }, ..later };
        assert_eq!(look(&seen(&[later]), held), None, "the same number, another process");
        let marked = one(5, &["x"], None, "A=1 FTL_ATTEMPT=abc.1");
        assert_eq!(look(&seen(&[marked]), NOBODY), inside(5, LineageSign::Mark));
        let similar = one(5, &["x"], None, "FTL_ATTEMPTS=1 XFTL_ATTEMPT=1");
        assert_eq!(look(&seen(&[similar]), NOBODY), None);
    }

    #[test]
    fn whoever_is_below_a_driver_was_left_there_by_an_agent() {
        let drivers = [witness(4, Some("pid:[1]"))];
        let alive = Alive { guards: &[], drivers: &drivers };
        let line = [ftl(9, "answer", None), shell(8), ftl(4, "run", None), shell(1)];
        assert_eq!(look(&view(&line), alive), Some(AgentLineage { pid: 4, by: LineageSign::Driver }));
        assert_eq!(look(&view(&line[2..]), alive), None, "the driver itself is not");
        let beside = [ftl(9, "answer", None), shell(8), shell(1)];
        assert_eq!(look(&view(&beside), alive), None);
        let hidden = |pid| ProcessView { hidden: Some(pid), ..view(&beside) };
        assert_eq!(look(&hidden(4), alive), Some(AgentLineage { pid: 4, by: LineageSign::Driver }));
        assert_eq!(look(&hidden(3), alive), None, "somebody else's process is hidden");
        let far = [witness(4, Some("pid:[2]"))];
        let alive = Alive { guards: &far, drivers: &[] };
        assert_eq!(look(&hidden(4), alive), None, "a number of another namespace");
    }

    #[test]
    fn our_own_mark_counts_and_our_own_word_does_not() {
        let marked = one(9, &["ftl"], None, "FTL_ATTEMPT=");
        assert_eq!(look(&view(&[marked]), NOBODY), Some(AgentLineage { pid: 9, by: LineageSign::Mark }));
        assert_eq!(look(&view(&[ftl(9, GUARD_WORD, None)]), NOBODY), None);
        assert_eq!(look(&view(&[]), NOBODY), None);
    }
}
