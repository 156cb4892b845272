//! The host calls of the harness.

use crate::abi;
use crate::module::{FunctionDesc, StateDesc, StateKind};
use crate::record::Domain;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use std::thread_local;

/// A logged line: level and text.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// one of `abi::LOG_*`
    pub level: u32,
    /// the line
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerEntry {
    pub(super) time: i64,
    pub(super) key: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) domain: Domain,
}

type Entry = (usize, Vec<u8>, Vec<u8>); // state, key, user key or element number

enum Undo {
    Entry(Entry, Option<Vec<u8>>),
    Timer(TimerEntry, bool), // was there
}

/// The in-memory host behind a harness.
#[derive(Default)]
pub struct Host {
    entries: BTreeMap<Entry, Vec<u8>>,
    timers: BTreeSet<TimerEntry>,
    undo: Vec<Undo>,
    emitted: Vec<(u32, usize, Vec<u8>)>, // record, place, frame
    logs: Vec<Log>,
    counters: BTreeMap<Vec<u8>, i64>,
    added: Vec<(Vec<u8>, i64)>, // by the current record
    logged: usize,              // logs before the current record
    failures: Vec<(usize, String)>,
    iters: Vec<Option<Vec<(Vec<u8>, Vec<u8>)>>>,
    keys: Vec<Option<Vec<u8>>>,
    states: &'static [StateDesc],
    timer_domains: &'static [&'static str],
    next: u32,
    cursor: Option<usize>,
    draws: u64,
}

thread_local! {
    static HOST: RefCell<Option<Box<Host>>> = RefCell::new(None);
}

/// Runs `f` with `host` as what host calls reach.
pub(super) fn run_with<R>(host: &mut Box<Host>, f: impl FnOnce() -> R) -> R {
    HOST.with(|h| *h.borrow_mut() = Some(core::mem::take(host)));
    let r = f();
    *host = HOST.with(|h| h.borrow_mut().take()).expect("nobody else takes it");
    r
}

pub(crate) fn with_host<R>(f: impl FnOnce(&mut Host) -> R) -> R {
    HOST.with(|h| f(h.borrow_mut().as_mut().expect("host calls work inside a Harness only")))
}

impl Host {
    pub(super) fn start(&mut self, keys: Vec<Option<Vec<u8>>>, desc: &'static FunctionDesc) {
        self.keys = keys;
        self.states = desc.states;
        self.timer_domains = desc.timers;
    }

    pub(super) fn resume(&mut self, first: u32) {
        self.next = first;
        self.cursor = None;
    }

    pub(super) fn take_due(&mut self, domain: Domain, until: i64) -> Vec<TimerEntry> {
        let mut due: Vec<TimerEntry> = Vec::new();
        for t in self.timers.iter().filter(|t| t.domain == domain && t.time <= until) {
            if !due.iter().any(|d| d.key == t.key) {
                due.push(t.clone());
            }
        }
        for t in &due {
            self.timers.remove(t);
        }
        due
    }

    pub(super) fn value(&self, state: usize, key: &[u8]) -> Option<&Vec<u8>> {
        self.entries.get(&(state, key.to_owned(), Vec::new()))
    }

    pub(super) fn set_value(&mut self, state: usize, key: &[u8], v: Option<Vec<u8>>) {
        let at = (state, key.to_owned(), Vec::new());
        match v {
            Some(v) => self.entries.insert(at, v),
            None => self.entries.remove(&at),
        };
    }

    pub(super) fn take_emitted(&mut self) -> Vec<(u32, usize, Vec<u8>)> {
        core::mem::take(&mut self.emitted)
    }

    pub(super) fn take_failures(&mut self) -> Vec<(usize, String)> {
        core::mem::take(&mut self.failures)
    }

    pub(super) fn take_logs(&mut self) -> Vec<Log> {
        core::mem::take(&mut self.logs)
    }

    pub(super) fn counter(&self, name: &str) -> i64 {
        self.counters.get(name.as_bytes()).copied().unwrap_or(0)
    }

    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    fn key(&self) -> Option<Vec<u8>> {
        self.keys.get(self.cursor?)?.clone()
    }

