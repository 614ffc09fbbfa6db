//! Worktrees in every state that an agent can leave them in, through every way of clearing up. The oracle:
//! every byte that stood there can be found from some ref afterwards, and the person's things are as they
//! were.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use ftl_git::{Landed, Worktree};

use crate::support::{Stage, assert_kept, command, commit, files, git, reachable};

/// One thing that an agent does in a worktree, and the commits that it leaves.
pub(crate) type Deed = (&'static str, fn(&Path) -> Vec<String>);

pub(crate) const DEEDS: [Deed; 36] = [
    ("change", |at| write(at, "src/one.txt", b"changed")),
    ("new", |at| write(at, "new/er/file", b"new file")),
    ("empty", |at| write(at, "empty", b"")),
    ("large", |at| write(at, "large", &vec![7; 1 << 20])),
    ("crlf", |at| {
        write(at, ".gitattributes", b"* text=auto eol=lf\n*.x filter=lfs ident\n");
        write(at, "file.x", b"$Id$\r\nline\r\n")
    }),
    ("delete", |at| quiet(fs::remove_file(at.join("src/two.txt")))),
    ("rename", |at| quiet(fs::rename(at.join("src/one.txt"), at.join("moved.txt")))),
    ("mode", |at| quiet(fs::set_permissions(at.join("src"), fs::Permissions::from_mode(0o777)))),
    ("run", |at| quiet(fs::set_permissions(at.join(".gitignore"), fs::Permissions::from_mode(0o755)))),
    ("unreadable", |at| {
        write(at, "secret", b"cannot be read");
        quiet(fs::set_permissions(at.join("secret"), fs::Permissions::from_mode(0o000)))
    }),
    ("link", |at| quiet(symlink("/etc", at.join("link")))),
    ("dangling", |at| quiet(symlink("no\nwhere", at.join("dangling")))),
    ("link for folder", |at| {
        let _ = fs::rename(at.join("src"), at.join("source"));
        quiet(symlink("source", at.join("src")))
    }),
    ("folder for file", |at| {
        let _ = fs::remove_file(at.join("src/one.txt"));
        write(at, "src/one.txt/inner", b"inner")
    }),
    ("file for folder", |at| {
        let _ = fs::rename(at.join("src"), at.join("aside"));
        write(at, "src", b"a file now")
    }),
    ("newline", |at| write(at, "a\nname \"quoted\"\t", b"odd name")),
    ("no utf8", |at| {
        let name = at.join(OsStr::from_bytes(b"bad\xff\xfename"));
        quiet(fs::write(name, "bytes in a name"))
    }),
    ("short names", |at| {
        write(at, ".GIT/inner", b"upper");
        write(at, "git~1", b"short");
        write(at, ".git\u{200c}", b"joined")
    }),
    ("modules link", |at| quiet(symlink("elsewhere", at.join(".gitmodules")))),
    ("pipe", |at| pipe(&at.join("pipe"))),
    ("pipe for file", |at| {
        let _ = fs::remove_file(at.join("src/two.txt"));
        pipe(&at.join("src/two.txt"))
    }),
    ("socket", |at| {
        // The path of a socket may be short only.
        let short = tempfile::tempdir().unwrap();
        let _ = UnixListener::bind(short.path().join("s"));
        quiet(fs::rename(short.path().join("s"), at.join("socket")))
    }),
    ("nested", |at| nested(&at.join("nested"), true)),
    ("nested unborn", |at| nested(&at.join("unborn"), false)),
    ("nested twice", |at| {
        nested(&at.join("deep/one"), true);
        nested(&at.join("deep/one/two"), true);
        write(at, "deep/one/.git.kept", b"a name that is taken")
    }),
    ("submodule", |at| {
        let other = tempfile::tempdir().unwrap();
        nested(&other.path().join("other"), true);
        let from = other.path().join("other");
        let _ = command(at, &["submodule", "--quiet", "add", from.to_str().unwrap(), "module"]).output();
        if at.join("module").is_dir() {
            write(&at.join("module"), "inner", b"changed in a submodule");
            commit(&at.join("module"), "in a submodule");
            write(&at.join("module"), "more", b"not committed");
        }
        vec![]
    }),
    ("commit", |at| {
        write(at, "committed", b"committed");
        commits(at, &["committed"])
    }),
    ("reset", |at| {
        write(at, "thrown", b"thrown away");
        let made = commits(at, &["thrown"]);
        let _ = command(at, &["reset", "-q", "--hard", "HEAD~1"]).output();
        made
    }),
    ("branch", |at| {
        let _ = command(at, &["checkout", "-q", "-b", "agents-own"]).output();
        write(at, "on a branch", b"on a branch");
        commits(at, &["on a branch"])
    }),
    ("stage", |at| {
        write(at, "staged", b"staged, then changed");
        let _ = command(at, &["add", "staged"]).output();
        write(at, "staged", b"changed after")
    }),
    ("lock", |at| {
        let _ = command(at, &["worktree", "lock", "."]).output();
        vec![]
    }),
    ("hide", |at| {
        write(at, ".gitignore", b"*.log\ntarget/\n.env\nhidden*\n");
        write(at, "hidden work", b"hidden by a rule of its own");
        write(at, "hidden/deep/work", b"hidden folder")
    }),
    ("hide itself", |at| {
        write(at, "cave/.gitignore", b"*\n");
        write(at, "cave/work", b"in a cave")
    }),
    ("no git", |at| quiet(fs::remove_file(at.join(".git")))),
    ("own git", |at| {
        let _ = fs::remove_file(at.join(".git"));
        nested(at, true)
    }),
    ("gc", |at| {
        let _ = command(at, &["gc", "-q", "--prune=now"]).output();
        vec![]
    }),
];

fn quiet(_: std::io::Result<()>) -> Vec<String> {
    vec![]
}

fn write(at: &Path, name: &str, bytes: &[u8]) -> Vec<String> {
    let file = at.join(name);
    if fs::create_dir_all(file.parent().unwrap()).is_ok() {
        let _ = fs::write(file, bytes);
    }
    vec![]
}

fn pipe(path: &Path) -> Vec<String> {
    let mode = rustix::fs::Mode::from_bits_truncate(0o600);
    let _ = rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0);
    vec![]
}

