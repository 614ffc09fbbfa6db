//! Drawings of a machine.
