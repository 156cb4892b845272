//! One event-time timer per record: the module of the measurements of timers.

use millrace::prelude::*;

millrace::module! {
    name: "alarm",
    process alarm keyed { on_record: set, on_timer: ring, timers: [event] },
}

/// The value's first 8 bytes, little endian, are the delay in ms (1 if it is shorter).
fn set(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let delay = rec.value().and_then(|v| v.get(..8)).map_or(1, |b| i64::from_le_bytes(b.try_into().unwrap_or([0; 8])));
    ctx.set_timer("", rec.time().wrapping_add(delay))
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
        h.send_batch(&[10i64, 5].map(|d| Input::value(d.to_le_bytes()).key("k").time(100)));
        h.watermark(107);
        let outs: Vec<_> = h.outputs().into_iter().map(|o| o.record.value).collect();
        assert_eq!(outs, [Some([105i64.to_le_bytes(), 107i64.to_le_bytes()].concat())]);
    }
}
