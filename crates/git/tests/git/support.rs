//! A stage: a repository of a person in a temporary folder whose name has a space, and what they do there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ftl_core::run::InstanceId;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_git::{
    Checked, GitError, IdempotencyKey, Landed, Landing, MergedTree, Oid, Person, Repo, Settings, Wanted,
    Worktree, WorktreeId,
};
use ftl_process::Cancel;
use tempfile::TempDir;

/// When everything happens.
pub(crate) const WHEN: u64 = 1_700_000_000;

pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) repo: Repo,
    pub(crate) run: RunId,
}

impl Stage {
    /// A repository with three files on `main`, and a run that was begun.
    pub(crate) fn new() -> Stage {
        Stage::with(|_| {}, |_| {})
    }

    pub(crate) fn with(prepare: impl FnOnce(&Path), set: impl FnOnce(&mut Settings)) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a repository");
        fs::create_dir_all(folder.path().join("home")).unwrap();
        make(&root);
        prepare(&root);
        let repo = open(folder.path(), set).unwrap();
        let run = RunId::of(1);
        repo.begin(&run).unwrap();
        Stage { folder, repo, run }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("a repository")
    }

    pub(crate) fn id(&self, instance: u32) -> WorktreeId {
        WorktreeId::of(&self.run, InstanceId(instance))
    }

    pub(crate) fn open(&self, instance: u32) -> Worktree {
        self.repo.open_worktree(&self.id(instance), &self.run, &mut |_| Ok(())).unwrap()
    }

    pub(crate) fn git(&self, words: &[&str]) -> String {
        git(&self.root(), words)
    }

    /// Lands what stands in a worktree, if `verify` lets it.
    pub(crate) fn land_if(
        &self,
        instance: u32,
        verify: impl Fn(&MergedTree) -> Checked,
    ) -> Result<Landed, GitError> {
        let (worktree, key) = (self.id(instance), key(instance));
        let landing = Landing { worktree: &worktree, key: &key, tree: None, message: "Do it", when: WHEN };
        self.repo.land(&landing, &Cancel::new(), &mut |merged| Ok(verify(merged)))
    }

    pub(crate) fn land(&self, instance: u32) -> Landed {
        self.land_if(instance, |_| Checked::Passed).unwrap()
    }

    /// Looks at a checkout of a commit.
    pub(crate) fn looks<T>(&self, commit: &Oid, mut look: impl FnMut(&Path) -> T) -> T {
        self.repo.check_out(Wanted::commit(commit), &Cancel::new(), &mut |at| look(at.path())).unwrap()
    }

    pub(crate) fn tip(&self) -> Oid {
        self.repo.branch(&self.run).unwrap().tip
    }

    /// Everything that is the person's: HEAD, branches of theirs, index, stash, files.
    pub(crate) fn persons(&self) -> (String, Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>) {
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let refs: Vec<&str> = refs.lines().filter(|line| !line.contains("/ftl/")).collect();
        let head = fs::read_to_string(self.root().join(".git/HEAD")).unwrap();
        let index = fs::read(self.root().join(".git/index")).unwrap();
        (format!("{head}{}", refs.join("\n")), index, files(&self.root()))
    }
}

pub(crate) fn key(number: u32) -> IdempotencyKey {
    format!("run.{number}").parse().unwrap()
}

pub(crate) fn open(folder: &Path, set: impl FnOnce(&mut Settings)) -> Result<Repo, GitError> {
    let person = Person { name: "Ada".to_owned(), email: "ada@example.org".to_owned() };
    let mut settings = Settings::of(person);
    settings.home = Some(folder.join("home"));
    settings.config = Some(folder.join("home/.config/git"));
    settings.cache = Some(folder.join("home/.cache"));
    set(&mut settings);
    Repo::open(&StateFolder::at(folder.join("a repository")), settings)
}

/// A repository of a person.
pub(crate) fn make(root: &Path) {
    fs::create_dir_all(root.join("src")).unwrap();
    git(root, &["init", "-q", "-b", "main"]);
    fs::write(root.join("src/one.txt"), lines("one", 20)).unwrap();
    fs::write(root.join("src/two.txt"), lines("two", 20)).unwrap();
    fs::write(root.join(".gitignore"), "*.log\ntarget/\n.env\n").unwrap();
    commit(root, "start");
}

pub(crate) fn lines(word: &str, count: usize) -> String {
    (1..=count).map(|number| format!("{word} {number}\n")).collect()
}

pub(crate) fn commit(root: &Path, message: &str) {
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", message]);
}

/// What the person's own git prints; it must succeed.
pub(crate) fn git(folder: &Path, words: &[&str]) -> String {
    let out = command(folder, words).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "git {words:?}: {said}");
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

pub(crate) fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "/dev/null");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "Person").env(format!("GIT_{name}_EMAIL"), "p@example.org");
        command.env(format!("GIT_{name}_DATE"), "@1600000000 +0000");
    }
    command.args(["-c", "protocol.file.allow=always"]).args(words).current_dir(folder);
    command
}

/// The bytes of every file and link below a folder, besides git's and ours at its top.
pub(crate) fn files(folder: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    gather(folder, folder, &mut found);
    found.retain(|path, _| path != b".git" && !path.starts_with(b".git/") && !path.starts_with(b".ftl/"));
    found
}

fn gather(top: &Path, folder: &Path, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
        if kind.is_dir() {
            gather(top, &path, found);
        } else if kind.is_symlink() {
            found.insert(name, fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec());
        } else if kind.is_file() {
            found.insert(name, read(&path));
        }
    }
}

/// The bytes of a file, also where its owner has taken away the right to read it.
fn read(path: &Path) -> Vec<u8> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::read(path).unwrap_or_else(|_| {
        let mode = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        let bytes = fs::read(path).unwrap();
        fs::set_permissions(path, mode).unwrap();
        bytes
    })
}

/// The name of every object that can be reached from a ref.
pub(crate) fn reachable(root: &Path) -> std::collections::BTreeSet<String> {
    let all = git(root, &["rev-list", "--objects", "--all", "--no-object-names"]);
    all.lines().map(str::to_owned).collect()
}

/// What git would call each of these contents.
pub(crate) fn blob_names<'a>(root: &Path, contents: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<String> {
    use std::io::Write as _;
    use std::process::Stdio;
    let scratch = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for (number, bytes) in contents.into_iter().enumerate() {
        let file = scratch.path().join(number.to_string());
        fs::write(&file, bytes).unwrap();
        list.push_str(&format!("{}\n", file.display()));
    }
    let mut command = command(root, &["hash-object", "--stdin-paths", "--no-filters"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect()
}

/// Asserts that every one of these contents can be found from some ref.
pub(crate) fn assert_kept(root: &Path, contents: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str) {
    let found = reachable(root);
    for (name, path) in blob_names(root, contents.values()).iter().zip(contents.keys()) {
        assert!(found.contains(name), "{what}: lost {}", String::from_utf8_lossy(path));
    }
}
