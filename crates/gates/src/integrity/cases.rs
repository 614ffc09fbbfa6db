//! The tests in one file: their names, what they assert, whether they are skipped, whether they check
//! anything.
//!
//! Files of languages with a parser are read by it, in one walk without recursion; other files are read by
//! their lines as one case. Nothing is run, and a name that is made at run time is not seen.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::{Node, TreeCursor};

use super::assertion::{Assertion, one_line};
use super::guards;
use ftl_code::context::Language;

/// How many tests of one file are looked at.
pub(super) const MAX_CASES: usize = 5_000;

/// How much of a block is searched for what it hides.
const MAX_BLOCK_BYTES: usize = 64 * 1024;

/// How long the name of a test may be with the groups around it; the outer ones are left out beyond.
const MAX_NAME_BYTES: usize = 4_000;

/// How much of a callee or an attribute is read.
const MAX_CALLEE_BYTES: usize = 400;

/// The tests of a file.
#[derive(Debug, Default)]
pub(super) struct Cases {
    pub(super) cases: Vec<Case>,
    /// Marks that are on no single test.
    pub(super) marks: Vec<Mark>,
    /// Rows of tables that stand outside of every test.
    pub(super) rows: Vec<Row>,
    /// Functions of the file that catch what is raised and drop it.
    pub(super) swallowers: Vec<String>,
    /// Whether there were more tests than are looked at.
    pub(super) is_cut: bool,
}

/// A row of a table that a test runs over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row(pub(super) String);

/// One test, or a function in a test file that asserts for tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) is_test: bool,
    pub(super) assertions: Vec<Assertion>,
    pub(super) marks: Vec<Mark>,
    /// Whether its body does nothing.
    pub(super) is_empty: bool,
    /// The line of a return before everything that follows.
    pub(super) returns: Option<usize>,
    /// Whether its body only gives back one literal.
    pub(super) is_constant: bool,
    /// The rows of the tables that it runs over.
    pub(super) rows: Vec<Row>,
    /// The functions that it calls, by their last names.
    pub(super) calls: Vec<String>,
    /// Its decorators.
    pub(super) decorators: Vec<String>,
}

/// Something that changes whether or how a test counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) what: What,
    pub(super) text: String,
    pub(super) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The test is not run, or its failure is expected.
    Skip,
    /// Only this test is run.
    Focus,
    /// A condition on the build decides whether it exists.
    Condition,
    /// It passes when the code fails.
    Panic,
    /// A failed assertion is caught and dropped.
    Swallow,
    /// It is run again until it passes.
    Retry,
}

/// Reads the tests of a file. A file in a language without a parser is one case.
pub(super) fn read(path: &str, text: &str) -> Option<Cases> {
    if path.ends_with(".bats") || super::product::is_shell(path, text) {
        return Some(super::shell_tests::read(path, text));
    }
    let Some(language) = Language::of(path) else { return Some(super::lines::read(text)) };
    let tree = language.parse(text)?;
    let mut reader = Reader {
        text,
        language,
        found: Cases::default(),
        open: Vec::new(),
        pending: Vec::new(),
        guards: BTreeMap::new(),
    };
    let mut cursor = tree.walk();
    walk_inside(&mut cursor, |node, above| reader.visit(node, above));
    let swallowers: BTreeSet<String> = std::mem::take(&mut reader.found.swallowers).into_iter().collect();
    for case in &mut reader.found.cases {
        let hidden = case.decorators.iter().find(|text| swallowers.contains(decorator_name(text)));
        if let Some(text) = hidden.cloned() {
            case.marks.push(Mark { what: What::Swallow, text, line: case.line });
        }
    }
    Some(reader.found)
}

/// The last name of a decorator: `@a.b(c)` is `b`.
fn decorator_name(text: &str) -> &str {
    let head = text.trim_start_matches('@').split('(').next().unwrap_or(text).trim();
    head.rsplit('.').next().unwrap_or(head)
}

/// Visits every node from the top; a visitor that says no is not led below.
pub(crate) fn walk<'t>(cursor: &mut TreeCursor<'t>, mut visit: impl FnMut(Node<'t>) -> bool) {
    walk_inside(cursor, |node, _| visit(node));
}

