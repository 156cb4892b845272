// Keeps everything in its own variables, as guest.c beside it says.

import { FRAME_HEADER, FRAME_KEY_LEN, FRAME_VALUE_LEN, Out, each, fail } from "./abi";

export function mr_abi_v0(): void {}

/** Outside of what the garbage collector manages: the host's buffers stay where they are. */
export function mr_alloc(size: u32): usize {
  return heap.alloc(size);
}

const descriptor = String.UTF8.encode(
  '{"abi":0,"name":"ledger","snapshot":"memory","save":true,"load":true,' +
    '"functions":[{"name":"ledger","kind":"process","keyed":true}]}',
);

export function mr_describe(): u64 {
  return ((<u64>changetype<usize>(descriptor)) << 32) | descriptor.byteLength;
}

class Entry {
  count: u64 = 0;
  xor: u64 = 0;
  at: i32 = 0; // of its last record in numbers, from 1; 0: it has none
}

const entries = new Map<string, Entry>();
const numbers = new Array<u64>(); // of all records, in the order of their coming

function entryOf(key: string): Entry {
  if (entries.has(key)) return entries.get(key);
  const e = new Entry();
  entries.set(key, e);
  return e;
}

/** A record's number stands behind the last space. One without spoils a counter of its key and then fails. */
function add(i: u32, frame: usize, out: Out): void {
  const keyBytes = load<u32>(frame + FRAME_KEY_LEN);
  const value = frame + FRAME_HEADER + keyBytes;
  const end = value + load<u32>(frame + FRAME_VALUE_LEN);
  let p = end;
  while (p > value && load<u8>(p - 1) != 0x20) p--;
  const key = String.UTF8.decodeUnsafe(frame + FRAME_HEADER, keyBytes);
  const e = entryOf(key);
  e.count++;
  let n: u64 = 0;
  let digits = 0;
  for (; p < end && load<u8>(p) >= 0x30 && load<u8>(p) <= 0x39; p++, digits++) n = n * 10 + (load<u8>(p) - 0x30);
  assert(digits > 0 && p == end, "a record without a number");
  e.xor ^= n;
  const was: u64 = e.at > 0 ? numbers[e.at - 1] : 0;
  e.at = numbers.push(n);
  const line = String.UTF8.encode(
    '{"key":"' + key + '","count":' + e.count.toString() + ',"n":' + n.toString() + ',"xor":' + e.xor.toString() +
      ',"was":' + was.toString() + "}",
  );
  out.put(frame, i, changetype<usize>(line), line.byteLength);
}

export function mr_process(block: usize, len: u32, buf: usize, cap: u32, first: u32): i32 {
  return each(block, buf, cap, first, add);
}

// What goes over to or from another module.
let stream = new Array<u8>();
let written = 0;
let made = false;

function push(v: u64): void {
  for (let i = 0; i < 8; i++, v >>= 8) stream.push(<u8>v);
}

function make(): void {
  stream.push(1);
  const keys = entries.keys();
  for (let k = 0; k < keys.length; k++) {
    const e = entries.get(keys[k]);
    const key = Uint8Array.wrap(String.UTF8.encode(keys[k]));
    stream.push(<u8>key.length);
    for (let i = 0; i < key.length; i++) stream.push(key[i]);
    push(e.count);
    push(e.xor);
    push(e.at > 0 ? numbers[e.at - 1] : 0);
  }
}

export function mr_save(buf: usize, cap: u32): i32 {
  if (!made) {
    make();
    made = true;
  }
  let n: u32 = 0;
  for (; n < cap && written < stream.length; n++, written++) store<u8>(buf + n, stream[written]);
  return n;
}

function refuse(why: string): i32 {
  const text = String.UTF8.encode(why);
  fail(changetype<usize>(text), text.byteLength);
  return 1;
}

function number(at: i32): u64 {
  let v: u64 = 0;
  for (let i = 7; i >= 0; i--) v = (v << 8) | stream[at + i];
  return v;
}

export function mr_load(part: usize, len: u32): i32 {
  if (len > 0) {
    for (let i: u32 = 0; i < len; i++) stream.push(load<u8>(part + i));
    return 0;
  }
  if (stream.length == 0 || stream[0] != 1) return refuse("the stream is of another version than 1");
  for (let at = 1; at < stream.length; ) {
    const n = <i32>stream[at++];
    if (at + n + 24 > stream.length) return refuse("the stream is cut");
    const key = String.UTF8.decodeUnsafe(stream.dataStart + at, n);
    at += n;
    const e = entryOf(key);
    e.count = number(at);
    e.xor = number(at + 8);
    e.at = numbers.push(number(at + 16));
    at += 24;
  }
  stream = new Array<u8>();
  return 0;
}
