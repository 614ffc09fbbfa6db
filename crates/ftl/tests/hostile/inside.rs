//! Findings 9 and 14: no person's channel, descriptor or secret is reached from inside an agent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use ftl_needs::needs;
use rustix::process::Signal;

use crate::support::{CommandOutcome, Dir, Started, ended, until};
use crate::tally::{Tally, tries};

const FTL: &str = env!("CARGO_BIN_EXE_ftl");

/// A run that waits for a person.
const ASK: &str = "INPUT: objective\nLIMIT: rounds = 3 ELSE HOLD\nSTATE: START\n  PAY: rounds\n  \
    ASK: reply = \"Good?\" choices=yes|no\n  IF: reply == \"yes\" → RETURN complete said={reply}\n  GOTO: START\n";

/// A run whose command is the script `agent.sh` of its folder.
const AGENT: &str = "INPUT: root\nSTATE: START\n  DO: out = sh \"exec sh {root}/agent.sh\" timeout=120\n  \
    RETURN: complete out={out.stdout} err={out.stderr}\n";

/// Every order that is a person's, and a run of its own; the exit codes are the answer.
const EVERY: &str = "$F answer $R yes --by M; echo $?; $F override $R START --reason x --by M; echo $?; \
    $F raise $R rounds 9 --reason x --by M; echo $?; $F stop $R --by M; echo $?; $F resume $R --by M; echo $?; \
    $F run ask objective=x; echo $?; $F undo --by M; echo $?; $F salvage $R; echo $?; $F redo planning --reason x; echo $?; \
    $F adopt; echo $?; $F accept; echo $?; $F next --override x; echo $?; \
    $F memory quarantine --release x; echo $?";

/// How many of them there are.
const ORDERS: usize = 13;

/// A folder with a run that waits, and the name of that run.
fn stage() -> (Dir, String) {
    let dir = Dir::new();
    dir.protocol("ask", ASK).protocol("agent", AGENT);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    (dir, run)
}

/// The script of an agent: what it says is said in the shell that `way` starts, with a clean environment.
fn agent_says(dir: &Dir, run: &str, way: &str, words: &str) {
    let root = dir.path("").display().to_string();
    let words = format!("#!/bin/sh\nF={FTL}; R={run}; cd {root}\n{words}\n");
    dir.write("words.sh", words).write("agent.sh", format!("exec env -i PATH=\"$PATH\" {way}\n"));
}

fn root_of(dir: &Dir) -> String {
    format!("root={}", dir.path("").display())
}

/// What the orders of an agent came to: why one was taken, if one was.
fn is_refused(dir: &Dir, run: &str, before: &serde_json::Value, said: (&str, &str)) -> Option<String> {
    let refused = said.0 == "4\n".repeat(ORDERS) && said.1.contains("inside an agent's process tree");
    let unchanged = dir.status(run) == *before && dir.count("SELECT count(*) FROM runs") == 2;
    (!refused || !unchanged).then(|| format!("{said:?} unchanged: {unchanged}"))
}

/// Has an agent give every order of a person in some way, all of which must be refused.
fn from_inside(way: &str) -> Option<String> {
    let (dir, run) = stage();
    agent_says(&dir, &run, way, EVERY);
    let before = dir.status(&run);
    let (agent, json) = dir.run(&["agent", &root_of(&dir)]);
    let said = dir.entries(&agent).pop().unwrap()["values"].clone();
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let refused = is_refused(&dir, &run, &before, (&text("out"), &text("err")));
    refused.map(|what| format!("{way}: {what} {json:#}"))
}

