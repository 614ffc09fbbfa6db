//! What a file offers to others and what it takes from them: exports with signatures, imports.
//!
//! Only the top of a file is looked at, statement by statement, so depth and size of what is inside do not matter.
//! What a parser cannot read is left out; a language without a parser is read by its lines.

use tree_sitter::Node;

use super::language::Language;

/// How many exports of a file are listed.
pub const MAX_EXPORTS: usize = 200;

/// How many imports of a file are listed.
pub const MAX_IMPORTS: usize = 100;

/// How long one export or import may be.
const MAX_ENTRY_CHARS: usize = 240;

/// How many lines from the top are searched for imports where there is no parser.
const IMPORT_LINES: usize = 30;

/// What a file offers and takes.
#[derive(Debug, Default)]
pub(super) struct Surface {
    pub(super) exports: Vec<String>,
    pub(super) imports: Vec<String>,
}

pub(super) fn of(path: &str, source: &[u8]) -> Surface {
    let text = String::from_utf8_lossy(source);
    let language = Language::of(path);
    let tree = language.and_then(|language| Some((language, language.parse(&text)?)));
    let mut surface = match tree {
        Some((language, tree)) => by_tree(language, tree.root_node(), &text),
        None => by_text(&text),
    };
    surface.exports.truncate(MAX_EXPORTS);
    surface.imports.truncate(MAX_IMPORTS);
    surface
}

fn by_tree(language: Language, root: Node<'_>, text: &str) -> Surface {
    let mut reader = Reader { text, found: Surface::default() };
    let mut cursor = root.walk();
    for node in root.named_children(&mut cursor) {
        match language {
            Language::Python => reader.python(node),
            Language::Rust => reader.rust(node),
            Language::TypeScript | Language::Tsx | Language::JavaScript => reader.script(node),
            Language::Go => reader.go(node),
        }
    }
    reader.found
}

struct Reader<'a> {
    text: &'a str,
    found: Surface,
}

impl<'a> Reader<'a> {
    fn words(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn field(&self, node: Node<'_>, name: &str) -> Option<&'a str> {
        node.child_by_field_name(name).map(|child| self.words(child))
    }

    /// From the name to the body, on one line: `add(a: i32) -> i32`.
    fn signature(&self, node: Node<'_>) -> Option<String> {
        let start = node.child_by_field_name("name")?.start_byte();
        let end = node.child_by_field_name("body").map_or(node.end_byte(), |body| body.start_byte());
        let words = self.text.get(start..end)?;
        Some(one_line(words.trim_end().trim_end_matches([':', ';', '{'])))
    }

    fn export(&mut self, entry: Option<impl AsRef<str>>) {
        let entry = entry.map(|entry| one_line(entry.as_ref())).filter(|entry| !entry.is_empty());
        if self.found.exports.len() < MAX_EXPORTS {
            self.found.exports.extend(entry);
        }
    }

    fn import(&mut self, words: &str) {
        let line = one_line(words.trim_end_matches(';'));
        if self.found.imports.len() < MAX_IMPORTS && !line.is_empty() {
            self.found.imports.push(line);
        }
    }

    fn python(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_statement" | "import_from_statement" | "future_import_statement" => {
                self.import(self.words(node));
            }
            "function_definition" => self.export(self.signature(node)),
            "class_definition" => self.export(self.field(node, "name")),
            "decorated_definition" => {
                if let Some(inner) = node.child_by_field_name("definition") {
                    self.python(inner);
                }
            }
            "expression_statement" => {
                let assignment = node.named_child(0).filter(|child| child.kind() == "assignment");
                let left = assignment.and_then(|child| child.child_by_field_name("left"));
                let name = left.filter(|left| left.kind() == "identifier").map(|left| self.words(left));
                self.export(name.filter(|name| !self.found.exports.iter().any(|known| known == name)));
            }
            _ => {}
        }
    }

    fn rust(&mut self, node: Node<'_>) {
        match node.kind() {
            "use_declaration" | "extern_crate_declaration" => {
                self.import(self.words(node));
                if is_public(node) {
                    self.export(self.field(node, "argument"));
                }
            }
            "function_item" if is_public(node) => self.export(self.signature(node)),
            "struct_item" | "enum_item" | "union_item" | "trait_item" | "type_item" | "const_item"
            | "static_item" | "mod_item"
                if is_public(node) =>
            {
                self.export(self.field(node, "name"));
            }
            "macro_definition" => self.export(self.field(node, "name").map(|name| format!("{name}!"))),
            "impl_item" if node.child_by_field_name("trait").is_none() => self.rust_methods(node),
            _ => {}
        }
    }

    fn rust_methods(&mut self, node: Node<'_>) {
        let owner = self.field(node, "type").map(one_line).unwrap_or_default();
        let owner = owner.split('<').next().unwrap_or_default().to_owned();
        let Some(body) = node.child_by_field_name("body") else { return };
        let mut cursor = body.walk();
        for method in body.named_children(&mut cursor) {
            if method.kind() == "function_item" && is_public(method) {
                self.export(self.signature(method).map(|signature| format!("{owner}::{signature}")));
            }
        }
    }

