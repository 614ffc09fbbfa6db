//! `ftl draw`.

use serde_json::json;

use crate::support::{Dir, MINE, built_in, snapshot};

const BROKEN: &str = include_str!("documents/broken.md");
const UNREADABLE: &str = include_str!("documents/unreadable.md");

#[test]
fn the_edges_are_those_of_the_specification() {
    let dir = Dir::new();
    for (name, count) in [("coder", 23), ("lifecycle", 19), ("builder", 18), ("task", 8), ("campaign", 12)] {
        let text = dir.ftl(&["draw", name, "--format", "edges"]).code(0).out;
        snapshot(&format!("edges-{name}"), &text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), count, "{name}");
        let mut sorted = lines.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(lines, sorted, "{name}");
        assert!(lines.iter().all(|line| line.split(' ').count() == 2), "{name}");
    }
}

#[test]
fn every_format_draws() {
    let dir = Dir::new();
    dir.write("mine.md", MINE);
    for (format, start) in
        [("mermaid", "stateDiagram-v2\n"), ("table", "| From | To |"), ("dot", "digraph"), ("svg", "<svg ")]
    {
        let text = dir.ftl(&["draw", "mine.md", "--format", format]).code(0).out;
        assert!(text.starts_with(start), "{format}: {text}");
        let found = dir.ftl(&["draw", "mine.md", "-f", format, "--json"]).code(0).json();
        assert_eq!(found, json!({ "version": 1, "name": "mine", "format": format, "text": text }));
    }
    let usual = dir.ftl(&["draw", "mine.md"]).out;
    assert_eq!(usual, dir.ftl(&["draw", "mine.md", "--format", "mermaid"]).out);
}

#[test]
fn what_is_drawn_is_the_program_not_the_drawing() {
    let dir = Dir::new();
    dir.write("mine.md", MINE.replace("    LOOK --> DONE : green\n", "    DONE --> LOOK\n"));
    assert_eq!(dir.ftl(&["draw", "mine.md", "-f", "edges"]).code(0).out, "LOOK DONE\nLOOK LOOK\nLOOK STOP\n");
}

#[test]
fn write_mends_the_document_once() {
    let dir = Dir::new();
    let worn = MINE
        .replace("    LOOK --> DONE : green\n", "    DONE --> STOP\n")
        .replace("| LOOK | STOP | looks spent |\n", "");
    dir.write("mine.md", &worn);
    dir.ftl(&["check", "mine.md"]).code(1);
    let ended = dir.ftl(&["draw", "mine.md", "--write"]).code(0);
    snapshot("draw-write", &ended.out);
    dir.ftl(&["check", "mine.md"]).code(0);
    let mended = dir.read("mine.md");
    assert_eq!(dir.ftl(&["draw", "mine.md", "--write"]).code(0).out, "mine.md: already up to date\n");
    assert_eq!(dir.read("mine.md"), mended);
    let found = dir.ftl(&["draw", "mine.md", "--write", "--json"]).code(0).json();
    assert_eq!(found, json!({ "version": 1, "path": "mine.md", "changed": false, "left": [] }));
    dir.write("mine.md", &worn);
    let found = dir.ftl(&["draw", "mine.md", "--write", "--format", "table", "--json"]).code(0).json();
    assert_eq!(found["changed"], true);
    assert_eq!(dir.read("mine.md"), mended);
}

#[test]
fn write_finds_a_user_document_by_its_name() {
    let dir = Dir::new();
    dir.write(".ftl/protocols/mine.md", MINE.replace("| LOOK | DONE | green |\n", ""));
    dir.ftl(&["draw", "mine", "--write"]).code(0).says(&["+ LOOK → DONE"]);
    dir.ftl(&["check", "mine"]).code(0);
}

#[test]
fn a_built_in_protocol_has_no_file_to_write_to() {
    let dir = Dir::new();
    let ended = dir.ftl(&["draw", "coder", "--write"]).code(1);
    snapshot("write-built-in", &ended.err);
    dir.write("protocols/coder.md", built_in("coder"));
    dir.ftl(&["draw", "protocols/coder.md", "--write"]).code(0).says(&["already up to date"]);
}

