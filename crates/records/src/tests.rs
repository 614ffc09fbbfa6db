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

struct Bench {
    folder: tempfile::TempDir,
    paper: Arc<Records>,
}

fn paper(folder: &std::path::Path) -> Arc<Records> {
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

impl Bench {
    fn new(tasks: usize) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let paper = paper(folder.path());
        paper.create_campaign("a long way", None, NOW).unwrap();
        paper.add_tasks(&plan(tasks), NOW).unwrap();
        Bench { folder, paper }
    }

    /// The process that comes after one that was killed.
    fn after(self) -> Bench {
        let Bench { folder, paper: old } = self;
        drop(old);
        let paper = paper(folder.path());
        Bench { folder, paper }
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
            .paper
            .read(&super::campaign::projected(super::scope::RecordScope::default()))
            .unwrap()
            .unwrap();
        format!("{}\n", found.pretty())
    }

    fn keys(&self) -> Vec<String> {
        self.paper.store.keys("campaign").unwrap()
    }

    fn status(&self, at: usize) -> &'static str {
        self.paper.campaign().unwrap().unwrap().tasks()[at].status.word()
    }

    /// Changes a task as a run does that is killed before it has written the copy.
    fn killed_after(&self, seq: &str, status: &str) {
        let before = self.copy();
        let runs = self.paper.lag.pretend();
        self.paper.update_task(seq, status, NOW).unwrap();
        drop(runs);
        assert_eq!(self.copy(), before, "nothing of it is in the copy");
        assert!(self.paper.store.note(STAMPS, "campaign.json").unwrap().unwrap().ends_with('~'));
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
    let bench = Bench::new(3);
    assert_eq!(bench.keys(), ["current", "current.000000", "current.000001", "current.000002"]);
    let head = bench.paper.store.note("campaign", "current").unwrap().unwrap();
    assert!(head.contains(r#""tasks":[]"#), "{head}");
    assert_eq!(bench.copy(), bench.kept_campaign());
    // A shorter list leaves nothing behind, and a new campaign nothing of the old one.
    bench.paper.add_tasks(&plan(2), NOW).unwrap();
    assert_eq!(bench.keys().len(), 3);
    bench.paper.create_campaign("another", None, NOW).unwrap();
    assert_eq!(bench.keys(), ["current"]);
    assert_eq!(bench.paper.archives().unwrap()[0].1.tasks().len(), 2, "the old one is whole in the archive");
}

#[test]
fn a_campaign_of_an_earlier_version_is_read_and_becomes_rows_with_its_next_change() {
    for change in ["update", "update in a run", "propagate", "merge"] {
        let bench = Bench::new(3);
        let (copy, json) = (bench.copy(), bench.paper.campaign().unwrap().unwrap().to_json());
        let keys = bench.keys();
        let store = bench.paper.store.clone();
        store
            .amend(&mut |notes| {
                keys.iter().try_for_each(|key| notes.remove("campaign", key))?;
                notes.put("campaign", "current", &json.to_string()).map(|()| true)
            })
            .unwrap();
        let bench = bench.after();
        assert_eq!(
            (bench.kept_campaign(), bench.copy(), bench.keys().len()),
            (copy.clone(), copy, 1),
            "{change}"
        );
        match change {
            "update" => bench.paper.update_task("2", "complete", NOW).unwrap(),
            "update in a run" => bench.killed_after("0002", "complete"),
            "propagate" => {
                bench.paper.update_task("1", "blocked", NOW).unwrap();
                assert_eq!(bench.paper.propagate_blocks(NOW).unwrap(), ["002", "003"]);
            }
            _ => assert_eq!(bench.paper.merge_plan(&plan(4), NOW).unwrap().merged, 1),
        }
        assert!(bench.keys().len() >= 4, "{change}");
        assert_eq!(bench.kept_campaign(), bench.copy(), "{change}");
    }
}

#[test]
fn a_campaign_that_is_followed_is_the_one_that_is_kept_whatever_was_done_to_it() {
    let bench = Bench::new(4);
    let mut followed = None;
    let mut look = |what: &str| {
        followed = bench.paper.follow_campaign(followed.take()).unwrap();
        let kept = bench.paper.campaign().unwrap();
        let seen = followed.as_ref().map(|one| (one.campaign().to_json(), one.downstream().clone()));
        let wanted = kept.map(|kept| (kept.to_json(), kept.downstream().unwrap()));
        assert_eq!(seen, wanted, "{what}");
        let seqs =
            |ready: Vec<&CampaignTask>| ready.iter().map(|one| one.task.seq.clone()).collect::<Vec<_>>();
        let ready = bench.paper.campaign().unwrap().map(|kept| seqs(kept.ready().unwrap()));
        assert_eq!(followed.as_ref().map(|one| seqs(one.ready())), ready, "{what}");
    };
    look("as it was made");
    look("nothing was done");
    bench.paper.update_task("2", "complete", NOW).unwrap();
    look("a task is complete");
    bench.killed_after("003", "in_progress");
    look("in a run");
    bench.paper.update_task("1", "blocked", NOW).unwrap();
    bench.paper.propagate_blocks(NOW).unwrap();
    look("blocks were propagated");
    let other = bench.copy().replace("\"blocked\"", "\"pending\"");
    std::fs::write(bench.paper.place().state().join("campaign.json"), other).unwrap();
    look("somebody has edited the copy");
    for at in 0..=super::chunked_note::MAX_TRAIL {
        let status = if at % 2 == 0 { "complete" } else { "pending" };
        bench.paper.update_task("1", status, NOW).unwrap();
    }
    look("more was done than is remembered");
    bench.paper.add_tasks(&plan(6), NOW).unwrap();
    look("there are more tasks");
    bench.paper.create_campaign("another one", None, NOW).unwrap();
    look("it is another campaign");
    bench.paper.add_tasks(&plan(3), NOW).unwrap();
    look("with tasks of its own");
}

#[test]
fn a_long_campaign_is_kept_in_parts_also_one_that_an_earlier_version_kept_whole() {
    const LONG: usize = 2_001;
    let bench = Bench::new(LONG);
    assert_eq!(bench.keys().len(), LONG + 1);
    // Earlier versions kept more than two thousand tasks as one note.
    let what = super::campaign::projected(super::scope::RecordScope::default());
    let whole = super::chunked_note::fetch_now(&*bench.paper.store, &what).unwrap().unwrap();
    let parts = bench.keys();
    bench
        .paper
        .store
        .amend(&mut |notes| {
            parts.iter().try_for_each(|key| notes.remove("campaign", key))?;
            notes.put("campaign", "current", &whole).map(|()| true)
        })
        .unwrap();
    assert_eq!(bench.keys(), ["current"]);
    bench.killed_after("007", "complete");
    assert_eq!(bench.keys().len(), LONG + 1, "the first change takes it apart");
    bench.paper.update_task("8", "complete", NOW).unwrap();
    assert_eq!((bench.status(6), bench.status(7)), ("complete", "complete"));
    assert_eq!(bench.copy(), bench.kept_campaign());
}

#[test]
fn a_task_is_changed_with_as_few_notes_in_a_long_campaign_as_in_a_short_one() {
    let touched = |tasks: usize| {
        let bench = Bench::new(tasks);
        let _runs = bench.paper.lag.pretend();
        bench.paper.update_task("50", "in_progress", NOW).unwrap();
        let all = || -> std::collections::BTreeMap<(&str, String), String> {
            let kinds = ["campaign", "trail", STAMPS].into_iter();
            let of = |kind| {
                bench.paper.store.notes(kind).unwrap().into_iter().map(move |(key, body)| ((kind, key), body))
            };
            kinds.flat_map(of).collect()
        };
        let before = all();
        bench.paper.update_task("51", "in_progress", NOW).unwrap();
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
    paper: Arc<Records>,
    plan: super::plan_file::CampaignPlan,
    _folder: tempfile::TempDir,
}

impl Briefs {
    /// So many tasks, the last of which waits for the first.
    fn new(tasks: usize) -> Briefs {
        let folder = tempfile::tempdir().unwrap();
        let paper = paper(folder.path());
        let task = |seq: usize| {
            let depends = if seq == tasks { r#"["1"]"# } else { "[]" };
            format!(
                r#"{{"seq":"{seq:03}","slug":"t","type":"BUILD","delta":["a{seq}"],"verify":"true","depends":{depends}}}"#
            )
        };
        let all: Vec<String> = (1..=tasks).map(task).collect();
        let text = format!(r#"{{"objective":"x","tasks":[{}]}}"#, all.join(","));
        let plan = super::plan_file::read(&text).unwrap();
        paper.create_campaign("x", None, NOW).unwrap();
        paper.add_tasks(&text, NOW).unwrap();
        Briefs { paper, plan, _folder: folder }
    }

    fn make(&self, seq: usize) -> PathBuf {
        let recall = |_: &super::plan_file::CampaignPlan, tasks: &[&super::plan_file::PlanTask]| {
            Ok(tasks.iter().map(|_| super::briefs::Recalled::default()).collect())
        };
        let means: (super::briefs::Recall<'_>, ftl_code::context::Sources<'_>, super::briefs::Budgets<'_>) =
            (&recall, &|_| None, &|_, _, _| None);
        self.paper.create_workspaces(&self.plan, Some(&seq.to_string()), means, NOW).unwrap().remove(0)
    }

    fn block(&self, seq: usize) {
        let why = super::workspace::BlockReason::read("it is broken").unwrap();
        let ends = super::briefs::Ends { now: NOW, run: None };
        self.paper.block_workspace(&self.make(seq), &why, ends).unwrap();
    }

    /// What the brief of a task tells: its parents' work, and the names of siblings that failed.
    fn told(&self, seq: usize) -> (Vec<String>, Vec<String>) {
        let brief = self.paper.parse_workspace(&self.make(seq)).unwrap();
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
    briefs.paper.complete_workspace(&briefs.make(1), ("the models", &[]), ends).unwrap();
    let (parents, siblings) = briefs.told(4);
    assert_eq!((parents[0].as_str(), siblings), ("the models", vec!["sibling-002_t_blocked".to_owned()]));
    let runs = briefs.paper.lag.pretend();
    briefs.block(3);
    let (again, siblings) = briefs.told(4);
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
    let _runs = briefs.paper.lag.pretend();
    (1..=MAX_SIBLINGS + 2).for_each(|seq| briefs.block(seq));
    let (_, siblings) = briefs.told(MAX_SIBLINGS + 3);
    assert_eq!((siblings.len(), siblings[0].as_str()), (MAX_SIBLINGS, "sibling-003_t_blocked"));
}

#[test]
fn one_task_of_three_hundred_is_changed_with_few_bytes() {
    let bench = Bench::new(300);
    let written = |work: &dyn Fn()| {
        let before = bench.log_bytes();
        work();
        let after = bench.log_bytes();
        assert!(after > before, "{before} {after}");
        after - before
    };
    let single = written(&|| bench.paper.update_task("150", "in_progress", NOW).unwrap());
    assert!(single < 32 * 1024, "{single}");
    let runs = bench.paper.lag.pretend();
    bench.paper.update_task("151", "in_progress", NOW).unwrap();
    let second = written(&|| bench.paper.update_task("152", "in_progress", NOW).unwrap());
    assert!(second < 16 * 1024, "{second}");
    drop(runs);
    assert_eq!(bench.kept_campaign(), bench.copy());
}

#[test]
fn tasks_are_found_in_any_spelling_wherever_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench { paper: paper(folder.path()), folder };
    bench.paper.create_campaign("x", None, NOW).unwrap();
    let task = |seq: &str| {
        format!(r#"{{"seq":"{seq}","slug":"a","type":"BUILD","delta":["a{seq}"],"verify":"true"}}"#)
    };
    let seqs = ["002", "001", "007", "000"].map(task);
    bench.paper.add_tasks(&format!(r#"{{"objective":"x","tasks":[{}]}}"#, seqs.join(",")), NOW).unwrap();
    let _runs = bench.paper.lag.pretend();
    for (seq, at) in [("2", 0), ("001", 1), ("0007", 2), ("0", 3)] {
        bench.paper.update_task(seq, "complete", NOW).unwrap();
        assert_eq!(bench.status(at), "complete", "{seq}");
    }
    let error = bench.paper.update_task("9", "complete", NOW).unwrap_err();
    assert_eq!(error.to_string(), "Unknown task: 9");
    assert_eq!(error.hint().unwrap(), "the campaign has 4 tasks: 002, 001, 007, 000");
}

#[test]
fn a_copy_that_lags_is_written_by_whoever_looks_next() {
    let bench = Bench::new(5);
    bench.killed_after("001", "complete");
    bench.killed_after("002", "in_progress");
    let bench = bench.after();
    assert_eq!((bench.status(0), bench.status(1)), ("complete", "in_progress"));
    assert_eq!(bench.copy(), bench.kept_campaign());
    assert_eq!(bench.paper.notices(), Vec::<String>::new(), "our own copy is nobody's change");
    // Also where it is gone, and where the next one changes something else.
    bench.killed_after("002", "complete");
    fs::remove_file(bench.file()).unwrap();
    bench.paper.update_task("003", "blocked", NOW).unwrap();
    assert_eq!((bench.status(1), bench.copy()), ("complete", bench.kept_campaign()));
    bench.killed_after("003", "pending");
    bench.paper.complete_campaign(None, &[], NOW).unwrap();
    assert_eq!((bench.copy(), bench.paper.notices()), (bench.kept_campaign(), Vec::new()));
}

#[test]
fn a_change_by_hand_of_a_copy_that_lags_is_taken_over_or_refused() {
    let bench = Bench::new(3);
    bench.killed_after("001", "complete");
    let by_hand = bench.copy().replace("task-3", "third");
    fs::write(bench.file(), &by_hand).unwrap();
    bench.paper.catch_up_campaign();
    assert_eq!(bench.copy(), by_hand, "it is not written over");
    // A run finds it with its next action.
    let runs = bench.paper.lag.pretend();
    bench.paper.update_task("002", "complete", NOW).unwrap();
    assert_eq!(bench.paper.campaign().unwrap().unwrap().tasks()[2].task.slug, "third");
    assert!(bench.paper.notices()[0].contains("campaign.json was changed by hand and is taken over"));
    drop(runs);
    assert_eq!((bench.status(1), bench.copy()), ("complete", bench.kept_campaign()));

    bench.killed_after("003", "complete");
    let before = bench.paper.store.notes("campaign").unwrap();
    fs::write(bench.file(), "{\"half\":").unwrap();
    let runs = bench.paper.lag.pretend();
    for refused in [
        bench.paper.update_task("001", "blocked", NOW).unwrap_err(),
        bench.paper.campaign().unwrap_err(),
        bench.paper.merge_plan(&plan(4), NOW).unwrap_err(),
    ] {
        assert!(
            matches!(&refused, RecordError::Malformed { path, .. } if *path == bench.file()),
            "{refused}"
        );
    }
    drop(runs);
    bench.paper.catch_up_campaign();
    assert_eq!((bench.copy().as_str(), bench.paper.store.notes("campaign").unwrap()), ("{\"half\":", before));
    fs::remove_file(bench.file()).unwrap();
    assert_eq!((bench.status(2), bench.copy()), ("complete", bench.kept_campaign()));
}

#[test]
fn while_a_run_is_driven_the_copy_comes_soon_and_at_the_latest_when_it_rests() {
    let bench = Bench::new(3);
    let first = bench.paper.lagging();
    let second = bench.paper.lagging();
    bench.paper.update_task("001", "complete", NOW).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !bench.copy().contains("\"complete\"") {
        assert!(Instant::now() < until, "the copy never came");
        std::thread::yield_now();
    }
    drop(first);
    assert!(bench.paper.lag.is_allowed(), "another run is driven");
    bench.paper.update_task("002", "in_progress", NOW).unwrap();
    drop(second);
    assert!(!bench.paper.lag.is_allowed());
    assert!(bench.copy().contains("\"in_progress\""));
    assert_eq!(bench.copy(), bench.kept_campaign());
}

#[test]
fn what_the_original_left_becomes_rows_too() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench { paper: paper(folder.path()), folder };
    for tasks in
        ["null", "[]", r#"[{"seq": 1, "slug": "é", "depends": "none"}, {"seq": "002", "depends": ["001"]}]"#]
    {
        let text =
            format!(r#"{{"objective": "old", "status": "active", "tasks": {tasks}, "more": [1, 2.50]}}"#);
        fs::write(bench.file(), &text).unwrap();
        let json = Json::parse(&text).unwrap();
        assert_eq!(
            bench.paper.read(&super::campaign::projected(super::scope::RecordScope::default())).unwrap(),
            Some(json),
            "{tasks}"
        );
        assert_eq!(bench.copy(), text, "it stays as it is until something changes");
    }
    bench.paper.update_task("1", "complete", NOW).unwrap();
    assert_eq!((bench.keys().len(), bench.copy()), (3, bench.kept_campaign()));
}
