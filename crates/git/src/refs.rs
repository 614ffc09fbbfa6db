//! Refs: what they are, and moving them, all or none.
//!
//! Where refs are files, as they have always been, they are read here; everything else about them is asked of
//! git. They are moved by git alone, by one that stays for as long as it is needed: it moves what it was told
//! to move from where that was seen, or nothing. When we are killed its input ends, and what was not told to
//! the end is not done.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::batch_process::{Broken, Staying};
use super::error::unreadable;
use super::lock::Held;
use super::probe::read_file;
use super::runner::{Call, Runner};
use super::stale::Mark;
use super::worktree::says;
use super::{ErrorKind, GitError, Oid, Repo};
use ftl_process::table::Identity;

/// How many commits are read to find out whether one comes before another, until git is asked.
pub(super) const MAX_COMMITS_READ: usize = 64;

/// The largest commit that is read.
const MAX_COMMIT_BYTES: u64 = 1024 * 1024;

/// The largest list of packed refs that is read here.
const MAX_PACKED_BYTES: u64 = 64 * 1024 * 1024;

/// How often one ref may stand for another.
const MAX_NAMED_BY_NAME: usize = 5;

/// How often git is told one move, when another program is in its way.
const MAX_TOLD: usize = 4;

/// What the file of a ref says.
enum Plain {
    /// There is no such ref.
    None,
    Oid(Oid),
    /// It is for git to say.
    Unclear,
}

impl Repo {
    /// What a ref is; none where it is not.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        self.check_identity()?;
        match plain(&self.common, name) {
            Plain::Oid(oid) => return Ok(Some(oid)),
            Plain::None => return Ok(None),
            Plain::Unclear => {}
        }
        let asked = [name.to_owned()];
        let known = self.refs.info(&self.runner, &|| self.at_home(&self.common), &asked)?;
        match known.into_iter().next().flatten() {
            Some(info) => Ok(Some(info.oid)),
            // A ref to what is not there is a ref all the same.
            None if self.may_be(name) => self.resolve_at(&self.common, name),
            None => Ok(None),
        }
    }

    /// Whether there may be a ref of that name, or one below it. Where there is none, git need not be asked.
    pub(super) fn may_be(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        let is_loose = fs::symlink_metadata(self.common.join(name)).is_ok();
        if is_loose || !self.has_plain_refs() {
            return true;
        }
        match packed_refs(&self.common) {
            Ok(Some(bytes)) => bytes.windows(name.len()).any(|found| found == name.as_bytes()),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether refs are files, which git has always known.
    pub(super) fn has_plain_refs(&self) -> bool {
        has_plain_refs(&self.common)
    }

    pub(super) fn resolve_at(&self, git: &Path, name: &str) -> Result<Option<Oid>, GitError> {
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", name];
        let said = self.run(self.at_home(git).words(words))?;
        if said.code == 0 { Oid::read(&said.out).map(Some) } else { Ok(None) }
    }

    /// Moves refs, all or none, each only from where it was seen. Who moves refs shows a lock; a git that
    /// outlives us moves them from there as well, or not at all.
    pub(super) fn move_refs(
        &self,
        moves: &[(String, &Oid, Option<Oid>)],
        _held: &Held,
    ) -> Result<(), GitError> {
        self.check_identity()?;
        let nothing = self.private_dir.nothing();
        let mut text = b"start\0".to_vec();
        for (name, new, old) in moves {
            let old = old.as_ref().map_or(nothing.as_str(), Oid::as_str);
            text.extend_from_slice(format!("update {name}\0{new}\0{old}\0").as_bytes());
        }
        text.extend_from_slice(b"commit\0");
        let lines: Vec<String> = moves.iter().map(|(name, new, _)| format!("{name} {new}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        for last in (1..=MAX_TOLD).map(|time| time == MAX_TOLD) {
            self.give_all_objects()?;
            let Err(error) = self.tell_mover(&lines, &text) else { break };
            // In both cases nothing has moved.
            match self.lock_named_in(&error) {
                Some(lock) if !last => self.await_lock(&lock)?,
                // A prune runs this very moment; what is ours is still here.
                None if error.trouble == ErrorKind::Missing && !last => {}
                Some(_) | None => return Err(hinted(error)),
            }
        }
        // A prune that has looked at the refs before they moved takes away what they name now.
        self.give_all_objects().map(drop)
    }

    /// Has one transaction carried out by the git that stays.
    fn tell_mover(&self, lines: &[&str], transaction: &[u8]) -> Result<(), GitError> {
        self.runner.step("git update-ref")?;
        let mut staying = self.mover.staying.lock().unwrap_or_else(PoisonError::into_inner);
        let before = staying.take().and_then(|mut git| git.is_there().then_some(git));
        let git = match before {
            Some(git) => git,
            None => self.start_mover()?,
        };
        let who = i32::try_from(git.child.id()).ok().and_then(Identity::of);
        let mark = who.map(|who| Mark::leave(&self.marks_folder(), who, lines)).transpose()?;
        let (done, is_clean) = match carried(&self.runner, git, transaction) {
            Ok(git) => {
                *staying = Some(git);
                (Ok(()), true)
            }
            Err((error, is_clean)) => (Err(error), is_clean),
        };
        // One that failed by itself has taken its locks away; of one that was ended the mark stays.
        mark.filter(|_| is_clean).map_or(Ok(()), Mark::remove)?;
        done
    }

    /// Starts a git that moves refs; what a dead one has left is removed first.
    fn start_mover(&self) -> Result<Staying, GitError> {
        self.clear_dead_locks()?;
        Staying::start(&self.runner, "update-ref", &self.moving())
    }

    fn moving(&self) -> Call<'static> {
        let words = ["update-ref", "-z", "--no-deref", "--create-reflog", "-m", "ftl", "--stdin"];
        self.at_home(&self.common).words(words)
    }

    /// Starts the git that will move refs.
    pub(super) fn get_mover_ready(&self) {
        let mut staying = self.mover.staying.lock().unwrap_or_else(PoisonError::into_inner);
        if staying.is_none() {
            *staying = self.start_mover().ok();
        }
    }

    /// Whether one commit comes before another, or is the same.
    pub(super) fn is_ancestor(&self, old: &Oid, new: &Oid) -> Result<bool, GitError> {
        if let Some(comes_before) = self.comes_before(old, new) {
            return Ok(comes_before);
        }
        let words = ["merge-base", "--is-ancestor", old.as_str(), new.as_str()];
        let said = self.run(self.about_objects().words(words))?;
        match said.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(said.error()),
        }
    }

    /// The same, where reading a few commits tells.
    fn comes_before(&self, old: &Oid, new: &Oid) -> Option<bool> {
        let mut seen = BTreeSet::new();
        let mut next = VecDeque::from([new.clone()]);
        while let Some(oid) = next.pop_front() {
            if oid == *old {
                return Some(true);
            }
            if seen.contains(&oid) {
                continue;
            }
            if seen.len() == MAX_COMMITS_READ {
                return None;
            }
            let (info, bytes) = self.object(&oid, MAX_COMMIT_BYTES).ok()??;
            if info.kind != "commit" {
                return None;
            }
            next.extend(parents(&bytes));
            seen.insert(oid);
        }
        Some(false)
    }
}

