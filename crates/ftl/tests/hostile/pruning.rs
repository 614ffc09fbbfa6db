//! Finding 3: work in progress is reachable, whatever a person's git prunes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{CommandOutcome, Dir, Started};
use crate::tally::{Tally, seed, tries};

/// The campaign that is run, to its end on the person's branch.
pub(crate) const GO: [&str; 8] =
    ["campaign", "run", "all is done", "--plan", "plan.json", "--land", "ff", "--json"];

/// What a person's git does beside it.
const ACTS: [&[&str]; 5] = [
    &["gc", "--prune=now", "--quiet"],
    &["prune", "--expire=now"],
    &["repack", "-adq"],
    &["reflog", "expire", "--all", "--expire=now"],
    &["worktree", "prune", "--expire=now"],
];

/// Numbers that are drawn the same each time.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most.max(1)
    }
}

/// A repository with a plan of three tasks, and agents that run a command and then have their file say `done`.
pub(crate) fn campaign(command: &str) -> Dir {
    verified(command, "true")
}

/// The same, verified by a command before the file is looked at.
fn verified(command: &str, verify: &str) -> Dir {
    let dir = Dir::repository();
    dir.write("a.txt", "a\n").write("b.txt", "b\n").write("c.txt", "c\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "begin"]);
    let task = |seq: &str, slug: &str, file: &str, depends: &[&str]| {
        json!({ "seq": seq, "slug": slug, "delta": [file], "verify": format!("{verify}; grep -q done {file}"),
            "budget": 5, "depends": depends })
    };
    let tasks =
        [task("001", "a", "a.txt", &[]), task("002", "b", "b.txt", &[]), task("003", "c", "c.txt", &["001"])];
    dir.write("plan.json", json!({ "objective": "all is done", "tasks": tasks }).to_string());
    dir.write(
        "ftl.toml",
        "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\nbuilder = \"play\"\nplanner = \"play\"\n",
    );
    let builds = |id: &str, file: &str| {
        format!(
            "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"{id}\"\n[[scene.step]]\ncalls = [\
             {{ tool = \"bash\", command = '''{command}''' }}, \
             {{ tool = \"write\", path = \"{file}\", content = \"done\\n\" }}]\n\
             [[scene.step]]\nsubmit = {{ summary = \"written\", utilized = [] }}\n"
        )
    };
    let plans =
        "[[scene]]\nrole = \"builder\"\nform = \"plan\"\n[[scene.step]]\nsubmit = { approach = \"write\" }\n";
    let scenes = [builds("001-a", "a.txt"), builds("002-b", "b.txt"), builds("003-c", "c.txt")].concat();
    dir.write("play.toml", format!("{plans}{scenes}"));
    let ours = "plan.json\nftl.toml\nplay.toml\n.out-*\n.err-*\n/settings/\n/.ftl/\n";
    fs::write(dir.path(".git/info/exclude"), ours).unwrap();
    dir
}

/// The name of the run that a campaign made.
pub(crate) fn run_of(dir: &Dir) -> String {
    let runs = dir.ftl(&["status", "--all", "--json"]).code(0).json();
    runs["runs"][0]["run"].as_str().unwrap_or_else(|| panic!("{runs:#}")).to_owned()
}

/// What is not as it would be had nobody disturbed it.
pub(crate) fn amiss(dir: &Dir) -> Option<String> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(words).current_dir(dir.path("")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let out = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.success(), text(&out.stdout), text(&out.stderr))
    };
    let looked = [
        ("fsck", git(&["fsck", "--connectivity-only", "--no-dangling"])),
        ("for-each-ref", git(&["for-each-ref", "--format=%(refname) %(contents:subject)"])),
        ("status", git(&["status", "--porcelain"])),
    ];
    for (what, (is_fine, out, err)) in looked {
        let is_silent = what != "status" || out.is_empty();
        if !is_fine || !is_silent || err.contains("error") {
            return Some(format!("git {what}: {out}{err}"));
        }
    }
    let files = git(&["show", "HEAD:a.txt", "HEAD:b.txt", "HEAD:c.txt"]).1;
    if files != "done\ndone\ndone\n" {
        return Some(format!("on the branch stands {files:?}"));
    }
    let doctor = dir.ftl(&["doctor", "--deep"]);
    (doctor.code != 0 || !doctor.out.contains("all is well")).then_some(doctor.out)
}

/// What was violated by a campaign that has ended: it is as if undisturbed, or a hold that one resume gets over.
fn violated(dir: &Dir, ended: &CommandOutcome) -> Option<String> {
    if ended.code != 0 {
        let run = run_of(dir);
        let resumed = dir.ftl(&["resume", &run]);
        if resumed.code != 0 {
            return Some(format!("{ended:#?}\n{resumed:#?}"));
        }
    }
    amiss(dir)
}

