//! Tidiness, checked as ordinary tests: the rules of this project that a program can check.
//!
//! These tests read the tree of the workspace and nothing else: no network, no git. Each of them
//! lists everything it finds, with file and line, and says what to do.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree fails by panicking")]

mod justfile;
mod rooms;
mod signatures;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A file of ours longer than this is looked at again.
const LONG_FILE: usize = 800;

/// A file of ours longer than this is split.
const TOO_LONG_FILE: usize = 1000;

/// Words that the core has no use for, and what each would be.
const NOT_IN_THE_CORE: [(&str, &str); 19] = [
    ("std::fs", "the disk"),
    ("std::net", "the network"),
    ("std::env", "the environment"),
    ("std::process", "other processes"),
    ("std::thread", "threads"),
    ("SystemTime", "a clock"),
    ("Instant", "a clock"),
    ("rand", "randomness"),
    ("RandomState", "randomness"),
    ("HashMap", "hash order; use BTreeMap"),
    ("HashSet", "hash order; use BTreeSet"),
    ("print!", "output"),
    ("println!", "output"),
    ("eprint!", "output"),
    ("eprintln!", "output"),
    ("dbg!", "output"),
    ("tokio", "async"),
    ("async fn", "async"),
    (".await", "async"),
];

/// Which crates of ours each crate may see. A new crate gets a row here.
const ARROWS: [(&str, &[&str]); 24] = [
    ("core", &[]),
    ("language", &["core"]),
    ("view", &["core"]),
    ("folder", &[]),
    ("process", &["folder"]),
    ("memory", &["core"]),
    ("agents", &["core", "folder", "process"]),
    ("store", &["core", "folder", "process", "view"]),
    ("git", &["core", "folder", "process"]),
    ("code", &["core", "folder", "process", "git"]),
    ("gates", &["core", "folder", "process", "store", "git", "code"]),
    ("records", &["core", "language", "folder", "process", "memory", "store", "git", "code"]),
    ("lifecycle", &["core", "language", "folder", "process", "store"]),
    (
        "settings",
        &[
            "core", "language", "folder", "process", "memory", "agents", "store", "git", "code", "records",
            "view",
        ],
    ),
    ("notify", &["core", "folder", "process", "store", "view"]),
    ("engine", BELOW_THE_ENGINE),
    ("doctor", BELOW_THE_FACES),
    ("command", BELOW_THE_FACES),
    ("compat", FACES),
    ("web", FACES),
    ("tui", FACES),
    ("ftl", FACES),
    ("testkit", BELOW_THE_FACES),
    ("needs", &[]),
];

/// What the engine joins.
const BELOW_THE_ENGINE: &[&str] = &[
    "core",
    "language",
    "folder",
    "process",
    "memory",
    "agents",
    "store",
    "git",
    "code",
    "gates",
    "records",
    "lifecycle",
    "settings",
    "notify",
];

/// What commands stand on, and what the tests join.
const BELOW_THE_FACES: &[&str] = &[
    "core",
    "language",
    "folder",
    "process",
    "memory",
    "agents",
    "store",
    "git",
    "code",
    "gates",
    "records",
    "lifecycle",
    "settings",
    "notify",
    "engine",
    "view",
];

/// What the program joins.
const FACES: &[&str] = &[
    "core",
    "language",
    "folder",
    "process",
    "memory",
    "agents",
    "store",
    "git",
    "code",
    "gates",
    "records",
    "lifecycle",
    "settings",
    "notify",
    "engine",
    "view",
    "doctor",
    "command",
    "compat",
    "web",
    "tui",
];

/// Folders that are not ours: build output, tools, the state of a run.
const SKIPPED: [&str; 7] = [".git", ".ftl", ".idea", ".vscode", "target", "node_modules", "mutants.out"];

/// Files beyond this size are not read as text.
const MAX_TEXT_BYTES: u64 = 4 * 1024 * 1024;

