//! Server-sent events, read with limits.
//!
//! Bytes come in any pieces; events come out whole. A line, an event and a stream have a largest size,
//! so a server that never ends a line costs a bounded amount of memory. Nothing here waits.

use std::fmt;

/// How many bytes one line of a stream may have.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// How many bytes the data of one event may have.
pub const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// How many bytes a whole stream may have.
pub const MAX_STREAM_BYTES: usize = 32 * 1024 * 1024;

/// An event of a stream, by the rules of `text/event-stream`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its kind; empty if it has none.
    pub name: String,
    /// Its data; several lines of data have line breaks between them.
    pub data: String,
}

/// A stream of events on its way.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    event: ServerEvent,
    has_data: bool,
    after_return: bool,
    bytes: usize,
}

/// Why a stream is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// It is too long.
    LongStream,
    /// It has a line that is too long.
    LongLine,
    /// It has an event that is too long.
    LongEvent,
    /// It is no UTF-8.
    NotText,
}

impl fmt::Display for StreamError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::LongStream => write!(out, "the stream has more than {MAX_STREAM_BYTES} bytes"),
            StreamError::LongLine => write!(out, "a line of the stream has more than {MAX_LINE_BYTES} bytes"),
            StreamError::LongEvent => {
                write!(out, "an event of the stream has more than {MAX_EVENT_BYTES} bytes")
            }
            StreamError::NotText => out.write_str("the stream is no UTF-8"),
        }
    }
}

impl std::error::Error for StreamError {}

impl Sse {
    /// Takes bytes and hands on each event that they complete.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<ServerEvent>) -> Result<(), StreamError> {
        self.bytes += bytes.len();
        if self.bytes > MAX_STREAM_BYTES {
            return Err(StreamError::LongStream);
        }
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_of_line(events)?,
                byte => self.line.push(*byte),
            }
            if self.line.len() > MAX_LINE_BYTES {
                return Err(StreamError::LongLine);
            }
        }
        Ok(())
    }

    fn end_of_line(&mut self, events: &mut Vec<ServerEvent>) -> Result<(), StreamError> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8(line).map_err(|_| StreamError::NotText)?;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                events.push(event);
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field.trim_start_matches('\u{feff}') {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        if self.event.data.len() > MAX_EVENT_BYTES {
            return Err(StreamError::LongEvent);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, piece: usize) -> Result<Vec<(String, String)>, StreamError> {
        let (mut sse, mut events) = (Sse::default(), Vec::new());
        for bytes in text.as_bytes().chunks(piece) {
            sse.push(bytes, &mut events)?;
        }
        Ok(events.into_iter().map(|event| (event.name, event.data)).collect())
    }

    #[test]
    fn events_come_out_whole_whatever_the_pieces() {
        let table: [(&str, &[(&str, &str)]); 9] = [
            ("data: a\n\n", &[("", "a")]),
            ("data:a\r\n\r\n", &[("", "a")]),
            ("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]),
            ("event: x\ndata: a\ndata: b\n\n", &[("x", "a\nb")]),
            (": comment\n\ndata: a\nid: 7\nretry: 1\n\n", &[("", "a")]),
            ("event: ping\n\ndata: ä\n\n", &[("", "ä")]),
            ("data\n\n", &[("", "")]),
            ("\u{feff}data: a\n\n", &[("", "a")]),
            ("data: half", &[]),
        ];
        for (text, wanted) in table {
            for piece in 1..=text.len() {
                let found = read(text, piece).unwrap();
                let found: Vec<_> = found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
                assert_eq!(found, wanted, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn every_limit_trips() {
        let long = "a".repeat(MAX_LINE_BYTES + 1);
        assert!(read(&long, 4096).unwrap_err().to_string().contains("a line"));
        let line = format!("data: {}\n", "a".repeat(MAX_LINE_BYTES - 10));
        assert!(read(&line.repeat(5), 4096).unwrap_err().to_string().contains("an event"));
        let event = format!("{line}\n");
        assert!(read(&event.repeat(40), 1 << 20).unwrap_err().to_string().contains("the stream has more"));
        let (mut sse, mut events) = (Sse::default(), Vec::new());
        assert!(sse.push(b"data: \xff\n", &mut events).unwrap_err().to_string().contains("UTF-8"));
    }
}