/// Does something with git beside a run; whether it succeeds is its own business.
fn beside(dir: &Dir, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(words).current_dir(dir.path("")).env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
}

#[test]
fn whatever_is_pruned_at_whatever_instant_a_campaign_comes_to_the_same_end() {
    let mut tally = Tally::of("work in progress survives gc, prune, repack, reflog expire, worktree prune");
    let mut drawn = Drawn(seed());
    let dir = campaign("true");
    let began = Instant::now();
    dir.ftl(&GO).code(0);
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert_eq!(amiss(&dir), None);
    for number in 0..tries(5) {
        let dir = campaign("true");
        let started = dir.start(&GO);
        std::thread::sleep(Duration::from_millis(drawn.below(took)));
        // Reflogs hold what a gc would prune: often both.
        if drawn.below(2) == 0 {
            beside(&dir, ACTS[3]);
        }
        beside(&dir, ACTS[number % ACTS.len()]);
        tally.count(violated(&dir, &started.ended()));
    }
    tally.close();
}

#[test]
fn what_is_pruned_while_it_is_written_or_verified_is_not_lost() {
    let mut tally = Tally::of("what is pruned while it is written or verified is not lost");
    // Of two at once git refuses one, which is not what is tried here.
    let all = ACTS.map(|words| format!("git {}", words.join(" "))).join("; ");
    let all = format!("({all}) > /dev/null 2>&1; true");
    // By the agent, which stages and takes back what it will write: then the repository has it, and loses it.
    let staged = format!("echo done > x && git add x && git rm -qf x; {all}");
    for (command, verify) in [("true", all.as_str()), (&staged, "true"), (&all, &all)] {
        let dir = verified(command, verify);
        let ended = dir.ftl(&GO);
        let is_bad = (ended.code != 0).then(|| format!("{ended:#?}"));
        tally.count(is_bad.or_else(|| amiss(&dir)));
    }
    tally.close();
}

#[test]
fn a_storm_of_prunes_over_all_of_a_campaign_loses_nothing() {
    let mut tally = Tally::of("a campaign under gc and prune without a pause loses nothing");
    let mut drawn = Drawn(seed() + 1);
    for _ in 0..tries(1) {
        let dir = campaign("true");
        let started: Started = dir.start(&GO);
        let deadline = Instant::now() + crate::support::PATIENCE;
        while crate::support::is_alive(started.pid()) && Instant::now() < deadline {
            beside(&dir, ACTS[usize::try_from(drawn.below(ACTS.len() as u64)).unwrap()]);
        }
        tally.count(violated(&dir, &started.ended()));
    }
    tally.close();
}

/// The files of loose objects of a repository.
fn loose(dir: &Dir) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir.path(".git/objects")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.file_name().unwrap().len() == 2);
    folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect()
}