/// Calls that follow links on their way to a file. Below `.ftl` the folder module does the same without.
const FOLLOWING: [&str; 17] = [
    "fs::read(",
    "fs::read_to_string(",
    "fs::read_dir(",
    "fs::write(",
    "fs::copy(",
    "fs::rename(",
    "fs::hard_link(",
    "fs::set_permissions(",
    "fs::remove_file(",
    "fs::remove_dir(",
    "fs::remove_dir_all(",
    "fs::create_dir(",
    "fs::create_dir_all(",
    "File::open(",
    "File::create(",
    "OpenOptions::new",
    "DirBuilder::new",
];

/// Files of the system: nobody but root puts a link there.
const OF_THE_SYSTEM: [&str; 3] = ["\"/proc", "\"/dev", "\"/etc"];

/// Who may use such calls, and for what.
const MAY_FOLLOW: [(&str, &str); 29] = [
    ("crates/engine/src/sandboxes.rs", "where git's folder is, read"),
    ("crates/git/src/inside.rs", "git's own folder, read"),
    ("crates/process/src/sandbox/fill.rs", "the root folder of a sandbox, in memory of its own"),
    ("crates/process/src/sandbox/inside.rs", "a new temporary folder"),
    ("crates/process/src/sandbox/probe.rs", "settings of the kernel, read"),
    ("crates/process/src/sandbox/program.rs", "the first line of a program, read"),
    ("crates/folder/src/replace.rs", "the folder of a file that a person names, synced"),
    ("crates/git/src/ask.rs", "the exclude file of a repository that it makes"),
    ("crates/folder/src/lib.rs", "what is outside of .ftl"),
    ("crates/folder/src/scratch.rs", "new temporary folders"),
    ("crates/folder/src/tracked.rs", "git's index, read"),
    ("crates/code/src/commands/mod.rs", "names in a worktree"),
    ("crates/code/src/context/mod.rs", "files of the checkout, read"),
    ("crates/records/src/explore/survey.rs", "files of the checkout, read"),
    ("crates/gates/src/integrity/special.rs", "tests in a worktree, read"),
    ("crates/code/src/framework.rs", "files of the checkout, read"),
    ("crates/git/src/private_dir.rs", "the person's exclude files, read"),
    ("crates/git/src/durable.rs", "syncs; nothing is read or written"),
    ("crates/git/src/stat_cache.rs", "names and times in a worktree"),
    ("crates/git/src/slots/place.rs", "the person's folder of caches, made"),
    ("crates/git/src/lib.rs", "git's own folder, read"),
    ("crates/git/src/unstorable.rs", "names in a worktree"),
    ("crates/git/src/person_checkout.rs", "names in the checkout and in git's folder"),
    ("crates/git/src/worktree.rs", "git's folder of worktrees; times in a worktree"),
    ("crates/folder/src/state_folder.rs", "git's own folder and its exclude file"),
    ("crates/process/src/secrets.rs", "a file with a key, which a person names"),
    ("crates/ftl/src/commands/agents.rs", "a temporary folder"),
    ("crates/ftl/src/commands/demo.rs", "a new repository that a person names"),
    ("crates/ftl/src/commands/draw.rs", "documents that a person names"),
];

/// Who names the FTL plugin's script commands: the command line, where words are read and routed.
const DOOR: [&str; 4] = [
    "crates/ftl/src/cli.rs",
    "crates/ftl/src/cli/called.rs",
    "crates/ftl/src/cli/flows.rs",
    "crates/ftl/src/main.rs",
];

/// Words for where this project comes from, and the page that says what they mean.
const OF_ORIGIN: [&str; 3] = ["the original", "the specification", "blueprint"];
const ORIGINS: &str = "origins.md";

/// The same words in another sense: a help speaks of what a task was asked to do.
const NOT_OF_ORIGIN: &str = "the budget or the specification";

const RECORDS: &str = "docs/adr/";
const RECORDS_INDEX: &str = "docs/adr/README.md";

#[test]
fn every_module_opens_with_what_it_is_for() {
    let silent = |file: &File| !file.text.starts_with("//!");
    let findings = sources().into_iter().filter(silent).map(|file| file.at(1, "no module doc"));
    report(findings, "open the file with a `//!` that says what it is for and what it must never do");
}

