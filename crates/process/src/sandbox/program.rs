//! What one program needs to run where it is installed: its file, the package around it, and what runs it.
//!
//! A program may lie in a home, beside keys. So it is never the folder that it lies in which is shown, unless that is
//! a package by the signs that packages have.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::machine::MachineFacts;
use crate::programs;

/// How many programs are followed from one that runs another.
const MAX_INTERPRETERS: usize = 4;

/// How much of a file is read to see what runs it.
const MAX_FIRST_LINE: u64 = 512;

/// The files and folders that a program needs, itself first. Nothing where it cannot be found.
pub fn files_of(program: &OsStr, machine: &MachineFacts) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = locate(Path::new(program), machine);
    for _ in 0..MAX_INTERPRETERS {
        let Some(file) = next.take() else { break };
        found.push(file.clone());
        let Ok(real) = fs::canonicalize(&file) else { break };
        found.extend(package_of(&real, machine));
        next = interpreter(&real).and_then(|words| {
            let through_env = words[0].file_name().is_some_and(|name| name == "env");
            found.extend(through_env.then(|| words[0].clone()));
            let named = if through_env { words.get(1)? } else { &words[0] };
            locate(named, machine)
        });
    }
    found
}

/// A program by its path, or by its name in PATH.
fn locate(program: &Path, machine: &MachineFacts) -> Option<PathBuf> {
    if program.is_absolute() {
        return program.exists().then(|| program.to_owned());
    }
    let path = machine.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone())?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    programs::find(program, folders)
}

/// The package that a file belongs to: all that npm has laid together, an environment of Python, or the folder in
/// which a language is installed.
fn package_of(real: &Path, machine: &MachineFacts) -> Option<PathBuf> {
    let modules =
        real.ancestors().filter(|above| above.file_name().is_some_and(|name| name == "node_modules"));
    let marked = |above: &&Path| {
        let has = |name: &str| above.join(name).is_file();
        let is_installed = || {
            let has_lib = above.join("lib").is_dir() && above.file_name().is_none_or(|name| name != ".local");
            has_lib && real.parent().is_some_and(|bin| bin == above.join("bin"))
        };
        has("pyvenv.cfg") || has("package.json") || is_installed()
    };
    let package = modules.last().or_else(|| real.ancestors().skip(1).find(marked))?;
    let is_system = ["/", "/usr", "/usr/local"].iter().any(|place| package == Path::new(place));
    (!is_system && !machine.is_too_wide(package)).then(|| package.to_owned())
}

/// What the first line of a script names.
fn interpreter(file: &Path) -> Option<Vec<PathBuf>> {
    let mut text = Vec::new();
    File::open(file).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut text).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let words: Vec<PathBuf> = line
        .split_ascii_whitespace()
        .enumerate()
        .filter(|(at, word)| *at == 0 || !word.starts_with('-') && !word.contains('='))
        .map(|(_, word)| PathBuf::from(word))
        .collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn an_agent_in_the_home_is_found_with_what_it_needs_and_nothing_beside_it() {
        let made = tempfile::tempdir().unwrap();
        let home = made.path().canonicalize().unwrap();
        let at = |name: &str| home.join(name);
        write(&at("node/bin/node"), "ELF");
        fs::create_dir_all(at("node/lib")).unwrap();
        write(&at(".agents/lib/node_modules/@a/agent/cli.js"), "#!/usr/bin/env node\n");
        write(&at(".agents/lib/node_modules/@a/agent/package.json"), "{}");
        fs::create_dir_all(at(".local/bin")).unwrap();
        symlink("../../.agents/lib/node_modules/@a/agent/cli.js", at(".local/bin/agent")).unwrap();
        write(&at(".ssh/id"), "key");
        let path = std::env::join_paths([at(".local/bin"), at("node/bin")]).unwrap();
        let machine =
            MachineFacts { env: vec![("PATH".into(), path)], home: Some(home.clone()), apart: Vec::new() };
        let wanted: Vec<PathBuf> =
            [".local/bin/agent", ".agents/lib/node_modules", "/usr/bin/env", "node/bin/node", "node"]
                .map(|name| home.join(name))
                .into();
        assert_eq!(files_of(OsStr::new("agent"), &machine), wanted);
    }

    #[test]
    fn a_script_in_the_home_shows_itself_alone() {
        let made = tempfile::tempdir().unwrap();
        let home = made.path().canonicalize().unwrap();
        write(&home.join("agent"), "#!/bin/sh -e\n");
        write(&home.join("package.json"), "{}");
        let machine = MachineFacts { env: Vec::new(), home: Some(home.clone()), apart: Vec::new() };
        let found = files_of(home.join("agent").as_os_str(), &machine);
        assert_eq!(found, [home.join("agent"), PathBuf::from("/bin/sh")]);
    }
}
