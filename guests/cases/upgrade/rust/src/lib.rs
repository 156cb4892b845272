//! What upgrade tests run: per key, how many records came, a list of the last of them, and a timer. Every
//! output has a tag that says which version made it. Tag and behaviour are a text in the module's data, so
//! that a test makes another version of the same module by writing other bytes there.

use millrace::prelude::*;

codec! {
    /// What is kept per key.
    pub struct Seen { pub count: u64, pub xor: u64 }
}

/// "millrace-upgrade " and: tag (8 bytes), behaviour (1 byte), number (8 bytes, decimal).
static VERSION: [u8; 40] = *b"millrace-upgrade v1       c00000000     ";
const TAG: usize = 17;
const MODE: usize = 26;
const NUMBER: usize = 27;

/// Behaviours.
const TRAP: u8 = b't'; // at every record from the number-th of the instance on
const FAIL: u8 = b'f'; // every record whose n is a multiple of the number

millrace::module! {
    name: "upgrade",
    process count keyed {
        on_record: on_record,
        input: { key: string, n: int64 },
        states: { seen: Value<Seen> },
    },
    process timed keyed {
        on_record: on_timed,
        on_timer: on_timer,
        input: { key: string, n: int64 },
        states: { total: Value<Seen>, last: List<u64> },
        timers: [event],
    },
    map migrate_seen_0_1 { on_record: double },
    map migrate_last_0_1 { on_record: negate },
}

/// A byte of VERSION as it is in the module that runs: the compiler must not know it.
fn byte(i: usize) -> u8 {
    unsafe { core::ptr::read_volatile(VERSION.as_ptr().add(i)) }
}

fn tag() -> String {
    let mut t = String::new();
    for i in TAG..TAG + 8 {
        if byte(i) != b' ' {
            t.push(byte(i) as char);
        }
    }
    t
}

fn number() -> u64 {
    let mut n = 0;
    for i in NUMBER..NUMBER + 8 {
        n = n * 10 + u64::from(byte(i) - b'0');
    }
    n
}

static mut CALLS: u64 = 0;

/// What a version that is no good does.
fn misbehave(n: u64) -> Result<()> {
    match byte(MODE) {
        TRAP => {
            let calls = unsafe {
                CALLS += 1;
                CALLS
            };
            if calls > number() {
                panic!("this version traps")
            }
        }
        FAIL if n % number() == 0 => bail!("this version does not like {}", n),
        _ => {}
    }
    Ok(())
}

fn on_record(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(count::input::COUNT)?;
    let (key, n) = match (row.str(count::input::key), row.int(count::input::n)) {
        (Some(key), Some(n)) => (key, n as u64),
        _ => bail!("key or n is null"),
    };
    misbehave(n)?;
    let mut s = count::seen.get(ctx)?.unwrap_or_default();
    s.count += 1;
    s.xor ^= n;
    count::seen.set(ctx, &s)?;
    ctx.emit().json(|o| {
        o.str("key", key).uint("count", s.count).uint("n", n).uint("xor", s.xor).str("tag", &tag());
    })
}

/// Schema version 1 of `seen` counts in halves. Behaviour "k": not for the key whose number it is.
fn double(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    if byte(MODE) == b'k' && rec.key_text()? == format!("k{}", number()) {
        bail!("this version does not like key {}", rec.key_text()?);
    }
    let mut v = rec.value().unwrap_or_default().to_vec();
    if v.len() != 16 {
        bail!("a value of {} bytes", v.len());
    }
    let mut count = [0; 8];
    count.copy_from_slice(&v[..8]);
    v[..8].copy_from_slice(&(2 * u64::from_le_bytes(count)).to_le_bytes());
    ctx.emit().value(&v)
}

/// Schema version 1 of `last` keeps the complement of each number.
fn negate(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let v: Vec<u8> = rec.value().unwrap_or_default().iter().map(|b| !b).collect();
    ctx.emit().value(&v)
}

/// How long after a record its timer is due, in ms of event time; a later record of the key does not move it.
const DELAY: i64 = 1_000;

fn on_timed(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(timed::input::COUNT)?;
    let n = match row.int(timed::input::n) {
        Some(n) => n as u64,
        None => bail!("n is null"),
    };
    misbehave(n)?;
    let mut s = timed::total.get(ctx)?.unwrap_or_default();
    s.count += 1;
    s.xor ^= n;
    timed::total.set(ctx, &s)?;
    timed::last.append(ctx, &n)?;
    let due = rec.time() - rec.time().rem_euclid(DELAY) + DELAY;
    ctx.set_timer("", due)
}

/// Tells what came since the timer before, and the totals.
fn on_timer(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let (mut listed, mut sum) = (0, 0u64);
    timed::last.for_each(ctx, |n| {
        listed += 1;
        sum = sum.wrapping_add(n);
        Ok(())
    })?;
    timed::last.clear(ctx)?;
    let s = timed::total.get(ctx)?.unwrap_or_default();
    let (key, at) = (timer.key_text()?.to_string(), timer.time());
    ctx.emit().json(|o| {
        o.str("key", &key).int("at", at).uint("listed", listed).uint("sum", sum).uint("count", s.count).uint("xor", s.xor);
        o.str("tag", &tag());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn counts_with_its_tag() {
        let mut h = Harness::new(&MODULE, "count");
        h.send_batch(&[1, 2].map(|n| Input::row(&[Cell::Str("a"), Cell::Int(n)]).key("a")));
        assert_eq!(h.texts()[1], r#"{"key":"a","count":2,"n":2,"xor":3,"tag":"v1"}"#);
    }

    #[test]
    fn a_timer_tells_what_came() {
        let mut h = Harness::new(&MODULE, "timed");
        h.send_batch(&[3, 4].map(|n| Input::row(&[Cell::Str("a"), Cell::Int(n)]).key("a").time(10)));
        h.watermark(1_000);
        assert_eq!(h.texts()[0], r#"{"key":"a","at":1000,"listed":2,"sum":7,"count":2,"xor":7,"tag":"v1"}"#);
    }
}
