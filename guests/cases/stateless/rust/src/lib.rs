//! Filter and map for throughput: drops a quarter of the records, rewrites the rest.
//!
//! The value begins with a u64, little endian. Records where it is a multiple of 4, and those with fewer
//! than 8 bytes, are dropped; of the others it becomes n * 3 + 1, wrapping, and the rest stays.

use millrace::prelude::*;

millrace::module! {
    name: "stateless",
    flat_map filter_map { on_record: filter_map },
    filter keep { on_record: keep },
}

fn number(rec: &Record) -> Option<u64> {
    let n = rec.value()?.get(..8)?.try_into().map(u64::from_le_bytes).ok()?;
    Some(n).filter(|n| n % 4 != 0)
}

fn filter_map(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    match (number(rec), rec.value()) {
        (Some(n), Some(v)) => ctx.emit().parts(&[&n.wrapping_mul(3).wrapping_add(1).to_le_bytes(), &v[8..]]),
        _ => Ok(()),
    }
}

fn keep(_: &mut Ctx, rec: &Record) -> bool {
    number(rec).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    fn record(n: u64) -> Input {
        Input::value([&n.to_le_bytes()[..], b"payload"].concat()).key("k")
    }

    #[test]
    fn three_of_four_pass_and_change() {
        let mut h = Harness::new(&MODULE, "filter_map");
        h.send_batch(&[record(4), record(1), record(2), record(u64::MAX), Input::value("short")]);
        let got: Vec<_> = h.outputs().into_iter().map(|o| o.record.value).collect();
        assert_eq!(got, [record(4).value, record(7).value, record(u64::MAX - 1).value]);
    }

    #[test]
    fn the_filter_keeps_records_as_they_are() {
        let mut h = Harness::new(&MODULE, "keep");
        h.send_batch(&[record(2), record(8), Input::null()]);
        assert_eq!(h.outputs().into_iter().map(|o| o.record.value).collect::<Vec<_>>(), [record(2).value]);
    }
}