#[needs(namespaces)]
#[test]
fn no_namespace_of_an_agent_is_a_persons_place() {
    let mut tally = Tally::of("no person's channel from inside an agent: namespaces");
    for _ in 0..tries(1) {
        for way in [
            "unshare -Urpf --mount-proc sh ./words.sh",
            "unshare -Urpf sh ./words.sh",
            "unshare -Urpf --mount-proc unshare -Urpf --mount-proc setsid -w sh ./words.sh",
            "unshare -UrTpf --boottime -1 --mount-proc sh ./words.sh",
            "unshare -Urm sh -c 'mount -t tmpfs none /proc && sh ./words.sh'",
            "unshare -Urm sh -c 'mount --bind . /proc && sh ./words.sh'",
        ] {
            let root = "cd \"$(dirname \"$0\")\"; ";
            let way = format!("sh -c '{root}exec {}' \"$0\"", way.replace('\'', "'\\''"));
            tally.count(from_inside(&way));
        }
    }
    tally.close();
}

/// A file that says of somebody in the caller's own namespace that he drives a run, with its lock held.
const FORGED: &str = r#"cd "$(dirname "$0")"
card=.ftl/store/owners/00000000deadbeef
printf '{"pid":4242,"host":"h","command":"c","start":7,"namespaces":{"pid":"%s"}}' "$(readlink /proc/self/ns/pid)" > $card
exec 9< $card
flock -x 9
exec sh ./words.sh
"#;

/// What an agent does to the locks that show that somebody drives it, before it goes where it cannot be seen.
const LOCKS: [(&str, &str); 4] = [
    (
        "covered by a file system",
        "exec unshare -Urpfm --mount-proc sh -c 'mount -t tmpfs none .ftl/store/owners && \
         mount -t tmpfs none .ftl/store/attempts && exec sh ./words.sh'",
    ),
    (
        "moved away",
        "mkdir away && mv .ftl/store/owners/* .ftl/store/attempts/* away/ && \
         exec unshare -Urpf --mount-proc sh ./words.sh",
    ),
    (
        "replaced by copies",
        "for d in owners attempts; do cp -r .ftl/store/$d $d && mv .ftl/store/$d away-$d && mv $d .ftl/store/$d; \
         done && exec unshare -Urpf --mount-proc sh ./words.sh",
    ),
    ("beside a forged one", "exec unshare -Urpf --mount-proc sh ./forged.sh"),
];

#[needs(namespaces)]
#[test]
fn no_lock_that_an_agent_hides_or_forges_makes_it_a_person() {
    let mut tally = Tally::of("no person's channel from inside an agent: hidden and forged locks");
    for _ in 0..tries(1) {
        for (what, way) in LOCKS {
            let (dir, run) = stage();
            let root = dir.path("").display().to_string();
            dir.write("way.sh", format!("cd {root}\n{way}\n")).write("forged.sh", FORGED);
            // What it says goes to files of its own: without its lock the attempt may end as it likes.
            let words = format!("({EVERY}) > said 2> wrong");
            agent_says(&dir, &run, &format!("sh {root}/way.sh"), &words);
            let before = dir.status(&run);
            dir.ftl(&["run", "agent", &root_of(&dir)]);
            let refused = is_refused(&dir, &run, &before, (&dir.read("said"), &dir.read("wrong")));
            tally.count(refused.map(|why| format!("{what}: {why}")));
        }
    }
    tally.close();
}

/// An agent that stops whoever drives it and kills its own guard, so that nobody is above it who could tell.
#[test]
fn an_agent_that_stops_its_driver_and_kills_its_guard_is_still_inside() {
    let mut tally = Tally::of("no person's channel from inside an agent: a stopped driver");
    for _ in 0..tries(1) {
        let (dir, run) = stage();
        let words =
            format!("kill -STOP $D; kill -KILL $G; sleep 0.2; ({EVERY}) > said 2> wrong; mv said done");
        let parent = "$(cut -d' ' -f4 /proc/$PPID/stat)";
        let root = dir.path("").display().to_string();
        let way = format!("D={parent} G=$PPID setsid sh {root}/words.sh > /dev/null 2>&1 & sleep 60");
        agent_says(&dir, &run, &way, &words);
        let before = dir.status(&run);
        let driver = dir.start(&["run", "agent", &root_of(&dir)]);
        until("the agent has said everything", || dir.path("done").exists());
        tally.count(is_refused(&dir, &run, &before, (&dir.read("done"), &dir.read("wrong"))));
        driver.signal(Signal::CONT);
        driver.signal(Signal::TERM);
        let _ = driver.ended();
    }
    tally.close();
}