    fn reach(&self, state: u32, kinds: &[StateKind]) -> Result<Vec<u8>, i32> {
        match self.states.get(state as usize) {
            Some(d) if kinds.contains(&d.kind) && !d.prefetched() => self.key().ok_or(abi::STATUS_NO_KEY),
            _ => Err(abi::STATUS_BAD_ARG),
        }
    }

    fn change(&mut self, at: Entry, v: Option<Vec<u8>>) {
        let old = match v {
            Some(v) => self.entries.insert(at.clone(), v),
            None => self.entries.remove(&at),
        };
        self.undo.push(Undo::Entry(at, old));
    }

    fn of_key(&self, state: u32, key: &[u8]) -> Vec<Entry> {
        let mine = |e: &&Entry| e.0 == state as usize && e.1 == key;
        self.entries.keys().filter(mine).cloned().collect()
    }

    pub(crate) fn next(&mut self, i: u32) -> u32 {
        assert_eq!(i, self.next, "next is called for each record in order");
        self.next += 1;
        self.cursor = Some(i as usize);
        self.undo.clear();
        self.added.clear();
        self.logged = self.logs.len();
        self.iters.clear();
        self.draws = 0;
        0
    }

    pub(crate) fn fail(&mut self, msg: &[u8]) {
        let i = self.cursor.expect("fail is called for a record");
        while let Some(u) = self.undo.pop() {
            match u {
                Undo::Entry(at, Some(v)) => drop(self.entries.insert(at, v)),
                Undo::Entry(at, None) => drop(self.entries.remove(&at)),
                Undo::Timer(t, true) => drop(self.timers.insert(t)),
                Undo::Timer(t, false) => drop(self.timers.remove(&t)),
            }
        }
        for (name, add) in core::mem::take(&mut self.added) {
            *self.counters.entry(name).or_insert(0) -= add;
        }
        self.logs.truncate(self.logged);
        self.emitted.retain(|e| e.0 != i as u32);
        self.failures.push((i, String::from_utf8_lossy(msg).into_owned()));
    }

    pub(crate) fn get(&mut self, state: u32, ukey: &[u8], buf: &mut [u8]) -> i64 {
        let key = match self.reach(state, &[StateKind::Value, StateKind::Map]) {
            Ok(k) => k,
            Err(s) => return s as i64,
        };
        match self.entries.get(&(state as usize, key, ukey.to_owned())) {
            None => abi::STATUS_ABSENT as i64,
            Some(v) => {
                if let Some(b) = buf.get_mut(..v.len()) {
                    b.copy_from_slice(v);
                }
                v.len() as i64
            }
        }
    }

    pub(crate) fn put(&mut self, state: u32, ukey: &[u8], val: &[u8]) -> i32 {
        if val.len() > abi::MAX_STATE_VALUE_BYTES {
            return abi::STATUS_LIMIT;
        }
        match self.reach(state, &[StateKind::Value, StateKind::Map]) {
            Ok(key) => self.change((state as usize, key, ukey.to_owned()), Some(val.to_owned())),
            Err(s) => return s,
        }
        abi::STATUS_OK
    }

    pub(crate) fn delete(&mut self, state: u32, ukey: &[u8]) -> i32 {
        match self.reach(state, &[StateKind::Value, StateKind::Map]) {
            Ok(key) => self.change((state as usize, key, ukey.to_owned()), None),
            Err(s) => return s,
        }
        abi::STATUS_OK
    }

    pub(crate) fn clear(&mut self, state: u32) -> i32 {
        match self.reach(state, &[StateKind::Value, StateKind::List, StateKind::Map]) {
            Ok(key) => self.of_key(state, &key).into_iter().for_each(|e| self.change(e, None)),
            Err(s) => return s,
        }
        abi::STATUS_OK
    }

    pub(crate) fn append(&mut self, state: u32, val: &[u8]) -> i32 {
        match self.reach(state, &[StateKind::List]) {
            Ok(key) => {
                let n = self.of_key(state, &key).len() as u64;
                self.change((state as usize, key, n.to_be_bytes().to_vec()), Some(val.to_owned()));
            }
            Err(s) => return s,
        }
        abi::STATUS_OK
    }

