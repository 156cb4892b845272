//! Call blocks and outputs as bytes.

use super::host::run_with;
use super::{Cell, Host, Input, Out};
use crate::abi;
use crate::ctx::Ctx;
use crate::module::{process, FunctionDesc, Module, StateDesc};
use crate::record::Record;
use crate::row::{bitmap_bytes, fixed_bytes};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Memory of at least `n` bytes that starts at a multiple of 8.
pub(super) fn aligned(n: usize) -> Vec<u64> {
    vec![0u64; (n + 7) / 8]
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let mut memory = aligned(bytes.len());
    for (m, c) in memory.iter_mut().zip(bytes.chunks(8)) {
        let mut b = [0; 8];
        b[..c.len()].copy_from_slice(c);
        *m = u64::from_ne_bytes(b);
    }
    memory
}

/// Runs a whole block; host calls other than `next` have no state to work on.
pub(super) fn call(module: &'static Module, block: &[u8]) -> (Vec<u8>, Vec<u8>) {
    const SPACE: usize = 64 << 10;
    let (mut memory, mut out) = (words(block), aligned(SPACE));
    let (p, o) = (memory.as_mut_ptr() as *mut u8, out.as_mut_ptr() as *mut u8);
    let mut host = Box::new(Host::default());
    let mut ctx = Ctx::new();
    run_with(&mut host, || unsafe { process(module, &mut ctx, p, o, SPACE, 0) });
    let out = as_bytes(&out);
    let end = abi::OUT_HEADER + word(out, abi::OUT_BYTES) as usize;
    (out[..end].to_owned(), as_bytes(&memory)[..block.len()].to_owned())
}

pub(super) struct Block {
    memory: Vec<u64>,
    keys: Vec<Option<Vec<u8>>>, // of each record
    distinct: Vec<Vec<u8>>,
    cells: Vec<(usize, usize, usize)>, // state, base, stride
}

struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self) -> u32 {
        while self.0.len() % 8 != 0 {
            self.0.push(0);
        }
        self.0.len() as u32
    }

    fn word(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn patch(&mut self, at: usize, v: u32) {
        self.0[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }

    fn patch_long(&mut self, at: usize, v: i64) {
        self.0[at..at + 8].copy_from_slice(&v.to_le_bytes());
    }
}

impl Block {
    pub(super) fn new(
        kind: u32,
        function: usize,
        desc: &FunctionDesc,
        records: &[Input],
        host: &Host,
        watermark: i64,
        processing: i64,
    ) -> Block {
        let mut w = Writer(vec![0; abi::BLOCK_HEADER]);
        let n = records.len();
        let mut distinct: Vec<Vec<u8>> = Vec::new();
        w.patch(abi::BLOCK_KIND, kind);
        w.patch(abi::BLOCK_N, n as u32);
        w.patch(abi::BLOCK_FUNCTION, function as u32);
        w.patch_long(abi::BLOCK_WATERMARK, watermark);
        w.patch_long(abi::BLOCK_PROCESSING, processing);
        let offsets = w.align() as usize;
        w.patch(abi::BLOCK_OFFSETS, offsets as u32);
        w.0.resize(offsets + 4 * n, 0);
        if desc.keyed {
            let at = w.align();
            w.patch(abi::BLOCK_KEYS, at);
            for r in records {
                let key = r.key.clone().unwrap_or_default();
                let i = distinct.iter().position(|d| *d == key).unwrap_or_else(|| {
                    distinct.push(key);
                    distinct.len() - 1
                });
                w.word(i as u32);
            }
        }
        w.patch(abi::BLOCK_N_KEYS, distinct.len() as u32);
        let cells = write_cells(&mut w, desc, &distinct, host);
        for (i, r) in records.iter().enumerate() {
            let at = w.align();
            w.patch(offsets + 4 * i, at);
            append_frame(&mut w.0, r, 0, 0);
        }
        let memory = words(&w.0);
        let keys = records.iter().map(|r| if desc.keyed { r.key.clone() } else { None }).collect();
        Block { memory, keys, distinct, cells }
    }

    /// A block of one kind of step, all about the first of these accumulators.
    pub(super) fn steps(
        function: usize,
        desc: &FunctionDesc,
        step: u8,
        records: &[Input],
        accumulators: &[Option<&[u8]>],
    ) -> Block {
        let mut w = Writer(vec![0; abi::BLOCK_HEADER]);
        let n = records.len();
        w.patch(abi::BLOCK_KIND, abi::KIND_STEPS);
        w.patch(abi::BLOCK_N, n as u32);
        w.patch(abi::BLOCK_FUNCTION, function as u32);
        w.patch_long(abi::BLOCK_WATERMARK, abi::MIN_WATERMARK);
        w.patch(abi::BLOCK_N_KEYS, accumulators.len() as u32);
        let offsets = w.align() as usize;
        w.patch(abi::BLOCK_OFFSETS, offsets as u32);
        w.0.resize(offsets + 4 * n, 0);
        let keys = w.align();
        w.patch(abi::BLOCK_KEYS, keys);
        w.0.resize(keys as usize + 4 * n, 0);
        let stride = abi::CELL_HEADER + ((desc.states[0].max_bytes + 7) & !7);
        let table = w.align() as usize;
        w.patch(abi::BLOCK_N_STATES, 1);
        w.patch(abi::BLOCK_STATES, table as u32);
        let base = table + 8;
        w.word(base as u32);
        w.word(stride as u32);
        for (i, a) in accumulators.iter().enumerate() {
            let at = base + i * stride;
            w.0.resize(at + stride, 0xee);
            let v = a.unwrap_or(&[]);
            w.patch(at, v.len() as u32);
            w.patch(at + 4, if a.is_some() { abi::CELL_PRESENT } else { 0 });
            w.0[at + 8..at + 8 + v.len()].copy_from_slice(v);
        }
        for (i, r) in records.iter().enumerate() {
            let at = w.align();
            w.patch(offsets + 4 * i, at);
            append_frame(&mut w.0, r, step, 0);
        }
        let cells = vec![(0, base, stride)];
        Block { memory: words(&w.0), keys: vec![None; n], distinct: Vec::new(), cells }
    }

    /// An accumulator as it is now.
    pub(super) fn accumulator(&self, i: usize, max_bytes: usize) -> Option<Vec<u8>> {
        let b = as_bytes(&self.memory);
        let (_, base, stride) = self.cells[0];
        let at = base + i * stride;
        let len = word(b, at) as usize;
        if word(b, at + 4) & abi::CELL_PRESENT == 0 {
            return None;
        }
        assert!(len <= max_bytes, "an accumulator of {len} bytes");
        Some(b[at + abi::CELL_HEADER..][..len].to_owned())
    }

    pub(super) fn keys(&self) -> Vec<Option<Vec<u8>>> {
        self.keys.clone()
    }

    pub(super) fn ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr() as *mut u8
    }

    /// Takes changed cells over into the host's state.
    pub(super) fn write_back(&mut self, host: &mut Host, states: &[StateDesc]) {
        let b = as_bytes(&self.memory);
        for &(state, base, stride) in &self.cells {
            for (k, key) in self.distinct.iter().enumerate() {
                let at = base + k * stride;
                let (len, flags) = (word(b, at) as usize, word(b, at + 4));
                if flags & abi::CELL_CHANGED == 0 {
                    continue;
                }
                assert!(len <= states[state].max_bytes, "state {} holds {len} bytes", states[state].name);
                let v = &b[at + abi::CELL_HEADER..at + abi::CELL_HEADER + len];
                let present = flags & abi::CELL_PRESENT != 0;
                host.set_value(state, key, if present { Some(v.to_owned()) } else { None });
            }
        }
    }
}

fn write_cells(w: &mut Writer, desc: &FunctionDesc, distinct: &[Vec<u8>], host: &Host) -> Vec<(usize, usize, usize)> {
    let mut cells = Vec::new();
    if !desc.keyed {
        return cells;
    }
    let prefetched: Vec<usize> = (0..desc.states.len()).filter(|&s| desc.states[s].prefetched()).collect();
    let table = w.align() as usize;
    w.patch(abi::BLOCK_N_STATES, prefetched.len() as u32);
    w.patch(abi::BLOCK_STATES, table as u32);
    w.0.resize(table + 8 * prefetched.len(), 0);
    for (slot, &state) in prefetched.iter().enumerate() {
        let stride = abi::CELL_HEADER + ((desc.states[state].max_bytes + 7) & !7);
        let base = w.align() as usize;
        w.patch(table + 8 * slot, base as u32);
        w.patch(table + 8 * slot + 4, stride as u32);
        cells.push((state, base, stride));
        for (k, key) in distinct.iter().enumerate() {
            let at = base + k * stride;
            w.0.resize(at + stride, 0xee); // what is not valid must not matter
            let v = host.value(state, key);
            w.patch(at, v.map_or(0, |v| v.len() as u32));
            w.patch(at + 4, if v.is_some() { abi::CELL_PRESENT } else { 0 });
            if let Some(v) = v {
                w.0[at + 8..at + 8 + v.len()].copy_from_slice(v);
            }
        }
    }
    cells
}

