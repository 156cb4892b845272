//! Millrace functions in Rust: keyed state, event time and timers, run by a Millrace pipeline inside a
//! WebAssembly sandbox.
//!
//! ```
//! use millrace::prelude::*;
//!
//! millrace::module! {
//!     name: "wordcount",
//!     flat_map split { on_record: split },
//!     process count keyed { on_record: count_word, states: { total: Value<u64> } },
//! }
//!
//! fn split(ctx: &mut Ctx, line: &Record) -> Result<()> {
//!     for word in line.text()?.split_whitespace() {
//!         ctx.emit().key(word).value(word.as_bytes())?;
//!     }
//!     Ok(())
//! }
//!
//! fn count_word(ctx: &mut Ctx, word: &Record) -> Result<()> {
//!     let n = count::total.get(ctx)?.unwrap_or(0) + 1;
//!     count::total.set(ctx, &n)?;
//!     ctx.emit().json(|o| {
//!         o.str("word", word.text().unwrap_or("")).uint("count", n);
//!     })
//! }
//! # fn main() {}
//! ```
//!
//! Build it as a `cdylib` for `wasm32-unknown-unknown` (the README has the 60-second path), test it
//! natively with [`testing::Harness`].
//!
//! **What holds for each record.** Its effects (outputs, state, timers, logs, metrics) count together or
//! not at all: a function that returns `Err` leaves none, and the record goes to the operator's error
//! policy. A panic does the same, at the price of a new instance. State belongs to the current key.
//! Module globals are not state, for the host may replace an instance at any time, unless the module says
//! `snapshot: memory`.
#![no_std]
#![warn(missing_docs)]
#![allow(clippy::missing_safety_doc)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[rustfmt::skip]
pub mod abi;
mod aggregate;
mod codec;
mod ctx;
mod describe;
mod emit;
mod error;
mod host;
mod json;
mod memory;
mod module;
#[cfg(all(target_arch = "wasm32", feature = "std"))]
mod panic;
mod record;
mod row;
mod schema;
mod state;
#[cfg(all(not(target_arch = "wasm32"), feature = "std"))]
pub mod testing;
mod ttl;

pub use aggregate::{Aggregate, Elements, Window};
pub use codec::{Bounded, Codec, Fixed, MapKey};
pub use ctx::{Ctx, Level};
pub use emit::{Emit, IntoKey};
pub use error::{Error, Result};
pub use json::JsonWriter;
pub use module::{FieldDesc, Function, FunctionDesc, Module, Returns, StateDesc, StateKind};
pub use record::{Domain, Headers, Op, Record, Timer};
pub use row::{bitmap_bytes, fixed_bytes, FieldType, Row, RowWriter};
pub use schema::Schema;
pub use state::{List, Map, Value};
pub use ttl::Ttl;

/// A side output, from the function's `side_outputs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output(pub u8);

/// What a function usually needs.
pub mod prelude {
    pub use crate::abi::{MAX_WATERMARK, NO_TIME};
    pub use crate::{
        bail, codec, Aggregate, Bounded, Ctx, Domain, Error, Level, List, Map, Op, Output, Record, Result, Timer, Ttl,
        Value, Window,
    };
}

/// For the macros.
#[doc(hidden)]
pub mod __private {
    pub use crate::aggregate::{begin_window, step};
    pub use crate::describe::{describe, Instance};
    pub use crate::memory::Stream;
    pub use crate::module::{alloc_buffer, begin_record, begin_timer, each, process};
    pub use alloc::{format, vec::Vec};

    /// Runs a call on the instance's one context.
    ///
    /// # Safety
    /// As `process`; a wasm instance has one thread, and calls do not nest.
    #[cfg(target_arch = "wasm32")]
    pub unsafe fn process_static(module: &crate::Module, block: *mut u8, out: *mut u8, cap: usize, first: u32) -> i32 {
        static mut CTX: crate::Ctx = crate::Ctx::new();
        process(module, &mut *core::ptr::addr_of_mut!(CTX), block, out, cap, first)
    }
}
