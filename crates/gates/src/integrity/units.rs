//! Source text cut into units: each statement or head of a block by itself, with the literals in it.
//!
//! Rules about product code look at units, so that a word of a comment is no code, a literal is no name, and what stands in
//! two statements is not taken for one. Each byte belongs to one unit. Nothing is run and no name is resolved.

use tree_sitter::Node;

use super::cases::walk_inside;
use ftl_code::context::Language;

/// How deep a unit may be nested to be looked at.
const MAX_DEPTH: usize = 400;

/// How many functions may stand in each other for what is inside to count for each of them.
const MAX_FUNCTIONS: usize = 32;

/// How many literals of one function are remembered.
const MAX_LITERALS: usize = 500;

/// A statement, or the head of one that has a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    pub(super) line: usize,
    /// Its text without comments and with empty literals, on one line.
    pub(super) code: String,
    /// The texts of its literals; texts that are joined by an operator also as one.
    pub(super) literals: Vec<String>,
    /// The function around it, by its place in the list; none at the top of a file or class.
    pub(super) function: Option<usize>,
    /// The unit around it.
    pub(super) parent: Option<usize>,
}

/// A function with what stands in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) literals: Vec<String>,
    /// The code of its units, one a line.
    pub(super) code: String,
}

/// The units of a file.
#[derive(Debug, Default)]
pub(super) struct Units {
    pub(super) units: Vec<Unit>,
    pub(super) functions: Vec<Function>,
}

impl Units {
    /// The literals of the function around a unit, or its own.
    pub(super) fn around<'a>(&'a self, unit: &'a Unit) -> &'a [String] {
        unit.function.and_then(|at| self.functions.get(at)).map_or(&unit.literals, |one| &one.literals)
    }

    /// The code of the function around a unit, or its own.
    pub(super) fn function_code<'a>(&'a self, unit: &'a Unit) -> &'a str {
        unit.function.and_then(|at| self.functions.get(at)).map_or(&unit.code, |one| &one.code)
    }

    pub(super) fn function_name(&self, unit: &Unit) -> Option<&str> {
        unit.function.and_then(|at| self.functions.get(at)).map(|one| one.name.as_str())
    }

    /// The units around a unit, from the inside.
    pub(super) fn parents<'a>(&'a self, unit: &'a Unit) -> impl Iterator<Item = &'a Unit> {
        std::iter::successors(unit.parent.and_then(|at| self.units.get(at)), |one| {
            one.parent.and_then(|at| self.units.get(at))
        })
        .take(MAX_DEPTH)
    }
}

/// Cuts a text into units. Tests that stand in a product file are left out. `None` where it cannot be parsed.
pub(super) fn read(language: Language, text: &str) -> Option<Units> {
    let tree = language.parse(text)?;
    let mut reader =
        Reader { text, found: Units::default(), open: Vec::new(), functions: Vec::new(), marked: Vec::new() };
    let mut cursor = tree.walk();
    walk_inside(&mut cursor, |node, above| reader.visit(node, above));
    Some(reader.found)
}

struct Reader<'a> {
    text: &'a str,
    found: Units,
    /// The units that are open, with their ends.
    open: Vec<(usize, usize)>,
    functions: Vec<(usize, usize)>,
    /// By how deep it is, whether attributes before the next node mark it as a test.
    marked: Vec<bool>,
}

/// Nodes whose children are statements of their own.
fn is_block(kind: &str) -> bool {
    matches!(
        kind,
        "module"
            | "program"
            | "source_file"
            | "block"
            | "statement_block"
            | "statement_list"
            | "declaration_list"
            | "class_body"
            | "match_block"
            | "switch_body"
            | "field_declaration_list"
            | "enum_variant_list"
    )
}

fn is_function(kind: &str) -> bool {
    matches!(
        kind,
        "function_definition"
            | "function_item"
            | "function_declaration"
            | "method_declaration"
            | "method_definition"
            | "function_expression"
            | "arrow_function"
            | "func_literal"
            | "lambda"
            | "closure_expression"
    )
}

fn is_string(kind: &str) -> bool {
    matches!(
        kind,
        "string"
            | "template_string"
            | "string_literal"
            | "raw_string_literal"
            | "interpreted_string_literal"
            | "regex"
            | "char_literal"
    )
}

