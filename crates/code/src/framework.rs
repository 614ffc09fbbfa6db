//! The frameworks we know: what their code must look like, how much they weigh, and which one a project uses.
//!
//! Names are compared in any case. Detection reads a bounded number of files and never looks into what others wrote:
//! environments, vendored code, build output.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ftl_core::json::{Json, JsonExt as _, float};

/// How many source files are looked at.
pub const MAX_FILES: usize = 100;

/// How many entries of folders are looked at on the way to them.
pub const MAX_ENTRIES: usize = 20_000;

/// How much of each file is read.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// What code must and must not look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// What it must use.
    pub required: Vec<String>,
    /// What it must not use.
    pub forbidden: Vec<String>,
}

impl Rules {
    /// `{required, forbidden}`.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("required", Json::from(self.required.as_slice())),
            ("forbidden", Json::from(self.forbidden.as_slice())),
        ])
    }
}

/// A framework of the registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Framework {
    /// Its name in lower case, as the registry lists it.
    pub name: &'static str,
    /// Its name as people write it.
    pub display: &'static str,
    /// The module it is imported as.
    module: &'static str,
    /// How much it adds to the complexity of a task.
    pub weight: u64,
    /// What its code must do.
    pub required: &'static [&'static str],
    /// What its code must not do.
    pub forbidden: &'static [&'static str],
}

/// All of them, in the order of the registry.
pub const REGISTRY: [Framework; 5] = [
    Framework {
        name: "fasthtml",
        display: "FastHTML",
        module: "fasthtml",
        weight: 3,
        required: &["Declare routes with the @rt decorator", "Return component trees (Div, Ul, Li, …)"],
        forbidden: &["HTML written in f-strings", "Response objects with an HTML body"],
    },
    Framework {
        name: "fastapi",
        display: "FastAPI",
        module: "fastapi",
        weight: 2,
        required: &["Declare routes with @app.get, @app.post and the like", "Return Pydantic models"],
        forbidden: &["Blocking calls in async functions", "Bare dicts as responses"],
    },
    Framework {
        name: "flask",
        display: "Flask",
        module: "flask",
        weight: 1,
        required: &["Declare routes with @app.route"],
        forbidden: &[],
    },
    Framework {
        name: "django",
        display: "Django",
        module: "django",
        weight: 2,
        required: &["Route in urls.py", "Write views as functions or classes"],
        forbidden: &["Raw SQL without a stated reason"],
    },
    Framework {
        name: "litestar",
        display: "Litestar",
        module: "litestar",
        weight: 2,
        required: &["Declare handlers with @get, @post and the like", "Give responses a type"],
        forbidden: &["Blocking calls in async handlers"],
    },
];

/// Who wins when as many files import two of them.
const TIES: [&str; 5] = ["fasthtml", "fastapi", "litestar", "flask", "django"];

/// Folders that hold what others wrote or what was built.
const FOREIGN: [&str; 16] = [
    "venv",
    ".venv",
    "env",
    "node_modules",
    "target",
    "vendor",
    "vendored",
    "_vendor",
    "third_party",
    "site-packages",
    "__pycache__",
    "dist",
    "build",
    "bower_components",
    "virtualenv",
    "Pods",
];

/// Where a project names what it depends on.
const MANIFESTS: [&str; 8] = [
    "pyproject.toml",
    "requirements.txt",
    "requirements-dev.txt",
    "requirements/base.txt",
    "setup.py",
    "setup.cfg",
    "Pipfile",
    "environment.yml",
];

/// What a look at a project showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The framework in lower case, or `none`.
    pub framework: &'static str,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// Where it was seen: a file, `imports`, or `none`.
    pub source: String,
    /// How much it adds to the complexity of a task.
    pub complexity_weight: u64,
}

impl Detection {
    fn new(found: Option<&'static Framework>, confidence: f64, source: &str) -> Detection {
        Detection {
            framework: found.map_or("none", |framework| framework.name),
            confidence,
            source: source.to_owned(),
            complexity_weight: found.map_or(0, |framework| framework.weight),
        }
    }

    /// `{framework, confidence, source, complexity_weight}`.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("framework", Json::from(self.framework)),
            ("confidence", Json::from(self.confidence)),
            ("source", Json::from(self.source.as_str())),
            ("complexity_weight", Json::from(self.complexity_weight)),
        ])
    }
}

/// The framework of a name, in any case.
pub fn find(name: &str) -> Option<&'static Framework> {
    REGISTRY.iter().find(|framework| framework.name.eq_ignore_ascii_case(name.trim()))
}

