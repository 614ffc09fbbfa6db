//! What people are told of when they do not look: by a command, a webhook, ntfy and the terminal; once, and never on the way of a run.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ftl_store::SqliteStore;
use ftl_store::notebook::{Notebook as _, Notes};
use serde_json::{Value as Json, json};

use crate::campaigns::{GO, builds, repository, task};
use crate::live::Terminal;
use crate::runs::ASK;
use crate::serving::Page;
use crate::support::Dir;

/// Somebody on loopback who takes what is posted, and answers with these statuses in turn, the last one for ever.
struct Taker {
    address: String,
    posted: Receiver<(String, String)>,
}

impl Taker {
    fn answering(statuses: &'static [u16]) -> Taker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/topic", listener.local_addr().unwrap());
        let (tell, posted) = channel();
        std::thread::spawn(move || {
            let mut left = statuses.iter().copied();
            let mut status = 200;
            for stream in listener.incoming().map_while(Result::ok) {
                status = left.next().unwrap_or(status);
                let Some(request) = read(stream, status) else { continue };
                if tell.send(request).is_err() {
                    return;
                }
            }
        });
        Taker { address, posted }
    }

    #[track_caller]
    fn next(&self) -> (String, String) {
        self.posted.recv_timeout(Duration::from_secs(30)).unwrap()
    }
}

/// Reads a request whole and answers it: its head and its body.
fn read(mut stream: TcpStream, status: u16) -> Option<(String, String)> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).ok()?;
                return Some((head, body.to_owned()));
            }
        }
        match stream.read(&mut piece).ok()? {
            0 => return None,
            read => all.extend_from_slice(&piece[..read]),
        }
    }
}

/// A file as far as it is there.
fn text(dir: &Dir, name: &str) -> String {
    std::fs::read_to_string(dir.path(name)).unwrap_or_default()
}

fn settings(dir: &Dir, more: &str) {
    let before = text(dir, ".ftl/config.toml");
    dir.write(".ftl/config.toml", format!("{before}\n[notify]\n{more}"));
}

/// What waits in the outbox is due at once: nobody waits a minute for it.
fn make_due(dir: &Dir) {
    let store = SqliteStore::open(&dir.path(".ftl/store")).unwrap();
    let due = |body: &str| {
        let mut note: Json = serde_json::from_str(body).unwrap();
        for (_, left) in note["left"].as_object_mut().unwrap() {
            left["not_before"] = json!(0);
        }
        note.to_string()
    };
    let mut count = 0;
    let mut work = |notes: &mut dyn Notes| {
        let all = notes.all("notice")?;
        count = all.len();
        all.iter().try_for_each(|(key, body)| notes.put("notice", key, &due(body)))?;
        Ok(true)
    };
    store.amend(&mut work).unwrap();
    assert_eq!(count, 1, "it waits in the outbox");
}

/// The kinds that a message tells of.
fn kinds(document: &Json) -> Vec<String> {
    let all = document["notices"].as_array().unwrap();
    all.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_question_is_told_without_its_words_and_signed() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let taker = Taker::answering(&[200]);
    settings(&dir, &format!("webhook = \"{}\"\nwebhook_key_env = \"HOOK_KEY\"\n", taker.address));
    let ended =
        dir.command(&["run", "ask", "objective=x", "--json"]).env("HOOK_KEY", "test-key").output().unwrap();
    let run: Json = serde_json::from_slice(&ended.stdout).unwrap();
    let (head, body) = taker.next();
    let told: Json = serde_json::from_str(&body).unwrap();
    assert_eq!(kinds(&told), ["needs_you"], "{told}");
    assert_eq!(told["notices"][0]["run"], run["run"]);
    assert!(!body.contains("Good?"), "the words of the question stay here: {body}");
    let signature = ftl_notify::hmac_sha256(b"test-key", body.as_bytes());
    assert!(head.contains(&format!("ftl-signature-256: sha256={signature}")), "{head}");
    assert!(head.contains("ftl-delivery: "), "{head}");
    // What was told is not told again.
    dir.ftl(&["answer", run["run"].as_str().unwrap(), "yes"]);
    let told: Json = serde_json::from_str(&taker.next().1).unwrap();
    assert_eq!(kinds(&told), ["ended"], "{told}");
}

