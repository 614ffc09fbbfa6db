//! What is given back for a question, an objective and an error.

use ftl_core::json::Json;
use ftl_memory::error_match::By;
use ftl_memory::recall::ContextRequest;
use ftl_memory::{Now, StoredKind};
use proptest::prelude::{ProptestConfig, any, proptest};

use crate::{Memory, now};

fn filled() -> Memory {
    let memory = Memory::new();
    memory.failure(
        "redis",
        "Error: connect ECONNREFUSED 127.0.0.1:6379 while the worker drains the queue of mails",
        800,
    );
    memory.failure(
        "cycle",
        "ImportError: cannot import name Session (most likely due to a circular import)",
        900,
    );
    memory.failure("moved", "error[E0382]: use of moved value: config", 300);
    memory.failure("font", "invoice pdf uses the wrong font for currency symbols", 5000);
    memory.pattern("pool", "reuse one connection pool in all workers", 700);
    memory.pattern("snapshot", "compare rendered pages with snapshots", 400);
    memory
}

#[test]
fn exact_words_and_paraphrases_both_hit() {
    let memory = filled();
    let table = "
        ECONNREFUSED                                  | redis
        econnrefused                                  | redis
        E0382                                         | moved
        module import cycle breaks at load time       | cycle
        circular imports                              | cycle
        currency                                      | font
        snapshot                                      | snapshot
        6379                                          | redis
    ";
    for line in table.lines().filter(|line| line.contains('|')) {
        let (topic, wanted) = line.split_once('|').unwrap();
        assert_eq!(
            memory.names(topic.trim()).first().map(String::as_str),
            Some(wanted.trim()),
            "{}",
            topic.trim()
        );
    }
    for nothing in ["", "   ", "zebra giraffe", "\"*^:NEAR("] {
        assert_eq!(memory.names(nothing), Vec::<String>::new(), "{nothing}");
    }
}

#[test]
fn rows_have_type_and_score_first_and_a_limit() {
    let memory = filled();
    let rows = memory.lessons().query("ECONNREFUSED", 50, &now()).unwrap();
    let json = rows[0].to_json();
    let keys: Vec<&str> = json.as_object().unwrap().iter().map(|(key, _)| key.as_str()).take(4).collect();
    assert_eq!(keys, ["type", "score", "name", "trigger"]);
    assert_eq!(json.as_object().unwrap().get("type").unwrap().as_str(), Some("failure"));
    for at in 0..30 {
        memory.failure(&format!("n{at}"), &format!("timeout while calling service{at}"), 500);
    }
    assert_eq!(memory.lessons().query("timeout while calling", 7, &now()).unwrap().len(), 7);
    assert_eq!(memory.lessons().query("timeout while calling", 0, &now()).unwrap().len(), 0);
}

#[test]
fn feedback_and_age_change_the_order_but_not_the_score() {
    let memory = Memory::new();
    let lesson = |name: &str, more: &str, date: &str| {
        let json = format!(
            r#"{{"name":"{name}","trigger":"build fails on the {more} runner","cost":500,"created_at":"{date}"}}"#
        );
        memory.learn(StoredKind::Failure, &json);
    };
    lesson("a", "linux", "2026-03-01T00:00:00");
    lesson("b", "macos", "2026-03-01T00:00:00");
    assert_eq!(memory.names("build fails on the runner")[0], "a");
    let score = |name: &str| {
        let rows = memory.lessons().query("build fails on the runner", 9, &now()).unwrap();
        rows.iter().find(|row| row.lesson.name() == name).map(|row| row.relevance)
    };
    let before = score("a");
    (0..3).for_each(|_| assert!(memory.lessons().feedback(None, "a", false).unwrap()));
    (0..3).for_each(|_| assert!(memory.lessons().feedback(Some(StoredKind::Failure), "b", true).unwrap()));
    assert_eq!(memory.names("build fails on the runner")[0], "b");
    assert_eq!(score("a"), before);
    lesson("old", "windows", "2024-01-01T00:00:00");
    assert_eq!(memory.names("build fails on the windows runner").len(), 3);
    lesson("new", "solaris", "2026-02-28T00:00:00");
    let names = memory.names("build fails on the runner");
    let place = |name: &str| names.iter().position(|found| found == name).unwrap();
    assert!(place("new") < place("old"), "{names:?}");
}

