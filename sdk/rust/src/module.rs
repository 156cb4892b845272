//! What a module offers, the loop over a call's records, and the `module!` macro.

use crate::abi;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::host;
use crate::record::{Domain, Record, Timer};
use crate::schema::Schema;
use crate::ttl::Ttl;
use alloc::vec::Vec;

/// When less output space than this is left, the loop yields before the next record.
pub const RESERVE: usize = 4 << 10;

/// Kind of a keyed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// one value
    Value,
    /// append-only list
    List,
    /// sorted map
    Map,
}

/// A declared state.
#[derive(Clone, Copy, Debug)]
pub struct StateDesc {
    /// its name in snapshots
    pub name: &'static str,
    /// its kind
    pub kind: StateKind,
    /// most bytes of one value; 0: no declared bound
    pub max_bytes: usize,
    /// how long what it holds lives; `None`: for ever
    pub ttl: Option<Ttl>,
    /// of values, or a list's elements
    pub schema: Schema,
    /// of a map's keys
    pub key_schema: Schema,
}

impl StateDesc {
    /// Whether it comes with the batch.
    pub const fn prefetched(&self) -> bool {
        matches!(self.kind, StateKind::Value) && self.max_bytes > 0 && self.max_bytes <= abi::MAX_PREFETCH_BYTES
    }
}

/// A column of a typed row: (name, type).
pub type FieldDesc = (&'static str, &'static str);

/// What a function says of itself.
#[derive(Clone, Copy, Debug)]
pub struct FunctionDesc {
    /// its name
    pub name: &'static str,
    /// map, flat_map, filter, process, aggregate or window
    pub kind: &'static str,
    /// whether it wants a keyed stream
    pub keyed: bool,
    /// columns of the input row; empty: raw bytes
    pub input: &'static [FieldDesc],
    /// columns of the main output's row; empty: raw bytes
    pub output: &'static [FieldDesc],
    /// side outputs, numbered from 1
    pub outputs: &'static [&'static str],
    /// states, numbered from 0
    pub states: &'static [StateDesc],
    /// "event", "processing"
    pub timers: &'static [&'static str],
    /// whether an aggregate can take a record back
    pub retracts: bool,
}

/// A function of a module.
pub struct Function {
    /// what it says of itself
    pub desc: FunctionDesc,
    /// handles records (steps, windows) from the first index to below the second, returns where it stopped
    pub records: Loop,
    /// the same for timers
    pub timers: Option<Loop>,
}

/// A loop over the records or timers of a call block.
pub type Loop = unsafe fn(&mut Ctx, u32, u32) -> u32;

/// A module: what [`module!`](crate::module) makes as `MODULE`.
pub struct Module {
    /// its name
    pub name: &'static str,
    /// its functions; the call block says which one runs
    pub functions: &'static [Function],
    /// with `snapshot: memory`: writes what its variables mean for the next version
    pub save: Option<fn(&mut Vec<u8>)>,
    /// with `snapshot: memory`: takes over from the version before
    pub load: Option<fn(&[u8]) -> Result<()>>,
}

