//! Tests of the plan file: tables of what is wrong, merges, mutated plans, and the time of large ones.

use std::time::Instant;

use super::merge::{CampaignTask, merge, read_task};
use super::*;
use ftl_core::plan::TaskStatus;

const GOOD: &str = r#"{"_schema_version": "1.0", "objective": "add login", "campaign": "login", "framework": "FastAPI",
  "framework_confidence": 0.85, "idioms": {"required": ["@app.get"], "forbidden": []}, "note": {"kept": [1, "é"]},
  "tasks": [
    {"seq": "001", "slug": "spec-login", "type": "SPEC", "delta": ["tests/test_login.py"], "verify": "pytest tests/test_login.py",
     "depends": "none", "mine": true},
    {"seq": "002", "slug": "login", "delta": ["src/login.py"], "verify": "pytest", "budget": 7, "depends": ["1"],
     "target_lines": {"src/login.py": "40-80"}, "preflight": ["python -m py_compile src/login.py"], "worker": "coder"},
    {"seq": "003", "slug": "check", "type": "VERIFY", "delta": [], "verify": "pytest", "depends": ["001", 2, "none", ""]}]}"#;

#[test]
fn a_good_plan_reads_whole() {
    let plan = read(GOOD).unwrap();
    assert_eq!(plan.framework.as_deref(), Some("FastAPI"));
    assert_eq!(plan.tasks[0].budget, DEFAULT_BUDGET);
    assert_eq!(plan.tasks[1].target_lines, [("src/login.py".to_owned(), LineRange { first: 40, last: 80 })]);
    assert_eq!(plan.tasks[1].worker, Worker::Coder);
    assert_eq!(plan.tasks[2].depends, ["001", "2"]);
    assert_eq!(plan.find("2").unwrap().slug, "login");
    assert_eq!(plan.tasks[0].other, [("mine".to_owned(), Json::Bool(true))]);
    assert_eq!(plan.other.len(), 2);
    let again = read(&plan.to_json().pretty()).unwrap();
    assert_eq!(again, plan);
    let mut staffed = plan.clone();
    staffed.tasks.iter_mut().for_each(|task| task.staff(Worker::Coder));
    assert!(staffed.tasks.iter().all(|task| task.worker == Worker::Coder));
    let mut said = again;
    said.tasks[0].staff(Worker::Coder);
    assert_eq!(said.tasks[0].worker, Worker::Builder, "what is filled in is said");
    assert_eq!(plan.to_shape().tasks[1].depends.as_ref().unwrap().0, ["1"]);
}

