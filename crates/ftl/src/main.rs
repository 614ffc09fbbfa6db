//! The faces of `ftl`.
fn main() {}
