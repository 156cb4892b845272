//! The three busiest origins of each day, from their counts.

use crate::{need, podium as f, DAY_MS};
use millrace::prelude::*;

/// A count of one origin and day, keyed by the day's end. Counts come when the day is over, all of them
/// before the watermark that ended it.
pub(crate) fn on_count(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(f::input::COUNT)?;
    ctx.set_timer("", need(row.time(f::input::window_end))? - 1)?;
    f::flights.put(ctx, need(row.str(f::input::origin))?, &need(row.int(f::input::flights))?)
}

pub(crate) fn on_day_end(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let mut all = Vec::new();
    f::flights.scan(ctx, |origin, flights| {
        all.push((-flights, origin));
        Ok(true)
    })?;
    f::flights.clear(ctx)?;
    all.sort();
    for (i, (flights, origin)) in all.iter().take(3).enumerate() {
        ctx.emit().json(|o| {
            o.int("day", timer.time().div_euclid(DAY_MS)).int("rank", i as i64 + 1).str("origin", origin);
            o.int("flights", -flights);
        })?;
    }
    Ok(())
}
