// A guest that keeps everything in its own variables: per key how many records came and the xor of their
// numbers, in a hash table that grows, and of each record its number in a buffer that grows; "was" is read back
// from there. Its memory is in the snapshots, so it needs no state calls. A record's number
// stands behind the last space of its value; one without spoils a counter of its key and then traps. The
// guests in other languages beside this one do the same, and take over by the same stream: a byte 1, then of each
// key u8 length, key, u64 count, xor and last number.
#include "../include/mr.h"

MR_VERSION
MR_ALLOC
MR_DESCRIPTOR("{\\\"abi\\\":0,\\\"name\\\":\\\"ledger\\\",\\\"snapshot\\\":\\\"memory\\\",\\\"save\\\":true,\\\"load\\\":true,\\\"functions\\\":[{\\\"name\\\":\\\"ledger\\\",\\\"kind\\\":\\\"process\\\",\\\"keyed\\\":true}]}");

struct entry {
  u32 len; // of the key; 0: free
  u64 count, xor;
  u32 at; // of its last record in numbers, from 1; 0: it has none
  u8 key[40];
};

static struct entry *table;
static u32 size, used; // size is a power of two
static u64 *numbers;   // of all records, in the order of their coming
static u32 room, seen;

static u32 hash(const u8 *k, u32 n) {
  u32 h = 2166136261u;
  for (u32 i = 0; i < n; i++) h = (h ^ k[i]) * 16777619u;
  return h;
}

static struct entry *find(const u8 *k, u32 n) {
  for (u32 i = hash(k, n) & (size - 1);; i = (i + 1) & (size - 1)) {
    struct entry *e = &table[i];
    if (!e->len) return e;
    if (e->len == n && !__builtin_memcmp(e->key, k, n)) return e;
  }
}

static void grow(void) {
  struct entry *old = table;
  u32 n = size;
  size = n ? 2 * n : 64;
  table = (struct entry *)mr_alloc(size * sizeof *table);
  if (!table) __builtin_trap();
  for (u32 i = 0; i < size; i++) table[i].len = 0;
  for (u32 i = 0; i < n; i++)
    if (old[i].len) *find(old[i].key, old[i].len) = old[i];
}

static void remember(struct entry *e, u64 n) {
  if (seen == room) {
    u64 *old = numbers;
    room = room ? 2 * room : 64;
    numbers = (u64 *)mr_alloc(room * sizeof *numbers);
    if (!numbers) __builtin_trap();
    for (u32 i = 0; i < seen; i++) numbers[i] = old[i];
  }
  numbers[seen++] = n;
  e->at = seen;
}

static struct entry *entry_of(const u8 *key, u32 len) {
  if (len == 0 || len > sizeof table->key) __builtin_trap();
  if (!table || 4 * used >= 3 * size) grow();
  struct entry *e = find(key, len);
  if (!e->len) {
    e->len = len;
    e->count = e->xor = e->at = 0;
    for (u32 k = 0; k < len; k++) e->key[k] = key[k];
    used++;
  }
  return e;
}

int memcmp(const void *a, const void *b, unsigned long n) {
  const u8 *x = a, *y = b;
  for (; n; n--, x++, y++)
    if (*x != *y) return *x - *y;
  return 0;
}

static u8 *text(u8 *p, const char *s) {
  while (*s) *p++ = *s++;
  return p;
}

static u8 *number(u8 *p, u64 v) {
  u8 d[20];
  u32 n = 0;
  do d[n++] = '0' + v % 10;
  while (v /= 10);
  while (n) *p++ = d[--n];
  return p;
}

__attribute__((noinline)) static void user(struct block *b, u32 i, struct frame *f, struct out *o) {
  const u8 *key = f->data, *begin = key + f->key_len, *end = begin + f->value_len, *v = end;
  u32 len = f->key_len;
  while (v > begin && v[-1] != ' ') v--;
  struct entry *e = entry_of(key, len);
  e->count++;
  u64 n = 0;
  u32 digits = 0;
  for (; v < end && *v >= '0' && *v <= '9'; v++, digits++) n = n * 10 + (*v - '0');
  if (!digits || v < end) __builtin_trap(); // with the counter already changed
  e->xor ^= n;
  u64 was = e->at ? numbers[e->at - 1] : 0;
  remember(e, n);
  struct frame *g = (struct frame *)o->at;
  *g = *f;
  g->flags = FLAG_KEY | FLAG_VALUE;
  g->output = 0;
  g->cause = i;
  u8 *p = g->data;
  for (u32 k = 0; k < f->key_len; k++) *p++ = f->data[k];
  u8 *value = p;
  p = text(p, "{\"key\":\"");
  for (u32 k = 0; k < len; k++) *p++ = key[k];
  p = number(text(p, "\",\"count\":"), e->count);
  p = number(text(p, ",\"n\":"), n);
  p = number(text(p, ",\"xor\":"), e->xor);
  p = number(text(p, ",\"was\":"), was);
  *p++ = '}';
  g->value_len = p - value;
  g->size = p - o->at;
  o->at = p;
  o->frames++;
}

MR_LOOP(user, 4096)

// The stream: what is not yet written or read is in bytes.
static struct { u8 *data; u32 len, at, room, ready; } bytes;

static void push(const void *from, u32 n) {
  if (bytes.len + n > bytes.room) {
    u8 *old = bytes.data;
    bytes.room = 2 * bytes.room + n + 1024;
    bytes.data = (u8 *)mr_alloc(bytes.room);
    if (!bytes.data) __builtin_trap();
    for (u32 i = 0; i < bytes.len; i++) bytes.data[i] = old[i];
  }
  for (u32 i = 0; i < n; i++) bytes.data[bytes.len++] = ((const u8 *)from)[i];
}

MR_EXPORT("mr_save") i32 mr_save(u8 *buf, u32 cap) {
  if (!bytes.ready) {
    bytes.ready = 1;
    push("\1", 1);
    for (u32 i = 0; i < size; i++) {
      struct entry *e = &table[i];
      if (!e->len) continue;
      u8 len = e->len;
      u64 numbers_of[3] = {e->count, e->xor, e->at ? numbers[e->at - 1] : 0};
      push(&len, 1);
      push(e->key, len);
      push(numbers_of, sizeof numbers_of);
    }
  }
  u32 n = bytes.len - bytes.at;
  if (n > cap) n = cap;
  for (u32 i = 0; i < n; i++) buf[i] = bytes.data[bytes.at++];
  return n;
}

static i32 refuse(const char *why) {
  u32 n = 0;
  while (why[n]) n++;
  mr_fail(why, n);
  return 1;
}

MR_EXPORT("mr_load") i32 mr_load(const u8 *buf, u32 n) {
  if (n) {
    push(buf, n);
    return 0;
  }
  const u8 *p = bytes.data, *end = p + bytes.len;
  if (p == end || *p++ != 1) return refuse("the stream is of another version than 1");
  while (p < end) {
    u32 len = *p++;
    if (len == 0 || len > sizeof table->key || p + len + 24 > end) return refuse("the stream is cut");
    struct entry *e = entry_of(p, len);
    p += len;
    u64 v[3];
    for (u32 i = 0; i < sizeof v; i++) ((u8 *)v)[i] = *p++;
    e->count = v[0];
    e->xor = v[1];
    remember(e, v[2]);
  }
  return 0;
}
