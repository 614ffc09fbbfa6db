//! Where things are: folders, languages, tests, entry points, configuration. Only names and sizes are looked
//! at, except where tests stand inside of the code.

use std::collections::{BTreeMap, BTreeSet};

use super::survey::Survey;
use ftl_core::json::{Json, JsonExt as _};

/// How many folders are named.
pub const MAX_DIRECTORIES: usize = 60;

/// How many entry points and configuration files are named.
pub const MAX_NAMED: usize = 30;

/// How many files are searched for tests inside of the code.
const MAX_SEARCHED: usize = 50;

/// Folders about which people ask first, there or not.
const EXPECTED: [&str; 3] = ["lib", "src", "tests"];

/// Languages of programs by the endings of their files.
const LANGUAGES: [(&str, &str); 30] = [
    ("py", "python"),
    ("pyi", "python"),
    ("rs", "rust"),
    ("ts", "typescript"),
    ("mts", "typescript"),
    ("cts", "typescript"),
    ("tsx", "typescript"),
    ("js", "javascript"),
    ("jsx", "javascript"),
    ("mjs", "javascript"),
    ("cjs", "javascript"),
    ("go", "go"),
    ("java", "java"),
    ("kt", "kotlin"),
    ("c", "c"),
    ("h", "c"),
    ("cc", "c++"),
    ("cpp", "c++"),
    ("hpp", "c++"),
    ("cs", "c#"),
    ("rb", "ruby"),
    ("php", "php"),
    ("swift", "swift"),
    ("scala", "scala"),
    ("ex", "elixir"),
    ("exs", "elixir"),
    ("sh", "shell"),
    ("lua", "lua"),
    ("zig", "zig"),
    ("sql", "sql"),
];

/// Files in which programs begin, by their last name.
const ENTRIES: [&str; 18] = [
    "main.py",
    "__main__.py",
    "app.py",
    "manage.py",
    "wsgi.py",
    "asgi.py",
    "cli.py",
    "main.rs",
    "lib.rs",
    "main.go",
    "index.js",
    "index.ts",
    "index.tsx",
    "main.js",
    "main.ts",
    "server.js",
    "server.ts",
    "Main.java",
];

/// Files that configure programs, by their last name.
const CONFIGS: [&str; 24] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "requirements-dev.txt",
    "tox.ini",
    "pytest.ini",
    "conftest.py",
    "Pipfile",
    "Cargo.toml",
    "package.json",
    "tsconfig.json",
    "deno.json",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "Gemfile",
    "composer.json",
    "CMakeLists.txt",
    "Makefile",
    "justfile",
    "Dockerfile",
    "docker-compose.yml",
    "ftl.toml",
];

/// The language of a file, where it is one of programs.
pub(super) fn language(path: &str) -> Option<&'static str> {
    let name = last(path);
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?.1.to_ascii_lowercase();
    LANGUAGES.iter().find(|(one, _)| *one == ending).map(|(_, language)| *language)
}