#[test]
fn no_file_is_too_long() {
    let length = |file: &File| file.text.lines().count();
    let sources = sources();
    for file in sources.iter().filter(|file| length(file) > LONG_FILE) {
        println!("warning: {} has {} lines; look at it again", file.name, length(file));
    }
    let too_long = sources.iter().filter(|file| length(file) > TOO_LONG_FILE);
    let findings = too_long.map(|file| file.at(length(file), "too long"));
    report(findings, &format!("split it; a file has {TOO_LONG_FILE} lines at most"));
}

#[test]
fn the_core_the_language_and_the_view_do_not_look() {
    let is_blind = |file: &File| {
        let crates = ["crates/core/", "crates/language/", "crates/view/"];
        crates.iter().any(|name| file.name.starts_with(name)) && !file.is_test()
    };
    let blind = sources().into_iter().filter(is_blind);
    let findings = blind.flat_map(|file| forbidden_words(&file));
    report(
        findings,
        "the core, the language and the view have no clock, disk, network, randomness or output: take it as an argument",
    );
}

#[test]
fn no_link_is_followed_by_accident() {
    let ours = |file: &File| {
        let crates = [
            "code",
            "command",
            "compat",
            "doctor",
            "engine",
            "folder",
            "ftl",
            "gates",
            "git",
            "lifecycle",
            "process",
            "records",
            "settings",
            "store",
            "view",
        ];
        let is_ours = crates.iter().any(|name| file.name.starts_with(&format!("crates/{name}/src/")));
        is_ours && !file.is_test() && !file.name.contains("/bin/") && !file.name.ends_with("_tests.rs")
    };
    let sources: Vec<File> = sources().into_iter().filter(ours).collect();
    let may = |file: &&File| MAY_FOLLOW.iter().any(|(name, _)| *name == file.name);
    let (allowed, others): (Vec<&File>, Vec<&File>) = sources.iter().partition(may);
    let hint = "below .ftl use `ftl_folder`; elsewhere say in MAY_FOLLOW what it is for";
    report(others.into_iter().flat_map(following), hint);
    let is_used = |name: &str| allowed.iter().any(|file| file.name == name && !following(file).is_empty());
    let unused = MAY_FOLLOW.iter().filter(|(name, _)| !is_used(name));
    report(unused.map(|(name, _)| format!("{name}: follows no link")), "take it out of MAY_FOLLOW");
}

#[test]
fn dependencies_point_one_way() {
    let findings = packages().into_iter().flat_map(|(folder, manifest)| wrong_arrows(&folder, &manifest));
    report(
        findings,
        "the arrows are drawn in ARCHITECTURE.md and listed in ARROWS; testkit is for tests only",
    );
}

#[test]
fn script_commands_have_one_door() {
    let is_other = |file: &File| file.text.contains("ftl_compat") && !DOOR.contains(&file.name.as_str());
    let findings = sources().into_iter().filter(is_other).map(|file| file.at(1, "names ftl_compat"));
    report(findings, "a flow never enters through the script commands; what both need stands in `command`");
}

#[test]
fn mentions_of_the_origin_lead_to_it() {
    let is_ours = |file: &File| [".rs", ".md"].iter().any(|end| file.name.ends_with(end));
    let is_looked_at =
        |file: &File| is_ours(file) && !file.name.ends_with(ORIGINS) && !file.name.contains("/tests/tidy/");
    let findings = texts().into_iter().filter(is_looked_at).flat_map(|file| unlinked(&file));
    report(findings, "link docs/origins.md (in code: name it on that line), or say it in other words");
}

#[test]
fn links_in_documents_lead_somewhere() {
    let documents: Vec<File> = texts().into_iter().filter(|file| file.name.ends_with(".md")).collect();
    let anchors: BTreeMap<PathBuf, BTreeSet<String>> =
        documents.iter().map(|file| (root().join(&file.name), anchors(&file.text))).collect();
    let findings = documents.iter().flat_map(|file| dead_links(file, &anchors));
    report(findings, "correct the link, or add what it points to");
}

