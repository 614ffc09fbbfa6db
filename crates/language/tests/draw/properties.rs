//! What holds for every machine and every document.

use std::collections::BTreeSet;

use ftl_language::draw::{
    Arrow, DifferenceKind, DrawingKind, DrawnState, Machine, compare, dot, edges, mermaid, read, rewrite,
    svg, table,
};
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

/// Names that protocols have, some of them words of Mermaid.
const NAMES: [&str; 12] =
    ["A", "B", "PLAN", "PLAN_REVIEW", "x", "end", "state", "note", "_odd_", "codegen", "Z9", "alias_41"];

/// What every Graphviz text ends with; the macros of proptest would take it for a format.
const END: char = '}';

fn names() -> impl Strategy<Value = String> {
    (0..NAMES.len()).prop_map(|at| NAMES[at].to_owned())
}

fn machines() -> impl Strategy<Value = Machine> {
    let states = prop::collection::vec((names(), any::<bool>(), any::<bool>()), 0..8);
    let arrows = prop::collection::vec((names(), names(), "[a-z|:;#\"\\\\<> ]{0,12}"), 0..20);
    (states, arrows).prop_map(|(states, arrows)| build(states, arrows))
}

fn any_machines() -> impl Strategy<Value = Machine> {
    let states = prop::collection::vec((any::<String>(), any::<bool>(), any::<bool>()), 0..8);
    let arrows = prop::collection::vec((any::<String>(), any::<String>(), any::<String>()), 0..12);
    (states, arrows).prop_map(|(states, arrows)| build(states, arrows))
}

fn build(states: Vec<(String, bool, bool)>, arrows: Vec<(String, String, String)>) -> Machine {
    let mut seen = BTreeSet::new();
    let states = states.into_iter().filter(|(name, _, _)| seen.insert(name.clone()));
    let shape = |(name, last, can_hold)| DrawnState { name, last, can_hold };
    let mut pairs = BTreeSet::new();
    let arrows = arrows.into_iter().filter(|(from, to, _)| pairs.insert((from.clone(), to.clone())));
    Machine {
        name: "machine".into(),
        states: states.map(shape).collect(),
        edges: arrows.map(|(from, to, label)| Arrow { from, to, label }).collect(),
    }
}

/// Graphs by number, up to forty states.
fn graphs() -> impl Strategy<Value = Machine> {
    let pairs = prop::collection::vec((0..40u8, 0..40u8, "[a-z ]{0,30}"), 0..120);
    (0..40u8, pairs).prop_map(|(states, pairs)| {
        let name = |at: u8| format!("S{at}");
        let states = (0..states).map(|at| (name(at), at % 5 == 0, at % 3 == 0)).collect();
        build(states, pairs.into_iter().map(|(from, to, label)| (name(from), name(to), label)).collect())
    })
}

/// A document with drawings of one machine, in several places and forms.
fn document(machine: &Machine, line_break: &str) -> String {
    let mermaid = mermaid(machine);
    let quoted: String = mermaid.lines().map(|line| format!("> {line}\n")).collect();
    let indented: String = mermaid.lines().map(|line| format!("   {line}\n")).collect();
    let text = format!(
        "# Title\n\n```mermaid\n{mermaid}```\n\n{}\n> ~~~mermaid\n{quoted}> ~~~\n\n1. ```mermaid\n{indented}   ```\n\n{}\n{}",
        table(machine),
        matrix(machine),
        table(machine).trim_end(),
    );
    text.replace('\n', line_break)
}

fn matrix(machine: &Machine) -> String {
    let escape = |name: &str| name.replace('_', "\\_");
    let names: Vec<&str> = machine.states.iter().map(|shape| shape.name.as_str()).collect();
    let head: String = names.iter().map(|name| format!(" {} |", escape(name))).collect();
    let mut text = format!("| From \\ To |{head}\n|---|{}\n", "---|".repeat(names.len()));
    for from in &names {
        let has = |to: &&str| machine.edges.iter().any(|edge| edge.from == *from && edge.to == *to);
        let marks: String = names.iter().map(|to| if has(to) { " yes |" } else { " - |" }).collect();
        text.push_str(&format!("| **{}** |{marks}\n", escape(from)));
    }
    text
}

