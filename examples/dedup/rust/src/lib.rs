//! Drops records whose key was seen before, until the key has been silent for ten minutes.

use millrace::prelude::*;

const SILENCE_MS: i64 = 10 * 60 * 1000;

millrace::module! {
    name: "dedup",
    process dedup keyed {
        on_record: on_record,
        on_timer: on_timer,
        side_outputs: [duplicates],
        states: { expires: Value<i64> }, // when the key is forgotten
        timers: [event],
    },
}

fn on_record(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let old = dedup::expires.get(ctx)?;
    let at = (rec.time() + SILENCE_MS).max(old.unwrap_or(i64::MIN));
    if old != Some(at) {
        if let Some(old) = old {
            ctx.delete_timer("expire", old)?;
        }
        dedup::expires.set(ctx, &at)?;
        ctx.set_timer("expire", at)?;
    }
    match old {
        None => ctx.forward(rec),
        Some(_) => ctx.forward_to(dedup::duplicates, rec),
    }
}

fn on_timer(ctx: &mut Ctx, _: &Timer) -> Result<()> {
    dedup::expires.clear(ctx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    fn record(key: &str, value: &str, time: i64) -> Input {
        Input::value(value).key(key).time(time)
    }

    #[test]
    fn first_of_a_key_passes_the_rest_is_set_aside() {
        let mut h = Harness::new(&MODULE, "dedup");
        h.send_batch(&[record("a", "1", 0), record("b", "2", 0), record("a", "3", 5)]);
        assert_eq!(h.texts(), ["1", "2", "duplicates: 3"]);
    }

    #[test]
    fn a_silent_key_is_forgotten() {
        let mut h = Harness::new(&MODULE, "dedup");
        h.send(record("a", "1", 0));
        h.send(record("a", "2", 1000)); // puts the expiry off
        h.watermark(SILENCE_MS);
        assert_eq!((h.state_entries(), h.timers()), (1, 1));
        h.watermark(SILENCE_MS + 1000);
        assert_eq!((h.state_entries(), h.timers()), (0, 0));
        h.send(record("a", "3", SILENCE_MS + 2000));
        assert_eq!(h.texts(), ["1", "duplicates: 2", "3"]);
    }

    #[test]
    fn an_older_record_does_not_bring_the_expiry_forward() {
        let mut h = Harness::new(&MODULE, "dedup");
        h.send_batch(&[record("a", "1", 5000), record("a", "2", 0)]);
        h.watermark(SILENCE_MS + 4999);
        assert_eq!(h.state_entries(), 1);
    }
}
