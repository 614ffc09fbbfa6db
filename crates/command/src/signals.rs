//! Signals: the first asks for a clean stop, the second ends the program at once.

use std::sync::Arc;

use ftl_engine::drive::StopSignal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::ExitStatus;
use crate::failure::CommandError;
use crate::out::Out;

/// A file that reaches the limit of its size must not end the program without a word: what wrote it fails and says
/// so. Programs that are started have the signal as before.
pub fn outlive_file_limit() {
    // Where this cannot be had the program ends as it would have.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// A wish to stop that signals say. From now on no reader of ours keeps it waiting.
pub fn stop(out: &Out) -> Result<StopSignal, CommandError> {
    let stop = StopSignal::default();
    let cannot = |error: std::io::Error| {
        CommandError::new(format!("signals cannot be listened to: {error}"), "run `ftl doctor`")
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(cannot)?;
    let said = stop.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                if said.say() > 1 {
                    std::process::exit(i32::from(ExitStatus::Interrupted as u8));
                }
            }
        })
        .map_err(cannot)?;
    out.obey(&stop).map_err(cannot)?;
    Ok(stop)
}