proptest! {
    #[test]
    fn rewriting_puts_every_drawing_right(old in machines(), new in machines(), windows in any::<bool>()) {
        let before = document(&old, if windows { "\r\n" } else { "\n" });
        let after = rewrite(&before, &new);
        let drawings = read(&after);
        prop_assert_eq!(drawings.len(), 6);
        for drawing in &drawings {
            prop_assert_eq!(compare(drawing, &new), [], "{}", after);
        }
        prop_assert_eq!(&rewrite(&after, &new), &after);
    }

    #[test]
    fn what_is_right_stays(machine in machines()) {
        let before = document(&machine, "\n");
        let after = rewrite(&before, &machine);
        // Only a matrix may lack rows and columns for names that the states do not list.
        let outside = |text: &str| -> Vec<String> {
            text.split("| From \\ To |").next().unwrap_or_default().lines().map(str::to_owned).collect()
        };
        prop_assert_eq!(outside(&before), outside(&after));
    }

    #[test]
    fn graphs_are_drawn_whole(machine in graphs()) {
        let picture = svg(&machine);
        let boxes = picture.matches("<rect class=\"box").count();
        let names: BTreeSet<&str> = machine.states.iter().map(|shape| shape.name.as_str())
            .chain(machine.edges.iter().flat_map(|edge| [edge.from.as_str(), edge.to.as_str()]))
            .collect();
        prop_assert_eq!(boxes, names.len());
        let mark = usize::from(!machine.states.is_empty());
        prop_assert_eq!(picture.matches("<path class=\"line").count(), machine.edges.len() + mark);
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf\""));
    }

    #[test]
    fn nothing_panics_on_odd_machines(machine in any_machines()) {
        let drawn = mermaid(&machine);
        prop_assert!(svg(&machine).ends_with("</svg>\n"));
        prop_assert!(dot(&machine).trim_end().ends_with(END));
        prop_assert_eq!(edges(&machine).is_empty(), machine.edges.is_empty());
        let block = format!("```mermaid\n{drawn}```\n\n{}", table(&machine));
        let drawings = read(&block);
        prop_assert_eq!(compare(&drawings[0], &machine), []);
        let _ = rewrite(&block, &machine);
    }

    #[test]
    fn nothing_panics_on_odd_documents(
        pieces in prop::collection::vec(prop::sample::select(vec![
"```mermaid\nstateDiagram-v2\n", "\n\n| From | To |\n|---|---|\n", "\n\n| From \\ To | A | PLAN | ? |\n|---|---|---|---|\n",
            "- ```mermaid\n  stateDiagram-v2 x\n", "\n\n> | From | To | When |\n> -|-|-\n> ", "A --> PLAN : x\n", "  B --> B\n",
            "| A | PLAN, B or C, x |\n", "| PLAN | A | y | z | w |\n", "| end | [*], A |\n", "PLAN | x\n", "| A | yes |\n",
            "```mermaid\n", "stateDiagram-v2\n", "A --> B\n", "```\n", "| From | To |\n", "|---|---|\n", "| A | B, Q |",
            "\n", "> ", "- ", "[*] --> A", "note left of A\n", "state \"", "---\n", "| From \\ To | A |\n", "| B | x | y |\n",
            "| State | Success | Failure |\n", "|---|---|---|\n", "é", "\r\n", "\t", "\\|", "accDescr {\n", "A",
        ]), 0..30),
        machine in machines(),
    ) {
        let document = pieces.concat();
        let after = rewrite(&document, &machine);
        for drawing in read(&document) {
            prop_assert!(document.get(drawing.span.clone()).is_some());
            for difference in compare(&drawing, &machine) {
                prop_assert!(document.get(difference.span.clone()).is_some());
                prop_assert!(difference.line >= 1);
                prop_assert!(difference.kind == DifferenceKind::Unreadable || !difference.from.is_empty());
            }
        }
        for drawing in read(&after).iter().filter(|drawing| drawing.kind != DrawingKind::Steps) {
            let wrong = |kind| kind != DifferenceKind::Unreadable;
            let left = compare(drawing, &machine).into_iter().find(|difference| wrong(difference.kind));
            prop_assert_eq!(left, None, "{}", after);
        }
        prop_assert_eq!(&rewrite(&after, &machine), &after);
    }
}
