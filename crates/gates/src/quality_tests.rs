//! Tests of the quality gate: idioms as structure, text and sentences; exports that must stay usable.

use super::*;
use ftl_core::catalogue::plan::Idioms;
use ftl_core::catalogue::spec::CodeContext;

fn spec(required: &[&str], forbidden: &[&str], contexts: &[(&str, &str)]) -> Spec {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let context = |(path, exports): &(&str, &str)| CodeContext {
        path: (*path).to_owned(),
        lines: String::new(),
        content: String::new(),
        exports: Some((*exports).to_owned()),
        imports: None,
    };
    let json = r#"{"id": "001-a", "status": "active", "delta": [], "verify": "true", "budget": 5,
        "preflight": [], "framework_confidence": 1.0, "delivered": ""}"#;
    let mut spec: Spec = serde_json::from_str(json).unwrap();
    spec.idioms = Some(Idioms { required: list(required), forbidden: list(forbidden) });
    spec.code_contexts = Some(contexts.iter().map(context).collect());
    spec
}

fn file(path: &str, before: Option<&str>, after: Option<&str>) -> FileSides {
    let text = |side: Option<&str>| side.map(|text| text.replace("\\n", "\n"));
    FileSides { path: path.to_owned(), before: text(before), after: text(after), is_gone: after.is_none() }
}

/// One line a case: `required` or `forbidden`, the idiom, the file, before, after, what is said: a line,
/// `yes` where it is violated without one, `-` where not, `?` where no program can look.
const IDIOMS: &str = r#"
    forbidden | print($$$)                        | a.py | -               | x = 1\nprint(1)            | 2
    forbidden | print($$$)                        | a.py | print(1)        | x = 2\nprint(1)            | -
    forbidden | print($$$)                        | a.py | print(1)        | print(1)\nprint(2)         | 2
    forbidden | print($$$)                        | a.py | -               | # print(1)                 | -
    forbidden | console.log($$$)                  | a.ts | -               | console.log('x')           | 1
    forbidden | $A.unwrap()                       | a.rs | -               | fn f() { a().unwrap(); }   | 1
    forbidden | fmt.Println($$$)                  | a.go | -               | package a\nfunc f() { fmt.Println(1) } | 2
    forbidden | TODO:                             | a.rb | -               | # TODO: x                  | 1
    forbidden | TODO:                             | a.rb | -               | # done                     | -
    forbidden | Never call `eval($$$)` on input   | a.py | -               | eval('1')                  | 1
    forbidden | Never call `eval($$$)` on input   | a.py | -               | ast.literal_eval('1')      | -
    forbidden | HTML written in f-strings         | a.py | -               | x = f'<b>{a}</b>'          | ?
    forbidden | Blocking calls in async functions | a.py | -               | time.sleep(1)              | ?
    forbidden | print($$$)                        | a.md | -               | print(1)                   | -
    required  | @app.get($$$)                     | a.py | -               | @app.get('/')\ndef f(): pass | -
    required  | @app.get($$$)                     | a.py | -               | def f(): pass              | yes
    required  | Declare routes with @app.get, @app.post and the like | a.py | - | @app.get('/')\ndef f(): pass | -
    required  | Declare routes with @app.get, @app.post and the like | a.py | - | def f(): pass | yes
    required  | Return Pydantic models            | a.py | -               | def f(): pass              | ?
    required  | from __future__ import annotations | a.py | -              | from __future__ import annotations | -
    required  | from __future__ import annotations | a.py | -              | import os                  | yes
    required  | # frozen_string_literal: true     | a.rb | -               | # frozen_string_literal: true | -
    required  | # frozen_string_literal: true     | a.rb | -               | x                          | yes
    required  | @app.get($$$)                     | a.md | -               | words                      | -
    required  | use strict                        | a.js | -               | 'use strict';              | -"#;

#[test]
fn idioms_are_looked_for_as_what_they_are() {
    for line in IDIOMS.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [kind, rule, path, before, after, wanted] = cells[..] else { panic!("{line}") };
        let spec = if kind == "required" { spec(&[rule], &[], &[]) } else { spec(&[], &[rule], &[]) };
        let before = Some(before).filter(|before| *before != "-");
        let answer = check(&spec, &[file(path, before, Some(after))], "t");
        let found = match answer.violations.first() {
            Some(one) => one.line.map_or("yes".to_owned(), |line| line.to_string()),
            None if answer.summary.contains("not looked for") => "?".to_owned(),
            None => "-".to_owned(),
        };
        assert_eq!(found, wanted, "{line}: {}", answer.summary);
        assert_eq!(
            (answer.passed, answer.failed),
            (answer.violations.is_empty(), !answer.violations.is_empty())
        );
    }
}

/// One line a case: the framework, what a new file says, whether the required `@app.route` is missed.
const CONCERNED: &str = r#"
    flask | def helper(): return 1                                   | no
    flask | from flask import Flask\napp = Flask()                   | yes
    flask | from flask import Flask\n@app.route('/')\ndef f(): pass  | no
    none  | def helper(): return 1                                   | yes"#;

#[test]
fn a_required_idiom_is_about_files_that_use_the_framework() {
    for line in CONCERNED.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let mut spec = spec(&["@app.route($$$)"], &[], &[]);
        spec.framework = Some(cells[0].to_owned());
        let answer = check(&spec, &[file("a.py", None, Some(cells[1]))], "t");
        assert_eq!(answer.failed, cells[2] == "yes", "{line}: {}", answer.summary);
    }
}