/// The same with the nodes around each one, from the outside. A node finds its own parent only by a way down from the top,
/// which takes quadratic time in a deep text.
pub(super) fn walk_inside<'t>(
    cursor: &mut TreeCursor<'t>,
    mut visit: impl FnMut(Node<'t>, &[Node<'t>]) -> bool,
) {
    let mut above = Vec::new();
    loop {
        let node = cursor.node();
        let below = visit(node, &above);
        if below && cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
            above.pop();
        }
    }
}

/// What the walk is inside of.
struct Open {
    end: usize,
    inside: Inside,
    /// The innermost test, this one or one around it.
    case: Option<usize>,
    /// Whether a runner looks for tests in it.
    is_searched: bool,
}

enum Inside {
    Group(String),
    Case(usize),
    Condition(String),
}

struct Reader<'a> {
    text: &'a str,
    language: Language,
    found: Cases,
    open: Vec<Open>,
    /// Decorators and attributes that stand before what they are about.
    pending: Vec<(String, usize)>,
    /// What is known of the guards around assertions.
    guards: guards::Known,
}

impl<'a> Reader<'a> {
    fn visit(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        while self.open.last().is_some_and(|open| open.end <= node.start_byte()) {
            self.open.pop();
        }
        self.calls(node);
        self.rows(node);
        match self.language {
            Language::Python => self.python(node, above),
            Language::Rust => self.rust(node, above),
            Language::Go => self.go(node, above),
            Language::TypeScript | Language::Tsx | Language::JavaScript => self.script(node, above),
        }
    }

