//! Histogram of delays by month.

use crate::{buckets, need, tally as f, DAY_MS, END};
use millrace::prelude::*;

const WIDTH: i64 = 15; // minutes

codec! {
    /// Flights of one month and bucket.
    pub struct Count { pub month: i64, pub bucket: i64, pub flights: i64 }
}

pub(crate) fn on_flight(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(buckets::input::COUNT)?;
    let month = month(need(row.time(buckets::input::date))?.div_euclid(DAY_MS));
    let bucket = need(row.int(buckets::input::delay))?.div_euclid(WIDTH);
    ctx.emit().row(buckets::output::COUNT, |r| {
        r.int(buckets::output::month, month).int(buckets::output::bucket, bucket);
    })
}

pub(crate) fn on_bucket(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(f::input::COUNT)?;
    let (month, bucket) = (need(row.int(f::input::month))?, need(row.int(f::input::bucket))?);
    let flights = match f::count.get(ctx)? {
        Some(c) => c.flights,
        None => {
            ctx.set_timer("", END)?;
            0
        }
    };
    f::count.set(ctx, &Count { month, bucket, flights: flights + 1 })
}

pub(crate) fn on_end(ctx: &mut Ctx, _: &Timer) -> Result<()> {
    let c = f::count.get(ctx)?.ok_or_else(|| Error::msg("a timer of a bucket without flights"))?;
    f::count.clear(ctx)?;
    ctx.emit().json(|o| {
        o.int("month", c.month).int("bucket", c.bucket).int("flights", c.flights);
    })
}

/// Month, 1 to 12, of a day since 1970. Years begin in March here, so that the odd day is at their end.
pub(crate) fn month(day: i64) -> i64 {
    let of_era = (day + 719_468).rem_euclid(146_097); // 400 years
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    if m < 10 {
        m + 3
    } else {
        m - 9
    }
}
