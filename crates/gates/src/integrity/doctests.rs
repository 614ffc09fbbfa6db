//! Examples in the documentation of product code that are run as tests: of Python (`>>>`) and of Rust.
//!
//! They count as assertions of a test with the name of what they document, where the verify command runs them.

use std::collections::BTreeMap;

use super::settings::Sides;
use ftl_code::context::Language;
use ftl_code::finding::{Brief, Finding, FindingKind};

/// The examples of one thing: each with what it is to say, and the marks by which it is not run or may say anything.
#[derive(Debug, Default, PartialEq, Eq)]
struct Examples {
    line: usize,
    all: Vec<(String, String)>,
    marks: usize,
}

/// What examples of a product file say no more.
pub(super) fn look(sides: &Sides<'_>, brief: &Brief) -> Vec<Finding> {
    let (Some(before), Some(after)) = (sides.before, sides.after) else { return Vec::new() };
    let language = Language::of(sides.path);
    let runs = |words: &[&str]| words.iter().any(|word| brief.verify.contains(word));
    let read: fn(&str) -> BTreeMap<String, Examples> = match language {
        Some(Language::Python) if runs(&["doctest", "pytest", "tox", "nox", "make", "just"]) => python,
        Some(Language::Rust) if runs(&["cargo test", "make", "just"]) && !brief.verify.contains("--lib") => {
            rust
        }
        Some(_) | None => return Vec::new(),
    };
    let (old, new) = (read(before), read(after));
    let mut findings = Vec::new();
    for (name, was) in &old {
        // What is gone with its documentation is no matter of examples.
        let Some(is) = new.get(name) else { continue };
        let at = Some(is.line);
        if is.marks > was.marks {
            let message = format!("an example of {name} is not run any more, or may say anything");
            findings.push(Finding::block(FindingKind::TestSkipped, sides.path, at, message));
        }
        if is.all.len() < was.all.len() {
            let message = format!("{name} has {} examples, {} before", is.all.len(), was.all.len());
            findings.push(Finding::block(FindingKind::AssertionRemoved, sides.path, at, message));
        }
        let mut says: BTreeMap<&str, &str> = BTreeMap::new();
        for (code, said) in &is.all {
            says.entry(code).or_insert(said);
        }
        for (code, said) in &was.all {
            if let Some(now) = says.get(code.as_str()).filter(|now| **now != said) {
                let message = format!(
                    "the example `{}` of {name} was to say `{said}` and now `{now}`",
                    super::short(code)
                );
                findings.push(Finding::note(FindingKind::ExpectationChanged, sides.path, at, message));
            }
        }
    }
    findings
}

/// Examples by the function or class before whose first statement they stand.
fn python(text: &str) -> BTreeMap<String, Examples> {
    let mut found: BTreeMap<String, Examples> = BTreeMap::new();
    let mut name = "the module".to_owned();
    let mut open = false;
    found.insert(name.clone(), Examples { line: 1, ..Examples::default() });
    for (at, line) in text.lines().enumerate() {
        let words = line.trim();
        let defined = ["def ", "async def ", "class "].iter().find_map(|start| words.strip_prefix(start));
        if let Some(rest) = defined {
            name = rest.split(['(', ':', ' ']).next().unwrap_or(rest).to_owned();
            found.entry(name.clone()).or_insert_with(|| Examples { line: at + 1, ..Examples::default() });
            open = false;
            continue;
        }
        let Some(examples) = found.get_mut(&name) else { continue };
        if let Some(code) = words.strip_prefix(">>> ") {
            examples.marks +=
                ["+SKIP", "+ELLIPSIS", "+IGNORE"].iter().filter(|mark| code.contains(**mark)).count();
            let code = code.split("# doctest:").next().unwrap_or(code).trim();
            examples.all.push((code.to_owned(), String::new()));
            open = true;
        } else if open && !words.starts_with("...") && !words.is_empty() && !words.starts_with("\"\"\"") {
            if let Some((_, said)) = examples.all.last_mut() {
                said.push_str(words);
            }
        } else if !words.starts_with("...") {
            open = false;
        }
    }
    found
}

