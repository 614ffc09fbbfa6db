//! The adversary: what tests use against the engine. It is never part of the product.

pub mod dice;
pub mod world;
