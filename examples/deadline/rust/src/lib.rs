//! An authorised payment has to be settled within ten minutes, else an event-time timer raises an alert.
//! Records are rows keyed by payment, in any order that the watermark allows.

use millrace::prelude::*;

const DEADLINE_MS: i64 = 10 * 60 * 1000;

codec! {
    /// What is known of a payment, each half with whether it is known.
    pub struct Payment { pub authorised: bool, pub at: i64, pub amount: i64, pub settled: bool, pub settled_at: i64 }
}

millrace::module! {
    name: "deadline",
    process deadline keyed {
        on_record: on_event,
        on_timer: on_timer,
        input: { kind: string, amount: int64 },
        side_outputs: [unmatched],
        states: { payment: Value<Payment> },
        timers: [event],
    },
}

fn on_event(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(deadline::input::COUNT)?;
    let mut p = deadline::payment.get(ctx)?.unwrap_or_default();
    match row.str(deadline::input::kind) {
        Some("authorised") if !p.authorised => {
            p.authorised = true;
            p.at = rec.time();
            p.amount = row.int(deadline::input::amount).unwrap_or(0);
            ctx.set_timer("deadline", p.at + DEADLINE_MS)?;
        }
        Some("settled") if !p.settled => {
            p.settled = true;
            p.settled_at = rec.time();
            ctx.set_timer("unmatched", p.settled_at)?;
        }
        kind => bail!("kind {:?} a second time, or neither authorised nor settled", kind.unwrap_or("null")),
    }
    if p.authorised && p.settled && (0..=DEADLINE_MS).contains(&(p.settled_at - p.at)) {
        ctx.delete_timer("deadline", p.at + DEADLINE_MS)?;
        ctx.delete_timer("unmatched", p.settled_at)?;
        return deadline::payment.clear(ctx);
    }
    deadline::payment.set(ctx, &p)
}

/// The half whose time has come goes; the other one has its own timer.
fn on_timer(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let mut p = deadline::payment.get(ctx)?.ok_or_else(|| Error::msg("a timer of a payment that is not there"))?;
    if timer.name() == "deadline" {
        ctx.emit().json(|o| {
            o.bytes("payment", timer.key())
                .int("amount", p.amount)
                .int("authorised", p.at)
                .int("deadline", timer.time());
        })?;
        p.authorised = false;
    } else {
        ctx.emit().to(deadline::unmatched).json(|o| {
            o.bytes("payment", timer.key()).int("settled", p.settled_at);
        })?;
        p.settled = false;
    }
    if p.authorised || p.settled {
        return deadline::payment.set(ctx, &p);
    }
    deadline::payment.clear(ctx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    fn event<'a>(payment: &'a str, kind: &'a str, time: i64) -> Input {
        Input::row(&[Cell::Str(kind), Cell::Int(990)]).key(payment).time(time)
    }

    #[test]
    fn settled_at_the_deadline_is_in_time() {
        let mut h = Harness::new(&MODULE, "deadline");
        h.send_batch(&[event("p1", "authorised", 1000), event("p1", "settled", 601_000)]);
        h.watermark(1_000_000);
        assert!(h.outputs().is_empty());
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
    }

    #[test]
    fn without_settlement_there_is_an_alert_at_the_deadline() {
        let mut h = Harness::new(&MODULE, "deadline");
        h.send(event("p1", "authorised", 1000));
        h.watermark(600_999);
        assert!(h.outputs().is_empty());
        h.watermark(601_000);
        assert_eq!(h.texts(), [r#"{"payment":"p1","amount":990,"authorised":1000,"deadline":601000}"#]);
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
    }

    #[test]
    fn a_settlement_that_comes_first_waits_for_its_authorisation() {
        let mut h = Harness::new(&MODULE, "deadline");
        h.send_batch(&[event("p1", "settled", 5000), event("p1", "authorised", 1000)]);
        h.watermark(1_000_000);
        assert!(h.outputs().is_empty());
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
    }

    #[test]
    fn too_late_is_an_alert_and_unmatched() {
        let mut h = Harness::new(&MODULE, "deadline");
        h.send_batch(&[event("p1", "settled", 601_001), event("p1", "authorised", 1000)]);
        h.watermark(1_000_000);
        assert_eq!(
            h.texts(),
            [
                r#"{"payment":"p1","amount":990,"authorised":1000,"deadline":601000}"#,
                r#"unmatched: {"payment":"p1","settled":601001}"#
            ]
        );
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
    }

    #[test]
    fn what_makes_no_sense_fails_alone() {
        let mut h = Harness::new(&MODULE, "deadline");
        h.send_batch(&[event("p1", "authorised", 0), event("p1", "authorised", 5), event("p2", "refunded", 5)]);
        assert_eq!(h.failures().len(), 2);
        h.watermark(600_000);
        assert_eq!(h.outputs().len(), 1);
    }
}