#[test]
fn the_oldest_rust_is_named_where_people_and_ci_look() {
    let texts = texts();
    let of = |name: &str| texts.iter().find(|file| file.name == name).map_or("", |file| &*file.text);
    let oldest = of("Cargo.toml").lines().find_map(|line| line.strip_prefix("rust-version = "));
    let oldest = oldest.expect("Cargo.toml has a rust-version").trim_matches('"');
    let places = ["README.md", ".github/workflows/ci.yml"];
    let silent = places.into_iter().filter(|name| !has_word(of(name), oldest));
    report(
        silent.map(|name| format!("{name}: does not name Rust {oldest}")),
        "name the rust-version of Cargo.toml",
    );
}

#[test]
fn no_file_names_a_machine() {
    let findings = texts().into_iter().flat_map(|file| machine_paths(&file));
    report(findings, "use a path relative to the project; what stands there exists on one machine only");
}

#[test]
fn decision_records_are_numbered_and_listed() {
    let files: Vec<File> = texts().into_iter().filter(|file| file.name.starts_with(RECORDS)).collect();
    let hint = "name it NNNN-slug.md by the next free number, and link it from docs/adr/README.md";
    report(wrong_records(&files), hint);
}

#[test]
fn these_tests_see_calls_that_follow_links() {
    let finds = |text: &str| !following(&File::new("crates/engine/src/x.rs", text)).is_empty();
    assert!(finds("    let text = fs::read(&path)?;"));
    assert!(finds("    std::fs::File::open(path)"));
    assert!(!finds("    HeadFile::open(path) // not File::open("));
    assert!(!finds("    fs::read(\"/proc/self/stat\")"));
    assert!(!finds("    folder::read(&path, MAX)"));
    assert!(!finds("#[cfg(test)]\nmod tests {\n    fs::read(&path);"));
}

#[test]
fn these_tests_see_forbidden_words() {
    let finds = |text: &str| !forbidden_words(&File::new("crates/core/src/x.rs", text)).is_empty();
    assert!(finds("use std::collections::HashMap;"));
    assert!(finds("    println!(\"x\");"));
    assert!(finds("use std::time::{Duration, Instant};"));
    assert!(finds("let n = rand::random();"));
    assert!(!finds("let operand = strand; // rand, HashMap"));
    assert!(!finds("writeln!(out)?; let instant = \"operand\";"));
    assert!(!finds("fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}"));
    assert!(finds("#[cfg(test)]\nmod tests;\nuse std::collections::HashMap;"));
}

#[test]
fn these_tests_see_wrong_arrows() {
    let count = |folder, manifest| wrong_arrows(folder, manifest).len();
    assert_eq!(count("core", "[dependencies]\nftl-engine.workspace = true\n"), 1);
    assert_eq!(count("core", "[dependencies]\nftl-language.workspace = true\n"), 1);
    assert_eq!(count("core", "[dev-dependencies]\nftl-testkit = { path = \"../testkit\" }\n"), 1);
    assert_eq!(count("memory", "[dependencies.hands]\npath = \"../engine\"\n"), 1);
    assert_eq!(count("memory", "[dependencies.ftl-engine]\nworkspace = true\n"), 1);
    assert_eq!(count("ftl", "[dependencies]\nftl-engine.workspace = true\n"), 0);
    assert_eq!(count("engine", "[dependencies]\nftl-testkit.workspace = true\n"), 1);
    assert_eq!(count("engine", "[dev-dependencies]\nftl-testkit.workspace = true\n"), 0);
    assert_eq!(count("core", "[dev-dependencies]\nftl-needs.workspace = true\n"), 0);
    assert_eq!(count("core", "[dependencies]\nftl-needs.workspace = true\n"), 1);
    assert_eq!(count("common", ""), 1);
}

#[test]
fn these_tests_see_mentions_of_the_origin() {
    let finds = |text: &str| !unlinked(&File::new("x", text)).is_empty();
    assert!(finds("as The original does") && finds("see decision 21") && finds("of the specification's"));
    assert!(!finds("as the [original] does") && !finds("the original (docs/origins.md)"));
    assert!(!finds("a decision of 2 people") && !finds("the budget or the specification did not"));
}

