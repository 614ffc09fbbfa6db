//! Whether a file of the person's checkout was written there, or came out of a commit.
//!
//! A file is a commit's where git tracks it and it is what a checkout of HEAD puts there. What a checkout may change
//! on the way, ends of lines and `$Id$`, is taken off both sides before they are compared: a repository chooses that
//! itself by its attributes, and what it can make look changed in a fresh clone must not count as written by a person.
//! Nothing that attributes name is run; in doubt a file is a commit's.

use std::fs;
use std::path::Path;

use super::ask::ask;
use super::person_checkout::IN_PROGRESS;
use super::{ErrorKind, GitError, find};

/// Where a file in the person's checkout came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// Somebody wrote it here: git does not track it, or it differs from HEAD.
    Checkout,
    /// It came with a commit.
    Commit,
}

/// Attributes that have a program or a table of letters change a file on its way out of a commit.
const CONVERSIONS: [&str; 2] = ["filter", "working-tree-encoding"];

/// Where a file came from, by its path and what it holds.
pub fn source_of(file: &Path, bytes: &[u8]) -> Result<FileSource, GitError> {
    let Some((folder, name)) = file.parent().zip(file.file_name()) else { return Ok(FileSource::Commit) };
    let Ok(folder) = folder.canonicalize() else { return Ok(FileSource::Commit) };
    // What a link leads to changes with a commit while the link stays.
    let is_link = fs::symlink_metadata(folder.join(name)).is_ok_and(|found| found.is_symlink());
    let (top, own) = match find(&folder) {
        Ok((top, own, _)) => (top, own),
        Err(error) if error.trouble == ErrorKind::NoRepository => return Ok(FileSource::Checkout),
        Err(error) => return Err(error),
    };
    let path = folder.strip_prefix(&top).unwrap_or(Path::new("")).join(name);
    let Some(path) = path.to_str() else { return Ok(FileSource::Commit) };
    let blob = blob_of_head(&top, path)?;
    let listed = printed(&top, &["ls-files", "-z", "--", &format!(":(top,literal){path}")])?;
    let is_tracked = blob.is_some() || !listed.is_empty();
    if is_link || (is_tracked && IN_PROGRESS.iter().any(|(mark, _)| own.join(mark).exists())) {
        return Ok(FileSource::Commit);
    }
    let Some(blob) = blob else { return Ok(FileSource::Checkout) };
    if is_converted(&top, path)? {
        return Ok(FileSource::Commit);
    }
    let committed = printed(&top, &["cat-file", "blob", &blob])?;
    Ok(if plain(&committed) == plain(bytes) { FileSource::Commit } else { FileSource::Checkout })
}

/// The object of a path in HEAD; nothing where HEAD does not have it, or there is no commit yet.
fn blob_of_head(top: &Path, path: &str) -> Result<Option<String>, GitError> {
    if !ask(top, &["rev-parse", "-q", "--verify", "HEAD^{commit}"])?.is_ok {
        return Ok(None);
    }
    let listed = printed(top, &["ls-tree", "-z", "--full-tree", "HEAD", "--", path])?;
    let text = String::from_utf8_lossy(&listed);
    Ok(text.split_whitespace().nth(2).map(str::to_owned))
}

/// Whether a checkout of the path may change more of it than ends of lines and `$Id$`.
fn is_converted(top: &Path, path: &str) -> Result<bool, GitError> {
    let words: Vec<&str> = ["check-attr", "-z"].into_iter().chain(CONVERSIONS).chain(["--", path]).collect();
    let said = printed(top, &words)?;
    let mut values = said.split(|byte| *byte == 0).skip(2).step_by(3);
    Ok(values.any(|value| !value.is_empty() && value != b"unspecified" && value != b"unset"))
}

fn printed(top: &Path, words: &[&str]) -> Result<Vec<u8>, GitError> {
    let answer = ask(top, words)?;
    if answer.is_ok && !answer.is_cut {
        return Ok(answer.out);
    }
    Err(GitError::new(ErrorKind::Git, format!("`git {}` failed: {}", words[0], answer.said.trim())))
}

