//! Tests of git's list of files, read without git: each version, hash and form that git writes.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use super::*;

/// A repository with those files added, as real git lists them.
fn repository(format: &str, files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(&dir, &["init", "-q", &format!("--object-format={format}"), "."]);
    for file in files {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file).unwrap();
    }
    git(&dir, &["add", "-f", "."]);
    dir
}

fn git(dir: &tempfile::TempDir, words: &[&str]) {
    let mut git = Command::new("git");
    git.args(words).current_dir(dir.path());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ended = git.output().unwrap();
    assert!(ended.status.success(), "{words:?}: {ended:?}");
}

fn find_path(dir: &tempfile::TempDir, prefix: &str) -> Option<String> {
    find(&dir.path().join(".git"), prefix).unwrap().map(|found| found.path)
}

/// Names around `.ftl` in the order of the list, some long and some that differ in their last letters only.
const AROUND: [&str; 9] = [
    "!first",
    ".ftk",
    ".ftl/protocols/a.md",
    ".ftl/protocols/a.mdx",
    ".ftl/stored",
    ".ftl-store/x",
    "a/.ftl/store",
    "src/a-rather-long-name-that-is-cut-in-the-fourth-version-of-the-list.rs",
    "src/a-rather-long-name-that-is-cut-in-the-fourth-version-of-the-list.rst",
];

#[test]
fn what_only_we_write_is_found_in_every_form_of_the_list() {
    for format in ["sha1", "sha256"] {
        for version in ["2", "3", "4"] {
            for ours in [".ftl/store/spool", ".ftl/store/deep/er/file", ".ftl/worktrees/a", ".ftl/store"] {
                let dir = repository(format, &[&AROUND[..], &[ours]].concat());
                git(&dir, &["update-index", "--index-version", version]);
                assert_eq!(find_path(&dir, "").as_deref(), Some(ours), "{format} {version}");
                git(&dir, &["rm", "-rq", "--cached", ours]);
                assert_eq!(find_path(&dir, ""), None, "{format} {version}");
            }
            let dir = repository(format, &AROUND);
            // Extended flags make entries longer.
            git(&dir, &["update-index", "--skip-worktree", ".ftk", ".ftl/stored"]);
            git(&dir, &["update-index", "--index-version", version]);
            assert_eq!((find_path(&dir, ""), find_path(&dir, "/a").as_deref()), (None, Some("a/.ftl/store")));
        }
    }
}

#[test]
fn a_list_in_two_files_is_read_in_both() {
    let dir = repository("sha1", &[&AROUND[..], &[".ftl/store/spool"]].concat());
    git(&dir, &["update-index", "--split-index"]);
    std::fs::write(dir.path().join("src/new.rs"), "new").unwrap();
    git(&dir, &["add", "src/new.rs"]);
    let tracked = find(&dir.path().join(".git"), "").unwrap().unwrap();
    assert!(tracked.is_split && tracked.hint().contains("--no-split-index`"), "{tracked:?}");
    git(&dir, &["rm", "-rq", "--cached", ".ftl/store"]);
    git(&dir, &["update-index", "--no-split-index"]);
    assert_eq!(find_path(&dir, ""), None);
}

#[test]
fn no_list_and_an_unknown_list_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(find(dir.path(), "").unwrap(), None);
    for bytes in [&b"DIRC"[..], b"DIRC\0\0\0\x09\0\0\0\x01", b"none of it", b"DIRC\0\0\0\x02\0\0\0\x01short"]
    {
        std::fs::write(dir.path().join("index"), bytes).unwrap();
        assert!(find(dir.path(), "").is_err(), "{bytes:?}");
    }
    let mut endless = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
    endless.extend([1; 62 + 12]);
    endless.resize(endless.len() + MAX_NAME_BYTES + 1, b'a');
    std::fs::write(dir.path().join("index"), endless).unwrap();
    assert!(find(dir.path(), "").unwrap_err().to_string().contains("a name has no end"));
}
