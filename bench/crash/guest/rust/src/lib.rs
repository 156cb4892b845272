//! The job that crash runs kill: per key a count and the xor of the records' numbers, and per key and
//! second of event time a timer that tells how many records came in it.
//!
//! It uses every kind of state, and notices by itself when one is not what it must be: a window that
//! ended must be gone from value and map state. Then it fails the record, which is a dead letter that no
//! input explains. A null n fails its record before it did anything, n = 0 traps after everything is done.

use millrace::prelude::*;

const WINDOW_MS: i64 = 1000;

codec! {
    /// What is kept per key.
    pub struct Seen { pub count: u64, pub xor: u64 }
}

millrace::module! {
    name: "crash",
    process count keyed {
        on_record: on_record,
        on_timer: on_timer,
        input: { key: string, n: int64 },
        states: {
            seen: Value<Seen>,
            newest: Value<i64>,      // end of the newest open window
            windows: Map<i64, u64>,  // records of each open window, by its end
        },
        timers: [event],
    },
}

fn on_record(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(count::input::COUNT)?;
    let (key, n) = match (row.str(count::input::key), row.int(count::input::n)) {
        (Some(key), Some(n)) => (key, n as u64),
        _ => bail!("key or n is null"),
    };
    let mut seen = count::seen.get(ctx)?.unwrap_or_default();
    seen.count += 1;
    seen.xor ^= n;
    count::seen.set(ctx, &seen)?;
    add_to_window(ctx, rec.time())?;
    let watermark = ctx.watermark();
    ctx.emit().json(|o| {
        o.str("key", key).uint("count", seen.count).uint("n", n).uint("xor", seen.xor).int("wm", watermark);
    })?;
    // Everything that this record did has to be undone.
    assert!(n != 0, "record 0 of key {} traps", key);
    Ok(())
}

fn add_to_window(ctx: &mut Ctx, time: i64) -> Result<()> {
    let watermark = ctx.watermark();
    let mut oldest = None;
    count::windows.scan(ctx, |end, _| {
        oldest = Some(end);
        Ok(false)
    })?;
    if oldest.map_or(false, |end| end <= watermark) {
        bail!("window {:?} is back in map state, the watermark is {}", oldest, watermark);
    }
    let newest = count::newest.get(ctx)?;
    if newest.map_or(false, |end| end <= watermark) {
        bail!("window {:?} is back in value state, the watermark is {}", newest, watermark);
    }
    let end = (time.div_euclid(WINDOW_MS) + 1) * WINDOW_MS;
    let records = count::windows.get(ctx, &end)?;
    if records.is_none() {
        ctx.set_timer("window", end)?;
        count::newest.set(ctx, &end)?;
    }
    count::windows.put(ctx, &end, &(records.unwrap_or(0) + 1))
}

fn on_timer(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let end = timer.time();
    let records = match count::windows.get(ctx, &end)? {
        Some(n) => n,
        None => bail!("the timer of window {} fired without its window", end),
    };
    count::windows.remove(ctx, &end)?;
    if count::newest.get(ctx)? == Some(end) {
        count::newest.clear(ctx)?;
    }
    ctx.emit().json(|o| {
        o.bytes("key", timer.key()).int("timer", end).uint("records", records);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn counts_and_tells_each_window_once() {
        let mut h = Harness::new(&MODULE, "count");
        h.send_batch(&[(1, 10), (2, 990), (3, 1000)].map(|(n, t)| Input::row(&[Cell::Str("a"), Cell::Int(n)]).key("a").time(t)));
        assert_eq!(h.texts()[2], r#"{"key":"a","count":3,"n":3,"xor":0,"wm":-9223372036854775808}"#);
        h.watermark(999);
        assert!(h.outputs().is_empty());
        h.watermark(1000);
        assert_eq!(h.texts(), [r#"{"key":"a","timer":1000,"records":2}"#]);
        h.end();
        assert_eq!(h.texts(), [r#"{"key":"a","timer":2000,"records":1}"#]);
        assert_eq!((h.state_entries(), h.timers()), (1, 0));
    }
}
