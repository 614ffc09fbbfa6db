//! The git of a run: its private branch, its worktrees, what is kept, landing and delivery.
//!
//! Objects are read and written through a git folder of our own (the *chamber*, in `.ftl/store`), which
//! sees the repository's objects and nothing else: the repository's configuration, hooks, filters and
//! drivers are not overridden there, they are not seen. Only refs and the list of worktrees go through
//! the repository itself, hardened. The person's checkout, index, stash and HEAD are not touched before
//! delivery, and nothing is removed that exists only in a worktree: it is kept under a private ref first.
//!
//! | module | what it holds |
//! |---|---|
//! | `runner` | runs git: environment, settings, limits |
//! | `batch_process`, `reader` | a git that stays; one that answers about objects |
//! | `refs` | what refs are; moving them, all or none |
//! | `stale` | lock files of refs: a dead git's of ours, or another program's |
//! | `private_dir` | the git folder of our own |
//! | `objects` | objects of our own, which no `git gc` prunes; what the repository gets of them |
//! | `gather` | objects of the work that the repository had first |
//! | `user_config` | the person's settings of git, read once |
//! | `names`, `error` | words that are checked once; sentences for people |
//! | `lock`, `ledger`, `lost`, `durable` | kernel locks; what is written down beside the refs, and made again when it is gone; syncing |
//! | `tree`, `probe` | what is in a folder now, as a tree; what is at a path |
//! | `stat_cache` | whether a folder is as it was, without starting git |
//! | `checkout` | files written into a folder, so that doing it twice is doing it once |
//! | `commit` | commits whose names depend on nothing but their arguments |
//! | `branch` | the branch of a run |
//! | `worktree`, `recovery` | opened, closed; made again after a power cut |
//! | `keep`, `unstorable`, `salvage` | what exists only in a worktree; what no tree can hold; bringing it back |
//! | `rewind` | a run's git, back to what a shortened journal knows |
//! | `examine` | whether everything is there that is named |
//! | `merge`, `land` | onto the run's branch |
//! | `filesystem` | files moved without replacing any, and whether that can be had |
//! | `movable` | whether the files of the person's checkout can be moved at all |
//! | `index_lock` | git's lock on the person's index |
//! | `transfer`, `new_files`, `retain` | the files of the person's checkout, all or none; what goes in; what came out, for an hour |
//! | `person_checkout`, `deliver`, `undo` | the person's checkout; onto the person's branch; and back |

mod ask;
mod batch_process;
mod branch;
pub mod change;
mod checkout;
mod clean;
mod commit;
mod compare;
mod deliver;
mod durable;
mod entry;
mod error;
mod examine;
mod filesystem;
mod gather;
mod index_lock;
pub mod inside;
mod keep;
mod land;
mod ledger;
mod lock;
mod lost;
mod merge;
mod movable;
mod names;
mod new_files;
mod objects;
pub mod patch;
mod person_checkout;
mod private_dir;
mod probe;
mod reader;
mod recovery;
mod refs;
mod remote;
mod retain;
mod rewind;
mod runner;
mod salvage;
mod seen;
mod slots;
mod source;
mod spots;
mod stale;
mod stat_cache;
mod stood;
mod transfer;
mod tree;
mod undo;
mod unstorable;
mod user_config;
mod worktree;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use ask::{AskLimits, GitAnswer, ask, ask_within, clone_shared, make_repository};
pub use branch::Branch;
pub use clean::{Cleaning, LANDED, Leftovers, Removable, UNDO_SECONDS};
pub use commit::Person;
pub use compare::FileLines;
pub use deliver::Delivering;
pub use entry::WorktreeEntry;
pub use error::{CallbackError, ErrorKind, GitError};
pub use examine::{Examined, LockFile, MAX_NAMED_OBJECTS, MissingObject, Namer};
pub use filesystem::{FileSystem, LocalFileSystem};
pub use keep::{KeptWork, MAX_KEPT_REFS};
pub use land::{Checked, Landed, Landing, MAX_MESSAGE_BYTES, MergedTree};
pub use lock::await_turn;
pub use merge::{MAX_SIDE_BYTES, MAX_SIDES};
pub use names::{IdempotencyKey, MAX_KEY_LETTERS, MAX_WORKTREE_LETTERS, Oid, WorktreeId};
pub use remote::Remote;
pub use retain::{MAX_RETAINED, has_retained};
pub use runner::{MAX_GIT_OUTPUT, MAX_GIT_TIME, OLDEST_GIT, StepHook, program};
pub use salvage::{Extent, MAX_KEPT_BYTES};
pub use seen::{RepositoryChange, RepositoryState};
pub use slots::{Checkout, MAX_RESTING, MAX_SLOTS, SlotInfo, SlotPlace, Wanted};
pub use source::{FileSource, source_of};
pub use stale::MAX_LOCKS_LISTED;
pub use tree::{MAX_CHANGED_FILES, MAX_FILE_BYTES, MAX_FILES_BYTES};
pub use undo::Undone;
pub use unstorable::MAX_ODD_FILES;
pub use worktree::{CloseOutcome, MAX_COPIED_BYTES, MAX_COPIED_FILES, Worktree, WorktreeProgress};

