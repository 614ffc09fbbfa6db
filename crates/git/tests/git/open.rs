//! Opening, looking, closing: what is asked twice is done once, and the person's own things stay.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_git::change::EntryKind;
use ftl_git::{ErrorKind, Landed, Repo, Settings};
use ftl_needs::needs;

use crate::support::{Stage, commit, files, git, lines, make, open};

#[test]
fn a_worktree_is_the_tip_of_the_runs_branch_and_the_person_sees_nothing() {
    let stage = Stage::new();
    let before = stage.persons();
    let worktree = stage.open(1);
    assert_eq!(files(&worktree.path), files(&stage.root()));
    assert_eq!(worktree.base, stage.tip());
    assert_eq!(stage.persons(), before);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(git(&worktree.path, &["status", "--porcelain"]), "");
    assert_eq!(git(&worktree.path, &["rev-parse", "HEAD"]), worktree.base.as_str());
    assert_eq!(stage.git(&["rev-parse", &format!("ftl/{}", stage.run)]), worktree.base.as_str());
    let closed = stage.repo.close_worktree(&worktree.id, "done", 1).unwrap();
    assert_eq!((closed.kept, closed.moved_to), (None, None));
    assert!(!worktree.path.exists());
    assert_eq!(stage.persons(), before);
    assert!(!stage.git(&["worktree", "list"]).contains(worktree.id.as_str()));
    let again = stage.repo.close_worktree(&worktree.id, "done", 1).unwrap();
    assert_eq!(again.kept, None);
}

#[test]
fn what_is_asked_twice_is_done_once() {
    let stage = Stage::new();
    let first = stage.open(1);
    fs::write(first.path.join("new.txt"), "new").unwrap();
    let mut set_up = 0;
    let mut setup = |_: &std::path::Path| {
        set_up += 1;
        Ok(())
    };
    let second = stage.repo.open_worktree(&first.id, &stage.run, &mut setup).unwrap();
    assert_eq!((first, set_up), (second.clone(), 0));
    assert!(second.path.join("new.txt").exists());
    let branch = stage.repo.begin(&stage.run).unwrap();
    assert_eq!((branch.base, branch.tip), (second.base.clone(), second.base));
    assert_eq!(branch.target.as_deref(), Some("main"));
}

#[test]
fn a_setup_that_fails_is_run_again() {
    let stage = Stage::new();
    let id = stage.id(1);
    let failed =
        stage.repo.open_worktree(&id, &stage.run, &mut |_| Err(ftl_git::CallbackError::new("no network")));
    assert!(failed.unwrap_err().message.contains("no network"));
    let made = stage.repo.open_worktree(&id, &stage.run, &mut |path| {
        fs::write(path.join("made.log"), "by setup")
            .map_err(|error| ftl_git::CallbackError::new(error.to_string()))
    });
    assert!(made.unwrap().path.join("made.log").exists());
}

#[test]
fn sixteen_worktrees_are_made_at_once() {
    let stage = Arc::new(Stage::new());
    stage.git(&["config", "branch.autoSetupMerge", "always"]);
    let open = |instance: u32| {
        let stage = stage.clone();
        std::thread::spawn(move || stage.open(instance).path)
    };
    // Looked at before anybody works beside us.
    let wanted = files(&stage.root());
    let threads: Vec<_> = (0..16).map(open).collect();
    for thread in threads {
        assert_eq!(files(&thread.join().unwrap()), wanted);
    }
    assert_eq!(stage.repo.worktrees().unwrap().len(), 16);
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 17);
}

