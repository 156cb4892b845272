// The guest side of ABI v0 in AssemblyScript, as thin as it can be: offsets, the imports in use, and the loop.

@external("mr", "next")
declare function next(i: u32): u32;

@external("mr", "fail")
export declare function fail(msg: usize, len: u32): void;

// Record frame
export const FRAME_KEY_LEN: usize = 16;
export const FRAME_VALUE_LEN: usize = 20;
export const FRAME_HEADER: usize = 40;
const FRAME_FLAGS: usize = 4;
const FRAME_OUTPUT: usize = 6;
const FRAME_CAUSE: usize = 28;
const FLAG_KEY: u8 = 1;
const FLAG_VALUE: u8 = 2;

// Call block and output buffer
const BLOCK_N: usize = 4;
const BLOCK_OFFSETS: usize = 8;
const OUT_HEADER: usize = 16;

// When less output space than this is left, the loop yields before the next record.
const RESERVE: usize = 4096;

/** Output space of a call. */
export class Out {
  at: usize = 0;
  end: usize = 0;
  frames: u32 = 0;

  /** Writes a frame that has the key and place of the record's frame, and a value of `n` bytes at `value`. */
  put(frame: usize, cause: u32, value: usize, n: u32): void {
    const key = load<u32>(frame + FRAME_KEY_LEN);
    const size = FRAME_HEADER + key + n;
    memory.copy(this.at, frame, FRAME_HEADER + key);
    store<u32>(this.at, <u32>size);
    store<u8>(this.at + FRAME_FLAGS, FLAG_KEY | FLAG_VALUE);
    store<u8>(this.at + FRAME_OUTPUT, 0);
    store<u32>(this.at + FRAME_CAUSE, cause);
    store<u32>(this.at + FRAME_VALUE_LEN, n);
    memory.copy(this.at + FRAME_HEADER + key, value, n);
    this.at += size;
    this.frames++;
  }
}

const out = new Out();

/** The records of a call. next comes before the exit test, so that a record's fuel does not depend on the cut. */
export function each(block: usize, buf: usize, cap: u32, first: u32, step: (i: u32, frame: usize, out: Out) => void): i32 {
  const n = load<u32>(block + BLOCK_N);
  const offsets = block + load<u32>(block + BLOCK_OFFSETS);
  out.at = buf + OUT_HEADER;
  out.end = buf + cap;
  out.frames = 0;
  let i = first;
  for (;;) {
    const stop = next(i);
    if (stop | u32(out.end - out.at < RESERVE) | u32(i >= n)) break;
    step(i, block + load<u32>(offsets + 4 * i), out);
    i++;
  }
  store<u32>(buf, i);
  store<u32>(buf + 4, <u32>(out.at - buf - OUT_HEADER));
  store<u32>(buf + 8, out.frames);
  store<u32>(buf + 12, 0);
  return i < n ? 1 : 0;
}
