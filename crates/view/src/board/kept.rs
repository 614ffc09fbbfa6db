//! A board as bytes: what a driver keeps from time to time, so that a later command need not read the whole journal.

use std::sync::Arc;

use ftl_core::program::Programs;

use super::story::{Story, StoryStep};
use super::{Asked, Board, Heard};
use crate::snapshot::{FORMAT, Pack, Packer, Unpacker, fields, read_run, write_run};

fields!(Asked { whom, form });
fields!(Heard { delivered, analysis, allowed, noted, tried, left_out, replans });
fields!(StoryStep { at, good, text });
fields!(Story { steps });

impl Board {
    /// The board as bytes; nothing where it cannot be kept.
    pub fn snapshot(&self) -> Option<Vec<u8>> {
        let Board { run, times, asked, works, latest, heard, story, forgets: false } = self else {
            return None;
        };
        Packer::all(|out| {
            FORMAT.to_owned().pack(out);
            write_run(run, out);
            times.pack(out);
            asked.pack(out);
            works.pack(out);
            latest.pack(out);
            heard.pack(out);
            story.pack(out);
        })
    }

    /// The board that was kept; nothing where the bytes are of another version, or damaged.
    pub fn restored(bytes: &[u8], programs: Arc<dyn Programs>) -> Option<Board> {
        Unpacker::all(bytes, |from| {
            let format: String = Pack::unpack(from)?;
            let run = (format == FORMAT).then(|| read_run(from, programs))??;
            Some(Board {
                run,
                times: Pack::unpack(from)?,
                asked: Pack::unpack(from)?,
                works: Pack::unpack(from)?,
                latest: Pack::unpack(from)?,
                heard: Pack::unpack(from)?,
                story: Pack::unpack(from)?,
                forgets: false,
            })
        })
    }
}
