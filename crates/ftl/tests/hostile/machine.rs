//! Trouble of the machine is no verdict (finding 8): a failing or full disk, no descriptors, no inodes, a damaged
//! repository hold the step with what to do; nothing is learned, and nobody is paid twice once it is mended.

use std::fs;
use std::process::Command;

use ftl_needs::needs;
use ftl_testkit::faults::{Call, Fault, Faults, InjectedFault, counted};
use serde_json::{Value as Json, json};

use crate::support::{CommandOutcome, Dir, ended};
use crate::tally::{Tally, tries};

/// How the program of [`stage`] speaks.
pub(crate) const ADAPTER: &str = r#"
name = "plain"
about = "a program of a test"
program = "plain"
version = ["--version"]
protocol = "lines"
[enforces]
calls = "after"
tokens = true
[start]
prompt = "input"
[[event]]
when = { kind = "call" }
call = { id = "id", tool = "tool", args = "args" }
[[event]]
when = { kind = "cost" }
usage = { tokens = ["in", "out"], request = true }
[[event]]
when = { kind = "over" }
end = { answer = "answer", good = { fine = true }, why = ["why"] }
[tools.map]
write = { as = "write", path = "path" }
"#;

/// Plans, then does the one thing that its task asks for; each start is a line in `starts`. What a test wants to happen
/// at the end of the work is in `hook`.
const PROGRAM: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 1; exit 0; }
words=$(cat)
root=$(dirname "$0")
echo '{"kind":"cost","in":5,"out":5}'
case "$words" in
*utilized*)
  case "$PWD" in *) ;; esac
  file=greet.txt
  case "$words" in *part.txt*) file=part.txt ;; esac
  echo "implement $file" >> "$root/starts"
  echo "good day" > $file
  [ -e "$root/hook" ] && . "$root/hook" >/dev/null 2>&1
  echo '{"kind":"over","fine":true,"answer":{"summary":"written","utilized":[]}}' ;;
*)
  echo plan >> "$root/starts"
  echo '{"kind":"over","fine":true,"answer":{"approach":"write it"}}' ;;
esac
"#;

/// Binds a program to roles.
pub(crate) fn bind(dir: &Dir, program: &str, roles: &[&str]) {
    use std::os::unix::fs::PermissionsExt as _;
    dir.write("plain.toml", ADAPTER).write("play.sh", program);
    fs::set_permissions(dir.path("play.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let bound: String = roles.iter().map(|role| format!("{role} = \"plain\"\n")).collect();
    let program = dir.path("play.sh");
    dir.write(
        "ftl.toml",
        format!(
            "[agents.plain]\nkind = \"cli\"\nadapter = \"plain.toml\"\nprogram = \"{}\"\nhome = \"own\"\n\
             accept = [\"calls\", \"paths\"]\n[roles]\n{bound}",
            program.display()
        ),
    );
}

fn task(seq: &str, slug: &str, file: &str) -> Json {
    task_with(seq, slug, (file, &format!("grep -q good {file}")))
}

fn task_with(seq: &str, slug: &str, (file, verify): (&str, &str)) -> Json {
    json!({ "seq": seq, "slug": slug, "delta": [file], "verify": verify, "budget": 6, "depends": "none" })
}

/// A repository with a program for an agent.
fn repository(program: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("greet.txt", "hello\n").write("part.txt", "hello\n");
    dir.write(
        ".gitignore",
        "*.toml\n*.json\nplay.sh\nstarts\nhook\naway*\nsettings/\nwords*\n.out*\n.err*\n",
    );
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    bind(&dir, program, &["builder"]);
    dir
}

/// A repository with one brief that an agent of ours builds.
pub(crate) fn stage(program: &str) -> Dir {
    stage_with(program, "grep -q good greet.txt")
}

