//! Files that are not what they should be.

use crate::support::{Dir, MINE};

#[test]
fn a_missing_file() {
    let dir = Dir::new();
    for word in ["nope.md", "no/such", "./nope"] {
        for command in ["check", "draw"] {
            dir.ftl(&[command, word]).code(1).says(&["error: there is no file `", "hint:"]);
        }
    }
    let found = dir.ftl(&["check", "nope.md", "--json"]).code(1).json();
    assert_eq!((&found["ok"], &found["problems"][0]["code"]), (&false.into(), &"unreadable".into()));
    assert!(found["problems"][0]["line"].is_null());
}

#[test]
fn a_folder_in_place_of_a_file() {
    let dir = Dir::new();
    dir.write("docs/mine.md", MINE);
    for word in ["docs", "docs/", "./docs"] {
        dir.ftl(&["check", word]).code(1).says(&["is a folder, not a document", "docs/*.md"]);
    }
    // A folder that has a protocol's name does not hide the protocol.
    dir.write("task/x", "");
    dir.ftl(&["check", "task"]).code(0);
    dir.ftl(&["check", "./task"]).code(1).says(&["is a folder"]);
}

#[test]
fn a_file_that_is_not_text() {
    let dir = Dir::new();
    dir.write("bad.md", b"# one\n\xff\xfe").write("mine.md", MINE);
    dir.ftl(&["check", "bad.md"])
        .code(1)
        .says(&["error: `bad.md` is not UTF-8 text: line 2", "hint: save it as UTF-8"]);
    // The others are checked all the same.
    dir.ftl(&["check", "bad.md", "mine.md"])
        .code(1)
        .says(&["✓ mine", "1 protocol checked, 1 sound; 1 error"]);
    dir.ftl(&["draw", "bad.md"]).code(1).says(&["not UTF-8"]);
}

#[test]
fn a_file_that_is_too_large() {
    let dir = Dir::new();
    dir.write("big.md", "x".repeat(2 << 20));
    dir.ftl(&["check", "big.md"]).code(1).says(&["error: `big.md` has more than 1024 KiB", "hint:"]);
    let most = format!("{MINE}\n{}", "y ".repeat((1 << 19) - MINE.len()));
    dir.write("mine.md", most);
    dir.ftl(&["check", "mine.md"]).code(0);
}

#[test]
fn an_empty_file_and_an_empty_name() {
    let dir = Dir::new();
    dir.write("empty.md", "");
    dir.ftl(&["check", "empty.md"]).code(1).says(&["error[", "empty.md:1:1"]);
    dir.ftl(&["check", ""]).code(1).says(&["there is no protocol ``"]);
}

#[test]
fn bad_user_documents_do_not_hide_the_others() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/bad.md", b"\xff").write(".ftl/protocols/big.md", "x".repeat(2 << 20));
    dir.write(".ftl/protocols/mine.md", MINE).write(".ftl/protocols/notes.txt", b"\xff");
    dir.write(".ftl/protocols/.hidden.md", b"\xff").write(".ftl/protocols/deeper/other.md", b"\xff");
    let ended =
        dir.ftl(&["check"]).code(1).says(&["bad.md` is not UTF-8", "big.md` has more than", "✓ mine"]);
    assert!(ended.out.ends_with("6 protocols checked, 6 sound; 2 errors, 0 warnings\n"));
    assert!(!ended.err.contains("hidden") && !ended.err.contains("other"));
    dir.ftl(&["check", "bad"]).code(1).says(&["error: `.ftl/protocols/bad.md`"]);
    dir.ftl(&["check", "mine"]).code(0).says(&["warning: `.ftl/protocols/bad.md`"]);
    dir.ftl(&["protocols"]).code(0).says(&["mine", "warning: `.ftl/protocols/bad.md`"]);
    dir.ftl(&["draw", "mine"]).code(0).says(&["stateDiagram-v2", "warning:"]);
    dir.ftl(&["draw", "bad"]).code(1).says(&["error: `.ftl/protocols/bad.md`"]);
    let found = dir.ftl(&["check", "--json"]).code(1).json();
    assert_eq!(found["problems"].as_array().unwrap().len(), 2);
}

#[test]
fn a_folder_of_protocols_that_is_a_file() {
    let dir = Dir::new();
    dir.write(".ftl/protocols", "");
    dir.ftl(&["check"])
        .code(1)
        .says(&["error: `.ftl/protocols` cannot be read", "5 protocols checked, 5 sound"]);
}

#[cfg(unix)]
#[test]
fn no_link_is_followed_below_the_state_folder_and_pipes_are_not_waited_for() {
    use std::os::unix::fs::symlink;

    let dir = Dir::new();
    dir.write("docs/mine.md", MINE).write(".ftl/protocols/keep", "");
    symlink("../../docs/mine.md", dir.path(".ftl/protocols/mine.md")).unwrap();
    // Issue 16, item 1: a repository that comes with a link has nothing read through it.
    dir.ftl(&["check", "mine"]).code(1).says(&["mine.md` is a link, and is not followed", "hint:"]);
    symlink("nowhere.md", dir.path(".ftl/protocols/lost.md")).unwrap();
    dir.ftl(&["check"]).code(1).says(&["lost.md` is a link", "5 sound"]);
    symlink("/dev/zero", dir.path(".ftl/protocols/zero.md")).unwrap();
    dir.ftl(&["check"]).code(1).says(&["zero.md` is a link"]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path(".ftl/protocols/pipe.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    dir.ftl(&["check"]).code(1).says(&["pipe.md` is not an ordinary file"]);
    // Elsewhere links are the person's, and followed.
    symlink("docs/mine.md", dir.path("here.md")).unwrap();
    dir.ftl(&["check", "here.md"]).code(0);
    symlink("/dev/zero", dir.path("zero.md")).unwrap();
    dir.ftl(&["check", "zero.md"]).code(1).says(&["has more than"]);
}

#[test]
fn a_document_cannot_speak_to_the_terminal() {
    let dir = Dir::new();
    dir.write("evil.md", "```protocol\nPROTOCOL: evil\n\u{1b}[31mSTATE: A\u{7}\n```\n");
    let ended = dir.ftl(&["check", "evil.md", "--color", "always"]).code(1);
    assert!(!ended.out.contains("\u{1b}[31mSTATE") && !ended.out.contains('\u{7}'), "{}", ended.out);
}
