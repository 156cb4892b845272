//! The context of a callback: current key, state cells, output, time.

use crate::abi;
use crate::emit::{self, Emit};
use crate::error::{Error, Result};
use crate::host;
use crate::record::{read, Domain, Record};
use crate::Output;
use alloc::vec::Vec;
use core::fmt::{self, Write};

const NO_KEY: u32 = u32::MAX;
const CLEARED: u32 = u32::MAX;

/// A prefetched state of the running function.
struct Slot {
    base: u32,
    stride: u32,
    pending_at: u32,  // in Ctx.pending
    pending_len: u32, // CLEARED: cleared
}

/// Everything a callback can reach. Effects belong to the current record: they count once the callback
/// returns `Ok`, and are undone if it returns `Err` or traps.
pub struct Ctx {
    block: *mut u8,
    offsets: *const u8,
    keys: *const u8, // null: not keyed
    kind: u32,
    i: u32,
    frame: *const u8,
    at: *mut u8,  // where the next output frame goes
    end: *mut u8, // of the output space
    frames: u32,
    dirty: u64, // slots with a pending value
    slots: Vec<Slot>,
    pending: Vec<u8>,
    mark: u32,
    broken: u32,  // never other than 0
    out: *mut u8, // first output frame
    pub(crate) spill: Vec<u8>,
    pub(crate) scratch: Vec<u8>, // values of host calls
}

