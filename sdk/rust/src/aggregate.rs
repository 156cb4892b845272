//! Functions of windows: aggregates, and functions called when a window fires.

use crate::abi;
use crate::codec::Codec;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::record::{read, utf8, Record};
use crate::row::Row;

/// An aggregate of a window, as its accumulator: what it holds of the records so far. The host keeps the
/// bytes of it with the window, so it has a bound of at most 4 KiB.
///
/// Folding parts and merging them must give what folding all gives: windows share parts, and sessions merge.
///
/// ```
/// use millrace::prelude::*;
///
/// codec! { pub struct Mean { n: u64, sum: f64 } }
///
/// millrace::module! {
///     name: "mean",
///     aggregate mean { of: Mean, input: { amount: int64 }, output: { mean: float64 } },
/// }
///
/// impl Aggregate for Mean {
///     fn create() -> Mean {
///         Mean::default()
///     }
///     fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
///         if let Some(v) = rec.row(mean::input::COUNT)?.int(mean::input::amount) {
///             self.n += 1;
///             self.sum += v as f64;
///         }
///         Ok(())
///     }
///     fn merge(&mut self, _: &mut Ctx, other: &Mean) -> Result<()> {
///         self.n += other.n;
///         self.sum += other.sum;
///         Ok(())
///     }
///     fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
///         ctx.emit().row(mean::output::COUNT, |r| {
///             if self.n > 0 {
///                 r.float(mean::output::mean, self.sum / self.n as f64);
///             }
///         })
///     }
/// }
/// # fn main() {}
/// ```
pub trait Aggregate: Codec {
    /// Whether `retract` works: it goes into the module's description.
    const RETRACTS: bool = false;

    /// The accumulator of no record.
    fn create() -> Self;

    /// Takes a record in. An error undoes the record in all its windows.
    fn add(&mut self, ctx: &mut Ctx, rec: &Record<'_>) -> Result<()>;

    /// Takes a record out that came in before.
    fn retract(&mut self, _ctx: &mut Ctx, _rec: &Record<'_>) -> Result<()> {
        Err(Error::msg("this aggregate takes no record back"))
    }

    /// Takes in what another accumulator holds; its records came later.
    fn merge(&mut self, ctx: &mut Ctx, other: &Self) -> Result<()>;

    /// Writes the result with `ctx.emit()`: exactly one row of the declared output.
    fn result(&self, ctx: &mut Ctx, window: &Window<'_>) -> Result<()>;
}

/// A window that fires. With aggregates it has one element, their row.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    rec: Record<'a>,
}

impl<'a> Window<'a> {
    #[inline(always)]
    fn value(&self) -> *const u8 {
        unsafe { self.rec.base().add(abi::FRAME_HEADER + self.rec.key_len()) }
    }

    /// Its first instant, ms. Windows without bounds (global, count) have the least number there is.
    #[inline]
    pub fn start(&self) -> i64 {
        read!(i64, self.value(), abi::WINDOW_START)
    }

    /// The instant behind its last, ms. Windows without bounds have the greatest number there is.
    #[inline]
    pub fn end(&self) -> i64 {
        read!(i64, self.value(), abi::WINDOW_END)
    }

    /// The number of this result of the window, from 1; 0 where windows give one result each.
    pub fn revision(&self) -> u32 {
        read!(u32, self.value(), abi::WINDOW_REVISION)
    }

    /// The key; empty for windows over everything.
    pub fn key(&self) -> &'a [u8] {
        self.rec.key_bytes()
    }

    /// The key as text. Errors: bytes that are not UTF-8.
    pub fn key_text(&self) -> Result<&'a str> {
        utf8(self.key()).map_err(|_| Error::msg("the key is not UTF-8"))
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)] // a window that fires is not empty
    pub fn len(&self) -> usize {
        read!(u32, self.value(), abi::WINDOW_COUNT) as usize
    }

    /// The elements, in order of arrival: values and times, without keys.
    pub fn elements(&self) -> Elements<'a> {
        let at = unsafe { self.value().add(abi::WINDOW_HEADER) };
        Elements { left: self.len(), at, frames: self.rec }
    }

    /// The row of the window's aggregates, of `fields` columns (`my_function::input::COUNT`).
    /// Errors: the window has no aggregates.
    pub fn row(&self, fields: usize) -> Result<Row<'a>> {
        match self.elements().next() {
            Some(rec) => rec.row(fields),
            None => Err(Error::msg("the window has no element")),
        }
    }
}

/// Iterator over a window's elements.
#[derive(Clone)]
pub struct Elements<'a> {
    left: usize,
    at: *const u8,
    frames: Record<'a>, // keeps what they borrow
}

impl<'a> Iterator for Elements<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        // The host wrote as many whole frames as it says.
        let rec: Record<'a> = unsafe { Record::at(self.at) };
        self.at = unsafe { self.at.add(rec.frame().len()) };
        let _ = self.frames;
        Some(rec)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Does step `i` of an aggregate. The accumulator is a copy until the step has gone well.
///
/// # Safety
/// Between `enter` and `leave` of a call with steps, of which `i` is one.
#[inline(always)]
pub unsafe fn step<A: Aggregate>(ctx: &mut Ctx, i: u32) -> Result<()> {
    ctx.begin(i);
    let rec = ctx.current();
    let key = ctx.step_key();
    let mut acc = match ctx.accumulator(key) {
        Some(b) => A::decode(b).ok_or_else(|| undecodable(b.len()))?,
        None => A::create(),
    };
    match rec.input() {
        abi::STEP_ADD => acc.add(ctx, &rec)?,
        abi::STEP_RESULT => return acc.result(ctx, &Window { rec }),
        abi::STEP_RETRACT => acc.retract(ctx, &rec)?,
        _ => return merge(ctx, &rec, key, acc),
    }
    acc.with_bytes(|b| ctx.set_accumulator(key, b))
}

/// Merges the accumulators that a step lists. The first one takes the place of one that is empty.
#[inline(never)]
unsafe fn merge<A: Aggregate>(ctx: &mut Ctx, rec: &Record<'_>, key: u32, mut acc: A) -> Result<()> {
    let list = rec.value().unwrap_or(&[]);
    let mut empty = ctx.accumulator(key).is_none();
    for at in (0..list.len()).step_by(4) {
        let b = match ctx.accumulator(read!(u32, list.as_ptr(), at)) {
            Some(b) => b,
            None => continue,
        };
        let other = A::decode(b).ok_or_else(|| undecodable(b.len()))?;
        if empty {
            acc = other;
            empty = false;
        } else {
            acc.merge(ctx, &other)?;
        }
    }
    if empty {
        return Ok(());
    }
    acc.with_bytes(|b| ctx.set_accumulator(key, b))
}

#[cold]
fn undecodable(len: usize) -> Error {
    Error::new(alloc::format!("accumulator of {len} bytes cannot be decoded as the declared type"))
}

/// Makes window `i` the current one.
///
/// # Safety
/// As `step`, with windows.
#[inline(always)]
pub unsafe fn begin_window<'a>(ctx: &mut Ctx, i: u32) -> Window<'a> {
    ctx.begin(i);
    Window { rec: ctx.current() }
}
