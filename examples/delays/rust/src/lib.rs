//! Which flights are delayed: the filter before the session windows.

use millrace::prelude::*;

/// From here on a flight counts as delayed, in minutes.
const DELAYED: i64 = 60;

millrace::module! {
    name: "delays",
    filter delayed { on_record: is_delayed, input: { delay: int64 } },
}

fn is_delayed(_: &mut Ctx, flight: &Record) -> Result<bool> {
    Ok(flight.row(delayed::input::COUNT)?.int(delayed::input::delay).map_or(false, |d| d >= DELAYED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn an_hour_is_delayed_and_an_unknown_delay_is_not() {
        let mut h = Harness::new(&MODULE, "delayed");
        h.send_batch(
            &[Cell::Int(59), Cell::Int(60), Cell::Null, Cell::Int(-5), Cell::Int(200)].map(|c| Input::row(&[c])),
        );
        assert_eq!(h.outputs().len(), 2);
    }
}
