//! Colours: only where somebody wants them.

use crate::support::{Dir, ended};

const ESCAPE: char = '\u{1b}';

#[test]
fn a_pipe_gets_no_colours() {
    let dir = Dir::new();
    for args in [&["check"][..], &["--help"], &["protocols"], &["schema"], &["check", "nope"], &["nope"]] {
        let ended = dir.ftl(args);
        assert!(!ended.out.contains(ESCAPE) && !ended.err.contains(ESCAPE), "{args:?}");
    }
}

#[test]
fn always_means_always_and_never_means_never() {
    let dir = Dir::new();
    for args in
        [&["--color", "always", "check"][..], &["check", "--color=always"], &["--help", "--color", "always"]]
    {
        assert!(dir.ftl(args).out.contains(ESCAPE), "{args:?}");
    }
    assert!(dir.ftl(&["check", "nope", "--color", "always"]).err.contains(ESCAPE));
    assert!(dir.ftl(&["--color", "always", "nope"]).err.contains(ESCAPE));
    let mut command = dir.command(&["check", "--color", "never"]);
    command.env("CLICOLOR_FORCE", "1");
    assert!(!ended(command).out.contains(ESCAPE));
}

#[test]
fn json_and_drawings_are_never_coloured() {
    let dir = Dir::new();
    for args in [&["check", "--json"][..], &["draw", "coder"], &["protocols", "--json"], &["schema", "sh"]] {
        let ended = dir.ftl(&[args, &["--color", "always"]].concat()).code(0);
        assert!(!ended.out.contains(ESCAPE), "{args:?}");
    }
}

#[test]
fn the_environment_is_honoured() {
    let dir = Dir::new();
    let coloured = |set: &[(&str, &str)]| {
        let mut command = dir.command(&["check"]);
        command.envs(set.iter().copied());
        ended(command).out.contains(ESCAPE)
    };
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!coloured(&[("NO_COLOR", "1")]));
    assert!(!coloured(&[("CLICOLOR", "0")]));
}
