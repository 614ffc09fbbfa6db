//! Snapshots: what a journal has made, as bytes, so that looking at a long one reads its end and not all of it.
//!
//! A snapshot is a cache and never the truth. The writer says beside it of which entry it is; the reader
//! compares that with the journal first. Bytes that do not fit give nothing, and what they stood for is made of the
//! journal as if there were none.
//!
//! | module | what it holds |
//! |---|---|
//! | `pack` | values as bytes, with what is shared written once |
//! | `run` | the parts of a run |

mod pack;
mod run;

pub(crate) use pack::{Pack, Packer, Unpacker};
pub(crate) use run::{fields, read_run, write_run};

/// What the bytes of this program begin with. The number goes up with every change of what a snapshot holds, and of what
/// applying an entry makes of a run.
pub(crate) const FORMAT: &str = "ftl snapshot 2";
