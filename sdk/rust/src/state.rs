//! Handles of keyed state. [`module!`](crate::module) makes them; each works on the current key.
//!
//! Scope: the key of the current record or timer. Visibility: a key's later records see what earlier
//! ones wrote. Durability: a write survives once a checkpoint whose barrier came after it completes.
//! A write of a record that fails is undone.

use crate::abi;
use crate::codec::{Codec, MapKey};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::host;
use crate::module::{StateDesc, StateKind};
use crate::schema::Schema;
use core::marker::PhantomData;

/// One value per key. With a bound of at most 4 KiB it comes with the batch and costs no host call.
pub struct Value<T> {
    index: u32,
    slot: usize, // among the prefetched ones; NOT_PREFETCHED
    of: PhantomData<fn() -> T>,
}

const NOT_PREFETCHED: usize = usize::MAX;

macro_rules! handle_traits {
    ($name:ident<$($g:ident $(: ?$q:ident)?),+>) => {
        impl<$($g $(: ?$q)?),+> Clone for $name<$($g),+> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($g $(: ?$q)?),+> Copy for $name<$($g),+> {}
    };
}
handle_traits!(Value<T>);
handle_traits!(List<T>);
handle_traits!(Map<K: ?Sized, V>);

impl<T: Codec> Value<T> {
    #[doc(hidden)]
    pub const KIND: StateKind = StateKind::Value;
    #[doc(hidden)]
    pub const MAX_BYTES: usize = T::MAX_BYTES;
    #[doc(hidden)]
    pub const SCHEMA: Schema = T::SCHEMA;
    #[doc(hidden)]
    pub const KEY_SCHEMA: Schema = Schema::Unknown;

    #[doc(hidden)]
    pub const fn at(index: usize, states: &[StateDesc]) -> Self {
        let mut slot = 0;
        let mut i = 0;
        while i < index {
            slot += states[i].prefetched() as usize;
            i += 1;
        }
        assert!(slot < 64, "a function has at most 64 prefetched states");
        if !states[index].prefetched() {
            slot = NOT_PREFETCHED;
        }
        Value { index: index as u32, slot, of: PhantomData }
    }

    /// The value; `None` if it was never set or was cleared. Errors: not keyed, bytes that are no `T`.
    #[inline(always)]
    pub fn get(&self, ctx: &mut Ctx) -> Result<Option<T>> {
        match self.bytes(ctx)? {
            None => Ok(None),
            Some(b) => match T::decode(b) {
                Some(v) => Ok(Some(v)),
                None => Err(undecodable(b.len())),
            },
        }
    }

    /// The value's bytes, borrowed until the context is used again.
    #[inline(always)]
    pub fn bytes<'c>(&self, ctx: &'c mut Ctx) -> Result<Option<&'c [u8]>> {
        if T::MAX_BYTES != 0 && T::MAX_BYTES <= abi::MAX_PREFETCH_BYTES {
            return ctx.cell(self.slot);
        }
        host_get(ctx, self.index, &[])
    }

    /// Sets the value. Errors: not keyed, longer than declared.
    #[inline(always)]
    pub fn set(&self, ctx: &mut Ctx, v: &T) -> Result<()> {
        if T::MAX_BYTES != 0 && T::MAX_BYTES <= abi::MAX_PREFETCH_BYTES {
            return v.with_bytes(|b| ctx.set_cell(self.slot, b));
        }
        v.with_bytes(|b| done("put", host::put(self.index, &[], b)))
    }

    /// Forgets the value; fine if there is none.
    pub fn clear(&self, ctx: &mut Ctx) -> Result<()> {
        if T::MAX_BYTES != 0 && T::MAX_BYTES <= abi::MAX_PREFETCH_BYTES {
            return ctx.clear_cell(self.slot);
        }
        done("clear", host::clear(self.index))
    }
}

/// An append-only list per key.
pub struct List<T> {
    index: u32,
    of: PhantomData<fn() -> T>,
}

impl<T: Codec> List<T> {
    #[doc(hidden)]
    pub const KIND: StateKind = StateKind::List;
    #[doc(hidden)]
    pub const MAX_BYTES: usize = T::MAX_BYTES;
    #[doc(hidden)]
    pub const SCHEMA: Schema = T::SCHEMA;
    #[doc(hidden)]
    pub const KEY_SCHEMA: Schema = Schema::Unknown;

    #[doc(hidden)]
    pub const fn at(index: usize, _: &[StateDesc]) -> Self {
        List { index: index as u32, of: PhantomData }
    }

    /// Appends an element. Errors: not keyed, over the limit of one value.
    pub fn append(&self, _: &mut Ctx, v: &T) -> Result<()> {
        v.with_bytes(|b| done("append", host::append(self.index, b)))
    }

    /// Calls `each` with every element in order until it returns an error.
    pub fn for_each(&self, ctx: &mut Ctx, mut each: impl FnMut(T) -> Result<()>) -> Result<()> {
        scan(ctx, self.index, &[], |_, v| {
            each(T::decode(v).ok_or_else(|| undecodable(v.len()))?)?;
            Ok(true)
        })
    }

    /// Forgets all elements.
    pub fn clear(&self, _: &mut Ctx) -> Result<()> {
        done("clear", host::clear(self.index))
    }
}

/// A sorted map per key.
pub struct Map<K: ?Sized, V> {
    index: u32,
    of: PhantomData<fn(&K) -> V>,
}

