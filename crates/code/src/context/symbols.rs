//! The names that a file defines, each with its line, at any depth.
//!
//! It is for finding, never for judging: a language without a parser has no symbols, and a file that a
//! parser reads only in part gives what it could read.

use tree_sitter::Node;

use super::language::Language;

/// How many symbols of a file are listed.
pub const MAX_SYMBOLS: usize = 2_000;

/// How long the name of a symbol may be.
const MAX_NAME_BYTES: usize = 200;

/// What defines a name, in any of the languages.
const DEFINES: [&str; 24] = [
    "function_definition",
    "class_definition",
    "function_item",
    "function_signature_item",
    "struct_item",
    "enum_item",
    "union_item",
    "trait_item",
    "type_item",
    "const_item",
    "static_item",
    "mod_item",
    "macro_definition",
    "function_declaration",
    "generator_function_declaration",
    "class_declaration",
    "abstract_class_declaration",
    "interface_declaration",
    "type_alias_declaration",
    "enum_declaration",
    "method_definition",
    "method_declaration",
    "type_spec",
    "type_alias",
];

/// What a variable must hold to count as a function.
const FUNCTIONS: [&str; 3] = ["arrow_function", "function_expression", "function"];

/// A name that a file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name as it is defined, without its parent.
    pub name: String,
    /// The line, counted from one.
    pub line: usize,
}

/// The names that a file defines, from its top; none for a language that we cannot parse.
pub fn symbols(path: &str, source: &[u8]) -> Vec<Symbol> {
    let text = String::from_utf8_lossy(source);
    let Some(tree) = Language::of(path).and_then(|language| language.parse(&text)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut cursor = tree.root_node().walk();
    loop {
        found.extend(symbol(cursor.node(), &text));
        if found.len() == MAX_SYMBOLS {
            return found;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
        }
    }
}

fn symbol(node: Node<'_>, text: &str) -> Option<Symbol> {
    let is_function = || {
        let value = node.child_by_field_name("value");
        node.kind() == "variable_declarator" && value.is_some_and(|value| FUNCTIONS.contains(&value.kind()))
    };
    if !DEFINES.contains(&node.kind()) && !is_function() {
        return None;
    }
    let name = node.child_by_field_name("name")?;
    let words = text.get(name.byte_range()).filter(|words| words.len() <= MAX_NAME_BYTES)?;
    Some(Symbol { name: words.to_owned(), line: name.start_position().row + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lines_of_every_language() {
        let cases = [
            ("a.py", "import os\n\nclass Cart:\n    def total(self):\n        pass\n", "Cart:3 total:4"),
            (
                "a.rs",
                "mod m {\n    pub fn f() {}\n}\nstruct S;\nimpl S { fn g(&self) {} }\n",
                "m:1 f:2 S:4 g:5",
            ),
            (
                "a.ts",
                "export const add = (a: number) => a;\nconst n = 1;\nclass C { go() {} }\n",
                "add:1 C:3 go:3",
            ),
            ("a.tsx", "function View() { return <p/>; }\n", "View:1"),
            ("a.js", "function f() {}\n", "f:1"),
            ("a.go", "package p\n\ntype T struct{}\n\nfunc (t T) M() {}\n", "T:3 M:5"),
            ("a.txt", "def f(): pass\n", ""),
            // Brackets that are never closed swallow what follows; other faults do not.
            ("broken.py", "def f(:\n  (((\ndef g():\n    pass\n", ""),
            ("torn.py", "def g():\n    pass\n\ndef f(:\n", "g:1 f:4"),
        ];
        for (path, text, wanted) in cases {
            let found = symbols(path, text.as_bytes());
            let shown: Vec<String> = found.iter().map(|one| format!("{}:{}", one.name, one.line)).collect();
            assert_eq!(shown.join(" "), wanted, "{path}");
        }
    }

    #[test]
    fn only_so_many_are_listed() {
        let text: String = (0..MAX_SYMBOLS + 5).map(|at| format!("def f{at}(): pass\n")).collect();
        assert_eq!(symbols("a.py", text.as_bytes()).len(), MAX_SYMBOLS);
        let long = format!("def {}(): pass\n", "f".repeat(MAX_NAME_BYTES + 1));
        assert_eq!(symbols("a.py", long.as_bytes()), []);
    }
}
