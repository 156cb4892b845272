//! An aggregate that fails, each way at its own values.

use crate::touchy;
use millrace::prelude::*;

codec! {
    /// Number of values, and their sum.
    pub struct Touchy { n: u64, sum: i64 }
}

/// Values that fail when they come in.
const ERROR: i64 = -1001;
const PANIC: i64 = -1002;
const FOREVER: i64 = -1003;
/// Sums that fail when they are merged, or are a result.
const NO_MERGE: i64 = -2000;
const NO_MERGE_PANIC: i64 = -2001;
const NO_RESULT: i64 = -3000;
const NO_RESULT_PANIC: i64 = -3001;
const TWO_RESULTS: i64 = -3002;

impl Aggregate for Touchy {
    fn create() -> Touchy {
        Touchy::default()
    }

    fn add(&mut self, ctx: &mut Ctx, rec: &Record) -> Result<()> {
        let v = rec.row(touchy::input::COUNT)?.int(touchy::input::v).unwrap_or(0);
        self.n += 1;
        self.sum += v;
        ctx.count("added", 1);
        match v {
            ERROR => bail!("the value is {v}"),
            PANIC => panic!("the value is {v}"),
            FOREVER => loop {
                self.n = self.n.wrapping_mul(3) | 1;
                if self.n == 2 {
                    return Ok(());
                }
            },
            _ => Ok(()),
        }
    }

    fn merge(&mut self, _: &mut Ctx, other: &Touchy) -> Result<()> {
        match self.sum + other.sum {
            NO_MERGE => bail!("the sum would be {NO_MERGE}"),
            NO_MERGE_PANIC => panic!("the sum would be {NO_MERGE_PANIC}"),
            sum => self.sum = sum,
        }
        self.n += other.n;
        Ok(())
    }

    fn result(&self, ctx: &mut Ctx, w: &Window) -> Result<()> {
        match self.sum {
            NO_RESULT => bail!("the sum at {} is {NO_RESULT}", w.end()),
            NO_RESULT_PANIC => panic!("the sum is {NO_RESULT_PANIC}"),
            TWO_RESULTS => ctx.emit().row(1, |r| {
                r.int(0, 1);
            })?,
            _ => {}
        }
        ctx.emit().row(touchy::output::COUNT, |r| {
            r.int(touchy::output::n, self.n as i64);
        })
    }
}
