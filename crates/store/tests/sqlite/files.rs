//! Files: what is made where, what is refused, what a newer program left, what may not be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ftl_store::{
    Append, ContentDigest, FORMAT, MAX_CONTENT_BYTES, Notebook as _, SqliteStore, Store as _, StoreError,
};

use crate::support::{Place, add, assert_whole, child, lines, name, read_child_order};

#[test]
fn reading_makes_nothing() {
    let place = Place::new();
    assert!(SqliteStore::open_existing(&place.store()).unwrap().is_none());
    assert!(!place.store().exists());
    fs::create_dir(place.store()).unwrap();
    assert!(SqliteStore::open_existing(&place.store()).unwrap().is_none());
    assert_eq!(fs::read_dir(place.store()).unwrap().count(), 0);
}

#[test]
fn the_folder_is_its_owners_only() {
    let place = Place::new();
    let deep = place.above().join("a/b/store");
    let store = SqliteStore::open(&deep).unwrap();
    add(&store, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&deep), 0o700);
    for file in ["ftl.db", "ftl.db-wal", "write.lock", "turn.lock"] {
        assert_eq!(mode(&deep.join(file)), 0o600, "{file}");
    }
    assert!(!deep.join("ftl.db.new").exists());
}

#[test]
fn a_reopened_store_has_kept_everything() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    let content = vec![3; 2_500_000];
    let command = store.send(&name(1), "wait").unwrap();
    let answered = Some((store.send(&name(1), "go").unwrap(), "gone".to_owned()));
    let content = vec![(ContentDigest::of(&content), content)];
    let append = Append { content: content.clone(), answered, settled: Some(true), ..lines(1..=50) };
    store.append(&lease, append).unwrap();
    let (row, entries) = (store.run(&name(1)).unwrap(), store.entries(&name(1), 0, 100).unwrap());
    let identity = store.name().unwrap();
    drop(store);

    let store = SqliteStore::open_existing(&place.store()).unwrap().unwrap();
    assert_eq!((store.run(&name(1)).unwrap(), store.entries(&name(1), 0, 100).unwrap()), (row, entries));
    assert_eq!(store.get(&content[0].0).unwrap().as_ref(), Some(&content[0].1));
    assert_eq!(store.pending(&name(1)).unwrap()[0].id, command);
    assert_eq!(store.reply(command + 1).unwrap().as_deref(), Some("gone"));
    assert_eq!((store.name().unwrap(), store.format()), (identity, FORMAT));
    assert_eq!((store.check(false), store.check(true)), (Ok(Vec::new()), Ok(Vec::new())));
    store.append(&lease, lines([51])).unwrap();
    assert_eq!(assert_whole(&store, &name(1)), 51);
}

#[test]
fn each_store_has_a_name_of_its_own() {
    let (one, other) = (Place::new(), Place::new());
    assert_ne!(one.open().name().unwrap(), other.open().name().unwrap());
}

#[test]
fn one_sees_what_the_other_writes_at_once() {
    let place = Place::new();
    let (writer, reader) = (place.open(), place.open());
    let lease = add(&writer, 1);
    let mut seen = reader.version().unwrap();
    for seq in 1..=10 {
        writer.append(&lease, lines([seq])).unwrap();
        let now = reader.version().unwrap();
        assert_ne!(now, seen);
        seen = now;
        assert_eq!(reader.run(&name(1)).unwrap().unwrap().head, seq);
    }
    assert_eq!(reader.version().unwrap(), seen);
}

#[test]
fn a_store_of_a_newer_format_is_read_and_never_written() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    drop(store);
    let raw = place.raw();
    raw.pragma_update(None, "user_version", FORMAT + 1).unwrap();
    raw.close().unwrap();
    let bytes = fs::read(place.file("ftl.db")).unwrap();

    for store in [place.open(), SqliteStore::open_existing(&place.store()).unwrap().unwrap()] {
        let newer = StoreError::Newer { found: FORMAT + 1, known: FORMAT };
        assert_eq!(store.format(), FORMAT + 1);
        assert_eq!(assert_whole(&store, &name(1)), 3);
        assert_eq!(store.runs("").unwrap().len(), 1);
        assert_eq!(store.writable(), Err(newer.clone()));
        assert_eq!(store.append(&lease, lines([4])), Err(newer.clone()));
        assert_eq!(store.take(&name(1), 1, "somebody"), Err(newer.clone()));
        assert_eq!(store.release(&lease), Err(newer.clone()));
        assert_eq!(store.send(&name(1), "{}"), Err(newer.clone()));
        assert_eq!(store.put(b"content"), Err(newer.clone()));
        assert_eq!(store.put_stream(&mut &b"content"[..]), Err(newer));
    }
    assert_eq!(fs::read(place.file("ftl.db")).unwrap(), bytes, "not a byte has changed");
}

#[test]
fn a_newer_format_with_other_tables_is_told_as_newer() {
    let place = Place::new();
    drop(place.open());
    let raw = place.raw();
    raw.execute_batch("ALTER TABLE runs RENAME TO journeys").unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let store = place.open();
    assert_eq!(store.runs(""), Err(StoreError::Newer { found: 99, known: FORMAT }));
}

