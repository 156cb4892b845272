// A guest that keeps everything in its own variables: per key how many records came and the xor of their
// numbers, in a hash table that grows. Its memory is in the snapshots, so it needs no state calls. A record
// is "key n"; any other spoils a counter of its key and then traps.
#include "../include/mr.h"

MR_VERSION
MR_ALLOC
MR_DESCRIPTOR("{\\\"abi\\\":0,\\\"name\\\":\\\"ledger\\\",\\\"snapshot\\\":\\\"memory\\\",\\\"functions\\\":[{\\\"name\\\":\\\"ledger\\\",\\\"kind\\\":\\\"process\\\",\\\"keyed\\\":true}]}");

struct entry {
  u32 len; // of the key; 0: free
  u64 count, xor;
  u8 key[44];
};

static struct entry *table;
static u32 size, used; // size is a power of two

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
  const u8 *v = f->data + f->key_len, *end = v + f->value_len, *key = v;
  while (v < end && *v != ' ') v++;
  u32 len = v - key;
  if (len == 0 || len > 44) __builtin_trap();
  if (!table || 4 * used >= 3 * size) grow();
  struct entry *e = find(key, len);
  if (!e->len) {
    e->len = len;
    e->count = e->xor = 0;
    for (u32 k = 0; k < len; k++) e->key[k] = key[k];
    used++;
  }
  e->count++;
  u64 n = 0;
  u32 digits = 0;
  for (v++; v < end && *v >= '0' && *v <= '9'; v++, digits++) n = n * 10 + (*v - '0');
  if (!digits) __builtin_trap(); // with the counter already changed
  e->xor ^= n;
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
  *p++ = '}';
  g->value_len = p - value;
  g->size = p - o->at;
  o->at = p;
  o->frames++;
}

MR_LOOP(user, 4096)
