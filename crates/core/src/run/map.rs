//! An ordered map whose copies share what they have in common.
//!
//! A decision is made on a copy of an instance. With this map a copy costs the same however much is
//! open, and a change copies only the way from the root to what changed. It is a balanced binary
//! tree (AVL) of shared nodes; a node that another copy shares is copied before it changes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// More than the height of a balanced tree of 2³² entries.
const MAX_HEIGHT: usize = 48;

/// An ordered map whose copies share what they have in common.
pub struct Map<K, V> {
    root: Link<K, V>,
    len: usize,
}

type Link<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
struct Node<K, V> {
    key: K,
    value: V,
    height: u8,
    left: Link<K, V>,
    right: Link<K, V>,
}

impl<K, V> Map<K, V> {
    /// A map without entries.
    pub const fn new() -> Map<K, V> {
        Map { root: None, len: 0 }
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        *self = Map::new();
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { path: [None; MAX_HEIGHT], depth: 0 };
        iter.down(&self.root);
        iter
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The entry with the lowest key.
    pub fn first(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        while let Some(left) = node.left.as_deref() {
            node = left;
        }
        Some((&node.key, &node.value))
    }
}

impl<K: Ord, V> Map<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut link = &self.root;
        while let Some(node) = link {
            match key.cmp(node.key.borrow()) {
                Ordering::Less => link = &node.left,
                Ordering::Greater => link = &node.right,
                Ordering::Equal => return Some(&node.value),
            }
        }
        None
    }

    /// Whether there is such a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries from a key on, which itself need not be there.
    pub fn starting_at(&self, key: &K) -> Iter<'_, K, V> {
        let mut iter = Iter { path: [None; MAX_HEIGHT], depth: 0 };
        let mut link = &self.root;
        while let Some(node) = link {
            if node.key < *key {
                link = &node.right;
            } else {
                iter.push(node);
                link = &node.left;
            }
        }
        iter
    }
}

impl<K: Ord + Clone, V: Clone> Map<K, V> {
    /// Puts a value, and gives back the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = insert(&mut self.root, key, value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes a value out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        self.len -= 1;
        remove(&mut self.root, key)
    }

    /// The value of a key, to change it. What copies share is copied on the way.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let mut link = &mut self.root;
        loop {
            let node = Arc::make_mut(link.as_mut()?);
            match key.cmp(node.key.borrow()) {
                Ordering::Less => link = &mut node.left,
                Ordering::Greater => link = &mut node.right,
                Ordering::Equal => return Some(&mut node.value),
            }
        }
    }
}

impl<K, V> Node<K, V> {
    fn measure(&mut self) {
        self.height = 1 + height(&self.left).max(height(&self.right));
    }
}

fn height<K, V>(link: &Link<K, V>) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

fn insert<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>, key: K, value: V) -> Option<V> {
    let Some(node) = link else {
        *link = Some(Arc::new(Node { key, value, height: 1, left: None, right: None }));
        return None;
    };
    let node = Arc::make_mut(node);
    let old = match key.cmp(&node.key) {
        Ordering::Less => insert(&mut node.left, key, value),
        Ordering::Greater => insert(&mut node.right, key, value),
        Ordering::Equal => return Some(std::mem::replace(&mut node.value, value)),
    };
    balance(link);
    old
}

fn remove<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(
    link: &mut Link<K, V>,
    key: &Q,
) -> Option<V> {
    let order = key.cmp(link.as_ref()?.key.borrow());
    if order == Ordering::Equal {
        let Node { value, left, mut right, .. } = Arc::unwrap_or_clone(link.take()?);
        *link = match take_first(&mut right) {
            Some((key, value)) => Some(Arc::new(Node { key, value, height: 1, left, right })),
            None => left,
        };
        balance(link);
        return Some(value);
    }
    let node = Arc::make_mut(link.as_mut()?);
    let side = if order == Ordering::Less { &mut node.left } else { &mut node.right };
    let old = remove(side, key);
    balance(link);
    old
}

fn take_first<K: Clone, V: Clone>(link: &mut Link<K, V>) -> Option<(K, V)> {
    if link.as_ref()?.left.is_none() {
        let node = Arc::unwrap_or_clone(link.take()?);
        *link = node.right;
        return Some((node.key, node.value));
    }
    let first = take_first(&mut Arc::make_mut(link.as_mut()?).left);
    balance(link);
    first
}

/// Makes both sides of a node about equally high again, after one of them changed by one.
fn balance<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(shared) = link else { return };
    let (left, right) = (height(&shared.left), height(&shared.right));
    let node = Arc::make_mut(shared);
    if left > right + 1 {
        let leans = node.left.as_ref().is_some_and(|side| height(&side.right) > height(&side.left));
        if leans {
            rotate_left(&mut node.left);
        }
        rotate_right(link);
    } else if right > left + 1 {
        let leans = node.right.as_ref().is_some_and(|side| height(&side.left) > height(&side.right));
        if leans {
            rotate_right(&mut node.right);
        }
        rotate_left(link);
    } else {
        node.measure();
    }
}