/// The same with another command that verifies; `@root@` in it is the repository, which its checkout lies outside of.
fn stage_with(program: &str, verify: &str) -> Dir {
    let dir = repository(program);
    let verify = verify.replace("@root@", dir.path("").to_str().unwrap());
    let task = task_with("001", "greet", ("greet.txt", &verify));
    let plan = json!({ "objective": "greet", "tasks": [task] });
    dir.write("plan.json", plan.to_string());
    dir.ftl(&["campaign", "create", "greet"]).code(0);
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    dir
}

/// The words that build the brief of [`stage`].
pub(crate) const BUILD: [&str; 5] =
    ["run", "builder", "workspace=.ftl/workspace/001_greet_active.xml", "mode=full", "budget=6"];

/// The only run.
pub(crate) fn only(dir: &Dir) -> String {
    let runs = dir.ftl(&["status", "--all", "--json"]).code(0).json();
    runs["runs"][0]["run"].as_str().unwrap_or_else(|| panic!("{runs:#}")).to_owned()
}

/// How often an agent was started for something.
pub(crate) fn starts(dir: &Dir, what: &str) -> usize {
    let all = fs::read_to_string(dir.path("starts")).unwrap_or_default();
    all.lines().filter(|line| line.starts_with(what)).count()
}

/// What is wrong with how a command under trouble ended: it is held with what to do, or the trouble was not met.
fn not_held(dir: &Dir, ended: &CommandOutcome) -> Option<String> {
    if ended.code == 0 {
        return None;
    }
    let standing = dir.status(&only(dir))["standing"].as_str().unwrap_or_default().to_owned();
    let lessons = dir.count("SELECT count(*) FROM lesson");
    let told = ended.out.contains("ftl resume") || ended.err.contains("ftl resume");
    let good = (ended.code, standing.as_str(), lessons, told) == (3, "held", 0, true);
    (!good).then(|| format!("{standing}, {lessons} lessons: {ended:#?}"))
}

/// What is wrong once the trouble is gone: it goes on to its end, and nobody was paid twice.
fn not_mended(dir: &Dir) -> Option<String> {
    let run = only(dir);
    let ended = dir.ftl(&["resume", &run]);
    let (plans, works) = (starts(dir, "plan"), starts(dir, "implement"));
    let lessons = dir.count("SELECT count(*) FROM lesson");
    let whole = dir.ftl(&["audit", "verify", &run]).code;
    let good = (ended.code, plans, works, lessons, whole) == (0, 1, 1, 0, 0);
    (!good).then(|| format!("{plans} plans, {works} works, {lessons} lessons, {whole}: {ended:#?}"))
}

/// One command under trouble that goes away by itself with the command.
fn under(dir: &Dir, command: Command) -> Option<String> {
    let ended = ended(command);
    not_held(dir, &ended).or_else(|| not_mended(dir))
}

#[test]
fn a_repository_that_is_damaged_in_the_middle_holds_and_goes_on_when_it_is_mended() {
    let object = |named: &str| {
        format!(
            "o=$(git -C $root rev-parse {named}); d=$(echo $o | cut -c1-2); f=$d/$(echo $o | cut -c3-)\n\
             echo .git/objects/$f > $root/away-name; cp $root/.git/objects/$f $root/away\n\
             chmod u+w $root/.git/objects/$f\n"
        )
    };
    let back = "f=$(cat away-name); rm -f $f; cp away $f";
    let cases = [
        ("mv $root/.ftl/store/git $root/away".to_owned(), "rm -rf .ftl/store/git; mv away .ftl/store/git"),
        // Nobody has a copy of it: git's own refs and worktrees say all that is needed.
        ("rm -rf $root/.ftl/store/git".to_owned(), "true"),
        ("mv $root/.git $root/away".to_owned(), "mv away .git"),
        (format!("{}rm -f $root/.git/objects/$f", object("HEAD^{tree}")), back),
        (format!("{}: > $root/.git/objects/$f", object("HEAD:greet.txt")), back),
    ];
    let mut tally = Tally::of("P3 a damaged repository holds the step");
    for (damage, mend) in &cases {
        let dir = stage(PROGRAM);
        dir.write("hook", damage);
        let ended = dir.ftl(&BUILD);
        let held = not_held(&dir, &ended).or_else(|| (ended.code == 0).then(|| "not noticed".to_owned()));
        // What was damaged is not damaged again when the work goes on.
        dir.write("hook", "");
        let mended = Command::new("sh").args(["-euc", mend]).current_dir(dir.path("")).status().unwrap();
        assert!(mended.success(), "{damage}");
        tally.count(held.or_else(|| not_mended(&dir)).map(|why| format!("{damage}: {why}")));
    }
    tally.close();
}