#[test]
fn what_the_repository_lost_is_given_back_and_what_nobody_has_is_named() {
    let dir = campaign("true");
    dir.ftl(&GO).code(0);
    let run = run_of(&dir);
    // As a prune does that has looked at the refs before the last of them moved.
    let tip = dir.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let file = dir.path(&format!(".git/objects/{}/{}", &tip[..2], &tip[2..]));
    fs::remove_file(&file).unwrap();
    dir.ftl(&["doctor"]).code(0).says(&["+ git", "given back that the repository had lost"]);
    assert!(file.exists());
    dir.ftl(&["doctor", "--deep"]).code(0).says(&["all is well"]);
    // Nobody has it any more: neither the repository nor we.
    fs::remove_dir_all(dir.path(".ftl/store/git/chamber/objects")).unwrap();
    let before = loose(&dir);
    fs::remove_file(&file).unwrap();
    let json = dir.ftl(&["doctor", "--json"]).code(1).json();
    let told: Vec<_> =
        json["findings"].as_array().unwrap().iter().filter(|one| one["area"] == "git").collect();
    assert!(told.iter().all(|one| one["level"] == "broken" && one["hint"].is_string()), "{told:#?}");
    let names = |what: &str| told.iter().any(|one| one["text"].as_str().unwrap().contains(what));
    assert!(names(&format!("refs/heads/ftl/{run}")) && names(&format!("refs/ftl/runs/{run}")), "{told:#?}");
    assert!(names(&tip) && names(&format!("run {run} names")), "{told:#?}");
    assert_eq!(loose(&dir).len() + 1, before.len(), "nothing else was touched");
    // A blob of a landed commit, which only a look at everything finds.
    let dir = campaign("true");
    dir.ftl(&GO).code(0);
    let blob = dir.git(&["rev-parse", "HEAD:a.txt"]).trim().to_owned();
    fs::remove_dir_all(dir.path(".ftl/store/git/chamber/objects")).unwrap();
    fs::remove_file(dir.path(&format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
    dir.git(&["reset", "-q", "--soft", "HEAD~3"]);
    dir.ftl(&["doctor"]).code(0).says(&["all there"]);
    dir.ftl(&["doctor", "--deep"]).code(1).says(&[&blob]);
}

#[test]
fn one_broken_ref_stops_nothing_else() {
    let dir = campaign("true");
    dir.ftl(&GO).code(0);
    let tree = dir.git(&["rev-parse", "HEAD^{tree}"]).trim().to_owned();
    let message = "Kept abcd-1: it was in the way";
    let commit = dir.git(&["commit-tree", &tree, "-m", message]).trim().to_owned();
    dir.git(&["update-ref", "refs/ftl/kept/abcd-1/1", &commit]);
    dir.write(".git/refs/ftl/kept/abcd-1/2", format!("{}\n", "1".repeat(40)));
    let json = dir.ftl(&["salvage", "--json"]).code(0).json();
    let why = |number: &str| {
        let all = json["kept"].as_array().unwrap();
        let one = all.iter().find(|one| one["id"] == format!("abcd-1/{number}"));
        one.unwrap_or_else(|| panic!("{json:#}"))["why"].as_str().unwrap().to_owned()
    };
    assert_eq!(why("1"), "it was in the way");
    assert_eq!(why("2"), "broken: commit 111111111111 cannot be read");
    dir.ftl(&["salvage", "abcd-1/1", "--branch", "back"]).code(0);
    assert_eq!(dir.git(&["rev-parse", "back"]).trim(), commit);
    dir.ftl(&["salvage", "abcd-1/2"]).code(1);
    dir.ftl(&["doctor"]).code(1).says(&["`refs/ftl/kept/abcd-1/2` names", "git update-ref -d"]);
    // Another campaign is not held up by it.
    go_again(&dir);
}

/// Has the first task to be done once more, alone: what was learned names the others, and who plays goes by names.
fn go_again(dir: &Dir) {
    let mut plan: serde_json::Value = serde_json::from_str(&dir.read("plan.json")).unwrap();
    plan["tasks"].as_array_mut().unwrap().truncate(1);
    dir.write("plan.json", plan.to_string()).write("a.txt", "a\n");
    dir.git(&["commit", "-qam", "once more"]);
    dir.ftl(&GO).code(0);
}

#[test]
fn what_is_kept_here_is_bounded_and_goes() {
    let dir = campaign("true");
    dir.ftl(&GO).code(0);
    let objects = dir.path(".ftl/store/git/chamber/objects");
    let count = || {
        let folders = fs::read_dir(&objects).unwrap().map(|entry| entry.unwrap().path());
        folders.filter(|path| path.is_dir()).map(|path| fs::read_dir(path).unwrap().count()).sum::<usize>()
    };
    assert!(count() > 0, "an hour is not over");
    let mut touch = Command::new("find");
    touch.arg(&objects).args(["-type", "f", "-exec", "touch", "-d", "2 hours ago", "{}", "+"]);
    assert!(touch.status().unwrap().success());
    let old = count();
    go_again(&dir);
    assert!(count() < old, "what is old has gone, and one task makes less than three");
    assert_eq!(amiss(&dir), None);
    assert_eq!(dir.git(&["for-each-ref", "refs/ftl/live"]), "");
    let marks = fs::read_dir(dir.path(".ftl/store/git/moving")).unwrap().count();
    assert_eq!(marks, 0, "no mark of a move is left");
}

/// Has the repository hold, under no ref, the very trees and files that each task will make.
const MADE_BEFORE: &str = "for f in a b c; do echo done > $f.txt; git add -A; git write-tree > /dev/null; \
    git reset -q --hard; done";

#[test]
fn what_an_agent_s_git_made_first_is_pruned_and_not_lost() {
    let mut tally = Tally::of("what the repository had first, under no ref, is ours too");
    // While it is verified.
    let all = format!("(git {}; git {}) > /dev/null 2>&1", ACTS[3].join(" "), ACTS[1].join(" "));
    let dir = verified(MADE_BEFORE, &all);
    let ended = dir.ftl(&GO);
    let is_bad = (ended.code != 0).then(|| format!("{ended:#?}"));
    tally.count(is_bad.or_else(|| amiss(&dir)));
    // By a prune that has looked at the refs before any moved, and takes its time.
    let dir = campaign(MADE_BEFORE);
    let begin = dir.git(&["rev-parse", "HEAD"]).trim().to_owned();
    dir.ftl(&GO).code(0);
    let made = dir.git(&["rev-list", "--objects", "HEAD", "--not", &begin]);
    for name in made.lines().filter_map(|line| line.split(' ').next()) {
        let _ = fs::remove_file(dir.path(&format!(".git/objects/{}/{}", &name[..2], &name[2..])));
    }
    let told = dir.ftl(&["doctor"]);
    let is_bad = (!told.out.contains("given back")).then(|| format!("{told:#?}"));
    tally.count(is_bad.or_else(|| amiss(&dir)));
    tally.close();
}
