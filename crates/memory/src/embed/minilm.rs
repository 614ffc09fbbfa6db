//! A sentence embedder by choice: MiniLM (BERT with mean pooling), from a folder that the user names.
//!
//! The folder holds `model.safetensors` and `vocab.txt`, as published for all-MiniLM-L6-v2. It is read
//! once; nothing is downloaded. A folder that does not fit is refused, never guessed at.

mod layers;
mod pieces;
mod tensors;

use std::fs;
use std::path::Path;

use self::layers::Bert;
use self::pieces::Pieces;
use self::tensors::Tensors;
use super::{Embedder, Vector};
use crate::error::Error;

/// Tokens beyond this are not read; time grows with their square.
pub const MAX_TOKENS: usize = 128;

/// Weights beyond this size are not read.
const MAX_BYTES: u64 = 1 << 30;

const HINT: &str = "name a folder with model.safetensors and vocab.txt of all-MiniLM-L6-v2";

/// The model and its vocabulary, in memory.
#[derive(Debug)]
pub struct MiniLm {
    id: String,
    bert: Bert,
    pieces: Pieces,
}

impl MiniLm {
    /// Reads the model of a folder.
    pub fn open(folder: &Path) -> Result<MiniLm, Error> {
        let weights = folder.join("model.safetensors");
        let size = fs::metadata(&weights).map_err(|error| unreadable(&weights, &error))?.len();
        if size > MAX_BYTES {
            let what = format!("{size} bytes are more than {MAX_BYTES}");
            return Err(Error::refuse(weights.display().to_string(), what, HINT));
        }
        let bytes = fs::read(&weights).map_err(|error| unreadable(&weights, &error))?;
        let words = folder.join("vocab.txt");
        let vocabulary = fs::read_to_string(&words).map_err(|error| unreadable(&words, &error))?;
        MiniLm::read(&bytes, &vocabulary)
            .map_err(|what| Error::refuse(folder.display().to_string(), what, HINT))
    }

    /// The id names the weights by a fingerprint, so that other weights mean other vectors.
    fn read(weights: &[u8], vocabulary: &str) -> Result<MiniLm, String> {
        let bert = Bert::new(&Tensors::read(weights)?)?;
        let pieces = Pieces::read(vocabulary)?;
        if pieces.len() > bert.words() {
            return Err(format!("{} words, but vectors for {}", pieces.len(), bert.words()));
        }
        Ok(MiniLm { id: format!("minilm-{}-{:08x}", bert.dims(), fingerprint(weights)), bert, pieces })
    }
}

impl Embedder for MiniLm {
    fn id(&self) -> &str {
        &self.id
    }

    fn dims(&self) -> usize {
        self.bert.dims()
    }

    fn embed(&self, text: &str) -> Vector {
        let tokens = self.pieces.tokenize(text, MAX_TOKENS.min(self.bert.places()));
        if tokens.len() <= 2 {
            return Vector::of(&vec![0.0; self.dims()]);
        }
        Vector::of(&self.bert.mean(&tokens))
    }
}

/// Of some bytes all over the file; reading all of them again would cost as long as embedding.
fn fingerprint(bytes: &[u8]) -> u32 {
    let step = (bytes.len() / 65_536).max(1);
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().step_by(step).fold(0x811c_9dc5 ^ bytes.len() as u32, mix)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::refuse(path.display().to_string(), error.to_string(), HINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of two layers with eight dimensions for six words, made of small numbers.
    fn small() -> Vec<u8> {
        let mut tensors: Vec<(String, Vec<usize>)> = vec![
            ("embeddings.word_embeddings.weight".to_owned(), vec![6, 32]),
            ("embeddings.position_embeddings.weight".to_owned(), vec![16, 32]),
            ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 32]),
            ("embeddings.LayerNorm.weight".to_owned(), vec![32]),
            ("embeddings.LayerNorm.bias".to_owned(), vec![32]),
        ];
        for layer in 0..2 {
            let at = |name: &str| format!("encoder.layer.{layer}.{name}");
            for name in [
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention.output.dense",
            ] {
                tensors.push((at(&format!("{name}.weight")), vec![32, 32]));
                tensors.push((at(&format!("{name}.bias")), vec![32]));
            }
            tensors.push((at("intermediate.dense.weight"), vec![64, 32]));
            tensors.push((at("intermediate.dense.bias"), vec![64]));
            tensors.push((at("output.dense.weight"), vec![32, 64]));
            tensors.push((at("output.dense.bias"), vec![32]));
            for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
                tensors.push((at(&format!("{name}.weight")), vec![32]));
                tensors.push((at(&format!("{name}.bias")), vec![32]));
            }
        }
        tensors::tests::file(&tensors)
    }

    const WORDS: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlock\n##ed\n";

    #[test]
    fn a_small_model_embeds() {
        let model = MiniLm::read(&small(), WORDS).unwrap();
        assert_eq!(model.dims(), 32);
        let (one, other) = (model.embed("locked"), model.embed("lock"));
        assert!(!one.is_zero() && one.cosine(&other) < 0.9999 && one.cosine(&one) > 0.9999);
        assert_eq!(model.embed("LOCKED"), one);
        assert!(model.embed("").is_zero());
        let long = model.embed(&"locked ".repeat(500));
        assert!(!long.is_zero());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let whole = small();
        assert!(MiniLm::read(&whole[..whole.len() - 4], WORDS).is_err());
        assert!(MiniLm::read(b"short", WORDS).is_err());
        assert!(MiniLm::read(&whole, "lock\n").is_err());
        assert!(MiniLm::read(&whole, &format!("{WORDS}one\ntwo\n")).is_err());
        let refused = MiniLm::open(Path::new("no-such-folder")).unwrap_err();
        assert!(refused.to_string().contains("model.safetensors") && refused.hint().contains("vocab.txt"));
    }

    /// With the real weights, from the folder that `FTL_MINILM` names.
    #[test]
    #[ignore = "needs minilm: run tools/minilm/check, which has the weights"]
    fn the_real_model_says_what_it_is_known_to_say() {
        let model = MiniLm::open(Path::new(&std::env::var_os("FTL_MINILM").unwrap())).unwrap();
        let tokens = model.pieces.tokenize("This is an example sentence", MAX_TOKENS);
        assert_eq!(tokens, [101, 2023, 2003, 2019, 2742, 6251, 102]);
        let mean = model.bert.mean(&tokens);
        let length = mean.iter().map(|number| number * number).sum::<f32>().sqrt();
        // The first numbers of this sentence as the model's own documentation prints them.
        for (number, known) in mean.iter().zip([0.0676, 0.0635, 0.0487, 0.0793]) {
            assert!((number / length - known).abs() < 1e-4, "{} {known}", number / length);
        }
        let cosine = |left: &str, right: &str| model.embed(left).cosine(&model.embed(right));
        let asked = "module import cycle breaks at load time";
        assert!(
            cosine(asked, "ImportError: cannot import name, most likely due to a circular import") > 0.45
        );
        assert!(cosine(asked, "invoice pdf uses the wrong font for currency symbols") < 0.2);
    }
}
