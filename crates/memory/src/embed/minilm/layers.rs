//! The layers of BERT, forward only: embeddings, attention, feed-forward, mean of all tokens.
//!
//! Shapes are checked when the model is read, so that nothing further in can be out of bounds.

use super::tensors::Tensors;

/// Heads of attention have this many dimensions in every MiniLM.
const HEAD: usize = 32;

const EPSILON: f32 = 1e-12;

/// `y = x·Wᵀ + b`.
#[derive(Debug)]
struct Linear {
    weight: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
}

/// Brings a vector to mean 0 and variance 1, then scales and shifts it.
#[derive(Debug)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    joined: Linear,
    joined_norm: Norm,
    wide: Linear,
    narrow: Linear,
    narrow_norm: Norm,
}

/// The transformer: embeddings, layers, and their weights.
#[derive(Debug)]
pub(super) struct Bert {
    dims: usize,
    words: Vec<f32>,
    places: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Bert {
    pub(super) fn new(tensors: &Tensors) -> Result<Bert, String> {
        let words = tensors.get("embeddings.word_embeddings.weight")?;
        let [_, dims] = words.shape[..] else { return Err("word embeddings are no table".to_owned()) };
        if dims == 0 || dims % HEAD != 0 {
            return Err(format!("{dims} dimensions cannot be cut into heads of {HEAD}"));
        }
        let table = |name: &str| -> Result<Vec<f32>, String> {
            let tensor = tensors.get(name)?;
            let fits = tensor.shape.len() == 2 && tensor.shape[1] == dims;
            if fits { Ok(tensor.numbers.clone()) } else { Err(format!("{name} does not fit")) }
        };
        let types = table("embeddings.token_type_embeddings.weight")?;
        let mut places = table("embeddings.position_embeddings.weight")?;
        // Every token is of the first type, so the type is part of each place.
        for place in places.chunks_exact_mut(dims) {
            place.iter_mut().zip(&types).for_each(|(place, of_type)| *place += of_type);
        }
        let norm = Norm::new(tensors, "embeddings.LayerNorm", dims)?;
        let is_there = |at: &usize| tensors.has(&format!("encoder.layer.{at}.output.dense.weight"));
        let layers: Vec<Layer> =
            (0..).take_while(is_there).map(|at| Layer::new(tensors, at, dims)).collect::<Result<_, _>>()?;
        if layers.is_empty() {
            return Err("there are no layers".to_owned());
        }
        Ok(Bert { dims, words: words.numbers.clone(), places, norm, layers })
    }

    pub(super) fn dims(&self) -> usize {
        self.dims
    }

    /// How many words it knows.
    pub(super) fn words(&self) -> usize {
        self.words.len() / self.dims
    }

    /// How many tokens a text may have.
    pub(super) fn places(&self) -> usize {
        self.places.len() / self.dims
    }

    /// The mean of what the last layer says of each token.
    pub(super) fn mean(&self, tokens: &[usize]) -> Vec<f32> {
        let mut state = Vec::with_capacity(tokens.len() * self.dims);
        let known = tokens.iter().filter_map(|token| self.words.chunks_exact(self.dims).nth(*token));
        for (word, place) in known.zip(self.places.chunks_exact(self.dims)) {
            state.extend(word.iter().zip(place).map(|(word, place)| word + place));
        }
        self.norm.apply(&mut state);
        for layer in &self.layers {
            layer.apply(&mut state, self.dims);
        }
        let count = (state.len() / self.dims).max(1) as f32;
        let mut mean = vec![0.0; self.dims];
        for row in state.chunks_exact(self.dims) {
            mean.iter_mut().zip(row).for_each(|(mean, number)| *mean += number / count);
        }
        mean
    }
}

impl Layer {
    fn new(tensors: &Tensors, at: usize, dims: usize) -> Result<Layer, String> {
        let name = |part: &str| format!("encoder.layer.{at}.{part}");
        let linear = |part: &str, inputs, outputs| Linear::new(tensors, &name(part), inputs, outputs);
        let width = tensors.get(&name("intermediate.dense.bias"))?.numbers.len();
        Ok(Layer {
            query: linear("attention.self.query", dims, dims)?,
            key: linear("attention.self.key", dims, dims)?,
            value: linear("attention.self.value", dims, dims)?,
            joined: linear("attention.output.dense", dims, dims)?,
            joined_norm: Norm::new(tensors, &name("attention.output.LayerNorm"), dims)?,
            wide: linear("intermediate.dense", dims, width)?,
            narrow: linear("output.dense", width, dims)?,
            narrow_norm: Norm::new(tensors, &name("output.LayerNorm"), dims)?,
        })
    }