/// What to do when refs cannot be moved.
fn hinted(error: GitError) -> GitError {
    if error.hint.is_some() {
        return error;
    }
    error.hint("a branch called `ftl` is in the way of branches `ftl/…`; see also `git show-ref`")
}

fn has_plain_refs(common: &Path) -> bool {
    !common.join("reftable").exists()
}

/// What is checked out in a git folder, where that is plain to see.
pub(super) fn head(own: &Path, common: &Path) -> Option<Oid> {
    let said = says(&own.join("HEAD"));
    match said.strip_prefix(b"ref: ").map(std::str::from_utf8) {
        Some(Ok(name)) => match plain(common, name.trim()) {
            Plain::Oid(oid) => Some(oid),
            Plain::None | Plain::Unclear => None,
        },
        Some(Err(_)) => None,
        None => Oid::read(&said).ok(),
    }
}

/// What the files of a repository say about a ref.
fn plain(common: &Path, name: &str) -> Plain {
    let mut name = name.to_owned();
    for _ in 0..MAX_NAMED_BY_NAME {
        if !has_plain_refs(common) || !is_whole(&name) {
            return Plain::Unclear;
        }
        // A git that packs refs writes the list before the files go.
        match fs::symlink_metadata(common.join(&name)) {
            Ok(found) if found.is_file() => {}
            Ok(found) if found.is_dir() => return packed(common, &name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return packed(common, &name),
            Ok(_) | Err(_) => return Plain::Unclear,
        }
        let said = says(&common.join(&name));
        if let Ok(oid) = Oid::read(&said) {
            return Plain::Oid(oid);
        }
        let other = said.strip_prefix(b"ref: ").and_then(|other| std::str::from_utf8(other).ok());
        let Some(other) = other else { return Plain::Unclear };
        name = other.trim().to_owned();
    }
    Plain::Unclear
}

/// The list of packed refs; nothing where there is none. Whatever is no file is not opened: it could be a pipe.
fn packed_refs(common: &Path) -> io::Result<Option<Vec<u8>>> {
    match read_file(&common.join("packed-refs"), MAX_PACKED_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// What the list of packed refs says about a ref.
fn packed(common: &Path, name: &str) -> Plain {
    let bytes = match packed_refs(common) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Plain::None,
        Err(_) => return Plain::Unclear,
    };
    let is_it = |line: &&[u8]| line.strip_suffix(name.as_bytes()).is_some_and(|rest| rest.ends_with(b" "));
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
    match lines.find(is_it).map(|line| Oid::read(&line[..line.len() - name.len()])) {
        None => Plain::None,
        Some(Ok(oid)) => Plain::Oid(oid),
        Some(Err(_)) => Plain::Unclear,
    }
}

/// Whether a name is the whole name of a ref that a file can have.
fn is_whole(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_letter = |byte: u8| byte > b' ' && byte != 0x7f;
    name == "HEAD"
        || (name.starts_with("refs/") && name.split('/').all(is_plain) && name.bytes().all(is_letter))
}

/// The parents that the bytes of a commit name.
fn parents(bytes: &[u8]) -> Vec<Oid> {
    let head = bytes.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    head.filter_map(|line| Oid::read(line.strip_prefix(b"parent ")?).ok()).collect()
}

/// The git that moves refs; started with the first move.
#[derive(Default)]
pub(super) struct Mover {
    staying: Mutex<Option<Staying>>,
}

/// Has a git carry out a transaction; the git, where it can be told another one. With an error comes whether it went
/// away by itself.
fn carried(runner: &Runner, mut git: Staying, transaction: &[u8]) -> Result<Staying, (GitError, bool)> {
    match run_transaction(&mut git, transaction) {
        Ok(()) => Ok(git),
        Err(Broken::Said(error)) => Err((error, false)),
        Err(Broken::Lost(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err((runner.too_slow("update-ref"), false))
        }
        Err(Broken::Lost(error)) => Err(git.last_words_and_end(&error)),
    }
}

/// Tells a git a transaction and hears that it was carried out.
fn run_transaction(git: &mut Staying, transaction: &[u8]) -> Result<(), Broken> {
    // One that has failed does not read any more, and says why all the same.
    let said = git.say(transaction);
    for wanted in [b"start: ok".as_slice(), b"commit: ok"] {
        let line = git.line()?;
        if line != wanted {
            return Err(unreadable(&line).into());
        }
    }
    Ok(said?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Person, Settings};
    use ftl_folder::state_folder::StateFolder;
    use ftl_needs::needs;
    use ftl_process::Cancel;
    use std::process::Command;

    struct Scratch {
        folder: tempfile::TempDir,
        repo: Repo,
    }

    impl Scratch {
        fn new(words: &[&str]) -> Scratch {
            let folder = tempfile::tempdir().unwrap();
            git(folder.path(), &[&["init", "-q", "-b", "main"], words].concat());
            git(folder.path(), &["commit", "-q", "--allow-empty", "-m", "1"]);
            let person = Person { name: String::from("A"), email: String::from("a@b") };
            let settings = Settings { home: None, config: None, ..Settings::of(person) };
            let repo = Repo::open(&StateFolder::at(folder.path().to_owned()), settings).unwrap();
            Scratch { folder, repo }
        }

        fn git(&self, words: &[&str]) -> String {
            git(self.folder.path(), words)
        }

        fn commit(&self, message: &str) -> Oid {
            self.git(&["commit", "-q", "--allow-empty", "-m", message]);
            self.git(&["rev-parse", "HEAD"]).parse().unwrap()
        }

        /// What a ref is: as we read it, which must be as git says it.
        fn resolve(&self, name: &str) -> Option<Oid> {
            let found = self.repo.resolve(name).unwrap();
            let out = command(self.folder.path(), &["rev-parse", "--verify", "-q", name]).output().unwrap();
            let said = out.status.success().then(|| Oid::read(&out.stdout).unwrap());
            assert_eq!(found, said, "{name}");
            found
        }

        fn held_transaction(&self) -> Held {
            self.repo.hold("test", &Cancel::new()).unwrap()
        }
    }

    fn git(folder: &Path, words: &[&str]) -> String {
        let out = command(folder, words).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    fn command(folder: &Path, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(folder);
        command.args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(words);
        command
    }

    #[test]
    fn refs_are_what_git_says_they_are() {
        are_refs_what_git_says(&[]);
    }

    #[needs(sha256)]
    #[test]
    fn refs_of_long_names_are_what_git_says_they_are() {
        are_refs_what_git_says(&["--object-format=sha256"]);
    }

    #[needs(reftable)]
    #[test]
    fn refs_in_tables_are_what_git_says_they_are() {
        are_refs_what_git_says(&["--ref-format=reftable"]);
    }

    fn are_refs_what_git_says(words: &[&str]) {
        let scratch = Scratch::new(words);
        for branch in ["a", "a-b", "deep/er/c", "xa"] {
            scratch.commit(branch);
            scratch.git(&["branch", branch]);
        }
        scratch.git(&["tag", "-a", "-m", "t", "v1"]);
        scratch.git(&["symbolic-ref", "refs/heads/other", "refs/heads/deep/er/c"]);
        scratch.git(&["symbolic-ref", "refs/heads/nowhere", "refs/heads/none"]);
        let names = [
            "HEAD",
            "refs/heads/a",
            "refs/heads/a-b",
            "refs/heads/deep/er/c",
            "refs/heads/xa",
            "refs/tags/v1",
        ];
        let others =
            ["refs/heads/other", "refs/heads/nowhere", "refs/heads/deep", "refs/heads/none", "refs/a"];
        let look = || names.iter().chain(&others).map(|name| scratch.resolve(name)).collect::<Vec<_>>();
        let loose = look();
        assert!(loose[..names.len()].iter().all(Option::is_some));
        scratch.git(&["pack-refs", "--all"]);
        assert_eq!(look(), loose, "packed");
        scratch.git(&["branch", "-f", "a", "main"]);
        assert_eq!(look()[1], loose[0], "what is loose wins");
        let found = head(&scratch.repo.own, &scratch.repo.common);
        assert_eq!(found.is_some(), scratch.repo.has_plain_refs());
        assert_eq!(crate::has_commit(scratch.folder.path()), found.is_some());
        for odd in ["refs/heads/../heads/a", "refs//heads/a", "refs/heads/a.lock", "refs/heads/a b"] {
            assert!(!is_whole(odd), "{odd}");
        }
    }

    #[test]
    fn all_refs_move_or_none_and_a_git_that_failed_is_followed_by_another() {
        let scratch = Scratch::new(&[]);
        let (one, two) = (scratch.commit("one"), scratch.commit("two"));
        let (held, name) = (scratch.held_transaction(), |name: &str| format!("refs/ftl/test/{name}"));
        let go = |moves: &[(&str, &Oid, Option<&Oid>)]| {
            let moves: Vec<_> = moves.iter().map(|(at, new, old)| (name(at), *new, old.cloned())).collect();
            scratch.repo.move_refs(&moves, &held)
        };
        let pid = || scratch.repo.mover.staying.lock().unwrap().as_ref().map(|git| git.child.id());
        go(&[("a", &one, None), ("b", &one, None)]).unwrap();
        let first = pid().unwrap();
        go(&[("a", &two, Some(&one))]).unwrap();
        assert_eq!(pid(), Some(first), "it stays");
        let wrong = go(&[("b", &two, Some(&one)), ("a", &one, Some(&one))]).unwrap_err();
        assert!(wrong.to_string().contains("refs/ftl/test/a"), "{wrong}");
        assert_eq!(
            (scratch.resolve(&name("a")), scratch.resolve(&name("b"))),
            (Some(two.clone()), Some(one.clone()))
        );
        go(&[("b", &two, Some(&one))]).unwrap();
        let second = pid().unwrap();
        assert_ne!(second, first);
        // The git that stays is killed between two questions.
        let mut staying = scratch.repo.mover.staying.lock().unwrap();
        let child = &mut staying.as_mut().unwrap().child;
        child.kill().unwrap();
        child.wait().unwrap();
        drop(staying);
        go(&[("b", &one, Some(&two))]).unwrap();
        assert_eq!(scratch.resolve(&name("b")), Some(one.clone()));
        assert_eq!(scratch.git(&["reflog", "show", "--format=%H", "refs/ftl/test/b"]).lines().count(), 3);
        // A file where a folder must be is git's to refuse.
        assert!(go(&[("a/below", &one, None)]).is_err());
    }

    #[test]
    fn a_dead_mover_s_lock_goes_and_somebody_else_s_is_named() {
        is_a_dead_lock_gone(&[], "refs/ftl/test/a.lock");
    }

    #[needs(reftable)]
    #[test]
    fn a_dead_mover_s_lock_of_tables_goes_and_somebody_else_s_is_named() {
        is_a_dead_lock_gone(&["--ref-format=reftable"], "reftable/tables.list.lock");
    }

    fn is_a_dead_lock_gone(words: &[&str], lock: &str) {
        let scratch = Scratch::new(words);
        let one = scratch.commit("one");
        let held = scratch.held_transaction();
        let go = |name: &str| scratch.repo.move_refs(&[(format!("refs/ftl/test/{name}"), &one, None)], &held);
        go("first").unwrap();
        let lock = scratch.repo.common.join(lock);
        fs::write(&lock, "").unwrap();
        let said = go("a").unwrap_err();
        assert!(said.message.contains(&lock.display().to_string()) && said.hint.is_some(), "{said}");
        assert!(lock.exists(), "it may be somebody's");
        let marks = scratch.repo.marks_folder();
        assert_eq!(fs::read_dir(&marks).unwrap().count(), 0, "a git that failed leaves no mark");
        fs::remove_file(&lock).unwrap();
        // A mover marks what it moves first, and is killed over its lock then.
        fs::write(marks.join("1.1.of-another-start"), "refs/ftl/test/a").unwrap();
        fs::write(&lock, "").unwrap();
        go("a").unwrap();
        assert!(!lock.exists() && fs::read_dir(&marks).unwrap().count() == 0);
    }

    #[test]
    fn what_comes_before_what_is_read_from_a_few_commits_and_asked_of_git_beyond() {
        let scratch = Scratch::new(&[]);
        let root: Oid = scratch.git(&["rev-parse", "HEAD"]).parse().unwrap();
        scratch.git(&["checkout", "-q", "-b", "side"]);
        let side = scratch.commit("side");
        scratch.git(&["checkout", "-q", "main"]);
        let near = scratch.commit("near");
        scratch.git(&["merge", "-q", "--no-ff", "-m", "merged", "side"]);
        let merged: Oid = scratch.git(&["rev-parse", "HEAD"]).parse().unwrap();
        let comes = |old: &Oid, new: &Oid| {
            let found = scratch.repo.is_ancestor(old, new).unwrap();
            let out =
                command(scratch.folder.path(), &["merge-base", "--is-ancestor", old.as_str(), new.as_str()]);
            let mut out = out;
            assert_eq!(found, out.status().unwrap().success());
            found
        };
        assert!(
            comes(&root, &merged) && comes(&side, &merged) && comes(&near, &merged) && comes(&near, &near)
        );
        assert!(!comes(&side, &near) && !comes(&merged, &root));
        assert_eq!(scratch.repo.comes_before(&side, &near), Some(false), "all of a short history was read");
        let mut last = merged;
        for at in 0..MAX_COMMITS_READ {
            last = scratch.commit(&at.to_string());
        }
        assert_eq!(scratch.repo.comes_before(&root, &last), None, "that is git's to say");
        assert!(comes(&root, &last) && !comes(&last, &root));
        // A commit that says too much is read by git alone.
        let long = scratch.folder.path().join("long");
        fs::write(&long, "x".repeat(usize::try_from(MAX_COMMIT_BYTES).unwrap())).unwrap();
        scratch.git(&["commit", "-q", "--allow-empty", "-F", "long"]);
        let long: Oid = scratch.git(&["rev-parse", "HEAD"]).parse().unwrap();
        assert_eq!(scratch.repo.comes_before(&last, &long), None);
        assert!(comes(&last, &long));
        let nobody: Oid = "1".repeat(40).parse().unwrap();
        assert!(scratch.repo.is_ancestor(&nobody, &nobody).is_ok_and(|same| same));
        assert!(scratch.repo.is_ancestor(&root, &nobody).is_err());
    }

    #[test]
    fn a_list_of_refs_that_is_too_long_is_left_to_git() {
        let scratch = Scratch::new(&[]);
        scratch.git(&["pack-refs", "--all"]);
        let file = scratch.repo.common.join("packed-refs");
        let packed = |name: &str| packed(&scratch.repo.common, name);
        assert!(matches!(packed("refs/heads/main"), Plain::Oid(_)));
        assert!(matches!(packed("heads/main"), Plain::None));
        fs::File::options().write(true).open(&file).unwrap().set_len(MAX_PACKED_BYTES + 1).unwrap();
        assert!(matches!(packed("refs/heads/main"), Plain::Unclear));
        let around = scratch.repo.common.join("refs/heads");
        for (one, other) in [("x1", "x2"), ("x2", "x1")] {
            fs::write(around.join(one), format!("ref: refs/heads/{other}\n")).unwrap();
        }
        assert!(matches!(plain(&scratch.repo.common, "refs/heads/x1"), Plain::Unclear), "round and round");
    }
}