use durable::Synced;
use error::At as _;
use objects::Shared;
use private_dir::{Chamber, Rules};
use reader::Reader;
use refs::Mover;
use runner::{Call, Output, Runner};
use slots::Slots;
use stat_cache::Known;
use user_config::Told;

use ftl_folder::state_folder::StateFolder;

/// Who is named in commits where git does not know the person.
const NOBODY: (&str, &str) = ("ftl", "ftl@localhost");

/// The settings of the git layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The person who is named in commits.
    pub person: Person,
    /// Ignored files that a worktree gets a copy of, as patterns of paths (`.env`, `**/.env.*`).
    pub copied: Vec<String>,
    /// Names of folders and files that are not kept of a task that has landed, where git ignores them there.
    pub unkept: Vec<String>,
    /// How long one git command may take.
    pub limit: Duration,
    /// Where the person's own settings of git are looked up: their home, and the folder `git` among
    /// their settings.
    pub home: Option<PathBuf>,
    /// The folder `git` among the person's settings; `home` explains it.
    pub config: Option<PathBuf>,
    /// The person's folder of caches.
    pub cache: Option<PathBuf>,
    /// The folder for temporary files.
    pub temporary: PathBuf,
    /// Where checkouts to be looked at lie, if the person has named a place.
    pub slots: Option<PathBuf>,
    /// Names of folders with builds that stay in a checkout from look to look.
    pub warm: Vec<String>,
}

impl Settings {
    /// The defaults, with that person; their settings of git are where the environment says.
    pub fn of(person: Person) -> Settings {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HOME");
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        let config = config.map(|folder| folder.join("git"));
        let cache = folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
        let cache = cache.or_else(|| Some(home.as_ref()?.join(".cache")));
        let temporary = std::env::temp_dir();
        let (copied, unkept, warm) = Default::default();
        let limit = MAX_GIT_TIME;
        Settings { person, copied, unkept, limit, home, config, cache, temporary, slots: None, warm }
    }

    /// The file of git's settings that holds everywhere for the person.
    fn global(&self) -> PathBuf {
        let at_home = self.home.as_ref().map(|home| home.join(".gitconfig")).filter(|file| file.is_file());
        at_home.or_else(|| self.config_file("config")).unwrap_or_else(|| "/dev/null".into())
    }

    fn config_file(&self, name: &str) -> Option<PathBuf> {
        self.config.as_ref().map(|folder| folder.join(name)).filter(|file| file.is_file())
    }
}

/// The repository of a place.
#[derive(Clone)]
pub struct Repo {
    runner: Runner,
    place: StateFolder,
    settings: Settings,
    /// The top of the person's checkout.
    top: PathBuf,
    /// The git folder of the person's checkout.
    own: PathBuf,
    /// The git folder that all worktrees share.
    common: PathBuf,
    identity: Identity,
    /// Who the person's own git says they are.
    named: Option<Person>,
    /// Whether the repository says that it has no checkout of its own.
    is_bare: bool,
    private_dir: Chamber,
    synced: Arc<Synced>,
    /// Answers about objects, out of the chamber.
    objects: Arc<Reader>,
    /// Answers about refs, out of the repository itself, where their files do not.
    refs: Arc<Reader>,
    /// The git that stays and moves refs of the repository.
    mover: Arc<Mover>,
    /// What was found through indexes of ours, as long as these are the same.
    trees: Arc<Mutex<BTreeMap<PathBuf, Known>>>,
    /// What the indexes of worktrees are known by that were given to them.
    given: Arc<Mutex<BTreeMap<WorktreeId, String>>>,
    /// Which objects of ours the repository has too.
    shared: Arc<Shared>,
    /// The checkouts in which commits are looked at.
    slots: Arc<Slots>,
    /// Moves files of the person's checkout.
    files: Arc<dyn FileSystem>,
}

