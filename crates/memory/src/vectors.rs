//! The vectors of all lessons in chunks, and a sketch of each, by which the near ones are found without reading the vectors.
//!
//! A lesson's number is its place: chunk `id / SLOTS`, slot `id % SLOTS`. A slot is a byte for the
//! kind (0 is empty), the square of the vector's length, and the vector's bytes. A sketch is the kind and the signs of the
//! vector, a bit each; sketches lie in chunks whose numbers are below zero. A search reads every sketch, and the vectors of those
//! lessons alone whose signs are nearest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::embed::Vector;
use crate::error::Error;
use crate::lesson::{Keys as _, StoredKind};

/// A chunk of vectors fits a page or two of the database, so that one of them is read and written at little cost.
const SLOTS: i64 = 16;
const HEAD: usize = 5;

/// A chunk of sketches is read whole, and written whole with each lesson.
const SKETCHES: i64 = 256;

/// So many of each kind are compared by their vectors, and so many more than are wanted.
const SHORT_LIST: usize = 96;

/// Writes vectors; a chunk is written once for all vectors that follow each other in it.
pub(crate) struct Writer<'c> {
    dims: usize,
    vectors: Chunks<'c>,
    sketches: Chunks<'c>,
}

/// One open chunk of slots of one size.
struct Chunks<'c> {
    db: &'c Connection,
    slots: i64,
    size: usize,
    /// The number of a chunk in the table.
    number: fn(i64) -> i64,
    open: Option<(i64, Vec<u8>)>,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(db: &'c Connection, dims: usize) -> Writer<'c> {
        let vectors = Chunks { db, slots: SLOTS, size: HEAD + dims, number: |chunk| chunk, open: None };
        let size = 1 + dims.div_ceil(8);
        let sketches = Chunks { db, slots: SKETCHES, size, number: |chunk| -1 - chunk, open: None };
        Writer { dims, vectors, sketches }
    }

    pub(crate) fn put(&mut self, id: i64, kind: StoredKind, vector: &Vector) -> Result<(), Error> {
        let mut slot = Vec::with_capacity(HEAD + self.dims);
        slot.push(kind.number() as u8);
        slot.extend(vector.square().to_le_bytes());
        slot.extend(vector.parts().iter().map(|part| part.cast_unsigned()));
        slot.resize(HEAD + self.dims, 0);
        self.vectors.write(id, &slot)?;
        let mut sketch = vec![0; self.sketches.size];
        if !vector.is_zero() {
            sketch[0] = kind.number() as u8;
            signs(vector.parts(), &mut sketch[1..]);
        }
        self.sketches.write(id, &sketch)
    }

    pub(crate) fn clear(&mut self, id: i64) -> Result<(), Error> {
        self.vectors.write(id, &vec![0; HEAD + self.dims])?;
        self.sketches.write(id, &vec![0; self.sketches.size])
    }

    /// Writes what is still open. A chunk without vectors is taken away.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.vectors.finish()?;
        self.sketches.finish()
    }
}

impl Chunks<'_> {
    fn finish(&mut self) -> Result<(), Error> {
        let Some((chunk, body)) = self.open.take() else { return Ok(()) };
        let number = (self.number)(chunk);
        if body.iter().step_by(self.size).all(|kind| *kind == 0) {
            self.db.prepare_cached("DELETE FROM lesson_vectors WHERE chunk = ?1")?.execute([number])?;
        } else {
            let sql = "INSERT OR REPLACE INTO lesson_vectors (chunk, body) VALUES (?1, ?2)";
            self.db.prepare_cached(sql)?.execute(params![number, body])?;
        }
        Ok(())
    }

    fn write(&mut self, id: i64, slot: &[u8]) -> Result<(), Error> {
        let chunk = id.div_euclid(self.slots);
        if self.open.as_ref().is_none_or(|(open, _)| *open != chunk) {
            self.finish()?;
            self.open = Some((chunk, self.load(chunk)?));
        }
        let at = id.rem_euclid(self.slots) as usize * slot.len();
        if let Some(place) = self.open.as_mut().and_then(|(_, body)| body.get_mut(at..at + slot.len())) {
            place.copy_from_slice(slot);
        }
        Ok(())
    }

    fn load(&self, chunk: i64) -> Result<Vec<u8>, Error> {
        let mut select = self.db.prepare_cached("SELECT body FROM lesson_vectors WHERE chunk = ?1")?;
        let found = select.query_row([(self.number)(chunk)], |row| row.get(0)).optional()?;
        let mut body: Vec<u8> = found.unwrap_or_default();
        body.resize(self.slots as usize * self.size, 0);
        Ok(body)
    }
}

/// The signs of a vector, a bit for each part.
fn signs(parts: &[i8], into: &mut [u8]) {
    for (byte, eight) in into.iter_mut().zip(parts.chunks(8)) {
        *byte = eight.iter().enumerate().fold(0, |byte, (at, part)| byte | u8::from(*part > 0) << at);
    }
}

