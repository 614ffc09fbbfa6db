//! What is read and written: floods, odd bytes, conversations, inputs that nobody reads.

use std::io::Read as _;

use ftl_process::{Cut, How, ProcessExit, ProcessLimits, Spec, Stdin, Stream};

use crate::support::{PATIENCE, Stage, patient};

const MIB: u64 = 1024 * 1024;

#[test]
fn a_flood_is_counted_to_the_last_byte() {
    let stage = Stage::new();
    let limits = ProcessLimits { keep: 3 * MIB, ..patient() };
    for (words, out, err) in [
        (["flood", "out", "8388608"], 8 * MIB, 0),
        (["flood", "err", "1048576"], 0, MIB),
        (["flood", "both", "8388608"], 8 * MIB, 8 * MIB),
    ] {
        let ended = stage.run(&words, limits);
        assert_eq!((ended.how, ended.cut), (How::Exited(0), None), "{words:?}");
        assert_eq!((ended.out.total, ended.err.total), (out, err), "{words:?}");
        for captured in [&ended.out, &ended.err] {
            assert_eq!(captured.kept_bytes() + captured.dropped(), captured.total, "{words:?}");
            assert_eq!(captured.kept_bytes(), captured.total.min(3 * MIB), "{words:?}");
            assert!(captured.head.len() <= limits.head && captured.tail.len() <= limits.tail, "{words:?}");
            let mut whole = Vec::new();
            captured.whole().unwrap().read_to_end(&mut whole).unwrap();
            assert_eq!(whole.len() as u64, captured.kept_bytes(), "{words:?}");
            assert!(captured.spool_error.is_none());
        }
    }
    let spool = stage.folder.path().join("spool");
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0, "the whole text has no name on disk");
}

#[test]
fn what_is_heard_is_what_was_said() {
    let stage = Stage::new();
    let mut heard = (0, 0);
    let mut hear = |stream, bytes: &[u8]| match stream {
        Stream::Out => heard.0 += bytes.len() as u64,
        Stream::Err => heard.1 += bytes.len() as u64,
    };
    let spec = stage.spec(&["flood", "both", "1000003"]);
    let ended = stage.supervisor.run(&spec, &stage.cancel, &mut hear).unwrap();
    assert_eq!(heard, (1_000_003, 1_000_003));
    assert_eq!((ended.out.total, ended.err.total), heard);
}

#[test]
fn odd_bytes_are_kept_and_shown_as_escapes() {
    let stage = Stage::new();
    let ended = stage.run(&["odd-bytes"], patient());
    assert_eq!(ended.out.head, b"\xff\xfe\0 \x1b[31mred\x1b[0m {\"half\": \r\n\xc3");
    assert_eq!(ended.out.text(), "\\xff\\xfe\\x00 \\x1b[31mred\\x1b[0m {\"half\": \\r\n\\xc3");
}

#[test]
fn an_output_that_a_stranger_holds_open_does_not_delay_the_end() {
    let stage = Stage::new();
    let mut held = None;
    let mut hear = |_, _: &[u8]| {
        let pid = stage.alive()[0];
        held = Some(std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1")).unwrap());
        stage.cancel.cancel_now();
    };
    let spec = stage.spec(&["say-then-sleep", "x"]);
    let began = std::time::Instant::now();
    let ended = stage.supervisor.run(&spec, &stage.cancel, &mut hear).unwrap();
    assert_eq!((ended.how, ended.out.text().as_str()), (How::Signalled(9), "x\n"));
    assert!(began.elapsed() < PATIENCE && held.is_some());
    stage.assert_nothing_left();
}

#[test]
fn an_input_of_any_size_does_not_lock_up_with_the_output() {
    let stage = Stage::new();
    for bytes in [0, 1, 5 * MIB as usize] {
        let stdin = Stdin::Bytes(vec![b'x'; bytes]);
        let ended = stage.run_spec(&Spec { stdin, ..stage.spec(&["count-stdin"]) }).unwrap();
        assert_eq!((ended.how, ended.out.total), (How::Exited(0), bytes as u64));
        assert_eq!(ended.err.text(), format!("{bytes}\n"));
        stage.assert_nothing_left();
    }
}

#[test]
fn an_input_that_nobody_reads_does_not_matter() {
    let stage = Stage::new();
    let stdin = Stdin::Bytes(vec![b'x'; 5 * MIB as usize]);
    for words in [&["exit", "0"][..], &["close-stdin"], &["slow-start", "100"]] {
        let ended = stage.run_spec(&Spec { stdin: stdin.clone(), ..stage.spec(words) }).unwrap();
        assert_eq!((ended.how, ended.cut), (How::Exited(0), None), "{words:?}");
        stage.assert_nothing_left();
    }
}

#[test]
fn reading_for_ever_is_silence() {
    let stage = Stage::new();
    let limits = ProcessLimits { silence: Some(std::time::Duration::from_millis(200)), ..patient() };
    let spec = Spec { stdin: Stdin::Open, limits, ..stage.spec(&["echo"]) };
    let ended = stage.run_spec(&spec).unwrap();
    assert_eq!((ended.how, ended.cut), (How::Signalled(15), Some(Cut::Silence)));
    let ended = stage.run(&["echo"], patient());
    assert_eq!((ended.how, ended.out.total), (How::Exited(0), 0), "no input is an end at once");
}

#[test]
fn a_conversation_goes_to_and_fro() {
    let stage = Stage::new();
    let running = stage.supervisor.start(&Spec { stdin: Stdin::Open, ..stage.spec(&["echo"]) }).unwrap();
    let stdin = running.stdin();
    stdin.write(b"1\n").unwrap();
    let mut turns = 1;
    let mut text = Vec::new();
    let mut hear = |_, bytes: &[u8]| {
        text.extend_from_slice(bytes);
        while turns < 20 && text.iter().filter(|byte| **byte == b'\n').count() >= turns {
            turns += 1;
            stdin.write(format!("{turns}\n").as_bytes()).unwrap();
        }
        if text.ends_with(b"you said 20\n") {
            stdin.close();
        }
    };
    let ended: ProcessExit = running.wait(&stage.cancel, &mut hear).unwrap();
    assert_eq!(ended.how, How::Exited(0));
    assert!(ended.out.text().ends_with("you said 19\nyou said 20\n"), "{}", ended.out.text());
    assert!(stdin.write(b"late").is_err());
    assert!(ended.took < PATIENCE);
}
