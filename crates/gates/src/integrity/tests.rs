//! Tests of the integrity gate: a table of changes with both sides of every file, and inputs that mean harm.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use ftl_code::finding::render_findings;

/// A change out of words: `+new ~changed -gone xmade-executable lLINK>target`.
pub(crate) fn change_of(words: &str) -> Change {
    let content = |kind, text: &str| Some(Content { kind, bytes: Some(text.as_bytes().to_vec()) });
    let files = words.split_whitespace().map(|word| {
        let (sign, path) = word.split_at(1);
        let (path, target) = path.split_once('>').unwrap_or((path, ""));
        let (before, after) = match sign {
            "+" => (None, content(EntryKind::File, "new")),
            "~" => (content(EntryKind::File, "old"), content(EntryKind::File, "new")),
            "-" => (content(EntryKind::File, "old"), None),
            "x" => (content(EntryKind::File, "old"), content(EntryKind::Executable, "old")),
            "l" => (None, content(EntryKind::Link, target)),
            other => panic!("{other}"),
        };
        FileChange { path: path.to_owned(), before, after }
    });
    Change { files: files.collect() }
}

/// A case of the table: what it is called, the brief, the change, what is to be found.
struct Row {
    title: String,
    brief: Brief,
    change: Change,
    wanted: String,
}

/// Reads the table: `## title`, `delta:`, `verify:`, `<<< path` before, `>>> path` after, `===` and the
/// findings.
fn rows(table: &str) -> Vec<Row> {
    table.split("\n## ").skip(1).map(row).collect()
}

fn row(text: &str) -> Row {
    let (body, wanted) = text.split_once("\n===").unwrap_or_else(|| panic!("no ===: {text}"));
    let mut lines = body.lines();
    let title = lines.next().unwrap_or_default().to_owned();
    let mut brief = Brief { delta: vec!["src".to_owned()], verify: "pytest".to_owned(), ..Brief::default() };
    let mut sides: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
    let mut current: Option<(String, usize)> = None;
    for line in lines {
        let side = line
            .strip_prefix("<<< ")
            .map(|path| (path, 0))
            .or(line.strip_prefix(">>> ").map(|path| (path, 1)));
        if let Some((path, side)) = side {
            current = Some((path.to_owned(), side));
            sides.entry(path.to_owned()).or_default()[side] = Some(String::new());
        } else if let Some((path, side)) = &current {
            let text = sides.get_mut(path).and_then(|both| both[*side].as_mut()).unwrap();
            text.push_str(line);
            text.push('\n');
        } else if let Some(delta) = line.strip_prefix("delta:") {
            brief.delta = delta.split_whitespace().map(str::to_owned).collect();
        } else if let Some(verify) = line.strip_prefix("verify: ") {
            brief.verify = verify.to_owned();
        }
    }
    let content = |text: Option<String>| {
        text.map(|text| Content { kind: EntryKind::File, bytes: Some(text.into_bytes()) })
    };
    let files = sides.into_iter().map(|(path, [before, after])| FileChange {
        path,
        before: content(before),
        after: content(after),
    });
    Row { title, brief, change: Change { files: files.collect() }, wanted: wanted.trim().to_owned() }
}

