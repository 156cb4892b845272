//! Running a function natively: in-memory state, timers in rounds, a watermark that the test moves.
//!
//! The harness builds real call blocks and runs the SDK's own loop, so what passes here runs the same
//! in the sandbox.

mod block;
mod host;
mod window;

pub(crate) use host::with_host;
pub use host::{Host, Log};
pub use window::{Accumulator, TestWindow};

use crate::abi;
use crate::ctx::Ctx;
use crate::module::{process, Function, FunctionDesc, Module};
use crate::record::{Domain, Op};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A record of a test, made as `Input::value("v").key("k").time(5)`; also what comes out.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// `None`: null
    pub key: Option<Vec<u8>>,
    /// `None`: null
    pub value: Option<Vec<u8>>,
    /// event time in ms
    pub time: i64,
    /// changelog operation
    pub op: Op,
    /// headers: key, value or null
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// split of the source
    pub split: u32,
    /// offset in the split
    pub offset: u64,
}

impl Input {
    /// A record with a value, a null key and no event time.
    pub fn value(v: impl AsRef<[u8]>) -> Input {
        Input { value: Some(v.as_ref().to_owned()), ..Input::null() }
    }

    /// A record with a null value.
    pub fn null() -> Input {
        Input { key: None, value: None, time: abi::NO_TIME, op: Op::Insert, headers: Vec::new(), split: 0, offset: 0 }
    }

    /// With a typed row as value: `Input::row(&[Cell::Str("ATL"), Cell::Int(5), Cell::Null])`.
    pub fn row(cells: &[Cell<'_>]) -> Input {
        Input::value(block::row(cells))
    }

    /// With a key.
    pub fn key(mut self, k: impl AsRef<[u8]>) -> Input {
        self.key = Some(k.as_ref().to_owned());
        self
    }

    /// With an event time in ms.
    pub fn time(mut self, time_ms: i64) -> Input {
        self.time = time_ms;
        self
    }

    /// With a header.
    pub fn header(mut self, k: &str, v: Option<&[u8]>) -> Input {
        self.headers.push((k.as_bytes().to_owned(), v.map(|v| v.to_owned())));
        self
    }
}

/// A column of a test row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// null
    Null,
    /// int64 or timestamp
    Int(i64),
    /// float64
    Float(f64),
    /// bool
    Bool(bool),
    /// string
    Str(&'a str),
    /// bytes
    Bytes(&'a [u8]),
}

/// An output.
#[derive(Clone, Debug, PartialEq)]
pub struct Out {
    /// 0: main, n: n-th side output
    pub output: u8,
    /// the record itself; its position is that of the input it came from
    pub record: Input,
}

impl Out {
    /// The value as text; "" for null.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.record.value.as_deref().unwrap_or(&[])).into_owned()
    }
}

/// A record or timer that failed, as the error policy would see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// its key
    pub key: Option<Vec<u8>>,
    /// what the function returned
    pub message: String,
}

/// Runs one function of a module.
pub struct Harness {
    function: usize,
    module: &'static Module,
    ctx: Ctx,
    host: Box<Host>,
    offset: u64,
    watermark: i64,
    processing: i64,
    output_space: usize,
    outputs: Vec<Out>,
    failures: Vec<Failure>,
}

