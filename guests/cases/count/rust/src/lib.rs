//! Keyed running count and sum, each update out: the module of the throughput measurements.

use millrace::prelude::*;

codec! {
    /// What is kept per key.
    pub struct Total { pub count: u64, pub sum: i64 }
}

millrace::module! {
    name: "count",
    process count keyed { on_record: add_raw, states: { total: Value<Total> } },
    process count_row keyed {
        on_record: add_row,
        input: { amount: int64 },
        states: { total: Value<Total> },
    },
}

fn update(ctx: &mut Ctx, total: Value<Total>, amount: i64) -> Result<Total> {
    let mut t = total.get(ctx)?.unwrap_or_default();
    t.count += 1;
    t.sum = t.sum.wrapping_add(amount);
    total.set(ctx, &t)?;
    Ok(t)
}

/// The amount is the value's first 8 bytes, little endian (0 if it is shorter); out go count and sum,
/// 8 bytes each.
fn add_raw(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let amount = rec.value().and_then(|v| v.get(..8)).map_or(0, |b| i64::from_le_bytes(b.try_into().unwrap_or([0; 8])));
    let t = update(ctx, count::total, amount)?;
    let mut out = [0; 16];
    out[..8].copy_from_slice(&t.count.to_le_bytes());
    out[8..].copy_from_slice(&t.sum.to_le_bytes());
    ctx.emit().value(&out)
}

/// The amount is a column of the row (null counts as 0); out goes a JSON line.
fn add_row(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let amount = rec.row(count_row::input::COUNT)?.int(count_row::input::amount).unwrap_or(0);
    let key = rec.key_text()?;
    let t = update(ctx, count_row::total, amount)?;
    ctx.emit().json(|o| {
        o.str("key", key).uint("count", t.count).int("sum", t.sum);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn counts_and_sums_raw_amounts() {
        let mut h = Harness::new(&MODULE, "count");
        h.send_batch(&[5i64, -7].map(|n| Input::value(n.to_le_bytes()).key("k")));
        let last = h.outputs().pop().and_then(|o| o.record.value);
        assert_eq!(last, Some([2u64.to_le_bytes(), (-2i64).to_le_bytes()].concat()));
    }

    #[test]
    fn counts_and_sums_rows() {
        let mut h = Harness::new(&MODULE, "count_row");
        h.send_batch(&[Cell::Int(5), Cell::Null, Cell::Int(2)].map(|c| Input::row(&[c]).key("k")));
        assert_eq!(h.texts()[2], r#"{"key":"k","count":3,"sum":7}"#);
    }
}
