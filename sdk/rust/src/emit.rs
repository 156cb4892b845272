//! What goes out: frames written straight into the output buffer.

use crate::abi;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::json::JsonWriter;
use crate::record::{Op, Record};
use crate::row::RowWriter;
use crate::{host, Output};
use core::fmt;

/// One output being made. Key, event time and position are those of the current record or timer until
/// set; the closing call (`value`, `null`, `text`, `json`, `row`) writes it.
///
/// Outputs of a timer have the timer's time if it is an event timer, and none if it is a processing
/// timer.
#[must_use = "an output is written by value(), null(), text(), json() or row()"]
pub struct Emit<'c> {
    ctx: &'c mut Ctx,
    output: u8,
    op: Op,
    time: i64,
    key: Option<&'c [u8]>,
    headers: &'c [(&'c [u8], Option<&'c [u8]>)],
}

impl<'c> Emit<'c> {
    #[inline(always)]
    pub(crate) fn new(ctx: &'c mut Ctx) -> Self {
        let rec = ctx.current();
        let time = ctx.output_time(&rec);
        Emit { output: 0, op: Op::Insert, time, key: rec.key(), headers: &[], ctx }
    }

    /// To a side output.
    #[inline(always)]
    pub fn to(mut self, output: Output) -> Self {
        self.output = output.0;
        self
    }

    /// With this key: bytes, text, or `None` for null.
    #[inline(always)]
    pub fn key(mut self, key: impl IntoKey<'c>) -> Self {
        self.key = key.into_key();
        self
    }

    /// With this event time in ms.
    #[inline(always)]
    pub fn time(mut self, time_ms: i64) -> Self {
        self.time = time_ms;
        self
    }

    /// With this changelog operation.
    #[inline(always)]
    pub fn op(mut self, op: Op) -> Self {
        self.op = op;
        self
    }

    /// With these headers: (key, value or null).
    pub fn headers(mut self, headers: &'c [(&'c [u8], Option<&'c [u8]>)]) -> Self {
        self.headers = headers;
        self
    }

    /// Writes the output with these bytes as value. Errors: over the host's limits.
    #[inline(always)]
    pub fn value(self, value: &[u8]) -> Result<()> {
        self.parts(&[value])
    }