/// One line a case: a change of the good task, and the errors as `path: message`, `;` between.
const WRONG: &str = r#"
{"seq": null}                         | tasks[0].seq: Task 0: missing required field: seq
{"seq": 1}                            | tasks[0].seq: Task 0: seq must be 3-digit string (three digits or more)
{"seq": "1"}                          | tasks[0].seq: Task 0: seq must be 3-digit string (three digits or more)
{"seq": "0a1"}                        | tasks[0].seq: Task 0: seq must be 3-digit string (three digits or more)
{"seq": "../x"}                       | tasks[0].seq: Task 0: seq must be 3-digit string (three digits or more)
{"seq": "-01"}                        | tasks[0].seq: Task 0: seq must be 3-digit string (three digits or more)
{"seq": "1000"}                       |
{"slug": null}                        | tasks[0].slug: Task 0: missing required field: slug
{"slug": "Add Login"}                 | tasks[0].slug: Task 0: slug must be in kebab case: "Add Login"
{"slug": "../../etc"}                 | tasks[0].slug: Task 0: slug must be in kebab case: "../../etc"
{"slug": "a/b"}                       | tasks[0].slug: Task 0: slug must be in kebab case: "a/b"
{"slug": "a_b"}                       | tasks[0].slug: Task 0: slug must be in kebab case: "a_b"
{"slug": "a--b"}                      | tasks[0].slug: Task 0: slug must be in kebab case: "a--b"
{"slug": "-a"}                        | tasks[0].slug: Task 0: slug must be in kebab case: "-a"
{"slug": ""}                          | tasks[0].slug: Task 0: slug must be in kebab case: ""
{"slug": "a\u0000b"}                  | tasks[0].slug: Task 0: slug must be in kebab case: "a\0b"
{"slug": 5}                           | tasks[0].slug: Task 0: slug must be a string, not a number
{"type": "TEST"}                      | tasks[0].type: Task 0: type must be one of SPEC, BUILD, VERIFY
{"delta": null}                       | tasks[0].delta: Task 0: missing required field: delta
{"delta": []}                         | tasks[0].delta: Task 0: delta is empty
{"delta": [], "type": "VERIFY"}       |
{"delta": null, "type": "VERIFY"}     |
{"delta": "a.py"}                     | tasks[0].delta: Task 0: delta must be a list
{"delta": ["ok.py", 3]}               | tasks[0].delta[1]: Task 0: delta must hold strings, not a number
{"delta": ["src/*.py"]}               | tasks[0].delta[0]: Task 0: delta is a glob: "src/*.py"
{"delta": ["**"]}                     | tasks[0].delta[0]: Task 0: delta is a glob: "**"
{"delta": ["a?.py"]}                  | tasks[0].delta[0]: Task 0: delta is a glob: "a?.py"
{"delta": ["src/[ab].py"]}            | tasks[0].delta[0]: Task 0: delta is a glob: "src/[ab].py"
{"delta": ["a.{ts,js}"]}              | tasks[0].delta[0]: Task 0: delta is a glob: "a.{ts,js}"
{"delta": ["app/[slug]/page.tsx", "app/[id].tsx", "app/[...all].ts", "{{name}}/x.py", "./a b.py"]} |
{"delta": ["/etc/passwd"]}            | tasks[0].delta[0]: Task 0: delta is an absolute path: "/etc/passwd"
{"delta": ["~/x"]}                    | tasks[0].delta[0]: Task 0: delta is an absolute path: "~/x"
{"delta": ["C:/x"]}                   | tasks[0].delta[0]: Task 0: delta is an absolute path: "C:/x"
{"delta": ["a/../../b"]}              | tasks[0].delta[0]: Task 0: delta has ".." in a path: "a/../../b"
{"delta": ["a\\b"]}                   | tasks[0].delta[0]: Task 0: delta has a backslash in a path: "a\\b"
{"delta": ["a\u0000b"]}               | tasks[0].delta[0]: Task 0: delta has a control character in a path: "a\0b"
{"delta": ["a\nb"]}                   | tasks[0].delta[0]: Task 0: delta has a control character in a path: "a\nb"
{"delta": ["src/"]}                   | tasks[0].delta[0]: Task 0: delta names a folder: "src/"
{"delta": [" "]}                      | tasks[0].delta[0]: Task 0: delta is an empty path
{"delta": [".git/hooks/post-commit"]} | tasks[0].delta[0]: Task 0: delta names the state of git or ftl: ".git/hooks/post-commit"
{"delta": ["./.ftl/store/x"]}         | tasks[0].delta[0]: Task 0: delta names the state of git or ftl: "./.ftl/store/x"
{"delta": [".ftl/protocols/mine.md"]} |
{"verify": null}                      | tasks[0].verify: Task 0: missing required field: verify
{"verify": "  "}                      | tasks[0].verify: Task 0: verify is empty
{"verify": ["a"]}                     | tasks[0].verify: Task 0: verify must be a string, not a list
{"verify": "a\u0000"}                 | tasks[0].verify: Task 0: verify has a NUL character
{"verify_source": "../x_test.py"}     | tasks[0].verify_source: Task 0: verify_source has ".." in a path: "../x_test.py"
{"budget": 0}                         | tasks[0].budget: Task 0: budget must be a whole number from 1 to 1000
{"budget": "5"}                       | tasks[0].budget: Task 0: budget must be a whole number from 1 to 1000
{"budget": 2.5}                       | tasks[0].budget: Task 0: budget must be a whole number from 1 to 1000
{"budget": 1001}                      | tasks[0].budget: Task 0: budget must be a whole number from 1 to 1000
{"budget": 4.0}                       |
{"depends": "007"}                    | tasks[0].depends: Task 001 depends on unknown task 007
{"depends": ["none", "9"]}            | tasks[0].depends[1]: Task 001 depends on unknown task 9
{"depends": "1"}                      | tasks[0].depends: Cycle detected in task dependencies: 001 → 001
{"depends": {"a": 1}}                 | tasks[0].depends: Task 0: depends must be a seq or a list, not an object
{"depends": [[]]}                     | tasks[0].depends[0]: Task 0: depends must hold seqs, not a list
{"depends": ["none"]}                 |
{"depends": ""}                       |
{"preflight": [1]}                    | tasks[0].preflight[0]: tasks[0].preflight must hold strings, not a number
{"target_lines": {"a.py": "9-3"}}     | tasks[0].target_lines["a.py"]: Task 0: target_lines must be "start-end", counted from 1, start not after end
{"target_lines": {"a.py": "x"}}       | tasks[0].target_lines["a.py"]: Task 0: target_lines must be "start-end", counted from 1, start not after end
{"target_lines": {"a.py": "0-3"}}     | tasks[0].target_lines["a.py"]: Task 0: target_lines must be "start-end", counted from 1, start not after end
{"target_lines": {"/a": "1-3"}}       | tasks[0].target_lines["/a"]: Task 0: target_lines is an absolute path: "/a"
{"target_lines": ["1-3"]}             | tasks[0].target_lines: Task 0: target_lines must be an object, not a list
{"target_lines": {"a.py": "12"}}      |
{"creates": ["../x"]}                 | tasks[0].creates[0]: Task 0: creates has ".." in a path: "../x"
{"worker": "robot"}                   | tasks[0].worker: Task 0: worker must be one of builder, coder
{"slug": "A", "delta": ["*"], "verify": ""} | tasks[0].slug: Task 0: slug must be in kebab case: "A"; tasks[0].delta[0]: Task 0: delta is a glob: "*"; tasks[0].verify: Task 0: verify is empty
"#;

