// A guest that does on request everything a guest can do, good or bad: the first byte of a record's value
// is the request, the rest its arguments.
#include "../include/mr.h"

__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_write"))) i32 fd_write(u32 fd, const void *iovs, u32 n, u32 *written);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("clock_time_get"))) i32 clock_time_get(u32 id, u64 precision, u64 *ns);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("random_get"))) i32 random_get(void *buf, u32 len);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("proc_exit"))) void proc_exit(u32 code);
__attribute__((import_module("env"), import_name("abort"))) void as_abort(const void *msg, const void *file, u32 line, u32 column);

MR_VERSION
MR_ALLOC
MR_DESCRIPTOR("{\\\"abi\\\":0,\\\"name\\\":\\\"kitchen\\\",\\\"functions\\\":[{\\\"name\\\":\\\"kitchen\\\",\\\"kind\\\":\\\"process\\\",\\\"keyed\\\":true,\\\"outputs\\\":[\\\"side\\\"],\\\"timers\\\":[\\\"event\\\"],\\\"states\\\":[{\\\"name\\\":\\\"large\\\",\\\"kind\\\":\\\"value\\\"},{\\\"name\\\":\\\"map\\\",\\\"kind\\\":\\\"map\\\"}]}]}");

static u32 initialised; // by _initialize: 1 in every instance
static u32 counter;     // records of this instance that asked for it
static volatile u32 sink;

MR_EXPORT("_initialize") void initialize(void) { initialised++; }

static u8 scratch[65536];

static void put(u32 i, struct frame *f, struct out *o, const void *p, u32 n) {
  struct frame *g = (struct frame *)o->at;
  __builtin_memcpy(g, f, FRAME_HEADER);
  g->flags = FLAG_VALUE;
  g->key_len = 0;
  g->value_len = n;
  g->cause = i;
  g->size = FRAME_HEADER + n;
  __builtin_memcpy(g->data, p, n);
  o->at += g->size;
  o->frames++;
}

__attribute__((noinline)) static u32 recurse(u32 n) {
  u32 r = recurse(n + 1);
  sink = r + n; // after the call: no loop can be made of it
  return sink;
}

__attribute__((noinline)) static void explode(void) { __builtin_trap(); }

// calls makes host call number a[0] with arguments a[1..].
static i64 call(const u32 *a) {
  switch (a[0]) {
  case 0: mr_fail((void *)a[1], a[2]); return 0;
  case 1: return mr_get(a[1], (void *)a[2], a[3], (void *)a[4], a[5]);
  case 2: return mr_put(a[1], (void *)a[2], a[3], (void *)a[4], a[5]);
  case 3: return mr_delete(a[1], (void *)a[2], a[3]);
  case 4: return mr_clear(a[1]);
  case 5: return mr_append(a[1], (void *)a[2], a[3]);
  case 6: return mr_scan(a[1], (void *)a[2], a[3]);
  case 7: return mr_scan_next(a[1], (void *)a[2], a[3]);
  case 8: return mr_scan_close(a[1]);
  case 9: return mr_timer_set(a[1], (void *)a[2], a[3], (i64)a[4]);
  case 10: return mr_timer_delete(a[1], (void *)a[2], a[3], (i64)a[4]);
  case 11: return mr_emit((void *)a[1], a[2], a[3]);
  case 12: mr_log(a[1], (void *)a[2], a[3]); return 0;
  case 13: return mr_metric((void *)a[1], a[2], (i64)a[3]);
  case 14: return mr_random((void *)a[1], a[2]);
  case 15: return fd_write(a[1], (void *)a[2], a[3], (void *)a[4]);
  case 16: return clock_time_get(a[1], 0, (void *)a[2]);
  case 17: return random_get((void *)a[1], a[2]);
  case 18: as_abort((void *)a[1], (void *)a[2], a[3], a[4]); return 0;
  }
  return 0;
}

static void print(u32 fd, const u8 *p, u32 n) {
  u32 iov[2] = {(u32)p, n}, written;
  fd_write(fd, iov, 1, &written);
}