/// What is wrong with the branch of the only run: the work is on it.
fn not_landed(dir: &Dir) -> Option<String> {
    let landed = dir.git(&["show", &format!("refs/ftl/runs/{}:greet.txt", only(dir))]);
    (landed.trim() != "good day").then(|| format!("the branch has {landed:?}"))
}

#[test]
fn work_that_is_in_a_worktree_lands_although_our_folder_beside_it_is_deleted() {
    let mut tally =
        Tally::of("P3 .ftl/store/git, or our objects in it, deleted in the middle: the work lands");
    let once = |what: &str| format!("[ -e $root/away ] || {{ : > $root/away; {what}; }}");
    let parts =
        ["git", "git", "git/index", "git/chamber", "git/chamber/objects", "git/worktrees", "git/runs"];
    for (number, gone) in parts.into_iter().enumerate() {
        // While the agent writes, and when its work has been read and is being verified.
        let by_agent = once(&format!("rm -rf $root/.ftl/store/{gone}"));
        let by_verify = format!(
            "root=@root@; {}; grep -q good greet.txt",
            once(&format!("rm -rf $root/.ftl/store/{gone}"))
        );
        let moments = [(by_agent.as_str(), "grep -q good greet.txt"), ("", by_verify.as_str())];
        for (hook, verify) in moments.into_iter().cycle().skip(number % 2).take(tries(1).min(2)) {
            let dir = stage_with(PROGRAM, verify);
            dir.write("hook", hook);
            let ended = dir.ftl(&BUILD);
            let held = not_held(&dir, &ended);
            let mended = || if ended.code == 0 { None } else { not_mended(&dir) };
            let harm = held.or_else(mended).or_else(|| not_landed(&dir));
            let harm =
                harm.or_else(|| (!dir.path("away").exists()).then(|| "nothing was deleted".to_owned()));
            tally.count(harm.map(|why| format!("{gone}, hook {hook:?}: {why}")));
        }
    }
    tally.close();
}

/// Nobody can tell whether the kernel ended it for want of memory or somebody else did: no verdict about the work.
#[test]
fn a_verify_that_is_killed_holds_the_step() {
    let mut tally = Tally::of("P13 a verify that is killed holds the step");
    for _ in 0..tries(1) {
        let dir = repository(PROGRAM);
        let verify = "test -e mended || kill -9 $$; grep -q good greet.txt";
        let verify = verify.replace("mended", &dir.path("away-mended").display().to_string());
        let task = json!({ "seq": "001", "slug": "greet", "delta": ["greet.txt"], "verify": verify, "budget": 6,
            "depends": "none" });
        dir.write("plan.json", json!({ "objective": "greet", "tasks": [task] }).to_string());
        dir.ftl(&["campaign", "create", "greet"]).code(0);
        dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
        let ended = dir.ftl(&BUILD);
        let held = not_held(&dir, &ended).or_else(|| (ended.code == 0).then(|| "not noticed".to_owned()));
        dir.write("away-mended", "");
        tally.count(held.or_else(|| not_mended(&dir)));
    }
    tally.close();
}

