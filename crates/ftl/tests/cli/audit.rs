//! `ftl audit verify` finds what was done to a journal; and stores of another program.

use crate::runs::ASK;
use crate::support::Dir;

fn open_asking_run() -> (Dir, String) {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    dir.ftl(&["answer", &run, "no"]).code(0);
    (dir, run)
}

/// Does something to a store; what the audit then says.
fn after(deed: &str, says: &str) {
    let (dir, run) = open_asking_run();
    let entries = dir.entries(&run).len();
    dir.ftl(&["audit", "verify"]).code(0).says(&[&format!("1 run, {entries} entries: whole")]);
    dir.database().execute_batch(deed).unwrap();
    dir.ftl(&["audit", "verify"]).code(6).says(&[&format!("run {run} broken"), says, "1 broken"]);
    let json = dir.ftl(&["audit", "verify", &run, "--json"]).code(6).json();
    assert_eq!((&json["ok"], &json["runs"][0]["ok"]), (&false.into(), &false.into()));
    assert!(json["runs"][0]["broken"]["entry"].is_u64());
    // Nobody goes on from a journal that is not whole.
    let before = dir.read_database();
    dir.ftl(&["answer", &run, "yes"]).code(6).says(&["error: ", "hint: "]);
    assert_eq!(dir.read_database(), before);
    dir.ftl(&["doctor"]).code(1).says(&["✗ chains", "broken:"]);
}

impl Dir {
    /// Every entry as it stands in the store.
    fn read_database(&self) -> Vec<(i64, String)> {
        let open = self.database();
        let mut list = open.prepare("SELECT seq, body FROM entries ORDER BY seq").unwrap();
        let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(|row| row.unwrap()).collect()
    }
}

#[test]
fn an_entry_that_was_edited_is_found() {
    after("UPDATE entries SET body = replace(body, 'objective', 'objectivf') WHERE seq = 1", "entry 1");
}

#[test]
fn an_entry_that_was_dropped_is_found() {
    after("DELETE FROM entries WHERE seq = 3", "entry 3 is missing");
}

#[test]
fn a_journal_that_was_cut_is_found() {
    after("DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)", "missing at the end");
}

#[test]
fn entries_that_changed_places_are_found() {
    after(
        "UPDATE entries SET seq = 1000 WHERE seq = 2; UPDATE entries SET seq = 2 WHERE seq = 3; \
         UPDATE entries SET seq = 3 WHERE seq = 1000",
        "entry 2",
    );
}

#[test]
fn the_journals_of_others_are_whole_all_the_same() {
    let (dir, run) = open_asking_run();
    let (other, _) = dir.run(&["ask", "objective=y"]);
    dir.database().execute("DELETE FROM entries WHERE run = 1 AND seq = 2", []).unwrap();
    dir.ftl(&["audit", "verify", &run]).code(6);
    dir.ftl(&["audit", "verify", &other]).code(0);
    dir.ftl(&["answer", &other, "yes"]).code(0);
}

#[test]
fn a_store_of_a_newer_program_is_read_and_never_written() {
    let (dir, run) = open_asking_run();
    dir.database().pragma_update(None, "user_version", 99).unwrap();
    for args in [vec!["status"], vec!["log", &run], vec!["why", &run], vec!["audit", "verify"]] {
        dir.ftl(&args).code(0);
    }
    for args in [vec!["answer", &run, "yes"], vec!["stop", &run], vec!["run", "ask", "objective=z"]] {
        dir.ftl(&args)
            .code(4)
            .says(&["the store has format 99", "hint: update ftl; reading works meanwhile"]);
    }
    dir.ftl(&["doctor"]).code(0).says(&["! store", "format 99"]);
    assert_eq!(dir.status(&run)["standing"], "waiting");
}

#[test]
fn a_file_that_is_no_store_is_told_and_left_alone() {
    let (dir, run) = open_asking_run();
    for name in ["ftl.db-wal", "ftl.db-shm"] {
        let _ = std::fs::remove_file(dir.path(&format!(".ftl/store/{name}")));
    }
    dir.write(".ftl/store/ftl.db", "this is no database at all");
    for args in
        [vec!["status"], vec!["log", &run], vec!["answer", &run, "yes"], vec!["run", "ask", "objective=z"]]
    {
        dir.ftl(&args).code(6).says(&["error: the store is damaged", "hint: run `ftl doctor --deep`"]);
    }
    for args in [&["doctor"][..], &["doctor", "--deep"]] {
        dir.ftl(args).code(1).says(&["✗ store", "keep a copy of .ftl/store"]);
    }
    assert_eq!(dir.read(".ftl/store/ftl.db"), "this is no database at all");
}
