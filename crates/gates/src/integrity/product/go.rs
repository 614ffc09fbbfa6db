//! What Go code of the product asks and replaces.

use std::collections::BTreeMap;

use super::words::is_go_framework;
use super::{Fact, File, assignment, probes, root};
use crate::integrity::units::{Unit, Units};
use ftl_code::finding::FindingKind;

pub(super) fn look(file: &File<'_>, unit: &Unit) -> Vec<Fact> {
    let found = [
        framework(file, unit),
        asks(unit),
        linked(file, unit),
        replaces(file, unit),
        ends(file, unit),
        probes(
            file,
            unit,
            &["runtime.Caller", "debug.Stack", "os.Executable", "runtime.Stack"],
            &["os.Args"],
        ),
    ];
    found.into_iter().flatten().collect()
}

fn framework(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let name = unit
        .literals
        .iter()
        .filter(|_| unit.code.starts_with("import"))
        .find(|name| is_go_framework(name))?;
    let message = format!("product code imports `{name}`, which is there to test with");
    Some(match file.is_for_tests() {
        true => Fact::note(FindingKind::TestDetected, unit, message),
        false => Fact::block(FindingKind::TestDetected, unit, message),
    })
}

fn asks(unit: &Unit) -> Option<Fact> {
    if unit.code.contains("testing.Testing()") || unit.code.contains("testing.Verbose()") {
        return Some(Fact::detects(unit, "`testing.Testing()`"));
    }
    let flag = unit.literals.iter().find(|text| text.starts_with("test."));
    let flag = flag.filter(|_| unit.code.contains("flag.") || unit.code.contains("Lookup("))?;
    Some(Fact::detects(unit, &format!("the flag `{flag}`")))
}

/// A function that is bound to one of another package behind the compiler's back. It stands in a comment.
fn linked(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let above = file.lines.get(unit.line.checked_sub(2)?)?;
    let words = above.trim().strip_prefix("//go:linkname ")?;
    let message = format!("product code binds itself to another package (`{}`)", super::super::short(words));
    Some(Fact::block(FindingKind::RunnerPatched, unit, message))
}

/// The packages that a file imports, by their last names.
pub(super) fn list_packages(units: &Units) -> BTreeMap<&str, &str> {
    let imports = units.units.iter().filter(|one| one.code.starts_with("import"));
    let paths = imports.flat_map(|one| one.literals.iter().map(String::as_str));
    paths.map(|path| (path.rsplit('/').next().unwrap_or(path), path)).collect()
}

fn replaces(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let (left, right) = assignment(&unit.code)?;
    let (owner, name) = left.split_once('.')?;
    let is_package = file.modules.contains_key(owner);
    let is_function = right.starts_with("func(");
    if !is_package || !name.starts_with(char::is_uppercase) || !is_function {
        return None;
    }
    let message = format!("product code replaces what is not its own (`{left}`)");
    Some(Fact::block(FindingKind::RunnerPatched, unit, message))
}

fn ends(file: &File<'_>, unit: &Unit) -> Option<Fact> {
    let word = ["os.Exit(0)", "syscall.Exit(0)"].iter().find(|word| unit.code.contains(**word))?;
    let is_main = file
        .units
        .units
        .iter()
        .any(|one| root(one.code.strip_prefix("package ").unwrap_or_default()) == "main");
    let is_init = file.units.function_name(unit) == Some("init");
    let message = format!("product code ends the process with success (`{word}`)");
    (!is_main || is_init).then(|| Fact::block(FindingKind::ExitsEarly, unit, message))
}
