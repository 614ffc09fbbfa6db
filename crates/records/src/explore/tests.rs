//! Each mode on small repositories: what is found, line by line.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::RecordOptions;
use crate::exploration;
use ftl_folder::state_folder::StateFolder;
use ftl_store::sqlite::SqliteStore;

const PYTHON: &[(&str, &str)] = &[
    ("README.md", "# Shop\n## Install\n```\n## not this\n```\n### Use\n"),
    ("pyproject.toml", "[project]\ndependencies = [\"fastapi\"]\n"),
    (
        "shop/cart.py",
        "\"\"\"Carts.\"\"\"\nfrom fastapi import FastAPI\n\n\nclass Cart:\n    \"\"\"A cart.\"\"\"\n\n    \
         def total_price(self, tax: float) -> float:\n        \"\"\"All of it.\"\"\"\n        return 0.0\n",
    ),
    ("shop/main.py", "from fastapi import FastAPI\n\n\ndef run_app(port: int) -> None:\n    pass\n"),
    ("shop/price_list.py", "PRICES = {}\n"),
    ("tests/test_cart.py", "from shop.cart import Cart\n\n\ndef test_total_price():\n    assert Cart()\n"),
    ("docs/notes.md", "the price is right\n"),
];

const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"shop\"\n"),
    ("src/lib.rs", "/// The cart.\npub struct Cart;\n\npub fn total_price() -> u32 {\n    0\n}\n"),
    ("src/bin/till.rs", "fn main() {}\n"),
    ("tests/cart.rs", "#[test]\nfn prices() {}\n"),
];

const PLAIN: &[(&str, &str)] =
    &[("src/lib.rs", "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n")];

/// The files of a project.
type Files<'a> = &'a [(&'a str, &'a str)];

fn project(files: Files<'_>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn explored(files: Files<'_>, mode: ExplorerMode, objective: &str) -> Json {
    let folder = project(files);
    let survey = Survey::of(folder.path(), &|| false);
    let found = look(mode, objective, &survey, None).unwrap();
    // What code finds is an answer of the shape that is merged, and merging changes nothing of it.
    let answer = exploration::answer(found.clone(), None).unwrap();
    assert_eq!((answer.mode, answer.standing.word(), &answer.json), (mode, "partial", &found));
    found
}

#[track_caller]
fn holds(found: &Json, rows: &[(&str, &str)]) {
    for (path, wanted) in rows {
        let value = path.split('.').try_fold(found, |json, key| match key.parse::<usize>() {
            Ok(at) => json.items().get(at),
            Err(_) => json.get(key),
        });
        let shown = value.map_or_else(|| String::from("nothing"), Json::to_string);
        assert_eq!(&shown, wanted, "{path} of {}", found.pretty());
    }
}

