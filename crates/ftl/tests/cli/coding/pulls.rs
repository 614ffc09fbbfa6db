//! Stories that are merged through a pull request, on a local server that speaks like a forge and really merges.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use super::{BOUND, TESTED, codes, content, prompts, run_of, says, set, walked};
use crate::support::{CommandOutcome, Dir, ended, until};

const TOKEN: &str = "forge-token-0123456789";

/// A forge with one bare repository. It ends with the process.
struct Forge {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    bare: PathBuf,
    pulls: Vec<Json>,
    asked: Vec<String>,
    /// What it answers to every wish to merge.
    refuses: Option<u16>,
    /// How it fails requests first, one after the other.
    fails: Vec<Fails>,
    /// The runs of checks, as (name, status, conclusion); each look takes one away until one is left.
    checks: Vec<Vec<(&'static str, &'static str, &'static str)>>,
    /// The statuses that others gave, as (context, state).
    statuses: Vec<(&'static str, &'static str)>,
    /// What it says about whether a pull request can be merged; it merges where it says nothing.
    says: Option<&'static str>,
    merges: usize,
    /// At which request it kills who asks, and whether it has done by then what it was asked for.
    kills: Option<(usize, bool)>,
    /// Who asks.
    client: Option<Child>,
}

/// How a forge fails a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    /// It says so.
    With(u16),
    /// It says when to come back.
    Later(u16),
    /// It hangs up.
    HangsUp,
}

