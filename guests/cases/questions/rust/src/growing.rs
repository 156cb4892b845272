//! How often three successive departures of an origin are delayed more and more.

use crate::{need, triples as f, Sortable, Sorted, DAY_MS, END};
use millrace::prelude::*;

const DELAYED: i64 = 30; // minutes, more than

codec! {
    /// The two last departures, and the triples so far.
    pub struct Last { pub seen: i64, pub before: i64, pub delay: i64, pub triples: i64 }
}

/// A flight waits until its day is over: only then is its place in the order known.
pub(crate) fn on_flight(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(f::input::COUNT)?;
    let date = need(row.time(f::input::date))?;
    let place = Sortable::new().int(date).text(need(row.str(f::input::destination))?);
    let place = place.int(need(row.int(f::input::delay))?).int(need(row.int(f::input::distance))?).0;
    let n = f::waiting.get(ctx, place.as_slice())?.unwrap_or(0);
    f::waiting.put(ctx, place.as_slice(), &(n + 1))?;
    ctx.set_timer("", (date.div_euclid(DAY_MS) + 1) * DAY_MS - 1)
}

pub(crate) fn on_time(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let mut last = f::last.get(ctx)?.unwrap_or_default();
    if timer.time() == END {
        f::last.clear(ctx)?;
        if last.triples == 0 {
            return Ok(());
        }
        return ctx.emit().json(|o| {
            o.bytes("origin", timer.key()).int("triples", last.triples);
        });
    }
    let mut due: Vec<(Vec<u8>, i64)> = Vec::new();
    f::waiting.scan(ctx, |place, n| {
        let over = Sorted(&place).int()? <= timer.time();
        if over {
            due.push((place, n));
        }
        Ok(over)
    })?;
    for (place, n) in due {
        f::waiting.remove(ctx, place.as_slice())?;
        let mut place = Sorted(&place);
        place.int()?;
        place.text()?;
        let delay = place.int()?;
        for _ in 0..n {
            last.triples +=
                (last.seen >= 2 && last.before > DELAYED && last.delay > last.before && delay > last.delay) as i64;
            last = Last { seen: last.seen + 1, before: last.delay, delay, ..last };
        }
    }
    f::last.set(ctx, &last)?;
    ctx.set_timer("", END)
}
