//! What a panic says: told to the host, which adds it to the fault.

use crate::ctx::{log, Level};
use std::boxed::Box;
use std::sync::Once;

/// From now on a panic's message and place go to the log as an error before the trap.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|info| log(Level::Error, format_args!("{info}")))));
}
