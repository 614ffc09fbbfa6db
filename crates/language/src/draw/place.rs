//! Where each spot stands from left to right, after Brandes and Köpf: spots are aligned with the
//! middle of what they are joined to, four times from four corners, and the four are averaged.
//!
//! Long links come out straight, and no two spots of a layer come closer than their widths allow.

use std::collections::BTreeSet;

use super::order::Ladder;

/// How much work moving what is free may take, counted in spots visited.
const SETTLING_WORK: usize = 400_000;
/// The most passes that are worth making over what is free.
const SETTLING: usize = 150;

/// The room a spot needs to the left and to the right of its middle, gaps included.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) left: f64,
    pub(super) right: f64,
    /// Whether this is only a bend of a link: these are kept straight first.
    pub(super) bend: bool,
}

/// The middle of each spot.
pub(super) fn across(ladder: &Ladder, rooms: &[Room]) -> Vec<f64> {
    let crossed = crossed(ladder, rooms);
    let mut tries = Vec::new();
    for upward in [false, true] {
        for mirrored in [false, true] {
            let view = View::of(ladder, rooms, upward, mirrored);
            let mut across = view.compact(&view.align(&crossed));
            if mirrored {
                across.iter_mut().for_each(|x| *x = -*x);
            }
            tries.push((across, mirrored));
        }
    }
    let mut across = averaged(&mut tries, rooms);
    spread(ladder, rooms, &mut across);
    settle(ladder, rooms, &mut across);
    across
}

/// Links that cross a bend-to-bend link; they give way, so that long links stay straight.
fn crossed(ladder: &Ladder, rooms: &[Room]) -> BTreeSet<(usize, usize)> {
    let position = ladder.positions();
    let mut crossed = BTreeSet::new();
    for pair in ladder.layers.windows(2) {
        let (upper, lower) = (&pair[0], &pair[1]);
        let (mut first, mut done) = (0, 0);
        for (at, &spot) in lower.iter().enumerate() {
            let inner = inner_above(spot, ladder, rooms);
            if inner.is_none() && at + 1 < lower.len() {
                continue;
            }
            let last = inner.map_or(upper.len(), |above| position[above]);
            for &below in &lower[done..=at] {
                for &above in &ladder.up[below] {
                    let inside = (first..=last).contains(&position[above]);
                    if !inside && inner_above(below, ladder, rooms) != Some(above) {
                        crossed.insert((above, below));
                    }
                }
            }
            done = at + 1;
            first = last;
        }
    }
    crossed
}

fn inner_above(spot: usize, ladder: &Ladder, rooms: &[Room]) -> Option<usize> {
    let above = *ladder.up[spot].first()?;
    (rooms[spot].bend && rooms[above].bend).then_some(above)
}

/// The ladder as seen from one of the four corners.
struct View {
    layers: Vec<Vec<usize>>,
    joined: Vec<Vec<usize>>,
    position: Vec<usize>,
    rooms: Vec<Room>,
    upward: bool,
}

impl View {
    fn of(ladder: &Ladder, rooms: &[Room], upward: bool, mirrored: bool) -> Self {
        let mut layers = ladder.layers.clone();
        let mut rooms = rooms.to_vec();
        if upward {
            layers.reverse();
        }
        if mirrored {
            layers.iter_mut().for_each(|layer| layer.reverse());
            for room in &mut rooms {
                (room.left, room.right) = (room.right, room.left);
            }
        }
        let mut position = vec![0; rooms.len()];
        for layer in &layers {
            for (at, &spot) in layer.iter().enumerate() {
                position[spot] = at;
            }
        }
        let side = if upward { &ladder.down } else { &ladder.up };
        let mut joined = side.clone();
        for spots in &mut joined {
            spots.sort_by_key(|&spot| position[spot]);
        }
        Self { layers, joined, position, rooms, upward }
    }

    /// The first spot of the straight line that each spot belongs to.
    fn align(&self, crossed: &BTreeSet<(usize, usize)>) -> Vec<usize> {
        let count = self.rooms.len();
        let mut root: Vec<usize> = (0..count).collect();
        let mut followed = vec![false; count];
        for layer in &self.layers {
            let mut free = 0;
            for &spot in layer {
                let joined = &self.joined[spot];
                if joined.is_empty() {
                    continue;
                }
                let middle = [(joined.len() - 1) / 2, joined.len() / 2];
                for to in middle.map(|at| joined[at]) {
                    let link = if self.upward { (spot, to) } else { (to, spot) };
                    let fits = self.position[to] >= free && !followed[to];
                    if fits && root[spot] == spot && !crossed.contains(&link) {
                        root[spot] = root[to];
                        followed[to] = true;
                        free = self.position[to] + 1;
                    }
                }
            }
        }
        root
    }