    pub(crate) fn scan(&mut self, state: u32, from: &[u8]) -> i32 {
        let key = match self.reach(state, &[StateKind::List, StateKind::Map]) {
            Ok(k) => k,
            Err(s) => return s,
        };
        let mut left: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for e in self.of_key(state, &key) {
            if e.2.as_slice() >= from {
                let v = self.entries[&e].clone();
                left.push((e.2, v));
            }
        }
        left.reverse();
        self.iters.push(Some(left));
        self.iters.len() as i32 - 1
    }

    pub(crate) fn scan_next(&mut self, iter: u32, buf: &mut [u8]) -> i32 {
        let left = match self.iters.get_mut(iter as usize) {
            Some(Some(left)) => left,
            _ => return abi::STATUS_BAD_ARG,
        };
        let mut at = 0;
        while let Some((k, v)) = left.last() {
            let size = abi::SCAN_ENTRY_HEADER + k.len() + v.len();
            let end = at + size;
            if end > buf.len() {
                if at > 0 {
                    break;
                }
                buf[..4].copy_from_slice(&(size as u32).to_le_bytes());
                return abi::STATUS_TOO_SMALL;
            }
            buf[at..at + 4].copy_from_slice(&(k.len() as u32).to_le_bytes());
            buf[at + 4..at + 8].copy_from_slice(&(v.len() as u32).to_le_bytes());
            buf[at + 8..at + 8 + k.len()].copy_from_slice(k);
            buf[at + 8 + k.len()..end].copy_from_slice(v);
            left.pop();
            at = end;
        }
        at as i32
    }

    pub(crate) fn scan_close(&mut self, iter: u32) -> i32 {
        match self.iters.get_mut(iter as usize).and_then(|i| i.take()) {
            Some(_) => abi::STATUS_OK,
            None => abi::STATUS_BAD_ARG,
        }
    }

    fn timer(&mut self, domain: u32, name: &[u8], time: i64, there: bool) -> i32 {
        let domain = match domain {
            abi::DOMAIN_EVENT if self.timer_domains.contains(&"event") => Domain::Event,
            abi::DOMAIN_PROCESSING if self.timer_domains.contains(&"processing") => Domain::Processing,
            _ => return abi::STATUS_BAD_ARG,
        };
        let key = match self.key() {
            Some(k) => k,
            None => return abi::STATUS_NO_KEY,
        };
        let t = TimerEntry { time, key, name: name.to_owned(), domain };
        let was = if there { !self.timers.insert(t.clone()) } else { self.timers.remove(&t) };
        self.undo.push(Undo::Timer(t, was));
        abi::STATUS_OK
    }

    pub(crate) fn timer_set(&mut self, domain: u32, name: &[u8], time: i64) -> i32 {
        self.timer(domain, name, time, true)
    }

    pub(crate) fn timer_delete(&mut self, domain: u32, name: &[u8], time: i64) -> i32 {
        self.timer(domain, name, time, false)
    }

    pub(crate) fn emit(&mut self, frame: &[u8], at: usize) -> i32 {
        if frame.len() > abi::MAX_RECORD_BYTES {
            return abi::STATUS_LIMIT;
        }
        let i = self.cursor.expect("emit is called for a record") as u32;
        self.emitted.push((i, at, frame.to_owned()));
        abi::STATUS_OK
    }

    pub(crate) fn log(&mut self, level: u32, msg: &[u8]) {
        self.logs.push(Log { level, text: String::from_utf8_lossy(msg).into_owned() });
    }

    pub(crate) fn metric(&mut self, name: &[u8], add: i64) -> i32 {
        self.added.push((name.to_owned(), add));
        *self.counters.entry(name.to_owned()).or_insert(0) += add;
        abi::STATUS_OK
    }

    /// A fixed sequence per record (splitmix64), so that tests repeat.
    pub(crate) fn random(&mut self, buf: &mut [u8]) -> i32 {
        for b in buf {
            self.draws += 1;
            let mut z = (self.cursor.unwrap_or(0) as u64).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ self.draws;
            z = z.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *b = (z ^ (z >> 31)) as u8;
        }
        abi::STATUS_OK
    }
}
