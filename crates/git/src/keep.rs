//! Keeping: everything that exists only in a worktree becomes a commit under `refs/ftl/kept/<id>/<n>`.
//!
//! Tracked and new files, ignored ones that are listed or that only the worktree's own rules ignore,
//! repositories inside, commits that no branch has, what was staged. Nothing in the worktree is changed
//! for it. Keeping the same again gives the same ref.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::branch::RunRecord;
use super::commit::{Making, message};
use super::error::At as _;
use super::lock::Held;
use super::probe::{self, below, zeroed};
use super::runner::Input;
use super::tree::{Survey, is_doubtful, unlock};
use super::unstorable::{Odds, let_read};
use super::worktree::{MAX_COPIED_BYTES, WorktreeRecord, points_to, remove_whole, says};
use super::{ErrorKind, GitError, Oid, Repo, WorktreeId, ledger};

/// The most kept refs of one worktree.
pub const MAX_KEPT_REFS: usize = 10_000;

/// The longest list of what happened to a worktree's HEAD that is read.
const MAX_REFLOG_BYTES: u64 = 16 * 1024 * 1024;

/// The most folders that git is asked about by name.
const MAX_FOLDERS_ASKED: usize = 1000;

/// Work that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWork {
    /// The worktree it was in; for a branch that a person moved, the run with `-branch`.
    pub id: WorktreeId,
    /// Which of that worktree's, beginning with 1.
    pub number: u64,
    /// The private ref that keeps the work.
    pub name: String,
    /// The commit that the ref names.
    pub commit: Oid,
    /// The commit that the work is compared with.
    pub base: Option<Oid>,
    /// When, in seconds since 1970.
    pub when: u64,
    /// The reason, in one sentence.
    pub why: String,
}

impl Repo {
    /// Keeps everything that exists only in a worktree; the ref, or none where nothing does.
    pub fn keep(&self, id: &WorktreeId, why: &str, when: u64) -> Result<Option<String>, GitError> {
        if !self.stands(id) {
            return self.keep_commits(id, why, when);
        }
        self.keep_from(id, &self.path_of(id), why, when)
    }

    /// The same for a worktree whose files are in that folder now.
    pub(super) fn keep_from(
        &self,
        id: &WorktreeId,
        folder: &Path,
        why: &str,
        when: u64,
    ) -> Result<Option<String>, GitError> {
        let held = self.hold_repository()?;
        let record = self.worktree_record(id)?;
        self.reading_again(id, &mut || {
            let (tree, special) = self.readable_tree(&record, folder)?;
            let note: Vec<String> =
                special.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            let note = if note.is_empty() { String::new() } else { format!("Without bytes: {note:?}\n") };
            self.keep_state(&record, &State { tree, note, why, when }, &held)
        })
    }

    /// A tree of everything in a folder. As another user than root, a file may be unreadable for its own owner.
    fn readable_tree(&self, record: &WorktreeRecord, folder: &Path) -> Result<(Oid, Vec<Vec<u8>>), GitError> {
        let is_other = |error: &GitError| !matches!(error.trouble, ErrorKind::Missing | ErrorKind::TooMuch);
        match self.whole_tree(record, folder) {
            Err(error) if is_other(&error) && !rustix::process::geteuid().is_root() => {
                let_read(folder)?;
                self.whole_tree(record, folder)
            }
            done => done,
        }
    }

    /// Keeps the commits of a worktree whose files are gone.
    pub(super) fn keep_commits(
        &self,
        id: &WorktreeId,
        why: &str,
        when: u64,
    ) -> Result<Option<String>, GitError> {
        let held = self.hold_repository()?;
        self.keep_commits_held(id, why, when, &held)
    }

    pub(super) fn keep_commits_held(
        &self,
        id: &WorktreeId,
        why: &str,
        when: u64,
        held: &Held,
    ) -> Result<Option<String>, GitError> {
        let Some(record) = ledger::read::<WorktreeRecord>(&self.worktree_file(id))? else { return Ok(None) };
        let tree = self.tree_of(&record.base)?;
        let note = String::from("The folder itself was gone.\n");
        self.keep_state(&record, &State { tree, note, why, when }, held)
    }

