//! One event-time timer per record: the module of the measurements of timers.

use millrace::prelude::*;

millrace::module! {
    name: "alarm",
    process alarm keyed { on_record: set, on_timer: ring, timers: [event] },
}

/// How long after its record a timer is due, in ms.
const DELAY: i64 = 10_000;

fn set(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    ctx.set_timer("", rec.time().wrapping_add(DELAY))
}

/// Out goes the timer's time, as it is and as the value, with the watermark that it is due at.
fn ring(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let (at, watermark) = (timer.time(), ctx.watermark());
    let mut out = [0; 16];
    out[..8].copy_from_slice(&at.to_le_bytes());
    out[8..].copy_from_slice(&watermark.to_le_bytes());
    ctx.emit().value(&out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    #[test]
    fn rings_after_the_delay() {
        let mut h = Harness::new(&MODULE, "alarm");
        h.send_batch(&[5i64, 10].map(|t| Input::null().key("k").time(t)));
        h.watermark(10_007);
        let outs: Vec<_> = h.outputs().into_iter().map(|o| o.record.value).collect();
        assert_eq!(outs, [Some([10_005i64.to_le_bytes(), 10_007i64.to_le_bytes()].concat())]);
    }
}
