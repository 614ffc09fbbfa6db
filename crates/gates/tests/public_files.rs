//! The secrets gate over real public files: the sources of the crates that this program is built of, which hold digests,
//! tables, generated code and keys for tests, and whatever the system shares.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::{Path, PathBuf};

use ftl_gates::secrets::look;
use ftl_git::change::{Change, Content, EntryKind, FileChange};

/// How many files of one place are looked at, and how large one may be.
const MAX_FILES: usize = 4_000;
const MAX_BYTES: u64 = 256 * 1024;

/// How many files there may be for each one that is stopped.
const FILES_PER_ALARM: usize = 1_000;

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(inside) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&inside) else { continue };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() && entry.metadata().is_ok_and(|meta| meta.len() <= MAX_BYTES) {
                found.push(entry.path());
            }
        }
        if found.len() >= MAX_FILES {
            break;
        }
    }
    found.truncate(MAX_FILES);
    found
}

#[test]
fn public_files_are_seldom_taken_for_secrets() {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).unwrap();
    let places = [home.join("registry/src"), PathBuf::from("/usr/share")];
    let (mut looked, mut stopped) = (0, Vec::new());
    for place in &places {
        for path in files(place) {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            looked += 1;
            let name = path.strip_prefix(place).unwrap().display().to_string();
            let after = Some(Content { kind: EntryKind::File, bytes: Some(bytes) });
            let change = Change { files: vec![FileChange { path: name, before: None, after }] };
            stopped.extend(look(&change).iter().filter(|one| one.stops()).map(ToString::to_string));
        }
    }
    println!("{} of {looked} public files\n{}", stopped.len(), stopped.join("\n"));
    assert!(looked > 100, "only {looked} files were found");
    assert!(
        stopped.len() * FILES_PER_ALARM <= looked,
        "{} of {looked}\n{}",
        stopped.len(),
        stopped.join("\n")
    );
}
