//! Writing small JSON objects straight into the output.

use crate::emit::{append_short, OutBuf, SHORT};
use core::fmt::Write;

/// Writes the members of one JSON object, in call order. Names and text are escaped; numbers are
/// written as the Go SDK writes them, so that outputs agree byte for byte.
pub struct JsonWriter<'w, 'c> {
    buf: &'w mut OutBuf<'c>,
    first: bool,
}

impl<'w, 'c> JsonWriter<'w, 'c> {
    pub(crate) fn new(buf: &'w mut OutBuf<'c>) -> Self {
        buf.push(b"{");
        JsonWriter { buf, first: true }
    }

    pub(crate) fn end(self) {
        self.buf.push(b"}");
    }

    #[inline]
    fn name(&mut self, name: &str) {
        let comma = !self.first;
        self.first = false;
        let n = name.as_bytes();
        if n.len() <= SHORT && plain(n) {
            if let Some(at) = self.buf.reserve(n.len() + 4) {
                // `reserve` says that there is room for all of it.
                unsafe {
                    *at = b',';
                    let at = at.add(comma as usize);
                    *at = b'"';
                    let end = append_short(at.add(1), n);
                    *end = b'"';
                    *end.add(1) = b':';
                }
                self.buf.advance(n.len() + 3 + comma as usize);
                return;
            }
        }
        if comma {
            self.buf.push(b",");
        }
        self.string(name);
        self.buf.push(b":");
    }

    /// Text, escaped.
    pub fn str(&mut self, name: &str, v: &str) -> &mut Self {
        self.name(name);
        self.string(v);
        self
    }

    /// Bytes as text; each byte that is not UTF-8 becomes U+FFFD.
    pub fn bytes(&mut self, name: &str, v: &[u8]) -> &mut Self {
        self.name(name);
        self.buf.push(b"\"");
        let mut rest = v;
        loop {
            match core::str::from_utf8(rest) {
                Ok(s) => {
                    self.escaped(s);
                    break;
                }
                Err(e) => {
                    let good = e.valid_up_to();
                    self.escaped(core::str::from_utf8(&rest[..good]).unwrap_or(""));
                    self.buf.push("\u{fffd}".as_bytes());
                    rest = &rest[good + 1..];
                }
            }
        }
        self.buf.push(b"\"");
        self
    }

    /// A signed integer.
    pub fn int(&mut self, name: &str, v: i64) -> &mut Self {
        self.name(name);
        self.decimal(v.unsigned_abs(), v < 0, 0);
        self
    }

    /// An unsigned integer.
    pub fn uint(&mut self, name: &str, v: u64) -> &mut Self {
        self.name(name);
        self.decimal(v, false, 0);
        self
    }

    /// `scaled` divided by 10^`decimals`, exactly, with all its decimals: (1250, 3) is 1.250.
    pub fn fixed(&mut self, name: &str, scaled: i64, decimals: u32) -> &mut Self {
        self.name(name);
        self.decimal(scaled.unsigned_abs(), scaled < 0, decimals as usize);
        self
    }

    /// The shortest digits that read back as `v`; an exponent below 1e-6 and from 1e21 on; null if
    /// it is not finite.
    pub fn float(&mut self, name: &str, v: f64) -> &mut Self {
        self.name(name);
        let size = if v < 0.0 { -v } else { v };
        if v.is_nan() || v.is_infinite() {
            self.buf.push(b"null");
        } else if size != 0.0 && size < 1e-6 {
            let _ = write!(self.buf, "{v:e}");
        } else if size >= 1e21 {
            let mark = self.buf.len();
            let _ = write!(self.buf, "{v:e}");
            self.buf.insert_plus(mark);
        } else {
            let _ = write!(self.buf, "{v}");
        }
        self
    }

    /// true or false.
    pub fn bool(&mut self, name: &str, v: bool) -> &mut Self {
        self.name(name);
        self.buf.push(if v { b"true" } else { b"false" });
        self
    }

    /// null.
    pub fn null(&mut self, name: &str) -> &mut Self {
        self.name(name);
        self.buf.push(b"null");
        self
    }

    /// JSON text as it is: an array, or an object made elsewhere.
    pub fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.name(name);
        self.buf.push(json.as_bytes());
        self
    }

    #[inline]
    fn decimal(&mut self, v: u64, negative: bool, decimals: usize) {
        let mut digits = [0u8; 48];
        let at = format(&mut digits, v, negative, decimals);
        self.buf.push_short(&digits[at..]);
    }

    #[inline]
    fn string(&mut self, s: &str) {
        let b = s.as_bytes();
        if b.len() <= SHORT && plain(b) {
            if let Some(at) = self.buf.reserve(b.len() + 2) {
                unsafe {
                    *at = b'"';
                    *append_short(at.add(1), b) = b'"';
                }
                self.buf.advance(b.len() + 2);
                return;
            }
        }
        self.buf.push(b"\"");
        self.escape(b);
        self.buf.push(b"\"");
    }

    fn escaped(&mut self, s: &str) {
        self.escape(s.as_bytes());
    }

    #[cold]
    fn escape(&mut self, bytes: &[u8]) {
        let mut from = 0;
        for (i, &b) in bytes.iter().enumerate() {
            let short: &[u8] = match b {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0..=0x1f => b"",
                _ => continue,
            };
            self.buf.push(&bytes[from..i]);
            from = i + 1;
            if short.is_empty() {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                self.buf.push(&[b'\\', b'u', b'0', b'0', HEX[(b >> 4) as usize], HEX[(b & 15) as usize]]);
            } else {
                self.buf.push(short);
            }
        }
        self.buf.push(&bytes[from..]);
    }
}