#[test]
fn what_nobody_takes_is_sent_by_the_next_driver() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let taker = Taker::answering(&[503, 200]);
    settings(
        &dir,
        &format!("ntfy = \"{}\"\nwords = true\npage = \"http://127.0.0.1:7717\"\n", taker.address),
    );
    let (first, _) = dir.run(&["ask", "objective=x"]);
    let (head, body) = taker.next();
    assert!(head.contains("priority: 4") && head.contains("click: http://127.0.0.1:7717/#/"), "{head}");
    assert!(body.contains("Good?"), "the words were asked for: {body}");
    make_due(&dir);
    let (second, _) = dir.run(&["ask", "objective=y"]);
    let (_, body) = taker.next();
    assert!(body.contains(&first) && body.contains(&second), "{body}");
}

#[test]
fn a_command_hears_of_what_has_landed_and_may_hang() {
    let tasks = [task("001", "good", "a.txt", &[]), task("002", "bad", "b.txt", &["001"])];
    let dir = repository(
        &tasks,
        &[builds("001-good", "a.txt", "done", "true"), builds("002-bad", "b.txt", "wrong", "true")],
    );
    settings(&dir, "command = \"cat >> heard.json; sleep 600\"\nevery = \"0s\"\n");
    let ended = crate::campaigns::go(&dir, &[]);
    assert!(ended.json()["run"].is_string(), "{ended:?}");
    let heard = text(&dir, "heard.json");
    let first: Json = serde_json::from_str(heard.lines().next().unwrap()).unwrap();
    assert_eq!(first["version"], json!(1));
    assert!(kinds(&first).contains(&String::from("landed")), "{first}");
}

#[test]
fn the_terminal_rings() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    settings(&dir, "terminal = true\n");
    let (_, text) = Terminal::start(&dir, &["run", "ask", "objective=x"], (80, 24)).ended();
    assert!(text.contains("\u{1b}]9;") && text.contains("asks in") && text.contains('\u{7}'), "{text:?}");
}

#[test]
fn a_repository_tells_nobody_whom_to_tell() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    dir.write("ftl.toml", "[notify]\ncommand = \"touch stolen\"\n");
    let refused = dir.ftl(&["run", "ask", "objective=x"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("[notify]") && refused.err.contains(".ftl/config.toml"), "{refused:?}");
    assert!(!dir.path("stolen").exists());
}

#[test]
fn whoever_looks_at_the_page_gets_no_message() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let taker = Taker::answering(&[200]);
    settings(&dir, &format!("webhook = \"{}\"\n", taker.address));
    let page = Page::session(&dir, &[]);
    assert_eq!(page.post("looks", &json!({})).status, 200);
    dir.run(&["ask", "objective=x"]);
    // The command waits for what it has to send: nothing comes after it.
    assert!(taker.posted.try_recv().is_err());
}

#[test]
fn only_events_that_are_wanted_are_told() {
    let tasks = [task("001", "good", "a.txt", &[])];
    let dir = repository(&tasks, &[builds("001-good", "a.txt", "done", "true")]);
    let taker = Taker::answering(&[200]);
    settings(&dir, &format!("webhook = \"{}\"\nevents = [\"ended\"]\n", taker.address));
    dir.ftl(&GO);
    let told: Json = serde_json::from_str(&taker.next().1).unwrap();
    assert_eq!(kinds(&told), ["ended"]);
    assert!(told["notices"][0]["text"].as_str().unwrap().contains("1 of 1 tasks landed"), "{told}");
}
