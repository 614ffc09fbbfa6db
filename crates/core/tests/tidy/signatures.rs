//! What other crates read of a function: an error that can be told apart, and a name that is a verb.
//!
//! Lines are read, not parsed: a signature goes from `fn` to its `{` or `;`. What stands in tests is not seen by other crates.

use super::{ARROWS, File, own_lines, report, sources, texts};

/// Crates that nothing of the product sees: what they give on is read by nobody but themselves and tests.
const SEEN_BY_NOBODY: [&str; 3] = ["ftl", "needs", "testkit"];

/// Names that say neither whether something comes in, goes out or is made.
const PARTICIPLES: [&str; 10] =
    ["told", "heard", "said", "shown", "named", "asked", "found", "seen", "given", "kept"];

/// Types of errors that traits of the standard library ask for.
const ASSOCIATED: [&str; 2] = ["type Err = String;", "type Error = String;"];

#[test]
fn errors_that_cross_a_crate_have_a_type() {
    let is_seen = |file: &File| {
        let mut crates = ARROWS.iter().map(|(name, _)| *name).filter(|name| !SEEN_BY_NOBODY.contains(name));
        crates.any(|name| file.name.starts_with(&format!("crates/{name}/src/")))
            && !file.is_test()
            && !file.name.ends_with("_tests.rs")
    };
    let findings = sources().into_iter().filter(is_seen).flat_map(|file| untyped(&file));
    report(
        findings,
        "make an enum of its kinds with `Display`; a text that goes to an agent or into a journal is no error, and \
         gets a type that says what it is; what no other crate calls is `pub(crate)`",
    );
}

#[test]
fn functions_are_called_by_verbs() {
    let is_ours = |file: &File| file.name.starts_with("crates/") && file.name.ends_with(".rs");
    let findings = texts().into_iter().filter(is_ours).flat_map(|file| participles(&file));
    report(findings, "say what it does: `render_…`, `parse_…`, `on_…`, `list_…` (docs/glossary.md)");
}

#[test]
fn these_tests_see_untyped_errors() {
    let count = |text: &str| untyped(&File::new("crates/core/src/x.rs", text)).len();
    for bad in [
        "pub fn f() -> Result<u8, String> {",
        "    pub const fn f(\n        a: u8,\n    ) -> Result<Vec<(A, B)>, String> {\n    }",
        "pub fn f() -> Result<Result<A, String>, E> {",
        "pub fn f(m: BTreeMap<String, Result<A, String>>) {",
        "pub fn f(g: &mut dyn FnMut(&A) -> Result<B, String>) -> Result<B, E> {",
        "pub trait T {\n    fn f(&self) -> Result<(), String>;\n}",
        "pub struct S {\n    pub f: Result<(), String>,\n}",
        "pub enum E {\n    A(Sender<Result<(), String>>),\n}",
        "pub type R<T> = Result<T, String>;",
        "impl FromStr for A {\n    type Err = String;\n}",
    ] {
        assert_eq!(count(bad), 1, "{bad}");
    }
    for good in [
        "pub fn f() -> Result<String, E> {",
        "pub fn f() -> BTreeMap<Result<A, E>, String> {",
        "pub(crate) fn f() -> Result<A, String> {",
        "fn f() -> Result<A, String> {",
        "pub fn f() -> Result<A, E> {\n    let a: Result<A, String> = g();\n}",
        "pub trait T {\n    fn f(&self) -> Result<A, E> {\n        let a: Result<A, String> = g();\n    }\n}\nfn g() -> Result<A, String> {",
        "// pub fn f() -> Result<A, String> {",
        "enum E {\n    A(Result<(), String>),\n}",
        "#[cfg(test)]\nmod tests {\n    pub fn f() -> Result<A, String> {",
    ] {
        assert_eq!(count(good), 0, "{good}");
    }
}

#[test]
fn these_tests_see_participles() {
    let finds = |text: &str| !participles(&File::new("crates/core/src/x.rs", text)).is_empty();
    assert!(finds("fn told() {") && finds("    pub(crate) const fn said<T>(") && finds("pub async fn kept("));
    assert!(!finds("fn told_by() {") && !finds("let told = fn_told();") && !finds("// fn told() {"));
}