/// Writes `v` / 10^`decimals` at the end of `digits` and returns where it begins.
#[inline]
fn format(digits: &mut [u8; 48], mut v: u64, negative: bool, decimals: usize) -> usize {
    let mut at = digits.len();
    if decimals > 0 {
        let end = at - decimals;
        while at > end {
            at -= 1;
            digits[at] = b'0' + (v % 10) as u8;
            v /= 10;
        }
        at -= 1;
        digits[at] = b'.';
    }
    while v > u32::MAX as u64 {
        let low = (v % 10_000) as u32;
        v /= 10_000;
        at -= 4;
        pair(digits, at, low / 100);
        pair(digits, at + 2, low % 100);
    }
    let mut v = v as u32;
    while v >= 100 {
        // v / 100: engines compile a division by a constant as a division.
        let q = ((v as u64 * 0x51eb_851f) >> 37) as u32;
        at -= 2;
        pair(digits, at, v - q * 100);
        v = q;
    }
    if v >= 10 {
        at -= 2;
        pair(digits, at, v);
    } else {
        at -= 1;
        digits[at] = b'0' + v as u8;
    }
    if negative {
        at -= 1;
        digits[at] = b'-';
    }
    at
}

/// Writes a number below 100 as two digits at `at`.
#[inline(always)]
fn pair(digits: &mut [u8; 48], at: usize, v: u32) {
    let tens = (v * 103) >> 10;
    digits[at] = b'0' + tens as u8;
    digits[at + 1] = b'0' + (v - tens * 10) as u8;
}

/// No byte needs an escape: eight bytes at a time, as loops are charged by the turn.
#[inline]
fn plain(b: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The high bit of each byte that is below 0x20, a quote or a backslash (bytes from 0x80 on are none).
    let found = |w: u64| {
        let quote = w ^ (ONES * b'"' as u64);
        let slash = w ^ (ONES * b'\\' as u64);
        (w.wrapping_sub(ONES * 0x20) | quote.wrapping_sub(ONES) | slash.wrapping_sub(ONES)) & !w & HIGH
    };
    let word = |at: usize| {
        let mut w = [0; 8];
        w.copy_from_slice(&b[at..at + 8]);
        found(u64::from_le_bytes(w))
    };
    let n = b.len();
    if n < 8 {
        let mut w = [b' '; 8];
        for (to, &from) in w.iter_mut().zip(b) {
            *to = from;
        }
        return found(u64::from_le_bytes(w)) == 0;
    }
    // The last word overlaps the one before it. Up to 16 bytes need no loop.
    let mut bad = word(0) | word(n - 8);
    let mut at = 8;
    while at + 8 < n {
        bad |= word(at);
        at += 8;
    }
    bad == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec;

    #[test]
    fn a_byte_that_needs_an_escape_is_found_at_each_place() {
        for n in 0..40 {
            assert!(plain(&vec![b'a'; n]) && plain(&vec![0xc3; n]) && plain(&vec![0x7f; n]) && plain(&vec![b' '; n]));
            for at in 0..n {
                for bad in [0, 1, 0x1f, b'"', b'\\'] {
                    for fill in [b'a', 0xff, b' ', b'!', b'#', b'[', b']'] {
                        let mut v = vec![fill; n];
                        v[at] = bad;
                        assert!(!plain(&v), "{:?}", v);
                    }
                }
            }
        }
        for b in 0..=255u8 {
            assert_eq!(plain(&[b; 11]), b >= 0x20 && b != b'"' && b != b'\\', "{}", b);
        }
    }

    #[test]
    fn numbers_have_the_digits_that_std_gives() {
        let check = |v: u64, negative: bool, decimals: usize| {
            let mut digits = [0; 48];
            let at = format(&mut digits, v, negative, decimals);
            let mut want = v.to_string();
            if decimals > 0 {
                while want.len() <= decimals {
                    want.insert(0, '0');
                }
                want.insert(want.len() - decimals, '.');
            }
            if negative {
                want.insert(0, '-');
            }
            assert_eq!(String::from_utf8_lossy(&digits[at..]), want);
        };
        let mut x = 88172645463325252u64;
        for i in 0..200_000u32 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            check(x >> (i % 64), i % 3 == 0, (i % 5) as usize * 4);
        }
        for p in 0..20 {
            let ten = 10u64.pow(p);
            for v in [ten - 1, ten, ten + 1, ten / 100 * 99] {
                check(v, false, 0);
            }
        }
        check(u64::MAX, true, 0);
        check(0, false, 25);
    }
}
