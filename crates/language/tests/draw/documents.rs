//! Drawings in documents: found, compared, put right.

use std::collections::BTreeSet;

use crate::machines::{self, machine};
use ftl_language::draw::{
    DifferenceKind, Drawing, DrawingKind, Machine, compare, edges, mermaid, read, rewrite, table,
};

fn only(markdown: &str) -> Drawing {
    let mut drawings = read(markdown);
    assert_eq!(drawings.len(), 1, "{markdown}");
    drawings.remove(0)
}

fn pairs(drawing: &Drawing) -> String {
    drawing.pairs().iter().map(|(from, to)| format!("{from} {to}\n")).collect()
}

fn messages(drawing: &Drawing) -> Vec<(usize, &str)> {
    drawing.faults.iter().map(|fault| (fault.line, fault.message.as_str())).collect()
}

/// What `compare` says, a line each, without the words.
fn differences(markdown: &str, machine: &Machine) -> Vec<String> {
    let all = read(markdown).into_iter().flat_map(|drawing| compare(&drawing, machine));
    all.map(|d| format!("{:?} {} {} at {}", d.kind, d.from, d.to, d.line)).collect()
}

fn ab() -> Machine {
    machine("ab", "A B C!", "A B go\nB A back\nB C done")
}

const CODER_MATRIX: &str = "\
| From \\ To          | WAITING | SETUP | PLANNING | PLAN_REVIEW | CODING | TESTING | BUDGET_REVIEW | CODE_REVIEW | AWAIT_MERGE | DONE | ERROR |
| ------------------ | ------- | ----- | -------- | ----------- | ------ | ------- | ------------- | ----------- | ----------- | ---- | ----- |
| **WAITING**        | –       | ✔︎    | –        | –           | –      | –       | –             | –           | –           | –    | ✔︎    |
| **SETUP**          | –       | –     | ✔︎       | –           | –      | –       | –             | –           | –           | –    | ✔︎    |
| **PLANNING**       | –       | –     | –        | ✔︎          | –      | –       | –             | –           | –           | –    | –     |
| **PLAN\\_REVIEW**   | –       | –     | ✔︎       | –           | ✔︎     | –       | –             | –           | –           | ✔︎   | ✔︎    |
| **CODING**         | –       | –     | –        | –           | –      | ✔︎      | ✔︎            | –           | –           | –    | ✔︎    |
| **TESTING**        | –       | –     | –        | –           | ✔︎     | –       | –             | ✔︎          | –           | –    | –     |
| **BUDGET\\_REVIEW** | –       | –     | ✔︎       | –           | ✔︎     | –       | –             | –           | –           | –    | ✔︎    |
| **CODE\\_REVIEW**   | –       | –     | –        | –           | ✔︎     | –       | –             | –           | ✔︎          | –    | ✔︎    |
| **AWAIT\\_MERGE**   | –       | –     | –        | –           | ✔︎     | –       | –             | –           | –           | ✔︎   | ✔︎    |
| **DONE**           | –       | –     | –        | –           | –      | –       | –             | –           | –           | –    | –     |
| **ERROR**          | –       | –     | –        | –           | –      | –       | –             | –           | –           | –    | –     |
";

const BUILDER_STEPS: &str = "\
| State | Tool Cost | Success → | Failure → |
|-------|-----------|-----------|-----------|
| READ | 1 | PLAN | BLOCK |
| PLAN | 0 | IMPLEMENT or READ_TESTS | BLOCK |
| READ_TESTS | 1 | IMPLEMENT | IMPLEMENT (skip) |
| IMPLEMENT | N | PREFLIGHT | BLOCK |
| PREFLIGHT | EXEMPT | VERIFY | PREFLIGHT (retry, max 3) or BLOCK |
| VERIFY | 1 | QUALITY | RETRY or BLOCK |
| RETRY | 1 | VERIFY | BLOCK |
| QUALITY | 0 | COMPLETE | BLOCK |
| COMPLETE | EXEMPT | STOP | - |
| BLOCK | EXEMPT | STOP | - |
";

