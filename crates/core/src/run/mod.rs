//! The interpreter: a run is a tree of instances, and one function picks what comes next.
pub mod eval;