/// The bytes without what a checkout puts in by itself: the ends of lines that it chooses, and what stands in `$Id$`.
fn plain(bytes: &[u8]) -> Vec<u8> {
    let joined: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != b'\r').collect();
    let mut rest = joined.as_slice();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(first) = rest.first() {
        let behind = rest.strip_prefix(b"$Id:");
        let end = behind.and_then(|behind| behind.iter().position(|byte| matches!(byte, b'$' | b'\n')));
        match behind.zip(end).filter(|(behind, end)| behind[*end] == b'$') {
            Some((behind, end)) => {
                out.extend_from_slice(b"$Id$");
                rest = &behind[end + 1..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository in which `x` was committed and checked out, and what then became of it.
    fn source_after(commit: &str, attributes: &str, then: &dyn Fn(&Path)) -> FileSource {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        let git = |words: &[&str]| {
            let said = ask(top, words).unwrap();
            assert!(said.is_ok, "{words:?}: {said:?}");
        };
        git(&["init", "-q"]);
        git(&["config", "user.name", "a"]);
        git(&["config", "user.email", "a@b"]);
        fs::write(top.join("x"), commit).unwrap();
        fs::write(top.join(".gitattributes"), attributes).unwrap();
        // What is committed is what stands there, whatever the attributes would make of it.
        let said = ask(top, &["hash-object", "-w", "--no-filters", "x"]).unwrap();
        let blob = said.text().unwrap();
        git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},x")]);
        git(&["add", ".gitattributes"]);
        git(&["commit", "-qm", "x"]);
        fs::remove_file(top.join("x")).unwrap();
        git(&["checkout", "-q", "--", "x"]);
        then(top);
        source_of(&top.join("x"), &fs::read(top.join("x")).unwrap()).unwrap()
    }

    #[test]
    fn what_a_checkout_made_is_a_commit_s_whatever_its_attributes_do() {
        let nothing = |_: &Path| {};
        for (commit, attributes) in [
            ("a\n", ""),
            ("a\n", "x eol=crlf\n"),
            ("a\r\n", "x text\n"),
            ("a\r\nb\n", "x text eol=crlf\n"),
            ("# $Id$\n", "x ident\n"),
            ("# $Id: forged $\n", "x ident\n"),
            ("# $Id: forged\n", "x ident\n"),
            ("é\n", "x working-tree-encoding=UTF-7\n"),
            ("a\n", "x filter=lfs\n"),
        ] {
            assert_eq!(
                source_after(commit, attributes, &nothing),
                FileSource::Commit,
                "{commit:?} {attributes:?}"
            );
        }
    }

    type Act = Box<dyn Fn(&Path)>;

    fn write(text: &'static str) -> Act {
        Box::new(move |top| fs::write(top.join("x"), text).unwrap())
    }

    fn git(all: &'static [&'static [&'static str]]) -> Act {
        Box::new(move |top| all.iter().for_each(|words| assert!(ask(top, words).unwrap().is_ok, "{words:?}")))
    }

    #[test]
    fn what_differs_from_head_was_written_here() {
        let merge = |top: &Path| {
            fs::write(top.join("x"), "theirs\n").unwrap();
            fs::write(top.join(".git/MERGE_HEAD"), "0").unwrap();
        };
        let link = |top: &Path| {
            fs::remove_file(top.join("x")).unwrap();
            fs::write(top.join("y"), "b\n").unwrap();
            std::os::unix::fs::symlink("y", top.join("x")).unwrap();
        };
        let leave = |top: &Path| fs::rename(top.join(".git"), top.join("git")).unwrap();
        let cases: [(&str, Act, FileSource); 8] = [
            ("changed", write("b\n"), FileSource::Checkout),
            ("the same again", write("a\n"), FileSource::Commit),
            ("taken off git's list alone", git(&[&["rm", "-q", "--cached", "x"]]), FileSource::Commit),
            ("before its commit", git(&[&["update-ref", "-d", "HEAD"]]), FileSource::Checkout),
            ("another commit's while it is merged", Box::new(merge), FileSource::Commit),
            ("a link to what may be a commit's", Box::new(link), FileSource::Commit),
            (
                "taken out of HEAD",
                git(&[&["rm", "-q", "--cached", "x"], &["commit", "-qm", "gone"]]),
                FileSource::Checkout,
            ),
            ("in no repository", Box::new(leave), FileSource::Checkout),
        ];
        for (what, act, wanted) in cases {
            assert_eq!(source_after("a\n", "", &*act), wanted, "{what}");
        }
    }
}