#[test]
fn the_matrix_of_the_specification_is_the_coder() {
    let drawing = only(CODER_MATRIX);
    assert_eq!(drawing.kind, DrawingKind::Matrix);
    assert_eq!(pairs(&drawing), edges(&machines::coder()));
    assert_eq!(compare(&drawing, &machines::coder()), []);
    assert_eq!(rewrite(CODER_MATRIX, &machines::coder()), CODER_MATRIX);
}

#[test]
fn the_steps_of_the_specification_are_the_builder() {
    let drawing = only(BUILDER_STEPS);
    assert_eq!(drawing.kind, DrawingKind::Steps);
    assert_eq!(pairs(&drawing), edges(&machines::builder()));
    assert_eq!(compare(&drawing, &machines::builder()), []);
    assert_eq!(rewrite(BUILDER_STEPS, &ab()), BUILDER_STEPS);
}

#[test]
fn what_we_write_reads_as_the_machine() {
    for machine in machines::all() {
        let document = format!("```mermaid\n{}```\n\n{}", mermaid(&machine), table(&machine));
        let drawings = read(&document);
        assert_eq!(drawings.len(), 2);
        for drawing in &drawings {
            assert_eq!(compare(drawing, &machine), [], "{}", machine.name);
        }
        assert_eq!(rewrite(&document, &machine), document);
    }
}

#[test]
fn a_diagram_is_read_line_by_line() {
    let document = "Text.\n\n```mermaid\n%% first\nstateDiagram-v2\n    direction LR\n    [*] --> A\n    \
        A --> B: go: now\n    B:::warm --> C-1 : x\n    state \"The end\" as C\n    C : described\n    \
        note right of A\n      A --> Z\n    end note\n    note left of B : short --> note\n    \
        classDef warm fill:#f00\n    class A warm\n    B --> A %% again\n    B --> A\n    C --> [*]\n```\n";
    let drawing = only(document);
    assert_eq!(messages(&drawing), []);
    assert_eq!(pairs(&drawing), "A B\nB A\nB C-1\n");
    let lines: Vec<usize> = drawing.edges.iter().map(|edge| edge.line).collect();
    assert_eq!(lines, [8, 9, 18, 19]);
    assert_eq!(&document[drawing.edges[0].span.clone()], "    A --> B: go: now");
    assert_eq!(&document[drawing.first_line.clone()], "```mermaid");
    assert_eq!(drawing.line, 3);
    assert!(document[drawing.span].ends_with("[*]\n```"));
}

#[test]
fn other_blocks_are_no_drawings() {
    let other = "```mermaid\nflowchart LR\nA --> B\n```\n\n```\nstateDiagram-v2\n```\n\n| A | B |\n|---|---|\n\n\
        | State | Purpose |\n|---|---|\n| A | B |\n";
    assert_eq!(read(other), []);
    assert_eq!(rewrite(other, &ab()), other);
}

#[test]
fn unreadable_lines_are_named() {
    let document = "```mermaid\nstateDiagram-v2\nA -> B\nA --> B\nstate X {\nA ==> B\ndirection UP\n```\n";
    let drawing = only(document);
    let lines: Vec<usize> = drawing.faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [3, 5, 6, 7]);
    assert_eq!(drawing.faults[0].message, "not a statement of a state diagram: \"A -> B\"");
    assert_eq!(pairs(&drawing), "A B\n");
}

#[test]
fn a_fence_that_is_never_closed_is_named() {
    let drawing = only("```mermaid\nstateDiagram-v2\nA --> B\n\nProse goes on.\n");
    let expected =
        [(5, "not a statement of a state diagram: \"Prose goes on.\""), (1, "the fence is never closed")];
    assert_eq!(messages(&drawing), expected);
}

#[test]
fn a_list_may_name_several_targets() {
    let document =
        "| From | To | Why |\n|---|---|---|\n| **A** | B, `C` | both |\n| C | – | |\n| [*] | A | |\n";
    let drawing = only(document);
    assert_eq!(drawing.kind, DrawingKind::List);
    assert_eq!(pairs(&drawing), "A B\nA C\n");
    assert_eq!(messages(&drawing), []);
}