fn nested(at: &Path, born: bool) -> Vec<String> {
    if fs::create_dir_all(at).is_err() {
        return vec![];
    }
    let _ = command(at, &["init", "-q", "-b", "main"]).output();
    write(at, "inner", format!("inside {}", at.display()).as_bytes());
    if born {
        let _ = command(at, &["add", "inner"]).output();
        let _ = command(at, &["commit", "-q", "-m", "inside"]).output();
        write(at, "inner", b"changed after that");
    }
    vec![]
}

fn commits(at: &Path, paths: &[&str]) -> Vec<String> {
    let _ = command(at, &["add", "-f", "--"]).args(paths).output();
    let done = command(at, &["commit", "-q", "-m", "agent"]).output().unwrap();
    if done.status.success() && at.join(".git").is_file() {
        vec![git(at, &["rev-parse", "HEAD"])]
    } else {
        vec![]
    }
}

/// What must be found afterwards: everything but what the person's own rules ignore and the pointer that
/// git itself made.
fn standing(at: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = files(at);
    if at.join(".git").is_dir() {
        let inside = files(&at.join(".git"));
        all.extend(inside.into_iter().map(|(name, bytes)| ([b".git/", &name[..]].concat(), bytes)));
    }
    all.retain(|name, _| !name.ends_with(b".log") && !name.starts_with(b"target/"));
    // Git's pointer from a submodule to its repository says where, and nothing else.
    all.retain(|name, _| name != b"module/.git");
    all
}

struct Lot {
    stage: Stage,
    worktree: Worktree,
    bytes: BTreeMap<Vec<u8>, Vec<u8>>,
    commits: Vec<String>,
    deeds: Vec<&'static str>,
}

impl Lot {
    fn new(deeds: &[usize]) -> Lot {
        let stage = Stage::new();
        let worktree = stage.open(1);
        fs::write(worktree.path.join("build.log"), "may go").unwrap();
        let mut commits = Vec::new();
        for deed in deeds {
            commits.extend(DEEDS[*deed].1(&worktree.path));
        }
        let bytes = standing(&worktree.path);
        let deeds = deeds.iter().map(|deed| DEEDS[*deed].0).collect();
        Lot { stage, worktree, bytes, commits, deeds }
    }

    fn assert_nothing_lost(&self, way: &str) {
        let what = format!("{:?} {way}", self.deeds);
        assert_kept(&self.stage.root(), &self.bytes, &what);
        let found = reachable(&self.stage.root());
        for commit in &self.commits {
            assert!(found.contains(commit), "{what}: lost commit {commit}");
        }
    }

    fn assert_gone(&self) {
        let root = self.stage.root();
        assert!(fs::symlink_metadata(&self.worktree.path).is_err(), "{:?}", self.deeds);
        assert!(!root.join(".git/worktrees").join(self.worktree.id.as_str()).exists(), "{:?}", self.deeds);
        let trash = root.join(".ftl/store/git/trash");
        assert_eq!(fs::read_dir(trash).unwrap().count(), 0, "{:?}", self.deeds);
        assert_eq!(self.stage.git(&["fsck", "--no-dangling", "--no-progress"]), "", "{:?}", self.deeds);
    }
}

