//! Dice: a small generator of numbers that a seed decides.
//!
//! Everything that is random in the simulation comes from here, and nothing that comes from here may
//! ever reach the product. The same seed throws the same numbers on every machine.

/// Numbers out of a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Dice that belong to a name: what others throw does not change what these throw.
    pub fn for_name(seed: u64, name: &str) -> Dice {
        let mut mixed = Dice(seed);
        for byte in name.bytes() {
            mixed.0 ^= u64::from(byte).wrapping_mul(0x100_0000_01b3);
            mixed.0 = mixed.throw();
        }
        mixed
    }

    /// The next number of the sequence, from all of `u64`.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another one; 0 when that is 0.
    pub fn below(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.throw() % most }
    }

    /// A number from one to another, both possible.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// Whether something happens that happens so often in a hundred times.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.below(of.len() as u64)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_numbers() {
        let throws = |mut dice: Dice| (0..9).map(|_| dice.throw()).collect::<Vec<_>>();
        assert_eq!(throws(Dice::new(7)), throws(Dice::new(7)));
        assert_ne!(throws(Dice::new(7)), throws(Dice::new(8)));
        assert_eq!(throws(Dice::for_name(7, "001")), throws(Dice::for_name(7, "001")));
        assert_ne!(throws(Dice::for_name(7, "001")), throws(Dice::for_name(7, "010")));
    }

    #[test]
    fn numbers_stay_inside_their_bounds() {
        let mut dice = Dice::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            seen.insert(dice.between(3, 6));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!((dice.below(0), dice.pick::<u8>(&[])), (0, None));
        assert!(!(0..1000).any(|_| dice.chance(0)) && (0..1000).all(|_| dice.chance(100)));
    }
}
