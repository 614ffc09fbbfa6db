//! What JavaScript and TypeScript code of the product asks and replaces.

use std::collections::BTreeMap;

use super::words::is_script_framework;
use super::{Fact, File, assignment, probes, root};
use crate::integrity::units::{Unit, Units};
use ftl_code::finding::FindingKind;

/// What every program has, and tests with it.
const BUILT_IN: [&str; 29] = [
    "Date",
    "Math",
    "Object",
    "Array",
    "String",
    "Number",
    "Boolean",
    "JSON",
    "Promise",
    "process",
    "Function",
    "RegExp",
    "Map",
    "Set",
    "Error",
    "Symbol",
    "Reflect",
    "Buffer",
    "performance",
    "setTimeout",
    "setInterval",
    "setImmediate",
    "expect",
    "it",
    "test",
    "describe",
    "jest",
    "vi",
    "Module",
];

/// Names by which code could ask whether a runner is there.
const RUNNER_NAMES: [&str; 11] =
    ["jest", "vi", "vitest", "describe", "it", "test", "expect", "beforeEach", "afterEach", "suite", "mocha"];

/// Modules of Node that tests and their runner stand on.
const NODE: [&str; 14] = [
    "assert",
    "fs",
    "path",
    "util",
    "module",
    "child_process",
    "timers",
    "events",
    "process",
    "vm",
    "http",
    "https",
    "crypto",
    "perf_hooks",
];

pub(super) fn look(file: &File<'_>, unit: &Unit) -> Vec<Fact> {
    const STRONG: [&str; 9] = [
        "newError().stack",
        "Error().stack",
        "captureStackTrace",
        "require.main",
        "module.parent",
        "process.argv[1]",
        "process.mainModule",
        "require.cache",
        "prepareStackTrace",
    ];
    let found = [
        framework(file, unit),
        asks_for_runner(file, unit),
        replaces(file, unit),
        ends(file, unit),
        probes(file, unit, &STRONG, &["process.argv", ".stack", "process.execArgv", "import.meta"]),
    ];
    found.into_iter().flatten().collect()
}

fn framework(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let imports =
        ["require(", "import"].iter().any(|word| unit.code.contains(word)) || unit.code.starts_with("export");
    let name = unit.literals.iter().filter(|_| imports).find(|name| is_script_framework(name))?;
    let message = format!("product code imports `{name}`, which is there to test with");
    let is_config = super::words::is_tool(file.path);
    Some(match file.is_for_tests() || is_config {
        true => Fact::note(FindingKind::TestDetected, unit, message),
        false => Fact::block(FindingKind::TestDetected, unit, message),
    })
}

fn asks_for_runner(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    if file.is_for_tests() {
        return None;
    }
    if let Some(at) = code.find("typeof ") {
        let name = root(&code[at + "typeof ".len()..]);
        if RUNNER_NAMES.contains(&name) {
            return Some(Fact::detects(unit, &format!("`typeof {name}`")));
        }
    }
    // Tests inside a source file stand at its top, in a condition of their own.
    if code.contains("import.meta")
        && code.contains(".vitest")
        && (unit.function.is_some() || !code.starts_with("if"))
    {
        return Some(Fact::detects(unit, "`import.meta.vitest`"));
    }
    let globals = ["globalThis", "global", "window", "self"];
    let owner = globals.iter().find(|name| super::words::has_word(code, name))?;
    let by_member = RUNNER_NAMES.iter().find(|name| code.contains(&format!("{owner}.{name}")));
    let by_text = unit.literals.iter().map(String::as_str).find(|text| RUNNER_NAMES.contains(text));
    let name = by_member.copied().or(by_text)?;
    Some(Fact::detects(unit, &format!("`{owner}` and `{name}`")))
}

