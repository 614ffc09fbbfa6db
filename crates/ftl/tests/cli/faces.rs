//! What people see, pinned whole: the board, the report, `status`, `why`, `log` and `next`.

use crate::campaigns::{GO, builds, repository, task};
use crate::lifecycle::phases;
use crate::live::{Terminal, plain};
use crate::runs::ASK;
use crate::support::{CommandOutcome, Dir, masked, snapshot, until};

/// What the name of a run is masked by; it is as long.
const RUN: &str = "RUN_NAME";

/// Pins what a command says, on standard output.
#[track_caller]
fn pinned(dir: &Dir, name: &str, run: &str, args: &[&str], code: i32) {
    let ended = dir.ftl(args).code(code);
    snapshot(&format!("face-{name}"), &hidden(dir, run, &ended.out));
}

/// A text without the name of the run and of the folder, and without what is measured.
fn hidden(dir: &Dir, run: &str, text: &str) -> String {
    let place = dir.path("").display().to_string();
    let names = [(run, RUN), (place.trim_end_matches('/'), "DIR")];
    let hide = |line: &str| without(&without(&without_age(line), "time ", '/'), "process ", ' ');
    masked(text, &names).split('\n').map(hide).collect::<Vec<_>>().join("\n")
}

/// A line in which nothing is older than now; columns stay where they are.
fn without_age(line: &str) -> String {
    let Some((before, after)) = line.split_once(" ago") else { return line.to_owned() };
    let start = before.rfind(' ').map_or(0, |at| at + 1);
    format!("{}{:<width$}{after}", &before[..start], "now", width = before.len() - start + " ago".len())
}

/// A line with dots for what stands behind a word.
fn without(line: &str, word: &str, end: char) -> String {
    let Some((before, rest)) = line.split_once(word) else { return line.to_owned() };
    rest.split_once(end).map_or(line.to_owned(), |(_, after)| format!("{before}{word}...{end}{after}"))
}

fn only(dir: &Dir) -> String {
    let mut run = String::new();
    until("there is a run", || {
        run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap_or_default().to_owned();
        !run.is_empty()
    });
    run
}

/// Three tasks in a line: the first lands, the second waits for `meet` and then does something else than its test
/// wants, the third comes never.
fn line() -> Dir {
    let tasks = [
        task("001", "first-of-all", "a.txt", &[]),
        task("002", "wrong", "b.txt", &["001"]),
        task("003", "never", "c.txt", &["002"]),
    ];
    let waits = "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"002-wrong\"\n[[scene.step]]\n\
        until = \"../../../meet\"\ncalls = [{ tool = \"write\", path = \"b.txt\", content = \"wrong\\n\" }]\n\
        [[scene.step]]\nsubmit = { summary = \"written\", utilized = [] }\n";
    repository(&tasks, &[builds("001-first-of-all", "a.txt", "done", "true"), waits.to_owned()])
}

#[test]
fn a_campaign_is_as_recorded_while_it_works_and_when_it_is_over() {
    let dir = line();
    let driving = dir.start(&[&GO[..], &["--jobs", "1", "--land", "ff"]].concat());
    let run = only(&dir);
    for width in [80, 160] {
        let terminal = Terminal::start(&dir, &["watch", &run], (width, 24));
        let mut picture = String::new();
        until("the board is at rest", || {
            let words = ["✓ 001", "▸", "IMPLEMENT", "1 landed", "1 at work", "waits for 002"];
            picture = terminal.picture().join("\n");
            words.iter().all(|word| picture.contains(word))
        });
        for drawn in picture.lines() {
            assert!(drawn.chars().count() <= usize::from(width), "{width}: {drawn}");
        }
        snapshot(&format!("face-board-{width}"), &format!("{}\n", hidden(&dir, &run, &picture)));
    }
    pinned(&dir, "status-at-work", &run, &["status"], 0);
    pinned(&dir, "why-at-work", &run, &["why", &run], 0);
    dir.write("meet", "");
    let ended = driving.ended();
    snapshot("face-report", &hidden(&dir, &run, &ended.out));
    assert_eq!(ended.code, 3);
    pinned(&dir, "status", &run, &["status"], 0);
    pinned(&dir, "why", &run, &["why", &run], 0);
    pinned(&dir, "why-task", &run, &["why", &format!("{run}/002")], 0);
    pinned(&dir, "log", &run, &["log", &run], 0);
    let (code, text) = Terminal::start(&dir, &["watch", &run], (80, 40)).ended();
    assert_eq!(code, 0);
    let (_, after) = text.rsplit_once("\u{1b}[?1049l").unwrap();
    snapshot("face-report-80", &hidden(&dir, &run, &plain(after)));
}

#[test]
fn a_run_that_asks_is_as_recorded() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=mend it"]);
    for (name, args) in
        [("ask-status", &["status"][..]), ("ask-why", &["why", &run]), ("ask-log", &["log", &run])]
    {
        pinned(&dir, name, &run, args, 0);
    }
    pinned(&dir, "ask-log-all", &run, &["log", &run, "--all"], 0);
}

#[test]
fn next_is_as_recorded_from_new_to_done() {
    let dir = phases::project(&phases::good());
    let id = dir.ftl(&["new", "Add a note", "--json"]).code(0).json()["task"].as_str().unwrap().to_owned();
    let run = only(&dir);
    let mask = |text: &str| masked(text, &[(&run, RUN), (&id, "TASK")]);
    let mut told = String::new();
    for words in [
        &["next"][..],
        &["plan"],
        &["next", "--eval"],
        &["next"],
        &["show"],
        &["next", "--auto"],
        &["next"],
        &["next", "--to", "codegen"],
        &["accept", "--reason", "good"],
        &["next"],
        &["next"],
    ] {
        let CommandOutcome { code, out, err } = dir.ftl(words);
        let command = words.join(" ");
        told.push_str(&format!("$ ftl {command}\n{}{}exit code {code}\n\n", mask(&out), mask(&err)));
    }
    snapshot("face-next", &told);
}
