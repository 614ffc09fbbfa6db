//! The pages for the next engineer keep step with the code: the picture of the crates shows the dependencies that there
//! are, every function that a page names exists, and so does every file.
//!
//! Each test lists all that is stale at once, with file and line, and where the name stands now if it has moved. The
//! picture is printed from the manifests: `UPDATE_SNAPSHOTS=1 cargo test -p ftl-core --test pages` writes it anew.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The page with the picture and the walks.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// What opens and closes the picture in its page.
const PICTURE: (&str, &str) = ("```mermaid\n", "```\n");

/// How many files by hand a recipe may name, where the project has promised a number.
const MOST_FILES: [(&str, usize); 1] = [("docs/contributing/add-a-gate.md", 4)];

/// The page of words, and the heading above those that stand in the code.
const GLOSSARY: &str = "docs/glossary.md";
const WORDS_OF_THE_CODE: &str = "## Words of the code";

/// The printed table of who performs what.
const EXECUTORS: &str = "docs/executors.md";

/// Pages about the past: what they name may be gone.
const OF_THE_PAST: [&str; 2] = ["docs/adr/", "CHANGELOG.md"];

/// The folders that a path of ours begins with.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "examples/", "prompts/", "protocols/", "tools/"];

/// Words by which Rust declares an item with a name.
const DECLARING: [&str; 9] =
    ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "mod ", "macro_rules! "];

#[test]
fn the_picture_of_the_crates_shows_their_dependencies() {
    let file = root().join(ARCHITECTURE);
    let page = fs::read_to_string(&file).expect("the page is there");
    let (before, rest) = page.split_once(PICTURE.0).expect("the page has a picture");
    let (drawn, after) = rest.split_once(PICTURE.1).expect("the picture has an end");
    let wanted = picture(&dependencies());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let page = format!("{before}{}{wanted}{}{after}", PICTURE.0, PICTURE.1);
        return fs::write(&file, page).expect("the page can be written");
    }
    assert_eq!(drawn, wanted, "UPDATE_SNAPSHOTS=1 draws it from the manifests");
}

#[test]
fn every_crate_has_a_row_in_the_map() {
    let page = fs::read_to_string(root().join(ARCHITECTURE)).expect("the page is there");
    let missing: Vec<String> = dependencies()
        .into_keys()
        .filter(|name| !page.contains(&format!("\n| `{name}` |")))
        .map(|name| format!("{ARCHITECTURE}: no row for `crates/{name}`"))
        .collect();
    report(&missing, "add a row: what the crate is for, and what it may never see");
}

#[test]
fn every_item_that_a_page_names_exists() {
    let crates: BTreeSet<String> = dependencies().into_keys().collect();
    let sources = sources();
    let mut named = 0;
    let mut stale = Vec::new();
    for (page, line, span) in pages().iter().flat_map(|(page, text)| spans(page, text)) {
        let parts: Vec<&str> = span.trim_end_matches("()").split("::").collect();
        if parts.len() < 2 || !crates.contains(parts[0]) || !parts.iter().all(|part| is_name(part)) {
            continue;
        }
        named += 1;
        if !exists(&sources, &parts) {
            stale.push(format!("{page}:{line}: `{span}` is not there; {}", elsewhere(&sources, &parts)));
        }
    }
    assert!(named > 50, "only {named} items are named; are the walks gone?");
    report(&stale, "name the item as `crate::module::function` or `crate::module::Type::method`");
}

#[test]
fn every_file_that_a_page_names_exists() {
    let mut missing = Vec::new();
    for (page, line, span) in pages().iter().flat_map(|(page, text)| spans(page, text)) {
        let is_path =
            FOLDERS.iter().any(|folder| span.starts_with(folder)) && !span.contains([' ', '*', '<', '…']);
        // A name in capitals stands for one that the reader chooses; the folder must be there.
        let path = match span.split_once("NAME") {
            Some((folder, _)) => folder,
            None => span.split(':').next().unwrap_or_default(),
        };
        if is_path && !root().join(path).exists() {
            missing.push(format!("{page}:{line}: there is no {path}"));
        }
    }
    report(&missing, "correct the path; NAME stands for a name that the reader chooses");
}

#[test]
fn every_word_of_the_code_in_the_glossary_exists() {
    let page = fs::read_to_string(root().join(GLOSSARY)).expect("the page is there");
    let (_, table) = page.split_once(WORDS_OF_THE_CODE).expect("the page has a table of the code's words");
    let sources = sources();
    let (mut named, mut stale) = (0, Vec::new());
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let words = row.split('|').nth(1).unwrap_or_default();
        for word in words.split('`').skip(1).step_by(2) {
            named += 1;
            if !is_in_code(&sources, word) {
                stale.push(format!("{GLOSSARY}: nothing in the code is called `{word}`"));
            }
        }
    }
    assert!(named > 30, "only {named} words are named; is the table gone?");
    report(&stale, "name the module or the type as it is called, or rename it");
}