/// The modules that the names of a file were required or imported from; the first counts.
pub(super) fn list_modules(units: &Units) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for unit in &units.units {
        let code = unit.code.as_str();
        let is_import = code.starts_with("import") || code.contains("require(");
        let Some(module) = unit.literals.first().filter(|_| is_import) else { continue };
        let left = code.split("=require(").next().unwrap_or(code).split(" from").next().unwrap_or(code);
        for name in left.split(|one: char| !one.is_alphanumeric() && one != '_' && one != '$') {
            found.entry(name).or_insert(module.as_str());
        }
    }
    found
}

fn is_foreign(file: &File<'_>, name: &str) -> bool {
    let is_module = |module: &str| {
        let plain = module.strip_prefix("node:").unwrap_or(module);
        NODE.contains(&plain.split('/').next().unwrap_or(plain)) || is_script_framework(module)
    };
    BUILT_IN.contains(&name) || file.modules.get(name).is_some_and(|module| is_module(module))
}

/// A statement that puts something else in the place of what belongs to the language or to a test framework.
fn replaces(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let told = |what: &str| {
        let message = format!("product code replaces what is not its own (`{}`)", super::super::short(what));
        Some(Fact::block(FindingKind::RunnerPatched, unit, message))
    };
    let calls = [
        "Object.assign(",
        "Object.defineProperty(",
        "Object.defineProperties(",
        "Reflect.set(",
        "Reflect.defineProperty(",
    ];
    let inner = calls.iter().find_map(|call| code.split(*call).nth(1));
    let by_require = |text: &str| {
        text.starts_with("require(")
            && unit.literals.first().is_some_and(|name| {
                let plain = name.strip_prefix("node:").unwrap_or(name);
                NODE.contains(&plain.split('/').next().unwrap_or(plain)) || is_script_framework(name)
            })
    };
    if let Some(inner) = inner.filter(|inner| is_foreign(file, root(inner)) || by_require(inner)) {
        return told(inner.split(',').next().unwrap_or(inner)).filter(|_| !is_guarded(file, unit, inner));
    }
    if ["Module._load", "Module._resolveFilename", "Module.prototype.require", "require.cache["]
        .iter()
        .any(|word| code.split(*word).nth(1).is_some_and(|rest| assignment(&format!("x{rest}")).is_some()))
    {
        return told("how modules are loaded");
    }
    let (left, right) = assignment(code)?;
    let left = left.trim_start_matches('(');
    if by_require(left) && left.contains(").") {
        return told("require(…)");
    }
    let plain = ["globalThis.", "global.", "window."].iter().find_map(|start| left.strip_prefix(start));
    let place = plain.unwrap_or(left);
    let is_own = place.starts_with("process.env")
        || place.starts_with("process.exitCode")
        || place == "process.title"
        || place.starts_with("Error.stackTraceLimit")
        || left.starts_with("console.");
    let owner = root(place);
    let is_member = place.contains('.') || plain.is_some();
    let replaced = is_member && !is_own && is_foreign(file, owner) && !right.starts_with(place);
    (replaced && !is_guarded(file, unit, place)).then(|| told(left)).flatten()
}

/// Whether a condition around it asks first whether it is there, as polyfills do.
fn is_guarded(file: &File<'_>, unit: &Unit, place: &str) -> bool {
    let name = place.split([',', '=']).next().unwrap_or(place);
    let asks = |code: &str| {
        let parts =
            [format!("!{name}"), format!("typeof {name}"), "!(\"\"in".to_owned(), "===undefined".to_owned()];
        parts.iter().any(|part| code.contains(part.as_str()))
    };
    file.units.parents(unit).any(|parent| asks(&parent.code)) || asks(&unit.code)
}

/// A statement that ends the process with success where nobody asked for a program.
fn ends(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let told = |what: &str| {
        let message = format!("product code ends the process with success (`{what}`)");
        Some(Fact::block(FindingKind::ExitsEarly, unit, message))
    };
    if code.contains("process.exitCode=0") || code.contains("process.reallyExit(") {
        return told("process.exitCode");
    }
    let word = ["process.exit(0)", "process.exit()", "Deno.exit(0)", "Deno.exit()"]
        .iter()
        .find(|word| code.contains(**word))?;
    (!file.is_program()).then(|| told(word)).flatten()
}
