//! A git that answers about objects and refs for as long as it is needed: starting one for each question
//! takes longer than the answer.
//!
//! It only ever reads. What it is asked has passed the same checks as a call.

use std::io::{self, Read as _};
use std::sync::{Mutex, PoisonError};

use super::batch_process::{Broken, Staying};
use super::error::unreadable;
use super::runner::{Call, Runner};
use super::{ErrorKind, GitError, Oid};

/// How many questions are asked before their answers are read: both fit into a pipe.
const MAX_ASKED: usize = 256;

/// How often a question is asked: a git that was ended in between is started again once.
const MAX_TRIES: usize = 2;

/// What is known about an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) oid: Oid,
    pub(super) kind: String,
    pub(super) size: u64,
}

/// Answers about objects; started with the first question.
#[derive(Default)]
pub(super) struct Reader {
    serving: Mutex<Option<Staying>>,
}

impl Reader {
    /// What is known about objects, in their order; nothing where there is no such object.
    pub(super) fn info(
        &self,
        runner: &Runner,
        call: &dyn Fn() -> Call<'static>,
        names: &[String],
    ) -> Result<Vec<Option<Info>>, GitError> {
        // A question is a line: what has a white space in it is the name of nothing.
        let is_name =
            |name: &String| !name.is_empty() && name.bytes().all(|byte| byte > b' ' && byte != 0x7f);
        self.ask(runner, call, |git| {
            let mut found = Vec::with_capacity(names.len());
            for some in names.chunks(MAX_ASKED) {
                let asked = some.iter().filter(|name| is_name(name));
                git.say(asked.map(|name| format!("info {name}\n")).collect::<String>().as_bytes())?;
                for name in some {
                    found.push(if is_name(name) { head(git)? } else { None });
                }
            }
            Ok(found)
        })
    }

    /// The bytes of an object of so many at most, with what is known about it; nothing where there is no such
    /// object.
    pub(super) fn contents(
        &self,
        runner: &Runner,
        call: &dyn Fn() -> Call<'static>,
        (oid, most): (&Oid, u64),
    ) -> Result<Option<(Info, Vec<u8>)>, GitError> {
        self.ask(runner, call, |git| {
            git.say(format!("contents {oid}\n").as_bytes())?;
            let Some(info) = head(git)? else { return Ok(None) };
            if info.size > most {
                let message = format!("object {} has {} bytes; {most} is the most", oid.short(), info.size);
                return Err(Broken::Said(GitError::new(ErrorKind::TooMuch, message)));
            }
            let mut bytes = Vec::new();
            git.from.by_ref().take(info.size).read_to_end(&mut bytes)?;
            let mut end = [0];
            git.from.read_exact(&mut end)?;
            if bytes.len() as u64 != info.size || end != [b'\n'] {
                return Err(Broken::Said(unreadable(&end)));
            }
            Ok(Some((info, bytes)))
        })
    }

    /// Starts the git that will be asked.
    pub(super) fn get_ready(&self, runner: &Runner, call: &dyn Fn() -> Call<'static>) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if serving.is_none() {
            *serving = start(runner, call).ok();
        }
    }

    /// Asks; a git that cannot be talked to any more is ended, and the next one is asked once.
    fn ask<T>(
        &self,
        runner: &Runner,
        call: &dyn Fn() -> Call<'static>,
        mut talk: impl FnMut(&mut Staying) -> Result<T, Broken>,
    ) -> Result<T, GitError> {
        runner.step("git cat-file")?;
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let mut git = match serving.take() {
                Some(git) => git,
                None => start(runner, call)?,
            };
            match talk(&mut git) {
                Ok(answer) => {
                    *serving = Some(git);
                    return Ok(answer);
                }
                Err(Broken::Said(error)) => return Err(error),
                Err(Broken::Lost(error)) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(runner.too_slow("cat-file"));
                }
                Err(Broken::Lost(error)) => last = Some(git.last_words(&error)),
            }
        }
        Err(last.unwrap_or_else(|| GitError::new(ErrorKind::Git, "`git cat-file` was lost")))
    }
}

fn start(runner: &Runner, call: &dyn Fn() -> Call<'static>) -> Result<Staying, GitError> {
    Staying::start(runner, "cat-file", &call().words(["cat-file", "--batch-command"]))
}

/// The line that comes before the bytes of an object: its name, its kind and its size.
fn head(git: &mut Staying) -> Result<Option<Info>, Broken> {
    let line = git.line()?;
    if line.ends_with(b" missing") {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&line).into_owned();
    let parts: Vec<&str> = text.split(' ').collect();
    let [oid, kind, size] = parts[..] else { return Err(unreadable(&line).into()) };
    let size = size.parse().map_err(|_| unreadable(&line))?;
    Ok(Some(Info { oid: oid.parse()?, kind: kind.to_owned(), size }))
}

#[cfg(test)]
mod tests {
    use super::super::batch_process::MAX_LINE_BYTES;
    use super::*;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    struct Scratch {
        folder: tempfile::TempDir,
        runner: Runner,
        reader: Reader,
    }

