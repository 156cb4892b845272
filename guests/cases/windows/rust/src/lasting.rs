//! An aggregate that depends on order, and whose accumulator has no fixed length.

use crate::trail;
use millrace::prelude::*;
use millrace::Codec;

const MOST: usize = 16;

/// The last values, in order of arrival.
#[derive(Default)]
pub struct Trail {
    values: [i64; MOST],
    n: usize,
}

impl Codec for Trail {
    const MAX_BYTES: usize = 8 * MOST;

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut b = [0; 8 * MOST];
        for (to, v) in b.chunks_exact_mut(8).zip(&self.values[..self.n]) {
            to.copy_from_slice(&v.to_le_bytes());
        }
        f(&b[..8 * self.n])
    }

    fn decode(bytes: &[u8]) -> Option<Trail> {
        let mut t = Trail::default();
        for c in bytes.chunks(8) {
            t.push(i64::from_le_bytes(c.try_into().ok()?));
        }
        Some(t)
    }
}

impl Trail {
    fn push(&mut self, v: i64) {
        if self.n == MOST {
            self.values.copy_within(1.., 0);
            self.n -= 1;
        }
        self.values[self.n] = v;
        self.n += 1;
    }
}

impl Aggregate for Trail {
    fn create() -> Trail {
        Trail::default()
    }

    fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        if let Some(v) = rec.row(trail::input::COUNT)?.int(trail::input::v) {
            self.push(v);
        }
        Ok(())
    }

    fn merge(&mut self, _: &mut Ctx, other: &Trail) -> Result<()> {
        for v in &other.values[..other.n] {
            self.push(*v);
        }
        Ok(())
    }

    fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
        let mut text = String::new();
        for v in &self.values[..self.n] {
            text.push_str(&format!("{v} "));
        }
        ctx.emit().row(trail::output::COUNT, |r| {
            r.str(trail::output::trail, &text);
        })
    }
}