#[test]
fn each_row_is_found_or_let_pass() {
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let tables = [include_str!("tests.txt"), include_str!("settings.txt")];
    for row in tables.iter().flat_map(|table| rows(table)) {
        let findings = look(&row.change, &row.brief);
        for finding in &findings {
            *seen.entry(finding.kind.word()).or_default() += 1;
        }
        let found = render_findings(&findings);
        if found != row.wanted {
            wrong.push(format!("## {}\n--- wanted\n{}\n--- found\n{found}\n", row.title, row.wanted));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ\n{}", wrong.len(), wrong.join("\n"));
    let others = [
        "outside_delta",
        "link_outside",
        "fewer_tests",
        "test_unreadable",
        "more_findings",
        // These are of runs and of the repository, not of the two sides of a file.
        "replay_failed",
        "not_red_first",
        "repository_touched",
        "secret_found",
        "product_replaced",
        "check_silenced",
    ];
    for kind in FindingKind::ALL.iter().map(|kind| kind.word()).filter(|word| !others.contains(word)) {
        assert!(seen.contains_key(kind), "no row finds {kind}");
    }
}

fn brief() -> Brief {
    Brief { delta: vec!["src".to_owned()], verify: "pytest".to_owned(), ..Brief::default() }
}

fn file(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileChange {
    let content = |bytes: Option<&[u8]>| {
        bytes.map(|bytes| Content { kind: EntryKind::File, bytes: Some(bytes.to_vec()) })
    };
    FileChange { path: path.to_owned(), before: content(before), after: content(after) }
}

#[test]
fn a_test_file_that_nobody_can_look_into_is_told() {
    let huge = Content { kind: EntryKind::File, bytes: None };
    let good =
        Content { kind: EntryKind::File, bytes: Some(b"def test_a():\n    assert f() == 1\n".to_vec()) };
    let path = "tests/test_a.py".to_owned();
    let cases = [
        FileChange { path: path.clone(), before: Some(good.clone()), after: Some(huge.clone()) },
        FileChange {
            path: path.clone(),
            before: Some(good.clone()),
            after: Some(Content { bytes: Some(vec![0xff, 0xfe]), ..huge.clone() }),
        },
        FileChange { path: path.clone(), before: Some(huge), after: Some(good.clone()) },
    ];
    for case in cases {
        let found = look(&Change { files: vec![case] }, &brief());
        assert_eq!(found[0].kind, FindingKind::TestUnreadable, "{found:?}");
    }
    let link = Content { kind: EntryKind::Link, bytes: Some(b"/dev/null".to_vec()) };
    let linked = FileChange { path, before: Some(good), after: Some(link) };
    let found = look(&Change { files: vec![linked] }, &brief());
    assert_eq!(found[0].kind, FindingKind::TestFileDeleted);
}

#[test]
fn hostile_texts_take_bounded_time() {
    let started = Instant::now();
    let deep = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(30_000), close.repeat(30_000)).into_bytes()
    };
    let mut nested = String::new();
    for depth in 0..2_000 {
        nested.push_str(&format!("{}try:\n", " ".repeat(depth)));
    }
    let texts: [(&str, Vec<u8>); 7] = [
        ("tests/test_a.py", deep("(", "1", ")")),
        ("tests/a.test.js", deep("describe('a', () => {", "", "})")),
        ("tests/a.rs", deep("mod a {", "", "}")),
        ("a_test.go", deep("func(){", "", "}()")),
        ("tests/test_b.py", vec![b'x'; 900_000]),
        ("tests/test_c.py", b"assert 1\0 == 1\n".repeat(20_000)),
        ("tests/test_d.py", nested.into_bytes()),
    ];
    for (path, bytes) in &texts {
        look(&Change { files: vec![file(path, Some(b"x"), Some(bytes))] }, &brief());
    }
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
}

#[test]
fn many_statements_take_bounded_time() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let asserts = many(4_000, &|at| format!("    assert f{at}(1) == 2\n"));
    let go = |count: usize| {
        let opens = many(count, &|at| format!("t.Run(\"{at}\", func(t *testing.T) {{\n"));
        format!("package a\nfunc TestA(t *testing.T) {{\n{opens}t.Error(1)\n{}}}\n", "})\n".repeat(count))
    };
    let texts: [(&str, String, String); 9] = [
        ("src/a.py", String::new(), format!("import os\n{}", many(15_000, &|at| format!("a{at}.b = 1\n")))),
        ("src/a.go", String::new(), format!("package a\n{}", many(15_000, &|at| format!("var a{at} int\n")))),
        ("src/a.js", String::new(), many(10_000, &|at| format!("a{at}.b = c;\n"))),
        ("src/a.sh", String::new(), "a |\n".repeat(50_000)),
        ("tests/test_a.py", String::new(), "quit()\n".repeat(15_000)),
        (
            "tests/test_b.py",
            format!("def test_a():\n{asserts}"),
            many(4_000, &|at| format!("sys.modules['a{at}'] = f{at}\n")),
        ),
        ("a_test.go", String::new(), go(1_000)),
        ("Makefile", many(20_000, &|at| format!("A{at} = 1\n")), many(20_000, &|at| format!("A{at} = 2\n"))),
        (
            "tests/a.js",
            String::new(),
            format!("it('a', () => {{{}{}", "if (a) {".repeat(300), "expect(a).toBe(1);".repeat(4_000)),
        ),
    ];
    let brief = Brief { verify: "make test".to_owned(), ..brief() };
    for (path, before, after) in &texts {
        let started = Instant::now();
        look(&Change { files: vec![file(path, Some(before.as_bytes()), Some(after.as_bytes()))] }, &brief);
        assert!(started.elapsed() < Duration::from_secs(30), "{path}: {:?}", started.elapsed());
    }
}

#[test]
fn more_tests_than_are_looked_at_do_not_hurt() {
    let many: String = (0..cases::MAX_CASES + 10)
        .map(|at| format!("def test_{at}():\n    assert f({at}) == {at}\n"))
        .collect();
    let found = cases::read("test_a.py", &many).unwrap();
    assert!(found.cases.len() == cases::MAX_CASES && found.is_cut);
    let change = Change { files: vec![file("tests/test_a.py", Some(many.as_bytes()), Some(b"x = 1\n"))] };
    let found = look(&change, &brief());
    assert_eq!(found.len(), crate::MAX_FINDINGS);
    assert!(found.iter().all(Finding::stops));
}