/// How test files like this one are named; `None` for what is no test.
pub(super) fn test_pattern(path: &str) -> Option<String> {
    let name = last(path);
    let (stem, ending) = name.rsplit_once('.')?;
    language(path)?;
    let folder = path.split('/').find(|part| matches!(*part, "tests" | "test" | "__tests__" | "spec"));
    let at = folder.filter(|part| path.len() > part.len() && *part != name).unwrap_or_default();
    let shape = if stem.starts_with("test_") {
        format!("test_*.{ending}")
    } else if stem.ends_with("_test") || stem.ends_with("_spec") {
        format!("*_{}.{ending}", stem.rsplit('_').next().unwrap_or_default())
    } else if stem.ends_with(".test") || stem.ends_with(".spec") {
        format!("*.{}.{ending}", stem.rsplit('.').next().unwrap_or_default())
    } else if ending == "rs" && at == "tests" {
        String::from("*.rs")
    } else {
        return None;
    };
    Some(if at.is_empty() { shape } else { format!("{at}/{shape}") })
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(super) fn look(survey: &Survey<'_>) -> Json {
    let mut json = Json::object([("directories", directories(survey))]);
    json.put("entry_points", files_named(survey, &ENTRIES, is_bin));
    json.put("config_files", files_named(survey, &CONFIGS, |path| path.starts_with(".github/workflows/")));
    let (pattern, tests) = tests(survey);
    if let Some(pattern) = pattern {
        json.put("test_pattern", pattern);
    }
    json.put("test_files", tests);
    json.put("file_count", survey.files().len());
    let languages = languages(survey);
    if let Some((main, _)) = languages.first() {
        json.put("language", *main);
    }
    let row = |(language, (files, bytes)): &(&str, (usize, u64))| {
        Json::object([
            ("language", Json::from(*language)),
            ("files", Json::from(*files)),
            ("bytes", Json::from(*bytes)),
        ])
    };
    json.put("languages", Json::Array(languages.iter().map(row).collect()));
    json
}

/// Folders down to the second level, and those that people expect.
fn directories(survey: &Survey<'_>) -> Json {
    let mut found: BTreeSet<(usize, String)> = BTreeSet::new();
    for file in survey.files() {
        let parts: Vec<&str> = file.path.split('/').collect();
        for depth in 1..parts.len().min(3) {
            found.insert((depth, parts[..depth].join("/")));
        }
    }
    let mut all: BTreeMap<String, bool> = EXPECTED.map(|name| (name.to_owned(), false)).into();
    all.extend(found.into_iter().take(MAX_DIRECTORIES).map(|(_, folder)| (folder, true)));
    Json::object(all.into_iter().map(|(name, is_there)| (name, Json::Bool(is_there))))
}

/// Whether a file is a program by where it stands.
fn is_bin(path: &str) -> bool {
    path.contains("src/bin/") || path.starts_with("bin/")
}

/// The files with one of these names, those nearest to the root first.
fn files_named(survey: &Survey<'_>, names: &[&str], also: impl Fn(&str) -> bool) -> Json {
    let paths = survey.files().iter().map(|file| file.path.as_str());
    let mut found: Vec<&str> = paths.filter(|path| names.contains(&last(path)) || also(path)).collect();
    found.sort_by_key(|path| (path.matches('/').count(), *path));
    Json::list(found.into_iter().take(MAX_NAMED))
}

/// How most test files are named, and how many there are.
fn tests(survey: &Survey<'_>) -> (Option<String>, usize) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pattern in survey.files().iter().filter_map(|file| test_pattern(&file.path)) {
        *counts.entry(pattern).or_default() += 1;
    }
    let all = counts.values().sum();
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(pattern, _)| pattern);
    (most.or_else(|| inside(survey)), all)
}

/// Tests that stand inside of the code.
fn inside(survey: &Survey<'_>) -> Option<String> {
    let rust = survey.files().iter().filter(|file| file.path.ends_with(".rs"));
    let has = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains("#[test]");
    let found = rust.take(MAX_SEARCHED).filter_map(|file| survey.read(file)).any(has);
    found.then(|| String::from("#[test] inside of *.rs"))
}

/// The languages with files and bytes, the one with most bytes first.
fn languages(survey: &Survey<'_>) -> Vec<(&'static str, (usize, u64))> {
    let mut counts: BTreeMap<&'static str, (usize, u64)> = BTreeMap::new();
    for file in survey.files() {
        let Some(language) = language(&file.path) else { continue };
        let (files, bytes) = counts.entry(language).or_default();
        *files += 1;
        *bytes += file.bytes;
    }
    let mut all: Vec<(&'static str, (usize, u64))> = counts.into_iter().collect();
    all.sort_by_key(|(name, (files, bytes))| (std::cmp::Reverse((*bytes, *files)), *name));
    all
}
