//! Rules about product code: one block a case, the path, whether it is told, the text.

use super::*;

/// `## path | what is told`, and the text below it.
const CASES: &str = include_str!("cases.txt");

#[test]
fn product_code_is_told_for_what_it_asks_and_replaces() {
    let mut wrong = Vec::new();
    for part in CASES.split("\n## ").skip(1) {
        let (head, text) = part.split_once('\n').unwrap();
        let (path, wanted) = head.split_once('|').unwrap();
        let found: Vec<String> = facts(path.trim(), text)
            .iter()
            .map(|fact| format!("{}{}", fact.kind.word(), if fact.blocks { "" } else { " noted" }))
            .collect();
        let found = if found.is_empty() { "-".to_owned() } else { found.join(", ") };
        if found != wanted.trim() {
            wrong.push(format!("## {head}\nfound {found}\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_moves_from_file_to_file_is_not_new() {
    let text = "import os\n\ndef f():\n    return \"PYTEST_CURRENT_TEST\" in os.environ\n";
    let old = Sides { path: "a.py", before: Some(text), after: None };
    let new = Sides { path: "b.py", before: None, after: Some(text) };
    let mut known = Known::of([&old, &new].into_iter());
    assert!(look(&new, &mut known).is_empty());
    assert_eq!(look(&new, &mut Known::default()).len(), 1);
}
