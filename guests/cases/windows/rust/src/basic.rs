//! Aggregates that are built in, too: the same results are expected of them.

use crate::{avg, count, stats, sum};
use millrace::prelude::*;

codec! {
    /// Number of records.
    pub struct Count { n: u64 }
}

impl Aggregate for Count {
    const RETRACTS: bool = true;

    fn create() -> Count {
        Count::default()
    }

    fn add(&mut self, _: &mut Ctx, _: &Record) -> Result<()> {
        self.n += 1;
        Ok(())
    }

    fn retract(&mut self, _: &mut Ctx, _: &Record) -> Result<()> {
        self.n -= 1;
        Ok(())
    }

    fn merge(&mut self, _: &mut Ctx, other: &Count) -> Result<()> {
        self.n += other.n;
        Ok(())
    }

    fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
        ctx.emit().row(count::output::COUNT, |r| {
            r.int(count::output::n, self.n as i64);
        })
    }
}

codec! {
    /// Number of values and their sum, which wraps around.
    pub struct Sum { n: u64, sum: i64 }
}

impl Aggregate for Sum {
    fn create() -> Sum {
        Sum::default()
    }

    fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        if let Some(v) = rec.row(sum::input::COUNT)?.int(sum::input::v) {
            self.n += 1;
            self.sum = self.sum.wrapping_add(v);
        }
        Ok(())
    }

    fn merge(&mut self, _: &mut Ctx, other: &Sum) -> Result<()> {
        self.n += other.n;
        self.sum = self.sum.wrapping_add(other.sum);
        Ok(())
    }

    fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
        ctx.emit().row(sum::output::COUNT, |r| {
            if self.n > 0 {
                r.int(sum::output::sum, self.sum);
            }
        })
    }
}

codec! {
    /// Number of values and their sum.
    pub struct Avg { n: u64, sum: f64 }
}

impl Aggregate for Avg {
    fn create() -> Avg {
        Avg::default()
    }

    fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        if let Some(v) = rec.row(avg::input::COUNT)?.float(avg::input::f) {
            self.n += 1;
            self.sum += v;
        }
        Ok(())
    }

    fn merge(&mut self, _: &mut Ctx, other: &Avg) -> Result<()> {
        self.n += other.n;
        self.sum += other.sum;
        Ok(())
    }

    fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
        ctx.emit().row(avg::output::COUNT, |r| {
            if self.n > 0 {
                r.float(avg::output::avg, self.sum / self.n as f64);
            }
        })
    }
}

codec! {
    /// Several at once.
    pub struct Stats { records: u64, n: u64, sum: i64, min: i64, max: i64 }
}

impl Aggregate for Stats {
    fn create() -> Stats {
        Stats { min: i64::MAX, max: i64::MIN, ..Stats::default() }
    }

    fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        self.records += 1;
        if let Some(v) = rec.row(stats::input::COUNT)?.int(stats::input::v) {
            self.n += 1;
            self.sum = self.sum.wrapping_add(v);
            self.min = self.min.min(v);
            self.max = self.max.max(v);
        }
        Ok(())
    }

    fn merge(&mut self, _: &mut Ctx, other: &Stats) -> Result<()> {
        self.records += other.records;
        self.n += other.n;
        self.sum = self.sum.wrapping_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        Ok(())
    }

    fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
        use stats::output::{max, min, n, sum, COUNT};
        ctx.emit().row(COUNT, |r| {
            r.int(n, self.records as i64);
            if self.n > 0 {
                r.int(sum, self.sum).int(min, self.min).int(max, self.max);
            }
        })
    }
}
