//! A campaign in rows, and its copy that may lag: what the store holds, what is written, what a kill leaves.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::projection::STAMPS;
use super::*;
use crate::plan_file::merge::CampaignTask;
use ftl_core::json::{Json, JsonExt as _};
use ftl_store::Notebook as _;

const NOW: &str = "2026-01-02T03:04:05";

struct Fixture {
    folder: tempfile::TempDir,
    records: Arc<Records>,
}

fn records(folder: &std::path::Path) -> Arc<Records> {
    let place = StateFolder::at(folder.to_owned());
    place.prepare().unwrap();
    let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
    Arc::new(Records::new(place, store))
}

fn plan(tasks: usize) -> String {
    let task = |number: usize| {
        let depends = if number == 1 { String::from("\"none\"") } else { format!("[\"{:03}\"]", number - 1) };
        format!(
            r#"{{"seq":"{number:03}","slug":"task-{number}","type":"BUILD","delta":["src/f{number}.py"],"verify":"true","depends":{depends}}}"#
        )
    };
    let tasks: Vec<String> = (1..=tasks).map(task).collect();
    format!(r#"{{"objective":"a long way","tasks":[{}]}}"#, tasks.join(","))
}

impl Fixture {
    fn new(tasks: usize) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        records.create_campaign("a long way", None, NOW).unwrap();
        records.add_tasks(&plan(tasks), NOW).unwrap();
        Fixture { folder, records }
    }

    /// The process that comes after one that was killed.
    fn after(self) -> Fixture {
        let Fixture { folder, records: old } = self;
        drop(old);
        let records = records(folder.path());
        Fixture { folder, records }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(".ftl/campaign.json")
    }

    fn copy(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// The campaign as the store has it, as its copy is to be.
    fn kept_campaign(&self) -> String {
        let found = self
            .records
            .read(&super::campaign::projected(super::scope::RecordScope::default()))
            .unwrap()
            .unwrap();
        format!("{}\n", found.pretty())
    }

    fn keys(&self) -> Vec<String> {
        self.records.store.keys("campaign").unwrap()
    }

    fn status(&self, at: usize) -> &'static str {
        self.records.campaign().unwrap().unwrap().tasks()[at].status.word()
    }

    /// Changes a task as a run does that is killed before it has written the copy.
    fn killed_after(&self, seq: &str, status: &str) {
        let before = self.copy();
        let runs = self.records.lag.pretend();
        self.records.update_task(seq, status, NOW).unwrap();
        drop(runs);
        assert_eq!(self.copy(), before, "nothing of it is in the copy");
        assert!(self.records.store.note(STAMPS, "campaign.json").unwrap().unwrap().ends_with('~'));
    }

    fn log_bytes(&self) -> u64 {
        let files = fs::read_dir(self.folder.path().join(".ftl/store")).unwrap().flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().ends_with("-wal"));
        // Zeros at the end are room for what comes.
        let written = |log: Vec<u8>| log.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        logs.map(|file| written(fs::read(file.path()).unwrap()) as u64).sum()
    }
}