#[test]
fn every_action_leads_to_what_performs_it() {
    let page = fs::read_to_string(root().join(EXECUTORS)).expect("the page is there");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let actions: Vec<&str> = rows.filter(|name| name.contains('.')).collect();
    assert!(actions.len() > 30, "only {} actions are listed", actions.len());
    let sources = sources();
    let is_said = |action: &str| {
        let says = [format!("/// Performs `{action}`"), format!("performs `{action}`")];
        let mut ours = sources.iter().filter(|(file, _)| file.contains("/src/"));
        ours.any(|(_, text)| says.iter().any(|words| text.contains(words)))
    };
    let missing = actions.iter().filter(|action| !is_said(action));
    let missing: Vec<String> =
        missing.map(|action| format!("nothing says that it performs `{action}`")).collect();
    report(&missing, "open the comment of the function in the table's row with: Performs `NAME`");
}

#[test]
fn recipes_name_few_files() {
    let recipes: Vec<(String, String)> =
        pages().into_iter().filter(|(page, _)| page.starts_with("docs/contributing/add-")).collect();
    assert_eq!(recipes.len(), 5, "an action, a gate, a role, a command, an agent");
    let mut findings = Vec::new();
    for (page, text) in &recipes {
        let files = text.lines().filter(|line| is_step(line)).count();
        let most = MOST_FILES.iter().find(|(name, _)| name == page).map_or(usize::MAX, |(_, most)| *most);
        if files == 0 || files > most {
            findings.push(format!("{page}: {files} files to write by hand"));
        }
    }
    report(&findings, "a numbered line that begins with a path is a file to write by hand");
}

#[test]
fn these_tests_see_what_is_stale() {
    let text = "/// Doc.\npub struct Run;\n\nimpl Run {\n    pub fn decide(&self) {}\n}\n\nfn decided() {}\n\npub(super) fn go() {}\n";
    let sources = BTreeMap::from([
        ("crates/core/src/run/mod.rs".to_owned(), text.to_owned()),
        (
            "crates/core/src/run/walk.rs".to_owned(),
            "impl Draft<'_> {\n    pub(super) fn go(&mut self) {}\n}\n".to_owned(),
        ),
    ]);
    let there = |path: &str| exists(&sources, &path.split("::").collect::<Vec<_>>());
    assert!(there("core::run") && there("core::run::Run") && there("core::run::Run::decide"));
    assert!(there("core::run::decided") && there("core::run::walk::Draft::go"));
    assert!(!there("core::run::decide"), "a method is named with its type");
    assert!(!there("core::run::Run::go") && !there("core::run::Run::decided") && !there("core::gone"));
    assert!(!there("core::run::walk::Run::decide") && !there("core::run::Ru"));
    let parts = ["core", "run", "Run", "go"];
    assert!(elsewhere(&sources, &parts).contains("run/walk.rs:2"), "{}", elsewhere(&sources, &parts));

    let code = BTreeMap::from([("crates/core/src/one.rs".to_owned(), "pub struct Two;\n".to_owned())]);
    assert!(is_in_code(&code, "one") && is_in_code(&code, "Two") && !is_in_code(&code, "Tw"));

    let page = "`a::b` and\n```text\n`c::d`\n```\n[`e::f`](x)\n";
    let found: Vec<_> = spans("p", page).into_iter().map(|(_, line, span)| (line, span)).collect();
    assert_eq!(found, [(1, "a::b".to_owned()), (5, "e::f".to_owned())]);

    let edges = [("a", vec!["b", "c"]), ("b", vec!["c"]), ("c", vec![])];
    let edges = edges.map(|(from, to)| (from.to_owned(), to.into_iter().map(str::to_owned).collect()));
    assert_eq!(picture(&BTreeMap::from(edges)), "graph TD\n    a --> b\n    b --> c\n");
}

fn report(findings: &[String], hint: &str) {
    assert!(findings.is_empty(), "\n{}\nhint: {hint}\n", findings.join("\n"));
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is two folders up")
}

/// The crates that each crate of ours depends on, not counting those that only its tests need.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let manifests = fs::read_dir(root().join("crates")).expect("the crates are there");
    let mut found = BTreeMap::new();
    for folder in manifests.map(|entry| entry.expect("an entry of a folder")) {
        let Ok(manifest) = fs::read_to_string(folder.path().join("Cargo.toml")) else { continue };
        let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let ours = lines.filter_map(|line| line.strip_prefix("ftl-")?.split(['.', ' ', '=']).next());
        found.insert(folder.file_name().to_string_lossy().into_owned(), ours.map(str::to_owned).collect());
    }
    found
}

/// The arrows that do not follow from others.
fn picture(edges: &BTreeMap<String, BTreeSet<String>>) -> String {
    let reached = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(name) = open.pop() {
            let next = edges.get(&name).into_iter().flatten();
            open.extend(next.filter(|next| seen.insert((*next).clone())).cloned());
        }
        seen
    };
    let mut drawn = String::from("graph TD\n");
    for (from, seen) in edges {
        let through: BTreeSet<String> = seen.iter().flat_map(|one| reached(one)).collect();
        for to in seen.difference(&through) {
            let _ = writeln!(drawn, "    {from} --> {to}");
        }
    }
    drawn
}