#[test]
fn these_tests_see_dead_links() {
    let text = "# Title\n## The `core`, again!\n## Same\n## Same\n<a id=\"own\"></a>\n";
    let found: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(found, ["own", "same", "same-1", "the-core-again", "title"]);

    let dead = |text: &str| {
        let file = File::new("docs/x.md", text);
        let known = BTreeMap::from([(root().join("docs/x.md"), anchors(text))]);
        dead_links(&file, &known)
    };
    assert!(dead("# A\n[a](../Cargo.toml) [b](https://example.org/x) [c](mailto:x@y) `[d](no)`").is_empty());
    assert_eq!(dead("one\n\n[a](no/such.md)"), ["docs/x.md:3: dead link to no/such.md"]);
    assert_eq!(dead("# A b\n[x](#a-b) [y](#nope) [z](x.md#nope)").len(), 2);
    let other = "[b]: ../no.md\n[a][b]";
    assert_eq!(dead(other), ["docs/x.md:2: dead link to ../no.md"]);
}

#[test]
fn these_tests_see_machine_paths_and_wrong_records() {
    let finds = |text: &str| !machine_paths(&File::new("x", text)).is_empty();
    let folder = &machine_roots()[0];
    assert!(finds(&format!("see {folder}x")) && finds(&format!("{folder}x")));
    assert!(!finds(&format!("see some{folder}x")));

    let index = File::new(RECORDS_INDEX, "[one](0001-one.md) [two](./0002-two.md) [x](0003_x.md)");
    let record = |name: &str| File::new(&format!("{RECORDS}{name}"), "");
    assert!(wrong_records(&[index.clone(), record("0001-one.md"), record("0002-two.md")]).is_empty());
    assert_eq!(wrong_records(&[index.clone(), record("0003_x.md")]).len(), 1);
    assert_eq!(wrong_records(&[index.clone(), record("0004-unlisted.md")]).len(), 1);
    assert_eq!(wrong_records(&[index, record("0001-one.md"), record("0001-other.md")]).len(), 2);
    assert_eq!(wrong_records(&[record("0001-one.md")]).len(), 1);
}

/// A text file, by its path from the root with forward slashes.
#[derive(Clone)]
struct File {
    name: String,
    text: String,
}

impl File {
    fn new(name: &str, text: &str) -> File {
        File { name: name.to_owned(), text: text.to_owned() }
    }

    fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.name)
    }

    /// Whole files of tests, which the binary never holds.
    fn is_test(&self) -> bool {
        self.name.ends_with("/tests.rs") || self.name.contains("/tests/")
    }
}

fn report(findings: impl IntoIterator<Item = String>, hint: &str) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}\nhint: {hint}\n", findings.join("\n"));
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is two folders up")
}

/// Every text file of the tree.
fn texts() -> Vec<File> {
    let root = root();
    let mut folders = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.expect("an entry of a folder that was just listed");
            let (path, kind) = (entry.path(), entry.file_type().expect("the kind of an entry"));
            if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                continue;
            }
            // Cargo marks every build folder with this file, whatever the folder is called.
            if kind.is_dir() && !path.join("CACHEDIR.TAG").exists() {
                folders.push(path);
            } else if kind.is_file() {
                files.extend(read(&root, &path));
            }
        }
    }
    files.sort_by(|left, right| left.name.cmp(&right.name));
    files
}

/// `None` for a file that is not text.
fn read(root: &Path, path: &Path) -> Option<File> {
    if fs::metadata(path).ok()?.len() > MAX_TEXT_BYTES {
        return None;
    }
    let text = String::from_utf8(fs::read(path).ok()?).ok()?;
    let below = path.strip_prefix(root).expect("the walk stays below the root");
    let parts: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    Some(File { name: parts.join("/"), text })
}

/// Every `.rs` file in `crates/*/src`.
fn sources() -> Vec<File> {
    let is_source = |name: &str| {
        let mut parts = name.split('/');
        name.ends_with(".rs") && parts.next() == Some("crates") && parts.nth(1) == Some("src")
    };
    let found: Vec<File> = texts().into_iter().filter(|file| is_source(&file.name)).collect();
    assert!(!found.is_empty(), "no sources found below {}", root().display());
    found
}

