//! Each origin's first flight of each day with a delay of three hours or more.

use crate::{first_delayed as f, need, Sortable, Sorted, DAY_MS};
use millrace::prelude::*;

const LONG: i64 = 180; // minutes

pub(crate) fn on_flight(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(f::input::COUNT)?;
    let delay = need(row.int(f::input::delay))?;
    if delay < LONG {
        return Ok(());
    }
    let date = need(row.time(f::input::date))?;
    let flight = Sortable::new().int(date).text(need(row.str(f::input::destination))?).int(delay);
    let flight = flight.int(need(row.int(f::input::distance))?).0;
    let day = date.div_euclid(DAY_MS);
    match f::days.get(ctx, &day)? {
        Some(first) if first <= flight => return Ok(()),
        Some(_) => {}
        None => ctx.set_timer("", (day + 1) * DAY_MS - 1)?,
    }
    f::days.put(ctx, &day, &flight)
}

pub(crate) fn on_day_end(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let day = timer.time().div_euclid(DAY_MS);
    let flight = f::days.get(ctx, &day)?.ok_or_else(|| Error::msg("a timer of a day without a flight"))?;
    f::days.remove(ctx, &day)?;
    let mut flight = Sorted(&flight);
    let (date, destination, delay) = (flight.int()?, flight.text()?, flight.int()?);
    ctx.emit().json(|o| {
        o.bytes("origin", timer.key()).int("day", day).int("time_ms", date).str("destination", destination);
        o.int("delay", delay);
    })
}