#[test]
fn a_tree_holds_what_is_there_and_not_what_the_agents_index_says() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    let base = stage.repo.tree(&worktree.id).unwrap();
    assert_eq!(base.tree, stage.repo.tree_of(&worktree.base).unwrap());
    fs::write(worktree.path.join("src/one.txt"), "changed\n").unwrap();
    fs::write(worktree.path.join("new \u{fc}.txt"), "new\n").unwrap();
    fs::remove_file(worktree.path.join("src/two.txt")).unwrap();
    fs::write(worktree.path.join("noise.log"), "ignored").unwrap();
    fs::set_permissions(worktree.path.join(".gitignore"), fs::Permissions::from_mode(0o755)).unwrap();
    // An index that says that nothing has changed, and one that is no index.
    git(&worktree.path, &["update-index", "--assume-unchanged", "src/one.txt"]);
    let seen = stage.repo.tree(&worktree.id).unwrap().tree;
    fs::write(stage.root().join(".git/worktrees").join(worktree.id.as_str()).join("index"), "junk").unwrap();
    fs::remove_file(worktree.path.join(".git")).unwrap();
    assert_eq!(stage.repo.tree(&worktree.id).unwrap().tree, seen);
    let change = stage.repo.change(&worktree.base, &seen).unwrap();
    let shown: Vec<(&str, bool, bool)> =
        change.files.iter().map(|file| (file.path.as_str(), file.is_new(), file.is_gone())).collect();
    let wanted = [
        (".gitignore", false, false),
        ("new \u{fc}.txt", true, false),
        ("src/one.txt", false, false),
        ("src/two.txt", false, true),
    ];
    assert_eq!(shown, wanted);
    assert_eq!(change.files[0].after.as_ref().unwrap().kind, EntryKind::Executable);
    assert_eq!(change.files[1].after.as_ref().unwrap().text(), Some("new\n"));
    assert_eq!(change.files[2].before.as_ref().unwrap().text(), Some(lines("one", 20).as_str()));
    let progress = stage.repo.progress(&worktree.id).unwrap();
    assert_eq!((progress.added, progress.removed, progress.commits), (2, 40, 0));
    assert_eq!(progress.tree, seen);
    assert_eq!(progress.files.len(), 4);
}

#[test]
fn commits_of_an_agent_count_as_progress() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("a"), "a").unwrap();
    commit(&worktree.path, "one");
    fs::write(worktree.path.join("a"), "b").unwrap();
    commit(&worktree.path, "two");
    let progress = stage.repo.progress(&worktree.id).unwrap();
    assert_eq!((progress.commits, progress.files), (2, vec!["a".to_owned()]));
}

#[test]
fn a_link_is_a_link_and_its_target_is_not_read() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    std::os::unix::fs::symlink("/etc/passwd", worktree.path.join("link")).unwrap();
    let tree = stage.repo.tree(&worktree.id).unwrap().tree;
    let change = stage.repo.change(&worktree.base, &tree).unwrap();
    let link = change.files[0].after.as_ref().unwrap();
    assert_eq!((link.kind, link.text()), (EntryKind::Link, Some("/etc/passwd")));
}

#[test]
fn listed_ignored_files_are_copied() {
    let prepare = |root: &std::path::Path| {
        fs::write(root.join(".env"), "KEY=1").unwrap();
        fs::create_dir_all(root.join("deep/er")).unwrap();
        fs::write(root.join("deep/er/.env"), "KEY=2").unwrap();
        fs::write(root.join("other.log"), "no").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("src/.env")).unwrap();
    };
    let stage = Stage::with(prepare, |settings| settings.copied = vec!["**/.env".to_owned()]);
    let worktree = stage.open(1);
    assert_eq!(fs::read(worktree.path.join(".env")).unwrap(), b"KEY=1");
    assert_eq!(fs::read(worktree.path.join("deep/er/.env")).unwrap(), b"KEY=2");
    assert!(!worktree.path.join("other.log").exists());
    assert!(fs::symlink_metadata(worktree.path.join("src/.env")).is_err());
    let same = stage.repo.keep(&worktree.id, "as they were", 1).unwrap();
    assert_eq!(same, None, "what the person has too need not be kept");
    fs::write(worktree.path.join(".env"), "KEY=3").unwrap();
    let kept = stage.repo.keep(&worktree.id, "changed", 1).unwrap().unwrap();
    assert_eq!(stage.git(&["show", &format!("{kept}:.env")]), "KEY=3");
}

