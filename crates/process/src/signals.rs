//! Signals that guards live through.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;

/// Signals that would end or stop a guard, and that are not meant for it.
const NOT_FOR_US: [Signal; 11] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::PIPE,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// Has this process go on whatever signal comes that is not meant for it.
pub(super) fn ignore_signals() -> io::Result<()> {
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in NOT_FOR_US {
        // A handler that does nothing, and not "ignore": a command must not inherit it.
        signal_hook::flag::register(signal.as_raw(), Arc::clone(&ignored))?;
    }
    Ok(())
}
