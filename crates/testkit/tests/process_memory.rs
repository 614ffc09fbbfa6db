//! Memory does not grow with output. Alone in its process, because it measures the process.
//!
//! `FTL_FLOOD_MIB` makes the flood larger; the long form is 1024.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use ftl_process::{Cancel, Guard, How, MARK, Mark, ProcessLimits, Spec, Stdin, Supervisor};

/// How much the process may grow, whatever is printed.
const MAX_GROWTH: u64 = 32 * 1024 * 1024;

#[test]
fn memory_stays_flat_in_a_flood() {
    let mib: u64 = std::env::var("FTL_FLOOD_MIB").map_or(256, |text| text.parse().unwrap());
    let bytes = mib * 1024 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let guard = Guard::of(Path::new(env!("CARGO_BIN_EXE_ftl-guard")));
    let supervisor = Supervisor::new(guard, &folder.path().join("a"), &folder.path().join("s")).unwrap();
    let cancel = Cancel::new();
    let bytes_word = bytes.to_string();
    for words in [&["flood", "both", &bytes_word][..], &["one-line", &bytes_word]] {
        let spec = Spec {
            program: env!("CARGO_BIN_EXE_ftl-rogue").into(),
            args: words.iter().map(Into::into).collect(),
            folder: folder.path().to_owned(),
            env: Vec::new(),
            stdin: Stdin::Null,
            limits: ProcessLimits::default(),
            fence: None,
            lock: "run.1".into(),
            mark: Mark::new(MARK, &format!("flood-{:x}", ftl_folder::id::random().unwrap())).unwrap(),
            sandbox: None,
        };
        let before = resident();
        let mut most = before;
        let mut looked = Instant::now();
        let mut hear = |_, _: &[u8]| {
            if looked.elapsed() > Duration::from_millis(10) {
                (most, looked) = (most.max(resident()), Instant::now());
            }
        };
        let ended = supervisor.run(&spec, &cancel, &mut hear).unwrap();
        assert_eq!((ended.how, ended.cut, ended.out.total), (How::Exited(0), None, bytes), "{words:?}");
        assert_eq!(ended.out.kept_bytes() + ended.out.dropped(), bytes);
        let growth = most.max(resident()).saturating_sub(before);
        println!("{words:?}: grew by {} KiB in {:?}", growth / 1024, ended.took);
        assert!(growth < MAX_GROWTH, "{words:?}: grew by {growth} bytes");
    }
}

/// How much memory this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}
