//! Eight processes at once: nothing is lost, nothing is broken, nobody hears of a lock.

use serde_json::{Value as Json, json};

use crate::campaign::{add, run_json};
use crate::support::Dir;

const PROCESSES: usize = 8;
const WRITES: usize = 50;

/// Every process writes its share, one command after the other.
fn crowd(work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let work = &work;
            scope.spawn(move || (0..WRITES).for_each(|write| work(process * WRITES + write)));
        }
    });
}

fn long_campaign(dir: &Dir) -> String {
    dir.ftl(&["campaign", "create", "many"]).code(0);
    let task = |number: usize| json!({"seq": format!("{number:03}"), "slug": format!("t{number}"), "delta": [format!("f{number}")], "verify": "true"});
    let plan = json!({"objective": "many", "tasks": (0..PROCESSES * WRITES).map(task).collect::<Vec<_>>()})
        .to_string();
    add(dir, &plan).code(0);
    plan
}

#[test]
fn eight_processes_learn_fifty_lessons_each() {
    let dir = Dir::new();
    crowd(|number| {
        // Words that have nothing in common, so that none is a repeat of another.
        let word = |salt: usize| {
            format!(
                "{:x}",
                (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9)
            )
        };
        let lesson = json!({"name": format!("n{number}"), "trigger": format!("{} {} {}", word(1), word(2), word(3)), "cost": 500});
        let said = dir.ftl(&["memory", "add-failure", "--json", &lesson.to_string()]).code(0);
        assert_eq!((said.out.as_str(), said.err.as_str()), ("added\n", ""), "{number}");
    });
    let memory = run_json(&dir, &["memory", "export"]);
    let mut names: Vec<String> = memory["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    let mut wanted: Vec<String> = (0..PROCESSES * WRITES).map(|number| format!("n{number}")).collect();
    wanted.sort();
    assert_eq!(names, wanted);
    let copy: Json = serde_json::from_str(&dir.read(".ftl/memory.json")).unwrap();
    assert_eq!(copy, memory);
}

#[test]
fn eight_processes_update_fifty_tasks_each() {
    let dir = Dir::new();
    long_campaign(&dir);
    crowd(|number| {
        let said = dir.ftl(&["campaign", "update-task", &format!("{number:03}"), "complete"]).code(0);
        assert_eq!(said.err, "", "{number}");
    });
    let cascade = run_json(&dir, &["campaign", "cascade-status"]);
    assert_eq!((&cascade["state"], &cascade["complete"]), (&json!("complete"), &json!(PROCESSES * WRITES)));
    assert_eq!(dir.read(".ftl/campaign.json"), dir.ftl(&["campaign", "status"]).code(0).out);
}

#[test]
fn workspaces_are_made_and_ended_side_by_side() {
    let dir = Dir::new();
    let plan = long_campaign(&dir);
    dir.write("plan.json", &plan);
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let dir = &dir;
            scope.spawn(move || {
                for write in 0..6 {
                    let number = process * 6 + write;
                    let seq = format!("{number:03}");
                    dir.ftl(&["workspace", "create", "--plan", "plan.json", "--task", &seq]).code(0);
                    let path = format!(".ftl/workspace/{seq}_t{number}_active.xml");
                    let said = match number % 2 {
                        0 => dir.ftl(&["workspace", "complete", &path, "--delivered", "done"]),
                        _ => dir.ftl(&["workspace", "block", &path, "--reason", "no"]),
                    };
                    assert_eq!(said.code(0).err, "", "{number}");
                }
            });
        }
    });
    let list = run_json(&dir, &["observer", "list"]);
    let count = |status: &str| list[status].as_array().unwrap().len();
    assert_eq!((count("complete"), count("blocked"), count("active")), (24, 24, 0));
    let cascade = run_json(&dir, &["campaign", "cascade-status"]);
    assert_eq!((&cascade["complete"], &cascade["blocked"]), (&json!(24), &json!(24)));
}

#[test]
fn two_who_end_one_workspace_end_it_once() {
    let dir = Dir::new();
    dir.write("plan.json", long_campaign(&dir));
    for number in 0..10 {
        let seq = format!("{number:03}");
        dir.ftl(&["workspace", "create", "--plan", "plan.json", "--task", &seq]).code(0);
        let path = format!(".ftl/workspace/{seq}_t{number}_active.xml");
        let ends: [&[&str]; 2] =
            [&["complete", &path, "--delivered", "x"], &["block", &path, "--reason", "x"]];
        let codes: Vec<i32> = std::thread::scope(|scope| {
            let both = ends.map(|end| {
                let dir = &dir;
                scope.spawn(move || {
                    dir.ftl(&["workspace"].iter().chain(end).copied().collect::<Vec<_>>()).code
                })
            });
            both.map(|one| one.join().unwrap()).to_vec()
        });
        assert_eq!(codes.iter().sum::<i32>(), 1, "{codes:?}");
    }
    let list = run_json(&dir, &["observer", "list"]);
    assert_eq!(list["complete"].as_array().unwrap().len() + list["blocked"].as_array().unwrap().len(), 10);
}

#[test]
fn events_of_many_stand_each_on_its_own_line_once() {
    let dir = Dir::new();
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let dir = &dir;
            scope.spawn(move || {
                for write in 0..5 {
                    let meta = json!({"n": process * 5 + write}).to_string();
                    dir.ftl(&["orchestration", "emit-state", "BUILD", "--meta", &meta]).code(0);
                }
            });
        }
    });
    let text = dir.read(".ftl/events.jsonl");
    let mut numbers: Vec<u64> =
        text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()["n"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..40).collect::<Vec<u64>>());
}