#[test]
fn each_wrong_field_is_told_with_its_path() {
    for line in WRONG.lines().filter(|line| !line.is_empty()) {
        let (change, expected) = line.rsplit_once(" | ").or(line.rsplit_once(" |")).unwrap();
        let mut task =
            Json::parse(r#"{"seq": "001", "slug": "a", "delta": ["a.py"], "verify": "true"}"#).unwrap();
        for (key, value) in Json::parse(change).unwrap().fields() {
            task.put(key, value.clone());
        }
        let plan = Json::object([("objective", Json::from("x")), ("tasks", Json::Array(vec![task]))]);
        let errors = check(&plan, Reading::default()).err();
        let told: Vec<String> = errors.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(told.join("; "), expected.trim(), "{change}");
        assert!(errors.iter().flatten().all(|error| !error.hint.is_empty()), "{change}");
    }
}

#[test]
fn whole_plans_that_are_wrong() {
    let cases = [
        ("[]", "Plan must be an object, not a list"),
        ("{}", "objective: Missing required field: objective|tasks: Missing required field: tasks"),
        (r#"{"objective": "", "tasks": {}}"#, "objective: objective is empty|tasks: tasks must be a list"),
        (
            r#"{"objective": 3, "tasks": []}"#,
            "objective: objective must be a string, not a number|tasks: tasks list is empty",
        ),
        (r#"{"objective": "x", "tasks": [4]}"#, "tasks[0]: Task 0: must be an object, not a number"),
        (
            r#"{"objective": "x", "framework_confidence": 2, "idioms": [], "framework": 1, "campaign": [], "tasks": [
                {"seq": "001", "slug": "a", "delta": ["a"], "verify": "x"}]}"#,
            "campaign: campaign must be a string, not a list|framework: framework must be a string, not a number|framework_confidence: framework_confidence must be a number from 0 to 1, or null|idioms: idioms must be an object, not a list",
        ),
    ];
    for (text, expected) in cases {
        let errors = read(text).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(told.join("|"), expected);
    }
    let not_json = read("{\"objective\": ").unwrap_err().to_string();
    assert!(not_json.starts_with("Plan is not valid JSON at line 1, column 14"), "{not_json}");
}

/// Tasks, each with what it depends on.
type Rows<'a> = &'a [(&'a str, &'a [&'a str])];

/// A plan of such tasks.
fn plan_of(tasks: Rows<'_>) -> String {
    let task = |(seq, depends): &(&str, &[&str])| {
        Json::object([
            ("seq", Json::from(*seq)),
            ("slug", Json::from("a")),
            ("delta", Json::list(["a.py"])),
            ("verify", Json::from("true")),
            ("depends", Json::list(depends.iter().copied())),
        ])
    };
    Json::object([("objective", Json::from("x")), ("tasks", Json::Array(tasks.iter().map(task).collect()))])
        .pretty()
}

#[test]
fn graphs_that_are_wrong() {
    let cases: [(Rows<'_>, &str); 4] = [
        (
            &[("001", &["003"]), ("002", &["1"]), ("003", &["002"])],
            "tasks[0].depends: Cycle detected in task dependencies: 001 → 003 → 002 → 001",
        ),
        (
            &[("001", &[]), ("001", &[]), ("0001", &[]), ("001", &[])],
            "tasks[1].seq: Duplicate task seq: 001|tasks[2].seq: Duplicate task seq: 0001 (the same as 001)|tasks[3].seq: Duplicate task seq: 001",
        ),
        (
            &[("001", &["002", "004"]), ("002", &["005"])],
            "tasks[0].depends[1]: Task 001 depends on unknown task 004|tasks[1].depends[0]: Task 002 depends on unknown task 005",
        ),
        (
            &[("001", &["002", "1"]), ("002", &[])],
            "tasks[0].depends: Cycle detected in task dependencies: 001 → 001",
        ),
    ];
    for (tasks, expected) in cases {
        let told: Vec<String> = read(&plan_of(tasks)).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(told.join("|"), expected);
    }
}

#[test]
fn an_objective_can_come_from_the_campaign() {
    let text = r#"{"tasks": [{"seq": "001", "slug": "a", "delta": ["a"], "verify": "x"}]}"#;
    let how = Reading { objective: Some("known"), ..Reading::default() };
    assert_eq!(read_as(text, how).unwrap().objective, "known");
    assert!(read(text).is_err());
}

#[test]
fn limits_trip() {
    let long = format!("\"{}\"", "x".repeat(MAX_PLAN_BYTES));
    assert!(read(&long).unwrap_err().to_string().contains("the limit is"));
    let many = format!(r#"{{"objective": "x", "tasks": [{}0]}}"#, "0,".repeat(MAX_ERRORS + 4));
    let errors = read(&many).unwrap_err();
    assert_eq!(errors.iter().count(), MAX_ERRORS + 1);
    assert_eq!(errors.iter().last().unwrap().message, "5 more errors are not shown");
    assert!(
        check_slug(&"a".repeat(MAX_SLUG_BYTES)).is_ok()
            && check_slug(&"a".repeat(MAX_SLUG_BYTES + 1)).is_err()
    );
    assert!(check_path(&"a/".repeat(MAX_PATH_BYTES)).is_err() && check_path(&"a".repeat(256)).is_err());
    let command = format!(
        r#"{{"objective": "x", "tasks": [{{"seq": "001", "slug": "a", "delta": ["a"], "verify": "{}"}}]}}"#,
        "x".repeat(MAX_COMMAND_BYTES + 1)
    );
    assert!(read(&command).unwrap_err().to_string().contains("longer than"));
    assert!(read(&"[".repeat(200_000)).unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn a_hundred_thousand_unknown_dependencies_are_counted() {
    let depends: Vec<String> = (0..100_000).map(|at| format!("\"{}\"", 1_000_000 + at)).collect();
    let text = format!(
        r#"{{"objective": "x", "tasks": [{{"seq": "001", "slug": "a", "delta": ["a"], "verify": "x", "depends": [{}]}}]}}"#,
        depends.join(",")
    );
    let began = Instant::now();
    let errors = read(&text).unwrap_err();
    assert_eq!(errors.iter().last().unwrap().message, "99000 more errors are not shown");
    assert_eq!(errors.iter().nth(7).unwrap().path, "tasks[0].depends[7]");
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

/// Ten thousand tasks, each after the one before it.
fn chain(length: usize) -> String {
    let mut text = String::from("{\"objective\": \"long\", \"tasks\": [");
    for at in 1..=length {
        let comma = if at > 1 { "," } else { "" };
        let depends = if at > 1 { format!("\"{:03}\"", at - 1) } else { "\"none\"".to_owned() };
        text.push_str(&format!(
            "{comma}{{\"seq\": \"{at:03}\", \"slug\": \"task-{at}\", \"delta\": [\"src/f{at}.py\"], \"verify\": \"pytest\", \"depends\": {depends}}}"
        ));
    }
    text + "]}"
}

#[test]
fn a_chain_of_ten_thousand_is_fast_forwards_and_backwards() {
    let forwards = chain(10_000);
    let began = Instant::now();
    assert_eq!(read(&forwards).unwrap().tasks.len(), 10_000);
    let took = began.elapsed();
    println!("plan of 10,000 tasks in a chain: {took:?}");
    // The aim is 100 ms of an optimised build on a quiet core; this trips on anything that is not linear.
    assert!(took.as_secs_f64() < 2.0, "{took:?}");

    let mut json = Json::parse(&forwards).unwrap();
    let mut tasks = json.get("tasks").unwrap().items().to_vec();
    tasks.reverse();
    tasks.last_mut().unwrap().put("depends", "10000");
    json.put("tasks", Json::Array(tasks));
    let errors = check(&json, Reading::default()).unwrap_err();
    assert!(errors.to_string().contains("Cycle detected in task dependencies: 10000 → 9999 → "), "{errors}");
}

#[test]
fn mutated_plans_never_panic() {
    let mut dice = Dice(0x5eed);
    let mut read_well = 0;
    for _ in 0..4_000 {
        let mut bytes = GOOD.as_bytes().to_vec();
        for _ in 0..1 + dice.below(4) {
            mutate(&mut bytes, &mut dice);
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(plan) = read(&text) {
            read_well += 1;
            assert!(
                plan.tasks.iter().all(|task| check_slug(&task.slug).is_ok() && check_seq(&task.seq).is_ok())
            );
            assert!(plan.tasks.iter().flat_map(|task| &task.delta).all(|path| check_path(path).is_ok()));
            assert_eq!(read(&plan.to_json().pretty()).unwrap(), plan);
        }
    }
    assert!(read_well > 100, "{read_well}");
}

/// A small generator: the same numbers every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    match dice.below(4) {
        0 => bytes[at] = b"{}[]\",:0a/.*-\\\n\x00\xff"[dice.below(17)],
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, b"{}[]\",:0a/.*-\\"[dice.below(14)]),
        _ => {
            let end = (at + dice.below(20)).min(bytes.len());
            let part = bytes[at..end].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, part);
        }
    }
}

fn campaign(rows: &[(&str, &[&str], &str)]) -> Vec<CampaignTask> {
    let tasks: Vec<(&str, &[&str])> = rows.iter().map(|(seq, depends, _)| (*seq, *depends)).collect();
    let plan = read(&plan_of(&tasks)).unwrap();
    let status = |word: &str| TaskStatus::parse(word.split(' ').next().unwrap()).unwrap();
    let blocked_by = |word: &str| word.split(' ').skip(1).map(str::to_owned).collect();
    plan.tasks
        .into_iter()
        .zip(rows)
        .map(|(task, row)| CampaignTask {
            status: status(row.2),
            blocked_by: blocked_by(row.2),
            ..CampaignTask::pending(task)
        })
        .collect()
}

fn revision(tasks: Rows<'_>) -> CampaignPlan {
    read_as(&plan_of(tasks), Reading { objective: None, is_revision: true, ..Reading::default() }).unwrap()
}

#[test]
fn a_revision_gives_blocked_work_a_new_try() {
    let before = campaign(&[
        ("001", &[], "complete"),
        ("002", &["001"], "blocked"),
        ("003", &["002"], "blocked 002"),
        ("004", &["003"], "blocked 003"),
        ("005", &[], "in_progress"),
        ("006", &[], "pending"),
        ("007", &[], "blocked"),
        ("008", &["007", "002"], "blocked 007 002"),
    ]);
    let revised = revision(&[("0001", &[]), ("002", &["009"]), ("005", &["009"]), ("009", &["001"])]);
    let merged = merge(&before, &revised, "2026-01-02T03:04:05.000006").unwrap();
    let now: Vec<String> = merged
        .tasks
        .iter()
        .map(|task| format!("{} {} {:?}", task.task.seq, task.status, task.blocked_by))
        .collect();
    assert_eq!(
        now,
        [
            "001 complete []",
            "002 pending []",
            "003 pending []",
            "004 pending []",
            "005 in_progress []",
            "006 pending []",
            "007 blocked []",
            "008 blocked [\"007\"]",
            "009 pending []",
        ]
    );
    assert_eq!(merged.changed, ["002", "003", "004", "009"]);
    assert_eq!(merged.unchanged, 5);
    assert_eq!(merged.kept, ["005"]);
    assert_eq!(merged.tasks[1].revised_at.as_deref(), Some("2026-01-02T03:04:05.000006"));
    assert_eq!(merged.tasks[5].revised_at, None);
}

#[test]
fn a_revision_is_taken_whole_or_not_at_all() {
    let before =
        campaign(&[("001", &[], "complete"), ("002", &["001"], "blocked"), ("003", &["002"], "pending")]);
    let cases: [(Rows<'_>, &str); 3] = [
        (&[("002", &["003"])], "tasks[0].depends: Cycle detected in task dependencies: 002 → 003 → 002"),
        (&[("004", &["001"]), ("003", &["009"])], "tasks[1].depends: Task 003 depends on unknown task 009"),
        (&[("004", &["4"])], "tasks[0].depends: Cycle detected in task dependencies: 004 → 004"),
    ];
    for (tasks, expected) in cases {
        let text = plan_of(tasks);
        let how = Reading { objective: None, is_revision: true, ..Reading::default() };
        let errors = read_as(&text, how).and_then(|plan| merge(&before, &plan, "now")).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(told.join("|"), expected);
    }
}

#[test]
fn tasks_of_a_campaign_survive_their_file() {
    let tasks = campaign(&[("001", &[], "blocked"), ("002", &["001"], "blocked 001")]);
    for task in &tasks {
        assert_eq!(&read_task(&task.to_json()).unwrap(), task);
    }
    let start = r#"{"seq": "002", "slug": "a", "type": "BUILD", "depends": ["001"], "status": "blocked", "blocked_by": ["001"], "cascade": true, "#;
    assert!(tasks[1].to_json().line().starts_with(start), "{}", tasks[1].to_json().line());
    let old = Json::parse(
        r#"{"seq": "001", "slug": "x", "type": "SPEC", "depends": "none", "status": "in_progress"}"#,
    );
    let old = read_task(&old.unwrap()).unwrap();
    assert_eq!(
        (old.status, old.task.kind, old.task.depends.len()),
        (TaskStatus::InProgress, TaskType::Spec, 0)
    );
    assert!(read_task(&Json::parse(r#"{"seq": "001", "status": "odd"}"#).unwrap()).is_err());
}
