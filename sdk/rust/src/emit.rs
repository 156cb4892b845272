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
    own_key: bool, // key is the current record's
    headers: &'c [(&'c [u8], Option<&'c [u8]>)],
}

impl<'c> Emit<'c> {
    #[inline(always)]
    pub(crate) fn new(ctx: &'c mut Ctx) -> Self {
        let rec = ctx.current();
        let time = ctx.output_time(&rec);
        Emit { output: 0, op: Op::Insert, time, key: rec.key(), own_key: true, headers: &[], ctx }
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
        self.own_key = false;
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
        if !self.headers.is_empty() {
            return self.parts_and_headers(pieces);
        }
        let rec = self.ctx.current();
        let (key_flag, key) = match self.key {
            _ if self.own_key => (rec.flags() & abi::FLAG_KEY, rec.key_bytes()),
            Some(k) => (abi::FLAG_KEY, k),
            None => (0, &[][..]),
        };
        let value_len = pieces.iter().map(|p| p.len()).sum::<usize>();
        let size = abi::FRAME_HEADER + key.len() + value_len;
        let flags = abi::FLAG_VALUE | key_flag;
        let first = size as u64 | (flags as u64) << 32 | (self.op as u64) << 40 | (self.output as u64) << 48;
        let lengths = key.len() as u64 | (value_len as u64) << 32;
        if size > self.ctx.space() {
            // By values in registers: what has its address taken, here or in `pieces`, would have to be
            // in memory for the usual case too.
            spill_header(self.ctx, first, self.time, lengths, key);
            for p in pieces {
                match (*p).try_into() {
                    Ok(word) => spill_word(self.ctx, u64::from_le_bytes(word)),
                    Err(_) => spill_bytes(self.ctx, p),
                }
            }
            return spill_emit(self.ctx);
        }
        let (split, offset) = rec.position();
        let origin = split as u64 | (self.ctx.index() as u64) << 32;
        let at = self.ctx.out_end();
        self.ctx.advance(size);
        // The space was compared with the size of all that is written here.
        unsafe {
            put(at, [first, self.time as u64, lengths, origin, offset]);
            let mut at = append(at.add(abi::FRAME_HEADER), key);
            for p in pieces {
                at = append(at, p);
            }
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn parts_and_headers(self, pieces: &[&[u8]]) -> Result<()> {
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
        buf.push_short(&header);
        let mut flags = flags;
        let mut key_len = 0;
        if let Some(k) = self.key {
            flags |= abi::FLAG_KEY;
            key_len = k.len();
            buf.push_short(k);
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

/// Begins a frame that the output buffer has no room for; it goes out by `mr.emit`.
#[cold]
#[inline(never)]
fn spill_header(ctx: &mut Ctx, first: u64, time: i64, lengths: u64, key: &[u8]) {
    let (split, offset) = ctx.current().position();
    let position = split as u64 | (ctx.index() as u64) << 32;
    ctx.spill.clear();
    for w in [first, time as u64, lengths, position, offset] {
        ctx.spill.extend_from_slice(&w.to_le_bytes());
    }
    ctx.spill.extend_from_slice(key);
}

#[cold]
#[inline(never)]
fn spill_word(ctx: &mut Ctx, word: u64) {
    ctx.spill.extend_from_slice(&word.to_le_bytes());
}

#[cold]
#[inline(never)]
fn spill_bytes(ctx: &mut Ctx, b: &[u8]) {
    ctx.spill.extend_from_slice(b);
}

#[cold]
#[inline(never)]
fn spill_emit(ctx: &mut Ctx) -> Result<()> {
    match host::emit(&ctx.spill, ctx.written()) {
        s if s < 0 => Err(Error::status("emit", s)),
        _ => Ok(()),
    }
}

/// Writes `words` at `at`, the last one first, as [`words`] does.
///
/// # Safety
/// There is the room at `at`.
#[inline(always)]
unsafe fn put<const W: usize>(at: *mut u8, words: [u64; W]) {
    let mut i = W;
    while i > 0 {
        i -= 1;
        (at.add(8 * i) as *mut u64).write_unaligned(words[i].to_le());
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
    // From both ends, overlapping in the middle: no loop, whose head would be charged. Few tests for
    // each length, since each ends a stretch of code that is charged at once.
    if n > 32 {
        if n > 96 {
            bulk(at, from, n);
        } else if n > 64 {
            down::<4>(at.add(n - 32), from.add(n - 32));
            down::<8>(at, from);
        } else {
            words::<4>(at, from, n);
        }
    } else if n > 16 {
        words::<2>(at, from, n);
    } else if n >= 8 {
        words::<1>(at, from, n);
    } else {
        few(at, from, n);
    }
    at.add(n)
}

/// Copies less than 8 bytes.
///
/// # Safety
/// As `append`.
#[inline(never)]
unsafe fn few(at: *mut u8, from: *const u8, n: usize) {
    append_short(at, core::slice::from_raw_parts(from, n & 7));
}

/// A bulk copy in a frame of its own: a function with one in it saves all registers whenever it is
/// entered, which costs more than this call.
///
/// # Safety
/// As `append`.
#[inline(never)]
unsafe fn bulk(at: *mut u8, from: *const u8, n: usize) {
    core::ptr::copy_nonoverlapping(from, at, n);
}

/// Copies the first and the last `W` words of `n` bytes, from high addresses to low ones: the engine
/// then checks the bounds once for all that lie below.
///
/// # Safety
/// As `append`; `n` is at least `8 * W`.
#[inline(always)]
unsafe fn words<const W: usize>(at: *mut u8, from: *const u8, n: usize) {
    down::<W>(at.add(n - 8 * W), from.add(n - 8 * W));
    down::<W>(at, from);
}

#[inline(always)]
unsafe fn down<const W: usize>(at: *mut u8, from: *const u8) {
    let mut i = W;
    while i > 0 {
        i -= 1;
        (at.add(8 * i) as *mut u64).write_unaligned((from.add(8 * i) as *const u64).read_unaligned());
    }
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
                unsafe { bulk(self.ctx.out_end().add(self.len), b.as_ptr(), b.len()) };
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
            return spill_emit(self.ctx);
        }
        self.ctx.advance(self.len);
        Ok(())
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
    let frame = rec.frame();
    let n = frame.len();
    if n > ctx.space() {
        return forward_large(ctx, rec, output);
    }
    // The space was just compared, and the record lies in the block.
    unsafe {
        let at = ctx.out_end();
        bulk(at, frame.as_ptr(), n);
        *at.add(abi::FRAME_OUTPUT) = output;
        (at.add(abi::FRAME_CAUSE) as *mut u32).write_unaligned(ctx.index().to_le());
    }
    ctx.advance(n);
    Ok(())
}

#[cold]
#[inline(never)]
fn forward_large(ctx: &mut Ctx, rec: &Record<'_>, output: u8) -> Result<()> {
    let cause = ctx.index();
    let mut buf = OutBuf::new(ctx);
    buf.push(rec.frame());
    buf.patch(abi::FRAME_OUTPUT, &[output]);
    buf.patch(abi::FRAME_CAUSE, &cause.to_le_bytes());
    buf.finish()
}