#[test]
fn faults_of_tables_are_named() {
    let list = "| From | To |\n|---|---|\n| A | B or C |\n| A | |\n|  | B |\n";
    let expected = [
        (3, "not the name of a state: \"B or C\""),
        (4, "not the name of a state: \"\""),
        (5, "not the name of a state: \"\""),
    ];
    assert_eq!(messages(&only(list)), expected);
    let matrix = "| From / To | A | B |\n|---|---|---|\n| A | maybe | x |\n";
    assert_eq!(messages(&only(matrix)), [(3, "neither a tick nor a dash at A, A: \"maybe\"")]);
    let steps = "| State | Success | Failure |\n|---|---|---|\n| A | GONE | A (x) |\n";
    assert_eq!(messages(&only(steps)), [(3, "not a state of this table: \"GONE\"")]);
}

#[test]
fn differences_are_complete_and_sorted() {
    let document = "```mermaid\nstateDiagram-v2\n  B --> C\n  Z --> A\n  what?\n  A --> C\n  A --> C\n```\n";
    let expected = [
        "Missing A B at 1",
        "Missing B A at 1",
        "Extra A C at 6",
        "Extra A C at 7",
        "Extra Z A at 4",
        "Unreadable   at 5",
    ];
    assert_eq!(differences(document, &ab()), expected);
}

#[test]
fn a_diagram_keeps_what_is_right() {
    let before = "> ~~~mermaid\n> stateDiagram-v2\n>   %% by hand\n>   [*] --> OLD\n>   A --> B : my words\n>   \
        OLD --> B\n>   B --> C\n>   OLD --> [*]\n> ~~~\nafter\n";
    let after = "> ~~~mermaid\n> stateDiagram-v2\n>     [*] --> A\n>   %% by hand\n>   A --> B : my words\n>   \
        B --> C\n>   B --> A : back\n> ~~~\nafter\n";
    assert_eq!(rewrite(before, &ab()), after);
    assert_eq!(rewrite(after, &ab()), after);
}

#[test]
fn a_list_keeps_what_is_right() {
    let before = "| From | To   | Note | When |\r\n|------|------|------|------|\r\n| B | C, Z | **kept** | x |\r\n\
        | Z | A | gone | |\r\n| B | A | as is|\r\n\r\nend";
    let after = "| From | To   | Note | When |\r\n|------|------|------|------|\r\n\
        | A    | B    |      | go   |\r\n| B | C | **kept** | x |\r\n| B | A | as is|\r\n\r\nend";
    assert_eq!(rewrite(before, &ab()), after);
    assert_eq!(rewrite(after, &ab()), after);
}

#[test]
fn a_matrix_gets_rows_columns_and_marks() {
    let before = "| From \\ To | B | A |\n|---|---|:-:|\n| `B` | x | |";
    let after = "| From \\ To | B | A | C |\n|---|---|:-:| --- |\n| `B`       |   | x | x |\n\
        | A         | x |   |   |\n| C         |   |   |   |";
    assert_eq!(rewrite(before, &ab()), after);
    assert_eq!(differences(after, &ab()), Vec::<String>::new());
    assert_eq!(rewrite(after, &ab()), after);
}

#[test]
fn unreadable_lines_stay() {
    let before = "```mermaid\nstateDiagram-v2\nsomething else\n```\n";
    let after = "```mermaid\nstateDiagram-v2\n    A --> B : go\n    B --> A : back\n    B --> C : done\n\
        something else\n```\n";
    assert_eq!(rewrite(before, &ab()), after);
    let left: Vec<DifferenceKind> = compare(&only(after), &ab()).iter().map(|d| d.kind).collect();
    assert_eq!(left, [DifferenceKind::Unreadable]);
}

#[test]
fn odd_names_survive_a_diagram() {
    let machine = machine("odd", "a-b end", "a-b end x\nend a-b");
    let after = rewrite("```mermaid\nstateDiagram-v2\n```\n", &machine);
    assert_eq!(differences(&after, &machine), Vec::<String>::new());
    assert_eq!(rewrite(&after, &machine), after);
    let names: BTreeSet<String> = only(&after).edges.into_iter().map(|edge| edge.from).collect();
    assert_eq!(names, BTreeSet::from(["a-b".to_owned(), "end".to_owned()]));
}
