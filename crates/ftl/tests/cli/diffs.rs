//! The work of a run, of a task or of an instance, as a patch.

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::campaigns::{GO, builds, go, repository, task};
use crate::live::Terminal;
use crate::support::{Dir, until};

/// Two tasks that land and one that writes and is not verified.
fn campaign() -> (Dir, String) {
    let tasks = [
        task("001", "first", "a.txt", &[]),
        task("002", "second", "b.txt", &["001"]),
        task("003", "third", "c.txt", &[]),
    ];
    let scenes = [
        builds("001-first", "a.txt", "done", "true"),
        builds("002-second", "b.txt", "done", "true"),
        builds("003-third", "c.txt", "half \\u001b[31m way", "true"),
    ];
    let dir = repository(&tasks, &scenes);
    let run = go(&dir, &[]).code(3).json()["run"].as_str().unwrap().to_owned();
    (dir, run)
}

fn parts(dir: &Dir, id: &str) -> Vec<Json> {
    dir.ftl(&["diff", id, "--json"]).code(0).json()["parts"].as_array().unwrap().clone()
}

#[test]
fn landed_and_kept_work_is_shown_as_a_patch() {
    let (dir, run) = campaign();
    let all = dir.ftl(&["diff", &run]).code(0).out;
    assert_eq!(all, dir.git(&["diff", "--binary", &format!("master..ftl/{run}")]));
    assert!(all.contains("+done") && all.contains("b.txt") && !all.contains("c.txt"), "{all}");
    let second = dir.ftl(&["diff", &format!("{run}/002")]).code(0).out;
    assert!(second.contains("b/b.txt") && !second.contains("a.txt"), "{second}");
    let third = dir.ftl(&["diff", &format!("{run}/003")]).code(0).out;
    assert!(third.contains("+half \u{1b}[31m way"), "a patch is given byte for byte: {third}");
    dir.write("third.patch", &third);
    dir.git(&["apply", "third.patch"]);
    assert_eq!(dir.read("c.txt"), "half \u{1b}[31m way\n");

    let stat = dir.ftl(&["diff", &run, "--stat"]).code(0);
    stat.says(&["landed", "a.txt |    2 +-", "2 files changed, 2 added, 2 removed"]);
    let one = dir.ftl(&["diff", &format!("{run}/003"), "--stat"]).code(0);
    one.says(&["003 third", "not landed, kept", "c.txt", "1 file changed"]);

    let (whole, kept) = (parts(&dir, &run), parts(&dir, &format!("{run}/003")));
    let files = whole[0]["files"].as_array().unwrap().len();
    assert_eq!((whole.len(), &whole[0]["what"], files), (1, &"landed".into(), 2));
    assert_eq!((&kept[0]["what"], &kept[0]["files"][0]["added"]), (&"kept".into(), &1.into()));
    assert!(kept[0]["patch"].as_str().unwrap().contains("c.txt"));
    dir.ftl(&["diff", &format!("{run}/009")]).code(1).says(&["has no task and no instance `009`"]);
}

#[test]
fn nothing_that_the_repository_names_is_started_and_no_file_speaks_to_the_terminal() {
    let (dir, run) = campaign();
    let evil = format!("touch {}", dir.path("started").display());
    for name in ["diff.external", "diff.evil.textconv", "diff.evil.command", "core.pager", "pager.diff"] {
        dir.git(&["config", name, &evil]);
    }
    dir.write(".git/info/attributes", "* diff=evil\n");
    dir.ftl(&["diff", &run]).code(0).says(&["+done"]);
    let (code, drawn) = Terminal::typing(&dir, &["diff", &format!("{run}/003")]).ended();
    assert_eq!(code, 0, "{drawn}");
    assert!(drawn.contains("\u{1b}[") && drawn.contains("half \u{fffd}[31m way"), "{drawn:?}");
    assert!(!dir.path("started").exists());
}

#[test]
fn work_that_has_not_ended_is_shown_as_it_stands() {
    let tasks = [task("001", "slow", "a.txt", &[])];
    let scene = "[[scene]]\nrole = \"builder\"\nform = \"implement\"\n[[scene.step]]\n\
        calls = [{ tool = \"write\", path = \"a.txt\", content = \"half\\n\" }]\n\
        [[scene.step]]\nuntil = \"never\"\nsubmit = { summary = \"written\", utilized = [] }\n";
    let dir = repository(&tasks, &[scene.to_owned()]);
    let driving = dir.start(&GO);
    let mut run = String::new();
    until("it has written", || {
        let runs = dir.ftl(&["status", "--json"]).json();
        run = runs["runs"][0]["run"].as_str().unwrap_or_default().to_owned();
        !run.is_empty() && dir.ftl(&["diff", &run]).out.contains("+half")
    });
    let at_work = parts(&dir, &run);
    assert_eq!((&at_work[0]["what"], &at_work[0]["task"]), (&"at_work".into(), &"001 slow".into()));
    driving.signal(Signal::KILL);
    driving.ended();
    let after = dir.ftl(&["diff", &format!("{run}/001")]).code(0).out;
    assert!(after.contains("-a\n+half"), "{after}");
}

#[test]
fn a_run_that_has_done_nothing_says_so() {
    let dir = Dir::new();
    dir.protocol("alone", "STATE: START\n  RETURN: complete\n");
    let (run, _) = dir.run(&["alone"]);
    let ended = dir.ftl(&["diff", &run]).code(0);
    assert!(ended.out.is_empty() && ended.err.contains("nothing of"), "{ended:#?}");
    assert_eq!(parts(&dir, &run), Vec::<Json>::new());
}