#[test]
fn a_file_with_too_many_tests_or_assertions_is_never_called_fine() {
    let tests = |count: usize| {
        (0..count).map(|at| format!("def test_{at}():\n    assert f() == 1\n")).collect::<String>()
    };
    let look_at = |before: &str, after: &str| {
        let found = look(
            &Change { files: vec![file("tests/test_a.py", Some(before.as_bytes()), Some(after.as_bytes()))] },
            &brief(),
        );
        found.iter().any(|one| one.kind == FindingKind::TestUnreadable)
    };
    assert!(!look_at(&tests(cases::MAX_CASES), &format!("{}x = 1\n", tests(cases::MAX_CASES))));
    assert!(look_at(&tests(cases::MAX_CASES + 1), &tests(cases::MAX_CASES)));
    let asserts = |count: usize, value: usize| {
        let lines = (0..count).map(|at| format!("    assert f({at}) == {value}\n"));
        format!("def test_a():\n{}", lines.collect::<String>())
    };
    assert!(!look_at(&asserts(500, 1), &asserts(500, 2)));
    assert!(look_at(&asserts(501, 1), &asserts(501, 2)));
}

#[test]
fn a_chain_of_targets_that_is_too_long_is_taken_as_used() {
    let chain = |count: usize, last: &str| {
        let rules = (0..count).map(|at| format!("t{at}: t{}\n", at + 1));
        format!("{}t{count}:\n\t{last}\nother:\n\t{last}\n", rules.collect::<String>())
    };
    let brief =
        Brief { delta: vec!["Makefile".to_owned()], verify: "make t0".to_owned(), ..Brief::default() };
    let told_of = |count: usize| {
        let (before, after) = (chain(count, "a"), chain(count, "b"));
        let change =
            Change { files: vec![file("Makefile", Some(before.as_bytes()), Some(after.as_bytes()))] };
        look(&change, &brief).iter().filter(|one| one.stops()).count()
    };
    assert_eq!(told_of(100), 1, "only the target that is used");
    assert_eq!(told_of(300), 2, "nobody knows which are used");
}

#[test]
fn ten_thousand_files_are_looked_at() {
    let text = "def test_a():\n    assert f() == 1\n";
    let files = (0..10_000).map(|at| {
        file(
            &format!("tests/test_{at}.py"),
            Some(text.as_bytes()),
            Some(b"def test_a():\n    assert f() == 1\n\n"),
        )
    });
    let started = Instant::now();
    let found = look(&Change { files: files.collect() }, &brief());
    let kinds: Vec<FindingKind> = found.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [FindingKind::EmptyChange]);
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
}

const PATHS: [&str; 14] = [
    "tests/test_a.py",
    "conftest.py",
    "src/lib.rs",
    "tests/a.rs",
    "a_test.go",
    "a.test.ts",
    "a.test.jsx",
    "package.json",
    "pyproject.toml",
    "Cargo.toml",
    "tox.ini",
    "Makefile",
    ".github/workflows/ci.yml",
    "ATest.java",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_break_the_gate(
        path in proptest::sample::select(PATHS.to_vec()),
        before in proptest::collection::vec(any::<u8>(), 0..300),
        after in "[a-z(){}\\[\\]'\"`:;=.,#@! \n\t0-9é]{0,300}",
    ) {
        look(&Change { files: vec![file(path, Some(&before), Some(after.as_bytes()))] }, &brief());
        look(&Change { files: vec![file(path, Some(after.as_bytes()), Some(&before))] }, &brief());
    }

    #[test]
    fn no_pieces_of_code_break_the_gate(
        path in proptest::sample::select(PATHS.to_vec()),
        before in proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..40),
        after in proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..40),
    ) {
        let (before, after) = (before.concat(), after.concat());
        look(&Change { files: vec![file(path, Some(before.as_bytes()), Some(after.as_bytes()))] }, &brief());
    }
}

const PIECES: [&str; 36] = [
    "def test_a():\n",
    "    assert ",
    "x == 1\n",
    "class A:\n",
    "@pytest.mark.skip\n",
    "try:\n",
    "except: pass\n",
    "with suppress(",
    "it('a', () => {",
    "})",
    "expect(",
    ").toBe(",
    "describe.only(",
    "#[test]\n",
    "fn a() { ",
    "}",
    "assert_eq!(",
    ")",
    "mod a {",
    "#[ignore]",
    "func TestA(t *testing.T) {",
    "t.Run(\"a\", ",
    "if a != b { ",
    "t.Errorf(",
    "\n",
    "{",
    "[tool.pytest]\n",
    "addopts = ",
    "\"scripts\": ",
    "test: a b\n\t",
    "\"",
    "'",
    "é",
    "[[test]]\n",
    "name = 1\n",
    "$$$",
];
