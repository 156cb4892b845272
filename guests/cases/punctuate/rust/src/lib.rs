//! Says the watermark of a source: by a command in the record, or behind records that carry a flag.
//!
//! `told` runs what stands in a record's text behind "#": a number is the watermark, `fail` and `trap` are
//! what they say; every other record says nothing. `flagged` says the time of a row whose flag is set.

use millrace::prelude::*;

millrace::module! {
    name: "punctuate",
    watermark told { on_record: told },
    watermark flagged { on_record: flagged, input: { at: timestamp, last: bool } },
}

fn told(_: &mut Ctx, rec: &Record) -> Result<Option<i64>> {
    let command = match rec.text()?.split_once('#') {
        Some((_, command)) => command,
        None => return Ok(None),
    };
    match command {
        "fail" => bail!("on demand"),
        "trap" => panic!("on demand"),
        number => Ok(Some(number.parse()?)),
    }
}

fn flagged(_: &mut Ctx, rec: &Record) -> Result<Option<i64>> {
    let row = rec.row(flagged::input::COUNT)?;
    Ok(match (row.bool(flagged::input::last), row.time(flagged::input::at)) {
        (Some(true), Some(at)) => Some(at),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn it_says_what_the_record_says() {
        let mut h = Harness::new(&MODULE, "told");
        let records = ["a", "b#17", "c#fail", "d#-4", "e#x"].map(Input::value);
        assert_eq!(h.watermarks(&records), [None, Some(17), None, Some(-4), None]);
        assert_eq!(h.failures().len(), 2);
    }

    #[test]
    fn a_flag_ends_a_time() {
        let mut h = Harness::new(&MODULE, "flagged");
        let records = [
            Input::row(&[Cell::Int(5), Cell::Bool(false)]),
            Input::row(&[Cell::Int(7), Cell::Bool(true)]),
            Input::row(&[Cell::Null, Cell::Bool(true)]),
        ];
        assert_eq!(h.watermarks(&records), [None, Some(7), None]);
    }
}