    fn keep_state(
        &self,
        record: &WorktreeRecord,
        state: &State<'_>,
        held: &Held,
    ) -> Result<Option<String>, GitError> {
        let id = &record.id;
        let tips = tips(&self.own_commits(id, &record.base)?);
        let base = self.tree_of(&record.base)?;
        let is_known = |tree: &Oid| *tree == base || record.landed.contains(tree);
        let known = is_known(&state.tree);
        let staged = match self.staged(id)? {
            Some(tree) if tree != state.tree && !is_known(&tree) => {
                let message = message(&format!("Staged in {id}"), &[("Ftl-Kept", id.as_str())]);
                Some(self.commit(&Making {
                    tree: &tree,
                    parents: &[&record.base],
                    message,
                    when: state.when,
                })?)
            }
            Some(_) | None => None,
        };
        if known && tips.is_empty() && staged.is_none() {
            return Ok(None);
        }
        let parents: Vec<&Oid> = [&record.base].into_iter().chain(&tips).chain(&staged).collect();
        let text = format!("Kept {id}: {}\n\n{}", one_line(state.why), state.note);
        let trailers = [("Ftl-Kept", id.as_str()), ("Ftl-Base", record.base.as_str())];
        let message = message(&text, &trailers);
        self.enter_kept(id, &Making { tree: &state.tree, parents: &parents, message, when: state.when }, held)
            .map(Some)
    }

    /// Puts a commit under the next kept ref, unless the last one holds the same.
    pub(super) fn enter_kept(
        &self,
        id: &WorktreeId,
        making: &Making<'_>,
        held: &Held,
    ) -> Result<String, GitError> {
        let last = self.kept_of(id)?.into_iter().last();
        if let Some(last) = &last {
            let ask = ["rev-parse", &format!("{}^{{tree}}", last.commit), &format!("{}^@", last.commit)];
            let out = self.run(self.about_objects().words(ask))?.out;
            let same: Vec<&str> = [making.tree.as_str()]
                .into_iter()
                .chain(making.parents.iter().map(|oid| oid.as_str()))
                .collect();
            if String::from_utf8_lossy(&out).split_whitespace().eq(same) {
                return Ok(last.name.clone());
            }
        }
        let number = last.map_or(1, |last| last.number + 1);
        if number > MAX_KEPT_REFS as u64 {
            let message = format!("worktree {id} was kept {MAX_KEPT_REFS} times already");
            return Err(GitError::new(ErrorKind::TooMuch, message));
        }
        let commit = self.commit(making)?;
        let name = format!("refs/ftl/kept/{id}/{number}");
        self.move_refs(&[(name.clone(), &commit, None)], held)?;
        self.make_durable(None)?;
        Ok(name)
    }

    /// Keeps what a run's branch was moved to by a person or another program.
    pub(super) fn keep_commit(&self, record: &RunRecord, foreign: &Oid) -> Result<(), GitError> {
        let held = self.hold_repository()?;
        let id: WorktreeId = format!("{}-branch", record.run).parse()?;
        let tree = self.tree_of(foreign)?;
        let text = format!("Kept {id}: the branch was moved by somebody else");
        let trailers = [("Ftl-Kept", id.as_str()), ("Ftl-Base", record.tip.as_str())];
        let when = ftl_folder::clock::wall() / 1000;
        let message = message(&text, &trailers);
        let parents = [&record.tip, foreign];
        self.enter_kept(&id, &Making { tree: &tree, parents: &parents, message, when }, &held).map(drop)
    }

