// The guest side of ABI v0 in plain C, as thin as it can be: offsets, imports, and the loop over a block.
// Not an SDK; the test guests use it, and it shows what an SDK has to do.
#ifndef MR_H
#define MR_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define MR_IMPORT(n) __attribute__((import_module("mr"), import_name(n)))
#define MR_EXPORT(n) __attribute__((export_name(n)))

MR_IMPORT("next") i32 mr_next(u32 i);
MR_IMPORT("fail") void mr_fail(const void *msg, u32 len);
MR_IMPORT("get") i64 mr_get(u32 state, const void *ukey, u32 ukey_len, void *buf, u32 cap);
MR_IMPORT("put") i32 mr_put(u32 state, const void *ukey, u32 ukey_len, const void *val, u32 len);
MR_IMPORT("delete") i32 mr_delete(u32 state, const void *ukey, u32 ukey_len);
MR_IMPORT("clear") i32 mr_clear(u32 state);
MR_IMPORT("append") i32 mr_append(u32 state, const void *val, u32 len);
MR_IMPORT("scan") i32 mr_scan(u32 state, const void *from, u32 from_len);
MR_IMPORT("scan_next") i32 mr_scan_next(u32 iter, void *buf, u32 cap);
MR_IMPORT("scan_close") i32 mr_scan_close(u32 iter);
MR_IMPORT("timer_set") i32 mr_timer_set(u32 domain, const void *name, u32 len, i64 time);
MR_IMPORT("timer_delete") i32 mr_timer_delete(u32 domain, const void *name, u32 len, i64 time);
MR_IMPORT("emit") i32 mr_emit(const void *frame, u32 len, u32 at);
MR_IMPORT("log") void mr_log(u32 level, const void *msg, u32 len);
MR_IMPORT("metric") i32 mr_metric(const void *name, u32 len, i64 add);
MR_IMPORT("random") i32 mr_random(void *buf, u32 len);

enum { FRAME_HEADER = 40, OUT_HEADER = 16, FLAG_KEY = 1, FLAG_VALUE = 2 };

struct block {
  u32 kind, n, offsets, keys, nkeys, nstates, states, nmarks, marks, function;
  i64 watermark, processing;
  u64 zero;
};

struct frame {
  u32 size;
  u8 flags, op, output, zero;
  i64 time;
  u32 key_len, value_len, split, cause;
  u64 offset;
  u8 data[];
};

struct out_header {
  u32 consumed, bytes, frames, zero;
};

// out is the output buffer while a block is processed.
struct out {
  u8 *at, *end;
  u32 frames;
};

#define MR_VERSION MR_EXPORT("mr_abi_v0") void mr_abi_v0(void) {}

// MR_DESCRIPTOR puts JSON into the custom section; quotes inside it are written as \\\".
#define MR_DESCRIPTOR(json) __asm__(".section .custom_section.mr.descriptor,\"\",@\n .ascii \"" json "\"\n")

// MR_ALLOC hands out memory behind what the linker placed, and never takes it back.
#define MR_ALLOC \
  extern u8 __heap_base; \
  static u32 heap_top; \
  MR_EXPORT("mr_alloc") u32 mr_alloc(u32 size) { \
    if (!heap_top) heap_top = (u32)&__heap_base; \
    u32 at = (heap_top + 15) & ~15u; \
    u64 end = (u64)at + size; \
    u64 have = (u64)__builtin_wasm_memory_size(0) << 16; \
    if (end > have && __builtin_wasm_memory_grow(0, (end - have + 65535) >> 16) == ~0u) return 0; \
    heap_top = (u32)end; \
    return at; \
  }

// MR_LOOP is mr_process for the function `void user(struct block *, u32 i, struct frame *, struct out *)`,
// which may write up to `reserve` bytes per record. next comes before the exit test, and user is a frame
// of its own, so that the fuel of a record doesn't depend on where the batch was cut.
#define MR_LOOP(user, reserve) \
  MR_EXPORT("mr_process") i32 mr_process(u8 *in, u32 in_len, u8 *outp, u32 out_cap, u32 first) { \
    struct block *b = (struct block *)in; \
    const u32 *offsets = (const u32 *)(in + b->offsets); \
    struct out o = {outp + OUT_HEADER, outp + out_cap, 0}; \
    u32 n = b->n, i = first; \
    for (;; i++) { \
      if (mr_next(i) | ((u32)(o.end - o.at) < (reserve))) break; \
      if (i >= n) break; \
      user(b, i, (struct frame *)(in + offsets[i]), &o); \
    } \
    struct out_header *h = (struct out_header *)outp; \
    h->consumed = i; \
    h->bytes = o.at - outp - OUT_HEADER; \
    h->frames = o.frames; \
    return i < n; \
  }

#endif
