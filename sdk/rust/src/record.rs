//! What comes in: records and timers, borrowed from the call block.

use crate::abi;
use crate::error::{Error, Result};
use crate::row::Row;
use core::marker::PhantomData;

/// Reads a little-endian number at a place that the host has checked.
macro_rules! read {
    ($t:ty, $base:expr, $at:expr) => {{
        #[allow(unused_unsafe)]
        let v = unsafe { ($base.add($at) as *const $t).read_unaligned() };
        <$t>::from_le(v)
    }};
}
pub(crate) use read;

/// What a record does to the table its stream describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// +I: a plain stream holds only these.
    Insert = abi::OP_INSERT,
    /// -U: the old row of an update.
    UpdateBefore = abi::OP_UPDATE_BEFORE,
    /// +U: the new row of an update.
    UpdateAfter = abi::OP_UPDATE_AFTER,
    /// -D
    Delete = abi::OP_DELETE,
}

/// One record. Copying it copies a pointer; slices live as long as the callback.
///
/// Null, empty and absent are three things: a null key or value is `None`, an empty one `Some(b"")`.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    frame: *const u8, // one pointer, so that a record travels in a register
    block: PhantomData<&'a [u8]>,
}

// As a slice of the block would be.
unsafe impl Send for Record<'_> {}
unsafe impl Sync for Record<'_> {}

impl<'a> Record<'a> {
    /// # Safety
    /// `frame` points at one whole frame that the host has checked and that lives for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at(frame: *const u8) -> Record<'a> {
        Record { frame, block: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.frame
    }

    #[inline(always)]
    pub(crate) fn flags(&self) -> u8 {
        read!(u8, self.base(), abi::FRAME_FLAGS)
    }

    #[inline(always)]
    pub(crate) fn key_len(&self) -> usize {
        read!(u32, self.base(), abi::FRAME_KEY_LEN) as usize
    }

    #[inline(always)]
    pub(crate) fn value_len(&self) -> usize {
        read!(u32, self.base(), abi::FRAME_VALUE_LEN) as usize
    }

    /// The whole frame, as the host wrote it.
    #[inline(always)]
    pub fn frame(&self) -> &'a [u8] {
        let size = read!(u32, self.base(), abi::FRAME_SIZE) as usize;
        unsafe { core::slice::from_raw_parts(self.base(), size) }
    }

    /// The key; `None` if null.
    #[inline(always)]
    pub fn key(&self) -> Option<&'a [u8]> {
        if self.flags() & abi::FLAG_KEY == 0 {
            return None;
        }
        Some(self.key_bytes())
    }

    /// The key; empty if null, whose length the host writes as 0.
    #[inline(always)]
    pub(crate) fn key_bytes(&self) -> &'a [u8] {
        unsafe { core::slice::from_raw_parts(self.base().add(abi::FRAME_HEADER), self.key_len()) }
    }

    /// The value; `None` if null.
    #[inline(always)]
    pub fn value(&self) -> Option<&'a [u8]> {
        if self.flags() & abi::FLAG_VALUE == 0 {
            return None;
        }
        let at = abi::FRAME_HEADER + self.key_len();
        Some(unsafe { core::slice::from_raw_parts(self.base().add(at), self.value_len()) })
    }

    /// The value as text. Errors: a null value, bytes that are not UTF-8.
    pub fn text(&self) -> Result<&'a str> {
        let v = self.value().ok_or_else(|| Error::msg("the value is null, text was expected"))?;
        utf8(v).map_err(|_| Error::msg("the value is not UTF-8"))
    }

    /// The key as text. Errors: a null key, bytes that are not UTF-8.
    pub fn key_text(&self) -> Result<&'a str> {
        let k = self.key().ok_or_else(|| Error::msg("the key is null, text was expected"))?;
        utf8(k).map_err(|_| Error::msg("the key is not UTF-8"))
    }

    /// The value as a typed row of `fields` columns (`my_function::input::COUNT`).
    /// Errors: a null value, one too short for so many columns.
    #[inline]
    pub fn row(&self, fields: usize) -> Result<Row<'a>> {
        let v = self.value().ok_or_else(|| Error::msg("the value is null, a row was expected"))?;
        Row::new(v, fields)
    }

    /// Event time in ms since 1970 UTC, [`NO_TIME`](abi::NO_TIME) if there is none.
    #[inline(always)]
    pub fn time(&self) -> i64 {
        read!(i64, self.base(), abi::FRAME_TIME)
    }

    /// The changelog operation.
    #[inline(always)]
    pub fn op(&self) -> Op {
        match read!(u8, self.base(), abi::FRAME_OP) {
            abi::OP_UPDATE_BEFORE => Op::UpdateBefore,
            abi::OP_UPDATE_AFTER => Op::UpdateAfter,
            abi::OP_DELETE => Op::Delete,
            _ => Op::Insert,
        }
    }

    /// The input's number, for functions with several inputs.
    #[inline(always)]
    pub fn input(&self) -> u8 {
        read!(u8, self.base(), abi::FRAME_OUTPUT)
    }

    /// Where the record came from: (split, offset in it).
    #[inline(always)]
    pub fn position(&self) -> (u32, u64) {
        (read!(u32, self.base(), abi::FRAME_SPLIT), read!(u64, self.base(), abi::FRAME_OFFSET))
    }

    /// The header list, in order; repeated keys stay.
    pub fn headers(&self) -> Headers<'a> {
        if self.flags() & abi::FLAG_HEADERS == 0 {
            return Headers { left: 0, rest: &[] };
        }
        let at = abi::FRAME_HEADER + self.key_len() + self.value_len();
        let left = read!(u32, self.base(), at);
        Headers { left, rest: &self.frame()[at + 4..] }
    }

    /// The first header of that name; `Some(None)` is a null value.
    pub fn header(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.headers().find(|h| h.0 == name).map(|h| h.1)
    }
}

