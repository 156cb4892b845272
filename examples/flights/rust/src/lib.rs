//! Flights and mean delay per origin airport and UTC day, emitted when the day is over.

use millrace::prelude::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

codec! {
    /// What is known of one day.
    pub struct Day { pub flights: i64, pub delay: i64 }
}

millrace::module! {
    name: "flights",
    process flights keyed {
        on_record: on_flight,
        on_timer: on_day_end,
        input: { delay: int64, date: timestamp },
        side_outputs: [late],
        states: { days: Map<i64, Day> }, // by day since 1970
        timers: [event],
    },
}

/// Adds the flight to its day; several days are open at once. A flight of a day that is over is late.
fn on_flight(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(flights::input::COUNT)?;
    let date = row.time(flights::input::date).ok_or_else(|| Error::msg("a flight without a date"))?;
    let day = date.div_euclid(DAY_MS);
    let last = (day + 1) * DAY_MS - 1;
    if last <= ctx.watermark() {
        return ctx.forward_to(flights::late, rec);
    }
    let mut d = flights::days.get(ctx, &day)?.unwrap_or_default();
    if d.flights == 0 {
        ctx.set_timer("day", last)?;
    }
    d.flights += 1;
    d.delay += row.int(flights::input::delay).unwrap_or(0);
    flights::days.put(ctx, &day, &d)
}

fn on_day_end(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let day = timer.time().div_euclid(DAY_MS);
    let d = flights::days.get(ctx, &day)?.ok_or_else(|| Error::msg("a timer of a day without flights"))?;
    flights::days.remove(ctx, &day)?;
    let (y, m, dd) = civil(day);
    ctx.emit().json(|o| {
        o.bytes("origin", timer.key()).str("day", &format!("{y:04}-{m:02}-{dd:02}"));
        o.int("flights", d.flights).fixed("mean_delay", thousandths(d.delay, d.flights), 3);
    })
}

/// sum / n in thousandths, rounded half away from zero, in integers.
fn thousandths(sum: i64, n: i64) -> i64 {
    (2000 * sum.abs() + n) / (2 * n) * sum.signum()
}

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar.
fn civil(day: i64) -> (i64, i64, i64) {
    let z = day + 719_468; // days since 1 March of year 0
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let m = (5 * doy + 2) / 153; // 0 = March
    let month = if m < 10 { m + 3 } else { m - 9 };
    (yoe + 400 * era + (month <= 2) as i64, month, doy - (153 * m + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    fn flight(origin: &str, delay: i64, time: i64) -> Input {
        Input::row(&[Cell::Int(delay), Cell::Int(time)]).key(origin).time(time)
    }

    #[test]
    fn each_day_ends_by_its_timer_in_any_order_of_flights() {
        let mut h = Harness::new(&MODULE, "flights");
        let jan1 = 978_307_200_000; // 2001-01-01
        h.send_batch(&[
            flight("ATL", 7, jan1 + DAY_MS),
            flight("ATL", -3, jan1),
            flight("JFK", 1, jan1),
            flight("ATL", 5, jan1 + 1),
        ]);
        h.watermark(jan1 + DAY_MS - 2);
        assert!(h.outputs().is_empty());
        h.watermark(jan1 + DAY_MS - 1);
        assert_eq!(
            h.texts(),
            [
                r#"{"origin":"ATL","day":"2001-01-01","flights":2,"mean_delay":1.000}"#,
                r#"{"origin":"JFK","day":"2001-01-01","flights":1,"mean_delay":1.000}"#
            ]
        );
        h.send(flight("ATL", 99, jan1 + 2));
        assert_eq!(h.outputs()[0].output, 1, "to the side output late");
        h.end();
        assert_eq!(h.texts(), [r#"{"origin":"ATL","day":"2001-01-02","flights":1,"mean_delay":7.000}"#]);
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
    }

    #[test]
    fn means_are_rounded_half_away_from_zero() {
        for (sum, n, want) in [
            (1, 3, 333),
            (2, 3, 667),
            (-2, 3, -667),
            (1, 2000, 1),
            (-1, 2000, -1),
            (-1, 2001, 0),
            (0, 5, 0),
            (-5, 1, -5000),
        ] {
            assert_eq!(thousandths(sum, n), want, "{sum} / {n}");
        }
    }

    #[test]
    fn days_have_dates() {
        for (day, want) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (11_322, (2000, 12, 31)),
            (11_323, (2001, 1, 1)),
        ] {
            assert_eq!(civil(day), want);
        }
    }
}
