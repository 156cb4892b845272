//! Gives each record back as it came: null, empty and absent, headers, times and operations included.

use millrace::prelude::*;

millrace::module! {
    name: "identity",
    map identity { on_record: pass },
    process keyed_identity keyed { on_record: pass },
}

fn pass(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    ctx.forward(rec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    #[test]
    fn null_empty_and_absent_stay_apart() {
        let mut h = Harness::new(&MODULE, "identity");
        let mut sent = [
            Input::null().key("k1").time(1),
            Input::value("").key("k2").header("h", None).header("h", Some(b"")),
            Input::value("v").time(-5),
            Input::value("w").key(""),
        ];
        h.send_batch(&sent);
        for (i, r) in sent.iter_mut().enumerate() {
            r.offset = i as u64;
        }
        let got: Vec<Input> = h.outputs().into_iter().map(|o| o.record).collect();
        assert_eq!(got, sent);
    }
}