    /// Writes the output with these pieces, one after the other, as value.
    #[inline(always)]
    pub fn parts(self, pieces: &[&[u8]]) -> Result<()> {
        let key = self.key.unwrap_or(&[]);
        let value_len = pieces.iter().map(|p| p.len()).sum::<usize>();
        let size = abi::FRAME_HEADER + key.len() + value_len;
        if size > self.ctx.space() || !self.headers.is_empty() {
            return self.slow_parts(pieces);
        }
        let flags = abi::FLAG_VALUE | if self.key.is_some() { abi::FLAG_KEY } else { 0 };
        let (split, offset) = self.ctx.current().position();
        let words = [
            size as u64 | (flags as u64) << 32 | (self.op as u64) << 40 | (self.output as u64) << 48,
            self.time as u64,
            key.len() as u64 | (value_len as u64) << 32,
            split as u64 | (self.ctx.index() as u64) << 32,
            offset,
        ];
        // The space was compared with the size of all that is written here.
        unsafe {
            let mut at = self.ctx.out_end();
            for w in words {
                (at as *mut u64).write_unaligned(w.to_le());
                at = at.add(8);
            }
            at = append(at, key);
            for p in pieces {
                at = append(at, p);
            }
        }
        self.ctx.advance(size);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn slow_parts(self, pieces: &[&[u8]]) -> Result<()> {
        self.build(abi::FLAG_VALUE, |b| pieces.iter().for_each(|p| b.push(p)))
    }

    /// Writes the output with a null value: a tombstone.
    pub fn null(self) -> Result<()> {
        self.build(0, |_| {})
    }

    /// Writes the output with formatted text as value: `text(format_args!("{n}"))`.
    pub fn text(self, text: fmt::Arguments<'_>) -> Result<()> {
        self.build(abi::FLAG_VALUE, |b| {
            let _ = fmt::Write::write_fmt(b, text);
        })
    }

    /// Writes the output with a JSON object as value.
    pub fn json(self, members: impl FnOnce(&mut JsonWriter<'_, '_>)) -> Result<()> {
        self.build(abi::FLAG_VALUE, |b| {
            let mut w = JsonWriter::new(b);
            members(&mut w);
            w.end();
        })
    }

    /// Writes the output with a typed row of `fields` columns as value.
    pub fn row(self, fields: usize, columns: impl FnOnce(&mut RowWriter<'_, '_>)) -> Result<()> {
        self.build(abi::FLAG_VALUE, |b| columns(&mut RowWriter::new(b, fields)))
    }

    #[inline(always)]
    fn build(self, flags: u8, fill: impl FnOnce(&mut OutBuf<'c>)) -> Result<()> {
        let rec = self.ctx.current();
        let cause = self.ctx.index();
        let (split, offset) = rec.position();
        let mut header = [0u8; abi::FRAME_HEADER];
        header[abi::FRAME_OP] = self.op as u8;
        header[abi::FRAME_OUTPUT] = self.output;
        header[abi::FRAME_TIME..abi::FRAME_TIME + 8].copy_from_slice(&self.time.to_le_bytes());
        header[abi::FRAME_SPLIT..abi::FRAME_SPLIT + 4].copy_from_slice(&split.to_le_bytes());
        header[abi::FRAME_CAUSE..abi::FRAME_CAUSE + 4].copy_from_slice(&cause.to_le_bytes());
        header[abi::FRAME_OFFSET..abi::FRAME_OFFSET + 8].copy_from_slice(&offset.to_le_bytes());
        let mut buf = OutBuf::new(self.ctx);
        buf.push(&header);
        let mut flags = flags;
        let mut key_len = 0;
        if let Some(k) = self.key {
            flags |= abi::FLAG_KEY;
            key_len = k.len();
            buf.push(k);
        }
        let at = buf.len();
        fill(&mut buf);
        let value_len = buf.len() - at;
        if !self.headers.is_empty() {
            flags |= abi::FLAG_HEADERS;
            push_headers(&mut buf, self.headers);
        }
        buf.patch(abi::FRAME_FLAGS, &[flags]);
        buf.patch(abi::FRAME_KEY_LEN, &(key_len as u32).to_le_bytes());
        buf.patch(abi::FRAME_VALUE_LEN, &(value_len as u32).to_le_bytes());
        buf.finish()
    }
}

/// Copies `b` to `at` and returns the place behind it. Short pieces go by words: a bulk copy is a call
/// of the engine's runtime.
///
/// # Safety
/// There are `b.len()` bytes at `at`, and `b` is elsewhere.
#[inline(always)]
unsafe fn append(at: *mut u8, b: &[u8]) -> *mut u8 {
    let (n, from) = (b.len(), b.as_ptr());
    let word = |i: usize| (at.add(i) as *mut u64).write_unaligned((from.add(i) as *const u64).read_unaligned());
    // From both ends, overlapping in the middle: no loop, whose head would be charged.
    if n <= 16 && n >= 8 {
        word(0);
        word(n - 8);
    } else if n <= 32 && n > 16 {
        word(0);
        word(8);
        word(n - 16);
        word(n - 8);
    } else if n <= SHORT && n > 32 {
        word(0);
        word(8);
        word(16);
        word(24);
        word(n - 32);
        word(n - 24);
        word(n - 16);
        word(n - 8);
    } else {
        core::ptr::copy_nonoverlapping(from, at, n);
    }
    at.add(n)
}

pub(crate) const SHORT: usize = 64;

/// [`append`] of at most 64 bytes, also of less than 8 without a call.
///
/// # Safety
/// As `append`.
#[inline(always)]
pub(crate) unsafe fn append_short(at: *mut u8, b: &[u8]) -> *mut u8 {
    let (n, from) = (b.len(), b.as_ptr());
    if n >= 8 {
        append(at, b);
    } else if n >= 4 {
        let word = |i: usize| (at.add(i) as *mut u32).write_unaligned((from.add(i) as *const u32).read_unaligned());
        word(0);
        word(n - 4);
    } else if n > 0 {
        // 1 to 3 bytes: first, middle, last
        *at = *from;
        *at.add(n / 2) = *from.add(n / 2);
        *at.add(n - 1) = *from.add(n - 1);
    }
    at.add(n)
}

/// What [`Emit::key`] takes.
pub trait IntoKey<'a> {
    /// The bytes; `None` is the null key.
    fn into_key(self) -> Option<&'a [u8]>;
}

macro_rules! into_key {
    ($([$($g:tt)*] $t:ty: $k:ident => $e:expr;)*) => {$(
        impl<'a $($g)*> IntoKey<'a> for $t {
            #[inline(always)]
            fn into_key(self) -> Option<&'a [u8]> {
                let $k = self;
                $e
            }
        }
    )*};
}
into_key! {
    [] Option<&'a [u8]>: k => k;
    [] &'a [u8]: k => Some(k);
    [, const N: usize] &'a [u8; N]: k => Some(k);
    [] &'a str: k => Some(k.as_bytes());
    [] &'a alloc::string::String: k => Some(k.as_bytes());
    [] &'a alloc::vec::Vec<u8>: k => Some(k);
}