#[test]
fn a_table_of_steps_needs_a_hand() {
    let dir = Dir::new();
    let worn = built_in("builder").replace("| PLAN | BLOCK |\n", "| BLOCK | BLOCK |\n");
    assert_ne!(worn, built_in("builder"));
    dir.write("builder.md", &worn);
    dir.ftl(&["draw", "builder.md", "--write"]).code(1).says(&["error: builder.md:", "READ → PLAN", "hint:"]);
    assert_eq!(dir.read("builder.md"), worn);
}

#[test]
fn a_document_that_is_not_sound_is_left_alone() {
    let dir = Dir::new();
    dir.write("broken.md", BROKEN).write("unreadable.md", UNREADABLE);
    dir.ftl(&["draw", "broken.md"]).code(0).says(&["A --> B"]);
    let ended = dir
        .ftl(&["draw", "broken.md", "--write"])
        .code(1)
        .says(&["error[unknown-field]", "error: `broken` is not sound"]);
    assert_eq!(ended.out, "");
    assert_eq!(dir.read("broken.md"), BROKEN);
    let ended = dir.ftl(&["draw", "unreadable.md"]).code(1).says(&["error[syntax]"]);
    assert_eq!(ended.out, "");
    let found = dir.ftl(&["draw", "unreadable.md", "--json"]).code(1).json();
    assert_eq!((&found["ok"], found["problems"].as_array().unwrap().is_empty()), (&json!(false), false));
}

#[test]
fn output_writes_a_file() {
    let dir = Dir::new();
    let text = dir.ftl(&["draw", "coder", "-f", "svg"]).out;
    let ended = dir.ftl(&["draw", "coder", "-f", "svg", "--output", "coder.svg"]).code(0);
    assert_eq!((ended.out.as_str(), dir.read("coder.svg")), ("coder.svg: written\n", text.clone()));
    dir.ftl(&["draw", "coder", "-f", "svg", "-o", "coder.svg"]).code(0).says(&["already up to date"]);
    assert_eq!(dir.ftl(&["draw", "coder", "-f", "svg", "-o", "-"]).code(0).out, text);
    dir.ftl(&["draw", "coder", "-o", "no/folder/x"]).code(1).says(&["error:", "no/folder/x", "hint:"]);
    let found = dir.ftl(&["draw", "coder", "-f", "dot", "-o", "c.dot", "--json"]).code(0).json();
    assert_eq!(
        found,
        json!({ "version": 1, "name": "coder", "format": "dot", "path": "c.dot", "changed": true })
    );
}

#[test]
fn an_unknown_name_gets_help() {
    Dir::new().ftl(&["draw", "codr"]).code(1).says(&["there is no protocol `codr`", "did you mean `coder`?"]);
}

#[cfg(unix)]
#[test]
fn writing_keeps_permissions_and_links_and_leaves_nothing_behind() {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let dir = Dir::new();
    dir.write("docs/mine.md", MINE.replace("| LOOK | DONE | green |\n", ""));
    let real = dir.path("docs/mine.md");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(dir.path("links")).unwrap();
    symlink(&real, dir.path("links/mine.md")).unwrap();
    dir.ftl(&["draw", "links/mine.md", "--write"]).code(0).says(&["brought up to date"]);
    assert!(dir.path("links/mine.md").is_symlink());
    assert!(dir.read("docs/mine.md").contains("| LOOK | DONE |"));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o440)).unwrap();
    dir.ftl(&["draw", "coder", "-o", "docs/mine.md"]).code(1).says(&["docs/mine.md", "read-only", "hint:"]);
    for folder in ["docs", "links"] {
        assert_eq!(fs::read_dir(dir.path(folder)).unwrap().count(), 1, "{folder}");
    }
}

#[test]
fn a_document_without_a_drawing_is_told_how_to_get_one() {
    let dir = Dir::new();
    dir.write(
        "plain.md",
        "```protocol\nPROTOCOL: plain\nSTATE: A\n  GOTO: B\nSTATE: B\n  RETURN: complete\n```\n",
    );
    let said = dir
        .ftl(&["draw", "plain.md", "--write"])
        .code(0)
        .says(&["plain.md: has no drawing", "stateDiagram-v2"]);
    assert!(!said.out.contains("up to date"), "{said:#?}");
    let empty = "```mermaid\nstateDiagram-v2\n```\n";
    dir.write("plain.md", format!("{}{empty}", dir.read("plain.md")));
    dir.ftl(&["draw", "plain.md", "--write"]).code(0).says(&["brought up to date", "A → B"]);
}