    fn words(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// The beginning of a node's text.
    fn start(&self, node: Node<'_>, most: usize) -> &'a str {
        let words = self.words(node);
        let mut end = words.len().min(most);
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        &words[..end]
    }

    fn field(&self, node: Node<'_>, name: &str) -> &'a str {
        node.child_by_field_name(name).map(|child| self.start(child, MAX_CALLEE_BYTES)).unwrap_or_default()
    }

    fn group(&mut self, node: Node<'_>, name: &str) {
        self.enter(node.end_byte(), Inside::Group(name.to_owned()));
    }

    /// What follows up to an end stands inside of this.
    fn enter(&mut self, end: usize, inside: Inside) {
        let case = match inside {
            Inside::Case(at) => Some(at),
            Inside::Group(_) | Inside::Condition(_) => self.inside_case(),
        };
        self.open.push(Open { end, inside, case, is_searched: true });
    }

    /// The names of the groups around, and then this one. A test of Go has the whole name of the one around it.
    fn full_name(&self, name: &str) -> String {
        let is_go = self.language == Language::Go;
        if is_go {
            let around = self.inside_case().and_then(|at| self.found.cases.get(at));
            let around = around.map(|case| case.name.as_str()).filter(|name| name.len() <= MAX_NAME_BYTES);
            return around.map_or_else(|| name.to_owned(), |around| format!("{around}/{name}"));
        }
        let mut parts = vec![name];
        let mut length = name.len();
        for open in self.open.iter().rev() {
            let Inside::Group(group) = &open.inside else { continue };
            length += group.len() + 2;
            if length > MAX_NAME_BYTES {
                break;
            }
            parts.push(group);
        }
        parts.reverse();
        parts.join("::")
    }

    fn inside_case(&self) -> Option<usize> {
        self.open.last().and_then(|open| open.case)
    }

    fn case(&mut self, node: Node<'_>, name: &str, is_test: bool, body: Option<Node<'_>>) {
        if self.found.cases.len() >= MAX_CASES {
            self.found.is_cut = true;
            return;
        }
        let line = node.start_position().row + 1;
        let mut case = Case { name: self.full_name(name), line, is_test, ..Case::default() };
        if let Some(body) = body {
            case.is_empty = self.is_empty(body);
            case.returns = self.first_return(body);
            case.is_constant = guards::is_constant(self.start(body, MAX_BLOCK_BYTES));
            if !is_test && guards::swallows(self.start(body, MAX_BLOCK_BYTES)) {
                self.found.swallowers.push(name.to_owned());
            }
        }
        self.enter(node.end_byte(), Inside::Case(self.found.cases.len()));
        self.found.cases.push(case);
    }

    fn assertion(&mut self, node: Node<'_>, above: &[Node<'_>]) {
        let Some(at) = self.inside_case() else { return };
        let condition = self.open.iter().rev().find_map(|open| match &open.inside {
            Inside::Condition(condition) => Some(condition.clone()),
            Inside::Group(_) | Inside::Case(_) => None,
        });
        let mut assertion =
            Assertion::new(self.words(node), node.start_position().row + 1, condition.as_deref());
        let end = self
            .open
            .iter()
            .rev()
            .find(|open| matches!(open.inside, Inside::Case(_)))
            .map_or(0, |open| open.end);
        let line = self.found.cases[at].line;
        let around = guards::Around { text: self.text, language: self.language, end, line, above };
        let guards = around.count(node, &mut self.guards);
        assertion.guards = guards.saturating_sub(usize::from(condition.is_some()));
        assertion.is_awaited = around.is_awaited(node);
        self.found.cases[at].assertions.push(assertion);
    }

    /// What a test calls.
    fn calls(&mut self, node: Node<'_>) {
        if !matches!(node.kind(), "call" | "call_expression") {
            return;
        }
        let Some(at) = self.inside_case() else { return };
        let callee = self.field(node, "function");
        let name = callee.rsplit(['.', ':']).next().unwrap_or(callee).trim();
        if !name.is_empty() && self.found.cases[at].calls.len() < MAX_CASES {
            let name = name.to_owned();
            self.found.cases[at].calls.push(name);
        }
    }

    /// The rows of a table: elements of a list that are lists themselves.
    fn rows(&mut self, node: Node<'_>) {
        let is_list = matches!(
            node.kind(),
            "list" | "tuple" | "array" | "array_expression" | "literal_value" | "dictionary"
        );
        if !is_list {
            return;
        }
        let mut cursor = node.walk();
        let is_row = |child: &Node<'_>| {
            let inner = match child.kind() {
                "literal_element" => child.named_child(0).map(|inner| inner.kind()),
                "keyed_element" => {
                    child.named_child(1).and_then(|inner| inner.named_child(0)).map(|inner| inner.kind())
                }
                kind => Some(kind),
            };
            inner.is_some_and(|kind| {
                matches!(
                    kind,
                    "tuple"
                        | "list"
                        | "array"
                        | "object"
                        | "dictionary"
                        | "tuple_expression"
                        | "literal_value"
                        | "struct_expression"
                )
            })
        };
        let rows: Vec<Row> = node
            .named_children(&mut cursor)
            .filter(is_row)
            .map(|child| Row(one_line(self.start(child, MAX_CALLEE_BYTES))))
            .collect();
        match self.inside_case() {
            Some(at) => self.found.cases[at].rows.extend(rows),
            None => self.found.rows.extend(rows),
        }
    }

    fn mark(&mut self, what: What, text: &str, line: usize) {
        let mark = Mark { what, text: super::short(&one_line(text)), line };
        match self.inside_case() {
            Some(at) => self.found.cases[at].marks.push(mark),
            None => self.found.marks.push(mark),
        }
    }

    /// Marks out of the lines before a test or a group.
    fn take_pending(&mut self, judge: fn(&str) -> Option<What>) {
        for (text, line) in std::mem::take(&mut self.pending) {
            if let Some(what) = judge(&text) {
                self.mark(what, &text, line);
            }
        }
    }

    /// What decorators and attributes say of the test that was just opened: its rows, and that it is tried again.
    fn decorated(&mut self) {
        let Some(at) = self.inside_case() else { return };
        for (text, line) in self.pending.clone() {
            let rows = guards::rows_of(&text);
            let name = decorator_name(&text).to_lowercase();
            let case = &mut self.found.cases[at];
            case.rows.extend(rows.into_iter().map(Row));
            case.decorators.push(one_line(&text));
            if ["flaky", "retry", "rerun", "repeat_until", "eventually"]
                .iter()
                .any(|word| name.contains(word))
            {
                case.marks.push(Mark { what: What::Retry, text: super::short(&one_line(&text)), line });
            }
        }
    }

    fn is_empty(&self, body: Node<'_>) -> bool {
        let mut cursor = body.walk();
        let idle = |child: Node<'_>| {
            matches!(
                child.kind(),
                "pass_statement" | "comment" | "line_comment" | "block_comment" | "empty_statement"
            ) || matches!(self.words(child).trim(), "..." | "pass" | "return" | "return;" | "()")
                || (child.kind() == "expression_statement"
                    && child.named_child(0).is_some_and(|inner| inner.kind() == "string"))
        };
        let is_block = matches!(body.kind(), "block" | "statement_block");
        is_block && body.named_children(&mut cursor).all(idle_or_list(idle))
    }

