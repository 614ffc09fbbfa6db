//! How commands end, and what they are given: codes, signals, folder, environment, limits.

use ftl_process::{Cut, How, MARK, ProcessLimits, RunError, Spec};

use crate::support::{Stage, patient};

#[test]
fn every_end_is_told_apart() {
    let stage = Stage::new();
    for (words, how) in [
        (["exit", "0"], How::Exited(0)),
        (["exit", "1"], How::Exited(1)),
        (["exit", "137"], How::Exited(137)),
        (["exit", "255"], How::Exited(255)),
        (["die", "9"], How::Signalled(9)),
        (["die", "6"], How::Signalled(6)),
        (["die", "15"], How::Signalled(15)),
    ] {
        let ended = stage.run(&words, patient());
        assert_eq!((ended.how, ended.cut, ended.swept, ended.left), (how, None, 0, 0), "{words:?}");
        assert_eq!(ended.sentence(), format!("it ended with {how}"));
    }
    // A signal that we ignore ourselves is not ignored by what we start.
    let words = vec!["-c".into(), "kill -PIPE $$; exit 0".into()];
    let ended = stage.run_spec(&Spec { program: "sh".into(), args: words, ..stage.spec(&[]) }).unwrap();
    assert_eq!(ended.how, How::Signalled(13));
}

#[test]
fn what_cannot_be_started_says_why() {
    let stage = Stage::new();
    let spec = stage.spec(&[]);
    let no_program = Spec { program: "/no/such/program".into(), ..spec.clone() };
    let no_folder = Spec { folder: stage.folder.path().join("missing"), ..spec.clone() };
    let text = stage.folder.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let not_executable = Spec { program: text.into(), ..spec.clone() };
    for (spec, what) in
        [(no_program, "/no/such/program"), (no_folder, "is no folder"), (not_executable, "ermission denied")]
    {
        let error = stage.run_spec(&spec).unwrap_err();
        assert!(matches!(error, RunError::CouldNotStart(_)), "{error:?}");
        assert!(error.to_string().contains(what) && error.hint().is_some(), "{error}");
        stage.assert_nothing_left();
    }
    let empty = Spec { program: "".into(), ..spec.clone() };
    let nul = Spec { args: vec!["a\0b".into()], ..spec.clone() };
    let name = Spec { env: vec![("A=B".into(), "x".into())], ..spec.clone() };
    let lock = Spec { lock: "..".into(), ..spec };
    for spec in [empty, nul, name, lock] {
        assert!(matches!(stage.run_spec(&spec), Err(RunError::Bad(_))), "{spec:?}");
    }
}

#[test]
fn a_guard_that_is_no_guard_is_an_error() {
    let stage = Stage::new();
    for program in ["/no/such/guard", "/bin/true"] {
        let guard = ftl_process::Guard::of(program.as_ref());
        let spool = stage.folder.path().join("spool");
        let supervisor = ftl_process::Supervisor::new(guard, &stage.attempts(), &spool).unwrap();
        let error = supervisor.run(&stage.spec(&["exit", "0"]), &stage.cancel, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, RunError::Guard(_) | RunError::NoAnswer), "{error:?}");
        stage.assert_nothing_left();
    }
}

#[test]
fn a_command_gets_its_own_environment_and_nothing_of_ours() {
    let stage = Stage::new();
    let mut spec = stage.spec(&["environment"]);
    spec.env =
        vec![("B".into(), "two words".into()), ("A".into(), "".into()), (MARK.into(), "forged".into())];
    let ended = stage.run_spec(&spec).unwrap();
    assert_eq!(ended.out.text(), format!("A=\nB=two words\n{MARK}={}\n", stage.mark.value()));
}

#[test]
fn a_command_is_found_in_its_own_path_and_starts_in_its_folder() {
    let stage = Stage::new();
    let folder = stage.folder.path().join("a folder");
    std::fs::create_dir(&folder).unwrap();
    let ended = stage.run_spec(&Spec { folder: folder.clone(), ..stage.spec(&["folder"]) }).unwrap();
    assert_eq!(ended.out.text(), format!("{}\n", folder.canonicalize().unwrap().display()));

    let spec = Spec { program: "sh".into(), args: vec!["-c".into(), "exit 7".into()], ..stage.spec(&[]) };
    assert_eq!(stage.run_spec(&spec).unwrap().how, How::Exited(7));
    let nowhere = Spec { env: vec![("PATH".into(), folder.into())], ..spec };
    assert!(matches!(stage.run_spec(&nowhere), Err(RunError::CouldNotStart(_))));
}

#[test]
fn limits_on_resources_are_there_from_the_first_instruction() {
    let stage = Stage::new();
    let limits = ProcessLimits { processes: Some(5000), file_bytes: Some(1_000_000), ..patient() };
    let ended = stage.run(&["limits"], limits);
    assert_eq!(
        ended.out.text(),
        "Core Some(0) Some(0)\nNproc Some(5000) Some(5000)\nFsize Some(1000000) Some(1000000)\n"
    );
    let path = stage.folder.path().join("large");
    let path = path.to_str().unwrap();
    assert_eq!(stage.run(&["write-file", path, "1000000"], limits).how, How::Exited(0));
    let ended = stage.run(&["write-file", path, "1000001"], limits);
    assert_eq!((ended.how, ended.cut), (How::Signalled(25), None), "SIGXFSZ");
    assert_eq!(std::fs::metadata(path).unwrap().len(), 1_000_000);
}

#[test]
fn cancelled_before_it_begins_is_cancelled() {
    let stage = Stage::new();
    stage.cancel.cancel();
    match stage.run_spec(&stage.spec(&["sleep"])) {
        Err(RunError::Cancelled) => {}
        Ok(ended) => assert_eq!(ended.cut, Some(Cut::Cancelled)),
        Err(error) => panic!("{error:?}"),
    }
    stage.assert_nothing_left();
}
