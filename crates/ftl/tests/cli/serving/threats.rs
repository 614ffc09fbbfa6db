//! Every row of the table in `docs/serve.md`, as a request by hand.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::json;

use super::Page;
use crate::runs::ASK;
use crate::support::{Dir, until};

fn asks() -> (Dir, String) {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", "objective=x"]);
    (dir, run)
}

#[test]
fn a_ticket_is_good_once_and_a_token_is_needed_for_everything() {
    let (dir, _) = asks();
    let page = Page::open(&dir, &[]);
    for path in ["needs", "runs", "openapi.json", "events"] {
        assert_eq!(page.get(path).status, 401, "{path}");
    }
    let ticket = json!({ "ticket": page.ticket() });
    assert_eq!(page.post("session", &ticket).status, 200);
    assert_eq!(page.post("session", &ticket).status, 401, "a second use");
    let forged = page.headers() + "Authorization: Bearer 0000\r\n";
    assert_eq!(page.raw(&format!("GET /api/v1/needs HTTP/1.1\r\n{forged}\r\n")).status, 401);
}

#[test]
fn five_wrong_tickets_close_the_right_one() {
    let (dir, _) = asks();
    let page = Page::open(&dir, &[]);
    for _ in 0..5 {
        assert_eq!(page.post("session", &json!({ "ticket": "guess" })).status, 401);
    }
    assert_eq!(page.post("session", &json!({ "ticket": page.ticket() })).status, 401);
}

#[test]
fn only_this_machines_own_names_are_answered_to() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    let port = page.port;
    let ask = |path: &str, host: &str| {
        let own = page.headers().replace(&format!("Host: 127.0.0.1:{port}\r\n"), host);
        page.raw(&format!("GET {path} HTTP/1.1\r\n{own}\r\n")).status
    };
    for path in ["/api/v1/needs", "/", "/app.js"] {
        assert_eq!(ask(path, &format!("Host: localhost:{port}\r\n")), 200, "{path}");
        assert_eq!(
            ask(path, &format!("Host: evil.example:{port}\r\n")),
            421,
            "a name that points here: {path}"
        );
        assert_eq!(ask(path, &format!("Host: 127.0.0.1.evil.example:{port}\r\n")), 421, "{path}");
        assert_eq!(ask(path, "Host: 127.0.0.1\r\n"), 421, "another port: {path}");
        assert_eq!(ask(path, ""), 400, "no host: {path}");
        assert_eq!(
            ask(path, &format!("Host: localhost:{port}\r\nHost: evil.example\r\n")),
            400,
            "two: {path}"
        );
    }
}

#[test]
fn what_changes_something_is_json_from_our_own_page_whole() {
    let (dir, run) = asks();
    let page = Page::session(&dir, &[]);
    let body = json!({ "order": { "order": "resume", "instance": 0 } }).to_string();
    let length = body.len();
    let send = |more: &str, own: &str, body: &str| {
        page.raw(&format!("POST /api/v1/runs/{run}/orders HTTP/1.1\r\n{own}{more}\r\n{body}")).status
    };
    let own = page.headers();
    let no_origin = own.replace(&format!("Origin: http://127.0.0.1:{}\r\n", page.port), "");
    let other = own.replace("Origin: http://127.0.0.1", "Origin: http://evil.example");
    let json = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    let text = format!("Content-Type: text/plain\r\nContent-Length: {length}\r\n");
    assert_eq!(send(&json, &no_origin, &body), 403, "no origin");
    assert_eq!(send(&json, &other, &body), 403, "another origin");
    assert_eq!(send(&text, &own, &body), 415, "a form can send text");
    assert_eq!(send(&format!("{json}Sec-Fetch-Site: cross-site\r\n"), &own, &body), 403);
    let pieces = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let chunked = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(send(chunked, &own, &pieces), 411, "no chunked bodies");
    let large = "x".repeat(1024 * 1024 + 1);
    let much = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", large.len());
    assert_eq!(send(&much, &own, &large), 413, "a body of more than a MiB");
    assert_eq!(
        send(&format!("{json}X-Long: {}\r\n", "x".repeat(20_000)), &own, &body),
        431,
        "headers of 20 kB"
    );
    assert_eq!(dir.status(&run)["standing"], "waiting", "nothing of it was taken");
}

#[test]
fn the_policy_stands_in_every_answer_and_nothing_is_kept() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    for path in ["/", "/app.js", "/nothing", "/api/v1/needs", "/api/v1/nothing"] {
        let head = page.raw(&format!("GET {path} HTTP/1.1\r\n{}\r\n", page.headers())).head.to_lowercase();
        for word in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(head.contains(word), "{path} has no {word}: {head}");
        }
        assert!(!head.contains("set-cookie") && !head.contains("access-control-allow"), "{head}");
    }
}

#[test]
fn it_listens_on_loopback_alone() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    let rows =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let port = format!(":{:04X}", page.port);
    let all = rows.iter().flat_map(|rows| rows.lines());
    let listens: Vec<&str> = all
        .filter(|row| row.split_ascii_whitespace().nth(3) == Some("0A"))
        .filter_map(|row| row.split_ascii_whitespace().nth(1))
        .filter(|local| local.ends_with(&port))
        .collect();
    assert!(!listens.is_empty());
    for local in listens {
        let loopback =
            local.starts_with("0100007F:") || local.starts_with("00000000000000000000000001000000:");
        assert!(loopback, "{local}");
    }
}