/// Makes a store what a program of the first format left behind.
fn make_format_1(place: &Place) {
    place.drop_guards();
    let raw = place.raw();
    let list = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN
        ('meta', 'runs', 'entries', 'content', 'chunks', 'commands') AND name NOT LIKE 'sqlite_%'";
    let newer: Vec<String> =
        raw.prepare(list).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(newer.contains(&"notes".to_owned()));
    for table in newer {
        // What belongs to a virtual table goes with it.
        let _ = raw.execute_batch(&format!("DROP TABLE IF EXISTS \"{table}\""));
    }
    raw.pragma_update(None, "user_version", 1).unwrap();
    raw.close().unwrap();
    fs::remove_file(place.file("heads")).unwrap();
}

#[test]
fn an_older_store_is_brought_up_to_date_and_loses_nothing() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    drop(store);
    make_format_1(&place);
    let store = place.open();
    assert_eq!((store.format(), assert_whole(&store, &name(1))), (FORMAT, 3));
    store.append(&lease, lines([4])).unwrap();
    store.amend(&mut |notes| notes.put("a", "x", "new").map(|()| true)).unwrap();
    drop(store);
    assert_eq!(place.open().note("a", "x").unwrap().as_deref(), Some("new"));
}

#[test]
fn an_older_store_that_may_not_be_written_is_read() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    drop(store);
    make_format_1(&place);
    make_unwritable(&place);
    assert_child(&as_somebody(&place, "files::child_reads_what_it_may_not_write", "3"));
}

/// Opening what is there must fail as damage that names the file, and leave it as it is.
fn assert_refused(place: &Place, what: &str) {
    let before = fs::read(place.file("ftl.db")).ok();
    let opened =
        [SqliteStore::open(&place.store()).map(drop), SqliteStore::open_existing(&place.store()).map(drop)];
    for opened in opened {
        match opened {
            Err(StoreError::Corrupt(told)) => assert!(told.contains("ftl.db"), "{what}: {told}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    assert_eq!(fs::read(place.file("ftl.db")).ok(), before, "{what}");
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let garbage: [(&str, &[u8]); 4] = [
        ("empty", b""),
        ("text", b"my diary\n"),
        ("long text", &[b'x'; 8192]),
        ("a head without a body", b"SQLite format 3\0"),
    ];
    for (what, bytes) in garbage {
        let place = Place::new();
        fs::create_dir(place.store()).unwrap();
        fs::write(place.file("ftl.db"), bytes).unwrap();
        assert_refused(&place, what);
    }
}

#[test]
fn somebody_elses_database_is_refused() {
    let place = Place::new();
    fs::create_dir(place.store()).unwrap();
    place.raw().execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1").unwrap();
    assert_refused(&place, "no mark of ours");
    place.raw().execute_batch("PRAGMA application_id = 0x66746c00; PRAGMA user_version = 0").unwrap();
    assert_refused(&place, "no format");
    place.raw().execute_batch("PRAGMA user_version = -1").unwrap();
    assert_refused(&place, "a format below zero");
}

#[test]
fn only_a_file_is_a_database() {
    let place = Place::new();
    fs::create_dir_all(place.file("ftl.db")).unwrap();
    assert_refused(&place, "a folder");

    let (place, other) = (Place::new(), Place::new());
    drop(other.open());
    fs::create_dir(place.store()).unwrap();
    symlink(other.file("ftl.db"), place.file("ftl.db")).unwrap();
    assert_refused(&place, "a link");

    let place = Place::new();
    fs::create_dir(place.store()).unwrap();
    fs::write(place.file("ftl.db-wal"), "the log of a database that is gone").unwrap();
    assert_refused(&place, "a log alone");

    let place = Place::new();
    fs::write(place.store(), "a file where the folder should be").unwrap();
    assert!(SqliteStore::open(&place.store()).is_err());
    assert!(SqliteStore::open_existing(&place.store()).unwrap().is_none());
}

#[test]
fn a_database_cut_in_half_is_noticed() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=2000)).unwrap();
    drop(store);
    let file = fs::OpenOptions::new().write(true).open(place.file("ftl.db")).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    assert_refused(&place, "half a store");
}

#[test]
fn a_store_that_was_taken_away_acknowledges_nothing() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    fs::rename(place.store(), place.above().join("elsewhere")).unwrap();
    assert!(matches!(store.append(&lease, lines([1])), Err(StoreError::Failed(_))));
    drop(place.open());
    assert!(matches!(store.append(&lease, lines([1])), Err(StoreError::Failed(_))), "nor into a new one");
}

/// Runs a child as somebody whom permissions bind: root is not.
fn as_somebody(place: &Place, test: &str, word: &str) -> Output {
    let mut command = child(test, &place.store(), word);
    if rustix::process::geteuid().is_root() {
        // The program may lie where nobody else can reach it.
        let copy = place.above().join("tests");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let mut other = Command::new(&copy);
        other.args(command.get_args());
        other.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        other.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        other.current_dir("/").uid(65_534).gid(65_534);
        command = other;
    }
    command.output().unwrap()
}

