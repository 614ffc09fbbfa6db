//! Comparisons that say yes to everything.

use tree_sitter::Node;

use super::Fact;
use crate::integrity::cases::walk_inside;
use crate::integrity::units::Unit;
use ftl_code::context::Language;
use ftl_code::finding::FindingKind;

/// How much of the bodies of comparisons is read in one file.
const MAX_READ_BYTES: usize = 64 * 1024 * 1024;

/// The comparisons of a text that are always true.
pub(super) fn look(language: Language, text: &str) -> Vec<Fact> {
    let has = ["__eq__", "__ne__", "fn eq", "fn ne", "equals", "Equal", "isEqual"]
        .iter()
        .any(|word| text.contains(word));
    let Some(tree) = language.parse(text).filter(|_| has) else { return Vec::new() };
    let mut found = Vec::new();
    let mut left = MAX_READ_BYTES;
    let mut cursor = tree.walk();
    let words = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    walk_inside(&mut cursor, |node, above| {
        let name = node.child_by_field_name("name").map(words).unwrap_or_default();
        let body = node.child_by_field_name("body").map(words).unwrap_or_default();
        let says = match name {
            "__eq__" | "eq" | "equals" | "Equal" | "Equals" | "isEqual" => true,
            "__ne__" | "ne" => false,
            _ => return true,
        };
        let is_function = matches!(
            node.kind(),
            "function_definition"
                | "function_item"
                | "method_definition"
                | "method_declaration"
                | "function_declaration"
        );
        // What stands in many of them is read as often, so what is read of all has an end.
        left = left.saturating_sub(if is_function { body.len() } else { 0 });
        if is_function && left > 0 && answers(body, says) {
            let line = node.start_position().row + 1;
            let unit = Unit { line, code: format!("{name}{body}"), ..Unit::default() };
            let message = "a comparison says that everything is equal".to_owned();
            let fact = Fact::block(FindingKind::AlwaysEqual, &unit, message);
            let alone = language == Language::Rust && is_of_one_value(text, above);
            found.push(Fact { blocks: !alone, ..fact });
        }
        true
    });
    let lambdas = text.lines().enumerate().filter(|(_, line)| {
        let squeezed: String = line.split_whitespace().collect();
        squeezed.contains("__eq__=lambda") && squeezed.ends_with(":True")
    });
    found.extend(lambdas.map(|(at, line)| {
        let unit = Unit { line: at + 1, code: line.trim().to_owned(), ..Unit::default() };
        Fact::block(FindingKind::AlwaysEqual, &unit, "a comparison says that everything is equal".to_owned())
    }));
    found
}

/// Whether each way out of a body gives this answer.
fn answers(body: &str, says: bool) -> bool {
    let wanted = if says { ["True", "true"] } else { ["False", "false"] };
    let statements = body.split(['\n', ';', '{', '}']).map(str::trim).filter(|line| !line.is_empty());
    let mut returns = 0;
    let mut last = "";
    for line in statements {
        if let Some(value) = line.strip_prefix("return") {
            returns += 1;
            let value = value.trim();
            let always = value.ends_with(" or True") || value.ends_with(" || true");
            if !(wanted.contains(&value) || says && always) {
                return false;
            }
        }
        last = line;
    }
    returns > 0 || wanted.contains(&last)
}

/// Whether the type has one value only: `struct A;`.
fn is_of_one_value(text: &str, above: &[Node<'_>]) -> bool {
    let around = above.iter().rev().find(|node| node.kind() == "impl_item");
    let of = around.and_then(|node| node.child_by_field_name("type"));
    let name = of.and_then(|of| text.get(of.byte_range())).unwrap_or_default();
    !name.is_empty()
        && [format!("struct {name};"), format!("struct {name} {{}}")]
            .iter()
            .any(|form| text.contains(form.as_str()))
}
