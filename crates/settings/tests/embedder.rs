//! Lessons with an embeddings endpoint: a real server on loopback that answers, lies and goes away.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::state_folder::StateFolder;
use ftl_memory::StoredKind;
use ftl_records::lessons::now;
use ftl_records::{RecordError, Records};
use ftl_settings::config::Config;
use ftl_store::SqliteStore;

/// What a server answers to a request: status and body; nothing cuts the connection.
type Answer = Box<dyn Fn(usize, &str) -> Option<(u16, String)> + Send>;

struct Server {
    url: String,
    asked: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<String>>>,
}

/// A server that lives as long as the test's process.
fn server(answer: Answer) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/embeddings", listener.local_addr().unwrap());
    let (asked, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, log) = (asked.clone(), heard.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let Some(request) = request(&mut stream) else { continue };
            let number = count.fetch_add(1, Ordering::SeqCst);
            let said = answer(number, &request);
            log.lock().unwrap().push(request);
            if let Some((status, body)) = said {
                let head = format!(
                    "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    Server { url, asked, heard }
}

/// The whole of a request, or nothing if it is cut.
fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let count = stream.read(&mut piece).ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// A vector of letters: the same text, the same vector.
fn letters(request: &str) -> Option<(u16, String)> {
    let body = request.split_once("\r\n\r\n")?.1;
    let mut counts = [0_u32; 26];
    for letter in body.bytes().filter(u8::is_ascii_lowercase) {
        counts[usize::from(letter - b'a')] += 1;
    }
    let numbers: Vec<String> = counts.iter().map(ToString::to_string).collect();
    Some((200, format!(r#"{{"data":[{{"embedding":[{}]}}]}}"#, numbers.join(","))))
}

fn paper(folder: &Path, settings: &str) -> Records {
    let place = StateFolder::at(folder.to_owned());
    place.prepare().unwrap();
    let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
    let mut config = Config::default();
    config.add(Path::new("config.toml"), settings).unwrap();
    Records::with(place, store, config.records())
}

fn endpoint(server: &Server) -> String {
    format!("[memory]\nembedder = \"endpoint\"\nurl = \"{}\"\nmodel = \"m\"\n", server.url)
}

fn add(paper: &Records, name: &str, trigger: &str) -> Result<String, RecordError> {
    let json = Json::parse(&format!(r#"{{"name":"{name}","trigger":"{trigger}","cost":500}}"#)).unwrap();
    paper
        .learn(|lessons| lessons.learn(StoredKind::Failure, json, &now()))
        .map(|learned| learned.outcome.word())
}

fn find_names(paper: &Records, topic: &str) -> Vec<String> {
    let rows = paper.look_up(|lessons| lessons.query(topic, 10, &now())).unwrap();
    rows.iter().map(|row| row.lesson.name().to_owned()).collect()
}

fn message(error: &RecordError) -> String {
    format!("{error} / {}", error.hint().unwrap_or_default())
}

#[test]
fn an_endpoint_makes_the_vectors_and_its_key_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Box::new(|_, request| letters(request)));
    // The name of a variable that every test process has; its value plays the key.
    let settings = format!("{}key = \"PATH\"\n", endpoint(&server));
    let paper = paper(folder.path(), &settings);
    assert_eq!(add(&paper, "one", "the linker cannot find openssl headers").unwrap(), "added");
    assert_eq!(find_names(&paper, "the linker cannot find openssl headers"), ["one"]);
    let secret = std::env::var("PATH").unwrap();
    let heard = server.heard.lock().unwrap().join("\n");
    assert!(heard.contains(&format!("Bearer {secret}")), "the endpoint gets it");
    drop(paper);
    for file in ["store/ftl.db", "memory.json"] {
        let bytes = std::fs::read(folder.path().join(".ftl").join(file)).unwrap();
        let there = bytes.windows(secret.len()).any(|piece| piece == secret.as_bytes());
        assert!(!there, "{file} must not hold it");
    }
}

#[test]
fn what_gets_no_vector_is_not_learned() {
    let folder = tempfile::tempdir().unwrap();
    let broken: [(&str, Answer); 5] = [
        ("500", Box::new(|_, _| Some((500, String::new())))),
        ("connection", Box::new(|_, _| None)),
        ("JSON", Box::new(|_, _| Some((200, String::from("<html>"))))),
        ("no vector", Box::new(|_, _| Some((200, String::from(r#"{"data":[]}"#))))),
        ("makes no sense", Box::new(|_, _| Some((200, String::from(r#"{"data":[{"embedding":[1,"x"]}]}"#))))),
    ];
    for (what, answer) in broken {
        let server = server(Box::new(
            move |number, request| {
                if number == 0 { letters(request) } else { answer(number, request) }
            },
        ));
        let paper = paper(folder.path(), &endpoint(&server));
        let error = add(&paper, "two", "a shape that nobody knows").unwrap_err();
        assert!(message(&error).contains("nothing was learned"), "{what}: {}", message(&error));
        assert!(paper.look_up(|lessons| lessons.count(StoredKind::Failure)).unwrap() == 0, "{what}");
        assert!(server.asked.load(Ordering::SeqCst) <= 3, "{what}: it is not asked for each text again");
    }
}

#[test]
fn a_vector_of_another_length_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Box::new(|number, request| {
        if number == 0 {
            letters(request)
        } else {
            Some((200, r#"{"data":[{"embedding":[1,2]}]}"#.to_owned()))
        }
    }));
    let paper = paper(folder.path(), &endpoint(&server));
    let error = add(&paper, "two", "a shape that nobody knows").unwrap_err();
    assert!(message(&error).contains("has 2 numbers, not 26"), "{}", message(&error));
}

#[test]
fn without_its_endpoint_a_memory_answers_by_words_and_learns_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Box::new(|_, request| letters(request)));
    let settings = endpoint(&server);
    add(&paper(folder.path(), &settings), "one", "ECONNREFUSED while connecting to postgres").unwrap();
    let gone = settings.replace(&server.url, "http://127.0.0.1:9/v1/embeddings");
    let paper = paper(folder.path(), &gone);
    assert_eq!(find_names(&paper, "postgres ECONNREFUSED"), ["one"]);
    assert!(paper.notices().iter().any(|notice| notice.contains("by words alone")));
    let error = add(&paper, "two", "something else entirely").unwrap_err();
    assert!(message(&error).contains("does not work"), "{}", message(&error));
}

#[test]
fn another_embedder_makes_all_vectors_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Box::new(|_, request| letters(request)));
    for number in 0..5 {
        add(
            &paper(folder.path(), ""),
            &format!("lesson-{number}"),
            &format!("failure number {number} of kind {number}{number}"),
        )
        .unwrap();
    }
    let paper = paper(folder.path(), &endpoint(&server));
    let mut seen = Vec::new();
    assert_eq!(paper.embed_again(&mut |done, total| seen.push((done, total))).unwrap(), 5);
    assert_eq!(seen.last(), Some(&(5, 5)));
    assert_eq!(paper.embed_again(&mut |_, _| panic!("there is nothing to do")).unwrap(), 0);
    assert!(!find_names(&paper, "failure number 3 of kind 33").is_empty());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, what) in [
        ("[memory]\nembedder = \"endpoint\"\n", "is no address"),
        ("[memory]\nembedder = \"endpoint\"\nurl = \"ftp://x\"\n", "is no address"),
        (
            "[memory]\nembedder = \"endpoint\"\nurl = \"http://127.0.0.1:9/\"\nkey = \"FTL_NO_SUCH_VARIABLE\"\n",
            "not set",
        ),
    ] {
        let error = add(&paper(folder.path(), settings), "x", "some trigger of a length").unwrap_err();
        assert!(message(&error).contains(what), "{}", message(&error));
    }
    let mut config = Config::default();
    let wrong = config.add(Path::new("c"), "[memory]\nembedder = \"magic\"\n").unwrap_err();
    assert!(wrong.message.contains("static, minilm, endpoint"), "{wrong}");
    assert!(config.add(Path::new("c"), "[memory]\nmodel = 3\n").is_err());
}