    /// A tree of everything in a folder that exists only there, and what has no bytes.
    fn whole_tree(&self, record: &WorktreeRecord, folder: &Path) -> Result<(Oid, Vec<Vec<u8>>), GitError> {
        let id = &record.id;
        let index = self.private_dir.home().join("index").join(format!("{id}.keep"));
        let ours = self.index_file(id);
        let known = self.known_tree(&ours);
        let before = self.as_before(&ours, folder);
        // Nothing can be hidden where there is nothing else.
        let is_all_known = before.is_some() && self.is_all_known(&ours, folder);
        self.start_index(&ours, &index, &record.base)?;
        let mut survey = match before {
            Some(standing) => Survey { left_out: standing.left_out, ..Survey::default() },
            None => self.survey(&index, folder)?,
        };
        let mut odds = Odds::of(folder);
        let mut hidden = if is_all_known { Vec::new() } else { self.hidden(record, &index, folder)? };
        if record.has_landed {
            hidden.retain(|path| !is_unkept(path, &self.settings.unkept));
        }
        for path in hidden.into_iter().chain(self.changed_copies(&index, folder)?) {
            if path.ends_with(b"/") || is_doubtful(&path) {
                odds.add(folder, &path, &path)?;
            } else {
                survey.there.push(path);
            }
        }
        let settings = ["-c", "core.protectNTFS=false", "-c", "core.protectHFS=false"];
        self.take_up(&index, folder, &survey, &settings)?;
        for path in &survey.left_out {
            odds.add(folder, path, path)?;
        }
        // What git refuses it passes over in silence: it is still new then.
        if survey.there.iter().any(|path| is_doubtful(path)) {
            let refused: Survey = self.survey(&index, folder)?;
            refused.there.iter().try_for_each(|path| odds.add(folder, path, path))?;
        }
        self.add_metadata(id, folder, &mut odds)?;
        self.store_odd(&odds, &index, folder)?;
        let is_known = survey.there.is_empty() && survey.gone.is_empty() && odds.is_empty();
        let tree = match known.filter(|_| is_known) {
            Some(tree) => tree,
            None => self.write_tree(&index)?,
        };
        ftl_folder::remove(&index).at(&index)?;
        Ok((tree, odds.special))
    }

    /// The index to begin with: what is known already, or the base.
    fn start_index(&self, known: &Path, index: &Path, base: &Oid) -> Result<(), GitError> {
        unlock(index)?;
        match ftl_folder::copy(known, index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.read_tree(index, base),
            copied => copied.at(index),
        }
    }

    /// What is in `.git` where that is not what we made, and the objects of submodules.
    fn add_metadata(&self, id: &WorktreeId, folder: &Path, odds: &mut Odds) -> Result<(), GitError> {
        if says(&folder.join(".git")) != points_to(&self.admin(id)) {
            odds.add(folder, b".git", b".git")?;
        }
        odds.add(&self.admin(id), b"modules", b".git/worktree-modules")
    }

    /// Listed ignored files that are not as they are in the person's checkout.
    fn changed_copies(&self, index: &Path, folder: &Path) -> Result<Vec<Vec<u8>>, GitError> {
        if self.settings.copied.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.list_ignored(index, folder)?;
        let same = |path: &[u8]| {
            let (here, there) = (below(folder, path), below(&self.top, path));
            let read = |path: &Path| probe::read_file(path, MAX_COPIED_BYTES);
            matches!((read(&here), read(&there)), (Ok(one), Ok(other)) if one == other)
        };
        found.retain(|path| !same(path));
        Ok(found)
    }

