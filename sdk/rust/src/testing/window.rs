//! Aggregates and window functions in the harness.

use super::block::{append_frame, Block};
use super::{Harness, Input};
use crate::abi;
use alloc::vec::Vec;

/// The accumulator of an aggregate under test, empty at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accumulator(pub Option<Vec<u8>>);

/// The window of a test: `TestWindow::new(0, 60_000).key("a")`.
#[derive(Clone, Debug, PartialEq)]
pub struct TestWindow {
    start: i64,
    end: i64,
    revision: u32,
    key: Option<Vec<u8>>,
}

impl TestWindow {
    /// A window from `start` to before `end`, ms, over everything.
    pub fn new(start: i64, end: i64) -> TestWindow {
        TestWindow { start, end, revision: 0, key: None }
    }

    /// With a key.
    pub fn key(mut self, k: impl AsRef<[u8]>) -> TestWindow {
        self.key = Some(k.as_ref().to_vec());
        self
    }

    /// With the number of the result, from 1.
    pub fn revision(mut self, n: u32) -> TestWindow {
        self.revision = n;
        self
    }

    fn input(&self, elements: &[Input]) -> Input {
        let mut v = Vec::new();
        v.extend_from_slice(&self.start.to_le_bytes());
        v.extend_from_slice(&self.end.to_le_bytes());
        v.extend_from_slice(&self.revision.to_le_bytes());
        v.extend_from_slice(&(elements.len() as u32).to_le_bytes());
        assert_eq!(v.len(), abi::WINDOW_HEADER);
        for e in elements {
            append_frame(&mut v, &Input { key: None, ..e.clone() }, 0, 0);
        }
        Input { key: self.key.clone(), time: self.end.saturating_sub(1), ..Input::value(v) }
    }
}

impl Harness {
    /// Folds records into an accumulator. Those that fail change nothing.
    pub fn add(&mut self, acc: &mut Accumulator, records: &[Input]) {
        self.steps(abi::STEP_ADD, acc, records, &[]);
    }

    /// Takes records out of an accumulator.
    pub fn retract(&mut self, acc: &mut Accumulator, records: &[Input]) {
        self.steps(abi::STEP_RETRACT, acc, records, &[]);
    }

    /// Merges others into an accumulator, in order.
    pub fn merge(&mut self, acc: &mut Accumulator, others: &[&Accumulator]) {
        let list: Vec<u8> = (1..=others.len() as u32).flat_map(|i| i.to_le_bytes()).collect();
        self.steps(abi::STEP_MERGE, acc, &[Input::value(list)], others);
    }

    /// Gives the result of an accumulator; see `outputs` and `failures`.
    pub fn result(&mut self, acc: &Accumulator, window: &TestWindow) {
        let mut same = acc.clone();
        self.steps(abi::STEP_RESULT, &mut same, &[window.input(&[])], &[]);
        assert_eq!(same, *acc, "a result changes no accumulator");
    }

    /// Fires a window function with these elements; for a window with aggregates, one: their row.
    pub fn fire_window(&mut self, window: &TestWindow, elements: &[Input]) {
        assert_eq!(self.function().desc.kind, "window", "only window functions get windows");
        let desc = &self.function().desc;
        let records = [window.input(elements)];
        let block = Block::new(abi::KIND_WINDOWS, self.function, desc, &records, &self.host, abi::MIN_WATERMARK, 0);
        self.run(block, &records);
    }

    fn steps(&mut self, step: u8, acc: &mut Accumulator, records: &[Input], others: &[&Accumulator]) {
        let desc = &self.function().desc;
        assert_eq!(desc.kind, "aggregate", "only aggregates have accumulators");
        let mut cells: Vec<Option<&[u8]>> = Vec::with_capacity(1 + others.len());
        cells.push(acc.0.as_deref());
        cells.extend(others.iter().map(|o| o.0.as_deref()));
        let block = Block::steps(self.function, desc, step, records, &cells);
        let block = self.run(block, records);
        acc.0 = block.accumulator(0, desc.states[0].max_bytes);
    }
}
