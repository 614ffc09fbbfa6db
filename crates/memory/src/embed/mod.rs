//! Texts as vectors, so that the same thing said in other words can be found.
//!
//! The built-in embedder is a table of token vectors inside the binary; others stand in by the trait.
//! An embedder never fails: a text it knows nothing of is the zero vector, which is near to nothing.

#[cfg(feature = "minilm")]
pub mod minilm;
mod table;
mod tokens;

pub use table::TokenTable;

/// Makes vectors of texts. Two embedders with one id make the same vectors.
pub trait Embedder {
    /// Its name with its version; another name means other vectors.
    fn id(&self) -> &str;
    /// How many numbers a vector has.
    fn dims(&self) -> usize;
    /// The vector of a text.
    fn embed(&self, text: &str) -> Vector;
    /// Whether it reads sentences. Such a one costs milliseconds a text and is believed more than a table of words.
    fn reads_sentences(&self) -> bool {
        true
    }
    /// A cosine of its vectors on the scale of the thresholds. They were made for sentence embeddings,
    /// whose cosines need no change.
    fn calibrated(&self, cosine: f64) -> f64 {
        cosine.clamp(0.0, 1.0)
    }
}

/// A direction, rounded to bytes; or zero.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Vector {
    parts: Vec<i8>,
    /// The length of `parts`, squared; kept so that rounding does not bend angles.
    square: i32,
}

impl Vector {
    /// Rounds a vector of any length.
    pub fn of(numbers: &[f32]) -> Vector {
        let most = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        if !(most > 0.0 && most.is_finite()) {
            return Vector { parts: vec![0; numbers.len()], square: 0 };
        }
        Vector::from_parts(numbers.iter().map(|number| (number / most * 127.0).round() as i8).collect())
    }

    /// The vector of stored parts.
    pub fn from_parts(parts: Vec<i8>) -> Vector {
        let square = dot(&parts, &parts);
        Vector { parts, square }
    }

    /// The direction between both, nearer to this one: the other counts by its share. A zero changes
    /// nothing.
    #[must_use]
    pub fn leaning(&self, to: &Vector, share: f32) -> Vector {
        if self.is_zero() || to.is_zero() || self.parts.len() != to.parts.len() {
            return self.clone();
        }
        let (here, there) = ((self.square as f32).sqrt(), (to.square as f32).sqrt());
        let sum = |(own, other): (&i8, &i8)| f32::from(*own) / here + share * f32::from(*other) / there;
        Vector::of(&self.parts.iter().zip(&to.parts).map(sum).collect::<Vec<f32>>())
    }

    /// Its numbers, scaled to whole numbers of eight bits.
    pub fn parts(&self) -> &[i8] {
        &self.parts
    }

    /// The square of its length.
    pub fn square(&self) -> i32 {
        self.square
    }

    /// Whether it points nowhere.
    pub fn is_zero(&self) -> bool {
        self.square == 0
    }

    /// The cosine of the angle between both; 0 if one is zero or they have other dimensions.
    pub fn cosine(&self, other: &Vector) -> f64 {
        if self.is_zero() || other.is_zero() || self.parts.len() != other.parts.len() {
            return 0.0;
        }
        let lengths = f64::from(self.square).sqrt() * f64::from(other.square).sqrt();
        f64::from(dot(&self.parts, &other.parts)) / lengths
    }
}

/// The sum of products. Written so that the compiler makes vector instructions of it.
pub fn dot(left: &[i8], right: &[i8]) -> i32 {
    left.iter().zip(right).map(|(left, right)| i32::from(i16::from(*left) * i16::from(*right))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_survive_rounding() {
        let a: Vec<f32> = (0..192).map(|n| (n as f32 * 0.37).sin()).collect();
        let b: Vec<f32> = (0..192).map(|n| (n as f32 * 0.37 + 0.8).sin()).collect();
        let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>()
            / (a.iter().map(|a| a * a).sum::<f32>().sqrt() * b.iter().map(|b| b * b).sum::<f32>().sqrt());
        assert!((Vector::of(&a).cosine(&Vector::of(&b)) - f64::from(exact)).abs() < 0.005);
        assert!((Vector::of(&a).cosine(&Vector::of(&a)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_leaning_vector_lies_between() {
        let (a, b) = (Vector::of(&[1.0, 0.0]), Vector::of(&[0.0, 9.0]));
        let between = a.leaning(&b, 0.5);
        assert!((between.cosine(&a) - 0.894).abs() < 0.01 && (between.cosine(&b) - 0.447).abs() < 0.01);
        assert_eq!(a.leaning(&Vector::of(&[0.0, 0.0]), 0.5), a);
    }

    #[test]
    fn zero_is_near_to_nothing() {
        for numbers in [vec![0.0; 4], vec![f32::NAN; 4], vec![f32::INFINITY; 4]] {
            assert!(Vector::of(&numbers).is_zero());
        }
        assert_eq!(Vector::of(&[0.0; 4]).cosine(&Vector::of(&[1.0; 4])), 0.0);
        assert_eq!(Vector::of(&[1.0; 3]).cosine(&Vector::of(&[1.0; 4])), 0.0);
    }
}