    /// The line of a return that stands at the top of a body and before something else.
    fn first_return(&self, body: Node<'_>) -> Option<usize> {
        // Go wraps the statements of a block in a list.
        let list = body.named_child(0).filter(|child| child.kind() == "statement_list").unwrap_or(body);
        let mut cursor = list.walk();
        let mut children =
            list.named_children(&mut cursor).filter(|child| !child.kind().ends_with("comment"));
        let is_return = |child: &Node<'_>| {
            child.kind() == "return_statement"
                || child.kind() == "expression_statement"
                    && child.named_child(0).is_some_and(|inner| inner.kind() == "return_expression")
        };
        let found = children.find(is_return)?;
        children.next().map(|_| found.start_position().row + 1)
    }

    /// Whether a block contains a word that asserts.
    fn asserts(&self, node: Node<'_>) -> bool {
        let words = self.start(node, MAX_BLOCK_BYTES);
        ["assert", "expect(", "should"].iter().any(|word| words.contains(word))
    }
}

/// Go has a list inside its block; an empty one has none.
fn idle_or_list<'t>(idle: impl Fn(Node<'t>) -> bool) -> impl Fn(Node<'t>) -> bool {
    move |child| match child.kind() {
        "statement_list" => {
            (0..child.named_child_count()).all(|at| child.named_child(at as u32).is_none_or(&idle))
        }
        _ => idle(child),
    }
}