    /// What the worktree's own rules ignore and those of its base do not: a rule that was written there
    /// must not hide work.
    fn hidden(&self, record: &WorktreeRecord, index: &Path, folder: &Path) -> Result<Vec<Vec<u8>>, GitError> {
        let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];
        let call = self.inside(index, folder).words(words).words(["--directory"]);
        let ignored = self.run(call)?.ok()?;
        if zeroed(&ignored).next().is_none() {
            return Ok(Vec::new());
        }
        let rules = self.base_rules(record)?;
        let hidden = self.not_ignored(&rules, &ignored)?;
        let (folders, mut files): (Vec<_>, Vec<_>) =
            hidden.into_iter().partition(|path| path.ends_with(b"/"));
        if !folders.is_empty() {
            // A folder is shown as ignored also where only each file in it is.
            let asked = if folders.len() > MAX_FOLDERS_ASKED { &[] } else { &folders[..] };
            let call = self.inside(index, folder).words(["--literal-pathspecs"]).words(words).words(["--"]);
            let inside = self.run(call.words(asked.iter().map(|path| probe::path(path))))?.ok()?;
            files.extend(self.not_ignored(&rules, &inside)?);
        }
        remove_whole(&rules)?;
        Ok(files)
    }

    /// A folder that holds the rules of a worktree's base, and nothing else.
    fn base_rules(&self, record: &WorktreeRecord) -> Result<PathBuf, GitError> {
        let index = self.private_dir.home().join("index").join(format!("{}.base", record.id));
        self.read_tree(&index, &record.base)?;
        let rules = self.private_dir.home().join("trash").join(format!("{}.rules", record.id));
        remove_whole(&rules)?;
        ftl_folder::make(&rules).at(&rules)?;
        let call = self.inside(&index, &rules).words(["ls-files", "-z", "--", ":(glob)**/.gitignore"]);
        let files = self.run(call)?.ok()?;
        let call = self.inside(&index, &rules).words(["checkout-index", "-f", "-q", "-z", "--stdin"]);
        self.run(call.input(Input::Bytes(files)))?.ok()?;
        ftl_folder::remove(&index).at(&index)?;
        Ok(rules)
    }

    /// Those of a list of paths that the rules in a folder do not ignore.
    fn not_ignored(&self, rules: &Path, paths: &[u8]) -> Result<Vec<Vec<u8>>, GitError> {
        // A folder is asked about through something in it: here it does not exist.
        let asked: Vec<Vec<u8>> = zeroed(paths)
            .map(|path| if path.ends_with(b"/") { [path, b"x"].concat() } else { path.to_vec() })
            .collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let index = self.private_dir.home().join("index").join("none");
        let call = self.inside(&index, rules).words(["check-ignore", "-z", "--stdin", "--no-index"]);
        let said = self.run(call.input(Input::Bytes(asked.join(&0))))?;
        // One says that none of them is ignored.
        let out = if said.code == 1 { Vec::new() } else { said.ok()? };
        let ignored: BTreeSet<&[u8]> = zeroed(&out).collect();
        let left = zeroed(paths).zip(&asked).filter(|(_, asked)| !ignored.contains(asked.as_slice()));
        Ok(left.map(|(path, _)| path.to_vec()).collect())
    }

    /// What is in the agent's own index, where that can be told.
    fn staged(&self, id: &WorktreeId) -> Result<Option<Oid>, GitError> {
        let theirs = self.admin(id).join("index");
        let found = ftl_folder::metadata(&theirs).ok().filter(Metadata::is_file);
        if found.is_none_or(|found| self.is_given(id, &found)) {
            return Ok(None);
        }
        let index = self.private_dir.home().join("index").join(format!("{id}.staged"));
        ftl_folder::copy(&theirs, &index).at(&theirs)?;
        let call = self.about_objects().var("GIT_INDEX_FILE", &index).words(["write-tree"]);
        let said = self.run(call)?;
        ftl_folder::remove(&index).at(&index)?;
        // In the middle of a merge an index is no tree; its objects are in the repository all the same.
        if said.code == 0 { Oid::read(&said.out).map(Some) } else { Ok(None) }
    }

    /// The commits that a worktree's HEAD was at, or is, and that are neither its base nor on the run's
    /// branch; each with its parents.
    pub(super) fn own_commits(&self, id: &WorktreeId, base: &Oid) -> Result<Vec<Vec<Oid>>, GitError> {
        let named = self.commits_named(id)?;
        if named.is_empty() || named.iter().all(|oid| oid == base) {
            return Ok(Vec::new());
        }
        let names: Vec<String> = named.iter().map(ToString::to_string).collect();
        let found = self.object_infos(&names)?.into_iter().flatten().filter(|info| info.kind == "commit");
        let mut ask: String = found.map(|info| format!("{}\n", info.oid)).collect();
        if ask.is_empty() {
            return Ok(Vec::new());
        }
        ask.push_str(&format!("^{base}\n"));
        if let Ok(record) = self.worktree_record(id).and_then(|record| self.record(&record.run)) {
            ask.push_str(&format!("^{}\n", record.tip));
        }
        let call = self.about_objects().words(["rev-list", "--parents", "--stdin"]);
        let out = self.run(call.input(Input::Bytes(ask.into_bytes())))?.ok()?;
        let text = String::from_utf8_lossy(&out).into_owned();
        text.lines().map(|line| line.split(' ').map(str::parse).collect()).collect()
    }

    /// Every object that git remembers for a worktree alone: where its HEAD is and was, what it merges.
    fn commits_named(&self, id: &WorktreeId) -> Result<BTreeSet<Oid>, GitError> {
        let admin = self.admin(id);
        let mut named = BTreeSet::new();
        for name in ftl_folder::names(&admin).at(&admin)? {
            if name.to_string_lossy().ends_with("HEAD") {
                let said = says(&admin.join(name));
                named.extend(String::from_utf8_lossy(&said).split_whitespace().flat_map(str::parse));
            }
        }
        if says(&admin.join("HEAD")).starts_with(b"ref: ") {
            named.extend(self.resolve_at(&admin, "HEAD")?);
        }
        let log = admin.join("logs").join("HEAD");
        let length = ftl_folder::metadata(&log).ok().filter(Metadata::is_file).map(|found| found.len());
        if length.is_some_and(|length| length > MAX_REFLOG_BYTES) {
            let message = format!("`{}` is larger than {MAX_REFLOG_BYTES} bytes", log.display());
            return Err(
                GitError::new(ErrorKind::TooMuch, message).hint("see with `git reflog` what it holds")
            );
        }
        if length.is_some() {
            let text = probe::read_file(&log, MAX_REFLOG_BYTES).at(&log)?;
            let lines = text.split(|byte| *byte == b'\n');
            let words = lines.flat_map(|line| line.split(|byte| *byte == b' ').take(2));
            named.extend(words.flat_map(Oid::read));
        }
        named.retain(|oid| oid.as_str().bytes().any(|digit| digit != b'0'));
        Ok(named)
    }

    /// What is kept of one worktree, the oldest first.
    pub(super) fn kept_of(&self, id: &WorktreeId) -> Result<Vec<KeptWork>, GitError> {
        self.kept_under(&format!("refs/ftl/kept/{id}/"))
    }

    /// The ref under which a worktree was kept last.
    pub(super) fn last_kept(&self, id: &WorktreeId) -> Result<Option<String>, GitError> {
        Ok(self.kept_of(id)?.pop().map(|kept| kept.name))
    }
}

