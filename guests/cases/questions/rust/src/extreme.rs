//! The flight with the largest delay of each slot of three hours, beginning at one o'clock.

use crate::{need, slots, worst as f, Sortable, Sorted, HOUR_MS};
use millrace::prelude::*;

const SLOT_MS: i64 = 3 * HOUR_MS;

pub(crate) fn on_flight(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    use slots::{input, output};
    let row = rec.row(input::COUNT)?;
    let date = need(row.time(input::date))?;
    let start = date - (date - HOUR_MS).rem_euclid(SLOT_MS);
    let (origin, destination) = (need(row.str(input::origin))?, need(row.str(input::destination))?);
    let (delay, distance) = (need(row.int(input::delay))?, need(row.int(input::distance))?);
    ctx.emit().row(output::COUNT, |r| {
        r.time(output::start, start).time(output::date, date).str(output::origin, origin);
        r.str(output::destination, destination).int(output::delay, delay).int(output::distance, distance);
    })
}

pub(crate) fn on_slot(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    use f::input;
    let row = rec.row(input::COUNT)?;
    let flight = Sortable::new().int(-need(row.int(input::delay))?).int(need(row.time(input::date))?);
    let flight = flight.text(need(row.str(input::origin))?).text(need(row.str(input::destination))?);
    let flight = flight.int(need(row.int(input::distance))?).0;
    match f::best.get(ctx)? {
        Some(best) if best <= flight => return Ok(()),
        Some(_) => {}
        None => ctx.set_timer("", need(row.time(input::start))? + SLOT_MS - 1)?,
    }
    f::best.set(ctx, &flight)
}

pub(crate) fn on_slot_end(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let flight = f::best.get(ctx)?.ok_or_else(|| Error::msg("a timer of a slot without flights"))?;
    f::best.clear(ctx)?;
    let mut flight = Sorted(&flight);
    let (delay, date, origin, destination) = (-flight.int()?, flight.int()?, flight.text()?, flight.text()?);
    ctx.emit().json(|o| {
        o.int("start_ms", timer.time() + 1 - SLOT_MS).int("time_ms", date).str("origin", origin);
        o.str("destination", destination).int("delay", delay);
    })
}
