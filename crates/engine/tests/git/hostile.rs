//! A repository whose configuration, hooks and attributes are an attacker's: none of the attacker's
//! programs runs, whatever we do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ftl_core::catalogue::build::{Delivery, DeliveryStatus};
use ftl_engine::git::{Checked, Delivering, Landed, Trouble};
use ftl_engine::process::Cancel;

use crate::support::{Stage, WHEN, command, git, open};

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
    let all = stage.repo.kept().unwrap();
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
        .and_then(|repo| repo.begin(&ftl_engine::id::RunId::of(9)))
        .unwrap_err();
    assert_eq!(error.trouble, Trouble::TimedOut);
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