#[test]
fn context_without_an_objective_gives_the_dearest() {
    let memory = filled();
    let given = memory
        .lessons()
        .context(&ContextRequest { max_failures: 2, ..ContextRequest::default() }, &now())
        .unwrap();
    let names: Vec<&str> = given.entries().map(|entry| entry.lesson.name()).collect();
    assert_eq!(names, ["font", "cycle", "pool", "snapshot"]);
    let all = memory
        .lessons()
        .context(&ContextRequest { all: true, max_failures: 0, ..ContextRequest::default() }, &now())
        .unwrap();
    assert_eq!((all.failures.len(), all.patterns.len()), (4, 2));
    let only = memory
        .lessons()
        .context(&ContextRequest { kind: Some(StoredKind::Pattern), ..ContextRequest::default() }, &now())
        .unwrap();
    assert_eq!((only.failures.len(), only.patterns.len()), (0, 2));
}

#[test]
fn context_says_relevance_score_and_tier() {
    let memory = filled();
    let objective = Some("the worker gets ECONNREFUSED from redis".to_owned());
    let asked = ContextRequest { objective, ..ContextRequest::default() };
    let given = memory.lessons().context(&asked, &now()).unwrap();
    let first = &given.failures[0];
    assert_eq!(first.lesson.name(), "redis");
    let json = given.to_json(true);
    let shown =
        json.as_object().unwrap().get("failures").unwrap().as_array().unwrap()[0].as_object().unwrap();
    let number = |key: &str| shown.get(key).and_then(Json::as_f64).unwrap();
    let exact = first.relevance.unwrap() * (800.0_f64 + 1.0).log2();
    assert!((number("_score") - exact).abs() < 0.001 && number("_relevance") >= 0.25);
    assert!(
        ["critical", "productive", "exploration"].contains(&shown.get("_tier").unwrap().as_str().unwrap())
    );
    assert!(!given.to_json(false).to_string().contains("_tier"));
}

#[test]
fn context_falls_back_to_one_but_never_injects_the_archive() {
    let memory = filled();
    let asked = ContextRequest { objective: Some("zebra giraffe".to_owned()), ..ContextRequest::default() };
    let given = memory.lessons().context(&asked, &now()).unwrap();
    let names: Vec<&str> = given.entries().map(|entry| entry.lesson.name()).collect();
    assert_eq!(names, ["font", "pool"]);
    assert!(given.failures[0].relevance.is_some_and(|relevance| relevance < 0.25));
    let injected = memory.lessons().context(&ContextRequest { inject: true, ..asked }, &now()).unwrap();
    assert_eq!(injected.entries().count(), 0);
}

