//! Patterns of code: a piece of code with holes, found by its structure and not by its letters.
//!
//! `$NAME` stands for one expression, statement or name, the same one wherever the name comes again; `$_` for
//! any one; `$$$` for any number of them. White space, line breaks and comments do not count. A pattern is
//! parsed as code of the language it is to be found in; what does not parse is no pattern there. Work is
//! bounded: where a search takes too many steps it says that it does not know.

use std::collections::BTreeMap;

use tree_sitter::{Node, Tree};

use super::integrity::walk;
use ftl_code::context::Language;

/// How long a pattern may be.
pub const MAX_PATTERN_BYTES: usize = 4 * 1024;

/// How many steps one search may take.
const MAX_STEPS: usize = 2_000_000;

/// How many places one search gives.
const MAX_PLACES: usize = 100;

/// How deep a pattern may be.
const MAX_DEPTH: usize = 200;

/// Names that stand for holes while a pattern is parsed.
const ONE: &str = "ftl_one_hole_";
const MANY: &str = "ftl_any_holes_";

/// A place where a pattern was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternMatch {
    /// The line, counted from one.
    pub line: usize,
    /// The first byte of the match in the source.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// A piece of code with holes, in one language.
pub struct CodePattern {
    language: Language,
    text: String,
    tree: Tree,
    start: usize,
    end: usize,
}

impl CodePattern {
    /// Reads a pattern as code of a language; `None` where it is no code there.
    pub fn read(language: Language, pattern: &str) -> Option<CodePattern> {
        let pattern = pattern.trim();
        if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
            return None;
        }
        let filled = fill(pattern);
        frames(language).iter().find_map(|(before, after)| {
            let text = format!("{before}{filled}{after}");
            let (start, end) = (before.len(), before.len() + filled.len());
            let tree = language.parse(&text)?;
            let node = spanning(tree.root_node(), start, end)?;
            let whole = !tree.root_node().has_error() && depth_of(node) <= MAX_DEPTH;
            whole.then_some(())?;
            Some(CodePattern { language, text, tree, start, end })
        })
    }

    /// Where a text has it; `None` where the text cannot be parsed or the search took too long.
    pub fn find(&self, text: &str) -> Option<Vec<PatternMatch>> {
        let tree = self.language.parse(text)?;
        let root = spanning(self.tree.root_node(), self.start, self.end)?;
        let mut search = Search { pattern: &self.text, text, steps: MAX_STEPS };
        let mut places: Vec<PatternMatch> = Vec::new();
        let mut cursor = tree.walk();
        walk(&mut cursor, |node| {
            if search.steps == 0 || places.len() >= MAX_PLACES {
                return false;
            }
            if search.fits(root, node, &mut BTreeMap::new()) {
                let place = PatternMatch {
                    line: node.start_position().row + 1,
                    start: node.start_byte(),
                    end: node.end_byte(),
                };
                // A statement that is only an expression is the same place as the expression.
                if places.last().is_none_or(|last| (last.start, last.end) != (place.start, place.end)) {
                    places.push(place);
                }
            }
            true
        });
        (search.steps > 0).then_some(places)
    }
}

/// Whether a text has a hole in it.
pub(super) fn has_hole(text: &str) -> bool {
    fill(text) != text
}

/// What may stand around a pattern so that it parses: as it is, as a statement, as an expression, and so on.
fn frames(language: Language) -> &'static [(&'static str, &'static str)] {
    match language {
        Language::Python => &[("", ""), ("", "\ndef ftl_frame(): pass\n"), ("try:\n    pass\n", "")],
        Language::Rust => &[
            ("fn ftl_frame() { ", "; }"),
            ("fn ftl_frame() { ", " }"),
            ("", ""),
            ("", " fn ftl_frame() {}"),
            ("impl Ftl { ", " }"),
            ("type Ftl = ", ";"),
        ],
        Language::Go => &[
            ("package ftl\nfunc ftlFrame() {\n", "\n}"),
            ("package ftl\n", "\n"),
            ("package ftl\nvar ftlFrame = ", "\n"),
            ("package ftl\nvar ftlFrame ", "\n"),
        ],
        Language::TypeScript | Language::Tsx | Language::JavaScript => &[
            ("", ""),
            ("(", ")"),
            ("class Ftl { ", " }"),
            ("", " class Ftl {}"),
            ("function ftl() { ", " }"),
        ],
    }
}

