//! Values as bytes: what a snapshot is written with, and read back with.
//!
//! What is shared in memory is written once, so that a plan that every line of work knows stands in a snapshot once, and
//! is one plan again when it is read. Short names are shared wherever they come from. Reading takes no byte for
//! granted: what does not fit gives nothing, and nothing is allocated for more than there are bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ftl_core::run::{Map, Meter, Thread};
use ftl_core::value::{Fields, Name, Number, Value};

/// A text of at most this many bytes is compared with those that were written; a longer one is known by its place in memory.
const MAX_COMPARED: usize = 64;

/// How deep values may nest in a snapshot: deeper than any that a run takes, and less than a thread's stack bears.
const MAX_DEPTH: usize = 128;

/// Something that can be written as bytes and read back.
pub(crate) trait Pack: Sized {
    /// Appends its bytes.
    fn pack(&self, out: &mut Packer);
    /// Reads it back; nothing where the bytes do not fit.
    fn unpack(from: &mut Unpacker<'_>) -> Option<Self>;
}

/// The bytes that are written so far, and the values that they share.
#[derive(Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
    texts: BTreeMap<Arc<str>, u64>,
    /// Shared things that were written, by their place in memory, with their number among those of their kind.
    shared: BTreeMap<usize, u64>,
    counts: [u64; KINDS],
    depth: usize,
    is_too_deep: bool,
}

/// How many kinds of shared things there are.
const KINDS: usize = 6;

/// Which kind of shared thing.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    List,
    Fields,
    Meters,
    Thread,
    Names,
}

impl Packer {
    /// What was written as a whole; nothing where it nests too deep.
    pub(crate) fn all(write: impl FnOnce(&mut Packer)) -> Option<Vec<u8>> {
        let mut packer = Packer::default();
        write(&mut packer);
        (!packer.is_too_deep).then_some(packer.bytes)
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// A number in as few bytes as it needs, seven bits in each.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Something shared: its number, or 0 and the thing itself.
    fn share(&mut self, kind: Kind, place: usize, write: impl FnOnce(&mut Packer)) {
        if let Some(number) = self.shared.get(&place) {
            return self.number(*number);
        }
        self.number(0);
        write(self);
        let count = &mut self.counts[kind as usize];
        *count += 1;
        self.shared.insert(place, *count);
    }

    fn text(&mut self, text: &Arc<str>) {
        if text.len() > MAX_COMPARED {
            return self.share(Kind::Text, place_of(text), |out| out.letters(text));
        }
        if let Some(number) = self.texts.get(text) {
            return self.number(*number);
        }
        self.number(0);
        self.letters(text);
        self.counts[Kind::Text as usize] += 1;
        self.texts.insert(text.clone(), self.counts[Kind::Text as usize]);
    }

    fn letters(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn nested(&mut self, write: impl FnOnce(&mut Packer)) {
        self.depth += 1;
        self.is_too_deep |= self.depth > MAX_DEPTH;
        if !self.is_too_deep {
            write(self);
        }
        self.depth -= 1;
    }
}

/// Where something shared is in memory. It is held as long as the packer works, so that nothing else can be there.
fn place_of<T: ?Sized>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).cast::<u8>().addr()
}

/// What is left to be read.
pub(crate) struct Unpacker<'a> {
    bytes: &'a [u8],
    texts: Vec<Arc<str>>,
    lists: Vec<Arc<Vec<Value>>>,
    fields: Vec<Arc<Fields>>,
    meters: Vec<Arc<BTreeMap<Name, Meter>>>,
    threads: Vec<Arc<Thread>>,
    names: Vec<Arc<Vec<Name>>>,
    depth: usize,
}

impl<'a> Unpacker<'a> {
    /// Reads something out of bytes, of which none may be left.
    pub(crate) fn all<T>(bytes: &'a [u8], read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (texts, lists, fields) = (Vec::new(), Vec::new(), Vec::new());
        let (meters, threads, names) = (Vec::new(), Vec::new(), Vec::new());
        let mut from = Unpacker { bytes, texts, lists, fields, meters, threads, names, depth: 0 };
        let found = read(&mut from)?;
        from.bytes.is_empty().then_some(found)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            number |= part.checked_shl(shift).filter(|shifted| shifted >> shift == part)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// How many things follow: each takes a byte at least.
    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.bytes.len())
    }

    fn letters(&mut self) -> Option<&'a str> {
        let length = self.count()?;
        let (letters, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(letters).ok()
    }

    /// Something shared, out of the list of its kind.
    fn share<T>(
        &mut self,
        list: impl Fn(&mut Self) -> &mut Vec<Arc<T>>,
        read: impl FnOnce(&mut Self) -> Option<Arc<T>>,
    ) -> Option<Arc<T>>
    where
        T: ?Sized,
    {
        match self.number()? {
            0 => {
                let new = read(self)?;
                list(self).push(new.clone());
                Some(new)
            }
            number => list(self).get(usize::try_from(number).ok()? - 1).cloned(),
        }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let found = if self.depth > MAX_DEPTH { None } else { read(self) };
        self.depth -= 1;
        found
    }
}