impl Forge {
    fn of(bare: &Path) -> Forge {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State { bare: bare.to_owned(), ..State::default() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &shared);
            }
        });
        Forge { port, state }
    }

    fn list_requests(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let (mut length, mut token) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => token = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Json = serde_json::from_slice(&body).unwrap_or_default();
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    // Whoever was started is known to the forge before it is answered.
    let mut state = state.lock().unwrap();
    state.asked.push(format!("{method} {}", path.split('?').next().unwrap()));
    let kills = state.kills.filter(|(at, _)| *at == state.asked.len());
    if let Some((_, false)) = kills {
        return kill(state.client.take().unwrap());
    }
    let fails = if state.fails.is_empty() { None } else { Some(state.fails.remove(0)) };
    let (status, answer) = match fails {
        Some(Fails::HangsUp) => return,
        Some(Fails::With(status) | Fails::Later(status)) => (status, json!({ "message": "not now" })),
        None if token == format!("Bearer {TOKEN}") => state.answer(method, path, &body),
        None => (401, json!({ "message": "Bad credentials" })),
    };
    if let Some((_, true)) = kills {
        return kill(state.client.take().unwrap());
    }
    let text = answer.to_string();
    let later = if let Some(Fails::Later(_)) = fails { "Retry-After: 2\r\n" } else { "" };
    let length = text.len();
    let head = format!("HTTP/1.1 {status} x\r\n{later}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = reader.get_mut().write_all(format!("{head}{text}").as_bytes());
}

impl State {
    fn git(&self, words: &[&str]) -> Option<String> {
        let said = Command::new("git").arg("-C").arg(&self.bare).args(words).output().unwrap();
        said.status.success().then(|| String::from_utf8(said.stdout).unwrap().trim().to_owned())
    }

    fn answer(&mut self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        if let Some(rest) = path.strip_prefix("/repos/ada/till/commits/") {
            return self.looked_at(rest);
        }
        let rest = path.strip_prefix("/repos/ada/till/pulls").unwrap_or("");
        match (method, rest) {
            ("GET", list) if list.starts_with('?') => (200, json!(self.pulls)),
            ("POST", "") => {
                let head = body["head"].as_str().unwrap();
                assert!(self.git(&["rev-parse", "--verify", &format!("refs/heads/{head}")]).is_some());
                let number = self.pulls.len() + 1;
                self.pulls.push(json!({
                    "number": number, "state": "open", "html_url": format!("http://forge.example/pull/{number}"),
                    "head": { "ref": head }, "base": { "ref": body["base"] }, "title": body["title"], "merged": false,
                }));
                (201, self.pulls[number - 1].clone())
            }
            ("GET", "/1") => (200, self.pulls[0].clone()),
            ("PUT", "/1/merge") => self.merge(body["sha"].as_str().unwrap()),
            _ => (404, json!({ "message": "Not Found" })),
        }
    }

    /// What its checks say about the tip of the branch that was pushed.
    fn looked_at(&mut self, rest: &str) -> (u16, Json) {
        let (commit, what) = rest.split_once('/').unwrap();
        let head = format!("refs/heads/{}", self.pulls[0]["head"]["ref"].as_str().unwrap());
        assert_eq!(self.git(&["rev-parse", &head]).as_deref(), Some(commit));
        if what.starts_with("status") {
            let all =
                self.statuses.iter().map(|(context, state)| json!({ "context": context, "state": state }));
            return (200, json!({ "state": "pending", "statuses": all.collect::<Vec<_>>() }));
        }
        let Some(now) = self.checks.first().cloned() else {
            return (404, json!({ "message": "Not Found" }));
        };
        if self.checks.len() > 1 {
            self.checks.remove(0);
        }
        let all = now.iter().map(
            |(name, status, conclusion)| json!({ "name": name, "status": status, "conclusion": conclusion }),
        );
        (200, json!({ "total_count": now.len(), "check_runs": all.collect::<Vec<_>>() }))
    }

    fn merge(&mut self, sha: &str) -> (u16, Json) {
        if let Some(state) = self.says {
            self.pulls[0]["mergeable_state"] = json!(state);
            return (405, json!({ "message": "Required status check \"build\" is expected." }));
        }
        if let Some(status) = self.refuses {
            return (status, json!({ "message": "Pull Request is not mergeable" }));
        }
        let head = format!("refs/heads/{}", self.pulls[0]["head"]["ref"].as_str().unwrap());
        let base = format!("refs/heads/{}", self.pulls[0]["base"]["ref"].as_str().unwrap());
        if self.git(&["rev-parse", &head]).as_deref() != Some(sha) {
            return (409, json!({ "message": "Head branch was modified" }));
        }
        if self.git(&["merge-base", "--is-ancestor", &base, &head]).is_none() {
            return (405, json!({ "message": "Pull Request is not mergeable" }));
        }
        self.git(&["update-ref", &base, sha]).unwrap();
        self.merges += 1;
        let pull = &mut self.pulls[0];
        (pull["merged"], pull["state"], pull["merge_commit_sha"]) =
            (json!(true), json!("closed"), json!(sha));
        pull["merged_at"] = json!("now");
        (200, json!({ "merged": true, "sha": sha }))
    }
}

/// A repository whose forge is on this machine.
fn repository(scenes: &[String]) -> (Dir, Dir, Forge) {
    let (dir, remote) = (set(scenes, ""), Dir::new());
    let bare = remote.path("bare.git");
    dir.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let forge = Forge::of(&bare);
    let settings = format!(
        "{BOUND}{TESTED}[landing]\nhow = \"pull-request\"\n[forge]\nurl = \"http://127.0.0.1:{}\"\nrepo = \"ada/till\"\n\
         remote = \"{}\"\ntoken_env = \"FORGE_TOKEN\"\n",
        forge.port,
        bare.display()
    );
    dir.write("ftl.toml", settings);
    (dir, remote, forge)
}

fn code(dir: &Dir, token: &str) -> CommandOutcome {
    with(dir, token, &["code", super::STORY, "--json"])
}

fn with(dir: &Dir, token: &str, args: &[&str]) -> CommandOutcome {
    let mut command = dir.command(args);
    command.env("FORGE_TOKEN", token);
    ended(command)
}

/// Starts a story; the process, and where its run is once it is suspended.
fn suspended(dir: &Dir) -> (Child, String) {
    let mut command = dir.command(&["code", super::STORY, "--json"]);
    command.env("FORGE_TOKEN", TOKEN).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    until("it is suspended", || {
        dir.count("SELECT count(*) FROM entries WHERE CAST(body AS TEXT) LIKE '%\"suspended\"%'") > 0
    });
    let run = dir.ftl(&["status", "--json"]).code(0).json()["runs"][0]["run"].as_str().unwrap().to_owned();
    (child, run)
}

/// Kills a process at once, as a power cut would.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_story_is_merged_through_a_pull_request() {
    let (dir, remote, forge) = repository(&content());
    // Once nobody answers.
    forge.state.lock().unwrap().fails = vec![Fails::With(502)];
    let done = code(&dir, TOKEN).code(0);
    let run = run_of(&done);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
    let bare = Dir::at(&remote.path("bare.git"));
    assert_eq!(bare.git(&["show", "master:a.txt"]), "done\n");
    std::mem::forget(bare);
    assert_eq!(dir.read("a.txt"), "a\n", "what the person has stays as it is");
    let report = done.json()["report"].to_string();
    assert!(report.contains("merged as pull request 1 (http://forge.example/pull/1)"), "{report}");
    let commit = done.json()["report"]["commit"].as_str().unwrap().to_owned();
    assert_eq!(dir.git(&["rev-parse", &format!("ftl/{run}")]).trim(), commit);
    let asked: Vec<String> =
        forge.list_requests().into_iter().filter(|one| !one.contains("/commits/")).collect();
    let wanted =
        ["POST /repos/ada/till/pulls", "PUT /repos/ada/till/pulls/1/merge", "GET /repos/ada/till/pulls/1"];
    assert_eq!(asked[2..], wanted.map(str::to_owned));
    assert!(!format!("{done:?}").contains(TOKEN));
    let found = Command::new("grep").args(["-rlF", TOKEN, "."]).current_dir(dir.path(".")).output().unwrap();
    assert!(found.stdout.is_empty(), "the token stands in {found:?}");
}