#[test]
fn each_deed_alone_loses_nothing_when_the_worktree_is_closed() {
    for deed in 0..DEEDS.len() {
        let lot = Lot::new(&[deed]);
        let before = lot.stage.persons();
        lot.stage.repo.tree(&lot.worktree.id).map(drop).or_else(only_unreadable).unwrap();
        lot.stage.repo.close_worktree(&lot.worktree.id, "over", 1).unwrap();
        lot.assert_nothing_lost("closed");
        lot.assert_gone();
        let after = lot.stage.persons();
        assert_eq!((before.1, before.2), (after.1, after.2), "{:?}", lot.deeds);
    }
}

/// A file that its owner may not read has no tree; as root everything can be read.
fn only_unreadable(error: ftl_git::GitError) -> Result<(), ftl_git::GitError> {
    if error.message.contains("ermission") { Ok(()) } else { Err(error) }
}

#[test]
fn deeds_together_lose_nothing_in_any_way_of_clearing_up() {
    let mut random: u64 = 0x2026_1116;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).unwrap()
    };
    for _ in 0..24 {
        let count = 2 + next(6);
        let deeds: Vec<usize> = (0..count).map(|_| next(DEEDS.len())).collect();
        let lot = Lot::new(&deeds);
        let (repo, id) = (&lot.stage.repo, &lot.worktree.id);
        match next(3) {
            0 => {
                repo.keep(id, "in between", 1).unwrap();
                lot.assert_nothing_lost("kept");
                assert_eq!(standing(&lot.worktree.path), lot.bytes, "keeping changes nothing");
                repo.close_worktree(id, "over", 2).unwrap();
            }
            1 => {
                let landed = lot.stage.land_if(1, |_| ftl_git::Checked::Passed);
                assert!(matches!(landed, Ok(Landed::Done { .. } | Landed::Failed { .. }) | Err(_)));
                repo.close_worktree(id, "landed or not", 2).unwrap();
            }
            _ => drop(repo.close_worktree(id, "over", 2).unwrap()),
        }
        lot.assert_nothing_lost("cleared up");
        lot.assert_gone();
    }
}

#[test]
fn a_conflict_loses_nothing() {
    for deeds in [[0, 17, 31], [0, 22, 29], [0, 20, 12], [14, 1, 2], [13, 32, 27]] {
        let lot = Lot::new(&deeds);
        let other = lot.stage.open(2);
        fs::write(other.path.join("src/one.txt"), "the other's").unwrap();
        lot.stage.land(2);
        let landed = lot.stage.land_if(1, |_| ftl_git::Checked::Passed);
        drop(landed);
        lot.stage.repo.close_worktree(&lot.worktree.id, "over", 2).unwrap();
        lot.assert_nothing_lost("after a conflict");
        lot.assert_gone();
    }
}

#[test]
fn a_worktree_that_is_gone_leaves_its_commits() {
    let lot = Lot::new(&[26, 27, 30]);
    assert_eq!(lot.commits.len(), 2);
    fs::remove_dir_all(&lot.worktree.path).unwrap();
    let lot = Lot { bytes: BTreeMap::new(), ..lot };
    let again = lot.stage.open(1);
    assert_eq!(files(&again.path), files(&lot.stage.root()), "it is made again");
    lot.assert_nothing_lost("made again");
    fs::remove_dir_all(&again.path).unwrap();
    lot.stage.repo.close_worktree(&again.id, "over", 1).unwrap();
    lot.assert_nothing_lost("closed");
    lot.assert_gone();
}

#[test]
fn a_worktree_that_was_moved_is_left_alone() {
    let lot = Lot::new(&[0, 1, 26]);
    let elsewhere = lot.stage.folder.path().join("else where");
    lot.stage.git(&["worktree", "move", lot.worktree.path.to_str().unwrap(), elsewhere.to_str().unwrap()]);
    let closed = lot.stage.repo.close_worktree(&lot.worktree.id, "over", 1).unwrap();
    assert_eq!(closed.moved_to, Some(elsewhere.canonicalize().unwrap()));
    assert_eq!(standing(&elsewhere), lot.bytes);
    assert!(git(&elsewhere, &["status", "--porcelain"]).contains("src/one.txt"));

    let plain = Lot::new(&[0, 1, 26]);
    let elsewhere = plain.stage.folder.path().join("moved by hand");
    fs::rename(&plain.worktree.path, &elsewhere).unwrap();
    symlink(&elsewhere, &plain.worktree.path).unwrap();
    plain.stage.repo.close_worktree(&plain.worktree.id, "over", 1).unwrap();
    assert_eq!(standing(&elsewhere), plain.bytes, "a link is not followed");
}

#[test]
fn what_stands_where_a_worktree_belongs_is_not_removed() {
    let stage = Stage::new();
    let path = stage.repo.path_of(&stage.id(1));
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("somebody's"), "precious").unwrap();
    let worktree = stage.open(1);
    assert!(!worktree.path.join("somebody's").exists());
    let all = files(worktree.path.parent().unwrap());
    assert!(all.values().any(|bytes| bytes == b"precious"));
}
