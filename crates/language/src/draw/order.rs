//! The order of the spots inside each layer: fewer crossings, found by sweeping up and down.
//!
//! The number of sweeps shrinks as drawings grow, so the work stays bounded. The best order seen
//! is the one that stays.

/// How much work the sweeps may take, counted in spots visited.
const SWEEP_WORK: usize = 600_000;
/// The most sweeps that are worth making.
const SWEEPS: usize = 28;
/// Above this many spots the sweeps start from one first order instead of two.
const ONE_START: usize = 100_000;
/// Neighbours are only exchanged one by one in drawings up to this many spots.
const EXCHANGED: usize = 1_500;

/// Spots by layer, and what each spot is joined to in the layer above and below.
pub(super) struct Ladder {
    pub(super) layers: Vec<Vec<usize>>,
    pub(super) up: Vec<Vec<usize>>,
    pub(super) down: Vec<Vec<usize>>,
}

impl Ladder {
    /// Where each spot stands in its layer.
    pub(super) fn positions(&self) -> Vec<usize> {
        let mut position = vec![0; self.up.len()];
        for layer in &self.layers {
            for (at, &spot) in layer.iter().enumerate() {
                position[spot] = at;
            }
        }
        position
    }

    /// Puts the layers in an order with few crossings.
    pub(super) fn untangle(&mut self) {
        let sweeps = (SWEEP_WORK / self.up.len().max(1)).clamp(2, SWEEPS);
        let mut best: Option<(usize, Vec<Vec<usize>>)> = None;
        let starts: &[bool] = if self.up.len() > ONE_START { &[false] } else { &[false, true] };
        for &reversed in starts {
            self.first_order(reversed);
            for sweep in 0..sweeps {
                self.sweep(sweep % 2 == 0);
                self.exchange();
                let crossings = self.crossings();
                if best.as_ref().is_none_or(|(least, _)| crossings < *least) {
                    best = Some((crossings, self.layers.clone()));
                }
                if crossings == 0 {
                    break;
                }
            }
        }
        if let Some((_, layers)) = best {
            self.layers = layers;
        }
    }

    /// Depth first from the top, so that what belongs together starts side by side.
    fn first_order(&mut self, reversed: bool) {
        let mut seen = vec![false; self.up.len()];
        let mut layer_of = vec![0; self.up.len()];
        for (at, layer) in self.layers.iter().enumerate() {
            for &spot in layer {
                layer_of[spot] = at;
            }
        }
        let mut layers = vec![Vec::new(); self.layers.len()];
        let mut roots: Vec<usize> = self.layers.iter().flatten().copied().collect();
        roots.sort_by_key(|&spot| (layer_of[spot], spot));
        roots.reverse();
        while let Some(spot) = roots.pop() {
            if std::mem::replace(&mut seen[spot], true) {
                continue;
            }
            layers[layer_of[spot]].push(spot);
            if reversed {
                roots.extend(&self.down[spot]);
            } else {
                roots.extend(self.down[spot].iter().rev());
            }
        }
        self.layers = layers;
    }

    fn sweep(&mut self, downward: bool) {
        let mut position = self.positions();
        let count = self.layers.len();
        for step in 1..count {
            let at = if downward { step } else { count - 1 - step };
            let joined = if downward { &self.up } else { &self.down };
            arrange(&mut self.layers[at], joined, &position);
            for (place, &spot) in self.layers[at].iter().enumerate() {
                position[spot] = place;
            }
        }
    }

    /// Exchanges neighbours while that removes crossings.
    fn exchange(&mut self) {
        if self.up.len() > EXCHANGED {
            return;
        }
        let mut position = self.positions();
        for layer in &mut self.layers {
            for at in 1..layer.len() {
                let (left, right) = (layer[at - 1], layer[at]);
                let crossed = |a: usize, b: usize| {
                    pair_crossings(&self.up[a], &self.up[b], &position)
                        + pair_crossings(&self.down[a], &self.down[b], &position)
                };
                if crossed(right, left) < crossed(left, right) {
                    layer.swap(at - 1, at);
                    position.swap(left, right);
                }
            }
        }
    }

    fn crossings(&self) -> usize {
        let position = self.positions();
        let between = |pair: &[Vec<usize>]| {
            let ends = pair[0].iter().flat_map(|&spot| {
                let mut below: Vec<usize> = self.down[spot].iter().map(|&s| position[s]).collect();
                below.sort_unstable();
                below
            });
            inversions(ends, pair[1].len())
        };
        self.layers.windows(2).map(between).sum()
    }
}

/// Sorts a layer by the middle of what each spot is joined to. Spots that are joined to nothing
/// keep their place.
fn arrange(layer: &mut [usize], joined: &[Vec<usize>], position: &[usize]) {
    let slots: Vec<usize> = (0..layer.len()).filter(|&at| !joined[layer[at]].is_empty()).collect();
    let mut spots: Vec<(f64, usize)> =
        slots.iter().map(|&at| (middle(&joined[layer[at]], position), layer[at])).collect();
    spots.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (slot, (_, spot)) in slots.into_iter().zip(spots) {
        layer[slot] = spot;
    }
}

fn middle(joined: &[usize], position: &[usize]) -> f64 {
    let sum: usize = joined.iter().map(|&spot| position[spot]).sum();
    sum as f64 / joined.len() as f64
}

fn pair_crossings(left: &[usize], right: &[usize], position: &[usize]) -> usize {
    let right_of = |a: usize| right.iter().filter(move |&&b| position[b] < position[a]);
    left.iter().map(|&a| right_of(a).count()).sum()
}

/// How many pairs of a sequence are in the wrong order, counted with a Fenwick tree.
fn inversions(sequence: impl Iterator<Item = usize>, width: usize) -> usize {
    let mut tree = vec![0usize; width + 1];
    let (mut crossings, mut before) = (0, 0);
    for value in sequence {
        let mut at = value + 1;
        let mut not_greater = 0;
        while at > 0 {
            not_greater += tree[at];
            at &= at - 1;
        }
        crossings += before - not_greater;
        at = value + 1;
        while at <= width {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
        before += 1;
    }
    crossings
}

#[cfg(test)]
mod tests {
    use super::{Ladder, inversions};

    #[test]
    fn inversions_are_counted() {
        assert_eq!(inversions([2, 1, 0].into_iter(), 3), 3);
        assert_eq!(inversions([0, 0, 1].into_iter(), 2), 0);
    }

    #[test]
    fn a_crossing_is_removed() {
        let mut ladder = Ladder {
            layers: vec![vec![0, 1], vec![2, 3]],
            up: vec![vec![], vec![], vec![1], vec![0]],
            down: vec![vec![3], vec![2], vec![], vec![]],
        };
        ladder.untangle();
        assert_eq!(ladder.crossings(), 0);
    }
}