/// A program that asks the page with everything that our own page would send, and prints the first line that comes back.
fn asking(page: &Page) -> String {
    let request = format!("GET /api/v1/needs HTTP/1.1\r\n{}\r\n", page.headers());
    let lines = request.replace("\r\n", "\\r\\n");
    format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf '{lines}' >&3; head -n 1 <&3", page.port)
}

#[ftl_needs::needs(bash)]
#[test]
fn whoever_is_marked_as_an_agents_process_gets_nothing() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    let ask = |mark: bool| {
        let mut bash = Command::new("bash");
        bash.args(["-c", &asking(&page)]).stdin(Stdio::null());
        if mark {
            bash.env("FTL_ATTEMPT", "abcdefgh.1");
        }
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    assert!(ask(false).contains(" 200 "), "{}", ask(false));
    assert!(ask(true).contains(" 403 "), "{}", ask(true));
}

#[ftl_needs::needs(bash)]
#[test]
fn whoever_is_below_a_guard_gets_nothing_with_or_without_the_mark() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    for (name, before) in [("plain", ""), ("clean", "env -i PATH=\"$PATH\" "), ("away", "setsid -w ")] {
        let script =
            format!("{before}bash -c \"$(cat {0}/ask.sh)\" > {0}/{name}.txt", dir.path("").display());
        dir.write("ask.sh", asking(&page));
        dir.protocol(name, &format!("STATE: START\n  DO: sh {}\n  RETURN: complete\n", json!(script)));
        dir.ftl(&["run", name]);
        let said = dir.read(&format!("{name}.txt"));
        assert!(said.contains(" 403 "), "{name}: {said:?}");
    }
}

#[ftl_needs::needs(bash, root)]
#[test]
fn another_user_of_the_machine_gets_nothing() {
    use std::os::unix::process::CommandExt as _;
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    let mut bash = Command::new("bash");
    bash.args(["-c", &asking(&page)]).stdin(Stdio::null()).current_dir("/").uid(65_534).gid(65_534);
    let said = String::from_utf8(bash.output().unwrap().stdout).unwrap();
    assert!(said.contains(" 403 "), "{said}");
}

#[ftl_needs::needs(chromium)]
#[test]
fn a_browser_below_a_guard_is_shown_no_page() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    let profile = dir.path("profile").display().to_string();
    let flags =
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking";
    let browse = |out: &str| {
        format!(
            "chromium {flags} --user-data-dir={profile} --dump-dom http://127.0.0.1:{}/ > {out}",
            page.port
        )
    };
    let out = dir.path("below.html").display().to_string();
    let script = json!(browse(&out));
    dir.protocol("browse", &format!("STATE: START\n  DO: sh {script}\n  RETURN: complete\n"));
    dir.ftl(&["run", "browse"]);
    let said = dir.read("below.html");
    assert!(said.contains("process tree") && !said.contains("app.js"), "{said}");
    let beside = dir.path("beside.html").display().to_string();
    let mut shell = Command::new("sh");
    shell.args(["-c", &browse(&beside)]).stdin(Stdio::null()).stderr(Stdio::null());
    assert!(shell.status().unwrap().success());
    assert!(dir.read("beside.html").contains("app.js"), "a person's browser is shown the page");
}

#[test]
fn a_body_that_does_not_arrive_keeps_no_connection_for_ever() {
    let (dir, run) = asks();
    let page = Page::session(&dir, &[]);
    let own = page.headers();
    let head = format!(
        "POST /api/v1/runs/{run}/orders HTTP/1.1\r\n{own}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    assert_eq!(page.raw(&head).status, 408, "the rest of the body never comes");
    assert_eq!(page.raw("GET / HTTP/1.1\r\nHost").status, 0, "the rest of the headers never comes");
}

#[test]
fn so_many_connections_are_open_and_the_next_is_closed() {
    let (dir, _) = asks();
    let page = Page::session(&dir, &[]);
    let mut open: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(("127.0.0.1", page.port)).unwrap()).collect();
    // Whoever has been accepted holds a place; one that came too late is closed without an answer.
    until("the next one is closed", || page.get("needs").status == 0);
    for stream in &mut open {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    }
    drop(open);
    until("there is room again", || page.get("needs").status == 200);
}

#[test]
fn hostile_words_stay_words() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let hostile = "</script><img src=x onerror=alert(1)>\u{202e}gnp";
    let (run, _) = dir.run(&["ask", &format!("objective={hostile}")]);
    let page = Page::session(&dir, &[]);
    let one = page.get(&format!("runs/{run}"));
    assert_eq!(one.json()["run"]["title"], hostile, "the answer carries what was said");
    assert!(one.head.to_lowercase().contains("content-type: application/json"));
    dir.ftl(&["export", &run, "--html", "-o", "x.html"]).code(0);
    let text = dir.read("x.html");
    assert!(!text.contains("<img src=x"), "no text in the file is markup");
    assert_eq!(text.matches("</script>").count(), 2, "and none ends an element");
}