/// Each crate's folder name and manifest.
fn packages() -> Vec<(String, String)> {
    let folder = |name: &str| Some(name.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?.to_owned());
    let found: Vec<_> =
        texts().into_iter().filter_map(|file| Some((folder(&file.name)?, file.text))).collect();
    assert!(!found.is_empty(), "no manifests found below {}", root().display());
    found
}

fn forbidden_words(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().take(own_lines(&file.text)).enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (word, what) in NOT_IN_THE_CORE.iter().filter(|(word, _)| has_word(code, word)) {
            findings.push(file.at(at + 1, &format!("`{word}` ({what})")));
        }
    }
    findings
}

/// Calls in a file that follow links.
fn following(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().take(own_lines(&file.text)).enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let is_of_the_system = OF_THE_SYSTEM.iter().any(|begin| code.contains(begin));
        let is_called = |call: &str| {
            let before = code.find(call).map(|at| code[..at].chars().next_back());
            before.is_some_and(|before| !before.is_some_and(|letter| letter.is_alphanumeric()))
        };
        for call in FOLLOWING.iter().filter(|call| !is_of_the_system && is_called(call)) {
            findings.push(file.at(at + 1, &format!("`{call}` follows links")));
        }
    }
    findings
}

/// How many lines stand before the tests at the bottom.
fn own_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

/// Whether the word stands by itself: `rand` is not in `operand`.
fn has_word(code: &str, word: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(word).any(|(at, _)| {
        let longer_before = word.starts_with(is_letter) && code[..at].ends_with(is_letter);
        let longer_after = word.ends_with(is_letter) && code[at + word.len()..].starts_with(is_letter);
        !longer_before && !longer_after
    })
}

fn wrong_arrows(folder: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == folder) else {
        return vec![format!("crates/{folder}: has no row in ARROWS of the tidy tests")];
    };
    let mut section = "";
    let mut findings = Vec::new();
    for (at, line) in manifest.lines().enumerate() {
        if let Some(header) = line.trim().strip_prefix('[') {
            section = header.trim_end_matches(']');
        }
        let for_tests = section.starts_with("dev-dependencies");
        let others = ARROWS.iter().map(|(name, _)| *name).filter(|name| *name != folder);
        for other in others.filter(|other| depends_on(line, section, other)) {
            let fine = allowed.contains(&other)
                || (for_tests && (other == "needs" || (other == "testkit" && folder != "core")));
            if !fine {
                findings.push(format!("crates/{folder}/Cargo.toml:{}: sees {other}", at + 1));
            }
        }
    }
    findings
}

/// Whether a line of a manifest makes a crate of ours a dependency, by its name or by its path.
fn depends_on(line: &str, section: &str, other: &str) -> bool {
    let package = if other == "ftl" { "ftl".to_owned() } else { format!("ftl-{other}") };
    let key = line.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"');
    let header = line.trim().trim_matches(['[', ']']);
    section.contains("dependencies")
        && (key == package
            || header.ends_with(&format!("dependencies.{package}"))
            || line.contains(&format!("package = \"{package}\""))
            || line.contains(&format!("\"../{other}\"")))
}

/// Mentions of where this comes from that lead nowhere.
fn unlinked(file: &File) -> Vec<String> {
    let is_numbered = |line: &str| {
        line.match_indices("decision ")
            .any(|(at, word)| line[at + word.len()..].starts_with(|one: char| one.is_ascii_digit()))
    };
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let line = line.to_lowercase().replace(NOT_OF_ORIGIN, "");
        let names = OF_ORIGIN.iter().any(|words| line.contains(words)) || is_numbered(&line);
        if names && !line.contains(ORIGINS) {
            findings.push(file.at(at + 1, "names the origin"));
        }
    }
    findings
}

/// Where a document points, and on which line.
struct Link {
    line: usize,
    target: String,
}

fn markdown(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH)
}

fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (event, range) in markdown(text).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let line = text[..range.start].matches('\n').count() + 1;
            found.push(Link { line, target: dest_url.to_string() });
        }
    }
    found
}