#[test]
fn each_task_is_a_note_and_the_campaign_is_whole() {
    let fixture = Fixture::new(3);
    assert_eq!(fixture.keys(), ["current", "current.000000", "current.000001", "current.000002"]);
    let head = fixture.records.store.note("campaign", "current").unwrap().unwrap();
    assert!(head.contains(r#""tasks":[]"#), "{head}");
    assert_eq!(fixture.copy(), fixture.kept_campaign());
    // A shorter list leaves nothing behind, and a new campaign nothing of the old one.
    fixture.records.add_tasks(&plan(2), NOW).unwrap();
    assert_eq!(fixture.keys().len(), 3);
    fixture.records.create_campaign("another", None, NOW).unwrap();
    assert_eq!(fixture.keys(), ["current"]);
    assert_eq!(
        fixture.records.archives().unwrap()[0].1.tasks().len(),
        2,
        "the old one is whole in the archive"
    );
}

#[test]
fn a_campaign_of_an_earlier_version_is_read_and_becomes_rows_with_its_next_change() {
    for change in ["update", "update in a run", "propagate", "merge"] {
        let fixture = Fixture::new(3);
        let (copy, json) = (fixture.copy(), fixture.records.campaign().unwrap().unwrap().to_json());
        let keys = fixture.keys();
        let store = fixture.records.store.clone();
        store
            .amend(&mut |notes| {
                keys.iter().try_for_each(|key| notes.remove("campaign", key))?;
                notes.put("campaign", "current", &json.to_string()).map(|()| true)
            })
            .unwrap();
        let fixture = fixture.after();
        assert_eq!(
            (fixture.kept_campaign(), fixture.copy(), fixture.keys().len()),
            (copy.clone(), copy, 1),
            "{change}"
        );
        match change {
            "update" => fixture.records.update_task("2", "complete", NOW).unwrap(),
            "update in a run" => fixture.killed_after("0002", "complete"),
            "propagate" => {
                fixture.records.update_task("1", "blocked", NOW).unwrap();
                assert_eq!(fixture.records.propagate_blocks(NOW).unwrap(), ["002", "003"]);
            }
            _ => assert_eq!(fixture.records.merge_plan(&plan(4), NOW).unwrap().merged, 1),
        }
        assert!(fixture.keys().len() >= 4, "{change}");
        assert_eq!(fixture.kept_campaign(), fixture.copy(), "{change}");
    }
}

#[test]
fn a_campaign_that_is_followed_is_the_one_that_is_kept_whatever_was_done_to_it() {
    let fixture = Fixture::new(4);
    let mut followed = None;
    let mut look = |what: &str| {
        followed = fixture.records.follow_campaign(followed.take()).unwrap();
        let kept = fixture.records.campaign().unwrap();
        let seen = followed.as_ref().map(|one| (one.campaign().to_json(), one.downstream().clone()));
        let wanted = kept.map(|kept| (kept.to_json(), kept.downstream().unwrap()));
        assert_eq!(seen, wanted, "{what}");
        let seqs =
            |ready: Vec<&CampaignTask>| ready.iter().map(|one| one.task.seq.clone()).collect::<Vec<_>>();
        let ready = fixture.records.campaign().unwrap().map(|kept| seqs(kept.ready().unwrap()));
        assert_eq!(followed.as_ref().map(|one| seqs(one.ready())), ready, "{what}");
    };
    look("as it was made");
    look("nothing was done");
    fixture.records.update_task("2", "complete", NOW).unwrap();
    look("a task is complete");
    fixture.killed_after("003", "in_progress");
    look("in a run");
    fixture.records.update_task("1", "blocked", NOW).unwrap();
    fixture.records.propagate_blocks(NOW).unwrap();
    look("blocks were propagated");
    let other = fixture.copy().replace("\"blocked\"", "\"pending\"");
    std::fs::write(fixture.records.place().state().join("campaign.json"), other).unwrap();
    look("somebody has edited the copy");
    for at in 0..=super::chunked_note::MAX_TRAIL {
        let status = if at % 2 == 0 { "complete" } else { "pending" };
        fixture.records.update_task("1", status, NOW).unwrap();
    }
    look("more was done than is remembered");
    fixture.records.add_tasks(&plan(6), NOW).unwrap();
    look("there are more tasks");
    fixture.records.create_campaign("another one", None, NOW).unwrap();
    look("it is another campaign");
    fixture.records.add_tasks(&plan(3), NOW).unwrap();
    look("with tasks of its own");
}

#[test]
fn a_long_campaign_is_kept_in_parts_also_one_that_an_earlier_version_kept_whole() {
    const LONG: usize = 2_001;
    let fixture = Fixture::new(LONG);
    assert_eq!(fixture.keys().len(), LONG + 1);
    // Earlier versions kept more than two thousand tasks as one note.
    let what = super::campaign::projected(super::scope::RecordScope::default());
    let whole = super::chunked_note::fetch_now(&*fixture.records.store, &what).unwrap().unwrap();
    let parts = fixture.keys();
    fixture
        .records
        .store
        .amend(&mut |notes| {
            parts.iter().try_for_each(|key| notes.remove("campaign", key))?;
            notes.put("campaign", "current", &whole).map(|()| true)
        })
        .unwrap();
    assert_eq!(fixture.keys(), ["current"]);
    fixture.killed_after("007", "complete");
    assert_eq!(fixture.keys().len(), LONG + 1, "the first change takes it apart");
    fixture.records.update_task("8", "complete", NOW).unwrap();
    assert_eq!((fixture.status(6), fixture.status(7)), ("complete", "complete"));
    assert_eq!(fixture.copy(), fixture.kept_campaign());
}

#[test]
fn a_task_is_changed_with_as_few_notes_in_a_long_campaign_as_in_a_short_one() {
    let touched = |tasks: usize| {
        let fixture = Fixture::new(tasks);
        let _runs = fixture.records.lag.pretend();
        fixture.records.update_task("50", "in_progress", NOW).unwrap();
        let all = || -> std::collections::BTreeMap<(&str, String), String> {
            let kinds = ["campaign", "trail", STAMPS].into_iter();
            let of = |kind| {
                fixture
                    .records
                    .store
                    .notes(kind)
                    .unwrap()
                    .into_iter()
                    .map(move |(key, body)| ((kind, key), body))
            };
            kinds.flat_map(of).collect()
        };
        let before = all();
        fixture.records.update_task("51", "in_progress", NOW).unwrap();
        let after = all();
        let new: Vec<_> = after.iter().filter(|(key, body)| before.get(*key) != Some(body)).collect();
        (new.len(), new.iter().map(|(_, body)| body.len()).sum::<usize>())
    };
    let (short, long) = (touched(100), touched(5_000));
    assert_eq!((short.0, long.0), (2, 2), "the task and the trail");
    assert!(long.1 * 100 <= short.1 * 125, "{short:?} {long:?}");
}

/// A campaign of tasks that are briefed one by one, outside of a run.
struct Briefs {
    records: Arc<Records>,
    plan: super::plan_file::CampaignPlan,
    _folder: tempfile::TempDir,
}

impl Briefs {
    /// So many tasks, the last of which waits for the first.
    fn new(tasks: usize) -> Briefs {
        let folder = tempfile::tempdir().unwrap();
        let records = records(folder.path());
        let task = |seq: usize| {
            let depends = if seq == tasks { r#"["1"]"# } else { "[]" };
            format!(
                r#"{{"seq":"{seq:03}","slug":"t","type":"BUILD","delta":["a{seq}"],"verify":"true","depends":{depends}}}"#
            )
        };
        let all: Vec<String> = (1..=tasks).map(task).collect();
        let text = format!(r#"{{"objective":"x","tasks":[{}]}}"#, all.join(","));
        let plan = super::plan_file::read(&text).unwrap();
        records.create_campaign("x", None, NOW).unwrap();
        records.add_tasks(&text, NOW).unwrap();
        Briefs { records, plan, _folder: folder }
    }

    fn make(&self, seq: usize) -> PathBuf {
        let recall = |_: &super::plan_file::CampaignPlan, tasks: &[&super::plan_file::PlanTask]| {
            Ok(tasks.iter().map(|_| super::briefs::Recalled::default()).collect())
        };
        let means: (super::briefs::Recall<'_>, ftl_code::context::Sources<'_>, super::briefs::Budgets<'_>) =
            (&recall, &|_| None, &|_, _, _| None);
        self.records.create_workspaces(&self.plan, Some(&seq.to_string()), means, NOW).unwrap().remove(0)
    }

    fn block(&self, seq: usize) {
        let why = super::workspace::BlockReason::read("it is broken").unwrap();
        let ends = super::briefs::Ends { now: NOW, run: None };
        self.records.block_workspace(&self.make(seq), &why, ends).unwrap();
    }

    /// What the brief of a task tells: its parents' work, and the names of siblings that failed.
    fn read_brief(&self, seq: usize) -> (Vec<String>, Vec<String>) {
        let brief = self.records.parse_workspace(&self.make(seq)).unwrap();
        let parents = brief.parents.into_iter().map(|one| one.prior_delivery).collect();
        let known = brief.prior_knowledge.unwrap_or_default().failures;
        (parents, known.into_iter().map(|one| one.name).collect())
    }
}

#[test]
fn a_brief_knows_its_parents_and_blocked_siblings_without_a_look_at_every_workspace() {
    let briefs = Briefs::new(4);
    briefs.block(2);
    let ends = super::briefs::Ends { now: NOW, run: None };
    briefs.records.complete_workspace(&briefs.make(1), ("the models", &[]), ends).unwrap();
    let (parents, siblings) = briefs.read_brief(4);
    assert_eq!((parents[0].as_str(), siblings), ("the models", vec!["sibling-002_t_blocked".to_owned()]));
    let runs = briefs.records.lag.pretend();
    briefs.block(3);
    let (again, siblings) = briefs.read_brief(4);
    assert_eq!(
        (again, siblings.as_slice()),
        (parents, ["sibling-002_t_blocked", "sibling-003_t_blocked"].map(str::to_owned).as_slice())
    );
    drop(runs);
}

#[test]
fn a_brief_tells_of_the_last_siblings_that_failed_and_of_no_more_than_it_can_hold() {
    use super::briefs::MAX_SIBLINGS;
    let briefs = Briefs::new(MAX_SIBLINGS + 3);
    let _runs = briefs.records.lag.pretend();
    (1..=MAX_SIBLINGS + 2).for_each(|seq| briefs.block(seq));
    let (_, siblings) = briefs.read_brief(MAX_SIBLINGS + 3);
    assert_eq!((siblings.len(), siblings[0].as_str()), (MAX_SIBLINGS, "sibling-003_t_blocked"));
}

#[test]
fn one_task_of_three_hundred_is_changed_with_few_bytes() {
    let fixture = Fixture::new(300);
    let written = |work: &dyn Fn()| {
        let before = fixture.log_bytes();
        work();
        let after = fixture.log_bytes();
        assert!(after > before, "{before} {after}");
        after - before
    };
    let single = written(&|| fixture.records.update_task("150", "in_progress", NOW).unwrap());
    assert!(single < 32 * 1024, "{single}");
    let runs = fixture.records.lag.pretend();
    fixture.records.update_task("151", "in_progress", NOW).unwrap();
    let second = written(&|| fixture.records.update_task("152", "in_progress", NOW).unwrap());
    assert!(second < 16 * 1024, "{second}");
    drop(runs);
    assert_eq!(fixture.kept_campaign(), fixture.copy());
}

#[test]
fn tasks_are_found_in_any_spelling_wherever_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture { records: records(folder.path()), folder };
    fixture.records.create_campaign("x", None, NOW).unwrap();
    let task = |seq: &str| {
        format!(r#"{{"seq":"{seq}","slug":"a","type":"BUILD","delta":["a{seq}"],"verify":"true"}}"#)
    };
    let seqs = ["002", "001", "007", "000"].map(task);
    fixture.records.add_tasks(&format!(r#"{{"objective":"x","tasks":[{}]}}"#, seqs.join(",")), NOW).unwrap();
    let _runs = fixture.records.lag.pretend();
    for (seq, at) in [("2", 0), ("001", 1), ("0007", 2), ("0", 3)] {
        fixture.records.update_task(seq, "complete", NOW).unwrap();
        assert_eq!(fixture.status(at), "complete", "{seq}");
    }
    let error = fixture.records.update_task("9", "complete", NOW).unwrap_err();
    assert_eq!(error.to_string(), "Unknown task: 9");
    assert_eq!(error.hint().unwrap(), "the campaign has 4 tasks: 002, 001, 007, 000");
}

#[test]
fn a_copy_that_lags_is_written_by_whoever_looks_next() {
    let fixture = Fixture::new(5);
    fixture.killed_after("001", "complete");
    fixture.killed_after("002", "in_progress");
    let fixture = fixture.after();
    assert_eq!((fixture.status(0), fixture.status(1)), ("complete", "in_progress"));
    assert_eq!(fixture.copy(), fixture.kept_campaign());
    assert_eq!(fixture.records.notices(), Vec::<String>::new(), "our own copy is nobody's change");
    // Also where it is gone, and where the next one changes something else.
    fixture.killed_after("002", "complete");
    fs::remove_file(fixture.file()).unwrap();
    fixture.records.update_task("003", "blocked", NOW).unwrap();
    assert_eq!((fixture.status(1), fixture.copy()), ("complete", fixture.kept_campaign()));
    fixture.killed_after("003", "pending");
    fixture.records.complete_campaign(None, &[], NOW).unwrap();
    assert_eq!((fixture.copy(), fixture.records.notices()), (fixture.kept_campaign(), Vec::new()));
}

#[test]
fn a_change_by_hand_of_a_copy_that_lags_is_taken_over_or_refused() {
    let fixture = Fixture::new(3);
    fixture.killed_after("001", "complete");
    let by_hand = fixture.copy().replace("task-3", "third");
    fs::write(fixture.file(), &by_hand).unwrap();
    fixture.records.catch_up_campaign();
    assert_eq!(fixture.copy(), by_hand, "it is not written over");
    // A run finds it with its next action.
    let runs = fixture.records.lag.pretend();
    fixture.records.update_task("002", "complete", NOW).unwrap();
    assert_eq!(fixture.records.campaign().unwrap().unwrap().tasks()[2].task.slug, "third");
    assert!(fixture.records.notices()[0].contains("campaign.json was changed by hand and is taken over"));
    drop(runs);
    assert_eq!((fixture.status(1), fixture.copy()), ("complete", fixture.kept_campaign()));

    fixture.killed_after("003", "complete");
    let before = fixture.records.store.notes("campaign").unwrap();
    fs::write(fixture.file(), "{\"half\":").unwrap();
    let runs = fixture.records.lag.pretend();
    for refused in [
        fixture.records.update_task("001", "blocked", NOW).unwrap_err(),
        fixture.records.campaign().unwrap_err(),
        fixture.records.merge_plan(&plan(4), NOW).unwrap_err(),
    ] {
        assert!(
            matches!(&refused, RecordError::Malformed { path, .. } if *path == fixture.file()),
            "{refused}"
        );
    }
    drop(runs);
    fixture.records.catch_up_campaign();
    assert_eq!(
        (fixture.copy().as_str(), fixture.records.store.notes("campaign").unwrap()),
        ("{\"half\":", before)
    );
    fs::remove_file(fixture.file()).unwrap();
    assert_eq!((fixture.status(2), fixture.copy()), ("complete", fixture.kept_campaign()));
}

#[test]
fn while_a_run_is_driven_the_copy_comes_soon_and_at_the_latest_when_it_rests() {
    let fixture = Fixture::new(3);
    let first = fixture.records.lagging();
    let second = fixture.records.lagging();
    fixture.records.update_task("001", "complete", NOW).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !fixture.copy().contains("\"complete\"") {
        assert!(Instant::now() < until, "the copy never came");
        std::thread::yield_now();
    }
    drop(first);
    assert!(fixture.records.lag.is_allowed(), "another run is driven");
    fixture.records.update_task("002", "in_progress", NOW).unwrap();
    drop(second);
    assert!(!fixture.records.lag.is_allowed());
    assert!(fixture.copy().contains("\"in_progress\""));
    assert_eq!(fixture.copy(), fixture.kept_campaign());
}

#[test]
fn what_the_original_left_becomes_rows_too() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture { records: records(folder.path()), folder };
    for tasks in
        ["null", "[]", r#"[{"seq": 1, "slug": "é", "depends": "none"}, {"seq": "002", "depends": ["001"]}]"#]
    {
        let text =
            format!(r#"{{"objective": "old", "status": "active", "tasks": {tasks}, "more": [1, 2.50]}}"#);
        fs::write(fixture.file(), &text).unwrap();
        let json = Json::parse(&text).unwrap();
        assert_eq!(
            fixture.records.read(&super::campaign::projected(super::scope::RecordScope::default())).unwrap(),
            Some(json),
            "{tasks}"
        );
        assert_eq!(fixture.copy(), text, "it stays as it is until something changes");
    }
    fixture.records.update_task("1", "complete", NOW).unwrap();
    assert_eq!((fixture.keys().len(), fixture.copy()), (3, fixture.kept_campaign()));
}