/// What an `on_record` function may return: `()` or `Result<()>`; or `bool` or `Result<bool>` to say
/// whether the record goes to the main output as it is. Of a `watermark` function: `Option<i64>`, the watermark
/// from behind the record on.
pub trait Returns {
    #[doc(hidden)]
    fn finish(self, ctx: &mut Ctx, rec: &Record<'_>) -> Result<()>;
}

impl Returns for () {
    #[inline(always)]
    fn finish(self, _: &mut Ctx, _: &Record<'_>) -> Result<()> {
        Ok(())
    }
}

impl Returns for bool {
    #[inline(always)]
    fn finish(self, ctx: &mut Ctx, rec: &Record<'_>) -> Result<()> {
        if self {
            ctx.forward(rec)
        } else {
            Ok(())
        }
    }
}

/// Of a `watermark` function: no record of the split with an event time at or before it comes behind this one.
impl Returns for Option<i64> {
    #[inline(always)]
    fn finish(self, ctx: &mut Ctx, _: &Record<'_>) -> Result<()> {
        match self {
            Some(watermark) => ctx.emit().time(watermark).null(),
            None => Ok(()),
        }
    }
}

impl<R: Returns> Returns for Result<R> {
    #[inline(always)]
    fn finish(self, ctx: &mut Ctx, rec: &Record<'_>) -> Result<()> {
        match self {
            Ok(r) => r.finish(ctx, rec),
            Err(e) => Err(e),
        }
    }
}

/// Runs a call block from record `first` on and returns the status.
///
/// # Safety
/// `block` is a call block as the host writes it; `out` has `cap` bytes; both belong to this call.
pub unsafe fn process(module: &Module, ctx: &mut Ctx, block: *mut u8, out: *mut u8, cap: usize, first: u32) -> i32 {
    ctx.enter(block, out, cap);
    let n = ctx.word(abi::BLOCK_N);
    let function = &module.functions[ctx.word(abi::BLOCK_FUNCTION) as usize];
    let consumed = match (ctx.word(abi::BLOCK_KIND), function.timers) {
        (abi::KIND_RECORDS | abi::KIND_STEPS | abi::KIND_WINDOWS | abi::KIND_WATERMARKS, _) => {
            (function.records)(ctx, first, n)
        }
        (_, Some(timers)) => timers(ctx, first, n),
        (_, None) => panic!("a timer is due in {}, which has no on_timer", function.desc.name),
    };
    ctx.leave(out, consumed);
    if consumed == n {
        abi::STATUS_DONE
    } else {
        abi::STATUS_YIELD
    }
}

/// The loop. The exit test comes after `next`, so that the loop's head is billed to no record, and all
/// its conditions are evaluated each time, so that the bill is the same for every cut. The anchor keeps
/// the compiler from rotating the loop, which would bill a call's first record for what it hoists.
/// `step` is the user's function in a frame of its own, which begins with `begin_record` or `begin_timer`.
///
/// # Safety
/// Between `enter` and `leave` of a call.
#[inline(always)]
pub unsafe fn each(ctx: &mut Ctx, first: u32, n: u32, step: impl Fn(&mut Ctx, u32) -> Result<()>) -> u32 {
    let mut i = first;
    loop {
        ctx.anchor();
        let stop = host::next(i);
        let full = (ctx.space() < RESERVE) & (i > first);
        if (stop != 0) | (i >= n) | full {
            return i;
        }
        let (at, frames) = (ctx.out_end(), ctx.frames());
        match step(ctx, i) {
            Ok(()) => ctx.commit(),
            Err(e) => ctx.fail(at, frames, &e),
        }
        i += 1;
    }
}

/// Makes record `i` the current one. It is done in the user's frame, where the compiler then knows what
/// the context holds and does not load it again.
///
/// # Safety
/// Between `enter` and `leave` of a call with records, of which `i` is one.
#[inline(always)]
pub unsafe fn begin_record<'a>(ctx: &mut Ctx, i: u32) -> Record<'a> {
    ctx.begin(i);
    ctx.assume_records();
    ctx.current()
}

/// Makes timer `i` the current one.
///
/// # Safety
/// As `begin_record`, with timers.
#[inline(always)]
pub unsafe fn begin_timer<'a>(ctx: &mut Ctx, i: u32) -> Timer<'a> {
    ctx.begin(i);
    let event = ctx.word(abi::BLOCK_KIND) == abi::KIND_EVENT_TIMERS;
    Timer { rec: ctx.current(), domain: if event { Domain::Event } else { Domain::Processing } }
}

/// A buffer for the host that lives as long as the instance, 16-aligned.
pub fn alloc_buffer(size: usize) -> *mut u8 {
    #[cfg(all(target_arch = "wasm32", feature = "std"))]
    crate::panic::install();
    let layout = match core::alloc::Layout::from_size_align(size.max(1), 16) {
        Ok(l) => l,
        Err(_) => return core::ptr::null_mut(),
    };
    // Not zeroed: the host writes the input, and reads only what a call wrote.
    unsafe { alloc::alloc::alloc(layout) }
}

/// Describes a module and exports it. See the [crate] documentation.
///
/// ```text
/// module! {
///     name: "wordcount",
///     flat_map split { on_record: split },
///     process count keyed {
///         on_record: count_word,
///         on_timer: expire,                       // the rest is optional, in this order
///         input: { origin: string, delay: int64 },
///         output: { origin: string },
///         side_outputs: [late],
///         states: { total: Value<u64>, days: Map<i64, Day> = Ttl::hours(48) },
///         timers: [event, processing],
///     },
///     aggregate mean { of: Mean, input: { delay: int64 }, output: { mean: float64 } }, // Mean: Aggregate
///     window median { on_window: median, input: { delay: int64 }, output: { median: float64 }, side_outputs: [odd] },
/// }
/// ```
///
/// A module that keeps its state in variables of its own says so before its functions; its functions are keyed then:
///
/// ```text
/// module! {
///     name: "ledger",
///     snapshot: memory,        // its statics and heap are in every snapshot
///     save: save,              // optional: fn(&mut Vec<u8>), writes what they mean for the next version
///     load: load,              // optional: fn(&[u8]) -> Result<()>, takes over from the version before
///     process ledger keyed { on_record: add },
/// }
/// ```
///
/// Each function becomes a module of its name with its handles: `count::total`, `count::late`,
/// `count::input::delay` (a column's number) and `count::input::COUNT`.
#[macro_export]
macro_rules! module {
    (name: $module:literal, snapshot: memory, save: $save:path, load: $load:path, $($functions:tt)+) => {
        $crate::__module! { $module [true] [$save] [$load] $($functions)+ }
    };
    (name: $module:literal, snapshot: memory, save: $save:path, $($functions:tt)+) => {
        $crate::__module! { $module [true] [$save] [] $($functions)+ }
    };
    (name: $module:literal, snapshot: memory, load: $load:path, $($functions:tt)+) => {
        $crate::__module! { $module [true] [] [$load] $($functions)+ }
    };
    (name: $module:literal, snapshot: memory, $($functions:tt)+) => {
        $crate::__module! { $module [true] [] [] $($functions)+ }
    };
    (name: $module:literal, $($functions:tt)+) => {
        $crate::__module! { $module [false] [] [] $($functions)+ }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __module {
    ($module:literal [$memory:literal] [$($save:path)?] [$($load:path)?] $($kind:ident $name:ident $($keyed:ident)? { $($body:tt)* }),+ $(,)?) => {
        $($crate::__function! { $kind $name [$($keyed)?] { $($body)* } })+

        /// What this WebAssembly module offers; tests give it to `testing::Harness`.
        pub static MODULE: $crate::Module = $crate::Module {
            name: $module,
            functions: &[$($name::FUNCTION),+],
            save: $crate::__given!($($save)?),
            load: $crate::__given!($($load)?),
        };

        #[doc(hidden)]
        mod __millrace_exports {
            use super::*;
            const FUNCTIONS: &[$crate::FunctionDesc] = &[$($name::DESC),+];
            const INSTANCE: $crate::__private::Instance = $crate::__private::Instance {
                memory: $memory,
                save: $crate::__is_given!($($save)?),
                load: $crate::__is_given!($($load)?),
            };
            const LEN: usize = $crate::__private::describe($module, &INSTANCE, FUNCTIONS).len;

            #[cfg(target_arch = "wasm32")]
            #[link_section = "mr.descriptor"]
            #[used]
            static DESCRIPTOR: [u8; LEN] = $crate::__private::describe($module, &INSTANCE, FUNCTIONS).exact::<LEN>();

            #[cfg(not(target_arch = "wasm32"))]
            #[allow(dead_code)]
            const DESCRIPTOR: [u8; LEN] = $crate::__private::describe($module, &INSTANCE, FUNCTIONS).exact::<LEN>();

            #[cfg(target_arch = "wasm32")]
            #[no_mangle]
            extern "C" fn mr_abi_v0() {}

            #[cfg(target_arch = "wasm32")]
            #[no_mangle]
            extern "C" fn mr_alloc(size: usize) -> *mut u8 {
                $crate::__private::alloc_buffer(size)
            }

            #[cfg(target_arch = "wasm32")]
            #[no_mangle]
            extern "C" fn mr_process(block: *mut u8, _len: usize, out: *mut u8, cap: usize, first: u32) -> i32 {
                // The host gives ranges that it owns for the call.
                unsafe { $crate::__private::process_static(&MODULE, block, out, cap, first) }
            }

            $(
                #[cfg(target_arch = "wasm32")]
                #[no_mangle]
                extern "C" fn mr_save(buf: *mut u8, cap: usize) -> i32 {
                    static mut STREAM: $crate::__private::Stream = $crate::__private::Stream::new();
                    // The host gives a range that it owns for the call; an instance has one thread.
                    unsafe { (*core::ptr::addr_of_mut!(STREAM)).save($save, core::slice::from_raw_parts_mut(buf, cap)) }
                }
            )?
            $(
                #[cfg(target_arch = "wasm32")]
                #[no_mangle]
                extern "C" fn mr_load(part: *const u8, len: usize) -> i32 {
                    static mut STREAM: $crate::__private::Stream = $crate::__private::Stream::new();
                    // As for mr_save.
                    unsafe { (*core::ptr::addr_of_mut!(STREAM)).load($load, core::slice::from_raw_parts(part, len)) }
                }
            )?
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __is_given {
    () => {
        false
    };
    ($given:path) => {
        true
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __given {
    () => {
        None
    };
    ($given:path) => {
        Some($given)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __function {
    (aggregate $name:ident [] {
        of: $acc:ty
        $(, input: { $($in:ident : $in_type:ident),* $(,)? })?
        , output: { $($out:ident : $out_type:ident),* $(,)? }
        $(,)?
    }) => {
        #[allow(non_upper_case_globals, non_camel_case_types, dead_code, unused_imports)]
        pub mod $name {
            use super::*;

            $crate::__columns! { input [$($($in)*)?] }
            $crate::__columns! { output [$($out)*] }

            pub(super) const DESC: $crate::FunctionDesc = $crate::FunctionDesc {
                name: stringify!($name),
                kind: "aggregate",
                keyed: false,
                input: &[$($((stringify!($in), stringify!($in_type))),*)?],
                output: &[$((stringify!($out), stringify!($out_type))),*],
                outputs: &[],
                states: &[$crate::StateDesc {
                    name: "accumulator",
                    kind: $crate::StateKind::Value,
                    max_bytes: <$acc as $crate::Codec>::MAX_BYTES,
                    ttl: None,
                    schema: <$acc as $crate::Codec>::SCHEMA,
                    key_schema: $crate::Schema::Unknown,
                }],
                timers: &[],
                retracts: <$acc as $crate::Aggregate>::RETRACTS,
            };

            const _: () = assert!(DESC.states[0].prefetched(), "an accumulator has a bound of 1 to 4,096 bytes");

            #[inline(never)]
            fn step(ctx: &mut $crate::Ctx, i: u32) -> $crate::Result<()> {
                unsafe { $crate::__private::step::<$acc>(ctx, i) }
            }

            pub(super) const FUNCTION: $crate::Function = $crate::Function {
                desc: DESC,
                records: |ctx, first, n| unsafe { $crate::__private::each(ctx, first, n, step) },
                timers: None,
            };
        }
    };
    (window $name:ident [] {
        on_window: $on_window:path
        $(, input: { $($in:ident : $in_type:ident),* $(,)? })?
        $(, output: { $($out:ident : $out_type:ident),* $(,)? })?
        $(, side_outputs: [$($side:ident),* $(,)?])?
        $(,)?
    }) => {
        #[allow(non_upper_case_globals, non_camel_case_types, dead_code, unused_imports)]
        pub mod $name {
            use super::*;

            $crate::__columns! { input [$($($in)*)?] }
            $crate::__columns! { output [$($($out)*)?] }
            $(
                enum SideIndex { Main, $($side),* }
                $(pub const $side: $crate::Output = $crate::Output(SideIndex::$side as u8);)*
            )?

            pub(super) const DESC: $crate::FunctionDesc = $crate::FunctionDesc {
                name: stringify!($name),
                kind: "window",
                keyed: false,
                input: &[$($((stringify!($in), stringify!($in_type))),*)?],
                output: &[$($((stringify!($out), stringify!($out_type))),*)?],
                outputs: &[$($(stringify!($side)),*)?],
                states: &[],
                timers: &[],
                retracts: false,
            };

            #[inline(never)]
            fn window(ctx: &mut $crate::Ctx, i: u32) -> $crate::Result<()> {
                let w = &unsafe { $crate::__private::begin_window(ctx, i) };
                $on_window(ctx, w)
            }

            pub(super) const FUNCTION: $crate::Function = $crate::Function {
                desc: DESC,
                records: |ctx, first, n| unsafe { $crate::__private::each(ctx, first, n, window) },
                timers: None,
            };
        }
    };
    ($kind:ident $name:ident [$($keyed:ident)?] {
        on_record: $on_record:path
        $(, on_timer: $on_timer:path)?
        $(, input: { $($in:ident : $in_type:ident),* $(,)? })?
        $(, output: { $($out:ident : $out_type:ident),* $(,)? })?
        $(, side_outputs: [$($side:ident),* $(,)?])?
        $(, states: { $($state:ident : $state_type:ty $(= $ttl:expr)?),* $(,)? })?
        $(, timers: [$($timer:ident),* $(,)?])?
        $(,)?
    }) => {
        #[allow(non_upper_case_globals, non_camel_case_types, dead_code, unused_imports)]
        pub mod $name {
            use super::*;

            $(
                enum StateIndex { $($state),* }
                $(pub const $state: $state_type = <$state_type>::at(StateIndex::$state as usize, DESC.states);)*
            )?
            $(
                enum SideIndex { Main, $($side),* }
                $(pub const $side: $crate::Output = $crate::Output(SideIndex::$side as u8);)*
            )?
            $(
                /// Columns of the input row.
                pub mod input {
                    enum Column { $($in,)* Count }
                    $(pub const $in: usize = Column::$in as usize;)*
                    /// Number of columns.
                    pub const COUNT: usize = Column::Count as usize;
                }
            )?
            $(
                /// Columns of the output row.
                pub mod output {
                    enum Column { $($out,)* Count }
                    $(pub const $out: usize = Column::$out as usize;)*
                    /// Number of columns.
                    pub const COUNT: usize = Column::Count as usize;
                }
            )?

            pub(super) const DESC: $crate::FunctionDesc = $crate::FunctionDesc {
                name: stringify!($name),
                kind: stringify!($kind),
                keyed: $crate::__keyed!($($keyed)?),
                input: &[$($((stringify!($in), stringify!($in_type))),*)?],
                output: &[$($((stringify!($out), stringify!($out_type))),*)?],
                outputs: &[$($(stringify!($side)),*)?],
                states: &[$($($crate::StateDesc {
                    name: stringify!($state),
                    kind: <$state_type>::KIND,
                    max_bytes: <$state_type>::MAX_BYTES,
                    ttl: $crate::__ttl!($($ttl)?),
                    schema: <$state_type>::SCHEMA,
                    key_schema: <$state_type>::KEY_SCHEMA,
                }),*)?],
                timers: &[$($(stringify!($timer)),*)?],
                retracts: false,
            };

            // The user's code runs in this frame of its own, never inlined into the loop: fuel and
            // garbage of a record are then the same however the stream is cut into calls.
            #[inline(never)]
            fn record(ctx: &mut $crate::Ctx, i: u32) -> $crate::Result<()> {
                let rec = &unsafe { $crate::__private::begin_record(ctx, i) };
                $crate::Returns::finish($on_record(ctx, rec), ctx, rec)
            }

            $(
                #[inline(never)]
                fn timer(ctx: &mut $crate::Ctx, i: u32) -> $crate::Result<()> {
                    let t = &unsafe { $crate::__private::begin_timer(ctx, i) };
                    $on_timer(ctx, t)
                }
            )?

            pub(super) const FUNCTION: $crate::Function = $crate::Function {
                desc: DESC,
                records: |ctx, first, n| unsafe { $crate::__private::each(ctx, first, n, record) },
                timers: $crate::__timer!($(timer $on_timer)?),
            };
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __columns {
    ($which:ident []) => {};
    ($which:ident [$($column:ident)+]) => {
        /// Columns of the row.
        pub mod $which {
            enum Column { $($column,)+ Count }
            $(pub const $column: usize = Column::$column as usize;)+
            /// Number of columns.
            pub const COUNT: usize = Column::Count as usize;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __keyed {
    () => {
        false
    };
    (keyed) => {
        true
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __ttl {
    () => {
        None
    };
    ($ttl:expr) => {
        Some($ttl)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __timer {
    () => {
        None
    };
    ($wrapper:ident $user:path) => {
        Some(|ctx, first, n| unsafe { $crate::__private::each(ctx, first, n, $wrapper) })
    };
}