impl<K: MapKey + ?Sized, V: Codec> Map<K, V> {
    #[doc(hidden)]
    pub const KIND: StateKind = StateKind::Map;
    #[doc(hidden)]
    pub const MAX_BYTES: usize = V::MAX_BYTES;
    #[doc(hidden)]
    pub const SCHEMA: Schema = V::SCHEMA;
    #[doc(hidden)]
    pub const KEY_SCHEMA: Schema = K::KEY_SCHEMA;

    #[doc(hidden)]
    pub const fn at(index: usize, _: &[StateDesc]) -> Self {
        Map { index: index as u32, of: PhantomData }
    }

    /// The entry of `k`; `None` if there is none.
    pub fn get(&self, ctx: &mut Ctx, k: &K) -> Result<Option<V>> {
        k.with_key(|kb| match host_get(ctx, self.index, kb)? {
            None => Ok(None),
            Some(b) => match V::decode(b) {
                Some(v) => Ok(Some(v)),
                None => Err(undecodable(b.len())),
            },
        })
    }

    /// Sets the entry of `k`. Errors: not keyed, over the limits of a key or value.
    pub fn put(&self, _: &mut Ctx, k: &K, v: &V) -> Result<()> {
        k.with_key(|kb| v.with_bytes(|vb| done("put", host::put(self.index, kb, vb))))
    }

    /// Removes the entry of `k`; fine if there is none.
    pub fn remove(&self, _: &mut Ctx, k: &K) -> Result<()> {
        k.with_key(|kb| done("delete", host::delete(self.index, kb)))
    }

    /// Calls `each` with the entries in key order, until it returns `Ok(false)` or an error. Do not
    /// change the map meanwhile.
    pub fn scan(&self, ctx: &mut Ctx, mut each: impl FnMut(K::Owned, V) -> Result<bool>) -> Result<()> {
        scan(ctx, self.index, &[], |k, v| entry::<K, V>(k, v, &mut each))
    }

    /// As `scan`, beginning at the first key at or after `from`.
    pub fn scan_from(&self, ctx: &mut Ctx, from: &K, mut each: impl FnMut(K::Owned, V) -> Result<bool>) -> Result<()> {
        from.with_key(|f| scan(ctx, self.index, f, |k, v| entry::<K, V>(k, v, &mut each)))
    }

    /// Removes all entries of the current key.
    pub fn clear(&self, _: &mut Ctx) -> Result<()> {
        done("clear", host::clear(self.index))
    }
}

fn entry<K: MapKey + ?Sized, V: Codec>(
    k: &[u8],
    v: &[u8],
    each: &mut impl FnMut(K::Owned, V) -> Result<bool>,
) -> Result<bool> {
    let key = K::decode_key(k).ok_or_else(|| undecodable(k.len()))?;
    each(key, V::decode(v).ok_or_else(|| undecodable(v.len()))?)
}

fn done(call: &'static str, status: i32) -> Result<()> {
    if status < 0 && status != abi::STATUS_ABSENT {
        return Err(Error::status(call, status));
    }
    Ok(())
}

#[cold]
fn undecodable(len: usize) -> Error {
    Error::new(alloc::format!("state of {len} bytes cannot be decoded as the declared type"))
}

const FIRST_BUFFER: usize = 512;

/// The scratch buffer is lent out of the context, so that callbacks may use both.
fn host_get<'c>(ctx: &'c mut Ctx, state: u32, ukey: &[u8]) -> Result<Option<&'c [u8]>> {
    if ctx.scratch.is_empty() {
        ctx.scratch.resize(FIRST_BUFFER, 0);
    }
    loop {
        let n = host::get(state, ukey, &mut ctx.scratch);
        if n == abi::STATUS_ABSENT as i64 {
            return Ok(None);
        }
        if n < 0 {
            return Err(Error::status("get", n as i32));
        }
        if n as usize <= ctx.scratch.len() {
            return Ok(Some(&ctx.scratch[..n as usize]));
        }
        ctx.scratch.resize((n as usize).next_power_of_two(), 0);
    }
}

fn scan(ctx: &mut Ctx, state: u32, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
    let iter = host::scan(state, from);
    if iter < 0 {
        return Err(Error::status("scan", iter));
    }
    let iter = iter as u32;
    let mut buf = core::mem::take(&mut ctx.scratch);
    let result = scan_batches(iter, &mut buf, &mut each);
    ctx.scratch = buf;
    let closed = host::scan_close(iter);
    result.and_then(|_| done("scan_close", closed))
}

fn scan_batches(
    iter: u32,
    buf: &mut alloc::vec::Vec<u8>,
    each: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    const FIRST_SCAN_BUFFER: usize = 4 << 10;
    if buf.len() < FIRST_SCAN_BUFFER {
        buf.resize(FIRST_SCAN_BUFFER, 0);
    }
    loop {
        let n = host::scan_next(iter, buf);
        if n == abi::STATUS_TOO_SMALL && word(buf, 0) > buf.len() {
            let need = word(buf, 0);
            buf.resize(need.next_power_of_two(), 0);
            continue;
        }
        if n < 0 {
            return Err(Error::status("scan_next", n));
        }
        if n == 0 {
            return Ok(());
        }
        let mut at = 0;
        while at < n as usize {
            let (kl, vl) = (word(buf, at), word(buf, at + 4));
            let k = at + abi::SCAN_ENTRY_HEADER;
            if !each(&buf[k..k + kl], &buf[k + kl..k + kl + vl])? {
                return Ok(());
            }
            at = k + kl + vl;
        }
    }
}

fn word(b: &[u8], at: usize) -> usize {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]) as usize
}
