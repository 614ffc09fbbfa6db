//! The crates that never look at the world, checked by what they are built of.
//!
//! The tidy tests read their sources; these ask cargo what is linked into them. Nothing is fetched.

#![allow(clippy::expect_used, reason = "a test that cannot start a program fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use ftl_needs::needs;

/// The crates that are rules and nothing else.
const BLIND: [&str; 2] = ["ftl-core", "ftl-language"];

/// All that may be linked into them: data, text and digests. None of it calls the system.
const ALLOWED: [&str; 22] = [
    "bitflags",
    "block-buffer",
    "cfg-if",
    "cpufeatures",
    "crypto-common",
    "digest",
    "equivalent",
    "foldhash",
    "ftl-core",
    "ftl-language",
    "generic-array",
    "hashbrown",
    "indexmap",
    "itoa",
    "memchr",
    "pulldown-cmark",
    "serde",
    "serde_core",
    "serde_json",
    "sha2",
    "typenum",
    "unicase",
];

/// What writes floats for `serde_json`; its name changes with the version.
const FLOATS: [&str; 2] = ["ryu", "zmij"];

/// The machine whose tree is looked at, so that the answer is the same everywhere.
const MACHINE: &str = "x86_64-unknown-linux-gnu";

/// A machine without a system.
const NO_SYSTEM: &str = "wasm32-unknown-unknown";

#[test]
fn nothing_that_touches_the_system_is_linked_into_the_rules() {
    for package in BLIND {
        let tree = ["tree", "--offline", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"];
        let output = cargo(&[&tree[..], &["--target", MACHINE, "--package", package]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let linked: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(linked.contains(package), "cargo told nothing about {package}: {text}");
        let is_other = |name: &&&str| !ALLOWED.contains(*name) && !FLOATS.contains(*name);
        let others: Vec<&&str> = linked.iter().filter(is_other).collect();
        assert!(
            others.is_empty(),
            "{package} is linked with {others:?}\nhint: take it as an argument; what is only data gets a row in ALLOWED"
        );
    }
}

#[needs(wasm32)]
#[test]
fn the_rules_build_where_there_is_no_system() {
    // A folder of its own: the one of the build that runs this test may be locked.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(NO_SYSTEM);
    let folder = folder.to_string_lossy();
    let packages = BLIND.iter().flat_map(|package| ["--package", *package]);
    let check = ["check", "--locked", "--target", NO_SYSTEM, "--target-dir", &*folder];
    let output = cargo(&check.into_iter().chain(packages).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn cargo(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO")).args(args).current_dir(root).output().expect("cargo starts")
}
