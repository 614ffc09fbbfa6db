//! Keys taken out of a stream, also where one is cut in two.

/// What stands in the place of a key.
const HIDDEN: &[u8] = b"[hidden]";

/// Takes keys out of a stream. What may be the beginning of one is held back until it is known.
pub(super) struct Redaction {
    keys: Vec<Vec<u8>>,
    held: Vec<u8>,
}

impl Redaction {
    pub(super) fn new(keys: impl Iterator<Item = Vec<u8>>) -> Redaction {
        Redaction { keys: keys.filter(|key| !key.is_empty()).collect(), held: Vec::new() }
    }

    /// What can be passed on after one more piece.
    pub(super) fn piece(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut out = Vec::new();
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            if let Some(key) = self.keys.iter().find(|key| rest.starts_with(key)) {
                out.extend_from_slice(HIDDEN);
                at += key.len();
            } else if self.keys.iter().any(|key| key.starts_with(rest)) {
                break;
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        self.held.drain(..at);
        out
    }

    /// What was held back, at the end.
    pub(super) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// A whole text without keys.
    pub(super) fn text(&self, text: &str) -> String {
        let mut one = Redaction { keys: self.keys.clone(), held: Vec::new() };
        let mut out = one.piece(text.as_bytes());
        out.extend(one.end());
        String::from_utf8_lossy(&out).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_out_wherever_the_stream_is_cut() {
        let text = b"aa test-key and tes and test-kez test-key";
        for size in 1..text.len() {
            let mut redaction = Redaction::new([b"test-key".to_vec()].into_iter());
            let mut out: Vec<u8> = text.chunks(size).flat_map(|piece| redaction.piece(piece)).collect();
            out.extend(redaction.end());
            assert_eq!(
                String::from_utf8(out).unwrap(),
                "aa [hidden] and tes and test-kez [hidden]",
                "{size}"
            );
        }
        let mut redaction = Redaction::new([b"test-key".to_vec()].into_iter());
        assert_eq!(redaction.piece(b"data: x\n\n"), b"data: x\n\n", "what is no key waits for nothing");
    }
}
