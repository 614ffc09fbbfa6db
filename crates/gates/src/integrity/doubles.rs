//! Tests that put something else in the place of what they test.
//!
//! What a test calls in its assertions is what it tests. A file that newly brings a function of that name, takes it from
//! another place, or patches it, tests itself. Doubles of what the product calls are nobody's business.

use std::collections::{BTreeMap, BTreeSet};

use super::cases::Cases;
use super::settings::Sides;
use super::units::{Unit, Units, read};
use ftl_code::context::Language;
use ftl_code::finding::{Finding, FindingKind};

/// Functions that assertions call and that are nobody's product.
const COMMON: [&str; 40] = [
    "assert",
    "expect",
    "len",
    "str",
    "int",
    "float",
    "list",
    "dict",
    "set",
    "tuple",
    "sorted",
    "sum",
    "min",
    "max",
    "abs",
    "round",
    "repr",
    "type",
    "isinstance",
    "any",
    "all",
    "range",
    "print",
    "format",
    "String",
    "Number",
    "Some",
    "Ok",
    "Err",
    "vec",
    "None",
    "json",
    "resolve",
    "get",
    "map",
    "filter",
    "join",
    "keys",
    "values",
    "require",
];

/// What a file of tests newly puts in the place of the product. The paths are those of the change.
pub(super) fn look(sides: &Sides<'_>, before: &Cases, paths: &Paths<'_>) -> Vec<Finding> {
    let (Some(old), Some(new)) = (sides.before, sides.after) else { return Vec::new() };
    if super::product::is_shell(sides.path, new) || sides.path.ends_with(".bats") {
        return shell(sides, old, new);
    }
    let Some(language) = Language::of(sides.path) else { return Vec::new() };
    let tested = tested(before);
    let (Some(was), Some(is)) = (read_all(language, old), read_all(language, new)) else { return Vec::new() };
    let mut findings = Vec::new();
    let (old, new) = (definitions(&was), definitions(&is));
    let (from, to) = (imports(&was), imports(&is));
    for name in &tested {
        let count = old.get(name.as_str()).map_or(0, Vec::len);
        let new = new.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        if let Some(line) = new.last().filter(|_| new.len() > count) {
            findings.push(block(
                sides,
                *line,
                format!("the file brings its own `{name}`, which its tests are about"),
            ));
        }
        if let Some((line, message)) = taken_elsewhere(name, &from, &to, paths) {
            findings.push(block(sides, line, message));
        }
    }
    let known: BTreeSet<String> = was.units.iter().map(key).collect();
    let functions: BTreeSet<&str> = was.functions.iter().map(|one| one.name.as_str()).collect();
    let modules = Modules::of(&tested, &to);
    let mut called: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for unit in is.units.iter().filter(|unit| !known.contains(&key(unit))) {
        let is_new = is.function_name(unit).is_some_and(|name| !name.is_empty() && !functions.contains(name));
        let Some(name) = patched(unit, &tested, &modules) else { continue };
        let mut calls = || match unit.function {
            Some(at) => {
                called.entry(at).or_insert_with(|| list_called(is.function_code(unit))).contains(&*name)
            }
            None => list_called(&unit.code).contains(&*name),
        };
        if !is_new || calls() {
            findings.push(block(
                sides,
                unit.line,
                format!("`{name}` is replaced, which the tests are about"),
            ));
        }
    }
    findings
}

/// Files of the change by the last names of their modules: those that are new, and those that the base has.
#[derive(Debug, Default)]
pub(super) struct Paths<'a> {
    pub(super) added: BTreeSet<&'a str>,
    pub(super) touched: BTreeSet<&'a str>,
}

/// The last name of a module or path: `../src/shop.js` is `shop`.
pub(super) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let plain = name.strip_suffix(".d.ts").unwrap_or(name);
    let cut = [".py", ".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".rs", ".go", ".sh"]
        .iter()
        .find_map(|end| plain.strip_suffix(end));
    let plain = cut.unwrap_or(plain);
    plain.rsplit(['.', ':']).next().unwrap_or(plain)
}

