//! Which folder a command is about.

use std::fs;

use crate::support::{CommandOutcome, Dir, MINE, ended};

fn below(dir: &Dir, folder: &str, args: &[&str]) -> CommandOutcome {
    fs::create_dir_all(dir.path(folder)).unwrap();
    let mut command = dir.command(args);
    command.current_dir(dir.path(folder));
    ended(command)
}

#[test]
fn the_protocols_of_the_repository_are_found_from_below() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/mine.md", MINE);
    below(&dir, "src/deep", &["check", "mine"]).code(0).says(&["✓ mine"]);
}

#[test]
fn the_nearest_state_folder_counts_and_none_above_git() {
    let dir = Dir::new();
    dir.write("inner/.ftl/protocols/mine.md", MINE);
    below(&dir, "inner/src", &["check", "mine"]).code(0);
    dir.ftl(&["check", "mine"]).code(1);
    dir.write(".ftl/protocols/mine.md", MINE).write("module/.git", "gitdir: elsewhere\n");
    below(&dir, "module/src", &["check", "mine"]).code(1);
}

#[test]
fn a_named_repository_is_the_root() {
    let dir = Dir::new();
    dir.write("other/.ftl/protocols/mine.md", MINE);
    dir.ftl(&["--repo", "other", "check", "mine"]).code(0).says(&["(other/.ftl/protocols/mine.md)"]);
    dir.ftl(&["check", "--repo", "other", "mine"]).code(0);
    dir.ftl(&["check", "--repo", "nope"]).code(1).says(&["error: --repo: `nope` does not exist", "hint:"]);
    // A document is named from where one stands, not from the root.
    dir.write("draft.md", MINE);
    dir.ftl(&["--repo", "other", "check", "draft.md"]).code(0);
}

#[test]
fn the_name_of_a_person_is_taken() {
    let dir = Dir::new();
    dir.ftl(&["--by", "Ada", "protocols"]).code(0);
    dir.ftl(&["protocols", "--by", "Ada"]).code(0);
}
