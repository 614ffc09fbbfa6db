//! Whether we run inside an agent: what a person may say, a process below a guard may not.
//!
//! The strong sign is the line of ancestors: everything that an agent starts stays below its guard,
//! however it detaches. The mark in the environment is the weak sign; it also holds where ancestors
//! cannot be seen. Any one sign is enough, and nothing here clears anybody of one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::table::{self, Identity, Table};
use super::{MARK, guard, lock};

/// That we are inside, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The process that shows it: ourselves or one above us.
    pub pid: i32,
    /// By what.
    pub by: Sign,
}

/// What shows that a process is inside an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It, or one above it, was started with the mark.
    Mark,
    /// One above it is a guard by its command line and its program.
    Guard,
    /// One above it holds the lock of an attempt.
    Attempt,
    /// The line of ancestors cannot be read, so nothing shows that it is not.
    Unseen,
}

/// A process and what is to be seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Which one.
    pub who: Identity,
    /// The words of its command line.
    pub words: Vec<OsString>,
    /// Its program; `None` if we may not look.
    pub program: Option<PathBuf>,
    /// Its environment; empty if we may not look.
    pub environment: Vec<u8>,
}

/// Whether the calling process is inside an agent's tree. The folder of attempts, if it is known,
/// tells guards apart that are another program than ours.
pub fn inside_agent(attempts: Option<&Path>) -> Option<Inside> {
    let held: Vec<Identity> = attempts.map(guards_in).unwrap_or_default();
    let ours = table::program(own_pid());
    match Table::read() {
        Ok(table) => look(&line(&table, own_pid()), ours.as_deref(), &held),
        Err(_) => Some(Inside { pid: own_pid(), by: Sign::Unseen }),
    }
}

/// The rule, over what was seen: a line of processes, the one that asks first; the program that asks;
/// and the guards of live attempts.
pub fn look(line: &[Ancestor], ours: Option<&Path>, held: &[Identity]) -> Option<Inside> {
    let sign = |above: usize, one: &Ancestor| {
        if table::variable(&one.environment, MARK).is_some() {
            return Some(Sign::Mark);
        }
        if above > 0 && is_guard(one, ours) {
            return Some(Sign::Guard);
        }
        (above > 0 && held.contains(&one.who)).then_some(Sign::Attempt)
    };
    let inside = |(above, one): (usize, &Ancestor)| Some(Inside { pid: one.who.pid, by: sign(above, one)? });
    line.iter().enumerate().find_map(inside)
}

/// A guard hides what it runs from other users' eyes and its own children's, so a program that we may
/// not look at counts as ours.
fn is_guard(one: &Ancestor, ours: Option<&Path>) -> bool {
    let named = one.words.get(1).is_some_and(|word| word == guard::WORD);
    named && one.program.as_deref().is_none_or(|program| Some(program) == ours)
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn guards_in(attempts: &Path) -> Vec<Identity> {
    let files = lock::attempts(attempts).unwrap_or_default();
    files.into_iter().filter(|file| file.alive).filter_map(|file| Some(file.record?.guard)).collect()
}

fn line(table: &Table, pid: i32) -> Vec<Ancestor> {
    let seen = |pid: i32, who: Identity| Ancestor {
        who,
        words: table::words(pid).unwrap_or_default(),
        program: table::program(pid),
        environment: table::environment(pid).unwrap_or_default(),
    };
    table.above(pid).into_iter().map(|entry| seen(entry.pid, entry.identity())).collect()
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

    #[test]
    fn one_sign_anywhere_in_the_line_is_enough() {
        let ours = Some(Path::new("/bin/ftl"));
        let (us, init) = (ftl(9, "status", Some("/bin/ftl")), one(1, &["init"], None, ""));
        let (below, above) = ([us, shell(8)], [init]);
        let line = |middle: &[Ancestor]| [&below, middle, &above].concat();
        let held = [Identity { pid: 5, start: 7 }];
        let inside = |pid, by| Some(Inside { pid, by });

        assert_eq!(look(&line(&[shell(5), ftl(4, "run", Some("/bin/ftl"))]), ours, &[]), None);
        let guard = ftl(5, guard::WORD, Some("/bin/ftl"));
        assert_eq!(look(&line(&[guard]), ours, &[]), inside(5, Sign::Guard));
        let hidden = ftl(5, guard::WORD, None);
        assert_eq!(look(&line(&[hidden]), ours, &[]), inside(5, Sign::Guard));
        let other = ftl(5, guard::WORD, Some("/bin/other"));
        assert_eq!(look(&line(std::slice::from_ref(&other)), ours, &[]), None);
        assert_eq!(look(&line(&[other]), ours, &held), inside(5, Sign::Attempt));
        let later = one(5, &["x"], None, "");
        let later = Ancestor { who: Identity { pid: 5, start: 8 }, ..later };
        assert_eq!(look(&line(&[later]), ours, &held), None, "the same number, another process");
        let marked = one(5, &["x"], None, "A=1 FTL_ATTEMPT=abc.1");
        assert_eq!(look(&line(&[marked]), ours, &[]), inside(5, Sign::Mark));
        let similar = one(5, &["x"], None, "FTL_ATTEMPTS=1 XFTL_ATTEMPT=1");
        assert_eq!(look(&line(&[similar]), ours, &[]), None);
    }

    #[test]
    fn our_own_mark_counts_and_our_own_word_does_not() {
        let ours = Some(Path::new("/bin/ftl"));
        let marked = one(9, &["ftl"], None, "FTL_ATTEMPT=");
        assert_eq!(look(&[marked], ours, &[]), Some(Inside { pid: 9, by: Sign::Mark }));
        assert_eq!(look(&[ftl(9, guard::WORD, None)], ours, &[]), None);
        assert_eq!(look(&[], ours, &[]), None);
    }
}