/// Public signatures of a file whose error is a text.
fn untyped(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().take(own_lines(&file.text)).map(code_of).collect();
    let mut findings = Vec::new();
    let mut block: Option<(&str, Block)> = None;
    for (at, line) in lines.iter().enumerate() {
        let (indent, code) = line.split_at(line.len() - line.trim_start().len());
        let kind = block.filter(|(outer, _)| indent.len() > outer.len()).map(|(_, kind)| kind);
        if kind.is_none() && !code.is_empty() {
            block = Block::of(code).map(|kind| (indent, kind));
        }
        let of_trait = kind == Some(Block::Trait) && is_function(code);
        let signature = if of_trait || is_public_function(code) {
            signature(&lines[at..])
        } else if kind == Some(Block::Enum) || is_public_item(code) {
            code.to_owned()
        } else {
            String::new()
        };
        if has_text_error(&signature) || ASSOCIATED.contains(&code.trim_end()) {
            findings.push(file.at(at + 1, "an error that is a `String` crosses a crate"));
        }
    }
    findings
}

/// What is public as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Trait,
    Enum,
}

impl Block {
    fn of(code: &str) -> Option<Block> {
        let is = |word: &str| code.starts_with(word) && code.trim_end().ends_with('{');
        match (is("pub trait "), is("pub enum ")) {
            (true, _) => Some(Block::Trait),
            (_, true) => Some(Block::Enum),
            (false, false) => None,
        }
    }
}

fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim_end()
}

/// A function without the words before it; none where the line opens none.
fn function(code: &str) -> Option<&str> {
    let mut rest = code;
    loop {
        let words = ["const ", "async ", "unsafe "];
        match words.iter().find_map(|word| rest.strip_prefix(word)) {
            Some(after) => rest = after,
            None => return rest.strip_prefix("fn "),
        }
    }
}

fn is_function(code: &str) -> bool {
    function(code).is_some()
}

fn is_public_function(code: &str) -> bool {
    code.strip_prefix("pub ").is_some_and(is_function)
}

/// A field or an alias.
fn is_public_item(code: &str) -> bool {
    code.strip_prefix("pub ").is_some_and(|rest| {
        let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
        rest.starts_with("type ") || name.is_some_and(|name| rest[name.len()..].starts_with(": "))
    })
}

/// What stands before the body of a function.
fn signature(lines: &[&str]) -> String {
    let mut whole = String::new();
    for line in lines {
        whole.push_str(line.trim());
        whole.push(' ');
        if line.contains('{') || line.ends_with(';') {
            break;
        }
    }
    whole.split('{').next().unwrap_or_default().to_owned()
}

/// Whether some `Result<…, String>` stands in a signature.
fn has_text_error(signature: &str) -> bool {
    let mut opens = signature.match_indices("Result<").map(|(at, word)| at + word.len());
    opens.any(|at| last_argument(&signature[at..]) == Some("String"))
}

/// The last of the arguments up to the `>` that closes them, if there are two at least.
fn last_argument(text: &str) -> Option<&str> {
    let (mut depth, mut from, mut count, mut before) = (0_usize, 0, 0, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth == 0 => {
                let last = text[from..at].trim();
                return Some(last).filter(|last| count > 0 && !last.is_empty());
            }
            '>' | ')' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 && !text[at + 1..].trim_start().starts_with('>') => {
                (from, count) = (at + 1, count + 1);
            }
            _ => {}
        }
        before = letter;
    }
    None
}

/// Functions that are called by a bare participle.
fn participles(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let mut code = code_of(line).trim_start();
        if let Some(rest) = code.strip_prefix("pub") {
            let rest =
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |both| both.1);
            code = rest.trim_start();
        }
        let name = function(code).map(|rest| rest.split(['(', '<']).next().unwrap_or_default());
        if let Some(name) = name.filter(|name| PARTICIPLES.contains(name)) {
            findings.push(file.at(at + 1, &format!("a function is called `{name}`")));
        }
    }
    findings
}