/// Git opens what it is given by its path and follows links: the folders of ours among that must be none. An agent can
/// still put one there after this look; what git writes there then is an index, a lock or an object, under a new name.
fn check_folders(call: &Call<'_>) -> Result<(), GitError> {
    for folder in call.folders().filter(|folder| ftl_folder::is_inside(folder)) {
        if let Err(error) = ftl_folder::Folder::open(folder)
            && let Some(refusal) = ftl_folder::FolderRefusal::of(&error)
        {
            return Err(GitError::new(ErrorKind::Unsuitable, refusal.to_string()).hint(refusal.hint()));
        }
    }
    Ok(())
}

/// Which folder it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let found = fs::symlink_metadata(path)?;
        Ok(Identity { device: found.dev(), inode: found.ino() })
    }
}

impl Repo {
    /// Opens the repository that a place belongs to. Nothing of the person's is changed.
    pub fn open(place: &StateFolder, settings: Settings) -> Result<Repo, GitError> {
        let root = place.root().canonicalize().at(place.root())?;
        let place = StateFolder::at(root.clone());
        let (top, own, common) = find(&root)?;
        let runner = Runner::find(&top)?.limit(settings.limit);
        let identity = Identity::of(&common).at(&common)?;
        place.prepare().at(&place.state())?;
        let told = Told::ask(&runner, &settings, &own)?;
        let format = told.object_format()?;
        let prefix = root.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
        let ignored = told.ignored(&runner, &settings, &own)?;
        let private_dir =
            Chamber::prepare(&place.store().join("git"), &common, &format, &Rules { prefix, ignored })?;
        for folder in ["index", "worktrees", "runs", "locks", "trash", "slots", "resting"] {
            let folder = private_dir.home().join(folder);
            ftl_folder::make(&folder).at(&folder)?;
        }
        let (synced, objects, refs, mover, trees, given, shared, slots) = Default::default();
        Ok(Repo {
            runner,
            place,
            settings,
            top,
            own,
            common,
            identity,
            named: told.person(),
            is_bare: told.is_bare(),
            private_dir,
            synced,
            objects,
            refs,
            mover,
            trees,
            given,
            shared,
            slots,
            files: Arc::new(LocalFileSystem),
        })
    }

    /// The same, with the person that their own git names in commits.
    pub fn of_person(place: &StateFolder, copied: Vec<String>) -> Result<Repo, GitError> {
        let (name, email) = NOBODY;
        let nobody = Person { name: name.to_owned(), email: email.to_owned() };
        let mut repo = Repo::open(place, Settings { copied, ..Settings::of(nobody) })?;
        if let Some(person) = repo.person() {
            repo.settings.person = person;
        }
        Ok(repo)
    }

    /// The same where ignored files of these names are not kept of tasks that have landed.
    #[must_use]
    pub fn not_keeping(mut self, names: Vec<String>) -> Repo {
        self.settings.unkept = names;
        self
    }

    /// The same where checkouts to be looked at lie in that folder, and keep the builds in folders of these names.
    #[must_use]
    pub fn checking_out(mut self, slots: Option<PathBuf>, warm: Vec<String>) -> Repo {
        (self.settings.slots, self.settings.warm) = (slots, warm);
        self
    }

    /// The same, watched step by step.
    #[must_use]
    pub fn watched(self, watch: Arc<dyn StepHook>) -> Repo {
        Repo { runner: self.runner.watched(watch), ..self }
    }

    /// The same on a file system that can do less.
    #[must_use]
    pub fn on(self, files: Arc<dyn FileSystem>) -> Repo {
        Repo { files, ..self }
    }

    /// Starts what will be asked soon. What cannot be started is started when it is needed, and says why it cannot.
    pub fn get_ready(&self) {
        if self.check_identity().is_ok() {
            self.objects.get_ready(&self.runner, &|| self.about_objects());
            self.get_mover_ready();
            self.sync_early();
        }
    }

    /// The repository and the folder `.ftl` in it.
    pub fn place(&self) -> &StateFolder {
        &self.place
    }

    /// The top of the person's checkout.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Who the person's own git says they are, as it was when the repository was opened.
    pub fn person(&self) -> Option<Person> {
        self.named.clone()
    }

    /// Asks with the person's own settings; only for commands that look settings or attributes up.
    fn as_person<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<Output, GitError> {
        ask_as_person(&self.runner, &self.settings, &self.own, words)
    }