    fn go(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_declaration" => self.go_specs(node, 0),
            "function_declaration" => {
                let offered = self.field(node, "name").is_some_and(starts_large);
                self.export(self.signature(node).filter(|_| offered));
            }
            "method_declaration" if self.field(node, "name").is_some_and(starts_large) => {
                let receiver = self.field(node, "receiver").unwrap_or_default();
                self.export(self.signature(node).map(|signature| format!("{receiver} {signature}")));
            }
            "type_declaration" | "const_declaration" | "var_declaration" => self.go_specs(node, 0),
            _ => {}
        }
    }

    /// Names and imports stand in lists, one or two deep.
    fn go_specs(&mut self, node: Node<'_>, depth: usize) {
        let mut cursor = node.walk();
        for spec in node.named_children(&mut cursor) {
            match spec.kind() {
                "import_spec" => self.import(&format!("import {}", self.words(spec))),
                "type_spec" | "type_alias" | "const_spec" | "var_spec" => {
                    let mut names = spec.walk();
                    for name in spec.children_by_field_name("name", &mut names) {
                        self.export(Some(self.words(name)).filter(|name| starts_large(name)));
                    }
                }
                _ if depth < 2 => self.go_specs(spec, depth + 1),
                _ => {}
            }
        }
    }

    fn script(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_statement" => self.import(self.words(node)),
            "lexical_declaration" | "variable_declaration" if self.is_require(node) => {
                self.import(self.words(node));
            }
            "export_statement" => self.script_export(node),
            "expression_statement" => self.common_export(node),
            _ => {}
        }
    }

    fn is_require(&self, node: Node<'_>) -> bool {
        let value = node.named_child(0).and_then(|first| first.child_by_field_name("value"));
        value.is_some_and(|value| self.words(value).starts_with("require("))
    }

    fn script_export(&mut self, node: Node<'_>) {
        if let Some(declaration) = node.child_by_field_name("declaration") {
            return self.script_declaration(declaration);
        }
        let mut cursor = node.walk();
        let clause = node.named_children(&mut cursor).find(|child| child.kind() == "export_clause");
        if let Some(clause) = clause {
            let mut cursor = clause.walk();
            for one in clause.named_children(&mut cursor) {
                self.export(self.field(one, "alias").or(self.field(one, "name")));
            }
        } else if let Some(source) = self.field(node, "source") {
            self.export(Some(format!("* from {source}")));
        } else {
            self.export(Some("default"));
        }
    }

    fn script_declaration(&mut self, node: Node<'_>) {
        match node.kind() {
            "function_declaration" | "generator_function_declaration" | "function_signature" => {
                self.export(self.signature(node));
            }
            "lexical_declaration" | "variable_declaration" => {
                let mut cursor = node.walk();
                for one in node.named_children(&mut cursor).filter(|one| one.kind() == "variable_declarator")
                {
                    self.export(self.script_variable(one));
                }
            }
            _ => self.export(self.field(node, "name")),
        }
    }

    /// A function kept in a variable is shown like one.
    fn script_variable(&self, node: Node<'_>) -> Option<String> {
        let name = self.field(node, "name")?;
        let value = node.child_by_field_name("value");
        let Some(parameters) = value.and_then(|value| value.child_by_field_name("parameters")) else {
            return Some(name.to_owned());
        };
        let result = value.and_then(|value| value.child_by_field_name("return_type"));
        let result = result.map(|result| self.words(result)).unwrap_or_default();
        Some(format!("{name}{}{result}", self.words(parameters)))
    }

    /// `module.exports = { a, b }`, `module.exports = A`, `exports.a = …`.
    fn common_export(&mut self, node: Node<'_>) {
        let Some(assignment) = node.named_child(0).filter(|one| one.kind() == "assignment_expression") else {
            return;
        };
        let left = self.field(assignment, "left").unwrap_or_default();
        let right = assignment.child_by_field_name("right");
        if left != "module.exports" {
            let name = left.strip_prefix("module.exports.").or(left.strip_prefix("exports."));
            return self.export(name);
        }
        match right {
            Some(object) if object.kind() == "object" => {
                let mut cursor = object.walk();
                for one in object.named_children(&mut cursor) {
                    let key = self.field(one, "key").or(self.field(one, "name"));
                    self.export(key.or_else(|| Some(self.words(one))));
                }
            }
            Some(value) if value.kind() == "identifier" => self.export(Some(self.words(value))),
            Some(_) | None => self.export(Some("default")),
        }
    }
}

fn is_public(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).any(|child| child.kind() == "visibility_modifier")
}

fn starts_large(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// All white space as single spaces, and not too long.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace("( ", "(").replace(", )", ")").replace(" )", ")");
    match line.char_indices().nth(MAX_ENTRY_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Words before a name, in languages without a parser of ours.
const DEFINES: [&str; 13] = [
    "def",
    "function",
    "func",
    "fn",
    "fun",
    "class",
    "struct",
    "interface",
    "trait",
    "enum",
    "module",
    "object",
    "sub",
];

/// Words that may stand before those.
const MODIFIERS: [&str; 11] =
    ["export", "public", "pub", "static", "async", "abstract", "final", "data", "sealed", "default", "open"];

const TAKES: [&str; 7] = ["import ", "from ", "#include", "require", "using ", "use ", "source "];

fn by_text(text: &str) -> Surface {
    let takes = |line: &&str| TAKES.iter().any(|word| line.starts_with(word));
    let imports = text.lines().take(IMPORT_LINES).filter(takes).map(one_line).take(MAX_IMPORTS).collect();
    let exports = text.lines().filter_map(defined).take(MAX_EXPORTS).collect();
    Surface { exports, imports }
}

/// The name that an unindented line defines.
fn defined(line: &str) -> Option<String> {
    if line.starts_with(char::is_whitespace) || line.len() > MAX_ENTRY_CHARS * 4 {
        return None;
    }
    let mut words = line.split_whitespace().skip_while(|word| MODIFIERS.contains(word));
    let word = words.next()?;
    let rest = words.next()?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    (DEFINES.contains(&word) && end > 0).then(|| rest[..end].to_owned())
}