#[cold]
fn push_headers(buf: &mut OutBuf<'_>, headers: &[(&[u8], Option<&[u8]>)]) {
    buf.push(&(headers.len() as u32).to_le_bytes());
    for (k, v) in headers {
        buf.push(&(k.len() as u32).to_le_bytes());
        buf.push(&v.map_or(abi::NULL_LEN, |v| v.len() as u32).to_le_bytes());
        buf.push(k);
        buf.push(v.unwrap_or(&[]));
    }
}

/// A frame under construction: in the output buffer while it fits, else in a spill buffer that goes
/// out by `mr.emit`.
pub struct OutBuf<'c> {
    ctx: &'c mut Ctx,
    len: usize,
    spilled: bool,
}

impl<'c> OutBuf<'c> {
    #[inline(always)]
    fn new(ctx: &'c mut Ctx) -> Self {
        OutBuf { ctx, len: 0, spilled: false }
    }

    /// Bytes so far.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, b: &[u8]) {
        if !self.spilled {
            if b.len() <= self.ctx.space() - self.len {
                // The space was just compared, and b cannot overlap unused output space.
                unsafe { core::ptr::copy_nonoverlapping(b.as_ptr(), self.ctx.out_end().add(self.len), b.len()) };
                self.len += b.len();
                return;
            }
            self.spill();
        }
        self.push_spilled(b);
    }

    /// Where `n` bytes may be written, if the output buffer has the room. `advance` makes them part of the frame.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, n: usize) -> Option<*mut u8> {
        if self.spilled || n > self.ctx.space() - self.len {
            return None;
        }
        Some(unsafe { self.ctx.out_end().add(self.len) })
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, n: usize) {
        self.len += n;
    }

    /// Push of what is short as a rule.
    #[inline]
    pub(crate) fn push_short(&mut self, b: &[u8]) {
        match self.reserve(b.len()) {
            Some(at) if b.len() <= SHORT => {
                unsafe { append_short(at, b) };
                self.len += b.len();
            }
            _ => self.push(b),
        }
    }

    #[cold]
    fn spill(&mut self) {
        let written = unsafe { core::slice::from_raw_parts(self.ctx.out_end(), self.len) };
        self.ctx.spill.clear();
        self.ctx.spill.extend_from_slice(written);
        self.spilled = true;
    }

    #[cold]
    fn push_spilled(&mut self, b: &[u8]) {
        self.ctx.spill.extend_from_slice(b);
        self.len += b.len();
    }

    pub(crate) fn zeros(&mut self, mut n: usize) {
        const ZERO: [u8; 64] = [0; 64];
        while n > 0 {
            let k = n.min(ZERO.len());
            self.push(&ZERO[..k]);
            n -= k;
        }
    }

    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        if self.spilled {
            &mut self.ctx.spill
        } else {
            unsafe { core::slice::from_raw_parts_mut(self.ctx.out_end(), self.len) }
        }
    }

    /// Overwrites bytes that are there.
    #[inline(always)]
    pub(crate) fn patch(&mut self, at: usize, b: &[u8]) {
        self.bytes()[at..at + b.len()].copy_from_slice(b);
    }

    pub(crate) fn set_bits(&mut self, at: usize, bits: u8) {
        self.bytes()[at] |= bits;
    }

    pub(crate) fn clear_bits(&mut self, at: usize, bits: u8) {
        self.bytes()[at] &= !bits;
    }

    /// Turns the `e21` that ends at the end and begins after `from` into `e+21`.
    pub(crate) fn insert_plus(&mut self, from: usize) {
        if let Some(e) = self.bytes()[from..].iter().position(|&b| b == b'e') {
            self.push(b"0");
            let b = self.bytes();
            let (at, n) = (from + e + 1, b.len());
            b.copy_within(at..n - 1, at + 1);
            b[at] = b'+';
        }
    }

    #[inline(always)]
    fn finish(mut self) -> Result<()> {
        let n = self.len as u32;
        self.patch(abi::FRAME_SIZE, &n.to_le_bytes());
        if self.spilled {
            return self.emit();
        }
        self.ctx.advance(self.len);
        Ok(())
    }

    #[cold]
    fn emit(self) -> Result<()> {
        match host::emit(&self.ctx.spill, self.ctx.written()) {
            s if s < 0 => Err(Error::status("emit", s)),
            _ => Ok(()),
        }
    }
}

impl fmt::Write for OutBuf<'_> {
    #[inline]
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s.as_bytes());
        Ok(())
    }
}

/// Copies a record to an output as it is: key, value, headers, time, op.
#[inline(always)]
pub(crate) fn forward(ctx: &mut Ctx, rec: &Record<'_>, output: u8) -> Result<()> {
    let cause = ctx.index();
    let mut buf = OutBuf::new(ctx);
    buf.push(rec.frame());
    buf.patch(abi::FRAME_OUTPUT, &[output]);
    buf.patch(abi::FRAME_CAUSE, &cause.to_le_bytes());
    buf.finish()
}
