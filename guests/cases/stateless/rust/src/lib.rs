//! Filter and map for throughput: drops a quarter of the records, rewrites the rest.
//!
//! The value is u32 kind, u32 amount (little endian), payload. Records with kind % 4 == 3 or a value
//! under 8 bytes are dropped; the others go on with amount * 3 + 1, wrapping, and the same payload.

use millrace::prelude::*;

millrace::module! {
    name: "stateless",
    flat_map filter_map { on_record: filter_map },
    filter keep { on_record: keep },
}

fn filter_map(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let v = match rec.value() {
        Some(v) if v.len() >= 8 && v[0] % 4 != 3 => v,
        _ => return Ok(()),
    };
    let amount = u32::from_le_bytes([v[4], v[5], v[6], v[7]]).wrapping_mul(3).wrapping_add(1);
    ctx.emit().parts(&[&v[..4], &amount.to_le_bytes(), &v[8..]])
}

fn keep(_: &mut Ctx, rec: &Record) -> bool {
    matches!(rec.value(), Some(v) if v.len() >= 8 && v[0] % 4 != 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    fn record(kind: u32, amount: u32) -> Input {
        let mut v = kind.to_le_bytes().to_vec();
        v.extend_from_slice(&amount.to_le_bytes());
        v.extend_from_slice(b"payload");
        Input::value(v).key("k")
    }

    #[test]
    fn three_of_four_pass_and_change() {
        let mut h = Harness::new(&MODULE, "filter_map");
        h.send_batch(&[record(0, 1), record(1, 2), record(2, u32::MAX), record(3, 4), Input::value("short")]);
        let got: Vec<_> = h.outputs().into_iter().map(|o| o.record.value).collect();
        assert_eq!(got, [record(0, 4).value, record(1, 7).value, record(2, u32::MAX - 1).value]);
    }

    #[test]
    fn the_filter_keeps_records_as_they_are() {
        let mut h = Harness::new(&MODULE, "keep");
        h.send_batch(&[record(2, 1), record(3, 2), Input::null()]);
        assert_eq!(h.outputs().into_iter().map(|o| o.record.value).collect::<Vec<_>>(), [record(2, 1).value]);
    }
}