/// Appends a record as a frame.
pub(super) fn append_frame(dst: &mut Vec<u8>, r: &Input, output: u8, cause: u32) {
    let start = dst.len();
    let mut flags = 0;
    let mut h = [0u8; abi::FRAME_HEADER];
    h[abi::FRAME_OP] = r.op as u8;
    h[abi::FRAME_OUTPUT] = output;
    h[abi::FRAME_TIME..abi::FRAME_TIME + 8].copy_from_slice(&r.time.to_le_bytes());
    h[abi::FRAME_SPLIT..abi::FRAME_SPLIT + 4].copy_from_slice(&r.split.to_le_bytes());
    h[abi::FRAME_CAUSE..abi::FRAME_CAUSE + 4].copy_from_slice(&cause.to_le_bytes());
    h[abi::FRAME_OFFSET..abi::FRAME_OFFSET + 8].copy_from_slice(&r.offset.to_le_bytes());
    dst.extend_from_slice(&h);
    if let Some(k) = &r.key {
        flags |= abi::FLAG_KEY;
        dst.extend_from_slice(k);
        put(dst, start + abi::FRAME_KEY_LEN, k.len());
    }
    if let Some(v) = &r.value {
        flags |= abi::FLAG_VALUE;
        dst.extend_from_slice(v);
        put(dst, start + abi::FRAME_VALUE_LEN, v.len());
    }
    if !r.headers.is_empty() {
        flags |= abi::FLAG_HEADERS;
        dst.extend_from_slice(&(r.headers.len() as u32).to_le_bytes());
        for (k, v) in &r.headers {
            dst.extend_from_slice(&(k.len() as u32).to_le_bytes());
            dst.extend_from_slice(&v.as_ref().map_or(abi::NULL_LEN, |v| v.len() as u32).to_le_bytes());
            dst.extend_from_slice(k);
            dst.extend_from_slice(v.as_deref().unwrap_or(&[]));
        }
    }
    dst[start + abi::FRAME_FLAGS] = flags;
    let size = dst.len() - start;
    put(dst, start + abi::FRAME_SIZE, size);
}

fn put(b: &mut [u8], at: usize, v: usize) {
    b[at..at + 4].copy_from_slice(&(v as u32).to_le_bytes());
}

fn word(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn as_bytes(m: &[u64]) -> &[u8] {
    unsafe { core::slice::from_raw_parts(m.as_ptr() as *const u8, 8 * m.len()) }
}

/// The outputs of a call in order, with what went out by `emit` put in at its place; and `consumed`.
pub(super) fn outputs(out: &[u64], host: &mut Host) -> (u32, Vec<Out>) {
    let b = as_bytes(out);
    let consumed = word(b, abi::OUT_CONSUMED);
    let frames = &b[abi::OUT_HEADER..][..word(b, abi::OUT_BYTES) as usize];
    let mut emitted = host.take_emitted().into_iter().peekable();
    let mut outs = Vec::new();
    let (mut at, mut count) = (0, 0);
    loop {
        while let Some((_, _, f)) = emitted.next_if(|e| e.1 <= at) {
            outs.push(decode(&f));
        }
        if at == frames.len() {
            break;
        }
        let size = word(frames, at) as usize;
        outs.push(decode(&frames[at..at + size]));
        at += size;
        count += 1;
    }
    assert_eq!(count, word(b, abi::OUT_FRAMES), "number of output frames");
    assert!(emitted.next().is_none(), "emit beyond the end of the outputs");
    (consumed, outs)
}

/// Decodes one whole frame.
pub(super) fn decode(f: &[u8]) -> Out {
    assert_eq!(word(f, abi::FRAME_SIZE) as usize, f.len(), "size of an output frame");
    let r = unsafe { Record::at(f.as_ptr()) };
    let (split, offset) = r.position();
    let record = Input {
        key: r.key().map(|k| k.to_owned()),
        value: r.value().map(|v| v.to_owned()),
        time: r.time(),
        op: r.op(),
        headers: r.headers().map(|(k, v)| (k.to_owned(), v.map(|v| v.to_owned()))).collect(),
        split,
        offset,
    };
    Out { output: r.input(), record }
}

/// Encodes a row.
pub(super) fn row(cells: &[Cell<'_>]) -> Vec<u8> {
    let n = cells.len();
    let mut b = vec![0; fixed_bytes(n)];
    for (i, c) in cells.iter().enumerate() {
        let slot = match *c {
            Cell::Null => {
                b[i / 8] |= 1 << (i % 8);
                0
            }
            Cell::Int(v) => v as u64,
            Cell::Float(v) => v.to_bits(),
            Cell::Bool(v) => v as u64,
            Cell::Str(_) | Cell::Bytes(_) => {
                let s = match *c {
                    Cell::Str(s) => s.as_bytes(),
                    Cell::Bytes(s) => s,
                    _ => &[],
                };
                let at = b.len() as u64;
                b.extend_from_slice(s);
                at | (s.len() as u64) << 32
            }
        };
        let at = bitmap_bytes(n) + 8 * i;
        b[at..at + 8].copy_from_slice(&slot.to_le_bytes());
    }
    b
}