/// The names, in the order of the registry.
pub fn list() -> Json {
    Json::list(REGISTRY.iter().map(|framework| framework.name))
}

/// The idioms of a framework; none for one we do not know.
pub fn idioms(name: &str) -> Rules {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    find(name).map_or_else(Rules::default, |framework| Rules {
        required: texts(framework.required),
        forbidden: texts(framework.forbidden),
    })
}

/// How much a framework adds to the complexity of a task; nothing for one we do not know.
pub fn weight(name: &str) -> u64 {
    find(name).map_or(0, |framework| framework.weight)
}

/// The idioms of the registry and of a plan together. Where the plan says the opposite of a line, the plan wins.
pub fn united(name: &str, plan: &Rules) -> Rules {
    let known = idioms(name);
    Rules {
        required: union(&known.required, &plan.required, &plan.forbidden),
        forbidden: union(&known.forbidden, &plan.forbidden, &plan.required),
    }
}

fn union(known: &[String], own: &[String], opposite: &[String]) -> Vec<String> {
    let same = |left: &str, right: &str| left.trim().to_lowercase() == right.trim().to_lowercase();
    let among = |list: &[String], text: &str| list.iter().any(|one| same(one, text));
    let mut all: Vec<String> = known.iter().filter(|text| !among(opposite, text)).cloned().collect();
    for text in own {
        if !among(&all, text) {
            all.push(text.clone());
        }
    }
    all
}

/// Looks which framework a project uses: what its README says, what most of its files import, what it depends on.
pub fn detect(root: &Path) -> Detection {
    if let Some(found) = by_readme(root) {
        return Detection::new(Some(found), 0.95, "README.md");
    }
    let files = sources(root);
    if let Some((found, count)) = by_imports(&files) {
        let confidence = if count * 2 > files.len() { 0.85 } else { 0.75 };
        return Detection::new(Some(found), confidence, "imports");
    }
    match by_manifest(root) {
        Some((found, manifest)) => Detection::new(Some(found), 0.65, manifest),
        None => Detection::new(None, 0.0, "none"),
    }
}

fn by_readme(root: &Path) -> Option<&'static Framework> {
    let text = read(&root.join("README.md"))?.to_lowercase();
    let heading = text.lines().any(|line| line.trim_end().strip_prefix("## framework idioms").is_some());
    let named = |framework: &&Framework| words(&text).any(|word| word == framework.name);
    REGISTRY.iter().find(|framework| heading && named(framework))
}

fn by_imports(files: &[PathBuf]) -> Option<(&'static Framework, usize)> {
    let mut counts = [0_usize; REGISTRY.len()];
    for file in files {
        let text = read(file).unwrap_or_default();
        for (count, framework) in counts.iter_mut().zip(&REGISTRY) {
            *count += usize::from(text.lines().any(|line| imports(line, framework.module)));
        }
    }
    let rank = |name: &str| TIES.iter().position(|tie| *tie == name).unwrap_or(TIES.len());
    let seen = REGISTRY.iter().zip(counts).filter(|(_, count)| *count > 0);
    seen.max_by_key(|(framework, count)| (*count, std::cmp::Reverse(rank(framework.name))))
}

/// Whether a line imports a module or a part of it: `flask_login` is not `flask`.
fn imports(line: &str, module: &str) -> bool {
    let line = line.trim_start();
    let Some(rest) = line.strip_prefix("from ").or_else(|| line.strip_prefix("import ")) else {
        return false;
    };
    rest.split(',').any(|part| {
        let named = part.trim_start().strip_prefix(module);
        named
            .is_some_and(|after| !after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
    })
}

fn by_manifest(root: &Path) -> Option<(&'static Framework, &'static str)> {
    for manifest in MANIFESTS {
        let Some(text) = read(&root.join(manifest)) else { continue };
        let text = text.to_lowercase();
        let known: BTreeSet<&str> = words(&text).collect();
        let named = |framework: &&Framework| {
            known.contains(framework.name) || known.contains(format!("python-{}", framework.name).as_str())
        };
        if let Some(found) = REGISTRY.iter().find(named) {
            return Some((found, manifest));
        }
    }
    None
}

/// Words as package names are written.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_')
}

/// The first Python files of a project, in the order of their paths. Links are not followed.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    let mut left = MAX_ENTRIES;
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().take(left).collect();
        left -= entries.len();
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut below = Vec::new();
        for entry in entries {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() && !is_foreign(&path) {
                below.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "py") {
                files.push(path);
            }
            if files.len() == MAX_FILES {
                return files;
            }
        }
        folders.extend(below.into_iter().rev());
    }
    files
}