impl Pack for u8 {
    fn pack(&self, out: &mut Packer) {
        out.byte(*self);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<u8> {
        from.byte()
    }
}

impl Pack for u64 {
    fn pack(&self, out: &mut Packer) {
        out.number(*self);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<u64> {
        from.number()
    }
}

impl Pack for u32 {
    fn pack(&self, out: &mut Packer) {
        out.number(u64::from(*self));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<u32> {
        u32::try_from(from.number()?).ok()
    }
}

impl Pack for bool {
    fn pack(&self, out: &mut Packer) {
        out.byte(u8::from(*self));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<bool> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Pack for String {
    fn pack(&self, out: &mut Packer) {
        out.letters(self);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<String> {
        from.letters().map(str::to_owned)
    }
}

impl Pack for Arc<str> {
    fn pack(&self, out: &mut Packer) {
        out.text(self);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Arc<str>> {
        from.share(|from| &mut from.texts, |from| from.letters().map(Arc::from))
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, out: &mut Packer) {
        match self {
            None => out.byte(0),
            Some(one) => {
                out.byte(1);
                one.pack(out);
            }
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Option<T>> {
        if bool::unpack(from)? { T::unpack(from).map(Some) } else { Some(None) }
    }
}

impl<T: Pack, E: Pack> Pack for Result<T, E> {
    fn pack(&self, out: &mut Packer) {
        match self {
            Ok(one) => {
                out.byte(0);
                one.pack(out);
            }
            Err(other) => {
                out.byte(1);
                other.pack(out);
            }
        }
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Result<T, E>> {
        if bool::unpack(from)? { E::unpack(from).map(Err) } else { T::unpack(from).map(Ok) }
    }
}

impl<A: Pack, B: Pack> Pack for (A, B) {
    fn pack(&self, out: &mut Packer) {
        self.0.pack(out);
        self.1.pack(out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<(A, B)> {
        Some((A::unpack(from)?, B::unpack(from)?))
    }
}

impl<A: Pack, B: Pack, C: Pack> Pack for (A, B, C) {
    fn pack(&self, out: &mut Packer) {
        self.0.pack(out);
        self.1.pack(out);
        self.2.pack(out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<(A, B, C)> {
        Some((A::unpack(from)?, B::unpack(from)?, C::unpack(from)?))
    }
}

impl Pack for () {
    fn pack(&self, _: &mut Packer) {}

    fn unpack(_: &mut Unpacker<'_>) -> Option<()> {
        Some(())
    }
}

/// Writes how many there are, and each.
fn pack_each<'a, T: Pack + 'a>(all: impl ExactSizeIterator<Item = &'a T>, out: &mut Packer) {
    out.number(all.len() as u64);
    all.for_each(|one| one.pack(out));
}

fn pack_pairs<'a, K: Pack + 'a, V: Pack + 'a>(
    count: usize,
    all: impl Iterator<Item = (&'a K, &'a V)>,
    out: &mut Packer,
) {
    out.number(count as u64);
    for (key, value) in all {
        key.pack(out);
        value.pack(out);
    }
}

fn unpack_each<T: Pack, C: FromIterator<T>>(from: &mut Unpacker<'_>) -> Option<C> {
    let count = from.count()?;
    (0..count).map(|_| T::unpack(from)).collect()
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, out: &mut Packer) {
        pack_each(self.iter(), out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Vec<T>> {
        unpack_each(from)
    }
}

impl<T: Pack> Pack for VecDeque<T> {
    fn pack(&self, out: &mut Packer) {
        pack_each(self.iter(), out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<VecDeque<T>> {
        unpack_each(from)
    }
}

impl<T: Pack + Ord> Pack for BTreeSet<T> {
    fn pack(&self, out: &mut Packer) {
        pack_each(self.iter(), out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<BTreeSet<T>> {
        unpack_each(from)
    }
}

impl<K: Pack + Ord, V: Pack> Pack for BTreeMap<K, V> {
    fn pack(&self, out: &mut Packer) {
        pack_pairs(self.len(), self.iter(), out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<BTreeMap<K, V>> {
        unpack_each::<(K, V), _>(from)
    }
}

impl<K: Pack + Ord + Clone, V: Pack + Clone> Pack for Map<K, V> {
    fn pack(&self, out: &mut Packer) {
        pack_pairs(self.len(), self.iter(), out);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Map<K, V>> {
        unpack_each::<(K, V), _>(from)
    }
}

/// Things that are shared: written once, each kind with a list of its own.
macro_rules! shared {
    ($type:ty, $kind:ident, $list:ident) => {
        impl Pack for Arc<$type> {
            fn pack(&self, out: &mut Packer) {
                out.share(Kind::$kind, place_of(self), |out| self.as_ref().pack(out));
            }

            fn unpack(from: &mut Unpacker<'_>) -> Option<Arc<$type>> {
                from.share(|from| &mut from.$list, |from| <$type>::unpack(from).map(Arc::new))
            }
        }
    };
}

shared!(Vec<Value>, List, lists);
shared!(Fields, Fields, fields);
shared!(BTreeMap<Name, Meter>, Meters, meters);
shared!(Thread, Thread, threads);
shared!(Vec<Name>, Names, names);

impl Pack for Value {
    fn pack(&self, out: &mut Packer) {
        out.nested(|out| match self {
            Value::None => out.byte(0),
            Value::Bool(false) => out.byte(1),
            Value::Bool(true) => out.byte(2),
            Value::Number(number) => {
                out.byte(3);
                let number = number.in_thousandths();
                // The sign last, so that small numbers are short whatever theirs is.
                out.number(((number << 1) ^ (number >> 63)) as u64);
            }
            Value::Text(text) => {
                out.byte(4);
                text.pack(out);
            }
            Value::List(items) => {
                out.byte(5);
                items.pack(out);
            }
            Value::Record(fields) => {
                out.byte(6);
                fields.pack(out);
            }
        });
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Value> {
        from.nested(|from| {
            Some(match from.byte()? {
                0 => Value::None,
                1 => Value::Bool(false),
                2 => Value::Bool(true),
                3 => {
                    let number = from.number()?;
                    let thousandths = (number >> 1) as i64 ^ -((number & 1) as i64);
                    Value::Number(Number::thousandths(thousandths))
                }
                4 => Value::Text(Pack::unpack(from)?),
                5 => Value::List(Pack::unpack(from)?),
                6 => Value::Record(Pack::unpack(from)?),
                _ => return None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(what: &impl Pack) -> Option<Vec<u8>> {
        Packer::all(|out| what.pack(out))
    }

    fn unpacked<T: Pack>(bytes: &[u8]) -> Option<T> {
        Unpacker::all(bytes, T::unpack)
    }

    fn value() -> Value {
        let plan = Value::record([
            ("seq", Value::text("001")),
            ("long", Value::text("x".repeat(100))),
            ("n", Value::list([Value::whole(-7), Value::Number(Number::thousandths(1_500)), Value::None])),
            ("yes", Value::Bool(true)),
            ("no", Value::Bool(false)),
            ("é", Value::text("")),
        ]);
        Value::list([plan.clone(), plan.clone(), Value::record([("plan", plan)])])
    }

    #[test]
    fn what_was_written_is_read_and_is_shared_again() {
        let value = value();
        let bytes = packed(&value).unwrap();
        let once = packed(&value.items()[0]).unwrap();
        assert!(bytes.len() < once.len() + 32, "{} of {}", bytes.len(), once.len());
        let read: Value = unpacked(&bytes).unwrap();
        assert_eq!(read, value);
        let (Value::Record(one), Value::Record(two)) = (&read.items()[0], &read.items()[1]) else { panic!() };
        assert!(Arc::ptr_eq(one, two));
    }

    #[test]
    fn numbers_of_every_size_are_read_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let bytes = packed(&number).unwrap();
            assert_eq!(unpacked::<u64>(&bytes), Some(number));
        }
        assert_eq!(unpacked::<u64>(&[0xff; 11]), None);
        assert_eq!(unpacked::<u32>(&packed(&u64::MAX).unwrap()), None);
    }

    #[test]
    fn bytes_that_do_not_fit_give_nothing_and_never_end_the_program() {
        let bytes = packed(&value()).unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(unpacked::<Value>(&bytes[..cut]), None, "{cut}");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[at] ^= flip;
                let _ = unpacked::<Value>(&other);
            }
        }
        let deep = [5_u8, 0, 1].repeat(MAX_DEPTH + 9);
        assert_eq!(unpacked::<Value>(&deep), None);
        let mut nested = Value::None;
        (0..=MAX_DEPTH).for_each(|_| nested = Value::list([nested.clone()]));
        assert_eq!(packed(&nested), None);
    }
}