    /// A call on the repository itself: refs, worktrees, settings, and nothing else.
    fn at_home<'a>(&self, git: &Path) -> Call<'a> {
        Call::new(&self.common).var("GIT_DIR", git)
    }

    /// The same, to be run at once.
    fn ask<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<Output, GitError> {
        self.run(self.at_home(&self.common).words(words))
    }

    /// A call in the chamber, with an index and a folder of files.
    fn inside<'a>(&self, index: &Path, folder: &Path) -> Call<'a> {
        self.private_dir.call(folder).var("GIT_WORK_TREE", folder).var("GIT_INDEX_FILE", index)
    }

    /// A call in the chamber about objects alone.
    fn about_objects<'a>(&self) -> Call<'a> {
        self.private_dir.call(self.private_dir.folder())
    }

    /// Runs git, if the repository is still the one that was opened.
    fn run(&self, call: Call<'_>) -> Result<Output, GitError> {
        self.check_identity()?;
        check_folders(&call)?;
        self.runner.run(call)
    }

    /// Refuses to work with a repository that is not the one that was opened.
    fn check_identity(&self) -> Result<(), GitError> {
        if Identity::of(&self.common).is_ok_and(|found| found == self.identity) {
            return Ok(());
        }
        let message = format!("`{}` is not the repository any more that was opened", self.common.display());
        Err(GitError::new(ErrorKind::Replaced, message).hint("see what happened to it, then start again"))
    }
}

/// Whether it is plain to see that a folder is in a repository of our own with a commit; where it is not, git can say
/// more.
pub fn has_commit(root: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let is_ours = |path: &Path| fs::metadata(path).is_ok_and(|found| found.uid() == us);
    // What may be in a pack is not looked for: the git that reads the object finds out.
    let may_have = |common: &Path, oid: &Oid| {
        let (folder, rest) = oid.as_str().split_at(2);
        let packs = fs::read_dir(common.join("objects/pack")).is_ok_and(|mut all| all.next().is_some());
        packs || common.join("objects").join(folder).join(rest).is_file()
    };
    find(root).is_ok_and(|(top, own, common)| {
        let head = refs::head(&own, &common);
        is_ours(&top) && is_ours(&own) && head.is_some_and(|head| may_have(&common, &head))
    })
}

/// Asks with the person's own settings, which are read: nothing that they name is run.
fn ask_as_person<'a>(
    runner: &Runner,
    settings: &Settings,
    own: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Output, GitError> {
    let mut call = Call::new(own).var("GIT_DIR", own).words(words);
    if let Some(home) = &settings.home {
        call = call.var("HOME", home);
    }
    runner.run(call.var("GIT_CONFIG_GLOBAL", settings.global()))
}

/// The top of a checkout, its git folder, and the git folder that is shared. Found without git, which
/// would read the configuration of whatever it finds.
fn find(root: &Path) -> Result<(PathBuf, PathBuf, PathBuf), GitError> {
    for top in root.ancestors() {
        let git = top.join(".git");
        let Ok(found) = fs::symlink_metadata(&git) else { continue };
        let own = if found.is_dir() { git } else { follow(top, &git)? };
        let common = match fs::read_to_string(own.join("commondir")) {
            Ok(text) => own.join(text.trim()),
            Err(_) => own.clone(),
        };
        let own = own.canonicalize().at(&own)?;
        let common = common.canonicalize().at(&common)?;
        if common.join("objects").is_dir() {
            return Ok((top.to_owned(), own, common));
        }
    }
    let is_bare = ["HEAD", "objects", "refs"].iter().all(|name| root.join(name).exists());
    let (trouble, message, hint) = if is_bare {
        (
            ErrorKind::Unsuitable,
            "is a bare repository: there is no checkout to work from",
            "use a clone of it",
        )
    } else {
        (ErrorKind::NoRepository, "is in no git repository", "run `git init` and make a first commit")
    };
    Err(GitError::new(trouble, format!("`{}` {message}", root.display())).hint(hint))
}

/// The git folder that a `.git` file or link leads to.
fn follow(top: &Path, git: &Path) -> Result<PathBuf, GitError> {
    if git.is_dir() {
        return git.canonicalize().at(git);
    }
    let text = fs::read_to_string(git).at(git)?;
    let Some(named) = text.trim_end_matches(['\n', '\r']).strip_prefix("gitdir: ") else {
        let message = format!("`{}` does not say where the repository is", git.display());
        return Err(GitError::new(ErrorKind::NoRepository, message));
    };
    Ok(top.join(named))
}