#[test]
fn no_descriptors_hold_the_step() {
    let mut tally = Tally::of("P13 no descriptors hold the step");
    let mut held = 0;
    for at in 0..tries(3) {
        // Fewer than sixteen are too few to open the store at all.
        let most = 24 + 4 * (at % 3);
        let dir = stage(PROGRAM);
        let script = format!("ulimit -n {most}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_ftl")]).args(BUILD);
        let wanted = dir.command(&[]);
        command
            .current_dir(dir.path(""))
            .envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = ended(command);
        held += usize::from(ended.code == 3);
        if ended.code == 1 {
            // The store itself could not be opened or written: that has its own words, and nothing was decided.
            tally.count((!ended.err.contains("hint:")).then(|| format!("{most}: {ended:#?}")));
            continue;
        }
        tally.count(not_held(&dir, &ended).or_else(|| not_mended(&dir)).map(|why| format!("{most}: {why}")));
    }
    assert!(held > 0, "no limit was low enough to be met by the work");
    tally.close();
}

#[test]
fn a_disk_that_fails_under_git_holds_the_step() {
    let count = |faults: &Faults| {
        let dir = stage(PROGRAM);
        let file = dir.path("away-count");
        let mut command = dir.command(&BUILD);
        faults.clone().counting(&file).on(&mut command).unwrap();
        ended(command).code(0);
        counted(&file).unwrap()
    };
    let syncs = Faults::of("/.git").only(&[Call::Sync]);
    let room = Faults::of("store/git").only(&Call::NEED_ROOM);
    let kinds = [
        (&syncs, Fault::FromNowOn(InjectedFault::Io)),
        (&syncs, Fault::Once(InjectedFault::Io)),
        (&room, Fault::FromNowOn(InjectedFault::Full)),
        (&room, Fault::Once(InjectedFault::Io)),
        (&room, Fault::FromNowOn(InjectedFault::ReadOnly)),
    ];
    let mut tally = Tally::of("P13 a failing disk under git holds the step");
    let counts = [count(&syncs), count(&room)];
    assert!(counts.iter().all(|calls| *calls > 0), "{counts:?}");
    for (faults, fault) in kinds {
        let calls = counts[usize::from(std::ptr::eq(faults, &room))];
        for at in 0..tries(1) as u64 {
            let number = 1 + (at * 7919 + calls / 2) % calls;
            let dir = stage(PROGRAM);
            let mut command = dir.command(&BUILD);
            faults.clone().at(number, fault).on(&mut command).unwrap();
            let why = under(&dir, command);
            tally.count(why.map(|why| format!("{fault:?} at {number} of {calls}: {why}")));
        }
    }
    tally.close();
}

/// A shell in namespaces of its own, in which anything may be mounted.
fn in_namespace(dir: &Dir, script: &str) -> CommandOutcome {
    let wanted = dir.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-euc", script, "sh", env!("CARGO_BIN_EXE_ftl")]);
    command
        .current_dir(dir.path(""))
        .envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ended(command)
}

#[needs(mounts)]
#[test]
fn no_inodes_hold_the_step() {
    let mut tally = Tally::of("P13 no inodes hold the step");
    for _ in 0..tries(1) {
        let dir = stage(PROGRAM);
        // The state of git and the worktrees lie on a small file system; the store itself has room.
        dir.write("hook", "( i=0; while : > $root/.ftl/store/git/fill-$i; do i=$((i+1)); done )");
        let script = "mkdir -p .ftl/store/git && mount -t tmpfs -o nr_inodes=200 none .ftl/store/git
            set +e
            $1 run builder workspace=.ftl/workspace/001_greet_active.xml mode=full budget=6 >away-out 2>away-err
            echo $? >away-code
            : > hook; rm -f .ftl/store/git/fill-*
            $1 resume $($1 status --json | sed -n 's/.*\"run\": *\"\\([a-z0-9]*\\)\".*/\\1/p' | head -1) >>away-out 2>>away-err
            echo $? >>away-code";
        let ended = in_namespace(&dir, script);
        let codes = dir.read("away-code");
        let (plans, works) = (starts(&dir, "plan"), starts(&dir, "implement"));
        let told = dir.read("away-out").contains("make room on the disk");
        let good = (codes.as_str(), plans, works, told) == ("3\n0\n", 1, 1, true);
        let all = || {
            format!("{codes} {plans} {works} {ended:#?}\n{}{}", dir.read("away-out"), dir.read("away-err"))
        };
        tally.count((!good).then(all));
    }
    tally.close();
}

