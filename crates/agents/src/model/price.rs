//! What tokens cost. A model without a row has no price, and its money is unknown, never zero.

use std::collections::BTreeMap;

/// Tokens of one answer of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// What was sent and not found in a cache.
    pub input: u64,
    /// What was found in a cache.
    pub cached: u64,
    /// What was written to a cache.
    pub stored: u64,
    /// What the model answered.
    pub output: u64,
}

impl Tokens {
    /// The sum of all parts.
    pub fn all(&self) -> u64 {
        self.input_total().saturating_add(self.output)
    }

    /// All that was sent.
    pub fn input_total(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.stored)
    }
}

/// The price of a model: thousandths of the currency for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// For tokens that are sent and not found in a cache.
    pub input: u64,
    /// What is found in a cache.
    pub cached: u64,
    /// What is written to a cache.
    pub stored: u64,
    /// For tokens of the answer.
    pub output: u64,
}

impl Price {
    /// What tokens cost, in millionths, rounded up.
    pub fn of(&self, tokens: &Tokens) -> u64 {
        let parts = [
            (tokens.input, self.input),
            (tokens.cached, self.cached),
            (tokens.stored, self.stored),
            (tokens.output, self.output),
        ];
        // A thousandth for a million tokens is a thousandth of a millionth for one.
        let sum: u128 = parts.iter().map(|(count, price)| u128::from(*count) * u128::from(*price)).sum();
        u64::try_from(sum.div_ceil(1000)).unwrap_or(u64::MAX)
    }
}

/// Prices by the name of the model, or by how its name begins: `name*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// The same with one more row.
    #[must_use]
    pub fn with(mut self, model: &str, price: Price) -> Prices {
        self.0.insert(model.to_owned(), price);
        self
    }

    /// The price of a model: its own row, else that of the longest beginning.
    pub fn of(&self, model: &str) -> Option<Price> {
        let begins = |row: &&String| row.strip_suffix('*').is_some_and(|start| model.starts_with(start));
        let longest = || self.0.keys().filter(begins).max_by_key(|row| row.len());
        self.0.get(model).or_else(|| self.0.get(longest()?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_found_and_rounded_up() {
        let price = |input| Price { input, cached: 300, stored: 3750, output: 15_000 };
        let prices =
            Prices::default().with("big", price(3000)).with("big-*", price(2000)).with("b*", price(1));
        assert_eq!(prices.of("big").map(|one| one.input), Some(3000));
        assert_eq!(prices.of("big-2").map(|one| one.input), Some(2000));
        assert_eq!(prices.of("bag").map(|one| one.input), Some(1));
        assert_eq!(prices.of("other"), None);
        // 3.00 for a million: a thousand tokens cost 0.003, which is 3,000 millionths.
        let tokens = |input, cached, stored, output| Tokens { input, cached, stored, output };
        assert_eq!(price(3000).of(&tokens(1000, 0, 0, 0)), 3000);
        assert_eq!(price(3000).of(&tokens(1000, 1000, 1000, 1000)), 3000 + 300 + 3750 + 15_000);
        assert_eq!(price(1).of(&tokens(1, 0, 0, 0)), 1);
        assert_eq!(price(u64::MAX).of(&tokens(u64::MAX, 0, 0, 0)), u64::MAX);
        assert_eq!((tokens(1, 2, 3, 4).input_total(), tokens(1, 2, 3, 4).all()), (6, 10));
    }
}