/// A namespace such as a container has: its first process, and a driver in it that lives until it is told.
struct Container {
    first: Started,
}

impl Container {
    /// Starts a container in which a run is driven that ends when the file `enough` is there.
    fn start(dir: &Dir) -> Container {
        let root = dir.path("").display().to_string();
        let script = "until [ -e $1/enough ]; do sleep 0.05; done";
        dir.write("agent.sh", script.replace("$1", &root));
        let first = enter(dir, &format!("{FTL} run agent root={root}; echo $? > ended"));
        until("the run in the container is at work", || {
            dir.count("SELECT count(*) FROM runs WHERE owner IS NOT NULL") == 1 && has_attempt(dir)
        });
        Container { first }
    }

    /// Has the run end, and the container with it.
    fn end(self, dir: &Dir) {
        dir.write("enough", "");
        until("the run in the container has ended", || dir.path("ended").exists());
        self.first.ended().code(0);
    }

    /// A command inside, as `docker exec` starts one: entered from outside.
    fn exec(&self, dir: &Dir, args: &[&str]) -> CommandOutcome {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.first.pid())).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["-t", children.trim(), "-U", "--preserve-credentials", "-p", "-m"]);
        // The new mount namespace has its own idea of where we are.
        command.args(["sh", "-c", "cd -- \"$0\" && exec \"$@\""]).arg(dir.path("")).arg(FTL);
        ended(like(dir, command, args))
    }
}

/// Starts a shell in a new container, from the folder.
fn enter(dir: &Dir, script: &str) -> Started {
    let mut command = Command::new("unshare");
    command.args(["-Urpf", "--kill-child", "--mount-proc", "sh", "-c", script]);
    dir.start_command(like(dir, command, &[]))
}