#[test]
fn structure_of_a_python_project() {
    let found = explored(PYTHON, ExplorerMode::Structure, "");
    let rows = [
        ("directories", r#"{"docs":true,"lib":false,"shop":true,"src":false,"tests":true}"#),
        ("entry_points", r#"["shop/main.py"]"#),
        ("config_files", r#"["pyproject.toml"]"#),
        ("test_pattern", r#""tests/test_*.py""#),
        ("test_files", "1"),
        ("file_count", "7"),
        ("language", r#""python""#),
        ("languages.0.files", "4"),
        ("languages.1", "nothing"),
        ("left_out", "nothing"),
    ];
    holds(&found, &rows);
}

#[test]
fn structure_of_rust_projects() {
    let found = explored(RUST, ExplorerMode::Structure, "");
    let rows = [
        ("directories", r#"{"lib":false,"src":true,"src/bin":true,"tests":true}"#),
        ("entry_points", r#"["src/lib.rs","src/bin/till.rs"]"#),
        ("config_files", r#"["Cargo.toml"]"#),
        ("test_pattern", r#""tests/*.rs""#),
        ("language", r#""rust""#),
    ];
    holds(&found, &rows);
    let inside = explored(PLAIN, ExplorerMode::Structure, "");
    holds(&inside, &[("test_pattern", r##""#[test] inside of *.rs""##), ("test_files", "0")]);
    let nothing = explored(&[], ExplorerMode::Structure, "");
    holds(&nothing, &[("file_count", "0"), ("language", "nothing"), ("test_pattern", "nothing")]);
}

#[test]
fn names_of_tests() {
    let cases = [
        ("tests/test_a.py", "tests/test_*.py"),
        ("test_a.py", "test_*.py"),
        ("a/b_test.go", "*_test.go"),
        ("web/a.test.tsx", "*.test.tsx"),
        ("web/__tests__/a.spec.ts", "__tests__/*.spec.ts"),
        ("crates/x/tests/y.rs", "tests/*.rs"),
        ("spec/a_spec.rb", "spec/*_spec.rb"),
        ("src/contest.py", ""),
        ("tests/data.json", ""),
        ("tests", ""),
        (".py", ""),
    ];
    for (path, wanted) in cases {
        assert_eq!(structure::test_pattern(path).unwrap_or_default(), wanted, "{path}");
    }
}

#[test]
fn patterns_of_projects() {
    let found = explored(PYTHON, ExplorerMode::Pattern, "total price");
    let rows = [
        ("framework", r#""fastapi""#),
        ("confidence", "0.75"),
        ("idioms.required.1", r#""Return Pydantic models""#),
        ("style.type_hints", "true"),
        ("style.docstrings", r#""thorough""#),
        ("style.naming", r#""snake_case""#),
        ("style.tests", r#""apart""#),
        ("readme_sections", r#"["Install","Use"]"#),
        ("similar.0.path", r#""shop/cart.py""#),
        ("similar.0.symbols", r#"[{"name":"total_price","line":8}]"#),
    ];
    holds(&found, &rows);
    let found = explored(RUST, ExplorerMode::Pattern, "");
    let rows = [
        ("framework", r#""none""#),
        ("confidence", "0.0"),
        ("idioms", r#"{"required":[],"forbidden":[]}"#),
        ("style.docstrings", r#""sparse""#),
        ("similar", "[]"),
        ("readme_sections", "[]"),
    ];
    holds(&found, &rows);
    let script: Files<'_> = &[("a.js", "function goHome(x) {}\n")];
    let rows = [
        ("style.type_hints", "false"),
        ("style.naming", r#""camelCase""#),
        ("style.docstrings", r#""none""#),
    ];
    holds(&explored(script, ExplorerMode::Pattern, ""), &rows);
}

#[test]
fn what_will_change() {
    let found = explored(PYTHON, ExplorerMode::Delta, "Fix the total prices");
    let rows = [
        ("search_terms", r#"["total","prices"]"#),
        ("candidates.0.path", r#""shop/cart.py""#),
        ("candidates.0.relevance", r#""high""#),
        ("candidates.0.lines", "10"),
        ("candidates.0.functions", r#"[{"name":"total_price","line":8}]"#),
        ("candidates.1.path", r#""tests/test_cart.py""#),
    ];
    holds(&found, &rows);
    let found = explored(PYTHON, ExplorerMode::Delta, "the price");
    let paths = exploration::candidate_paths(&Json::object([("delta", found.clone())]));
    assert_eq!(paths, ["shop/cart.py", "tests/test_cart.py", "shop/price_list.py", "docs/notes.md"]);
    let relevance: Vec<&str> = found
        .get("candidates")
        .map(Json::items)
        .unwrap_or_default()
        .iter()
        .filter_map(|one| one.get("relevance")?.as_str())
        .collect();
    assert_eq!(relevance, ["high", "high", "medium", "low"]);
    holds(&found, &[("confidence", "0.7")]);
    let nothing = explored(PYTHON, ExplorerMode::Delta, "zebra crossing");
    holds(&nothing, &[("candidates", "[]"), ("confidence", "0.0")]);
    holds(&explored(PYTHON, ExplorerMode::Delta, ""), &[("candidates", "[]"), ("search_terms", "[]")]);
}

#[test]
fn lists_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..MAX_CANDIDATES.max(MAX_DIRECTORIES).max(MAX_NAMED) + 5 {
        let below = folder.path().join(format!("d{at:03}"));
        fs::create_dir_all(&below).unwrap();
        let text: String = (0..MAX_FUNCTIONS + 3).map(|at| format!("def price_{at}(): pass\n")).collect();
        fs::write(below.join("main.py"), text).unwrap();
    }
    let headings: String = (0..MAX_SECTIONS + 3).map(|at| format!("## S{at}\n")).collect();
    fs::write(folder.path().join("README.md"), headings).unwrap();
    let count = |mode: ExplorerMode, key: &str| {
        let survey = Survey::of(folder.path(), &|| false);
        let found = look(mode, "price", &survey, None).unwrap();
        let value = found.get(key).cloned().unwrap_or_default();
        value.items().len().max(value.fields().count())
    };
    assert_eq!(count(ExplorerMode::Structure, "directories"), MAX_DIRECTORIES + 3);
    assert_eq!(count(ExplorerMode::Structure, "entry_points"), MAX_NAMED);
    assert_eq!(count(ExplorerMode::Pattern, "readme_sections"), MAX_SECTIONS);
    assert_eq!(count(ExplorerMode::Pattern, "similar"), MAX_SIMILAR_FILES);
    assert_eq!(count(ExplorerMode::Delta, "candidates"), MAX_CANDIDATES);
    let survey = Survey::of(folder.path(), &|| false);
    let found = look(ExplorerMode::Delta, "price", &survey, None).unwrap();
    assert_eq!(
        found.get("candidates").unwrap().items()[0].get("functions").unwrap().items().len(),
        MAX_FUNCTIONS
    );
}

fn records(root: &Path) -> Records {
    let place = StateFolder::at(root);
    place.prepare().unwrap();
    let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
    Records::with(place, store, RecordOptions::default())
}

#[test]
fn what_happened_before() {
    let nothing = explored(PYTHON, ExplorerMode::Memory, "x");
    holds(&nothing, &[("failures", "[]"), ("total_in_memory", r#"{"failures":0,"patterns":0}"#)]);
    let folder = project(PYTHON);
    let records = records(folder.path());
    let lesson = |name: &str, trigger: &str| {
        Json::object([
            ("name", Json::from(name)),
            ("trigger", Json::from(trigger)),
            ("fix", Json::from("pin the version")),
            ("cost", Json::from(4000)),
        ])
    };
    let now = crate::lessons::now();
    let all = [
        lesson("fastapi-import", "cannot import FastAPI"),
        lesson("tax-rounding", "the price with tax is wrong"),
    ];
    for lesson in all {
        records.learn(|lessons| lessons.learn(ftl_memory::StoredKind::Failure, lesson, &now)).unwrap();
    }
    for at in 0..MAX_SIMILAR + 2 {
        records
            .create_campaign("fix the price with tax", None, &format!("2026-01-0{}T00:00:00", at + 1))
            .unwrap();
        records.complete_campaign(Some("done"), &[], &format!("2026-01-0{}T01:00:00", at + 1)).unwrap();
    }
    records.create_campaign("paint the fence blue", None, "2026-02-01T00:00:00").unwrap();
    records.complete_campaign(Some("done"), &[], "2026-02-01T01:00:00").unwrap();
    let survey = Survey::of(folder.path(), &|| false);
    let found = look(ExplorerMode::Memory, "fix the price with tax", &survey, Some(&records)).unwrap();
    let rows = [
        ("failures.0.name", r#""tax-rounding""#),
        ("total_in_memory", r#"{"failures":2,"patterns":0}"#),
        ("similar_campaigns.0.objective", r#""fix the price with tax""#),
        ("similar_campaigns.0.outcome", r#""complete""#),
        ("similar_campaigns.0.patterns_from", "[]"),
        ("similar_campaigns.0.archive", "nothing"),
    ];
    holds(&found, &rows);
    let similar = found.get("similar_campaigns").unwrap().items();
    assert_eq!(similar.len(), MAX_SIMILAR);
    assert!(similar.iter().all(|one| one.get("similarity").unwrap().as_f64().unwrap() >= SIMILAR));
}

#[test]
fn what_an_agent_says_stands_and_the_rest_is_filled_in() {
    let found =
        Json::parse(r#"{"mode":"delta","status":"partial","candidates":[1],"confidence":0.3}"#).unwrap();
    let said = Json::parse(r#"{"mode":"delta","status":"ok","candidates":[],"confidence":0.9}"#).unwrap();
    let all = united(&said, &found);
    assert_eq!(all.to_string(), r#"{"mode":"delta","status":"ok","candidates":[1],"confidence":0.9}"#);
    let alone = alone(found, "nobody is here");
    holds(&alone, &[("status", r#""partial""#), ("error", r#""nobody is here""#)]);
}