/// Takes away the right to write the store, and gives the rest to whoever the child will be.
fn make_unwritable(place: &Place) {
    fs::set_permissions(place.above(), Permissions::from_mode(0o755)).unwrap();
    for file in fs::read_dir(place.store()).unwrap() {
        close_off(&file.unwrap().path(), 0o400);
    }
    close_off(&place.store(), 0o500);
}

fn close_off(path: &Path, mode: u32) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn assert_child(output: &Output) {
    let told = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&told));
    assert!(String::from_utf8_lossy(&output.stderr).contains("read it all"), "the child did its work");
}

#[test]
fn a_folder_that_may_not_be_written_is_read() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    drop(store);
    make_unwritable(&place);
    assert_child(&as_somebody(&place, "files::child_reads_what_it_may_not_write", "3"));
}

#[test]
fn a_log_left_by_a_crash_is_read_where_nothing_may_be_written() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    // What a killed process leaves: the files as they are while it writes.
    let crashed = Place::new();
    fs::create_dir(crashed.store()).unwrap();
    for file in ["ftl.db", "ftl.db-wal", "ftl.db-shm"] {
        fs::copy(place.file(file), crashed.file(file)).unwrap();
    }
    assert!(fs::metadata(crashed.file("ftl.db-wal")).unwrap().len() > 0);
    make_unwritable(&crashed);
    assert_child(&as_somebody(&crashed, "files::child_reads_what_it_may_not_write", "3"));
}

#[test]
fn a_log_without_its_memory_is_not_read_where_nothing_may_be_written() {
    let place = Place::new();
    let store = place.open();
    add(&store, 1);
    let copied = Place::new();
    fs::create_dir(copied.store()).unwrap();
    for file in ["ftl.db", "ftl.db-wal"] {
        fs::copy(place.file(file), copied.file(file)).unwrap();
    }
    make_unwritable(&copied);
    assert_child(&as_somebody(&copied, "files::child_cannot_read_the_log", ""));
}

#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_cannot_read_the_log() {
    let Some((folder, _)) = read_child_order() else { return };
    match SqliteStore::open(&folder) {
        Err(StoreError::ReadOnly(told)) => assert!(told.contains("read a copy of it"), "{told}"),
        other => panic!("{other:?}"),
    }
    eprintln!("read it all");
}

#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_reads_what_it_may_not_write() {
    let Some((folder, word)) = read_child_order() else { return };
    let store = SqliteStore::open(&folder).unwrap();
    let due: u64 = word.parse().unwrap();
    assert!(matches!(store.writable(), Err(StoreError::ReadOnly(_))), "{:?}", store.writable());
    assert_eq!(assert_whole(&store, &name(1)), due);
    assert_eq!(store.version(), store.version());
    let wrote = store.send(&name(1), "{}");
    assert!(matches!(wrote, Err(StoreError::ReadOnly(_))), "{wrote:?}");
    assert_eq!(assert_whole(&store, &name(1)), due, "reading goes on");
    let elsewhere = SqliteStore::open(&folder.join("below")).map(drop);
    assert!(matches!(elsewhere, Err(StoreError::ReadOnly(_))), "{elsewhere:?}");
    eprintln!("read it all");
}

/// A limit on the size of files stands for a full disk: SQLite reports it as a failed write, and only
/// the machine's own error tells what it was.
#[test]
fn a_disk_without_room_is_told_as_full_and_forgets_nothing() {
    let place = Place::new();
    let store = place.open();
    let lease = add(&store, 1);
    store.append(&lease, lines(1..=3)).unwrap();
    drop(store);
    let plain = child("files::child_fills_the_disk", &place.store(), "");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\""]);
    limited.arg(plain.get_program()).args(plain.get_args());
    limited.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    assert_child(&limited.output().unwrap());
    let store = place.open();
    assert!(assert_whole(&store, &name(1)) >= 4);
    store.put(&vec![1; 4 * 1024 * 1024]).unwrap();
}

#[test]
#[ignore = "part of other tests, which start it in a process of its own"]
fn child_fills_the_disk() {
    let Some((folder, _)) = read_child_order() else { return };
    let store = SqliteStore::open(&folder).unwrap();
    let row = store.run(&name(1)).unwrap().unwrap();
    let lease = ftl_store::Lease { run: name(1), epoch: 1, owner: row.owner.unwrap() };
    store.append(&lease, lines([4])).unwrap();
    let wrote = store.put(&vec![1; MAX_CONTENT_BYTES / 4]);
    assert!(matches!(wrote, Err(StoreError::Full(_))), "{wrote:?}");
    assert_eq!(assert_whole(&store, &name(1)), 4, "what was acknowledged is there");
    // There is room for a little: a full disk is not a failed one.
    store.append(&lease, lines([5])).unwrap();
    assert_eq!(store.writable(), Ok(()));
    eprintln!("read it all");
}
