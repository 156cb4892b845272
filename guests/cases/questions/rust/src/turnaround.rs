//! Flights out of Albuquerque and flights back from the same airport one to two hours later.

use crate::{need, pairs as f, turns, END, HOUR_MS};
use millrace::prelude::*;

const HOME: &str = "ABQ";

/// Flights from or to home, by the other airport.
pub(crate) fn on_flight(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(turns::input::COUNT)?;
    let date = need(row.time(turns::input::date))?;
    let (origin, destination) = (need(row.str(turns::input::origin))?, need(row.str(turns::input::destination))?);
    for (airport, home, back) in [(destination, origin, false), (origin, destination, true)] {
        if home == HOME {
            ctx.emit().row(turns::output::COUNT, |r| {
                r.str(turns::output::airport, airport).time(turns::output::date, date).bool(turns::output::back, back);
            })?;
        }
    }
    Ok(())
}

pub(crate) fn on_turn(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(f::input::COUNT)?;
    let date = need(row.time(f::input::date))?;
    let side = if need(row.bool(f::input::back))? { f::backs } else { f::outs };
    let n = side.get(ctx, &date)?.unwrap_or(0);
    side.put(ctx, &date, &(n + 1))?;
    ctx.set_timer("", END)
}

pub(crate) fn on_end(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let (mut outs, mut backs) = (Vec::new(), Vec::new());
    for (side, all) in [(f::outs, &mut outs), (f::backs, &mut backs)] {
        side.scan(ctx, |at, n| {
            all.push((at, n));
            Ok(true)
        })?;
        side.clear(ctx)?;
    }
    // Both are in order of time; from is the first flight back that an out is not too late for.
    let (mut pairs, mut from) = (0, 0);
    for (at, n) in outs {
        while from < backs.len() && backs[from].0 < at + HOUR_MS {
            from += 1;
        }
        pairs += n * backs[from..].iter().take_while(|b| b.0 <= at + 2 * HOUR_MS).map(|b| b.1).sum::<i64>();
    }
    if pairs == 0 {
        return Ok(());
    }
    ctx.emit().json(|o| {
        o.bytes("destination", timer.key()).int("pairs", pairs);
    })
}