/// A lesson and its raw cosine to what was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    pub(crate) id: i64,
    pub(crate) cosine: f64,
}

/// A scan over all vectors for the nearest ones.
pub(crate) struct Scan<'q> {
    pub(crate) vector: &'q Vector,
    /// So many of the nearest of each kind.
    pub(crate) most: usize,
    /// Only what is nearer than this.
    pub(crate) above: f64,
    /// The cosines of these are wanted in any case; sorted.
    pub(crate) also: &'q [i64],
}

/// The nearest lessons of each kind, nearest first, and the cosines of those that were named.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) failures: Vec<Near>,
    pub(crate) patterns: Vec<Near>,
    pub(crate) also: Vec<Near>,
}

pub(crate) fn scan(db: &Connection, asked: &Scan<'_>) -> Result<Scanned, Error> {
    let mut found = Scanned::default();
    if asked.vector.is_zero() {
        return Ok(found);
    }
    let mut wanted: Vec<i64> = asked.also.to_vec();
    let short = if asked.most == 0 { [Vec::new(), Vec::new()] } else { short_list(db, asked)? };
    short.iter().for_each(|ids| wanted.extend(ids));
    wanted.sort_unstable();
    wanted.dedup();
    let mut heaps = [Nearest::new(asked), Nearest::new(asked)];
    each_vector(db, &wanted, asked.vector, &mut |id, kind, cosine| {
        if asked.also.binary_search(&id).is_ok() {
            found.also.push(Near { id, cosine: f64::from(cosine) });
        }
        heaps[kind].offer(cosine, id);
    })?;
    let [failures, patterns] = heaps;
    found.failures = failures.sorted();
    found.patterns = patterns.sorted();
    Ok(found)
}

/// The stored vectors of some lessons; `ids` are sorted.
pub(crate) fn stored(db: &Connection, dims: usize, ids: &[i64]) -> Result<Vec<(i64, Vector)>, Error> {
    let mut found = Vec::with_capacity(ids.len());
    each_slot(db, HEAD + dims, ids, &mut |id, slot| {
        if let Some(body) = slot.get(HEAD..).filter(|_| slot[0] != 0) {
            found.push((id, Vector::from_parts(body.iter().map(|byte| byte.cast_signed()).collect())));
        }
    })?;
    Ok(found)
}

fn each_vector(
    db: &Connection,
    ids: &[i64],
    asked: &Vector,
    each: &mut dyn FnMut(i64, usize, f32),
) -> Result<(), Error> {
    let length = (asked.square() as f32).sqrt();
    each_slot(db, HEAD + asked.parts().len(), ids, &mut |id, slot| {
        if let Some((kind, cosine)) = look(slot, asked.parts(), length) {
            each(id, kind, cosine);
        }
    })
}

/// The slots of some lessons, a chunk read once.
fn each_slot(
    db: &Connection,
    size: usize,
    ids: &[i64],
    each: &mut dyn FnMut(i64, &[u8]),
) -> Result<(), Error> {
    let mut select = db.prepare_cached("SELECT body FROM lesson_vectors WHERE chunk = ?1")?;
    for same in ids.chunk_by(|left, right| left.div_euclid(SLOTS) == right.div_euclid(SLOTS)) {
        let mut rows = select.query([same[0].div_euclid(SLOTS)])?;
        let Some(row) = rows.next()? else { continue };
        let body = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        for id in same {
            let at = id.rem_euclid(SLOTS) as usize * size;
            if let Some(slot) = body.get(at..at + size) {
                each(*id, slot);
            }
        }
    }
    Ok(())
}

/// The lessons of each kind whose signs differ least, best first.
fn short_list(db: &Connection, asked: &Scan<'_>) -> Result<[Vec<i64>; 2], Error> {
    let most = asked.most * 2 + SHORT_LIST;
    let mut probe = vec![0; asked.vector.parts().len().div_ceil(8)];
    signs(asked.vector.parts(), &mut probe);
    let mut heaps = [BinaryHeap::new(), BinaryHeap::new()];
    let mut select =
        db.prepare_cached("SELECT chunk, body FROM lesson_vectors WHERE chunk < 0 ORDER BY chunk DESC")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let first = (-1 - row.get::<_, i64>(0)?) * SKETCHES;
        let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        for (id, slot) in (first..).zip(body.chunks_exact(1 + probe.len())) {
            let Some(heap) = usize::from(slot[0]).checked_sub(1).and_then(|kind| heaps.get_mut(kind)) else {
                continue;
            };
            let far = differing(&slot[1..], &probe);
            if heap.len() < most {
                heap.push((far, id));
            } else if heap.peek().is_some_and(|worst| far < worst.0) {
                heap.pop();
                heap.push((far, id));
            }
        }
    }
    Ok(heaps.map(|heap| heap.into_sorted_vec().into_iter().map(|(_, id)| id).collect()))
}