/// Examples by the item below them: the assertions of each block of code that is run.
fn rust(text: &str) -> BTreeMap<String, Examples> {
    let mut found: BTreeMap<String, Examples> = BTreeMap::new();
    let mut examples = Examples::default();
    let mut open: Option<bool> = None;
    for (at, line) in text.lines().enumerate() {
        let words = line.trim();
        let doc = words.strip_prefix("///").or_else(|| words.strip_prefix("//!")).map(str::trim);
        if let Some(doc) = doc {
            match (doc.strip_prefix("```"), open) {
                (Some(info), None) => {
                    let skips = ["ignore", "no_run", "text", "compile_fail", "should_panic"]
                        .iter()
                        .any(|word| info.contains(word));
                    let is_code = info.is_empty() || info.starts_with("rust") || skips;
                    examples.marks += usize::from(skips);
                    open = Some(is_code && !skips);
                }
                (Some(_), Some(_)) => open = None,
                (None, Some(true)) if doc.contains("assert") => {
                    examples.all.push((doc.to_owned(), String::new()));
                }
                (None, _) => {}
            }
            continue;
        }
        if words.starts_with('#') || words.is_empty() || words.starts_with("//") {
            continue;
        }
        open = None;
        let item = ["fn ", "struct ", "enum ", "trait ", "mod ", "const ", "macro_rules! "];
        let named = item.iter().find_map(|word| words.split_once(*word).map(|(_, rest)| rest));
        if let Some(rest) = named {
            let name = rest.split(|one: char| !one.is_alphanumeric() && one != '_').next().unwrap_or(rest);
            let read = std::mem::take(&mut examples);
            found.entry(name.to_owned()).or_insert(Examples { line: at + 1, ..read });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the path, before, after, the kinds that are told.
    const CASES: &str = r#"
        a.py | def f():\n    """\n    >>> f(1)\n    2\n    >>> f(2)\n    3\n    """ | def f():\n    """\n    >>> f(1)\n    2\n    """ | assertion_removed
        a.py | def f():\n    """\n    >>> f(1)\n    2\n    """ | def f():\n    """\n    >>> f(1)\n    9\n    """ | expectation_changed
        a.py | def f():\n    """\n    >>> f(1)\n    2\n    """ | def f():\n    """\n    >>> f(1)  # doctest: +SKIP\n    2\n    """ | test_skipped
        a.py | def f():\n    """\n    >>> f(1)\n    2\n    """ | def g():\n    pass | -
        a.py | def f():\n    """\n    >>> f(1)\n    2\n    """ | def f():\n    """\n    >>> f(1)\n    2\n    >>> f(0)\n    1\n    """ | -
        a.rs | /// ```\n/// assert!(f());\n/// ```\nfn f() {} | /// ```ignore\n/// assert!(f());\n/// ```\nfn f() {} | test_skipped, assertion_removed
        a.rs | /// ```\n/// assert!(f());\n/// ```\nfn f() {} | /// ```\n/// assert!(f());\n/// assert!(g());\n/// ```\nfn f() {} | -"#;

    #[test]
    fn examples_are_assertions() {
        let brief = Brief { verify: "pytest && cargo test".to_owned(), ..Brief::default() };
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<String> = line.split(" | ").map(|cell| cell.trim().replace("\\n", "\n")).collect();
            let sides = Sides { path: &cells[0], before: Some(&cells[1]), after: Some(&cells[2]) };
            let told: Vec<&str> = look(&sides, &brief).iter().map(|one| one.kind.word()).collect();
            let told = if told.is_empty() { "-".to_owned() } else { told.join(", ") };
            assert_eq!(told, cells[3], "{line}");
        }
    }
}