    impl Scratch {
        fn new() -> Scratch {
            let folder = tempfile::tempdir().unwrap();
            let runner = Runner::find(Path::new("/nowhere")).unwrap();
            runner.run(Call::new(folder.path()).words(["init", "-q", "--bare"])).unwrap().ok().unwrap();
            Scratch { folder, runner, reader: Reader::default() }
        }

        fn blob(&self, bytes: &[u8]) -> Oid {
            let input = super::super::runner::Input::Bytes(bytes.to_vec());
            let call = Call::new(self.folder.path()).words(["hash-object", "-w", "--stdin"]).input(input);
            Oid::read(&self.runner.run(call).unwrap().ok().unwrap()).unwrap()
        }

        fn call(&self) -> impl Fn() -> Call<'static> + use<> {
            let folder: PathBuf = self.folder.path().to_owned();
            move || Call::new(&folder)
        }

        fn contents(&self, oid: &Oid) -> Result<Option<(Info, Vec<u8>)>, GitError> {
            self.reader.contents(&self.runner, &self.call(), (oid, 1 << 20))
        }

        fn info(&self, names: &[String]) -> Vec<Option<Info>> {
            self.reader.info(&self.runner, &self.call(), names).unwrap()
        }

        fn pid(&self) -> u32 {
            self.reader.serving.lock().unwrap().as_ref().unwrap().child.id()
        }
    }

    #[test]
    fn one_git_answers_all_questions_and_sees_what_is_new() {
        let scratch = Scratch::new();
        let empty = scratch.blob(b"");
        assert_eq!(scratch.contents(&empty).unwrap().unwrap().1, b"");
        let pid = scratch.pid();
        let large = scratch.blob(&vec![b'\n'; 300_000]);
        assert_eq!(scratch.contents(&large).unwrap().unwrap().1.len(), 300_000);
        let few = scratch.reader.contents(&scratch.runner, &scratch.call(), (&large, 299_999));
        assert_eq!(few.err().unwrap().trouble, ErrorKind::TooMuch);
        assert_eq!(scratch.contents(&empty).unwrap().unwrap().1, b"", "the next one is asked");
        let pid = (scratch.pid() != pid).then(|| scratch.pid()).unwrap();
        let nobody: Oid = "1".repeat(40).parse().unwrap();
        assert!(scratch.contents(&nobody).unwrap().is_none());
        // More than fit into a pipe, so that a program which writes all before it reads would wait for ever.
        let many: Vec<String> =
            (0..20_000).map(|at| if at % 2 == 0 { &large } else { &nobody }.to_string()).collect();
        let found = scratch.info(&many);
        assert_eq!(found.iter().flatten().map(|info| info.size).sum::<u64>(), 10_000 * 300_000);
        assert_eq!((found[0].as_ref().unwrap().kind.as_str(), &found[1]), ("blob", &None));
        let odd = ["", "a b", "HEAD\ncontents HEAD", "refs/heads/none"].map(str::to_owned);
        assert_eq!(scratch.info(&odd), [None, None, None, None], "no name is taken for a question");
        assert_eq!(scratch.pid(), pid, "one git was enough");
        let long = "x".repeat(usize::try_from(MAX_LINE_BYTES).unwrap());
        let said = scratch.reader.info(&scratch.runner, &scratch.call(), &[long]);
        assert_eq!(said.err().unwrap().trouble, ErrorKind::Git, "a line has an end");
    }

    #[test]
    fn a_git_that_was_ended_is_started_again_and_a_slow_one_is_ended() {
        let scratch = Scratch::new();
        let blob = scratch.blob(b"x");
        assert!(scratch.contents(&blob).unwrap().is_some());
        scratch.reader.serving.lock().unwrap().as_mut().unwrap().child.kill().unwrap();
        assert!(scratch.contents(&blob).unwrap().is_some());
        let mut serving = scratch.reader.serving.lock().unwrap();
        let git = serving.as_mut().unwrap();
        git.from.get_mut().limit = Duration::from_millis(20);
        drop(serving);
        // It answers nothing to half a question.
        let slow = scratch.reader.ask(&scratch.runner, &scratch.call(), |git| {
            git.say(b"contents")?;
            Ok(head(git)?.is_some())
        });
        assert_eq!(slow.err().unwrap().trouble, ErrorKind::TimedOut);
        assert!(scratch.contents(&blob).unwrap().is_some(), "the next one answers");
    }

    #[test]
    fn a_damaged_object_is_never_taken_for_a_sound_one() {
        let scratch = Scratch::new();
        let blob = scratch.blob(b"precious");
        let (first, rest) = blob.as_str().split_at(2);
        let file = scratch.folder.path().join("objects").join(first).join(rest);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "").unwrap();
        let said = scratch.contents(&blob);
        assert!(!matches!(said, Ok(Some(_))), "{said:?}");
    }
}
