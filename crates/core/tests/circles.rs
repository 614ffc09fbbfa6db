//! No circles between the top-level modules of a crate, checked in the sources of every crate.
//!
//! A reference is `crate::module`, or `super::module` where that reaches the root, outside of tests, comments and texts.
//! A name that the root gives on counts as its module. These tests read the tree and nothing else.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that still have circles, with the number of modules in the largest one. The goal is 1, and no row.
const STILL: [(&str, usize); 0] = [];

/// Which modules each module names.
type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_modules_see_each_other_in_a_circle() {
    let mut findings = Vec::new();
    let crates = crates();
    for (name, sources) in &crates {
        let edges = edges(sources);
        let circle = largest_circle(&edges);
        let listed = STILL.iter().find(|(listed, _)| listed == name).map(|(_, size)| *size);
        let names = || circle.iter().cloned().collect::<Vec<_>>().join(", ");
        match listed {
            None if circle.len() > 1 => {
                findings.push(format!("crates/{name}: a circle of {}: {}", circle.len(), names()));
            }
            Some(size) if circle.len() > size => {
                let grown = format!("crates/{name}: the circle of {size} has grown to {}: ", circle.len());
                findings.push(grown + &names());
            }
            Some(_) if circle.len() <= 1 => {
                findings.push(format!("crates/{name}: has no circle any more; take its row out of STILL"));
            }
            None | Some(_) => {}
        }
    }
    for (name, _) in STILL.iter().filter(|(name, _)| !crates.contains_key(*name)) {
        findings.push(format!("crates/{name}: is no crate any more; take its row out of STILL"));
    }
    let hint = "move what both need below them, or hand it in as an argument";
    assert!(findings.is_empty(), "\n{}\nhint: {hint}\n", findings.join("\n"));
}

#[test]
fn this_test_sees_references() {
    let found = |name: &str, text: &str| {
        let root = ("lib.rs".to_owned(), "mod a; mod b; mod c; pub use c::{Deep, low::Low};".to_owned());
        let rest = ["a.rs", "b.rs", "c.rs"].map(|name| (name.to_owned(), String::new()));
        let sources = [vec![root], rest.into(), vec![(name.to_owned(), text.to_owned())]].concat();
        edges(&sources).remove("a").unwrap_or_default().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found("a.rs", "use crate::b::X;"), ["b"]);
    assert_eq!(found("a/x.rs", "use crate::{\n    a::Y,\n    b::{Z, c},\n};"), ["b"]);
    assert_eq!(found("a/x.rs", "fn f() { crate::b::g(); super::super::c::g() }"), ["b", "c"]);
    assert_eq!(found("a.rs", "use super::b;"), ["b"]);
    assert_eq!(found("a/mod.rs", "use super::{b, c::X};"), ["b", "c"]);
    assert_eq!(found("a/x.rs", "use super::b;"), [""; 0]);
    assert_eq!(found("a.rs", "use crate::Deep; fn f(_: crate::Low) {}"), ["c"]);
    assert_eq!(found("a.rs", "// crate::b\n/* crate::c */ const X: &str = \"crate::b\";"), [""; 0]);
    assert_eq!(found("a.rs", "const X: (&str, char) = (r#\"\" crate::b\"#, '\"'); use crate::c;"), ["c"]);
    assert_eq!(found("a.rs", "#[cfg(test)]\nmod tests { use crate::b; mod x {} }\nuse crate::c;"), ["c"]);
    assert_eq!(
        found("a.rs", "#[cfg(test)]\n#[path = \"x\"]\nmod tests;\n#[cfg(test)] use crate::b;"),
        [""; 0]
    );
    assert_eq!(found("a/tests.rs", "use crate::b;"), [""; 0]);
}

