//! Shared runs of letters: the longest common run, then the same left and right of it.
//!
//! Runs under `MIN_RUN` letters are chance and do not count. The work has a limit: texts are cut at
//! [`MAX_LETTERS`], and what is left of a pair after [`MAX_CELLS`] comparisons does not count.

/// Shorter runs are chance.
const MIN_RUN: usize = 3;

/// So many letters of each text are compared.
pub const MAX_LETTERS: usize = 1_000;

/// So many pairs of letters are compared.
pub const MAX_CELLS: usize = 4_000_000;

/// The letters of a text that are compared.
pub fn letters(text: &str) -> Vec<char> {
    text.chars().take(MAX_LETTERS).collect()
}

/// `2·matched / (both lengths)`; 0 if one is empty.
pub fn ratio(left: &[char], right: &[char]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 0.0;
    }
    if left == right {
        return 1.0;
    }
    2.0 * matched(left, right) as f64 / (left.len() + right.len()) as f64
}

/// What [`ratio`] cannot exceed: the letters of either text that stand in a run of `MIN_RUN` which
/// the other has too. Runs are told apart by a hash; where two share one, the bound is only higher.
pub fn upper_bound(left: &[char], right: &[char]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 0.0;
    }
    if left == right {
        return 1.0;
    }
    let shared = covered(left, &Runs::of(right)).min(covered(right, &Runs::of(left)));
    2.0 * shared as f64 / (left.len() + right.len()) as f64
}

/// The runs of [`MIN_RUN`] letters of a text, as bits.
struct Runs([u64; RUN_BITS / 64]);

const RUN_BITS: usize = 8192;

impl Runs {
    fn of(text: &[char]) -> Runs {
        let mut bits = [0; RUN_BITS / 64];
        text.windows(MIN_RUN).map(slot).for_each(|slot| bits[slot / 64] |= 1 << (slot % 64));
        Runs(bits)
    }

    fn holds(&self, run: &[char]) -> bool {
        let slot = slot(run);
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }
}

fn slot(run: &[char]) -> usize {
    let mixed = run.iter().fold(0_u32, |sum, letter| sum.wrapping_mul(0x9e37_79b1) ^ u32::from(*letter));
    (mixed.wrapping_mul(0x85eb_ca6b) >> 19) as usize % RUN_BITS
}

/// How many letters of a text stand in one of the runs.
fn covered(text: &[char], runs: &Runs) -> usize {
    let (mut count, mut end) = (0, 0);
    for (at, run) in text.windows(MIN_RUN).enumerate() {
        if runs.holds(run) {
            count += at + MIN_RUN - end.max(at);
            end = at + MIN_RUN;
        }
    }
    count
}

fn matched(left: &[char], right: &[char]) -> usize {
    let mut open = vec![(left, right)];
    let mut total = 0;
    let mut cells = 0;
    let mut row = Vec::new();
    while let Some((left, right)) = open.pop() {
        cells += left.len() * right.len();
        if cells > MAX_CELLS {
            break;
        }
        let Some(run) = longest_run(left, right, &mut row) else { continue };
        total += run.len;
        open.push((&left[..run.left], &right[..run.right]));
        open.push((&left[run.left + run.len..], &right[run.right + run.len..]));
    }
    total
}

#[derive(Clone, Copy)]
struct Run {
    left: usize,
    right: usize,
    len: usize,
}

/// The longest common run, the earliest in the left text and then in the right one.
fn longest_run(left: &[char], right: &[char], row: &mut Vec<u16>) -> Option<Run> {
    if left.len() < MIN_RUN || right.len() < MIN_RUN {
        return None;
    }
    row.clear();
    row.resize(right.len() + 1, 0);
    let mut best = Run { left: 0, right: 0, len: 0 };
    for (i, here) in left.iter().enumerate() {
        let mut diagonal = 0;
        for (j, there) in right.iter().enumerate() {
            let len = if here == there { diagonal + 1 } else { 0 };
            diagonal = std::mem::replace(&mut row[j + 1], len);
            if usize::from(len) > best.len {
                let len = usize::from(len);
                best = Run { left: i + 1 - len, right: j + 1 - len, len };
            }
        }
    }
    (best.len >= MIN_RUN).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(left: &str, right: &str) -> f64 {
        ratio(&letters(left), &letters(right))
    }

    #[test]
    fn ratios() {
        let table = "
            abcdef   | abcdef   | 1
            abcdef   | abcxef   | 0.5
            abcdef   | uvwxyz   | 0
            abcd efg | efg abcd | 0.5
            abxcd    | abcd     | 0
            xxabcyy  | abc      | 0.6
        ";
        for line in table.lines().filter(|line| line.contains('|')) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let found = of(parts[0], parts[1]);
            assert!((found - parts[2].parse::<f64>().unwrap()).abs() < 1e-9, "{}: {found}", line.trim());
        }
        assert_eq!(of("", "abc"), 0.0);
    }

    proptest::proptest! {
        #[test]
        fn no_pair_is_nearer_than_its_bound(left in "[abc \u{e4}]{0,40}", right in "[abc \u{e4}]{0,40}") {
            proptest::prop_assert!(upper_bound(&letters(&left), &letters(&right)) >= of(&left, &right));
        }
    }

    #[test]
    fn the_bound_holds_and_work_ends() {
        let pairs = [("the lock is held", "a held lock"), ("aaaaabbb", "ab"), ("äöü one", "two öäü")];
        for (left, right) in pairs {
            assert!(upper_bound(&letters(left), &letters(right)) >= of(left, right));
        }
        let (long, other) = ("abc".repeat(10_000), "abd".repeat(10_000));
        assert_eq!(letters(&long).len(), MAX_LETTERS);
        assert!(of(&long, &other) < 0.1);
        let hard: String = (0..MAX_LETTERS).map(|n| char::from(b'a' + (n % 7) as u8)).collect();
        let harder: String = (0..MAX_LETTERS).map(|n| char::from(b'a' + (n % 11) as u8)).collect();
        let found = of(&hard, &harder);
        assert!((0.0..=1.0).contains(&found));
    }
}