impl Reader<'_> {
    fn python(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        let line = node.start_position().row + 1;
        match node.kind() {
            "decorator" => {
                self.pending.push((self.start(node, MAX_BLOCK_BYTES).to_owned(), line));
                return false;
            }
            "class_definition" => {
                let name = self.field(node, "name");
                self.group(node, name);
                // pytest looks into classes called so, unittest into those that extend its own.
                let is_searched =
                    name.starts_with("Test") || node.child_by_field_name("superclasses").is_some();
                if let Some(open) = self.open.last_mut() {
                    open.is_searched = is_searched;
                }
                self.take_pending(python_skip);
            }
            "function_definition" if self.inside_case().is_none() => {
                let name = self.field(node, "name");
                let is_test = name.starts_with("test") && self.open.iter().all(|open| open.is_searched);
                self.case(node, name, is_test, node.child_by_field_name("body"));
                self.decorated();
                self.take_pending(python_skip);
            }
            "assert_statement" => {
                self.assertion(node, above);
                return false;
            }
            "call" => return self.python_call(node, above, line),
            "raise_statement" if self.start(node, MAX_CALLEE_BYTES).contains("SkipTest") => {
                self.mark(What::Skip, "raise SkipTest", line);
            }
            "assignment" => {
                let (left, right) = (self.field(node, "left"), self.field(node, "right"));
                let skips = left == "pytestmark" && python_skip(right).is_some();
                if skips || (left == "__test__" && right == "False") {
                    self.mark(What::Skip, self.start(node, MAX_CALLEE_BYTES), line);
                    return false;
                }
            }
            "try_statement" => self.python_try(node, line),
            "with_statement" => {
                let head = self.start(node, MAX_CALLEE_BYTES).lines().next().unwrap_or_default();
                let wide = ["AssertionError", "Exception"].iter().any(|word| head.contains(word));
                if head.contains("suppress(") && wide && self.asserts(node) {
                    self.mark(What::Swallow, head, line);
                }
            }
            _ => {}
        }
        true
    }

    fn python_call(&mut self, node: Node<'_>, above: &[Node<'_>], line: usize) -> bool {
        let callee = self.field(node, "function");
        let (owner, name) = callee.rsplit_once('.').unwrap_or(("", callee));
        let asserts = name.starts_with("assert")
            || matches!((owner, name), ("pytest", "raises" | "warns" | "fail") | ("self", "fail"));
        let skips = matches!((owner, name), ("pytest", "skip" | "xfail" | "importorskip") | (_, "skipTest"));
        if skips {
            self.mark(What::Skip, self.start(node, MAX_CALLEE_BYTES), line);
        } else if asserts {
            self.assertion(node, above);
        }
        !asserts && !skips
    }

    /// A `try` around an assertion whose handler drops what was raised.
    fn python_try(&mut self, node: Node<'_>, line: usize) {
        let body = node.child_by_field_name("body").is_some_and(|body| self.asserts(body));
        let mut cursor = node.walk();
        let drops =
            node.named_children(&mut cursor).filter(|child| child.kind() == "except_clause").any(|clause| {
                let head = self.start(clause, MAX_CALLEE_BYTES).lines().next().unwrap_or_default();
                let wide = head.trim_end() == "except:"
                    || ["AssertionError", "Exception"].iter().any(|word| head.contains(word));
                let mut inner = clause.walk();
                let block = clause.named_children(&mut inner).find(|child| child.kind() == "block");
                let idle = block.is_some_and(|block| {
                    matches!(self.words(block).trim(), "pass" | "..." | "return" | "continue")
                });
                wide && idle
            });
        if body && drops {
            self.mark(What::Swallow, "try … except: pass", line);
        }
    }

    fn rust(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        let line = node.start_position().row + 1;
        match node.kind() {
            "attribute_item" => {
                self.pending.push((self.start(node, MAX_CALLEE_BYTES).to_owned(), line));
                return false;
            }
            "inner_attribute_item" => {
                let text = self.start(node, MAX_CALLEE_BYTES);
                if let Some(what) = rust_mark(&text.replacen("#!", "#", 1)) {
                    self.mark(what, text, line);
                }
                return false;
            }
            "mod_item" => {
                let name = self.field(node, "name");
                let is_marked = self.pending.iter().any(|(text, _)| text.contains("cfg(test)"));
                let is_named = ["test", "tests"].contains(&name) || name.ends_with("_tests");
                let tests =
                    is_marked || is_named || self.pending.iter().any(|(text, _)| text.contains("test"));
                // Without its `mod` line a file of tests is not compiled, so the line counts as a test itself.
                if (is_marked || is_named) && self.found.cases.len() < MAX_CASES {
                    let name = self.full_name(&format!("mod {name}"));
                    self.found.cases.push(Case { name, line, is_test: true, ..Case::default() });
                }
                self.group(node, name);
                if tests {
                    self.take_pending(rust_mark);
                }
                self.pending.clear();
            }
            "function_item" if self.inside_case().is_none() => {
                let is_test = self.pending.iter().any(|(text, _)| is_rust_test(text));
                self.case(node, self.field(node, "name"), is_test, node.child_by_field_name("body"));
                if is_test {
                    self.decorated();
                    self.take_pending(rust_mark);
                }
                self.pending.clear();
            }
            "macro_invocation" => {
                let name = self.field(node, "macro").rsplit("::").next().unwrap_or_default();
                let asserts =
                    ["assert", "debug_assert", "prop_assert"].iter().any(|word| name.starts_with(word));
                if asserts || name == "panic" {
                    self.assertion(node, above);
                    return false;
                }
            }
            "let_declaration" | "expression_statement" => {
                let words = self.start(node, MAX_BLOCK_BYTES);
                let drops = words.starts_with("let _") || words.trim_end_matches(';').ends_with(".ok()");
                if drops && words.contains("catch_unwind") && self.asserts(node) {
                    self.mark(What::Swallow, "catch_unwind, and its result is dropped", line);
                }
            }
            kind if kind.ends_with("_item") => self.pending.clear(),
            _ => {}
        }
        true
    }

    fn go(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        let line = node.start_position().row + 1;
        match node.kind() {
            "comment" => {
                let text = self.start(node, MAX_CALLEE_BYTES);
                if (text.starts_with("//go:build") || text.starts_with("// +build"))
                    && self.inside_case().is_none()
                {
                    self.mark(What::Condition, text, line);
                }
            }
            "function_declaration" | "method_declaration" => {
                let name = self.field(node, "name");
                let is_test = ["Test", "Fuzz", "Example"].iter().any(|word| name.starts_with(word))
                    && name != "TestMain";
                self.case(node, name, is_test, node.child_by_field_name("body"));
            }
            "if_statement" => {
                // What is compared often stands in the statement before: `if got := Add(1, 2); got != 3`.
                let whole = |one: Node<'_>| {
                    let from = node
                        .child_by_field_name("initializer")
                        .map_or(one.start_byte(), |first| first.start_byte());
                    self.text.get(from..one.end_byte()).filter(|text| text.len() <= MAX_CALLEE_BYTES)
                };
                let head = node
                    .child_by_field_name("condition")
                    .and_then(|one| whole(one).or_else(|| Some(self.start(one, MAX_CALLEE_BYTES))));
                let body = node.child_by_field_name("consequence");
                if let (Some(head), Some(body)) = (head, body) {
                    self.enter(body.end_byte(), Inside::Condition(head.to_owned()));
                }
            }
            "call_expression" => return self.go_call(node, above, line),
            _ => {}
        }
        true
    }

    fn go_call(&mut self, node: Node<'_>, above: &[Node<'_>], line: usize) -> bool {
        let callee = self.field(node, "function");
        if callee == "recover" && self.inside_case().is_some() {
            self.mark(What::Swallow, "recover()", line);
            return true;
        }
        let Some((owner, name)) = callee.rsplit_once('.') else { return true };
        let handle = owner.len() <= 3 || owner.ends_with("T()");
        let testify = ["assert", "require", "is"].contains(&owner)
            || [".Require()", ".Assert()"].iter().any(|end| owner.ends_with(end));
        let fails = matches!(name, "Error" | "Errorf" | "Fatal" | "Fatalf" | "Fail" | "FailNow");
        match name {
            "Skip" | "Skipf" | "SkipNow" if handle => {
                self.mark(What::Skip, self.start(node, MAX_CALLEE_BYTES), line);
            }
            "Run" if handle => {
                let first = node.child_by_field_name("arguments").and_then(|list| list.named_child(0));
                let title = first.filter(|first| first.kind().ends_with("string_literal"));
                if let Some(title) = title {
                    let name = self.start(title, MAX_CALLEE_BYTES).trim_matches(['"', '`']).to_owned();
                    let is_test = self.inside_case().is_some_and(|at| self.found.cases[at].is_test);
                    self.case(node, &name, is_test, None);
                }
            }
            _ if testify || (fails && handle) => {
                self.assertion(node, above);
                return false;
            }
            _ => {}
        }
        true
    }

    fn script(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        let line = node.start_position().row + 1;
        match node.kind() {
            "call_expression" | "member_expression" => {
                let words = self.start(node, MAX_CALLEE_BYTES);
                let asserts =
                    ["expect(", "expect.", "assert(", "assert."].iter().any(|word| words.starts_with(word))
                        || (node.kind() == "call_expression" && is_node_assert(self.field(node, "function")));
                if asserts && self.inside_case().is_some() {
                    let whole = self.words(node);
                    if whole.ends_with(".catch(() => {})") {
                        self.mark(What::Swallow, ".catch(() => {})", line);
                    }
                    self.assertion(node, above);
                    return false;
                }
                if node.kind() == "call_expression" {
                    self.script_call(node, line);
                }
            }
            "function_declaration" | "method_definition" if self.inside_case().is_none() => {
                let name = self.field(node, "name");
                self.case(node, name, false, node.child_by_field_name("body"));
            }
            "try_statement" => {
                let body = node.child_by_field_name("body").is_some_and(|body| self.asserts(body));
                let handler =
                    node.child_by_field_name("handler").and_then(|one| one.child_by_field_name("body"));
                if body && handler.is_some_and(|block| self.is_empty(block)) {
                    self.mark(What::Swallow, "try … catch {}", line);
                }
            }
            _ => {}
        }
        true
    }

    fn script_call(&mut self, node: Node<'_>, line: usize) {
        let callee = self.field(node, "function");
        // `test.each(table)(title, body)`: what counts stands before the first bracket.
        let head = callee.split(['(', '`']).next().unwrap_or(callee);
        let mut parts = head.split('.');
        let base = parts.next().unwrap_or_default();
        let modifiers: Vec<&str> = parts.collect();
        let Some(list) = node.child_by_field_name("arguments").filter(|list| list.kind() == "arguments")
        else {
            return;
        };
        if matches!(callee, "jest.retryTimes" | "this.retries" | "vi.retry") {
            return self.mark(What::Retry, self.start(node, MAX_CALLEE_BYTES), line);
        }
        let is_helper = matches!(base, "t" | "this" | "ctx" | "context");
        if is_helper && matches!(modifiers[..], ["skip" | "todo"]) {
            return self.mark(What::Skip, self.start(node, MAX_CALLEE_BYTES), line);
        }
        let is_title =
            |kind: &str| matches!(kind, "string" | "template_string" | "binary_expression" | "identifier");
        let Some(title) = list.named_child(0).filter(|first| is_title(first.kind())) else { return };
        let word = base.strip_prefix('x').or_else(|| base.strip_prefix('f')).unwrap_or(base);
        let is_test = matches!(word, "it" | "test" | "specify") || head == "Deno.test";
        let is_group = matches!(word, "describe" | "context" | "suite");
        if !is_test && !is_group {
            return;
        }
        let name = self.start(title, MAX_CALLEE_BYTES).trim_matches(['"', '\'', '`']).to_owned();
        let focus = modifiers.contains(&"only") || (base.starts_with('f') && word != base);
        const SKIPS: [&str; 6] = ["skip", "todo", "failing", "fails", "skipIf", "runIf"];
        let skip = modifiers.iter().any(|one| SKIPS.contains(one)) || (base.starts_with('x') && word != base);
        let mut cursor = list.walk();
        let children: Vec<Node<'_>> = list.named_children(&mut cursor).collect();
        if is_group {
            self.group(node, &name);
        } else {
            let is_function = |child: &&Node<'_>| {
                matches!(child.kind(), "arrow_function" | "function_expression" | "function")
            };
            let body =
                children.iter().rev().find(is_function).and_then(|one| one.child_by_field_name("body"));
            self.case(node, &name, true, body);
        }
        let options = children
            .iter()
            .find(|child| child.kind() == "object")
            .map(|child| self.start(*child, MAX_CALLEE_BYTES));
        let option = |name: &str| options.is_some_and(|text| is_switched_on(text, name));
        if skip || option("skip") || option("todo") {
            self.mark(What::Skip, head, line);
        }
        if focus || option("only") {
            self.mark(What::Focus, head, line);
        }
        if option("retry") || option("retries") {
            self.mark(What::Retry, head, line);
        }
        // The table of `test.each(table)(title, body)` stands before the test.
        if let Some(at) = self.inside_case().filter(|_| is_test) {
            let rows = guards::rows_of(
                self.start(node.child_by_field_name("function").unwrap_or(node), MAX_BLOCK_BYTES),
            );
            self.found.cases[at].rows.extend(rows.into_iter().map(Row));
        }
    }
}