#[test]
fn this_test_sees_circles() {
    let size = |text: &str| {
        let mut edges = Edges::new();
        for (from, to) in text.split_whitespace().filter_map(|edge| edge.split_once('>')) {
            edges.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        largest_circle(&edges).len()
    };
    assert_eq!(size("a>b b>c a>c"), 0);
    assert_eq!(size("a>b b>a c>d"), 2);
    assert_eq!(size("a>b b>a b>c c>d d>e e>c"), 3);
}

/// The sources of each crate: paths below `src`, and texts.
fn crates() -> BTreeMap<String, Vec<(String, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for folder in listed(&root).into_iter().map(|folder| folder.join("src")).filter(|src| src.is_dir()) {
        let name = folder.parent().and_then(Path::file_name).expect("a crate has a folder");
        found.insert(name.to_string_lossy().into_owned(), sources(&folder));
    }
    assert!(found.contains_key("core"), "no crates found below {}", root.display());
    found
}

fn sources(src: &Path) -> Vec<(String, String)> {
    let (mut folders, mut found) = (vec![src.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in listed(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let below = path.strip_prefix(src).expect("the walk stays below the folder");
                let text = fs::read_to_string(&path).expect("a source is text");
                found.push((below.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    found
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry of a folder").path()).collect();
    paths.sort();
    paths
}

/// Which top-level modules each top-level module names.
fn edges(sources: &[(String, String)]) -> Edges {
    let sources: Vec<(Vec<&str>, String)> =
        sources.iter().map(|(name, text)| (module(name), without_tests(&bare(text)))).collect();
    let is_root = |path: &[&str]| matches!(path, ["lib" | "main"]);
    let modules: BTreeSet<&str> =
        sources.iter().filter(|(path, _)| !is_root(path)).map(|(path, _)| path[0]).collect();
    // Names that the root gives on, with their modules.
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    for (_, text) in sources.iter().filter(|(path, _)| is_root(path)) {
        for part in text.split("use ").skip(1) {
            for path in paths(part.trim_start_matches("crate::").trim_start_matches("self::")) {
                if let [first, .., last] = path.as_slice() {
                    given.insert(last.clone(), first.clone());
                }
            }
        }
    }
    let mut edges = Edges::new();
    for (path, text) in sources.iter().filter(|(path, _)| !is_root(path) && !is_test(path)) {
        let up = "super::".repeat(path.len());
        let after_root =
            after(text, "crate::").chain(after(text, &up).filter(|rest| !rest.starts_with("super::")));
        for name in after_root.flat_map(paths).filter_map(|path| path.into_iter().next()) {
            let module = if modules.contains(name.as_str()) { Some(&name) } else { given.get(&name) };
            if let Some(module) =
                module.filter(|module| modules.contains(module.as_str()) && **module != path[0])
            {
                edges.entry(path[0].to_owned()).or_default().insert(module.clone());
            }
        }
    }
    edges
}

/// The path of the module that a file holds.
fn module(file: &str) -> Vec<&str> {
    let file = file.trim_end_matches(".rs");
    file.strip_suffix("/mod").unwrap_or(file).split('/').collect()
}

/// Whole files of tests, and programs beside the crate.
fn is_test(path: &[&str]) -> bool {
    path[0] == "bin" || path.iter().any(|part| *part == "tests" || part.ends_with("_tests"))
}

/// What stands after a word, at each of its places; a longer word or path that ends with it is another one.
fn after<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(word).filter_map(move |(at, _)| {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        (!text[..at].ends_with(is_part)).then(|| &text[at + word.len()..])
    })
}

/// The paths that a tree of names stands for, up to where it ends: `a::{b, c::D}` is `a::b` and `a::c::D`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let (mut around, mut path): (Vec<Vec<String>>, Vec<String>) = (Vec::new(), Vec::new());
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '{' => around.push(path.clone()),
            ',' | '}' => {
                found.push(std::mem::take(&mut path));
                if letter == '}' {
                    around.pop();
                    path.clear();
                }
                match around.last() {
                    Some(outer) if letter == ',' => path.clone_from(outer),
                    Some(_) => {}
                    None => break,
                }
            }
            ':' | '*' => {}
            _ if letter.is_whitespace() && !around.is_empty() => {}
            _ if letter.is_alphanumeric() || letter == '_' => {
                let mut end = at + letter.len_utf8();
                while let Some((at, letter)) =
                    letters.next_if(|(_, letter)| letter.is_alphanumeric() || *letter == '_')
                {
                    end = at + letter.len_utf8();
                }
                path.push(text[at..end].to_owned());
            }
            _ => break,
        }
    }
    found.push(path);
    found.retain(|path| !path.is_empty());
    found
}

/// The text without comments, strings and letters in quotes.
fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if letter == '"' {
            string_end(rest)
        } else if letter == 'r' && !out.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
            raw_end(rest)
        } else if letter == 'b' && rest.starts_with("br") {
            raw_end(&rest[1..]).checked_add(1).filter(|end| *end > 1).unwrap_or(0)
        } else if letter == '\'' {
            letter_end(rest)
        } else {
            0
        };
        if skipped == 0 {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            out.push(' ');
            rest = &rest[skipped..];
        }
    }
    out
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Where a raw string ends; 0 where none begins.
fn raw_end(text: &str) -> usize {
    let marks = text[1..].chars().take_while(|letter| *letter == '#').count();
    let start = 1 + marks;
    if !text[start..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(marks));
    text[start + 1..].find(&end).map_or(text.len(), |at| start + 1 + at + end.len())
}

/// Where a letter in quotes ends; 0 for a lifetime.
fn letter_end(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(0, |at| at + 4),
        Some(_) => letters.next().filter(|(_, letter)| *letter == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// The text without what is built for tests only.
fn without_tests(text: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        rest = rest[at + MARK.len()..].trim_start();
        while rest.starts_with("#[") {
            rest = rest[rest.find(']').map_or(rest.len(), |end| end + 1)..].trim_start();
        }
        rest = &rest[item_end(rest)..];
    }
    out + rest
}

/// Where an item ends: after its semicolon, or after its block. The braces of `use` are no block.
fn item_end(text: &str) -> usize {
    let is_use = text.starts_with("use ") || text.starts_with("pub");
    let is_use = is_use && text.split([';', '(']).next().is_some_and(|head| head.contains("use "));
    let mut depth = 0usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_end = match letter {
            ';' => depth == 0,
            '}' => depth == 0 && !is_use,
            _ => false,
        };
        if is_end {
            return at + 1;
        }
    }
    text.len()
}

/// The modules of the largest circle; none where there is no circle.
fn largest_circle(edges: &Edges) -> BTreeSet<String> {
    let reached = |start: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(module) = open.pop() {
            let next = edges.get(module).into_iter().flatten();
            open.extend(next.filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &String| -> BTreeSet<String> {
        let is_back = |other: &&String| reach.get(*other).is_some_and(|reached| reached.contains(module));
        reach[module].iter().filter(is_back).cloned().collect()
    };
    edges.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}