/// A pattern with names in place of its holes. Holes have names in capitals, so that `$` of JavaScript stays.
fn fill(pattern: &str) -> String {
    let mut filled = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let many = rest.starts_with("$$$");
        let after = &rest[if many { 3 } else { 1 }..];
        let is_name = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
        let end = after.find(|letter| !is_name(letter)).unwrap_or(after.len());
        let name = &after[..end];
        let goes_on = after[end..].starts_with(|letter: char| letter.is_alphanumeric());
        let is_hole = !goes_on
            && (many || name.starts_with(|letter: char| letter.is_ascii_uppercase() || letter == '_'));
        match is_hole {
            true => filled.push_str(&format!("{}{name}", if many { MANY } else { ONE })),
            false => filled.push_str(&rest[..rest.len() - after.len() + end]),
        }
        rest = &after[end..];
    }
    filled.push_str(rest);
    filled
}

/// The smallest node that is exactly this stretch of the text, or such a node and a closing semicolon.
fn spanning(root: Node<'_>, start: usize, end: usize) -> Option<Node<'_>> {
    let mut node = root.descendant_for_byte_range(start, end)?;
    let fits = |node: Node<'_>| node.start_byte() == start && node.end_byte() == end;
    if !fits(node) {
        return None;
    }
    // A root that is one statement, and a statement that is one expression, stand for what they hold.
    while let Some(child) = node.named_child(0).filter(|child| node.named_child_count() == 1 && fits(*child))
    {
        node = child;
    }
    let is_root = node.parent().is_none();
    (!is_root).then_some(node)
}

fn depth_of(node: Node<'_>) -> usize {
    let (mut cursor, mut depth, mut most) = (node.walk(), 0usize, 0usize);
    loop {
        if cursor.goto_first_child() {
            depth += 1;
            most = most.max(depth);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return most;
            }
            depth -= 1;
        }
    }
}

struct Search<'a> {
    pattern: &'a str,
    text: &'a str,
    steps: usize,
}

type Bound<'a> = BTreeMap<&'a str, &'a str>;

impl<'a> Search<'a> {
    fn hole(&self, node: Node<'_>) -> Option<(&'a str, bool)> {
        let words = self.pattern.get(node.byte_range())?.trim_end_matches(';').trim();
        let is_word = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let one = words.strip_prefix(ONE).filter(|rest| is_word(rest)).map(|name| (name, false));
        one.or_else(|| words.strip_prefix(MANY).filter(|rest| is_word(rest)).map(|name| (name, true)))
    }

    fn fits(&mut self, pattern: Node<'_>, node: Node<'_>, bound: &mut Bound<'a>) -> bool {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            return false;
        }
        if let Some((name, _)) = self.hole(pattern) {
            return node.is_named() && self.bind(name, node, bound);
        }
        if pattern.kind_id() != node.kind_id() {
            return false;
        }
        if pattern.child_count() == 0 || node.child_count() == 0 {
            let wanted = self.pattern.get(pattern.byte_range());
            return pattern.child_count() == node.child_count() && wanted == self.text.get(node.byte_range());
        }
        let (wanted, found) = (children(pattern, self.pattern), children(node, self.text));
        self.list_fits(&wanted, &found, bound)
    }

    /// Whether a list of nodes fits a list of patterns, of which some stand for any number.
    fn list_fits(&mut self, wanted: &[Node<'_>], found: &[Node<'_>], bound: &mut Bound<'a>) -> bool {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            return false;
        }
        let Some((first, rest)) = wanted.split_first() else { return found.is_empty() };
        if let Some((_, true)) = self.hole(*first) {
            // The sign between the hole and its neighbour goes with it where the hole takes nothing.
            let rest = match rest.split_first() {
                Some((comma, after)) if !comma.is_named() && comma.kind() == "," => {
                    if self.list_fits(after, found, &mut bound.clone()) {
                        return true;
                    }
                    rest
                }
                Some(_) | None => rest,
            };
            return (0..=found.len()).any(|taken| {
                let mut trial = bound.clone();
                let fits = self.list_fits(rest, &found[taken..], &mut trial);
                if fits {
                    *bound = trial;
                }
                fits
            });
        }
        // `f($A, $$$)` is also `f(x)`: a comma before a hole that takes nothing is not there.
        let is_comma = !first.is_named() && first.kind() == ",";
        if is_comma && found.first().is_none_or(|one| one.is_named() || one.kind() != ",") {
            let many = rest.first().is_some_and(|next| matches!(self.hole(*next), Some((_, true))));
            return many && self.list_fits(&rest[1..], found, bound);
        }
        let Some((one, others)) = found.split_first() else { return false };
        self.fits(*first, *one, bound) && self.list_fits(rest, others, bound)
    }

    fn bind(&self, name: &'a str, node: Node<'_>, bound: &mut Bound<'a>) -> bool {
        let Some(words) = self.text.get(node.byte_range()) else { return false };
        if name.is_empty() || name.starts_with('_') {
            return true;
        }
        match bound.get(name) {
            Some(known) => *known == words,
            None => {
                bound.insert(name, words);
                true
            }
        }
    }
}