/// Whether a folder holds what others wrote or what was built.
pub fn is_foreign(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let marked = ["pyvenv.cfg", "CACHEDIR.TAG", "conda-meta"].iter().any(|mark| folder.join(mark).exists());
    name.starts_with('.') || FOREIGN.contains(&name) || name.ends_with(".egg-info") || marked
}

fn read(file: &Path) -> Option<String> {
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A confidence as attributes and messages show it: two places.
pub fn confidence_text(confidence: f64) -> String {
    float(ftl_core::json::rounded(confidence, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a project, each a path and a text.
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

    #[test]
    fn detection_by_readme_imports_and_manifests() {
        let cases: [(Files<'_>, &str, f64, &str); 14] = [
            (&[], "none", 0.0, "none"),
            (&[("README.md", "# X\n## Framework Idioms\nWe use FastAPI.\n")], "fastapi", 0.95, "README.md"),
            (&[("README.md", "We use FastAPI.\n"), ("a.py", "import os\n")], "none", 0.0, "none"),
            (
                &[
                    ("a.py", "from fastapi import FastAPI\n"),
                    ("b.py", "x = 1\n"),
                    ("c.py", "import fastapi.x\n"),
                ],
                "fastapi",
                0.85,
                "imports",
            ),
            (&[("a.py", "from flask import Flask\n"), ("b.py", ""), ("c.py", "")], "flask", 0.75, "imports"),
            (
                &[("a.py", "from flask import x\n"), ("b.py", "from litestar import y\n")],
                "litestar",
                0.75,
                "imports",
            ),
            (&[("a.py", "from flask_login import x\n")], "none", 0.0, "none"),
            (&[("a.py", "import os, django\n")], "django", 0.85, "imports"),
            (&[("venv/lib/x.py", "from flask import x\n"), ("a.py", "")], "none", 0.0, "none"),
            (&[("mine/pyvenv.cfg", ""), ("mine/x.py", "from flask import x\n")], "none", 0.0, "none"),
            (
                &[("node_modules/p/x.py", "import django\n"), ("vendor/x.py", "import django\n")],
                "none",
                0.0,
                "none",
            ),
            (
                &[("pyproject.toml", "dependencies = [\"FastAPI[standard]>=0.1\"]\n")],
                "fastapi",
                0.65,
                "pyproject.toml",
            ),
            (&[("requirements.txt", "python-fasthtml==1.0\n")], "fasthtml", 0.65, "requirements.txt"),
            (&[("setup.cfg", "install_requires = flask-login\n")], "none", 0.0, "none"),
        ];
        for (files, framework, confidence, source) in cases {
            let found = detect(project(files).path());
            assert_eq!((found.framework, found.source.as_str()), (framework, source), "{files:?}");
            assert!((found.confidence - confidence).abs() < 1e-9, "{files:?}");
            assert_eq!(found.complexity_weight, weight(framework));
        }
        let missing = detect(Path::new("no/such/folder"));
        assert_eq!(missing.framework, "none");
    }

    #[test]
    fn only_so_many_files_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..MAX_FILES {
            fs::write(folder.path().join(format!("a{at:03}.py")), "x = 1\n").unwrap();
        }
        fs::write(folder.path().join("z.py"), "import flask\n").unwrap();
        assert_eq!(detect(folder.path()).framework, "none");
        fs::remove_file(folder.path().join("a000.py")).unwrap();
        assert_eq!(detect(folder.path()).framework, "flask");
    }

    #[test]
    fn names_in_any_case() {
        assert_eq!(find("FastHTML").unwrap().display, "FastHTML");
        assert_eq!((weight("FLASK"), weight("rails")), (1, 0));
        assert_eq!(idioms("Django").required.len(), 2);
        assert_eq!(idioms("rails"), Rules::default());
        assert_eq!(list().line(), r#"["fasthtml", "fastapi", "flask", "django", "litestar"]"#);
    }

    #[test]
    fn a_plan_adds_to_the_registry_and_may_contradict_it() {
        let plan = Rules {
            required: vec![
                "bare dicts as responses".to_owned(),
                "Log requests".to_owned(),
                "Return Pydantic models ".to_owned(),
            ],
            forbidden: vec!["Global state".to_owned()],
        };
        let all = united("fastapi", &plan);
        assert_eq!(
            all.required,
            [
                "Declare routes with @app.get, @app.post and the like",
                "Return Pydantic models",
                "bare dicts as responses",
                "Log requests"
            ]
        );
        assert_eq!(all.forbidden, ["Blocking calls in async functions", "Global state"]);
    }
}
