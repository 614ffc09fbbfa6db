//! What Python code of the product asks and replaces.

use std::collections::BTreeMap;

use super::words::PYTHON_FRAMEWORKS;
use super::{Fact, File, assignment, probes, root};
use crate::integrity::units::{Unit, Units};
use ftl_code::finding::FindingKind;

/// Modules of Python itself that tests and their runner stand on.
const STANDARD: [&str; 47] = [
    "abc",
    "argparse",
    "ast",
    "asyncio",
    "atexit",
    "base64",
    "builtins",
    "calendar",
    "collections",
    "contextlib",
    "copy",
    "csv",
    "datetime",
    "decimal",
    "difflib",
    "doctest",
    "functools",
    "hashlib",
    "hmac",
    "http",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "locale",
    "math",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "queue",
    "random",
    "re",
    "secrets",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "time",
    "types",
];

/// Attributes of `sys` that programs set for themselves.
const OWN_OF_SYS: [&str; 11] = [
    "stdout",
    "stderr",
    "stdin",
    "excepthook",
    "path",
    "argv",
    "dont_write_bytecode",
    "tracebacklimit",
    "ps1",
    "ps2",
    "displayhook",
];

pub(super) fn look(file: &File<'_>, unit: &Unit) -> Vec<Fact> {
    const STRONG: [&str; 16] = [
        "_getframe",
        "inspect.stack",
        "currentframe",
        "getouterframes",
        "extract_stack",
        "walk_stack",
        "format_stack",
        "sys.modules",
        "from __main__",
        "import __main__",
        "sys.argv[0]",
        "orig_argv",
        "getppid",
        "psutil",
        "gettrace",
        "__main__",
    ];
    let found = [
        framework(file, unit),
        replaces(file, unit),
        ends(file, unit),
        probes(file, unit, &STRONG, &["sys.argv", "argv"]),
    ];
    found.into_iter().flatten().collect()
}

fn framework(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let rest = code.strip_prefix("import ").or_else(|| code.strip_prefix("from "));
    let by_name =
        code.contains("import_module(") || code.contains("__import__(") || code.contains("find_spec(");
    let named = rest
        .map(|rest| rest.split(',').map(|part| root(part.trim())).collect::<Vec<_>>())
        .unwrap_or_default();
    let literal = unit.literals.iter().filter(|_| by_name).map(|text| root(text));
    let name = named.into_iter().chain(literal).find(|name| PYTHON_FRAMEWORKS.contains(name))?;
    let message = format!("product code imports `{name}`, which is there to test with");
    Some(match file.is_for_tests() {
        true => Fact::note(FindingKind::TestDetected, unit, message),
        false => Fact::block(FindingKind::TestDetected, unit, message),
    })
}

/// Where the names of a file come from: the module that an import of each names first.
pub(super) fn list_modules(units: &Units) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for unit in &units.units {
        let code = unit.code.as_str();
        let parts = match (code.strip_prefix("from "), code.strip_prefix("import ")) {
            (Some(rest), _) => rest.split_once(" import ").or_else(|| rest.split_once("import")),
            (None, Some(rest)) => Some(("", rest)),
            (None, None) => None,
        };
        let Some((from, names)) = parts else { continue };
        for one in names.trim_matches(['(', ')', ' ']).split(',') {
            let (path, alias) = one.trim().split_once(" as ").unwrap_or((one.trim(), ""));
            let own = if alias.is_empty() { root(path) } else { alias };
            found.entry(own).or_insert(if from.is_empty() { path } else { from });
        }
    }
    found
}

/// A statement that puts something else in the place of what belongs to Python or to a test framework.
fn replaces(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let told = |what: &str| {
        let message = format!("product code replaces what is not its own (`{}`)", super::super::short(what));
        Some(Fact::block(FindingKind::RunnerPatched, unit, message))
    };
    if let Some(rest) = code.split("setattr(").nth(1).or_else(|| code.split("patch.object(").nth(1)) {
        let by_name = ["import_module(", "__import__(", "sys.modules", "builtins", "unittest", "pytest"];
        let is_foreign = file.modules.get(root(rest)).is_some_and(|module| is_foreign(module));
        if is_foreign || by_name.iter().any(|word| rest.starts_with(word)) {
            return told(&format!("setattr({}", rest.split(',').next().unwrap_or(rest)));
        }
    }
    let (left, right) = assignment(code)?;
    if left.starts_with("sys.modules[") && !left.contains("__name__") {
        return told(left);
    }
    if left.starts_with("__builtins__") || left.contains(".__dict__[") || left.starts_with("vars(") {
        return told(left);
    }
    let (owner, attribute) = left.split_once('.')?;
    let module = *file.modules.get(owner)?;
    let is_value = matches!(right, "\"\"" | "True" | "False" | "None") || right.parse::<f64>().is_ok();
    let is_runner = PYTHON_FRAMEWORKS.contains(&root(module)) || module == "builtins";
    let is_own_of_sys = module == "sys" && OWN_OF_SYS.contains(&root(attribute));
    let is_sys = module == "sys" && !is_own_of_sys;
    ((is_foreign(module) || is_sys) && (is_runner || !is_value) && !left.contains('['))
        .then(|| told(left))
        .flatten()
}

fn is_foreign(module: &str) -> bool {
    let first = root(module);
    PYTHON_FRAMEWORKS.contains(&first) || STANDARD.contains(&first)
}

/// A statement that ends the process with success where nobody asked for a program.
fn ends(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let told = |what: &str| {
        let message = format!("product code ends the process with success (`{what}`)");
        Some(Fact::block(FindingKind::ExitsEarly, unit, message))
    };
    let forks = |units: &Units, unit: &Unit| units.function_code(unit).contains("fork(").then(String::new);
    if code.contains("os._exit(") && file.ask_of_function("fork", unit, forks).is_none() {
        return told("os._exit");
    }
    let words =
        ["sys.exit()", "sys.exit(0)", "sys.exit(None)", "SystemExit()", "SystemExit(0)", "raise SystemExit"];
    let word = words.iter().find(|word| code.contains(**word))?;
    if *word == "raise SystemExit" && code.contains("SystemExit(") {
        return None;
    }
    let is_main = file.units.parents(unit).any(|parent| parent.code.contains("__name__"));
    let is_top = unit.function.is_none() && !is_main && !code.contains("__name__");
    let is_named =
        file.units.function_name(unit).is_some_and(|name| name.contains("main") || name.contains("cli"));
    let is_program = file.is_program() || is_named;
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    let is_script = file.text.starts_with("#!")
        || matches!(name, "main.py" | "__main__.py" | "cli.py" | "manage.py")
        || super::is_tool(file.path);
    ((is_top && !is_script) || (!is_top && !is_main && !is_program)).then(|| told(word)).flatten()
}