/// What is to be kept, besides commits.
struct State<'a> {
    tree: Oid,
    note: String,
    why: &'a str,
    when: u64,
}

/// Whether a part of a path has one of these names; a star stands for any letters at one end.
fn is_unkept(path: &[u8], names: &[String]) -> bool {
    let path = String::from_utf8_lossy(path);
    let fits = |part: &str, name: &str| match (name.strip_prefix('*'), name.strip_suffix('*')) {
        (Some(end), _) => part.ends_with(end),
        (None, Some(begin)) => part.starts_with(begin),
        (None, None) => part == name,
    };
    path.split('/').filter(|part| !part.is_empty()).any(|part| names.iter().any(|name| fits(part, name)))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The commits that are no parent of another in a list of commits with their parents.
fn tips(commits: &[Vec<Oid>]) -> Vec<Oid> {
    let parents: BTreeSet<&Oid> = commits.iter().flat_map(|line| line.iter().skip(1)).collect();
    let tips = commits.iter().filter_map(|line| line.first()).filter(|oid| !parents.contains(oid));
    tips.cloned().collect()
}

impl Repo {
    /// Keeps some odd files of a worktree by themselves, on top of what is known of it.
    pub(super) fn keep_odds(&self, id: &WorktreeId, odds: &Odds, folder: &Path) -> Result<(), GitError> {
        let held = self.hold_repository()?;
        let record = self.worktree_record(id)?;
        let index = self.private_dir.home().join("index").join(format!("{id}.keep"));
        self.start_index(&self.index_file(id), &index, &record.base)?;
        self.store_odd(odds, &index, folder)?;
        let tree = self.write_tree(&index)?;
        ftl_folder::remove(&index).at(&index)?;
        let text = format!("Kept {id}: ignored files were in the way of what landed before");
        let trailers = [("Ftl-Kept", id.as_str()), ("Ftl-Base", record.base.as_str())];
        let when = ftl_folder::clock::wall() / 1000;
        let making =
            Making { tree: &tree, parents: &[&record.base], message: message(&text, &trailers), when };
        self.enter_kept(id, &making, &held).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_kept_are_whole_parts_of_a_path() {
        let names = [".venv", "*.pyc", ".cache*"].map(str::to_owned);
        let cases = [
            (".venv/lib/x.py", true),
            ("a/.venv/", true),
            ("a/b.pyc", true),
            (".cache-2/x", true),
            ("my.venv/x", false),
            ("venv/x", false),
            ("a/pyc", false),
        ];
        for (path, wanted) in cases {
            assert_eq!(is_unkept(path.as_bytes(), &names), wanted, "{path}");
        }
    }
}
