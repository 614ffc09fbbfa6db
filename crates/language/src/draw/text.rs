//! Drawings as text: pairs, Mermaid, a Markdown table, Graphviz.
//!
//! Every text is the same for the same machine, ends with a line break unless it is empty, and
//! never lets a name or a label break out of the place it stands in.

use std::fmt::Write as _;

use super::alias::{identifier, is_plain};
use super::{Arrow, Machine};

/// One `FROM TO` per line, each pair once, sorted.
#[must_use]
pub fn edges(machine: &Machine) -> String {
    let mut text = String::new();
    for (from, to) in machine.pairs() {
        let _ = writeln!(text, "{from} {to}");
    }
    text
}

/// A Mermaid `stateDiagram-v2`.
#[must_use]
pub fn mermaid(machine: &Machine) -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for name in machine.places().into_keys().filter(|name| !is_plain(name)) {
        let _ = writeln!(text, "    {}", alias_line(name));
    }
    if let Some(start) = machine.states.first() {
        let _ = writeln!(text, "    [*] --> {}", identifier(&start.name));
    }
    for arrow in machine.grouped() {
        let _ = writeln!(text, "    {}", edge_line(arrow));
    }
    for shape in machine.states.iter().filter(|shape| shape.last) {
        let _ = writeln!(text, "    {} --> [*]", identifier(&shape.name));
    }
    text
}

/// A Markdown table with a row for each edge, grouped by the state that is left.
#[must_use]
pub fn table(machine: &Machine) -> String {
    let mut text = String::from("| From | To | When |\n| --- | --- | --- |\n");
    for arrow in machine.grouped() {
        let (from, to) = (name_cell(&arrow.from), name_cell(&arrow.to));
        let _ = writeln!(text, "| {from} | {to} | {} |", prose_cell(&arrow.label));
    }
    text
}

/// A Graphviz `digraph`.
#[must_use]
pub fn dot(machine: &Machine) -> String {
    let mut text = format!("digraph {} {{\n", quote_text(&machine.name));
    text.push_str("    node [shape=box, style=rounded];\n");
    if let Some(start) = machine.states.first() {
        // No state can have this name: line breaks in names are written as spaces.
        text.push_str("    \"\\n*\" [shape=point, label=\"\"];\n");
        let _ = writeln!(text, "    \"\\n*\" -> {};", quote_text(&start.name));
    }
    for shape in &machine.states {
        let border = if shape.last { " [peripheries=2]" } else { "" };
        let _ = writeln!(text, "    {}{border};", quote_text(&shape.name));
    }
    for arrow in machine.grouped() {
        let _ = writeln!(text, "    {}", dot_edge(arrow));
    }
    text.push_str("}\n");
    text
}

/// The line of a Mermaid text that says how an identifier is shown.
pub(super) fn alias_line(name: &str) -> String {
    format!("state \"{}\" as {}", mermaid_text(name), identifier(name))
}

/// The line of a Mermaid text for an edge.
pub(super) fn edge_line(arrow: &Arrow) -> String {
    let (from, to) = (identifier(&arrow.from), identifier(&arrow.to));
    let label = mermaid_text(&arrow.label);
    if label.is_empty() {
        return format!("{from} --> {to}");
    }
    format!("{from} --> {to} : {label}")
}

/// A state's name as the text of a cell.
pub(super) fn name_cell(name: &str) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    if name.chars().all(word) && !name.starts_with('_') && !name.ends_with('_') {
        return name.to_owned();
    }
    escaped(name, |c| c.is_ascii_punctuation())
}

/// A label as the text of a cell: prose that keeps its Markdown, but not its pipes.
pub(super) fn prose_cell(label: &str) -> String {
    escaped(label, |c| c == '|' || c == '\\')
}

fn escaped(text: &str, special: impl Fn(char) -> bool) -> String {
    let mut cell = String::new();
    for c in one_line(text).chars() {
        if special(c) {
            cell.push('\\');
        }
        cell.push(c);
    }
    cell
}

/// Mermaid reads some marks as syntax even inside a label; it shows their codes as the marks.
fn mermaid_text(text: &str) -> String {
    let mut safe = String::new();
    for c in one_line(text).chars() {
        match c {
            '"' | '#' | '%' | '&' | ':' | ';' | '<' | '>' | '\\' | '`' | '{' | '}' => {
                let _ = write!(safe, "#{};", u32::from(c));
            }
            plain => safe.push(plain),
        }
    }
    safe
}

fn dot_edge(arrow: &Arrow) -> String {
    let (from, to) = (quote_text(&arrow.from), quote_text(&arrow.to));
    let label = one_line(&arrow.label);
    if label.is_empty() {
        return format!("{from} -> {to};");
    }
    format!("{from} -> {to} [label={}];", quote_text(&label))
}

fn quote_text(text: &str) -> String {
    let text = one_line(text).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// The words of a text with single spaces between them, without control characters.
pub(super) fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{dot, edges, mermaid, table};
    use crate::draw::{Arrow, DrawnState, Machine};

    fn arrow(from: &str, to: &str, label: &str) -> Arrow {
        Arrow { from: from.into(), to: to.into(), label: label.into() }
    }

    fn small() -> Machine {
        let shape = |name: &str, last| DrawnState { name: name.into(), last, can_hold: false };
        Machine {
            name: "small".into(),
            states: vec![shape("A", false), shape("B_C", false), shape("D", true)],
            edges: vec![
                arrow("B_C", "D", "say \"so\"; a|b: #1"),
                arrow("A", "B_C", ""),
                arrow("A", "A", "again\nand again"),
                arrow("A", "B_C", "twice"),
            ],
        }
    }

    #[test]
    fn pairs_are_sorted_and_single() {
        assert_eq!(edges(&small()), "A A\nA B_C\nB_C D\n");
        assert_eq!(edges(&Machine::default()), "");
    }

    #[test]
    fn mermaid_is_grouped_and_escaped() {
        let expected = "stateDiagram-v2\n    [*] --> A\n    A --> B_C\n    A --> A : again and again\n    \
            B_C --> D : say #34;so#34;#59; a|b#58; #35;1\n    D --> [*]\n";
        assert_eq!(mermaid(&small()), expected);
        assert_eq!(mermaid(&Machine::default()), "stateDiagram-v2\n");
    }

    #[test]
    fn odd_names_get_an_alias() {
        let machine = Machine { edges: vec![arrow("a-b", "C", "")], ..Machine::default() };
        let expected = "stateDiagram-v2\n    state \"a-b\" as alias_612d62\n    alias_612d62 --> C\n";
        assert_eq!(mermaid(&machine), expected);
    }

    #[test]
    fn table_escapes_pipes() {
        let expected = "| From | To | When |\n| --- | --- | --- |\n| A | B_C |  |\n\
            | A | A | again and again |\n| B_C | D | say \"so\"; a\\|b: #1 |\n";
        assert_eq!(table(&small()), expected);
    }

    #[test]
    fn dot_marks_start_and_end() {
        let expected = "digraph \"small\" {\n    node [shape=box, style=rounded];\n    \
            \"\\n*\" [shape=point, label=\"\"];\n    \"\\n*\" -> \"A\";\n    \"A\";\n    \"B_C\";\n    \
            \"D\" [peripheries=2];\n    \"A\" -> \"B_C\";\n    \"A\" -> \"A\" [label=\"again and again\"];\n    \
            \"B_C\" -> \"D\" [label=\"say \\\"so\\\"; a|b: #1\"];\n}\n";
        assert_eq!(dot(&small()), expected);
    }
}
