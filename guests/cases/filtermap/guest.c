// Stateless filter and map: records whose value begins with a u64 that is a multiple of 4 are dropped,
// of the others the first value word is scaled and the rest is copied. The bench compares it with the
// same in Go.
#include "../include/mr.h"

MR_VERSION
MR_ALLOC
MR_DESCRIPTOR("{\\\"abi\\\":0,\\\"name\\\":\\\"filtermap\\\",\\\"functions\\\":[{\\\"name\\\":\\\"filtermap\\\",\\\"kind\\\":\\\"flat_map\\\"}]}");

static inline __attribute__((always_inline)) void user(struct block *b, u32 i, struct frame *f, struct out *o) {
  u64 *word = (u64 *)(f->data + f->key_len);
  if ((*word & 3) == 0) return;
  struct frame *g = (struct frame *)o->at;
  __builtin_memcpy(g, f, f->size);
  g->cause = i;
  *(u64 *)(g->data + g->key_len) = *word * 3 + 1;
  o->at += f->size;
  o->frames++;
}

MR_LOOP(user, 4096)