impl Harness {
    /// A fresh instance of the function of that name. Panics if there is none.
    pub fn new(module: &'static Module, function: &str) -> Harness {
        let at = module.functions.iter().position(|f| f.desc.name == function);
        Harness {
            function: at.unwrap_or_else(|| panic!("module {} has no function {function:?}", module.name)),
            module,
            ctx: Ctx::new(),
            host: Box::new(Host::default()),
            offset: 0,
            watermark: abi::MIN_WATERMARK,
            processing: 0,
            output_space: 256 << 10,
            outputs: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Sets the size of the output buffer; small ones make the function yield and spill.
    pub fn output_space(mut self, bytes: usize) -> Harness {
        self.output_space = bytes;
        self
    }

    fn function(&self) -> &'static Function {
        &self.module.functions[self.function]
    }

    /// Hands in one record. Panics if the function is keyed and the key is null.
    pub fn send(&mut self, r: Input) {
        self.send_batch(&[r]);
    }

    /// Hands in records in one call, numbering their offsets from 0 on.
    pub fn send_batch(&mut self, records: &[Input]) {
        let mut records = records.to_vec();
        for r in &mut records {
            assert!(!self.function().desc.keyed || r.key.is_some(), "a keyed function gets no record with a null key");
            r.offset = self.offset;
            self.offset += 1;
        }
        self.call(abi::KIND_RECORDS, &records);
    }

    /// Hands records to a `watermark` function in one call, and gives what it says behind each. A record at
    /// which it fails is among the failures.
    pub fn watermarks(&mut self, records: &[Input]) -> Vec<Option<i64>> {
        let mut records = records.to_vec();
        for (i, r) in records.iter_mut().enumerate() {
            r.offset = i as u64;
        }
        self.call(abi::KIND_WATERMARKS, &records);
        let mut said = alloc::vec![None; records.len()];
        for o in self.outputs() {
            said[o.record.offset as usize] = Some(o.record.time);
        }
        said
    }

    /// Moves the watermark and fires what is due, in rounds of at most one timer per key, by time and
    /// key, until nothing at or before it is left.
    pub fn watermark(&mut self, w: i64) {
        assert!(w > self.watermark, "the watermark {w} does not rise from {}", self.watermark);
        self.watermark = w;
        self.fire(Domain::Event, w);
    }

    /// Ends the input: the last watermark.
    pub fn end(&mut self) {
        self.watermark(abi::MAX_WATERMARK);
    }

    /// Moves the processing time and fires what is due.
    pub fn processing_time(&mut self, now_ms: i64) {
        self.processing = now_ms;
        self.fire(Domain::Processing, now_ms);
    }

    fn fire(&mut self, domain: Domain, until: i64) {
        loop {
            let due = self.host.take_due(domain, until);
            if due.is_empty() {
                return;
            }
            let records: Vec<Input> = due.into_iter().map(|t| Input::value(t.name).key(t.key).time(t.time)).collect();
            let kind = if domain == Domain::Event { abi::KIND_EVENT_TIMERS } else { abi::KIND_PROCESSING_TIMERS };
            self.call(kind, &records);
        }
    }

    fn call(&mut self, kind: u32, records: &[Input]) {
        let desc: &'static FunctionDesc = &self.function().desc;
        let block = block::Block::new(kind, self.function, desc, records, &self.host, self.watermark, self.processing);
        let mut block = self.run(block, records);
        block.write_back(&mut self.host, desc.states);
    }

    /// Runs a block to its end, however often the function yields.
    fn run(&mut self, mut block: block::Block, records: &[Input]) -> block::Block {
        let desc: &'static FunctionDesc = &self.function().desc;
        let mut first = 0;
        self.host.start(block.keys(), desc);
        loop {
            let mut out = block::aligned(self.output_space);
            self.host.resume(first);
            let (module, ctx) = (self.module, &mut self.ctx);
            let (p, o) = (block.ptr(), out.as_mut_ptr() as *mut u8);
            let space = self.output_space;
            let status = host::run_with(&mut self.host, || unsafe { process(module, ctx, p, o, space, first) });
            let (consumed, frames) = block::outputs(&out, &mut self.host);
            self.outputs.extend(frames);
            assert!(consumed > first || records.is_empty(), "the function consumed nothing");
            first = consumed;
            if status == abi::STATUS_DONE {
                break;
            }
        }
        for (i, message) in self.host.take_failures() {
            self.failures.push(Failure { key: records[i].key.clone(), message });
        }
        block
    }

    /// Takes the outputs so far, all of them in order.
    pub fn outputs(&mut self) -> Vec<Out> {
        core::mem::take(&mut self.outputs)
    }

    /// Takes the outputs so far and gives the values as text, those of side outputs with `name: ` before.
    pub fn texts(&mut self) -> Vec<String> {
        let names = self.function().desc.outputs;
        let text = |o: Out| match o.output {
            0 => o.text(),
            n => alloc::format!("{}: {}", names[n as usize - 1], o.text()),
        };
        self.outputs().into_iter().map(text).collect()
    }

    /// Takes the failures so far.
    pub fn failures(&mut self) -> Vec<Failure> {
        core::mem::take(&mut self.failures)
    }

    /// Takes the logged lines so far.
    pub fn logs(&mut self) -> Vec<Log> {
        self.host.take_logs()
    }

    /// The value of a counter.
    pub fn counter(&self, name: &str) -> i64 {
        self.host.counter(name)
    }

    /// Number of live timers.
    pub fn timers(&self) -> usize {
        self.host.timers()
    }

    /// Number of values, list elements and map entries held, over all keys.
    pub fn state_entries(&self) -> usize {
        self.host.entries()
    }
}

/// Encodes a record as a frame.
pub fn encode_frame(r: &Input, output: u8, cause: u32) -> Vec<u8> {
    let mut b = Vec::new();
    block::append_frame(&mut b, r, output, cause);
    b
}

/// Decodes one whole, well-formed frame.
pub fn decode_frame(frame: &[u8]) -> Out {
    block::decode(frame)
}

/// Encodes a typed row.
pub fn encode_row(cells: &[Cell<'_>]) -> Vec<u8> {
    block::row(cells)
}

/// Runs the call block of a vector; gives what the function wrote to the output buffer, and the block
/// as it is afterwards.
pub fn call(module: &'static Module, block: &[u8]) -> (Vec<u8>, Vec<u8>) {
    block::call(module, block)
}
