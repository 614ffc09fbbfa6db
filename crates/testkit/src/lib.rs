//! The adversary: what tests use against the engine. It is never part of the product.
