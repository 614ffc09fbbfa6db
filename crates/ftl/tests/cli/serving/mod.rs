//! `ftl serve`: its API held against the forms it declares, orders that are left through it, and every row of the table of
//! threats as a request by hand.

mod browser;
mod terminal;
mod threats;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ftl_agents::schema::Schema;
use serde_json::{Value as Json, json};

use crate::campaigns::{builds, repository, task};
use crate::runs::ASK;
use crate::support::{Dir, Started, until};

/// A page that is served, and the session of a browser with it.
pub(crate) struct Page {
    pub(crate) port: u16,
    pub(crate) address: String,
    token: String,
    served: Option<Started>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Page {
    /// Serves a folder, without a session.
    pub(crate) fn open(dir: &Dir, args: &[&str]) -> Page {
        let words: Vec<&str> = ["serve", "--port", "0", "--json"].iter().chain(args).copied().collect();
        let served = dir.start(&words);
        let mut told = Json::Null;
        until("it serves", || {
            told = serde_json::from_str(&served.out()).unwrap_or_default();
            told["port"].is_u64()
        });
        let port = u16::try_from(told["port"].as_u64().unwrap()).unwrap();
        let address = told["address"].as_str().unwrap().to_owned();
        Page { port, address, token: String::new(), served: Some(served) }
    }

    /// The same with a session.
    pub(crate) fn session(dir: &Dir, args: &[&str]) -> Page {
        let mut page = Page::open(dir, args);
        let answer = page.post("session", &json!({ "ticket": page.ticket() }));
        assert_eq!(answer.status, 200, "{answer:?}");
        page.token = answer.json()["token"].as_str().unwrap().to_owned();
        page
    }

    pub(crate) fn ticket(&self) -> String {
        self.address.split_once("#ticket=").unwrap().1.to_owned()
    }

    /// Sends bytes as they are, and reads all that comes back.
    pub(crate) fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let text = String::from_utf8_lossy(&all).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The headers that our own page sends.
    pub(crate) fn headers(&self) -> String {
        let (port, token) = (self.port, &self.token);
        let session =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        format!("Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nConnection: close\r\n{session}")
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.raw(&format!("GET /api/v1/{path} HTTP/1.1\r\n{}\r\n", self.headers()))
    }

    pub(crate) fn post(&self, path: &str, body: &Json) -> Answer {
        let body = body.to_string();
        let length = body.len();
        let own = self.headers();
        self.raw(&format!(
            "POST /api/v1/{path} HTTP/1.1\r\n{own}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// The answer to a question, held against the form that the table declares for it.
    #[track_caller]
    pub(crate) fn formed(&self, path: &str, form: &str) -> Json {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let json = answer.json();
        let schema = Schema::new(ftl_web::schema(form).unwrap()).unwrap();
        assert_eq!(schema.faults(&json), Vec::<String>::new(), "{path} is not of the form {form}: {json}");
        json
    }

    /// Sends an order and waits until somebody has taken it.
    #[track_caller]
    pub(crate) fn order(&self, run: &str, body: &Json) -> Json {
        let sent = self.post(&format!("runs/{run}/orders"), body);
        assert_eq!(sent.status, 202, "{sent:?}");
        let number = sent.json()["order"].clone();
        let mut reply = Json::Null;
        until("the order is taken", || {
            reply = self.formed(&format!("orders/{number}"), "reply");
            reply["taken"] == true
        });
        reply["reply"].clone()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.served.as_ref().map_or(0, Started::pid)
    }

    /// Ends the server.
    pub(crate) fn end(&mut self) {
        drop(self.served.take());
    }
}

/// A campaign of two tasks that has ended: one landed, one blocked with kept work.
fn campaign() -> (Dir, String) {
    let tasks = [task("001", "good", "a.txt", &[]), task("002", "bad", "b.txt", &["001"])];
    let dir = repository(
        &tasks,
        &[builds("001-good", "a.txt", "done", "true"), builds("002-bad", "b.txt", "wrong", "true")],
    );
    let ended = crate::campaigns::go(&dir, &[]);
    let run = ended.json()["run"].as_str().unwrap_or_else(|| panic!("{ended:#?}")).to_owned();
    (dir, run)
}

#[test]
fn every_answer_is_of_the_form_that_the_table_declares() {
    let (dir, run) = campaign();
    let page = Page::session(&dir, &[]);
    let mut asked: Vec<&str> = vec!["session"];
    let mut check = |path: &str, route: &'static str| {
        let row =
            ftl_web::routes::ROUTES.iter().find(|row| row.path == route && row.body.is_empty()).unwrap();
        asked.push(route);
        page.formed(path, row.answer)
    };
    for (route, query) in [("needs", ""), ("runs", "?limit=5"), ("openapi.json", ""), ("protocols", "")] {
        check(&format!("{route}{query}"), route);
    }
    for route in ["lessons", "agents", "config", "doctor", "salvage"] {
        check(route, route);
    }
    check("lessons?q=the+test+fails", "lessons");
    check("lessons/nothing-of-that-name", "lessons/{name}");
    let builder = check("protocols/builder", "protocols/{name}");
    assert!(builder["shapes"]["states"].as_array().is_some_and(|states| states.len() > 5), "{builder}");
    let head = check(&format!("runs/{run}"), "runs/{run}")["head"].as_u64().unwrap();
    for part in ["why", "tasks", "graph", "timeline", "money", "report"] {
        let route = ftl_web::routes::ROUTES
            .iter()
            .find(|row| row.path == format!("runs/{{run}}/{part}"))
            .unwrap()
            .path;
        for at in [String::new(), format!("?at={}", head / 2), String::from("?at=1")] {
            check(&format!("runs/{run}/{part}{at}"), route);
        }
    }
    let entries = check(&format!("runs/{run}/entries?after=3&limit=7"), "runs/{run}/entries");
    assert_eq!((entries["rows"].as_array().unwrap().len(), &entries["rows"][0][0]), (7, &json!(4)));
    check(&format!("runs/{run}/entries/{head}"), "runs/{run}/entries/{seq}");
    let one = check(&format!("runs/{run}/tasks/001"), "runs/{run}/tasks/{seq}");
    assert_eq!(one["row"][3], "landed");
    assert!(one["verdicts"].as_array().is_some_and(|all| !all.is_empty()), "{one}");
    let talks = check(&format!("runs/{run}/talks"), "runs/{run}/talks");
    let talk = &talks["talks"][0];
    let (action, number) = (talk["action"].as_str().unwrap(), &talk["number"]);
    check(&format!("runs/{run}/talks/{action}/{number}"), "runs/{run}/talks/{action}/{number}");
    let changes = check(&format!("runs/{run}/changes"), "runs/{run}/changes");
    assert_eq!(changes["parts"][0]["files"][0]["hunks"][0]["lines"][1], json!(["+", "done"]), "{changes}");
    check(&format!("runs/{run}/changes?task=002"), "runs/{run}/changes");
    let posts = ["looks", "runs/{run}/orders", "runs/{run}/undo", "orders/{order}", "events"];
    let left = ftl_web::routes::ROUTES
        .iter()
        .map(|row| row.path)
        .filter(|path| !asked.contains(path) && !posts.contains(path));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&str>::new(), "nobody has asked for these");
}

#[test]
fn an_earlier_moment_is_what_a_fresh_fold_makes_of_it() {
    let (dir, run) = campaign();
    let page = Page::session(&dir, &[]);
    let head = page.get(&format!("runs/{run}")).json()["head"].as_u64().unwrap();
    // Forwards and backwards, so that checkpoints and replays must agree.
    let at = |entry: u64| page.get(&format!("runs/{run}/tasks?at={entry}")).json()["rows"].clone();
    let forwards: Vec<Json> = (1..=head).step_by(9).map(at).collect();
    let backwards: Vec<Json> = (1..=head).step_by(9).collect::<Vec<_>>().into_iter().rev().map(at).collect();
    assert_eq!(forwards, backwards.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(forwards[0], json!([]), "there was no plan yet");
    let now = page.get(&format!("runs/{run}/tasks")).json();
    let stands: Vec<&str> =
        now["rows"].as_array().unwrap().iter().map(|row| row[3].as_str().unwrap()).collect();
    assert_eq!(stands, ["landed", "blocked"]);
}

#[test]
fn a_question_is_answered_and_the_run_goes_on_without_the_page() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, json) = dir.run(&["ask", "objective=x"]);
    assert_eq!(json["standing"], "waiting");
    let mut page = Page::session(&dir, &["--by", "Ada"]);
    let needs = page.formed("needs", "needs")["needs"].clone();
    let need = &needs[0];
    assert_eq!((&need["run"], &need["kind"]), (&json!(run), &json!("question")), "{needs}");
    let action = need["actions"].as_array().unwrap().iter().find(|one| one["order"] == "answer").unwrap();
    assert!(action["command"].as_str().unwrap().starts_with(&format!("ftl answer {run}")), "{action}");
    let mut order = action["body"].clone();
    order["value"] = need["choices"][0].clone();
    let reply = page.order(&run, &json!({ "order": order }));
    assert_eq!(reply["refused"], Json::Null, "{reply}");
    page.end();
    until("the run has ended", || dir.status(&run)["standing"] != "running");
    let said = dir.entries(&run).iter().any(|entry| entry["by"] == "Ada via web");
    assert!(said, "the journal says who spoke");
}

#[test]
fn what_bends_a_rule_needs_a_reason_and_the_typed_name() {
    let dir = Dir::new();
    dir.protocol(
        "frail",
        "STATE: START\n  DO: sh \"exit 3\"\n  GOTO: DONE\n\nSTATE: DONE\n  RETURN: complete\n",
    );
    let (run, json) = dir.run(&["frail"]);
    assert_eq!(json["standing"], "held");
    let page = Page::session(&dir, &["--by", "Ada"]);
    let stop = |reason: &str, name: &str| {
        let order = json!({ "order": "stop", "instance": 0, "reason": reason });
        page.post(&format!("runs/{run}/orders"), &json!({ "order": order, "name": name })).status
    };
    assert_eq!((stop("", "Ada"), stop("enough", "Bob"), stop("enough", "")), (400, 400, 400));
    assert_eq!(dir.status(&run)["standing"], "held", "nothing was left");
    let order = json!({ "order": { "order": "stop", "instance": 0, "reason": "enough" }, "name": "Ada" });
    let key = "Idempotency-Key: k1\r\n";
    let body = order.to_string();
    let send = || {
        let (own, length) = (page.headers(), body.len());
        page.raw(&format!(
            "POST /api/v1/runs/{run}/orders HTTP/1.1\r\n{own}{key}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let (first, second) = (send(), send());
    assert_eq!((first.status, second.status), (202, 202), "{first:?} {second:?}");
    assert_eq!(first.json()["order"], second.json()["order"], "one key is one order");
    until("it is stopped", || dir.status(&run)["standing"] == "stopped");
}

#[test]
fn a_page_that_only_looks_takes_no_order() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let page = Page::session(&dir, &["--look"]);
    let order = json!({ "order": { "order": "resume", "instance": 0 } });
    assert_eq!(page.post(&format!("runs/{run}/orders"), &order).status, 403);
    assert_eq!(page.post("runs", &json!({ "flow": "task", "objective": "x" })).status, 403);
    assert_eq!(page.get("needs").status, 200);
}

#[test]
fn changes_reach_a_follower_as_deltas() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    let page = Page::session(&dir, &[]);
    let mut stream = TcpStream::connect(("127.0.0.1", page.port)).unwrap();
    let request = format!("GET /api/v1/events?run={run} HTTP/1.1\r\n{}\r\n", page.headers());
    stream.write_all(request.as_bytes()).unwrap();
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    let mut read_until = |word: &str| {
        while !String::from_utf8_lossy(&heard).contains(word) {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the stream has ended: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&piece[..read]);
        }
    };
    read_until("event: summary");
    dir.ftl(&["answer", &run, "yes"]);
    read_until("\"standing\":\"complete\"");
    read_until("\"needs\":[]");
}

#[test]
fn a_run_as_a_file_holds_its_journal_and_loads_nothing() {
    let (dir, run) = campaign();
    let ended = dir.ftl(&["export", &run, "--html"]).code(0);
    let file = format!("run-{run}.html");
    assert_eq!(ended.out.trim(), file);
    let text = dir.read(&file);
    for word in ["src=\"", "href=\"http", "import(", "@import"] {
        assert!(!text.replace("href=\"#main\"", "").contains(word), "{word}");
    }
    let data = text.split_once("id=\"ftl-file\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Json = serde_json::from_str(data).unwrap();
    let entries = dir.entries(&run);
    assert_eq!(data["journal"].as_array().unwrap().len(), entries.len());
    assert_eq!(data["journal"][entries.len() - 1][3], entries[entries.len() - 1]["hash"]);
}