/// A command with the words, folder and environment that `ftl` has in the tests.
pub(crate) fn like(dir: &Dir, mut command: Command, args: &[&str]) -> Command {
    let plain = dir.command(args);
    command.args(plain.get_args()).current_dir(dir.path("")).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn has_attempt(dir: &Dir) -> bool {
    fs::read_dir(dir.path(".ftl/store/attempts")).is_ok_and(|files| files.count() > 0)
}

/// Runs `ftl` in a new container of its own.
fn in_another(dir: &Dir, args: &[&str]) -> CommandOutcome {
    let mut command = Command::new("unshare");
    command.args(["-Urpf", "--mount-proc", FTL]);
    ended(like(dir, command, args))
}

#[needs(namespaces)]
#[test]
fn a_container_is_a_persons_place_and_so_is_its_host() {
    let mut tally = Tally::of("a person in a container, beside it and on its host is heard");
    for _ in 0..tries(1) {
        let (dir, run) = stage();
        let container = Container::start(&dir);
        let raise =
            |limit: &'static str| ["raise", run.as_str(), "rounds", limit, "--reason", "x", "--by", "M"];
        // Entered from outside, and from the host, which sees the driver: both are a person's.
        let inside = container.exec(&dir, &raise("11"));
        tally.count((inside.code != 0).then(|| format!("docker exec: {inside:?}")));
        let host = dir.ftl(&raise("12"));
        tally.count((host.code != 0).then(|| format!("the host: {host:?}")));
        // Another container does not see the driver: as long as that lives, it may be an agent's.
        let beside = in_another(&dir, &raise("13"));
        let told = beside.err.contains("another pid namespace") && beside.err.contains("docker exec");
        tally.count((beside.code != 4 || !told).then(|| format!("another container: {beside:?}")));
        container.end(&dir);
        // Nobody drives any more: a new container, the host, and the same again go on with the store.
        let new = in_another(&dir, &raise("14"));
        tally.count((new.code != 0).then(|| format!("a new container: {new:?}")));
        let host = dir.ftl(&raise("15"));
        tally.count((host.code != 0).then(|| format!("the host afterwards: {host:?}")));
        let answer = in_another(&dir, &["answer", &run, "yes", "--by", "M"]);
        tally.count((answer.code != 0).then(|| format!("an answer in a third one: {answer:?}")));
    }
    tally.close();
}

#[needs(namespaces)]
#[test]
fn a_store_of_a_container_that_was_killed_goes_on_anywhere() {
    let mut tally = Tally::of("a run whose container is gone goes on in a new one and on the host");
    for is_host in [true, false] {
        let (dir, _) = stage();
        let container = Container::start(&dir);
        let run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned();
        container.first.signal(Signal::KILL);
        let _ = container.first.ended();
        dir.write("enough", "");
        let args = ["resume", run.as_str(), "--by", "M"];
        until("the driver is gone", || dir.status(&run)["owner"].is_null());
        let ended = if is_host { dir.ftl(&args) } else { in_another(&dir, &args) };
        tally.count((ended.code != 0).then(|| format!("host {is_host}: {ended:?}")));
    }
    tally.close();
}

#[needs(namespaces)]
#[test]
fn everything_works_in_one_container() {
    let dir = Dir::new();
    let root = dir.path("").display().to_string();
    dir.protocol("ask", ASK).protocol("agent", AGENT);
    dir.write("agent.sh", format!("until [ -e {root}/enough ]; do sleep 0.05; done"));
    let script = format!(
        "F={FTL}; $F run ask objective=x --json > asked; R=$(sed 's/.*\"run\": *\"\\([a-z0-9]*\\)\".*/\\1/;q' asked)
        R=$($F status --json | tr -d ' \\n' | sed 's/.*\"run\":\"\\([a-z0-9]*\\)\".*/\\1/')
        $F run agent root={root} > /dev/null 2>&1 & D=$!
        until [ -n \"$(ls .ftl/store/attempts)\" ]; do sleep 0.05; done
        $F raise $R rounds 9 --reason x --by M; echo $?; $F answer $R yes --by M; echo $?
        touch enough; wait $D; echo $?; $F run ask objective=y > /dev/null; echo $?"
    );
    let ended = enter(&dir, &script).ended();
    let codes: Vec<&str> = ended.out.lines().filter(|line| line.parse::<u8>().is_ok()).collect();
    assert_eq!(codes, ["0", "0", "0", "3"], "{ended:#?}");
}

#[test]
fn a_lesson_of_an_agent_waits_for_a_person() {
    let (dir, run) = stage();
    let lesson = r#"{"name":"own","trigger":"the frobnicator is jammed again","fix":"unjam it"}"#;
    let words = format!(
        "$F memory add-failure --json '{lesson}'; echo $?; $F memory quarantine --release own; echo $?
        $F memory import lessons.json; echo $?"
    );
    let empty = r#"{"failures": [], "patterns": []}"#;
    dir.write("lessons.json", empty);
    let way = format!("sh {}", dir.path("words.sh").display());
    agent_says(&dir, &run, &way, &words);
    let (agent, _) = dir.run(&["agent", &root_of(&dir)]);
    let said = dir.entries(&agent).pop().unwrap()["values"].clone();
    assert_eq!(said["out"], "added\n0\n4\n4\n", "{said:#}");
    assert!(said["err"].as_str().unwrap().contains("quarantine"), "{said:#}");
    let found = || dir.ftl(&["memory", "query", "frobnicator"]).code(0).out;
    assert!(!found().contains("jammed"), "{}", found());
    dir.ftl(&["memory", "quarantine"]).code(0).says(&["own", "from inside an agent's process tree"]);
    dir.ftl(&["memory", "quarantine", "--release", "own"]).code(0).says(&["released"]);
    assert!(found().contains("jammed"), "{}", found());
    dir.ftl(&["memory", "import", "lessons.json"]).code(0);
}

#[test]
fn no_descriptor_of_the_persons_shell_reaches_an_agent() {
    let (dir, run) = stage();
    dir.write("private.txt", "of the person alone\n").write("mine.md", crate::support::MINE);
    let words = "for n in 7 9; do (cat <&$n); done; ls -l /proc/self/fd/ | grep -c private; true";
    agent_says(&dir, &run, &format!("sh {}", dir.path("words.sh").display()), words);
    let script = format!("exec 7< private.txt 9< private.txt; exec {FTL} run agent {} --json", root_of(&dir));
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let json = ended(like(&dir, command, &[])).json();
    let said = dir.entries(json["run"].as_str().unwrap()).pop().unwrap()["values"].clone();
    assert_eq!(said["out"], "0\n", "{said:#}");
    // What a person hands over by `/dev/fd` is still read.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 8< mine.md; exec {FTL} check /dev/fd/8")]);
    ended(like(&dir, command, &[])).code(0);
}

/// A command as an ordinary user: `nobody` where the tests are root's. The folder must be that user's.
fn as_user(dir: &Dir, args: &[&str]) -> Command {
    if !rustix::process::geteuid().is_root() {
        return dir.command(args);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", FTL]);
    like(dir, command, args)
}

#[test]
fn the_driver_is_not_looked_into() {
    let dir = Dir::new();
    dir.protocol("agent", AGENT);
    let words = "D=$(cut -d' ' -f4 /proc/$PPID/stat); cat /proc/$D/environ; cat /proc/$PPID/environ; \
        head -c 1 /proc/$D/mem; ls /proc/$D/fd; echo over";
    dir.write("agent.sh", words);
    if rustix::process::geteuid().is_root() {
        ended({
            let mut command = Command::new("chown");
            command.args(["-R", "65534:65534"]).arg(dir.path(""));
            command
        })
        .code(0);
    }
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = as_user(&dir, &["run", "agent", &root_of(&dir), "--json"]);
    command.env("PLANTED", "only-the-driver-has-this");
    let tried = ended(command);
    let json = tried.json();
    let run = json["run"].as_str().unwrap_or_else(|| panic!("{tried:#?}"));
    let mut log = as_user(&dir, &["log", run, "--json"]);
    log.stdin(Stdio::null());
    let log = ended(log).code(0).out;
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let (out, err) = (last["values"]["out"].as_str().unwrap(), last["values"]["err"].as_str().unwrap());
    assert_eq!(out, "over\n", "{last:#}");
    assert!(err.matches("ermission denied").count() >= 3, "{last:#}");
}

/// The environment of a desktop, and what is planted in it.
const DESKTOP: &str = include_str!("desktop.env");
const PLANTED: &str = "planted-frob-4711";

#[test]
fn a_desktop_environment_hides_nothing_but_what_is_a_secret() {
    let dir = Dir::new();
    let with_desktop = |mut command: Command| {
        let lines = DESKTOP.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        command.envs(lines.filter_map(|line| line.split_once('=')));
        command.env("SECRET_FIXED", PLANTED).env("USER", "tester");
        ended(command)
    };
    let demo = with_desktop(dir.command(&["demo", "--dir", "demo"])).code(0);
    assert!(!demo.out.contains("[hidden]") && !demo.err.contains("[hidden]"), "{demo:#?}");
    let masked = files_with(&dir, b"[hidden]");
    assert!(masked.is_empty(), "the demo knows no secret, and something was hidden in {masked:?}");
    // An agent has no variable of ours; it finds the value elsewhere.
    let shown =
        DESKTOP.lines().filter_map(|line| Some(line.split_once('=')?.1)).collect::<Vec<_>>().join("\n");
    dir.write("shown.txt", &shown).write("planted.txt", PLANTED).protocol("agent", AGENT);
    dir.write("agent.sh", format!("cat {0}/shown.txt; echo; cat {0}/planted.txt", dir.path("").display()));
    let ran = with_desktop(dir.command(&["run", "agent", &root_of(&dir), "--json"])).code(0).json();
    let said = dir.entries(ran["run"].as_str().unwrap()).pop().unwrap()["values"]["out"].clone();
    assert_eq!(said.as_str().unwrap().trim_end(), format!("{}\n[hidden]", shown.trim_end()), "{said:#}");
    let state = dir.path(".ftl");
    let found: Vec<_> =
        files_with(&dir, PLANTED.as_bytes()).into_iter().filter(|path| path.starts_with(&state)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_variable_that_only_sounds_like_a_secret_changes_nothing_that_is_done() {
    let mut tally = Tally::of("no path and no word is hidden for the name of a variable");
    for (name, value) in [
        ("CACHE_KEY", "build_cache"),
        ("S3_KEY", "agent.sh"),
        ("SORT_KEY", "created_at"),
        ("AUTH_TYPE", "client_credentials"),
        ("SSH_KEY", "id_ed25519"),
        // A name that is believed: but this is where the repository stands.
        ("BUILD_TOKEN", "build_cache-7"),
        ("BUILD_SECRET", "agent.sh"),
    ] {
        let dir = Dir::new();
        let root = dir.path("in/build_cache-7");
        let text = format!("```protocol\nPROTOCOL: agent\n{AGENT}```\n");
        dir.write("in/build_cache-7/.ftl/protocols/agent.md", text);
        dir.write("in/build_cache-7/agent.sh", format!("echo the {value}\n"));
        let mut command = dir.command(&["run", "agent", &format!("root={}", root.display()), "--json"]);
        command.current_dir(&root).env(name, value);
        let ended = ended(command);
        let good = ended.code == 0 && !ended.out.contains("[hidden]");
        tally.count((!good).then(|| format!("{name}={value}: {ended:#?}")));
    }
    tally.close();
}

#[test]
fn an_input_that_holds_a_secret_is_refused_by_name() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    for (name, value) in [
        ("DB_PASSWORD", "hunterhunter"),
        ("X_PASSWORD", "ab:/cd-ef1"),
        ("AWS_SECRET_ACCESS_KEY", "/K7MDENGbPxRfiCYzEXAMPLE"),
        ("PIP_TOKEN", "tok3nvalue123456"),
    ] {
        let mut command = dir.command(&["run", "ask", &format!("objective=say {value} twice")]);
        command.env(name, value);
        let ended = ended(command);
        assert_eq!(ended.code, 1, "{ended:#?}");
        assert!(ended.err.contains("`objective`") && ended.err.contains(name), "{ended:#?}");
        assert!(!ended.err.contains(value) && !ended.out.contains(value), "{ended:#?}");
    }
    assert_eq!(dir.ftl(&["status", "--all", "--json"]).code(0).json()["runs"], serde_json::json!([]));
}

/// The files below a folder that hold some bytes.
fn files_with(dir: &Dir, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![dir.path("")]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else if fs::read(&path).is_ok_and(|text| text.windows(bytes.len()).any(|part| part == bytes)) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn a_settings_file_that_is_not_the_repositorys_own_is_named() {
    let dir = Dir::repository();
    dir.write(".ftl/config.toml", "")
        .write("sub/.ftl/config.toml", "[agents.x]\nkind = \"scripted\"\nscript = \"s\"\n");
    let mut command = dir.command(&["config"]);
    command.current_dir(dir.path("sub"));
    ended(command).code(4).says(&["note", "sub/.ftl", "stands in a subfolder", "--repo"]);
    let said = dir.ftl(&["config"]).code(0);
    assert!(!said.err.contains("--repo"), "{said:#?}");
}
