//! Edges between lessons and the walks over them.

use ftl_memory::maintenance::Keep;
use ftl_memory::relate::{LessonRelation, MAX_HOPS};
use ftl_memory::{Lessons, StoredKind};

use crate::{Memory, now};

/// Failures a to f and patterns p and q.
fn filled() -> Memory {
    let memory = Memory::new();
    let triggers = [
        ("a", "the cache is stale"),
        ("b", "the token has expired"),
        ("c", "a socket stays open"),
        ("d", "two writers collide"),
        ("e", "the page is blank"),
        ("f", "numbers are rounded"),
    ];
    triggers.iter().for_each(|(name, trigger)| memory.failure(name, trigger, 500));
    memory.pattern("p", "warm the cache before the first request", 500);
    memory.pattern("q", "close every socket in one place", 500);
    memory
}

fn rows(lessons: Lessons<'_>, name: &str, hops: usize) -> String {
    let found = lessons.related(StoredKind::Failure, name, hops).unwrap().unwrap();
    let row = |row: &ftl_memory::relate::Relative| {
        format!("{} {} {:.3} {} {}", row.lesson.name(), row.hops, row.weight, row.via, row.from)
    };
    found.iter().map(row).collect::<Vec<_>>().join("; ")
}

#[test]
fn edges_stand_on_both_ends() {
    let memory = filled();
    let lessons = memory.lessons();
    for edge in LessonRelation::ALL {
        assert_eq!(
            lessons.relate(StoredKind::Failure, "a", "b", edge.word()).unwrap().word(),
            "added",
            "{edge:?}"
        );
        assert_eq!(
            lessons.relate(StoredKind::Failure, "a", "b", edge.word()).unwrap().word(),
            "exists",
            "{edge:?}"
        );
        assert_eq!(memory.find(StoredKind::Failure, "a").texts_below("related_typed", edge.word()), ["b"]);
        assert_eq!(memory.find(StoredKind::Failure, "b").texts_below("related_typed", edge.inverse()), ["a"]);
    }
    assert_eq!(memory.find(StoredKind::Failure, "a").texts("related"), ["b"]);
    assert_eq!(memory.find(StoredKind::Failure, "b").texts("related"), ["a"]);
}

#[test]
fn what_cannot_be_related_is_told() {
    let memory = filled();
    let lessons = memory.lessons();
    let table = "
        a x co_occurs   | not_found:x
        x a co_occurs   | not_found:x
        x y co_occurs   | not_found:x,y
        a b friends     | invalid_type:friends
        a b caused_by   | invalid_type:caused_by
        a a causes      | invalid_self:a
    ";
    for line in table.lines().filter(|line| line.contains('|')) {
        let (words, wanted) = line.split_once('|').unwrap();
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(
            lessons.relate(StoredKind::Failure, words[0], words[1], words[2]).unwrap().word(),
            wanted.trim()
        );
    }
    let cross = |failure, pattern, edge| lessons.relate_cross(failure, pattern, edge).unwrap().word();
    assert_eq!(cross("x", "p", "solves"), "not_found:failure:x");
    assert_eq!(cross("a", "x", "solves"), "not_found:pattern:x");
    assert_eq!(cross("x", "y", "solves"), "not_found:failure:x,pattern:y");
    assert_eq!(cross("a", "p", "variant"), "invalid_type:variant");
    assert!(lessons.related(StoredKind::Failure, "x", 2).unwrap().is_none());
    assert!(lessons.solutions("x").unwrap().is_none());
}

#[test]
fn weights_multiply_and_inverses_weigh_the_same() {
    let memory = filled();
    let lessons = memory.lessons();
    for (from, to, edge) in
        [("a", "b", "co_occurs"), ("b", "c", "co_occurs"), ("c", "d", "co_occurs"), ("d", "e", "co_occurs")]
    {
        lessons.relate(StoredKind::Failure, from, to, edge).unwrap();
    }
    assert_eq!(rows(lessons, "a", 1), "b 1 0.800 co_occurs a");
    assert_eq!(rows(lessons, "a", 9), "b 1 0.800 co_occurs a; c 2 0.640 co_occurs b; d 3 0.512 co_occurs c");
    assert_eq!(rows(lessons, "e", 2), "d 1 0.800 co_occurs e; c 2 0.640 co_occurs d");

    let memory = filled();
    let lessons = memory.lessons();
    for (from, to, edge) in
        [("a", "b", "solves"), ("b", "c", "causes"), ("d", "a", "prerequisite"), ("a", "e", "variant")]
    {
        lessons.relate(StoredKind::Failure, from, to, edge).unwrap();
    }
    assert_eq!(
        rows(lessons, "a", 2),
        "b 1 1.500 solves a; c 2 1.500 causes b; d 1 1.000 depends_on a; e 1 0.700 variant a"
    );
    assert_eq!(rows(lessons, "b", 1), "a 1 1.500 solved_by b; c 1 1.000 causes b");
}