/// The children that count: no comments, no closing semicolons, no comma before a closing bracket.
fn children<'t>(node: Node<'t>, text: &str) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    let all: Vec<Node<'t>> = node.children(&mut cursor).collect();
    let counts = |at: &usize| {
        let child = all[*at];
        let is_comment = child.kind().ends_with("comment");
        let is_end =
            !child.is_named() && matches!(text.get(child.byte_range()), Some(";" | "\n" | "\0" | ""));
        let next = all.get(at + 1).map(|next| next.kind());
        let is_last_comma = !child.is_named() && child.kind() == "," && matches!(next, Some(")" | "]" | "}"));
        !is_comment && !is_end && !is_last_comma
    };
    (0..all.len()).filter(counts).map(|at| all[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One line a case: the language, the pattern, the text (`\n` for a new line), the lines where it is
    /// found.
    const FOUND: &str = r#"
        py | print($$$)               | print()                          | 1
        py | print($$$)               | x = 1\nprint(1, 2)               | 2
        py | print($$$)               | # print(1)\nx = 'print(1)'       | -
        py | print($$$)               | log.print(1)                     | -
        py | print($A)                | print(1, 2)                      | -
        py | print( $A )              | print(f(1))                      | 1
        py | $A == $A                 | x == x\nx == y                   | 1
        py | $_ == $_                 | x == y                           | 1
        py | f($A, $$$)               | f(1)\nf()\nf(1, 2, 3)            | 1 3
        py | f($$$, $A)               | f(1)\nf()\nf(1, 2, 3)            | 1 3
        py | f($$$, 3, $$$)           | f(1, 2)\nf(3)\nf(1, 3, 2)        | 2 3
        py | @app.get($$$)            | @app.get('/')\ndef a(): pass     | 1
        py | @app.get($$$)            | app.get('/')                     | -
        py | @rt                      | @rt\ndef a(): pass               | 1
        py | import os                | import os\nimport sys            | 1
        py | from $M import *         | from a.b import *                | 1
        py | eval                     | eval('1')\nmy_eval('1')          | 1
        py | def $F($$$): $$$         | def f(a, b=1):\n    return a     | 1
        py | except: pass             | try:\n    x()\nexcept:\n    pass | 3
        py | os.system($$$)           | os.system(\n  'ls',  # x\n)      | 1
        py | x = []                   | x=[ ]                            | 1
        rs | $A.unwrap()              | fn f() { a.b().unwrap(); }       | 1
        rs | $A.unwrap()              | fn f() { a.expect("x"); }        | -
        rs | println!($$$)            | fn f() { println!("a {}", b) }   | 1
        rs | unsafe { $$$ }           | fn f() { unsafe { a(); b() } }   | 1
        rs | fn $F() -> $T { $$$ }    | fn f() -> u8 { 3 }               | 1
        rs | use std::fs;             | use std::fs;\nfn f() {}          | 1
        rs | #[derive(Debug)]         | #[derive(Debug)]\nstruct A;      | 1
        rs | Vec<$T>                  | fn f(a: Vec<u8>) {}              | 1
        go | fmt.Println($$$)         | package a\nfunc f() {\n\tfmt.Println("x", 1)\n} | 3
        go | panic($A)                | package a\nfunc f() { panic("x") }  | 2
        go | if err != nil { $$$ }    | package a\nfunc f() {\n\tif err != nil {\n\t\treturn\n\t}\n} | 3
        js | console.log($$$)         | console.log(1, 2);               | 1
        js | console.log($$$)         | // console.log(1)                | -
        js | $A == null               | if (a == null) {}                | 1
        js | $A == null               | if (a === null) {}               | -
        js | var $A = $B              | var a = 1;\nlet b = 2;           | 1
        js | $('x')                   | $('x');                          | 1
        js | new Promise($$$)         | return_(new Promise(f))          | 1
        ts | const $A: $T = $B        | const a: number = 1              | 1
        ts | $A as any                | const b = a as any               | 1
        tsx | <div>$$$</div>          | const a = <div>x</div>           | 1"#;

    fn language(word: &str) -> Language {
        Language::of(&format!("a.{word}")).unwrap()
    }

    #[test]
    fn a_pattern_is_found_by_its_structure() {
        for line in FOUND.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let pattern = CodePattern::read(language(cells[0]), cells[1]);
            let pattern = pattern.unwrap_or_else(|| panic!("no pattern: {line}"));
            let text = cells[2].replace("\\n", "\n").replace("\\t", "\t");
            let places = pattern.find(&text).unwrap();
            let lines: Vec<String> = places.iter().map(|place| place.line.to_string()).collect();
            let found = if lines.is_empty() { "-".to_owned() } else { lines.join(" ") };
            assert_eq!(found, cells[3], "{line}");
        }
    }

    /// Texts that are no code of a language.
    const NO_CODE: [(&str, &str); 6] = [
        ("py", "Return component trees"),
        ("py", "HTML written in f-strings"),
        ("rs", "Blocking calls in async code"),
        ("go", "bare panics, please"),
        ("js", "Raw SQL without a stated reason"),
        ("py", ""),
    ];

    #[test]
    fn prose_is_no_pattern() {
        for (word, text) in NO_CODE {
            assert!(CodePattern::read(language(word), text).is_none(), "{word}: {text}");
        }
        let long = "a".repeat(MAX_PATTERN_BYTES);
        assert!(CodePattern::read(Language::Python, &long).is_some());
        assert!(CodePattern::read(Language::Python, &format!("{long}a")).is_none());
    }

    #[test]
    fn a_hole_has_a_name_in_capitals() {
        assert!(has_hole("f($A)") && has_hole("f($$$)") && has_hole("f($$$ARGS)") && has_hole("$_"));
        assert!(!has_hole("$el.hide()") && !has_hole("f($)") && !has_hole("$$") && !has_hole("costs $5"));
    }

    #[test]
    fn deep_and_wide_texts_are_searched_in_bounded_time() {
        let pattern = CodePattern::read(Language::Python, "f($$$, $A, $$$, $A, $$$, $A, $$$, 0)").unwrap();
        let numbers: Vec<String> = (1..2_000).map(|number| number.to_string()).collect();
        let wide = format!("f({})", numbers.join(", "));
        let started = std::time::Instant::now();
        assert_eq!(pattern.find(&wide), None, "it says that it does not know");
        let deep = format!("{}1{}", "f(".repeat(20_000), ")".repeat(20_000));
        let _ = CodePattern::read(Language::Python, "f($A)").unwrap().find(&deep);
        assert!(
            CodePattern::read(Language::Python, &format!("{}1{}", "(".repeat(900), ")".repeat(900)))
                .is_none()
        );
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }

    #[test]
    fn only_so_many_places_are_given() {
        let pattern = CodePattern::read(Language::Python, "f($A)").unwrap();
        assert_eq!(pattern.find(&"f(1)\n".repeat(MAX_PLACES)).unwrap().len(), MAX_PLACES);
        assert_eq!(pattern.find(&"f(1)\n".repeat(MAX_PLACES + 50)).unwrap().len(), MAX_PLACES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn no_text_breaks_a_pattern(
            pattern in "[a-z$A-Z(){}@.,;=!<>\\[\\]\" \n]{1,40}",
            text in "\\PC{0,200}",
        ) {
            for language in [Language::Python, Language::Rust, Language::Go, Language::Tsx] {
                if let Some(pattern) = CodePattern::read(language, &pattern) {
                    let _ = pattern.find(&text);
                }
            }
        }
    }
}