#[test]
fn what_others_merged_meanwhile_is_a_conflict_with_both_sides() {
    let scenes = [
        codes("\"path\": \"a.txt\"", "printf 'theirs\\ndone\\n' > a.txt"),
        says("plan_review", "", "APPROVE", "good"),
    ];
    let (dir, remote, _forge) = repository(&[&scenes[..], &content()].concat());
    // Somebody else pushes to the same line.
    let other = remote.path("other");
    dir.git(&["clone", "-q", remote.path("bare.git").to_str().unwrap(), other.to_str().unwrap()]);
    let there = Dir::at(&other);
    there.write("a.txt", "theirs\n");
    there.git(&["-c", "user.name=Bob", "-c", "user.email=bob@example.org", "commit", "-qam", "theirs"]);
    there.git(&["push", "-q", "origin", "HEAD:master"]);
    std::mem::forget(there);
    let run = run_of(&code(&dir, TOKEN).code(0));
    let edges = walked(&dir, &run);
    assert!(edges.contains(&"AWAIT_MERGE CODING".to_owned()), "{edges:?}");
    let told = prompts(&dir, &run, "coder", "code").remove(1);
    assert!(told.contains("theirs") && told.contains("done"), "{told}");
    let bare = Dir::at(&remote.path("bare.git"));
    assert_eq!(bare.git(&["show", "master:a.txt"]), "theirs\ndone\n");
    assert_eq!(bare.git(&["rev-list", "--count", "master"]).trim(), "3");
    std::mem::forget(bare);
}

#[test]
fn a_pull_request_that_is_not_merged_is_an_error_that_says_so() {
    let (dir, remote, forge) = repository(&content());
    forge.state.lock().unwrap().refuses = Some(405);
    let done = code(&dir, TOKEN).code(1);
    let run = run_of(&done);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE ERROR");
    let reason = done.json()["report"]["reason"].as_str().unwrap().to_owned();
    let wanted =
        "cannot be merged: the forge answers 405: Pull Request is not mergeable; the work is on ftl/";
    assert!(reason.contains(wanted), "{reason}");
    let bare = Dir::at(&remote.path("bare.git"));
    assert_eq!(bare.git(&["show", &format!("ftl/{run}:a.txt")]), "done\n", "nothing is lost");
    std::mem::forget(bare);
    // The wrong token, and none: said by the forge, or before anything is opened.
    let (dir, _remote, _forge) = repository(&content());
    let done = code(&dir, "wrong").code(1);
    assert!(done.json()["report"]["reason"].as_str().unwrap().contains("401: Bad credentials"), "{done:#?}");
    dir.ftl(&["code", super::STORY]).code(1).says(&["forge.token_env names FORGE_TOKEN, and it is not set"]);
}