/// Whether an object literal sets a switch to something that is not false.
fn is_switched_on(object: &str, name: &str) -> bool {
    let at = object.find(&format!("{name}:"));
    at.is_some_and(|at| !object[at + name.len() + 1..].trim_start().starts_with("false"))
}

fn is_node_assert(callee: &str) -> bool {
    matches!(
        callee,
        "strictEqual"
            | "deepStrictEqual"
            | "deepEqual"
            | "notStrictEqual"
            | "rejects"
            | "throws"
            | "t.is"
            | "t.deepEqual"
    )
}

fn python_skip(text: &str) -> Option<What> {
    let name = text.trim_start_matches('@').split('(').next().unwrap_or(text);
    let skips = ["mark.skip", "mark.skipif", "mark.xfail", "unittest.skip", "expectedFailure"]
        .iter()
        .any(|word| text.contains(word));
    let bare = matches!(name.trim(), "skip" | "skipIf" | "skipUnless" | "skipif" | "xfail");
    (skips || bare).then_some(What::Skip)
}

/// The path of an attribute such as `#[tokio::test(flavor = "x")]`.
fn attribute_path(text: &str) -> &str {
    let inner = text.trim_start_matches(['#', '[', ' ']);
    inner.split(['(', ']', '=']).next().unwrap_or(inner).trim()
}

fn is_rust_test(text: &str) -> bool {
    let last = attribute_path(text).rsplit("::").next().unwrap_or_default();
    matches!(last, "test" | "rstest" | "test_case" | "quickcheck" | "proptest" | "test_log")
}

fn rust_mark(text: &str) -> Option<What> {
    let squeezed: String = text.split_whitespace().collect();
    match attribute_path(text) {
        "ignore" => Some(What::Skip),
        "should_panic" => Some(What::Panic),
        "cfg" if !matches!(squeezed.as_str(), "#[cfg(test)]" | "#[cfg(all(test))]") => Some(What::Condition),
        "cfg_attr" if squeezed.contains(",ignore") => Some(What::Skip),
        _ => None,
    }
}
