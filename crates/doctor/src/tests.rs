//! What the faces cannot bring about: a disk that is nearly full, names that lead elsewhere.

use super::*;

#[test]
fn little_room_is_something_to_look_at() {
    for (free, level) in
        [(MIN_FREE_BYTES, None), (MIN_FREE_BYTES - 1, Some(Level::Look)), (0, Some(Level::Look))]
    {
        let mut found = DoctorReport::default();
        room(free, &mut found);
        assert_eq!(found.all().first().map(|finding| finding.level), level, "{free}");
        assert!(found.is_sound());
    }
}

#[test]
fn an_area_is_fine_only_if_nothing_else_was_said_of_it() {
    let mut found = DoctorReport::default();
    found.broken(Area::Store, "torn", "keep a copy");
    found.otherwise_fine(Area::Store, "sound");
    found.otherwise_fine(Area::Chains, "whole");
    let levels: Vec<Level> = found.all().iter().map(|finding| finding.level).collect();
    assert_eq!((levels, found.is_sound()), (vec![Level::Broken, Level::Fine], false));
}

#[test]
fn nothing_is_made_where_there_is_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for deep in [false, true] {
        let place = StateFolder::at(folder.path());
        let found = examine(&Examination { place, settings: Vec::new(), library: None, deep });
        assert!(found.all().iter().all(|finding| finding.level == Level::Fine), "{found:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