impl Reader<'_> {
    fn words(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn visit(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        let start = node.start_byte();
        for open in [&mut self.open, &mut self.functions] {
            while open.last().is_some_and(|(_, end)| *end <= start) {
                open.pop();
            }
        }
        let kind = node.kind();
        let is_marked = self.take_mark(node, above.len());
        const OF_LITERALS: [&str; 6] =
            ["string_start", "string_content", "string_end", "string_fragment", "escape_sequence", "`"];
        if kind.ends_with("comment") || OF_LITERALS.contains(&kind) || self.is_test_of_rust(node, is_marked) {
            return false;
        }
        let opens = is_function(kind) && self.functions.len() < MAX_FUNCTIONS;
        if opens {
            self.functions.push((self.found.functions.len(), node.end_byte()));
        }
        if is_function(kind) {
            let name = node.child_by_field_name("name").map(|name| self.words(name).to_owned());
            self.found.functions.push(Function {
                name: name.unwrap_or_default(),
                line: node.start_position().row + 1,
                ..Function::default()
            });
        }
        let starts = node.is_named() && above.last().is_some_and(|parent| is_block(parent.kind()));
        if starts && !is_block(kind) && self.open.len() < MAX_DEPTH {
            let parent = self.open.last().map(|(at, _)| *at);
            // A function that is a statement is outside of itself.
            let function = self.functions.iter().rev().nth(usize::from(opens)).map(|(at, _)| *at);
            self.open.push((self.found.units.len(), node.end_byte()));
            let line = node.start_position().row + 1;
            self.found.units.push(Unit { line, function, parent, ..Unit::default() });
        }
        if is_string(kind) {
            return self.literal(node);
        }
        if matches!(kind, "binary_operator" | "binary_expression" | "concatenated_string" | "list" | "array")
        {
            self.joined(node);
        }
        if node.child_count() == 0 {
            let words = self.words(node).to_owned();
            self.leaf(&words);
        }
        true
    }

    fn leaf(&mut self, words: &str) {
        let Some((at, _)) = self.open.last() else { return };
        push_word(&mut self.found.units[*at].code, words);
        for (at, _) in &self.functions {
            push_word(&mut self.found.functions[*at].code, words);
        }
    }

    fn keep_literal(&mut self, text: &str) {
        if let Some((at, _)) = self.open.last() {
            self.found.units[*at].literals.push(text.to_owned());
        }
        for (at, _) in &self.functions {
            let literals = &mut self.found.functions[*at].literals;
            if literals.len() < MAX_LITERALS {
                literals.push(text.to_owned());
            }
        }
    }

    /// A literal: its text is kept, its place in the code is empty. What is put into it is code.
    fn literal(&mut self, node: Node<'_>) -> bool {
        let text = content(self.words(node)).to_owned();
        self.keep_literal(&text);
        self.leaf("\"\"");
        let mut cursor = node.walk();
        node.named_children(&mut cursor)
            .any(|child| matches!(child.kind(), "interpolation" | "template_substitution"))
    }

    /// Texts that stand next to each other in an operator or a list, as one text.
    fn joined(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut parts = Vec::new();
        for child in node.named_children(&mut cursor) {
            match child.kind() {
                kind if is_string(kind) => parts.push(content(self.words(child)).to_owned()),
                "binary_operator" | "binary_expression" => {
                    let mut inner = child.walk();
                    let strings = child.named_children(&mut inner).filter(|one| is_string(one.kind()));
                    parts.extend(strings.map(|one| content(self.words(one)).to_owned()));
                }
                _ => {}
            }
        }
        if parts.len() > 1 {
            self.keep_literal(&parts.concat());
        }
    }

    /// Whether attributes before a node mark it as a test; what the node itself is for the next one is noted.
    fn take_mark(&mut self, node: Node<'_>, depth: usize) -> bool {
        self.marked.resize(depth + 1, false);
        let is_marked = self.marked[depth];
        if node.kind() == "attribute_item" {
            let squeezed: String = self.words(node).split_whitespace().collect();
            self.marked[depth] |= squeezed.contains("cfg(test)") || squeezed.ends_with("test]");
        } else if !node.kind().ends_with("comment") {
            self.marked[depth] = false;
        }
        is_marked
    }

    /// Whether a node is a test of Rust beside the product, or a module of them.
    fn is_test_of_rust(&self, node: Node<'_>, is_marked: bool) -> bool {
        let name = || node.child_by_field_name("name").map(|name| self.words(name)).unwrap_or_default();
        match node.kind() {
            "mod_item" => is_marked || matches!(name(), "tests" | "test"),
            "function_item" | "impl_item" | "use_declaration" => is_marked,
            _ => false,
        }
    }
}

/// A word of code behind others; words that would run into each other get a space.
fn push_word(code: &mut String, word: &str) {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    if code.ends_with(is_name) && word.starts_with(is_name) {
        code.push(' ');
    }
    code.push_str(word.trim());
}

/// What stands between the quotes of a literal.
pub(super) fn content(text: &str) -> &str {
    let text = text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic() && text.len() > 1);
    let text = text.trim_start_matches('#').trim_end_matches('#');
    for quote in ["\"\"\"", "'''", "\"", "'", "`", "/"] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.strip_suffix(quote).unwrap_or(inner);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the language, a text, the code of its units, their literals.
    const UNITS: &str = r#"
        py | x = f("a" + "b") # test          | x=f(""+"")              | ab a b
        py | if a.b("t"):\n    c("u")         | if a.b(""):/c("")       | t/u
        js | const a = typeof jest;           | const a=typeof jest;    |
        js | if (x) { y('a'); }               | if(x){}/y("");          | /a
        go | package a\nfunc f() { g("x") }   | package a/func f(){}/g("") | //x
        rs | fn f() { if cfg!(test) { 1 } }   | fn f(){}/if cfg!(test){}/1 | //"#;

    #[test]
    fn a_text_is_cut_into_statements() {
        for line in UNITS.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(" |").map(str::trim).collect();
            let language = Language::of(&format!("a.{}", cells[0])).unwrap();
            let found = read(language, &cells[1].replace("\\n", "\n")).unwrap();
            let code: Vec<&str> = found.units.iter().map(|unit| unit.code.as_str()).collect();
            let literals: Vec<String> = found.units.iter().map(|unit| unit.literals.join(" ")).collect();
            assert_eq!(
                (code.join("/").as_str(), literals.join("/").as_str()),
                (cells[2], cells[3]),
                "{line}"
            );
        }
    }
}