#[test]
fn a_walk_names_each_lesson_once_and_never_itself() {
    let memory = filled();
    let lessons = memory.lessons();
    // The way round is heavier than the straight one, and every walk could come back.
    for (from, to, edge) in
        [("a", "c", "variant"), ("a", "b", "solves"), ("b", "c", "solves"), ("c", "a", "solves")]
    {
        lessons.relate(StoredKind::Failure, from, to, edge).unwrap();
    }
    assert_eq!(rows(lessons, "a", MAX_HOPS * 9).matches("a ").count(), 0);
    let found = lessons.related(StoredKind::Failure, "a", 4).unwrap().unwrap();
    let mut names: Vec<&str> = found.iter().map(|row| row.lesson.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "c"]);
    let heaviest = found.iter().find(|row| row.lesson.name() == "c").unwrap();
    assert!(heaviest.weight >= 2.25, "{heaviest:?}");
}

#[test]
fn a_failure_and_a_pattern_are_related_across() {
    let memory = filled();
    let lessons = memory.lessons();
    assert_eq!(lessons.relate_cross("a", "p", "solves").unwrap().word(), "added");
    assert_eq!(lessons.relate_cross("a", "p", "solves").unwrap().word(), "exists");
    assert_eq!(memory.find(StoredKind::Failure, "a").texts_below("cross_relationships", "solves"), ["p"]);
    assert_eq!(memory.find(StoredKind::Pattern, "p").texts_below("cross_relationships", "solved_by"), ["a"]);
    // What the observer's brief asks for with the plain command is routed, whatever the kind says.
    for (kind, from, to) in
        [(StoredKind::Failure, "c", "q"), (StoredKind::Pattern, "e", "q"), (StoredKind::Pattern, "q", "d")]
    {
        assert_eq!(lessons.relate(kind, from, to, "co_occurs").unwrap().word(), "added", "{from} {to}");
    }
    assert_eq!(lessons.relate(StoredKind::Failure, "c", "q", "co_occurs").unwrap().word(), "exists");
    assert_eq!(lessons.relate(StoredKind::Failure, "f", "q", "causes").unwrap().word(), "added");
    let solutions = |name: &str| -> Vec<String> {
        let found = lessons.solutions(name).unwrap().unwrap();
        found.iter().map(|lesson| lesson.name().to_owned()).collect()
    };
    assert_eq!(
        (solutions("a"), solutions("c"), solutions("d")),
        (vec!["p".into()], vec!["q".into()], vec!["q".into()])
    );
    assert_eq!((solutions("b"), solutions("f")), (vec![], vec![]));
    assert!(memory.find(StoredKind::Failure, "c").texts("related").is_empty());
}

#[test]
fn pruning_leaves_no_name_behind() {
    let memory = filled();
    let lessons = memory.lessons();
    memory.pattern("worthless", "a pattern that saved nothing at all", 0);
    memory.failure("cheap", "a failure that cost nothing to speak of", 0);
    lessons.relate(StoredKind::Failure, "a", "cheap", "causes").unwrap();
    lessons.relate(StoredKind::Failure, "a", "b", "co_occurs").unwrap();
    lessons.relate_cross("a", "worthless", "solves").unwrap();
    lessons.relate_cross("a", "p", "solves").unwrap();
    lessons.relate_cross("cheap", "p", "solves").unwrap();
    let counts = lessons.prune(&Keep::default(), &now()).unwrap();
    assert_eq!((counts.pruned_failures, counts.pruned_patterns), (1, 1));
    assert_eq!((counts.remaining_failures, counts.remaining_patterns), (6, 2));
    let all = lessons.export(true).unwrap().to_string();
    assert!(!all.contains("cheap") && !all.contains("worthless"), "{all}");
    assert_eq!(memory.find(StoredKind::Failure, "a").texts("related"), ["b"]);
    assert_eq!(lessons.solutions("a").unwrap().unwrap().len(), 1);
    assert!(memory.names("a failure that cost nothing to speak of").is_empty());
}
