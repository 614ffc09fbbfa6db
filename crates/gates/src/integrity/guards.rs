//! What stands around an assertion: conditions, handlers and functions by which it may not be reached or not count.

use std::collections::BTreeMap;

use tree_sitter::Node;

use ftl_code::context::Language;

/// How far up is looked.
const MAX_UP: usize = 200;

/// How much of a handler is read.
const MAX_HANDLER_BYTES: usize = 4_000;

/// Whether a node guards what stands in one of its children, by both and the end of the test.
pub(super) type Known = BTreeMap<(usize, usize, usize), bool>;

/// What stands around an assertion.
pub(super) struct Around<'a, 't> {
    pub(super) text: &'a str,
    pub(super) language: Language,
    /// Where the test ends.
    pub(super) end: usize,
    /// The line on which the test begins.
    pub(super) line: usize,
    /// The nodes around the assertion, from the outside.
    pub(super) above: &'a [Node<'t>],
}

impl Around<'_, '_> {
    fn words(&self, node: Node<'_>) -> &str {
        let words = self.text.get(node.byte_range()).unwrap_or_default();
        let mut end = words.len().min(MAX_HANDLER_BYTES);
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        &words[..end]
    }

    /// How many of them there are between an assertion and its test.
    pub(super) fn count(&self, node: Node<'_>, known: &mut Known) -> usize {
        let mut found = 0;
        let mut below = node;
        for (at, around) in self.above.iter().enumerate().rev().take(MAX_UP) {
            if around.start_position().row < self.line && is_function(around.kind()) {
                break;
            }
            let key = (around.id(), below.id(), self.end);
            found += usize::from(*known.entry(key).or_insert_with(|| self.guards(at, below)));
            below = *around;
        }
        found
    }

    /// Whether the node at a place among those around guards what stands in one of its children.
    fn guards(&self, at: usize, below: Node<'_>) -> bool {
        let around = self.above[at];
        let is_head = |name: &str| around.child_by_field_name(name).is_some_and(|one| one.id() == below.id());
        match around.kind() {
            "if_statement" | "if_expression" | "while_statement" | "while_expression" => {
                !is_head("condition")
            }
            "conditional_expression" | "ternary_expression" | "switch_case" | "expression_case" => true,
            "try_statement" => is_head("body") && self.drops(around),
            "for_statement" | "for_in_statement" | "for_expression" => self.runs_over_nothing(around),
            "with_statement" => {
                let head = self.words(around).lines().next().unwrap_or_default().to_owned();
                head.contains("AssertionError") || head.contains("suppress(")
            }
            "go_statement" => !["Wait()", "<-"].iter().any(|word| self.test_of(at).contains(word)),
            "function_definition" | "function_declaration" | "function_item" => self.is_never_called(at),
            "arrow_function" | "function_expression" | "closure_expression" | "lambda" => self.is_dropped(at),
            _ => false,
        }
    }

    /// The text of the test that the node at a place stands in.
    fn test_of(&self, at: usize) -> &str {
        let up =
            self.above[..at].iter().rev().take(MAX_UP).take_while(|one| one.end_byte() <= self.end).last();
        self.words(*up.unwrap_or(&self.above[at]))
    }

    /// Whether a handler of a `try` drops what an assertion raises.
    fn drops(&self, tried: Node<'_>) -> bool {
        let mut cursor = tried.walk();
        tried.named_children(&mut cursor).any(|child| {
            let words = self.words(child);
            match child.kind() {
                "except_clause" => {
                    let head = words.lines().next().unwrap_or_default();
                    let wide = head.trim_end() == "except:"
                        || ["AssertionError", "Exception"].iter().any(|word| head.contains(word));
                    wide && swallows(words)
                }
                "catch_clause" => swallows(words),
                _ => false,
            }
        })
    }

    fn runs_over_nothing(&self, node: Node<'_>) -> bool {
        let over = ["right", "value"].iter().find_map(|name| node.child_by_field_name(name));
        let over: String = over.map(|over| self.words(over).split_whitespace().collect()).unwrap_or_default();
        matches!(over.as_str(), "[]" | "()" | "{}" | "range(0)" | "0..0" | "list()" | "set()" | "vec![]")
    }

    /// Whether a function inside a test is named nowhere else in it.
    fn is_never_called(&self, at: usize) -> bool {
        let Some(name) = self.above[at].child_by_field_name("name") else { return false };
        let name = self.words(name);
        self.test_of(at).matches(name).count() < 2
    }

    /// Whether a function without a name goes where nobody waits for it.
    fn is_dropped(&self, at: usize) -> bool {
        let is_list = |one: &Node<'_>| matches!(one.kind(), "arguments" | "argument_list");
        let Some(place) = self.above[..at].iter().rposition(|one| !is_list(one)) else { return false };
        let call = self.above[place];
        if !matches!(call.kind(), "call_expression" | "call") {
            return false;
        }
        let callee = call.child_by_field_name("function").map(|one| self.words(one)).unwrap_or_default();
        let name = callee.rsplit(['.', ':']).next().unwrap_or(callee);
        match (self.language, name) {
            (_, "setTimeout" | "setImmediate" | "setInterval" | "nextTick" | "queueMicrotask") => {
                !self.test_of(at).contains("await")
            }
            (_, "then" | "catch" | "finally") => !self.is_awaited_at(place, call),
            (Language::Rust, "spawn") => !self.test_of(at).contains("join"),
            (Language::Rust, "catch_unwind") => {
                !["unwrap", "resume_unwind", "expect", "assert"].iter().any(|word| {
                    let test = self.test_of(place);
                    let after = test.split("catch_unwind").nth(1).unwrap_or_default();
                    after.split_once(");").is_some_and(|(_, rest)| rest.contains(word))
                })
            }
            _ => false,
        }
    }

