//! The model gate and the proxy against peers that are slow, large, crooked, or lead elsewhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use ftl_agents::contract::SessionLimits;
use ftl_agents::gate::proxy::{
    Denied, HostConnector, HostList, MAX_DENIALS, MAX_TUNNELS, Proxy, REGISTRIES, is_forbidden,
};
use ftl_agents::gate::{
    GateDialect, GateKey, GatePlace, GateRoute, GateTarget, HeadError, MAX_BODY_BYTES, MAX_HEAD_BYTES,
    MAX_HEADERS, MAX_REQUESTS, ModelGate, RequestReader, TimedRead,
};
use ftl_agents::secrets::SecretKey;
use ftl_agents::timing::RealTime;

/// What opens nothing.
const REAL: &str = "test-key";
const DUMMY: &str = "ftl-gate-0123456789abcdef";

/// A service that answers every request by a function of its head, and tells what it was asked.
fn service(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, heard) = mpsc::channel();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (told, answer) = (told.clone(), answer.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                    if line == "\r\n" {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let _ = told.send(format!("{head}{}", String::from_utf8_lossy(&body)));
                let _ = (&stream).write_all(&answer(&head));
            });
        }
    });
    (address, heard)
}

fn plain(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn target(url: &str, dialect: GateDialect) -> GateTarget {
    let real = SecretKey::of_variable("K", Some(REAL.to_owned())).unwrap();
    GateTarget {
        route: GateRoute::new(url, dialect).unwrap(),
        keys: vec![GateKey { dummy: DUMMY.to_owned(), real }],
        limits: SessionLimits {
            silence: Duration::from_secs(20),
            whole: Duration::from_secs(30),
            ..SessionLimits::default()
        },
    }
}

struct Gate {
    folder: tempfile::TempDir,
    gate: ModelGate,
}

impl Gate {
    fn to(url: &str) -> Gate {
        let folder = tempfile::tempdir().unwrap();
        let target = target(url, GateDialect::Anthropic);
        let gate = ModelGate::at_socket(&folder.path().join("g"), target, Arc::new(RealTime::new())).unwrap();
        Gate { folder, gate }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("g")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// What comes back for some bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // Whoever is refused early does not read the rest.
        let _ = stream.write_all(bytes);
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        String::from_utf8_lossy(&back).into_owned()
    }

    fn ask(&self, line: &str, headers: &str, body: &str) -> String {
        let head =
            format!("{line} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        self.raw(head.as_bytes())
    }
}

fn key() -> String {
    format!("x-api-key: {DUMMY}\r\n")
}

#[test]
fn what_is_let_through_is_a_table() {
    for (url, dialect, line, wanted) in [
        ("https://a.b", GateDialect::Anthropic, "POST /v1/messages", "https://a.b/v1/messages"),
        (
            "https://a.b/",
            GateDialect::Anthropic,
            "POST /v1/messages?beta=true",
            "https://a.b/v1/messages?beta=true",
        ),
        (
            "https://a.b",
            GateDialect::Anthropic,
            "POST /v1/messages/count_tokens",
            "https://a.b/v1/messages/count_tokens",
        ),
        ("https://a.b", GateDialect::Anthropic, "GET /v1/messages", "405"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/messagesx", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/organizations", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/chat/completions", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST http://evil.example/v1/messages", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST //evil.example/v1/messages", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/messages/../files", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/messages/%2e%2e/files", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/messages\\..\\files", "404"),
        ("https://a.b", GateDialect::Anthropic, "POST /v1/x/messages", "404"),
        ("https://a.b/v1", GateDialect::Chat, "POST /v1/chat/completions", "https://a.b/v1/chat/completions"),
        ("https://a.b/v1", GateDialect::Chat, "POST /v2/chat/completions", "404"),
        (
            "https://a.b/s/x/v1",
            GateDialect::Chat,
            "POST /s/x/v1/chat/completions",
            "https://a.b/s/x/v1/chat/completions",
        ),
        ("https://a.b/s/x/v1", GateDialect::Chat, "POST /s/y/v1/chat/completions", "404"),
        (
            "https://a.b:8443/v1",
            GateDialect::Responses,
            "POST /v1/responses",
            "https://a.b:8443/v1/responses",
        ),
        ("https://a.b/v1", GateDialect::Responses, "POST /v1/files", "404"),
        ("https://a.b/v1", GateDialect::Responses, "DELETE /v1/responses/r1", "405"),
        (
            "https://a.b",
            GateDialect::Gemini,
            "POST /v1beta/models/g-2.5:streamGenerateContent?alt=sse&key=SECRET",
            "https://a.b/v1beta/models/g-2.5:streamGenerateContent?alt=sse",
        ),
        ("https://a.b", GateDialect::Gemini, "POST /v1beta/files", "404"),
    ] {
        let (method, path) = line.split_once(' ').unwrap();
        let found = GateRoute::new(url, dialect).unwrap().target(method, path);
        let found = found.unwrap_or_else(|refusal| refusal.status().to_string());
        assert_eq!(found, wanted, "{url} {line}");
    }
}

#[test]
fn an_address_is_one_host_and_one_path() {
    for url in [
        "",
        "a.b",
        "ftp://a.b",
        "https://",
        "https://u:p@a.b",
        "https://a.b/../x",
        "https://a.b/x?y",
        "https://a b",
    ] {
        assert!(GateRoute::new(url, GateDialect::Chat).is_err(), "{url}");
    }
    let route = GateRoute::new("https://a.b/v1/", GateDialect::Chat).unwrap();
    assert_eq!(route.inside(7777), "http://127.0.0.1:7777/v1");
}

#[test]
fn the_real_key_goes_out_and_never_comes_back() {
    let (address, heard) = service(|_| plain(&format!("your key {REAL} is good")));
    let gate = Gate::to(&format!("http://{address}"));
    for header in [key(), format!("authorization: Bearer {DUMMY}\r\n")] {
        let back = gate.ask("POST /v1/messages", &format!("{header}cookie: a=b\r\n"), "{}");
        assert!(back.starts_with("HTTP/1.1 200") && back.contains("your key [hidden] is good"), "{back}");
        assert!(!back.contains(REAL));
        let asked = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(asked.contains(REAL) && !asked.contains(DUMMY) && !asked.contains("cookie"), "{asked}");
        assert!(asked.contains(&format!("host: {address}")), "{asked}");
    }
    let traffic = gate.gate.traffic();
    assert_eq!((traffic.requests, traffic.refused, traffic.sent), (2, 0, 4));
    assert_eq!(traffic.received, 2 * "your key test-key is good".len() as u64);
}

#[test]
fn whoever_does_not_send_the_dummy_is_not_listened_to() {
    let (address, heard) = service(|_| plain("x"));
    let gate = Gate::to(&format!("http://{address}"));
    for header in [
        String::new(),
        "x-api-key: other\r\n".into(),
        format!("x-other: {DUMMY}\r\n"),
        format!("x-api-key: {REAL}\r\n"),
    ] {
        let back = gate.ask("POST /v1/messages", &header, "{}");
        assert!(back.starts_with("HTTP/1.1 401"), "{header} {back}");
    }
    let back = gate.ask("POST /v1/files", &key(), "{}");
    assert!(back.starts_with("HTTP/1.1 404") && back.contains("does not lead to /v1/files"), "{back}");
    assert!(heard.try_recv().is_err(), "nothing went out");
    assert_eq!(gate.gate.traffic().refused, 5);
}

#[test]
fn redirects_are_not_followed_and_not_told() {
    let (other, reached) = service(|_| plain("elsewhere"));
    for status in [301, 302, 303, 307, 308] {
        let (address, _heard) = service(move |_| {
            format!(
                "HTTP/1.1 {status} Moved\r\nlocation: http://{other}/v1/messages\r\ncontent-length: 0\r\n\r\n"
            )
            .into_bytes()
        });
        let back = Gate::to(&format!("http://{address}")).ask("POST /v1/messages", &key(), "{}");
        assert!(back.starts_with("HTTP/1.1 502") && !back.contains("location"), "{back}");
    }
    assert!(reached.try_recv().is_err());
}

#[test]
fn a_stream_comes_as_it_is_said_and_breaks_as_it_breaks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Gate::to(&format!("http://{}", listener.local_addr().unwrap()));
    let mut client = gate.connect();
    client.write_all(format!("POST /v1/messages HTTP/1.1\r\n{}\r\n", key()).as_bytes()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut piece = [0; 4096];
    let _ = server.read(&mut piece).unwrap();
    server.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nbegin\r\n").unwrap();
    let mut seen = String::new();
    while !seen.contains("begin") {
        let read = client.read(&mut piece).unwrap();
        assert!(read > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    drop(server);
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert!(!format!("{seen}{rest}").contains("\r\n0\r\n"), "a cut stream has no end: {rest}");
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let (address, heard) = service(|_| plain("x"));
    let gate = Gate::to(&format!("http://{address}"));
    let post = "POST /v1/messages HTTP/1.1\r\n";
    for bad in [
        format!("{post}{}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", key()),
        format!("{post}{}content-length: 1\r\ncontent-length: 2\r\n\r\nab", key()),
        format!("{post}{}content-length: +1\r\n\r\na", key()),
        format!("{post}{}transfer-encoding: gzip\r\n\r\n", key()),
        format!("{post}{}transfer-encoding: chunked\r\n\r\n-1\r\n", key()),
        format!("{post}{} folded\r\n\r\n", key()),
        format!("{post}bad header: x\r\n{}\r\n", key()),
        format!("POST /v1/messages HTTP/2\r\n{}\r\n", key()),
        format!("POST  /v1/messages HTTP/1.1\r\n{}\r\n", key()),
        String::from("\u{16}\u{3}\u{1}\r\n\r\n"),
    ] {
        let back = gate.raw(bad.as_bytes());
        assert!(back.starts_with("HTTP/1.1 400"), "{bad:?}: {back}");
    }
    assert!(heard.try_recv().is_err());
    let chunked = format!(
        "{post}{}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n1;x=y\r\n \r\n0\r\nt: 1\r\n\r\n",
        key()
    );
    assert!(gate.raw(chunked.as_bytes()).starts_with("HTTP/1.1 200"));
    assert!(heard.recv_timeout(Duration::from_secs(20)).unwrap().ends_with("{} "));
}

#[test]
fn heads_and_bodies_have_limits() {
    let gate = Gate::to("http://127.0.0.1:9");
    let long = format!("POST /v1/messages HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(MAX_HEAD_BYTES));
    assert!(gate.raw(long.as_bytes()).starts_with("HTTP/1.1 431"));
    let many = format!("POST /v1/messages HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(MAX_HEADERS + 1));
    assert!(gate.raw(many.as_bytes()).starts_with("HTTP/1.1 431"));
    let large =
        format!("POST /v1/messages HTTP/1.1\r\n{}content-length: {}\r\n\r\n", key(), MAX_BODY_BYTES + 1);
    assert!(gate.raw(large.as_bytes()).starts_with("HTTP/1.1 413"));
    let large = format!(
        "POST /v1/messages HTTP/1.1\r\n{}transfer-encoding: chunked\r\n\r\n{:x}\r\n",
        key(),
        MAX_BODY_BYTES + 1
    );
    assert!(gate.raw(large.as_bytes()).starts_with("HTTP/1.1 413"));
}

/// A peer that says a byte now and then.
struct Slow(Instant);

impl std::io::Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_millis(5));
        into[0] = b'a';
        assert!(self.0.elapsed() < Duration::from_secs(20), "it is read for ever");
        Ok(1)
    }
}

impl TimedRead for Slow {
    fn wait_at_most(&mut self, _: Duration) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_peer_is_given_up_however_often_it_says_something() {
    let mut slow = Slow(Instant::now());
    let mut reader = RequestReader::new(&mut slow, Duration::from_millis(200));
    assert_eq!(reader.head().unwrap_err(), HeadError::Slow);
    assert_eq!(HeadError::Slow.status(), Some(408));
}

#[test]
fn so_many_requests_are_carried_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Gate::to(&format!("http://{}", listener.local_addr().unwrap()));
    let asking = format!("POST /v1/messages HTTP/1.1\r\n{}\r\n", key());
    let mut open = Vec::new();
    for _ in 0..MAX_REQUESTS {
        let mut client = gate.connect();
        client.write_all(asking.as_bytes()).unwrap();
        open.push((client, listener.accept().unwrap()));
    }
    assert!(gate.raw(asking.as_bytes()).starts_with("HTTP/1.1 503"));
}

#[test]
fn a_gate_that_is_closed_lets_nobody_in_and_ends_what_is_on_its_way() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Gate::to(&format!("http://{}", listener.local_addr().unwrap()));
    let mut client = gate.connect();
    client.write_all(format!("POST /v1/messages HTTP/1.1\r\n{}\r\n", key()).as_bytes()).unwrap();
    let (_server, _) = listener.accept().unwrap();
    let Gate { folder, gate } = gate;
    drop(gate);
    let mut back = String::new();
    client.read_to_string(&mut back).unwrap();
    assert!(back.starts_with("HTTP/1.1 503"), "{back}");
    assert!(!folder.path().join("g").exists());
}

#[test]
fn a_gate_may_stand_at_a_port_of_the_loopback() {
    let (address, _heard) = service(|_| plain("fine"));
    let target = target(&format!("http://{address}"), GateDialect::Anthropic);
    let gate = ModelGate::at_port(target, Arc::new(RealTime::new())).unwrap();
    let GatePlace::Port(port) = gate.place() else { panic!("{gate:?}") };
    let mut client = TcpStream::connect(("127.0.0.1", *port)).unwrap();
    client.write_all(format!("POST /v1/messages HTTP/1.1\r\n{}\r\n", key()).as_bytes()).unwrap();
    let mut back = String::new();
    client.read_to_string(&mut back).unwrap();
    assert!(back.contains("fine"), "{back}");
}

// The proxy.

/// Names with their addresses; every public address is a server of the test.
struct Map {
    names: Vec<(&'static str, Vec<&'static str>)>,
    server: SocketAddr,
    resolved: Mutex<Vec<String>>,
}

impl HostConnector for Map {
    fn resolve(&self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        self.resolved.lock().unwrap().push(host.to_owned());
        let found = self.names.iter().find(|(name, _)| *name == host);
        let (_, all) = found.ok_or(std::io::ErrorKind::NotFound)?;
        Ok(all.iter().map(|one| SocketAddr::new(one.parse().unwrap(), port)).collect())
    }

    fn connect(&self, address: SocketAddr, limit: Duration) -> std::io::Result<TcpStream> {
        assert!(!is_forbidden(address.ip()), "{address}");
        TcpStream::connect_timeout(&self.server, limit)
    }
}

fn proxy(
    folder: &Path,
    names: Vec<(&'static str, Vec<&'static str>)>,
    server: SocketAddr,
) -> (Proxy, Arc<Map>) {
    let map = Arc::new(Map { names, server, resolved: Mutex::default() });
    let list = HostList::new([
        "good.example",
        "*.sub.example",
        "odd.example:8443",
        "inside.example",
        "both.example",
    ]);
    (Proxy::open(&folder.join("p"), list, map.clone()).unwrap(), map)
}

fn connect(folder: &Path, line: &str) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(folder.join("p")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // One too many is refused before it is read.
    let _ = stream.write_all(format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    (stream, String::from_utf8(head).unwrap())
}

#[test]
fn the_proxy_reaches_what_is_on_the_list_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let public = vec!["93.184.216.34"];
    let names = vec![
        ("good.example", public.clone()),
        ("a.sub.example", public.clone()),
        ("odd.example", public.clone()),
        ("evil.example", public.clone()),
        ("inside.example", vec!["169.254.169.254"]),
        ("both.example", vec!["93.184.216.34", "10.0.0.1"]),
    ];
    let (proxy, map) = proxy(folder.path(), names, address);
    for (line, wanted) in [
        ("CONNECT good.example:443", "200"),
        ("CONNECT GOOD.example.:443", "502"),
        ("CONNECT a.sub.example:443", "200"),
        ("CONNECT odd.example:8443", "200"),
        ("CONNECT odd.example:443", "403"),
        ("CONNECT good.example:22", "403"),
        ("CONNECT sub.example:443", "403"),
        ("CONNECT xsub.example:443", "403"),
        ("CONNECT evil.example:443", "403"),
        ("CONNECT good.example.evil.example:443", "403"),
        ("CONNECT 127.0.0.1:443", "403"),
        ("CONNECT [::1]:443", "403"),
        ("CONNECT inside.example:443", "403"),
        ("CONNECT both.example:443", "403"),
        ("CONNECT good.example", "405"),
        ("GET http://good.example/", "405"),
    ] {
        let (_stream, head) = connect(folder.path(), line);
        assert!(head.starts_with(&format!("HTTP/1.1 {wanted}")), "{line}: {head}");
    }
    let told: Vec<String> = proxy.denials().iter().map(ToString::to_string).collect();
    assert!(told.contains(&String::from("connect evil.example:443: not on the list")), "{told:?}");
    assert!(
        told.contains(&String::from("connect inside.example:443: it leads to 169.254.169.254")),
        "{told:?}"
    );
    let inner = Denied::Address("10.0.0.1".parse::<IpAddr>().unwrap());
    assert!(proxy.denials().iter().any(|one| one.why == inner), "one address inside is enough: {told:?}");
    assert!(
        !map.resolved.lock().unwrap().contains(&String::from("evil.example")),
        "it was not even resolved"
    );
}

#[test]
fn a_name_is_resolved_once_and_bytes_go_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let names = vec![("good.example", vec!["93.184.216.34"])];
    let (_proxy, map) = proxy(folder.path(), names, server.local_addr().unwrap());
    let (mut client, head) = connect(folder.path(), "CONNECT good.example:443");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (mut there, _) = server.accept().unwrap();
    client.write_all(b"hello").unwrap();
    let mut piece = [0; 5];
    there.read_exact(&mut piece).unwrap();
    assert_eq!(&piece, b"hello");
    there.write_all(b"world").unwrap();
    client.read_exact(&mut piece).unwrap();
    assert_eq!(&piece, b"world");
    assert_eq!(map.resolved.lock().unwrap().len(), 1, "who answers twice in two ways is asked once");
    drop(there);
    assert_eq!(client.read(&mut piece).unwrap(), 0);
}

#[test]
fn addresses_that_are_never_reached_are_a_table() {
    for (address, forbidden) in [
        ("127.0.0.1", true),
        ("127.9.9.9", true),
        ("0.0.0.0", true),
        ("10.1.2.3", true),
        ("172.16.0.1", true),
        ("172.32.0.1", false),
        ("192.168.1.1", true),
        ("169.254.169.254", true),
        ("100.100.100.200", true),
        ("100.128.0.1", false),
        ("192.0.0.192", true),
        ("198.18.0.1", true),
        ("224.0.0.1", true),
        ("255.255.255.255", true),
        ("8.8.8.8", false),
        ("::1", true),
        ("::", true),
        ("::ffff:127.0.0.1", true),
        ("::ffff:8.8.8.8", false),
        ("::127.0.0.1", true),
        ("64:ff9b::a9fe:a9fe", true),
        ("64:ff9b::808:808", false),
        ("2002:7f00:1::", true),
        ("2001:0:1::1", true),
        ("fd00:ec2::254", true),
        ("fc00::1", true),
        ("fe80::1", true),
        ("ff02::1", true),
        ("2001:db8::1", true),
        ("2606:4700::1", false),
    ] {
        assert_eq!(is_forbidden(address.parse().unwrap()), forbidden, "{address}");
    }
}

#[test]
fn tunnels_and_what_is_told_of_denials_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let names = vec![("good.example", vec!["93.184.216.34"])];
    let (proxy, _map) = proxy(folder.path(), names, server.local_addr().unwrap());
    for number in 0..MAX_DENIALS + 5 {
        let (_stream, head) = connect(folder.path(), &format!("CONNECT no{number}.example:443"));
        assert!(head.starts_with("HTTP/1.1 403"));
    }
    assert_eq!(proxy.denials().len(), MAX_DENIALS);
    let mut open = Vec::new();
    while open.len() < MAX_TUNNELS {
        let (stream, head) = connect(folder.path(), "CONNECT good.example:443");
        // One that was refused a moment ago may still be counted.
        match head.starts_with("HTTP/1.1 200") {
            true => open.push((stream, server.accept().unwrap())),
            false => assert!(head.starts_with("HTTP/1.1 503"), "{head}"),
        }
    }
    let (_stream, head) = connect(folder.path(), "CONNECT good.example:443");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(HostList::new(REGISTRIES).holds("static.crates.io", 443));
}