#[test]
fn what_the_person_ignores_everywhere_is_ignored() {
    let stage = Stage::with(
        |root| {
            let ignore = root.parent().unwrap().join("home/.config/git");
            fs::create_dir_all(&ignore).unwrap();
            fs::write(ignore.join("ignore"), "*.swp\n").unwrap();
            fs::write(root.join(".git/info/exclude"), "*.mine\n").unwrap();
        },
        |_| {},
    );
    let worktree = stage.open(1);
    fs::write(worktree.path.join("x.swp"), "").unwrap();
    fs::write(worktree.path.join("x.mine"), "").unwrap();
    let tree = stage.repo.tree(&worktree.id).unwrap().tree;
    assert_eq!(tree, stage.repo.tree_of(&worktree.base).unwrap());
}

#[test]
fn what_cannot_be_worked_with_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a repository");
    fs::create_dir_all(&root).unwrap();
    let trouble = |folder| open(folder, |_| {}).err().unwrap().trouble;
    assert_eq!(trouble(folder.path()), ErrorKind::NoRepository);
    git(&root, &["init", "-q", "-b", "main"]);
    let repo = open(folder.path(), |_| {}).unwrap();
    let unborn = repo.begin(&RunId::of(1)).unwrap_err();
    assert_eq!(unborn.trouble, ErrorKind::Unsuitable);
    assert!(unborn.hint.unwrap().contains("first commit"));

    let bare = tempfile::tempdir().unwrap();
    git(bare.path(), &["init", "-q", "--bare", "a repository"]);
    assert_eq!(trouble(bare.path()), ErrorKind::Unsuitable);
}

#[test]
fn another_repository_in_the_same_place_is_not_written_to() {
    let stage = Stage::new();
    let root = stage.root();
    fs::rename(root.join(".git"), root.join("old git")).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    commit(&root, "another");
    let error = stage.repo.open_worktree(&stage.id(1), &stage.run, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.trouble, ErrorKind::Replaced);
    assert_eq!(git(&root, &["for-each-ref", "refs/ftl"]), "");
}

