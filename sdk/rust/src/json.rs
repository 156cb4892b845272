//! Writing small JSON objects straight into the output.

use crate::emit::OutBuf;
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

    fn name(&mut self, name: &str) {
        if !self.first {
            self.buf.push(b",");
        }
        self.first = false;
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

    fn decimal(&mut self, mut v: u64, negative: bool, decimals: usize) {
        let mut digits = [0u8; 48];
        let mut at = digits.len();
        let mut written = 0;
        while v > 0 || written <= decimals {
            if written == decimals && decimals > 0 {
                at -= 1;
                digits[at] = b'.';
            }
            at -= 1;
            digits[at] = b'0' + (v % 10) as u8;
            v /= 10;
            written += 1;
        }
        if negative {
            at -= 1;
            digits[at] = b'-';
        }
        self.buf.push(&digits[at..]);
    }

    fn string(&mut self, s: &str) {
        self.buf.push(b"\"");
        self.escaped(s);
        self.buf.push(b"\"");
    }

    fn escaped(&mut self, s: &str) {
        let bytes = s.as_bytes();
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
