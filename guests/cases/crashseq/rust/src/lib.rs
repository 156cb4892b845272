//! What crash runs check: per key, how many records came and the xor of their numbers. A record lost
//! or counted twice shows in every later output of its key.

use millrace::prelude::*;

codec! {
    /// What is kept per key.
    pub struct Seen { pub count: u64, pub xor: u64 }
}

millrace::module! {
    name: "crashseq",
    process crashseq keyed { on_record: from_text, states: { seen: Value<Seen> } },
    process count keyed {
        on_record: from_row,
        input: { key: string, n: int64 },
        states: { seen: Value<Seen> },
    },
}

/// The value is "key n".
fn from_text(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    match rec.text()?.split_once(' ') {
        Some((key, n)) => update(ctx, crashseq::seen, key, n.trim_end().parse()?),
        None => bail!("value {:?}, expected \"key n\"", rec.text()?),
    }
}

fn from_row(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(count::input::COUNT)?;
    match (row.str(count::input::key), row.int(count::input::n)) {
        (Some(key), Some(n)) => update(ctx, count::seen, key, n as u64),
        _ => bail!("key or n is null"),
    }
}

fn update(ctx: &mut Ctx, seen: Value<Seen>, key: &str, n: u64) -> Result<()> {
    let mut s = seen.get(ctx)?.unwrap_or_default();
    s.count += 1;
    s.xor ^= n;
    seen.set(ctx, &s)?;
    ctx.emit().json(|o| {
        o.str("key", key).uint("count", s.count).uint("n", n).uint("xor", s.xor);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn counts_and_xors() {
        let mut h = Harness::new(&MODULE, "crashseq");
        h.send_batch(&["a 1", "a 2", "b 7", "a x"].map(|v| Input::value(v).key(&v[..1])));
        assert_eq!(h.texts()[1], r#"{"key":"a","count":2,"n":2,"xor":3}"#);
        assert_eq!(h.failures().len(), 1);
    }

    #[test]
    fn the_same_from_rows() {
        let mut h = Harness::new(&MODULE, "count");
        h.send_batch(&[1, 2, 3].map(|n| Input::row(&[Cell::Str("a"), Cell::Int(n)]).key("a")));
        assert_eq!(h.texts()[2], r#"{"key":"a","count":3,"n":3,"xor":0}"#);
    }
}
