//! Typed rows: compact values whose schema both sides know.
//!
//! Layout: a null bitmap of ceil(n/8) bytes rounded up to 8 (bit i set: column i is null), one 8-byte
//! slot per column, then the bytes of strings. A slot holds an int64, the bits of a float64, a bool
//! (0 or 1), a timestamp in ms, or for strings and bytes u32 offset from the row's start and u32 length.

use crate::emit::OutBuf;
use crate::error::{Error, Result};

/// Bytes of the null bitmap of a row of `n` columns.
pub const fn bitmap_bytes(n: usize) -> usize {
    ((n + 7) / 8 + 7) & !7
}

/// Bytes before the variable part of a row of `n` columns.
pub const fn fixed_bytes(n: usize) -> usize {
    bitmap_bytes(n) + 8 * n
}

/// Type of a column, for [`Row::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// i64
    Int64,
    /// f64
    Float64,
    /// bool
    Bool,
    /// UTF-8 text
    String,
    /// bytes
    Bytes,
    /// ms since 1970 UTC
    Timestamp,
}

/// A borrowed typed row. Accessors give `None` for a null; they never read outside the row, whatever
/// its bytes are. The host has checked rows it hands out; use [`Row::check`] on bytes from elsewhere.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    bytes: &'a [u8],
    fields: usize,
}

impl<'a> Row<'a> {
    /// A row of `fields` columns. Errors: fewer bytes than the fixed part has.
    #[inline]
    pub fn new(bytes: &'a [u8], fields: usize) -> Result<Row<'a>> {
        if bytes.len() < fixed_bytes(fields) {
            return Err(short(bytes.len(), fields));
        }
        Ok(Row { bytes, fields })
    }

    /// As `new`, with every column checked against its type.
    pub fn check(bytes: &'a [u8], types: &[FieldType]) -> Result<Row<'a>> {
        let row = Row::new(bytes, types.len())?;
        for (i, t) in types.iter().enumerate() {
            if row.is_null(i) {
                continue;
            }
            let slot = row.slot(i);
            match t {
                FieldType::Bool if slot > 1 => crate::bail!("row column {i}: bool is {slot}, expected 0 or 1"),
                FieldType::String if row.str(i).is_none() => crate::bail!("row column {i}: not UTF-8 inside the row"),
                FieldType::Bytes if row.bytes(i).is_none() => crate::bail!("row column {i}: bytes outside the row"),
                _ => {}
            }
        }
        for i in types.len()..bitmap_bytes(types.len()) * 8 {
            if bytes[i / 8] & (1 << (i % 8)) != 0 {
                crate::bail!("row: null bit {i} set, the row has {} columns", types.len());
            }
        }
        Ok(row)
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.fields
    }

    /// Whether it has no column.
    pub fn is_empty(&self) -> bool {
        self.fields == 0
    }

    /// Whether column `i` is null (or does not exist).
    #[inline(always)]
    pub fn is_null(&self, i: usize) -> bool {
        i >= self.fields || self.bytes[i / 8] & (1 << (i % 8)) != 0
    }

    #[inline(always)]
    fn slot(&self, i: usize) -> u64 {
        let at = bitmap_bytes(self.fields) + 8 * i;
        let mut b = [0; 8];
        b.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(b)
    }

    #[inline(always)]
    fn get(&self, i: usize) -> Option<u64> {
        if self.is_null(i) {
            None
        } else {
            Some(self.slot(i))
        }
    }

    /// An int64 column.
    #[inline(always)]
    pub fn int(&self, i: usize) -> Option<i64> {
        self.get(i).map(|v| v as i64)
    }

    /// A timestamp column, ms since 1970 UTC.
    #[inline(always)]
    pub fn time(&self, i: usize) -> Option<i64> {
        self.int(i)
    }

    /// A float64 column.
    #[inline(always)]
    pub fn float(&self, i: usize) -> Option<f64> {
        self.get(i).map(f64::from_bits)
    }

    /// A bool column.
    #[inline(always)]
    pub fn bool(&self, i: usize) -> Option<bool> {
        self.get(i).map(|v| v != 0)
    }

    /// A bytes (or string) column; `None` also if its range lies outside the row.
    #[inline(always)]
    pub fn bytes(&self, i: usize) -> Option<&'a [u8]> {
        let v = self.get(i)?;
        let (at, n) = (v as u32 as u64, v >> 32);
        if at < fixed_bytes(self.fields) as u64 || at + n > self.bytes.len() as u64 {
            return None;
        }
        Some(&self.bytes[at as usize..(at + n) as usize])
    }

    /// A string column; `None` also if it is not UTF-8.
    #[inline]
    pub fn str(&self, i: usize) -> Option<&'a str> {
        crate::record::utf8(self.bytes(i)?).ok()
    }
}

#[cold]
fn short(len: usize, fields: usize) -> Error {
    Error::new(alloc::format!(
        "row of {len} bytes, {} expected before the variable part of {fields} columns",
        fixed_bytes(fields)
    ))
}

/// Writes a row into the output; columns not set are null. Set each column at most once, strings in
/// column order if the bytes shall be canonical.
pub struct RowWriter<'w, 'c> {
    buf: &'w mut OutBuf<'c>,
    start: usize,
    fields: usize,
}

impl<'w, 'c> RowWriter<'w, 'c> {
    pub(crate) fn new(buf: &'w mut OutBuf<'c>, fields: usize) -> Self {
        let start = buf.len();
        buf.zeros(fixed_bytes(fields));
        for i in 0..fields {
            buf.set_bits(start + i / 8, 1 << (i % 8));
        }
        RowWriter { buf, start, fields }
    }

    #[inline]
    fn set(&mut self, i: usize, slot: u64) -> &mut Self {
        assert!(i < self.fields, "row column {i} set, the row has {}", self.fields);
        self.buf.clear_bits(self.start + i / 8, 1 << (i % 8));
        self.buf.patch(self.start + bitmap_bytes(self.fields) + 8 * i, &slot.to_le_bytes());
        self
    }

    /// Sets an int64 column.
    pub fn int(&mut self, i: usize, v: i64) -> &mut Self {
        self.set(i, v as u64)
    }

    /// Sets a timestamp column, ms since 1970 UTC.
    pub fn time(&mut self, i: usize, v: i64) -> &mut Self {
        self.set(i, v as u64)
    }

    /// Sets a float64 column.
    pub fn float(&mut self, i: usize, v: f64) -> &mut Self {
        self.set(i, v.to_bits())
    }

    /// Sets a bool column.
    pub fn bool(&mut self, i: usize, v: bool) -> &mut Self {
        self.set(i, v as u64)
    }

    /// Sets a bytes column.
    pub fn bytes(&mut self, i: usize, v: &[u8]) -> &mut Self {
        let at = (self.buf.len() - self.start) as u64;
        self.buf.push(v);
        self.set(i, at | (v.len() as u64) << 32)
    }

    /// Sets a string column.
    pub fn str(&mut self, i: usize, v: &str) -> &mut Self {
        self.bytes(i, v.as_bytes())
    }
}
