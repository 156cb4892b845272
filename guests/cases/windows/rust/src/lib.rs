//! Functions of windows: what is built in, written as a guest; aggregates that fail; functions called when a
//! window fires.

use millrace::prelude::*;

mod basic;
mod failing;
mod lasting;
mod whole;

use basic::{Avg, Count, Stats, Sum};
use failing::Touchy;
use lasting::Trail;

millrace::module! {
    name: "windows",
    aggregate count { of: Count, output: { n: int64 } },
    aggregate sum { of: Sum, input: { v: int64 }, output: { sum: int64 } },
    aggregate avg { of: Avg, input: { f: float64 }, output: { avg: float64 } },
    aggregate stats { of: Stats, input: { v: int64 }, output: { n: int64, sum: int64, min: int64, max: int64 } },
    aggregate trail { of: Trail, input: { v: int64 }, output: { trail: string } },
    aggregate touchy { of: Touchy, input: { v: int64 }, output: { n: int64 } },
    window median {
        on_window: whole::median,
        input: { v: int64 },
        output: { start: timestamp, end: timestamp, elements: int64, median: float64 },
        side_outputs: [odd],
    },
    window share { on_window: whole::share, input: { n: int64, sum: int64 }, output: { mean: float64, revision: int64 } },
}
