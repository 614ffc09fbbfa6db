//! Tests of the code context: lines, surfaces by language, syntax, and everything that is not a source file.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Instant;

use super::*;

fn numbered(count: usize) -> Vec<u8> {
    (1..=count).map(|line| format!("line {line}\n")).collect::<String>().into_bytes()
}

#[test]
fn lines_by_the_rules() {
    let lines = |first, last| Some(LineRange { first, last });
    // lines in the file (a trailing line end counts as one more), wanted, label, first and last shown
    let cases = [
        (3, None, "1-4", "line 1", ""),
        (100, None, "1-60", "line 1", "line 60"),
        (100, lines(41, 90), "1-15,41-90", "line 1", "line 90"),
        (100, lines(16, 20), "1-20", "line 1", "line 20"),
        (100, lines(3, 20), "1-20", "line 1", "line 20"),
        (100, lines(2, 9), "1-15", "line 1", "line 15"),
        (100, lines(90, 500), "1-15,90-101", "line 1", ""),
        (100, lines(300, 500), "1-15", "line 1", "line 15"),
        (5, lines(2, 4), "1-6", "line 1", ""),
        (0, None, "1-1", "", ""),
    ];
    for (count, wanted, label, first, last) in cases {
        let found = extract("a.txt", &numbered(count), wanted);
        let text = String::from_utf8(found.content).unwrap();
        assert_eq!(found.lines, label);
        assert_eq!(text.split('\n').next(), Some(first), "{label}");
        assert_eq!(text.split('\n').next_back(), Some(last), "{label}");
    }
    let gap = |path: &str| String::from_utf8(extract(path, &numbered(50), lines(30, 31)).content).unwrap();
    assert!(gap("a.py").contains("line 15\n# ... lines 16-29 omitted ...\nline 30\n"));
    assert!(gap("a.rs").contains("\n// ... lines 16-29 omitted ...\n"));
}

const PYTHON: &str = r#"from __future__ import annotations
import os, sys
from typing import (
    Any,
    List,
)

LIMIT = 5
LIMIT = 6
name: str = "x"
a, b = 1, 2
obj.field = 3

def add(a: int, b: int = 2) -> int:
    def inner(): pass
    return a + b

async def fetch(
    url: str,
    *,
    retries: int = 3,
) -> bytes:
    ...

@decorated
def view(request): ...

class Thing(Base):
    def method(self): ...

if True:
    hidden = 1
"#;

const RUST: &str = r#"//! Docs.
use std::{fs, io};
pub use crate::other::Other;

pub const MAX: usize = 3;
const SMALL: usize = 1;
pub struct Point<T> { x: T }
struct Inner;
pub enum Kind { A }
pub trait Shape { fn area(&self) -> f64; }
pub fn add(a: i32, b: i32) -> i32 { a + b }
fn hidden() {}
pub(crate) async fn go<T: Clone>(item: T) -> io::Result<()>
where T: Send { Ok(()) }
impl<T> Point<T> {
    pub fn new(x: T) -> Self { Point { x } }
    fn secret(&self) {}
}
impl Shape for Inner { fn area(&self) -> f64 { 0.0 } }
macro_rules! twice { ($x:expr) => { $x } }
pub mod nested { pub fn deep() {} }
"#;

const TYPESCRIPT: &str = r#"import { a } from "./a";
import type { B } from './b';
const fs = require("fs");
export function add(a: number, b: number): number { return a + b; }
function hidden() {}
export class Thing<T> extends Base { method() {} }
export const go = async (x: string): Promise<void> => {};
export const LIMIT = 5, OTHER = 6;
export interface Shape { area(): number }
export type Name = string;
export enum Kind { A }
export { hidden as shown, a };
export * from "./c";
export default class Main {}
"#;

const JAVASCRIPT: &str = r#"const path = require("path");
function add(a, b) { return a + b; }
exports.one = 1;
module.exports.two = function () {};
module.exports = { add, three: 3, four() {} };
export default () => 1;
"#;

const GO: &str = r#"package server

import "fmt"
import (
	"net/http"
	log "example.org/log"
)

const (
	MaxSize, minSize = 1, 2
	Other = 3
)
var Default = New()
var hidden int
type Server struct{ addr string }
type inner struct{}
func New(addr string, opts ...Option) (*Server, error) { return nil, nil }
func helper() {}
func (s *Server) Start(ctx context.Context) error { return nil }
func (s *Server) stop() {}
"#;

const RUBY: &str =
    "require 'json'\n\nclass Thing\n  def inner\n  end\nend\n\ndef top(a)\nend\nmodule Deep; end\n";

