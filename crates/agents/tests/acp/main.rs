//! The `acp` backend against an agent of our own that plays a part in a process of its own, and against
//! what real agents have said.

mod cast;
mod contract;
mod faults;
mod matching;
mod recorded;
mod terminals;