    /// Whether somebody waits for a promise, or gets it.
    pub(super) fn is_awaited(&self, node: Node<'_>) -> bool {
        self.is_awaited_at(self.above.len(), node)
    }

    fn is_awaited_at(&self, at: usize, node: Node<'_>) -> bool {
        let mut up = node;
        for parent in self.above[..at].iter().rev().take(MAX_UP) {
            match parent.kind() {
                "await_expression"
                | "await"
                | "return_statement"
                | "variable_declarator"
                | "arguments"
                | "array"
                | "assignment_expression" => return true,
                "arrow_function" => {
                    return parent.child_by_field_name("body").is_some_and(|one| one.id() == up.id());
                }
                "expression_statement" | "statement_block" => return false,
                _ => up = *parent,
            }
        }
        false
    }
}

fn is_function(kind: &str) -> bool {
    matches!(
        kind,
        "function_definition"
            | "function_declaration"
            | "function_item"
            | "method_declaration"
            | "method_definition"
            | "call_expression"
            | "decorated_definition"
    )
}

/// Whether a text catches something and does not raise it again.
pub(super) fn swallows(text: &str) -> bool {
    let catches = ["except", "catch"].iter().any(|word| text.contains(word));
    const AGAIN: [&str; 10] =
        ["raise", "throw", "fail(", "assert", "expect(", "exit(", "reject(", "Fail", "done(", "return error"];
    let handler = text.split("except").nth(1).or_else(|| text.split("catch").nth(1)).unwrap_or_default();
    let handler = handler.split_once([':', '{']).map_or(handler, |(_, rest)| rest);
    catches && !AGAIN.iter().any(|word| handler.contains(word))
}

/// Whether a body does nothing but give back one literal.
pub(super) fn is_constant(body: &str) -> bool {
    let inner = body.trim().trim_start_matches('{').trim_end_matches('}').trim();
    let lines: Vec<&str> = inner
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '/']))
        .take(2)
        .collect();
    let [line] = lines[..] else { return false };
    let value = line.strip_prefix("return").map_or(line, str::trim).trim_end_matches(';').trim();
    matches!(
        value,
        "" | "True"
            | "true"
            | "False"
            | "false"
            | "None"
            | "null"
            | "nil"
            | "undefined"
            | "pass"
            | "()"
            | "0"
            | "1"
            | "[]"
            | "{}"
            | ":"
    )
}

/// The rows of the first list of lists in a text, or the arguments of a row of its own: `#[case(1, 2)]`.
pub(super) fn rows_of(text: &str) -> Vec<String> {
    let name = text.trim_start_matches(['#', '[', '@', ' ']).split('(').next().unwrap_or_default();
    if matches!(name.rsplit("::").next(), Some("case" | "test_case")) {
        return vec![super::assertion::one_line(text)];
    }
    let mut found = Vec::new();
    let Some(open) = text.find('[') else { return found };
    let (mut depth, mut start, mut quote) = (0usize, None, None);
    for (at, letter) in text[open..].char_indices() {
        if let Some(with) = quote {
            if letter == with {
                quote = None;
            }
            continue;
        }
        match letter {
            '"' | '\'' | '`' => quote = Some(letter),
            '(' | '[' | '{' => {
                depth += 1;
                if depth == 2 {
                    start = Some(open + at);
                }
            }
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if let Some(begin) = start.filter(|_| depth == 1) {
                    found.push(super::assertion::one_line(&text[begin..=open + at]));
                    start = None;
                }
                if depth == 0 {
                    return found;
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_its_rows() {
        assert_eq!(rows_of("@pytest.mark.parametrize('a,b', [(1, 2), (3, '4)')])"), ["(1, 2)", "(3, '4)')"]);
        assert_eq!(rows_of("it.each([{ a: 1 }, { a: 2 }])"), ["{ a: 1 }", "{ a: 2 }"]);
        assert_eq!(rows_of("#[case(1, 2)]"), ["#[case(1, 2)]"]);
        assert!(rows_of("it").is_empty() && rows_of("@mark([").is_empty());
    }

    /// One line a case: a body, whether it gives back one literal, whether it drops what it catches.
    const BODIES: &str = "
        return True                              | yes | no
        { return true; }                         | yes | no
        return x == 1                            | no  | no
        try: f() except Exception: pass          | no  | yes
        try: f() except Exception: raise         | no  | no
        try { f() } catch (e) { console.log(e) } | no  | yes
        try { f() } catch (e) { throw e }        | no  | no";

    #[test]
    fn a_body_says_what_it_does() {
        for line in BODIES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let yes = |text: &str| text == "yes";
            assert_eq!((is_constant(cells[0]), swallows(cells[0])), (yes(cells[1]), yes(cells[2])), "{line}");
        }
    }
}
