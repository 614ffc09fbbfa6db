//! A repository whose configuration, hooks and attributes are an attacker's: none of the attacker's
//! programs runs, whatever we do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ftl_core::catalogue::build::{Delivery, DeliveryStatus};
use ftl_core::run::InstanceId;
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_git::{
    Checked, Delivering, ErrorKind, Landed, Landing, MAX_KEPT_BYTES, MAX_LOCKS_LISTED, MAX_NAMED_OBJECTS,
    Namer, Person, Repo, Settings, WorktreeId,
};
use ftl_process::Cancel;

use crate::support::{Stage, WHEN, command, git, key, make, open};

/// Settings that name a program, each with what it is called when it runs.
const PROGRAMS: [&str; 25] = [
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.sshCommand",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "credential.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "merge.evil.driver",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.x509.program",
    "alias.status",
    "alias.update-ref",
    "alias.worktree",
    "sequence.editor",
    "uploadpack.packObjectsHook",
    "submodule.x.update",
    "interactive.diffFilter",
    "pager.rev-parse",
];

const HOOKS: [&str; 9] = [
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "pre-commit",
    "commit-msg",
    "prepare-commit-msg",
    "post-commit",
    "pre-merge-commit",
    "post-merge",
];

/// Makes a repository hostile; what ran shows as files in the folder.
fn poison(root: &Path) -> PathBuf {
    let ran = root.parent().unwrap().join("ran");
    fs::create_dir_all(&ran).unwrap();
    let script = |name: &str| {
        let file = ran.parent().unwrap().join(format!("evil-{name}"));
        fs::write(&file, format!("#!/bin/sh\ntouch '{}/{name}'\nexec cat\n", ran.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    };
    for hook in HOOKS {
        fs::copy(script(hook), root.join(".git/hooks").join(hook)).unwrap();
    }
    let quoted = |file: &Path| format!("'{}'", file.display());
    let mut lines = String::from("[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n");
    for name in PROGRAMS {
        let program = script(name);
        let (section, key) = name.rsplit_once('.').unwrap();
        let section = match section.split_once('.') {
            Some((one, two)) => format!("{one} \"{two}\""),
            None => section.to_owned(),
        };
        let bang = if name.starts_with("alias") || name.starts_with("submodule") { "!" } else { "" };
        lines.push_str(&format!("[{section}]\n\t{key} = \"{bang}{}\"\n", quoted(&program)));
    }
    lines.push_str("[filter \"evil\"]\n\trequired = true\n[extensions]\n\tworktreeConfig = true\n");
    let config = root.join(".git/config");
    fs::write(&config, format!("{}{lines}", fs::read_to_string(&config).unwrap())).unwrap();
    fs::write(root.join(".git/config.worktree"), &lines).unwrap();
    fs::create_dir_all(root.join(".git/info")).unwrap();
    fs::write(root.join(".git/info/attributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    ran
}

fn runs(ran: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        fs::read_dir(ran).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    found
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    let stage = Stage::new();
    let ran = poison(&stage.root());
    fs::write(stage.root().join("probe"), "x").unwrap();
    for words in [&["status"][..], &["add", "probe"], &["diff", "HEAD"], &["worktree", "add", "../plain"]] {
        let _ = command(&stage.root(), words).output().unwrap();
    }
    let by_git = runs(&ran);
    for wanted in
        ["core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "post-checkout", "diff.evil.command"]
    {
        assert!(by_git.iter().any(|name| name == wanted), "git itself ran only {by_git:?}");
    }
    fs::remove_file(stage.root().join("probe")).unwrap();
    let _ = command(&stage.root(), &["-c", "core.fsmonitor=", "rm", "-q", "--cached", "probe"]).output();
    fs::remove_dir_all(&ran).unwrap();
    fs::create_dir(&ran).unwrap();

    let repo = open(stage.folder.path(), |settings| settings.copied = vec![".env".to_owned()]).unwrap();
    assert_eq!(repo.person(), None);
    let stage = Stage { repo, ..stage };
    fs::write(stage.root().join(".env"), "x").unwrap();
    for instance in 1..=4 {
        let worktree = stage.open(instance);
        assert_eq!(runs(&ran), [""; 0], "opening");
        let text = fs::read_to_string(worktree.path.join("src/one.txt")).unwrap();
        if instance > 1 {
            fs::write(worktree.path.join(".gitattributes"), "* filter=evil diff=evil merge=evil text\n")
                .unwrap();
        }
        fs::write(worktree.path.join("src/one.txt"), text.replace("one 3\n", &format!("{instance}\r\n")))
            .unwrap();
        fs::write(worktree.path.join(format!("own {instance}")), "a\r\n").unwrap();
    }
    let standing = stage.repo.tree(&stage.id(1)).unwrap();
    stage.repo.change(&stage.tip(), &standing.tree).unwrap();
    stage.repo.progress(&stage.id(1)).unwrap();
    let landed = stage.land(1);
    let Landed::Done { commit, .. } = &landed else { panic!("{landed:?}") };
    let conflict = stage.land(2);
    assert!(matches!(conflict, Landed::Conflict { .. }), "{conflict:?}");
    stage.repo.keep(&stage.id(3), "kept", 1).unwrap().unwrap();
    let kept = stage.repo.close_worktree(&stage.id(4), "closed", 1).unwrap().kept.unwrap();
    let all = stage.repo.list_kept().unwrap();
    let one = all.iter().find(|one| one.name == kept).unwrap();
    stage.repo.salvage_into(one, &stage.folder.path().join("back")).unwrap();
    assert_eq!(fs::read(stage.folder.path().join("back/own 4")).unwrap(), b"a\r\n", "bytes stay bytes");
    stage.repo.salvage_as_branch(one, "back").unwrap();
    let deliver = || {
        let how = Delivery::FastForward;
        let delivering = Delivering { run: &stage.run, how, message: "m", when: WHEN };
        stage.repo.deliver(&delivering, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap()
    };
    assert!(deliver().summary.contains("attribute `filter`"), "a filter of the person's is theirs to run");
    fs::remove_file(stage.root().join(".git/info/attributes")).unwrap();
    let delivered = deliver();
    assert_eq!((delivered.status, delivered.commit), (DeliveryStatus::Landed, Some(commit.to_string())));
    stage.repo.undo_delivery(&stage.run, "Ada").unwrap();
    assert_eq!(runs(&ran), [""; 0]);
}

#[test]
fn a_git_that_hangs_is_ended() {
    let stage = Stage::new();
    // Git waits for ever: it reads a pipe that nobody writes to.
    let packed = stage.root().join(".git/packed-refs");
    let _ = fs::remove_file(&packed);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &packed,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_bits_truncate(0o600),
        0,
    )
    .unwrap();
    let began = Instant::now();
    let error = open(stage.folder.path(), |settings| settings.limit = Duration::from_millis(300))
        .and_then(|repo| repo.begin(&ftl_folder::id::RunId::of(9)))
        .unwrap_err();
    assert_eq!(error.trouble, ErrorKind::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_repository_that_git_does_not_understand_is_not_opened() {
    let stage = Stage::new();
    git(&stage.root(), &["config", "core.repositoryformatversion", "1"]);
    git(&stage.root(), &["config", "extensions.somethingNew", "true"]);
    let error = open(stage.folder.path(), |_| {}).map(drop).unwrap_err();
    assert!(error.to_string().to_lowercase().contains("somethingnew"), "{error}");
}

#[test]
fn a_replaced_object_does_not_count() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    let blob = git(&stage.root(), &["rev-parse", "main:src/one.txt"]);
    fs::write(stage.root().join("forged"), "forged").unwrap();
    let forged = git(&stage.root(), &["hash-object", "-w", "forged"]);
    git(&stage.root(), &["replace", &blob, &forged]);
    fs::write(worktree.path.join("src/one.txt"), "changed").unwrap();
    let tree = stage.repo.tree(&worktree.id).unwrap().tree;
    let change = stage.repo.change(&worktree.base, &tree).unwrap();
    assert!(change.files[0].before.as_ref().unwrap().text().unwrap().starts_with("one 1\n"));
}

/// Removes every object that no ref names, ours too: nobody has them any more.
fn lose(root: &Path) {
    git(root, &["reflog", "expire", "--all", "--expire=now"]);
    git(root, &["prune", "--expire=now"]);
    fs::remove_dir_all(root.join(".ftl/store/git/chamber/objects")).unwrap();
    fs::create_dir(root.join(".ftl/store/git/chamber/objects")).unwrap();
}

#[test]
fn what_nobody_has_any_more_is_read_from_the_files_again() {
    for is_opened_again in [false, true] {
        let mut stage = Stage::new();
        let worktree = stage.open(1);
        fs::write(worktree.path.join("src/one.txt"), "work on one").unwrap();
        fs::create_dir(worktree.path.join("new")).unwrap();
        fs::write(worktree.path.join("new/file"), "new").unwrap();
        let before = stage.repo.tree(&worktree.id).unwrap();
        lose(&stage.root());
        if is_opened_again {
            stage.repo = open(stage.folder.path(), |_| {}).unwrap();
        }
        assert_eq!(stage.repo.tree(&worktree.id).unwrap(), before, "the files say the same");
        lose(&stage.root());
        let kept = stage.repo.keep(&worktree.id, "kept", WHEN).unwrap().unwrap();
        assert_eq!(stage.git(&["show", &format!("{kept}:new/file")]), "new");
        stage.git(&["update-ref", "-d", &kept]);
        lose(&stage.root());
        let Landed::Done { commit, .. } = stage.land(1) else { panic!("it did not land") };
        assert_eq!(stage.git(&["show", &format!("{commit}:src/one.txt")]), "work on one");
        stage.git(&["fsck", "--connectivity-only"]);
        assert_eq!(stage.repo.examine(Vec::new(), true).unwrap().missing, []);
    }
}

#[test]
fn what_cannot_be_read_again_is_said_after_a_few_tries() {
    let stage = Stage::new();
    let worktree = stage.open(1);
    fs::write(worktree.path.join("src/one.txt"), "work on one").unwrap();
    // The commit that it started from: neither its files nor anybody else have that.
    fs::remove_dir_all(stage.root().join(".git/objects")).unwrap();
    fs::create_dir_all(stage.root().join(".git/objects/pack")).unwrap();
    let repo = open(stage.folder.path(), |_| {}).unwrap();
    let said = repo.keep(&worktree.id, "kept", WHEN).unwrap_err();
    assert_eq!(said.trouble, ErrorKind::Missing, "{said}");
    assert_eq!(fs::read(worktree.path.join("src/one.txt")).unwrap(), b"work on one");
    let missing = repo.examine(Vec::new(), false).unwrap().missing;
    assert!(!missing.is_empty());
}

#[test]
fn a_repository_whose_name_git_would_take_apart_is_worked_in() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a:b \"c\\d\ne");
    make(&root);
    let person = Person { name: "Ada".to_owned(), email: "ada@example.org".to_owned() };
    let settings = Settings { home: None, config: None, ..Settings::of(person) };
    let repo = Repo::open(&StateFolder::at(root), settings).unwrap();
    let (run, id) = (RunId::of(1), WorktreeId::of(&RunId::of(1), InstanceId(1)));
    repo.begin(&run).unwrap();
    let worktree = repo.open_worktree(&id, &run, &mut |_| Ok(())).unwrap();
    fs::write(worktree.path.join("new"), "new").unwrap();
    let landing = Landing { worktree: &id, key: &key(1), tree: None, message: "m", when: WHEN };
    let landed = repo.land(&landing, &Cancel::new(), &mut |_| Ok(Checked::Passed)).unwrap();
    assert!(matches!(landed, Landed::Done { files: 1, .. }), "{landed:?}");
}

#[test]
fn what_is_looked_at_has_an_end() {
    let stage = Stage::new();
    let names = vec![(Namer::Run("run".to_owned()), stage.tip()); MAX_NAMED_OBJECTS];
    let found = stage.repo.examine(names, false).unwrap();
    assert_eq!((found.looked, found.missing.len()), (MAX_NAMED_OBJECTS, 0));
    assert!(found.left_out > 0, "what refs and records name comes first");
    let folder = stage.root().join(".git/refs/ftl/many");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..=MAX_LOCKS_LISTED {
        fs::write(folder.join(format!("{number}.lock")), "").unwrap();
    }
    assert_eq!(stage.repo.examine(Vec::new(), false).unwrap().locks.len(), MAX_LOCKS_LISTED);
    fs::remove_dir_all(&folder).unwrap();
    // A commit that says more than is read of it is listed, and stands in nobody's way.
    let long = stage.folder.path().join("long");
    fs::write(&long, "x".repeat(usize::try_from(MAX_KEPT_BYTES).unwrap())).unwrap();
    for (number, words) in [(1, vec!["-F", long.to_str().unwrap()]), (2, vec!["-m", "Kept abcd-1: short"])] {
        let commit = stage.git(&[&["commit-tree", "HEAD^{tree}"], &words[..]].concat());
        stage.git(&["update-ref", &format!("refs/ftl/kept/abcd-1/{number}"), &commit]);
    }
    let why: Vec<String> = stage.repo.list_kept().unwrap().into_iter().map(|kept| kept.why).collect();
    assert!(why[0].contains("cannot be read") && why[1] == "short", "{why:?}");
}