#[test]
fn a_task_that_the_machine_holds_keeps_no_other_one_from_its_end() {
    let dir = repository(PROGRAM);
    let plan = json!({ "objective": "greet", "framework": "none", "tasks": [
        task("001", "greet", "greet.txt"), task("002", "part", "part.txt"),
    ] });
    dir.write("plan.json", plan.to_string());
    // Only what the first task's worktree is known by is damaged.
    dir.write(
        "hook",
        "[ $file = greet.txt ] && f=$root/.ftl/store/git/worktrees/$(basename $PWD).json && echo $f > $root/away-name \
         && cp $f $root/away && echo broken > $f",
    );
    let ended = dir.ftl(&["campaign", "run", "greet", "--plan", "plan.json"]);
    let run = only(&dir);
    let status = dir.status(&run);
    assert_eq!((ended.code, &status["standing"]), (3, &json!("held")), "{ended:#?}\n{status:#}");
    assert_eq!(dir.git(&["show", &format!("ftl/{run}:part.txt")]), "good day\n", "the other one has landed");
    let why = dir.ftl(&["why", &run]).code(0).out;
    assert!(why.contains("held") && why.contains(&format!("ftl resume {run}")), "{why}");
    dir.write("hook", "");
    fs::copy(dir.path("away"), dir.read("away-name").trim()).unwrap();
    dir.ftl(&["resume", &run]).says(&["complete"]);
    assert_eq!(dir.git(&["show", &format!("ftl/{run}:greet.txt")]), "good day\n");
    // What was decided is decided again from its facts.
    let deep = dir.ftl(&["doctor", "--deep"]).code(0);
    assert!(!deep.out.contains("decides otherwise"), "{deep:#?}");
    assert_eq!((starts(&dir, "implement greet.txt"), starts(&dir, "implement part.txt")), (1, 1));
    let mut tally = Tally::of("P3 the machine holds one task, the others end");
    tally.count(None);
    tally.close();
}

#[test]
fn nothing_is_learned_from_a_block_of_an_earlier_version() {
    let reasons = [
        "`git write-tree` failed: error: invalid object 100644 0123 for 'greet.txt'",
        "what was done could not be put on the disk: Input/output error (os error 5)",
        "2 of 3 tests failed",
    ];
    let dir = Dir::new();
    let tasks = (1..).zip(reasons).map(|(seq, _)| {
        json!({ "seq": format!("00{seq}"), "slug": "greet", "delta": ["a.txt"], "verify": "exit 3" })
    });
    let plan = json!({ "objective": "greet", "tasks": tasks.collect::<Vec<_>>() });
    dir.write("plan.json", plan.to_string());
    dir.ftl(&["workspace", "create", "--plan", "plan.json"]).code(0);
    for (seq, reason) in (1..).zip(reasons) {
        let path = format!(".ftl/workspace/00{seq}_greet_active.xml");
        dir.ftl(&["workspace", "block", &path, "--reason", reason]).code(0);
    }
    let out = dir.ftl(&["observer", "analyze"]).code(0).out;
    assert_eq!(dir.count("SELECT count(*) FROM lesson"), 1, "only the tests teach something: {out}");
    assert!(out.contains("tests-failed") && !out.contains("invalid"), "{out}");
}
