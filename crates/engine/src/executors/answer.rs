//! How large an answer may be that a run keeps.

use ftl_core::value::Value;

/// How large an answer may be, as JSON: about twice what a plan of a hundred thousand tasks takes, and less than the
/// store takes as one piece of content.
pub const MAX_ANSWER_BYTES: usize = 60 * 1024 * 1024;

/// How large the answer of an agent may be; only a planner's may be as large as a plan. What follows from one stands in
/// the journal several times.
pub const MAX_AGENT_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Why an answer cannot be kept, if it cannot: its size as JSON counts, which is counted only where it may be too much.
/// A letter takes six bytes there at most.
pub(crate) fn too_large(value: &Value, most: usize) -> Option<String> {
    if value.weight() <= most / 6 {
        return None;
    }
    let mut counted = Counted(0);
    // Nothing that counts can fail.
    let _ = serde_json::to_writer(&mut counted, value);
    let Counted(bytes) = counted;
    (bytes > most).then(|| format!("its answer has {bytes} bytes; {most} is the most"))
}

/// Counts what is written.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_the_size_as_json() {
        let text = |text: &str| Value::text(text);
        assert_eq!(too_large(&text(&"x".repeat(98)), 100), None);
        assert!(too_large(&text(&"x".repeat(99)), 100).is_some());
        assert!(too_large(&text(&"\u{1}".repeat(17)), 100).is_some(), "six bytes each");
        assert_eq!(too_large(&text(&"\"".repeat(49)), 100), None);
        assert_eq!(
            too_large(&text(&"\"".repeat(50)), 100).unwrap(),
            "its answer has 102 bytes; 100 is the most"
        );
    }
}