/// The pages about today, by path from the root.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in
        ["", "docs", "docs/contributing", "examples", "examples/panel", "examples/release", "examples/tidy"]
    {
        for entry in fs::read_dir(root().join(folder)).expect("a folder of pages") {
            let name = entry.expect("an entry of a folder").file_name().to_string_lossy().into_owned();
            let page = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if page.ends_with(".md") && !OF_THE_PAST.iter().any(|past| page.starts_with(past)) {
                let text = fs::read_to_string(root().join(&page)).expect("a page is text");
                found.push((page, text));
            }
        }
    }
    found.sort();
    found
}

/// The words in code letters of a page, with their lines; blocks are left out.
fn spans(page: &str, text: &str) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            let odd = line.split('`').enumerate().filter(|(place, _)| place % 2 == 1);
            found.extend(odd.map(|(_, span)| (page.to_owned(), at + 1, span.to_owned())));
        }
    }
    found
}

/// Whether a line of a recipe is a file to write by hand: "1. `path` …".
fn is_step(line: &str) -> bool {
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    rest.len() < line.len() && FOLDERS.iter().any(|folder| rest.starts_with(&format!(". `{folder}")))
}

/// Every source of the crates, by path from the root.
fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let below = path.strip_prefix(root()).expect("the walk stays below the root");
                let text = fs::read_to_string(&path).expect("a source is text");
                found.insert(below.to_string_lossy().into_owned(), text);
            }
        }
    }
    found
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Whether some module, or an item of a module, of the product has that name.
fn is_in_code(sources: &BTreeMap<String, String>, name: &str) -> bool {
    let files = [format!("/{name}.rs"), format!("/{name}/mod.rs")];
    let mut ours = sources.iter().filter(|(file, _)| file.contains("/src/") && !file.contains("/testkit/"));
    ours.any(|(file, text)| {
        files.iter().any(|end| file.ends_with(end)) || text.lines().any(|line| declares(line, name))
    })
}

/// Whether there is such a module, an item of a module, or a method of a type.
fn exists(sources: &BTreeMap<String, String>, parts: &[&str]) -> bool {
    let base = format!("crates/{}/src", parts[0]);
    (1..=parts.len()).any(|depth| {
        let (modules, rest) = parts.split_at(depth);
        let texts = files(&base, &modules[1..]).into_iter().filter_map(|file| sources.get(&file));
        let mut texts = texts.collect::<Vec<_>>().into_iter();
        match rest {
            [] => texts.next().is_some(),
            [item] => {
                texts.any(|text| text.lines().any(|line| declares(line, item) && !line.starts_with(' ')))
            }
            [of, method] => texts.any(|text| has_method(text, of, method)),
            _ => false,
        }
    })
}

/// The files that may hold a module.
fn files(base: &str, modules: &[&str]) -> Vec<String> {
    if modules.is_empty() {
        return vec![format!("{base}/lib.rs"), format!("{base}/main.rs")];
    }
    let path = modules.join("/");
    vec![format!("{base}/{path}.rs"), format!("{base}/{path}/mod.rs")]
}

/// Whether a line declares an item of this name.
fn declares(line: &str, name: &str) -> bool {
    DECLARING.iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let starts = line[..at].ends_with(' ') || line[..at].trim().is_empty();
            let rest = line[at + word.len()..].strip_prefix(name);
            starts
                && rest
                    .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        })
    })
}

/// Whether a block of a type, or of a trait, declares a method. Blocks end where a line begins with a brace.
fn has_method(text: &str, of: &str, method: &str) -> bool {
    let mut inside = false;
    for line in text.lines() {
        if !line.starts_with([' ', '}']) {
            let opens = line.starts_with("impl") || line.contains("trait ");
            let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            inside = opens && words.any(|word| word == of) || inside && line.trim().is_empty();
        } else if line.starts_with('}') {
            inside = false;
        } else if inside && line.starts_with("    ") && !line.starts_with("     ") && declares(line, method) {
            return true;
        }
    }
    false
}

/// Where the last part of a name is declared now, in its crate.
fn elsewhere(sources: &BTreeMap<String, String>, parts: &[&str]) -> String {
    let (base, name) = (format!("crates/{}/", parts[0]), parts[parts.len() - 1]);
    let mut found = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| file.starts_with(&base)) {
        let lines = text.lines().enumerate().filter(|(_, line)| declares(line, name));
        found.extend(lines.map(|(at, _)| format!("{file}:{}", at + 1)));
    }
    found.truncate(4);
    if found.is_empty() {
        format!("no `{name}` in {base}")
    } else {
        format!("`{name}` in {}", found.join(", "))
    }
}