#[test]
fn surfaces_by_language() {
    let cases = [
        (
            "a.py",
            PYTHON,
            "LIMIT, name, add(a: int, b: int = 2) -> int, fetch(url: str, *, retries: int = 3) -> bytes, view(request), Thing",
            "from __future__ import annotations\nimport os, sys\nfrom typing import (Any, List)",
        ),
        (
            "a.rs",
            RUST,
            "crate::other::Other, MAX, Point, Kind, Shape, add(a: i32, b: i32) -> i32, go<T: Clone>(item: T) -> io::Result<()> where T: Send, Point::new(x: T) -> Self, twice!, nested",
            "use std::{fs, io}\npub use crate::other::Other",
        ),
        (
            "a.ts",
            TYPESCRIPT,
            "add(a: number, b: number): number, Thing, go(x: string): Promise<void>, LIMIT, OTHER, Shape, Name, Kind, shown, a, * from \"./c\", Main",
            "import { a } from \"./a\"\nimport type { B } from './b'\nconst fs = require(\"fs\")",
        ),
        ("a.js", JAVASCRIPT, "one, two, add, three, four, default", "const path = require(\"path\")"),
        (
            "a.go",
            GO,
            "MaxSize, Other, Default, Server, New(addr string, opts ...Option) (*Server, error), (s *Server) Start(ctx context.Context) error",
            "import \"fmt\"\nimport \"net/http\"\nimport log \"example.org/log\"",
        ),
        ("a.rb", RUBY, "Thing, top, Deep", "require 'json'"),
        ("a.tsx", "export const App = (props: P) => <div>{props.x}</div>;\n", "App(props: P)", ""),
    ];
    for (path, source, exports, imports) in cases {
        let found = extract(path, source.as_bytes(), None);
        assert_eq!(found.exports, exports, "{path}");
        assert_eq!(found.imports, imports, "{path}");
    }
}

#[test]
fn broken_code_still_has_a_surface() {
    let found = extract(
        "a.py",
        b"def fine(x):\n    return x\n\ndef broken(:\n    pass\n\ndef also_fine():\n    pass\n",
        None,
    );
    assert!(found.exports.contains("fine(x)") && found.exports.contains("also_fine()"), "{}", found.exports);
}

#[test]
fn syntax_by_language() {
    let clean = [
        ("a.py", PYTHON),
        ("a.rs", RUST),
        ("a.ts", TYPESCRIPT),
        ("a.mjs", JAVASCRIPT),
        ("a.go", GO),
        ("a.json", "{\"a\": 1}"),
        ("a.toml", "a = 1"),
        ("a.py", ""),
    ];
    for (path, text) in clean {
        assert_eq!(syntax_check(path, text), SyntaxReport::Clean, "{path}");
    }
    let broken = [
        ("a.py", "x = 1\ndef f(:\n    pass\n", 2),
        ("a.rs", "fn a() {}\n\nfn b( {\n", 3),
        ("a.ts", "const a = 1;\nconst = 3;\n", 2),
        ("a.js", "function f() {\n  return (1;\n}\n", 2),
        ("a.go", "package a\n\nfunc f() {\n\tx := \n}\n", 4),
        ("a.tsx", "const a = <div>;\n", 1),
        ("a.json", "{\"a\": 1,\n \"b\": }", 2),
        ("a.toml", "a = 1\nb = = 2\n", 2),
    ];
    for (path, text, line) in broken {
        let SyntaxReport::Broken(errors) = syntax_check(path, text) else { panic!("{path} is broken") };
        assert!(errors.iter().any(|error| error.line == line), "{path}: {errors:?}");
        assert!(errors.iter().all(|error| !error.message.is_empty()));
    }
    assert_eq!(syntax_check("a.rb", "def"), SyntaxReport::NotChecked("no parser for a.rb".to_owned()));
    let many = "def f(:\n    pass\n\n".repeat(100);
    let SyntaxReport::Broken(errors) = syntax_check("a.py", &many) else { panic!("is broken") };
    assert!(errors.len() <= MAX_SYNTAX_ERRORS);
    let huge = "x = 1\n".repeat(MAX_PARSED_BYTES / 6 + 1);
    assert!(matches!(syntax_check("a.py", &huge), SyntaxReport::NotChecked(_)));
}

#[test]
fn a_change_is_blamed_only_for_what_it_broke() {
    let (good, bad) = ("x = 1\n", "def f(:\n");
    assert!(matches!(syntax_of_change("a.py", Some(good), bad), SyntaxReport::Broken(_)));
    assert!(matches!(syntax_of_change("a.py", None, bad), SyntaxReport::Broken(_)));
    assert!(matches!(syntax_of_change("a.py", Some(bad), bad), SyntaxReport::NotChecked(_)));
    assert_eq!(syntax_of_change("a.py", Some(bad), good), SyntaxReport::Clean);
}

