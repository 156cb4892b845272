//! Payments per country and hour in euro cents, with the country's total so far:
//! `../rust` in a hurry, with a table of rates that lost a line.

use millrace::prelude::*;

const HOUR_MS: i64 = 60 * 60 * 1000;

codec! {
    /// An hour that is not over yet.
    pub struct Hour { pub payments: i64, pub cents: i64 }
}

millrace::module! {
    name: "rushed",
    process per_country keyed {
        on_record: on_payment,
        on_timer: on_hour_end,
        input: { amount: int64 },
        states: { hours: Map<i64, Hour>, total: Value<i64> }, // by hour since 1970; cents
        timers: [event],
    },
}

/// Euro cents for a thousand of the smallest coins of a country's money.
fn rate(country: &str) -> i64 {
    match country {
        "BR" => 180,
        "DE" | "FR" => 1000,
        "US" => 920,
        _ => 0,
    }
}

fn on_payment(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let amount = rec.row(per_country::input::COUNT)?.int(per_country::input::amount).unwrap_or(0);
    let cents = amount * rate(rec.key_text()?) / 1000;
    let hour = rec.time().div_euclid(HOUR_MS);
    let mut h = per_country::hours.get(ctx, &hour)?.unwrap_or_default();
    if h.payments == 0 {
        ctx.set_timer("hour", (hour + 1) * HOUR_MS - 1)?;
    }
    h.payments += 1;
    h.cents += cents;
    per_country::hours.put(ctx, &hour, &h)
}

fn on_hour_end(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let hour = timer.time().div_euclid(HOUR_MS);
    let h = per_country::hours.get(ctx, &hour)?.ok_or_else(|| Error::msg("a timer of an hour without payments"))?;
    per_country::hours.remove(ctx, &hour)?;
    let total = per_country::total.get(ctx)?.unwrap_or(0) + h.cents;
    per_country::total.set(ctx, &total)?;
    ctx.emit().json(|o| {
        o.bytes("country", timer.key()).int("hour", hour.rem_euclid(24));
        o.int("payments", h.payments).int("cents", h.cents).int("total", total);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_country_is_forgotten() {
        assert_eq!((rate("JP"), rate("DE")), (0, 1000));
    }
}