    /// Pushes the lines together, as far left as they go, and then back towards the right where
    /// that costs nothing.
    fn compact(&self, root: &[usize]) -> Vec<f64> {
        let blocks = Blocks::of(self, root);
        let sequence = blocks.sequence(root);
        let mut x = vec![0.0; root.len()];
        for &block in &sequence {
            for &(next, gap) in &blocks.right[block] {
                x[next] = f64::max(x[next], x[block] + gap);
            }
        }
        for &block in sequence.iter().rev() {
            let limit = blocks.right[block].iter().map(|&(next, gap)| x[next] - gap);
            let limit = limit.fold(f64::INFINITY, f64::min);
            if limit.is_finite() {
                x[block] = f64::max(x[block], limit);
            }
        }
        root.iter().map(|&block| x[block]).collect()
    }
}

/// The straight lines to the right of each, and how far off they must stay.
struct Blocks {
    right: Vec<Vec<(usize, f64)>>,
    left_count: Vec<usize>,
}

impl Blocks {
    fn of(view: &View, root: &[usize]) -> Self {
        let mut right = vec![Vec::new(); root.len()];
        let mut left_count = vec![0; root.len()];
        for layer in &view.layers {
            for pair in layer.windows(2) {
                let gap = view.rooms[pair[0]].right + view.rooms[pair[1]].left;
                right[root[pair[0]]].push((root[pair[1]], gap));
                left_count[root[pair[1]]] += 1;
            }
        }
        Self { right, left_count }
    }

    fn sequence(&self, root: &[usize]) -> Vec<usize> {
        let mut open = self.left_count.clone();
        let mut sequence: Vec<usize> =
            (0..root.len()).filter(|&spot| root[spot] == spot && open[spot] == 0).collect();
        let mut at = 0;
        while let Some(&block) = sequence.get(at) {
            at += 1;
            for &(next, _) in &self.right[block] {
                open[next] -= 1;
                if open[next] == 0 {
                    sequence.push(next);
                }
            }
        }
        sequence
    }
}

/// Lays the four over each other at their edges and takes the mean of the middle two.
fn averaged(tries: &mut [(Vec<f64>, bool)], rooms: &[Room]) -> Vec<f64> {
    let ends = |across: &[f64]| {
        let left = across.iter().zip(rooms).map(|(x, room)| x - room.left);
        let right = across.iter().zip(rooms).map(|(x, room)| x + room.right);
        let low = left.fold(f64::INFINITY, f64::min);
        (low, right.fold(f64::NEG_INFINITY, f64::max))
    };
    let narrowest =
        tries.iter().map(|(across, _)| ends(across)).min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    let Some((low, high)) = narrowest else {
        return Vec::new();
    };
    for (across, mirrored) in tries.iter_mut() {
        let (left, right) = ends(across);
        let shift = if *mirrored { high - right } else { low - left };
        across.iter_mut().for_each(|x| *x += shift);
    }
    let mean = |spot: usize| {
        let mut four: Vec<f64> = tries.iter().map(|(across, _)| across[spot]).collect();
        four.sort_by(f64::total_cmp);
        f64::midpoint(four[1], four[2])
    };
    (0..rooms.len()).map(mean).collect()
}

/// Makes sure of the distances, whatever came before: overlapping boxes cannot be read.
fn spread(ladder: &Ladder, rooms: &[Room], across: &mut [f64]) {
    for layer in &ladder.layers {
        for pair in layer.windows(2) {
            let least = across[pair[0]] + rooms[pair[0]].right + rooms[pair[1]].left;
            across[pair[1]] = f64::max(across[pair[1]], least);
        }
    }
}

/// Moves what is not part of a long line towards the middle of what it is joined to, as far as
/// its neighbours leave room: fewer lines run far sideways. The last pass goes up, so the mark
/// above the start stands straight above it.
fn settle(ladder: &Ladder, rooms: &[Room], across: &mut [f64]) {
    let free = |spot: usize| !rooms[spot].bend || joined(ladder, spot).all(|next| !rooms[next].bend);
    let pairs = (SETTLING_WORK / rooms.len().max(1)).clamp(2, SETTLING);
    for pass in 0..2 * pairs {
        for step in 0..ladder.layers.len() {
            let upward = pass % 2 == 1;
            let layer = &ladder.layers[if upward { ladder.layers.len() - 1 - step } else { step }];
            for at in 0..layer.len() {
                if free(layer[at]) {
                    centre((ladder, rooms), across, layer, at);
                }
            }
        }
    }
}

fn centre((ladder, rooms): (&Ladder, &[Room]), across: &mut [f64], layer: &[usize], at: usize) {
    let spot = layer[at];
    let left = at.checked_sub(1).map(|at| layer[at]);
    let least = left.map_or(f64::NEG_INFINITY, |l| across[l] + rooms[l].right + rooms[spot].left);
    let right = layer.get(at + 1);
    let most = right.map_or(f64::INFINITY, |&r| across[r] - rooms[r].left - rooms[spot].right);
    let count = joined(ladder, spot).count();
    if count > 0 {
        let sum: f64 = joined(ladder, spot).map(|next| across[next]).sum();
        across[spot] = (sum / count as f64).min(most).max(least);
    }
}

fn joined(ladder: &Ladder, spot: usize) -> impl Iterator<Item = usize> {
    ladder.up[spot].iter().chain(&ladder.down[spot]).copied()
}
