//! The scanner against a table of bad and honest texts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests fail by panicking")]

use ftl_memory::scan::{self, Suspicion};

const TABLE: &str = include_str!("cases/scanner.txt");

/// Takes the marks of the table out of a text.
fn unmark(text: &str) -> String {
    let mut out = text.replace('~', "").replace("\\n", "\n").replace("\\t", "\t");
    while let Some(start) = out.find("\\u{") {
        let end = start + out[start..].find('}').expect("a closing brace");
        let number = u32::from_str_radix(&out[start + 3..end], 16).expect("a number");
        out.replace_range(start..=end, &char::from_u32(number).expect("a letter").to_string());
    }
    out
}

fn lines(of: &str) -> Vec<&'static str> {
    let start = format!("{of} | ");
    TABLE.lines().filter_map(|line| line.strip_prefix(start.as_str())).collect()
}

#[test]
fn bad_texts_are_told() {
    let bad = lines("bad");
    assert!(bad.len() >= 30);
    let mut missed = Vec::new();
    for line in bad {
        let (wanted, text) = line.split_once(" | ").expect("what must be found");
        let found = scan::scan(&unmark(text));
        let fits = |suspicion: &Suspicion| match suspicion {
            Suspicion::Secret(_) => wanted == "secret",
            Suspicion::Steering(_) => wanted == "steering",
            Suspicion::Invisible => wanted == "invisible",
            Suspicion::TooLong => wanted == "long",
            // No text shows that.
            Suspicion::FromAgent => false,
        };
        if !found.iter().any(fits) {
            missed.push(format!("{line}: {found:?}"));
        }
    }
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn honest_texts_pass() {
    let honest = lines("honest");
    assert!(honest.len() >= 30);
    let labelled = include_str!("cases/labelled.txt").lines();
    let accused: Vec<String> = honest
        .into_iter()
        .chain(labelled)
        .map(|text| (text, scan::scan(&unmark(text))))
        .filter(|(_, found)| !found.is_empty())
        .map(|(text, found)| format!("{text}: {found:?}"))
        .collect();
    assert!(accused.is_empty(), "\n{}", accused.join("\n"));
}

#[test]
fn a_text_that_nobody_reads_to_its_end_is_told() {
    assert_eq!(scan::scan(&"word ".repeat(scan::MAX_CHARS)), [Suspicion::TooLong]);
    assert!(scan::scan("").is_empty());
}

#[test]
fn what_is_told_never_holds_the_secret() {
    for line in lines("bad") {
        let text = unmark(line.split_once(" | ").expect("a text").1);
        for found in scan::scan(&text) {
            assert!(!text.contains(&found.to_string()), "{found} quotes the text");
        }
    }
}