/// One line a case: the file, the exports that the brief named, the file now (`GONE` where it is), what is
/// said.
const EXPORTS: &str = r#"
    a.py | add(a, b)                   | def add(a, b):\n  return 1             | -
    a.py | add(a, b)                   | def add(a, b, c=1):\n  return 1        | -
    a.py | add(a, b)                   | def add(a, b, *args):\n  return 1      | -
    a.py | add(a, b)                   | def add(*args, **kwargs):\n  return 1  | -
    a.py | add(a, b)                   | def add(a: int, b: int) -> int:\n  return 1 | -
    a.py | add(a, b)                   | def add(a, b, c):\n  return 1          | was `add(a, b)` and is `add(a, b, c)`
    a.py | add(a, b)                   | def add(a):\n  return 1                | callers cannot use it
    a.py | add(a, b)                   | def add(b, a):\n  return 1             | callers cannot use it
    a.py | add(a, b=1)                 | def add(a, b):\n  return 1             | callers cannot use it
    a.py | add(a, b)                   | def plus(a, b):\n  return 1            | the export add is gone
    a.py | Calc, add(a, b)             | class Calc:\n  pass\n\ndef add(a, b):\n  return 1 | -
    a.py | Calc                        | class Calculator:\n  pass              | the export Calc is gone
    a.py | add(a, b)                   | GONE                                   | the export add is gone
    a.ts | add(a: number): number      | export function add(a: number): number { return a } | -
    a.ts | add(a: number): number      | export function add(a: number, b?: number): number { return a } | -
    a.ts | add(a: number): number      | export function add(a: number, b: number): number { return a } | callers cannot use it
    a.ts | add(a: number): number      | function add(a: number): number { return a } | the export add is gone
    a.js | add(a)                      | export function add(a, ...rest) { return a } | -
    a.js | add(a)                      | export const add = (a) => a            | -
    a.rs | add(a: i32) -> i32          | pub fn add(x: i32) -> i32 { x }        | -
    a.rs | add(a: i32) -> i32          | pub fn add(a: i64) -> i32 { 1 }        | callers cannot use it
    a.rs | add(a: i32) -> i32          | pub fn add(a: i32) -> i64 { 1 }        | callers cannot use it
    a.rs | add(a: i32) -> i32          | fn add(a: i32) -> i32 { a }            | the export add is gone
    a.rs | A::new() -> A               | pub struct A;\nimpl A { pub fn new() -> A { A } } | -
    a.go | Add(a int) int              | package a\nfunc Add(x int) int { return x } | -
    a.go | Add(a int) int              | package a\nfunc Add(a, b int) int { return a } | callers cannot use it
    a.go | (c *Calc) Add(a int) int    | package a\nfunc (c *Calc) Add(a int) int { return a } | -
    a.go | (c *Calc) Add(a int) int    | package a\nfunc (c *Calc) Sub(a int) int { return a } | is gone"#;

#[test]
fn what_the_brief_named_as_exports_stays_usable() {
    for line in EXPORTS.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let after = Some(cells[2]).filter(|after| *after != "GONE");
        let spec = spec(&[], &[], &[(cells[0], cells[1])]);
        let answer = check(&spec, &[file(cells[0], Some(""), after)], "t");
        match cells[3] {
            "-" => assert!(answer.passed, "{line}: {}", answer.summary),
            words => assert!(answer.summary.contains(words), "{line}: {}", answer.summary),
        }
    }
}

#[test]
fn the_files_of_a_brief_are_the_changed_ones_and_the_rest_of_its_delta() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.py"), "x = 1\n").unwrap();
    let change = crate::integrity::tests::change_of("~a.py -c.py");
    let mut spec = spec(&[], &[], &[]);
    spec.delta = vec!["a.py".to_owned(), "b.py".to_owned(), "../out.py".to_owned()];
    let found = files(&spec, &change, folder.path());
    let told: Vec<(&str, bool, bool)> =
        found.iter().map(|file| (file.path.as_str(), file.after.is_some(), file.is_gone)).collect();
    assert_eq!(
        told,
        [("a.py", true, false), ("c.py", false, true), ("b.py", true, false), ("../out.py", false, false)]
    );
}

#[test]
fn a_file_that_cannot_be_parsed_is_neither_kept_nor_violated() {
    let huge = format!("x = 1\n{}", "# words\n".repeat(ftl_code::context::MAX_PARSED_BYTES / 8));
    for spec in [spec(&["@app.get($$$)"], &[], &[]), spec(&[], &["print($$$)"], &[])] {
        let answer = check(&spec, &[file("a.py", None, Some(&huge))], "t");
        assert!(answer.passed && answer.summary.contains("not looked for"), "{}", answer.summary);
    }
}

#[test]
fn a_list_of_violations_has_an_end() {
    let many: String = (0..MAX_VIOLATIONS + 5).map(|number| format!("TODO {number}\n")).collect();
    let answer = check(&spec(&[], &["TODO"], &[]), &[file("a.rb", None, Some(&many))], "t");
    assert_eq!(answer.violations.len(), MAX_VIOLATIONS);
    assert!(answer.summary.ends_with("and 100 more"), "{}", answer.summary);
}

proptest::proptest! {
    #[test]
    fn no_words_break_a_comparison(
        before in "[a-z(),:=<>\\[\\] *.…]{0,30}",
        after in "[a-z(),:=<>\\[\\] *.…]{0,30}",
    ) {
        let offered = [after];
        for path in ["a.py", "a.rs", "a.go", "a.ts", "a.rb"] {
            let _ = lost_export(&before, &offered, Language::of(path));
        }
    }
}