/// Iterator over a record's headers: (key, value or null).
#[derive(Clone)]
pub struct Headers<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let word =
            |at: usize| u32::from_le_bytes([self.rest[at], self.rest[at + 1], self.rest[at + 2], self.rest[at + 3]]);
        let (kl, vl) = (word(0) as usize, word(4));
        let key = &self.rest[8..8 + kl];
        if vl == abi::NULL_LEN {
            self.rest = &self.rest[8 + kl..];
            return Some((key, None));
        }
        let end = 8 + kl + vl as usize;
        let value = &self.rest[8 + kl..end];
        self.rest = &self.rest[end..];
        Some((key, Some(value)))
    }
}

/// Which clock a timer runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Domain {
    /// Fires when the watermark reaches its time.
    Event = abi::DOMAIN_EVENT,
    /// Fires when the wall clock reaches its time.
    Processing = abi::DOMAIN_PROCESSING,
}

/// A timer that is due.
#[derive(Clone, Copy)]
pub struct Timer<'a> {
    pub(crate) rec: Record<'a>,
    pub(crate) domain: Domain,
}

impl<'a> Timer<'a> {
    /// The time it was set for, ms.
    pub fn time(&self) -> i64 {
        self.rec.time()
    }

    /// The name it was set with.
    pub fn name(&self) -> &'a str {
        core::str::from_utf8(self.name_bytes()).unwrap_or("")
    }

    /// The name as bytes, for names that are not text.
    pub fn name_bytes(&self) -> &'a [u8] {
        self.rec.value().unwrap_or(&[])
    }

    /// The key it was set under.
    pub fn key(&self) -> &'a [u8] {
        self.rec.key().unwrap_or(&[])
    }

    /// The key as text. Errors: bytes that are not UTF-8.
    pub fn key_text(&self) -> Result<&'a str> {
        utf8(self.key()).map_err(|_| Error::msg("the key is not UTF-8"))
    }

    /// The clock it ran on.
    pub fn domain(&self) -> Domain {
        self.domain
    }
}

/// `from_utf8` with a shorter way for short ASCII, which keys are as a rule.
#[inline]
pub(crate) fn utf8(b: &[u8]) -> core::result::Result<&str, core::str::Utf8Error> {
    let word = |at: usize| {
        let mut w = [0; 8];
        w.copy_from_slice(&b[at..at + 8]);
        u64::from_le_bytes(w)
    };
    let n = b.len();
    if (8..=16).contains(&n) && (word(0) | word(n - 8)) & 0x8080_8080_8080_8080 == 0 {
        // All bytes are below 0x80.
        return Ok(unsafe { core::str::from_utf8_unchecked(b) });
    }
    core::str::from_utf8(b)
}