#[test]
fn context_by_tags_keeps_what_shares_one() {
    let memory = filled();
    let tagged = |name: &str, trigger: &str, tags: &str| {
        memory.learn(
            StoredKind::Failure,
            &format!(r#"{{"name":"{name}","trigger":"{trigger}","cost":500,"tags":[{tags}]}}"#),
        );
    };
    tagged("t1", "route returns nothing", r#""fast-api","web""#);
    tagged("t2", "route returns the wrong page", r#""flask""#);
    tagged("t3", "the words fast and api in a fix", r#""other""#);
    let names = |objective: Option<&str>, tags: &[&str]| -> Vec<String> {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let asked =
            ContextRequest { objective: objective.map(str::to_owned), tags, ..ContextRequest::default() };
        let given = memory.lessons().context(&asked, &now()).unwrap();
        given.entries().map(|entry| entry.lesson.name().to_owned()).collect()
    };
    assert_eq!(names(None, &["Fast-API"]), ["t1"]);
    assert_eq!(names(Some("a route returns nothing"), &["fast-api"]), ["t1"]);
    assert_eq!(names(Some("a route returns nothing"), &["fast-api", "flask"]), ["t1", "t2"]);
    assert_eq!(names(Some("a route returns nothing"), &["unknown"]), Vec::<String>::new());
    tagged("t4", "signs only as a tag", "\"#!\"");
    assert_eq!(names(None, &["#!"]), ["t4"]);
    assert_eq!(names(Some("signs as a tag"), &["#!", "flask"]), ["t4"]);
}

#[test]
fn giving_out_is_counted_and_shows_the_old_count() {
    let memory = filled();
    let asked = ContextRequest {
        objective: Some("ECONNREFUSED".to_owned()),
        kind: Some(StoredKind::Failure),
        ..ContextRequest::default()
    };
    let given = memory.lessons().context(&asked, &now()).unwrap();
    memory.lessons().accessed(&given, &now()).unwrap();
    assert_eq!(given.failures[0].lesson.count("access_count"), 0);
    let lesson = memory.find(StoredKind::Failure, "redis");
    assert_eq!(lesson.count("access_count"), 1);
    assert_eq!(lesson.body().get("last_accessed").unwrap().as_str(), Some(now().local.as_str()));
    assert_eq!(memory.find(StoredKind::Failure, "font").count("access_count"), 0);
}

#[test]
fn a_hit_brings_its_relatives_within_the_limit() {
    let memory = filled();
    assert_eq!(
        memory.lessons().relate(StoredKind::Failure, "redis", "font", "causes").unwrap().word(),
        "added"
    );
    let asked = ContextRequest {
        objective: Some("ECONNREFUSED".to_owned()),
        kind: Some(StoredKind::Failure),
        expand: true,
        ..ContextRequest::default()
    };
    let given = memory.lessons().context(&asked, &now()).unwrap();
    let json = given.to_json(false).to_string();
    assert!(json.contains(r#""_expanded":true,"_expanded_from":"redis""#), "{json}");
    let less = memory.lessons().context(&ContextRequest { max_failures: 1, ..asked }, &now()).unwrap();
    assert_eq!(less.failures.len(), 1);
}

#[test]
fn errors_find_lessons_by_text_then_expression_then_meaning() {
    let memory = filled();
    let with = |name: &str, trigger: &str, regex: &str| {
        let json =
            format!(r#"{{"name":"{name}","trigger":"{trigger}","match":"{regex}","fix":"f","cost":500}}"#);
        memory.learn(StoredKind::Failure, &json);
    };
    with("port", "server did not start", r"bind failed on port \\d+");
    with("digits", "a strange code", r"^Z\\d{3}$");
    with("broken", "an unusable expression", "(unclosed");
    let found = |error: &str| {
        let answers = memory.lessons().for_error(error, 9, &now()).unwrap();
        answers.first().map(|answer| (answer.lesson.name().to_owned(), answer.by))
    };
    let wanted = |name: &str, by: By| Some((name.to_owned(), by));
    assert_eq!(
        found("x\nE: ImportError: cannot import name Session (most likely due to a circular import)\ny"),
        wanted("cycle", By::Text)
    );
    assert_eq!(found("fatal: bind failed on port 8080"), wanted("port", By::Expression));
    assert_eq!(found("Z123"), wanted("digits", By::Expression));
    assert_eq!(
        found("ImportError: cannot import name Shop from shop (a circular import)"),
        wanted("cycle", By::Meaning)
    );
    // What merely means something near is no answer to an error.
    assert_eq!(found("modules import each other in a circle"), None);
    assert_eq!(found("zebra giraffe"), None);
    assert_eq!(found(""), None);
}

#[test]
fn a_common_word_does_not_hide_a_rare_one() {
    let memory = Memory::new();
    for at in 0..2_000 {
        let json = format!(
            r#"{{"name":"n{at}","trigger":"worker stopped in shard{at} of region{}","cost":500}}"#,
            at % 7
        );
        memory.learn(StoredKind::Failure, &json);
    }
    assert_eq!(memory.names("worker stopped in shard1234")[0], "n1234");
    // Words that stand in every lesson still find lessons, alone and together.
    assert_eq!(memory.names("stopped").len(), 50);
    assert_eq!(memory.names("worker stopped region").len(), 50);
}

#[test]
fn dates_of_every_sort_are_lived_with() {
    let memory = Memory::new();
    for (at, date) in ["2026-02-01T00:00:00+02:00", "not a date", "", "2026-02-01", "9999-12-31T23:59:59Z"]
        .iter()
        .enumerate()
    {
        let json = format!(
            r#"{{"name":"d{at}","trigger":"dated trouble number{at}","cost":500,"created_at":"{date}"}}"#
        );
        memory.learn(StoredKind::Failure, &json);
    }
    assert_eq!(memory.names("dated trouble").len(), 5);
    let odd = Now { local: "garbage".to_owned(), ms: -5 };
    memory.lessons().stats(&odd).unwrap();
    memory.lessons().query("dated trouble", 5, &odd).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_question_breaks_the_search(topic in any::<String>()) {
        let memory = filled();
        let rows = memory.lessons().query(&topic, 50, &now()).unwrap();
        assert!(rows.iter().all(|row| row.relevance > 0.3 && row.relevance <= 1.0));
        memory.lessons().for_error(&topic, 5, &now()).unwrap();
    }

    #[test]
    fn whatever_is_learned_is_found_by_its_own_trigger(word in "[a-z]{4,12}", code in "[A-Z]{3,9}[0-9]{2,4}") {
        let memory = filled();
        let trigger = format!("{word} happened with {code}");
        let json = format!(r#"{{"name":"mine","trigger":"{trigger}","cost":500}}"#);
        memory.learn(StoredKind::Failure, &json);
        assert_eq!(memory.names(&trigger)[0], "mine");
        assert_eq!(memory.names(&code)[0], "mine");
    }
}