    fn apply(&self, state: &mut [f32], dims: usize) {
        let (query, key, value) = (self.query.apply(state), self.key.apply(state), self.value.apply(state));
        let attended = attend(&query, &key, &value, dims);
        add(state, &self.joined.apply(&attended));
        self.joined_norm.apply(state);
        let mut wide = self.wide.apply(state);
        wide.iter_mut().for_each(|number| *number = gelu(*number));
        add(state, &self.narrow.apply(&wide));
        self.narrow_norm.apply(state);
    }
}

impl Linear {
    fn new(tensors: &Tensors, name: &str, inputs: usize, outputs: usize) -> Result<Linear, String> {
        let (weight, bias) = (tensors.get(&format!("{name}.weight"))?, tensors.get(&format!("{name}.bias"))?);
        if weight.shape != [outputs, inputs] || bias.shape != [outputs] {
            return Err(format!("{name} does not fit"));
        }
        Ok(Linear { weight: weight.numbers.clone(), bias: bias.numbers.clone(), inputs })
    }

    /// Rows of weights are outermost, so that each is fetched once for all tokens.
    fn apply(&self, state: &[f32]) -> Vec<f32> {
        let outputs = self.bias.len();
        let mut out = vec![0.0; state.len() / self.inputs * outputs];
        for (at, (row, bias)) in self.weight.chunks_exact(self.inputs).zip(&self.bias).enumerate() {
            for (token, out) in state.chunks_exact(self.inputs).zip(out.chunks_exact_mut(outputs)) {
                out[at] = dot(token, row) + bias;
            }
        }
        out
    }
}

impl Norm {
    fn new(tensors: &Tensors, name: &str, dims: usize) -> Result<Norm, String> {
        let (weight, bias) = (tensors.get(&format!("{name}.weight"))?, tensors.get(&format!("{name}.bias"))?);
        if weight.shape != [dims] || bias.shape != [dims] {
            return Err(format!("{name} does not fit"));
        }
        Ok(Norm { weight: weight.numbers.clone(), bias: bias.numbers.clone() })
    }

    fn apply(&self, state: &mut [f32]) {
        let dims = self.weight.len();
        for row in state.chunks_exact_mut(dims) {
            let mean = row.iter().sum::<f32>() / dims as f32;
            let variance =
                row.iter().map(|number| (number - mean) * (number - mean)).sum::<f32>() / dims as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((number, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *number = (*number - mean) * scale * weight + bias;
            }
        }
    }
}

/// Every token looks at every token, head by head.
fn attend(query: &[f32], key: &[f32], value: &[f32], dims: usize) -> Vec<f32> {
    let mut out = vec![0.0; query.len()];
    let scale = 1.0 / (HEAD as f32).sqrt();
    for head in (0..dims).step_by(HEAD) {
        let part = |row: &'_ [f32]| -> std::ops::Range<usize> { head..(head + HEAD).min(row.len()) };
        for (token, out) in query.chunks_exact(dims).zip(out.chunks_exact_mut(dims)) {
            let mut shares: Vec<f32> =
                key.chunks_exact(dims).map(|key| dot(&token[part(token)], &key[part(key)]) * scale).collect();
            soften(&mut shares);
            for (share, value) in shares.iter().zip(value.chunks_exact(dims)) {
                let values = &value[part(value)];
                out[head..head + HEAD].iter_mut().zip(values).for_each(|(out, value)| *out += share * value);
            }
        }
    }
    out
}

/// Makes shares of numbers that add up to 1 (softmax), in place.
fn soften(numbers: &mut [f32]) {
    let most = numbers.iter().fold(f32::MIN, |most, number| most.max(*number));
    numbers.iter_mut().for_each(|number| *number = (*number - most).exp());
    let sum: f32 = numbers.iter().sum();
    numbers.iter_mut().for_each(|number| *number /= sum);
}

fn add(state: &mut [f32], more: &[f32]) {
    state.iter_mut().zip(more).for_each(|(state, more)| *state += more);
}

/// Eight sums side by side, which the compiler makes vector instructions of.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<8>();
    let (right, right_rest) = right.as_chunks::<8>();
    let mut sums = [0.0_f32; 8];
    for (left, right) in left.iter().zip(right) {
        for lane in 0..8 {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f32>() + rest
}

fn gelu(number: f32) -> f32 {
    0.5 * number * (1.0 + erf(number * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function to seven digits (Abramowitz and Stegun, 7.1.26).
fn erf(number: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * number.abs());
    let series = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let sum = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (1.0 - sum * (-number * number).exp()).copysign(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_functions() {
        for (number, known) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (-1.0, -0.842_700_8), (3.0, 0.999_977_9)]
        {
            assert!((erf(number) - known).abs() < 1e-6, "{number}");
        }
        assert!((gelu(1.0) - 0.841_344_7).abs() < 1e-6);
        let mut shares = [1.0, 1.0, 1.0 + 2.0_f32.ln()];
        soften(&mut shares);
        assert!((shares[2] - 0.5).abs() < 1e-6 && (shares.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let numbers: Vec<f32> = (0..11_u8).map(f32::from).collect();
        assert_eq!(dot(&numbers, &numbers), 385.0);
    }

    #[test]
    fn attention_to_one_token_is_its_value() {
        let (query, value) = ([0.5; HEAD], [0.25; HEAD]);
        assert_eq!(attend(&query, &query, &value, HEAD), value);
    }
}
