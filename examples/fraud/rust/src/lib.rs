//! Payment fraud: a small payment, then a large one on the same card within a minute, is an alert. A
//! timer ends the suspicion. Payments are rows, keyed by card; amounts are in cents.

use millrace::prelude::*;

const SMALL: i64 = 100;
const LARGE: i64 = 50_000;
const WINDOW_MS: i64 = 60_000;

codec! {
    /// The latest small payment.
    pub struct Probe { pub at: i64, pub amount: i64 }
}

millrace::module! {
    name: "fraud",
    process fraud keyed {
        on_record: on_payment,
        on_timer: on_expiry,
        input: { amount: int64 },
        side_outputs: [cleared],
        states: { probe: Value<Probe> },
        timers: [event],
    },
}

fn on_payment(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let amount = rec.row(fraud::input::COUNT)?.int(fraud::input::amount).unwrap_or(-1);
    if amount < 0 {
        bail!("amount {amount}, expected cents from 0 on");
    }
    let card = rec.key_text()?;
    if amount <= SMALL {
        if let Some(old) = fraud::probe.get(ctx)? {
            ctx.delete_timer("expire", old.at + WINDOW_MS)?;
        }
        fraud::probe.set(ctx, &Probe { at: rec.time(), amount })?;
        ctx.set_timer("expire", rec.time() + WINDOW_MS)?;
    } else if amount >= LARGE {
        if let Some(p) = fraud::probe.get(ctx)?.filter(|p| (0..=WINDOW_MS).contains(&(rec.time() - p.at))) {
            ctx.emit().json(|o| {
                o.str("card", card).int("small", p.amount).int("large", amount).int("after_ms", rec.time() - p.at);
                o.int("time", rec.time());
            })?;
        }
    }
    Ok(())
}

fn on_expiry(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    fraud::probe.clear(ctx)?;
    ctx.emit().to(fraud::cleared).json(|o| {
        o.bytes("card", timer.key()).int("time", timer.time());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    fn pay(card: &str, amount: i64, time: i64) -> Input {
        Input::row(&[Cell::Int(amount)]).key(card).time(time)
    }

    #[test]
    fn small_then_large_within_a_minute_is_an_alert() {
        let mut h = Harness::new(&MODULE, "fraud");
        h.send_batch(&[pay("c1", 80, 1000), pay("c2", 60_000, 2000), pay("c1", 70_000, 61_000)]);
        assert_eq!(h.texts(), [r#"{"card":"c1","small":80,"large":70000,"after_ms":60000,"time":61000}"#]);
    }

    #[test]
    fn suspicion_ends_with_the_timer() {
        let mut h = Harness::new(&MODULE, "fraud");
        h.send(pay("c1", 80, 1000));
        h.watermark(61_000);
        h.send(pay("c1", 70_000, 61_001));
        assert_eq!(h.texts(), [r#"cleared: {"card":"c1","time":61000}"#]);
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
    }

    #[test]
    fn too_late_is_no_alert_even_before_the_watermark() {
        let mut h = Harness::new(&MODULE, "fraud");
        h.send_batch(&[pay("c1", 80, 1000), pay("c1", 70_000, 61_001), pay("c1", 70_000, 999)]);
        assert!(h.outputs().is_empty());
    }

    #[test]
    fn a_negative_amount_fails_alone() {
        let mut h = Harness::new(&MODULE, "fraud");
        h.send_batch(&[pay("c1", 80, 0), pay("c1", -1, 1), pay("c1", 70_000, 2)]);
        assert_eq!(h.failures()[0].message, "amount -1, expected cents from 0 on");
        assert_eq!(h.outputs().len(), 1);
    }
}
