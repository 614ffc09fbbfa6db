//! What succeeds without a sandbox, at `partial`, and at `full`.

use std::collections::BTreeSet;

use ftl_needs::needs;

use crate::stage::{NOBODY, Stage};

/// How many attacks there are at least.
const ATTACKS: usize = 44;

/// How many of them succeed at least where nothing holds them back; else the test proves nothing.
const SUCCEED: usize = 30;

/// What `partial` does not stop: it has no mounts of its own, so it cannot keep attributes of files, a file in the own
/// folder, or one file of a folder that root may read; and memory that processes share has no path.
const PARTIAL_LETS: [&str; 5] =
    ["chmod_outside", "touch_outside", "replace_git_pointer", "read_shared_memory", "read_shadow"];

fn succeeded(stage: &Stage, level: &str) -> BTreeSet<String> {
    let all = stage.attack(level);
    assert!(all.len() >= ATTACKS, "only {} attacks were tried", all.len());
    let got = |(name, got): (String, Result<String, String>)| {
        got.ok().filter(|got| !got.is_empty())?;
        is_real(stage, &name).then_some(name)
    };
    all.into_iter().filter_map(got).collect()
}

/// Whether what was written is there outside: a private home and a private folder of git may be written.
fn is_real(stage: &Stage, name: &str) -> bool {
    let file = match name {
        "write_home_rc" | "link_out" => "home/.bashrc",
        "write_worktree_config" => "repo/.git/worktrees/a/config.worktree",
        _ => return true,
    };
    std::fs::read_to_string(stage.at(file)).is_ok_and(|text| text.contains("attacked"))
}

/// Nothing succeeds at `full`, and from outside nothing has changed and nobody came.
fn nothing_gets_out(user: u32) {
    let stage = Stage::new(user);
    let before = stage.world();
    assert_eq!(succeeded(&stage, "full"), BTreeSet::new());
    assert_eq!(stage.world(), before);
    assert_eq!(stage.visitors(), "");
}

#[needs(python3, root)]
#[test]
fn without_a_sandbox_most_attacks_of_an_ordinary_user_succeed() {
    let got = succeeded(&Stage::new(NOBODY), "none");
    assert!(got.len() >= SUCCEED, "{}: {got:?}", got.len());
}

#[needs(python3, root)]
#[test]
fn nothing_gets_out_of_the_full_sandbox_of_an_ordinary_user() {
    nothing_gets_out(NOBODY);
}

#[needs(python3, root)]
#[test]
fn nothing_gets_out_of_the_full_sandbox_of_root() {
    nothing_gets_out(0);
}

#[needs(python3, root)]
#[test]
fn the_partial_sandbox_lets_through_what_is_known() {
    for user in [NOBODY, 0] {
        let got = succeeded(&Stage::new(user), "partial");
        let unknown: Vec<&String> =
            got.iter().filter(|name| !PARTIAL_LETS.contains(&name.as_str())).collect();
        assert_eq!(unknown, Vec::<&String>::new(), "user {user}");
    }
}

#[needs(python3, root)]
#[test]
fn without_namespaces_full_is_refused_and_partial_is_had() {
    let stage = Stage::new(NOBODY);
    let words = |level: &str| {
        let at = |path: &str| stage.at(path).display().to_string();
        let (boxed, guard, repo, home) = (at("boxed"), at("guard"), at("repo"), at("home"));
        let work = stage.work().display().to_string();
        format!(
            "echo 0 > /proc/sys/user/max_user_namespaces; \
             exec setpriv --bounding-set -all --inh-caps -all env HOME={home} {boxed} {guard} {level} {repo} {work} \
             {home}/attempts -- sh -c 'echo inside'"
        )
    };
    let run = |level: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "unshare",
            "-Ur",
            "sh",
            "-c",
        ]);
        command.arg(words(level)).env("PATH", "/usr/bin:/bin").output().unwrap()
    };
    let (full, partial) = (run("full"), run("partial"));
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(!full.status.success() && said.contains("namespaces of its own"), "{said}");
    assert_eq!(String::from_utf8_lossy(&partial.stdout), "inside\n");
}
