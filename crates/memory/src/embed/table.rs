//! The built-in embedder: the mean of token vectors out of a table inside the binary.
//!
//! The file is used as it lies there: its vocabulary is sorted and searched, nothing is read in at
//! start. `table/README.md` says where it comes from and how it is laid out.

use std::ops::Range;

use super::tokens::{Vocabulary, tokenize};
use super::{Embedder, Vector};
use crate::line::on_line;
use crate::text;

const FILE: &[u8] = include_bytes!("../../table/tokens.bin");
const MAGIC: &[u8] = b"FTLTOK01";

/// Changes whenever the file or the tokenizer does.
const ID: &str = "tokens-192-1";

/// Points of the map from raw cosines to calibrated ones, linear in between. Measured on the labelled
/// set: of unrelated pairs, nineteen in twenty stay under 0.25.
const COSINES: [(f64, f64); 4] = [(0.0, 0.0), (0.255, 0.25), (0.29, 0.305), (1.0, 1.0)];

/// Words beyond this are not embedded.
const MAX_WORDS: usize = 512;

/// A table of token vectors.
#[derive(Clone, Debug)]
pub struct TokenTable {
    file: &'static [u8],
    count: usize,
    dims: usize,
    offsets: usize,
    ranks: usize,
    scales: usize,
    vectors: usize,
    texts: usize,
}

impl TokenTable {
    /// The table that is part of the binary; `None` only if the file in the tree is broken.
    pub fn built_in() -> Option<TokenTable> {
        TokenTable::open(FILE)
    }

    fn open(file: &'static [u8]) -> Option<TokenTable> {
        let count = usize::try_from(u32_at(file, 8)?).ok()?;
        let dims = usize::try_from(u32_at(file, 12)?).ok()?;
        let offsets = 16;
        let ranks = offsets + (count + 1) * 4;
        let scales = ranks + count * 4;
        let vectors = scales + count * 4;
        let texts = vectors + count * dims;
        let end = texts + usize::try_from(u32_at(file, offsets + count * 4)?).ok()?;
        let is_good = file.starts_with(MAGIC) && file.len() == end;
        is_good.then_some(TokenTable { file, count, dims, offsets, ranks, scales, vectors, texts })
    }

    fn number(&self, section: usize, at: usize) -> u32 {
        u32_at(self.file, section + at * 4).unwrap_or_default()
    }

    fn text(&self, at: usize) -> &[u8] {
        let (start, end) =
            (self.number(self.offsets, at) as usize, self.number(self.offsets, at + 1) as usize);
        self.slice(self.texts + start..self.texts + end)
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.file.get(range).unwrap_or_default()
    }

    fn add(&self, token: usize, sum: &mut [f32]) {
        let scale = f32::from_bits(self.number(self.scales, token));
        let start = self.vectors + token * self.dims;
        for (sum, byte) in sum.iter_mut().zip(self.slice(start..start + self.dims)) {
            *sum += f32::from(byte.cast_signed()) * scale;
        }
    }
}

impl Vocabulary for TokenTable {
    fn find(&self, token: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.text(middle).cmp(token) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn rank(&self, token: usize) -> u32 {
        self.number(self.ranks, token)
    }
}

impl Embedder for TokenTable {
    fn id(&self) -> &str {
        ID
    }

    fn dims(&self) -> usize {
        self.dims
    }

    fn embed(&self, text: &str) -> Vector {
        let mut sum = vec![0.0; self.dims];
        for word in text::plain_words(text).take(MAX_WORDS) {
            tokenize(&word, self).into_iter().for_each(|token| self.add(token, &mut sum));
        }
        Vector::of(&sum)
    }

    fn reads_sentences(&self) -> bool {
        false
    }

    fn calibrated(&self, cosine: f64) -> f64 {
        on_line(&COSINES, cosine)
    }
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    let bytes = file.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole_small_and_sorted() {
        let table = TokenTable::built_in().unwrap();
        assert!(FILE.len() <= 8 * 1024 * 1024);
        assert_eq!(table.dims(), 192);
        assert!((1..table.count).all(|at| table.text(at - 1) < table.text(at)));
        assert!((0..table.count).all(|at| table.find(table.text(at)) == Some(at)));
        assert!(TokenTable::open(&FILE[..FILE.len() - 1]).is_none());
        assert!(TokenTable::open(b"FTLTOK01").is_none());
    }

    #[test]
    fn near_texts_are_nearer_than_far_ones() {
        let table = TokenTable::built_in().unwrap();
        let cosine = |left: &str, right: &str| table.embed(left).cosine(&table.embed(right));
        let asked = "module import cycle breaks at load time";
        let near = cosine(asked, "ImportError: cannot import name (most likely due to a circular import)");
        for far in [
            "invoice uses the wrong font",
            "the weather tile shows fahrenheit",
            "socket was closed by the peer",
        ] {
            assert!(near > cosine(asked, far) + 0.1, "{near} {far}");
        }
        assert!(
            table.embed("").is_zero()
                && table.embed("…").is_zero()
                && table.embed("\u{4e2d}\u{6587}").is_zero()
        );
    }
}
