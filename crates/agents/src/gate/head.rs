//! The head of a request that comes in, read within a size and a time, and parsed strictly: what could be read in two
//! ways is refused, for whoever reads it next may read it in the other.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How long a head may be, in bytes.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How many headers it may have.
pub const MAX_HEADERS: usize = 100;

/// How large a body may be.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// How long a whole request may take to come in.
pub const MAX_REQUEST_TIME: Duration = Duration::from_secs(60);

/// What comes in, with a deadline for each wait.
pub trait TimedRead: Read {
    /// Waits for so long at most from now on.
    fn wait_at_most(&mut self, limit: Duration) -> io::Result<()>;
}

/// Why a request is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// Nothing came at all, or the peer is gone.
    Gone,
    /// It did not come in time.
    Slow,
    /// The head is longer than any that is read, or has too many headers.
    LongHead,
    /// The body is larger than any that is read.
    LongBody,
    /// It is no request as they are written.
    Malformed,
}

impl HeadError {
    /// The status that a peer is told; none where nobody is there to be told.
    pub const fn status(self) -> Option<u16> {
        match self {
            HeadError::Gone => None,
            HeadError::Slow => Some(408),
            HeadError::LongHead => Some(431),
            HeadError::LongBody => Some(413),
            HeadError::Malformed => Some(400),
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::Gone => out.write_str("nothing was asked"),
            HeadError::Slow => write!(out, "the request took longer than {MAX_REQUEST_TIME:?}"),
            HeadError::LongHead => {
                write!(out, "the head has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers")
            }
            HeadError::LongBody => write!(out, "the body has more than {MAX_BODY_BYTES} bytes"),
            HeadError::Malformed => out.write_str("this is no request"),
        }
    }
}

impl std::error::Error for HeadError {}

/// A request as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingRequest {
    /// The method.
    pub method: String,
    /// What it is about: a path, or for CONNECT a name and a port.
    pub target: String,
    /// The headers, with small letters in their names.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl IncomingRequest {
    /// The value of a header, if it is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(one, _)| one == name).map(|(_, value)| value.as_str());
        found.next().filter(|_| found.next().is_none())
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(one, _)| one == name)
    }
}

/// A request on its way in.
pub struct RequestReader<'a, R> {
    from: &'a mut R,
    deadline: Instant,
    buffer: Vec<u8>,
    /// How much of the buffer was taken.
    taken: usize,
}

impl<'a, R: TimedRead> RequestReader<'a, R> {
    /// A reader that gives up after a while.
    pub fn new(from: &'a mut R, limit: Duration) -> RequestReader<'a, R> {
        RequestReader { from, deadline: Instant::now() + limit, buffer: Vec::new(), taken: 0 }
    }

    /// Reads the head of a request; its body is not read yet.
    pub fn head(&mut self) -> Result<IncomingRequest, HeadError> {
        let mut searched: usize = 0;
        let end = loop {
            let from = searched.saturating_sub(3);
            if let Some(at) = self.buffer[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                break from + at;
            }
            searched = self.buffer.len();
            if searched > MAX_HEAD_BYTES {
                return Err(HeadError::LongHead);
            }
            self.more()?;
        };
        if end > MAX_HEAD_BYTES {
            return Err(HeadError::LongHead);
        }
        let request = parse(&self.buffer[..end])?;
        self.taken = end + 4;
        Ok(request)
    }

    /// Reads the body that the head announces.
    pub fn body(&mut self, request: &mut IncomingRequest) -> Result<(), HeadError> {
        request.body = match (request.has("transfer-encoding"), request.has("content-length")) {
            (false, false) => Vec::new(),
            (true, true) => return Err(HeadError::Malformed),
            (true, false) => {
                let coding = request.header("transfer-encoding").ok_or(HeadError::Malformed)?;
                if !coding.eq_ignore_ascii_case("chunked") {
                    return Err(HeadError::Malformed);
                }
                self.chunked()?
            }
            (false, true) => {
                let length = request.header("content-length").filter(|text| is_number(text));
                let length: usize = length.and_then(|text| text.parse().ok()).ok_or(HeadError::Malformed)?;
                self.exactly(length, 0)?
            }
        };
        Ok(())
    }

    fn chunked(&mut self) -> Result<Vec<u8>, HeadError> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let text = std::str::from_utf8(digits).map_err(|_| HeadError::Malformed)?;
            let is_plain = !text.is_empty() && text.bytes().all(|one| one.is_ascii_hexdigit());
            let size =
                usize::from_str_radix(text, 16).ok().filter(|_| is_plain).ok_or(HeadError::Malformed)?;
            if size == 0 {
                // Trailers are read and dropped.
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size, body.len())?);
            if !self.line()?.is_empty() {
                return Err(HeadError::Malformed);
            }
        }
    }

    fn exactly(&mut self, length: usize, before: usize) -> Result<Vec<u8>, HeadError> {
        if length.saturating_add(before) > MAX_BODY_BYTES {
            return Err(HeadError::LongBody);
        }
        while self.buffer.len() - self.taken < length {
            self.more()?;
        }
        let piece = self.buffer[self.taken..self.taken + length].to_vec();
        self.taken += length;
        self.drop_taken();
        Ok(piece)
    }

    fn line(&mut self) -> Result<Vec<u8>, HeadError> {
        loop {
            if let Some(end) = self.buffer[self.taken..].windows(2).position(|two| two == b"\r\n") {
                let line = self.buffer[self.taken..self.taken + end].to_vec();
                self.taken += end + 2;
                return Ok(line);
            }
            if self.buffer.len() - self.taken > MAX_HEAD_BYTES {
                return Err(HeadError::LongHead);
            }
            self.more()?;
        }
    }

    fn drop_taken(&mut self) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
    }

    /// Who is read from.
    pub fn peer(&mut self) -> &mut R {
        self.from
    }

    /// What came in behind what was taken.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.drop_taken();
        self.buffer
    }

    fn more(&mut self) -> Result<(), HeadError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HeadError::Slow);
        }
        self.from.wait_at_most(left).map_err(|_| HeadError::Gone)?;
        let mut piece = [0; 16 * 1024];
        match self.from.read(&mut piece) {
            Ok(0) => Err(HeadError::Gone),
            Ok(read) => {
                self.buffer.extend_from_slice(&piece[..read]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(HeadError::Slow)
            }
            Err(_) => Err(HeadError::Gone),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

fn parse(head: &[u8]) -> Result<IncomingRequest, HeadError> {
    let text = std::str::from_utf8(head).map_err(|_| HeadError::Malformed)?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (method, target, version, words.next())
    else {
        return Err(HeadError::Malformed);
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token(method) || target.is_empty() || !is_plain(target) {
        return Err(HeadError::Malformed);
    }
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(HeadError::Malformed)?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || value.chars().any(|one| one.is_control() && one != '\t') {
            return Err(HeadError::Malformed);
        }
        if headers.len() >= MAX_HEADERS {
            return Err(HeadError::LongHead);
        }
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    Ok(IncomingRequest { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() })
}