#[test]
fn a_linked_worktree_of_the_person_and_a_folder_below_the_top_are_places_too() {
    let stage = Stage::new();
    stage.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = stage.folder.path().join("linked");
    let person = ftl_git::Person { name: "Ada".into(), email: "ada@example.org".into() };
    let mut settings = Settings::of(person);
    (settings.home, settings.config) = (None, None);
    let repo = Repo::open(&StateFolder::at(&linked), settings.clone()).unwrap();
    let run = RunId::of(2);
    assert_eq!(repo.begin(&run).unwrap().target.as_deref(), Some("side"));
    let id = "x1".parse().unwrap();
    let worktree = repo.open_worktree(&id, &run, &mut |_| Ok(())).unwrap();
    assert!(worktree.path.starts_with(linked.canonicalize().unwrap()));
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    repo.close_worktree(&id, "done", 1).unwrap();

    let below = Repo::open(&StateFolder::at(stage.root().join("src")), settings).unwrap();
    let run = RunId::of(3);
    below.begin(&run).unwrap();
    let worktree = below.open_worktree(&"x2".parse().unwrap(), &run, &mut |_| Ok(())).unwrap();
    assert_eq!(files(&worktree.path).len(), 3);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

/// What a power cut does to files: some are empty, some are gone, some are from later; nothing says so.
#[test]
fn after_a_power_cut_a_worktree_is_what_it_was_when_somebody_heard_of_it() {
    for breaks_git in [false, true] {
        let stage = Stage::new();
        let worktree = stage.open(1);
        let at = |name: &str| worktree.path.join(name);
        fs::write(at("src/one.txt"), "by an agent\n").unwrap();
        fs::write(at("src/new.txt"), "new\n").unwrap();
        let tree = stage.repo.tree(&worktree.id).unwrap().tree;
        fs::write(at("src/one.txt"), "").unwrap();
        fs::write(at("src/two.txt"), "").unwrap();
        fs::remove_file(at("src/new.txt")).unwrap();
        fs::write(at("later.txt"), "later\n").unwrap();
        let store = stage.root().join(".ftl/store/git");
        fs::write(store.join("index").join(worktree.id.as_str()), "").unwrap();
        if breaks_git {
            fs::write(at(".git"), "").unwrap();
            fs::write(stage.root().join(".git/worktrees").join(worktree.id.as_str()).join("HEAD"), "")
                .unwrap();
        }
        let same = stage.open(1);
        assert_eq!(
            fs::read_to_string(at("later.txt")).unwrap(),
            "later\n",
            "the machine was not started again"
        );
        let file = store.join("stood").join(format!("{}.json", worktree.id));
        let text = fs::read_to_string(&file).unwrap();
        let boot = ftl_process::table::boot_id().unwrap();
        fs::write(&file, text.replace(&boot, "another")).unwrap();
        assert_eq!(stage.open(1), same);
        assert_eq!(stage.repo.tree(&worktree.id).unwrap().tree, tree);
        assert_eq!(fs::read_to_string(at("src/two.txt")).unwrap(), lines("two", 20));
        assert!(!at("later.txt").exists());
        assert_eq!(git(&worktree.path, &["rev-parse", "HEAD"]), worktree.base.as_str());
        let kept = format!("refs/ftl/kept/{}/1:later.txt", worktree.id);
        assert_eq!(stage.git(&["show", &kept]), "later", "what was found is kept");
        assert!(matches!(stage.land(1), Landed::Done { .. }));
    }
}

/// Where git keeps more than plain files it makes worktrees itself; whoever asks sees every ref that moved.
#[test]
fn settings_of_worktrees_are_left_to_git() {
    is_left_to_git(&["init", "-q", "-b", "main"], true);
}

/// Where git keeps more than plain files it makes worktrees itself; whoever asks sees every ref that moved.
#[needs(reftable)]
#[test]
fn refs_in_tables_are_left_to_git() {
    is_left_to_git(&["init", "-q", "-b", "main", "--ref-format=reftable"], false);
}

fn is_left_to_git(words: &[&str], is_plain: bool) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a repository");
    fs::create_dir_all(&root).unwrap();
    git(&root, words);
    make(&root);
    if is_plain {
        git(&root, &["config", "extensions.worktreeConfig", "true"]);
        git(&root, &["config", "--worktree", "ftl.only", "here"]);
    }
    let repo = open(folder.path(), |_| {}).unwrap();
    let run = RunId::of(1);
    let branch = repo.begin(&run).unwrap();
    assert_eq!(branch.target.as_deref(), Some("main"));
    let id = "x1".parse().unwrap();
    let worktree = repo.open_worktree(&id, &run, &mut |_| Ok(())).unwrap();
    assert_eq!(git(&worktree.path, &["status", "--porcelain"]), "");
    fs::write(worktree.path.join("new"), "new").unwrap();
    git(&worktree.path, &["add", "new"]);
    git(&worktree.path, &["commit", "-qm", "by an agent"]);
    git(&root, &["update-ref", &format!("refs/heads/{}", branch.name), "HEAD~0", branch.tip.as_str()]);
    git(&root, &["branch", "-D", &branch.name]);
    assert_eq!(repo.begin(&run).unwrap(), branch, "a branch that was removed is put back");
    assert_eq!(git(&root, &["rev-parse", &branch.name]), branch.tip.as_str());
    let kept = repo.close_worktree(&id, "done", 1).unwrap().kept.unwrap();
    assert_eq!(git(&root, &["show", &format!("{kept}:new")]), "new");
}

#[test]
fn names_by_sha256_are_names_too() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a repository");
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q", "-b", "main", "--object-format=sha256"]);
    make(&root);
    let repo = open(folder.path(), |_| {}).unwrap();
    let run = RunId::of(1);
    repo.begin(&run).unwrap();
    let id = "x1".parse().unwrap();
    let worktree = repo.open_worktree(&id, &run, &mut |_| Ok(())).unwrap();
    fs::remove_file(worktree.path.join("src/one.txt")).unwrap();
    fs::write(worktree.path.join("new"), "new").unwrap();
    let kept = repo.close_worktree(&id, "done", 1).unwrap().kept.unwrap();
    assert_eq!(git(&root, &["show", &format!("{kept}:new")]), "new");
}