#[test]
fn a_forge_that_does_not_answer_is_waited_for_and_no_story_ends_by_it() {
    let table = [Fails::With(500), Fails::With(503), Fails::With(429), Fails::Later(403), Fails::HangsUp];
    for fails in table {
        let (dir, remote, forge) = repository(&content());
        forge.state.lock().unwrap().fails = vec![fails; 100];
        let (child, run) = suspended(&dir);
        until("it says so", || dir.status(&run)["standing"] == "suspended");
        kill(child);
        // It goes on where it was, once somebody answers.
        forge.state.lock().unwrap().fails.clear();
        let done = with(&dir, TOKEN, &["resume", &run, "--json"]).code(0);
        assert_eq!(done.json()["standing"], "complete", "{fails:?}");
        let entries = dir.entries(&run);
        let of = |fact: &str| entries.iter().filter(|one| one["fact"] == fact).collect::<Vec<_>>();
        let service = of("suspended")[0]["service"].as_str().unwrap().to_owned();
        assert!(service.starts_with("the forge at http://127.0.0.1:"), "{fails:?}: {service}");
        assert!(!of("paid").iter().any(|paid| paid.to_string().contains("attempts")), "{fails:?}");
        assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE", "{fails:?}");
        let bare = Dir::at(&remote.path("bare.git"));
        assert_eq!(bare.git(&["show", "master:a.txt"]), "done\n", "{fails:?}");
        std::mem::forget(bare);
        assert_eq!(forge.state.lock().unwrap().pulls.len(), 1, "{fails:?}");
    }
}

#[test]
fn a_forge_that_refuses_connections_is_waited_for_by_git_too() {
    // A port that is taken and on which nobody listens.
    let taken =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    rustix::net::bind(&taken, &any).unwrap();
    let address = std::net::SocketAddr::try_from(rustix::net::getsockname(&taken).unwrap()).unwrap();
    for what in ["url", "remote"] {
        let (dir, _remote, _forge) = repository(&content());
        let good = dir.read("ftl.toml");
        let line = good.lines().find(|line| line.starts_with(&format!("{what} = "))).unwrap();
        dir.write("ftl.toml", good.replace(line, &format!("{what} = \"http://{address}/ada/till\"")));
        let (child, run) = suspended(&dir);
        until("it says why", || dir.ftl(&["why", &run]).out.contains("the forge at http://127.0.0.1:"));
        kill(child);
        dir.write("ftl.toml", good);
        with(&dir, TOKEN, &["resume", &run, "--json"]).code(0);
        assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE", "{what}");
    }
}

const RUNNING: (&str, &str, &str) = ("build", "in_progress", "");
const GREEN: (&str, &str, &str) = ("build", "completed", "success");

#[test]
fn checks_that_still_run_are_waited_for() {
    let (dir, _remote, forge) = repository(&content());
    forge.state.lock().unwrap().checks = vec![vec![RUNNING], vec![RUNNING], vec![GREEN]];
    let done = code(&dir, TOKEN).code(0);
    let run = run_of(&done);
    assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
    let log = dir.ftl(&["log", &run]).code(0).out;
    assert!(
        log.contains("pull request 1 (http://forge.example/pull/1), which waits for build, is not ready"),
        "{log}"
    );
    assert!(done.json()["report"].to_string().contains("merged as pull request 1"), "{done:#?}");
    assert_eq!(forge.state.lock().unwrap().merges, 1);
}

#[test]
fn red_checks_are_a_merge_that_failed_and_are_named() {
    let red = ("lint", "completed", "failure");
    let table: [(Vec<Vec<_>>, Vec<_>, &str); 3] = [
        (vec![vec![GREEN, red]], vec![], "its checks failed: lint;"),
        (vec![vec![RUNNING], vec![RUNNING, red]], vec![], "its checks failed: lint;"),
        (vec![], vec![("ci/old", "error"), ("ci/new", "success")], "its checks failed: ci/old;"),
    ];
    for (checks, statuses, wanted) in table {
        let (dir, _remote, forge) = repository(&content());
        {
            let mut state = forge.state.lock().unwrap();
            (state.checks, state.statuses) = (checks, statuses);
        }
        let done = code(&dir, TOKEN).code(1);
        let reason = done.json()["report"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(wanted), "{reason}");
        assert_eq!(walked(&dir, &run_of(&done)).last().unwrap(), "AWAIT_MERGE ERROR");
        assert_eq!(forge.state.lock().unwrap().merges, 0);
    }
}

