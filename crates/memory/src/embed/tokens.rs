//! Words cut into the tokens of a vocabulary, by byte-pair merges in the order of their ranks.
//!
//! The ranks of the vocabulary are the order of its merges, so the pair whose union has the lowest
//! rank is merged first. Letters that the vocabulary does not know are left out.

/// Longer words are cut before they are looked at; merging is quadratic.
const MAX_LETTERS: usize = 48;

/// The tokens that there are, each with its number and its rank.
pub(super) trait Vocabulary {
    /// The number of a token by its bytes. The first token of a word begins with a space.
    fn find(&self, token: &[u8]) -> Option<usize>;
    /// When it was merged; lower is earlier.
    fn rank(&self, token: usize) -> u32;
}

/// The tokens of a word.
pub(super) fn tokenize(word: &str, vocabulary: &impl Vocabulary) -> Vec<usize> {
    let word: String = std::iter::once(' ').chain(word.chars().take(MAX_LETTERS)).collect();
    if let Some(whole) = vocabulary.find(word.as_bytes()).filter(|_| word.len() > 1) {
        return vec![whole];
    }
    let mut ends: Vec<usize> = word.char_indices().map(|(at, letter)| at + letter.len_utf8()).collect();
    while let Some(at) = best_merge(&word, &ends, vocabulary) {
        ends.remove(at);
    }
    pieces(&word, &ends).filter(|piece| *piece != b" ").filter_map(|piece| vocabulary.find(piece)).collect()
}

/// The place in `ends` whose removal makes the token of the lowest rank.
fn best_merge(word: &str, ends: &[usize], vocabulary: &impl Vocabulary) -> Option<usize> {
    let mut best: Option<(u32, usize)> = None;
    for at in 0..ends.len().saturating_sub(1) {
        let start = if at == 0 { 0 } else { ends[at - 1] };
        let Some(token) = vocabulary.find(&word.as_bytes()[start..ends[at + 1]]) else { continue };
        let rank = vocabulary.rank(token);
        if best.is_none_or(|(lowest, _)| rank < lowest) {
            best = Some((rank, at));
        }
    }
    best.map(|(_, at)| at)
}

fn pieces<'w>(word: &'w str, ends: &'w [usize]) -> impl Iterator<Item = &'w [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| &word.as_bytes()[start..*end])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Small(&'static [&'static str]);

    impl Vocabulary for Small {
        fn find(&self, token: &[u8]) -> Option<usize> {
            self.0.iter().position(|known| known.as_bytes() == token)
        }

        fn rank(&self, token: usize) -> u32 {
            token as u32
        }
    }

    #[test]
    fn merges_follow_the_ranks() {
        let small = Small(&["er", "lo", " lo", "we", "wer", " low", "lower", "l", "o", "w", "e", "r", " "]);
        let cut = |word: &str| {
            tokenize(word, &small).into_iter().map(|at| small.0[at]).collect::<Vec<_>>().join("|")
        };
        assert_eq!(cut("low"), " low");
        assert_eq!(cut("lower"), " lo|wer");
        assert_eq!(cut("wer"), "wer");
        assert_eq!(cut("xlo"), "lo");
        assert_eq!(cut(""), "");
        assert!(cut(&"w".repeat(1000)).matches('w').count() <= MAX_LETTERS);
    }
}