impl Ctx {
    pub(crate) const fn new() -> Ctx {
        Ctx {
            block: core::ptr::null_mut(),
            offsets: core::ptr::null(),
            keys: core::ptr::null(),
            kind: 0,
            i: 0,
            frame: core::ptr::null(),
            at: core::ptr::null_mut(),
            end: core::ptr::null_mut(),
            frames: 0,
            dirty: 0,
            slots: Vec::new(),
            pending: Vec::new(),
            mark: 0,
            broken: 0,
            out: core::ptr::null_mut(),
            spill: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// # Safety
    /// `block` is a call block as the host writes it and `out` has `cap` bytes; both live for the call.
    pub(crate) unsafe fn enter(&mut self, block: *mut u8, out: *mut u8, cap: usize) {
        self.block = block;
        self.offsets = block.add(self.word(abi::BLOCK_OFFSETS) as usize);
        let keys = self.word(abi::BLOCK_KEYS) as usize;
        self.keys = if keys == 0 { core::ptr::null() } else { block.add(keys) };
        self.kind = match self.word(abi::BLOCK_KIND) {
            abi::KIND_WATERMARKS => abi::KIND_RECORDS, // they are records, of a source
            kind => kind,
        };
        self.at = out.add(abi::OUT_HEADER);
        self.end = out.add(cap.max(abi::OUT_HEADER));
        self.out = self.at;
        self.frames = 0;
        self.dirty = 0;
        self.mark = 0;
        let n = self.word(abi::BLOCK_N_STATES) as usize;
        let table = self.word(abi::BLOCK_STATES) as usize;
        self.slots.clear();
        let mut at = 0;
        for s in 0..n {
            let base = self.word(table + 8 * s);
            let stride = self.word(table + 8 * s + 4);
            self.slots.push(Slot { base, stride, pending_at: at, pending_len: 0 });
            at += stride;
        }
        if self.pending.len() < at as usize {
            self.pending.resize(at as usize, 0);
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn word(&self, at: usize) -> u32 {
        read!(u32, self.block, at)
    }

    /// A branch that leaves the loop's head and comes back: such a loop is not rotated.
    #[inline(always)]
    pub(crate) fn anchor(&mut self) {
        // Volatile, so that it is not known to be false.
        if unsafe { core::ptr::read_volatile(&self.broken) } != 0 {
            self.mend();
        }
    }

    #[cold]
    #[inline(never)]
    fn mend(&mut self) {
        self.broken = 0;
    }

    #[inline(always)]
    pub(crate) unsafe fn begin(&mut self, i: u32) {
        self.i = i;
        let at = 4 * i as usize;
        self.frame = self.block.add(read!(u32, self.offsets, at) as usize);
    }

    /// Tells the compiler that the call is of records.
    ///
    /// # Safety
    /// It is.
    #[inline(always)]
    pub(crate) unsafe fn assume_records(&self) {
        if self.kind != abi::KIND_RECORDS {
            core::hint::unreachable_unchecked();
        }
    }

    /// The current key's index. Looked up where it is needed: functions without state never do.
    #[inline(always)]
    fn key(&self) -> u32 {
        if self.keys.is_null() {
            NO_KEY
        } else {
            read!(u32, self.keys, 4 * self.i as usize)
        }
    }

    /// Writes back what the record changed.
    #[inline(always)]
    pub(crate) fn commit(&mut self) {
        while self.dirty != 0 {
            let s = self.dirty.trailing_zeros() as usize;
            self.dirty &= self.dirty - 1;
            let slot = &self.slots[s];
            unsafe {
                let cell = self.block.add(slot.base as usize + self.key() as usize * slot.stride as usize);
                let flags = cell.add(4) as *mut u32;
                if slot.pending_len == CLEARED {
                    flags.write(abi::CELL_CHANGED.to_le());
                    continue;
                }
                let from = self.pending.as_ptr().add(slot.pending_at as usize);
                core::ptr::copy_nonoverlapping(from, cell.add(abi::CELL_HEADER), slot.pending_len as usize);
                (cell as *mut u32).write(slot.pending_len.to_le());
                flags.write((abi::CELL_PRESENT | abi::CELL_CHANGED).to_le());
            }
        }
    }

    /// Drops what the record changed and tells the host.
    #[cold]
    pub(crate) fn fail(&mut self, at: *mut u8, frames: u32, why: &Error) {
        self.at = at;
        self.frames = frames;
        self.dirty = 0;
        host::fail(why.message().as_bytes());
    }

    /// # Safety
    /// Only after `enter` with the same `out`.
    pub(crate) unsafe fn leave(&self, out: *mut u8, consumed: u32) {
        let w = |at: usize, v: u32| (out.add(at) as *mut u32).write_unaligned(v.to_le());
        w(abi::OUT_CONSUMED, consumed);
        w(abi::OUT_BYTES, self.written() as u32);
        w(abi::OUT_FRAMES, self.frames);
        w(abi::OUT_FRAMES + 4, 0);
    }

    // Output space, for OutBuf.

    #[inline(always)]
    pub(crate) fn out_end(&mut self) -> *mut u8 {
        self.at
    }

    #[inline(always)]
    pub(crate) fn space(&self) -> usize {
        self.end as usize - self.at as usize
    }

    #[inline(always)]
    pub(crate) fn written(&self) -> usize {
        self.at as usize - self.out as usize
    }

    #[inline(always)]
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, n: usize) {
        self.at = unsafe { self.at.add(n) };
        self.frames += 1;
    }

    #[inline(always)]
    pub(crate) fn current<'a>(&self) -> Record<'a> {
        // The block lives for the whole call, and a context is only lent to callbacks.
        unsafe {
            if self.frame.is_null() {
                core::hint::unreachable_unchecked(); // else each slice of it is tested for null
            }
            Record::at(self.frame)
        }
    }

    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        self.i
    }

    #[inline(always)]
    pub(crate) fn output_time(&self, rec: &Record<'_>) -> i64 {
        if self.kind == abi::KIND_PROCESSING_TIMERS {
            abi::NO_TIME
        } else {
            rec.time()
        }
    }

    // Prefetched cells, for Value.

    #[inline(always)]
    pub(crate) fn cell(&self, s: usize) -> Result<Option<&[u8]>> {
        let slot = match self.slots.get(s) {
            Some(slot) if self.key() != NO_KEY => slot,
            _ => return Err(self.no_cell()),
        };
        if self.dirty & (1 << s) != 0 {
            if slot.pending_len == CLEARED {
                return Ok(None);
            }
            let at = slot.pending_at as usize;
            return Ok(Some(&self.pending[at..at + slot.pending_len as usize]));
        }
        unsafe {
            let cell = self.block.add(slot.base as usize + self.key() as usize * slot.stride as usize);
            if read!(u32, cell, 4) & abi::CELL_PRESENT == 0 {
                return Ok(None);
            }
            let len = read!(u32, cell, 0) as usize;
            Ok(Some(core::slice::from_raw_parts(cell.add(abi::CELL_HEADER), len)))
        }
    }

    #[inline(always)]
    pub(crate) fn set_cell(&mut self, s: usize, v: &[u8]) -> Result<()> {
        let key = self.key();
        let slot = match self.slots.get_mut(s) {
            Some(slot) if key != NO_KEY => slot,
            _ => return Err(self.no_cell()),
        };
        if v.len() + abi::CELL_HEADER > slot.stride as usize {
            return Err(too_long(v.len(), slot.stride as usize - abi::CELL_HEADER));
        }
        let at = slot.pending_at as usize;
        slot.pending_len = v.len() as u32;
        let to = &mut self.pending[at..at + v.len()];
        unsafe { emit::append_short(to.as_mut_ptr(), v) };
        self.dirty |= 1 << s;
        Ok(())
    }

    // Accumulators, for aggregates: cells of the one state.

    /// Which accumulator the step is about.
    #[inline(always)]
    pub(crate) fn step_key(&self) -> u32 {
        read!(u32, self.keys, 4 * self.i as usize)
    }

    /// An accumulator's bytes in the block; `None` if it is empty. They change with `set_accumulator`.
    ///
    /// # Safety
    /// In a call of steps, which `key` is from.
    #[inline(always)]
    pub(crate) unsafe fn accumulator<'a>(&self, key: u32) -> Option<&'a [u8]> {
        let slot = &*self.slots.as_ptr(); // a block of steps has one state
        let cell = self.block.add(slot.base as usize + key as usize * slot.stride as usize);
        if read!(u32, cell, 4) & abi::CELL_PRESENT == 0 {
            return None;
        }
        let len = read!(u32, cell, 0) as usize;
        Some(core::slice::from_raw_parts(cell.add(abi::CELL_HEADER), len))
    }

    /// Sets an accumulator. Errors: longer than declared.
    ///
    /// # Safety
    /// As `accumulator`.
    #[inline(always)]
    pub(crate) unsafe fn set_accumulator(&mut self, key: u32, v: &[u8]) -> Result<()> {
        let slot = &*self.slots.as_ptr();
        if v.len() + abi::CELL_HEADER > slot.stride as usize {
            return Err(too_long(v.len(), slot.stride as usize - abi::CELL_HEADER));
        }
        let cell = self.block.add(slot.base as usize + key as usize * slot.stride as usize);
        emit::append_short(cell.add(abi::CELL_HEADER), v);
        (cell as *mut u32).write((v.len() as u32).to_le());
        (cell.add(4) as *mut u32).write((abi::CELL_PRESENT | abi::CELL_CHANGED).to_le());
        Ok(())
    }

    pub(crate) fn clear_cell(&mut self, s: usize) -> Result<()> {
        let key = self.key();
        match self.slots.get_mut(s) {
            Some(slot) if key != NO_KEY => slot.pending_len = CLEARED,
            _ => return Err(self.no_cell()),
        }
        self.dirty |= 1 << s;
        Ok(())
    }

    #[cold]
    fn no_cell(&self) -> Error {
        if self.key() == NO_KEY {
            return Error::msg("state without a current key: the function is not keyed");
        }
        Error::msg("state of another function of the module")
    }

    // What users call.

    /// Starts an output: `ctx.emit().key(k).value(v)?`.
    #[inline(always)]
    pub fn emit(&mut self) -> Emit<'_> {
        Emit::new(self)
    }

    /// Copies a record to the main output as it is.
    #[inline(always)]
    pub fn forward(&mut self, rec: &Record<'_>) -> Result<()> {
        emit::forward(self, rec, 0)
    }

    /// Copies a record to a side output as it is.
    pub fn forward_to(&mut self, output: Output, rec: &Record<'_>) -> Result<()> {
        emit::forward(self, rec, output.0)
    }

    /// The watermark at the cursor, ms: no further record at or before it is expected.
    pub fn watermark(&mut self) -> i64 {
        unsafe {
            let n = self.word(abi::BLOCK_N_MARKS);
            let table = self.word(abi::BLOCK_MARKS) as usize;
            while self.mark < n && self.word(table + 16 * self.mark as usize) <= self.i {
                self.mark += 1;
            }
            if self.mark == 0 {
                return read!(i64, self.block, abi::BLOCK_WATERMARK);
            }
            read!(i64, self.block, table + 16 * (self.mark as usize - 1) + 8)
        }
    }

    /// Processing time in ms, the same for all records of a call. Not the same in a replay.
    pub fn processing_time(&self) -> i64 {
        read!(i64, self.block, abi::BLOCK_PROCESSING)
    }

    /// Sets an event-time timer for the current key. Setting it again changes nothing.
    pub fn set_timer(&mut self, name: &str, at_ms: i64) -> Result<()> {
        self.set_timer_in(Domain::Event, name, at_ms)
    }

    /// Deletes an event-time timer of the current key; fine if there is none.
    pub fn delete_timer(&mut self, name: &str, at_ms: i64) -> Result<()> {
        self.delete_timer_in(Domain::Event, name, at_ms)
    }

    /// As `set_timer`, on either clock. Errors: not keyed, too many timers, too long a name.
    pub fn set_timer_in(&mut self, domain: Domain, name: &str, at_ms: i64) -> Result<()> {
        match host::timer_set(domain as u32, name.as_bytes(), at_ms) {
            s if s < 0 => Err(Error::status("timer_set", s)),
            _ => Ok(()),
        }
    }

    /// As `delete_timer`, on either clock.
    pub fn delete_timer_in(&mut self, domain: Domain, name: &str, at_ms: i64) -> Result<()> {
        match host::timer_delete(domain as u32, name.as_bytes(), at_ms) {
            s if s < 0 && s != abi::STATUS_ABSENT => Err(Error::status("timer_delete", s)),
            _ => Ok(()),
        }
    }

    /// Writes a line to the operator's log: `ctx.log(Level::Info, format_args!("n = {n}"))`. Longer
    /// lines are cut at 1 KiB.
    pub fn log(&mut self, level: Level, text: fmt::Arguments<'_>) {
        log(level, text);
    }

    /// Adds to a counter of the operator.
    pub fn count(&mut self, name: &str, add: i64) {
        host::metric(name.as_bytes(), add);
    }

    /// Random bytes from the record's (or timer's) seed: the same in a replay.
    pub fn random(&mut self, buf: &mut [u8]) {
        host::random(buf);
    }

    /// A random number from the record's (or timer's) seed: the same in a replay.
    pub fn random_u64(&mut self) -> u64 {
        let mut b = [0; 8];
        host::random(&mut b);
        u64::from_le_bytes(b)
    }
}

#[cold]
fn too_long(len: usize, max: usize) -> Error {
    Error::new(alloc::format!("state value of {len} bytes, at most {max} are declared"))
}

/// Log levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// For the author.
    Debug = abi::LOG_DEBUG,
    /// Worth knowing.
    Info = abi::LOG_INFO,
    /// Odd.
    Warn = abi::LOG_WARN,
    /// Wrong.
    Error = abi::LOG_ERROR,
}

/// Writes a line to the operator's log without allocating.
pub(crate) fn log(level: Level, text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; abi::MAX_LOG_LINE_BYTES], len: 0 };
    let _ = line.write_fmt(text);
    host::log(level as u32, &line.bytes[..line.len]);
}

struct Line {
    bytes: [u8; abi::MAX_LOG_LINE_BYTES],
    len: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}
