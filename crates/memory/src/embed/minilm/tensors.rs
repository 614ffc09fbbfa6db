//! Reads a `safetensors` file: a header of JSON, then numbers.

use std::collections::BTreeMap;

use serde_json::Value;

/// Numbers with the lengths of their axes.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) numbers: Vec<f32>,
}

/// All tensors of a file by their names.
#[derive(Debug)]
pub(super) struct Tensors(BTreeMap<String, Tensor>);

impl Tensors {
    /// Reads every tensor of 32-bit floats; others are left out.
    pub(super) fn read(file: &[u8]) -> Result<Tensors, String> {
        let (head, rest) = file.split_first_chunk::<8>().ok_or("the file is too short")?;
        let length = usize::try_from(u64::from_le_bytes(*head)).map_err(|_| "the header is too long")?;
        let (header, body) = rest.split_at_checked(length).ok_or("the header is cut off")?;
        let header: Value = serde_json::from_slice(header).map_err(|error| format!("the header: {error}"))?;
        let entries = header.as_object().ok_or("the header is no object")?;
        let mut found = BTreeMap::new();
        for (name, entry) in entries.iter().filter(|(_, entry)| entry["dtype"] == "F32") {
            found.insert(name.clone(), tensor(entry, body).ok_or_else(|| format!("{name} does not fit"))?);
        }
        Ok(Tensors(found))
    }

    pub(super) fn get(&self, name: &str) -> Result<&Tensor, String> {
        // Some exports put the whole model below one name.
        let found = self.0.get(name).or_else(|| self.0.get(&format!("bert.{name}")));
        found.ok_or_else(|| format!("there is no {name}"))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_ok()
    }
}

fn tensor(entry: &Value, body: &[u8]) -> Option<Tensor> {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    let shape: Vec<usize> = entry["shape"].as_array()?.iter().map(number).collect::<Option<_>>()?;
    let (start, end) = (number(&entry["data_offsets"][0])?, number(&entry["data_offsets"][1])?);
    let bytes = body.get(start..end)?;
    let count = shape.iter().try_fold(1_usize, |all, axis| all.checked_mul(*axis))?;
    let (words, left) = bytes.as_chunks::<4>();
    let fits = words.len() == count && left.is_empty();
    fits.then(|| Tensor { shape, numbers: words.iter().map(|word| f32::from_le_bytes(*word)).collect() })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file of such tensors, filled with small numbers; norms are near one.
    pub(in super::super) fn file(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
        let (mut header, mut body) = (serde_json::Map::new(), Vec::new());
        for (at, (name, shape)) in tensors.iter().enumerate() {
            let count: usize = shape.iter().product();
            let start = body.len();
            for n in 0..count {
                let small = ((n * 7 + at * 13) % 17) as f32 / 17.0 - 0.45;
                let number = if name.ends_with("LayerNorm.weight") { 1.0 + small / 10.0 } else { small };
                body.extend(number.to_le_bytes());
            }
            let entry =
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, body.len()]});
            header.insert(name.clone(), entry);
        }
        let header = Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &body].concat()
    }

    #[test]
    fn files_are_read_or_refused() {
        let good = file(&[("a".to_owned(), vec![2, 3]), ("bert.b".to_owned(), vec![4])]);
        let tensors = Tensors::read(&good).unwrap();
        assert_eq!(tensors.get("a").unwrap().shape, [2, 3]);
        assert!(tensors.has("b") && !tensors.has("c"));
        for cut in [0, 7, 20, good.len() - 1] {
            assert!(Tensors::read(&good[..cut]).is_err(), "{cut}");
        }
        let mut huge = good;
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Tensors::read(&huge).is_err());
    }
}