/// In how many bits two sketches differ.
fn differing(left: &[u8], right: &[u8]) -> u32 {
    let eights = left.as_chunks::<8>().0.iter().zip(right.as_chunks::<8>().0);
    let whole: u32 =
        eights.map(|(l, r)| (u64::from_ne_bytes(*l) ^ u64::from_ne_bytes(*r)).count_ones()).sum();
    let tail = left.as_chunks::<8>().1.iter().zip(right.as_chunks::<8>().1);
    whole + tail.map(|(l, r)| (l ^ r).count_ones()).sum::<u32>()
}

/// Index of the kind, and cosine, of one slot; `None` if it is empty or points nowhere.
fn look(slot: &[u8], parts: &[i8], length: f32) -> Option<(usize, f32)> {
    let (head, body) = slot.split_at_checked(HEAD)?;
    let kind = usize::from(head[0]).checked_sub(1).filter(|kind| *kind < 2)?;
    let square = i32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    (square > 0).then(|| (kind, dot_bytes(body, parts) as f32 / (length * (square as f32).sqrt())))
}

/// The sum of products with stored bytes; the compiler makes vector instructions of it.
fn dot_bytes(stored: &[u8], asked: &[i8]) -> i32 {
    let product =
        |(stored, asked): (&u8, &i8)| i32::from(i16::from(stored.cast_signed()) * i16::from(*asked));
    stored.iter().zip(asked).map(product).sum()
}

/// Keeps the best so many. Cosines are kept as whole numbers, which have an order.
struct Nearest {
    heap: BinaryHeap<Reverse<(i64, Reverse<i64>)>>,
    most: usize,
    bar: f32,
}

const FINE: f32 = 1e6;

impl Nearest {
    fn new(asked: &Scan<'_>) -> Nearest {
        Nearest { heap: BinaryHeap::with_capacity(asked.most + 1), most: asked.most, bar: asked.above as f32 }
    }

    fn offer(&mut self, cosine: f32, id: i64) {
        if cosine <= self.bar || self.most == 0 {
            return;
        }
        self.heap.push(Reverse(((cosine * FINE) as i64, Reverse(id))));
        if self.heap.len() > self.most {
            self.heap.pop();
            self.bar = self.heap.peek().map_or(self.bar, |Reverse((least, _))| *least as f32 / FINE);
        }
    }

    fn sorted(self) -> Vec<Near> {
        let sorted = self.heap.into_sorted_vec();
        let near = |Reverse((cosine, Reverse(id)))| Near { id, cosine: cosine as f64 / f64::from(FINE) };
        sorted.into_iter().map(near).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(at: usize) -> Vector {
        let mut numbers = [0.1; 4];
        numbers[at] = 1.0;
        Vector::of(&numbers)
    }

    #[test]
    fn vectors_are_found_replaced_and_cleared() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(crate::schema::CREATE).unwrap();
        let mut writer = Writer::new(&db, 4);
        for id in 1..=300 {
            let kind = if id % 3 == 0 { StoredKind::Pattern } else { StoredKind::Failure };
            writer.put(id, kind, &vector(id as usize % 4)).unwrap();
        }
        writer.clear(4).unwrap();
        writer.put(8, StoredKind::Failure, &vector(1)).unwrap();
        writer.finish().unwrap();

        let asked = vector(0);
        let found =
            scan(&db, &Scan { vector: &asked, most: 3, above: 0.5, also: &[4, 8, 299, 9999] }).unwrap();
        let ids = |near: &[Near]| near.iter().map(|near| near.id).collect::<Vec<_>>();
        assert_eq!(ids(&found.failures), [16, 20, 28]);
        assert_eq!(ids(&found.patterns), [12, 24, 36]);
        assert_eq!(ids(&found.also), [8, 299]);
        assert!((found.failures[0].cosine - 1.0).abs() < 1e-5 && found.also[0].cosine < 0.5);

        let mut writer = Writer::new(&db, 4);
        (256..=300).for_each(|id| writer.clear(id).unwrap());
        writer.finish().unwrap();
        let chunks: i64 = db.query_row("SELECT count(*) FROM lesson_vectors", [], |row| row.get(0)).unwrap();
        assert_eq!(chunks, 16 + 1);
    }

    #[test]
    fn nothing_is_near_to_zero() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(crate::schema::CREATE).unwrap();
        let zero = Vector::of(&[0.0; 4]);
        let found = scan(&db, &Scan { vector: &zero, most: 3, above: -1.0, also: &[] }).unwrap();
        assert!(found.failures.is_empty() && found.patterns.is_empty());
    }
}
