//! Functions that get a whole window when it fires.

use crate::{median, share};
use millrace::prelude::*;

/// The middle of the values; windows of an odd number of them are told on the side.
pub fn median(ctx: &mut Ctx, w: &Window) -> Result<()> {
    let mut v = Vec::with_capacity(w.len());
    for e in w.elements() {
        v.extend(e.row(median::input::COUNT)?.int(median::input::v));
    }
    v.sort_unstable();
    if v.first() == Some(&-1001) {
        bail!("a value of -1001");
    }
    if v.len() % 2 == 1 {
        ctx.emit().to(median::odd).text(format_args!("{}", v.len()))?;
    }
    ctx.emit().row(median::output::COUNT, |r| {
        use median::output::{elements, end, median, start};
        r.time(start, w.start()).time(end, w.end()).int(elements, w.len() as i64);
        if let Some(last) = v.len().checked_sub(1) {
            r.float(median, (v[last / 2] as f64 + v[v.len() / 2] as f64) / 2.0);
        }
    })
}

/// The mean, of what aggregates counted and summed.
pub fn share(ctx: &mut Ctx, w: &Window) -> Result<()> {
    let row = w.row(share::input::COUNT)?;
    let (n, sum) = (row.int(share::input::n).unwrap_or(0), row.int(share::input::sum).unwrap_or(0));
    ctx.emit().row(share::output::COUNT, |r| {
        r.float(share::output::mean, sum as f64 / n as f64).int(share::output::revision, w.revision() as i64);
    })
}