#[test]
fn a_pull_request_that_is_never_ready_is_held_and_a_person_can_go_on() {
    // A check that never ends, and a review that nobody has given.
    let table: [(Vec<Vec<_>>, Option<&str>, &str); 2] = [
        (vec![vec![RUNNING]], None, "still waits for build, after 1s"),
        (vec![], Some("blocked"), "a check that has not begun, or a review (the forge answers 405"),
    ];
    for (checks, says, wanted) in table {
        let (dir, _remote, forge) = repository(&content());
        let settings = dir.read("ftl.toml").replace("[forge]\n", "[forge]\nchecks = \"1s\"\n");
        dir.write("ftl.toml", settings);
        {
            let mut state = forge.state.lock().unwrap();
            (state.checks, state.says) = (checks, says);
        }
        let run = run_of(&code(&dir, TOKEN).code(3));
        assert_eq!(dir.status(&run)["standing"], "held");
        dir.ftl(&["why", &run]).code(0).says(&[wanted, &format!("ftl resume {run}"), "forge.checks"]);
        {
            let mut state = forge.state.lock().unwrap();
            (state.checks, state.says) = (vec![vec![GREEN]], None);
        }
        with(&dir, TOKEN, &["resume", &run, "--json"]).code(0);
        assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE");
        let state = forge.state.lock().unwrap();
        assert_eq!((state.merges, state.pulls.len()), (1, 1));
    }
    // The limit has a limit.
    let (dir, _remote, _forge) = repository(&content());
    dir.write("ftl.toml", dir.read("ftl.toml").replace("[forge]\n", "[forge]\nchecks = \"8d\"\n"));
    with(&dir, TOKEN, &["code", super::STORY]).code(1).says(&["forge.checks"]);
}

/// What was asked of a forge for a story whose checks run at first.
fn asked_unharmed() -> usize {
    let (dir, _remote, forge) = repository(&content());
    forge.state.lock().unwrap().checks = vec![vec![RUNNING], vec![GREEN]];
    code(&dir, TOKEN).code(0);
    let asked = forge.list_requests();
    assert_eq!(asked.last().unwrap(), "GET /repos/ada/till/pulls/1", "{asked:#?}");
    asked.len()
}

#[test]
fn killed_at_any_request_a_story_is_merged_once_through_one_pull_request() {
    // Each request: before the forge has done what it was asked for, and after it, before the answer is heard.
    let all = asked_unharmed();
    let deaths = (1..=all).flat_map(|at| [(at, false), (at, true)]);
    for kills in deaths {
        let (dir, remote, forge) = repository(&content());
        {
            let mut state = forge.state.lock().unwrap();
            (state.checks, state.kills) = (vec![vec![RUNNING], vec![GREEN]], Some(kills));
            let mut command = dir.command(&["code", super::STORY, "--json"]);
            command.env("FORGE_TOKEN", TOKEN).stdout(Stdio::null()).stderr(Stdio::null());
            state.client = Some(command.spawn().unwrap());
        }
        until("it is killed", || forge.state.lock().unwrap().client.is_none());
        let done = with(&dir, TOKEN, &["resume", "--json"]).code(0);
        assert_eq!(done.json()["standing"], "complete", "{kills:?}: {done:#?}");
        let run = run_of(&done);
        assert_eq!(walked(&dir, &run).last().unwrap(), "AWAIT_MERGE DONE", "{kills:?}");
        let state = forge.state.lock().unwrap();
        assert_eq!((state.pulls.len(), state.merges), (1, 1), "{kills:?}: {:#?}", state.asked);
        let bare = Dir::at(&remote.path("bare.git"));
        assert_eq!(bare.git(&["show", "master:a.txt"]), "done\n", "{kills:?}");
        assert_eq!(bare.git(&["rev-list", "--count", "master"]).trim(), "2", "{kills:?}");
        std::mem::forget(bare);
    }
}

