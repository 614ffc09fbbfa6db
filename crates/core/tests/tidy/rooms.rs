//! What keeps a crate a place that one person can know: it is small, and a type's name means one thing.
//!
//! Lines are read, not parsed. Crates of tests are left out where the product's names are meant.

use std::collections::BTreeMap;

use super::{ARROWS, File, report, sources};

/// How many lines of sources a crate may have, tests in its files included.
const MAX_CRATE_LINES: usize = 15_000;

#[test]
fn no_crate_is_too_large() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources() {
        *lines.entry(folder(&file).to_owned()).or_default() += file.text.lines().count();
    }
    assert_eq!(lines.len(), ARROWS.len(), "every crate has sources");
    let large = lines.into_iter().filter(|(_, count)| *count > MAX_CRATE_LINES);
    let findings =
        large.map(|(name, count)| format!("crates/{name}: {count} lines, {MAX_CRATE_LINES} is the most"));
    report(findings, "move what has its own reason to change into a crate below or beside it");
}

#[test]
fn public_types_have_one_owner() {
    let is_product = |file: &File| {
        !["needs", "testkit"].contains(&folder(file)) && !file.is_test() && !file.name.ends_with("_tests.rs")
    };
    let findings = owned_twice(sources().into_iter().filter(is_product));
    report(
        findings,
        "say what it is of: `GraphNode`, `MessageTemplate`; or make it `pub(crate)` (docs/glossary.md)",
    );
}

#[test]
fn this_test_sees_types_with_two_owners() {
    let twice = |first: &str, second: &str| {
        let files = [("crates/core/src/a.rs", first), ("crates/git/src/b.rs", second)];
        owned_twice(files.map(|(name, text)| File::new(name, text))).len()
    };
    assert_eq!(twice("pub struct Node {", "pub enum Node {"), 1);
    assert_eq!(twice("pub struct Node<'a>(u8);", "pub type Node = u8;"), 1);
    assert_eq!(twice("pub trait Node {", "pub struct Node;\npub struct Other;"), 1);
    assert_eq!(twice("pub struct Node;", "pub(crate) struct Node;"), 0);
    assert_eq!(twice("pub struct Node;", "    pub struct Node;"), 0);
    assert_eq!(twice("pub struct Node;", "pub struct Nodes;"), 0);
}

/// The crate that a file belongs to.
fn folder(file: &File) -> &str {
    file.name.split('/').nth(1).unwrap_or_default()
}

/// Names of types that more than one public item of the sources has, with where they stand.
fn owned_twice(files: impl IntoIterator<Item = File>) -> Vec<String> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(name) = public_type(line) {
                owners.entry(name.to_owned()).or_default().push(format!("{}:{}", file.name, number + 1));
            }
        }
    }
    let twice = owners.into_iter().filter(|(_, places)| places.len() > 1);
    twice
        .map(|(name, places)| format!("`{name}` has {} owners: {}", places.len(), places.join(", ")))
        .collect()
}

/// The name of the public type that a line declares at the left edge.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest =
        ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|word| rest.strip_prefix(word))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}