__attribute__((noinline)) static void user(struct block *b, u32 i, struct frame *f, struct out *o) {
  const u8 *v = f->data + f->key_len;
  u32 n = f->value_len - 1;
  const u8 *arg = v + 1;
  u32 word = 0;
  if (n >= 4) __builtin_memcpy(&word, arg, 4);
  switch (v[0]) {
  case 'e': put(i, f, o, arg, n); break;
  case 'b': explode(); break;
  case 'l': for (;;) sink++;
  case 'r': sink = recurse(0); break;
  case 'm': // take memory until there is none left
    while (__builtin_wasm_memory_grow(0, 1) != ~0u) {
      *(volatile u8 *)((__builtin_wasm_memory_size(0) << 16) - 1) = 1;
    }
    explode();
  case 'G': { // take word pages and use them
    u32 at = __builtin_wasm_memory_grow(0, word);
    if (at != ~0u) for (u32 p = at << 16; p < __builtin_wasm_memory_size(0) << 16; p += 4096) *(volatile u8 *)p = 7;
    put(i, f, o, &at, 4);
    break;
  }
  case 'f': mr_fail(arg, n); break;
  case 'c': counter++; { u32 r[2] = {initialised, counter}; put(i, f, o, r, 8); } break;
  case 'q': for (u32 k = 0; k < word; k++) sink = k; put(i, f, o, &word, 4); break;
  case 'w': print(2, arg, n); break;
  case 'W': print(2, arg, n); explode(); break;
  case 'E': proc_exit(word); break;
  case 'n': mr_next(word); break;
  case 'x': { u32 a[6] = {0}; __builtin_memcpy(a, arg, n < 24 ? n : 24); i64 r = call(a); put(i, f, o, &r, 8); break; }
  case 's': { // C042: the host must have copied, not aliased
    __builtin_memset(scratch, 'A', 4);
    i32 st = mr_put(0, 0, 0, scratch, 4);
    __builtin_memset(scratch, 'Z', 4);
    __builtin_wasm_memory_grow(0, 1);
    put(i, f, o, scratch, 4);
    put(i, f, o, &st, 4);
    break;
  }
  case 'g': { i64 r = mr_get(0, 0, 0, scratch, sizeof scratch); put(i, f, o, scratch, r > 0 ? r : 0); break; }
  case 't': { // the clock and random bytes
    u64 r[3];
    clock_time_get(0, 0, r);
    random_get(r + 1, 8);
    mr_random(r + 2, 8);
    put(i, f, o, r, 24);
    break;
  }
  case 'a': { // what AssemblyScript does: a length, then UTF-16
    static u16 msg[] = {0, 0, 'n', 'o', ' ', 0xe9, 0xd83d, 0xde00};
    static u16 file[] = {0, 0, 'a', '.', 't', 's'};
    *(u32 *)msg = 12;
    *(u32 *)file = 8;
    as_abort(msg + 2, file + 2, 12, 34);
  }
  case 'h': // a header that lies: consumed, bytes, frames, status follow in the argument
    break;
  }
}

MR_EXPORT("mr_process") i32 mr_process(u8 *in, u32 in_len, u8 *outp, u32 out_cap, u32 first) {
  struct block *b = (struct block *)in;
  const u32 *offsets = (const u32 *)(in + b->offsets);
  struct out o = {outp + OUT_HEADER, outp + out_cap, 0};
  u32 n = b->n, i = first;
  if (b->function == 1) explode(); // outside any record
  for (;; i++) {
    if (mr_next(i) | ((u32)(o.end - o.at) < 2048)) break;
    if (i >= n) break;
    struct frame *f = (struct frame *)(in + offsets[i]);
    const u8 *v = f->data + f->key_len;
    if (v[0] == 'h') { // lie
      __builtin_memcpy(outp, v + 1, 12);
      u32 status;
      __builtin_memcpy(&status, v + 13, 4);
      return status;
    }
    if (v[0] == 'y') { // go on after yield was asked for
      while (!mr_next(++i)) sink++;
      mr_next(++i);
    }
    if (v[0] == 'H') return 0; // no header at all
    user(b, i, f, &o);
  }
  struct out_header *h = (struct out_header *)outp;
  h->consumed = i;
  h->bytes = o.at - outp - OUT_HEADER;
  h->frames = o.frames;
  return i < n;
}