fn dead_links(file: &File, anchors: &BTreeMap<PathBuf, BTreeSet<String>>) -> Vec<String> {
    let here = root().join(&file.name);
    let mut findings = Vec::new();
    for link in links(&file.text).into_iter().filter(|link| is_relative(&link.target)) {
        let (path, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
        let path = path.split('?').next().unwrap_or_default().replace("%20", " ");
        let target = if path.is_empty() { here.clone() } else { plain_path(&here.with_file_name(&path)) };
        if !path.is_empty() && !target.exists() {
            findings.push(file.at(link.line, &format!("dead link to {}", link.target)));
        } else if !anchor.is_empty() && anchors.get(&target).is_some_and(|known| !known.contains(anchor)) {
            findings.push(file.at(link.line, &format!("no heading for {}", link.target)));
        }
    }
    findings
}

/// Whether a link points into the tree, and not to a web page or an address.
fn is_relative(target: &str) -> bool {
    let scheme = target.split(['/', '#', '?']).next().unwrap_or_default();
    !target.is_empty() && !target.starts_with("//") && !scheme.contains(':')
}

/// The same path without `.` and `..`, worked out without asking the disk.
fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// What `#…` may name in a document: its headings as code hosts write them, and ids in its HTML.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in markdown(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => heading.iter_mut().for_each(|text| text.push_str(&part)),
            Event::End(TagEnd::Heading(_)) => add_slug(&mut found, &heading.take().unwrap_or_default()),
            Event::Html(html) | Event::InlineHtml(html) => found.extend(html_ids(&html)),
            _ => {}
        }
    }
    found
}

/// The second heading of one name gets `-1`, the third `-2`.
fn add_slug(found: &mut BTreeSet<String>, heading: &str) {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let slug = heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
    let numbered = (1..).map(|count| format!("{slug}-{count}"));
    let free = [slug.clone()].into_iter().chain(numbered).find(|slug| !found.contains(slug));
    found.extend(free);
}

fn html_ids(html: &str) -> Vec<String> {
    let after = |mark: &str| -> Vec<String> {
        let values = html.split(mark).skip(1);
        values.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    [after("id=\""), after("name=\"")].concat()
}

/// Put together here, so that this file does not name them itself.
fn machine_roots() -> [String; 4] {
    ["work", "root", "home", "Users"].map(|folder| format!("/{folder}/"))
}

fn machine_paths(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for found in machine_roots().iter().filter(|found| starts_a_path(line, found)) {
            findings.push(file.at(at + 1, &format!("names {found}")));
        }
    }
    findings
}

/// Whether the text stands in the line at the start of a path, and not inside one.
fn starts_a_path(line: &str, text: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || "._-~}>)]*".contains(letter);
    line.match_indices(text).any(|(at, _)| !line[..at].ends_with(inside))
}

/// What is wrong with the decision records; `files` is all that stands in their folder.
fn wrong_records(files: &[File]) -> Vec<String> {
    let index = files.iter().find(|file| file.name == RECORDS_INDEX);
    let listed = index.map(|file| links(&file.text)).unwrap_or_default();
    let is_listed = |slug: &str| listed.iter().any(|link| link.target.trim_start_matches("./") == slug);
    let mut numbers = BTreeSet::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.name != RECORDS_INDEX) {
        let slug = file.name.trim_start_matches(RECORDS);
        match record_number(slug) {
            None => findings.push(file.at(1, "is not named NNNN-slug.md")),
            Some(number) if !numbers.insert(number) => findings.push(file.at(1, "has a number twice taken")),
            Some(_) => {}
        }
        if !is_listed(slug) {
            findings.push(file.at(1, "is not linked from docs/adr/README.md"));
        }
    }
    findings
}

fn record_number(name: &str) -> Option<&str> {
    let (number, slug) = name.strip_suffix(".md")?.split_once('-')?;
    let is_slug_letter =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let is_slug = !slug.is_empty() && slug.chars().all(is_slug_letter);
    let is_number = number.len() == 4 && number.chars().all(|digit| digit.is_ascii_digit());
    (is_number && is_slug).then_some(number)
}
