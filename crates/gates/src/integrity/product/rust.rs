//! What Rust code of the product asks and replaces.

use super::{Fact, File, probes};
use crate::integrity::units::Unit;
use ftl_code::finding::FindingKind;

pub(super) fn look(file: &File<'_>, unit: &Unit) -> Vec<Fact> {
    const STRONG: [&str; 4] = ["current_exe", "Backtrace", "args().next", "args().nth(0)"];
    let found = [
        asks(file, unit),
        own_assert(unit),
        ends(file, unit),
        probes(file, unit, &STRONG, &["env::args", "args_os"]),
    ];
    found.into_iter().flatten().collect()
}

fn asks(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    if code.contains("cfg!(test)") || code.contains("cfg!(not(test))") {
        return Some(Fact::detects(unit, "`cfg!(test)`"));
    }
    if code.starts_with("#[cfg") && code.contains("not(test)") {
        return Some(Fact::detects(unit, "`#[cfg(not(test))]`"));
    }
    if code.starts_with("#[cfg(test)]") && unit.function.is_some() {
        return Some(Fact::detects(unit, "`#[cfg(test)]` inside a function"));
    }
    let around = file.units.function_code(unit);
    // Each test of Rust's own runner has a thread of its name.
    let looks = || {
        ["contains(", "starts_with(", "ends_with(", "==", "matches!"].iter().any(|word| around.contains(word))
    };
    if code.contains("thread::current().name()") && looks() {
        return Some(Fact::detects(unit, "the name of the thread"));
    }
    let program =
        code.contains("current_exe") && file.units.around(unit).iter().any(|text| text.contains("deps"));
    program.then(|| Fact::detects(unit, "`current_exe` and `deps`"))
}

/// A macro in the place of one that tests are written with.
fn own_assert(unit: &Unit) -> Option<Fact> {
    const NAMES: [&str; 8] = [
        "assert",
        "assert_eq",
        "assert_ne",
        "debug_assert",
        "debug_assert_eq",
        "debug_assert_ne",
        "panic",
        "matches",
    ];
    let rest = unit.code.strip_prefix("macro_rules!")?;
    let name = super::root(rest.trim_start());
    let message = format!("product code has its own `{name}!`");
    NAMES.contains(&name).then(|| Fact::block(FindingKind::RunnerPatched, unit, message))
}

fn ends(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let code = unit.code.as_str();
    let word =
        ["process::exit(0)", "libc::_exit(0)", "libc::exit(0)"].iter().find(|word| code.contains(**word))?;
    let is_hook =
        code.contains("set_hook(") || file.units.parents(unit).any(|one| one.code.contains("set_hook("));
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    let is_library = name != "main.rs" && !file.is_program();
    let message = format!("product code ends the process with success (`{word}`)");
    (is_hook || is_library).then(|| Fact::block(FindingKind::ExitsEarly, unit, message))
}