fn rotate_right<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(mut top) = link.take() else { return };
    let node = Arc::make_mut(&mut top);
    let Some(mut pivot) = node.left.take() else {
        *link = Some(top);
        return;
    };
    let up = Arc::make_mut(&mut pivot);
    node.left = up.right.take();
    node.measure();
    up.right = Some(top);
    up.measure();
    *link = Some(pivot);
}

fn rotate_left<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(mut top) = link.take() else { return };
    let node = Arc::make_mut(&mut top);
    let Some(mut pivot) = node.right.take() else {
        *link = Some(top);
        return;
    };
    let up = Arc::make_mut(&mut pivot);
    node.right = up.left.take();
    node.measure();
    up.left = Some(top);
    up.measure();
    *link = Some(pivot);
}

/// The entries of a map in the order of their keys.
pub struct Iter<'a, K, V> {
    path: [Option<&'a Node<K, V>>; MAX_HEIGHT],
    depth: usize,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn push(&mut self, node: &'a Node<K, V>) {
        if let Some(place) = self.path.get_mut(self.depth) {
            *place = Some(node);
            self.depth += 1;
        }
    }

    fn down(&mut self, mut link: &'a Link<K, V>) {
        while let Some(node) = link {
            self.push(node);
            link = &node.left;
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        self.depth = self.depth.checked_sub(1)?;
        let node = self.path.get(self.depth).copied().flatten()?;
        self.down(&node.right);
        Some((&node.key, &node.value))
    }
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { path: self.path, depth: self.depth }
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Map<K, V> {
        let mut map = Map::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> Index<&Q> for Map<K, V> {
    type Output = V;

    #[allow(clippy::expect_used, reason = "an index that is not there is a mistake, as in std's maps")]
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry for the key")
    }
}

impl<K, V> Clone for Map<K, V> {
    fn clone(&self) -> Map<K, V> {
        Map { root: self.root.clone(), len: self.len }
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map::new()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Map<K, V>) -> bool {
        let same = match (&self.root, &other.root) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same || (self.len == other.len && self.iter().eq(other.iter()))
    }
}

impl<K: Eq, V: Eq> Eq for Map<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{Link, Map, height};

    /// The height of a tree whose nodes are all balanced, measured and in order.
    fn sound<K: Ord, V>(link: &Link<K, V>) -> u8 {
        let Some(node) = link else { return 0 };
        let (left, right) = (sound(&node.left), sound(&node.right));
        assert!(left.abs_diff(right) <= 1, "out of balance");
        assert!(node.left.as_ref().is_none_or(|left| left.key < node.key), "out of order");
        assert!(node.right.as_ref().is_none_or(|right| right.key > node.key), "out of order");
        assert_eq!(node.height, 1 + left.max(right));
        node.height
    }

    fn same(map: &Map<u16, u32>, model: &BTreeMap<u16, u32>) {
        sound(&map.root);
        assert!(map.iter().eq(model.iter()));
        assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
        assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        assert_eq!(map.first(), model.first_key_value());
        assert_eq!(format!("{map:?}"), format!("{model:?}"));
    }

    proptest! {
        /// Does the same as the map of the standard library, and copies made on the way keep what they had.
        #[test]
        fn is_a_map_and_its_copies_stay(steps in prop::collection::vec((0u8..5, 0u16..64, any::<u32>()), 0..300)) {
            let (mut map, mut model) = (Map::new(), BTreeMap::new());
            let mut copies = Vec::new();
            for (what, key, value) in steps {
                match what {
                    0 | 1 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    2 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    3 => {
                        let (one, two) = (map.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(&one, &two);
                        if let (Some(one), Some(two)) = (one, two) {
                            (*one, *two) = (value, value);
                        }
                    }
                    _ => copies.push((map.clone(), model.clone())),
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert!(map.starting_at(&key).eq(model.range(key..)));
            }
            same(&map, &model);
            for (copy, model) in &copies {
                same(copy, model);
                prop_assert_eq!(*copy == map, copy.iter().eq(map.iter()));
            }
        }
    }

    #[test]
    fn stays_flat_whatever_the_order() {
        let up: Map<u32, ()> = (0..10_000).map(|key| (key, ())).collect();
        let down: Map<u32, ()> = (0..10_000).rev().map(|key| (key, ())).collect();
        for map in [&up, &down] {
            sound(&map.root);
            assert!(height(&map.root) <= 19, "1.44 times the logarithm of 10,000");
        }
        assert_eq!(up, down);
        let mut map = up.clone();
        (0..9_999).for_each(|key| assert_eq!(map.remove(&key), Some(())));
        assert_eq!((map.len(), height(&map.root), map[&9_999]), (1, 1, ()));
        map.clear();
        assert_eq!((map.remove(&1), map.len()), (None, 0));
        assert_eq!(map.iter().next(), None);
        assert_eq!(up.len(), 10_000, "a copy is not changed");
    }
}