/// The tests inside a product file of Rust: what stands from their module on. Lines are counted from there.
pub(super) fn inside<'a>(sides: &Sides<'a>) -> Sides<'a> {
    let tests = |text: &'a str| text.find("#[cfg(test)]\nmod ").map_or("", |at| &text[at..]);
    Sides { path: sides.path, before: sides.before.map(tests), after: sides.after.map(tests) }
}

fn block(sides: &Sides<'_>, line: usize, message: String) -> Finding {
    Finding::block(FindingKind::ProductReplaced, sides.path, Some(line), message)
}

fn key(unit: &Unit) -> String {
    format!("{} {}", unit.code, unit.literals.join(" "))
}

/// Units of a file of tests. Rust's own modules of tests are read by what is inside them.
fn read_all(language: Language, text: &str) -> Option<Units> {
    match language {
        Language::Rust => read(
            language,
            &text.replace("mod tests", "mod inside").replace("#[cfg(test)]", "").replace("#[test]", ""),
        ),
        Language::Python | Language::Go | Language::TypeScript | Language::Tsx | Language::JavaScript => {
            read(language, text)
        }
    }
}

/// The functions that the tests of a file call in their assertions, and that the file does not define.
fn tested(cases: &Cases) -> BTreeSet<String> {
    let own: BTreeSet<&str> = cases
        .cases
        .iter()
        .filter(|case| !case.is_test)
        .map(|case| case.name.rsplit("::").next().unwrap_or(&case.name))
        .collect();
    let mut found = BTreeSet::new();
    for one in cases.cases.iter().flat_map(|case| &case.assertions) {
        let text = one.text.split(": t.").next().unwrap_or(&one.text);
        for (at, _) in text.match_indices('(') {
            let head = &text[..at];
            let start =
                head.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
            let name = &head[start..];
            let is_plain = !name.is_empty() && !name.starts_with(|one: char| one.is_ascii_digit());
            let lower = name.to_ascii_lowercase();
            let is_assert = ["assert", "expect", "tobe", "toequal", "raises", "throws", "error"]
                .iter()
                .any(|word| lower.starts_with(word));
            if is_plain && !is_assert && !own.contains(name) && !COMMON.contains(&name) {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// The names that a text calls.
fn list_called(code: &str) -> BTreeSet<&str> {
    let (heads, _) = code.rsplit_once('(').unwrap_or_default();
    let heads = heads.split('(').map(|head| {
        let start = head.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_');
        start.map_or(head, |at| {
            head[at..].trim_start_matches(|one: char| !one.is_alphanumeric() && one != '_')
        })
    });
    heads.filter(|name| !name.is_empty()).collect()
}

/// By their names, the lines on which a file defines functions, or gives the names to some.
fn definitions(units: &Units) -> BTreeMap<&str, Vec<usize>> {
    const MADE: [&str; 11] = [
        "lambda",
        "=>",
        "function",
        "func(",
        "Mock(",
        "jest.fn",
        "vi.fn",
        "mock.fn",
        "=|",
        "sinon.",
        "create_autospec",
    ];
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for one in &units.functions {
        found.entry(&one.name).or_default().push(one.line);
    }
    for unit in &units.units {
        let starts = ["const ", "let ", "var "];
        let code = starts.iter().find_map(|start| unit.code.strip_prefix(start)).unwrap_or(&unit.code);
        let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(0);
        if end > 0 && code[end..].starts_with('=') && MADE.iter().any(|word| unit.code.contains(word)) {
            found.entry(&code[..end]).or_default().push(unit.line);
        }
    }
    found
}

/// A module by its name or path, with the line that names it.
type Imports = BTreeMap<String, (String, usize)>;

/// The tested names by the modules that they come from: the first of each module, and of each last name of one.
struct Modules<'a> {
    whole: BTreeMap<&'a str, &'a str>,
    stems: BTreeMap<&'a str, &'a str>,
}

impl<'a> Modules<'a> {
    fn of(tested: &'a BTreeSet<String>, imports: &'a Imports) -> Modules<'a> {
        let mut found = Modules { whole: BTreeMap::new(), stems: BTreeMap::new() };
        for name in tested {
            let Some((from, _)) = imports.get(name) else { continue };
            found.whole.entry(from).or_insert(name);
            found.stems.entry(stem(from)).or_insert(name);
        }
        found
    }
}

/// The module that each name of a file comes from.
fn imports(units: &Units) -> Imports {
    let mut found = BTreeMap::new();
    for unit in &units.units {
        let code = unit.code.as_str();
        let (module, names) = match () {
            () if code.starts_with("from ") => match code["from ".len()..]
                .split_once(" import ")
                .or_else(|| code["from ".len()..].split_once("import"))
            {
                Some((module, names)) => (module.trim().to_owned(), names.to_owned()),
                None => continue,
            },
            () if code.starts_with("use ") => {
                match code["use ".len()..].trim_end_matches(';').rsplit_once("::") {
                    Some((module, names)) => (module.to_owned(), names.to_owned()),
                    None => continue,
                }
            }
            () if code.starts_with("import") || code.contains("=require(") => match unit.literals.first() {
                Some(module) => {
                    (module.clone(), code.split("=require(").next().unwrap_or(code).replace(" from", " "))
                }
                None => continue,
            },
            () => continue,
        };
        let words = names.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for name in words.filter(|word| {
            !word.is_empty() && !matches!(*word, "const" | "import" | "let" | "var" | "as" | "type")
        }) {
            found.insert(name.to_owned(), (module.clone(), unit.line));
        }
    }
    found
}

/// A name that comes from another module now, though the old one is still there.
fn taken_elsewhere(name: &str, old: &Imports, new: &Imports, paths: &Paths<'_>) -> Option<(usize, String)> {
    let ((from, _), (to, line)) = (old.get(name)?, new.get(name)?);
    let is_fake = |module: &str| {
        let lower = module.to_ascii_lowercase();
        ["fake", "mock", "stub", "double", "test", "fixture", "dummy"].iter().any(|word| lower.contains(word))
    };
    let is_new = paths.added.contains(stem(to)) && !paths.touched.contains(stem(from));
    let is_told = from != to && !is_fake(from) && (is_fake(to) || is_new);
    is_told.then(|| {
        (*line, format!("`{name}` comes from `{to}` now, from `{from}` before, and the tests are about it"))
    })
}

/// The tested name that a statement patches.
fn patched(unit: &Unit, tested: &BTreeSet<String>, of: &Modules<'_>) -> Option<String> {
    let code = unit.code.as_str();
    const PATCHES: [&str; 9] = [
        "patch(",
        "patch.object(",
        "monkeypatch.setattr(",
        "setattr(",
        "spyOn(",
        "mock.method(",
        "stub(",
        "replace(",
        "patch.dict(",
    ];
    if PATCHES.iter().any(|word| code.contains(word)) {
        let last = |text: &String| text.rsplit('.').next().unwrap_or(text).to_owned();
        let found = unit.literals.iter().map(last).find(|name| tested.contains(name));
        if found.is_some() && !code.contains("str.replace(") {
            return found;
        }
    }
    let modules =
        ["jest.mock(", "vi.mock(", "mock.module(", "jest.doMock(", "vi.doMock(", "unstable_mockModule("];
    if modules.iter().any(|word| code.contains(word)) {
        return of.whole.get(unit.literals.first()?.as_str()).map(|name| (*name).to_owned());
    }
    let (left, _) = code
        .split_once('=')
        .filter(|(left, right)| !right.starts_with(['=', '>']) && !left.ends_with(['!', '<', '>']))?;
    if left.starts_with("sys.modules[") {
        return of.stems.get(stem(unit.literals.first()?)).map(|name| (*name).to_owned());
    }
    let (owner, name) = left.rsplit_once('.')?;
    let is_own = matches!(owner, "self" | "this" | "cls");
    (!is_own
        && owner.chars().all(|one| one.is_alphanumeric() || one == '_' || one == '.')
        && tested.contains(name))
    .then(|| name.to_owned())
}

/// A script of tests that newly defines what it calls, or reads another file in place of the product.
fn shell(sides: &Sides<'_>, old: &str, new: &str) -> Vec<Finding> {
    let defines = |text: &str| -> BTreeMap<String, usize> {
        let lines = text.lines().enumerate();
        lines
            .filter_map(|(at, line)| {
                let words = line.trim_start().strip_prefix("function ").unwrap_or(line.trim_start());
                let (name, _) = words.split_once("()")?;
                Some((name.trim().to_owned(), at + 1))
            })
            .collect()
    };
    let (was, is) = (defines(old), defines(new));
    let calls = |name: &str| {
        let forms =
            [format!("$({name} "), format!("$({name})"), format!("run {name} "), format!("run {name}\n")];
        forms.iter().any(|form| old.contains(form.as_str()))
    };
    let mut findings: Vec<Finding> = is
        .iter()
        .filter(|(name, _)| !was.contains_key(*name) && calls(name))
        .map(|(name, line)| {
            block(sides, *line, format!("the file brings its own `{name}`, which its tests are about"))
        })
        .collect();
    let reads = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().map(str::trim);
        lines
            .filter_map(|line| line.strip_prefix(". ").or_else(|| line.strip_prefix("source ")))
            .map(|path| path.trim().to_owned())
            .collect()
    };
    let now = reads(new);
    for path in reads(old).difference(&now).filter(|path| !now.iter().any(|one| stem(one) == stem(path))) {
        findings.push(block(sides, 1, format!("the tests do not read `{path}` any more")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the path, before, after, whether it is told.
    const CASES: &str = r#"
        test_a.py | from shop import f\ndef test_f():\n    assert f(1) == 2 | def f(x):\n    return 2\ndef test_f():\n    assert f(1) == 2 | yes
        test_a.py | from shop import f\ndef test_f():\n    assert f(1) == 2 | from fakes import f\ndef test_f():\n    assert f(1) == 2 | yes
        test_a.py | from shop import f\ndef test_f():\n    assert f(1) == 2 | from pkg.shop import f\ndef test_f():\n    assert f(1) == 2 | no
        test_a.py | from shop import f\ndef test_f():\n    assert f(1) == 2 | from shop import f\n@patch("shop.f")\ndef test_f():\n    assert f(1) == 2 | yes
        test_a.py | from shop import f\ndef test_f():\n    assert f(1) == 2 | from shop import f\ndef test_f():\n    assert f(1) == 2\ndef test_g():\n    with patch("shop.h"):\n        assert g() == 1 | no
        test_a.py | import shop\ndef test_f():\n    assert shop.f(1) == 2 | import shop\nshop.f = lambda x: 2\ndef test_f():\n    assert shop.f(1) == 2 | yes
        a.test.js | const { f } = require('./shop');\ntest('f', () => { expect(f(1)).toBe(2); }); | const { f } = require('./shop');\njest.mock('./shop');\ntest('f', () => { expect(f(1)).toBe(2); }); | yes
        a.test.js | const { f } = require('./shop');\ntest('f', () => { expect(f(1)).toBe(2); }); | const { f } = require('./shop');\njest.mock('./api');\ntest('f', () => { expect(f(1)).toBe(2); }); | no
        a.test.js | const { f } = require('./shop');\ntest('f', () => { expect(f(1)).toBe(2); }); | const f = (x) => 2;\ntest('f', () => { expect(f(1)).toBe(2); }); | yes
        tests/a.rs | use shop::f;\n#[test]\nfn a() { assert_eq!(f(1), 2); } | fn f(x: u8) -> u8 { 2 }\n#[test]\nfn a() { assert_eq!(f(1), 2); } | yes
        tests/a.sh | . ./f.sh\n[ "$(f 1)" = 2 ] | . ./f.sh\nf() { echo 2; }\n[ "$(f 1)" = 2 ] | yes
        tests/a.sh | . ./f.sh\n[ "$(f 1)" = 2 ] | . ./tests/stub.sh\n[ "$(f 1)" = 2 ] | yes
        tests/a.sh | . ./f.sh\n[ "$(f 1)" = 2 ] | . "./lib/f.sh"\n. ./f.sh\n[ "$(f 1)" = 2 ] | no"#;

    #[test]
    fn what_the_tests_are_about_stays_the_product_s() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<String> = line.split(" | ").map(|cell| cell.trim().replace("\\n", "\n")).collect();
            let sides = Sides { path: &cells[0], before: Some(&cells[1]), after: Some(&cells[2]) };
            let before = super::super::cases::read(&cells[0], &cells[1]).unwrap();
            let found = look(&sides, &before, &Paths::default());
            assert_eq!(!found.is_empty(), cells[3] == "yes", "{line}\n{found:?}");
        }
    }
}