#[test]
fn hostile_sources_take_no_more_than_their_share() {
    let deep = |open: &str| open.repeat(MAX_PARSED_BYTES / open.len() - 1);
    let began = Instant::now();
    for (path, text) in [
        ("a.py", deep("(")),
        ("a.rs", deep("{[(")),
        ("a.ts", deep("<a>")),
        ("a.go", deep("func(")),
        ("a.js", deep("`${")),
    ] {
        let found = extract(path, text.as_bytes(), None);
        assert!(found.is_cut && found.content.len() <= MAX_SHOWN_BYTES);
        drop(syntax_check(path, &text));
        println!("{path}: {:?}", began.elapsed());
    }
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn lists_have_limits() {
    let many: String =
        (0..MAX_EXPORTS + 50).map(|at| format!("def f{at}():\n    pass\nimport m{at}\n")).collect();
    let found = extract("a.py", many.as_bytes(), None);
    assert_eq!(found.exports.split(", ").count(), MAX_EXPORTS);
    assert_eq!(found.imports.lines().count(), MAX_IMPORTS);
    let long = format!("def f({}):\n    pass\n", "a, ".repeat(1000));
    assert!(extract("a.py", long.as_bytes(), None).exports.ends_with('…'));
}

#[test]
fn what_is_not_a_source_file_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("repo");
    fs::create_dir_all(root.join("pkg")).unwrap();
    fs::write(folder.path().join("secret.py"), "TOKEN = 1\n").unwrap();
    symlink(folder.path().join("secret.py"), root.join("link.py")).unwrap();
    symlink("loop.py", root.join("loop.py")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe.py"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::write(root.join("bytes.py"), b"x = '\xff\xfe'\r\n\x0cdef f():\n\0").unwrap();
    fs::write(root.join("long.js"), "x".repeat(MAX_SHOWN_BYTES + 10)).unwrap();
    fs::write(root.join("letters.md"), "é".repeat(MAX_SHOWN_BYTES)).unwrap();
    let deltas = ["pkg", "link.py", "loop.py", "pipe.py", "missing.py", "bytes.py", "long.js", "letters.md"];
    let read = |path: &&str| Some(extract(path, &read_source(&root, path)?, None));
    let found: Vec<CodeContext> = deltas.iter().filter_map(read).collect();
    let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["bytes.py", "long.js", "letters.md"]);
    assert_eq!(found[0].content, b"x = '\xff\xfe'\r\n\x0cdef f():\n\0");
    assert!(found[1].is_cut && found[1].content.len() == MAX_SHOWN_BYTES);
    assert!(String::from_utf8(found[2].content.clone()).is_ok());
    assert_eq!(read_source(&root, "../secret.py"), None);
}

#[test]
fn test_files_behind_commands() {
    let cases = [
        ("pytest tests/test_login.py -v", "tests/test_login.py"),
        ("pytest 'tests/test login.py'", ""),
        ("python -m pytest \"tests/test_a.py\" src/test_b.py", "tests/test_a.py"),
        ("pytest tests/test_a.py::TestA::test_b", "tests/test_a.py"),
        ("python tests/helpers.py", "tests/helpers.py"),
        ("python src/main.py", ""),
        ("pytest tests/*.py", ""),
        ("", ""),
        ("npx vitest run src/login.test.ts", "src/login.test.ts"),
        ("npx jest src/__tests__/a.js", "src/__tests__/a.js"),
        ("npx mocha login.spec.js", "login.spec.js"),
        ("go test ./pkg/login_test.go", "pkg/login_test.go"),
        ("go test ./...", ""),
        ("cargo test --test login", "tests/login.rs"),
        ("cargo test -p x --test login", ""),
        ("cargo nextest run --test=login", "tests/login.rs"),
        ("cargo test", ""),
        ("pytest /etc/test.py", ""),
        ("pytest ../test_a.py", ""),
        ("cargo test --test ../../x", ""),
    ];
    for (command, expected) in cases {
        assert_eq!(verify_source(command).unwrap_or_default(), expected, "{command}");
    }
}

#[test]
fn mutated_sources_never_panic() {
    let mut state = 7_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    for _ in 0..150 {
        for (path, source) in [
            ("a.py", PYTHON),
            ("a.rs", RUST),
            ("a.tsx", TYPESCRIPT),
            ("a.js", JAVASCRIPT),
            ("a.go", GO),
            ("a.rb", RUBY),
        ] {
            let mut bytes = source.as_bytes().to_vec();
            for _ in 0..1 + below(6) {
                let at = below(bytes.len());
                bytes[at] = b"(){}[]<>\"'`:;,.\n \x00\xff\xc3"[below(20)];
            }
            let first = 1 + below(40);
            let found = extract(path, &bytes, Some(LineRange { first, last: first + below(40) }));
            assert!(!found.lines.is_empty());
            drop(syntax_check(path, &String::from_utf8_lossy(&bytes)));
        }
    }
}
