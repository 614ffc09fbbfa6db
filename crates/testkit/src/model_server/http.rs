//! As much of HTTP/1.1 as the scripted model server needs. It trusts its callers: they are tests.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;

use serde_json::Value as Json;

/// A request, as far as the server looks at it.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection; nothing when it is closed.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (method, path) = (method.to_owned(), path.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Request { method, path, headers, body: Vec::new() };
        if request.header("transfer-encoding").is_some_and(|one| one.contains("chunked")) {
            request.body = chunks(reader)?;
        } else {
            let length = request.header("content-length").and_then(|one| one.parse().ok()).unwrap_or(0);
            request.body = vec![0; length];
            reader.read_exact(&mut request.body)?;
        }
        Ok(Some(request))
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    /// The scenario and the path behind it.
    pub(super) fn route(&self) -> (String, String) {
        let path = self.path.split('?').next().unwrap_or_default();
        let (scenario, path) = match path.strip_prefix("/s/").and_then(|rest| rest.split_once('/')) {
            Some((scenario, rest)) => (scenario.to_owned(), format!("/{rest}")),
            None => ("default".to_owned(), path.to_owned()),
        };
        let plain = ["/anthropic/", "/openai/"].iter().find_map(|prefix| path.strip_prefix(prefix));
        (scenario, plain.map_or_else(|| path.clone(), |rest| format!("/{rest}")))
    }
}

fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size];
        reader.read_exact(&mut chunk)?;
        body.extend(chunk);
        line.clear();
        reader.read_line(&mut line)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Sends a whole answer.
pub(super) fn send(
    mut stream: &TcpStream,
    status: u16,
    kind: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {status} scripted\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    stream.write_all(&bytes)
}

/// Sends an answer in JSON.
pub(super) fn send_json(
    stream: &TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &Json,
) -> io::Result<()> {
    send(stream, status, "application/json", headers, body.to_string().as_bytes())
}

/// Writes the head of a stream of events.
pub(super) fn begin(mut stream: &TcpStream, kind: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes())
}

/// Sends one piece of a stream; an empty one ends it.
pub(super) fn piece(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}
