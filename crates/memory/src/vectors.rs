//! The vectors of all lessons, packed into chunks that are scanned without touching a lesson.
//!
//! A lesson's number is its place: chunk `id / SLOTS`, slot `id % SLOTS`. A slot is a byte for the
//! kind (0 is empty), the square of the vector's length, and the vector's bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::embed::Vector;
use crate::error::Error;
use crate::lesson::{Keys as _, StoredKind};

const SLOTS: i64 = 128;
const HEAD: usize = 5;

/// Writes vectors; a chunk is written once for all vectors that follow each other in it.
pub(crate) struct Writer<'c> {
    db: &'c Connection,
    dims: usize,
    open: Option<(i64, Vec<u8>)>,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(db: &'c Connection, dims: usize) -> Writer<'c> {
        Writer { db, dims, open: None }
    }

    pub(crate) fn put(&mut self, id: i64, kind: StoredKind, vector: &Vector) -> Result<(), Error> {
        let mut slot = Vec::with_capacity(HEAD + self.dims);
        slot.push(kind.number() as u8);
        slot.extend(vector.square().to_le_bytes());
        slot.extend(vector.parts().iter().map(|part| part.cast_unsigned()));
        slot.resize(HEAD + self.dims, 0);
        self.write(id, &slot)
    }

    pub(crate) fn clear(&mut self, id: i64) -> Result<(), Error> {
        self.write(id, &vec![0; HEAD + self.dims])
    }

    /// Writes what is still open. A chunk without vectors is taken away.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let Some((chunk, body)) = self.open.take() else { return Ok(()) };
        if body.iter().step_by(HEAD + self.dims).all(|kind| *kind == 0) {
            self.db.prepare_cached("DELETE FROM lesson_vectors WHERE chunk = ?1")?.execute([chunk])?;
        } else {
            let sql = "INSERT OR REPLACE INTO lesson_vectors (chunk, body) VALUES (?1, ?2)";
            self.db.prepare_cached(sql)?.execute(params![chunk, body])?;
        }
        Ok(())
    }

    fn write(&mut self, id: i64, slot: &[u8]) -> Result<(), Error> {
        let chunk = id.div_euclid(SLOTS);
        if self.open.as_ref().is_none_or(|(open, _)| *open != chunk) {
            self.finish()?;
            self.open = Some((chunk, self.load(chunk)?));
        }
        let at = id.rem_euclid(SLOTS) as usize * slot.len();
        if let Some(place) = self.open.as_mut().and_then(|(_, body)| body.get_mut(at..at + slot.len())) {
            place.copy_from_slice(slot);
        }
        Ok(())
    }

    fn load(&self, chunk: i64) -> Result<Vec<u8>, Error> {
        let mut select = self.db.prepare_cached("SELECT body FROM lesson_vectors WHERE chunk = ?1")?;
        let mut body: Vec<u8> = select.query_row([chunk], |row| row.get(0)).optional()?.unwrap_or_default();
        body.resize(SLOTS as usize * (HEAD + self.dims), 0);
        Ok(body)
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
    let mut heaps = [Nearest::new(asked), Nearest::new(asked)];
    let mut also = asked.also.iter().copied().peekable();
    let length = (asked.vector.square() as f32).sqrt();
    let mut select = db.prepare_cached("SELECT chunk, body FROM lesson_vectors ORDER BY chunk")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let first = row.get::<_, i64>(0)? * SLOTS;
        let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        for (id, slot) in (first..).zip(body.chunks_exact(HEAD + asked.vector.parts().len())) {
            let Some((kind, cosine)) = look(slot, asked.vector.parts(), length) else { continue };
            while also.next_if(|wanted| *wanted < id).is_some() {}
            if also.next_if_eq(&id).is_some() {
                found.also.push(Near { id, cosine: f64::from(cosine) });
            }
            heaps[kind].offer(cosine, id);
        }
    }
    let [failures, patterns] = heaps;
    found.failures = failures.sorted();
    found.patterns = patterns.sorted();
    Ok(found)
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
        assert_eq!(chunks, 2);
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
