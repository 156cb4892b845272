//! Aggregates and window functions in the native harness.

use millrace::prelude::*;
use millrace::testing::{Accumulator, Cell, Harness, Input, TestWindow};
use millrace::Codec;

codec! {
    /// Mean of the amounts so far.
    pub struct Mean { n: u64, sum: f64 }
}

millrace::module! {
    name: "windows",
    aggregate mean { of: Mean, input: { amount: int64 }, output: { mean: float64, n: int64 } },
    aggregate joined { of: Joined, output: { text: string } },
    window median { on_window: median, input: { amount: int64 }, output: { median: float64 }, side_outputs: [odd] },
}

impl Aggregate for Mean {
    const RETRACTS: bool = true;
    fn create() -> Mean {
        Mean::default()
    }
    fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        if let Some(v) = rec.row(mean::input::COUNT)?.int(mean::input::amount) {
            self.n += 1;
            self.sum += v as f64;
        }
        Ok(())
    }
    fn retract(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        if let Some(v) = rec.row(mean::input::COUNT)?.int(mean::input::amount) {
            self.n -= 1;
            self.sum -= v as f64;
        }
        Ok(())
    }
    fn merge(&mut self, _: &mut Ctx, other: &Mean) -> Result<()> {
        self.n += other.n;
        self.sum += other.sum;
        Ok(())
    }
    fn result(&self, ctx: &mut Ctx, w: &Window) -> Result<()> {
        if w.end() == 0 {
            bail!("a window that ends at 0");
        }
        ctx.emit().row(mean::output::COUNT, |r| {
            r.float(mean::output::mean, self.sum / self.n as f64).int(mean::output::n, self.n as i64);
        })
    }
}

/// Joins texts while there is room.
struct Joined(Bounded<12>);

impl Codec for Joined {
    const MAX_BYTES: usize = 12;
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        self.0.with_bytes(f)
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        Bounded::decode(bytes).map(Joined)
    }
}

impl Joined {
    fn join(&mut self, more: &[u8]) -> Option<()> {
        self.0 = Bounded::new(&[&*self.0, more].concat())?;
        Some(())
    }
}

impl Aggregate for Joined {
    fn create() -> Self {
        Joined(Bounded::new(b"").expect("it is short"))
    }
    fn add(&mut self, _: &mut Ctx, rec: &Record) -> Result<()> {
        self.join(rec.text()?.as_bytes()).ok_or_else(|| Error::msg("no room"))
    }
    fn merge(&mut self, ctx: &mut Ctx, other: &Self) -> Result<()> {
        ctx.count("merges", 1);
        self.join(&other.0).ok_or_else(|| Error::msg("no room to merge"))
    }
    fn result(&self, ctx: &mut Ctx, _: &Window) -> Result<()> {
        ctx.emit().row(1, |r| {
            r.bytes(0, &self.0);
        })
    }
}

fn median(ctx: &mut Ctx, w: &Window) -> Result<()> {
    let mut v: Vec<i64> = Vec::with_capacity(w.len());
    for e in w.elements() {
        v.extend(e.row(median::input::COUNT)?.int(median::input::amount));
    }
    v.sort_unstable();
    if v.is_empty() {
        bail!("no amounts for {}", w.key_text()?);
    }
    if v.len() % 2 == 1 {
        ctx.emit().to(median::odd).text(format_args!("{} of {}", v.len(), w.revision()))?;
    }
    let m = (v[(v.len() - 1) / 2] as f64 + v[v.len() / 2] as f64) / 2.0;
    ctx.emit().row(1, |r| {
        r.float(0, m);
    })
}

fn amount(v: i64) -> Input {
    Input::row(&[Cell::Int(v)])
}

#[test]
fn parts_merge_to_the_whole() {
    let mut h = Harness::new(&MODULE, "mean");
    let records: Vec<Input> = (0..10).map(|v| amount(v * v)).collect();
    let (mut all, mut a, mut b) = (Accumulator::default(), Accumulator::default(), Accumulator::default());
    h.add(&mut all, &records);
    h.add(&mut a, &records[..3]);
    h.add(&mut b, &records[3..]);
    let mut merged = Accumulator::default();
    h.merge(&mut merged, &[&Accumulator::default(), &a, &b]);
    assert_eq!(merged, all);
    h.retract(&mut merged, &records[3..]);
    assert_eq!(merged, a);
    h.result(&all, &TestWindow::new(0, 10).key("k"));
    let out = h.outputs();
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].record.key.as_deref(), out[0].record.time), (Some(&b"k"[..]), 9));
    assert_eq!(out[0].record.value, Input::row(&[Cell::Float(28.5), Cell::Int(10)]).value);
    h.result(&all, &TestWindow::new(-5, 0));
    assert_eq!(h.failures()[0].message, "a window that ends at 0");
}

#[test]
fn failures_leave_the_accumulator() {
    let mut h = Harness::new(&MODULE, "joined");
    let mut a = Accumulator::default();
    h.add(&mut a, &[Input::value("first"), Input::value("much too long"), Input::value("second"), Input::value("x")]);
    assert_eq!(a.0.as_deref(), Some(&b"firstsecondx"[..]));
    assert_eq!(h.failures().len(), 1);
    let before = a.clone();
    h.merge(&mut a, &[&before]);
    assert_eq!((&a, h.failures()[0].message.as_str()), (&before, "no room to merge"));
    h.retract(&mut a, &[Input::value("x")]);
    assert_eq!(h.failures()[0].message, "this aggregate takes no record back");
}

#[test]
fn a_window_function_sees_its_elements() {
    let mut h = Harness::new(&MODULE, "median");
    let w = TestWindow::new(0, 60).key("k").revision(2);
    h.fire_window(&w, &[amount(7), amount(1), Input::row(&[Cell::Null]), amount(4)]);
    let out = h.outputs();
    assert_eq!((out[0].output, out[0].text().as_str()), (1, "3 of 2"));
    assert_eq!(out[1].record.value, Input::row(&[Cell::Float(4.0)]).value);
    assert_eq!((out[1].record.key.as_deref(), out[1].record.time), (Some(&b"k"[..]), 59));
    h.fire_window(&w, &[]);
    assert_eq!(h.failures()[0].message, "no amounts for k");
}