/// An architect that makes two stories of a document.
fn two_stories() -> Vec<String> {
    let tasks = json!([
        { "seq": "001", "slug": "first-thing", "delta": ["a.txt"], "verify": "grep -q done a.txt", "depends": "none" },
        { "seq": "002", "slug": "second-thing", "delta": ["b.txt"], "verify": "grep -q done b.txt", "depends": ["001"] },
    ]);
    let plan = json!({ "objective": "all is done", "tasks": tasks });
    let makes = format!(
        "[[scene]]\nrole = \"planner\"\n[[scene.step]]\n\
         submit = {{ text = '''Decision: PROCEED\n\n```json\n{plan}\n```\n''' }}\n"
    );
    let scenes =
        [makes, codes("First thing", "echo done > a.txt"), codes("Second thing", "echo done > b.txt")];
    [&scenes[..], &content()].concat()
}

#[test]
fn the_stories_of_a_document_are_merged_through_one_pull_request() {
    for (how, words) in [("pull-request", &[][..]), ("ask", &["--land", "pull-request"])] {
        let (dir, remote, forge) = repository(&two_stories());
        let settings = dir.read("ftl.toml").replace("how = \"pull-request\"", &format!("how = \"{how}\""));
        dir.write("ftl.toml", settings.replace(TESTED, ""))
            .write("spec.md", "# The files\n\nBoth say done.\n");
        // Somebody else pushed something to another file meanwhile.
        let other = remote.path("other");
        dir.git(&["clone", "-q", remote.path("bare.git").to_str().unwrap(), other.to_str().unwrap()]);
        let there = Dir::at(&other);
        there.write("c.txt", "theirs\n");
        there.git(&["add", "c.txt"]);
        there.git(&["-c", "user.name=Bob", "-c", "user.email=bob@example.org", "commit", "-qm", "theirs"]);
        there.git(&["push", "-q", "origin", "HEAD:master"]);
        forge.state.lock().unwrap().checks = vec![vec![RUNNING], vec![GREEN]];
        let go = [&["code", "--from", "spec.md", "--json"], words].concat();
        let done = with(&dir, TOKEN, &go).code(0);
        assert_eq!(done.json()["report"]["landed"].as_array().unwrap().len(), 2, "{done:#?}");
        let bare = Dir::at(&remote.path("bare.git"));
        let show = |file: &str| bare.git(&["show", &format!("master:{file}")]);
        assert_eq!(
            (show("a.txt"), show("b.txt"), show("c.txt")),
            ("done\n".into(), "done\n".into(), "theirs\n".into())
        );
        std::mem::forget(bare);
        let state = forge.state.lock().unwrap();
        assert_eq!((state.pulls.len(), state.merges), (1, 1), "{:#?}", state.asked);
        assert_eq!(state.pulls[0]["title"], "Work of 2 tasks");
        assert_eq!((dir.read("a.txt"), done.err.contains("nobody was asked")), ("a\n".to_owned(), false));
    }
}

#[test]
fn stories_that_the_forge_does_not_merge_are_held_and_can_be_tried_again() {
    let (dir, remote, forge) = repository(&two_stories());
    dir.write("ftl.toml", dir.read("ftl.toml").replace(TESTED, ""))
        .write("spec.md", "# The files\n\nBoth say done.\n");
    // What is missing is said before anything is opened.
    dir.ftl(&["code", "--from", "spec.md"])
        .code(1)
        .says(&["forge.token_env names FORGE_TOKEN, and it is not set"]);
    forge.state.lock().unwrap().checks = vec![vec![("lint", "completed", "failure")]];
    let run = run_of(&with(&dir, TOKEN, &["code", "--from", "spec.md", "--json"]).code(3));
    dir.ftl(&["why", &run]).code(0).says(&["its checks failed: lint", &format!("ftl resume {run}")]);
    let bare = Dir::at(&remote.path("bare.git"));
    assert_eq!(
        bare.git(&["show", &format!("ftl/{run}:b.txt")]),
        "done\n",
        "the work is on the pushed branch"
    );
    forge.state.lock().unwrap().checks = vec![vec![GREEN]];
    with(&dir, TOKEN, &["resume", &run, "--json"]).code(0);
    assert_eq!(bare.git(&["show", "master:b.txt"]), "done\n");
    std::mem::forget(bare);
    let state = forge.state.lock().unwrap();
    assert_eq!((state.pulls.len(), state.merges), (1, 1), "{:#?}", state.asked);
}
